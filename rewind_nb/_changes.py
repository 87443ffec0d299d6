"""What differs between two aligned steps: inputs, writes, deletions, result and error.

Values are compared by their encoding, leaf by leaf. A change is told once: what a result
only repeats from the state is left out of it.

Two long runs are a thousand versions of one history on either side. `Comparison` reads each
from the one before it, so that they share what stayed the same, and remembers the changes of
a part that it sees again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from rewind_nb import _codec, _path
from rewind_nb._codec._reread import Pool
from rewind_nb._contrast import contrast
from rewind_nb._describe import displayed
from rewind_nb._diff import MISSING, Delta, Known, diff_nodes, strict_equal
from rewind_nb._divergence import Divergence
from rewind_nb._label import address, label, shown
from rewind_nb._model import StepRow
from rewind_nb._run import Step
from rewind_nb._store import Store
from rewind_nb._store._nodes import Nodes

Values = Mapping[str, str]
"""Hashes of values, by name."""

Side = Literal["before", "after"]
"""Of two runs the first and the second."""

STEP = "@step"
RESULT = _path.join("", _path.Root("@result"))


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs.

    Attributes:
        path: such as ``report.groups.A.total``; ``@result``, ``@error``, ``@inputs.x``,
            ``@artifacts["page.md"]`` (by its hash) and ``@step`` (a step only one side has)
            beside the state.
        before: the first run's value; MISSING where it has none.
        after: the second run's.
        kind: ``changed``, ``added``, ``removed``, ``type`` or ``order``; ``failed``,
            ``interrupted`` or ``open`` where a run has none because its step did not complete.
        cause: why, in words.
        seq: position in the second run (in the first, for a removed step); for a step of a
            task, in the task.
        lane: the task it is in, such as ``map:1[0]/``; "" for a step of the run itself.
    """

    seq: int
    action: str
    visit: int
    path: str
    before: Any
    after: Any
    kind: str
    cause: str
    lane: str = ""

    @classmethod
    def at(cls, step: Step, delta: Delta, cause: str, kind: str | None = None) -> Change:
        """A change of a step; *kind* where it is another one than that of the values."""
        path, before, after, of_values = delta
        kind = kind or of_values
        return cls(step.seq, step.action, step.visit, path, before, after, kind, cause, step.path)

    @property
    def address(self) -> str:
        """Where the step stands: ``search:2``, or inside a task ``map:1[0]/query:1``."""
        return address(self.lane, self.action, self.visit)

    @property
    def label(self) -> str:
        """The step in words."""
        return label(self.seq, self.action, self.visit, self.lane)

    def __repr__(self) -> str:
        visit = f" (visit {self.visit})" if self.visit > 1 else ""
        where = shown(self.address) if self.lane else f"{self.action!r}{visit}"
        values = " -> ".join(contrast(self.before, self.after))
        return displayed(f"<Change {where} {self.path}: {values} [{self.cause}]>")


