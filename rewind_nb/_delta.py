"""One change between two values, and where it is on either side.

Items of a list move where others came or went before them. So a node stands at two paths,
one in the value before and one in the value after::

    before  [10, 20, 30]      20 stands at [1] and 15, which replaced it, at [2]
    after   [5, 10, 15]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

from rewind_nb._path import MISSING, join

__all__ = [
    "At",
    "Delta",
    "Kind",
    "Pair",
    "became",
    "moved",
    "one_change",
    "order_changed",
    "order_of_keys",
]

Node = Any  # None | bool | int | float | str | list[Node] | dict[str, Node]

Kind = Literal["changed", "added", "removed", "type", "order"]


class Delta(NamedTuple):
    """One change between two values.

    Attributes:
        path: where it is in the value after; where it was in the value before, if it was
            removed. Written as `rewind_nb._path` does.
        before: the node before, `MISSING` where it was added.
        after: the node after, `MISSING` where it was removed.
        kind: ``changed``, ``added``, ``removed``, ``type`` (another type or class) or
            ``order`` (the same keys in another order; before and after list the keys).
        was_at: where *before* is in the value before, if the items of a list around it moved;
            None where it is at *path* there too, and where there is no *before*.

    Example:
        >>> Delta("n", 5, 5.0, "type")
        Delta(path='n', before=5, after=5.0, kind='type', was_at=None)
    """

    path: str
    before: Node
    after: Node
    kind: Kind
    was_at: str | None = None


class At(NamedTuple):
    """Where two nodes stand, each in the value of its side."""

    before: str
    after: str

    def inside(self, key: str, write: Callable[[str, str], str] = join) -> At:
        """At a key of both."""
        after = write(self.after, key)
        return At(after if self.before == self.after else write(self.before, key), after)

    def changed(self, before: Node, after: Node, kind: Kind = "changed") -> Delta:
        """What is there on both sides differs."""
        was = None if self.before == self.after else self.before
        return Delta(self.after, before, after, kind, was)

    def removed(self, before: Node) -> Delta:
        """Only the value before has it."""
        return Delta(self.before, before, MISSING, "removed")

    def added(self, after: Node) -> Delta:
        """Only the value after has it."""
        return Delta(self.after, MISSING, after, "added")


class Pair(NamedTuple):
    """Two nodes that still have to be compared."""

    at: At
    before: Node
    after: Node


def moved(deltas: list[Delta], source: At, target: At) -> list[Delta]:
    """The changes of a pair that stands somewhere else now."""
    if source == target:
        return deltas
    return [_moved_one(delta, source, target) for delta in deltas]


def _moved_one(delta: Delta, source: At, target: At) -> Delta:
    if delta.kind == "removed":
        return delta._replace(path=target.before + delta.path[len(source.before) :])
    path = target.after + delta.path[len(source.after) :]
    if delta.kind == "added":
        return delta._replace(path=path)
    was = delta.path if delta.was_at is None else delta.was_at
    was = target.before + was[len(source.before) :]
    return delta._replace(path=path, was_at=None if was == path else was)


# -- changes of a whole -----------------------------------------------------------------


def one_change(path: str, old: Any, new: Any) -> Iterator[Delta]:
    """The change from one plain value to another as a whole; None where there is none."""
    if old != new:
        before, after = (MISSING if value is None else value for value in (old, new))
        yield Delta(path, before, after, became(old, new))


def order_of_keys(path: str, old: Iterable[str], new: Iterable[str]) -> Iterator[Delta]:
    """The change of the order in which the keys stand that both have."""
    if order_changed(old, new):
        yield Delta(path, list(old), list(new), "order")


def order_changed(before: Iterable[str], after: Iterable[str]) -> bool:
    """Whether the keys that both have stand in another order.

    Example:
        >>> order_changed("abc", "xca"), order_changed("ac", "abc")
        (True, False)
    """
    old, new = list(before), list(after)
    if old == new:
        return False
    both = set(old) & set(new)
    return [key for key in old if key in both] != [key for key in new if key in both]


def became(old: Any, new: Any) -> Literal["changed", "added", "removed"]:
    """What came of a value; None where there is none."""
    return "added" if old is None else "removed" if new is None else "changed"
