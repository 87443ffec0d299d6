"""A line that says how far an experiment is: in a terminal, or under the cell of a notebook."""

from __future__ import annotations

import sys
import time
from typing import Any

from rewind_nb._describe import plural

AFTER = 1.0  # seconds; what is over sooner leaves no line
EVERY = 1 / 15  # seconds between two updates
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
        self._began = time.monotonic()
        self._last = 0.0
        self._handle: Any = None
        self._to = _where(shown)

    def begin(self, total: int, done: int) -> None:
        """So many runs more are wanted, of which some were made before."""
        self.total += total
        self.done += done
        self._show()

    def step(self) -> None:
        """One has ended."""
        self.done += 1
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
        took = time.monotonic() - self._began
        rest = took / self.done * (self.total - self.done) if self.done else None
        left = "" if rest is None or self.done == self.total else f", about {rest:.0f} s left"
        bar = "█" * full + "░" * (WIDTH - full)
        return f"{self.what} {bar} {self.done} of {plural(self.total, 'run')}{left}"

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
