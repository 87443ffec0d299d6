"""No connection leaves the machine while a replay runs its steps.

An audit hook sees every `socket.connect` of the interpreter. It refuses those made in the
context of a guarded step, or in a thread that was started from one; nobody else's. Audit
hooks cannot be removed, so one is installed at the first replay, and costs a few hundred
nanoseconds per audited event from then on. Python 3.11 raises no audit event for a new
thread, so `Thread.start` is wrapped at the same time to pass the mark on.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from rewind_nb.capture._context import current_step
from rewind_nb.errors import ReplayConnectionError

_guarded: ContextVar[bool] = ContextVar("rewind_guarded", default=False)
_MARK = "_rewind_guarded"
_install = threading.Lock()
_installed: list[bool] = []


@contextlib.contextmanager
def no_connections() -> Iterator[None]:
    """Refuse connections made in this context and in threads started from it."""
    with _install:
        if not _installed:
            sys.addaudithook(_audit)
            threading.Thread.start = _marking(threading.Thread.start)  # type: ignore[method-assign,assignment]
            _installed.append(True)
    token = _guarded.set(True)
    try:
        yield
    finally:
        _guarded.reset(token)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if event != "socket.connect":
        return
    guard = _guard()
    if guard is not None:
        refused = ReplayConnectionError(
            f"A replay tried to connect to {args[1]!r}. A replay makes no live call; this "
            "request was not captured, so it could not be played back. Make it through a "
            "ChatModel or inside a @tool, or fork the run instead of replaying it."
        )
        guard.append(refused)
        raise refused


def _marking(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    @functools.wraps(start)
    def marked(thread: threading.Thread) -> None:
        guard = _guard()
        if guard is not None:
            setattr(thread, _MARK, guard)
        start(thread)

    return marked


def _guard() -> list[Exception] | None:
    """Where a guarded step notes what it was refused; None for everybody else."""
    if _guarded.get():
        step = current_step()
        return [] if step is None else step.misses
    return getattr(threading.current_thread(), _MARK, None)
