"""Prices of models: dated, by the longest prefix of a name. What has none is unpriced.

The prices that come with the package are those of `_prices.json`: a few models, read from
their makers' pages on the day it names. Each is of one model and its dated snapshots, never
of a family: what `gpt-5` costs says nothing of `gpt-5-pro`.
"""

from __future__ import annotations

import functools
import json
import math
import threading
from dataclasses import dataclass
from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

from rewind_nb._answering import is_snapshot
from rewind_nb._model import Usage
from rewind_nb.errors import ConfigError

__all__ = ["NO_PRICE", "Price", "add", "everything", "find", "priced"]

MAKERS = (  # who makes or serves a model, as a name may say in front
    *("models/", "openai/", "anthropic/", "google/", "gemini/"),
    *("mistral/", "mistralai/", "groq/", "meta-llama/"),
)
NO_USAGE = "no usage reported"
NO_PRICE = "no price"


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens of a model cost, from a day on.

    Attributes:
        model: the name, or with `exact` off the beginning of the names.
        input: US dollars per million input tokens.
        output: the same of output tokens, reasoning included.
        cached_input: of input that the provider had cached; None: as other input.
        cache_write: of input that it wrote to its cache; None: as other input.
        up_to: input tokens of a call up to which this holds; None: of any length.
        since: the first day, in UTC.
        source: where it says so.
        exact: whether it is of this model and its dated snapshots only.
    """

    model: str
    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None
    up_to: int | None = None
    since: date = date.min
    source: str = ""
    exact: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or not self.model:
            raise ConfigError(f"A price is of a model's name, not of {self.model!r}.")
        for name in ("input", "output", "cached_input", "cache_write", "up_to"):
            given = getattr(self, name)
            if given is None and name not in ("input", "output"):
                continue
            number = isinstance(given, int | float) and not isinstance(given, bool)
            if not (number and math.isfinite(given) and given >= 0):
                raise ConfigError(
                    f"The price of {self.model!r} has {name}={given!r}; it is a number from 0 on, "
                    "in US dollars per million tokens (up_to: in tokens)."
                )

    def matches(self, model: str) -> bool:
        """Whether it is a price of this model."""
        return is_snapshot(self.model, model) if self.exact else model.startswith(self.model)

    def charge(self, usage: Usage | None) -> Fraction | str:
        """What a call costs in US dollars, or why that is not known."""
        if not any((self.input, self.output, self.cached_input, self.cache_write)):
            return Fraction(0)
        if usage is None or usage.input_tokens is None or usage.output_tokens is None:
            return NO_USAGE
        if self.up_to is not None and usage.input_tokens > self.up_to:
            return f"{usage.input_tokens:,} input tokens; the price holds up to {self.up_to:,}"
        cached, written = usage.cached_tokens or 0, usage.cache_write_tokens or 0
        if self.cache_write is not None and cached and usage.cache_write_tokens is None:
            return "what was written to the provider's cache is not reported"
        plain = max(usage.input_tokens - cached - written, 0)
        return (
            plain * _per_token(self.input)
            + cached * _per_token(self.cached_input, self.input)
            + written * _per_token(self.cache_write, self.input)
            + usage.output_tokens * _per_token(self.output)
        )


def _per_token(price: float | None, otherwise: float = 0) -> Fraction:
    # by its digits: the 0.1 that was written, not the double that is next to it
    return Fraction(str(otherwise if price is None else price)) / 1_000_000


# -- the table ----------------------------------------------------------------------------

_lock = threading.Lock()
_added: tuple[Price, ...] = ()


def add(price: Price) -> None:
    """Put a price into the table; one for the same name and day is replaced."""
    global _added  # noqa: PLW0603  (the table is one for the process, as prices are)
    with _lock:
        kept = (p for p in _added if (p.model, p.since) != (price.model, price.since))
        _added = (*kept, price)


def everything() -> tuple[Price, ...]:
    """Every price, those that were added first."""
    return (*_added, *_built_in())


@functools.cache
def _built_in() -> tuple[Price, ...]:
    text = (Path(__file__).parent / "_prices.json").read_text(encoding="utf-8")
    return tuple(_read(row) for row in json.loads(text)["prices"])


def _read(row: dict[str, Any]) -> Price:
    return Price(**{**row, "since": date.fromisoformat(row["since"])}, exact=True)


def find(model: str, at: float | date | None = None) -> Price | None:
    """The price of a model at a time: the longest prefix, then an added one, then the latest.

    Where the name has none, the name without who makes or serves it (`MAKERS`) is looked up.

    Args:
        model: its name.
        at: seconds since the epoch, a date, or None for now.
    """
    day = _day(at)
    tables = (_built_in(), _added)
    for name in filter(None, (model, _without_maker(model))):
        found = [
            (len(price.model), added, price.since, price)
            for added, prices in enumerate(tables)
            for price in prices
            if price.since <= day and price.matches(name)
        ]
        if found:
            return max(found, key=lambda one: one[:3])[3]
    return None


def _day(at: float | date | None) -> date:
    if isinstance(at, datetime):
        return at.astimezone(UTC).date()
    if isinstance(at, date):
        return at
    return (datetime.now(UTC) if at is None else datetime.fromtimestamp(at, UTC)).date()


def _without_maker(model: str) -> str | None:
    return next((model.removeprefix(m) for m in MAKERS if model.startswith(m)), None)


def priced(model: str | None, usage: Usage | None, at: float | None = None) -> float | None:
    """US dollars for these tokens of a model; None where there is no price, or no count.

    Example:
        >>> priced("no-such-model", Usage(5, 1)) is None
        True
    """
    price = find(model, at) if model else None
    charged = NO_PRICE if price is None else price.charge(usage)
    return None if isinstance(charged, str) else float(charged)
