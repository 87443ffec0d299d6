"""Sweeps: one value after the other, and between which of them what comes of it flips."""

import asyncio
import contextlib
import json
import math
import threading
from decimal import Decimal

import httpx
import numpy as np
import pytest
from burr.core import ApplicationBuilder, State, action
from hypothesis import given, settings
from hypothesis import strategies as st
from thresholds import STOP, WEIGHED, ajudge, app, reset

import rewind_nb
from rewind_nb import Budget, ChatModel, Check, Rewind, Store
from rewind_nb._path import MISSING
from rewind_nb._wilson import wilson
from rewind_nb.demo import booking
from rewind_nb.errors import ConfigError, ExperimentError
from rewind_nb.experiments import Edge

DRY = {"book_flight": lambda city, fare: f"{city} for {fare:g}"}
FARES = [450.0, 1450.0, 900.0, 1001.0, 1000.0]


@pytest.fixture(autouse=True)
def _anew():
    reset()


def swept(rule, value, values, store, check="ok == true", **more):
    rw = Rewind(app(rule, value), store=store)
    return rw.sweep(rw.run(), "take", {"output.value": values}, check=check, **more)


def edges(sweep):
    return [(edge.last, edge.first) for edge in sweep.flips]


# -- where it flips -------------------------------------------------------------------------


def test_the_sweep_of_the_fare_finds_between_which_fares_the_agent_stops_booking(store):
    rw = Rewind(booking.build(), store=store)
    run = rw.run()
    over = {"output.fare": FARES}
    confirms = rw.sweep(run, "search", over, check="output contains 'confirmed'", effects=DRY)
    never_books = rw.sweep(run, "search", over, check="@visits.book == 0", effects=DRY)

    assert confirms.answer() == "passes up to 1,000, fails from 1,001"
    assert confirms.flips == (Edge(1000.0, 1001.0, "pass", "fail"),)
    assert never_books.answer() == "fails up to 1,000, passes from 1,001"
    assert confirms.df.value.tolist() == sorted(FARES)
    assert confirms.df.verdict.tolist() == ["pass", "pass", "pass", "fail", "fail"]
    refused = never_books.point(1450.0).runs[0]
    assert never_books.point(1450.0).verdict == "pass"
    assert "book" not in [step.action for step in refused.steps]
    assert confirms.point(450.0).verdict == "pass"


def test_a_sweep_says_exactly_one_of_an_interval_never_and_more_than_once(store):
    once = swept(lambda v: v >= 7, 5, [3, 5, 9, 7], store)
    never = swept(lambda v: v < 99, 5, [3, 5, 9, 7], store)
    often = swept(lambda v: v % 2 == 0, 5, [1, 2, 4, 6, 7, 9], store)

    assert once.answer() == "fails up to 5, passes from 7"
    assert never.answer() == "never flips: passes at each of 4 values"
    said = "flips more than once: fails up to 1, passes from 2 to 6, fails from 7"
    assert often.answer() == said
    assert (edges(once), edges(never), edges(often)) == ([(5, 7)], [], [(1, 2), (6, 7)])


@settings(max_examples=25)
@given(
    st.lists(st.integers(-50, 50), min_size=1, max_size=6, unique=True),
    st.sets(st.integers(-50, 50)),
)
def test_the_flips_are_where_a_plain_function_of_the_value_changes(values, passing):
    reset()
    with Store(":memory:") as store:
        sweep = swept(lambda v: v in passing, 1000, values, store)
        ordered = sorted(values)
        wanted = [
            (a, b)
            for a, b in zip(ordered, ordered[1:], strict=False)
            if (a in passing) != (b in passing)
        ]

        assert [point.value for point in sweep.points] == ordered
        assert [point.verdict == "pass" for point in sweep.points] == [
            v in passing for v in ordered
        ]
        assert edges(sweep) == wanted


def test_values_that_are_no_numbers_keep_the_order_they_were_given_in(store):
    sweep = swept(lambda v: v != "high", "low", ["low", "middling", "high"], store)

    assert sweep.answer() == "passes up to 'middling', fails from 'high'"


