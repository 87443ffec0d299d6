"""One step of a run, ready to be forked at: its fields, and what a fork is expected to do."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from rewind_nb._describe import displayed, plural
from rewind_nb._forks import check_fork
from rewind_nb._plan import Target
from rewind_nb._recording import Recording
from rewind_nb._run import Run, Step
from rewind_nb._supplied import target_of
from rewind_nb.errors import ConfigError, RewindError, did_you_mean
from rewind_nb.experiments._estimate import Expected, expected
from rewind_nb.widgets._drafts import Draft, Drafts
from rewind_nb.widgets._editable import BY_KEY, Field, fields_of

if TYPE_CHECKING:
    from rewind_nb._rewind import Rewind

__all__ = ["AtStep", "Edits", "estimated"]

NAMES = 5  # actions named in an estimate

Edits = Sequence[Sequence[str]]  # of each field its id and what was typed


class AtStep:
    """A step of a run, as forks at it are checked; it reads the run once.

    Attributes:
        refused: why no fork can be made here at all, "" where one can.
    """

    def __init__(self, rw: Rewind, run: Run, step: Step) -> None:
        self.run = run
        self.step = step
        self.address = step.address
        self._env = rw._env(None)  # noqa: SLF001
        self._recording = Recording.of(run)
        self.refused = ""
        try:
            check_fork(self._env, run, step, recording=self._recording)
        except RewindError as error:
            self.refused = str(error)

    @cached_property
    def target(self) -> Target:
        """The step, as overrides of it are checked."""
        top = self._recording.trajectory.at(self.step.top.seq)
        assert top is not None  # noqa: S101  (it is a step of the run)
        return target_of(self._env, self.run, self._recording, top, self.step.row)

    @cached_property
    def fields(self) -> dict[str, Field]:
        """What the step can consume, by the field's id."""
        return {field.id: field for field in fields_of(self.target)}

    def field(self, name: str) -> Field:
        """A field by its id.

        Raises:
            ConfigError: there is none.
        """
        if name not in self.fields:
            raise ConfigError(f"The step has no field {name!r}. {did_you_mean(name, self.fields)}")
        return self.fields[name]

    def drafts(self, edits: Edits) -> Drafts:
        """What was typed, to be checked."""
        return Drafts(self.target, [Draft(self.field(name), text) for name, text in edits])

    def expected(self, drafts: Drafts) -> Expected:
        """What a fork is expected to execute.

        Raises:
            RewindError: it would be refused.
        """
        fork = check_fork(self._env, self.run, self.step, drafts.given, recording=self._recording)
        return expected(fork, plain=True)

    def in_code(self, field: Field) -> str:
        """How a fork is made in code that replaces a field."""
        step = self.step
        at = f"({step.action!r}, {step.visit})" if not step.path else "step"
        value = "{" + json.dumps(field.key) + ": ...}" if field.kind in BY_KEY else "..."
        call = f", call={field.call}" if field.call else ""
        return displayed(f"rw.fork({self.run.id!r}, at={at}, {field.kind}={value}{call})")


def estimated(found: Expected) -> str:
    """What a fork is expected to execute, in words.

    Example:
        >>> estimated(Expected())
        'equal to what was recorded, so nothing executes'
    """
    told = found.estimate
    if not told.steps:
        same = "equal to what was recorded, so nothing executes"
        return same if found.exact else "no step executes"
    actions = list(dict.fromkeys(action for (action, _), _ in found.steps))
    named = ", ".join(actions[:NAMES]) + (", …" if len(actions) > NAMES else "")
    most = "" if told.exact else "at most "
    words = f"{most}{plural(told.steps, 'step')} ({named})"
    if not told.model_calls:
        return f"{words}, no model call"
    tokens = "tokens unknown" if told.tokens is None else f"about {told.tokens:,} tokens"
    return f"{words}, {plural(told.model_calls, 'model call')}, {tokens}, {told.cost}"
