"""A run step by step, as a timeline draws it: the state at each, and how to begin there."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from typing import Any

from rewind_nb._compare import Diff
from rewind_nb._contrast import contrast
from rewind_nb._describe import displayed, plural
from rewind_nb._diff import MISSING
from rewind_nb._html._boxes import RUNNING, is_running
from rewind_nb._html._diff_steps import KINDS
from rewind_nb._html._parts import seconds, signed, status_sign
from rewind_nb._path import join
from rewind_nb._run import Run, Step
from rewind_nb._text import brief, how
from rewind_nb._trajectory import after_step
from rewind_nb.errors import StepNotFoundError, did_you_mean
from rewind_nb.widgets._pieces import kind_of, value_pieces
from rewind_nb.widgets._run_graph import run_facts

__all__ = ["Moments", "comparison_drawn"]

STEPS = 2_000  # of a run that a slider goes over
KEYS = 300  # of a state that are shown
CELL = 160  # characters of a value
CODE = 80  # characters of a recorded value that is put into code
NAMED = 120  # characters of a key, a label
WORDS = 2_000  # characters of an error, a note
HELD = 4_096  # values whose preview is kept

LARGE = 10**18  # an int that is not put into code
SAME = ("", "")
AGAIN = ("written, equal", "=")


class Moments:
    """The steps of one run at a time, and the state at each of them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._previews: dict[str, tuple[str, str]] = {}  # by the hash of the value

    def run_drawn(self, run: Run) -> dict[str, Any]:
        """A run, and what a slider goes over."""
        listed = run.steps[:STEPS]
        return {
            "id": run.id,
            "label": displayed(run.label or "")[:NAMED],
            "kind": run.kind,
            "status": run.status,
            "look": status_sign(run.status),
            "told": displayed(run.describe())[:WORDS],
            "parent": run.parent_id or "",
            "facts": run_facts(run),
            "note": displayed(run.note or "")[:WORDS],
            "steps": [_step_drawn(run, step) for step in listed],
            "left_out": len(run.steps) - len(listed),
        }

    def state_drawn(self, run: Run, address: str) -> dict[str, Any]:
        """The state that a step left, and what of it the step changed."""
        step = _found(run, address)
        before, after = _around(run, step)
        keys = [*after, *(key for key in before if key not in after)]
        written = {key for key, _ in step.row.writes}
        marks = {key: _mark(key, before, after, written) for key in keys}
        first = sorted(keys, key=lambda key: marks[key] is SAME)  # which keeps their order else
        rows = [self._key(run, key, before, after, marks[key]) for key in first[:KEYS]]
        error = step.error
        return {
            "run": run.id,
            "address": step.address,
            "label": displayed(step.label)[:NAMED],
            "status": step.status,
            "seconds": seconds(step.duration_s),
            "error": "" if error is None else displayed(f"{error.type}: {error.message}")[:WORDS],
            "left": step.status == "complete",
            "keys": rows,
            "left_out": len(keys) - len(rows),
            "code": _code(run, step),
        }

    def _key(
        self, run: Run, key: str, before: dict[str, str], after: dict[str, str],
        mark: tuple[str, str],
    ) -> dict[str, Any]:  # fmt: skip
        words, sign = mark
        old, new = before.get(key), after.get(key)
        both = None
        if words == "changed":
            both = contrast(_value(run, old), _value(run, new), CELL)
        digest = old if new is None else new
        assert digest is not None  # noqa: S101  (the key is in one of them)
        kind, line = self._preview(run, digest)
        lines = both or (None if new is not None else line, line if new is not None else None)
        return {
            "key": displayed(key)[:NAMED],
            "name": key,
            "change": words,
            "sign": sign,
            "colour": KINDS[words][1] if words in KINDS else "inherited",
            "kind": kind,
            "before": lines[0],
            "after": lines[1],
            "more": any(side.endswith("...") or side.startswith("...") for side in lines if side),
        }

    def _preview(self, run: Run, digest: str) -> tuple[str, str]:
        """The type with its size, and a line; a value is decoded once for many steps."""
        with self._lock:
            found = self._previews.get(digest)
        if found is None:
            value = run.store.value(digest)
            found = (displayed(kind_of(value)), brief(value, CELL))
            with self._lock:
                if len(self._previews) >= HELD:
                    self._previews.clear()
                self._previews[digest] = found
        return found

    def value_drawn(self, run: Run, address: str, key: str) -> dict[str, Any]:
        """A field before and after a step, as far as it can be looked at."""
        step = _found(run, address)
        before, after = _around(run, step)
        sides = [_value(run, side.get(key)) for side in (before, after)]
        same = before.get(key) == after.get(key)
        return {
            "pieces": value_pieces(MISSING if same else sides[0], sides[1]),
            "prose": any(isinstance(side, str) for side in sides),
            "same": same,
        }


