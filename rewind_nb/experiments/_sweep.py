"""`Sweep`: one value after the other, and where what comes of it flips."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, ClassVar

from rewind_nb import _codec
from rewind_nb._describe import clip, plural
from rewind_nb._path import MISSING
from rewind_nb._run import Run
from rewind_nb._wilson import wilson
from rewind_nb.experiments._axes import label, told
from rewind_nb.experiments._draws import repeats
from rewind_nb.experiments._grid import Cell, Grid
from rewind_nb.experiments._verdicts import digest_of

if TYPE_CHECKING:
    import pandas as pd

SAYS = {"pass": "passes", "fail": "fails"}
UNFINISHED = "not finished"  # what is said of values with runs that have not ended
WHY = 160  # columns of the reason why there is no verdict


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a sweep, and what its runs came to.

    Attributes:
        cells: one per sample; each leads to its fork.
        passes: runs that passed the check.
        fails: that did not.
        errors: that have no verdict: the check could not judge them, or they failed or were
            refused.
        repeats: that drew nothing of their own and are counted nowhere else.
        outcome: for each outcome column the most frequent value, the first of several.
        digest: of these; of the most frequent final state where no outcome is looked at.
    """

    value: Any
    cells: tuple[Cell, ...]
    passes: int
    fails: int
    errors: int
    repeats: int
    outcome: Mapping[str, Any]
    digest: str | None

    @property
    def judged(self) -> int:
        """How many runs have a verdict."""
        return self.passes + self.fails

    @property
    def pass_rate(self) -> float | None:
        """The share of them that pass; None where none has a verdict."""
        return self.passes / self.judged if self.judged else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval of the pass rate; None for one sample."""
        return wilson(self.passes, self.judged) if len(self.cells) > 1 and self.judged else None

    @property
    def verdict(self) -> str | None:
        """That of most runs; a tie is a fail, `error` is for no verdict, None for no run."""
        if self.judged:
            return "pass" if self.passes > self.fails else "fail"
        return "error" if self.errors else None

    @property
    def left(self) -> int:
        """How many of its runs are still to be made, or gone on with."""
        return sum(cell.judged is None and cell.error is None for cell in self.cells)

    @property
    def tied(self) -> bool:
        """Whether as many pass as do not."""
        return self.passes == self.fails > 0

    @property
    def runs(self) -> tuple[Run, ...]:
        """Its forks."""
        return tuple(cell.run for cell in self.cells if cell.run is not None)

    def why(self) -> str:
        """Why it has no verdict, or no outcome."""
        for cell in self.cells:
            if cell.error is not None:
                return cell.error
            if cell.verdict is not None and cell.verdict.outcome == "error":
                return cell.verdict.reason
            if cell.judged is not None and cell.judged.error is not None:
                return cell.judged.error
        return UNFINISHED


@dataclass(frozen=True, slots=True)
class Edge:
    """Two neighbouring values between which a sweep flips.

    Values without a verdict between them are passed over.

    Attributes:
        last: the last value of before.
        first: the first value of after.
        before: the verdict, or without a check the outcome by column.
        after: likewise.
    """

    last: Any
    first: Any
    before: Any
    after: Any


class Sweep(Grid):
    """Forks over the ordered values of one axis, and where the verdict flips.

    ``sweep.df`` has one row per value, ``sweep.cells_df`` one per run, the parent's first;
    ``sweep.flips`` are the neighbouring values between which the verdict changes, without a
    check the outcome. Numbers are in ascending order, other values in the given one.
    """

    KIND: ClassVar[str] = "sweep"
    ROWS: ClassVar[str] = "Values"

    @cached_property
    def axis(self) -> str:
        """What is swept."""
        return next(iter(self.axes))

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """What each value came to, in order."""
        cells, many = self.cells[1:], self.samples
        return tuple(self._point(cells[i : i + many]) for i in range(0, len(cells), many))

    def _point(self, cells: tuple[Cell, ...]) -> Point:
        ended = [cell for cell in cells if cell.judged is not None and cell.error is None]
        again = repeats([cell.run for cell in ended if cell.run]) if len(ended) > 1 else [False]
        own = [cell for cell, repeated in zip(ended, again, strict=False) if not repeated]
        verdicts = [cell.verdict.outcome for cell in own if cell.verdict is not None]
        seen, digest = self._seen(own)
        return Point(
            value=cells[0].values[self.axis],
            cells=cells,
            passes=verdicts.count("pass"),
            fails=verdicts.count("fail"),
            errors=verdicts.count("error") + sum(cell.error is not None for cell in cells),
            repeats=len(ended) - len(own),
            outcome=seen,
            digest=digest,
        )

    def _seen(self, cells: list[Cell]) -> tuple[dict[str, Any], str | None]:
        """The most frequent outcome, column by column, and its digest."""
        judged = [c.judged for c in cells if c.judged is not None and c.judged.digest is not None]
        if not judged:
            return {}, None
        if not self.outcome:
            return {}, _most([one.digest for one in judged])
        seen = {
            name: _most([one.outcome.get(name, MISSING) for one in judged]) for name in self.outcome
        }
        return seen, digest_of(seen)

    def point(self, value: Any) -> Point:
        """What one value came to.

        Raises:
            ExperimentError: it is none of them.
        """
        key = self.cell(**{self.axis: value}).key
        return next(point for point in self.points if point.cells[0].key == key)

    def outcome_changed(self, point: Point) -> bool | None:
        """Whether the outcome at a value is not the parent's; None where one has none."""
        theirs = None if self.baseline.judged is None else self.baseline.judged.digest
        return None if None in (point.digest, theirs) else point.digest != theirs

    @property
    def has_check(self) -> bool:
        """Whether it is the verdict that may flip, and not the outcome."""
        return self.asked["check"] is not None

    @property
    def unfinished(self) -> list[Point]:
        """The values with runs that are still to be made, or gone on with."""
        return [point for point in self.points if point.left]

    @cached_property
    def flips(self) -> tuple[Edge, ...]:
        """Where it flips, in the order of the values; of a sweep that was stopped, so far."""
        return tuple(
            Edge(one.value, other.value, self._told(one), self._told(other))
            for one, other in pairwise(self._known)
            if self._mark(one) != self._mark(other)
        )

    @property
    def _known(self) -> list[Point]:
        """The values that can be compared with their neighbours."""
        return [point for point in self.points if self._mark(point) is not None]

    def _mark(self, point: Point) -> str | None:
        """What must change for a flip."""
        if not self.has_check:
            return point.digest
        return point.verdict if point.judged else None

    def _told(self, point: Point) -> Any:
        return point.verdict if self.has_check else dict(point.outcome)

    @property
    def df(self) -> pd.DataFrame:
        """One row per value; columns in `_experiment_frames.POINT_COLUMNS`."""
        from rewind_nb import _experiment_frames

        return _experiment_frames.sweep_df(self)

    @property
    def cells_df(self) -> pd.DataFrame:
        """One row per run, the parent's first, as `Grid.df` has them."""
        from rewind_nb import _experiment_frames

        return _experiment_frames.grid_df(self)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """A row per value."""
        judges, many = self.has_check, self.samples > 1
        head = [self.axis, *(["verdict"] if judges else [])]
        head += ["pass rate", "95 % interval"] if judges and many else []
        head += [*self.outcome, "forks"]
        rows = []
        for point in self.points:
            words = [told(point.value)]
            words += [point.verdict or UNFINISHED] if judges else []
            words += [_rate(point), _interval(point)] if judges and many else []
            words += [
                label(point.outcome[n]) if n in point.outcome else point.why() for n in self.outcome
            ]
            rows.append([*words, ", ".join(run.id for run in point.runs)])
        return head, rows

    def answer(self) -> str:
        """Where it flips: between two values, never, or more than once; or what is left."""
        known, left = self._known, self.unfinished
        if left and all(point.left == len(point.cells) for point in self.points):
            return ""
        what = "verdict" if self.has_check else "outcome"
        said = _named(f"not complete, {plural(len(left), 'value')} still to run:", left)
        so_far = f"so far no {what}" if left else f"no {what} at any value"
        said.append(self._where(known, bool(left)) if known else so_far)
        if self.has_check and self.samples > 1:
            said.append(f"by the majority of {self.samples} samples")
            said += _named("tied, counted as a fail:", [p for p in known if p.tied])
        lost = [p for p in self.points if self._mark(p) is None and p.left < len(p.cells)]
        said += [f"{words} ({clip(lost[0].why(), WHY)})" for words in _named(f"no {what} at", lost)]
        said += _named("nothing new was drawn for samples of", [p for p in known if p.repeats])
        return "; ".join(said)

    def _where(self, known: list[Point], unfinished: bool) -> str:
        parts = [list(part) for _, part in groupby(known, self._mark)]
        if len(parts) == 1:
            says, many = self._says(known[0]), plural(len(known), "value")
            never = "so far" if unfinished else "never flips:"
            return f"{never} {says} at {'each of ' if len(known) > 1 else ''}{many}"
        said = []
        for n, part in enumerate(parts):
            first, last = told(part[0].value), told(part[-1].value)
            where = f"from {first} to {last}" if len(part) > 1 else f"at {first}"
            where = f"up to {last}" if n == 0 else f"from {first}" if part is parts[-1] else where
            said.append(f"{self._says(part[0])} {where}")
        often = "flips more than once: " if len(parts) > 2 else ""
        return f"{'so far ' if unfinished else ''}{often}{', '.join(said)}"

    def _says(self, point: Point) -> str:
        if self.has_check:
            return SAYS[str(point.verdict)]
        if not self.outcome:
            changed = self.outcome_changed(point)
            return "another final state" if changed else "the recorded final state"
        return " and ".join(f"`{name}` is {told(v)}" for name, v in point.outcome.items())


def _most(values: Sequence[Any]) -> Any:
    """The most frequent value, the first of several; values need not be hashable."""
    coded = [b"" if v is MISSING else _codec.encode(v) for v in values]
    return values[max(range(len(values)), key=lambda i: (coded.count(coded[i]), -i))]


def _named(what: str, points: Sequence[Point]) -> list[str]:
    return [f"{what} {', '.join(told(point.value) for point in points)}"] if points else []


def _rate(point: Point) -> str:
    return f"{point.passes} of {point.judged}" if point.judged else ""


def _interval(point: Point) -> str:
    low_high = point.interval
    return "" if low_high is None else f"{low_high[0]:.0%} to {low_high[1]:.0%}"


__all__ = ["Edge", "Point", "Sweep"]
