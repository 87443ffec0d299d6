"""No byte leaves the machine through Python's sockets while a replay runs its steps.

Refused are connections, name look-ups and datagrams (an audit hook sees them), and sends
on a connection that is open already (a kept-alive client). Refused are those made in the
context of a guarded step, in a thread it started, and in work it handed to a thread pool;
nobody else's. Sockets between processes of this machine (`AF_UNIX`, which event loops use
to wake themselves) are let through, and code that is not Python is not seen.

Audit hooks cannot be removed. So everything is installed at the first replay, and costs a
look at a context variable per send from then on.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

from rewind_nb.capture._context import GUARD_MARK, current_step, refused_in_thread
from rewind_nb.errors import ReplayConnectionError

_guarded: ContextVar[bool] = ContextVar("rewind_guarded", default=False)
_install = threading.Lock()
_installed: list[bool] = []
_AUDITED = {
    "socket.connect": 1,  # event -> which argument says where to
    "socket.sendto": 1,
    "socket.sendmsg": 1,
    "socket.getaddrinfo": 0,
    "socket.gethostbyname": 0,
}
_SENDS = (
    (socket.socket, "send"),
    (socket.socket, "sendall"),
    (ssl.SSLSocket, "write"),
    (ssl.SSLSocket, "send"),
    (ssl.SSLSocket, "sendall"),
)


@contextlib.contextmanager
def no_connections() -> Iterator[None]:
    """Refuse what would leave the machine from this context."""
    with _install:
        if not _installed:
            sys.addaudithook(_audit)
            for owner, name in _SENDS:
                setattr(owner, name, _refusing(getattr(owner, name)))
            threading.Thread.start = _marking(threading.Thread.start)  # type: ignore[method-assign,assignment]
            ThreadPoolExecutor.submit = _passing_on(ThreadPoolExecutor.submit)  # type: ignore[method-assign]
            _installed.append(True)
    token = _guarded.set(True)
    try:
        yield
    finally:
        _guarded.reset(token)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if event in _AUDITED:
        guard = _guard()
        if guard is not None and not _is_local(args[0]):
            _refuse(guard, f"reach {args[_AUDITED[event]]!r}")


def _refusing(send: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(send)
    def guarded(sock: socket.socket, *args: Any, **kwargs: Any) -> Any:
        guard = _guard()
        if guard is not None and not _is_local(sock):
            _refuse(guard, "send on a connection that was open already")
        return send(sock, *args, **kwargs)

    return guarded


def _marking(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    """Python 3.11 raises no audit event for a new thread: pass the mark on ourselves."""

    @functools.wraps(start)
    def marked(thread: threading.Thread) -> None:
        guard = _guard()
        if guard is not None:
            setattr(thread, GUARD_MARK, guard)
        start(thread)

    return marked


def _passing_on(submit: Callable[..., Any]) -> Callable[..., Any]:
    """Work handed to a pool whose threads are older runs in the context of the step."""

    @functools.wraps(submit)
    def handed(pool: ThreadPoolExecutor, fn: Callable[..., Any], /, *args: Any, **kw: Any) -> Any:
        if _guard() is None:
            return submit(pool, fn, *args, **kw)
        return submit(pool, contextvars.copy_context().run, fn, *args, **kw)

    return handed


def _is_local(sock: object) -> bool:
    return isinstance(sock, socket.socket) and sock.family not in (
        socket.AF_INET,
        socket.AF_INET6,
    )


def _guard() -> list[Exception] | None:
    """Where a guarded step notes what it was refused; None for everybody else."""
    if _guarded.get():
        step = current_step()
        return [] if step is None else step.misses
    return refused_in_thread()


def _refuse(guard: list[Exception], what: str) -> None:
    refused = ReplayConnectionError(
        f"A replay tried to {what}. A replay makes no live call; this request was not "
        "captured, so it could not be played back. Make it through a ChatModel or inside a "
        "@tool, or fork the run instead of replaying it."
    )
    guard.append(refused)
    raise refused
