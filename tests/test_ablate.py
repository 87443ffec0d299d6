"""Ablate: each fact replaced alone; what the verdict needs, and what it was seen not to need."""

import asyncio
import dataclasses
import enum
import json
from decimal import Decimal

import apps
import httpx
import pytest
import wire_cases as cases
from burr.core import ApplicationBuilder, State, action
from fake_provider import FakeProvider, completion
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from task_apps import map_app
from wire_cases import FORMATS

from rewind_nb import Ablate, Budget, ChatModel, Rewind, Store, tool
from rewind_nb._path import MISSING
from rewind_nb._probe_frames import FACT_COLUMNS
from rewind_nb.capture.wire import Reading
from rewind_nb.demo import booking
from rewind_nb.errors import (
    CodeChangedError,
    ConfigError,
    ExperimentError,
    NotEncodableError,
)
from rewind_nb.experiments._ablate import concluded
from rewind_nb.experiments._perturb import leaves, perturbed, removed
from rewind_nb.experiments._probes import Probe
from rewind_nb.experiments._said import said

CONFIRMED = "output contains 'confirmed'"
DRY = {"book_flight": lambda city, fare: "dry run"}
FARE, DECISION = "search:1 tool 0 find_fare.fare", "decide:1 model 0.decision"


def agent(store):
    """The booking agent, and the model that decides for it."""
    model = booking.BookingModel()
    return Rewind(booking.build(model=booking.booking_model(model)), store=store), model


# -- an agent that a pure function describes -----------------------------------------------------


@tool
def weight(name: str) -> dict:
    """How much a field counts for."""
    return {"name": name, "factor": {"a": 3, "b": -2}.get(name, 0)}


@action(reads=["a"], writes=["left"])
def take(state: State, extra: int) -> State:
    return state.update(left=state["a"] * weight("a")["factor"] + extra)


@action(reads=["left", "b"], writes=["total"])
def add(state: State) -> State:
    return state.update(total=state["left"] + state["b"] * weight("b")["factor"])


def totals(a=2, b=1):
    return (
        ApplicationBuilder()
        .with_actions(take, add)
        .with_transitions(("take", "add"))
        .with_state(a=a, b=b, unread={"x": 1})
        .with_entrypoint("take")
        .build()
    )


def total(facts):
    """What the agent comes to, by a function that shares no code with it."""
    factor = facts["take:1 tool 0 weight.factor"], facts["add:1 tool 0 weight.factor"]
    return facts["state.a"] * factor[0] + facts["inputs.extra"] + facts["state.b"] * factor[1]


# -- what it finds ---------------------------------------------------------------------------


def test_ablate_finds_exactly_the_two_facts_that_matter(store):
    rw, _ = agent(store)

    found = rw.ablate(rw.run(), CONFIRMED, effects=DRY)

    assert found.load_bearing == (FARE, DECISION)
    assert found.not_load_bearing == (
        "search:1 tool 0 find_fare.city",
        "search:1 tool 1 find_weather.city",
        "search:1 tool 1 find_weather.high_c",
        "search:1 tool 2 find_lounge.city",
        "search:1 tool 2 find_lounge.open",
        "decide:1 model 0.reason",
        "book:1 tool 0 book_flight",
    )
    assert found.unclear == ("state.city",)  # there is no flight to another text
    assert f"2 possibly load-bearing ({FARE}, {DECISION})" in found.answer()
    assert "7 not load-bearing with the values tried, one fact at a time" in found.answer()


