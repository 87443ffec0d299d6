"""Google generate-content: the URL says which model answers, and whether as a stream."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from rewind_nb._model import Usage
from rewind_nb.capture.wire import _google_stream
from rewind_nb.capture.wire._checks import got
from rewind_nb.capture.wire._format import Body, Format, begin
from rewind_nb.capture.wire._json import (
    added,
    count,
    member,
    objects,
    strict_json,
    text,
    tool_call,
)
from rewind_nb.capture.wire._messages import Given, Message, Shape
from rewind_nb.capture.wire._pairs import CALL, RESULT, Mark, check_turns, turns
from rewind_nb.capture.wire._wire import Reading
from rewind_nb.errors import OverrideError

__all__ = ["GoogleGenerateContent"]

SHAPE = Shape(
    roles=("user", "model", "function", "tool"),
    result="its 'functionResponse' to the message after it",
    field="parts",
    takes="a list of parts, such as [{'text': ...}]",
    types=(list,),
    needs_role=False,  # a single content is the user's without saying so
    instead={
        "assistant": "What the model said has the role 'model'.",
        "system": "Such text goes into the request's 'systemInstruction'.",
        "developer": "Such text goes into the request's 'systemInstruction'.",
    },
)
CALLS = ("functionCall", "function_call")
RESULTS = ("functionResponse", "function_response")
_URL = re.compile(
    r"^[^?#]*/(?:models|tunedModels|endpoints)/([^/?#:]+)"
    r":(?:g|(?P<stream>streamG))enerateContent(?=[?#]|$)"
)
_SSE = re.compile(r"[?&]alt=sse(?=[&#]|$)")


class GoogleGenerateContent(Format):
    """``POST .../models/{model}:generateContent`` and ``:streamGenerateContent``.

    Answered as server-sent events with ``?alt=sse``, else as one JSON array. Fields are read
    in camel case, as all of Google's own clients send them, and in the snake case that the
    service takes as well.
    """

    name = "google-generate-content"
    shape = SHAPE
    messages_field = "contents"
    answer_field = "candidates"
    required = ("contents",)

    def matches(self, method: str, url: str) -> bool:
        return method.upper() == "POST" and _URL.match(url) is not None

    # -- requests ----------------------------------------------------------------------

    def model(self, url: str, body: Any) -> str | None:
        del body
        found = _URL.match(url)
        return unquote(found[1]) if found else None

    def elsewhere(self, url: str) -> Mapping[str, str]:
        del url
        return {"model": "part of the URL", "temperature": "inside 'generationConfig'"}

    def with_model(self, url: str, body: Body, model: str) -> tuple[str, Any]:
        if found := _URL.match(url):
            start, end = found.span(1)
            url = f"{url[:start]}{quote(model, safe='')}{url[end:]}"
        return url, body

    def check_model(self, model: str) -> None:
        if "/" in model:
            last = model.rstrip("/").rsplit("/", 1)[-1]
            hint = f" Use {last!r}." if last.strip() else ""
            raise OverrideError(
                f"model= takes the last part of a Google model's name; it got {got(model)}.{hint}",
                override="model",
            )

    def wants_stream(self, url: str, body: Any) -> bool:
        del body
        found = _URL.match(url)
        return found is not None and found["stream"] is not None

    def media_type(self, url: str, body: Any) -> str:
        streams = self.wants_stream(url, body) and _SSE.search(url)
        return "text/event-stream" if streams else "application/json"

    def settings(self, body: Any) -> Body:
        return member(body, _config(body))

    def own_settings(self, body: Body) -> Body:
        settings: Body = body.setdefault(_config(body), {})
        return settings

    def is_prompt(self, message: Body) -> bool:
        parts = message.get("parts")
        if isinstance(parts, list) and parts and all(_of(part, RESULTS) for part in parts):
            return False
        return message.get("role") in (None, "user")

    def is_text(self, part: Any) -> bool:
        return isinstance(part, dict) and isinstance(part.get("text"), str)

    def text_part(self, value: str) -> Body:
        return {"text": value}

    def check_messages(self, given: Given, body: Body) -> None:
        del body
        given.check()
        check_turns(given, turns(given), _calls, _results)

    # -- answers -----------------------------------------------------------------------

    def read(self, body: Any) -> Reading | None:
        candidates = objects(body, "candidates")
        if not candidates or body.get("error"):
            return None
        parts = objects(member(candidates[0], "content"), "parts")
        said = "".join(p["text"] for p in parts if self.is_text(p) and not p.get("thought"))
        asked = (
            tool_call(call.get("id"), call.get("name"), call.get("args") or {})
            for call in (_of(part, CALLS) for part in parts)
        )
        calls = tuple(call for call in asked if call is not None)
        if not (said.strip() or calls or candidates[0].get("finishReason")):
            return None
        return Reading(
            text=said,
            tool_calls=calls,
            finish_reason=text(candidates[0].get("finishReason")),
            model=text(body.get("modelVersion")),
            usage=self.usage(body),
            id=text(body.get("responseId")),
        )

    def usage(self, body: Any) -> Usage:
        counts = member(body, "usageMetadata")
        asked = count(counts, "promptTokenCount")  # what is cached included
        asked = added(asked, count(counts, "toolUsePromptTokenCount"))
        total = count(counts, "totalTokenCount")
        thought = count(counts, "thoughtsTokenCount")  # not among the candidates' tokens
        said = added(count(counts, "candidatesTokenCount"), thought)
        if said is None and total is not None and asked is not None:
            said = max(total - asked, 0)  # a count of nothing is left out
        return Usage(asked, said, total, count(counts, "cachedContentTokenCount"), thought)

    def whole(self, text: str) -> Any | None:
        if begin(text) != "[":
            return super().whole(text)
        try:
            parts = strict_json(text.removeprefix("\ufeff"))
        except ValueError:
            return None
        usable = all(isinstance(part, dict) and not part.get("error") for part in parts)
        return self.joined(parts, done=True) if usable else None

    def joined(self, parts: Sequence[Body], done: bool) -> Body | None:
        del done  # the last candidate says that it is finished
        return _google_stream.joined(parts)

    def split(self, body: Body, url: str, request: Any) -> str:
        named = {**self.scaffold(self.model(url, request) or ""), **body}
        return _google_stream.split(named, sse=self.media_type(url, request) != "application/json")

    def scaffold(self, model: str) -> Body:
        return {
            "candidates": [],
            "usageMetadata": {"promptTokenCount": 0, "totalTokenCount": 0},
            "modelVersion": model,
            "responseId": "override",
        }

    def with_text(self, body: Body, value: str) -> Body:
        candidate, *others = objects(body, "candidates") or [{"index": 0}]
        content = member(candidate, "content")
        parts: list[Any] = []
        at = None
        for part in objects(content, "parts"):
            if self.is_text(part) and not part.get("thought"):
                at = len(parts) if at is None else at
            elif not _of(part, CALLS):
                parts.append(part)
        parts.insert(len(parts) if at is None else at, {"text": value})
        kept = {k: v for k, v in candidate.items() if k not in _OF_OLD_TEXT}
        said = {"role": "model", **content, "parts": parts}
        return {**body, "candidates": [{**kept, "content": said, "finishReason": "STOP"}, *others]}


_OF_OLD_TEXT = ("citationMetadata", "groundingMetadata", "logprobsResult", "avgLogprobs")


def _config(body: Any) -> str:
    snake = isinstance(body, dict) and "generation_config" in body
    return "generation_config" if snake else "generationConfig"


def _of(part: Any, names: Sequence[str]) -> Body:
    """What a part holds under one of these names, an empty object where there is none."""
    return next(filter(None, (member(part, name) for name in names)), {})


def _calls(given: Given, place: str, message: Message) -> Iterator[Mark]:
    return _marks(given, place, message, CALLS, CALL, ("model",))


def _results(given: Given, place: str, message: Message) -> Iterator[Mark]:
    return _marks(given, place, message, RESULTS, RESULT, ("user", "function", "tool", None))


def _marks(
    given: Given,
    place: str,
    message: Message,
    names: Sequence[str],
    what: str,
    roles: Sequence[str | None],
) -> Iterator[Mark]:
    for where, part in given.parts(place, message):
        if any(part.get(name) is not None for name in names):
            given.check_speaker(where, what, message, roles)
            found = _of(part, names)
            tool = given.name_of(where, what, found, "name")
            yield Mark(where, text(found.get("id")), tool)
