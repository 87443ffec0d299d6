"""Requests of `httpx` and of `httpx2`, which has the same API under another name.

`handle` and `ahandle` do what a transport does, given the function that really sends.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from rewind_nb._model import Usage
from rewind_nb.capture._context import StepContext, is_sending, sending
from rewind_nb.capture._flight import aboarded, boarded
from rewind_nb.capture._http_answer import HttpAnswer, decoded_headers
from rewind_nb.capture._http_call import FREE, HttpCall, Sort
from rewind_nb.capture._http_open import begin, sort
from rewind_nb.capture._http_request import HttpRequest
from rewind_nb.capture._inflate import DamagedBodyError, Unpacker
from rewind_nb.capture._stream import AsyncLiveStream, Live, LiveStream, PlayedStream, Recording
from rewind_nb.capture._wait import acommitted, committed

if TYPE_CHECKING:
    import httpx

PLAYED = "rewind_nb.played"  # in response.extensions
EXTRA = "rewind_nb"  # in request.extensions: what a client adds to the fingerprint
LIBRARIES = ("httpx", "httpx2")

Send = Callable[["httpx.Request"], "httpx.Response"]
AsyncSend = Callable[["httpx.Request"], Awaitable["httpx.Response"]]
EMPTY = HttpAnswer(200, ())  # for what passes through, in a replay


def _library_of(request: httpx.Request) -> ModuleType:
    """The library that a request belongs to."""
    roots = [cls.__module__.partition(".")[0] for cls in type(request).__mro__]
    return sys.modules[next(root for root in roots if root in LIBRARIES)]


def is_ours(request: httpx.Request) -> bool:
    """Whether a request made inside a step is to be captured.

    Not so while another one is on the wire: then a captured transport is inside another one.
    A request to upgrade to a websocket has no answer that could be recorded.
    """
    return not is_sending() and "upgrade" not in request.headers


def handle(ctx: StepContext, send: Send, request: httpx.Request) -> httpx.Response:
    """Play back or send, and record."""
    library: Any = _library_of(request)
    sorted_ = sort(ctx, request.method, str(request.url))
    if sorted_ is None:
        return _passed(ctx, library, send, request)
    call, request = _begin(ctx, library, request, request.read(), sorted_)
    boarded(call.call)
    if call.played:
        return _played(library, call, request)
    try:
        with sending():
            response = send(request)
            head, unpacker = _head(response, request)
            streams = call.streams(head)
            if not streams:
                head = replace(head, body=_read(library, response, unpacker))
    except BaseException as error:
        committed(call.failed(error, usage=_cost(library, error)))
        raise
    if streams:
        live = Live(Recording(call, head), unpacker, _damaged(library))
        stream = LiveStream(live, _raw(response, unpacker), response.close)
        return _response(library, head, request, stream)
    answer, paid = call.answered(head)
    committed(paid)
    return _response(library, answer, request)


async def ahandle(ctx: StepContext, send: AsyncSend, request: httpx.Request) -> httpx.Response:
    """`handle` for async transports."""
    library: Any = _library_of(request)
    sorted_ = sort(ctx, request.method, str(request.url))
    if sorted_ is None:
        return await _apassed(ctx, library, send, request)
    call, request = _begin(ctx, library, request, await request.aread(), sorted_)
    if call.was_cancelled and not call.has_part:
        await call.cancelled_again()
    await aboarded(call.call)
    if call.played:
        return _played(library, call, request)
    try:
        with sending():
            response = await send(request)
            head, unpacker = _head(response, request)
            streams = call.streams(head)
            if not streams:
                head = replace(head, body=await _aread(library, response, unpacker))
    except BaseException as error:
        failed = call.failed(error, usage=_cost(library, error))
        if not isinstance(error, GeneratorExit):  # which forbids to wait
            await acommitted(failed)
        raise
    if streams:
        live = Live(Recording(call, head), unpacker, _damaged(library))
        stream = AsyncLiveStream(live, _araw(response, unpacker), response.aclose)
        return _response(library, head, request, stream)
    answer, paid = call.answered(head)
    await acommitted(paid)
    return _response(library, answer, request)


def _passed(ctx: StepContext, library: Any, send: Send, request: httpx.Request) -> httpx.Response:
    if ctx.strict:
        return _response(library, EMPTY, request, played=True)
    with sending():
        return send(request)


async def _apassed(
    ctx: StepContext, library: Any, send: AsyncSend, request: httpx.Request
) -> httpx.Response:
    if ctx.strict:
        return _response(library, EMPTY, request, played=True)
    with sending():
        return await send(request)


# -- requests ------------------------------------------------------------------------


def _begin(
    ctx: StepContext, library: Any, request: httpx.Request, content: bytes, sorted_: Sort
) -> tuple[HttpCall, httpx.Request]:
    """The opened call, and the request to send: another one where an override changed it."""
    extra = request.extensions.get(EXTRA, {})
    asked = HttpRequest(
        request.method, str(request.url), dict(request.headers.items()), content, extra
    )
    call = begin(ctx, asked, sorted_)
    if call.request is not asked:
        request = library.Request(
            request.method,
            call.request.url,
            headers=dict(call.request.headers),
            content=call.request.content,
            extensions=request.extensions,
        )
    return call, request


def _cost(library: Any, error: BaseException) -> Usage | None:
    """Nothing where no connection came about; unknown where one broke."""
    unsent = (
        library.ConnectError,
        library.ConnectTimeout,
        library.PoolTimeout,
        library.UnsupportedProtocol,
    )
    return FREE if isinstance(error, unsent) else None


# -- answers -------------------------------------------------------------------------


def _head(response: httpx.Response, request: httpx.Request) -> tuple[HttpAnswer, Unpacker]:
    """An answer without its body, and what its body is to be held against."""
    headers = decoded_headers(response.headers.multi_items(), method=request.method)
    has_body = request.method != "HEAD" and response.status_code not in (204, 304)
    promised = {} if response.is_stream_consumed else dict(response.headers.items())
    return HttpAnswer(response.status_code, headers), Unpacker(promised, has_body=has_body)


def _raw(response: httpx.Response, unpacker: Unpacker) -> Iterator[bytes]:
    """What arrives; decoded where the library has to, or has done so already."""
    if response.is_stream_consumed:
        return iter((response.content,))
    return response.iter_raw() if unpacker.ours else response.iter_bytes()


def _araw(response: httpx.Response, unpacker: Unpacker) -> AsyncGenerator[bytes, None]:
    if response.is_stream_consumed:
        return _once(response.content)
    chunks = response.aiter_raw() if unpacker.ours else response.aiter_bytes()
    return cast(AsyncGenerator[bytes, None], chunks)


async def _once(content: bytes) -> AsyncGenerator[bytes, None]:
    yield content


def _read(library: Any, response: httpx.Response, unpacker: Unpacker) -> bytes:
    """The whole body."""
    pieces: list[bytes] = []
    try:
        for chunk in _raw(response, unpacker):
            pieces += unpacker.feed(chunk)
        unpacker.end()
    except DamagedBodyError as error:
        raise _damaged(library)(error) from error
    finally:
        response.close()
    return b"".join(pieces)


async def _aread(library: Any, response: httpx.Response, unpacker: Unpacker) -> bytes:
    pieces: list[bytes] = []
    try:
        async for chunk in _araw(response, unpacker):
            pieces += unpacker.feed(chunk)
        unpacker.end()
    except DamagedBodyError as error:
        raise _damaged(library)(error) from error
    finally:
        await response.aclose()
    return b"".join(pieces)


def _damaged(library: Any) -> Callable[[DamagedBodyError], Exception]:
    return lambda error: library.DecodingError(str(error))


def _played(library: Any, call: HttpCall, request: httpx.Request) -> httpx.Response:
    answer = call.playback()
    stream = None if answer.cuts is None else PlayedStream(call, answer)
    return _response(library, answer, request, stream, played=True)


def _response(
    library: Any,
    answer: HttpAnswer,
    request: httpx.Request,
    stream: Any = None,
    *,
    played: bool = False,
) -> httpx.Response:
    """What the client gets: with *stream*, its body is still to come."""
    if stream is not None:
        body = _stream_class(library)(stream)
    else:
        body = library.ByteStream(b"" if request.method == "HEAD" else answer.body)
    response: httpx.Response = library.Response(
        answer.status,
        headers=answer.sent_headers,
        stream=body,
        request=request,
        extensions={PLAYED: played},
    )
    return response


@functools.cache
def _stream_class(library: Any) -> Any:
    """The library insists on streams of its own classes."""

    class RecordedStream(library.SyncByteStream, library.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any) -> None:
            self._stream = stream

        def __iter__(self) -> Iterator[bytes]:
            return iter(self._stream)

        def __aiter__(self) -> AsyncIterator[bytes]:
            return aiter(self._stream)

        def close(self) -> None:
            self._stream.close()

        async def aclose(self) -> None:
            await self._stream.aclose()

    return RecordedStream
