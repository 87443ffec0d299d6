"""An answer as it is recorded and handed out, whichever client it is for.

It is recorded decoded, without credentials and without what only mattered on the wire.
What the caller gets is made from the record, live and played back alike, so that a replay
sees the same; only cookies and the target of a redirect are handed on as they came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from itertools import pairwise
from typing import Any

from rewind_nb._secrets import SECRET_HEADERS, redact, redact_bytes, register_secret, safe_url
from rewind_nb.capture._http_request import register_cookies

WIRE_HEADERS = frozenset(
    {
        "alt-svc",
        "connection",
        "content-encoding",
        "content-length",
        "keep-alive",
        "proxy-authenticate",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
STREAMED = (
    "text/event-stream",
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/json-seq",
    "application/stream+json",
    "application/vnd.amazon.eventstream",
)
"""Content types that are handed on chunk by chunk."""

_AS_THEY_CAME = ("location", "set-cookie")
_TOKENS = ("access_token", "refresh_token", "id_token", "client_secret")
_TOKEN_NAME = re.compile("|".join(_TOKENS).encode())
_EVENT_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_RETRIED = (408, 409, 429)
_LONGEST_RETRY_AFTER = 120.0  # seconds; SDKs refuse to wait longer, and give up

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer, in the terms of no client.

    Attributes:
        headers: names in lower case; one name may occur twice.
        body: decoded.
        cuts: where the chunks of a streamed body end, in bytes; None if it is no stream.
        error: raised once the body has been read.
    """

    status: int
    headers: Headers = field(repr=False)
    body: bytes = field(default=b"", repr=False)
    cuts: tuple[int, ...] | None = None
    error: Exception | None = field(default=None, compare=False)

    def header(self, name: str) -> str:
        """The first header of this name, "" where there is none."""
        return next((value for known, value in self.headers if known == name), "")

    @property
    def media_type(self) -> str:
        """Its content type without parameters."""
        return self.header("content-type").partition(";")[0].strip().lower()

    @property
    def ok(self) -> bool:
        """Whether it is no error."""
        return self.status < 400

    @property
    def sent_headers(self) -> list[tuple[str, str]]:
        """Its headers, with the length that the body has now that it is decoded."""
        known = self.cuts is None and self.status not in (204, 304)
        if not known or self.header("content-length"):
            return list(self.headers)
        return [*self.headers, ("content-length", str(len(self.body)))]

    @property
    def chunks(self) -> list[bytes]:
        """The body as it is handed on."""
        if self.cuts is None:
            return [self.body]
        return [self.body[a:b] for a, b in pairwise((0, *self.cuts))]


def decoded_headers(headers: Iterable[tuple[str, str]], *, method: str = "GET") -> Headers:
    """The headers of an answer, names in lower case, without those of the wire.

    An answer to HEAD keeps them: they are what was asked for.
    """
    named = [(name.lower(), value) for name, value in headers]
    return named if method == "HEAD" else [h for h in named if h[0] not in WIRE_HEADERS]


def record(answer: HttpAnswer) -> dict[str, Any]:
    """The answer as it is stored.

    Example:
        >>> record(HttpAnswer(200, [("content-type", "text/plain")], b"hello"))
        {'status': 200, 'headers': {'content-type': 'text/plain'}, 'body': 'hello'}
    """
    headers: dict[str, str] = {}
    for name, value in answer.headers:
        if name == "set-cookie":
            register_cookies(value.partition(";")[0])
        if name not in SECRET_HEADERS:
            shown = safe_url(value) if name == "location" else redact(value)
            headers[name] = f"{headers[name]}, {shown}" if name in headers else shown
    body = redact_bytes(answer.body)
    stored: dict[str, Any] = {
        "status": answer.status,
        "headers": headers,
        "body": _text_or_bytes(body),
    }
    if answer.cuts is not None:
        stored["cuts"] = list(answer.cuts if body == answer.body else cut_at_events(body))
    return stored


def restore(stored: Mapping[str, Any], error: Exception | None = None) -> HttpAnswer:
    """A stored answer, to be handed out."""
    body, cuts = stored["body"], stored.get("cuts")
    return HttpAnswer(
        status=stored["status"],
        headers=list(stored["headers"].items()),
        body=body.encode() if isinstance(body, str) else body,
        cuts=None if cuts is None else tuple(cuts),
        error=error,
    )


def handed_on(answer: HttpAnswer, stored: Mapping[str, Any]) -> HttpAnswer:
    """What the caller of a live request gets: the record, with what had to be left out."""
    came = [h for h in answer.headers if h[0] in _AS_THEY_CAME]
    kept = [h for h in stored["headers"].items() if h[0] not in _AS_THEY_CAME]
    return replace(restore(stored), headers=[*kept, *came])


def cut_at_events(body: bytes) -> tuple[int, ...]:
    r"""Where to cut a stream whose chunks are not known: after each event.

    Example:
        >>> cut_at_events(b"data: 1\n\ndata: 2\n\n")
        (9, 18)
    """
    ends = [found.end() for found in _EVENT_END.finditer(body)]
    return tuple(dict.fromkeys([*ends, len(body)])) if body else ()


def hurried(answer: HttpAnswer) -> HttpAnswer:
    """An error that is played back, with the wish to be asked again at once.

    SDKs sleep before they try again: as long as ``retry-after-ms`` says, which comes before
    ``retry-after`` in those that wait at all. Nobody has to be waited for in a replay. A
    wish for a pause that made the SDK give up stays what it is.
    """
    if answer.status not in _RETRIED and answer.status < 500:
        return answer
    if _retry_after(answer) > _LONGEST_RETRY_AFTER:
        return answer
    others = [h for h in answer.headers if h[0] != "retry-after-ms"]
    return replace(answer, headers=[*others, ("retry-after-ms", "1")])


def _retry_after(answer: HttpAnswer) -> float:
    """Seconds, counted from when the answer was given; 0 where it does not say."""
    wanted = answer.header("retry-after")
    milliseconds = answer.header("retry-after-ms")
    try:
        return float(milliseconds) / 1000 if milliseconds else float(wanted)
    except ValueError:
        pass
    try:
        due, given = (parsedate_to_datetime(d) for d in (wanted, answer.header("date")))
        return (due - given).total_seconds()
    except (ValueError, TypeError):
        return 0.0


def holds_credentials(answer: HttpAnswer) -> bool:
    """Whether the answer gives out a token, as a login does; it is registered as a secret."""
    if answer.media_type != "application/json" or not _TOKEN_NAME.search(answer.body):
        return False
    try:
        parsed = json.loads(answer.body)
    except (ValueError, RecursionError):
        return False
    given = [parsed.get(n) for n in _TOKENS] if isinstance(parsed, dict) else []
    tokens = [token for token in given if isinstance(token, str) and token]
    for token in tokens:
        register_secret(token)
    return bool(tokens)


def _text_or_bytes(body: bytes) -> str | bytes:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return body
