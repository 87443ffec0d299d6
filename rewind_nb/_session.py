"""`Session`: one run while it executes, from the claim on it to its root hash.

Its steps are recorded by its `Track`; tasks inside a step have tracks of their own.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from rewind_nb import _owner
from rewind_nb._answering import condensed
from rewind_nb._budget import Meter
from rewind_nb._cells import Cells
from rewind_nb._describe import error_line
from rewind_nb._hooks import Hooks, HookSpan
from rewind_nb._lane import Lane
from rewind_nb._model import CacheMode, CallRow, Event, RunRow, RunStatus, StepRow
from rewind_nb._outcome import Applied
from rewind_nb._scope import scope
from rewind_nb._signals import put_off
from rewind_nb._store import Batch, Reads, Store
from rewind_nb._store._chain import chain_at, tail_end
from rewind_nb._store._schema import root_hash
from rewind_nb._track import Put, Track
from rewind_nb.capture._context import StepContext
from rewind_nb.capture.policy import DEFAULT, HttpPolicy
from rewind_nb.errors import RunBusyError


class Codes(Protocol):
    """What a session needs to know of the actions' code."""

    def stable(self) -> dict[str, dict[str, str]]:
        """Per action the containers it refers to, by digest; "" for those that changed."""


Decide = Callable[[Track, str, int, Mapping[str, Any], Any], Put | str | None]


# (path, action, visit, the action itself) -> what executes instead: an action with its code
InsteadOf = Callable[[str, str, int, Any], Any]


@dataclass(slots=True)
class Plan:
    """What a run may take from a recording.

    Attributes:
        recorded: the recorded step at (lane, action, visit), if any.
        overrides: what to override in the step at (lane, action, visit), first to last.
        decide: what to apply at the track's (action, visit) instead of executing it, or why
            it executes.
        attempts: which attempt a top-level step is, for those that were tried before.
        past: what the recording is read from.
    """

    cache: CacheMode = "auto"
    strict: bool = False
    epoch: int = 0
    recorded: Callable[[Lane, str, int], StepRow | None] = lambda _lane, _action, _visit: None
    overrides: Callable[[Lane, str, int], Sequence[Applied]] = lambda _lane, _action, _visit: ()
    decide: Decide = lambda _track, _action, _visit, _inputs, _code: None
    attempts: dict[int, int] = field(default_factory=dict)
    past: Reads | None = None
    cache_key: Callable[[dict[str, Any]], Any] | None = None
    policy: HttpPolicy = DEFAULT
    meter: Meter | None = None  # what its experiment may spend
    instead: InsteadOf | None = None
    effects: Any = None  # of a fork: "live", or stubs by the name of the tool
    self_driven: bool = True  # False: the user steps the application


