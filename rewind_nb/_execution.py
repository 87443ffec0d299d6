"""`Execution`: one run made ready, and how each verb makes one ready.

Everything that can be refused is refused here, before a row is written or an action runs.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rewind_nb import _owner
from rewind_nb._burr import NOTE, AppSpec, Machine
from rewind_nb._cells import Cell, Cells, cells_of, manifest_of
from rewind_nb._codec._walk import is_utf8
from rewind_nb._drive import Ended, Script, adrive, drive, forward, stopped_by
from rewind_nb._hooks import Hook, Hooks
from rewind_nb._lane import Lane
from rewind_nb._model import CacheMode, RunKind, RunRow, StepRow
from rewind_nb._outcome import Applied
from rewind_nb._run import Run
from rewind_nb._session import Plan, Session
from rewind_nb._store import Batch, Store, _read, _read_tasks
from rewind_nb._track import Put
from rewind_nb._trajectory import Placed, Trajectory, executed
from rewind_nb.capture._place import sending
from rewind_nb.capture.policy import HttpPolicy
from rewind_nb.errors import ConfigError, did_you_mean

SUPPLIED = "the override supplied its output"
Invocation = dict[str, Any]  # one run or resume call: seq, halt_after, halt_before, inputs


@dataclass(frozen=True, slots=True)
class Env:
    """What every verb of one Rewind shares."""

    spec: AppSpec
    store: Store
    hooks: tuple[Hook, ...]
    cache: CacheMode
    cache_key: Callable[[dict[str, Any]], Any] | None
    policy: HttpPolicy

    def told(self) -> Hooks:
        """The hooks of one run; what they do meanwhile is not the application's."""
        return Hooks(self.hooks, around=sending)

    def plan(self, **given: Any) -> Plan:
        """What a run may take from a recording; the settings are those of the Rewind."""
        settings = {"cache": self.cache, "cache_key": self.cache_key, "policy": self.policy}
        return Plan(**{**settings, **given})


@dataclass(slots=True)
class Execution:
    """A run that is ready to go."""

    session: Session
    machine: Machine
    script: Script
    around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext

    def go(self) -> Ended:
        """Execute it in this thread; whatever stops it is written down."""
        self.session.start()
        try:
            with self.around():
                ended = drive(self.script, self.machine)
        except BaseException as error:  # noqa: BLE001  (returned, and raised by the verb)
            ended = stopped_by(error, None)
        self._write_down(ended)
        return ended

    async def ago(self) -> Ended:
        """Execute it in this task."""
        self.session.start()
        try:
            with self.around():
                ended = await adrive(self.script, self.machine)
        except BaseException as error:  # noqa: BLE001  (returned, and raised by the verb)
            ended = stopped_by(error, None)
        self._write_down(ended)
        return ended

    def _write_down(self, ended: Ended) -> None:
        session, track = self.session, self.session.track
        if session.run.halts and track.prior is not None:
            stopped = [track.prior, track.visits[track.prior]]
            last = {**session.run.halts[-1], "stopped": stopped}
            session.run = replace(session.run, halts=(*session.run.halts[:-1], last))
        note = ended.note
        if ended.error is not None and not getattr(ended.error, "__notes__", ()):
            after = "" if track.prior is None else f" after step {track.seq - 1} {track.prior!r}"
            ended.error.add_note(
                f"{NOTE} run {session.run.id} stopped{after}, where a transition's condition is "
                "asked or a hook of the application is told"
            )
        if ended.error is not None and track.last is not None and track.last.error is None:
            note = " ".join(f"{type(ended.error).__name__}: {ended.error}".split())
        session.end(ended.status, ended.next_action, note).result()


# -- the verbs ----------------------------------------------------------------------------


