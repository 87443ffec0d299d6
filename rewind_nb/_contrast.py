"""Two values on a line each, such that the lines differ where the values do.

A long value is cut, and cut at the same place two of them may look alike. So what both
begin with is left out, of an array or a table the cells that differ are told, and where two
objects have one repr, the part of them that differs.
"""

from __future__ import annotations

import sys
from itertools import islice
from typing import Any

from rewind_nb import _codec
from rewind_nb._describe import WIDTH, clip, columns, short
from rewind_nb._items import strict_equal
from rewind_nb._path import MISSING, join
from rewind_nb._secrets import redact, redact_bytes
from rewind_nb._tables import differing, is_table
from rewind_nb._words import shared_start
from rewind_nb.errors import NotEncodableError

__all__ = ["contrast"]

LEFT = 20  # columns kept of what both begin with


def contrast(before: Any, after: Any, width: int = WIDTH) -> tuple[str, str]:
    """Both values on one line each without secrets, cut at *width* columns so that they differ.

    Example:
        >>> contrast("a" * 50 + "bc", "a" * 50 + "cd", width=30)
        ("...'aaaaaaaaaaaaaaaaaaaabc'", "...'aaaaaaaaaaaaaaaaaaaacd'")
    """
    if type(before) is type(after) is str:
        return _texts(redact(before), redact(after), width)
    if type(before) is type(after) is bytes:
        return _texts(redact_bytes(before), redact_bytes(after), width)
    lines = _line(before, width), _line(after, width)
    cut = max(map(columns, lines)) > width
    if before is MISSING or after is MISSING:
        return clip(lines[0], width), clip(lines[1], width)
    if cut or lines[0] == lines[1] or is_table(before):
        lines = _differing(before, after) or lines
    if lines[0] == lines[1]:
        lines = _inside(before, after)
    start = 0 if max(map(columns, lines)) <= width else max(0, shared_start(*lines) - LEFT)
    dots = "..." if start else ""
    return clip(dots + lines[0][start:], width), clip(dots + lines[1][start:], width)


def _texts(before: Any, after: Any, width: int) -> tuple[str, str]:
    """Two texts without secrets, which nobody would recognise in a part."""
    start = 0
    if max(columns(repr(side[: width + 1])) for side in (before, after)) > width:
        same = shared_start(before, after)
        start = max(0, same - LEFT)
        while columns(repr(before[start:same])) > LEFT + 3:  # wide, or longer where it is escaped
            start += 1
    dots = "..." if start else ""
    lines = [f"{dots}{side[start : start + width]!r}" for side in (before, after)]
    return clip(lines[0], width), clip(lines[1], width)


def _line(value: Any, width: int) -> str:
    """The whole repr, of a long list or dict as much as fits."""
    if type(value) in (list, tuple) and len(value) > width:
        value = value[:width]
    elif type(value) is dict and len(value) > width:
        value = dict(islice(value.items(), width))
    return short(value, sys.maxsize)


def _differing(before: Any, after: Any) -> tuple[str, str] | None:
    try:
        return differing(before, after)
    except Exception:  # noqa: BLE001  (labels and cells may be anything)
        return None


# -- two objects of one repr --------------------------------------------------------------


def _inside(before: Any, after: Any) -> tuple[str, str]:
    """Where their encodings part, for what shows alike."""
    lines = [f"{_named(type(side))}: {_line(side, WIDTH)}" for side in (before, after)]
    if lines[0] == lines[1]:
        try:
            nodes = [_codec.parse(_codec.encode(side)) for side in (before, after)]
        except NotEncodableError:
            return lines[0], lines[1]
        path, *parts = _parting("", *nodes)
        lines = [
            f"{_line(before, WIDTH)}, its {path or 'content'}: {_line(p, WIDTH)}" for p in parts
        ]
    return lines[0], lines[1]


def _named(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _parting(path: str, before: Any, after: Any) -> tuple[str, Any, Any]:
    """The first place where two nodes differ, and what is there."""
    while type(before) is type(after) and type(before) in (list, dict):
        ours, theirs = (dict(enumerate(n)) if type(n) is list else n for n in (before, after))
        keys = dict.fromkeys([*ours, *theirs])
        unlike = (
            k
            for k in keys
            if k not in ours or k not in theirs or not strict_equal(ours[k], theirs[k])
        )
        key = next(unlike, None)
        if key is None:  # the same keys in another order
            return path, list(ours), list(theirs)
        before, after = ours.get(key, MISSING), theirs.get(key, MISSING)
        path = path if key == "v" else join(path, key)  # where a tag has its value
    return path, before, after
