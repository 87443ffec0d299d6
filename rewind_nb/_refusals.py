"""What a verb refuses before it does anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rewind_nb._execution import Env, Recording
from rewind_nb._run import Run
from rewind_nb._store import Store
from rewind_nb._trajectory import Placed
from rewind_nb.errors import (
    CodeChangedError,
    NothingToResumeError,
    RunBusyError,
    StepNotFoundError,
    did_you_mean,
)


def refuse_running(run: Run) -> None:
    """Refuse a run that another owner is executing.

    Raises:
        RunBusyError: it is `running`, and its process is alive.
    """
    if run.status == "running":
        raise RunBusyError(
            f"Run {run.id} is still running, so its recording is not whole yet. Wait until it "
            "ends, or stop it.",
            run_id=run.id,
        )


def refuse_complete(run: Run) -> None:
    """Refuse to go on with a run that has ended.

    Raises:
        NothingToResumeError: no action is left.
    """
    if run.status == "complete":
        raise NothingToResumeError(
            f"Run {run.id} is complete: no action is left to execute. To try something else "
            "from one of its steps, fork it.",
            run_id=run.id,
        )


def refuse_foreign(env: Env, run: Run, action: str) -> None:
    """Refuse a run of another application.

    Raises:
        StepNotFoundError: the application has no such action.
    """
    if action not in env.spec.action_names:
        raise StepNotFoundError(
            f"Run {run.id} executed {action!r}, which this application does not have. "
            f"{did_you_mean(action, env.spec.action_names)} Give Rewind the application that "
            "the run was recorded with.",
            run_id=run.id,
            at=action,
        )


def refuse_changed_code(env: Env, recording: Recording, seq: int) -> None:
    """Refuse to fork across a change of code.

    Raises:
        CodeChangedError: an action at or after *seq* is not what it was.
    """
    changed = changed_code(env.store, env.spec.code, recording.rows(seq))
    if changed:
        raise CodeChangedError(
            f"The code of {', '.join(map(repr, changed))} changed since run {recording.run.id} "
            "was recorded, so its effect and the override's could not be told apart. Record a "
            "new run, or pass allow_code_change=True to have both.",
            actions=changed,
        )


def changed_code(store: Store, code: Mapping[str, Any], rows: list[Placed]) -> tuple[str, ...]:
    """The actions of these steps whose code is not what it was when they were recorded."""
    stable: dict[str, dict[str, dict[str, str]]] = {}
    changed: dict[str, None] = {}
    for row in (p.row for p in rows):
        if row.code is None or row.action not in code or row.action in changed:
            continue
        if row.run_id not in stable:
            stable[row.run_id] = store.row(row.run_id).containers or {}
        now = code[row.action]
        kept = stable[row.run_id].get(row.action, {})
        same = all(now.containers.get(k) == d for k, d in kept.items() if d)
        if now.digest != row.code or not same:
            changed[row.action] = None
    return tuple(changed)
