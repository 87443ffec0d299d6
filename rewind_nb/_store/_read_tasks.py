"""Queries for the trajectories of tasks inside a step, and for all steps of a run at once.

The rows of a task have its path, and the attempt of the top-level step they are in.
"""

from __future__ import annotations

import sqlite3

import sqlalchemy as sa

from rewind_nb._model import StepRow
from rewind_nb._store._ledger import check_steps
from rewind_nb._store._query import Query
from rewind_nb._store._read import LAST, StepKey, p, step_rows
from rewind_nb._store._schema import read_row, steps

_IN = (steps.c.run_id == p("run_id"), steps.c.attempt == p("attempt"))
_INSIDE = (*_IN, steps.c.path >= p("lo"), steps.c.path <= p("hi"))
_STEP = Query(
    sa.select(steps).where(
        *_IN,
        steps.c.path == p("path"),
        steps.c.action == p("action"),
        steps.c.visit == p("visit"),
    )
)
_STEPS = Query(sa.select(steps).where(*_IN, steps.c.path == p("path")).order_by(steps.c.seq))
_ALL = Query(sa.select(steps).where(*_INSIDE).order_by(steps.c.path, steps.c.seq))
_OF_RUN = Query(sa.select(steps).where(steps.c.run_id == p("run_id")))
_EVERY = Query(
    sa.select(steps)
    .where(steps.c.run_id == p("run_id"), steps.c.path != "")
    .order_by(steps.c.path, steps.c.seq, steps.c.attempt)
)


_AT = Query(sa.select(steps).where(*_IN, steps.c.path == p("path"), steps.c.seq == p("seq")))


def step_at(connection: sqlite3.Connection, key: StepKey) -> StepRow | None:
    """One attempt at one step."""
    run_id, path, seq, attempt = key
    found = _AT(connection, run_id=run_id, path=path, seq=seq, attempt=attempt)
    return read_row(StepRow, found[0]) if found else None


def task_step(
    connection: sqlite3.Connection, run_id: str, attempt: int, path: str, action: str, visit: int
) -> StepRow | None:
    """The step of a task at (path, action, visit).

    Raises:
        StoreCorruptError: there is none, and the run lacks a step.
    """
    found = _STEP(connection, run_id=run_id, attempt=attempt, path=path, action=action, visit=visit)
    if found:
        return read_row(StepRow, found[0])
    check_steps(connection, run_id)
    return None


def task_steps(
    connection: sqlite3.Connection, run_id: str, attempt: int, path: str
) -> list[StepRow]:
    """The steps of one task, in their order."""
    found = _STEPS(connection, run_id=run_id, attempt=attempt, path=path)
    return [read_row(StepRow, stored) for stored in found]


def steps_inside(
    connection: sqlite3.Connection, run_id: str, attempt: int, place: str
) -> list[StepRow]:
    """Every step of every task inside the step at *place*, however deep.

    Raises:
        StoreCorruptError: the run lacks a step.
    """
    check_steps(connection, run_id)
    found = _ALL(connection, run_id=run_id, attempt=attempt, lo=f"{place}[", hi=f"{place}[{LAST}")
    return [read_row(StepRow, stored) for stored in found]


def steps_in_tasks(connection: sqlite3.Connection, run_id: str) -> list[StepRow]:
    """Every step of every task of a run, every attempt."""
    return [read_row(StepRow, stored) for stored in _EVERY(connection, run_id=run_id)]


def attempts(connection: sqlite3.Connection, run_id: str) -> list[StepRow]:
    """Every attempt at the run's own steps.

    Raises:
        StoreCorruptError: one is missing.
    """
    check_steps(connection, run_id)
    return step_rows(connection, run_id, 0, 1 << 62, every_attempt=True)


def every_step(connection: sqlite3.Connection, run_id: str) -> list[StepRow]:
    """Every attempt at every step of a run, and of its tasks.

    Raises:
        StoreCorruptError: one is missing.
    """
    check_steps(connection, run_id)
    found = _OF_RUN(connection, run_id=run_id)
    return [read_row(StepRow, stored) for stored in found]
