"""What the codec's tests share: equality stricter than ==, and strategies of values."""

from __future__ import annotations

import dataclasses
import math
import struct
from datetime import UTC, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from zoneinfo import ZoneInfo

from hypothesis import strategies as st


def same(a, b):
    """Equality of type, order, sign, fold and zone; all NaNs are one."""
    if type(a) is not type(b):
        return False
    compare = COMPARISONS.get(type(a))
    if compare is not None:
        return compare(a, b)
    if isinstance(a, Enum):
        return a is b
    if dataclasses.is_dataclass(a):
        names = [field.name for field in dataclasses.fields(a)]
        return all(same_attribute(a, b, name) for name in names)
    if hasattr(a, "__pydantic_fields_set__"):
        return all(same_attribute(a, b, name) for name in PYDANTIC_SLOTS)
    return a == b


PYDANTIC_SLOTS = (
    "__dict__",
    "__pydantic_fields_set__",
    "__pydantic_extra__",
    "__pydantic_private__",
)


def same_attribute(a, b, name):
    missing = object()
    mine, other = getattr(a, name, missing), getattr(b, name, missing)
    return mine is other is missing or same(mine, other)


def same_float(a, b):
    return math.isnan(a) and math.isnan(b) or struct.pack(">d", a) == struct.pack(">d", b)


def same_items(a, b):
    return len(a) == len(b) and all(map(same, a, b))


def same_members(a, b):
    rest = list(b)
    for member in a:
        found = next((i for i, other in enumerate(rest) if same(member, other)), None)
        if found is None:
            return False
        del rest[found]
    return not rest


def same_moment(a, b):
    plain = [moment.replace(tzinfo=None) for moment in (a, b)]
    return plain[0] == plain[1] and a.fold == b.fold and same_zone(a.tzinfo, b.tzinfo)


def same_zone(a, b):
    return type(a) is type(b) and (
        a.key == b.key if isinstance(a, ZoneInfo) else repr(a) == repr(b)
    )


COMPARISONS = {
    float: same_float,
    complex: lambda a, b: same_float(a.real, b.real) and same_float(a.imag, b.imag),
    list: same_items,
    tuple: same_items,
    set: same_members,
    frozenset: same_members,
    dict: lambda a, b: same_items(list(a.items()), list(b.items())),
    datetime: same_moment,
    time: same_moment,
    timezone: same_zone,
    ZoneInfo: same_zone,
    Decimal: lambda a, b: a.as_tuple() == b.as_tuple(),
}


any_text = st.text(st.characters(exclude_categories=())) | st.sampled_from(
    [
        "",
        "$",
        "\ud83d\ude00",
        "\ud800",
        "a\udfffb",
        "😀",
        "e\u0301",
        "\u2028\u2029",
        "\x00",
        "\ufeff",
    ]
)
integers = st.integers() | st.integers(-3, 3).map(lambda n: (n << 2047) - 1)
fixed_zones = st.builds(
    timezone,
    st.timedeltas(timedelta(hours=-23, minutes=-59), timedelta(hours=23, minutes=59)),
) | st.builds(timezone, st.timedeltas(timedelta(hours=-9), timedelta(hours=9)), any_text)
zones = st.none() | st.just(UTC) | fixed_zones | st.timezones()
folds = st.sampled_from([0, 1])
datetimes = st.builds(
    lambda moment, zone, fold: moment.replace(tzinfo=zone, fold=fold), st.datetimes(), zones, folds
)
times = st.builds(
    lambda moment, zone, fold: moment.replace(tzinfo=zone, fold=fold), st.times(), zones, folds
)
decimals = st.decimals() | st.sampled_from(
    [Decimal("-0"), Decimal("0E+5"), Decimal("NaN123"), Decimal("1.10"), Decimal("-Infinity")]
)
BY_TYPE = {
    "str": any_text,
    "int": integers,
    "float": st.floats() | st.sampled_from([-0.0, math.nan, math.inf, -math.inf, 5e-324]),
    "bool_or_none": st.booleans() | st.none(),
    "complex": st.complex_numbers(),
    "bytes": st.binary(),
    "datetime": datetimes,
    "date": st.dates(),
    "time": times,
    "timedelta": st.timedeltas(),
    "timezone": fixed_zones,
    "zoneinfo": st.timezones(),
    "decimal": decimals,
    "uuid": st.uuids(),
}
quiet_decimals = decimals.filter(lambda item: not item.is_snan())
hashable_scalars = st.one_of(*(BY_TYPE | {"decimal": quiet_decimals}).values())


@st.composite
def hashables(draw):
    """Composite, because a recursive strategy inside another has a repr of megabytes."""
    return draw(nested_hashables)


nested_hashables = st.recursive(
    hashable_scalars,
    lambda s: st.lists(s, max_size=4).map(tuple) | st.frozensets(s, max_size=4),
    max_leaves=8,
)
scalars = st.one_of(*BY_TYPE.values())
anything = st.recursive(
    scalars,
    lambda s: st.one_of(
        st.lists(s, max_size=5),
        st.lists(s, max_size=5).map(tuple),
        st.dictionaries(any_text, s, max_size=5),
        st.dictionaries(hashables(), s, max_size=5),
        st.sets(hashables(), max_size=5),
        st.frozensets(hashables(), max_size=5),
        st.binary().map(bytearray),
    ),
    max_leaves=25,
)
