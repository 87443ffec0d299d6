"""A line that says how far an experiment is: in a terminal, or under the cell of a notebook."""

from __future__ import annotations

import sys
import time
from typing import Any

from rewind_nb._describe import plural

AFTER = 1.0  # seconds; what is over sooner leaves no line
EVERY = 1 / 15  # seconds between two updates
FEW = 3  # runs that say nothing of the others yet
WIDTH = 24  # characters of the bar


class Progress:
    """Shows how many of the runs of an experiment have ended.

    Args:
        what: the kind of experiment.
        shown: True, False, or None for: where somebody can see it.
    """

    def __init__(self, what: str, shown: bool | None) -> None:
        self.what = what
        self.done = self.total = 0
        self._made = self._waves = 0  # runs that ended here; how often more were wanted
        self._workers = 1
        self._began = time.monotonic()
        self._last = 0.0
        self._handle: Any = None
        self._to = _where(shown)

    def begin(self, total: int, done: int, workers: int) -> None:
        """So many runs more are wanted, of which some were made before.

        Args:
            workers: how many are made side by side.
        """
        self.total += total
        self.done += done
        self._waves += 1
        self._workers = workers
        self._show()

    def step(self) -> None:
        """One has ended."""
        self.done += 1
        self._made += 1
        self._show()

    def close(self) -> None:
        """It is over: the line goes."""
        if self._to == "notebook" and self._handle is not None:
            from IPython.display import HTML

            self._handle.update(HTML(""))  # type: ignore[no-untyped-call]
        elif self._to == "terminal" and self._last:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    @property
    def line(self) -> str:
        """What it says now."""
        full = WIDTH if not self.total else WIDTH * self.done // self.total
        bar = "█" * full + "░" * (WIDTH - full)
        return f"{self.what} {bar} {self.done} of {plural(self.total, 'run')}{self._left}"

    @property
    def _left(self) -> str:
        """How long it still takes; "" until that means something.

        One run that ended says nothing of those that began beside it, one that was made before
        took no time here, and a search that wanted more once may want more again.
        """
        few = self._made < max(FEW, self._workers) or self._waves > 1
        if few or self.done == self.total:
            return ""
        took = time.monotonic() - self._began
        return f", about {took / self._made * (self.total - self.done):.0f} s left"

    def _show(self) -> None:
        now = time.monotonic()
        if self._to is None or now - self._began < AFTER or now - self._last < EVERY:
            return
        self._last = now
        if self._to == "terminal":
            sys.stderr.write(f"\r\x1b[K{self.line}")
            sys.stderr.flush()
            return
        from IPython.display import HTML, display

        line = f'<div style="font-family:monospace">{self.line}</div>'
        shown = HTML(line)  # type: ignore[no-untyped-call]
        if self._handle is None:
            self._handle = display(shown, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(shown)


def _where(shown: bool | None) -> str | None:
    """`notebook`, `terminal`, or None for nowhere."""
    if shown is False:
        return None
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is not None and hasattr(shell, "kernel"):
        return "notebook"
    return "terminal" if shown or sys.stderr.isatty() else None
