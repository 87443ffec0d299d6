"""Making a fork ready: check the override, share the steps before it, execute the rest.

The override enters after the transition into its step was taken, so that step is always
the first to execute (or to be put in, for ``output=`` and ``patch=``). Overrides that the
parent had itself are given again where its steps execute again: an unchanged fork of a
fork is that fork.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rewind_nb._burr import Machine
from rewind_nb._cells import Cell, Cells
from rewind_nb._code import CodeFingerprint
from rewind_nb._converge import Convergence
from rewind_nb._drive import Ended, Script, forward
from rewind_nb._execution import Env, Execution, run_row
from rewind_nb._instead import Instead
from rewind_nb._itinerary import Itinerary, fork_calls
from rewind_nb._lane import Lane
from rewind_nb._model import PLAYING, Reuse, RunRow, StepRow
from rewind_nb._outcome import Applied, encoded_overrides, step_key
from rewind_nb._plan import Planned, Target, plan_override
from rewind_nb._reasons import BEFORE, EQUAL, SUPPLIED
from rewind_nb._recode import Coded, plan_action, plan_rerun
from rewind_nb._recording import Recording
from rewind_nb._refusals import refuse_changed_code, refuse_foreign, refuse_running
from rewind_nb._reuse import Decision, reuse_of
from rewind_nb._run import At, Run
from rewind_nb._session import Plan, Session
from rewind_nb._store import Batch
from rewind_nb._track import Put, Track
from rewind_nb._trajectory import Placed
from rewind_nb.capture._effects import check_effects
from rewind_nb.errors import NothingToResumeError, OverrideError


def new_fork(
    env: Env,
    parent: Run,
    at: At | None,
    given: tuple[str, Any] | None,
    *,
    call: int = 0,
    reuse: Reuse = "unchanged",
    sample: int = 0,
    effects: Any = None,
    halt_after: list[str] | None = None,
    halt_before: list[str] | None = None,
    label: str | None = None,
    max_steps: int | None = None,
    allow_code_change: bool = False,
) -> Execution:
    """A fork of *parent* whose first own step is the one at *at*."""
    refuse_running(parent)
    coded = None
    if given is not None and given[0] == "action":
        coded = plan_action(env, parent, at, given[1])
        at = coded.at
    if at is None:
        raise OverrideError(
            'fork() needs to know where: pass `at`, such as "search", ("search", 2) or 3.'
        )
    recording = Recording.of(parent)
    step = parent[at]
    top = recording.trajectory.at(step.top.seq)
    assert top is not None  # noqa: S101  (parent[at] found it)
    refuse_foreign(env, parent, top.row.action)
    if not allow_code_change:
        refuse_changed_code(env, recording, top.seq)
    if coded is None and given is not None:
        target = _target(env, parent, recording, top, step.row)
        coded = Coded(at, plan_override(target, *given, call))
    fork = _Fork(env, parent, recording, top, step.row, coded, reuse, effects)
    plain = halt_after is None and halt_before is None and env.cache == "auto"
    nothing = fork.equal and plain and not allow_code_change
    return fork.ready(
        nothing, halt_after, halt_before, label=label, sample=sample, max_steps=max_steps
    )


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
    fork = _Fork(env, parent, recording, top, top.row, coded, "unchanged", effects)
    return fork.ready(fork.equal, None, None, label=label, sample=0, max_steps=max_steps)


@dataclass(slots=True)
class _Fork:
    """A fork in the making.

    Attributes:
        top: the first step it does not share.
        first: *top*'s own row, or that of a step of a task inside it, which the override is for.
    """

    env: Env
    parent: Run
    recording: Recording
    top: Placed
    first: StepRow
    coded: Coded | None
    reuse: Reuse
    effects: Any

    @property
    def equal(self) -> bool:
        """Whether the override is what was recorded, and the parent came to its end."""
        ended = self.parent.status in ("complete", "halted")
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
    ) -> Execution:
        """The execution of it; with *nothing* to execute it shares all steps of the parent."""
        env, recording, parent = self.env, self.recording, self.parent
        start = len(parent) if nothing else self.top.seq
        cells, prior = recording.cells_entering(start), recording.prior_of(start)
        batch = Batch()
        halts = fork_calls(env, batch, recording, start, halt_after, halt_before)
        row = run_row(
            env, batch, "fork", cells, label=label, prior=prior, halts=halts, parent=parent,
            shared=start, overrides=self._stored(batch), epoch=sample, **self._mode(),
        )  # fmt: skip
        env.store.submit(batch, wake=False)
        session = Session(env.store, row, self._plan(row), env.told(), env.spec.code)
        way = Itinerary(env.store, row.halts, start, recording)
        due = self.coded.everywhere if self.coded else frozenset()
        converge = Convergence(env, recording, way, session, env.always | due)
        note = self.coded.note if self.coded else None
        if nothing:
            session.note(note or f"{EQUAL}: nothing to execute")
            at_once = Ended(parent.status, parent.next_action)
            return self._nothing(session, cells, start, lambda: at_once)
        session.note(note)
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
        stored, data = encoded_overrides([self.coded.planned.override])
        batch.content(data)
        return stored

    def _mode(self) -> dict[str, Any]:
        """What the row of the run says of how it was made."""
        effects = check_effects(self.effects)
        mode: dict[str, Any] = {"reuse": self.reuse, "at": self.top.seq}
        if self.first.path:
            mode["inside"] = [self.first.path, self.first.action, self.first.visit]
        if effects is not None:
            mode["effects"] = effects if effects == "live" else sorted(effects)
        if self._instead() is not None:
            mode["replaced"] = True
        return mode

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
        own = [] if planned is None else [Applied(planned.override, own=True)]
        everywhere = self.coded.everywhere if self.coded else frozenset()
        place = (first.path, first.action, first.visit)
        updated = recording.update(top)
        before = _before(recording, top, first)
        by_code = planned is not None and planned.override.kind == "code"
        decide = reuse_of(env, row, recording, place, overridden=bool(planned) and not by_code)
        instead = self._instead()
        if instead is not None:
            env.instead[row.id] = instead

        def overrides(lane: Lane, name: str, visit: int) -> list[Applied]:
            inherited = recording.overrides(recording.at(lane, name, visit))
            here = (lane.path, name, visit)
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
                return _planned_put(recording, first, planned)
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
            effects=self.effects,
            instead=env.instead_of(row.id),
        )


def _at_once(ended: Callable[[], Ended]) -> Script:
    return ended()
    yield {}


def _target(env: Env, parent: Run, recording: Recording, top: Placed, row: StepRow) -> Target:
    """The step that the override is for: *top* itself, or a step of a task inside it."""
    described = parent.graph_description
    if row.path:
        first = next(r for r in recording.inside(top.row) if r.path == row.path)
        described = env.store.value(first.graph) if first.graph else {"actions": []}
        top = top._replace(row=row, seq=row.seq)
    declared = {a["name"]: a for a in described["actions"]}
    return Target(env.store, recording.trajectory, top, declared.get(row.action, {}))


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
    given = [*recording.given(first), planned.override]
    return Put(first, "override", SUPPLIED, overrides=given, writes=writes, result=result)
