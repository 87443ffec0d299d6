"""Requests of `requests`, taken at the adapter that sends them.

What the caller gets is made from the record, live and played back alike: a
`requests.Response` whose raw body is decoded already.
"""

from __future__ import annotations

import contextlib
import http.client
import importlib
import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from rewind_nb._model import Usage
from rewind_nb.capture._context import StepContext, is_sending, sending
from rewind_nb.capture._flight import boarded
from rewind_nb.capture._http_answer import HttpAnswer, decoded_headers
from rewind_nb.capture._http_call import FREE, HttpCall, Sort
from rewind_nb.capture._http_open import begin, sort
from rewind_nb.capture._http_request import HttpRequest
from rewind_nb.capture._httpx import EMPTY
from rewind_nb.capture._inflate import DamagedBodyError, Unpacker
from rewind_nb.capture._stream import Live, LiveStream, PlayedStream, Recording
from rewind_nb.capture._wait import committed

READ = 1 << 16  # bytes asked for at once
Send = Callable[[Any], Any]


def is_ours(request: Any) -> bool:
    """Whether a request made inside a step is to be captured (see `_httpx.is_ours`)."""
    return not is_sending() and "upgrade" not in request.headers


def handle(ctx: StepContext, adapter: Any, send: Send, request: Any) -> Any:
    """Play back or send, and record.

    Args:
        adapter: the `HTTPAdapter` that was asked.
        send: what it does with a request.
        request: a `PreparedRequest`.
    """
    sorted_ = sort(ctx, request.method, request.url)
    if sorted_ is None:
        if ctx.strict:
            return _response(adapter, EMPTY, request)
        with sending():
            return send(request)
    call, request = _begin(ctx, request, sorted_)
    boarded(call.call)
    if call.played:
        answer = call.playback()
        played = None if answer.cuts is None else PlayedStream(call, answer)
        return _response(adapter, answer, request, played)
    try:
        with sending():
            response = send(request)
            head, unpacker = _head(response.raw, request)
            streams = call.streams(head)
            if not streams:
                head = replace(head, body=_read(response.raw, unpacker))
    except BaseException as error:
        committed(call.failed(error, usage=_cost(error)))
        raise
    cookies = getattr(response.raw, "_original_response", None)
    if streams:
        live = Live(Recording(call, head), unpacker, _damaged)
        stream = LiveStream(live, _raw(response.raw, unpacker), response.close)
        return _response(adapter, head, request, stream, cookies)
    answer, paid = call.answered(head)
    committed(paid)
    return _response(adapter, answer, request, None, cookies)


# -- requests ------------------------------------------------------------------------


def _begin(ctx: StepContext, request: Any, sorted_: Sort) -> tuple[HttpCall, Any]:
    content = _content(request)
    asked = HttpRequest(request.method, request.url, _headers(request), content)
    call = begin(ctx, asked, sorted_)
    if call.request is not asked:
        changed = call.request
        request = request.copy()
        request.url, request.body = changed.url, changed.content or None
        request.headers.clear()
        request.headers.update(changed.headers)
        request.prepare_content_length(request.body)
    return call, request


def _content(request: Any) -> bytes:
    """The body, whatever it was given as; one that can be read once only is kept as bytes."""
    body = request.body
    if body is None or isinstance(body, str | bytes | bytearray):
        return _bytes(body or b"")
    start = None
    with contextlib.suppress(AttributeError, OSError, ValueError):
        start = body.tell()
    read = body.read() if hasattr(body, "read") else b"".join(map(_bytes, body))
    content = _bytes(read)
    if start is not None:
        body.seek(start)
    else:
        request.body = content
        request._body_position = None  # noqa: SLF001  (nothing is left to rewind)
    return content


def _headers(request: Any) -> dict[str, str]:
    return {_text(name).lower(): _text(value) for name, value in request.headers.items()}


def _bytes(data: str | bytes | bytearray) -> bytes:
    return data.encode() if isinstance(data, str) else bytes(data)


def _text(value: str | bytes) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else value


def _cost(error: BaseException) -> Usage | None:
    """Nothing where no connection came about; unknown where one broke."""
    known = importlib.import_module("requests.exceptions")
    if isinstance(error, known.ConnectTimeout | known.InvalidURL | known.InvalidSchema):
        return FREE
    reason = getattr(error.args[0], "reason", None) if error.args else None
    unsent = importlib.import_module("urllib3.exceptions").NewConnectionError
    return FREE if isinstance(reason, unsent) else None


