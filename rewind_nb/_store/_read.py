"""Queries: every function takes a connection and returns records, each row checked."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import sqlalchemy as sa

from rewind_nb._model import ArtifactRow, CallRow, RunRow, StepRow
from rewind_nb._store import _schema as schema
from rewind_nb._store._contents import damaged_blob, is_blob
from rewind_nb._store._errors import corrupt
from rewind_nb._store._ledger import check_parts, check_runs
from rewind_nb._store._query import Query
from rewind_nb._store._schema import (
    artifacts,
    blobs,
    calls,
    read_row,
    restored,
    runs,
    steps,
)

StepKey = tuple[str, str, int, int]  # run_id, path, seq, attempt
LAST = "\U0010ffff"  # after every other character
p = sa.bindparam

# -- runs ---------------------------------------------------------------------------------

_WRITTEN: sa.ColumnElement[int] = sa.literal_column(
    "runs.rowid"
)  # the order of writing, whatever the clock did
_RUN = Query(sa.select(runs).where(runs.c.id == p("id")))
_RUN_IDS = Query(
    sa.select(runs.c.id).where(runs.c.id >= p("lo"), runs.c.id <= p("hi")).order_by(_WRITTEN)
)
_RUNS = Query(
    sa.select(runs)
    .where(runs.c.experiment.is_(None) | (p("experiments", type_=sa.Integer) == 1))
    .order_by(_WRITTEN)
)


def run_row(connection: sqlite3.Connection, run_id: str) -> RunRow | None:
    """The run with exactly this id."""
    found = _RUN(connection, id=run_id)
    return read_row(RunRow, found[0]) if found else None


def run_ids(connection: sqlite3.Connection, prefix: str = "") -> list[str]:
    """Ids that start with *prefix*, oldest first."""
    return [found for (found,) in _RUN_IDS(connection, lo=prefix, hi=prefix + LAST)]


def run_rows(connection: sqlite3.Connection, *, experiments: bool = False) -> list[RunRow]:
    """Every run, oldest first; the probes of experiments only when asked for.

    Raises:
        StoreCorruptError: one is missing.
    """
    check_runs(connection)
    return [read_row(RunRow, found) for found in _RUNS(connection, experiments=int(experiments))]


_up = sa.select(p("id", type_=sa.Text).label("id")).cte("up", recursive=True)
_up = _up.union(  # not UNION ALL: damage must not send it round in a circle
    sa.select(runs.c.parent)
    .join(_up, runs.c.id == _up.c.id)
    .where(runs.c.parent.is_not(None), (runs.c.at > 0) | runs.c.tail.is_not(None))
)
_own_end = (
    sa.select(sa.func.max(steps.c.seq) + 1)
    .where(steps.c.run_id == runs.c.id, steps.c.path == "")
    .scalar_subquery()
)
_LINEAGE = Query(sa.select(_own_end, runs).join(_up, runs.c.id == _up.c.id))


def lineage(connection: sqlite3.Connection, run_id: str) -> list[tuple[RunRow, int]]:
    """A run and the runs it shares steps with, up to the root; each with its `step_count`.

    Raises:
        StoreCorruptError: one of them is missing.
    """
    found = {}
    for own_end, *stored in _LINEAGE(connection, id=run_id):
        row = read_row(RunRow, stored)
        found[row.id] = (row, own_end or 0)
    line: list[tuple[RunRow, int]] = []
    wanted: str | None = run_id
    while wanted is not None:
        if wanted not in found:
            whose = (
                f"Run {line[-1][0].id} is a fork of {wanted}, which" if line else f"Run {wanted}"
            )
            raise corrupt(f"{whose} is missing", run_id=wanted)
        row, own_end = found.pop(wanted)
        line.append((row, own_end))
        wanted = row.parent if row.at > 0 or row.tail is not None else None
    return line


# -- steps --------------------------------------------------------------------------------

_later = steps.alias()
_LAST_ATTEMPT = ~sa.exists().where(
    *(_later.c[name] == steps.c[name] for name in ("run_id", "path", "seq")),
    _later.c.attempt > steps.c.attempt,
)
_OF_RUN = (steps.c.run_id == p("run_id"), steps.c.path == p("path"))
_RANGE = (*_OF_RUN, steps.c.seq >= p("lo"), steps.c.seq < p("hi"))
_COUNT = Query(sa.select(sa.func.max(steps.c.seq)).where(*_OF_RUN))
_STEPS = Query(sa.select(steps).where(*_RANGE).order_by(steps.c.seq, steps.c.attempt))
_VISIT = Query(
    sa.select(steps).where(
        *_RANGE, steps.c.action == p("action"), steps.c.visit == p("visit"), _LAST_ATTEMPT
    )
)
_VISITS = Query(
    sa.select(steps.c.action, steps.c.visit).where(*_RANGE, _LAST_ATTEMPT).order_by(steps.c.seq)
)
_LAST_VISIT = Query(
    sa.select(steps.c.visit)
    .where(*_RANGE, steps.c.action == p("action"))
    .order_by(steps.c.visit.desc())
    .limit(1)
)
_CHECKPOINT = Query(sa.select(sa.func.max(steps.c.seq)).where(*_RANGE, steps.c.state.is_not(None)))


def step_count(connection: sqlite3.Connection, run_id: str) -> int:
    """One more than the highest seq of the run's own top-level steps, 0 without any.

    Raises:
        StoreCorruptError: one of them has no number.
    """
    highest = _COUNT(connection, run_id=run_id, path="")[0][0]
    if not isinstance(highest, int | None):
        raise corrupt(f"A step of run {run_id} has no number", run_id=run_id)
    return 0 if highest is None else highest + 1


def step_rows(
    connection: sqlite3.Connection,
    run_id: str,
    lo: int,
    hi: int,
    *,
    path: str = "",
    every_attempt: bool = False,
) -> list[StepRow]:
    """The run's own steps with lo <= seq < hi, the last attempt of each."""
    found = _STEPS(connection, run_id=run_id, path=path, lo=lo, hi=hi)
    rows = [read_row(StepRow, stored) for stored in found]
    if every_attempt:
        return rows
    return list({row.seq: row for row in rows}.values())