def test_numbers_of_any_type_are_ordered_by_what_they_amount_to(store):
    tenth = Decimal("0.1")
    given = [np.int64(7), 2**70, tenth, 5, math.inf, np.float32(2.5), -math.inf, 0.1, 1e300]
    rw = Rewind(app(lambda v: v > 4, 5), store=store)
    sweep = rw.sweep(rw.run(), "take", {"state.given": given}, check="ok == true")

    ordered = [-math.inf, tenth, 0.1, np.float32(2.5), 5, np.int64(7), 2**70, 1e300, math.inf]
    found = [point.value for point in sweep.points]
    assert (found, list(map(type, found))) == (ordered, list(map(type, ordered)))
    assert edges(sweep) == [(np.float32(2.5), 5)]


@pytest.mark.parametrize(
    "nan", [math.nan, Decimal("NaN"), Decimal("sNaN"), np.float32("nan"), np.float64("nan")]
)
def test_a_number_that_is_none_is_refused_for_it_has_no_place_in_an_order(store, nan):
    rw = Rewind(app(lambda v: True, 5), store=store)
    run = rw.run()

    with pytest.raises(ConfigError, match=r"'state.given' has .* at position 1.*rw.grid"):
        rw.sweep(run, "take", {"state.given": [5, nan, Decimal(1)]}, check="ok == true")
    assert store.experiments() == []


def test_a_recorded_number_that_is_none_is_refused_too(store):
    rw = Rewind(app(lambda v: True, math.nan), store=store)

    with pytest.raises(ConfigError, match=r"what was recorded \(\.\.\.\), nan at position 0"):
        rw.sweep(rw.run(), "take", {"state.given": [..., 1]}, check="ok == true")


def test_the_recorded_value_has_its_place_among_the_numbers(store):
    sweep = swept(lambda v: v > 3, 5, [9, ..., 1], store)

    assert sweep.df.value.tolist() == [1, 5, 9]
    assert sweep.answer() == "fails up to 1, passes from 5"


def test_without_a_check_it_is_the_outcome_that_flips(store):
    sweep = swept(lambda v: v > 6, 5, [5, 6, 7, 8], store, check=None, outcome="ok")

    assert sweep.answer() == "`ok` is False up to 6, `ok` is True from 7"
    assert sweep.flips == (Edge(6, 7, {"ok": False}, {"ok": True}),)
    assert sweep.df.ok.tolist() == [False, False, True, True]
    assert sweep.df.outcome_changed.tolist() == [False, False, True, True]
    assert sweep.df.verdict.isna().all()


# -- no verdict is no fail ------------------------------------------------------------------------


def test_a_value_without_a_verdict_is_named_and_counts_as_no_fail(store):
    def rule(value):
        if value in (6, 8):
            raise ValueError(f"cannot weigh {value}")
        return value < 7

    sweep = swept(rule, 5, [5, 6, 7, 8], store)
    df = sweep.df.set_index("value")

    assert (
        sweep.answer()
        == "passes up to 5, fails from 7; no verdict at 6, 8 (ValueError: cannot weigh 6)"
    )
    assert df.loc[6, ["judged", "fails", "errors"]].tolist() == [0, 0, 1]
    assert df.loc[6, "verdict"] == "error"
    assert df.loc[6, "error"] == "ValueError: cannot weigh 6"
    assert edges(sweep) == [(5, 7)]


def test_what_a_check_cannot_judge_and_what_a_step_refuses_has_no_verdict(store):
    rw = Rewind(app(lambda v: v == 1, 1), store=store)
    run = rw.run()
    unjudged = rw.sweep(run, "take", {"output.value": [1, 2]}, check="said.nothing > 3")
    refused = rw.sweep(
        run,
        "take",
        {
            "output.value": [1, 2],
        },
        check=Check(lambda r: 1 / 0, at_most=1),
    )

    for sweep in (unjudged, refused):
        assert sweep.answer().startswith("no verdict at any value; no verdict at 1, 2 (")
        assert sweep.df.errors.tolist() == [1, 1]
        assert sweep.flips == ()


