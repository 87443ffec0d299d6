"""`Regress`: recorded runs as a suite, each executed again by the code and models of now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from rewind_nb._cost import Cost
from rewind_nb._describe import displayed, plural
from rewind_nb._run import Run
from rewind_nb.errors import ExperimentError
from rewind_nb.experiments._case import RESULTS, Case, Result
from rewind_nb.experiments._facts import FactsOf
from rewind_nb.experiments._probes import Probe, Probing, judged

if TYPE_CHECKING:
    import pandas as pd

NAMED = 5  # runs that regressed, in one line


class Regress(Probing):
    """Recorded runs, each executed again by the code and models of now, and judged by a check.

    ``regress.df`` has one row per recorded run, ``regress[run]`` leads from one to its
    re-execution and its diff, ``regress.ok`` says whether all went as it should.
    """

    KIND: ClassVar[str] = "regress"
    ROWS: ClassVar[str] = "Recorded runs"

    @cached_property
    def cases(self) -> tuple[Case, ...]:
        """One per recorded run, in the order they were given."""
        return tuple(self._case(id_, told) for id_, told in self.asked["cases"].items())

    def _case(self, run_id: str, told: Mapping[str, Any]) -> Case:
        run, samples = self.store.run(run_id), int(self.asked["samples"])
        probes: tuple[Probe, ...] = ()
        if told["error"] is None:
            keys = [key_of(run_id, sample) for sample in range(samples)]
            probes = tuple(self.probes.get(key) or Probe(key, None, None, "") for key in keys)
        look = FactsOf(run)
        facts = {probe.key: look(probe.run) for probe in probes if probe.run is not None}
        return Case(
            run,
            told["step"],
            told["was"],
            told["was_reason"],
            probes,
            facts,
            told["error"],
            samples,
        )

    def _judged_now(self, run: Run) -> tuple[str | None, str]:
        if self.check is None:
            return None, ""
        return judged(run, self.check, run.parent)

    def __iter__(self) -> Iterator[Case]:
        return iter(self.cases)

    def __len__(self) -> int:
        return len(self.asked["cases"])

    def __getitem__(self, run: str | int | Run) -> Case:
        """The case of a recorded run: its id or the start of it, its label, or its position.

        Raises:
            ExperimentError: there is none, or several.
        """
        if isinstance(run, int):
            return self.cases[run]
        name = run.id if isinstance(run, Run) else run
        found = [case for case in self.cases if case.run.label == name]
        found = found or [case for case in self.cases if name and case.run.id.startswith(name)]
        if len(found) != 1:
            listed = ", ".join(case.run.id for case in found or self.cases)
            raise ExperimentError(
                f"{plural(len(found), 'run')} of {self.id} fit {name!r}. "
                f"{'They are' if found else 'It has'} {listed}."
            )
        return found[0]

    def by(self, result: Result) -> tuple[Case, ...]:
        """The cases with this result."""
        return tuple(case for case in self.cases if case.result == result)

    @property
    def regressed(self) -> tuple[Case, ...]:
        """The runs that passed when they were recorded and do not now."""
        return self.by("regressed")

    @property
    def errors(self) -> tuple[Case, ...]:
        """The runs of which nothing can be said: each says why."""
        return self.by("error")

    @property
    def ok(self) -> bool:
        """Whether every run was executed again, and none regressed or is an error."""
        return not any(case.result in ("regressed", "error", "not run") for case in self.cases)

    @property
    def tone(self) -> str:
        """Good where it is `ok`."""
        return "good" if self.ok else "bad"

    @property
    def live_calls(self) -> int:
        """Calls that were made live, over all of it."""
        return sum(case.live_calls for case in self.cases)

    @property
    def cost(self) -> Cost:
        """What these cost."""
        return sum((case.cost for case in self.cases), Cost())

    @property
    def df(self) -> pd.DataFrame:
        """One row per recorded run; columns in `_suite_frames.CASE_COLUMNS`."""
        from rewind_nb import _suite_frames

        return _suite_frames.cases_df(self)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """A row per recorded run."""
        head = ["result", "run", "label", "resumed at", "was", "now", "calls", "cost", "fork"]
        return head, [self._shown(case) for case in self.cases]

    def _shown(self, case: Case) -> list[str]:
        was = f"{case.was}: {case.was_reason}"
        now = case.now_reason or "" if case.now is None else f"{case.now}: {case.now_reason}"
        fork = "" if case.fork is None else case.fork.id
        start = case.step or ""
        spent = [str(case.live_calls), str(case.cost)]
        label = case.run.label or ""
        return [case.result, case.run.id, label, start, was, now, *spent, fork]

    def question(self) -> str:
        """Such as ``3 recorded runs executed again from the first step, by output contains 'x'``."""
        runs = plural(len(self), "recorded run")
        many = f", {self.asked['samples']} samples" if self.asked["samples"] > 1 else ""
        where = from_words(self.asked["start"])
        return f"{runs} executed again {where}{many}, by {self.asked['check']}"

    def answer(self) -> str:
        """How many of each result, and which regressed."""
        if self.status != "complete" and not self.found:
            return ""
        return said(self.cases)


def key_of(run_id: str, sample: int) -> str:
    """What a re-execution is called in the experiment."""
    return f"{run_id}/{sample}"


def from_words(start: Any) -> str:
    """Where re-executions start, in words.

    Example:
        >>> from_words("first"), from_words("search"), from_words(["search", 1])
        ('from the first step', "from 'search', its last visit", "from 'search', visit 1")
    """
    if start in ("first", "last"):
        return f"from the {start} step"
    if isinstance(start, str):
        return f"from {start!r}, its last visit"
    return (
        f"from step {start}" if isinstance(start, int) else f"from {start[0]!r}, visit {start[1]}"
    )


def said(cases: Sequence[Case]) -> str:
    """How many cases have each result, the worst first, and which of them regressed."""
    counts = Counter(case.result for case in cases)
    told = [f"{counts[result]} {result}" for result in RESULTS if counts[result]]
    worst = [case.run.label or case.run.id for case in cases if case.result == "regressed"]
    if worst:
        more = f" and {len(worst) - NAMED} more" if len(worst) > NAMED else ""
        told[0] += f" ({', '.join(worst[:NAMED])}{more})"
    return displayed(", ".join(told))
