"""OpenAI chat completions, and the many servers that speak the same.

Among them Groq, Mistral, vLLM, Ollama's ``/v1``, OpenRouter, LiteLLM, xAI, DeepSeek; and
Azure, where the path names the deployment that answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from rewind_nb._model import Usage
from rewind_nb.capture.wire import _openai_chat_stream
from rewind_nb.capture.wire._checks import got
from rewind_nb.capture.wire._format import Body, Format
from rewind_nb.capture.wire._json import added, count, is_text, member, objects, text, tool_call
from rewind_nb.capture.wire._messages import Given, Message, Shape
from rewind_nb.capture.wire._pairs import CALL, RESULT, Mark, check_turns
from rewind_nb.capture.wire._request import path_of
from rewind_nb.capture.wire._wire import Reading, ToolCall

__all__ = ["OpenAIChat"]

SHAPE = Shape(
    roles=("system", "developer", "user", "assistant", "tool", "function"),
    result="the message of the role 'tool' with its result",
    parts=(str, Mapping),  # vLLM takes a text as a part
    silent=("assistant", "function"),
    instead={"model": "What the model said has the role 'assistant'."},
)
_DEPLOYMENT = re.compile(r"^[^?#]*/deployments/([^/?#]+)/chat/completions/?(?=[?#]|$)")


class OpenAIChat(Format):
    """``POST .../chat/completions``."""

    name = "openai-chat"
    shape = SHAPE
    answer_field = "choices"

    def matches(self, method: str, url: str) -> bool:
        return method.upper() == "POST" and path_of(url).endswith("/chat/completions")

    # -- requests ----------------------------------------------------------------------

    def model(self, url: str, body: Any) -> str | None:
        deployment = _DEPLOYMENT.match(url)
        return unquote(deployment[1]) if deployment else super().model(url, body)

    def elsewhere(self, url: str) -> Mapping[str, str]:
        return {"model": "part of the URL"} if _DEPLOYMENT.match(url) else {}

    def with_model(self, url: str, body: Body, model: str) -> tuple[str, Any]:
        deployment = _DEPLOYMENT.match(url)
        if deployment:
            start, end = deployment.span(1)
            url = f"{url[:start]}{quote(model, safe='')}{url[end:]}"
        if not deployment or "model" in body:
            body["model"] = model
        return url, body

    def seed(self, url: str, body: Any) -> int | None:
        named = super().seed(url, body)
        mistral = member(body).get("random_seed")
        return mistral if named is None and type(mistral) is int else named

    def check_messages(self, given: Given, body: Body) -> None:
        del body
        given.check()
        check_turns(given, ([said] for said in given), _calls, _results)

    # -- answers -----------------------------------------------------------------------

    def read(self, body: Any) -> Reading | None:
        choices = objects(body, "choices")
        if not choices or body.get("error") or choices[0].get("finish_reason") == "error":
            return None
        message = member(choices[0], "message")
        said, calls = _text(message.get("content")), _tool_calls(message)
        if not (said.strip() or calls or choices[0].get("finish_reason")):
            return None
        return Reading(
            text=said,
            tool_calls=calls,
            finish_reason=text(choices[0].get("finish_reason")),
            model=text(body.get("model")),
            usage=self.usage(body),
            id=text(body.get("id")),
            system_fingerprint=text(body.get("system_fingerprint")),
        )

    def usage(self, body: Any) -> Usage:
        counts = member(body, "usage") or member(body, "x_groq", "usage")
        asked = count(counts, "prompt_tokens", "input_tokens")
        said = count(counts, "completion_tokens", "output_tokens")
        total = count(counts, "total_tokens")
        reasoning = count(member(counts, "completion_tokens_details"), "reasoning_tokens")
        if reasoning and total is not None and total == added(asked, said, reasoning):
            said = added(said, reasoning)  # xAI counts it beside what was said
        cached = count(member(counts, "prompt_tokens_details"), "cached_tokens")
        if cached is None:
            cached = count(counts, "prompt_cache_hit_tokens")  # as DeepSeek calls it
        written = count(member(counts, "prompt_tokens_details"), "cache_write_tokens")
        return Usage(asked, said, total, cached, reasoning, written)

    def joined(self, parts: Sequence[Body], done: bool) -> Body | None:
        return _openai_chat_stream.joined(parts) if done else None

    def split(self, body: Body, url: str, request: Any) -> str:
        asks = member(request, "stream_options").get("include_usage") is True
        named = {**self.scaffold(self.model(url, request) or ""), **body}
        if "usage" not in body and not asks:
            del named["usage"]
        return _openai_chat_stream.split(named, usage_apart=asks)

    def scaffold(self, model: str) -> Body:
        return {
            "id": "chatcmpl-override",
            "object": "chat.completion",
            "created": 0,
            "model": model,
            "choices": [],
            "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        }

    def with_text(self, body: Body, value: str) -> Body:
        choice, *others = body["choices"] or [{"index": 0}]
        message = member(choice, "message")
        kept = {k: v for k, v in message.items() if k not in _OF_OLD_TEXT}
        said: Any = value
        if thoughts := [part for part in objects(message, "content") if not is_text(part)]:
            said = [*thoughts, {"type": "text", "text": value}]
        choice["message"] = {"role": "assistant", **kept, "content": said}
        choice["finish_reason"] = "stop"
        choice.pop("logprobs", None)
        body["choices"] = [choice, *others]
        return body


_OF_OLD_TEXT = ("tool_calls", "function_call", "refusal", "annotations", "audio")


def _calls(given: Given, place: str, message: Message) -> Iterator[Mark]:
    made = message.get("tool_calls") or []
    if not isinstance(made, list):
        raise given.wrong(
            place, f"has {got(made)} as its 'tool_calls'. Give it a list of tool calls."
        )
    for n, call in enumerate(made):
        where = f"{place}.tool_calls[{n}]"
        given.check_speaker(where, CALL, message, ("assistant",))
        yield Mark(where, given.name_of(where, CALL, call, "id"))


def _results(given: Given, place: str, message: Message) -> Iterator[Mark]:
    if message["role"] == "tool":
        yield Mark(place, given.name_of(place, RESULT, message, "tool_call_id"))


def _text(content: Any) -> str:
    if isinstance(content, list):  # Mistral: thoughts and text apart
        return "".join(part["text"] for part in content if is_text(part))
    return content if isinstance(content, str) else ""


def _tool_calls(message: Body) -> tuple[ToolCall, ...]:
    found = []
    for call in objects(message, "tool_calls"):
        function, custom = member(call, "function"), member(call, "custom")
        asked = function.get("arguments") if function else custom.get("input")
        found.append(tool_call(call.get("id"), (function or custom).get("name"), asked))
    legacy = member(message, "function_call")
    found.append(tool_call(None, legacy.get("name"), legacy.get("arguments")))
    return tuple(call for call in found if call is not None)
