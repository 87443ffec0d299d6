"""`Store.verify()`: every hash of the store derived again from its bytes.

Also what no single hash can say: that the structure of the file is sound, that what a row
refers to is there, that a run has all its steps, that no run ended without them, and that no
row is missing. Damage is collected, never raised: a report on a damaged store is what this is for.
"""

from __future__ import annotations

import functools
import re
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rewind_nb._describe import displayed, plural
from rewind_nb._model import CallRow, ExperimentRow, RunRow, StepRow
from rewind_nb._store import _schema as schema
from rewind_nb._store._chain import chain_at, tail_end
from rewind_nb._store._contents import damaged, damaged_blob
from rewind_nb._store._errors import name_error
from rewind_nb._store._ledger import missing_rows
from rewind_nb._store._verify_runs import wrong_runs
from rewind_nb._store._verify_values import wrong_blobs, wrong_values
from rewind_nb.errors import StoreCorruptError, StoreFullError, StoreReadOnlyError

__all__ = ["VerifyReport", "chain_at", "tail_end", "verify_store"]

SCOPE = re.compile(r"[0-9a-f]{64}")
Checks = Iterator[str | None]  # for each thing there is, what is wrong with it


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What `Store.verify` found.

    Attributes:
        checked: how many rows and values of each kind were re-derived.
        problems: one sentence for each that did not match; empty when the store is sound.

    Example:
        >>> from rewind_nb import Store
        >>> with Store(":memory:") as store:
        ...     report = store.verify()
        >>> report.ok, report.problems
        (True, ())
        >>> report
        VerifyReport(ok; checked 0 rows, 0 values, 0 blobs, 0 runs)
    """

    checked: dict[str, int]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether everything matched."""
        return not self.problems

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        counts = ", ".join(f"{n} {name}" for name, n in self.checked.items())
        found = (
            "ok"
            if self.ok
            else f"{plural(len(self.problems), 'problem')}, first: {self.problems[0]}"
        )
        return displayed(f"VerifyReport({found}; checked {counts})")


def verify_store(connection: sqlite3.Connection, path: Path | None = None) -> VerifyReport:
    """Check SQLite's own structure, every row, value and blob, every chain and root.

    Args:
        path: where the store is, None for memory.

    Raises:
        StoreError: it cannot be read here and now, which says nothing of what is in it.
    """
    seen = _Seen()
    problems: list[str] = []
    count = functools.partial(_count, problems, path)
    count(_pages(connection))
    count(_tables(connection))
    checked = {
        "rows": count(seen.rows(connection)),
        "values": count(seen.values(connection)),
        "blobs": count(seen.blobs(connection)),
        "runs": count(wrong_runs(connection)),
    }
    count(seen.references())
    count(seen.answers(connection))
    count(missing_rows(connection))
    return VerifyReport(checked, tuple(dict.fromkeys(problems)))


def _count(problems: list[str], path: Path | None, checks: Checks) -> int:
    """How many things there are; what is wrong with them is added to *problems*."""
    count = 0
    try:
        for problem in checks:
            count += 1
            if problem is not None:
                problems.append(problem)
    except Exception as error:  # damage has many faces, and each is a finding
        is_sqlite = isinstance(error, sqlite3.Error)
        named = name_error(error, path) if is_sqlite else None
        if isinstance(named, StoreFullError | StoreReadOnlyError):  # of the disk, not the store
            raise named from error
        name = "SQLite" if is_sqlite else type(error).__name__
        problems.append(f"No more of this kind can be read. {name}: {error}.")
    return count


def _pages(opened: sqlite3.Connection) -> Checks:
    for (line,) in opened.execute("PRAGMA integrity_check(20)").fetchall():
        yield None if line == "ok" else f"SQLite: {line}."


def _tables(opened: sqlite3.Connection) -> Checks:
    for table in schema.metadata.sorted_tables:
        found = [name for _, name, *_ in opened.execute(f"PRAGMA table_info({table.name})")]
        missing = [c.name for c in table.columns if c.name not in found]
        yield f"Table {table.name} lacks {', '.join(missing)}." if missing else None


