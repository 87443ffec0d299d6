"""What changed between two encoded values, leaf by leaf.

The differ walks two *nodes* in lock-step: JSON values as the codec writes them, where
a dict that starts with ``"$"`` is a tagged Python value (tuple, set, dataclass, ...).
Nothing is flattened and no Python value is decoded, so a value whose class is not
there can be compared too.

- Equal means equal by type and value: 1, 1.0 and True differ, so do 0.0 and -0.0.
- A dict is compared key by key; another order of the same keys is a change of its own.
- A list is aligned first, so an insertion is one change. Items that face each other in
  a replaced run are paired by likeness and compared in depth: the path of a changed
  leaf counts positions as they are *after*, the path of a removed item as *before*.
- A set has members instead of positions: each change is at the path of the set.
- Every other tag (datetime, ndarray, enum, custom, ...) is a leaf.

Trees may be hundreds of levels deep: the walk keeps its own stack.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from rewind_nb._items import CONTAINERS, Node, item_rows, node_bytes, strict_equal
from rewind_nb._path import MISSING, Missing, bracket, join

__all__ = ["MISSING", "Delta", "Kind", "Known", "Missing", "Node", "diff_nodes", "strict_equal"]

Kind = Literal["changed", "added", "removed", "type", "order"]

SMALL = 32  # children and changes of a pair that is remembered
REMEMBERED = 1 << 16  # pairs


class Delta(NamedTuple):
    """One change between two values.

    Attributes:
        path: where, written as `rewind_nb._path` does.
        before: the node before, `MISSING` where it was added.
        after: the node after, `MISSING` where it was removed.
        kind: ``changed``, ``added``, ``removed``, ``type`` (another type or class) or
            ``order`` (the same keys in another order; before and after list the keys).

    Example:
        >>> diff_nodes({"n": 5}, {"n": 5.0})
        [Delta(path='n', before=5, after=5.0, kind='type')]
    """

    path: str
    before: Node
    after: Node
    kind: Kind


class _Pair(NamedTuple):
    """Two nodes that still have to be compared."""

    path: str
    before: Node
    after: Node


_Found = Iterator[Delta | _Pair]

Known = dict[tuple[int, int], tuple[_Pair, list[Delta]]]
"""Pairs and their changes, by the identities of their nodes."""


def diff_nodes(
    before: Node, after: Node, path: str = "", known: Known | None = None
) -> list[Delta]:
    """All changes from one node to another, in document order.

    Empty exactly where the nodes are `strict_equal`.

    Args:
        before: an encoded value.
        after: an encoded value.
        path: where both stand, the start of every path in the result.
        known: the changes of small pairs seen before, for calls with versions of one value,
            which share parts; what is new is added.

    Example:
        >>> for delta in diff_nodes({"a": [1, 2, 4]}, {"a": [1, 2, 3, 4], "b": None}):
        ...     print(delta)
        Delta(path='a[2]', before=<missing>, after=3, kind='added')
        Delta(path='b', before=<missing>, after=None, kind='added')
    """
    deltas: list[Delta] = []
    whole = _Pair(path, before, after)
    open_pairs = [(whole, 0, _compare(path, before, after))]
    while open_pairs:
        pair, first, children = open_pairs[-1]
        found = next(children, None)
        if found is None:
            open_pairs.pop()
            if known is not None:
                _remember(known, pair, deltas, first)
        elif isinstance(found, Delta):
            deltas.append(found)
        elif known and (same := known.get((id(found.before), id(found.after)))):
            deltas += _moved(same[0].path, same[1], found.path)
        else:
            children = _compare(found.path, found.before, found.after)
            open_pairs.append((found, len(deltas), children))
    return deltas


def _remember(known: Known, pair: _Pair, deltas: list[Delta], first: int) -> None:
    """Note the changes of a small pair, all those from *first* on.

    The pair is noted with them: as long as its nodes are there, no others have their identity.
    """
    path, before, after = pair
    small = len(deltas) - first <= SMALL and all(
        type(node) in CONTAINERS and len(node) <= SMALL for node in (before, after)
    )
    if small and path:  # a path is not joined to an empty one as to another
        if len(known) >= REMEMBERED:
            known.clear()
        known[id(before), id(after)] = (pair, deltas[first:])


def _moved(source: str, deltas: list[Delta], target: str) -> list[Delta]:
    """The changes of a pair that stands at another path now."""
    if source == target:
        return deltas
    return [delta._replace(path=target + delta.path[len(source) :]) for delta in deltas]


def _type(node: Node) -> tuple[str, Any]:
    """The Python type that a node stands for, and the class where it has one."""
    if type(node) is not dict:
        return type(node).__name__, None
    return node.get("$", "dict"), node.get("c") if "$" in node else None


def _compare(path: str, before: Node, after: Node) -> _Found:
    """The changes of one node, and the pairs of children still to compare."""
    kind = _type(before)
    if kind != _type(after):
        return iter([Delta(path, before, after, "type")])
    walk = _WALKS.get(kind[0])
    if walk is not None:
        return walk(path, before, after)
    if strict_equal(before, after):
        return iter(())
    return iter([Delta(path, before, after, "changed")])


# -- dicts and fields ---------------------------------------------------------


def _dict(path: str, before: Node, after: Node) -> _Found:
    sides = _named(before), _named(after)
    if None not in sides:
        return _mapping(path, *sides)
    return _mapping(path, _by_key_text(before), _by_key_text(after), bracket)


def _named(node: Node) -> Any:
    """The items of a dict whose keys are all text, else None."""
    if "$" not in node:
        return node
    named = all(type(key) is str for key, _ in node["v"])
    return dict(node["v"]) if named else None


def _mapping(
    path: str,
    before: dict[str, Node],
    after: dict[str, Node],
    at: Callable[[str, str], str] = join,
) -> _Found:
    alone = len(before) == 1  # then comparing the child first would only repeat its walk
    for key, old in before.items():
        new = after.get(key, MISSING)
        if new is MISSING:
            yield Delta(at(path, key), old, MISSING, "removed")
        elif (alone and type(old) in CONTAINERS) or not strict_equal(old, new):
            yield _Pair(at(path, key), old, new)
    for key, new in after.items():
        if key not in before:
            yield Delta(at(path, key), MISSING, new, "added")
    if _order_changed(before, after):
        yield Delta(path, list(before), list(after), "order")


def _order_changed(before: dict[str, Node], after: dict[str, Node]) -> bool:
    if list(before) == list(after):
        return False
    return [key for key in before if key in after] != [key for key in after if key in before]


def _by_key_text(node: Node) -> dict[str, Node]:
    """A dict node as a mapping from the JSON text of each key."""
    mapping: dict[str, Node] = {}
    for key, value in node["v"] if "$" in node else node.items():
        text = json.dumps(key, ensure_ascii=False, separators=(",", ":"))
        while text in mapping:  # two NaN keys have one text; a space keeps both, and is JSON
            text += " "
        mapping[text] = value
    return mapping


def _dataclass(path: str, before: Node, after: Node) -> _Found:
    return _dict(path, before["v"], after["v"])


def _pydantic(path: str, before: Node, after: Node) -> _Found:
    """Fields, extras and private attributes by name, then which fields were set."""
    yield from _dict(path, before["v"], after["v"])
    for part, attribute in (("extra", "model_extra"), ("private", "__pydantic_private__")):
        old, new = before.get(part), after.get(part)
        if old is not None and new is not None:
            yield from _dict(path, old, new)
        elif old is not new:
            yield Delta(join(path, attribute), old, new, "changed")
    yield from _members(join(path, "model_fields_set"), before["set"], after["set"])


# -- sets ---------------------------------------------------------------------


def _set(path: str, before: Node, after: Node) -> _Found:
    return _members(path, before["v"], after["v"])


def _members(path: str, before: list[Node], after: list[Node]) -> _Found:
    old, new = ({node_bytes(item): item for item in side} for side in (before, after))
    yield from (Delta(path, old[key], MISSING, "removed") for key in old if key not in new)
    yield from (Delta(path, MISSING, new[key], "added") for key in new if key not in old)


# -- lists --------------------------------------------------------------------


def _tuple(path: str, before: Node, after: Node) -> _Found:
    return _list(path, before["v"], after["v"])


def _list(path: str, before: list[Node], after: list[Node]) -> _Found:
    for b0, b1, a0, a1 in item_rows(before, after):
        if b0 == b1:
            yield Delta(join(path, a0), MISSING, after[a0], "added")
        elif a0 == a1:
            yield Delta(join(path, b0), before[b0], MISSING, "removed")
        else:
            yield _Pair(join(path, a0), before[b0], after[a0])


_WALKS: dict[str, Callable[[str, Node, Node], _Found]] = {
    "dict": _dict,
    "list": _list,
    "tuple": _tuple,
    "set": _set,
    "frozenset": _set,
    "dataclass": _dataclass,
    "pydantic": _pydantic,
}
