"""Markup that cannot be broken out of: text is escaped unless it was built by `tag`.

`Html` is a `str` of finished markup. `tag` makes one out of a name, attributes and
children; a child that is a plain `str` is data and goes through `text`: redacted, then
cut, then escaped, with characters that cannot be seen shown as escapes. So a value can
only get into a page as text, wherever it stands.

What a page holds is bounded: a text by its own limit, a table by the size of its rows.
Where something was left out a note says how much and what has it all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from itertools import groupby

from rewind_nb._secrets import redact
from rewind_nb._text import visible

__all__ = ["Html", "join", "note", "row", "table", "tag", "text"]

MAX_TEXT = 2_000  # characters of one text
MAX_TABLE = 48_000  # characters of markup in one table

_UNUSUAL = re.compile(r"[^\x20-\x7e\n\t]+")
_VOID = {"br"}


class Html(str):
    """Finished markup."""

    __slots__ = ()


Child = Html | str | int | float | None


def tag(name: str, *children: Child, **attributes: Child) -> Html:
    """An element. ``class_`` is class, ``stroke_width`` is stroke-width, None is left out.

    Example:
        >>> tag("td", "a < b", class_="x")
        '<td class="x">a &lt; b</td>'
    """
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(visible(redact(str(value))))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if name in _VOID:
        return Html(f"<{name}{shown}>")
    return Html(f"<{name}{shown}>{join(*children)}</{name}>")


def join(*children: Child) -> Html:
    """Children one after the other; plain text is escaped.

    Example:
        >>> join(tag("b", 1), " & ", None)
        '<b>1</b> &amp; '
    """
    return Html("".join(c if isinstance(c, Html) else _leaf(c) for c in children))


def _leaf(child: Child) -> Html:
    return Html("" if child is None else text(str(child)))


def text(value: str, limit: int = MAX_TEXT) -> Html:
    r"""Data as markup, at most *limit* characters of it.

    Args:
        value: any string, of any length.
        limit: characters; what is beyond is counted in a note.

    Example:
        >>> text("<b>\u202e", 3)
        '&lt;b&gt;<span class="rw-cut">… 1 more character</span>'
    """
    clean = redact(value)
    shown = _UNUSUAL.sub(_seen, escape(clean[:limit]))
    if len(clean) <= limit:
        return Html(shown)
    left = len(clean) - limit
    return Html(shown + note(f"… {left:,} more character{'s' * (left > 1)}", "span"))


def _seen(match: re.Match[str]) -> str:
    runs = groupby(match[0], str.isprintable)
    texts = ((printable, "".join(chars)) for printable, chars in runs)
    return "".join(t if printable else f"<kbd>{visible(t)}</kbd>" for printable, t in texts)


def note(words: str, name: str = "div") -> Html:
    """What was left out, in words."""
    return tag(name, words, class_="rw-cut")


def row(*cells: Child, class_: str | None = None) -> Html:
    """A table row."""
    return tag("tr", *(tag("td", cell) for cell in cells), class_=class_)


def table(
    head: Iterable[str], rows: Iterable[Html], left_out: str, budget: int = MAX_TABLE
) -> Html:
    """A table of as many rows as fit; *rows* is read no further than that.

    Args:
        head: the column headings.
        rows: made by `row`, lazily where they cost something.
        left_out: the note where some did not fit.
        budget: characters of markup.
    """
    kept: list[Html] = []
    for made in rows:
        budget -= len(made)
        if budget < 0:
            break
        kept.append(made)
    headings = tag("tr", *(tag("th", name, scope="col") for name in head))
    body = tag("table", tag("thead", headings), tag("tbody", *kept), class_="rw-table")
    return join(tag("div", body, class_="rw-scroll"), note(left_out) if budget < 0 else None)
