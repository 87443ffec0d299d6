"""How many rows were ever written, kept by the database itself, so that a missing one is missed.

A row's hash says that it is as it was written, and a root hash that a run has its steps.
Neither says that a row which nothing refers to is there at all: the last artifact of a
step, a call of one that failed, an answer that other runs could play back. Rows are never
deleted, so each table has as many as were inserted. A trigger counts them, in the
transaction that inserts; a row that ends an open one takes its place and counts once.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import sqlalchemy as sa

from rewind_nb._store._schema import metadata, restored, storable

ledger = sa.Table(
    "ledger",
    metadata,
    sa.Column("run_id", sa.Text, primary_key=True, nullable=False),  # "" where rows are shared
    sa.Column("name", sa.Text, primary_key=True, nullable=False),  # of the table
    sa.Column("written", sa.Integer, nullable=False),
    sqlite_with_rowid=False,
)
_BY_RUN = ("steps", "calls", "artifacts", "responses", "tool_results")
_COUNTED = [table.name for table in metadata.sorted_tables if table is not ledger]


def triggers() -> Iterator[str]:
    """The statements that make the database count."""
    for name in _COUNTED:
        run_id = "NEW.run_id" if name in _BY_RUN else "''"
        yield (
            f"CREATE TRIGGER {name}_written AFTER INSERT ON {name} BEGIN"  # noqa: S608
            f" INSERT INTO ledger (run_id, name, written) VALUES ({run_id}, '{name}', 1)"
            " ON CONFLICT (run_id, name) DO UPDATE SET written = written + 1;"
            " END"
        )


def missing_rows(opened: sqlite3.Connection) -> Iterator[str | None]:
    """For each count, what is wrong with it."""
    stored = opened.execute("SELECT run_id, name, written FROM ledger")
    written = {(run_id, name): count for run_id, name, count in stored}
    there: dict[tuple[str, str], int] = {}
    for name in _COUNTED:
        run_id = "run_id" if name in _BY_RUN else "''"
        counts = opened.execute(
            f"SELECT {run_id}, count(*) FROM {name} GROUP BY 1"  # noqa: S608
        )
        there |= {(found, name): count for found, count in counts}
    for key in sorted(written.keys() | there.keys(), key=repr):
        run_id, name = key
        yield _difference(run_id, name, written.get(key, 0), there.get(key, 0))


def is_short(opened: sqlite3.Connection, name: str, run_id: str) -> bool:
    """Whether a run lacks a row of the table *name* that it wrote."""
    key = storable(run_id)
    written, there = opened.execute(
        "SELECT (SELECT written FROM ledger WHERE run_id = ? AND name = ?),"  # noqa: S608
        f" (SELECT count(*) FROM {name} WHERE run_id = ?)",
        (key, name, key),
    ).fetchone()
    return bool((written or 0) > there)


def _difference(run_id: str, name: str, written: int, there: int) -> str | None:
    if written == there:
        return None
    where = f" of run {restored(run_id)}" if run_id else ""
    return f"Table {name} holds {there} row(s){where}, and {written} were written."
