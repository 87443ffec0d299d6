"""`Head`: what the row of a run says by itself, before any of its steps is read."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from rewind_nb import _owner
from rewind_nb._describe import describe_override
from rewind_nb._model import PLAYING, Origin, Override, RunKind, RunRow, RunStatus
from rewind_nb._store import Reads, Store

if TYPE_CHECKING:
    from rewind_nb._run import Run


class Head:
    """Who a run is, whence it came and where it stands."""

    def __init__(self, store: Store, row: RunRow) -> None:
        self.store = store
        self._row = row

    @property
    def id(self) -> str:
        """The run's id."""
        return self._row.id

    @property
    def label(self) -> str | None:
        """What the user called it."""
        return self._row.label

    @property
    def kind(self) -> RunKind:
        """``record``, ``fork`` or ``replay``."""
        return self._row.kind

    @property
    def status(self) -> RunStatus:
        """``running``, ``complete``, ``halted``, ``failed`` or ``interrupted``.

        A run whose process is gone while it was running is `interrupted`.
        """
        if self._row.status == "running" and not _owner.is_live(self._row.owner, self.id):
            return "interrupted"
        return self._row.status

    @property
    def origin(self) -> Origin | None:
        """Where a fork or a replay came from; None for a recorded run."""
        row = self._row
        if row.parent is None:
            return None
        return Origin(
            parent=row.parent,
            at=row.mode.get("at", row.at),
            overrides=self.overrides,
            reuse=row.mode.get("reuse", "none"),
            cache=row.mode.get("cache", "auto"),
        )

    @cached_property
    def overrides(self) -> tuple[Override, ...]:
        """What this fork replaced; empty for an unchanged one."""
        stored = self._row.overrides
        return () if stored is None else read_overrides(self.store, stored)

    @property
    def created_at(self) -> float:
        """When it was made: seconds since the epoch, UTC."""
        return self._row.created_at

    @property
    def parent_id(self) -> str | None:
        """The id of the run it was forked or replayed from."""
        return self._row.parent

    @property
    def parent(self) -> Run | None:
        """The run it was forked or replayed from."""
        return None if self._row.parent is None else self.store.run(self._row.parent)

    @property
    def next_action(self) -> str | None:
        """The action that would execute next; None when the run is complete."""
        return self._row.next_action

    @property
    def note(self) -> str | None:
        """What else there is to know, such as an override that changed nothing."""
        return self._row.note

    @property
    def label_or_id(self) -> str:
        """What to show where there is little room."""
        return self.label or self.id

    def refresh(self) -> Run:
        """The same run as the store has it now."""
        return self.store.run(self.id)

    @property
    def override_words(self) -> str:
        """The overrides in words, such as ``replace report.total = 1200``."""
        words = "; ".join(describe_override(o) for o in self.overrides)
        plays = self._row.mode.get("cache", "auto") in PLAYING
        return words or ("unchanged" if plays else "asked anew")


def read_overrides(store: Reads, digest: str) -> tuple[Override, ...]:
    """The overrides of a fork."""
    return tuple(Override(**item) for item in store.value(digest))
