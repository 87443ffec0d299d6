"""Scripts and drivers: what to execute next, and executing it.

A script is a generator. It yields the inputs of the next step and is sent what the action
raised, if anything; it returns how the run ended. Whatever is decided is decided there,
once for sync and async runs; the two drivers only step the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import sys
import threading
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

from rewind_nb._burr import Machine
from rewind_nb._model import RunStatus
from rewind_nb.errors import StepLimitError

BEAT = 0.1  # seconds between two looks at what a signal handler asked for
GRACE = 5.0  # seconds that an interrupted execution gets to write down where it stopped


@dataclass(frozen=True, slots=True)
class Ended:
    """How a script ended."""

    status: RunStatus
    next_action: str | None
    note: str | None = None
    error: BaseException | None = None  # what an action raised, to be raised unchanged


Script = Generator[Mapping[str, Any], BaseException | None, Ended]


class Way(Protocol):
    """Where to stop, and what inputs a step gets."""

    def stops(self, did: tuple[str, int], following: str) -> bool:
        """Whether to stop between the step (action, visit) and the next action."""

    def inputs(self, action: str, visit: int) -> Mapping[str, Any]:
        """The inputs of the step at (action, visit)."""


def forward(
    machine: Machine,
    way: Way,
    *,
    max_steps: int | None = None,
    stop_for_inputs: bool = False,
    over: bool = False,
    between: bool = False,
) -> Script:
    """Execute until a halt condition holds or no action is left.

    Args:
        between: the run may have been stopped where it was to halt.
        over: nothing is left to execute; only the end is to be written down.
        stop_for_inputs: halt where an input is needed that there is not, instead of
            letting Burr raise.
    """
    run_id, executed = machine.session.run.id, 0
    if over:
        return Ended("complete", None)
    prior = machine.track.prior
    following = machine.next_action if between and prior is not None else None
    if following and prior and way.stops((prior, machine.track.visits[prior]), following):
        return Ended("halted", following)
    while (action := machine.next_action) is not None:
        visit = machine.track.visits[action] + 1
        if not machine.put_in():
            inputs = way.inputs(action, visit)
            missing = sorted(machine.spec.inputs_of(action)[0] - set(inputs))
            if missing and stop_for_inputs:
                return Ended("halted", action, _needs(run_id, action, missing))
            if max_steps is not None and executed >= max_steps:
                raise StepLimitError(
                    f"The fork {run_id} executed {executed} steps and did not end: "
                    f"visit {visit} of {action!r} would be next. If that is right, pass a larger "
                    "max_steps=.",
                    run_id=run_id,
                )
            error = yield inputs
            if error is not None:  # it may have come after the step had ended
                finished = machine.track.visits[action] >= visit
                return stopped_by(error, None if finished else action)
            executed += 1
        following = machine.next_action
        if following is not None and way.stops((action, visit), following):
            return Ended("halted", following)
    return Ended("complete", None)


def _needs(run_id: str, action: str, missing: list[str]) -> str:
    given = ", ".join(f"{name!r}: ..." for name in missing)
    return (
        f"{action!r} needs inputs the recording lacks; "
        f"go on with rw.resume({run_id!r}, inputs={{{given}}})"
    )


def stopped_by(error: BaseException, action: str | None) -> Ended:
    """How a run ends that an exception stopped: an interrupt is not a failure."""
    status: RunStatus = "failed" if isinstance(error, Exception) else "interrupted"
    return Ended(status, action, error=error)


def drive(script: Script, machine: Machine) -> Ended:
    """Step the machine as the script says; it is told what an action raised."""
    try:
        inputs = next(script)
        while True:
            error: BaseException | None = None
            try:
                machine.step(inputs)
            except BaseException as raised:  # noqa: BLE001  (the script decides)
                error = raised
            inputs = script.send(error)
    except StopIteration as stop:
        ended: Ended = stop.value
        return ended


async def adrive(script: Script, machine: Machine) -> Ended:
    """The same for an async machine."""
    try:
        with heartbeat():
            inputs = next(script)
            while True:
                error: BaseException | None = None
                try:
                    await machine.astep(inputs)
                except BaseException as raised:  # noqa: BLE001  (the script decides)
                    error = raised
                inputs = script.send(error)
    except StopIteration as stop:
        ended: Ended = stop.value
        return ended


@contextlib.contextmanager
def heartbeat() -> Iterator[None]:
    """Wake the running loop ten times a second.

    A notebook turns an interrupt into a callback of its loop, and a loop that waits for
    nothing but the network would see it when the network answers.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def beat() -> None:
        nonlocal timer
        timer = loop.call_later(BEAT, beat, context=contextvars.Context())

    beat()
    try:
        yield
    finally:
        timer.cancel()


