"""What to say when a replay meets a call that was not recorded."""

from __future__ import annotations

import difflib
import json
from typing import Any

from rewind_nb import _codec
from rewind_nb._live import differing_fields
from rewind_nb._model import CallRow
from rewind_nb._store import Store
from rewind_nb.capture._context import StepContext
from rewind_nb.errors import CacheMissError

SHOWN = 4
COMPARED = 4_000  # characters; enough to tell prompts apart, and quick


def cache_miss(ctx: StepContext, row: CallRow, body: Any) -> CacheMissError:
    """The error that names the nearest recorded request and the fields that differ."""
    where = f"run {ctx.run_id}, step {ctx.seq} {ctx.action!r} (visit {ctx.visit})"
    fact = f"{where}: {row.kind} call {row.idx} {row.name!r} was not recorded"
    nearest, differing = _nearest(ctx, row, body)
    if nearest is None:
        why = f"The recorded step made no {row.kind} call."
    elif not differing:
        why = f"It made this very request {nearest.n + 1} time(s), and no more."
    else:
        shown = ", ".join(differing[:SHOWN]) + (", ..." if len(differing) > SHOWN else "")
        why = f"The nearest recorded request is call {nearest.idx}; it differs in: {shown}."
    action = (
        "A replay makes no live call; to let it ask the provider, fork the run instead."
        if ctx.strict
        else 'cache="replay" makes no live call; use cache="auto" to let it ask.'
    )
    return CacheMissError(
        f"{fact}. {why} {action}",
        step=ctx.action,
        call=row.idx,
        nearest=None if nearest is None else ctx.store.value(nearest.request),
        asked=body,
        differing=tuple(differing),
    )


def _nearest(ctx: StepContext, row: CallRow, body: Any) -> tuple[CallRow | None, list[str]]:
    node = _codec.parse(_codec.encode(body))
    rows = [] if ctx.recorded is None else ctx.recorded.rows
    candidates = [r for r in rows if r.kind == row.kind]
    if not candidates:
        return None, []
    compared = [(r, differing_fields(ctx.store, r.request, node)) for r in candidates]
    fewest = min(len(fields) for _, fields in compared)
    close = [pair for pair in compared if len(pair[1]) == fewest]
    asked = json.dumps(node)
    return max(close, key=lambda pair: (_likeness(ctx.store, pair[0], asked), -pair[0].idx))


def _likeness(store: Store, row: CallRow, asked: str) -> float:
    """How alike two requests are as text, where they differ in as many fields."""
    recorded = json.dumps(_codec.parse(store.content(row.request).data))
    matcher = difflib.SequenceMatcher(None, recorded[:COMPARED], asked[:COMPARED], autojunk=False)
    return matcher.ratio()
