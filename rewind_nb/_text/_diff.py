"""A diff as text: where two runs part, what changed and why, and how each ended."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from rewind_nb._apart import not_run
from rewind_nb._changes import only_side
from rewind_nb._contrast import contrast
from rewind_nb._describe import plural
from rewind_nb._diff import MISSING
from rewind_nb._label import shown
from rewind_nb._secrets import redact
from rewind_nb._text._shown import WIDTH, brief, cell, middle, page, visible
from rewind_nb._text._told import Told, chains, differing_tasks, kind_words, told

if TYPE_CHECKING:
    from rewind_nb._compare import ArtifactChange, Change, Diff, Outcome, Pair
    from rewind_nb._divergence import Divergence
    from rewind_nb._run import Step

__all__ = ["diff_text"]

MAX_CHANGES = 40
MAX_SHARED = 12
MAX_CHAINS = 4
MAX_INSIDE = 24  # lines for the tasks of one step
HASH = 12  # characters of a hash


def diff_text(diff: Diff) -> str:
    """Ancestor, shared prefix, aligned steps, first divergence, changes, artifacts, outcome."""
    return page(_diff_lines(diff))


def _diff_lines(diff: Diff) -> Iterator[str]:
    steps = plural(len(diff.pairs), "step")
    yield f"diff {diff.a.id} -> {diff.b.id}" + (f": identical, {steps}" if diff.identical else "")
    yield f"ancestor: {diff.ancestor.id if diff.ancestor else 'none, recorded independently'}"
    yield from _override_lines(diff)
    yield f"shared prefix: {plural(diff.shared_steps, 'step')}"
    yield from (f"warning: {mismatch}" for mismatch in diff.mismatched_models)
    yield from _pair_lines(diff)
    yield from _divergence_lines(diff)
    yield from _change_lines(diff)
    yield "artifacts:" if diff.artifacts else "artifacts: none"
    yield from map(_artifact_line, diff.artifacts)
    ended = f"outcome: {diff.outcome.before} -> {diff.outcome.after}"
    yield from _wrapped(f"{ended}; {_final(diff.outcome)}", "")


def _final(outcome: Outcome) -> str:
    if outcome.changed:
        return f"the final state differs in {', '.join(outcome.changed)}"
    order = ", in another order of its fields" if outcome.reordered else ""
    return f"the final state is equal{order}"


def _override_lines(diff: Diff) -> Iterator[str]:
    """The override of a fork; where there are more, each with its side and step."""
    given = diff.overrides
    if len(given) == 1 and given[0].side == "after":
        yield f"override: {middle(given[0].words, WIDTH - 10)}"
        return
    for one in given:
        where = f"override {one.side}, {one.label}: "
        yield where + middle(one.words, max(40, WIDTH - len(where)))


def _artifact_line(made: ArtifactChange) -> str:
    if made.before is None or made.after is None:
        digest = made.before or made.after or ""
        return f"  {_MARKS[made.kind]} {made.name}: {made.kind}, {digest[:HASH]}"
    return f"  {_MARKS[made.kind]} {made.name}: {made.before[:HASH]} -> {made.after[:HASH]}"


_MARKS = {"same": "=", "changed": "~", "added": "+", "removed": "-"}


def _pair_lines(diff: Diff) -> Iterator[str]:
    yield f"{cell('steps:', 39)} {cell(f'before {diff.a.id}', 26)} after {diff.b.id}"
    hidden = max(0, diff.shared_steps - MAX_SHARED)
    if hidden:
        yield f"  = the first {hidden} of {diff.shared_steps} shared steps, not listed"
    for n in diff.nesting.lanes.get("", [])[hidden:]:
        pair = diff.pairs[n]
        yield f"  {_pair_mark(diff, n)} {cell(_name(pair.shown), 35)} {_sides(pair)}"
        if None not in pair:
            yield from _inside_lines(diff, n)


def _inside_lines(diff: Diff, n: int) -> Iterator[str]:
    """The steps of the tasks of a pair that differ."""
    changed, same = differing_tasks(diff, n)
    if changed and not_run(diff.pairs[n]):
        yield f"  -   {plural(len(changed), 'task')} not run: an override supplied the output"
        return
    if same:
        yield f"  =   {plural(same, 'task')} the same"
    lines: list[str] = []
    for i, (lane, span) in enumerate(changed):
        if len(lines) >= MAX_INSIDE:
            yield from lines
            yield f"  ~   {plural(len(changed) - i, 'more task')} that differ"
            return
        lines += _task_lines(diff, diff.pairs[n].shown.address, lane, span)
    yield from lines


def _task_lines(diff: Diff, outer: str, lane: str, span: range) -> Iterator[str]:
    sides = [[s for m in span if (s := diff.pairs[m][side])] for side in (0, 1)]
    if all(sides):
        for m in span:
            pair = diff.pairs[m]
            name = shown(pair.shown.address.removeprefix(outer))
            yield f"  {_pair_mark(diff, m)}   {cell(name, 33)} {_sides(pair)}"
        return
    name = shown(lane.removeprefix(outer))
    told = (cell(f"    {_whole(steps)}" if steps else "  -", 26) for steps in sides)
    yield f"  {'-' if sides[0] else '+'}   {cell(name, 33)} {' '.join(told)}"


def _whole(steps: list[Step]) -> str:
    """A task that only one side has."""
    return f"{plural(len(steps), 'step')}, {', '.join(dict.fromkeys(s.source for s in steps))}"


def _sides(pair: Pair) -> str:
    return " ".join(cell(_side(step), 26) for step in pair)


def _side(step: Step | None) -> str:
    if step is None:
        return "  -"
    ended = "" if step.status == "complete" else f", {step.status}"
    return f"{step.seq:>3} {step.source}{ended}"


def _pair_mark(diff: Diff, n: int) -> str:
    pair = diff.pairs[n]
    if pair.before is None or pair.after is None:
        return "+" if pair.before is None else "-"
    return "~" if n in diff.changed_pairs else "="


def _name(step: Step) -> str:
    return f"{step.action!r}" + (f" (visit {step.visit})" if step.visit > 1 else "")


def _divergence_lines(diff: Diff) -> Iterator[str]:
    first = diff.divergence
    if first is None:
        yield "first divergence: none"
        return
    only = _only(diff, first)
    yield f"first divergence: {first.label}, {only or first.where}"
    yield from _wrapped(f"cause: {first.why}", "  ")
    yield from () if only else _values(first, "  ")


def _change_lines(diff: Diff) -> Iterator[str]:
    yield f"changes: {len(diff.changes)}"
    heading, listed = "", 0
    for one in islice(told(diff), MAX_CHANGES):
        change, only = one.change, _only(diff, one.change)
        listed += one.steps
        if heading != (heading := f"{one.label}{f', {only}' if only else ''}: {change.cause}"):
            yield from _wrapped(heading, "  ")
            yield from _chain_lines(diff, one)
        if not only:
            yield f"    {change.where}" + (
                f" ({kind_words(change)})" if change.kind != "changed" else ""
            )
            yield from _values(change, "      ")
    if listed < len(diff.changes):
        yield f"  {len(diff.changes) - listed} more; diff.changes has them all"


def _chain_lines(diff: Diff, one: Told) -> list[str]:
    """The chains from several first causes."""
    listed = chains(diff, one)
    words = [" -> ".join(chain) for chain in listed[:MAX_CHAINS]]
    if len(listed) > MAX_CHAINS:
        words.append(f"{len(listed) - MAX_CHAINS} more in diff.why({one.change.path!r})")
    return _wrapped(f"chains: {'; '.join(words)}", "      ") if words else []


def _only(diff: Diff, found: Change | Divergence) -> str | None:
    """The run that took a step which the other did not."""
    side = only_side(found)
    return None if side is None else f"only in {(diff.a if side == 'before' else diff.b).id}"


def _values(found: Change | Divergence, indent: str) -> Iterator[str]:
    before, after = found.before, found.after
    if found.path.startswith("@artifacts["):  # a file, by the hash of its bytes
        hashes = ((mark, h) for mark, h in (("-", before), ("+", after)) if h is not MISSING)
        yield from (f"{indent}{mark} sha256 {digest[:HASH]}" for mark, digest in hashes)
        return
    if before is MISSING or after is MISSING:
        lines = ["" if value is MISSING else brief(value, WIDTH - 12) for value in (before, after)]
    else:
        lines = list(contrast(before, after, WIDTH - 12))
    for mark, line in zip("-+", lines, strict=True):
        if line:
            yield f"{indent}{mark} {line}"


def _wrapped(text: str, indent: str) -> list[str]:
    first, rest = indent, indent + "    "
    shown = visible(redact(text))
    return textwrap.wrap(shown, WIDTH, initial_indent=first, subsequent_indent=rest)
