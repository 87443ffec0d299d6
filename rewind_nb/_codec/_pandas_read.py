"""pandas objects back from their nodes; `_pandas` writes them."""

from __future__ import annotations

from typing import Any

from rewind_nb._codec._numpy import load
from rewind_nb._codec._types import ZONE_KEY
from rewind_nb._codec._walk import Decoder, Node, from_node, listed, text


def _read_series(strict: bool, /, v: Node, index: Node, name: Node, **extras: Node) -> Any:
    pandas, array = load("pandas"), from_node(v, strict)
    labels, name = from_node(index, strict), from_node(name, strict)
    series = pandas.Series(array, index=labels, dtype=array.dtype, name=name)
    return _with_extras(series, strict, **extras)


def _read_frame(strict: bool, /, v: Node, index: Node, columns: Node, **extras: Node) -> Any:
    pandas, labels = load("pandas"), from_node(index, strict)
    arrays = from_node(listed(v), strict)
    # By way of Series: the DataFrame constructor would infer new dtypes from arrays.
    series = [pandas.Series(array, index=labels, dtype=array.dtype) for array in arrays]
    frame = pandas.DataFrame(dict(enumerate(series)), index=labels)
    frame.columns = from_node(columns, strict)
    return _with_extras(frame, strict, **extras)


def _with_extras(item: Any, strict: bool, attrs: Node = None, unique: Node = False) -> Any:
    if attrs is not None:
        item.attrs = dict(from_node(attrs, strict))
    return item.set_flags(allows_duplicate_labels=False) if unique is True else item


def _read_index(strict: bool, /, v: Node, name: Node, freq: Node = None) -> Any:
    pandas, array, label = load("pandas"), from_node(v, strict), from_node(name, strict)
    index = pandas.Index(array, dtype=array.dtype, name=label)
    if freq is not None:
        index.freq = text(freq)
    return index


def _read_range_index(strict: bool, /, v: Node, name: Node) -> Any:
    start, stop, step = listed(v)
    return load("pandas").RangeIndex(start, stop, step, name=from_node(name, strict))


def _read_multi_index(strict: bool, /, levels: Node, codes: Node, names: Node) -> Any:
    return load("pandas").MultiIndex(
        levels=from_node(listed(levels), strict),
        codes=listed(codes),
        names=from_node(listed(names), strict),
    )


def _read_categorical(strict: bool, /, categories: Node, codes: Node, ordered: Node) -> Any:
    pandas = load("pandas")
    dtype = pandas.CategoricalDtype(from_node(categories, strict), ordered=ordered)
    return pandas.Categorical.from_codes(from_node(codes, strict), dtype=dtype)


def _read_datetimes(strict: bool, /, v: Node, tz: Node) -> Any:
    utc = load("pandas").DatetimeIndex(from_node(v, strict)).tz_localize("UTC")
    return utc.tz_convert(from_node(tz, strict=True)).array


def _read_periods(strict: bool, /, v: Node, freq: Node) -> Any:
    pandas = load("pandas")
    return pandas.PeriodIndex.from_ordinals(from_node(v, strict), freq=text(freq)).array


def _read_intervals(strict: bool, /, left: Node, right: Node, closed: Node) -> Any:
    ends = from_node(left, strict), from_node(right, strict)
    return load("pandas").arrays.IntervalArray.from_arrays(*ends, closed=text(closed))


def _read_masked(strict: bool, /, dtype: Node, v: Node, mask: Node) -> Any:
    pandas, content, hidden = load("pandas"), from_node(v, strict), from_node(mask, strict)
    names = {"Float": "FloatingArray", "boole": "BooleanArray"}
    kind = getattr(pandas.arrays, names.get(text(dtype)[:5], "IntegerArray"))
    array = kind(content, hidden)
    if array.dtype.name != dtype:
        raise ValueError("the content does not have the dtype")
    return array


def _read_strings(strict: bool, /, storage: Node, na: Node, v: Node) -> Any:
    pandas = load("pandas")
    if storage == "pyarrow":
        load("pyarrow")
    # Without the argument: pandas before 2.3 has only NA and does not know it.
    missing: dict[str, Any] = {"NA": {}, "nan": {"na_value": float("nan")}}
    dtype = pandas.StringDtype(storage=text(storage), **missing[na])
    return pandas.array(from_node(listed(v), strict), dtype=dtype)


def _read_timestamp(_strict: bool, /, v: Node, unit: Node, tz: Node = None, fold: int = 0) -> Any:
    numpy, pandas = load("numpy"), load("pandas")
    moment = pandas.Timestamp(numpy.datetime64(v, text(unit)))
    if tz is not None:
        moment = moment.tz_localize("UTC").tz_convert(from_node(tz, strict=True))
    return moment if moment.fold == fold else moment.replace(fold=fold)


def _read_pytz(_strict: bool, /, v: Node) -> Any:
    if not ZONE_KEY.fullmatch(v):
        raise ValueError("not a zone key")
    return load("pytz").timezone(v)


def _read_timedelta(_strict: bool, /, v: Node, unit: Node) -> Any:
    return load("pandas").Timedelta(load("numpy").timedelta64(v, text(unit)))


def _read_period(_strict: bool, /, v: Node, freq: Node) -> Any:
    return load("pandas").Period(ordinal=v, freq=text(freq))


def _read_interval(strict: bool, /, left: Node, right: Node, closed: Node) -> Any:
    ends = from_node(left, strict), from_node(right, strict)
    return load("pandas").Interval(*ends, closed=text(closed))


DECODERS: dict[str, Decoder] = {
    "pandas.Series": _read_series,
    "pandas.DataFrame": _read_frame,
    "pandas.Index": _read_index,
    "pandas.RangeIndex": _read_range_index,
    "pandas.MultiIndex": _read_multi_index,
    "pandas.Categorical": _read_categorical,
    "pandas.DatetimeTZ": _read_datetimes,
    "pandas.Periods": _read_periods,
    "pandas.Intervals": _read_intervals,
    "pandas.Masked": _read_masked,
    "pandas.Strings": _read_strings,
    "pandas.Timestamp": _read_timestamp,
    "pandas.Timedelta": _read_timedelta,
    "pandas.Period": _read_period,
    "pandas.Interval": _read_interval,
    "pytz": _read_pytz,
    "pandas.NA": lambda _strict, /: load("pandas").NA,
    "pandas.NaT": lambda _strict, /: load("pandas").NaT,
}
