"""What SQLite and the operating system say, as errors that say what to do.

SQLite's own messages ("database disk image is malformed") name no file and no next
action. They are told apart by their codes, never by their text.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa

from rewind_nb.errors import (
    StoreCorruptError,
    StoreError,
    StoreFormatError,
    StoreFullError,
    StoreReadOnlyError,
)

ALMOST_NOTHING = 1 << 20  # bytes; SQLite says "I/O error" where a shared page does not fit

_READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT}

_CANNOT_WRITE = (
    StoreReadOnlyError,
    "{where} cannot be written: {text}. Check the permissions of the file and its folder, "
    "or open it to read with Store(path, read_only=True).",
)
_NO_ROOM = (
    StoreFullError,
    "{where} could not be written: {text}. What was committed before is kept. Free some "
    "space and resume the run.",
)
_DISK = (
    StoreError,
    "{where} could not be read or written: {text}. What was committed before is kept. Check "
    "the disk and its quota.",
)
_HELD = (
    StoreError,
    "{where} is held by another process ({text}). Close what uses it, and try again.",
)
_OTHER = (
    StoreError,
    "{where} could not be used: {text}. `rewind doctor` says whether it is sound.",
)
_BY_CODE: dict[int, tuple[type[StoreError], str]] = {
    sqlite3.SQLITE_NOTADB: (
        StoreFormatError,
        "{where} is not an SQLite file, or its header is damaged. Choose another path, or "
        "restore it from a copy.",
    ),
    sqlite3.SQLITE_CORRUPT: (
        StoreCorruptError,
        "{where} is damaged: {text}. Restore it from a copy; store.verify() lists what is "
        "damaged as far as it can be read.",
    ),
    sqlite3.SQLITE_READONLY: _CANNOT_WRITE,
    sqlite3.SQLITE_PERM: _CANNOT_WRITE,
    sqlite3.SQLITE_CANTOPEN: _CANNOT_WRITE,
    sqlite3.SQLITE_FULL: _NO_ROOM,
    sqlite3.SQLITE_IOERR: _DISK,
    sqlite3.SQLITE_BUSY: _HELD,
    sqlite3.SQLITE_PROTOCOL: _HELD,
    sqlite3.SQLITE_TOOBIG: (
        StoreError,
        "A value is too big for {where} ({text}): SQLite holds at most 1 GB in one value. "
        "Write it to a file and keep its name in the state.",
    ),
}


def name_error(error: BaseException, path: Path | None = None) -> StoreError:
    """The StoreError that says what an error of SQLite or of the system means.

    Example:
        >>> name_error(OSError(errno.ENOSPC, "No space left on device"), Path("runs.db"))
        StoreFullError('The store runs.db could not be written: No space left on device. ...
    """
    if isinstance(error, StoreError):
        return error
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) and error.orig else error
    text = str(cause)
    kind = _OTHER
    if isinstance(cause, OSError):
        text = cause.strerror or text
        kind = _CANNOT_WRITE if cause.errno in _READ_ONLY else _DISK
        kind = _NO_ROOM if cause.errno in _FULL else kind
    elif (code := getattr(cause, "sqlite_errorcode", None)) is not None:
        kind = _BY_CODE.get(code & 0xFF, _OTHER)
        if kind is _DISK and _is_full(path):
            kind = _NO_ROOM
    cls, said = kind
    where = "The store" if path is None else f"The store {path}"
    named = cls(said.format(where=where, text=text), path=None if path is None else str(path))
    named.__cause__ = cause
    return named


def _is_full(path: Path | None) -> bool:
    with contextlib.suppress(OSError):
        return path is not None and shutil.disk_usage(path.parent).free < ALMOST_NOTHING
    return False


@contextlib.contextmanager
def named_errors(path: Path | None = None) -> Iterator[None]:
    """SQLite's and the system's errors as ours, with the next action."""
    try:
        yield
    except (sqlite3.Error, sa.exc.DBAPIError, OSError) as error:
        raise name_error(error, path) from error
