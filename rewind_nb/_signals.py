"""Putting a signal off while what was done is written down."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from typing import Any

from rewind_nb._scope import scope

# Those whose handlers are known to raise: Stop in a notebook, a supervisor, a time limit.
RAISING = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM") if hasattr(signal, name)
]


@scope
def put_off() -> Generator[None, None, None]:
    """Handle signals after the block, so that none leaves it half done.

    Masking them would not do: another thread would take the signal, and Python would still
    handle it in the main thread at once. Nothing in the block may wait for long.
    """
    if threading.current_thread() is not threading.main_thread():  # where none is handled
        yield
        return
    came: list[tuple[int, Any]] = []
    handlers: dict[int, Any] = {}
    try:
        for number in RAISING:
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
                signal.signal(number, lambda number, frame: came.append((number, frame)))
        yield
    finally:
        for number in reversed(handlers):  # the interrupt last: until then nothing gets in
            signal.signal(number, handlers[number])
        for number, frame in came:
            handlers[number](number, frame)
