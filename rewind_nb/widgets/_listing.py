"""`Listing`: the runs of a store as a tree draws them, the newest first.

What of a run does not change is found out once. What many runs cost takes long to add up, so a
view asks for it run by run, as they come into view.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from rewind_nb._describe import displayed, plural
from rewind_nb._html._parts import status_sign, when
from rewind_nb._run import Run
from rewind_nb._store import Store, _read
from rewind_nb.errors import RewindError

__all__ = ["Listing"]

LISTED = 2_000  # runs, the newest
GOING = 20  # that are told of each second while they go on
NAMED = 80  # characters of a label
WORDS = 300  # characters of an override

Facts = dict[str, Any]


class Listing:
    """What a tree draws of the runs of a store.

    Args:
        store: it need not exist yet.
        experiments: whether the runs that experiments made are listed, too.

    Example:
        >>> listing = Listing(Store(":memory:"))
        >>> listing.drawn()["runs"], listing.newest
        ([], '')
    """

    def __init__(self, store: Store, *, experiments: bool = False) -> None:
        self._store = store
        self._lock = threading.RLock()
        self._runs: dict[str, Run] = {}  # as they were written
        self._seen: set[str] = set()  # those of experiments, which are not listed
        self._resumed: set[str] = set()
        self._words: dict[str, str] = {}
        self._facts: dict[str, tuple[str, Facts]] = {}
        self.read(experiments=experiments)

    # -- reading ------------------------------------------------------------------------------

    def read(self, *, experiments: bool) -> None:
        """Read every run anew."""
        with self._lock:
            self.experiments = experiments
            self._runs, self._seen = {}, set()
            if not self._store.exists:
                return
            ids = self._store.read(_read.run_ids)
            self._runs = {run.id: run for run in self._store.runs(experiments=experiments)}
            self._seen = set(ids) - set(self._runs)

    def expect(self, run_id: str) -> None:
        """Read a run when it is looked next, though it had ended: it may have been resumed."""
        with self._lock:
            self._resumed.add(run_id)

    def look(self) -> None:
        """Read the runs that are new, and those that went on."""
        with self._lock:
            if not self._store.exists:
                return
            resumed, self._resumed = self._resumed, set()
            for run_id in self._store.read(_read.run_ids):
                known = self._runs.get(run_id)
                ended = known is not None and known._row.status != "running"  # noqa: SLF001
                if run_id in self._seen or (ended and run_id not in resumed):
                    continue
                run = self._store.run(run_id)
                if run._row.experiment is None or self.experiments:  # noqa: SLF001
                    self._runs[run_id] = run
                else:
                    self._seen.add(run_id)

    @property
    def newest(self) -> str:
        """The id of the run that was made last, "" for none."""
        with self._lock:
            return next(reversed(self._runs), "")

    @property
    def going(self) -> list[str]:
        """The ids of runs that go on right now, the newest first."""
        with self._lock:
            runs = list(self._runs.values())[-LISTED:]
        found = (run.id for run in reversed(runs) if run.status == "running")
        return [run_id for run_id, _ in zip(found, range(GOING), strict=False)]

    # -- what is drawn: plain values ----------------------------------------------------------

    def drawn(self) -> dict[str, Any]:
        """The tree: of each run where it stands, and what its row says."""
        with self._lock:
            runs = list(self._runs.values())
            others = len(self._seen)
        listed = {run.id: run for run in runs[-LISTED:]}
        rows = [self._row(level, run, listed) for level, run in _forest(listed)]
        statuses = Counter(row["status"] for row in rows)
        return {
            "where": "in memory" if self._store.path is None else displayed(str(self._store.path)),
            "there": self._store.exists,
            "told": plural(len(runs), "run", ","),
            "runs": rows,
            "statuses": {status: [*status_sign(status), n] for status, n in statuses.items()},
            "left_out": len(runs) - len(listed),
            "others": others,
        }

    def _row(self, level: int, run: Run, listed: dict[str, Run]) -> dict[str, Any]:
        parent = run.parent_id or ""
        return {
            "id": run.id,
            "level": level,
            "kind": run.kind,
            "status": run.status,
            "label": displayed(run.label or "")[:NAMED],
            "words": self._override(run),
            "from": parent if parent not in listed else "",
            "experiment": run._row.experiment or "",  # noqa: SLF001
            "made": when(run.created_at),
            "version": _version(run),
        }

    def _override(self, run: Run) -> str:
        """What it replaced, which never changes."""
        if run.kind != "fork":
            return ""
        if run.id not in self._words:
            try:
                self._words[run.id] = displayed(run.override_words)[:WORDS]
            except RewindError as error:
                return f"damaged: {displayed(str(error))[:WORDS]}"
        return self._words[run.id]

    def facts(self, run_ids: Iterable[str]) -> dict[str, Facts]:
        """How long some runs are, and what they cost."""
        return {run_id: self._facts_of(run_id) for run_id in run_ids}

    def _facts_of(self, run_id: str) -> Facts:
        try:
            run = self._runs.get(run_id) or self._store.run(run_id)
            version, known = self._facts.get(run_id, ("", Facts()))
            if version != _version(run) or run.status == "running":
                known = _facts(self._store.run(run_id))
                self._facts[run_id] = (_version(run), known)
        except RewindError as error:
            return {"version": "", "error": displayed(str(error))[:WORDS]}
        return known

    def first(self, count: int) -> list[str]:
        """The ids of the runs that are drawn first."""
        return [row["id"] for row in self.drawn()["runs"][:count]]


def _facts(run: Run) -> Facts:
    usage = run.usage
    tokens = None if usage is None else usage.total_tokens
    return {
        "version": _version(run),
        "steps": len(run),
        "at": displayed(run.at_step or "")[:NAMED],
        "tokens": tokens,
        "cost": str(run.cost)[:NAMED],
    }


def _version(run: Run) -> str:
    """What changes where a run does."""
    return f"{run._row.row_hash[:8]} {run.status}"  # noqa: SLF001


def _forest(runs: dict[str, Run]) -> Iterator[tuple[int, Run]]:
    """Each run with its depth, parents before their forks, of several the newest first."""
    below: dict[str | None, list[Run]] = {}
    for run in runs.values():
        parent = run.parent_id if run.parent_id in runs else None
        below.setdefault(parent, []).append(run)
    waiting = [(1, run) for run in below.get(None, [])]
    while waiting:
        level, run = waiting.pop()
        yield level, run
        waiting += [(level + 1, fork) for fork in below.get(run.id, [])]
