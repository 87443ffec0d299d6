"""Values, errors and overrides in words, the same wherever they are shown.

What a value or an error says is anybody's text: no secret is in it, and nothing that a
terminal would obey.
"""

from __future__ import annotations

import unicodedata
from typing import Any

from rewind_nb import _patch
from rewind_nb._model import Override
from rewind_nb._secrets import redact
from rewind_nb._visible import visible

WIDTH = 60


def displayed(text: str) -> str:
    r"""A text as it may be shown on one line, without secrets and with nothing hidden in it.

    Example:
        >>> print(displayed("a\n\x1bb"))
        a\n\x1bb
    """
    return visible(redact(text))


def describe_override(override: Override) -> str:
    """One line, such as ``replace report.total = 1200`` or ``prompt of call 1 = 'Be brief'``.

    Example:
        >>> describe_override(Override("state", {"city": "Bern"}))
        "state city = 'Bern'"
    """
    words = displayed(_words(override))
    return f"{words} (callback)" if override.callback else words


def _words(override: Override) -> str:
    kind, value = override.kind, override.value
    if kind == "patch":
        return str(_patch.describe(value))
    if kind == "update":
        sets = [f"state {k} = {short(v)}" for k, v in value["set"].items()]
        return "; ".join([*sets, *(f"state {k} deleted" for k in value["delete"])])
    if kind == "output":
        return "; ".join(f"replace {k} = {short(v)}" for k, v in value.items())
    if kind in ("state", "inputs"):
        name = "input" if kind == "inputs" else kind
        return "; ".join(f"{name} {k} = {short(v)}" for k, v in value.items())
    which = f" of call {override.call}" if override.call else ""
    if kind in ("params", "tool_args"):
        name = kind.replace("_", " ")
        return f"{name}{which}: " + "; ".join(f"{k} = {short(v)}" for k, v in value.items())
    if kind == "action":
        return "; ".join(f"action {k} = {told['name']}" for k, told in value.items())
    if kind == "code":
        edits = [f"code of {', '.join(value['actions'])}"] if value["actions"] else []
        return "; ".join([*edits, *value["graph"]]) or "the code as it is now"
    return f"{kind.replace('_', ' ')}{which} = {short(value)}"


def short(value: Any, width: int = WIDTH) -> str:
    """A deterministic repr on one line without secrets, cut at *width*.

    Example:
        >>> short("a" * 100, width=10)
        "'aaaaaa..."
    """
    text = displayed(_line(value))  # before it is cut: half a key is not recognised
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _line(value: Any) -> str:
    try:
        text = repr(value).replace("\n", " ")
    except Exception as error:  # noqa: BLE001  (a user's __repr__ may do anything)
        return f"<{type(value).__name__}: its repr raised {type(error).__name__}>"
    return f"{type(value).__name__}(...)" if " at 0x" in text else text


def clip(text: str, width: int) -> str:
    """The text cut to a number of terminal columns, a wide character being two.

    Example:
        >>> clip("a long line", 8)
        'a lon...'
    """
    if len(text) * 2 <= width or columns(text) <= width:
        return text
    kept, room = [], width - 3
    for char in text:
        room -= columns(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept) + "..."


def columns(text: str) -> int:
    """How many terminal columns a text takes at most."""
    if text.isascii():
        return len(text)
    return len(text) + sum(unicodedata.east_asian_width(c) in "WF" for c in text)


def said(error: BaseException) -> str:
    """What an exception says, without secrets; what can be said of it where it says nothing.

    Example:
        >>> said(ValueError("no rows"))
        'no rows'
        >>> class Broken(Exception):
        ...     def __str__(self):
        ...         return self.missing
        >>> said(Broken("no rows"))
        "<Broken('no rows'): its str raised AttributeError>"
    """
    try:
        return redact(str(error))
    except Exception as broken:  # noqa: BLE001  (a user's __str__ may do anything)
        given = BaseException.args.__get__(error)  # type: ignore[attr-defined]  # its own may raise
        args = ", ".join(map(_line, given))
        name, raised = type(error).__name__, type(broken).__name__
        return redact(f"<{name}({args}): its str raised {raised}>")


def notes_on(error: BaseException | None) -> list[str]:
    """The notes on an exception.

    Example:
        >>> notes_on(ValueError("no rows"))
        []
    """
    try:
        notes = getattr(error, "__notes__", ())
        return [note for note in notes if isinstance(note, str)]
    except Exception:  # noqa: BLE001  (they may be anything)
        return []


def error_line(error: BaseException) -> str:
    """An exception with its class, on one line and without secrets.

    Example:
        >>> error_line(ValueError("no rows"))
        'ValueError: no rows'
    """
    return " ".join(f"{redact(type(error).__name__)}: {said(error)}".split())


def plural(count: int, noun: str, form: str = "") -> str:
    """A count with its noun.

    Args:
        form: how the count is written, such as ``,`` for groups of three digits.

    Example:
        >>> plural(1, "step"), plural(2, "step"), plural(1200, "token", ",")
        ('1 step', '2 steps', '1,200 tokens')
    """
    return f"{count:{form}} {noun}" if count == 1 else f"{count:{form}} {noun}s"
