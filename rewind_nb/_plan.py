"""What a fork is asked to change, checked against the recording before anything executes.

Each kind of override has one checker. It returns a `Planned`: the override as data, and
whether it equals what was recorded, in which case there is nothing to execute.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rewind_nb import _codec, _patch
from rewind_nb._credentials import refuse_credentials
from rewind_nb._describe import short
from rewind_nb._model import Override, StepRow
from rewind_nb._store import Reads, _read
from rewind_nb._trajectory import Placed, Trajectory, survives
from rewind_nb.capture import _overrides
from rewind_nb.capture._context import MODEL_OVERRIDES, TOOL_OVERRIDES, RecordedCalls
from rewind_nb.errors import OverrideError, did_you_mean

STATE_KINDS = ("output", "patch", "state", "inputs")
KINDS = (*STATE_KINDS, *MODEL_OVERRIDES, *TOOL_OVERRIDES, "action")


class _Unset(enum.Enum):
    """No override of a kind; None may be a value."""

    UNSET = enum.auto()

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Any = _Unset.UNSET


@dataclass(frozen=True, slots=True)
class Planned:
    """What one or several checked overrides of a step come to.

    Attributes:
        writes: for ``output`` and ``patch``, all the step's writes with the override in.
        keys: which of them it replaces.
        unchanged: their encodings equal the recorded values'.
    """

    overrides: tuple[Override, ...]
    unchanged: bool
    writes: Mapping[str, Any] | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Target:
    """The recorded step an override is for.

    Attributes:
        declared: the action's entry in the graph description.
        writes: what an earlier override supplies, instead of what the step wrote.
    """

    store: Reads
    trajectory: Trajectory
    placed: Placed
    declared: Mapping[str, Any]
    writes: Mapping[str, Any] | None = None

    @property
    def row(self) -> StepRow:
        """Its row."""
        return self.placed.row

    @property
    def name(self) -> str:
        """As messages call it: ``4 'analyse'``."""
        where = f" in {self.row.path}" if self.row.path else ""
        return f"{self.placed.seq} {self.row.action!r}{where}"

    def calls(self) -> RecordedCalls:
        """Its recorded calls: of a step that was taken over, those of the one that executed."""
        row = self.row
        key = row.origin or (row.run_id, row.path, row.seq, row.attempt)
        return RecordedCalls(self.store.read(_read.call_rows, key))


def single(given: Mapping[str, Any], call: int) -> tuple[str, Any] | None:
    """The one override among the keyword arguments, or None.

    Raises:
        OverrideError: there are several.
    """
    named = {kind: value for kind, value in given.items() if value is not UNSET}
    if len(named) > 1:
        raise OverrideError(
            f"A fork changes exactly one thing, and got {' and '.join(f'{k}=' for k in named)}. "
            "Fork once for each: the second fork from the first one.",
            overrides=tuple(named),
        )
    if not named and call:
        raise OverrideError(
            f"call={call} says which call an override is for, and there is no override. "
            "Pass prompt=, response=, tool_result= or another one with it."
        )
    if call and not set(named) & {*MODEL_OVERRIDES, *TOOL_OVERRIDES}:
        raise OverrideError(
            f"call={call} says which call an override is for, and {next(iter(named))}= is for the "
            "whole step. Leave call= out.",
            call=call,
        )
    return next(iter(named.items()), None)


def plan_override(target: Target, kind: str, value: Any, call: int) -> Planned:
    """Check one override against the recorded step.

    Raises:
        OverrideError: the step cannot consume it; the message says what it could.
        NotEncodableError: its value cannot be stored.
    """
    if target.row.source == "override" and kind not in ("output", "patch"):
        raise OverrideError(
            f"The output of step {target.name} was itself supplied by an override, so it executes "
            f"nothing that could consume {kind}=. Use output= or patch=, or fork the run it "
            "was forked from.",
            override=kind,
        )
    checker = _CHECKS.get(kind)
    planned = checker(target, value) if checker else _plan_call(target, kind, value, call)
    for override in planned.overrides:
        _codec.encode(override.value, path=f"{kind}=")
        refuse_credentials(kind, override.value, f"{kind}=")
    return planned


# -- output, patch ---------------------------------------------------------------------


def _plan_output(target: Target, value: Any) -> Planned:
    row = target.row
    finished = row.status == "complete"
    recorded = _writes(target)
    value, callback = _produced(target, "output", value, _writes(target) if finished else None)
    if not isinstance(value, Mapping) or not value:
        raise _not_a_dict("output", "a dict of what the step writes", value)
    allowed = list(recorded) if finished else list(target.declared.get("writes", ()))
    _check_keys(target, "output", value, allowed, "wrote" if finished else "declares to write")
    if not finished and set(value) != set(allowed):
        missing = [k for k in allowed if k not in value]
        raise OverrideError(
            f"Step {target.name} never finished, so output= must give everything it declares to "
            f"write. Missing: {', '.join(map(repr, missing))}.",
            override="output",
        )
    new = {k: _own_copy(value[k], k) if k in value else recorded[k] for k in allowed}
    given = {k: new[k] for k in allowed if k in value}
    override = Override("output", given, callback=callback)
    return Planned((override,), finished and _same_writes(row, given), new, tuple(given))


def _plan_patch(target: Target, value: Any) -> Planned:
    recorded = _writes(target)
    if target.row.status != "complete":
        raise OverrideError(
            f"patch= changes recorded output, and step {target.name} is {target.row.status}: it "
            "has none. Use output= to give all of it.",
            override="patch",
        )
    value, callback = _produced(target, "patch", value, _writes(target))
    new = _patch.apply_patch(recorded, value)
    stored = [dict(op) for op in value] if isinstance(value, list) else dict(value)
    override = Override("patch", _own_copy(stored, "patch="), callback=callback)
    keys = tuple(_patch.patched_keys(value))
    return Planned((override,), _same_writes(target.row, new), new, keys)


def _writes(target: Target) -> dict[str, Any]:
    if target.writes is not None:
        return dict(target.writes)
    return {k: target.store.value(h) for k, h in target.row.writes}


def _same_writes(row: StepRow, given: Mapping[str, Any]) -> bool:
    recorded = dict(row.writes)
    return all(_digest(value) == recorded.get(key) for key, value in given.items())


# -- state, inputs ----------------------------------------------------------------------


def _plan_state(target: Target, value: Any) -> Planned:
    observed = readable(target.row)
    recorded = {k: target.store.value(h) for k, h in observed.items() if h is not None}
    value, callback = _produced(target, "state", value, recorded)
    if not isinstance(value, Mapping) or not value:
        raise _not_a_dict("state", "a dict of state fields", value)
    for key in value:
        if key not in observed:
            raise _unread(target, str(key), list(observed))
    given = {k: _own_copy(v, k) for k, v in value.items()}
    same = all(_digest(v) == observed[k] for k, v in given.items())
    return Planned((Override("state", given, callback=callback),), same)


def readable(row: StepRow) -> dict[str, str | None]:
    """The state that a step, or a condition leaving it, was seen to read, as value hashes.

    None stands for a key that was looked for and not there.
    """
    observed: dict[str, str | None] = dict(row.reads)
    written = dict(row.writes)
    for key, digest in (row.transition or {}).get("reads", ()):  # its own writes apart
        if key not in observed and key not in written and survives(key, row.deleted):
            observed[key] = digest
    return observed


def _unread(target: Target, key: str, observed: list[str]) -> OverrideError:
    later = _first_reader(target, key)
    hint = (
        f"The first later step that reads it is {later}: fork at that step."
        if later
        else _near(key, observed).strip()
    )
    reads = ", ".join(map(repr, observed)) or "nothing"
    return OverrideError(
        f"Step {target.name} does not read the state field {key!r}, so nothing would consume it. "
        f"It reads {reads}. {hint}".rstrip(),
        override="state",
        key=key,
    )


def _first_reader(target: Target, key: str) -> str | None:
    if target.row.path:
        return None  # inside a task, whose later steps are its own
    for placed in target.trajectory.rows(target.placed.seq + 1):
        if key in dict(placed.row.reads):
            return f"{placed.seq} {placed.row.action!r}"
    return None


def _plan_inputs(target: Target, value: Any) -> Planned:
    recorded = {k: target.store.value(h) for k, h in target.row.given}
    value, callback = _produced(target, "inputs", value, recorded)
    if not isinstance(value, Mapping) or not value:
        raise _not_a_dict("inputs", "a dict of runtime inputs", value)
    declared = target.declared
    names = [*declared.get("inputs", ()), *declared.get("optional_inputs", ())]
    _check_keys(target, "inputs", value, names, "takes the inputs")
    given = {k: _own_copy(v, k) for k, v in value.items()}
    hashes = dict(target.row.inputs)
    same = all(_digest(v) == hashes.get(k) for k, v in given.items())
    return Planned((Override("inputs", given, callback=callback),), same)


# -- model and tool calls ---------------------------------------------------------------


def _plan_call(target: Target, kind: str, value: Any, call: int) -> Planned:
    store = target.store
    family = "tool" if kind in TOOL_OVERRIDES else "model"
    rows = target.calls().logical(family)
    if not callable(value):
        value = _own_copy(value, f"{kind}=")
    callback = callable(value)
    if callback:  # the call it is given must exist before it is asked
        row = _overrides.addressed(rows, kind, call, target.name)
        value = _own_copy(value(_overrides.recorded_value(store, row, kind)), f"{kind}=")
    probe = Override(kind, value, call=call, callback=callback)
    row = _overrides.check(store, rows, probe, target.name)
    placed = replace(probe, branch=row.branch, ordinal=row.ordinal)
    return Planned((placed,), _overrides.changes_nothing(store, row, kind, value))


def _own_copy(value: Any, path: str) -> Any:
    """The value as it will be stored, decoded: later changes by the caller do not reach it."""
    return _codec.decode(_codec.encode(value, path=path))


def _digest(value: Any) -> str:
    return _codec.digest(_codec.encode(value))


def _produced(target: Target, kind: str, value: Any, recorded: Any) -> tuple[Any, bool]:
    if not callable(value):
        return value, False
    if recorded is None:
        raise OverrideError(
            f"A callback for {kind}= is given what was recorded, and step {target.name} never "
            f"finished. Give {kind}= the value itself.",
            override=kind,
        )
    return value(recorded), True


def _near(name: str, known: Sequence[str]) -> str:
    """Near misses, where the message lists the names already."""
    hint = did_you_mean(name, known)
    return f" {hint}" if hint.startswith("Did") else ""


def _not_a_dict(kind: str, wanted: str, value: Any) -> OverrideError:
    got = (
        "an empty one" if isinstance(value, Mapping) else f"{short(value)} ({type(value).__name__})"
    )
    return OverrideError(f"{kind}= takes {wanted}; it got {got}.", override=kind)


def _check_keys(
    target: Target, kind: str, value: Mapping[Any, Any], allowed: Sequence[str], verb: str
) -> None:
    for key in value:
        if key not in allowed:
            shown = ", ".join(map(repr, allowed)) or "nothing"
            raise OverrideError(
                f"{kind}= names {key!r}; step {target.name} {verb}: {shown}."
                f"{_near(str(key), allowed)}",
                override=kind,
                key=key,
            )


_CHECKS: dict[str, Callable[[Target, Any], Planned]] = {
    "output": _plan_output,
    "patch": _plan_patch,
    "state": _plan_state,
    "inputs": _plan_inputs,
}
