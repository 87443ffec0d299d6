"""The tasks of a step: the way each took through its graph, how it ended, what it cost.

A few stand open; of many the block is folded, with their number and how they ended for its
summary. What failed or was replaced is among those that are listed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rewind_nb._html._markup import Child, Html, join, note, row, table, tag
from rewind_nb._html._parts import (
    SIGNS,
    chip,
    count,
    error_box,
    mono,
    number,
    quoting,
    seconds,
    sha,
    source_chip,
    status_chip,
    title,
)
from rewind_nb._text import PAID_ELSEWHERE, Task, chosen, tasks_of, why, why_inside

if TYPE_CHECKING:
    from rewind_nb._model import Usage
    from rewind_nb._steps import Step

__all__ = ["block", "calls_of", "notes", "sections", "step_source", "tokens_of", "uncaptured"]

TIMES = " \u00d7"
MAX_OPEN = 8  # tasks that are shown without folding
MAX_TASKS = 40
MAX_INNER = 6  # tasks of a step that is in a task itself
MAX_DEPTH = 3  # of tasks inside tasks
MAX_BLOCK = 30_000  # characters of markup


def block(step: Step, start: Step | None = None, budget: int = MAX_BLOCK) -> Html | None:
    """The tasks of a step as a table, a line each.

    Args:
        start: the step that a fork starts at, which may be in one of them.
        budget: characters of markup; none are listed where there is no room.
    """
    tasks = tasks_of(step)
    if not tasks:
        return None
    told = chosen(tasks, MAX_TASKS if budget > 0 else 0)
    head = ["task", "way", "source", "calls", number("tokens"), number("time"), "wrote"]
    rows = (made for task in told for made in _rows(task, step, start))
    listed = table(head, rows, f"… more tasks than fit; {_whose(step)} has them all", budget)
    parts = [listed if told else None, _left(step, len(tasks) - len(told))]
    parts += [tag("div", quoting(words), class_="rw-line rw-dim") for words in why_inside(step)]
    if len(tasks) <= MAX_OPEN and told:
        return tag("div", _summary(tasks), *parts, class_="rw-inner")
    inner = tag("div", *parts, class_="rw-inner")
    return tag("details", tag("summary", _summary(tasks)), inner)


def _left(step: Step, left: int) -> Html | None:
    words = f"… {count(left, 'more task')}; {_whose(step)} has them all"
    return note(words) if left else None


def _summary(tasks: list[Task]) -> Html:
    """How many tasks, and how they ended."""
    ended = Counter(task.status for task in tasks)
    said: list[Child] = [tag("b", count(len(tasks), "task")), " "]
    if len(ended) == 1:
        said.append(status_chip(tasks[0].status))
    else:
        said += [join(f" {n:,} ", status_chip(status)) for status, n in ended.items()]
    return tag("span", *said, class_="rw-keep")


def _whose(step: Step) -> str:
    return f'run["{step.action[:60]}", {step.visit}].tasks' if not step.path else "step.tasks"


def _rows(task: Task, outer: Step, start: Step | None) -> Iterator[Html]:
    own = not task.paid_elsewhere
    wrote = dict.fromkeys(key for step in task.steps for key, _ in step.row.writes)
    forked = tag("span", " ▼ fork", class_="rw-dim rw-keep") if task.holds(start) else None
    yield row(
        join(mono(task.key, 60), forked),
        _way(task),
        _sources(task),
        tag("span", calls_of(task.calls) if own else "-", class_="rw-keep"),
        number(tokens_of(task.usage) if own else "-"),
        number(seconds(task.duration_s)),
        mono(", ".join(wrote) or "-", 160),
    )
    below = [_error(task.steps[-1], outer), *(made for step in task.steps for made in _lines(step))]
    inside = (inner for step in task.steps for inner in (step, *step.inside()))
    below += [uncaptured(inner) for inner in inside if inner.uncaptured]
    if any(below):
        yield tag("tr", tag("td"), tag("td", *below, colspan=6))


def _error(step: Step, outer: Step) -> Html | None:
    """How a step failed, where that is not what the step around it says already."""
    error, told = step.error, outer.error
    if error is None or (told is not None and told.message == error.message):
        return None
    return error_box(error.type, error.message)


def _lines(step: Step, depth: int = 1) -> Iterator[Html]:
    """The tasks of a step that is in a task itself, each in a line."""
    tasks = tasks_of(step)
    told = chosen(tasks, MAX_INNER)
    for task in told:
        place = f"{step.action}:{step.visit}[{task.key}]"
        yield tag("div", mono(place, 100), " ", *_said(task), class_="rw-line")
        for inner in task.steps:
            if depth < MAX_DEPTH:
                yield from (tag("div", made, class_="rw-in") for made in _lines(inner, depth + 1))
    left = _left(step, len(tasks) - len(told))
    yield from () if left is None else [left]


def _said(task: Task) -> list[Child]:
    """The way of a task, where its values came from and what it cost."""
    tokens = tokens_of(task.usage)
    cost = (calls_of(task.calls), "-" if tokens == "-" else f"{tokens} tokens")
    told = [words for words in cost if words != "-" and not task.paid_elsewhere]
    words = " · ".join(["", *told, seconds(task.duration_s)])
    return [_way(task), " ", _sources(task), tag("span", words, class_="rw-dim")]


def _way(task: Task) -> Html:
    """The actions a task took, each with the sign of its source."""
    legs, more = task.way()
    said: list[Child] = []
    for step, times in legs:
        bad = step.status != "complete"
        words = f"{step.action[:40]}{TIMES}{times}" if times > 1 else step.action[:40]
        sign = "✕" if bad else SIGNS.get(step.source, "?")
        said += [" → " if said else None, chip(words, sign, "bad" if bad else step.source)]
    if more:
        said.append(tag("span", f" → {more} more", class_="rw-cut"))
    return tag("div", *said, class_="rw-way")


def _sources(task: Task) -> Html:
    """Where the values of a task came from, or how it ended where it did not complete."""
    if task.status != "complete":
        return status_chip(task.status)
    words = ", ".join(task.sources)
    return tag("span", words, class_="rw-dim rw-keep")


# -- on the page of a step ------------------------------------------------------------------


def sections(step: Step) -> Html | None:
    """The tasks of a step, each with its steps."""
    tasks = tasks_of(step)
    if not tasks:
        return None
    told = chosen(tasks, MAX_TASKS)
    kept: list[Html] = []
    room = 2 * MAX_BLOCK
    for task in told:
        made = _section(task, step, opened=len(tasks) <= 3 or not task.quiet)
        room -= len(made)
        if room < 0:
            break
        kept.append(made)
    more = _left(step, len(tasks) - len(kept))
    if len(tasks) <= MAX_OPEN:
        return join(title("Tasks"), tag("div", _summary(tasks)), *kept, more)
    inner = tag("div", *kept, more, class_="rw-inner")
    return join(title("Tasks"), tag("details", tag("summary", _summary(tasks)), inner))


def _section(task: Task, outer: Step, *, opened: bool) -> Html:
    head = ["step", "source", "calls", *map(number, ("tokens", "time")), "wrote", "hash"]
    rows = (made for step in task.steps for made in _step_rows(step, outer))
    steps = table(head, rows, "… more steps than fit; step.tasks has them all", 12_000)
    summary = tag("summary", tag("b", mono(task.key, 60)), " ", *_said(task))
    return tag(
        "details", summary, tag("div", steps, class_="rw-inner"), open="" if opened else None
    )


def _step_rows(step: Step, outer: Step) -> Iterator[Html]:
    own = step.source not in PAID_ELSEWHERE
    yield row(
        mono(f"{step.action}:{step.visit}", 100),
        step_source(step),
        tag("span", calls_of(step.total_calls) if own else "-", class_="rw-keep"),
        number(tokens_of(step.total_usage) if own else "-"),
        number(seconds(step.duration_s)),
        mono(", ".join(key for key, _ in step.row.writes) or "-", 160),
        sha(step.hash, 10),
    )
    below = [_error(step, outer), *notes(step), *_lines(step)]
    if any(below):
        yield tag("tr", tag("td", *below, colspan=7))


# -- what pages of runs and steps say alike ---------------------------------------------------


def step_source(step: Step) -> Html:
    """Where a step's values came from, or how it ended where it did not complete."""
    return source_chip(step.source) if step.status == "complete" else status_chip(step.status)


def calls_of(calls: tuple[int, int]) -> str:
    """Calls made live and played back, in words."""
    return ", ".join(f"{n} {w}" for n, w in zip(calls, ("live", "played"), strict=True) if n) or "-"


def tokens_of(usage: Usage | None) -> str:
    """Tokens as a cell of a table."""
    total = None if usage is None else usage.total_tokens
    return "unknown" if total is None else f"{total:,}" if total else "-"


def notes(step: Step) -> Iterator[Html]:
    """What a step put out, why one of a task executed or not, where something went unrecorded."""
    if step.stream is not None:
        words = f"streamed {count(len(step.stream), 'chunk')}"
        yield tag("div", words, class_="rw-line rw-dim")
    if step.path and (words := why(step)):
        yield tag("div", quoting(words), class_="rw-line rw-dim")
    if (went := uncaptured(step)) is not None:
        yield went


def uncaptured(step: Step) -> Html | None:
    """Where something went that was not recorded."""
    if not step.uncaptured:
        return None
    place = join(" of ", mono(step.address, 200)) if step.path else None
    where = mono(", ".join(step.uncaptured), 400)
    said = ("Went out", place, " and was not recorded: ", where)
    return tag("div", *said, class_="rw-box rw-warn")
