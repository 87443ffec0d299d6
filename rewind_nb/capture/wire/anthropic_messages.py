"""Anthropic messages: texts, thoughts, tools and their results are blocks of a message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rewind_nb._model import Usage
from rewind_nb.capture.wire import _anthropic_stream
from rewind_nb.capture.wire._format import Body, Format
from rewind_nb.capture.wire._json import added, count, is_text, member, objects, text, tool_call
from rewind_nb.capture.wire._messages import Given, Message, Shape
from rewind_nb.capture.wire._pairs import CALL, RESULT, Mark, check_turns, turns
from rewind_nb.capture.wire._request import path_of
from rewind_nb.capture.wire._wire import Reading

__all__ = ["AnthropicMessages"]

_TOOL = "The result of a tool is a part of the type 'tool_result' in a message of the role 'user'."
SHAPE = Shape(
    roles=("user", "assistant", "system"),
    result="its 'tool_result' to the message after it",
    instead={
        "tool": _TOOL,
        "function": _TOOL,
        "developer": "Such text goes into the request's 'system'.",
        "model": "What the model said has the role 'assistant'.",
    },
)


class AnthropicMessages(Format):
    """``POST .../v1/messages``.

    The whole end of the path counts: other interfaces have messages too, such as OpenAI's
    ``/v1/threads/{id}/messages``.
    """

    name = "anthropic-messages"
    shape = SHAPE
    answer_field = "content"
    required = ("model", "messages", "max_tokens")

    def matches(self, method: str, url: str) -> bool:
        return method.upper() == "POST" and path_of(url).endswith("/v1/messages")

    # -- requests ----------------------------------------------------------------------

    def is_prompt(self, message: Body) -> bool:
        blocks = message.get("content")
        if isinstance(blocks, list) and blocks and all(map(_is_result, blocks)):
            return False
        return super().is_prompt(message)

    def check_messages(self, given: Given, body: Body) -> None:
        del body
        given.check()
        check_turns(given, turns(given), _calls, _results)
        _check_order(given)

    # -- answers -----------------------------------------------------------------------

    def read(self, body: Any) -> Reading | None:
        blocks = objects(body, "content")
        said = "".join(block["text"] for block in blocks if is_text(block))
        asked = (
            tool_call(block.get("id"), block.get("name"), block.get("input"))
            for block in blocks
            if block.get("type") == "tool_use"
        )
        calls = tuple(call for call in asked if call is not None)
        finished = member(body).get("stop_reason")
        if member(body, "error") or not (said.strip() or calls or finished):
            return None
        return Reading(
            text=said,
            tool_calls=calls,
            finish_reason=text(body.get("stop_reason")),
            model=text(body.get("model")),
            usage=self.usage(body),
            id=text(body.get("id")),
        )

    def usage(self, body: Any) -> Usage:
        counts = member(body, "usage")
        cached = count(counts, "cache_read_input_tokens")
        written = count(counts, "cache_creation_input_tokens")
        for_an_hour = count(member(counts, "cache_creation"), "ephemeral_1h_input_tokens")
        return Usage(
            # what was read from the cache or written to it is not among the input tokens
            input_tokens=added(count(counts, "input_tokens"), cached, written),
            output_tokens=count(counts, "output_tokens"),
            cached_tokens=cached,
            reasoning_tokens=count(member(counts, "output_tokens_details"), "thinking_tokens"),
            # what is kept for an hour has another price, and one number cannot tell both
            cache_write_tokens=None if for_an_hour else written,
        )

    def joined(self, parts: Sequence[Body], done: bool) -> Body | None:
        del done  # it has an event of its own
        return _anthropic_stream.joined(parts)

    def split(self, body: Body, url: str, request: Any) -> str:
        scaffold = self.scaffold(self.model(url, request) or "")
        return _anthropic_stream.split({**scaffold, **body})

    def scaffold(self, model: str) -> Body:
        return {
            "id": "msg_override",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        }

    def with_text(self, body: Body, value: str) -> Body:
        kept: list[Any] = []
        at = None
        for block in objects(body, "content"):
            if block.get("type") == "text":
                at = len(kept) if at is None else at
            elif block.get("type") != "tool_use":
                kept.append(block)
        kept.insert(len(kept) if at is None else at, {"type": "text", "text": value})
        finished = {"stop_reason": "end_turn", "stop_sequence": None}
        return {**body, **finished, "content": kept}


def _is_result(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "tool_result"


def _calls(given: Given, place: str, message: Message) -> Iterator[Mark]:
    for where, block in given.parts(place, message):
        if isinstance(block, Mapping) and block.get("type") == "tool_use":
            given.check_speaker(where, CALL, message, ("assistant",))
            yield Mark(where, given.name_of(where, CALL, block, "id"))


def _results(given: Given, place: str, message: Message) -> Iterator[Mark]:
    for where, block in given.parts(place, message):
        if _is_result(block):
            given.check_speaker(where, RESULT, message, ("user",))
            yield Mark(where, given.name_of(where, RESULT, block, "tool_use_id"))


def _check_order(given: Given) -> None:
    """Refuse a result that stands behind something else that the user says in the same turn."""
    for turn in turns(given):
        other = None
        for said in turn:
            for where, block in given.parts(*said):
                if not _is_result(block):
                    other = where
                elif other:
                    raise given.wrong(
                        where,
                        f"is the result of tool call {block['tool_use_id']!r}, behind other "
                        f"content ({other}). Tool results come first in what a user says: move "
                        "it to the front.",
                    )
