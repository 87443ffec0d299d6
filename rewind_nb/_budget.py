"""`Budget`: what an experiment may spend; `Meter`: one budget while it is being spent.

The number of calls is exact, however many are made side by side: each takes its place before
it is sent. What a call costs in tokens is known when it has answered. Before it is sent the
meter sets aside what it is likely to: what the recorded call at its place used, else a
quarter of its characters and the most it may answer. So tokens and dollars may be overspent
by the calls that are under way when the budget is reached, and no further; by how much is
reported.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import dataclass, fields
from typing import Any

from rewind_nb._describe import plural
from rewind_nb._model import Usage
from rewind_nb._price import priced
from rewind_nb.errors import ConfigError

CHARACTERS_PER_TOKEN = 4  # of English prose, by the rule of thumb that OpenAI's help page gives
MOST_OUTPUT = ("max_completion_tokens", "max_tokens", "max_output_tokens")


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that an experiment may spend on live model calls.

    Args:
        tokens: input and output together.
        usd: US dollars, by `rewind_nb.prices`; a model without a price counts as nothing,
            and the experiment says so.
        calls: requests to a model, retries included. Exact.

    Raises:
        ConfigError: a limit is not a number from 0 on, or there is none.

    Example:
        >>> Budget(calls=20)
        Budget(calls=20)
    """

    tokens: int | None = None
    usd: float | None = None
    calls: int | None = None

    def __post_init__(self) -> None:
        given = {f.name: getattr(self, f.name) for f in fields(self)}
        limits = {name: limit for name, limit in given.items() if limit is not None}
        if not limits:
            raise ConfigError("Budget() limits nothing. Pass tokens=, usd= or calls=.")
        for name, limit in limits.items():
            number = isinstance(limit, int) or (name == "usd" and isinstance(limit, float))
            if not number or isinstance(limit, bool) or not limit >= 0:
                raise ConfigError(f"Budget({name}={limit!r}): a limit is a number from 0 on.")

    def __repr__(self) -> str:
        given = (
            f"{f.name}={v!r}" for f in fields(self) if (v := getattr(self, f.name)) is not None
        )
        return f"Budget({', '.join(given)})"


UNLIMITED = Budget(calls=sys.maxsize)


@dataclass(frozen=True, slots=True)
class Reserved:
    """What was set aside for one call."""

    tokens: int
    usd: float
    model: str | None


class Meter:
    """One budget while it is being spent, by any number of threads.

    Attributes:
        calls: that were let through.
        tokens: that answers reported, where they did.
        usd: what those cost, as far as there are prices.
        reached: which limit stopped a call, in words; None while none did.
    """

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.calls = 0
        self.tokens = 0
        self.usd = 0.0
        self.reached: str | None = None
        self._stopped = False
        self._lock = threading.Lock()
        self._open: dict[int, Reserved] = {}  # by ticket

    def reserve(self, model: str | None, body: Any, like: Usage | None) -> int | None:
        """Let one call through; what to `settle` it by, or None where the budget is spent.

        Args:
            body: the request's JSON, where there is one.
            like: what the recorded call at its place used.
        """
        expected = expected_usage(body, like)
        asked = Reserved(expected.total_tokens or 0, priced(model, expected) or 0.0, model)
        budget = self.budget
        with self._lock:
            tokens = self.tokens + sum(r.tokens for r in self._open.values())
            usd = self.usd + sum(r.usd for r in self._open.values())
            if self._stopped:
                return None
            if budget.calls is not None and self.calls >= budget.calls:
                self.reached = f"its budget of {plural(budget.calls, 'call')} is spent"
            elif budget.tokens is not None and tokens + asked.tokens > budget.tokens:
                self.reached = (
                    f"its budget of {plural(budget.tokens, 'token', ',')} does not hold another call of about "
                    f"{asked.tokens:,}"
                )
            elif budget.usd is not None and usd + asked.usd > budget.usd:
                self.reached = (
                    f"its budget of ${budget.usd:g} does not hold another call of about "
                    f"${asked.usd:.2g}"
                )
            else:
                self.calls += 1
                self._open[self.calls] = asked
                return self.calls
            return None

    def stop(self, why: str) -> None:
        """Let no further call through, whatever is left of the budget."""
        with self._lock:
            self._stopped, self.reached = True, self.reached or why

    def settle(self, ticket: int, model: str | None, usage: Usage | None) -> None:
        """A call ended: what it used counts instead of what was set aside."""
        with self._lock:
            reserved = self._open.pop(ticket, None)
            if reserved is None:
                return
            known = usage is not None and usage.total_tokens is not None
            self.tokens += (usage.total_tokens or 0) if usage and known else reserved.tokens
            paid = priced(model or reserved.model, usage) if known else reserved.usd
            self.usd += paid or 0.0

    @property
    def overspent(self) -> str | None:
        """By how much the budget was exceeded, in words; None where it was not."""
        budget = self.budget
        if budget.tokens is not None and self.tokens > budget.tokens:
            return f"{plural(self.tokens - budget.tokens, 'token', ',')} more than the budget"
        if budget.usd is not None and self.usd > budget.usd:
            return f"${self.usd - budget.usd:.2g} more than the budget"
        return None


def expected_usage(body: Any, like: Usage | None) -> Usage:
    """What a call is likely to use.

    Example:
        >>> expected_usage({"prompt": "x" * 368, "max_tokens": 50}, None)
        Usage(input_tokens=100, output_tokens=50, total_tokens=150)
    """
    if like is not None and like.total_tokens is not None:
        return Usage(like.input_tokens, like.output_tokens, like.total_tokens)
    most = 0
    if isinstance(body, dict):
        given = (body.get(name) for name in MOST_OUTPUT)
        most = next((n for n in given if type(n) is int and n > 0), 0)
    return Usage(len(str(body)) // CHARACTERS_PER_TOKEN, most)
