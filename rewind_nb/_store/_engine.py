"""Connections to the store's SQLite file, and the one thread that writes to it.

Readers never wait. All writes of a process go through one `Writer`: it takes what is
waiting, commits it in one transaction, and answers each waiting future. Two strengths:

- ``durable=True`` (what was paid for, a run's end): fsynced before the future is done.
- otherwise: safe once the future is done against the death of the process (the pages are
  the operating system's), made durable by the next fsync.

Several processes may write to one file. SQLite before 3.51.3 can lose a committed
transaction when a checkpoint and a commit of two connections meet (sqlite.org/wal.html,
"the WAL-reset bug"; fixed in 3.44.6, 3.50.7, 3.51.3 too). With such a SQLite every write
transaction and every close is taken under one lock file beside the store; checkpoints
happen nowhere else, for nothing here runs one by hand.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from rewind_nb._store._schema import APPLICATION_ID, SCHEMA_VERSION, metadata
from rewind_nb.errors import (
    StoreCorruptError,
    StoreError,
    StoreFormatError,
    StoreFullError,
    StoreReadOnlyError,
    StoreVersionError,
)

try:
    import fcntl
except ImportError:  # Windows: see `journal_mode`
    fcntl = None  # type: ignore[assignment]

Statement = tuple[str, Sequence[tuple[Any, ...]]]
BUSY_TIMEOUT_S = 30.0
LAZY_COMMIT_S = 0.05  # how long a row that nobody waits for may stay in memory


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


def open_engine(path: Path | None, *, read_only: bool) -> sa.Engine:
    """An engine on *path* (None: in memory), its header checked or written."""
    if path is None:
        engine = sa.create_engine(
            "sqlite://",
            poolclass=sa.StaticPool,
            pool_reset_on_return=None,  # it would roll back the writer's transaction
            connect_args={"check_same_thread": False},
        )
    else:
        mode = "ro" if read_only else "rwc"
        uri = f"{path.absolute().as_uri()}?mode={mode}"
        engine = sa.create_engine(
            "sqlite://",
            creator=lambda: sqlite3.connect(
                uri, uri=True, timeout=BUSY_TIMEOUT_S, check_same_thread=False
            ),
            poolclass=sa.QueuePool,
            pool_size=4,
            max_overflow=64,
        )
    wal = path is not None and (fcntl is not None or wal_reset_fixed())
    sa.event.listen(engine, "connect", lambda raw, _: _set_up(raw, wal=wal, read_only=read_only))
    _check_header(engine, path, read_only=read_only)
    return engine


def _set_up(raw: sqlite3.Connection, *, wal: bool, read_only: bool) -> None:
    raw.isolation_level = None  # we say BEGIN IMMEDIATE ourselves
    with _named_errors():
        raw.execute("PRAGMA trusted_schema=OFF")
        raw.execute("PRAGMA cell_size_check=ON")
        if not read_only:
            raw.execute(f"PRAGMA journal_mode={'WAL' if wal else 'TRUNCATE'}")
            raw.execute("PRAGMA synchronous=FULL")


def _check_header(engine: sa.Engine, path: Path | None, *, read_only: bool) -> None:
    if path is not None and path.exists():
        if not path.is_file():
            raise StoreFormatError(
                f"{path} is not a file, so it cannot be a store. Name a file.", path=str(path)
            )
        if path.stat().st_size == 0:
            raise StoreFormatError(
                f"{path} is empty: not a rewind_nb store. Delete it, or choose another path.",
                path=str(path),
            )
    with _named_errors(path), engine.connect() as connection:
        found = connection.exec_driver_sql("PRAGMA application_id").scalar()
        version = int(connection.exec_driver_sql("PRAGMA user_version").scalar() or 0)
        tables = connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar()
        if not found and not tables:
            if read_only:
                raise StoreFormatError(f"{path} holds no store yet.", path=str(path))
            _create(connection)
        elif found != APPLICATION_ID:
            raise StoreFormatError(
                f"{path} is an SQLite file of another program, not a rewind_nb store. "
                "Choose another path.",
                path=str(path),
            )
        elif version > SCHEMA_VERSION:
            raise StoreVersionError(
                f"{path} was written by a newer rewind_nb (schema {version}, this one reads up "
                f"to {SCHEMA_VERSION}). Upgrade with: pip install -U rewind-nb",
                found=version,
                supported=SCHEMA_VERSION,
            )


def _create(connection: sa.Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")  # two processes may create it at once
    if connection.exec_driver_sql("PRAGMA application_id").scalar() != APPLICATION_ID:
        for table in metadata.sorted_tables:
            connection.execute(sa.schema.CreateTable(table))
            for index in table.indexes:
                connection.execute(sa.schema.CreateIndex(index))
        connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
        connection.exec_driver_sql(f"PRAGMA user_version={SCHEMA_VERSION}")
    connection.exec_driver_sql("COMMIT")


@contextlib.contextmanager
def _named_errors(path: Path | None = None) -> Iterator[None]:
    """SQLite's errors as ours, with the next action."""
    try:
        yield
    except (sqlite3.Error, sa.exc.DBAPIError) as error:
        raise name_error(error, path) from error