@dataclass(slots=True)
class _Seen:
    """What was read on the way, to see whether what refers to it finds it."""

    wanted: dict[str, str] = field(default_factory=dict)  # value -> what refers to it
    there: set[str] = field(default_factory=set)
    files: dict[str, str] = field(default_factory=dict)  # artifact bytes -> what refers to them
    bytes_there: set[str] = field(default_factory=set)
    runs: set[str] = field(default_factory=set)
    steps: dict[tuple[Any, ...], str] = field(default_factory=dict)  # step -> its place
    calls: dict[tuple[Any, ...], tuple[Any, ...]] = field(default_factory=dict)  # as offered
    within: dict[tuple[Any, ...], str] = field(default_factory=dict)  # step -> what it made

    def rows(self, opened: sqlite3.Connection) -> Checks:
        """Every row against its own hash."""
        for cls, table in schema.TABLES.items():
            names = ", ".join(c.name for c in table.columns)
            for stored in opened.execute(f"SELECT {names} FROM {table.name}"):  # noqa: S608
                try:
                    self._note(schema.read_row(cls, stored))
                except StoreCorruptError as error:
                    yield str(error)
                else:
                    yield None

    def _note(self, row: schema.AnyRow) -> None:
        if isinstance(row, RunRow):
            self.runs.add(row.id)
            inputs = [digest for call in row.halts for _, digest in call.get("inputs", ())]
            self._want(f"Run {row.id}", row.graph, row.overrides, *_hashes(row.state), *inputs)
            return
        if isinstance(row, ExperimentRow):
            self._want(f"Experiment {row.id}", row.spec, row.result)
            return
        step = (row.run_id, row.path, row.seq, row.attempt)
        name = f"Step {row.seq} of run {row.run_id}"
        if isinstance(row, StepRow):
            self.steps[step] = f"{row.path}{row.action}:{row.visit}"
            after = (row.transition or {}).get("reads", ())
            pairs = (row.inputs, row.reads, row.writes, row.state or (), after)
            self._want(name, row.result, row.override, *_hashes(*pairs))
        elif isinstance(row, CallRow):
            if row.playable and row.kind in schema.PLAYABLE:
                home = schema.PLAYABLE[row.kind].name
                self.calls[*step, row.idx] = (home, row.branch, row.fingerprint, row.n, row.epoch)
            self.within[step] = f"{name} has calls, and"
            self._want(f"Call {row.idx} of {name.lower()}", row.request, row.key, row.response)
        else:
            self.within[step] = f"{name} has artifacts, and"
            self.files[row.sha256] = f"Artifact {row.name!r} of {name.lower()}"

    def _want(self, name: str, *digests: str | None) -> None:
        self.wanted.update((digest, name) for digest in digests if digest is not None)

    def values(self, opened: sqlite3.Connection) -> Checks:
        """Every value against its hash."""
        for digest, wrong in wrong_values(opened):
            self.there.add(digest)
            yield None if wrong is None else str(wrong)

    def blobs(self, opened: sqlite3.Connection) -> Checks:
        """The bytes of every artifact against their hash."""
        for digest, wrong in wrong_blobs(opened):
            self.bytes_there.add(digest)
            yield None if wrong is None else str(wrong)

    def references(self) -> Checks:
        """Whether what the rows refer to is there."""
        for digest in self.wanted.keys() - self.there:
            yield f"{self.wanted[digest]} refers to this: {damaged(digest, missing=True)}"
        for digest in self.files.keys() - self.bytes_there:
            yield f"{self.files[digest]}: {damaged_blob(digest, missing=True)}"
        for step in self.within.keys() - self.steps.keys():
            yield f"{self.within[step]} is itself missing."
        for run_id in {step[0] for step in self.steps} - self.runs:
            yield f"Run {run_id} has steps, and is itself missing."

    def answers(self, opened: sqlite3.Connection) -> Checks:
        """Whether what is offered to other runs is the answer it is said to be."""
        names = ", ".join(("place", "fingerprint", "n", "epoch", *schema.STEP_KEY, "idx"))
        for table in {t.name: t for t in schema.PLAYABLE.values()}.values():
            for found in opened.execute(f"SELECT {names} FROM {table.name}"):  # noqa: S608
                *_, run_id, _path, seq, _attempt, idx = found
                offers = f"Table {table.name} offers call {idx} of step {seq} of run {run_id}"
                same = self._is_answer(table.name, found)
                yield None if same else f"{offers} as an answer that it is not."

    def _is_answer(self, table: str, found: tuple[Any, ...]) -> bool:
        try:
            place, *identity, run_id, path, seq, attempt, idx = map(schema.restored, found)
        except UnicodeDecodeError:
            return False
        at = self.steps.get((run_id, path, seq, attempt))
        offer = self.calls.get((run_id, path, seq, attempt, idx))
        if offer is None:
            return False
        home, branch, *answers = offer
        scope = place.removeprefix(f"{at}{branch}")  # what a tool's object and globals were
        here = place.startswith(f"{at}{branch}") and (not scope or bool(SCOPE.fullmatch(scope)))
        return home == table and answers == identity and here


def _hashes(*pairs: Iterable[tuple[str, str | None]]) -> Iterator[str | None]:
    return (digest for manifest in pairs for _, digest in manifest)
