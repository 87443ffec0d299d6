"""What a diff tells in one piece: a change, or a whole task that only one side has."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from rewind_nb._apart import overridden
from rewind_nb._describe import plural
from rewind_nb._diff import MISSING
from rewind_nb._label import shown

if TYPE_CHECKING:
    from rewind_nb._chains import Link
    from rewind_nb._changes import Change
    from rewind_nb._compare import Diff
    from rewind_nb._fields import Found

__all__ = ["UNFINISHED", "Told", "chains", "differing_tasks", "kind_words", "told"]

KEPT = 2  # links at each end of a long chain

UNFINISHED = {
    "failed": "the step failed",
    "interrupted": "the step was interrupted",
    "open": "the step has not ended",
}
"""Why a step that did not complete has no value, by the kind of the change."""


class Told(NamedTuple):
    """A change to be told.

    Attributes:
        found: the change, with where it was found; the first of them for a task.
        task: the task that only one side has, "" for a change of a step.
        steps: how many steps that task has.
    """

    found: Found
    task: str = ""
    steps: int = 1

    @property
    def change(self) -> Change:
        """The change."""
        return self.found.change

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
            inside = list(found)
            yield Told(inside[0], task, len(inside))
        else:
            yield from map(Told, found)


def _task(found: Found) -> str:
    return found.task


def chains(diff: Diff, one: Told) -> list[list[str]]:
    """What led to a change from each of its first causes, where there are several.

    Returns:
        The shortest chain from each, as the fields that were passed on; empty where the words
        of the cause say it all.
    """
    first: dict[tuple[str, str, int], tuple[Link, ...]] = {}
    for links in [] if one.task else diff.chains(one.found):
        begins = links[0]
        first.setdefault((begins.lane, begins.action, begins.visit), links[:-1])
    if len(first) < 2 or all(len(links) < 2 for links in first.values()):
        return []
    return [_fields(links) or [_own(diff, one.found.pair)] for links in first.values()]


def _fields(links: tuple[Link, ...]) -> list[str]:
    """Who passed on what, the middle of a long chain left out."""
    said = [f"{link.path} ({_who(link)})" for link in links]
    if len(said) <= 2 * KEPT + 1:
        return said
    return [*said[:KEPT], f"{len(said) - 2 * KEPT} more", *said[-KEPT:]]


def _who(link: Link) -> str:
    if link.lane:
        return shown(link.address)
    return link.action if link.visit == 1 else f"{link.action}:{link.visit}"


def _own(diff: Diff, n: int) -> str:
    """What begins in the step itself."""
    return "override" if overridden(diff.pairs[n]) else "its own"


def kind_words(change: Change) -> str:
    """What became of a field; where a step did not complete, that and on which side."""
    unfinished = UNFINISHED.get(change.kind)
    side = "before" if change.before is MISSING else "after"
    return f"none {side}: {unfinished}" if unfinished else change.kind


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
