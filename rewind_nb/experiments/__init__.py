"""Experiments: many forks that answer one question.

The modules, from the ground up:

    _axes, _cells   what a grid varies, and which of its cells ask for the same
    _verdicts       what each run is looked at for, and the check it must pass
    _estimate       what forks are likely to cost, by the recording
    _progress       the line that says how far it is
    _trials         making runs side by side, stopping them
    _lab            an experiment while it runs: a script that wants trials
    _experiment     `Experiment`: what all of them have in common in the store
    _facts          what one run came to
    _jobs, _kinds   an experiment between being asked for and being over
    _verbs          what the methods of a Rewind have in common
    _probes         forks that one check judges, as `bisect` and `ablate` make them
    _perturb, _said, _recorded_facts, _attempts
                    the facts a run was given, and what `ablate` tries instead of each
    _grid, ...      a value per experiment; _grids, ... how it is made, and the method
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rewind_nb.experiments._ablate import Ablate, Fact
from rewind_nb.experiments._axes import label
from rewind_nb.experiments._bisect import Bisect
from rewind_nb.experiments._case import Case
from rewind_nb.experiments._comparison import Comparison
from rewind_nb.experiments._experiment import Experiment
from rewind_nb.experiments._flip import Flip, Probed
from rewind_nb.experiments._grid import Cell, Grid
from rewind_nb.experiments._kinds import value_of
from rewind_nb.experiments._noise import Noise
from rewind_nb.experiments._regress import Regress
from rewind_nb.experiments._spread import Spread
from rewind_nb.experiments._stability import Stability
from rewind_nb.experiments._sweep import Edge, Point, Sweep

if TYPE_CHECKING:
    from rewind_nb._model import ExperimentRow
    from rewind_nb._store import Store

__all__ = [
    "Ablate",
    "Bisect",
    "Case",
    "Cell",
    "Comparison",
    "Edge",
    "Experiment",
    "Fact",
    "Flip",
    "Grid",
    "Noise",
    "Point",
    "Probed",
    "Regress",
    "Spread",
    "Stability",
    "Sweep",
    "label",
    "reopened",
]


def reopened(store: Store, row: ExperimentRow) -> Experiment:
    """An experiment as the store has it."""
    found: Experiment = value_of(row.kind)(store, row)
    return found
