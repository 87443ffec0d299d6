"""What each key of one trajectory held from step to step, by the hash of its value.

A key changes as a step ends, by what the step wrote or deleted, and as a step is entered, by
an override of the state or by what the user did in between::

    entering 0    0 leaving    entering 1    1 leaving    ...
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rewind_nb._head import read_overrides
from rewind_nb._model import Manifest
from rewind_nb._run import Run
from rewind_nb._steps import Step
from rewind_nb._trajectory import after_step

START = -1
"""The seq of what was there before the first step."""


class Moment(NamedTuple):
    """A point of a trajectory: as the step at *seq* is entered, or left."""

    seq: int
    leaving: bool = False


class Version(NamedTuple):
    """What a key holds from a moment on.

    Attributes:
        digest: the hash of the value, None where the key is gone.
    """

    moment: Moment
    digest: str | None


class Held:
    """What the keys of a trajectory held.

    Args:
        start: the state before its first step.
        steps: its steps, in their order.

    Attributes:
        versions: by key, each time that it was written, deleted or put in, also where the
            value stayed the same.
        orders: the keys, each time that they were others or in another order.
    """

    def __init__(self, start: Manifest, steps: Iterable[Step]) -> None:
        first = Moment(START, leaving=True)
        self.versions = {key: [Version(first, digest)] for key, digest in start}
        self.orders = [(first, tuple(dict(start)))]
        state = start
        for step in steps:
            row = step.row
            if row.state is not None and row.state != state:
                self._put_in(Moment(step.seq), dict(state), row.state)
                state = row.state
            if step.status == "complete":
                after = after_step(state, row.deleted, row.writes)
                self._note(Moment(step.seq, leaving=True), state, after, dict(row.writes))
                state = after

    @classmethod
    def of_run(cls, run: Run, steps: Iterable[Step]) -> Held:
        """What the keys held along some first steps of a run, those of its own trajectory."""
        first = run._trajectory.parts[:1]  # noqa: SLF001
        row = run.store.row(first[0].run_id) if first else run._row  # noqa: SLF001
        return cls(row.state, steps)  # as it was before an override of its first step

    @classmethod
    def of_task(cls, steps: Sequence[Step]) -> Held:
        """What the keys held along the steps of a task; the first one has what it began with."""
        start = (steps[0].row.state or ()) if steps else ()
        put = _put_into(steps[0]) if steps else set()
        return cls(tuple((key, digest) for key, digest in start if key not in put), steps)

    def _put_in(self, moment: Moment, before: dict[str, str], after: Manifest) -> None:
        put = {key: digest for key, digest in after if before.get(key) != digest}
        self._note(moment, tuple(before.items()), after, put)

    def _note(
        self, moment: Moment, before: Manifest, after: Manifest, written: dict[str, str]
    ) -> None:
        there = dict(after)
        for key, digest in written.items():
            self.versions.setdefault(key, []).append(Version(moment, digest))
        for key, _ in before:
            if key not in there:
                self.versions[key].append(Version(moment, None))
        if self.orders[-1][1] != (keys := tuple(there)):
            self.orders.append((moment, keys))

    def last(self, key: str, moment: Moment) -> Version | None:
        """What a key held at a moment, and since when; None where it never had been there."""
        known = self.versions.get(key, [])
        found = bisect_right(known, moment, key=lambda version: version.moment)
        return known[found - 1] if found else None

    def at(self, key: str, moment: Moment) -> str | None:
        """The hash of what a key held at a moment, None where it was absent."""
        version = self.last(key, moment)
        return None if version is None else version.digest

    def known_at(self, moment: Moment) -> list[str]:
        """The keys that ever were there, up to a moment."""
        return [key for key, known in self.versions.items() if known[0].moment <= moment]

    def keys_at(self, moment: Moment) -> tuple[str, ...]:
        """The keys that were there, in their order."""
        found = bisect_right(self.orders, moment, key=lambda order: order[0])
        return self.orders[found - 1][1]


def _put_into(step: Step) -> set[str]:
    """The keys that overrides of the state set as a step was entered."""
    given = () if step.override is None else read_overrides(step.store, step.override)
    return {key for override in given if override.kind == "state" for key in override.value}
