"""Queries for experiments and the runs they made."""

from __future__ import annotations

import sqlite3

import sqlalchemy as sa

from rewind_nb._model import ExperimentRow, RunRow
from rewind_nb._store._query import Query
from rewind_nb._store._schema import experiments, read_row, runs

LAST = "\U0010ffff"  # after every other character
p = sa.bindparam

_ONE = Query(sa.select(experiments).where(experiments.c.id == p("id")))
_WRITTEN: sa.ColumnElement[int] = sa.literal_column("experiments.rowid")
_ALL = Query(sa.select(experiments).order_by(_WRITTEN))
_IDS = Query(
    sa.select(experiments.c.id)
    .where(experiments.c.id >= p("lo"), experiments.c.id <= p("hi"))
    .order_by(_WRITTEN)
)
_MADE: sa.ColumnElement[int] = sa.literal_column("runs.rowid")
_RUNS = Query(sa.select(runs).where(runs.c.experiment == p("id")).order_by(_MADE))


def experiment_row(connection: sqlite3.Connection, experiment_id: str) -> ExperimentRow | None:
    """The experiment with exactly this id."""
    found = _ONE(connection, id=experiment_id)
    return read_row(ExperimentRow, found[0]) if found else None


def experiment_rows(connection: sqlite3.Connection) -> list[ExperimentRow]:
    """Every experiment, oldest first."""
    return [read_row(ExperimentRow, found) for found in _ALL(connection)]


def experiment_ids(connection: sqlite3.Connection, prefix: str = "") -> list[str]:
    """Ids that start with *prefix*, oldest first."""
    return [found for (found,) in _IDS(connection, lo=prefix, hi=prefix + LAST)]


def runs_of(connection: sqlite3.Connection, experiment_id: str) -> list[RunRow]:
    """The runs an experiment made, oldest first."""
    return [read_row(RunRow, found) for found in _RUNS(connection, id=experiment_id)]
