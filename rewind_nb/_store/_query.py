"""A select of SQLAlchemy, compiled once and executed by SQLite's own cursor."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import dialect

from rewind_nb._store._engine import raw
from rewind_nb._store._schema import storable


class Query:
    """A select that is compiled once, with a parameter for each `sa.bindparam`."""

    def __init__(self, select: sa.Select[Any] | sa.CompoundSelect[Any]) -> None:
        compiled = select.compile(dialect=dialect(paramstyle="qmark"))
        self._sql = str(compiled)
        self._names = compiled.positiontup or []
        self._given = compiled.params

    def __call__(self, connection: sa.Connection, **given: Any) -> list[tuple[Any, ...]]:
        """The rows found."""
        values = {**self._given, **given}
        return (
            raw(connection)
            .execute(self._sql, [storable(values[name]) for name in self._names])
            .fetchall()
        )
