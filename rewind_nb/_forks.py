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
from rewind_nb._execution import (
    SUPPLIED,
    Env,
    Execution,
    Recording,
    put_again,
    run_row,
)
from rewind_nb._itinerary import Itinerary, fork_calls
from rewind_nb._lane import Lane
from rewind_nb._model import RunRow, StepRow
from rewind_nb._outcome import Applied, encoded_overrides, step_key
from rewind_nb._plan import Planned, Target, plan_override
from rewind_nb._refusals import refuse_changed_code, refuse_foreign, refuse_running
from rewind_nb._run import At, Run
from rewind_nb._session import Session
from rewind_nb._store import Batch
from rewind_nb._track import Put, Track
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
    step = parent[at]
    top = recording.trajectory.at(step.top.seq)
    assert top is not None  # noqa: S101  (parent[at] found it)
    refuse_foreign(env, parent, top.row.action)
    if not allow_code_change:
        refuse_changed_code(env, recording, top.seq)
    target = _target(env, parent, recording, top, step.row)
    planned = None if given is None else plan_override(target, *given, call)
    batch = Batch()
    facts: dict[str, Any] = {"reuse": reuse, "at": top.seq}
    if step.path:
        facts["inside"] = [step.path, step.action, step.visit]
    plain = halt_after is None and halt_before is None and env.cache == "auto"
    nothing = (
        planned is not None
        and planned.unchanged
        and plain
        and not allow_code_change
        and parent.status in ("complete", "halted")
    )
    start = len(parent) if nothing else top.seq
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
        session = Session(env.store, row, env.plan(), env.told(), env.spec.code)
        session.standing(cells, seq=start, prior=prior)
        machine = Machine(env.spec, session)
        return Execution(session, machine, _nothing(Ended(parent.status, parent.next_action)))
    limit = 4 * len(parent) + 100 if max_steps is None else max_steps
    return _forward_from(env, row, recording, top, target.row, planned, limit)


def _target(env: Env, parent: Run, recording: Recording, top: Placed, row: StepRow) -> Target:
    """The step that the override is for: *top* itself, or a step of a task inside it."""
    described = parent.graph_description
    if row.path:
        first = next(r for r in recording.inside(top.row) if r.path == row.path)
        described = env.store.value(first.graph) if first.graph else {"actions": []}
        top = top._replace(row=row, seq=row.seq)
    declared = {a["name"]: a for a in described["actions"]}
    return Target(env.store, recording.trajectory, top, declared.get(row.action, {}))


def _nothing(ended: Ended) -> Script:
    return ended
    yield {}


def _forward_from(
    env: Env,
    row: RunRow,
    recording: Recording,
    top: Placed,
    first: StepRow,
    planned: Planned | None,
    limit: int,
) -> Execution:
    """Execute from *top* on, answered by *recording*, with an override at the step *first*.

    *first* is *top*'s own row, or that of a step of a task inside it.
    """
    start, action = top.seq, top.row.action
    own = [] if planned is None else [Applied(planned.override, own=True)]
    before = _before(recording, top.row, first)

    def is_first(lane: Lane, name: str, visit: int) -> bool:
        return (lane.path, name, visit) == (first.path, first.action, first.visit)

    def overrides(lane: Lane, name: str, visit: int) -> list[Applied]:
        inherited = recording.overrides(recording.at(lane, name, visit))
        return inherited + own if is_first(lane, name, visit) else inherited

    def puts(track: Track, name: str, visit: int) -> Put | None:
        lane = track.lane
        if planned is not None and planned.writes is not None and is_first(lane, name, visit):
            return _planned_put(recording, first, planned)
        if (lane.path, name, visit) in before:
            earlier = before[lane.path, name, visit]
            origin = earlier.origin or step_key(earlier)
            return Put(earlier, "inherited", "before the fork point", origin=origin)
        return put_again(recording, recording.at(lane, name, visit))

    plan = env.plan(
        epoch=row.epoch,
        recorded=recording.at,
        overrides=overrides,
        puts=puts,
    )
    session = Session(env.store, row, plan, env.told(), env.spec.code)
    session.standing(
        recording.cells_entering(start),
        seq=start,
        prior=row.prior,
        visits=recording.visits_before(start),
    )
    machine = Machine(env.spec, session, entry=action, adapters=env.spec.adapters)
    way = Itinerary(env.store, row.halts, start, recording)
    script = forward(machine, way, max_steps=limit, stop_for_inputs=True)
    return Execution(session, machine, script)


def _before(
    recording: Recording, top: StepRow, first: StepRow
) -> dict[tuple[str, str, int], StepRow]:
    """The steps of tasks that come before *first*, which is inside *top*: they are shared."""
    found: dict[tuple[str, str, int], StepRow] = {}
    if not first.path:
        return found
    inside = recording.inside(top)
    for path in {row.path for row in inside if first.path.startswith(row.path)}:
        for row in (row for row in inside if row.path == path):
            place = f"{path}{row.action}:{row.visit}"
            if row == first or first.path.startswith(f"{place}["):
                break
            found[path, row.action, row.visit] = row
    return found


def _planned_put(recording: Recording, first: StepRow, planned: Planned) -> Put:
    """The output that an override supplies at the step it is for."""
    assert planned.writes is not None  # noqa: S101  (checked by the caller)
    writes = {k: Cell.of(v, k) for k, v in planned.writes.items()}
    result = None
    if first.result is None:
        result = Cell.of({}, "@result")
    else:
        old = recording.store.value(first.result)
        if isinstance(old, dict):
            new = {k: planned.writes[k] if k in planned.keys else v for k, v in old.items()}
            result = Cell.of(new, "@result")
    given = [applied.override for applied in recording.overrides(first)]
    return Put(
        first, "override", SUPPLIED, overrides=[*given, planned.override], writes=writes,
        result=result,
    )  # fmt: skip
