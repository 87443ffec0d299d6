"""Finding what flips a verdict."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any, Literal

from rewind_nb._budget import Budget
from rewind_nb._model import CacheMode, Reuse
from rewind_nb._run import At, Run
from rewind_nb.experiments._flip import Flip
from rewind_nb.experiments._flip_job import FlipJob
from rewind_nb.experiments._jobs import Prepared, prepared
from rewind_nb.experiments._verbs import Verbs, arguments, sorted_out, twin_of


class Flips(Verbs):
    """A Rewind that finds what flips a verdict."""

    def flip(
        self,
        run: Run | str,
        at: At,
        field: str,
        check: Any,
        *,
        toward: Literal["up", "down"] | None = None,
        candidates: Sequence[Any] | None = None,
        between: tuple[Any, Any] | None = None,
        tolerance: float | None = None,
        every: bool = False,
        samples: int = 1,
        max_probes: int = 64,
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
    ) -> Flip:
        """Find the smallest change of one field that changes the verdict of a recorded run.

        Every probe is a fork, and as few are made as can be; the verdict on the recorded value
        is known and not probed. A number is searched outward from it, up and down side by
        side, by steps each four times the one before (the first is a 64th of it, for an int at
        least 1; ten more at most where nothing bounds it), then by halving between the last
        value that keeps the verdict and the first that changes it; a float ends with a round
        number between the two where there is one. That is about log2(change / first step) +
        log2(change / tolerance) probes. A bool is negated, the other members of an enum are
        tried, and of all else the *candidates*.

        What is found changes the verdict, and the value beside it does not. Where a verdict
        changes more than once, nearer values between two that were probed may change it too;
        it says "not proved smallest" unless all of them were probed. A probe that failed or
        could not be judged is neither, and named.

        Args:
            run: the run whose verdict is to change.
            at: the step whose override it is.
            field: what to change, as an axis of a grid is named: ``"output.fare"``,
                ``"state.city"``, ``"prompt"``, ``"params.temperature"``,
                ``"patch.report.total"``.
            check: a `Check`, its text, or a function of the run.
            toward: ``"up"`` or ``"down"``, to search numbers on that side only.
            candidates: what to try instead of searching, in order, each once; the first that
                changes the verdict is the answer, and none is tried after it. With
                *max_workers* so many are tried side by side, needed or not.
            between: the least and the greatest number to probe.
            tolerance: how near to the change to come: by default 1 for an int, for a float a
                millionth of the recorded value, or 1e-6 where that is 0.
            every: try all candidates, and say which of them change it.
            samples: forks per value, whose majority counts; a tie is a fail.
            max_probes: the most values to probe; a search that ends there says so.
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
            start: with False nothing executes yet: ``rw.plan(flip)`` says what it comes to at
                most, and ``rw.resume(flip)`` starts it.

        Returns:
            The flip; its `value` is None where no probe changed the verdict.

        Raises:
            ConfigError: the field is none, has nothing to search, or an argument cannot work.
            ExperimentError: the recorded run has no verdict.
            OverrideError: the step cannot consume the field.
            StepNotFoundError: there is no such step.
            KeyboardInterrupt: it was stopped; a note says how to go on.

        Example:
            >>> flip = rw.flip(run, "search", "output.fare", "@visits.book > 0",
            ...                between=(0, 2000))  # doctest: +SKIP
            >>> flip.bracket, flip.change  # doctest: +SKIP
        """
        return self._begin(self._flip_job(**arguments(locals())))

    @twin_of(flip)
    async def aflip(self, run: Run | str, at: At, field: str, check: Any, **given: Any) -> Any:
        """`flip` for async applications; the same arguments."""
        job = self._flip_job(run=run, at=at, field=field, check=check, **given)
        return await self._abegin(job)

    def _flip_job(
        self, run: Run | str, at: At, field: str, check: Any, **more: Any
    ) -> Prepared[Flip]:
        parent = self._at_rest(run)
        ways, asked = sorted_out(more)
        workers = ways.get("max_workers")
        wave = workers if isinstance(workers, int) and workers > 0 else 1
        job = FlipJob.of(self, parent, at, field, check, wave=wave, **asked)
        return prepared(self, Flip, job, parent, ways)
