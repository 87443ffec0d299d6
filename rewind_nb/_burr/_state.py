"""The two States: `TracingState` is what an action sees, `RunState` what Burr holds.

Both keep a `Cell` where a value was not needed yet. A TracingState notes every read on its
Reader and remembers which keys were assigned and which were deleted, and how: `wipe(keep=)`
and a freshly built State delete whatever else there is, also in a fork that has more.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from burr.core.application import PRIOR_STEP, SEQUENCE_ID
from burr.core.state import DeleteField, SetFields, State, StateDelta

from rewind_nb._cells import Cell, Cells, Reader
from rewind_nb._trajectory import survives
from rewind_nb.errors import ConfigError

Rule = dict[str, list[str]] | None


def is_private(key: str) -> bool:
    """Whether a key is Burr's own."""
    return key in (PRIOR_STEP, SEQUENCE_ID)


def refuse_reserved(keys: Iterable[str]) -> None:
    """Refuse state keys that Burr takes for its own and drops.

    Raises:
        ConfigError: there is one.
    """
    for key in keys:
        if key.startswith("__"):
            raise ConfigError(
                f"The state key {key!r} begins with two underscores. Burr keeps such keys for "
                "itself and drops what an action writes to them, so it could not be recorded. "
                f"Rename it, to {key.strip('_') or 'a word'!r} for instance."
            )


def semantic_state(state: State) -> dict[str, Any]:
    """The state of a Burr application without Burr's own keys; reads every key.

    Example:
        >>> semantic_state(State({"city": "Bern", "__PRIOR_STEP": "plan"}))
        {'city': 'Bern'}
    """
    return {key: state[key] for key in state.keys() if not is_private(key)}  # noqa: SIM118