@dataclass(slots=True)
class Session:
    """One executing run.

    Attributes:
        nested: the steps of tasks that ended since the last top-level one did.
        artifacts: what the last top-level step wrote, its tasks included:
            (path, seq, name) -> sha256.
    """

    store: Store
    run: RunRow
    plan: Plan
    hooks: Hooks
    code: Codes
    track: Track = field(init=False)
    basis: RunRow | None = None  # the run as it was read when this was planned
    opening: Batch = field(default_factory=Batch)  # what is written together with the claim on it
    busy: bool = False  # a step is executing
    misses: list[Exception] = field(default_factory=list)
    unmade: list[CallRow] = field(default_factory=list)  # recorded calls a replay did not make
    artifacts: dict[tuple[str, int, str], str] = field(default_factory=dict)
    nested: dict[tuple[str, int], StepRow] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    left: list[StepContext] = field(default_factory=list)  # of steps that started tasks or threads
    spans: list[HookSpan] = field(default_factory=list)
    gate: threading.Lock = field(default_factory=threading.Lock)  # between a step and its tasks
    stop: threading.Event = field(default_factory=threading.Event)  # tells workers to stop
    started: bool = False
    over: bool = False  # what comes later is dropped

    @property
    def past(self) -> Reads:
        """What steps that have ended are read from."""
        return self.plan.past or self.store

    def standing(
        self,
        cells: Cells,
        *,
        seq: int = 0,
        prior: str | None = None,
        visits: Counter[str] | None = None,
    ) -> Session:
        """The session itself, its run's own trajectory at *seq* with the state *cells*."""
        self.track = Track(self, Lane(), cells, seq, prior, visits or Counter())
        return self

    # -- the run ------------------------------------------------------------------------

    def start(self) -> None:
        """Claim the run and tell the hooks.

        Raises:
            RunBusyError: it is being executed already.
        """
        if not _owner.claim(self.run.id):
            raise self._busy()
        try:
            self._write_start()
        except BaseException as error:
            _owner.ACTIVE.discard(self.run.id)
            if isinstance(error, RunBusyError):  # it went on meanwhile, in another process
                raise self._busy() from None
            raise
        self.started = True
        self.spans.append(self.hooks.emit(Event("run_started", self.run.id, self.run.kind)))

    def _write_start(self) -> None:
        track, self.over = self.track, False
        if track.chain is None:
            if track.seq == self.run.at:
                track.chain = self.past.read(chain_at, self.run.parent, track.seq)
            else:
                track.chain = self.store.read(chain_at, self.run.id, track.seq)
        batch, self.opening = self.opening, Batch()
        if self.basis is None:
            self.run = batch.add(self.run)
            self.store.submit(batch, wake=False)
        else:
            batch.claim(self.run, was=self.basis)
            self.store.submit(batch).result()

    def _busy(self) -> RunBusyError:
        return RunBusyError(
            f"Run {self.run.id} is being executed already, or went on meanwhile. Look at it again "
            "with store.run(id).",
            run_id=self.run.id,
        )

    def end(
        self, status: RunStatus, next_action: str | None, note: str | None = None
    ) -> Future[None]:
        """Write the run's tip and root hash, durably."""
        self.over = True
        if self.plan.self_driven or next_action is None:  # no pause of what the user steps
            self.notes += [what for ctx in self.left for what in ctx.left_working()]
        notes = condensed((self.run.note, note, *self.notes, *self.hooks.problems))
        self.run = replace(
            self.run,
            status=status,
            next_action=next_action,
            note="; ".join(notes) or None,
            ended_at=time.time(),
            containers=_kept(self.run.containers, self.code.stable()),
        )
        end = None if self.run.tail is None else self.store.read(tail_end, self.run)
        self.run = replace(self.run, root=root_hash(self.run, self.track.chain or "", end))
        self.basis = self.run
        batch = Batch()
        batch.tip(self.run)
        done = self.store.submit(batch, durable=True)
        _owner.ACTIVE.discard(self.run.id)  # only now: a claim from here on comes after it
        while self.spans:
            self.spans.pop().close()
        self.hooks.emit(Event("run_ended", self.run.id, self.run.kind, status=status)).close()
        return done

    def rest(self, next_action: str | None, failed_by: BaseException | None = None) -> None:
        """Between two steps of an application that the user drives.

        Args:
            failed_by: what the condition raised that was to say what comes next.
        """
        if self.plan.self_driven:
            return
        if failed_by is not None:
            status: RunStatus = "failed" if isinstance(failed_by, Exception) else "interrupted"
            self.end(status, None, error_line(failed_by))
        else:
            self.end("complete" if next_action is None else "halted", next_action)

    def wake(self) -> None:
        """The user drives the application on."""
        if self.run.id not in _owner.ACTIVE:
            with put_off():
                self.run = replace(self.run, status="running", next_action=None, root=None)
                self.start()

    # -- steps --------------------------------------------------------------------------

    @property
    def lags(self) -> bool:
        """Whether its steps go on before they are committed: the runs of an experiment do.

        What they pay for is committed first, and with it all that came before; the rest would
        only have to be computed again.
        """
        return self.run.experiment is not None

    @scope
    def stepping(self) -> Generator[None, None, None]:
        """One step at a time.

        Raises:
            RunBusyError: another step of this run is executing.
        """
        if self.busy:
            raise RunBusyError(
                f"Run {self.run.id} is executing a step already. One application runs one step "
                "at a time; build a second one to run side by side.",
                run_id=self.run.id,
            )
        self.busy = True
        try:
            yield
        finally:
            self.busy = False

    def tell_started(self, row: StepRow) -> HookSpan:
        """Tell the hooks that a step starts; what they return lasts until it is closed."""
        return self.hooks.emit(self._event("step_started", row))

    def tell_ended(self, row: StepRow) -> None:
        """Tell the hooks how a step ended."""
        event = self._event(
            "step_ended",
            row,
            source=row.source,
            status=row.status,
            latency_s=row.duration_s,
            usage=row.usage,
            hash=row.hash,
            error=row.error.type if row.error else None,
        )
        self.hooks.emit(event).close()

    def _event(self, name: str, row: StepRow, **facts: Any) -> Event:
        return Event(
            name,
            row.run_id,
            self.run.kind,
            seq=row.seq,
            action=row.action,
            visit=row.visit,
            path=row.path,
            **facts,
        )

    def note(self, said: str | None) -> None:
        """Remember what there is to say of the run."""
        self.notes += [said] if said else []

    def closed(self, row: StepRow) -> None:
        """Remember what ended inside a top-level step, for who compares it with a recording."""
        if row.path:
            self.nested[row.path, row.seq] = row


Containers = dict[str, dict[str, str]]


def _kept(before: Containers | None, now: Containers) -> Containers:
    """The containers that nothing changed, in what was resumed and before."""
    kept: Containers = {**(before or {}), **now}
    for action, names in (before or {}).items():
        for name, digest in names.items():
            if kept[action].get(name, digest) != digest:
                kept[action] = {**kept[action], name: ""}
    return kept
