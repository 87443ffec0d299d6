"""Reading a patch: its two spellings as one list of checked operations.

What can be wrong about a patch itself, without looking at any value, is found here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from rewind_nb._path import Part, parse
from rewind_nb.errors import ConfigError, OverrideError, did_you_mean

__all__ = ["Location", "Op", "Patch", "operations"]

Patch = list[dict[str, Any]] | dict[str, Any]

MEMBERS = {
    "add": ("path", "value"),
    "remove": ("path",),
    "replace": ("path", "value"),
    "move": ("from", "path"),
    "copy": ("from", "path"),
    "test": ("path", "value"),
}
POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Location:
    """A place as written.

    Attributes:
        text: what the patch says.
        parts: keys and indices; of a JSON Pointer all are ``str``, because there only
            the container tells an index from a key of digits.
        is_pointer: whether it is a JSON Pointer.
    """

    text: str
    parts: tuple[Part, ...]
    is_pointer: bool


@dataclass(frozen=True, slots=True)
class Op:
    """One operation; `source` is the ``from`` of a move or copy, else the path itself."""

    name: str
    path: Location
    source: Location
    value: Any = None


def operations(patch: Patch) -> list[Op]:
    """The operations of a patch.

    Raises:
        OverrideError: the patch is malformed.

    Example:
        >>> [(op.name, op.path.parts) for op in operations({"report.total": 5})]
        [('replace', ('report', 'total'))]
    """
    if isinstance(patch, dict | list) and not patch:
        raise OverrideError(
            "patch is empty: it names nothing to change. Name a field, as in "
            'patch={"report.total": 5}, or fork without an override.',
        )
    if isinstance(patch, dict):
        places = map(_by_path, patch)
        return [Op("replace", place, place, patch[place.text]) for place in places]
    if isinstance(patch, list):
        return [_operation(op, f"patch[{n}]") for n, op in enumerate(patch)]
    raise OverrideError(
        f"patch is of type {type(patch).__name__}: it has to be a list of RFC 6902 operations "
        'or a dict of replacements. Write patch={"report.total": 5}.',
    )


def _operation(op: Any, name: str) -> Op:
    if not isinstance(op, dict):
        raise OverrideError(
            f"{name} is of type {type(op).__name__}: an operation is a dict. "
            'Write {"op": "replace", "path": "/report/total", "value": 5}.',
        )
    kind = op.get("op")
    if not isinstance(kind, str) or kind not in MEMBERS:
        raise OverrideError(
            f"{name} has op {kind!r}: RFC 6902 has no such operation. "
            f"{did_you_mean(str(kind), MEMBERS)}",
            known=list(MEMBERS),
        )
    absent = [member for member in MEMBERS[kind] if member not in op]
    if absent:
        raise OverrideError(
            f"{name} ({kind}) has no {absent[0]!r}: RFC 6902 requires it. Add the member.",
            known=list(MEMBERS[kind]),
        )
    path = _by_pointer(op["path"], name)
    source = _by_pointer(op["from"], name) if "from" in MEMBERS[kind] else path
    return Op(kind, path, source, op.get("value"))


def _by_pointer(pointer: Any, name: str) -> Location:
    if not isinstance(pointer, str) or not POINTER.fullmatch(pointer):
        raise OverrideError(
            f"{name} addresses {pointer!r}: that is no JSON Pointer. "
            "Write /report/total, with ~1 for / and ~0 for ~ inside a key.",
            location=pointer,
        )
    parts = (part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
    return _not_the_root(Location(pointer, tuple(parts), is_pointer=True))


def _by_path(path: Any) -> Location:
    if not isinstance(path, str):
        raise OverrideError(
            f"patch addresses {path!r}, of type {type(path).__name__}: a path is a str. Write "
            'keys as report.total, indices as items[3], odd keys as report["a.b"].',
            location=path,
        )
    try:
        return _not_the_root(Location(path, parse(path), is_pointer=False))
    except ConfigError as error:
        raise OverrideError(f"patch addresses {path!r}. {error}", location=path) from error


def _not_the_root(location: Location) -> Location:
    if location.parts:
        return location
    raise OverrideError(
        "patch addresses the root: the writes of a step cannot be replaced as a whole, "
        "because which keys it wrote stays as recorded. Address a key, or use output=.",
        location=location.text,
    )