class ArtifactChange(NamedTuple):
    """A file by its hash in each run; None where a run has none of that name."""

    name: str
    before: str | None
    after: str | None

    @property
    def same(self) -> bool:
        """Whether the bytes are the same."""
        return self.before == self.after

    @property
    def kind(self) -> Literal["same", "changed", "added", "removed"]:
        """What became of it: ``same``, ``changed``, ``added`` or ``removed``."""
        return "same" if self.same else _kind(self.before, self.after)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the two runs ended."""

    before: str
    after: str
    changed: tuple[str, ...]  # top-level fields of the final state that differ


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

    @property
    def shared(self) -> bool:
        """Whether both are the very same row."""
        both = self.before is not None and self.after is not None
        return both and self.before.key == self.after.key  # type: ignore[union-attr]


class Comparison:
    """Compares what aligned steps were given and did.

    Args:
        before: the store that has the values of the first run.
        after: of the second.
    """

    def __init__(self, before: Store, after: Store) -> None:
        pool = Pool()
        self._nodes = {store: Nodes(store, pool) for store in (before, after)}
        self._known: Known = {}

    def fields(self, before: Step, after: Step) -> Iterator[Delta]:
        """What two executions of a step were given and did differently, artifacts apart."""
        ours, theirs = before.row, after.row
        yield from self._mappings(before, after, dict(ours.inputs), dict(theirs.inputs), "@inputs")
        yield from text_changes("@error", error_text(ours), error_text(theirs))
        yield from self._mappings(before, after, dict(ours.writes), dict(theirs.writes), "")
        if ours.deleted != theirs.deleted:
            yield Delta("@deleted", ours.deleted or MISSING, theirs.deleted or MISSING, "changed")
        if ours.result != theirs.result:
            yield from self._results(before, after)

    def values(
        self, before: Step, after: Step, old: str | None, new: str | None, path: str
    ) -> Iterator[Delta]:
        """The differing leaves between two stored values, decoded; None where there is none."""
        ours, theirs = self._node(before, old), self._node(after, new)
        if ours is MISSING or theirs is MISSING:
            yield Delta(path, _value(ours), _value(theirs), _kind(old, new))
            return
        for delta in diff_nodes(ours, theirs, path, self._known):
            if type(delta.before) is type(delta.after) is str:
                yield delta
            else:
                yield Delta(delta.path, _value(delta.before), _value(delta.after), delta.kind)

    def _mappings(
        self, before: Step, after: Step, old: Values, new: Values, prefix: str
    ) -> Iterator[Delta]:
        for key in dict.fromkeys([*old, *new]):
            ours, theirs = old.get(key), new.get(key)
            if ours != theirs:
                yield from self.values(before, after, ours, theirs, _path.join(prefix, key))

    def _results(self, before: Step, after: Step) -> Iterator[Delta]:
        """Changes of the result, those apart that only repeat a state write of that name."""
        written = {*dict(before.row.writes), *dict(after.row.writes)}
        results = [(s, _items(self._node(s, s.row.result))) for s in (before, after)]
        if None in (before.row.result, after.row.result) and all(
            self._node(step, step.row.result) in (MISSING, result)
            and all(name in written and self._repeats(step, result, name) for name in result)
            for step, result in results
        ):
            return  # one did not complete: its writes say so
        told: dict[Any, bool] = {}
        for delta in self.values(before, after, before.row.result, after.row.result, RESULT):
            _, *parts = _path.parse(delta.path)
            name = parts[0] if parts else None
            if name not in told:
                told[name] = name in written and all(self._repeats(*r, name) for r in results)
            if not told[name]:
                yield delta

    def _repeats(self, step: Step, result: Mapping[Any, Any], name: Any) -> bool:
        """Whether the result has at *name* what the step wrote there, or neither has anything."""
        value, written = (
            result.get(name, MISSING),
            self._node(step, dict(step.row.writes).get(name)),
        )
        if MISSING in (value, written):
            return value is written
        return strict_equal(value, written)

    def _node(self, step: Step, digest: str | None) -> Any:
        return MISSING if digest is None else self._nodes[step.store].node(digest)


def text_changes(path: str, old: str | None, new: str | None) -> Iterator[Delta]:
    """The change from one text to another; None where there is none."""
    if old != new:
        before, after = (MISSING if text is None else text for text in (old, new))
        yield Delta(path, before, after, _kind(old, new))


def only_side(found: Change | Divergence) -> Side | None:
    """The side that took a step which the other did not; None where a field differs.

    Example:
        >>> only_side(Divergence(3, "book", 1, "@step", "complete", MISSING, "why"))
        'before'
    """
    if found.path != STEP:
        return None
    return "before" if found.after is MISSING else "after"


def error_text(row: StepRow) -> str | None:
    """A step's error on one line."""
    return None if row.error is None else f"{row.error.type}: {row.error.message}"


def _kind(old: str | None, new: str | None) -> Literal["changed", "added", "removed"]:
    return "added" if old is None else "removed" if new is None else "changed"


def _items(node: Any) -> dict[Any, Any]:
    """What an encoded dict holds under its text keys; empty for anything else."""
    if not isinstance(node, dict):
        return {}
    if "$" not in node:
        return node
    pairs = node["v"] if node["$"] == "dict" else []
    return {key: value for key, value in pairs if isinstance(key, str)}


def _value(node: Any) -> Any:
    return node if node is MISSING else _codec.decode_node(node)
