"""The widget of a grid: what it draws and tells, and that it starts, stops and goes on."""

import asyncio
import gc
import json
import subprocess
import sys
import threading
import time
import weakref
from contextlib import closing
from functools import partial

import pytest
import traitlets
from fake_provider import completion, status
from grids import app, chat, expected, jittering, negotiating, provider, slowly
from test_grid import echoing, researching

from rewind_nb import Budget, Rewind, Secret, Store, _loops
from rewind_nb._drive import Ended
from rewind_nb.errors import ConfigError, ExperimentError, NothingToResumeError, RunBusyError
from rewind_nb.widgets import ExperimentView, GridView
from rewind_nb.widgets._coalescer import COALESCER
from rewind_nb.widgets._grid_drawn import CELLS

UNITS, COUNTRIES = [1, 5, 10, 20], ["CH", "NO", "DE"]
OVER = {"state.units": UNITS, "state.country": COUNTRIES}
SOLD = "deal contains 'sold'"


@pytest.fixture
def server():
    with provider(slowly(jittering(), 0.02)) as running:
        yield running


@pytest.fixture
def rw(server, store):
    return Rewind(app(chat(server)), store=store)


@pytest.fixture
def run(rw):
    return rw.run()


@pytest.fixture
def grid(rw, run):
    return rw.grid(run, "quote", OVER, outcome="deal", check=SOLD)


@pytest.fixture
def planned(rw, run):
    """A grid that has not begun, one run at a time."""
    return rw.grid(run, "quote", OVER, outcome="deal", start=False, max_workers=1)


def by_key(view):
    return {cell["key"]: cell for cell in view._drawn["grid"]["cells"]}


def soon(true, seconds=10):
    until = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < until:
        time.sleep(0.01)
    return found


# -- what is drawn --------------------------------------------------------------------------


def test_every_cell_shows_its_verdict_and_outcome_as_text(grid):
    view = grid.view()
    cells = by_key(view)

    assert isinstance(view, GridView)
    assert len(cells) == 12
    for i, units in enumerate(UNITS):
        for j, country in enumerate(COUNTRIES):
            cell, deal = cells[f"{i},{j}/0"], expected(units, country)
            assert cell["lines"] == [deal]
            assert (cell["state"], cell["share"]) == (
                ("pass", 1.0) if "sold" in deal else ("fail", 0.0)
            )
            assert cell["words"] == cell["state"]
    assert [axis["name"] for axis in view._drawn["grid"]["axes"]] == list(OVER)
    assert {one["words"]: one["count"] for one in view._drawn["grid"]["legend"]} == {
        "pass": 9,
        "fail": 3,
    }


def test_samples_of_a_cell_are_one_cell_with_a_pass_rate(rw, server, run):
    turns = iter(range(100))

    def sometimes(seen):
        if seen.prompt == "sign":
            return completion(f"signed {next(turns)}")
        return negotiating(seen)

    server._then = sometimes
    grid = rw.grid(
        run, "sign", {"prompt": ["sign", ...]}, samples=4, check="note in ['signed 0', 'signed 1']",
        max_workers=1, cache="refresh",
    )  # fmt: skip
    cell = by_key(grid.view())["0/0"]
    passes = sum(one.verdict.outcome == "pass" for one in grid if one.key.startswith("0/"))

    assert 0 < passes < 4
    assert cell["share"] == passes / 4
    assert cell["words"] == f"{passes} of 4 pass"
    assert cell["state"] == "mixed"


def test_without_a_check_cells_tell_whether_the_outcome_changed(rw, run):
    view = rw.grid(run, "quote", {"state.units": UNITS}, outcome="deal").view()

    assert [cell["state"] for cell in by_key(view).values()] == [
        "changed", "changed", "same", "changed",
    ]  # fmt: skip
    assert view._drawn["grid"]["baseline"]["lines"] == [expected(10, "CH")]


