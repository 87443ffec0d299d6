"""The context of the running step: who is calling, and what its recording answered.

`current_step()` is a ContextVar, set only while an action executes, so that calls made
elsewhere are never touched and two runs in one process never mix.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from rewind_nb._model import ArtifactRow, CacheMode, CallRow, Event, Override, RunKind
from rewind_nb._store import Batch, Store
from rewind_nb._store._read import StepKey

MODEL_OVERRIDES = ("prompt", "messages", "model", "temperature", "params", "response")
TOOL_OVERRIDES = ("tool_args", "tool_result")

_current: ContextVar[StepContext | None] = ContextVar("rewind_step", default=None)
_branch: ContextVar[str] = ContextVar("rewind_branch", default="")
_parent_call: ContextVar[int | None] = ContextVar("rewind_parent_call", default=None)


def current_step() -> StepContext | None:
    """The step that is executing in this context, if any."""
    return _current.get()


class Span(Protocol):
    """The context managers that hooks returned for one event, entered until closed."""

    def close(self) -> None:
        """Exit them."""


GUARD_MARK = "_rewind_guarded"  # on threads that a replayed step started: what it was refused


def refused_in_thread() -> list[Exception] | None:
    """Where to note a refusal, in a thread that a replayed step started; None elsewhere."""
    return getattr(threading.current_thread(), GUARD_MARK, None)


@dataclass(slots=True)
class CallOverride:
    """An override of one call of a step, and whether it was consumed.

    `own` is false for one that a fork re-applies because its parent had it.
    """

    override: Override
    branch: str
    ordinal: int
    own: bool = True
    consumed: bool = False

    def targets(self, family: str, branch: str, ordinal: int) -> bool:
        """Whether a call of *family* ("model" or "tool") at this position is meant."""
        kinds = MODEL_OVERRIDES if family == "model" else TOOL_OVERRIDES
        return self.override.kind in kinds and (branch, ordinal) == (self.branch, self.ordinal)


def branch_order(branch: str) -> tuple[int, ...]:
    """A branch as a key to sort by.

    Example:
        >>> sorted(["/10", "/2", ""], key=branch_order)
        ['', '/2', '/10']
    """
    return tuple(int(part) for part in branch.split("/")[1:])


class RecordedCalls:
    """The calls of one recorded attempt at a step, ready to be played back."""

    def __init__(self, rows: Iterable[CallRow], *, serve: bool = True) -> None:
        self.rows = tuple(rows)
        self.serve = serve
        self._by_request: dict[tuple[str, str, str], list[CallRow]] = {}
        for row in sorted(self.rows, key=lambda r: r.idx):
            key = (row.kind, row.branch, row.fingerprint)
            self._by_request.setdefault(key, []).append(row)

    def answered(self, kind: str, branch: str, fingerprint: str, n: int) -> CallRow | None:
        """The n-th well-formed answer to this request."""
        if not self.serve:
            return None
        rows = self._by_request.get((kind, branch, fingerprint), [])
        return next((r for r in rows if r.playable and r.n == n), None)

    def exactly(self, kind: str, branch: str, fingerprint: str, nth: int) -> CallRow | None:
        """The nth attempt at this request, failures included."""
        rows = self._by_request.get((kind, branch, fingerprint), [])
        return rows[nth] if nth < len(rows) else None

    def logical(self, family: str) -> list[CallRow]:
        """One row per model (or tool) call: its last attempt, in branch order."""
        rows = sorted((r for r in self.rows if r.kind == family), key=lambda r: r.idx)
        last = {(branch_order(r.branch), r.ordinal): r for r in rows}
        return [last[position] for position in sorted(last)]


Identity = tuple[str, str, str]  # kind, branch, fingerprint


@dataclass(slots=True)
class StepContext:
    """One attempt at one step, while it executes."""

    store: Store
    run_id: str
    run_kind: RunKind
    path: str
    seq: int
    attempt: int
    action: str
    visit: int
    cache: CacheMode
    epoch: int
    recorded: RecordedCalls | None
    recorded_key: StepKey | None  # which recorded attempt that is
    strict: bool  # a replay: what is not recorded is refused
    overrides: tuple[CallOverride, ...]
    cache_key: Callable[[dict[str, Any]], Any] | None
    emit: Callable[[Event], Span]
    lock: threading.Lock = field(default_factory=threading.Lock)
    calls: list[CallRow] = field(default_factory=list)
    artifacts: list[ArtifactRow] = field(default_factory=list)
    batch: Batch = field(default_factory=Batch)  # committed with the step
    asked: Counter[Identity] = field(default_factory=Counter)  # attempts at a request
    ordinals: Counter[tuple[str, str]] = field(default_factory=Counter)
    unanswered: dict[tuple[str, str, Any], int] = field(default_factory=dict)
    samples: dict[tuple[Identity, int], int] = field(default_factory=dict)
    identical: Counter[Identity] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    offers: list[tuple[CallRow, str]] = field(default_factory=list)  # once the step completes
    next_idx: int = 0
    misses: list[Exception] = field(default_factory=list)

    def position(self, kind: str, branch: str, attempt_at: Any) -> int:
        """Which call of its kind and branch this is, from 0, by the order they are made.

        A further attempt at a call that got no answer is that call again.
        """
        with self.lock:
            key = (kind, branch, attempt_at)
            if key not in self.unanswered:
                self.unanswered[key] = self.ordinals[kind, branch]
                self.ordinals[kind, branch] += 1
            return self.unanswered[key]

    def settle(self, row: CallRow, attempt_at: Any) -> None:
        """An answer came: the same request is from now on another call."""
        self.unanswered.pop((row.kind, row.branch, attempt_at), None)

    def sample(self, identity: Identity, ordinal: int) -> int:
        """How many identical requests other calls made before; reserved for this call."""
        with self.lock:
            if (identity, ordinal) not in self.samples:
                self.samples[identity, ordinal] = self.identical[identity]
                self.identical[identity] += 1
            return self.samples[identity, ordinal]

    @property
    def place(self) -> str:
        """Where calls of this step happen, the same in every run of the application."""
        return f"{self.path}{self.action}:{self.visit}"

    def event(self, name: str, kind: str, **facts: Any) -> Event:
        """An event about a call of this step."""
        return Event(
            name,
            self.run_id,
            kind,
            seq=self.seq,
            action=self.action,
            visit=self.visit,
            **facts,
        )


@contextmanager
def step_scope(ctx: StepContext | None) -> Iterator[None]:
    """Make *ctx* the current step of the running context."""
    with _set({_current: ctx, _branch: "", _parent_call: None}):
        yield


@contextmanager
def tool_scope(call: CallRow) -> Iterator[None]:
    """Inside a tool call: calls made there are its children, on a branch of their own."""
    with _set({_branch: f"{call.branch}/{call.ordinal}", _parent_call: call.idx}):
        yield


@contextmanager
def _set(values: Mapping[ContextVar[Any], Any]) -> Iterator[None]:
    tokens = [(variable, variable.set(value)) for variable, value in values.items()]
    try:
        yield
    finally:
        for variable, token in tokens:
            variable.reset(token)
