"""The `httpx` clients of a `ChatModel`: made on first use, closed with their owner.

One sync client per process (a forked child shares no socket with its parent) and
one async client per event loop. An async client is tied to its loop by an async
generator: a loop that shuts down closes its generators, and so the connections,
before they could outlive it.

A client keeps nothing between calls that could change a later answer: no
cookies, no redirects.
"""

from __future__ import annotations

import asyncio
import os
import threading
import urllib.request
import weakref
from collections.abc import AsyncGenerator, Generator
from contextlib import suppress
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, TypeVar, cast

import httpx

from rewind_nb._secrets import Secret, safe_url
from rewind_nb.capture.deadline import AsyncDeadlineTransport, DeadlineTransport
from rewind_nb.capture.http import AsyncCapturedTransport, CapturedTransport
from rewind_nb.errors import ConfigError

__all__ = ["Bearer", "Clients", "endpoint"]

# Without brotli and zstd, whose decoders let a small body grow without bound.
HEADERS = {"accept-encoding": "gzip, deflate", "content-type": "application/json"}

AnyTransport = httpx.BaseTransport | httpx.AsyncBaseTransport
TransportT = TypeVar("TransportT", httpx.BaseTransport, httpx.AsyncBaseTransport)
Lifetime = tuple[httpx.AsyncClient, AsyncGenerator[None, None]]


class Clients:
    """The clients for one URL.

    Args:
        url: where requests go; decides about a proxy.
        deadline: seconds that a request may take.
        max_bytes: the largest decoded answer.
        given: the caller's own transports; empty for the network.
    """

    def __init__(
        self, url: httpx.URL, deadline: float, max_bytes: int, given: tuple[AnyTransport, ...]
    ) -> None:
        self._url = url
        self._bounds = (deadline, max_bytes)
        self._given = given
        self._lock = threading.Lock()
        self._sync: dict[int, httpx.Client] = {}
        self._async: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Lifetime]
        self._async = weakref.WeakKeyDictionary()

    def sync(self) -> httpx.Client:
        """The client of this process."""
        with self._lock:
            client = self._sync.get(os.getpid())
            if client is None or client.is_closed:
                client = self._sync[os.getpid()] = self._new_sync()
            return client

    def _new_sync(self) -> httpx.Client:
        inner = self._own(httpx.BaseTransport)
        inner = inner or httpx.HTTPTransport(proxy=_proxy(self._url))
        transport = CapturedTransport(DeadlineTransport(inner, *self._bounds))
        client = httpx.Client(transport=transport, **self._options())
        weakref.finalize(self, client.close)
        return client

    async def asynchronous(self) -> httpx.AsyncClient:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            known = self._async.get(loop)
        if known is None or known[0].is_closed:
            client = self._new_async()
            known = (client, _until_shutdown(client))
            with self._lock:
                for gone in [other for other in self._async if other.is_closed()]:
                    del self._async[gone]
                self._async[loop] = known
            await anext(known[1])  # tells the loop of it; does not suspend
        return known[0]

    def _new_async(self) -> httpx.AsyncClient:
        inner = self._own(httpx.AsyncBaseTransport)
        inner = inner or httpx.AsyncHTTPTransport(proxy=_proxy(self._url))
        transport = AsyncCapturedTransport(AsyncDeadlineTransport(inner, *self._bounds))
        return httpx.AsyncClient(transport=transport, **self._options())

    def _own(self, kind: type[TransportT]) -> TransportT | None:
        """The caller's transport; with only the other kind given, never the network."""
        sends = "handle_request" if kind is httpx.BaseTransport else "handle_async_request"
        for transport in self._given:
            if hasattr(transport, sends):  # and not by class: a captured one is of none
                return cast(TransportT, transport)
        if not self._given:
            return None
        missing = "transport" if kind is httpx.BaseTransport else "async_transport"
        raise ConfigError(
            f"the model has no {missing}, and the one it was given is of the other kind. "
            f"Pass {missing}= as well."
        )

    def _options(self) -> dict[str, Any]:
        no_cookies = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        return {
            "headers": HEADERS,
            "timeout": self._bounds[0],
            "follow_redirects": False,
            "cookies": no_cookies,
        }

    def close(self) -> None:
        """Close the sync client; the next call makes a new one."""
        with self._lock:
            client = self._sync.pop(os.getpid(), None)
        if client is not None:
            client.close()

    async def aclose(self) -> None:
        """Close the running loop's client as well."""
        self.close()
        with self._lock:
            known = self._async.pop(asyncio.get_running_loop(), None)
        if known is not None:
            await known[1].aclose()


async def _until_shutdown(client: httpx.AsyncClient) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await client.aclose()


class Bearer(httpx.Auth):
    """Puts the key into a request at send time, and takes it out again."""

    def __init__(self, key: Secret) -> None:
        self._key = key

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.headers["authorization"] = f"Bearer {self._key.reveal()}"
        try:
            yield request
        finally:
            with suppress(KeyError):
                del request.headers["authorization"]


def endpoint(base_url: str) -> httpx.URL:
    """The chat URL under a base URL.

    Raises:
        ConfigError: it is not an http(s) URL, or carries a credential.

    Example:
        >>> endpoint("https://gateway.test/v1?api-version=2")
        URL('https://gateway.test/v1/chat/completions?api-version=2')
    """
    shown = safe_url(base_url)
    if shown != base_url:
        raise ConfigError(
            f"base_url={shown!r} was given with a credential in it. Pass the key as api_key= "
            "or REWIND_API_KEY."
        )
    try:
        url = httpx.URL(base_url)
    except httpx.InvalidURL:
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError(
            f"base_url={shown!r} is not an http or https URL. "
            "Use one such as 'https://api.openai.com/v1'."
        )
    return url.copy_with(path=f"{url.path.rstrip('/')}/chat/completions")


def _proxy(url: httpx.URL) -> str | None:
    """The environment's proxy; `httpx` looks only where it makes its own transport."""
    if _is_loopback(url.host) or urllib.request.proxy_bypass(url.host):
        return None
    known = urllib.request.getproxies()
    proxy = known.get(url.scheme) or known.get("all")
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
