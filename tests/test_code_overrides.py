"""Code as the override: `action=`, `rebind` and `rerun_from`."""

import random
from collections import Counter

import pytest
from burr.core import Action, ApplicationBuilder, State, action, default, expr
from burr.core.parallelism import MapStates, RunnableGraph

from rewind_nb import Rewind, Store
from rewind_nb._run import read_overrides
from rewind_nb.errors import CodeChangedError, OverrideError, ReplayDivergedError

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


@action(reads=["n"], writes=["title"])
def compose_too(state: State) -> State:
    return state.update(title=f"{state['n']} too")


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


def away(rw):
    """The runs of a Rewind as another process has them: without the callables it was given."""
    return Rewind(build(), store=rw.store)


def test_code_that_is_not_at_hand_is_named_as_that_and_not_as_an_edit(rw):
    fork = rw.fork(rw.run(), "compose", action=louder)
    other = away(rw)

    with pytest.raises(CodeChangedError, match="given as action=, and this Rewind does not") as e:
        other.fork(fork, "compose")
    assert "changed" not in str(e.value).replace("code_change", "")
    assert e.value.actions == ("compose",)
    proof = other.replay(fork)
    assert proof.code_lost == ("compose",)
    said = "this Rewind does not have the action= given for 'compose'"
    assert said in repr(proof)
    assert "changed since" not in repr(proof)
    assert "action= that this Rewind does not have" in proof._repr_html_()
    with pytest.raises(ReplayDivergedError, match="does not have the action= given for 'compose'"):
        proof.require()
    assert rw.replay(fork).require().code_lost == ()


@pytest.mark.parametrize("way", ["fork", "rerun"])
def test_a_fork_that_goes_on_without_its_parents_code_says_so(rw, way):
    fork = rw.fork(rw.run(), "compose", action=louder)
    other = away(rw)
    again = (
        other.rerun_from(fork)
        if way == "rerun"
        else other.fork(fork, "compose", allow_code_change=True)
    )

    assert again.state["title"] == "3 counts"
    assert f"not have the action= that run {fork.id} executed" in again.note
    given = again["compose"].override
    kinds = [] if given is None else [o.kind for o in read_overrides(again.store, given)]
    assert "action" not in kinds
    assert "'compose' executed the application's own code" in again.note
    assert other.replay(again).require()


def test_code_that_is_given_again_is_at_hand(rw):
    fork = rw.fork(rw.run(), "compose", action=louder)
    other = away(rw)
    RAN.clear()

    assert "nothing to execute" in other.fork(fork, "compose", action=louder).note
    assert not RAN
    new = other.fork(fork, "compose", action=lambda state: state.update(title="new"))
    assert new.state["title"] == "new"
    assert len(new.overrides) == 1
    assert other.replay(new).require()


def test_code_that_the_application_has_by_now_is_not_missing(rw):
    fork = rw.fork(rw.run(), "compose", action=compose_too)
    other = Rewind(build(compose=compose_too), store=rw.store)

    again = other.fork(fork, "compose", reuse="none")
    assert [s.hash for s in again.steps] == [s.hash for s in fork.steps]
    assert again.note is None
    assert other.replay(fork).require()


def test_after_the_step_with_code_that_is_not_at_hand_a_fork_goes_on(rw):
    fork = rw.fork(rw.run(), "compose", action=louder)

    again = away(rw).fork(fork, "publish", inputs={"ending": "!"})
    assert again.state["page"].startswith("3 COUNTS!")


# -- inside tasks --------------------------------------------------------------------------


@action(reads=["city"], writes=["word"])
def greet(state: State, mood: str) -> State:
    RAN["greet"] += 1
    return state.update(word=f"{mood} {state['city']}")


@action(reads=["city"], writes=["word"])
async def agreet(state: State, mood: str) -> State:
    RAN["greet"] += 1
    return state.update(word=f"{mood} {state['city']}")


class Greetings(MapStates):
    reads, writes = ["cities"], ["words"]

    def action(self, state: State, inputs: dict):
        return RunnableGraph.create(greet.bind(mood="Hello"))

    def states(self, state: State, context, inputs: dict):
        for city in state["cities"]:
            yield state.update(city=city)

    def reduce(self, state: State, states) -> State:
        return state.update(words=[s["word"] for s in states])


