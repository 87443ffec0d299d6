"""What a verb refuses before it does anything."""

from __future__ import annotations

from rewind_nb._code import explain
from rewind_nb._coded import code_parts, kept_contents
from rewind_nb._execution import Env
from rewind_nb._instead import Instead
from rewind_nb._model import RunRow
from rewind_nb._recording import Recording
from rewind_nb._run import Run
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


def refuse_changed_code(
    env: Env, recording: Recording, seq: int, given: Instead | None = None
) -> None:
    """Refuse to fork across a change of code.

    Args:
        given: what the fork executes instead, to which that does not matter.

    Raises:
        CodeChangedError: an action at or after *seq* is not what it was; it says what changed.
    """
    if code_is_the_same(env, recording):
        return
    rows = recording.rows(seq)
    if lost := lost_code(env, recording, rows, given):
        raise CodeChangedError(
            f"Run {recording.run.id} executed at {', '.join(map(repr, lost))} what was given as "
            "action=, and this Rewind does not have that code: it was given in another process, or "
            "to another Rewind, and code is not stored. Pass it again as action=, or fork the run "
            "that it was given for. To execute the application's own code there, pass "
            "allow_code_change=True.",
            actions=lost,
        )
    changes = _code_changes(env, recording, rows, given)
    if changes:
        known = [f"In {action!r}: {words}. " for action, words in changes.items() if words]
        raise CodeChangedError(
            f"The code of {', '.join(map(repr, changes))} changed since run {recording.run.id} "
            "was recorded, so its effect and the override's could not be told apart. "
            f"{''.join(known)}Record a new run, or pass allow_code_change=True to have both.",
            actions=tuple(changes),
            changes=changes,
        )


def refuse_lost_code(env: Env, run: Run) -> None:
    """Refuse to go on with a fork that executed code which is not here.

    Raises:
        CodeChangedError: it had an ``action=``, in another process or with another Rewind.
    """
    if run._row.mode.get("replaced") and run.id not in env.instead:  # noqa: SLF001
        raise CodeChangedError(
            f"Run {run.id} executes a callable that it was given as action=, and this Rewind does "
            "not have it. Fork it again from its parent with that callable.",
            actions=(),
        )


def lost_code(
    env: Env, recording: Recording, rows: list[Placed], given: Instead | None = None
) -> tuple[str, ...]:
    """The actions of these steps, those in tasks too, that executed an ``action=`` not at hand.

    Code cannot be stored: the Rewind that was given it has it, and no other.

    Args:
        given: what is given anew.
    """
    parts = dict.fromkeys(part.run_id for part in recording.trajectory.parts)
    runs = (recording.store.row(run_id) for run_id in parts)
    if not any(row.mode.get("replaced") and row.id not in env.instead for row in runs):
        return ()
    here = Instead() if given is None else given
    here = here.over(env.instead.get(recording.run.id))
    found: dict[str, None] = {}
    for top in (placed.row for placed in rows):
        for row in (top, *recording.inside(top)):
            told = [o.value for o in recording.given(row) if o.kind == "action"]
            own = None if row.path else env.spec.code.get(row.action)
            same = own is not None and recording.same_code(row, own)
            if told and not same and not here.covers(row.path, row.action, row.visit):
                found[row.action] = None
    return tuple(found)


def own_code(parent: Run, actions: tuple[str, ...]) -> str:
    """What to note on a fork that was let go on without code which its parent executed."""
    return (
        f"{', '.join(map(repr, actions))} executed the application's own code: this Rewind does "
        f"not have the action= that run {parent.id} executed there"
    )


def code_is_the_same(env: Env, recording: Recording) -> bool:
    """Whether all of the application is what it was when the recording was made.

    Every action, condition and transition, as one hash: no step is read.
    """
    described, code = env.described.hash, env.spec.code
    for run_id in dict.fromkeys(part.run_id for part in recording.trajectory.parts):
        row = recording.store.row(run_id)
        if row.mode.get("replaced") and run_id not in env.instead:
            return False
        if any(found != described for found in (row.graph, *_resumed_with(row))):
            return False
        for action, kept in (row.containers or {}).items():
            if action in code and not code[action].holds(kept):
                return False
    return True


def _resumed_with(row: RunRow) -> list[str]:
    return [call["code"] for call in row.halts if "code" in call]


def changed_code(env: Env, recording: Recording, rows: list[Placed]) -> tuple[str, ...]:
    """The actions of these steps whose code is not what it was when they were recorded."""
    return tuple(_code_changes(env, recording, rows))


def _code_changes(
    env: Env, recording: Recording, rows: list[Placed], given: Instead | None = None
) -> dict[str, str]:
    """Those actions, each with what changed; "" where the recording does not say so."""
    changes: dict[str, str] = {}
    for row in (p.row for p in rows):
        now = env.code_of(recording.run, row)
        if row.code is None or now is None or row.action in changes:
            continue
        if given is not None and given.covers(row.path, row.action, row.visit):
            continue
        if not recording.same_code(row, now):
            parts = code_parts(env.store, row)
            was = now.parts if parts is None else parts  # then only the contents are known
            held = kept_contents(env.store, row)
            changes[row.action] = explain(was, now.parts, held, now.containers)
    return changes
