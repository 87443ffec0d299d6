"""`Diff`: two trajectories side by side, field by field, with the cause of each change.

Steps are aligned by (path, action, visit), never by index, so that a loop that ran once
more does not shift everything after it. Values are compared by their encoding. A change's
cause is what the step was seen to read and had changed before it; followed back, key by
key, that leads to the override. `_changes` and `_causes` find these, one pair at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from rewind_nb._align import align
from rewind_nb._causes import Causes, Link
from rewind_nb._changes import (
    Change,
    Delta,
    Pair,
    error_text,
    field_changes,
    node_changes,
    text_changes,
)
from rewind_nb._describe import plural
from rewind_nb._divergence import Divergence
from rewind_nb._path import bracket
from rewind_nb._run import Run, Step
from rewind_nb._store._read import StepKey
from rewind_nb.errors import NotFoundError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ArtifactChange", "Change", "Diff", "Link", "Outcome", "Pair", "compare", "error_text"]


class ArtifactChange(NamedTuple):
    """A file by its hash in each run; None where a run has none of that name."""

    name: str
    before: str | None
    after: str | None

    @property
    def same(self) -> bool:
        """Whether the bytes are the same."""
        return self.before == self.after


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the two runs ended."""

    before: str
    after: str
    changed: tuple[str, ...]  # top-level fields of the final state that differ