# -- samples --------------------------------------------------------------------------------------


class Jitter(httpx.BaseTransport):
    """Says yes to the first so many of the requests for a number as the number says."""

    def __init__(self):
        self.asked, self.lock = {}, threading.Lock()

    def handle_request(self, request):
        number = json.loads(request.read())["messages"][-1]["content"]
        with self.lock:
            nth = self.asked[number] = self.asked.get(number, 0) + 1
        text = "yes" if nth <= int(number) else "no"
        message = {"role": "assistant", "content": text}
        return httpx.Response(200, json={"model": "toy", "choices": [{"message": message}]})


class Echo(httpx.BaseTransport):
    """Says what it was told."""

    def handle_request(self, request):
        message = {"role": "assistant", "content": request.read().decode()}
        return httpx.Response(200, json={"model": "toy", "choices": [{"message": message}]})


@action(reads=["given"], writes=["number"])
def number(state: State) -> State:
    return state.update(number=state["given"])


@action(reads=["number"], writes=["said"])
def ask(state: State, model) -> State:
    return state.update(said=model.chat(str(state["number"])).text)


def asking(transport, given):
    model = ChatModel("http://offline.invalid/v1", "toy", transport=transport, max_retries=0)
    return (
        ApplicationBuilder()
        .with_actions(number, ask=ask.bind(model=model))
        .with_transitions(("number", "ask"))
        .with_state(given=given)
        .with_entrypoint("number")
        .build()
    )


def test_the_samples_of_a_jittering_model_give_the_right_pass_rates(store):
    rw = Rewind(asking(Jitter(), 9), store=store)
    over = {"output.number": [0, 1, 2, 3, 4, 5]}
    sweep = rw.sweep(rw.run(), "number", over, check="said == 'yes'", outcome="said", samples=5)
    df = sweep.df

    assert df.passes.tolist() == [0, 1, 2, 3, 4, 5]
    assert df.judged.tolist() == [5] * 6
    assert df.pass_rate.tolist() == [0, 0.2, 0.4, 0.6, 0.8, 1]
    assert [(low, high) for low, high in zip(df.low, df.high, strict=True)] == [
        wilson(n, 5) for n in range(6)
    ]
    assert df.verdict.tolist() == ["fail"] * 3 + ["pass"] * 3
    assert df.said.tolist() == ["no"] * 3 + ["yes"] * 3
    assert sweep.answer() == "fails up to 2, passes from 3; by the majority of 5 samples"
    assert len(sweep.cells_df) == 1 + 30


def test_a_tie_is_a_fail_and_said(store):
    rw = Rewind(asking(Jitter(), 9), store=store)
    sweep = rw.sweep(
        rw.run(), "number", {"output.number": [1, 2]}, check="said == 'yes'", samples=2
    )

    assert sweep.df.verdict.tolist() == ["fail", "pass"]
    assert sweep.df.tied.tolist() == [True, False]
    assert "tied, counted as a fail: 1" in sweep.answer()


def test_samples_that_draw_nothing_of_their_own_are_one_draw(store):
    transport = Jitter()
    rw = Rewind(asking(transport, 2), store=store)
    over = {"output.number": [1, 2, 5]}
    run = rw.run()
    sweep = rw.sweep(run, "number", over, check="said == 'yes'", samples=5)
    anew = rw.sweep(
        run, "number", over, check="said == 'yes'", samples=5, reuse="none", cache="refresh"
    )

    recorded = sweep.point(2)
    assert (recorded.judged, recorded.passes, recorded.repeats) == (1, 1, 4)
    assert recorded.interval == wilson(1, 1)
    assert "nothing new was drawn for samples of 2" in sweep.answer()
    assert sweep.point(1).judged == sweep.point(5).judged == 5
    assert [point.judged for point in anew.points] == [5, 5, 5]
    assert anew.point(2).interval == wilson(anew.point(2).passes, 5)


