"""Where what differs in a step came from: earlier steps, its tasks, or the step around it.

A pair is one aligned step, addressed by its position. What it read differs because of the
last pair before it, *in its own trajectory*, that did different things to that key. Where a
task has none, the value came in with the task's state, which its step made::

    each:2[3]/grade:1    read `found`    written in its task, by each:2[3]/search:1
    each:2[3]/search:1   read `bonus`    passed on unchanged: from who wrote it before each:2
                         read `word`     made by each:2: from all that each:2 read
    each:2               its task 3      from the last steps of it that differ

So every origin but one has a lower position than what came of it, and no chain of causes can
go round in a circle. The one is the step around a task where that is the cause itself, by an
override, other inputs or other code: there a chain begins.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Literal, NamedTuple

from rewind_nb._apart import (
    Seen,
    changed_inputs,
    changed_reads,
    ended,
    entering,
    final_state,
    found_at,
    looked_at,
    not_run,
    overridden,
    parted_keys,
    recoded,
)
from rewind_nb._changes import STEP, Pair
from rewind_nb._pairs import Nesting
from rewind_nb._partings import Partings

TASKS = "@tasks"
"""What a step made its tasks from, where that is no field."""


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


class Parting(NamedTuple):
    """Where the two sides went different ways, before a step that only one of them took.

    Attributes:
        pair: the last step of both, by position.
        reads: what its conditions read and found to differ; empty where it ended differently.
    """

    pair: int
    reads: tuple[Read, ...]


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
    """

    def __init__(self, pairs: Sequence[Pair], nesting: Nesting) -> None:
        self.pairs = pairs
        self.nesting = nesting
        self._reads: dict[int, list[Read]] = {}
        self._tasks: dict[int, list[TaskChange]] = {}
        self._made: dict[int, tuple[Origin, ...]] = {}
        self.partings = Partings(pairs, nesting)

    def of(self, n: int) -> list[Origin]:
        """What earlier pairs, and the step around, account for in a pair; each once."""
        own = entering(self.pairs[n])
        found = [origin for read in self.reads(n) if read.key not in own for origin in read.origins]
        found += [origin for task in self.tasks(n) for origin in task.origins]
        if None in self.pairs[n]:
            found += self._taken_by_one_side(n)
        return list(dict.fromkeys(found))

    # -- what it read -----------------------------------------------------------------------

    def reads(self, n: int) -> list[Read]:
        """The keys that both sides looked at and found to differ, and who made them differ."""
        if n not in self._reads:
            pair = self.pairs[n]
            self._reads[n] = [
                self._read(pair.shown.path, n, key, found_at(pair, key))
                for key in changed_reads(pair)
            ]
        return self._reads[n]

    def _read(self, lane: str, n: int, key: str, seen: Seen) -> Read:
        """A key that differs in a trajectory before *n*, with what each side found there."""
        writer = self._writer(lane, n, key)
        owner = self.nesting.owner[self.nesting.lanes[lane][0]]
        if writer is not None:
            return Read(key, (Origin(key, writer),))
        if owner is None:
            return Read(key, ())
        if found_at(self.pairs[owner], key) != seen:
            return Read(key, self.made_by(owner), made=True)
        if key in entering(self.pairs[owner]):
            return Read(key, (Origin(key, owner, begins=True),))
        return self._read(self.pairs[owner].shown.path, owner, key, seen)

    def made_by(self, n: int) -> tuple[Origin, ...]:
        """What the state of a pair's tasks was made from, where that differs."""
        if n not in self._made:
            self._made[n] = tuple(dict.fromkeys(self._making(n)))
        return self._made[n]

    def _making(self, n: int) -> list[Origin]:
        pair, own = self.pairs[n], entering(self.pairs[n])
        fields = [*own, *(f"@inputs.{name}" for name in changed_inputs(pair))]
        found = [Origin(field, n, begins=True) for field in fields]
        found += [o for read in self.reads(n) if read.key not in own for o in read.origins]
        if (
            recoded(pair)
            or (overridden(pair) and not fields)
            or (not found and pair.shown.live_calls)  # it asked anew
        ):
            found.append(Origin(TASKS, n, begins=True))
        return found

    def _writer(self, lane: str, n: int, key: str) -> int | None:
        """The last pair of a trajectory before *n* that did different things to a key."""
        positions = self._parted.get((lane, key), [])
        found = bisect_left(positions, n)
        return positions[found - 1] if found else None

    @cached_property
    def _parted(self) -> dict[tuple[str, str], list[int]]:
        """By trajectory and key: the pairs whose sides did different things to it, in order."""
        found: dict[tuple[str, str], list[int]] = {}
        for lane, positions in self.nesting.lanes.items():
            pairs = [self.pairs[n] for n in positions]
            steps = [step for pair in pairs for step in pair if step]
            read = {key for s in steps for key in (*dict(s.row.reads), *looked_at(s))}
            for n, pair in zip(positions, pairs, strict=True):
                for key in parted_keys(pair, read):
                    found.setdefault((lane, key), []).append(n)
        return found

    # -- why only one side took it -----------------------------------------------------------

    def _taken_by_one_side(self, n: int) -> Iterator[Origin]:
        outer, owner = self.partings.outermost(n)
        if owner is not None and not all(self._sides[self.pairs[outer].shown.path]):
            yield from self.made_by(owner)  # the whole task is on one side only
            return
        parting = self.parting(outer)
        if parting is not None and not parting.reads:
            yield Origin("@error", parting.pair)
        elif parting is not None:
            yield from (origin for read in parting.reads for origin in read.origins)

    def parting(self, n: int) -> Parting | None:
        """Where a trajectory went different ways, before a pair that only one side took.

        None where that does not lie in what is seen: the other side stopped there, or its
        conditions read the same and decided otherwise.
        """
        m = self.partings.before(n)
        before, after = (None, None) if m is None else self.pairs[m]
        if m is None or before is None or after is None:
            return None
        if ended(before) != ended(after):
            return Parting(m, ())
        ours, theirs = looked_at(before), looked_at(after)
        reads = tuple(
            self._read(self.pairs[m].shown.path, m + 1, key, [(ours[key],), (theirs[key],)])
            for key in ours
            if key in theirs and ours[key] != theirs[key]
        )
        return Parting(m, reads) if reads else None

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
        pairs, end = [self.pairs[n] for n in positions], positions[-1] + 1
        for n, (ours, theirs) in zip(positions, pairs, strict=True):
            if ours is not None and theirs is not None and ended(ours) != ended(theirs):
                return {n: "@error"}
        before, after = (
            dict(final_state([s for s in side if s])) for side in zip(*pairs, strict=True)
        )
        found: dict[int, str] = {}
        for key in dict.fromkeys([*after, *before]):
            writer = self._writer(lane, end, key) if before.get(key) != after.get(key) else None
            if writer is not None:
                found.setdefault(writer, key)
        return found

    def _rests_on(self, n: int, lane: str) -> set[int]:
        """The pairs of the same task that a pair's differences came from."""
        seen: set[int] = set()
        waiting = [n]
        while waiting:
            inner = {o.pair for o in self.of(waiting.pop()) if not o.begins} - seen
            new = {m for m in inner if self.pairs[m].shown.path == lane}
            seen |= new
            waiting += new
        return seen
