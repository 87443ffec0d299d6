"""The axes of a grid: what each replaces, and the overrides of each cell of their product."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rewind_nb import _codec
from rewind_nb._combine import Given
from rewind_nb._credentials import refuse_credentials
from rewind_nb._describe import short
from rewind_nb._plan import KINDS
from rewind_nb.capture._context import MODEL_OVERRIDES, TOOL_OVERRIDES
from rewind_nb.errors import ConfigError, did_you_mean

BY_NAME = ("output", "patch", "state", "inputs", "params", "tool_args")  # take dicts
OF_CALLS = (*MODEL_OVERRIDES, *TOOL_OVERRIDES)
RECORDED = ...  # as a value of an axis: what was recorded

_NAME = re.compile(r"(?P<kind>\w+)(\[(?P<call>\d+)\])?(\.(?P<path>.+))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Axis:
    """One thing that is replaced, and the values it is replaced by.

    Attributes:
        name: as it was given: ``prompt``, ``params[1].seed``, ``patch.report.total``.
        path: within what takes a dict, the field; None for the whole.
    """

    name: str
    kind: str
    call: int
    path: str | None
    values: tuple[Any, ...]

    def given(self, value: Any) -> Any:
        """A value as the override of its kind takes it."""
        return value if self.path is None else {self.path: value}


def axes_of(over: Any) -> tuple[Axis, ...]:
    """The axes of ``over={name: values}``.

    Raises:
        ConfigError: a name is no override, or its values are no list of some.
    """
    if not isinstance(over, Mapping) or not over:
        raise ConfigError(
            f"over= takes a dict of axes, such as {{'prompt': [...], 'model': [...]}}; it got "
            f"{short(over)}."
        )
    return tuple(axis_of(name, values) for name, values in over.items())


def axis_of(name: Any, values: Any, said: str = "over=") -> Axis:
    """One axis.

    Args:
        said: which argument names it.

    Raises:
        ConfigError: the name is no override, or its values are no list of some.
        SecretLeakError: a value is a credential, by its name.
    """
    found = _NAME.fullmatch(name) if isinstance(name, str) else None
    if found is None or found["kind"] not in KINDS:
        near = did_you_mean(str(name).partition(".")[0], KINDS)
        raise ConfigError(
            f"{said} names {name!r}, which is no override. {near} A field of one that takes a "
            "dict is an axis too: 'state.query', 'patch.report.total', 'params.seed'."
        )
    kind, path = found["kind"], found["path"]
    if path is not None and kind not in BY_NAME:
        raise ConfigError(f"The axis {name!r}: {kind}= has no fields. Write {kind!r}.")
    if found["call"] is not None and kind not in OF_CALLS:
        raise ConfigError(
            f"The axis {name!r}: {kind}= is for the whole step, not for a call of it."
        )
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise ConfigError(f"The axis {name!r} takes a list of values; it got {short(values)}.")
    listed = tuple(values)
    if not listed:
        raise ConfigError(f"The axis {name!r} has no values. Give at least one.")
    axis = Axis(name, kind, int(found["call"] or 0), path, listed)
    for position, value in enumerate(listed):
        if value is not RECORDED and kind != "action" and not callable(value):
            _codec.encode(value, path=f"over[{name!r}][{position}]")
            refuse_credentials(kind, axis.given(value), f"The axis {name!r}")
    return axis


def choices(axes: Sequence[Axis]) -> Iterator[tuple[int, ...]]:
    """Every combination, the last axis fastest: for each axis the position of its value."""
    return itertools.product(*(range(len(axis.values)) for axis in axes))


def overrides(axes: Sequence[Axis], choice: Sequence[int]) -> tuple[Given, ...]:
    """The overrides of one cell, in the order of the axes.

    Fields of one and the same dict make one override.

    Raises:
        ConfigError: two axes replace the same.
    """
    made: dict[tuple[str, int], Any] = {}
    for axis, position in zip(axes, choice, strict=True):
        value = axis.values[position]
        if value is RECORDED:
            continue
        given, key = axis.given(value), (axis.kind, axis.call)
        if key not in made:
            made[key] = given
        elif (
            isinstance(given, Mapping)
            and isinstance(made[key], Mapping)
            and not (twice := given.keys() & made[key].keys())
        ):
            made[key] = {**made[key], **given}
        else:
            what = ", ".join(map(repr, sorted(map(str, twice)))) if axis.path else f"{axis.kind}="
            raise ConfigError(f"Two axes replace the same, {what}. Leave one of them out.")
    return tuple((kind, value, call) for (kind, call), value in made.items())


def same_as(given: Sequence[Given]) -> str:
    """What two cells have in common that ask for the same.

    Raises:
        NotEncodableError: a value cannot be stored.
    """
    plain = [
        [kind, call, f"callable {id(value)}" if callable(value) else None, _stored(kind, value)]
        for kind, value, call in given
    ]
    return _codec.digest(_codec.encode(plain, path="over="))


def _stored(kind: str, value: Any) -> Any:
    if kind == "action" and isinstance(value, Mapping):
        return [[name, f"callable {id(code)}"] for name, code in value.items()]
    return None if callable(value) else value


def described(axes: Sequence[Axis]) -> list[dict[str, Any]]:
    """The axes as data, to be stored; a callable is stored by its name and cannot come back."""
    return [
        {"name": axis.name, "values": [_described(axis, value) for value in axis.values]}
        for axis in axes
    ]


def _described(axis: Axis, value: Any) -> list[Any]:
    if value is RECORDED:
        return ["recorded"]
    if axis.kind == "action" or callable(value):
        return ["callable", label(value)]
    return ["value", value]


def restored(stored: Sequence[Mapping[str, Any]]) -> tuple[tuple[Axis, ...], bool]:
    """The axes, and whether all of their values came back: not what was a callable."""
    whole = all(value[0] != "callable" for axis in stored for value in axis["values"])
    axes = {
        axis["name"]: [RECORDED if value[0] == "recorded" else value[1] for value in axis["values"]]
        for axis in stored
    }
    return axes_of(axes), whole


def label(value: Any) -> str:
    """A value in a few words."""
    if value is RECORDED:
        return "as recorded"
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and any(callable(code) for code in value.values()):
        return ", ".join(f"{name}={label(code)}" for name, code in value.items())
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return short(value)


def told(value: Any) -> str:
    """A value as it stands in a sentence.

    Example:
        >>> told(1450.0), told(0.25), told("Bern"), told(True)
        ('1,450', '0.25', "'Bern'", 'True')
    """
    if isinstance(value, int | float) and type(value).__repr__ in (int.__repr__, float.__repr__):
        return f"{value:,}".removesuffix(".0")
    return short(value, 40) if isinstance(value, str) else label(value)
