"""Fingerprints of what actions execute."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from burr.core.action import Action, FunctionBasedAction, FunctionBasedStreamingAction
from burr.core.graph import Graph

from rewind_nb import _code, _codec


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
