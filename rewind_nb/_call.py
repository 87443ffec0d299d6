"""`Call`: one request and its answer inside a step."""

from __future__ import annotations

from typing import Any

from rewind_nb._answering import is_other_model
from rewind_nb._cost import Cost, cost_of
from rewind_nb._counterpart import Place
from rewind_nb._describe import displayed
from rewind_nb._live import Asking
from rewind_nb._model import CallKind, CallRow, ErrorInfo, Source, Usage
from rewind_nb._secrets import redact
from rewind_nb._store import Store


class Call:
    """One request and its answer inside a step.

    Attributes:
        kind: ``model``, ``tool``, ``http``, ``clock``, ``random`` or ``uuid``.
        usage: tokens the answer reported; charged only when `source` is ``live``.
        latency_s: seconds.
        replayed_from: the recorded call it was played back from.
    """

    def __init__(self, store: Store, row: CallRow, place: Place) -> None:
        """*place* is that of its step."""
        self._store = store
        self._row = row
        self._place = place
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
        from rewind_nb.capture import _overrides

        return _overrides.asked_messages(self._store, self._row) if self.kind == "model" else None

    @property
    def text(self) -> str | None:
        """The text of a model answer."""
        from rewind_nb.capture import _overrides

        if self.kind != "model":
            return None
        text = _overrides.answer_text(self._store, self._row)
        return text and redact(text)  # the chunks of a stream may spell what none of them holds

    @property
    def system_fingerprint(self) -> str | None:
        """Which deployment of the model answered; None where the provider does not say."""
        from rewind_nb.capture import _overrides

        if self.kind != "model":
            return None
        reading = _overrides.answer_of(self._store, self._row)[1]
        return None if reading is None else reading.system_fingerprint

    @property
    def cost(self) -> Cost:
        """What it cost, by the price at its time; nothing where it was played back."""
        return cost_of(self)

    @property
    def reason(self) -> str | None:
        """Why a fork made it live, or refused to: the fields that differ from its parent's there.

        None for one that was played back, and for every call of a recorded run.
        """
        return Asking(self._store).reason(self._place, self._row)

    @property
    def mismatched_model(self) -> bool:
        """Whether another model answered than was asked; a dated snapshot is no other."""
        return is_other_model(self.model, self.answered_by)

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
            "reason": self.reason,
            "replayed_from": self.replayed_from,
        }

    def __repr__(self) -> str:
        what = self.model or self.name  # of a tool, a clock, a request
        other = f" answered by {self.answered_by}" if self.mismatched_model else ""
        told = f"{self.index} {self.kind} {what}{other}, {self.status}, {self.source}"
        return displayed(f"<Call {told}>")


def vars_of(error: ErrorInfo) -> dict[str, Any]:
    """An error record as a dict."""
    return {"type": error.type, "message": error.message, "raw": error.raw}
