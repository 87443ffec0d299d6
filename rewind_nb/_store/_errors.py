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
from typing import Any

from rewind_nb.errors import (
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreFormatError,
    StoreFullError,
    StoreNotFoundError,
    StoreReadOnlyError,
)

ALMOST_NOTHING = 1 << 20  # bytes; SQLite says "I/O error" where a shared page does not fit

_READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT}

Kind = tuple[type[StoreError], str, str]  # the error, the fact, the next action
_CANNOT_WRITE: Kind = (
    StoreReadOnlyError,
    "cannot be written: {text}.",
    "Check the permissions of the file and its folder, or open it with read_only=True.",
)
_NO_ROOM: Kind = (
    StoreFullError,
    "could not be written: {text}. What was committed before is kept.",
    "Free some space and resume the run.",
)
_DISK: Kind = (
    StoreError,
    "could not be read or written: {text}. What was committed before is kept.",
    "Check the disk and its quota.",
)
_HELD: Kind = (
    StoreError,
    "is held by another process: {text}.",
    "Close what uses it, and try again.",
)
_FOREIGN: Kind = (
    StoreFormatError,
    "is not an SQLite file, or its header is damaged.",
    "Choose another path, or restore it from a copy.",
)
_DAMAGED: Kind = (
    StoreCorruptError,
    "is damaged: {text}.",
    "Restore it from a copy; store.verify() lists what is damaged as far as it can be read.",
)
_TOO_BIG: Kind = (
    StoreError,
    "cannot hold a value of more than 1 GB: {text}.",
    "Write it to a file and keep its name in the state.",
)
_OTHER: Kind = (StoreError, "could not be used: {text}.", "`rewind doctor` says if it is sound.")
_BY_CODE = {
    sqlite3.SQLITE_ERROR: _DAMAGED,  # our statements are right, so the tables are not
    sqlite3.SQLITE_NOTADB: _FOREIGN,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_READONLY: _CANNOT_WRITE,
    sqlite3.SQLITE_PERM: _CANNOT_WRITE,
    sqlite3.SQLITE_CANTOPEN: _CANNOT_WRITE,
    sqlite3.SQLITE_FULL: _NO_ROOM,
    sqlite3.SQLITE_IOERR: _DISK,
    sqlite3.SQLITE_BUSY: _HELD,
    sqlite3.SQLITE_PROTOCOL: _HELD,
    sqlite3.SQLITE_TOOBIG: _TOO_BIG,
}


def name_error(error: BaseException, path: Path | None = None) -> StoreError:
    """The StoreError that says what an error of SQLite or of the system means.

    Example:
        >>> name_error(OSError(errno.ENOSPC, "No space left on device"), Path("runs.db"))
        StoreFullError('The store runs.db could not be written: No space left on device. ...
    """
    if isinstance(error, StoreError):
        return error
    cls, fact, action = _kind(error, path)
    text = (error.strerror if isinstance(error, OSError) else None) or str(error)
    where = "The store" if path is None else f"The store {path}"
    said = f"{where} {fact.format(text=text)} {action}"
    named = cls(said, path=None if path is None else str(path))
    named.__cause__ = error
    return named


def _kind(cause: BaseException, path: Path | None) -> Kind:
    if isinstance(cause, OSError):
        if cause.errno in _READ_ONLY:
            return _CANNOT_WRITE
        return _NO_ROOM if cause.errno in _FULL else _DISK
    code = getattr(cause, "sqlite_errorcode", None)
    if code is None:  # the driver's own: it met text that is no UTF-8
        no_text = isinstance(cause, sqlite3.OperationalError | UnicodeDecodeError)
        return _DAMAGED if no_text else _OTHER
    kind = _BY_CODE.get(code & 0xFF, _OTHER)
    return _NO_ROOM if kind is _DISK and _is_full(path) else kind


def _is_full(path: Path | None) -> bool:
    with contextlib.suppress(OSError):
        return path is not None and shutil.disk_usage(path.parent).free < ALMOST_NOTHING
    return False


def not_there(path: Path, *, read_only: bool = False) -> StoreNotFoundError:
    """The error for a store that is to be read and is not there.

    Example:
        >>> not_there(Path("runs.db"), read_only=True)
        StoreNotFoundError('There is no store at runs.db, and reading creates none. Check the path.')
    """
    later = "" if read_only else ", or record a run there first"
    return StoreNotFoundError(
        f"There is no store at {path}, and reading creates none. Check the path{later}.",
        path=str(path),
    )


def closed(path: Path | None) -> StoreClosedError:
    """The error for a store that is used after it was closed.

    Example:
        >>> closed(None)
        StoreClosedError('The store was closed, and what was in memory is gone. Use Store(path) ...
    """
    if path is None:
        return StoreClosedError(
            "The store was closed, and what was in memory is gone. Use Store(path) with a file "
            "for runs that are to stay."
        )
    return StoreClosedError(
        f"The store {path} was closed, so nothing more can be recorded in it. Open it again with "
        "Store(path).",
        path=str(path),
    )


def corrupt(what: str, **facts: Any) -> StoreCorruptError:
    """The error for what is not in the store as it was written.

    Example:
        >>> corrupt("Run r_1 is missing", run_id="r_1")
        StoreCorruptError('Run r_1 is missing. Restore the store from a copy; ...
    """
    return StoreCorruptError(
        f"{what}. Restore the store from a copy; store.verify() lists everything that is damaged.",
        **facts,
    )


@contextlib.contextmanager
def named_errors(path: Path | None = None) -> Iterator[None]:
    """SQLite's and the system's errors as ours, with the next action."""
    try:
        yield
    except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
        raise name_error(error, path) from error
