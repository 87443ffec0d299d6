"""`Execution`: one run made ready, and how each verb makes one ready.

Everything that can be refused is refused here, before a row is written or an action runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.metadata
import platform
import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from rewind_nb import _codec, _owner
from rewind_nb._budget import Meter
from rewind_nb._burr import NOTE, AppSpec, Machine, refuse_reserved
from rewind_nb._cells import Cell, Cells, manifest_of
from rewind_nb._code import CodeFingerprint
from rewind_nb._codec._walk import is_utf8
from rewind_nb._describe import error_line, notes_on
from rewind_nb._drive import Ended, Script, adrive, drive, forward, stopped_by
from rewind_nb._hooks import Hook, Hooks
from rewind_nb._instead import Instead
from rewind_nb._model import CacheMode, RunKind, RunRow, StepRow
from rewind_nb._recording import Invocation
from rewind_nb._run import Run
from rewind_nb._session import InsteadOf, Plan, Session
from rewind_nb._signals import put_off
from rewind_nb._store import Batch, Content, Store
from rewind_nb.capture._errors import add_note
from rewind_nb.capture._place import sending
from rewind_nb.capture.policy import HttpPolicy
from rewind_nb.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class Env:
    """What every verb of one Rewind shares; made anew for each call."""

    spec: AppSpec
    store: Store
    hooks: tuple[Hook, ...]
    cache: CacheMode
    cache_key: Callable[[dict[str, Any]], Any] | None
    policy: HttpPolicy
    always: frozenset[str]  # actions that no fork takes over
    instead: dict[str, Instead]  # by run: for what its steps execute other code
    experiment: str | None = None  # the one that makes its runs
    meter: Meter | None = None  # what these may spend

    @functools.cached_property
    def described(self) -> Content:
        """The application's description, its code included."""
        data = _codec.encode(self.spec.describe(), path="graph")
        return Content(_codec.digest(data), data, "graph")

    def code_of(self, run: Run, row: StepRow) -> CodeFingerprint | None:
        """The code that a recorded step of *run* would execute now."""
        instead = self.instead.get(run.id)
        if row.action in self.spec.code and instead is not None and not row.path:
            original = self.spec.graph.get_action(row.action)
            other = instead.at(row.path, row.action, row.visit, original)
            if other is not None:
                return other.code
        return self.spec.code.get(row.action)

    def instead_of(self, run_id: str) -> InsteadOf | None:
        """What the steps of a run execute instead of their actions."""
        instead = self.instead.get(run_id)
        return None if instead is None else instead.at

    def told(self) -> Hooks:
        """The hooks of one run; what they do meanwhile is not the application's."""
        return Hooks(self.hooks, around=sending)

    def plan(self, **given: Any) -> Plan:
        """What a run may take from a recording; the settings are those of the Rewind."""
        settings = {
            "cache": self.cache,
            "cache_key": self.cache_key,
            "policy": self.policy,
            "meter": self.meter,
        }
        return Plan(**{**settings, **given})


@dataclass(slots=True)
class Execution:
    """A run that is ready to go."""

    session: Session
    machine: Machine
    script: Script
    around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    on_start: Callable[[str], None] | None = None  # is told the run's id

    def go(self) -> Ended:
        """Execute it in this thread; whatever stops it is written down."""
        try:
            self._start()
            with self.around():
                ended = drive(self.script, self.machine)
        except BaseException as error:  # noqa: BLE001  (returned, and raised by the verb)
            ended = self._stopped(error)
        self._write_down(ended).result()
        return ended

    async def ago(self) -> Ended:
        """Execute it in this task."""
        try:
            self._start()
            with self.around():
                ended = await adrive(self.script, self.machine)
        except BaseException as error:  # noqa: BLE001  (returned, and raised by the verb)
            ended = self._stopped(error)
        written = self._write_down(ended)
        if isinstance(ended.error, GeneratorExit):  # which forbids to await
            written.result()
        else:
            await asyncio.wrap_future(written)
        return ended

    def _start(self) -> None:
        with put_off():
            self.session.start()
            if self.on_start is not None:
                self.on_start(self.session.run.id)

    def _stopped(self, error: BaseException) -> Ended:
        if not self.session.started:
            raise error
        return stopped_by(error, None)

    def _write_down(self, ended: Ended) -> Future[None]:
        session, track = self.session, self.session.track
        if session.run.halts and track.prior is not None and session.run.tail is None:
            stopped = [track.prior, track.visits[track.prior]]
            last = {**session.run.halts[-1], "stopped": stopped}
            session.run = replace(session.run, halts=(*session.run.halts[:-1], last))
        note = ended.note
        if ended.error is not None and not notes_on(ended.error):
            after = "" if track.prior is None else f" after step {track.seq - 1} {track.prior!r}"
            add_note(
                ended.error,
                f"{NOTE} run {session.run.id} stopped{after}, where a transition's condition is "
                "asked or a hook of the application is told",
            )
        if ended.error is not None and track.last is not None and track.last.error is None:
            note = error_line(ended.error)
        with put_off():
            return session.end(ended.status, ended.next_action, note)


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
    refuse_reserved(state)
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

    def update(self, _did: tuple[str, int]) -> None:
        return None


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
    cell: str | None = None,
    **mode: Any,
) -> RunRow:
    """A new run's row; what it refers to is added to *batch*."""
    if label is not None and not (isinstance(label, str) and is_utf8(label)):
        raise ConfigError(f"label={label!r} is no text. Pass a str without lone surrogates.")
    for value in cells.values():
        if value.new:
            batch.content(value.content)
    if parent is None or parent._row.graph != env.described.hash:  # noqa: SLF001
        batch.content(env.described)
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
        graph=env.described.hash,
        experiment=env.experiment,
        cell=cell,
        epoch=epoch,
        created_at=time.time(),
        owner=_owner.this_process(),
        halts=halts,
    )


@functools.cache  # it parses each package's metadata
def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "burr": importlib.metadata.version("apache-burr"),
        "rewind_nb": importlib.metadata.version("rewind-nb"),
    }
