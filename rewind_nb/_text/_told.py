"""What a diff tells in one piece: a change, or a whole task that only one side has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from rewind_nb._describe import plural
from rewind_nb._label import shown

if TYPE_CHECKING:
    from rewind_nb._changes import Change
    from rewind_nb._compare import Diff
    from rewind_nb._fields import Found

__all__ = ["Told", "differing_tasks", "told"]


class Told(NamedTuple):
    """A change to be told.

    Attributes:
        change: the change; the first of them for a task.
        task: the task that only one side has, "" for a change of a step.
        steps: how many steps that task has.
    """

    change: Change
    task: str = ""
    steps: int = 1

    @property
    def label(self) -> str:
        """The step, or the task, in words."""
        if self.task:
            return f"task {shown(self.task)} ({plural(self.steps, 'step')})"
        return self.change.label


def told(diff: Diff) -> Iterator[Told]:
    """The changes of a diff, those of a task that only one side has as one."""
    for task, found in groupby(diff.found, _task):
        if task:
            changes = [each.change for each in found]
            yield Told(changes[0], task, len(changes))
        else:
            yield from (Told(each.change) for each in found)


def _task(found: Found) -> str:
    return found.task


def differing_tasks(diff: Diff, n: int) -> tuple[list[tuple[str, range]], int]:
    """The tasks of a pair that differ anywhere inside, and how many are the same.

    Returns:
        Each with the positions of its pairs, those of tasks inside it included.
    """
    nesting = diff.nesting
    lanes = nesting.tasks.get(n, [])
    spans = [
        range(nesting.first[nesting.lanes[lane][0]], nesting.lanes[lane][-1] + 1) for lane in lanes
    ]
    changed = [
        (lane, span)
        for lane, span in zip(lanes, spans, strict=True)
        if any(m in diff.changed_pairs or None in diff.pairs[m] for m in span)
    ]
    return changed, len(lanes) - len(changed)
