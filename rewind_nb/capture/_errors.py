"""Exceptions as records, and records as exceptions again."""

from __future__ import annotations

import builtins
import contextlib
import sys
import traceback
from dataclasses import replace

from rewind_nb._describe import displayed, said
from rewind_nb._model import ErrorInfo, StepRow
from rewind_nb._secrets import redact


def describe(error: BaseException, *, with_traceback: bool = False) -> ErrorInfo:
    """The record of an exception; secrets are redacted, locals never included.

    Whatever the exception's own code does when it is asked, there is a record.
    """
    raw = text = None
    with contextlib.suppress(Exception):
        raw = getattr(error, "raw", None)
    if with_traceback:
        with contextlib.suppress(Exception):
            text = redact("".join(traceback.format_exception(error)))
    return ErrorInfo(
        type=redact(type_name(type(error))),
        message=said(error),
        raw=redact(raw) if isinstance(raw, str) else None,
        traceback=text,
    )


def scrubbed(row: StepRow) -> StepRow:
    """The row of a step that failed, without secrets in the names that it gathered.

    That a step completed can be refused where one of them holds a key. That it failed is
    written down all the same.
    """
    return replace(
        row,
        reads=tuple((redact(key), digest) for key, digest in row.reads),
        tasks=tuple((redact(key), steps, chain) for key, steps, chain in row.tasks),
        uncaptured=tuple(map(redact, row.uncaptured)),
    )


def add_note(error: BaseException, words: str) -> None:
    """Put a note on a user's exception, which may refuse to be changed."""
    note = displayed(words)
    try:
        error.add_note(note)
    except Exception:  # noqa: BLE001  (a frozen dataclass takes no attributes)
        with contextlib.suppress(Exception):
            vars(error).setdefault("__notes__", []).append(note)


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
            error: Exception = found(info.message)
            if str(error) == info.message:
                return error
        except Exception:  # noqa: BLE001, S110  (it may refuse one argument, or to say anything)
            pass
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
