"""A run as a table of its steps, and runs as a tree of forks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from rewind_nb._describe import plural
from rewind_nb._text._shown import WIDTH, cell, middle, page

if TYPE_CHECKING:
    from rewind_nb._run import Run, Step

__all__ = ["PAID_ELSEWHERE", "forest", "run_text", "tree_text"]

PAID_ELSEWHERE = ("inherited", "reused")
"""Sources of steps that cost the run nothing."""


def run_text(run: Run) -> str:
    """The steps of a run, one line each, marked ``.`` where an ancestor executed it, ``*``
    where this run did, ``>`` where a fork starts and ``x`` where it failed.
    """
    return page(_run_lines(run))


def _run_lines(run: Run) -> Iterator[str]:
    label = f" {run.label!r}" if run.label else ""
    yield f"run {run.id}{label}, {run.status}, {run.kind}"
    if run.kind != "record":
        yield f"    {middle(run.describe(), WIDTH - 4)}"
    head = [cell("seq action", 30), cell("visit", 5), cell("source", 12)]
    yield f"    {' '.join(head)} live/played   tokens   duration hash"
    start = None if run.origin is None else run.origin.at
    for step in run.steps:
        yield f"  {_mark(run, step, start)} {_step_cells(step)}"
        if step.error is not None:
            yield f"      {step.error.type}: {step.error.message}"
    if run.next_action and run.status != "failed":
        yield f"    next: {run.next_action}"
    for made in run.artifacts:
        yield f"    wrote {made.name} ({made.size} bytes, sha256 {made.sha256[:12]}, {made.source})"
    yield f"    {_totals(run)}"
    if run.note:
        yield f"    note: {run.note}"


def _mark(run: Run, step: Step, start: int | None) -> str:
    if step.status == "failed":
        return "x"
    own = "*" if step.run_id == run.id else "."
    return ">" if step.seq == start and run.kind == "fork" else own


def _step_cells(step: Step) -> str:
    own = step.source not in PAID_ELSEWHERE
    calls = f"{step.live_calls}/{step.played_calls}" if own else "-"
    took = f"{step.duration_s:.3f} s" if step.duration_s is not None else step.status
    left = f"{step.seq:>3} {cell(step.action, 26)} {step.visit:>5} {cell(step.source, 12)}"
    return f"{left} {calls:>11} {_tokens(step, own):>8} {took:>10} {(step.hash or '-')[:12]}"


def _tokens(step: Step, own: bool) -> str:
    if not own:
        return "-"
    total = None if step.usage is None else step.usage.total_tokens
    return "?" if total is None else str(total or "-")


def _totals(run: Run) -> str:
    own = [step for step in run.steps if step.source not in PAID_ELSEWHERE]
    live, played = sum(s.live_calls for s in own), sum(s.played_calls for s in own)
    total = None if run.usage is None else run.usage.total_tokens
    spent = "tokens unknown" if total is None else plural(total, "token")
    steps, calls = plural(len(run), "step"), plural(live, "live call")
    return f"{steps}, {calls}, {played} played back, {spent}"


def tree_text(runs: Iterable[Run]) -> str:
    """Every run on a line, each fork under its parent with its step and override."""
    return page(_tree_line(prefix, run) for prefix, run in forest(runs)) or "no runs"


def _tree_line(prefix: str, run: Run) -> str:
    label = f" {run.label!r}" if run.label else ""
    line = f"{prefix[-48:]}{run.id}{label}"
    if run.status != "complete" or run.kind == "record":
        line += f" {run.status},"
    words = plural(len(run), "step") if run.kind == "record" else run.describe()
    return f"{line} {middle(words, max(40, WIDTH - 1 - len(line)))}"


def forest(runs: Iterable[Run]) -> Iterator[tuple[str, Run]]:
    """Each run with the branches to draw before it, parents before their forks.

    A run whose parent is not among *runs* stands at the root.
    """
    known = {run.id: run for run in runs}
    below: dict[str | None, list[Run]] = {}
    for run in known.values():
        parent = run.origin.parent if run.origin and run.origin.parent in known else None
        below.setdefault(parent, []).append(run)
    waiting = [("", "", run) for run in reversed(below.get(None, []))]
    while waiting:
        indent, branch, run = waiting.pop()
        yield indent + branch, run
        forks = below.get(run.id, [])
        inner = indent + {"": "", "├─ ": "│  ", "└─ ": "   "}[branch]
        branches = ["├─ "] * (len(forks) - 1) + ["└─ "]
        waiting += reversed([(inner, b, f) for b, f in zip(branches, forks, strict=False)])
