"""What differs between two aligned steps: inputs, writes, deletions, result and error.

Values are compared by their encoding, leaf by leaf. A change is told once: what a result
only repeats from the state is left out of it.

Two long runs are a thousand versions of one history on either side. `Comparison` reads each
from the one before it, so that they share what stayed the same, and remembers the changes of
a part that it sees again. A list that came to differ in many items differs in them for the
rest of the run: where both sides only add to it, what they add is told, and not all the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rewind_nb import _codec, _path
from rewind_nb._changes import RAW, RESULT, STREAM, error_text
from rewind_nb._codec._reread import Pool
from rewind_nb._delta import Delta, became, one_change, order_of_keys
from rewind_nb._diff import MISSING, Known, diff_items, diff_nodes, strict_equal
from rewind_nb._items import only_added
from rewind_nb._run import Run, Step
from rewind_nb._store import Store
from rewind_nb._store._nodes import Nodes

Values = Mapping[str, str]
"""Hashes of values, by name."""

Kept = Step | Run
"""What is in a store."""

MANY = 32  # items that a list differs in


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
        self._many: dict[tuple[str, str], tuple[Any, Any]] = {}  # by trajectory and path

    def fields(self, before: Step, after: Step) -> Iterator[Delta]:
        """What two executions of a step were given and did differently, artifacts apart."""
        ours, theirs = before.row, after.row
        yield from self._mappings(before, after, dict(ours.inputs), dict(theirs.inputs), "@inputs")
        yield from _endings(before, after)
        old, new = dict(ours.writes), dict(theirs.writes)
        yield from self._mappings(before, after, old, new, "", after.path)
        yield from order_of_keys("@writes", old, new)
        yield from one_change("@deleted", ours.deleted, theirs.deleted)
        if ours.result != theirs.result:
            yield from self._results(before, after)
        if ours.stream != theirs.stream:
            yield from self._chunks(before, after)

    def values(
        self,
        before: Kept,
        after: Kept,
        old: str | None,
        new: str | None,
        path: str,
        lane: str | None = None,
    ) -> Iterator[Delta]:
        """The differing leaves between two stored values, decoded; None where there is none.

        Args:
            before: what the first is stored with: a step, or a run.
            after: what the second is.
            path: where both are.
            lane: the trajectory whose state they are of, for what is told once in it.
        """
        ours, theirs = self._node(before, old), self._node(after, new)
        if ours is MISSING or theirs is MISSING:
            self._many.pop((lane or "", path), None)
            yield Delta(path, _value(ours), _value(theirs), became(old, new))
            return
        yield from map(decoded, self._new(ours, theirs, path, lane))

    def _new(self, ours: Any, theirs: Any, path: str, lane: str | None) -> list[Delta]:
        """The differences, those of a list apart that were told and were many."""
        if lane is None:
            return diff_nodes(ours, theirs, path, self._known)
        was = self._many.pop((lane, path), None)
        told = was is not None and only_added(was, (ours, theirs))
        start = (len(was[0]), len(was[1])) if was and told else (0, 0)
        deltas = diff_nodes(ours, theirs, path, self._known, start=start)
        if told or len(deltas) > MANY:
            self._many[lane, path] = ours, theirs
        return deltas

    def _chunks(self, before: Step, after: Step) -> Iterator[Delta]:
        """The chunks that differ; where only one side streamed, all of them as one change."""
        old, new = before.row.stream, after.row.stream
        if old is None or new is None:
            yield from self.values(before, after, old, new, STREAM)
        else:
            items = self._node(before, old), self._node(after, new)
            yield from map(decoded, diff_items(*items, STREAM))

    def _mappings(
        self,
        before: Step,
        after: Step,
        old: Values,
        new: Values,
        prefix: str,
        lane: str | None = None,
    ) -> Iterator[Delta]:
        for key in dict.fromkeys([*old, *new]):
            ours, theirs = old.get(key), new.get(key)
            if ours != theirs:
                yield from self.values(before, after, ours, theirs, _path.join(prefix, key), lane)

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


def _endings(before: Step, after: Step) -> Iterator[Delta]:
    """How the two ended, as far as that differs."""
    errors = before.error, after.error
    texts = error_text(before.row), error_text(after.row)
    yield from one_change("@error", *texts)
    if None not in errors:
        yield from one_change(RAW, *(error.raw for error in errors if error))
    if texts[0] == texts[1]:  # else the error tells it
        yield from one_change("@status", before.status, after.status)


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
