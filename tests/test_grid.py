"""Grids: every combination is a fork, checked before it executes, made once, counted."""

import asyncio
import functools
import itertools
import json
import os
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import grids
import httpx
import pandas as pd
import pytest
from burr.core import ApplicationBuilder, State, action
from fake_provider import Answer, completion
from grids import LOOKED_UP, answered, app, chat, expected, jittering, negotiating, provider, slowly
from killed import killed

import rewind_nb
from rewind_nb import Budget, ChatModel, Rewind, Store, _loops
from rewind_nb._path import MISSING
from rewind_nb._store import _read_tasks
from rewind_nb.errors import (
    ConfigError,
    ExperimentError,
    ExperimentNotFoundError,
    NothingToResumeError,
    OverrideError,
)

UNITS, COUNTRIES = [1, 5, 10, 20], ["CH", "NO", "DE"]


@pytest.fixture
def server():
    with provider() as running:
        yield running


@pytest.fixture
def rw(server, store):
    LOOKED_UP.clear()
    return Rewind(app(chat(server)), store=store)


def rows_of(store):
    """Every row of the runs that are no probe, as they hash."""
    return {
        run.id: (run._row.row_hash, run._row.root, [s.row.row_hash for s in run.steps])
        for run in store.runs()
    }


# -- what comes of it -----------------------------------------------------------------------


def test_each_row_of_a_grid_is_what_its_values_come_to(rw):
    run = rw.run()
    grid = rw.grid(run, "quote", {"state.units": UNITS, "state.country": COUNTRIES}, outcome="deal")
    df = grid.df

    assert len(df) == 1 + 12
    assert df.iloc[0].baseline
    assert df.iloc[0].deal == expected(10, "CH")
    for _, row in df.iloc[1:].iterrows():
        units, country = row["state.units"], row["state.country"]
        assert row.deal == expected(units, country)
        assert row.outcome_changed == (row.deal != expected(10, "CH"))
        assert rw.store.run(row.run_id).state["deal"] == row.deal
        assert rw.store.run(row.run_id).state["price"] == units * grids.rate(country)
    assert grid.status == "complete"


def test_a_grid_leaves_its_parent_as_it_was(rw, store):
    run = rw.run()
    before = rows_of(store)
    rw.grid(run, "quote", {"state.units": UNITS})

    assert rows_of(store) == before
    assert store.verify().ok


def test_the_probes_of_a_grid_are_listed_only_when_asked_for(rw, store):
    run = rw.run()
    rw.grid(run, "quote", {"state.units": UNITS})

    assert [r.id for r in store.runs()] == [run.id]
    assert len(store.runs(experiments=True)) == 1 + len(UNITS)
    assert len(store.runs_df()) == 1


def test_the_divergence_of_a_row_is_the_first_step_that_is_not_the_parents(rw):
    run = rw.run()
    grid = rw.grid(run, "quote", {"output.price": [30.0, 30.001, 90.0]})
    df = grid.df.set_index("output.price")

    assert df.divergence.isna().tolist() == [True, True, False, False]
    assert df.divergence[90.0] == "step 0 'quote'"
    assert df.executed.tolist() == [4, 0, 2, 2]


def test_a_combination_is_one_fork_with_an_ordered_list_of_overrides(rw):
    run = rw.run()
    over = {"model": ["toy", "other"], "temperature": [0.5, 1.0], "params.seed": [1]}
    grid = rw.grid(run, "negotiate", over)

    kinds = [[o.kind for o in r.overrides] for r in grid.runs]
    assert kinds == [["model", "temperature", "params"]] * 4
    assert all(all(c.step is not None for c in r.consumed) for r in grid.runs)
    asked = [c.request["body"] for r in grid.runs for c in r["negotiate"].calls]
    assert {(b["model"], b["temperature"], b["seed"]) for b in asked} == {
        (m, t, 1) for m in ("toy", "other") for t in (0.5, 1.0)
    }


def test_fields_of_one_dict_make_one_override(rw):
    run = rw.run()
    grid = rw.grid(run, "quote", {"state.units": [2], "state.country": ["NO"]})

    assert [o.value for o in grid.runs[0].overrides] == [{"units": 2, "country": "NO"}]


def test_dots_stand_for_what_was_recorded(rw):
    run = rw.run()
    grid = rw.grid(
        run, "quote", {"state.units": [..., 2], "state.country": [..., "NO"]}, outcome="deal"
    )
    df = grid.df.iloc[1:]

    assert df["state.units"].tolist() == [10, 10, 2, 2]
    assert df.deal.tolist() == [expected(u, c) for u in (10, 2) for c in ("CH", "NO")]
    assert df.executed.tolist()[0] == 0


def test_an_override_may_be_a_function_of_what_was_recorded(rw):
    run = rw.run()
    more = [lambda units: units + 1, lambda units: {"units": units["units"] + 5}]
    grid = rw.grid(run, "quote", {"state": [{"units": 3}, more[1]]}, outcome="deal")

    assert grid.df.deal.tolist()[1:] == [expected(3, "CH"), expected(15, "CH")]


