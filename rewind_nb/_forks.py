"""Making a fork ready: check the override, share the steps before it, execute the rest.

The override enters after the transition into its step was taken, so that step is always
the first to execute (or to be put in, for ``output=`` and ``patch=``). Overrides that the
parent had itself are given again where its steps execute again: an unchanged fork of a
fork is that fork.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rewind_nb._burr import Machine
from rewind_nb._cells import Cells
from rewind_nb._code import CodeFingerprint
from rewind_nb._combine import Given, plan_overrides
from rewind_nb._converge import Convergence
from rewind_nb._drive import Ended, Script, forward
from rewind_nb._execution import Env, Execution, run_row
from rewind_nb._instead import Instead
from rewind_nb._itinerary import Itinerary, fork_calls
from rewind_nb._lane import Lane
from rewind_nb._model import ENDED, PLAYING, Reuse, RunRow, StepRow
from rewind_nb._outcome import Applied, encoded_overrides, step_key
from rewind_nb._reasons import BEFORE, EQUAL
from rewind_nb._recode import Coded, plan_action, plan_rerun
from rewind_nb._recording import Recording
from rewind_nb._refusals import (
    lost_code,
    own_code,
    refuse_changed_code,
    refuse_foreign,
    refuse_running,
)
from rewind_nb._reuse import Decision, reuse_of
from rewind_nb._run import At, Run
from rewind_nb._session import Plan, Session
from rewind_nb._store import Batch
from rewind_nb._supplied import Place, planned_put, target_of
from rewind_nb._track import Put, Track
from rewind_nb._trajectory import Placed
from rewind_nb.capture._effects import check_effects
from rewind_nb.errors import NothingToResumeError, OverrideError


def new_fork(
    env: Env,
    parent: Run,
    at: At | None,
    given: Sequence[Given] = (),
    *,
    recording: Recording | None = None,
    cell: str | None = None,
    reuse: Reuse = "unchanged",
    sample: int = 0,
    effects: Any = None,
    halt_after: list[str] | None = None,
    halt_before: list[str] | None = None,
    label: str | None = None,
    max_steps: int | None = None,
    allow_code_change: bool = False,
) -> Execution:
    """A fork of *parent* whose first own step is the one at *at*.

    Args:
        given: the overrides of that step, in their order; one, but for a cell of a grid.
        recording: the parent's, where it is at hand.
        cell: what it is called in its experiment.
    """
    fork = check_fork(
        env, parent, at, given, recording=recording, reuse=reuse, effects=effects,
        allow_code_change=allow_code_change,
    )  # fmt: skip
    plain = halt_after is None and halt_before is None and env.cache == "auto"
    nothing = fork.equal and plain and not allow_code_change
    return fork.ready(
        nothing,
        halt_after,
        halt_before,
        label=label,
        sample=sample,
        cell=cell,
        max_steps=max_steps,
    )


def check_fork(
    env: Env,
    parent: Run,
    at: At | None,
    given: Sequence[Given] = (),
    *,
    recording: Recording | None = None,
    reuse: Reuse = "unchanged",
    effects: Any = None,
    allow_code_change: bool = False,
) -> Fork:
    """A fork in the making, all that is asked of it checked; nothing is written."""
    refuse_running(parent)
    recording = recording or Recording.of(parent)
    coded = None
    by_action = [value for kind, value, _ in given if kind == "action"]
    if by_action:
        coded = plan_action(env, parent, at, by_action[0], recording)
        at = coded.at
    if at is None:
        raise OverrideError(
            'fork() needs to know where: pass `at`, such as "search", ("search", 2) or 3.'
        )
    step = parent[at]
    top = recording.trajectory.at(step.top.seq)
    assert top is not None  # noqa: S101  (parent[at] found it)
    refuse_foreign(env, parent, top.row.action)
    anew = None if coded is None else coded.instead
    if not allow_code_change:
        refuse_changed_code(env, recording, top.seq, anew)
    lost = lost_code(env, recording, recording.rows(top.seq), anew) if allow_code_change else ()
    others = [one for one in given if one[0] != "action"]
    if others:
        planned = plan_overrides(target_of(env, parent, recording, top, step.row), others)
        coded = Coded(at, planned) if coded is None else coded.beside(planned)
    return Fork(env, parent, recording, top, step.row, coded, reuse, effects, lost)


def new_rerun(
    env: Env, parent: Run, *, effects: Any, label: str | None, max_steps: int | None
) -> Execution:
    """The fork of *parent* whose override is the code of the application as it is now."""
    refuse_running(parent)
    if not len(parent):
        raise NothingToResumeError(
            f"Run {parent.id} has no step yet. Start a new one with rw.run(...)."
        )
    recording = Recording.of(parent)
    coded = plan_rerun(env, parent, recording)
    top = recording.trajectory.at(parent[coded.at].seq)
    assert top is not None  # noqa: S101  (the plan found it)
    refuse_foreign(env, parent, top.row.action)
    lost = lost_code(env, recording, recording.rows(top.seq))
    fork = Fork(env, parent, recording, top, top.row, coded, "unchanged", effects, lost)
    return fork.ready(fork.equal, None, None, label=label, sample=0, max_steps=max_steps)


@dataclass(slots=True)
class Fork:
    """A fork in the making.

    Attributes:
        top: the first step it does not share.
        first: *top*'s own row, or that of a step of a task inside it, which the override is for.
        lost: the actions whose code its parent was given, and nobody here has.
    """

    env: Env
    parent: Run
    recording: Recording
    top: Placed
    first: StepRow
    coded: Coded | None
    reuse: Reuse
    effects: Any
    lost: tuple[str, ...] = ()

    @property
    def equal(self) -> bool:
        """Whether the override is what was recorded, and the parent came to its end."""
        ended = self.parent.status in ENDED
        return ended and self.coded is not None and self.coded.planned.unchanged

    def ready(
        self,
        nothing: bool,
        halt_after: list[str] | None,
        halt_before: list[str] | None,
        *,
        label: str | None,
        sample: int,
        max_steps: int | None,
        cell: str | None = None,
    ) -> Execution:
        """The execution of it; with *nothing* to execute it shares all steps of the parent."""
        env, recording, parent = self.env, self.recording, self.parent
        start = len(parent) if nothing else self.top.seq
        cells, prior = recording.cells_entering(start), recording.prior_of(start)
        batch = Batch()
        halts = fork_calls(env, batch, recording, start, halt_after, halt_before)
        row = run_row(
            env, batch, "fork", cells, label=label, prior=prior, halts=halts, parent=parent,
            shared=start, overrides=self._stored(batch), epoch=sample, cell=cell, **self._mode(),
        )  # fmt: skip
        session = Session(env.store, row, self._plan(row), env.told(), env.spec.code, opening=batch)
        way = Itinerary(env.store, row.halts, start, recording)
        due = self.coded.everywhere if self.coded else frozenset()
        converge = Convergence(env, recording, way, session, env.always | due)
        note = self.coded.note if self.coded else None
        if nothing:
            session.note(note or f"{EQUAL}: nothing to execute")
            at_once = Ended(parent.status, parent.next_action)
            return self._nothing(session, cells, start, lambda: at_once)
        session.note(note)
        if self.lost:
            session.note(own_code(parent, self.lost))
        reuses = self.reuse == "unchanged"
        if reuses and self.coded is None and env.cache in PLAYING and converge.goes_on_alike(start):
            session.run = replace(row, tail=start)
            return self._nothing(session, cells, start, lambda: converge.rest(start))
        session.standing(cells, seq=start, prior=prior, visits=recording.visits_before(start))
        action, adapters = self.top.row.action, env.spec.adapters
        machine = Machine(env.spec, session, entry=action, adapters=adapters)
        script = forward(
            machine,
            way,
            max_steps=4 * len(parent) + 100 if max_steps is None else max_steps,
            stop_for_inputs=True,
            converged=converge.after if reuses else None,
        )
        return Execution(session, machine, script)

    def _stored(self, batch: Batch) -> str | None:
        if self.coded is None:
            return None
        stored, data = encoded_overrides(self.coded.planned.overrides)
        batch.content(data)
        return stored

    def _mode(self) -> dict[str, Any]:
        """What the row of the run says of how it was made."""
        effects = check_effects(self.effects, self._tools)
        mode: dict[str, Any] = {"reuse": self.reuse, "at": self.top.seq}
        if self.first.path:
            mode["inside"] = [self.first.path, self.first.action, self.first.visit]
        if effects is not None:
            mode["effects"] = effects if effects == "live" else sorted(effects)
        if self._instead() is not None:
            mode["replaced"] = True
        return mode

    def _tools(self) -> set[str]:
        """The names of the tools that the parent called."""
        return {c.name for step in self.parent.walk() for c in step.calls if c.kind == "tool"}

    def _instead(self) -> Instead | None:
        """What it executes instead of actions: what its parent did, and what it was given."""
        earlier = self.env.instead.get(self.parent.id)
        own = None if self.coded is None else self.coded.instead
        return earlier if own is None else own.over(earlier)

    def _nothing(
        self, session: Session, cells: Cells, start: int, ended: Callable[[], Ended]
    ) -> Execution:
        """Nothing is executed; *ended* says how the run ends."""
        session.standing(cells, seq=start, prior=session.run.prior)
        return Execution(session, Machine(self.env.spec, session), _at_once(ended))

    def _plan(self, row: RunRow) -> Plan:
        """What its steps take from the recording, with the override at the step `first`."""
        env, recording, top, first = self.env, self.recording, self.top.row, self.first
        planned = None if self.coded is None else self.coded.planned
        given = () if planned is None else planned.overrides
        own = [Applied(override, own=True) for override in given]
        everywhere = self.coded.everywhere if self.coded else frozenset()
        place = (first.path, first.action, first.visit)
        updated = recording.update(top)
        before = _before(recording, top, first)
        by_code = any(override.kind == "code" for override in given)
        decide = reuse_of(env, row, recording, place, overridden=bool(planned) and not by_code)
        instead, earlier = self._instead(), env.instead.get(self.parent.id) or Instead()
        anew = (self.coded.instead if self.coded else None) or Instead()
        if instead is not None:
            env.instead[row.id] = instead

        def overrides(lane: Lane, name: str, visit: int) -> list[Applied]:
            inherited = recording.overrides(recording.at(lane, name, visit))
            here = (lane.path, name, visit)
            if anew.covers(*here) or not earlier.covers(*here):  # its parent's code is not executed
                inherited = [one for one in inherited if one.override.kind != "action"]
            if updated and here == ("", top.action, top.visit):
                inherited.insert(0, Applied(updated, own=False))
            mine = here == place or (not lane.path and name in everywhere)
            return inherited + own if mine else inherited

        def decided(
            track: Track,
            name: str,
            visit: int,
            inputs: Mapping[str, Any],
            code: CodeFingerprint | None,
        ) -> Decision | None:
            here = (track.lane.path, name, visit)
            if planned is not None and planned.writes is not None and here == place:
                return planned_put(recording, first, planned)
            if here in before:
                earlier = before[here]
                origin = earlier.origin or step_key(earlier)
                return Put(earlier, "inherited", BEFORE, origin=origin)
            return decide(track, name, visit, inputs, code)

        return env.plan(
            epoch=row.epoch,
            recorded=recording.at,
            overrides=overrides,
            decide=decided,
            past=recording.store,
            effects=self.effects,
            instead=env.instead_of(row.id),
        )


def _at_once(ended: Callable[[], Ended]) -> Script:
    return ended()
    yield {}


def _before(recording: Recording, top: StepRow, first: StepRow) -> dict[Place, StepRow]:
    """The steps of tasks that come before *first*, which is inside *top*: they are shared."""
    found: dict[Place, StepRow] = {}
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
