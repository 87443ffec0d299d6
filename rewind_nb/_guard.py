"""No connection leaves the machine while a replay runs its steps.

An audit hook sees every `socket.connect` of the interpreter. It refuses those made in the
context of a guarded step, or in a thread that was started from one; nobody else's. Audit
hooks cannot be removed, so one is installed at the first replay, and costs a few hundred
nanoseconds per audited event from then on.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

from rewind_nb.errors import CacheMissError

_guarded: ContextVar[bool] = ContextVar("rewind_guarded", default=False)
_MARK = "_rewind_guarded"
_installed = threading.Lock()
_state = {"installed": False}


@contextlib.contextmanager
def no_connections() -> Iterator[None]:
    """Refuse connections made in this context and in threads started from it."""
    with _installed:
        if not _state["installed"]:
            sys.addaudithook(_audit)
            _state["installed"] = True
    token = _guarded.set(True)
    try:
        yield
    finally:
        _guarded.reset(token)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if event == "socket.connect":
        if _guarded.get() or getattr(threading.current_thread(), _MARK, False):
            raise CacheMissError(
                f"A replay tried to connect to {args[1]!r}. A replay makes no live call; this "
                "request was not captured, so it could not be played back. Make it through "
                "httpx or inside a @tool, or fork the run instead of replaying it."
            )
    elif event == "_thread.start_new_thread" and (
        _guarded.get() or getattr(threading.current_thread(), _MARK, False)
    ):
        thread = getattr(args[0], "__self__", None)
        if isinstance(thread, threading.Thread):
            setattr(thread, _MARK, True)
