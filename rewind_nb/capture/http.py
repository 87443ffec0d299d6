"""HTTP inside a step, recorded and played back: the transports, and the patch.

Making a `Rewind` patches `httpx`, `httpx2` and `requests` where they are installed
(`install`): inside a running step each request is a call of that step, outside of one
nothing changes. For those who refuse patching there are transports to hand to a client.

What of a request counts is in `_http_request`, what of an answer is kept in `_http_answer`,
which requests are model calls in `policy`.

What a replay cannot play back raises `CacheMissError` from the transport. It is no error of
the client library: `openai`, `google-genai` and `mistralai` let it through as it is;
`anthropic` and `groq` take any exception for a broken connection, try twice more within two
seconds, and raise their ``APIConnectionError`` with it as ``__cause__``.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rewind_nb.capture._install_http import asend, install, send
from rewind_nb.capture._stream import close_streams

if TYPE_CHECKING:
    import httpx

    _Transport = httpx.BaseTransport
    _AsyncTransport = httpx.AsyncBaseTransport
else:
    # Not of the library's classes: SDKs on `httpx2` refuse what is of `httpx`.
    _Transport = _AsyncTransport = object

__all__ = ["AsyncCapturedTransport", "CapturedTransport", "close_streams", "install"]


class CapturedTransport(_Transport):
    """A sync transport whose exchanges are calls of the running step.

    For clients of `httpx` and of `httpx2`. A request is recorded once, also where the inner
    transport is patched.

    Args:
        inner: the transport that sends, of the same library as the client.

    Example:
        >>> import httpx
        >>> inner = httpx.MockTransport(lambda request: httpx.Response(200, text="hi"))
        >>> with httpx.Client(transport=CapturedTransport(inner)) as client:
        ...     client.get("http://offline.invalid/").text
        'hi'
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Play back or send; outside a step, only send.

        Raises:
            CacheMissError: the request is not recorded, and nothing may be sent.
        """
        sent: httpx.Response = send(self.inner.handle_request, request)
        return sent

    def close(self) -> None:
        """Close the inner transport."""
        self.inner.close()

    def __enter__(self) -> Self:
        self.inner.__enter__()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        self.inner.__exit__(exc_type, exc_value, traceback)


class AsyncCapturedTransport(_AsyncTransport):
    """The same for async clients.

    Args:
        inner: the async transport that sends, of the same library as the client.

    Example:
        >>> import asyncio, httpx
        >>> inner = httpx.MockTransport(lambda request: httpx.Response(200, text="hi"))
        >>> async def ask():
        ...     async with httpx.AsyncClient(transport=AsyncCapturedTransport(inner)) as client:
        ...         return (await client.get("http://offline.invalid/")).text
        >>> asyncio.run(ask())
        'hi'
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Play back or send; outside a step, only send.

        Raises:
            CacheMissError: the request is not recorded, and nothing may be sent.
        """
        sent: httpx.Response = await asend(self.inner.handle_async_request, request)
        return sent

    async def aclose(self) -> None:
        """Close the inner transport."""
        await self.inner.aclose()

    async def __aenter__(self) -> Self:
        await self.inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self.inner.__aexit__(exc_type, exc_value, traceback)