def visit_row(
    connection: sqlite3.Connection,
    run_id: str,
    path: str,
    action: str,
    visit: int,
    lo: int,
    hi: int,
) -> StepRow | None:
    """The run's own step at (path, action, visit) with lo <= seq < hi."""
    found = _VISIT(connection, run_id=run_id, path=path, action=action, visit=visit, lo=lo, hi=hi)
    return read_row(StepRow, found[0]) if found else None


def last_visit(
    connection: sqlite3.Connection, run_id: str, action: str, lo: int, hi: int
) -> int | None:
    """The last visit of an action among the run's own steps lo <= seq < hi."""
    found = _LAST_VISIT(connection, run_id=run_id, path="", action=action, lo=lo, hi=hi)
    return found[0][0] if found else None


def visit_counts(connection: sqlite3.Connection, run_id: str, lo: int, hi: int) -> dict[str, int]:
    """How often each action was visited up to the run's own steps lo <= seq < hi.

    Raises:
        StoreCorruptError: the visits of an action do not follow each other.
    """
    counts: dict[str, int] = {}
    for stored, visit in _VISITS(connection, run_id=run_id, path="", lo=lo, hi=hi):
        action = restored(stored)
        if type(visit) is not int or visit != counts.get(action, visit - 1) + 1:
            raise corrupt(
                f"Run {run_id} has a visit {visit!r} of {action!r} out of its order", run_id=run_id
            )
        counts[action] = visit
    return counts


def checkpoint_seq(connection: sqlite3.Connection, run_id: str, path: str, seq: int) -> int | None:
    """The highest seq <= *seq* whose row holds the state entering it."""
    found: int | None = _CHECKPOINT(connection, run_id=run_id, path=path, lo=0, hi=seq + 1)[0][0]
    return found


# -- calls and artifacts ------------------------------------------------------------------


def _at(table: sa.Table) -> list[sa.ColumnElement[bool]]:
    return [table.c[name] == p(name) for name in schema.STEP_KEY]


_CALLS = Query(sa.select(calls).where(*_at(calls)).order_by(calls.c.idx))
_CALL_COUNT = Query(sa.select(steps.c.calls).where(*_at(steps), steps.c.status == "complete"))
_ARTIFACTS = Query(sa.select(artifacts).where(*_at(artifacts)).order_by(artifacts.c.name))
_BLOB = Query(sa.select(blobs.c.body).where(blobs.c.sha256 == p("sha256")))


