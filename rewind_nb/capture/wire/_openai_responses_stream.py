"""Events of a response: joined into the response, and made from one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rewind_nb.capture.wire._json import member, objects
from rewind_nb.capture.wire._sse import encode

__all__ = ["joined", "split"]

Body = dict[str, Any]

_LAST = ("response.completed", "response.incomplete")


def joined(events: Sequence[Body]) -> Body | None:
    """The response: the last event carries it whole.

    Some servers leave its output out there; then it is made of the items that were done.

    Example:
        >>> joined([{"type": "response.completed", "response": {"id": "r", "output": []}}])
        {'id': 'r', 'output': []}
        >>> joined([{"type": "response.created", "response": {"id": "r"}}]) is None
        True
    """
    done: dict[int, Body] = {}
    for event in events:
        if event.get("type") == "response.output_item.done":
            done[event.get("output_index", len(done))] = member(event, "item")
        elif event.get("type") in _LAST:
            response = member(event, "response")
            if isinstance(response.get("output"), list):
                return response
            return {**response, "output": [done[index] for index in sorted(done)]}
    return None


def split(body: Body) -> str:
    """The text of a stream that amounts to *body*, a response."""
    items = [
        {"id": f"item_{index}", **item, "status": item.get("status") or "completed"}
        if item.get("type") in ("message", "function_call", "custom_tool_call")
        else item
        for index, item in enumerate(objects(body, "output"))
    ]
    events = _events({**body, "output": items}, items)
    numbered = ({**event, "sequence_number": number} for number, event in enumerate(events))
    return "".join(encode(event, event["type"]) for event in numbered)


def _events(body: Body, items: list[Body]) -> Iterator[Body]:
    begun = {**body, "output": [], "status": "in_progress", "usage": None}
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(items):
        yield from _item(item, {"output_index": index})
    cut = body.get("status") == "incomplete"
    yield {"type": _LAST[1] if cut else _LAST[0], "response": body}


def _item(item: Body, place: Body) -> Iterator[Body]:
    empty = {**item, **{k: v for k, v in _EMPTY.get(item.get("type", ""), {}).items() if k in item}}
    yield {"type": "response.output_item.added", **place, "item": empty}
    inner = {**place, "item_id": item.get("id")}
    if item.get("type") == "message":
        for index, part in enumerate(objects(item, "content")):
            yield from _part(part, {**inner, "content_index": index})
    elif item.get("type") == "function_call":
        arguments = item.get("arguments", "")
        event = "response.function_call_arguments"
        yield {"type": f"{event}.delta", **inner, "delta": arguments}
        yield {"type": f"{event}.done", **inner, "arguments": arguments, "name": item.get("name")}
    yield {"type": "response.output_item.done", **place, "item": item}


_EMPTY: dict[str, Body] = {
    "message": {"content": [], "status": "in_progress"},
    "function_call": {"arguments": "", "status": "in_progress"},
}


def _part(part: Body, place: Body) -> Iterator[Body]:
    kind, field = _PARTS.get(part.get("type", ""), (None, ""))
    empty = part if kind is None else {**part, field: ""}
    yield {"type": "response.content_part.added", **place, "part": empty}
    if kind is not None:
        logprobs: Body = {"logprobs": []} if field == "text" else {}
        said = part.get(field, "")
        yield {"type": f"response.{kind}.delta", **place, "delta": said, **logprobs}
        yield {"type": f"response.{kind}.done", **place, field: said, **logprobs}
    yield {"type": "response.content_part.done", **place, "part": part}


_PARTS = {"output_text": ("output_text", "text"), "refusal": ("refusal", "refusal")}
