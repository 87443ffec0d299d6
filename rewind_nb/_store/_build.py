"""A new store: its file with every table, or the tables in memory."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.dialects import sqlite as dialect

from rewind_nb._store._ledger import triggers
from rewind_nb._store._schema import APPLICATION_ID, SCHEMA_VERSION, metadata
from rewind_nb._store._transaction import transaction


def build(path: Path, journal_mode: str) -> None:
    """Make a whole store at *path*, where there is nothing."""
    made = sqlite3.connect(path, isolation_level=None)
    try:
        made.execute("PRAGMA synchronous=FULL")
        with transaction(made):  # into the file itself, for nobody is told if a WAL is not merged
            create_tables(made)
        made.execute(f"PRAGMA journal_mode={journal_mode}")
    finally:
        made.close()


def create_tables(into: sqlite3.Connection) -> None:
    """Every table, index and trigger, and the header that says whose they are."""
    sqlite = dialect.dialect()
    for table in metadata.sorted_tables:
        into.execute(str(sa.schema.CreateTable(table).compile(dialect=sqlite)))
        for index in table.indexes:
            into.execute(str(sa.schema.CreateIndex(index).compile(dialect=sqlite)))
    for trigger in triggers():
        into.execute(trigger)
    into.execute(f"PRAGMA application_id={APPLICATION_ID}")
    into.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
