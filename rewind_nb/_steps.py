"""`Step`: one executed action of a run, or of a task inside a step of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from rewind_nb._call import Call, vars_of
from rewind_nb._cost import Cost, sum_usage
from rewind_nb._counterpart import Place
from rewind_nb._describe import displayed
from rewind_nb._label import address, label
from rewind_nb._lane import lanes_of
from rewind_nb._model import ErrorInfo, Source, StepRow, Usage
from rewind_nb._spent import spent
from rewind_nb._store import Store, _read, _read_tasks
from rewind_nb._trajectory import Placed

__all__ = ["PAID_ELSEWHERE", "Call", "Step", "sum_usage"]

PAID_ELSEWHERE = ("inherited", "reused")
"""Sources of steps that cost their run nothing."""

Lanes = dict[str, list[StepRow]]
"""The steps of tasks by the path of the task, in their order."""


class Step:
    """One executed action of a run, or of a task inside a step of it.

    Attributes:
        seq: its position in its trajectory, from 0: the run's, or the task's.
        path: the task it is in, such as ``map:1[0]/``; "" for a step of the run itself.
        visit: how often the action had occurred by then, from 1.
        source: where its values came from: ``live``, ``cache``, ``tool-cache``,
            ``override``, ``render-cache``, ``reused`` or ``inherited``.
        run_id: the run that executed it, which for an inherited step is an ancestor.
        hash: over what it did: writes, deletions, result, error.
        duration_s: seconds.
    """

    def __init__(
        self,
        store: Store,
        placed: Placed,
        source: Source,
        outer: Step | None = None,
        lanes: Lanes | None = None,
        reason: str | None = None,
    ) -> None:
        """*lanes*: those of every task in the attempt it is of, where they were read already."""
        self.store = store
        self.placed = placed
        self.row = row = placed.row
        self.seq = placed.seq
        self.action = row.action
        self.visit = row.visit
        self.attempt = row.attempt
        self.path = row.path
        self.source: Source = source
        self.run_id = row.run_id
        self.status = "interrupted" if row.status == "open" else row.status
        self.hash = row.hash
        self.error: ErrorInfo | None = row.error
        self.started_at = row.started_at
        self.duration_s = row.duration_s
        self.usage: Usage | None = row.usage
        self.live_calls = row.live_calls
        self.played_calls = row.played_calls
        self.reason = reason or row.reason
        self.override = row.override
        self.outer = outer
        self._lanes = lanes
        self._attempts: dict[tuple[str, int], Lanes] = {}  # of a top-level step, once read

    @property
    def key(self) -> _read.StepKey:
        """What addresses it in the store: (run id, path, seq, attempt) where it executed."""
        return (self.row.run_id, self.row.path, self.row.seq, self.row.attempt)

    @property
    def executed_key(self) -> _read.StepKey:
        """What addresses the step that really executed, where this one was put in from it."""
        return self.row.origin or self.key

    @property
    def top(self) -> Step:
        """The step of the run itself that it is, or is inside of."""
        return self if self.outer is None else self.outer.top

    @property
    def place(self) -> Place:
        """Where it stands, as its counterpart in another run is looked up."""
        return Place(self.path, self.action, self.visit, (self.top.action, self.top.visit))

    @property
    def address(self) -> str:
        """Where it stands: ``search:2``, or inside a task ``map:1[0]/query:1``."""
        return address(self.path, self.action, self.visit)

    @property
    def label(self) -> str:
        """What to call it in words: ``step 4 'search' (visit 2)``."""
        return label(self.seq, self.action, self.visit, self.path)

    # -- the tasks inside it --------------------------------------------------------------

    @cached_property
    def tasks(self) -> dict[str, tuple[Step, ...]]:
        """The steps of each task that ran inside it, by task key, in task order.

        A parallel action has one for each of its tasks, an action that builds applications
        one for each of them; most steps have none.
        """
        if not self.row.tasks and self.row.status != "open":
            return {}
        lanes = self._lanes_inside()
        shown = self.source if self.source in PAID_ELSEWHERE else None
        return {
            key: tuple(
                Step(
                    self.store,
                    self.placed._replace(seq=row.seq, row=row),
                    shown or row.source,
                    self,
                    lanes,
                    self.reason if shown else None,
                )
                for row in lanes[path]
            )
            for key, path in lanes_of(self.address, list(lanes)).items()
        }

    def _lanes_inside(self) -> Lanes:
        """All of its tasks, however deep; one query reads them for every step inside it too."""
        if self._lanes is not None and self.row.origin is None:
            return self._lanes
        run_id, _, _, attempt = self.executed_key
        return self.top.lanes_in(run_id, attempt)

    def lanes_in(self, run_id: str, attempt: int) -> Lanes:
        """The tasks in another attempt at it; read once, for all the steps inside it."""
        if (run_id, attempt) not in self._attempts:
            lanes = self._attempts[run_id, attempt] = {}
            for row in self.store.read(_read_tasks.steps_inside, run_id, attempt, self.address):
                lanes.setdefault(row.path, []).append(row)
        return self._attempts[run_id, attempt]

    def inside(self) -> Iterator[Step]:
        """Every step of its tasks, however deep, outer ones first."""
        for steps in self.tasks.values():
            for step in steps:
                yield step
                yield from step.inside()

    def executed_with(self) -> Iterator[Step]:
        """It, and the steps inside it that executed when it did: what is put in did earlier."""
        yield self
        for step in self.inside():
            if (step.run_id, step.attempt) == (self.run_id, self.attempt):
                yield step

    @property
    def total_calls(self) -> tuple[int, int]:
        """How many calls it and its tasks made live, and how many were played back."""
        steps = list(self.executed_with())
        return sum(s.live_calls for s in steps), sum(s.played_calls for s in steps)

    @property
    def total_usage(self) -> Usage | None:
        """Tokens of its own calls and those of its tasks; None where a part is unknown."""
        return sum_usage(step.usage for step in self.executed_with())

    @property
    def cost(self) -> Cost:
        """What its own live model calls cost the run that executed it, by `rewind_nb.prices`."""
        return spent(self.store, [self.row])[0]

    @property
    def total_cost(self) -> Cost:
        """What its own calls and those of its tasks cost."""
        return sum(spent(self.store, [step.row for step in self.executed_with()]), Cost())

    # -- what it did ----------------------------------------------------------------------

    @property
    def uncaptured(self) -> tuple[str, ...]:
        """Where something went that was not recorded: ``host:port``, a command."""
        return self.row.uncaptured

    @property
    def stream(self) -> tuple[Any, ...] | None:
        """The chunks a streaming action put out, None for one that does not stream."""
        stream = self.row.stream
        return None if stream is None else tuple(self.store.value(stream))

    @cached_property
    def hidden_state(self) -> tuple[str, ...]:
        """What its code refers to that the record does not see, e.g. ``log: list (changed)``.

        Lists and dicts among globals are code as long as nothing changes them; those that
        something changed during the run are named here.
        """
        kept = (self.store.row(self.run_id).containers or {}).get(self.action, {})
        changed = [f"{name}: changed during the run" for name, digest in kept.items() if not digest]
        return (*self.row.hidden_state, *changed)

    @property
    def ended_at(self) -> float | None:
        """Seconds since the epoch, UTC; None while it is open."""
        return None if self.duration_s is None else self.started_at + self.duration_s

    @property
    def inputs(self) -> dict[str, Any]:
        """The runtime inputs it was given."""
        return {k: self.store.value(h) for k, h in self.row.inputs}

    @property
    def reads(self) -> dict[str, Any]:
        """The state it was seen to read. Keys seen to be absent are in `absent`."""
        return {k: self.store.value(h) for k, h in self.row.reads if h is not None}

    @property
    def absent(self) -> tuple[str, ...]:
        """The keys it looked for and did not find."""
        return tuple(k for k, h in self.row.reads if h is None)

    @property
    def writes(self) -> dict[str, Any]:
        """The state it wrote, in place or by assignment, also where the value stayed."""
        return {k: self.store.value(h) for k, h in self.row.writes}

    @property
    def deleted(self) -> dict[str, list[str]] | None:
        """Its deletion rule: ``{"keep": [...]}`` or ``{"delete": [...]}``."""
        return self.row.deleted

    @property
    def result(self) -> Any:
        """The result dict of the action."""
        return None if self.row.result is None else self.store.value(self.row.result)

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """Its calls in branch order."""
        rows = self.store.read(_read.call_rows, self.executed_key)
        return tuple(Call(self.store, row, self.place) for row in rows)

    @property
    def transition(self) -> dict[str, Any] | None:
        """The way on: ``to``, ``condition`` and what the conditions read."""
        return self.row.transition

    def to_dict(self) -> dict[str, Any]:
        """Everything about it as plain values."""
        place = ("run_id", "path", "seq", "action", "visit", "attempt")
        return {
            **{name: getattr(self, name) for name in (*place, "status", "source", "reason")},
            "inputs": self.inputs,
            "reads": self.reads,
            "absent": list(self.absent),
            "writes": self.writes,
            "deleted": self.deleted,
            "result": self.result,
            "error": None if self.error is None else vars_of(self.error),
            "calls": [call.to_dict() for call in self.calls],
            "tasks": {key: [step.to_dict() for step in steps] for key, steps in self.tasks.items()},
            "stream": None if self.stream is None else list(self.stream),
            "hash": self.hash,
            "started_at": self.started_at,
            "duration_s": self.duration_s,
            "usage": None if self.usage is None else self.usage.to_dict(),
            "hidden_state": list(self.hidden_state),
            "uncaptured": list(self.uncaptured),
        }

    def __repr__(self) -> str:
        failed = f", {self.error.type}: {self.error.message!r}" if self.error else ""
        visit = f" (visit {self.visit})" if self.visit > 1 else ""
        within = f" in {self.path}" if self.path else ""
        told = f"{self.seq} {self.action!r}{visit}{within}, {self.status}, {self.source}{failed}"
        return displayed(f"<Step {told}>")

    def _repr_html_(self) -> str:
        from rewind_nb import _html

        return _html.step_html(self)
