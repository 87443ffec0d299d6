"""Laws of the codec over numpy and pandas."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import warnings
from datetime import UTC, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from codec_values import COMPARISONS, hashable_scalars, same, same_items, same_zone, scalars
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from rewind_nb import _codec
from rewind_nb._codec import decode, encode, parse
from rewind_nb.errors import NotEncodableError, StoreCorruptError, UnknownTypeError

thorough = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)  # fmt: skip


def same_array(a, b):
    if (a.dtype, a.dtype.char, a.shape) != (b.dtype, b.dtype.char, b.shape):
        return False
    if a.dtype == object:
        return same_items(list(a.ravel()), list(b.ravel()))
    a, b = a.flatten(), b.flatten()
    if a.dtype.kind == "c":
        return same_array(a.real, b.real) and same_array(a.imag, b.imag)
    if a.dtype.kind == "f":
        nans = np.isnan(a), np.isnan(b)
        signs = np.signbit(a[~nans[0]]), np.signbit(b[~nans[1]])
        return np.array_equal(a, b, equal_nan=True) and np.array_equal(*signs)
    return a.tobytes() == b.tobytes()


def same_scalar(a, b):
    if isinstance(a, str | bytes):
        return len(a) == len(b) and list(a) == list(b)
    return a.dtype == b.dtype and same_array(np.array([a]), np.array([b]))


def same_timestamp(a, b):
    return (a == b, a.unit, a.fold) == (True, b.unit, b.fold) and same_zone(a.tz, b.tz)


def same_dtype(a, b):
    if isinstance(a, pd.CategoricalDtype):
        return a.ordered == b.ordered and same(a.categories, b.categories)
    if isinstance(a, pd.StringDtype):
        return a.storage == b.storage and same(a.na_value, b.na_value)
    return type(a) is type(b) and a == b


def same_values(a, b):
    return same_dtype(a.dtype, b.dtype) and same_items(list(a), list(b))


def same_index(a, b):
    return (
        same_values(a.array, b.array)
        and same(a.name, b.name)
        and getattr(a, "freq", None) == getattr(b, "freq", None)
    )


def same_multi_index(a, b):
    return (
        same_items(list(a.levels), list(b.levels))
        and all(map(np.array_equal, a.codes, b.codes))
        and same(list(a.names), list(b.names))
    )


def same_range_index(a, b):
    return (
        a.equals(b)
        and (a.start, a.stop, a.step) == (b.start, b.stop, b.step)
        and same(a.name, b.name)
    )


def same_series(a, b):
    return (
        same_values(a.array, b.array)
        and same(a.index, b.index)
        and same(a.name, b.name)
        and same(a.attrs, b.attrs)
        and a.flags == b.flags
    )


def same_frame(a, b):
    columns = ([frame.iloc[:, i].array for i in range(frame.shape[1])] for frame in (a, b))
    return (
        a.shape == b.shape
        and all(map(same_values, *columns))
        and same(a.index, b.index)
        and same(a.columns, b.columns)
        and same(a.attrs, b.attrs)
        and a.flags == b.flags
    )


INDEXES = ("Index", "DatetimeIndex", "TimedeltaIndex", "PeriodIndex", "IntervalIndex")
COMPARISONS |= {
    np.ndarray: same_array,
    **dict.fromkeys(set(np.sctypeDict.values()), same_scalar),
    pd.Timestamp: same_timestamp,
    pd.Timedelta: lambda a, b: a == b and a.unit == b.unit,
    type(pd.NA): lambda a, b: a is b,
    type(pd.NaT): lambda a, b: a is b,
    **{getattr(pd, name): same_index for name in (*INDEXES, "CategoricalIndex")},
    pd.RangeIndex: same_range_index,
    pd.MultiIndex: same_multi_index,
    pd.Series: same_series,
    pd.DataFrame: same_frame,
}


def comes_back(value):
    data = encode(value)
    back = decode(data)
    assert same(back, value)
    assert encode(back) == data


def refusal(value, path="value"):
    with pytest.raises(NotEncodableError) as caught:
        encode(value, path=path)
    return caught.value


# numpy


@thorough
@given(
    hnp.arrays(
        st.one_of(
            hnp.scalar_dtypes().filter(lambda dtype: dtype.itemsize <= 8 or dtype.kind != "f"),
            hnp.datetime64_dtypes(),
            hnp.timedelta64_dtypes(),
        ).filter(lambda dtype: dtype.itemsize <= 16 or dtype.kind in "US"),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    )
)
def test_every_array_comes_back_exactly(array):
    comes_back(array)
    if array.size and array.dtype.isnative:
        comes_back([array.ravel()[0], {"k": array.ravel()[-1]}])


@thorough
@given(hnp.arrays(object, hnp.array_shapes(min_dims=0, max_dims=2, min_side=0), elements=scalars))
def test_every_array_of_objects_comes_back_item_by_item(array):
    comes_back(array)


@pytest.mark.parametrize(
    "scalar",
    [
        np.float64(-0.0), np.float32(0.1), np.float16(65504), np.float64(math.nan), np.float32(-math.inf),
        np.int8(-128), np.uint64(2**64 - 1), np.longlong(1), np.ulonglong(1), np.intc(1), np.bool_(True),
        np.complex64(1 - 2j), np.complex128(complex(-0.0, math.nan)), np.str_("a\x00"), np.str_(""),
        np.str_("\ud83d\ude00"), np.bytes_(b"a\x00"), np.datetime64("NaT"), np.datetime64("2024", "Y"),
        np.datetime64(5, "25s"), np.timedelta64(-3, "ns"), np.timedelta64(3), np.datetime64("2262-04-12", "as"),
    ],
    ids=repr,
)  # fmt: skip
def test_every_kind_of_scalar_comes_back_with_its_type(scalar):
    comes_back(scalar)
    comes_back([scalar, (scalar,)])


def test_a_numpy_scalar_comes_back_as_a_key():
    comes_back({np.float64(1.5): 1, np.str_("a"): {np.int8(1)}, np.datetime64(1, "s"): 2})


@pytest.mark.parametrize(
    "array",
    [
        np.arange(12).reshape(3, 4)[::2, ::-1], np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([1.5], ">f8"), np.array(5), np.array([], "U3"), np.empty((3, 0, 2)), np.array([""]),
        np.array(["a", "bc\x00d"]), np.array([1], "q"), np.array([1], ">i4"), np.array([True, False]),
        np.array([b"a", b""]), np.array(["NaT", "2024"], "M8[D]"), np.zeros(3, "M8"), np.empty(2, object),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)  # fmt: skip
def test_unusual_arrays_come_back(array):
    comes_back(array)


def test_an_array_may_hold_arrays_and_lists():
    array = np.empty(3, object)
    array[:2] = [[1, [2]], {"a": 1}]
    array[2] = np.array(5)
    comes_back(array)


def test_an_array_comes_back_writable_and_its_own():
    data = encode(np.array([1, 2]))
    first, second = decode(data), decode(data)
    first[0] = 9
    assert second[0] == 1
    assert first.flags.owndata


def test_the_stored_form_of_arrays_never_changes():
    assert encode(np.float32(0.5)) == b'{"$":"numpy.scalar","dtype":"=f4","v":0.5}'
    assert encode(np.array([[1, 2]], "i2")) == (
        b'{"$":"numpy.ndarray","dtype":"=i2","shape":[1,2],"v":"AQACAA=="}'
    )
    assert parse(encode(np.array([1], ">i2"))) == {
        "$": "numpy.ndarray", "dtype": ">i2", "shape": [1], "v": "AAE="
    }  # fmt: skip


def test_the_stored_form_of_a_frame_never_changes():
    frame = pd.DataFrame(
        {"n": pd.array([1, None], "Int8")}, index=pd.Index(["x", "y"], dtype=object)
    )
    assert encode(frame).decode() == (
        '{"$":"pandas.DataFrame","v":[{"$":"pandas.Masked","dtype":"Int8",'
        '"v":{"$":"numpy.ndarray","dtype":"|i1","shape":[2],"v":"AQA="},'
        '"mask":{"$":"numpy.ndarray","dtype":"|b1","shape":[2],"v":"AAE="}}],'
        '"index":{"$":"pandas.Index","v":{"$":"numpy.ndarray","dtype":"O","shape":[2],"v":["x","y"]},'
        '"name":null},"columns":COLUMNS}'
    ).replace("COLUMNS", encode(frame.columns).decode())


def test_numbers_of_different_types_have_different_encodings():
    kinds = [
        1,
        1.0,
        np.int64(1),
        np.int32(1),
        np.float64(1),
        np.array(1),
        np.array([1]),
        np.bool_(1),
    ]
    kinds += [np.array([1], ">i8"), np.array([1], "q"), np.array([1], object), np.array([[1]])]
    assert len(set(map(encode, kinds))) == len(kinds)


@pytest.mark.parametrize("code", ["f2", "f4", "f8", "c8", "c16", ">f8", ">c16"])
def test_all_nans_in_arrays_are_one(code):
    nan = np.array([math.nan, 1], code)
    other = nan.copy()
    raw = other.view(f"{code.strip('>cf')}u1" if False else "u1")
    raw[(0 if code.startswith(">") else nan.itemsize // (2 if "c" in code else 1) - 1)] ^= 0x80
    assert np.isnan(other[0])
    assert nan.tobytes() != other.tobytes()
    assert encode(nan) == encode(other)
    assert encode(nan[:1].reshape(())) == encode(other[:1].reshape(()))
    assert encode(nan[0]) == encode(other[0])


@pytest.mark.parametrize(
    "value",
    [
        np.zeros(2, "f8,i4"), np.zeros(1, "V8"), np.longdouble(1), np.zeros(1, np.clongdouble),
        np.void(b"x"), np.ma.array([1], mask=[True]),
        np.array([1], np.dtype("i4", metadata={"unit": "m"})), np.rec.array([(1,)]), np.dtype("f8"),
        np.random.default_rng(0), np.float64, np.nditer([1]), np.zeros(1, "f8,S0")["f1"],
        *([np.array(["a"], np.dtypes.StringDType())] if hasattr(np.dtypes, "StringDType") else []),
    ],
    ids=lambda value: str(type(value)),
)  # fmt: skip
def test_what_numpy_cannot_give_back_exactly_is_refused(value):
    assert refusal({"a": [value]}).path == "value.a[0]"


def test_a_refusal_inside_an_array_names_the_place():
    grid = np.empty((2, 3), object)
    grid[1, 2] = [object()]
    assert refusal({"grid": grid}).path == "value.grid[1][2][0]"
    alone = np.empty((), object)
    alone[()] = object()
    assert refusal([alone]).path == "value[0]"


def test_an_array_that_contains_itself_is_refused():
    array = np.empty((1, 1), object)
    array[0, 0] = array
    error = refusal({"a": array})
    assert error.path == "value.a[0][0]"
    assert "it is value.a again" in str(error)


# pandas

labels = (
    st.none()
    | st.integers(-5, 5)
    | st.text(max_size=3)
    | st.tuples(st.integers(0, 3), st.text(max_size=2))
)
moments = st.integers(-(2**35), 2**35)
zones = st.sampled_from(
    [UTC, ZoneInfo("Europe/Berlin"), ZoneInfo("Asia/Kolkata"), timezone(timedelta(hours=2))]
)


@st.composite
def columns(draw, size):
    def items(strategy):
        return draw(st.lists(strategy, min_size=size, max_size=size))

    def optional(strategy):
        return items(st.none() | strategy)

    kind = draw(st.sampled_from(sorted(COLUMNS)))
    return COLUMNS[kind](draw, items, optional)


def stamps(draw, items):
    unit = draw(st.sampled_from(["s", "ms", "us", "ns"]))
    return np.array(items(moments | st.just(-(2**63))), "i8").view(f"M8[{unit}]")


def objects(items):
    array = np.empty(len(items), object)
    for index, item in enumerate(items):
        array[index] = item
    return pd.Series(array, dtype=object).array


def categories(draw, items, optional):
    known = pd.Index(draw(st.sampled_from([["a", "b"], [1, 2], [1.5]])), name=draw(labels))
    dtype = pd.CategoricalDtype(known, ordered=draw(st.booleans()))
    codes = items(st.integers(-1, len(known) - 1))
    return pd.Categorical.from_codes(np.array(codes, "i8"), dtype=dtype)


def floating(draw, items, optional):
    data = np.array(items(st.floats()), "f8")
    return pd.arrays.FloatingArray(data, np.array(items(st.booleans()), bool))


def intervals(draw, items, optional):
    left = pd.Index(items(st.integers(-9, 9)), dtype=draw(st.sampled_from(["i8", "f8"])))
    closed = draw(st.sampled_from(["left", "right", "both", "neither"]))
    return pd.arrays.IntervalArray.from_arrays(left, left + 1, closed=closed)


def numbers(draw, items, optional):
    dtype = draw(st.sampled_from(["i1", "u8", "f4", "f8", "c16", "?", "f2"]))
    return pd.Series(draw(hnp.arrays(dtype, len(items(st.none()))))).array


STRINGS = [pd.StringDtype("python")]
if hasattr(STRINGS[0], "_na_value"):  # since pandas 2.3
    STRINGS.append(pd.StringDtype("python", na_value=math.nan))

COLUMNS = {
    "numpy": numbers,
    "object": lambda draw, items, _: objects(items(hashable_scalars)),
    "datetime": lambda draw, items, _: pd.DatetimeIndex(stamps(draw, items)).array,
    "zoned": lambda draw, items, _: (
        pd.DatetimeIndex(stamps(draw, items)).tz_localize("UTC").tz_convert(draw(zones)).array
    ),
    "duration": lambda draw, items, _: pd.TimedeltaIndex(stamps(draw, items).view("i8").view("m8[ms]")).array,
    "period": lambda draw, items, _: pd.PeriodIndex.from_ordinals(
        np.array(items(st.integers(0, 500) | st.just(-(2**63))), "i8"), freq=draw(st.sampled_from("DMYh"))
    ).array,
    "string": lambda draw, _, optional: pd.array(
        optional(st.text(st.characters(exclude_categories=()), max_size=3)), dtype=draw(st.sampled_from(STRINGS))
    ),
    "integer": lambda draw, _, optional: pd.array(
        optional(st.integers(0, 100)), dtype=draw(st.sampled_from(["Int8", "UInt64", "Int64", "Float32"]))
    ),
    "floating": floating,
    "boolean": lambda _draw, _, optional: pd.array(optional(st.booleans()), dtype="boolean"),
    "categorical": categories,
    "interval": intervals,
}  # fmt: skip


@st.composite
def indexes(draw, size):
    if draw(st.booleans()):
        return pd.RangeIndex(3, 3 + 2 * size, 2, name=draw(labels))
    array = draw(columns(size).filter(lambda array: str(array.dtype) != "float16"))
    return pd.Index(array, dtype=array.dtype, name=draw(labels), tupleize_cols=False)


@thorough
@given(st.data(), st.integers(0, 5))
def test_every_series_comes_back_exactly(data, size):
    array, index = data.draw(columns(size)), data.draw(indexes(size))
    series = pd.Series(array, index=index, dtype=array.dtype, name=data.draw(labels))
    series.attrs = data.draw(st.dictionaries(st.text(), scalars, max_size=1))
    comes_back(series)
    comes_back(index)


@thorough
@given(st.data(), st.integers(0, 4), st.integers(0, 4))
def test_every_frame_comes_back_exactly(data, rows, width):
    index, header = data.draw(indexes(rows)), data.draw(indexes(width))
    arrays = [data.draw(columns(rows)) for _ in range(width)]
    series = {i: pd.Series(array, index=index, dtype=array.dtype) for i, array in enumerate(arrays)}
    frame = pd.DataFrame(series, index=index)
    frame.columns = header
    comes_back({"frame": frame})


@pytest.mark.parametrize("kind", COLUMNS)
def test_every_kind_of_column_is_drawn_and_comes_back(kind):
    @settings(max_examples=30, deadline=None)
    @given(st.data())
    def check(data):
        def items(strategy):
            return data.draw(st.lists(strategy, min_size=3, max_size=3))

        array = COLUMNS[kind](data.draw, items, lambda strategy: items(st.none() | strategy))
        comes_back(pd.Series(array, dtype=array.dtype, index=["x", "y", "y"]))

    check()


def frame_of(**columns):
    return pd.DataFrame(columns)


@pytest.mark.parametrize(
    "value",
    [
        pd.DataFrame(), pd.DataFrame(index=["a", "b"]), pd.DataFrame(columns=["a", "b"]), pd.Series(dtype=object),
        pd.DataFrame([[1, "x"], [2, None]], columns=["a", "a"]), pd.DataFrame({1: [1], "1": [2], None: [3], (1, 2): [4]}),
        pd.DataFrame({"a": [1, 2]}, index=pd.date_range("2024", periods=2, freq="B", tz="Europe/Berlin")),
        pd.Series([1, 2, 3], index=pd.timedelta_range("1h", periods=3, freq="2h")),
        pd.Series(range(3), index=pd.period_range("2024-01", periods=3, freq="M")),
        pd.DataFrame({"n": [1, 2, 3]}).groupby(pd.cut(pd.Series([1, 2, 3]), [0, 1, 3]), observed=False).sum(),
        pd.DataFrame({"g": list("aab"), "h": list("xyx"), "n": [1, 2, 3]}).groupby(["g", "h"]).agg(["sum", "mean"]),
        pd.DataFrame({"g": list("aab"), "n": [1, 2, 3]}).describe(include="all"),
        pd.MultiIndex.from_product([["a", None], [1, 2]], names=["x", ("y", 1)])[:3],
        pd.Series(pd.Categorical(["b", "a", None], categories=["b", "a"], ordered=True)),
        pd.Series([pd.Timestamp("2024", tz="UTC"), pd.NaT, pd.NA, pd.Timedelta("1h"), None, math.nan, "x"], dtype=object),
        pd.Series([[1], {"a": (1,)}, np.array([1.0])], dtype=object),
        pd.Series([pd.Period("2024-01"), pd.Interval(0, 1.5, closed="both")], dtype=object),
        pd.Series([1, 2]).set_flags(allows_duplicate_labels=False),
        pd.Index([("a", 1), ("b", 2)], tupleize_cols=False), pd.Index([True, False]), pd.Index(["a", None]),
        pd.RangeIndex(5, -5, -3, name="r"),
    ],
    ids=lambda value: f"{type(value).__name__}{value.shape}",
)  # fmt: skip
def test_what_pandas_itself_makes_comes_back(value):
    comes_back(value)


def test_columns_before_the_first_python_date_come_back():
    days = np.array([-(10**6), 10**7], "M8[D]").astype("M8[s]")
    comes_back(pd.DataFrame([[1, 2]], columns=pd.DatetimeIndex(days)))


def test_the_attributes_of_a_frame_come_back():
    frame = pd.DataFrame({"a": [1]})
    frame.attrs["source"] = {"when": (1, 2)}
    comes_back(frame)


@pytest.mark.parametrize(
    "scalar",
    [
        pd.Timestamp("2024-01-01"), pd.Timestamp(5, unit="s"), pd.Timestamp("2024-01-01 00:00:00.000000001"),
        pd.Timestamp("2024-10-27 01:30", tz="UTC").tz_convert("Europe/Berlin"),
        pd.Timestamp("2024-10-27 00:30", tz="UTC").tz_convert("Europe/Berlin"),
        pd.Timestamp(2024, 1, 1).replace(fold=1), pd.Timestamp.max, pd.Timestamp.min, pd.Timestamp("2199-12-31"),
        pd.Timedelta("1D"), pd.Timedelta(-5), pd.Timedelta(5, unit="s"), pd.NaT, pd.NA,
        pd.Period("2024Q1"), pd.Period("2024-01-01", "W-MON"), pd.Interval(0, 1), pd.Interval(0.5, 1.5, "left"),
        pd.Interval(pd.Timestamp("2024"), pd.Timestamp("2025"), "neither"),
    ],
    ids=repr,
)  # fmt: skip
def test_every_pandas_scalar_comes_back(scalar):
    comes_back([scalar, {"k": (scalar,)}])


def test_a_timestamp_is_not_a_datetime():
    moment = pd.Timestamp("2024-01-01")
    assert encode(moment) != encode(moment.to_pydatetime())


def test_a_masked_value_does_not_depend_on_what_lies_under_the_mask():
    mask = np.array([False, True])
    left, right = (pd.Series(pd.arrays.IntegerArray(np.array([1, n]), mask)) for n in (5, 6))
    assert encode(left) == encode(right)


def test_the_dtypes_of_equal_looking_columns_differ():
    kinds = [
        "i8",
        "f8",
        "Int64",
        "Float64",
        "category",
        object,
        "i4",
        "M8[s]",
        "M8[ns]",
        "m8[s]",
        "string",
        "str",
    ]
    assert len({encode(pd.Series([1, 2]).astype(kind)) for kind in kinds}) == len(kinds)


def test_a_frame_comes_back_writable_and_its_own():
    data = encode(pd.DataFrame({"a": [1, 2], "o": [[1], [2]]}))
    first, second = decode(data), decode(data)
    first.loc[0, "a"] = 9
    first.loc[1, "o"].append(3)
    assert second.loc[0, "a"] == 1
    assert second.loc[1, "o"] == [2]


class Frame(pd.DataFrame):
    pass


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (pd.Series([1, object()], dtype=object), "value[1]"),
        (pd.DataFrame({"image": [1, object()]}, dtype=object), "value.image[1]"),
        (pd.DataFrame({"a": [1]}, index=pd.Index([object()], dtype=object)), "value.index[0]"),
        (pd.DataFrame([[1]], columns=pd.Index([object()], dtype=object)), "value.columns[0]"),
        (pd.DataFrame({"s": pd.arrays.SparseArray([0, 1])}), "value.s"),
        (Frame({"a": [1]}), "value"),
        (pd.Series([1], index=pd.date_range("2024", periods=1, freq=pd.DateOffset(months=1))), "value.index.freq"),
        (pd.DataFrame({"a": [1]}).groupby("a"), "value"),
        (pd.offsets.Day(), "value"),
        (pd.DataFrame({"a": [np.longdouble(1)]}), "value.a"),
    ],
    ids=lambda part: part if isinstance(part, str) else type(part).__name__,
)  # fmt: skip
def test_what_pandas_cannot_give_back_exactly_is_refused_with_its_path(value, path):
    assert refusal(value).path == path


def test_a_refused_attribute_of_a_frame_names_its_path():
    frame = pd.DataFrame({"a": [1]})
    frame.attrs["fig"] = object()
    assert refusal({"df": frame}).path == "value.df.attrs.fig"


# Damage, absence, platform


TWO = '{"$":"pandas.RangeIndex","v":[0,2,1],"name":null}'
DAMAGED = [
    '{"$":"numpy.ndarray","dtype":"=f8","shape":[2],"v":"AAAAAAAAAAA="}',
    '{"$":"numpy.ndarray","dtype":"=f8","shape":[1],"v":"AAAAAAAAAAAAAAAAAAAAAA=="}',
    '{"$":"numpy.ndarray","dtype":"=f8","shape":[-1],"v":""}',
    '{"$":"numpy.ndarray","dtype":"=f8","shape":[0.0],"v":""}',
    '{"$":"numpy.ndarray","dtype":"=f8","shape":[1e999],"v":""}',
    '{"$":"numpy.ndarray","dtype":"=f8","shape":[99999999999999999999],"v":""}',
    '{"$":"numpy.ndarray","dtype":"=f8","shape":["x"],"v":""}',
    '{"$":"numpy.ndarray","dtype":"=f8","shape":[1,1,1],"v":[]}',
    '{"$":"numpy.ndarray","dtype":"O","shape":[2],"v":[1]}',
    '{"$":"numpy.ndarray","dtype":"O","shape":[1],"v":"AA=="}',
    '{"$":"numpy.ndarray","dtype":"i4,(2,3)f8","shape":[0],"v":""}',
    '{"$":"numpy.ndarray","dtype":"__import__(1)","shape":[0],"v":""}',
    '{"$":"numpy.ndarray","dtype":"|S0","shape":[1000000000000000],"v":""}',
    '{"$":"numpy.ndarray","dtype":["O"],"shape":[0],"v":""}',
    '{"$":"numpy.ndarray","dtype":"=V8","shape":[0],"v":""}',
    '{"$":"numpy.ndarray","dtype":"=U999999999","shape":[1],"v":""}',
    '{"$":"numpy.scalar","dtype":"=i1","v":300}',
    '{"$":"numpy.scalar","dtype":"=f4","v":1e300}',
    '{"$":"numpy.scalar","dtype":"=f4","v":0.1}',
    '{"$":"numpy.scalar","dtype":"=f8","v":"1"}',
    '{"$":"numpy.scalar","dtype":"|b1","v":1}',
    '{"$":"numpy.scalar","dtype":"U","v":1}',
    '{"$":"numpy.scalar","dtype":"=M8[s]","v":"2024"}',
    '{"$":"numpy.scalar","dtype":"=M8[zz]","v":1}',
    '{"$":"pandas.Series","v":[1],"index":[1],"name":null}',
    '{"$":"pandas.DataFrame","v":[],"index":1,"columns":2}',
    f'{{"$":"pandas.DataFrame","v":[],"index":{TWO},"columns":{TWO}}}',
    '{"$":"pandas.RangeIndex","v":[0,1],"name":null}',
    '{"$":"pandas.RangeIndex","v":[0,1,0],"name":null}',
    '{"$":"pandas.RangeIndex","v":[0,1,1],"name":[]}',
    '{"$":"pandas.MultiIndex","levels":[],"codes":[[0]],"names":[]}',
    '{"$":"pandas.Period","v":1,"freq":"no such"}',
    '{"$":"pandas.Period","v":"x","freq":"D"}',
    '{"$":"pandas.Timestamp","v":1,"unit":"fortnight"}',
    '{"$":"pandas.Timestamp","v":1.5,"unit":"s"}',
    '{"$":"pandas.Timestamp","v":9223372036854775807,"unit":"D"}',
    '{"$":"pandas.Timedelta","v":[],"unit":"s"}',
    '{"$":"pandas.Interval","left":2,"right":1,"closed":"left"}',
    '{"$":"pandas.Interval","left":1,"right":2,"closed":"up"}',
    '{"$":"pandas.NA","v":1}',
    '{"$":"pytz","v":"../x"}',
]


@pytest.mark.parametrize("node", DAMAGED, ids=lambda node: node[6:70])
@pytest.mark.parametrize("strict", [True, False])
def test_damaged_arrays_are_corruption_and_nothing_else(node, strict):
    with pytest.raises(StoreCorruptError):
        decode(node.encode(), strict=strict)


EXAMPLES = [
    np.arange(3.0), np.array([1, "a"], object), np.datetime64(1, "s"), pd.Timestamp("2024", tz="UTC"),
    pd.DataFrame({"a": [1, 2], "s": ["x", None], "c": pd.Categorical(["u", "v"])}),
    pd.Series(pd.array([1, None]), index=pd.date_range("2024", periods=2, freq="D", tz="UTC")),
    pd.Series(pd.interval_range(0, 2), index=pd.MultiIndex.from_tuples([(1, "a"), (2, None)])),
    pd.Series(pd.period_range("2024", periods=2, freq="M"), name=("n", 1)),
]  # fmt: skip


@st.composite
def mutated(draw):
    """The tree of an example with some of its parts replaced by others."""
    tree = parse(encode([EXAMPLES[draw(st.integers(0, len(EXAMPLES) - 1))]]))
    for _ in range(draw(st.integers(1, 3))):
        spots = [(owner, key) for owner in walk(tree) for key in keys(owner)]
        owner, key = spots[draw(st.integers(0, len(spots) - 1))]
        parts = [
            None,
            0,
            -1,
            1.5,
            "",
            "x",
            "O",
            "=i8",
            "D",
            [],
            {},
            True,
            [0],
            ["a", "a"],
            *walk(tree),
        ]
        owner[key] = json.loads(json.dumps(parts[draw(st.integers(0, len(parts) - 1))]))
    return tree


def keys(owner):
    return list(owner) if isinstance(owner, dict) else range(len(owner))


def walk(tree):
    if isinstance(tree, dict | list):
        yield tree
        for key in keys(tree):
            yield from walk(tree[key])


@pytest.mark.thorough
@settings(thorough, max_examples=1500)
@given(mutated())
def test_mutated_trees_never_escape_as_another_error(tree):
    data = json.dumps(tree).encode()
    for strict in (True, False):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                decode(data, strict=strict)
            except (StoreCorruptError, UnknownTypeError):
                continue


@pytest.mark.parametrize("name", ["numpy", "pandas"])
def test_without_the_package_a_value_is_unknown_but_readable(monkeypatch, name):
    data = encode({"numpy": np.array([1]), "pandas": pd.Series([1])}[name])
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UnknownTypeError, match=f"Install {name}"):
        decode(data)
    assert encode(decode(data, strict=False)) == data


def test_a_pytz_zone_comes_back_but_not_one_of_its_offsets():
    pytz = pytest.importorskip("pytz", reason="pandas before 3 brings it")
    berlin = pytz.timezone("Europe/Berlin")
    comes_back(
        [pytz.utc, pd.Timestamp("2024", tz=berlin), pd.date_range("2024", periods=2, tz=berlin)]
    )
    assert decode(encode(berlin)) is berlin
    local = berlin.localize(pd.Timestamp("2024").to_pydatetime())
    assert refusal([local]).path == "value[0].tzinfo"
    assert refusal([pytz.FixedOffset(60)]).path == "value[0]"


def test_pyarrow_strings_are_unknown_without_pyarrow(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UnknownTypeError, match="Install pyarrow"):
        decode(b'{"$":"pandas.Strings","storage":"pyarrow","na":"nan","v":["a"]}')


def test_a_frame_is_restored_in_a_process_that_has_not_imported_pandas():
    data = encode([pd.DataFrame({"a": [1.5]}), np.float32(2), Decimal(1)])
    script = (
        "import sys; from rewind_nb import _codec\n"
        "assert 'pandas' not in sys.modules and 'numpy' not in sys.modules\n"
        "data = sys.stdin.buffer.read(); back = _codec.decode(data)\n"
        "assert _codec.encode(back) == data; print(type(back[0]).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        input=data,
        env={**os.environ, "PYTHONPATH": str(Path(_codec.__file__).parents[2])},
        capture_output=True,
        check=True,
    )
    assert done.stdout.strip() == b"DataFrame"
