"""Opening the call of an HTTP request: what it is, what it asks, what an override changes."""

from __future__ import annotations

import copy
from typing import Any

from rewind_nb._secrets import redact
from rewind_nb.capture import _http_override, _overrides
from rewind_nb.capture._context import StepContext
from rewind_nb.capture._exchange import NOTHING, Asked, Request, identify, open_call
from rewind_nb.capture._http_call import HttpCall, Sort
from rewind_nb.capture._http_request import HttpRequest, canonical, register_credentials, unlike
from rewind_nb.capture._http_tool import tool_arguments, tool_name
from rewind_nb.capture.wire import wire_for


def sort(ctx: StepContext, method: str, url: str) -> Sort | None:
    """What a request is; None for one that is left alone."""
    if ctx.policy.passes(url):
        return None
    wire = wire_for(method, url)
    kind = ctx.policy.named(url) or ("http" if wire is None else "model")
    return Sort(kind, wire if kind == "model" else None)


def begin(ctx: StepContext, request: HttpRequest, sort: Sort) -> HttpCall:
    """Open the call of a request.

    Raises:
        CacheMissError: it is not recorded, and nothing may be sent.
        NotEncodableError: it cannot be stored.
    """
    register_credentials(request)
    asked = _asked(ctx, request, sort)
    kind, branch, print_ = asked.identity
    attempt_at = request.extra.get("call")  # a client of this package knows its attempts
    retried_as = print_ if attempt_at is None else None
    if attempt_at is None:
        attempt_at = object()
        with ctx.lock:
            waiting = ctx.unanswered.pop((kind, branch, print_), None)
            if waiting is not None:
                ctx.unanswered[kind, branch, attempt_at] = waiting
    ordinal = ctx.position(kind, branch, attempt_at)
    answer: Any = NOTHING
    changed = request
    for given in _overrides.for_call(ctx, kind, ordinal) if kind != "http" else ():
        given.consumed = True
        if given.override.kind in ("response", "tool_result"):
            answer = _http_override.answered(ctx, given, changed, sort.wire)
        else:
            changed = _http_override.changed(changed, sort.wire, given.override)
    if changed is not request:
        ctx.sample(asked.identity, ordinal)  # its place among identical requests stays its own
        before, asked = asked, _asked(ctx, changed, sort)
        if before.identity == asked.identity and before.body != asked.body:
            ctx.notes.append("cache_key= hides what the override changed: the old answer stands")
    call = open_call(ctx, asked, ordinal, attempt_at=attempt_at, override=answer)
    wire, body = sort.wire, asked.request.body.get("body")
    streams = wire is not None and wire.wants_stream(changed.url, body)
    if streams:  # handed on while it arrives, so nobody else can wait for it
        call.flight = None
    return HttpCall(call, changed, sort, streams, retried_as)


def _asked(ctx: StepContext, request: HttpRequest, sort: Sort) -> Asked:
    body, name = canonical(request), ""
    model, temperature = _settings(request, body["body"], sort)
    if sort.kind == "tool":
        name = tool_name(request)
        body = {"tool": name, "args": tool_arguments(request), **body}
        if request.content:  # it is in the arguments
            del body["body"]
    key = body if ctx.cache_key is None else ctx.cache_key(copy.deepcopy(body))
    return identify(
        ctx,
        Request(
            kind=sort.kind,
            name=name or f"{request.method} {body['url']}",
            body=body,
            key=key,
            parts=(
                str(model),
                str(temperature),
                request.extra.get("tool_result", ""),
                unlike(request),
            ),
            model=model and redact(model),  # of the URL, as it was sent
        ),
    )


def _settings(request: HttpRequest, body: Any, sort: Sort) -> tuple[str | None, float | None]:
    if sort.wire is not None:
        return sort.wire.model(request.url, body), sort.wire.temperature(request.url, body)
    named = body.get("model") if sort.kind == "model" and isinstance(body, dict) else None
    return named if isinstance(named, str) else None, None