def test_samples_of_code_that_is_random_and_not_recorded_all_count(store):
    seen = []

    def rule(value):
        seen.append(value)
        return len(seen) % 3 == 0

    sweep = swept(rule, 0, [1], store, samples=6, max_workers=1)

    assert (sweep.points[0].judged, sweep.points[0].passes) == (6, 2)


DICE = []


@action(reads=["number"], writes=["said", "thrown"])
def throw(state: State, model) -> State:
    DICE.append(state["number"])
    return state.update(said=model.chat("throw").text, thrown=len(DICE) % 3 == 0)


def test_samples_with_the_recorded_answers_all_count_where_their_code_is_random(store):
    model = ChatModel("http://offline.invalid/v1", "toy", transport=Echo(), max_retries=0)
    built = (
        ApplicationBuilder()
        .with_actions(number, throw=throw.bind(model=model))
        .with_transitions(("number", "throw"))
        .with_state(given=0)
        .with_entrypoint("number")
        .build()
    )
    rw = Rewind(built, store=store)
    DICE.clear()
    over = {"output.number": [1]}
    sweep = rw.sweep(rw.run(), "number", over, check="thrown == true", samples=6, max_workers=1)

    point = sweep.points[0]
    assert (point.judged, point.passes, point.repeats) == (6, 2, 0)
    assert all(run["throw"].calls[0].source == "cache" for run in point.runs)


def test_wilsons_interval_is_where_the_score_test_is_at_its_limit():
    z = 1.959963984540054
    for n in (1, 2, 5, 40):
        for passes in range(n + 1):
            for p in wilson(passes, n):
                distance = abs(passes / n - p) - z * (p * (1 - p) / n) ** 0.5
                assert 0 <= p <= 1
                assert abs(distance) < 1e-9
    assert wilson(0, 0) == (0.0, 1.0)
    assert [round(p, 4) for p in wilson(15, 20)] == [0.5313, 0.8881]


# -- asked, stopped, gone on with, reopened -------------------------------------------------


@pytest.mark.parametrize("seen", ["tool", "hook"])
def test_a_sweep_that_was_interrupted_makes_no_run_twice_when_it_is_resumed(store, seen):
    rw = Rewind(app(lambda v: v > 4, 0), store=store)
    run = rw.run()
    rw.on(STOP)
    WEIGHED.clear()
    STOP.event, STOP.after = ("step_started", "judge") if seen == "hook" else None, 3
    with pytest.raises(KeyboardInterrupt) if seen == "hook" else contextlib.nullcontext():
        rw.sweep(
            run, "take", {"output.value": list(range(1, 9))}, check="ok == true", max_workers=2
        )
    stopped = rw.last_experiment
    assert stopped.status == "interrupted"
    left = [point.value for point in stopped.points if point.left]
    values = "1 value" if len(left) == 1 else f"{len(left)} values"
    said = f"not complete, {values} still to run: {', '.join(map(str, left))}; so far "
    assert stopped.answer().startswith(said)
    assert "never" not in stopped.answer()
    sweep = rw.resume(stopped)

    assert sorted(WEIGHED) == list(range(1, 9))
    assert len(sweep.runs) == 8
    assert sweep.answer() == "fails up to 4, passes from 5"


def test_a_budget_stops_a_sweep_and_what_did_not_run_is_named(store):
    transport = Jitter()
    rw = Rewind(asking(transport, 9), store=store)
    over = {"output.number": [0, 1, 2]}
    run = rw.run()
    sweep = rw.sweep(
        run, "number", over, check="said == 'yes'", budget=Budget(calls=2), max_workers=1
    )

    assert sweep.status == "interrupted"
    assert sweep.answer() == (
        "not complete, 1 value still to run: 2; so far fails up to 0, passes from 1"
    )
    assert rw.resume(sweep, budget=Budget(calls=1)).answer() == "fails up to 0, passes from 1"


