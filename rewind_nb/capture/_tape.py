"""Tapes: what a step read of the clock, of chance and of entropy, value by value, in order.

A tape belongs to one function as called by one package in one branch of a step, so that a
read more or less of one of them shifts no other. It is a call row like any other: the request
names the function and the caller, the response is the list of values. Nothing is paid for it,
so it is written with the step; a call that was paid for takes along what was read before it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rewind_nb import _codec
from rewind_nb._describe import plural
from rewind_nb._model import CallKind, CallRow, Source
from rewind_nb._store._contents import Content
from rewind_nb.errors import SecretLeakError

if TYPE_CHECKING:
    from rewind_nb.capture._context import StepContext

KINDS = ("clock", "random", "uuid")
Key = tuple[str, str, str, int | None, str | None]  # branch, function, caller, size, seed


def is_tape(row: CallRow) -> bool:
    """Whether a call row is a tape: functions have dotted names, `now()` and its like have not."""
    return row.kind in KINDS and "." in row.name


@dataclass(frozen=True, slots=True)
class Read:
    """What is read, and by whom.

    Attributes:
        function: as it was called: ``time.time``, ``random.choice``.
        caller: the top-level package that called it.
        branch: the branch inside the step.
        size: bits or bytes asked for, where that is part of the question.
        seed: a digest of the seed that the step itself gave the generator.
        parent: idx of the tool call that it is made in.
    """

    kind: CallKind
    function: str
    caller: str
    branch: str
    size: int | None = None
    seed: str | None = None
    parent: int | None = None

    @property
    def request(self) -> dict[str, Any]:
        """As it is recorded."""
        asked = {"function": self.function, "caller": self.caller}
        extra = {"size": self.size, "seed": self.seed}
        return {**asked, **{k: v for k, v in extra.items() if v is not None}}

    @property
    def fingerprint(self) -> str:
        """A hash over what is asked."""
        return _codec.digest(_codec.encode([self.kind, self.request]))


@dataclass(slots=True, eq=False)
class Tape:
    """The values that one function gave to one caller."""

    read: Read
    origin: CallRow | None  # the recorded tape
    recorded: int  # how many values that has
    rest: Iterator[Any]  # those that were not played back yet
    values: list[Any] = field(default_factory=list)  # given out in this step
    started_at: float = field(default_factory=time.time)
    row: CallRow | None = None  # as it was last written
    written: Content | None = None
    stored: int = 0  # how many values that holds

    def take(self, live: Any) -> Any:
        """The next recorded value; past the recorded end the live one."""
        value = next(self.rest, live)
        self.values.append(value)
        return value

    @property
    def surplus(self) -> int:
        """How many more values were read than recorded; negative where it was fewer."""
        return len(self.values) - self.recorded

    def write(self, ctx: StepContext, *, ended: bool) -> CallRow:
        """Put the tape into the step's batch; *ctx* is locked."""
        values = list(self.values)  # another thread of the step may go on reading
        data = _codec.encode(values, path=self.read.function)
        self.written, self.stored = ctx.batch.content(data, self.written), len(values)
        row, status = self.row or self._first_row(ctx), "complete" if ended else "started"
        played = self.origin is not None and self.surplus <= 0
        source: Source = "cache" if played else "live"
        self.row = ctx.batch.replace(row, status=status, response=self.written.hash, source=source)
        return self.row

    def _first_row(self, ctx: StepContext) -> CallRow:
        read, origin = self.read, self.origin
        request = ctx.batch.content(_codec.encode(read.request)).hash
        idx, ctx.next_idx = ctx.next_idx, ctx.next_idx + 1
        ordinal = ctx.ordinals[read.kind, read.branch]
        ctx.ordinals[read.kind, read.branch] += 1
        return CallRow(
            run_id=ctx.run_id,
            path=ctx.path,
            seq=ctx.seq,
            attempt=ctx.attempt,
            idx=idx,
            kind=read.kind,
            name=read.function,
            branch=read.branch,
            ordinal=ordinal,
            fingerprint=read.fingerprint,
            n=0,
            epoch=ctx.epoch,
            request=request,
            key=request,
            status="started",
            source="live",
            started_at=self.started_at,
            parent=read.parent,
            playable=True,
            replayed_from=None if origin is None else origin.replayed_from or _address(origin),
        )


