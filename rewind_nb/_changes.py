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
from rewind_nb._delta import Delta, became, one_change, order_of_keys
from rewind_nb._describe import displayed
from rewind_nb._diff import MISSING, Known, diff_items, diff_nodes, strict_equal
from rewind_nb._divergence import Divergence, both_paths
from rewind_nb._label import address, label, shown
from rewind_nb._model import StepRow
from rewind_nb._run import Run, Step
from rewind_nb._store import Store
from rewind_nb._store._nodes import Nodes

Values = Mapping[str, str]
"""Hashes of values, by name."""

Kept = Step | Run
"""What is in a store."""

Side = Literal["before", "after"]
"""Of two runs the first and the second."""

STEP = "@step"
RESULT = _path.join("", _path.Root("@result"))
STREAM = "@stream"
RAW = "@error.raw"


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs.

    Attributes:
        path: such as ``report.groups.A.total``, where it is in the second run's value; in the
            first's, if it was removed. Beside the state ``@result``, ``@error``,
            ``@error.raw`` (the output that could not be used), ``@inputs.x``, ``@stream[2]``,
            ``@artifacts["page.md"]`` (by its hash), ``@deleted``, ``@writes`` and ``@state``
            (the order of the keys that a step wrote, or a run began with), ``@status``,
            ``@step`` (a step only one side has), ``@next`` and ``@outcome`` (where, and how, a
            run stopped after steps that both took).
        before: the first run's value; MISSING where it has none.
        after: the second run's.
        kind: ``changed``, ``added``, ``removed``, ``type`` or ``order``; ``failed``,
            ``interrupted`` or ``open`` where a run has none because its step did not complete.
        cause: why, in words.
        seq: position in the second run (in the first, for a removed step); for a step of a
            task, in the task.
        lane: the task it is in, such as ``map:1[0]/``; "" for a step of the run itself.
        was_at: the path in the first run's value, where the items of a list around it moved;
            None where that is *path* too.
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
    was_at: str | None = None

    @classmethod
    def at(cls, step: Step, delta: Delta, cause: str, kind: str | None = None) -> Change:
        """A change of a step; *kind* where it is another one than that of the values."""
        path, before, after, of_values, was_at = delta
        place = (step.seq, step.action, step.visit)
        return cls(*place, path, before, after, kind or of_values, cause, step.path, was_at)

    @property
    def where(self) -> str:
        """The path in words: where it was before too, if that is elsewhere."""
        return both_paths(self.path, self.was_at)

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
        return displayed(f"<Change {where} {self.where}: {values} [{self.cause}]>")


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
        """Whether both were given and did the very same; files apart, which are no part of it."""
        before, after = self
        if before is None or after is None:
            return False
        return self.shared or _done(before) == _done(after)

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
        yield from _endings(before, after)
        old, new = dict(ours.writes), dict(theirs.writes)
        yield from self._mappings(before, after, old, new, "")
        yield from order_of_keys("@writes", old, new)
        yield from one_change("@deleted", ours.deleted, theirs.deleted)
        if ours.result != theirs.result:
            yield from self._results(before, after)
        if ours.stream != theirs.stream:
            yield from self._chunks(before, after)

    def values(
        self, before: Kept, after: Kept, old: str | None, new: str | None, path: str
    ) -> Iterator[Delta]:
        """The differing leaves between two stored values, decoded; None where there is none.

        Args:
            before: what the first is stored with: a step, or a run.
            after: what the second is.
            path: where both are.
        """
        ours, theirs = self._node(before, old), self._node(after, new)
        if ours is MISSING or theirs is MISSING:
            yield Delta(path, _value(ours), _value(theirs), became(old, new))
            return
        yield from map(decoded, diff_nodes(ours, theirs, path, self._known))

    def _chunks(self, before: Step, after: Step) -> Iterator[Delta]:
        """The chunks that differ; where only one side streamed, all of them as one change."""
        old, new = before.row.stream, after.row.stream
        if old is None or new is None:
            yield from self.values(before, after, old, new, STREAM)
        else:
            items = self._node(before, old), self._node(after, new)
            yield from map(decoded, diff_items(*items, STREAM))

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
        if before.status != after.status and all(
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

    def _node(self, kept: Kept, digest: str | None) -> Any:
        return MISSING if digest is None else self._nodes[kept.store].node(digest)


def _done(step: Step) -> tuple[Any, ...]:
    raw = None if step.error is None else step.error.raw
    return step.hash, step.status, step.row.stream, raw, dict(step.row.inputs)


def _endings(before: Step, after: Step) -> Iterator[Delta]:
    """How the two ended, as far as that differs."""
    errors = before.error, after.error
    texts = error_text(before.row), error_text(after.row)
    yield from one_change("@error", *texts)
    if None not in errors:
        yield from one_change(RAW, *(error.raw for error in errors if error))
    if texts[0] == texts[1]:  # else the error tells it
        yield from one_change("@status", before.status, after.status)


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


def decoded(delta: Delta) -> Delta:
    """A change of nodes as one of the values that they stand for."""
    if type(delta.before) is type(delta.after) is str:
        return delta
    return delta._replace(before=_value(delta.before), after=_value(delta.after))


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
