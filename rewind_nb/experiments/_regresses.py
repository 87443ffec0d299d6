"""Making a regress: recorded runs are judged, executed again by the code of now, judged again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from rewind_nb._address import is_address
from rewind_nb._bound import Bound
from rewind_nb._budget import Budget
from rewind_nb._check import Check
from rewind_nb._describe import displayed, plural, short
from rewind_nb._model import OVER, CacheMode, RunRow
from rewind_nb._recording import Recording
from rewind_nb._run import Run
from rewind_nb._steps import Step
from rewind_nb.capture._effects import check_effects
from rewind_nb.errors import ConfigError, StepNotFoundError
from rewind_nb.experiments._asking import check_whole, refuse_lost, told
from rewind_nb.experiments._estimate import NOTHING, Estimate, everything
from rewind_nb.experiments._jobs import Prepared, prepared
from rewind_nb.experiments._lab import Found, Script
from rewind_nb.experiments._probes import (
    Probe,
    looked_at,
    stored,
)
from rewind_nb.experiments._regress import Regress, key_of
from rewind_nb.experiments._trials import Trial
from rewind_nb.experiments._verbs import Verbs, arguments, sorted_out, twin_of

ENDS = {"first": 0, "last": -1}
Start = str | int | tuple[str, int]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A recorded run of the suite, looked at before anything executes.

    Attributes:
        seq: where it is resumed; None where it is not.
        step: that in words.
        error: why it is not executed again.
    """

    run: Run
    seq: int | None
    step: str | None
    was: str
    was_reason: str
    error: str | None

    def to_dict(self) -> dict[str, Any]:
        """As it is stored."""
        names = ("seq", "step", "was", "was_reason", "error")
        return {name: getattr(self, name) for name in names}


@dataclass(slots=True)
class RegressJob:
    """A suite that is asked for, and checked.

    Attributes:
        settings: of each fork.
        left_out: what recorded runs are no part of it, in words; None where all are.
    """

    candidates: tuple[Candidate, ...]
    start: Start
    check: Check
    samples: int
    settings: dict[str, Any]
    left_out: str | None
    cache: CacheMode | None = "refresh"

    @classmethod
    def of(
        cls, rw: Bound, runs: Any, start: Start, check: Any, samples: int, settings: dict[str, Any]
    ) -> RegressJob:
        """Look at the recorded runs.

        Raises:
            ConfigError: an argument cannot work, or there is no run.
            StepNotFoundError: none of the runs has the step to start from.
        """
        check_whole(samples=samples)
        if isinstance(start, Step) or not is_address(start):
            raise ConfigError(
                f"start={short(start)}: 'first', 'last', or a step as each run may have it, such "
                "as 'search', ('search', 2) or 3."
            )
        suite, left_out = suite_of(rw, runs)
        check_effects(settings.get("effects"), lambda: _tools_of(suite))
        checked = Check.of(check)
        candidates = tuple(_candidate(run, start, checked) for run in suite)
        missing = [_missing(run, start) for run in suite]
        if missing[0] is not None and all(missing):
            raise missing[0]
        return cls(candidates, start, checked, samples, settings, left_out)

    @classmethod
    def again(cls, rw: Bound, regress: Regress) -> RegressJob:
        """What a stored one asks, to go on with it.

        Raises:
            ExperimentError: a function is part of it, which no store gives back.
        """
        refuse_lost(regress)
        asked = regress.asked
        runs = [rw.store.run(run_id) for run_id in asked["cases"]]
        start = asked["start"]
        return cls.of(rw, runs, start, asked["check"], asked["samples"], asked["settings"])

    def asked(self) -> dict[str, Any]:
        """What is stored of it."""
        return {
            "samples": self.samples,
            **told(self.check, "none", self.cache, self.settings),
            "start": self.start,
            "cases": {one.run.id: one.to_dict() for one in self.candidates},
        }

    def estimate(self, prior: Mapping[str, RunRow]) -> Estimate:
        """What the runs that are still to be made are likely to come to."""
        total = NOTHING
        for one in self.candidates:
            if one.seq is None:
                continue
            whole = everything(Recording.of(one.run), one.seq)
            for sample in range(self.samples):
                total += whole.left(one.run.store, prior.get(key_of(one.run.id, sample)))
        return total

    def script(self) -> Script:
        """Execute each again, then judge them."""
        settings = (("allow_code_change", True), *self.settings.items())
        trials = [
            Trial(
                key_of(one.run.id, sample), one.run.id, one.seq, (), sample, "none", settings
            )
            for one in self.candidates
            if one.seq is not None
            for sample in range(self.samples)
        ]  # fmt: skip
        ended = yield trials
        probes: dict[str, Probe] = {}
        by_id = {one.run.id: one.run for one in self.candidates}
        for tried in ended:
            recorded = by_id[tried.trial.key.rpartition("/")[0]]
            probes |= looked_at(recorded.store, [tried], self.check, recorded)
        whole = not any(tried.stopped for tried in ended)
        return Found({"probes": stored(probes)}, whole, self.left_out)


