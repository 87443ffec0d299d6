"""Transports that end a call on time, however the server behaves.

A timeout of `httpx` counts from the last byte: a server that sends one byte per
0.2 s keeps a call with a one-second timeout alive for ever. Here the whole
exchange, connection and body included, has one wall-clock budget, and the body
comes back read, decoded and bounded in size.

The sync transport cannot interrupt a blocking read, so it reads in a daemon
thread and stops waiting when the budget is spent; the thread sees that at its
next byte, or at its own read timeout. The async one cancels.

A request may carry `DEADLINE` among its extensions: the reading of the
monotonic clock at which the call that it belongs to must be over (a call may
take several requests). Both transports raise nothing but `httpx` exceptions of
their own, so that a recorder below `httpx` sees every failure in one form.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from concurrent.futures import Future, wait

# Bound here: a step may run with a recorded clock in place of `time`'s.
from time import monotonic

import httpx

__all__ = ["DEADLINE", "AsyncDeadlineTransport", "DeadlineTransport"]

DEADLINE = "rewind_nb.deadline"

_WIRE_HEADERS = {b"content-encoding", b"content-length", b"transfer-encoding"}


class DeadlineTransport(httpx.BaseTransport):
    """A transport whose every answer is complete within `seconds`, or raises.

    Args:
        inner: the transport that does the work.
        seconds: the budget of one request, in seconds of wall clock.
        max_bytes: the largest decoded body that is accepted.

    Raises (from `handle_request`):
        httpx.ReadTimeout: the budget is spent.
        httpx.DecodingError: the body is too large, or its compression is damaged.

    Example:
        >>> inner = httpx.MockTransport(lambda request: httpx.Response(200, text="hi"))
        >>> client = httpx.Client(transport=DeadlineTransport(inner, 5.0, 1024))
        >>> client.get("http://offline.invalid/").text
        'hi'
    """

    def __init__(self, inner: httpx.BaseTransport, seconds: float, max_bytes: int) -> None:
        self._inner = inner
        self._seconds = seconds
        self._max_bytes = max_bytes

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        budget = _budget(request, self._seconds)
        if budget <= 0:
            raise _late(request)
        answer: Future[httpx.Response] = Future()
        given_up = threading.Event()
        # The thread belongs to the step that waits for it.
        run = contextvars.copy_context().run
        work = (self._settle, answer, request, given_up)
        threading.Thread(target=run, args=work, name="rewind_nb-call", daemon=True).start()
        try:
            if not wait([answer], budget).done:
                raise _late(request)
            return answer.result()
        finally:
            given_up.set()

    def close(self) -> None:
        self._inner.close()

    def _settle(
        self, answer: Future[httpx.Response], request: httpx.Request, given_up: threading.Event
    ) -> None:
        try:
            answer.set_result(self._read(request, given_up))
        except BaseException as error:  # noqa: BLE001  raised again where the caller waits
            answer.set_exception(error)

    def _read(self, request: httpx.Request, given_up: threading.Event) -> httpx.Response:
        response = self._inner.handle_request(request)
        try:
            body = _Body(request, self._max_bytes)
            for chunk in response.iter_bytes():
                if given_up.is_set():
                    raise _late(request)
                body.add(chunk)
            return body.answer(response)
        finally:
            response.close()


class AsyncDeadlineTransport(httpx.AsyncBaseTransport):
    """`DeadlineTransport` for asyncio; takes the same arguments, raises the same errors."""

    def __init__(self, inner: httpx.AsyncBaseTransport, seconds: float, max_bytes: int) -> None:
        self._inner = inner
        self._seconds = seconds
        self._max_bytes = max_bytes

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        budget = _budget(request, self._seconds)
        if budget <= 0:
            raise _late(request)
        try:
            async with asyncio.timeout(budget):
                return await self._read(request)
        except TimeoutError:
            raise _late(request) from None

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _read(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        try:
            body = _Body(request, self._max_bytes)
            async for chunk in response.aiter_bytes():
                body.add(chunk)
            return body.answer(response)
        finally:
            await response.aclose()


class _Body:
    """The decoded body of one answer, as it arrives."""

    def __init__(self, request: httpx.Request, max_bytes: int) -> None:
        self._request = request
        self._max_bytes = max_bytes
        self._data = bytearray()

    def add(self, chunk: bytes) -> None:
        self._data += chunk
        if len(self._data) > self._max_bytes:
            raise httpx.DecodingError(
                f"the body is larger than {self._max_bytes} bytes", request=self._request
            )

    def answer(self, response: httpx.Response) -> httpx.Response:
        """The same response with a body in memory, and no word on how it was packed."""
        headers = [(k, v) for k, v in response.headers.raw if k.lower() not in _WIRE_HEADERS]
        known = {k: v for k, v in response.extensions.items() if k != "network_stream"}
        return httpx.Response(
            response.status_code, headers=headers, content=bytes(self._data), extensions=known
        )


def _budget(request: httpx.Request, seconds: float) -> float:
    end = request.extensions.get(DEADLINE)
    return seconds if end is None else min(seconds, end - monotonic())


def _late(request: httpx.Request) -> httpx.ReadTimeout:
    return httpx.ReadTimeout("no complete answer before the deadline", request=request)
