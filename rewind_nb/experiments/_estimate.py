"""What a fork is likely to execute and cost, by what was recorded, before it is made.

From the overridden step on, a step is expected to execute if the recording saw it read what
one that executes writes, key by key. What equals the recording changes nothing; calls made
before the overridden one are played back; a run that was stopped has its answers. Where no
step is left that executes that is exact. Else it is what executes if every value that may
change does, on the recorded path: with fewer changes, or answers that the store has, it is
less; on another path it may be more.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rewind_nb import _codec
from rewind_nb._combine import SUPPLIES_ANSWER
from rewind_nb._cost import Cost, costs_of, sum_usage
from rewind_nb._describe import plural
from rewind_nb._forks import Fork
from rewind_nb._model import OVER, PLAYING, CallRow, Override, RunRow, StepRow
from rewind_nb._recording import Recording
from rewind_nb._store import Reads, _read, _read_tasks
from rewind_nb._trajectory import executed
from rewind_nb.capture._context import MODEL_OVERRIDES, TOOL_OVERRIDES

Place = tuple[str, int]  # action, visit


@dataclass(frozen=True, slots=True)
class Estimate:
    """What some forks are likely to come to.

    Attributes:
        forks: how many runs are made, or gone on with.
        steps: that execute, over all of them.
        model_calls: that are asked live.
        tokens: by what the recorded calls used; None where one of them did not say.
        cost: at what these models cost now.
        exact: whether the recording settles it; else it is at most that, on the recorded path.

    Example:
        >>> Estimate(2, 6, 4, 1200, Cost(), exact=False)
        <Estimate: 2 forks, at most 6 steps and 4 model calls, about 1,200 tokens, $0>
        >>> Estimate(1, 0, 0, 0, Cost())
        <Estimate: 1 fork, 0 steps, 0 model calls, 0 tokens, $0>
    """

    forks: int
    steps: int
    model_calls: int
    tokens: int | None
    cost: Cost
    exact: bool = True

    def times(self, count: int) -> Estimate:
        """The same for so many forks of its kind."""
        return sum((self for _ in range(count)), NOTHING)

    def __add__(self, other: Estimate) -> Estimate:
        known = self.tokens is not None and other.tokens is not None
        return Estimate(
            self.forks + other.forks,
            self.steps + other.steps,
            self.model_calls + other.model_calls,
            (self.tokens or 0) + (other.tokens or 0) if known else None,
            self.cost + other.cost,
            self.exact and other.exact,
        )

    def __repr__(self) -> str:
        steps, calls = plural(self.steps, "step"), plural(self.model_calls, "model call")
        work = f"{steps}, {calls}" if self.exact else f"at most {steps} and {calls}"
        tokens = "tokens unknown" if self.tokens is None else plural(self.tokens, "token", ",")
        about = "about " if self.tokens else ""
        forks = plural(self.forks, "fork")
        return f"<Estimate: {forks}, {work}, {about}{tokens}, {self.cost}>"


NOTHING = Estimate(0, 0, 0, 0, Cost())


@dataclass(frozen=True, slots=True)
class Expected:
    """What one fork is expected to execute.

    Attributes:
        steps: each step that executes, with the recorded calls that are asked live.
        exact: whether that is all, whatever comes of it.
    """

    steps: tuple[tuple[Place, tuple[CallRow, ...]], ...] = ()
    exact: bool = True

    @property
    def estimate(self) -> Estimate:
        """What that comes to."""
        calls = [call for _, asked in self.steps for call in asked]
        usage = sum_usage(call.usage for call in calls)
        now = time.time()
        return Estimate(
            forks=1,
            steps=len(self.steps),
            model_calls=len(calls),
            tokens=None if usage is None else usage.total_tokens,
            cost=costs_of(replace(call, source="live", started_at=now) for call in calls),
            exact=self.exact,
        )

    def left(self, store: Reads, made: RunRow | None) -> Estimate:
        """What is left of it.

        Args:
            made: the run of it that there is already, if any.
        """
        if made is None:
            return self.estimate
        return NOTHING if made.status in OVER else self._without(store, made.id).estimate

    def _without(self, store: Reads, run_id: str) -> Expected:
        """What is left for a run that was stopped: no step again, and no answer that it had."""
        rows = store.read(_read_tasks.every_step, run_id)
        tops = {row.seq: row for row in sorted(rows, key=_attempt) if not row.path}
        done = {_place(top) for top in tops.values() if top.status == "complete"}
        answered: Counter[Place] = Counter()
        for row in rows:
            top = tops[row.seq]
            if top.attempt == row.attempt and top.status in ("open", "interrupted"):
                key = (row.run_id, row.path, row.seq, row.attempt)
                answered[_place(top)] += sum(map(_is_answer, store.read(_read.call_rows, key)))
        left = tuple(
            (place, calls[answered[place] :]) for place, calls in self.steps if place not in done
        )
        return replace(self, steps=left)


def everything(recording: Recording, seq: int) -> Expected:
    """Executing all from *seq* on, everything asked anew."""
    rows = [placed.row for placed in recording.rows(seq)]
    steps = tuple((_place(row), tuple(_model_calls(recording, row))) for row in rows)
    return Expected(steps, exact=not steps)


def expected(fork: Fork, *, plain: bool) -> Expected:
    """What a fork that was checked is expected to execute.

    Args:
        plain: whether it halts where its parent does and its code may not have changed.
    """
    cache = fork.env.cache
    if fork.equal and plain and cache == "auto":
        return Expected()
    rows = [placed.row for placed in fork.recording.rows(fork.top.seq)]
    spread = _Spread(fork, asks=cache not in PLAYING)
    steps = []
    for row in rows:
        executes, asked = spread.over(row)
        if executes:
            asked = [] if cache == "replay" else asked
            steps.append((_place(row), tuple(asked)))
    return Expected(tuple(steps), not spread.another_path and not spread.executed_anew)


class _Spread:
    """How far a change spreads over the recorded steps, one after the other.

    Attributes:
        changed: the keys of the state that may be other ones.
        another_path: whether a condition was seen to read one of them.
        executed_anew: whether a step executes on something that may have changed.
    """

    def __init__(self, fork: Fork, *, asks: bool) -> None:
        self.fork, self.asks = fork, asks
        self.planned = None if fork.coded is None else fork.coded.planned
        self.everywhere = frozenset() if fork.coded is None else fork.coded.everywhere
        self.changed: set[str] = set()
        self.another_path = self.executed_anew = False

    def over(self, row: StepRow) -> tuple[bool, list[CallRow]]:
        """Whether a step executes, and which of its recorded calls are asked live."""
        fork, writes = self.fork, {key for key, _ in row.writes}
        first = row == fork.top.row
        supplied = None if self.planned is None or fork.first.path else self.planned.writes
        if first and supplied is not None:
            self._left_by(row, _differing(row, supplied), set())
            return False, []
        if row.source == "override" and not first:  # it is put in again
            self._left_by(row, set(), writes)
            return False, []
        anew = self._anew(row, first=first)
        if anew:
            self.executed_anew = True
            calls = self._asked(row, first=first)
            given = self._given() if first else set()
            self._left_by(row, writes | given, set())
            return True, calls
        self._left_by(row, set(), writes)
        alike = first and self.planned is not None  # its override is what was recorded
        due = row.action in fork.env.always or fork.reuse == "none"
        return alike or due, []

    def _anew(self, row: StepRow, *, first: bool) -> bool:
        """Whether a step executes and may do otherwise than it did."""
        if first and self.planned is not None and not self.planned.unchanged:
            return True
        asks = self.asks and (self.fork.reuse == "none" or first)
        reads = bool(self.changed & {key for key, _ in row.reads})
        reads = reads or (row.reads_all and bool(self.changed))
        code = row.action in self.everywhere
        return asks or reads or code or row.status != "complete"

    def _asked(self, row: StepRow, *, first: bool) -> list[CallRow]:
        calls = _model_calls(self.fork.recording, row)
        if not first or self.planned is None or self.fork.first.path:
            return calls
        return _still_asked(self.fork.recording, row, calls, self.planned.overrides, self.asks)

    def _given(self) -> set[str]:
        """The fields of the state that an override sets, and which stay set."""
        given = () if self.planned is None or self.fork.first.path else self.planned.overrides
        return {key for override in given if override.kind == "state" for key in override.value}

    def _left_by(self, row: StepRow, changed: set[str], same: set[str]) -> None:
        """What may be another value after a step."""
        self.changed = (self.changed | changed) - same
        conditions = (row.transition or {}).get("reads", ())
        self.another_path = self.another_path or any(key in self.changed for key, _ in conditions)


def _differing(row: StepRow, writes: Mapping[str, Any]) -> set[str]:
    """The keys that an override supplies another value for."""
    recorded = dict(row.writes)
    now = {key: _codec.digest(_codec.encode(value)) for key, value in writes.items()}
    return {key for key, digest in now.items() if digest != recorded.get(key)}


def _still_asked(
    recording: Recording,
    row: StepRow,
    calls: Sequence[CallRow],
    overrides: Sequence[Override],
    asks: bool,
) -> list[CallRow]:
    """The calls of the overridden step without those that are answered.

    An override supplies the answer of its call, and of what that called itself; a call before
    all that are overridden, in the same branch, is made as it was.
    """
    there = executed(recording.store, row)
    made = recording.store.read(
        _read.call_rows, (there.run_id, there.path, there.seq, there.attempt)
    )
    supplied: set[int] = set()
    since: dict[str, int] = {}
    for override in overrides:
        family = "tool" if override.kind in TOOL_OVERRIDES else "model"
        place = (family, override.branch, override.ordinal)
        mine = [call.idx for call in made if (call.kind, call.branch, call.ordinal) == place]
        if override.kind not in (*MODEL_OVERRIDES, *TOOL_OVERRIDES) or not mine:
            return list(calls)
        since[override.branch] = min(mine[0], since.get(override.branch, mine[0]))
        if override.kind in SUPPLIES_ANSWER:
            supplied |= {*mine}
    for call in made:  # a tool stands before what it called
        if call.parent in supplied:
            supplied.add(call.idx)
    return [
        call for call in calls
        if call.path != there.path
        or (call.idx not in supplied and (asks or not _is_before(call, since)))
    ]  # fmt: skip


def _is_before(call: CallRow, since: Mapping[str, int]) -> bool:
    return len(since) == 1 and call.branch in since and call.idx < since[call.branch]


def _attempt(row: StepRow) -> int:
    return row.attempt


def _place(row: StepRow) -> Place:
    return row.action, row.visit


def _model_calls(recording: Recording, row: StepRow) -> list[CallRow]:
    """The recorded model calls of a step and the tasks inside it, one per answer."""
    store = recording.store
    there = executed(store, row)
    steps = [there, *recording.inside(row)] if there.tasks else [there]
    keys = [(s.run_id, s.path, s.seq, s.attempt) for s in steps if s.calls]
    return [call for key in keys for call in store.read(_read.call_rows, key) if _is_answer(call)]


def _is_answer(call: CallRow) -> bool:
    return call.kind == "model" and call.status == "complete"
