"""`StoreViews`: how a store is shown in a notebook and as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rewind_nb._notebook import Shown

if TYPE_CHECKING:
    from rewind_nb._store._store import Store
    from rewind_nb.widgets import Timeline

__all__ = ["StoreViews"]


class StoreViews(Shown):
    """A store as a widget, a page and static HTML."""

    @property
    def _store(self) -> Store:
        return cast("Store", self)  # it is a base of that class only

    def view(self, *, run_id: str = "", selection: str = "", compared: str = "") -> Timeline:
        """The store as a widget: its runs as a tree of forks, and the state at each of their steps.

        A store as the last line of a cell shows the same. ``Timeline(store, rw=rw)`` makes forks,
        too.

        Args:
            run_id: the run that is selected at first, or the start of its id; "" for the newest.
            selection: the address of a step of it, such as ``search:2``; "" for the last.
            compared: the ids of two runs that are compared at first, with a space between them.

        Raises:
            RunNotFoundError: there is no such run.

        Example:
            >>> timeline = store.view(selection="analyse:1")  # doctest: +SKIP
        """
        from rewind_nb.widgets import Timeline

        return Timeline(self._store, run_id=run_id, selection=selection, compared=compared)

    def _repr_html_(self) -> str:
        from rewind_nb import _html

        return _html.store_html(self._store)
