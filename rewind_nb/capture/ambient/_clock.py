"""The wall clock inside a step, through time-machine.

time-machine swaps the C functions in place, so that names bound earlier (`from time import
time`), pydantic and pandas keep working. Once swapped they ask the top of its stack of
travellers for the time. Ours stays on top for good: inside a step it reads a tape, elsewhere
it passes on what the traveller beneath it says (a test that freezes the time), or the time.
"""

from __future__ import annotations

import datetime as dt
import functools
import sys
import time
from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

from rewind_nb.capture.ambient._reads import reading_step, tape_of


class _Travellers(list[Any]):
    """time-machine's stack, with our clock always on top of what a user puts there."""

    def append(self, traveller: Any) -> None:
        """Beneath our clock."""
        self.insert(-1, traveller)

    def pop(self, index: Any = -1) -> Any:
        """What the user put there last."""
        return super().pop(index - 1)

    def __bool__(self) -> bool:
        """Whether the user travels: time-machine asks before it starts and after it stops."""
        return len(self) > 1


class _Clock:
    """A traveller whose time is that of the running step."""

    def __init__(self, stack: _Travellers, real_ns: Any) -> None:
        self._stack = stack
        self._real_ns = real_ns

    def time_ns(self) -> int:
        """Nanoseconds since the epoch; every function of the clock is made from them."""
        stack = self._stack
        now: int = self._real_ns() if len(stack) == 1 else stack[-2].time_ns()
        step = reading_step()
        if step is None:
            return now
        tape = tape_of(step, "clock", sys._getframe(1), None)  # noqa: SLF001
        return now if tape is None else tape.take(now)


def install_clock() -> None:
    """Put our clock on top of time-machine's, and record what it leaves out.

    `time.ctime` and `time.asctime` ask the system in C that time-machine does not swap, so they
    are replaced in their module.

    While freezegun freezes the time it waits for the next call: freezegun puts classes of its
    own in the place of those whose methods time-machine swaps.
    """
    if "freezegun" in sys.modules and dt.datetime.__name__ == "FakeDatetime":
        return
    for name, spoken in (("ctime", _ctime), ("asctime", _asctime)):
        real = getattr(time, name)
        if isinstance(real, BuiltinFunctionType):  # not ours yet, nor a test's own
            setattr(time, name, spoken(real))
    import _time_machine  # type: ignore[import-not-found]
    import time_machine

    if isinstance(time_machine.traveller_stack, _Travellers):
        return
    _time_machine.patch()
    _time_machine.unpatch = lambda: None  # a user who stops travelling would take ours along
    stack = _Travellers(time_machine.traveller_stack)
    list.append(stack, _Clock(stack, _time_machine.original_time_ns))
    time_machine.traveller_stack = stack


def _ctime(real: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(real)
    def recorded(*given: Any) -> str:
        seconds = _recorded_time("time.ctime") if given in ((), (None,)) else None
        return real(*given) if seconds is None else real(seconds)

    return recorded


def _asctime(real: Callable[..., str]) -> Callable[..., str]:
    @functools.wraps(real)
    def recorded(*given: Any) -> str:
        seconds = None if given else _recorded_time("time.asctime")
        return real(*given) if seconds is None else real(time.localtime(seconds))

    return recorded


def _recorded_time(function: str) -> float | None:
    """Seconds since the epoch, for who called *function* in a step; None where nobody records."""
    step = reading_step()
    if step is None:
        return None
    tape = tape_of(step, "clock", sys._getframe(2), function)  # noqa: SLF001
    return None if tape is None else tape.take(time.time_ns()) / 1e9
