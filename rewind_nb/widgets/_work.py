"""Executions that a widget starts: one at a time, in a thread of its own, stopped on request.

The thread lasts as long as its widget, and so does its event loop, to which a client of an
async application is bound.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import queue
import threading
import weakref
from collections.abc import Callable, Generator

from rewind_nb._execution import Execution
from rewind_nb.errors import ConfigError, RunStoppedError

__all__ = ["Work"]

Job = Callable[[], None]


class Work:
    """A thread that executes what it is given, one after the other.

    Attributes:
        going: whether something executes, or is about to.
        stopping: whether that was asked to stop.

    Example:
        >>> work, done = Work(), []
        >>> work.start(lambda: done.append(True))
        >>> work.wait(5), done, work.close()
        (True, [True], None)
    """

    def __init__(self) -> None:
        self.going = False
        self.stopping = False
        self._changed = threading.Condition()
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._execution: Execution | None = None
        self._cancel: Callable[[], object] | None = None
        weakref.finalize(self, self._jobs.put, None)

    def start(self, job: Job) -> None:
        """Execute *job*, which raises nothing, in the thread.

        Raises:
            ConfigError: something executes already.
        """
        with self._changed:
            if self.going:
                raise ConfigError("Something executes already. Wait until it ends, or stop it.")
            self.going, self.stopping = True, False
            if self._thread is None:
                self._thread = threading.Thread(
                    target=_work, args=(self._jobs,), name="rewind-editor", daemon=True
                )
                contextvars.Context().run(self._thread.start)  # it is of no run's context

        def done() -> None:
            try:
                job()
            finally:
                self._over()

        self._jobs.put(done)

    def _over(self) -> None:
        with self._changed:
            self.going, self._execution, self._cancel = False, None, None
            self._changed.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing executes; False where that took longer, in seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.going, timeout)

    # -- stopping ---------------------------------------------------------------------------

    def hold(self, execution: Execution) -> Execution:
        """The execution itself, from here on stopped when that is asked."""
        around = execution.around

        @contextlib.contextmanager
        def cancellable() -> Generator[None, None, None]:
            self._in_task()
            with around():
                yield

        execution.around = cancellable
        with self._changed:
            self._execution = execution
            if self.stopping:
                execution.session.stop.set()
        return execution

    def _in_task(self) -> None:
        try:
            task, loop = asyncio.current_task(), asyncio.get_running_loop()
        except RuntimeError:  # a sync application
            return
        if task is not None:
            self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)

    def stop(self) -> None:
        """Let what executes end: an async application at its next await, a sync one at its next
        call, or after its step.
        """
        with self._changed:
            self.stopping = self.going
            if self._execution is not None:
                self._execution.session.stop.set()
            if self._cancel is not None:
                with contextlib.suppress(RuntimeError):  # its loop has just ended
                    self._cancel()

    def stopped_by(self, error: BaseException | None) -> bool:
        """Whether an error is what came of `stop`."""
        return self.stopping and isinstance(error, RunStoppedError | asyncio.CancelledError)

    def close(self) -> None:
        """Stop what executes, and let the thread end."""
        self.stop()
        self._jobs.put(None)


def _work(jobs: queue.SimpleQueue[Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # else the thread holds what it last worked for
