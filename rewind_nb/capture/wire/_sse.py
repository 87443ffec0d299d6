"""Server-sent events, by the rules of the HTML standard (section 9.2.6).

One deviation: the last event counts without the blank line that should end it, since some
servers leave it out. A payload that was cut off is no JSON, so nothing is taken for whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from rewind_nb.capture.wire._json import strict_json

__all__ = ["DONE", "Event", "encode", "events", "payloads"]

DONE = "[DONE]"
_LINE_END = re.compile(r"\r\n|\r|\n")  # and no others: U+2028 may stand in a payload


class Event(NamedTuple):
    """One event: its type (``message`` unless the stream says otherwise) and its data."""

    name: str
    data: str


def events(text: str) -> Iterator[Event]:
    r"""The events of a stream, in order.

    Example:
        >>> list(events('event: ping\ndata: 1\ndata: 2\n\n: a comment\n\ndata: 3\n\n'))
        [Event(name='ping', data='1\n2'), Event(name='message', data='3')]
    """
    name = ""
    data: list[str] = []
    for line in [*_LINE_END.split(text.removeprefix("\ufeff")), ""]:
        if not line:
            if data:
                yield Event(name or "message", "\n".join(data))
            name, data = "", []
            continue
        field, _, value = line.partition(":")  # a comment is a field without a name
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value


def payloads(text: str) -> tuple[list[dict[str, Any]], bool]:
    r"""The JSON objects of a stream, and whether it said that it is done (``[DONE]``).

    Raises:
        ValueError: a payload is no JSON object, or it reports an error.

    Example:
        >>> payloads('data: {"a": 1}\n\ndata: [DONE]\n\n')
        ([{'a': 1}], True)
    """
    found: list[dict[str, Any]] = []
    for event in events(text):
        if event.data.startswith(DONE):
            return found, True
        if not event.data.strip():  # a sign of life
            continue
        payload = strict_json(event.data)
        whole = isinstance(payload, dict) and event.name != "error"
        if not whole or payload.get("type") == "error" or payload.get("error"):
            raise ValueError("it is not an object, or it reports an error")
        found.append(payload)
    return found, False


def encode(payload: Any, name: str | None = None) -> str:
    r"""One event as text: pure ASCII, so that no reader finds a line end inside it.

    Example:
        >>> encode({"say": "h\u00e9"}, "ping")
        'event: ping\ndata: {"say": "h\\u00e9"}\n\n'
    """
    event = "" if name is None else f"event: {name}\n"
    data = payload if isinstance(payload, str) else json.dumps(payload)
    return f"{event}data: {data}\n\n"
