"""Every field that differs between two runs, pair by pair, with its cause."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from rewind_nb._causes import Causes
from rewind_nb._changes import STEP, Change, Comparison, Pair, text_changes
from rewind_nb._diff import Delta
from rewind_nb._path import bracket, join
from rewind_nb._run import Run, Step
from rewind_nb._store._read import StepKey

ENDED = {
    "failed": "failed before it",
    "halted": "halted before it",
    "interrupted": "was interrupted before it",
    "running": "has not come to it yet",
}
"""Why a run that is not complete has no step after its last."""

Files = dict[StepKey, dict[str, str]]
"""The hashes of artifacts by name, for each step that made any."""


class Fields:
    """What differs between two runs.

    Args:
        before: the first run.
        after: the second.
        pairs: their steps, aligned.
        causes: of these pairs.
    """

    def __init__(self, before: Run, after: Run, pairs: Sequence[Pair], causes: Causes) -> None:
        self.before = before
        self.after = after
        self.pairs = pairs
        self.causes = causes

    def changes(self) -> tuple[list[Change], list[int]]:
        """The changes in execution order, and for each pair how many there are up to its last."""
        values = Comparison(self.before.store, self.after.store)
        changes: list[Change] = []
        ends = []
        for n in range(len(self.pairs)):
            changes += self._of_pair(n, values)
            ends.append(len(changes))
        return changes, ends

    def files(self, pair: Pair) -> Iterator[Delta]:
        """The files that a step both sides took made with other bytes, or on one side only."""
        before, after = pair
        if before is None or after is None:
            return
        ours, theirs = self._files[0].get(before.key, {}), self._files[1].get(after.key, {})
        for name in dict.fromkeys([*ours, *theirs]):
            yield from text_changes(bracket("@artifacts", name), ours.get(name), theirs.get(name))

    def _of_pair(self, n: int, values: Comparison) -> Iterator[Change]:
        pair = self.pairs[n]
        before, after = pair
        if pair.shared:
            return
        if before is None or after is None:
            ours, theirs = (None if s is None else s.status for s in pair)
            for delta in text_changes(STEP, ours, theirs):
                yield Change.at(pair.shown, delta, self._absence(n))
            return
        yield from self._entering(n, before, after, values)
        deltas = [*self.files(pair)]
        if not pair.same or before.row.inputs != after.row.inputs:
            deltas = [*values.fields(before, after), *deltas]
        cause = self.causes.words(n) if deltas else ""
        yield from (Change.at(pair.shown, delta, cause) for delta in deltas)

    def _entering(self, n: int, before: Step, after: Step, values: Comparison) -> Iterator[Change]:
        """State that differs as it enters a step without any step having written it."""
        overridden = self.causes.entering(n)
        first = n == 0 and before.seq == after.seq == 0
        if not first and not overridden:
            return
        ours = dict(self.before.entering_manifest(before))
        theirs = dict(self.after.entering_manifest(after))
        for key in dict.fromkeys([*ours, *theirs]) if first else overridden:
            if ours.get(key) == theirs.get(key):
                continue
            cause = "override" if key in overridden else "another initial state"
            found = values.values(before, after, ours.get(key), theirs.get(key), join("", key))
            for delta in found:
                yield Change.at(after, delta, cause)

    def _absence(self, n: int) -> str:
        """Why only one side took a step: the other run ended before it, or went another way."""
        side, run = (0, self.before) if self.pairs[n].before is None else (1, self.after)
        if n > self._last[side] and run.status in ENDED:
            return f"run {run.id} {ENDED[run.status]}"
        return "the runs took different paths"

    @cached_property
    def _last(self) -> tuple[int, int]:
        """For each side, the position of the last pair that it has a step in."""
        before, after = ([n for n, p in enumerate(self.pairs) if p[side]] for side in (0, 1))
        return max(before, default=-1), max(after, default=-1)

    @cached_property
    def _files(self) -> tuple[Files, Files]:
        return _files(self.before), _files(self.after)


def _files(run: Run) -> Files:
    made: Files = {}
    for artifact in run.artifacts:
        row = artifact._row  # noqa: SLF001
        key = (row.run_id, row.path, row.seq, row.attempt)
        made.setdefault(key, {})[artifact.name] = artifact.sha256
    return made
