"""What drives recorded actions: a graph around its track, and the way from step to step."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Protocol

from burr.core.graph import Graph, Transition
from burr.core.state import State

from rewind_nb._burr._state import Boundary, RunState
from rewind_nb._cells import Cells
from rewind_nb._outcome import Route
from rewind_nb._track import Track


class Driver(Protocol):
    """What a recorded action needs of what runs it."""

    streaming: Any  # the generator of the stream that is going out, if any

    @property
    def track(self) -> Track:
        """The trajectory that its steps are recorded in."""

    def records(self) -> bool:
        """Whether a step that executes now is one of that trajectory."""

    def route(self, action: str, cells: Cells) -> tuple[Route, Boundary]:
        """The way on from *action*, and the boundary that remembers it."""

    def code(self, action: str) -> Any:
        """The fingerprint of an action's code."""


def first_way(
    graph: Graph, action: str, cells: Cells, typing_system: Any
) -> tuple[Route, Boundary]:
    """The first transition from *action* whose condition holds.

    Args:
        graph: its conditions wrapped by `wrap_condition`.
    """
    boundary = Boundary(cells, typing_system)
    state = RunState(dict(cells), typing_system, boundary)
    for transition in graph.transitions:
        if transition.from_.name != action:
            continue
        condition = transition.condition
        try:
            holds = condition.run(state)[condition.KEY]
        except BaseException as error:  # noqa: BLE001  (Burr asks again, and raises it to the user)
            if not isinstance(error, Exception):
                boundary.put_off(error)
            reads = tuple(boundary.reads.items())
            return Route(condition=condition.name, reads=reads, failed_by=error), boundary
        if holds:
            reads = tuple(boundary.reads.items())
            return Route(transition.to.name, condition.name, reads), boundary
    return Route(reads=tuple(boundary.reads.items())), boundary


def rewired(
    graph: Graph, actions: dict[str, Any], condition: Callable[[Any], Any] = lambda own: own
) -> Graph:
    """The same graph with other actions under its names, and what *condition* makes of its own."""
    transitions = [
        Transition(actions[t.from_.name], actions[t.to.name], condition(t.condition))
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
