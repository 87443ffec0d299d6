"""What steps cost the run that executed them, from the calls in the store."""

from __future__ import annotations

from collections.abc import Sequence

from rewind_nb._cost import Cost, costs_of
from rewind_nb._model import CallRow, StepRow
from rewind_nb._store import Store, _read

__all__ = ["spent"]

CUT_OFF = Cost(
    missing=frozenset({("(unknown)", "the process ended inside a step")}),
    usage=None,
)


def spent(store: Store, rows: Sequence[StepRow]) -> list[Cost]:
    """What each attempt at a step cost by its own calls, those of its tasks apart.

    Raises:
        StoreCorruptError: a call is missing or damaged.
    """
    # one that was put in from another step made no call here; one that is open counted none yet
    paid = [row.live_calls > 0 or row.status == "open" for row in rows]
    keys = [(r.run_id, r.path, r.seq, r.attempt) for r, own in zip(rows, paid, strict=True) if own]
    if not keys:
        return [Cost()] * len(rows)
    # on one connection: taking one per step costs more than the query
    found = iter(store.read(lambda c: [_read.call_rows(c, key) for key in keys]))
    return [_of(row, next(found)) if own else Cost() for row, own in zip(rows, paid, strict=True)]


def _of(row: StepRow, calls: Sequence[CallRow]) -> Cost:
    return costs_of(calls) + (CUT_OFF if row.status == "open" else Cost())
