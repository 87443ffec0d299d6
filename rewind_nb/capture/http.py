"""HTTP inside a step: an httpx transport that records and plays back.

`CapturedTransport` wraps the transport that really sends. What is recorded is canonical:
method, URL, the headers that change an answer, the body as JSON with its keys sorted.
Credentials, key-like query parameters, user agent, timeouts and the port of a loopback
host are not part of it.

Example:
    >>> import httpx
    >>> client = httpx.Client(transport=CapturedTransport(httpx.HTTPTransport()))
"""

from __future__ import annotations

import asyncio
import copy
import json
from concurrent.futures import Future
from typing import Any

import httpx

from rewind_nb._model import Usage
from rewind_nb._secrets import SECRET_HEADERS, redact, redact_bytes, register_secret, safe_url
from rewind_nb.capture import _overrides
from rewind_nb.capture._completion import read_usage, strict_json, text_or_none
from rewind_nb.capture._context import StepContext, current_step
from rewind_nb.capture._exchange import (
    NOTHING,
    Answer,
    Asked,
    OpenCall,
    Request,
    complete,
    fail,
    identify,
    open_call,
)

PLAYED = "rewind_nb.played"  # in response.extensions
EXTRA = "rewind_nb"  # in request.extensions: what a client adds to the fingerprint
FREE = Usage(0, 0)  # an error status is not billed
_KEPT_HEADERS = ("accept", "content-type", "openai-beta", "anthropic-version", "anthropic-beta")
_LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]")


class CapturedTransport(httpx.BaseTransport):
    """A sync transport whose exchanges are calls of the running step.

    Args:
        inner: the transport that sends.
    """

    def __init__(self, inner: httpx.BaseTransport) -> None:
        self.inner = inner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Play back or send; outside a step, only send."""
        ctx = current_step()
        if ctx is None:
            return self.inner.handle_request(request)
        request.read()
        call, request = _open(ctx, request)
        if call.played:
            return _settle(call, request, played=True)[0]
        try:
            response = self.inner.handle_request(request)
            response.read()
        except BaseException as error:
            fail(call, error, usage=_cost(error)).result()
            raise
        call.answer = _record(response)
        answer, paid = _settle(call, request, played=False)
        paid.result()
        return answer

    def close(self) -> None:
        """Close the inner transport."""
        self.inner.close()


class AsyncCapturedTransport(httpx.AsyncBaseTransport):
    """The same for async clients."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self.inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Play back or send; outside a step, only send."""
        ctx = current_step()
        if ctx is None:
            return await self.inner.handle_async_request(request)
        await request.aread()
        call, request = _open(ctx, request)
        if call.played:
            return _settle(call, request, played=True)[0]
        try:
            response = await self.inner.handle_async_request(request)
            await response.aread()
        except BaseException as error:
            await asyncio.wrap_future(fail(call, error, usage=_cost(error)))
            raise
        call.answer = _record(response)
        answer, paid = _settle(call, request, played=False)
        await asyncio.wrap_future(paid)
        return answer

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self.inner.aclose()


# -- request -------------------------------------------------------------------------


def _open(ctx: StepContext, request: httpx.Request) -> tuple[OpenCall, httpx.Request]:
    for name in SECRET_HEADERS & set(request.headers):
        value = request.headers[name]
        register_secret(value.removeprefix("Bearer ").strip())
    asked = _asked(ctx, request)
    kind, branch, print_ = asked.identity
    # attempts that belong together: those of one chat(), else repeats of one request
    attempt_at = request.extensions.get(EXTRA, {}).get("call", print_)
    ordinal = ctx.position(kind, branch, attempt_at)
    answer: Any = NOTHING
    changed = request
    for given in _overrides.for_call(ctx, kind, ordinal):
        given.consumed = True
        if given.override.kind == "response":
            answer = _overrides.response(ctx, given)
        else:
            changed = _overridden(changed, given.override)
    if changed is not request:
        ctx.sample(asked.identity, ordinal)  # its place among identical requests stays its own
        before, asked = asked, _asked(ctx, changed)
        if before.identity == asked.identity and before.body != asked.body:
            ctx.notes.append("cache_key= hides what the override changed: the old answer stands")
    call = open_call(ctx, asked, ordinal, attempt_at=attempt_at, override=answer)
    return call, changed