def new_run(
    env: Env,
    *,
    inputs: Mapping[str, Any],
    halt_after: list[str],
    halt_before: list[str],
    state: Mapping[str, Any],
    label: str | None,
) -> Execution:
    """A run from the application's own state."""
    spec = env.spec
    overrides = {key: Cell.of(value, key) for key, value in state.items()}
    cells = {**spec.cells, **overrides}
    batch = Batch()
    call = invocation(spec, batch, 0, inputs, halt_after, halt_before)
    row = run_row(env, batch, "record", cells, label=label, prior=spec.prior, halts=(call,))
    session = Session(
        env.store,
        row,
        env.plan(),
        env.told(),
        spec.code,
    ).standing(cells, prior=spec.prior)
    machine = Machine(spec, session, adapters=spec.adapters)
    script = forward(machine, _Straight(call, inputs))
    env.store.submit(batch, wake=False)
    return Execution(session, machine, script)


@dataclass(frozen=True, slots=True)
class _Straight:
    """The way of a new run: one call, its own conditions and inputs."""

    call: Invocation
    given: Mapping[str, Any]

    def stops(self, did: tuple[str, int], following: str) -> bool:
        return following in self.call["halt_before"] or did[0] in self.call["halt_after"]

    def inputs(self, _action: str, _visit: int) -> Mapping[str, Any]:
        return self.given


def driven_by_user(env: Env, label: str | None) -> Machine:
    """A recorded application that the user steps."""
    spec = env.spec
    batch = Batch()
    row = run_row(env, batch, "record", spec.cells, label=label, prior=spec.prior, halts=())
    session = Session(
        env.store,
        row,
        env.plan(self_driven=False),
        env.told(),
        spec.code,
    ).standing(spec.cells, prior=spec.prior)
    machine = Machine(spec, session, adapters=spec.adapters)
    env.store.submit(batch, wake=False)
    session.start()
    session.rest(machine.next_action)
    return machine


def invocation(
    spec: AppSpec,
    batch: Batch,
    seq: int,
    inputs: Mapping[str, Any],
    halt_after: list[str],
    halt_before: list[str],
) -> Invocation:
    """What a run or resume call asked for, as it is stored.

    Raises:
        ConfigError: a halt condition names no action or tag.
        NotEncodableError: an input cannot be stored.
    """
    return {
        "seq": seq,
        "halt_after": _expanded(spec, "halt_after", halt_after),
        "halt_before": _expanded(spec, "halt_before", halt_before),
        "inputs": [[k, batch.value(v, f"@inputs.{k}")] for k, v in inputs.items()],
    }


def _expanded(spec: AppSpec, which: str, names: list[str]) -> list[str]:
    """Action names, with Burr's ``@tag:name`` replaced by the actions that carry the tag."""
    if isinstance(names, str):
        raise ConfigError(f"{which}= takes a list of action names; write [{names!r}].")
    actions: list[str] = []
    for name in names:
        tagged = spec.tagged(name.removeprefix("@tag:")) if name.startswith("@tag:") else [name]
        if not tagged or not set(tagged) <= set(spec.action_names):
            raise ConfigError(
                f"{which}= names {name!r}, which is no action or tag of the application. "
                f"{did_you_mean(name, spec.action_names)}"
            )
        actions += tagged
    return sorted(set(actions))


def run_row(
    env: Env,
    batch: Batch,
    kind: RunKind,
    cells: Cells,
    *,
    label: str | None,
    prior: str | None,
    halts: tuple[Invocation, ...],
    parent: Run | None = None,
    shared: int = 0,
    overrides: str | None = None,
    epoch: int = 0,
    **mode: Any,
) -> RunRow:
    """A new run's row; what it refers to is added to *batch*."""
    if label is not None and not (isinstance(label, str) and is_utf8(label)):
        raise ConfigError(f"label={label!r} is no text. Pass a str without lone surrogates.")
    for cell in cells.values():
        if cell.loaded:
            batch.content(cell.content)
    return RunRow(
        id=f"r_{secrets.token_hex(6)}",
        kind=kind,
        label=label,
        parent=None if parent is None else parent.id,
        at=shared,
        parent_len=0 if parent is None else len(parent),
        overrides=overrides,
        mode={"cache": env.cache, **mode, **_versions()},
        state=manifest_of(cells),
        prior=prior,
        graph=batch.value(env.spec.describe(), "graph"),
        experiment=None,
        cell=None,
        epoch=epoch,
        created_at=time.time(),
        owner=_owner.this_process(),
        halts=halts,
    )


