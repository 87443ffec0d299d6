"""Which items of two lists of nodes belong together, and when two nodes are equal.

Equal items are found first. What is left are runs that were replaced: there an item
goes with the one that is most like it (equal fields, items or words), and what has no
like goes by position. So an insertion is one change, and an edit inside an item stays
an edit inside that item, also where the list grew in front of it.
"""

from __future__ import annotations

import marshal
from collections.abc import Hashable, Iterator
from itertools import compress, groupby, islice
from operator import is_not
from typing import Any

from rewind_nb._align import Gap, best_pairs, common_subsequence, facing, gaps

__all__ = ["Node", "item_rows", "node_bytes", "only_added", "strict_equal"]

Node = Any  # None | bool | int | float | str | list[Node] | dict[str, Node]

MAX_LIKENESSES = 2_500  # pairs of items compared for likeness in one replaced run
EXACT = frozenset({str, int, bool, type(None)})  # of one type, equal means strictly equal
CONTAINERS = frozenset({dict, list})
FEW = 16  # children that are looked at one by one
MANY = 64  # nodes that are looked at one by one


def strict_equal(before: Node, after: Node) -> bool:
    """Whether two nodes are equal by type, value and key order.

    Two versions of a value share most of their parts, as the same objects, where they were
    read one after the other. So what is one object is passed over, and of the rest a few
    nodes are looked at one by one, before all of it is compared as bytes.

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
    left: list[tuple[Node, Node]] = []
    waiting = [(before, after)]
    for old, new in waiting:  # grows as it goes
        kind = type(old)
        if kind is not type(new):
            return False
        if kind in EXACT:
            if old != new:
                return False
        elif kind not in CONTAINERS or len(waiting) > MANY:
            left.append((old, new))
        elif len(old) != len(new) or (kind is dict and list(old) != list(new)):
            return False
        else:
            apart = _apart(old, new)
            waiting += apart[:FEW]
            if len(apart) > FEW:
                left.append((old, new))
    return all(node_bytes(old) == node_bytes(new) for old, new in left)


def _apart(before: Node, after: Node) -> list[tuple[Node, Node]]:
    """The first children, at most one more than a few, that are not one object on both sides."""
    if type(before) is dict:
        before, after = before.values(), after.values()
    return [*islice(compress(zip(before, after, strict=True), map(is_not, before, after)), FEW + 1)]


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


def only_added(old: tuple[Node, Node], new: tuple[Node, Node]) -> bool:
    """Whether two lists that part at some item have since then only grown at their ends.

    Example:
        >>> only_added(([1, 2], [1, 3, 4]), ([1, 2, 5], [1, 3, 4]))
        True
        >>> only_added(([1, 2], [1]), ([1, 2, 5], [1, 2]))
        False
    """
    if not all(type(node) is list for node in (*old, *new)):
        return False
    shorter = min(map(len, old))
    if _equal_start(*old, shorter) == shorter:
        return False
    return all(
        len(was) <= len(now) and _equal_start(was, now, len(was)) == len(was)
        for was, now in zip(old, new, strict=True)
    )


def _unequal_runs(before: list[Node], after: list[Node]) -> Iterator[Gap]:
    """The runs between the items that are equal on both sides."""
    runs = _edited_in_place(before, after)
    for run in [_without_equal_ends(before, after)] if runs is None else runs:
        if run.sizes == (1, 1):
            yield run
        else:
            yield from gaps(_equal_items(before, after, run), run)


def _without_equal_ends(before: list[Node], after: list[Node]) -> Gap:
    """What is left of two lists behind an equal start and before an equal end."""
    most = min(len(before), len(after))
    start = _equal_start(before, after, most)
    end = _equal_start(before[::-1], after[::-1], most - start)
    return Gap(start, len(before) - end, start, len(after) - end)


def _equal_start(before: list[Node], after: list[Node], most: int) -> int:
    """How many of the first *most* items are equal."""
    differing = (i for i in _not_one(before, after) if not strict_equal(before[i], after[i]))
    return min(next(differing, most), most)


def _not_one(before: list[Node], after: list[Node]) -> Iterator[int]:
    """The positions that do not hold one object on both sides."""
    return compress(range(min(len(before), len(after))), map(is_not, before, after))


def _edited_in_place(before: list[Node], after: list[Node]) -> list[Gap] | None:
    """The runs that differ if most items kept their position, else None: align them all."""
    if len(before) != len(after):
        return None
    if len(before) == 1:
        return [Gap(0, 1, 0, 1)]
    unequal = (i for i in _not_one(before, after) if not strict_equal(before[i], after[i]))
    most = len(before) // 4
    differing = [*islice(unequal, most + 1)]
    if len(differing) > most:
        return None
    runs = groupby(enumerate(differing), lambda pair: pair[1] - pair[0])
    edges = ([i for _, i in run] for _, run in runs)
    return [Gap(run[0], run[-1] + 1, run[0], run[-1] + 1) for run in edges]


def _equal_items(before: list[Node], after: list[Node], run: Gap) -> list[tuple[int, int]]:
    old = [_key(node) for node in before[run.b0 : run.b1]]
    pool = {key: key for key in old}  # both sides share the key of an item that they share
    new = [pool.get(key, key) for key in map(_key, after[run.a0 : run.a1])]
    return run.absolute(common_subsequence(old, new))


def _key(node: Node) -> str | int | bytes:
    """A hashable that is equal exactly where nodes are strictly equal."""
    return node if type(node) is str or type(node) is int else node_bytes(node)


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
        for field, value in content.items():
            return field, _key(value)
    elif isinstance(content, list):
        return _key(content[0]) if content else None
    else:
        return _key(node)
    return None


def _content(node: Node) -> Node:
    return node.get("v") if type(node) is dict and "$" in node else node
