"""A secret is held in one place, shown nowhere, and scrubbed from whatever leaves.

`Secret` wraps a key so that no repr, log line, traceback, copy or pickle can
show it; `Secret.reveal` is the only way out. Every secret, and every credential
seen in traffic (`register_secret`), joins one process-wide registry. `redact`
replaces the registered values and their usual encodings in outgoing text,
`contains_secret` is the gate in front of a store.

The registry never forgets within a process: a replaced key may still be echoed.
Values shorter than `MIN_REGISTERED` characters are not registered, since "none"
would be scrubbed out of ordinary data; a `Secret` masks them all the same.
"""

from __future__ import annotations

import hmac
import re
import threading
from collections.abc import Callable, Iterable
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit, urlunsplit

from rewind_nb._forms import bare, encodings, half_masked, readings, spelled
from rewind_nb.errors import ConfigError

__all__ = [
    "MIN_REGISTERED",
    "SECRET_HEADERS",
    "Secret",
    "contains_secret",
    "is_secret_parameter",
    "redact",
    "redact_bytes",
    "register_secret",
    "safe_url",
    "secret_problem",
]

MASK = "***"
MIN_REGISTERED = 8
MIN_HALF_MASKED = 20

SECRET_HEADERS: frozenset[str] = frozenset(
    {
        "api-key",
        "authorization",
        "cookie",
        "ocp-apim-subscription-key",
        "proxy-authorization",
        "set-cookie",
        "x-access-token",
        "x-amz-security-token",
        "x-api-key",
        "x-auth-token",
        "x-functions-key",
        "x-goog-api-key",
    }
)
"""Header names, in lower case, whose values are credentials."""

_SECRET_PARAMETER = re.compile(
    r"api[-_]?key|auth|key|password|secret|client_secret|sig|signature|subscription-key"
    r"|token|(?:access|auth|id|refresh)_token|x-(?:amz|goog)-(?:credential|security-token|signature)",
    re.IGNORECASE,
)


class Secret:
    """A credential that only `reveal` shows.

    Args:
        value: the credential: printable ASCII, not empty, without whitespace.

    Raises:
        ConfigError: the value cannot be a credential. It is not quoted.

    Example:
        >>> key = Secret("sk-docs-example")
        >>> print(key, [key], f"{key:>40}")
        Secret(***) [Secret(***)] Secret(***)
        >>> key.reveal() == "sk-docs-example"
        True
    """

    # The slot holds a closure and not the text: variable explorers and
    # traceback printers that walk attributes find a function.
    __slots__ = ("__reveal", "__weakref__")

    __rewind_refuse__ = "a Secret is never stored"

    def __init__(self, value: str) -> None:
        if problem := secret_problem(value):
            del value  # verbose tracebacks print the locals of this frame
            raise ConfigError(problem)
        self.__reveal: Callable[[], str] = lambda: value
        register_secret(value)

    def reveal(self) -> str:
        """The credential itself: for the expression that sends it, never to keep."""
        return self.__reveal()

    def __repr__(self) -> str:
        return f"Secret({MASK})"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self.reveal(), other.reveal())

    def __hash__(self) -> int:
        return hash((Secret, self.reveal()))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "a Secret cannot be pickled: the key would be written out. "
            "Read it again from the environment in the other process."
        )

    def __getstate__(self) -> NoReturn:
        self.__reduce_ex__(2)


def secret_problem(value: object) -> str | None:
    """Why a value cannot be a credential, in words that quote none of it.

    Example:
        >>> secret_problem("sk with space")
        'the key holds whitespace or a line break (often pasted along). Remove it.'
        >>> secret_problem("sk-fine") is None
        True
    """
    if not isinstance(value, str):
        return f"the key must be a str, not {type(value).__name__}."
    if not value:
        return "the key is empty. Leave it out where the provider needs none."
    if any(c.isspace() for c in value):
        return "the key holds whitespace or a line break (often pasted along). Remove it."
    if not (value.isascii() and value.isprintable()):
        return "the key holds a character outside printable ASCII (a smart quote?). Copy it again."
    return None


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
        for text in readings(data):
            for needle in self.bare:
                if needle in text:
                    return True
        return any(needle in data for needle in self.odd)


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


def safe_url(url: str) -> str:
    """A URL without its credentials: no userinfo, key-like query values masked.

    Example:
        >>> safe_url("https://me:pw@api.test/v1?key=abc&page=2")
        'https://api.test/v1?key=***&page=2'
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return MASK
    clean = parts._replace(
        netloc=parts.netloc.rpartition("@")[2],
        query=_safe_query(parts.query),
        fragment=_safe_query(parts.fragment),
    )
    return redact(urlunsplit(clean))


def _safe_query(query: str) -> str:
    return re.sub(r"([^&;=]+)=([^&;]*)", _safe_parameter, query)


def _safe_parameter(match: re.Match[str]) -> str:
    return f"{match[1]}={MASK}" if is_secret_parameter(unquote(match[1])) else match[0]


def is_secret_parameter(name: str) -> bool:
    """Whether the value of a query parameter of this name is a credential.

    Example:
        >>> [is_secret_parameter(name) for name in ("key", "API-Key", "page_token")]
        [True, True, False]
    """
    return _SECRET_PARAMETER.fullmatch(name) is not None
