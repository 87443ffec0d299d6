"""`Driving`: the runs of an experiment made in a thread beside the cell, for a widget."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from rewind_nb import _loops
from rewind_nb._describe import error_line
from rewind_nb.errors import RunBusyError
from rewind_nb.experiments._estimate import Estimate
from rewind_nb.experiments._lab import RUNNING, Lab, Script
from rewind_nb.experiments._verbs import Retry, Verbs

__all__ = ["Driving"]

LOOK = 0.5  # seconds between two looks at whether the interpreter is about to end


class Driving:
    """Begins, stops and goes on with one experiment of a Rewind.

    Its thread stays until it is closed, and drives an asynchronous application in the loop of
    the cell it was made in: the clients of that application are bound to it.

    Args:
        changed: is called when there is something new to show.

    Attributes:
        problem: what ended it last, in words; "" for nothing.
    """

    def __init__(self, rw: Verbs, experiment_id: str, changed: Callable[[], None]) -> None:
        self.problem = ""
        self._rw, self._id, self._changed = rw, experiment_id, changed
        self._lock = threading.Lock()
        self._lab: Lab | None = None
        self._pool = ThreadPoolExecutor(1, "rewind-widget", initializer=_loops.lent())

    @property
    def stopping(self) -> bool:
        """Whether it was told to stop, and has not yet."""
        lab = self._lab or RUNNING.get(self._id)
        return lab is not None and lab.trials.stopping

    @property
    def going(self) -> bool:
        """Whether it makes its runs."""
        return self._lab is not None or self._id in RUNNING

    def plan(self) -> Estimate:
        """What is left is likely to come to; a thousand forks take seconds to look at."""
        return self._rw.plan(self._id)

    def start(self, retry: Retry | None = None) -> None:
        """Begin, or go on; it returns at once.

        Args:
            retry: ``errors`` to go on with the runs that failed, too.

        Raises:
            RunBusyError: it runs already.
            NothingToResumeError: it is complete.
            ExperimentError: a callable is part of it, which no store gives back.
        """
        with self._lock:
            if self.going:
                raise RunBusyError(f"Experiment {self._id} is running already.", run_id=self._id)
            prepared = self._rw._prepared(self._id)  # noqa: SLF001
            ways = self._rw._ways(prepared, None, retry)  # noqa: SLF001
            self.problem = ""
            self._lab = prepared.lab(replace(ways, progress=False))  # which is no cell's output
            self._pool.submit(self._go, self._lab, prepared.job.script())

    def _go(self, lab: Lab, script: Script) -> None:
        over = threading.Event()
        watched = (lab, over, self._pool)
        threading.Thread(target=_stop_at_exit, args=watched, daemon=True).start()
        try:
            lab.go(script)
        except BaseException as error:  # noqa: BLE001  (it is shown in the widget)
            self.problem = error_line(error)
        finally:
            over.set()
            self._lab = None
            self._changed()

    def stop(self) -> bool:
        """Let it begin no further run; False where this process does not execute it.

        What is under way stops where it next asks a model; an answer that is paid for is kept.
        """
        lab = self._lab or RUNNING.get(self._id)
        if lab is None:
            return False
        lab.stop()
        return True

    def close(self) -> None:
        """Stop what it began, and let the thread go."""
        if (lab := self._lab) is not None:
            lab.stop()
        self._pool.shutdown(wait=False, cancel_futures=True)


def _stop_at_exit(lab: Lab, over: threading.Event, pool: ThreadPoolExecutor) -> None:
    """The interpreter waits for pools before it ends: not for all that is still to be made.

    That it is about to end shows in that a pool takes nothing more.
    """
    while not over.wait(LOOK):
        try:
            pool.submit(int).cancel()
        except RuntimeError:
            lab.stop()
            return
