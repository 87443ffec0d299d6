"""The runs of an experiment: made side by side, counted, stopped and gone on with.

Threads by default, tasks of one loop for an async application, or any executor of
`concurrent.futures`. To one that is no thread pool a trial goes as data, and its process
opens the store anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import Any

from rewind_nb._bound import Bound
from rewind_nb._budget import Meter
from rewind_nb._cells import manifest_of
from rewind_nb._execution import Env, Execution
from rewind_nb._model import CacheMode
from rewind_nb._recording import Recording
from rewind_nb.errors import ConfigError, RewindError, RunStoppedError
from rewind_nb.experiments._trial import Trial, Tried

__all__ = ["Trial", "Trials", "Tried"]

NOTICE = 0.1  # seconds after which an interrupt is noticed at the latest
GRACE = 2.0  # seconds that runs get to stop in
MOST_WORKERS = 32  # unless the caller says another number


@dataclass(slots=True)
class Trials:
    """Makes the runs of one experiment.

    Attributes:
        stopping: no further trial begins.
    """

    rw: Bound
    experiment: str
    cache: CacheMode | None = None
    meter: Meter | None = None
    max_workers: int | None = None
    executor: Executor | None = None
    stopping: bool = False
    _env: Env | None = None
    _executing: dict[str, Execution] = field(default_factory=dict)
    _recordings: dict[str, Recording] = field(default_factory=dict)  # by parent

    @property
    def env(self) -> Env:
        """What all of its runs share."""
        if self._env is None:
            self._env = self._new_env()
        return self._env

    def _new_env(self) -> Env:
        made = self.rw._env(self.cache)  # noqa: SLF001  (one of its verbs)
        return replace(made, experiment=self.experiment, meter=self.meter)

    def _of(self) -> Env:
        """What one run gets: an application of its own where it is built anew for each."""
        return self._new_env() if self.rw.builds_anew else self.env

    def workers(self, trials: int) -> int:
        """How many run side by side."""
        wanted = MOST_WORKERS if self.max_workers is None else self.max_workers
        return max(1, min(wanted, trials))

    # -- sync -------------------------------------------------------------------------------

    def each(self, trials: Sequence[Trial]) -> Generator[Tried, None, None]:
        """Make them; each as it ends.

        Raises:
            KeyboardInterrupt: it was stopped; what could be written down is.
        """
        if self.executor is not None and not isinstance(self.executor, ThreadPoolExecutor):
            yield from self._elsewhere(trials)
            return
        pool = self.executor or ThreadPoolExecutor(self.workers(len(trials)), "rewind-trial")
        futures: set[Future[Tried]] = set()
        try:
            futures = {pool.submit(self.make, trial) for trial in trials}
            yield from self._as_they_end(futures)
        except BaseException:
            self._stop(futures)
            raise
        finally:
            if self.executor is None:
                pool.shutdown(wait=False, cancel_futures=True)

    def _as_they_end(self, futures: set[Future[Tried]]) -> Iterator[Tried]:
        ended: SimpleQueue[Future[Tried]] = SimpleQueue()
        for future in futures:
            future.add_done_callback(ended.put)
        cancelled = False
        for _ in futures:
            while True:  # a signal that comes just before a wait is seen only after it
                if self.stopping and not cancelled:
                    cancelled = True
                    for waiting in futures:
                        waiting.cancel()
                with contextlib.suppress(Empty):
                    future = ended.get(timeout=NOTICE)
                    break
            if not future.cancelled():
                yield future.result()

    def make(self, trial: Trial) -> Tried:
        """Make one run in this thread."""
        if (none := self._none(trial)) is not None:
            return none
        try:
            execution = self._ready(trial)
        except Exception as error:  # noqa: BLE001  (a cell with an error does not lose the rest)
            return Tried(trial, None, error)
        ended = execution.go()
        return self._ended(trial, execution, ended.error)

    def _ready(self, trial: Trial) -> Execution:
        env = self._of()
        recording = self._recordings.get(trial.run_id)
        if recording is None:
            recording = Recording.of(self.rw.store.run(trial.run_id))
            self._recordings[trial.run_id] = recording
        execution = trial.ready(env, recording)
        self._executing[trial.key] = execution
        if self.stopping:
            execution.session.stop.set()
        return execution

    def _none(self, trial: Trial) -> Tried | None:
        """What comes of a trial that does not begin any more."""
        spent = self.meter is not None and self.meter.reached is not None
        return Tried(trial, None, None, stopped=True) if self.stopping or spent else None

    def _ended(self, trial: Trial, execution: Execution, error: BaseException | None) -> Tried:
        self._executing.pop(trial.key, None)
        stopped = error is not None and not isinstance(error, Exception)
        session = execution.session
        if not session.started:
            return Tried(trial, None, error, stopped)
        state = None if session.run.tail is not None else manifest_of(session.track.cells)
        return Tried(trial, session.run.id, error, stopped, session.run, state)

    def _stop(self, futures: set[Future[Tried]]) -> None:
        """Tell the runs to stop and wait a little; the answers under way are still kept."""
        self._ask_to_stop()
        for future in futures:
            future.cancel()
        deadline = time.monotonic() + GRACE
        while self._executing and time.monotonic() < deadline:
            time.sleep(0.01)

    @property
    def survivors(self) -> int:
        """How many runs are still waiting for an answer."""
        return len(self._executing)

    # -- elsewhere --------------------------------------------------------------------------

    def _elsewhere(self, trials: Sequence[Trial]) -> Iterator[Tried]:
        assert self.executor is not None  # noqa: S101  (checked by the caller)
        if self.meter is not None:
            raise ConfigError(
                "A budget counts in one process, and executor= may use several. Leave one of "
                "them out."
            )
        self.rw.__reduce__()  # refuses what no other process could build
        self.rw.store.flush()
        tasks = {
            self.executor.submit(_made_there, self.rw, self.experiment, self.cache, trial)
            for trial in trials
        }
        try:
            yield from self._as_they_end(tasks)
        except Exception as error:
            self._stop(tasks)
            raise ConfigError(
                "An executor that is no ThreadPoolExecutor gets the application and the "
                f"overrides pickled, and that failed: {error} Give Rewind a function of a module "
                "that builds the application, and values that can be pickled; or leave "
                "executor= out."
            ) from error
        except BaseException:
            self._stop(tasks)
            raise

    # -- async ------------------------------------------------------------------------------

    async def aeach(self, trials: Sequence[Trial]) -> AsyncGenerator[Tried, None]:
        """`each` in the running loop: tasks for an async application, else threads."""
        if not self.env.spec.is_async:
            pool = ThreadPoolExecutor(self.workers(len(trials)), "rewind-trial")
            futures = {pool.submit(self.make, trial) for trial in trials}
            pool.shutdown(wait=False)  # its threads end with the last trial
            running = {asyncio.wrap_future(future) for future in futures}
            stop: Callable[[], None] = lambda: self._stop(futures)  # noqa: E731
        else:
            gate = asyncio.Semaphore(self.workers(len(trials)))
            running = {asyncio.ensure_future(self._amake(trial, gate)) for trial in trials}
            stop = self._ask_to_stop
        left = set(running)
        try:
            while left:
                done, left = await asyncio.wait(left, return_when=asyncio.FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        except BaseException:
            stop()
            await _let_end(left)
            raise

    async def _amake(self, trial: Trial, gate: asyncio.Semaphore) -> Tried:
        async with gate:
            if (none := self._none(trial)) is not None:
                return none
            try:
                execution = self._ready(trial)
            except Exception as error:  # noqa: BLE001  (likewise)
                return Tried(trial, None, error)
            ended = await execution.ago()
            return self._ended(trial, execution, ended.error)

    def _ask_to_stop(self) -> None:
        self.stopping = True
        for execution in list(self._executing.values()):
            execution.session.stop.set()


async def _let_end(left: set[Any]) -> None:
    """Let answers that are under way arrive, then cancel what still waits."""
    if left:
        _, late = await asyncio.wait(left, timeout=GRACE)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=GRACE)


def _made_there(rw: Bound, experiment: str, cache: CacheMode | None, trial: Trial) -> Tried:
    """Make one run in another process."""
    tried = Trials(rw, experiment, cache).make(trial)
    rw.store.flush()
    error = tried.error
    if error is not None and not isinstance(error, RewindError | RunStoppedError):
        tried = replace(tried, error=RuntimeError(f"{type(error).__name__}: {error}"))
    return replace(tried, trial=trial)
