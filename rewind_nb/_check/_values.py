"""The operators of checks on values; what cannot be compared is an error, not a failure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from rewind_nb._describe import displayed, short

__all__ = ["OPERATORS", "UnknownError", "kind", "listed", "scalar"]


class UnknownError(Exception):
    """A question that the run does not allow to answer."""


def scalar(value: Any) -> Any:
    """A numpy scalar as the Python value it stands for; numpy is not imported for it."""
    numpy_like = type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0
    return value.item() if numpy_like else value


def kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int | float) or type(value).__name__ in ("Decimal", "Fraction"):
        return "a number"
    return f"of type {type(value).__name__}"


def _same(value: Any, literal: Any) -> bool:
    """Equal and of one kind: 1 is not true, a tuple is a list."""
    value = scalar(value)
    if kind(value) != kind(literal):
        return False
    if isinstance(literal, tuple):
        return len(value) == len(literal) and all(map(_same, value, literal))
    return bool(value == literal)


def _comparable(value: Any, literal: Any) -> bool:
    return None in (_kinds := (value, literal)) or len({kind(v) for v in _kinds}) == 1


def _equal(value: Any, literal: Any, field_name: str) -> bool:
    if value is not None and literal is not None and kind(value) != kind(literal):
        raise _unlike(value, literal, field_name)
    return _same(value, literal)


def _ordered(operator: str) -> Callable[[Any, Any, str], bool]:
    def compare(value: Any, literal: Any, field_name: str) -> bool:
        if kind(value) != kind(literal):
            raise _unlike(value, literal, field_name)
        less, equal = bool(value < literal), bool(value == literal)
        more = bool(value > literal)  # not the opposite of the others: a NaN is nothing
        return {"<": less, "<=": less or equal, ">": more, ">=": more or equal}[operator]

    return compare


def _unlike(value: Any, literal: Any, field_name: str) -> UnknownError:
    return UnknownError(
        displayed(
            f"{field_name} is {short(value)}, {kind(value)}, and cannot be compared with "
            f"{short(listed(literal))}, {kind(literal)}"
        )
    )


def _contains(value: Any, literal: Any, field_name: str) -> bool:
    if isinstance(value, str):
        if not isinstance(literal, str):
            raise _unlike(value, literal, field_name)
        return literal in value
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        return any(_same(item, literal) for item in value)
    raise UnknownError(
        displayed(f"{field_name} is {short(value)}, {kind(value)}, which contains nothing")
    )


def _matches(value: Any, literal: Any, field_name: str) -> bool:
    if not isinstance(value, str):
        raise UnknownError(
            displayed(f"{field_name} is {short(value)}, {kind(value)}, and only a text matches")
        )
    return re.search(literal, value) is not None


def _among(value: Any, literal: Any, field_name: str) -> bool:
    if any(_same(value, item) for item in literal):
        return True
    if literal and not any(_comparable(value, item) for item in literal):
        raise _unlike(value, literal[0], field_name)
    return False


def listed(literal: Any) -> Any:
    return list(map(listed, literal)) if isinstance(literal, tuple) else literal


OPERATORS: dict[str, Callable[[Any, Any, str], bool]] = {
    "==": _equal,
    "!=": lambda value, literal, field_name: not _equal(value, literal, field_name),
    **{operator: _ordered(operator) for operator in ("<", "<=", ">", ">=")},
    "contains": _contains,
    "matches": _matches,
    "in": _among,
}
