"""`Experiment`: what all experiments have in common once they are in a store."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from rewind_nb import _owner
from rewind_nb._describe import displayed, plural
from rewind_nb._model import ExperimentRow, ExperimentStatus, StepRow, Usage
from rewind_nb._notebook import Shown
from rewind_nb._run import Run
from rewind_nb._steps import sum_usage
from rewind_nb._store import Store, _experiments, _read_tasks

if TYPE_CHECKING:
    import pandas as pd

    from rewind_nb.experiments._verbs import Verbs
    from rewind_nb.widgets import ExperimentView


class Experiment(Shown):
    """Many runs made to answer one question; a value that reads what is in the store.

    Attributes:
        id: unique; any prefix that matches one experiment finds it.
        kind: ``grid``, ``sweep``, ``flip``, ``bisect``, ``ablate``, ``regress`` or
            ``stability``.
        label: what the user called it.
        made_by: the Rewind that asked for it, which can go on with it; None of one that was
            taken out of a store.
    """

    KIND: ClassVar[str] = ""
    ROWS: ClassVar[str] = "Runs"  # what the rows of its table are

    def __init__(self, store: Store, row: ExperimentRow) -> None:
        self.store = store
        self._row = row
        self.made_by: Verbs | None = None

    @property
    def id(self) -> str:
        """Its id."""
        return self._row.id

    @property
    def kind(self) -> str:
        """Which experiment it is."""
        return self._row.kind

    @property
    def label(self) -> str | None:
        """What the user called it."""
        return self._row.label

    @property
    def status(self) -> ExperimentStatus:
        """``running``, ``complete``, ``interrupted`` (``rw.resume`` goes on) or ``failed``."""
        if self._row.status == "running" and not _owner.is_live(self._row.owner, self.id):
            return "interrupted"
        return self._row.status

    @property
    def note(self) -> str | None:
        """What else there is to know, such as a budget that was spent."""
        return self._row.note

    @property
    def created_at(self) -> float:
        """When it was made: seconds since the epoch, UTC."""
        return self._row.created_at

    @cached_property
    def asked(self) -> dict[str, Any]:
        """What it was asked, mode included, as it is stored."""
        found: dict[str, Any] = self.store.value(self._row.spec)
        return found

    @cached_property
    def found(self) -> dict[str, Any]:
        """What came of it, as it is stored; empty where it has not ended or stopped yet."""
        return {} if self._row.result is None else self.store.value(self._row.result)

    @cached_property
    def run(self) -> Run | None:
        """The run it is about; None where it is about several."""
        return None if self._row.run_id is None else self.store.run(self._row.run_id)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """The runs it made, oldest first."""
        rows = self.store.read(_experiments.runs_of, self.id)
        return tuple(Run(self.store, row) for row in rows)

    @cached_property
    def _steps(self) -> list[StepRow]:
        """Every attempt at every step of its runs."""
        return [row for run in self.runs for row in self.store.read(_read_tasks.every_step, run.id)]

    @cached_property
    def usage(self) -> Usage | None:
        """Tokens its runs paid for; None where a provider did not say."""
        return sum_usage(row.usage for row in self._steps)

    @property
    def df(self) -> pd.DataFrame:
        """What came of it, a row per case."""
        raise NotImplementedError

    @property
    def tone(self) -> str:
        """The colour of its answer: ``cache`` for a plain one, ``good``, ``bad`` or ``warn``."""
        return "cache"

    def table(self) -> tuple[list[str], list[list[str]]]:
        """What is shown of it row by row: the headings, and the rows as text."""
        raise NotImplementedError

    def question(self) -> str:
        """What was asked, in one clause."""
        raise NotImplementedError

    def answer(self) -> str:
        """What came of it, in one clause; "" where there is nothing to say yet."""
        raise NotImplementedError

    def spent(self) -> str:
        """What it cost, in words."""
        live = sum(row.live_calls for row in self._steps)
        tokens = None if self.usage is None else self.usage.total_tokens
        cost = "tokens unknown" if tokens is None else plural(tokens, "token", ",")
        return f"{plural(len(self.runs), 'run')}, {plural(live, 'live call')}, {cost}"

    def refresh(self) -> Experiment:
        """The same experiment as the store has it now."""
        found = self.store.experiment(self.id)
        found.made_by = self.made_by
        return found

    def view(self, rw: Verbs | None = None) -> ExperimentView:
        """The experiment as a widget: what came of it, live, with Start, Stop and Resume.

        An experiment as the last line of a cell shows the same. Asked for with ``start=False``
        it is checked and stored and executes nothing: the widget then says what it will come to
        and has a Start button, so that the cell is not blocked while it runs. That is all there
        is to a live grid: an experiment that has not begun, one that runs, one that was stopped
        and one that is complete are the same value in the store, and the same widget.

        Args:
            rw: the Rewind that goes on with it, where it was taken out of a store.

        Example:
            >>> grid = rw.grid(run, "critique", {"model": ["small", "large"]},
            ...                start=False)  # doctest: +SKIP
            >>> grid.view()  # doctest: +SKIP
        """
        from rewind_nb.widgets import view_of

        return view_of(self, self.made_by if rw is None else rw)

    def __repr__(self) -> str:
        parts = [f"{type(self).__name__} {self.id}", *([f"{self.label!r}"] if self.label else [])]
        parts += [self.status, self.question(), self.answer(), self.spent(), self.note or ""]
        return displayed(f"<{'; '.join(part for part in parts if part)}>")

    def _repr_html_(self) -> str:
        from rewind_nb import _html

        return _html.experiment_html(self)
