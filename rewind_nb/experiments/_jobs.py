"""An experiment between being asked for and being over."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from rewind_nb._budget import Budget
from rewind_nb._model import CacheMode, ExperimentRow, RunRow
from rewind_nb._run import Run
from rewind_nb.errors import ConfigError
from rewind_nb.experiments._estimate import NOTHING, Estimate
from rewind_nb.experiments._experiment import Experiment
from rewind_nb.experiments._lab import Lab, Script, Ways, new_row

if TYPE_CHECKING:
    from rewind_nb.experiments._verbs import Verbs

E = TypeVar("E", bound=Experiment)


class Job(Protocol):
    """What an experiment asks, checked."""

    @property
    def cache(self) -> CacheMode | None:
        """The cache mode of its runs."""

    def asked(self) -> dict[str, Any]:
        """What is stored of it."""

    def script(self) -> Script:
        """What it does."""

    def estimate(self, prior: Mapping[str, RunRow]) -> Estimate:
        """What the runs that are left are likely to come to.

        Args:
            prior: the runs that there are already, by the keys of their trials.
        """


@dataclass(slots=True)
class Prepared(Generic[E]):
    """An experiment that is in the store and can begin, or go on.

    Attributes:
        shows: the value it is shown as.
        begins: whether to run it at once.
    """

    rw: Verbs
    shows: type[E]
    job: Job
    row: ExperimentRow
    ways: Ways
    begins: bool = True

    def lab(self, ways: Ways | None = None) -> Lab:
        """Where it runs."""
        return Lab.of(self.rw, self.row, ways or self.ways, self.job.cache)

    def value(self) -> E:
        """The experiment as the store has it."""
        found = self.shows(self.rw.store, self.rw.store.experiment_row(self.row.id))
        found.made_by = self.rw
        return found

    def plan(self) -> Estimate:
        """What is left is likely to come to."""
        if self.row.status == "complete":
            return NOTHING
        return self.job.estimate(self.lab().prior)


def prepared(
    rw: Verbs, shows: type[E], job: Job, run: Run | None, how: Mapping[str, Any]
) -> Prepared[E]:
    """Write an experiment down, ready to begin.

    Raises:
        ConfigError: an argument cannot work.
        NotEncodableError: what it asks cannot be stored.
    """
    ways = Ways(**{k: v for k, v in how.items() if k not in ("label", "start")})
    if ways.budget is not None and not isinstance(ways.budget, Budget):
        raise ConfigError(f"budget={ways.budget!r}: pass Budget(calls=...), tokens= or usd=.")
    if ways.executor is not None and not isinstance(ways.executor, Executor):
        raise ConfigError(f"executor={ways.executor!r} is no executor of concurrent.futures.")
    workers = ways.max_workers
    if workers is not None and (not isinstance(workers, int) or workers < 1):
        raise ConfigError(f"max_workers={workers!r}: a whole number from 1 on.")
    row = new_row(
        rw.store, shows.KIND, None if run is None else run.id, job.asked(), how.get("label")
    )
    return Prepared(rw, shows, job, row, ways, how.get("start", True))
