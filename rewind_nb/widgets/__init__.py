"""The widgets: see a run in its cell, and act on it there.

Each is an ipywidgets `DOMWidget`: it sits in `VBox` and `Tab`, and its traits can be observed
and linked. The modules, from the ground up: `_coalescer` bounds how often something is sent,
`_notebook` knows the cell, `_base` is what all share; then a module per widget. `js` has their
sources and `static` what esbuild makes of them.
"""

from __future__ import annotations

from rewind_nb.widgets._base import View
from rewind_nb.widgets._diff_table import DiffTable
from rewind_nb.widgets._experiment_view import ExperimentView
from rewind_nb.widgets._grid_view import GridView, view_of
from rewind_nb.widgets._override_editor import OverrideEditor
from rewind_nb.widgets._run_graph import RunGraph
from rewind_nb.widgets._timeline import Timeline

__all__ = [
    "DiffTable",
    "ExperimentView",
    "GridView",
    "OverrideEditor",
    "RunGraph",
    "Timeline",
    "View",
    "view_of",
]
