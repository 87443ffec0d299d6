"""Making a replay ready: the recorded run again, on its recorded calls and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rewind_nb._burr import Machine
from rewind_nb._describe import error_line
from rewind_nb._divergence import Divergence
from rewind_nb._drive import Ended, Script, stopped_by
from rewind_nb._execution import Env, Execution, run_row
from rewind_nb._matching import Matcher
from rewind_nb._model import RunStatus, StepRow
from rewind_nb._outcome import Applied, step_key
from rewind_nb._proof import Proof
from rewind_nb._recording import Recording, put_again
from rewind_nb._refusals import changed_code, lost_code, refuse_foreign, refuse_running
from rewind_nb._run import At, Run
from rewind_nb._session import Session
from rewind_nb._store import Batch, Store, _read
from rewind_nb._trajectory import Placed, executed
from rewind_nb.capture._guard import no_connections
from rewind_nb.errors import ConfigError, OverrideNotConsumedError


def new_replay(
    env: Env, run: Run, start: At | None, hooks: str | None
) -> tuple[Execution, Tally, list[Placed]]:
    """A re-execution of *run* on its recorded calls, and nothing else.

    Args:
        hooks: ``"user"`` to let the application's own Burr hooks fire.
    """
    if hooks not in (None, "user"):
        raise ConfigError(
            f"hooks={hooks!r}: a replay fires no hook of the application (None) or all of them "
            '("user").'
        )
    run = run.refresh()
    recording = Recording.of(run)
    refuse_running(run)
    first = 0 if start is None else run[start].top.seq
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
    plan = env.plan(
        cache="replay",
        strict=True,
        recorded=recording.at,
        overrides=lambda lane, name, n: _given(recording, recording.at(lane, name, n)),
        decide=lambda track, name, n, _inputs, _code: put_again(
            recording, recording.at(track.lane, name, n)
        ),
    )
    session = Session(env.store, row, plan, env.told(), env.spec.code)
    plan.instead = env.instead_of(run.id)
    session.standing(cells, seq=first, prior=row.prior, visits=recording.visits_before(first))
    adapters = env.spec.adapters if hooks == "user" else ()
    machine = Machine(env.spec, session, entry=entry, adapters=adapters)
    tally = Tally(
        code_changed=changed_code(env, recording, expected),
        code_lost=lost_code(env, recording, expected),
    )
    ended = Ended(_replayed_status(run), run.next_action)
    script = replaying(
        machine, Matcher(recording, session), expected, recording.inputs, tally, ended, run.note,
        cut_short=run.status == "interrupted",
    )  # fmt: skip
    return Execution(session, machine, script, around=no_connections), tally, expected


def _given(recording: Recording, row: StepRow | None) -> list[Applied]:
    """The overrides of a recorded step; where that was its failure, they are to be consumed."""
    given = recording.overrides(row)
    error = None if row is None else row.error
    unused = error is not None and error.type.endswith(OverrideNotConsumedError.__name__)
    return (
        [replace(a, own=a.override in recording.run.overrides) for a in given] if unused else given
    )


def _replayed_status(run: Run) -> RunStatus:
    return "halted" if run.status == "interrupted" else run.status


@dataclass(slots=True)
class Tally:
    """What a replay has counted so far."""

    steps: int = 0
    identical: int = 0
    executed: int = 0
    applied: int = 0
    divergence: Divergence | None = None
    code_changed: tuple[str, ...] = ()
    code_lost: tuple[str, ...] = ()


InputsOf = Callable[[StepRow], Mapping[str, Any]]


def replaying(
    machine: Machine,
    matcher: Matcher,
    expected: list[Placed],
    inputs_of: InputsOf,
    tally: Tally,
    end: Ended,
    failure: str | None,
    *,
    cut_short: bool,
) -> Script:
    """Execute every recorded step on its recorded calls, and stop at the first difference.

    Args:
        end: how the recorded run ended, which is how an identical replay ends.
        failure: what stopped it, where that was a condition.
        cut_short: it was interrupted.
    """
    due = [p for p in expected if p.row.status in ("complete", "failed")]
    inside = [matcher.inside(placed) for placed in due]
    tally.steps = len(due) + sum(map(len, inside))
    for placed, tasks in zip(due, inside, strict=True):
        row = placed.row
        if (update := matcher.update(row)) is not None:
            machine.update(update)
        way = _way_on(machine)
        if way != row.action:
            tally.divergence = _other_way(placed, row.action, way)
            return _stopped_at(way)
        inputs = inputs_of(row)
        if not machine.put_in(row.action, inputs):
            error = yield inputs
            if error is not None and not isinstance(error, Exception):
                return stopped_by(error, row.action)
        tally.divergence = matcher.difference(placed, tasks)
        if tally.divergence is not None:
            last = machine.track.last
            failed = last is not None and last.status == "failed"
            return Ended(
                "failed" if failed else "halted", machine.next_action if not failed else row.action
            )
        reproduced = [row, *tasks]
        applied = sum(1 for step in reproduced if step.source == "override")
        tally.identical += len(reproduced)
        tally.applied += applied
        tally.executed += len(reproduced) - applied
    if due and due[-1].row.status == "complete":
        taken, way = due[-1].row.transition or {}, _way_on(machine)
        recorded = (failure or "an exception") if taken.get("failed") else taken.get("to")
        same = str(way) in (failure or "") if isinstance(way, _Raised) else way == recorded
        unknown = cut_short and taken.get("failed")  # a condition was interrupted
        if not (same or unknown):
            tally.divergence = _other_way(due[-1], recorded, way)
            return _stopped_at(way)
    return end


class _Raised(str):
    """What the condition of a transition raised, in one line."""

    __slots__ = ()


def _way_on(machine: Machine) -> str | None:
    """The next action, None at the end, or what a condition raised."""
    try:
        return machine.next_action
    except Exception as error:  # noqa: BLE001  (it is compared with the recording)
        return _Raised(error_line(error))


def _stopped_at(way: str | None) -> Ended:
    return Ended("complete" if way is None else "halted", None if isinstance(way, _Raised) else way)


def _other_way(placed: Placed, before: str | None, after: str | None) -> Divergence:
    row = placed.row
    raised = isinstance(after, _Raised)
    return Divergence(
        seq=placed.seq,
        action=row.action,
        visit=row.visit,
        path="@next",
        before=before,
        after=after,
        why="The condition of a transition raised."
        if raised
        else "The transitions led to another action: a condition depends on more than the state.",
    )


# -- what it proves -----------------------------------------------------------------------


def proof_of(
    store: Store,
    session: Session,
    tally: Tally,
    expected: list[Placed],
    original: Run,
) -> Proof:
    """The proof of a replay that has ended."""
    replayed = store.run(session.run.id)
    usage, made = replayed.usage, replayed.history(inside=True)
    recording = Recording.of(original)
    rows = [step for p in expected for step in (p.row, *recording.inside(p.row))]
    return Proof(
        steps=tally.steps,
        identical=tally.identical,
        executed=tally.executed,
        applied=tally.applied,
        live_calls=sum(step.row.live_calls for step in made),
        tokens=None if usage is None else usage.total_tokens,
        recorded_calls=sum(r.live_calls + r.played_calls for r in rows),
        recorded_tokens=_tokens(store, rows),
        code_changed=tally.code_changed,
        code_lost=tally.code_lost,
        uncaptured=tuple(dict.fromkeys(what for s in made for what in s.uncaptured)),
        divergence=tally.divergence,
        run=replayed,
        original=original,
    )


def _tokens(store: Store, rows: list[StepRow]) -> int | None:
    """What the answers of these steps cost when they were asked for."""
    total = 0
    for row in (executed(store, row) for row in rows):
        if row.calls == 0:
            continue
        for call in store.read(_read.call_rows, step_key(row)):
            if call.kind == "model" and call.status == "complete" and call.source != "override":
                if call.usage is None or call.usage.total_tokens is None:
                    return None
                total += call.usage.total_tokens
    return total
