"""`Aside`: what takes long to find out, found out in a thread while a widget is there already."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

__all__ = ["Aside"]


class Aside:
    """Values that are found out once, each in a thread.

    Args:
        changed: is called when one is there that was not waited for.

    Example:
        >>> aside = Aside(lambda: None)
        >>> aside.value("sum", lambda: 1 + 1, patience=5)
        2
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._found: dict[Any, Future[Any]] = {}

    def value(self, key: Any, find: Callable[[], Any], patience: float | None) -> Any:
        """The value of *key*; None where it is not there after *patience* seconds.

        Raises:
            Exception: what *find* raised.
        """
        future = self._found.get(key)
        if future is None:
            future = self._found[key] = Future()
            threading.Thread(
                target=self._find, args=(future, find), name="rewind-aside", daemon=True
            ).start()
        if not wait([future], patience).done:
            future.add_done_callback(lambda _: self._changed())
            return None
        return future.result()

    @staticmethod
    def _find(future: Future[Any], find: Callable[[], Any]) -> None:
        try:
            future.set_result(find())
        except BaseException as error:  # noqa: BLE001  (raised again where it is asked for)
            future.set_exception(error)

    def forget(self) -> None:
        """Find everything out anew."""
        self._found.clear()
