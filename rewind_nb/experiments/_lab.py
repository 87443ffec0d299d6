"""How every experiment runs: as a script that wants trials and is told how they ended.

A script is a generator. It yields trials, is sent how each of them ended, and returns what it
found. What is decided is decided there, once for sync and async; the two drivers only make
the runs. A trial that the experiment has made already, before it was stopped, is not made
again, and one that was stopped half way is gone on with.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import Generator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from rewind_nb import _owner
from rewind_nb._bound import Bound
from rewind_nb._budget import UNLIMITED, Budget, Meter
from rewind_nb._describe import plural
from rewind_nb._drive import Ended
from rewind_nb._loops import wait_for
from rewind_nb._model import OVER, CacheMode, ExperimentRow, ExperimentStatus, RunRow
from rewind_nb._store import Batch, Store, _experiments
from rewind_nb.errors import RunBusyError
from rewind_nb.experiments._progress import Progress
from rewind_nb.experiments._trials import Trial, Trials, Tried


@dataclass(frozen=True, slots=True)
class Found:
    """What a script returns.

    Attributes:
        result: what came of it, to be stored.
        whole: whether no trial it wanted was stopped.
    """

    result: dict[str, Any]
    whole: bool = True
    note: str | None = None


RUNNING: dict[str, Lab] = {}  # by its id: every experiment that runs in this process

Script = Generator[Sequence[Trial], Sequence[Tried], Found]


@dataclass(frozen=True, slots=True)
class Ways:
    """How an experiment makes its runs; no part of what it asks.

    Attributes:
        retry: whether a run that failed is gone on with.
    """

    budget: Budget | None = None
    max_workers: int | None = None
    executor: Executor | None = None
    progress: bool | None = None
    retry: bool = False


@dataclass(slots=True)
class Lab:
    """One experiment while it runs."""

    rw: Bound
    row: ExperimentRow
    ways: Ways
    trials: Trials
    prior: dict[str, RunRow]  # by the trial's key: the run it made before
    progress: Progress
    interrupt: BaseException | None = field(default=None)

    @classmethod
    def of(cls, rw: Bound, row: ExperimentRow, ways: Ways, cache: CacheMode | None) -> Lab:
        """A lab for an experiment that is in the store already."""
        here = ways.executor is None or isinstance(ways.executor, ThreadPoolExecutor)
        budget = ways.budget or (UNLIMITED if here else None)
        meter = None if budget is None else Meter(budget)
        trials = Trials(rw, row.id, cache, meter, ways.max_workers, ways.executor)
        made = rw.store.read(_experiments.runs_of, row.id)
        prior = {run.cell: run for run in made if run.cell is not None}
        return cls(rw, row, ways, trials, prior, Progress(row.kind, ways.progress))

    # -- the drivers ------------------------------------------------------------------------

    def go(self, script: Script) -> ExperimentRow:
        """Run it from sync code.

        Raises:
            KeyboardInterrupt: it was stopped; what was done is stored, and can be gone on with.
        """
        if not self.trials.env.spec.is_async:
            return self._driven(script)
        made: list[ExperimentRow] = []

        async def main() -> Ended:
            try:
                made.append(await self.ago(script))
            except asyncio.CancelledError as stopped:
                return Ended("interrupted", None, error=stopped)
            return Ended("complete", None)

        wait_for(main)
        return made[0]

    def _driven(self, script: Script) -> ExperimentRow:
        with self._running(), contextlib.closing(script):
            wanted = next(script)
            while True:
                ended, left = self._known(wanted)
                try:
                    if left:
                        with contextlib.closing(self.trials.each(left)) as each:
                            for tried in each:
                                ended.append(tried)
                                self.progress.step()
                except KeyboardInterrupt as interrupt:
                    self.interrupt = interrupt
                try:
                    wanted = script.send(self._all(wanted, ended))
                except StopIteration as stop:
                    return self._close(stop.value)

    async def ago(self, script: Script) -> ExperimentRow:
        """Run it in the running loop."""
        with self._running(), contextlib.closing(script):
            wanted = next(script)
            while True:
                ended, left = self._known(wanted)
                try:
                    if left:
                        async with contextlib.aclosing(self.trials.aeach(left)) as each:
                            async for tried in each:
                                ended.append(tried)
                                self.progress.step()
                except (KeyboardInterrupt, asyncio.CancelledError) as interrupt:
                    self.interrupt = interrupt
                try:
                    wanted = script.send(self._all(wanted, ended))
                except StopIteration as stop:
                    return self._close(stop.value)

    def stop(self) -> None:
        """Let it begin no further run, and those under way make no further model call.

        It comes to its end as one whose budget is spent: what was asked is waited for, since it
        is paid for. In other processes nothing counts calls: runs under way there come to their
        end.
        """
        self.trials.stopping = True
        if (meter := self.trials.meter) is not None:
            meter.stop("as asked")

    def _known(self, wanted: Sequence[Trial]) -> tuple[list[Tried], list[Trial]]:
        """What was made before, and what is still to be made."""
        ended, left = [], []
        for trial in wanted:
            run = self.prior.get(trial.key)
            if run is None:
                left.append(trial)
            elif run.status in OVER and not (self.ways.retry and run.status == "failed"):
                ended.append(Tried(trial, run.id))
            else:
                left.append(replace(trial, run_id=run.id, resumes=True))
        self.progress.begin(len(wanted), len(ended), self.trials.workers(len(left)))
        return ended, left

    def _all(self, wanted: Sequence[Trial], ended: Sequence[Tried]) -> list[Tried]:
        """How each trial ended, in the order they were wanted."""
        by_key = {tried.trial.key: tried for tried in ended}
        return [by_key.get(trial.key) or Tried(trial, None, stopped=True) for trial in wanted]

    # -- the row ----------------------------------------------------------------------------

    @contextlib.contextmanager
    def _running(self) -> Generator[None, None, None]:
        """Mark it as running here; as failed if something is wrong with the script itself."""
        if not _owner.claim(self.row.id):
            raise RunBusyError(f"Experiment {self.row.id} is running already.", run_id=self.row.id)
        try:
            owner = _owner.this_process()
            self._write(replace(self.row, status="running", owner=owner, note=None))
            RUNNING[self.row.id] = self
            yield
        except BaseException as error:
            if error is not self.interrupt:
                status: ExperimentStatus
                status = "failed" if isinstance(error, Exception) else "interrupted"
                self._write(replace(self.row, status=status, ended_at=time.time()))
            raise
        finally:
            RUNNING.pop(self.row.id, None)
            _owner.ACTIVE.discard(self.row.id)
            self.progress.close()

    def _close(self, found: Found) -> ExperimentRow:
        batch = Batch()
        result = batch.value(found.result, "result")
        meter = self.trials.meter
        stopped = self.interrupt is not None or not found.whole
        notes = [found.note]
        if meter is not None:
            notes += [meter.reached and f"stopped: {meter.reached}", meter.overspent]
        if (late := self.trials.survivors) and self.interrupt is not None:
            notes.append(f"{plural(late, 'run')} still waited for an answer; it is kept")
        row = replace(
            self.row,
            status="interrupted" if stopped else "complete",
            note="; ".join(filter(None, notes)) or None,
            ended_at=time.time(),
            result=result,
        )
        self._write(row, batch)
        if self.interrupt is not None:
            self.interrupt.add_note(
                f"rewind_nb: {row.kind} {row.id} was stopped; "
                f"rw.resume(rw.store.experiment({row.id!r})) goes on with it"
            )
            raise self.interrupt
        return row

    def _write(self, row: ExperimentRow, batch: Batch | None = None) -> None:
        self.row = row
        batch = batch or Batch()
        batch.experiment(row)
        self.rw.store.submit(batch, durable=True).result()


def new_row(
    store: Store, kind: str, run_id: str | None, asked: dict[str, Any], label: str | None
) -> ExperimentRow:
    """A new experiment, written down before its first run is made.

    Raises:
        NotEncodableError: what is asked cannot be stored.
    """
    batch = Batch()
    row = ExperimentRow(
        id=f"e_{secrets.token_hex(4)}",
        kind=kind,
        run_id=run_id,
        label=label,
        spec=batch.value(asked, "asked"),
        created_at=time.time(),
        owner=_owner.this_process(),
        status="interrupted",  # until it runs
        note="not begun",
    )
    batch.experiment(row)
    store.submit(batch, durable=True).result()
    return row
