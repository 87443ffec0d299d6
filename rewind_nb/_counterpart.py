"""The step of its parent at the place of a fork's step."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from rewind_nb._model import RunRow
from rewind_nb._store import Store
from rewind_nb._trajectory import Placed, Trajectory, step_inside


class Place(NamedTuple):
    """Where a step stands, the same in every run of the application.

    Attributes:
        path: the task it is in, "" for a step of the run itself.
        top: the run's own step that it is, or is inside of, as (action, visit).
    """

    path: str
    action: str
    visit: int
    top: tuple[str, int]


class Parent:
    """The parent of a fork, as long as it was when the fork was made.

    Args:
        run: the fork.
    """

    def __init__(self, store: Store, run: RunRow) -> None:
        self.store = store
        self.run = run

    @cached_property
    def trajectory(self) -> Trajectory:
        """Its steps.

        Raises:
            RunNotFoundError: it is not in the store.
        """
        assert self.run.parent is not None  # noqa: S101  (the run is a fork)
        return Trajectory(self.store, self.store.row(self.run.parent), self.run.parent_len)

    def at(self, place: Place) -> Placed | None:
        """The step at a place, where its own trajectory has it."""
        top = self.trajectory.visit(*place.top)
        if top is None or not place.path:
            return top
        row = step_inside(self.store, top.row, place.path, place.action, place.visit)
        return None if row is None else Placed(row.seq, row, top.segment)
