"""JSON as the standard defines it, and looking things up in it without trusting it."""

from __future__ import annotations

import json
import math
from typing import Any

from rewind_nb.capture.wire._wire import ToolCall

__all__ = [
    "added",
    "copied",
    "count",
    "is_deeper",
    "is_text",
    "member",
    "objects",
    "same",
    "strict_json",
    "text",
    "tool_call",
]


_PRINTED = 1 << 2048  # no limit of an interpreter is lower


def strict_json(source: str) -> Any:
    """Parse JSON as the standard defines it.

    Raises:
        ValueError: with one of few fixed reasons.

    Example:
        >>> strict_json('{"a": 1, "a": 2}')
        Traceback (most recent call last):
            ...
        ValueError: the key 'a' occurs twice
    """
    try:
        return json.loads(
            source,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except _NotStrictError as error:
        reason = str(error)
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError:
        reason = "it is not valid JSON" if source.strip() else "it is empty"
    raise ValueError(reason)


class _NotStrictError(ValueError):
    """Accepted by Python's parser, refused here."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise _NotStrictError(f"the key {twice!r} occurs twice")
    return found


def _no_constant(name: str) -> None:
    raise _NotStrictError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise _NotStrictError("it holds a number that no float can hold")
    return number


def copied(tree: Any) -> Any:
    """A JSON value with lists and dicts of its own, however deeply they are nested.

    Example:
        >>> given = {"a": [1]}
        >>> copied(given) == given, copied(given)["a"] is given["a"]
        (True, False)
    """
    top: list[Any] = [tree]
    left: list[Any] = [top]
    while left:
        node = left.pop()
        for key, item in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(item, dict | list):
                node[key] = fresh = item.copy()
                left.append(fresh)
    return top[0]


def is_deeper(tree: Any, levels: int) -> bool:
    """Whether a JSON value is nested in more lists and dicts than *levels*.

    Example:
        >>> is_deeper([[1]], 1), is_deeper([[1]], 2), is_deeper("text", 0)
        (True, False, False)
    """
    layer = [tree]
    for _ in range(levels + 1):
        layer = [node for node in layer if isinstance(node, dict | list)]
        if not layer:
            return False
        layer = [
            child for node in layer for child in (node.values() if isinstance(node, dict) else node)
        ]
    return True


def member(value: Any, *path: str) -> dict[str, Any]:
    """The object at *path*, an empty one where there is none.

    Example:
        >>> member({"usage": {"details": {"cached": 3}}}, "usage", "details")
        {'cached': 3}
        >>> member({"usage": None}, "usage")
        {}
    """
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def objects(value: Any, name: str) -> list[dict[str, Any]]:
    """The objects of the list *name* of an object, none where there is no such list.

    Example:
        >>> objects({"choices": [{"index": 0}, None]}, "choices")
        [{'index': 0}]
    """
    inner = value.get(name) if isinstance(value, dict) else None
    return [item for item in inner if isinstance(item, dict)] if isinstance(inner, list) else []


def text(value: Any) -> str | None:
    """The value if it is a text that is not empty."""
    return value if isinstance(value, str) and value else None


def is_text(part: Any, kind: str = "text") -> bool:
    """Whether a part of a message is a text of this type.

    Example:
        >>> is_text({"type": "text", "text": "hi"}), is_text({"type": "image"})
        (True, False)
    """
    typed = isinstance(part, dict) and part.get("type") == kind
    return typed and isinstance(part.get("text"), str)


def count(counts: dict[str, Any], *names: str) -> int | None:
    """The first of these that is a count; what is absent or no count is unknown.

    One of many hundreds of digits is no count: there are ints that Python refuses to print.
    """
    for name in names:
        value = counts.get(name)
        if type(value) is int and 0 <= value < _PRINTED:
            return value
    return None


def added(first: int | None, *more: int | None) -> int | None:
    """The sum, where what it starts from is known; what is absent of the rest is nothing.

    Example:
        >>> added(3, None, 4), added(None, 4)
        (7, None)
    """
    return None if first is None else first + sum(part or 0 for part in more)


def same(a: Any, b: Any) -> bool:
    """Whether two JSON values are the same; the order of keys does not count.

    Example:
        >>> same({"a": 1, "b": True}, {"b": True, "a": 1}), same(1, True), same([1], [1.0])
        (True, False, False)
    """
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and bool(a == b)


def tool_call(id_: Any, name: Any, arguments: Any) -> ToolCall | None:
    """A call of a tool, None where it names no tool. JSON arguments are parsed.

    Example:
        >>> tool_call("call_1", "weigh", '{"what": "plum"}')
        ToolCall(id='call_1', name='weigh', arguments={'what': 'plum'})
    """
    if not text(name):
        return None
    if isinstance(arguments, str):
        try:
            parsed = strict_json(arguments)
        except ValueError:
            parsed = None
        arguments = parsed if isinstance(parsed, dict) else arguments
    return ToolCall(text(id_), name, arguments)
