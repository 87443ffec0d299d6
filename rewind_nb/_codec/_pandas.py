"""pandas objects: exact dtypes, labels, names and missing values.

A Series or DataFrame is its columns as arrays, its index, and its names. Arrays with a
numpy dtype are stored as numpy arrays, the others by kind: categorical, datetime with
zone, period, interval, nullable, string. Sparse, Arrow and third-party arrays are
refused. pandas is found in `sys.modules` and never imported to encode, and so is pytz,
which pandas before 3 makes its zones of.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from rewind_nb._codec._trail import SAME, Trail, below, refusal
from rewind_nb._codec._walk import (
    TAG,
    Encoder,
    Node,
    mapping,
    to_node,
)

_MASKED = frozenset(
    {f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)}
    | {"Float32", "Float64", "boolean"}
)


def encoder_for(kind: type) -> Encoder | None:
    """The encoder of pandas' own types."""
    package = kind.__module__.partition(".")[0]
    if package == "pytz" and hasattr(kind, "zone"):
        return _pytz_zone
    return _encoders().get(kind) if package == "pandas" and package in sys.modules else None


@functools.cache
def _encoders() -> dict[type, Encoder]:
    pandas: Any = sys.modules["pandas"]
    indexes = ("Index", "DatetimeIndex", "TimedeltaIndex", "PeriodIndex", "IntervalIndex")
    return {
        **{getattr(pandas, name): _index for name in (*indexes, "CategoricalIndex")},
        pandas.Series: _series,
        pandas.DataFrame: _frame,
        pandas.RangeIndex: _range_index,
        pandas.MultiIndex: _multi_index,
        pandas.Timestamp: _timestamp,
        pandas.Timedelta: _timedelta,
        pandas.Period: _period,
        pandas.Interval: _interval,
        type(pandas.NA): lambda _item, _at: {TAG: "pandas.NA"},
        type(pandas.NaT): lambda _item, _at: {TAG: "pandas.NaT"},
    }


@functools.cache
def _array_encoders() -> dict[type, Encoder]:
    pandas: Any = sys.modules["pandas"]
    return {
        **{type(pandas.api.types.pandas_dtype(name)): _masked for name in _MASKED},
        pandas.CategoricalDtype: _categorical,
        pandas.DatetimeTZDtype: _datetimes,
        pandas.PeriodDtype: _periods,
        pandas.IntervalDtype: _intervals,
        pandas.StringDtype: _strings,
    }


# Encoding: the objects


def _series(series: Any, at: Trail) -> Node:
    content = {
        TAG: "pandas.Series",
        "v": _values(series, below(at, series, SAME)),
        "index": to_node(series.index, below(at, series, "index")),
        "name": to_node(series.name, below(at, series, "name")),
    }
    return content | _extras(series, at)


def _frame(frame: Any, at: Trail) -> Node:
    # Labels of other dtypes say nothing in a path, and a moment may not even have a label.
    labels = frame.columns if frame.columns.dtype.kind in "Oiu" else range(frame.shape[1])
    columns = [
        _values(frame.iloc[:, position], below(at, frame, label))
        for position, label in enumerate(labels)
    ]
    content = {
        TAG: "pandas.DataFrame",
        "v": columns,
        "index": to_node(frame.index, below(at, frame, "index")),
        "columns": to_node(frame.columns, below(at, frame, "columns")),
    }
    return content | _extras(frame, at)


def _extras(item: Any, at: Trail) -> dict[str, Node]:
    """What most objects lack: free attributes, and the ban on duplicate labels."""
    extras: dict[str, Node] = {}
    if item.attrs:
        extras["attrs"] = mapping(item.attrs, below(at, item, "attrs"))
    if not item.flags.allows_duplicate_labels:
        extras["unique"] = True
    return extras


def _index(index: Any, at: Trail) -> Node:
    content = {
        TAG: "pandas.Index",
        "v": _values(index, below(at, index, SAME)),
        "name": to_node(index.name, below(at, index, "name")),
    }
    freq = getattr(index, "freq", None) if index.dtype.kind in "mM" else None
    return content if freq is None else content | {"freq": _freq(freq, below(at, index, "freq"))}


def _range_index(index: Any, at: Trail) -> Node:
    bounds = [index.start, index.stop, index.step]
    name = to_node(index.name, below(at, index, "name"))
    return {TAG: "pandas.RangeIndex", "v": bounds, "name": name}


def _multi_index(index: Any, at: Trail) -> Node:
    inside = below(at, index, SAME)
    return {
        TAG: "pandas.MultiIndex",
        "levels": [to_node(level, inside) for level in index.levels],
        "codes": [code.tolist() for code in index.codes],
        "names": [to_node(name, inside) for name in index.names],
    }


