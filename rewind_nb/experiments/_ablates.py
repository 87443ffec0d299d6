"""Making an ablate: every fact of a run, and a fork for each value that takes its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from rewind_nb._bound import Bound
from rewind_nb._budget import Budget
from rewind_nb._check import Check
from rewind_nb._describe import short
from rewind_nb._model import CacheMode, Reuse, RunRow
from rewind_nb._run import Run
from rewind_nb.errors import ConfigError
from rewind_nb.experiments._ablate import Ablate, key_of
from rewind_nb.experiments._asking import cache_of, check_whole, refuse_lost, told
from rewind_nb.experiments._attempts import HOWS, How, Subject, attempts, chosen
from rewind_nb.experiments._estimate import Estimate
from rewind_nb.experiments._jobs import Prepared, prepared
from rewind_nb.experiments._lab import Found, Script
from rewind_nb.experiments._planned import planned
from rewind_nb.experiments._probes import (
    looked_at,
    refuse_forks,
    refuse_unless,
    stored,
)
from rewind_nb.experiments._trials import Trial
from rewind_nb.experiments._verbs import Verbs, arguments, sorted_out, twin_of

REUSE: Reuse = "unchanged"
OTHERWISE = (
    "There is no pass whose facts could be looked for. The step that made it fail: "
    "rw.bisect(run, check)."
)


@dataclass(slots=True)
class AblateJob:
    """An ablate that is asked for, and checked.

    Attributes:
        only: the addresses that were asked for; None for all.
        settings: of each fork.
    """

    rw: Bound
    run: Run
    check: Check
    subjects: list[Subject]
    only: list[str] | None
    how: How
    samples: int
    cache: CacheMode | None
    settings: dict[str, Any]

    @classmethod
    def of(
        cls,
        rw: Bound,
        run: Run,
        check: Any,
        *,
        facts: Any = None,
        how: How = "perturb",
        samples: int = 1,
        cache: CacheMode | None = None,
        **settings: Any,
    ) -> AblateJob:
        """Check what is asked.

        Raises:
            ExperimentError: the run fails, cannot be judged, or has no such fact.
            RewindError: nothing could be forked.
        """
        check_whole(samples=samples)
        if not callable(how) and not (isinstance(how, str) and how in HOWS):
            raise ConfigError(
                f"how={short(how)} is neither 'perturb' nor 'remove' nor a function of a fact "
                "that returns the values to try."
            )
        checked = Check.of(check)
        refuse_unless("pass", run, checked, OTHERWISE)
        refuse_forks(rw, run, settings)
        only, found = chosen(run, facts)
        subjects = [Subject(fact, tuple(attempts(fact, how))) for fact in found]
        return cls(rw, run, checked, subjects, only, how, samples, cache, settings)

    @classmethod
    def again(cls, rw: Bound, ablate: Ablate) -> AblateJob:
        """What a stored ablate asks, to go on with it.

        Raises:
            ExperimentError: a callable is part of it, which no store gives back.
        """
        asked = ablate.asked
        refuse_lost(ablate, more=asked["how_lost"])
        assert ablate.run is not None  # noqa: S101  (an ablate is about one run)
        return cls.of(
            rw, ablate.run, asked["check"], facts=asked["only"], how=asked["how"],
            samples=asked["samples"], cache=cache_of(asked),
            **asked["settings"],
        )  # fmt: skip

    def asked(self) -> dict[str, Any]:
        """What is stored of it."""
        name = getattr(self.how, "__name__", type(self.how).__name__)
        return {
            "how": name if callable(self.how) else self.how,
            "how_lost": callable(self.how),
            "only": self.only,
            "facts": [subject.told() for subject in self.subjects],
            "samples": self.samples,
            **told(self.check, REUSE, self.cache, self.settings),
        }

    def _trials(self) -> list[Trial]:
        settings = tuple(self.settings.items())
        return [
            Trial(
                key_of(n, m, sample), self.run.id, subject.fact.at, (attempt.given,), sample,
                REUSE, settings,
            )
            for n, subject in enumerate(self.subjects)
            for m, attempt in enumerate(subject.attempts)
            for sample in range(self.samples)
        ]  # fmt: skip

    def estimate(self, prior: Mapping[str, RunRow]) -> Estimate:
        """What the forks that are left are likely to come to."""
        return planned(self.rw, self.run, self.cache, self._trials(), prior)

    def script(self) -> Script:
        """Make the forks, then judge them."""
        ended = yield self._trials()
        probes = looked_at(self.run.store, ended, self.check, self.run)
        return Found({"probes": stored(probes)}, whole=len(probes) == len(ended))


class Ablates(Verbs):
    """A Rewind that finds the facts a run needs to pass."""

    def ablate(
        self,
        run: Run | str,
        check: Check | str | Callable[[Run], Any],
        *,
        facts: Sequence[str] | None = None,
        how: How = "perturb",
        samples: int = 1,
        budget: Budget | None = None,
        max_workers: int | None = None,
        executor: Executor | None = None,
        cache: CacheMode | None = None,
        halt_after: list[str] | None = None,
        halt_before: list[str] | None = None,
        max_steps: int | None = None,
        effects: Any = None,
        allow_code_change: bool = False,
        label: str | None = None,
        progress: bool | None = None,
        start: bool = True,
    ) -> Ablate:
        """Replace each fact a passing run was given, one at a time, and see if it still passes.

        Facts are what the application did not make itself: results of tools, answers of
        models, fields of the state it started with, runtime inputs. A dict, a dataclass, a
        pydantic model and a text that is JSON are a fact per leaf. Each value tried is a
        stored fork with one override, everything that does not depend on it reused
        (``reuse="unchanged"``), so that what comes of it is about this fact alone.

        "Not load-bearing" is said where the check passes with every value tried: it holds for
        these values, and for one fact at a time. "Possibly load-bearing" is said where one
        fails, and says no more than that. Where none fails but a fork raises, is refused or
        allows no verdict, it is "unclear". A field that no step read is not tried.

        Args:
            run: the run that passes; a fork is one too.
            check: what it passes: a `Check`, its text, or a function of the run.
            facts: the addresses of those to look at, such as ``"search:1 tool 0 find_fare"``
                or ``"state.city"``, or of all below one (``"search:1"``, ``"search"``); by
                default all.
            how: ``"perturb"``: another value of its type (a number: 0, negated, times 10, a
                tenth; a text: another one; a truth value: the other; an enum: each other
                member; a list, tuple, set or bytes: an empty one). ``"remove"``: the key of a dict is
                missing, else None and empty; runs that cannot do without are unclear. Or a
                function that is given the fact (`address`, `kind`, `value`) and returns the
                values to try instead.
            samples: forks per value; all must pass.
            budget: the most it may spend (`Budget`).
            max_workers: how many run side by side; at most 32 by default.
            executor: any executor of `concurrent.futures` instead of threads.
            cache: as for `Rewind.fork`.
            halt_after: likewise.
            halt_before: likewise.
            max_steps: likewise.
            effects: likewise; without it a fork that acts otherwise than the run is refused.
            allow_code_change: likewise.
            label: a name to show.
            progress: whether to show how far it is; by default where somebody can see it.
            start: with False nothing executes yet: ``rw.plan(ablate)`` says what it will come
                to, and ``rw.resume(ablate)`` starts it.

        Returns:
            The ablate: `load_bearing`, `not_load_bearing`, `df` with a row per fact.

        Raises:
            ExperimentError: the run fails (see `bisect`), allows no verdict, or has no such fact.
            CodeChangedError: its code changed since.
            ConfigError: an argument cannot work.
            NotEncodableError: a value to try cannot be stored.
            KeyboardInterrupt: it was stopped; a note says how to go on.

        Example:
            >>> found = rw.ablate(run, "output contains 'confirmed'")  # doctest: +SKIP
            >>> found.load_bearing  # doctest: +SKIP
            ('search:1 tool 0 find_fare.fare', 'decide:1 model 0.decision')
        """
        return self._begin(self._ablate_job(**arguments(locals())))

    @twin_of(ablate)
    async def aablate(self, run: Run | str, check: Any, **given: Any) -> Any:
        """`ablate` for async applications; the same arguments."""
        return await self._abegin(self._ablate_job(run=run, check=check, **given))

    def _ablate_job(self, run: Run | str, check: Any, **more: Any) -> Prepared[Ablate]:
        parent = self._at_rest(run)
        ways, settings = sorted_out(more)
        job = AblateJob.of(self, parent, check, **settings)
        return prepared(self, Ablate, job, parent, ways)
