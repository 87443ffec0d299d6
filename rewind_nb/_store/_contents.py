"""Content-addressed values: written once, shared by every run, stored as what is new.

A chat history that grows by one message shares nearly all of its encoding with the value
before it. Such a value is stored as the edits (`_delta`) that turn that one, its `base`,
into it. So a list that grows costs its new part a step, wherever in the value it is, and
reading it back costs one query over the chain of bases. A chain may be as long as the value
is large, so that reading a value never costs much more than its own bytes.
"""

from __future__ import annotations

import hashlib
import operator
import sqlite3
import struct
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rewind_nb._store._delta import apply, delta
from rewind_nb._store._errors import corrupt
from rewind_nb._store._statements import Statement
from rewind_nb.errors import StoreCorruptError

WORTH_A_DELTA = 512  # bytes; a smaller value is stored whole
FREE_DEPTH = 64  # bases that any value may have beneath it
BYTES_PER_BASE = 64  # a larger value may have one more for each of these

# A delta is stored only where its base is; the whole value only where no delta was.
INSERT_DELTA = (
    "INSERT OR IGNORE INTO contents (hash, base, depth, body)"
    " SELECT ?, id, depth + 1, ? FROM contents WHERE hash = ? AND depth < ?"
)
INSERT_WHOLE = "INSERT OR IGNORE INTO contents (hash, depth, body) VALUES (?, 0, ?)"

_CHAIN = (
    "WITH RECURSIVE chain(id, base, body) AS ("
    " SELECT id, base, body FROM contents WHERE hash = ?"
    " UNION ALL SELECT c.id, c.base, c.body"
    " FROM chain JOIN contents c ON c.id = chain.base AND c.id < chain.id"  # never in a circle
    ") SELECT id, base, body FROM chain"
)


class Content(NamedTuple):
    """An encoded value, its hash, and what errors call it where that is known."""

    hash: str
    data: bytes
    path: str = ""


class Recent:
    """The last value of each kind that was stored, for the next one to be like it.

    Requests and results have no value before them that their writer could name, yet each
    repeats the history that the one before it held. Values that begin alike are of a kind.
    """

    BEGINNING = 24  # bytes
    SMALLEST, LARGEST = 1 << 10, 1 << 22  # bytes
    KINDS = 16

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: OrderedDict[bytes, Content] = OrderedDict()

    def like(self, content: Content) -> Content | None:
        """The last value of this kind, whose place *content* takes."""
        if not self.SMALLEST <= len(content.data) <= self.LARGEST:
            return None
        kind = content.data[: self.BEGINNING]
        with self._lock:
            before = self._last.pop(kind, None)
            self._last[kind] = content
            if len(self._last) > self.KINDS:
                self._last.popitem(last=False)
        return before


def insertions(
    contents: Iterable[tuple[Content, Content | None]], recent: Recent
) -> list[Statement]:
    """The statements that store some values, each beside the one it is said to be like."""
    statements: list[Statement] = []
    for content, given in contents:
        like = given or recent.like(content)
        digest = bytes.fromhex(content.hash)
        if like is not None and like.hash != content.hash:
            edits = _edits(like.data, content.data)
            if edits is not None:
                depth = FREE_DEPTH + len(content.data) // BYTES_PER_BASE
                row = (digest, edits, bytes.fromhex(like.hash), depth)
                statements.append(Statement(INSERT_DELTA, [row]))
        if not (statements and statements[-1].sql == INSERT_WHOLE):
            statements.append(Statement(INSERT_WHOLE, []))
        statements[-1].rows.append((digest, content.data))
    return statements


def _edits(old: bytes, new: bytes) -> bytes | None:
    return delta(old, new) if min(len(old), len(new)) >= WORTH_A_DELTA else None


def read_content(connection: sqlite3.Connection, digest: str) -> bytes:
    """The bytes of a value.

    Raises:
        StoreCorruptError: it is missing, or its bytes do not match its hash.
    """
    try:
        rows = connection.execute(_CHAIN, (bytes.fromhex(digest),)).fetchall()
    except ValueError:  # no hash at all
        rows = []
    data = _rebuilt(rows)
    if data is None or hashlib.sha256(data).hexdigest() != digest:
        raise damaged(digest, missing=not rows)
    return data


def _rebuilt(rows: Sequence[tuple[int, int | None, bytes]]) -> bytes | None:
    """The value that a chain ends in; None where the chain is broken."""
    try:
        (_, base, whole), *edits = sorted(rows, key=operator.itemgetter(0))
        if base is not None or type(whole) is not bytes:
            return None
        data = bytearray(whole)
        for _, _, packed in edits:
            apply(data, packed)
        return bytes(data)
    except (struct.error, TypeError, ValueError):
        return None


def is_blob(body: object, sha256: object) -> bool:
    """Whether these are the bytes of an artifact that has this hash."""
    return type(body) is bytes and hashlib.sha256(body).hexdigest() == sha256


def damaged(digest: str, *, missing: bool) -> StoreCorruptError:
    """What to say of a value that is not what it should be."""
    how = "missing" if missing else "damaged: its bytes do not match its hash"
    return corrupt(f"The stored value {digest[:12]} is {how}", hash=digest)


def damaged_blob(sha256: str, *, missing: bool) -> StoreCorruptError:
    """What to say of an artifact's bytes that are not what they should be."""
    how = "are missing" if missing else "do not match their hash"
    return corrupt(f"The artifact bytes {sha256[:12]} {how}", hash=sha256)
