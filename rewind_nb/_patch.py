"""Small edits of the recorded writes of a step: the value of ``patch=``.

Two spellings of the same thing::

    [{"op": "replace", "path": "/report/total", "value": 5}]    RFC 6902, all six ops
    {"report.total": 5}                                         replacements, by our paths

A patch addresses what is there. Every location is walked before its op is applied: it
leads through str-keyed dicts and lists only, the containers in which one element can be
exchanged without making up the rest. Which keys a step wrote is a fact about the step,
so a patch may replace a written key but neither remove nor add one.

`jsonpatch` applies the ops. The walk here is stricter, its errors name what exists at
that level, and ``test`` is decided here because the library takes True for 1.
"""

from __future__ import annotations

import copy
import re
import reprlib
from collections.abc import Sequence
from typing import Any

import jsonpatch
from jsonpointer import JsonPointer

from rewind_nb._patch_ops import Location, Op, Patch, operations
from rewind_nb._path import MISSING, Part, get, join, render
from rewind_nb.errors import OverrideError, did_you_mean

__all__ = ["Patch", "apply_patch", "describe", "patched_keys"]

INDEX = re.compile(r"0|[1-9][0-9]*")
MAX_SHOWN = 60  # characters of a value in one line of `describe`


def apply_patch(writes: dict[str, Any], patch: Patch) -> dict[str, Any]:
    """The recorded writes with a patch applied; nothing is shared with either argument.

    Args:
        writes: what the step wrote, by state key.
        patch: RFC 6902 operations, or replacements by path.

    Returns:
        A deep copy with the same keys in the same order.

    Raises:
        OverrideError: the patch is malformed, addresses what is not there or leads
            through a value that has to be replaced as a whole, or its test fails
            (attributes `location`, and `known`: what exists at that level).

    Example:
        >>> apply_patch({"report": {"total": 4}}, {"report.total": 5})
        {'report': {'total': 5}}
        >>> apply_patch({"items": [1, 2]}, [{"op": "add", "path": "/items/-", "value": 3}])
        {'items': [1, 2, 3]}
    """
    patched = copy.deepcopy(writes)
    for op in operations(patch):
        _APPLY[op.name](patched, op)
    return patched


def patched_keys(patch: Patch) -> list[str]:
    """The written keys that a patch changes, in the order it first names them.

    Raises:
        OverrideError: the patch is malformed.

    Example:
        >>> patched_keys({"report.total": 5, "report.unit": "EUR", "notes": []})
        ['report', 'notes']
    """
    keys: dict[str, None] = {}
    for op in operations(patch):
        changed = {"test": (), "move": (op.source, op.path)}.get(op.name, (op.path,))
        keys |= {str(location.parts[0]): None for location in changed}
    return list(keys)


def replaced_whole(patch: Patch) -> list[str]:
    """The written keys that a patch replaces as a whole, whatever was in them.

    Raises:
        OverrideError: the patch is malformed.

    Example:
        >>> replaced_whole({"report.total": 5, "notes": []})
        ['notes']
    """
    found = (op.path.parts for op in operations(patch) if op.name in ("add", "replace"))
    return [str(parts[0]) for parts in found if len(parts) == 1]


def describe(patch: Patch, writes: dict[str, Any] | None = None) -> str:
    """One line that says what a patch does, the same on every machine.

    Args:
        patch: RFC 6902 operations, or replacements by path.
        writes: the recorded writes; they tell an index from a key of digits.

    Raises:
        OverrideError: the patch is malformed.

    Example:
        >>> describe([{"op": "replace", "path": "/report/total", "value": 1200}])
        'replace report.total = 1200'
    """
    return "; ".join(_describe_op(op, writes) for op in operations(patch))


# -- walking to a location ----------------------------------------------------


def _resolve(writes: dict[str, Any], location: Location, *, may_be_new: bool = False) -> list[Part]:
    """Walk to a location that exists (or whose last part may be added).

    Containers on the way are replaced by copies, so that an edit does not show where
    the same object is also held by another key.
    """
    container: Any = writes
    resolved: list[Part] = []
    for depth, written in enumerate(location.parts):
        if depth:
            inner = _open(container[resolved[-1]], location, resolved)
            container[resolved[-1]] = inner
            container = inner
        new = may_be_new and 0 < depth == len(location.parts) - 1
        resolved.append(_element(container, written, location, resolved, may_be_new=new))
    return resolved


def _open(container: Any, location: Location, at: list[Part]) -> Any:
    """A copy of a container that a patch may lead through."""
    if type(container) is list or (
        type(container) is dict and all(isinstance(key, str) for key in container)
    ):
        return copy.copy(container)
    cls = type(container)
    shown = "dict with keys that are no str" if cls is dict else f"{cls.__module__}.{cls.__name__}"
    raise OverrideError(
        f"patch cannot reach {location.text!r}: {render(at)} is a "
        f"{shown.removeprefix('builtins.')}, and a patch leads through str-keyed dicts and "
        f"lists only. Replace the whole value with output={{{at[0]!r}: ...}}.",
        location=location.text,
        type_name=shown.removeprefix("builtins."),
    )


