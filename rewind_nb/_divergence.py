"""`Divergence`: the first difference between a recording and its replay, or two runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rewind_nb._describe import short


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first difference between a recording and its replay, or between two runs.

    Attributes:
        path: the field that differs, such as ``report.total``, or ``@error``, ``@next``.
        before: what was recorded.
        after: what there is now.
        why: one sentence.
    """

    seq: int
    action: str
    visit: int
    path: str
    before: Any
    after: Any
    why: str

    def __str__(self) -> str:
        visit = f" (visit {self.visit})" if self.visit > 1 else ""
        values = f": {short(self.before)} -> {short(self.after)}" if self.path else ""
        return f"step {self.seq} {self.action!r}{visit} {self.path}{values}. {self.why}"
