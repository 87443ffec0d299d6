"""Fingerprints of what actions execute."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from burr.core.action import Action, Condition, FunctionBasedAction, FunctionBasedStreamingAction
from burr.core.graph import Graph

from rewind_nb import _code, _codec
from rewind_nb.errors import NotEncodableError


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


def code_of(action: Action) -> _code.CodeFingerprint:
    """A fingerprint of what the action executes, its bound parameters included."""
    encode: Callable[[Any], bytes] = _codec.encode
    if isinstance(action, FunctionBasedAction | FunctionBasedStreamingAction):
        function = getattr(action, "_originating_fn", action._fn)  # noqa: SLF001
        bound = getattr(action, "_bound_params", {})
        return _code.fingerprint(function, bound=bound, encode=encode)
    return _code.fingerprint(action, encode=encode)


_known: weakref.WeakKeyDictionary[Any, _code.CodeFingerprint] = weakref.WeakKeyDictionary()


def known_code(action: Action) -> _code.CodeFingerprint:
    """The fingerprint of an action inside a task, remembered for as long as its function lives.

    A parallel action makes its actions anew for every task; what they execute stays.
    """
    function = getattr(action, "_originating_fn", None)
    if function is None or getattr(action, "_bound_params", None):
        return code_of(action)
    if function not in _known:
        _known[function] = code_of(action)
    return _known[function]


def condition_code(condition: Any) -> str:
    """A hash of what a condition decides by: what it says, and the user's functions in it."""
    return str(_codec.digest(_codec.encode(_condition(condition))))


def _condition(condition: Any) -> list[Any]:
    return [condition.name, list(condition.reads), _decides(condition.resolver)]


def _decides(value: Any) -> Any:
    """Burr's own functions hold the user's, other conditions, or plain values."""
    if isinstance(value, Condition):
        return _condition(value)
    if isinstance(value, list | tuple):
        return [_decides(item) for item in value]
    if inspect.isfunction(value) and value.__module__.partition(".")[0] == "burr":
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        return [value.__qualname__, [_decides(cell) for cell in cells]]
    if callable(value):
        code = _code.fingerprint(value, encode=_codec.encode)
        return [code.digest, [list(item) for item in code.containers.items()]]
    try:
        return _codec.digest(_codec.encode(value))
    except NotEncodableError:
        return type(value).__name__
