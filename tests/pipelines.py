"""Pipelines as data, for the property that a fork re-executes what it must and nothing else.

A `Pipeline` says what each action does as a list of operations, and `carry_out` does them
on a Burr State, whichever: the recorded application and the oracle's plain one run the
same actions. Keys say by their first letter what they hold, so that every operation is
possible on every state: ``n`` a number, ``l`` a list, ``d`` something nested, ``x`` anything.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
from burr.core import Application, ApplicationBuilder, Condition, State, action, default

NUMBERS = ("n0", "n1", "n2")
LISTS = ("l0", "l1")
KEYS = (*NUMBERS, *LISTS, "d0", "d1", "x0")
BUSY = ("n0", "n0", "n1", "l0", "d0")  # drawn more often, so that steps depend on each other
READABLE = (*KEYS, "nope")  # no action ever writes this one
ANYTHING = (0, False, 0.0, -0.0, "", None, (0,), "0")  # several are equal, and none is the same
ABSENT = 7  # what an absent key weighs


@dataclass(frozen=True)
class Act:
    """One action: its operations, and what it declares, which need not be true."""

    name: str
    ops: tuple[tuple, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    takes_input: bool


@dataclass(frozen=True)
class Pipeline:
    """A whole application; each edge is (from, to, condition), the first that holds is taken."""

    acts: tuple[Act, ...]
    edges: tuple[tuple[str, str, tuple | None], ...]
    state: tuple[tuple[str, int], ...]  # keys in their order, each with a number to make it of
    by: int
    halt_after: str | None

    def initial(self) -> dict[str, Any]:
        return {key: made(key, n) for key, n in self.state}

    def inputs(self, name: str) -> dict[str, Any]:
        """What an action is given of the run's inputs."""
        takes = any(act.takes_input for act in self.acts if act.name == name)
        return {"by": self.by} if takes else {}

    def run_arguments(self) -> dict[str, Any]:
        given: dict[str, Any] = {}
        if any(act.takes_input for act in self.acts):
            given["inputs"] = {"by": self.by}
        if self.halt_after is not None:
            given["halt_after"] = [self.halt_after]
        return given


@dataclass(frozen=True)
class Change:
    """What to change, as numbers: which step, key and value they mean depends on the run."""

    at: int
    kind: str
    pick: int
    value: int
    same: bool  # whether it may come out as what was recorded


# -- what operations do --------------------------------------------------------------------


def made(key: str, n: int) -> Any:
    """A value of a key's kind; small, so that values often come out the same."""
    match key[0]:
        case "n" | "c":
            return (0, 1, 2, True, 3)[n % 5]
        case "l":
            return list(range(n % 3))
        case "d":
            return {"n": n % 3, "l": [n % 2]}
    return ANYTHING[n % len(ANYTHING)]


def weight(state: State, key: str) -> int:
    """A number that stands for what is there; reads the key."""
    return weighed(state[key]) if key in state else ABSENT


def weighed(value: Any) -> int:
    if isinstance(value, int):
        return int(value)
    if isinstance(value, list):
        return len(value)
    if isinstance(value, dict):
        return value["n"] + len(value["l"])
    return len(repr(value))


def carry_out(ops: tuple[tuple, ...], state: State, by: int = 0) -> State:
    """The state after some operations, and after what they changed in place."""
    for op in ops:
        state = _done(op, state, by)
    return state


def _done(op: tuple, state: State, by: int) -> State:
    match op:
        case ("set", key, n):
            return state.update(**{key: made(key, n)})
        case ("set two", first, second, n):
            return state.update(**{first: made(first, n), second: made(second, n)})
        case ("calculate", to, first, second):
            return state.update(**{to: made(to, weight(state, first) + weight(state, second))})
        case ("copy", to, key):
            return state.update(**{to: state.get(key, made(to, 1))})
        case ("look", key):
            state.get(key)
        case ("rewrite", key):
            if key in state:
                return state.update(**{key: state[key]})
        case ("append", key, n):
            return state.append(**{key: n})
        case ("extend", key, n):
            return state.extend(**{key: [n, n]})
        case ("increment", key, n):
            return state.increment(**{key: n})
        case ("poke", key, n):
            _poke(state.get(key), n)
        case ("alias", first, second, n):
            both = state.get(first, [n])
            state = state.update(**{first: both, second: both})
            both.append(n)
        case ("has", to, key):
            return state.update(**{to: made(to, int(key in state))})
        case ("all", to, how):
            return state.update(**{to: made(to, weighed(_whole(state, how)))})
        case ("order", how):
            return state.update(x0=_whole(state, how))
        case ("part", to, keys):
            return state.update(**{to: made(to, len(state.subset(*keys)))})
        case ("input", to):
            return state.update(**{to: made(to, by)})
        case ("delete", keys):
            return state.wipe(delete=list(keys))
        case ("keep", keys):
            return state.wipe(keep=list(keys))
        case ("subset", keys):
            return state.subset(*keys)
        case ("merge", key, n):
            return state.merge(State({key: made(key, n)}))
        case ("fresh", keys, n):
            return State({key: made(key, n) for key in keys})
        case ("fresh copy", keys, n):
            return State({key: state.get(key, made(key, n)) for key in keys})
        case ("if", key, ops, others):
            return carry_out(ops if weight(state, key) % 2 else others, state, by)
        case _:
            raise AssertionError(op)
    return state


