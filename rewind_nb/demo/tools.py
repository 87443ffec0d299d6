"""The computations of the example: select rows, aggregate them, check a text.

`check_numbers` is what keeps a model honest. Every numeral of a text must be a
statistic of the analysis, rounded as the text rounds it: in a table the one of
its row and column, in prose one of a group that the same line names, or of the
whole.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from rewind_nb.capture.tools import tool
from rewind_nb.demo.tables import read_table, tables
from rewind_nb.errors import StepFailure, did_you_mean

Columns = dict[str, list[float]]
Statistics = dict[str, float | None]

STATISTICS = ("count", "mean", "total", "ratio")
WHOLE = "all"  # the row of a text's table that is about every group together
MISSING = ("", "NA")
DECIMALS = 3

# A numeral, wherever it does not belong to a word such as CC0.
_NUMERAL = re.compile(r"(?:(?<!\w)[-\u2212])?(?<!\w)(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?")


# -- research ----------------------------------------------------------------------


@tool(cache=False)  # it reads a file: another run must not be served an older table
def load_rows(table: str, group_by: str, columns: list[str]) -> dict[str, Any]:
    """Read the columns a plan needs, group by group; a row that lacks one is left out.

    Args:
        table: a file of `data/`, without its suffix.
        group_by: the column that names a row's group.
        columns: the columns whose numbers are wanted.

    Returns:
        The numbers of rows `kept` and `dropped`, and `values[group][column]`.

    Raises:
        StepFailure: no such table or column, or a column that is not numeric.

    Example:
        >>> rows = load_rows("penguins", "species", ["body_mass_g"])
        >>> rows["kept"], rows["dropped"], list(rows["values"])
        (342, 2, ['Adelie', 'Gentoo', 'Chinstrap'])
    """
    _require("table", table, tables())
    rows = read_table(table)
    for column in (group_by, *columns):
        _require("column", column, rows[0])
    complete = [row for row in rows if not any(row[c] in MISSING for c in (group_by, *columns))]
    values: dict[str, Columns] = {}
    for row in complete:
        group = values.setdefault(row[group_by], {column: [] for column in columns})
        for column in columns:
            group[column].append(_number(row[column], column))
    kept = len(complete)
    return {"table": table, "kept": kept, "dropped": len(rows) - kept, "values": values}


def _require(what: str, name: str, known: Any) -> None:
    if name not in known:
        message = f"the plan names the {what} {name!r}, which is not there. "
        raise StepFailure("research", message + did_you_mean(name, known), raw=name)


def _number(cell: str, column: str) -> float:
    try:
        return int(cell) if cell.isdigit() else float(cell)
    except ValueError:
        message = f"the plan measures {column!r}, but its cell {cell!r} is not a number. "
        raise StepFailure("research", message + "Choose a measure column.", raw=cell) from None


# -- analyse -----------------------------------------------------------------------


@tool
def group_statistics(
    values: dict[str, Columns], measure: str, ratio: dict[str, str]
) -> dict[str, Any]:
    """Count, mean and total of a measure, and a ratio of two totals, per group and overall.

    Example:
        >>> values = {"A": {"mass": [2, 4], "length": [1, 2]}}
        >>> group_statistics(values, "mass", {"numerator": "mass", "denominator": "length"})["groups"]
        {'A': {'count': 2, 'mean': 3.0, 'total': 6.0, 'ratio': 2.0}}
    """
    whole: Columns = {}
    for columns in values.values():
        for name, numbers in columns.items():
            whole.setdefault(name, []).extend(numbers)
    return {
        "groups": {name: _summary(columns, measure, ratio) for name, columns in values.items()},
        "overall": _summary(whole, measure, ratio),
    }


def _summary(columns: Columns, measure: str, ratio: dict[str, str]) -> Statistics:
    count, total = len(columns[measure]), math.fsum(columns[measure])
    numerator, denominator = (math.fsum(columns[ratio[n]]) for n in ("numerator", "denominator"))
    return {
        "count": count,
        "mean": _divide(total, count),
        "total": round(total, DECIMALS),
        "ratio": _divide(numerator, denominator),
    }


def _divide(numerator: float, denominator: float) -> float | None:
    return round(numerator / denominator, DECIMALS) if denominator else None


# -- verify ------------------------------------------------------------------------


@tool
def check_numbers(text: str, analysis: dict[str, Any]) -> list[dict[str, str]]:
    """Find every number of a text in the analysis.

    Args:
        text: Markdown; a table with the columns count, mean, total and ratio is
            checked cell by cell.
        analysis: what `group_statistics` returned.

    Returns:
        One entry per number: what the text has, and which statistic it `is`.

    Raises:
        StepFailure: a number that is none of the statistics it could be, or a
            text without numbers.

    Example:
        >>> analysis = {"groups": {"A": {"count": 2, "mean": 3.14159}}, "overall": {"count": 2}}
        >>> check_numbers("A has a mean of 3.14.", analysis)
        [{'stated': '3.14', 'is': 'A.mean'}]
    """
    truth = {**analysis["groups"], WHOLE: analysis["overall"]}
    checked = []
    for stated, candidates, line in _statements(text, truth):
        found = next((c for c in candidates if _agrees(stated, truth[c[0]].get(c[1]))), None)
        if found is None:
            raise _wrong_number(stated, candidates, line, text)
        checked.append({"stated": stated, "is": ".".join(found)})
    if not checked:
        message = "the text states no number, so there is nothing to publish. Ask for the numbers."
        raise StepFailure("verify", message, raw=text)
    return checked


def _statements(
    text: str, truth: dict[str, Statistics]
) -> Iterator[tuple[str, list[tuple[str, str]], str]]:
    """Each numeral, the (group, statistic) pairs that it could be, and its line."""
    header: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip(" *`") for cell in line.strip().strip("|").split("|")]
        if len(cells) == 1:
            header = []
        elif set(STATISTICS) <= {cell.lower() for cell in cells}:
            header = [cell.lower() for cell in cells]
            continue
        if header and cells[0] in truth:
            for column, cell in zip(header[1:], cells[1:], strict=False):
                for stated in _NUMERAL.findall(cell):
                    yield stated, [(cells[0], column)], line
        else:
            yield from _prose(line, truth)


def _prose(
    line: str, truth: dict[str, Statistics]
) -> Iterator[tuple[str, list[tuple[str, str]], str]]:
    named = []
    rest = line
    for group in sorted(truth, key=len, reverse=True):
        # A group may be called 2007: where a line names it, that is no number.
        rest, times = re.subn(rf"(?<!\w){re.escape(group)}(?!\w|[.,]\d)", " ", rest)
        if times:
            named.append(group)
    about = [group for group in truth if group in named or group == WHOLE]
    for stated in _NUMERAL.findall(rest):
        yield stated, [(group, statistic) for group in about for statistic in STATISTICS], line


def _agrees(stated: str, value: Any) -> bool:
    """Whether a numeral is the value, rounded to the decimals that it shows."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return False
    numeral = Decimal(stated.replace(",", "").replace("\u2212", "-"))
    exponent = numeral.as_tuple().exponent
    unit = Decimal(1).scaleb(int(exponent))
    return abs(numeral - Decimal(str(value))) <= unit / 2


def _wrong_number(
    stated: str, candidates: list[tuple[str, str]], line: str, text: str
) -> StepFailure:
    could_be = ", ".join(".".join(candidate) for candidate in candidates)
    return StepFailure(
        "verify",
        f"the text states {stated!r}, which is not {could_be} of the analysis, in {line!r}. "
        "Correct the text, or the analysis it should follow.",
        raw=text,
        stated=stated,
        line=line,
    )