def test_a_city_that_there_are_flights_to_is_judged(store):
    rw, _ = agent(store)
    run = rw.run()

    oslo = rw.ablate(run, CONFIRMED, facts="state.city", how=lambda _: ["Oslo"], effects=DRY)
    dear = rw.ablate(run, CONFIRMED, facts="state", how=lambda _: ["Oslo", "Tokyo"], effects=DRY)

    assert oslo.not_load_bearing == dear.load_bearing == ("state.city",)
    assert dear.facts[0].verdicts == ("pass", "fail")


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(-9, 9), st.integers(-60, 60))
def test_each_conclusion_is_what_a_pure_function_of_the_facts_says(a, b, extra, least):
    with Store(":memory:") as store:
        rw = Rewind(totals(a, b), store=store)
        run = rw.run(inputs={"extra": extra})
        if run.state["total"] < least:
            return
        found = rw.ablate(run, f"total >= {least}")

        recorded = {
            "state.a": a,
            "state.b": b,
            "inputs.extra": extra,
            "take:1 tool 0 weight.factor": 3,
            "add:1 tool 0 weight.factor": -2,
        }
        assert total(recorded) == run.state["total"]
        by_address = {fact.address: fact for fact in found.facts}
        for address, value in recorded.items():
            others = perturbed(next(leaves(value)))
            said = tuple(
                "pass" if total({**recorded, address: other}) >= least else "fail"
                for other in others
            )
            assert by_address[address].tried == tuple(map(repr, others))
            assert by_address[address].verdicts == said
            assert (address in found.load_bearing) == ("fail" in said)
            assert (address in found.not_load_bearing) == ("fail" not in said)


def test_every_fork_changes_its_fact_and_executes_only_what_depends_on_it(store):
    rw = Rewind(totals(), store=store)
    run = rw.run(inputs={"extra": 5})

    found = rw.ablate(run, "total > 0")

    assert found.asked["mode"] == {"reuse": "unchanged", "cache": "auto"}
    by_key = {probe._row.cell: probe for probe in found.runs}
    for n, fact in enumerate(found.facts):
        for m in range(len(fact.tried)):
            fork = by_key[f"{n}.{m}/0"]
            assert len(fork.overrides) == 1
            if fact.address == "state.b":
                assert (fork.origin.at, fork.steps[0].source) == (1, "inherited")
            if fact.address.endswith("weight.name"):  # nobody looks at it: all else is as it was
                assert fork.state_hash == run.state_hash
    assert [one.id for one in store.runs()] == [run.id]  # left out of what is listed
    assert store.verify().ok


# -- which facts there are -------------------------------------------------------------------


def test_facts_are_what_was_given_and_nothing_that_a_step_derived(store):
    rw = Rewind(totals(), store=store)

    found = rw.ablate(rw.run(inputs={"extra": 5}), "total > 0", start=False)

    assert [fact.address for fact in found.facts] == [
        "state.a",
        "state.b",
        "state.unread.x",
        "inputs.extra",
        "take:1 tool 0 weight.name",
        "take:1 tool 0 weight.factor",
        "add:1 tool 0 weight.name",
        "add:1 tool 0 weight.factor",
    ]


def test_a_field_that_no_step_read_is_not_tried_and_not_called_needless(store):
    rw = Rewind(totals(), store=store)

    found = rw.ablate(rw.run(inputs={"extra": 5}), "unread.x == 1")
    (fact,) = [fact for fact in found.facts if fact.address == "state.unread.x"]

    assert (fact.conclusion, fact.reason, fact.tried) == ("not tried", "no step read it", ())
    assert "state.unread.x" not in (*found.load_bearing, *found.not_load_bearing)
    assert "1 not tried" in found.answer()


@action(reads=[], writes=["mood"])
def settle(state: State) -> State:
    return state.update(mood="calm")


@action(reads=["mood"], writes=["said"])
def speak(state: State, guest: str) -> State:
    return state.update(said=f"{state['mood']}, {guest}")


@action(reads=["said"], writes=["end"])
def leave(state: State, guest: str) -> State:
    return state.update(end=f"{guest} heard: {state['said']}")


def talk():
    return (
        ApplicationBuilder()
        .with_actions(settle, speak, leave)
        .with_transitions(("settle", "speak"), ("speak", "leave"))
        .with_state(mood="restless")
        .with_entrypoint("settle")
        .build()
    )


def test_a_field_that_was_written_before_it_was_read_is_no_fact_of_the_start(store):
    rw = Rewind(talk(), store=store)

    found = rw.ablate(rw.run(inputs={"guest": "Ida"}), "end contains 'calm'")

    assert next(f for f in found.facts if f.address == "state.mood").conclusion == "not tried"


