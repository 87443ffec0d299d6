"""What rewind_nb takes from the application a user built, which itself never advances."""

from __future__ import annotations

import importlib.metadata
import inspect
import re
from dataclasses import dataclass, replace
from typing import Any

from burr.core import Application, ApplicationBuilder
from burr.core.application import PRIOR_STEP, TracerFactoryContextHook
from burr.core.graph import Graph
from burr.core.persistence import PersisterHook, PersisterHookAsync

from rewind_nb._burr._actions import cells_in
from rewind_nb._burr._codes import CodeBook
from rewind_nb._burr._describe_graph import describe_graph
from rewind_nb._burr._wrap import unwrapped
from rewind_nb._cells import Cells
from rewind_nb.errors import ConfigError

_OURS_OR_BURRS = (PersisterHook, PersisterHookAsync, TracerFactoryContextHook)


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
        return describe_graph(self.graph, self.entrypoint, self.code)


def read_app(given: Any) -> AppSpec:
    """Take an application (or what builds one) apart.

    Raises:
        ConfigError: *given* is none of the two.
        NotEncodableError: its state holds a value that cannot be stored exactly.
    """
    refuse_two_burrs()
    app = build(given)
    builder = app.builder
    graph = unwrapped(app.graph)
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


def refuse_two_burrs() -> None:
    """Refuse an environment in which two distributions wrote over each other's files.

    Raises:
        ConfigError: an old ``burr`` is installed beside ``apache-burr``.
    """
    try:
        old = importlib.metadata.version("burr")
    except importlib.metadata.PackageNotFoundError:
        return
    if tuple(int(n) for n in re.findall(r"\d+", old)[:2]) < (0, 42):  # later ones are empty
        raise ConfigError(
            f"Both burr {old} and apache-burr {importlib.metadata.version('apache-burr')} are "
            "installed, and they share one folder. Run `pip uninstall burr apache-burr`, then "
            "`pip install apache-burr`."
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
