"""`Store.verify()`: every hash of the store, derived again from its bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from rewind_nb._model import ArtifactRow, CallRow, RunRow, StepRow
from rewind_nb._store import _read
from rewind_nb._store import _schema as schema
from rewind_nb._store._contents import read_content
from rewind_nb.errors import StoreCorruptError


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What `Store.verify` found.

    Attributes:
        checked: how many rows and values of each kind were re-derived.
        problems: one sentence for each that did not match; empty when the store is sound.
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
        found = "ok" if self.ok else f"{len(self.problems)} problems, first: {self.problems[0]}"
        return f"VerifyReport({found}; checked {counts})"


def verify_store(connection: sa.Connection) -> VerifyReport:
    """Check SQLite's own structure, every row, value and blob, every chain and root."""
    problems: list[str] = []
    integrity = connection.exec_driver_sql("PRAGMA integrity_check(5)").scalars().all()
    problems += [f"SQLite: {line}" for line in integrity if line != "ok"]
    checked = {
        "rows": _check(problems, _rows(connection)),
        "values": _check(problems, _values(connection)),
        "blobs": _check(problems, _blobs(connection)),
        "runs": _check(problems, _runs(connection)),
    }
    return VerifyReport(checked, tuple(problems))


def _check(problems: list[str], checks: Iterator[Callable[[], str | None]]) -> int:
    count = 0
    for check in checks:
        count += 1
        try:
            problem = check()
        except StoreCorruptError as error:
            problem = str(error)
        if problem:
            problems.append(problem)
    return count


def _rows(connection: sa.Connection) -> Iterator[Callable[[], str | None]]:
    for cls, table in ((c, schema.TABLES[c]) for c in (RunRow, StepRow, CallRow, ArtifactRow)):
        for found in connection.execute(sa.select(table)).mappings():

            def check(cls: type = cls, found: sa.RowMapping = found) -> None:
                schema.read_row(cls, found)

            yield check


def _values(connection: sa.Connection) -> Iterator[Callable[[], str | None]]:
    for digest in connection.execute(sa.select(schema.values.c.hash)).scalars().all():

        def check(digest: str = digest) -> None:
            read_content(connection, digest)

        yield check


def _blobs(connection: sa.Connection) -> Iterator[Callable[[], str | None]]:
    for digest, body in connection.execute(sa.select(schema.blobs.c.sha256, schema.blobs.c.body)):

        def check(digest: str = digest, body: bytes = body) -> str | None:
            if hashlib.sha256(body).hexdigest() != digest:
                return f"The artifact bytes {digest[:12]} do not match their hash."
            return None

        yield check


def _runs(connection: sa.Connection) -> Iterator[Callable[[], str | None]]:
    for row in _read.run_rows(connection, experiments=True):

        def check(row: RunRow = row) -> str | None:
            return _run_problem(connection, row)

        yield check


def _run_problem(connection: sa.Connection, run: RunRow) -> str | None:
    if run.parent is not None and _read.run_row(connection, run.parent) is None:
        return f"Run {run.id} is a fork of {run.parent}, which is missing."
    chain = chain_before(connection, run)
    rows = _read.step_rows(connection, run.id, 0, 1 << 62)
    for seq, row in enumerate(rows, start=run.at):
        if row.seq != seq:
            return f"Run {run.id} lacks its step {seq}."
        if row.status == "open":
            continue
        chain = schema.chain_hash(chain, row)
        if chain != row.chain:
            return f"Run {run.id}: the chain of hashes breaks at step {seq} '{row.action}'."
    if run.root is not None and run.root != schema.root_hash(run, chain, tail_end(connection, run)):
        return f"Run {run.id}: its root hash does not match its rows."
    return None


def chain_before(connection: sa.Connection, run: RunRow) -> str:
    """The chain hash of what a run inherits: its parent's, up to the fork point."""
    return "" if run.parent is None else chain_at(connection, run.parent, run.at)


def tail_end(connection: sa.Connection, run: RunRow) -> str | None:
    """The parent's chain hash at its pinned end, for a run that refers to the parent's tail."""
    if run.tail is None or run.parent is None:
        return None
    return chain_at(connection, run.parent, run.parent_len)


def chain_at(connection: sa.Connection, run_id: str | None, length: int) -> str:
    """The chain hash over the first *length* steps of a run's trajectory."""
    run = None if run_id is None or length == 0 else _read.run_row(connection, run_id)
    if run is None or run_id is None:
        return ""
    if length <= run.at and run.parent is not None:
        return chain_at(connection, run.parent, length)
    own_end = _read.step_count(connection, run_id)
    if length > own_end and run.tail is not None and run.parent is not None:
        # inside the referenced tail: name both ends, for the rows keep the parent's chain
        own = chain_at(connection, run_id, own_end) if own_end > run.at else ""
        beyond = chain_at(connection, run.parent, run.tail + length - max(own_end, run.at))
        return hashlib.sha256(f"{own}+{beyond}".encode()).hexdigest()
    rows = _read.step_rows(connection, run_id, length - 1, length)
    return rows[0].chain if rows else ""
