"""Driving an async application from sync code, also inside a running event loop.

Each thread keeps one loop for all its runs, as a notebook does: a client of a provider that
was made in one run is bound to that loop, and the next run, or a fork of the first, uses it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from rewind_nb._describe import notes_on
from rewind_nb._drive import BEAT, Ended
from rewind_nb._signals import put_off

GRACE = 5.0  # seconds that an interrupted execution gets to write down where it stopped


def wait_for(make: Callable[[], Coroutine[Any, Any, Ended]]) -> Ended:
    """Run a coroutine from sync code, in a copy of the caller's context.

    It runs in the caller's thread, or in another one where a loop is running there already.

    Raises:
        KeyboardInterrupt: it was interrupted. It has written down where it stopped, unless
            it did not within a few seconds; a note then says where it still is.
    """
    waiting = _Waiting(make)
    try:
        if _lasting.borrowed or _is_running():
            _elsewhere(waiting)
        else:
            _here(waiting)
    except KeyboardInterrupt as interrupt:
        waiting.given_up = True
        stopped = None if waiting.ended is None else waiting.ended.error
        for note in notes_on(stopped):
            interrupt.add_note(note)
        raise
    return cast("Ended", waiting.ended)


@dataclass(slots=True)
class _Waiting:
    """An execution that sync code waits for."""

    make: Callable[[], Coroutine[Any, Any, Ended]]
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    began: threading.Event = field(default_factory=threading.Event)
    over: threading.Event = field(default_factory=threading.Event)
    loop: asyncio.AbstractEventLoop | None = None
    task: asyncio.Task[None] | None = None
    ended: Ended | None = None
    error: BaseException | None = None
    given_up: bool = False  # interrupted before it began: it must not begin later

    async def main(self) -> None:
        """Execute; an interrupt, which arrives as a cancellation, is passed on."""
        if self.given_up:
            return
        self.loop, self.task = asyncio.get_running_loop(), asyncio.current_task()
        self.began.set()
        try:
            self.ended = await self.make()
        finally:
            # As `asyncio.run` does, what actions left running is ended: it belongs to no later run.
            if others := asyncio.all_tasks(self.loop) - {self.task}:
                await _cancelled(others)
        stopped = self.ended.error
        if isinstance(stopped, asyncio.CancelledError) and self.task and self.task.cancelling():
            raise stopped

    def stop(self) -> None:
        """Cancel it."""
        self.began.wait(GRACE)
        if self.loop is not None and self.task is not None:
            with contextlib.suppress(RuntimeError):  # it has just ended
                self.loop.call_soon_threadsafe(self.task.cancel)


def _cancelled(tasks: set[asyncio.Task[Any]]) -> asyncio.Future[list[Any]]:
    """Cancel tasks, at least one; done when they are. No task, so that none of them cancels it."""
    for task in tasks:
        task.cancel()
    return asyncio.gather(*tasks, return_exceptions=True)


class _Lasting(threading.local):
    """The loops of one thread."""

    runner: asyncio.Runner | None = None  # of the thread itself
    worker: _Worker | None = None  # of another one, for while a loop is running here
    borrowed: bool = False  # whether that is also another thread's


_lasting = _Lasting()


def lent() -> Callable[[], None]:
    """Lend the loop of this thread's runs: what is returned makes it that of the thread it is
    called in, which then shares the clients that are bound to it.

    A loop can be lent where another one is running, as in a notebook; else it is this thread's
    own, and what is returned does nothing.
    """
    if not _is_running():
        return lambda: None
    worker = _lasting.worker = _lasting.worker or _Worker()

    def borrow() -> None:
        _lasting.worker, _lasting.borrowed = worker, True

    return borrow


def _is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# -- in the caller's thread ---------------------------------------------------------------


def _here(waiting: _Waiting) -> None:
    # The loop is kept again only where it came out in order: an interrupt can leave it anywhere.
    runner, _lasting.runner = _lasting.runner or _new_runner(), None
    main = waiting.main()
    try:
        runner.run(main, context=waiting.context)
    finally:
        waiting.given_up = waiting.task is None
        if waiting.task is None or waiting.task.done():
            _settle(runner.get_loop())
            main.close()  # where it did not come to be a task
            _lasting.runner = runner
        else:  # stopped for good, in the middle
            _close(runner.get_loop())


def _new_runner() -> asyncio.Runner:
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    # It goes with the thread, whose locals hold it, or with the interpreter.
    weakref.finalize(runner, _close, runner.get_loop())
    return runner


def _settle(loop: asyncio.AbstractEventLoop) -> None:
    """Let a loop run what is due: the order to stop may still be, which is not the next run's."""
    loop.call_soon(loop.stop)
    loop.run_forever()


def _close(loop: asyncio.AbstractEventLoop) -> None:
    if loop.is_closed() or loop.is_running():
        return
    try:
        _end(asyncio.all_tasks(loop), loop)
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        with put_off():
            loop.close()


def _end(tasks: set[asyncio.Task[Any]], loop: asyncio.AbstractEventLoop) -> None:
    """Cancel tasks and let them come to their end, for a while."""
    if not tasks:
        return
    ended = _cancelled(tasks)
    ended.add_done_callback(lambda _: loop.stop())
    timeout = loop.call_later(GRACE, loop.stop)
    while not ended.done() and loop.time() < timeout.when():
        # One more interrupt ends what keeps the loop from going on, and nothing else.
        with contextlib.suppress(KeyboardInterrupt):
            loop.run_forever()


# -- in another thread --------------------------------------------------------------------


def _elsewhere(waiting: _Waiting) -> None:
    worker = _lasting.worker = _lasting.worker or _Worker()
    try:
        worker.queue.put(waiting)
        # Not for ever, because some platforms see an interrupt only in between.
        while not waiting.over.wait(BEAT):
            pass
    except KeyboardInterrupt as interrupt:
        waiting.stop()
        if not waiting.over.wait(GRACE):
            _lasting.worker = None  # the next run does not queue behind this one
            worker.queue.put(None)
            interrupt.add_note(
                f"Still running: thread {worker.thread.name!r}{_whereabouts(worker.thread)}. It "
                "stops at its next await; nobody waits for it."
            )
        raise
    if waiting.error is not None:
        raise waiting.error


class _Worker:
    """A thread with a loop, for the runs of another thread."""

    def __init__(self) -> None:
        self.queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self.thread = threading.Thread(
            target=_work, args=(self.queue,), name="rewind-loop", daemon=True
        )
        weakref.finalize(self, self.queue.put, None)
        # Of no run's context: it serves them all.
        contextvars.Context().run(self.thread.start)


def _work(jobs: queue.SimpleQueue[_Waiting | None]) -> None:
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        while (waiting := jobs.get()) is not None:
            try:
                runner.run(waiting.main(), context=waiting.context)
            except BaseException as error:  # noqa: BLE001  (raised again in the caller's thread)
                waiting.error = error
            finally:
                waiting.over.set()


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
