"""Experiments and grids as frames, with the dtypes of `_frames`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pandas as pd

from rewind_nb._describe import displayed
from rewind_nb._frames import ANY, COUNT, MOMENT, MONEY, TEXT, WHOLE, Columns, _frame, _moment
from rewind_nb._path import MISSING, get
from rewind_nb.errors import ExperimentError, did_you_mean

if TYPE_CHECKING:
    from rewind_nb._check import Verdict
    from rewind_nb.experiments import (
        Cell,
        Comparison,
        Experiment,
        Flip,
        Grid,
        Point,
        Probed,
        Sweep,
    )

BOOL = pd.api.types.pandas_dtype("boolean")
SHARE = MONEY  # a number that may be unknown

EXPERIMENT_COLUMNS: Columns = {
    "id": TEXT,
    "kind": TEXT,  # grid, sweep, flip, bisect, ablate, regress, stability
    "label": TEXT,
    "status": TEXT,  # running, complete, interrupted, failed
    "run_id": TEXT,  # the run it is about; <NA> where it is about several
    "question": TEXT,
    "answer": TEXT,
    "runs": WHOLE,  # that it made
    "tokens": COUNT,  # that these paid for; <NA> where a provider did not say
    "created_at": MOMENT,
    "note": TEXT,
}
"""One row per experiment."""

CELL_COLUMNS: Columns = {
    "cell": TEXT,  # its key: grid[key] is the cell
    "baseline": BOOL,  # whether it is the parent
    # then a column per axis, `object`: its value, for the baseline what was recorded
    "sample": WHOLE,
    # then a column per outcome, `object`: MISSING where the state has none
    "outcome_changed": BOOL,  # <NA> where there is none to compare
    "verdict": TEXT,  # pass, fail, error; <NA> without a check or an end
    "reason": TEXT,  # of the verdict
    "divergence": TEXT,  # the first step that is not the parent's
    "executed": COUNT,  # steps
    "reused": COUNT,  # steps taken over from the parent
    "live_calls": COUNT,
    "played_calls": COUNT,
    "tokens": COUNT,
    "usd": MONEY,  # <NA> where a part has no price
    "status": TEXT,  # of its run; refused, not run
    "error": TEXT,
    "run_id": TEXT,  # its fork; cells that ask for the same have one
}
"""One row per cell and sample of a grid."""

POINT_COLUMNS: Columns = {
    "value": ANY,
    "samples": WHOLE,
    "judged": WHOLE,  # that have a verdict; passes + fails
    "passes": WHOLE,
    "fails": WHOLE,
    "errors": WHOLE,  # that have none: they failed, were refused, or could not be judged
    "repeats": WHOLE,  # that drew nothing of their own, and count nowhere else
    "pass_rate": SHARE,  # of those judged
    "low": SHARE,  # Wilson's 95 % interval of it; <NA> for one sample
    "high": SHARE,
    "verdict": TEXT,  # of most; error where none is judged, <NA> without a check or a run
    "tied": BOOL,  # whether as many pass as fail, which counts as a fail
    # then a column per outcome, `object`: the most frequent value, MISSING where there is none
    "outcome_changed": BOOL,  # <NA> where there is none to compare
    "error": TEXT,  # why the first run without a verdict has none
    "run_ids": ANY,  # its forks, a tuple
}
"""One row per value of a sweep."""

FLIP_COLUMNS: Columns = {
    "value": ANY,
    "recorded": BOOL,  # whether it is the recorded one
    "change": ANY,  # its difference from the recorded number; None of what is no number
    "judged": WHOLE,  # samples that have a verdict
    "passes": WHOLE,
    "fails": WHOLE,
    "errors": WHOLE,
    "verdict": TEXT,  # of most; <NA> where none is judged
    "flips": BOOL,  # whether that is not the recorded one; <NA> where none is judged
    "reason": TEXT,  # of the verdict, or why there is none
    "run_ids": ANY,  # its forks, a tuple
}
"""One row per probe of a flip, the recorded value first."""


COMPARED_COLUMNS: Columns = {
    "run_id": TEXT,
    "label": TEXT,
    # then a column per outcome, `object`: MISSING where the state has none
    "outcome_changed": BOOL,  # against the first run; <NA> where there is none to compare
    "verdict": TEXT,  # pass, fail, error; <NA> without a check
    "reason": TEXT,  # of the verdict
    "divergence": TEXT,  # the first step that is not the first run's
    "executed": COUNT,  # steps
    "reused": COUNT,  # steps taken over from the parent
    "live_calls": COUNT,
    "played_calls": COUNT,
    "tokens": COUNT,
    "usd": MONEY,  # <NA> where a part has no price
    "status": TEXT,
    "error": TEXT,
}
"""One row per run of a comparison."""


def experiments_df(experiments: Iterable[Experiment]) -> pd.DataFrame:
    """One row per experiment; columns in `EXPERIMENT_COLUMNS`.

    Example:
        >>> len(experiments_df([]))
        0
    """
    return _frame((_experiment_row(one) for one in experiments), EXPERIMENT_COLUMNS)


def _experiment_row(one: Experiment) -> tuple[Any, ...]:
    usage = one.usage
    tokens = None if usage is None else usage.total_tokens
    about = None if one.run is None else one.run.id
    said = (displayed(one.question()), displayed(one.answer()) or None)
    made = _moment(one.created_at)
    return (
        one.id, one.kind, one.label, one.status, about, *said, len(one.runs), tokens, made, one.note,
    )  # fmt: skip


def comparison_df(comparison: Comparison) -> pd.DataFrame:
    """One row per run; columns in `COMPARED_COLUMNS`."""
    columns: Columns = {}
    for name, kind in COMPARED_COLUMNS.items():
        if name == "outcome_changed":
            columns |= dict.fromkeys(comparison.outcome, ANY)
        columns[name] = kind
    return _frame(
        (
            (
                row.run.id,
                row.run.label,
                *(row.judged.outcome.get(name, MISSING) for name in comparison.outcome),
                row.changed,
                *_said(row.judged.verdict),
                row.parts,
                row.facts.executed,
                row.facts.reused,
                row.facts.live_calls,
                row.facts.played_calls,
                row.facts.tokens,
                row.facts.cost.whole_usd,
                row.run.status,
                row.error or row.judged.error,
            )
            for row in comparison.rows
        ),
        columns,
    )


def _said(verdict: Verdict | None) -> tuple[str | None, str | None]:
    return (None, None) if verdict is None else (verdict.outcome, verdict.reason)


def grid_df(grid: Grid) -> pd.DataFrame:
    """One row per cell and sample; columns in `CELL_COLUMNS`."""
    columns: Columns = {}
    for name, kind in CELL_COLUMNS.items():
        if name == "sample":
            columns |= dict.fromkeys(grid.axes, ANY)
        if name == "outcome_changed":
            columns |= dict.fromkeys(grid.outcome, ANY)
        columns[name] = kind
    return _frame((_cell_row(grid, cell) for cell in grid.cells), columns)


def _cell_row(grid: Grid, cell: Cell) -> tuple[Any, ...]:
    seen = {} if cell.judged is None else cell.judged.outcome
    verdict, facts = cell.verdict, cell.facts
    spent: tuple[Any, ...] = (None,) * 7
    if facts is not None:
        usd = facts.cost.whole_usd
        spent = (
            facts.divergence, facts.executed, facts.reused, facts.live_calls, facts.played_calls,
            facts.tokens, usd,
        )  # fmt: skip
    said = _said(verdict)
    return (
        cell.key,
        cell.baseline,
        *(cell.values.get(name) for name in grid.axes),
        cell.sample,
        *(seen.get(name, MISSING) for name in grid.outcome),
        None if cell.baseline else grid.changed(cell),
        *said,
        *spent,
        cell.status,
        cell.error or (None if cell.judged is None else cell.judged.error),
        None if cell.run is None else cell.run.id,
    )


def sweep_df(sweep: Sweep) -> pd.DataFrame:
    """One row per value; columns in `POINT_COLUMNS`."""
    columns: Columns = {}
    for name, kind in POINT_COLUMNS.items():
        if name == "outcome_changed":
            columns |= dict.fromkeys(sweep.outcome, ANY)
        columns[name] = kind
    return _frame((_point_row(sweep, point) for point in sweep.points), columns)


def _point_row(sweep: Sweep, point: Point) -> tuple[Any, ...]:
    judges, (low, high) = sweep.has_check, point.interval or (None, None)
    lost = point.errors > 0 or point.digest is None
    return (
        point.value,
        len(point.cells),
        point.judged,
        point.passes,
        point.fails,
        point.errors,
        point.repeats,
        point.pass_rate,
        low,
        high,
        point.verdict if judges else None,
        point.tied if judges and point.judged else None,
        *(point.outcome.get(name, MISSING) for name in sweep.outcome),
        sweep.outcome_changed(point),
        point.why() if lost else None,
        tuple(run.id for run in point.runs),
    )


def flip_df(flip: Flip) -> pd.DataFrame:
    """One row per probe, the recorded value first; columns in `FLIP_COLUMNS`."""
    before, run = flip.verdict_before, flip.run
    passed = int(before == "pass")
    ids = () if run is None else (run.id,)
    first = (flip.recorded, True, None, 1, passed, 1 - passed, 0, before, False, None, ids)
    return _frame((first, *map(_probe_row, flip.probes)), FLIP_COLUMNS)


def _probe_row(probe: Probed) -> tuple[Any, ...]:
    known = probe.verdict is not None
    return (
        probe.value, False, probe.change, probe.passes + probe.fails, probe.passes, probe.fails,
        probe.errors, probe.verdict, probe.flips if known else None, probe.reason, probe.run_ids,
    )  # fmt: skip


def pivot(grid: Grid, rows: str | None, columns: str | None, values: str | None) -> pd.DataFrame:
    """One value per combination of two axes, in the order of their values."""
    axes = list(grid.axes)
    rows = axes[0] if rows is None else rows
    if columns is None:
        columns = next((name for name in axes if name != rows), None)
    for name in filter(None, (rows, columns)):
        if name not in axes:
            raise ExperimentError(f"No axis {name!r}. {did_you_mean(name, axes)}")
    frame = grid_df(grid)
    frame = frame[~frame.baseline]
    if values is None:
        judged = grid.asked["check"] is not None
        shown = (frame.verdict == "pass").where(frame.verdict.notna()) if judged else None
        shown = frame.outcome_changed if shown is None else shown
    elif values in frame:
        shown = frame[values]
    else:
        raise ExperimentError(f"No column {values!r}. {did_you_mean(values, map(str, frame))}")
    # by position: values need not be hashable, nor distinct
    at = [place.choice for place in grid.places if place.choice is not None]
    i = axes.index(rows)
    j = None if columns is None else axes.index(columns)
    found: dict[tuple[int, int], list[Any]] = {}
    for choice, value in zip(at, shown, strict=True):
        found.setdefault((choice[i], 0 if j is None else choice[j]), []).append(value)
    across = [None] if j is None else list(range(len(grid.axes[axes[j]])))
    table = [
        [_one(found.get((row, 0 if column is None else column), [])) for column in across]
        for row in range(len(grid.axes[rows]))
    ]
    named = grid.labels(columns) if columns is not None else [values or "share"]
    return pd.DataFrame(
        table,
        index=pd.Index(grid.labels(rows), name=rows),
        columns=pd.Index(named, name=columns),
    )


def _one(values: list[Any]) -> Any:
    """The mean of numbers and truth values; of anything else what is most frequent."""
    plain = [v.item() if hasattr(v, "dtype") and hasattr(v, "item") else v for v in values]
    there = [v for v in plain if v is not None and v is not pd.NA and v == v]  # noqa: PLR0124
    if not there:
        return None
    if all(isinstance(v, bool | int | float) for v in there):
        return sum(map(float, there)) / len(there)
    counts: list[tuple[int, int, Any]] = []
    for position, value in enumerate(there):
        counts.append((there.count(value), -position, value))
    return max(counts, key=lambda count: count[:2])[2]


def compared(grid: Grid, path: str) -> pd.DataFrame:
    """A field of the final state across all cells."""
    columns: Columns = {
        "cell": TEXT,
        **dict.fromkeys(grid.axes, ANY),
        "sample": WHOLE,
        "run_id": TEXT,
        "value": ANY,
        "changed": BOOL,
    }
    baseline = None if grid.run is None else get(grid.run.state, path)
    rows = []
    for cell in grid.cells:
        value = MISSING if cell.run is None else get(cell.run.state, path)
        changed = None if cell.run is None else not _same(value, baseline)
        run_id = None if cell.run is None else cell.run.id
        axes = (cell.values.get(name) for name in grid.axes)
        rows.append((cell.key, *axes, cell.sample, run_id, value, changed))
    return _frame(rows, columns)


def _same(a: Any, b: Any) -> bool:
    from rewind_nb import _codec

    if MISSING in (a, b):
        return a is b
    return _codec.encode(a) == _codec.encode(b)
