"""`OpenStep`: one attempt at one step, from its opening to its end."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rewind_nb import _codec
from rewind_nb._answering import is_other_model, other_model_note
from rewind_nb._cells import Cell, Cells, Reader, manifest_of
from rewind_nb._describe import plural
from rewind_nb._hooks import HookSpan
from rewind_nb._model import ASKED, ArtifactRow, StepRow
from rewind_nb._outcome import (
    Applied,
    DeletionRule,
    Made,
    Route,
    RouteOf,
    call_overrides,
    cells_after,
    encoded_overrides,
    step_key,
    step_source,
    sum_usage,
)
from rewind_nb._scope import scope
from rewind_nb._signals import put_off
from rewind_nb._store import Batch, Content, _read
from rewind_nb._store._leaks import refuse_secrets
from rewind_nb._trajectory import executed, survives
from rewind_nb.capture import _leaving
from rewind_nb.capture._context import RecordedCalls, StepContext, current_branch, step_scope
from rewind_nb.capture._errors import describe, scrubbed
from rewind_nb.capture._exchange import DONE
from rewind_nb.capture._tape import is_tape
from rewind_nb.capture.http import close_streams
from rewind_nb.errors import OverrideNotConsumedError, RunStoppedError, SecretLeakError

if TYPE_CHECKING:
    from rewind_nb._session import Session
    from rewind_nb._track import Track


_open: ContextVar[OpenStep | None] = ContextVar("rewind_open_step", default=None)


@dataclass(slots=True)
class OpenStep:
    """One attempt at one step, from its opening to its end."""

    track: Track
    row: StepRow
    cells: Cells
    given: Cells
    applied: Sequence[Applied]
    reader: Reader
    tasks: dict[str, Track] = field(default_factory=dict)
    apps: Counter[str] = field(default_factory=Counter)  # built by its action, per branch
    chunks: list[bytes] | None = None  # what it streamed
    closed: bool = False
    ctx: StepContext = field(init=False)
    began: float = field(init=False)
    span: HookSpan = field(init=False)

    def __post_init__(self) -> None:
        session, row = self.session, self.row
        self.began = time.monotonic()
        recorded = session.plan.recorded(self.track.lane, row.action, row.visit)
        if recorded is not None:
            recorded = executed(session.past, recorded)
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
            overrides=call_overrides(self.applied),
            cache_key=session.plan.cache_key,
            emit=session.hooks.emit,
            policy=session.plan.policy,
            meter=session.plan.meter,
            effects=session.plan.effects,
            stop=session.stop,
            late=session.notes,
        )
        batch = Batch()
        if self.applied:
            batch.content(encoded_overrides([a.override for a in self.applied])[1])
        for cell in self.given.values():
            batch.content(cell.content)
        if row.graph is not None and self.track.graph is not None:
            batch.content(self.track.graph)
        if row.state is not None:
            for cell in self.cells.values():
                if cell.new:
                    batch.content(cell.content)
        batch.replace(row)
        session.store.submit(batch, wake=False)
        self.span = session.tell_started(row)

    @property
    def session(self) -> Session:
        """The run it is a step of."""
        return self.track.session

    def _recorded_calls(self, recorded: StepRow) -> RecordedCalls:
        if recorded.calls == 0 and recorded.status == "complete":
            return RecordedCalls(())
        rows = self.session.past.read(_read.call_rows, step_key(recorded))
        # a step that failed asks again: its answers may be why it failed
        serve = self.session.plan.strict or recorded.status != "failed"
        return RecordedCalls(rows, serve=serve)

    @property
    def inputs(self) -> dict[str, Any]:
        """The action's own copies of its inputs."""
        return {name: cell.fresh() for name, cell in self.given.items()}

    @scope
    def activate(self) -> Generator[None, None, None]:
        """Make this the current step of the running context."""
        token = _open.set(self)
        try:
            with step_scope(self.ctx):
                yield
        finally:
            _open.reset(token)

    def task(self, key: str, cells: Cells, graph: dict[str, Any]) -> Track:
        """The trajectory of one of its tasks.

        Args:
            cells: the state it starts with, which stems from the step's own.
            graph: the description of its application.
        """
        data = _codec.encode(graph)
        described = Content(_codec.digest(data), data)
        with self.ctx.lock:
            while key in self.tasks:  # each task has its own, whatever the user called it
                key = f"{key}#"
            track = self.tasks[key] = self.track.task(self, key, cells, described)
        return track

    def working(self) -> list[str]:
        """The keys of the tasks in which a step is executing."""
        return [key for key, track in self.tasks.items() if track.opened is not None]

    def next_app(self) -> str:
        """The key of the next application that its action builds, in this branch."""
        branch = current_branch()
        with self.ctx.lock:
            self.apps[branch] += 1
            return f"{branch}app-{self.apps[branch] - 1}"

    def stream(self, item: Any) -> None:
        """Remember a chunk that goes out.

        Raises:
            NotEncodableError: it cannot be stored; the path is ``@stream[n]``.
            SecretLeakError: it holds a registered secret.
        """
        if self.chunks is None:
            self.chunks = []
        path = f"@stream[{len(self.chunks)}]"
        data = _codec.encode(item, path=path)
        refuse_secrets(data, path)  # before it goes out: a step that fails stores what did
        self.chunks.append(data)

    def told(self, name: str, value: Any) -> None:
        """Record a further input: what the action looked up while it executed."""
        cell = Cell.of(value, f"@inputs.{name}")
        with self.ctx.lock:
            if not self.ctx.closed:
                self.ctx.batch.content(cell.content)
                self.row = replace(self.row, inputs=(*self.row.inputs, (name, cell.hash)))

    def hid(self, what: str) -> None:
        """Name what the action looked at and no record can see."""
        with self.ctx.lock:
            self.row = replace(self.row, hidden_state=(*self.row.hidden_state, what))

    @property
    def ended(self) -> bool:
        """Whether its final row is on its way to the store."""
        return self.track.opened is not self

    # -- how it ends ----------------------------------------------------------------------

    def complete(
        self, result: Any, writes: Mapping[str, Any], deleted: DeletionRule, route: RouteOf
    ) -> Future[None]:
        """Record what the action returned; wait for the future before going on.

        Raises:
            NotEncodableError: a write or the result cannot be stored exactly.
            OverrideNotConsumedError: nothing used the override of this step.
            RunStoppedError: a call was refused because the run is stopped, and the action
                went on without it.
        """
        session, ctx = self.session, self.ctx
        if self.track.cut:
            return self._dropped()
        if ctx.stopped is not None:
            raise RunStoppedError(ctx.stopped)
        written = {key: Cell.of(value, key) for key, value in writes.items()}
        for key, cell in self.reader.mutated().items():
            if key not in written and key in cells_after(self.cells, deleted, {}):
                written[key] = cell
        stored_result = Cell.of(result, "@result")
        after = cells_after(self.cells, deleted, written)
        taken = route(self.row.action, after)
        self._check_consumed(taken, written, deleted)
        close_streams(ctx)
        ctx.close()
        batch = ctx.batch
        for key, cell in written.items():
            before = self.cells.get(key)
            like = before.content if before is not None and before.loaded else None
            batch.content(cell.content, like)
        batch.content(stored_result.content)
        for call, place in ctx.offers:
            batch.playable(call, place)
        row = self._measured(
            status="complete",
            artifacts=ctx.artifacts,
            writes=manifest_of(written),  # in the order written, which a fork gives to new keys
            deleted=deleted,
            result=stored_result.hash,
            transition=taken.to_dict(),
        )
        with put_off():
            row, done = self.track.close(row, batch, after)
            self._over(done)
            self._report()
            session.notes += [*self._other_models(), *ctx.notes]
            self.span.close()
            session.tell_ended(row)
            if not row.path:
                session.rest(taken.to, taken.failed_by)
        return DONE if session.lags else done

    def leave(self, error: BaseException) -> None:
        """Stop what it started, where it was interrupted, and name on *error* what goes on."""
        if not isinstance(error, Exception):
            _leaving.stop(self.ctx, error)

    def fail(self, error: BaseException) -> Future[None]:
        """Record that the action raised; the exception itself is the caller's to pass on."""
        with put_off():
            return self._fail(error)

    def _fail(self, error: BaseException) -> Future[None]:
        session = self.session
        if self.track.cut:
            return self._dropped()
        close_streams(self.ctx)
        with contextlib.suppress(SecretLeakError):  # of a tape, which is left out
            self.ctx.close()
        interrupted = not isinstance(error, Exception)
        row = self._measured(
            status="interrupted" if interrupted else "failed",
            error=describe(error, with_traceback=True),
        )
        self._report()
        row, done = self.track.close(scrubbed(row), self.ctx.batch, None)
        self._over(done)
        self.span.close()
        session.tell_ended(row)
        if not session.plan.self_driven and not row.path:
            session.end(row.status if row.status != "complete" else "failed", row.action)  # type: ignore[arg-type]
        return done

    def _dropped(self) -> Future[None]:
        """It ended when the step that its task is in had ended, or the run."""
        owner, self.track.opened = self.track.owner, None
        self._over(DONE)
        if owner is not None:
            owner.ctx.note_late(f"the end of {self.ctx.place}")
        return DONE

    def _over(self, done: Future[None]) -> Future[None]:
        """It ended; what waits for that is told when it is committed."""
        for told in self.ctx.when_ended:  # which is no look at how it came out
            Future.add_done_callback(done, lambda _, told=told: told())  # type: ignore[misc]
        return done

    @property
    def _made(self) -> list[Made]:
        """The calls of the step and of its tasks; what it read if that is new, or all there is."""
        calls = self.ctx.calls
        calls = [c for c in calls if not is_tape(c) or c.source == "live"] or calls
        own = [(call.kind, call.source) for call in calls]
        return own + [made for track in self.tasks.values() for made in track.made]

    def _report(self) -> None:
        """Tell the session what a replay looks at, and what is to be named at its end."""
        session, ctx = self.session, self.ctx
        session.left += [ctx] if ctx.left_working() else []
        session.misses += ctx.misses
        session.notes += ctx.tapes.notes
        session.artifacts |= {(a.path, a.seq, a.name): a.sha256 for a in ctx.artifacts}
        self.track.made += self._made
        if ctx.strict and ctx.recorded is not None:
            made: Counter[tuple[str, str]] = Counter()  # in whichever branch
            for (kind, _, fingerprint), times in ctx.asked.items():
                made[kind, fingerprint] += times
            for row in ctx.recorded.rows:
                if row.kind in ASKED and row.parent is None:
                    made[row.kind, row.fingerprint] -= 1
                    session.unmade += [row] if made[row.kind, row.fingerprint] < 0 else []

    def _measured(self, *, artifacts: Sequence[ArtifactRow] = (), **ended: Any) -> StepRow:
        """Its row, with what was seen of it and how it ended."""
        tasks = self._ended_tasks()
        calls = self.ctx.calls
        made = [call for call in calls if not is_tape(call)]
        live = [call for call in made if call.source == "live"]
        return replace(
            self.row,
            reads=self.reader.observed(),
            reads_all=self.reader.reads_all,
            duration_s=time.monotonic() - self.began,
            usage=sum_usage([c.usage for c in live if c.kind == "model"]),
            calls=len(calls) + len(self.ctx.announced - {call.idx for call in calls}),
            live_calls=len(live),
            played_calls=sum(call.source in ("cache", "tool-cache") for call in made),
            source=step_source(self._made, artifacts),
            tasks=tasks,
            stream=self._stored_stream(),
            uncaptured=tuple(self.ctx.uncaptured),
            **ended,
        )

    def _ended_tasks(self) -> tuple[tuple[str, int, str], ...]:
        """What its tasks came to; what they bring from here on is dropped."""
        with self.session.gate:
            self.closed = True
            return tuple((key, *track.tip) for key, track in self.tasks.items())

    def _stored_stream(self) -> str | None:
        if self.chunks is None:
            return None
        return self.ctx.batch.content(_codec.listed(self.chunks)).hash

    def _check_consumed(self, taken: Route, written: Cells, deleted: DeletionRule) -> None:
        """Refuse to complete a step that did not use what it was given to use."""
        for given in self.ctx.overrides:
            if given.own and not given.consumed:
                kind, call = given.override.kind, given.override.call
                raise self._unused(kind, f"it did not make its call {call} this time")
        left = {k for k, _ in taken.reads if k not in written and survives(k, deleted)}
        seen = {*self.reader.reads, *left}
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
            other_model_note(call.model, call.answered_by)
            for call in self.ctx.calls
            if is_other_model(call.model, call.answered_by)
        ]

    def _unused(self, kind: str, why: str) -> OverrideNotConsumedError:
        live = [c for c in self.ctx.calls if c.source == "live" and not is_tape(c)]
        spent = sum_usage([c.usage for c in live if c.kind == "model"])
        error = OverrideNotConsumedError(
            f"The override {kind}= of step {self.row.seq} {self.row.action!r} was not consumed: "
            f"{why}.",
            override=kind,
            live_calls=len(live),
            usage=spent,
        )
        # a note, for a replay fails with the same message and spends nothing
        tokens = "unknown" if spent is None else spent.total_tokens
        calls = plural(len(live), "live call")
        error.add_note(f"Spent before this was known: {calls}, tokens: {tokens}.")
        return error


def open_step() -> OpenStep | None:
    """The step that is executing in this context, if any."""
    return _open.get()
