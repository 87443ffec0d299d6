"""Where in a value an encoder stands, and how it refuses what stands there.

A `Trail` is the chain of containers down to a value. It costs one tuple per child and
is turned into a path (`messages[3].image`) only when something is refused; it also
tells a cycle from mere depth. A place that cannot be written down, such as a key that
is no string or a member of a set, is ``[...]`` in a path.
"""

from __future__ import annotations

from functools import partial
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any, Final, NoReturn

from rewind_nb._path import join
from rewind_nb.errors import NotEncodableError

Trail = tuple[Any, Any, Any, int]  # the owner's trail, the key in it, the owner, depth

MAX_DEPTH: Final = 200
BIG: Final = 1 << 2048  # beyond: hex; no str-digits limit of an interpreter can be lower
SAME: Final = object()  # the key of a child that stands at its owner's own path
FUNCTIONS: Final = (FunctionType, BuiltinFunctionType, MethodType, partial)
_COMPUTED: Final = (
    "Keep what it returns. In an override, pass the function as the whole of it, and it is given "
    "what was recorded: output=lambda recorded: {...}."
)


def start(path: str) -> Trail:
    """The trail of a root value."""
    return (None, path, None, 0)


def below(at: Trail, owner: Any, key: Any) -> Trail:
    """The trail of a child; the key ``...`` stands for a place that has no address."""
    return (at, key, owner, at[3] + 1)


def refusal(value: Any, at: Trail, reason: str, action: str = "") -> NotEncodableError:
    """The error for a value that stands at `at`; it never quotes the value."""
    name, path = type_name(type(value)), path_of(at)
    action = action or (
        f"Keep plain data there, or call rewind_nb.register({type(value).__name__}, "
        "encode, decode) first."
    )
    return NotEncodableError(
        f"{path}: {name} cannot be stored and restored exactly: {reason}. {action}",
        path=path,
        type_name=name,
    )


def type_name(kind: type) -> str:
    """``module.qualname``, without ``builtins``."""
    name = kind.__qualname__
    return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"


def path_of(at: Trail) -> str:
    """The path of a trail."""
    keys = []
    while at[0] is not None:
        keys.append(at[1])
        at = at[0]
    path: str = at[1]
    for key in reversed(keys):
        path = _join(path, key)
    return path


def _join(path: str, key: Any) -> str:
    if key is SAME:
        return path
    if type(key) is str:
        return join(path, key if len(key) <= 80 else f"{key[:79]}…")
    if type(key) is int and 0 <= key < BIG:
        return join(path, key)
    if type(key) in {int, float, bool, type(None)} and -BIG < (key or 0) < BIG:
        return f"{path}[{key!r}]"
    return f"{path}[...]"


def unknown(value: Any, at: Trail) -> NotEncodableError:
    """The error for a value whose type has no encoding."""
    kind = type(value)
    if own := getattr(kind, "__rewind_refuse__", None):
        reason = own if isinstance(own, str) else "its class forbids it"
        return refusal(value, at, reason, "Keep it out of the values that are recorded.")
    if isinstance(value, FUNCTIONS):
        return refusal(value, at, "a function is code and not data", _COMPUTED)
    bases = (dict, list, tuple, str, int, float, bytes, set, frozenset)
    base = next((base for base in bases if issubclass(kind, base)), None)
    if base is None:
        return refusal(value, at, "its type has no encoding")
    return refusal(value, at, f"it is a {base.__name__} subclass, not a plain {base.__name__}")


def refuse_depth(value: Any, at: Trail) -> NoReturn:
    """Tell a cycle, an owner met twice on the way down, from mere depth.

    Raises:
        NotEncodableError: always.
    """
    trails = [at]
    while trails[-1][0] is not None:
        trails.append(trails[-1][0])
    met: dict[int, Trail] = {}
    owners = [*(trail[2] for trail in trails[-2::-1]), value]
    for here, owner in zip(reversed(trails), owners, strict=True):
        if owner is not None and id(owner) in met:
            first = path_of(met[id(owner)])
            raise refusal(owner, here, f"it is {first} again, a cycle", "Break the cycle.")
        met[id(owner)] = here
    raise refusal(value, at, f"it is nested deeper than {MAX_DEPTH} levels", "Flatten it.")