def test_the_error_of_a_cell_is_shown_in_it_and_the_others_are_there(rw, run):
    view = rw.grid(run, "negotiate", {"response": ['{"offer": 12}', "no json"]}).view()
    good, bad = by_key(view).values()

    assert good["state"] == "changed"
    assert bad["state"] == "failed"
    assert (
        "cannot be read as JSON"
        in view.answer({"ask": "cell", "args": {"key": bad["key"]}})["answer"]["error"]
    )


def test_a_refused_cell_tells_why(rw, run):
    over = {"output": [{"price": 3.0}, {"prize": 4.0}]}
    view = rw.grid(run, "quote", over).view()
    refused = by_key(view)["1/0"]

    assert refused["state"] == "refused"
    told = view._told.cell("1/0")
    assert "prize" in told["error"]
    assert told["run_id"] == ""


def test_hostile_text_is_plain_and_bounded(rw, run):
    hostile = "<img src=x onerror=alert(1)>\u202e\x1b[31m" + "x" * 100_000
    grid = rw.grid(run, "sign", {"prompt": [hostile]}, label=hostile, start=False)
    view = grid.view()
    told = json.dumps([view.state(), view._told.cell("0/0")], ensure_ascii=False)

    assert "\u202e" not in told
    assert "\x1b" not in told
    assert len(told) < 20_000


def test_a_secret_in_a_value_is_in_no_trait_and_no_answer(rw, run):
    key = "told-only-later-" + "a1B2" * 10
    grid = rw.grid(run, "sign", {"prompt": [f"{'x' * 24} {key} now"]}, label=key, start=False)
    Secret(key)
    view = grid.view()

    assert "told" not in json.dumps([view.state(), view._told.cell("0/0")])


def test_only_so_many_cells_are_drawn_and_it_says_how_many_more(rw, run):
    many = {"state.units": list(range(CELLS + 7))}
    view = rw.grid(run, "quote", many, start=False).view()

    assert len(view._drawn["grid"]["cells"]) == CELLS
    assert view._drawn["grid"]["more"] == 7


# -- what is told of one --------------------------------------------------------------------


def test_a_cell_opens_with_its_values_run_samples_and_cost(rw, run):
    grid = rw.grid(run, "quote", OVER, samples=2, outcome="deal", check=SOLD)
    told = grid.view().answer({"ask": "cell", "args": {"key": "3,1/1"}})["answer"]
    cell = grid["3,1/1"]

    assert told["values"] == [["state.units", "20"], ["state.country", "NO"]]
    assert told["run_id"] == cell.run.id
    assert [one["key"] for one in told["samples"]] == ["3,1/0", "3,1/1"]
    assert told["verdict"] == "fail"
    assert told["outcome"] == [["deal", expected(20, "NO"), expected(10, "CH")]]
    facts = dict(told["facts"])
    assert facts["steps"] == f"{cell.facts.executed} executed, {cell.facts.reused} reused"
    assert facts["tokens"] == str(cell.facts.tokens)
    assert facts["cost"] == str(cell.facts.cost)


def test_the_diff_of_a_cell_is_what_the_diff_says(rw, grid):
    told = grid.view().answer({"ask": "diff", "args": {"key": "0,1/0"}})["answer"]
    diff = rw.diff(grid.run, grid["0,1/0"].run)

    assert told["count"] == len(diff.changes)
    assert told["first"] == diff.divergence.label
    assert [change[1] for change in told["changes"]] == [c.path for c in diff.changes[:5]]


def test_a_cell_that_is_not_there_is_an_error_with_near_misses(grid):
    answer = grid.view().answer({"ask": "cell", "args": {"key": "9,1/0"}})

    assert "has no cell '9,1/0'" in answer["error"]


def test_cells_that_ask_for_the_same_say_whose_run_they_show(rw, run):
    view = rw.grid(run, "quote", {"state.units": [5, 5]}).view()

    assert view._told.cell("1/0")["same_as"] == "0/0"
    assert view._told.cell("1/0")["run_id"] == view._told.cell("0/0")["run_id"]


