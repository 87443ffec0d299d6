"""Where a fork or a resumed run stops, and which runtime inputs its steps get.

A recorded run may consist of several calls: `run` up to a question, `resume` with the
answer. A fork goes through its parent's earlier halts and stops by the last conditions.
Each step gets the inputs recorded for its (action, visit); one the recording lacks gets
those of the call in force there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rewind_nb._execution import Env, invocation
from rewind_nb._model import Override
from rewind_nb._recording import Invocation, Recording
from rewind_nb._store import Batch, Reads, Store

HALTS = ("halt_after", "halt_before")


class Itinerary:
    """The calls a run goes through, and where it is among them.

    Args:
        calls: the parent's calls, or the run's own, the last of them in force at the end.
        start: the seq it sets out from.
        recording: whose recorded inputs steps get, if any.
        passing: whether to go through the earlier halts; a resumed run stops at the first.
        given: inputs that come before the recorded ones: what a resume call was given.
    """

    def __init__(
        self,
        store: Store,
        calls: tuple[Invocation, ...],
        start: int,
        recording: Recording | None,
        *,
        passing: bool = True,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self._passing = passing
        self._given = given or {}
        self._store: Reads = store if recording is None else recording.store
        self._calls = calls
        self._recording = recording
        # -1: before the first call there is, which a fork was given that shares what came before
        self._current = max((i for i, call in enumerate(calls) if call["seq"] <= start), default=-1)

    def stops(self, did: tuple[str, int], following: str) -> bool:
        """Whether to stop between a step and the next one; earlier halts are passed."""
        last = self._calls[-1]
        if self._passing and self._passes(did, following):
            return False
        if "stop_at" in last:
            return did == tuple(last["stop_at"])
        return _holds(last, did, following)

    def _passes(self, did: tuple[str, int], following: str) -> bool:
        """Whether a call before the last one is in force, and does not end here for good.

        It stopped here, or would have; or the recording went this way itself under it.
        """
        placed = None if self._recording is None else self._recording.placed(*did)
        seq = None if placed is None else placed.seq
        if self._current < 0 and (seq is None or seq >= self._calls[0]["seq"]):
            self._current = 0
        last = len(self._calls) - 1
        if self._current == last:
            return False
        call = self._calls[self._current]
        if self._current >= 0 and (
            tuple(call.get("stopped", ())) == did or _holds(call, did, following)
        ):
            self._current += 1
            return True
        if self._recording is None or seq is None or seq >= self._calls[last]["seq"]:
            return False
        after = self._recording.after(*did)
        return after is not None and after.row.action == following

    def update(self, did: tuple[str, int]) -> Override | None:
        """What the user of the recorded application did to its state after a step."""
        recording = self._recording
        after = None if recording is None else recording.after(*did)
        return None if recording is None or after is None else recording.update(after.row)

    def as_recorded(self, seq: int) -> bool:
        """Whether what is still to come of calls and inputs is what the recording had at *seq*."""
        if self._recording is None or self._given:
            return False
        recorded = self._recording.invocations()
        if _asked(self._calls) != _asked(recorded):
            return recorded == () and not any(self._calls[-1][halts] for halts in HALTS)
        return self._current == max(
            (i for i, c in enumerate(recorded) if c["seq"] <= seq), default=-1
        )

    def inputs(self, action: str, visit: int) -> Mapping[str, Any]:
        """The inputs of the step at (action, visit)."""
        row = None if self._recording is None else self._recording.step(action, visit)
        stored = self._calls[max(self._current, 0)]["inputs"] if row is None else row.given
        recorded = {name: self._store.value(digest, strict=True) for name, digest in stored}
        return {**recorded, **self._given}


def _asked(calls: tuple[Invocation, ...]) -> list[Any]:
    """What calls asked for, apart from where each of them stopped."""
    return [{k: v for k, v in call.items() if k not in ("stopped", "code")} for call in calls]


def _holds(call: Invocation, did: tuple[str, int], following: str) -> bool:
    """Whether the conditions of a call hold between a step and the next action."""
    return following in call["halt_before"] or did[0] in call["halt_after"]


def fork_calls(
    env: Env,
    batch: Batch,
    recording: Recording,
    start: int,
    halt_after: list[str] | None,
    halt_before: list[str] | None,
) -> tuple[Invocation, ...]:
    """The calls of a fork: its parent's, the last with the fork's own conditions if given."""
    calls = recording.invocations()
    if halt_after is not None or halt_before is not None:
        own = invocation(env.spec, batch, start, {}, halt_after or [], halt_before or [])
        in_force = [call["inputs"] for call in calls if call["seq"] <= start]
        return ({**own, "inputs": in_force[-1] if in_force else []},)
    if calls:
        return calls
    only: Invocation = {"seq": start, "halt_after": [], "halt_before": [], "inputs": []}
    run = recording.run
    if run.status == "halted" and len(run):  # the user drove it: stop where it stood
        only["stop_at"] = [run.steps[-1].action, run.steps[-1].visit]
    return (only,)
