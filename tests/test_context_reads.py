"""What an action reads of Burr's context is an input of its step, where another run has it otherwise.

The oracle is plain Burr: the same application, run from its start.
"""

import copy
import dataclasses
import pickle

import pytest
from burr.core import Action, ApplicationBuilder, ApplicationContext, State, action, expr
from burr.core.action import SingleStepAction, streaming_action
from burr.core.parallelism import MapStates, RunnableGraph
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rewind_nb import Rewind, Store
from rewind_nb.errors import OverrideError


@action(reads=["want", "mark"], writes=["n", "marked"])
def start(state: State) -> State:
    return state.update(n=state["want"], marked=state["mark"])


@action(reads=["n"], writes=["n"])
def loop(state: State) -> State:
    return state.update(n=state["n"] - 1)


@action(reads=["word"], writes=["blind"])
def blind(state: State, __context: ApplicationContext) -> State:
    """Takes the context, and looks at none of what a run has to itself."""
    return state.update(blind=f"{__context.action_name} {state['word']}")


# -- the forms of an action --------------------------------------------------------------------


@action(reads=["word"], writes=["sid"])
def function(state: State, __context: ApplicationContext) -> State:
    return state.update(sid=__context.sequence_id)


@action(reads=["word"], writes=["sid"])
async def coroutine(state: State, __context: ApplicationContext) -> State:
    return state.update(sid=__context.sequence_id)


class TwoSteps(Action):
    reads, writes, inputs = ["word"], ["sid"], ["__context"]

    def run(self, state: State, __context: ApplicationContext) -> dict:
        return {"sid": __context.sequence_id}

    def update(self, result: dict, state: State) -> State:
        return state.update(**result)


class OneStep(SingleStepAction):
    reads, writes, inputs = ["word"], ["sid"], ["__context"]

    def run_and_update(self, state: State, **given) -> tuple[dict, State]:
        found = {"sid": given["__context"].sequence_id}  # Burr finds no mangled name here
        return found, state.update(**found)


@streaming_action(reads=["word"], writes=["sid"])
def stream(state: State, __context: ApplicationContext):
    yield {"sid": None}, None
    found = {"sid": __context.sequence_id}
    yield found, state.update(**found)


@action(reads=["item"], writes=["made"])
def one(state: State, __context: ApplicationContext) -> State:
    return state.update(made=f"{state['item']} {__context.sequence_id}")


class Each(MapStates):
    """Its states hold the sequence id of the step that makes them."""

    reads, writes = ["word"], ["sid"]

    def action(self, state: State, inputs: dict):
        return RunnableGraph.create(one)

    def states(self, state: State, context: ApplicationContext, inputs: dict):
        for letter in state["word"]:
            yield state.update(item=f"{letter}{context.sequence_id}")

    def reduce(self, state: State, states) -> State:
        return state.update(sid=[s["made"] for s in states])


FORMS = {
    "function": lambda: function,
    "coroutine": lambda: coroutine,
    "two steps": TwoSteps,
    "one step": OneStep,
    "stream": lambda: stream,
    "tasks": Each,
}


def build(form, want):
    return (
        ApplicationBuilder()
        .with_actions(start=start, loop=loop, look=FORMS[form](), blind=blind)
        .with_transitions(
            ("start", "loop"), ("loop", "loop", expr("n > 0")), ("loop", "look"), ("look", "blind")
        )
        .with_state(want=want, word="ab", mark=0)
        .with_entrypoint("start")
        .build()
    )


def plain(form, want):
    """What Burr itself comes to."""
    import asyncio

    app = build(form, want)
    if form == "coroutine":
        state = asyncio.run(app.arun(halt_after=["blind"]))[2]
    else:
        state = app.run(halt_after=["blind"])[2]
    return {key: state[key] for key in ("n", "sid", "blind")}


