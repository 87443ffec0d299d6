"""The chain of hashes over a trajectory, and the root hash over a finished run.

Each step's `chain` is a hash over its row and the chain before it, so that the chain of a
run's last step stands for all its steps, inherited ones included::

    parent   a0 <- a1 <- a2 <- a3
    fork           a1 <- b2 <- b3        shares a0 and a1
    root     H(header, status, ..., b3)

A step that did not complete has a chain too, and the next attempt does not build on it: that
it is there is for `_ledger` to say.
"""

from __future__ import annotations

import hashlib
import sqlite3

from rewind_nb._model import RunRow
from rewind_nb._store import _read
from rewind_nb._store._errors import corrupt
from rewind_nb._store._ledger import check_steps
from rewind_nb._store._schema import root_hash


def chain_at(connection: sqlite3.Connection, run_id: str | None, length: int) -> str:
    """The chain hash over the first *length* steps of a run's trajectory.

    Raises:
        StoreCorruptError: the run, or its step there, is missing.
    """
    while run_id is not None and length > 0:
        run = _read.run_row(connection, run_id)
        if run is None:
            raise corrupt(f"Run {run_id} is missing", run_id=run_id)
        if length > run.at or run.parent is None:
            return _own_chain(connection, run, length)
        run_id = run.parent
    return ""


def _own_chain(connection: sqlite3.Connection, run: RunRow, length: int) -> str:
    end = max(_read.step_count(connection, run.id), run.at)
    if length > end and run.tail is not None and run.parent is not None:
        # inside the referenced tail: name both ends, for the rows keep the parent's chain
        own = chain_at(connection, run.id, end)
        beyond = chain_at(connection, run.parent, run.tail + length - end)
        return hashlib.sha256(f"{own}+{beyond}".encode()).hexdigest()
    rows = _read.step_rows(connection, run.id, length - 1, length)
    if not rows:
        raise corrupt(f"Run {run.id} lacks its step {length - 1}", run_id=run.id)
    return rows[0].chain


def chain_before(connection: sqlite3.Connection, run: RunRow) -> str:
    """The chain hash of what a run inherits: its parent's, up to the fork point."""
    return chain_at(connection, run.parent, run.at)


def tail_end(connection: sqlite3.Connection, run: RunRow) -> str | None:
    """The parent's chain hash at its pinned end, for a run that refers to the parent's tail."""
    if run.tail is None or run.parent is None:
        return None
    return chain_at(connection, run.parent, run.parent_len)


def check_root(connection: sqlite3.Connection, run: RunRow) -> None:
    """Refuse a run that lacks a step, or ended and does not have the steps it ended with.

    It is checked as it is now: it may have been resumed since *run* was read.

    Raises:
        StoreCorruptError: its steps, or the tail it refers to, are others.
    """
    run = _read.run_row(connection, run.id) or run
    if run.root is not None:
        _check_chain(connection, run)
    check_steps(connection, run.id)


def _check_chain(connection: sqlite3.Connection, run: RunRow) -> None:
    end = _read.step_count(connection, run.id)
    rows = _read.step_rows(connection, run.id, max(end - 2, 0), end)  # the last may be incomplete
    chains = [row.chain for row in rows if row.status == "complete"]
    last = chains[-1] if chains else chain_before(connection, run)
    if run.root != root_hash(run, last, tail_end(connection, run)):
        raise corrupt(f"Run {run.id}: its root hash does not match its rows", run_id=run.id)
