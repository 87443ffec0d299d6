"""`Store`: opening a store, writing batches to it, reading runs and frames from it."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar

from rewind_nb import _codec
from rewind_nb._model import ExperimentRow, RunRow
from rewind_nb._store import _experiments, _read
from rewind_nb._store._batch import Batch
from rewind_nb._store._contents import Content, Recent, read_content
from rewind_nb._store._engine import Database
from rewind_nb._store._file import MEMORY, find_path
from rewind_nb._store._ledger import check_runs
from rewind_nb._store._resolve import missing, one_of
from rewind_nb._store._shown import StoreViews
from rewind_nb._store._verify import VerifyReport, verify_store
from rewind_nb._store._writer import Writer
from rewind_nb.errors import StoreCorruptError, StoreNotFoundError, StoreReadOnlyError

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from rewind_nb._run import Run
    from rewind_nb.experiments import Experiment

P = ParamSpec("P")
T = TypeVar("T")


class Store(StoreViews):
    """Where runs live: one SQLite file, or memory.

    Several processes and threads may use one file at once. A store must be opened anew in a
    forked process.

    Args:
        path: a file, which the first run recorded creates where there is none; ``":memory:"``
            for a store that dies with the object; None to find one like git does
            (`REWIND_STORE`, the nearest ``.rewind/runs.db`` upward, else one here).
        read_only: open to read: no run can be recorded, and the file does not change. Where
            its folder can be written, SQLite keeps two files beside it while it is open.

    Raises:
        StoreFormatError: the file is not a rewind_nb store.
        StoreVersionError: it was written by a newer rewind_nb.
        StoreReadOnlyError: it cannot be written.
        StoreCorruptError: it is damaged.
        StoreNotFoundError: *read_only*, and there is none; else whatever reads says so.

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
        self.awaited = False  # a Rewind is to record into it: until then there is nothing in it
        self._database = Database(self.path, read_only=read_only)
        self._writer = Writer(self._database)
        self._recent = Recent()
        self._forgotten = weakref.finalize(self, self._writer.abandon)

    def close(self) -> None:
        """Commit what waits and close every connection.

        Nothing can be recorded after that; what is in a file can still be read.

        Raises:
            StoreError: something could not be committed, and nobody was told.
        """
        if self._forgotten.detach() is not None:
            self._writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- writing (for the recorder) ---------------------------------------------------

    def submit(self, batch: Batch, *, durable: bool = False, wake: bool = True) -> Future[None]:
        """Queue a batch; see `Writer.submit`. The first one creates the file.

        Raises:
            StoreReadOnlyError: the store was opened to read, or its folder cannot be written.
            StoreFullError: there is no space to create it.
        """
        if self.read_only:
            raise StoreReadOnlyError(
                f"The store {self.path} was opened with read_only=True. "
                "Open it with Store(path) to record into it.",
                path=str(self.path),
            )
        self._database.open(create=True)
        return self._writer.submit(batch.statements(self._recent), durable=durable, wake=wake)

    def flush(self) -> None:
        """Wait until everything submitted is committed."""
        if not self.read_only:
            self._writer.flush()

    # -- reading ----------------------------------------------------------------------

    @property
    def exists(self) -> bool:
        """Whether it is there; a file is from the first run on that is recorded in it."""
        return self.path is None or self.path.exists()

    def read(
        self,
        query: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run one of the queries of `_read` on a connection that sees a single moment.

        Raises:
            StoreNotFoundError: nothing was recorded there yet.
        """
        return self._database.read(query, *args, **kwargs)

    def content(self, digest: str) -> Content:
        """A stored value's encoding, its hash checked.

        Raises:
            StoreCorruptError: it is missing, or does not match its hash.
        """
        try:
            return Content(digest, self.read(read_content, digest))
        except StoreCorruptError:
            self._writer.settle()  # it may have been waiting to be committed
            return Content(digest, self.read(read_content, digest))

    def value(self, digest: str, *, strict: bool = False) -> Any:
        """A stored value, decoded afresh."""
        return _codec.decode(self.content(digest).data, strict=strict)

    def resolve(self, id_prefix: str) -> str:
        """The one run id that starts with *id_prefix*.

        Raises:
            RunNotFoundError: there is none; the message lists the nearest.
            AmbiguousIdError: there are several; the message lists them.
            StoreCorruptError: there is none, and a run that was recorded is missing.
        """
        self._writer.settle()
        found = one_of("run", id_prefix, lambda lo: self.read(_read.run_ids, lo))
        if found is None:
            self.read(check_runs)
            raise missing(self, "run", id_prefix, self.read(_read.run_ids))
        return found

    def row(self, id_prefix: str) -> RunRow:
        """The row of a run."""
        self._writer.settle()
        found = self.read(_read.run_row, id_prefix) if isinstance(id_prefix, str) else None
        found = found or self.read(_read.run_row, self.resolve(id_prefix))
        assert found is not None  # noqa: S101  (resolve found it)
        return found

    def runs(self, *, experiments: bool = False) -> list[Run]:
        """Every run, oldest first; an experiment's probes only when asked for.

        Raises:
            StoreNotFoundError: there is no file, and no Rewind that is to make it.
        """
        from rewind_nb._run import Run

        rows = self._listed(_read.run_rows, experiments=experiments)
        return [Run(self, row) for row in rows]

    def _listed(
        self,
        query: Callable[Concatenate[sqlite3.Connection, P], list[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> list[T]:
        self._writer.settle()
        try:
            return self.read(query, *args, **kwargs)
        except StoreNotFoundError:
            if self.awaited:
                return []
            raise

    def run(self, id_prefix: str) -> Run:
        """One run, by its id or the start of it.

        Raises:
            RunNotFoundError: there is none; the message lists the nearest.
            AmbiguousIdError: there are several; the message lists them.
        """
        from rewind_nb._run import Run

        return Run(self, self.row(id_prefix))

    # -- experiments ------------------------------------------------------------------

    def experiments(self) -> list[Experiment]:
        """Every experiment, oldest first."""
        from rewind_nb.experiments import reopened

        return [reopened(self, row) for row in self._listed(_experiments.experiment_rows)]

    def experiment(self, id_prefix: str) -> Experiment:
        """One experiment, by its id or the start of it: a `Grid`, a `Sweep`, ...

        Raises:
            ExperimentNotFoundError: there is none; the message lists the nearest.
            AmbiguousIdError: there are several; the message lists them.
        """
        from rewind_nb.experiments import reopened

        return reopened(self, self.experiment_row(id_prefix))

    def experiment_row(self, id_prefix: str) -> ExperimentRow:
        """The row of an experiment."""
        self._writer.settle()
        ids = _experiments.experiment_ids
        found = one_of("experiment", id_prefix, lambda lo: self.read(ids, lo))
        row = None if found is None else self.read(_experiments.experiment_row, found)
        if row is None:
            raise missing(self, "experiment", id_prefix, self.read(ids))
        return row

    def experiments_df(self) -> pd.DataFrame:
        """One row per experiment; columns in `_experiment_frames.EXPERIMENT_COLUMNS`."""
        from rewind_nb import _experiment_frames

        return _experiment_frames.experiments_df(self.experiments())

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
        from rewind_nb._graphs import fork_tree

        return fork_tree(self.runs())

    def verify(self) -> VerifyReport:
        """Re-derive every hash of the store from its bytes, and check what refers to what.

        Damage is reported, not raised.

        Raises:
            StoreNotFoundError: it is not there.
            StoreFullError: what waits to be committed finds no space.
            StoreError: it cannot be read; the subclass says why.
        """
        self.flush()
        return self.read(verify_store, self.path)

    def __repr__(self) -> str:
        return f"Store({(MEMORY if self.path is None else str(self.path))!r})"