def test_a_selected_cell_sets_the_run_id_and_a_linked_graph_shows_it(grid):
    view, graph = grid.view(), grid.run.view()
    traitlets.link((view, "run_id"), (graph, "run_id"))

    view.selection = "1,2/0"
    assert view.run_id == graph.run.id == grid["1,2/0"].run.id
    view.selection = "baseline"
    assert graph.run.id == grid.run.id
    graph.run_id = grid["2,0/0"].run.id
    assert view.selection == "2,0/0"


# -- making its runs ------------------------------------------------------------------------


def test_a_grid_that_has_not_begun_says_what_it_will_come_to_and_executes_nothing(
    rw, planned, server
):
    before = server.count
    with closing(planned.view()) as view:
        assert view._drawn["can"] == "start"
        assert view._drawn["head"]["status"] == "not begun"
        assert view._drawn["plan"] == repr(rw.plan(planned))[11:-1]
        assert {cell["state"] for cell in by_key(view).values()} == {"not run"}
    assert server.count == before
    assert planned.refresh().runs == ()


def test_start_makes_every_run_beside_the_cell_and_shows_each_as_it_ends(planned):
    with closing(planned.view()) as view:
        shown = []
        view.observe(lambda change: shown.append(change.new["over"]), "_drawn")
        began = time.perf_counter()
        assert view.answer({"ask": "start"}) == {"answer": "begins"}
        assert time.perf_counter() - began < 1
        assert view.wait(30)
        assert view.experiment.status == view._drawn["head"]["status"] == "complete"
        assert [cell["lines"] for cell in by_key(view).values()] == [
            [expected(units, country)] for units in UNITS for country in COUNTRIES
        ]
        assert any(0 < over < 12 for over in shown)
        assert shown[-1] == 12
        assert view._drawn["can"] == view._drawn["plan"] == view.problem == ""


def test_a_stopped_grid_goes_on_and_nothing_is_asked_twice(planned, server):
    with closing(planned.view()) as view:
        view.start()
        assert soon(lambda: len(view.experiment.refresh().runs) >= 3)
        assert view.answer({"ask": "stop"}) == {"answer": "stops"}
        assert view.wait(30)
        over = view._cells.ended()[0]
        assert 0 < over < 12
        assert view.experiment.status == "interrupted"
        assert view._drawn["can"] == "resume"
        assert view._drawn["plan"]

        view.start()
        assert view.wait(30)
        assert view.experiment.status == "complete"
        assert view._cells.ended() == (12, 12)
    asked = [seen.prompt for seen in server.requests[1:]]
    assert len(asked) == len(set(asked))


def test_one_that_runs_does_not_begin_again_and_a_complete_one_does_not_go_on(planned):
    with closing(planned.view()) as view:
        view.start()
        with pytest.raises(RunBusyError, match="running already"):
            view.start()
        assert "running already" in view.answer({"ask": "start"})["error"]
        assert view.wait(30)
        with pytest.raises(NothingToResumeError, match="is complete"):
            view.start()


def test_two_views_of_one_grid_show_and_stop_the_same(planned):
    with closing(planned.view()) as first, closing(planned.view()) as second:
        first.start()
        assert soon(lambda: second._drawn["over"] > 0)
        assert second._drawn["stops"]
        second.stop()
        assert first.wait(30)
        assert soon(lambda: second._drawn["head"]["status"] == "interrupted")
        assert second._drawn["can"] == "resume"


def test_a_grid_that_a_cell_runs_is_shown_live_and_stops_from_the_widget(rw, planned):
    with closing(planned.view()) as view:
        cell = threading.Thread(target=partial(rw.resume, planned))
        cell.start()
        assert soon(lambda: view._drawn["over"] > 0)
        view.stop()
        cell.join(30)
        assert soon(lambda: view._drawn["head"]["status"] == "interrupted")
        assert 0 < view._drawn["over"] < 12


