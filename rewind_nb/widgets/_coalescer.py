"""Updates of widgets, gathered: each at most 15 times a second, and the last one always.

A kernel drops messages beyond a rate and says so nowhere, and a view that missed the last one
stays wrong. So what changed is only noted here; one thread then lets each widget send what is
so by then. It takes no more than a part of the time, however long that takes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

__all__ = ["COALESCER", "Coalescer"]

INTERVAL = 1 / 15  # seconds between two updates of a widget, at least
SHARE = 0.2  # of the time may go into sending
IDLE = 2.0  # seconds without work after which the thread ends


class Coalescer:
    """Calls what it is given, later, once for all that was asked for meanwhile.

    Example:
        >>> coalescer, sent = Coalescer(interval=0), []
        >>> for number in range(1000):
        ...     coalescer.want("widget", lambda: sent.append(number))
        >>> coalescer.settle(), sent[-1], len(sent) <= 1000
        (True, 999, True)
    """

    def __init__(self, interval: float = INTERVAL) -> None:
        self.interval = interval
        self._wanted: dict[Any, Callable[[], None]] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._sending = False

    def want(self, key: Any, send: Callable[[], None]) -> None:
        """Call *send* soon, in another thread; a later one with the same key takes its place."""
        with self._changed:
            self._wanted[key] = send
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="rewind-views", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def forget(self, key: Any) -> None:
        """Drop what a key waits for."""
        with self._changed:
            self._wanted.pop(key, None)

    def settle(self, timeout: float = 10.0) -> bool:
        """Wait until nothing is left to send; False where that took longer than *timeout* s."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._wanted and not self._sending, timeout)

    def _work(self) -> None:
        while self._due():
            began = time.perf_counter()
            while send := self._next():
                send()
            took = time.perf_counter() - began
            with self._changed:
                self._sending = False
                self._changed.notify_all()
            time.sleep(max(self.interval, took * (1 / SHARE - 1)))

    def _due(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: bool(self._wanted), IDLE)
            self._sending = bool(self._wanted)
            if not self._wanted:
                self._thread = None
            self._round = list(self._wanted)
            return self._sending

    def _next(self) -> Callable[[], None] | None:
        """What is next in this round, as it is asked for by now."""
        with self._changed:
            while self._round:
                send = self._wanted.pop(self._round.pop(), None)
                if send is not None:
                    return send
        return None


COALESCER = Coalescer()
"""The one all widgets of a process share."""
