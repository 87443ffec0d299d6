"""A proof: the verdict first, then what it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rewind_nb._html._diff_page import divergence_box
from rewind_nb._html._markup import Html, tag
from rewind_nb._html._parts import chip, count, facts, heading, mono, page

if TYPE_CHECKING:
    from rewind_nb._proof import Proof

__all__ = ["proof_html"]


def proof_html(proof: Proof) -> str:
    """A proof as one self-contained piece of HTML, without script.

    Example:
        >>> "identical" in proof_html(rw.replay(run))  # doctest: +SKIP
        True
    """
    edited = [name for name in proof.code_changed if name not in proof.code_lost]
    verdict = chip("identical", "✓", "good") if proof.ok else chip("NOT identical", "✕", "bad")
    return page(
        heading(tag("b", "Proof"), verdict, tag("span", "replay of ", mono(proof.original.id))),
        _claim(proof),
        facts(
            f"{proof.executed} executed",
            f"{proof.applied} applied from an override" if proof.applied else None,
            _recorded(proof),
            tag("span", "recorded as ", mono(proof.run.id)),
        ),
        divergence_box(proof.divergence, "First difference") if proof.divergence else None,
        _code("Code changed since the recording: ", edited),
        _code("Code given as action= that this Rewind does not have: ", proof.code_lost),
    )


def _claim(proof: Proof) -> Html:
    tokens = "tokens unknown" if proof.tokens is None else count(proof.tokens, "token")
    steps = f"{proof.identical} of {count(proof.steps, 'step')} identical"
    words = f"{steps}, {count(proof.live_calls, 'live call')}, {tokens}"
    return tag("div", tag("b", words), class_=f"rw-box rw-{'good' if proof.ok else 'bad'}")


def _recorded(proof: Proof) -> str:
    paid = proof.recorded_tokens
    tokens = "unknown tokens" if paid is None else count(paid, "token")
    return f"the recording: {count(proof.recorded_calls, 'call')}, {tokens}"


def _code(words: str, actions: Sequence[str]) -> Html | None:
    if not actions:
        return None
    return tag("div", words, mono(", ".join(actions), 400), class_="rw-box rw-warn")
