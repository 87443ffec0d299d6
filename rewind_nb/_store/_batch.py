"""`Batch`: rows and values that are committed together, all of them or none."""

from __future__ import annotations

import hashlib
from typing import Any, TypeVar

import sqlalchemy as sa

from rewind_nb import _codec
from rewind_nb._model import CallRow, ExperimentRow, RunRow, StepRow
from rewind_nb._store import _schema as schema
from rewind_nb._store._contents import Content, Recent, insertions
from rewind_nb._store._leaks import refuse_names, refuse_secrets
from rewind_nb._store._schema import Row
from rewind_nb._store._statements import Statement

Ending = TypeVar("Ending", StepRow, CallRow)


def _insert(table: sa.Table) -> str:
    names = [c.name for c in table.columns]
    marks = ", ".join("?" * len(names))
    return f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608


def _upsert(table: sa.Table) -> str:
    """Insert a row, or put it in the place of the one there."""
    key = ", ".join(c.name for c in table.columns if c.primary_key)
    rest = ", ".join(f"{c.name} = excluded.{c.name}" for c in table.columns if not c.primary_key)
    return f"{_insert(table)} ON CONFLICT ({key}) DO UPDATE SET {rest}"


def _end(table: sa.Table, unfinished: str) -> str:
    """The same, where the one there is not finished yet."""
    return f"{_upsert(table)} WHERE {table.name}.status = '{unfinished}'"


_INSERT = {cls: _insert(table) for cls, table in schema.TABLES.items()}
_END = {StepRow: _end(schema.steps, "open"), CallRow: _end(schema.calls, "started")}
_EXPERIMENT = _upsert(schema.experiments)
_TIP = f"UPDATE runs SET {', '.join(f'{n} = ?' for n in schema.TIP_COLUMNS)} WHERE id = ?"  # noqa: S608
_CLAIM = f"{_TIP} AND tip_hash = ?"
_BLOB = "INSERT OR IGNORE INTO blobs (sha256, body) VALUES (?, ?)"
_PLAYABLE = {
    table.name: (
        f"INSERT INTO {table.name} (place, fingerprint, n, epoch, run_id, path, seq, attempt, idx)"  # noqa: S608
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
    )
    for table in schema.PLAYABLE.values()
}


class Batch:
    """Rows that are committed together: all of them, or none."""

    def __init__(self) -> None:
        self._contents: dict[str, tuple[Content, Content | None]] = {}
        self._statements: list[Statement] = []

    def content(
        self, data: bytes | Content, like: Content | None = None, *, path: str = "value"
    ) -> Content:
        """Add a value, as the edits to *like* where that saves space.

        Args:
            data: its encoding; a `Content` where its hash is known already.
            like: the value before it.
            path: how errors call a value whose `Content` does not say it.

        Raises:
            SecretLeakError: the value holds a registered secret; it says where.
        """
        content = data if isinstance(data, Content) else Content(_codec.digest(data), data)
        if content.hash not in self._contents:
            refuse_secrets(content.data, content.path or path)
            self._contents[content.hash] = (content, like)
        return content

    def value(self, value: Any, path: str = "value") -> str:
        """Encode and add a value; its hash."""
        return self.content(_codec.encode(value, path=path), path=path).hash

    def blob(self, data: bytes) -> str:
        """Add the bytes of an artifact, in which no secret was found; their SHA-256."""
        sha256 = hashlib.sha256(data).hexdigest()
        self._statements.append(Statement(_BLOB, [(sha256, data)], None))
        return sha256

    def add(self, row: Row, *, after: str | None = None, **changes: Any) -> Row:
        """Seal a row and add it; the row as it is stored.

        Args:
            after: of a step, the chain hash of the one before it.
            changes: fields to change first.
        """
        row, columns = schema.sealed(row, after=after, **changes)
        self._put(_INSERT[type(row)], columns)
        return row

    def replace(self, row: Ending, *, after: str | None = None, **changes: Any) -> Ending:
        """`add` for a row that will be replaced when it ends, or that ends the one there.

        The future of the batch raises `RunBusyError` where that one ended already: another
        process executes the run.
        """
        row, columns = schema.sealed(row, after=after, **changes)
        self._put(_END[type(row)], columns, owner=row.run_id)
        return row

    def experiment(self, row: ExperimentRow) -> None:
        """Add an experiment, or put it in the place of itself as it was."""
        self._put(_EXPERIMENT, schema.sealed(row)[1])

    def tip(self, run: RunRow) -> None:
        """Move the tip of a run: its status and what follows from it."""
        self._put(_TIP, (*schema.tip_values(run), run.id), owner=run.id)

    def claim(self, run: RunRow, was: RunRow) -> None:
        """Move the tip of a run only if it is still as it *was* read.

        The future of the batch raises `RunBusyError` where another process was faster.
        """
        before = schema.tip_values(was)[-1]
        self._put(_CLAIM, (*schema.tip_values(run), run.id, before), owner=run.id)

    def playable(self, call: CallRow, place: str) -> None:
        """Offer an answer to other runs."""
        key = (call.run_id, call.path, call.seq, call.attempt, call.idx)
        identity = (place, call.fingerprint, call.n, call.epoch)
        row = map(schema.storable, (*identity, *key))
        self._put(_PLAYABLE[schema.PLAYABLE[call.kind].name], tuple(row))

    def statements(self, recent: Recent) -> list[Statement]:
        """What to execute: the values first, so that no row refers to one that is not there."""
        return [*insertions(self._contents.values(), recent), *self._statements]

    def _put(self, sql: str, row: Any, *, owner: str | None = None) -> None:
        refuse_names(row)
        last = self._statements[-1] if self._statements else None
        if last is not None and (last.sql, last.owner) == (sql, owner):
            last.rows.append(row)
        else:
            self._statements.append(Statement(sql, [row], owner))
