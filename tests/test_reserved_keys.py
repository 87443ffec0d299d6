"""State keys with two leading underscores are Burr's; one that a user made is never dropped."""

import pytest
from burr.core import ApplicationBuilder, State, action
from burr.core.parallelism import MapStates, RunnableGraph

from rewind_nb import Rewind, semantic_state
from rewind_nb.errors import ConfigError

REFUSED = r"'__mine' begins with two underscores.*Rename it, to 'mine'"


@action(reads=["n"], writes=["n"])
def count(state: State) -> State:
    return state.update(n=state["n"] + 1)


@action(reads=["n"], writes=["n"])
def sneak(state: State) -> State:
    return state.update(n=1, __mine=2)


@action(reads=["n"], writes=["n"])
def anew(state: State) -> State:
    return State({"n": 1, "__mine": 2})


def app_of(step, **state):
    builder = ApplicationBuilder().with_actions(step=step).with_entrypoint("step")
    return builder.with_state(**{"n": 0, **state}).build()


def test_an_application_whose_state_has_such_a_key_is_refused(store):
    with pytest.raises(ConfigError, match=REFUSED):
        Rewind(app_of(count, __mine=1), store=store)


def test_a_run_that_is_to_start_with_such_a_key_is_refused(store):
    with pytest.raises(ConfigError, match=REFUSED):
        Rewind(app_of(count), store=store).run(state={"__mine": 1})
    assert store.runs() == []


@pytest.mark.parametrize("step", [sneak, anew])
def test_a_step_that_writes_such_a_key_fails_and_says_so(store, step):
    rw = Rewind(app_of(step), store=store)
    with pytest.raises(ConfigError, match=REFUSED):
        rw.run()
    assert (rw.last_run.status, rw.last_run[0].status) == ("failed", "failed")
    assert rw.replay(rw.last_run).require()


def test_a_user_who_puts_such_a_key_in_between_two_steps_is_refused(store):
    app = Rewind(app_of(count), store=store).application()
    app.update_state(app.state.update(__mine=1))
    with pytest.raises(ConfigError, match=REFUSED):
        app.step()


class Tasks(MapStates):
    """One task, whose state has such a key."""

    def action(self, state, inputs):
        return RunnableGraph.create(count)

    def states(self, state, context, inputs):
        yield state.update(n=1, __mine=2)

    def reduce(self, state, states):
        return state.update(n=max(s["n"] for s in states))

    @property
    def reads(self):
        return ["n"]

    @property
    def writes(self):
        return ["n"]


def test_a_task_that_is_given_such_a_key_is_refused(store):
    with pytest.raises(ConfigError, match=REFUSED):
        Rewind(app_of(Tasks()), store=store).run()


def test_burrs_own_keys_are_left_out_wherever_they_come_from(store):
    @action(reads=["n"], writes=["n"])
    def nest(state: State) -> State:
        inner = app_of(count, n=state["n"])
        *_, ended = inner.run(halt_after=["step"])
        assert "__PRIOR_STEP" in ended.keys()
        return state.merge(ended)

    run = Rewind(app_of(nest), store=store).run()
    assert run.state == {"n": 1}
    assert semantic_state(State({"n": 1, "__SEQUENCE_ID": 3, "__mine": 2})) == {"n": 1, "__mine": 2}