def _poke(value: Any, n: int) -> None:
    """Change a value in place, deep down; now and then to what it was."""
    if isinstance(value, list):
        value[n % 2 :] = [n]
    elif isinstance(value, dict):
        value["l"][:] = [n % 2] * (1 + n % 3)


def _whole(state: State, how: str) -> Any:
    """Something that depends on every key."""
    match how:
        case "keys":
            return ",".join(state.keys())
        case "first":
            return next(iter(state), "none")
        case "last":
            return ["none", *state.get_all()][-1]
        case "length":
            return len(state)
        case "sum":
            return sum(weighed(value) for value in state.get_all().values())
        case "items":
            return sum(weighed(value) for _, value in sorted(state.items()))
        case "equal":
            return int(state == State({"n0": 1}))
    return repr(state)


def holds(condition: tuple, state: State) -> bool:
    """Whether a transition's condition does."""
    match condition:
        case ("below", key, n):
            return weight(state, key) < n
        case ("odd", key):
            return weight(state, key) % 2 == 1
        case ("has", key):
            return key in state
        case ("both", first, second):
            return holds(first, state) and holds(second, state)
        case ("crowded", n):
            return len(state) > n
    raise AssertionError(condition)


# -- as an application ------------------------------------------------------------------------
# What all actions share is reached by a computed name, which the code fingerprint does not
# follow: it would read the whole interpreter again for every action of every example.


def application(pipeline: Pipeline) -> Application:
    """The pipeline as its user would write it."""
    named = {act.name: _action(act) for act in pipeline.acts}
    return (
        ApplicationBuilder()
        .with_actions(**named)
        .with_transitions(*transitions(pipeline))
        .with_state(**pipeline.initial())
        .with_entrypoint(pipeline.acts[0].name)
        .build()
    )


def _action(act: Act) -> Any:
    ops = act.ops
    if act.takes_input:

        @action(reads=list(act.reads), writes=list(act.writes))
        def do(state: State, by: int) -> State:
            return globals()["carry_out"](ops, state, by)

    else:

        @action(reads=list(act.reads), writes=list(act.writes))
        def do(state: State) -> State:
            return globals()["carry_out"](ops, state)

    return do


def _condition(asked: tuple) -> Condition:
    return Condition([], lambda state: globals()["holds"](asked, state), name=repr(asked))


def transitions(
    pipeline: Pipeline, condition: Callable[[tuple], Condition] = _condition
) -> list[tuple]:
    """As Burr takes them; conditions declare nothing, for any key may be absent."""
    return [
        (source, to, default if asked is None else condition(asked))
        for source, to, asked in pipeline.edges
    ]


# -- drawn ------------------------------------------------------------------------------------

small = st.integers(0, 4)
key = st.sampled_from((*KEYS, *BUSY * 4))
read = st.sampled_from((*READABLE, *BUSY * 4))
number = st.sampled_from(NUMBERS)
listed = st.sampled_from(LISTS)
some_keys = st.lists(key, min_size=1, max_size=3, unique=True).map(tuple)
some_reads = st.lists(read, min_size=1, max_size=3, unique=True).map(tuple)
many_keys = st.lists(key, min_size=4, max_size=7, unique=True).map(tuple)
whole = st.sampled_from(("keys", "first", "last", "length", "sum", "items", "equal", "repr"))


