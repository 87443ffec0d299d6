"""`Flip`: the smallest change of one field that changes the verdict of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from rewind_nb._compare import Diff, compare
from rewind_nb._describe import clip, plural
from rewind_nb._run import Run
from rewind_nb.errors import ExperimentError
from rewind_nb.experiments._axes import restored, told
from rewind_nb.experiments._experiment import Experiment

if TYPE_CHECKING:
    import pandas as pd

SAYS = {"pass": "passes", "fail": "fails"}
WHY = 160  # columns of the reason why there is no verdict
NAMED = 5  # values without a verdict that are named


@dataclass(frozen=True, slots=True)
class Probed:
    """One value that was tried.

    Attributes:
        change: its difference from the recorded number; None for what is no number.
        passes: samples that passed the check.
        fails: that did not.
        errors: that have no verdict: they failed, were refused, or could not be judged.
        verdict: that of most samples, a tie being a fail; None where none has one.
        flips: whether that is another than the recorded one.
        reason: of the verdict, or why there is none.
        run_ids: its forks, one per sample.
    """

    key: str
    value: Any
    change: Any
    passes: int
    fails: int
    errors: int
    verdict: str | None
    flips: bool
    reason: str | None
    run_ids: tuple[str, ...]


class Flip(Experiment):
    """The smallest change of one field, among those probed, that changes a verdict.

    ``flip.value`` changes it and ``flip.bracket`` says up to which value it is kept;
    ``flip.df`` has a row per probe, and ``flip.fork`` is the fork of the value.
    """

    KIND: ClassVar[str] = "flip"
    ROWS: ClassVar[str] = "Probes"

    @property
    def field(self) -> str:
        """What is changed, such as ``output.fare``."""
        return str(self.asked["over"][0]["name"])

    @property
    def recorded(self) -> Any:
        """Its recorded value."""
        return self.asked["recorded"]

    @cached_property
    def candidates(self) -> tuple[Any, ...] | None:
        """What is tried instead, in order; None where numbers are searched."""
        return None if self.asked["numbers"] else restored(self.asked["over"])[0][0].values

    @cached_property
    def probes(self) -> tuple[Probed, ...]:
        """What was tried, in that order."""
        return tuple(self._probe(stored) for stored in self.found.get("probes", ()))

    def _probe(self, stored: Mapping[str, Any]) -> Probed:
        value = stored["value"] if self.candidates is None else self.candidates[stored["value"]]
        change = value - self.recorded if self.candidates is None else None
        given = {k: v for k, v in stored.items() if k not in ("value", "run_ids")}
        return Probed(value=value, change=change, run_ids=tuple(stored["run_ids"]), **given)

    @cached_property
    def flipping(self) -> tuple[Probed, ...]:
        """The probes that change the verdict; the smallest change, or first candidate, first."""
        found = [probe for probe in self.probes if probe.flips]
        if self.candidates is None:
            found.sort(key=_nearness)
        return tuple(found)

    @property
    def _first(self) -> Probed | None:
        return self.flipping[0] if self.flipping else None

    @property
    def value(self) -> Any:
        """The value that changes the verdict; None where none did, as `verdict_after` says."""
        return None if self._first is None else self._first.value

    @property
    def change(self) -> Any:
        """How far a number is from the recorded one; None for what is no number."""
        return None if self._first is None else self._first.change

    @property
    def verdict_before(self) -> str:
        """``pass`` or ``fail``: of the recorded run."""
        return str(self.asked["verdict"])

    @property
    def verdict_after(self) -> str | None:
        """The other one, where a value was found."""
        return None if self._first is None else self._first.verdict

    @property
    def bracket(self) -> tuple[Any, Any] | None:
        """Of numbers the last value that keeps the verdict, and the first that changes it."""
        first = self._first
        if first is None or self.candidates is not None:
            return None
        low, high = sorted((self.recorded, first.value))
        nearer = [self.recorded, *(p.value for p in self._kept if low < p.value < high)]
        return (max(nearer) if first.value == high else min(nearer), first.value)

    @property
    def _kept(self) -> list[Probed]:
        return [probe for probe in self.probes if probe.verdict is not None and not probe.flips]

    @property
    def proved(self) -> bool:
        """Whether no smaller change is left that was not probed.

        So it is where all whole numbers that are nearer keep the verdict, and for a bool.
        """
        first = self._first
        if first is None or type(self.recorded) is bool:
            return first is not None
        if self.candidates is not None or isinstance(self.recorded, float):
            return False
        size, between, toward = abs(first.change), self.asked["between"], self.asked["toward"]
        up = size - 1 if between is None else min(size - 1, between[1] - self.recorded)
        down = size - 1 if between is None else min(size - 1, self.recorded - between[0])
        nearer = (up if toward != "down" else 0) + (down if toward != "up" else 0)
        return bool(sum(abs(probe.change) < size for probe in self._kept) == nearer)

    @property
    def fork(self) -> Run | None:
        """The fork of the value that was found, its first sample."""
        return None if self._first is None else self.store.run(self._first.run_ids[0])

    def diff(self) -> Diff:
        """The recorded run and the fork of the value that was found, compared.

        Raises:
            ExperimentError: none was found.
        """
        if self.fork is None or self.run is None:
            raise ExperimentError(f"Flip {self.id} found no value: {self.answer()}.")
        return compare(self.run, self.fork)

    @property
    def df(self) -> pd.DataFrame:
        """One row per probe; columns in `_experiment_frames.FLIP_COLUMNS`."""
        from rewind_nb import _experiment_frames

        return _experiment_frames.flip_df(self)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """A row per probe."""
        head = [self.field, "change", "verdict", "reason", "forks"]
        return head, [
            [
                told(probe.value),
                "" if probe.change is None else _signed(probe.change),
                probe.verdict or "none",
                probe.reason or "",
                ", ".join(probe.run_ids),
            ]
            for probe in self.probes
        ]

    def question(self) -> str:
        """Such as ``which change of output.fare at 0 'search' of r_1 flips "..."``."""
        step = f"{self.asked['step']} of {self._row.run_id}"
        many = f", {self.asked['samples']} samples" if self.asked["samples"] > 1 else ""
        return f'which change of {self.field} at {step} flips "{self.asked["check"]}"{many}'

    def answer(self) -> str:
        """What flips it, and how sure that is; or what was probed in vain."""
        if not self.probes:
            return ""
        said = [self._found() if self._first is not None else self._in_vain()]
        lost = [probe for probe in self.probes if probe.verdict is None]
        if lost:
            names = ", ".join(told(probe.value) for probe in lost[:NAMED])
            more = f" and {len(lost) - NAMED} more" if len(lost) > NAMED else ""
            said.append(f"no verdict at {names}{more} ({clip(lost[0].reason or '', WHY)})")
        if self.found["left"]:
            said.append(self.found["left"])
        return "; ".join(said)

    def _found(self) -> str:
        first, before = self._first, SAYS[self.verdict_before]
        assert first is not None  # noqa: S101  (where it is, something was found)
        after, recorded = SAYS[str(first.verdict)], told(self.recorded)
        if self.candidates is not None:
            if self.asked["every"]:
                named = ", ".join(told(probe.value) for probe in self.flipping)
                tried = plural(len(self.probes), "candidate")
                return f"{len(self.flipping)} of {tried} flip it: {after} with {named}"
            nth = "" if type(self.recorded) is bool else f", the first of {self._tried} to do so"
            return f"{after} with {told(first.value)} where {recorded} {before}{nth}"
        last, value = self.bracket or (None, None)
        still = "" if last == self.recorded else f", {told(last)} still {before}"
        smallest = (
            "no smaller change does"
            if self.proved
            else f"the smallest change of {len(self.probes)} probed, not proved smallest"
        )
        where = f"{told(value)} ({_signed(first.change)})"
        return f"{after} at {where} where {recorded} {before}{still}; {smallest}"

    @property
    def _tried(self) -> str:
        return plural(len(self.candidates or ()), "candidate")

    def _in_vain(self) -> str:
        judged = self._kept
        if not judged:
            return f"none of {plural(len(self.probes), 'probe')} has a verdict"
        if self.candidates is not None:
            return f"none of {plural(len(judged), 'candidate')} flips it"
        values = [self.recorded, *(probe.value for probe in judged)]
        low, high = told(min(values)), told(max(values))
        return f"no change between {low} and {high} flips it, at the {plural(len(judged), 'value')} probed"


def majority(verdicts: Sequence[str]) -> str | None:
    """The verdict of most, a tie being a fail; None where none was reached.

    Example:
        >>> majority(["pass", "fail", "error"]), majority(["error"])
        ('fail', None)
    """
    passes, fails = verdicts.count("pass"), verdicts.count("fail")
    if not passes + fails:
        return None
    return "pass" if passes > fails else "fail"


def _nearness(probe: Probed) -> tuple[Any, ...]:
    """Upward first where both are as far; differences of floats are rounded, order is not."""
    up = probe.change > 0
    return abs(probe.change), not up, probe.value if up else -probe.value


def _signed(change: Any) -> str:
    return f"+{told(change)}" if change > 0 else told(change)


__all__ = ["Flip", "Probed", "majority"]
