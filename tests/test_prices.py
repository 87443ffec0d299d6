"""Prices and costs: dated, by longest prefix; what is not known is unpriced, never guessed."""

import json
import math
from datetime import UTC, date, datetime
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
import task_apps
from burr.core import ApplicationBuilder, State, action
from hypothesis import given
from hypothesis import strategies as st
from killed import killed

import rewind_nb
from rewind_nb import ChatModel, Cost, Rewind, Store, Usage, _price, prices
from rewind_nb._cost import cost_of, costs_of, money
from rewind_nb._price import NO_PRICE, priced
from rewind_nb.errors import ConfigError

NOW = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
UNPRICED = Cost(missing=frozenset({("offline", NO_PRICE)}))


@pytest.fixture(autouse=True)
def own_table(monkeypatch):
    """The prices that come with the package, and none from other tests."""
    monkeypatch.setattr(_price, "_added", ())


def call(model="acme", answered_by=None, usage=None, source="live", kind="model", at=NOW):
    return SimpleNamespace(
        kind=kind, source=source, model=model, answered_by=answered_by, usage=usage, started_at=at
    )


def cost(*args, **kwargs):
    return cost_of(call(*args, **kwargs))


# -- looking up ----------------------------------------------------------------------------


def test_the_longest_prefix_of_a_name_counts():
    prices.register("acme", input=1, output=1)
    prices.register("acme-large", input=2, output=2)
    prices.register("acme-l", input=3, output=3)

    assert prices.lookup("acme-large-2026").input == 2
    assert prices.lookup("acme-lite").input == 3
    assert prices.lookup("acme").input == 1
    assert prices.lookup("acm") is None
    assert prices.lookup("my-acme") is None


def test_a_longer_built_in_name_counts_before_a_shorter_registered_one():
    prices.register("gpt-", input=99, output=99)

    assert prices.lookup("gpt-5").input != 99
    assert prices.lookup("gpt-unheard-of").input == 99


def test_a_call_has_the_price_of_its_day():
    prices.register("acme", input=4, output=4, since="2026-01-01")
    prices.register("acme", input=2, output=2, since=date(2026, 6, 1))

    assert prices.lookup("acme", date(2026, 5, 31)).input == 4
    assert prices.lookup("acme", date(2026, 6, 1)).input == 2
    assert prices.lookup("acme", datetime(2026, 6, 1, 0, 30, tzinfo=UTC)).input == 2
    assert prices.lookup("acme", date(2025, 12, 31)) is None
    may = datetime(2026, 5, 31, 23, 59, tzinfo=UTC).timestamp()
    million = Usage(1_000_000, 0)
    assert cost("acme", usage=million, at=may).usd == 4
    assert cost("acme", usage=million, at=may + 60).usd == 2


def test_a_longer_prefix_is_no_price_before_its_first_day():
    prices.register("acme", input=1, output=1)
    prices.register("acme-large", input=2, output=2, since="2026-11-01")

    assert prices.lookup("acme-large", date(2026, 10, 31)).input == 1


def test_a_registered_price_comes_before_a_built_in_one_of_the_same_name():
    built_in = prices.lookup("gpt-5")
    prices.register("gpt-5", input=1, output=1, since="2026-01-01")

    assert built_in.input != 1
    assert built_in.since > date(2026, 1, 1)
    assert prices.lookup("gpt-5").input == 1


def test_a_price_that_is_registered_again_is_replaced():
    prices.register("acme", input=1, output=1)
    prices.register("acme", input=5, output=5)

    assert [p.input for p in prices.table() if p.model == "acme"] == [5]


def test_a_name_is_looked_up_without_its_maker_where_it_has_no_price():
    prices.register("acme", input=1, output=1)
    prices.register("openai/acme", input=9, output=9)

    assert prices.lookup("openai/acme-2").input == 9
    assert prices.lookup("models/acme-2").input == 1
    assert prices.lookup("reseller/acme-2") is None
    assert prices.lookup("models/gemini-2.5-pro").source.startswith("https://ai.google.dev")


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("gpt-5", "gpt-5"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("openai/gpt-5-mini", "gpt-5-mini"),
        ("gpt-5-pro", None),
        ("gpt-5.9", None),
        ("gpt-4o-audio-preview", None),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("claude-sonnet-9", None),
        ("ft:gpt-4o-mini:us", None),
    ],
)
def test_a_built_in_price_is_of_one_model_and_its_dated_snapshots(name, found):
    price = prices.lookup(name)

    assert (price and price.model) == found


def test_an_exact_price_is_of_no_other_model():
    prices.register("acme", input=1, output=1, exact=True)

    assert prices.lookup("acme-2026-01-31").input == 1
    assert prices.lookup("acme-mini") is None


