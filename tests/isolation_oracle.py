"""What a fork must come to, found out without the package: plain Burr, everything executed again.

An `Oracle` runs a pipeline's actions in a plain Burr application, one step at a time. Each
step gets its own copy of every value (no live object crosses a step boundary) in a State of
Burr's own, which notes what the action looks at of the state that entered. A fork executes
every step from the fork point on. Which of them need not have executed is told afterwards,
by comparing what each saw with what the parent's step saw at the same action and visit.
"""

import copy
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from burr.core import Application, ApplicationBuilder, Condition, State, action
from pipelines import Act, Pipeline, carry_out, holds, transitions

Place = tuple[str, int]  # action and visit
Override = tuple[str, Mapping[str, Any]]  # "state", "output", "patch" or "inputs"; what it gives
SUPPLIED = ("output", "patch")


class TooLong(Exception):
    """A run that goes on and on, which no example needs."""


# -- what an action looks at ------------------------------------------------------------------


@dataclass
class Log:
    """What was looked at of the state that entered: keys, or all there is in its order."""

    entered: dict[str, Any]
    keys: set[str] = field(default_factory=set)
    whole: bool = False

    def seen(self) -> tuple[Any, ...]:
        """It as something to compare: values by what they say, not by what they equal."""
        keys = {k: repr(self.entered[k]) if k in self.entered else None for k in self.keys}
        return keys, repr(self.entered) if self.whole else None


