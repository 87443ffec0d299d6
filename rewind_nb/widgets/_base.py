"""`View`: what all widgets share.

Python computes what is drawn (`_drawn`), JavaScript draws it. A view asks with a message
``{"id", "ask", "args"}`` and gets one with the same id and ``answer`` or ``error``, so an error
is shown where it was caused and never only printed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import anywidget
import traitlets

from rewind_nb import _notebook
from rewind_nb._describe import said
from rewind_nb._html._style import CSS
from rewind_nb._secrets import redact
from rewind_nb.errors import RewindError
from rewind_nb.widgets._coalescer import COALESCER
from rewind_nb.widgets._page import save

__all__ = ["View", "bundle", "styles"]

STATIC = Path(__file__).parent / "static"


@cache
def bundle(name: str) -> str:
    """The JavaScript of a widget.

    As text, not as a path: anywidget watches a path, and so keeps every instance for ever.
    """
    return (STATIC / f"{name}.js").read_text("utf-8")


@cache
def styles() -> str:
    """The style sheet of static HTML and what widgets need beyond it."""
    return CSS + (STATIC / "widgets.css").read_text("utf-8")


class View(anywidget.AnyWidget):
    """A widget on something recorded; it sits in any ipywidgets container.

    Attributes:
        selection: the address of the selected step, such as ``search:2``; "" for none.
        problem: what went wrong last, shown in the widget; "" for nothing.
    """

    asks: ClassVar[dict[str, str]] = {}  # the method that answers each kind of question

    selection = traitlets.Unicode("").tag(sync=True)
    problem = traitlets.Unicode("").tag(sync=True)
    _drawn = traitlets.Dict().tag(sync=True)

    def __init__(self, **given: Any) -> None:
        self._lock = threading.RLock()
        self._ended = False
        self._later: list[Callable[[], None]] = []  # to be called when it is closed
        super().__init__(**given)
        self.on_msg(View._on_message)
        _notebook.shown_in_this_cell(self)

    # -- what it shows ----------------------------------------------------------------------

    def html(self) -> str:
        """The same as static HTML, without script."""
        raise NotImplementedError

    def questions(self) -> list[tuple[str, dict[str, Any]]]:
        """What a saved page may ask, with the arguments."""
        return []

    def state(self) -> dict[str, Any]:
        """Its own traits, as a view reads them."""
        shared = {
            *anywidget.AnyWidget.class_trait_names(sync=True),
            "_esm",
            "_css",
            "_anywidget_id",
        }
        return {name: getattr(self, name) for name in self.keys if name not in shared}

    @property
    def title(self) -> str:
        """What a page of its own is called."""
        return type(self).__name__

    def settle(self) -> None:
        """Show what is so now, where a view would be told of it later."""

    def to_html(self, path: str | Path) -> Path:
        """Write it as one page to look at without a kernel or a network.

        Returns:
            The path.

        Raises:
            OSError: it cannot be written.
        """
        self.settle()
        return save(self, Path(path))

    def refresh(self) -> None:
        """Show what is so by now, soon and from another thread."""
        if not self._ended:
            COALESCER.want(id(self), self._refresh)

    def _refresh(self) -> None:
        try:
            self._update()
        except Exception as error:  # noqa: BLE001  (it is shown in the widget)
            self._show(problem=_words(error))

    def _update(self) -> None:
        """Set the traits anew, where that has a meaning."""

    def _show(self, **traits: Any) -> None:
        """Set several traits in one message."""
        with self._lock:
            if self._ended:
                return
            with self.hold_sync():
                for name, value in traits.items():
                    setattr(self, name, value)

    # -- what it is asked -------------------------------------------------------------------

    def _on_message(self, content: Any, _buffers: Any) -> None:
        if isinstance(content, dict) and "ask" in content:
            self.send({"id": content.get("id"), **self.answer(content)})

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        """What comes back to a view that asks: ``{"answer": ...}`` or ``{"error": words}``."""
        method = self.asks.get(str(question.get("ask")))
        if question.get("ask") == "ping":
            return {"answer": "here"}
        try:
            if method is None:
                return {"error": f"{type(self).__name__} is not asked {question.get('ask')!r}."}
            return {"answer": getattr(self, method)(**question.get("args", {}))}
        except Exception as error:  # noqa: BLE001  (it is shown in the widget)
            return {"error": _words(error)}

    # -- in a notebook ----------------------------------------------------------------------

    def close(self) -> None:
        """Take it out of the page and let go of what it shows."""
        if "_lock" not in vars(self):
            return  # it was refused what it was to show, and never came to be
        with self._lock:
            self._ended = True
        COALESCER.forget(id(self))
        while self._later:
            self._later.pop()()
        super().close()

    def _repr_mimebundle_(self, **_: Any) -> Any:
        bundled = super()._repr_mimebundle_()
        data, metadata = bundled if isinstance(bundled, tuple) else (bundled or {}, {})
        return {**data, "text/plain": repr(self), "text/html": self.html()}, metadata

    def _ipython_display_(self) -> None:
        """Show the static HTML before the view, where the page comes back without its kernel.

        JupyterLab then has an error in place of a view, and does not look at its HTML; the view
        hides what is before it.

        Raises:
            NotImplementedError: it is shown in one output, as everywhere else.
        """
        if not _notebook.comes_back():
            raise NotImplementedError
        data, metadata = self._repr_mimebundle_()
        snapshot = f'<div class="rw-snapshot">{data.pop("text/html")}</div>'
        _notebook.put_out({"text/html": snapshot, "text/plain": repr(self)}, {})
        _notebook.put_out(data, metadata)


def _words(error: Exception) -> str:
    told = (
        str(error) if isinstance(error, RewindError) else f"{type(error).__name__}: {said(error)}"
    )
    return redact(told)
