"""What the tests' HTTP servers share: a script of behaviours, and a clean end.

A server listens on a free port of 127.0.0.1 while its `with` block lasts. It plays its script,
one behaviour per request, and `then` for every further one; a behaviour is an answer, or a
function of the request that returns one.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class Loopback:
    """A scripted server; a context manager. `requests` holds what arrived, in order."""

    handler: type[LoopbackHandler]
    waits_for_handlers = False  # whether the end waits until every answer is out

    def __init__(self, *script: Any, then: Any) -> None:
        self.requests: list[Any] = []
        self.connections: set[socket.socket] = set()
        self.lock = threading.Lock()
        self._script = list(script)
        self._then = then

    def play(self, *behaviours: Any) -> None:
        """Add to the script."""
        with self.lock:
            self._script.extend(behaviours)

    @property
    def count(self) -> int:
        return len(self.requests)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._server = _Server(("127.0.0.1", 0), self.handler)
        self._server.owner = self
        self._server.daemon_threads = not self.waits_for_handlers
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        with self.lock:
            for connection in self.connections:
                shut(connection)
        self._server.server_close()
        self._thread.join()

    def behave(self, seen: Any) -> Any:
        """Note a request; the answer that the script has for it."""
        with self.lock:
            self.requests.append(seen)
            behaviour = self._script.pop(0) if self._script else self._then
        return behaviour(seen) if callable(behaviour) else behaviour


class _Server(ThreadingHTTPServer):
    owner: Loopback
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are the point of many tests."""


class LoopbackHandler(BaseHTTPRequestHandler):
    """Keeps count of the connections that are open, and is quiet."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def owner(self) -> Any:
        """The `Loopback` it answers for."""
        return self.server.owner  # type: ignore[attr-defined]

    def setup(self) -> None:
        super().setup()
        with self.owner.lock:
            self.owner.connections.add(self.connection)

    def finish(self) -> None:
        with self.owner.lock:
            self.owner.connections.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def log_message(self, *_: object) -> None:
        """Quiet."""


def shut(connection: socket.socket) -> None:
    """Hang up."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