class Watched(State):
    """A State of Burr's that notes what is looked at.

    Looking at what the action itself set or deleted says nothing of what entered.
    """

    def __init__(
        self,
        values: dict[str, Any],
        log: Log,
        own: frozenset[str] = frozenset(),
        only: frozenset[str] | None = None,
        whole: bool = True,
    ) -> None:
        super().__init__(values)
        self.log = log
        self.own = own  # set or deleted by the action
        self.only = only  # all others are deleted
        self.whole = whole  # False: a part of the state, which does not show what else there is

    def note(self, key: str) -> None:
        if key not in self.own and (self.only is None or key in self.only):
            self.log.keys.add(key)

    def note_all(self) -> None:
        if self.whole:
            self.log.whole = True
            self.log.keys.update(self.log.entered)
        else:
            for key in self.only or ():
                self.note(key)

    def __getitem__(self, key: str) -> Any:
        self.note(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.note(str(key))
        return key in self._state

    def __iter__(self) -> Iterator[str]:
        self.note_all()
        return super().__iter__()

    def __len__(self) -> int:
        self.note_all()
        return super().__len__()

    def keys(self) -> Any:
        self.note_all()
        return super().keys()

    def apply_operation(self, operation: Any) -> "Watched":
        if operation.name() in ("append", "extend", "increment"):
            for key in operation.reads():
                self.note(key)
        own = {*operation.reads(), *operation.writes()}  # a deletion "reads" what it deletes
        values = super().apply_operation(operation)._state
        return Watched(values, self.log, self.own | own, self.only, self.whole)

    def wipe(self, delete: Any = None, keep: Any = None) -> "Watched":
        if keep is None:
            return super().wipe(delete=delete)
        return self._part([key for key in self._state if key in keep], keep, self.whole)

    def subset(self, *keys: str, ignore_missing: bool = True) -> "Watched":
        return self._part([key for key in keys if key in self._state], keys, False)

    def _part(self, there: list[str], kept: Collection[str], whole: bool) -> "Watched":
        only = frozenset(kept) if self.only is None else self.only & frozenset(kept)
        return Watched({k: self._state[k] for k in there}, self.log, self.own, only, whole)

    def merge(self, other: State) -> "Watched":
        self.note_all()
        return self.update(**other.get_all())


# -- runs ----------------------------------------------------------------------------------------


@dataclass
class Did:
    """One step: the state that entered, what it saw, and the state after it."""

    action: str
    visit: int
    inputs: dict[str, Any]
    before: dict[str, Any]
    after: dict[str, Any]
    seen: tuple[Any, ...]

    @property
    def place(self) -> Place:
        return self.action, self.visit

    def saw(self) -> set[str]:
        """The keys it looked at."""
        return set(self.seen[0])


@dataclass
class Path:
    """The steps of a run, and the overrides it was made with."""

    initial: dict[str, Any]
    steps: list[Did] = field(default_factory=list)
    overrides: dict[Place, Override] = field(default_factory=dict)
    status: str = "complete"

    @property
    def names(self) -> list[str]:
        return [did.action for did in self.steps]

    @property
    def state(self) -> dict[str, Any]:
        return self.steps[-1].after if self.steps else self.initial

    def find(self, place: Place) -> Did | None:
        return next((did for did in self.steps if did.place == place), None)


class Oracle:
    """Executes one pipeline.

    Args:
        longest: the steps after which a run is `TooLong`.
    """

    def __init__(self, pipeline: Pipeline, longest: int) -> None:
        self.pipeline = pipeline
        self.longest = longest
        self._log = Log({})

    def run(self) -> Path:
        path = Path(self.pipeline.initial())
        self._go_on(path, self._application(path.initial, self.pipeline.acts[0].name))
        return path

    def fork(self, parent: Path, at: int, override: Override | None) -> Path:
        """Every step from *at* on executed again, with an override at *at*.

        An override that the parent was made with is given again at its place, which must be
        before *at* where it supplies an output.
        """
        first = parent.steps[at]
        path = Path(parent.initial, list(parent.steps[:at]), dict(parent.overrides))
        if override is None or override[0] not in SUPPLIED:
            self._go_on(path, self._application(first.before, first.action), override)
            return path
        after = first.after
        for pointer, new in override[1].items():
            after = replaced(after, re.split(r"[.\[]", pointer.rstrip("]")), new)
        path.overrides[first.place] = override
        path.steps.append(
            Did(first.action, first.visit, first.inputs, first.before, after, ({}, None))
        )
        app = self._application({**after, "__PRIOR_STEP": first.action}, first.action)
        if not self._halted(path, app):
            self._go_on(path, app)
        return path

    def _application(self, state: Mapping[str, Any], entry: str) -> Application:
        return (
            ApplicationBuilder()
            .with_actions(**{act.name: self._watched(act) for act in self.pipeline.acts})
            .with_transitions(*transitions(self.pipeline, _condition))
            .with_state(**state)
            .with_entrypoint(entry)
            .build()
        )

    def _go_on(self, path: Path, app: Application, override: Override | None = None) -> None:
        visits = Counter(path.names)
        while (following := app.get_next_action()) is not None:
            if len(path.steps) == self.longest:
                raise TooLong
            name = following.name
            visits[name] += 1
            place = (name, visits[name])
            inputs = self.pipeline.inputs(name)
            before = _semantic(app.state)
            for kind, given in filter(None, (path.overrides.get(place), override)):
                if kind == "state":  # it enters after the transition was taken
                    before |= given
                    app = self._application(before, name)
                else:
                    inputs |= given
            if override is not None:
                path.overrides[place], override = override, None
            app.step(inputs=inputs)
            after, seen = _semantic(app.state), self._log.seen()
            path.steps.append(Did(*place, inputs, before, after, seen))
            if self._halted(path, app):
                return

    def _halted(self, path: Path, app: Application) -> bool:
        halted = path.names[-1] == self.pipeline.halt_after
        if halted and app.get_next_action() is not None:
            path.status = "halted"
        return halted

    def _watched(self, act: Act) -> Any:
        """The action on a copy of each value, so that keys and steps share none."""

        def carried_out(state: State, by: int = 0) -> State:
            entered = {k: copy.deepcopy(v) for k, v in _semantic(state).items()}
            self._log = Log(copy.deepcopy(entered))
            return State(dict(carry_out(act.ops, Watched(entered, self._log), by)._state))

        if act.takes_input:

            @action(reads=[], writes=[])
            def do(state: State, by: int) -> State:
                return carried_out(state, by)

        else:

            @action(reads=[], writes=[])
            def do(state: State) -> State:
                return carried_out(state)

        return do

    def asked(self, did: Did) -> set[str]:
        """What the conditions leaving a step look at, in the state after it."""
        log = Log(did.after)
        for source, _, condition in self.pipeline.edges:
            if source == did.action and (
                condition is None or holds(condition, Watched(did.after, log))
            ):
                break
        return log.keys


# -- what a fork of it must and need not do -----------------------------------------------------


def must_execute(parent: Path, fork: Path, at: int, override: Override | None) -> set[int]:
    """The steps of a fork that have to execute: the fewest that it can be had with."""
    needed = set()
    for seq, did in enumerate(fork.steps[at:], at):
        recorded = parent.find(did.place)
        if seq == at and override is not None:
            needed |= set() if override[0] in SUPPLIED else {seq}
        elif recorded is None or (recorded.seen, recorded.inputs) != (did.seen, did.inputs):
            needed.add(seq)
    return needed


def converges_at(parent: Path, fork: Path, at: int, override: Override | None) -> int | None:
    """The seq from which on a fork is its parent again: same state, same steps by number."""
    if override is None:
        return at
    ours, theirs = Counter(fork.names[:at]), Counter(parent.names[:at])
    for seq in range(at, min(len(fork.steps), len(parent.steps) - 1)):
        mine, other = fork.steps[seq], parent.steps[seq]
        ours[mine.action] += 1
        theirs[other.action] += 1
        if mine.action == other.action and ours == theirs and repr(mine.after) == repr(other.after):
            return seq + 1
    return None


def replaced(value: Any, path: list[str], new: Any) -> Any:
    """A nested value with one place in it another."""
    if not path:
        return new
    key = int(path[0]) if isinstance(value, list) else path[0]
    there = copy.copy(value)
    there[key] = replaced(value[key], path[1:], new)
    return there


def _condition(asked: tuple) -> Condition:
    """A condition sees none of Burr's own keys either."""
    return Condition([], lambda state: holds(asked, State(_semantic(state))), name=repr(asked))


def _semantic(state: State) -> dict[str, Any]:
    return {k: v for k, v in state.get_all().items() if not k.startswith("__")}
