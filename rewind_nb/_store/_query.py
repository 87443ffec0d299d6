"""A select of SQLAlchemy, compiled once and executed by SQLite's own cursor."""

from __future__ import annotations

import sqlite3
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import dialect

from rewind_nb._store._schema import storable


class Query:
    """A select that is compiled once, with a parameter for each `sa.bindparam`."""

    def __init__(self, select: sa.Select[Any] | sa.CompoundSelect[Any]) -> None:
        compiled = select.compile(dialect=dialect(paramstyle="qmark"))
        self._sql = str(compiled)
        self._names = compiled.positiontup or []
        self._given = compiled.params

    def __call__(self, connection: sqlite3.Connection, **given: Any) -> list[tuple[Any, ...]]:
        """The rows found."""
        values = {**self._given, **given}
        parameters = [storable(values[name]) for name in self._names]
        return connection.execute(self._sql, parameters).fetchall()
