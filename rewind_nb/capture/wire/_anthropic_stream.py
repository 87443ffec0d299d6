"""Events of a message: joined into the message, and made from one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from rewind_nb.capture.wire._json import member, objects, strict_json
from rewind_nb.capture.wire._sse import encode

__all__ = ["joined", "split"]

Body = dict[str, Any]

_GROWS = {  # delta type -> the field of the block that it makes longer
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}


# -- joined ----------------------------------------------------------------------------


def joined(events: Sequence[Body]) -> Body | None:
    """The message; None where it has no beginning or no end.

    Example:
        >>> begin = {"type": "message_start", "message": {"id": "msg_1", "content": []}}
        >>> joined([begin, {"type": "message_stop"}])
        {'id': 'msg_1', 'content': []}
        >>> joined([begin]) is None
        True
    """
    message: Body | None = None
    blocks: dict[Any, Body] = {}
    for event in events:
        kind = event.get("type")
        if kind == "message_start":
            message = _begun(member(event, "message"))
        elif kind == "content_block_start":
            blocks[event.get("index")] = dict(member(event, "content_block"))
        elif kind == "content_block_delta":
            _grow(blocks.get(event.get("index"), {}), member(event, "delta"))
        elif kind == "message_delta" and message is not None:
            message.update(member(event, "delta"))
            message["usage"] = member(message, "usage") | _known(member(event, "usage"))
        elif kind == "message_stop" and message is not None:
            content = [_finished(block) for block in blocks.values()]
            return {**message, "content": content}
    return None


def _begun(message: Body) -> Body:
    """Without the output tokens: at the beginning they are those of the beginning."""
    usage = {k: v for k, v in member(message, "usage").items() if k != "output_tokens"}
    return {**message, "usage": usage} if "usage" in message else dict(message)


def _known(counts: Body) -> Body:
    return {name: value for name, value in counts.items() if value is not None}


def _grow(block: Body, delta: Body) -> None:
    if delta.get("type") == "citations_delta":
        block["citations"] = [*(block.get("citations") or []), delta.get("citation")]
        return
    field = _GROWS.get(delta.get("type", ""), "")
    more = delta.get(field)
    if isinstance(more, str):
        block[field] = str(block.get(field) or "") + more


def _finished(block: Body) -> Body:
    """The block with its input, which came as pieces of JSON; what is no JSON stays text."""
    if "partial_json" not in block:
        return block
    given = block["partial_json"]
    try:
        arguments = strict_json(given) if given else block.get("input", {})
    except ValueError:
        arguments = given
    finished = {name: value for name, value in block.items() if name != "partial_json"}
    return {**finished, "input": arguments}


# -- split -----------------------------------------------------------------------------


def split(body: Body) -> str:
    """The text of a stream that amounts to *body*, a message with all its fields."""
    return "".join(encode(event, event["type"]) for event in _events(body))


def _events(body: Body) -> Iterator[Body]:
    usage = member(body, "usage")
    unfinished: Body = {"content": [], "stop_reason": None, "stop_sequence": None}
    begun = {**body, **unfinished, "usage": {**usage, "output_tokens": 0}}
    yield {"type": "message_start", "message": begun}
    for index, block in enumerate(objects(body, "content")):
        empty, deltas = _pieces(block)
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    end = {name: body.get(name) for name in ("stop_reason", "stop_sequence")}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": 0} | usage}
    yield {"type": "message_stop"}


def _pieces(block: Body) -> tuple[Body, list[Body]]:
    """The block as it starts, and the deltas that make the rest of it."""
    kind = block.get("type")
    if kind in ("tool_use", "server_tool_use"):
        given = block.get("input")
        source = given if isinstance(given, str) else json.dumps(given)
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": source}]
    if kind not in ("text", "thinking"):
        return block, []
    empty, deltas = dict(block), []
    for name, field in _GROWS.items():
        if isinstance(block.get(field), str) and field != "partial_json":
            empty[field] = ""
            deltas.append({"type": name, field: block[field]})
    return empty, deltas
