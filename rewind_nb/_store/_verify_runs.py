"""Every run of a store: whether it has all its steps, and the chain and root over them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from rewind_nb._model import RunRow, StepRow
from rewind_nb._store import _read
from rewind_nb._store._chain import chain_before, check_root
from rewind_nb._store._schema import chain_hash
from rewind_nb._store._verify_tasks import wrong_tasks
from rewind_nb.errors import StoreCorruptError


def wrong_runs(connection: sqlite3.Connection) -> Iterator[str | None]:
    """For every run there is, what is wrong with it."""
    for run_id in _read.run_ids(connection):
        try:
            run = _read.run_row(connection, run_id)
            yield None if run is None else _problem(connection, run)
        except StoreCorruptError as error:
            yield str(error) if run_id in str(error) else f"Run {run_id}: {error}"


def _problem(connection: sqlite3.Connection, run: RunRow) -> str | None:
    if run.parent is not None and _read.run_row(connection, run.parent) is None:
        return f"Run {run.id} is a fork of {run.parent}, which is missing."
    attempts = _read.step_rows(connection, run.id, 0, 1 << 62, every_attempt=True)
    last = list({row.seq: row for row in attempts}.values())
    problem = (
        _unbroken(connection, run, attempts)
        or _counted(connection, attempts)
        or wrong_tasks(connection, run.id, attempts)
    )
    if problem:
        return f"Run {run.id} {problem}."
    unfinished = next((row for row in last if row.status != "complete"), None)
    if run.status != "running" and run.root is None and (last or run.ended_at is not None):
        return f"Run {run.id} is {run.status} and has no root hash."
    if run.status in ("complete", "halted") and unfinished is not None:
        return f"Run {run.id} is {run.status}, and its step {unfinished.seq} is not complete."
    check_root(connection, run)
    return None


def _unbroken(connection: sqlite3.Connection, run: RunRow, attempts: list[StepRow]) -> str | None:
    """Whether the steps follow each other without a gap, each building on those before."""
    chain = chain_before(connection, run)
    seq, attempt, complete = run.at - 1, 0, True
    for row in attempts:
        if (row.seq, row.attempt) == (seq, attempt + 1) and not complete:
            attempt = row.attempt
        elif (row.seq, row.attempt) == (seq + 1, 0) and complete:
            seq, attempt = row.seq, 0
        else:
            return f"lacks its step {seq + 1 if complete else seq}, attempt {attempt}"
        complete = row.status == "complete"
        if row.status != "open":
            if row.chain != chain_hash(chain, row):
                return f"breaks its chain of hashes at step {row.seq} {row.action!r}"
            chain = row.chain if complete else chain
    return None


def _counted(connection: sqlite3.Connection, attempts: list[StepRow]) -> str | None:
    """Whether each step has the calls it counted."""
    for row in attempts:
        _read.call_rows(connection, (row.run_id, row.path, row.seq, row.attempt))
    return None