class Diff:
    """The comparison of two runs.

    Attributes:
        a: the first run (before).
        b: the second run (after).

    Example:
        >>> diff = rw.diff(run, fork)  # doctest: +SKIP
        >>> diff.divergence.path  # doctest: +SKIP
        'analysis.groups.Adelie.total'
    """

    def __init__(self, a: Run, b: Run) -> None:
        self.a = a
        self.b = b

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Every step of both runs, aligned, in execution order."""
        ours, theirs = self.a.steps, self.b.steps
        aligned = align([_key(s) for s in ours], [_key(s) for s in theirs])
        return tuple(
            Pair(None if i is None else ours[i], None if j is None else theirs[j])
            for i, j in aligned
        )

    @property
    def identical(self) -> bool:
        """Whether both took the same steps with the same hashes and files, and ended alike."""
        return (
            all(pair.same for pair in self.pairs)
            and self.a.state_hash == self.b.state_hash
            and not any(any(self._artifact_changes(pair)) for pair in self.pairs)
        )

    @cached_property
    def ancestor(self) -> Run | None:
        """The nearest run both stem from (one of the two, where one is the other's fork)."""
        lineage = list(_lineage(self.a))
        ids = {run.id for run in lineage}
        return next((run for run in _lineage(self.b) if run.id in ids), None)

    @cached_property
    def shared_steps(self) -> int:
        """How many leading steps are the very same rows."""
        count = 0
        for ours, theirs in zip(self.a.steps, self.b.steps, strict=False):
            if (ours.run_id, ours.row.seq) != (theirs.run_id, theirs.row.seq):
                break
            count += 1
        return count

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Every field that differs, in execution order."""
        return tuple(change for _, change in self._placed)

    @cached_property
    def divergence(self) -> Divergence | None:
        """The first difference: step, field, values."""
        first = next(iter(self.changes), None)
        if first is None:
            return None
        return Divergence(
            first.seq, first.action, first.visit, first.path, first.before, first.after, first.cause
        )

    @property
    def cause(self) -> str | None:
        """The override that sets the second run apart from the first, in words."""
        return self.b.override_words if self.b.overrides else None

    @cached_property
    def artifacts(self) -> tuple[ArtifactChange, ...]:
        """Every file either run made, by name, with its hash before and after."""
        before = {a.name: a.sha256 for a in self.a.artifacts}
        after = {a.name: a.sha256 for a in self.b.artifacts}
        names = dict.fromkeys([*before, *after])
        return tuple(ArtifactChange(n, before.get(n), after.get(n)) for n in names)

    @cached_property
    def outcome(self) -> Outcome:
        """How each run ended, and which fields of the final state differ."""
        before, after = self.a.final_manifest, self.b.final_manifest
        keys = dict.fromkeys([*before, *after])
        changed = tuple(k for k in keys if before.get(k) != after.get(k))
        return Outcome(self.a.status, self.b.status, changed)

    @cached_property
    def mismatched_models(self) -> tuple[str, ...]:
        """Calls of the second run that another model answered than was asked."""
        return tuple(
            f"step {s.seq} {s.action!r}: asked {c.model}, answered by {c.answered_by}"
            for s in self.b.steps
            if s.source != "inherited"
            for c in s.calls
            if c.mismatched_model
        )

    @property
    def df(self) -> pd.DataFrame:
        """The changes as a frame; columns in `_frames.CHANGE_COLUMNS`."""
        from rewind_nb import _frames

        return _frames.changes_df(self)

    def why(self, path: str) -> list[tuple[Link, ...]]:
        """The chains of observed reads from the override to a changed field.

        At most 64, the shortest first: a loop that reads and writes two keys has
        exponentially many.

        Args:
            path: of a change, such as ``text`` or ``report.total``; the last step that
                changed it is meant.

        Returns:
            Chains, each from its first cause to the field.

        Raises:
            NotFoundError: nothing changed at this path; the message lists what did.
        """
        within = (f"{path}.", f"{path}[")
        found = [n for n, c in self._placed if c.path == path]
        found = found or [n for n, c in self._placed if c.path.startswith(within)]
        if not found:
            changed = dict.fromkeys(c.path for c in self.changes)
            raise NotFoundError(f"Nothing changed at {path!r}. {did_you_mean(path, changed)}")
        return self._causes.chains(found[-1], path)

    # -- how ------------------------------------------------------------------------------

    @cached_property
    def _causes(self) -> Causes:
        return Causes(self.pairs)

    @cached_property
    def _files(self) -> tuple[dict[StepKey, dict[str, str]], dict[StepKey, dict[str, str]]]:
        return _files(self.a), _files(self.b)

    @cached_property
    def _placed(self) -> list[tuple[int, Change]]:
        """The changes, each with the position of its pair."""
        return [(n, change) for n in range(len(self.pairs)) for change in self._changes(n)]

    def _changes(self, n: int) -> Iterator[Change]:
        pair = self.pairs[n]
        before, after = pair
        if pair.shared:
            return
        if before is None or after is None:
            ours, theirs = (None if s is None else s.status for s in pair)
            for delta in text_changes("@step", ours, theirs):
                yield Change.at(pair.shown, delta, "the path of execution changed")
            return
        yield from self._entering_changes(n, before, after)
        deltas = [*self._artifact_changes(pair)]
        if not pair.same or before.row.inputs != after.row.inputs:
            deltas = [*field_changes(before, after), *deltas]
        cause = self._causes.words(n) if deltas else ""
        yield from (Change.at(pair.shown, delta, cause) for delta in deltas)

    def _entering_changes(self, n: int, before: Step, after: Step) -> Iterator[Change]:
        """State that differs as it enters a step without any step having written it."""
        overridden = self._causes.entering(n)
        first = n == 0 and before.seq == after.seq == 0
        if not first and not overridden:
            return
        ours = dict(self.a.entering_manifest(before))
        theirs = dict(self.b.entering_manifest(after))
        for key in dict.fromkeys([*ours, *theirs]) if first else overridden:
            if ours.get(key) == theirs.get(key):
                continue
            cause = "override" if key in overridden else "another initial state"
            for delta in node_changes(before, ours.get(key), theirs.get(key), "", key):
                yield Change.at(after, delta, cause)

    def _artifact_changes(self, pair: Pair) -> Iterator[Delta]:
        """The files that a step both sides have made with other bytes, or on one side only."""
        before, after = pair
        if before is None or after is None:
            return
        ours, theirs = self._files[0].get(before.key, {}), self._files[1].get(after.key, {})
        for name in dict.fromkeys([*ours, *theirs]):
            yield from text_changes(bracket("@artifacts", name), ours.get(name), theirs.get(name))

    # -- showing --------------------------------------------------------------------------

    def __str__(self) -> str:
        from rewind_nb._text import diff_text

        return diff_text(self)

    def __repr__(self) -> str:
        if self.identical:
            return f"<Diff {self.a.id} = {self.b.id}: identical, {len(self.pairs)} steps>"
        changed = len({(c.action, c.visit) for c in self.changes})
        return (
            f"<Diff {self.a.id} -> {self.b.id}: {plural(len(self.changes), 'change')} in "
            f"{plural(changed, 'step')}, {plural(self.shared_steps, 'step')} shared; "
            f"first: {self.divergence}>"
        )

    def _repr_html_(self) -> str:
        from rewind_nb import _html

        return _html.diff_html(self)


def compare(a: Run, b: Run) -> Diff:
    """The diff of two runs of any kind."""
    return Diff(a, b)


def _key(step: Step) -> tuple[str, str, int]:
    return (step.path, step.action, step.visit)


def _files(run: Run) -> dict[StepKey, dict[str, str]]:
    """The hashes of a run's artifacts by name, for each step that made any."""
    made: dict[StepKey, dict[str, str]] = {}
    for artifact in run.artifacts:
        row = artifact._row  # noqa: SLF001
        key = (row.run_id, row.path, row.seq, row.attempt)
        made.setdefault(key, {})[artifact.name] = artifact.sha256
    return made


def _lineage(run: Run) -> Iterator[Run]:
    current: Run | None = run
    while current is not None:
        yield current
        current = current.parent
