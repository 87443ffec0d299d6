"""The standard library's types: scalars, containers, dates and numbers.

Each encoder is chosen by exact type, so a subclass never loses what it adds.
"""

from __future__ import annotations

import math
import re
import uuid
from base64 import b64decode, b64encode
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from rewind_nb._codec._trail import BIG, Trail, below, refusal
from rewind_nb._codec._walk import (
    TAG,
    Decoder,
    Encoder,
    Node,
    Unresolved,
    dumps,
    from_node,
    is_utf8,
    listed,
    mapping,
    text,
    to_node,
)
from rewind_nb.errors import UnknownTypeError

# No dots: looking a zone up must stay inside the tz database.
ZONE_KEY = re.compile(r"[\w+-]+(/[\w+-]+)*", re.ASCII)
_MICROSECOND = timedelta(microseconds=1)


def _same(item: Any, _at: Trail) -> Node:
    return item


def _str(item: str, _at: Trail) -> Node:
    if is_utf8(item):
        return item
    # Code point by code point: two lone surrogates never merge into one character.
    return {TAG: "str", "v": base64(item.encode("utf-8", "surrogatepass"))}


def _int(item: int, _at: Trail) -> Node:
    return item if -BIG < item < BIG else {TAG: "int", "v": format(item, "x")}


def _float(item: float, _at: Trail) -> Node:
    # Every NaN prints as "nan", whatever its sign and payload.
    return item if math.isfinite(item) else {TAG: "float", "v": str(item)}


def _complex(item: complex, at: Trail) -> Node:
    return {TAG: "complex", "v": [_float(item.real, at), _float(item.imag, at)]}


def _list(item: list[Any], at: Trail) -> Node:
    fresh = item.copy()
    for index, child in enumerate(item):
        fresh[index] = to_node(child, below(at, item, index))
    return fresh


def _tuple(item: tuple[Any, ...], at: Trail) -> Node:
    fresh = list(item)
    for index, child in enumerate(item):
        fresh[index] = to_node(child, below(at, item, index))
    return {TAG: "tuple", "v": fresh}


def _set(item: set[Any] | frozenset[Any], at: Trail) -> Node:
    members = [to_node(child, below(at, item, ...)) for child in item]
    members.sort(key=lambda member: dumps(member).encode())
    return {TAG: type(item).__name__, "v": members}


def _bytes(item: bytes | bytearray, _at: Trail) -> Node:
    return {TAG: type(item).__name__, "v": base64(item)}


def _moment(item: datetime | time, at: Trail) -> Node:
    plain = item.replace(tzinfo=None, fold=0).isoformat()
    moment: Node = {TAG: type(item).__name__, "v": plain}
    if item.tzinfo is not None:
        moment["tz"] = to_node(item.tzinfo, below(at, item, "tzinfo"))
    return moment | {"fold": 1} if item.fold else moment


def _date(item: date, _at: Trail) -> Node:
    return {TAG: "date", "v": item.isoformat()}


def _timedelta(item: timedelta, _at: Trail) -> Node:
    return {TAG: "timedelta", "v": [item.days, item.seconds, item.microseconds]}


