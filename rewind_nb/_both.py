"""What the keys of both runs held at each of their aligned steps.

A pair is addressed by its position. A side that has no step there is where it was: after
the last one of both, for what only the other side did since then is told by that::

    position       0 plan    1 draw    2 search    3 grade
    first run         0         1          -          2
    second run        0         -          1          2       at 2, the first is as 0 left it
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from rewind_nb._changes import Pair
from rewind_nb._held import START, Held, Moment, Version
from rewind_nb._pairs import Nesting
from rewind_nb._path import is_within, join
from rewind_nb._run import Run, Step

Holds = tuple[str | None, str | None]
"""What each side holds at a key, by hash; None where it is absent."""


class Both:
    """The keys of two runs, side by side.

    Args:
        runs: both.
        pairs: their steps, aligned.
        nesting: which pairs are inside which.
    """

    def __init__(self, runs: tuple[Run, Run], pairs: Sequence[Pair], nesting: Nesting) -> None:
        self.runs = runs
        self.pairs = pairs
        self.nesting = nesting

    @cached_property
    def held(self) -> dict[str, tuple[Held, Held]]:
        """By trajectory, what the keys of each side held."""
        found = {}
        for path, lane in self.nesting.lanes.items():
            sides = zip(*(self.pairs[n] for n in lane), strict=True)
            before, after = (
                _held(path, run, [step for step in side if step])
                for run, side in zip(self.runs, sides, strict=True)
            )
            found[path] = before, after
        return found

    def holds(self, lane: str, key: str, moments: Sequence[Moment]) -> Holds:
        """What each side holds at a moment of its own."""
        before, after = (
            held.at(key, moment) for held, moment in zip(self.held[lane], moments, strict=True)
        )
        return before, after

    def moments(self, n: int, *, leaving: bool = False) -> tuple[Moment, Moment]:
        """A pair as each side enters it, or leaves it."""
        last = self.last_of_both(n)
        was = (None, None) if last is None else self.pairs[last]
        before, after = (
            Moment(step.seq, leaving)
            if step
            else Moment(START if past is None else past.seq, leaving=True)
            for step, past in zip(self.pairs[n], was, strict=True)
        )
        return before, after

    def start(self) -> tuple[Moment, Moment]:
        """Before the first step of a trajectory."""
        return (Moment(START, leaving=True),) * 2

    def deleted(self, n: int, path: str) -> bool:
        """Whether a step of a pair deleted the key that a path leads into."""
        lane = self.pairs[n].shown.path
        for held, step in zip(self.held[lane], self.pairs[n], strict=True):
            if step is not None and step.row.deleted is not None:
                keys = (key for key in held.versions if is_within(path, join("", key)))
                left = Moment(step.seq, leaving=True)
                if any(held.last(key, left) == Version(left, None) for key in keys):
                    return True
        return False

    def end(self, lane: str) -> tuple[Moment, Moment]:
        """Where each side of a trajectory stopped."""
        sides = zip(*(self.pairs[n] for n in self.nesting.lanes[lane]), strict=True)
        ours, theirs = (
            max((s.seq for s in side if s is not None), default=START) for side in sides
        )
        return Moment(ours, leaving=True), Moment(theirs, leaving=True)

    def last_of_both(self, n: int) -> int | None:
        """The last pair before a position, in the same trajectory, that both sides have."""
        return self._last_of_both[n]

    def position(self, lane: str, side: int, moment: Moment) -> int:
        """The pair at which a side is at a moment."""
        return self._positions[lane, side, moment.seq]

    @cached_property
    def _last_of_both(self) -> dict[int, int | None]:
        found: dict[int, int | None] = {}
        for positions in self.nesting.lanes.values():
            last = None
            for n in positions:
                found[n] = last
                last = last if None in self.pairs[n] else n
        return found

    @cached_property
    def _positions(self) -> dict[tuple[str, int, int], int]:
        return {
            (step.path, side, step.seq): n
            for n, pair in enumerate(self.pairs)
            for side, step in enumerate(pair)
            if step is not None
        }


def _held(path: str, run: Run, steps: Sequence[Step]) -> Held:
    own = sorted(steps, key=lambda step: step.seq)
    return Held.of_task(own) if path else Held.of_run(run, own)
