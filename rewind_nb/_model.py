"""Plain frozen records: what a store holds and what an event carries. No I/O."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from rewind_nb._visible import visible

RunStatus = Literal["running", "complete", "halted", "failed", "interrupted"]
RunKind = Literal["record", "fork", "replay"]
ENDED: tuple[RunStatus, ...] = ("complete", "halted")  # came to an end that can be judged
OVER: tuple[RunStatus, ...] = (*ENDED, "failed")  # came to some end of its own
StepStatus = Literal["open", "complete", "failed", "interrupted"]
Source = Literal[
    "live", "cache", "tool-cache", "override", "refused", "render-cache", "reused", "inherited"
]
CacheMode = Literal["auto", "refresh", "replay", "off"]
Reuse = Literal["unchanged", "none"]
CallKind = Literal["model", "tool", "http", "clock", "random", "uuid"]
ExperimentStatus = Literal["running", "complete", "interrupted", "failed"]

# Kinds of call that ask somebody; the others are tapes of what a step read of clock and chance.
ASKED: tuple[CallKind, ...] = ("model", "tool", "http")
CONTEXT = "__context"  # the input of a step that holds what it read of Burr's context
REUSES: tuple[Reuse, ...] = ("unchanged", "none")
CACHE_MODES: tuple[CacheMode, ...] = ("auto", "refresh", "replay", "off")
PLAYING: tuple[CacheMode, ...] = ("auto", "replay")  # under which a recorded answer is an answer


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or several calls; None where unknown, never an estimate.

    `cached_tokens` were read from a provider's cache and `cache_write_tokens` written to it;
    both are among the `input_tokens`, and `reasoning_tokens` among the `output_tokens`.

    Example:
        >>> Usage(10, 2) + Usage(5, 1)
        Usage(input_tokens=15, output_tokens=3, total_tokens=18)
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.total_tokens is None and None not in (self.input_tokens, self.output_tokens):
            total = (self.input_tokens or 0) + (self.output_tokens or 0)
            object.__setattr__(self, "total_tokens", total)

    def __add__(self, other: Usage) -> Usage:
        """Sum field by field; unknown plus known stays known only where both are."""
        return Usage(*(_plus(getattr(self, n), getattr(other, n)) for n in USAGE_FIELDS))

    def __repr__(self) -> str:
        known = (f"{n}={v}" for n in USAGE_FIELDS if (v := getattr(self, n)) is not None)
        return f"Usage({', '.join(known)})"

    def to_dict(self) -> dict[str, int]:
        """The known fields only."""
        return {n: v for n in USAGE_FIELDS if (v := getattr(self, n)) is not None}


USAGE_FIELDS = (
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "cache_write_tokens",
)


def _plus(a: int | None, b: int | None) -> int | None:
    return None if a is None or b is None else a + b


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """How a step or call ended when it did not complete.

    `type` is the exception class as ``module.qualname``, `raw` the output that
    could not be used (a `StepFailure`'s), `traceback` the text without locals.
    Only `type` and `message` take part in a step's hash.
    """

    type: str
    message: str
    raw: str | None = None
    traceback: str | None = None


@dataclass(frozen=True, slots=True)
class Override:
    """Data that replaces exactly one thing at one step.

    Args:
        kind: ``output``, ``patch``, ``state``, ``inputs``, ``prompt``, ``messages``,
            ``model``, ``temperature``, ``params``, ``response``, ``tool_args`` or
            ``tool_result``.
        value: what replaces it, as given (for a callback: what it produced).
        call: which call of the step, for kinds that address one.
        callback: whether a callable produced the value.
        branch: with `ordinal`, the position of that call inside the step.
        ordinal: None for kinds that address no call.
    """

    kind: str
    value: Any
    call: int = 0
    callback: bool = False
    branch: str = ""
    ordinal: int | None = None

    def __repr__(self) -> str:
        given = (f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))
        return visible(f"Override({', '.join(given)})")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a forked or replayed run came from: (parent run, at, overrides, mode)."""

    parent: str
    at: int
    overrides: tuple[Override, ...] = ()
    reuse: str = "none"
    cache: str = "auto"


@dataclass(frozen=True, slots=True)
class Event:
    """What a hook receives. Never holds a value of the run, nor a secret.

    Attributes:
        name: ``run_started``, ``run_ended``, ``step_started``, ``step_ended``,
            ``call_started`` or ``call_ended``.
        status: of an ended run or step.
        kind: the run kind, or the call kind on call events.
        path: the trajectory the step is in, "" for the run's own.
        latency_s: seconds, on ended steps and calls.
    """

    name: str
    run_id: str
    kind: str
    seq: int | None = None
    action: str | None = None
    visit: int | None = None
    path: str = ""
    source: str | None = None
    status: str | None = None
    latency_s: float | None = None
    usage: Usage | None = None
    hash: str | None = None
    error: str | None = None
    index: int | None = None
    model: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)

    def evolve(self, **changes: Any) -> Event:
        """A copy with some fields changed."""
        return replace(self, **changes)


