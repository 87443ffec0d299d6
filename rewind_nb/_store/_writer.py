"""The one thread of a process that writes to the store.

It takes the batches that wait, commits them in one transaction, in the order they came,
and answers each one's future. Two strengths:

- ``durable=True`` (what was paid for, a run's end): fsynced before the future is done.
- otherwise: safe once the future is done against the death of the process (the pages are
  the operating system's), made durable by the next fsync.

What is committed is always all that was submitted up to some moment. Where the disk is
full or the file is held, the batches that somebody waits for fail; those that nobody waits
for stay, and go ahead of the next. A batch that is wrong in itself fails alone. A failure
that nobody looked at is raised by the next call.
"""

from __future__ import annotations

import contextlib
import sqlite3
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace

from rewind_nb._store._engine import Database
from rewind_nb._store._errors import closed, name_error
from rewind_nb._store._statements import Statement, execute, gathered
from rewind_nb._store._transaction import transaction
from rewind_nb.errors import RewindError, RunBusyError, StoreMovedError

WRITER = "rewind-writer"  # what the threads that commit are called
LAZY_COMMIT_S = 0.05  # how long a batch that nobody waits for may stay in memory
RETRY_S = 1.0  # how long after it could not be committed
NEVER_RIGHT = (  # a batch with one of these will not be better later
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
    RunBusyError,
    ValueError,
    TypeError,
    OverflowError,
)


class Commit(Future[None]):
    """Done when the batch is committed; it remembers whether anybody looked."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at = False
        self.set_running_or_notify_cancel()  # a caller that is cancelled cannot take it back

    def result(self, timeout: float | None = None) -> None:
        """Wait until it is committed, and raise what kept it from that.

        The thread that commits does not wait: it may come here when it collects garbage,
        such as a stream that nobody closed, and would wait for itself.
        """
        self.looked_at = True
        if self.done() or threading.current_thread().name != WRITER:
            super().result(timeout)

    @property
    def failure(self) -> BaseException | None:
        """What kept it from being committed, as far as that is known; this is no look at it."""
        return super().exception() if self.done() else None

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait until it is committed, and return what kept it from that."""
        self.looked_at = True
        return super().exception(timeout)

    def add_done_callback(self, fn: Callable[[Future[None]], object]) -> None:
        """Have *fn* called when it is committed or failed."""
        self.looked_at = True
        super().add_done_callback(fn)


@dataclass(frozen=True, eq=False, slots=True)
class Waiting:
    """A batch in the queue."""

    statements: list[Statement]
    durable: bool
    lazy: bool
    commit: Commit


