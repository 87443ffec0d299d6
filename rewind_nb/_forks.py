"""Making a fork, a resumed run or a replay ready."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rewind_nb._burr import Machine
from rewind_nb._cells import Cell
from rewind_nb._drive import Ended, Halts, Script, forward
from rewind_nb._execution import (
    Env,
    Execution,
    Invocation,
    Recording,
    applies_recorded,
    invocation,
    run_row,
)
from rewind_nb._guard import no_connections
from rewind_nb._hooks import Hooks
from rewind_nb._model import RunRow, StepRow
from rewind_nb._outcome import Applied, encoded_overrides
from rewind_nb._plan import Planned, Target, plan_override
from rewind_nb._proof import Tally, changed_code, replaying
from rewind_nb._run import At, Run
from rewind_nb._session import Plan, Session
from rewind_nb._store import Batch
from rewind_nb._trajectory import Placed
from rewind_nb.errors import (
    CodeChangedError,
    NothingToResumeError,
    RunBusyError,
    StepNotFoundError,
    did_you_mean,
)


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
    refuse_running(parent, "fork")
    recording = Recording.of(parent)
    placed = recording.trajectory.at(parent[at].seq)
    assert placed is not None  # noqa: S101  (parent[at] found it)
    action = placed.row.action
    _refuse_foreign(env, parent, action)
    if not allow_code_change:
        _refuse_changed_code(env, recording, placed)
    planned = None
    if given is not None:
        declared = {a["name"]: a for a in parent.graph_description["actions"]}.get(action, {})
        target = Target(env.store, recording.trajectory, placed, declared)
        planned = plan_override(target, *given, call)
    batch = Batch()
    facts = {"reuse": reuse, "at": placed.seq}
    nothing = planned is not None and planned.unchanged and parent.status in ("complete", "halted")
    start = len(parent) if nothing else placed.seq
    cells = recording.cells_entering(start)
    prior = _prior(recording, start)
    stored = None
    if planned is not None:
        stored, data = encoded_overrides([planned.override])
        batch.content(data)
    halts = _fork_halts(env, batch, recording, start, halt_after, halt_before)
    row = run_row(
        env, batch, "fork", cells, label=label, prior=prior, halts=halts, parent=parent, shared=start,
        overrides=stored, epoch=sample, **facts,
    )  # fmt: skip
    if nothing:
        row = replace(row, note="the override equals what was recorded: nothing to execute")
    env.store.submit(batch, wake=False)
    if nothing:
        session = Session(env.store, row, Plan(), Hooks(list(env.hooks)), cells, {}, seq=start)
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

    halts, inputs_for = _halts_and_inputs(env, row.halts, recording)
    script = forward(
        machine, halts, inputs_for, applies=applies, max_steps=limit, stop_for_inputs=True
    )
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
            result = Cell.of({k: planned.writes.get(k, v) for k, v in old.items()}, "@result")
    else:
        result = Cell.of({}, "@result")
    override, data = encoded_overrides([planned.override])
    batch = Batch()
    batch.content(data)
    session.store.submit(batch, wake=False)
    session.apply(
        first.action, first, lambda a, c: machine.route(a, c)[0],
        override=override, writes=writes, result=result,
    )  # fmt: skip
    machine.jump()


# -- halts and inputs of a fork -------------------------------------------------------------


def _fork_halts(
    env: Env,
    batch: Batch,
    recording: Recording,
    start: int,
    halt_after: list[str] | None,
    halt_before: list[str] | None,
) -> tuple[Invocation, ...]:
    """The parent's calls, the last of them with the fork's own halt conditions if given."""
    calls = recording.invocations()
    if halt_after is not None or halt_before is not None:
        mine = invocation(env.spec, batch, start, {}, halt_after or [], halt_before or [])
        inputs = calls[-1]["inputs"] if calls else []
        return (*calls[:-1], {**mine, "inputs": inputs, "own": True})
    if calls:
        return calls
    status = recording.run.status
    if status == "complete" or not len(recording.run):
        return ({"seq": start, "halt_after": [], "halt_before": [], "inputs": []},)
    last = recording.run.steps[-1]  # an application the user drove: stop where it stood
    stop = [last.action, last.visit]
    return ({"seq": start, "halt_after": [], "halt_before": [], "inputs": [], "stop_at": stop},)


def _halts_and_inputs(
    env: Env, calls: tuple[Invocation, ...], recording: Recording | None
) -> tuple[Halts, Any]:
    last = calls[-1]
    passed = frozenset((c["stopped"][0], c["stopped"][1]) for c in calls[:-1] if "stopped" in c)
    stop_at = tuple(last["stop_at"]) if "stop_at" in last else None
    halts = Halts(frozenset(last["halt_after"]), frozenset(last["halt_before"]), passed, stop_at)
    store = env.store

    def inputs_for(action: str, visit: int) -> Mapping[str, Any]:
        row = None if recording is None else recording.step(action, visit)
        if row is not None and recording is not None:
            return recording.inputs(row)
        in_force: dict[str, str] = {}
        for call in calls:
            in_force |= dict(call["inputs"])
        return {k: store.value(h, strict=True) for k, h in in_force.items()}

    return halts, inputs_for


# -- resume ---------------------------------------------------------------------------------


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
    refuse_running(run, "resume")
    if run.status == "complete":
        raise NothingToResumeError(
            f"Run {run.id} is complete: no action is left to execute. To try something else "
            "from one of its steps, fork it.",
            run_id=run.id,
        )
    own = Recording.of(run)
    last = own.trajectory.at(len(run) - 1) if len(run) else None
    unfinished = last is not None and last.row.status != "complete"
    seq = len(run) - 1 if unfinished else len(run)
    action = last.row.action if last is not None and unfinished else _next_action(env, run, last)
    _refuse_foreign(env, run, action)
    visits = own.visits_before(seq)
    batch = Batch()
    call = invocation(env.spec, batch, seq, inputs, halt_after, halt_before)
    row = run._row  # noqa: SLF001
    row = replace(
        row, status="running", next_action=None, root=None, ended_at=None, note=None,
        halts=(*row.halts, call), owner=row.owner,
    )  # fmt: skip
    env.store.submit(batch, wake=False)
    parent = None if row.parent is None else Recording.of(env.store.run(row.parent))
    answers = last.row if last is not None and unfinished else None
    planned = _planned_again(run, seq)
    return _resume_from(
        env, row, own, parent, action, seq, visits[action] + 1, answers, planned, dict(inputs)
    )


def _next_action(env: Env, run: Run, last: Placed | None) -> str:
    if run.next_action is not None:
        return run.next_action
    if last is not None and last.row.transition and last.row.transition["to"]:
        return str(last.row.transition["to"])
    return env.spec.entrypoint


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
    action: str,
    seq: int,
    visit: int,
    answers: StepRow | None,
    planned: list[Applied],
    inputs: dict[str, Any],
) -> Execution:
    def recorded(name: str, nth: int) -> StepRow | None:
        if answers is not None and answers.status != "failed" and (name, nth) == (action, visit):
            return answers
        return None if parent is None else parent.step(name, nth)

    def overrides(at: int, name: str, nth: int) -> list[Applied]:
        inherited = [] if parent is None else parent.overrides(parent.step(name, nth))
        return inherited + planned if at == seq else inherited

    plan = Plan(
        cache=env.cache,
        epoch=row.epoch,
        recorded=recorded,
        overrides=overrides,
        attempts={} if answers is None else {seq: answers.attempt + 1},
        cache_key=env.cache_key,
    )
    session = Session(
        env.store, row, plan, Hooks(list(env.hooks)), own.cells_entering(seq), env.spec.code,
        seq=seq, prior=_prior(own, seq), visits=own.visits_before(seq),
    )  # fmt: skip
    machine = Machine(env.spec, session, entry=action, adapters=env.spec.adapters)
    halts, inherited_inputs = _halts_and_inputs(env, row.halts, parent)

    def inputs_for(name: str, nth: int) -> Mapping[str, Any]:
        again = answers is not None and (name, nth) == (action, visit)
        recorded_inputs = own.inputs(answers) if again and answers is not None else {}
        return {**inherited_inputs(name, nth), **recorded_inputs, **inputs}

    def applies(running: Machine, name: str, nth: int) -> bool:
        return parent is not None and applies_recorded(parent, running, name, nth)

    script = forward(machine, halts, inputs_for, applies=applies)
    return Execution(session, machine, script, new=False)


# -- replay ---------------------------------------------------------------------------------


def new_replay(env: Env, run: Run, start: At | None) -> tuple[Execution, Tally, list[Placed]]:
    """A re-execution of *run* on its recorded calls, and nothing else."""
    run = run.refresh()
    refuse_running(run, "replay")
    recording = Recording.of(run)
    first = 0 if start is None else run[start].seq
    expected = recording.trajectory.rows(first)
    entry = expected[0].row.action if expected else None
    for placed in expected:
        _refuse_foreign(env, run, placed.row.action)
    batch = Batch()
    cells = recording.cells_entering(first)
    strict = replace(env, cache="replay")
    row = run_row(
        strict, batch, "replay", cells, label=None, prior=_prior(recording, first), halts=(),
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


def _replayed_status(run: Run) -> Any:
    return "halted" if run.status == "interrupted" else run.status


# -- refusals -------------------------------------------------------------------------------


def refuse_running(run: Run, verb: str) -> None:
    """Refuse to touch a run that another owner is executing."""
    if run.refresh().status == "running":
        raise RunBusyError(
            f"Run {run.id} is still running, so it cannot be {verb}ed yet. Wait until it ends, "
            "or stop it.".replace("forked", "forked").replace("resumeed", "resumed"),
            run_id=run.id,
        )


def _refuse_foreign(env: Env, run: Run, action: str) -> None:
    if action not in env.spec.action_names:
        raise StepNotFoundError(
            f"Run {run.id} executed {action!r}, which this application does not have. "
            f"{did_you_mean(action, env.spec.action_names)} Give Rewind the application that "
            "the run was recorded with.",
            run_id=run.id,
            at=action,
        )


def _refuse_changed_code(env: Env, recording: Recording, placed: Placed) -> None:
    changed = changed_code(env.spec.code, recording.trajectory.rows(placed.seq))
    if changed:
        raise CodeChangedError(
            f"The code of {', '.join(map(repr, changed))} changed since run {recording.run.id} "
            "was recorded, so its effect and the override's could not be told apart. Record a "
            "new run, or pass allow_code_change=True to have both.",
            actions=changed,
        )


def _prior(recording: Recording, seq: int) -> str | None:
    before = recording.trajectory.at(seq - 1) if seq > 0 else None
    return recording.run._row.prior if before is None else before.row.action  # noqa: SLF001
