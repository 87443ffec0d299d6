"""The patch: the classes through which `httpx`, `httpx2` and `requests` send, once each.

A request of a client of `httpx` is taken where the client gives it to its transport, whichever
that is: a mock, an application in this process, a cache or a retry around another transport. So
it is one call, with the answer that the client got. The transports that connect are patched as
well, for those that are used without a client; inside a captured request they only send.

The libraries that are installed are imported here, at the first `Rewind` (12 ms for
`httpx2`, 31 ms for `requests`, measured beside `httpx`): what an SDK imports later, even in
the middle of a step, is patched already. One that is installed later still is patched by
the next `Rewind`.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from rewind_nb._secrets import safe_url
from rewind_nb.capture import _httpx, _requests
from rewind_nb.capture._context import StepContext, current_step, left_step

_ORIGINAL = "__rewind_original__"
_PATCH = "__rewind_patch__"
_this = object()  # another one after the module was reloaded: its patch is not ours
_lock = threading.Lock()


def install() -> None:
    """Capture the requests of running steps; again, and from any thread, it does nothing."""
    with _lock:
        for name in _httpx.LIBRARIES:
            library = _installed(name)
            if library is not None:
                _patch(library.HTTPTransport, "handle_request", _sync)
                _patch(library.AsyncHTTPTransport, "handle_async_request", _async)
                for client in (library.Client, library.AsyncClient):
                    if hasattr(client, "_transport_for_url"):
                        _patch(client, "_transport_for_url", _transport)
        if _installed("requests") is not None:
            adapters = importlib.import_module("requests.adapters")
            _patch(adapters.HTTPAdapter, "send", _requests_send)


def _installed(name: str) -> ModuleType | None:
    if name not in sys.modules and importlib.util.find_spec(name) is None:
        return None
    return importlib.import_module(name)


def _patch(owner: Any, name: str, wrapped: Callable[[Any], Any]) -> None:
    """Put a wrapper around a method; one of an earlier import of this module is replaced."""
    current = getattr(owner, name)
    if getattr(current, _PATCH, None) is _this:  # also under another package's wrapper
        return
    original = getattr(current, _ORIGINAL, current)
    wrapper = functools.wraps(original)(wrapped(original))
    setattr(wrapper, _ORIGINAL, original)
    setattr(wrapper, _PATCH, _this)
    setattr(owner, name, wrapper)


def _transport(original: Any) -> Any:
    def transport_for_url(client: Any, url: Any) -> Any:
        transport = original(client, url)
        outside = current_step() is None and left_step() is None
        return transport if outside else _Sender(transport)

    return transport_for_url


class _Sender:
    """A client's transport, for one request of a step."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport

    def handle_request(self, request: Any) -> Any:
        return send(self._transport.handle_request, request)

    async def handle_async_request(self, request: Any) -> Any:
        return await asend(self._transport.handle_async_request, request)


def _sync(original: Any) -> Any:
    def handle_request(transport: Any, request: Any) -> Any:
        return send(functools.partial(original, transport), request)

    return handle_request


def _async(original: Any) -> Any:
    async def handle_async_request(transport: Any, request: Any) -> Any:
        return await asend(functools.partial(original, transport), request)

    return handle_async_request


def send(really: _httpx.Send, request: Any) -> Any:
    """Send a request of `httpx` or `httpx2`: as a call of the running step, if there is one.

    Raises:
        CacheMissError: it is not recorded, and nothing may be sent.
    """
    ctx = _step_of(request, _httpx.is_ours)
    return really(request) if ctx is None else _httpx.handle(ctx, really, request)


async def asend(really: _httpx.AsyncSend, request: Any) -> Any:
    """`send` for async transports."""
    ctx = _step_of(request, _httpx.is_ours)
    return await (really(request) if ctx is None else _httpx.ahandle(ctx, really, request))


def _step_of(request: Any, is_ours: Callable[[Any], bool]) -> StepContext | None:
    """The step that a request is to be recorded in; where it has ended, the run's notes say so."""
    step = current_step()
    if step is None:
        left = left_step()
        if left is not None and is_ours(request) and not left.policy.passes(str(request.url)):
            host = urlsplit(safe_url(str(request.url))).netloc
            left.note_late(f"a request to {host}")
        return None
    return step if is_ours(request) else None


def _requests_send(original: Any) -> Any:
    def send_captured(adapter: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        ctx = _step_of(request, _requests.is_ours)
        if ctx is None:
            return original(adapter, request, *args, **kwargs)

        def really(changed: Any) -> Any:
            return original(adapter, changed, *args, **kwargs)

        return _requests.handle(ctx, adapter, really, request)

    return send_captured
