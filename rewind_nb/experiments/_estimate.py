"""What a fork is likely to execute and cost, by what was recorded, before it is made.

From the overridden step on, a step is expected to execute if the recording saw it read what
one that executes writes, key by key. That is what executes where every value that may change
does, on the recorded path: with fewer changes it is less, on another path it may be more.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rewind_nb import _patch
from rewind_nb._combine import SUPPLIES_ANSWER, SUPPLIES_OUTPUT, Given
from rewind_nb._cost import Cost, costs_of, sum_usage
from rewind_nb._describe import plural
from rewind_nb._model import CallRow, StepRow
from rewind_nb._recording import Recording
from rewind_nb._store import _read
from rewind_nb._trajectory import executed


@dataclass(frozen=True, slots=True)
class Estimate:
    """What some forks are likely to come to.

    Attributes:
        forks: how many runs are made.
        steps: that execute, over all of them.
        model_calls: that are asked live.
        tokens: by what the recorded calls used; None where one of them did not say.
        cost: at what these models cost now.

    Example:
        >>> Estimate(2, 6, 4, 1200, Cost())
        <Estimate: 2 forks, 6 steps, 4 model calls, about 1,200 tokens, $0>
    """

    forks: int
    steps: int
    model_calls: int
    tokens: int | None
    cost: Cost

    def times(self, count: int) -> Estimate:
        """The same for so many forks of its kind."""
        tokens = None if self.tokens is None else self.tokens * count
        cost = sum((self.cost for _ in range(count)), Cost())
        return Estimate(
            self.forks * count, self.steps * count, self.model_calls * count, tokens, cost
        )

    def __add__(self, other: Estimate) -> Estimate:
        known = self.tokens is not None and other.tokens is not None
        return Estimate(
            self.forks + other.forks,
            self.steps + other.steps,
            self.model_calls + other.model_calls,
            (self.tokens or 0) + (other.tokens or 0) if known else None,
            self.cost + other.cost,
        )

    def __repr__(self) -> str:
        tokens = "tokens unknown" if self.tokens is None else f"about {self.tokens:,} tokens"
        return (
            f"<Estimate: {plural(self.forks, 'fork')}, {plural(self.steps, 'step')}, "
            f"{plural(self.model_calls, 'model call')}, {tokens}, {self.cost}>"
        )


NOTHING = Estimate(0, 0, 0, 0, Cost())


def estimate(recording: Recording, seq: int, given: Sequence[Given]) -> Estimate:
    """What one fork at *seq* with these overrides is likely to come to."""
    if not given:
        return Estimate(1, 0, 0, 0, Cost())
    rows = [placed.row for placed in recording.rows(seq)]
    kinds = {kind for kind, _, _ in given}
    executing = _executing(rows, _supplied(given))
    answered = sum(kind in SUPPLIES_ANSWER and SUPPLIES_ANSWER[kind] == "model" for kind in kinds)
    calls = [call for row in executing for call in _model_calls(recording, row)]
    calls = calls[answered:] if executing and executing[0] is rows[0] else calls
    usage = sum_usage(call.usage for call in calls)
    return Estimate(
        forks=1,
        steps=len(executing),
        model_calls=len(calls),
        tokens=None if usage is None else usage.total_tokens,
        cost=_at_todays_prices(calls),
    )


def everything(recording: Recording, seq: int) -> Estimate:
    """What executing all from *seq* on is likely to come to."""
    rows = [placed.row for placed in recording.rows(seq)]
    calls = [call for row in rows for call in _model_calls(recording, row)]
    usage = sum_usage(call.usage for call in calls)
    tokens = None if usage is None else usage.total_tokens
    return Estimate(1, len(rows), len(calls), tokens, _at_todays_prices(calls))


def _at_todays_prices(calls: Sequence[CallRow]) -> Cost:
    now = time.time()
    return costs_of(replace(call, source="live", started_at=now) for call in calls)


def _supplied(given: Sequence[Given]) -> set[str] | None:
    """The keys whose values overrides supply; None where the step executes."""
    keys: set[str] = set()
    for kind, value, _ in given:
        if kind not in SUPPLIES_OUTPUT or callable(value):
            return None
        keys |= set(_patch.patched_keys(value)) if kind == "patch" else set(map(str, value))
    return keys


def _executing(rows: Sequence[StepRow], supplied: set[str] | None) -> list[StepRow]:
    """The rows that execute where the first one changes all that it writes, or is given."""
    if not rows:
        return []
    changed = {key for key, _ in rows[0].writes} if supplied is None else set(supplied)
    found = [rows[0]] if supplied is None else []
    for row in rows[1:]:
        if changed & {key for key, _ in row.reads} or row.reads_all or row.status != "complete":
            found.append(row)
            changed |= {key for key, _ in row.writes}
        else:  # what it writes is the recorded value again
            changed -= {key for key, _ in row.writes}
    return found


def _model_calls(recording: Recording, row: StepRow) -> list[CallRow]:
    """The recorded model calls of a step and the tasks inside it, one per answer."""
    store = recording.store
    there = executed(store, row)
    steps = [there, *recording.inside(row)] if there.tasks else [there]
    keys = [(s.run_id, s.path, s.seq, s.attempt) for s in steps if s.calls]
    calls = [call for key in keys for call in store.read(_read.call_rows, key)]
    return [call for call in calls if call.kind == "model" and call.status == "complete"]
