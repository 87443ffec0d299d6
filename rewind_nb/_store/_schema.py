"""The tables, and the one way a record becomes a row and comes back.

A column has the name of the record's field; structured fields are JSON text. Every row
carries `row_hash`, a hash over all its other columns, so that a flipped bit is noticed
when the row is read. Rows are append-only, but for the tip of a run (`RUN_TIP`, under a
hash of its own) and for the attempt that is open: it is inserted when its step starts and
replaced once, when it ends. The row of an experiment is replaced as a whole.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import operator
from collections.abc import Container, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from rewind_nb._model import (
    ArtifactRow,
    CallRow,
    ErrorInfo,
    ExperimentRow,
    RunRow,
    StepRow,
    Usage,
)
from rewind_nb.errors import StoreCorruptError

APPLICATION_ID = 0x52574E42  # "RWNB", in the file's header
SCHEMA_VERSION = 3

RUN_TIP = (
    "status", "owner", "tail", "halts", "next_action", "note", "ended_at", "root", "containers",
)  # fmt: skip

metadata = sa.MetaData()


def storable(value: Any) -> Any:
    """As SQLite can hold it: bytes for a text with lone surrogates, as file names have."""
    if type(value) is str and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return value.encode("utf-8", "surrogatepass")
    return value


def restored(value: Any) -> Any:
    """The text that `storable` made bytes of; any other value itself.

    Raises:
        UnicodeDecodeError: `storable` makes no such bytes: a query for the text that they
            spell would not find the row.
    """
    if type(value) is not bytes:
        return value
    text = value.decode("utf-8", "surrogatepass")
    if storable(text) != value:
        raise UnicodeDecodeError("utf-8", value, 0, len(value), "bytes where text is stored")
    return text


def _columns(record: type, primary: tuple[str, ...]) -> list[sa.Column[Any]]:
    return [
        sa.Column(
            field.name,
            _sql_type(str(field.type)),
            primary_key=field.name in primary,
            nullable="None" in str(field.type),
        )
        for field in dataclasses.fields(record)
    ]


def _sql_type(annotation: str) -> Any:
    plain = annotation.replace(" | None", "")
    return {"int": sa.Integer, "float": sa.Float, "bool": sa.Integer}.get(plain, sa.Text)


runs = sa.Table(
    "runs",
    metadata,
    *_columns(RunRow, ("id",)),
    sa.Column("tip_hash", sa.Text, nullable=False),
)
sa.Index("runs_experiment", runs.c.experiment, sqlite_where=runs.c.experiment.is_not(None))
STEP_KEY = ("run_id", "path", "seq", "attempt")
steps = sa.Table(
    "steps",
    metadata,
    *_columns(StepRow, STEP_KEY),
    sa.Index("steps_visit", "run_id", "path", "action", "visit"),
)
calls = sa.Table("calls", metadata, *_columns(CallRow, (*STEP_KEY, "idx")))
artifacts = sa.Table("artifacts", metadata, *_columns(ArtifactRow, (*STEP_KEY, "name")))

# Every value, once, shared by all runs. One that resembles an earlier one holds the edits
# that turn that one (`base`, always of a lower id) into it; `depth` counts them up.
values = sa.Table(
    "contents",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("base", sa.Integer),
    sa.Column("depth", sa.Integer, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
blobs = sa.Table(
    "blobs",
    metadata,
    sa.Column("sha256", sa.Text, nullable=False, unique=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
)


def _playable(name: str) -> sa.Table:
    """An index into `calls`: the answers that may be played back to other runs."""
    return sa.Table(
        name,
        metadata,
        sa.Column("id", sa.Integer, primary_key=True),  # the newest has the highest
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("n", sa.Integer, nullable=False),
        sa.Column("epoch", sa.Integer, nullable=False),
        *(
            sa.Column(k, sa.Text if k in ("run_id", "path") else sa.Integer, nullable=False)
            for k in STEP_KEY
        ),
        sa.Column("idx", sa.Integer, nullable=False),
        sa.Index(f"{name}_identity", "place", "fingerprint", "n", "epoch"),
    )


responses = _playable("responses")  # of models and other HTTP hosts
tool_results = _playable("tool_results")
PLAYABLE = {"model": responses, "http": responses, "tool": tool_results}

experiments = sa.Table("experiments", metadata, *_columns(ExperimentRow, ("id",)))

TABLES = {
    RunRow: runs,
    StepRow: steps,
    CallRow: calls,
    ArtifactRow: artifacts,
    ExperimentRow: experiments,
}
AnyRow = RunRow | StepRow | CallRow | ArtifactRow | ExperimentRow
Row = TypeVar("Row", RunRow, StepRow, CallRow, ArtifactRow, ExperimentRow)

# -- record -> row -> record ---------------------------------------------------------


def _pairs(value: list[list[Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple((k, h) for k, h in value)


_STRUCTURED: dict[str, Any] = {
    # name -> what turns parsed JSON into the field's value
    "mode": dict,
    "owner": dict,
    "state": _pairs,
    "inputs": _pairs,
    "reads": _pairs,
    "writes": _pairs,
    "deleted": dict,
    "containers": dict,
    "transition": dict,
    "halts": tuple,
    "hidden_state": tuple,
    "tasks": lambda v: tuple(map(tuple, v)),
    "uncaptured": tuple,
    "origin": tuple,
    "error": lambda v: ErrorInfo(**v),
    "usage": lambda v: Usage(**v),
}
_UNHASHED = {RunRow: {"row_hash", *RUN_TIP}, StepRow: {"row_hash", "chain"}}


class _Shape:
    """How the records of one class are laid out in their table."""

    def __init__(self, cls: type[AnyRow]) -> None:
        self.fields = tuple(f.name for f in dataclasses.fields(cls))
        self.index = {name: i for i, name in enumerate(self.fields)}
        self.values = operator.attrgetter(*self.fields)
        self.flags = self._at({f.name for f in dataclasses.fields(cls) if f.type == "bool"})
        self.floats = self._at({f.name for f in dataclasses.fields(cls) if "float" in f.type})
        self.structured = self._at(_STRUCTURED)
        self.hashed = self._at(set(self.fields) - _UNHASHED.get(cls, {"row_hash"}))
        self.tip = self._at(RUN_TIP) if cls is RunRow else ()

    def _at(self, names: Container[str]) -> tuple[int, ...]:
        return tuple(i for i, name in enumerate(self.fields) if name in names)


_SHAPES = {cls: _Shape(cls) for cls in TABLES}
TIP_COLUMNS = (*(_SHAPES[RunRow].fields[i] for i in _SHAPES[RunRow].tip), "tip_hash")
_to_json = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode  # ASCII


def _plain(cls: type[AnyRow], values: Sequence[Any]) -> list[Any]:
    """A record's values, the structured ones as JSON text."""
    shape, found = _SHAPES[cls], list(values)
    for i in shape.floats:  # an int would come back as a float, and hash differently
        found[i] = None if found[i] is None else float(found[i])
    for i in shape.structured:
        value = found[i]
        if value is not None:
            if type(value) is Usage:
                value = value.to_dict()
            elif type(value) is ErrorInfo:
                value = dataclasses.asdict(value)
            found[i] = "[]" if value == () else _to_json(value)
    return found


