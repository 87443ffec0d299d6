"""Which HTTP requests of a step are model calls, which are tools, which are left alone.

The defaults need no setting: a request whose method and URL belong to a known wire format
is a model call on any host, requests to telemetry collectors pass through, and everything
else is an ``http`` call, recorded and played back like the others.
"""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from rewind_nb.errors import ConfigError

__all__ = ["TELEMETRY", "HttpPolicy"]

HttpKind = Literal["model", "tool", "http"]

TELEMETRY: tuple[str, ...] = (
    "*/v1/traces",  # OpenTelemetry over HTTP, whoever collects it
    "*/v1/metrics",
    "*/v1/logs",
    "*/api/public/ingestion*",  # Langfuse; its prompts are answers, and captured
    "*/api/public/otel/*",
    "*.smith.langchain.com/runs*",  # LangSmith; the same for its prompts
    "*.smith.langchain.com/otel/*",
    "*.posthog.com/*",
    "*.sentry.io/api/*",
    "*.datadoghq.com/*",
    "*.datadoghq.eu/*",
    "api.segment.io/*",
    "*.mixpanel.com/*",
    "*.amplitude.com/*",
    "*.scarf.sh/*",
)
"""Collectors of telemetry: what they answer, no step depends on."""


@dataclass(frozen=True, slots=True)
class HttpPolicy:
    """Patterns that say what an HTTP request inside a step is. The first that matches counts.

    A pattern is matched against ``host/path`` and ``host:port/path``, without scheme and
    query, with the wildcards of `fnmatch`; one without a slash means a whole host.

    Args:
        passthrough: requests that are neither recorded nor played back. A replay does not
            send them: each is answered with an empty 200. For what no step reads the
            answer of. Takes the place of `TELEMETRY`, which it may contain.
        tools: requests that are tools: ``tool_args=`` and ``tool_result=`` address them,
            and a step that made no other call shows as ``tool-cache`` when played back.
        models: requests that are model calls although their URL belongs to no known wire
            format. Those that do are model calls without being named.

    Raises:
        ConfigError: something is not a pattern.

    Example:
        >>> policy = HttpPolicy(tools=["api.tavily.com/search"], models=["llm.internal"])
        >>> policy.named("https://api.tavily.com/search?q=burr")
        'tool'
        >>> policy.named("https://llm.internal/ask")
        'model'
        >>> policy.passes("https://eu.i.posthog.com/batch/")
        True
    """

    models: Sequence[str] = ()
    tools: Sequence[str] = ()
    passthrough: Sequence[str] = TELEMETRY

    def __post_init__(self) -> None:
        for name in ("models", "tools", "passthrough"):
            given = getattr(self, name)
            if isinstance(given, str):
                raise ConfigError(f"{name}={given!r} is one pattern. Pass a list: [{given!r}].")
            object.__setattr__(self, name, tuple(_checked(name, pattern) for pattern in given))

    def passes(self, url: str) -> bool:
        """Whether a request to this URL is left alone."""
        return _matches(url, tuple(self.passthrough))

    def named(self, url: str) -> HttpKind | None:
        """What the patterns make of a request to this URL; None where they say nothing."""
        if _matches(url, tuple(self.tools)):
            return "tool"
        return "model" if _matches(url, tuple(self.models)) else None


def _checked(name: str, pattern: object) -> str:
    if not isinstance(pattern, str) or not pattern:
        raise ConfigError(
            f"{name}= holds {pattern!r}. A pattern is a str such as 'api.example.com/v1/*'."
        )
    if "://" in pattern:
        raise ConfigError(
            f"{name}= holds {pattern!r}, and patterns have no scheme. "
            f"Use {pattern.partition('://')[2]!r}."
        )
    return pattern if "/" in pattern else f"{pattern}/*"


def _matches(url: str, patterns: tuple[str, ...]) -> bool:
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    return _known(host, parts.port, parts.path or "/", patterns)


@functools.lru_cache(maxsize=1024)  # not by URL: a query may hold a key
def _known(host: str, port: int | None, path: str, patterns: tuple[str, ...]) -> bool:
    targets = (f"{host}{path}", f"{host}:{port}{path}")
    return any(fnmatch.fnmatchcase(t, pattern) for t in targets for pattern in patterns)


DEFAULT = HttpPolicy()
