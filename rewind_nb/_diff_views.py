"""`DiffViews`: how a diff is shown in a notebook and as a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from rewind_nb._notebook import Shown

if TYPE_CHECKING:
    from rewind_nb._compare import Diff
    from rewind_nb.widgets import DiffTable

__all__ = ["DiffViews"]


class DiffViews(Shown):
    """A diff as a widget, a page and static HTML."""

    @property
    def _diff(self) -> Diff:
        return cast("Diff", self)  # it is a base of that class only

    def view(self, *, selection: str = "", path: str = "") -> DiffTable:
        """The diff as a widget: a row for each change, with its values and its causes.

        A diff as the last line of a cell shows the same.

        Args:
            selection: the address of a step that is selected at first, such as ``search:2``.
            path: the field of a change that is open at first, such as ``report.total``.

        Example:
            >>> table = rw.diff(run, fork).view(path="report.total")  # doctest: +SKIP
        """
        from rewind_nb.widgets import DiffTable

        return DiffTable(self._diff, selection=selection, path=path)

    def _repr_html_(self) -> str:
        from rewind_nb import _html

        return _html.diff_html(self._diff)