# -- answers -------------------------------------------------------------------------


def _head(raw: Any, request: Any) -> tuple[HttpAnswer, Unpacker]:
    """An answer without its body, and what its body is to be held against."""
    headers = decoded_headers(raw.headers.items(), method=request.method)
    has_body = request.method != "HEAD" and raw.status not in (204, 304)
    promised = {name.lower(): value for name, value in raw.headers.items()}
    return HttpAnswer(raw.status, headers), Unpacker(promised, has_body=has_body)


def _raw(raw: Any, unpacker: Unpacker) -> Iterator[bytes]:
    """What arrives, as it arrives."""
    decode = not unpacker.ours
    if getattr(raw, "chunked", False):  # then it gives out what each chunk brings
        yield from raw.stream(READ, decode_content=decode)
    elif hasattr(raw, "read1"):
        while data := raw.read1(READ, decode_content=decode):
            yield data
    else:  # `urllib3` 1: it waits until it has as many bytes as it is asked for
        yield from raw.stream(1, decode_content=decode)


def _read(raw: Any, unpacker: Unpacker) -> bytes:
    """The whole body. What goes wrong is named as `requests` names it."""
    known = importlib.import_module("requests.exceptions")
    theirs = importlib.import_module("urllib3.exceptions")
    pieces: list[bytes] = []
    try:
        for chunk in raw.stream(READ, decode_content=not unpacker.ours):
            pieces += unpacker.feed(chunk)
        unpacker.end()
    except theirs.ProtocolError as error:
        raise known.ChunkedEncodingError(error) from error
    except theirs.DecodeError as error:
        raise known.ContentDecodingError(error) from error
    except theirs.ReadTimeoutError as error:
        raise known.ConnectionError(error) from error
    except theirs.SSLError as error:
        raise known.SSLError(error) from error
    except DamagedBodyError as error:
        raise known.ContentDecodingError(_damaged(error)) from error
    finally:
        raw.close()
        raw.release_conn()
    return b"".join(pieces)


def _damaged(error: DamagedBodyError) -> Exception:
    decode_error: type[Exception] = importlib.import_module("urllib3.exceptions").DecodeError
    return decode_error(str(error))


def _response(
    adapter: Any, answer: HttpAnswer, request: Any, stream: Any = None, cookies: Any = None
) -> Any:
    """What the caller gets: with *stream*, its body is still to come."""
    base = importlib.import_module("requests.adapters").HTTPAdapter
    return base.build_response(adapter, request, RecordedBody(answer, stream, cookies))


class RecordedBody(io.RawIOBase):
    """What `requests` needs of a response of `urllib3`, and what people read from it.

    Args:
        answer: status and headers, and the body if there is no stream.
        stream: the body, chunk by chunk.
        cookies: the response that cookies are taken from.
    """

    decode_content = False
    version = 11

    def __init__(self, answer: HttpAnswer, stream: Any, cookies: Any) -> None:
        super().__init__()
        self.status = answer.status
        self.reason = http.client.responses.get(answer.status, "")
        self.headers = importlib.import_module("urllib3").HTTPHeaderDict()
        for name, value in answer.sent_headers:
            self.headers.add(name, value)
        self._original_response = cookies
        self._stream = stream
        self._chunks = iter((answer.body,)) if stream is None else iter(stream)
        self._left = b""

    def stream(self, amt: int | None = READ, decode_content: bool | None = None) -> Iterator[bytes]:
        """The rest of the body in pieces of at most *amt* bytes, each as soon as it is there."""
        del decode_content  # done
        while piece := self._take(amt):
            yield piece

    def read(self, amt: int | None = None, decode_content: bool | None = None, **_: Any) -> bytes:
        """Up to *amt* bytes; all that is left if None."""
        del decode_content
        if amt is None or amt < 0:
            return b"".join(self.stream(None))
        return self._take(amt)

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """What there is, as far as it fits."""
        piece = self._take(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def _take(self, amt: int | None) -> bytes:
        if not self._left:
            self._left = next(self._chunks, b"")
        size = len(self._left) if amt is None else amt
        piece, self._left = self._left[:size], self._left[size:]
        return piece

    def release_conn(self) -> None:
        """There is no connection."""

    def close(self) -> None:
        """Stop reading."""
        if not self.closed:
            super().close()
            if self._stream is not None:
                self._stream.close()