def test_an_input_that_several_steps_take_is_a_fact_of_each(store):
    rw = Rewind(talk(), store=store)

    found = rw.ablate(
        rw.run(inputs={"guest": "Ida"}), "end == 'Ida heard: calm, Ida'", facts=["inputs.guest"]
    )

    assert found.load_bearing == ("inputs.guest of speak:1", "inputs.guest of leave:1")


def test_calls_inside_tasks_are_facts_at_their_own_address(store):
    rw = Rewind(map_app(rounds=1), store=store)
    run = rw.run(halt_after=["report"])

    found = rw.ablate(run, f"report == '{run.state['report']}'", facts=["each:1[0]/search:1"])

    assert [fact.address for fact in found.facts] == [
        "each:1[0]/search:1 tool 0 look_up.word",
        "each:1[0]/search:1 tool 0 look_up.n",
    ]
    assert found.load_bearing == ("each:1[0]/search:1 tool 0 look_up.word",)  # its length counts
    assert found.not_load_bearing == ("each:1[0]/search:1 tool 0 look_up.n",)


def asking(*arguments, text=None):
    """An answer of a model that asks for a tool."""
    calls = [
        {
            "id": f"call_{n}",
            "type": "function",
            "function": {"name": "weigh", "arguments": json.dumps(given)},
        }
        for n, given in enumerate(arguments)
    ]
    message = {"role": "assistant", "content": text, "tool_calls": calls}
    return completion(choices=[{"index": 0, "message": message, "finish_reason": "tool_calls"}])


@action(reads=[], writes=["total"])
def order(state: State, url: str) -> State:
    asked = {"model": "toy", "messages": [{"role": "user", "content": "weigh"}]}
    said = httpx.post(f"{url}/chat/completions", json=asked).json()["choices"][0]["message"]
    calls = [json.loads(call["function"]["arguments"]) for call in said.get("tool_calls", [])]
    return state.update(total=sum(call["grams"] for call in calls))


def test_the_arguments_of_the_tools_a_model_asked_for_are_facts(store):
    app = ApplicationBuilder().with_actions(order).with_entrypoint("order").build()
    with FakeProvider(asking({"grams": 7, "what": "fig"}, {"grams": 5, "what": "fig"})) as provider:
        rw = Rewind(app, store=store)
        run = rw.run(inputs={"url": provider.base_url})

        found = rw.ablate(run, "total > 6", facts=["order:1"])

    assert {fact.address: fact.verdicts for fact in found.facts} == {
        "order:1 model 0 weigh[0].grams": ("fail", "fail", "pass"),  # 0, -7, 70 and 5
        "order:1 model 0 weigh[0].what": ("pass",),
        "order:1 model 0 weigh[1].grams": ("pass", "fail", "pass"),  # 0, -5, 50 and 7
        "order:1 model 0 weigh[1].what": ("pass",),
    }


@pytest.mark.parametrize("name", FORMATS)
def test_an_argument_changes_in_an_answer_of_every_format_and_nothing_else_does(name):
    body, reading = cases.answer(name), cases.ANSWERS[name]

    found = said(body, reading)

    names = [tool.partition("[")[0] for tool, _ in found]
    assert list(zip(names, (leaf.path for _, leaf in found), strict=True)) == [
        (call.name, path) for call in reading.tool_calls for path in call.arguments
    ]
    assert len({tool for tool, _ in found}) == len(found)
    for n, (_, leaf) in enumerate(found):
        calls = list(reading.tool_calls)
        changed = {**calls[n].arguments, leaf.path: "plum"}
        calls[n] = dataclasses.replace(calls[n], arguments=changed)
        read = cases.wire(name).read(leaf.put("plum"))
        assert read == dataclasses.replace(reading, tool_calls=tuple(calls))
    assert cases.answer(name) == body


