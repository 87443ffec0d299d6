"""`RunGraph`: a run as a graph of its actions or a line of its steps, live while it goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import traitlets

from rewind_nb import _html
from rewind_nb._describe import plural
from rewind_nb._html._boxes import RUNNING, Box, Drawing, Line, drawing, is_running
from rewind_nb._html._parts import seconds, signed
from rewind_nb._model import Event
from rewind_nb._run import Run, Step
from rewind_nb._text import HOW, how, visible, why
from rewind_nb.errors import StepNotFoundError, did_you_mean
from rewind_nb.widgets._base import View, bundle, styles

if TYPE_CHECKING:
    from rewind_nb._rewind import Rewind

__all__ = ["RunGraph", "run_drawn"]

NAMED = 60  # characters of an action
SAVED = 500  # steps that a saved page tells all of
WORDS = 2_000  # characters of a reason, an error, a label


class RunGraph(View):
    """The graph of a run: what it did, in which order, and why.

    Args:
        run: what it shows; None for what `follow` will come upon.
        selection: the address of a step that is selected at first.

    Attributes:
        run_id: the run it shows, "" for none yet; set it to show another of the same store.
        mode: ``actions``, a box for each, or ``steps``, one for each.

    Example:
        >>> graph = run.view()  # doctest: +SKIP
        >>> graph.observe(lambda change: print(change.new), "selection")  # doctest: +SKIP
    """

    _esm = bundle("run_graph")
    _css = styles()
    asks: ClassVar[dict[str, str]] = {"step": "_of_step", "inside": "_inside"}

    run_id = traitlets.Unicode("").tag(sync=True)
    mode = traitlets.Enum(["actions", "steps"], "actions").tag(sync=True)

    def __init__(self, run: Run | None = None, *, selection: str = "", **given: Any) -> None:
        self._run = run
        self._known: tuple[Run | None, dict[str, Step]] = (None, {})
        self._coming: str | None = None  # the run that is followed, as it is in the store
        if run is not None:
            given |= {"run_id": run.id, "_drawn": run_drawn(run)}
        super().__init__(selection=selection, **given)

    # -- which run --------------------------------------------------------------------------

    @property
    def run(self) -> Run | None:
        """The run it shows."""
        return self._run

    @run.setter
    def run(self, run: Run) -> None:
        self._run = run
        selected = {} if self.selection in self._steps() else {"selection": ""}
        self._show(_drawn=run_drawn(run), run_id=run.id, problem="", **selected)

    @traitlets.observe("run_id")
    def _on_run_id(self, change: Any) -> None:
        if self._run is not None and change.new not in ("", self._run.id):
            self.run = self._run.store.run(change.new)

    def follow(self, rw: Rewind) -> None:
        """Show what a Rewind executes next, and then what it executes after that, live.

        Of runs that execute side by side it shows the one that started first.
        """
        going: list[str] = []

        def hook(event: Event) -> None:
            if event.name == "run_started":
                going.append(event.run_id)
            if going[:1] == [event.run_id]:
                self._coming = event.run_id
                self.refresh()
            if event.name == "run_ended" and event.run_id in going:
                going.remove(event.run_id)

        self._store = rw.store
        self._later.append(rw.on(hook))

    def _update(self) -> None:
        if self._coming is not None:
            self.run = self._store.run(self._coming)

    # -- what it shows ----------------------------------------------------------------------

    @property
    def title(self) -> str:
        return "Run" if self._run is None else f"Run {self._run.id}"

    def html(self) -> str:
        """The run as static HTML; a sentence where there is none yet."""
        if self._run is None:
            return '<div class="rw">No run yet: the next one is shown here.</div>'
        return _html.run_html(self._run)

    def __repr__(self) -> str:
        if self._run is None:
            return "<RunGraph, no run yet>"
        return f"<RunGraph of {plural(len(self._run), 'step')}, {self._run.status}>"

    def questions(self) -> list[tuple[str, dict[str, Any]]]:
        """What a saved page may ask; of a very long run only the first steps."""
        steps = [] if self._run is None else list(islice(self._run.walk(), SAVED))
        inside = [("inside", {"address": step.address}) for step in steps if step.tasks]
        return [*(("step", {"address": step.address}) for step in steps), *inside]

    # -- what a view asks -------------------------------------------------------------------

    def _of_step(self, address: str) -> dict[str, Any]:
        """All that is told of a selected step."""
        run, step = self._found(address)
        return {
            **step_drawn(run, step),
            "because": (run.explanation.of(step) or "")[:WORDS],
            "reads": [*step.reads, *step.absent],
            "writes": list(step.writes),
            "calls": [visible(repr(call))[:WORDS] for call in step.calls],
        }

    def _inside(self, address: str) -> list[dict[str, Any]]:
        """The tasks of a step, each with its steps."""
        run, step = self._found(address)
        return [
            {"task": visible(key), "steps": [step_drawn(run, inner) for inner in steps]}
            for key, steps in step.tasks.items()
        ]

    def _found(self, address: str) -> tuple[Run, Step]:
        steps = self._steps()
        if self._run is None or address not in steps:
            raise StepNotFoundError(
                f"The run has no step {address!r}. {did_you_mean(address, steps)}"
            )
        return self._run, steps[address]

    def _steps(self) -> dict[str, Step]:
        """Its steps and those of their tasks, by address."""
        run, steps = self._known
        if run is not self._run:
            steps = {} if self._run is None else {step.address: step for step in self._run.walk()}
            self._known = (self._run, steps)
        return steps


# -- what is drawn: plain values -----------------------------------------------------------


def run_drawn(run: Run) -> dict[str, Any]:
    """A run as a graph draws it."""
    steps = run.steps
    return {
        "run": {
            "id": run.id,
            "label": visible(run.label or "")[:NAMED],
            "status": run.status,
            "kind": run.kind,
            "told": visible(run.describe())[:WORDS],
            "note": visible(run.note or "")[:WORDS],
            "facts": run_facts(run),
        },
        "graph": _graph(drawing(run), steps),
        "steps": [step_drawn(run, step) for step in steps],
        "legend": legend(run, steps),
    }


def run_facts(run: Run) -> str:
    """Steps, time, tokens and money in one line."""
    usage = run.usage
    took = sum(step.duration_s or 0 for step in run.steps if step.run_id == run.id)
    tokens = usage.total_tokens if usage is not None else None
    told = [plural(len(run), "step"), seconds(took)]
    told.append("tokens unknown" if tokens is None else plural(tokens, "token"))
    return " · ".join([*told, str(run.cost)])


def step_drawn(run: Run, step: Step) -> dict[str, Any]:
    """A step as it is drawn."""
    running = is_running(run, step)
    sign, colour = RUNNING if running else signed(step)
    usage = step.total_usage
    error = step.error
    return {
        "address": step.address,
        "seq": step.seq,
        "action": visible(step.action)[:NAMED],
        "visit": step.visit,
        "status": "running" if running else step.status,
        "source": step.source,
        "how": how(step),
        "sign": sign,
        "colour": colour,
        "why": visible(why(step))[:WORDS],
        "seconds": seconds(step.duration_s),
        "tokens": None if usage is None else usage.total_tokens,
        "tasks": len(step.tasks),
        "error": "" if error is None else visible(f"{error.type}: {error.message}")[:WORDS],
        "condition": visible(str((step.transition or {}).get("condition") or ""))[:NAMED],
    }


def legend(run: Run, steps: Iterable[Step]) -> list[dict[str, Any]]:
    """The signs that are used, with what they mean and how many steps have them."""
    counted = Counter(
        ("executed", *RUNNING, "running")
        if is_running(run, step)
        else (how(step), *signed(step), _outcome(step))
        for step in steps
    )
    return [
        {"sign": sign, "colour": colour, "words": words, "count": amount}
        for (did, sign, colour, words), amount in sorted(
            counted.items(), key=lambda item: HOW.index(item[0][0])
        )
    ]


def _outcome(step: Step) -> str:
    if step.status != "complete":
        return step.status
    return step.source if how(step) == "executed" else how(step)


def _graph(drawn: Drawing, steps: Sequence[Step]) -> dict[str, Any]:
    number = {(step.path, step.seq): i for i, step in enumerate(steps)}
    boxes = [
        {**_fields(box), "steps": [number[step.path, step.seq] for step in box.steps]}
        for box in drawn.boxes
    ]
    lines = [_fields(line) for line in drawn.lines]
    return {"width": drawn.width, "height": drawn.height, "boxes": boxes, "lines": lines}


def _fields(drawn: Box | Line) -> dict[str, Any]:
    return {name: getattr(drawn, name) for name in drawn.__slots__}
