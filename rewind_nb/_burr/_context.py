"""Burr's context as an action sees it: what it reads there that another run has otherwise.

The sequence id follows from the way that a run took, so it is recorded as an input of the step,
and a fork compares it. The ids of the run and its partition are those of whoever executes: they
are listed as hidden state, and a replay hands out the recorded run's id.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from burr.core import ApplicationContext

from rewind_nb._model import CONTEXT
from rewind_nb._open_step import OpenStep

IDS = ("app_id", "partition_key")
WATCHED = (*IDS, "sequence_id")


class SeenContext(ApplicationContext):
    """A context that tells its step which of its fields are read."""

    def __getattribute__(self, name: str) -> Any:
        held = super().__getattribute__("__dict__")
        note = held.get("_note")  # None in a copy that `dataclasses.replace` made
        for field in WATCHED if name == "__dict__" else (name,):
            if note is not None and field in WATCHED:
                note(field, held[field])
        return super().__getattribute__(name)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = dataclasses.fields(ApplicationContext)
        return ApplicationContext, tuple(getattr(self, field.name) for field in fields)


def seen_by(step: OpenStep, context: ApplicationContext, **stable: Any) -> SeenContext:
    """A context for the action of a step; what is *stable*, the same in every run, is not noted."""
    replayed = step.ctx.recorded_key if step.ctx.strict and not step.row.path else None
    own = {"app_id": replayed[0]} if replayed else {}
    noted = set(stable)

    def note(name: str, value: Any) -> None:
        if name not in noted:
            noted.add(name)
            if name in IDS:
                step.hid(f"{CONTEXT}.{name}")
            else:
                step.told(CONTEXT, {name: value})

    seen = object.__new__(SeenContext)
    held = object.__getattribute__(seen, "__dict__")
    held.update({**vars(context), **own, **stable, "_note": note})
    return seen


def told_to(context: ApplicationContext | None) -> dict[str, Any]:
    """What an action with this context would be told, to be compared with what one was."""
    return {} if context is None else context_input(context.sequence_id)


def context_input(sequence_id: int | None) -> dict[str, Any]:
    """The same, by the number of its step."""
    return {CONTEXT: {"sequence_id": sequence_id}}