class AsyncGreetings(Greetings):
    def is_async(self) -> bool:
        return True

    def action(self, state: State, inputs: dict):
        return RunnableGraph.create(agreet.bind(mood="Hello"))

    async def reduce(self, state: State, states) -> State:
        return state.update(words=[s["word"] async for s in states])


@action(reads=["cities"], writes=["words"])
def spawning(state: State) -> State:
    words = []
    for city in state["cities"]:
        inner = (
            ApplicationBuilder()
            .with_actions(greet=greet.bind(mood="Hello"))
            .with_state(city=city)
            .with_entrypoint("greet")
            .build()
        )
        words.append(inner.run(halt_after=["greet"])[2]["word"])
    return state.update(words=words)


@action(reads=["words"], writes=["shown"])
def show(state: State) -> State:
    return state.update(shown=", ".join(state["words"]))


GREETERS = {
    "tasks": (Greetings, "1"),
    "async tasks": (AsyncGreetings, "1"),
    "applications": (lambda: spawning, "app-1"),
}


def greeting_app(kind):
    return (
        ApplicationBuilder()
        .with_actions(all=GREETERS[kind][0](), show=show)
        .with_transitions(("all", "show"))
        .with_state(cities=["Bern", "Oslo"])
        .with_entrypoint("all")
        .build()
    )


@pytest.fixture(params=GREETERS)
def greeters(request, store):
    RAN.clear()
    rw = Rewind(greeting_app(request.param), store=store)
    run = rw.run()
    inside = run["all"].tasks[GREETERS[request.param][1]][0]

    def hei(state, mood):
        return state.update(word=f"{mood} and hei {state['city']}")

    async def ahei(state, mood):
        return state.update(word=f"{mood} and hei {state['city']}")

    given = ahei if request.param == "async tasks" else hei
    return rw, Rewind(greeting_app(request.param), store=store), run, inside, given


def test_a_callable_replaces_the_code_of_a_step_inside_a_task(greeters):
    rw, _, run, inside, hei = greeters
    RAN.clear()
    fork = rw.fork(run, inside, action=hei)

    assert fork.state["shown"] == "Hello Bern, Hello and hei Oslo"
    assert not RAN["greet"]
    assert [s.address for s in fork.walk() if s.reason == "override"] == [inside.address]
    assert rw.replay(fork).require()
    again = rw.fork(fork, "all", reuse="none")
    assert again.state["shown"] == fork.state["shown"]
    assert rw.replay(again).require()
    told = {change.path: change.cause for change in rw.diff(run, fork).changes}
    assert told["word"].startswith("override")


def test_what_cannot_take_a_place_inside_a_task_is_refused_before_anything_executes(greeters):
    rw, _, run, inside, hei = greeters
    wrong = action(reads=["city"], writes=["other"])(hei)
    RAN.clear()
    for given, said in (
        (wrong, "writes 'other'"),
        (agreet if hei.__name__ == "hei" else greet, "async"),
        (lambda state, subject: state, "async|'subject'"),
        ("greet", "no function"),
    ):
        with pytest.raises(OverrideError, match=said):
            rw.fork(run, inside, action=given)
    with pytest.raises(OverrideError, match="pass the Step as `at`"):
        rw.fork(run, action={"greet": hei})
    assert not RAN
    assert len(rw.store.runs()) == 1


def test_code_inside_a_task_that_is_not_at_hand_is_said(greeters):
    rw, other, run, inside, hei = greeters
    fork = rw.fork(run, inside, action=hei)

    for at in ("all", fork["all"].tasks[inside.path.split("[")[1][:-2]][0]):
        with pytest.raises(CodeChangedError, match="greet' what was given as action="):
            other.fork(fork, at)
    assert other.replay(fork).code_lost == (inside.action,)
    gone = other.fork(fork, "all", reuse="none", allow_code_change=True)
    assert gone.state["words"] == run.state["words"]
    assert f"'{inside.action}' executed the application's own code" in gone.note
    assert other.fork(fork, "show", reuse="none").state["shown"] == fork.state["shown"]


# -- the same code ---------------------------------------------------------------------------


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
