"""`Grid`: forks over the product of override values, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from rewind_nb import _path
from rewind_nb._check import Check, Verdict
from rewind_nb._compare import Diff, compare
from rewind_nb._describe import displayed, plural, short
from rewind_nb._model import ENDED
from rewind_nb._run import Run
from rewind_nb.errors import ExperimentError, did_you_mean
from rewind_nb.experiments._axes import RECORDED, Axis, choices, label, restored
from rewind_nb.experiments._cells import BASELINE, Place, key_of
from rewind_nb.experiments._experiment import Experiment
from rewind_nb.experiments._facts import Facts, FactsOf, failure
from rewind_nb.experiments._verdicts import Judged, Outcome, judge

if TYPE_CHECKING:
    import pandas as pd


WORDS = 40  # characters of a value's label


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of a grid and sample, or its baseline.

    Attributes:
        key: its name: the positions of its values, then the sample.
        values: its value on each axis; for the baseline what was recorded.
        run: its fork; None where it was refused or not made yet.
        error: what stopped it, in words.
        facts: what the fork came to: steps, calls, tokens, where it parts.
    """

    key: str
    values: Mapping[str, Any]
    sample: int
    run: Run | None
    judged: Judged | None
    facts: Facts | None
    error: str | None = None
    baseline: bool = False

    @property
    def status(self) -> str:
        """Its run's; ``refused`` or ``not run`` where there is none."""
        if self.run is not None:
            return self.run.status
        return "not run" if self.error is None else "refused"

    @property
    def verdict(self) -> Verdict | None:
        """What the check said; None without one, or where the run did not come to an end."""
        return None if self.judged is None else self.judged.verdict

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={label(value)}" for name, value in self.values.items())
        run = "no run" if self.run is None else self.run.id
        said = self.error or (self.verdict.outcome if self.verdict else self.status)
        return f"<Cell {self.key}: {short(values, 200)[:200]}; sample {self.sample}; {run}; {said}>"