def _asked(ctx: StepContext, request: httpx.Request) -> Asked:
    extra = request.extensions.get(EXTRA, {})
    body = canonical_request(request, extra)
    key = body if ctx.cache_key is None else ctx.cache_key(copy.deepcopy(body))
    model, temperature = _setting(request, "model"), _setting(request, "temperature")
    return identify(
        ctx,
        Request(
            kind="model" if _is_model(request) else "http",
            name=f"{request.method} {body['url']}",
            body=body,
            key=key,
            parts=(str(model), str(temperature), extra.get("tool_result", "")),
            model=model if isinstance(model, str) else None,
        ),
    )


def canonical_request(request: httpx.Request, extra: dict[str, Any]) -> dict[str, Any]:
    """The request as it is recorded: no credentials, JSON keys sorted, 0.0 written as 0."""
    url = request.url
    if url.host in _LOOPBACK:
        url = url.copy_with(port=None)
    canonical: dict[str, Any] = {
        "method": request.method,
        "url": safe_url(str(url)),
        "headers": {h: request.headers[h] for h in _KEPT_HEADERS if h in request.headers},
        "body": _canonical_body(request.content),
    }
    if "tool_result" in extra:
        canonical["tool_result"] = extra["tool_result"]
    return canonical


def _canonical_body(content: bytes) -> Any:
    try:
        parsed = json.loads(redact_bytes(content))
    except (ValueError, RecursionError):
        return redact_bytes(content)
    if isinstance(parsed, dict):  # settings: 0 and 0.0 are one
        parsed = {
            k: int(v) if isinstance(v, float) and v.is_integer() else v for k, v in parsed.items()
        }
    return _sorted(parsed)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _sorted(value[k]) for k in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


def _is_model(request: httpx.Request) -> bool:
    return request.method == "POST" and request.url.path.endswith("/chat/completions")


def _setting(request: httpx.Request, name: str) -> Any:
    body = _canonical_body(request.content)
    return body.get(name) if isinstance(body, dict) else None


def _overridden(request: httpx.Request, override: Any) -> httpx.Request:
    body = _overrides.request_body(json.loads(request.content), override)
    headers = {k: v for k, v in request.headers.items() if k.lower() != "content-length"}
    return httpx.Request(
        request.method,
        request.url,
        headers=headers,
        content=json.dumps(body, ensure_ascii=False).encode(),
        extensions=request.extensions,
    )


# -- response ------------------------------------------------------------------------


def _record(response: httpx.Response) -> dict[str, Any]:
    """The response as it is recorded: decoded, without a secret that it echoed."""
    content = redact_bytes(response.content)
    try:
        body: str | bytes = content.decode()
    except UnicodeDecodeError:
        body = content
    kept = ("content-type", "retry-after")
    return {
        "status": response.status_code,
        "headers": {h: redact(response.headers[h]) for h in kept if h in response.headers},
        "body": body,
    }


def _settle(
    call: OpenCall, request: httpx.Request, *, played: bool
) -> tuple[httpx.Response, Future[None]]:
    """Record the answer; the future is done when what was paid for is durable."""
    if call.error is not None:
        fail(call, call.error)
        raise call.error
    paid = complete(call, read_answer(call))
    body = call.answer["body"]
    response = httpx.Response(
        call.answer["status"],
        headers=call.answer["headers"],
        content=body.encode() if isinstance(body, str) else body,
        request=request,
        extensions={PLAYED: played},
    )
    return response, paid


def read_answer(call: OpenCall) -> Answer:
    """What an HTTP response means: whether others may have it, its usage, its model."""
    answer = call.answer
    ok = answer["status"] < 400
    if call.row.kind != "model":
        return Answer(answer, playable=ok, counts=ok)
    parsed = _completion(answer["body"]) if ok else None
    # A server that cannot do JSON mode says so once; the client then asks without it. That
    # refusal is a definite answer to that request, so it is played back like one.
    refused = answer["status"] == 400 and "response_format" in str(answer["body"])
    return Answer(
        answer,
        playable=parsed is not None or refused,
        counts=parsed is not None,
        answered_by=text_or_none(parsed.get("model")) if parsed else None,
        usage=read_usage(parsed) if parsed else None if ok else FREE,
    )


def _cost(error: BaseException) -> Usage | None:
    """Nothing where no connection came about; unknown where one broke."""
    return FREE if isinstance(error, httpx.ConnectError) else None


def _completion(body: str | bytes) -> dict[str, Any] | None:
    """The parsed answer if it is a well-formed chat completion: text, or calls of tools."""
    try:
        parsed = strict_json(body if isinstance(body, str) else body.decode())
        message = parsed["choices"][0]["message"]
        content, calls = message.get("content"), message.get("tool_calls")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None
    usable = bool(calls) or (isinstance(content, str) and bool(content.strip()))
    return parsed if usable and isinstance(parsed, dict) else None