def _span(dtype: Any) -> str:
    """The length of a period, which is not spelled as the frequency of an index is."""
    spelled: str = dtype.name
    return spelled.removeprefix("period[").removesuffix("]")


def _freq(freq: Any, at: Trail) -> str:
    spelled: str = freq.freqstr
    try:
        same = sys.modules["pandas"].tseries.frequencies.to_offset(spelled) == freq
    except ValueError:
        same = False
    if not same:
        raise refusal(freq, at, f"its spelling {spelled!r} does not say all of it", "Drop it.")
    return spelled


# Encoding: the arrays inside


def _values(labelled: Any, at: Trail) -> Node:
    """The node of the array inside a Series or an Index."""
    dtype = labelled.dtype
    if isinstance(dtype, sys.modules["numpy"].dtype):
        return to_node(labelled.to_numpy(), at)
    encoder = _array_encoders().get(type(dtype))
    if encoder is None:
        reason = f"its dtype {dtype} has no encoding"
        raise refusal(labelled.array, at, reason, "Convert it with astype to a plain dtype.")
    return encoder(labelled.array, at)


def _categorical(array: Any, at: Trail) -> Node:
    return {
        TAG: "pandas.Categorical",
        "categories": to_node(array.categories, below(at, array, "categories")),
        "codes": to_node(array.codes, at),
        "ordered": array.ordered,
    }


def _datetimes(array: Any, at: Trail) -> Node:
    utc = sys.modules["numpy"].asarray(array, dtype=f"M8[{array.dtype.unit}]")
    zone = to_node(_zone(array.dtype.tz), below(at, array, "tz"))
    return {TAG: "pandas.DatetimeTZ", "v": to_node(utc, at), "tz": zone}


def _periods(array: Any, at: Trail) -> Node:
    ordinals = sys.modules["pandas"].PeriodIndex(array).asi8
    return {TAG: "pandas.Periods", "v": to_node(ordinals, at), "freq": _span(array.dtype)}


def _intervals(array: Any, at: Trail) -> Node:
    return {
        TAG: "pandas.Intervals",
        "left": to_node(array.left, below(at, array, "left")),
        "right": to_node(array.right, below(at, array, "right")),
        "closed": array.closed,
    }


def _masked(array: Any, at: Trail) -> Node:
    # What lies under the mask is arbitrary: zero, so that equal arrays are stored equal.
    content = array.to_numpy(dtype=array.dtype.numpy_dtype, na_value=0)
    return {
        TAG: "pandas.Masked",
        "dtype": array.dtype.name,
        "v": to_node(content, at),
        "mask": to_node(array.isna(), at),
    }


def _strings(array: Any, at: Trail) -> Node:
    items = zip(array.to_numpy(dtype=object), array.isna(), strict=True)
    texts = [None if missing else item for item, missing in items]
    missing = array.dtype.na_value
    return {
        TAG: "pandas.Strings",
        "storage": array.dtype.storage,
        "na": "NA" if missing is sys.modules["pandas"].NA else "nan",
        "v": to_node(texts, at),
    }


# Encoding: the scalars


def _timestamp(item: Any, at: Trail) -> Node:
    content: Node = {TAG: "pandas.Timestamp", "v": int(item.asm8.view("i8")), "unit": item.unit}
    if item.tz is not None:
        content["tz"] = to_node(_zone(item.tz), below(at, item, "tz"))
    return content | {"fold": 1} if item.fold else content


def _zone(zone: Any) -> Any:
    """The zone itself: pytz has an instance per offset, and pandas finds that one again."""
    name = getattr(zone, "zone", None)
    return sys.modules["pytz"].timezone(name) if isinstance(name, str) else zone


def _pytz_zone(zone: Any, at: Trail) -> Node:
    if zone.zone is None or _zone(zone) is not zone:
        reason = "pytz makes it one fixed offset"
        raise refusal(zone, at, reason, "Use zoneinfo.ZoneInfo for datetimes.")
    return {TAG: "pytz", "v": zone.zone}


def _timedelta(item: Any, _at: Trail) -> Node:
    return {TAG: "pandas.Timedelta", "v": int(item.asm8.view("i8")), "unit": item.unit}


def _period(item: Any, _at: Trail) -> Node:
    span = _span(sys.modules["pandas"].PeriodDtype(item.freq))
    return {TAG: "pandas.Period", "v": item.ordinal, "freq": span}


def _interval(item: Any, at: Trail) -> Node:
    left = to_node(item.left, below(at, item, "left"))
    right = to_node(item.right, below(at, item, "right"))
    return {TAG: "pandas.Interval", "left": left, "right": right, "closed": item.closed}
