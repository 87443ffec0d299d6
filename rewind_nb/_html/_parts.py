"""What every page is made of: the frame, chips for sources and statuses, facts in a line."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rewind_nb._html._markup import Child, Html, join, tag, text
from rewind_nb._html._style import CSS
from rewind_nb._model import Usage
from rewind_nb._text import how

if TYPE_CHECKING:
    from rewind_nb._compare import Change
    from rewind_nb._divergence import Divergence
    from rewind_nb._run import Step

__all__ = [
    "SIGNS",
    "action_name",
    "chip",
    "count",
    "error_box",
    "facts",
    "heading",
    "mono",
    "number",
    "page",
    "quoting",
    "seconds",
    "sha",
    "signed",
    "source_chip",
    "spent",
    "status_chip",
    "status_sign",
    "step_name",
    "title",
    "when",
]

SIGNS = {
    "live": "●",
    "cache": "↻",
    "tool-cache": "⚙\ufe0e",
    "override": "✎",
    "refused": "⊘",
    "render-cache": "▣",
    "reused": "≡",
    "inherited": "↑",
}
"""A sign for each source, readable without its colour."""

_STATUSES = {
    "complete": ("✓", "good"),
    "halted": ("‖", "warn"),
    "failed": ("✕", "bad"),
    "interrupted": ("✂\ufe0e", "warn"),
    "running": ("▸", "cache"),
    "open": ("▸", "cache"),
    "started": ("▸", "warn"),
}


def page(*children: Child) -> Html:
    """The whole of an output: style sheet and frame."""
    return join(tag("style", Html(CSS)), tag("div", *children, class_="rw"))


def heading(*children: Child) -> Html:
    """The first line of a page."""
    return tag("div", *children, class_="rw-head")


def title(words: Child) -> Html:
    """The heading of a section."""
    return tag("div", words, class_="rw-title")


def facts(*said: Child) -> Html:
    """Facts in one line, those that are None left out."""
    known = [fact for fact in said if fact is not None]
    parts: list[Child] = []
    for fact in known:
        parts += [" · ", fact] if parts else [fact]
    return tag("div", *parts, class_="rw-facts")


def chip(words: str, sign: str, colour: str) -> Html:
    """A label with a coloured sign."""
    return tag("span", tag("i", sign), words, class_=f"rw-chip rw-{colour}")


def source_chip(source: str) -> Html:
    """Where a value came from, as sign, colour and word."""
    return chip(source, SIGNS.get(source, "?"), source if source in SIGNS else "inherited")


def signed(step: Step) -> tuple[str, str]:
    """The sign of what a run did about a step, and the name of its colour."""
    if step.status != "complete":
        return "✕", "bad"
    if how(step) == "converged":
        return "»", "converged"
    return SIGNS.get(step.source, "?"), step.source


def status_chip(status: str) -> Html:
    """How a run, step or call ended."""
    return chip(status, *status_sign(status))


def status_sign(status: str) -> tuple[str, str]:
    """The sign of a status, and the name of its colour."""
    return _STATUSES.get(status, ("?", "inherited"))


def quoting(words: str, limit: int = 300) -> Html:
    """Words with the names in it, which stand between backticks, in a fixed-width face."""
    parts = words[:limit].split("`")
    return join(*(mono(part) if n % 2 else part for n, part in enumerate(parts)))


def mono(words: str, limit: int = 300) -> Html:
    """A piece of data in a fixed-width face."""
    return tag("span", text(words, limit), class_="rw-mono")


def sha(digest: str | None, length: int = 12) -> Html:
    """The start of a hash."""
    start = tag("span", (digest or "")[:length], class_="rw-mono rw-keep")
    return start if digest else tag("span", "(missing)", class_="rw-dim")


def number(value: Child) -> Html:
    """A table cell's content, aligned as a number."""
    return tag("div", value, class_="rw-n")


def count(amount: int, noun: str) -> str:
    """An amount with its noun.

    Example:
        >>> count(1, "step"), count(1200, "token")
        ('1 step', '1,200 tokens')
    """
    return f"{amount:,} {noun}" + ("" if amount == 1 else "s")


def seconds(duration: float | None) -> str:
    """A duration, always to the millisecond so that widths do not jump.

    Example:
        >>> seconds(0.0321), seconds(None)
        ('0.032 s', '-')
    """
    return "-" if duration is None else f"{duration:.3f} s"


def when(moment: float) -> str:
    """A moment in UTC, to the second."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M:%S")


def spent(usage: Usage | None) -> str:
    """Tokens in words; unknown where they are.

    Example:
        >>> spent(Usage(1200, 10)), spent(None)
        ('1,210 tokens', 'tokens unknown')
    """
    total = None if usage is None else usage.total_tokens
    return "tokens unknown" if total is None else count(total, "token")


def action_name(step: Step | Change | Divergence, limit: int = 60) -> Html:
    """An action, with the visit where it is not the first."""
    visit = tag("span", f" visit {step.visit}", class_="rw-dim") if step.visit > 1 else None
    return join(tag("b", text(step.action, limit)), visit)


def step_name(step: Change | Divergence) -> Html:
    """A step by its number and action; inside a task by its address."""
    if step.lane:
        return mono(step.address, 200)
    return join(f"{step.seq} ", action_name(step))


def error_box(kind: str, message: str, *more: Child) -> Html:
    """An exception."""
    said = join(tag("b", f"✕ {kind}"), ": ", text(message, 1_000))
    return tag("div", tag("span", said, class_="rw-prose"), *more, class_="rw-box rw-bad")
