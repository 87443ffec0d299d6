"""The seam every captured call goes through: open, answer, record.

Deciding where an answer comes from is done in one place, `open_call`; the callers (HTTP,
tools, clock) only carry out what it decided, once for sync and once for async code.

Lookup, in this order:

1. the recorded step's call at this identity (in a replay: the attempt itself, in order,
   failures included, and nothing else);
2. the newest well-formed answer in the store at (place, fingerprint, n, epoch);
3. live.

`refresh` and `off` skip 1 and 2; `replay` refuses at 3 before any byte leaves.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from rewind_nb import _codec
from rewind_nb._model import ASKED, CallKind, CallRow, ErrorInfo, Source, Usage
from rewind_nb._store import _read
from rewind_nb.capture._context import Identity, Span, StepContext, _branch, _parent_call
from rewind_nb.capture._errors import describe, revive
from rewind_nb.capture._miss import cache_miss

NOTHING = object()
Flight = tuple[str, str, str, int, int]  # kind, place, fingerprint, n, epoch
DONE: Future[None] = Future()  # where nothing is to be waited for
DONE.set_result(None)


@dataclass(slots=True)
class Request:
    """What is asked, in canonical form.

    Attributes:
        body: the canonical request, encodable, without secrets.
        key: what the fingerprint covers; the body, unless a hook dropped something.
        parts: further parts of the fingerprint, each hashed with its length.
        shared: whether answers may come from other runs (`@tool(cache=False)`: no).
    """

    kind: CallKind
    name: str
    body: Any
    key: Any
    parts: tuple[str, ...] = ()
    model: str | None = None
    shared: bool = True
    effect: bool = False  # a tool that acts on the world
    scope: str = ""  # what other runs must have in common to play it back


@dataclass(slots=True)
class Answer:
    """What came back, ready to be recorded."""

    body: Any
    playable: bool
    counts: bool = True  # false for an error status: the next request is the same call
    answered_by: str | None = None
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, encoded and identified."""

    request: Request
    body: bytes
    key: bytes
    identity: Identity


@dataclass(slots=True)
class OpenCall:
    """A call between its request and its answer."""

    ctx: StepContext
    row: CallRow
    place: str
    started: float
    span: Span
    attempt_at: Any
    asked: Asked
    flight: Flight | None = None  # what it may share with other runs that ask it now
    land: Callable[[CallRow | None], None] | None = None  # tells those who wait for it
    flies: bool = False  # it went out, and is not answered yet
    ticket: int | None = None  # what its experiment's meter lets it through by
    announced: bool = False  # written down as started
    answer: Any = NOTHING  # played back: the recorded body, or what came of it
    error: Exception | None = None  # played back: the recorded failure

    @property
    def played(self) -> bool:
        """Whether the answer came from a recording (or an override)."""
        return self.answer is not NOTHING or self.error is not None


def fingerprint(request: Request, key: bytes) -> str:
    """A hash over the canonical request and its parts, each prefixed with its length.

    Length prefixes keep two splits of the same text apart.
    """
    digest = hashlib.sha256()
    for part in (request.kind.encode(), *(p.encode() for p in request.parts), key):
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.hexdigest()


def identify(ctx: StepContext, request: Request) -> Asked:
    """Encode and fingerprint a request.

    Raises:
        NotEncodableError: it cannot be stored.
    """
    body = _codec.encode(request.body, path=f"@calls[{ctx.next_idx}].request")
    key = body if request.key is request.body else _codec.encode(request.key, path="cache_key()")
    return Asked(request, body, key, (request.kind, _branch.get(), fingerprint(request, key)))


