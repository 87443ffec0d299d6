"""`Machine`: a Burr application built around a session, stepped one action at a time."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from burr.core import Application, ApplicationBuilder
from burr.core.application import PRIOR_STEP, SEQUENCE_ID

from rewind_nb._burr._actions import NOTE, wrap_graph
from rewind_nb._burr._app import AppSpec
from rewind_nb._burr._state import Boundary, RunState
from rewind_nb._cells import Cells
from rewind_nb._outcome import Route
from rewind_nb._session import Session


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
        self._wrapped = wrap_graph(spec.graph, self)
        self._adapters = adapters
        self._boundary = Boundary(session.cells, spec.typing_system)
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
                return step(inputs=inputs)

        async def aguarded(inputs: dict[str, Any] | None = None) -> Any:
            with self.session.stepping():
                return await astep(inputs=inputs)

        app.step, app.astep = guarded, aguarded
        return app

    def _state(self, entry: str | None) -> RunState:
        if self._boundary.cells is not self.session.cells:
            self._boundary = Boundary(self.session.cells, self.spec.typing_system)
        values = {**self.session.cells, **self._private(entry)}
        return RunState(values, self.spec.typing_system, self._boundary)

    def _private(self, entry: str | None) -> dict[str, Any]:
        private: dict[str, Any] = {}
        if self.session.seq > 0:
            private[SEQUENCE_ID] = self.session.seq - 1
        if entry is None and self.session.prior is not None:
            private[PRIOR_STEP] = self.session.prior
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

    def jump(self) -> None:
        """Go on from where the session stands: after a step that was applied, not executed."""
        self.app.update_state(self._state(None))

    def enter(self, action: str) -> None:
        """Execute *action* next, from where the session stands."""
        self.app = self._build(action)

    def route(self, action: str, cells: Cells) -> tuple[Route, Boundary]:
        """The way on from *action*: the first transition whose condition holds."""
        boundary = self._boundary = Boundary(cells, self.spec.typing_system)
        state = RunState(dict(cells), self.spec.typing_system, boundary)
        for transition in self._wrapped.transitions:
            if transition.from_.name != action:
                continue
            condition = transition.condition
            try:
                holds = condition.run(state)[condition.KEY]
            except Exception:  # noqa: BLE001  (Burr asks again, and raises it to the user)
                reads = tuple(boundary.reads.items())
                return Route(condition=condition.name, reads=reads, failed=True), boundary
            if holds:
                reads = tuple(boundary.reads.items())
                return Route(transition.to.name, condition.name, reads), boundary
        return Route(reads=tuple(boundary.reads.items())), boundary


class _BannerFilter(logging.Filter):
    """Drops Burr's banner on an error that a run has recorded.

    It prints the whole state and the inputs, secrets included, and the exception reaches
    the user anyway.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        notes = getattr(error, "__notes__", ())
        return not any(note.startswith(NOTE) for note in notes)


logging.getLogger("burr.core.application").addFilter(_BannerFilter())