class Grid(Experiment):
    """Forks of one run over the product of override values, times samples.

    ``grid.df`` has one row per cell and sample, the parent's first; ``grid["0,1/0"]``, or
    ``grid.cell(prompt="...", sample=1)``, is a cell, and leads to its fork and its diff.
    """

    KIND: ClassVar[str] = "grid"
    ROWS: ClassVar[str] = "Cells"

    @cached_property
    def _axes(self) -> tuple[Axis, ...]:
        return restored(self.asked["over"])[0]

    @property
    def axes(self) -> dict[str, tuple[Any, ...]]:
        """The values on each axis; a callable that was stored comes back as its name."""
        return {axis.name: axis.values for axis in self._axes}

    def labels(self, axis: str) -> list[str]:
        """The values on an axis in few words, each another."""
        words = [_cut(label(value)) for value in self.axes[axis]]
        seen = [words[:i].count(word) for i, word in enumerate(words)]
        return [f"{w} ({n + 1})" if n else w for w, n in zip(words, seen, strict=True)]

    @property
    def samples(self) -> int:
        """How many runs each combination of values gets."""
        return int(self.asked["samples"])

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """The baseline and the place of every cell, the last axis fastest, samples within."""
        twins = self.asked["twins"]
        found = [Place(None, 0, BASELINE)]
        for choice in choices(self._axes):
            for sample in range(self.samples):
                key = key_of(choice, sample)
                found.append(Place(choice, sample, twins.get(key, key)))
        return tuple(found)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """Every cell, the baseline first."""
        assert self.run is not None  # noqa: S101  (a grid is about one run)
        made = {run._row.cell: run for run in self.runs}  # noqa: SLF001
        judge_of, look = Judges(self), FactsOf(self.run)
        refused = self.found.get("refused", {})
        facts: dict[str, Facts] = {}
        cells = []
        for place in self.places:
            run = self.run if place.choice is None else made.get(place.twin)
            ended = run is not None and run.status in ENDED
            if run is not None and place.twin not in facts:
                facts[place.twin] = look(run)
            cells.append(
                Cell(
                    key=place.key,
                    values=self._values(place),
                    sample=place.sample,
                    run=run,
                    judged=judge_of(place.twin, run) if run is not None and ended else None,
                    facts=facts.get(place.twin),
                    error=failure(run) or refused.get(place.twin),
                    baseline=place.choice is None,
                )
            )
        return tuple(cells)

    def _values(self, place: Place) -> dict[str, Any]:
        """The value of a cell on each axis; what was recorded where that stands."""
        recorded: dict[str, Any] = self.asked["recorded"]
        given = place.values(self._axes)
        return {
            axis.name: recorded[axis.name]
            if (v := given.get(axis.name, RECORDED)) is RECORDED
            else v
            for axis in self._axes
        }

    @property
    def baseline(self) -> Cell:
        """The parent, as a cell."""
        return self.cells[0]

    @cached_property
    def outcome(self) -> tuple[str, ...]:
        """The names of the outcome columns."""
        return tuple(self.asked["outcome"]["columns"])

    def __iter__(self) -> Iterator[Cell]:
        return iter(self.cells)

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, key: str | int) -> Cell:
        """The cell of a row of ``df``: its key, or its position.

        Raises:
            ExperimentError: there is none.
        """
        if isinstance(key, int):
            return self.cells[key]
        found = next((cell for cell in self.cells if cell.key == key), None)
        if found is None:
            near = did_you_mean(str(key), [place.key for place in self.places])
            raise ExperimentError(f"Grid {self.id} has no cell {key!r}. {near}")
        return found

    def cell(self, sample: int = 0, **values: Any) -> Cell:
        """The one cell with these values; axes that have one value only may be left out.

        Axes whose name is no identifier are given as ``grid.cell(**{"state.city": "Bern"})``.

        Raises:
            ExperimentError: there is none, or several.
        """
        for name in values:
            if name not in self.axes:
                raise ExperimentError(f"No axis {name!r}. {did_you_mean(name, self.axes)}")
        found = [
            cell
            for cell in self.cells
            if not cell.baseline
            and cell.sample == sample
            and all(_is(cell.values[name], value) for name, value in values.items())
        ]
        if len(found) != 1:
            raise ExperimentError(
                f"{plural(len(found), 'cell')} of grid {self.id} fit; its axes: "
                + "; ".join(f"{n}: {', '.join(map(label, v))}" for n, v in self.axes.items())
                + f"; samples 0 to {self.samples - 1}."
            )
        return found[0]

    def diff(self, cell: str | int | Cell) -> Diff:
        """The parent and the fork of a cell, compared.

        Raises:
            ExperimentError: it has no fork.
        """
        found = cell if isinstance(cell, Cell) else self[cell]
        if found.run is None or self.run is None:
            raise ExperimentError(f"Cell {found.key} has no fork: {found.error or 'not run yet'}.")
        return compare(self.run, found.run)

    @property
    def df(self) -> pd.DataFrame:
        """One row per cell and sample, the parent's first; columns in `_experiment_frames.CELL_COLUMNS`."""
        from rewind_nb import _experiment_frames

        return _experiment_frames.grid_df(self)

    def pivot(
        self, rows: str | None = None, columns: str | None = None, values: str | None = None
    ) -> pd.DataFrame:
        """One value per combination of two axes, over samples and the other axes.

        Args:
            rows: an axis; the first by default.
            columns: another; the second by default, where there is one.
            values: a column of ``df``. By default the share of runs that pass where there is a
                check, else the share whose outcome changed. A number is averaged; of anything
                else the most frequent value stands.

        Raises:
            ExperimentError: there is no such axis or column.
        """
        from rewind_nb import _experiment_frames

        return _experiment_frames.pivot(self, rows, columns, values)

    def compare(self, path: str) -> pd.DataFrame:
        """A field of the final state across all cells: one row per cell.

        Columns are the axes, `sample`, `run_id`, `value` (`MISSING` where there is none) and
        `changed` (whether it differs from the parent's, by encoding).

        Raises:
            ConfigError: *path* is none.
        """
        from rewind_nb import _experiment_frames

        _path.parse(path)
        return _experiment_frames.compared(self, path)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """A row per cell, the baseline first."""
        many = self.samples > 1
        judges = self.asked["check"] is not None
        head = [*self.axes, *(["sample"] if many else []), *self.outcome]
        head += [*(["verdict"] if judges else []), "parts at", "executed", "tokens", "cost", "run"]
        return head, [self._shown(cell, many, judges) for cell in self.cells]

    def _shown(self, cell: Cell, many: bool, judges: bool) -> list[str]:
        seen = {} if cell.judged is None else cell.judged.outcome
        words = [_cut(label(cell.values[name])) for name in self.axes]
        words += [str(cell.sample)] if many else []
        words += [_cut(label(seen[name])) if name in seen else "" for name in self.outcome]
        if judges:
            verdict = cell.verdict
            words.append(cell.error or cell.status if verdict is None else verdict.outcome)
        facts = cell.facts
        parts = "the baseline" if cell.baseline else (facts and facts.divergence) or "nowhere"
        if facts is None:
            return [*words, cell.error or cell.status, "", "", "", ""]
        tokens = "unknown" if facts.tokens is None else f"{facts.tokens:,}"
        run = "" if cell.run is None else cell.run.id
        return [*words, parts, str(facts.executed), tokens, str(facts.cost), run]

    def question(self) -> str:
        """Such as ``3 x 2 values of prompt and model at 3 'critique', 3 samples``."""
        sizes = " x ".join(str(len(axis.values)) for axis in self._axes)
        names = " and ".join(axis.name for axis in self._axes)
        noun = "value" if sizes == "1" else "values"
        many = f", {self.samples} samples" if self.samples > 1 else ""
        return f"{sizes} {noun} of {names} at {self.asked['step']} of {self._row.run_id}{many}"

    def answer(self) -> str:
        """How many cells differ from the parent, pass the check, or have an error."""
        cells = [cell for cell in self.cells if not cell.baseline]
        judged = [cell for cell in cells if cell.judged is not None]
        if not judged and all(cell.error is None for cell in cells):
            return ""
        said = [f"{len(judged)} of {plural(len(cells), 'cell')} ended"]
        if changed := sum(bool(self.changed(cell)) for cell in judged):
            what = ", ".join(f"`{name}`" for name in self.outcome) or "the final state"
            said.append(f"{what} changed in {changed}")
        for outcome, word in (("pass", "pass"), ("fail", "fail"), ("error", "could not be judged")):
            verdicts = [cell.verdict for cell in judged if cell.verdict is not None]
            if count := sum(verdict.outcome == outcome for verdict in verdicts):
                said.append(f"{count} {word}")
        if errors := sum(cell.error is not None for cell in cells):
            said.append(f"{plural(errors, 'error')}")
        return ", ".join(said)

    def changed(self, cell: Cell) -> bool | None:
        """Whether a cell's outcome is not the parent's; None where one of them has none."""
        mine = None if cell.judged is None else cell.judged.digest
        theirs = None if self.baseline.judged is None else self.baseline.judged.digest
        return None if mine is None or theirs is None else mine != theirs


