"""Each action wrapped, so that a session records around it.

A wrapped action is a one-step action whatever it wraps: a two-step action's `run` and
`update` both happen inside the step, with the checks Burr makes between them. A streaming
action stays one (`_streams`); the tasks of a parallel one get trajectories of their own
(`_parallel`).
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from burr.core.action import Action, SingleStepAction
from burr.core.application import _adjust_single_step_output, _validate_result
from burr.core.state import State

from rewind_nb._burr import _parallel
from rewind_nb._burr._context import seen_by, told_to
from rewind_nb._burr._driver import Driver
from rewind_nb._burr._state import (
    Boundary,
    RunState,
    TracingState,
    changes,
    refuse_reserved,
    semantic_state,
)
from rewind_nb._cells import Cell, Cells
from rewind_nb._model import CONTEXT, StepRow
from rewind_nb._open_step import OpenStep
from rewind_nb._outcome import Route
from rewind_nb._track import Put, Track
from rewind_nb.capture._errors import add_note
from rewind_nb.errors import StoreError

INJECTED = (CONTEXT, "__tracer")
NOTE = "rewind_nb:"  # how the note on a user's exception starts


class _Way:
    """Asks a driver for the way on from a step, and keeps the boundary that it leads to."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.boundary: Boundary | None = None

    def __call__(self, action: str, cells: Cells) -> Route:
        taken, self.boundary = self._driver.route(action, cells)
        return taken

    def state(self, typing_system: Any) -> RunState:
        """The state that Burr holds there."""
        after = self.boundary
        assert after is not None  # noqa: S101  (a step that ended has asked for its way)
        return RunState(dict(after.cells), typing_system, after)


class Recorded:
    """What every wrapped action has: the face of the one it wraps, and how a step is recorded."""

    inner: Action
    _driver: Driver
    _name: str

    def _wrap(self, inner: Action, driver: Driver) -> None:
        self.inner = inner
        self._driver = driver
        self._name = inner.name

    @property
    def reads(self) -> list[str]:
        """As declared."""
        return self.inner.reads  # type: ignore[no-any-return]

    @property
    def writes(self) -> list[str]:
        """As declared."""
        return self.inner.writes  # type: ignore[no-any-return]

    @property
    def inputs(self) -> Any:
        """As declared."""
        return self.inner.inputs

    @property
    def tags(self) -> list[str]:
        """As declared."""
        return self.inner.tags  # type: ignore[no-any-return]

    @property
    def schema(self) -> Any:
        """As declared."""
        return self.inner.schema

    def is_async(self) -> bool:
        """As the wrapped action is."""
        return self.inner.is_async()  # type: ignore[no-any-return]

    def get_source(self) -> str:
        """The user's source, not ours."""
        return self.inner.get_source()  # type: ignore[no-any-return]

    def input_schema(self) -> Any:
        """As declared."""
        return self.inner.input_schema()

    def validate_inputs(self, inputs: dict[str, Any] | None) -> None:
        """As the wrapped action does."""
        self.inner.validate_inputs(inputs)

    # -- around ---------------------------------------------------------------------------

    def _open(
        self, state: State, kwargs: dict[str, Any]
    ) -> tuple[OpenStep, TracingState, dict[str, Any]]:
        """The step, the state its action sees, and the arguments it gets."""
        driver = self._driver
        code = driver.code(self._name)
        try:
            step = driver.track.open(self._name, cells_in(state), _inputs(kwargs), code)
        except BaseException as error:
            note(driver.track, self._name, error)
            with contextlib.suppress(StoreError):  # then nothing can be written down
                driver.track.refused(self._name, error)
            raise
        seen = TracingState.entering(step.reader, state.typing_system)
        injected = {k: v for k, v in kwargs.items() if k in INJECTED}
        if CONTEXT in injected and not _parallel.has_tasks(self.inner):
            injected[CONTEXT] = seen_by(step, injected[CONTEXT])
        return step, seen, {**step.inputs, **injected}

    def _other(self) -> Action | None:
        """The action that a fork executes in the place of this one."""
        found = self._driver.track.instead(self._name, self.inner)
        return None if found is None or found.action is self.inner else found.action

    def _failed(self, step: OpenStep, error: BaseException) -> None:
        step.leave(error)
        note(step.track, step.row.action, error, step.row)
        if step.ended:  # it came while the commit of what the step did was waited for
            return
        try:
            step.fail(error).result()
        except StoreError as lost:
            note(step.track, step.row.action, lost, step.row)
            raise

    def _complete(
        self, step: OpenStep, result: Any, changed: State
    ) -> tuple[Future[None], tuple[Any, State]]:
        """Record the outcome; wait for the future before handing it on."""
        writes, deleted = changes(changed, step.reader)
        way = _Way(self._driver)
        done = step.complete(result, writes, deleted, way)
        if way.boundary is None:  # the run was stopped meanwhile, and nobody waits for this
            return done, (result, changed)
        return done, (result, way.state(changed.typing_system))

    def _put(self, kwargs: dict[str, Any]) -> Put | None:
        """What a task's trajectory has for this step, so that it need not execute."""
        track = self._driver.track
        if not track.lane.path:
            return None
        given = {**_inputs(kwargs), **told_to(kwargs.get(CONTEXT))}
        return track.planned(self._name, given, self._driver.code(self._name))

    def _applied(self, put: Put, typing_system: Any) -> tuple[Any, State]:
        track, way = self._driver.track, _Way(self._driver)
        row = track.put_in(put, way)
        result = {} if row.result is None else track.session.store.value(row.result, strict=True)
        return result, way.state(typing_system)

    # -- inside ---------------------------------------------------------------------------

    def _checked(self, output: Any) -> tuple[Any, State]:
        """What a one-step action returned, with Burr's checks."""
        result, state = _adjust_single_step_output(output, self._name, self.schema)
        _validate_result(result, self._name, self.schema)
        self._check_writes(state)
        return result, state

    def _reduced(self, result: Any, state: TracingState) -> tuple[Any, State]:
        """The second step of a two-step action, with Burr's checks."""
        _validate_result(result, self._name)
        reduced = self.inner.update(result, state)
        undeclared = _keys(reduced) - _keys(state) - set(self.inner.writes)
        if undeclared:
            raise ValueError(
                f"Action {self._name} attempted to write to keys {undeclared} "
                f"that it did not declare. It declared: ({self.inner.writes})!"
            )
        self._check_writes(reduced)
        return result, reduced

    def _check_writes(self, state: State) -> None:
        missing = set(self.inner.writes) - _keys(state)
        if missing:
            raise ValueError(
                f"State is missing write keys after running: {self._name}. Missing keys are: "
                f"{missing}. Has writes: {self.inner.writes}"
            )


