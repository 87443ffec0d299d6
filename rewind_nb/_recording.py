"""What a recorded run offers to another run: answers, inputs, halts, and outputs to apply."""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from rewind_nb._cells import Cell, cells_of
from rewind_nb._code import CodeFingerprint
from rewind_nb._head import read_overrides
from rewind_nb._lane import Lane
from rewind_nb._model import Override, StepRow
from rewind_nb._outcome import Applied
from rewind_nb._reasons import SUPPLIED
from rewind_nb._run import Run
from rewind_nb._store import Reads, Recall, _read, _read_tasks
from rewind_nb._track import Put
from rewind_nb._trajectory import Placed, Trajectory, executed, step_inside

Invocation = dict[str, Any]  # one run or resume call: seq, halt_after, halt_before, inputs


@dataclass(slots=True)
class Recording:
    """A recorded run as the source of answers, inputs and halts for forks or a replay.

    Forks side by side share it; what one of them read is remembered for the others.
    """

    store: Reads
    run: Run
    trajectory: Trajectory
    _visits: dict[tuple[str, int], Placed | None] = field(default_factory=dict)
    _from: tuple[int, list[Placed]] | None = None
    _counted: tuple[int, Counter[str]] = (0, Counter())

    @classmethod
    def of(cls, run: Run, length: int | None = None) -> Recording:
        """The recording of a run as it is now, or of its first *length* steps."""
        trajectory = whole = run._trajectory  # noqa: SLF001
        if length is not None and length < len(whole):
            trajectory = Trajectory(run.store, run._row, length)  # noqa: SLF001
        store, known = Recall(run.store), copy.copy(run)
        known._trajectory = whole.through(store)  # noqa: SLF001
        return cls(store, known, trajectory.through(store))

    def rows(self, seq: int) -> list[Placed]:
        """The steps from a position on, remembered for `step`."""
        known = self._from
        if known is None or known[0] != seq:
            known = self._from = (seq, self.trajectory.rows(seq))
            self._visits |= {(p.row.action, p.row.visit): p for p in known[1]}
        return known[1]

    def step(self, action: str, visit: int) -> StepRow | None:
        """The recorded step at (action, visit)."""
        placed = self.placed(action, visit)
        return None if placed is None else placed.row

    def placed(self, action: str, visit: int) -> Placed | None:
        """The same with its position."""
        if (action, visit) not in self._visits:
            self._visits[action, visit] = self.trajectory.visit(action, visit)
        return self._visits[action, visit]

    def after(self, action: str, visit: int) -> Placed | None:
        """The step that was recorded after (action, visit)."""
        placed = self.placed(action, visit)
        after = None if placed is None else self.trajectory.at(placed.seq + 1)
        if after is not None:
            self._visits[after.row.action, after.row.visit] = after
        return after

    def at(self, lane: Lane, action: str, visit: int) -> StepRow | None:
        """The recorded step at (action, visit) of the run itself, or of a task inside a step."""
        if lane.root is None:
            return self.step(action, visit)
        top = self.step(*lane.root)
        if top is None:
            return None
        return step_inside(self.store, top, lane.path, action, visit)

    def inside(self, top: StepRow) -> list[StepRow]:
        """Every step of the tasks of a top-level step."""
        if not top.tasks and top.status != "open":
            return []
        top = executed(self.store, top)
        place = Lane().place(top.action, top.visit)
        return self.store.read(_read_tasks.steps_inside, top.run_id, top.attempt, place)

    def visits_before(self, seq: int) -> Counter[str]:
        """How often each action had occurred before a position, counted on from the last one."""
        counted = self._counted
        start, counts = counted if counted[0] <= seq else (0, Counter())
        counts = counts.copy()
        for part in self.trajectory.parts:
            first, last = max(part.lo, start - part.shift), min(part.hi, seq - part.shift)
            if first < last:
                found = self.store.read(_read.visit_counts, part.run_id, first, last)
                for action, visit in found.items():
                    counts[action] = max(counts[action], visit)
        self._counted = seq, counts
        return counts.copy()

    def overrides(self, row: StepRow | None) -> list[Applied]:
        """The overrides a recorded step was given, to be given again."""
        return [Applied(o, own=False) for o in self.given(row) if o.kind != "update"]

    def update(self, row: StepRow | None) -> Override | None:
        """What a user did to the state before a recorded step, between it and the last one."""
        return next((o for o in self.given(row) if o.kind == "update"), None)

    def given(self, row: StepRow | None) -> tuple[Override, ...]:
        """Both, first to last."""
        return (
            () if row is None or row.override is None else read_overrides(self.store, row.override)
        )

    def inputs(self, row: StepRow) -> dict[str, Any]:
        """The inputs a recorded step was given, decoded for the new one."""
        return {k: self.store.value(h, strict=True) for k, h in row.given}

    def same_code(self, row: StepRow, now: CodeFingerprint | None) -> bool:
        """Whether a recorded step would execute the code that there is now."""
        if row.code is None or now is None or now.digest != row.code:
            return False
        kept = {} if row.path else self.store.row(row.run_id).containers or {}
        return now.holds(kept.get(row.action, {}))

    def invocations(self) -> tuple[Invocation, ...]:
        """The run and resume calls that made the recording."""
        return self.run._row.halts  # noqa: SLF001

    def prior_of(self, seq: int) -> str | None:
        """The action executed before a position."""
        before = self.trajectory.at(seq - 1) if seq > 0 else None
        return self.run._row.prior if before is None else before.row.action  # noqa: SLF001

    def cells_entering(self, seq: int) -> dict[str, Cell]:
        """The state entering a position."""
        return cells_of(self.trajectory.state_entering(seq), self.store)


def put_again(recording: Recording, row: StepRow | None) -> Put | None:
    """What an override of the parent supplied at a step, to be put in again."""
    if row is None or row.source != "override":
        return None
    return Put(row, "override", SUPPLIED, overrides=recording.given(row))
