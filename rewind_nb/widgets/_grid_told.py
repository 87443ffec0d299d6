"""What a widget tells of one cell of a grid, and of how its run differs from the parent."""

from __future__ import annotations

from typing import Any

from rewind_nb._compare import compare
from rewind_nb._model import OVER
from rewind_nb._path import MISSING
from rewind_nb.experiments import label
from rewind_nb.experiments._cells import BASELINE, Place
from rewind_nb.experiments._facts import Facts, FactsOf
from rewind_nb.widgets._grid_drawn import LOOKS, Cells, Seen, cut, said

__all__ = ["Told"]

WIDE = 2_000  # characters of a value
CHANGES = 5  # of a diff that are told


class Told:
    """Tells of the cells of one grid."""

    def __init__(self, cells: Cells) -> None:
        self.cells = cells
        assert cells.grid.run is not None  # noqa: S101  (a grid is about one run)
        self._facts_of = FactsOf(cells.grid.run)
        self._facts: dict[str, Facts] = {}  # by twin, of what is over

    def cell(self, key: str) -> dict[str, Any]:
        """All that is told of one cell, and its samples in few words."""
        cells = self.cells
        place, grid = cells.at(key), cells.grid
        seen = self.cells.of(place)
        verdict = None if seen.judged is None else seen.judged.verdict
        values = place.values(grid._axes)  # noqa: SLF001
        recorded = grid.asked["recorded"]
        return {
            "key": key,
            "state": seen.state,
            "sample": place.sample,
            "values": [
                [cut(name), cut(label(values[name] if name in values else recorded[name]), WIDE)]
                for name in grid.axes
            ],
            "samples": [self._sample(one) for one in self._siblings(place)],
            "same_as": "" if place.twin == key else place.twin,
            "verdict": "" if verdict is None else verdict.outcome,
            "reason": "" if verdict is None else cut(verdict.reason, WIDE),
            "outcome": self._outcome(seen),
            "error": cut(seen.error or (seen.judged and seen.judged.error) or "", WIDE),
            "run_id": seen.run_id,
            "facts": self._spent(place.twin, seen),
        }

    def _siblings(self, place: Place) -> list[Place]:
        if place.choice is None:
            return [place]
        return [
            self.cells.by_key[f"{key_start(place.key)}/{n}"] for n in range(self.cells.grid.samples)
        ]

    def _sample(self, place: Place) -> dict[str, Any]:
        state, _, words = self.cells.verdict([self.cells.of(place)])
        sign, colour = LOOKS[state][:2]
        return {"key": place.key, "sign": sign, "colour": colour, "words": words}

    def _outcome(self, seen: Seen) -> list[list[str]]:
        """Each outcome that is looked at: its name, the value, and the baseline's."""
        if seen.judged is None:
            return []
        base = self.cells.of(self.cells.by_key[BASELINE]).judged
        theirs = {} if base is None else base.outcome
        return [
            [cut(name), *(cut(said(one.get(name, MISSING)), WIDE) for one in (seen.judged.outcome, theirs))]
            for name in self.cells.grid.outcome
        ]  # fmt: skip

    def know_all(self) -> None:
        """Read what every run came to, as its static page does too."""
        for place, cell in zip(self.cells.grid.places, self.cells.grid.cells, strict=True):
            if cell.facts is not None and cell.status in OVER:
                self._facts[place.twin] = cell.facts

    def _spent(self, twin: str, seen: Seen) -> list[list[str]]:
        """Steps, calls, tokens and money of one run."""
        if not seen.run_id:
            return []
        facts = self._facts.get(twin) or self._facts_of(self.cells.grid.store.run(seen.run_id))
        if seen.state in ("ended", "failed"):
            self._facts[twin] = facts
        tokens = "unknown" if facts.tokens is None else f"{facts.tokens:,}"
        return [
            ["steps", f"{facts.executed} executed, {facts.reused} reused"],
            ["calls", f"{facts.live_calls} live, {facts.played_calls} played back"],
            ["tokens", tokens],
            ["cost", str(facts.cost)],
        ]

    def diff(self, key: str) -> dict[str, Any]:
        """How the run of a cell differs from the parent, in few words."""
        seen, parent = self.cells.of(self.cells.at(key)), self.cells.grid.run
        if not seen.run_id or parent is None or key == BASELINE:
            return {"key": key, "first": "", "count": 0, "changes": []}
        diff = compare(parent, self.cells.grid.store.run(seen.run_id))
        changes = diff.changes
        return {
            "key": key,
            "first": "" if diff.divergence is None else diff.divergence.label,
            "count": len(changes),
            "changes": [
                [f"{one.seq} {cut(one.action)}", cut(one.path), _short(one.before), _short(one.after)]
                for one in changes[:CHANGES]
            ],
        }  # fmt: skip


def key_start(key: str) -> str:
    """What the samples of a combination have in common."""
    return key.rpartition("/")[0]


def _short(value: Any) -> str:
    return cut(said(value), 120)
