"""What to probe next, for the smallest change that flips something.

Pure: a search says which values it wants to know of, and is told of each whether it flips,
keeps, or could not be judged. It makes no assumption that it would have to take back: what it
finds is a value that flips beside one that keeps.

The recorded value keeps, by the recording, and is never wanted. Numbers are searched outward
from it by steps each four times the one before, up and down at once, and then by halving
between the last value that keeps and the first that flips. Where both sides flip, the nearer
is brought to its end first, and the other is asked only whether it flips as near as that. What
could not be judged is neither: the search goes on on both sides of it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Protocol

REACH = 10  # steps after the first on each side where nothing bounds the search
GROWTH = 4  # by which each is larger: two would take twice as many, to save one halving
FIRST = 64  # part of the recorded value that the first step is
RELATIVE = 1e-6  # how close to the flip a float is to come, of the recorded value

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
    wave: int = 1
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
    steps: int = 0
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

    @property
    def most_outward(self) -> int:
        """How many values away from the recorded one there may be."""
        count, reach = 1, self.step
        far = None if self.bound is None else self.distance(self.bound)
        while count <= REACH if far is None else reach < far:
            count, reach = count + 1, reach * GROWTH
        return 0 if self.over else count

    def most_within(self, tolerance: Any) -> int:
        """How many halvings the widest gap may take."""
        far = self.step * GROWTH**REACH if self.bound is None else self.distance(self.bound)
        far = min(far, sys.float_info.max) if isinstance(far, float) else far
        return 0 if self.over else max(0, math.ceil(math.log2(far) - math.log2(tolerance)))

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
            self.over = value == self.bound or (self.bound is None and self.steps == REACH)
            self.step, self.steps = GROWTH * self.step, self.steps + 1
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

    Attributes:
        most: how many probes it may want, unless what cannot be judged makes it more.
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
        self.most = self._most()

    def _most(self) -> int:
        """How many probes it may want, unless what cannot be judged makes it more."""
        outward = sum(side.most_outward for side in self.sides)
        halvings = sum(side.most_within(self.tolerance) for side in self.sides)
        rounds = isinstance(self.recorded, float)
        return outward + halvings + (len(self.sides) - 1) + rounds

    def wanted(self) -> list[Any]:
        """The next values: outward on each side, then halving, then a round one between."""
        found = sorted(self._flipping(), key=_nearness)
        if not found:
            return [value for side in self.sides for value in side.outward()]
        best, *others = found
        return (
            best.within(self.tolerance)
            or [value for side in others for value in self._nearer(side, best)]
            or self._round(best)
        )

    def _nearer(self, side: Side, best: Side) -> list[Any]:
        """What tells whether a side flips nearer than the best one does: first as near as that."""
        size = best.distance(best.flips)
        if not isinstance(self.recorded, float) and side.sign < 0:
            size -= 1  # of two as near it is the one upward
        near = side.start + side.sign * size
        if not side.farther(near, side.keeps):
            return []
        if side.farther(side.flips, near) and near not in side.unjudged:
            return [near]
        return [value for value in side.within(self.tolerance) if not side.farther(value, near)]

    def told(self, value: Any, answer: Answer) -> None:
        """What came of one."""
        sign = 1 if value > self.recorded else -1
        side = next(side for side in self.sides if side.sign == sign)
        side.told(value, answer)

    @property
    def best(self) -> Side | None:
        """The side with the nearest flip, upward where both are as near."""
        return min(self._flipping(), key=_nearness, default=None)

    def _flipping(self) -> list[Side]:
        """The sides that are known to flip, upward first."""
        return [side for side in self.sides if side.flips is not None]

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


def _nearness(side: Side) -> Any:
    return side.distance(side.flips)


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
