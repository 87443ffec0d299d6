"""What the experiments of a Rewind have in common: begin, plan, go on."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar

from rewind_nb._bound import Bound
from rewind_nb._budget import Budget
from rewind_nb._describe import plural, short
from rewind_nb._refusals import refuse_running
from rewind_nb._run import Run
from rewind_nb._secrets import redact
from rewind_nb.errors import ConfigError, NothingToResumeError, did_you_mean
from rewind_nb.experiments._estimate import Estimate
from rewind_nb.experiments._experiment import Experiment
from rewind_nb.experiments._jobs import Prepared
from rewind_nb.experiments._kinds import job_of
from rewind_nb.experiments._lab import Ways

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E", bound=Experiment)
Retry = Literal["errors"] | None


def twin_of(
    sync: Callable[Concatenate[Any, P], T],
) -> Callable[[Callable[..., Any]], Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]]:
    """Give an async method the signature of its sync twin, which it keeps to."""
    signature = inspect.signature(sync)

    def typed(method: Callable[..., Any]) -> Any:
        @functools.wraps(method)
        async def checked(*args: Any, **given: Any) -> Any:
            for name in given:
                if name not in signature.parameters:
                    raise TypeError(
                        f"{method.__name__}() got an unexpected keyword argument "
                        f"{redact(repr(name))}. {did_you_mean(name, signature.parameters)}"
                    )
            return await method(*args, **given)

        checked.__signature__ = signature  # type: ignore[attr-defined]
        return checked

    return typed


class Verbs(Bound):
    """A Rewind that can make experiments, whichever there are."""

    def plan(self, experiment: Experiment | str) -> Estimate:
        """What is left of an experiment is likely to come to: forks, steps, calls, money.

        By the recording: what its steps were seen to read, and what their calls used.

        Raises:
            ExperimentError: another process made it, and a callable of it did not come back.
        """
        return self._prepared(experiment).plan()

    @property
    def last_experiment(self) -> Experiment | None:
        """The experiment that was asked for last, also after it was stopped."""
        last = next(reversed(self._jobs), None)
        if last is None:
            return None
        found = self.store.experiment(last)
        found.made_by = self
        return found

    def _at_rest(self, run: Run | str) -> Run:
        """A run that forks can be made of.

        Raises:
            RunBusyError: it is still running.
        """
        found = self._found(run)
        refuse_running(found)
        return found

    # -- all of them ------------------------------------------------------------------------

    def _begin(self, prepared: Prepared[E]) -> E:
        self._jobs[prepared.row.id] = prepared
        if prepared.begins:
            prepared.lab().go(prepared.job.script())
        return prepared.value()

    async def _abegin(self, prepared: Prepared[E]) -> E:
        self._jobs[prepared.row.id] = prepared
        if prepared.begins:
            await prepared.lab().ago(prepared.job.script())
        return prepared.value()

    def _prepared(self, experiment: Experiment | str) -> Prepared[Any]:
        """An experiment, ready to go on: as it was asked for here, or as it is stored."""
        found = self.store.experiment(experiment if isinstance(experiment, str) else experiment.id)
        mine = self._jobs.get(found.id)
        if mine is not None:
            return replace(mine, row=found._row)  # noqa: SLF001
        job = job_of(found.kind).again(self, found)
        return Prepared(self, type(found), job, found._row, Ways())  # noqa: SLF001

    def _on_with(
        self, experiment: Experiment | str, budget: Budget | None, retry: Retry
    ) -> Experiment:
        prepared = self._prepared(experiment)
        prepared.lab(self._ways(prepared, budget, retry)).go(prepared.job.script())
        resumed: Experiment = prepared.value()
        return resumed

    async def _aon_with(
        self, experiment: Experiment | str, budget: Budget | None, retry: Retry
    ) -> Experiment:
        prepared = self._prepared(experiment)
        await prepared.lab(self._ways(prepared, budget, retry)).ago(prepared.job.script())
        resumed: Experiment = prepared.value()
        return resumed

    def _ways(self, prepared: Prepared[Any], budget: Budget | None, retry: Retry = None) -> Ways:
        check_retry(retry)
        experiment = prepared.value()
        if experiment.status == "complete":
            failed = sum(run.status == "failed" for run in experiment.runs)
            if retry is None or not failed:
                how = f"; {plural(failed, 'run')} of it failed" if failed else ""
                how = how if retry is None else ", and no run of it failed"
                again = "Pass retry='errors' to try what failed again. " if failed else ""
                raise NothingToResumeError(
                    f"Experiment {prepared.row.id} is complete{how}. {again}Ask for it again to "
                    "make new runs."
                )
        ways = replace(prepared.ways, retry=retry is not None)
        return ways if budget is None else replace(ways, budget=budget)


def check_retry(retry: Any) -> None:
    """Refuse what does not say which runs are to be tried again.

    Raises:
        ConfigError: it does not.
    """
    if retry not in (None, "errors"):
        raise ConfigError(
            f"retry={short(retry)} does not say what is to be tried again. Pass 'errors' for the "
            "runs that failed, or leave it out."
        )


def refuse_retry(retry: Any) -> None:
    """Refuse to try the errors of a single run again, which needs no asking.

    Raises:
        ConfigError: it was asked for.
    """
    if retry is not None:
        raise ConfigError(
            "retry= is for an experiment. A run that failed goes on from the step that failed with "
            "rw.resume(run) alone."
        )


_WAYS = ("budget", "max_workers", "executor", "progress", "label", "start")


def sorted_out(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """How an experiment runs, and further arguments of its forks, the unset ones apart."""
    how = {name: given[name] for name in _WAYS if name in given}
    left = {k: v for k, v in given.items() if k not in how and v is not None and v is not False}
    return how, left


def arguments(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a verb, given its `locals()`."""
    return {name: value for name, value in given.items() if name != "self"}
