"""The walk: Python values to JSON nodes and back.

This module knows no type but the JSON containers. The modules beside it fill three
tables: `ENCODERS` by exact type, `FINDERS` for families of types (enums, dataclasses,
arrays, ...) and `DECODERS` by tag. A tagged node ``{"$": tag, **payload}`` is restored
by calling its decoder with the payload as keywords, so a missing, additional or
ill-typed member of damaged data fails in one place and becomes `StoreCorruptError`.

Both directions use at most three frames per level, so that `MAX_DEPTH` levels stay well
below the interpreter's recursion limit.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from zoneinfo import ZoneInfo

from rewind_nb._codec._trail import MAX_DEPTH, Trail, below, refuse_depth, unknown
from rewind_nb._secrets import redact
from rewind_nb._visible import visible
from rewind_nb.errors import RewindError, StoreCorruptError, UnknownTypeError

Node = Any
Encoder = Callable[[Any, Trail], Node]
Decoder = Callable[..., Any]

TAG: Final = "$"

ENCODERS: dict[type, Encoder] = {}
FINDERS: list[Callable[[type], Encoder | None]] = []
DECODERS: dict[str, Decoder] = {}

_ATOMIC = frozenset(
    {str, int, float, bool, type(None), bytes, complex, Decimal, uuid.UUID}
    | {datetime, date, time, timedelta, timezone, ZoneInfo}
)

dumps = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")
).encode


def is_atomic(value: Any) -> bool:
    """Whether a value is an immutable scalar, which may be shared without a copy.

    Example:
        >>> is_atomic("text"), is_atomic(None), is_atomic(())
        (True, True, False)
    """
    return type(value) in _ATOMIC or isinstance(value, Enum)


def to_node(value: Any, at: Trail) -> Node:
    """The node of any value.

    Raises:
        NotEncodableError: the value, or one inside it, cannot be stored exactly.
    """
    kind = type(value)
    encoder = ENCODERS.get(kind) or find(kind)
    if encoder is None:
        raise unknown(value, at)
    if at[3] >= MAX_DEPTH and not is_atomic(value):
        refuse_depth(value, at)
    return encoder(value, at)


def mapping(items: dict[Any, Any], at: Trail, owner: Any = None) -> Node:
    """The node of a dict, in its order; its values belong to `owner`, or to the dict."""
    owner = items if owner is None else owner
    if TAG not in items and all(type(key) is str and is_utf8(key) for key in items):
        # Loops over copies, not comprehensions: those cost a frame per level.
        fresh = items.copy()
        for key, item in items.items():
            fresh[key] = to_node(item, below(at, owner, key))
        return fresh
    pairs = [
        [to_node(key, below(at, owner, ...)), to_node(item, below(at, owner, key))]
        for key, item in items.items()
    ]
    return {TAG: "dict", "v": pairs}


def is_utf8(text: str) -> bool:
    """Whether the text has no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def find(kind: type) -> Encoder | None:
    """The encoder of a family that the type belongs to."""
    if getattr(kind, "__rewind_refuse__", None):
        return None
    return next((encoder for finder in FINDERS if (encoder := finder(kind))), None)


def from_node(node: Node, strict: bool) -> Any:
    """The value of a node: always a fresh object, sharing nothing with the node.

    Raises:
        UnknownTypeError: `strict`, and the class of a stored object is not here.
        StoreCorruptError: the node is malformed.
    """
    kind = type(node)
    if kind is dict and TAG in node:
        try:
            return DECODERS[node[TAG]](strict, **{k: v for k, v in node.items() if k != TAG})
        except UnknownTypeError as error:
            if strict:
                raise
            return _unresolved(node, error)
        except (RewindError, MemoryError):
            raise
        except Exception as error:
            raise _malformed(node) from error
    if kind is not dict and kind is not list:
        return node
    fresh = node.copy()
    for key, item in fresh.items() if kind is dict else enumerate(fresh):
        if type(item) is dict or type(item) is list:
            fresh[key] = from_node(item, strict)
    return fresh


def listed(node: Node) -> list[Any]:
    """A payload member that must be a JSON list.

    Raises:
        TypeError: it is not.
    """
    if type(node) is not list:
        raise TypeError("a list was expected")
    return node


def text(node: Node) -> str:
    """A payload member that must be a JSON string.

    Raises:
        TypeError: it is not.
    """
    if type(node) is not str:
        raise TypeError("a string was expected")
    return node


class Unresolved:
    """A stored object whose class is not in this process: readable, not usable.

    It compares and hashes by its content and encodes back to the identical bytes.

    Example:
        >>> from rewind_nb._codec import decode
        >>> decode(b'{"$":"dataclass","c":"shop:Order","v":{"total":3}}', strict=False)
        Unresolved(shop:Order {"total":3})
    """

    __slots__ = ("_text", "class_name")

    def __init__(self, node: Node, class_name: str) -> None:
        self._text = dumps(node)
        self._text.encode()
        self.class_name = class_name

    @property
    def kind(self) -> str:
        """The tag: ``dataclass``, ``pydantic``, ``enum``, ``custom``, ..."""
        return text(self.node[TAG])

    @property
    def node(self) -> Node:
        """The stored node, a fresh copy each time."""
        return json.loads(self._text)

    @property
    def fields(self) -> dict[str, Any]:
        """The stored fields, fresh each time; a value without fields is ``value``."""
        content = self.node.get("v")
        if type(content) is not dict or TAG in content:
            return {"value": from_node(content, strict=False)}
        fields: dict[str, Any] = from_node(content, strict=False)
        return fields | (from_node(self.node.get("extra"), strict=False) or {})

    def __repr__(self) -> str:
        content = redact(dumps(self.node.get("v")))
        shown = content if len(content) <= 200 else f"{content[:199]}…"
        return visible(f"Unresolved({self.class_name} {shown})")

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, Unresolved) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._text)


def _unresolved(node: Node, error: UnknownTypeError) -> Unresolved:
    own = node.get("c")
    try:
        return Unresolved(node, own if type(own) is str else error.facts["class_name"])
    except ValueError as cause:
        raise _malformed(node) from cause


def _malformed(node: Node) -> StoreCorruptError:
    tag = repr(node[TAG])
    return StoreCorruptError(
        f"a stored value is damaged: its {tag[:40]} node does not have the form this version "
        "writes. `rewind doctor` lists the rows that do not match their hash.",
        tag=node[TAG],
    )
