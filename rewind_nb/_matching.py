"""How a replayed step compares with its recording: the first difference, if there is one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rewind_nb import _codec, _path
from rewind_nb._changes import error_text
from rewind_nb._comparison import decoded
from rewind_nb._delta import Delta, became, one_change, order_of_keys
from rewind_nb._diff import MISSING, diff_items, diff_nodes
from rewind_nb._divergence import Divergence
from rewind_nb._model import Override, StepRow
from rewind_nb._recording import Recording
from rewind_nb._session import Session
from rewind_nb._store import Store, _read
from rewind_nb._trajectory import Placed
from rewind_nb.errors import ReplayConnectionError

Artifacts = dict[tuple[str, int, str], str]  # path, seq and name -> sha256


class Matcher:
    """Compares what a session has just replayed with the recording, step by step."""

    def __init__(self, recording: Recording, session: Session) -> None:
        self._recording = recording
        self._session = session
        self._artifacts: dict[tuple[str, int], list[Any]] = {}

    def inside(self, placed: Placed) -> list[StepRow]:
        """The steps of its tasks that are to be reproduced, in their order."""
        inside = self._recording.inside(placed.row)
        return [row for row in inside if row.status in ("complete", "failed")]

    def update(self, row: StepRow) -> Override | None:
        """What a user did to the state before a step, between it and the last one."""
        return self._recording.update(row)

    def difference(self, placed: Placed, inside: list[StepRow]) -> Divergence | None:
        """The first difference: in its tasks, which come first, or in the step itself."""
        session, now = self._session, self._session.track.last
        if now is None:
            return _undone(placed.row, placed.seq, "The step did not execute.")
        if session.misses:
            return _missed(placed, session.misses[0])
        for row in inside:
            found = self._unlike(row, row.seq, session.nested.get((row.path, row.seq)))
            if found is not None:
                return found
        surplus = session.nested.keys() - {(row.path, row.seq) for row in inside}
        if surplus:
            why = "A task made a step that was not recorded."
            return _diverged(placed.row, placed.seq, "@tasks", MISSING, min(surplus)[0], why)
        found = self._unlike(placed.row, placed.seq, now)
        return found or self._unmade(placed) or self._other_artifacts(placed, inside)

    def _unlike(self, row: StepRow, seq: int, now: StepRow | None) -> Divergence | None:
        store = self._session.store
        if now is None:
            return _undone(row, seq, "The step of the task did not execute.")
        if now.hash == row.hash:
            return _other_stream(store, row, seq, now)
        for delta, why in _changes(store, row, now):
            return _diverged(row, seq, delta.path, delta.before, delta.after, why, was=delta.was_at)
        return _undone(row, seq, "The step did something else.")

    def _unmade(self, placed: Placed) -> Divergence | None:
        if not self._session.unmade:
            return None
        call = self._session.unmade[0]
        why = f"The recorded {call.kind} call {call.name!r} was not made."
        return _diverged(
            placed.row, placed.seq, f"@calls[{call.idx}]", call.name, MISSING, why, lane=call.path
        )

    def _other_artifacts(self, placed: Placed, inside: list[StepRow]) -> Divergence | None:
        if placed.row.source == "override":
            return None
        before = self._recorded_artifacts(placed.row, inside)
        after = {
            (path, seq if path else placed.row.seq, name): sha256
            for (path, seq, name), sha256 in self._session.artifacts.items()
        }
        for key in dict.fromkeys([*before, *after]):
            if before.get(key) != after.get(key):
                path = f"@artifacts[{json.dumps(key[2])}]"
                return _diverged(
                    placed.row, placed.seq, path, before.get(key, MISSING),
                    after.get(key, MISSING), "The step wrote other bytes.", lane=key[0],
                )  # fmt: skip
        return None

    def _recorded_artifacts(self, row: StepRow, inside: list[StepRow]) -> Artifacts:
        found = {}
        for step in (row, *inside):
            key = step.origin or (step.run_id, step.path, step.seq, step.attempt)
            for made in self._session.store.read(_read.artifact_rows, key):
                found[made.path, made.seq, made.name] = made.sha256
        return found


def _other_stream(store: Store, row: StepRow, seq: int, now: StepRow) -> Divergence | None:
    if row.stream == now.stream or now.source == "override":
        return None
    chunks = [
        [] if h is None else _codec.parse(store.content(h).data) for h in (row.stream, now.stream)
    ]
    for delta in map(decoded, diff_items(chunks[0], chunks[1], "@stream")):
        why = "The step streamed another chunk."
        return _diverged(row, seq, delta.path, delta.before, delta.after, why, was=delta.was_at)
    return None


def _missed(placed: Placed, miss: Exception) -> Divergence:
    row, seq = placed.row, placed.seq
    if isinstance(miss, ReplayConnectionError):
        return _diverged(row, seq, "@connection", MISSING, vars(miss)["asked"], str(miss))
    path = f"@calls[{getattr(miss, 'call', 0)}].request"
    nearest, asked = getattr(miss, "nearest", None), getattr(miss, "asked", MISSING)
    if nearest is not None:
        before, after = (_codec.parse(_codec.encode(request)) for request in (nearest, asked))
        for delta in map(decoded, diff_nodes(before, after, path)):
            values = delta.before, delta.after
            return _diverged(row, seq, delta.path, *values, str(miss), was=delta.was_at)
    return _diverged(row, seq, path, MISSING, asked, str(miss))  # not recorded, or not so often


def _changes(store: Store, before: StepRow, after: StepRow) -> Iterator[tuple[Delta, str]]:
    """What a step of another hash did otherwise, and what to say of it."""
    for delta in one_change("@error", error_text(before), error_text(after)):
        yield delta, "The step ended differently."
    old, new = dict(before.writes), dict(after.writes)
    pairs = [(_path.join("", k), old.get(k), new.get(k)) for k in dict.fromkeys([*old, *new])]
    for path, a, b in [*pairs, ("@result", before.result, after.result)]:
        for delta in _unlike_values(store, path, a, b):
            yield delta, "The step computed another value."
    for delta in one_change("@deleted", before.deleted, after.deleted):
        yield delta, "The step deleted other keys."
    for delta in order_of_keys("@writes", old, new):
        yield delta, "The step wrote its keys in another order."


def _unlike_values(store: Store, path: str, old: str | None, new: str | None) -> Iterator[Delta]:
    """The differing leaves of two stored values, as they are decoded; None where there is none."""
    if old == new:
        return
    nodes = [MISSING if h is None else _codec.parse(store.content(h).data) for h in (old, new)]
    if None in (old, new):
        yield decoded(Delta(path, nodes[0], nodes[1], became(old, new)))
    else:
        yield from map(decoded, diff_nodes(nodes[0], nodes[1], path))


def _undone(row: StepRow, seq: int, why: str) -> Divergence:
    """A difference that is of no field."""
    return _diverged(row, seq, "", MISSING, MISSING, why)


def _diverged(
    row: StepRow,
    seq: int,
    path: str,
    before: Any,
    after: Any,
    why: str,
    *,
    lane: str | None = None,
    was: str | None = None,
) -> Divergence:
    where = row.path if lane is None else lane
    return Divergence(seq, row.action, row.visit, path, before, after, why, where, was)
