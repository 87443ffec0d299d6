"""Content-addressed values: written once, shared by every run, stored as what is new.

A chat history that grows by one message shares nearly all of its encoding with the value
before it. Such a value is stored as (base, cut, body): its content is the first `cut`
bytes of the base's content, then `body`. So a list that grows costs its new part a step,
and reading it back costs one query over the chain.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import sqlalchemy as sa

from rewind_nb.errors import StoreCorruptError

MIN_SAVING = 256  # bytes; below it a delta is not worth the second row

INSERT = "INSERT OR IGNORE INTO contents (hash, base, cut, body) VALUES (?, ?, ?, ?)"
INSERT_BLOB = "INSERT OR IGNORE INTO blobs (sha256, body) VALUES (?, ?)"

_CHAIN = sa.text(
    "WITH RECURSIVE chain(depth, base, cut, body) AS ("
    " SELECT 0, base, cut, body FROM contents WHERE hash = :hash"
    " UNION ALL"
    " SELECT depth + 1, c.base, c.cut, c.body FROM chain JOIN contents c ON c.hash = chain.base"
    ") SELECT base, cut, body FROM chain ORDER BY depth DESC"
)


class Content(NamedTuple):
    """An encoded value and its hash."""

    hash: str
    data: bytes


def content_row(content: Content, like: Content | None) -> tuple[str, str | None, int, bytes]:
    """The row of *content*, as a delta to *like* where that saves space."""
    if like is not None and like.hash != content.hash:
        cut = common_prefix(like.data, content.data)
        if cut >= MIN_SAVING and cut * 2 >= len(content.data):
            return content.hash, like.hash, cut, content.data[cut:]
    return content.hash, None, 0, content.data


def common_prefix(a: bytes, b: bytes) -> int:
    """The number of leading bytes that *a* and *b* share.

    Example:
        >>> common_prefix(b"[1,2]", b"[1,2,3]")
        4
    """
    high = min(len(a), len(b))
    if a[:high] == b[:high]:
        return high
    low = 0
    while high - low > 1:  # a[:low] == b[:low], a[:high] != b[:high]
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low


def read_content(connection: sa.Connection, digest: str) -> bytes:
    """The bytes of a value.

    Raises:
        StoreCorruptError: it is missing, or its bytes do not match its hash.
    """
    rows = connection.execute(_CHAIN, {"hash": digest}).fetchall()
    data = bytearray()
    broken = not rows or rows[0].base is not None
    for row in rows:
        broken = broken or row.cut > len(data)
        del data[row.cut :]
        data += row.body
    found = bytes(data)
    if broken or hashlib.sha256(found).hexdigest() != digest:
        raise StoreCorruptError(
            f"The stored value {digest[:12]} is {'missing' if not rows else 'damaged'}: its bytes "
            "do not match its hash. Restore the store from a copy; store.verify() lists "
            "everything that is damaged.",
            hash=digest,
        )
    return found
