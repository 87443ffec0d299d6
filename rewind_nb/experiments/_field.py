"""What the recorded value of a field can be changed to."""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

from rewind_nb import _codec
from rewind_nb._describe import short
from rewind_nb.errors import ConfigError
from rewind_nb.experiments._axes import OF_CALLS, RECORDED, Axis
from rewind_nb.experiments._search import default_tolerance

# Of a request: JSON writes 0.0 and 0 alike, and these are no whole numbers.
FRACTIONS = ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty")


def starting(axis: Axis, recorded: Any) -> Any:
    """The recorded value as a search starts from it."""
    name = axis.kind if axis.path is None else axis.path
    of_a_call = axis.kind in OF_CALLS and name in FRACTIONS
    return float(recorded) if of_a_call and is_number(recorded) else recorded


def is_number(value: Any) -> bool:
    """Whether it is a finite number."""
    number = isinstance(value, Real) and not isinstance(value, bool | enum.Enum)
    return number and math.isfinite(value)


def alternatives(axis: Axis, recorded: Any) -> list[Any]:
    """What else a bool or a member of an enum can be."""
    if isinstance(recorded, bool):
        return [not recorded]
    if isinstance(recorded, enum.Enum):
        return list(type(recorded))
    what = "nothing" if recorded is None else short(recorded)
    raise ConfigError(
        f"{what} is recorded for {axis.name!r}, and only numbers, bools and enums can be searched. "
        "Give candidates=[...], in the order in which they are to be tried."
    )


def is_recorded(value: Any, recorded: Any) -> bool:
    """Whether a candidate is what was recorded, by its encoding."""
    if value is RECORDED or callable(value):
        return value is RECORDED
    return _codec.encode(value) == _codec.encode(recorded)


def each_once(values: Iterable[Any]) -> list[Any]:
    """The values without those that are an earlier one again, by their encoding."""
    found: dict[Any, Any] = {}
    for value in values:
        found.setdefault(value if callable(value) else _codec.encode(value), value)
    return list(found.values())


def bounds_of(between: Any, recorded: Any) -> tuple[Any, Any] | None:
    """The bounds as numbers of the recorded type, within what was given."""
    if between is None:
        return None
    pair = isinstance(between, Sequence) and len(between) == 2
    if not pair or not all(is_number(v) for v in between) or not between[0] < between[1]:
        raise ConfigError(f"between={short(between)}: two numbers, the least and the greatest.")
    if not between[0] <= recorded <= between[1]:
        raise ConfigError(
            f"between={short(between)} does not hold the recorded value, {short(recorded)}, from "
            "which the search begins."
        )
    kind, whole = type(recorded), isinstance(recorded, Integral)
    return (
        kind(math.ceil(between[0]) if whole else between[0]),
        kind(math.floor(between[1]) if whole else between[1]),
    )


def tolerance_of(tolerance: Any, recorded: Any) -> Any:
    """How near to the flip a search is to come."""
    if tolerance is None:
        return default_tolerance(recorded)
    if not is_number(tolerance) or tolerance < 0:
        raise ConfigError(f"tolerance={short(tolerance)}: a number from 0 on.")
    return tolerance
