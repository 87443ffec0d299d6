"""Making a bisect: re-runs from one step after another, each halving what is left."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from rewind_nb._bound import Bound
from rewind_nb._budget import Budget
from rewind_nb._check import Check
from rewind_nb._model import OVER, CacheMode, Reuse, RunRow
from rewind_nb._recording import Recording
from rewind_nb._run import Run
from rewind_nb.experiments._asking import check_whole, refuse_lost, told
from rewind_nb.experiments._bisect import Bisect, key_of, place_of
from rewind_nb.experiments._estimate import NOTHING, Estimate, everything
from rewind_nb.experiments._jobs import Prepared, prepared
from rewind_nb.experiments._lab import Found, Script
from rewind_nb.experiments._probes import (
    Probe,
    looked_at,
    refuse_forks,
    refuse_unless,
    stored,
)
from rewind_nb.experiments._trials import Trial
from rewind_nb.experiments._verbs import Verbs, arguments, sorted_out, twin_of

REUSE: Reuse = "none"
OTHERWISE = (
    "There is no failure to find a step for. Which of its facts it needs to pass: "
    "rw.ablate(run, check)."
)


@dataclass(slots=True)
class Search:
    """What is known of the steps: from which a re-run recovers.

    Attributes:
        low: the last from which it was seen to; -1 for none.
        high: the first from which it was seen not to; the end of the run is one.
    """

    low: int
    high: int

    @property
    def middle(self) -> int | None:
        """The step to try next; None where no other is between the two.

        The later of two: it leaves less to execute.

        Example:
            >>> Search(-1, 5).middle, Search(1, 2).middle
            (2, None)
        """
        return None if self.high - self.low <= 1 else (self.low + self.high + 1) // 2


@dataclass(slots=True)
class BisectJob:
    """A bisect that is asked for, and checked.

    Attributes:
        settings: of each fork.
    """

    run: Run
    check: Check
    samples: int
    settings: dict[str, Any]
    cache: CacheMode | None = "refresh"

    @classmethod
    def of(cls, rw: Bound, run: Run, check: Any, *, samples: int, **settings: Any) -> BisectJob:
        """Check what is asked.

        Raises:
            ExperimentError: the run passes, or cannot be judged.
            RewindError: nothing could be forked.
        """
        check_whole(samples=samples)
        job = cls(run, Check.of(check), samples, settings)
        refuse_unless("fail", run, job.check, OTHERWISE)
        refuse_forks(rw, run, settings)
        return job

    @classmethod
    def again(cls, rw: Bound, bisect: Bisect) -> BisectJob:
        """What a stored bisect asks, to go on with it.

        Raises:
            ExperimentError: a callable is part of it, which no store gives back.
        """
        refuse_lost(bisect)
        assert bisect.run is not None  # noqa: S101  (a bisect is about one run)
        asked = bisect.asked
        return cls.of(rw, bisect.run, asked["check"], samples=asked["samples"], **asked["settings"])

    def asked(self) -> dict[str, Any]:
        """What is stored of it."""
        return {
            "candidates": len(self.run),
            "samples": self.samples,
            **told(self.check, REUSE, self.cache, self.settings),
        }

    def estimate(self, prior: Mapping[str, RunRow]) -> Estimate:
        """What the probes that are left come to at most: if none recovers but the last.

        How those that were made ended shows in which step was tried after them.
        """
        recording, total = Recording.of(self.run), NOTHING
        tried = {place_of(key)[0] for key, made in prior.items() if made.status in OVER}
        search = Search(-1, len(self.run))
        while (seq := search.middle) is not None:
            whole = everything(recording, seq)
            for sample in range(self.samples):
                total += whole.left(self.run.store, prior.get(key_of(seq, sample)))
            if Search(seq, search.high).middle in tried:
                search.low = seq
            else:
                search.high = seq
        return total

    def script(self) -> Script:
        """Halve what is left until no step is between the two sides."""
        search = Search(-1, len(self.run))
        probes: dict[str, Probe] = {}
        settings = tuple(self.settings.items())
        while (seq := search.middle) is not None:
            ended = yield [
                Trial(key_of(seq, n), self.run.id, seq, (), n, REUSE, settings)
                for n in range(self.samples)
            ]
            here = looked_at(self.run.store, ended, self.check, self.run)
            probes |= here
            if len(here) < len(ended):
                return self._found(search, probes, "not finished", seq)
            verdicts = {probe.verdict if probe.clear else None for probe in here.values()}
            if verdicts == {"pass"}:
                search.low = seq
            elif verdicts == {"fail"}:
                search.high = seq
            else:
                outcome = "unclear" if None in verdicts else "not clean"
                return self._found(search, probes, outcome, seq)
        return self._found(search, probes, "none" if search.low < 0 else "found", None)

    def _found(
        self, search: Search, probes: dict[str, Probe], outcome: str, at: int | None
    ) -> Found:
        result = {"outcome": outcome, "low": search.low, "high": search.high, "at": at}
        return Found({**result, "probes": stored(probes)}, whole=outcome != "not finished")


class Bisects(Verbs):
    """A Rewind that finds the step that made a failure inevitable."""

    def bisect(
        self,
        run: Run | str,
        check: Check | str | Callable[[Run], Any],
        *,
        samples: int = 1,
        budget: Budget | None = None,
        max_workers: int | None = None,
        executor: Executor | None = None,
        halt_after: list[str] | None = None,
        halt_before: list[str] | None = None,
        max_steps: int | None = None,
        effects: Any = None,
        allow_code_change: bool = False,
        label: str | None = None,
        progress: bool | None = None,
        start: bool = True,
    ) -> Bisect:
        """Find the step of a failed run after which no re-run could have passed any more.

        Each probe is a stored fork that executes the run again from one step on, everything
        asked anew (``reuse="none", cache="refresh"``), and is judged by the check. The last
        step from which a re-run passes is the culprit: from the next one on they fail. About
        log2(steps) probes find it, one after the other, because it is assumed that a re-run
        from an earlier step is never worse; that is not shown. A fork's own overrides are
        given again wherever their steps execute again.

        With ``samples=`` every step is re-run several times, side by side, and all must agree.
        Where they do not, the answer is "not clean" and no step is named; a model that answers
        one way and another needs more than one sample. A re-run that raises, is refused, or
        whose verdict is an error neither passes nor fails: the search ends there and says so.
        For a run that failed itself, one that fails with the same class of error is judged
        like any other.

        Steps inside parallel tasks are no candidates; the step around them is one.

        Args:
            run: the run that fails; a fork is one too.
            check: what it fails: a `Check`, its text, or a function of the run.
            samples: re-runs per step.
            budget: the most it may spend (`Budget`).
            max_workers: how many samples run side by side; at most 32 by default.
            executor: any executor of `concurrent.futures` instead of threads.
            halt_after: as for `Rewind.fork`.
            halt_before: likewise.
            max_steps: likewise.
            effects: likewise; without it a re-run that acts otherwise than the run is refused.
            allow_code_change: likewise. It then asks which step the code of now can save.
            label: a name to show.
            progress: whether to show how far it is; by default where somebody can see it.
            start: with False nothing executes yet: ``rw.plan(bisect)`` says what it comes to
                at most, and ``rw.resume(bisect)`` starts it.

        Returns:
            The bisect: `culprit`, `outcome`, `df` with a row per probe.

        Raises:
            ExperimentError: the run passes (see `ablate`), or allows no verdict.
            CodeChangedError: its code changed since.
            ConfigError: an argument cannot work.
            KeyboardInterrupt: it was stopped; a note says how to go on.

        Example:
            >>> found = rw.bisect(run, "output contains 'confirmed'")  # doctest: +SKIP
            >>> found.culprit  # doctest: +SKIP
            <Step 1 'decide', complete, live>
        """
        return self._begin(self._bisect_job(**arguments(locals())))

    @twin_of(bisect)
    async def abisect(self, run: Run | str, check: Any, **given: Any) -> Any:
        """`bisect` for async applications; the same arguments."""
        return await self._abegin(self._bisect_job(run=run, check=check, **given))

    def _bisect_job(
        self, run: Run | str, check: Any, *, samples: int = 1, **more: Any
    ) -> Prepared[Bisect]:
        parent = self._at_rest(run)
        ways, settings = sorted_out(more)
        job = BisectJob.of(self, parent, check, samples=samples, **settings)
        return prepared(self, Bisect, job, parent, ways)