def test_closing_the_widget_stops_what_it_began(planned):
    view = planned.view()
    view.start()
    assert soon(lambda: len(planned.refresh().runs) >= 2)
    view.close()
    assert soon(lambda: planned.refresh().status == "interrupted")
    assert len(planned.refresh().runs) < 12


def test_a_budget_stops_it_and_the_note_says_so(rw, run):
    grid = rw.grid(run, "quote", OVER, budget=Budget(calls=3), start=False)
    with closing(grid.view()) as view:
        view.start()
        assert view.wait(30)
        assert "stopped" in view._drawn["head"]["note"]
        assert view._drawn["can"] == "resume"


def test_an_experiment_out_of_a_store_has_no_buttons_until_a_rewind_is_given(rw, planned, store):
    found = store.experiment(planned.id)
    view = found.view()

    assert view._drawn["can"] == ""
    assert "rw.resume" in view._drawn["cannot"]
    with pytest.raises(ConfigError, match=r"experiment\.view\(rw\)"):
        view.start()
    with pytest.raises(ExperimentError, match="does not run in this process"):
        view.stop()
    with closing(found.view(rw)) as able:
        able.start()
        assert able.wait(30)
        assert able.experiment.status == "complete"


def test_what_no_store_gives_back_is_said_before_start_is_pressed(server, store, run, rw):
    grid = rw.grid(run, "quote", OVER, check=lambda run: True, start=False)
    another = Rewind(app(chat(server)), store=store)
    view = store.experiment(grid.id).view(another)

    assert view._drawn["can"] == ""
    assert "function" in view._drawn["cannot"]


@pytest.mark.thorough  # a cell that has just begun is told as interrupted for a moment
def test_a_function_as_a_check_is_called_once_for_each_run(rw, run):
    judged = []

    def sold(run):
        judged.append(run.id)
        return "sold" in run.state["deal"]

    grid = rw.grid(run, "quote", OVER, check=sold, start=False, max_workers=1)
    with closing(grid.view()) as view:
        states = set()
        view.observe(lambda _: states.update(c["state"] for c in by_key(view).values()), "_drawn")
        view.start()
        assert view.wait(30)
        assert by_key(view)["3,1/0"]["state"] == "fail"
        assert states <= {"not run", "running", "ended", "pass", "fail"}
    assert len(judged) == len(set(judged)) == 13


def test_an_asynchronous_application_goes_on_in_the_loop_that_its_client_knows(store):
    """As in a notebook: a loop is running in the thread of the cells."""

    async def cells():
        with provider(slowly(echoing, 0.03)) as server:
            client, application = researching(server, "gathered", kept=20)

            async def close_client():
                await client.aclose()
                return Ended("complete", None)

            rw = Rewind(application, store=store)
            over = {"output.topic": list("abcdefghijkl")}
            grid = rw.grid(rw.run(), "choose", over, start=False, max_workers=2)
            with closing(grid.view()) as view:
                view.start()
                assert soon(lambda: len(view.experiment.refresh().runs) >= 3)
                view.stop()
                assert view.wait(30)
                assert 0 < view._cells.ended()[0] < 12
                view.start()
                assert view.wait(30)
                assert view.problem == ""
                assert {cell["state"] for cell in by_key(view).values()} == {"changed"}
            _loops.wait_for(close_client)  # in the loop that its connections belong to
            return server.count

    assert asyncio.run(cells()) == 3 * 13


def test_the_errors_of_a_complete_grid_are_tried_again(rw, run, server):
    good, server._then = server._then, status(500)
    grid = rw.grid(run, "quote", {"state.country": ["NO", "DE"]}, outcome="deal")
    with closing(grid.view()) as view:
        assert {cell["state"] for cell in by_key(view).values()} == {"failed"}
        assert view._drawn["can"] == "retry"
        server._then = good
        assert view.answer({"ask": "start", "args": {"retry": "errors"}}) == {"answer": "begins"}
        assert view.wait(30)
        assert [cell["lines"] for cell in by_key(view).values()] == [
            [expected(10, "NO")], [expected(10, "DE")],
        ]  # fmt: skip
        assert view._drawn["can"] == ""


