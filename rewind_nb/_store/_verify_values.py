"""Every value and every artifact of a store, hashed again.

A value that grew over a thousand steps is a chain of a thousand edits. Each version is
hashed, but not from its beginning: a version shares the bytes before its first edit with
the one before it, and so the state of the hash there. The cost is that of the bytes stored,
not of all the versions they stand for.
"""

from __future__ import annotations

import hashlib
import sqlite3
import struct
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from rewind_nb._store._contents import damaged, damaged_blob, is_blob
from rewind_nb._store._delta import apply, first_edit
from rewind_nb.errors import StoreCorruptError


class _Pending(NamedTuple):
    """A value to check, and what is known of it from the one it is made from."""

    id: int
    body: bytes
    base: bytearray | None
    same: int  # so many bytes are the base's
    hashed: Any  # the state of the hash after those


def wrong_values(raw: sqlite3.Connection) -> Iterator[tuple[str, StoreCorruptError | None]]:
    """The hash of every value there is, with what is wrong with it."""
    made_from: dict[int | None, list[int]] = defaultdict(list)
    left: dict[int, str] = {}
    depths: dict[int | None, int] = {None: -1}
    wrong: set[int] = set()
    rows = "SELECT id, base, hash, depth FROM contents ORDER BY id"  # a base has a lower id
    for number, base, digest, depth in raw.execute(rows):
        made_from[base].append(number)
        left[number] = digest.hex() if type(digest) is bytes else str(digest)
        depths[number] = depths.get(base, -1) + 1
        if type(digest) is not bytes or depth != depths[number]:
            wrong.add(number)
    for whole in made_from.pop(None, []):
        pending = [_Pending(whole, _body(raw, whole), None, 0, hashlib.sha256())]
        while pending:
            item = pending.pop()
            bodies = {child: _body(raw, child) for child in made_from.get(item.id, [])}
            found, following = _derive(item, bodies)
            pending += following
            digest = left.pop(item.id)
            sound = found == digest and item.id not in wrong
            yield digest, None if sound else damaged(digest, missing=False)
    for digest in left.values():  # what it is made from is gone
        yield digest, damaged(digest, missing=False)


def _derive(item: _Pending, bodies: dict[int, bytes]) -> tuple[str, list[_Pending]]:
    """The hash of a value's bytes, and the values made from it, to be checked next."""
    try:
        data = bytearray(item.body) if item.base is None else apply(item.base, item.body)
    except struct.error:
        return "", [
            _Pending(i, body, bytearray(), 0, hashlib.sha256()) for i, body in bodies.items()
        ]
    same = min(map(_first_edit, bodies.values()), default=0)
    hashed, done = item.hashed, item.same
    if same < done:
        hashed, done = hashlib.sha256(), 0
    hashed.update(data[done:same])
    whole = hashed.copy()
    whole.update(data[same:])
    # The last is taken up first, and may change the bytes in place.
    copies = [bytearray(data) for _ in range(len(bodies) - 1)] + [data]
    following = [
        _Pending(child, body, copied, same, hashed.copy())
        for (child, body), copied in zip(bodies.items(), copies, strict=False)
    ]
    return whole.hexdigest(), following


def _first_edit(body: bytes) -> int:
    try:
        return first_edit(body)
    except struct.error:
        return 0


def _body(raw: sqlite3.Connection, number: int) -> bytes:
    body = raw.execute("SELECT body FROM contents WHERE id = ?", (number,)).fetchone()[0]
    return body if type(body) is bytes else b""  # which is the encoding of no value


def wrong_blobs(raw: sqlite3.Connection) -> Iterator[tuple[str, StoreCorruptError | None]]:
    """The hash of every artifact's bytes there is, with what is wrong with them."""
    for sha256, body in raw.execute("SELECT sha256, body FROM blobs"):
        name = str(sha256)
        sound = is_blob(body, sha256)
        yield name, None if sound else damaged_blob(name, missing=False)
