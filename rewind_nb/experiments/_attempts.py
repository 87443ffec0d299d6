"""What an ablate tries: which facts of a run, and what takes the place of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rewind_nb._combine import Given
from rewind_nb._describe import short
from rewind_nb._path import MISSING
from rewind_nb._run import Run
from rewind_nb.errors import ConfigError, ExperimentError, did_you_mean
from rewind_nb.experiments._perturb import others, perturbed, removed
from rewind_nb.experiments._recorded_facts import RecordedFact, recorded_facts

How = Literal["perturb", "remove"] | Callable[[RecordedFact], Iterable[Any]]
HOWS = {"perturb": perturbed, "remove": removed}


@dataclass(frozen=True, slots=True)
class Attempt:
    """A value that takes the place of a fact: in words, and as an override."""

    words: str
    given: Given


@dataclass(frozen=True, slots=True)
class Subject:
    """A fact with what is tried instead."""

    fact: RecordedFact
    attempts: tuple[Attempt, ...]

    def told(self) -> dict[str, Any]:
        """What is stored of it."""
        return {
            "address": self.fact.address,
            "kind": self.fact.kind,
            "recorded": short(self.fact.value),
            "tried": [attempt.words for attempt in self.attempts],
            "why_not": self.fact.why_not,
        }


def chosen(run: Run, given: Any) -> tuple[list[str] | None, list[RecordedFact]]:
    """The facts that are asked for: by address, or all below one.

    Raises:
        ConfigError: it is no list of addresses.
        ExperimentError: the run has no such fact.
    """
    known = recorded_facts(run)
    if given is None:
        return None, known
    listed = [given] if isinstance(given, str) else given
    if not isinstance(listed, Sequence) or not all(isinstance(one, str) for one in listed):
        raise ConfigError(
            "facts= takes a list of addresses, such as 'search:1 tool 0 find_fare' or "
            f"'state.city'; it got {short(given)}."
        )
    for one in listed:
        if not any(_is_of(fact.address, one) for fact in known):
            near = did_you_mean(one, [fact.address for fact in known])
            raise ExperimentError(f"Run {run.id} has no fact {one!r}. {near}")
    found = [fact for fact in known if any(_is_of(fact.address, one) for one in listed)]
    return list(listed), found


def _is_of(address: str, asked: str) -> bool:
    """Whether an address is the one asked for, or below it."""
    return address.startswith(asked) and address[len(asked) :][:1] in ("", ".", "[", " ", ":")


def attempts(fact: RecordedFact, how: How) -> Iterable[Attempt]:
    """What takes the place of a fact; nothing where no step consumes it.

    Raises:
        NotEncodableError: *how* is a function, and a value it gave cannot be stored.
    """
    if fact.step is None or fact.why_not is not None:
        return
    if callable(how):
        for other in others(fact.value, how(fact)):
            yield Attempt(short(other), fact.given(other))
        return
    for other in HOWS[how](fact.leaf):
        try:
            given = fact.given(other)
        except Exception:  # noqa: BLE001, S112  (its class refuses it: no run can be given it)
            continue
        if given[0] != "response" or given[1] is not None:  # no answer is none a model gives
            yield Attempt("nothing" if other is MISSING else short(other), given)