def test_the_built_in_table_is_consistent_with_itself():
    file = Path(rewind_nb.__file__).parent / "_prices.json"
    table = json.loads(file.read_text(encoding="utf-8"))
    as_of, built_in = date.fromisoformat(table["as_of"]), prices.table()

    assert len({(p.model, p.since) for p in built_in}) == len(built_in) == len(table["prices"])
    for price in built_in:
        today = prices.lookup(price.model, as_of)
        assert today is not None  # one that was announced for later has another until then
        assert today.model == price.model  # and not a shorter name
        assert today.since <= as_of
        assert prices.lookup(f"{price.model}-2026-11-01", price.since) == price
        assert price.exact
        assert 0 < price.input <= price.output
        assert price.cached_input is None or 0 < price.cached_input <= price.input
        assert price.cache_write is None or price.cache_write >= price.input


def test_the_built_in_table_says_its_day_and_the_source_of_each_price():
    file = Path(rewind_nb.__file__).parent / "_prices.json"
    table = json.loads(file.read_text(encoding="utf-8"))

    assert date.fromisoformat(table["as_of"])
    assert 20 <= len(table["prices"]) <= 50
    for price in prices.table():
        assert price.source.startswith("https://")
        assert price.since > date(2026, 1, 1)
        assert price.exact
        assert price.cached_input is None or price.cached_input < price.input < price.output
        assert price.cache_write is None or price.cache_write > price.input
    keys = [(price.model, price.since) for price in prices.table()]
    assert len(set(keys)) == len(keys)


def test_the_offline_model_has_no_price():
    assert prices.lookup("offline") is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": ""},
        {"model": None},
        {"input": -1},
        {"output": math.nan},
        {"output": "3"},
        {"cached_input": math.inf},
        {"cache_write": True},
        {"up_to": -5},
        {"since": "soon"},
        {"since": None},
    ],
)
def test_a_price_that_cannot_be_is_refused(wrong):
    given = {"model": "acme", "input": 1.0, "output": 1.0, **wrong}

    with pytest.raises(ConfigError):
        prices.register(given.pop("model"), **given)
    assert prices.lookup("acme") is None


# -- what a call costs ---------------------------------------------------------------------


def test_input_cached_input_cache_writes_and_output_are_billed_once_each():
    prices.register("acme", input=10, output=100, cached_input=1, cache_write=20)
    usage = Usage(1_000_000, 500_000, cached_tokens=600_000, cache_write_tokens=100_000)

    assert cost(usage=usage).usd == 3 + 0.6 + 2 + 50


def test_reasoning_tokens_are_output_and_not_billed_twice():
    prices.register("acme", input=0, output=10)

    assert cost(usage=Usage(0, 1_000_000, reasoning_tokens=900_000)).usd == 10


def test_what_is_cached_costs_as_other_input_where_there_is_no_price_for_it():
    prices.register("acme", input=10, output=1)

    assert cost(usage=Usage(1_000_000, 0, cached_tokens=400_000)).usd == 10


def test_the_model_that_answered_counts_else_the_one_that_was_asked():
    prices.register("asked", input=1, output=1)
    prices.register("answered", input=7, output=7)
    million = Usage(1_000_000, 0)

    assert cost("asked", "answered-v2", million).usd == 7
    assert cost("asked", None, million).usd == 1
    assert cost("asked", "asked-2026-01-31", million).usd == 1
    other = cost("asked", "another", million)
    assert (other.usd, other.unpriced) == (None, ("another",))


def test_a_snapshot_without_a_price_has_that_of_the_model_it_is_of():
    prices.register("acme-latest", input=1, output=1, exact=True)

    assert cost("acme-latest", "acme-20260131", Usage(1_000_000, 0)).usd == 1


@pytest.mark.parametrize("source", ["cache", "tool-cache", "override"])
def test_what_was_played_back_costs_nothing(source):
    assert cost("offline", usage=Usage(9, 9), source=source) == Cost()


def test_what_is_no_model_call_or_was_never_billed_costs_nothing():
    assert cost("offline", usage=None, kind="tool") == Cost()
    assert cost("offline", usage=Usage(0, 0)) == Cost()


def test_a_call_without_counts_is_unpriced_and_says_so():
    prices.register("acme", input=1, output=1)

    for usage in (None, Usage(), Usage(5), Usage(None, 5)):
        unknown = cost(usage=usage)
        assert (unknown.usd, unknown.partial, unknown.unpriced) == (None, True, ("acme",))
        assert repr(unknown) == "<Cost unpriced (acme: no usage reported)>"


def test_a_prompt_longer_than_its_price_holds_is_unpriced():
    prices.register("acme", input=1, output=1, up_to=200_000)

    assert cost(usage=Usage(200_000, 1)).usd is not None
    assert str(cost(usage=Usage(200_001, 1))) == (
        "unpriced (acme: 200,001 input tokens; the price holds up to 200,000)"
    )


