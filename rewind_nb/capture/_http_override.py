"""Overrides of one call over HTTP: what they make of its request, or its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rewind_nb._model import Override
from rewind_nb.capture._context import CallOverride, StepContext
from rewind_nb.capture._http_answer import cut_at_events
from rewind_nb.capture._http_request import HttpRequest
from rewind_nb.capture._http_tool import with_arguments
from rewind_nb.capture.wire import WIRES, Wire

_LIKELY = WIRES[0]  # what a model call speaks whose URL says nothing: most gateways do


def changed(request: HttpRequest, wire: Wire | None, override: Override) -> HttpRequest:
    """The request with the override in it."""
    if override.kind == "tool_args":
        return with_arguments(request, override.value)
    wire = wire or _LIKELY
    url, body = wire.changed(override.kind, override.value, request.url, request.json())
    return request.changed(url, json.dumps(body, ensure_ascii=False).encode())


def answered(
    ctx: StepContext, given: CallOverride, request: HttpRequest, wire: Wire | None
) -> dict[str, Any]:
    """The answer that a ``response=`` or ``tool_result=`` override gives, as it is stored."""
    value = given.override.value
    if given.override.kind == "tool_result":
        return _tool_answer(value, _recorded(ctx, given, "tool"))
    wire = wire or _LIKELY
    before = _recorded(ctx, given, "model")
    text = before["body"] if before is not None and isinstance(before["body"], str) else None
    body = request.json()
    headers = {"content-type": wire.media_type(request.url, body)}
    if wire.wants_stream(request.url, body):
        stream = wire.stream_answer(text, value, request.url, body)
        cuts = list(cut_at_events(stream.encode()))
        return {"status": 200, "headers": headers, "body": stream, "cuts": cuts}
    whole = None if text is None else wire.whole(text)
    answer = json.dumps(wire.answer(whole, value, request.url, body), ensure_ascii=False)
    return {"status": 200, "headers": headers, "body": answer}


def _recorded(ctx: StepContext, given: CallOverride, family: str) -> dict[str, Any] | None:
    rows = [] if ctx.recorded is None else ctx.recorded.logical(family)
    position = (given.branch, given.ordinal)
    row = next((r for r in rows if (r.branch, r.ordinal) == position), None)
    return None if row is None or row.response is None else ctx.store.value(row.response)


def _tool_answer(value: Any, recorded: Mapping[str, Any] | None) -> dict[str, Any]:
    """A whole answer as it is, a text or bytes as its body, else JSON."""
    if isinstance(value, Mapping) and {"status", "headers", "body"} <= set(value):
        return dict(value)
    if isinstance(value, str | bytes):
        before = {} if recorded is None else recorded["headers"]
        kind = before.get("content-type", "text/plain; charset=utf-8")
        return {"status": 200, "headers": {"content-type": kind}, "body": value}
    headers = {"content-type": "application/json"}
    return {"status": 200, "headers": headers, "body": json.dumps(value, ensure_ascii=False)}
