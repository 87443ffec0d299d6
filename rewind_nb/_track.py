"""`Track`: one trajectory while it is recorded, the run's own or that of a task inside a step.

It opens each step, or puts in what a recording or an override has for it, and moves on::

    open      the state entering it, its inputs (each a fresh copy), what its recording
              answered; an open row is queued, so that a crash leaves a trace
    put_in    nothing executes: the output of an override, or of a finished step, is applied
    close     the row is committed; on success the next step stands after it

Nothing here knows Burr: `_burr` translates.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rewind_nb._cells import Cell, Cells, Reader, manifest_of
from rewind_nb._edits import entering, update_between
from rewind_nb._lane import Lane
from rewind_nb._model import Override, Source, StepRow, Usage
from rewind_nb._open_step import OpenStep
from rewind_nb._outcome import (
    Applied,
    Made,
    RouteOf,
    TaskTip,
    cells_after,
    encoded_overrides,
    step_hash,
)
from rewind_nb._signals import put_off
from rewind_nb._store import Batch, Content, _read
from rewind_nb._store._read import StepKey
from rewind_nb._trajectory import CHECKPOINT_EVERY
from rewind_nb.capture._exchange import DONE
from rewind_nb.capture.artifacts import write_again
from rewind_nb.errors import RunBusyError, RunStoppedError

if TYPE_CHECKING:
    from rewind_nb._session import Session

Inputs = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Put:
    """What is applied at a step instead of executing it.

    Attributes:
        recorded: the step whose output it is, or whose output an override replaces.
        overrides: all that the step was given; those of the state change what enters it.
        origin: the step that really executed, where its output is applied as it was.
        writes: the step's writes; the recorded ones if None.
        result: its result; the recorded one if None.
    """

    recorded: StepRow
    source: Source
    reason: str
    origin: StepKey | None = None
    overrides: Sequence[Override] = ()
    writes: Mapping[str, Cell] | None = None
    result: Cell | None = None


@dataclass(slots=True)
class Track:
    """A trajectory being recorded, and where it stands."""

    session: Session
    lane: Lane
    cells: Cells
    seq: int = 0
    prior: str | None = None
    visits: Counter[str] = field(default_factory=Counter)
    chain: str | None = None
    attempt: int | None = None  # inside a task: that of the top-level step it is in
    owner: OpenStep | None = None  # inside a task: the step that it is in
    last: StepRow | None = None
    graph: Content | None = None  # inside a task: what its application is, encoded
    opened: OpenStep | None = None
    because: str | None = None  # why the next step executes, in a fork
    made: list[Made] = field(default_factory=list)  # the calls of its steps

    def open(self, action: str, cells: Cells, inputs: Inputs, code: Any) -> OpenStep:
        """Open the next step. *inputs* are encoded here, and the action gets its own copies.

        Args:
            code: the fingerprint of the action's code, None if it is unknown.

        Raises:
            NotEncodableError: an input cannot be stored; the path is ``@inputs.<name>``.
            RunBusyError: a step of this trajectory is executing.
        """
        if self.opened is not None:
            raise RunBusyError(
                f"Run {self.session.run.id} is executing step {self.opened.row.action!r} already. "
                "Finish it (read its stream to the end, or close it) before the next.",
                run_id=self.session.run.id,
            )
        self._begin()
        plan, visit = self.session.plan, self.visits[action] + 1
        applied = tuple(plan.overrides(self.lane, action, visit))
        given = {name: Cell.of(value, f"@inputs.{name}") for name, value in inputs.items()}
        checkpoint = self.seq % CHECKPOINT_EVERY == 0 or self.seq == self._start
        edited = manifest_of(cells) != manifest_of(self.cells)
        if edited:  # the user put something in between two steps: it belongs to this one
            applied += (Applied(update_between(self.cells, cells), own=False),)
        overrides = [a.override for a in applied]
        edited = edited or any(o.kind in ("state", "update") for o in overrides)
        cells = entering(cells, overrides)
        for override in overrides:
            if override.kind == "inputs":
                given |= {k: Cell.of(v, f"@inputs.{k}") for k, v in override.value.items()}
        row = StepRow(
            run_id=self.session.run.id,
            path=self.lane.path,
            seq=self.seq,
            attempt=self._attempt,
            action=action,
            visit=visit,
            status="open",
            source="live",
            reason=self.because,
            started_at=time.time(),
            inputs=manifest_of(given),
            code=getattr(code, "digest", None),
            hidden_state=getattr(code, "hidden_state", ()),
            graph=self.graph.hash if self.graph is not None and self.seq == 0 else None,
            # a further attempt is read without the first, which may hold the checkpoint
            state=manifest_of(cells) if checkpoint or edited or self._attempt else None,
            override=encoded_overrides(overrides)[0] if overrides else None,
        )
        reader = Reader(cells, None if self.owner is None else self.owner.reader)
        self.opened = OpenStep(self, row, cells, given, applied, reader)
        return self.opened

    def refused(self, action: str, error: BaseException) -> None:
        """The next step could not open: a run that the user drives ends here."""
        session = self.session
        if not (self.lane.path or session.plan.self_driven or isinstance(error, RunBusyError)):
            session.end("failed" if isinstance(error, Exception) else "interrupted", action)

    def _begin(self) -> None:
        session = self.session
        if self.lane.path and (self.cut or session.stop.is_set()):
            if self.owner is not None and not session.stop.is_set():
                self.owner.ctx.note_late(f"another step in {self.lane.path}")
            raise RunStoppedError(f"Run {session.run.id} was stopped.")
        if not self.lane.path:
            session.wake()
            session.nested.clear()
            session.artifacts.clear()

    @property
    def _start(self) -> int:
        return 0 if self.lane.path else self.session.run.at

    @property
    def _attempt(self) -> int:
        if self.attempt is not None:
            return self.attempt
        return self.session.plan.attempts.get(self.seq, 0)

    def task(self, step: OpenStep, key: str, cells: Cells, graph: Content) -> Track:
        """The trajectory of a task inside a step that is open."""
        row = step.row
        lane = self.lane.task(row.action, row.visit, key)
        return Track(
            self.session, lane, cells, chain="", attempt=row.attempt, owner=step, graph=graph
        )

    @property
    def tip(self) -> TaskTip:
        """What its step remembers of it: how many steps, and the hash over them."""
        last = self.last
        ended = self.seq + (last is not None and last.status != "complete")
        return ended, "" if last is None else last.chain

    # -- steps that are not executed ------------------------------------------------------

    def instead(self, action: str, original: Any) -> Any:
        """What the next step executes instead of an action, with its code; None for itself."""
        given = self.session.plan.instead
        return given and given(self.lane.path, action, self.visits[action] + 1, original)

    def planned(self, action: str, inputs: Inputs, code: Any) -> Put | None:
        """What is to be applied at the next step, if it is *action*, instead of executing it.

        Where nothing is, why it executes is remembered for its row.
        """
        decided = self.session.plan.decide(self, action, self.visits[action] + 1, inputs, code)
        if isinstance(decided, Put):
            return decided
        self.because = decided
        return None

    def put_in(self, put: Put, route: RouteOf) -> StepRow:
        """Record a step whose output is given; nothing executes."""
        self._begin()
        recorded = put.recorded
        cells = entering(self.cells, put.overrides)
        batch = Batch()
        overrides = None
        if put.overrides:
            overrides, data = encoded_overrides(put.overrides)
            batch.content(data)
        for key, cell in cells.items():
            if cell.new and cell is not self.cells.get(key):
                batch.content(cell.content)
        past = self.session.past
        stored = {k: Cell(h, store=past) for k, h in recorded.writes}
        written = stored if put.writes is None else put.writes
        for cell in (*written.values(), *([put.result] if put.result else [])):
            if cell.new:
                batch.content(cell.content)
        after = cells_after(cells, recorded.deleted, written)
        seen: dict[str, Any] = {}
        if put.origin is not None:  # what it looked at is what the one looked at that executed
            seen = {"reads": recorded.reads, "reads_all": recorded.reads_all}
            seen |= {"stream": recorded.stream, "uncaptured": recorded.uncaptured}
            seen |= {"hidden_state": recorded.hidden_state}
        row = StepRow(
            run_id=self.session.run.id,
            path=self.lane.path,
            seq=self.seq,
            attempt=self._attempt,
            action=recorded.action,
            visit=self.visits[recorded.action] + 1,
            status="complete",
            source=put.source,
            reason=put.reason,
            started_at=time.time(),
            duration_s=0.0,
            inputs=recorded.inputs,
            writes=manifest_of(written),
            deleted=recorded.deleted,
            result=recorded.result if put.result is None else put.result.hash,
            usage=Usage(0, 0),
            code=recorded.code,
            state=manifest_of(cells),
            override=overrides,
            origin=put.origin,
            graph=recorded.graph,
            tasks=recorded.tasks if put.origin else (),
            transition=route(recorded.action, after).to_dict(),
            **seen,
        )
        if put.source == "reused" and put.origin is not None:
            self._write_artifacts(put.origin, row)
        with put_off():
            row, done = self.close(row, batch, after)
            self.session.tell_started(row).close()
            self.session.tell_ended(row)
        if not self.session.lags:
            done.result()
        return row

    def _write_artifacts(self, origin: StepKey, row: StepRow) -> None:
        """Write the files of a step that is taken over, those of its tasks too."""
        session, place = self.session, self.lane.place(row.action, row.visit)
        for made in session.store.read(_read.artifacts_made_by, origin, place):
            session.note(write_again(session.store, made, row.run_id))

    # -- the end of a step ----------------------------------------------------------------

    def close(
        self, row: StepRow, batch: Batch, after: Cells | None
    ) -> tuple[StepRow, Future[None]]:
        """Commit the final row of a step and move on (or, on failure, stay)."""
        row = batch.replace(row, after=self.chain or "", hash=step_hash(row))
        with self.session.gate:  # its step may be ending: then it counts, or it is dropped
            self.opened = None
            if self.cut:
                return row, DONE
            self._advance(row, after)
        return row, self.session.store.submit(batch, wake=not self.session.lags)

    @property
    def cut(self) -> bool:
        """Whether what it still brings is dropped: the run, or the step it is in, has ended."""
        owner = self.owner
        return self.session.over or (owner is not None and (owner.closed or owner.track.cut))

    def _advance(self, row: StepRow, after: Cells | None) -> None:
        self.last = row
        self.session.closed(row)
        if after is not None:
            self.cells = after
            self.prior = row.action
            self.visits[row.action] = row.visit
            self.seq += 1
            self.chain = row.chain
        elif self.attempt is None:  # tried again, it is another attempt
            self.session.plan.attempts[self.seq] = row.attempt + 1
