"""What came of bisects and ablates, as frames with the dtypes of `_frames`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rewind_nb._frames import ANY, COUNT, MONEY, TEXT, WHOLE, Columns, _frame
from rewind_nb.experiments._bisect import place_of
from rewind_nb.experiments._facts import FactsOf

if TYPE_CHECKING:
    import pandas as pd

    from rewind_nb.experiments import Ablate, Bisect

PROBE_COLUMNS: Columns = {
    "seq": WHOLE,  # the step it re-runs from
    "action": TEXT,
    "visit": WHOLE,
    "sample": WHOLE,
    "verdict": TEXT,  # pass, fail, error; <NA> where it did not come to its end
    "reason": TEXT,  # of the verdict, or why there is none
    "status": TEXT,  # of its run; refused
    "executed": COUNT,  # steps
    "live_calls": COUNT,
    "tokens": COUNT,
    "usd": MONEY,  # <NA> where a part has no price
    "run_id": TEXT,
}
"""One row per probe of a bisect."""

FACT_COLUMNS: Columns = {
    "fact": TEXT,  # its address
    "kind": TEXT,  # tool, model, state, inputs
    "recorded": TEXT,  # its value, in words
    "tried": ANY,  # a list: what took its place, in words
    "verdicts": ANY,  # a list beside it: pass, fail, error; failed, refused, not run
    "conclusion": TEXT,  # possibly load-bearing, not load-bearing, unclear, not tried, ...
    "reason": TEXT,  # of the conclusion
    "tokens": COUNT,  # that its forks paid for; <NA> where a provider did not say
    "usd": MONEY,  # <NA> where a part has no price
    "run_ids": ANY,  # a list: its forks
}
"""One row per fact of an ablate."""


def bisect_df(bisect: Bisect) -> pd.DataFrame:
    """One row per probe, in the order they were made; columns in `PROBE_COLUMNS`."""
    assert bisect.run is not None  # noqa: S101  (a bisect is about one run)
    look, rows = FactsOf(bisect.run), []
    for probe in bisect.probes.values():
        seq, sample = place_of(probe.key)
        step, run = bisect.run[seq], probe.run
        spent: tuple[Any, ...] = (None,) * 5
        if run is not None:
            facts = look(run)
            usd = facts.cost.whole_usd
            spent = (facts.executed, facts.live_calls, facts.tokens, usd, run.id)
        said = (probe.verdict, probe.reason or None, probe.status)
        rows.append((seq, step.action, step.visit, sample, *said, *spent))
    return _frame(rows, PROBE_COLUMNS)


def ablate_df(ablate: Ablate) -> pd.DataFrame:
    """One row per fact, in the order of the run; columns in `FACT_COLUMNS`."""
    rows = []
    for fact in ablate.facts:
        runs = [probe.run.id for probe in fact.made if probe.run is not None]
        tried = (list(fact.tried), list(fact.verdicts), fact.conclusion, fact.reason or None)
        spent = (fact.tokens, fact.cost.whole_usd, runs)
        rows.append((fact.address, fact.kind, fact.recorded, *tried, *spent))
    return _frame(rows, FACT_COLUMNS)
