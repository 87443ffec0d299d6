"""Making a replay ready: the recorded run again, on its recorded calls and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rewind_nb._burr import Machine
from rewind_nb._divergence import Divergence
from rewind_nb._drive import Ended, Script, stopped_by
from rewind_nb._execution import Env, Execution, Recording, put_again, run_row
from rewind_nb._matching import Matcher
from rewind_nb._model import RunStatus, StepRow
from rewind_nb._outcome import step_key
from rewind_nb._proof import Proof
from rewind_nb._refusals import changed_code, refuse_foreign, refuse_running
from rewind_nb._run import At, Run
from rewind_nb._session import Session
from rewind_nb._store import Batch, Store, _read
from rewind_nb._trajectory import Placed, executed
from rewind_nb.capture._guard import no_connections
from rewind_nb.errors import ConfigError


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
    plan = env.plan(
        cache="replay",
        strict=True,
        recorded=recording.at,
        overrides=lambda lane, name, n: recording.overrides(recording.at(lane, name, n)),
        puts=lambda track, name, n: put_again(recording, recording.at(track.lane, name, n)),
    )
    session = Session(env.store, row, plan, env.told(), env.spec.code)
    session.standing(cells, seq=first, prior=row.prior, visits=recording.visits_before(first))
    adapters = env.spec.adapters if hooks == "user" else ()
    machine = Machine(env.spec, session, entry=entry, adapters=adapters)
    tally = Tally()
    ended = Ended(_replayed_status(run), run.next_action)
    script = replaying(
        machine, Matcher(recording, session), expected, recording.inputs, tally, ended
    )
    return Execution(session, machine, script, around=no_connections), tally, expected


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


InputsOf = Callable[[StepRow], Mapping[str, Any]]


def replaying(
    machine: Machine,
    matcher: Matcher,
    expected: list[Placed],
    inputs_of: InputsOf,
    tally: Tally,
    end: Ended,
) -> Script:
    """Execute every recorded step on its recorded calls, and stop at the first difference.

    Args:
        end: how the recorded run ended, which is how an identical replay ends.
    """
    due = [p for p in expected if p.row.status in ("complete", "failed")]
    inside = [matcher.inside(placed) for placed in due]
    tally.steps = len(due) + sum(map(len, inside))
    for placed, tasks in zip(due, inside, strict=True):
        row = placed.row
        if machine.next_action != row.action:
            tally.divergence = _other_way(machine, placed)
            return Ended(
                "complete" if machine.next_action is None else "halted", machine.next_action
            )
        if not machine.put_in():
            error = yield inputs_of(row)
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
        recorded = (due[-1].row.transition or {}).get("to")
        if _next_action(machine) != recorded:
            tally.divergence = replace(
                _other_way(machine, due[-1]), before=recorded, after=machine.next_action
            )
            return Ended("halted" if machine.next_action else "complete", machine.next_action)
    return end


def _next_action(machine: Machine) -> str | None:
    try:
        return machine.next_action
    except Exception:  # noqa: BLE001  (a condition that failed when it was recorded, too)
        return None


def _other_way(machine: Machine, placed: Placed) -> Divergence:
    row = placed.row
    return Divergence(
        seq=placed.seq,
        action=row.action,
        visit=row.visit,
        path="@next",
        before=row.action,
        after=machine.next_action,
        why="The transitions led to another action: a condition depends on more than the state.",
    )


# -- what it proves -----------------------------------------------------------------------


def proof_of(
    store: Store,
    code: Mapping[str, Any],
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
        code_changed=changed_code(store, code, expected),
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
