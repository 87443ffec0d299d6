"""`GridView`: what-if forks as a matrix of cells that turn as they end."""

from __future__ import annotations

from typing import Any, ClassVar

import traitlets

from rewind_nb._describe import plural
from rewind_nb.experiments import Experiment, Grid
from rewind_nb.experiments._cells import BASELINE
from rewind_nb.experiments._verbs import Verbs
from rewind_nb.widgets._experiment_view import CELL, ExperimentView
from rewind_nb.widgets._grid_drawn import Cells
from rewind_nb.widgets._grid_told import Told

__all__ = ["GridView", "view_of"]

SAVED, COMPARED = 1_000, 60  # cells that a saved page tells all of, and whose diff it has


class GridView(ExperimentView):
    """A grid: a matrix of its cells over two axes, and what is told of the selected one.

    Attributes:
        selection: the key of the selected cell, such as ``0,1/0``, or ``baseline``; "" for none.
        run_id: the run of that cell, "" where it has none: link it to a `RunGraph`.

    Example:
        >>> view = rw.grid(run, "critique", {"model": ["small", "large"]},
        ...                start=False).view()  # doctest: +SKIP
        >>> graph = run.view()  # doctest: +SKIP
        >>> traitlets.link((view, "run_id"), (graph, "run_id"))  # doctest: +SKIP
        >>> view.start()  # doctest: +SKIP
    """

    asks: ClassVar[dict[str, str]] = {
        **ExperimentView.asks, "cell": "_of_cell", "diff": "_diff_of",
    }  # fmt: skip

    run_id = traitlets.Unicode("").tag(sync=True)

    def __init__(self, grid: Grid, rw: Verbs | None = None, **given: Any) -> None:
        self._cells = Cells(grid)
        self._told = Told(self._cells)
        super().__init__(grid, rw, **given)

    @traitlets.observe("selection")
    def _on_selection(self, change: Any) -> None:
        if change.new in self._cells.by_key:
            self._show(run_id=self._run_of(change.new))

    @traitlets.observe("run_id")
    def _on_run_id(self, change: Any) -> None:
        """Another widget shows another run: select its cell, where it is one's."""
        if change.new == self._run_of(self.selection):
            return
        for key in self._cells.by_key:
            if change.new and self._run_of(key) == change.new:
                self._show(selection=key)
                return

    def _run_of(self, key: str) -> str:
        place = self._cells.by_key.get(key)
        return "" if place is None else self._cells.of(place).run_id

    def _more_traits(self) -> dict[str, Any]:
        found = self._run_of(self.selection)
        return {"run_id": found} if found else {}

    def _content(self) -> dict[str, Any]:
        assert isinstance(self._experiment, Grid)  # noqa: S101  (it was made for one)
        self._cells.read(self._experiment)
        over, total = self._cells.ended()
        drawn = {"grid": self._cells.drawn(), "over": over, "total": total}
        points = self._experiment.kind != Grid.KIND and self._experiment.status != "running"
        return {**super()._content(), **drawn} if points else drawn  # such as those of a sweep

    def _size(self) -> int:
        return CELL * len(self._cells.combinations)

    def __repr__(self) -> str:
        over, total = self._cells.ended()
        return f"<GridView of {plural(total, 'cell')}, {over} ended, {self._experiment.status}>"

    def questions(self) -> list[tuple[str, dict[str, Any]]]:
        """What a saved page may ask; of a very large grid only the first cells."""
        self._told.know_all()
        keys = [BASELINE, *(place.key for place in self._cells.places)]
        cells = [("cell", {"key": key}) for key in keys[:SAVED]]
        ran = [key for key in keys[1:] if self._run_of(key)]
        return [*cells, *(("diff", {"key": key}) for key in ran[:COMPARED])]

    def _of_cell(self, key: str) -> dict[str, Any]:
        return self._told.cell(key)

    def _diff_of(self, key: str) -> dict[str, Any]:
        return self._told.diff(key)


def view_of(experiment: Experiment, rw: Verbs | None) -> ExperimentView:
    """The widget of an experiment of its kind."""
    if isinstance(experiment, Grid):
        return GridView(experiment, rw)
    return ExperimentView(experiment, rw)
