"""Which items of two lists of nodes belong together, and when two nodes are equal.

Equal items are found first. What is left are runs that were replaced: there an item
goes with the one that is most like it (equal fields, items or words), and what has no
like goes by position. So an insertion is one change, and an edit inside an item stays
an edit inside that item, also where the list grew in front of it.
"""

from __future__ import annotations

import marshal
from collections.abc import Hashable, Iterator
from itertools import groupby
from typing import Any

from rewind_nb._align import Gap, best_pairs, common_subsequence, facing, gaps

__all__ = ["Node", "item_rows", "node_bytes", "strict_equal"]

Node = Any  # None | bool | int | float | str | list[Node] | dict[str, Node]

MAX_LIKENESSES = 2_500  # pairs of items compared for likeness in one replaced run
EXACT = frozenset({str, int, bool, type(None)})  # of one type, equal means strictly equal


def strict_equal(before: Node, after: Node) -> bool:
    """Whether two nodes are equal by type, value and key order.

    Example:
        >>> strict_equal([1, "a"], [1, "a"]), strict_equal(1, 1.0), strict_equal(1, True)
        (True, False, False)
    """
    if before is after:
        return True
    if type(before) is not type(after):
        return False
    if type(before) in EXACT:
        return bool(before == after)
    if type(before) is float and before == after != 0:
        return True
    return node_bytes(before) == node_bytes(after)


def node_bytes(node: Node) -> bytes:
    """Bytes that are equal exactly where nodes are strictly equal.

    Version 2 of the format writes each value with its type and without references to
    values written earlier; it takes no Python stack, however deep the node is.
    """
    return marshal.dumps(node, 2)


def item_rows(before: list[Node], after: list[Node]) -> Iterator[Gap]:
    """Rows of at most one item a side, in order, that leave out what is equal on both sides.

    Example:
        >>> [(row.b0, row.a0) for row in item_rows([1, 2, 4], [1, 3, 4])]
        [(1, 1)]
    """
    for run in _unequal_runs(before, after):
        yield from facing(_likely_pairs(before, after, run), run)


def _unequal_runs(before: list[Node], after: list[Node]) -> Iterator[Gap]:
    """The runs between the items that are equal on both sides."""
    runs = _edited_in_place(before, after)
    for run in [Gap(0, len(before), 0, len(after))] if runs is None else runs:
        if run.sizes == (1, 1):
            yield run
        else:
            yield from gaps(_equal_items(before, after, run), run)


def _edited_in_place(before: list[Node], after: list[Node]) -> list[Gap] | None:
    """The runs that differ if most items kept their position, else None: align them all."""
    if len(before) != len(after):
        return None
    if len(before) == 1:
        return [Gap(0, 1, 0, 1)]
    differing = [i for i, old in enumerate(before) if not strict_equal(old, after[i])]
    if len(differing) > len(before) // 4:
        return None
    runs = groupby(enumerate(differing), lambda pair: pair[1] - pair[0])
    edges = ([i for _, i in run] for _, run in runs)
    return [Gap(run[0], run[-1] + 1, run[0], run[-1] + 1) for run in edges]


def _equal_items(before: list[Node], after: list[Node], run: Gap) -> list[tuple[int, int]]:
    pool: dict[bytes, bytes] = {}  # both sides share the key of an item that they share
    old = [_item_key(node, pool) for node in before[run.b0 : run.b1]]
    new = [_item_key(node, pool) for node in after[run.a0 : run.a1]]
    return run.absolute(common_subsequence(old, new))


def _item_key(node: Node, pool: dict[bytes, bytes]) -> str | int | bytes:
    """A hashable that is equal exactly where items are strictly equal."""
    if type(node) is str or type(node) is int:
        return node
    key = node_bytes(node)
    return pool.setdefault(key, key)


def _likely_pairs(before: list[Node], after: list[Node], run: Gap) -> list[tuple[int, int]]:
    """Which items of a replaced run are edits of each other; the rest goes by position."""
    n, m = run.sizes
    if 0 in run.sizes or n == m == 1:
        return []
    old, new = before[run.b0 : run.b1], after[run.a0 : run.a1]
    if n * m > MAX_LIKENESSES:
        return run.absolute(common_subsequence([*map(_headline, old)], [*map(_headline, new)]))
    left, right = [*map(_features, old)], [*map(_features, new)]
    return run.absolute(best_pairs(n, m, lambda i, j: _likeness(left[i], right[j])))


def _likeness(left: frozenset[Hashable], right: frozenset[Hashable]) -> float:
    return len(left & right) / max(len(left), len(right), 1)


def _features(node: Node) -> frozenset[Hashable]:
    """What two versions of an item would still share: fields, items or words."""
    content = _content(node)
    if isinstance(content, dict):
        return frozenset((key, node_bytes(value)) for key, value in content.items())
    if isinstance(content, list):
        return frozenset(map(node_bytes, content))
    return frozenset(content.split() if isinstance(content, str) else ())


def _headline(node: Node) -> Hashable:
    """What most likely names an item: its first field or element."""
    content = _content(node)
    if isinstance(content, dict):
        return next(((key, node_bytes(value)) for key, value in content.items()), None)
    if isinstance(content, list):
        return next(map(node_bytes, content), None)
    return node_bytes(node)


def _content(node: Node) -> Node:
    return node.get("v") if type(node) is dict and "$" in node else node
