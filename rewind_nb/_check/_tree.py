"""The tree of a check, and how it is written: the same expression for the same tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from rewind_nb import _path
from rewind_nb._path import Part

__all__ = ["TESTS", "And", "Compare", "Node", "Not", "Or", "Ran", "both", "either", "write"]

TESTS = ("exists", "is missing")
"""Operators without a value."""


@dataclass(frozen=True, slots=True)
class Compare:
    """A field against a value; the value is None for `exists` and `is missing`."""

    path: tuple[Part, ...]
    operator: str
    value: Any = None


@dataclass(frozen=True, slots=True)
class Ran:
    """A callable that is asked, and between which numbers its answer is to be."""

    function: Callable[[Any], Any]
    name: str
    at_least: float | None = None
    at_most: float | None = None


@dataclass(frozen=True, slots=True)
class Not:
    """Holds where its part does not."""

    part: Node


@dataclass(frozen=True, slots=True)
class And:
    """Holds where all of its parts do."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Holds where one of its parts does."""

    parts: tuple[Node, ...]


Node = Compare | Ran | Not | And | Or


def both(parts: Iterable[Node]) -> Node:
    """All of these, flat: nested ones are spliced in."""
    flat = [p for part in parts for p in (part.parts if isinstance(part, And) else (part,))]
    return flat[0] if len(flat) == 1 else And(tuple(flat))


def either(parts: Iterable[Node]) -> Node:
    """One of these, flat: nested ones are spliced in."""
    flat = [p for part in parts for p in (part.parts if isinstance(part, Or) else (part,))]
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def write(node: Node, outer: int = 0) -> str:
    """An expression that reads back to this tree, written one way.

    Example:
        >>> write(Not(Compare(("report", "total"), ">", 1e2)))
        'not report.total > 100.0'
    """
    match node:
        case Compare(path, operator, value):
            field = _path.render(path)
            if path[0] == "not":  # it would be read as the word
                field = _path.bracket("", "not") + field[3:]
            return f"{field} {operator}" + ("" if operator in TESTS else f" {_literal(value)}")
        case Ran(_, name, at_least, at_most):
            low = "" if at_least is None else f"{at_least} <= "
            high = "" if at_most is None else f" <= {at_most}"
            return f"{low}{name}(){high}"
        case Not(part):
            return f"not {write(part, 2)}"
        case And(parts):
            level, text = 1, " and ".join(write(part, 1 + 1) for part in parts)
        case Or(parts):
            level, text = 0, " or ".join(write(part, 1) for part in parts)
    return f"({text})" if level < outer else text


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_literal, value))}]"
    names: dict[Any, str] = {None: "null", True: "true", False: "false"}
    return names[value] if value is None or isinstance(value, bool) else repr(value)


def _quoted(text: str) -> str:
    quote = '"' if "'" in text and '"' not in text else "'"
    escaped = ""
    for now, after in zip(text, f"{text[1:]}{quote}", strict=False):
        literal = now == quote or (now == "\\" and after in "\\'\"")
        escaped += f"\\{now}" if literal else now
    return f"{quote}{escaped}{quote}"
