"""Making a grid: what is asked is checked before anything executes, then its forks are made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from rewind_nb._bound import Bound
from rewind_nb._budget import Budget
from rewind_nb._check import Check
from rewind_nb._combine import Given
from rewind_nb._forks import check_fork
from rewind_nb._model import ENDED, CacheMode, Reuse, RunRow
from rewind_nb._run import At, Run
from rewind_nb._steps import Step
from rewind_nb.experiments._asking import KEPT, cache_of, check_whole, refusal, refuse_lost, told
from rewind_nb.experiments._axes import Axis, axes_of, described, overrides, restored
from rewind_nb.experiments._cells import BASELINE, Place, Wanted, places
from rewind_nb.experiments._comparison import Comparison
from rewind_nb.experiments._estimate import Estimate
from rewind_nb.experiments._grid import Grid, judged_to
from rewind_nb.experiments._jobs import Prepared, prepared
from rewind_nb.experiments._lab import Found, Script
from rewind_nb.experiments._planned import planned
from rewind_nb.experiments._recorded import at_of, recorded_value
from rewind_nb.experiments._trials import Trial, Tried
from rewind_nb.experiments._verbs import Verbs, arguments, sorted_out, twin_of
from rewind_nb.experiments._verdicts import Outcome, judge


@dataclass(slots=True)
class GridJob:
    """A grid that is asked for, and checked.

    Attributes:
        step: where its forks start.
        wanted: the runs it needs, one for all cells that ask for the same.
        settings: of each fork.
    """

    rw: Bound
    run: Run
    at: At
    step: Step
    axes: tuple[Axis, ...]
    samples: int
    outcome: Outcome
    check: Check | None
    reuse: Reuse
    cache: CacheMode | None
    settings: dict[str, Any]
    places: list[Place] = field(default_factory=list)
    wanted: list[Wanted] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        rw: Bound,
        run: Run,
        at: At,
        over: Mapping[str, Sequence[Any]],
        *,
        samples: int,
        outcome: Any,
        check: Any,
        reuse: Reuse,
        cache: CacheMode | None,
        **settings: Any,
    ) -> GridJob:
        """Check what is asked.

        Raises:
            ConfigError: an axis is none, two replace the same, or an argument cannot work.
            OverrideError: no value of an axis can be consumed by the step.
        """
        check_whole(samples=samples)
        axes = axes_of(over)
        job = cls(
            rw, run, at, run[at], axes, samples, Outcome.of(outcome).beside(axis.name for axis in axes),
            None if check is None else Check.of(check), reuse, cache, settings,
        )  # fmt: skip
        for one in places(axes, samples):
            (job.places if isinstance(one, Place) else job.wanted).append(one)  # type: ignore[arg-type]
        job._refuse_what_nobody_consumes(rw)
        return job

    def _refuse_what_nobody_consumes(self, rw: Bound) -> None:
        """Raise where every value of an axis is refused; a single one is a cell with an error."""
        env = rw._env(self.cache)  # noqa: SLF001  (one of its verbs)
        allowed = self.settings.get("allow_code_change", False)

        def check(given: tuple[Given, ...]) -> None:
            check_fork(env, self.run, self.at, given, allow_code_change=allowed)

        for axis in self.axes:
            each = (overrides([axis], [position]) for position in range(len(axis.values)))
            if (error := refusal(check, each)) is not None:
                error.add_note(f"rewind_nb: so it is for every value of the axis {axis.name!r}")
                raise error
        if len(self.axes) > 1:
            check(self.wanted[0].given)

    @classmethod
    def again(cls, rw: Bound, grid: Grid) -> GridJob:
        """What a stored grid asks, to go on with it.

        Raises:
            ExperimentError: a callable is part of it, which no store gives back.
        """
        asked = grid.asked
        axes, whole = restored(asked["over"])
        outcome = Outcome.from_dict(asked["outcome"])
        refuse_lost(grid, more=not whole or outcome.lost, again=KEPT)
        assert grid.run is not None  # noqa: S101  (a grid is about one run)
        return cls.of(
            rw, grid.run, at_of(grid.run, asked["at"]), {axis.name: axis.values for axis in axes},
            samples=asked["samples"], outcome=list(outcome.paths or ()) or None, check=asked["check"],
            reuse=asked["mode"]["reuse"], cache=cache_of(asked),
            **asked["settings"],
        )  # fmt: skip

    def asked(self) -> dict[str, Any]:
        """What is stored of it."""
        twins = {place.key: place.twin for place in self.places if place.twin != place.key}
        return {
            "at": self.step.address,
            "step": f"{self.step.seq} {self.step.action!r}",
            "over": described(self.axes),
            "samples": self.samples,
            "outcome": self.outcome.to_dict(),
            **told(self.check, self.reuse, self.cache, self.settings),
            "twins": twins,
            "recorded": {
                axis.name: recorded_value(self.run, self.step, axis) for axis in self.axes
            },
        }

    def _trials(self) -> list[Trial]:
        settings = tuple(self.settings.items())
        return [
            Trial(w.key, self.run.id, self.at, w.given, w.sample, self.reuse, settings)
            for w in self.wanted
        ]

    def estimate(self, prior: Mapping[str, RunRow]) -> Estimate:
        """What the runs that are still to be made are likely to come to."""
        return planned(self.rw, self.run, self.cache, self._trials(), prior)

    def script(self) -> Script:
        """Make the forks, then judge them."""
        ended = yield self._trials()
        return self._found(ended)

    def _found(self, ended: Sequence[Tried]) -> Found:
        judged = {BASELINE: judged_to(judge(self.run, self.outcome, self.check))}
        refused: dict[str, str] = {}
        for tried in ended:
            if tried.run_id is None:
                if tried.error is not None:
                    refused[tried.trial.key] = f"{type(tried.error).__name__}: {tried.error}"
                continue
            run = tried.run(self.run.store)
            if run.status in ENDED:
                judged[tried.trial.key] = judged_to(judge(run, self.outcome, self.check))
        whole = not any(tried.stopped for tried in ended)
        return Found({"judged": judged, "refused": refused}, whole)


class Grids(Verbs):
    """A Rewind that makes grids."""

    def grid(
        self,
        run: Run | str,
        at: At,
        over: Mapping[str, Sequence[Any]],
        *,
        samples: int = 1,
        outcome: Any = None,
        check: Any = None,
        budget: Budget | None = None,
        max_workers: int | None = None,
        executor: Executor | None = None,
        reuse: Reuse = "unchanged",
        cache: CacheMode | None = None,
        halt_after: list[str] | None = None,
        halt_before: list[str] | None = None,
        max_steps: int | None = None,
        effects: Any = None,
        allow_code_change: bool = False,
        label: str | None = None,
        progress: bool | None = None,
        start: bool = True,
    ) -> Grid:
        """Fork a run once for every combination of override values, side by side.

        Everything is checked before anything executes. Combinations that ask for the same
        are made once, and calls that several forks make are asked once. Stop leaves a grid
        that ``rw.resume(grid)`` goes on with; what was paid for is not paid again. Cells that
        failed for a while, as where a provider answers 503, are tried again, of a complete
        grid too, by ``rw.resume(grid, retry="errors")``, from the step that failed.

        Args:
            run: the parent, which is the baseline row.
            at: the step whose overrides they are.
            over: the values of each axis. An axis is an override (``"prompt"``, ``"model"``,
                ``"action"``, ...), a field of one that takes a dict (``"state.query"``,
                ``"patch.report.total"``, ``"params.seed"``), or one of another call of the
                step (``"prompt[1]"``). The value ``...`` stands for what was recorded.
            samples: runs per combination. The second and later ones ask anew where the first
                asked, each under its own number, so that a resumed grid finds them again.
            outcome: what to look at: a path into the final state, a list of them, or a function
                of the run. By default whether the final state changed.
            check: what a run must pass: a `Check`, its text, or a function of the run.
            budget: the most it may spend (`Budget`).
            max_workers: how many run side by side; at most 32 by default.
            executor: any executor of `concurrent.futures` instead of threads.
            reuse: as for `Rewind.fork`.
            cache: likewise.
            halt_after: likewise.
            halt_before: likewise.
            max_steps: likewise.
            effects: likewise.
            allow_code_change: likewise.
            label: a name to show.
            progress: whether to show how far it is; by default where somebody can see it.
            start: with False nothing executes yet: ``rw.plan(grid)`` says what it will come
                to, and ``rw.resume(grid)`` starts it.

        Returns:
            The grid. A fork that fails, or whose step is not reached, is a cell with an error.

        Raises:
            ConfigError: an axis is no override, or an argument cannot work.
            OverrideError: the step can consume no value of an axis.
            StepNotFoundError: there is no such step.
            KeyboardInterrupt: it was stopped; a note says how to go on.

        Example:
            >>> grid = rw.grid(run, "critique", {"model": ["small", "large"]},
            ...                outcome="critique.verdict")  # doctest: +SKIP
            >>> grid.df[["model", "critique.verdict", "outcome_changed"]]  # doctest: +SKIP
        """
        return self._begin(self._grid_job(**arguments(locals())))

    @twin_of(grid)
    async def agrid(
        self, run: Run | str, at: At, over: Mapping[str, Sequence[Any]], **given: Any
    ) -> Any:
        """`grid` for async applications; the same arguments."""
        return await self._abegin(self._grid_job(run=run, at=at, over=over, **given))

    def _grid_job(
        self,
        run: Run | str,
        at: At,
        over: Mapping[str, Sequence[Any]],
        *,
        samples: int = 1,
        outcome: Any = None,
        check: Any = None,
        reuse: Reuse = "unchanged",
        cache: CacheMode | None = None,
        **more: Any,
    ) -> Prepared[Grid]:
        parent = self._at_rest(run)
        ways, settings = sorted_out(more)
        job = GridJob.of(
            self, parent, at, over, samples=samples, outcome=outcome, check=check, reuse=reuse,
            cache=cache, **settings,
        )  # fmt: skip
        return prepared(self, Grid, job, parent, ways)

    def compare(self, *runs: Run | str, outcome: Any = None, check: Any = None) -> Comparison:
        """Recorded runs in one table, held against the first of them; nothing executes.

        Args:
            runs: at least one, by themselves or their ids.
            outcome: what to look at, as for `grid`.
            check: what a run must pass, likewise.

        Raises:
            ConfigError: there is no run, or an argument cannot work.
            RunNotFoundError: there is no such run.
        """
        found = [self._found(run) for run in runs]
        return Comparison(found, Outcome.of(outcome), None if check is None else Check.of(check))
