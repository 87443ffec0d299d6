"""User classes: enums, dataclasses, pydantic models, and types registered by hand.

Objects are taken apart field by field and rebuilt without running any code of their
class: no ``__init__``, no ``__new__``, no validators. What lives on an instance beside
its fields is refused, because it would be lost.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from enum import Enum, Flag
from types import MemberDescriptorType
from typing import Any, TypeVar

from rewind_nb._codec import _walk
from rewind_nb._codec._registry import (
    SHARE,
    SHARED_NAME,
    class_name,
    field_names,
    find,
    find_with_fields,
    kind_of,
    remember,
)
from rewind_nb._codec._trail import SAME, Trail, below, refusal, type_name
from rewind_nb._codec._walk import (
    TAG,
    Decoder,
    Encoder,
    Node,
    from_node,
    listed,
    mapping,
    text,
    to_node,
)
from rewind_nb.errors import ConfigError, UnknownTypeError, did_you_mean

T = TypeVar("T")

_PLAIN = frozenset({str, int, float, bool, type(None), list, dict})

_registered: dict[str, tuple[type, Callable[[Any], Any]]] = {}


def register(
    type: type[T],  # noqa: A002  the public name of the argument
    encode: Callable[[T], Any],
    decode: Callable[[Any], T],
    *,
    name: str | None = None,
) -> None:
    """Teach the codec a type it does not know, for every store in this process.

    Args:
        type: the class; its direct instances only, not those of subclasses.
        encode: turns an instance into any encodable value.
        decode: turns that value back into an equal instance.
        name: what the stored values are marked with; default ``module:qualname``. Give
            one where the class may move.

    Raises:
        ConfigError: the type is plain JSON or forbids storing, or another class has
            this name.

    Example:
        >>> from rewind_nb._codec import decode, encode
        >>> class Money:
        ...     def __init__(self, cents):
        ...         self.cents = cents
        >>> register(Money, encode=lambda money: money.cents, decode=Money)
        >>> decode(encode([Money(250)]))[0].cents
        250
    """
    name = name or class_name(type)
    _check_registrable(type, name)
    _registered[name] = (type, decode)
    _walk.ENCODERS[type] = functools.partial(_custom, name, encode)


def _check_registrable(kind: type, name: str) -> None:
    taken, _ = _registered.get(name, (kind, None))
    if kind in _PLAIN:
        problem = "it is plain JSON and always stored as it is"
    elif getattr(kind, "__rewind_refuse__", None):
        problem = "its class forbids storing"
    elif class_name(taken) != class_name(kind):
        problem = f"the name {name!r} belongs to {type_name(taken)}. Choose another name="
    else:
        return
    raise ConfigError(f"{type_name(kind)} cannot be registered: {problem}.", type=kind, name=name)


def encoder_for(kind: type) -> Encoder | None:
    """The encoder of a user class, by the kind of class it is."""
    encoders = {"enum": _enum, "pydantic": _model, "dataclass": _dataclass}
    return encoders.get(kind_of(kind) or "")


def _enum(member: Enum, at: Trail) -> Node:
    kind = type(member)
    if kind.__members__.get(member._name_) is member:
        return {TAG: "enum", "c": _named(member, at), "v": member._name_}
    if not isinstance(member, Flag):
        raise refusal(member, at, "it is not a member of its class")
    value = to_node(member._value_, below(at, member, SAME))
    return {TAG: "enum", "c": _named(member, at), "v": value}


def _dataclass(item: Any, at: Trail) -> Node:
    names = field_names(type(item))
    _refuse_strays(item, names, at)
    present = {name: getattr(item, name) for name in names if hasattr(item, name)}
    node = {TAG: "dataclass", "c": _named(item, at), "v": mapping(present, at, item)}
    return node | _absent(present, names)


def _model(item: Any, at: Trail) -> Node:
    names = field_names(type(item))
    _refuse_strays(item, names, at)
    present = item.__dict__
    node = {TAG: "pydantic", "c": _named(item, at), "v": mapping(present, at, item)}
    node["set"] = [to_node(name, at) for name in sorted(item.__pydantic_fields_set__)]
    for key in ("extra", "private"):
        content = getattr(item, f"__pydantic_{key}__", None)
        node[key] = None if content is None else mapping(content, at, item)
    return node | _absent(present, names)


def _named(item: Any, at: Trail) -> str:
    """The name that stands for the class of an object."""
    name = remember(type(item))
    if name is None:
        raise refusal(item, at, SHARED_NAME, SHARE)
    return name


def _absent(present: dict[str, Any], names: list[str]) -> dict[str, list[str]]:
    """Fields that were never set; without them the stored field list is not whole."""
    absent = [name for name in names if name not in present]
    return {"absent": absent} if absent else {}


def _custom(name: str, encode: Callable[[Any], Any], item: Any, at: Trail) -> Node:
    try:
        content = encode(item)
    except Exception as error:
        reason = f"its registered encoder raised {type_name(type(error))}"
        raise refusal(item, at, reason, "Correct the encoder.") from error
    return {TAG: "custom", "c": name, "v": to_node(content, below(at, item, SAME))}


def _refuse_strays(item: Any, names: Iterable[str], at: Trail) -> None:
    kind: Any = type(item)
    slots = (name for name in _slots(kind) if hasattr(item, name))
    strays = [name for name in (*getattr(item, "__dict__", ()), *slots) if name not in names]
    if not strays:
        return
    reason = f"its attribute {strays[0]!r} is not a field"
    if isinstance(getattr(kind, strays[0], None), functools.cached_property):
        reason += " but a cached property"
    raise refusal(item, at, reason)


def _slots(kind: type) -> tuple[str, ...]:
    known = _slots_of.get(kind)
    if known is None:
        known = _slots_of[kind] = tuple(
            name
            for base in kind.__mro__
            for name, slot in vars(base).items()
            if isinstance(slot, MemberDescriptorType) and not name.startswith("__")
        )
    return known


_slots_of: weakref.WeakKeyDictionary[type, tuple[str, ...]] = weakref.WeakKeyDictionary()


def _read_enum(_strict: bool, /, c: Node, v: Node) -> Enum:
    kind = find("enum", c)
    if type(v) is not str:
        if not issubclass(kind, Flag):
            raise TypeError("only flags are stored by value")
        return _flag(kind, from_node(v, strict=True))
    member: Enum | None = kind.__members__.get(v)
    if member is None:
        raise UnknownTypeError(
            f"the enum {c!r} has no member {v!r} here, but a stored value is one. "
            f"{did_you_mean(v, kind.__members__)} Restore the member to read this value.",
            class_name=c,
            missing=[v],
            added=[],
        )
    return member


def _flag(kind: type[Flag], number: Any) -> Flag:
    if type(number) is not int:
        raise TypeError("a flag's value is an int")
    return kind(number)


def _read_dataclass(strict: bool, /, c: Node, v: Node, absent: Node = None) -> Any:
    fields = _fields(from_node(v, strict))
    item: Any = object.__new__(find_with_fields("dataclass", c, [*fields, *listed(absent or [])]))
    for name, content in fields.items():
        object.__setattr__(item, name, content)
    return item


def _read_model(
    strict: bool,
    /,
    c: Node,
    v: Node,
    extra: Node,
    private: Node,
    absent: Node = None,
    **rest: Node,  # "set", which would hide the builtin
) -> Any:
    fields = _fields(from_node(v, strict))
    names = from_node(listed(rest.pop("set")), strict)
    if rest:
        raise TypeError(f"unexpected {rest.keys()}")
    slots = {
        "__dict__": fields,
        "__pydantic_fields_set__": set(names),
        "__pydantic_extra__": None if extra is None else _fields(from_node(extra, strict)),
        "__pydantic_private__": None if private is None else _fields(from_node(private, strict)),
    }
    kind = find_with_fields("pydantic", c, [*fields, *listed(absent or [])])
    item: Any = object.__new__(kind)
    for name, content in slots.items():
        if getattr(kind, name, None) is not None:  # a RootModel has no extras and no privates
            object.__setattr__(item, name, content)
    return item


def _fields(content: Any) -> dict[str, Any]:
    if type(content) is not dict or not all(type(name) is str for name in content):
        raise TypeError("an object was expected")
    return content


def _read_custom(_strict: bool, /, c: Node, v: Node) -> Any:
    content = from_node(v, strict=True)  # a decoder is never handed a placeholder
    if text(c) not in _registered:
        raise UnknownTypeError(
            f"no type is registered as {c!r} here, but a stored value is one. Call "
            f"rewind_nb.register(type, encode, decode, name={c!r}) first. "
            f"{did_you_mean(c, _registered)}",
            class_name=c,
        )
    kind, decode = _registered[c]
    try:
        return decode(content)
    except Exception as error:
        raise UnknownTypeError(
            f"the decoder registered for {type_name(kind)} raised {type_name(type(error))} on a "
            "stored value. Register one that reads what the encoder of the recording wrote.",
            class_name=c,
        ) from error


DECODERS: dict[str, Decoder] = {
    "enum": _read_enum,
    "dataclass": _read_dataclass,
    "pydantic": _read_model,
    "custom": _read_custom,
}
