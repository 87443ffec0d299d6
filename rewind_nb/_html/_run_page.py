"""A run: where it came from, its graph, its steps, what it asked and what it made."""

from __future__ import annotations

from collections import Counter
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
    quoting,
    seconds,
    sha,
    signed,
    source_chip,
    spent,
    status_chip,
    title,
    when,
)
from rewind_nb._html._tasks import block, calls_of, notes, step_source, tokens_of
from rewind_nb._text import HOW, PAID_ELSEWHERE, how

if TYPE_CHECKING:
    from rewind_nb._run import Run, Step

__all__ = ["run_html", "run_line"]

MAX_ASKING = 400  # steps whose calls are read for the summary
MAX_STEPS = 84_000  # characters of markup in the table of steps
MAX_TASKS = 48_000  # of it for tasks
MAX_WHY = 1_000  # characters of an exact reason


def run_html(run: Run) -> str:
    """A run as one self-contained piece of HTML, without script.

    Example:
        >>> run_html(run).count("<svg")  # doctest: +SKIP
        1
    """
    return page(
        heading(tag("b", "Run "), mono(run.id), _label(run), status_chip(run.status)),
        run_line(run),
        _overrides(run),
        _totals(run),
        tag("div", run.note, class_="rw-box rw-warn") if run.note else None,
        graph(run),
        _legend(run),
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


def _overrides(run: Run) -> Html | None:
    """What came of the overrides of a fork, where their words do not say it."""
    said = [
        tag("div", quoting(given.outcome), f", by {given.step}" if given.step else None)
        for given in run.consumed
        if given.telling
    ]
    return tag("div", *said, class_="rw-line rw-dim") if said else None


def _label(run: Run) -> Html | None:
    return tag("span", text(run.label, 80)) if run.label else None


def _totals(run: Run) -> Html:
    own = [step for step in run.steps if step.source not in PAID_ELSEWHERE]
    live, played = map(sum, zip((0, 0), *(step.total_calls for step in own), strict=True))
    inside = sum(1 for step in run.walk() if step.path)
    took = sum(step.duration_s or 0 for step in own)
    waiting = run.next_action is not None and run.status != "failed"
    return facts(
        count(len(run), "step"),
        f"{len(own)} its own" if len(own) < len(run) else None,
        f"{inside:,} more in tasks" if inside else None,
        count(live, "live call"),
        f"{played} played back" if played else None,
        spent(run.usage),
        seconds(took),
        f"started {when(own[0].started_at)} UTC" if own else None,
        join("next: ", tag("b", text(run.next_action or "", 60))) if waiting else None,
    )


def _legend(run: Run) -> Html | None:
    """What a fork did about its steps, with the signs of the graph."""
    if run.kind != "fork":
        return None
    counted = Counter((how(step), *signed(step)) for step in run.steps)
    said = []
    for did, sign, colour in sorted(counted, key=lambda told: HOW.index(told[0])):
        words = f"{counted[did, sign, colour]:,} {did}"
        if did == "executed" and colour != "live":
            words += ", failed" if colour == "bad" else f", {colour}"
        said.append(tag("span", tag("i", sign), words, class_=f"rw-{colour}"))
    return tag("div", *said, class_="rw-legend")


# -- steps ----------------------------------------------------------------------------


def _steps(run: Run) -> Html | None:
    if not len(run):
        return tag("div", "no step was executed", class_="rw-dim")
    numbers = [number("step"), number("tokens"), number("time")]
    reasons = ["why"] if run.kind == "fork" else []
    head = [numbers[0], "action", "source", *reasons, "calls", *numbers[1:], "wrote", "hash"]
    left_out = f"… more steps than fit; run.steps_df() has all {len(run)}"
    return join(title("Steps"), table(head, _rows(run), left_out, MAX_STEPS))


def _rows(run: Run) -> Iterator[Html]:
    """The rows of the steps, each with its tasks; these have a room that all of them share."""
    room, start = MAX_TASKS, run.forked_step
    for step in run.steps:
        yield from _step_rows(run, step)
        made = block(step, start, room // 2)
        if made is not None:
            room -= len(made)
            yield _below(run, made)


def _step_rows(run: Run, step: Step) -> Iterator[Html]:
    own = step.source not in PAID_ELSEWHERE
    yield row(
        number(step.seq),
        action_name(step),
        step_source(step),
        *([_why(run, step)] if run.kind == "fork" else []),
        tag("span", calls_of(step.total_calls) if own else "-", class_="rw-keep"),
        number(tokens_of(step.total_usage) if own else "-"),
        number(seconds(step.duration_s)),
        mono(", ".join(key for key, _ in step.row.writes) or "-", 160),
        sha(step.hash, 10),
    )
    error = None if step.error is None else error_box(step.error.type, step.error.message)
    below = [error, *notes(step)]
    if any(below):
        yield _below(run, *below)


def _below(run: Run, *parts: Child) -> Html:
    """A row below that of a step."""
    return tag("tr", tag("td"), tag("td", *parts, colspan=8 if run.kind == "fork" else 7))


def _why(run: Run, step: Step) -> Html:
    """The reason in few words; unfolded, exactly."""
    reason, because = step.reason or "", run.explanation.of(step)
    words = quoting(reason)
    if because is not None and because != reason:
        exact = tag("div", quoting(because, MAX_WHY), class_="rw-line rw-dim")
        words = tag("details", tag("summary", words), exact)
    return tag("div", words, class_="rw-why")


# -- calls and artifacts ---------------------------------------------------------------


class _Tally:
    """What one model or tool was asked in a run."""

    def __init__(self) -> None:
        self.live = self.played = self.failed = 0
        self.tokens: int | None = 0
        self.latency = 0.0


def _calls(run: Run) -> Html | None:
    """The run's own calls, by what was asked."""
    own = [step for step in run.walk() if step.source not in PAID_ELSEWHERE and _asked(step)]
    tallies: dict[tuple[str, str], _Tally] = {}
    for step in own[:MAX_ASKING]:
        for call in step.calls:
            asked = call.model or call.name
            if call.mismatched_model:
                asked += f", answered by {call.answered_by}"
            tally = tallies.setdefault((call.kind, asked), _Tally())
            tally.failed += call.status == "failed"
            tally.live += call.source == "live"
            tally.played += call.source not in ("live", "refused")
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
    words = f"Calls of the first {MAX_ASKING} of its own steps that made any" if more else "Calls"
    return join(title(words), table(head, rows, "… more; run.calls_df() has them all", 16_000))


def _asked(step: Step) -> bool:
    return bool(step.live_calls or step.played_calls or step.row.status == "open")


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
