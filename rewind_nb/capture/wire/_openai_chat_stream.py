"""Chunks of a chat completion: joined into the completion, and made from one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rewind_nb.capture.wire._json import is_text, member, objects, text
from rewind_nb.capture.wire._sse import DONE, encode

__all__ = ["joined", "split"]

Body = dict[str, Any]

_PER_CHUNK = ("id", "created", "model", "system_fingerprint", "service_tier", "provider")
_NOT_KEPT = ("choices", "object", "obfuscation")
_SET_ONCE = ("role", "id", "name", "type")


# -- joined ----------------------------------------------------------------------------


def joined(chunks: Sequence[Body]) -> Body | None:
    """The completion; None where a choice has no end, or there is none.

    Example:
        >>> hello = {"choices": [{"index": 0, "delta": {"content": "hi"}}]}
        >>> end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        >>> joined([hello, end])["choices"][0]["message"]
        {'role': 'assistant', 'content': 'hi'}
        >>> joined([hello]) is None
        True
    """
    body: Body = {"object": "chat.completion"}
    choices: dict[int, Body] = {}
    for chunk in chunks:
        if member(chunk, "x_groq").get("error"):
            return None
        kept = {k: v for k, v in chunk.items() if k not in _NOT_KEPT and v not in (None, "")}
        body.update(kept)
        for part in objects(chunk, "choices"):
            index = part["index"] if isinstance(part.get("index"), int) else 0
            _add_choice(choices.setdefault(index, _empty_choice(index)), part)
    if not choices or any(choice["finish_reason"] is None for choice in choices.values()):
        return None
    for choice in choices.values():
        for call in objects(choice["message"], "tool_calls"):
            call.pop("index", None)  # only deltas have one
    body["choices"] = [choices[index] for index in sorted(choices)]
    return body


def _empty_choice(index: int) -> Body:
    message = {"role": "assistant", "content": None}
    return {"index": index, "message": message, "finish_reason": None}


def _add_choice(choice: Body, part: Body) -> None:
    _add(choice["message"], member(part, "delta"))
    choice["finish_reason"] = part.get("finish_reason") or choice["finish_reason"]
    if member(part, "logprobs"):
        _add(choice.setdefault("logprobs", {}), part["logprobs"])


def _add(whole: Body, delta: Body) -> None:
    """Texts and lists grow; what comes once is set once."""
    for name, value in delta.items():
        before = whole.get(name)
        if value is None:
            continue
        if name == "tool_calls":
            whole[name] = _with_calls(before or [], objects(delta, name))
        elif name in _SET_ONCE:
            whole[name] = before or value
        elif isinstance(value, dict):
            whole[name] = dict(before or {})
            _add(whole[name], value)
        elif isinstance(value, str | list) and before:
            whole[name] = _longer(before, value)
        else:
            whole[name] = value


def _longer(before: Any, more: Any) -> Any:
    """Mistral's content turns from a list of thoughts into a text."""
    if isinstance(before, list) != isinstance(more, list):
        before, more = _as_list(before), _as_list(more)
    return before + more


def _as_list(content: Any) -> list[Any]:
    return content if isinstance(content, list) else [{"type": "text", "text": str(content)}]


def _with_calls(calls: list[Body], deltas: list[Body]) -> list[Body]:
    for delta in deltas:
        call = _call_of(calls, delta)
        if call is None:
            call = {"index": delta.get("index")}
            calls = [*calls, call]
        _add(call, {k: v for k, v in delta.items() if k != "index"})
    return calls


def _call_of(calls: list[Body], delta: Body) -> Body | None:
    """The call that a delta goes on with: by index; some servers give all calls the same."""
    for call in reversed(calls):
        if call.get("index") == delta.get("index"):
            ids = text(call.get("id")), text(delta.get("id"))
            return call if None in ids or ids[0] == ids[1] else None
    return None


# -- split -----------------------------------------------------------------------------


def split(body: Body, *, usage_apart: bool) -> str:
    """The text of a stream that amounts to *body*.

    Args:
        body: a chat completion.
        usage_apart: send the usage in a last chunk without choices, as ``include_usage``
            asks for; callers who did not ask trip over such a chunk.
    """
    return "".join(encode(chunk) for chunk in _chunks(body, usage_apart)) + encode(DONE)


def _chunks(body: Body, usage_apart: bool) -> Iterator[Body]:
    head = {k: body[k] for k in _PER_CHUNK if k in body} | {"object": "chat.completion.chunk"}
    choices = objects(body, "choices")
    for number, choice in enumerate(choices):
        yield from (head | {"choices": [said]} for said in _said(choice, number))
    usage = {"usage": body["usage"]} if "usage" in body else {}
    rest = {k: v for k, v in body.items() if k not in head and k not in ("choices", "usage")}
    last = rest if usage_apart else rest | usage
    for number, choice in enumerate(choices):
        ends = head | {"choices": [_end(choice, number)]}
        yield ends | last if number == len(choices) - 1 else ends
    if usage_apart:
        yield head | {"choices": []} | usage


def _said(choice: Body, number: int) -> Iterator[Body]:
    message = member(choice, "message")
    first, *more = _contents(message.get("content"))
    delta = {"role": "assistant", **message, "content": first}
    if message.get("tool_calls"):
        calls = objects(message, "tool_calls")
        delta["tool_calls"] = [{"index": i, **call} for i, call in enumerate(calls)]
    place = {"index": choice.get("index", number), "finish_reason": None}
    logprobs = {"logprobs": choice["logprobs"]} if "logprobs" in choice else {}
    yield place | {"delta": delta} | logprobs
    yield from (place | {"delta": {"content": content}} for content in more)


def _contents(content: Any) -> list[Any]:
    """As Mistral sends a content of several parts: thoughts in lists, text as text."""
    if not isinstance(content, list):
        return [content]
    return [part["text"] if is_text(part) else [part] for part in content] or [None]


def _end(choice: Body, number: int) -> Body:
    usual = "tool_calls" if member(choice, "message").get("tool_calls") else "stop"
    reason = choice.get("finish_reason") or usual
    return {"index": choice.get("index", number), "delta": {}, "finish_reason": reason}
