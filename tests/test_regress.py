"""Recorded runs as a suite: what regressed, what did not, and what cannot be told."""

import sys

import pytest
from burr.core import ApplicationBuilder, State, action
from click.testing import CliRunner
from fake_provider import FakeProvider, completion

from rewind_nb import ChatModel, Rewind, Store, cli
from rewind_nb._budget import Budget
from rewind_nb._suite_frames import CASE_COLUMNS
from rewind_nb.demo import booking
from rewind_nb.errors import ConfigError, ExperimentError, StepNotFoundError
from rewind_nb.experiments._case import Case
from rewind_nb.experiments._probes import Probe

CONFIRMED = "output contains 'confirmed'"
CITIES = ("Lisbon", "Oslo", "Tokyo")

# What samples say together, each by its letter: pass, fail or error.
VERDICTS = {
    "pass": ("p", "ppf", "ppe"),
    "fail": ("f", "pf", "pff", "fe"),
    "error": ("e", "pe", "pee", "fee", "ppfe"),
}


def recorded(store=":memory:", **settings):
    """A Rewind of the booking agent that recorded a run to each city."""
    rw = Rewind(booking.build(), store=store)
    for city in CITIES:
        rw.rebind(booking.build(city, **settings)).run(halt_after=["reply"], label=city)
    return rw


def results(regress):
    return {case.run.label: case.result for case in regress}


# -- what each start tests ------------------------------------------------------------------


@pytest.mark.parametrize("start", ["first", "search", ("search", 1), 0, "check_budget"])
def test_a_tightened_budget_is_reported_for_exactly_the_runs_it_breaks(start):
    rw = recorded()

    loose = rw.rebind(booking.build(limit=500.0)).regress(check=CONFIRMED, start=start)
    tight = rw.rebind(booking.build(limit=400.0)).regress(check=CONFIRMED, start=start)

    assert results(loose) == dict(
        zip(CITIES, ("still passing", "regressed", "still failing"), strict=True)
    )
    assert results(tight) == dict(
        zip(CITIES, ("regressed", "regressed", "still failing"), strict=True)
    )
    assert [case.run.label for case in loose.regressed] == ["Oslo"]
    assert not loose.ok
    assert loose["Oslo"].diff.divergence.path == "approved"
    assert "limit changed 1000.0 -> 500.0" in loose["Oslo"].words


def test_a_start_after_the_change_misses_it_as_the_docs_warn():
    rw = recorded()
    rw.rebind(booking.build(limit=400.0))

    last = rw.regress(check=CONFIRMED, start="last")

    assert last.ok
    assert {case.step for case in last} == {"4 'reply'"}
    assert "is not seen" in Rewind.regress.__doc__


def test_from_the_last_step_only_that_is_executed_and_from_the_first_all():
    rw = recorded()

    first, last = (rw.regress(check=CONFIRMED, start=start) for start in ("first", "last"))

    assert list(first.df.executed) == [5, 5, 5]
    assert list(last.df.executed) == [1, 1, 1]
    assert first.live_calls == 12  # three look-ups and a model for each; the booking is played
    assert last.live_calls == 0


def test_an_action_is_resumed_at_its_last_visit_unless_one_is_named():
    @action(reads=["n"], writes=["n"])
    def count(state: State) -> State:
        return state.update(n=state["n"] + 1)

    app = (
        ApplicationBuilder()
        .with_actions(count)
        .with_transitions(("count", "count"))
        .with_state(n=0)
        .with_entrypoint("count")
        .build()
    )
    rw = Rewind(app, store=":memory:")
    driven = rw.application()
    for _ in range(3):
        driven.step()

    name, visit = (rw.regress(check="n == 3", start=at) for at in ("count", ("count", 2)))

    assert (name[0].step, visit[0].step) == ("2 'count'", "1 'count'")
    assert name.ok
    assert visit.ok


# -- what a result means --------------------------------------------------------------------


