"""The cells of a grid as a widget draws them: plain values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from rewind_nb._describe import displayed, plural
from rewind_nb._model import ENDED, RunRow
from rewind_nb._path import MISSING
from rewind_nb._run import Run
from rewind_nb.errors import ExperimentError, did_you_mean
from rewind_nb.experiments import Grid, label
from rewind_nb.experiments._cells import BASELINE, Place
from rewind_nb.experiments._facts import failure
from rewind_nb.experiments._grid import Judges
from rewind_nb.experiments._verdicts import Judged

__all__ = ["CELLS", "LOOKS", "Cells", "Seen", "cut", "said"]

CELLS = 5_000  # combinations that are drawn
VALUES = 2  # outcomes that stand in a cell
NARROW = 40  # characters of a value

# state of a combination -> sign, colour, words of the legend; in the order of the legend
LOOKS = {
    "pass": ("✓", "good", "pass"),
    "mixed": ("◐", "warn", "pass sometimes"),
    "fail": ("✕", "bad", "fail"),
    "same": ("=", "reused", "same as the baseline"),
    "partly": ("≈", "warn", "changed sometimes"),
    "changed": ("≠", "override", "changed"),
    "ended": ("•", "inherited", "ended"),
    "unknown": ("?", "warn", "not judged"),
    "failed": ("⚠\ufe0e", "bad", "error"),
    "refused": ("⊘", "bad", "refused"),
    "running": ("▸", "cache", "running"),
    "interrupted": ("‖", "warn", "stopped half way"),
    "not run": ("·", "inherited", "not run"),
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What one cell came to by now.

    Attributes:
        state: ``ended``, ``failed``, ``refused``, ``running``, ``interrupted`` or ``not run``.
    """

    state: str
    judged: Judged | None = None
    error: str | None = None
    run_id: str = ""


NOT_RUN = Seen("not run")


