"""Which runs that were meant as samples of one thing drew anything of their own.

A call that no override changed keeps the recorded answer in every sample. Where that holds
for all calls of a fork, its samples are one draw made several times: counting each of them
would make a rate look surer than it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from rewind_nb._run import Run
from rewind_nb._store import _read, _read_tasks

DRAWN = ("model", "tool", "http", "random")  # what may come out differently another time


def repeats(runs: Sequence[Run]) -> list[bool]:
    """For each run whether it is the draw of an earlier one again.

    It is where every answer that it used came from the same call as that one's, and both
    ended alike. Where runs with the same answers ended differently, something that is not
    recorded is random, and each of them counts.
    """
    origins = [_origins(run) for run in runs]
    ends: dict[tuple[str, ...], set[str | None]] = {}
    for run, origin in zip(runs, origins, strict=True):
        if origin is not None:
            ends.setdefault(origin, set()).add(run.state_hash)
    seen: set[tuple[str, ...]] = set()
    found = []
    for origin in origins:
        found.append(origin is not None and origin in seen and len(ends[origin]) == 1)
        if origin is not None:
            seen.add(origin)
    return found


def _origins(run: Run) -> tuple[str, ...] | None:
    """Where each answer of its own steps was given first; None where code ran without any."""
    rows = run.store.read(_read_tasks.every_step, run.id)
    calls = [
        call
        for row in rows
        for call in run.store.read(_read.call_rows, (row.run_id, row.path, row.seq, row.attempt))
        if call.kind in DRAWN and call.source != "override"
    ]
    ran = any(row.source not in ("reused", "inherited", "override") for row in rows)
    if ran and not calls:
        return None
    return tuple(
        c.replayed_from or f"{c.run_id}/{c.path}{c.seq}.{c.attempt}/{c.idx}" for c in calls
    )
