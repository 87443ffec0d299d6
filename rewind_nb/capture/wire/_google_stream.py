"""Chunks of a generated content: joined into one response, and made from one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from rewind_nb.capture.wire._json import member, objects
from rewind_nb.capture.wire._sse import encode

__all__ = ["joined", "split"]

Body = dict[str, Any]


def joined(chunks: Sequence[Body]) -> Body | None:
    """The response; None where a candidate is not finished, or there is none.

    The format has no other end: a stream that was broken off behind a finished candidate
    cannot be told from a whole one.

    Example:
        >>> first = {"candidates": [{"content": {"parts": [{"text": "a"}]}}]}
        >>> last = {"candidates": [{"content": {"parts": [{"text": "b"}]}, "finishReason": "STOP"}]}
        >>> joined([first, last])["candidates"][0]["content"]["parts"]
        [{'text': 'ab'}]
        >>> joined([first]) is None
        True
    """
    body: Body = {}
    candidates: dict[int, Body] = {}
    for chunk in chunks:
        usage = member(body, "usageMetadata") | member(chunk, "usageMetadata")
        body |= chunk | ({"usageMetadata": usage} if usage else {})
        for part in objects(chunk, "candidates"):
            index = part["index"] if isinstance(part.get("index"), int) else 0
            candidates[index] = _longer(candidates.get(index, {}), part)
    if not candidates or any(not c.get("finishReason") for c in candidates.values()):
        return None
    return {**body, "candidates": [candidates[index] for index in sorted(candidates)]}


def _longer(before: Body, more: Body) -> Body:
    content = member(before, "content") | member(more, "content")
    said = [
        *objects(member(before, "content"), "parts"),
        *objects(member(more, "content"), "parts"),
    ]
    return before | more | {"content": {**content, "parts": _merged(said)}}


def _merged(parts: list[Body]) -> list[Body]:
    """Neighbouring texts of one kind are one text; a part with more than a text stays."""
    merged: list[Body] = []
    for part in parts:
        last = merged[-1] if merged else {}
        if _plain(part) and _plain(last) and part.get("thought") == last.get("thought"):
            merged[-1] = {**last, "text": last["text"] + part["text"]}
        else:
            merged.append(part)
    return merged


def _plain(part: Body) -> bool:
    return isinstance(part.get("text"), str) and set(part) <= {"text", "thought"}


def split(body: Body, *, sse: bool) -> str:
    """The text of a stream of one chunk, *body* itself.

    Args:
        body: a response with a candidate.
        sse: as an event; else as a JSON array.
    """
    finished = [{"finishReason": "STOP", **c} for c in objects(body, "candidates")]
    chunk = {**body, "candidates": finished}
    return encode(chunk) if sse else json.dumps([chunk])
