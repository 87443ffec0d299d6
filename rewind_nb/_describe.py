"""Overrides in words, the same wherever a fork is listed."""

from __future__ import annotations

from typing import Any

from rewind_nb import _patch
from rewind_nb._model import Override
from rewind_nb._secrets import redact

WIDTH = 60


def describe_override(override: Override) -> str:
    """One line, such as ``replace report.total = 1200`` or ``prompt of call 1 = 'Be brief'``.

    Example:
        >>> describe_override(Override("state", {"city": "Bern"}))
        "state city = 'Bern'"
    """
    words = redact(_words(override))
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
    return f"{kind.replace('_', ' ')}{which} = {short(value)}"


def short(value: Any, width: int = WIDTH) -> str:
    """A deterministic repr on one line without secrets, cut at *width*.

    Example:
        >>> short("a" * 100, width=10)
        "'aaaaaa..."
    """
    text = redact(_line(value))  # before it is cut: half a key is not recognised
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _line(value: Any) -> str:
    try:
        text = repr(value).replace("\n", " ")
    except Exception as error:  # noqa: BLE001  (a user's __repr__ may do anything)
        return f"<{type(value).__name__}: its repr raised {type(error).__name__}>"
    return f"{type(value).__name__}(...)" if " at 0x" in text else text


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    Example:
        >>> plural(1, "step"), plural(2, "step")
        ('1 step', '2 steps')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