@dataclass(slots=True)
class _Waiting:
    """An execution in a loop of its own, while sync code waits for it."""

    make: Callable[[], Coroutine[Any, Any, Ended]]
    began: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    loop: asyncio.AbstractEventLoop | None = None
    task: asyncio.Task[None] | None = None
    ended: Ended | None = None
    error: BaseException | None = None

    async def main(self) -> None:
        """Execute; an interrupt, which arrives as a cancellation, is passed on."""
        self.loop, self.task = asyncio.get_running_loop(), asyncio.current_task()
        self.began.set()
        self.ended = await self.make()
        stopped = self.ended.error
        if isinstance(stopped, asyncio.CancelledError) and self.task and self.task.cancelling():
            raise stopped

    def work(self) -> None:
        """The same in a thread, which keeps the error for the one who waits."""
        try:
            asyncio.run(self.main())
        except BaseException as error:  # noqa: BLE001  (raised again in the caller's thread)
            self.error = error
        finally:
            self.over.set()

    def stop(self) -> None:
        """Cancel it."""
        self.began.wait(GRACE)
        if self.loop is not None and self.task is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended
                self.loop.call_soon_threadsafe(self.task.cancel)


def wait_for(make: Callable[[], Coroutine[Any, Any, Ended]]) -> Ended:
    """Run a coroutine from sync code, also inside a running event loop.

    There it runs in a thread with a loop of its own, in a copy of the caller's context.

    Raises:
        KeyboardInterrupt: it was interrupted. It has written down where it stopped, unless
            it did not within a few seconds; a note then says where it still is.
    """
    waiting = _Waiting(make)
    try:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            asyncio.run(waiting.main())
        else:
            _in_thread(waiting)
    except KeyboardInterrupt as interrupt:
        stopped = None if waiting.ended is None else waiting.ended.error
        for note in getattr(stopped, "__notes__", ()):
            interrupt.add_note(note)
        raise
    return cast("Ended", waiting.ended)


def _in_thread(waiting: _Waiting) -> None:
    run = contextvars.copy_context().run
    thread = threading.Thread(target=run, args=(waiting.work,), name="rewind-loop", daemon=True)
    try:
        thread.start()
        # Not for ever, because some platforms see an interrupt only in between; and not with
        # `join`, which takes a thread for dead when it is interrupted itself.
        while not waiting.over.wait(BEAT):
            pass
        thread.join()
    except KeyboardInterrupt as interrupt:
        waiting.stop()
        if not waiting.over.wait(GRACE):
            interrupt.add_note(
                f"Still running: thread {thread.name!r}{_whereabouts(thread)}. It stops at its "
                "next await; nobody waits for it."
            )
        raise
    if waiting.error is not None:
        raise waiting.error


def _whereabouts(thread: threading.Thread) -> str:
    """Where a thread is, in code that is not the standard library's."""
    frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if module.partition(".")[0] not in sys.stdlib_module_names:
            code = frame.f_code
            return f", in {code.co_qualname} ({Path(code.co_filename).name}:{frame.f_lineno})"
        frame = frame.f_back
    return ""
