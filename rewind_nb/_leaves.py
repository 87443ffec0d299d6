"""The leaves of an encoded value: what has no parts of its own, each with its path.

A leaf is what a diff shows as one change: lists, dicts, tuples and objects are looked into,
sets and all else are not, and an empty container is one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rewind_nb._path import bracket, join

Node = Any  # None | bool | int | float | str | list[Node] | dict[str, Node]
Known = dict[int, tuple[Node, list[tuple[str, Node]]]]
"""Small nodes without containers in them, by identity, with their leaves."""

SMALL = 32  # parts of a node that is remembered
REMEMBERED = 1 << 16  # nodes


def leaves(path: str, node: Node, known: Known) -> Iterator[tuple[str, Node]]:
    """The leaves of a node, in order.

    Args:
        path: where the node stands.
        node: an encoded value.
        known: nodes seen before, for calls with versions of one value, which share parts;
            what is new is added.

    Example:
        >>> list(leaves("report", {"total": 5, "tags": [], "rows": [{"n": 1}]}, {}))
        [('report.total', 5), ('report.tags', []), ('report.rows[0].n', 1)]
    """
    waiting = [(path, node)]
    while waiting:
        path, node = waiting.pop()
        flat = known.get(id(node)) if path else None  # a path is not joined to an empty one so
        if flat:
            yield from [(path + rest, leaf) for rest, leaf in flat[1]]
            continue
        parts = list(_parts(path, node))
        if not parts:
            yield path, node
        elif path and _is_flat(parts):
            if len(known) >= REMEMBERED:
                known.clear()
            known[id(node)] = (node, [(inner[len(path) :], leaf) for inner, leaf in parts])
            yield from parts
        else:
            waiting += reversed(parts)


def _is_flat(parts: list[tuple[str, Node]]) -> bool:
    return len(parts) <= SMALL and not any(type(part) in (dict, list) for _, part in parts)


def _parts(path: str, node: Node) -> Iterator[tuple[str, Node]]:
    """What a diff looks into: items, keys and fields."""
    if isinstance(node, list):
        yield from ((join(path, i), item) for i, item in enumerate(node))
    elif isinstance(node, dict) and "$" not in node:
        yield from ((join(path, key), value) for key, value in node.items())
    elif isinstance(node, dict) and node["$"] == "dict":
        named = all(type(key) is str for key, _ in node["v"])
        for key, value in node["v"]:
            if named:  # a dict that only had to be told from a tagged node
                yield join(path, key), value
                continue
            text = json.dumps(key, ensure_ascii=False, separators=(",", ":"))
            yield bracket(path, text), value
    elif isinstance(node, dict) and node["$"] in ("tuple", "dataclass", "pydantic"):
        for name in ("v", "extra", "private"):
            yield from _parts(path, node.get(name))