def test_of_two_equal_calls_each_changes_alone():
    body = json.loads(asking({"grams": 7}, {"grams": 7}).body)

    read = [
        [call.arguments for call in cases.wire("openai-chat").read(leaf.put(8)).tool_calls]
        for _, leaf in said(body, cases.wire("openai-chat").read(body))
    ]

    assert read == [[{"grams": 8}, {"grams": 7}], [{"grams": 7}, {"grams": 8}]]


@action(reads=[], writes=["heard"])
def hear(state: State, url: str) -> State:
    asked = {"model": "toy", "messages": [{"role": "user", "content": "hi"}]}
    return state.update(heard=httpx.post(f"{url}/chat/completions", json=asked).status_code)


def test_an_answer_that_cannot_be_read_is_not_tried(store):
    app = ApplicationBuilder().with_actions(hear).with_entrypoint("hear").build()
    with FakeProvider(completion(choices=[])) as provider:
        rw = Rewind(app, store=store)
        run = rw.run(inputs={"url": provider.base_url})
        found = rw.ablate(run, "heard == 200", facts=["hear"], how=lambda _: ["x"])

    (fact,) = found.facts
    assert (fact.address, fact.conclusion) == ("hear:1 model 0", "not tried")
    assert fact.reason == "the answer cannot be read"


def test_an_answer_without_arguments_is_its_text():
    text = '{"decision": "book", "why": ["cheap"]}'

    found = said({}, Reading(text=text))

    assert [(tool, leaf.path, leaf.value) for tool, leaf in found] == [
        ("", "decision", "book"),
        ("", "why", ["cheap"]),
    ]
    assert found[0][1].put("wait") == text.replace("book", "wait")


# -- other values ------------------------------------------------------------------------------


class Tier(enum.Enum):
    LOW, MID, HIGH = 1, 2, 3


@dataclasses.dataclass
class Ticket:
    price: float
    seats: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        if self.price < 0:
            raise ValueError("a price is not negative")


class Guest(BaseModel):
    name: str
    regular: bool = False


VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def flat(value, path=()):
    """The leaves of plain data, by another way: dicts and texts of JSON are looked into."""
    if isinstance(value, dict) and value:
        return {p: leaf for k, v in value.items() for p, leaf in flat(v, (*path, k)).items()}
    return {path: value}


@given(VALUES)
def test_a_leaf_put_back_changes_that_leaf_alone(value):
    found, before = list(leaves(value)), flat(value)
    if any(isinstance(leaf, str) and leaf.lstrip()[:1] in ("{", "[") for leaf in before.values()):
        return
    assert [leaf.value for leaf in found] == list(before.values())
    assert len({leaf.path for leaf in found}) == len(found)
    for leaf, path in zip(found, before, strict=True):
        assert leaf.put(leaf.value) == value
        for other in perturbed(leaf):
            assert flat(leaf.put(other)) == {**before, path: other}
            assert type(other) is type(leaf.value)
            assert repr(other) != repr(leaf.value)
        if leaf.may_go:
            gone = leaf.put(MISSING)
            for key in path[:-1]:
                value, gone = value[key], gone[key]
            assert gone.keys() == value.keys() - {path[-1]}
            value = leaf.put(leaf.value)


@given(st.dictionaries(st.text(), VALUES, min_size=1), st.sampled_from([None, 2, 4]))
def test_a_text_of_json_is_looked_into_and_written_as_it_was(value, indent):
    text = json.dumps(value, indent=indent, ensure_ascii=False)

    found = list(leaves(text))

    assert all(leaf.put(leaf.value) == text for leaf in found)
    assert all(isinstance(leaf.put("plum"), str) for leaf in found)


def others_of(value, ways=perturbed):
    return {leaf.path: [leaf.put(other) for other in ways(leaf)] for leaf in leaves(value)}