def _address(row: CallRow) -> str:
    return f"{row.run_id}/{row.path}{row.seq}.{row.attempt}/{row.idx}"


class Tapes(dict[Key, Tape]):
    """The tapes of one attempt at a step.

    Attributes:
        seeds: the seeds that the step gave the global generator: branch -> digest.
        notes: where a replay read more or less than was recorded.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seeds: dict[str, str | None] = {}
        self.notes: list[str] = []
        self._closed = False
        self._lock = threading.RLock()  # a read may be interrupted by a finalizer that reads

    def seed_in(self, branch: str) -> str | None:
        """The seed in force in a branch: its own, or that of the one it started from."""
        set_in = [known for known in self.seeds if _within(branch, known)]
        return self.seeds[max(set_in, key=len)] if set_in else None

    def open(self, ctx: StepContext, key: Key, read: Read) -> Tape | None:
        """The tape at *key*, on what was recorded for it; None where the step is over."""
        with self._lock:
            if key not in self and not self._closed:
                origin = _recorded(ctx, read)
                values = [] if origin is None else _values(ctx, origin)
                self[key] = Tape(read, origin, len(values), iter(values))
            return self.get(key)

    def flush(self, ctx: StepContext) -> None:
        """Write what was read so far, beside a call that was paid for; *ctx* is locked.

        Where the process dies after it, the step resumes on the same values and so asks the
        same.
        """
        for tape in list(self.values()):
            if len(tape.values) > tape.stored:
                tape.write(ctx, ended=False)

    def close(self, ctx: StepContext) -> None:
        """The step is over: its tapes become calls of it. A second time nothing happens.

        Raises:
            SecretLeakError: a value that was read is a registered secret by now.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
            tapes = list(self.values())
            self.clear()
        refused = None
        with ctx.lock:
            for tape in tapes:
                try:
                    ctx.calls.append(tape.write(ctx, ended=True))
                except SecretLeakError as error:  # the others are written all the same
                    refused = error
        if ctx.strict:
            self._note(ctx, tapes)
        if refused is not None:
            raise refused

    def _note(self, ctx: StepContext, tapes: list[Tape]) -> None:
        """What a replay read otherwise than it was recorded; the hash decides what it means."""
        seen = {(t.read.kind, t.read.branch, t.read.fingerprint) for t in tapes}
        found = [(t.read.function, t.read.caller, t.surplus) for t in tapes if t.surplus]
        for row in () if ctx.recorded is None else ctx.recorded.rows:
            unread = is_tape(row) and (row.kind, row.branch, row.fingerprint) not in seen
            if unread and "/" not in row.branch:  # a tool that is played back reads nothing
                caller = ctx.store.value(row.request)["caller"]
                found.append((row.name, caller, -len(_values(ctx, row))))
        self.notes += [f"{ctx.place} {_told(*what)}" for what in found]


def _within(branch: str, outer: str) -> bool:
    return branch == outer or (branch.startswith(outer) and branch[len(outer)] in "/~")


def _told(function: str, caller: str, surplus: int) -> str:
    how = "more often" if surplus > 0 else "less often"
    return f"read {function} in {caller} {plural(abs(surplus), 'time')} {how} than recorded"


def notes_of(notes: list[str], place: str) -> list[str]:
    """Of a session's notes those about what the step at *place* read."""
    return [note.removeprefix(f"{place} ") for note in notes if note.startswith(f"{place} read ")]


def _recorded(ctx: StepContext, read: Read) -> CallRow | None:
    if ctx.recorded is None or not ctx.recorded.serve or not ctx.plays_back:
        return None
    return ctx.recorded.exactly(read.kind, read.branch, read.fingerprint, 0)


def _values(ctx: StepContext, row: CallRow) -> list[Any]:
    values: list[Any] = ctx.store.value(row.response, strict=True) if row.response else []
    return values
