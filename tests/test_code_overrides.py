"""Code as the override: `action=`, `rebind` and `rerun_from`."""

import random
from collections import Counter

import pytest
from burr.core import Action, ApplicationBuilder, State, action, default, expr

from rewind_nb import Rewind, Store
from rewind_nb.errors import CodeChangedError, OverrideError

RAN = Counter()


@action(reads=["n"], writes=["n", "log"])
def count(state: State) -> State:
    RAN["count"] += 1
    return state.update(n=state["n"] + 1).append(log=f"n={state['n'] + 1}")


@action(reads=[], writes=["luck"])
def draw(state: State) -> State:
    RAN["draw"] += 1
    return state.update(luck=random.random())


@action(reads=["n"], writes=["title"])
def compose(state: State) -> State:
    RAN["compose"] += 1
    return state.update(title=f"{state['n']} counts")


@action(reads=["title", "luck"], writes=["page"])
def publish(state: State, ending: str = ".") -> State:
    RAN["publish"] += 1
    return state.update(page=f"{state['title']}{ending} {state['luck']}")


def build(limit=3, extra=(), **edited):
    actions = {"count": count, "draw": draw, "compose": compose, "publish": publish, **edited}
    return (
        ApplicationBuilder()
        .with_actions(**actions)
        .with_transitions(
            ("count", "count", expr(f"n < {limit}")),
            ("count", "draw", default),
            *(extra or [("draw", "compose"), ("compose", "publish")]),
        )
        .with_state(n=0, log=[])
        .with_entrypoint("count")
        .build()
    )


def louder(state):
    RAN["louder"] += 1
    return state.update(title=f"{state['n']} COUNTS")


def leap(state):
    RAN["leap"] += 1
    return state.update(n=state["n"] + 2).append(log="leap")


@pytest.fixture
def rw(store):
    RAN.clear()
    return Rewind(build(), store=store)


def executed(run):
    return [s.action for s in run.steps if s.source not in ("inherited", "reused", "override")]


def test_a_callable_replaces_the_code_of_one_step(rw):
    run = rw.run()
    RAN.clear()
    fork = rw.fork(run, "compose", action=louder)

    assert fork.state["title"] == "3 COUNTS"
    assert fork.state["luck"] == run.state["luck"]
    assert executed(fork) == ["compose", "publish"]
    assert RAN == {"louder": 1, "publish": 1}
    assert fork.overrides[0].value["compose"]["name"] == "louder"
    assert "COUNTS" in fork.overrides[0].value["compose"]["source"]
    assert fork["compose"].reason == "override"
    assert fork["publish"].reason == "read `title`, which changed"


def test_a_dict_of_callables_replaces_every_visit_from_the_first(rw):
    run = rw.run()
    RAN.clear()
    fork = rw.fork(run, action={"count": leap})

    assert [s.action for s in fork.steps][:3] == ["count", "count", "draw"]
    assert fork.state["log"] == ["leap", "leap"]
    assert RAN == {"leap": 2, "compose": 1, "publish": 1}
    assert fork.state["luck"] == run.state["luck"]


def test_one_visit_alone_may_be_replaced(rw):
    run = rw.run()
    fork = rw.fork(run, ("count", 2), action=leap)
    assert fork.state["log"] == ["n=1", "leap"]
    late = rw.fork(run, ("count", 3), action=leap)
    assert late.state["log"] == ["n=1", "n=2", "leap"]


def test_the_forks_and_replays_of_such_a_fork_execute_its_code(rw):
    run = rw.run()
    for fork in (rw.fork(run, "compose", action=louder), rw.fork(run, action={"compose": louder})):
        assert rw.replay(fork).require()
        again = rw.fork(fork, 0, reuse="none")
        assert [s.hash for s in again.steps] == [s.hash for s in fork.steps]
        assert executed(rw.fork(fork, 0)) == []
        other = rw.fork(fork, 0, state={"n": 1})
        assert other.state["title"] == "3 COUNTS"
        assert len(other) == len(fork) - 1
        assert rw.replay(other).require()


def test_another_rewind_refuses_to_fork_it_without_the_callable(tmp_path):
    RAN.clear()
    with Store(tmp_path / "runs.db") as store:
        rw = Rewind(build(), store=store)
        fork = rw.fork(rw.run(), "compose", action=louder, halt_after=["compose"])
        other = Rewind(build(), store=store)
        with pytest.raises(CodeChangedError, match="compose"):
            other.fork(fork, 0)
        with pytest.raises(CodeChangedError, match="action="):
            other.resume(fork)
        assert other.replay(fork).code_changed == ("compose",)
        assert rw.resume(fork).state["page"].startswith("3 COUNTS")


