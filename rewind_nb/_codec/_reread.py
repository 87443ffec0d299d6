"""Parsing an encoding by way of one that it is like: only what is new in it is parsed.

A chat history of a thousand messages differs from the one before it in the last message::

    [{"role":"user",...},{"role":"assistant",...}]
    [{"role":"user",...},{"role":"assistant",...},{"role":"user",...}]
     `-------------- stands here too ------------' `----- parsed ----'

What stands in both is found by comparing text, many parts at once, and its nodes are taken
over. So the trees share them, as the very same objects, and who compares two versions may
pass over what is one object. Parts that are parsed are pooled, so that two histories which
parted and say the same later share that too. Nodes must not be changed, for that reason.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

Node = Any

LARGE = 256  # characters; a smaller part is parsed as a whole where it differs
POOLED = 1 << 12  # characters; a larger part is not kept in the pool
POOL = 1 << 25  # characters of all parts in it
AHEAD = 8  # parts that may have been taken out in one place
ENDS = frozenset(",]}")


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


class Pool:
    """Nodes by their text, so that equal parts are one object."""

    def __init__(self) -> None:
        self._nodes: dict[str, Node] = {}
        self._size = 0

    def parse(self, text: str, at: int) -> tuple[Node, int]:
        """The node that starts at a position, and where it ends.

        Raises:
            ValueError: there is none.
        """
        node, end = _DECODER.raw_decode(text, at)
        if text[at] not in '[{"' or end - at > POOLED:
            return node, end
        written = text[at:end]
        known = self._nodes.get(written)
        if known is not None:
            return known, end
        self._size += end - at
        if self._size > POOL:
            self._nodes.clear()
            self._size = end - at
        self._nodes[written] = node
        return node, end


class Tree:
    """An encoding with its node, from which one like it can be parsed.

    Attributes:
        text: the encoding.
        node: what it says.
    """

    __slots__ = ("_parts", "node", "text")

    def __init__(self, text: str, node: Node, parts: _Parts | None = None) -> None:
        self.text = text
        self.node = node
        self._parts = parts

    def parts(self, pool: Pool) -> _Parts:
        """Where its parts are; those of a tree that was parsed as a whole are looked up first."""
        if self._parts is None:
            nothing = _Parts([], [], [0], {})
            self.node, self._parts, _ = _Reading(pool, self.text, 0, Tree("", None, nothing)).read()
        return self._parts


class _Parts(NamedTuple):
    """The parts of a list or dict: keys (of a dict), nodes, and where each starts.

    Behind the last start stands where one more would be. `inner` has the trees of the parts
    that were themselves read again, by the identity of their node.
    """

    keys: list[str]
    nodes: list[Node]
    starts: list[int]
    inner: dict[int, Tree]


def parse_like(text: str, like: Tree, pool: Pool) -> Tree | None:
    """The tree of an encoding, sharing what it can with the tree of another one.

    Args:
        text: a canonical encoding.
        like: the tree of one that has much in common with it.
        pool: what was parsed before.

    Returns:
        None where the text is not canonical, or has no parts: to be parsed as a whole.

    Example:
        >>> old = Tree('[[1],[2]]', [[1], [2]])
        >>> new = parse_like('[[1],[2],[3]]', old, Pool())
        >>> new.node, new.node[0] is old.node[0]
        ([[1], [2], [3]], True)
    """
    if text[:1] not in ("[", "{") or text[:1] != like.text[:1]:
        return None
    try:
        node, parts, end = _Reading(pool, text, 0, like).read()
    except (ValueError, IndexError, RecursionError):
        return None
    return Tree(text, node, parts) if end == len(text) else None


class _Reading:
    """One list or dict that is being read, with a cursor in the one that it is like."""

    def __init__(self, pool: Pool, text: str, at: int, like: Tree) -> None:
        self.pool = pool
        self.text = text
        self.at = at  # where it starts
        self.is_dict = text[at] == "{"
        self.like = like.text
        self.old = like.parts(pool)
        self.cursor = 0  # the part of the other that is expected next
        self.where: dict[str, int] = {}  # its keys, once they are needed
        self.new = _Parts([], [], [], {})

    def read(self) -> tuple[Node, _Parts, int]:
        """Its node, its parts and where it ends.

        Raises:
            ValueError, IndexError: the text is not a canonical encoding.
        """
        text, at, closing = self.text, self.at + 1, "}" if self.is_dict else "]"
        more = text[at] != closing
        while more:
            at = self._take_over(at) or self._parse(at)
            more = text[at] == ","
            if not more and text[at] != closing:
                raise ValueError(f"no part ends at character {at}")
            at += more
        self.new.starts.append(at + 1 - self.at)
        for node in self.new.nodes if self.old.inner else ():
            if id(node) in self.old.inner:
                self.new.inner[id(node)] = self.old.inner[id(node)]
        return self._node(), self.new, at + 1

    def _node(self) -> Node:
        if not self.is_dict:
            return [*self.new.nodes]
        node = dict(zip(self.new.keys, self.new.nodes, strict=True))
        if len(node) < len(self.new.keys):
            raise ValueError("a key stands twice")
        return node

    # -- what stands in both ----------------------------------------------------------------

    def _take_over(self, at: int) -> int | None:
        """Take over the parts of the other that stand here, and say where they end."""
        first = self.cursor
        count = self._common(first, at)
        if not count and not self.is_dict:  # some may have been taken out
            ahead = range(first + 1, min(first + 1 + AHEAD, len(self.old.nodes)))
            first = next((i for i in ahead if self._stands(i, 1, at)), first)
            count = self._common(first, at) if first > self.cursor else 0
        if not count:
            return None
        old, last = self.old, first + count
        moved = at - self.at - old.starts[first]
        starts = old.starts[first:last]
        self.new.starts.extend(starts if not moved else [start + moved for start in starts])
        self.new.nodes.extend(old.nodes[first:last])
        self.new.keys.extend(old.keys[first:last])
        self.cursor = last
        return at + old.starts[last] - 1 - old.starts[first]

    def _common(self, first: int, at: int) -> int:
        """How many parts of the other, from *first* on, stand here."""
        most = len(self.old.nodes) - first
        if most <= 0 or self._stands(first, most, at):
            return max(most, 0)
        low, step = 0, 1
        while low + step < most and self._stands(first, low + step, at):
            low, step = low + step, step * 2
        high = min(low + step, most)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._stands(first, middle, at) else (low, middle)
        return low

    def _stands(self, first: int, count: int, at: int) -> bool:
        """Whether *count* parts of the other stand here, each as a whole."""
        start, end = self.old.starts[first], self.old.starts[first + count] - 1
        if not self.text.startswith(self.like[start:end], at):
            return False
        return self.text[at + end - start : at + end - start + 1] in ENDS

    # -- what is new ------------------------------------------------------------------------

    def _parse(self, at: int) -> int:
        """Parse the part that starts here, and say where it ends."""
        self.new.starts.append(at - self.at)
        faced: int | None = self.cursor if self.cursor < len(self.old.nodes) else None
        if self.is_dict:
            key, at = self.pool.parse(self.text, at)
            if type(key) is not str or self.text[at] != ":":
                raise ValueError(f"no key ends at character {at}")
            self.new.keys.append(key)
            faced, at = self._with_key(key), at + 1
        node, end = self._again(faced, at)
        self.new.nodes.append(node)
        if faced is not None and not self._inserted(faced, end):
            self.cursor = faced + 1
        return end

    def _again(self, faced: int | None, at: int) -> tuple[Node, int]:
        """Parse a part, by way of the one it takes the place of where that is large."""
        tree = None if faced is None else self._tree(faced)
        if tree is None or tree.text[0] != self.text[at]:
            return self.pool.parse(self.text, at)
        node, parts, end = _Reading(self.pool, self.text, at, tree).read()
        self.new.inner[id(node)] = Tree(self.text[at:end], node, parts)
        return node, end

    def _tree(self, i: int) -> Tree | None:
        """A part of the other that is large and has parts itself."""
        node, start, end = self.old.nodes[i], self.old.starts[i], self.old.starts[i + 1] - 1
        if type(node) not in (list, dict) or end - start < LARGE:
            return None
        known = self.old.inner.get(id(node))
        if known is not None:
            return known
        if self.is_dict:  # behind its key
            start = _DECODER.raw_decode(self.like, start)[1] + 1
        return Tree(self.like[start:end], node)

    def _with_key(self, key: str) -> int | None:
        """The part of the other that has this key."""
        keys = self.old.keys
        if self.cursor < len(keys) and keys[self.cursor] == key:
            return self.cursor
        self.where = self.where or {key: i for i, key in enumerate(keys)}
        return self.where.get(key)

    def _inserted(self, faced: int, end: int) -> bool:
        """Whether a part was put in before the one that it faced, for that one comes next."""
        if self.is_dict or self.text[end] != ",":
            return False
        edited = faced + 1 < len(self.old.nodes) and self._stands(faced + 1, 1, end + 1)
        return not edited and self._stands(faced, 1, end + 1)
