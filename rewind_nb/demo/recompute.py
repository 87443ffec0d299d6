"""The numbers of the example, computed a second time, by pandas.

`verify` asks this module whether a published page is right, so nothing in it is the
pipeline's: it finds the tables itself, reads them with pandas, aggregates with `groupby`
and has its own reader of numbers. Of the pipeline it takes the plan (which table, group
and columns) and compares the end, the page, and the middle, the analysis.

A number on the page is right when it is the statistic rounded to the decimals it shows:
in a table the statistic of its row and column, elsewhere one of a group that its line
names, or of all groups together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

Numbers = dict[str, dict[str, float | None]]

STATISTICS = ("count", "mean", "total", "ratio")
ALL = "all"
ANALYSIS_DECIMALS = 3

_NUMERAL = re.compile(r"(?<!\w)(?:(?<!\w)[-\u2212])?(?<!\w)\d+(?:,\d{3})*(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a comparison with the recomputed numbers found.

    Attributes:
        compared: how many numbers were looked at.
        wrong: a sentence for each that is not the recomputed one.
    """

    compared: int
    wrong: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether there were numbers, and all of them right."""
        return self.compared > 0 and not self.wrong


class _Stated(NamedTuple):
    numeral: str
    groups: tuple[str, ...]  # whose statistic it may be
    statistics: tuple[str, ...]  # and which
    line: str


def recompute(plan: Mapping[str, Any]) -> Numbers:
    """Count, mean, total and ratio per group, and of all groups together.

    Args:
        plan: `table`, `group_by`, `measures` and `ratio`, as the pipeline's plan has them.

    Raises:
        KeyError: the table has no such column.
        FileNotFoundError: there is no such table.

    Example:
        >>> plan = {
        ...     "table": "penguins",
        ...     "group_by": "species",
        ...     "measures": ["body_mass_g"],
        ...     "ratio": {"numerator": "body_mass_g", "denominator": "flipper_length_mm"},
        ... }
        >>> recompute(plan)["Gentoo"]["total"]
        624350.0
    """
    file = _table(plan["table"])
    rows = pd.read_csv(file, keep_default_na=False, na_values=["", "NA"])
    names = pd.read_csv(file, keep_default_na=False, dtype=str)[plan["group_by"]]
    needed = [plan["group_by"], *plan["measures"], *plan["ratio"].values()]
    complete = rows.dropna(subset=needed)
    numbers = {
        str(name): _summary(group, plan)
        for name, group in complete.groupby(names.loc[complete.index], sort=False)
    }
    return {**numbers, ALL: _summary(complete, plan)}


def _table(name: str) -> Path:
    """A wheel has the tables in the package, a checkout beside it."""
    here = Path(__file__).resolve()
    places = (here.with_name("data"), here.parents[2] / "data")
    return next((p for folder in places if (p := folder / f"{name}.csv").exists()), places[-1])


def _summary(rows: pd.DataFrame, plan: Mapping[str, Any]) -> dict[str, float | None]:
    measure = rows[plan["measures"][0]]
    numerator, denominator = (rows[plan["ratio"][k]].sum() for k in ("numerator", "denominator"))
    return {
        "count": len(measure),
        "mean": float(measure.mean()),
        "total": float(measure.sum()),
        "ratio": float(numerator / denominator) if denominator else None,
    }


def compare_analysis(analysis: Mapping[str, Any], numbers: Numbers) -> Comparison:
    """Every statistic of an analysis against the recomputed one, to its three decimals.

    Example:
        >>> numbers = {"A": {"count": 2}, "all": {"count": 2}}
        >>> compare_analysis({"groups": {"A": {"count": 3}}, "overall": {"count": 2}}, numbers)
        Comparison(compared=2, wrong=('A.count is 3, recomputed 2',))
    """
    found = {**analysis["groups"], ALL: analysis["overall"]}
    names = [
        (g, s) for g in {**numbers, **found} for s in {**numbers.get(g, {}), **found.get(g, {})}
    ]
    wrong = []
    for group, statistic in names:
        given, truth = (side.get(group, {}).get(statistic) for side in (found, numbers))
        if not _same(given, truth, ANALYSIS_DECIMALS):
            wrong.append(f"{group}.{statistic} is {given!r}, recomputed {truth!r}")
    return Comparison(len(names), tuple(wrong))


def compare_page(page: str, numbers: Numbers) -> Comparison:
    """Every number that a page states against the recomputed ones.

    Example:
        >>> numbers = {"A": {"count": 2, "mean": 3.14159}, "all": {"count": 2, "mean": 3.14159}}
        >>> compare_page("A has a mean of 3.14.", numbers)
        Comparison(compared=1, wrong=())
        >>> compare_page("A has a mean of 3.15.", numbers).wrong
        ("'3.15' in 'A has a mean of 3.15.' is no statistic of A, all",)
    """
    stated = list(_read(page, numbers))
    wrong = tuple(
        f"{s.numeral!r} in {s.line!r} is no {_one_of(s)}" for s in stated if not _right(s, numbers)
    )
    return Comparison(len(stated), wrong)


def _one_of(stated: _Stated) -> str:
    what = stated.statistics[0] if len(stated.statistics) == 1 else "statistic"
    return f"{what} of {', '.join(stated.groups)}"


def _right(stated: _Stated, numbers: Numbers) -> bool:
    digits = stated.numeral.replace(",", "").replace("\u2212", "-")
    decimals = len(digits.partition(".")[2])
    return any(
        _same(float(digits), truth, decimals)
        for group in stated.groups
        for statistic in stated.statistics
        for truth in _forms(numbers[group].get(statistic))
    )


def _forms(truth: float | None) -> tuple[float | None, ...]:
    """As it is, and as the analysis has it: a writer may round what was rounded before."""
    return (truth,) if truth is None else (truth, round(truth, ANALYSIS_DECIMALS))


def _same(given: float | None, truth: float | None, decimals: int) -> bool:
    """Whether a number is the other one, rounded to so many decimals."""
    if given is None or truth is None:
        return given is truth
    return abs(given - truth) <= 0.5 * 10.0**-decimals + 1e-9 * max(1.0, abs(truth))


# -- reading a page ----------------------------------------------------------------------


def _read(page: str, numbers: Numbers) -> Iterator[_Stated]:
    columns: tuple[str, ...] = ()
    for line in page.splitlines():
        cells = [cell.strip(" *`") for cell in line.strip().strip("|").split("|")]
        heading = tuple(cell.lower() for cell in cells)
        if set(STATISTICS) <= set(heading):
            columns = heading
        elif len(cells) > 1 and columns and cells[0] in numbers:
            yield from _row(cells, columns, line)
        else:
            columns = columns if len(cells) > 1 else ()
            yield from _prose(line, numbers)


def _row(cells: list[str], columns: tuple[str, ...], line: str) -> Iterator[_Stated]:
    for column, cell in zip(columns[1:], cells[1:], strict=False):
        for numeral in _NUMERAL.findall(cell):
            yield _Stated(numeral, (cells[0],), (column,), line)


def _prose(line: str, numbers: Numbers) -> Iterator[_Stated]:
    rest, named = line, []
    for group in sorted(numbers, key=len, reverse=True):  # "2007" is a group before a number
        without = re.sub(rf"(?<!\w){re.escape(group)}(?!\w|[.,]\d)", " ", rest)
        if without != rest:
            named.append(group)
        rest = without
    about = tuple(dict.fromkeys([*named, ALL]))
    for numeral in _NUMERAL.findall(rest):
        yield _Stated(numeral, about, STATISTICS, line)
