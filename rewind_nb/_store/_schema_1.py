"""Schema 1, and how it becomes schema 2.

Schema 2 counts every row that is written (`_ledger`), and its steps know how many calls they
made, their tasks and what they streamed. Stores with and without either of these say that
they are of schema 1, so what is there is looked at.

A hash over a row covers its columns, so a row that gets more of them gets another hash, and
with it every hash that stands on it. A new hash is given only where the old one matched:
what was damaged before is damaged after. The tables are spelled out as they were, for what
the other modules say of them goes on changing.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from rewind_nb._store._schema import restored
from rewind_nb.errors import StoreFormatError

# In the order in which they are hashed. A column that was added has what it is in older rows.
STEPS = (
    "run_id", "path", "seq", "attempt", "action", "visit", "status", "source", "started_at",
    "reason", "inputs", "reads", "reads_all", "writes", "deleted", "result", "error", "hash",
    "code", "hidden_state", "transition", "state", "duration_s", "usage", "calls", "live_calls",
    "played_calls", "tasks", "graph", "origin", "stream", "uncaptured", "override", "chain",
    "row_hash",
)  # fmt: skip
ADDED = {
    "calls": "INTEGER NOT NULL DEFAULT 0",
    "tasks": "TEXT NOT NULL DEFAULT '[]'",
    "graph": "TEXT",
    "origin": "TEXT",
    "stream": "TEXT",
    "uncaptured": "TEXT NOT NULL DEFAULT '[]'",
}
TIP = (
    "owner", "status", "tail", "halts", "next_action", "note", "ended_at", "root", "containers",
)  # fmt: skip
LEDGER = (
    "CREATE TABLE ledger (run_id TEXT NOT NULL, name TEXT NOT NULL, written INTEGER NOT NULL,"
    " PRIMARY KEY (run_id, name)) WITHOUT ROWID"
)
COUNTED = {  # table -> whose its rows are
    "artifacts": "run_id",
    "blobs": "''",
    "calls": "run_id",
    "contents": "''",
    "experiments": "''",
    "responses": "run_id",
    "runs": "''",
    "steps": "run_id",
    "tool_results": "run_id",
}
KEY = "run_id = ? AND path = ? AND seq = ? AND attempt = ?"


def to_schema_2(raw: sqlite3.Connection) -> None:
    """Bring a store of schema 1 to schema 2; the caller has begun the transaction.

    Raises:
        StoreFormatError: it has none of the layouts that schema 1 had.
    """
    there = _columns(raw, "steps")
    missing = [name for name in ADDED if name not in there]
    if "tip_hash" not in _columns(raw, "runs") or {*there, *missing} != {*STEPS}:
        path = raw.execute("PRAGMA database_list").fetchone()[2]
        raise StoreFormatError(
            f"The tables of {path} are none that any version of rewind_nb can bring up to date: it "
            "is older than that, or another program changed it. Restore it from a copy, or record "
            "into a new store.",
            path=path,
        )
    if missing:
        for name in missing:
            raw.execute(f"ALTER TABLE steps ADD COLUMN {name} {ADDED[name]}")
        _Steps(raw, missing).hash_again()
    if not _columns(raw, "ledger"):
        raw.execute(LEDGER)
        for name, run_id in COUNTED.items():
            raw.execute(
                f"INSERT INTO ledger SELECT {run_id}, '{name}', count(*) FROM {name} GROUP BY 1"  # noqa: S608
            )
            raw.execute(_trigger(name, run_id))


def _columns(raw: sqlite3.Connection, table: str) -> list[str]:
    return [name for _, name, *_ in raw.execute(f"PRAGMA table_info({table})")]


def _trigger(name: str, run_id: str) -> str:
    whose = "NEW.run_id" if run_id == "run_id" else run_id
    return (
        f"CREATE TRIGGER {name}_written AFTER INSERT ON {name} BEGIN"  # noqa: S608
        f" INSERT INTO ledger (run_id, name, written) VALUES ({whose}, '{name}', 1)"
        " ON CONFLICT (run_id, name) DO UPDATE SET written = written + 1;"
        " END"
    )


class _Chain(NamedTuple):
    """The hash over a trajectory up to some step, as it was and as it becomes."""

    old: str
    new: str


START = _Chain("", "")


class _Steps:
    """The steps of a store and the runs they are of, while their hashes are made anew."""

    def __init__(self, raw: sqlite3.Connection, missing: Sequence[str]) -> None:
        self.raw = raw
        self.missing = missing
        self.forked: dict[str, tuple[str | None, int]] = {}  # run -> parent, at
        self.ends: dict[tuple[str, int], _Chain] = {}  # run, seq -> after its finished step

    def hash_again(self) -> None:
        """Every step, and the root hash of every run; a parent comes before its forks."""
        runs = "SELECT id, parent, at FROM runs ORDER BY rowid"
        for run_id, parent, at in self.raw.execute(runs).fetchall():
            self.forked[run_id] = (parent, at if type(at) is int else 0)
            self._end(run_id, self._steps(run_id, self._before(*self.forked[run_id])))

    def _before(self, parent: str | None, length: int) -> _Chain:
        while parent is not None and length > 0:
            grandparent, at = self.forked.get(parent, (None, 0))
            if length > at or grandparent is None:
                return self.ends.get((parent, length - 1), START)
            parent = grandparent
        return START

    def _steps(self, run_id: str, chain: _Chain) -> _Chain:
        """Hash the steps of a run, which begin after *chain*; what is after the last of them."""
        for key, row in self._rows(run_id):
            was = _hash("StepRow", row, without=self.missing)
            if row["row_hash"] != was:
                continue
            row["calls"] = max(self._calls(key), row["live_calls"] + row["played_calls"])
            now = _hash("StepRow", row)
            link = _Chain(_sha256(f"{chain.old}:{was}"), _sha256(f"{chain.new}:{now}"))
            if row["chain"] != link.old:
                link = _Chain(row["chain"], row["chain"])
            self.raw.execute(
                f"UPDATE steps SET calls = ?, row_hash = ?, chain = ? WHERE {KEY}",  # noqa: S608
                (row["calls"], now, link.new, *key),
            )
            if row["status"] == "complete":
                chain = self.ends[run_id, row["seq"]] = link
        return chain

    def _rows(self, run_id: str) -> Iterator[tuple[list[Any], dict[str, Any]]]:
        names = ", ".join(STEPS)
        query = f"SELECT {names} FROM steps WHERE run_id = ? ORDER BY path, seq, attempt"  # noqa: S608
        for stored in self.raw.execute(query, (run_id,)).fetchall():
            row = dict(zip(STEPS, map(_plain, stored), strict=True))
            row["reads_all"] = {0: False, 1: True}.get(row["reads_all"], row["reads_all"])
            yield stored[:4], row

    def _calls(self, key: Sequence[Any]) -> int:
        found = self.raw.execute(f"SELECT count(*) FROM calls WHERE {KEY}", key)  # noqa: S608
        count: int = found.fetchone()[0]
        return count

    def _end(self, run_id: str, last: _Chain) -> None:
        names = ", ".join((*TIP, "row_hash", "tip_hash"))
        query = f"SELECT {names} FROM runs WHERE id = ?"  # noqa: S608
        *tip, row_hash, tip_hash = map(_plain, self.raw.execute(query, (run_id,)).fetchone())
        row = dict(zip(TIP, tip, strict=True))
        if tip_hash != _digest(["tip", _plain(run_id), tip]) or row["root"] is None:
            return
        ended = [row_hash, row["status"], row["tail"], json.loads(row["halts"])]
        if row["root"] != _digest([*ended, last.old, None]):
            return
        row["root"] = _digest([*ended, last.new, None])
        self.raw.execute(
            "UPDATE runs SET root = ?, tip_hash = ? WHERE id = ?",
            (row["root"], _digest(["tip", _plain(run_id), list(row.values())]), run_id),
        )


def _plain(value: Any) -> Any:
    """A column as it is hashed; what is no such value hashes to what no row has."""
    try:
        return restored(value)
    except UnicodeDecodeError:
        return [repr(value)]


def _hash(kind: str, row: dict[str, Any], without: Sequence[str] = ()) -> str:
    left_out = {"chain", "row_hash", *without}
    return _digest([kind, [value for name, value in row.items() if name not in left_out]])


def _digest(value: Any) -> str:
    return _sha256(json.dumps(value, separators=(",", ":")))


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
