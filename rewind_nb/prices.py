"""Prices of models, which you can add to; what has none is reported as unpriced.

US dollars per million tokens of text, at the list price of the standard tier; batch, flex and
priority tiers, other modalities and charges for built-in tools are not in them. The table that
comes with the package names its day and its sources (`table()`). A cost is computed when it is
looked at, by the price at the time of the call.
"""

from __future__ import annotations

from datetime import date
from typing import Final, TypedDict

from rewind_nb._price import Price, add, everything, find
from rewind_nb.errors import ConfigError

__all__ = ["FREE", "Price", "lookup", "register", "table"]


class _Nothing(TypedDict):
    input: float
    output: float


FREE: Final[_Nothing] = {"input": 0.0, "output": 0.0}
"""The price of a model that costs nothing: ``register("my-local-model", **FREE)``."""


def register(
    model: str,
    *,
    input: float,  # noqa: A002  (what everybody calls it)
    output: float,
    cached_input: float | None = None,
    cache_write: float | None = None,
    up_to: int | None = None,
    since: str | date = "2026-01-01",
    source: str = "registered",
    exact: bool = False,
) -> Price:
    """Add a price. The longest prefix of a model's name counts, and yours before a built-in one.

    Args:
        model: the beginning of the names it is for.
        input: US dollars per million input tokens.
        output: the same of output tokens; reasoning tokens are output.
        cached_input: of input that the provider had cached; None: as other input.
        cache_write: of input that the provider wrote to its cache; None: as other input.
        up_to: input tokens of a call up to which it holds; a longer call is unpriced.
        since: the first day it holds, in UTC, as a date or ``"2026-01-31"``. A call before the
            first day of every price is unpriced. One for the same name and day is replaced.
        source: where it says so.
        exact: only for this name and its dated snapshots, such as ``-2026-01-31``.

    Raises:
        ConfigError: a price is not a number from 0 on, or the day is none.

    Example:
        >>> register("acme-", input=1.0, output=4.0, cached_input=0.1).output
        4.0
        >>> lookup("acme-large-v2").input
        1.0
    """
    try:
        day = date.fromisoformat(str(since)[:10])  # a datetime is a date as well
    except ValueError:
        raise ConfigError(
            f"since={since!r} is no day. Pass a date, or text such as '2026-01-31'.", since=since
        ) from None
    price = Price(model, input, output, cached_input, cache_write, up_to, day, source, exact)
    add(price)
    return price


def lookup(model: str, at: float | date | None = None) -> Price | None:
    """The price of a model, or None where it is unpriced.

    A name has the price of its longest prefix in the table; the built-in prices are each of one
    model and its dated snapshots. A name that has none is looked up without who makes or serves
    it in front: ``openai/gpt-5``, ``models/gemini-2.5-pro``.

    Args:
        model: its name, as it was asked for or as it answered.
        at: when: seconds since the epoch, a date, or None for now.

    Example:
        >>> lookup("no-such-model") is None
        True
    """
    return find(model, at)


def table() -> tuple[Price, ...]:
    """Every price: those that were registered, then those that came with the package."""
    return everything()
