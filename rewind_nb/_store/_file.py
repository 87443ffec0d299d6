"""The store's file: finding it, judging what is there, making it, knowing it again.

A store appears at its path whole or not at all: it is built under another name and then
linked into place, so that neither a crash nor a second process can leave or meet half of
one. An empty or foreign file is therefore never ours, and is refused.

The file itself is never opened but by SQLite. Closing any other handle on it would drop
the locks of this process (POSIX), and with them the safety of its writes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rewind_nb._store._errors import name_error
from rewind_nb.errors import StoreError, StoreFormatError, StoreMovedError, StoreReadOnlyError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

CAN_LOCK = fcntl is not None
MEMORY = ":memory:"
WAIT_S = 30.0  # for another process to finish writing

Identity = tuple[int, int]  # device and inode


def find_path() -> Path | None:
    """The default store: REWIND_STORE, else the nearest .rewind/runs.db upward, else here.

    None stands for memory.
    """
    named = os.environ.get("REWIND_STORE")
    if named:
        return None if named == MEMORY else Path(named).expanduser()
    here = Path.cwd()
    for folder in (here, *here.parents):
        with contextlib.suppress(OSError):  # a folder that may not be looked into
            if (folder / ".rewind" / "runs.db").exists():
                return folder / ".rewind" / "runs.db"
    return here / ".rewind" / "runs.db"


def identify(path: Path) -> Identity | None:
    """Which file is at *path*; None where there is nothing.

    Raises:
        StoreFormatError: what is there cannot be a store.
        StoreReadOnlyError: it cannot be looked at.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unusable(path, error) from error
    if stat.S_ISDIR(found.st_mode):
        raise _refusal(path, "is a folder. Name a file in it, such as runs.db.")
    if not stat.S_ISREG(found.st_mode):
        kind = _KINDS.get(stat.S_IFMT(found.st_mode), "no regular file")
        raise _refusal(path, f"is {kind}, so it cannot hold a store. Choose another path.")
    if found.st_size == 0:
        raise _refusal(
            path, "is empty: not a store of rewind_nb. Delete it, or choose another path."
        )
    return found.st_dev, found.st_ino


_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _unusable(path: Path, error: OSError | ValueError) -> StoreError:
    code = getattr(error, "errno", None)
    if code == errno.ELOOP:
        return _refusal(path, "is a symbolic link that leads in a circle. Choose another path.")
    if code in (errno.EACCES, errno.EPERM):
        return name_error(error, path)
    why = error.strerror if isinstance(error, OSError) else str(error)
    return _refusal(path, f"cannot be the path of a store: {why}. Choose another path.")


def _refusal(path: Path, why: str) -> StoreFormatError:
    return StoreFormatError(f"{path} {why}", path=str(path))


def create(path: Path, build: Callable[[Path], None]) -> None:
    """Make the file at *path*, unless another process is first.

    Args:
        build: makes a whole store under the name it is given.

    Raises:
        StoreReadOnlyError: the folder cannot be created or written.
        StoreFullError: there is no space.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreReadOnlyError(
            f"The folder {path.parent} cannot be created: {error.strerror}. "
            "Choose another path for the store.",
            path=str(path),
        ) from error
    draft = path.with_name(f".{secrets.token_hex(8)}.new")
    try:
        build(draft)
        _publish(draft, path)
    except OSError as error:
        raise name_error(error, path) from error
    finally:
        for leftover in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(OSError):
                os.unlink(f"{draft}{leftover}")  # noqa: PTH108  (a name, not a path of ours)


def _publish(draft: Path, path: Path) -> None:
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        return
    except OSError:  # a file system without hard links
        if not path.exists():
            draft.rename(path)


def check_access(path: Path, *, write: bool) -> None:
    """Refuse a file that may not be used, before anything depends on it.

    Raises:
        StoreReadOnlyError: the file or its folder cannot be written.
        StoreError: the file cannot be read.
    """
    if not os.access(path, os.R_OK):
        raise StoreError(
            f"The store {path} cannot be read: permission denied. Check its permissions.",
            path=str(path),
        )
    for place in (path, path.parent) if write else ():
        if not os.access(place, os.W_OK):
            raise StoreReadOnlyError(
                f"The store {path} cannot be written: {place} is read-only. Check its "
                "permissions, or open the store to read with Store(path, read_only=True).",
                path=str(path),
            )


def check_same(path: Path, opened: Identity) -> None:
    """Refuse to go on with a file that is no longer the one at *path*.

    Raises:
        StoreMovedError: it was deleted, moved or replaced.
    """
    try:
        found = path.stat()
    except OSError:
        found = None
    if found is not None and (found.st_dev, found.st_ino) == opened:
        return
    what = "deleted or moved" if found is None else "replaced by another file"
    raise StoreMovedError(
        f"The store {path} was {what} while it was open, so what would be written now would be "
        "lost. Put the file back, or open the store anew with Store(path).",
        path=str(path),
    )


# -- taking turns -------------------------------------------------------------------------


@contextlib.contextmanager
def taking_turns(path: Path) -> Iterator[None]:
    """Hold the lock file beside *path*, which one process at a time can.

    Raises:
        StoreError: another process holds it for longer than `WAIT_S`.
    """
    handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _lock(handle, path)
        yield
    finally:
        # A child forked meanwhile shares the lock: closing alone would leave it held.
        with contextlib.suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


def _lock(handle: int, path: Path) -> None:
    pause, until = 0.0005, time.monotonic() + WAIT_S
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise StoreError(
                    f"The store {path} is held by another process for more than {WAIT_S:.0f} "
                    "seconds. Close what uses it, and try again.",
                    path=str(path),
                ) from None
        else:
            return
        time.sleep(pause)
        pause = min(pause * 2, 0.01)
