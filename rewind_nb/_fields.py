"""Every field that differs between two runs, pair by pair, with its cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from rewind_nb._apart import not_run
from rewind_nb._causes import Causes
from rewind_nb._changes import STEP, Change, Pair
from rewind_nb._comparison import Comparison
from rewind_nb._delta import Delta, one_change, order_changed, order_of_keys
from rewind_nb._diff import MISSING
from rewind_nb._lookup import wrote
from rewind_nb._pairs import Nesting
from rewind_nb._path import bracket, is_within, join
from rewind_nb._readings import Origin
from rewind_nb._run import Run, Step
from rewind_nb._store._read import StepKey

INITIAL = "another initial state"

ENDED = {
    "failed": "failed before it",
    "halted": "halted before it",
    "interrupted": "was interrupted before it",
    "running": "has not come to it yet",
}
"""Why a run that is not complete has no step after its last."""

Files = dict[StepKey, dict[str, str]]
"""The hashes of artifacts by name, for each step that made any."""


class Found(NamedTuple):
    """A change, and where it was found.

    Attributes:
        pair: the position of its pair.
        entering: whether it is of the state that enters the pair, which no step wrote.
        leaving: whether it is of the way on from the pair.
        task: the task that only one side has, where it is that of a step inside it.
    """

    change: Change
    pair: int
    entering: bool = False
    leaving: bool = False
    task: str = ""


class Fields:
    """What differs between two runs.

    Args:
        before: the first run.
        after: the second.
        pairs: their steps, aligned.
        nesting: which pairs are inside which.
        causes: of these pairs.
    """

    def __init__(
        self, before: Run, after: Run, pairs: Sequence[Pair], nesting: Nesting, causes: Causes
    ) -> None:
        self.before = before
        self.after = after
        self.pairs = pairs
        self.nesting = nesting
        self.causes = causes

    def changes(self) -> Iterator[Found]:
        """The changes in execution order: what enters a step before what its tasks did."""
        values = Comparison(self.before.store, self.after.store)
        opening: dict[int, list[int]] = {}  # by the first pair inside it
        for n, first in enumerate(self.nesting.first):
            opening.setdefault(first, []).append(n)
        for n in range(len(self.pairs)):
            for outer in reversed(opening.get(n, ())):
                for change in self._entering(outer, values):
                    yield Found(change, outer, entering=True)
            if None in self.pairs[n]:
                yield from self._only(n)
            else:
                yield from (Found(change, n) for change in self._of_pair(n, values))
        yield from self._ends(values)

    def files(self, pair: Pair) -> Iterator[Delta]:
        """The files that a step both sides took made with other bytes, or on one side only."""
        before, after = pair
        if before is None or after is None:
            return
        ours = self._files[0].get(before.executed_key, {})
        theirs = self._files[1].get(after.executed_key, {})
        for name in dict.fromkeys([*ours, *theirs]):
            yield from one_change(bracket("@artifacts", name), ours.get(name), theirs.get(name))

    def _of_pair(self, n: int, values: Comparison) -> Iterator[Change]:
        pair = self.pairs[n]
        before, after = pair
        if before is None or after is None or pair.shared:
            return
        deltas = [*self.files(pair)]
        if not pair.same:
            deltas = [*values.fields(before, after), *deltas]
        cause = self.causes.words(n) if deltas else ""
        for delta in deltas:
            yield Change.at(pair.shown, delta, cause, _unfinished(before, after, delta))

    def _entering(self, n: int, values: Comparison) -> Iterator[Change]:
        """State that differs as it enters a step without any step having written it."""
        before, after = self.pairs[n]
        if before is None or after is None or self.pairs[n].shared:
            return
        overridden = self.causes.entering(n)
        first = n == self._start and before.seq == after.seq == 0
        if not first and not overridden:
            return
        ours = dict(self.before.entering_manifest(before))
        theirs = dict(self.after.entering_manifest(after))
        for key in dict.fromkeys([*ours, *theirs]) if first else overridden:
            cause = "override" if key in overridden else INITIAL
            old, new, top = ours.get(key), theirs.get(key), join("", key)
            found = values.values(before, after, old, new, top, after.path)
            for delta in found if old != new else ():
                yield Change.at(after, delta, cause, entering=True)
        others = ([key for key in side if key not in overridden] for side in (ours, theirs))
        if first or not order_changed(*others):  # else an earlier step tells it
            for delta in order_of_keys("@state", ours, theirs):
                yield Change.at(after, delta, "override" if overridden else INITIAL)

    # -- steps that only one side took ----------------------------------------------------

    def _only(self, n: int) -> Iterator[Found]:
        """A step that only one side took, but for those whose tasks the other did not run: an
        override supplied their output, and is told there.
        """
        pair = self.pairs[n]
        side = 0 if pair.before is None else 1
        outer, owner = self.causes.origins.partings.outermost(n)
        if owner is not None and not_run(self.pairs[owner]) and not self.pairs[owner].same:
            return
        lane = self.pairs[outer].shown.path
        last = self.causes.origins.partings.last[lane][side]
        task = lane if owner is not None and last is None else ""
        run = (self.before, self.after)[side]
        cause = f"no such task in {run.id}" if task else self._absence(outer, side, last)
        ours, theirs = (None if s is None else s.status for s in pair)
        for delta in one_change(STEP, ours, theirs):
            yield Found(Change.at(pair.shown, delta, cause), n, task=task)

    # -- how the runs ended -----------------------------------------------------------------

    def _ends(self, values: Comparison) -> Iterator[Found]:
        """How and where the runs stopped, where their steps do not tell it: after the same one."""
        ends = one_change("@outcome", self.before.status, self.after.status)
        next_ones = one_change("@next", self.before.next_action, self.after.next_action)
        found = next(ends, None) or next(next_ones, None)
        if not self.pairs:
            yield from self._unstarted(found, values)
            return
        n, other = self.causes.origins.partings.last[""]
        before, after = (None, None) if n is None else self.pairs[n]
        if n != other or n is None or before is None or after is None or found is None:
            return
        if before.status == after.status:
            yield Found(Change.at(after, found, self.causes.end_words(n)), n, leaving=True)

    def _unstarted(self, found: Delta | None, values: Comparison) -> Iterator[Found]:
        """What differs between two runs that have not come to their first step."""
        ours, theirs = self.before.final_manifest, self.after.final_manifest
        action = self.after.next_action or self.before.next_action or ""
        deltas = [*order_of_keys("@state", ours, theirs), *([found] if found else [])]
        for key in reversed(dict.fromkeys([*ours, *theirs])):
            old, new = ours.get(key), theirs.get(key)
            if old != new:
                differing = values.values(self.before, self.after, old, new, join("", key))
                deltas = [*differing, *deltas]
        for path, before, after, kind, was_at in deltas:
            change = Change(0, action, 1, path, before, after, kind, INITIAL, "", was_at)
            yield Found(change, 0, entering=True)

    def touched_by_one_side(self, path: str, at: str | None) -> int | None:
        """The last pair of one side only that wrote a field, or a part of it, or deleted it.

        Args:
            at: the address of that step, any if None.
        """
        for n in reversed(range(len(self.pairs))):
            pair = self.pairs[n]
            if None in pair and at in (None, pair.shown.address) and self._touched(n, path):
                return n
        return None

    def at_end(self, path: str) -> list[Origin]:
        """Who made a field of the final state differ; nothing where it is the same."""
        ours, theirs = self.before.final_manifest, self.after.final_manifest
        keys = (key for key in {**ours, **theirs} if is_within(path, join("", key)))
        key = next(keys, None)
        if key is None or ours.get(key) == theirs.get(key):
            return []
        origins, top = self.causes.origins.readings.at_end(key), join("", key)
        if path == top:
            return [*origins]
        values = Comparison(self.before.store, self.after.store)
        found = values.values(self.before, self.after, ours.get(key), theirs.get(key), top)
        if not any(is_within(d.path, path) or is_within(path, d.path) for d in found):
            return []
        return [origin for origin in origins if origin.begins or self._touched(origin.pair, path)]

    def _touched(self, n: int, path: str) -> bool:
        steps = [step for step in self.pairs[n] if step is not None]
        return any(wrote(s, path) for s in steps) or self.causes.origins.both.deleted(n, path)

    def _absence(self, n: int, side: int, last: int | None) -> str:
        """Why a side lacks a step: it, or the task, ended before it, or went another way."""
        run = (self.before, self.after)[side]
        step = None if last is None else self.pairs[last][side]
        status = step.status if step and step.path else run.status
        if (last is None or n > last) and status in ENDED:
            return f"run {run.id} {ENDED[status]}"
        return self.causes.parting_words(n)

    @cached_property
    def _start(self) -> int:
        """The position of the first pair of the runs themselves."""
        return self.nesting.lanes.get("", [0])[0]

    @cached_property
    def _files(self) -> tuple[Files, Files]:
        return _files(self.before), _files(self.after)


def _unfinished(before: Step, after: Step, delta: Delta) -> str | None:
    """How a step ended that lacks a value because it did not complete."""
    lacking = before if delta.before is MISSING else after if delta.after is MISSING else None
    if lacking is None or lacking.status == "complete" or delta.path.startswith("@inputs"):
        return None
    return lacking.status


def _files(run: Run) -> Files:
    made: Files = {}
    for artifact in run.artifacts:
        row = artifact._row  # noqa: SLF001
        key = (row.run_id, row.path, row.seq, row.attempt)
        made.setdefault(key, {})[artifact.name] = artifact.sha256
    return made
