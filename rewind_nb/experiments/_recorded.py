"""What was recorded where an axis replaces something, to show beside what replaces it."""

from __future__ import annotations

from typing import Any

from rewind_nb import _path
from rewind_nb._run import At, Run
from rewind_nb._steps import Step
from rewind_nb._store import _read
from rewind_nb.capture import _overrides
from rewind_nb.capture._context import RecordedCalls
from rewind_nb.errors import RewindError, StepNotFoundError
from rewind_nb.experiments._axes import OF_CALLS, Axis


def recorded_value(run: Run, step: Step, axis: Axis) -> Any:
    """The recorded value; None where there is none, or it is not one value."""
    if axis.kind in OF_CALLS:
        return _of_call(step, axis)
    if axis.path is None:
        return None
    if axis.kind == "inputs":
        return step.inputs.get(axis.path)
    if axis.kind == "state":
        return run.state_at(step).get(axis.path)
    if axis.kind == "output":
        return step.writes.get(axis.path)
    found = _path.get(dict(step.writes), axis.path)
    return None if found is _path.MISSING else found


def at_of(run: Run, address: str) -> At:
    """The step at a stored address, as a fork takes it.

    Raises:
        StepNotFoundError: there is none.
    """
    found = next((step for step in run.walk() if step.address == address), None)
    if found is None:
        raise StepNotFoundError(f"Run {run.id} has no step {address}.", run_id=run.id)
    return found if found.path else found.seq


def _of_call(step: Step, axis: Axis) -> Any:
    rows = RecordedCalls(step.store.read(_read.call_rows, step.executed_key))
    family = "tool" if axis.kind.startswith("tool_") else "model"
    try:
        row = _overrides.addressed(rows.logical(family), axis.kind, axis.call, step.label)
        value = _overrides.recorded_value(step.store, row, axis.kind)
    except RewindError:
        return None
    if axis.path is None:
        return value
    return value.get(axis.path) if isinstance(value, dict) else None