# -- shared work ------------------------------------------------------------------------------


def test_combinations_that_ask_for_the_same_are_made_once(rw, server):
    run = rw.run()
    grid = rw.grid(run, "quote", {"state.units": [5, 5, 10], "state.country": ["CH", "CH"]})

    assert len(grid) == 1 + 6
    assert len(grid.runs) == 2
    assert len(set(grid.df.run_id[1:5])) == 1


def test_what_several_forks_ask_at_the_same_time_is_asked_once(store):
    with provider(slowly(negotiating, 0.2)) as server:
        rw = Rewind(app(chat(server)), store=store)
        run = rw.run()
        before = server.count
        LOOKED_UP.clear()
        over = {"state.units": [20, 20.0], "state.country": ["NO"]}  # one price, one prompt
        grid = rw.grid(run, "quote", over, outcome="deal", max_workers=2)

    assert len(grid.runs) == 2
    assert grid.df.deal.tolist()[1:] == [expected(20, "NO")] * 2
    assert server.count - before == 2  # the offer, and the haggling
    assert LOOKED_UP.lines == ["NO"]
    sources = sorted(c.source for r in grid.runs for c in r["negotiate"].calls)
    assert sources == ["cache", "live"]
    assert all(rw.replay(r).ok for r in grid.runs)


def test_a_flight_that_brings_no_answer_is_flown_again_by_one_who_waited(store):
    asked = []

    def garbage_first(seen):
        if seen.prompt != "sign" and json.loads(seen.prompt)["price"] == 100.0:
            asked.append(seen.prompt)
            if len(asked) == 1:
                return slowly(lambda _: Answer(b"<html>", 200), 0.2)(seen)
        return negotiating(seen)

    with provider(garbage_first) as server:
        rw = Rewind(app(chat(server)), store=store)
        grid = rw.grid(rw.run(), "quote", {"output.price": [100, 100.0]}, max_workers=2)

    assert sorted(run.status for run in grid.runs) == ["complete", "failed"]
    assert len(asked) == 2


# -- samples ----------------------------------------------------------------------------------


def test_samples_are_draws_of_their_own_and_the_same_ones_when_gone_on_with(store):
    with provider(jittering()) as server:
        rw = Rewind(app(chat(server)), store=store)
        run = rw.run()
        over = {"output.price": [20.0, 60.0]}
        grid = rw.grid(run, "quote", over, samples=3, outcome="deal", reuse="none", cache="refresh")
        notes = {cell.key: cell.run.state["note"] for cell in grid.cells if not cell.baseline}
        asked = server.count
        again = rw.grid(run, "quote", over, samples=3, outcome="deal")

    by_value = [[notes[f"{i}/{s}"] for s in range(3)] for i in range(2)]
    assert all(len(set(drawn)) == 3 for drawn in by_value)
    assert again.df.deal.tolist() == grid.df.deal.tolist()
    assert server.count == asked  # each draw is found under its own number


# -- stop and go on -----------------------------------------------------------------------------


class Stopping:
    """A hook that interrupts the main thread once after so many answers."""

    def __init__(self, after):
        self.after, self.seen, self.lock = after, 0, threading.Lock()

    def __call__(self, event):
        if event.name == "call_ended" and event.kind == "model" and event.source == "live":
            with self.lock:
                self.seen += 1
                if self.seen == self.after:
                    import _thread

                    _thread.interrupt_main()


@pytest.mark.parametrize("workers", [1, 6])
def test_an_interrupted_grid_goes_on_and_asks_nothing_twice(store, workers):
    with provider(slowly(negotiating, 0.03)) as server:
        rw = Rewind(app(chat(server)), store=store)
        run = rw.run()
        begun = server.count
        rw.on(Stopping(9))
        over = {"output.price": [20.0 + i for i in range(10)] + [60.0 + i for i in range(10)]}
        with pytest.raises(KeyboardInterrupt) as stopped:
            rw.grid(run, "quote", over, outcome="deal", max_workers=workers)
        grid = rw.last_experiment

        assert grid.status == "interrupted"
        assert grid.id in stopped.value.__notes__[-1]
        assert 0 < server.count - begun < 30
        partly = grid.df
        assert partly.status.isin(["complete", "interrupted", "not run"]).all()
        assert (partly.status == "complete").sum() < 21

        grid = rw.resume(grid)

    asked = [seen.prompt for seen in server.requests[begun:] if seen.prompt != "sign"]
    assert len(asked) == len(set(asked)) == 30  # 20 offers, 10 of which are haggled over
    assert grid.status == "complete"
    assert grid.df.deal.tolist()[1:] == [expected(0, "", price=p) for p in over["output.price"]]


def test_a_grid_whose_process_was_killed_goes_on_in_another_one(tmp_path, monkeypatch):
    source = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
import grids
from rewind_nb import Rewind

PRICES = [20.0 + i for i in range(8)]

def app(log):
    return grids.built()