def test_the_verdict_of_a_case_is_what_its_unjudged_samples_could_not_turn():
    now = {}
    for verdicts in (verdicts for known in VERDICTS.values() for verdicts in known):
        words = {"p": "pass", "f": "fail", "e": None}
        probes = [Probe(str(n), None, words[v], "why") for n, v in enumerate(verdicts)]
        case = Case(None, "0 'a'", "pass", "", tuple(probes), {}, None, len(probes))
        now[verdicts] = case.now

    assert now == {verdicts: word for word, known in VERDICTS.items() for verdicts in known}


def test_what_failed_when_it_was_recorded_and_passes_now_is_fixed():
    rw = recorded(limit=400.0)
    rw.rebind(booking.build())
    booked = []

    stubbed = rw.regress(
        check=CONFIRMED, effects={"book_flight": lambda city, fare: booked.append(city) or "dry"}
    )

    fixed = ("fixed", "fixed", "still failing")
    assert results(stubbed) == dict(zip(CITIES, fixed, strict=True))
    assert sorted(booked) == ["Lisbon", "Oslo"]
    assert stubbed.ok


def test_an_effect_that_was_not_recorded_is_refused_and_the_error_names_the_argument():
    rw = recorded(limit=400.0)

    refused = rw.rebind(booking.build()).regress(check=CONFIRMED)

    assert results(refused) == dict(zip(CITIES, ("error", "error", "still failing"), strict=True))
    assert not refused.ok
    assert 'effects={"book_flight"' in refused["Lisbon"].words.replace("'", '"')


def test_an_effect_that_was_recorded_is_not_fired_again_while_all_else_is_asked_anew():
    rw = recorded()

    regress = rw.regress(check=CONFIRMED)

    calls = [c for run in regress.runs for s in run.steps for c in s.calls if c.kind != "clock"]
    fired = {call.source for call in calls if call.name == "book_flight"}
    assert fired == {"tool-cache"}
    assert {call.source for call in calls if call.name != "book_flight"} == {"live"}


def test_a_run_that_cannot_be_judged_is_an_error_and_costs_nothing():
    rw = recorded()

    regress = rw.regress(check="booking contains 'LIS'")

    assert results(regress) == dict(
        zip(CITIES, ("still passing", "still failing", "error"), strict=True)
    )
    assert "cannot be judged" in regress["Tokyo"].error
    assert {run.parent.label for run in regress.runs} == {"Lisbon", "Oslo"}


def test_a_step_that_a_run_never_came_to_is_its_error_and_of_all_runs_is_raised():
    rw = recorded()

    regress = rw.regress(check=CONFIRMED, start="book")

    assert results(regress)["Tokyo"] == "error"
    assert "has no step 'book'" in regress["Tokyo"].error
    with pytest.raises(StepNotFoundError, match="Did you mean 'search'"):
        rw.regress(check=CONFIRMED, start="serch")


def test_a_re_execution_that_raises_is_an_error_that_says_what(monkeypatch):
    rw = recorded()
    monkeypatch.setitem(booking.FARES, "Oslo", None)

    regress = rw.regress(check=CONFIRMED)

    assert results(regress)["Oslo"] == "error"
    assert "TypeError" in regress["Oslo"].words
    assert "no such" not in regress["Oslo"].words


def test_a_run_of_another_application_is_an_error():
    @action(reads=[], writes=["output"])
    def other(state: State) -> State:
        return state.update(output="confirmed")

    rw = recorded()
    app = ApplicationBuilder().with_actions(other).with_entrypoint("other").build()
    Rewind(app, store=rw.store).run(label="other", halt_after=["other"])

    regress = rw.regress(check=CONFIRMED)

    assert results(regress)["other"] == "error"
    assert "'other', which this application does not have" in regress["other"].words
    assert "Tokyo" in results(regress)


# -- which runs, with what ------------------------------------------------------------------


