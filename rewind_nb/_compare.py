"""`Diff`: two trajectories side by side, field by field, with the cause of each change.

Steps are aligned by (path, action, visit), never by index, so that a loop that ran once
more does not shift everything after it. Values are compared by their encoding. A change's
cause is what the step was seen to read and had changed before it; followed back, key by
key, that leads to the override.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from rewind_nb import _codec
from rewind_nb._align import align
from rewind_nb._describe import plural, short
from rewind_nb._diff import MISSING, diff_nodes
from rewind_nb._divergence import Divergence
from rewind_nb._model import Override, StepRow
from rewind_nb._run import Run, Step
from rewind_nb.errors import NotFoundError, did_you_mean

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs.

    Attributes:
        path: such as ``report.groups.A.total``; ``@result``, ``@error``, ``@inputs.x`` and
            ``@step`` (a step only one side has) beside the state.
        before: the first run's value; MISSING where it has none.
        after: the second run's.
        kind: ``changed``, ``added``, ``removed``, ``type`` or ``order``.
        cause: why, in words.
        seq: position in the second run (in the first, for a removed step).
    """

    seq: int
    action: str
    visit: int
    path: str
    before: Any
    after: Any
    kind: str
    cause: str

    def __repr__(self) -> str:
        visit = f" (visit {self.visit})" if self.visit > 1 else ""
        values = f"{short(self.before)} -> {short(self.after)}"
        return f"<Change {self.action!r}{visit} {self.path}: {values} [{self.cause}]>"


class Pair(NamedTuple):
    """An aligned step: the first run's, the second's, or both."""

    before: Step | None
    after: Step | None

    @property
    def shown(self) -> Step:
        """The second run's where there is one."""
        step = self.after or self.before
        assert step is not None  # noqa: S101  (align pairs at least one)
        return step

    @property
    def same(self) -> bool:
        """Whether both did the very same."""
        both = self.before is not None and self.after is not None
        return both and self.before.hash == self.after.hash  # type: ignore[union-attr]


class ArtifactChange(NamedTuple):
    """A file by its hash in each run; None where a run has none of that name."""

    name: str
    before: str | None
    after: str | None

    @property
    def same(self) -> bool:
        """Whether the bytes are the same."""
        return self.before == self.after


class Link(NamedTuple):
    """One link of a cause: a step and the field it passed on."""

    seq: int
    action: str
    path: str


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
        """Whether both took the same steps, each with the same hash, and ended alike."""
        return all(pair.same for pair in self.pairs) and self.a.state_hash == self.b.state_hash

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
        return tuple(change for pair in self.pairs for change in self._changes(pair))

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
        """Every chain of observed reads from the override to a changed field.

        Args:
            path: of a change, such as ``text`` or ``report.total``; the last step that
                changed it is meant.

        Returns:
            Chains, each from its first cause to the field.

        Raises:
            NotFoundError: nothing changed at this path; the message lists what did.
        """
        found = [c for c in self.changes if c.path == path]
        found = found or [c for c in self.changes if c.path.startswith((f"{path}.", f"{path}["))]
        if not found:
            changed = dict.fromkeys(c.path for c in self.changes)
            raise NotFoundError(f"Nothing changed at {path!r}. {did_you_mean(path, changed)}")
        last = found[-1]
        return list(self._chains(last.seq, Link(last.seq, last.action, path), frozenset()))

    # -- how ------------------------------------------------------------------------------

    def _changes(self, pair: Pair) -> Iterator[Change]:
        before, after, step = pair.before, pair.after, pair.shown
        if before is None or after is None:
            old, new = (MISSING, step.status) if before is None else (step.status, MISSING)
            kind = "added" if before is None else "removed"
            cause = "the path of execution changed"
            yield Change(step.seq, step.action, step.visit, "@step", old, new, kind, cause)
            return
        cause = self._cause(pair)
        for path, old, new, kind in self._entering_changes(pair):
            why = cause if cause == "override" else "another initial state"
            yield Change(step.seq, step.action, step.visit, path, old, new, kind, why)
        if pair.same and before.row.inputs == after.row.inputs:
            return
        for path, old, new, kind in _field_changes(before, after):
            yield Change(step.seq, step.action, step.visit, path, old, new, kind, cause)

    def _entering_changes(self, pair: Pair) -> Iterator[tuple[str, Any, Any, str]]:
        """State that differs as it enters a step without any step having written it."""
        before, after = pair.before, pair.after
        if before is None or after is None:
            return
        overridden = [k for o in self._own_overrides(after) if o.kind == "state" for k in o.value]
        if pair is self.pairs[0] and before.seq == after.seq == 0:
            overridden = []  # the whole state is compared
        elif not overridden:
            return
        ours, theirs = (dict(s.row.state or ()) for s in (before, after))
        if overridden and not ours:
            ours = dict(self.a.entering_manifest(before))
        for key in overridden or dict.fromkeys([*ours, *theirs]):
            if ours.get(key) != theirs.get(key):
                yield from node_changes(before, ours.get(key), theirs.get(key), "", key)

    def _own_overrides(self, step: Step) -> tuple[Override, ...]:
        """The overrides of the second run, at the step they are for."""
        origin = self.b.origin
        return self.b.overrides if origin is not None and origin.at == step.seq else ()

    def _cause(self, pair: Pair) -> str:
        after = pair.after
        assert after is not None  # noqa: S101  (both sides are there)
        if self._own_overrides(after):
            return "override"
        changed = self._changed_reads(pair)
        if changed:
            names = ", ".join(
                f"{k!r}" + (f" (step {w.seq} {w.action!r})" if w else "") for k, w in changed
            )
            return f"read {names}"
        if pair.before is not None and pair.before.row.code != after.row.code:
            return "its code changed"
        if after.live_calls:
            return "asked anew: another answer"
        return "not from its reads: hidden state, clock or chance"

    def _changed_reads(self, pair: Pair) -> list[tuple[str, Step | None]]:
        """The keys a step read that differ between the runs, and who wrote each last."""
        if pair.before is None or pair.after is None:
            return []
        old, new = dict(pair.before.row.reads), dict(pair.after.row.reads)
        keys = [k for k in new if k in old and old[k] != new[k]]
        return [(k, self._writer(pair.after.seq, k)) for k in keys]

    def _writer(self, seq: int, key: str) -> Step | None:
        for step in reversed(self.b.steps[:seq]):
            if key in dict(step.row.writes):
                return step
        return None

    def _chains(self, seq: int, link: Link, seen: frozenset[int]) -> Iterator[tuple[Link, ...]]:
        pair = next((p for p in self.pairs if p.after is not None and p.after.seq == seq), None)
        causes = [] if pair is None else self._changed_reads(pair)
        origins = [(k, w) for k, w in causes if w is not None and w.seq not in seen]
        if not origins:
            yield (link,)
        for key, writer in origins:
            before = Link(writer.seq, writer.action, key)
            for chain in self._chains(writer.seq, before, seen | {seq}):
                yield (*chain, link)

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


