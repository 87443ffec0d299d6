"""What a run did about a step, in one word, and why, in few."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rewind_nb._describe import plural
from rewind_nb._reasons import is_converged
from rewind_nb._steps import PAID_ELSEWHERE

if TYPE_CHECKING:
    from rewind_nb._steps import Step

__all__ = ["HOW", "how", "why", "why_inside"]

HOW = ("override", "executed", "reused", "converged", "inherited")
"""What a run may do about a step, what it had most to do with first."""


def how(step: Step) -> str:
    """One of `HOW`: a reused step is ``converged`` where the fork is its parent again."""
    if step.source == "reused" and is_converged(step.reason):
        return "converged"
    return step.source if step.source in HOW else "executed"


def why(step: Step) -> str:
    """What a run did about a step, and why; "" where there is nothing to say."""
    return _words(how(step), step.reason)


def why_inside(step: Step) -> list[str]:
    """The same of the steps in its tasks, those alike in a line; not where it is that of all."""
    if step.source in PAID_ELSEWHERE:
        return []
    found = Counter((how(inner), inner.reason) for inner in step.inside() if inner.reason)
    return [f"{plural(n, 'step')} in its tasks {_words(*said)}" for said, n in found.items()]


def _words(did: str, reason: str | None) -> str:
    if reason is None:
        return ""
    said = "put in" if did == "override" else did
    return reason if reason.startswith(said) else f"{said}: {reason}"
