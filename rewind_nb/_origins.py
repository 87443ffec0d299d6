"""Where what differs in a step came from: earlier steps, its tasks, or the step around it.

A pair is one aligned step, addressed by its position. What it read differs because of earlier
steps of its trajectory, or because of the step that its task is in (`_readings`)::

    each:2[3]/grade:1    read `found`    written in its task, by each:2[3]/search:1
    each:2[3]/search:1   read `bonus`    passed on unchanged: from who wrote it before each:2
                         read `word`     made by each:2: from all that each:2 read
    each:2               its task 3      from the last steps of it that differ

So every origin but one has a lower position than what came of it, and no chain of causes can
go round in a circle. The one is the step around a task where that is the cause itself, by an
override, other inputs or other code: there a chain begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from rewind_nb._apart import edited_after, ended, looked_at, not_run
from rewind_nb._both import Both
from rewind_nb._changes import STEP, Pair
from rewind_nb._pairs import Nesting
from rewind_nb._partings import Partings
from rewind_nb._readings import Origin, Read, Readings
from rewind_nb._run import Run

TRANSITIONS = "@transitions"
"""The way on from a step, where that was edited."""


class Parting(NamedTuple):
    """Where the two sides went different ways, before a step that only one of them took.

    Attributes:
        pair: the last step of both, by position.
        reads: what its conditions read and found to differ.
        edits: how its transitions were edited; both are empty where it ended differently.
    """

    pair: int
    reads: tuple[Read, ...] = ()
    edits: tuple[str, ...] = ()


class TaskChange(NamedTuple):
    """A task that came to something else on the two sides.

    Attributes:
        kind: ``added`` and ``removed`` where only one side has it.
        origins: the last steps of it that differ.
    """

    lane: str
    kind: Literal["changed", "added", "removed"]
    origins: tuple[Origin, ...]


class Origins:
    """What each pair differs from.

    Args:
        pairs: the aligned steps, each behind what it rests on.
        nesting: which are inside which.
        runs: both.
    """

    def __init__(self, pairs: Sequence[Pair], nesting: Nesting, runs: tuple[Run, Run]) -> None:
        self.pairs = pairs
        self.nesting = nesting
        self.both = Both(runs, pairs, nesting)
        self.readings = Readings(pairs, nesting, self.both)
        self._tasks: dict[int, list[TaskChange]] = {}
        self._parted: dict[int, Parting | None] = {}
        self.partings = Partings(pairs, nesting)

    def of(self, n: int) -> list[Origin]:
        """What a pair rests on: what it read, what its tasks came to; each once.

        For one that only one side took, what that would have read otherwise on the other.
        """
        if None in self.pairs[n]:
            outer, owner = self.partings.outermost(n)
            if owner is not None and not all(self._sides[self.pairs[outer].shown.path]):
                return []  # the whole task is on one side only
            found = [origin for read in self.readings.of(outer) for origin in read.origins]
        else:
            found = [origin for read in self.readings.of(n) for origin in read.origins]
            found += [origin for task in self.tasks(n) for origin in task.origins]
        return list(dict.fromkeys(found))

    # -- why only one side took it -----------------------------------------------------------

    def way_to(self, n: int) -> list[Origin]:
        """Why only one side took a pair, or at another time; nothing where both did there."""
        return list(dict.fromkeys(self._way_to(n)))

    def _way_to(self, n: int) -> Iterator[Origin]:
        if None not in self.pairs[n]:
            parting = self.parting(n) if n in self.partings.moved else None
            yield from () if parting is None else self.leading(parting)
            return
        outer, owner = self.partings.outermost(n)
        if owner is not None and not all(self._sides[self.pairs[outer].shown.path]):
            yield from self.readings.made_by(owner)  # the whole task is on one side only
            return
        parting = self.parting(outer)
        yield from () if parting is None else self.leading(parting)

    def leading(self, parting: Parting) -> Iterator[Origin]:
        """What made the two sides go different ways."""
        if not parting.reads and not parting.edits:
            yield Origin("@error", parting.pair)
        if parting.edits:
            yield Origin(TRANSITIONS, parting.pair, begins=True)
        yield from (origin for read in parting.reads for origin in read.origins)

    def parting(self, n: int) -> Parting | None:
        """Where a trajectory went different ways, before a pair that only one side took.

        None where that does not lie in what is seen: the other side stopped there, or its
        conditions read the same and decided otherwise.
        """
        m = self.partings.before(n)
        return None if m is None else self.parted_at(m)

    def parted_at(self, m: int) -> Parting | None:
        """Why the ways on from a pair differ; None where that does not lie in what is seen."""
        if m not in self._parted:
            self._parted[m] = self._parting_at(m)
        return self._parted[m]

    def _parting_at(self, m: int) -> Parting | None:
        before, after = self.pairs[m]
        if before is None or after is None:
            return None
        if ended(before) != ended(after):
            return Parting(m)
        ours, theirs = looked_at(before), looked_at(after)
        lane, moments = self.pairs[m].shown.path, self.both.moments(m, leaving=True)
        differing = [key for key in ours if key in theirs and ours[key] != theirs[key]]
        reads = tuple(self.readings.read(lane, key, m + 1, moments) for key in differing)
        edits = edited_after(self.pairs[m])
        return Parting(m, reads, edits) if reads or edits else None

    # -- its tasks --------------------------------------------------------------------------

    def tasks(self, n: int) -> list[TaskChange]:
        """The tasks of a pair that came to something else, in their order."""
        if n not in self._tasks:
            pair = self.pairs[n]
            both = pair.before is not None and pair.after is not None
            changed = both and not pair.shared and not not_run(pair)
            lanes = self.nesting.tasks.get(n, []) if changed else []
            found = (self._task(lane) for lane in lanes)
            self._tasks[n] = [task for task in found if task is not None]
        return self._tasks[n]

    @cached_property
    def _sides(self) -> dict[str, tuple[bool, bool]]:
        """For each trajectory, whether each side has any step of it."""
        found = {}
        for lane, positions in self.nesting.lanes.items():
            pairs = [self.pairs[n] for n in positions]
            found[lane] = any(p.before for p in pairs), any(p.after for p in pairs)
        return found

    def _task(self, lane: str) -> TaskChange | None:
        ours, theirs = self._sides[lane]
        if not ours or not theirs:
            last = self.nesting.lanes[lane][-1]
            return TaskChange(lane, "removed" if ours else "added", (Origin(STEP, last),))
        origins = tuple(self._ends(lane))
        return TaskChange(lane, "changed", origins) if origins else None

    def _ends(self, lane: str) -> Iterator[Origin]:
        """What a task passed on: the last steps that made its end differ.

        A step that another one of them rests on is left out: it is told as that one's cause.
        """
        told: set[int] = set()
        for n, path in sorted(self._last_writers(lane).items(), reverse=True):
            if n not in told:
                yield Origin(path, n)
                told |= self._rests_on(n, lane)

    def _last_writers(self, lane: str) -> dict[int, str]:
        """The pair that ended otherwise, else those that made the final state differ; with a field.

        What comes after a failure, on one side, comes of it.
        """
        positions = self.nesting.lanes[lane]
        for n in positions:
            ours, theirs = self.pairs[n]
            if ours is not None and theirs is not None and ended(ours) != ended(theirs):
                return {n: "@error"}
        ends = self.both.end(lane)
        keys = (held.keys_at(end) for held, end in zip(self.both.held[lane], ends, strict=True))
        found: dict[int, str] = {}
        for key in dict.fromkeys([k for side in reversed([*keys]) for k in side]):
            held = self.both.holds(lane, key, ends)
            changers = self.readings.changers(lane, key, positions[-1] + 1, ends)[0]
            for changer in changers if held[0] != held[1] else ():
                found.setdefault(changer.pair, key)
        return found

    def _rests_on(self, n: int, lane: str) -> set[int]:
        """The pairs of the same task that a pair's differences came from."""
        seen: set[int] = set()
        waiting = [n]
        while waiting:
            m = waiting.pop()
            rests = [*self.of(m), *self.way_to(m)]
            inner = {origin.pair for origin in rests if not origin.begins} - seen
            new = {k for k in inner if self.pairs[k].shown.path == lane}
            seen |= new
            waiting += new
        return seen