class Judges:
    """What each run of a grid came to: as it was stored, else looked at now."""

    def __init__(self, grid: Grid) -> None:
        self.stored: Mapping[str, Any] = grid.found.get("judged", {})
        self.outcome = Outcome.from_dict(grid.asked["outcome"])
        text = grid.asked["check"]
        self.check = None if text is None or grid.asked["check_lost"] else Check(text)

    def __call__(self, key: str, run: Run) -> Judged | None:
        stored = self.stored.get(key)
        if stored is not None:
            return judged_from(stored)
        return judge(run, Outcome(()) if self.outcome.lost else self.outcome, self.check)


def judged_to(judged: Judged) -> dict[str, Any]:
    """As it is stored."""
    verdict = judged.verdict
    return {
        "outcome": [[k, v] for k, v in judged.outcome.items() if v is not _path.MISSING],
        "missing": [k for k, v in judged.outcome.items() if v is _path.MISSING],
        "digest": judged.digest,
        "verdict": None if verdict is None else [verdict.outcome, verdict.reason, _plain(verdict)],
        "error": judged.error,
    }


def _plain(verdict: Verdict) -> Any:
    """The compared value where it is a number or a short text."""
    value = verdict.value
    if isinstance(value, str):
        return value if len(value) < 1000 else None
    return value if type(value) in (int, float, bool) else None


def judged_from(stored: Mapping[str, Any]) -> Judged:
    """From what is stored."""
    seen = {**dict(stored["outcome"]), **dict.fromkeys(stored["missing"], _path.MISSING)}
    verdict = stored["verdict"]
    return Judged(seen, stored["digest"], verdict and Verdict(*verdict), stored["error"])


def _cut(words: str) -> str:
    line = displayed(" ".join(words.split()))
    return line if len(line) <= WORDS else f"{line[: WORDS - 1]}…"


def _is(mine: Any, wanted: Any) -> bool:
    if mine is RECORDED or wanted is RECORDED or callable(mine) or callable(wanted):
        return mine is wanted
    return bool(type(mine) is type(wanted) and mine == wanted) or (
        isinstance(mine, int | float) and isinstance(wanted, int | float) and mine == wanted
    )


__all__ = ["Cell", "Grid", "Judges", "judged_from", "judged_to"]