def name_error(error: BaseException, path: Path | None = None) -> StoreError:
    """The StoreError that says what an SQLite error means for the user."""
    text = str(error.orig if isinstance(error, sa.exc.DBAPIError) else error)
    where = f"The store {path}" if path else "The store"
    if "not a database" in text:
        return StoreFormatError(f"{where} is not an SQLite file. Choose another path.")
    if "readonly" in text or "unable to open" in text:
        return StoreReadOnlyError(
            f"{where} cannot be written ({text}). Check the folder's and the file's permissions, "
            "or open it to read with Store(path, read_only=True)."
        )
    if "full" in text or "disk I/O" in text:
        return StoreFullError(
            f"{where} could not be written: {text}. Steps committed before are kept. "
            "Free some space and resume the run."
        )
    if "malformed" in text or "corrupt" in text:
        return StoreCorruptError(f"{where} is damaged: {text}. Restore it from a copy.")
    return StoreError(f"{where} could not be used: {text}.")


class Writer:
    """Gathers waiting batches and commits them in groups, in the order they came."""

    def __init__(self, engine: sa.Engine, path: Path | None) -> None:
        self._engine = engine
        self._path = path
        self._pid = os.getpid()
        self._wake = threading.Condition()
        self._waiting: list[tuple[list[Statement], bool, Future[None]]] = []
        self._urgent = False
        self._closed = False
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None
        self._raw: Any = None

    def submit(self, batch: list[Statement], *, durable: bool, wake: bool = True) -> Future[None]:
        """Queue one batch; its future is done when it is committed.

        With ``wake=False`` nobody waits: it is committed with the next batch, or within
        `LAZY_COMMIT_S`. Its failure is raised by the next call.
        """
        if os.getpid() != self._pid:
            raise StoreError(
                "This Store was opened before the process was forked. Open a new Store(path) "
                "in the child process, or start it with the 'spawn' method."
            )
        future: Future[None] = Future()
        with self._wake:
            if self._failure is not None:
                failure, self._failure = self._failure, None
                raise failure
            if self._closed:
                raise StoreError("The store is closed. Open it again with Store(path).")
            if self._path is None:  # in memory: nothing to gather for
                self._waiting.append((batch, durable, future))
                self._commit(self._take())
                return future
            self._waiting.append((batch, durable, future))
            self._urgent = self._urgent or wake
            if self._thread is None:
                self._start()
            if wake:
                self._wake.notify()
        return future

    def _start(self) -> None:
        self._thread = threading.Thread(
            target=_write_loop, args=(weakref.ref(self),), name="rewind-writer", daemon=True
        )
        self._thread.start()
        _open_writers.add(self)

    def flush(self) -> None:
        """Wait until everything submitted is committed."""
        self.submit([], durable=False).result()

    def close(self) -> None:
        """Commit what waits and stop."""
        with self._wake:
            if self._closed:
                return
            self._closed = True
            self._wake.notify()
            thread = self._thread
        if thread is not None:
            thread.join()
        self._commit(self._take())
        with _locked(self._path):  # the last close of a file may checkpoint
            if self._raw is not None:
                self._raw.close()
                self._raw = None
            self._engine.dispose()

    def _take(self) -> list[tuple[list[Statement], bool, Future[None]]]:
        taken, self._waiting = self._waiting, []
        self._urgent = False
        return taken

    def _next_group(self, timeout: float | None) -> bool:
        """Wait for work and commit it; False when closed."""
        with self._wake:
            if not self._urgent and not self._closed:
                self._wake.wait(LAZY_COMMIT_S if self._waiting else timeout)
            group = self._take()
            closed = self._closed
        if group:
            self._commit(group)
        return not closed

    def _commit(self, group: list[tuple[list[Statement], bool, Future[None]]]) -> None:
        if not group:
            return
        try:
            self._transaction(
                [s for batch, _, _ in group for s in batch], any(d for _, d, _ in group)
            )
        except (sqlite3.Error, sa.exc.DBAPIError, OSError) as error:
            if len(group) > 1:  # one bad batch must not take the others with it
                for item in group:
                    self._commit([item])
                return
            named = name_error(error, self._path)
            named.__cause__ = error
            self._failure = named
            group[0][2].set_exception(named)
            return
        for _, _, future in group:
            future.set_result(None)

    def _transaction(self, statements: list[Statement], durable: bool) -> None:
        if self._raw is None:
            self._raw = self._engine.raw_connection()
        cursor = self._raw.cursor()
        with _locked(self._path):
            cursor.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            cursor.execute("BEGIN IMMEDIATE")
            try:
                for sql, rows in statements:
                    cursor.executemany(sql, rows)
                cursor.execute("COMMIT")
            except BaseException:
                if self._raw.in_transaction:
                    cursor.execute("ROLLBACK")
                raise


_open_writers: weakref.WeakSet[Writer] = weakref.WeakSet()


@atexit.register
def _close_writers() -> None:
    """Commit the rows that nobody waited for before the interpreter ends."""
    for writer in list(_open_writers):
        writer.close()


def _write_loop(reference: weakref.ref[Writer]) -> None:
    """The writer thread: ends when its Writer is closed or forgotten."""
    while (writer := reference()) is not None:
        if not writer._next_group(timeout=1.0):  # noqa: SLF001
            return
        del writer


@contextlib.contextmanager
def _locked(path: Path | None) -> Iterator[None]:
    """The inter-process lock that a SQLite with the WAL-reset bug needs."""
    if path is None or fcntl is None or wal_reset_fixed():
        yield
        return
    handle = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # closing releases the lock
