"""A model without a network: an `httpx` transport that speaks chat completions.

The real client code runs against it, request and response are the wire format,
and the answer is a function of the prompt alone: the state is read from the
JSON that the prompt contains, never from a table or a global. It is named
offline everywhere it shows: the address, the model, the id of each answer.

Temperature and model name choose the wording (`offline-1` at 0 has the plain
one), so that overriding them has an effect. With `jitter` the wording changes
from call to call as a real model's does; the facts never do.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import threading
from typing import Any

import httpx

from rewind_nb.demo.offline_answers import WORDINGS, CannotAnswerError, answer
from rewind_nb.errors import ConfigError

BASE_URL = "http://offline.invalid/v1"
MODEL = "offline-1"


class OfflineModel(httpx.BaseTransport, httpx.AsyncBaseTransport):
    """Answers the prompts of the example pipeline, sync and async.

    Args:
        jitter: the share of calls that are reworded, 0.0 to 1.0; True is 1.0. Two
            reworded calls in a row never have the same wording.
        seed: of the jitter; the wordings of a seed come in a fixed order.

    Attributes:
        calls: how many requests arrived.

    Raises:
        ConfigError: a jitter outside 0.0 to 1.0.

    Example:
        >>> import httpx
        >>> offline = OfflineModel()
        >>> with httpx.Client(transport=offline, base_url=BASE_URL) as client:
        ...     body = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]}
        ...     client.post("/chat/completions", json=body).status_code, offline.calls
        (400, 1)
    """

    def __init__(self, *, jitter: float | bool = 0.0, seed: int = 0) -> None:
        if not 0.0 <= jitter <= 1.0:
            raise ConfigError(
                f"jitter={jitter!r} is not a share of the calls. "
                "Choose a number from 0.0 (never reword) to 1.0 (always).",
                jitter=jitter,
            )
        self.calls = 0
        self._jitter = float(jitter)
        self._random = random.Random(seed)
        self._last = 0
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"OfflineModel(jitter={self._jitter:g}, calls={self.calls})"

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request of a sync client."""
        return self._respond(request, request.read())

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request of an async client."""
        return self._respond(request, await request.aread())

    def _respond(self, request: httpx.Request, content: bytes) -> httpx.Response:
        shift = self._next_shift()
        if request.method != "POST" or not request.url.path.endswith("/chat/completions"):
            return _error(404, f"the offline model has no {request.method} {request.url.path}")
        try:
            body = json.loads(content)
            return httpx.Response(200, json=_completion(body, shift))
        except CannotAnswerError as reason:
            return _error(400, f"the offline model cannot answer: {reason}")
        except (AttributeError, KeyError, TypeError, ValueError) as reason:
            kind = type(reason).__name__
            return _error(400, f"the offline model cannot read this request: {kind}: {reason}")

    def _next_shift(self) -> int:
        """Count the call, and draw by how much to move its wording."""
        with self._lock:
            self.calls += 1
            if self._random.random() >= self._jitter:
                return 0
            self._last = self._random.choice([n for n in range(1, WORDINGS) if n != self._last])
            return self._last


def count_tokens(text: str) -> int:
    """Words and punctuation marks: a plain count that anyone can repeat by hand.

    Example:
        >>> count_tokens("One, two: 3.5!")
        8
    """
    return len(re.findall(r"\w+|[^\w\s]", text))


def _completion(body: dict[str, Any], shift: int) -> dict[str, Any]:
    if body.get("stream"):
        raise CannotAnswerError("it does not stream. Ask without stream.")
    prompt = "\n".join(message["content"] for message in body["messages"])
    # Asked for a model that it is not, it says which one answered.
    model = body["model"] if body["model"].startswith("offline-") else MODEL
    wording = (_wording(model, float(body.get("temperature") or 0.0)) + shift) % WORDINGS
    text = json.dumps(answer(prompt, wording))
    asked, given = count_tokens(prompt), count_tokens(text)
    return {
        "id": f"offline-{hashlib.sha256(prompt.encode()).hexdigest()[:12]}",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {
            "prompt_tokens": asked,
            "completion_tokens": given,
            "total_tokens": asked + given,
        },
    }


def _wording(model: str, temperature: float) -> int:
    """Which wording a model has at a temperature; never 0 but for the plain one."""
    if (model, temperature) == (MODEL, 0.0):
        return 0
    digest = hashlib.sha256(f"{model} at {temperature!r}".encode()).digest()
    return 1 + int.from_bytes(digest[:8]) % (WORDINGS - 1)


def _error(status: int, message: str) -> httpx.Response:
    error = {"message": message, "type": "invalid_request_error", "code": "offline_model"}
    return httpx.Response(status, json={"error": error})
