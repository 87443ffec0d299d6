"""Exceptions as records, and records as exceptions again."""

from __future__ import annotations

import builtins
import sys
import traceback

from rewind_nb._model import ErrorInfo
from rewind_nb._secrets import redact


def describe(error: BaseException, *, with_traceback: bool = False) -> ErrorInfo:
    """The record of an exception; secrets are redacted, locals never included."""
    raw = getattr(error, "raw", None)
    text = "".join(traceback.format_exception(error)) if with_traceback else None
    return ErrorInfo(
        type=redact(type_name(type(error))),
        message=redact(str(error)),
        raw=redact(raw) if isinstance(raw, str) else None,
        traceback=None if text is None else redact(text),
    )


def type_name(cls: type) -> str:
    """``module.qualname``, without the module for builtins.

    Example:
        >>> type_name(ValueError), type_name(ErrorInfo)
        ('ValueError', 'rewind_nb._model.ErrorInfo')
    """
    if cls.__module__ == "builtins":
        return cls.__qualname__
    return f"{cls.__module__}.{cls.__qualname__}"


def revive(info: ErrorInfo) -> Exception:
    """An exception of the recorded class and message, for playing a failure back.

    The class is looked up among what is imported; nothing is imported. Where it is not
    there, or cannot carry the message, a stand-in of the same name is made.
    """
    found = _find_class(info.type)
    if found is not None:
        try:
            error: Exception | None = found(info.message)
        except Exception:  # noqa: BLE001  (any constructor may refuse one argument)
            error = None
        if error is not None and str(error) == info.message:
            return error
    return _stand_in(info, found or Exception)


def _find_class(name: str) -> type[Exception] | None:
    parts = name.split(".")
    for split in range(len(parts) - 1, -1, -1):
        module = builtins if split == 0 else sys.modules.get(".".join(parts[:split]))
        found: object = module
        for part in parts[split:]:
            found = getattr(found, "__dict__", {}).get(part)
        if isinstance(found, type) and issubclass(found, Exception):
            return found
    return None


def _stand_in(info: ErrorInfo, base: type[Exception]) -> Exception:
    module, _, qualname = info.type.rpartition(".")
    body = {
        "__str__": lambda _: info.message,
        "__module__": module or "builtins",
        "__qualname__": qualname if base is Exception else base.__qualname__,
    }
    cls: type[Exception] = type(qualname, (base,), body)
    return cls.__new__(cls, info.message)
