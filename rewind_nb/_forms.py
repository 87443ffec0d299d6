"""How a secret may be written: the forms of it that are looked for, and masked.

A key that somebody quotes is seldom written as it is: JSON may escape any character of it,
and JSON inside JSON the escapes; a Basic header is base64; arrays of text are UTF-32.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from urllib.parse import quote

__all__ = ["bare", "encodings", "half_masked", "readings", "spelled"]


def encodings(value: str) -> set[str]:
    """The value itself, URL-encoded, in JSON and in base64."""
    percent = quote(value, safe="")
    lower = re.sub("%..", lambda match: match[0].lower(), percent)
    return {value, percent, lower, *_json_forms(value), *_base64_forms(value.encode())}


def _json_forms(value: str) -> tuple[str, str]:
    escaped = json.dumps(value)[1:-1]
    return escaped, escaped.replace("/", "\\/")


def _base64_forms(value: bytes) -> set[str]:
    """What base64 of any longer text must contain, at each of the three alignments.

    Leading and trailing characters that also depend on the neighbours are cut.
    """
    forms = {base64.b64encode(value).decode(), base64.urlsafe_b64encode(value).decode()}
    for offset, skip in ((0, 0), (1, 2), (2, 3)):
        whole = (offset + len(value)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            forms.add(encode(bytes(offset) + value).decode()[skip:whole])
    return forms


_ESCAPE = re.compile(rb"\\(?:u00([0-7][0-9a-fA-F])|(.))", re.DOTALL)


def readings(data: bytes) -> Iterator[bytes]:
    r"""Bytes as they are, and then without one layer of the escapes of JSON after the other.

    The NULs are left out that UTF-16 and -32 put into ASCII, and so is what is left of the
    backslashes, for what a layer does to quotes and slashes tells nothing.

    Example:
        >>> [*readings(rb"a\u002db")], [*readings("a-b".encode("utf-16-le"))]
        ([b'au002db', b'a-b'], [b'a-b'])
    """
    if b"\0" in data:
        data = data.translate(None, b"\0")
    yield bare(data)
    while b"\\" in data and b"\\u00" in data:  # the first is seen at once
        data = _ESCAPE.sub(_unescaped, data)
        yield bare(data)


def _unescaped(escape: re.Match[bytes]) -> bytes:
    code = escape[1]
    return escape[2] if code is None else bytes.fromhex(code.decode()).strip(b"\0")


def bare(data: bytes) -> bytes:
    """Text without backslashes."""
    return data.replace(b"\\", b"")


def spelled(needle: str) -> re.Pattern[str]:
    """A pattern for a text in which any character may be escaped, however often."""
    escape = r"(?:\\(?:u005[cC])?)*"
    chars = [f"(?:{re.escape(c)}|u00{_either_case(f'{ord(c):02x}')})" for c in needle]
    return re.compile(rf"(?<!\\){escape}{escape.join(chars)}")


def _either_case(code: str) -> str:
    return "".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in code)


def half_masked(value: str) -> tuple[str, re.Pattern[str]]:
    """Providers echo `sk-proj-****abcd`: even the ends of a key are not to be shown."""
    start = value[:8]
    word = r"[^\s\"'<>,;]"
    mask = r"(?:\*{3}|\.{3}|…|•)"
    return start, re.compile(f"{re.escape(start)}{word}{{0,40}}?{mask}{word}{{0,80}}")
