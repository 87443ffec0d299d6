"""Each action wrapped, so that a session records around it.

The wrapper is a one-step action whatever it wraps: a two-step action's `run` and `update`
both happen inside the step, with the checks Burr makes between them.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Callable
from typing import Any, Protocol

from burr.core.action import Action, SingleStepAction
from burr.core.application import _adjust_single_step_output, _validate_result
from burr.core.graph import Graph, Transition
from burr.core.state import State

from rewind_nb._burr._state import Boundary, RunState, TracingState, changes, is_private
from rewind_nb._cells import Cell, Cells
from rewind_nb._open_step import OpenStep
from rewind_nb._outcome import Route
from rewind_nb._session import Session

INJECTED = ("__context", "__tracer")
NOTE = "rewind_nb:"  # how the note on a user's exception starts


class Driver(Protocol):
    """What a wrapped action needs of the machine that runs it."""

    session: Session

    def route(self, action: str, cells: Cells) -> tuple[Route, Boundary]:
        """The way on from *action*, and the boundary that remembers it."""


def wrap_graph(graph: Graph, driver: Driver) -> Graph:
    """The same graph with every action and condition recorded."""
    actions = {action.name: RecordedAction(action, driver) for action in graph.actions}
    transitions = [
        Transition(actions[t.from_.name], actions[t.to.name], wrap_condition(t.condition))
        for t in graph.transitions
    ]
    return Graph(list(actions.values()), transitions)


def wrap_condition(condition: Any) -> Any:
    """A condition that is evaluated once between two steps, its reads observed."""
    wrapped = copy.copy(condition)

    def run(state: State, **kwargs: Any) -> Any:
        if isinstance(state, RunState) and state.pristine:
            return state.boundary.verdict(wrapped, lambda seen: _decide(condition, seen))
        return condition.run(state, **kwargs)

    wrapped.run = run
    return wrapped


def _decide(condition: Any, state: State) -> dict[str, bool]:
    missing = [key for key in condition.reads if key not in state]
    if missing:
        present = {key: None for key in condition.reads if key not in missing}
        return condition.run(State(present))  # type: ignore[no-any-return]  # Burr's own error
    return {condition.KEY: condition.resolver(state)}


class RecordedAction(SingleStepAction):
    """An action whose every execution is a step of the driver's session."""

    def __init__(self, inner: Action, driver: Driver) -> None:
        super().__init__()
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

    def run_and_update(self, state: State, **kwargs: Any) -> Any:
        """Execute the action as a step; a coroutine for an async one."""
        if self.is_async():
            return self._arun(state, kwargs)
        step, seen, given = self._open(state, kwargs)
        try:
            with step.activate():
                result, changed = self._execute(seen, given)
            done, outcome = self._complete(step, result, changed)
        except BaseException as error:
            self._failed(step, error)
            raise
        try:
            done.result()
        except BaseException as error:
            _note(step, error)
            raise
        return outcome

    async def _arun(self, state: State, kwargs: dict[str, Any]) -> Any:
        step, seen, given = self._open(state, kwargs)
        try:
            with step.activate():
                result, changed = await self._aexecute(seen, given)
            done, outcome = self._complete(step, result, changed)
        except BaseException as error:
            self._failed(step, error)
            raise
        try:
            await asyncio.wrap_future(done)
        except BaseException as error:
            _note(step, error)
            raise
        return outcome

    # -- around ---------------------------------------------------------------------------

    def _open(
        self, state: State, kwargs: dict[str, Any]
    ) -> tuple[OpenStep, TracingState, dict[str, Any]]:
        inputs = {k: v for k, v in kwargs.items() if k not in INJECTED}
        step = self._driver.session.open(self.name, cells_in(state), inputs)
        injected = {k: v for k, v in kwargs.items() if k in INJECTED}
        seen = TracingState.entering(step.reader, state.typing_system)
        return step, seen, {**step.inputs, **injected}

    def _failed(self, step: OpenStep, error: BaseException) -> None:
        _note(step, error)
        step.fail(error).result()

    def _complete(self, step: OpenStep, result: Any, changed: State) -> Any:
        writes, deleted = changes(changed, step.reader)
        boundary: list[Boundary] = []

        def route(action: str, cells: Cells) -> Route:
            taken, found = self._driver.route(action, cells)
            boundary.append(found)
            return taken

        done = step.complete(result, writes, deleted, route)
        after = boundary[0]
        return done, (result, RunState(dict(after.cells), changed.typing_system, after))

    # -- inside ---------------------------------------------------------------------------

    def _execute(self, state: TracingState, given: dict[str, Any]) -> tuple[Any, State]:
        if self.inner.single_step:
            run = self.inner.run_and_update
            return self._checked(run(state, **_unmangled(run, given)))
        result = self.inner.run(
            state.subset(*self.inner.reads), **_unmangled(self.inner.run, given)
        )
        return self._reduced(result, state)

    async def _aexecute(self, state: TracingState, given: dict[str, Any]) -> tuple[Any, State]:
        if self.inner.single_step:
            run = self.inner.run_and_update
            return self._checked(await run(state, **_unmangled(run, given)))
        result = await self.inner.run(
            state.subset(*self.inner.reads), **_unmangled(self.inner.run, given)
        )
        return self._reduced(result, state)

    def _checked(self, output: Any) -> tuple[Any, State]:
        result, state = _adjust_single_step_output(output, self.name, self.schema)
        _validate_result(result, self.name, self.schema)
        self._check_writes(state)
        return result, state

    def _reduced(self, result: Any, state: TracingState) -> tuple[Any, State]:
        _validate_result(result, self.name)
        reduced = self.inner.update(result, state)
        undeclared = _keys(reduced) - _keys(state) - set(self.inner.writes)
        if undeclared:
            raise ValueError(
                f"Action {self.name} attempted to write to keys {undeclared} "
                f"that it did not declare. It declared: ({self.inner.writes})!"
            )
        self._check_writes(reduced)
        return result, reduced

    def _check_writes(self, state: State) -> None:
        missing = set(self.inner.writes) - _keys(state)
        if missing:
            raise ValueError(
                f"State is missing write keys after running: {self.name}. Missing keys are: "
                f"{missing}. Has writes: {self.inner.writes}"
            )


def _note(step: OpenStep, error: BaseException) -> None:
    """Name run and step on an exception, which also keeps Burr's banner off the log."""
    row = step.row
    error.add_note(
        f"{NOTE} run {row.run_id} stopped at step {row.seq} {row.action!r} (visit {row.visit})"
    )


def cells_in(state: State) -> Cells:
    """The state that Burr holds as cells; what a user put in is encoded here."""
    held = state.semantic() if isinstance(state, RunState) else dict(state)
    return {
        key: value if isinstance(value, Cell) else Cell.of(value, key)
        for key, value in held.items()
        if not is_private(key)
    }


def _keys(state: State) -> set[str]:
    """The keys of a state, without reading them."""
    return set(state._state)  # noqa: SLF001


def _unmangled(run: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
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