def test_a_sweep_that_was_stopped_says_never_of_nothing_and_what_it_has_so_far():
    def begun(values, calls, **more):
        rw = Rewind(asking(Jitter(), 9), store=":memory:")
        over, budget = {"output.number": values}, Budget(calls=calls)
        run = rw.run()
        return rw, rw.sweep(
            run, "number", over, check="said == 'yes'", budget=budget, max_workers=1, **more
        )

    _, none = begun([0, 1, 2, 3], 0)
    rw, some = begun([0, 1, 2, 3], 3)
    _, partly = begun([1, 2], 3, samples=2)

    assert none.answer() == ""
    assert some.answer() == (
        "not complete, 1 value still to run: 3; so far fails up to 0, passes from 1"
    )
    assert partly.answer() == (
        "not complete, 1 value still to run: 2; so far fails up to 1, passes from 2; by the "
        "majority of 2 samples; tied, counted as a fail: 1"
    )
    assert rw.resume(some, budget=Budget(calls=9)).answer() == "fails up to 0, passes from 1"


def test_a_stored_sweep_reopens_and_goes_on(tmp_path):
    path = tmp_path / "runs.db"
    rw = Rewind(app(lambda v: v > 4, 0), store=path)
    over = {"output.value": [9, 1, 5, 4]}
    planned = rw.sweep(rw.run(), "take", over, check="ok == true", start=False, label="limits")
    plan, before = rw.plan(planned), planned.answer()
    rw.store.close()
    again = Rewind(app(lambda v: v > 4, 0), store=path)
    done = again.resume(again.store.experiment(planned.id))
    again.store.close()
    with Store(path) as store:
        read = store.experiment(planned.id)

        assert (before, plan.forks) == ("", 4)
        assert read.answer() == done.answer() == "fails up to 4, passes from 5"
        assert read.df.equals(done.df)
        assert repr(read) == repr(done)
        assert isinstance(read, rewind_nb.Sweep)
        assert read.question() == f"4 values of output.value at 0 'take' of {read.run.id}"
        head, rows = read.table()
        assert head == ["output.value", "verdict", "forks"]
        assert [row[:2] for row in rows] == [
            ["1", "fail"],
            ["4", "fail"],
            ["5", "pass"],
            ["9", "pass"],
        ]
        assert "fails up to 4" in read._repr_html_()


def test_a_sweep_asked_with_a_function_says_that_it_cannot_be_taken_up_elsewhere(tmp_path):
    rw = Rewind(app(lambda v: True, 0), store=tmp_path / "runs.db")
    over = {"output.value": [1]}
    sweep = rw.sweep(rw.run(), "take", over, check=lambda run: True, start=False)
    rw.store.close()
    again = Rewind(app(lambda v: True, 0), store=tmp_path / "runs.db")

    with pytest.raises(ExperimentError, match=r"^Sweep e_\w+ was asked with a function.*rw\.sweep"):
        again.resume(again.store.experiment(sweep.id))


def test_an_async_application_sweeps_in_the_running_loop(store):
    rw = Rewind(app(lambda v: v > 4, 0, judge=ajudge), store=store)

    async def main():
        run = await rw.arun()
        return await rw.asweep(run, "take", {"output.value": [4, 5]}, check="ok == true")

    assert asyncio.run(main()).answer() == "fails up to 4, passes from 5"


def test_what_cannot_be_swept_is_refused_before_anything_executes(store):
    rw = Rewind(app(lambda v: True, 0), store=store)
    run = rw.run()
    two = {"output.value": [1], "state.given": [2]}

    with pytest.raises(
        ConfigError, match="goes along one axis.*'output.value', 'state.given'.*grid"
    ):
        rw.sweep(run, "take", two)
    with pytest.raises(ConfigError, match="samples=0"):
        rw.sweep(run, "take", {"output.value": [1]}, samples=0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'smaples'.*'samples'"):
        asyncio.run(rw.asweep(run, "take", {"output.value": [1]}, smaples=2))
    assert len(store.runs()) == 1
    assert store.experiments() == []


def test_an_outcome_that_is_not_there_is_missing_and_no_flip(store):
    sweep = swept(lambda v: v > 4, 0, [1, 9], store, check=None, outcome=["said.deep"])

    assert sweep.df["said.deep"].tolist() == [MISSING, MISSING]
    assert sweep.flips == ()
