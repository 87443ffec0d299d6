"""One chat call and what each answer to it means. No I/O, no sleeping.

`Attempts` judges one answer after the other: done, again after a pause, or an error of the `ProviderError` tree. Sync
and async drivers only carry out what it decides. A decision depends on the
answers and not on the time, so that played-back answers lead to the same
requests; where the time is up before the next attempt, the attempt is made with
nothing left and fails in the transport, which records it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC
from email.utils import parsedate_to_datetime

# Bound here: a step may run with a recorded clock in place of `time`'s.
from time import monotonic
from time import time as wall_time
from typing import Any
from urllib.parse import urlsplit

import httpx

from rewind_nb._secrets import redact, safe_url
from rewind_nb.capture._completion import (
    ChatReply,
    body_text,
    provider_says,
    read_completion,
)
from rewind_nb.capture._compose import to_json
from rewind_nb.capture._http_request import portless
from rewind_nb.capture.deadline import DEADLINE
from rewind_nb.capture.wire._json import strict_json
from rewind_nb.errors import (
    ConfigError,
    ProviderError,
    ProviderMalformedError,
    ProviderStatusError,
    ProviderTimeoutError,
    ProviderUnreachableError,
)

__all__ = ["Attempts", "Limits"]

EXTENSION = "rewind_nb"
PLAYED = "rewind_nb.played"
FIRST_PAUSE = 0.5

_ADVICE = {
    400: "Check model= and the parameters.",
    401: "Check the key: api_key= or REWIND_API_KEY.",
    403: "Check the key and what it may use: api_key= or REWIND_API_KEY.",
    404: "Check base_url= and model=.",
    429: "Wait, or allow more max_retries=.",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """How long and how often a call may try.

    Attributes:
        max_retries: further attempts after 429 and 5xx.
        deadline: seconds of wall clock for the whole call, pauses included.
        retry_after_cap: the longest pause between two attempts, in seconds.
        max_bytes: the largest decoded answer.
    """

    max_retries: int
    deadline: float
    retry_after_cap: float
    max_bytes: int

    def __post_init__(self) -> None:
        if self.max_retries < 0:
            raise ConfigError(f"max_retries={self.max_retries} is below 0. Use 0 for one attempt.")
        if not 0 < self.deadline < math.inf:
            raise ConfigError(f"deadline={self.deadline} is not a time in seconds above 0.")
        if not 0 <= self.retry_after_cap < math.inf:
            raise ConfigError(f"retry_after_cap={self.retry_after_cap} is not a time in seconds.")
        if self.max_bytes <= 0:
            raise ConfigError(f"max_bytes={self.max_bytes} leaves no room for an answer.")


@dataclass(slots=True)
class Attempts:
    """The attempts at one chat call.

    Attributes:
        url: where it is sent.
        body: what the next attempt sends.
        may_drop_format: whether `response_format` is ours to leave out.
    """

    url: str
    body: dict[str, Any]
    step: str
    tool_result: str | None
    limits: Limits
    may_drop_format: bool = False
    retries: int = 0
    last_status: int | None = None
    ends: float = field(init=False)
    call: object = field(default_factory=object)  # what makes its requests one call

    def __post_init__(self) -> None:
        self.ends = monotonic() + self.limits.deadline

    def content(self) -> bytes:
        """The next request's body; ASCII, so that any text can be sent."""
        return to_json(self.body, "the request", ascii_only=True).encode()

    def extensions(self) -> dict[str, Any]:
        """What the transports are told about the request, and never send."""
        told = {"step": self.step, "call": self.call}
        if self.tool_result is not None:
            told["tool_result"] = self.tool_result
        return {EXTENSION: told, DEADLINE: self.ends}

    def judge(self, response: httpx.Response) -> ChatReply | float:
        """The reply, or the seconds to wait before the next attempt.

        Raises:
            ProviderStatusError: an error status that is not tried again.
            ProviderMalformedError: an answer that is not a chat completion.
        """
        status = self.last_status = response.status_code
        if 200 <= status < 300:
            return read_completion(response.content, model=self.body["model"], step=self.step)
        if status == 400 and self.may_drop_format and b"response_format" in response.content:
            self.may_drop_format = False
            del self.body["response_format"]
            return 0.0
        if (status == 429 or status >= 500) and self.retries < self.limits.max_retries:
            self.retries += 1
            return self._pause(response)
        raise self._refused(response)

    def _pause(self, response: httpx.Response) -> float:
        asked = _retry_after(response.headers.get("retry-after", ""))
        pause = FIRST_PAUSE * 2 ** (self.retries - 1) if asked is None else asked
        pause = min(pause, self.limits.retry_after_cap)
        if pause >= self.limits.deadline:  # whatever the time: so it is when it is played back
            self.retries -= 1
            raise self._refused(response, f"It asks to wait {pause:g} s, and deadline= is shorter.")
        if response.extensions.get(PLAYED):
            return 0.0
        if monotonic() + pause < self.ends:
            return pause
        self.ends = -math.inf  # the next attempt comes too late: it need not be waited for
        return 0.0

    def _refused(self, response: httpx.Response, why: str = "") -> ProviderStatusError:
        status = response.status_code
        try:
            says = provider_says(strict_json(response.content.decode()))
        except ValueError:
            says = ""
        tried = f" after {self.retries + 1} attempts" if self.retries else ""
        return ProviderStatusError(
            self.step,
            f"the provider answered HTTP {status}{tried}{says}. {why or _advice(status)}",
            raw=body_text(response.content),
            status_code=status,
        )

    def failure(self, error: httpx.HTTPError) -> ProviderError:
        """Our error for one of `httpx`; what that said is kept as a note and as `cause`."""
        cause = redact(f"httpx.{type(error).__name__}: {error}")
        cls, message = self._explain(error)
        tried = safe_url(self.url).partition("?")[0]
        failure = cls(self.step, message, cause=cause, url=tried)
        failure.add_note(f"cause: {cause} (tried {tried})")
        return failure

    def _explain(self, error: httpx.HTTPError) -> tuple[type[ProviderError], str]:
        if isinstance(error, httpx.TimeoutException):
            last = f" The last answer was HTTP {self.last_status}." if self.last_status else ""
            return ProviderTimeoutError, (
                f"the provider gave no complete answer within {self.limits.deadline:g} s.{last} "
                "Allow more deadline=, or ask for less."
            )
        if isinstance(error, httpx.DecodingError):
            return ProviderMalformedError, (
                f"the provider's answer cannot be decoded: {redact(str(error))}. "
                "max_bytes= limits its size."
            )
        if isinstance(error, httpx.ConnectError | httpx.ProxyError | httpx.UnsupportedProtocol):
            return ProviderUnreachableError, (
                f"no connection to the provider at {_address(self.url)} could be made. "
                "Check base_url= and that the server is running."
            )
        return ProviderUnreachableError, (
            f"the connection to the provider at {_address(self.url)} broke before its answer was "
            "complete. Run it again."
        )


def _address(url: str) -> str:
    """A URL as a message has it, without its query.

    The port of a loopback host is another one in every session and part of no recording, so
    it is in the note: a replay fails with the same message.
    """
    shown = safe_url(portless(url)).partition("?")[0]
    host = urlsplit(shown).netloc
    return shown if portless(url) == url else shown.replace(host, f"{host}:*", 1)


def _advice(status: int) -> str:
    if 300 <= status < 400:
        return (
            "Redirects are not followed, since the key would go along. "
            "Set base_url= to the final address."
        )
    if status >= 500:
        return "The provider is failing: try later, or allow more max_retries=."
    return _ADVICE.get(status, "Its answer is in .raw.")


def _retry_after(value: str) -> float | None:
    """Seconds from a Retry-After header, a number or a date; None where it is neither."""
    try:
        seconds = float(value)
    except ValueError:
        seconds = _seconds_until(value)
    return None if math.isnan(seconds) else max(seconds, 0.0)


def _seconds_until(date: str) -> float:
    try:
        when = parsedate_to_datetime(date)
    except ValueError:
        return math.nan
    # RFC 9110 dates are in GMT; a date without a zone is read so, not as local time.
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() - wall_time()
