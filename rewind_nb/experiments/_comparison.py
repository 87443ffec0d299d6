"""`Comparison`: recorded runs side by side, judged by the same outcome and check."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from rewind_nb._check import Check
from rewind_nb._compare import Diff, compare
from rewind_nb._describe import displayed, plural
from rewind_nb._label import label as step_label
from rewind_nb._model import ENDED
from rewind_nb._run import Run
from rewind_nb.errors import ConfigError
from rewind_nb.experiments._axes import label
from rewind_nb.experiments._facts import Facts, FactsOf, failure
from rewind_nb.experiments._verdicts import Judged, Outcome, judge

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Compared:
    """One run of a comparison.

    Attributes:
        changed: whether its outcome is not the first run's; None where one has none.
        parts: the first step that is not the first run's, such as ``step 3 'critique'``.
        error: why it did not come to its end.
    """

    run: Run
    judged: Judged
    facts: Facts
    changed: bool | None
    parts: str | None
    error: str | None


class Comparison:
    """Any runs of a store in one table; the first is what the others are held against.

    It executes nothing and stores nothing.

    Example:
        >>> rw.compare(run, fork, outcome="report.verdict").df  # doctest: +SKIP
    """

    ROWS: ClassVar[str] = "Runs"

    def __init__(self, runs: Sequence[Run], outcome: Outcome, check: Check | None) -> None:
        if not runs:
            raise ConfigError("compare() needs runs: rw.compare(run, fork, ...).")
        self.runs = tuple(runs)
        self._outcome = outcome
        self.check = check

    @property
    def outcome(self) -> tuple[str, ...]:
        """The names of the outcome columns."""
        return self._outcome.columns

    @cached_property
    def rows(self) -> tuple[Compared, ...]:
        """One for each run, in the order given."""
        return tuple(self._compared())

    def _compared(self) -> Iterator[Compared]:
        first: Judged | None = None
        for run in self.runs:
            ended = run.status in ENDED  # else it came to no end that could be judged
            judged = judge(run, self._outcome, self.check if ended else None)
            known = first is not None and None not in (first.digest, judged.digest)
            changed = first.digest != judged.digest if first is not None and known else None
            parting = None if first is None else compare(self.runs[0], run).divergence
            first = first or judged
            yield Compared(
                run,
                judged,
                FactsOf(run)(run),
                changed,
                None
                if parting is None
                else step_label(parting.seq, parting.action, parting.visit, parting.lane),
                failure(run),
            )

    def diff(self, a: int, b: int) -> Diff:
        """Two of the runs by position, compared field by field."""
        return compare(self.runs[a], self.runs[b])

    @property
    def df(self) -> pd.DataFrame:
        """One row per run; columns in `_experiment_frames.COMPARED_COLUMNS`."""
        from rewind_nb import _experiment_frames

        return _experiment_frames.comparison_df(self)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """The headings, and the rows as text."""
        head = ["run", "origin", *self.outcome]
        head += [*(["verdict"] if self.check else []), "parts at", "tokens", "cost"]
        return head, [self._shown(row) for row in self.rows]

    def _shown(self, row: Compared) -> list[str]:
        seen, verdict = row.judged.outcome, row.judged.verdict
        words = [row.run.label or row.run.id, row.run.describe()]
        words += [label(seen[name]) if name in seen else "" for name in self.outcome]
        words += [] if self.check is None else [verdict.outcome if verdict else ""]
        tokens = "unknown" if row.facts.tokens is None else f"{row.facts.tokens:,}"
        return [*words, row.parts or "", tokens, str(row.facts.cost)]

    def answer(self) -> str:
        """How many differ from the first, and pass."""
        rest = self.rows[1:]
        changed = sum(bool(row.changed) for row in rest)
        what = ", ".join(f"`{name}`" for name in self.outcome) or "the final state"
        said = [f"{what} differs from the first run's in {changed} of {len(rest)}"] if rest else []
        if self.check is not None:
            passed = sum(bool(row.judged.verdict) for row in self.rows)
            said.append(f"{passed} of {len(self.rows)} pass `{self.check.name}`")
        return ", ".join(said)

    def __repr__(self) -> str:
        return displayed(f"<Comparison of {plural(len(self.runs), 'run')}: {self.answer()}>")

    def _repr_html_(self) -> str:
        from rewind_nb import _html

        return _html.comparison_html(self)


__all__ = ["Compared", "Comparison"]
