"""From one callable to all the code and constants that it depends on.

What is reached is a graph with cycles. Each function, class and wrapper of the user's
is one *unit*, numbered in order of discovery; `_units` turns it into tokens, in which
another unit is an ``int``. The digest of all units in order is the digest of the code.
The value in a place (a global, a closure cell, a default, an attribute) is one of

- *constant*: its text is the token;
- *code*: a unit where it is the user's, a name where it is not;
- *content*: what can be encoded or walked, but may change. The token names its type,
  its digest goes to `Found.contents`;
- *opaque*: the token names its type, and the place is listed as hidden state. A class
  of the user's is followed all the same, and so are functions that the object holds.

A name that code rebinds (``global``, ``nonlocal``, ``self.x = ...``) is no constant
whatever it holds at the moment: it counts as content.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import types
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from rewind_nb._code._source import bytecode_digest
from rewind_nb._code._value import (
    attributes,
    constant,
    digest,
    is_own_class,
    is_own_function,
    module_dict,
    qualified_name,
    type_name,
)
from rewind_nb._secrets import MIN_REGISTERED
from rewind_nb.errors import NotEncodableError

__all__ = ["Encode", "Found", "Graph", "Place", "Token", "is_wrapper"]

Token = Any  # str, int, None, or a list of tokens
Encode = Callable[[Any], bytes]

_DEEPEST = 60
_CONTAINERS = (list, dict, set, tuple, frozenset)
_WRAPPERS = (
    types.MethodType,
    types.GenericAlias,
    types.UnionType,
    functools.partial,
    functools.partialmethod,
    functools.cached_property,
    functools.singledispatchmethod,
    type(functools.lru_cache(len)),
    property,
    classmethod,
    staticmethod,
)
_C_FUNCTIONS = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
)
# Objects of other people's that give nothing back which could differ between two runs.
_QUIET = {"logging.Logger", "logging.LoggerAdapter", "numpy.ufunc"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value was found.

    Attributes:
        label: how `hidden_state` and `containers` name it, such as ``global client``.
        rebound: whether code rebinds it.
        listed: whether hidden state is listed; not inside code of other people's.
        type: the type to list, where it is not the value's own.
    """

    label: str
    rebound: bool = False
    listed: bool = True
    type: str | None = None


@dataclass(slots=True)
class Found:
    """What one fingerprint gathers over all its graphs.

    Attributes:
        home: the module of the target; names in it are written without it.
        roots: ids of the objects to read whoever wrote them, the target first of all.
    """

    encode: Encode | None
    home: str | None
    roots: frozenset[int]
    hidden: set[str] = field(default_factory=set)
    followed: set[str] = field(default_factory=set)
    parts: dict[str, set[str]] = field(default_factory=dict)
    contents: dict[str, str] = field(default_factory=dict)
    pending: list[tuple[Place, Any]] = field(default_factory=list)
    rebound: dict[int, frozenset[str]] = field(default_factory=dict)
    _owners: dict[str, Any] = field(default_factory=dict)
    _encoded: dict[int, tuple[Any, str | None]] = field(default_factory=dict)

    def name(self, module: str | None, name: str) -> str:
        """A name as it is listed: qualified where it is not in the target's module."""
        return name if module in (None, self.home) else f"{module}.{name}"

    def hide(self, place: Place, value: Any) -> None:
        """List a place as hidden state."""
        if place.listed and type_name(value) not in _QUIET:
            self.hidden.add(f"{place.label}: {place.type or type_name(value)}")

    def part(self, label: str, tokens: Token) -> None:
        """Note what a followed function or class, or a constant, says itself."""
        self.parts.setdefault(label, set()).add(_said(tokens))

    def encoded(self, value: Any) -> str | None:
        """The digest of a value's encoding; None where it has none."""
        if id(value) not in self._encoded:  # the value is kept, so that the id stays its own
            self._encoded[id(value)] = (value, self._encode(value))
        return self._encoded[id(value)][1]

    def _encode(self, value: Any) -> str | None:
        if self.encode is None:
            return None
        try:
            return hashlib.sha256(self.encode(value)).hexdigest()
        except NotEncodableError:
            return None

    def content(self, place: Place, value: Any) -> None:
        """Note the content of a place; it is digested when the graph is closed."""
        label, number = place.label, 1
        while self._owners.setdefault(label, value) is not value:
            number += 1
            label = f"{place.label} #{number}"
        if label not in self.contents:
            self.contents[label] = ""
            self.pending.append((replace(place, label=label, rebound=False), value))


def _said(tokens: Token) -> str:
    """A short number as it is, all else (which may be a key) as a digest."""
    kind, _, text = str(tokens).partition(":")
    number = repr(int(text, 16)) if kind == "int" else text
    if kind in ("bool", "float", "int", "NoneType") and len(number) < MIN_REGISTERED:
        return number
    return f"#{digest(_without_units(tokens))[:12]}"


def _without_units(tokens: Token) -> Token:
    if isinstance(tokens, list | tuple):
        return [_without_units(token) for token in tokens]
    return 0 if isinstance(tokens, int) else tokens


