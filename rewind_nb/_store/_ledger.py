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

from rewind_nb._label import shown
from rewind_nb._store._errors import corrupt
from rewind_nb._store._schema import metadata, restored, storable
from rewind_nb.errors import StoreCorruptError

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


def check_steps(opened: sqlite3.Connection, run_id: str) -> None:
    """Refuse a run that lacks a row of a step, or has one that no query for it would find.

    Raises:
        StoreCorruptError: it does.
    """
    found = opened.execute(
        "SELECT path, count(*) FROM steps WHERE run_id = ? GROUP BY path", (storable(run_id),)
    )
    there = sum(count for path, count in found if _is_stored(path))
    if there != (written := _written(opened, "steps", run_id)):
        raise _lacks("steps", there, written, run_id, _gap(opened, run_id))


def check_parts(opened: sqlite3.Connection, name: str, run_id: str) -> None:
    """Refuse a run that lacks a call or artifact, or has one that belongs to none of its steps.

    Raises:
        StoreCorruptError: it does.
    """
    ((there,),) = opened.execute(
        f"SELECT count(*) FROM {name} part JOIN steps step"  # noqa: S608
        " ON step.run_id = part.run_id AND step.path = part.path"
        " AND step.seq = part.seq AND step.attempt = part.attempt WHERE part.run_id = ?",
        (storable(run_id),),
    )
    if there != (written := _written(opened, name, run_id)):
        raise _lacks(name, there, written, run_id)


def check_runs(opened: sqlite3.Connection) -> None:
    """Refuse a store that lacks a run, or has one that is not found by its id.

    Raises:
        StoreCorruptError: it does.
    """
    found = opened.execute("SELECT id FROM runs")
    there = sum(_is_stored(run_id) for (run_id,) in found)
    if there != (written := _written(opened, "runs", "")):
        raise _lacks("runs", there, written)


def _written(opened: sqlite3.Connection, name: str, run_id: str) -> int:
    found = opened.execute(
        "SELECT written FROM ledger WHERE run_id = ? AND name = ?", (storable(run_id), name)
    ).fetchone()
    return found[0] if found else 0


def _is_stored(text: object) -> bool:
    try:
        return type(restored(text)) is str
    except UnicodeDecodeError:
        return False


def _gap(opened: sqlite3.Connection, run_id: str) -> str:
    """The first step that is missing between others, in words; "" where there is none."""
    query = (
        "SELECT path, seq FROM steps WHERE run_id = ? UNION"
        " SELECT '', at - 1 FROM runs WHERE id = ? ORDER BY path, seq"
    )
    before: tuple[object, object] = (None, None)
    for path, seq in opened.execute(query, (storable(run_id), storable(run_id))):
        expected = before[1] + 1 if path == before[0] and type(before[1]) is int else None
        expected = 0 if path and path != before[0] else expected
        if expected is not None and seq != expected:
            inside = f" of its task {shown(str(path))}" if path else ""
            return f": step {expected}{inside} is missing"
        before = (path, seq)
    return ""


def _lacks(
    name: str, there: int, written: int, run_id: str | None = None, more: str = ""
) -> StoreCorruptError:
    whose = "The store" if run_id is None else f"Run {run_id}"
    what = f"{whose} has {there} of the {written} {name} that were written{more}"
    return corrupt(what, run_id=run_id, table=name)


def _difference(run_id: object, name: str, written: int, there: int) -> str | None:
    if written == there:
        return None
    where = f" of run {run_id}" if run_id else ""
    return f"Table {name} holds {there} row(s){where}, and {written} were written."
