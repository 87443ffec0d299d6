"""`Store`: opening a store, writing batches to it, reading runs and frames from it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

import sqlalchemy as sa

from rewind_nb import _codec
from rewind_nb._model import ArtifactRow, CallRow, RunRow, StepRow
from rewind_nb._secrets import contains_secret
from rewind_nb._store import _contents, _read
from rewind_nb._store import _schema as schema
from rewind_nb._store._contents import Content, content_row, read_content
from rewind_nb._store._engine import Statement, Writer, _locked, _named_errors, open_engine
from rewind_nb._store._verify import VerifyReport, verify_store
from rewind_nb.errors import (
    AmbiguousIdError,
    RunNotFoundError,
    SecretLeakError,
    StoreError,
    StoreReadOnlyError,
    did_you_mean,
)

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from rewind_nb._run import Run

P = ParamSpec("P")
T = TypeVar("T")
MEMORY = ":memory:"


def _insert(table: sa.Table, verb: str = "INSERT") -> str:
    names = ", ".join(c.name for c in table.columns)
    marks = ", ".join("?" for _ in table.columns)
    return f"{verb} INTO {table.name} ({names}) VALUES ({marks})"


_INSERT = {cls: _insert(table) for cls, table in schema.TABLES.items()}
_REPLACE = {cls: _insert(table, "REPLACE") for cls, table in schema.TABLES.items()}
_TIP = f"UPDATE runs SET {', '.join(f'{n} = ?' for n in schema.RUN_TIP)} WHERE id = ?"  # noqa: S608
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
        self.statements: list[Statement] = []

    def content(self, data: bytes, like: Content | None = None) -> Content:
        """Add a value, as a delta to *like* where that saves space.

        Raises:
            SecretLeakError: the value holds a registered secret.
        """
        if contains_secret(data):
            raise SecretLeakError(
                "A value to be stored holds a registered API key. Keep the key in a Secret and "
                "pass it to the client, not through state, inputs or results."
            )
        content = Content(_codec.digest(data), data)
        self._put(_contents.INSERT, content_row(content, like))
        return content

    def value(self, value: Any, path: str = "value") -> str:
        """Encode and add a value; its hash."""
        return self.content(_codec.encode(value, path=path)).hash

    def blob(self, data: bytes) -> str:
        """Add the bytes of an artifact; their SHA-256."""
        sha256 = hashlib.sha256(data).hexdigest()
        self._put(_contents.INSERT_BLOB, (sha256, data))
        return sha256

    def add(self, row: RunRow | StepRow | CallRow | ArtifactRow) -> None:
        """Add a sealed row."""
        self._put(_INSERT[type(row)], schema.row_values(row))

    def replace(self, row: StepRow | CallRow) -> None:
        """Put the final row in the place of the one that was open."""
        self._put(_REPLACE[type(row)], schema.row_values(row))

    def tip(self, run: RunRow) -> None:
        """Move the tip of a run: its status and what follows from it."""
        self._put(_TIP, (*schema.row_values(run, schema.RUN_TIP), run.id))

    def playable(self, call: CallRow, place: str) -> None:
        """Offer an answer to other runs."""
        key = (call.run_id, call.path, call.seq, call.attempt, call.idx)
        identity = (place, call.fingerprint, call.n, call.epoch)
        self._put(_PLAYABLE[schema.PLAYABLE[call.kind].name], (*identity, *key))

    def _put(self, sql: str, row: tuple[Any, ...]) -> None:
        if self.statements and self.statements[-1][0] == sql:
            self.statements[-1][1].append(row)  # type: ignore[attr-defined]
        else:
            self.statements.append((sql, [row]))


def find_path() -> Path:
    """The default store: REWIND_STORE, else the nearest .rewind/runs.db upward, else here."""
    named = os.environ.get("REWIND_STORE")
    if named:
        return Path(named)
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / ".rewind" / "runs.db").exists():
            return folder / ".rewind" / "runs.db"
    return here / ".rewind" / "runs.db"


class Store:
    """Where runs live: one SQLite file, or memory.

    Args:
        path: a file; ``":memory:"`` for a store that dies with the object; None to find one
            like git does (`REWIND_STORE`, the nearest ``.rewind/runs.db`` upward, else it is
            created here).
        read_only: open to read; nothing is created or written.

    Raises:
        StoreFormatError: the file is not a rewind_nb store.
        StoreVersionError: it was written by a newer rewind_nb.
        StoreReadOnlyError: it cannot be created or opened there.

    Example:
        >>> store = Store(":memory:")
        >>> store.runs()
        []
    """

    def __init__(
        self, path: str | os.PathLike[str] | None = None, *, read_only: bool = False
    ) -> None:
        self.path = None if path == MEMORY else find_path() if path is None else Path(path)
        self.read_only = read_only
        if self.path is not None and not read_only:
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreReadOnlyError(
                    f"The folder {self.path.parent} cannot be created: {error.strerror}. "
                    "Choose another path for the store."
                ) from error
        if read_only and self.path is not None and not self.path.exists():
            raise StoreError(f"There is no store at {self.path}. Check the path.")
        with _locked(None if read_only else self.path):
            self._engine = open_engine(self.path, read_only=read_only)
        self._writer = Writer(self._engine, self.path)
        self._memory = threading.RLock() if self.path is None else contextlib.nullcontext()

    def close(self) -> None:
        """Commit what waits and close every connection. A closed store cannot be used."""
        self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- writing (for the recorder) ---------------------------------------------------

    def submit(self, batch: Batch, *, durable: bool = False, wake: bool = True) -> Future[None]:
        """Queue a batch; see `Writer.submit`.

        Raises:
            StoreReadOnlyError: the store was opened to read.
        """
        if self.read_only:
            raise StoreReadOnlyError(
                f"The store {self.path} was opened with read_only=True. "
                "Open it with Store(path) to record into it."
            )
        with self._memory:
            return self._writer.submit(batch.statements, durable=durable, wake=wake)

    def flush(self) -> None:
        """Wait until everything submitted is committed."""
        if not self.read_only:
            with self._memory:
                self._writer.flush()

    # -- reading ----------------------------------------------------------------------

    def read(
        self, query: Callable[Concatenate[sa.Connection, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run one of the queries of `_read` (or `_contents`) on a connection of its own."""
        with self._memory, _named_errors(self.path), self._engine.connect() as connection:
            return query(connection, *args, **kwargs)

    def content(self, digest: str) -> Content:
        """A stored value's encoding, its hash checked."""
        return Content(digest, self.read(read_content, digest))

    def value(self, digest: str, *, strict: bool = False) -> Any:
        """A stored value, decoded afresh."""
        return _codec.decode(self.content(digest).data, strict=strict)

    def resolve(self, id_prefix: str) -> str:
        """The one run id that starts with *id_prefix*.

        Raises:
            RunNotFoundError: there is none; the message lists the nearest.
            AmbiguousIdError: there are several; the message lists them.
        """
        ids = self.read(_read.run_ids, id_prefix)
        if id_prefix in ids or len(ids) == 1:
            return id_prefix if id_prefix in ids else ids[0]
        if not ids:
            near = did_you_mean(id_prefix, reversed(self.read(_read.run_ids)))
            raise RunNotFoundError(
                f"No run with the id {id_prefix!r} in {self!r}. {near}", run_id=id_prefix
            )
        shown = ", ".join(ids[:10])
        raise AmbiguousIdError(
            f"{id_prefix!r} matches {len(ids)} runs: {shown}{', ...' if len(ids) > 10 else ''}. "
            "Give more of the id.",
            run_id=id_prefix,
            matches=ids,
        )

    def row(self, id_prefix: str) -> RunRow:
        """The row of a run."""
        found = self.read(_read.run_row, self.resolve(id_prefix))
        assert found is not None  # noqa: S101  (resolve found it)
        return found

    def runs(self, *, experiments: bool = False) -> list[Run]:
        """Every run, oldest first; an experiment's probes only when asked for."""
        from rewind_nb._run import Run

        rows = self.read(_read.run_rows, experiments=experiments)
        return [Run(self, row) for row in rows]

    def run(self, id_prefix: str) -> Run:
        """One run, by its id or the start of it.

        Raises:
            RunNotFoundError: there is none; the message lists the nearest.
            AmbiguousIdError: there are several; the message lists them.
        """
        from rewind_nb._run import Run

        return Run(self, self.row(id_prefix))

    # -- views ------------------------------------------------------------------------

    def runs_df(self, *, experiments: bool = False) -> pd.DataFrame:
        """One row per run; columns in `_frames.RUN_COLUMNS`."""
        from rewind_nb import _frames

        return _frames.runs_df(self.runs(experiments=experiments))

    def steps_df(self, *, experiments: bool = False) -> pd.DataFrame:
        """One row per step of every run's trajectory; columns in `_frames.STEP_COLUMNS`."""
        from rewind_nb import _frames

        return _frames.steps_df(self.runs(experiments=experiments))

    def calls_df(self, *, experiments: bool = False) -> pd.DataFrame:
        """One row per call of every run; columns in `_frames.CALL_COLUMNS`."""
        from rewind_nb import _frames

        return _frames.calls_df(self.runs(experiments=experiments))

    def fields_df(self, *, experiments: bool = False) -> pd.DataFrame:
        """One row per written state field of every step; columns in `_frames.FIELD_COLUMNS`."""
        from rewind_nb import _frames

        return _frames.fields_df(self.runs(experiments=experiments))

    def tree(self) -> nx.DiGraph[str]:
        """The runs as a forest of forks: an edge from each parent to each of its forks."""
        from rewind_nb._run import fork_tree

        return fork_tree(self.runs())

    def verify(self) -> VerifyReport:
        """Re-derive every hash of the store from its bytes."""
        self.flush()
        return self.read(verify_store)

    def __repr__(self) -> str:
        return f"Store({(MEMORY if self.path is None else str(self.path))!r})"

    def _repr_html_(self) -> str:
        from rewind_nb import _html

        return _html.store_html(self)