# -- rows: what the store holds ------------------------------------------------------

Manifest = tuple[tuple[str, str], ...]
"""An ordered state: (key, value hash) pairs."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One row of `runs`. Everything but the tip (status and what follows) is written once."""

    id: str
    kind: RunKind
    label: str | None
    parent: str | None  # the run it was forked or replayed from
    at: int  # first seq it does not share with its parent
    parent_len: int  # the parent's length when this run was made
    overrides: str | None  # value hash of the encoded overrides
    mode: dict[str, Any]  # cache, reuse, max_steps, app
    state: Manifest  # entering its first own step
    prior: str | None  # the action before it, None at the entrypoint
    graph: str  # value hash of the graph description
    experiment: str | None
    cell: str | None
    epoch: int
    created_at: float
    owner: dict[str, Any]
    # the tip, the only part that changes
    status: RunStatus = "running"
    tail: int | None = None  # parent's seq from which its remaining steps are referenced
    halts: tuple[dict[str, Any], ...] = ()  # one per run or resume call
    next_action: str | None = None
    note: str | None = None
    ended_at: float | None = None
    root: str | None = None
    containers: dict[str, dict[str, str]] | None = None  # action -> name -> digest, "" if changed
    row_hash: str = ""


@dataclass(frozen=True, slots=True)
class StepRow:
    """One row of `steps`: one attempt at one action."""

    run_id: str
    path: str
    seq: int
    attempt: int
    action: str
    visit: int
    status: StepStatus
    source: Source
    started_at: float
    reason: str | None = None
    inputs: Manifest = ()
    reads: tuple[tuple[str, str | None], ...] = ()  # None: observed to be absent
    reads_all: bool = False
    writes: Manifest = ()
    deleted: dict[str, list[str]] | None = None  # {"keep": [...]} or {"delete": [...]}
    result: str | None = None
    error: ErrorInfo | None = None
    hash: str | None = None
    code: str | None = None
    hidden_state: tuple[str, ...] = ()
    transition: dict[str, Any] | None = None  # condition taken to leave it, and its reads
    state: Manifest | None = None  # a checkpoint: the state entering this step
    duration_s: float | None = None
    usage: Usage | None = None
    calls: int = 0  # all of them: overridden ones and tapes of the clock included
    live_calls: int = 0
    played_calls: int = 0
    tasks: tuple[tuple[str, int, str], ...] = ()  # task key, its steps, the hash over them
    graph: str | None = None  # value hash of what a task's application is, on its first step
    origin: tuple[str, str, int, int] | None = None  # the step that really executed, if another
    stream: str | None = None  # value hash of the chunks it streamed
    uncaptured: tuple[str, ...] = ()  # what went out and was not recorded
    override: str | None = None  # value hash of the overrides this step was given
    chain: str = ""  # hash over this row and all before it
    row_hash: str = ""

    @property
    def given(self) -> Manifest:
        """Its runtime inputs, without what Burr told it."""
        return tuple(pair for pair in self.inputs if pair[0] != CONTEXT)


@dataclass(frozen=True, slots=True)
class CallRow:
    """One row of `calls`: one request and its answer inside a step."""

    run_id: str
    path: str
    seq: int
    attempt: int
    idx: int
    kind: CallKind
    name: str
    branch: str  # the branch inside the step, "" outside any
    ordinal: int  # position among the calls of its kind and branch
    fingerprint: str
    n: int  # earlier identical requests that were answered
    epoch: int
    request: str  # value hash of the canonical request
    key: str  # value hash of what was fingerprinted (request, after cache_key=)
    status: Literal["started", "complete", "failed"]
    source: Source
    started_at: float
    parent: int | None = None  # idx of the tool call it was made in
    response: str | None = None
    playable: bool = False
    error: ErrorInfo | None = None
    replayed_from: str | None = None
    model: str | None = None
    answered_by: str | None = None
    usage: Usage | None = None
    latency_s: float | None = None
    row_hash: str = ""


@dataclass(frozen=True, slots=True)
class ArtifactRow:
    """One row of `artifacts`: a file a step made, identified by its bytes."""

    run_id: str
    path: str
    seq: int
    attempt: int
    name: str
    sha256: str
    size: int
    source: Source
    file: str
    row_hash: str = ""


@dataclass(frozen=True, slots=True)
class ExperimentRow:
    """One row of `experiments`; the runs it made name it. All from `status` on may change."""

    id: str
    kind: str  # grid, sweep, flip, bisect, ablate, regress, stability
    run_id: str | None  # the run it is about, None where it is about several
    label: str | None
    spec: str  # value hash of what was asked
    created_at: float
    owner: dict[str, Any]
    status: ExperimentStatus = "running"
    note: str | None = None
    ended_at: float | None = None
    result: str | None = None  # value hash of what came of it
    row_hash: str = ""
