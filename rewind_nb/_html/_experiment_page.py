"""An experiment: what was asked, what came of it and what it cost; a grid as a heat map."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rewind_nb._html._markup import Child, Html, join, note, row, table, tag, text
from rewind_nb._html._parts import (
    count,
    facts,
    heading,
    mono,
    number,
    page,
    quoting,
    status_chip,
    title,
)

if TYPE_CHECKING:
    from rewind_nb.experiments import Cell, Comparison, Experiment, Grid

__all__ = ["comparison_html", "experiment_html"]

MAX_MAPS = 6
MAX_SIDE = 40  # values of an axis in one map
SHORT = 32  # characters that stand in one line
_NUMBER = re.compile(r"[+-]?[\d,]*\.?\d+")


def experiment_html(experiment: Experiment) -> str:
    """An experiment as one self-contained piece of HTML, without script.

    Example:
        >>> "Grid" in experiment_html(rw.grid(run, "plan", {"model": ["a"]}))  # doctest: +SKIP
        True
    """
    name = type(experiment).__name__
    label = tag("b", text(experiment.label, 80)) if experiment.label else None
    said = experiment.answer()
    return page(
        heading(
            tag("b", name),
            label,
            status_chip(experiment.status),
            mono(experiment.id),
        ),
        tag("div", quoting(experiment.question(), 600), class_="rw-line"),
        tag("div", tag("b", quoting(said, 2000)), class_=f"rw-box rw-{experiment.tone}")
        if said
        else None,
        tag("div", text(experiment.note, 1000), class_="rw-box rw-warn")
        if experiment.note
        else None,
        facts(experiment.spent(), f"mode: {_mode(experiment)}"),
        *_maps(experiment),
        *_table(experiment),
    )


def comparison_html(comparison: Comparison) -> str:
    """Runs side by side as one self-contained piece of HTML, without script."""
    columns, rows = comparison.table()
    shown = (row(*(_cell(value) for value in values)) for values in rows)
    return page(
        heading(tag("b", "Comparison"), tag("span", count(len(comparison.runs), "run"))),
        tag("div", tag("b", quoting(comparison.answer(), 2000)), class_="rw-box rw-cache"),
        table(columns, shown, "… more runs than fit; .df has all"),
    )


def _mode(experiment: Experiment) -> str:
    mode = experiment.asked.get("mode", {})
    return ", ".join(f"{key} {value}" for key, value in mode.items())


def _table(experiment: Experiment) -> Iterator[Html]:
    columns, rows = experiment.table()
    if rows:
        shown = (row(*(_cell(value) for value in values)) for values in rows)
        yield title(experiment.ROWS)
        yield table(columns, shown, "… more rows than fit; .df has all")


def _cell(value: str) -> Child:
    if _NUMBER.fullmatch(value):
        return number(value)
    return tag("div", text(value, 200), class_="rw-keep" if len(value) < SHORT else "rw-why")


# -- the heat map -------------------------------------------------------------------------


def _maps(experiment: Experiment) -> Iterator[Html]:
    """A map over the first two axes for each combination of the others."""
    from rewind_nb.experiments import Grid

    if not isinstance(experiment, Grid):
        return
    axes = list(experiment.axes)
    names = axes[:2]
    maps = _by_rest(experiment, names)
    for shown, (rest, cells) in enumerate(maps.items()):
        if shown == MAX_MAPS:
            yield note(f"… {count(len(maps) - MAX_MAPS, 'more map')}; .df and .pivot() have all")
            return
        if rest:
            yield title(mono(", ".join(rest), 400))
        yield _map(experiment, names, cells)


Place = tuple[int, int]


def _by_rest(grid: Grid, names: list[str]) -> dict[tuple[str, ...], dict[Place, list[Cell]]]:
    found: dict[tuple[str, ...], dict[Place, list[Cell]]] = {}
    others = [(i, axis) for i, axis in enumerate(grid.axes) if axis not in names]
    labels = {axis: grid.labels(axis) for axis in grid.axes}
    for place, cell in zip(grid.places, grid.cells, strict=True):
        if place.choice is None:
            continue
        rest = tuple(f"{axis} = {labels[axis][place.choice[i]]}" for i, axis in others)
        at = (place.choice[0], place.choice[1] if len(names) > 1 else 0)
        found.setdefault(rest, {}).setdefault(at, []).append(cell)
    return found


def _map(grid: Grid, names: list[str], cells: dict[Place, list[Cell]]) -> Html:
    rows = grid.labels(names[0])
    columns = grid.labels(names[1]) if len(names) > 1 else [""]
    head = tag("tr", tag("th", ""), *(tag("th", text(c, 60)) for c in columns[:MAX_SIDE]))
    lines = (
        tag(
            "tr",
            tag("th", text(words, 60)),
            *(_square(grid, cells.get((i, j), [])) for j in range(len(columns[:MAX_SIDE]))),
        )
        for i, words in enumerate(rows[:MAX_SIDE])
    )
    cut = max(len(rows), len(columns)) > MAX_SIDE
    made = tag("table", head, *lines, class_="rw-table rw-heat")
    more = note(f"the first {MAX_SIDE} values of each axis") if cut else None
    across = join("; across: ", mono(names[1])) if len(names) > 1 else None
    axes = tag("div", "down: ", mono(names[0]), across, class_="rw-facts")
    return join(axes, tag("div", made, class_="rw-scroll"), more)


def _square(grid: Grid, cells: list[Cell]) -> Html:
    """What the samples of one combination came to: a share as colour and words."""
    judged = [cell for cell in cells if cell.judged is not None]
    lines: list[Child] = []
    if grid.asked["check"] is not None:
        verdicts = [cell.verdict.outcome for cell in judged if cell.verdict is not None]
        passed, known = verdicts.count("pass"), verdicts.count("pass") + verdicts.count("fail")
        share = passed / known if known else None
        lines.append(_verdict(passed, verdicts.count("fail"), verdicts.count("error")))
        colour = "rw-passes"
    else:
        changed = [grid.changed(cell) for cell in judged]
        share = sum(map(bool, changed)) / len(changed) if changed else None
        colour = "rw-changes"
    lines += _outcomes(grid, judged)
    if not grid.outcome and grid.asked["check"] is None and judged:
        lines.append("changed" if share else "same")
    errors = [cell for cell in cells if cell.error is not None]
    left = len(cells) - len(judged) - len(errors)
    lines += [tag("span", "✕ ", text(errors[0].error or "", 60), class_="rw-dim")] if errors else []
    lines += [tag("span", f"… {left} not run", class_="rw-dim")] if left else []
    style = None if share is None else f"--rw-p:{share:.2f}"
    divs = (tag("div", line) for line in lines)
    return tag("td", *divs, class_=colour if share is not None else None, style=style)


def _verdict(passed: int, failed: int, errors: int) -> str:
    if passed + failed + errors == 0:
        return "no verdict"
    if passed + failed + errors == 1:
        return "✓ pass" if passed else "✕ fail" if failed else "? error"
    said = [f"{passed} of {passed + failed} pass"] if passed + failed else []
    return ", ".join([*said, *([f"{errors} error"] if errors else [])])


def _outcomes(grid: Grid, judged: list[Cell]) -> Iterable[Child]:
    from rewind_nb.experiments import label

    for name in grid.outcome:
        seen: dict[str, int] = {}
        for cell in judged:
            words = label(cell.judged.outcome.get(name)) if cell.judged else ""
            seen[words] = seen.get(words, 0) + 1
        shown = sorted(seen, key=lambda words: -seen[words])[:3]
        for words in shown:
            times = f" x{seen[words]}" if len(judged) > 1 else ""
            yield join(mono(words, 60), tag("span", times, class_="rw-dim"))
