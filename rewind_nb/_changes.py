"""What differs between two aligned steps: inputs, writes, deletions, result and error.

Values are compared by their encoding, leaf by leaf. A change is told once: what a result
only repeats from the state is left out of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from rewind_nb import _codec, _path
from rewind_nb._describe import short
from rewind_nb._diff import MISSING, diff_nodes, strict_equal
from rewind_nb._model import StepRow
from rewind_nb._run import Step

Delta = tuple[str, Any, Any, str]
"""Path, before, after, kind."""

RESULT = _path.Root("@result")


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs.

    Attributes:
        path: such as ``report.groups.A.total``; ``@result``, ``@error``, ``@inputs.x``,
            ``@artifacts["page.md"]`` (by its hash) and ``@step`` (a step only one side has)
            beside the state.
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

    @classmethod
    def at(cls, step: Step, delta: Delta, cause: str) -> Change:
        """A change of a step."""
        return cls(step.seq, step.action, step.visit, *delta, cause)

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

    @property
    def shared(self) -> bool:
        """Whether both are the very same row."""
        both = self.before is not None and self.after is not None
        return both and self.before.key == self.after.key  # type: ignore[union-attr]


def field_changes(before: Step, after: Step) -> Iterator[Delta]:
    """What two executions of a step were given and did differently, artifacts apart."""
    yield from _mapping_changes(before, dict(before.row.inputs), dict(after.row.inputs), "@inputs")
    yield from _mapping_changes(before, dict(before.row.writes), dict(after.row.writes), "")
    if before.row.deleted != after.row.deleted:
        yield "@deleted", before.row.deleted or MISSING, after.row.deleted or MISSING, "changed"
    if before.row.result != after.row.result:
        yield from _result_changes(before, after)
    yield from text_changes("@error", error_text(before.row), error_text(after.row))


def text_changes(path: str, old: str | None, new: str | None) -> Iterator[Delta]:
    """The change from one text to another; None where there is none."""
    if old != new:
        kind = "added" if old is None else "removed" if new is None else "changed"
        yield path, MISSING if old is None else old, MISSING if new is None else new, kind


def node_changes(
    step: Step, old: str | None, new: str | None, prefix: str, key: str
) -> Iterator[Delta]:
    """The differing leaves between two stored values, decoded."""
    path = _path.join(prefix, key)
    for delta in diff_nodes(_node(step, old), _node(step, new), path):
        yield delta.path, _value(delta.before), _value(delta.after), delta.kind


def error_text(row: StepRow) -> str | None:
    """A step's error on one line."""
    return None if row.error is None else f"{row.error.type}: {row.error.message}"


def _mapping_changes(
    step: Step, old: Mapping[str, str], new: Mapping[str, str], prefix: str
) -> Iterator[Delta]:
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            yield from node_changes(step, old.get(key), new.get(key), prefix, key)


def _result_changes(before: Step, after: Step) -> Iterator[Delta]:
    """Changes of the result, those apart that only repeat a state write of that name."""
    written = {*dict(before.row.writes), *dict(after.row.writes)}
    results = [(s, _items(_node(s, s.row.result))) for s in (before, after)]
    told: dict[Any, bool] = {}
    for delta in node_changes(before, before.row.result, after.row.result, "", RESULT):
        _, *parts = _path.parse(delta[0])
        name = parts[0] if parts else None
        if name not in told:
            told[name] = name in written and all(_repeats(s, r, name) for s, r in results)
        if not told[name]:
            yield delta


def _repeats(step: Step, result: Mapping[Any, Any], name: Any) -> bool:
    """Whether the result has at *name* what the step wrote there, or neither has anything."""
    value, written = result.get(name, MISSING), _node(step, dict(step.row.writes).get(name))
    if MISSING in (value, written):
        return value is written
    return strict_equal(value, written)


def _items(node: Any) -> dict[Any, Any]:
    """What an encoded dict holds under its text keys; empty for anything else."""
    if not isinstance(node, dict):
        return {}
    if "$" not in node:
        return node
    pairs = node["v"] if node["$"] == "dict" else []
    return {key: value for key, value in pairs if isinstance(key, str)}


def _node(step: Step, digest: str | None) -> Any:
    return MISSING if digest is None else _codec.parse(step.store.content(digest).data)


def _value(node: Any) -> Any:
    return node if node is MISSING else _codec.decode_node(node)
