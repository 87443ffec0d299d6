"""Whence two runs come, and the overrides that set them apart on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

from rewind_nb._causes import Given
from rewind_nb._changes import Side
from rewind_nb._run import Run


def lineage(run: Run) -> Iterator[Run]:
    """A run, its parent, and so on."""
    current: Run | None = run
    while current is not None:
        yield current
        current = current.parent


def overrides(a: Run, b: Run, ancestor: Run | None, given: Sequence[Given]) -> tuple[Given, ...]:
    """The overrides that only one of two runs was given.

    Args:
        ancestor: the nearest run both stem from; what it was given, both have.
        given: those that steps were given.

    Returns:
        These, those that equal what was recorded, and the edited applications.
    """
    sides: tuple[tuple[Side, Run], ...] = (("before", a), ("after", b))
    both = "" if ancestor is None else ancestor.id
    found = [*given]
    told = {(one.side, one.words) for one in given}
    for side, run in sides:
        idle = [] if run.id == both else [*_idle(side, run)]
        edits = [edit for edit in _edits(side, run, both) if edit not in idle]
        found += [one for one in [*idle, *edits] if (side, one.words) not in told]
    return tuple(found)


def _idle(side: Side, run: Run) -> Iterator[Given]:
    """The override of a fork that equals what was recorded, so that no step was given it."""
    step = run.forked_step if run.overrides else None
    if step is not None and all(step.run_id != run.id for step in run.steps):
        yield Given.at(side, step, run.override_words)


def _edits(side: Side, run: Run, until: str) -> Iterator[Given]:
    """The edited applications that a run came by, which no step need have been given."""
    for fork in takewhile(lambda earlier: earlier.id != until, lineage(run)):
        step = fork.forked_step
        if step is not None and any(override.kind == "code" for override in fork.overrides):
            yield Given.at(side, step, fork.override_words)
