"""Tools behind HTTP: what of their requests and answers an override addresses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit, urlunsplit

from rewind_nb._secrets import MASK, safe_url
from rewind_nb.capture._http_request import (
    FORM,
    HttpRequest,
    canonical,
    media_type,
    pairs_of,
    portless,
)


def tool_name(request: HttpRequest) -> str:
    """What a tool behind HTTP is called: ``GET api.example.com/search``.

    Example:
        >>> tool_name(HttpRequest("GET", "https://api.example.com/search?q=plum", {}))
        'GET api.example.com/search'
    """
    parts = urlsplit(safe_url(portless(request.url)))
    return f"{request.method} {parts.netloc}{parts.path}"


def tool_arguments(request: HttpRequest) -> dict[str, Any]:
    """What can be overridden in a tool's request: its JSON object, form or query.

    Example:
        >>> tool_arguments(HttpRequest("GET", "https://api.example.com/?q=plum&n=2&key=x", {}))
        {'q': 'plum', 'n': '2'}
    """
    return arguments_of(canonical(request))


def arguments_of(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """The same of a request as it is recorded, also where they are named in it already."""
    if "args" in recorded:
        named: dict[str, Any] = recorded["args"]
        return named
    body = recorded["body"]
    if isinstance(body, dict) and "multipart" not in body:
        return _named(body["form"]) if set(body) == {"form"} else body
    if not body:
        query = pairs_of(urlsplit(safe_url(recorded["url"])).query.encode())
        return _named([[name, value] for name, value in query if value != MASK])
    return {"body": body}


def with_arguments(request: HttpRequest, changes: Mapping[str, Any]) -> HttpRequest:
    """The tool's request with some of its arguments replaced, each where it was."""
    if not request.content:
        parts = urlsplit(request.url)
        query = _replaced(pairs_of(parts.query.encode()), changes)
        return request.changed(urlunsplit(parts._replace(query=query)), b"")
    if media_type(request) == FORM:
        return request.changed(request.url, _replaced(pairs_of(request.plain), changes).encode())
    parsed = request.json()
    if isinstance(parsed, dict):
        return request.changed(request.url, json.dumps({**parsed, **changes}).encode())
    body = changes["body"]
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return request.changed(request.url, data)


def _named(pairs: list[list[str]]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for name, value in pairs:
        before = named.get(name)
        if name not in named:
            named[name] = value
        else:
            named[name] = [*before, value] if isinstance(before, list) else [before, value]
    return named


def _replaced(pairs: list[tuple[str, str]], changes: Mapping[str, Any]) -> str:
    kept = [(name, value) for name, value in pairs if name not in changes]
    for name, value in changes.items():
        kept += [(name, _field(item)) for item in (value if isinstance(value, list) else [value])]
    return urlencode(kept)


def _field(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
