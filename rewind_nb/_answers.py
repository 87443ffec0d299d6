"""Which calls of a step were answered otherwise on its two sides, and by whom."""

from __future__ import annotations

from collections.abc import Iterator

from rewind_nb._changes import Pair
from rewind_nb._model import ASKED, CallRow
from rewind_nb._run import Step
from rewind_nb._steps import PAID_ELSEWHERE
from rewind_nb._store import _read

ANEW = "asked anew: another answer"
SAID_APART = ("override", "refused")  # sources of what nobody answered

Request = tuple[str, str, str, int]
"""What a call is known by inside its step: kind, branch, fingerprint and sample."""


def other_answers(pair: Pair) -> list[str]:
    """How the second side came to other answers than the first to the same requests, in words.

    Of a tool and what it called itself, what it called is named. An answer that an override
    supplied is not: that is told as the override.
    """
    before, after = pair
    if before is None or after is None or pair.shared:
        return []
    theirs = _answered(before) if _asks(after) and _asks(before) else {}
    ours = _answered(after) if theirs else {}
    differing = [
        row
        for request, row in ours.items()
        if request in theirs and _outcome(theirs[request]) != _outcome(row)
    ]
    outer = {row.parent for row in differing}
    by: dict[str, list[int]] = {}
    for row in differing:
        if row.idx not in outer:
            by.setdefault(_whence(after, row), []).append(row.idx)
    return list(_words(by))


def _asks(step: Step) -> bool:
    return bool(step.row.calls) or step.row.origin is not None


def _answered(step: Step) -> dict[Request, CallRow]:
    rows = step.store.read(_read.call_rows, step.executed_key)
    return {
        (row.kind, row.branch, row.fingerprint, row.n): row
        for row in rows
        if row.kind in ASKED and row.status != "started" and row.source not in SAID_APART
    }


def _outcome(row: CallRow) -> tuple[str | None, ...]:
    error = row.error
    return (row.response,) if error is None else (row.response, error.type, error.message)


def _whence(step: Step, row: CallRow) -> str:
    """How a step came by an answer: another run had it, or it asked itself."""
    if row.replayed_from is not None:
        return f"played back from run {row.replayed_from.partition('/')[0]}"
    return f"taken over from run {row.run_id}" if step.source in PAID_ELSEWHERE else ANEW


def _words(by: dict[str, list[int]]) -> Iterator[str]:
    for whence, calls in by.items():
        several = len(calls) > 1
        which = ", ".join(map(str, calls))
        subject = (
            f"the answers of calls {which} were" if several else f"the answer of call {which} was"
        )
        yield whence if whence == ANEW else f"{subject} {whence}"