class Cells:
    """The cells of a grid; of one that goes on, what has ended is read once."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.places = grid.places[1:]
        self.by_key = {place.key: place for place in grid.places}
        self.combinations = [
            tuple(same) for _, same in groupby(self.places, key=lambda place: place.choice)
        ]
        self.seen: dict[str, Seen] = {}  # by twin
        self._over: dict[str, tuple[RunRow, Seen]] = {}  # what is over, by the row it was read of
        self._looks: dict[str, tuple[list[Seen], dict[str, Any]]] = {}

    def read(self, grid: Grid) -> None:
        """Look at the grid as it is by now."""
        self.grid = grid
        judges, refused = Judges(grid), grid.found.get("refused", {})
        # A function of the user's judges when the grid is over, once: it may cost something.
        lost = judges.outcome.lost or (grid.asked["check"] is not None and judges.check is None)
        made = {run._row.cell: run for run in grid.runs}  # noqa: SLF001
        if grid.run is not None:
            made[BASELINE] = grid.run
        self.seen = {}
        for twin in {place.twin for place in grid.places}:
            run = made.get(twin)
            row, seen = self._over.get(twin, (None, NOT_RUN))
            if run is None or row != run._row:  # noqa: SLF001
                judged = None
                if run is not None and run.status in ENDED and (twin in judges.stored or not lost):
                    judged = judges(twin, run)
                seen = _seen(run, judged, refused.get(twin))
                if run is not None and (judged is not None or seen.state == "failed"):
                    self._over[twin] = run._row, seen  # noqa: SLF001
            self.seen[twin] = seen

    def of(self, place: Place) -> Seen:
        """What a cell came to."""
        return self.seen.get(place.twin, NOT_RUN)

    def at(self, key: str) -> Place:
        """The place with this name.

        Raises:
            ExperimentError: there is none.
        """
        found = self.by_key.get(key)
        if found is None:
            near = did_you_mean(key, self.by_key)
            raise ExperimentError(f"Grid {self.grid.id} has no cell {key!r}. {near}")
        return found

    # -- what is drawn ----------------------------------------------------------------------

    def drawn(self) -> dict[str, Any]:
        """The axes and every combination, the last axis fastest."""
        looks = [self._look(same) for same in self.combinations]
        states = Counter(look["state"] for look in looks)
        return {
            "axes": [{"name": cut(n), "labels": self.grid.labels(n)} for n in self.grid.axes],
            "samples": self.grid.samples,
            "cells": looks[:CELLS],
            "more": max(0, len(looks) - CELLS),
            "baseline": self._look((self.by_key[BASELINE],)),
            "legend": [
                {"sign": sign, "colour": colour, "words": words, "count": states[state]}
                for state, (sign, colour, words) in LOOKS.items()
                if states[state]
            ],
            "looks": {state: look[:2] for state, look in LOOKS.items()},
        }

    def ended(self) -> tuple[int, int]:
        """How many cells are over, and how many there are."""
        over = sum(self.of(p).state in ("ended", "failed", "refused") for p in self.places)
        return over, len(self.places)

    def _look(self, same: Sequence[Place]) -> dict[str, Any]:
        """A combination: its state, how much of it passes, and words for it."""
        samples = [self.of(place) for place in same]
        known = self._looks.get(same[0].key)
        if known is None or any(a is not b for a, b in zip(known[0], samples, strict=True)):
            known = self._looks[same[0].key] = samples, self._looked(same[0].key, samples)
        return known[1]

    def _looked(self, key: str, samples: Sequence[Seen]) -> dict[str, Any]:
        state, share, words = self.verdict(samples)
        lines = self._values(samples) if state != "running" else []
        by_state = Counter(sample.state for sample in samples)
        if len(samples) > 1:
            for other in ("failed", "refused", "running", "interrupted", "not run"):
                if by_state[other] and other != state:
                    sign, _, said = LOOKS[other]
                    lines.append(f"{sign} {by_state[other]} {said}")
        return {
            "key": key,
            "state": state,
            "share": share,
            "words": words,
            "lines": lines,
        }

    def verdict(self, samples: Sequence[Seen]) -> tuple[str, float | None, str]:
        """What cells came to: their state, the share that passes or changed, and words."""
        judged = [sample.judged for sample in samples if sample.judged is not None]
        if not judged:
            states = [sample.state for sample in samples]
            order = ("running", "failed", "refused", "interrupted", "ended")
            state = next((one for one in order if one in states), "not run")
            error = next((sample.error for sample in samples if sample.error), "")
            words = "stopped" if state == "interrupted" else state
            return state, None, cut(error) if state in ("failed", "refused") else words
        if self.grid.asked["check"] is not None:
            verdicts = [one.verdict.outcome for one in judged if one.verdict is not None]
            passed, failed = verdicts.count("pass"), verdicts.count("fail")
            if not passed + failed:
                return "unknown", None, "not judged"
            share = passed / (passed + failed)
            state = "pass" if share == 1 else "mixed" if share else "fail"
            return state, share, _share(passed, passed + failed, "pass", state, samples)
        base = self.of(self.by_key[BASELINE]).judged
        known = [one.digest != base.digest for one in judged if base and one.digest is not None]
        if not known:
            return "unknown", None, "not judged"
        share = sum(known) / len(known)
        state = "changed" if share == 1 else "partly" if share else "same"
        return state, share, _share(sum(known), len(known), "changed", state, samples)

    def _values(self, samples: Sequence[Seen]) -> list[str]:
        """The outcomes, of several samples the most frequent."""
        lines = []
        for name in self.grid.outcome:
            seen = Counter(
                cut(said(s.judged.outcome.get(name, MISSING))) for s in samples if s.judged
            )
            for words, times in seen.most_common(VALUES):
                lines.append(words if len(samples) == 1 else f"{words} x{times}")
            if len(seen) > VALUES:
                lines.append(f"… {plural(len(seen) - VALUES, 'more value')}")
        return lines


def _seen(run: Run | None, judged: Judged | None, refused: str | None) -> Seen:
    if run is None:
        return NOT_RUN if refused is None else Seen("refused", error=refused)
    state = "ended" if run.status in ENDED else run.status
    return Seen(state, judged, failure(run), run.id)


def _share(count: int, known: int, words: str, state: str, samples: Sequence[Seen]) -> str:
    return state if len(samples) == 1 else f"{count} of {known} {words}"


def said(value: Any) -> str:
    """A value in few words."""
    return "nothing" if value is MISSING else label(value)


def cut(words: str, width: int = NARROW) -> str:
    """A text on one line, with nothing hidden in it, cut at *width* characters."""
    line = displayed(" ".join(words.split()))  # before it is cut: half a key is not recognised
    return line if len(line) <= width else f"{line[: width - 1]}…"
