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
from typing import Any

import httpx

from rewind_nb._model import Usage
from rewind_nb._secrets import SECRET_HEADERS, redact, redact_bytes, register_secret, safe_url
from rewind_nb.capture import _overrides
from rewind_nb.capture._context import StepContext, current_step
from rewind_nb.capture._exchange import (
    NOTHING,
    Answer,
    OpenCall,
    Request,
    complete,
    fail,
    open_call,
)

PLAYED = "rewind_nb.played"  # in response.extensions
EXTRA = "rewind_nb"  # in request.extensions: what a client adds to the fingerprint
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
        if call.error is not None:
            fail(call, call.error)
            raise call.error
        if not call.played:
            try:
                response = self.inner.handle_request(request)
                response.read()
            except BaseException as error:
                if (paid := fail(call, error)) is not None:
                    paid.result()
                raise
            call.answer = _record(response)
            played = False
        else:
            played = True
        if (paid := complete(call, read_answer(call))) is not None:
            paid.result()
        return _response(call.answer, request, played=played)

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
        if call.error is not None:
            fail(call, call.error)
            raise call.error
        if not call.played:
            try:
                response = await self.inner.handle_async_request(request)
                await response.aread()
            except BaseException as error:
                if (paid := fail(call, error)) is not None:
                    await asyncio.wrap_future(paid)
                raise
            call.answer = _record(response)
            played = False
        else:
            played = True
        if (paid := complete(call, read_answer(call))) is not None:
            await asyncio.wrap_future(paid)
        return _response(call.answer, request, played=played)

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self.inner.aclose()


# -- request -------------------------------------------------------------------------


def _open(ctx: StepContext, request: httpx.Request) -> tuple[OpenCall, httpx.Request]:
    for name in SECRET_HEADERS & set(request.headers):
        value = request.headers[name]
        register_secret(value.removeprefix("Bearer ").strip())
    extra = request.extensions.get(EXTRA, {})
    kind = "model" if _is_model(request) else "http"
    answer: Any = NOTHING
    for given in _overrides.for_call(ctx, kind):
        given.consumed = True
        if given.override.kind == "response":
            answer = _overrides.response(ctx, given)
        else:
            request = _overridden(request, given.override)
    body = canonical_request(request, extra)
    key = body
    if ctx.cache_key is not None:
        key = ctx.cache_key(copy.deepcopy(body))
    model, temperature = _setting(request, "model"), _setting(request, "temperature")
    asked = Request(
        kind="model" if kind == "model" else "http",
        name=f"{request.method} {body['url']}",
        body=body,
        key=key,
        parts=(str(model), str(temperature), extra.get("tool_result", "")),
        model=model if isinstance(model, str) else None,
    )
    return open_call(ctx, asked, override=answer), request


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


def _response(answer: dict[str, Any], request: httpx.Request, *, played: bool) -> httpx.Response:
    body = answer["body"]
    return httpx.Response(
        answer["status"],
        headers=answer["headers"],
        content=body.encode() if isinstance(body, str) else body,
        request=request,
        extensions={PLAYED: played},
    )


def read_answer(call: OpenCall) -> Answer:
    """What an HTTP response means: whether others may have it, its usage, its model."""
    answer = call.answer
    ok = answer["status"] < 400
    parsed: Any = None
    try:
        parsed = json.loads(answer["body"])
    except (ValueError, RecursionError):
        pass
    if call.row.kind != "model":
        return Answer(answer, playable=ok, counts=ok)
    well_formed = ok and _is_completion(parsed)
    # A server that cannot do JSON mode says so once; the client then asks without it. That
    # refusal is a definite answer to that request, so it is played back like one.
    refused = answer["status"] == 400 and "response_format" in str(answer["body"])
    return Answer(
        answer,
        playable=well_formed or refused,
        counts=well_formed,
        answered_by=parsed.get("model") if well_formed else None,
        usage=read_usage(parsed) if well_formed else None,
    )


def _is_completion(parsed: Any) -> bool:
    if not isinstance(parsed, dict) or not isinstance(parsed.get("choices"), list):
        return False
    first = parsed["choices"][0] if parsed["choices"] else None
    return isinstance(first, dict) and isinstance(first.get("message"), dict)


def read_usage(parsed: dict[str, Any]) -> Usage | None:
    """Token usage as an OpenAI-compatible server reports it; None where it does not."""
    usage = parsed.get("usage")
    if not isinstance(usage, dict):
        return None
    prompt, completion = usage.get("prompt_tokens_details"), usage.get("completion_tokens_details")

    def count(source: Any, name: str) -> int | None:
        value = source.get(name) if isinstance(source, dict) else None
        return value if type(value) is int else None

    return Usage(
        input_tokens=count(usage, "prompt_tokens"),
        output_tokens=count(usage, "completion_tokens"),
        total_tokens=count(usage, "total_tokens"),
        cached_tokens=count(prompt, "cached_tokens"),
        reasoning_tokens=count(completion, "reasoning_tokens"),
    )
