"""What calls cost; what is not known is named, and no total that lacks a part looks whole.

Money is kept as fractions, so that a total does not depend on the order of its parts.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from rewind_nb._answering import is_other_model
from rewind_nb._describe import displayed
from rewind_nb._model import Usage
from rewind_nb._price import NO_PRICE, find

__all__ = ["Cost", "cost_of", "costs_of", "money", "sum_usage"]


@dataclass(frozen=True, slots=True, repr=False)
class Cost:
    """What live model calls cost. Costs add up, in any order, and stay honest.

    Attributes:
        spent: US dollars, exactly, of what has a price.
        missing: (model, why) of what has none.
        is_priced: whether anything had a price.
        usage: the tokens it is the cost of; None where a part is unknown.

    Example:
        >>> Cost(Fraction(123, 10_000), is_priced=True)
        <Cost $0.0123>
        >>> Cost(missing=frozenset({("offline", "no price")}))
        <Cost unpriced (offline)>
        >>> _ + Cost(Fraction(123, 10_000), is_priced=True)
        <Cost at least $0.0123 (unpriced: offline)>
    """

    spent: Fraction = Fraction(0)
    missing: frozenset[tuple[str, str]] = frozenset()
    is_priced: bool = False
    usage: Usage | None = Usage(0, 0)  # noqa: RUF009  (frozen)

    @property
    def usd(self) -> float | None:
        """US dollars of what has a price; None where nothing has.

        Where it is `partial`, more was spent than that.
        """
        if self.missing and not self.is_priced:
            return None
        try:
            return float(self.spent)
        except OverflowError:  # a provider may claim any number of tokens
            return math.inf

    @property
    def unpriced(self) -> tuple[str, ...]:
        """The models whose calls have no price, by name."""
        return tuple(sorted({model for model, _ in self.missing}))

    @property
    def partial(self) -> bool:
        """Whether a part of it is unknown."""
        return bool(self.missing)

    @property
    def whole_usd(self) -> float | None:
        """US dollars where all of it is known, else None."""
        return None if self.partial else self.usd

    def __add__(self, other: Cost) -> Cost:
        if not isinstance(other, Cost):
            return NotImplemented
        return Cost(
            self.spent + other.spent,
            self.missing | other.missing,
            self.is_priced or other.is_priced,
            sum_usage([self.usage, other.usage]),
        )

    def __str__(self) -> str:
        reasons = sorted(self.missing)
        named = ", ".join(m if why == NO_PRICE else f"{m}: {why}" for m, why in reasons)
        usd = self.usd
        if usd is None:
            return displayed(f"unpriced ({named})")
        return displayed(f"at least {money(usd)} (unpriced: {named})") if named else money(usd)

    def __repr__(self) -> str:
        return f"<Cost {self}>"


def money(usd: float) -> str:
    """An amount to two decimals, or to three digits where it is less than a dollar.

    Example:
        >>> money(0), money(0.0000123), money(0.5), money(1234.5)
        ('$0', '$0.0000123', '$0.5', '$1,234.50')
    """
    if usd == 0 or usd >= 1:
        return f"${usd:,.2f}" if usd else "$0"
    digits = 2 - math.floor(math.log10(usd))
    return f"${usd:.{digits}f}".rstrip("0")


class Priceable(Protocol):
    """What a cost is told by; a call and its row have it."""

    @property
    def kind(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def model(self) -> str | None: ...
    @property
    def answered_by(self) -> str | None: ...
    @property
    def usage(self) -> Usage | None: ...
    @property
    def started_at(self) -> float: ...


def cost_of(call: Priceable) -> Cost:
    """What one call cost, by the price at its time.

    Only model calls have a cost here, and only live ones: what was played back, overridden or
    never billed (an error status, a connection that failed) cost nothing. The model that
    answered counts; where that is not known, the one that was asked.
    """
    if call.kind != "model" or call.source != "live":
        return Cost()
    usage = call.usage
    if usage is not None and usage.total_tokens == 0:
        return Cost()
    name = call.answered_by or call.model or "(unnamed)"
    price = find(name, call.started_at)
    if price is None and call.model and not is_other_model(call.model, call.answered_by):
        price = find(call.model, call.started_at)
    charged = NO_PRICE if price is None else price.charge(usage)
    if isinstance(charged, str):
        return Cost(missing=frozenset({(name, charged)}), usage=usage)
    return Cost(charged, is_priced=True, usage=usage)


def costs_of(calls: Iterable[Priceable]) -> Cost:
    """What several calls cost together.

    Example:
        >>> costs_of([])
        <Cost $0>
    """
    return functools.reduce(operator.add, map(cost_of, calls), Cost())


def sum_usage(usages: Iterable[Usage | None]) -> Usage | None:
    """The tokens of several parts; None as soon as one is unknown.

    What cost nothing is left out, so that its unknown details do not make others' unknown.

    Example:
        >>> sum_usage([Usage(5, 1, cached_tokens=2), Usage(0, 0)])
        Usage(input_tokens=5, output_tokens=1, total_tokens=6, cached_tokens=2)
    """
    spent = [usage for usage in usages if usage is None or usage.total_tokens != 0]
    known = [usage for usage in spent if usage is not None]
    if len(known) < len(spent):
        return None
    return functools.reduce(operator.add, known) if known else Usage(0, 0)