def is_wrapper(value: Any) -> bool:
    """Whether a value is a thin standard object around functions."""
    return issubclass(type(value), _WRAPPERS) or type_name(value).startswith("typing.")


class Graph:
    """The units reached from one value, in one numbering."""

    def __init__(self, found: Found, read: Callable[[Graph, Any], Token]) -> None:
        self.found = found
        self._read = read
        self._units: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def close(self, root: Token) -> str:
        """Read every unit, those found on the way included; the digest of them all."""
        return digest([root, [self._read(self, unit) for unit in self._units]])

    def unit(self, value: Any, key: Any = None) -> int:
        """The number of a unit, which is read later."""
        number = self._numbers.setdefault(key or id(value), len(self._units))
        if number == len(self._units):
            self._units.append(value)
        return number

    # -- a value in a place --
    def value(self, place: Place, value: Any) -> Token:
        """The token of a value; what else there is to know goes to `found`."""
        if place.rebound:
            return self._rebound(place, value)
        known = self._fixed(place, value)
        if known is None and type(value) not in _CONTAINERS and not self.found.encoded(value):
            known = self.opaque(place, value)
        elif known is None:
            self.found.content(place, value)
            known = ["content", self.type(type(value))]
        if place.label and not isinstance(known, int):  # a unit speaks for itself
            self.found.part(place.label, known)
        return known

    def content(self, place: Place, value: Any) -> Token:
        """The token of what a place holds now, containers walked through."""
        encoded = None if constant(value) else self.found.encoded(value)
        return encoded or self._element(replace(place, type=type_name(value)), value, ())

    def opaque(self, place: Place, value: Any) -> Token:
        """The token of an object that counts by its type."""
        self.found.hide(place, value)
        held = [v for v in attributes(value).values() if type(v) is types.FunctionType]
        return [
            "opaque",
            self.type(type(value)),
            *(self.function(function) for function in held if is_own_function(function)),
        ]

    def _rebound(self, place: Place, value: Any) -> Token:
        self.found.content(place, value)
        return "rebound"

    def _fixed(self, place: Place, value: Any, depth: int = 0) -> Token:
        """The token of what cannot change; None where it can."""
        text = constant(value)
        if text is not None or depth > _DEEPEST:
            return text
        if issubclass(type(value), enum.Enum):
            member = attributes(value)
            return [self.type(type(value)), member.get("_name_"), constant(member.get("_value_"))]
        if type(value) in (tuple, frozenset):
            items = [self._fixed(place, item, depth + 1) for item in self._items(value)]
            return None if None in items else [type_name(value), items]
        return self.code(place, value)

    def _element(self, place: Place, value: Any, above: tuple[int, ...]) -> Token:
        known = self._fixed(place, value)
        if known is not None:
            return known
        if type(value) not in _CONTAINERS:
            return self.found.encoded(value) or self.opaque(place, value)
        if id(value) in above or len(above) > _DEEPEST:
            return "..."
        within = (*above, id(value))
        items = [self._element(place, item, within) for item in self._items(value)]
        return [type_name(value), items]

    def _items(self, value: Any) -> list[Any]:
        if type(value) is dict:
            return list(value.items())
        return sorted(value, key=self._order) if type(value) in (set, frozenset) else list(value)

    def _order(self, value: Any) -> str:
        """A key that sorts the members of a set alike in every process."""
        text = constant(value)
        if text is not None:
            return text
        if issubclass(type(value), enum.Enum):
            return f"{type_name(value)}.{attributes(value).get('_name_')}"
        if type(value) is types.FunctionType:
            return qualified_name(value) + bytecode_digest(value.__code__)
        if type(value) in _C_FUNCTIONS or issubclass(type(value), type):
            return qualified_name(value)
        return self.found.encoded(value) or type_name(value)

    # -- code --
    def code(self, place: Place, value: Any) -> Token:
        """The token of a function, class, wrapper or module; None for anything else."""
        if type(value) is types.FunctionType:
            return self.function(value)
        if issubclass(type(value), type):
            return self.type(value)
        if is_wrapper(value):
            return self.unit(value)
        if type(value) in _C_FUNCTIONS:
            return self._c_function(place, value)
        if issubclass(type(value), types.ModuleType):
            self.found.hide(replace(place, type="module"), value)
            return ["module", module_dict(value).get("__name__")]
        return None

    def function(self, function: types.FunctionType) -> Token:
        """A unit, or the name of a function of other people's that wraps nothing."""
        foreign = not is_own_function(function) and id(function) not in self.found.roots
        if foreign and not function.__closure__ and "__wrapped__" not in function.__dict__:
            return qualified_name(function)
        return self.unit(function)

    def type(self, cls: type) -> Token:
        """A unit, or the name of a class of other people's."""
        own = is_own_class(cls) or id(cls) in self.found.roots
        return self.unit(cls) if own else qualified_name(cls)

    def _c_function(self, place: Place, value: Any) -> Token:
        bound = getattr(value, "__self__", None)
        if bound is None or issubclass(type(bound), type | types.ModuleType):
            return qualified_name(value)
        return [qualified_name(value), self.value(place, bound)]
