"""Which step read what another one wrote, as it was observed: the edges of `Run.dependencies`.

What a step reads comes from the last step of its trajectory that wrote or deleted the key,
else from the state that it began with. A task begins with a state of its step: a key that was
passed on unchanged comes from whoever wrote it before; another one was made by the step, from
all that this read. What a task came to goes to its step. So nothing depends on a later step,
nor on itself, and the graph has no circle::

    initial state -- words --> each:1[0]/search:1 -- found --> each:1[0]/grade:1
                                                                    |
                   report <-- grades -- each:1 <------ grade -------+
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rewind_nb._held import START, Held, Moment
from rewind_nb._run import Run, Step

INITIAL = "initial state"
OUTSIDE = "override"
"""What was put into the state between two steps: by an override, or by who drives the run."""

Node = int | str
"""A step of the run by its seq, one inside it by its address, or where state came from."""


@dataclass(slots=True)
class Edge:
    """What one step took from another.

    Attributes:
        keys: that it read.
        route_keys: that the conditions of the way to it read.
        made: whether what it read is no such key, but was made from these for its task.
    """

    keys: set[str] = field(default_factory=set)
    route_keys: set[str] = field(default_factory=set)
    made: bool = False


Edges = dict[tuple[Node, Node], Edge]


def node_of(step: Step) -> Node:
    """A step as a node."""
    return step.address if step.path else step.seq


def dependencies(run: Run) -> Edges:
    """The edges, from who wrote to who read."""
    return _Reading(run).edges


class _Reading:
    """The edges of one run, trajectory by trajectory."""

    def __init__(self, run: Run) -> None:
        self.edges: Edges = {}
        self.held: dict[str, Held] = {"": Held.of_run(run, run.steps)}
        self.steps: dict[str, tuple[Step, ...]] = {"": run.steps}
        self._trajectory(run.steps, None)

    def _trajectory(self, steps: tuple[Step, ...], owner: Step | None) -> None:
        for n, step in enumerate(steps):
            self._reads(step, owner)
            following = steps[n + 1 : n + 2]
            if following:
                self._route(step, following[0], owner)
            for tasks in step.tasks.values():
                path = tasks[0].path
                self.steps[path] = tasks
                self.held[path] = Held.of_task(tasks)
                self._trajectory(tasks, step)
                self._result(tasks, step)

    def _reads(self, step: Step, owner: Step | None) -> None:
        for key in self._looked_at(step):
            self._depends(step, key, Moment(step.seq), owner)

    def _looked_at(self, step: Step) -> Iterable[str]:
        """The keys it read; where it read every key, those that were gone as well."""
        keys = dict.fromkeys(key for key, _ in step.row.reads)
        if step.row.reads_all:
            keys |= dict.fromkeys(self.held[step.path].known_at(Moment(step.seq)))
        return keys

    def _depends(self, step: Step, key: str, moment: Moment, owner: Step | None) -> None:
        for source, name, made in self._sources(step.path, key, moment, owner):
            edge = self._edge(source, node_of(step))
            edge.keys.add(name)
            edge.made |= made

    def _route(self, step: Step, following: Step, owner: Step | None) -> None:
        moment = Moment(step.seq, leaving=True)
        for key, _ in (step.transition or {}).get("reads", ()):
            for source, name, _ in self._sources(step.path, key, moment, owner):
                self._edge(source, node_of(following)).route_keys.add(name)

    def _result(self, tasks: tuple[Step, ...], step: Step) -> None:
        """What a task came to: the last values that it wrote itself."""
        held, end = self.held[tasks[0].path], Moment(tasks[-1].seq, leaving=True)
        for key in held.versions:
            last = held.last(key, end)
            if last is not None and last.moment.leaving and last.moment.seq != START:
                writer = tasks[last.moment.seq]
                self._edge(node_of(writer), node_of(step)).keys.add(key)

    def _sources(
        self, path: str, key: str, moment: Moment, owner: Step | None
    ) -> Iterator[tuple[Node, str, bool]]:
        """Who a key came from, under which name, and whether it was made of that."""
        held = self.held[path]
        last = held.last(key, moment)
        if last is not None and last.moment.seq != START:
            writer = self.steps[path][last.moment.seq]
            yield (node_of(writer) if last.moment.leaving else OUTSIDE), key, False
        elif owner is None:
            if last is not None:
                yield INITIAL, key, False
        else:
            yield from self._from_outside(held.at(key, moment), key, owner)

    def _from_outside(
        self, digest: str | None, key: str, owner: Step
    ) -> Iterator[tuple[Node, str, bool]]:
        """The same for what a task began with."""
        moment = Moment(owner.seq)
        if self.held[owner.path].at(key, moment) == digest:
            yield from self._sources(owner.path, key, moment, owner.outer)
            return
        for name in self._looked_at(owner):
            for source, outer, _ in self._sources(owner.path, name, moment, owner.outer):
                yield source, outer, True

    def _edge(self, source: Node, target: Node) -> Edge:
        return self.edges.setdefault((source, target), Edge())
