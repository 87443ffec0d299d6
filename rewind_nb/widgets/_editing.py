"""`Editing`: an editor of overrides inside of another widget, which draws it and speaks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rewind_nb._run import Run
from rewind_nb.errors import ConfigError
from rewind_nb.widgets._override_editor import OverrideEditor

if TYPE_CHECKING:
    from rewind_nb._rewind import Rewind

__all__ = ["Editing"]

DRAWN = ("_drawn", "_told", "result")  # the traits by which an editor is drawn


class Editing:
    """An `OverrideEditor` that is made when it is first opened.

    Args:
        rw: which makes the forks; None where there is none.
        show: is told what to draw, whenever that changed.
    """

    def __init__(self, rw: Rewind | None, show: Callable[[dict[str, Any]], None]) -> None:
        self._rw = rw
        self._show = show
        self._editor: OverrideEditor | None = None

    def open(self, run: Run, address: str) -> None:
        """Open it at a step.

        Raises:
            ConfigError: there is no Rewind to make forks with.
        """
        if self._rw is None:
            raise ConfigError("A store alone makes no forks. Give Timeline(store, rw=rw).")
        if self._editor is None:
            self._editor = OverrideEditor(self._rw, run, selection=address)
            self._editor.observe(self._changed, list(DRAWN))
        self.go_to(run.id)
        self._changed()

    def go_to(self, run_id: str) -> None:
        """Edit another run, where it is open."""
        if self._editor is not None and run_id:
            self._editor.run_id = run_id

    def ask(self, ask: str, args: dict[str, Any]) -> dict[str, Any]:
        """What the editor answers.

        Raises:
            ConfigError: it was not opened.
        """
        if self._editor is None:
            raise ConfigError("No step is being edited.")
        return self._editor.answer({"ask": ask, "args": args})

    def close(self) -> None:
        """Stop what executes, and let the editor go."""
        if self._editor is not None:
            self._editor.close()

    def _changed(self, _: Any = None) -> None:
        self._show({name: getattr(self._editor, name) for name in DRAWN})
