"""Any value as markup, at a cost that does not depend on its size.

A short value stands in the line. A long one is folded: its type and size, and behind them
the first `MAX_VALUE` characters of it, laid out. The layout is produced piece by piece and
stops when there is enough, so a value of 20 MB costs what one of 4 kB does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from typing import Any

from rewind_nb._contrast import contrast
from rewind_nb._diff import MISSING
from rewind_nb._html._markup import Html, join, note, row, table, tag, text
from rewind_nb._html._parts import mono
from rewind_nb._secrets import redact
from rewind_nb._tables import is_table
from rewind_nb._text import brief

__all__ = ["facing", "kind_of", "layout", "mapping", "shown"]

MAX_INLINE = 88
MAX_VALUE = 3_600
MAX_DEPTH = 12

_BRACKETS: dict[type, tuple[str, str]] = {
    dict: ("{", "}"),
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("{", "}"),
}


def mapping(values: Mapping[str, Any], left_out: str, budget: int = 36_000) -> Html:
    """Named values as a table."""
    rows = (row(mono(key, 120), kind_of(value), shown(value)) for key, value in values.items())
    return table(["field", "type", "value"], rows, left_out, budget)


def shown(value: Any) -> Html:
    """A value, inline where it is short."""
    if value is MISSING:
        return tag("span", "(missing)", class_="rw-dim")
    if type(value) is str:
        return _string(value)
    line = brief(value, MAX_INLINE)
    if not line.endswith("...") or type(value) not in _BRACKETS:
        return mono(line)
    return _folded(line, _laid_out(value))


def facing(before: Any, after: Any) -> tuple[Html, Html]:
    """Two values that differ, such that it shows where."""
    if before is MISSING or after is MISSING:
        return shown(before), shown(after)
    lines = contrast(before, after, MAX_INLINE)
    return _facing(before, lines[0]), _facing(after, lines[1])


def _facing(value: Any, line: str) -> Html:
    if type(value) is str:
        whole = len(value) <= MAX_INLINE and "\n" not in value
        return mono(line) if whole else _folded(line, text(value, MAX_VALUE))
    if type(value) in _BRACKETS and line.endswith("..."):
        return _folded(line, _laid_out(value))
    return _folded(line, _table(value)) if is_table(value) else mono(line)


def _table(value: Any) -> Html:
    try:
        return text(repr(value), MAX_VALUE)
    except Exception:  # noqa: BLE001  (what is in its cells may do anything)
        return text(brief(value, MAX_VALUE))


def kind_of(value: Any) -> Html:
    """The type of a value, with its size where it has one."""
    name = "str" if isinstance(value, str) else type(value).__name__
    if type(value) in _BRACKETS or isinstance(value, str | bytes):
        size = len(value) if isinstance(value, Sized) else 0
        name = f"{name}, {size:,}"
    return tag("span", "" if value is MISSING else name, class_="rw-dim rw-keep")


def _string(value: str) -> Html:
    if len(value) <= MAX_INLINE and "\n" not in value:
        return mono(brief(value, MAX_INLINE + 40))
    return _folded(brief(value, MAX_INLINE), text(value, MAX_VALUE))


def _folded(line: str, content: Html) -> Html:
    return tag(
        "details",
        tag("summary", mono(line)),
        tag("pre", content, class_="rw-pre rw-mono"),
    )


def _laid_out(value: Any) -> Html:
    laid, whole = layout(value, MAX_VALUE)
    cut = None if whole else note("… cut here; the value itself has it all")
    return join(text(laid, MAX_VALUE), cut)


def layout(value: Any, room: int) -> tuple[str, bool]:
    """The first characters of a value, laid out on lines, and whether that is all of it.

    Example:
        >>> print(layout({"total": 5}, 100)[0])
        {
          'total': 5,
        }
    """
    kept: list[str] = []
    for piece in _pieces(value, "\n", room):
        kept.append(piece[:room])
        room -= len(piece)
        if room < 0:
            return "".join(kept), False
    return "".join(kept), True


def _pieces(value: Any, line: str, room: int) -> Iterator[str]:
    """The parts of a value's layout; *line* starts a line at its indentation."""
    kind = type(value)
    if kind is str:
        yield repr(redact(value)[: room + 1])
    elif kind not in _BRACKETS or not value or len(line) > 2 * MAX_DEPTH:
        yield brief(value, 400)
    else:
        opening, closing = _BRACKETS[kind]
        inner = line + "  "
        yield opening
        for item in value:
            yield f"{inner}{brief(item, 200)}: " if kind is dict else inner
            yield from _pieces(value[item] if kind is dict else item, inner, room)
            yield ","
        yield line + closing
