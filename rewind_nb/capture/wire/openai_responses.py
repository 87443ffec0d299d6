"""OpenAI responses: items in, items out; and the servers that speak the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rewind_nb._model import Usage
from rewind_nb.capture.wire import _openai_responses_stream
from rewind_nb.capture.wire._format import Body, Format
from rewind_nb.capture.wire._json import count, is_text, member, objects, text, tool_call
from rewind_nb.capture.wire._messages import Given, Shape
from rewind_nb.capture.wire._pairs import CALL, RESULT, Mark, Pairs
from rewind_nb.capture.wire._request import path_of
from rewind_nb.capture.wire._wire import Reading, ToolCall

__all__ = ["OpenAIResponses"]

SHAPE = Shape(
    roles=("system", "developer", "user", "assistant"),
    result="the item of its output, with the same 'call_id'",
    note=" What is no message has a 'type', such as 'function_call_output'.",
    instead={
        "tool": "The result of a tool is an item of the type 'function_call_output'.",
        "model": "What the model said has the role 'assistant'.",
    },
)
PAIRED = ("function_call", "custom_tool_call", "computer_call")
RESULTS = tuple(f"{call}_output" for call in PAIRED)
CALLS = (*PAIRED, "local_shell_call", "shell_call", "apply_patch_call")  # for the caller
FINISHED = (None, "completed", "incomplete")


class OpenAIResponses(Format):
    """``POST .../responses``."""

    name = "openai-responses"
    shape = SHAPE
    messages_field = "input"
    answer_field = "output"
    required = ("model", "input")
    text_type = "input_text"

    def matches(self, method: str, url: str) -> bool:
        return method.upper() == "POST" and path_of(url).endswith("/responses")

    # -- requests ----------------------------------------------------------------------

    def messages(self, body: Body) -> list[Any]:
        given = body.get("input")
        if isinstance(given, str):  # short for one message of the user
            return [{"role": "user", "content": given}]
        return super().messages(body)

    def set_prompt(self, body: Body, value: str) -> None:
        if isinstance(body.get("input"), str):
            body["input"] = value
        else:
            super().set_prompt(body, value)

    def check_messages_field(self, messages: Any, body: Body) -> None:
        if not text(messages):
            super().check_messages_field(messages, body)

    def check_messages(self, given: Given, body: Body) -> None:
        pairs = Pairs(given)
        known_elsewhere = _continues(given, body)
        late = set()  # asynchronous calls: their results may come at any time
        for place, item in given:
            kind = item.get("type") or "message"
            if kind == "message":
                given.check_message(place, item)
            elif kind in PAIRED:
                call = Mark(place, given.name_of(place, CALL, item, "call_id"))
                if item.get("async"):
                    late.add(call.id)
                else:
                    pairs.call(call)
            elif kind in RESULTS:
                result = Mark(place, given.name_of(place, RESULT, item, "call_id"))
                if pairs.waiting(result) or not (known_elsewhere or result.id in late):
                    pairs.result(result)
        pairs.close(given.place(len(given.messages)))

    # -- answers -----------------------------------------------------------------------

    def read(self, body: Any) -> Reading | None:
        broken = member(body, "error") or member(body).get("status") not in FINISHED
        calls = _tool_calls(body)
        cut = text(member(body, "incomplete_details").get("reason"))
        if broken or not (_messages(body) or calls or cut):
            return None
        return Reading(
            text="".join(part["text"] for part in _text_parts(body)),
            tool_calls=calls,
            finish_reason=cut or text(body.get("status")),
            model=text(body.get("model")),
            usage=self.usage(body),
            id=text(body.get("id")),
            system_fingerprint=text(body.get("system_fingerprint")),
        )

    def usage(self, body: Any) -> Usage:
        counts = member(body, "usage")
        return Usage(
            input_tokens=count(counts, "input_tokens"),
            output_tokens=count(counts, "output_tokens"),
            total_tokens=count(counts, "total_tokens"),
            cached_tokens=count(member(counts, "input_tokens_details"), "cached_tokens"),
            cache_write_tokens=count(member(counts, "input_tokens_details"), "cache_write_tokens"),
            reasoning_tokens=count(member(counts, "output_tokens_details"), "reasoning_tokens"),
        )

    def joined(self, parts: Sequence[Body], done: bool) -> Body | None:
        del done  # it has an event of its own
        return _openai_responses_stream.joined(parts)

    def split(self, body: Body, url: str, request: Any) -> str:
        scaffold = self.scaffold(self.model(url, request) or "")
        return _openai_responses_stream.split({**scaffold, **body})

    def scaffold(self, model: str) -> Body:
        return {
            "id": "resp_override",
            "object": "response",
            "created_at": 0,
            "status": "completed",
            "error": None,
            "incomplete_details": None,
            "model": model,
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "usage": {
                "input_tokens": 0,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 0,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 0,
            },
        }

    def with_text(self, body: Body, value: str) -> Body:
        said = {"id": "msg_override", "type": "message", "role": "assistant"}
        output: list[Any] = []
        for item in objects(body, "output"):
            if item.get("type") == "message":
                said = item
            elif item.get("type") not in CALLS:
                output.append(item)
        part = {"type": "output_text", "text": value, "annotations": []}
        output.append({**said, "status": "completed", "content": [part]})
        finished = {"status": "completed", "error": None, "incomplete_details": None}
        return {**body, **finished, "output": output}


def _continues(given: Given, body: Mapping[str, Any]) -> bool:
    """Whether items that are not in the list come before it: their calls are not known here."""
    elsewhere = body.get("previous_response_id") or body.get("conversation")
    return bool(elsewhere) or any(item.get("type") == "item_reference" for _, item in given)


def _messages(body: Any) -> list[Body]:
    return [item for item in objects(body, "output") if item.get("type") == "message"]


def _text_parts(body: Any) -> list[Body]:
    parts = [part for message in _messages(body) for part in objects(message, "content")]
    return [part for part in parts if is_text(part, "output_text")]


def _tool_calls(body: Any) -> tuple[ToolCall, ...]:
    items = [item for item in objects(body, "output") if item.get("type") in CALLS]
    found = [
        tool_call(item.get("call_id"), item.get("name") or item["type"], _arguments(item))
        for item in items
    ]
    return tuple(call for call in found if call is not None)


def _arguments(item: Body) -> Any:
    named = (name for name in ("arguments", "input", "action", "operation") if name in item)
    return item.get(next(named, ""))