if __name__ == "__main__":
    path, log, kill = sys.argv[1:]
    rw = Rewind(app(log), store=path)
    run = rw.run()
    seen = []
    def stop(event):
        if event.name == "run_ended":
            seen.append(event)
            if len(seen) == 5:
                os.kill(os.getpid(), signal.SIGKILL)
    rw.on(stop)
    rw.grid(run, "quote", {{"output.price": PRICES}}, outcome="deal", max_workers=1)
"""
    with provider() as server:
        monkeypatch.setenv("GRID_PROVIDER", server.base_url)
        module, path, _ = killed("killed_grid", source, tmp_path, monkeypatch)
        rw = Rewind(module.app(None), store=path)
        [grid] = rw.store.experiments()
        assert grid.status == "interrupted"
        before = server.count
        done = {cell.key for cell in grid.cells if cell.status == "complete"}
        grid = rw.resume(grid)

    assert 4 <= len(done) <= 6
    assert server.count - before <= 4
    assert grid.df.deal.tolist()[1:] == [expected(0, "", price=p) for p in module.PRICES]


def test_a_complete_grid_has_nothing_to_go_on_with(rw):
    grid = rw.grid(rw.run(), "quote", {"state.units": [1]})

    with pytest.raises(NothingToResumeError, match="complete"):
        rw.resume(grid)


@pytest.mark.parametrize("reopened", [False, True])
def test_what_failed_for_a_while_can_be_tried_again_and_nothing_else_is(tmp_path, reopened):
    down = threading.Event()
    down.set()

    def unavailable(seen):
        asked = {} if seen.prompt == "sign" else json.loads(seen.prompt)
        if down.is_set() and asked.get("price", 0) > 40 and not asked.get("again"):
            return Answer(b'{"error": {"message": "overloaded"}}', 503)
        return negotiating(seen)

    prices = [20.0, 50.0, 60.0]
    with provider(unavailable) as server, Store(tmp_path / "runs.db") as store:
        rw = Rewind(app(chat(server)), store=store)
        grid = rw.grid(rw.run(), "quote", {"output.price": prices}, outcome="deal")
        with pytest.raises(NothingToResumeError, match="2 runs of it failed. Pass retry='errors'"):
            rw.resume(grid)
        kept, failed = grid.cell(**{"output.price": 20.0}), grid.cell(**{"output.price": 60.0})
        assert (grid.status, failed.status) == ("complete", "failed")
        assert "503" in failed.error
        if reopened:
            rw = Rewind(app(chat(server)), store=store)
        down.clear()
        before = server.count
        again = rw.resume(store.experiment(grid.id), retry="errors")

        assert again.status == "complete"
        assert again.df.deal.tolist()[1:] == [expected(0, "", price=p) for p in prices]
        assert again.df.error.isna().all()
        assert server.count - before == 4  # an offer and a haggle for each of the two
        assert [cell.run.id for cell in again.cells] == [cell.run.id for cell in grid.cells]
        assert again[kept.key].run._row == kept.run._row
        attempts = store.read(_read_tasks.attempts, failed.run.id)
        assert [row.status for row in attempts if row.action == "negotiate"].count("failed") == 1
        with pytest.raises(NothingToResumeError, match="complete, and no run of it failed"):
            rw.resume(again, retry="errors")


def test_a_grid_that_was_stopped_tries_its_errors_again_only_where_that_is_asked(store):
    with provider(
        lambda seen: Answer(b"busy", 503) if "60" in seen.prompt else negotiating(seen)
    ) as server:
        rw = Rewind(app(chat(server)), store=store)
        run, over = rw.run(), {"output.price": [60.0, 20.0]}
        grid = rw.grid(run, "quote", over, budget=Budget(calls=1), max_workers=1)
        before = server.count
        grid = rw.resume(grid, budget=Budget(calls=9))
        plain = server.count - before
        grid = rw.resume(grid, retry="errors", budget=Budget(calls=9))

    assert (plain, server.count - before) == (1, 2)
    assert grid.df.status.tolist()[1:] == ["failed", "complete"]


def test_what_is_to_be_tried_again_is_said_in_one_word_and_of_an_experiment(rw):
    run = rw.run()
    grid = rw.grid(run, "quote", {"state.units": [1]})

    with pytest.raises(ConfigError, match="retry=True does not say.*'errors'"):
        rw.resume(grid, retry=True)
    with pytest.raises(ConfigError, match=r"rw\.resume\(run\) alone"):
        rw.resume(run, retry="errors")


# -- budgets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("calls", [0, 1, 7])
def test_a_budget_of_calls_is_exact_however_many_run_side_by_side(store, calls):
    with provider(slowly(negotiating)) as server:
        rw = Rewind(app(chat(server)), store=store)
        run = rw.run()
        before = server.count
        over = {"output.price": [60.0 + i for i in range(16)]}
        grid = rw.grid(run, "quote", over, budget=Budget(calls=calls), max_workers=16)

        assert server.count - before == calls
        assert grid.status == "interrupted"
        said = "1 call" if calls == 1 else f"{calls} calls"
        assert grid.note == f"stopped: its budget of {said} is spent"

        asked = server.count
        grid = rw.resume(grid, budget=Budget(calls=1000))

    assert grid.status == "complete"
    assert len({s.prompt for s in server.requests[before:]}) == server.count - before == 32
    assert server.count - asked == 32 - calls


@action(reads=["topic"], writes=["found"])
async def research(state: State, how: str, client: httpx.AsyncClient) -> State:
    async def ask(n):
        body = {"model": "toy", "messages": [{"role": "user", "content": f"{state['topic']} {n}"}]}
        answer = await client.post("/chat/completions", json=body)
        return answer.json()["choices"][0]["message"]["content"]

    if how == "gathered":
        found = await asyncio.gather(*map(ask, range(3)))
    elif how == "swallowed":
        found = await asyncio.gather(*map(ask, range(3)), return_exceptions=True)
    else:
        found = []
        for n in range(3):
            try:
                found.append(await ask(n))
            except:  # noqa: E722
                found.append("nothing")
    return state.update(found=list(map(str, found)))


@action(reads=[], writes=["topic"])
async def choose(state: State) -> State:
    return state.update(topic="cats")


def researching(server, how, kept=0):
    limits = httpx.Limits(max_keepalive_connections=kept)
    client = httpx.AsyncClient(base_url=server.base_url, timeout=30, limits=limits)
    return client, (
        ApplicationBuilder()
        .with_actions(choose=choose, research=research.bind(how=how, client=client))
        .with_transitions(("choose", "research"))
        .with_entrypoint("choose")
        .build()
    )


def echoing(seen):
    return completion(f"about {seen.prompt}")


@pytest.mark.parametrize("how", ["gathered", "swallowed", "caught"])
@pytest.mark.parametrize("calls", [1, 4, 5])
def test_a_budget_is_exact_for_calls_side_by_side_and_a_step_that_goes_on_without_is_not_complete(
    store, how, calls
):
    async def spend():
        client, application = researching(server, how)
        rw = Rewind(application, store=store)
        run = await rw.arun()
        before = server.count
        over = {"output.topic": ["dogs", "owls", "bees"]}
        grid = await rw.agrid(run, "choose", over, budget=Budget(calls=calls))
        spent = server.count, grid.df.live_calls[1:].fillna(0).sum()
        whole = await rw.aresume(grid, budget=Budget(calls=99))
        await client.aclose()
        return before, grid, spent, whole

    with provider(slowly(echoing)) as server:
        before, stopped, (spent, live), grid = asyncio.run(spend())

    assert spent - before == live == calls
    assert stopped.status == "interrupted"
    asked = [seen.prompt for seen in server.requests[before:]]
    assert len(asked) == len(set(asked)) == 9
    for topic, cell in zip(["dogs", "owls", "bees"], grid.cells[1:], strict=True):
        assert cell.run.state["found"] == [f"about {topic} {n}" for n in range(3)]


def test_an_interrupted_grid_of_an_async_application_goes_on_in_the_same_loop(store):
    with provider(slowly(echoing, 0.03)) as server:
        client, application = researching(server, "gathered", kept=20)
        rw = Rewind(application, store=store)
        run = rw.run()
        before = server.count
        rw.on(Stopping(7))
        with pytest.raises(KeyboardInterrupt) as stopped:
            rw.grid(run, "choose", {"output.topic": list("abcdefgh")}, max_workers=2)
        assert rw.last_experiment.id in stopped.value.__notes__[-1]
        grid = rw.resume(rw.last_experiment)
        _loops._lasting.runner.run(client.aclose())

    assert grid.df.error.isna().all()
    assert server.count - before == 24


def test_a_budget_of_tokens_may_be_overspent_by_the_calls_under_way_only(store):
    with provider(slowly(negotiating)) as server:
        rw = Rewind(app(chat(server)), store=store)
        run = rw.run()
        before = server.count
        over = {"output.price": [60.0 + i for i in range(16)]}
        grid = rw.grid(run, "quote", over, budget=Budget(tokens=100), max_workers=8)

    assert grid.usage.total_tokens == 16 * (server.count - before)
    assert server.count - before == 6  # 16 tokens each, as the recorded call used


def test_a_budget_limits_something_that_is_a_number():
    for wrong in ({}, {"calls": -1}, {"tokens": 1.5}, {"usd": float("nan")}, {"calls": True}):
        with pytest.raises(ConfigError):
            Budget(**wrong)


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("over", "error", "said"),
    [
        ({"promt": ["a"]}, ConfigError, "Did you mean 'prompt'"),
        ({"prompt": "a"}, ConfigError, "takes a list"),
        ({"prompt": []}, ConfigError, "no values"),
        ({}, ConfigError, "takes a dict"),
        ({"model.x": ["a"]}, ConfigError, "no fields"),
        ({"state[1].units": [1]}, ConfigError, "whole step"),
        ({"state": [{"units": 1}], "state.units": [1]}, ConfigError, "Two axes"),
        ({"state.unit": [1, 2]}, OverrideError, "does not read"),
        ({"prompt": ["a", "b"]}, OverrideError, "model call"),
        ({"output.price": [1.0], "state.units": [1]}, OverrideError, "Leave one of them out"),
        ({"output.price": [1.0], "patch.price": [2.0]}, OverrideError, "both replace 'price'"),
        ({"state.units": [1, object()]}, rewind_nb.errors.NotEncodableError, "object"),
    ],
)
def test_what_cannot_be_a_grid_is_refused_before_anything_executes(
    rw, server, store, over, error, said
):
    run = rw.run()
    before, rows = server.count, rows_of(store)

    with pytest.raises(error, match=said):
        rw.grid(run, "quote", over)

    assert server.count == before
    assert rows_of(store) == rows
    assert store.experiments() == []


@pytest.mark.parametrize(
    "over",
    [
        {"prompt": ["a"], "messages": [[{"role": "user", "content": "b"}]]},
        {"temperature": [0.1], "params.temperature": [0.2]},
        {"model": ["a"], "params.model": ["b"]},
    ],
)
def test_two_axes_that_replace_the_same_of_a_request_are_refused(rw, over):
    run = rw.run()
    with pytest.raises(OverrideError, match="both replace"):
        rw.grid(run, "negotiate", over)


def test_an_outcome_may_have_the_name_of_a_column(rw):
    run = rw.run(state={"units": 10, "country": "CH"})
    columns = ["price", "verdict", "run_id", "deal"]
    grid = rw.grid(run, "quote", {"state.units": [1]}, outcome=columns, check="price > 5")

    assert grid.outcome == ("price", "state.verdict", "state.run_id", "deal")
    assert grid.df["state.verdict"].tolist() == [MISSING, MISSING]
    assert grid.df.verdict.tolist() == ["pass", "fail"]
    assert grid.df.run_id.tolist() == [run.id, grid.runs[0].id]


def test_an_outcome_that_cannot_be_stored_exactly_is_no_outcome(rw):
    class Plain:
        def __repr__(self):
            return "always the same"

    grid = rw.grid(rw.run(), "quote", {"state.units": [1]}, outcome=lambda r: Plain())

    assert grid.df.outcome_changed.isna().all()
    assert grid.df.error.str.contains("Plain").all()


def test_a_budget_and_an_executor_are_what_they_are_called(rw):
    run = rw.run()
    for wrong in ({"budget": 5}, {"executor": 3}):
        with pytest.raises(ConfigError, match=next(iter(wrong))):
            rw.grid(run, "quote", {"state.units": [1]}, **wrong)


def test_a_plan_counts_what_is_supplied_and_not_what_else_the_step_wrote(rw):
    run = rw.run()
    grid = rw.grid(run, "negotiate", {"output.offer": [..., 20.0]}, start=False)

    assert grid.note == "not begun"
    assert (rw.plan(grid).forks, rw.plan(grid).steps, rw.plan(grid).model_calls) == (2, 1, 0)


def test_a_value_that_nothing_can_consume_is_a_cell_with_an_error(rw):
    run = rw.run()
    over = {"patch": [{"price": 60.0}, {"prize": 1.0}, {"price": 20.0}]}
    grid = rw.grid(run, "quote", over, outcome="deal")

    assert grid.df.status.tolist()[1:] == ["complete", "refused", "complete"]
    assert "prize" in grid.df.error[2]
    assert grid.df.deal.tolist()[1:] == [
        expected(0, "", price=60.0),
        MISSING,
        expected(0, "", price=20.0),
    ]
    assert grid["1/0"].run is None


def test_a_fork_that_fails_is_a_cell_with_an_error_and_loses_no_other(rw):
    grid = rw.grid(
        rw.run(),
        "quote",
        {"output.price": [60.0, "a lot", 20.0]},
        outcome="deal",
        check="deal exists",
    )

    assert grid.df.status.tolist()[1:] == ["complete", "failed", "complete"]
    assert grid.df.verdict.tolist()[1:] == ["pass", pd.NA, "pass"]
    assert grid.df.error[2]
    assert grid.status == "complete"


def test_samples_and_workers_are_numbers_from_one_on(rw):
    run = rw.run()
    for wrong in ({"samples": 0}, {"samples": 1.5}, {"max_workers": 0}):
        with pytest.raises(ConfigError):
            rw.grid(run, "quote", {"state.units": [1]}, **wrong)


# -- checks, tables ---------------------------------------------------------------------------------


def test_verdicts_of_a_grid_are_those_of_its_check(rw):
    grid = rw.grid(
        rw.run(), "quote", {"state.units": UNITS, "state.country": COUNTRIES},
        check="deal contains 'sold' and offer > 3",
    )  # fmt: skip

    for cell in grid.cells[1:]:
        units, country = cell.values["state.units"], cell.values["state.country"]
        offer = answered(units * grids.rate(country))
        assert cell.verdict.passed == ("sold" in expected(units, country) and offer > 3)


def test_a_pivot_has_the_share_that_passes_or_the_value_that_is_frequent(rw):
    over = {"state.units": UNITS, "state.country": COUNTRIES}
    grid = rw.grid(rw.run(), "quote", over, outcome="deal", check="deal contains 'sold'")
    shares, deals = grid.pivot(), grid.pivot("state.country", "state.units", "deal")

    many = rw.grid(rw.run(), "quote", over, check=lambda r: r.id[-1] < "8", samples=4)
    passed = many.df.iloc[1:].groupby("state.units").verdict.agg(lambda v: (v == "pass").mean())
    assert many.pivot("state.units").mean(axis=1).tolist() == pytest.approx(passed.tolist())
    for units, country in itertools.product(UNITS, COUNTRIES):
        assert shares.loc[str(units), country] == float("sold" in expected(units, country))
        assert deals.loc[country, str(units)] == expected(units, country)
    with pytest.raises(ExperimentError, match="state.units"):
        grid.pivot("state.unit")


def test_a_field_can_be_compared_across_all_cells(rw):
    grid = rw.grid(rw.run(), "quote", {"state.units": UNITS})
    compared = grid.compare("price")

    assert compared.value.tolist() == [30.0, *(u * 3.0 for u in UNITS)]
    assert compared.changed.tolist() == [False, *(u != 10 for u in UNITS)]


def test_a_cell_leads_to_its_fork_and_its_diff(rw):
    run = rw.run()
    grid = rw.grid(run, "quote", {"state.units": UNITS})
    cell = grid.cell(**{"state.units": 20})

    assert cell.run.parent_id == run.id
    assert grid.diff(cell).changes == rw.diff(run, cell.run).changes != ()
    assert grid[cell.key].run.id == cell.run.id
    with pytest.raises(ExperimentError, match="0 cells"):
        grid.cell(**{"state.units": 21})
    with pytest.raises(ExperimentError, match="no cell"):
        grid["9/9"]


def test_the_plan_says_what_a_grid_will_come_to(rw, server):
    run = rw.run()
    grid = rw.grid(run, "quote", {"output.price": [28.0, 29.0, 31.0]}, start=False)
    plan = rw.plan(grid)
    before = server.count
    assert (plan.forks, plan.steps, plan.model_calls) == (3, 6, 3)
    assert plan.tokens == 3 * 16

    grid = rw.resume(grid)

    executed = sum(grid.df.executed[1:])
    assert (len(grid.runs), executed, server.count - before) == (3, 6, 3)
    assert rw.plan(grid).forks == 0


def test_a_plan_counts_no_cell_that_is_what_was_recorded(rw, server):
    run = rw.run()
    same = rw.grid(run, "quote", {"output.price": [30.0, ...]}, samples=3, start=False)
    some = rw.grid(run, "quote", {"output.price": [30.0, 31.0]}, samples=2, start=False)
    state = rw.grid(run, "quote", {"state.units": [10, 11], "state.country": ["CH"]}, start=False)
    asked = rw.grid(run, "negotiate", {"temperature": [0.0, 0.5], "model": ["toy"]}, start=False)

    assert repr(rw.plan(same)) == "<Estimate: 6 forks, 0 steps, 0 model calls, 0 tokens, $0>"
    assert rw.plan(same).exact
    assert (rw.plan(some).forks, rw.plan(some).steps, rw.plan(some).model_calls) == (4, 4, 2)
    assert "4 forks, at most 4 steps and 2 model calls, about 32 tokens" in repr(rw.plan(some))
    assert (rw.plan(state).forks, rw.plan(state).steps, rw.plan(state).model_calls) == (2, 3, 1)
    assert (rw.plan(asked).steps, rw.plan(asked).model_calls) == (2, 1)

    before = server.count
    for grid in (same, some, state, asked):
        plan, began = rw.plan(grid), server.count
        grid = rw.resume(grid)
        steps, calls = int(grid.df.executed[1:].sum()), server.count - began
        assert steps <= plan.steps
        assert calls <= plan.model_calls
        assert not plan.exact or (steps, calls) == (plan.steps, plan.model_calls)
    assert server.count > before


def test_a_plan_counts_no_call_of_a_cell_that_is_refused(rw):
    run = rw.run()
    over = {"patch": [{"price": 60.0}, {"prize": 1.0}]}
    plan = rw.plan(rw.grid(run, "quote", over, start=False))

    assert (plan.forks, plan.steps, plan.model_calls) == (1, 2, 1)


def test_a_plan_counts_only_the_changed_keys_and_what_reads_them(rw):
    run = rw.run()
    nobody = rw.plan(rw.grid(run, "sign", {"output.note": ["other"]}, start=False))
    stays = rw.plan(rw.grid(run, "negotiate", {"state.price": [60.0]}, start=False))

    assert (nobody.steps, nobody.model_calls, nobody.exact) == (0, 0, True)
    assert (stays.steps, stays.model_calls, stays.exact) == (2, 1, False)


@action(reads=["topic"], writes=["said"])
def twice(state: State, model: ChatModel) -> State:
    first = model.chat(f"{state['topic']} first").text
    return state.update(said=[first, model.chat(f"{state['topic']} second").text])


@action(reads=["topic", "said"], writes=["more"])
def later(state: State, model: ChatModel) -> State:
    return state.update(more=model.chat(f"{state['topic']} later {state['said'][0]}").text)


def talking(model):
    return (
        ApplicationBuilder()
        .with_actions(twice=twice.bind(model=model), later=later.bind(model=model))
        .with_transitions(("twice", "later"))
        .with_state(topic="cats")
        .with_entrypoint("twice")
        .build()
    )


def test_a_plan_counts_no_call_before_the_overridden_one_and_none_that_is_supplied(store):
    with provider(echoing) as server:
        rw = Rewind(talking(chat(server)), store=store)
        run = rw.run()

        def plan(over, at="twice", **more):
            grid = rw.grid(run, at, over, start=False, **more)
            return grid, rw.plan(grid)

        first, one = plan({"temperature": [0.5]})
        second, two = plan({"temperature[1]": [0.5]})
        answer, three = plan({"response[1]": ["other"]})
        state, four = plan({"state.topic": ["dogs"]})
        anew, five = plan({"temperature[1]": [0.5]}, cache="refresh")
        every, six = plan({"temperature[1]": [0.5]}, reuse="none")
        played, seven = plan({"temperature[1]": [0.5]}, cache="replay")

        asked = [e.model_calls for e in (one, two, three, four, five, six, seven)]
        assert asked == [3, 2, 1, 3, 3, 2, 0]
        assert [e.steps for e in (one, two, three, four, five, six)] == [2] * 6
        for grid, most in ((first, 3), (second, 2), (answer, 1), (state, 3), (anew, 3), (every, 2)):
            before = server.count
            rw.resume(grid)
            assert server.count - before <= most
        assert len(played.runs) == 0


@pytest.mark.parametrize("calls", [1, 2, 3, 4, 5])
def test_a_plan_of_a_stopped_grid_counts_no_answer_that_it_had(store, calls):
    with provider(echoing) as server:
        rw = Rewind(talking(chat(server)), store=store)
        run = rw.run()
        over = {"state.topic": ["dogs", "owls"]}
        whole = rw.plan(rw.grid(run, "twice", over, start=False))
        grid = rw.grid(run, "twice", over, budget=Budget(calls=calls), max_workers=1)
        left, before = rw.plan(grid), server.count
        done = rw.resume(grid, budget=Budget(calls=99))

    assert (whole.forks, whole.steps, whole.model_calls) == (2, 4, 6)
    assert left.model_calls == 6 - calls == server.count - before
    assert left.tokens == 16 * left.model_calls
    assert left.forks == (2 if calls < 3 else 1)
    assert done.status == "complete"


def test_the_frame_of_a_grid_has_its_documented_columns(rw):
    from rewind_nb._experiment_frames import CELL_COLUMNS, EXPERIMENT_COLUMNS

    grid = rw.grid(rw.run(), "quote", {"state.units": [1]}, outcome=["deal", "nowhere"])
    df = grid.df

    assert [c for c in df if c in CELL_COLUMNS] == list(CELL_COLUMNS)
    assert {c: df[c].dtype for c in CELL_COLUMNS} == CELL_COLUMNS
    assert df.nowhere.tolist() == [MISSING, MISSING]
    experiments = rw.store.experiments_df()
    assert experiments.dtypes.to_dict() == EXPERIMENT_COLUMNS
    assert experiments.question[0] == grid.question()


# -- reopening, other ways to run -----------------------------------------------------------------


def test_a_grid_is_the_same_when_its_store_is_opened_again(server, tmp_path):
    with Store(tmp_path / "runs.db") as store:
        rw = Rewind(app(chat(server)), store=store)
        grid = rw.grid(
            rw.run(),
            "quote",
            {"state.units": UNITS},
            outcome=lambda run: len(run),
            check=lambda run: run.state["price"] > 5,
        )
        shown = repr(grid), grid._repr_html_(), grid.df

    with Store(tmp_path / "runs.db", read_only=True) as store:
        again = store.experiment(grid.id[:5])

        assert (repr(again), again._repr_html_()) == shown[:2]
        pd.testing.assert_frame_equal(again.df, shown[2])
        with pytest.raises(ExperimentNotFoundError, match=grid.id):
            store.experiment("e_zzz" + grid.id)


def test_a_grid_asked_with_a_function_goes_on_only_where_it_was_made(rw, store):
    run = rw.run()
    grid = rw.grid(run, "quote", {"state.units": [1]}, check=lambda r: True, start=False)
    other = Rewind(app(None), store=store)

    with pytest.raises(ExperimentError, match="function"):
        other.resume(grid)
    assert rw.resume(grid).status == "complete"


def in_a_loop(test):
    @functools.wraps(test)
    def run(**fixtures):
        asyncio.run(test(**fixtures))

    return run


@in_a_loop
async def test_a_grid_runs_in_the_running_loop(server, store):
    model = chat(server)
    rw = Rewind(async_app(model), store=store)
    run = await rw.arun()
    grid = await rw.agrid(
        run, "quote", {"output.price": [20.0, 60.0]}, outcome="offer", max_workers=2
    )
    inside = rw.grid(run, "quote", {"output.price": [60.0, 20.0]}, outcome="offer")  # answered
    await model.aclose()

    assert grid.df.offer.tolist()[1:] == [18.0, 54.0]
    assert inside.df.offer.tolist()[1:] == [54.0, 18.0]


@in_a_loop
async def test_a_cancelled_grid_goes_on(store):
    with provider(slowly(negotiating, 0.1)) as server:
        model = chat(server)
        rw = Rewind(async_app(model), store=store)
        run = await rw.arun()
        over = {"output.price": [20.0 + i for i in range(12)]}
        task = asyncio.ensure_future(rw.agrid(run, "quote", over, max_workers=3, outcome="offer"))
        await asyncio.sleep(0.25)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        grid = await rw.aresume(rw.last_experiment)
        await model.aclose()

    asked = [seen.prompt for seen in server.requests]
    assert len(asked) == len(set(asked))
    assert grid.df.offer.tolist()[1:] == [answered(p) for p in over["output.price"]]


@action(reads=["units"], writes=["price"])
async def aquote(state: State) -> State:
    return state.update(price=state["units"] * 3.0)


@action(reads=["price"], writes=["offer"])
async def anegotiate(state: State, model: ChatModel) -> State:
    reply = await model.achat(json.dumps({"price": state["price"]}))
    return state.update(offer=reply.json()["offer"])


def async_app(model):
    return (
        ApplicationBuilder()
        .with_actions(quote=aquote, negotiate=anegotiate.bind(model=model))
        .with_transitions(("quote", "negotiate"))
        .with_state(units=10)
        .with_entrypoint("quote")
        .build()
    )


def test_any_executor_of_concurrent_futures_makes_the_forks(tmp_path):
    with provider() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRID_PROVIDER", server.base_url)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
        rw = Rewind(grids.built, store=tmp_path / "runs.db")
        run = rw.run()
        import multiprocessing

        with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
            grid = rw.grid(run, "quote", {"state.units": UNITS}, outcome="deal", executor=pool)
            with pytest.raises(ConfigError, match="budget"):
                rw.grid(run, "quote", {"state.units": [3]}, executor=pool, budget=Budget(calls=1))

    assert grid.df.deal.tolist()[1:] == [expected(u, "CH") for u in UNITS]


def test_an_application_that_cannot_go_to_another_process_is_refused_clearly(rw):
    run = rw.run()
    with ProcessPoolExecutor(1) as pool, pytest.raises(ConfigError, match="builds the application"):
        rw.grid(run, "quote", {"state.units": [1]}, executor=pool)


def test_a_store_of_schema_2_gets_a_table_for_experiments(tmp_path, server):
    import sqlite3

    path = tmp_path / "runs.db"
    with Store(path) as store:
        run = Rewind(app(chat(server)), store=store).run()
    raw = sqlite3.connect(path)
    raw.executescript(
        "DROP INDEX runs_experiment; DROP TABLE experiments;"
        "CREATE TABLE experiments (id TEXT NOT NULL, kind TEXT NOT NULL, run_id TEXT,"
        " spec TEXT NOT NULL, status TEXT NOT NULL, created_at FLOAT NOT NULL,"
        " row_hash TEXT NOT NULL, PRIMARY KEY (id));"
        "PRAGMA user_version=2;"
    )
    raw.close()

    with Store(path) as store:
        rw = Rewind(app(chat(server)), store=store)
        grid = rw.grid(run.id, "quote", {"state.units": [1]})

        assert store.experiment(grid.id).status == "complete"
        assert store.verify().ok


# -- any runs ---------------------------------------------------------------------------------------


def test_any_recorded_runs_stand_in_one_table_held_against_the_first(rw):
    run = rw.run(label="base")
    dear = rw.fork(run, "quote", output={"price": 90.0})
    same = rw.fork(run, "quote", output={"price": 30.0})
    table = rw.compare(run, dear.id, same, outcome="deal", check="deal contains 'sold'")
    df = table.df

    assert df.run_id.tolist() == [run.id, dear.id, same.id]
    assert df.deal.tolist() == [expected(10, "CH"), expected(0, "", price=90.0), expected(10, "CH")]
    assert df.outcome_changed.tolist() == [pd.NA, True, False]
    assert df.verdict.tolist() == ["pass", "fail", "pass"]
    assert df.divergence.tolist() == [pd.NA, "step 0 'quote'", pd.NA]
    assert table.diff(0, 1).changes == rw.diff(run, dear).changes
    assert "2 of 3 pass" in repr(table)
    assert "base" in table._repr_html_()
    with pytest.raises(ConfigError, match="needs runs"):
        rw.compare()
