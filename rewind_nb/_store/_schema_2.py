"""Schema 2, and how it becomes schema 3: a table of experiments that can hold what came of them.

The table was there before and nothing wrote into it. It is spelled out as schema 3 has it,
for what the other modules say of it goes on changing.
"""

from __future__ import annotations

import sqlite3

EXPERIMENTS = (
    "CREATE TABLE experiments (id TEXT NOT NULL, kind TEXT NOT NULL, run_id TEXT, label TEXT,"
    " spec TEXT NOT NULL, created_at FLOAT NOT NULL, owner TEXT NOT NULL, status TEXT NOT NULL,"
    " note TEXT, ended_at FLOAT, result TEXT, row_hash TEXT NOT NULL, PRIMARY KEY (id))"
)
WRITTEN = (
    "CREATE TRIGGER experiments_written AFTER INSERT ON experiments BEGIN"
    " INSERT INTO ledger (run_id, name, written) VALUES ('', 'experiments', 1)"
    " ON CONFLICT (run_id, name) DO UPDATE SET written = written + 1;"
    " END"
)


def to_schema_3(raw: sqlite3.Connection) -> None:
    """Bring a store of schema 2 to schema 3; the caller has begun the transaction."""
    raw.execute("DROP TABLE experiments")  # its trigger goes with it
    raw.execute(EXPERIMENTS)
    raw.execute(WRITTEN)
    raw.execute(
        "CREATE INDEX IF NOT EXISTS runs_experiment ON runs (experiment) WHERE experiment IS NOT NULL"
    )
