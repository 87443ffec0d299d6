"""The tasks of a step summed up: the way each took, how it ended, what it cost."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from rewind_nb._label import shown
from rewind_nb._lane import written_key
from rewind_nb._model import Usage
from rewind_nb._steps import PAID_ELSEWHERE, sum_usage

if TYPE_CHECKING:
    from rewind_nb._steps import Step

__all__ = ["Leg", "Task", "chosen", "tasks_of"]

MAX_LEGS = 8  # of a way that are told


class Leg(NamedTuple):
    """A step on the way of a task, with how often it was taken in a row."""

    step: Step
    times: int


class Task(NamedTuple):
    """One task of a step.

    Attributes:
        key: as it is written in a path.
        status: of its last step: it is complete when that is.
        sources: of its steps, each once, in the order met.
        calls: made live, and played back.
        duration_s: seconds, of all its steps.
    """

    key: str
    steps: tuple[Step, ...]
    status: str
    sources: tuple[str, ...]
    calls: tuple[int, int]
    usage: Usage | None
    duration_s: float

    @property
    def path(self) -> str:
        """Its path, such as ``map:1[0]/``."""
        return self.steps[0].path

    def holds(self, step: Step | None) -> bool:
        """Whether a step is in it, however deep."""
        return step is not None and step.path.startswith(self.path)

    @property
    def quiet(self) -> bool:
        """Whether it is complete and nothing was replaced in it."""
        return self.status == "complete" and "override" not in self.sources

    @property
    def paid_elsewhere(self) -> bool:
        """Whether all of it cost the run nothing."""
        return all(source in PAID_ELSEWHERE for source in self.sources)

    def way(self) -> tuple[list[Leg], int]:
        """The actions it took, the same in a row as one, and how many more there are."""
        legs = [(next(run), 1 + sum(1 for _ in run)) for _, run in groupby(self.steps, _action)]
        return [Leg(*leg) for leg in legs[:MAX_LEGS]], len(legs[MAX_LEGS:])

    def way_text(self) -> str:
        """The way in words: ``search -> grade``."""
        legs, more = self.way()
        words = [_action(step) + (f" x{times}" if times > 1 else "") for step, times in legs]
        return " -> ".join([*words, f"{more} more"] if more else words)


def _action(step: Step) -> str:
    return step.action


def tasks_of(step: Step) -> list[Task]:
    """The tasks of a step, in their order."""
    return [_task(key, steps) for key, steps in step.tasks.items()]


def _task(key: str, steps: tuple[Step, ...]) -> Task:
    calls = [step.total_calls for step in steps]
    return Task(
        shown(written_key(key)),
        steps,
        steps[-1].status,
        tuple(dict.fromkeys(step.source for step in steps)),
        (sum(live for live, _ in calls), sum(played for _, played in calls)),
        sum_usage(step.total_usage for step in steps),
        sum(step.duration_s or 0 for step in steps),
    )


def chosen(tasks: list[Task], limit: int) -> list[Task]:
    """At most so many of the tasks, in their order; first those that failed or were replaced.

    Example:
        >>> chosen([], 5)
        []
    """
    if len(tasks) <= limit:
        return tasks
    first = sorted(range(len(tasks)), key=lambda n: (tasks[n].quiet, n))[:limit]
    return [tasks[n] for n in sorted(first)]