def sealed(row: Row, *, after: str | None = None, **changes: Any) -> tuple[Row, list[Any]]:
    """A record with its `row_hash` set, and its columns in table order.

    Args:
        after: of a step, the chain hash of the one before it.
        changes: fields to change first.
    """
    cls = type(row)
    shape = _SHAPES[cls]
    values = list(shape.values(row))
    for name, value in changes.items():
        values[shape.index[name]] = value
    plain = _plain(cls, values)
    seals = {"row_hash": _row_hash(cls, plain)}
    if after is not None:
        seals["chain"] = _chained(after, seals["row_hash"])
    for name, value in seals.items():
        values[shape.index[name]] = plain[shape.index[name]] = value
    if cls is RunRow:
        plain.append(_tip_hash(plain[0], plain))
    columns = [v if type(v) is not str or v.isascii() else storable(v) for v in plain]
    return cls(*values), columns


def tip_values(run: RunRow) -> list[Any]:
    """The columns `TIP_COLUMNS` of a run."""
    found = _plain(RunRow, _SHAPES[RunRow].values(run))
    tip = [found[i] for i in _SHAPES[RunRow].tip]
    return [*map(storable, tip), _tip_hash(run.id, found)]


def _row_hash(cls: type[AnyRow], plain: list[Any]) -> str:
    return _digest([cls.__name__, [plain[i] for i in _SHAPES[cls].hashed]])


def _tip_hash(run_id: str, plain: list[Any]) -> str:
    return _digest(["tip", run_id, [plain[i] for i in _SHAPES[RunRow].tip]])


def _digest(value: Any) -> str:
    return hashlib.sha256(_to_json(value).encode()).hexdigest()


def read_row(cls: type[Row], stored: Sequence[Any]) -> Row:
    """The record of a row, given as its columns in table order.

    Raises:
        StoreCorruptError: the row does not match its hash.
    """
    shape = _SHAPES[cls]
    try:
        plain = [restored(value) for value in stored]
        tip_hash = plain.pop() if cls is RunRow else None
        for i in shape.flags:
            plain[i] = {0: False, 1: True}[plain[i]]
        intact = plain[shape.index["row_hash"]] == _row_hash(cls, plain)
        if cls is RunRow:
            intact = intact and tip_hash == _tip_hash(plain[0], plain)
        for i in shape.structured:
            if plain[i] is not None:
                plain[i] = _STRUCTURED[shape.fields[i]](json.loads(plain[i]))
        row = cls(*plain)
    except (ValueError, TypeError, KeyError) as error:
        raise _corrupt(cls, stored) from error
    if not intact:
        raise _corrupt(cls, stored)
    return row


def _corrupt(cls: type[AnyRow], stored: Sequence[Any]) -> StoreCorruptError:
    key = {c.name: stored[i] for i, c in enumerate(TABLES[cls].columns) if c.primary_key}
    return StoreCorruptError(
        f"A stored {cls.__name__.removesuffix('Row').lower()} does not match its hash: {key}. "
        "The store's file was changed outside rewind_nb or its disk is failing. "
        "Restore it from a copy; store.verify() lists every damaged row.",
        row=key,
    )


def chain_hash(previous: str, row: StepRow) -> str:
    """The hash of a trajectory up to and including *row*."""
    return _chained(previous, row.row_hash)


def _chained(previous: str, row_hash: str) -> str:
    return hashlib.sha256(f"{previous}:{row_hash}".encode()).hexdigest()


def root_hash(run: RunRow, last_chain: str, parent_end: str | None) -> str:
    """The hash of a finished run: its header, own steps, and the parent tail it refers to."""
    return _digest([run.row_hash, run.status, run.tail, list(run.halts), last_chain, parent_end])
