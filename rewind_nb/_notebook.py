"""The notebook around a value: whether there is one, which cell, how it is shown again later."""

from __future__ import annotations

import os
import weakref
from contextlib import closing
from pathlib import Path
from typing import Any

__all__ = ["Shown", "comes_back", "in_kernel", "put_out", "shown_in_this_cell"]

_shown: dict[str, tuple[Any, list[weakref.ref[Any]]]] = {}  # by cell: its execution, its widgets


class Shown:
    """A value that is a widget in a notebook, static HTML where there is no kernel."""

    def view(self) -> Any:
        """The widget that shows it."""
        raise NotImplementedError

    def to_html(self, path: str | Path) -> Path:
        """Write it as one page to look at and click through without a kernel or a network.

        Of what is very large the page holds the first or the newest in full, and says so.

        Returns:
            The path.

        Raises:
            OSError: it cannot be written.
        """
        with closing(self.view()) as view:
            return Path(view.to_html(path))

    def _repr_html_(self) -> str:
        raise NotImplementedError

    def _repr_mimebundle_(self, **_: Any) -> Any:
        if not in_kernel():
            return {"text/plain": repr(self), "text/html": self._repr_html_()}, {}
        data, metadata = self.view()._repr_mimebundle_()
        return {**data, "text/plain": repr(self)}, metadata

    def _ipython_display_(self) -> None:
        if not comes_back():
            raise NotImplementedError  # which leaves it to the bundle
        self.view()._ipython_display_()


def in_kernel() -> bool:
    """Whether the code runs in a notebook's kernel."""
    return _kernel() is not None


def comes_back() -> bool:
    """Whether the notebook is one of a Jupyter server's, that opens it again without a kernel."""
    return in_kernel() and "JPY_SESSION_NAME" in os.environ and "VSCODE_PID" not in os.environ


def put_out(data: dict[str, Any], metadata: dict[str, Any]) -> None:
    """Show one output below the cell."""
    from IPython.display import display

    display(data, metadata=metadata, raw=True)  # type: ignore[no-untyped-call]


def shown_in_this_cell(widget: Any) -> None:
    """Close what this cell showed when it was executed before: its output is gone."""
    kernel = _kernel()
    parent = {} if kernel is None else kernel.get_parent("shell") or {}
    header = parent.get("header", {})
    cell = parent.get("metadata", {}).get("cellId")
    if cell is None or header.get("msg_type") != "execute_request":
        return
    execution, widgets = _shown.get(cell, (None, []))
    if execution != header["msg_id"]:
        for ref in widgets:
            if (old := ref()) is not None:
                old.close()
        widgets = []
    _shown[cell] = (header["msg_id"], [*widgets, weakref.ref(widget)])


def _kernel() -> Any:
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    return getattr(get_ipython(), "kernel", None)
