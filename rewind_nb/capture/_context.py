"""The context of the running step: who is calling, and what its recording answered.

`current_step()` is set only while an action executes, so that calls made elsewhere are never
touched and two runs in one process never mix.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakKeyDictionary

from rewind_nb._budget import Meter
from rewind_nb._model import (
    ASKED,
    PLAYING,
    ArtifactRow,
    CacheMode,
    CallRow,
    Event,
    Override,
    RunKind,
)
from rewind_nb._scope import scope
from rewind_nb._store import Batch, Store
from rewind_nb._store._read import StepKey
from rewind_nb.capture import _branches, _guard, _leaving
from rewind_nb.capture._place import (
    _branch,
    _current,
    _parent_call,
    _sending,
    current_branch,
    current_step,
    is_sending,
    left_step,
    sending,
    setting,
)
from rewind_nb.capture._tape import Tapes
from rewind_nb.capture.policy import DEFAULT, HttpPolicy
from rewind_nb.errors import RunStoppedError

__all__ = [
    "MODEL_OVERRIDES",
    "TOOL_OVERRIDES",
    "CallOverride",
    "Identity",
    "RecordedCalls",
    "Span",
    "StepContext",
    "_branch",
    "_current",
    "_parent_call",
    "_sending",
    "branch_order",
    "current_branch",
    "current_step",
    "is_sending",
    "left_step",
    "sending",
    "step_scope",
    "tool_scope",
]

MODEL_OVERRIDES = ("prompt", "messages", "model", "temperature", "params", "response")
TOOL_OVERRIDES = ("tool_args", "tool_result")


class Span(Protocol):
    """The context managers that hooks returned for one event, entered until closed."""

    def close(self) -> None:
        """Exit them."""


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


_PART = re.compile(r"([/~])(?:([^\W\d]\w*)\.)?(\d+)")


def branch_order(branch: str) -> tuple[tuple[str, str, int], ...]:
    """A branch as a key to sort by.

    ``~2`` is the third task, thread or work item that was made, ``~lib.2`` the third that the
    package `lib` made, ``/0`` inside tool call 0.

    Example:
        >>> sorted(["~1/10", "~1/2", "~lib.0", "~0", ""], key=branch_order)
        ['', '~0', '~1/2', '~1/10', '~lib.0']
    """
    return tuple((mark, package, int(number)) for mark, package, number in _PART.findall(branch))


NO_RESULT = (  # what a call ended with that says nothing of what it did
    "KeyboardInterrupt", "CancelledError", "SystemExit", "GeneratorExit", "RunStoppedError",
    "EffectUnknownError",
)  # fmt: skip


def has_failed(row: CallRow) -> bool:
    """Whether a call ended in an exception of its own, as opposed to being stopped or refused."""
    error, refused = row.error, row.source == "refused"
    return row.status == "failed" and not refused and error is not None and not is_stop(error.type)


def is_stop(error_type: str) -> bool:
    """Whether a call that ended so may have done what it was to do."""
    return error_type.rpartition(".")[2] in NO_RESULT


class RecordedCalls:
    """The calls of one recorded attempt at a step, ready to be played back."""

    def __init__(self, rows: Iterable[CallRow], *, serve: bool = True) -> None:
        self.rows = tuple(rows)
        self.serve = serve
        self._by_request: dict[tuple[str, str, str], list[CallRow]] = {}
        self._anywhere: dict[tuple[str, str], list[CallRow]] = {}
        self._used: set[int] = set()
        for row in sorted(self.rows, key=lambda r: r.idx):
            key = (row.kind, row.branch, row.fingerprint)
            self._by_request.setdefault(key, []).append(row)
            self._anywhere.setdefault((row.kind, row.fingerprint), []).append(row)

    def answered(
        self, kind: str, branch: str, fingerprint: str, n: int, *, always: bool = False
    ) -> CallRow | None:
        """The n-th well-formed answer to this request.

        Args:
            always: also where what failed is to ask again.
        """
        if not (self.serve or always):
            return None
        rows = self._by_request.get((kind, branch, fingerprint), [])
        found = next((r for r in rows if r.playable and r.n == n), None)
        return self._use(found) or self._elsewhere(kind, branch, fingerprint, playable=True)

    def exactly(self, kind: str, branch: str, fingerprint: str, nth: int) -> CallRow | None:
        """The nth attempt at this request, failures included."""
        rows = self._by_request.get((kind, branch, fingerprint), [])
        found = rows[nth] if nth < len(rows) else None
        return self._use(found) or self._elsewhere(kind, branch, fingerprint)

    def failed(self, kind: str, branch: str, fingerprint: str, nth: int) -> CallRow | None:
        """The nth attempt at this request, where it ended in an exception of its own."""
        rows = self._by_request.get((kind, branch, fingerprint), [])
        return rows[nth] if nth < len(rows) and has_failed(rows[nth]) else None

    def _use(self, row: CallRow | None) -> CallRow | None:
        """The row, if nobody had it before."""
        if row is None or (row.idx in self._used and row.kind in ASKED):
            return None
        self._used.add(row.idx)
        return row

    def _elsewhere(
        self, kind: str, branch: str, fingerprint: str, *, playable: bool = False
    ) -> CallRow | None:
        """The same request in another branch, which nobody made yet.

        Workers that share a queue take its items as they come: who asks what is chance. A tape
        is of its own branch.
        """
        rows = self._anywhere.get((kind, fingerprint), []) if kind in ASKED else []
        for row in rows:
            if row.branch != branch and (row.playable or not playable) and self._use(row):
                return row
        return None

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
    policy: HttpPolicy = DEFAULT
    meter: Meter | None = None  # what the experiment of this run may spend
    effects: Any = None  # of a fork: "live", or stubs by the name of the tool
    stop: threading.Event = field(default_factory=threading.Event)  # set when the run is stopped
    lock: threading.RLock = field(default_factory=threading.RLock)  # the collector may close a
    # stream of this step in the middle of it
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
    stopped: str | None = None  # why a call of it was refused: it cannot be complete
    flying: int = 0  # calls that went out and are not answered yet
    when_ended: list[Callable[[], None]] = field(default_factory=list)  # and that is committed
    next_idx: int = 0
    misses: list[Exception] = field(default_factory=list)
    made: Counter[tuple[str, str]] = field(default_factory=Counter)  # branches, see new_branch
    started: WeakKeyDictionary[Any, str] = field(default_factory=WeakKeyDictionary)
    traffic: _guard.Traffic = field(default_factory=_guard.Traffic)
    announced: set[int] = field(default_factory=set)  # calls written down before they fired
    closed: bool = False  # it has ended; what still runs in its context is outside
    late: list[str] = field(default_factory=list)  # the run's notes, for what comes after that
    tapes: Tapes = field(default_factory=Tapes)  # what it read of clock, chance and entropy

    def close(self) -> None:
        """It ends: what still runs in its context is outside from here on."""
        with self.lock:
            self.closed = True
        self.tapes.close(self)

    def note_late(self, what: str) -> None:
        """Note on the run a call that work of this step made or ended when it had ended."""
        self.late.append(f"{what} came when its step {self._where} had ended: not recorded")

    @property
    def _where(self) -> str:
        return self.place if self.path else repr(self.action)

    def left_working(self) -> list[str]:
        """What to note on the run, at its end, of work of this step that still goes on then."""
        return [
            f"{work}, started in step {self._where}, still worked when the run ended: what it does "
            "from there on is not recorded"
            for work in _leaving.survivors(self)
        ]

    def check_stopped(self) -> None:
        """End what still works for a run that was stopped.

        Raises:
            RunStoppedError: it was.
        """
        if self.stop.is_set():
            raise self.refused(f"Run {self.run_id} was stopped.")

    def refused(self, why: str) -> RunStoppedError:
        """What to raise where a call may not go out; the step is not complete, whoever
        swallows it.
        """
        self.stopped = why
        return RunStoppedError(why)

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

    def new_branch(self, parent: str, package: str) -> str:
        """The name of a branch that begins in branch *parent*: numbered as they are made.

        What a package other than the user's makes for itself, perhaps once per process, is
        counted apart, so that it shifts none of the user's numbers.
        """
        with self.lock:
            number = self.made[parent, package]
            self.made[parent, package] += 1
        return f"{parent}~{package}.{number}" if package else f"{parent}~{number}"

    @property
    def uncaptured(self) -> list[str]:
        """What went out and was not recorded: ``host:port`` and ``subprocess: name``."""
        return self.traffic.seen

    @property
    def plays_back(self) -> bool:
        """Whether its recording answers; an earlier attempt of the same run does in every mode."""
        own = self.recorded_key is not None and self.recorded_key[0] == self.run_id
        return own or self.cache in PLAYING

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


@scope
def step_scope(ctx: StepContext | None) -> Generator[None, None, None]:
    """Make *ctx* the current step of the running context; a stream does so for each chunk."""
    _guard.watch()
    _branches.follow()
    with setting({_current: ctx, _branch: "", _parent_call: None}):
        yield


@scope
def tool_scope(call: CallRow) -> Generator[None, None, None]:
    """Inside a tool call: calls made there are its children, on a branch of their own."""
    with setting({_branch: f"{call.branch}/{call.ordinal}", _parent_call: call.idx}):
        yield
