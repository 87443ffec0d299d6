"""A run as a table of its steps, and runs as a tree of forks.

The tasks of a step stand below it, each with the way it took::

      *   0 each                           1 live                 5/0        -    0.012 s 5d1c...
      *     [0] search -> grade              live                 1/0        -    0.004 s
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from rewind_nb._describe import plural
from rewind_nb._label import shown
from rewind_nb._model import Usage
from rewind_nb._steps import PAID_ELSEWHERE
from rewind_nb._text._how import why, why_inside
from rewind_nb._text._shown import WIDTH, cell, middle, page
from rewind_nb._text._tasks import Task, chosen, tasks_of

if TYPE_CHECKING:
    from rewind_nb._run import Run, Step

__all__ = ["PAID_ELSEWHERE", "forest", "run_text", "tree_text"]

MAX_TASKS = 12  # of a step that are listed
MAX_INNER = 4  # of a step that is in a task itself
MAX_DEPTH = 3  # of tasks inside tasks


def run_text(run: Run) -> str:
    """The steps of a run, one line each, marked ``.`` where an ancestor executed it, ``*``
    where this run did, ``>`` where a fork starts and ``x`` where it failed. The calls and
    tokens of a step with tasks are those of its tasks as well. Below steps of a fork stands why
    they executed or did not.
    """
    return page(_run_lines(run))


def _run_lines(run: Run) -> Iterator[str]:
    label = f" {run.label!r}" if run.label else ""
    yield f"run {run.id}{label}, {run.status}, {run.kind}"
    if run.kind != "record":
        yield f"    {middle(run.describe(), WIDTH - 4)}"
        yield from (f"    {given.telling}" for given in run.consumed if given.telling)
    head = [cell("seq action", 30), cell("visit", 5), cell("source", 12)]
    yield f"    {' '.join(head)} live/played   tokens   duration hash"
    start = run.forked_step
    for reason, steps in groupby(run.steps, why):
        alike = list(steps)
        for step in alike:
            yield f"  {_mark(run, step, start)} {_step_cells(step)}"
            if step.error is not None:
                yield f"      {step.error.type}: {step.error.message}"
            yield from _notes(step)
            yield from _task_lines(run, step, start)
            yield from (f"      {words}" for words in why_inside(step))
        if reason:
            yield f"      {reason}" + (f" (all {len(alike)})" if len(alike) > 1 else "")
    if run.next_action and run.status != "failed":
        yield f"    next: {run.next_action}"
    for made in run.artifacts:
        yield f"    wrote {made.name} ({plural(made.size, 'byte')}, sha256 {made.sha256[:12]}, {made.source})"
    yield f"    {_totals(run)}"
    if run.note:
        yield f"    note: {run.note}"


def _mark(run: Run, step: Step, start: Step | None) -> str:
    if step.status == "failed":
        return "x"
    own = "*" if step.run_id == run.id else "."
    return ">" if start is not None and step.seq == start.top.seq else own


def _step_cells(step: Step) -> str:
    own = step.source not in PAID_ELSEWHERE
    calls, tokens = _cost(step.total_calls, step.total_usage, own=own)
    took = f"{step.duration_s:.3f} s" if step.duration_s is not None else step.status
    left = f"{step.seq:>3} {cell(step.action, 26)} {step.visit:>5} {cell(step.source, 12)}"
    return f"{left} {calls:>11} {tokens:>8} {took:>10} {(step.hash or '-')[:12]}"


def _cost(calls: tuple[int, int], usage: Usage | None, *, own: bool) -> tuple[str, str]:
    """Calls and tokens, where the run paid for them."""
    if not own:
        return "-", "-"
    total = None if usage is None else usage.total_tokens
    return f"{calls[0]}/{calls[1]}", "?" if total is None else str(total or "-")


def _notes(step: Step) -> Iterator[str]:
    """What a step put out, and where it or its tasks went unrecorded."""
    if step.stream is not None:
        yield f"      streamed {plural(len(step.stream), 'chunk')}"
    for inner in (step, *step.inside()):
        if inner.uncaptured:
            where = shown(inner.address.removeprefix(step.address))
            went = "went out and was not recorded"
            yield f"      {f'{where} {went}' if where else went}: {', '.join(inner.uncaptured)}"


def _task_lines(run: Run, step: Step, start: Step | None, depth: int = 0) -> Iterator[str]:
    tasks = tasks_of(step)
    told = chosen(tasks, MAX_INNER if depth else MAX_TASKS)
    place = f"{step.action}:{step.visit}" if depth else ""
    for task in told:
        name = f"{'  ' * depth}{place}[{task.key}] {task.way_text()}"
        yield f"  {_task_mark(run, task, start)}     {_task_cells(name, task)}"
        error = task.steps[-1].error
        if error is not None and error.message != (step.error and step.error.message):
            yield f"          {'  ' * depth}{error.type}: {error.message}"
        if depth + 1 < MAX_DEPTH:
            for inner in task.steps:
                yield from _task_lines(run, inner, start, depth + 1)
    if len(told) < len(tasks):
        yield f"        {'  ' * depth}{plural(len(tasks) - len(told), 'more task')}"


def _task_mark(run: Run, task: Task, start: Step | None) -> str:
    if task.status == "failed":
        return "x"
    if task.holds(start):
        return ">"
    return "*" if any(step.executed_key[0] == run.id for step in task.steps) else "."


def _task_cells(name: str, task: Task) -> str:
    calls, tokens = _cost(task.calls, task.usage, own=not task.paid_elsewhere)
    how = ", ".join(task.sources) if task.status == "complete" else task.status
    took = f"{task.duration_s:.3f} s"
    return f"{cell(name, 32)} {cell(how, 23 - len(calls))} {calls} {tokens:>8} {took:>10}"


def _totals(run: Run) -> str:
    own = [step for step in run.steps if step.source not in PAID_ELSEWHERE]
    live, played = map(sum, zip((0, 0), *(step.total_calls for step in own), strict=True))
    total = None if run.usage is None else run.usage.total_tokens
    spent = "tokens unknown" if total is None else plural(total, "token")
    inside = sum(1 for step in run.walk() if step.path)
    steps = plural(len(run), "step") + (f" and {inside} in tasks" if inside else "")
    return f"{steps}, {plural(live, 'live call')}, {played} played back, {spent}"


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
