"""`Timeline`: the runs of a store as a tree of forks, and the state at each step of one."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any, ClassVar

import traitlets

from rewind_nb import _html
from rewind_nb._compare import Diff
from rewind_nb._describe import displayed
from rewind_nb._model import Event
from rewind_nb._run import Run
from rewind_nb._store import Store
from rewind_nb.errors import ConfigError, RewindError
from rewind_nb.widgets._aside import Aside
from rewind_nb.widgets._base import View, bundle, styles
from rewind_nb.widgets._editing import Editing
from rewind_nb.widgets._listing import Listing
from rewind_nb.widgets._moments import Moments, comparison_drawn

if TYPE_CHECKING:
    from rewind_nb._rewind import Rewind

__all__ = ["Timeline"]

AGAIN = 1.0  # seconds between two looks at runs that go on
PATIENCE = 0.5  # seconds that a view waits for a comparison before it says that it is made
SAVED_FACTS = 300  # runs of which a saved page tells the cost
SAVED_RUNS = 60  # that it tells step by step
SAVED_STATES = 400
SAVED_VALUES = 200
SAVED_PAIRS = 24
ASKED = 100  # runs whose cost may be asked for at once


class Timeline(View):
    """The runs of a store: a tree of forks, a slider over the steps of one, two compared.

    Args:
        store: what it shows.
        rw: a Rewind on that store; with one, a step can be edited and forked here, and what it
            executes is seen at once.
        run_id: the run that is selected at first, or the start of its id; "" for the newest.
        selection: the address of a step of it; "" for the last.
        compared: the ids of two runs, with a space between them; "" for none.
        experiments: whether the runs that experiments made are listed, too.

    Attributes:
        run_id: the selected run.
        selection: the address of the selected step, such as ``search:2``; "" for the last.
        compared: the ids of the two runs that are compared, such as ``r_1 r_2``; "" for none.
        experiments: whether runs of experiments are listed.

    Raises:
        RunNotFoundError: there is no such run.
        ConfigError: *rw* records into another store.

    Example:
        >>> timeline, table = store.view(), DiffTable()  # doctest: +SKIP
        >>> def follow(change):
        ...     if timeline.diff:
        ...         table.diff = timeline.diff
        >>> timeline.observe(follow, "compared")  # doctest: +SKIP
    """

    _esm = bundle("timeline")
    _css = styles()
    asks: ClassVar[dict[str, str]] = {
        "facts": "_of_runs",
        "run": "_of_run",
        "state": "_of_state",
        "value": "_of_value",
        "compare": "_of_pair",
        "renew": "_renew",
        "edit": "_edit",
        "editor": "_ask_editor",
    }

    run_id = traitlets.Unicode("").tag(sync=True)
    compared = traitlets.Unicode("").tag(sync=True)
    experiments = traitlets.Bool(False).tag(sync=True)
    _acts = traitlets.Bool(False).tag(sync=True)  # whether there is a Rewind
    _facts = traitlets.Dict().tag(sync=True)  # of the runs that go on; in a page, of the first
    _ready = traitlets.Int(0).tag(sync=True)  # how many comparisons took longer, and are there
    _editing = traitlets.Dict().tag(sync=True)  # what the editor draws, empty without one

    def __init__(
        self,
        store: Store,
        *,
        rw: Rewind | None = None,
        run_id: str = "",
        selection: str = "",
        compared: str = "",
        experiments: bool = False,
        **given: Any,
    ) -> None:
        if rw is not None and rw.store is not store:
            raise ConfigError(
                f"The Rewind records into {rw.store!r}, and this is {store!r}. "
                "Give Timeline(rw.store, rw=rw)."
            )
        self._store = store
        self._rw = rw
        self._listing = Listing(store, experiments=experiments)
        self._moments = Moments()
        self._run: Run | None = None
        self._diffs = Aside(self._found_out)
        self._found = 0
        self._patience: float | None = PATIENCE
        self._timer: threading.Timer | None = None
        self._editor = Editing(rw, lambda drawn: self._show(_editing=drawn))
        ids = [store.resolve(part) for part in compared.split()]
        given |= {
            "run_id": store.resolve(run_id) if run_id else self._listing.newest,
            "compared": " ".join(ids),
            "experiments": experiments,
            "_acts": rw is not None,
        }
        super().__init__(selection=selection, **given, **self._told())
        self._later += [self._stop_looking, self._editor.close]
        if rw is not None:
            self._later.append(rw.on(self._hear))
        self._look_again()

    # -- which runs ---------------------------------------------------------------------------

    @property
    def store(self) -> Store:
        """What it shows."""
        return self._store

    @property
    def run(self) -> Run | None:
        """The selected run as it is by now, None for none."""
        return self._store.run(self.run_id) if self.run_id else None

    @property
    def diff(self) -> Diff | None:
        """What the two runs differ in that are compared, None where none are."""
        pair = self.compared.split()
        return Diff(*map(self._store.run, pair)) if len(pair) == 2 else None

    @traitlets.observe("experiments")
    def _on_experiments(self, change: Any) -> None:
        if change.new == self._listing.experiments:
            return
        try:
            self._renew()
        except RewindError as error:  # a view that set it would not hear of it
            self._show(problem=displayed(str(error)))

    @traitlets.observe("run_id")
    def _on_run_id(self, change: Any) -> None:
        self._editor.go_to(change.new)

    def _renew(self) -> bool:
        """Read all runs anew."""
        self._listing.read(experiments=self.experiments)
        self._diffs.forget()
        self._update()
        return True

    # -- while runs go on ---------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        if event.name in ("run_started", "run_ended"):
            self._listing.expect(event.run_id)
            self.refresh()

    def _update(self) -> None:
        self._listing.look()
        told = self._told()
        if not self.run_id and self._listing.newest:
            told["run_id"] = self._listing.newest
        self._show(**told)
        self._look_again()

    def _told(self) -> dict[str, Any]:
        """The traits as they are by now: those that went on are told of once more."""
        facts = dict.fromkeys([*self._listing.going, *self._facts])
        return {
            "_drawn": self._listing.drawn(),
            "_facts": self._listing.facts(list(facts)[:SAVED_FACTS]),
            "_ready": self._found,
        }

    def _look_again(self) -> None:
        """Look again soon, as long as a run goes on."""
        with self._lock:
            if self._ended or not self._listing.going:
                return
            self._stop_looking()
            self._timer = threading.Timer(AGAIN, _refresh, [weakref.ref(self)])
            self._timer.daemon = True
            self._timer.name = "rewind-timeline"
            self._timer.start()

    def _stop_looking(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None

    # -- what it shows ------------------------------------------------------------------------

    def html(self) -> str:
        """The store as static HTML."""
        return _html.store_html(self._store)

    def __repr__(self) -> str:
        return f"<Timeline of {self._drawn['told']}>"

    @property
    def title(self) -> str:
        return "Runs"

    def settle(self) -> None:
        """Tell of each run at once what a view would ask for."""
        self._patience = None
        self._show(_facts=self._listing.facts(self._listing.first(SAVED_FACTS)))

    def questions(self) -> list[tuple[str, dict[str, Any]]]:
        """What a saved page may ask; of a large store only the selected run and the newest."""
        listed = self._listing.first(SAVED_RUNS)
        chosen = [self.run_id, *self.compared.split(), *listed]
        ids = [run_id for run_id in dict.fromkeys(chosen) if run_id][:SAVED_RUNS]
        runs = [self._read(run_id) for run_id in ids]
        asked: list[tuple[str, dict[str, Any]]] = [("run", {"run": run.id}) for run in runs]
        steps = [(run, step) for run in runs for step in run.steps][:SAVED_STATES]
        states = [("state", {"run": run.id, "address": step.address}) for run, step in steps]
        values = (
            ("value", {**args, "name": key["name"]})
            for _, args in states
            for key in self._of_state(**args)["keys"]
            if key["more"]
        )
        asked += [*states, *(value for value, _ in zip(values, range(SAVED_VALUES), strict=False))]
        pairs = [(run.parent_id, run.id) for run in runs if run.parent_id][:SAVED_PAIRS]
        if (diff := self.diff) is not None:
            pairs.insert(0, (diff.a.id, diff.b.id))
        return [*asked, *(("compare", {"a": a, "b": b}) for a, b in dict.fromkeys(pairs))]

    # -- what a view asks ---------------------------------------------------------------------

    def _of_runs(self, runs: list[str]) -> dict[str, Any]:
        """How long some runs are, and what they cost."""
        return self._listing.facts(runs[:ASKED])

    def _of_run(self, run: str) -> dict[str, Any]:
        """A run with its steps."""
        return self._moments.run_drawn(self._read(run))

    def _of_state(self, run: str, address: str) -> dict[str, Any]:
        """The state at a step."""
        return self._moments.state_drawn(self._read(run), address)

    def _of_value(self, run: str, address: str, name: str) -> dict[str, Any]:
        """One field of it."""
        return self._moments.value_drawn(self._read(run), address, name)

    def _read(self, run_id: str) -> Run:
        """A run; the one that was asked for last is held, so that its steps are read once."""
        found = self._store.run(run_id)
        held = self._run
        if held is None or held._row != found._row or found.status == "running":  # noqa: SLF001
            held = self._run = found
        return held

    # -- two of them --------------------------------------------------------------------------

    def _of_pair(self, a: str, b: str) -> dict[str, Any]:
        """What two runs differ in; ``working`` while that is found out."""
        runs = self._store.run(a), self._store.run(b)
        return self._diffs.value(
            tuple((run.id, run._row.row_hash, len(run)) for run in runs),  # noqa: SLF001
            lambda: comparison_drawn(Diff(*runs)),
            self._patience,
        ) or {"working": True}

    def _found_out(self) -> None:
        self._found += 1
        self.refresh()

    # -- the actions of a step ----------------------------------------------------------------

    def _edit(self, run: str, address: str) -> bool:
        """Open the editor at a step."""
        self._editor.open(self._store.run(run), address)
        return True

    def _ask_editor(self, ask: str, args: dict[str, Any]) -> dict[str, Any]:
        """What the editor answers."""
        return self._editor.ask(ask, args)


def _refresh(ref: weakref.ref[Timeline]) -> None:
    timeline = ref()
    if timeline is not None:
        timeline.refresh()
