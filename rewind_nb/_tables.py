"""What differs between two arrays or tables, in few words: shape, labels, dtypes, cells.

A frame of 300 rows has one repr, whichever of its cells changed. numpy and pandas are not
imported: who holds one of their objects has done so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from rewind_nb import _codec
from rewind_nb._describe import WIDTH, short
from rewind_nb.errors import NotEncodableError

__all__ = ["differing", "is_table"]

MAX_FACTS = 2
LABEL = 32  # characters of a label
COUNTED = 100_000  # cells that are compared one by one to count those that differ


class Fact(NamedTuple):
    """Something that is told of both sides."""

    before: str
    after: str


def differing(before: Any, after: Any) -> Fact | None:
    """What differs between two arrays, series, indexes or frames; None for anything else.

    Example:
        >>> import numpy
        >>> differing(numpy.zeros(300), numpy.arange(300.0)).after
        'ndarray 300 float64: [1] = 1.0 (299 cells differ)'
    """
    kind = _kind(before)
    if kind is None or kind != _kind(after):
        return None
    facts = list(islice(_FACTS[kind](before, after), MAX_FACTS))
    ours, theirs = _head(kind, before), _head(kind, after)
    if not facts:
        return Fact(ours, theirs) if ours != theirs else None
    told = ["; ".join(side) for side in zip(*facts, strict=True)]
    return Fact(f"{ours}: {told[0]}", f"{theirs}: {told[1]}")


def is_table(value: Any) -> bool:
    """Whether a value's repr is a table, which says little on one line."""
    return _kind(value) in ("Series", "DataFrame")


def _kind(value: Any) -> str | None:
    """The class that a value is shown as."""
    for cls in type(value).__mro__:
        if cls.__module__.partition(".")[0] in ("numpy", "pandas") and cls.__name__ in _FACTS:
            return cls.__name__
    return None


def _head(kind: str, value: Any) -> str:
    shape = " x ".join(map(str, value.shape)) or "scalar"
    return f"{kind} {shape}" + ("" if kind == "DataFrame" else f" {value.dtype}")


# -- what differs -------------------------------------------------------------------------


def _of_arrays(before: Any, after: Any) -> Iterator[Fact]:
    if before.shape == after.shape:
        yield from _cells(before, after, lambda n: _position(n, before.shape))
    elif before.ndim == after.ndim == 1:
        shorter = min(len(before), len(after))
        yield from _cells(before[:shorter], after[:shorter], lambda n: f"[{n}]")


def _of_indexes(before: Any, after: Any) -> Iterator[Fact]:
    if type(before) is not type(after):
        yield Fact(type(before).__name__, type(after).__name__)
    if not _same(list(before.names), list(after.names)):
        yield Fact(f"names {_label(list(before.names))}", f"names {_label(list(after.names))}")
    yield from _of_values(before, after, lambda n: f"[{n}]")


def _of_series(before: Any, after: Any) -> Iterator[Fact]:
    if not _same(before.name, after.name):
        yield Fact(f"name {_label(before.name)}", f"name {_label(after.name)}")
    yield from _labels("row", before.index, after.index)
    yield from _of_values(before, after, lambda n: f"[{_label(before.index[n])}]")
    yield from _attributes(before, after)


def _of_frames(before: Any, after: Any) -> Iterator[Fact]:
    yield from _labels("column", before.columns, after.columns)
    shared = [name for name in before.columns if name in after.columns]
    columns = [
        (name, before[name], after[name])
        for name in shared
        if before[name].ndim == after[name].ndim == 1  # a label that occurs once
    ]
    for name, ours, theirs in columns:
        if ours.dtype != theirs.dtype:
            yield Fact(f"{_column(name)} is {ours.dtype}", f"{_column(name)} is {theirs.dtype}")
    yield from _labels("row", before.index, after.index)
    found = [
        (name, ours, fact)
        for name, ours, theirs in columns
        for fact in [_unlike(_values(ours), _values(theirs))]
        if fact
    ]
    if found:
        name, ours, (n, _, old, new) = found[0]
        total = sum(count for _, _, (_, count, _, _) in found)
        cell = f"{_column(name)}[{_label(ours.index[n])}]"
        yield _cell(cell, old, new, total)
    yield from _attributes(before, after)


_FACTS: dict[str, Callable[[Any, Any], Iterator[Fact]]] = {
    "ndarray": _of_arrays,
    "Series": _of_series,
    "DataFrame": _of_frames,
    "Index": _of_indexes,
}


