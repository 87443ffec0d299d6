"""Which classes an experiment of each kind has: the value, and the job that makes it."""

from __future__ import annotations

import importlib
from typing import Any

# kind -> where its value is, where its job is
_KINDS = {
    "grid": ("_grid.Grid", "_grids.GridJob"),
    "bisect": ("_bisect.Bisect", "_bisects.BisectJob"),
    "ablate": ("_ablate.Ablate", "_ablates.AblateJob"),
    "sweep": ("_sweep.Sweep", "_sweeps.SweepJob"),
    "regress": ("_regress.Regress", "_regresses.RegressJob"),
    "stability": ("_stability.Stability", "_stabilities.StabilityJob"),
    "flip": ("_flip.Flip", "_flip_job.FlipJob"),
}


def value_of(kind: str) -> Any:
    """The class an experiment of this kind is shown as."""
    return _class(_KINDS[kind][0])


def job_of(kind: str) -> Any:
    """The class that makes one; its `again` takes one up that is stored."""
    return _class(_KINDS[kind][1])


def _class(name: str) -> Any:
    module, _, found = name.partition(".")
    return getattr(importlib.import_module(f"rewind_nb.experiments.{module}"), found)
