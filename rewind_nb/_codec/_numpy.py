"""numpy scalars and arrays: dtype, shape, and the bytes in C order.

numpy is found in `sys.modules` and never imported to encode. What differs between
machines or cannot come back exactly is refused: long doubles, structured and variable
width string dtypes, dtypes with metadata, array subclasses. Native byte order is
written ``=`` with little-endian bytes, so hashes do not depend on the platform; every
NaN gets the same bits.
"""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

from rewind_nb._codec._trail import SAME, Trail, below, refusal
from rewind_nb._codec._types import base64, unbase64
from rewind_nb._codec._walk import TAG, Decoder, Encoder, Node, from_node, listed, text, to_node
from rewind_nb.errors import UnknownTypeError

_CODE = re.compile(
    r"[=<>|](b1|[iu][1248]|[lLqQ]|f[248]|c8|c16|[SU][1-9]\d{0,8}|[mM]8(\[\d{0,9}[a-zA-Zμ]{1,7}\])?)"
)


def encoder_for(kind: type) -> Encoder | None:
    """The encoder of numpy's own array and scalar types."""
    if kind.__module__ != "numpy" or "numpy" not in sys.modules:
        return None
    numpy = sys.modules["numpy"]
    if kind is numpy.ndarray:
        return _array
    return _scalar if issubclass(kind, numpy.generic) else None


def load(name: str) -> Any:
    """numpy, pandas or what pandas uses, imported where a stored value needs it.

    Raises:
        UnknownTypeError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnknownTypeError(
            f"a stored value is made with {name}, which cannot be imported here. Install {name}.",
            class_name=name,
        ) from error


def _array(array: Any, at: Trail) -> Node:
    if array.dtype == object:
        items = [to_node(item, _slot(at, array, index)) for index, item in _each(array)]
        return {TAG: "numpy.ndarray", "dtype": "O", "shape": list(array.shape), "v": items}
    code = _code(array.dtype)
    if code is None:
        raise _refuse_dtype(array, at)
    data = _one_nan(array).astype(_stored(array.dtype, code), copy=False).tobytes()
    return {TAG: "numpy.ndarray", "dtype": code, "shape": list(array.shape), "v": base64(data)}


def _each(array: Any) -> Any:
    return sys.modules["numpy"].ndenumerate(array)


def _slot(at: Trail, array: Any, index: tuple[int, ...]) -> Trail:
    """The trail of an item, one step deeper whatever the number of dimensions."""
    first, *rest = index or (SAME,)
    here = below(at, array, first)
    for position in rest:
        here = (here, position, None, here[3])
    return here


def _scalar(item: Any, at: Trail) -> Node:
    numpy = sys.modules["numpy"]
    code: str | None
    content: Any
    if type(item) is numpy.str_:  # not item(), which drops trailing NULs
        code, content = "U", str.__str__(item)
    elif type(item) is numpy.bytes_:
        code, content = "S", bytes(item)
    else:
        code = _code(item.dtype)
        if code is None or numpy.dtype(code).type is not type(item):
            raise _refuse_dtype(item, at)
        content = int(item.view("i8")) if item.dtype.kind in "mM" else item.item()
    return {TAG: "numpy.scalar", "dtype": code, "v": to_node(content, below(at, item, SAME))}


def _refuse_dtype(item: Any, at: Trail) -> Exception:
    reason = f"its dtype {item.dtype} differs between machines or holds more than its items"
    return refusal(item, at, reason, "Convert it with astype to a plain dtype.")


def _code(dtype: Any) -> str | None:
    """The dtype in platform-independent form, or None where there is none."""
    order, code = dtype.str[0], dtype.str[1:]
    if dtype.isnative and order != "|":
        order = "="
    if (
        _CODE.fullmatch(order + code)
        and sys.modules["numpy"].dtype(order + code).char != dtype.char
    ):
        code = dtype.char  # a second C type of the same width, such as longlong
    return order + code if _CODE.fullmatch(order + code) and not dtype.metadata else None


def _stored(dtype: Any, code: str) -> Any:
    return dtype.newbyteorder("<") if code[0] == "=" else dtype


def _one_nan(array: Any) -> Any:
    numpy = sys.modules["numpy"]
    if array.dtype.kind not in "fc" or not numpy.isnan(array).any():
        return array
    flat = array.flatten()
    for part in (flat.real, flat.imag) if array.dtype.kind == "c" else (flat,):
        part[numpy.isnan(part)] = numpy.nan
    return flat


def _read_array(strict: bool, /, dtype: Node, shape: Node, v: Node) -> Any:
    numpy = load("numpy")
    if dtype == "O":
        items = from_node(listed(v), strict)
        flat = numpy.empty(len(items), object)
        for index, item in enumerate(items):
            flat[index] = item
        return flat.reshape(_sizes(shape))
    kind, data = _dtype(dtype), unbase64(v)
    array = numpy.ndarray(_sizes(shape), _stored(kind, dtype), data)
    if array.nbytes != len(data):
        raise ValueError("the bytes do not fill the shape")
    return array.astype(kind)


def _sizes(shape: Node) -> tuple[int, ...]:
    if not all(type(size) is int and size >= 0 for size in listed(shape)):
        raise ValueError("not a shape")
    return tuple(shape)


def _dtype(code: Node) -> Any:
    if not _CODE.fullmatch(text(code)):
        raise ValueError("not a dtype")
    return load("numpy").dtype(code)


def _read_scalar(_strict: bool, /, dtype: Node, v: Node) -> Any:
    numpy, content = load("numpy"), from_node(v, strict=True)
    if dtype == "U":
        return numpy.str_(text(content))
    kind = _dtype("|S1" if dtype == "S" else dtype)
    if type(content) is not _CONTENTS[kind.kind]:
        raise TypeError("the content does not belong to the dtype")
    if kind.kind in "mM":
        return numpy.array(content, "i8").view(kind)[()]
    with numpy.errstate(all="ignore"):
        scalar = kind.type(content)
    if kind.kind != "S" and repr(scalar.item()) != repr(content):
        raise ValueError("the content does not fit the dtype")
    return scalar


_CONTENTS = {"b": bool, "i": int, "u": int, "f": float, "c": complex, "S": bytes} | dict.fromkeys(
    "mM", int
)

DECODERS: dict[str, Decoder] = {"numpy.ndarray": _read_array, "numpy.scalar": _read_scalar}
