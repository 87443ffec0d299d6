"""One recorded run of a suite, and what came of executing it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from rewind_nb._compare import Diff, compare
from rewind_nb._cost import Cost
from rewind_nb._describe import displayed
from rewind_nb._model import OVER
from rewind_nb._run import Run
from rewind_nb._wilson import wilson
from rewind_nb.experiments._facts import Facts
from rewind_nb.experiments._probes import Probe

Result = Literal["still passing", "regressed", "fixed", "still failing", "error", "not run"]
RESULTS: tuple[Result, ...] = (
    "regressed", "error", "fixed", "still passing", "still failing", "not run",
)  # fmt: skip

_RESULT: Mapping[tuple[str, str], Result] = {
    ("pass", "pass"): "still passing",
    ("pass", "fail"): "regressed",
    ("fail", "pass"): "fixed",
    ("fail", "fail"): "still failing",
}


@dataclass(frozen=True, slots=True)
class Case:
    """One recorded run of a suite, and what came of executing it again.

    Attributes:
        run: the recorded run.
        step: where it was resumed, such as ``0 'search'``; None where there is no such step.
        was: the verdict on the recorded run: ``pass``, ``fail`` or ``error``.
        was_reason: of that verdict.
        probes: its re-executions, one per sample; none where it was not executed again.
        facts: by the key of a re-execution what it did and cost, where it has a run.
        error: why it was not executed again; None where it was, or is still to be.
        samples: how many re-executions are wanted.
    """

    run: Run
    step: str | None
    was: str
    was_reason: str
    probes: tuple[Probe, ...]
    facts: Mapping[str, Facts]
    error: str | None
    samples: int

    @property
    def passes(self) -> int:
        """How many re-executions pass."""
        return sum(probe.verdict == "pass" for probe in self.probes)

    @property
    def judged(self) -> int:
        """How many of them have a verdict."""
        return sum(probe.clear for probe in self.probes)

    @property
    def interval(self) -> tuple[float, float]:
        """The Wilson 95 % interval of the share that pass."""
        return wilson(self.passes, self.judged)

    @property
    def now(self) -> str | None:
        """The verdict of more than half of the re-executions; None while some are not made.

        A tie is a ``fail``. It is an ``error`` where those without a verdict could decide.
        """
        if self.error is not None or not all(_over(probe) for probe in self.probes):
            return None
        if 2 * self.passes > self.samples:
            return "pass"
        return "fail" if 2 * (self.judged - self.passes) >= self.samples else "error"

    @property
    def result(self) -> Result:
        """``still passing``, ``regressed``, ``fixed``, ``still failing``, ``error``, ``not run``."""
        if self.error is not None:
            return "error"
        now = self.now
        return "not run" if now is None else _RESULT.get((self.was, now), "error")

    @property
    def probe(self) -> Probe | None:
        """The re-execution that stands for all: the first whose verdict is that of `now`."""
        found = [p for p in self.probes if (p.verdict if p.clear else "error") == self.now]
        return next(iter([*found, *self.probes]), None)

    @property
    def now_reason(self) -> str | None:
        """Why: of the re-execution that stands for all, or why there is none."""
        probe = self.probe
        return self.error if probe is None else probe.reason or None

    @property
    def fork(self) -> Run | None:
        """The run of the re-execution that stands for all; None where there is none."""
        return None if self.probe is None else self.probe.run

    @property
    def diff(self) -> Diff | None:
        """The recorded run and that one, compared; None where there is none."""
        return None if self.fork is None else compare(self.run, self.fork)

    @property
    def live_calls(self) -> int:
        """Calls its re-executions made."""
        return sum(facts.live_calls for facts in self.facts.values())

    @property
    def cost(self) -> Cost:
        """What these cost."""
        return sum((facts.cost for facts in self.facts.values()), Cost())

    @property
    def words(self) -> str:
        """It in one line."""
        where = "" if self.step is None else f" from {self.step}"
        name = self.run.id if self.run.label is None else f"{self.run.id} {self.run.label!r}"
        said = f"{self.result}: {name}{where}"
        if self.error is not None:
            return displayed(f"{said}: {self.error}")
        told = [f"{said}: was {self.was} ({self.was_reason})"]
        if self.now is not None:
            same = (self.now, self.now_reason) == (self.was, self.was_reason)
            now = "the same" if same else f"{self.now} ({self.now_reason})"
            many = f", {self.passes} of {self.samples} pass" if self.samples > 1 else ""
            told.append(f"now {now}{many}")
        if self.result == "regressed" and (parts := self._parts()):
            told.append(f"first differs at {parts}")
        return displayed("; ".join(told))

    def _parts(self) -> str:
        """Where the re-execution that stands for all first parts from the recording."""
        first = None if self.diff is None else self.diff.divergence
        return "" if first is None else str(first)

    def __repr__(self) -> str:
        return f"<Case {self.words}>"


def _over(probe: Probe) -> bool:
    """Whether there is nothing to wait for: it ended, or was refused."""
    if probe.run is None:
        return probe.verdict is not None or bool(probe.reason)
    return probe.run.status in OVER
