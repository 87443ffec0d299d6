"""The steps of a run from root to tip, inherited ones included, without copying a row.

A fork shares its parent's steps before `at` and may refer to the parent's last steps
(`tail`). So a trajectory is a list of segments, each a range of one run's own rows::

    parent   0 1 2 3 4 5 6
    fork         ├─ at = 2
             0 1 2' 3'  + tail 5 6 -> its seq 4 5

    Segment("parent", 0, 2, 0)  Segment("fork", 2, 4, 0)  Segment("parent", 5, 7, -1)

The state at a step is folded from the nearest checkpoint before it, so that it costs the
same early and late in a long run.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping
from typing import NamedTuple

from rewind_nb._describe import plural
from rewind_nb._model import Manifest, RunRow, StepRow
from rewind_nb._store import Reads, _read, _read_tasks
from rewind_nb._store._chain import check_root
from rewind_nb._store._schema import chain_hash
from rewind_nb.errors import StoreCorruptError

CHECKPOINT_EVERY = 64


class Segment(NamedTuple):
    """Rows ``lo <= seq < hi`` of *run_id*, shown at ``seq + shift``."""

    run_id: str
    lo: int
    hi: int
    shift: int
    inherited: bool  # before the fork point, as opposed to a referenced tail
    own: bool


class Placed(NamedTuple):
    """A step's row at its position in a trajectory."""

    seq: int
    row: StepRow
    segment: Segment


def segments(store: Reads, run: RunRow, length: int | None = None) -> list[Segment]:
    """The segments of a run's trajectory, clipped to its first *length* steps.

    Raises:
        StoreCorruptError: a run it shares steps with is missing.
    """
    line = [(run, store.read(_read.step_count, run.id))]
    if run.parent is not None and (run.at > 0 or run.tail is not None):
        line += store.read(_read.lineage, run.parent)
    spans: list[_Span] = []
    for n in range(len(line) - 1, -1, -1):  # from the root down
        row, own_end = line[n]
        end = max(own_end, row.at)
        tail = [] if row.tail is None else _moved(spans, row.tail, end - row.tail)
        _cut(spans, row.at)
        spans += [_Span(row.id, row.at, end, 0), *tail]
        if n:  # as long as it was when it was forked
            _cut(spans, line[n - 1][0].parent_len)
            _check_length(row.id, spans, line[n - 1][0].parent_len)
    _cut(spans, length)
    return [
        Segment(*span, inherited=span.lo + span.shift < run.at, own=span.run_id == run.id)
        for span in spans
        if span.lo < span.hi
    ]


class _Span(NamedTuple):
    """Rows ``lo <= seq < hi`` of a run, at ``seq + shift``."""

    run_id: str
    lo: int
    hi: int
    shift: int


def _cut(spans: list[_Span], length: int | None) -> None:
    """Take away what is at *length* and after."""
    while length is not None and spans and spans[-1].lo + spans[-1].shift >= length:
        spans.pop()
    if length is not None and spans:
        last = spans[-1]
        spans[-1] = last._replace(hi=min(last.hi, length - last.shift))


def _check_length(run_id: str, spans: list[_Span], length: int) -> None:
    there = max((span.hi + span.shift for span in spans), default=0)
    if there < length:
        raise _broken(run_id, f"{there} of the {plural(length, 'step')} it had when it was forked")


def _moved(spans: list[_Span], start: int, by: int) -> list[_Span]:
    """What is at *start* and after, at places that are *by* further on."""
    return [
        span._replace(lo=max(span.lo, start - span.shift), shift=span.shift + by)
        for span in spans
        if span.hi + span.shift > start
    ]