def test_what_takes_the_place_of_a_value_is_of_its_type_and_another_one():
    assert others_of(450.0) == {"": [0.0, -450.0, 4500.0, 45.0]}
    assert others_of(24) == {"": [0, -24, 240, 2]}
    assert others_of(0) == {"": [1, -1]}
    assert others_of(Decimal("1.5")) == {
        "": [Decimal(0), Decimal("-1.5"), Decimal(15), Decimal("0.15")]
    }
    assert others_of(True) == {"": [False]}
    assert others_of("Oslo") == {"": ["something else"]}
    assert others_of("something else") == {"": ["something else again"]}
    assert others_of([1, 2]) == {"": [[]]}
    assert others_of((1, 2)) == {"": [()]}
    assert others_of(Tier.MID) == {"": [Tier.LOW, Tier.HIGH]}
    assert others_of([]) == others_of(None) == {"": []}
    assert others_of({"a": {"b": 1}, "c.d": "x"}) == {
        "a.b": [{"a": {"b": n}, "c.d": "x"} for n in (0, -1, 10)],
        '["c.d"]': [{"a": {"b": 1}, "c.d": "something else"}],
    }
    assert others_of(Guest(name="Ida")) == {
        "name": [Guest(name="something else")],
        "regular": [Guest(name="Ida", regular=True)],
    }


def test_what_is_removed_is_missing_where_it_can_be_and_else_none_or_empty():
    assert others_of("Oslo", removed) == {"": [None, ""]}
    assert others_of(3, removed) == {"": [None]}
    assert others_of(None, removed) == {"": []}
    assert others_of([1], removed) == {"": [None, []]}
    assert others_of({"a": 1, "b": {"c": 2}}, removed) == {
        "a": [{"b": {"c": 2}}],
        "b.c": [{"a": 1, "b": {}}],
    }
    assert others_of('{"a": 1, "b": 2}', removed) == {"a": ['{"b": 2}'], "b": ['{"a": 1}']}
    nobody = [Guest.model_construct(name=None, regular=False), Guest(name="")]
    assert others_of(Guest(name="Ida"), removed)["name"] == nobody
    assert others_of({"guest": Guest(name="Ida")}, removed)["guest.name"] == [
        {"guest": guest} for guest in nobody
    ]


@action(reads=["ticket"], writes=["fits"])
def fit(state: State) -> State:
    return state.update(fits=state["ticket"].price < 100)


def test_a_value_that_its_class_refuses_is_not_tried(store):
    app = (
        ApplicationBuilder()
        .with_actions(fit)
        .with_state(ticket=Ticket(50.0, [1]))
        .with_entrypoint("fit")
        .build()
    )
    rw = Rewind(app, store=store, types=[Ticket])

    found = rw.ablate(rw.run(), "fits == true")

    assert {fact.address: fact.tried for fact in found.facts} == {
        "state.ticket.price": ("0.0", "500.0", "5.0"),
        "state.ticket.seats": ("[]",),
    }
    assert found.load_bearing == ("state.ticket.price",)


# -- what follows ------------------------------------------------------------------------------


VERDICTS = st.sampled_from(["pass", "fail", "error", None, "not made"])


@given(st.lists(st.lists(VERDICTS, min_size=2, max_size=2), max_size=4))
def test_not_load_bearing_takes_a_pass_of_every_fork_and_possibly_one_failure(verdicts):
    probes = [
        [None if v == "not made" else Probe("k", None, v, "why") for v in samples]
        for samples in verdicts
    ]
    flat_verdicts = [v for samples in verdicts for v in samples]

    conclusion, _ = concluded([f"value {n}" for n in range(len(verdicts))], probes)

    assert (conclusion == "possibly load-bearing") == ("fail" in flat_verdicts)
    assert (conclusion == "not load-bearing") == (set(flat_verdicts) == {"pass"})
    assert (conclusion == "not tried") == (not flat_verdicts)
    if conclusion == "unclear":
        assert {"error", None} & set(flat_verdicts)


def test_a_fork_that_raises_is_kept_apart_from_one_that_fails(store):
    rw, _ = agent(store)

    found = rw.ablate(rw.run(), CONFIRMED, how="remove", effects=DRY)
    by_address = {fact.address: fact for fact in found.facts}

    assert (by_address[FARE].verdicts, by_address[FARE].conclusion) == (("failed",), "unclear")
    assert by_address[FARE].reason == "nothing instead: KeyError: 'fare'"
    assert found.load_bearing == ("book:1 tool 0 book_flight",)  # None is no booking
    assert by_address["decide:1 model 0.reason"].conclusion == "not load-bearing"


