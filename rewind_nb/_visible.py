"""Text that a terminal only shows, and does not obey."""

from __future__ import annotations

__all__ = ["visible", "visible_lines"]


def visible(text: str) -> str:
    r"""The text with every character that cannot be seen written as an escape.

    Control characters, escape sequences, bidi marks and lone surrogates could colour, hide
    or reorder what stands around them.

    Example:
        >>> print(visible("a\x1b[31m\u202eb"))
        a\x1b[31m\u202eb
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def visible_lines(text: str) -> str:
    r"""The same for a text of several lines, which stay lines.

    Example:
        >>> print(visible_lines("a\n\x1bb"))
        a
        \x1bb
    """
    return text if text.isprintable() else "\n".join(map(visible, text.split("\n")))
