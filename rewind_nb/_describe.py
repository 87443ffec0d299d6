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
    words = _words(override)
    return redact(f"{words} (callback)" if override.callback else words)


def _words(override: Override) -> str:
    kind, value = override.kind, override.value
    if kind == "patch":
        return str(_patch.describe(value))
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
    """A deterministic repr on one line, cut at *width*.

    Example:
        >>> short("a" * 100, width=10)
        "'aaaaaa..."
    """
    text = repr(value) if isinstance(value, str | int | float | None) else _plain(value)
    return text if len(text) <= width else f"{text[: width - 3]}..."


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    Example:
        >>> plural(1, "step"), plural(2, "step")
        ('1 step', '2 steps')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _plain(value: Any) -> str:
    if type(value) in (dict, list, tuple, bytes):
        return repr(value).replace("\n", " ")
    return f"{type(value).__name__}(...)" if " at 0x" in repr(value) else repr(value)
