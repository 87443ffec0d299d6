"""Making a fork ready: check the override, share the steps before it, execute the rest.

The override enters after the transition into its step was taken, so that step is always
the first to execute (or to be put in, for ``output=`` and ``patch=``). Overrides that the
parent had itself are given again where its steps execute again: an unchanged fork of a
fork is that fork.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rewind_nb._burr import Machine
from rewind_nb._cells import Cell
from rewind_nb._drive import Ended, Script, forward
from rewind_nb._execution import Env, Execution, Recording, applies_recorded, run_row
from rewind_nb._hooks import Hooks
from rewind_nb._itinerary import Itinerary, fork_calls
from rewind_nb._model import RunRow, StepRow
from rewind_nb._outcome import Applied, encoded_overrides
from rewind_nb._plan import Planned, Target, plan_override
from rewind_nb._refusals import refuse_changed_code, refuse_foreign, refuse_running
from rewind_nb._run import At, Run
from rewind_nb._session import Plan, Session
from rewind_nb._store import Batch
from rewind_nb._trajectory import Placed
from rewind_nb.errors import ConfigError


def new_fork(
    env: Env,
    parent: Run,
    at: At,
    given: tuple[str, Any] | None,
    *,
    call: int = 0,
    reuse: str = "none",
    sample: int = 0,
    halt_after: list[str] | None = None,
    halt_before: list[str] | None = None,
    label: str | None = None,
    max_steps: int | None = None,
    allow_code_change: bool = False,
) -> Execution:
    """A fork of *parent* whose first own step is the one at *at*."""
    recording = Recording.of(parent)
    refuse_running(parent)
    if type(sample) is not int or sample < 0:
        raise ConfigError(f"sample={sample!r} is not the number of a draw, from 0.")
    placed = recording.trajectory.at(parent[at].seq)
    assert placed is not None  # noqa: S101  (parent[at] found it)
    action = placed.row.action
    refuse_foreign(env, parent, action)
    if not allow_code_change:
        refuse_changed_code(env, recording, placed.seq)
    planned = None
    if given is not None:
        declared = {a["name"]: a for a in parent.graph_description["actions"]}.get(action, {})
        target = Target(env.store, recording.trajectory, placed, declared)
        planned = plan_override(target, *given, call)
    batch = Batch()
    facts = {"reuse": reuse, "at": placed.seq}
    plain = halt_after is None and halt_before is None and env.cache == "auto"
    nothing = (
        planned is not None
        and planned.unchanged
        and plain
        and not allow_code_change
        and parent.status in ("complete", "halted")
    )
    start = len(parent) if nothing else placed.seq
    cells = recording.cells_entering(start)
    prior = recording.prior_of(start)
    stored = None
    if planned is not None:
        stored, data = encoded_overrides([planned.override])
        batch.content(data)
    halts = fork_calls(env, batch, recording, start, halt_after, halt_before)
    row = run_row(
        env, batch, "fork", cells, label=label, prior=prior, halts=halts, parent=parent, shared=start,
        overrides=stored, epoch=sample, **facts,
    )  # fmt: skip
    if nothing:
        row = replace(row, note="the override equals what was recorded: nothing to execute")
    env.store.submit(batch, wake=False)
    if nothing:
        session = Session(
            env.store, row, Plan(), Hooks(list(env.hooks)), cells, env.spec.code, seq=start
        )
        session.prior = prior
        machine = Machine(env.spec, session)
        return Execution(session, machine, _nothing(Ended(parent.status, parent.next_action)))
    limit = 4 * len(parent) + 100 if max_steps is None else max_steps
    return _forward_from(env, row, recording, placed, planned, limit)


def _nothing(ended: Ended) -> Script:
    return ended
    yield {}


def _forward_from(
    env: Env,
    row: RunRow,
    recording: Recording,
    placed: Placed,
    planned: Planned | None,
    limit: int,
) -> Execution:
    """Execute from *placed* on, answered by *recording*, with an override at that step."""
    start, first = placed.seq, placed.row
    action = first.action
    own = [] if planned is None else [Applied(planned.override, own=True)]

    def overrides(_seq: int, name: str, visit: int) -> list[Applied]:
        inherited = recording.overrides(recording.step(name, visit))
        return inherited + own if (name, visit) == (action, first.visit) else inherited

    plan = Plan(
        cache=env.cache,
        epoch=row.epoch,
        recorded=recording.step,
        overrides=overrides,
        cache_key=env.cache_key,
    )
    session = Session(
        env.store, row, plan, Hooks(list(env.hooks)), recording.cells_entering(start), env.spec.code,
        seq=start, prior=row.prior, visits=recording.visits_before(start),
    )  # fmt: skip
    machine = Machine(env.spec, session, entry=action, adapters=env.spec.adapters)

    def applies(running: Machine, name: str, visit: int) -> bool:
        if (
            planned is not None
            and planned.writes is not None
            and (name, visit) == (action, first.visit)
        ):
            _apply_planned(running, recording, first, planned, session)
            return True
        return applies_recorded(recording, running, name, visit)

    way = Itinerary(env.store, row.halts, start, recording)
    script = forward(machine, way, applies=applies, max_steps=limit, stop_for_inputs=True)
    return Execution(session, machine, script)


def _apply_planned(
    machine: Machine, recording: Recording, first: StepRow, planned: Planned, session: Session
) -> None:
    """Put in the output that an override supplies at the step it is for."""
    assert planned.writes is not None  # noqa: S101  (checked by the caller)
    writes = {k: Cell.of(v, k) for k, v in planned.writes.items()}
    result = None
    if first.result is not None:
        old = recording.store.value(first.result)
        if isinstance(old, dict):
            new = {k: planned.writes[k] if k in planned.keys else v for k, v in old.items()}
            result = Cell.of(new, "@result")
    else:
        result = Cell.of({}, "@result")
    given = [applied.override for applied in recording.overrides(first)]
    session.apply(
        first.action, first, lambda a, c: machine.route(a, c)[0],
        overrides=[*given, planned.override], writes=writes, result=result,
    )  # fmt: skip
    machine.jump()
