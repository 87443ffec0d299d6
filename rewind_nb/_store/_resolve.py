"""Finding a run or an experiment by the start of its id."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rewind_nb.errors import (
    AmbiguousIdError,
    ExperimentNotFoundError,
    NotFoundError,
    RunNotFoundError,
    did_you_mean,
)

_ERRORS = {"run": RunNotFoundError, "experiment": ExperimentNotFoundError}
SHOWN = 10  # ids


def one_of(what: str, prefix: object, ids: Callable[[str], list[str]]) -> str | None:
    """The one id that starts with *prefix*; None where none does.

    Raises:
        NotFoundError: *prefix* is no text.
        AmbiguousIdError: there are several; the message lists them.
    """
    if not isinstance(prefix, str):
        article = "An" if what[0] in "aeiou" else "A"
        raise _ERRORS[what](
            f"{article} {what} is found by its id or the start of it, a str; got {prefix!r}."
        )
    found = ids(prefix)
    if prefix in found or len(found) == 1:
        return prefix if prefix in found else found[0]
    if not found:
        return None
    shown = ", ".join(found[:SHOWN])
    raise AmbiguousIdError(
        f"{prefix!r} matches {len(found)} {what}s: {shown}{', ...' if len(found) > SHOWN else ''}. "
        "Give more of the id.",
        **{f"{what}_id": prefix},
        matches=found,
    )


def missing(store: Any, what: str, prefix: str, known: Iterable[str]) -> NotFoundError:
    """The error of an id that there is not, with the nearest of those there are."""
    near = did_you_mean(prefix, reversed(list(known)))
    return _ERRORS[what](
        f"No {what} with the id {prefix!r} in {store!r}. {near}", **{f"{what}_id": prefix}
    )
