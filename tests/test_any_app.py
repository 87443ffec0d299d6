"""What `burr.core` offers beside plain actions: typed state, injected parameters, hooks, trackers."""

import sys

import apps
import pydantic
import pytest
from burr.core import (
    Action,
    ApplicationBuilder,
    ApplicationContext,
    State,
    action,
    default,
    expr,
)
from burr.core.action import Input, Result
from burr.core.persistence import SQLLitePersister
from burr.integrations.pydantic import PydanticTypingSystem
from burr.lifecycle import PostRunStepHook, PreRunStepHook
from burr.visibility import TracerFactory

from rewind_nb import Rewind, tool
from rewind_nb.errors import ConfigError


@tool
def price_of(city: str) -> int:
    apps.ran("price_of")
    return len(city) * 100 + apps.CALLS["price_of"]


# -- typed state -----------------------------------------------------------------------------------


class Leg(pydantic.BaseModel):
    city: str
    price: int | None = None


class Trip(pydantic.BaseModel):
    legs: list[Leg]
    total: int = 0
    verdict: str | None = None


@action.pydantic(reads=["legs"], writes=["legs"])
def price(state: Trip) -> Trip:
    for leg in state.legs:
        leg.price = price_of(leg.city)  # a nested model, changed in place
    return state


@action.pydantic(reads=["legs"], writes=["total"])
async def add_up(state: Trip, discount: int = 0) -> Trip:
    state.total = sum(leg.price or 0 for leg in state.legs) - discount
    return state


@action.pydantic(reads=["total"], writes=["verdict"])
def judge(state: Trip, limit: int) -> Trip:
    state.verdict = "book" if state.total <= limit else "stay"
    return state


def typed_app():
    return (
        ApplicationBuilder()
        .with_actions(price, add_up, judge=judge.bind(limit=2000))
        .with_transitions(("price", "add_up"), ("add_up", "judge"))
        .with_typing(PydanticTypingSystem(Trip))
        .with_state(Trip(legs=[Leg(city="Bern"), Leg(city="Oslo"), Leg(city="Bern")]))
        .with_entrypoint("price")
        .build()
    )


def test_a_typed_application_forks_at_every_step(store):
    rw = Rewind(typed_app(), store=store)
    run = rw.run(inputs={"discount": 1})
    assert run.state["legs"][0] == Leg(city="Bern", price=401)
    assert (run.state["total"], run.state["verdict"]) == (1205, "book")
    assert run.state_at("price")["legs"][0].price is None  # history is not changed in place

    for step in run:
        fork = rw.fork(run, step)
        assert [s.hash for s in fork] == [s.hash for s in run]
        assert sum(s.live_calls for s in fork.history()) == 0
    dear = rw.fork(run, "price", tool_result=5000, call=1)
    assert dear.state["verdict"] == "stay"
    assert rw.replay(dear).ok
    assert rw.fork(run, "judge", state={"total": 2001}).state["verdict"] == "stay"


# -- inputs, results, injected parameters -------------------------------------------------------------


class Search(Action):
    """A class-based action that takes Burr's injected parameters, mangled as Python does."""

    @property
    def reads(self):
        return ["query"]

    @property
    def writes(self):
        return ["found"]

    @property
    def inputs(self):
        return ["__context", "__tracer"]

    def run(self, state: State, __context: ApplicationContext, __tracer: TracerFactory):
        with __tracer("asking") as span:
            span.log_attributes(action=__context.action_name)
            return {"found": price_of(state["query"])}

    def update(self, result: dict, state: State) -> State:
        return state.update(**result)


@action(reads=["found"], writes=["seen"])
def look(state: State, __context: ApplicationContext, __tracer: TracerFactory) -> State:
    with __tracer("looking"):
        return state.update(seen=[*state.get("seen", []), __context.action_name])


