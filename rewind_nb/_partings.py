"""Where two trajectories went different ways, so that only one of them took a step.

Or took it at another time: steps that both took in another order are where the second did.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from rewind_nb._align import longest_increasing
from rewind_nb._apart import ended, way
from rewind_nb._changes import Pair
from rewind_nb._pairs import Nesting


class Partings:
    """The pairs that only one side has, and what came before them.

    Args:
        pairs: the aligned steps, each behind what it rests on.
        nesting: which are inside which.
    """

    def __init__(self, pairs: Sequence[Pair], nesting: Nesting) -> None:
        self.pairs = pairs
        self.nesting = nesting

    def outermost(self, n: int) -> tuple[int, int | None]:
        """The outermost pair around one that only one side has, and the one around that."""
        owner = self.nesting.owner[n]
        while owner is not None and None in self.pairs[owner]:
            n, owner = owner, self.nesting.owner[owner]
        return n, owner

    def before(self, n: int) -> int | None:
        """The last pair of both sides before one of one side, where they parted after it.

        Or before one that moved.

        None where they did not: the other side stopped there.
        """
        return self._before.get(n)

    @cached_property
    def _before(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for lane, positions in self.nesting.lanes.items():
            here: int | None = None
            for n in positions:
                before, after = self.pairs[n]
                if here is not None and (before is None or after is None or n in self.moved):
                    found[n] = here
                if before is None or after is None:
                    continue
                if ended(before) != ended(after) or way(before) != way(after):
                    here = n
                elif n in self.last[lane]:
                    here = None
        return found

    @cached_property
    def moved(self) -> frozenset[int]:
        """The pairs that the first side took at another time than the second."""
        found: set[int] = set()
        for positions in self.nesting.lanes.values():
            taken = [
                (step.seq, n)
                for n in positions
                if (step := self.pairs[n].before) is not None and self.pairs[n].after is not None
            ]
            if taken != sorted(taken):
                found |= {n for _, n in taken} - {n for _, n in longest_increasing(taken)}
        return frozenset(found)

    @cached_property
    def last(self) -> dict[str, tuple[int | None, int | None]]:
        """For each trajectory, the last pair that each side has a step in."""
        return {
            lane: (
                max((n for n in positions if self.pairs[n].before), default=None),
                max((n for n in positions if self.pairs[n].after), default=None),
            )
            for lane, positions in self.nesting.lanes.items()
        }