def _lineage(run: Run) -> Iterator[Run]:
    current: Run | None = run
    while current is not None:
        yield current
        current = current.parent


def _field_changes(before: Step, after: Step) -> Iterator[tuple[str, Any, Any, str]]:
    yield from _mapping_changes(before, dict(before.row.inputs), dict(after.row.inputs), "@inputs.")
    old, new = dict(before.row.writes), dict(after.row.writes)
    yield from _mapping_changes(before, old, new, "")
    if before.row.deleted != after.row.deleted:
        yield "@deleted", before.row.deleted or MISSING, after.row.deleted or MISSING, "changed"
    if before.row.result != after.row.result:
        yield from _result_changes(before, after)
    ours, theirs = error_text(before.row), error_text(after.row)
    if ours != theirs:
        yield "@error", ours or MISSING, theirs or MISSING, _kind(ours, theirs)


def _mapping_changes(
    step: Step, old: dict[str, str], new: dict[str, str], prefix: str
) -> Iterator[tuple[str, Any, Any, str]]:
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            yield from node_changes(step, old.get(key), new.get(key), prefix, key)


def _result_changes(before: Step, after: Step) -> Iterator[tuple[str, Any, Any, str]]:
    """Changes of the result, those apart that say the same as a state write of that name."""
    written = {*dict(before.row.writes), *dict(after.row.writes)}
    for path, old, new, kind in node_changes(
        before, before.row.result, after.row.result, "", "@result"
    ):
        name = path.removeprefix("@result.").split(".")[0].split("[")[0]
        if name not in written:
            yield path, old, new, kind


def node_changes(
    step: Step, old: str | None, new: str | None, prefix: str, key: str
) -> Iterator[tuple[str, Any, Any, str]]:
    """The differing leaves between two stored values, decoded."""
    from rewind_nb import _path

    store = step.store
    nodes = [_codec.parse(store.content(h).data) if h else MISSING for h in (old, new)]
    path = key if key.startswith("@") else _path.join(prefix.rstrip("."), key)
    for delta in diff_nodes(nodes[0], nodes[1], path):
        yield delta.path, _value(delta.before), _value(delta.after), delta.kind


def _value(node: Any) -> Any:
    return node if node is MISSING else _codec.decode_node(node)


def error_text(row: StepRow) -> str | None:
    """A step's error on one line."""
    return None if row.error is None else f"{row.error.type}: {row.error.message}"


def _kind(before: str | None, after: str | None) -> str:
    if before is None:
        return "added"
    return "removed" if after is None else "changed"
