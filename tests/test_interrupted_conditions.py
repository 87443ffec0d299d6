"""An interrupt in a transition's condition stops the run, and leaves the step before it whole."""

from types import SimpleNamespace

import pytest
from burr.core import ApplicationBuilder, Condition, State, action, default
from burr.core.parallelism import MapStates, RunnableGraph

from rewind_nb import Rewind

asked = SimpleNamespace(stop=None, done=0)


@pytest.fixture(autouse=True)
def untouched():
    asked.stop, asked.done = None, 0


@action(reads=["n"], writes=["n"])
def count(state: State) -> State:
    asked.done += 1
    return state.update(n=state["n"] + 1)


@action(reads=["n"], writes=["n"])
async def acount(state: State) -> State:
    asked.done += 1
    return state.update(n=state["n"] + 1)


@action(reads=["n"], writes=["end"])
def finish(state: State) -> State:
    return state.update(end=state["n"])


def is_large(state: State) -> bool:
    if asked.stop is not None and state["n"] == 2:
        raise asked.stop
    return state["n"] >= 3


large = Condition(["n"], is_large, name="large")


def app_of(counting):
    return (
        ApplicationBuilder()
        .with_actions(count=counting, finish=finish)
        .with_transitions(("count", "finish", large), ("count", "count", default))
        .with_state(n=0)
        .with_entrypoint("count")
        .build()
    )


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("counting", [count, acount], ids=["sync", "async"])
def test_a_step_stays_complete_when_the_condition_after_it_is_interrupted(store, counting, stop):
    rw = Rewind(app_of(counting), store=store)
    asked.stop = stop()
    with pytest.raises(stop):
        rw.run()
    run = rw.last_run

    assert run.status == "interrupted"
    assert [(s.status, s.writes) for s in run] == [("complete", {"n": 1}), ("complete", {"n": 2})]
    asked.stop = None
    assert rw.replay(run).require()
    done = rw.resume(run)
    assert (done.id, done.status, done.state["end"]) == (run.id, "complete", 3)
    assert asked.done == 3 + 2  # the replay's two, and no finished step again
    assert rw.replay(done).require()
    assert store.verify().ok


def test_a_fork_whose_condition_is_interrupted_goes_on_with_the_condition(store):
    rw = Rewind(app_of(count), store=store)
    run = rw.run()
    asked.stop = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        rw.fork(run, 0, output={"n": 2})  # what is put in has a way on, too
    fork = rw.last_run
    assert ([s.status for s in fork], fork.status) == (["complete"], "interrupted")
    asked.stop = None
    assert rw.resume(fork).state["end"] == 3


def test_an_application_that_its_user_steps_can_be_stepped_on(store):
    rw = Rewind(app_of(count), store=store)
    app = rw.application()
    app.step()
    asked.stop = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        app.step()
    assert (rw.last_run.status, len(rw.last_run)) == ("interrupted", 2)
    asked.stop = None
    app.run(halt_after=["finish"])
    run = rw.last_run
    assert ([s.action for s in run], run.status) == (["count"] * 3 + ["finish"], "complete")


def test_an_application_whose_condition_fails_is_not_over(store):
    rw = Rewind(app_of(count), store=store)
    app = rw.application()
    app.step()
    asked.stop = LookupError("no such rule")
    app.step()
    with pytest.raises(LookupError):
        app.step()
    assert (rw.last_run.status, len(rw.last_run)) == ("failed", 2)
    assert "no such rule" in rw.last_run.note
    asked.stop = None
    assert rw.resume(rw.last_run).state["end"] == 3


class Counters(MapStates):
    """Counts in tasks, each with the same condition."""

    def action(self, state, inputs):
        del state, inputs
        return RunnableGraph(app_of(count).graph, "count", ["finish"])

    def states(self, state, context, inputs):
        del context, inputs
        for n in state["starts"]:
            yield state.update(n=n)

    def reduce(self, state, states):
        return state.update(ends=[s["end"] for s in states])

    @property
    def reads(self):
        return ["starts"]

    @property
    def writes(self):
        return ["ends"]


def test_a_step_of_a_task_stays_complete_when_the_condition_after_it_is_interrupted(store):
    app = (
        ApplicationBuilder()
        .with_actions(fan=Counters())
        .with_state(starts=[1, 2])
        .with_entrypoint("fan")
        .build()
    )
    rw = Rewind(app, store=store)
    asked.stop = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        rw.run()
    tasks = rw.last_run["fan"].tasks
    assert tasks["0"][0].status == "complete"
    asked.stop = None
    assert rw.resume(rw.last_run).state["ends"] == [3, 3]
    assert store.verify().ok
