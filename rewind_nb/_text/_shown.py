"""Text as it may be shown: redacted, then cut, with nothing in it that a terminal would obey.

Control characters, escape sequences, bidi marks and lone surrogates become Python escapes,
so text from a model can neither colour, hide nor reorder what stands around it. It is cut
after it was redacted: half a key would not be recognised.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import islice
from typing import Any

from rewind_nb._describe import clip, columns, displayed, short
from rewind_nb._diff import MISSING
from rewind_nb._secrets import redact
from rewind_nb._visible import visible

__all__ = ["WIDTH", "brief", "cell", "clip", "columns", "middle", "page", "visible"]

WIDTH = 100
"""Columns of a line."""


def brief(value: Any, width: int = 60) -> str:
    """A value on one line, whatever it is; its own `repr` where that works.

    Example:
        >>> brief({"a": "x" * 50}, 20)
        "{'a': 'xxxxxxxxxx..."
        >>> brief(MISSING)
        '(missing)'
    """
    if value is MISSING:
        return "(missing)"
    if isinstance(value, str):
        value = redact(value)[: width + 1]
    elif type(value) in (list, tuple) and len(value) > width:
        value = value[:width]  # more than fits already
    elif type(value) is dict and len(value) > width:
        value = dict(islice(value.items(), width))
    return clip(short(value, width=sys.maxsize)[: width + 1], width)


def middle(text: str, width: int) -> str:
    """Cut in the middle: an override starts with its path and ends with its value."""
    if len(text) <= width:
        return text
    head = (width - 3) // 2
    return f"{text[:head]}...{text[len(text) - (width - 3 - head) :]}"


def cell(text: object, width: int) -> str:
    """One column of a table."""
    shown = clip(displayed(str(text)), width)
    return shown + " " * (width - columns(shown))


def page(lines: Iterable[str]) -> str:
    """The one door to the terminal."""
    return "\n".join(clip(visible(redact(line)[: 2 * WIDTH]), WIDTH).rstrip() for line in lines)