def _element(
    container: Any, written: Part, location: Location, at: list[Part], *, may_be_new: bool
) -> Part:
    if isinstance(container, list):
        return _list_index(container, written, location, at, may_be_new=may_be_new)
    if isinstance(written, str) and (written in container or may_be_new):
        return written
    key = repr(written)
    where = f"{render(at)} has no key {key}" if at else f"the step did not write {key}"
    raise OverrideError(
        f"patch cannot find {location.text!r}: {where}, and a patch addresses what was "
        f"recorded. {did_you_mean(str(written), container)}",
        location=location.text,
        known=list(container),
    )


def _list_index(
    items: list[Any], written: Part, location: Location, at: list[Part], *, may_be_new: bool
) -> Part:
    size = len(items)
    if location.is_pointer and isinstance(written, str):
        if written == "-" and may_be_new:
            return size
        written = int(written) if INDEX.fullmatch(written) else written
    if isinstance(written, int) and written < size + may_be_new:
        return written
    last = size if may_be_new else size - 1
    raise OverrideError(
        f"patch cannot find {location.text!r}: {render(at)} is a list of {size} "
        f"and {written!r} is no index of it. "
        + (f"Use an index from 0 to {last}." if last >= 0 else "Add an item first."),
        location=location.text,
        size=size,
    )


# -- applying -----------------------------------------------------------------


def _add_or_replace(writes: dict[str, Any], op: Op) -> None:
    at = _resolve(writes, op.path, may_be_new=op.name == "add")
    _run(writes, op.name, at, value=copy.deepcopy(op.value))


def _remove(writes: dict[str, Any], op: Op) -> None:
    at = _resolve(writes, op.path)
    _keep_written_key(op.path)
    _run(writes, "remove", at)


def _move(writes: dict[str, Any], op: Op) -> None:
    """Remove, then add: the target is a place in what the removal leaves."""
    at = _resolve(writes, op.source)
    if op.path.parts == op.source.parts:
        return
    _keep_written_key(op.source)
    if op.path.parts[: len(op.source.parts)] == op.source.parts:
        raise OverrideError(
            f"patch cannot move {op.source.text!r} to {op.path.text!r}: the target is inside "
            "what is moved. Copy it instead.",
            location=op.path.text,
        )
    value = get(writes, at)
    _run(writes, "remove", at)
    _run(writes, "add", _resolve(writes, op.path, may_be_new=True), value=value)


def _copy(writes: dict[str, Any], op: Op) -> None:
    source = _resolve(writes, op.source)
    target = _resolve(writes, op.path, may_be_new=True)
    _run(writes, "copy", target, **{"from": _pointer(source)})


def _test(writes: dict[str, Any], op: Op) -> None:
    found = get(writes, _resolve(writes, op.path))
    try:
        equal = _equal(found, op.value)
    except (TypeError, ValueError):  # arrays and frames have no one truth
        equal = False
    if not equal:
        raise OverrideError(
            f"patch test failed: {op.path.text!r} is {_short(found)}, not {_short(op.value)}. "
            "Fork the run that the patch was written for, or correct the test.",
            location=op.path.text,
        )


_APPLY = {
    "add": _add_or_replace,
    "replace": _add_or_replace,
    "remove": _remove,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _run(writes: dict[str, Any], name: str, at: Sequence[Part], **members: Any) -> None:
    op: Any = {"op": name, "path": _pointer(at), **members}
    jsonpatch.apply_patch(writes, [op], in_place=True)


def _pointer(parts: Sequence[Part]) -> str:
    return JsonPointer.from_parts(parts).path


def _keep_written_key(location: Location) -> None:
    if len(location.parts) > 1:
        return
    raise OverrideError(
        f"patch cannot take {location.text!r} away: a write cannot be unwritten, the step did "
        "write this key. Replace its value, for example with null.",
        location=location.text,
    )


def _equal(found: Any, expected: Any) -> bool:
    """Equality of RFC 6902: numbers by value, but a boolean is no number."""
    if isinstance(found, bool) or isinstance(expected, bool):
        return found is expected
    if type(found) is dict and type(expected) is dict:
        same_keys = found.keys() == expected.keys()
        return same_keys and all(_equal(found[key], expected[key]) for key in found)
    if type(found) is list and type(expected) is list:
        return len(found) == len(expected) and all(map(_equal, found, expected))
    return bool(found == expected)


# -- describing ---------------------------------------------------------------


def _describe_op(op: Op, writes: dict[str, Any] | None) -> str:
    where = _label(op.path, writes)
    if op.name in ("move", "copy"):
        return f"{op.name} {_label(op.source, writes)} to {where}"
    return f"remove {where}" if op.name == "remove" else f"{op.name} {where} = {_short(op.value)}"


def _label(location: Location, writes: dict[str, Any] | None) -> str:
    """The location as a path; without the container, digits are taken for an index."""
    label, container = "", MISSING if writes is None else writes
    for written in location.parts:
        part = written
        if location.is_pointer and not isinstance(container, dict):
            if written == "-":
                return f"{label}[-]"
            part = int(written) if INDEX.fullmatch(str(written)) else written
        label, container = join(label, part), get(container, [part])
    return label


def _short(value: Any) -> str:
    """A value on one line of bounded length, without addresses in memory."""
    text = " ".join(re.sub(r" at 0x[0-9a-fA-F]+", "", _REPR.repr(value)).split())
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 3]}..."


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = MAX_SHOWN
