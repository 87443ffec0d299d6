"""Runs, diffs and trees of forks as plain text for a terminal.

Every line goes through one door (`_page`): it is at most `WIDTH` columns wide, counted as a
terminal does, and holds nothing a terminal would obey. Control characters, escape
sequences, bidi marks and lone surrogates are shown as Python escapes, so text from a model
can neither colour, hide nor reorder what stands here. What is shown is redacted first and
cut afterwards: half a key would not be recognised.

Apart from ids, hashes and times, equal runs give equal text.
"""

from __future__ import annotations

import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from rewind_nb._describe import short
from rewind_nb._diff import MISSING
from rewind_nb._secrets import redact

if TYPE_CHECKING:
    from rewind_nb._compare import Change, Diff, Pair
    from rewind_nb._divergence import Divergence
    from rewind_nb._run import Run, Step

__all__ = ["brief", "clip", "diff_text", "forest", "run_text", "tree_text", "visible"]

WIDTH = 100
MAX_CHANGES = 40
MAX_SHARED = 12
PAID_ELSEWHERE = ("inherited", "reused")


# -- text as it may be shown ----------------------------------------------------------


def visible(text: str) -> str:
    r"""The text with every character that cannot be seen written as an escape.

    Example:
        >>> print(visible("a\x1b[31m\u202eb"))
        a\x1b[31m\u202eb
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def clip(text: str, width: int) -> str:
    """The text cut to a number of terminal columns, a wide character being two.

    Example:
        >>> clip("a long line", 8)
        'a lon...'
    """
    if len(text) * 2 <= width or columns(text) <= width:
        return text
    kept, room = [], width - 3
    for char in text:
        room -= columns(char)
        if room < 0:
            break
        kept.append(char)
    return "".join(kept) + "..."


def columns(text: str) -> int:
    """How many terminal columns a text takes at most."""
    if text.isascii():
        return len(text)
    return len(text) + sum(unicodedata.east_asian_width(c) in "WF" for c in text)


def brief(value: Any, width: int = 60) -> str:
    """A value on one line, whatever it is; its own `repr` where that works.

    Example:
        >>> brief({"a": "x" * 50}, 20)
        "{'a': 'xxxxxxxxxx..."
        >>> brief(MISSING)
        '(missing)'
    """
    if value is MISSING:
        return "(missing)"
    try:
        text = redact(short(value, width=sys.maxsize))
    except Exception as error:  # noqa: BLE001  (a user's __repr__ must not break a display)
        text = f"<{type(value).__name__}: its repr raised {type(error).__name__}>"
    return clip(visible(text[: width + 1]), width)


def _middle(text: str, width: int) -> str:
    """Cut in the middle: an override starts with its path and ends with its value."""
    if len(text) <= width:
        return text
    head = (width - 3) // 2
    return f"{text[:head]}...{text[len(text) - (width - 3 - head) :]}"


def _cell(text: object, width: int) -> str:
    """One column of a table."""
    shown = clip(visible(redact(str(text))), width)
    return shown + " " * (width - columns(shown))


def _page(lines: Iterable[str]) -> str:
    return "\n".join(clip(visible(redact(line)), WIDTH).rstrip() for line in lines)


# -- a run ----------------------------------------------------------------------------


def run_text(run: Run) -> str:
    """The steps of a run, one line each, marked ``.`` where an ancestor executed it, ``*``
    where this run did, ``>`` where a fork starts and ``x`` where it failed.
    """
    return _page(_run_lines(run))


def _run_lines(run: Run) -> Iterator[str]:
    label = f" {run.label!r}" if run.label else ""
    yield f"run {run.id}{label}, {run.status}, {run.kind}"
    if run.kind != "record":
        yield f"    {_middle(run.describe(), WIDTH - 4)}"
    head = [_cell("seq action", 30), _cell("visit", 5), _cell("source", 12)]
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
    left = f"{step.seq:>3} {_cell(step.action, 26)} {step.visit:>5} {_cell(step.source, 12)}"
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
    spent = "tokens unknown" if total is None else f"{total} tokens"
    return f"{len(run)} steps, {live} live calls, {played} played back, {spent}"


def tree_text(runs: Iterable[Run]) -> str:
    """Every run on a line, each fork under its parent with its step and override."""
    return _page(_tree_line(prefix, run) for prefix, run in forest(runs)) or "no runs"


def _tree_line(prefix: str, run: Run) -> str:
    label = f" {run.label!r}" if run.label else ""
    line = f"{prefix[-48:]}{run.id}{label}"
    if run.status != "complete" or run.kind == "record":
        line += f" {run.status},"
    words = f"{len(run)} steps" if run.kind == "record" else run.describe()
    return f"{line} {_middle(words, max(40, WIDTH - 1 - len(line)))}"


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


# -- a diff ---------------------------------------------------------------------------


def diff_text(diff: Diff) -> str:
    """Ancestor, shared prefix, aligned steps, first divergence, changes, artifacts, outcome."""
    return _page(_diff_lines(diff))


def _diff_lines(diff: Diff) -> Iterator[str]:
    yield f"diff {diff.a.id} -> {diff.b.id}"
    yield f"ancestor: {diff.ancestor.id if diff.ancestor else 'none'}"
    if diff.cause is not None:
        yield f"override: {_middle(diff.cause, WIDTH - 10)}"
    yield f"shared prefix: {diff.shared_steps} steps"
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
    yield f"{_cell('steps:', 39)} {_cell(f'before {diff.a.id}', 26)} after {diff.b.id}"
    hidden = max(0, diff.shared_steps - MAX_SHARED)
    if hidden:
        yield f"  = the first {hidden} of {diff.shared_steps} shared steps, not listed"
    for pair in diff.pairs[hidden:]:
        yield f"  {_pair_mark(pair)} {_cell(_name(pair.shown), 35)} {_sides(pair)}"


def _sides(pair: Pair) -> str:
    return " ".join(_cell(f"{s.seq:>3} {s.source}" if s else "  -", 26) for s in pair)


def _pair_mark(pair: Pair) -> str:
    if pair.before is None or pair.after is None:
        return "+" if pair.before is None else "-"
    return "=" if pair.same else "~"


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
        start = max(0, _first_difference(before, after) - 20)
        before, after = before[start:], after[start:]
    for mark, value in (("-", before), ("+", after)):
        if value is not MISSING:
            yield f"{indent}{mark} {'...' if start else ''}{brief(value, WIDTH - 12)}"


def _first_difference(before: str, after: str) -> int:
    pairs = enumerate(zip(before, after, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(before), len(after)))


def _wrapped(text: str, indent: str) -> list[str]:
    first, rest = indent, indent + "    "
    shown = visible(redact(text))
    return textwrap.wrap(shown, WIDTH, initial_indent=first, subsequent_indent=rest)
