"""Which step is meant: an address, as users write it, and the step of a run it names.

A step is addressed by meaning: ``"search"`` is the last visit of that action, ``("search", 2)``
its second, ``4`` a position (``-1`` the last one), and a `Step` stands for its own place, which is the only address
inside a task.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rewind_nb._steps import Step
from rewind_nb._trajectory import Placed, Trajectory
from rewind_nb.errors import StepNotFoundError, did_you_mean

At = str | int | tuple[str, int] | Step


def is_address(at: object) -> bool:
    """Whether it is written as an address is.

    Example:
        >>> is_address("search"), is_address(("search", 2)), is_address(-1)
        (True, True, True)
        >>> is_address(True), is_address(("search", "2")), is_address(None)
        (False, False, False)
    """
    if isinstance(at, tuple):
        return len(at) == 2 and isinstance(at[0], str) and type(at[1]) is int
    return isinstance(at, str | Step) or type(at) is int


def is_same(step: Step, found: Step) -> bool:
    """Whether a step found at another's address is that one: shared, or executed only once."""
    return step.run_id == found.run_id or step.executed_key == found.executed_key


@dataclass(frozen=True, slots=True)
class Finder:
    """Finds the steps of a run.

    Attributes:
        show: the `Step` of a row.
        steps: all of them.
    """

    run_id: str
    trajectory: Trajectory
    show: Callable[[Placed], Step]
    steps: Callable[[], Sequence[Step]]

    def find(self, at: At) -> Step:
        """The step at an address.

        Raises:
            StepNotFoundError: there is none; the message lists the nearest.
        """
        if not is_address(at):
            raise StepNotFoundError(
                f"A step is addressed as 'action', ('action', visit), a seq or a Step; got {at!r}.",
                run_id=self.run_id,
            )
        if isinstance(at, Step):
            return self._like(at)
        if isinstance(at, int):
            return self._at(at)
        if isinstance(at, str):
            return self._last(at)
        return self._visit(*at)

    def _at(self, seq: int) -> Step:
        length = len(self.trajectory)
        position = seq + length if seq < 0 else seq
        placed = self.trajectory.at(position) if 0 <= position < length else None
        if placed is None:
            raise StepNotFoundError(
                f"Run {self.run_id} has no step {seq}: it has {length}, numbered 0 to {length - 1}, "
                f"or from the end -1 to -{length}."
                if length
                else f"Run {self.run_id} has no steps.",
                run_id=self.run_id,
                at=seq,
            )
        return self.show(placed)

    def _last(self, action: str) -> Step:
        placed = self.trajectory.last_visit(action)
        if placed is None:
            raise self._unknown(action)
        return self.show(placed)

    def _visit(self, action: str, visit: int) -> Step:
        possible = 0 < visit <= len(self.trajectory)
        placed = self.trajectory.visit(action, visit) if possible else None
        if placed is not None:
            return self.show(placed)
        visits = sum(step.action == action for step in self.steps())
        if not visits:
            raise self._unknown(action)
        raise StepNotFoundError(
            f"Run {self.run_id} visited {action!r} {visits} time(s), so there is no visit "
            f"{visit}. Visits count from 1.",
            run_id=self.run_id,
            at=(action, visit),
        )

    def _unknown(self, action: str) -> StepNotFoundError:
        known = (step.action for step in self.steps())
        return StepNotFoundError(
            f"Run {self.run_id} has no step {action!r}. {did_you_mean(action, known)}",
            run_id=self.run_id,
            at=action,
        )

    def _like(self, step: Step) -> Step:
        placed = self.trajectory.visit(step.top.action, step.top.visit)
        found = None if placed is None else self.show(placed)
        if found is not None and step.path:
            found = next((s for s in found.inside() if s.address == step.address), None)
        if found is None:
            raise StepNotFoundError(
                f"Run {self.run_id} has no step {step.address!r}: the Step given belongs to run "
                f"{step.run_id}.",
                run_id=self.run_id,
            )
        return found
