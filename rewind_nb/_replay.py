"""Making a replay ready: the recorded run again, on its recorded calls and nothing else."""

from __future__ import annotations

from dataclasses import replace

from rewind_nb._burr import Machine
from rewind_nb._drive import Ended
from rewind_nb._execution import Env, Execution, Recording, run_row
from rewind_nb._guard import no_connections
from rewind_nb._hooks import Hooks
from rewind_nb._model import RunStatus
from rewind_nb._proof import Tally, replaying
from rewind_nb._refusals import refuse_foreign, refuse_running
from rewind_nb._run import At, Run
from rewind_nb._session import Plan, Session
from rewind_nb._store import Batch
from rewind_nb._trajectory import Placed


def new_replay(env: Env, run: Run, start: At | None) -> tuple[Execution, Tally, list[Placed]]:
    """A re-execution of *run* on its recorded calls, and nothing else."""
    run = run.refresh()
    recording = Recording.of(run)
    refuse_running(run)
    first = 0 if start is None else run[start].seq
    expected = recording.rows(first)
    entry = expected[0].row.action if expected else None
    for placed in expected:
        refuse_foreign(env, run, placed.row.action)
    batch = Batch()
    cells = recording.cells_entering(first)
    strict = replace(env, cache="replay")
    row = run_row(
        strict, batch, "replay", cells, label=None, prior=recording.prior_of(first), halts=(),
        parent=run, shared=first,
    )  # fmt: skip
    env.store.submit(batch, wake=False)
    plan = Plan(
        cache="replay",
        strict=True,
        recorded=recording.step,
        overrides=lambda _seq, name, visit: recording.overrides(recording.step(name, visit)),
        cache_key=env.cache_key,
    )
    session = Session(
        env.store, row, plan, Hooks(list(env.hooks)), cells, env.spec.code,
        seq=first, prior=row.prior, visits=recording.visits_before(first),
    )  # fmt: skip
    machine = Machine(env.spec, session, entry=entry)
    tally = Tally()
    ended = Ended(_replayed_status(run), run.next_action)
    script = replaying(machine, expected, recording.inputs, tally, ended)
    return Execution(session, machine, script, around=no_connections), tally, expected


def _replayed_status(run: Run) -> RunStatus:
    return "halted" if run.status == "interrupted" else run.status
