"""How a replayed step compares with its recording: the first difference, if there is one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from rewind_nb import _codec, _path
from rewind_nb._compare import error_text
from rewind_nb._diff import MISSING, diff_nodes
from rewind_nb._divergence import Divergence
from rewind_nb._model import Override, StepRow
from rewind_nb._recording import Recording
from rewind_nb._session import Session
from rewind_nb._store import Store, _read
from rewind_nb._trajectory import Placed
from rewind_nb.errors import CacheMissError, ReplayConnectionError

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
            return _diverged(placed.row, placed.seq, "", None, None, "The step did not execute.")
        if session.misses:
            return _missed(placed, session.misses[0])
        for row in inside:
            found = self._unlike(row, row.seq, session.nested.get((row.path, row.seq)))
            if found is not None:
                return found
        surplus = session.nested.keys() - {(row.path, row.seq) for row in inside}
        if surplus:
            why = "A task made a step that was not recorded."
            return _diverged(placed.row, placed.seq, "@tasks", None, min(surplus)[0], why)
        found = self._unlike(placed.row, placed.seq, now)
        return found or self._unmade(placed) or self._other_artifacts(placed, inside)

    def _unlike(self, row: StepRow, seq: int, now: StepRow | None) -> Divergence | None:
        store = self._session.store
        if now is None:
            return _diverged(row, seq, "", None, None, "The step of the task did not execute.")
        if now.hash == row.hash:
            return _other_stream(store, row, seq, now)
        if (now.error is None) != (row.error is None) or now.error != row.error:
            before, after = error_text(row), error_text(now)
            if before != after:
                return _diverged(row, seq, "@error", before, after, "The step ended differently.")
        for path, before, after in _changed_values(store, row, now):
            return _diverged(row, seq, path, before, after, "The step computed another value.")
        why = "The step deleted other keys, or wrote them in another order."
        return _diverged(row, seq, "@deleted", row.deleted, now.deleted, why)

    def _unmade(self, placed: Placed) -> Divergence | None:
        if not self._session.unmade:
            return None
        call = self._session.unmade[0]
        why = f"The recorded {call.kind} call {call.name!r} was not made."
        return _diverged(
            placed.row, placed.seq, f"@calls[{call.idx}]", call.name, None, why, lane=call.path
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
                    placed.row, placed.seq, path, before.get(key), after.get(key),
                    "The step wrote other bytes.", lane=key[0],
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
    chunks = [[] if s.stream is None else store.value(s.stream) for s in (row, now)]
    n = next(
        (n for n, (a, b) in enumerate(zip(*chunks, strict=False)) if not _same(a, b)),
        min(map(len, chunks)),
    )
    before, after = (found[n] if n < len(found) else MISSING for found in chunks)
    return _diverged(row, seq, f"@stream[{n}]", before, after, "The step streamed another chunk.")


def _same(a: Any, b: Any) -> bool:
    return bool(_codec.encode(a) == _codec.encode(b))


def _missed(placed: Placed, miss: Exception) -> Divergence:
    row, seq = placed.row, placed.seq
    if isinstance(miss, ReplayConnectionError):
        return _diverged(row, seq, "@connection", None, None, str(miss))
    differing = getattr(miss, "differing", ()) if isinstance(miss, CacheMissError) else ()
    index = getattr(miss, "call", 0)
    path = f"@calls[{index}].request" + (f".{differing[0]}" if differing else "")
    before, after = getattr(miss, "nearest", None), getattr(miss, "asked", None)
    if differing:
        before, after = (_path.get(v, differing[0]) for v in (before, after))
    return _diverged(row, seq, path, before, after, str(miss))


def _changed_values(
    store: Store, before: StepRow, after: StepRow
) -> Iterator[tuple[str, Any, Any]]:
    old, new = dict(before.writes), dict(after.writes)
    pairs = [(key, old.get(key), new.get(key)) for key in dict.fromkeys([*old, *new])]
    for key, a, b in [*pairs, ("@result", before.result, after.result)]:
        if a != b:
            nodes = [_codec.parse(store.content(h).data) if h else MISSING for h in (a, b)]
            for delta in diff_nodes(nodes[0], nodes[1], key):
                shown = [
                    v if v is MISSING else _codec.decode_node(v)
                    for v in (delta.before, delta.after)
                ]
                yield delta.path, shown[0], shown[1]


def _diverged(
    row: StepRow,
    seq: int,
    path: str,
    before: Any,
    after: Any,
    why: str,
    *,
    lane: str | None = None,
) -> Divergence:
    where = row.path if lane is None else lane
    return Divergence(seq, row.action, row.visit, path, before, after, why, where)
