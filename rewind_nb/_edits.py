"""The state entering a step, and what a user or an override changed in it beforehand."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from rewind_nb._cells import Cell, Cells
from rewind_nb._model import Override


def entering(cells: Cells, overrides: Sequence[Override]) -> dict[str, Cell]:
    """The state entering a step, with the overrides of it."""
    there = dict(cells)
    for override in overrides:
        if override.kind == "state":
            there |= {k: Cell.of(v, k) for k, v in override.value.items()}
        elif override.kind == "update":
            there = _updated(there, override.value)
    return there


def update_between(before: Cells, now: Cells) -> Override:
    """What a user changed in the state between two steps, as an override."""
    was = iter(before)
    stayed = set(itertools.takewhile(lambda key: key in was, now))  # what follows has moved
    changed = [k for k, c in now.items() if k not in stayed or before[k].hash != c.hash]
    value = {
        "set": {k: now[k].fresh() for k in changed},
        "delete": [k for k in before if k not in stayed],
    }
    return Override("update", value)


def _updated(cells: Cells, update: Mapping[str, Any]) -> dict[str, Cell]:
    kept = {k: c for k, c in cells.items() if k not in update["delete"]}
    return {**kept, **{k: Cell.of(v, k) for k, v in update["set"].items()}}