class TracingState(State):
    """The state of one step, as the action sees it: no key of Burr's own."""

    def __init__(
        self,
        reader: Reader,
        values: dict[str, Any],
        typing_system: Any,
        *,
        written: Sequence[str] = (),
        deleted: Rule = None,
        whole: bool = True,
    ) -> None:
        super().__init__(values, typing_system)
        self._reader = reader
        self._written = written  # in the order assigned, which is that of keys that are new
        self._deleted = deleted
        self._whole = whole  # False: a subset, whose keys are not all there is

    @classmethod
    def entering(cls, reader: Reader, typing_system: Any) -> TracingState:
        """The state as it enters a step, nothing read yet."""
        return cls(reader, dict(reader.cells), typing_system)

    # -- reading ------------------------------------------------------------------------

    def __getitem__(self, key: str) -> Any:
        if key not in self._state:
            self._look(key)  # its absence was observed
            return super().__getitem__(key)  # raises Burr's KeyError
        value = self._state[key]
        return self._reader.get(key) if isinstance(value, Cell) else value

    def __contains__(self, key: object) -> bool:
        if isinstance(key, str):
            self._look(key)
        return key in self._state

    def _look(self, key: str) -> None:
        """Note that a key was looked at, unless what is there is the action's own doing."""
        if key not in self._written and survives(key, self._deleted):
            self._reader.has(key)

    def _note_all(self) -> None:
        if self._whole:
            self._reader.note_all()
        else:
            for key in (self._deleted or {})["keep"]:  # also those that there are not
                self._look(key)

    def __iter__(self) -> Iterator[str]:
        self._note_all()
        return iter(self._state)

    def __len__(self) -> int:
        self._note_all()
        return len(self._state)

    def keys(self) -> list[str]:  # a list since Burr 0.42
        """Every key, which reads every key."""
        self._note_all()
        return list(self._state)

    def cells(self) -> dict[str, Cell]:
        """It as content, without reading it: what a task that gets this state starts from."""
        found = {}
        for key, value in self._state.items():
            if is_private(key):
                continue
            cell = self._reader.now(key) if isinstance(value, Cell) else Cell.of(value, key)
            found[key] = cell
        return found

    # -- writing ------------------------------------------------------------------------

    def _with(
        self,
        values: dict[str, Any],
        written: Sequence[str],
        deleted: Rule,
        *,
        whole: bool | None = None,
        typing_system: Any = None,
    ) -> TracingState:
        return TracingState(
            self._reader,
            values,
            typing_system or self._typing_system,
            written=written,
            deleted=deleted,
            whole=self._whole if whole is None else whole,
        )

    def apply_operation(self, operation: StateDelta) -> TracingState:
        """A new state with the operation applied; appends and increments read their keys."""
        values = dict(self._state)
        if isinstance(operation, DeleteField):
            operation.apply_mutate(values)
            keys = list(operation.keys)
            written = [key for key in self._written if key not in keys]
            return self._with(values, written, _without(self._deleted, keys))
        if not isinstance(operation, SetFields):
            for key in operation.reads():
                if key in self:
                    values[key] = self._own_copy(key)
            operation.validate(values)
        operation.apply_mutate(values)
        written = list(dict.fromkeys([*self._written, *operation.writes()]))
        return self._with(values, written, self._deleted)

    def _own_copy(self, key: str) -> Any:
        """A copy to append to: decoded afresh where the action has not looked at it yet."""
        held = self._state[key]
        if isinstance(held, Cell) and key not in self._reader.values:
            return held.fresh()
        return copy.deepcopy(self[key])

    def wipe(self, delete: list[str] | None = None, keep: list[str] | None = None) -> TracingState:
        """Burr's wipe; ``keep`` is remembered as the rule it is."""
        if delete is not None or keep is None:
            return super().wipe(delete=delete, keep=keep)  # type: ignore[no-any-return]
        kept = set(keep)
        values = {k: v for k, v in self._state.items() if k in kept}
        written = [key for key in self._written if key in kept]
        return self._with(values, written, _only(self._deleted, list(keep)))

    def merge(self, other: State) -> TracingState:
        """Every key of *other* over this one, which reads both whole."""
        self._note_all()
        return self.update(**other.get_all())  # type: ignore[no-any-return]

    def subset(self, *keys: str, ignore_missing: bool = True) -> TracingState:
        """Only these keys; a value is read when it is looked at."""
        values = {}
        for key in keys:
            if key in self._state:
                values[key] = self._state[key]
            elif not ignore_missing:
                self[key]
        deleted = _only(self._deleted, list(keys))  # also those that only a fork has
        written = [key for key in values if key in self._written]
        return self._with(values, written, deleted, whole=False)

    def with_typing_system(self, typing_system: Any) -> TracingState:
        """The same state under another typing system."""
        return self._with(self._state, self._written, self._deleted, typing_system=typing_system)

    # -- leaving the step ---------------------------------------------------------------

    def __deepcopy__(self, memo: dict[int, Any]) -> State:
        return State(copy.deepcopy(self.get_all(), memo), self._typing_system)

    def __reduce__(self) -> tuple[Any, ...]:
        return State, (self.get_all(), self._typing_system)


def _without(rule: Rule, keys: list[str]) -> Rule:
    """The rule after `keys` were deleted."""
    if rule is not None and "keep" in rule:
        return {"keep": [k for k in rule["keep"] if k not in keys]}
    gone = [] if rule is None else rule["delete"]
    return {"delete": [*gone, *(k for k in keys if k not in gone)]} if gone or keys else rule


def _only(rule: Rule, keys: list[str]) -> Rule:
    """The rule after everything but `keys` was deleted."""
    if rule is None:
        return {"keep": keys}
    if "keep" in rule:
        return {"keep": [k for k in keys if k in rule["keep"]]}
    return {"keep": [k for k in keys if k not in rule["delete"]]}


def changes(state: State, reader: Reader) -> tuple[dict[str, Any], Rule]:
    """What an action's returned state assigned, in its order, and its deletion rule.

    A state that does not stem from the one the action was given deletes every key that it
    does not have, as it does in Burr.

    Raises:
        ConfigError: a key is one that Burr would drop.
    """
    if isinstance(state, TracingState) and state._reader is reader:  # noqa: SLF001
        held = state._state  # noqa: SLF001
        written = {k: held[k] for k in state._written if not is_private(k)}  # noqa: SLF001
        deleted = _public(state._deleted)  # noqa: SLF001
    else:
        written, deleted = semantic_state(state), {"keep": []}
    refuse_reserved(written)
    return written, deleted


def _public(rule: Rule) -> Rule:
    """Burr's own keys cannot be deleted by an action."""
    if rule is None:
        return None
    ((verb, keys),) = rule.items()
    public = [k for k in keys if not is_private(k)]
    return {verb: public} if public or verb == "keep" else None