def _timezone(item: timezone, at: Trail) -> Node:
    offset, *name = item.__getinitargs__()  # type: ignore[attr-defined]
    zone = {TAG: "timezone", "v": offset // _MICROSECOND}
    return zone | {"name": _str(name[0], at)} if name else zone


def _zone(item: ZoneInfo, at: Trail) -> Node:
    if item.key is None or not ZONE_KEY.fullmatch(item.key):
        raise refusal(item, at, "it has no key in the tz database")
    return {TAG: "zone", "v": item.key}


def _decimal(item: Decimal, _at: Trail) -> Node:
    return {TAG: "decimal", "v": str(item)}


def _uuid(item: uuid.UUID, _at: Trail) -> Node:
    plain = {TAG: "uuid", "v": str(item)}
    known = item.is_safe is not uuid.SafeUUID.unknown
    return plain | {"safe": item.is_safe.value} if known else plain


def _unresolved(item: Unresolved, _at: Trail) -> Node:
    return item.node


ENCODERS: dict[type, Encoder] = {
    type(None): _same,
    bool: _same,
    str: _str,
    int: _int,
    float: _float,
    complex: _complex,
    list: _list,
    tuple: _tuple,
    dict: mapping,
    set: _set,
    frozenset: _set,
    bytes: _bytes,
    bytearray: _bytes,
    datetime: _moment,
    time: _moment,
    date: _date,
    timedelta: _timedelta,
    timezone: _timezone,
    ZoneInfo: _zone,
    Decimal: _decimal,
    uuid.UUID: _uuid,
    Unresolved: _unresolved,
}


def base64(data: bytes | bytearray) -> str:
    """Bytes as base64 text."""
    return b64encode(data).decode("ascii")


def unbase64(v: Node) -> bytes:
    """Bytes of base64 text.

    Raises:
        ValueError: it is not canonical base64.
    """
    return b64decode(text(v), validate=True)


def _read_float(_strict: bool, /, v: str) -> float:
    if v not in {"nan", "inf", "-inf"}:
        raise ValueError("finite floats are plain JSON")
    return float(v)  # a new NaN each time: they are distinct members of a set


def _read_complex(strict: bool, /, v: Node) -> complex:
    real, imag = (float(part) for part in from_node(listed(v), strict))
    return complex(real, imag)


def _read_tuple(strict: bool, /, v: Node) -> tuple[Any, ...]:
    return tuple(from_node(listed(v), strict))


def _read_set(strict: bool, /, v: Node) -> set[Any]:
    return set(from_node(listed(v), strict))


def _read_frozenset(strict: bool, /, v: Node) -> frozenset[Any]:
    return frozenset(from_node(listed(v), strict))


def _read_dict(strict: bool, /, v: Node) -> dict[Any, Any]:
    fresh = {}
    for key, item in map(listed, listed(v)):
        fresh[from_node(key, strict)] = from_node(item, strict)
    return fresh


def _read_bytes(_strict: bool, /, v: Node) -> bytes:
    return unbase64(v)


def _read_date(_strict: bool, /, v: Node) -> date:
    return date.fromisoformat(v)


def _read_datetime(_strict: bool, /, v: Node, tz: Node = None, fold: int = 0) -> datetime:
    moment: datetime = _with_zone(datetime.fromisoformat(v), tz, fold)
    return moment


def _read_time(_strict: bool, /, v: Node, tz: Node = None, fold: int = 0) -> time:
    moment: time = _with_zone(time.fromisoformat(v), tz, fold)
    return moment


def _with_zone(moment: Any, tz: Node, fold: int) -> Any:
    if moment.tzinfo is not None:
        raise ValueError("the zone belongs in its own member")
    # Strict in any case: a moment whose zone is missing is itself unresolved.
    return moment.replace(tzinfo=from_node(tz, strict=True), fold=fold)


def _read_timedelta(_strict: bool, /, v: Node) -> timedelta:
    days, seconds, microseconds = v
    return timedelta(days, seconds, microseconds)


def _read_timezone(strict: bool, /, v: Node, name: Node = None) -> timezone:
    offset = v * _MICROSECOND
    return timezone(offset) if name is None else timezone(offset, from_node(name, strict))


def _read_zone(_strict: bool, /, v: Node) -> ZoneInfo:
    if not ZONE_KEY.fullmatch(v):
        raise ValueError("not a zone key")
    try:
        return ZoneInfo(v)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise UnknownTypeError(
            f"the time zone {v!r} of a stored value is not in this machine's tz database. "
            "Install or update the package tzdata.",
            class_name=v,
        ) from error


def _read_uuid(_strict: bool, /, v: str, safe: int | None = None) -> uuid.UUID:
    return uuid.UUID(v, is_safe=uuid.SafeUUID(safe))


DECODERS: dict[str, Decoder] = {
    "str": lambda _strict, /, v: unbase64(v).decode("utf-8", "surrogatepass"),
    "int": lambda _strict, /, v: int(text(v), 16),
    "float": _read_float,
    "complex": _read_complex,
    "tuple": _read_tuple,
    "set": _read_set,
    "frozenset": _read_frozenset,
    "dict": _read_dict,
    "bytes": _read_bytes,
    "bytearray": lambda _strict, /, v: bytearray(unbase64(v)),
    "datetime": _read_datetime,
    "time": _read_time,
    "date": _read_date,
    "timedelta": _read_timedelta,
    "timezone": _read_timezone,
    "zone": _read_zone,
    "decimal": lambda _strict, /, v: Decimal(text(v)),
    "uuid": _read_uuid,
}
