"""What an override supplies at the step it is for, so that nothing executes there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rewind_nb._cells import Cell
from rewind_nb._combine import SUPPLIES_OUTPUT, plan_overrides
from rewind_nb._execution import Env
from rewind_nb._model import Override, StepRow
from rewind_nb._plan import Planned, Target
from rewind_nb._reasons import SUPPLIED
from rewind_nb._recording import Recording
from rewind_nb._run import Run
from rewind_nb._track import Put
from rewind_nb._trajectory import Placed

Place = tuple[str, str, int]  # path, action, visit


def target_of(env: Env, parent: Run, recording: Recording, top: Placed, row: StepRow) -> Target:
    """The step that the override is for: *top* itself, or a step of a task inside it."""
    described = parent.graph_description
    if row.path:
        first = next(r for r in recording.inside(top.row) if r.path == row.path)
        described = env.store.value(first.graph) if first.graph else {"actions": []}
        top = top._replace(row=row, seq=row.seq)
    declared = {a["name"]: a for a in described["actions"]}
    return Target(recording.store, recording.trajectory, top, declared.get(row.action, {}))


def supplied(
    env: Env, recording: Recording, at: int, place: Place, overrides: Sequence[Override]
) -> Put | None:
    """What a fork puts in at its first step, made again from its stored overrides.

    Args:
        recording: that of its parent.
        at: which step of the run that is, or is inside of.

    Returns:
        None where the step is to execute.
    """
    given = [(o.kind, o.value, o.call) for o in overrides if o.kind in SUPPLIES_OUTPUT]
    top = recording.trajectory.at(at)
    if not given or top is None:
        return None
    inside = (r for r in recording.inside(top.row) if (r.path, r.action, r.visit) == place)
    first = next(inside) if place[0] else top.row
    planned = plan_overrides(target_of(env, recording.run, recording, top, first), given)
    return planned_put(recording, first, replace(planned, overrides=tuple(overrides)))


def planned_put(recording: Recording, first: StepRow, planned: Planned) -> Put:
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
    given = [*recording.given(first), *planned.overrides]
    return Put(first, "override", SUPPLIED, overrides=given, writes=writes, result=result)
