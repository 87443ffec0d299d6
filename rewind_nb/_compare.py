"""`Diff`: two trajectories side by side, field by field, with the cause of each change.

Steps, those of tasks included, are aligned by (path, action, visit), never by index, so
that a loop that ran once more does not shift everything after it. Values are compared by their encoding. A change's
cause is what the step was seen to read and had changed before it; followed back, key by
key, that leads to the override. `_fields` and `_causes` find these, one pair at a time.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from rewind_nb._answering import other_model_note
from rewind_nb._causes import Causes, Given
from rewind_nb._chains import Link
from rewind_nb._changes import Change, Pair, error_text, only_side
from rewind_nb._contrast import contrast
from rewind_nb._describe import displayed, plural
from rewind_nb._diff_views import DiffViews
from rewind_nb._divergence import Divergence
from rewind_nb._ends import ArtifactChange, Outcome, artifact_changes, outcome
from rewind_nb._fields import Fields, Found
from rewind_nb._label import label
from rewind_nb._lineage import lineage, overrides
from rewind_nb._lookup import unchanged
from rewind_nb._pairs import Nesting, paired
from rewind_nb._path import is_within
from rewind_nb._run import Run, Step
from rewind_nb.errors import NotFoundError

if TYPE_CHECKING:
    import pandas as pd


__all__ = [
    "ArtifactChange",
    "Change",
    "Diff",
    "Given",
    "Link",
    "Outcome",
    "Pair",
    "compare",
    "error_text",
]

MAX_ASKING = 3  # steps named that another model answered


class Diff(DiffViews):
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
        """Every step of both runs, aligned, those of its tasks right before it.

        So each stands behind all that it rests on; tasks stand in their order.
        """
        return tuple(paired(self.a.steps, self.b.steps))

    @cached_property
    def identical(self) -> bool:
        """Whether no change is listed: both were given the same, did the same and ended alike.

        They took the same steps with the same inputs, writes, deletions, results, errors,
        stream chunks and files, from the same state, and stopped alike at the same place. What
        only led to that is not compared: reads, calls, sources, code, cost and time.
        """
        return next(self._fields.changes(), None) is None

    @cached_property
    def ancestor(self) -> Run | None:
        """The nearest run both stem from (one of the two, where one is the other's fork)."""
        ids = {run.id for run in lineage(self.a)}
        return next((run for run in lineage(self.b) if run.id in ids), None)

    @cached_property
    def shared_steps(self) -> int:
        """How many leading steps of the runs themselves are the very same rows."""
        count = 0
        for ours, theirs in zip(self.a.steps, self.b.steps, strict=False):
            if (ours.run_id, ours.row.seq) != (theirs.run_id, theirs.row.seq):
                break
            count += 1
        return count

    @cached_property
    def changes(self) -> tuple[Change, ...]:
        """Every field that differs, in execution order.

        A list that came to differ in more than 32 items is told as a whole once. Where both
        runs only add to it later, it differs in them still, and what differs in the added items
        is told.
        """
        return tuple(found.change for found in self.found)

    @property
    def changed_steps(self) -> int:
        """How many steps differ in some field, those that only one run took included."""
        return len(self.changed_pairs)

    @cached_property
    def changed_pairs(self) -> frozenset[int]:
        """The positions in `pairs` of those steps."""
        differing = {n for n, pair in enumerate(self.pairs) if None not in pair and not pair.same}
        return frozenset(differing.union(found.pair for found in self.found))

    @cached_property
    def divergence(self) -> Divergence | None:
        """The first difference: step, field, values."""
        first = next(iter(self.changes), None)
        if first is None:
            return None
        where = (first.seq, first.action, first.visit, first.path)
        values = first.before, first.after
        return Divergence(*where, *values, first.cause, first.lane, first.was_at)

    @cached_property
    def overrides(self) -> tuple[Given, ...]:
        """The overrides that set the runs apart: each that only one of them was given.

        One that equals what was recorded is among them, though it changed nothing; and an
        edited application, whether the code of a step was edited or the way on from it.
        """
        return overrides(self.a, self.b, self.ancestor, [*self._causes.given()])

    @property
    def cause(self) -> str | None:
        """The overrides that set the runs apart, in words; None where there are none.

        Each is followed by its side, unless all were given to the second run.
        """
        all_after = all(given.side == "after" for given in self.overrides)
        words = (g.words if all_after else f"{g.words} ({g.side})" for g in self.overrides)
        return "; ".join(words) or None

    @cached_property
    def artifacts(self) -> tuple[ArtifactChange, ...]:
        """Every file either run made, by name, with its hash before and after."""
        return artifact_changes(self.a, self.b)

    @cached_property
    def outcome(self) -> Outcome:
        """How each run ended, and which fields of the final state differ."""
        return outcome(self.a, self.b)

    @cached_property
    def mismatched_models(self) -> tuple[str, ...]:
        """The models of the second run that others answered for, each pair with its calls."""
        told: dict[str, dict[int, list[Step]]] = {}  # by the run's own step
        for step in self.b.walk():
            asked = step.live_calls or step.played_calls or step.row.status == "open"
            for call in step.calls if asked and step.source != "inherited" else ():
                if call.mismatched_model:
                    words = other_model_note(call.model, call.answered_by)
                    told.setdefault(words, {}).setdefault(step.top.seq, []).append(step)
        return tuple(f"{words}: {_asking(list(by.values()))}" for words, by in told.items())

    @property
    def df(self) -> pd.DataFrame:
        """The changes as a frame; columns in `_frames.CHANGE_COLUMNS`."""
        from rewind_nb import _frames

        return _frames.changes_df(self)

    def why(self, path: str, *, at: str | None = None) -> list[tuple[Link, ...]]:
        """The chains of observed reads from the override to a changed field.

        They lead into tasks and out of them, and through the conditions that sent the runs
        different ways to what only one of them did. At most 64, the shortest first: a loop that
        reads and writes two keys has exponentially many.

        Args:
            path: of a change, such as ``text`` or ``report.total``; or of a field that a step
                wrote or deleted which only one run took.
            at: the step that changed it, by its address such as ``each:2[3]/grade:1``; if it
                is left out, the last that did: in each run, where those are two.

        Returns:
            Chains, each from its first cause to the field.

        Raises:
            NotFoundError: nothing changed at this path: both runs have the same there, or
                neither has anything, or there is no such step; the message says which, and
                what did change.
            ConfigError: neither has anything there, and the text is not a path.
        """
        if at is None and (origins := self._fields.at_end(path)):
            return self._causes.chains.through(origins, path)
        there = [f for f in self.found if at is None or f.change.address == at]
        found = [f for f in there if f.change.path == path]
        found = found or [f for f in there if path and is_within(f.change.path, path)]
        alone = self._fields.touched_by_one_side(path, at)
        if not found and alone is None:
            raise NotFoundError(unchanged(self, path, at), path=path, at=at)
        if alone is not None and (not found or alone > found[-1].pair):
            return self._causes.chains.to(alone, path)
        return self.chains(found[-1], path)

    def chains(self, found: Found, path: str | None = None) -> list[tuple[Link, ...]]:
        """The chains to a change, or to another field of the same step."""
        change = found.change
        path = change.path if path is None else path
        if found.entering:  # it begins there
            return [(Link(change.seq, change.action, path, change.lane, change.visit),)]
        chains = self._causes.chains
        return (chains.on if found.leaving else chains.to)(found.pair, path)

    # -- how ------------------------------------------------------------------------------

    @cached_property
    def nesting(self) -> Nesting:
        """Which of the pairs are in tasks of which."""
        return Nesting(self.pairs)

    @cached_property
    def _causes(self) -> Causes:
        return Causes(self.pairs, self.nesting, (self.a, self.b))

    @cached_property
    def _fields(self) -> Fields:
        return Fields(self.a, self.b, self.pairs, self.nesting, self._causes)

    @cached_property
    def found(self) -> tuple[Found, ...]:
        """The changes, each with where it was found."""
        return tuple(self._fields.changes())

    # -- showing --------------------------------------------------------------------------

    def __str__(self) -> str:
        from rewind_nb._text import diff_text

        return diff_text(self)

    def __repr__(self) -> str:
        if self.identical:
            return f"<Diff {self.a.id} = {self.b.id}: identical, {plural(len(self.pairs), 'step')}>"
        first = "" if self.divergence is None else f"; first: {self._in_words(self.divergence)}"
        counted = f"{plural(len(self.changes), 'change')} in {plural(self.changed_steps, 'step')}"
        shared = f"{plural(self.shared_steps, 'step')} shared"
        told = f"<Diff {self.a.id} -> {self.b.id}: {counted}, {shared}{first}>"
        return displayed(told)

    def _in_words(self, first: Divergence) -> str:
        step = first.label
        if side := only_side(first):
            return f"{step} only in {(self.a if side == 'before' else self.b).id} ({first.why})"
        values = " -> ".join(contrast(first.before, first.after))
        return f"{step} {first.where}: {values} ({first.why})"


def compare(a: Run, b: Run) -> Diff:
    """The diff of two runs of any kind."""
    return Diff(a, b)


def _asking(groups: list[list[Step]]) -> str:
    """The steps, or the tasks, that asked, each group those of one step of the run."""
    said = []
    for steps in groups[:MAX_ASKING]:
        step, top = steps[0], steps[0].top
        where = step.label if step.path else label(step.seq, step.action, 1)
        if len(steps) > 1:
            inside = "tasks of " if any(step.path for step in steps) else ""
            where = f"{len(steps)} calls in {inside}{label(top.seq, top.action, 1)}"
        said.append(where)
    more = groups[MAX_ASKING:]
    said += [f"{plural(sum(map(len, more)), 'more call')} in {plural(len(more), 'step')}"] * bool(
        more
    )
    return ", ".join(said)