class Writer:
    """Gathers waiting batches and commits them in groups, in the order they came."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._wake = threading.Condition()
        self._waiting: list[Waiting] = []
        self._urgent = False
        self._busy = False
        self._stuck = False
        self._closed = False
        self._failed: list[Commit] = []  # and nobody may have looked
        self._told_moved = False  # that the file is gone; then all else is, and goes without saying
        self._thread: threading.Thread | None = None
        self._raw: sqlite3.Connection | None = None

    def submit(
        self, statements: list[Statement], *, durable: bool = False, wake: bool = True
    ) -> Future[None]:
        """Queue one batch; its future is done when it is committed.

        With ``wake=False`` nobody waits: it is committed with the next batch, or after
        `LAZY_COMMIT_S`.

        Raises:
            StoreClosedError: the store was closed.
            StoreMovedError: its file is gone.
            StoreError: a batch that nobody looked after could not be committed.
        """
        self._check()
        item = Waiting(statements, durable, not wake, Commit())
        with self._wake:
            self._raise_unseen()
            if self._closed:
                raise closed(self._database.path)
            self._waiting.append(item)
            self._urgent = self._urgent or wake
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name=WRITER, daemon=True)
                self._thread.start()
            elif wake or len(self._waiting) == 1:
                self._wake.notify()
        return item.commit

    def flush(self) -> None:
        """Wait until everything submitted is committed.

        Raises:
            StoreError: it could not be, or the store cannot be used any more.
        """
        with self._wake:
            waits = bool(self._waiting) or self._busy
        if waits:
            self.submit([]).result()
        self._check(to_read=True)
        with self._wake:
            self._raise_unseen()

    def settle(self) -> None:
        """Wait until what was submitted can be read, as far as it can be committed."""
        if self._waiting or self._busy:
            self.submit([]).exception()

    def close(self) -> None:
        """Commit what waits and stop.

        Raises:
            StoreError: something could not be committed, and nobody was told.
        """
        if self._database.inherited:  # by a forked child: all of it is the parent's
            return
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is None:
            self._database.close()
        elif self._thread is not threading.current_thread():  # which may collect garbage
            self._thread.join()
        self._raise_unseen()

    def abandon(self) -> None:
        """`close` for a store that was forgotten, or for the end of the process.

        Nobody is there to catch what nobody was told: it is one line on stderr.
        """
        try:
            self.close()
        except RewindError as error:
            print(f"rewind_nb: {error}", file=sys.stderr)  # noqa: T201

    # -- the thread -------------------------------------------------------------------------

    def _loop(self) -> None:
        while not self._closed:
            self._commit(self._next_group())
        self._commit([replace(item, lazy=False) for item in self._take()])
        if self._raw is not None and self._database.path is not None:
            with contextlib.suppress(sqlite3.Error):
                self._raw.close()
        self._database.close()

    def _next_group(self) -> list[Waiting]:
        with self._wake:
            self._wake.wait_for(lambda: self._waiting or self._closed)
            pause = RETRY_S if self._stuck else LAZY_COMMIT_S
            self._wake.wait_for(lambda: self._urgent or self._closed, pause)
            return [] if self._closed else self._take()

    def _take(self) -> list[Waiting]:
        taken, self._waiting = self._waiting, []
        self._urgent, self._busy = False, bool(taken)
        return taken

    def _commit(self, group: list[Waiting]) -> None:
        if not group:
            return
        kept: list[Waiting] = []
        try:
            wrong = self._transaction(group)
        except Exception as error:  # noqa: BLE001  (whoever waits is told)
            kept = [item for item in group if item.lazy and not item.commit.looked_at]
            wrong = {item.commit: error for item in group}
        with self._wake:
            self._waiting = kept + self._waiting
            self._stuck = bool(kept)
            self._busy = False
        for commit in (item.commit for item in group if item not in kept):
            if commit in wrong:
                self._fail(commit, wrong[commit])
            else:
                commit.set_result(None)

    def _fail(self, commit: Commit, error: Exception) -> None:
        known = isinstance(error, RewindError)
        with self._wake:
            self._failed.append(commit)
        commit.set_exception(error if known else name_error(error, self._database.path))

    def _check(self, *, to_read: bool = False) -> None:
        try:
            self._database.check(to_read=to_read)
        except StoreMovedError:
            self._told_moved = True
            raise

    def _raise_unseen(self) -> None:
        failed, self._failed = self._failed, []
        for commit in failed:
            moved = isinstance(commit.failure, StoreMovedError)
            if not commit.looked_at and not (moved and self._told_moved):
                commit.result()
            self._told_moved = self._told_moved or moved

    def _transaction(self, group: list[Waiting]) -> dict[Commit, Exception]:
        """Commit a group; the batches that had to be left out, with what is wrong with each."""
        with self._database.turn():
            if self._raw is None:
                self._raw = self._database.writing()
            if self._raw.in_transaction:  # in memory: that of a reader, which was interrupted
                self._raw.execute("ROLLBACK")
            durable = any(item.durable for item in group)
            self._raw.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
            with contextlib.suppress(*NEVER_RIGHT), transaction(self._raw):
                execute(self._raw, gathered(item.statements for item in group))
                return {}
            wrong: dict[Commit, Exception] = {}
            while True:
                item = None
                try:
                    with transaction(self._raw):
                        for item in group:
                            if item.commit not in wrong:
                                execute(self._raw, item.statements)
                except NEVER_RIGHT as error:  # that one must not take the others with it
                    if item is None:
                        raise
                    wrong[item.commit] = error
                else:
                    return wrong
