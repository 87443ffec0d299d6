"""Making a stability: one run, and where it is asked another, executed many times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Literal

from rewind_nb._bound import Bound
from rewind_nb._budget import Budget
from rewind_nb._check import Check
from rewind_nb._describe import displayed, error_line
from rewind_nb._forks import check_fork
from rewind_nb._model import OVER, CacheMode, RunRow
from rewind_nb._recording import Recording
from rewind_nb._refusals import refuse_running
from rewind_nb._run import At, Run
from rewind_nb.errors import ConfigError
from rewind_nb.experiments._asking import refuse_lost, told
from rewind_nb.experiments._estimate import NOTHING, Estimate, Expected, everything
from rewind_nb.experiments._jobs import Prepared, prepared
from rewind_nb.experiments._lab import Found, Script
from rewind_nb.experiments._probes import judged
from rewind_nb.experiments._stability import Stability, key_of
from rewind_nb.experiments._trials import Trial, Tried
from rewind_nb.experiments._verbs import Verbs, arguments, sorted_out, twin_of
from rewind_nb.experiments._verdicts import MISSING, Outcome

Against = Run | str | Sequence[Run | str] | None


@dataclass(slots=True)
class StabilityJob:
    """A stability that is asked for, and checked.

    Attributes:
        seq: where executions start.
        others: the runs it is compared with.
        repeated: whether the one there is, is executed as often.
        start: where that starts.
        settings: of each fork.
    """

    run: Run
    seq: int
    k: int
    others: tuple[Run, ...]
    repeated: bool
    start: int
    outcome: Outcome
    check: Check | None
    settings: dict[str, Any]
    cache: CacheMode | None = "refresh"

    @classmethod
    def of(
        cls,
        rw: Bound,
        run: Run,
        k: int,
        at: At | None,
        against: Any,
        *,
        outcome: Any,
        check: Any,
        **settings: Any,
    ) -> StabilityJob:
        """Check what is asked.

        Raises:
            ConfigError: an argument cannot work.
            StepNotFoundError: there is no such step.
            CodeChangedError: action code changed since the recording.
        """
        if isinstance(k, bool) or not isinstance(k, int) or k < 2:
            raise ConfigError(f"k={k!r}: a whole number from 2 on, since executions are compared.")
        others, again = _others(rw, against)
        seq = (_parting(run, others) if others else 0) if at is None else run[at].top.seq
        start = seq if at is None or not again else others[0][at].top.seq
        job = cls(
            run, run[seq].seq, k, others, again, start, Outcome.of(outcome),
            None if check is None else Check.of(check), settings,
        )  # fmt: skip
        env = rw._env(job.cache)  # noqa: SLF001  (one of its verbs)
        asked = {n: settings[n] for n in ("effects", "allow_code_change") if n in settings}
        for parent, first in [(run, seq), *([(others[0], start)] if again else [])]:
            check_fork(env, parent, first, reuse="none", **asked)
        return job

    @classmethod
    def again(cls, rw: Bound, stability: Stability) -> StabilityJob:
        """What a stored one asks, to go on with it.

        Raises:
            ExperimentError: a function is part of it, which no store gives back.
        """
        asked, against = stability.asked, stability.asked["against"]
        outcome = Outcome.from_dict(asked["outcome"])
        refuse_lost(stability, more=outcome.lost)
        assert stability.run is not None  # noqa: S101  (it is about one run)
        others = tuple(rw.store.run(run_id) for run_id in (against or {"runs": ()})["runs"])
        check = None if asked["check"] is None else Check(asked["check"])
        return cls(
            stability.run, asked["seq"], asked["k"], others,
            bool(against and against["again"]), asked["start"], outcome, check, asked["settings"],
        )  # fmt: skip

    def asked(self) -> dict[str, Any]:
        """What is stored of it."""
        step = self.run[self.seq]
        against = {"runs": [run.id for run in self.others], "again": self.repeated}
        return {
            "seq": self.seq,
            "step": f"{step.seq} {step.action!r}",
            "start": self.start,
            "k": self.k,
            "against": against if self.others else None,
            "outcome": self.outcome.to_dict(),
            **told(self.check, "none", self.cache, self.settings),
        }

    def estimate(self, prior: Mapping[str, RunRow]) -> Estimate:
        """What the runs that are still to be made are likely to come to."""
        sides: dict[Literal["own", "against"], Expected] = {
            "own": everything(Recording.of(self.run), self.seq)
        }
        if self.repeated:
            sides["against"] = everything(Recording.of(self.others[0]), self.start)
        store, total = self.run.store, NOTHING
        for side, whole in sides.items():
            for n in range(self.k):
                total += whole.left(store, prior.get(key_of(side, n)))
        return total

    def script(self) -> Script:
        """Execute it, and the other one, then look at each."""
        given = tuple(self.settings.items())
        trials = [
            Trial(key_of("own", n), self.run.id, self.seq, (), n, "none", given)
            for n in range(self.k)
        ]
        if self.repeated:
            trials += [
                Trial(key_of("against", n), self.others[0].id, self.start, (), n, "none", given)
                for n in range(self.k)
            ]
        ended = yield trials
        return self._found(ended)

    def _found(self, ended: Sequence[Tried]) -> Found:
        refused, verdicts, seen = {}, {}, {}
        looked_at = list(self.others) if not self.repeated else []
        for tried in ended:
            key = tried.trial.key
            if tried.run_id is None:
                if tried.error is not None and not tried.stopped:
                    refused[key] = displayed(error_line(tried.error))
                continue
            run = self.run.store.run(tried.run_id)
            if run.status not in OVER:
                continue
            looked_at.append(run)
            if self.check is not None and key.startswith("own/"):
                verdicts[key] = judged(run, self.check)[0] or "error"
        if self.outcome.columns:
            seen = {run.id: self._outcome(run) for run in looked_at}
        result = {"refused": refused, "verdicts": verdicts, "seen": seen}
        return Found(result, not any(tried.stopped for tried in ended))

    def _outcome(self, run: Run) -> dict[str, Any]:
        """What is looked at of a run; what a function raised instead of it."""
        try:
            found = self.outcome.seen(run)
        except Exception as error:  # noqa: BLE001  (a user's function may raise anything)
            return {"@error": error_line(error)}
        return {name: value for name, value in found.items() if value is not MISSING}


def _others(rw: Bound, against: Any) -> tuple[tuple[Run, ...], bool]:
    """The runs to compare with, and whether to execute the one there is again."""
    if against is None:
        return (), False
    again = isinstance(against, str | Run)
    found = tuple(rw._found(one) for one in ([against] if again else against))  # noqa: SLF001
    if not found:
        raise ConfigError("against= has no run. Give a run, or a list of some.")
    for one in found:
        refuse_running(one)
        if not again and one.status not in OVER:
            raise ConfigError(
                f"against= has run {one.id}, which is {one.status}, so it has no outcome yet. Go "
                f"on with it: rw.resume({one.id!r})."
            )
    return found, again


def _parting(run: Run, others: Sequence[Run]) -> int:
    """Where the others were forked off the run, if all of them were at one step; else 0."""
    origins = {(one.origin.parent, one.origin.at) if one.origin else None for one in others}
    found = origins.pop()
    return found[1] if not origins and found is not None and found[0] == run.id else 0


class Stabilities(Verbs):
    """A Rewind that executes one run many times."""

    def stability(
        self,
        run: Run | str,
        k: int = 20,
        at: At | None = None,
        *,
        against: Against = None,
        outcome: Any = None,
        check: Any = None,
        budget: Budget | None = None,
        max_workers: int | None = None,
        executor: Executor | None = None,
        max_steps: int | None = None,
        effects: Any = None,
        allow_code_change: bool = False,
        label: str | None = None,
        progress: bool | None = None,
        start: bool = True,
    ) -> Stability:
        """Execute a run many times, and say which of its steps do not always do the same.

        Every execution starts from the state that was recorded before *at*, and asks every model
        and calls every tool anew; only a tool with an effect (``@tool(effect=True)``) is played
        back, where it is called as in the recording, and else refused unless `effects` says
        what to do. It costs *k* times what the recording did from *at* on.

        With *against* it says whether that other run differs by more than the run does from
        itself: what differs between a run and a fork may be the override, or only that every
        answer was asked for once more. The share of fields of the final state (or of *outcome*)
        in which two runs differ is their distance, and the A/B distances are compared with the
        A/A distances by an exact permutation test (`_noise`). The field that an override
        replaced counts as well where the final state holds it: name *outcome* to look at what
        it led to.

        Args:
            run: the run, A.
            k: how many executions. Nothing can be shown with few: that 20 of 20 do the same
                means a share of at least 0.84.
            at: the step to start from; a step of a task stands for the one it is in. By default
                the first step, with *against* the one where these forks of the run start.
            against: B. A run is executed *k* times too, with its override if it is a fork, for
                the same price again. A list of runs is taken as it is, for nothing; of one run
                its distance is ranked among A's own, and that says nothing under k=19.
            outcome: what is compared with B: a path into the final state, a list of them, or a
                function of the run. By default the final state.
            check: what a run must pass: a `Check`, its text, or a function of the run. The share
                of executions that pass is in `answer`.
            budget: the most it may spend (`Budget`).
            max_workers: how many run side by side; at most 32 by default.
            executor: any executor of `concurrent.futures` instead of threads.
            max_steps: as for `Rewind.fork`.
            effects: likewise.
            allow_code_change: likewise.
            label: a name to show.
            progress: whether to show how far it is; by default where somebody can see it.
            start: with False nothing executes yet: ``rw.plan(stability)`` says what it will come
                to, and ``rw.resume(stability)`` starts it.

        Returns:
            A `Stability`. Executions that took another path or failed are counted, and are
            outputs like any other of the steps they did take.

        Raises:
            ConfigError: an argument cannot work.
            StepNotFoundError: there is no such step.
            CodeChangedError: action code changed since the recording.
            KeyboardInterrupt: it was stopped; a note says how to go on.

        Example:
            >>> stability = rw.stability(run, k=20, against=fork)  # doctest: +SKIP
            >>> stability.first_unstable, stability.noise.verdict  # doctest: +SKIP
            >>> stability.df[["action", "share", "varies"]]  # doctest: +SKIP
        """
        return self._begin(self._stability_job(**arguments(locals())))

    @twin_of(stability)
    async def astability(
        self, run: Run | str, k: int = 20, at: At | None = None, **given: Any
    ) -> Any:
        """`stability` for async applications; the same arguments."""
        return await self._abegin(self._stability_job(run=run, k=k, at=at, **given))

    def _stability_job(
        self,
        run: Run | str,
        k: int = 20,
        at: At | None = None,
        *,
        against: Against = None,
        outcome: Any = None,
        check: Any = None,
        **more: Any,
    ) -> Prepared[Stability]:
        parent = self._at_rest(run)
        ways, settings = sorted_out(more)
        job = StabilityJob.of(
            self, parent, k, at, against, outcome=outcome, check=check, **settings
        )
        return prepared(self, Stability, job, parent, ways)