def _op(name: str, *parts: st.SearchStrategy) -> st.SearchStrategy:
    return st.tuples(st.just(name), *parts)


@st.composite
def _copies(draw) -> tuple:
    source = draw(key)
    return (
        "copy",
        draw(st.sampled_from([k for k in KEYS if k[0] in (source[0], "x")])),
        source,
    )


TWO = _op("set two", key, key, small)
SIMPLE = [
    *[_op("calculate", key, read, read)] * 10,
    *[_op("set", key, small)] * 3,
    *[_copies()] * 2,
    *[_op("poke", st.sampled_from((*LISTS, "d0", "d1")), small)] * 2,
    *[TWO] * 5,
    _op("look", read),
    _op("rewrite", key),
    _op("append", listed, small),
    _op("extend", listed, small),
    _op("increment", number, small),
    _op("alias", listed, listed, small),
    _op("has", key, read),
    _op("part", key, some_reads),
    *[_op("delete", some_keys)] * 2,
]
RARE = [
    _op("all", key, whole),
    _op("order", whole),
    _op("keep", many_keys),
    _op("subset", many_keys),
    _op("merge", key, small),
    *[_op("fresh", many_keys, small)] * 2,
    _op("fresh copy", many_keys, small),
]
simple = st.one_of(SIMPLE)
a_few = st.lists(simple, min_size=1, max_size=2).map(tuple)
there_or_not = st.one_of(_op("set", key, small), TWO, _op("delete", some_keys)).map(lambda o: (o,))
op = st.one_of(
    *[simple] * 6,
    *[st.one_of(RARE)] * 2,
    _op("if", read, a_few, a_few),
    *[_op("if", st.sampled_from(BUSY), there_or_not, there_or_not)] * 2,
)
condition = st.one_of(
    *[_op("odd", st.sampled_from((*BUSY, "c0")))] * 4,
    *[_op("below", st.sampled_from(BUSY), st.integers(1, 3))] * 2,
    _op("has", read),
    _op("crowded", st.integers(4, 7)),
)


@st.composite
def pipelines(draw) -> Pipeline:
    """A pipeline of two to six actions; its loops mostly end."""
    names = [
        f"a{i}" for i in range(draw(st.sampled_from((6, 5, 6, 5, 6, 4, 6, 5, 3, 6, 5, 6, 2, 6))))
    ]
    edges: list[tuple[str, str, tuple | None]] = []
    acts, forked = [], False
    for i, name in enumerate(names):
        ops = list(draw(st.lists(op, min_size=1, max_size=4)))
        written = (ops[-1][1],) if ops[-1][0] in ("set", "calculate", "append", "increment") else ()
        if draw(st.sampled_from((False, False, False, True))):  # back, as long as a count is small
            counter = f"c{i % 2}"
            ops.insert(0, ("increment", counter, 1))
            enough = ("below", counter, draw(st.integers(2, 4)))
            again = draw(st.one_of(st.just(enough), _op("both", st.just(enough), condition)))
            edges.append((name, names[draw(st.integers(0, i))], again))
        following = i + 1
        if forked and i + 2 < len(names):  # the first of two ways, which may pass the other by
            following += draw(st.integers(0, 1))
        forked = i + 2 < len(names) and draw(st.sampled_from((True, True, False)))
        if forked:
            edges.append((name, names[i + 2], draw(condition)))
        if following < len(names):
            edges.append((name, names[following], None))
        takes_input = draw(st.sampled_from((False, False, False, True)))
        if takes_input:
            ops.insert(0, ("input", draw(key)))
        declared = draw(st.lists(key, max_size=2, unique=True))
        acts.append(Act(name, tuple(ops), tuple(declared), written, takes_input))
    present = draw(st.lists(key, min_size=2, max_size=6, unique=True))
    halts = draw(st.sampled_from((False,) * 14 + (True,)))
    return Pipeline(
        tuple(acts),
        tuple(edges),
        tuple((k, draw(small)) for k in present),
        draw(small),
        draw(st.sampled_from(names)) if halts else None,
    )


changes = st.builds(
    Change,
    at=st.sampled_from((0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 3, 4, 6)),
    kind=st.sampled_from(("state", "output", "state", "patch", "inputs", "state") * 2 + ("none",)),
    pick=st.sampled_from((0, 0, 0, 0, 0, 1, 1, 2, 3)),
    value=small,
    same=st.sampled_from((False,) * 9 + (True,)),
)
