"""Reading many values of a store as nodes, each from the one that it was stored as edits of.

A value that grew by a message is stored as that message, beside the value before it. Whoever
reads both, one after the other, need not put the second together from the beginning, nor
hash it from there, nor parse it: the bytes before the first edit are the same, and so are
the state of the hash there and the nodes of what they say (`_codec._reread`). So reading the
thousand versions of a history costs little more than reading the last.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from rewind_nb import _codec
from rewind_nb._codec._reread import Pool, Tree, parse_like
from rewind_nb._store._delta import apply, first_edit

if TYPE_CHECKING:
    from rewind_nb._store._store import Store

KEPT = 1 << 26  # bytes of the encodings that the next ones may be edits of
_ROW = "SELECT id, base, body FROM contents WHERE hash = ?"


class _Row(NamedTuple):
    """How a value is stored: whole, or as the edits of its base."""

    id: int
    base: int | None
    body: bytes


class _Known(NamedTuple):
    """A value that was read, for the next one to be read from it."""

    data: bytes
    hashed: Any  # the state of the hash after the first bytes,
    done: int  # which are so many
    tree: Tree


class Nodes:
    """The values of a store as nodes, which are shared and must not be changed.

    Args:
        store: where they are.
        pool: what was parsed before, of this store or another.

    Example:
        >>> nodes = Nodes(store, Pool())  # doctest: +SKIP
        >>> nodes.node(digest)  # doctest: +SKIP
        [{'role': 'user', 'content': 'hello'}]
    """

    def __init__(self, store: Store, pool: Pool) -> None:
        self._store = store
        self._pool = pool
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._digests: dict[int, str] = {}  # of the known ones, by the id of the row
        self._size = 0

    def node(self, digest: str) -> _codec.Node:
        """A stored value as `_codec.parse` gives it.

        Raises:
            StoreCorruptError: it is missing, or does not match its hash.
        """
        known = self._known.get(digest)
        if known is None:
            known = self._read(digest)
            self._keep(digest, known)
        else:
            self._known.move_to_end(digest)
        return known.tree.node

    def _read(self, digest: str) -> _Known:
        row = self._store.read(_row, digest)
        base = None
        if row is not None:
            base = self._known.get(self._digests.get(row.base or 0, ""))
            self._digests[row.id] = digest
        edited = _edited(base, row.body, digest) if row and base else None
        if edited is None or base is None:
            data = self._store.content(digest).data
            return _Known(data, hashlib.sha256(), 0, self._parsed(data, None))
        return _Known(*edited, self._parsed(edited[0], base.tree))

    def _parsed(self, data: bytes, like: Tree | None) -> Tree:
        try:
            text = data.decode()
        except UnicodeDecodeError:  # then it cannot be parsed, and the error says so
            return Tree("", _codec.parse(data))
        tree = None if like is None else parse_like(text, like, self._pool)
        return tree or Tree(text, _codec.parse(data))

    def _keep(self, digest: str, known: _Known) -> None:
        self._known[digest] = known
        self._size += len(known.data)
        while self._size > KEPT and len(self._known) > 1:
            _, oldest = self._known.popitem(last=False)
            self._size -= len(oldest.data)


def _row(connection: sqlite3.Connection, digest: str) -> _Row | None:
    try:
        found = connection.execute(_ROW, (bytes.fromhex(digest),)).fetchone()
    except ValueError:  # no hash at all
        return None
    return None if found is None else _Row(*found)


def _edited(base: _Known, edits: bytes, digest: str) -> tuple[bytes, Any, int] | None:
    """The bytes that edits make of a value, with the hash up to the first edit.

    None where they do not make what the hash says.
    """
    try:
        same = first_edit(edits)
        data = bytes(apply(bytearray(base.data), edits))
    except (struct.error, TypeError):
        return None
    hashed, done = (base.hashed.copy(), base.done) if base.done <= same else (hashlib.sha256(), 0)
    hashed.update(memoryview(data)[done:same])
    whole = hashed.copy()
    whole.update(memoryview(data)[same:])
    return (data, hashed, same) if whole.hexdigest() == digest else None
