"""Who made what a step read differ between its two sides.

Each side read what the last step before it, *in its own trajectory*, left. Those are two where
only one side took the later one::

    first run     make `acc`: [1]                     read `acc`: [1]
    second run    make `acc`: [2]   add: [2, "x"]     read `acc`: [2, "x"]
                  made it differ    made it differ

Where a side of a task touched nothing, its value came in with the state that the task began
with, which its step passed on, or made.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rewind_nb._answers import other_answers
from rewind_nb._apart import changed_inputs, changed_reads, entering, found_at, overridden, recoded
from rewind_nb._both import Both
from rewind_nb._changes import Pair
from rewind_nb._held import START, Moment
from rewind_nb._pairs import Nesting

TASKS = "@tasks"
"""What a step made its tasks from, where that is no field."""

Moments = tuple[Moment, Moment]
"""A point of a trajectory as each side counts its steps."""


class Origin(NamedTuple):
    """Something that differs because a pair passed it on.

    Attributes:
        path: what was passed on, such as a key of the state.
        pair: who did, by position.
        begins: whether the cause is that step itself and not what it read; so it is with the
            step around a task.
    """

    path: str
    pair: int
    begins: bool = False


class Read(NamedTuple):
    """A key that both sides looked at and found to differ.

    Attributes:
        origins: who made it differ; empty where nobody did: it was so from the start.
        made: whether the step around the task made it, from what the origins passed on.
    """

    key: str
    origins: tuple[Origin, ...]
    made: bool = False


class Readings:
    """What each pair read otherwise on its two sides.

    Args:
        pairs: the aligned steps, each behind what it rests on.
        nesting: which are inside which.
        both: what the keys of both sides held.
    """

    def __init__(self, pairs: Sequence[Pair], nesting: Nesting, both: Both) -> None:
        self.pairs = pairs
        self.nesting = nesting
        self.both = both
        self._of: dict[int, list[Read]] = {}
        self._made: dict[int, tuple[Origin, ...]] = {}

    def of(self, n: int) -> list[Read]:
        """The keys that both sides looked at and found to differ, and who made them differ.

        Where only one side took the step, those that it looked at and the other has otherwise.
        """
        if n not in self._of:
            lane, moments = self.pairs[n].shown.path, self.both.moments(n)
            self._of[n] = [self.read(lane, key, n, moments) for key in self._differing(n)]
        return self._of[n]

    def _differing(self, n: int) -> list[str]:
        pair = self.pairs[n]
        if None not in pair:
            return changed_reads(pair)
        row, lane, moments = pair.shown.row, pair.shown.path, self.both.moments(n)
        looked = dict.fromkeys(key for key, _ in row.reads)
        if row.reads_all:
            here = zip(self.both.held[lane], moments, strict=True)
            looked |= dict.fromkeys(key for held, at in here for key in held.keys_at(at))
        found = ((key, self.both.holds(lane, key, moments)) for key in looked)
        return [key for key, (ours, theirs) in found if ours != theirs]

    def at_end(self, key: str) -> tuple[Origin, ...]:
        """Who made a key of the final state differ."""
        if not self.pairs:
            return ()
        ends = self.both.end("")
        ours, theirs = self.both.holds("", key, ends)
        return () if ours == theirs else self.read("", key, len(self.pairs), ends).origins

    def read(self, lane: str, key: str, n: int, moments: Moments) -> Read:
        """A key that differs in a trajectory before *n*, with who made it differ."""
        found, inherited = self.changers(lane, key, n, moments)
        owner = self.nesting.owner[self.nesting.lanes[lane][0]]
        if owner is None or not inherited:
            return Read(key, found)
        began = self.both.holds(lane, key, self.both.start())
        if found_at(self.pairs[owner], key) != [(digest,) for digest in began]:
            return Read(key, (*found, *self.made_by(owner)), made=not found)
        if key in entering(self.pairs[owner]):
            return Read(key, (*found, Origin(key, owner, begins=True)))
        outer = self.read(self.pairs[owner].shown.path, key, owner, self.both.moments(owner))
        return Read(key, (*found, *outer.origins), outer.made and not found)

    def changers(
        self, lane: str, key: str, n: int, moments: Moments
    ) -> tuple[tuple[Origin, ...], bool]:
        """Who before *n* left a key as each side holds it, where the other had something else.

        Returns:
            Them, and whether a side has what it began with, and the other began otherwise.
        """
        last: dict[int, Origin] = {}  # by side
        apart: list[int] = []
        for side, (held, moment) in enumerate(zip(self.both.held[lane], moments, strict=True)):
            version = held.last(key, moment)
            if version is None or version.moment.seq == START:
                continue
            leaving = version.moment.leaving
            p = self.both.position(lane, side, version.moment)
            last[side] = Origin(key, p, begins=not leaving)
            ours, theirs = self.both.holds(lane, key, self.both.moments(p, leaving=leaving))
            if ours != theirs:
                apart.append(side)
        alone = [side for side, origin in last.items() if None in self.pairs[origin.pair]]
        sides = self._not_replaced(n, last, apart or alone)
        found = dict.fromkeys(last[side] for side in sides if last[side].pair < n)
        ours, theirs = self.both.holds(lane, key, self.both.start())
        return tuple(sorted(found, key=lambda o: o.pair)), len(last) < 2 and ours != theirs

    def _not_replaced(self, n: int, last: dict[int, Origin], sides: list[int]) -> list[int]:
        """The sides, one apart whose step another one of the other side took the place of.

        Of two steps that each only one side took, that is the first side's; of what only one
        side read, what the other has where a step since the parting wrote it.
        """
        for side, origin in last.items() if n < len(self.pairs) else ():
            if self.pairs[n][1 - side] is None and self.together(origin.pair, n):
                return [side]
        replaced = len(sides) == 2 and self.together(*(origin.pair for origin in last.values()))
        return [1] if replaced else sides

    def made_by(self, n: int) -> tuple[Origin, ...]:
        """What the state of a pair's tasks was made from, where that differs."""
        if n not in self._made:
            self._made[n] = tuple(dict.fromkeys(self._making(n)))
        return self._made[n]

    def _making(self, n: int) -> list[Origin]:
        pair, own = self.pairs[n], entering(self.pairs[n])
        fields = [*own, *(f"@inputs.{name}" for name in changed_inputs(pair))]
        found = [Origin(field, n, begins=True) for field in fields]
        found += [origin for read in self.of(n) for origin in read.origins]
        if (
            recoded(pair)
            or (overridden(pair) and not fields)
            or (not found and (pair.shown.live_calls or other_answers(pair)))
        ):
            found.append(Origin(TASKS, n, begins=True))
        return found

    def together(self, n: int, m: int) -> bool:
        """Whether two pairs are of one side only since the same parting."""
        alone = None in self.pairs[n] and None in self.pairs[m]
        alone = alone and self.pairs[n].shown.path == self.pairs[m].shown.path
        return alone and self.both.last_of_both(n) == self.both.last_of_both(m)