def test_cache_writes_that_have_a_price_and_are_not_reported_leave_it_unpriced():
    prices.register("acme", input=1, output=1, cached_input=0.1, cache_write=1.25)

    assert cost(usage=Usage(10, 1, cached_tokens=5)).usd is None
    assert cost(usage=Usage(10, 1, cached_tokens=5, cache_write_tokens=0)).usd is not None
    assert cost(usage=Usage(10, 1)).usd is not None  # the provider reports no caching at all


def test_a_free_model_costs_nothing_also_without_counts():
    prices.register("local-", **prices.FREE)

    free = cost("local-llama", usage=None)
    assert (free.usd, free.partial, repr(free)) == (0.0, False, "<Cost $0>")


# -- adding up -----------------------------------------------------------------------------


def test_a_total_with_an_unpriced_part_is_never_shown_as_whole():
    prices.register("acme", input=1, output=1)
    known, unknown = cost(usage=Usage(12_300, 0)), cost("offline", usage=Usage(5, 5))
    total = known + unknown

    assert (total.usd, total.partial, total.whole_usd) == (0.0123, True, None)
    assert repr(total) == "<Cost at least $0.0123 (unpriced: offline)>"
    assert (repr(known), repr(unknown)) == ("<Cost $0.0123>", "<Cost unpriced (offline)>")
    assert (unknown + unknown).usd is None
    assert (known.partial, known.whole_usd) == (False, 0.0123)
    assert (Cost() + unknown).usd is None
    assert total.usage == Usage(12_305, 5)


COSTS = st.builds(
    Cost,
    st.fractions(0, 100).filter(lambda f: f >= 0),
    st.frozensets(st.tuples(st.sampled_from("ab"), st.sampled_from([NO_PRICE, "why"]))),
    st.booleans(),
    st.none() | st.builds(Usage, st.integers(1, 9), st.integers(1, 9)),
)


@given(st.lists(COSTS, max_size=6).flatmap(lambda c: st.tuples(st.just(c), st.permutations(c))))
def test_a_total_does_not_depend_on_the_order_of_its_parts(both):
    first, second = (sum(costs, Cost()) for costs in both)

    assert first == second
    assert repr(first) == repr(second)
    assert first.partial == any(part.partial for part in both[0])


def test_a_tenth_is_a_tenth():
    prices.register("acme", input=0.1, output=0.7)

    total = costs_of([call(usage=Usage(1, 1))] * 1_000)

    assert total.spent == Fraction(8, 10_000)
    assert total.usd == 0.0008


def test_more_tokens_than_a_float_holds_cost_infinitely_much():
    prices.register("acme", input=1, output=1)

    assert cost(usage=Usage(10**400, 0)).usd == math.inf


@pytest.mark.parametrize(
    ("usd", "shown"),
    [(0, "$0"), (0.0123, "$0.0123"), (1.2e-7, "$0.00000012"), (0.5, "$0.5"), (0.999, "$0.999"),
     (0.09999, "$0.1"), (1, "$1.00"), (1234.567, "$1,234.57"), (math.inf, "$inf")],
)  # fmt: skip
def test_money_is_never_rounded_to_nothing(usd, shown):
    assert money(usd) == shown


def test_a_price_can_be_asked_without_a_call():
    prices.register("acme", input=1, output=2)

    assert priced("acme", Usage(1_000_000, 1_000_000)) == 3.0
    assert priced("offline", Usage(1, 1)) is priced(None, Usage(1, 1)) is None
    assert priced("acme", None) is None


# -- runs, steps, calls and frames ---------------------------------------------------------


def answering(model, usage):
    def respond(request):
        body = {"model": model, "choices": [{"message": {"content": "yes"}}], "usage": usage}
        return httpx.Response(200, json=body)

    return httpx.MockTransport(respond)


USED = {"prompt_tokens": 1000, "completion_tokens": 100}


def asking(*clients):
    """An application with one step per client, each of which asks it."""

    def step(client):
        @action(reads=[], writes=["answer"])
        def ask(state: State) -> State:
            return state.update(answer=client.chat("Is it?").text)

        return ask

    names = [f"ask_{n}" for n in range(len(clients))]
    return (
        ApplicationBuilder()
        .with_actions(**{name: step(c) for name, c in zip(names, clients, strict=True)})
        .with_transitions(*zip(names, names[1:], strict=False))
        .with_entrypoint(names[0])
        .build()
    )


def client(model, usage=USED):
    transport = answering(model, usage)
    return ChatModel("http://llm.invalid/v1", model, transport=transport)


