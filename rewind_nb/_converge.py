"""Whether a fork stands where its parent once stood, so that the rest need not be gone through.

The parent's remaining steps are then referenced, not copied: an unchanged fork costs the same
whatever the length of the run. Asked before the first step and after each.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property

from rewind_nb._cells import manifest_of
from rewind_nb._drive import Ended
from rewind_nb._execution import Env
from rewind_nb._itinerary import Itinerary
from rewind_nb._model import ENDED, Manifest
from rewind_nb._recording import Recording
from rewind_nb._refusals import code_is_the_same
from rewind_nb._session import Session
from rewind_nb._store import _read
from rewind_nb._trajectory import Placed, after_step
from rewind_nb.capture.artifacts import write_again


@dataclass
class Convergence:
    """Asks where the fork of *session* stands, compared with its parent."""

    env: Env
    recording: Recording
    way: Itinerary
    session: Session
    always: frozenset[str]  # actions that are to execute
    parent: _Standing = field(init=False)

    def __post_init__(self) -> None:
        self.parent = _Standing(self.recording)

    def after(self, action: str, visit: int) -> Ended | None:
        """How it ends if the state after a step, and all that counts, is the parent's there."""
        track = self.session.track
        placed, seq = self.recording.placed(action, visit), track.seq
        if placed is None or placed.seq + 1 != seq or seq >= len(self.recording.trajectory):
            return None  # after another number of steps, their visits cannot be the same
        self.parent.move(placed)
        alike = (
            manifest_of(track.cells) == self.parent.state
            and track.visits == self.parent.visits
            and self.goes_on_alike(seq)
        )
        return self.rest(seq) if alike else None

    def rest(self, seq: int) -> Ended:
        """Refer to the parent's steps from *seq* on."""
        session, run = self.session, self.recording.run
        self._write_artifacts(seq)
        session.run = replace(session.run, tail=seq)
        return Ended(run.status, run.next_action)

    def _write_artifacts(self, seq: int) -> None:
        """Write the files of the steps from *seq* on for this run, too."""
        run, session, store = self.recording.run, self.session, self.env.store
        runs = {part.run_id for part in self.recording.trajectory.parts}
        if not any(store.read(_read.has_artifacts, run_id) for run_id in runs):
            return
        for top in run.steps[seq:]:
            for step in (top, *top.inside()):
                for made in store.read(_read.artifact_rows, step.executed_key):
                    session.note(write_again(store, made, session.run.id))

    def goes_on_alike(self, seq: int) -> bool:
        """Whether the parent's steps from *seq* on are what the same state leads to."""
        run = self.recording.run
        return (
            run.status in ENDED  # a step that failed is executed
            and len(run) == len(self.recording.trajectory)  # it may have gone on meanwhile
            and self.way.as_recorded(seq)
            and self._same_code
            and not self._always_due(seq)
        )

    @cached_property
    def _same_code(self) -> bool:
        return code_is_the_same(self.env, self.recording)

    def _always_due(self, seq: int) -> bool:
        """Whether an action that is to execute is among the parent's steps from *seq* on."""
        if not self.always:
            return False
        rows = self.recording.rows(seq)
        return any(placed.row.action in self.always for placed in rows)


@dataclass(slots=True)
class _Standing:
    """The parent's state and visits at a position, moved on step by step."""

    recording: Recording
    seq: int = -1
    state: Manifest = ()
    visits: Counter[str] = field(default_factory=Counter)

    def move(self, placed: Placed) -> None:
        """Stand after a step."""
        seq, row = placed.seq, placed.row
        if seq != self.seq:
            self.state = self.recording.trajectory.state_entering(seq)
            self.visits = self.recording.visits_before(seq)
        entering = self.state if row.state is None else row.state
        self.state = after_step(entering, row.deleted, row.writes)
        self.visits[row.action] = row.visit
        self.seq = seq + 1
