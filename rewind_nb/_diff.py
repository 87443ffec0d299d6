"""What changed between two encoded values, leaf by leaf.

The differ walks two *nodes* in lock-step: JSON values as the codec writes them, where
a dict that starts with ``"$"`` is a tagged Python value (tuple, set, dataclass, ...).
Nothing is flattened and no Python value is decoded, so a value whose class is not
there can be compared too.

- Equal means equal by type and value: 1, 1.0 and True differ, so do 0.0 and -0.0.
- A dict is compared key by key; another order of the same keys is a change of its own.
- A list is aligned first, so an insertion is one change. Items that face each other in
  a replaced run are paired by likeness and compared in depth.
- A path reads in the value *after*, that of something removed in the value *before*. Where
  items of a list moved, `was_at` is the path at which the value before has what was there.
- A set has members instead of positions: each change is at the path of the set.
- Every other tag (datetime, ndarray, enum, custom, ...) is a leaf.

Trees may be hundreds of levels deep: the walk keeps its own stack.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from rewind_nb._delta import At, Delta, Kind, Pair, moved, order_changed
from rewind_nb._items import CONTAINERS, Node, item_rows, node_bytes, strict_equal
from rewind_nb._path import MISSING, Missing, bracket, join

__all__ = [
    "MISSING",
    "Delta",
    "Kind",
    "Known",
    "Missing",
    "Node",
    "diff_items",
    "diff_nodes",
    "strict_equal",
]

SMALL = 32  # children and changes of a pair that is remembered
REMEMBERED = 1 << 16  # pairs


_Found = Iterator[Delta | Pair]

Known = dict[tuple[int, int], tuple[Pair, list[Delta]]]
"""Pairs and their changes, by the identities of their nodes."""


def diff_nodes(
    before: Node,
    after: Node,
    path: str = "",
    known: Known | None = None,
    most: int | None = None,
    start: tuple[int, int] = (0, 0),
) -> list[Delta]:
    """All changes from one node to another, in document order.

    Empty exactly where the nodes are `strict_equal`.

    Args:
        before: an encoded value.
        after: an encoded value.
        path: where both stand, the start of every path in the result.
        known: the changes of small pairs seen before, for calls with versions of one value,
            which share parts; what is new is added.
        most: how many changes are wanted, all if None.
        start: of two lists, how many items of each are passed over.

    Example:
        >>> for delta in diff_nodes({"a": [1, 2, 4]}, {"a": [1, 2, 3, 4], "b": None}):
        ...     print(delta)
        Delta(path='a[2]', before=<missing>, after=3, kind='added', was_at=None)
        Delta(path='b', before=<missing>, after=None, kind='added', was_at=None)
    """
    deltas: list[Delta] = []
    whole = Pair(At(path, path), before, after)
    open_pairs = [(whole, 0, _list(*whole, start) if any(start) else _compare(whole))]
    while open_pairs and (most is None or len(deltas) < most):
        pair, first, children = open_pairs[-1]
        found = next(children, None)
        if found is None:
            open_pairs.pop()
            if known is not None and (open_pairs or not any(start)):
                _remember(known, pair, deltas, first)
        elif isinstance(found, Delta):
            deltas.append(found)
        elif known and (same := known.get((id(found.before), id(found.after)))):
            deltas += moved(same[1], same[0].at, found.at)
        else:
            open_pairs.append((found, len(deltas), _compare(found)))
    return deltas[:most]


def diff_items(before: list[Node], after: list[Node], path: str) -> Iterator[Delta]:
    """The items of two lists that differ, each as a whole.

    Example:
        >>> [(d.path, d.before, d.after) for d in diff_items([{"a": 1}], [{"a": 2}], "log")]
        [('log[0]', {'a': 1}, {'a': 2})]
    """
    for found in _list(At(path, path), before, after):
        if isinstance(found, Delta):
            yield found
        else:
            alike = _type(found.before) == _type(found.after)
            yield found.at.changed(*found[1:], "changed" if alike else "type")


def _remember(known: Known, pair: Pair, deltas: list[Delta], first: int) -> None:
    """Note the changes of a small pair, all those from *first* on.

    The pair is noted with them: as long as its nodes are there, no others have their identity.
    """
    at, before, after = pair
    small = len(deltas) - first <= SMALL and all(
        type(node) in CONTAINERS and len(node) <= SMALL for node in (before, after)
    )
    if small and at.after:  # a path is not joined to an empty one as to another
        if len(known) >= REMEMBERED:
            known.clear()
        known[id(before), id(after)] = (pair, deltas[first:])


def _type(node: Node) -> tuple[str, Any]:
    """The Python type that a node stands for, and the class where it has one."""
    if type(node) is not dict:
        return type(node).__name__, None
    return node.get("$", "dict"), node.get("c") if "$" in node else None


def _compare(pair: Pair) -> _Found:
    """The changes of one node, and the pairs of children still to compare."""
    at, before, after = pair
    kind = _type(before)
    if kind != _type(after):
        return iter([at.changed(before, after, "type")])
    walk = _WALKS.get(kind[0])
    if walk is not None:
        return walk(at, before, after)
    if strict_equal(before, after):
        return iter(())
    return iter([at.changed(before, after)])


# -- dicts and fields ---------------------------------------------------------


def _dict(at: At, before: Node, after: Node) -> _Found:
    sides = _named(before), _named(after)
    if None not in sides:
        return _mapping(at, *sides)
    return _mapping(at, _by_key_text(before), _by_key_text(after), bracket)


def _named(node: Node) -> Any:
    """The items of a dict whose keys are all text, else None."""
    if "$" not in node:
        return node
    named = all(type(key) is str for key, _ in node["v"])
    return dict(node["v"]) if named else None


def _mapping(
    at: At,
    before: dict[str, Node],
    after: dict[str, Node],
    write: Callable[[str, str], str] = join,
) -> _Found:
    alone = len(before) == 1  # then comparing the child first would only repeat its walk
    for key, old in before.items():
        new = after.get(key, MISSING)
        if new is MISSING:
            yield at.inside(key, write).removed(old)
        elif (alone and type(old) in CONTAINERS) or not strict_equal(old, new):
            yield Pair(at.inside(key, write), old, new)
    for key, new in after.items():
        if key not in before:
            yield at.inside(key, write).added(new)
    if order_changed(before, after):
        yield at.changed(list(before), list(after), "order")


def _by_key_text(node: Node) -> dict[str, Node]:
    """A dict node as a mapping from the JSON text of each key."""
    mapping: dict[str, Node] = {}
    for key, value in node["v"] if "$" in node else node.items():
        text = json.dumps(key, ensure_ascii=False, separators=(",", ":"))
        while text in mapping:  # two NaN keys have one text; a space keeps both, and is JSON
            text += " "
        mapping[text] = value
    return mapping


def _dataclass(at: At, before: Node, after: Node) -> _Found:
    return _dict(at, before["v"], after["v"])


def _pydantic(at: At, before: Node, after: Node) -> _Found:
    """Fields, extras and private attributes by name, then which fields were set."""
    yield from _dict(at, before["v"], after["v"])
    for part, attribute in (("extra", "model_extra"), ("private", "__pydantic_private__")):
        old, new = before.get(part), after.get(part)
        if old is not None and new is not None:
            yield from _dict(at, old, new)
        elif old is not new:
            yield at.inside(attribute).changed(old, new)
    yield from _members(at.inside("model_fields_set"), before["set"], after["set"])


# -- sets ---------------------------------------------------------------------


def _set(at: At, before: Node, after: Node) -> _Found:
    return _members(at, before["v"], after["v"])


def _members(at: At, before: list[Node], after: list[Node]) -> _Found:
    old, new = ({node_bytes(item): item for item in side} for side in (before, after))
    yield from (at.removed(old[key]) for key in old if key not in new)
    yield from (at.added(new[key]) for key in new if key not in old)


# -- lists --------------------------------------------------------------------


def _tuple(at: At, before: Node, after: Node) -> _Found:
    return _list(at, before["v"], after["v"])


def _list(at: At, before: list[Node], after: list[Node], start: tuple[int, int] = (0, 0)) -> _Found:
    b, a = start
    rows = item_rows(before[b:], after[a:]) if any(start) else item_rows(before, after)
    for b0, b1, a0, a1 in rows:
        here = At(join(at.before, b + b0), join(at.after, a + a0))
        if b0 == b1:
            yield here.added(after[a + a0])
        elif a0 == a1:
            yield here.removed(before[b + b0])
        else:
            yield Pair(here, before[b + b0], after[a + a0])


_WALKS: dict[str, Callable[[At, Node, Node], _Found]] = {
    "dict": _dict,
    "list": _list,
    "tuple": _tuple,
    "set": _set,
    "frozenset": _set,
    "dataclass": _dataclass,
    "pydantic": _pydantic,
}
