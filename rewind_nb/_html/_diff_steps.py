"""The aligned steps of a diff: what each side did, and below a step its tasks that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rewind_nb._apart import not_run
from rewind_nb._html._markup import Html, join, row, table, tag
from rewind_nb._html._parts import action_name, chip, count, mono, source_chip, status_chip, title
from rewind_nb._label import shown
from rewind_nb._text import differing_tasks

if TYPE_CHECKING:
    from rewind_nb._compare import Diff, Pair
    from rewind_nb._run import Step

__all__ = ["KINDS", "ONLY", "aligned_steps"]

MAX_SHARED = 6  # shared steps listed
MAX_INSIDE = 16  # rows for the tasks of one step without folding
HEAD = ["action", "before", "after", ""]

KINDS = {
    "changed": ("~", "warn"),
    "added": ("+", "good"),
    "removed": ("-", "bad"),
    "type": ("τ", "override"),
    "order": ("⇅", "cache"),
    "failed": ("✕", "bad"),
    "interrupted": ("✂\ufe0e", "warn"),
    "open": ("▸", "warn"),
}
ONLY = {"before": ("only before", *KINDS["removed"]), "after": ("only after", *KINDS["added"])}


def aligned_steps(diff: Diff) -> Html:
    changed = Counter(found.pair for found in diff.found)
    hidden = max(0, diff.shared_steps - MAX_SHARED)
    words = f"Steps, after {hidden:,} more that are shared" if hidden else "Steps"
    roots = diff.nesting.lanes.get("", [])[hidden:]
    rows = (made for n in roots for made in _rows(diff, n, changed))
    return join(title(words), table(HEAD, rows, "… more steps than fit", 60_000))


def _rows(diff: Diff, n: int, changed: Counter[int]) -> Iterator[Html]:
    """A step, and those of its tasks that differ."""
    pair = diff.pairs[n]
    yield _pair(action_name(pair.shown), pair, changed[n])
    tasks, same = differing_tasks(diff, n) if None not in pair else ([], 0)
    if tasks and not_run(pair):
        words = f"{count(len(tasks), 'task')} not run: an override supplied the output"
        yield _note(words)
        return
    if same:
        words = f"{count(same, 'task')} the same"
        yield _note(words)
    inner = [made for task in tasks for made in _task(diff, n, *task, changed)]
    if len(inner) <= MAX_INSIDE:
        yield from inner
        return
    listed = table(HEAD, inner, "… more steps than fit; diff.pairs has them all", 24_000)
    words = f"{count(len(tasks), 'task')} that differ"
    folded = tag("details", tag("summary", words), tag("div", listed, class_="rw-inner"))
    yield tag("tr", tag("td", tag("div", folded, class_="rw-in"), colspan=4))


def _note(words: str) -> Html:
    return tag("tr", tag("td", tag("div", words, class_="rw-in rw-dim"), colspan=4))


def _task(diff: Diff, n: int, lane: str, span: range, changed: Counter[int]) -> Iterator[Html]:
    """The steps of a task; one that only one side has is a row."""
    outer = diff.pairs[n].shown.address
    sides = [[step for m in span if (step := diff.pairs[m][side])] for side in (0, 1)]
    if all(sides):
        for m in span:
            pair = diff.pairs[m]
            name = mono(shown(pair.shown.address.removeprefix(outer)), 120)
            yield _pair(tag("div", name, class_="rw-in"), pair, changed[m])
        return
    cells = (
        tag("span", count(len(steps), "step") if steps else "-", class_="rw-dim") for steps in sides
    )
    name = tag("div", mono(shown(lane.removeprefix(outer)), 120), class_="rw-in")
    yield row(name, *cells, chip(*ONLY["before" if sides[0] else "after"]))


def _pair(name: Html, pair: Pair, changes: int) -> Html:
    if pair.before is None or pair.after is None:
        verdict = chip(*ONLY["after" if pair.before is None else "before"])
    elif pair.same and not changes:
        verdict = tag("span", "= same hash", class_="rw-dim")
    else:  # a step of the same hash may have been given other inputs
        verdict = chip(count(changes, "change"), *KINDS["changed"])
    return row(name, _side(pair.before), _side(pair.after), verdict)


def _side(step: Step | None) -> Html:
    if step is None:
        return tag("span", "-", class_="rw-dim")
    failed = None if step.status == "complete" else join(" ", status_chip(step.status))
    return tag("span", f"{step.seq} ", source_chip(step.source), failed, class_="rw-keep")