# -- every kind -----------------------------------------------------------------------------


def test_every_kind_of_experiment_has_a_view_and_a_page(rw, run, tmp_path):
    made = [
        rw.sweep(run, "quote", {"state.units": UNITS}, check=SOLD),
        rw.flip(run, "quote", "state.units", SOLD, candidates=[5, 60]),
        rw.regress(run, check=SOLD),
        rw.stability(run, k=2),
    ]
    for one in made:
        with closing(one.view()) as view:
            assert isinstance(view, ExperimentView)
            assert view._drawn["answer"] == one.answer()
            assert view._drawn["table"]["columns"] == one.table()[0]
            assert view.html() == one._repr_html_()
        assert one.id in one.to_html(tmp_path / "page.html").read_text("utf-8")


def test_a_saved_page_holds_what_is_told_of_every_cell(grid, tmp_path):
    page = grid.to_html(tmp_path / "grid.html").read_text("utf-8")

    for cell in grid:
        assert f"r_{cell.run.id[2:]}" in page
    for asked in ('[\\"cell\\",{\\"key\\":\\"3,2/0\\"}]', '[\\"diff\\",{\\"key\\":\\"3,2/0\\"}]'):
        assert asked in page


# -- as a widget ----------------------------------------------------------------------------


def test_the_text_of_a_view_is_short_and_says_the_same_each_time(grid):
    view = grid.view()

    assert repr(view) == repr(grid.view()) == "<GridView of 12 cells, 12 ended, complete>"
    assert view._repr_mimebundle_()[0]["text/html"] == grid._repr_html_()


def test_views_that_were_closed_leave_nothing_behind(rw, grid, planned):
    refs = []
    for one in (grid, planned):
        for _ in range(20):
            view = one.view()
            view.refresh()
            view.close()
            refs.append(weakref.ref(view))
            del view
    assert COALESCER.settle()
    time.sleep(0.1)
    gc.collect()
    assert sum(ref() is not None for ref in refs) == 0
    assert rw._hooks == []
    assert not [t for t in threading.enumerate() if t.name.startswith("rewind-widget")]


def test_a_large_grid_is_sent_seldom_and_its_last_state_always(rw, run, monkeypatch):
    grid = rw.grid(run, "quote", {"state.units": list(range(2_000))}, start=False)
    with closing(grid.view()) as view:
        drawn = iter(range(1_000_000))
        monkeypatch.setattr(view, "_draw", lambda _: {"n": next(drawn)})
        sent = []
        view.observe(lambda change: sent.append(change.new["n"]), "_drawn")
        until = time.monotonic() + 2
        while time.monotonic() < until:
            view.refresh()
            time.sleep(0.01)
        early = len(sent)
        assert soon(lambda: len(sent) > early)
        assert early <= 3


EXITS = """
import time
from burr.core import ApplicationBuilder, State, action
from rewind_nb import Rewind
@action(reads=["units"], writes=["total"])
def quote(state: State) -> State:
    time.sleep(0.1)
    return state.update(total=state["units"])
app = (ApplicationBuilder().with_actions(quote).with_transitions().with_state(units=0)
       .with_entrypoint("quote").build())
rw = Rewind(app, store="grid.db")
over = {"state.units": list(range(1, 1000))}
rw.grid(rw.run(), "quote", over, start=False, max_workers=1).view().start()
time.sleep(0.3)
"""


def test_the_interpreter_ends_without_making_what_is_left_and_it_can_be_gone_on_with(tmp_path):
    subprocess.run([sys.executable, "-c", EXITS], cwd=tmp_path, check=True, timeout=60)
    with Store(tmp_path / "grid.db") as store:
        (grid,) = store.experiments()
        assert grid.status == "interrupted"
        assert 0 < len(grid.runs) < 100
