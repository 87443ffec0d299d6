"""The request side of the formats: a JSON object with parts to show and to replace.

`Requests` does what is the same in all of them; a format says where it differs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rewind_nb.capture.wire._json import copied, is_text, same, text
from rewind_nb.capture.wire._messages import Shape
from rewind_nb.errors import OverrideError

__all__ = ["Requests", "path_of"]


def path_of(url: str) -> str:
    """The path of a URL, without a slash at its end.

    Example:
        >>> path_of("http://127.0.0.1:8000/v1/chat/completions?api-version=1#stream")
        'http://127.0.0.1:8000/v1/chat/completions'
    """
    return re.split("[?#]", url, maxsplit=1)[0].rstrip("/")


class Requests:
    """What requests of all formats have in common; see `Wire` for what the methods do."""

    messages_field = "messages"  # of the request
    shape: Shape  # of a message
    text_type = "text"  # of a text part of a message

    # -- requests ----------------------------------------------------------------------

    def model(self, url: str, body: Any) -> str | None:
        del url
        return text(body.get("model")) if isinstance(body, dict) else None

    def temperature(self, url: str, body: Any) -> float | None:
        del url
        value = self.settings(body).get("temperature")
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def seed(self, url: str, body: Any) -> int | None:
        del url
        value = self.settings(body).get("seed")
        return value if type(value) is int else None

    def wants_stream(self, url: str, body: Any) -> bool:
        del url
        return isinstance(body, dict) and body.get("stream") is True

    def media_type(self, url: str, body: Any) -> str:
        return "text/event-stream" if self.wants_stream(url, body) else "application/json"

    def part(self, kind: str, url: str, body: Any) -> Any:
        request = self._object(kind, body)
        if kind == "prompt":
            return self.prompt(self._last_user(request))
        if kind == "model":
            return self.model(url, request)
        if kind == "temperature":
            return self.settings(request).get("temperature")
        return copied(self.messages(request) if kind == "messages" else request)

    def changed(self, kind: str, value: Any, url: str, body: Any) -> tuple[str, Any]:
        request = copied(self._object(kind, body))
        if kind == "params":
            return url, _merged(request, value)
        if self._equals_recorded(kind, value, self.part(kind, url, request)):
            return url, request
        value = copied(value)
        if kind == "prompt":
            self.set_prompt(request, value)
        elif kind == "messages":
            request[self.messages_field] = value
        elif kind == "model":
            return self.with_model(url, request, value)
        else:
            self.own_settings(request)["temperature"] = value
        return url, request

    @staticmethod
    def _equals_recorded(kind: str, value: Any, recorded: Any) -> bool:
        if kind == "temperature" and recorded is not None:
            return bool(recorded == value)  # 0 and 0.0 are one
        return same(recorded, value)

    def _object(self, kind: str, body: Any) -> dict[str, Any]:
        if isinstance(body, dict):
            return body
        raise OverrideError(
            f"The body of this request is not a JSON object, so {kind}= has nothing to replace. "
            "Use response=.",
            override=kind,
        )

    def messages(self, body: dict[str, Any]) -> list[Any]:
        """The messages of a request, as a list also where the format has a short form."""
        messages = body.get(self.messages_field)
        return messages if isinstance(messages, list) else []

    def settings(self, body: Any) -> dict[str, Any]:
        """Where a request holds its temperature and its seed."""
        return body if isinstance(body, dict) else {}

    def own_settings(self, body: dict[str, Any]) -> dict[str, Any]:
        """The same, made if the request has none."""
        return body

    def with_model(self, url: str, body: dict[str, Any], model: str) -> tuple[str, Any]:
        """The request, a copy already, with another model in it."""
        body["model"] = model
        return url, body

    # -- the prompt --------------------------------------------------------------------

    def _last_user(self, body: dict[str, Any]) -> dict[str, Any]:
        for message in reversed(self.messages(body)):
            if isinstance(message, dict) and self.is_prompt(message):
                return message
        raise OverrideError(
            "prompt= replaces the text of the last user message, and this request has none. "
            "Use messages= to replace the whole list.",
            override="prompt",
        )

    def is_prompt(self, message: dict[str, Any]) -> bool:
        """Whether a user wrote the message, not a tool."""
        return message.get("role") == "user"

    def is_text(self, part: Any) -> bool:
        """Whether a part of a message's content is text."""
        return is_text(part, self.text_type)

    def text_part(self, value: str) -> dict[str, Any]:
        """A new text part of a message."""
        return {"type": self.text_type, "text": value}

    def prompt(self, message: dict[str, Any]) -> str:
        """The text of a user message, "" where it has none."""
        content = message.get(self.shape.field)
        if isinstance(content, list):
            return "".join(part["text"] for part in content if self.is_text(part))
        return content if isinstance(content, str) else ""

    def set_prompt(self, body: dict[str, Any], value: str) -> None:
        """Put *value* where the text of the last user message was; other parts stay."""
        message = self._last_user(body)
        content = message.get(self.shape.field)
        if not isinstance(content, list):
            message[self.shape.field] = value
            return
        texts = [index for index, part in enumerate(content) if self.is_text(part)]
        one = self.text_part(value)
        for index in texts:  # what was set on a text part, such as cache_control, stays
            one = {**one, **content[index], "text": value}
        at = texts[0] if texts else 0
        others = [part for index, part in enumerate(content) if index not in texts]
        message[self.shape.field] = [*others[:at], one, *others[at:]]


def _merged(body: dict[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    for name, setting in params.items():
        if setting is None:
            body.pop(name, None)
        else:
            body[name] = copied(setting)
    return body