def comparison_drawn(diff: Diff) -> dict[str, Any]:
    """The first divergence of two runs, and how many there are."""
    first = diff.divergence
    ended = diff.outcome
    ancestor = "" if diff.ancestor is None else f", ancestor {diff.ancestor.id}"
    changes = len(diff.changes)
    changed = f"{plural(changes, 'change', ',')} in {plural(diff.changed_steps, 'step', ',')}"
    told = f"identical: {plural(len(diff.pairs), 'step', ',')}" if diff.identical else changed
    return {
        "runs": [diff.a.id, diff.b.id],
        "identical": diff.identical,
        "changes": changes,
        "told": told,
        "shared": f"{plural(diff.shared_steps, 'step', ',')} shared{ancestor}",
        "cause": displayed(diff.cause or "")[:WORDS],
        "first": None if first is None else {
            "address": first.address,
            "label": displayed(first.label)[:NAMED],
            "path": displayed(first.where)[:NAMED],
            "why": displayed(first.why)[:WORDS],
            "sides": [*_sides(first.before, first.after)],
        },
        "outcome": f"{ended.before} → {ended.after}",
        "code": f"rw.diff({diff.a.id!r}, {diff.b.id!r})",
    }  # fmt: skip


def _sides(before: Any, after: Any) -> Iterator[str | None]:
    lines = contrast(before, after, CELL)
    yield from (None if v is MISSING else t for v, t in zip((before, after), lines, strict=True))


def _step_drawn(run: Run, step: Step) -> dict[str, Any]:
    running = is_running(run, step)
    sign, colour = RUNNING if running else signed(step)
    done = step.source if how(step) == "executed" else how(step)
    return {
        "address": step.address,
        "label": displayed(step.label)[:NAMED],
        "sign": sign,
        "colour": colour,
        "words": "running" if running else done if step.status == "complete" else step.status,
    }


def _found(run: Run, address: str) -> Step:
    for step in run.steps:
        if step.address == address:
            return step
    near = did_you_mean(address, [step.address for step in run.steps])
    raise StepNotFoundError(f"Run {run.id} has no step {address!r}. {near}")


def _around(run: Run, step: Step) -> tuple[dict[str, str], dict[str, str]]:
    """The state that entered a step and the one that left it, as hashes."""
    entering = run.entering_manifest(step)
    if step.status != "complete":
        return dict(entering), dict(entering)
    return dict(entering), dict(after_step(entering, step.row.deleted, step.row.writes))


def _mark(
    key: str, before: dict[str, str], after: dict[str, str], written: set[str]
) -> tuple[str, str]:
    """What a step did to a field: a word and a sign."""
    if key not in before or key not in after:
        word = "added" if key in after else "removed"
        return word, KINDS[word][0]
    if before[key] != after[key]:
        return "changed", KINDS["changed"][0]
    return AGAIN if key in written else SAME


def _value(run: Run, digest: str | None) -> Any:
    return MISSING if digest is None else run.store.value(digest)


def _code(run: Run, step: Step) -> dict[str, str]:
    """How to fork and to replay at a step, as code."""
    at = f"{run.id!r}, ({step.action!r}, {step.visit})"
    given = _given(run, step)
    return {
        "fork": displayed(f"rw.fork({at}, {given})" if given else f"rw.fork({at})"),
        "changes": given,
        "reproduce": displayed(f"rw.replay({at})"),
    }


def _given(run: Run, step: Step) -> str:
    """One value as it was recorded, to be changed: of what the step wrote, else of what it read."""
    for key, digest in step.row.writes if step.status == "complete" else ():
        path, value = _leaf(key, run.store.value(digest))
        if _is_literal(value):
            kind, name = ("output", key) if path == "" else ("patch", path)
            return f"{kind}={{{name!r}: {value!r}}}"
    for key, read in step.row.reads:
        if read is not None and _is_literal(value := run.store.value(read)):
            return f"state={{{key!r}: {value!r}}}"
    return ""


def _leaf(key: str, value: Any) -> tuple[str, Any]:
    """The first value inside of objects, and its path; "" for the path where there are none."""
    path = join("", key)
    inside = False
    while type(value) is dict and value and isinstance(next(iter(value)), str):
        first = next(iter(value))
        path, value, inside = join(path, first), value[first], True
    return path if inside else "", value


def _is_literal(value: Any) -> bool:
    """Whether its repr is code that makes it, short and without a secret."""
    if type(value) is str:
        return len(value) <= CODE and displayed(value) == value
    if type(value) is float:
        return math.isfinite(value)
    return type(value) is bool or (type(value) is int and abs(value) < LARGE)
