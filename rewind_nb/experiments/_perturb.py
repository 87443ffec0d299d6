"""Other values of a recorded value: each leaf of it perturbed, or removed, all else as it was.

What is looked into: dicts with texts as keys, dataclasses, pydantic models, and texts that are
a JSON object or list, as a model answers. Lists and all else are leaves.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rewind_nb import _codec
from rewind_nb._path import MISSING, join

OTHER_TEXTS = ("something else", "something else again")
CONTAINERS = (str, bytes, list, tuple, dict, set, frozenset)
INDENTS: tuple[dict[str, Any], ...] = ({}, {"separators": (",", ":")}, {"indent": 2}, {"indent": 4})

Put = Callable[[Any], Any]  # another leaf -> the whole value with it


@dataclass(frozen=True, slots=True)
class Leaf:
    """A part of a value that is perturbed as one.

    Attributes:
        path: within the value; "" for the whole.
        put: the whole value with another one in its place, or without it for `MISSING`.
        may_go: whether it can be missing.
    """

    path: str
    value: Any
    put: Put
    may_go: bool = False

    def within(self, rest: Put) -> Leaf:
        """The same leaf of a larger whole; *rest* puts the smaller one into it."""
        return dataclasses.replace(self, put=lambda new: rest(self.put(new)))


def leaves(value: Any) -> Iterator[Leaf]:
    """The leaves of a value, in order.

    Example:
        >>> fare = leaves({"city": "Oslo", "price": {"usd": 620}})
        >>> [(leaf.path, leaf.put(0)) for leaf in fare][1]
        ('price.usd', {'city': 'Oslo', 'price': {'usd': 0}})
    """
    fields, rebuilt, may_go = _fields(value)
    if not fields:
        whole = _of_json(value)
        yield from whole if whole is not None else [Leaf("", value, lambda new: new)]
        return
    for name, part in fields.items():
        for leaf in leaves(part):
            yield Leaf(
                _joined(name, leaf.path),
                leaf.value,
                _putting(rebuilt, name, leaf.put),
                leaf.may_go or (may_go and not leaf.path),
            )


def _fields(value: Any) -> tuple[dict[str, Any], Callable[[str, Any], Any], bool]:
    """The parts of a value by name, how it is built with another one, and whether one may go."""
    if type(value) is dict and all(type(key) is str for key in value):
        return value, lambda name, new: _with(value, name, new), True
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        found = {name: getattr(value, name) for name in names}
        return found, lambda name, new: dataclasses.replace(value, **{name: new}), False
    if isinstance(getattr(type(value), "model_fields", None), Mapping):  # a pydantic model
        found = {name: getattr(value, name) for name in type(value).model_fields}
        return found, lambda name, new: value.model_copy(update={name: new}), False
    return {}, lambda _, new: new, False


def _with(value: dict[str, Any], name: str, new: Any) -> dict[str, Any]:
    if new is MISSING:
        return {key: part for key, part in value.items() if key != name}
    return {**value, name: new}


def _putting(rebuilt: Callable[[str, Any], Any], name: str, put: Put) -> Put:
    return lambda new: rebuilt(name, put(new))


def _joined(name: str, path: str) -> str:
    start = join("", name)
    if not path:
        return start
    return f"{start}{path}" if path.startswith("[") else f"{start}.{path}"


def _of_json(value: Any) -> list[Leaf] | None:
    """The leaves of a text that is a JSON object or list; None for any other value."""
    if not isinstance(value, str) or not value.strip().startswith(("{", "[")):
        return None
    try:
        read = json.loads(value)
    except ValueError:
        return None
    if not isinstance(read, dict | list) or not read:
        return None
    ways = ({"ensure_ascii": ascii_only, **way} for way in INDENTS for ascii_only in (False, True))
    way = next((way for way in ways if json.dumps(read, **way) == value), {"ensure_ascii": False})

    def written(new: Any) -> Any:
        return MISSING if new is MISSING else json.dumps(new, **way)

    return [leaf.within(written) for leaf in leaves(read)]


# -- what takes its place -----------------------------------------------------------------


def perturbed(leaf: Leaf) -> list[Any]:
    """Other values of a leaf's type; none where the type has none here.

    A number: 0, negated, times 10, a tenth. A text: another one. A truth value: the other.
    A member of an enum: each other one. A list, tuple, set or bytes: an empty one.

    Example:
        >>> perturbed(Leaf("fare", 450.0, lambda new: new))
        [0.0, -450.0, 4500.0, 45.0]
    """
    return others(leaf.value, _of_its_type(leaf.value))


def _of_its_type(value: Any) -> list[Any]:
    if isinstance(value, enum.Enum):
        return list(type(value))
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, numbers.Number) and not isinstance(value, complex):
        return _numbers(value)
    if isinstance(value, str):
        return [next(text for text in OTHER_TEXTS if text != value)]
    return [type(value)()] if type(value) in CONTAINERS else []


def _numbers(value: Any) -> list[Any]:
    kind = type(value)
    if value == 0:
        return [kind(1), kind(-1)]
    tenth = value // 10 if isinstance(value, numbers.Integral) else value / kind(10)
    return [kind(0), kind(-value), kind(value * kind(10)), kind(tenth)]


def removed(leaf: Leaf) -> list[Any]:
    """What a leaf is when it is gone: missing where it can be, else None or empty.

    Example:
        >>> removed(Leaf("city", "Oslo", lambda new: new))
        [None, '']
    """
    if leaf.may_go:
        return [MISSING]
    empty = [type(leaf.value)()] if type(leaf.value) in CONTAINERS else []
    return others(leaf.value, [None, *empty])


def others(value: Any, candidates: Iterable[Any]) -> list[Any]:
    """The candidates that are another value, by encoding, each once.

    Raises:
        NotEncodableError: one cannot be stored.
    """
    seen, found = {_codec.digest(_codec.encode(value))}, []
    for candidate in candidates:
        digest = _codec.digest(_codec.encode(candidate))
        if digest not in seen:
            seen.add(digest)
            found.append(candidate)
    return found