def test_a_run_costs_what_it_paid_for_itself(store):
    prices.register("acme", input=1, output=10, since="2020-01-01")
    rw = Rewind(asking(client("acme"), client("acme-2")), store=store)
    run = rw.run()
    fork = rw.fork(run, "ask_1", prompt="Is it another one?")
    again = rw.fork(run, "ask_1")

    assert [step.cost.usd for step in run.steps] == [0.002, 0.002]
    assert run[0].calls[0].cost.usd == 0.002
    assert run.cost.usd == 0.004
    assert run.cost.usage == Usage(2000, 200)
    assert fork.cost.usd == 0.002  # the inherited step is the parent's
    assert (again.cost, rw.replay(run).run.cost) == (Cost(), Cost())


def test_a_played_back_answer_costs_the_next_run_nothing(store):
    prices.register("acme", input=1, output=10, since="2020-01-01")
    rw = Rewind(asking(client("acme")), store=store)
    first, second = rw.run(), rw.run()

    assert (first.cost.usd, second.cost.usd) == (0.002, 0.0)
    assert second[0].calls[0].cost == Cost()


def test_a_run_with_an_unpriced_model_says_at_least(store):
    prices.register("acme", input=1, output=10, since="2020-01-01")
    rw = Rewind(asking(client("acme"), client("offline")), store=store)
    run = rw.run()

    assert str(run.cost) == "at least $0.002 (unpriced: offline)"
    assert [str(step.cost) for step in run.steps] == ["$0.002", "unpriced (offline)"]


def test_a_failed_attempt_that_was_paid_for_is_part_of_the_cost(store):
    prices.register("acme", input=1, output=10, since="2020-01-01")
    model = client("acme")

    @action(reads=[], writes=["answer"])
    def ask(state: State) -> State:
        model.chat("Is it?")
        raise LookupError("no")

    app = ApplicationBuilder().with_actions(ask).with_entrypoint("ask").build()
    rw = Rewind(app, store=store)
    with pytest.raises(LookupError):
        rw.run()

    assert rw.last_run.cost.usd == 0.002


KILLED = """
import os, sys
import httpx
from burr.core import ApplicationBuilder, State, action
from rewind_nb import ChatModel, Rewind

def respond(request):
    usage = {"prompt_tokens": 1000, "completion_tokens": 100}
    body = {"model": "acme", "choices": [{"message": {"content": "yes"}}], "usage": usage}
    return httpx.Response(200, json=body)

model = ChatModel("http://llm.invalid/v1", "acme", transport=httpx.MockTransport(respond))

@action(reads=[], writes=["answer"])
def ask(state: State) -> State:
    answer = model.chat("Is it?").text
    if sys.argv[3:] == ["kill"]:
        os.kill(os.getpid(), 9)
    return state.update(answer=answer)

def app(log):
    return ApplicationBuilder().with_actions(ask).with_entrypoint("ask").build()

if __name__ == "__main__":
    Rewind(app(sys.argv[2]), store=sys.argv[1]).run()
"""


def test_a_step_whose_process_was_killed_costs_at_least_its_recorded_calls(tmp_path, monkeypatch):
    prices.register("acme", input=1, output=10, since="2020-01-01")
    asking_app, path, log = killed("asking_app", KILLED, tmp_path, monkeypatch)
    with Store(path) as store:
        run = store.runs()[0]
        assert (run.cost.usd, run.cost.partial, run.cost.usage) == (0.002, True, None)
        assert "the process ended inside a step" in str(run.cost)
        resumed = Rewind(asking_app.app(log), store=store).resume(run)

        assert resumed.status == "complete"
        assert (resumed.cost.usd, resumed.usage) == (0.002, run.usage)


def test_the_usd_columns_are_unknown_where_a_part_is(store):
    prices.register("acme", input=1, output=10, since="2020-01-01")
    run = Rewind(asking(client("acme"), client("offline")), store=store).run()

    for frame in (run.steps_df(), run.calls_df()):
        assert str(frame.usd.dtype) == "Float64"
        assert frame.usd[0] == 0.002
        assert frame.usd.isna().tolist() == [False, True]
    runs = store.runs_df()
    assert str(runs.usd.dtype) == "Float64"
    assert runs.usd.isna().tolist() == [True]
    prices.register("offline", **prices.FREE, since="2020-01-01")
    assert store.runs_df().usd.tolist() == [0.002]


def test_the_columns_agree_with_the_handles(store):
    rw = Rewind(task_apps.map_app(), store=store)
    run = rw.run()
    runs = [run, rw.fork(run, run["each"].tasks["1"][1], output={"grade": 1})]

    steps, listed = store.steps_df(), [step for r in store.runs() for step in r.walk()]
    assert steps.usd.tolist() == [step.cost.usd for step in listed]
    assert store.runs_df().usd.tolist() == [0.0] * len(runs)
    assert run["each"].total_cost == sum((s.cost for s in run["each"].executed_with()), Cost())
