"""The registered secrets, and text without them.

Below everything that says something: errors too are scrubbed as they are made.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable

from rewind_nb._forms import bare, encodings, half_masked, readings, spelled

__all__ = ["MASK", "MIN_REGISTERED", "contains_secret", "redact", "redact_bytes", "register_secret"]

MASK = "***"
MIN_REGISTERED = 8
MIN_HALF_MASKED = 20


class _Registry:
    """The registered values, ready for scanning. Readers take no lock."""

    __slots__ = ("bare", "lock", "masked", "needles", "odd", "values")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.values: frozenset[str] = frozenset()
        self.needles: tuple[str, ...] = ()  # every encoding, longest first
        self.bare: tuple[bytes, ...] = ()  # what is looked for in `readings`
        self.odd: tuple[bytes, ...] = ()  # in bytes as they are: little else than backslashes
        self.masked: tuple[tuple[str, re.Pattern[str]], ...] = ()

    def add(self, value: str) -> None:
        with self.lock:
            if value in self.values:
                return
            forms = encodings(value)
            self.needles = tuple(sorted({*self.needles, *forms}, key=len, reverse=True))
            for form in map(str.encode, forms):
                rest = bare(form)
                if len(rest) < MIN_REGISTERED:
                    self.odd = _shortest((*self.odd, form))
                else:
                    self.bare = _shortest((*self.bare, rest))
            if len(value) >= MIN_HALF_MASKED:
                self.masked = tuple(dict.fromkeys((*self.masked, half_masked(value))))
            self.values |= {value}  # last: who finds it there may rely on the rest

    def occurs_in(self, data: bytes) -> bool:
        """Whether a form of a registered value is in these bytes."""
        plain = b"\\" not in data and b"\0" not in data  # as most is: it reads as it is
        for text in (data,) if plain else readings(data):
            for needle in self.bare:
                if needle in text:
                    return True
        return bool(self.odd) and any(needle in data for needle in self.odd)


def _shortest(needles: Iterable[bytes]) -> tuple[bytes, ...]:
    """Those that no other is a part of: where one of the others is, one of these is too."""
    kept: list[bytes] = []
    for needle in sorted(set(needles), key=len):
        if not any(part in needle for part in kept):
            kept.append(needle)
    return tuple(kept)


_registry = _Registry()


def register_secret(value: str) -> None:
    """Have a credential scrubbed from now on; of `Bearer abc`, the part after the scheme.

    Values shorter than `MIN_REGISTERED` characters are left alone.

    Args:
        value: a key, or the value of an Authorization header.
    """
    token = value.strip().rpartition(" ")[2]
    if len(token) >= MIN_REGISTERED and token.isprintable():
        _registry.add(token)


def redact(text: str) -> str:
    r"""A text without any registered secret, however it is written.

    That is raw, URL-encoded, base64, with escapes of JSON (any character, at any depth) or
    half-masked. Cut a text only after it was redacted: half a key is not recognised.

    Example:
        >>> register_secret("sk-docs-example")
        >>> redact("wrong key: sk-docs-example"), redact(r'{"key": "sk\u002ddocs-example"}')
        ('wrong key: ***', '{"key": "***"}')
    """
    if contains_secret(text):
        text = _scrubbed(text)
    for start, pattern in _registry.masked:
        if start in text:
            text = pattern.sub(MASK, text)
    return text


def _scrubbed(text: str) -> str:
    for needle in _registry.needles:
        text = text.replace(needle, MASK)
    for form in _registry.bare:
        if contains_secret(text):
            text = spelled(form.decode()).sub(MASK, text)
    return MASK if contains_secret(text) else text


def redact_bytes(data: bytes) -> bytes:
    """`redact` for bytes, whatever their encoding; bytes without a secret come back as they are."""
    text = data.decode("utf-8", "surrogateescape")
    clean = redact(text)
    return data if clean is text else clean.encode("utf-8", "surrogateescape")


def contains_secret(data: bytes | str) -> bool:
    r"""Whether a registered secret occurs, in any of the forms that `redact` masks whole.

    Example:
        >>> register_secret("sk-docs-example")
        >>> contains_secret(rb'{"key": "sk\u002ddocs-example"}'), contains_secret("sk-docs")
        (True, False)
    """
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogatepass")
    return _registry.occurs_in(data)
