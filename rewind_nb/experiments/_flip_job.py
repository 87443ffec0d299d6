"""A flip that is asked for: checked, then values are probed until the change is found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rewind_nb._bound import Bound
from rewind_nb._check import Check
from rewind_nb._combine import Given
from rewind_nb._describe import error_line, plural
from rewind_nb._forks import check_fork
from rewind_nb._model import CacheMode, Reuse, RunRow
from rewind_nb._run import At, Run
from rewind_nb._steps import Step
from rewind_nb.errors import ConfigError, ExperimentError
from rewind_nb.experiments._asking import KEPT, cache_of, check_whole, refusal, refuse_lost, told
from rewind_nb.experiments._axes import RECORDED, Axis, axis_of, described, overrides, restored
from rewind_nb.experiments._estimate import Estimate
from rewind_nb.experiments._facts import failure
from rewind_nb.experiments._field import (
    alternatives,
    bounds_of,
    each_once,
    is_number,
    is_recorded,
    starting,
    tolerance_of,
)
from rewind_nb.experiments._flip import Flip, majority
from rewind_nb.experiments._lab import Found, Script
from rewind_nb.experiments._planned import planned
from rewind_nb.experiments._recorded import at_of, recorded_value
from rewind_nb.experiments._search import Candidates, Numbers, Searching
from rewind_nb.experiments._trials import Trial, Tried


@dataclass(slots=True)
class FlipJob:
    """A flip that is asked for, and checked.

    Attributes:
        axis: what is changed; its values are the candidates, `RECORDED` alone for numbers.
        numbers: whether numbers are searched.
        verdict: of the recorded run.
        between: the least and the greatest number.
    """

    rw: Bound
    run: Run
    at: At
    step: Step
    axis: Axis
    numbers: bool
    recorded: Any
    check: Check
    verdict: str
    toward: str | None
    between: tuple[Any, Any] | None
    tolerance: Any
    every: bool
    samples: int
    max_probes: int
    reuse: Reuse
    cache: CacheMode | None
    settings: dict[str, Any]
    wave: int = 1

    @classmethod
    def of(
        cls,
        rw: Bound,
        run: Run,
        at: At,
        field: str,
        check: Any,
        *,
        toward: str | None = None,
        candidates: Sequence[Any] | None = None,
        between: Sequence[Any] | None = None,
        tolerance: Any = None,
        every: bool = False,
        samples: int = 1,
        max_probes: int = 64,
        reuse: Reuse = "unchanged",
        cache: CacheMode | None = None,
        wave: int = 1,
        **settings: Any,
    ) -> FlipJob:
        """Check what is asked.

        Raises:
            ConfigError: an argument cannot work.
            ExperimentError: the recorded run has no verdict.
            OverrideError: the step cannot consume the field.
        """
        check_whole(samples=samples, max_probes=max_probes)
        step = run[at]
        axis = axis_of(field, [RECORDED] if candidates is None else candidates, "field=")
        recorded = starting(axis, recorded_value(run, step, axis))
        numbers = candidates is None and is_number(recorded)
        if not numbers:
            for name, given in (("toward", toward), ("between", between), ("tolerance", tolerance)):
                if given is not None:
                    raise ConfigError(f"{name}= is for a number that is searched. Leave it out.")
            listed = alternatives(axis, recorded) if candidates is None else axis.values
            others = each_once(value for value in listed if not is_recorded(value, recorded))
            if listed and not others:
                raise ConfigError("candidates= has the recorded value only. Give another one.")
            axis = axis_of(field, others, "field=")
        check = Check.of(check)
        job = cls(
            rw, run, at, step, axis, numbers, recorded, check, _verdict_of(run, check), toward,
            bounds_of(between, recorded) if numbers else None,
            tolerance_of(tolerance, recorded) if numbers else None,
            bool(every), samples, max_probes, reuse, cache, settings, wave,
        )  # fmt: skip
        if numbers and toward not in (None, "up", "down"):
            raise ConfigError(
                f"toward={toward!r} is not one of 'up', 'down'. Leave it out for both."
            )
        if not job.search().wanted():
            raise ConfigError(f"Nothing is left to probe: between={between!r}, toward={toward!r}.")
        job._refuse_what_nobody_consumes(rw)
        return job

    def _refuse_what_nobody_consumes(self, rw: Bound) -> None:
        env = rw._env(self.cache)  # noqa: SLF001  (one of its verbs)
        allowed = self.settings.get("allow_code_change", False)

        def check(value: Any) -> None:
            check_fork(env, self.run, self.at, self.given(value), allow_code_change=allowed)

        tried = self.search().wanted()[:1] if self.numbers else range(len(self.axis.values))
        if (error := refusal(check, tried)) is not None:
            raise error

    @classmethod
    def again(cls, rw: Bound, flip: Flip) -> FlipJob:
        """What a stored flip asks, to go on with it.

        Raises:
            ExperimentError: a callable is part of it, which no store gives back.
        """
        asked = flip.asked
        (axis,), whole = restored(asked["over"])
        refuse_lost(flip, more=not whole, again=KEPT)
        assert flip.run is not None  # noqa: S101  (a flip is about one run)
        same = ("toward", "between", "tolerance", "every", "samples")
        return cls.of(
            rw, flip.run, at_of(flip.run, asked["at"]), axis.name, asked["check"],
            candidates=None if asked["numbers"] else axis.values, max_probes=asked["max_probes"],
            reuse=asked["mode"]["reuse"], cache=cache_of(asked),
            **{name: asked[name] for name in same}, **asked["settings"],
        )  # fmt: skip

    def asked(self) -> dict[str, Any]:
        """What is stored of it."""
        return {
            "at": self.step.address,
            "step": f"{self.step.seq} {self.step.action!r}",
            "over": described([self.axis]),
            "numbers": self.numbers,
            "recorded": self.recorded,
            "verdict": self.verdict,
            "toward": self.toward,
            "between": None if self.between is None else list(self.between),
            "tolerance": self.tolerance,
            "every": self.every,
            "samples": self.samples,
            "max_probes": self.max_probes,
            **told(self.check, self.reuse, self.cache, self.settings),
        }

    def search(self) -> Searching:
        """How values are found, from the beginning."""
        if self.numbers:
            return Numbers(self.recorded, self.toward, self.between, self.tolerance)
        return Candidates(len(self.axis.values), self.every, self.wave)

    def given(self, value: Any) -> tuple[Given, ...]:
        """The override for a number, or for the candidate at a position."""
        if not self.numbers:
            return overrides([self.axis], [value])
        return ((self.axis.kind, self.axis.given(value), self.axis.call),)

    def estimate(self, prior: Mapping[str, RunRow]) -> Estimate:
        """What the probes that are left come to at most: how many it takes is not known."""
        search, settings = self.search(), tuple(self.settings.items())
        first = self.given(search.wanted()[0])
        most = min(self.max_probes, search.most) * self.samples
        like = Trial("", self.run.id, self.at, first, 0, self.reuse, settings)
        begun = [replace(like, key=key) for key in prior]
        rest = planned(self.rw, self.run, self.cache, [like], {}).times(max(0, most - len(begun)))
        return replace(rest + planned(self.rw, self.run, self.cache, begun, prior), exact=False)

    def script(self) -> Script:
        """Probe wave after wave, until it is found or nothing is left."""
        search, settings = self.search(), tuple(self.settings.items())
        probes: list[dict[str, Any]] = []
        left, whole = "", True
        while whole and (wanted := search.wanted()):
            wave = wanted[: self.max_probes - len(probes)]
            if not wave:
                left = f"stopped after {plural(len(probes), 'probe')}, as many as max_probes allows"
                break
            trials = [
                Trial(f"{value}/{n}", self.run.id, self.at, self.given(value), n, self.reuse, settings)
                for value in wave
                for n in range(self.samples)
            ]  # fmt: skip
            ended = yield trials
            for i, value in enumerate(wave):
                mine = ended[i * self.samples : (i + 1) * self.samples]
                if any(tried.stopped for tried in mine):
                    whole, left = False, "stopped before it was over"
                    continue
                probe = self._probe(value, mine)
                probes.append(probe)
                search.told(value, None if probe["verdict"] is None else probe["flips"])
        return Found({"probes": probes, "left": left}, whole)

    def _probe(self, value: Any, ended: Sequence[Tried]) -> dict[str, Any]:
        verdicts, reasons = zip(*map(self._judged, ended), strict=True)
        verdict = majority(verdicts)
        why = next(r for v, r in zip(verdicts, reasons, strict=True) if verdict in (v, None))
        return {
            "key": str(value),
            "value": value,
            "passes": verdicts.count("pass"),
            "fails": verdicts.count("fail"),
            "errors": verdicts.count("error"),
            "verdict": verdict,
            "flips": verdict is not None and verdict != self.verdict,
            "reason": why,
            "run_ids": [tried.run_id for tried in ended if tried.run_id is not None],
        }

    def _judged(self, tried: Tried) -> tuple[str, str]:
        """The verdict of one run, and why; a run that failed or was refused has none."""
        if tried.run_id is None:
            return "error", error_line(tried.error) if tried.error else "not run"
        run = self.run.store.run(tried.run_id)
        if (failed := failure(run)) is not None:
            return "error", failed
        verdict = self.check(run)
        return verdict.outcome, verdict.reason


def _verdict_of(run: Run, check: Check) -> str:
    verdict = check(run)
    failed = failure(run)
    if failed is not None or verdict.outcome == "error":
        why = f"it failed ({failed})" if failed else verdict.reason.rstrip(".")
        raise ExperimentError(
            f"Run {run.id} has no verdict that could flip: {why}. Give a check that passes or "
            "fails for it; rw.sweep shows what becomes of values that you name."
        )
    return verdict.outcome
