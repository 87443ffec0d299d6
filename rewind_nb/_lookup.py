"""Whether a path leads to anything in a run, and what to say where nothing changed at it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rewind_nb._changes import RAW, RESULT, STREAM
from rewind_nb._codec._reread import Pool
from rewind_nb._leaves import leaves
from rewind_nb._path import Root, bracket, is_within, join, parse
from rewind_nb._run import Run, Step
from rewind_nb._store import Store
from rewind_nb._store._nodes import Nodes
from rewind_nb.errors import did_you_mean

if TYPE_CHECKING:
    from rewind_nb._compare import Diff

INPUTS = join("", Root("@inputs"))
ENDS = ("@step", "@status", "@state", "@writes", "@next", "@outcome")
"""What every run has."""

MAX_NAMED = 12  # changed paths that are listed

Stored = Iterable[tuple[str, str | None]]
"""Paths, each with the hash of what is stored there."""


def wrote(step: Step, path: str) -> bool:
    """Whether a step wrote a field, or a part of it."""
    return _is_in(step.store, path, ((join("", key), digest) for key, digest in step.row.writes))


def unchanged(diff: Diff, path: str, at: str | None) -> str:
    """Why no change is listed at a path, and what did change.

    Args:
        at: the address of the step that was to have changed it; any if None.

    Raises:
        ConfigError: neither run has anything there, and the text is not a path.
    """
    addresses = dict.fromkeys(pair.shown.address for pair in diff.pairs)
    if at is not None and at not in addresses:
        return f"Neither run has a step {at!r}. {did_you_mean(at, addresses)}"
    where = "" if at is None else f" of {at}"
    changed = list(dict.fromkeys(c.path for c in diff.changes if at in (None, c.address)))
    if _is_there(diff, path, at):
        named = ", ".join(map(repr, changed[:MAX_NAMED]))
        more = f" and {len(changed) - MAX_NAMED} more" if len(changed) > MAX_NAMED else ""
        others = f"What changed{where}: {named}{more}." if changed else f"Nothing changed{where}."
        return f"{path!r}{where} is the same in both runs, so it has no cause. {others}"
    parse(path)
    fact = f"Neither run has {path!r}{where}, so nothing changed there."
    return f"{fact} {did_you_mean(path, changed)}" if changed else f"{fact} Nothing else did."


def _is_there(diff: Diff, path: str, at: str | None) -> bool:
    """Whether either run has anything at a path that a change of it could have."""
    runs = (diff.a, diff.b)
    files = (bracket("@artifacts", made.name) for run in runs for made in run.artifacts)
    if path in ENDS or path in files or (at is None and any(_began_with(r, path) for r in runs)):
        return True
    steps = (s for pair in diff.pairs if at in (None, pair.shown.address) for s in pair if s)
    return any(_has(step, path) for step in steps)


def _began_with(run: Run, path: str) -> bool:
    """Whether the state that a run began with has a field, or a part of it."""
    state = run.entering_manifest(run.steps[0]) if run.steps else run.final_manifest.items()
    return _is_in(run.store, path, ((join("", key), digest) for key, digest in state))


def _has(step: Step, path: str) -> bool:
    row = step.row
    raw = None if row.error is None else row.error.raw
    told = {"@deleted": row.deleted, "@error": row.error, RAW: raw}
    if told.get(path) is not None or wrote(step, path):
        return True
    inputs = ((join(INPUTS, name), digest) for name, digest in row.inputs)
    return _is_in(step.store, path, (*inputs, (RESULT, row.result), (STREAM, row.stream)))


def _is_in(store: Store, path: str, stored: Stored) -> bool:
    for top, digest in stored:
        if digest is not None and path == top:
            return True
        if digest is not None and is_within(path, top):
            node = Nodes(store, Pool()).node(digest)
            return any(is_within(leaf, path) for leaf, _ in leaves(top, node, {}))
    return False
