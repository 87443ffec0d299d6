"""Which classes stored objects may be restored to.

A stored object names its class as ``module:qualname``. The name is looked up, never
imported: first as an attribute of a module that is loaded already (the newest
definition in a notebook), then among the classes that were given to `know` or encoded in
this process. What is found counts only if it carries exactly that name, is of the stored
kind, and has exactly the stored fields.

A function that defines a class makes another one each time it is called, and all have one
name. It stands for the first of them as long as that one is in use; the others are refused,
for their objects would come back as those of another class.
"""

from __future__ import annotations

import dataclasses
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from enum import EnumMeta
from types import BuiltinFunctionType, ModuleType
from typing import Any, Final

from rewind_nb._codec._walk import listed, text
from rewind_nb.errors import ConfigError, UnknownTypeError

_HEAP_TYPE: Final = 1 << 9  # Py_TPFLAGS_HEAPTYPE: defined by a class statement

_classes: dict[str, type | weakref.ref[type]] = {}
_lock = threading.Lock()


def know(*types: type) -> None:
    """Allow classes for restoring: dataclasses, pydantic models and enums.

    Raises:
        ConfigError: an argument is not such a class, or its name stands for another one.

    Example:
        >>> from enum import Enum
        >>> know(Enum("Color", "RED GREEN"))
    """
    for kind in types:
        if not isinstance(kind, type) or kind_of(kind) is None:
            raise ConfigError(
                f"{kind!r} cannot be restored from a store, only dataclasses, pydantic models and "
                "enums are. For any other type call rewind_nb.register(type, encode, decode).",
                type=kind,
            )
        if remember(kind) is None:
            raise ConfigError(
                f"{class_name(kind)!r} cannot be restored from a store, for {SHARED_NAME}. {SHARE}",
                type=kind,
            )


SHARED_NAME: Final = "another class of that name is in use, and a stored value only has the name"
SHARE: Final = "Define the class once, outside of the function that makes it."


def remember(kind: type) -> str | None:
    """Note a class that is being encoded; its name, None where that stands for another one."""
    name = class_name(kind)
    if _classes.get(name) is kind:
        return name
    with _lock:
        if _class(name) not in (None, kind) and not _is_in_module(name) and not _let_go(name):
            return None
        _classes[name] = kind
    return name


def _class(name: str) -> type | None:
    noted = _classes.get(name)
    return noted() if isinstance(noted, weakref.ref) else noted


def _is_in_module(name: str) -> bool:
    found = _in_module(name)
    return isinstance(found, type) and class_name(found) == name


def _let_go(name: str) -> bool:
    """Whether nobody but this module holds the class of this name any more."""
    kind = _class(name)
    if kind is not None:
        _classes[name] = weakref.ref(kind)
        del kind
        gc.collect()  # a class is in a circle with itself
    kind = _class(name)
    if kind is None:
        return True
    _classes[name] = kind
    return False


def class_name(kind: type) -> str:
    """``module:qualname``; a generic pydantic class names its arguments in full."""
    generic = getattr(kind, "__pydantic_generic_metadata__", None)
    if not generic or not generic["args"]:
        return f"{kind.__module__}:{kind.__qualname__}"
    arguments = (class_name(a) if isinstance(a, type) else repr(a) for a in generic["args"])
    return f"{class_name(generic['origin'])}[{', '.join(arguments)}]"


def kind_of(kind: type) -> str | None:
    """The tag of the instances of a user class, or None."""
    return next((tag for tag, fits in _FITS.items() if fits(kind)), None)


def field_names(kind: Any) -> list[str]:
    """The declared fields of a dataclass or pydantic model."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    return list(kind.model_fields)


def find(tag: str, name: Any) -> Any:
    """The class of this name and kind.

    Raises:
        UnknownTypeError: it is not in this process.
        TypeError: the name is not a string.
    """
    for kind in (_in_module(text(name)), _class(name)):
        if isinstance(kind, type) and _FITS[tag](kind) and class_name(kind) == name:
            return kind
    raise _not_loaded(tag, name)


def find_with_fields(tag: str, name: Any, stored: Any) -> Any:
    """The class of a stored object, if it has exactly the stored fields.

    Raises:
        UnknownTypeError: it is not in this process, or its fields differ.
        TypeError: the names are not strings.
    """
    kind = find(tag, name)
    names = field_names(kind)
    missing = [field for field in map(text, listed(stored)) if field not in names]
    added = [field for field in names if field not in stored]
    if missing or added:
        raise UnknownTypeError(
            f"the class {name!r} changed since a value of it was stored: it has the new fields "
            f"{added} and no longer {missing}. Restore the old definition to read this value, "
            "or record the run again.",
            class_name=name,
            missing=missing,
            added=added,
        )
    return kind


def _in_module(name: str) -> Any:
    """An attribute of a loaded module, read past every hook that could import."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module)
    if not issubclass(type(found), ModuleType):
        return None
    members = object.__getattribute__(found, "__dict__")
    for part in path.split("."):
        found = members.get(part)
        members = type.__getattribute__(found, "__dict__") if isinstance(found, type) else {}
    return found


def _not_loaded(tag: str, name: str) -> UnknownTypeError:
    module, _, path = name.partition(":")
    short = path.partition("[")[0].rpartition(".")[2]
    return UnknownTypeError(
        f"the {tag} class {name!r} of a stored value is not loaded, and a name found in a store "
        f"is never imported. Import {module!r} first, or pass types=[{short}] to Rewind.",
        class_name=name,
        module=module,
    )


def _is_enum(kind: type) -> bool:
    return isinstance(kind, EnumMeta)


def _is_model(kind: type) -> bool:
    base = getattr(sys.modules.get("pydantic.main"), "BaseModel", None)
    return base is not None and issubclass(kind, base) and hasattr(kind, "model_fields")


def _is_dataclass(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) and _builtin_base(kind) is object


def _builtin_base(kind: type) -> type:
    """The nearest base that is written in C: any but `object` holds hidden content."""
    for base in kind.__mro__:
        new = vars(base).get("__new__")
        own_new = isinstance(new, BuiltinFunctionType) and new.__self__ is base
        if own_new or not base.__flags__ & _HEAP_TYPE:
            return base
    return object


_FITS: dict[str, Callable[[type], bool]] = {
    "enum": _is_enum,
    "pydantic": _is_model,
    "dataclass": _is_dataclass,
}
