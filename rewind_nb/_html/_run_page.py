"""A run: where it came from, its graph, its steps, what it asked and what it made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rewind_nb._html._graph import graph
from rewind_nb._html._markup import Child, Html, join, row, table, tag, text
from rewind_nb._html._parts import (
    action_name,
    chip,
    count,
    error_box,
    facts,
    heading,
    mono,
    number,
    page,
    seconds,
    sha,
    source_chip,
    spent,
    status_chip,
    title,
    when,
)
from rewind_nb._text import PAID_ELSEWHERE

if TYPE_CHECKING:
    from rewind_nb._run import Run, Step

__all__ = ["run_html", "run_line"]

MAX_ASKING = 400  # steps whose calls are read for the summary


def run_html(run: Run) -> str:
    """A run as one self-contained piece of HTML, without script.

    Example:
        >>> run_html(run).count("<svg")  # doctest: +SKIP
        1
    """
    return page(
        heading(tag("b", "Run "), mono(run.id), _label(run), status_chip(run.status)),
        run_line(run),
        _totals(run),
        tag("div", run.note, class_="rw-box rw-warn") if run.note else None,
        graph(run),
        _steps(run),
        _calls(run),
        _artifacts(run),
    )


def run_line(run: Run) -> Html | None:
    """Where a fork or a replay came from, and what it replaced."""
    origin = run.origin
    if origin is None:
        return None
    said: list[Child] = [chip(run.kind, "↳" if run.kind == "fork" else "↻", "override")]
    said += [" of ", mono(origin.parent), " at ", text(run.at_step or "", 80)]
    if run.kind == "fork":
        said += [": ", tag("b", text(run.override_words, 300))]
    return tag("div", *said, class_="rw-line")


def _label(run: Run) -> Html | None:
    return tag("span", text(run.label, 80)) if run.label else None


def _totals(run: Run) -> Html:
    own = [step for step in run.steps if step.source not in PAID_ELSEWHERE]
    live, played = sum(s.live_calls for s in own), sum(s.played_calls for s in own)
    took = sum(step.duration_s or 0 for step in own)
    waiting = run.next_action is not None and run.status != "failed"
    return facts(
        count(len(run), "step"),
        f"{len(own)} its own" if len(own) < len(run) else None,
        count(live, "live call"),
        f"{played} played back" if played else None,
        spent(run.usage),
        seconds(took),
        f"started {when(own[0].started_at)} UTC" if own else None,
        join("next: ", tag("b", text(run.next_action or "", 60))) if waiting else None,
    )


# -- steps ----------------------------------------------------------------------------


def _steps(run: Run) -> Html | None:
    if not len(run):
        return tag("div", "no step was executed", class_="rw-dim")
    numbers = [number("step"), number("tokens"), number("time")]
    head = [numbers[0], "action", "source", "calls", *numbers[1:], "wrote", "hash"]
    left_out = f"… more steps than fit; run.steps_df() has all {len(run)}"
    rows = (made for step in run.steps for made in _step_rows(step))
    return join(title("Steps"), table(head, rows, left_out))


def _step_rows(step: Step) -> Iterator[Html]:
    own = step.source not in PAID_ELSEWHERE
    yield row(
        number(step.seq),
        action_name(step),
        source_chip(step.source) if step.status == "complete" else status_chip(step.status),
        tag("span", _calls_of(step) if own else "-", class_="rw-keep"),
        number(_tokens_of(step) if own else "-"),
        number(seconds(step.duration_s)),
        mono(", ".join(key for key, _ in step.row.writes) or "-", 160),
        sha(step.hash, 10),
    )
    if step.error is not None:
        box = error_box(step.error.type, step.error.message)
        yield tag("tr", tag("td"), tag("td", box, colspan=7))


def _calls_of(step: Step) -> str:
    kinds = ((step.live_calls, "live"), (step.played_calls, "played"))
    return ", ".join(f"{n} {words}" for n, words in kinds if n) or "-"


def _tokens_of(step: Step) -> str:
    total = None if step.usage is None else step.usage.total_tokens
    return "unknown" if total is None else f"{total:,}" if total else "-"


# -- calls and artifacts ---------------------------------------------------------------


class _Tally:
    """What one model or tool was asked in a run."""

    def __init__(self) -> None:
        self.live = self.played = self.failed = 0
        self.tokens: int | None = 0
        self.latency = 0.0


def _calls(run: Run) -> Html | None:
    """The run's own calls, by what was asked."""
    own = [step for step in run.steps if step.source not in PAID_ELSEWHERE]
    tallies: dict[tuple[str, str], _Tally] = {}
    for step in own[:MAX_ASKING]:
        for call in step.calls:
            asked = call.model or call.name
            if call.mismatched_model:
                asked += f", answered by {call.answered_by}"
            tally = tallies.setdefault((call.kind, asked), _Tally())
            tally.failed += call.status == "failed"
            tally.live += call.source == "live"
            tally.played += call.source != "live"
            tally.latency += call.latency_s or 0
            if call.kind == "model" and call.source == "live" and call.status == "complete":
                total = None if call.usage is None else call.usage.total_tokens
                known = tally.tokens is not None and total is not None
                tally.tokens = (tally.tokens or 0) + (total or 0) if known else None
    if not tallies:
        return None
    rows = (_call_row(kind, asked, tally) for (kind, asked), tally in tallies.items())
    head = ["kind", "asked", *map(number, ("live", "played back", "failed", "tokens", "time"))]
    more = len(own) > MAX_ASKING
    words = f"Calls of the first {MAX_ASKING} of its own steps" if more else "Calls"
    return join(title(words), table(head, rows, "… more; run.calls_df() has them all", 16_000))


def _call_row(kind: str, asked: str, tally: _Tally) -> Html:
    tokens = "-" if kind != "model" else "unknown" if tally.tokens is None else f"{tally.tokens:,}"
    return row(
        tag("span", kind, class_="rw-keep"),
        mono(asked, 120),
        number(tally.live),
        number(tally.played),
        number(tally.failed or "-"),
        number(tokens),
        number(seconds(tally.latency)),
    )


def _artifacts(run: Run) -> Html | None:
    if not run.artifacts:
        return None
    rows = (
        row(mono(a.name, 120), number(f"{a.size:,}"), sha(a.sha256), source_chip(a.source))
        for a in run.artifacts
    )
    head = ["artifact", number("bytes"), "sha256", "source"]
    return join(title("Artifacts"), table(head, rows, "… more; run.artifacts has them all", 12_000))
