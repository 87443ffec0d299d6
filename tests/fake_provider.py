"""A real HTTP server on 127.0.0.1 that answers, or fails, as it is told.

    with FakeProvider(status(429), completion("hello")) as provider:
        ChatModel(provider.base_url, "toy").chat("hi")
        assert provider.count == 2

The script is a list of behaviours, played one per request; when it is used up,
`then` (by default a completion that says ``{"ok": true}``) answers every further
request. A behaviour is a function of the request `Seen` that returns an `Answer`,
or an `Answer` itself.
"""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
from dataclasses import dataclass, field
from typing import Any

from loopback import Loopback, LoopbackHandler, shut


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def prompt(self) -> str:
        """The content of the last user message."""
        users = [m for m in self.json["messages"] if m["role"] == "user"]
        return users[-1]["content"]


@dataclass(frozen=True)
class Answer:
    """What goes over the wire.

    `length` is the Content-Length to claim (None: the truth). `every` sends one
    byte per that many seconds. `keep` stops after so many bytes of the body and
    then, by `end`, closes, resets, or hangs until the server stops.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = None
    every: float | None = None
    keep: int | None = None
    end: str = "finish"  # finish | close | reset | hang
    silent: bool = False  # not even a status line


def reply(value: Any, status: int = 200, **headers: str) -> Answer:
    """A JSON body."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Answer(json.dumps(value).encode(), status, {"content-type": "application/json"} | named)


def chat_completion(text: Any = '{"ok": true}', **changes: Any) -> dict[str, Any]:
    """The JSON of a chat completion; `changes` replace or add top-level fields."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "toy-2024",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16},
    } | changes


def completion(text: Any = '{"ok": true}', **changes: Any) -> Answer:
    return reply(chat_completion(text, **changes))


def with_metadata_object() -> Answer:
    """As some gateways answer: `metadata` is an object, and there are fields of their own."""
    return completion(metadata={"trace": {"id": 1}}, provider="gateway", service_tier=None)


def echo(seen: Seen) -> Answer:
    """Answers with the prompt as text, and counts its words as tokens."""
    words = len(seen.prompt.split())
    usage = {"prompt_tokens": words, "completion_tokens": words, "total_tokens": 2 * words}
    return completion(seen.prompt, model=seen.json["model"], usage=usage)


def status(code: int, message: str = "no", **headers: str) -> Answer:
    return reply({"error": {"message": message, "type": "error"}}, code, **headers)


def no_json_mode(seen: Seen) -> Answer:
    """Refuses `response_format`, answers without."""
    if "response_format" in seen.json:
        return status(400, "Unrecognized request argument supplied: response_format")
    return completion()


def echo_key(seen: Seen) -> Answer:
    """As providers do for a wrong key: the whole header comes back."""
    return status(401, f"Incorrect API key provided: {seen.headers.get('authorization')}")


def garbage(body: bytes = b"<html>Bad gateway</html>", content_type: str = "text/html") -> Answer:
    return Answer(body, headers={"content-type": content_type})


def redirect(location: str, code: int = 302) -> Answer:
    return Answer(status=code, headers={"location": location})


def truncated(keep: int = 20) -> Answer:
    """Claims its length and closes in the middle of the body."""
    whole = completion()
    return Answer(whole.body, headers=whole.headers, keep=keep, end="close")


def reset(keep: int | None = None) -> Answer:
    """A TCP reset, before the answer or after `keep` bytes of its body."""
    return Answer(completion().body, keep=keep, end="reset", silent=keep is None)


def closes() -> Answer:
    """Closes without a word."""
    return Answer(silent=True, end="close")


def hang(keep: int | None = None) -> Answer:
    """Never goes on: before the answer, or after `keep` bytes of its body."""
    return Answer(completion().body, keep=keep, end="hang", silent=keep is None)


def drip(every: float = 0.2, body: bytes = b"{" + b" " * 100_000) -> Answer:
    """One byte at a time."""
    return Answer(body, every=every)


def gzip_bomb(megabytes: int = 64) -> Answer:
    packed = gzip.compress(bytes(megabytes << 20), compresslevel=9)
    return Answer(packed, headers={"content-encoding": "gzip", "content-type": "application/json"})


def zipped(answer: Answer) -> Answer:
    headers = answer.headers | {"content-encoding": "gzip"}
    return Answer(gzip.compress(answer.body), answer.status, headers)


def bad_gzip() -> Answer:
    return Answer(b"this is not gzip", headers={"content-encoding": "gzip"})


class _Handler(LoopbackHandler):
    def setup(self) -> None:
        super().setup()
        if self.owner.stopped.is_set():
            shut(self.connection)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        seen = Seen(self.command, self.path, headers, body)
        self._send(self.owner.behave(seen))

    do_GET = do_POST

    def _send(self, answer: Answer) -> None:
        if not answer.silent:
            self.send_response(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            length = len(answer.body) if answer.length is None else answer.length
            self.send_header("content-length", str(length))
            self.end_headers()
            self._send_body(answer)
        if answer.end == "hang":
            self.owner.stopped.wait()
        if answer.end == "reset":
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()
        if answer.end != "finish":
            self.close_connection = True

    def _send_body(self, answer: Answer) -> None:
        body = answer.body if answer.keep is None else answer.body[: answer.keep]
        if answer.every is None:
            self.wfile.write(body)
            return
        for index in range(len(body)):
            self.wfile.write(body[index : index + 1])
            if self.owner.stopped.wait(answer.every):
                return


class FakeProvider(Loopback):
    """The server; a context manager. `requests` holds what arrived, in order."""

    handler = _Handler
    waits_for_handlers = True

    def __init__(self, *script: Any, then: Any = None) -> None:
        super().__init__(*script, then=completion() if then is None else then)
        self.stopped = threading.Event()

    @property
    def base_url(self) -> str:
        return f"{self.address}/v1"

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Switch the provider off: hanging answers end, the port is closed."""
        if not self.stopped.is_set():
            self.stopped.set()
            super().__exit__()
