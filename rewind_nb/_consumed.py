"""What became of the overrides of a fork: who consumed each, and what it changed first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rewind_nb._changes import STEP, Pair
from rewind_nb._comparison import Comparison
from rewind_nb._counterpart import Parent
from rewind_nb._describe import describe_override, displayed
from rewind_nb._model import Manifest, Override
from rewind_nb._path import bracket, join
from rewind_nb._run import Run, Step, read_overrides
from rewind_nb._steps import PAID_ELSEWHERE
from rewind_nb._store import _read

_CODE = ("action", "code")  # kinds that a step consumes by executing
_GIVEN = ("output", "patch", "inputs")  # by being there


@dataclass(frozen=True, slots=True)
class Consumed:
    """What became of one override of a fork.

    Attributes:
        override: as the fork was given it.
        step: the step that consumed it, such as ``step 4 'analyse'``; None where none did: the
            fork ended before.
        first_change: the first field that is another one than in the parent, such as
            ``report.total``, in the order of execution; ``@step`` where that is a step which
            the parent did not take, None where it changed nothing.
    """

    override: Override
    step: str | None
    first_change: str | None

    @property
    def outcome(self) -> str:
        """What it came to: ``first change `report.total```, ``changed nothing``, ..."""
        if self.step is None:
            return "not consumed"
        if self.first_change is None:
            return "changed nothing"
        if self.first_change == STEP:
            return "first change: another way"
        return displayed(f"first change `{self.first_change}`")

    @property
    def telling(self) -> str | None:
        """The same, None where the override itself names the field."""
        named = (self.first_change or "").removeprefix("@inputs.")
        words = f" {describe_override(self.override)}"
        return None if named and f" {named} =" in words else self.outcome

    def __repr__(self) -> str:
        by = "" if self.step is None else f" by {self.step}"
        return f"<Consumed {describe_override(self.override)}{by}: {self.outcome}>"


def consumed(run: Run) -> tuple[Consumed, ...]:
    """What became of each override of a fork; nothing where it has none."""
    return tuple(_consumed(run, override) for override in run.overrides)


def _consumed(run: Run, override: Override) -> Consumed:
    step = run.forked_step
    if step is None:
        return Consumed(override, None, None)
    if step.run_id != run.id:  # it equals what was recorded, so that nothing executed
        return Consumed(override, step.label, None)
    if not _took(step, override):
        return Consumed(override, None, None)
    return Consumed(override, step.label, next(_changes(run), None))


def _took(step: Step, override: Override) -> bool:
    """Whether a step came to use what it was given."""
    if override.kind in _CODE or override.kind in _GIVEN:
        return True
    if override.kind == "state":
        left = (step.transition or {}).get("reads", ())
        return not set(override.value).isdisjoint(dict([*step.row.reads, *left]))
    family = "tool" if override.kind.startswith("tool_") else "model"
    place = (family, override.branch, override.ordinal)
    return any((c.kind, c._row.branch, c._row.ordinal) == place for c in step.calls)  # noqa: SLF001


# -- what it changed ------------------------------------------------------------------------


def _changes(run: Run) -> Iterator[str]:
    """The fields of a fork's own steps that are not the parent's, in the order of execution."""
    parent = Parent(run.store, run._row)  # noqa: SLF001
    values = Comparison(run.store, run.store)
    for top in run.steps:
        for step in (*top.inside(), top) if top.source not in PAID_ELSEWHERE else ():
            if step.source not in PAID_ELSEWHERE:
                yield from _of_step(run, parent, values, step)


def _of_step(run: Run, parent: Parent, values: Comparison, step: Step) -> Iterator[str]:
    placed = parent.at(step.place)
    if placed is None:
        yield STEP
        return
    before = Step(run.store, placed, placed.row.source)
    yield from _entering(run, parent, values, before, step)
    if not Pair(before, step).same:
        yield from (delta.path for delta in values.fields(before, step))
    ours, theirs = (_files(s) for s in (before, step))
    yield from (
        bracket("@artifacts", name)
        for name in dict.fromkeys([*ours, *theirs])
        if ours.get(name) != theirs.get(name)
    )


def _entering(
    run: Run, parent: Parent, values: Comparison, before: Step, step: Step
) -> Iterator[str]:
    """The fields of the state that an override set as the step was entered."""
    given = () if step.override is None else read_overrides(step.store, step.override)
    keys = [key for override in given if override.kind == "state" for key in override.value]
    if not keys:
        return
    ours, theirs = dict(_state(parent, before)), dict(run.entering_manifest(step))
    for key in keys:
        if ours.get(key) != theirs.get(key):
            found = values.values(before, step, ours.get(key), theirs.get(key), join("", key))
            yield from (delta.path for delta in found)


def _state(parent: Parent, step: Step) -> Manifest:
    if step.path:
        return parent.trajectory.task_state_entering(step.row)
    return parent.trajectory.state_entering(step.seq)


def _files(step: Step) -> dict[str, str]:
    rows = step.store.read(_read.artifact_rows, step.executed_key)
    return {row.name: row.sha256 for row in rows}
