"""`Step` and `Call`: one executed action, and one request and answer inside it."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

from rewind_nb._describe import short
from rewind_nb._model import CallKind, CallRow, ErrorInfo, Source, Usage
from rewind_nb._store import Store, _read
from rewind_nb._trajectory import Placed


class Step:
    """One executed action of a run.

    Attributes:
        seq: its position in the run's trajectory, from 0.
        visit: how often the action had occurred by then, from 1.
        source: where its values came from: ``live``, ``cache``, ``tool-cache``,
            ``override``, ``render-cache``, ``reused`` or ``inherited``.
        run_id: the run that executed it, which for an inherited step is an ancestor.
        hash: over what it did: writes, deletions, result, error.
        duration_s: seconds.
    """

    def __init__(self, store: Store, placed: Placed, source: Source) -> None:
        self.store = store
        self.row = row = placed.row
        self.seq = placed.seq
        self.action = row.action
        self.visit = row.visit
        self.attempt = row.attempt
        self.path = row.path
        self.source: Source = source
        self.run_id = row.run_id
        self.status = "interrupted" if row.status == "open" else row.status
        self.hash = row.hash
        self.error: ErrorInfo | None = row.error
        self.started_at = row.started_at
        self.duration_s = row.duration_s
        self.usage: Usage | None = row.usage
        self.live_calls = row.live_calls
        self.played_calls = row.played_calls
        self.reason = row.reason
        self.override = row.override
        self.tasks: tuple[Step, ...] = ()

    @property
    def key(self) -> _read.StepKey:
        """What addresses it in the store: (run id, path, seq, attempt) where it executed."""
        return (self.row.run_id, self.row.path, self.row.seq, self.row.attempt)

    @cached_property
    def hidden_state(self) -> tuple[str, ...]:
        """What its code refers to that the record does not see, e.g. ``log: list (changed)``.

        Lists and dicts among globals are code as long as nothing changes them; those that
        something changed during the run are named here.
        """
        kept = (self.store.row(self.run_id).containers or {}).get(self.action, {})
        changed = [f"{name}: changed during the run" for name, digest in kept.items() if not digest]
        return (*self.row.hidden_state, *changed)

    @property
    def ended_at(self) -> float | None:
        """Seconds since the epoch, UTC; None while it is open."""
        return None if self.duration_s is None else self.started_at + self.duration_s

    @property
    def inputs(self) -> dict[str, Any]:
        """The runtime inputs it was given."""
        return {k: self.store.value(h) for k, h in self.row.inputs}

    @property
    def reads(self) -> dict[str, Any]:
        """The state it was seen to read. Keys seen to be absent are in `absent`."""
        return {k: self.store.value(h) for k, h in self.row.reads if h is not None}

    @property
    def absent(self) -> tuple[str, ...]:
        """The keys it looked for and did not find."""
        return tuple(k for k, h in self.row.reads if h is None)

    @property
    def writes(self) -> dict[str, Any]:
        """The state it wrote, in place or by assignment, also where the value stayed."""
        return {k: self.store.value(h) for k, h in self.row.writes}

    @property
    def deleted(self) -> dict[str, list[str]] | None:
        """Its deletion rule: ``{"keep": [...]}`` or ``{"delete": [...]}``."""
        return self.row.deleted

    @property
    def result(self) -> Any:
        """The result dict of the action."""
        return None if self.row.result is None else self.store.value(self.row.result)

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Its calls in branch order."""
        return tuple(Call(self.store, r) for r in self.store.read(_read.call_rows, self.key))

    @property
    def transition(self) -> dict[str, Any] | None:
        """The way on: ``to``, ``condition`` and what the conditions read."""
        return self.row.transition

    def to_dict(self) -> dict[str, Any]:
        """Everything about it as plain values."""
        return {
            "run_id": self.run_id,
            "seq": self.seq,
            "action": self.action,
            "visit": self.visit,
            "attempt": self.attempt,
            "status": self.status,
            "source": self.source,
            "reason": self.reason,
            "inputs": self.inputs,
            "reads": self.reads,
            "absent": list(self.absent),
            "writes": self.writes,
            "deleted": self.deleted,
            "result": self.result,
            "error": None if self.error is None else vars_of(self.error),
            "calls": [call.to_dict() for call in self.calls],
            "hash": self.hash,
            "started_at": self.started_at,
            "duration_s": self.duration_s,
            "usage": None if self.usage is None else self.usage.to_dict(),
            "hidden_state": list(self.hidden_state),
        }

    def __repr__(self) -> str:
        failed = f", {self.error.type}: {self.error.message!r}" if self.error else ""
        visit = f" (visit {self.visit})" if self.visit > 1 else ""
        return f"<Step {self.seq} {self.action!r}{visit}, {self.status}, {self.source}{failed}>"

    def _repr_html_(self) -> str:
        from rewind_nb import _html

        return _html.step_html(self)


