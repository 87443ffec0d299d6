"""`Machine`: a Burr application built around a session, stepped one action at a time."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, TypeVar

from burr.core import Application, ApplicationBuilder
from burr.core.application import PRIOR_STEP, SEQUENCE_ID

from rewind_nb._burr._actions import NOTE
from rewind_nb._burr._app import AppSpec
from rewind_nb._burr._containers import close_with_consumer
from rewind_nb._burr._context import context_input
from rewind_nb._burr._driver import first_way
from rewind_nb._burr._spawned import watch_builders
from rewind_nb._burr._state import Boundary, RunState
from rewind_nb._burr._wrap import wrap_graph
from rewind_nb._cells import Cells
from rewind_nb._describe import notes_on
from rewind_nb._model import Override
from rewind_nb._outcome import Route
from rewind_nb._session import Session
from rewind_nb._track import Track

T = TypeVar("T")


class Machine:
    """Runs one session on one application.

    Args:
        entry: the action to execute first, whatever the transitions say; None to go on
            from *prior* (or the application's entrypoint).
    """

    def __init__(
        self,
        spec: AppSpec,
        session: Session,
        *,
        entry: str | None = None,
        adapters: tuple[Any, ...] = (),
    ) -> None:
        self.spec = spec
        self.session = session
        self.streaming: Any = None  # the stream that is going out
        self._wrapped = wrap_graph(spec.graph, self)
        self._adapters = adapters
        self._boundary = Boundary(session.track.cells, spec.typing_system)
        watch_builders()
        self.app = self._build(entry)

    def _build(self, entry: str | None) -> Application:
        session, spec = self.session, self.spec
        builder = (
            ApplicationBuilder()
            .with_graph(self._wrapped)
            .with_typing(spec.typing_system)
            .with_state(self._state(entry))
            .with_entrypoint(entry or spec.entrypoint)
            .with_identifiers(app_id=session.run.id, partition_key=spec.partition_key)
            .with_hooks(*self._adapters)
        )
        if spec.executor_factory is not None:
            builder = builder.with_parallel_executor(spec.executor_factory)
        return self._one_at_a_time(builder.build())

    def _one_at_a_time(self, app: Application) -> Application:
        """Refuse a second step while one executes, before Burr loses count of the two."""
        step, astep = app.step, app.astep

        def guarded(inputs: dict[str, Any] | None = None) -> Any:
            with self.session.stepping():
                return self._after(step(inputs=inputs))

        async def aguarded(inputs: dict[str, Any] | None = None) -> Any:
            with self.session.stepping():
                return self._after(await astep(inputs=inputs))

        app.step, app.astep = guarded, aguarded
        close_with_consumer(app, self)
        return app

    def _after(self, stepped: T) -> T:
        """What a step came to; an interrupt that came when its way on was asked is raised now."""
        self._boundary.interrupted()
        return stepped

    def _state(self, entry: str | None) -> RunState:
        cells = self.track.cells
        if self._boundary.cells is not cells:
            self._boundary = Boundary(cells, self.spec.typing_system)
        values = {**cells, **self._private(entry)}
        return RunState(values, self.spec.typing_system, self._boundary)

    def _private(self, entry: str | None) -> dict[str, Any]:
        private: dict[str, Any] = {}
        if self.track.seq > 0:
            private[SEQUENCE_ID] = self.track.seq - 1
        if entry is None and self.track.prior is not None:
            private[PRIOR_STEP] = self.track.prior
        return private

    # -- stepping -------------------------------------------------------------------------

    @property
    def next_action(self) -> str | None:
        """The action that would execute next, None at the end."""
        action = self.app.get_next_action()
        return None if action is None else str(action.name)

    def step(self, inputs: Mapping[str, Any]) -> None:
        """Execute the next action."""
        self.app.step(inputs=dict(inputs))

    async def astep(self, inputs: Mapping[str, Any]) -> None:
        """Execute the next action in an async application."""
        await self.app.astep(inputs=dict(inputs))

    def update(self, override: Override) -> None:
        """Do again what a user did to the state between two steps."""
        state, update = self.app.state, override.value
        gone = [key for key in update["delete"] if key in state]
        self.app.update_state(state.wipe(delete=gone).update(**update["set"]))

    def jump(self) -> None:
        """Go on from where the session stands: after a step that was applied, not executed."""
        self.app.update_state(self._state(None))

    def put_in(self, action: str, inputs: Mapping[str, Any]) -> bool:
        """Apply what the plan has for the next step instead of executing it, if it has.

        Args:
            action: the next one.
            inputs: what the step would be given.
        """
        given = {**self._taken(action, inputs), **context_input(self.track.seq)}
        put = self.track.planned(action, given, self.code(action))
        if put is None:
            return False
        self.track.put_in(put, lambda name, cells: self.route(name, cells)[0])
        self.jump()
        return self._after(True)

    def _taken(self, action: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Of some inputs those that an action takes."""
        taken = set().union(*self.spec.inputs_of(action)) if inputs else ()
        return {name: value for name, value in inputs.items() if name in taken}

    # -- what the recorded actions need ---------------------------------------------------

    @property
    def track(self) -> Track:
        """The run's own trajectory."""
        return self.session.track

    def records(self) -> bool:
        """Every step of the run's own application is recorded."""
        return True

    def code(self, action: str) -> Any:
        """The fingerprint of an action's code."""
        other = self.track.instead(action, self.spec.graph.get_action(action))
        return other.code if other else self.spec.code.get(action)

    def route(self, action: str, cells: Cells) -> tuple[Route, Boundary]:
        """The way on from *action*: the first transition whose condition holds."""
        found = first_way(self._wrapped, action, cells, self.spec.typing_system)
        self._boundary = found[1]
        return found


class _BannerFilter(logging.Filter):
    """Drops Burr's banner on an error that a run has recorded.

    It prints the whole state and the inputs, secrets included, and the exception reaches
    the user anyway.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not any(note.startswith(NOTE) for note in notes_on(error))


logging.getLogger("burr.core.application").addFilter(_BannerFilter())
