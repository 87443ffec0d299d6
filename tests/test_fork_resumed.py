"""A fork that was stopped before its override came in puts it in when it is resumed."""

import pytest
from burr.core import ApplicationBuilder, State, action
from burr.core.parallelism import MapStates, RunnableGraph

from rewind_nb import Rewind

RAN = []


@action(reads=["n"], writes=["made"])
def make(state: State) -> State:
    RAN.append("make")
    return state.update(made={"n": state["n"], "also": "recorded"})


@action(reads=["made"], writes=["seen"])
def see(state: State) -> State:
    RAN.append("see")
    return state.update(seen=state["made"]["n"])


class Makers(MapStates):
    """Makes in tasks."""

    def action(self, state, inputs):
        return RunnableGraph.create(make)

    def states(self, state, context, inputs):
        for n in (1, 2):
            yield state.update(n=n)

    def reduce(self, state, states):
        return state.update(made={"n": [s["made"]["n"] for s in states]})

    @property
    def reads(self):
        return ["n"]

    @property
    def writes(self):
        return ["made"]


class Stopper:
    """A hook that interrupts, once, when an event comes for which it is armed."""

    def __init__(self):
        self.armed = None

    def __call__(self, event):
        if self.armed == (event.name, event.action):
            self.armed = None
            raise KeyboardInterrupt


def recorded(store, first=make):
    stopper = Stopper()
    app = (
        ApplicationBuilder()
        .with_actions(make=first, see=see)
        .with_transitions(("make", "see"))
        .with_state(n=1)
        .with_entrypoint("make")
        .build()
    )
    rw = Rewind(app, store=store, hooks=[stopper])
    run = rw.run()
    RAN.clear()
    return rw, run, stopper


OVERRIDES = [
    {"output": {"made": {"n": 7, "also": "recorded"}}},
    {"output": lambda was: {"made": {**was["made"], "n": 7}}},
    {"patch": {"made.n": 7}},
    {"patch": [{"op": "replace", "path": "/made/n", "value": 7}]},
]


@pytest.mark.parametrize("override", OVERRIDES)
def test_what_an_override_supplies_is_put_in_and_its_step_is_not_executed(store, override):
    rw, run, stopper = recorded(store)
    whole = rw.fork(run, "make", **override)
    RAN.clear()
    stopper.armed = ("run_started", None)
    with pytest.raises(KeyboardInterrupt):
        rw.fork(run, "make", **override)
    stopped = store.runs()[-1]
    assert (stopped.status, len(stopped)) == ("interrupted", 0)

    fork = rw.resume(stopped)

    assert RAN == ["see"]
    assert [s.hash for s in fork] == [s.hash for s in whole]
    assert [(s.source, s.reason) for s in fork] == [(s.source, s.reason) for s in whole]
    assert (fork.overrides, fork.state) == (whole.overrides, whole.state)
    assert rw.replay(fork).require()
    assert store.verify().ok


def test_the_same_inside_a_task(store):
    rw, run, stopper = recorded(store, Makers())
    inside = run["make"].tasks["1"][0]
    output = {"made": {"n": 9}}
    whole = rw.fork(run, inside, output=output)
    RAN.clear()
    for moment in (("run_started", None), ("step_started", "make")):
        stopper.armed = moment
        with pytest.raises(KeyboardInterrupt):
            rw.fork(run, inside, output=output)
        fork = rw.resume(store.runs()[-1])
        assert fork.state == whole.state == {"n": 1, "made": {"n": [1, 9]}, "seen": [1, 9]}
        assert fork["make"].tasks["1"][0].source == "override"
        assert RAN == ["see"]
        assert rw.replay(fork).ok
        RAN.clear()
