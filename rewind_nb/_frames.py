"""Runs, steps, calls, fields and changes as frames, and a run as a graph.

Every frame has the columns of its constant, in that order and of exactly that dtype, also
when it is empty or a column holds nothing but unknowns. Integers that may be unknown are
``Int64`` (unknown: ``<NA>``), text is ``string[python]`` (pandas' own storage: Arrow's
cannot hold every Python string), seconds are ``float64`` (unknown: NaN), moments are UTC
to the microsecond. Nothing is summed over an unknown: a total with an unknown part is
``<NA>``.

The frames of a store list whole trajectories: a step that a fork inherits has a row under
its own run and one under the fork. Where ``executed_by == run_id`` the run did the work
itself; sum tokens over those rows only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pandas as pd

from rewind_nb import _codec
from rewind_nb._compare import Diff
from rewind_nb._model import CallRow, StepRow
from rewind_nb._path import bracket, join
from rewind_nb._run import Run, Step
from rewind_nb._store import Store, _read

if TYPE_CHECKING:
    import networkx as nx

TEXT = "string[python]"
COUNT = "Int64"
MOMENT = "datetime64[us, UTC]"

RUN_COLUMNS: dict[str, str] = {
    "id": TEXT,
    "label": TEXT,
    "kind": TEXT,  # record, fork, replay
    "status": TEXT,  # running, complete, halted, failed, interrupted
    "parent": TEXT,  # the run it was forked or replayed from
    "at": COUNT,  # the first step it does not share with its parent
    "override": TEXT,  # in words; "unchanged" for a fork without one
    "steps": "int64",  # of its trajectory, inherited ones included
    "own_steps": "int64",  # that it executed itself
    "live_calls": "int64",  # of its own steps
    "played_calls": "int64",
    "tokens": COUNT,  # that it paid for itself; <NA> where a provider did not say
    "created_at": MOMENT,
    "note": TEXT,
}
"""One row per run."""

STEP_COLUMNS: dict[str, str] = {
    "run_id": TEXT,  # of the trajectory
    "seq": "int64",  # position in the trajectory, from 0
    "action": TEXT,
    "visit": "int64",  # n-th time the action occurs, from 1
    "source": TEXT,  # live, cache, tool-cache, override, render-cache, reused, inherited
    "status": TEXT,  # complete, failed, interrupted
    "attempt": "int64",  # the one that counts, from 0
    "executed_by": TEXT,  # the run that executed it, an ancestor for an inherited step
    "started_at": MOMENT,
    "duration_s": "float64",
    "input_tokens": COUNT,  # paid by the run that executed it
    "output_tokens": COUNT,
    "live_calls": "int64",
    "played_calls": "int64",
    "hash": TEXT,  # <NA> where it did not finish
    "error_type": TEXT,
    "reason": TEXT,  # why it was reused
}
"""One row per step of a trajectory."""

CALL_COLUMNS: dict[str, str] = {
    "run_id": TEXT,  # of the trajectory
    "seq": "int64",
    "action": TEXT,
    "visit": "int64",
    "index": "int64",  # order of arrival in its step
    "kind": TEXT,  # model, tool, http, clock, random, uuid
    "name": TEXT,  # of the tool; host and path of a request
    "model": TEXT,  # asked for
    "answered_by": TEXT,  # the model the provider says it was
    "source": TEXT,  # live, cache, tool-cache, override
    "status": TEXT,  # started, complete, failed
    "input_tokens": COUNT,  # as the answer reported them, charged only when live
    "output_tokens": COUNT,
    "total_tokens": COUNT,
    "latency_s": "float64",
    "started_at": MOMENT,
    "fingerprint": TEXT,
    "sample": "int64",  # n-th identical request, from 0
    "epoch": "int64",  # which draw of it
    "error_type": TEXT,
}
"""One row per call, in branch order within its step."""

FIELD_COLUMNS: dict[str, str] = {
    "run_id": TEXT,  # of the trajectory
    "seq": "int64",
    "action": TEXT,
    "visit": "int64",
    "path": TEXT,  # of a leaf; an empty container is one
    "value": "object",
    "type": TEXT,  # the name of the value's type
}
"""One row per leaf of what a step wrote. Paths are those of a diff."""

CHANGE_COLUMNS: dict[str, str] = {
    "seq": "int64",
    "action": TEXT,
    "visit": "int64",
    "path": TEXT,
    "before": "object",  # MISSING where there was none
    "after": "object",
    "kind": TEXT,  # changed, added, removed, type, order
    "cause": TEXT,
}
"""One row per field that differs between two runs."""

Row = tuple[Any, ...]


def runs_df(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per run; columns in `RUN_COLUMNS`.

    Example:
        >>> runs_df([]).columns[0], len(runs_df([]))
        ('id', 0)
    """
    return _frame((_run_row(run) for run in runs), RUN_COLUMNS)


def steps_df(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per step of each trajectory; columns in `STEP_COLUMNS`.

    Example:
        >>> str(steps_df([]).started_at.dtype)
        'datetime64[us, UTC]'
    """
    return _frame((_step_row(run, step) for run in runs for step in run.steps), STEP_COLUMNS)


def calls_df(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per call of each trajectory; columns in `CALL_COLUMNS`.

    Example:
        >>> "answered_by" in calls_df([])
        True
    """
    return _frame((row for run in runs for row in _call_rows(run)), CALL_COLUMNS)


def fields_df(runs: Iterable[Run]) -> pd.DataFrame:
    """One row per leaf of what each step wrote; columns in `FIELD_COLUMNS`.

    Example:
        >>> fields_df([]).value.dtype
        dtype('O')
    """
    return _frame((row for run in runs for row in _field_rows(run)), FIELD_COLUMNS)


def changes_df(diff: Diff) -> pd.DataFrame:
    """One row per change of a diff; columns in `CHANGE_COLUMNS`.

    Example:
        >>> changes_df(rw.diff(run, fork)).path[0]  # doctest: +SKIP
        'analysis.groups.Adelie.total'
    """
    return _frame(
        ([getattr(change, name) for name in CHANGE_COLUMNS] for change in diff.changes),
        CHANGE_COLUMNS,
    )


def _frame(rows: Iterable[Iterable[Any]], columns: dict[str, str]) -> pd.DataFrame:
    """A frame of exactly these columns and dtypes, however few the rows."""
    listed = list(rows)
    by_column = zip(*listed, strict=True) if listed else ([] for _ in columns)
    return pd.DataFrame(
        {
            name: _column(list(values), dtype)
            for (name, dtype), values in zip(columns.items(), by_column, strict=True)
        }
    )


def _column(values: list[Any], dtype: str) -> pd.Series[Any]:
    if dtype == "object":
        # one by one: pandas would unpack a column of lists or arrays
        series = pd.Series([None] * len(values), dtype="object")
        for position, value in enumerate(values):
            series.iat[position] = value
        return series
    return pd.Series(values, dtype=dtype)
