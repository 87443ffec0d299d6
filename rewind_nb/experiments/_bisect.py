"""`Bisect`: which step made the failure of a run inevitable."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from rewind_nb._describe import displayed, plural
from rewind_nb._label import label
from rewind_nb._steps import Step
from rewind_nb.experiments._probes import Probe, Probing

if TYPE_CHECKING:
    import pandas as pd

HEADINGS = ["step", "sample", "status", "verdict", "reason", "run"]


class Bisect(Probing):
    """Re-runs of a failed run from its steps, to find the last one from which it recovers.

    A probe executes everything from one step on again, nothing played back. It recovers if its
    run passes the check. That re-runs from earlier steps recover too is assumed and not shown:
    they get to decide at least as much again.
    """

    KIND: ClassVar[str] = "bisect"

    @property
    def samples(self) -> int:
        """How many probes each step gets."""
        return int(self.asked["samples"])

    @property
    def candidates(self) -> int:
        """How many steps the run has, each of which it could be."""
        return int(self.asked["candidates"])

    @property
    def outcome(self) -> str:
        """What came of it, in a word.

        ``found``; ``none`` (no re-run recovers); ``not clean`` (re-runs from one and the same
        step disagree); ``unclear`` (one neither passes nor fails); ``not finished``.
        """
        return str(self.found.get("outcome", "not finished"))

    @cached_property
    def recovers(self) -> Step | None:
        """The last step from which re-runs were seen to recover."""
        return self._step(self.found.get("low", -1))

    @cached_property
    def fails(self) -> Step | None:
        """The first step from which re-runs were seen to fail; None where only the run itself."""
        return self._step(self.found.get("high", -1))

    @property
    def culprit(self) -> Step | None:
        """The last step from which a re-run recovers: the failure was settled in it.

        None where there is none, or it was not found: `outcome` says which.
        """
        return self.recovers if self.outcome == "found" else None

    def _step(self, seq: int) -> Step | None:
        if self.run is None or not 0 <= seq < self.candidates:
            return None
        return self.run[seq]

    @cached_property
    def probed(self) -> tuple[int, ...]:
        """The steps from which it was re-run, by position, in the order they were tried."""
        return tuple(dict.fromkeys(place_of(key)[0] for key in self.probes))

    @property
    def df(self) -> pd.DataFrame:
        """One row per probe in the order they were made; columns in `_probe_frames.PROBE_COLUMNS`."""
        from rewind_nb import _probe_frames

        return _probe_frames.bisect_df(self)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """One row per probe, as text."""
        rows = []
        for probe in self.probes.values():
            seq, sample = place_of(probe.key)
            run = "" if probe.run is None else probe.run.id
            verdict = probe.verdict or ""
            rows.append(
                [self._label(seq), str(sample), probe.status, verdict, displayed(probe.reason), run]
            )
        return HEADINGS, rows

    def question(self) -> str:
        """Such as ``which step of r_1 made it fail output contains 'confirmed'``."""
        many = f", {self.samples} samples" if self.samples > 1 else ""
        return f"which step of {self._row.run_id} made it fail {self.asked['check']}{many}"

    def answer(self) -> str:
        """What was seen, and what is assumed."""
        told = {
            "found": self._found,
            "none": self._none,
            "not clean": self._not_clean,
            "unclear": self._unclear,
        }.get(self.outcome, self._not_finished)()
        if not self.probed:
            return told
        return f"{told}; probed {len(self.probed)} of {plural(self.candidates, 'candidate')}"

    def _found(self) -> str:
        low = self.found["low"]
        fails = (
            f"from {self._label(low + 1)} {'they do' if self.samples > 1 else 'it does'} not"
            if self.fails is not None
            else "and after it nothing is left to re-run"
        )
        assumed = "" if low == 0 else "; that earlier ones recover too is assumed, not shown"
        return (
            f"{self._reruns(low)}, {fails}: {self._label(low)} is the last that could still have "
            f"avoided it{assumed}"
        )

    def _reruns(self, seq: int) -> str:
        where = f"from {self._label(seq)}"
        if self.samples == 1:
            return f"the re-run {where} recovers"
        return f"all {self.samples} re-runs {where} recover"

    def _none(self) -> str:
        return (
            f"no re-run recovers, not even from {self._label(0)}, so no step is to blame: it lies "
            "in the inputs, the state it began with or the code, or every re-run repeats it; that "
            "re-runs from later steps than those probed fail too is assumed, not shown"
        )

    def _not_clean(self) -> str:
        seq = self.found["at"]
        here = self._at(seq)
        passes = sum(probe.verdict == "pass" for probe in here)
        return (
            f"not clean: of {len(here)} re-runs from {self._label(seq)} {passes} recover and "
            f"{len(here) - passes} do not, so no step can be named"
        )

    def _unclear(self) -> str:
        seq = self.found["at"]
        first = next(probe for probe in self._at(seq) if not probe.clear)
        return (
            f"unclear: the re-run from {self._label(seq)} neither passes nor fails "
            f"({first.reason}), so no step can be named"
        )

    def _not_finished(self) -> str:
        low, high = self.found.get("low", -1), self.found.get("high", self.candidates)
        seen = [f"{self._reruns(low)}"] if low >= 0 else []
        seen += [f"from {self._label(high)} not"] if high < self.candidates else []
        return ", ".join(["not finished", *seen]) if self.probed else ""

    def _at(self, seq: int) -> list[Probe]:
        return [probe for key, probe in self.probes.items() if place_of(key)[0] == seq]

    def _label(self, seq: int) -> str:
        step = self._step(seq)
        return f"step {seq}" if step is None else label(seq, step.action, step.visit)


def key_of(seq: int, sample: int) -> str:
    """The name of a probe, such as ``3/0``."""
    return f"{seq}/{sample}"


def place_of(key: str) -> tuple[int, int]:
    """The step and the sample of a probe, by its name.

    Example:
        >>> place_of("3/0")
        (3, 0)
    """
    seq, _, sample = key.partition("/")
    return int(seq), int(sample)
