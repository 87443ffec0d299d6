"""What sets the two sides of one aligned step apart, each fact by itself."""

from __future__ import annotations

from rewind_nb._changes import Pair, error_text
from rewind_nb._model import Override
from rewind_nb._run import Step, read_overrides
from rewind_nb._ways import edited_ways


def overridden(pair: Pair) -> bool:
    """Whether the two sides were given different overrides, or only one was given any."""
    before, after = pair
    return before is not None and after is not None and before.override != after.override


def recoded(pair: Pair) -> bool:
    """Whether both sides executed, each other code."""
    before, after = pair
    if before is None or after is None or "override" in (before.row.source, after.row.source):
        return False
    return before.row.code != after.row.code


def not_run(pair: Pair) -> bool:
    """Whether an override supplied the output of a side, which so executed and ran no task."""
    return any(step is not None and step.row.source == "override" for step in pair)


def changed_inputs(pair: Pair) -> list[str]:
    """The inputs that both sides were given otherwise."""
    if pair.before is None or pair.after is None:
        return []
    old, new = dict(pair.before.row.inputs), dict(pair.after.row.inputs)
    return [k for k in dict.fromkeys([*old, *new]) if old.get(k) != new.get(k)]


def entering(pair: Pair) -> list[str]:
    """The state keys that an override of one side, or another one of each, set there."""
    if not overridden(pair):
        return []
    given = [o for s in pair if s and s.override for o in read_overrides(s.store, s.override)]
    return [*dict.fromkeys(key for override in given for key in _keys_set(override))]


def _keys_set(override: Override) -> list[str]:
    """The state keys that an override, or the user between two steps, set or deleted."""
    if override.kind == "update":
        return [*override.value["set"], *override.value["delete"]]
    return [*override.value] if override.kind == "state" else []


def changed_reads(pair: Pair) -> list[str]:
    """The keys that both sides looked at and found to differ."""
    before, after = pair
    if before is None or after is None or pair.shared:
        return []
    ours, theirs = before.row, after.row
    old, new = dict(ours.reads), dict(theirs.reads)
    return [
        key
        for key in dict.fromkeys([*new, *old])
        if old.get(key) != new.get(key)
        and (key in old or ours.reads_all)
        and (key in new or theirs.reads_all)
    ]


def found_at(pair: Pair, key: str) -> list[tuple[str | None, ...]]:
    """What each side found at a key, None where it was absent; empty where it did not look."""
    rows = [s.row for s in pair if s is not None]
    looked = [dict(row.reads) for row in rows]
    return [
        (reads.get(key),) if key in reads or row.reads_all else ()
        for reads, row in zip(looked, rows, strict=True)
    ]


def edited_after(pair: Pair) -> tuple[str, ...]:
    """How the transitions of the two runs from a step of both differ, a line each."""
    before, after = pair
    if before is None or after is None or before.path:
        return ()
    graphs = [(s.store, s.store.row(s.row.run_id).graph) for s in (before, after)]
    if graphs[0][1] == graphs[1][1]:
        return ()
    ours, theirs = (store.value(graph) for store, graph in graphs)
    return tuple(edited_ways(ours, theirs, before.action))


def way(step: Step) -> str | None:
    """The action that followed."""
    return (step.transition or {}).get("to")


def looked_at(step: Step) -> dict[str, str | None]:
    """What the conditions after a step read, None where a key was absent."""
    return dict((step.transition or {}).get("reads", ()))


def ended(step: Step | None) -> tuple[str, str | None] | None:
    """How a step ended, where it did not complete."""
    if step is None or step.status == "complete":
        return None
    return step.status, error_text(step.row)
