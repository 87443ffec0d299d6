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
        path: the field that differs, such as ``report.total``, or ``@error``, ``@next``.
        before: what was recorded.
        after: what there is now.
        why: one sentence.
        lane: the task it is in, such as ``map:1[0]/``; "" for a step of the run itself.
    """

    seq: int
    action: str
    visit: int
    path: str
    before: Any
    after: Any
    why: str
    lane: str = ""

    @property
    def address(self) -> str:
        """Where the step stands: ``search:2``, or inside a task ``map:1[0]/query:1``."""
        return address(self.lane, self.action, self.visit)

    @property
    def label(self) -> str:
        """The step in words."""
        return label(self.seq, self.action, self.visit, self.lane)

    def __repr__(self) -> str:
        return f"<Divergence {self}>"

    def __str__(self) -> str:
        values = f": {' -> '.join(contrast(self.before, self.after))}" if self.path else ""
        return displayed(f"{self.label} {self.path}{values}. {self.why}")
