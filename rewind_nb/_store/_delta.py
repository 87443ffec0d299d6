"""The edits that make one byte string out of another: what is new in a value.

A chat history grows at its end, a counter before it changes, a window over it drops its
first message. In each case a few edits say all there is to say::

    {"turn":7,"chat":["a","b"]}  ->  {"turn":8,"chat":["a","b","c"]}
            ^ 7 becomes 8                      ^ ,"c" is put in

They are found without a full comparison: what the two share at both ends is skipped, and
where they differ, some of the next bytes of the new value are looked for in the old one, not
far from there. That costs about as much as hashing the value.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

MOST_EDITS = 8
ANCHOR = 32  # bytes; long enough to be found in one place only, as a rule
WINDOW = 1 << 16  # bytes; how far to look for it
SKIPS = (0, *(1 << n for n in range(11)))  # how far into the new bytes to look for an anchor

_COUNT = struct.Struct("<H")
_EDIT = struct.Struct("<III")


class Edit(NamedTuple):
    """Replace ``old[start:stop]`` by *new*."""

    start: int
    stop: int
    new: bytes


def delta(old: bytes, new: bytes) -> bytes | None:
    """What turns *old* into *new*, packed; None where that saves too little.

    Example:
        >>> old, new = b"[" + b"1," * 500 + b"2]", b"[" + b"1," * 500 + b"2,3]"
        >>> packed = delta(old, new)
        >>> len(packed), apply(bytearray(old), packed) == new
        (16, True)
    """
    edits = find_edits(old, new)
    if edits is None:
        return None
    packed = pack(edits)
    return packed if len(packed) * 2 <= len(new) else None


def apply(data: bytearray, packed: bytes) -> bytearray:
    """Turn *data* into the new value, in place.

    Raises:
        struct.error: the delta is damaged.
    """
    (count,) = _COUNT.unpack_from(packed)
    edits, at = [], _COUNT.size + count * _EDIT.size
    for i in range(count):
        start, stop, size = _EDIT.unpack_from(packed, _COUNT.size + i * _EDIT.size)
        edits.append((start, stop, packed[at : at + size]))
        at += size
    for start, stop, new in reversed(edits):  # so that the earlier positions still hold
        data[start:stop] = new
    return data


def first_edit(packed: bytes) -> int:
    """How many bytes of the old value come before every edit.

    Raises:
        struct.error: the delta is damaged.
    """
    (count,) = _COUNT.unpack_from(packed)
    starts = (_EDIT.unpack_from(packed, _COUNT.size + i * _EDIT.size)[0] for i in range(count))
    return min(starts, default=0)


def pack(edits: list[Edit]) -> bytes:
    """The edits as bytes: their number, where each goes, then what is new."""
    head = [_EDIT.pack(e.start, e.stop, len(e.new)) for e in edits]
    return b"".join((_COUNT.pack(len(edits)), *head, *(e.new for e in edits)))


def find_edits(old: bytes, new: bytes) -> list[Edit] | None:
    """Edits that turn *old* into *new*, in order; None where there are more than a few."""
    at_old = at_new = common_prefix(old, new)
    tail = common_suffix(old, new, min(len(old), len(new)) - at_old)
    end_old, end_new = len(old) - tail, len(new) - tail
    edits: list[Edit] = []
    while at_old < end_old or at_new < end_new:
        if len(edits) == MOST_EDITS:
            return None
        next_old, next_new = _meet(old[at_old:end_old], new[at_new:end_new])
        edits.append(Edit(at_old, at_old + next_old, new[at_new : at_new + next_new]))
        at_old, at_new = at_old + next_old, at_new + next_new
        same = common_prefix(old[at_old:end_old], new[at_new:end_new])
        at_old, at_new = at_old + same, at_new + same
    return edits


def _meet(old: bytes, new: bytes) -> tuple[int, int]:
    """Where two strings that differ at once become the same again, or both ends."""
    for skip in SKIPS:
        anchor = new[skip : skip + ANCHOR]
        if len(anchor) < ANCHOR:
            break
        found = old.find(anchor, 0, WINDOW)
        if found >= 0:
            before = common_suffix(old[:found], new[:skip], min(found, skip))
            return found - before, skip - before
    return len(old), len(new)


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


def common_suffix(a: bytes, b: bytes, limit: int) -> int:
    """The number of trailing bytes that *a* and *b* share, *limit* at most.

    Example:
        >>> common_suffix(b"[1,2]", b"[3,2]", 4)
        3
    """
    low, high, step = 0, limit, 64
    while low < limit:  # the last `low` bytes are the same
        reach = min(low + step, limit)
        if a[len(a) - reach : len(a) - low] != b[len(b) - reach : len(b) - low]:
            high = reach
            break
        low, step = reach, step * 2
    while high - low > 1:
        middle = (low + high) // 2
        if a[len(a) - middle : len(a) - low] == b[len(b) - middle : len(b) - low]:
            low = middle
        else:
            high = middle
    return low
