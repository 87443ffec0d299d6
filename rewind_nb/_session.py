"""`Session`: one run while it executes. It opens each step and writes down how it ended.

The order of things for one step, the same for every kind of action::

    open      the state entering it, its inputs (each a fresh copy), what its recording
              answered; an open row is queued, so that a crash leaves a trace
    activate  the step is current in this context: calls made now are its calls
    complete  result, writes, in-place changes and the deletion rule are encoded; the way
              on is decided; the row is committed before the next step starts
    fail      the exception is recorded and passes through

Nothing here knows Burr: `_burr` translates.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from rewind_nb import _owner
from rewind_nb._cells import Cell, Cells, manifest_of
from rewind_nb._hooks import Hooks, HookSpan
from rewind_nb._model import CacheMode, CallRow, Event, Override, RunRow, RunStatus, StepRow, Usage
from rewind_nb._open_step import OpenStep
from rewind_nb._outcome import Applied, RouteOf, cells_after, encoded_overrides, step_hash
from rewind_nb._store import Batch, Store
from rewind_nb._store._schema import chain_hash, root_hash, seal
from rewind_nb._store._verify import chain_at, tail_end
from rewind_nb._trajectory import CHECKPOINT_EVERY
from rewind_nb.errors import RunBusyError

Inputs = Mapping[str, Any]


class Codes(Protocol):
    """What a session needs to know of the actions' code."""

    def get(self, action: str, /) -> Any:
        """The code fingerprint of an action, None if it is unknown."""

    def stable(self) -> dict[str, dict[str, str]]:
        """Per action the containers it refers to, by digest; "" for those that changed."""


@dataclass(slots=True)
class Plan:
    """What a run may take from a recording.

    Attributes:
        recorded: the recorded step at (action, visit), if any.
        overrides: what to override in the step at (seq, action, visit), first to last.
        attempts: which attempt a step is, for those that were tried before.
    """

    cache: CacheMode = "auto"
    strict: bool = False
    epoch: int = 0
    recorded: Callable[[str, int], StepRow | None] = lambda _action, _visit: None
    overrides: Callable[[int, str, int], Sequence[Applied]] = lambda _seq, _action, _visit: ()
    attempts: dict[int, int] = field(default_factory=dict)
    cache_key: Callable[[dict[str, Any]], Any] | None = None
    self_driven: bool = True  # False: the user steps the application


