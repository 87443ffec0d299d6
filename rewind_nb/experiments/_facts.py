"""What one run of an experiment came to, read from its own steps only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from rewind_nb._cost import Cost
from rewind_nb._describe import displayed
from rewind_nb._label import label
from rewind_nb._model import ErrorInfo, StepRow
from rewind_nb._run import Run
from rewind_nb._steps import sum_usage
from rewind_nb._store import _read_tasks

TAKEN_OVER = ("reused", "inherited")


@dataclass(frozen=True, slots=True)
class Facts:
    """What a fork did and cost, and where it first parts from its parent.

    Attributes:
        executed: steps of the run itself that ran, the ones an override supplied apart.
        reused: that were taken over from the parent instead, those it converged to included.
        tokens: that it paid for; None where a provider did not say.
        divergence: the first step that is not the parent's, such as ``step 3 'critique'``.
    """

    executed: int
    reused: int
    live_calls: int
    played_calls: int
    tokens: int | None
    cost: Cost
    divergence: str | None


class FactsOf:
    """Looks at the runs of one experiment that have the same parent."""

    def __init__(self, parent: Run) -> None:
        self.parent = parent

    def __call__(self, run: Run) -> Facts:
        """The facts of one run."""
        rows = run.store.read(_read_tasks.every_step, run.id)
        last: dict[int, StepRow] = {row.seq: row for row in rows if not row.path}
        own = [last[seq] for seq in sorted(last)]
        taken = sum(row.source in TAKEN_OVER for row in own)
        supplied = sum(row.source == "override" for row in own)
        is_fork = run.kind == "fork"
        after = 0 if not is_fork else len(run) - run._row.at - len(own)  # noqa: SLF001
        usage = sum_usage(row.usage for row in rows)
        return Facts(
            executed=len(own) - taken - supplied,
            reused=taken + max(after, 0),
            live_calls=sum(row.live_calls for row in rows),
            played_calls=sum(row.played_calls for row in rows),
            tokens=None if usage is None else usage.total_tokens,
            cost=run.cost,
            divergence=self._parting(own) if is_fork and run.id != self.parent.id else None,
        )

    def _parting(self, own: list[StepRow]) -> str | None:
        for row in own:
            if row.source in TAKEN_OVER:
                continue
            if row.hash != self._recorded.get((row.action, row.visit)):
                return label(row.seq, row.action, row.visit, "")
        return None

    @cached_property
    def _recorded(self) -> dict[tuple[str, int], str | None]:
        return {(step.action, step.visit): step.hash for step in self.parent.steps}


def failure(run: Run | None) -> str | None:
    """What stopped a run that failed, such as ``KeyError: 'fare'``; None where none did."""
    if run is None or run.status != "failed":
        return None
    error = error_of(run)
    if error is None:
        return displayed(run.note or "the run failed")
    return displayed(f"{error.type.rpartition('.')[2]}: {error.message}")


def error_of(run: Run) -> ErrorInfo | None:
    """The error of the step that stopped a run."""
    last = run.steps[-1] if run.status == "failed" and len(run) else None
    return None if last is None else last.error
