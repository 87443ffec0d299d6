"""What to probe next, for the smallest change that flips something.

Pure: a search says which values it wants to know of, and is told of each whether it flips,
keeps, or could not be judged. It makes no assumption that it would have to take back: what it
finds is a value that flips beside one that keeps.

Numbers are searched outward from the recorded one by doubling steps, up and down at once, and
then by halving between the last value that keeps and the first that flips. What could not be
judged is neither: the search goes on on both sides of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

REACH = 20  # doublings on each side where nothing bounds the search
FIRST = 64  # part of the recorded value that the first step is
RELATIVE = 1e-6  # how close to the flip a float is to come, of the recorded value
WAVE = 4  # candidates that are tried at once

Answer = bool | None  # whether it flips; None for: could not be judged


class Searching(Protocol):
    """A way to search."""

    @property
    def most(self) -> int:
        """How many probes it may want, at most."""

    def wanted(self) -> list[Any]:
        """What to probe next; nothing where it is over."""

    def told(self, value: Any, answer: Answer) -> None:
        """What came of one probe."""


@dataclass(slots=True)
class Candidates:
    """Goes through a list in order, by the position of each; all of it, or until one flips."""

    count: int
    every: bool = False
    wave: int = WAVE
    flipped: bool = False
    _next: int = 0

    @property
    def most(self) -> int:
        """How many there are."""
        return self.count

    def wanted(self) -> list[int]:
        """The next ones; all of them where it goes through all."""
        if self.flipped and not self.every:
            return []
        end = self.count if self.every else min(self.count, self._next + self.wave)
        return list(range(self._next, end))

    def told(self, value: int, answer: Answer) -> None:
        """What came of one."""
        self._next = value + 1
        self.flipped = self.flipped or bool(answer)


@dataclass(slots=True)
class Side:
    """The values on one side of the recorded one.

    Attributes:
        bound: the farthest value; None for as far as it reaches.
        keeps: the farthest value known to keep that is nearer than `flips`.
        flips: the nearest value known to flip.
        unjudged: values between those two that could not be judged.
    """

    start: Any
    sign: int
    step: Any
    bound: Any
    keeps: Any
    flips: Any = None
    unjudged: list[Any] = field(default_factory=list)
    doubled: int = 0
    over: bool = False

    def distance(self, value: Any) -> Any:
        """How far it is from the recorded value."""
        return abs(value - self.start)

    def farther(self, value: Any, other: Any) -> bool:
        """Whether it is farther than another: differences of floats are rounded, order is not."""
        return bool(value > other if self.sign > 0 else value < other)

    def outward(self) -> list[Any]:
        """The next value away from the recorded one."""
        if self.over:
            return []
        value = self.start + self.sign * self.step
        if self.bound is not None and self.farther(value, self.bound):
            value = self.bound
        beyond = isinstance(value, float) and not math.isfinite(value)
        return [] if beyond or value == self.start else [value]

    def within(self, tolerance: Any) -> list[Any]:
        """What halves the gap; the gaps before and after what could not be judged."""
        gaps = [(self.keeps, self.flips)]
        if self.unjudged:
            ordered = sorted(self.unjudged, reverse=self.sign < 0)
            gaps = [(self.keeps, ordered[0]), (ordered[-1], self.flips)]
        return [m for a, b in gaps if abs(b - a) > tolerance and (m := _middle(a, b)) not in (a, b)]

    def told(self, value: Any, answer: Answer) -> None:
        """What came of a probe on this side."""
        if self.flips is None:
            self.over = value == self.bound or (self.bound is None and self.doubled == REACH)
            self.step, self.doubled = 2 * self.step, self.doubled + 1
        elif self.farther(value, self.flips):
            return
        if answer:
            self.flips = value
        elif answer is None:
            self.unjudged.append(value)
        elif self.farther(value, self.keeps):
            self.keeps = value
        self.unjudged = [
            v
            for v in self.unjudged
            if self.farther(v, self.keeps) and (self.flips is None or self.farther(self.flips, v))
        ]


class Numbers:
    """Searches the numbers around a recorded one.

    Args:
        recorded: an int or a float; what is probed is of its type.
        toward: ``up``, ``down`` or None for both.
        between: the least and the greatest value.
        tolerance: how narrow the gap between keeping and flipping is to become.
    """

    def __init__(
        self, recorded: Any, toward: str | None, between: Sequence[Any] | None, tolerance: Any
    ) -> None:
        self.recorded = recorded
        finest = math.ulp(recorded) if isinstance(recorded, float) else 1
        self.tolerance = max(tolerance, finest)  # nearer than that nothing is another change
        least, greatest = (None, None) if between is None else between
        step = first_step(recorded)
        self.sides = [
            Side(recorded, sign, step, bound, recorded, over=bound == recorded)
            for sign, bound, name in ((1, greatest, "up"), (-1, least, "down"))
            if toward in (None, name)
        ]
        self._rounded: set[Any] = set()

    @property
    def most(self) -> int:
        """How many probes it may want, unless bounds or what cannot be judged make it more."""
        halvings = math.log2(max(2.0, first_step(self.recorded) / self.tolerance))
        return len(self.sides) * (REACH + 1) + REACH + math.ceil(halvings)

    def wanted(self) -> list[Any]:
        """The next values: outward on each side, then halving, then a round one between."""
        found = self._contenders()
        if not found:
            return [value for side in self.sides for value in side.outward()]
        halves = [value for side in found for value in side.within(self.tolerance)]
        return halves or self._round(found[0])

    def told(self, value: Any, answer: Answer) -> None:
        """What came of one."""
        sign = 1 if value > self.recorded else -1
        side = next(side for side in self.sides if side.sign == sign)
        side.told(value, answer)

    @property
    def best(self) -> Side | None:
        """The side with the nearest flip, upward where both are as near."""
        found = self._contenders()
        return found[0] if found else None

    def _contenders(self) -> list[Side]:
        """The sides that may have the nearest flip, the nearest known first."""
        found = [side for side in self.sides if side.flips is not None]
        found.sort(key=lambda side: side.distance(side.flips))
        return [
            side
            for side in found
            if side is found[0]
            or side.distance(side.keeps) < found[0].distance(found[0].flips)
        ]  # fmt: skip

    def _round(self, side: Side) -> list[Any]:
        """A number with fewer digits than both ends: thresholds are round, halves are not."""
        if not isinstance(side.keeps, float):
            return []
        value = type(side.keeps)(roundest(side.keeps, side.flips))
        ends = min(_digits(side.keeps), _digits(side.flips))
        if value in self._rounded or value in (side.keeps, side.flips) or _digits(value) >= ends:
            return []
        self._rounded.add(value)
        return [value]


def first_step(recorded: Any) -> Any:
    """A sixty-fourth of the recorded value, and of 0 what that is of 1; at least 1 for an int."""
    if isinstance(recorded, float):
        return abs(recorded) / FIRST or 1 / FIRST
    return max(1, abs(recorded) // FIRST)


def default_tolerance(recorded: Any) -> Any:
    """How close to a flip a search comes unless it is told otherwise.

    Example:
        >>> default_tolerance(450), default_tolerance(0.0), default_tolerance(-2000.0)
        (1, 1e-06, 0.002)
    """
    if not isinstance(recorded, float):
        return 1
    return RELATIVE * abs(recorded) or RELATIVE


def roundest(a: float, b: float) -> float:
    """The number with the fewest digits between two others.

    Example:
        >>> roundest(999.99983, 1000.0002), roundest(0.31, 0.39), roundest(-1.0, 7.0)
        (1000.0, 0.32, 0.0)
    """
    low, high = sorted(Fraction(repr(float(end))) for end in (a, b))
    exponent = 1 + math.ceil(math.log10(max(abs(low), abs(high), Fraction(1, 10**300))))
    unit = Fraction(10) ** exponent
    while not low < (value := (low // unit + 1) * unit) < high:
        unit /= 10
    return float(value)


def _middle(a: Any, b: Any) -> Any:
    if isinstance(a, float):
        return type(a)(a + (b - a) / 2)
    return a + (b - a) // 2 if b > a else b + (a - b) // 2


def _digits(value: float) -> int:
    return len(Decimal(repr(float(value))).normalize().as_tuple().digits)