@pytest.mark.parametrize("form", FORMS)
@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(before=st.integers(1, 4), after=st.integers(1, 4))
def test_a_step_that_read_its_sequence_id_is_what_burr_gives_in_every_fork(form, before, after):
    with Store(":memory:") as store:
        rw = Rewind(build(form, before), store=store)
        run = rw.run()
        fork = rw.fork(run, "start", state={"want": after, "mark": 1})  # which never converges

        wanted = plain(form, after)
        assert {key: fork.state[key] for key in wanted} == wanted
        assert run["look"].inputs == {"__context": {"sequence_id": before + 1}}
        assert (fork["look"].source == "reused") == (before == after)
        assert fork["blind"].source == "reused"
        assert rw.replay(fork).require()


def test_a_context_that_was_not_looked_at_is_no_input(store):
    rw = Rewind(build("function", 2), store=store)
    run = rw.run()

    assert run["blind"].inputs == {}
    assert run["blind"].hidden_state == ()


def test_a_moved_sequence_id_is_said_as_the_reason_and_the_cause(store):
    rw = Rewind(build("function", 1), store=store)
    run = rw.run()
    fork = rw.fork(run, "start", state={"want": 3})

    assert "`__context` given otherwise" in fork["look"].reason
    why = fork.explain().because.to_list()[fork["look"].seq]
    assert "2" in why
    assert "4" in why
    (change,) = [c for c in rw.diff(run, fork).changes if c.path == "sid"]
    assert change.cause == "given other inputs: '__context'"


def test_what_burr_told_is_not_a_runtime_input(store):
    rw = Rewind(build("function", 1), store=store)
    run = rw.run()
    with pytest.raises(OverrideError):
        rw.fork(run, "look", inputs={"__context": {"sequence_id": 7}})

    assert rw.fork(run, "look", reuse="none").state["sid"] == 2


# -- every way to look -------------------------------------------------------------------------


LOOKS = {
    "attribute": lambda c: c.sequence_id,
    "getattr": lambda c: getattr(c, "sequence_id"),  # noqa: B009
    "vars": lambda c: vars(c)["sequence_id"],
    "fields": lambda c: [getattr(c, f.name) for f in dataclasses.fields(c)][2],
    "replace": lambda c: dataclasses.replace(c, app_id="mine").sequence_id,
    "repr": lambda c: "sequence_id=" in repr(c),
    "copy": lambda c: copy.copy(c).sequence_id,
    "pickle": lambda c: type(pickle.loads(pickle.dumps(c))) is ApplicationContext,
    "in a thread": lambda c: _elsewhere(lambda: c.sequence_id),
}


def _elsewhere(look):
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(look).result()


def looking(look):
    @action(reads=[], writes=["seen"])
    def go(state: State, __context: ApplicationContext) -> State:
        assert isinstance(__context, ApplicationContext)
        return state.update(seen=look(__context))

    return ApplicationBuilder().with_actions(go).with_entrypoint("go").build()


@pytest.mark.parametrize("way", LOOKS)
def test_whichever_way_it_is_looked_at_the_step_knows(store, way):
    run = Rewind(looking(LOOKS[way]), store=store).run()

    assert run["go"].inputs == {"__context": {"sequence_id": 0}}


@pytest.mark.parametrize("name", ["app_id", "partition_key"])
def test_an_id_that_was_looked_at_is_listed_as_hidden_state(store, name):
    rw = Rewind(looking(lambda c: getattr(c, name)), store=store)
    run = rw.run()

    assert run["go"].hidden_state == (f"__context.{name}",)
    assert run["go"].inputs == {}
    assert rw.fork(run, 0)["go"].hidden_state == (f"__context.{name}",)


def test_a_replay_hands_out_the_id_of_the_run_that_it_replays(store):
    rw = Rewind(looking(lambda c: c.app_id), store=store)
    run = rw.run()
    fork = rw.fork(run, 0, reuse="none")

    assert (run.state["seen"], fork.state["seen"]) == (run.id, fork.id)
    assert rw.replay(run).require()
    assert rw.replay(fork).require()