def test_an_effect_that_a_fork_may_not_have_leaves_the_fact_unclear(store):
    rw, _ = agent(store)

    found = rw.ablate(rw.run(), CONFIRMED, facts=[FARE])
    cheap = rw.ablate(rw.run(), CONFIRMED, facts=[FARE], how=lambda fact: [fact.value / 2])

    assert found.load_bearing == (FARE,)  # one of them is refused a booking at all
    assert cheap.unclear == (FARE,)
    assert "EffectRefusedError" in cheap.facts[0].reason


def test_a_verdict_that_is_an_error_leaves_the_fact_unclear(store):
    rw = Rewind(totals(), store=store)
    run = rw.run(inputs={"extra": 5})

    found = rw.ablate(run, lambda run: run.kind == "record" or 1 / 0, facts=["inputs"])

    assert found.unclear == ("inputs.extra",)
    assert set(found.facts[0].verdicts) == {"error"}


def test_all_samples_of_a_value_must_pass(store):
    said = [json.dumps({"decision": word}) for word in ("book", "book", "wait")]
    with FakeProvider(*map(completion, said)) as provider:
        model = ChatModel(provider.base_url, "toy", max_retries=0)
        rw = Rewind(booking.build(model=model), store=store)
        found = rw.ablate(
            rw.run(), CONFIRMED, facts=["search:1 tool 1 find_weather.high_c"], samples=2,
            how=lambda _: [30], effects=DRY, max_workers=1,
        )  # fmt: skip
        (fact,) = found.facts

        assert sorted(probe.verdict for probe in fact.made) == ["fail", "pass"]
        assert (fact.verdicts, fact.conclusion) == (("fail",), "possibly load-bearing")
        assert fact.tokens == 2 * 16
        assert provider.count == 3


# -- what it costs ---------------------------------------------------------------------------


def test_the_plan_counts_a_fork_per_value_and_sample(store):
    rw, model = agent(store)
    found = rw.ablate(rw.run(), CONFIRMED, effects=DRY, samples=2, start=False)
    plan = rw.plan(found)
    assert (found.runs, found.answer(), model.calls) == ((), "", 1)

    ended = rw.resume(found)

    assert plan.forks == len(ended.runs) == 2 * 16
    assert ended.df.tokens.sum() == ended.usage.total_tokens


def test_tokens_that_a_provider_does_not_tell_are_unknown_for_the_fact(store):
    told = [completion(json.dumps({"decision": "book"}), usage=None) for _ in range(2)]
    with FakeProvider(*told) as provider:
        model = ChatModel(provider.base_url, "toy", max_retries=0)
        rw = Rewind(booking.build(model=model), store=store)
        found = rw.ablate(
            rw.run(), CONFIRMED, facts=["search:1 tool 1 find_weather"], effects=DRY,
            how=lambda fact: [30] if fact.value == 24 else ["Oslo"],
        )  # fmt: skip

    assert [fact.tokens for fact in found.facts] == [0, None]
    assert list(found.df.tokens.isna()) == [False, True]