class RecordedAction(Recorded, SingleStepAction):
    """An action whose every execution is a step of the driver's track."""

    def __init__(self, inner: Action, driver: Driver) -> None:
        SingleStepAction.__init__(self)
        self._wrap(inner, driver)

    def run_and_update(self, state: State, **kwargs: Any) -> Any:
        """Execute the action as a step; a coroutine for an async one."""
        if (other := self._other()) is not None:
            return RecordedAction(other, self._driver).run_and_update(state, **kwargs)
        if self.is_async():
            return self._arun(state, kwargs)
        if not self._driver.records():
            return self._plain(state, kwargs)
        if (put := self._put(kwargs)) is not None:
            return self._applied(put, state.typing_system)
        step, seen, given = self._open(state, kwargs)
        try:
            with step.activate():
                result, changed = self._execute(step, seen, given)
            done, outcome = self._complete(step, result, changed)
            done.result()
        except BaseException as error:
            self._failed(step, error)
            raise
        return outcome

    async def _arun(self, state: State, kwargs: dict[str, Any]) -> Any:
        if not self._driver.records():
            return await self._aplain(state, kwargs)
        if (put := self._put(kwargs)) is not None:
            return self._applied(put, state.typing_system)
        step, seen, given = self._open(state, kwargs)
        try:
            with step.activate():
                result, changed = await self._aexecute(step, seen, given)
            done, outcome = self._complete(step, result, changed)
            await asyncio.wrap_future(done)
        except BaseException as error:
            self._failed(step, error)
            raise
        return outcome

    def _execute(
        self, step: OpenStep, state: TracingState, given: dict[str, Any]
    ) -> tuple[Any, State]:
        if _parallel.has_tasks(self.inner):
            return self._checked(_parallel.run(self.inner, step, state, given))
        return self._plain(state, given)

    async def _aexecute(
        self, step: OpenStep, state: TracingState, given: dict[str, Any]
    ) -> tuple[Any, State]:
        if _parallel.has_tasks(self.inner):
            return self._checked(await _parallel.arun(self.inner, step, state, given))
        return await self._aplain(state, given)

    def _plain(self, state: State, given: dict[str, Any]) -> tuple[Any, State]:
        """Execute as Burr would."""
        if self.inner.single_step:
            run = self.inner.run_and_update
            return self._checked(run(state, **unmangled(run, given)))
        run = self.inner.run
        return self._reduced(run(state.subset(*self.reads), **unmangled(run, given)), state)

    async def _aplain(self, state: State, given: dict[str, Any]) -> tuple[Any, State]:
        if self.inner.single_step:
            run = self.inner.run_and_update
            return self._checked(await run(state, **unmangled(run, given)))
        run = self.inner.run
        return self._reduced(await run(state.subset(*self.reads), **unmangled(run, given)), state)


def note(track: Track, action: str, error: BaseException, row: StepRow | None = None) -> None:
    """Name run and step on an exception, which also keeps Burr's banner off the log."""
    run, path = track.session.run.id, track.lane.path
    step = f"before step {track.seq}" if row is None else f"at step {row.seq}"
    visit = "" if row is None else f" (visit {row.visit})"
    where = f" in {path}" if path else ""
    add_note(error, f"{NOTE} run {run} stopped {step} {action!r}{where}{visit}")


def _inputs(kwargs: dict[str, Any]) -> dict[str, Any]:
    """What an action is given by the user, not by Burr."""
    return {name: value for name, value in kwargs.items() if name not in INJECTED}


def cells_in(state: State) -> Cells:
    """A state that Burr holds as cells; what a user put in is encoded here.

    Raises:
        ConfigError: a key is one that Burr would drop.
        NotEncodableError: a value cannot be stored.
    """
    if isinstance(state, TracingState):
        cells = state.cells()
    else:
        held = state.semantic() if isinstance(state, RunState) else semantic_state(state)
        cells = {k: v if isinstance(v, Cell) else Cell.of(v, k) for k, v in held.items()}
    refuse_reserved(cells)
    return cells


def _keys(state: State) -> set[str]:
    """The keys of a state, without reading them."""
    return set(state._state)  # noqa: SLF001


def unmangled(run: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """Injected parameters under the names a method declares.

    Inside a class body Python turns ``__context`` into ``_Class__context``. Burr undoes it
    for sync two-step actions only; here it is undone for async ones too.
    """
    if not any(key in given for key in INJECTED):
        return given
    names = list(inspect.signature(run).parameters)
    renamed = {}
    for key, value in given.items():
        match = next((n for n in names if key in INJECTED and n.endswith(key)), key)
        renamed[match] = value
    return renamed
