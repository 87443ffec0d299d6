"""Hooks: callables that are told what happens, and cannot change it.

A hook takes one frozen `Event`. It may return a context manager, which is entered and left
when the run, step or call ends: enough for a span, a timer or a progress bar. A hook that
raises is noted on the run and never fails it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from rewind_nb._describe import said
from rewind_nb._model import Event
from rewind_nb._secrets import redact

SHOWN = 3  # problems kept of one run: a hook that always raises says nothing new
Hook = Callable[[Event], Any]


class Hooks:
    """The hooks of one run, and what went wrong in them.

    Args:
        around: is entered while a hook is called.
    """

    def __init__(
        self,
        hooks: Sequence[Hook],
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._hooks = list(hooks)
        self.around = around
        self.problems: list[str] = []

    def emit(self, event: Event) -> HookSpan:
        """Tell every hook; what they returned is entered until the span is closed."""
        entered = []
        for hook in self._hooks:
            try:
                with self.around():
                    returned = hook(event)
                    if hasattr(returned, "__enter__") and hasattr(returned, "__exit__"):
                        returned.__enter__()
                        entered.append(returned)
            except Exception as error:  # noqa: BLE001  (a hook never fails a run)
                self.note(event, error)
        return HookSpan(self, event, entered)

    def note(self, event: Event, error: Exception) -> None:
        """Remember that a hook raised."""
        problem = redact(f"a hook raised {type(error).__name__} on {event.name}: {said(error)}")
        if problem not in self.problems and len(self.problems) < SHOWN:
            self.problems.append(problem)


class HookSpan:
    """The context managers that hooks returned for one event."""

    def __init__(self, hooks: Hooks, event: Event, entered: list[Any]) -> None:
        self._hooks = hooks
        self._event = event
        self._entered = entered

    def close(self) -> None:
        """Leave them, last entered first."""
        while self._entered:
            try:
                with self._hooks.around():
                    self._entered.pop().__exit__(None, None, None)
            except Exception as error:  # noqa: BLE001  (a hook never fails a run)
                self._hooks.note(self._event, error)
