"""Values that are refused before anything is sent, whatever the format."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from rewind_nb._describe import short
from rewind_nb.errors import OverrideError

__all__ = ["check_kind", "check_sendable", "got"]


def got(value: Any) -> str:
    """A value as an error quotes it, with its type: a wrong one may look right.

    Example:
        >>> got("0.5")
        "'0.5' (str)"
    """
    return f"{short(value, 40)} ({type(value).__name__})"


def _is_temperature(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value < math.inf


_WANTED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "prompt": ("the text of the last user message, a str", lambda v: isinstance(v, str)),
    "messages": (
        "a list of messages with at least one",
        lambda v: isinstance(v, list) and bool(v),
    ),
    "model": ("the name of a model, a str", lambda v: isinstance(v, str) and bool(v.strip())),
    "temperature": ("a finite number, 0 or more", _is_temperature),
    "params": (
        "a dict of request fields by name, at least one (None removes a field)",
        lambda v: isinstance(v, Mapping) and bool(v) and all(isinstance(k, str) for k in v),
    ),
}


def check_kind(kind: str, value: Any, field: str | None = None) -> None:
    """Refuse a value that cannot stand where an override of *kind* puts it.

    Args:
        kind: the override, such as ``temperature``.
        value: what is to be sent.
        field: the field of a ``params=`` override that holds the value, if one does.

    Raises:
        OverrideError: it says what *kind* takes, and what it got.

    Example:
        >>> check_kind("temperature", True)
        Traceback (most recent call last):
            ...
        rewind_nb.errors.OverrideError: temperature= takes a finite number, 0 or more; it got ...
    """
    wanted, fits = _WANTED[kind]
    if not fits(value):
        name = f"{kind}=" if field is None else f"{field!r} in params="
        raise OverrideError(
            f"{name} takes {wanted}; it got {got(value)}.",
            override=kind if field is None else "params",
        )


def check_sendable(kind: str, value: Any) -> None:
    r"""Refuse what no request or answer could carry.

    Raises:
        OverrideError: it is no JSON, or holds text that is not Unicode.

    Example:
        >>> check_sendable("prompt", "\ud800")
        Traceback (most recent call last):
            ...
        rewind_nb.errors.OverrideError: prompt= cannot be sent as JSON: it holds a lone ...
    """
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        reason = "it holds a lone surrogate, which is no character"
    except ValueError:
        reason = "it holds NaN or an infinity"
    except TypeError as error:
        reason = str(error)
    else:
        return
    raise OverrideError(
        f"{kind}= cannot be sent as JSON: {reason}. Use text, finite numbers, booleans, None, "
        "lists and dicts.",
        override=kind,
    )
