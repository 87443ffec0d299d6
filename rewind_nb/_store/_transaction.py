"""A write transaction: all of it, or nothing."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator


@contextlib.contextmanager
def transaction(raw: sqlite3.Connection) -> Iterator[None]:
    """Commit what is executed within, or roll it back if anything raises.

    It is begun as a writer at once. One that first reads and then writes is refused where
    another wrote in between, however long it would have waited.
    """
    raw.execute("BEGIN IMMEDIATE")
    try:
        yield
        raw.execute("COMMIT")
    except BaseException:
        if raw.in_transaction:
            with contextlib.suppress(sqlite3.Error):
                raw.execute("ROLLBACK")
        raise
