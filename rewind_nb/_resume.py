"""Making a halted, failed or interrupted run ready to go on, in another process too.

No finished step runs again. An interrupted step plays back the answers it had; a failed
one asks again, for its answers may be why it failed. Every attempt stays on record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rewind_nb import _owner
from rewind_nb._burr import Machine
from rewind_nb._drive import forward
from rewind_nb._execution import (
    Env,
    Execution,
    Recording,
    applies_recorded,
    invocation,
)
from rewind_nb._hooks import Hooks
from rewind_nb._itinerary import Itinerary
from rewind_nb._model import RunRow, StepRow
from rewind_nb._outcome import Applied
from rewind_nb._refusals import refuse_complete, refuse_foreign, refuse_running
from rewind_nb._run import Run
from rewind_nb._session import Plan, Session
from rewind_nb._store import Batch
from rewind_nb._trajectory import Placed


def resumed(
    env: Env,
    run: Run,
    *,
    inputs: Mapping[str, Any],
    halt_after: list[str],
    halt_before: list[str],
) -> Execution:
    """The same run, going on where it halted, failed or was interrupted."""
    run = run.refresh()
    own = Recording.of(run)  # reads the row and the steps together; what follows goes by them
    refuse_running(run)
    refuse_complete(run)
    last = own.trajectory.at(len(run) - 1) if len(run) else None
    unfinished = last is not None and last.row.status != "complete"
    seq = len(run) - 1 if unfinished else len(run)
    action = last.row.action if last is not None and unfinished else _next_action(env, run, last)
    if action is not None:
        refuse_foreign(env, run, action)
    visits = own.visits_before(seq)
    was = run._row  # noqa: SLF001
    row = replace(
        was,
        status="running",
        next_action=None,
        root=None,
        ended_at=None,
        note=None,
        owner=_owner.this_process(),
    )
    cut_short = unfinished and bool(row.halts) and not halt_after and not halt_before
    if not cut_short:  # else the call that was cut short goes on, with its own conditions
        batch = Batch()
        call = invocation(env.spec, batch, seq, inputs, halt_after, halt_before)
        if unfinished and row.halts:
            earlier = dict(row.halts[-1]["inputs"])
            call["inputs"] = list({**earlier, **dict(call["inputs"])}.items())
        row = replace(row, halts=(*row.halts, call))
        env.store.submit(batch, wake=False)
    parent = None if row.parent is None else Recording.of(env.store.run(row.parent))
    answers = last.row if last is not None and unfinished else None
    planned = _planned_again(run, seq)
    return _resume_from(
        env, row, own, parent, action, seq, visits[action or ""] + 1, answers, planned, dict(inputs),
        passing=cut_short, was=was, over=_was_over(run, last),
    )  # fmt: skip


def _next_action(env: Env, run: Run, last: Placed | None) -> str | None:
    """What to execute next; None where the conditions are to be asked again."""
    if run.next_action is not None:
        return run.next_action
    taken = {} if last is None else last.row.transition or {}
    if taken.get("failed"):
        return None
    return str(taken["to"]) if taken.get("to") else env.spec.entrypoint


def _was_over(run: Run, last: Placed | None) -> bool:
    """Whether the process died between the last step and the end of the run."""
    if last is None or last.row.status != "complete" or run.next_action is not None:
        return False
    taken = last.row.transition
    return taken is not None and taken["to"] is None and not taken.get("failed")


def _planned_again(run: Run, seq: int) -> list[Applied]:
    """The fork's own override, where its first step has not completed yet."""
    row = run._row  # noqa: SLF001
    first = row.kind == "fork" and seq == row.at and row.mode.get("at") == row.at
    return [Applied(o, own=True) for o in run.overrides] if first else []


def _resume_from(
    env: Env,
    row: Any,
    own: Recording,
    parent: Recording | None,
    action: str | None,
    seq: int,
    visit: int,
    answers: StepRow | None,
    planned: list[Applied],
    inputs: dict[str, Any],
    *,
    passing: bool,
    was: RunRow,
    over: bool,
) -> Execution:
    def recorded(name: str, nth: int) -> StepRow | None:  # an interrupted step's own answers
        if answers is not None and answers.status != "failed" and (name, nth) == (action, visit):
            return answers
        return None if parent is None else parent.step(name, nth)

    def overrides(at: int, name: str, nth: int) -> list[Applied]:
        inherited = [] if parent is None else parent.overrides(parent.step(name, nth))
        return inherited + planned if at == seq else inherited

    plan = Plan(
        cache=row.mode.get("cache", env.cache),  # the run's own, as it set out
        epoch=row.epoch,
        recorded=recorded,
        overrides=overrides,
        attempts={} if answers is None else {seq: answers.attempt + 1},
        cache_key=env.cache_key,
    )
    session = Session(
        env.store, row, plan, Hooks(list(env.hooks)), own.cells_entering(seq), env.spec.code,
        seq=seq, prior=own.prior_of(seq), visits=own.visits_before(seq), basis=was,
    )  # fmt: skip
    machine = Machine(env.spec, session, entry=action, adapters=env.spec.adapters)
    way = Itinerary(env.store, row.halts, seq, parent, passing=passing, given=inputs)

    def applies(running: Machine, name: str, nth: int) -> bool:
        return parent is not None and applies_recorded(parent, running, name, nth)

    script = forward(machine, way, applies=applies, over=over)
    return Execution(session, machine, script)
