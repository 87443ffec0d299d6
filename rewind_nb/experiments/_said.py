"""What a model said, leaf by leaf: its text, or the arguments of the tools it asked for.

Where the arguments stand in the body of an answer is found by what they are, so that every
format of a provider is read in the same way.
"""

from __future__ import annotations

import copy
import functools
import json
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rewind_nb._path import Part
from rewind_nb.capture.wire import Reading, ToolCall
from rewind_nb.experiments._perturb import Leaf, leaves

Place = tuple[Part, ...]


def said(body: Any, reading: Reading) -> list[tuple[str, Leaf]]:
    """The leaves of a model's answer, each with the tool whose argument it is; "" for its text.

    A leaf of the text makes the text of an answer that calls no tool; one of an argument makes
    a whole body. Beside arguments the text is none: nothing but the caller reads it.
    """
    found, calls = [], reading.tool_calls
    for name, place, call in zip(_names(calls), _places(body, calls), calls, strict=True):
        if place is not None and call.arguments:
            rest = _written(body, place)
            found += [(name, leaf.within(rest)) for leaf in leaves(call.arguments)]
    return found or [("", leaf) for leaf in leaves(reading.text)]


def _names(calls: Sequence[ToolCall]) -> list[str]:
    """What each call is named by: its tool, numbered where that is asked for several times."""
    names = [call.name for call in calls]
    return [
        name if names.count(name) == 1 else f"{name}[{names[:n].count(name)}]"
        for n, name in enumerate(names)
    ]


def _places(body: Any, calls: Sequence[ToolCall]) -> list[Place | None]:
    """Where in a body the arguments of each call stand."""
    nodes = list(_nodes(body, ()))
    found: list[Place | None] = []
    for call in calls:
        at = next((n for n, (_, node) in enumerate(nodes) if _is(node, call.arguments)), None)
        found.append(None if at is None else nodes[at][0])
        nodes = nodes if at is None else nodes[at + 1 :]  # calls stand in their order
    return found


def _nodes(node: Any, place: Place) -> Iterator[tuple[Place, Any]]:
    yield place, node
    if isinstance(node, dict | list):
        for key, part in node.items() if isinstance(node, dict) else enumerate(node):
            yield from _nodes(part, (*place, key))


def _is(node: Any, arguments: Any) -> bool:
    """Whether a node is the arguments of a call, or their text."""
    if not isinstance(node, str) or isinstance(arguments, str):
        return type(node) is type(arguments) and bool(node == arguments)
    try:
        return bool(json.loads(node) == arguments)
    except ValueError:
        return False


def _written(body: Any, place: Place) -> Callable[[Any], Any]:
    """Arguments -> the body with them in place of those that stand there."""

    def put(arguments: Any) -> Any:
        new = copy.deepcopy(body)
        *above, last = place
        inside = functools.reduce(operator.getitem, above, new)
        as_text = isinstance(inside[last], str) and not isinstance(arguments, str)
        inside[last] = json.dumps(arguments, ensure_ascii=False) if as_text else arguments
        return new

    return put
