"""Forks that are made to be judged: what came of each, and what `bisect` and `ablate` share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rewind_nb._bound import Bound
from rewind_nb._check import Check
from rewind_nb._describe import displayed, error_line
from rewind_nb._drive import LACKS_INPUTS
from rewind_nb._forks import check_fork
from rewind_nb._model import OVER
from rewind_nb._run import Run
from rewind_nb._store import Store
from rewind_nb.capture._effects import check_effects
from rewind_nb.errors import ExperimentError
from rewind_nb.experiments._experiment import Experiment
from rewind_nb.experiments._facts import error_of, failure
from rewind_nb.experiments._trials import Tried


@dataclass(frozen=True, slots=True)
class Probe:
    """A fork that was made to be judged.

    Attributes:
        key: its name in the experiment.
        run: None where it was refused, or not made yet.
        verdict: ``pass``, ``fail`` or ``error``; None where the run did not come to its end.
        reason: of the verdict, or why there is none.
    """

    key: str
    run: Run | None
    verdict: str | None
    reason: str

    @property
    def status(self) -> str:
        """Its run's; ``refused`` or ``not run`` where there is none."""
        if self.run is not None:
            return self.run.status
        return "refused" if self.reason else "not run"

    @property
    def clear(self) -> bool:
        """Whether it passes or fails, and neither ended too early nor could not be judged."""
        return self.verdict in ("pass", "fail")


def judged(run: Run, check: Check, like: Run | None = None) -> tuple[str | None, str]:
    """The verdict on a fork and its reason; None and why where it did not come to its end.

    Args:
        like: a run whose failing in the same way counts as an end.
    """
    failed = failure(run)
    if failed is not None and (like is None or not _alike(run, like)):
        return None, failed
    if run.status == "halted" and LACKS_INPUTS in (run.note or ""):
        return None, displayed(f"stopped before its end: {run.note}")
    if run.status not in OVER:
        return None, f"the run is {run.status}"
    verdict = check(run)
    return verdict.outcome, verdict.reason


def _alike(run: Run, like: Run) -> bool:
    """Whether two runs failed with errors of the same class."""
    error, other = error_of(run), error_of(like)
    return error is not None and other is not None and error.type == other.type


def looked_at(
    store: Store, ended: Iterable[Tried], check: Check, like: Run | None = None
) -> dict[str, Probe]:
    """What came of trials, by key; those that were stopped are left out."""
    found = {}
    for tried in ended:
        key = tried.trial.key
        if tried.run_id is not None and not tried.stopped:
            run = store.run(tried.run_id)
            found[key] = Probe(key, run, *judged(run, check, like))
        elif tried.error is not None and not tried.stopped:
            found[key] = Probe(key, None, None, displayed(error_line(tried.error)))
    return found


def stored(probes: Mapping[str, Probe]) -> dict[str, list[str | None]]:
    """What came of them, as it is stored."""
    return {key: [probe.verdict, probe.reason] for key, probe in probes.items()}


class Probing(Experiment):
    """An experiment whose forks are judged by one check."""

    @cached_property
    def check(self) -> Check | None:
        """What its runs must pass; None where that was a function and is not stored."""
        return None if self.asked["check_lost"] else Check(self.asked["check"])

    @cached_property
    def probes(self) -> dict[str, Probe]:
        """What came of each fork, by its name in the experiment, in the order they were made.

        As it was judged then; of those made before a crash, as it is judged now.
        """
        made = {run._row.cell or "": run for run in self.runs}  # noqa: SLF001
        known = self.found.get("probes", {})
        found = {key: Probe(key, made.get(key), *said) for key, said in known.items()}
        for key, run in made.items():
            if key not in found:
                found[key] = Probe(key, run, *self._judged_now(run))
        return found

    def _judged_now(self, run: Run) -> tuple[str | None, str]:
        if self.check is None:
            return None, "not judged yet, and the check was a function"
        return judged(run, self.check, self.run)


# -- asking -----------------------------------------------------------------------------


def refuse_unless(wanted: str, run: Run, check: Check, otherwise: str) -> None:
    """Refuse a run whose verdict is another.

    Args:
        wanted: ``pass`` or ``fail``.
        otherwise: what to do about a run that is judged the other way.

    Raises:
        ExperimentError: it is not what is wanted; it says why.
    """
    if run.status == "interrupted":
        raise ExperimentError(
            f"Run {run.id} was interrupted, so there is no outcome to judge. Go on with it first: "
            f"rw.resume({run.id!r})."
        )
    if not len(run):
        raise ExperimentError(f"Run {run.id} has no step, so there is nothing to fork.")
    verdict = check(run)
    if verdict.outcome == "error":
        raise ExperimentError(
            f"{check.name} gives no verdict on run {run.id}: {verdict.reason.rstrip('.')}. Give a check that "
            "can be answered for this run."
        )
    if verdict.outcome != wanted:
        verb = "passes" if verdict.passed else "fails"
        raise ExperimentError(f"Run {run.id} {verb} {check.name} ({verdict.reason}). {otherwise}")


def refuse_forks(rw: Bound, run: Run, settings: Mapping[str, Any]) -> None:
    """Refuse what no fork of a run could be made with, before anything executes.

    Raises:
        CodeChangedError: its code is not what it was.
        StepNotFoundError: it is of another application.
        ConfigError: ``effects=`` names no tool of it.
    """
    allowed = settings.get("allow_code_change", False)
    check_fork(rw._env(None), run, 0, allow_code_change=allowed)  # noqa: SLF001
    check_effects(
        settings.get("effects"),
        lambda: {call.name for step in run.walk() for call in step.calls if call.kind == "tool"},
    )