def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "burr": importlib.metadata.version("apache-burr"),
        "rewind_nb": importlib.metadata.version("rewind-nb"),
    }


# -- what a recording offers to another run -----------------------------------------------


@dataclass(slots=True)
class Recording:
    """A recorded run as the source of answers, inputs and halts for a fork or replay."""

    store: Store
    run: Run
    trajectory: Trajectory
    _visits: dict[tuple[str, int], StepRow | None] = field(default_factory=dict)
    _from: tuple[int, list[Placed]] | None = None

    @classmethod
    def of(cls, run: Run) -> Recording:
        """The recording of a run as it is now."""
        return cls(run.store, run, run._trajectory)  # noqa: SLF001

    def rows(self, seq: int) -> list[Placed]:
        """The steps from a position on, remembered for `step`."""
        if self._from is None or self._from[0] != seq:
            self._from = (seq, self.trajectory.rows(seq))
            self._visits |= {(p.row.action, p.row.visit): p.row for p in self._from[1]}
        return self._from[1]

    def step(self, action: str, visit: int) -> StepRow | None:
        """The recorded step at (action, visit)."""
        if (action, visit) not in self._visits:
            placed = self.trajectory.visit(action, visit)
            self._visits[action, visit] = None if placed is None else placed.row
        return self._visits[action, visit]

    def at(self, lane: Lane, action: str, visit: int) -> StepRow | None:
        """The recorded step at (action, visit) of the run itself, or of a task inside a step."""
        if lane.root is None:
            return self.step(action, visit)
        top = self.step(*lane.root)
        if top is None:
            return None
        top = executed(self.store, top)
        return self.store.read(
            _read_tasks.task_step, top.run_id, top.attempt, lane.path, action, visit
        )

    def inside(self, top: StepRow) -> list[StepRow]:
        """Every step of the tasks of a top-level step."""
        if not top.tasks and top.status != "open":
            return []
        top = executed(self.store, top)
        place = Lane().place(top.action, top.visit)
        return self.store.read(_read_tasks.steps_inside, top.run_id, top.attempt, place)

    def visits_before(self, seq: int) -> Counter[str]:
        """How often each action had occurred before a position."""
        counts: Counter[str] = Counter()
        for part in self.trajectory.parts:
            last = min(part.hi, seq - part.shift)
            if part.lo < last:
                found = self.store.read(_read.visit_counts, part.run_id, part.lo, last)
                for action, visit in found.items():
                    counts[action] = max(counts[action], visit)
        return counts

    def overrides(self, row: StepRow | None) -> list[Applied]:
        """The overrides a recorded step was given, to be given again."""
        from rewind_nb._run import read_overrides

        if row is None or row.override is None:
            return []
        return [Applied(o, own=False) for o in read_overrides(self.store, row.override)]

    def inputs(self, row: StepRow) -> dict[str, Any]:
        """The inputs a recorded step was given, decoded for the new one."""
        return {k: self.store.value(h, strict=True) for k, h in row.inputs}

    def invocations(self) -> tuple[Invocation, ...]:
        """The run and resume calls that made the recording."""
        return self.run._row.halts  # noqa: SLF001

    def prior_of(self, seq: int) -> str | None:
        """The action executed before a position."""
        before = self.trajectory.at(seq - 1) if seq > 0 else None
        return self.run._row.prior if before is None else before.row.action  # noqa: SLF001

    def cells_entering(self, seq: int) -> dict[str, Cell]:
        """The state entering a position."""
        return cells_of(self.trajectory.state_entering(seq), self.store)


def put_again(recording: Recording, row: StepRow | None) -> Put | None:
    """What an override of the parent supplied at a step, to be put in again."""
    if row is None or row.source != "override":
        return None
    overrides = [applied.override for applied in recording.overrides(row)]
    return Put(row, "override", SUPPLIED, overrides=overrides)
