"""Another callable in the place of an action."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from burr.core.action import Action, FunctionBasedAction, create_action
from burr.core.action import action as burr_action

from rewind_nb._burr._actions import INJECTED
from rewind_nb._describe import short
from rewind_nb.errors import OverrideError


class Declared:
    """What a recording knows of an action that is not at hand, as far as it is asked here.

    Args:
        described: its entry in the description of its graph.
    """

    streaming: bool | None = None  # not known: whoever executes it is asked again

    def __init__(self, described: Mapping[str, Any]) -> None:
        self.name = described["name"]
        self.reads, self.writes = described["reads"], described["writes"]
        further = {*described["optional_inputs"], *described.get("bound", ()), *INJECTED}
        self.optional_and_required_inputs = set(described["inputs"]), further
        self._is_async = described["is_async"]

    def is_async(self) -> bool:
        """As it was recorded."""
        return bool(self._is_async)


def as_action(given: Any, original: Action | Declared) -> Action:
    """A callable, or an action, that takes the place of *original* under its name.

    A function gets the bound parameters of the original that it takes and has no value for, a
    plain one its reads and writes as well.

    Raises:
        OverrideError: it cannot: it is none, reads or writes other fields, needs an input that
            the original does not take, or is async or streaming where that is not.
    """
    found = _action(given, original)
    for what in ("reads", "writes"):
        ours, theirs = set(getattr(found, what)), set(getattr(original, what))
        if ours != theirs:
            raise _refused(
                original,
                f"{what} {_named(ours)}, and the action {what} {_named(theirs)}. Declare the same, "
                "or pass a function without @action, which takes them over.",
            )
    for name, mine, its in (
        ("async", found.is_async(), original.is_async()),
        ("streaming", found.streaming, original.streaming),
    ):
        if its is not None and mine != its:
            raise _refused(
                original,
                f"is {'' if mine else 'not '}{name}, and the action is{'' if its else ' not'}.",
            )
    required, _ = found.optional_and_required_inputs
    taken = set().union(*original.optional_and_required_inputs)
    if missing := sorted(required - taken):
        raise _refused(
            original, f"needs the inputs {_named(missing)}, which the action does not take."
        )
    return found


def _action(given: Any, original: Action | Declared) -> Action:
    if not hasattr(given, FunctionBasedAction.ACTION_FUNCTION) and not isinstance(given, Action):
        if not callable(given) or isinstance(given, type):
            raise _refused(original, f"is {short(given)}, no function or action.")
        given = burr_action(reads=list(original.reads), writes=list(original.writes))(given)
    made = create_action(given, original.name)
    bound = getattr(original, "_bound_params", None)
    if not bound or not isinstance(made, FunctionBasedAction):
        return made
    takes = inspect.signature(made.fn).parameters.keys() - made._bound_params  # noqa: SLF001
    missing = {name: bound[name] for name in bound if name in takes}
    return made.with_params(**missing).with_name(original.name)


def _named(names: Any) -> str:
    return ", ".join(map(repr, sorted(names))) or "nothing"


def _refused(original: Action | Declared, why: str) -> OverrideError:
    return OverrideError(f"action= for {original.name!r} {why}", override="action")