def suite_of(rw: Bound, runs: Any) -> tuple[list[Run], str | None]:
    """The runs of a suite, each once, and which are left out of it."""
    if runs is not None:
        listed = [runs] if isinstance(runs, str | Run) else list(runs)
        found = list({run.id: run for run in map(rw._found, listed)}.values())  # noqa: SLF001
        if not found:
            raise ConfigError("runs= has no run. Leave it out to execute every recorded run.")
        return found, None
    recorded = [run for run in rw.store.runs() if run.kind == "record"]
    found = [run for run in recorded if run.status in OVER and len(run)]
    if not found:
        raise ConfigError(
            f"There is no recorded run in {rw.store!r} to execute again. Record one with "
            "rw.run(...), or give runs=."
        )
    others = Counter(run.status for run in recorded if run not in found)
    words = ", ".join(f"{count} {status}" for status, count in others.items())
    total = sum(others.values())
    return found, f"{plural(total, 'recorded run')} left out: {words}" if others else None


def _candidate(run: Run, start: Start, check: Check) -> Candidate:
    step, error = None, None
    if run.status not in OVER:
        how = f"the recorded run is {run.status}, so it has no outcome yet"
        return Candidate(run, None, None, "error", how, how)
    verdict = check(run)
    try:
        step = _step(run, start)
    except StepNotFoundError as missing:
        error = displayed(str(missing))
    if verdict.outcome == "error":
        error = f"the recorded run cannot be judged, so it was not executed: {verdict.reason}"
    where = None if step is None else f"{step.seq} {step.action!r}"
    seq = None if step is None or error is not None else step.seq
    return Candidate(run, seq, where, verdict.outcome, verdict.reason, error)


def _step(run: Run, start: Start) -> Step:
    return run[ENDS.get(start, start) if isinstance(start, str) else start]


def _missing(run: Run, start: Start) -> StepNotFoundError | None:
    try:
        _step(run, start)
    except StepNotFoundError as missing:
        return missing
    return None


def _tools_of(runs: Sequence[Run]) -> set[str]:
    """The names of the tools that recorded runs called."""
    steps = (step for run in runs for step in run.walk())
    return {call.name for step in steps for call in step.calls if call.kind == "tool"}


class Regresses(Verbs):
    """A Rewind that executes recorded runs again."""

    def regress(
        self,
        runs: Run | str | Sequence[Run | str] | None = None,
        *,
        check: Any,
        start: Start = "first",
        samples: int = 1,
        budget: Budget | None = None,
        max_workers: int | None = None,
        executor: Executor | None = None,
        max_steps: int | None = None,
        effects: Any = None,
        label: str | None = None,
        progress: bool | None = None,
        begin: bool = True,
    ) -> Regress:
        """Execute recorded runs again by the code and models of now, and judge both by a check.

        A re-execution starts from the state that was recorded at its first step, with the
        recorded inputs, through the recorded halts. It asks every model and calls every tool
        anew; only a tool with an effect (``@tool(effect=True)``) is played back, where it is
        called as in the recording, and else refused unless `effects` says what to do.

        What is tested depends on where it starts:

        - ``"first"`` tests everything but how the initial state came about. It costs about what
          recording the runs did.
        - ``"last"`` tests the last step only, on what was recorded before it, for the price of
          that step. **A change in any step before it is not seen**: with a budget that was
          tightened in the step before the booking, the run still arrives at its confirmation.
        - a step tests it and all that comes after it. An action's name is its last visit, as
          everywhere; ``("search", 1)`` is its first. Runs that never came there are errors.

        Args:
            runs: recorded runs or forks, or ids. By default every recorded run of the store
                that ended: no forks, and nothing that an experiment made. A fork is executed
                again with its override.
            check: what a run must pass: a `Check`, its text, or a function of the run.
            start: ``"first"``, ``"last"`` or a step. An action called ``first`` is
                ``("first", 1)``.
            samples: re-executions of each. What more than half of them say is the verdict; a tie
                is a fail, and what those without a verdict could turn is an error.
            budget: the most it may spend (`Budget`).
            max_workers: how many run side by side; at most 32 by default.
            executor: any executor of `concurrent.futures` instead of threads.
            max_steps: as for `Rewind.fork`.
            effects: likewise.
            label: a name to show.
            progress: whether to show how far it is; by default where somebody can see it.
            begin: with False nothing executes yet: ``rw.plan(regress)`` says what it will come
                to, and ``rw.resume(regress)`` starts it.

        Returns:
            A `Regress`. Each run is ``still passing``, ``regressed``, ``fixed``, ``still
            failing`` or an ``error``: where the recorded run or the re-execution cannot be
            judged, the re-execution failed otherwise than the recorded run, was refused, or has
            no such step. ``regress.ok`` says that none is regressed and none an error.

        Raises:
            ConfigError: an argument cannot work, or there is no recorded run.
            CheckSyntaxError: the check cannot be read.
            RunNotFoundError: there is no such run.
            StepNotFoundError: none of the runs has the step to start from.
            KeyboardInterrupt: it was stopped; a note says how to go on.

        Example:
            >>> suite = rw.regress(check="output contains 'confirmed'")  # doctest: +SKIP
            >>> suite.df[["run_id", "result", "now_reason"]]  # doctest: +SKIP
            >>> assert suite.ok, suite  # doctest: +SKIP
        """
        return self._begin(self._regress_job(**arguments(locals())))

    @twin_of(regress)
    async def aregress(self, runs: Any = None, **given: Any) -> Any:
        """`regress` for async applications; the same arguments."""
        return await self._abegin(self._regress_job(runs=runs, **given))

    def _regress_job(
        self,
        runs: Any = None,
        *,
        check: Any,
        start: Start = "first",
        samples: int = 1,
        begin: bool = True,
        **more: Any,
    ) -> Prepared[Regress]:
        ways, settings = sorted_out(more)
        job = RegressJob.of(self, runs, start, check, samples, settings)
        return prepared(self, Regress, job, None, {**ways, "start": begin})
