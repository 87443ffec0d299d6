"""What rewind_nb takes from the application a user built, which itself never advances."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from burr.core import Application, ApplicationBuilder
from burr.core.action import Action, FunctionBasedAction
from burr.core.application import PRIOR_STEP, TracerFactoryContextHook
from burr.core.graph import Graph, Transition
from burr.core.persistence import PersisterHook, PersisterHookAsync

from rewind_nb import _code, _codec
from rewind_nb._burr._actions import RecordedAction, cells_in
from rewind_nb._cells import Cells
from rewind_nb.errors import ConfigError

_OURS_OR_BURRS = (PersisterHook, PersisterHookAsync, TracerFactoryContextHook)


class CodeBook(Mapping[str, _code.CodeFingerprint]):
    """The code of every action, and which containers it refers to kept still.

    Lists and dicts among globals and attributes count as code where nothing changes them
    (a table of prompts), and as hidden state where something does (a log).
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._code = {action.name: code_of(action) for action in graph.actions}

    def __getitem__(self, action: str) -> _code.CodeFingerprint:
        return self._code[action]

    def __iter__(self) -> Iterator[str]:
        return iter(self._code)

    def __len__(self) -> int:
        return len(self._code)

    def stable(self) -> dict[str, dict[str, str]]:
        """Per action its containers by content digest, "" for one that changed meanwhile."""
        kept = {}
        for action in self._graph.actions:
            before = self._code[action.name].containers
            if before:
                after = code_of(action).containers
                kept[action.name] = {k: d if after.get(k) == d else "" for k, d in before.items()}
        return kept


@dataclass(frozen=True, slots=True)
class AppSpec:
    """An application, taken apart.

    Attributes:
        cells: its state as content, Burr's own keys apart.
        prior: the action it executed last, None before the first.
        adapters: the user's Burr hooks. Persisters and trackers are left out: the store
            takes their place, and a fork must not write over its parent's rows in them.
        code: a fingerprint of every action's code.
    """

    graph: Graph
    entrypoint: str
    cells: Cells
    prior: str | None
    typing_system: Any
    adapters: tuple[Any, ...]
    executor_factory: Any
    partition_key: str | None
    code: CodeBook

    def with_current_code(self) -> AppSpec:
        """The same application with its code fingerprinted as it is now."""
        return replace(self, code=CodeBook(self.graph))

    @property
    def is_async(self) -> bool:
        """Whether any action is async."""
        return any(action.is_async() for action in self.graph.actions)

    @property
    def action_names(self) -> list[str]:
        """In the order of the graph."""
        return [action.name for action in self.graph.actions]

    def inputs_of(self, action: str) -> tuple[set[str], set[str]]:
        """The required and the optional inputs of an action, Burr's injected ones apart."""
        required, optional = self.graph.get_action(action).optional_and_required_inputs
        return (
            {name for name in required if not name.startswith("__")},
            {name for name in optional if not name.startswith("__")},
        )

    def tagged(self, tag: str) -> list[str]:
        """The actions that carry a tag."""
        return [a.name for a in self.graph.actions if tag in a.tags]

    def describe(self) -> dict[str, Any]:
        """The graph as plain data, so that a run draws without its application."""
        return {
            "entrypoint": self.entrypoint,
            "actions": [_describe_action(a) for a in self.graph.actions],
            "transitions": [
                {
                    "from": t.from_.name,
                    "to": t.to.name,
                    "condition": t.condition.name,
                    "reads": sorted(set(t.condition.reads)),
                }
                for t in self.graph.transitions
            ],
        }


def read_app(given: Any) -> AppSpec:
    """Take an application (or what builds one) apart.

    Raises:
        ConfigError: *given* is none of the two.
        NotEncodableError: its state holds a value that cannot be stored exactly.
    """
    app = build(given)
    builder = app.builder
    graph = _unwrapped(app.graph)
    tracker = getattr(builder, "tracker", None)
    adapters = builder.lifecycle_adapters if builder else app._adapter_set.adapters  # noqa: SLF001
    return AppSpec(
        graph=graph,
        entrypoint=app.graph.entrypoint.name,
        cells=cells_in(app.state),
        prior=app.state.get(PRIOR_STEP),
        typing_system=app.state.typing_system,
        adapters=tuple(
            a for a in adapters if not isinstance(a, _OURS_OR_BURRS) and a is not tracker
        ),
        executor_factory=getattr(builder, "parallel_executor_factory", None),
        partition_key=app.partition_key,
        code=CodeBook(graph),
    )


def build(given: Any) -> Application:
    """The application that *given* is or builds."""
    if isinstance(given, Application):
        return given
    if isinstance(given, ApplicationBuilder):
        return given.build()
    if callable(given) and not isinstance(given, type):
        built = given()
        if inspect.iscoroutine(built):
            built.close()
            raise ConfigError(
                "The function given to Rewind is async. Pass `await build()`, the application "
                "itself, or a plain function that returns one."
            )
        if isinstance(built, Application | ApplicationBuilder):
            return build(built)
        raise ConfigError(
            f"The function given to Rewind returned {type(built).__name__}, not a Burr "
            "application. Return what ApplicationBuilder(...).build() gives."
        )
    raise ConfigError(
        f"Rewind takes a built Burr application, or a function without arguments that builds "
        f"one; it got {type(given).__name__}. Call .build() on your ApplicationBuilder."
    )


def code_of(action: Action) -> _code.CodeFingerprint:
    """A fingerprint of what the action executes, its bound parameters included."""
    encode: Callable[[Any], bytes] = _codec.encode
    if isinstance(action, FunctionBasedAction):
        function = getattr(action, "_originating_fn", action.fn)
        bound = getattr(action, "_bound_params", {})
        return _code.fingerprint(function, bound=bound, encode=encode)
    return _code.fingerprint(action, encode=encode)


def _unwrapped(graph: Graph) -> Graph:
    """The user's own actions, also of an application that came from rewind_nb."""
    actions = {a.name: a.inner if isinstance(a, RecordedAction) else a for a in graph.actions}
    transitions = [
        Transition(actions[t.from_.name], actions[t.to.name], t.condition)
        for t in graph.transitions
    ]
    return Graph(list(actions.values()), transitions)


def _describe_action(action: Action) -> dict[str, Any]:
    required, optional = action.optional_and_required_inputs
    return {
        "name": action.name,
        "reads": list(action.reads),
        "writes": list(action.writes),
        "inputs": sorted(n for n in required if not n.startswith("__")),
        "optional_inputs": sorted(n for n in optional if not n.startswith("__")),
        "tags": list(action.tags),
        "is_async": action.is_async(),
        "kind": type(action).__name__,
    }
