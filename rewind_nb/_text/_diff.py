"""A diff as text: where two runs part, what changed and why, and how each ended."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rewind_nb._describe import plural
from rewind_nb._diff import MISSING
from rewind_nb._secrets import redact
from rewind_nb._text._shown import WIDTH, brief, cell, middle, page, shared_start, visible

if TYPE_CHECKING:
    from rewind_nb._compare import Change, Diff, Pair
    from rewind_nb._divergence import Divergence
    from rewind_nb._run import Step

__all__ = ["diff_text"]

MAX_CHANGES = 40
MAX_SHARED = 12


def diff_text(diff: Diff) -> str:
    """Ancestor, shared prefix, aligned steps, first divergence, changes, artifacts, outcome."""
    return page(_diff_lines(diff))


def _diff_lines(diff: Diff) -> Iterator[str]:
    yield f"diff {diff.a.id} -> {diff.b.id}"
    yield f"ancestor: {diff.ancestor.id if diff.ancestor else 'none'}"
    if diff.cause is not None:
        yield f"override: {middle(diff.cause, WIDTH - 10)}"
    yield f"shared prefix: {plural(diff.shared_steps, 'step')}"
    yield from (f"warning: {mismatch}" for mismatch in diff.mismatched_models)
    yield from _pair_lines(diff)
    yield from _divergence_lines(diff)
    yield from _change_lines(diff)
    yield "artifacts:" if diff.artifacts else "artifacts: none"
    for made in diff.artifacts:
        before, after = ((h or "(missing)")[:12] for h in (made.before, made.after))
        yield f"  {'=' if made.same else '~'} {made.name}: {before} -> {after}"
    changed = diff.outcome.changed
    differs = f"differs in {', '.join(changed)}" if changed else "is equal"
    ended = f"outcome: {diff.outcome.before} -> {diff.outcome.after}"
    yield from _wrapped(f"{ended}; the final state {differs}", "")


def _pair_lines(diff: Diff) -> Iterator[str]:
    yield f"{cell('steps:', 39)} {cell(f'before {diff.a.id}', 26)} after {diff.b.id}"
    changed = {(change.action, change.visit) for change in diff.changes}
    hidden = max(0, diff.shared_steps - MAX_SHARED)
    if hidden:
        yield f"  = the first {hidden} of {diff.shared_steps} shared steps, not listed"
    for pair in diff.pairs[hidden:]:
        yield f"  {_pair_mark(pair, changed)} {cell(_name(pair.shown), 35)} {_sides(pair)}"


def _sides(pair: Pair) -> str:
    return " ".join(cell(f"{s.seq:>3} {s.source}" if s else "  -", 26) for s in pair)


def _pair_mark(pair: Pair, changed: set[tuple[str, int]]) -> str:
    if pair.before is None or pair.after is None:
        return "+" if pair.before is None else "-"
    return "~" if (pair.shown.action, pair.shown.visit) in changed else "="


def _name(step: Step | Change | Divergence) -> str:
    return f"{step.action!r}" + (f" (visit {step.visit})" if step.visit > 1 else "")


def _divergence_lines(diff: Diff) -> Iterator[str]:
    first = diff.divergence
    if first is None:
        yield "first divergence: none"
        return
    yield f"first divergence: step {first.seq} {_name(first)}, {first.path}"
    yield from _wrapped(f"cause: {first.why}", "  ")
    yield from _values(first.before, first.after, "  ")


def _change_lines(diff: Diff) -> Iterator[str]:
    yield f"changes: {len(diff.changes)}"
    heading = ""
    for change in diff.changes[:MAX_CHANGES]:
        if heading != (heading := f"step {change.seq} {_name(change)}: {change.cause}"):
            yield from _wrapped(heading, "  ")
        yield f"    {change.path}" + (f" ({change.kind})" if change.kind != "changed" else "")
        yield from _values(change.before, change.after, "      ")
    if len(diff.changes) > MAX_CHANGES:
        yield f"  {len(diff.changes) - MAX_CHANGES} more; diff.changes has them all"


def _values(before: Any, after: Any, indent: str) -> Iterator[str]:
    start = 0
    if isinstance(before, str) and isinstance(after, str) and len(before) + len(after) > WIDTH:
        start = max(0, shared_start(before, after) - 20)
        before, after = before[start:], after[start:]
    for mark, value in (("-", before), ("+", after)):
        if value is not MISSING:
            yield f"{indent}{mark} {'...' if start else ''}{brief(value, WIDTH - 12)}"


def _wrapped(text: str, indent: str) -> list[str]:
    first, rest = indent, indent + "    "
    shown = visible(redact(text))
    return textwrap.wrap(shown, WIDTH, initial_indent=first, subsequent_indent=rest)
