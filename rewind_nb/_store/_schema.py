"""The tables, and the one way a record becomes a row and comes back.

A column has the name of the record's field; structured fields are JSON text. Every row
carries `row_hash`, a hash over all its other columns, so that a flipped bit is noticed
when the row is read. Rows are append-only, but for the tip of a run (`RUN_TIP`) and for
the attempt that is open: it is inserted when its step starts and replaced once, when it
ends.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any, TypeVar

import sqlalchemy as sa

from rewind_nb._model import ArtifactRow, CallRow, ErrorInfo, RunRow, StepRow, Usage
from rewind_nb.errors import StoreCorruptError

APPLICATION_ID = 0x52574E42  # "RWNB", in the file's header
SCHEMA_VERSION = 1

RUN_TIP = ("status", "owner", "tail", "halts", "next_action", "note", "ended_at", "root", "containers")

metadata = sa.MetaData()


def _columns(record: type, primary: tuple[str, ...], **overrides: Any) -> list[sa.Column[Any]]:
    columns = []
    for field in dataclasses.fields(record):
        kind = overrides.get(field.name) or _sql_type(str(field.type))
        columns.append(sa.Column(field.name, kind, primary_key=field.name in primary))
    return columns


def _sql_type(annotation: str) -> Any:
    plain = annotation.replace(" | None", "")
    return {"int": sa.Integer, "float": sa.Float, "bool": sa.Boolean}.get(plain, sa.Text)


runs = sa.Table(
    "runs", metadata, *_columns(RunRow, ("id",)), sa.Index("runs_created", "created_at")
)
STEP_KEY = ("run_id", "path", "seq", "attempt")
steps = sa.Table(
    "steps",
    metadata,
    *_columns(StepRow, STEP_KEY),
    sa.Index("steps_visit", "run_id", "path", "action", "visit"),
)
calls = sa.Table("calls", metadata, *_columns(CallRow, (*STEP_KEY, "idx")))
artifacts = sa.Table("artifacts", metadata, *_columns(ArtifactRow, (*STEP_KEY, "name")))

# `values` is content-addressed and shared by all runs. A value that shares a prefix with
# an earlier one holds only what follows it: content = content(base)[:cut] + body.
values = sa.Table(
    "contents",
    metadata,
    sa.Column("hash", sa.Text, nullable=False, unique=True),
    sa.Column("base", sa.Text),
    sa.Column("cut", sa.Integer, nullable=False),
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
        *(sa.Column(k, sa.Text if k in ("run_id", "path") else sa.Integer) for k in STEP_KEY),
        sa.Column("idx", sa.Integer),
        sa.Index(f"{name}_identity", "place", "fingerprint", "n", "epoch"),
    )


responses = _playable("responses")  # of models and other HTTP hosts
tool_results = _playable("tool_results")
PLAYABLE = {"model": responses, "http": responses, "tool": tool_results}

experiments = sa.Table(
    "experiments",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("run_id", sa.Text),
    sa.Column("spec", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("row_hash", sa.Text, nullable=False),
)

TABLES = {RunRow: runs, StepRow: steps, CallRow: calls, ArtifactRow: artifacts}
Row = TypeVar("Row", RunRow, StepRow, CallRow, ArtifactRow)

# -- record -> row -> record ---------------------------------------------------------

_UNHASHED = {RunRow: {"row_hash", *RUN_TIP}, StepRow: {"row_hash", "chain"}}
_JSON_FIELDS: dict[str, Any] = {
    # name -> what turns parsed JSON into the field's value
    "mode": dict,
    "owner": dict,
    "state": lambda v: tuple((k, h) for k, h in v),
    "inputs": lambda v: tuple((k, h) for k, h in v),
    "reads": lambda v: tuple((k, h) for k, h in v),
    "writes": lambda v: tuple((k, h) for k, h in v),
    "deleted": dict,
    "containers": dict,
    "transition": dict,
    "halts": tuple,
    "hidden_state": tuple,
    "error": lambda v: ErrorInfo(**v),
    "usage": lambda v: Usage(**v),
}


def _to_column(name: str, value: Any) -> Any:
    if value is None or name not in _JSON_FIELDS:
        return value
    if isinstance(value, Usage):
        value = value.to_dict()
    elif isinstance(value, ErrorInfo):
        value = dataclasses.asdict(value)
    # ASCII: a key with a lone surrogate is text SQLite could not hold
    return json.dumps(value, separators=(",", ":"))


FIELD_NAMES = {cls: tuple(f.name for f in dataclasses.fields(cls)) for cls in TABLES}


def row_values(row: Row, names: tuple[str, ...] | None = None) -> tuple[Any, ...]:
    """The columns of a record, in table order."""
    return tuple(_to_column(n, getattr(row, n)) for n in names or FIELD_NAMES[type(row)])


def seal(row: Row) -> Row:
    """The same record with its `row_hash` set."""
    return dataclasses.replace(row, row_hash=row_hash(row))


def row_hash(row: Row) -> str:
    """SHA-256 over every column that never changes, the hash itself and the chain apart."""
    skipped = _UNHASHED.get(type(row), {"row_hash"})
    names = tuple(n for n in FIELD_NAMES[type(row)] if n not in skipped)
    text = json.dumps([type(row).__name__, row_values(row, names)], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def read_row(cls: type[Row], columns: Mapping[str, Any]) -> Row:
    """The record of a row.

    Raises:
        StoreCorruptError: the row does not match its hash.
    """
    fields: dict[str, Any] = {}
    try:
        for name in FIELD_NAMES[cls]:
            value = columns[name]
            if value is not None and name in _JSON_FIELDS:
                value = _JSON_FIELDS[name](json.loads(value))
            fields[name] = value
        row = cls(**fields)
        intact = row_hash(row) == row.row_hash
    except (ValueError, TypeError) as error:
        raise _corrupt(cls, columns) from error
    if not intact:
        raise _corrupt(cls, columns)
    return row


def _corrupt(cls: type, columns: Mapping[str, Any]) -> StoreCorruptError:
    key = {k: columns[k] for k in ("id", *STEP_KEY, "idx", "name") if k in columns}
    return StoreCorruptError(
        f"A stored {cls.__name__.removesuffix('Row').lower()} does not match its hash: {key}. "
        "The store's file was changed outside rewind_nb or its disk is failing. "
        "Restore it from a copy; store.verify() lists every damaged row.",
        row=key,
    )


def chain_hash(previous: str, row: StepRow) -> str:
    """The hash of a trajectory up to and including *row*."""
    return hashlib.sha256(f"{previous}:{row.row_hash}".encode()).hexdigest()


def root_hash(run: RunRow, last_chain: str, parent_end: str | None) -> str:
    """The hash of a finished run: its header, own steps, and the parent tail it refers to."""
    tip = [run.row_hash, run.status, run.tail, list(run.halts), last_chain, parent_end]
    return hashlib.sha256(json.dumps(tip, separators=(",", ":")).encode()).hexdigest()
