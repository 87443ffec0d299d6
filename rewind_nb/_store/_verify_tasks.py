"""The trajectories of tasks: whether each step has the tasks it counted, whole and in order."""

from __future__ import annotations

import sqlite3

from rewind_nb._describe import plural
from rewind_nb._lane import Lane, task_path
from rewind_nb._model import StepRow
from rewind_nb._store import _read_tasks
from rewind_nb._store._schema import chain_hash

Lanes = dict[tuple[int, str], list[StepRow]]  # attempt and path -> steps


def wrong_tasks(connection: sqlite3.Connection, run_id: str, attempts: list[StepRow]) -> str | None:
    """What is wrong with the tasks of a run's own steps.

    Args:
        attempts: every attempt at the run's own top-level steps.
    """
    lanes: Lanes = {}
    inside = _read_tasks.steps_in_tasks(connection, run_id)
    for row in inside:
        lanes.setdefault((row.attempt, row.path), []).append(row)
    for (_, path), rows in lanes.items():
        if problem := _broken(path, rows):
            return problem
    expected = {}
    for row in (*attempts, *inside):
        if row.origin is None:
            place = Lane(row.path).place(row.action, row.visit)
            for key, steps, chain in row.tasks:
                path = task_path(place, key)
                expected[row.attempt, path] = (steps, chain)
    return _counted(lanes, expected, attempts)


def _broken(path: str, rows: list[StepRow]) -> str | None:
    chain = ""
    for seq, row in enumerate(sorted(rows, key=lambda r: r.seq)):
        if row.seq != seq:
            return f"lacks step {seq} of its task {path}"
        if row.status != "open":
            if row.chain != chain_hash(chain, row):
                return f"breaks its chain of hashes at step {seq} of its task {path}"
            chain = row.chain
    return None


def _counted(
    lanes: Lanes, expected: dict[tuple[int, str], tuple[int, str]], attempts: list[StepRow]
) -> str | None:
    for (attempt, path), (steps, chain) in expected.items():
        # a worker that did not stop in time leaves a step open that its task does not count
        rows = [row for row in lanes.get((attempt, path), []) if row.status != "open"]
        last = max(rows, key=lambda r: r.seq, default=None)
        if len(rows) != steps or (last is not None and last.chain != chain):
            return f"has {len(rows)} of the {plural(steps, 'step')} of its task {path}, or others"
    unfinished = {row.attempt for row in attempts if row.status in ("open", "interrupted")}
    for attempt, path in lanes.keys() - expected.keys():
        if attempt not in unfinished:
            return f"has a task {path} that no step of it ran"
    return None
