"""The object that a tool was called on, where the tool is a method."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from rewind_nb import _codec
from rewind_nb.errors import NotEncodableError


def object_of(function: Callable[..., Any], bound: inspect.BoundArguments) -> str | None:
    """The parameter that got the object a method was called on, whatever it is called.

    That is the first one, where its value is an instance (or a subclass) of the class that the
    function was defined in, and the function is no static method of it.
    """
    scope = function.__qualname__.rpartition(".")[0]
    first = next(iter(bound.arguments), None)
    if first is None or not scope or scope.endswith("<locals>"):
        return None
    given = bound.arguments[first]
    cls = given if isinstance(given, type) else type(given)
    for base in cls.__mro__:
        if (base.__module__, base.__qualname__) == (function.__module__, scope):
            held = vars(base).get(function.__name__)
            return None if isinstance(held, staticmethod) else first
    return None


def attributes_of(owner: Any) -> str | None:
    """A hash of a method's object, None where its attributes cannot be encoded.

    Only the hash is stored: attributes may hold a key.
    """
    cls = owner if isinstance(owner, type) else type(owner)
    try:
        attributes = {} if isinstance(owner, type) else dict(vars(owner))
        encoded = _codec.encode([cls.__module__, cls.__qualname__, attributes])
    except (TypeError, NotEncodableError):
        return None
    return _codec.digest(encoded)
