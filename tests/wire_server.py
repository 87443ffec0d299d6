"""A real HTTP server on 127.0.0.1 that counts its requests and streams, cuts, packs, redirects.

    with WireServer(status(429), json_reply({"ok": True})) as server:
        httpx.get(server.url + "/a"), httpx.get(server.url + "/a")
        assert server.count == 2

The script is a list of `Reply` or of functions of the request `Seen` that return one, played
one per request; `then` answers every further request. A streamed reply waits before each
chunk for the `gate` where it has one: a test that opens it after it got the chunk before has
shown that nothing was held back.
"""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from loopback import Loopback, LoopbackHandler


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str  # with the query
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """What goes over the wire.

    `chunks` are sent one by one, in chunked encoding, or `bare` up to where the connection
    closes; else `body` with its length, or with the `length` that is claimed. `cut` closes the
    connection where the end should be.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    chunks: Sequence[bytes] | None = None
    length: int | None = None
    cut: bool = False
    bare: bool = False
    gate: threading.Semaphore | None = None


Behaviour = Reply | Callable[[Seen], Reply]


def json_reply(value: Any, status: int = 200, **headers: str) -> Reply:
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    kind = {"content-type": "application/json"}
    return Reply(status, kind | named, json.dumps(value).encode())


def status(code: int, **headers: str) -> Reply:
    return json_reply({"error": {"message": f"no: {code}"}}, code, **headers)


def redirect(location: str, code: int = 302) -> Reply:
    return Reply(code, {"location": location})


def packed(reply: Reply, keep: int | None = None) -> Reply:
    """The reply in gzip; with *keep*, only so many bytes of that, in whole framing."""
    data = gzip.compress(b"".join(reply.chunks or [reply.body]), mtime=0)[:keep]
    headers = reply.headers | {"content-encoding": "gzip"}
    if reply.chunks is None:
        return replace(reply, headers=headers, body=data)
    third = len(data) // 3
    chunks = [data[:third], data[third : 2 * third], data[2 * third :]]
    return replace(reply, headers=headers, chunks=chunks)


def streamed(*chunks: str, kind: str = "text/event-stream", **options: Any) -> Reply:
    return Reply(
        headers={"content-type": kind}, chunks=[chunk.encode() for chunk in chunks], **options
    )


# -- what providers say ----------------------------------------------------------------


def event(payload: Any, name: str | None = None) -> str:
    data = payload if isinstance(payload, str) else json.dumps(payload)
    return f"event: {name}\ndata: {data}\n\n" if name else f"data: {data}\n\n"


def openai_chat(text: str = "plum", model: str = "toy-2024") -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "system_fingerprint": "fp_1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16},
    }


def openai_events(*words: str) -> list[str]:
    frame = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "toy-2024"}
    said = [
        frame | {"choices": [{"index": 0, "delta": {"role": "assistant", "content": word}}]}
        for word in words
    ]
    end = frame | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    used = frame | {
        "choices": [],
        "usage": {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16},
    }
    return [*map(event, [*said, end, used]), event("[DONE]")]


def anthropic_message(text: str = "plum") -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-toy",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 11, "output_tokens": 5},
    }


def anthropic_events(*words: str) -> list[str]:
    start = anthropic_message() | {"content": [], "stop_reason": None}
    block = {"index": 0, "content_block": {"type": "text", "text": ""}}
    deltas = [{"index": 0, "delta": {"type": "text_delta", "text": word}} for word in words]
    end = {"delta": {"stop_reason": "end_turn", "stop_sequence": None}}
    named = [
        ("message_start", {"message": start}),
        ("content_block_start", block),
        *(("content_block_delta", delta) for delta in deltas),
        ("content_block_stop", {"index": 0}),
        ("message_delta", end | {"usage": {"output_tokens": 5}}),
        ("message_stop", {}),
    ]
    return [event({"type": name, **payload}, name) for name, payload in named]


def google_answer(text: str = "plum") -> dict[str, Any]:
    return {
        "candidates": [
            {"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}
        ],
        "usageMetadata": {
            "promptTokenCount": 11,
            "candidatesTokenCount": 5,
            "totalTokenCount": 16,
        },
        "modelVersion": "gemini-toy",
    }


# -- the server ------------------------------------------------------------------------


class _Handler(LoopbackHandler):
    def do_POST(self) -> None:
        if self.headers.get("transfer-encoding", "") == "chunked":
            body = b"".join(iter(self._chunk, b""))
        else:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self._send(self.owner.behave(Seen(self.command, self.path, headers, body)))

    do_GET = do_HEAD = do_PUT = do_DELETE = do_POST

    def _chunk(self) -> bytes:
        data = self.rfile.read(int(self.rfile.readline(), 16))
        self.rfile.readline()
        return data

    def _send(self, reply: Reply) -> None:
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.bare:
            self.send_header("connection", "close")
        elif reply.chunks is not None:
            self.send_header("transfer-encoding", "chunked")
        else:
            length = len(reply.body) if reply.length is None else reply.length
            self.send_header("content-length", str(length))
        self.end_headers()
        if reply.chunks is None:
            self.wfile.write(b"" if self.command == "HEAD" else reply.body)
        for chunk in reply.chunks or ():
            if reply.gate is not None:
                reply.gate.acquire(timeout=20)
            self.wfile.write(chunk if reply.bare else b"%x\r\n%s\r\n" % (len(chunk), chunk))
        if reply.cut or reply.bare or reply.length is not None:
            self.close_connection = True
        elif reply.chunks is not None:
            self.wfile.write(b"0\r\n\r\n")


class WireServer(Loopback):
    """The server; a context manager. `requests` holds what arrived, in order."""

    handler = _Handler

    def __init__(self, *script: Behaviour, then: Behaviour | None = None) -> None:
        super().__init__(*script, then=then or json_reply({"ok": True}))

    @property
    def url(self) -> str:
        return self.address