def test_the_suite_is_the_recorded_runs_that_ended_and_no_forks_or_probes():
    rw = recorded()
    lisbon = rw.store.runs()[0]
    rw.fork(lisbon, "decide", prompt='{"fare": 2000}')
    rw.grid(lisbon, "decide", {"temperature": [0.1, 0.2]})

    assert [case.run.label for case in rw.regress(check=CONFIRMED)] == list(CITIES)


def test_a_named_fork_is_executed_again_with_its_override():
    rw = recorded()
    fork = rw.fork(rw.store.runs()[0], "search", patch={"fare": 2000.0})

    regress = rw.regress([fork], check="output == 'Not booked.'")

    assert [case.result for case in regress] == ["still passing"]
    assert regress[0].fork.state["fare"] == 2000.0


def test_a_re_execution_has_the_recorded_inputs_and_halts():
    @action(reads=[], writes=["asked"])
    def ask(state: State, question: str) -> State:
        return state.update(asked=question)

    @action(reads=["asked"], writes=["answered"])
    def answer(state: State, reply: str) -> State:
        return state.update(answered=f"{state['asked']} {reply}")

    app = (
        ApplicationBuilder()
        .with_actions(ask, answer)
        .with_transitions(("ask", "answer"), ("answer", "ask"))
        .with_entrypoint("ask")
        .build()
    )
    rw = Rewind(app, store=":memory:")
    half = rw.run(halt_after=["ask"], inputs={"question": "where?"})
    rw.resume(half, inputs={"reply": "Oslo"}, halt_after=["answer"])

    regress = rw.regress(check="answered == 'where? Oslo' and @status == 'halted'")

    assert regress.ok
    assert len(regress[0].fork) == 2


def test_what_cannot_be_asked_is_refused_before_anything_executes():
    rw = recorded()
    step = rw.store.runs()[0][0]
    for bad in (step, None, True, 1.5, ("search", "1")):
        with pytest.raises(ConfigError, match="'first', 'last', or a step"):
            rw.regress(check=CONFIRMED, start=bad)
    with pytest.raises(ConfigError, match="samples=0"):
        rw.regress(check=CONFIRMED, samples=0)
    with pytest.raises(ConfigError, match="runs= has no run"):
        rw.regress([], check=CONFIRMED)
    with pytest.raises(ConfigError, match="There is no recorded run"):
        Rewind(booking.build(), store=Store(":memory:")).regress(check=CONFIRMED)
    assert rw.store.experiments() == []


def test_samples_ask_the_model_each_for_itself_and_the_majority_counts():
    """Every third answer decides against it."""
    lock = []

    def jittering(seen):
        lock.append(seen)
        return completion("no" if len(lock) % 3 == 1 else "yes")

    @action(reads=[], writes=["output"])
    def decide(state: State, model: ChatModel) -> State:
        return state.update(output=model.chat("go?").text)

    with FakeProvider(completion("yes"), then=jittering) as provider:
        model = ChatModel(provider.base_url, "toy", max_retries=0)
        app = (
            ApplicationBuilder()
            .with_actions(decide=decide.bind(model=model))
            .with_entrypoint("decide")
            .build()
        )
        rw = Rewind(app, store=":memory:")
        rw.run(halt_after=["decide"])

        regress = rw.regress(check="output == 'yes'", samples=6)

        assert provider.count == 7
    case = regress[0]
    assert (case.passes, case.judged, case.result) == (4, 6, "still passing")
    assert case.fork.state["output"] == "yes"
    row = regress.df.iloc[0]
    assert row.pass_rate == pytest.approx(4 / 6)
    assert row.low < row.pass_rate < row.high


# -- stopping and reading again -------------------------------------------------------------


