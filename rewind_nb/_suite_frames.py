"""What came of suites of recorded runs, and of executing one many times, as frames."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rewind_nb._experiment_frames import BOOL
from rewind_nb._frames import COUNT, MONEY, TEXT, WHOLE, Columns, _frame

if TYPE_CHECKING:
    import pandas as pd

    from rewind_nb.experiments import Case, Regress, Spread, Stability
    from rewind_nb.experiments._spread import Share

SHARE = MONEY  # a number from 0 to 1; <NA> where there is none

CASE_COLUMNS: Columns = {
    "run_id": TEXT,  # the recorded run: regress[run_id] is its case
    "label": TEXT,
    "result": TEXT,  # still passing, regressed, fixed, still failing, error, not run
    "was": TEXT,  # pass, fail, error: the verdict on the recorded run
    "was_reason": TEXT,
    "now": TEXT,  # likewise of more than half of the re-executions; <NA> where there is none
    "now_reason": TEXT,  # or why there is none
    "resumed_at": TEXT,  # such as "0 'search'"; <NA> where the run has no such step
    "samples": WHOLE,  # re-executions that were wanted
    "judged": WHOLE,  # that have a verdict
    "passes": WHOLE,  # that pass
    "pass_rate": SHARE,  # of the judged ones; <NA> where there are none
    "low": SHARE,  # its Wilson 95 % interval
    "high": SHARE,
    "divergence": TEXT,  # the first step that is not the recorded one
    "executed": COUNT,  # steps, over all samples
    "live_calls": WHOLE,
    "usd": MONEY,  # <NA> where a part has no price
    "fork_id": TEXT,  # the re-execution that stands for all
}
"""One row per recorded run of a suite."""


def cases_df(regress: Regress) -> pd.DataFrame:
    """One row per recorded run; columns in `CASE_COLUMNS`."""
    return _frame(map(_case_row, regress.cases), CASE_COLUMNS)


def _case_row(case: Case) -> tuple[Any, ...]:
    low, high = case.interval if case.judged else (None, None)
    rate = case.passes / case.judged if case.judged else None
    executed = sum(facts.executed for facts in case.facts.values()) if case.facts else None
    shown = None if case.probe is None else case.facts.get(case.probe.key)
    return (
        case.run.id, case.run.label, case.result, case.was, case.was_reason, case.now,
        case.now_reason, case.step, case.samples, case.judged, case.passes, rate, low, high,
        None if shown is None else shown.divergence, executed, case.live_calls,
        case.cost.whole_usd, None if case.fork is None else case.fork.id,
    )  # fmt: skip


_STEP: Columns = {
    "action": TEXT,
    "visit": WHOLE,
    "task": TEXT,  # the one it is in, such as "map:1[0]/"; "" for the run's own
}

_SHARES: Columns = {
    "reached": WHOLE,  # executions that took the step
    "distinct": WHOLE,  # outputs it had there
    "share": SHARE,  # of the most frequent one; <NA> where none took it
    "low": SHARE,  # its Wilson 95 % interval
    "high": SHARE,
}

SPREAD_COLUMNS: Columns = {
    "seq": COUNT,  # in the recorded run, or in its task; <NA> where that did not take the step
    **_STEP,
    **_SHARES,
    "as_recorded": WHOLE,  # executions that did what the recorded run did
    "failed": WHOLE,  # that failed at it
    "steady": BOOL,  # whether all of them took it and did the same
    "varies": TEXT,  # itself, inputs, unknown (`Spread.varies`); <NA> where it does not
    "moving": WHOLE,  # fields with several values
}
"""One row per step of a run that was executed many times."""

MOVING_COLUMNS: Columns = {
    **_STEP,
    "path": TEXT,  # of a leaf of what the step wrote
    "distinct": WHOLE,  # values it has, being missing among them
    "share": SHARE,  # of the most frequent one
    "entropy": SHARE,  # from 0, always one value, to 1, another in every execution
}
"""One row per field that has several values."""

DEPLOYMENT_COLUMNS: Columns = {
    **_STEP,
    "system_fingerprint": TEXT,  # every one that an execution was answered by; "" for none
    **_SHARES,
}
"""One row per step and group of executions that the same deployments answered."""


def spreads_df(stability: Stability) -> pd.DataFrame:
    """One row per step; columns in `SPREAD_COLUMNS`."""
    return _frame(map(_spread_row, stability.steps), SPREAD_COLUMNS)


def _spread_row(spread: Spread) -> tuple[Any, ...]:
    return (
        spread.seq, *_where(spread), *_shares(spread.share), spread.recorded, spread.failed,
        spread.steady, spread.varies, len(spread.moving),
    )  # fmt: skip


def moving_df(stability: Stability) -> pd.DataFrame:
    """One row per field that moves; columns in `MOVING_COLUMNS`."""
    rows = (
        (*_where(spread), field.path, field.distinct, field.share, field.entropy)
        for spread in stability.steps
        for field in spread.moving
    )
    return _frame(rows, MOVING_COLUMNS)


def deployments_df(stability: Stability) -> pd.DataFrame:
    """One row per step and group of executions; columns in `DEPLOYMENT_COLUMNS`."""
    return _frame(_deployment_rows(stability), DEPLOYMENT_COLUMNS)


def _deployment_rows(stability: Stability) -> Iterator[tuple[Any, ...]]:
    for spread in stability.steps:
        for named, share in stability.shares_by_deployment(spread).items():
            yield (*_where(spread), ", ".join(named), *_shares(share))


def _where(spread: Spread) -> tuple[str, int, str]:
    return spread.action, spread.visit, spread.path


def _shares(share: Share) -> tuple[Any, ...]:
    if not share.reached:
        return 0, 0, None, None, None
    return share.reached, share.distinct, share.share, share.low, share.high
