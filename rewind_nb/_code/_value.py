"""Looking at a live value without running any of the user's code.

A constant has one text that does not depend on process, hash seed or Python version.
Attributes are read from ``__dict__`` and slots, never with ``getattr``: a property, a
``__getattr__`` or a lazy module would execute. **The user's own** code is what lies
neither in the standard library, nor in site-packages, nor in this package (the demo
excepted); ``__main__``, notebook cells and text that was exec'd are the user's.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import fractions
import hashlib
import json
import os
import pathlib
import re
import sys
import sysconfig
import types
import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

__all__ = [
    "attributes",
    "class_dict",
    "constant",
    "digest",
    "is_own_class",
    "is_own_file",
    "is_own_function",
    "is_own_module",
    "module_dict",
    "qualified_name",
    "type_name",
]

_to_json = json.JSONEncoder(check_circular=False, separators=(",", ":")).encode
_DEEPEST = 60
_PACKAGE = str(pathlib.Path(__file__).resolve().parent.parent)
_DEMO = f"{_PACKAGE}{os.sep}demo{os.sep}"
_FOREIGN = tuple(
    os.path.realpath(path) + os.sep
    for path in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), _PACKAGE)
)


def digest(tokens: Any) -> str:
    """The SHA-256 (hex) of nested lists, strings, numbers and None."""
    return hashlib.sha256(_to_json(tokens).encode("ascii")).hexdigest()


# -- constants -------------------------------------------------------------------------


def constant(value: Any, depth: int = 0) -> str | None:
    """The one text of an immutable constant, or None where the value is not one.

    Example:
        >>> constant(1), constant(True), constant(("a", None))
        ('int:0x1', 'bool:True', "tuple(str:'a',NoneType:None)")
        >>> constant([1]) is None
        True
    """
    kind = type(value)
    if kind in (tuple, frozenset):
        return _collection(kind.__name__, value, depth) if depth < _DEEPEST else None
    if kind not in _TEXT:
        return None
    text = _TEXT[kind](value)
    return None if text is None else f"{kind.__name__}:{text}"


def _collection(name: str, items: Iterable[Any], depth: int) -> str | None:
    texts = [constant(item, depth + 1) for item in items]
    known = [text for text in texts if text is not None]
    if len(known) < len(texts):
        return None
    return f"{name}({','.join(known if name == 'tuple' else sorted(known))})"


def _moment(value: dt.datetime | dt.time) -> str | None:
    """Only with a zone of the standard library: another one would execute."""
    plain = type(value.tzinfo) in (types.NoneType, dt.timezone)
    return f"{value.isoformat()} fold {value.fold}" if plain else None


def _path(value: pathlib.PurePath) -> str | None:
    """An absolute path names a machine, not a meaning: it is no constant."""
    return None if value.is_absolute() else value.as_posix()


def _parts(*names: str) -> Callable[[Any], str | None]:
    return lambda value: constant(tuple(getattr(value, name) for name in names))


_TEXT: Mapping[type, Callable[[Any], str | None]] = {
    **dict.fromkeys((types.NoneType, bool, float, types.EllipsisType), repr),
    **dict.fromkeys((types.NotImplementedType, dt.timedelta), repr),
    **dict.fromkeys((str, bytes), ascii),  # repr() changes with the Unicode tables
    **dict.fromkeys((decimal.Decimal, uuid.UUID, dt.date), str),
    **dict.fromkeys((dt.datetime, dt.time), _moment),
    **dict.fromkeys((range, slice), _parts("start", "stop", "step")),
    **dict.fromkeys((pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path())), _path),
    int: hex,  # str() refuses very long ones
    complex: _parts("real", "imag"),
    fractions.Fraction: _parts("numerator", "denominator"),
    re.Pattern: _parts("pattern", "flags"),
}


# -- static access ---------------------------------------------------------------------


def class_dict(cls: type) -> Mapping[str, Any]:
    """The class's own ``__dict__``, past any metaclass."""
    return type.__dict__["__dict__"].__get__(cls)  # type: ignore[no-any-return]


def module_dict(module: types.ModuleType) -> Mapping[str, Any]:
    """The module's ``__dict__``; a lazily loaded module stays unloaded."""
    return object.__getattribute__(module, "__dict__")  # type: ignore[no-any-return]


def attributes(value: Any) -> dict[str, Any]:
    """What the instance holds in its slots and its ``__dict__``, sorted by name."""
    found: dict[str, Any] = {}
    for cls in reversed(type.__dict__["__mro__"].__get__(type(value))):
        for name, member in class_dict(cls).items():
            if type(member) is types.MemberDescriptorType:
                try:
                    found[name] = member.__get__(value)
                except AttributeError:  # an empty slot
                    continue
    with contextlib.suppress(AttributeError):  # nothing but slots
        found.update(object.__getattribute__(value, "__dict__"))
    return {name: found[name] for name in sorted(found, key=str)}


def type_name(value: Any) -> str:
    """The class of a value, such as ``openai.OpenAI``; builtins have no prefix.

    Example:
        >>> type_name([]), type_name(uuid.uuid4())
        ('list', 'uuid.UUID')
    """
    return qualified_name(type(value))


def qualified_name(thing: Any) -> str:
    """``module.qualname`` of a class, function or builtin."""
    if issubclass(type(thing), type):
        module = type.__dict__["__module__"].__get__(thing)
        name = type.__dict__["__qualname__"].__get__(thing)
    elif type(thing) is types.FunctionType:
        # Its own __qualname__ is overwritten by functools.wraps.
        module, name = thing.__globals__.get("__name__"), thing.__code__.co_qualname
    else:  # one of C: str.upper has a class instead of a module
        module = getattr(thing, "__module__", None)
        name = getattr(thing, "__qualname__", type(thing).__name__)
    return name if module in (None, "builtins") else f"{module}.{name}"


# -- whose code it is ------------------------------------------------------------------


@lru_cache(maxsize=4096)
def is_own_file(path: str) -> bool:
    """Whether a file belongs to the user."""
    real = os.path.realpath(path)
    if real.startswith(_DEMO):
        return True
    foreign = {"site-packages", "dist-packages"} & set(pathlib.PurePath(real).parts)
    return not foreign and not real.startswith(_FOREIGN)


def is_own_module(name: Any) -> bool:
    """Whether a module, by its name, belongs to the user. Nothing is imported."""
    if name == "__main__":
        return True
    module = sys.modules.get(name) if isinstance(name, str) else None
    path = module_dict(module).get("__file__") if isinstance(module, types.ModuleType) else None
    if isinstance(path, str):
        return is_own_file(path)
    return str(name).partition(".")[0] not in sys.stdlib_module_names


def is_own_class(cls: type) -> bool:
    """Whether a class was defined in a module of the user's."""
    return is_own_module(type.__dict__["__module__"].__get__(cls))


def is_own_function(function: types.FunctionType) -> bool:
    """Whether a function was written in a file, cell or text of the user's."""
    path = function.__code__.co_filename
    if path.startswith("<"):  # no file: a cell, a shell, an exec, a frozen module
        return not path.startswith("<frozen") and is_own_module(
            function.__globals__.get("__name__")
        )
    return is_own_file(path)
