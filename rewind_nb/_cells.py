"""State as content: what a step may read, and what it was seen to read.

A `Cell` is one state value as its encoding. It is decoded afresh for each step, so that no
two steps, keys or closures ever share a mutable object. A `Reader` gives one step its
values, and notes each key it looked at, absent ones included.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rewind_nb import _codec
from rewind_nb._model import Manifest
from rewind_nb._store import Content, Reads


class Cell:
    """One value of the state, loaded from the store when it is first needed."""

    __slots__ = ("_data", "_store", "hash", "path")

    def __init__(
        self, digest: str, *, data: bytes | None = None, store: Reads | None = None, path: str = ""
    ) -> None:
        self.hash = digest
        self.path = path
        self._data = data
        self._store = store

    @classmethod
    def of(cls, value: Any, path: str) -> Cell:
        """The cell of a live value.

        Raises:
            NotEncodableError: naming the path.
        """
        data = _codec.encode(value, path=path)
        return cls(_codec.digest(data), data=data, path=path)

    @property
    def content(self) -> Content:
        """Its encoding."""
        if self._data is None:
            assert self._store is not None  # noqa: S101  (one of the two is always given)
            self._data = self._store.content(self.hash).data
        return Content(self.hash, self._data, self.path)

    @property
    def loaded(self) -> bool:
        """Whether its encoding is in memory."""
        return self._data is not None

    @property
    def new(self) -> bool:
        """Whether it came from elsewhere than the store, and is perhaps not in it."""
        return self._store is None

    def fresh(self, *, strict: bool = True) -> Any:
        """The value, decoded: the caller's own copy."""
        return _codec.decode(self.content.data, strict=strict)

    def __deepcopy__(self, _memo: dict[int, Any]) -> Cell:
        return self

    def __repr__(self) -> str:
        return f"Cell({self.hash[:12]})"


Cells = Mapping[str, Cell]


def cells_of(manifest: Manifest, store: Reads) -> dict[str, Cell]:
    """The cells of a recorded state, in its order."""
    return {key: Cell(digest, store=store, path=key) for key, digest in manifest}


def manifest_of(cells: Cells) -> Manifest:
    """The ordered (key, hash) pairs of a state."""
    return tuple((key, cell.hash) for key, cell in cells.items())


class Reader:
    """The values one step sees, and what it read of them.

    Args:
        outer: the reader of the step that a task's state came from. What a task reads of the
            state that was passed on unchanged, its step has read too.
    """

    def __init__(self, cells: Cells, outer: Reader | None = None) -> None:
        self.cells = cells
        self.outer = outer
        self.values: dict[str, Any] = {}
        self.reads: dict[str, str | None] = {}
        self.reads_all = False

    def has(self, key: str) -> bool:
        """Whether *key* is there: an observation like any other."""
        cell = self.cells.get(key)
        self.reads.setdefault(key, None if cell is None else cell.hash)
        if self.outer is not None and self.outer.cells.get(key) is cell:
            self.outer.has(key)
        return cell is not None

    def get(self, key: str) -> Any:
        """The value of *key*, the same object each time within this step."""
        if not self.has(key):
            raise KeyError(key)
        if key not in self.values:
            self.values[key] = self.cells[key].fresh()
        return self.values[key]

    def now(self, key: str) -> Cell:
        """The cell of *key*; another one where its value was changed in place."""
        cell = self.cells[key]
        value = self.values.get(key)
        if value is None or _codec.is_atomic(value):
            return cell
        changed = Cell.of(value, path=key)
        return cell if changed.hash == cell.hash else changed

    def note_all(self) -> None:
        """Note that every key was looked at."""
        if self.reads_all:
            return
        self.reads_all = True
        for key in self.cells:
            self.has(key)
        if self.outer is not None:  # also keys that the task has another value of
            self.outer.note_all()

    def observed(self) -> tuple[tuple[str, str | None], ...]:
        """What was read, by key; the whole state in its order, where that was."""
        first = {key: self.reads[key] for key in self.cells} if self.reads_all else {}
        return tuple({**first, **self.reads}.items())

    def mutated(self) -> dict[str, Cell]:
        """The keys whose value was changed in place, with what they hold now."""
        changed = {}
        for key, value in self.values.items():
            if not _codec.is_atomic(value) and (cell := self.now(key)) is not self.cells[key]:
                changed[key] = cell
        return changed