class Call:
    """One request and its answer inside a step.

    Attributes:
        kind: ``model``, ``tool``, ``http``, ``clock``, ``random`` or ``uuid``.
        usage: tokens the answer reported; charged only when `source` is ``live``.
        latency_s: seconds.
        replayed_from: the recorded call it was played back from.
    """

    def __init__(self, store: Store, row: CallRow) -> None:
        self._store = store
        self._row = row
        self.index = row.idx
        self.kind: CallKind = row.kind
        self.name = row.name
        self.source: Source = row.source
        self.status = row.status
        self.model = row.model
        self.answered_by = row.answered_by
        self.usage: Usage | None = row.usage
        self.fingerprint = row.fingerprint
        self.sample = row.n
        self.epoch = row.epoch
        self.latency_s = row.latency_s
        self.started_at = row.started_at
        self.replayed_from = row.replayed_from
        self.error: ErrorInfo | None = row.error
        self.parent = row.parent

    @property
    def request(self) -> Any:
        """The canonical request: no credentials, JSON keys sorted."""
        return self._store.value(self._row.request)

    @property
    def response(self) -> Any:
        """What came back; for a tool its result; None where the call failed."""
        return None if self._row.response is None else self._store.value(self._row.response)

    @property
    def messages(self) -> list[dict[str, Any]] | None:
        """The messages of a model request."""
        body = self.request.get("body") if self.kind == "model" else None
        return body.get("messages") if isinstance(body, dict) else None

    @property
    def text(self) -> str | None:
        """The text of a model answer."""
        if self.kind != "model" or self.response is None:
            return None
        try:
            text = json.loads(self.response["body"])["choices"][0]["message"]["content"]
        except (ValueError, KeyError, IndexError, TypeError):
            return None
        return text if isinstance(text, str) else None

    @property
    def mismatched_model(self) -> bool:
        """Whether another model answered than was asked."""
        return bool(self.model and self.answered_by and self.model != self.answered_by)

    def to_dict(self) -> dict[str, Any]:
        """Everything about it as plain values."""
        names = ("index", "kind", "name", "source", "status", "model", "answered_by")
        return {
            **{name: getattr(self, name) for name in names},
            "request": self.request,
            "response": self.response,
            "error": None if self.error is None else vars_of(self.error),
            "usage": None if self.usage is None else self.usage.to_dict(),
            "sample": self.sample,
            "latency_s": self.latency_s,
            "replayed_from": self.replayed_from,
        }

    def __repr__(self) -> str:
        model = f" {short(self.model)[1:-1]}" if self.model else ""
        other = f" answered by {short(self.answered_by)[1:-1]}" if self.mismatched_model else ""
        return f"<Call {self.index} {self.kind}{model}{other}, {self.status}, {self.source}>"


def vars_of(error: ErrorInfo) -> dict[str, Any]:
    """An error record as a dict."""
    return {"type": error.type, "message": error.message, "raw": error.raw}
