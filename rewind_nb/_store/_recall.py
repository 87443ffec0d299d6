"""`Recall`: a store of which everything is read once.

Forks of one run ask for the same rows and values of it, and what they ask for is of steps
that have ended: it does not change. So it is read, and held against its hash, for the first
of them, and then remembered for as long as they are made.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from rewind_nb import _codec
from rewind_nb._model import RunRow
from rewind_nb._store import _read
from rewind_nb._store._contents import Content

if TYPE_CHECKING:
    from rewind_nb._store._store import Store

P = ParamSpec("P")
T = TypeVar("T")
ANSWERS = 4096  # to queries
VALUES = 1 << 24  # bytes of them


class Reads(Protocol):
    """What rows and values are read from: a `Store`, or the `Recall` of one."""

    def read(
        self,
        query: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """What a query of `_read` finds."""

    def content(self, digest: str) -> Content:
        """A stored value's encoding."""

    def value(self, digest: str, *, strict: bool = False) -> Any:
        """A stored value, decoded afresh."""

    def row(self, id_prefix: str) -> RunRow:
        """The row of a run."""


class Recall:
    """A store as it was when it was first asked; threads may share it.

    What it answers is shared too, and must not be changed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._answers: Callable[..., Any] = functools.lru_cache(ANSWERS)(store.read)
        self._values: dict[str, Content] = {}
        self._left = VALUES

    def read(
        self,
        query: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """What a query of `_read` finds, or found."""
        found: T = self._answers(query, *args, **kwargs)
        return found

    def content(self, digest: str) -> Content:
        """A stored value's encoding; the first ones that there is room for are remembered."""
        found = self._values.get(digest)
        if found is None:
            found = self._store.content(digest)
            if len(found.data) <= self._left:
                self._left -= len(found.data)
                self._values[digest] = found
        return found

    def value(self, digest: str, *, strict: bool = False) -> Any:
        """A stored value, decoded afresh."""
        return _codec.decode(self.content(digest).data, strict=strict)

    def row(self, run_id: str) -> RunRow:
        """The row of a run."""
        return self.read(_read.run_row, run_id) or self._store.row(run_id)