@dataclass(slots=True)
class Session:
    """One executing run and where it stands."""

    store: Store
    run: RunRow
    plan: Plan
    hooks: Hooks
    cells: Cells
    code: Codes
    seq: int = 0
    prior: str | None = None
    visits: Counter[str] = field(default_factory=Counter)
    chain: str | None = None
    basis: RunRow | None = None  # the run as it was read when this was planned
    busy: bool = False  # a step is executing
    misses: list[Exception] = field(default_factory=list)
    unmade: list[CallRow] = field(default_factory=list)  # recorded calls a replay did not make
    artifacts: dict[str, str] = field(default_factory=dict)  # of the last step: name -> sha256
    notes: list[str] = field(default_factory=list)
    spans: list[HookSpan] = field(default_factory=list)
    last: StepRow | None = None

    # -- the run ------------------------------------------------------------------------

    def start(self) -> None:
        """Claim the run and tell the hooks.

        Raises:
            RunBusyError: it is being executed already.
        """
        if not _owner.claim(self.run.id):
            raise self._busy()
        if self.chain is None:
            inherited = self.seq == self.run.at
            self.chain = self.store.read(
                chain_at, self.run.parent if inherited else self.run.id, self.seq
            )
        batch = Batch()
        if self.basis is None:
            self.run = seal(self.run)
            batch.add(self.run)
        else:
            batch.claim(self.run, was=self.basis)
        claimed = self.store.submit(batch, wake=self.basis is not None)
        if self.basis is not None:  # it may have gone on meanwhile, in another process too
            try:
                claimed.result()
            except RunBusyError:
                _owner.ACTIVE.discard(self.run.id)
                raise self._busy() from None
            except BaseException:
                _owner.ACTIVE.discard(self.run.id)
                raise
        self.spans.append(self.hooks.emit(Event("run_started", self.run.id, self.run.kind)))

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
        notes = [n for n in (self.run.note, note, *self.notes, *self.hooks.problems) if n]
        self.run = replace(
            self.run,
            status=status,
            next_action=next_action,
            note="; ".join(dict.fromkeys(notes)) or None,
            ended_at=time.time(),
            containers=self.code.stable(),
        )
        end = self.store.read(tail_end, self.run)
        self.run = replace(self.run, root=root_hash(self.run, self.chain or "", end))
        self.basis = self.run
        batch = Batch()
        batch.tip(self.run)
        done = self.store.submit(batch, durable=True)
        _owner.ACTIVE.discard(self.run.id)  # only now: a claim from here on comes after it
        while self.spans:
            self.spans.pop().close()
        self.hooks.emit(Event("run_ended", self.run.id, self.run.kind, status=status)).close()
        return done

    def rest(self, next_action: str | None) -> None:
        """Between two steps of an application that the user drives."""
        if not self.plan.self_driven:
            self.end("complete" if next_action is None else "halted", next_action)

    def wake(self) -> None:
        """The user drives the application on."""
        if self.run.id not in _owner.ACTIVE:
            self.run = replace(self.run, status="running", next_action=None, root=None)
            self.start()

    # -- steps --------------------------------------------------------------------------

    @contextlib.contextmanager
    def stepping(self) -> Iterator[None]:
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

    def open(self, action: str, cells: Cells, inputs: Inputs) -> OpenStep:
        """Open the next step. *inputs* are encoded here, and the action gets its own copies.

        Raises:
            NotEncodableError: an input cannot be stored; the path is ``@inputs.<name>``.
        """
        self.wake()
        visit = self.visits[action] + 1
        applied = tuple(self.plan.overrides(self.seq, action, visit))
        given = {name: Cell.of(value, f"@inputs.{name}") for name, value in inputs.items()}
        checkpoint = self.seq % CHECKPOINT_EVERY == 0 or self.seq == self.run.at
        edited = manifest_of(cells) != manifest_of(self.cells)
        if edited:  # the user put something in between two steps: it belongs to this one
            applied += (Applied(_update(self.cells, cells), own=False),)
        overrides = [a.override for a in applied]
        edited = edited or any(o.kind in ("state", "update") for o in overrides)
        cells = _entering(cells, overrides)
        for override in overrides:
            if override.kind == "inputs":
                given |= {k: Cell.of(v, f"@inputs.{k}") for k, v in override.value.items()}
        fingerprint = self.code.get(action)
        row = StepRow(
            run_id=self.run.id,
            path="",
            seq=self.seq,
            attempt=self.plan.attempts.get(self.seq, 0),
            action=action,
            visit=visit,
            status="open",
            source="live",
            started_at=time.time(),
            inputs=manifest_of(given),
            code=getattr(fingerprint, "digest", None),
            hidden_state=getattr(fingerprint, "hidden_state", ()),
            state=manifest_of(cells) if checkpoint or edited else None,
            override=encoded_overrides(overrides)[0] if overrides else None,
        )
        return OpenStep(self, row, cells, given, applied)

    def apply(
        self,
        action: str,
        recorded: StepRow,
        route: RouteOf,
        *,
        overrides: Sequence[Override],
        writes: Mapping[str, Cell] | None = None,
        result: Cell | None = None,
    ) -> None:
        """Record a step whose output an override supplies; nothing executes.

        Args:
            recorded: the step whose output it replaces, or one that was applied before.
            overrides: all that the step was given; those of the state change what enters it.
            writes: the step's writes; the recorded ones if None.
        """
        cells = _entering(self.cells, overrides)
        batch = Batch()
        stored_overrides, data = encoded_overrides(overrides)
        batch.content(data)
        for key, cell in cells.items():
            if cell.loaded and cell is not self.cells.get(key):
                batch.content(cell.content)
        stored = {k: Cell(h, store=self.store) for k, h in recorded.writes}
        written = stored if writes is None else writes
        for cell in (*written.values(), *([result] if result else [])):
            if cell.loaded:
                batch.content(cell.content)
        row = StepRow(
            run_id=self.run.id,
            path="",
            seq=self.seq,
            attempt=self.plan.attempts.get(self.seq, 0),
            action=action,
            visit=self.visits[action] + 1,
            status="complete",
            source="override",
            reason="the override supplied its output",
            started_at=time.time(),
            duration_s=0.0,
            inputs=recorded.inputs,
            writes=manifest_of(written),
            deleted=recorded.deleted,
            result=recorded.result if result is None else result.hash,
            usage=Usage(0, 0),
            code=recorded.code,
            state=manifest_of(cells),
            override=stored_overrides,
        )
        after = cells_after(cells, row.deleted, written)
        taken = route(action, after)
        row = replace(row, hash=step_hash(row), transition=taken.to_dict())
        self.close(row, batch, after).result()

    def close(self, row: StepRow, batch: Batch, after: Cells | None) -> Future[None]:
        """Commit the final row of a step and move on (or, on failure, stay)."""
        row = seal(row)
        row = replace(row, chain=chain_hash(self.chain or "", row))
        batch.replace(row)
        self.last = row
        if after is not None:
            self.cells = after
            self.prior = row.action
            self.visits[row.action] = row.visit
            self.seq += 1
            self.chain = row.chain
        else:  # tried again, it is another attempt
            self.plan.attempts[self.seq] = row.attempt + 1
        return self.store.submit(batch)


def _update(before: Cells, now: Cells) -> Override:
    """What a user changed in the state between two steps, as an override."""
    changed = {k: c.fresh() for k, c in now.items() if k not in before or before[k].hash != c.hash}
    return Override("update", {"set": changed, "delete": [k for k in before if k not in now]})


def _entering(cells: Cells, overrides: Sequence[Override]) -> dict[str, Cell]:
    """The state entering a step, with the overrides of it."""
    entering = dict(cells)
    for override in overrides:
        if override.kind == "state":
            entering |= {k: Cell.of(v, k) for k, v in override.value.items()}
        elif override.kind == "update":
            entering = _updated(entering, override.value)
    return entering


def _updated(cells: Cells, update: Mapping[str, Any]) -> dict[str, Cell]:
    kept = {k: c for k, c in cells.items() if k not in update["delete"]}
    return {**kept, **{k: Cell.of(v, k) for k, v in update["set"].items()}}
