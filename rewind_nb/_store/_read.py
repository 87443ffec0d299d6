"""Queries: every function takes a connection and returns records, each row checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from rewind_nb._model import ArtifactRow, CallRow, RunRow, StepRow
from rewind_nb._store import _schema as schema
from rewind_nb._store._schema import artifacts, blobs, calls, read_row, runs, steps

StepKey = tuple[str, str, int, int]  # run_id, path, seq, attempt


def run_row(connection: sa.Connection, run_id: str) -> RunRow | None:
    """The run with exactly this id."""
    found = connection.execute(sa.select(runs).where(runs.c.id == run_id)).mappings().first()
    return None if found is None else read_row(RunRow, found)


def run_ids(connection: sa.Connection, prefix: str = "") -> list[str]:
    """Ids that start with *prefix*, oldest first."""
    query = sa.select(runs.c.id).where(runs.c.id.startswith(prefix, autoescape=True))
    return list(connection.execute(query.order_by(runs.c.created_at, runs.c.id)).scalars())


def run_rows(connection: sa.Connection, *, experiments: bool = False) -> list[RunRow]:
    """Every run, oldest first; the probes of experiments only when asked for."""
    query = sa.select(runs).order_by(runs.c.created_at, runs.c.id)
    if not experiments:
        query = query.where(runs.c.experiment.is_(None))
    return [read_row(RunRow, found) for found in connection.execute(query).mappings()]


def step_count(connection: sa.Connection, run_id: str) -> int:
    """One more than the highest seq of the run's own top-level steps, 0 without any."""
    query = sa.select(sa.func.max(steps.c.seq)).where(steps.c.run_id == run_id, steps.c.path == "")
    highest = connection.execute(query).scalar()
    return 0 if highest is None else int(highest) + 1


def step_rows(
    connection: sa.Connection,
    run_id: str,
    lo: int,
    hi: int,
    *,
    path: str = "",
    every_attempt: bool = False,
) -> list[StepRow]:
    """The run's own steps with lo <= seq < hi, the last attempt of each."""
    query = (
        sa.select(steps)
        .where(steps.c.run_id == run_id, steps.c.path == path)
        .where(steps.c.seq >= lo, steps.c.seq < hi)
        .order_by(steps.c.seq, steps.c.attempt)
    )
    rows = [read_row(StepRow, found) for found in connection.execute(query).mappings()]
    if every_attempt:
        return rows
    return list({row.seq: row for row in rows}.values())


def visit_row(
    connection: sa.Connection, run_id: str, path: str, action: str, visit: int, lo: int, hi: int
) -> StepRow | None:
    """The run's own step at (path, action, visit) with lo <= seq < hi."""
    query = (
        sa.select(steps)
        .where(steps.c.run_id == run_id, steps.c.path == path)
        .where(steps.c.action == action, steps.c.visit == visit)
        .where(steps.c.seq >= lo, steps.c.seq < hi)
        .order_by(steps.c.attempt.desc())
        .limit(1)
    )
    found = connection.execute(query).mappings().first()
    return None if found is None else read_row(StepRow, found)


def visit_counts(connection: sa.Connection, run_id: str, lo: int, hi: int) -> dict[str, int]:
    """How often each action was visited up to the run's own steps lo <= seq < hi."""
    query = (
        sa.select(steps.c.action, sa.func.max(steps.c.visit))
        .where(steps.c.run_id == run_id, steps.c.path == "")
        .where(steps.c.seq >= lo, steps.c.seq < hi)
        .group_by(steps.c.action)
    )
    return {action: visit for action, visit in connection.execute(query)}


def checkpoint_seq(connection: sa.Connection, run_id: str, path: str, seq: int) -> int | None:
    """The highest seq <= *seq* whose row holds the state entering it."""
    query = (
        sa.select(sa.func.max(steps.c.seq))
        .where(steps.c.run_id == run_id, steps.c.path == path)
        .where(steps.c.seq <= seq, steps.c.state.is_not(None))
    )
    return connection.execute(query).scalar()


def call_rows(connection: sa.Connection, key: StepKey) -> list[CallRow]:
    """The calls of one attempt at a step, in branch order."""
    query = sa.select(calls).where(*_at(calls, key)).order_by(calls.c.idx)
    rows = [read_row(CallRow, found) for found in connection.execute(query).mappings()]
    return sorted(rows, key=lambda row: (row.branch, row.idx))


def artifact_rows(connection: sa.Connection, key: StepKey) -> list[ArtifactRow]:
    """The files one attempt at a step made, by name."""
    query = sa.select(artifacts).where(*_at(artifacts, key)).order_by(artifacts.c.name)
    return [read_row(ArtifactRow, found) for found in connection.execute(query).mappings()]


def _at(table: sa.Table, key: StepKey) -> Iterator[Any]:
    return (table.c[name] == part for name, part in zip(schema.STEP_KEY, key, strict=True))


def playable_call(
    connection: sa.Connection,
    kind: str,
    identity: tuple[str, str, int, int],
    *,
    not_of: str,
) -> CallRow | None:
    """The newest answer at (place, fingerprint, n, epoch) that any other run may play back."""
    table = schema.PLAYABLE[kind]
    place, fingerprint, n, epoch = identity
    query = (
        sa.select(calls)
        .join(
            table,
            sa.and_(*(calls.c[k] == table.c[k] for k in (*schema.STEP_KEY, "idx"))),
        )
        .where(table.c.place == place, table.c.fingerprint == fingerprint)
        .where(table.c.n == n, table.c.epoch == epoch, table.c.run_id != not_of)
        .order_by(table.c.id.desc())
        .limit(1)
    )
    found = connection.execute(query).mappings().first()
    return None if found is None else read_row(CallRow, found)


def blob(connection: sa.Connection, sha256: str) -> bytes | None:
    """The bytes of an artifact."""
    return connection.execute(sa.select(blobs.c.body).where(blobs.c.sha256 == sha256)).scalar()
