"""A local model server: one mind, spoken in the wire format of whichever provider is asked.

    def mind(asked):
        return "sour" if "lemon" in asked.prompt else "sweet"

    with ModelServer(mind) as server:
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="k").chat.completions.create(...)
        assert server.asked[-1].prompt == "Is a lemon sweet or sour?"

A mind is a function of what was `Asked`. It returns what the model says: a text, a `Wish` for
a tool, or a `wire_server.Reply` to be sent as it is. `other` answers what is no model call.

The formats are written here from the providers' documentation, apart from the package that
is tested. Each answer counts the same tokens, `USED`, in the terms of its provider.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import wire_server as ws

from rewind_nb._model import Usage

USED = Usage(input_tokens=120, output_tokens=30, cached_tokens=64, reasoning_tokens=12)
DATED = "-2026-01-01"  # providers answer with a dated name of the model


def told(usage):
    """What every provider tells of its tokens: not all say what they wrote to their cache."""
    return replace(usage, cache_write_tokens=None)


@dataclass(frozen=True)
class Asked:
    """A request for a model, in no provider's terms.

    Attributes:
        turns: (who, what): "system", "user", "model", "wish" (name and arguments of a tool,
            as JSON) or "result" (what a tool gave), in order.
    """

    format: str
    model: str
    temperature: float | None
    turns: tuple[tuple[str, str], ...]
    streams: bool
    seen: ws.Seen

    @property
    def prompt(self) -> str:
        """What the user said last."""
        return [text for who, text in self.turns if who == "user"][-1]

    @property
    def last(self) -> tuple[str, str]:
        return self.turns[-1]


@dataclass(frozen=True)
class Wish:
    """The model wants a tool to be called."""

    tool: str
    arguments: dict[str, Any]


Mind = Callable[[Asked], "str | Wish | ws.Reply"]


class ModelServer(ws.WireServer):
    """The server; a context manager. `asked` holds the model calls that arrived, in order."""

    def __init__(self, mind: Mind, other: ws.Behaviour | None = None) -> None:
        super().__init__(then=self._answer)
        self.mind = mind
        self.asked: list[Asked] = []
        self.other: ws.Behaviour = other or ws.status(404)

    def _answer(self, seen: ws.Seen) -> ws.Reply:
        asked = understood(seen)
        if asked is None:
            return self.other if isinstance(self.other, ws.Reply) else self.other(seen)
        self.asked.append(asked)
        said = self.mind(asked)
        return said if isinstance(said, ws.Reply) else spoken(asked, said)


def understood(seen: ws.Seen) -> Asked | None:
    """What a request asks a model; None where it asks none."""
    path = seen.path.partition("?")[0]
    for name, (pattern, understand, _) in FORMATS.items():
        if found := re.search(pattern, path):
            return understand(name, found, seen)
    return None


def spoken(asked: Asked, said: str | Wish) -> ws.Reply:
    """What the model says, as its provider sends it."""
    reply: ws.Reply = FORMATS[asked.format][2](asked, said)
    return reply


def words_of(text: str) -> list[str]:
    """A text in the pieces in which it is streamed."""
    return re.findall(r"\S+\s*", text)


def text_of(content: Any) -> str:
    """The text of a message, which may be in parts."""
    if isinstance(content, str) or content is None:
        return content or ""
    return "".join(part["text"] for part in content if isinstance(part.get("text"), str))


def wish_of(name: str, arguments: Any) -> str:
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    return json.dumps([name, arguments])


# -- OpenAI chat completions; Groq and Mistral speak it too ------------------------------------


def understand_chat(name: str, _: re.Match[str], seen: ws.Seen) -> Asked:
    body, turns = seen.json, []
    who = {"system": "system", "developer": "system", "user": "user", "assistant": "model"}
    for message in body["messages"]:
        role, text = message["role"], text_of(message.get("content"))
        if role == "tool":
            turns.append(("result", text))
        elif text or not message.get("tool_calls"):
            turns.append((who[role], text))
        calls = message.get("tool_calls") or []
        turns += [("wish", wish_of(**call["function"])) for call in calls]
    streams = bool(body.get("stream"))
    return Asked(name, body["model"], body.get("temperature"), tuple(turns), streams, seen)


CHAT_USAGE = {
    "prompt_tokens": 120,
    "completion_tokens": 30,
    "total_tokens": 150,
    "prompt_tokens_details": {"cached_tokens": 64},
    "completion_tokens_details": {"reasoning_tokens": 12},
}


def speak_chat(asked: Asked, said: str | Wish) -> ws.Reply:
    kind = "chat.completion.chunk" if asked.streams else "chat.completion"
    frame = {
        "id": "chatcmpl-1",
        "object": kind,
        "created": 1767225600,
        "model": asked.model + DATED,
        "system_fingerprint": "fp_1",
    }
    if isinstance(said, Wish):
        function = {"name": said.tool, "arguments": json.dumps(said.arguments)}
        call = {"id": "call_1", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        deltas = [{"role": "assistant", "tool_calls": [{"index": 0, **call}]}]
        reason = "tool_calls"
    else:
        message = {"role": "assistant", "content": said}
        deltas = [{"role": "assistant", "content": ""}, *({"content": w} for w in words_of(said))]
        reason = "stop"
    if not asked.streams:
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        return ws.json_reply({**frame, "choices": [choice], "usage": CHAT_USAGE})
    chunks = [
        {**frame, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in deltas
    ]
    chunks.append({**frame, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    if (asked.seen.json.get("stream_options") or {}).get("include_usage"):
        chunks.append({**frame, "choices": [], "usage": CHAT_USAGE})
    else:  # Groq and Mistral give it unasked, with the last chunk
        chunks[-1] |= {"x_groq": {"id": "req_1", "usage": CHAT_USAGE}, "usage": CHAT_USAGE}
    return ws.streamed(*map(ws.event, chunks), ws.event("[DONE]"))


# -- OpenAI responses --------------------------------------------------------------------------


def understand_responses(name: str, _: re.Match[str], seen: ws.Seen) -> Asked:
    body, turns = seen.json, []
    if body.get("instructions"):
        turns.append(("system", body["instructions"]))
    given = body["input"]
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        kind = item.get("type") or "message"
        if kind == "message":
            turns.append(("model" if item["role"] == "assistant" else item["role"],
                          text_of(item["content"])))  # fmt: skip
        elif kind == "function_call":
            turns.append(("wish", wish_of(item["name"], item["arguments"])))
        elif kind == "function_call_output":
            turns.append(("result", item["output"]))
    streams = bool(body.get("stream"))
    return Asked(name, body["model"], body.get("temperature"), tuple(turns), streams, seen)


def speak_responses(asked: Asked, said: str | Wish) -> ws.Reply:
    item: dict[str, Any]
    if isinstance(said, Wish):
        item = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": said.tool}
        item |= {"status": "completed", "arguments": json.dumps(said.arguments)}
    else:
        part = {"type": "output_text", "text": said, "annotations": [], "logprobs": []}
        item = {"id": "msg_1", "type": "message", "role": "assistant", "content": [part]}
        item |= {"status": "completed"}
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1767225600,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "model": asked.model + DATED,
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 120,
            "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 0},
            "output_tokens": 30,
            "output_tokens_details": {"reasoning_tokens": 12},
            "total_tokens": 150,
        },
    }
    if not asked.streams:
        return ws.json_reply(whole)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    at = {"output_index": 0, "item_id": item["id"]}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    if isinstance(said, Wish):
        empty = {**item, "arguments": "", "status": "in_progress"}
        arguments = "response.function_call_arguments"
        middle = [
            {"type": f"{arguments}.delta", "delta": item["arguments"], **at},
            {"type": f"{arguments}.done", "arguments": item["arguments"], **at},
        ]
    else:
        empty = {**item, "content": [], "status": "in_progress"}
        at |= {"content_index": 0}
        text, content = "response.output_text", "response.content_part"
        blank = {**part, "text": ""}
        middle = [
            {"type": f"{content}.added", "part": blank, **at},
            *({"type": f"{text}.delta", "delta": w, "logprobs": [], **at} for w in words_of(said)),
            {"type": f"{text}.done", "text": said, "logprobs": [], **at},
            {"type": f"{content}.done", "part": part, **at},
        ]
    events += [
        {"type": "response.output_item.added", "output_index": 0, "item": empty},
        *middle,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return ws.streamed(
        *(ws.event({**e, "sequence_number": n}, e["type"]) for n, e in enumerate(events))
    )


# -- Anthropic messages ------------------------------------------------------------------------


def understand_anthropic(name: str, _: re.Match[str], seen: ws.Seen) -> Asked:
    body, turns = seen.json, []
    if body.get("system"):
        turns.append(("system", text_of(body["system"])))
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "text":
                who = "model" if message["role"] == "assistant" else "user"
                turns.append((who, block["text"]))
            elif block["type"] == "tool_use":
                turns.append(("wish", wish_of(block["name"], block["input"])))
            elif block["type"] == "tool_result":
                turns.append(("result", text_of(block["content"])))
    streams = bool(body.get("stream"))
    return Asked(name, body["model"], body.get("temperature"), tuple(turns), streams, seen)


def speak_anthropic(asked: Asked, said: str | Wish) -> ws.Reply:
    block: dict[str, Any]
    if isinstance(said, Wish):
        block = {"type": "tool_use", "id": "toolu_1", "name": said.tool, "input": said.arguments}
        empty = {**block, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(said.arguments)}]
        reason = "tool_use"
    else:
        block, empty = {"type": "text", "text": said}, {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": word} for word in words_of(said)]
        reason = "end_turn"
    asked_for = {
        "input_tokens": 46,
        "cache_read_input_tokens": 64,
        "cache_creation_input_tokens": 10,
    }
    answered = {"output_tokens": 30, "output_tokens_details": {"thinking_tokens": 12}}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": asked.model + DATED,
        "content": [block],
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {**asked_for, **answered},
    }
    if not asked.streams:
        return ws.json_reply(message)
    begun = {**message, "content": [], "stop_reason": None}
    begun["usage"] = {**asked_for, "output_tokens": 1}
    events = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": answered,
        },
        {"type": "message_stop"},
    ]
    return ws.streamed(*(ws.event(e, str(e["type"])) for e in events))


# -- Google generate-content -------------------------------------------------------------------


def understand_google(name: str, found: re.Match[str], seen: ws.Seen) -> Asked:
    body, turns = seen.json, []
    if "systemInstruction" in body:
        turns.append(("system", text_of(body["systemInstruction"]["parts"])))
    for content in body["contents"]:
        for part in content["parts"]:
            if "functionCall" in part:
                call = part["functionCall"]
                turns.append(("wish", wish_of(call["name"], call["args"])))
            elif "functionResponse" in part:
                turns.append(("result", part["functionResponse"]["response"]["result"]))
            else:
                turns.append((content.get("role", "user"), part["text"]))
    settings = body.get("generationConfig", {})
    streams = found["method"] == "streamGenerateContent"
    temperature = settings.get("temperature")
    return Asked(name, found["model"], temperature, tuple(turns), streams, seen)


def speak_google(asked: Asked, said: str | Wish) -> ws.Reply:
    def part_of(parts: list[dict[str, Any]], finish: str | None = None) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        return {
            "candidates": [candidate],
            "usageMetadata": {
                "promptTokenCount": 120,
                "cachedContentTokenCount": 64,
                "candidatesTokenCount": 18,
                "thoughtsTokenCount": 12,
                "totalTokenCount": 150,
            },
            "modelVersion": asked.model + DATED,
            "responseId": "g-1",
        }

    wish = isinstance(said, Wish)
    parts = (
        [{"functionCall": {"name": said.tool, "args": said.arguments}}]
        if isinstance(said, Wish)
        else [{"text": said}]
    )
    if not asked.streams:
        return ws.json_reply(part_of(parts, "STOP"))
    pieces = parts if wish else [{"text": word} for word in words_of(str(said))]
    chunks = [part_of([piece]) for piece in pieces[:-1]] + [part_of(pieces[-1:], "STOP")]
    return ws.streamed(*(ws.event(chunk) for chunk in chunks))


FORMATS: dict[str, tuple[str, Any, Any]] = {
    "openai-chat": (r"/chat/completions$", understand_chat, speak_chat),
    "openai-responses": (r"/responses$", understand_responses, speak_responses),
    "anthropic-messages": (r"/v1/messages$", understand_anthropic, speak_anthropic),
    "google-generate-content": (
        r"/models/(?P<model>[^:/]+):(?P<method>generateContent|streamGenerateContent)$",
        understand_google,
        speak_google,
    ),
}
