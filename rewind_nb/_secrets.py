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
from collections.abc import Callable
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit, urlunsplit

from rewind_nb._redact import (
    MASK,
    MIN_REGISTERED,
    contains_secret,
    redact,
    redact_bytes,
    register_secret,
)
from rewind_nb.errors import ConfigError

__all__ = [
    "MASK",
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
