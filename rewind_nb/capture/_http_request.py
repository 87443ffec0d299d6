"""A request as it is recorded and fingerprinted, whichever client sends it.

Part of it: the method, the URL, the headers in `KEPT_HEADERS` and the whole body. Not part
of it: credentials (headers, user info, key-like query parameters and form fields), the port
of a loopback host, and every other header: user agent, timeouts, idempotency keys, trace
ids, ``x-stainless-*``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from rewind_nb._codec._trail import MAX_DEPTH
from rewind_nb._secrets import (
    MASK,
    SECRET_HEADERS,
    is_secret_parameter,
    redact_bytes,
    register_secret,
    safe_url,
)
from rewind_nb.capture._inflate import inflated
from rewind_nb.capture.wire._json import is_deeper

KEPT_HEADERS: tuple[str, ...] = (
    "accept",
    "accept-language",
    "anthropic-beta",
    "anthropic-version",
    "api-version",
    "content-type",
    "notion-version",
    "openai-beta",
    "prefer",
    "range",
    "x-api-version",
    "x-github-api-version",
    "x-ms-version",
)
"""The headers that change an answer; no others are part of a request."""

COOKIE_IS_SECRET = 16  # characters; shorter ones are settings, and occur in ordinary data
AROUND = 8  # levels, at most, around the body of a request where it is stored
_LOOPBACK = ("localhost", "::1")
_AMBIGUOUS = ("key", "auth")  # names of credentials, and of much else
FORM = "application/x-www-form-urlencoded"
_BOUNDARY = re.compile(r'boundary="?([^";,]+)"?', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request, in the terms of no client.

    Attributes:
        headers: names in lower case; of several with one name, the values joined.
        content: the body as it is sent.
        extra: what a client of this package says about it.
    """

    method: str
    url: str
    headers: Mapping[str, str]
    content: bytes = b""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<HttpRequest {self.method} {safe_url(self.url)}>"  # without its headers

    def json(self) -> Any:
        """The body parsed, None where it is no JSON."""
        try:
            return json.loads(self.plain)
        except (ValueError, RecursionError):
            return None

    @property
    def plain(self) -> bytes:
        """The body without its compression."""
        return inflated(self.content, self.headers.get("content-encoding", ""))

    def changed(self, url: str, content: bytes) -> HttpRequest:
        """The same request with another URL and body, which is not compressed."""
        gone = ("content-encoding", "content-length", "transfer-encoding")
        headers = {name: value for name, value in self.headers.items() if name not in gone}
        return replace(self, url=url, content=content, headers=headers)


def register_credentials(request: HttpRequest) -> None:
    """Have every credential that the request carries scrubbed from now on."""
    for name in SECRET_HEADERS & set(request.headers):
        value = request.headers[name]
        if name == "cookie":
            register_cookies(value)
        else:
            register_secret(value)
    fields = urlsplit(request.url).query.encode()
    if media_type(request) == FORM:
        fields += b"&" + request.plain
    for name, value in pairs_of(fields):
        if is_secret_parameter(name) and _is_credential(name, value):
            register_secret(value)


def register_cookies(header: str) -> None:
    """Have the values of cookies scrubbed that are long enough to be a session."""
    for part in re.split("[;,]", header):
        value = part.partition("=")[2].strip().strip('"')
        if len(value) >= COOKIE_IS_SECRET:
            register_secret(value)


def canonical(request: HttpRequest) -> dict[str, Any]:
    """The request as it is recorded: no credentials, JSON keys sorted, 0.0 written as 0.

    The body of a form is ``{"form": [[name, value], ...]}``, of a multipart upload
    ``{"multipart": [part, ...]}`` without its random boundary; what is no JSON stays bytes.

    Example:
        >>> asked = HttpRequest("POST", "http://127.0.0.1:81/v1?key=abc", {}, b'{"b":1.0,"a":[]}')
        >>> canonical(asked)["url"], canonical(asked)["body"]
        ('http://127.0.0.1/v1?key=***', {'a': [], 'b': 1})
    """
    kept = {name: request.headers[name] for name in KEPT_HEADERS if name in request.headers}
    boundary = _boundary(request)
    if boundary is not None:
        kept["content-type"] = "multipart/form-data"
    recorded: dict[str, Any] = {
        "method": request.method,
        "url": safe_url(portless(request.url)),
        "headers": kept,
        "body": _body(request, boundary),
    }
    if "tool_result" in request.extra:
        recorded["tool_result"] = request.extra["tool_result"]
    return recorded


def unlike(request: HttpRequest) -> str:
    """What tells requests apart that are recorded alike, as a digest; "" for most.

    ``?key=population`` is masked like ``?key=sk-...``, as nobody can know. It is no
    credential though, and its answer is another one than that of ``?key=area``.
    """
    told = [
        f"{name}={value}"
        for name, value in pairs_of(urlsplit(request.url).query.encode())
        if is_secret_parameter(name) and not _is_credential(name, value)
    ]
    return hashlib.sha256("&".join(told).encode()).hexdigest() if told else ""


# -- the body ------------------------------------------------------------------------


def _body(request: HttpRequest, boundary: bytes | None) -> Any:
    content = redact_bytes(request.plain)
    if boundary is not None:
        return {"multipart": _parts(content, boundary)}
    if media_type(request) == FORM:
        pairs = [[name, _masked(name, value)] for name, value in pairs_of(content)]
        return {"form": pairs} if pairs else content
    try:
        parsed = json.loads(content, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return content
    return content if is_deeper(parsed, MAX_DEPTH - AROUND) else _sorted(parsed)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):  # two bodies that differ there are two requests
        raise ValueError("a key occurs twice")
    return found


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def _parts(content: bytes, boundary: bytes) -> list[bytes]:
    parts = (b"\r\n" + content).split(b"\r\n--" + boundary)
    return [part.removeprefix(b"\r\n") for part in parts[1:] if not part.startswith(b"--")]


def _boundary(request: HttpRequest) -> bytes | None:
    if media_type(request) != "multipart/form-data":
        return None
    found = _BOUNDARY.search(request.headers["content-type"])
    return found[1].strip().encode() if found else None


def media_type(request: HttpRequest) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def pairs_of(fields: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(fields.decode(), keep_blank_values=True)
    except ValueError:
        return []


def _masked(name: str, value: str) -> str:
    return MASK if is_secret_parameter(name) else value


def _is_credential(name: str, value: str) -> bool:
    """Whether a key-like field holds a credential; a few names are ambiguous."""
    if name.lower() not in _AMBIGUOUS:
        return True
    return len(value) >= 16 and any(c.isdigit() for c in value) and " " not in value


def portless(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host in _LOOPBACK or host.startswith("127."):
        return urlunsplit(parts._replace(netloc=f"[{host}]" if ":" in host else host))
    return url
