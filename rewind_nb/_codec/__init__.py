"""Exact typed encoding: what is stored comes back as it was, or is refused by path.

An encoding is canonical UTF-8 JSON. Plain JSON values are written as themselves, in
their own order; everything else is an object whose first key is ``$``::

    {"a": [1, 1.0, true, null]}   {"a":[1,1.0,true,null]}
    (1, b"x")                     {"$":"tuple","v":[1,{"$":"bytes","v":"eA=="}]}
    {1: "a"}, {"$": 1}            {"$":"dict","v":[[1,"a"]]}, {"$":"dict","v":[["$",1]]}
    Order(total=3)                {"$":"dataclass","c":"shop:Order","v":{"total":3}}

So user data can never be mistaken for a tag, two values have equal encodings exactly
if they are the same value (1, 1.0 and True differ, dict order counts, set order does
not, all NaNs are one), and a hash of the bytes depends on neither process nor machine.

A value is a tree: an object that is referred to twice comes back as two. Stored data
never chooses code: only the kinds of objects listed here are made, and user classes
only if they are loaded already (`_registry`).

The modules: `_trail` says where in a value something is, `_walk` recurses, and each
of the others knows some types: `_types` the standard library's, `_classes` the user's,
`_numpy` and `_pandas`. `_reread` parses an encoding from the one before it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable
from typing import Any

from rewind_nb._codec import _classes, _numpy, _pandas, _pandas_read, _types, _walk
from rewind_nb._codec._classes import register
from rewind_nb._codec._registry import know
from rewind_nb._codec._trail import BIG, MAX_DEPTH, start, type_name
from rewind_nb._codec._walk import TAG, Node, Unresolved, dumps, from_node, is_atomic, to_node
from rewind_nb.errors import NotEncodableError, StoreCorruptError

__all__ = [
    "Node",
    "Unresolved",
    "decode",
    "decode_node",
    "digest",
    "encode",
    "is_atomic",
    "know",
    "listed",
    "parse",
    "register",
]

_walk.ENCODERS.update(_types.ENCODERS)
_walk.FINDERS.extend([_classes.encoder_for, _numpy.encoder_for, _pandas.encoder_for])
for _module in (_types, _classes, _numpy, _pandas_read):
    _walk.DECODERS.update(_module.DECODERS)

_LEAVES = frozenset({str, float, bool, type(None)})
_TAG_SPELLINGS = (b'"$"', rb"\u0024")


def encode(value: Any, *, path: str = "value") -> bytes:
    """The canonical encoding of a value.

    Args:
        value: any encodable value; it is not changed and nothing in it is kept.
        path: how errors call the value.

    Raises:
        NotEncodableError: it, or something inside it, cannot be stored and restored
            exactly (attributes `path` and `type_name`).

    Example:
        >>> encode({"b": 1, "a": (2.0, None)})
        b'{"b":1,"a":{"$":"tuple","v":[2.0,null]}}'
        >>> encode({"image": object()}, path="messages[3]")
        Traceback (most recent call last):
            ...
        rewind_nb.errors.NotEncodableError: messages[3].image: object cannot be ...
    """
    try:
        if _is_plain(value, MAX_DEPTH):
            # The C encoder itself finds NaNs, infinities and lone surrogates.
            with contextlib.suppress(ValueError):
                return dumps(value).encode()
        return dumps(to_node(value, start(path))).encode()
    except RecursionError:
        raise NotEncodableError(
            f"{path}: the value could not be walked, because the call stack is nearly full. "
            "Keep it from less deep in a recursion.",
            path=path,
            type_name=type_name(type(value)),
        ) from None


def _is_plain(value: Any, room: int) -> bool:
    """Whether every type in the value is plain JSON; written for speed."""
    kind = type(value)
    if kind is dict:
        for key in value:
            if type(key) is not str:
                return False
        if TAG in value:
            return False
        children = value.values()
    elif kind is list:
        children = value
    else:
        return kind in _LEAVES or (kind is int and -BIG < value < BIG)
    if room == 0:
        return False
    for child in children:
        if type(child) not in _LEAVES and not _is_plain(child, room - 1):
            return False
    return True


def decode(data: bytes, *, strict: bool = True) -> Any:
    """The value of an encoding, made of fresh objects.

    Args:
        data: what `encode` returned.
        strict: whether an object whose class is not loaded is an error. If not, an
            `Unresolved` stands in its place.

    Raises:
        UnknownTypeError: `strict`, and the class of a stored object is not loaded or
            has other fields now; the message says what to import.
        StoreCorruptError: the data is not an encoding.

    Example:
        >>> decode(b'{"$":"tuple","v":[1,{"$":"bytes","v":"eA=="}]}')
        (1, b'x')
    """
    tree = parse(data)
    tagged = any(spelling in data for spelling in _TAG_SPELLINGS)
    return decode_node(tree, strict=strict) if tagged else tree


def parse(data: bytes) -> Node:
    """The JSON tree of an encoding, tags and all: what a diff compares.

    Raises:
        StoreCorruptError: the data is not JSON.

    Example:
        >>> parse(b'{"$":"tuple","v":[1,2]}')
        {'$': 'tuple', 'v': [1, 2]}
    """
    try:
        return _READER.decode(str(data, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise StoreCorruptError(
            f"a stored value is damaged: it is not canonical JSON ({type(error).__name__}). "
            "`rewind doctor` lists the rows that do not match their hash."
        ) from error


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_READER = json.JSONDecoder(parse_constant=_refuse_constant)


def decode_node(node: Node, *, strict: bool = False) -> Any:
    """The value of a `parse`d tree or of any node inside it; the node is not changed.

    Raises:
        UnknownTypeError: as for `decode`.
        StoreCorruptError: the node is malformed.

    Example:
        >>> decode_node({"$": "set", "v": [1]})
        {1}
    """
    try:
        return from_node(node, strict)
    except RecursionError as error:
        raise StoreCorruptError(
            "a stored value is nested deeper than any this version writes. "
            "`rewind doctor` lists the rows that do not match their hash."
        ) from error


def listed(encodings: Iterable[bytes]) -> bytes:
    """The encoding of a list, from those of its items.

    Example:
        >>> listed([encode(1), encode("a")]) == encode([1, "a"])
        True
    """
    return b"[" + b",".join(encodings) + b"]"


def digest(data: bytes) -> str:
    """The SHA-256 of an encoding, 64 hex digits.

    Example:
        >>> digest(encode([1]))[:12]
        '080a9ed42855'
    """
    return hashlib.sha256(data).hexdigest()
