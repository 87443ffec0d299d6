"""The facts a run was given, each with the one override that replaces it.

A fact is what the application did not make itself: the result of a tool, the answer of a
model, a field of the state it started with, a runtime input. What steps derive from them is
none. A value with parts is several facts, one per leaf.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rewind_nb._combine import Given
from rewind_nb._model import CallRow
from rewind_nb._path import join
from rewind_nb._run import Run
from rewind_nb._steps import Step
from rewind_nb._store import _read
from rewind_nb._trajectory import survives
from rewind_nb.capture import _overrides
from rewind_nb.capture._context import RecordedCalls
from rewind_nb.experiments._perturb import Leaf, leaves
from rewind_nb.experiments._said import said

ANSWERS = {"tool": "tool_result", "model": "response"}  # kind of fact -> override
UNREAD = "no step read it"
UNREADABLE = "the answer cannot be read"


@dataclass(frozen=True, slots=True)
class RecordedFact:
    """One value that a run was given.

    Attributes:
        address: ``search:1 tool 0 find_fare.fare``, ``decide:1 model 0``, ``state.city``,
            ``inputs.ticket``.
        kind: ``tool``, ``model``, ``state`` or ``inputs``.
        value: what was recorded.
    """

    address: str
    kind: str
    value: Any
    leaf: Leaf
    step: Step | None  # whose override it is; None where no step consumes it
    call: int = 0
    name: str = ""  # of the field or the input
    why_not: str | None = None

    @property
    def at(self) -> int | Step:
        """The step, as a fork takes it."""
        assert self.step is not None  # noqa: S101  (one that is not consumed is not tried)
        return self.step if self.step.path else self.step.seq

    def given(self, other: Any) -> Given:
        """The override that gives another value instead."""
        whole = self.leaf.put(other)
        if self.kind in ANSWERS:
            return ANSWERS[self.kind], whole, self.call
        return self.kind, {self.name: whole}, 0


def recorded_facts(run: Run) -> list[RecordedFact]:
    """Every fact of a run: of its start and its inputs, then of its calls, in their order."""
    found = [*_of_state(run), *_of_inputs(run)]
    for step in run.walk():
        found += _of_calls(step)
    return found


def _of_state(run: Run) -> Iterator[RecordedFact]:
    for name, begun in run.state_at(0).items():
        reader = _first_reader(run, name)
        # an override of the run's own stands in what was read
        value = begun if reader is None else reader.reads.get(name, begun)
        why_not = None if reader is not None else UNREAD
        yield from _facts("state", join("state", name), value, reader, name=name, why_not=why_not)


def _first_reader(run: Run, name: str) -> Step | None:
    """The first step that looks at a field as it was when the run began."""
    for step in run.steps:
        row = step.row
        if dict(row.reads).get(name) is not None:
            return step
        if name in dict(row.writes) or not survives(name, row.deleted):
            return None
        if name in dict((row.transition or {}).get("reads", ())):
            return step
    return None


def _of_inputs(run: Run) -> Iterator[RecordedFact]:
    takers: dict[str, list[Step]] = {}
    for step in run.steps:
        for name, _ in step.row.given:
            takers.setdefault(name, []).append(step)
    for name, steps in takers.items():
        for step in steps:  # each is given it: an override is for one of them
            of = f" of {step.address}" if len(steps) > 1 else ""
            address = join("inputs", name) + of
            yield from _facts("inputs", address, step.inputs[name], step, name=name)


def _of_calls(step: Step) -> Iterator[RecordedFact]:
    if step.source == "override":
        return  # it made no call
    calls = RecordedCalls(step.store.read(_read.call_rows, step.executed_key))
    for kind, override in ANSWERS.items():
        for number, row in enumerate(calls.logical(kind)):
            address = f"{step.address} {kind} {number}"
            if row.status != "complete":
                continue
            if kind == "tool":
                value = _overrides.recorded_value(step.store, row, override)
                yield from _facts(kind, f"{address} {row.name}", value, step, call=number)
            else:
                yield from _of_answer(address, step, row, number)


def _of_answer(address: str, step: Step, row: CallRow, number: int) -> Iterator[RecordedFact]:
    body, reading = _overrides.answer_of(step.store, row)
    if reading is None:
        yield from _facts("model", address, None, step, call=number, why_not=UNREADABLE)
        return
    for tool, leaf in said(body, reading):
        where = _below(f"{address} {tool}" if tool else address, leaf)
        yield RecordedFact(where, "model", leaf.value, leaf, step, number)


def _facts(
    kind: str, address: str, value: Any, step: Step | None, **more: Any
) -> Iterator[RecordedFact]:
    for leaf in leaves(value):
        yield RecordedFact(_below(address, leaf), kind, leaf.value, leaf, step, **more)


def _below(address: str, leaf: Leaf) -> str:
    """The address of a leaf of the value at an address."""
    if not leaf.path:
        return address
    return f"{address}{leaf.path}" if leaf.path.startswith("[") else f"{address}.{leaf.path}"