def test_a_callable_that_does_the_same_executes_nothing(rw):
    run = rw.run()
    RAN.clear()
    fork = rw.fork(run, "compose", action=compose)
    assert not RAN
    assert "nothing to execute" in fork.note


class Wordy(Action):
    reads = ["n"]
    writes = ["title"]

    def run(self, state: State) -> dict:
        RAN["wordy"] += 1
        return {"title": f"counted to {state['n']}"}

    def update(self, result: dict, state: State) -> State:
        return state.update(**result)


def test_a_class_may_take_the_place_of_a_function(rw):
    fork = rw.fork(rw.run(), "compose", action=Wordy())
    assert fork.state["title"] == "counted to 3"
    assert fork["compose"].result == {"title": "counted to 3"}


def test_what_cannot_take_the_place_is_refused_before_anything_executes(rw):
    @action(reads=["n"], writes=["other"])
    def elsewhere(state: State) -> State:
        return state.update(other=1)

    async def later(state):
        return state.update(title="x")

    def needy(state, subject):
        return state.update(title=subject)

    run = rw.run()
    RAN.clear()
    for given, said in (
        (elsewhere, "writes 'other'"),
        (later, "is async"),
        (needy, "'subject'"),
        ("compose", "no function"),
        (Wordy, "no function"),
    ):
        with pytest.raises(OverrideError, match=said):
            rw.fork(run, "compose", action=given)
    with pytest.raises(OverrideError, match="pass `at`"):
        rw.fork(run, action=louder)
    with pytest.raises(OverrideError, match="Leave `at` out"):
        rw.fork(run, 0, action={"compose": louder})
    with pytest.raises(OverrideError, match="Did you mean 'compose'"):
        rw.fork(run, action={"compoze": louder})
    with pytest.raises(OverrideError, match="needs to know where"):
        rw.fork(run)
    assert not RAN
    assert len(rw.store.runs()) == 1


# -- the application edited ----------------------------------------------------------------


def test_without_an_edit_nothing_is_executed(rw):
    run = rw.run()
    RAN.clear()
    again = rw.rebind(build()).rerun_from(run)
    assert not RAN
    assert again.state == run.state
    assert "no code changed" in again.note


def test_an_edited_action_and_what_depends_on_it_are_executed_and_nothing_else(rw):
    run = rw.run()
    RAN.clear()

    @action(reads=["n"], writes=["title"])
    def compose(state: State) -> State:
        RAN["edited"] += 1
        return state.update(title=f"{state['n']} edits")

    with pytest.raises(CodeChangedError, match="compose"):
        rw.rebind(build(compose=compose)).fork(run, 0)
    again = rw.rerun_from(run)

    assert RAN == {"edited": 1, "publish": 1}
    assert again.state["title"] == "3 edits"
    assert again.state["luck"] == run.state["luck"]
    assert again.overrides[0].value["actions"] == ["compose"]
    assert again["compose"].reason == "code of 'compose' changed"
    assert rw.replay(again).require()


def test_an_edit_that_comes_to_the_same_executes_no_dependant(rw):
    run = rw.run()
    RAN.clear()

    @action(reads=["n"], writes=["title"])
    def compose(state: State) -> State:
        RAN["edited"] += 1
        return state.update(title="{} counts".format(state["n"]))

    again = rw.rebind(build(compose=compose)).rerun_from(run)
    assert RAN == {"edited": 1}
    assert again.state == run.state


def test_an_edited_loop_condition_sends_the_run_another_way(rw):
    run = rw.run()
    RAN.clear()
    again = rw.rebind(build(limit=4)).rerun_from(run)

    assert again.state["n"] == 4
    assert RAN == {"count": 1, "compose": 1, "publish": 1}
    assert "transition count -> count if n < 3 removed" in again.note
    assert "transition count -> count if n < 4 added" in again.note


def test_a_graph_of_another_shape_is_noticed_and_said(rw):
    run = rw.run()
    RAN.clear()

    @action(reads=["title"], writes=["title"])
    def shorten(state: State) -> State:
        RAN["shorten"] += 1
        return state.update(title=state["title"][:3])

    ways = [("draw", "compose"), ("compose", "shorten"), ("shorten", "publish")]
    again = rw.rebind(build(extra=ways, shorten=shorten)).rerun_from(run)

    assert RAN == {"shorten": 1, "publish": 1}
    assert again.state["title"] == "3 c"
    assert "action 'shorten' added" in again.note
    assert [s.source for s in again.steps][-3:] == ["reused", "live", "live"]