def test_a_suite_that_was_stopped_by_its_budget_goes_on_and_makes_nothing_again():
    rw = recorded()

    stopped = rw.regress(check=CONFIRMED, budget=Budget(calls=2), max_workers=1)
    made = {run.id for run in stopped.runs if run.status == "complete"}
    before = [case.result for case in stopped]
    went_on = rw.resume(stopped, budget=Budget(calls=100))

    assert (stopped.status, stopped.ok) == ("interrupted", False)
    assert before.count("not run") == 1
    assert (went_on.status, went_on.ok) == ("complete", True)
    assert made < {run.id for run in went_on.runs}
    calls = [c for run in went_on.runs for s in run.steps for c in s.calls if c.kind == "model"]
    assert len(calls) == 3


def test_a_suite_reads_the_same_from_its_file(tmp_path):
    rw = recorded(tmp_path / "runs.db")
    regress = rw.rebind(booking.build(limit=500.0)).regress(check=CONFIRMED, label="nightly")
    rw.store.close()

    again = Store(tmp_path / "runs.db", read_only=True).experiment(regress.id)

    assert repr(again) == repr(regress)
    assert "1 regressed (Oslo), 1 still passing, 1 still failing" in repr(again)
    assert again.df.equals(regress.df)
    assert again._repr_html_() == regress._repr_html_()
    assert (again.asked["mode"], again.label) == ({"reuse": "none", "cache": "refresh"}, "nightly")


def test_another_process_goes_on_unless_a_function_was_part_of_it(tmp_path):
    rw = recorded(tmp_path / "runs.db")
    text = rw.regress(check=CONFIRMED, begin=False)
    function = rw.regress(check=lambda run: True, begin=False)
    rw.store.close()
    other = Rewind(booking.build(limit=500.0), store=tmp_path / "runs.db")

    assert results(other.resume(text.id and other.store.experiment(text.id)))["Oslo"] == "regressed"
    with pytest.raises(ExperimentError, match="does not give functions back"):
        other.resume(other.store.experiment(function.id))


def test_a_plan_says_what_a_suite_comes_to_before_it_does():
    rw = recorded()

    regress = rw.regress(check=CONFIRMED, samples=2, begin=False)
    plan = rw.plan(regress)

    assert (plan.forks, plan.steps, plan.model_calls) == (6, 30, 6)
    assert {case.result for case in regress} == {"not run"}
    assert rw.resume(regress).usage.total_tokens == plan.tokens


def test_the_frame_has_its_columns_also_where_nothing_is_known():
    rw = recorded()

    done, none = rw.regress(check=CONFIRMED), rw.regress(check=CONFIRMED, begin=False)

    for frame in (done.df, none.df):
        assert dict(frame.dtypes) == CASE_COLUMNS
    assert list(done.df.run_id) == [run.id for run in rw.store.runs() if run.kind == "record"]


def test_a_case_is_found_by_label_by_id_and_by_position():
    rw = recorded()
    regress = rw.regress(check=CONFIRMED)
    oslo = rw.store.runs()[1]

    assert {regress[key].run.label for key in ("Oslo", oslo.id, oslo.id[:8], oslo, 1)} == {"Oslo"}
    with pytest.raises(ExperimentError, match="0 runs .* fit 'Paris'"):
        regress["Paris"]


async def _async_suite(rw):
    return await rw.aregress(check=CONFIRMED)


def test_the_async_twin_does_the_same():
    import asyncio

    rw = recorded()
    rw.rebind(booking.build(limit=500.0))

    regress = asyncio.run(_async_suite(rw))

    assert [case.run.label for case in regress.regressed] == ["Oslo"]


# -- the command ------------------------------------------------------------------------------


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """A folder with a store of recorded runs, and the command to test it with."""
    recorded(tmp_path / "runs.db").store.close()
    lines = [
        "from functools import partial",
        "from rewind_nb.demo.booking import build",
        "tight = partial(build, limit=500.0)",
        "ready = build()",
    ]
    (tmp_path / "my_booking.py").write_text("\n".join(lines))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "my_booking", raising=False)

    def invoke(app="my_booking:build", check=CONFIRMED, *more):
        given = ["regress", "--app", app, "--check", check, "--store", "runs.db", *more]
        return CliRunner().invoke(cli.main, given)

    return invoke


