"""`Database`: one SQLite database, a file or memory, and every connection to it.

Readers never wait. Several processes may write to one file, one at a time. SQLite before
3.51.3 can lose a committed transaction when a checkpoint and a commit of two connections
meet (sqlite.org/wal.html, "the WAL-reset bug"; fixed in 3.44.6, 3.50.7, 3.51.3 too). With
such a SQLite every write transaction is taken under one lock file beside the store.
Checkpoints happen inside commits, hence under that lock, and at the last close of the file,
when no other connection can be there; nothing here runs one by hand.

A connection must not cross a `fork`: even to close it in the child could undo what the
parent is writing. A child process that inherits a `Database` is refused, and never closes
what it inherited.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from rewind_nb._store import _file
from rewind_nb._store._build import build, create_tables
from rewind_nb._store._errors import closed, named_errors, not_there
from rewind_nb._store._migrate import check_version, migrate
from rewind_nb._store._schema import APPLICATION_ID
from rewind_nb.errors import StoreError, StoreFormatError, StoreReadOnlyError

P = ParamSpec("P")
T = TypeVar("T")


def wal_reset_fixed(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> bool:
    """Whether this SQLite is free of the WAL-reset bug.

    Example:
        >>> wal_reset_fixed((3, 40, 1)), wal_reset_fixed((3, 50, 7)), wal_reset_fixed((3, 52, 0))
        (False, True, True)
    """
    return (
        version >= (3, 51, 3)
        or (3, 44, 6) <= version < (3, 45)
        or ((3, 50, 7) <= version < (3, 51))
    )


def takes_turns() -> bool:
    """Whether writers must take the lock file first."""
    return _file.CAN_LOCK and not wal_reset_fixed()


def journal_mode() -> str:
    """WAL, but where its bug is there and no lock file to keep it away."""
    return "WAL" if takes_turns() or wal_reset_fixed() else "DELETE"


FILES_BESIDE = 1 << 16  # bytes that SQLite needs on the disk to read a store with its WAL
KEPT_OPEN = 16  # connections that nobody uses at the moment


class Connection(sqlite3.Connection):
    """A connection that a forked child knows it must leave alone."""


_connections: weakref.WeakSet[Connection] = weakref.WeakSet()


class Database:
    """A store, open as soon as its file is there.

    Args:
        path: the file, made by the first write where it is not there; None for memory.
        read_only: nothing is made or changed.

    Raises:
        StoreError: the file cannot be used; the subclass says why.
    """

    def __init__(self, path: Path | None, *, read_only: bool = False) -> None:
        self.path = path
        self.read_only = read_only
        self.closed = False
        self._pid = os.getpid()
        self._identity: _file.Identity | None = None  # of the file, once it is open
        self._opening = threading.Lock()
        # In memory there is one connection, for one thread at a time.
        self._lock = threading.RLock() if path is None else contextlib.nullcontext()
        self._memory: sqlite3.Connection | None = None
        self._idle: list[sqlite3.Connection] = []  # to read a file with
        there = path is None or _file.identify(path) is not None
        if path is not None:
            self._watched = path.absolute()  # the working directory may change
            self._place = Path(os.path.realpath(path))  # one name for every link to it
            self._uri = self._place.as_uri() + "?mode=rw"
        try:
            with named_errors(path):
                if path is None:
                    self._memory = self.connect()
                    create_tables(self._memory)
                elif there or read_only:
                    self.open()
        except BaseException:
            self._close_connections()
            raise

    def open(self, *, create: bool = False) -> None:
        """Open the file, if that was not done yet.

        Args:
            create: make it where it is not there.

        Raises:
            StoreError: it is not there, or cannot be used; the subclass says why.
        """
        path = self.path
        if path is None or self._identity is not None:
            return
        self.check(to_read=not create)
        with self._opening, named_errors(path):
            if self._identity is not None:
                return
            if _file.identify(self._watched) is None:
                if not create:
                    raise not_there(path, read_only=self.read_only)
                _file.create(self._place, lambda draft: build(draft, journal_mode()))
            self._open(path)

    def _open(self, path: Path) -> None:
        _file.check_access(self._place, write=not self.read_only)
        if self.read_only:
            self._uri = self._place.as_uri() + _reading(self._place)
        try:
            with named_errors(path), contextlib.closing(self.connect()) as connection:
                self._check_header(connection, path)
        except StoreReadOnlyError as error:
            if not self.read_only:
                raise
            raise StoreReadOnlyError(
                f"The store {path} cannot be read where it is: {self._place.name}-wal beside it "
                "holds rows that are not merged yet, and the folder is read-only. Copy both files "
                "to a folder that you can write, and open the copy.",
                path=str(path),
            ) from error
        self._identity = _file.identify(self._watched)

    def _check_header(self, opened: sqlite3.Connection, path: Path) -> None:
        opened.execute("SELECT count(*) FROM sqlite_master").fetchone()  # it can be read at all
        if opened.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise StoreFormatError(
                f"{path} is an SQLite file of another program, not a store of rewind_nb. "
                "Choose another path.",
                path=str(path),
            )
        if check_version(opened, path, read_only=self.read_only):
            with self.turn():
                migrate(opened)

    # -- connections ------------------------------------------------------------------------

    def connect(self) -> Connection:
        """A new connection, to be used by one thread at a time."""
        self.check(to_read=True)
        name = ":memory:" if self.path is None else self._uri
        made = sqlite3.connect(
            name,
            uri=self.path is not None,
            timeout=_file.WAIT_S,
            isolation_level=None,  # transactions are begun by name, and at once to write
            check_same_thread=False,
            factory=Connection,
        )
        _connections.add(made)
        made.execute("PRAGMA trusted_schema=OFF")
        made.execute("PRAGMA temp_store=MEMORY")  # to sort needs no room on any disk
        made.execute("PRAGMA cell_size_check=ON")
        self.check(to_read=True)  # what was opened is what was meant
        return made

    def writing(self) -> sqlite3.Connection:
        """The connection to write with; in memory there is but one."""
        if self._memory is not None:
            return self._memory
        made = self.connect()
        made.execute("PRAGMA fullfsync=ON")  # where fsync alone does not reach the disk
        made.execute(f"PRAGMA journal_mode={journal_mode()}")
        return made

    def read(
        self,
        query: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """What a query finds, on a connection on which all that it asks sees the same moment.

        Raises:
            StoreNotFoundError: nothing was recorded there yet.
        """
        self.check(to_read=True)
        self.open()
        with self._lock, named_errors(self.path):
            connection = self._memory or self._take()
            inside = connection.in_transaction  # in memory, a query may ask another one
            try:
                if not inside:
                    connection.execute("BEGIN")
                return query(connection, *args, **kwargs)
            finally:
                if connection.in_transaction and not inside:
                    connection.execute("ROLLBACK")
                if connection is not self._memory:
                    self._give_back(connection)

    def _take(self) -> sqlite3.Connection:
        with contextlib.suppress(IndexError):
            return self._idle.pop()
        return self.connect()

    def _give_back(self, connection: sqlite3.Connection) -> None:
        if len(self._idle) >= KEPT_OPEN:
            connection.close()
            return
        self._idle.append(connection)
        if self.closed:
            self._close_connections()

    def _close_connections(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._idle.pop().close()
        if self._memory is not None:
            self._memory.close()

    @property
    def inherited(self) -> bool:
        """Whether this is a forked child's view of its parent's store."""
        return os.getpid() != self._pid

    def check(self, *, to_read: bool = False) -> None:
        """Refuse to be used where that would lose or damage something.

        Raises:
            StoreClosedError: it was closed.
            StoreMovedError: its file is gone.
            StoreError: it was inherited by a forked process.
        """
        if self.closed and not (to_read and self.path):
            raise closed(self.path)
        if self.inherited:
            raise StoreError(
                "This Store was opened before the process was forked. Open a new Store(path) in "
                "the child process, or start it with the 'spawn' method."
            )
        if self._identity is not None:
            _file.check_same(self._watched, self._identity)

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Where a transaction may be written."""
        alone = self.path is not None and takes_turns()
        with self._lock, _file.taking_turns(self._place) if alone else contextlib.nullcontext():
            self.check()
            yield

    def close(self) -> None:
        """Close every connection that is not in use; a file can still be read."""
        with self._lock:
            self.closed = True
            self._close_connections()


def _reading(place: Path) -> str:
    """How to open to read: SQLite needs files beside it, but for one that cannot change."""
    wal = place.with_name(f"{place.name}-wal")
    merged = not wal.exists() or wal.stat().st_size == 0
    no_room = shutil.disk_usage(place.parent).free < FILES_BESIDE
    alone = merged and (no_room or not os.access(place.parent, os.W_OK))
    return "?mode=ro&immutable=1" if alone else "?mode=ro"


# -- fork ---------------------------------------------------------------------------------


def _leave_alone() -> None:
    """In a forked child: keep what was inherited from ever being closed."""
    for inherited in list(_connections):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_alone)
