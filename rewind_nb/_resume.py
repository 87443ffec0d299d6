"""Making a halted, failed or interrupted run ready to go on, in another process too.

No finished step runs again. An interrupted step plays back the answers it had; a failed
one asks again, for its answers may be why it failed. Every attempt stays on record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rewind_nb import _owner
from rewind_nb._burr import Machine
from rewind_nb._code import CodeFingerprint
from rewind_nb._converge import Convergence
from rewind_nb._drive import forward
from rewind_nb._execution import Env, Execution, invocation
from rewind_nb._itinerary import Itinerary
from rewind_nb._lane import Lane
from rewind_nb._model import RunRow, StepRow
from rewind_nb._outcome import Applied, reads_hold, step_key
from rewind_nb._reasons import FINISHED
from rewind_nb._recording import Recording
from rewind_nb._refusals import (
    refuse_complete,
    refuse_foreign,
    refuse_lost_code,
    refuse_running,
)
from rewind_nb._reuse import Decision, reuse_of
from rewind_nb._run import Run
from rewind_nb._session import Session
from rewind_nb._store import Batch
from rewind_nb._supplied import supplied
from rewind_nb._tail import written_out
from rewind_nb._track import Put, Track
from rewind_nb._trajectory import Placed, step_inside


def resumed(
    env: Env,
    run: Run,
    *,
    inputs: Mapping[str, Any],
    halt_after: list[str],
    halt_before: list[str],
    effects: Any = None,
) -> Execution:
    """The same run, going on where it halted, failed or was interrupted.

    Args:
        effects: the stubs it set out with, which no store keeps.
    """
    run = run.refresh()
    own = Recording.of(run)  # reads the row and the steps together; what follows goes by them
    refuse_running(run)
    refuse_complete(run)
    refuse_lost_code(env, run)
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
    stopped = run.status != "halted"  # in the middle of a call, whose conditions still hold
    cut_short = stopped and bool(row.halts) and not halt_after and not halt_before
    if not cut_short:  # else the call that was cut short goes on, with its own conditions
        batch = Batch()
        call = invocation(env.spec, batch, seq, inputs, halt_after, halt_before)
        if stopped and row.halts:
            earlier = dict(row.halts[-1]["inputs"])
            call["inputs"] = list({**earlier, **dict(call["inputs"])}.items())
        row = replace(row, halts=(*row.halts, call))
        env.store.submit(batch, wake=False)
    opening, chain = Batch(), None
    if row.tail is not None:
        row, opening, chain = written_out(own, row)
    if row.halts and (code := env.described.hash) != was.graph:
        row = replace(row, halts=(*row.halts[:-1], {**row.halts[-1], "code": code}))
    parent = None if row.parent is None else Recording.of(env.store.run(row.parent), row.parent_len)
    answers = last.row if last is not None and unfinished else None
    again = _Again.of(run, seq, action, visits[action or ""] + 1)
    return _resume_from(
        env, row, own, parent, action, seq, answers, again, dict(inputs),
        passing=cut_short, effects=effects, was=was, over=_was_over(run, last), opening=opening,
        chain=chain,
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


@dataclass(frozen=True, slots=True)
class _Again:
    """The fork's own overrides, where its first step has not completed yet."""

    overrides: list[Applied]
    at: tuple[str, str, int] | None  # path, action, visit

    @classmethod
    def of(cls, run: Run, seq: int, action: str | None, visit: int) -> _Again:
        row = run._row  # noqa: SLF001
        if row.kind != "fork" or seq != row.at or row.mode.get("at") != row.at or action is None:
            return cls([], None)
        path, name, nth = row.mode.get("inside") or ("", action, visit)
        return cls([Applied(o, own=True) for o in run.overrides], (path, name, nth))

    def given(self, lane: Lane, action: str, visit: int) -> list[Applied]:
        """Those for this step."""
        return self.overrides if self.at == (lane.path, action, visit) else []


