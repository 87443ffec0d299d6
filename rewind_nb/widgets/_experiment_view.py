"""`ExperimentView`: any experiment as a widget, live, with Start, Stop and Resume."""

from __future__ import annotations

import threading
import time
from typing import Any, ClassVar

from rewind_nb import _html
from rewind_nb._describe import displayed, error_line, plural
from rewind_nb._model import Event
from rewind_nb.errors import ConfigError, ExperimentError
from rewind_nb.experiments import Experiment
from rewind_nb.experiments._verbs import Retry, Verbs
from rewind_nb.widgets._aside import Aside
from rewind_nb.widgets._base import View, bundle, styles
from rewind_nb.widgets._driving import Driving
from rewind_nb.widgets._grid_drawn import cut

__all__ = ["CELL", "ExperimentView"]

POLL = 0.5  # seconds between two looks at one that runs, whoever runs it
RATE = 200_000  # bytes a second that may be sent: a kernel drops what is beyond its limit
CELL = 140  # bytes of a combination, about
ROWS = 500  # of a table
PATIENCE = 0.25  # seconds that an estimate is waited for before it comes later
BEGUN = "not begun"  # the note of one that never ran


class ExperimentView(View):
    """An experiment of any kind: what was asked, what came of it row by row, and its buttons.

    Start and Resume make its runs in a thread beside the cell, as ``rw.resume(experiment)``
    does in it; Stop lets it begin no further run. What was made is never made again. Closing
    the widget, as executing its cell again does, stops what it began.

    Args:
        experiment: what it shows.
        rw: the Rewind that goes on with it; None for a widget without buttons.
    """

    _esm = bundle("grid_view")
    _css = styles()
    asks: ClassVar[dict[str, str]] = {"start": "_start", "stop": "_stop"}

    def __init__(self, experiment: Experiment, rw: Verbs | None = None, **given: Any) -> None:
        self._experiment = experiment
        self._next = 0.0  # when the next update may be sent
        self._timer: threading.Timer | None = None
        self._looking = threading.Lock()
        self._aside = Aside(self.refresh)
        self._driving = None if rw is None else Driving(rw, experiment.id, self.refresh)
        super().__init__(**given)
        if rw is not None and self._driving is not None:
            self._later += [self._driving.close, rw.on(self._on_event)]
        self._look(PATIENCE)

    @property
    def experiment(self) -> Experiment:
        """What it shows, as the store had it at the last look."""
        return self._experiment

    # -- making its runs --------------------------------------------------------------------

    def start(self, retry: Retry | None = None) -> None:
        """Begin, or go on with what was stopped; it returns at once.

        Args:
            retry: ``errors`` to go on with the runs that failed, too.

        Raises:
            ConfigError: it was taken out of a store, and no Rewind was given to the view.
            RunBusyError: it runs already.
            NothingToResumeError: it is complete.
            ExperimentError: a callable is part of it, which no store gives back.
        """
        if self._driving is None:
            raise ConfigError(
                f"Experiment {self._experiment.id} was taken out of a store, which executes "
                "nothing. Pass the Rewind of its application: experiment.view(rw)."
            )
        self._driving.start(retry)
        self._aside.forget()
        self.refresh()

    def stop(self) -> None:
        """Let it begin no further run; what is under way stops where it next asks a model.

        Raises:
            ExperimentError: it does not run in this process.
        """
        if self._driving is None or not self._driving.stop():
            raise ExperimentError(
                f"Experiment {self._experiment.id} does not run in this process. Stop it where "
                "it runs."
            )
        self.refresh()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until what it began is over and shown; False where that took too long.

        Args:
            timeout: seconds; None for as long as it takes.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while self._driving is not None and self._driving.going:
            if until is not None and time.monotonic() > until:
                return False
            time.sleep(0.02)
        self._look(timeout)
        return True

    @property
    def title(self) -> str:
        return f"{type(self._experiment).__name__} {self._experiment.id}"

    def settle(self) -> None:
        """Show what is so now, however long the estimate of what is left takes."""
        self._look(None)

    def _start(self, retry: Retry | None = None) -> str:
        self.start(retry)
        return "begins"

    def _stop(self) -> str:
        self.stop()
        return "stops"

    # -- what it shows ----------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        if event.name in ("run_started", "run_ended"):
            self.refresh()

    def _update(self) -> None:
        wait = self._next - time.monotonic()
        if wait > 0:
            self._again(wait)
        elif self._look():
            self._again(POLL)

    def _again(self, seconds: float) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            if not self._ended:
                self._timer = threading.Timer(seconds, self.refresh)
                self._timer.daemon = True
                self._timer.start()

    def _look(self, patience: float | None = 0) -> bool:
        """Show what is so by now, and say whether that may change."""
        driving = self._driving
        with self._looking:
            going = driving is not None and driving.going  # before the look: it may end meanwhile
            self._experiment = self._experiment.refresh()
            drawn = self._draw(patience)
            problem = "" if driving is None else driving.problem
            self._show(_drawn=drawn, problem=problem, **self._more_traits())
            self._next = time.monotonic() + self._size() / RATE
            return going or self._experiment.status == "running"

    def _draw(self, patience: float | None) -> dict[str, Any]:
        one, driving = self._experiment, self._driving
        going = driving is not None and driving.going
        status = "running" if going else one.status
        begun = one.note != BEGUN
        left = status != "complete" and not going and status != "running"
        plan, cannot = self._plan(patience) if left else ("", "")
        return {
            "head": {
                "name": type(one).__name__,
                "id": one.id,
                "label": cut(one.label or "", 80),
                "status": status if begun or going else BEGUN,
                "stopping": going and driving is not None and driving.stopping,
                "question": displayed(one.question())[:600],
                "check": cut(str(one.asked.get("check") or ""), 200),
                "note": displayed(one.note or "")[:1_000] if begun else "",
            },
            "can": self._can(status, begun) if not going and not cannot else "",
            "cannot": cannot,
            "stops": going,
            "plan": plan,
            "spent": ""
            if status == "running"
            else self._aside.value(one.note, one.spent, patience),
            **self._content(),
        }

    def _can(self, status: str, begun: bool) -> str:
        if self._driving is None or status == "running":
            return ""
        if status == "complete":
            return "retry" if any(run.status == "failed" for run in self._experiment.runs) else ""
        return "resume" if begun else "start"

    def _plan(self, patience: float | None) -> tuple[str, str]:
        """What is left is likely to come to, or why it cannot be gone on with."""
        if self._driving is None:
            return "", f"rw.resume(rw.store.experiment({self._experiment.id!r})) goes on with it."
        try:
            plan = self._aside.value("plan", self._driving.plan, patience)
        except Exception as error:  # noqa: BLE001  (it is shown in the widget)
            return "", error_line(error)
        if plan is None:
            return "what it will come to is being estimated …", ""
        return repr(plan).removeprefix("<Estimate: ").removesuffix(">"), ""

    def _content(self) -> dict[str, Any]:
        """What is drawn of what came of it."""
        one = self._experiment
        columns, rows = one.table()
        answer = displayed(one.answer())[:2_000]
        return {
            "answer": answer,
            "tone": one.tone,
            "made": plural(len(one.runs), "run"),
            "table": {
                "title": one.ROWS,
                "columns": [cut(name) for name in columns],
                "rows": [[cut(words, 200) for words in row] for row in rows[:ROWS]],
                "more": max(0, len(rows) - ROWS),
            },
        }

    def _size(self) -> int:
        return CELL * len(self._experiment.runs)

    def _more_traits(self) -> dict[str, Any]:
        return {}

    def html(self) -> str:
        """The experiment as static HTML."""
        return _html.experiment_html(self._experiment)

    def __repr__(self) -> str:
        one = self._experiment
        return f"<{type(self).__name__} of {plural(len(one.runs), 'run')}, {one.status}>"

    def close(self) -> None:
        """Take it out of the page, and stop what it began: ``rw.resume`` goes on with that."""
        super().close()
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
