"""What a batch asks of SQLite, and how the statements of many batches become few.

After every call of SQLite the thread that commits waits for its turn among the threads that
compute. Where there are many of those, that takes longer than the call: so the rows of one
table go in together.
"""

from __future__ import annotations

import functools
import itertools
import re
import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

from rewind_nb.errors import RunBusyError

VARIABLES = 999  # that any SQLite takes in one statement
_ROW = re.compile(r"(?<= VALUES )\([^)]*\)")
_TABLE = re.compile(r"(?:INTO|UPDATE) (\w+)")


class Statement(NamedTuple):
    """SQL with its rows.

    With *owner*, the run that the rows belong to, each must change exactly one row of the
    table: it is another process's doing where one does not.
    """

    sql: str
    rows: list[Any]
    owner: str | None = None


def gathered(batches: Iterable[list[Statement]]) -> list[Statement]:
    """The statements of several batches, those of one table that have the same SQL as one.

    What is done to a table stays in its order, on which what is done to another does not
    depend.

    Example:
        >>> insert, update = "INSERT INTO a VALUES (?)", "UPDATE b SET c = ?"
        >>> one, other = [Statement(insert, [(1,)]), Statement(update, [(2,)])], [Statement(insert, [(3,)])]
        >>> [statement.rows for statement in gathered([one, other])]
        [[(1,), (3,)], [(2,)]]
    """
    found: list[Statement] = []
    last: dict[str, Statement] = {}  # by table
    for statement in itertools.chain.from_iterable(batches):
        table = _table(statement.sql)
        before = last.get(table)
        if before is not None and before.sql == statement.sql:
            before.rows.extend(statement.rows)
        else:
            last[table] = statement._replace(rows=list(statement.rows))
            found.append(last[table])
    return found


def execute(raw: sqlite3.Connection, statements: list[Statement]) -> None:
    """Execute them in their order.

    Raises:
        RunBusyError: a row of a run is not there, or not as this process left it.
    """
    for statement in statements:
        changed = _changed(raw, statement.sql, statement.rows)
        if statement.owner is not None and changed != len(statement.rows):
            raise RunBusyError(
                f"Run {statement.owner} was taken up by another process meanwhile: what that "
                "wrote stays, and this process cannot write to the run any more. Look at it with "
                "store.run(id), and resume or fork it from there.",
                run_id=statement.owner,
            )


def _changed(raw: sqlite3.Connection, sql: str, rows: list[Any]) -> int:
    """How many rows a statement changed; one that inserts takes many at once."""
    if len(rows) == 1 or not _ROW.search(sql):
        return raw.executemany(sql, rows).rowcount
    changed = start = 0
    while start < len(rows):
        most = min(len(rows) - start, VARIABLES // len(rows[0]))
        part = rows[start : start + (1 << most.bit_length() - 1)]  # few lengths, compiled once
        values = [value for row in part for value in row]
        changed += raw.execute(_for_rows(sql, len(part)), values).rowcount
        start += len(part)
    return changed


@functools.cache
def _for_rows(sql: str, rows: int) -> str:
    return _ROW.sub(lambda row: ", ".join([row[0]] * rows), sql, count=1)


@functools.cache
def _table(sql: str) -> str:
    found = _TABLE.search(sql)
    assert found is not None  # noqa: S101  (all of them insert or update)
    return found[1]
