"""`Views`: a run as frames, graphs, explanations and HTML, each computed when it is asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

from rewind_nb._notebook import Shown

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from rewind_nb._consumed import Consumed
    from rewind_nb._explain import Explanation
    from rewind_nb._run import Run
    from rewind_nb.widgets import RunGraph


class Views(Shown):
    """What a run shows of itself beyond its steps."""

    @property
    def _run(self) -> Run:
        return cast("Run", self)  # it is a base of that class only

    def graph(self) -> nx.MultiDiGraph[int]:
        """The executed steps as a graph: a node per seq, an edge per transition taken.

        Nodes carry action, visit, source, status, duration_s, usage and hash; edges carry
        the condition.
        """
        from rewind_nb._graphs import run_graph

        return run_graph(self._run)

    def dependencies(self) -> nx.DiGraph[int | str]:
        """Which step read what another one wrote, as it was observed; no circle is in it.

        A node per step: its seq, or inside a task its address such as ``each:1[0]/grade:1``;
        with `action`, `visit`, `task` (its path, "" for the run's own) and `source`. The node
        ``"initial state"`` stands for what the run began with, and ``"override"`` for what was
        put into the state between two steps.

        An edge leads from the step that wrote keys, or deleted them, to one that read them:

        - `keys`: those, sorted; not one that was looked for and never was there.
        - `route`: whether the conditions on the way to the step read any; `route_keys`: which.
        - `made`: whether the step is in a task, and its step made what it reads from these.

        What a task came to leads to the step that the task is in.

        Example:
            >>> graph = run.dependencies()  # doctest: +SKIP
            >>> graph.edges[2, 4]["keys"]  # doctest: +SKIP
            ['analysis']
            >>> sorted(nx.ancestors(graph, 4))  # doctest: +SKIP
            [0, 1, 2]
        """
        from rewind_nb._graphs import dependency_graph

        return dependency_graph(self._run)

    def explain(self) -> pd.DataFrame:
        """Why each step of a fork executed or did not; columns in `_frames.EXPLAIN_COLUMNS`.

        One row per step, those of tasks behind theirs. `reason` is what was decided, in few
        words, and `because` makes it exact: the fields that differ, and who changed them.
        Both are <NA> for a recorded run, which executes every step.

        Example:
            >>> fork.explain().because[4]  # doctest: +SKIP
            "read `analysis`, in which `total` was changed by step 2 'analyse'"
        """
        from rewind_nb import _frames

        return _frames.explain_df(self._run)

    @cached_property
    def explanation(self) -> Explanation:
        """Why each of its steps executed or did not, step by step."""
        from rewind_nb._explain import Explanation

        return Explanation(self._run)

    @cached_property
    def consumed(self) -> tuple[Consumed, ...]:
        """For each override of a fork, who consumed it and the first field it changed.

        Empty where the run has none.

        Example:
            >>> fork.consumed  # doctest: +SKIP
            (<Consumed replace report.total = 5 by step 4 'analyse': first change `report.total`>,)
        """
        from rewind_nb._consumed import consumed

        return consumed(self._run)

    def steps_df(self) -> pd.DataFrame:
        """One row per step; columns in `_frames.STEP_COLUMNS`."""
        from rewind_nb import _frames

        return _frames.steps_df([self._run])

    def calls_df(self) -> pd.DataFrame:
        """One row per call; columns in `_frames.CALL_COLUMNS`."""
        from rewind_nb import _frames

        return _frames.calls_df([self._run])

    def fields_df(self) -> pd.DataFrame:
        """One row per written state field; columns in `_frames.FIELD_COLUMNS`."""
        from rewind_nb import _frames

        return _frames.fields_df([self._run])

    def view(self, *, selection: str = "") -> RunGraph:
        """The run as a widget: its graph, and what is told of the selected step.

        A run as the last line of a cell shows the same.

        Args:
            selection: the address of a step that is selected at first, such as ``search:2``.

        Example:
            >>> graph = run.view(selection="analyse:1")  # doctest: +SKIP
        """
        from rewind_nb.widgets import RunGraph

        return RunGraph(self._run, selection=selection)

    def _repr_html_(self) -> str:
        from rewind_nb import _html

        return _html.run_html(self._run)