def open_call(
    ctx: StepContext,
    asked: Asked,
    ordinal: int,
    *,
    attempt_at: Any = None,
    override: Any = NOTHING,
    executes: bool = False,
) -> OpenCall:
    """Open a call and decide where its answer comes from.

    Args:
        ordinal: its position, from `StepContext.position`.
        attempt_at: what that position was asked for.
        override: an answer that takes the place of any other.
        executes: make the call whatever is recorded, for an override inside it.

    Raises:
        CacheMissError: the mode is `replay` and the call was not recorded.
        SecretLeakError: the request holds a registered secret.
    """
    ctx.check_stopped()
    request, branch = asked.request, asked.identity[1]
    n = ctx.sample(asked.identity, ordinal)
    with ctx.lock:
        nth = ctx.asked[asked.identity]
        ctx.asked[asked.identity] += 1
        idx, ctx.next_idx = ctx.next_idx, ctx.next_idx + 1
        row = CallRow(
            run_id=ctx.run_id,
            path=ctx.path,
            seq=ctx.seq,
            attempt=ctx.attempt,
            idx=idx,
            kind=request.kind,
            name=request.name,
            branch=branch,
            ordinal=ordinal,
            fingerprint=asked.identity[2],
            n=n,
            epoch=ctx.epoch,
            request=ctx.batch.content(asked.body, path=f"@calls[{idx}].request").hash,
            key=ctx.batch.content(asked.key, path="cache_key()").hash,
            status="started",
            source="live",
            started_at=time.time(),
            parent=_parent_call.get(),
            model=request.model,
        )
    place = f"{ctx.place}{branch}{request.scope}"
    span = ctx.emit(ctx.event("call_started", row.kind, index=row.idx, model=row.model))
    call = OpenCall(ctx, row, place, time.monotonic(), span, attempt_at, asked)
    if override is not NOTHING:
        call.answer = override
        call.row = replace(row, source="override")
        return call
    found, foreign = (None, False) if executes else _recorded(call, nth, request)
    if found is not None:
        _play(call, found, foreign=foreign)
    elif not executes and (ctx.strict or ctx.cache == "replay"):
        miss = cache_miss(ctx, row, request.body)
        ctx.misses.append(miss)
        raise miss
    if _shares(ctx, request) and not call.played and not executes:
        call.flight = (row.kind, place, row.fingerprint, row.n, row.epoch)
    return call


def reserve(call: OpenCall) -> None:
    """Take the place of a model call in the budget of its experiment.

    Raises:
        RunStoppedError: there is none left; the run can be resumed with another budget.
    """
    ctx, row, request = call.ctx, call.row, call.asked.request
    if ctx.meter is None or row.kind != "model":
        return
    rows = () if ctx.recorded is None else ctx.recorded.rows
    here = (row.kind, row.branch, row.ordinal)
    like = next((r.usage for r in rows if (r.kind, r.branch, r.ordinal) == here), None)
    body = request.body.get("body") if isinstance(request.body, dict) else None
    call.ticket = ctx.meter.reserve(row.model, body, like)
    if call.ticket is None:
        call.span.close()
        raise ctx.refused(f"The experiment was stopped: {ctx.meter.reached}.")


def _recorded(call: OpenCall, nth: int, request: Request) -> tuple[CallRow | None, bool]:
    ctx, row = call.ctx, call.row
    with ctx.lock:
        found = _of_this_step(ctx, row, nth, request)
    if found is not None or not _shares(ctx, request):
        return found, False
    identity = (call.place, row.fingerprint, row.n, row.epoch)
    return ctx.store.read(_read.playable_call, row.kind, identity, not_of=ctx.run_id), True


def _shares(ctx: StepContext, request: Request) -> bool:
    """Whether the answer may come from another run."""
    shared = request.shared and request.kind in ASKED
    return shared and ctx.cache == "auto" and not ctx.strict


def _of_this_step(ctx: StepContext, row: CallRow, nth: int, request: Request) -> CallRow | None:
    """The answer in the recording of the step."""
    recorded, asked = ctx.recorded, (row.kind, row.branch, row.fingerprint)
    if recorded is None:
        return None
    if ctx.strict:
        return recorded.exactly(*asked, nth)
    if not (ctx.plays_back or request.effect):
        return None
    found = recorded.answered(*asked, row.n, always=request.effect)
    if found is None and request.effect and ctx.run_kind == "fork":
        return recorded.failed(*asked, nth)
    return found


def play_from(call: OpenCall, found: CallRow) -> None:
    """Take the answer that another run got meanwhile."""
    _play(call, found, foreign=True)


