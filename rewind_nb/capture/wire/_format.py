"""The answer side of the formats: a JSON body, or a stream that amounts to one.

A stream is joined into the body that the provider would have sent at once, so there is one
way to read an answer and one way to put another text into it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rewind_nb._model import Usage
from rewind_nb.capture.wire._checking import Checking
from rewind_nb.capture.wire._json import copied, strict_json
from rewind_nb.capture.wire._sse import payloads
from rewind_nb.capture.wire._wire import Reading

__all__ = ["Body", "Format", "begin"]

Body = dict[str, Any]


def begin(text: str) -> str:
    """The first character of a text that says something."""
    return text.lstrip("\ufeff \t\r\n")[:1]


class Format(Checking):
    """What the formats have in common; see `Wire` for what the methods do."""

    def whole(self, text: str) -> Any | None:
        try:
            if begin(text) == "{":
                return strict_json(text.removeprefix("\ufeff"))
            return self.joined(*payloads(text))
        except ValueError:
            return None

    def read(self, body: Any) -> Reading | None:
        raise NotImplementedError

    def read_stream(self, text: str) -> Reading | None:
        return self.read(self.whole(text))

    def usage(self, body: Any) -> Usage:
        raise NotImplementedError

    def answer(self, recorded: Any, value: str | Mapping[str, Any], url: str, body: Any) -> Body:
        if not isinstance(value, str):
            given: Body = copied(dict(value))
            return given
        if not self.is_answer(recorded):
            return self.with_text(self.scaffold(self.model(url, body) or ""), value)
        frame: Body = copied(recorded)
        reading = self.read(recorded)
        same = reading is not None and reading.text == value
        return frame if same else self.with_text(frame, value)

    def stream_answer(
        self, recorded: str | None, value: str | Mapping[str, Any], url: str, body: Any
    ) -> str:
        before = None if recorded is None else self.whole(recorded)
        return self.split(self.answer(before, value, url, body), url, body)

    # -- what each format says for itself ----------------------------------------------

    def joined(self, parts: Sequence[Body], done: bool) -> Body | None:
        """The body that the payloads of a stream amount to, None where it is not complete."""
        raise NotImplementedError

    def split(self, body: Body, url: str, request: Any) -> str:
        """The text of a stream that amounts to *body*, for the request it answers."""
        raise NotImplementedError

    def scaffold(self, model: str) -> Body:
        """An answer of *model* that says nothing and cost nothing."""
        raise NotImplementedError

    def with_text(self, body: Body, value: str) -> Body:
        """*body*, which is a copy already, as a finished text."""
        raise NotImplementedError