def injected_app(*, hooks=(), tracker=None, persister=None):
    builder = (
        ApplicationBuilder()
        .with_actions(ask=Input("query"), search=Search(), look=look, answer=Result("found"))
        .with_transitions(
            ("ask", "search"), ("search", "look"),
            ("look", "search", expr("len(seen) < 2")), ("look", "answer", default),
        )
        .with_state(seen=[])
        .with_entrypoint("ask")
        .with_hooks(*hooks)
    )  # fmt: skip
    if tracker:
        builder = builder.with_tracker(tracker)
    if persister:
        builder = builder.with_state_persister(persister).with_identifiers(app_id="mine")
    return builder.build()


def test_inputs_results_and_injected_parameters_are_recorded(store):
    rw = Rewind(injected_app(), store=store)
    run = rw.run(inputs={"query": "Bern"})

    assert run["ask"].inputs == {"query": "Bern"}
    assert run["search", 2].visit == 2
    assert run["answer"].result == {"found": run.state["found"]}
    assert run.state["seen"] == ["look", "look"]
    assert rw.replay(run).ok
    for step in run:
        assert rw.fork(run, step).state == run.state


# -- the application's own hooks, trackers and persisters ---------------------------------------------


class Spy(PreRunStepHook, PostRunStepHook):
    def __init__(self):
        self.told = []

    def pre_run_step(self, *, action, **_):
        self.told.append(f"pre {action.name}")

    def post_run_step(self, *, action, state, **_):
        self.told.append(f"post {action.name} {sorted(k for k in state if k[0] != '_')}")


def test_the_applications_hooks_fire_for_executed_steps_only(store):
    spy = Spy()
    rw = Rewind(injected_app(hooks=[spy]), store=store)
    run = rw.run(inputs={"query": "Bern"})
    assert len(spy.told) == 2 * len(run)
    assert spy.told[2:4] == ["pre search", "post search ['found', 'query', 'seen']"]

    spy.told.clear()
    rw.fork(run, "answer", reuse="none")
    assert [t.split()[1] for t in spy.told] == ["answer", "answer"]
    spy.told.clear()
    rw.fork(run, ("look", 2), output={"seen": ["a", "b"]}, reuse="none")
    assert [t.split()[1] for t in spy.told] == ["answer", "answer"]


def test_no_hook_of_the_application_fires_in_a_replay_unless_it_is_asked_for(store):
    spy = Spy()
    rw = Rewind(injected_app(hooks=[spy]), store=store)
    run = rw.run(inputs={"query": "Bern"})
    spy.told.clear()

    assert rw.replay(run).ok
    assert spy.told == []
    assert rw.replay(run, hooks="user").ok
    assert len(spy.told) == 2 * len(run)
    with pytest.raises(ConfigError, match="hooks='mine'"):
        rw.replay(run, hooks="mine")


def test_trackers_and_persisters_of_the_application_are_left_out(store, tmp_path):
    from burr.tracking import LocalTrackingClient

    persister = SQLLitePersister(
        str(tmp_path / "burr.db"), connect_kwargs={"check_same_thread": False}
    )
    persister.initialize()
    tracker = LocalTrackingClient("project", storage_dir=str(tmp_path / "burr"))
    rw = Rewind(injected_app(tracker=tracker, persister=persister), store=store)
    before = sorted(p.name for p in tmp_path.rglob("*"))
    run = rw.run(inputs={"query": "Bern"})
    rw.fork(run, "search")

    assert persister.load("", "mine") is None
    assert sorted(p.name for p in tmp_path.rglob("*")) == before
    persister.cleanup()


def test_two_burrs_in_one_environment_are_refused(store, tmp_path, monkeypatch):
    info = tmp_path / "burr-0.40.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: burr\nVersion: 0.40.2\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    with pytest.raises(ConfigError, match=r"burr 0\.40\.2 and apache-burr .*pip uninstall"):
        Rewind(apps.loop_app(), store=store)
