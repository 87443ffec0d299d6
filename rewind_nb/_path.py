r"""One way to write where a value is: ``report.groups.A.total``, ``items[3].name``.

A path is a sequence of parts: a ``str`` part is a key (or a field), an ``int`` part
an index. A key that is a plain word (letters, digits, ``_`` and ``-``) is written
with a dot, every other key as a JSON string in brackets, so each path reads back to
exactly the parts it was made of::

    report.total        ("report", "total")
    items[3].name       ("items", 3, "name")
    report["a.b"]       ("report", "a.b")
    @calls[0].request   (Root("@calls"), 0, "request")

``@result``, ``@inputs`` and ``@calls`` are roots beside the state. A state key that
happens to be called ``@result`` is written ``["@result"]`` and stays a key.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final

from rewind_nb.errors import ConfigError

__all__ = ["MISSING", "Missing", "Part", "Root", "bracket", "get", "join", "parse", "render"]


class Missing(Enum):
    """The type of `MISSING`; an enum, so that the one member survives copy and pickle."""

    MISSING = "<missing>"

    def __repr__(self) -> str:
        return self.value

    __str__ = __repr__

    def __bool__(self) -> bool:
        return False


MISSING: Final = Missing.MISSING


class Root(str):
    """The first part of a path that starts beside the state, such as ``@result``."""

    __slots__ = ()


Part = str | int

_WORD = re.compile(r"[\w-]+")
_TOKEN = re.compile(
    r"(?P<dot>\.?)(?P<word>[\w-]+)"
    r"|(?P<root>@\w+)"
    r"|\[(?P<index>0|[1-9][0-9]*)\]"
    r'|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]'
)


def join(parent: str, key: str | int) -> str:
    """Extend a path by one key or index.

    Args:
        parent: a path, ``""`` for the state itself.
        key: a dict key or field name, or a list index from 0.

    Raises:
        ConfigError: the index is negative.

    Example:
        >>> join("report", "groups"), join("items", 3), join("report", "a.b")
        ('report.groups', 'items[3]', 'report["a.b"]')
    """
    if isinstance(key, int):
        return f"{parent}[{_index(key)}]"
    if isinstance(key, Root) and not parent:
        return str(key)
    if _WORD.fullmatch(key):
        return f"{parent}.{key}" if parent else key
    return bracket(parent, key)


def is_within(path: str, outer: str) -> bool:
    """Whether a path is another one, or leads into what that leads to.

    Example:
        >>> is_within("report.total", "report"), is_within("reports", "report")
        (True, False)
    """
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))


def bracket(parent: str, key: str) -> str:
    """Extend a path by a key in brackets, also where a dot would do.

    Example:
        >>> bracket("report", "total")
        'report["total"]'
    """
    return f"{parent}[{json.dumps(key, ensure_ascii=not key.isprintable())}]"


def render(parts: Iterable[Part]) -> str:
    """Write parts as a path; the inverse of `parse`.

    Raises:
        ConfigError: an index is negative.

    Example:
        >>> render(["items", 3, "name"])
        'items[3].name'
    """
    path = ""
    for part in parts:
        path = join(path, part)
    return path


def parse(path: str) -> tuple[Part, ...]:
    """Split a path into its parts; the inverse of `render`.

    Raises:
        ConfigError: the text is not a path (attributes `path` and `position`, the
            0-based character where reading stopped).

    Example:
        >>> parse('items[3]["a.b"].name')
        ('items', 3, 'a.b', 'name')
        >>> parse("items[x]")
        Traceback (most recent call last):
            ...
        rewind_nb.errors.ConfigError: 'items[x]' is not a path: ...
    """
    parts: list[Part] = []
    position = 0
    while position < len(path):
        token = _TOKEN.match(path, position)
        if token is None or not _may_follow(token, position):
            raise _not_a_path(path, position)
        parts.append(_part(token, path))
        position = token.end()
    return tuple(parts)


def get(value: Any, path: str | Iterable[Part]) -> Any:
    """The value at a path inside dicts, lists and tuples, or `MISSING`.

    Args:
        value: where to start.
        path: a path, or its parts.

    Raises:
        ConfigError: the text is not a path.

    Example:
        >>> get({"items": [{"name": "a"}]}, "items[0].name")
        'a'
        >>> get({"items": []}, "items[0].name")
        <missing>
    """
    for part in parse(path) if isinstance(path, str) else path:
        value = _child(value, part)
        if value is MISSING:
            return MISSING
    return value


def _child(value: Any, part: Part) -> Any:
    if isinstance(value, dict):
        return value.get(part, MISSING) if isinstance(part, str) else MISSING
    if isinstance(value, list | tuple) and isinstance(part, int) and 0 <= part < len(value):
        return value[part]
    return MISSING


def _index(index: int) -> int:
    if index < 0:
        raise ConfigError(
            f"index {index} cannot be written in a path: indices count from 0. "
            "Use the position from the front.",
            index=index,
        )
    return int(index)


def _may_follow(token: re.Match[str], position: int) -> bool:
    """A word needs its dot exactly where something stands before it."""
    if token["word"] is not None:
        return bool(token["dot"]) == (position > 0)
    return token["root"] is None or position == 0


def _part(token: re.Match[str], path: str) -> Part:
    if token["index"] is not None:
        return int(token["index"])
    if token["root"] is not None:
        return Root(token["root"])
    if token["word"] is not None:
        return token["word"]
    try:
        key: str = json.loads(token["quoted"])
    except ValueError:
        raise _not_a_path(path, token.start()) from None
    return key


def _not_a_path(path: str, position: int) -> ConfigError:
    return ConfigError(
        f"{path!r} is not a path: cannot read on at character {position} "
        f"({path[position : position + 12]!r}). "
        'Write keys as report.total, indices as items[3], odd keys as report["a.b"].',
        path=path,
        position=position,
    )
