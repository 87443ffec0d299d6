"""Who reads: from the frames above a read, the function as it was called and its caller.

The caller is the nearest frame outside of the modules that only pass a read on (`random`,
`uuid`, ...); it goes by its top-level package. What the machinery around a step reads (the
HTTP stack, logging, event loops, notebooks, what protects a connection) is nobody's: it
differs from run to run, and some of it must be fresh.
"""

from __future__ import annotations

from enum import Enum
from pathlib import PurePath
from types import FrameType
from typing import Any

from rewind_nb.capture.ambient._called import clock_function


class Role(Enum):
    """What a module is to a read, where it is not a caller to be named."""

    PASSES_ON = "reads for whoever called it"
    REAL = "is never recorded"
    HIDES = "is never recorded, nor is what it calls"
    OURS = "is never recorded; a step begins below it"


PASSES_ON, REAL, HIDES, OURS = Role  # an attribute of an Enum is slow, and this is asked often

_PASS_ON = ("random", "secrets", "statistics", "time_machine", "uuid")
_HIDE = ("importlib", "logging", "loguru", "structlog")  # importing happens once a process
_HTTP = (
    "anyio", "certifi", "h11", "h2", "hpack", "http", "httpcore", "httpcore2", "httpx", "httpx2",
    "requests", "sniffio", "socket", "ssl", "truststore", "urllib3", "websockets",
)  # fmt: skip
_MACHINERY = (
    "_pytest", "asyncio", "concurrent", "coverage", "debugpy", "ipykernel", "IPython",
    "jupyter_client", "multiprocessing", "pluggy", "pydevd", "pytest", "queue", "rich",
    "selectors", "sqlalchemy", "sqlite3", "subprocess", "tempfile", "threading", "tornado",
    "tqdm", "traitlets", "xdist", "zmq",
)  # fmt: skip
_BURR = tuple(
    f"burr.{part}"  # its ids are new in every run; what it ships as examples is a user's code
    for part in ("common", "core", "integrations", "lifecycle", "telemetry", "tracking")
)
_TRACING = ("ddtrace", "langfuse", "langsmith", "logfire", "opentelemetry", "sentry_sdk")
_PROTECTS = (
    "authlib", "azure.core", "azure.identity", "botocore", "Crypto", "cryptography", "google.auth",
    "google.oauth2", "jose", "jwt", "msal", "nacl", "oauthlib", "OpenSSL", "paramiko",
)  # fmt: skip

_ROLES: dict[str, Role] = {
    **dict.fromkeys(_PASS_ON, PASSES_ON),
    **dict.fromkeys(_HIDE, HIDES),
    **dict.fromkeys((*_HTTP, *_MACHINERY, *_BURR, *_TRACING, *_PROTECTS), REAL),
    "rewind_nb": OURS,
}
_USERS = ("rewind_nb.demo",)  # ours, and written like a user's
_LOOK_UP = 8  # frames, from a formatter up to the log line that it writes

_known: dict[Any, Role | str] = {}  # module name -> its role, or the caller it stands for


def who(frame: FrameType, function: str | None) -> tuple[str, str] | None:
    """The function and the caller of a read; None where it is not to be recorded.

    Args:
        frame: the one that reads.
        function: what it called; None where only the frame can tell.
    """
    reads, passed, known = frame, None, _known
    role = known.get(reads.f_globals.get("__name__")) or _role(reads)
    while role is PASSES_ON:
        passed, above = reads, reads.f_back
        if above is None:
            return None
        reads = above
        role = known.get(reads.f_globals.get("__name__")) or _role(reads)
    if role.__class__ is not str:
        return None
    above, left = reads.f_back, _LOOK_UP
    while above is not None and left:
        outer = known.get(above.f_globals.get("__name__")) or _role(above)
        if outer is OURS:
            break
        if outer is HIDES:
            return None
        above, left = above.f_back, left - 1
    if passed is not None:
        return _name_of(passed), role
    return function or clock_function(reads), role


def _role(frame: FrameType) -> Role | str:
    name = frame.f_globals.get("__name__")
    role = _known[name] = _role_of(name) or _caller(name, frame.f_globals)
    return role


def _role_of(module: object) -> Role | None:
    """The role of a module, from the longest prefix of its name that has one."""
    parts = str(module).split(".")
    if ".".join(parts[:2]) in _USERS:
        return None
    prefixes = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((_ROLES[prefix] for prefix in prefixes if prefix in _ROLES), None)


def _caller(module: object, namespace: dict[str, Any]) -> str:
    """A top-level package; a script is what it is when it is imported, its file's name."""
    if module in ("__main__", "__mp_main__"):
        spec, file = namespace.get("__spec__"), namespace.get("__file__")
        if spec is not None:
            module = spec.name
        elif isinstance(file, str):
            module = PurePath(file).stem
    return str(module).split(".")[0]


def _name_of(passed: FrameType) -> str:
    """The function of `random` and its like that the caller called."""
    module = str(passed.f_globals.get("__name__"))
    return f"{module}.{passed.f_code.co_qualname.removeprefix('Random.')}"
