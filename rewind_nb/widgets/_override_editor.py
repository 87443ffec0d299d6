"""`OverrideEditor`: change one thing at a step, see what it changes, fork there."""

from __future__ import annotations

import threading
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import traitlets

from rewind_nb import _html
from rewind_nb._describe import displayed, plural
from rewind_nb._proof import Proof
from rewind_nb._run import Run, Step
from rewind_nb._text import visible
from rewind_nb.errors import ConfigError, RewindError, StepNotFoundError, did_you_mean
from rewind_nb.widgets._at_step import AtStep, Edits, estimated
from rewind_nb.widgets._base import View, bundle, styles
from rewind_nb.widgets._forking import Forking

if TYPE_CHECKING:
    from rewind_nb._rewind import Rewind

__all__ = ["OverrideEditor"]

LISTED = 2_000  # steps to choose from
FIELDS = 300  # of a step, that are listed
SAVED = 200  # fields that a saved page tells all of
NAMED = 60  # characters of an action
WORDS = 4_000  # characters of an error


class OverrideEditor(View):
    """What a step can consume, to be edited, and a fork made of it.

    A fork changes one thing. What is typed stays in the page until it is reset; Python is told
    of it to check it, and keeps none of it.

    Args:
        rw: which makes the forks.
        run: their parent.
        selection: the address of the step, such as ``search:2``; "" for none yet.

    Attributes:
        run_id: the run; set it to another one of the same store.
        result: the id of the last fork that ended, "" for none.

    Example:
        >>> editor = rw.editor(run, "compose")  # doctest: +SKIP
        >>> editor.on_fork(lambda fork: print(rw.diff(run, fork)))  # doctest: +SKIP
    """

    _esm = bundle("override_editor")
    _css = styles()
    asks: ClassVar[dict[str, str]] = {
        "step": "_of_step",
        "recorded": "_recorded",
        "check": "_check",
        "fork": "_fork",
        "reproduce": "_reproduce",
        "stop": "_stop",
    }

    run_id = traitlets.Unicode("").tag(sync=True)
    result = traitlets.Unicode("").tag(sync=True)
    _told = traitlets.Dict().tag(sync=True)  # of what executes, or did last

    def __init__(self, rw: Rewind, run: Run, *, selection: str = "", **given: Any) -> None:
        self._rw = rw
        self._run = run
        self._reading = threading.Lock()
        self._steps: tuple[Run, dict[str, Step]] = (run, _by_address(run))
        self._at: AtStep | None = None
        self._forking = Forking(rw, self.refresh, self._ended_fork)
        self._followers: list[Callable[[Run], object]] = []
        given |= {"run_id": run.id, "_drawn": _drawn(run, self._steps[1])}
        super().__init__(selection=selection, **given)
        self._later.append(self._forking.close)

    # -- which run ----------------------------------------------------------------------------

    @property
    def run(self) -> Run:
        """The parent of the forks."""
        return self._run

    @run.setter
    def run(self, run: Run) -> None:
        steps = _by_address(run)
        with self._reading:
            self._run, self._at, self._steps = run, None, (run, steps)
        selected = {} if self.selection in steps else {"selection": ""}
        self._show(_drawn=_drawn(run, steps), run_id=run.id, problem="", **selected)

    @traitlets.observe("run_id")
    def _on_run_id(self, change: Any) -> None:
        if change.new not in ("", self._run.id):
            self.run = self._rw.store.run(change.new)

    # -- what came of it ----------------------------------------------------------------------

    @property
    def fork(self) -> Run | None:
        """The last fork that ended, None for none; one that failed or was stopped, too."""
        return self._forking.fork

    @property
    def proof(self) -> Proof | None:
        """What the last reproduction proved, None for none."""
        return self._forking.proof

    def on_fork(self, callback: Callable[[Run], object]) -> Callable[[], None]:
        """Call *callback* with each fork that ended, in the thread that executed it.

        One that failed or was stopped is told, too: its `status` says so.

        Returns:
            What takes it away again.
        """
        self._followers.append(callback)

        def unsubscribe() -> None:
            if callback in self._followers:
                self._followers.remove(callback)

        return unsubscribe

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until what executes has ended; False where that took longer, in seconds.

        Example:
            >>> editor.wait(30), editor.result  # doctest: +SKIP
        """
        return self._forking.wait(timeout)

    def _ended_fork(self, fork: Run) -> None:
        self._show(result=fork.id)
        for callback in list(self._followers):
            callback(fork)

    def _update(self) -> None:
        self._show(_told=dict(self._forking.told))

    def close(self) -> None:
        """Take it out of the page; what executes is stopped."""
        super().close()
        self._followers.clear()

    # -- what it shows ------------------------------------------------------------------------

    def html(self) -> str:
        """The recorded step as static HTML; the run where none is selected."""
        step = self._steps[1].get(self.selection)
        return _html.run_html(self._run) if step is None else _html.step_html(step)

    @property
    def title(self) -> str:
        return f"Steps of run {self._run.id}"

    def __repr__(self) -> str:
        where = self.selection[:NAMED] or "no step selected"
        return displayed(f"<OverrideEditor of {plural(len(self._run), 'step')}, {where}>")

    def questions(self) -> list[tuple[str, dict[str, Any]]]:
        """What a saved page may ask: the selected step and those after it, then the others."""
        addresses = list(self._steps[1])
        at = addresses.index(self.selection) if self.selection in addresses else 0
        asked: list[tuple[str, dict[str, Any]]] = []
        for address in [*addresses[at:], *addresses[:at]]:
            if len(asked) > SAVED:
                break
            asked.append(("step", {"address": address}))
            fields = self._step_at(address).fields
            asked += [("recorded", {"address": address, "field": name}) for name in fields]
        return asked

    # -- what a view asks -----------------------------------------------------------------------

    def _of_step(self, address: str) -> dict[str, Any]:
        """The fields of a step."""
        at = self._step_at(address)
        return {
            "address": address,
            "label": visible(at.step.label)[:NAMED],
            "from": visible(at.step.top.label)[:NAMED],
            "refused": at.refused[:WORDS],
            "fields": [field.drawn() for field in islice(at.fields.values(), FIELDS)],
            "left": max(0, len(at.fields) - FIELDS),
        }

    def _recorded(self, address: str, field: str) -> dict[str, str]:
        """The recorded value of a field: as it is edited, and as it is shown."""
        at = self._step_at(address)
        found = at.field(field)
        code = at.in_code(found) if found.locked else ""
        return {"field": field, "text": found.text, "shown": found.shown, "code": code}

    def _check(self, address: str, edits: Edits) -> dict[str, Any]:
        """What is wrong with what was typed, what it changes, what a fork would execute."""
        at = self._step_at(address)
        drafts = at.drafts(edits)
        refused, words = at.refused or drafts.refused, ""
        if not refused:
            try:
                words = estimated(at.expected(drafts))
            except RewindError as error:
                refused = str(error)
        return {"fields": drafts.told(), "refused": refused[:WORDS], "estimate": words}

    def _fork(self, address: str, edits: Edits) -> bool:
        """Begin a fork.

        Raises:
            ConfigError: what was typed cannot be one, or something executes already.
        """
        at = self._step_at(address)
        drafts = at.drafts(edits)
        if drafts.refused:
            raise ConfigError(drafts.refused)
        self._forking.begin_fork(at.run, at.step, drafts.given[0])
        return True

    def _reproduce(self, address: str) -> bool:
        """Begin a replay from a step on."""
        at = self._step_at(address)
        self._forking.begin_replay(at.run, at.step)
        return True

    def _stop(self) -> bool:
        """Stop what executes."""
        return self._forking.stop()

    def _step_at(self, address: str) -> AtStep:
        with self._reading:
            if self._at is not None and self._at.address == address:
                return self._at
            if self._run.status == "running":  # it may have gone on meanwhile
                self._run = self._run.refresh()
                self._steps = (self._run, _by_address(self._run))
            run, steps = self._steps
            if address not in steps:
                raise StepNotFoundError(
                    f"The run has no step {address!r}. {did_you_mean(address, steps)}"
                )
            at = AtStep(self._rw, run, steps[address])
            self._at = None if run.status == "running" else at
            return at


def _by_address(run: Run) -> dict[str, Step]:
    return {step.address: step for step in run.walk()}


def _drawn(run: Run, steps: dict[str, Step]) -> dict[str, Any]:
    """A run as the editor draws it: its steps to choose from."""
    listed = list(steps.values())[:LISTED]
    origin = run.origin
    return {
        "run": {
            "id": run.id,
            "parent": "" if origin is None else origin.parent,
            "told": visible(run.describe())[:WORDS],
        },
        "steps": [
            {"address": step.address, "label": visible(step.label)[:NAMED], "status": step.status}
            for step in listed
        ],
        "left": len(steps) - len(listed),
    }
