"""Two values as one text, in pieces that say what is the same, what went and what came.

A view draws a piece as ``[kind, text]``: ``same``, ``removed``, ``added``, or ``cut`` for words
about what is left out. However large the values are, the pieces are few and quickly there: what
both begin and end with is never compared word by word, and what is too long to be compared so
is shown as replaced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Any

from rewind_nb._describe import plural
from rewind_nb._diff import MISSING
from rewind_nb._html._value import layout
from rewind_nb._secrets import redact
from rewind_nb._tables import is_table
from rewind_nb._text import brief
from rewind_nb._visible import visible_lines
from rewind_nb._words import shared_ends, word_diff

__all__ = ["TOLD", "kind_of", "pieces", "value_pieces"]

COMPARED = 12_000  # characters of each side that are compared by words: 0.2 s at the worst
TOLD = 4_000  # characters of a piece that is not compared
KEPT = 160  # characters at each end of a stretch that stayed the same

Pieces = list[list[str]]


def value_pieces(before: Any, after: Any) -> Pieces:
    """The pieces of two values of any type and size; `MISSING` for one that is not there."""
    sides = [_text_of(side) for side in (before, after)]
    found = pieces(*(text for text, _ in sides))
    cut = [side for side, (_, whole) in zip((before, after), sides, strict=True) if not whole]
    if cut:
        found.append(["cut", f" … cut here; the whole is {' → '.join(map(kind_of, cut))}"])
    return found


def pieces(before: str | None, after: str | None) -> Pieces:
    """The pieces of two texts; None for one that is not there.

    Example:
        >>> pieces("12 units", "15 units")
        [['removed', '12'], ['added', '15'], ['same', ' units']]
        >>> pieces(None, "x" * 4_001)[1]
        ['cut', ' … 1 more character ']
    """
    old, new = (None if side is None else redact(side) for side in (before, after))
    if old is None or new is None:
        return [*_bounded("added" if old is None else "removed", old or new or "")]
    start, end = shared_ends(old, new)
    middle = [side[start : len(side) - end] for side in (old, new)]
    return [
        *_same(old[:start], left=bool(start)),
        *_compared(*middle),
        *_same(old[len(old) - end :], right=True),
    ]


def kind_of(value: Any) -> str:
    """The type of a value with its size, such as ``list, 1,200 items``."""
    name = "str" if isinstance(value, str) else type(value).__name__
    if value is MISSING:
        return "nothing"
    if isinstance(value, str):
        return f"{name}, {plural(len(value), 'character', ',')}"
    if type(value) in (bytes, bytearray):
        return f"{name}, {plural(len(value), 'byte', ',')}"
    if type(value) in (dict, list, tuple, set, frozenset):
        return f"{name}, {plural(len(value), 'item', ',')}"
    return name


def _text_of(value: Any) -> tuple[str | None, bool]:
    """A value as text, and whether that is all of it."""
    if value is MISSING:
        return None, True
    if isinstance(value, str):
        return value, True
    if is_table(value):
        try:
            return repr(value), True
        except Exception:  # noqa: BLE001  (what is in its cells may do anything)
            return brief(value, COMPARED), True
    if isinstance(value, Sized) and type(value) in (dict, list, tuple, set, frozenset):
        return layout(value, COMPARED)
    text = brief(value, TOLD)
    return text, len(text) < TOLD


def _compared(old: str, new: str) -> Iterator[list[str]]:
    if max(len(old), len(new)) > COMPARED:
        yield from _bounded("removed", old)
        yield from _bounded("added", new)
        return
    for kind, text in word_diff(old, new):
        yield from _same(text) if kind == "same" else [[kind, visible_lines(text)]]


def _bounded(kind: str, text: str) -> Iterator[list[str]]:
    if text:
        yield [kind, visible_lines(text[:TOLD])]
    if (more := len(text) - TOLD) > 0:
        yield ["cut", f" … {plural(more, 'more character', ',')} "]


def _same(text: str, *, left: bool = False, right: bool = False) -> Iterator[list[str]]:
    """A stretch that stayed the same, the inside of a long one left out."""
    head = 0 if left else KEPT
    tail = 0 if right else KEPT
    more = len(text) - head - tail
    if more <= KEPT:
        yield from [["same", visible_lines(text)]] if text else []
        return
    if head:
        yield ["same", visible_lines(text[:head])]
    yield ["cut", f" … {plural(more, 'character', ',')} the same … "]
    if tail:
        yield ["same", visible_lines(text[-tail:])]
