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
from typing import Any

from rewind_nb import _codec, _owner
from rewind_nb._cells import Cell, Cells, Reader, manifest_of
from rewind_nb._hooks import Hooks, HookSpan
from rewind_nb._model import (
    CacheMode,
    Event,
    Override,
    RunRow,
    RunStatus,
    Source,
    StepRow,
    Usage,
)
from rewind_nb._store import Batch, Store, _read
from rewind_nb._store._schema import chain_hash, root_hash, seal
from rewind_nb._store._verify import chain_at, tail_end
from rewind_nb._trajectory import CHECKPOINT_EVERY, after_step
from rewind_nb.capture._context import (
    MODEL_OVERRIDES,
    TOOL_OVERRIDES,
    CallOverride,
    RecordedCalls,
    StepContext,
    step_scope,
)
from rewind_nb.capture._errors import describe
from rewind_nb.errors import OverrideNotConsumedError, RunBusyError

Inputs = Mapping[str, Any]
DeletionRule = dict[str, list[str]] | None


@dataclass(frozen=True, slots=True)
class Route:
    """The way on from a step: the transition taken, and what its conditions read."""

    to: str | None = None
    condition: str | None = None
    reads: tuple[tuple[str, str | None], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As it is stored with the step."""
        return {"to": self.to, "condition": self.condition, "reads": self.reads}


@dataclass(frozen=True, slots=True)
class Applied:
    """An override as a step gets it; *own* is false where a parent had it already."""

    override: Override
    own: bool


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
    code: Mapping[str, Any]  # action -> CodeFingerprint
    seq: int = 0
    prior: str | None = None
    visits: Counter[str] = field(default_factory=Counter)
    chain: str | None = None
    busy: bool = False  # a step is executing
    misses: list[Exception] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    spans: list[HookSpan] = field(default_factory=list)
    last: StepRow | None = None

    # -- the run ------------------------------------------------------------------------

    def start(self, *, new: bool) -> None:
        """Claim the run and tell the hooks."""
        _owner.ACTIVE.add(self.run.id)
        if self.chain is None:
            inherited = self.seq == self.run.at
            self.chain = self.store.read(
                chain_at, self.run.parent if inherited else self.run.id, self.seq
            )
        batch = Batch()
        if new:
            self.run = seal(self.run)
            batch.add(self.run)
        batch.tip(self.run)
        self.store.submit(batch, wake=False)
        self.spans.append(self.hooks.emit(Event("run_started", self.run.id, self.run.kind)))

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
        )
        end = self.store.read(tail_end, self.run)
        self.run = replace(self.run, root=root_hash(self.run, self.chain or "", end))
        batch = Batch()
        batch.tip(self.run)
        done = self.store.submit(batch, durable=True)
        _owner.ACTIVE.discard(self.run.id)
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
            self.start(new=False)

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
        for override in (a.override for a in applied):
            if override.kind == "state":
                cells = {**cells, **{k: Cell.of(v, k) for k, v in override.value.items()}}
                edited = True
            elif override.kind == "inputs":
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
            override=encoded_overrides([a.override for a in applied])[0] if applied else None,
        )
        return OpenStep(self, row, cells, given, applied)

    def apply(
        self,
        action: str,
        recorded: StepRow,
        route: RouteOf,
        *,
        override: str | None,
        writes: Mapping[str, Cell] | None = None,
        result: Cell | None = None,
    ) -> None:
        """Record a step whose output an override supplies; nothing executes.

        Args:
            recorded: the step whose output it replaces, or one that was applied before.
            override: value hash of the overrides.
            writes: the step's writes; the recorded ones if None.
        """
        cells = dict(self.cells)
        batch = Batch()
        stored = {k: Cell(h, store=self.store) for k, h in recorded.writes}
        written = stored if writes is None else writes
        for cell in (*written.values(), *([result] if result else [])):
            if cell.loaded:
                batch.content(cell.content.data)
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
            override=override,
        )
        after = _after(cells, row.deleted, written)
        taken = route(action, after)
        row = replace(row, hash=step_hash(row), transition=taken.to_dict())
        self._close(row, batch, after).result()

    def _close(self, row: StepRow, batch: Batch, after: Cells | None) -> Future[None]:
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
        return self.store.submit(batch)


RouteOf = Callable[[str, Cells], Route]


@dataclass(slots=True)
class OpenStep:
    """One attempt at one step, from its opening to its end."""

    session: Session
    row: StepRow
    cells: Cells
    given: Cells
    applied: Sequence[Applied]
    reader: Reader = field(init=False)
    ctx: StepContext = field(init=False)
    began: float = field(init=False)
    span: HookSpan = field(init=False)

    def __post_init__(self) -> None:
        session, row = self.session, self.row
        self.reader = Reader(self.cells)
        self.began = time.monotonic()
        recorded = session.plan.recorded(row.action, row.visit)
        calls = None if recorded is None else self._recorded_calls(recorded)
        self.ctx = StepContext(
            store=session.store,
            run_id=row.run_id,
            run_kind=session.run.kind,
            path=row.path,
            seq=row.seq,
            attempt=row.attempt,
            action=row.action,
            visit=row.visit,
            cache=session.plan.cache,
            epoch=session.plan.epoch,
            recorded=calls,
            recorded_key=None if recorded is None else step_key(recorded),
            strict=session.plan.strict,
            overrides=_call_overrides(self.applied, calls),
            cache_key=session.plan.cache_key,
            emit=session.hooks.emit,
        )
        batch = Batch()
        if self.applied:
            batch.content(encoded_overrides([a.override for a in self.applied])[1])
        for cell in self.given.values():
            batch.content(cell.content.data)
        if row.state is not None:
            for cell in self.cells.values():
                if cell.loaded:
                    batch.content(cell.content.data)
        batch.replace(seal(row))
        session.store.submit(batch, wake=False)
        self.span = session.hooks.emit(self._event("step_started"))

    def _recorded_calls(self, recorded: StepRow) -> RecordedCalls:
        if recorded.live_calls + recorded.played_calls == 0 and recorded.status == "complete":
            return RecordedCalls(())
        rows = self.session.store.read(_read.call_rows, step_key(recorded))
        # a step that failed asks again: its answers may be why it failed
        serve = self.session.plan.strict or recorded.status != "failed"
        return RecordedCalls(rows, serve=serve)

    @property
    def inputs(self) -> dict[str, Any]:
        """The action's own copies of its inputs."""
        return {name: cell.fresh() for name, cell in self.given.items()}

    @contextlib.contextmanager
    def activate(self) -> Iterator[None]:
        """Make this the current step of the running context."""
        with step_scope(self.ctx):
            yield

    # -- how it ends ----------------------------------------------------------------------

    def complete(
        self, result: Any, writes: Mapping[str, Any], deleted: DeletionRule, route: RouteOf
    ) -> Future[None]:
        """Record what the action returned; wait for the future before going on.

        Raises:
            NotEncodableError: a write or the result cannot be stored exactly.
            OverrideNotConsumedError: nothing used the override of this step.
        """
        session, ctx = self.session, self.ctx
        written = {key: Cell.of(value, key) for key, value in writes.items()}
        for key, cell in self.reader.mutated().items():
            if key not in written and key in _after(self.cells, deleted, {}):
                written[key] = cell
        stored_result = Cell.of(result, "@result")
        after = _after(self.cells, deleted, written)
        taken = route(self.row.action, after)
        self._check_consumed(taken)
        batch = ctx.batch
        for key, cell in written.items():
            before = self.cells.get(key)
            like = before.content if before is not None and before.loaded else None
            batch.content(cell.content.data, like)
        batch.content(stored_result.content.data)
        for call, place in ctx.offers:
            batch.playable(call, place)
        row = replace(
            self._measured(),
            status="complete",
            writes=tuple((k, written[k].hash) for k in after if k in written),
            deleted=deleted,
            result=stored_result.hash,
            transition=taken.to_dict(),
        )
        row = replace(row, source=step_source(ctx), hash=step_hash(row))
        done = session._close(row, batch, after)  # noqa: SLF001
        session.misses += ctx.misses
        session.notes += self._other_models()
        self._ended(row)
        session.rest(taken.to)
        return done

    def fail(self, error: BaseException) -> Future[None]:
        """Record that the action raised; the exception itself is the caller's to pass on."""
        session = self.session
        interrupted = not isinstance(error, Exception)
        row = replace(
            self._measured(),
            status="interrupted" if interrupted else "failed",
            error=describe(error, with_traceback=True),
        )
        row = replace(row, source=step_source(self.ctx), hash=step_hash(row))
        session.misses += self.ctx.misses
        done = session._close(row, self.ctx.batch, None)  # noqa: SLF001
        self._ended(row)
        if not session.plan.self_driven:
            session.end(row.status if row.status != "complete" else "failed", row.action)  # type: ignore[arg-type]
        return done

    def _measured(self) -> StepRow:
        calls = self.ctx.calls
        live = [c for c in calls if c.source == "live"]
        return replace(
            self.row,
            reads=tuple(self.reader.reads.items()),
            reads_all=self.reader.reads_all,
            duration_s=time.monotonic() - self.began,
            usage=_sum([c.usage for c in live if c.kind == "model"]),
            live_calls=len(live),
            played_calls=len(calls) - len(live),
        )

    def _check_consumed(self, taken: Route) -> None:
        """Refuse to complete a step that did not use what it was given to use."""
        for given in self.ctx.overrides:
            if given.own and not given.consumed:
                kind, call = given.override.kind, given.override.call
                raise self._unused(kind, f"it did not make its call {call} this time")
        seen = {*self.reader.reads, *(key for key, _ in taken.reads)}
        for override in (a.override for a in self.applied if a.own):
            missed = (
                [k for k in override.value if k not in seen] if override.kind == "state" else []
            )
            if missed:
                names = ", ".join(map(repr, missed))
                raise self._unused("state", f"it did not read {names} this time")

    def _other_models(self) -> list[str]:
        """What to say where a ``model=`` was answered by another model."""
        if not any(a.override.kind in ("model", "params") for a in self.applied):
            return []
        return [
            f"asked {call.model}, answered by {call.answered_by}"
            for call in self.ctx.calls
            if call.model and call.answered_by and call.model != call.answered_by
        ]

    def _unused(self, kind: str, why: str) -> OverrideNotConsumedError:
        live = [c for c in self.ctx.calls if c.source == "live"]
        spent = _sum([c.usage for c in live if c.kind == "model"])
        return OverrideNotConsumedError(
            f"The override {kind}= of step {self.row.seq} {self.row.action!r} was not consumed: "
            f"{why}. Spent before this was known: {len(live)} live call(s), {spent}.",
            override=kind,
            live_calls=len(live),
            usage=spent,
        )

    def _ended(self, row: StepRow) -> None:
        self.span.close()
        self.session.hooks.emit(
            self._event(
                "step_ended",
                source=row.source,
                status=row.status,
                latency_s=row.duration_s,
                usage=row.usage,
                hash=row.hash,
                error=row.error.type if row.error else None,
            )
        ).close()

    def _event(self, name: str, **facts: Any) -> Event:
        row = self.row
        return Event(
            name,
            row.run_id,
            self.session.run.kind,
            seq=row.seq,
            action=row.action,
            visit=row.visit,
            **facts,
        )


def step_key(row: StepRow) -> _read.StepKey:
    """What addresses an attempt in the store."""
    return (row.run_id, row.path, row.seq, row.attempt)


def step_hash(row: StepRow) -> str:
    """What a step did: its writes, deletion rule, result and error, and where it stands.

    No reads, inputs, calls, source, code, run id or time.
    """
    error = None if row.error is None else [row.error.type, row.error.message]
    did = [row.path, row.action, row.visit, row.writes, row.deleted, row.result, error]
    return _codec.digest(_codec.encode(did))


def step_source(ctx: StepContext) -> Source:
    """`live` if any call was live or there was none; else where its answers came from."""
    sources = [call.source for call in ctx.calls]
    if "live" in sources:
        return "live"
    if not sources:
        unchanged = ctx.artifacts and all(a.source == "render-cache" for a in ctx.artifacts)
        return "render-cache" if unchanged else "live"
    return "tool-cache" if set(sources) == {"tool-cache"} else "cache"


def _after(before: Cells, deleted: DeletionRule, written: Cells) -> dict[str, Cell]:
    cells = {**before, **written}
    manifest = after_step(manifest_of(before), deleted, manifest_of(written))
    return {key: cells[key] for key, _ in manifest}


def _sum(usages: Sequence[Usage | None]) -> Usage | None:
    """The total; None as soon as one part is unknown."""
    total: Usage | None = None
    for usage in usages:
        if usage is None or usage.total_tokens is None:
            return None
        total = usage if total is None else total + usage
    return Usage(0, 0) if total is None else total


def _call_overrides(
    applied: Sequence[Applied], calls: RecordedCalls | None
) -> tuple[CallOverride, ...]:
    """The overrides of calls, each at the position of the recorded call it addresses."""
    placed = []
    for item in applied:
        kind = item.override.kind
        if kind in MODEL_OVERRIDES or kind in TOOL_OVERRIDES:
            family = "model" if kind in MODEL_OVERRIDES else "tool"
            rows = [] if calls is None else calls.logical(family)
            if item.override.call < len(rows):
                row = rows[item.override.call]
                placed.append(CallOverride(item.override, row.branch, row.ordinal, item.own))
    return tuple(placed)


def encoded_overrides(overrides: Sequence[Override]) -> tuple[str, bytes]:
    """Overrides as they are stored: the hash and the encoding."""
    names = ("kind", "value", "call", "callback")
    data = _codec.encode([{n: getattr(o, n) for n in names} for o in overrides], path="override")
    return _codec.digest(data), data