def test_the_command_prints_a_line_per_run_and_the_totals(suite):
    done = suite()

    assert done.exit_code == 0
    *lines, totals = done.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["still passing"] * 2 + ["still failing"]
    assert totals.startswith("2 still passing, 1 still failing; 3 runs, 12 live calls, ")


def test_the_command_fails_on_a_regression_and_says_how_to_look_at_it(suite):
    done = suite("my_booking:tight")

    assert done.exit_code == 1
    assert "regressed: " in done.stdout
    assert "1 run: regressed. What differs: `rewind diff r_" in done.stderr
    command = done.stderr.split("`")[1].split()[1:]
    assert "first divergence: step 2 'check_budget'" in CliRunner().invoke(cli.main, command).stdout


def test_the_command_fails_on_an_error(suite):
    assert suite("my_booking:ready", CONFIRMED, "--start", "book").exit_code == 1


def test_the_command_takes_some_runs_a_start_and_stubs(suite):
    with Store("runs.db", read_only=True) as store:
        oslo = next(run for run in store.runs() if run.label == "Oslo")

    one = suite("my_booking:tight", CONFIRMED, "--run", oslo.id, "--start", "last")
    visit = suite("my_booking:tight", CONFIRMED, "--run", oslo.id[:10], "--start", "search:1")
    stub = suite("my_booking:build", CONFIRMED, "--stub", "book_flight=null")

    assert (one.exit_code, one.stdout.count("\n")) == (0, 2)
    assert (visit.exit_code, visit.stdout.count("\n")) == (1, 2)
    assert stub.exit_code == 0


def test_the_command_fires_no_effect_unless_it_is_told_to(suite):
    with Store("runs.db") as store:
        rw = Rewind(booking.build(limit=400.0), store=store)
        run = rw.run(halt_after=["reply"], label="declined")
    given = ("my_booking:build", CONFIRMED, "--run", run.id)

    refused, stubbed = suite(*given), suite(*given, "--stub", 'book_flight="dry run"')
    fired = suite(*given, "--live-effects")

    assert (refused.exit_code, stubbed.exit_code, fired.exit_code) == (1, 0, 0)
    assert "a fork does not fire it by itself" in refused.stdout
    assert "fixed: " in stubbed.stdout
    assert "confirmed: dry run." in stubbed.stdout
    assert "confirmed: LIS-0450." in fired.stdout


@pytest.mark.parametrize(
    ("app", "check", "more", "said"),
    [
        ("my_booking", CONFIRMED, [], "module:attribute"),
        ("my_booking:tigt", CONFIRMED, [], "Did you mean 'tight'?"),
        ("my_bookings:tight", CONFIRMED, [], "There is no module 'my_bookings'"),
        ("my_booking:tight", "output contans 'x'", [], "Did you mean 'contains'"),
        ("my_booking:tight", CONFIRMED, ["--samples", "0"], "from 1 on"),
        ("my_booking:tight", CONFIRMED, ["--store", "no.db"], "There is no store at no.db"),
        ("my_booking:tight", CONFIRMED, ["--stub", "book_flight"], "no TOOL=JSON"),
        ("my_booking:tight", CONFIRMED, ["--stub", "a=1", "--live-effects"], "not both"),
    ],
)
def test_what_the_command_cannot_understand_is_a_usage_error(suite, app, check, more, said):
    done = suite(app, check, *more)

    assert done.exit_code == 2
    assert said in done.stderr


def test_a_module_that_needs_another_one_says_which(suite):
    with open("broken.py", "w") as file:
        file.write("import nothing_like_it")

    done = suite("broken:app")

    assert done.exit_code == 1
    assert "No module named 'nothing_like_it'" in done.stderr


def test_the_application_may_be_built_or_a_function(suite):
    assert suite("my_booking:ready").exit_code == suite("my_booking:build").exit_code == 0
