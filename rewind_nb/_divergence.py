"""`Divergence`: the first difference between a recording and its replay, or two runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rewind_nb._contrast import contrast
from rewind_nb._describe import displayed
from rewind_nb._label import address, label


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference between a recording and its replay, or between two runs.

    Attributes:
        seq: the step's number in its trajectory: the run's, or the task's.
        path: the field that differs, such as ``report.total``, or ``@error``, ``@next``; where it
            is in *after*, of something that is not there where it was in *before*.
        before: what was recorded; MISSING where that has none.
        after: what there is now; MISSING where there is none.
        why: one sentence.
        lane: the task it is in, such as ``map:1[0]/``; "" for a step of the run itself.
        was_at: the path in the value before, where the items of a list around it moved.
    """

    seq: int
    action: str
    visit: int
    path: str
    before: Any
    after: Any
    why: str
    lane: str = ""
    was_at: str | None = None

    @property
    def address(self) -> str:
        """Where the step stands: ``search:2``, or inside a task ``map:1[0]/query:1``."""
        return address(self.lane, self.action, self.visit)

    @property
    def label(self) -> str:
        """The step in words."""
        return label(self.seq, self.action, self.visit, self.lane)

    @property
    def where(self) -> str:
        """The path in words: where it was before too, if that is elsewhere."""
        return both_paths(self.path, self.was_at)

    def __repr__(self) -> str:
        return f"<Divergence {self}>"

    def __str__(self) -> str:
        values = f": {' -> '.join(contrast(self.before, self.after))}" if self.path else ""
        return displayed(f"{self.label} {self.where}{values}. {self.why}")


def both_paths(path: str, was_at: str | None) -> str:
    """Where something is, and where it was if that is elsewhere.

    Example:
        >>> both_paths("rows[2].total", "rows[1].total"), both_paths("note", None)
        ('rows[2].total (before at rows[1].total)', 'note')
    """
    return path if was_at is None else f"{path} (before at {was_at})"
