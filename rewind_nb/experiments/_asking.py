"""What all experiments do about what they are asked: check it, store it, take it up again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from rewind_nb._check import Check
from rewind_nb._model import CacheMode, Reuse
from rewind_nb.errors import ConfigError, ExperimentError, RewindError
from rewind_nb.experiments._experiment import Experiment
from rewind_nb.experiments._verdicts import reads_back

T = TypeVar("T")


def check_whole(**given: Any) -> None:
    """Refuse what is no whole number from 1 on.

    Raises:
        ConfigError: it is none.
    """
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name}={value!r}: a whole number from 1 on.")


def refusal(check: Callable[[T], object], values: Iterable[T]) -> RewindError | None:
    """Why the first of some values is refused, where all are; None where one is accepted."""
    first: RewindError | None = None
    for value in values:
        try:
            check(value)
        except RewindError as error:
            first = first or error
        else:
            return None
    return first


def told(
    check: Check | None, reuse: Reuse, cache: CacheMode | None, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """What is stored of how forks are made and judged."""
    stubs = isinstance(settings.get("effects"), Mapping)
    return {
        "check": None if check is None else check.text,
        "check_lost": not reads_back(check),
        "mode": {"reuse": reuse, "cache": cache or "auto"},
        "settings": {k: v for k, v in settings.items() if k != "effects" or not stubs},
        "stubs": stubs,
    }


def cache_of(asked: Mapping[str, Any]) -> CacheMode | None:
    """The cache mode that was asked for; None for the Rewind's own."""
    cache: CacheMode = asked["mode"]["cache"]
    return None if cache == "auto" else cache


def refuse_lost(experiment: Experiment, *, more: bool = False, again: str = "") -> None:
    """Refuse to take up an experiment that was asked with a function.

    Args:
        more: whether another part of it was one.
        again: what to say of asking for it again.

    Raises:
        ExperimentError: a store does not give functions back.
    """
    asked = experiment.asked
    if asked["check_lost"] or asked["stubs"] or more:
        raise ExperimentError(
            f"{type(experiment).__name__} {experiment.id} was asked with a function, and a store "
            "does not give functions back. Go on with it in the process that made it, or call "
            f"rw.{experiment.kind}(...) again{again}."
        )


KEPT = ": answers that are recorded are not asked for again"
