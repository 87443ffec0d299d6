"""A field that differs between two runs, and the two sides of an aligned step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from rewind_nb import _path
from rewind_nb._contrast import contrast
from rewind_nb._delta import Delta
from rewind_nb._describe import displayed
from rewind_nb._diff import MISSING
from rewind_nb._divergence import Divergence, both_paths
from rewind_nb._label import address, label, shown
from rewind_nb._model import StepRow
from rewind_nb._run import Step

Side = Literal["before", "after"]
"""Of two runs the first and the second."""

STEP = "@step"
RESULT = _path.join("", _path.Root("@result"))
STREAM = "@stream"
RAW = "@error.raw"


@dataclass(frozen=True, slots=True)
class Change:
    """One field that differs.

    Attributes:
        path: such as ``report.groups.A.total``, where it is in the second run's value; in the
            first's, if it was removed. Beside the state ``@result``, ``@error``,
            ``@error.raw`` (the output that could not be used), ``@inputs.x``, ``@stream[2]``,
            ``@artifacts["page.md"]`` (by its hash), ``@deleted``, ``@writes`` and ``@state``
            (the order of the keys that a step wrote, or a run began with), ``@status``,
            ``@step`` (a step only one side has), ``@next`` and ``@outcome`` (where, and how, a
            run stopped after steps that both took).
        before: the first run's value; MISSING where it has none.
        after: the second run's.
        kind: ``changed``, ``added``, ``removed``, ``type`` or ``order``; ``failed``,
            ``interrupted`` or ``open`` where a run has none because its step did not complete.
        cause: why, in words.
        seq: position in the second run (in the first, for a removed step); for a step of a
            task, in the task.
        lane: the task it is in, such as ``map:1[0]/``; "" for a step of the run itself.
        was_at: the path in the first run's value, where the items of a list around it moved;
            None where that is *path* too.
        entering: whether it is of the state as it enters the step, which no step wrote.
    """

    seq: int
    action: str
    visit: int
    path: str
    before: Any
    after: Any
    kind: str
    cause: str
    lane: str = ""
    was_at: str | None = None
    entering: bool = False

    @classmethod
    def at(
        cls,
        step: Step,
        delta: Delta,
        cause: str,
        kind: str | None = None,
        *,
        entering: bool = False,
    ) -> Change:
        """A change of a step; *kind* where it is another one than that of the values."""
        path, before, after, of_values, was_at = delta
        place = (step.seq, step.action, step.visit)
        values = (before, after, kind or of_values)
        return cls(*place, path, *values, cause, step.path, was_at, entering)

    @property
    def where(self) -> str:
        """The path in words: where it was before too, if that is elsewhere."""
        where = both_paths(self.path, self.was_at)
        return f"{where} as it enters" if self.entering else where

    @property
    def address(self) -> str:
        """Where the step stands: ``search:2``, or inside a task ``map:1[0]/query:1``."""
        return address(self.lane, self.action, self.visit)

    @property
    def label(self) -> str:
        """The step in words."""
        return label(self.seq, self.action, self.visit, self.lane)

    def __repr__(self) -> str:
        visit = f" (visit {self.visit})" if self.visit > 1 else ""
        where = shown(self.address) if self.lane else f"{self.action!r}{visit}"
        values = " -> ".join(contrast(self.before, self.after))
        return displayed(f"<Change {where} {self.where}: {values} [{self.cause}]>")


class Pair(NamedTuple):
    """An aligned step: the first run's, the second's, or both."""

    before: Step | None
    after: Step | None

    @property
    def shown(self) -> Step:
        """The second run's where there is one."""
        step = self.after or self.before
        assert step is not None  # noqa: S101  (align pairs at least one)
        return step

    @property
    def same(self) -> bool:
        """Whether both were given and did the very same; files apart, which are no part of it."""
        before, after = self
        if before is None or after is None:
            return False
        return self.shared or _done(before) == _done(after)

    @property
    def shared(self) -> bool:
        """Whether both are the very same row."""
        both = self.before is not None and self.after is not None
        return both and self.before.key == self.after.key  # type: ignore[union-attr]


def _done(step: Step) -> tuple[Any, ...]:
    raw = None if step.error is None else step.error.raw
    return step.hash, step.status, step.row.stream, raw, dict(step.row.inputs)


def only_side(found: Change | Divergence) -> Side | None:
    """The side that took a step which the other did not; None where a field differs.

    Example:
        >>> only_side(Divergence(3, "book", 1, "@step", "complete", MISSING, "why"))
        'before'
    """
    if found.path != STEP:
        return None
    return "before" if found.after is MISSING else "after"


def error_text(row: StepRow) -> str | None:
    """A step's error on one line."""
    return None if row.error is None else f"{row.error.type}: {row.error.message}"
