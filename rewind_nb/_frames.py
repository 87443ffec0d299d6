"""Runs, steps, calls, fields, changes and reasons as frames.

Every frame has the columns of its constant, in that order and of exactly that dtype, also
when it is empty or a column holds nothing but unknowns. Integers that may be unknown are
``Int64`` (unknown: ``<NA>``), text is ``string[python]`` (pandas' own storage: Arrow's
cannot hold every Python string), seconds are ``float64`` (unknown: NaN), US dollars
``Float64`` (unknown: ``<NA>``), moments are UTC to the microsecond. A total with an unknown
part is unknown. Only a column of counts one of
which is beyond 64 bits, as a provider may claim, is ``object``.

A step with tasks is followed by their steps, which say in `task` where they are. The frames
of a store list whole trajectories: a step that a fork inherits has a row under its own run
and one under the fork. Where ``executed_by == run_id`` the run did the work itself; sum
tokens and dollars over those rows only; `run.cost` says which models have no price.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any

import pandas as pd

from rewind_nb import _codec
from rewind_nb._codec._reread import Pool
from rewind_nb._compare import Diff
from rewind_nb._cost import Cost, cost_of
from rewind_nb._leaves import Known, leaves
from rewind_nb._live import Asking
from rewind_nb._model import CallRow, ErrorInfo, Usage
from rewind_nb._path import join
from rewind_nb._run import Run, Step
from rewind_nb._spent import spent
from rewind_nb._store import _read
from rewind_nb._store._nodes import Nodes

TEXT, COUNT, WHOLE, SECONDS, MONEY, MOMENT, ANY = map(
    pd.api.types.pandas_dtype,
    ("string[python]", "Int64", "int64", "float64", "Float64", "datetime64[us, UTC]", "object"),
)
Columns = dict[str, Any]  # name -> dtype

RUN_COLUMNS: Columns = {
    "id": TEXT,
    "label": TEXT,
    "kind": TEXT,  # record, fork, replay
    "status": TEXT,  # running, complete, halted, failed, interrupted
    "parent": TEXT,  # the run it was forked or replayed from
    "at": COUNT,  # the first step it does not share with its parent
    "override": TEXT,  # in words; "unchanged", or "asked anew", for one without
    "steps": WHOLE,  # of its trajectory, inherited ones included
    "own_steps": WHOLE,  # that it executed itself
    "live_calls": WHOLE,  # of its own steps and the tasks inside them
    "played_calls": WHOLE,
    "tokens": COUNT,  # that it paid for itself; <NA> where a provider did not say
    "usd": MONEY,  # that they cost; <NA> where a part has no price
    "created_at": MOMENT,
    "note": TEXT,
}
"""One row per run."""

STEP_COLUMNS: Columns = {
    "run_id": TEXT,  # of the trajectory
    "seq": WHOLE,  # position in the trajectory, or in its task, from 0
    "action": TEXT,
    "visit": WHOLE,  # n-th time the action occurs, from 1
    "task": TEXT,  # the one it is in, such as "map:1[0]/"; "" for the run's own
    "source": TEXT,  # live, cache, tool-cache, override, render-cache, reused, inherited
    "status": TEXT,  # complete, failed, interrupted
    "attempt": WHOLE,  # the one that counts, from 0
    "executed_by": TEXT,  # the run that executed it, an ancestor for an inherited step
    "started_at": MOMENT,
    "duration_s": SECONDS,
    "input_tokens": COUNT,  # paid by the run that executed it
    "output_tokens": COUNT,
    "usd": MONEY,  # what these cost
    "live_calls": WHOLE,
    "played_calls": WHOLE,
    "hash": TEXT,  # <NA> where it did not finish
    "error_type": TEXT,
    "reason": TEXT,  # why it was reused
}
"""One row per step of a trajectory, those of its tasks behind it; each counts its own calls."""

CALL_COLUMNS: Columns = {
    "run_id": TEXT,  # of the trajectory
    "seq": WHOLE,
    "action": TEXT,
    "visit": WHOLE,
    "task": TEXT,
    "index": WHOLE,  # order of arrival in its step
    "kind": TEXT,  # model, tool, http, clock, random, uuid
    "name": TEXT,  # of the tool; host and path of a request
    "model": TEXT,  # asked for
    "answered_by": TEXT,  # the model the provider says it was
    "source": TEXT,  # live, cache, tool-cache, override, refused
    "status": TEXT,  # started, complete, failed
    "input_tokens": COUNT,  # as the answer reported them, charged only when live
    "output_tokens": COUNT,
    "total_tokens": COUNT,
    "usd": MONEY,  # what it cost, 0 where it was played back
    "latency_s": SECONDS,
    "started_at": MOMENT,
    "fingerprint": TEXT,
    "sample": WHOLE,  # n-th identical request, from 0
    "epoch": WHOLE,  # which draw of it
    "error_type": TEXT,
    "reason": TEXT,  # why a fork made it live
}
"""One row per call, in branch order within its step."""

FIELD_COLUMNS: Columns = {
    "run_id": TEXT,  # of the trajectory
    "seq": WHOLE,
    "action": TEXT,
    "visit": WHOLE,
    "task": TEXT,
    "path": TEXT,  # of a leaf; an empty container is one
    "value": ANY,
    "type": TEXT,  # the name of the value's type
}
"""One row per leaf of what a step wrote. Paths are those of a diff."""

EXPLAIN_COLUMNS: Columns = {
    "seq": WHOLE,
    "action": TEXT,
    "visit": WHOLE,
    "task": TEXT,  # the one it is in, such as "map:1[0]/"; "" for the run's own
    "source": TEXT,
    "reason": TEXT,  # in few words
    "because": TEXT,  # exactly: which field, changed by which step
}
"""One row per step of a fork and its tasks."""

CHANGE_COLUMNS: Columns = {
    "seq": WHOLE,
    "action": TEXT,
    "visit": WHOLE,
    "task": TEXT,
    "path": TEXT,  # in the value after; of what was removed, in the value before
    "was_at": TEXT,  # the path in the value before, where that is another one
    "before": ANY,  # MISSING where there was none
    "after": ANY,
    "kind": TEXT,  # changed, added, removed, type, order; how a step ended that has no value
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
    """One row per step of each trajectory and its tasks; columns in `STEP_COLUMNS`.

    Example:
        >>> str(steps_df([]).started_at.dtype)
        'datetime64[us, UTC]'
    """
    return _frame((row for run in runs for row in _step_rows(run)), STEP_COLUMNS)


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


def explain_df(run: Run) -> pd.DataFrame:
    """One row per step of a run and its tasks; columns in `EXPLAIN_COLUMNS`.

    Example:
        >>> explain_df(fork).reason[3]  # doctest: +SKIP
        'nothing it read changed'
    """
    because = run.explanation.of
    rows = ((*_PLACE(s), s.source, s.reason, because(s)) for s in run.walk())
    return _frame(rows, EXPLAIN_COLUMNS)


def changes_df(diff: Diff) -> pd.DataFrame:
    """One row per change of a diff; columns in `CHANGE_COLUMNS`.

    Example:
        >>> changes_df(rw.diff(run, fork)).path[0]  # doctest: +SKIP
        'analysis.groups.Adelie.total'
    """
    return _frame(map(_CHANGE, diff.changes), CHANGE_COLUMNS)


_PLACE = attrgetter("seq", "action", "visit", "path")
_CHANGE = attrgetter(*({"task": "lane"}.get(name, name) for name in CHANGE_COLUMNS))
_CALL = attrgetter("idx", "kind", "name", "model", "answered_by", "source", "status")


def _run_row(run: Run) -> Row:
    own = [step for step in run.steps if step.run_id == run.id]
    live, played = map(sum, zip((0, 0), *(step.total_calls for step in own), strict=True))
    origin = run.origin
    whence = (None,) * 3 if origin is None else (origin.parent, origin.at, run.override_words)
    made = _moment(run.created_at)
    counts = (len(run), len(own), live, played, _tokens(run.usage)[2], run.cost.whole_usd)
    return (run.id, run.label, run.kind, run.status, *whence, *counts, made, run.note)


def _step_rows(run: Run) -> Iterator[Row]:
    steps = list(run.walk())
    costs = spent(run.store, [step.row for step in steps])
    return (_step_row(run, step, cost) for step, cost in zip(steps, costs, strict=True))


def _step_row(run: Run, step: Step, cost: Cost) -> Row:
    took = (_moment(step.started_at), step.duration_s, *_tokens(step.usage)[:2], cost.whole_usd)
    calls = (step.live_calls, step.played_calls)
    ended = (step.hash, _error_type(step.error), step.reason)
    who = (step.source, step.status, step.attempt, step.executed_key[0])
    return (run.id, *_PLACE(step), *who, *took, *calls, *ended)


def _call_rows(run: Run) -> Iterator[Row]:
    steps = list(run.walk())
    # on one connection: taking one per step costs more than the query
    found = run.store.read(lambda c: [_read.call_rows(c, step.executed_key) for step in steps])
    asking = Asking(run.store)
    for step, calls in zip(steps, found, strict=True):
        for call in calls:
            yield (run.id, *_PLACE(step), *_call(call), asking.reason(step.place, call))


def _call(call: CallRow) -> Row:
    paid = cost_of(call).whole_usd
    took = (*_tokens(call.usage), paid, call.latency_s, _moment(call.started_at))
    return (*_CALL(call), *took, call.fingerprint, call.n, call.epoch, _error_type(call.error))


def _field_rows(run: Run) -> Iterator[Row]:
    nodes, known = Nodes(run.store, Pool()), Known()
    for step in run.walk():
        place = (run.id, *_PLACE(step))
        for key, digest in step.row.writes:
            for path, node in leaves(join("", key), nodes.node(digest), known):
                value = node if type(node) is str else _codec.decode_node(node)
                yield (*place, path, value, type(value).__name__)


def _frame(rows: Iterable[Row], columns: Columns) -> pd.DataFrame:
    """A frame of exactly these columns and dtypes, however few the rows."""
    listed = list(rows)
    named = enumerate(columns.items())
    return pd.DataFrame(
        {name: _column([row[i] for row in listed], kind) for i, (name, kind) in named}
    )


def _column(values: list[Any], kind: Any) -> Any:
    try:
        return pd.Series(values, dtype=kind)
    except OverflowError:
        return pd.Series(values, dtype=ANY)


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _tokens(usage: Usage | None) -> tuple[int | None, int | None, int | None]:
    known = usage or Usage()
    return known.input_tokens, known.output_tokens, known.total_tokens


def _error_type(error: ErrorInfo | None) -> str | None:
    return None if error is None else error.type
