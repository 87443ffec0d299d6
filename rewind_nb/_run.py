"""`Run`: a value that describes what is in a store.

They read lazily and never execute anything, so a run can be looked at without its
application. Addressing is by meaning: ``run["search", 2]`` is the second visit of `search`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rewind_nb import _codec, _owner
from rewind_nb._artifact import Artifact
from rewind_nb._call import Call
from rewind_nb._describe import describe_override, plural
from rewind_nb._model import (
    ErrorInfo,
    Manifest,
    Origin,
    Override,
    RunKind,
    RunRow,
    RunStatus,
    Source,
    Usage,
)
from rewind_nb._steps import Step, sum_usage
from rewind_nb._store import Store, _read
from rewind_nb._trajectory import Placed, Trajectory, after_step
from rewind_nb.errors import StepNotFoundError, did_you_mean

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

At = str | int | tuple[str, int] | Step


class Run:
    """One execution, root or forked. Its written steps never change.

    Attributes:
        id: unique; any prefix that matches one run finds it.
        label: what the user called it.
        kind: ``record``, ``fork`` or ``replay``.
    """

    def __init__(self, store: Store, row: RunRow) -> None:
        self.store = store
        self._row = row

    # -- who and whence -------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The run's id."""
        return self._row.id

    @property
    def label(self) -> str | None:
        """What the user called it."""
        return self._row.label

    @property
    def kind(self) -> RunKind:
        """``record``, ``fork`` or ``replay``."""
        return self._row.kind

    @property
    def status(self) -> RunStatus:
        """``running``, ``complete``, ``halted``, ``failed`` or ``interrupted``.

        A run whose process is gone while it was running is `interrupted`.
        """
        if self._row.status == "running" and not _owner.is_live(self._row.owner, self.id):
            return "interrupted"
        return self._row.status

    @property
    def origin(self) -> Origin | None:
        """Where a fork or a replay came from; None for a recorded run."""
        row = self._row
        if row.parent is None:
            return None
        return Origin(
            parent=row.parent,
            at=row.mode.get("at", row.at),
            overrides=self.overrides,
            reuse=row.mode.get("reuse", "none"),
            cache=row.mode.get("cache", "auto"),
        )

    @cached_property
    def overrides(self) -> tuple[Override, ...]:
        """What this fork replaced; empty for an unchanged one."""
        stored = self._row.overrides
        return () if stored is None else read_overrides(self.store, stored)

    @property
    def created_at(self) -> float:
        """When it was made: seconds since the epoch, UTC."""
        return self._row.created_at

    @property
    def parent_id(self) -> str | None:
        """The id of the run it was forked or replayed from."""
        return self._row.parent

    @property
    def parent(self) -> Run | None:
        """The run it was forked or replayed from."""
        return None if self._row.parent is None else self.store.run(self._row.parent)

    @property
    def next_action(self) -> str | None:
        """The action that would execute next; None when the run is complete."""
        return self._row.next_action

    @property
    def note(self) -> str | None:
        """What else there is to know, such as an override that changed nothing."""
        return self._row.note

    @property
    def label_or_id(self) -> str:
        """What to show where there is little room."""
        return self.label or self.id

    def refresh(self) -> Run:
        """The same run as the store has it now."""
        return self.store.run(self.id)

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
        return Step(self.store, placed, self._shown_source(placed))

    def _shown_source(self, placed: Placed) -> Source:
        if placed.segment.own:
            return placed.row.source
        return "inherited" if placed.seq < self._row.mode.get("at", self._row.at) else "reused"

    def __len__(self) -> int:
        return len(self._trajectory)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __getitem__(self, at: At) -> Step:
        """``run["search"]`` (its last visit), ``run["search", 2]`` or ``run[seq]``.

        Raises:
            StepNotFoundError: there is none; the message lists the nearest.
        """
        if isinstance(at, Step):
            return self._find_step(at)
        if isinstance(at, int) and not isinstance(at, bool):
            return self._by_seq(at)
        if isinstance(at, str):
            return self._by_action(at, None)
        if isinstance(at, tuple) and len(at) == 2:
            return self._by_action(*at)
        raise StepNotFoundError(
            f"A step is addressed as 'action', ('action', visit), a seq or a Step; got {at!r}."
        )

    def _by_seq(self, seq: int) -> Step:
        length = len(self)
        position = seq + length if seq < 0 else seq
        placed = self._trajectory.at(position) if 0 <= position < length else None
        if placed is None:
            raise StepNotFoundError(
                f"Run {self.id} has no step {seq}: it has {length}, numbered 0 to {length - 1}."
                if length
                else f"Run {self.id} has no steps.",
                run_id=self.id,
                at=seq,
            )
        return self._step(placed)

    def _by_action(self, action: str, visit: int | None) -> Step:
        if visit is not None:
            placed = self._trajectory.visit(action, visit)
            if placed is not None:
                return self._step(placed)
        visits = [s for s in self.steps if s.action == action]
        if visits and visit is None:
            return visits[-1]
        if visits:
            raise StepNotFoundError(
                f"Run {self.id} visited {action!r} {len(visits)} time(s), so there is no visit "
                f"{visit}. Visits count from 1.",
                run_id=self.id,
                at=(action, visit),
            )
        raise StepNotFoundError(
            f"Run {self.id} has no step {action!r}. "
            f"{did_you_mean(str(action), (s.action for s in self.steps))}",
            run_id=self.id,
            at=action,
        )

    def _find_step(self, step: Step) -> Step:
        top = self._trajectory.visit(step.top.action, step.top.visit)
        found = None if top is None else self._step(top)
        if found is not None and step.path:
            found = next((s for s in found.inside() if s.address == step.address), None)
        if found is None:
            raise StepNotFoundError(
                f"Run {self.id} has no step {step.address!r}: the Step given belongs to run "
                f"{step.run_id}.",
                run_id=self.id,
            )
        return found

    def history(self, *, inside: bool = False) -> tuple[Step, ...]:
        """Every attempt at this run's own steps, failed and interrupted ones included.

        Args:
            inside: the steps of tasks inside them as well.
        """
        rows = self.store.read(_read.step_rows, self.id, 0, 1 << 62, every_attempt=True)
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
        return self._decode(self._trajectory.state_entering(len(self)))

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
        """
        return sum_usage(step.total_usage for step in self.history())  # failed attempts too

    @cached_property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The files its steps made, inherited ones included."""
        steps = list(self.walk())
        # on one connection: taking one per step costs more than the query
        made = self.store.read(lambda c: [_read.artifact_rows(c, s.executed_key) for s in steps])
        return tuple(
            Artifact(self.store, row, step.source)
            for step, rows in zip(steps, made, strict=True)
            for row in rows
        )

    # -- views ----------------------------------------------------------------------------

    @cached_property
    def graph_description(self) -> dict[str, Any]:
        """The application's graph as it was recorded: actions, transitions, entrypoint."""
        described: dict[str, Any] = self.store.value(self._row.graph)
        return described

    def graph(self) -> nx.MultiDiGraph[int]:
        """The executed steps as a graph: a node per seq, an edge per transition taken.

        Nodes carry action, visit, source, status, duration_s, usage and hash; edges carry
        the condition.
        """
        from rewind_nb._frames import run_graph

        return run_graph(self)

    def steps_df(self) -> pd.DataFrame:
        """One row per step; columns in `_frames.STEP_COLUMNS`."""
        from rewind_nb import _frames

        return _frames.steps_df([self])

    def calls_df(self) -> pd.DataFrame:
        """One row per call; columns in `_frames.CALL_COLUMNS`."""
        from rewind_nb import _frames

        return _frames.calls_df([self])

    def fields_df(self) -> pd.DataFrame:
        """One row per written state field; columns in `_frames.FIELD_COLUMNS`."""
        from rewind_nb import _frames

        return _frames.fields_df([self])

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

    @property
    def override_words(self) -> str:
        """The overrides in words, such as ``replace report.total = 1200``."""
        return "; ".join(describe_override(o) for o in self.overrides) or "unchanged"

    def __repr__(self) -> str:
        played = sum(s.played_calls for s in self.walk() if s.source not in ("inherited", "reused"))
        parts = [f"Run {self.id}", *([f"{self.label!r}"] if self.label else []), self.status]
        parts.append(plural(len(self), "step"))
        if self.kind != "record":
            parts.append(self.describe())
        elif played:
            parts.append(f'{plural(played, "call")} played back (cache="refresh" asks again)')
        if self.note:
            parts.append(self.note)
        return f"<{', '.join(parts)}>"

    def _repr_html_(self) -> str:
        from rewind_nb import _html

        return _html.run_html(self)


def read_overrides(store: Store, digest: str) -> tuple[Override, ...]:
    """The overrides of a fork."""
    return tuple(Override(**item) for item in store.value(digest))


def fork_tree(runs: Iterable[Run]) -> nx.DiGraph[str]:
    """The runs as a forest: an edge from each parent to each of its forks and replays."""
    import networkx as nx

    tree: nx.DiGraph[str] = nx.DiGraph()
    known = list(runs)
    for run in known:
        facts = {"kind": run.kind, "status": run.status, "label": run.label}
        tree.add_node(run.id, **facts, steps=len(run), description=run.describe())
    for run in known:
        if run.origin is not None and run.origin.parent in tree:
            tree.add_edge(run.origin.parent, run.id, at=run.origin.at, override=run.override_words)
    return tree


__all__ = ["Artifact", "At", "Call", "ErrorInfo", "Run", "Step", "fork_tree", "read_overrides"]