class Trajectory:
    """Lazy access to the steps of one run; rows are read when asked for.

    Raises:
        StoreCorruptError: here or when rows are read, where a step is missing or damaged, or
            a run that ended does not have the steps it ended with.
    """

    def __init__(self, store: Reads, run: RunRow, length: int | None = None) -> None:
        self.store = store
        self.run = run
        store.read(check_root, run)
        self.parts = segments(store, run, length)
        self.length = max((p.hi + p.shift for p in self.parts), default=run.at)

    def __len__(self) -> int:
        return self.length

    def through(self, store: Reads) -> Trajectory:
        """The same steps, read from *store*."""
        made = copy.copy(self)
        made.store = store
        return made

    def rows(self, lo: int = 0, hi: int | None = None) -> list[Placed]:
        """The steps at positions [lo, hi)."""
        end = self.length if hi is None else min(hi, self.length)
        placed = []
        for part in self.parts:
            first, last = max(part.lo, lo - part.shift), min(part.hi, end - part.shift)
            if first < last:
                rows = self.store.read(_read.step_rows, part.run_id, first, last)
                _check_unbroken(part.run_id, rows, first, last)
                placed += [Placed(row.seq + part.shift, row, part) for row in rows]
        return placed

    def at(self, seq: int) -> Placed | None:
        """The step at one position."""
        found = self.rows(seq, seq + 1)
        return found[0] if found else None

    def visit(self, action: str, visit: int, path: str = "") -> Placed | None:
        """The step at (action, visit)."""
        for part in self.parts:
            row = self.store.read(
                _read.visit_row, part.run_id, path, action, visit, part.lo, part.hi
            )
            if row is not None:
                return Placed(row.seq + part.shift, row, part)
        return None

    def last_visit(self, action: str) -> Placed | None:
        """The last step of an action, found without reading the others."""
        for part in reversed(self.parts):
            found = self.store.read(_read.last_visit, part.run_id, action, part.lo, part.hi)
            if found is not None:
                return self.visit(action, found)
        return None

    def state_entering(self, seq: int) -> Manifest:
        """The ordered state entering the step at *seq*; for ``seq == len``, the final one."""
        at_end = seq >= self.length
        nothing_own = self.length == self.run.at
        placed = self.at(self.length - 1 if at_end else seq)
        if placed is None or (at_end and nothing_own):
            return self.run.state
        entering = self._entering(placed.row)
        if not at_end or placed.row.status != "complete":
            return entering
        return after_step(entering, placed.row.deleted, placed.row.writes)

    def task_state_entering(self, row: StepRow) -> Manifest:
        """The ordered state entering a step of a task, in the attempt that it is of."""
        rows = self.store.read(_read_tasks.task_steps, row.run_id, row.attempt, row.path)
        rows = [earlier for earlier in rows if earlier.seq <= row.seq]
        starts = [n for n, earlier in enumerate(rows) if earlier.state is not None]
        _check_unbroken(row.run_id, rows, 0, row.seq + 1)
        return _folded(rows[starts[-1] :])

    def _entering(self, row: StepRow) -> Manifest:
        start = self.store.read(_read.checkpoint_seq, row.run_id, row.path, row.seq)
        if start is None:
            raise _broken(row.run_id, "no state to start from")
        rows = self.store.read(_read.step_rows, row.run_id, start, row.seq + 1, path=row.path)
        _check_unbroken(row.run_id, rows, start, row.seq + 1)
        return _folded(rows)


def _folded(rows: list[StepRow]) -> Manifest:
    """The state entering the last of some steps; the first has the one entering it."""
    state = rows[0].state or ()
    for earlier in rows[:-1]:
        state = after_step(state, earlier.deleted, earlier.writes)
    return state


def executed(store: Reads, row: StepRow) -> StepRow:
    """The step that really executed, where *row* took its output over from it.

    Raises:
        StoreCorruptError: it is missing.
    """
    if row.origin is None:
        return row
    found = store.read(_read_tasks.step_at, row.origin)
    if found is None:
        raise _broken(row.run_id, f"a step {row.seq} that refers to one that is missing")
    return found


def step_inside(store: Reads, top: StepRow, path: str, action: str, visit: int) -> StepRow | None:
    """The step at (action, visit) of a task inside a top-level step, where that executed."""
    ran = executed(store, top)
    return store.read(_read_tasks.task_step, ran.run_id, ran.attempt, path, action, visit)


def _check_unbroken(run_id: str, rows: list[StepRow], lo: int, hi: int) -> None:
    """Refuse steps that do not all follow each other."""
    seqs = [row.seq for row in rows]
    broken = seqs != list(range(lo, hi)) or any(
        after.status != "open" and after.chain != chain_hash(before.chain, after)
        for before, after in itertools.pairwise(rows)
    )
    if broken:
        missing = next((n for n in range(lo, hi) if n not in seqs), None)
        what = "a step that is out of its order" if missing is None else f"no step {missing}"
        raise _broken(run_id, what)


def _broken(run_id: str, what: str) -> StoreCorruptError:
    return StoreCorruptError(
        f"Run {run_id} has {what}. Restore the store from a copy; store.verify() lists "
        "everything that is damaged.",
        run_id=run_id,
    )


def after_step(
    before: Manifest, deleted: Mapping[str, list[str]] | None, writes: Manifest
) -> Manifest:
    """The state after a step: the deletion rule, then the writes.

    Keys that were there keep their place even when they are written, new keys follow in
    the order written: what Burr does when it merges an action's state.

    Example:
        >>> after_step((("a", "1"), ("b", "2")), {"keep": ["b"]}, (("c", "3"), ("b", "4")))
        (('b', '4'), ('c', '3'))
    """
    written = dict(writes)
    old = dict(before)
    kept = [(k, written.get(k, h)) for k, h in before if k in written or survives(k, deleted)]
    return (*kept, *((k, h) for k, h in writes if k not in old))


def survives(key: str, deleted: Mapping[str, list[str]] | None) -> bool:
    """Whether a deletion rule leaves *key*."""
    if deleted is None:
        return True
    if "keep" in deleted:
        return key in deleted["keep"]
    return key not in deleted["delete"]