def _resume_from(
    env: Env,
    row: Any,
    own: Recording,
    parent: Recording | None,
    action: str | None,
    seq: int,
    answers: StepRow | None,
    again: _Again,
    inputs: dict[str, Any],
    *,
    passing: bool,
    effects: Any,
    was: RunRow,
    over: bool,
    opening: Batch,
    chain: str | None,
) -> Execution:
    unfinished, mine = _Unfinished(own, answers), own.run.overrides

    decide = (
        None
        if parent is None
        else reuse_of(env, row, parent, again.at, overridden=bool(again.overrides))
    )

    def recorded(lane: Lane, name: str, nth: int) -> StepRow | None:
        if (row := unfinished.answered(lane, name, nth)) is not None:
            return row
        return None if parent is None else parent.at(lane, name, nth)

    def overrides(lane: Lane, name: str, nth: int) -> list[Applied]:
        if (row := unfinished.row(lane, name, nth)) is not None:
            return [Applied(o, own=o in mine) for o in own.given(row)]
        inherited = [] if parent is None else parent.overrides(parent.at(lane, name, nth))
        return inherited + again.given(lane, name, nth)

    def decided(
        track: Track, name: str, nth: int, inputs: Mapping[str, Any], code: CodeFingerprint | None
    ) -> Decision | None:
        if (put := unfinished.finished(track, name, nth)) is not None:
            return put
        if parent is not None and again.given(track.lane, name, nth):
            here = (track.lane.path, name, nth)
            if (put := supplied(env, parent, row.at, here, own.run.overrides)) is not None:
                return put
        return None if decide is None else decide(track, name, nth, inputs, code)

    plan = env.plan(
        cache=row.mode.get("cache", env.cache),  # the run's own, as it set out
        epoch=row.epoch,
        effects="live" if row.mode.get("effects") == "live" else effects,
        instead=env.instead_of(row.id),
        recorded=recorded,
        overrides=overrides,
        decide=decided,
        attempts={} if answers is None else {seq: answers.attempt + 1},
    )
    session = Session(env.store, row, plan, env.told(), env.spec.code, basis=was, opening=opening)
    session.standing(
        own.cells_entering(seq), seq=seq, prior=own.prior_of(seq), visits=own.visits_before(seq)
    )
    session.track.chain = chain  # that of steps which are only now written out
    machine = Machine(env.spec, session, entry=action, adapters=env.spec.adapters)
    way = Itinerary(env.store, row.halts, seq, parent, passing=passing, given=inputs)
    reuses = parent is not None and row.mode.get("reuse") == "unchanged"
    converge = (
        Convergence(env, parent, way, session, env.always).after if parent and reuses else None
    )
    between = passing and answers is None  # two steps: the first may have been the last
    return Execution(
        session,
        machine,
        forward(machine, way, stop_for_inputs=True, over=over, between=between, converged=converge),
    )


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """The attempt that did not complete: what it was answered, and what it had finished."""

    own: Recording
    attempt: StepRow | None

    def row(self, lane: Lane, action: str, visit: int) -> StepRow | None:
        """The step there of that attempt."""
        top = self.attempt
        if top is None or (lane.root or (action, visit)) != (top.action, top.visit):
            return None
        if lane.root is None:
            return top
        return step_inside(self.own.store, top, lane.path, action, visit)  # not of the new attempt

    def answered(self, lane: Lane, action: str, visit: int) -> StepRow | None:
        """The recorded step that answers; of one that failed only the effects it had."""
        return self.row(lane, action, visit)

    def finished(self, track: Track, action: str, visit: int) -> Put | None:
        """A step of a task that had finished, if what it read is what there is now."""
        row = self.row(track.lane, action, visit) if track.lane.path else None
        if row is None or row.status != "complete" or not reads_hold(row, track.cells):
            return None
        source = row.source if row.source in ("override", "inherited") else "reused"
        origin = row.origin or step_key(row)
        return Put(row, source, FINISHED, origin, overrides=self.own.given(row))
