"""`Run`: a value that describes what is in a store.

It reads lazily and never executes anything, so a run can be looked at without its
application. Addressing is by meaning: ``run["search", 2]`` is the second visit of `search`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from rewind_nb import _codec
from rewind_nb._address import At, Finder
from rewind_nb._artifact import Artifact
from rewind_nb._call import Call
from rewind_nb._cost import Cost
from rewind_nb._describe import displayed, plural
from rewind_nb._head import Head, read_overrides
from rewind_nb._model import (
    ErrorInfo,
    Manifest,
    Source,
    Usage,
)
from rewind_nb._reasons import BEFORE, EQUAL, NO_EDIT, converged
from rewind_nb._spent import spent
from rewind_nb._steps import Step, sum_usage
from rewind_nb._store import _read, _read_tasks
from rewind_nb._trajectory import Placed, Trajectory, after_step
from rewind_nb._views import Views


class Run(Head, Views):
    """One execution, root or forked. Its written steps never change.

    Attributes:
        id: unique; any prefix that matches one run finds it.
        label: what the user called it.
        kind: ``record``, ``fork`` or ``replay``.
    """

    # -- steps ----------------------------------------------------------------------------

    @cached_property
    def _trajectory(self) -> Trajectory:
        self._row = self.store.row(self._row.id)  # it may have been resumed since
        return Trajectory(self.store, self._row)

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """Its trajectory: every step from the root to the tip, inherited ones included."""
        return tuple(self._step(placed) for placed in self._trajectory.rows())

    def _step(self, placed: Placed) -> Step:
        source, reason = self._shown(placed)
        return Step(self.store, placed, source, reason=reason)

    def _shown(self, placed: Placed) -> tuple[Source, str | None]:
        """Where the values of a step came from in this run, and why."""
        if placed.segment.own:
            return placed.row.source, placed.row.reason
        if placed.seq < self._row.mode.get("at", self._row.at):
            return "inherited", BEFORE
        if self._row.tail is None:
            edited = any(override.kind == "code" for override in self.overrides)
            return "reused", NO_EDIT if edited else EQUAL
        return "reused", converged(self.converged_at)

    @property
    def converged_at(self) -> int | None:
        """The seq from which on a fork is its parent again; None where it never was."""
        if self._row.tail is None:
            return None
        own = [part.hi for part in self._trajectory.parts if part.own]
        return max([*own, self._row.at])

    def __len__(self) -> int:
        return len(self._trajectory)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __getitem__(self, at: At) -> Step:
        """``run["search"]`` (its last visit), ``run["search", 2]`` or ``run[seq]``.

        Raises:
            StepNotFoundError: there is none; the message lists the nearest.
        """
        return Finder(self.id, self._trajectory, self._step, lambda: self.steps).find(at)

    def history(self, *, inside: bool = False) -> tuple[Step, ...]:
        """Every attempt at this run's own steps, failed and interrupted ones included.

        Args:
            inside: the steps of tasks inside them as well.

        Raises:
            StoreCorruptError: one is missing.
        """
        rows = self.store.read(_read_tasks.attempts, self.id)
        own = next((p for p in self._trajectory.parts if p.own), None)
        if own is None:
            return ()
        steps = [Step(self.store, Placed(r.seq, r, own), r.source) for r in rows]
        if not inside:
            return tuple(steps)
        return tuple(found for step in steps for found in (step, *step.inside()))

    def walk(self) -> Iterator[Step]:
        """Every step of the trajectory, each followed by those of the tasks inside it."""
        for step in self.steps:
            yield step
            yield from step.inside()

    # -- state ----------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Any]:
        """The state after the last step, without Burr's own keys; the caller's own copy."""
        return self._decode(tuple(self.final_manifest.items()))

    def state_at(self, at: At, *, after: bool = False) -> dict[str, Any]:
        """The state entering a step, or leaving it with ``after=True``.

        Raises:
            StepNotFoundError: there is no such step.
        """
        step = self[at]
        entering = self.entering_manifest(step)
        if not after or step.status != "complete":
            return self._decode(entering)
        return self._decode(after_step(entering, step.row.deleted, step.row.writes))

    @cached_property
    def final_manifest(self) -> dict[str, str]:
        """The final state as value hashes."""
        return dict(self._trajectory.state_entering(len(self)))

    def entering_manifest(self, step: Step) -> Manifest:
        """The state entering a step of this run, or of a task inside it, as value hashes."""
        if step.path:
            return self._trajectory.task_state_entering(step.row)
        return self._trajectory.state_entering(step.seq)

    @property
    def state_hash(self) -> str:
        """A hash of the final state, its key order included."""
        return _codec.digest(_codec.encode(list(self.final_manifest.items())))

    def _decode(self, manifest: Manifest) -> dict[str, Any]:
        return {key: self.store.value(digest) for key, digest in manifest}

    # -- what it cost and made --------------------------------------------------------------

    @property
    def usage(self) -> Usage | None:
        """Tokens this run itself paid for; None where a provider did not say.

        Inherited, reused and played-back work costs nothing.

        Raises:
            StoreCorruptError: a step of it is missing.
        """
        rows = self.store.read(_read_tasks.every_step, self.id)  # failed attempts too
        return sum_usage(row.usage for row in rows)

    @property
    def cost(self) -> Cost:
        """What the live model calls of this run itself cost, by `rewind_nb.prices`.

        Failed attempts and tasks included; inherited, reused and played-back work cost it
        nothing. `cost.partial` says that a part is unknown, `cost.unpriced` for which models.

        Raises:
            StoreCorruptError: a step or a call of it is missing.
        """
        rows = self.store.read(_read_tasks.every_step, self.id)
        return sum(spent(self.store, rows), Cost())

    @cached_property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The files its steps made, inherited ones included."""
        steps = list(self.walk())
        made = self.store.read(_read.artifacts_at, [step.executed_key for step in steps])
        return tuple(
            Artifact(self.store, row, self.id if step.source == "reused" else None)
            for step, rows in zip(steps, made, strict=True)
            for row in rows
        )

    # -- views ----------------------------------------------------------------------------

    @cached_property
    def graph_description(self) -> dict[str, Any]:
        """The application's graph as it was recorded: actions, transitions, entrypoint."""
        described: dict[str, Any] = self.store.value(self._row.graph)
        return described

    def describe(self) -> str:
        """One line: where it came from and what was replaced."""
        origin = self.origin
        if origin is None:
            return "recorded"
        step = self.at_step
        where = f"{origin.parent} at {step}" if step else origin.parent
        if self.kind == "replay":
            return f"replay of {where}"
        return f"fork of {where}: {self.override_words}"

    @property
    def at_step(self) -> str | None:
        """The step a fork starts at, as ``4 'analyse'``."""
        origin = self.origin
        if origin is None:
            return None
        placed = self._trajectory.at(origin.at)
        if placed is None:
            return str(origin.at)
        inside = self._row.mode.get("inside")
        within = f", in it {inside[0]}{inside[1]}:{inside[2]}" if inside else ""
        return f"{origin.at} {placed.row.action!r}{within}"

    @property
    def forked_step(self) -> Step | None:
        """The step a fork starts at, inside a task where its override was for one of that."""
        origin = self.origin
        placed = None if origin is None or self.kind != "fork" else self._trajectory.at(origin.at)
        if placed is None:
            return None
        step = self._step(placed)
        inside = self._row.mode.get("inside")
        if inside is None:
            return step
        found = (s for s in step.inside() if [s.path, s.action, s.visit] == list(inside))
        return next(found, step)

    def __repr__(self) -> str:
        played = sum(s.played_calls for s in self.walk() if s.source not in ("inherited", "reused"))
        parts = [f"Run {self.id}", *([f"{self.label!r}"] if self.label else []), self.status]
        parts.append(plural(len(self), "step"))
        if self.kind != "record":
            executed = any(part.own for part in self._trajectory.parts)  # else the note says it
            outcomes = [c.telling for c in self.consumed if c.telling] if executed else []
            parts += [self.describe(), *outcomes]
        elif played:
            parts.append(f'{plural(played, "call")} played back (cache="refresh" asks again)')
        if self.note and self.note not in self.override_words:
            parts.append(self.note)
        return displayed(f"<{', '.join(parts)}>")


__all__ = ["Artifact", "At", "Call", "ErrorInfo", "Run", "Step", "read_overrides"]