def _labels(noun: str, before: Any, after: Any) -> Iterator[Fact]:
    """How the labels of one axis differ."""
    alike = type(before) is type(after) and before.dtype == after.dtype
    if not _same(list(before.names), list(after.names)):
        yield Fact(
            f"{noun}s named {_label(list(before.names))}",
            f"{noun}s named {_label(list(after.names))}",
        )
    if alike and before.equals(after):
        return
    ours, theirs = list(before), list(after)
    if (lost := next((x for x in ours if x not in after), None)) is not None:
        yield Fact(f"has {noun} {_label(lost)}", f"no {noun} {_label(lost)}")
    if (new := next((x for x in theirs if x not in before), None)) is not None:
        yield Fact(f"no {noun} {_label(new)}", f"has {noun} {_label(new)}")
    if len(ours) == len(theirs) and set(ours) == set(theirs):
        for n, (old, now) in enumerate(zip(ours, theirs, strict=True)):
            if not _same(old, now):
                yield Fact(f"{noun} {n} is {_label(old)}", f"{noun} {n} is {_label(now)}")
                return
    if not alike:
        yield Fact(
            f"{noun}s are {type(before).__name__} {before.dtype}",
            f"{noun}s are {type(after).__name__} {after.dtype}",
        )


def _attributes(before: Any, after: Any) -> Iterator[Fact]:
    if not _same(before.attrs, after.attrs):
        yield Fact(f"attrs {_label(before.attrs)}", f"attrs {_label(after.attrs)}")


def _of_values(before: Any, after: Any, where: Callable[[int], str]) -> Iterator[Fact]:
    yield from _cells(_values(before), _values(after), where)


def _cells(before: Any, after: Any, where: Callable[[int], str]) -> Iterator[Fact]:
    found = _unlike(before, after)
    if found:
        n, count, old, new = found
        yield _cell(where(n), old, new, count)


def _cell(where: str, old: Any, new: Any, count: int) -> Fact:
    more = f" ({count} cells differ)" if count > 1 else ""
    return Fact(f"{where} = {_item(old)}{more}", f"{where} = {_item(new)}{more}")


# -- comparing ----------------------------------------------------------------------------


def _unlike(before: Any, after: Any) -> tuple[int, int, Any, Any] | None:
    """The first cell that differs, how many are known to, and what is there on either side."""
    ours, theirs = before.reshape(-1), after.reshape(-1)
    shorter = min(len(ours), len(theirs))
    ours, theirs = ours[:shorter], theirs[:shorter]
    if ours.dtype == theirs.dtype and ours.dtype != object and ours.dtype.itemsize:
        found = _unlike_bytes(ours, theirs)
    else:
        unlike = (n for n in range(shorter) if not _alike(ours[n], theirs[n]))
        found = list(islice(unlike, None if shorter <= COUNTED else 1))
    return (found[0], len(found), ours[found[0]], theirs[found[0]]) if found else None


def _unlike_bytes(ours: Any, theirs: Any) -> list[int]:
    """By their bytes, as they are stored: -0.0 is not 0.0, and every NaN is the same one."""
    size = ours.dtype.itemsize
    raw = [side.copy().view("u1").reshape(-1, size) for side in (ours, theirs)]
    found: list[int] = (raw[0] != raw[1]).any(axis=1).nonzero()[0].tolist()
    return found


def _alike(old: Any, new: Any) -> bool:
    if type(old) is type(new) and type(old) in (str, int, bool, bytes, type(None)):
        return bool(old == new)
    return _same(_item_of(old), _item_of(new))


def _same(old: Any, new: Any) -> bool:
    try:
        return _codec.encode(old) == _codec.encode(new)
    except NotEncodableError:
        return old is new


def _values(labelled: Any) -> Any:
    """As an array; what numpy has no dtype for as objects."""
    plain = type(labelled.dtype).__module__.partition(".")[0] == "numpy"
    return labelled.to_numpy() if plain else labelled.to_numpy(dtype=object)


# -- words --------------------------------------------------------------------------------


def _position(n: int, shape: tuple[int, ...]) -> str:
    found = []
    for size in reversed(shape):
        n, here = divmod(n, size)
        found.append(str(here))
    return f"[{', '.join(reversed(found))}]"


def _column(name: Any) -> str:
    return name if isinstance(name, str) and name.isidentifier() else f"[{_label(name)}]"


def _label(value: Any) -> str:
    return _item(value, LABEL)


def _item(value: Any, width: int = WIDTH) -> str:
    plain = _item_of(value)
    return short(plain, width) if not hasattr(plain, "isoformat") else plain.isoformat()


def _item_of(value: Any) -> Any:
    """A scalar of numpy as Python has it, where that says the same."""
    plain = getattr(value, "dtype", None) is not None and value.dtype.kind in "biufc"
    return value.item() if plain and math.prod(value.shape) == 1 else value
