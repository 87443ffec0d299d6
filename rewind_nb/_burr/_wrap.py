"""A graph whose actions are recorded, and the driver of one that runs inside a step."""

from __future__ import annotations

from typing import Any

from burr.core import Application
from burr.core.action import Action
from burr.core.application import PRIOR_STEP
from burr.core.graph import Graph
from burr.core.state import State

from rewind_nb._burr import _codes
from rewind_nb._burr._actions import Recorded, RecordedAction, cells_in
from rewind_nb._burr._describe_graph import describe_graph
from rewind_nb._burr._driver import Driver, first_way, rewired, wrap_condition
from rewind_nb._burr._state import Boundary, RunState, is_private
from rewind_nb._burr._streams import RecordedStream
from rewind_nb._cells import Cells
from rewind_nb._open_step import OpenStep, open_step
from rewind_nb._outcome import Route
from rewind_nb._track import Track


def wrap_graph(graph: Graph, driver: Driver) -> Graph:
    """The same graph with every action and condition recorded."""
    wrapped: dict[str, Any] = {}
    for action in graph.actions:
        kind = RecordedStream if action.streaming else RecordedAction
        wrapped[action.name] = kind(action, driver)
    return rewired(graph, wrapped, wrap_condition)


def unwrapped(graph: Graph) -> Graph:
    """The user's own actions, also of a graph that came from here."""
    return rewired(graph, {a.name: bare(a) for a in graph.actions})


def bare(action: Action) -> Action:
    """The action as the user wrote it."""
    return action.inner if isinstance(action, Recorded) else action


def is_recorded(graph: Graph) -> bool:
    """Whether its actions are recorded already."""
    return any(isinstance(action, Recorded) for action in graph.actions)


class InnerDriver:
    """What drives the graph of a task, or of an application that an action built."""

    def __init__(
        self, step: OpenStep, key: str, state: State, graph: Graph, entrypoint: str
    ) -> None:
        self._step = step
        self.streaming: Any = None
        self._typing = state.typing_system
        self.plain = unwrapped(graph)
        described = describe_graph(self.plain, entrypoint)
        self.track: Track = step.task(key, cells_in(state), described)
        self.graph = wrap_graph(self.plain, self)

    def records(self) -> bool:
        """Only inside the step that built it: an application may be kept for longer."""
        return open_step() is self._step

    def route(self, action: str, cells: Cells) -> tuple[Route, Boundary]:
        """The way on from *action*."""
        return first_way(self.graph, action, cells, self._typing)

    def code(self, action: str) -> Any:
        """The fingerprint of an action's code."""
        original = self.plain.get_action(action)
        other = self.track.instead(action, original)
        return other.code if other else _codes.known_code(original)

    def state(self, given: State) -> RunState:
        """The state that Burr is to hold: cells, and Burr's own keys as they are in *given*."""
        cells = self.track.cells
        held = given._state  # noqa: SLF001
        private = {k: held[k] for k in held if is_private(k)}
        return RunState({**cells, **private}, self._typing, Boundary(cells, self._typing))


def adopt(app: Application, step: OpenStep) -> None:
    """Record an application that the action of *step* has built and is going to run."""
    driver = InnerDriver(step, step.next_app(), app.state, app.graph, app.entrypoint)
    driver.track.prior = app.state.get(PRIOR_STEP)
    app._graph = driver.graph  # noqa: SLF001
    app.update_state(driver.state(app.state))
