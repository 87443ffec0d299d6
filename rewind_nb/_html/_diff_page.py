"""A diff: where two runs part, what changed in each step and why, and how each ended.

Prose is compared word by word, in place. Texts of any length are affordable: what both
start and end with is cut off first, and of long stretches that stayed the same only the
ends are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rewind_nb._changes import only_side
from rewind_nb._diff import MISSING
from rewind_nb._html._diff_steps import KINDS, ONLY, aligned_steps
from rewind_nb._html._markup import Child, Html, join, row, table, tag, text
from rewind_nb._html._parts import (
    chip,
    count,
    facts,
    heading,
    mono,
    page,
    sha,
    status_chip,
    step_name,
    title,
)
from rewind_nb._html._value import facing, shown
from rewind_nb._label import shown as printed
from rewind_nb._secrets import redact
from rewind_nb._text import UNFINISHED, Told, chains, told
from rewind_nb._words import shared_ends, word_diff

if TYPE_CHECKING:
    from rewind_nb._compare import Change, Diff
    from rewind_nb._divergence import Divergence

__all__ = ["diff_html", "divergence_box", "is_prose", "prose"]

MAX_PROSE = 3_000  # characters of each side that are compared word by word
MAX_CHAINS = 6
KEPT = 120  # characters at each end of a stretch that stayed the same


def diff_html(diff: Diff) -> str:
    """A diff as one self-contained piece of HTML, without script.

    Example:
        >>> "<ins>" in diff_html(rw.diff(run, fork))  # doctest: +SKIP
        True
    """
    return page(
        heading(tag("b", "Diff "), mono(diff.a.id), "→", mono(diff.b.id), _verdict(diff)),
        *_overrides(diff),
        _whence(diff),
        *(tag("div", words, class_="rw-box rw-warn") for words in diff.mismatched_models),
        _first(diff),
        aligned_steps(diff),
        _changes(diff),
        _artifacts(diff),
        _outcome(diff),
    )


def divergence_box(first: Divergence, name: str, only: str | None = None) -> Html:
    """A first difference: where, both values, and why; or where *only* one run has the step."""
    step = join(tag("b", name), ": step ", step_name(first), " ")
    where = join(step, mono(first.where) if only is None else f"only in {only}")
    both = first.before, first.after
    if all(map(is_prose, both)):
        values = tag("div", prose(*both), class_="rw-line")
    else:
        old, new = facing(*both)
        values = tag("div", old, " → ", new, class_="rw-line")
    why = tag("div", "cause: ", text(first.why, 1_000), class_="rw-line")
    differs = first.path and only is None
    return tag("div", where, values if differs else None, why, class_="rw-box rw-warn")


def _verdict(diff: Diff) -> Html:
    if diff.identical:
        return chip(f"identical, {count(len(diff.pairs), 'step')}", "=", "good")
    changed = count(diff.changed_steps, "step")
    return chip(f"{count(len(diff.changes), 'change')} in {changed}", "≠", "warn")


def _overrides(diff: Diff) -> Iterator[Html]:
    """The override of a fork; where both sides, or only the first, have any, with the side."""
    all_after = all(given.side == "after" for given in diff.overrides)
    for given in diff.overrides:
        label = chip("override" if all_after else f"override {given.side}", "✎", "override")
        where = tag("span", f" at {given.label.removeprefix('step ')}", class_="rw-dim")
        yield tag("div", label, " ", tag("b", given.words), where, class_="rw-line")


def _whence(diff: Diff) -> Html:
    ancestor, role = diff.ancestor, None
    shared = f"{count(diff.shared_steps, 'step')} shared"
    if ancestor is None:
        return facts("no common ancestor: recorded independently", shared)
    if ancestor.id in (diff.a.id, diff.b.id):
        role = " (before)" if ancestor.id == diff.a.id else " (after)"
    return facts(join("ancestor ", mono(ancestor.id), role), shared)


def _first(diff: Diff) -> Html | None:
    if diff.divergence is None:
        return None
    side = only_side(diff.divergence)
    run = diff.a if side == "before" else diff.b
    return divergence_box(diff.divergence, "First difference", run.id if side else None)


# -- changes ----------------------------------------------------------------------------


def _changes(diff: Diff) -> Html | None:
    if not diff.changes:
        return None
    left_out = f"… more changes than fit; diff.df has all {len(diff.changes)}"
    return join(
        title("Changes"),
        table(["field", "before", "after", ""], _change_rows(diff), left_out, 84_000),
    )


def _change_rows(diff: Diff) -> Iterator[Html]:
    heading: tuple[str, str] | None = None
    for one in told(diff):
        side = only_side(one.change)
        if heading != (heading := (one.change.address, one.change.cause)) or side:
            cause = tag("span", " cause: ", text(one.change.cause, 400), class_="rw-dim")
            led = _chains(diff, one)
            only = tag("td", chip(*ONLY[side])) if side else None
            cells = tag("td", _heading(one), cause, led, colspan=3 if side else 4)
            yield tag("tr", cells, only, class_="rw-group")
        if not side:
            yield _change(one.change)


def _chains(diff: Diff, one: Told) -> Html | None:
    """The chains from several first causes."""
    listed = chains(diff, one)
    words: list[Child] = []
    for chain in listed[:MAX_CHAINS]:
        words += ["; " if words else "", mono(" → ".join(chain), 300)]
    if len(listed) > MAX_CHAINS:
        words.append(f"; {len(listed) - MAX_CHAINS} more in diff.why")
    return tag("div", "chains: ", *words, class_="rw-dim") if words else None


def _heading(one: Told) -> Html:
    """What a group of changes is of: a step, or a task that only one side has."""
    if not one.task:
        return step_name(one.change)
    return join("task ", mono(printed(one.task), 200), f", {count(one.steps, 'step')}")


def _change(change: Change) -> Html:
    kind = chip(UNFINISHED.get(change.kind, change.kind), *KINDS[change.kind])
    path = tag("div", mono(change.where, 160), class_="rw-path")
    both = change.before, change.after
    if all(map(is_prose, both)):
        return tag("tr", tag("td", path), tag("td", prose(*both), colspan=2), tag("td", kind))
    file = change.path.startswith("@artifacts[")
    sides = map(_file, both) if file else facing(*both)
    before, after = (tag("div", side, class_="rw-wide") for side in sides)
    return row(path, before, after, kind)


def _file(digest: Any) -> Html:
    """A file by the hash of its bytes."""
    return shown(digest) if digest is MISSING else join("sha256 ", sha(digest, 16))


def is_prose(value: Any) -> bool:
    """Whether a value is text of several words."""
    return isinstance(value, str) and len(value) > 24 and len(value[:400].split()) > 3


def prose(before: str, after: str) -> Html:
    """Two texts as one, with what was removed struck out and what was added underlined."""
    old, new = redact(before), redact(after)
    start, end = shared_ends(old, new)
    middle = [side[start : len(side) - end] for side in (old, new)]
    pieces = word_diff(*(side[:MAX_PROSE] for side in middle))
    whole = [
        ("same", old[:start]),
        *pieces,
        ("cut", max(middle, key=len)[MAX_PROSE:]),
        ("same", old[len(old) - end :]),
    ]
    return tag("span", *(_piece(kind, words) for kind, words in whole), class_="rw-prose")


def _piece(kind: str, words: str) -> Child:
    if kind == "removed":
        return tag("del", text(words, MAX_PROSE))
    if kind == "added":
        return tag("ins", text(words, MAX_PROSE))
    if kind == "cut":
        return (
            tag("span", f" … {count(len(words), 'more character')} differ ", class_="rw-cut")
            if words
            else None
        )
    if len(words) <= 3 * KEPT:
        return text(words)
    head = words[:KEPT].rpartition(" ")[0] or words[:KEPT]
    tail = words[-KEPT:].partition(" ")[2] or words[-KEPT:]
    left = f" … {len(words) - len(head) - len(tail):,} characters the same … "
    return join(text(head), tag("span", left, class_="rw-cut"), text(tail))


# -- how both ended -----------------------------------------------------------------------


def _artifacts(diff: Diff) -> Html | None:
    if not diff.artifacts:
        return None
    rows = (
        row(
            mono(made.name, 120),
            sha(made.before, 16),
            sha(made.after, 16),
            tag("span", "= same bytes", class_="rw-dim")
            if made.same
            else chip(made.kind, *KINDS[made.kind]),
        )
        for made in diff.artifacts
    )
    head = ["artifact", "sha256 before", "sha256 after", ""]
    return join(
        title("Artifacts"), table(head, rows, "… more; diff.artifacts has them all", 12_000)
    )


def _outcome(diff: Diff) -> Html:
    outcome = diff.outcome
    ended = join(status_chip(outcome.before), " → ", status_chip(outcome.after))
    fields = mono(", ".join(outcome.changed), 600)
    order = ", in another order of its fields" if outcome.reordered else ""
    state = (
        join("the final state differs in ", fields)
        if outcome.changed
        else f"the final state is equal{order}"
    )
    return join(title("Outcome"), tag("div", ended, " ", state))