def _play(call: OpenCall, found: CallRow, *, foreign: bool) -> None:
    store = call.ctx.store
    if store.content(found.key).data != call.asked.key:  # the same hash of another request
        return
    origin = f"{found.run_id}/{found.path}{found.seq}.{found.attempt}/{found.idx}"
    source: Source = "tool-cache" if found.kind == "tool" else "cache"
    source = "refused" if found.source == "refused" else source
    call.row = replace(
        call.row,
        source=source,
        replayed_from=found.replayed_from if found.replayed_from and not foreign else origin,
        answered_by=found.answered_by,
        usage=found.usage,
        playable=found.playable,
    )
    if found.response is not None:
        call.answer = store.value(found.response, strict=True)
    if found.error is not None:
        call.error = revive(found.error)


def complete(call: OpenCall, answer: Answer) -> Future[None]:
    """Record a call's answer; the future is done when what was paid for is durable."""
    ctx = call.ctx
    live = call.row.source == "live"
    body = _codec.encode(answer.body, path=f"@calls[{call.row.idx}].response")
    with ctx.lock:
        if ctx.closed:  # its step has ended without it
            return _dropped(call)
        row = _written(
            call,
            status="complete",
            response=ctx.batch.content(body, path=f"@calls[{call.row.idx}].response").hash,
            playable=answer.playable,
            answered_by=answer.answered_by,
            usage=answer.usage,
        )
        if answer.counts:
            ctx.settle(row, call.attempt_at)
        if row.playable and live and row.kind in ASKED and ctx.cache != "off":
            ctx.offers.append((row, call.place))
    _end(call, row)
    done = _committed(ctx, paid=live and row.kind in ASKED)
    _landed(call, row if row.playable else None)
    return done


def fail(
    call: OpenCall, error: BaseException, *, usage: Usage | None = None, partial: Any = NOTHING
) -> Future[None]:
    """Record that a call got no answer, or only part of one; done when that is durable."""
    ctx = call.ctx
    info: ErrorInfo = describe(error)
    came = None if partial is NOTHING else _codec.encode(partial)
    with ctx.lock:
        if ctx.closed:  # its step has ended without it
            return _dropped(call)
        row = _written(
            call,
            status="failed",
            response=None if came is None else ctx.batch.content(came).hash,
            playable=False,
            error=info,
            usage=usage,
        )
    _end(call, row)
    _landed(call, None)
    return _committed(ctx, paid=row.source == "live")


def _written(call: OpenCall, **ended: Any) -> CallRow:
    """The row of a call that ended, in the batch of its step, which is locked."""
    ctx = call.ctx
    write = ctx.batch.replace if call.announced else ctx.batch.add
    row = write(call.row, latency_s=time.monotonic() - call.started, **ended)
    ctx.calls.append(row)
    return row


def _landed(call: OpenCall, row: CallRow | None) -> None:
    """Tell who waits for this call; its answer is on its way to the store."""
    if call.flies:
        with call.ctx.lock:
            call.flies, call.ctx.flying = False, call.ctx.flying - 1
    if call.land is not None:
        call.land(row)
        call.land = None


def _dropped(call: OpenCall) -> Future[None]:
    _landed(call, None)
    call.span.close()
    if call.row.source == "live" and call.row.kind in ASKED:
        call.ctx.note_late(f"the end of {call.row.kind} call {call.row.name!r}")
    return DONE


def _committed(ctx: StepContext, *, paid: bool) -> Future[None]:
    """Make what was paid for durable before the step goes on; the rest waits for its end."""
    if not paid:
        return DONE
    with ctx.lock:
        ctx.tapes.flush(ctx)
        batch, ctx.batch = ctx.batch, type(ctx.batch)()
    return ctx.store.submit(batch, durable=True)


def _end(call: OpenCall, row: CallRow) -> None:
    if call.ticket is not None and call.ctx.meter is not None:
        call.ctx.meter.settle(call.ticket, row.answered_by or row.model, row.usage)
    call.span.close()
    ended = call.ctx.event(
        "call_ended",
        row.kind,
        index=row.idx,
        model=row.model,
        source=row.source,
        status=row.status,
        latency_s=row.latency_s,
        usage=row.usage,
        error=row.error.type if row.error else None,
    )
    call.ctx.emit(ended).close()
