"""Writing out the steps that a fork refers to in its parent, so that it can go on after them."""

from __future__ import annotations

from dataclasses import replace

from rewind_nb._model import RunRow, Usage
from rewind_nb._outcome import step_key
from rewind_nb._recording import Recording
from rewind_nb._store import Batch
from rewind_nb._store._chain import chain_at


def written_out(own: Recording, run: RunRow) -> tuple[RunRow, Batch, str]:
    """The run with steps of its own in place of its tail, the batch of them, and their chain.

    Args:
        own: the run's own recording.
    """
    batch, end = Batch(), own.run.converged_at
    assert end is not None  # noqa: S101  (it has a tail)
    nothing_own = end == run.at
    chain = own.store.read(chain_at, run.parent if nothing_own else run.id, end)
    for placed in own.trajectory.rows(end):
        ran = placed.row
        row = batch.add(
            ran,
            after=chain or "",
            run_id=run.id,
            seq=placed.seq,
            attempt=0,
            source=ran.source if ran.source == "override" else "reused",
            reason=f"converged at seq {end}",
            origin=ran.origin or step_key(ran),
            duration_s=0.0,
            usage=Usage(0, 0),
            calls=0,
            live_calls=0,
            played_calls=0,
            state=run.state if placed.seq == run.at else ran.state,
        )
        chain = row.chain
    return replace(run, tail=None), batch, chain
