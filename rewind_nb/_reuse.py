"""Which steps of a fork need not execute, and why each of the others does.

A step is compared with the parent's at the same path, action and visit. If that completed,
and its code, its inputs and everything it was seen to read are what the fork has there, it
would do the same again: its output is applied instead. Sound for what flows through the
state, inputs and captured calls; hidden state is not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rewind_nb import _reasons
from rewind_nb._cells import Cell
from rewind_nb._code import CodeFingerprint
from rewind_nb._edits import entering
from rewind_nb._execution import Env
from rewind_nb._lane import Lane
from rewind_nb._model import CONTEXT, PLAYING, RunRow, StepRow
from rewind_nb._outcome import differing_reads, step_key
from rewind_nb._recording import Recording, put_again
from rewind_nb._session import Decide
from rewind_nb._track import Put, Track

Decision = Put | str  # what to apply, or why the step executes


@dataclass(frozen=True, slots=True)
class Reusing:
    """Decides for each step of a fork.

    Attributes:
        recording: the parent's.
        first: the step (path, action, visit) that is to execute whatever it reads: the one
            with an override, or where a fork under ``cache="refresh"`` starts.
        why: why that one does.
        inside: whether the steps of its tasks are to execute, too.
        all: whether every other one is to.
    """

    env: Env
    recording: Recording
    first: tuple[str, str, int] | None
    why: str
    inside: bool = False
    all: bool = False

    def decide(
        self,
        track: Track,
        action: str,
        visit: int,
        inputs: Mapping[str, Any],
        code: CodeFingerprint | None,
    ) -> Decision:
        """What to apply at the next step of *track*, or why it executes.

        Args:
            inputs: what the step would be given.
            code: the fingerprint of its action.
        """
        if (why := self._anyway(track.lane, action, visit)) is not None:
            return why
        row = self.recording.at(track.lane, action, visit)
        if (put := put_again(self.recording, row)) is not None:
            return put
        if self.all:
            return _reasons.NO_REUSE
        if row is None:
            return _reasons.alone(action, visit)
        return self._why_not(track, row, inputs, code) or Put(
            row,
            "reused",
            _reasons.UNCHANGED,
            origin=row.origin or step_key(row),
            overrides=self.recording.given(row),
        )

    def _anyway(self, lane: Lane, action: str, visit: int) -> str | None:
        """Why a step executes whatever it reads; None where it need not."""
        if (lane.path, action, visit) == self.first or (self.inside and self._is_inside(lane)):
            return self.why
        if self.first is not None and self.first[0].startswith(f"{lane.place(action, visit)}["):
            return _reasons.inside(self.why)
        return None

    def _is_inside(self, lane: Lane) -> bool:
        if self.first is None:
            return False
        path, action, visit = self.first
        return lane.path.startswith(f"{path}{action}:{visit}[")

    def _why_not(
        self, track: Track, row: StepRow, inputs: Mapping[str, Any], code: CodeFingerprint | None
    ) -> str | None:
        if row.status != "complete":
            return _reasons.ended(row.status)
        if row.action in self.env.always:
            return _reasons.ALWAYS
        if not self.recording.same_code(row, code):
            return _reasons.changed_code(row.action)
        if other := _other_inputs(row, inputs):
            return _reasons.changed_inputs(other)
        return self._changed_reads(track, row)

    def _changed_reads(self, track: Track, row: StepRow) -> str | None:
        cells = entering(track.cells, self.recording.given(row))
        if changed := differing_reads(row, cells):
            return _reasons.changed_reads(changed)
        if row.reads_all and list(cells) != [key for key, digest in row.reads if digest]:
            return _reasons.ORDER
        return None


def reuse_of(
    env: Env,
    run: RunRow,
    recording: Recording,
    first: tuple[str, str, int] | None,
    *,
    overridden: bool,
) -> Decide:
    """How a fork decides, by its mode.

    Args:
        first: the step it sets out from, None where that is behind it.
        overridden: whether that step has an override.
    """
    every = run.mode.get("reuse") != "unchanged"
    if overridden:
        return Reusing(env, recording, first, _reasons.OVERRIDE, all=every).decide
    asks = run.mode.get("cache") not in PLAYING and not every
    first = first if asks else None
    return Reusing(env, recording, first, _reasons.ASKED_AGAIN, inside=True, all=every).decide


def _other_inputs(row: StepRow, inputs: Mapping[str, Any]) -> list[str]:
    """The inputs that are not those of the recorded step."""
    recorded = dict(row.inputs)
    given = {
        name: Cell.of(value, f"@inputs.{name}").hash
        for name, value in inputs.items()
        if name != CONTEXT or name in recorded  # it counts where it was looked at
    }
    return [n for n in dict.fromkeys([*recorded, *given]) if recorded.get(n) != given.get(n)]