class RunState(State):
    """The state Burr holds between steps: cells, decoded when somebody looks."""

    def __init__(self, values: dict[str, Any], typing_system: Any, boundary: Boundary) -> None:
        super().__init__(values, typing_system)
        self.boundary = boundary

    def semantic(self) -> dict[str, Any]:
        """What is there, Burr's own keys apart: cells, and values a user put in."""
        return {k: v for k, v in self._state.items() if not is_private(k)}

    @property
    def pristine(self) -> bool:
        """Whether nobody put or removed a value since the step."""
        cells, mine = self.boundary.cells, self.semantic()
        return mine.keys() == cells.keys() and all(mine[k] is cells[k] for k in cells)

    def __getitem__(self, key: str) -> Any:
        value = self._state[key] if key in self._state else super().__getitem__(key)
        return self.boundary.value(key, value) if isinstance(value, Cell) else value

    def __contains__(self, key: object) -> bool:
        return key in self._state

    def _with(self, values: dict[str, Any]) -> RunState:
        return RunState(values, self._typing_system, self.boundary)

    def apply_operation(self, operation: StateDelta) -> RunState:
        """A new state with the operation applied; values are decoded only where needed."""
        values = dict(self._state)
        if not isinstance(operation, SetFields | DeleteField):
            for key in operation.reads():
                if key in values:
                    values[key] = copy.deepcopy(self[key])
            operation.validate(values)
        operation.apply_mutate(values)
        return self._with(values)

    def merge(self, other: State) -> RunState:
        """Every key of *other* over this one."""
        if isinstance(other, RunState):
            values = {**self._state, **other._state}  # noqa: SLF001
            return RunState(values, self._typing_system, other.boundary)
        return self._with({**self._state, **other.get_all()})

    def with_typing_system(self, typing_system: Any) -> RunState:
        """The same state under another typing system."""
        return RunState(self._state, typing_system, self.boundary)

    def __deepcopy__(self, memo: dict[int, Any]) -> State:
        return State(copy.deepcopy(self.get_all(), memo), self._typing_system)

    def __reduce__(self) -> tuple[Any, ...]:
        return State, (self.get_all(), self._typing_system)


class Boundary:
    """What lies between two steps: the cells, and each condition's one verdict.

    Burr evaluates a condition about five times a step; here it is evaluated once, so that
    one that depends on anything else than the state still sends the run one way.
    """

    def __init__(self, cells: Cells, typing_system: Any) -> None:
        self.cells = cells
        self.reads: dict[str, str | None] = {}
        self._typing_system = typing_system
        self._values: dict[str, Any] = {}
        self._verdicts: dict[int, Any] = {}
        self._interrupt: BaseException | None = None

    def value(self, key: str, cell: Cell) -> Any:
        """The value of a cell, decoded once."""
        if self.cells.get(key) is not cell:
            return cell.fresh()
        if key not in self._values:
            self._values[key] = cell.fresh()
        return self._values[key]

    def verdict(self, condition: Any, run: Callable[[State], Any]) -> Any:
        """What the condition says of this state, an exception included."""
        self.interrupted()
        if id(condition) not in self._verdicts:
            reader = Reader(self.cells)
            try:
                answer = run(ConditionState.entering(reader, self._typing_system))
            except Exception as error:  # noqa: BLE001  (raised again each time Burr asks)
                answer = error
            finally:
                self.reads |= reader.reads
            self._verdicts[id(condition)] = answer
        answer = self._verdicts[id(condition)]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def put_off(self, interrupt: BaseException) -> None:
        """Keep what interrupted a condition until the step before it is written down."""
        self._interrupt = interrupt

    def interrupted(self) -> None:
        """Raise it, once: whoever goes on asks the condition again."""
        interrupt, self._interrupt = self._interrupt, None
        if interrupt is not None:
            raise interrupt


class ConditionState(TracingState):
    """The state a condition sees: naming a key reads that key, not all of them."""

    def get_all(self) -> Mapping[str, Any]:
        """Every value by name, each read when it is used (`expr` evaluates in it)."""
        return _Names(self)


class _Names(Mapping[str, Any]):
    def __init__(self, state: TracingState) -> None:
        self._names = state

    def __getitem__(self, key: str) -> Any:
        return self._names[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