def call_rows(connection: sqlite3.Connection, key: StepKey) -> list[CallRow]:
    """The calls of one attempt at a step, in branch order.

    Raises:
        StoreCorruptError: there are not as many as the step counted; or, where it did not
            complete, not as many as the run wrote.
    """
    at = dict(zip(schema.STEP_KEY, key, strict=True))
    rows = [read_row(CallRow, found) for found in _CALLS(connection, **at)]
    counted = _CALL_COUNT(connection, **at)
    if not counted:
        check_parts(connection, "calls", key[0])
    elif counted[0][0] != len(rows):
        raise corrupt(
            f"Step {key[2]} of run {key[0]} made {counted[0][0]} call(s), and the store holds "
            f"{len(rows)} of them",
            row=at,
        )
    return sorted(rows, key=lambda row: (row.branch, row.idx))


def artifact_rows(connection: sqlite3.Connection, key: StepKey) -> list[ArtifactRow]:
    """The files one attempt at a step made, by name.

    Raises:
        StoreCorruptError: the run made more than there are.
    """
    return artifacts_at(connection, [key])[0]


def artifacts_at(
    connection: sqlite3.Connection, keys: Sequence[StepKey]
) -> list[list[ArtifactRow]]:
    """For each of some attempts at steps the files it made, by name.

    Raises:
        StoreCorruptError: a run made more than there are.
    """
    for run_id in {key[0] for key in keys}:
        check_parts(connection, "artifacts", run_id)
    found = (_ARTIFACTS(connection, **dict(zip(schema.STEP_KEY, key, strict=True))) for key in keys)
    return [[read_row(ArtifactRow, stored) for stored in rows] for rows in found]


_MADE_BY = Query(
    sa.select(artifacts).where(
        artifacts.c.run_id == p("run_id"),
        artifacts.c.attempt == p("attempt"),
        sa.or_(
            sa.and_(artifacts.c.path == p("path"), artifacts.c.seq == p("seq")),
            sa.and_(artifacts.c.path >= p("lo"), artifacts.c.path < p("hi")),
        ),
    )
)
_ANY_ARTIFACT = Query(sa.select(artifacts.c.name).where(artifacts.c.run_id == p("run_id")).limit(1))


def artifacts_made_by(
    connection: sqlite3.Connection, key: StepKey, place: str
) -> list[ArtifactRow]:
    """The files that one attempt at a step made, and the tasks inside it.

    Args:
        place: of the step, such as ``map:1``.
    """
    at = dict(zip(schema.STEP_KEY, key, strict=True))
    check_parts(connection, "artifacts", key[0])
    found = _MADE_BY(connection, **at, lo=f"{place}[", hi=f"{place}\\")
    return [read_row(ArtifactRow, stored) for stored in found]


def has_artifacts(connection: sqlite3.Connection, run_id: str) -> bool:
    """Whether any step of a run made a file.

    Raises:
        StoreCorruptError: the run made more than there are.
    """
    check_parts(connection, "artifacts", run_id)
    return bool(_ANY_ARTIFACT(connection, run_id=run_id))


def blob(connection: sqlite3.Connection, sha256: str) -> bytes:
    """The bytes of an artifact.

    Raises:
        StoreCorruptError: they are missing, or do not match their hash.
    """
    found: list[tuple[bytes]] = _BLOB(connection, sha256=sha256)
    if found and is_blob(found[0][0], sha256):
        return found[0][0]
    raise damaged_blob(sha256, missing=not found)


def _playable(table: sa.Table) -> Query:
    same = [calls.c[name] == table.c[name] for name in (*schema.STEP_KEY, "idx")]
    identity = [table.c[name] == p(name) for name in ("place", "fingerprint", "n", "epoch")]
    return Query(
        sa.select(calls)
        .join(table, sa.and_(*same))
        .where(*identity, table.c.run_id != p("not_of"))
        .order_by(table.c.id.desc())
        .limit(1)
    )


_PLAYABLE = {kind: _playable(table) for kind, table in schema.PLAYABLE.items()}


def playable_call(
    connection: sqlite3.Connection,
    kind: str,
    identity: tuple[str, str, int, int],
    *,
    not_of: str,
) -> CallRow | None:
    """The newest answer at (place, fingerprint, n, epoch) that any other run may play back.

    Raises:
        StoreCorruptError: what is listed there is another answer.
    """
    place, fingerprint, n, epoch = identity
    found = _PLAYABLE[kind](
        connection, place=place, fingerprint=fingerprint, n=n, epoch=epoch, not_of=not_of
    )
    if not found:
        return None
    row = read_row(CallRow, found[0])
    if (row.fingerprint, row.n, row.epoch, row.playable) != (fingerprint, n, epoch, True):
        raise corrupt(
            f"The store lists call {row.idx} of step {row.seq} of run {row.run_id} as the answer "
            "to another request",
            row=row,
        )
    return row