def test_a_budget_stops_it_and_no_fork_is_made_twice(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        rw, model = agent(store)
        run = rw.run()
        begun = rw.ablate(run, CONFIRMED, effects=DRY, budget=Budget(calls=3), max_workers=1)
        assert begun.status == "interrupted"
        assert model.calls == 1 + 3
        assert "not finished" in begun.answer()
        assert not set(begun.not_load_bearing) & set(begun.load_bearing)
        before = {probe.id for probe in begun.runs}

        ended = rw.resume(begun, budget=Budget(calls=99))

        assert ended.load_bearing == (FARE, DECISION)
        assert before <= {probe.id for probe in ended.runs}
        assert (len(ended.runs), len({r._row.cell for r in ended.runs})) == (16, 16)
        whole, counted = agent(Store(":memory:"))
        whole.ablate(whole.run(), CONFIRMED, effects=DRY, max_workers=1)
        assert model.calls == counted.calls


def test_one_goes_on_in_another_process_and_one_asked_with_a_function_does_not(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        rw = Rewind(totals(), store=store)
        run = rw.run(inputs={"extra": 5})
        begun = rw.ablate(run, "total > 0", facts=["state"], start=False)
        function = rw.ablate(run, "total > 0", how=lambda _: [1], start=False)

    with Store(tmp_path / "runs.db") as store:
        rw = Rewind(totals(), store=store)

        assert [fact.address for fact in rw.resume(store.experiment(begun.id)).facts] == [
            "state.a",
            "state.b",
            "state.unread.x",
        ]
        with pytest.raises(ExperimentError, match="does not give functions back"):
            rw.resume(store.experiment(function.id))


# -- what it refuses -------------------------------------------------------------------------


def test_a_run_that_fails_is_refused_and_bisect_is_named(store):
    rw, _ = agent(store)

    with pytest.raises(ExperimentError, match=r"fails output .* rw\.bisect\(run, check\)"):
        rw.ablate(rw.run(), "output contains 'refused'")
    assert store.experiments_df().empty


def test_what_cannot_work_is_refused_before_anything_executes(store):
    rw = Rewind(totals(), store=store)
    run = rw.run(inputs={"extra": 5})

    with pytest.raises(ExperimentError, match="no verdict"):
        rw.ablate(run, "nope > 1")
    with pytest.raises(ExperimentError, match="no fact 'state.c'. Did you mean"):
        rw.ablate(run, "total > 0", facts=["state.c"])
    with pytest.raises(ConfigError, match="neither 'perturb' nor 'remove'"):
        rw.ablate(run, "total > 0", how="delete")
    with pytest.raises(ConfigError, match="samples=0"):
        rw.ablate(run, "total > 0", samples=0)
    with pytest.raises(ConfigError, match="a list of addresses"):
        rw.ablate(run, "total > 0", facts=3)
    with pytest.raises(NotEncodableError):
        rw.ablate(run, "total > 0", how=lambda _: [object()])
    with pytest.raises(CodeChangedError):
        other = ApplicationBuilder().with_actions(take=settle, add=add)
        Rewind(
            other.with_transitions(("take", "add")).with_entrypoint("take").build(), store=store
        ).ablate(run, "total > 0")
    assert store.experiments_df().empty


# -- a value ---------------------------------------------------------------------------------


def test_an_ablate_reopens_as_it_was(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        rw, _ = agent(store)
        found = rw.ablate(rw.run(), CONFIRMED, effects=DRY)
        kept = (repr(found), found.load_bearing, found.df, found.table(), found._repr_html_())

    with Store(tmp_path / "runs.db") as store:
        again = store.experiment(found.id)

        assert isinstance(again, Ablate)
        assert (repr(again), again.load_bearing) == kept[:2]
        assert again.df.equals(kept[2])
        assert (again.table(), again._repr_html_()) == kept[3:]
        assert dict(again.df.dtypes) == FACT_COLUMNS
        fare = again.df.set_index("fact").loc[FARE]
        assert (fare.tried, fare.verdicts) == (
            ["0.0", "-450.0", "4500.0", "45.0"],
            ["pass", "pass", "fail", "pass"],
        )
        assert [store.run(one).kind for one in fare.run_ids] == ["fork"] * 4


def test_the_async_twin_finds_the_same(store):
    async def found():
        rw = Rewind(apps.async_app(), store=store)
        run = await rw.arun(halt_after=["choose"])
        return await rw.aablate(run, f"warmest == '{run.state['warmest']}'", facts=["fetch:2"])

    ablate = asyncio.run(found())

    assert ablate.load_bearing == ("fetch:2 tool 0 lookup.degrees",)
    assert ablate.not_load_bearing == (
        "fetch:2 tool 0 lookup.city",
        "fetch:2 tool 0 lookup.unique",
    )
