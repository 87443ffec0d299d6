"""A grid in a browser: its axes, its cells, the keys; it starts, stops and goes on in JupyterLab."""

import os
import time
from contextlib import closing
from pathlib import Path

import pytest
from grids import app, chat, expected, negotiating, provider, slowly
from live_page import LivePage
from playwright.sync_api import expect

from rewind_nb import Rewind, Store

pytestmark = pytest.mark.browser

PICTURES = os.environ.get("REWIND_PICTURES")
OVER = {"state.units": [1, 5, 10, 20], "state.country": ["CH", "NO", "DE"]}
XSS = "<img src=x onerror=document.title='owned'>"


@pytest.fixture(scope="module")
def rw():
    with provider(slowly(negotiating, 0.02)) as server, Store(":memory:") as store:
        yield Rewind(app(chat(server)), store=store)


@pytest.fixture(scope="module")
def run(rw):
    return rw.run()


@pytest.fixture
def show(page, tmp_path):
    def opened(grid):
        page.goto(grid.to_html(tmp_path / "grid.html").as_uri())
        page.locator(".rw-widget").wait_for()
        return page

    return opened


def cell(page, name):
    return page.locator(".rw-matrix").get_by_role("button", name=name)


def picture(page, name):
    if PICTURES:
        Path(PICTURES).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True)


def test_a_cell_opens_its_run_its_samples_and_its_diff(rw, run, show):
    grid = rw.grid(run, "quote", OVER, samples=2, outcome="deal", check="deal contains 'sold'")
    page = show(grid)
    cell(page, "10, NO:").click()
    detail = page.locator(".rw-detail")
    expect(detail).to_contain_text(grid["2,1/0"].run.id)
    expect(detail).to_contain_text(expected(10, "NO"))
    expect(detail).to_contain_text(f"{len(grid.diff('2,1/0').changes)} changes from the baseline")
    detail.get_by_role("group", name="samples").get_by_role("button").nth(1).click()
    expect(detail).to_contain_text(grid["2,1/1"].run.id)
    expect(cell(page, "10, NO:")).to_have_attribute("aria-pressed", "true")
    assert page.problems == []


def test_axes_change_places_and_a_third_one_is_chosen_beside_the_matrix(rw, run, show):
    grid = rw.grid(
        run, "negotiate", {"state.price": [1.0, 50.0], "temperature": [0, 1], "model": ["a", "b"]}
    )
    page = show(grid)
    assert page.locator(".rw-matrix tbody tr").count() == 2
    page.get_by_label("model", exact=True).select_option("b")
    cell(page, "50.0, 1:").click()
    expect(page.locator(".rw-detail")).to_contain_text(grid["1,1,1/0"].run.id)
    page.get_by_label("Rows", exact=True).select_option("model")
    cell(page, "b, 1:").click()
    expect(page.locator(".rw-detail")).to_contain_text(grid["0,1,1/0"].run.id)
    page.get_by_label("Columns", exact=True).select_option("model")
    expect(page.get_by_label("Rows", exact=True).locator("option:checked")).to_have_text(
        "temperature"
    )
    assert page.problems == []


def test_the_matrix_is_one_stop_of_the_tab_key_and_arrows_move_in_it(rw, run, show):
    page = show(rw.grid(run, "quote", OVER, outcome="deal"))
    assert page.locator(".rw-matrix button[tabindex='0']").count() == 1
    cell(page, "1, CH:").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(cell(page, "5, NO:")).to_be_focused()
    expect(cell(page, "5, NO:")).to_have_attribute("aria-pressed", "true")


def test_hostile_text_is_text_in_every_place(rw, run, show):
    grid = rw.grid(run, "negotiate", {"response": [XSS, f'{{"offer": "{XSS}"}}']}, label=XSS)
    page = show(grid)
    for button in page.locator(".rw-matrix button").all():
        button.click()
        expect(page.locator(".rw-detail")).to_contain_text("<img src=x")
    assert page.locator(".rw-widget img").count() == 0
    assert page.title() != "owned"
    assert page.problems == []


def test_a_thousand_cells_are_drawn_in_less_than_a_second(rw, run, page):
    over = {"state.units": list(range(40)), "state.country": [f"C{n}" for n in range(25)]}
    with closing(rw.grid(run, "quote", over, start=False).view()) as view:
        began = time.perf_counter()
        live = LivePage(page, view)
        expect(page.locator(".rw-matrix tbody button")).to_have_count(1000)
        assert time.perf_counter() - began < 3
        turned = page.evaluate(
            """(told) => { const began = performance.now(); window.put(told);
            return new Promise((done) => requestAnimationFrame(() =>
              setTimeout(() => done(performance.now() - began)))); }""",
            {**view.state(), "_drawn": {**view._drawn, "over": 1}},
        )
        assert turned < 1000
    assert live.page.problems == []


def test_cells_turn_as_they_end_and_the_selected_one_is_told_anew(rw, run, page):
    grid = rw.grid(run, "quote", {"state.units": [2, 3, 40]}, outcome="deal", start=False)
    with closing(grid.view()) as view:
        live = LivePage(page, view)
        expect(page.locator(".rw-plan")).to_contain_text("3 forks")
        cell(page, "40:").click()
        expect(page.locator(".rw-detail")).to_contain_text("not run")
        page.get_by_role("button", name="▶ Start").click()
        assert view.wait(20)
        live.sync()
        expect(page.locator(".rw-head").first).to_contain_text("complete")
        expect(cell(page, "40:")).to_contain_text(expected(40, "CH"))
        expect(page.locator(".rw-detail")).to_contain_text(view.run_id)
        assert view.run_id
        assert page.get_by_role("button", name="▶ Start").count() == 0
    assert page.problems == []


def test_an_error_of_a_button_is_shown_beside_it(rw, run, page):
    grid = rw.grid(run, "quote", {"state.units": [2, 3]}, start=False)
    with closing(grid.view()) as view:
        LivePage(page, view)
        rw.resume(grid)
        page.get_by_role("button", name="▶ Start").click()
        expect(page.get_by_role("alert")).to_contain_text("is complete")


@pytest.mark.parametrize("width", [600, 1000])
def test_nothing_of_it_is_wider_than_its_place(rw, run, show, width):
    grid = rw.grid(run, "quote", OVER, samples=2, outcome="deal", check="deal contains 'sold'")
    page = show(grid)
    page.set_viewport_size({"width": width, "height": 900})
    cell(page, "10, NO:").click()
    page.get_by_text("changes from the baseline").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        picture(page, f"grid-{width}-{scheme}")


MAKE = """
import warnings; warnings.filterwarnings("ignore")
import time
from burr.core import ApplicationBuilder, State, action
from rewind_nb import Rewind, tool
asked = []
@tool
def price(units: int) -> int:
    asked.append(units)
    time.sleep(0.1)
    return units * 3
@action(reads=["units"], writes=["total"])
def quote(state: State) -> State:
    return state.update(total=price(state["units"]))
app = (ApplicationBuilder().with_actions(quote).with_transitions().with_state(units=0)
       .with_entrypoint("quote").build())
rw = Rewind(app, store=":memory:")
grid = rw.grid(rw.run(), "quote", {"state.units": list(range(1, 13))}, outcome="total",
               max_workers=1, start=False)
"""


@pytest.mark.thorough  # test_end_to_end_in_lab.py has a shorter one
@pytest.mark.xdist_group("jupyter")
@pytest.mark.parametrize("server", ["lab", "plain_lab"])
def test_in_jupyterlab_it_starts_stops_and_goes_on_and_nothing_is_made_twice(page, request, server):
    notebook = request.getfixturevalue(server).open(
        page, "grid", MAKE, "grid", "print(grid.refresh().status, len(asked), len(set(asked)))"
    )
    notebook.run(0)
    notebook.run(1)
    head = page.locator(".rw-widget .rw-head").first
    expect(head).to_contain_text("not begun")
    page.get_by_role("button", name="▶ Start").click()
    expect(head).to_contain_text("running")
    expect(page.locator(".rw-matrix .rw-is-changed").nth(2)).to_be_visible()
    page.get_by_role("button", name="Stop").click()
    expect(head).to_contain_text("interrupted")
    assert notebook.value(2).startswith("interrupted")
    page.get_by_role("button", name="Resume").click()
    expect(head).to_contain_text("12 of 12 ended")
    expect(head).to_contain_text("complete")
    assert notebook.value(2) == "complete 13 13"
    picture(page, f"grid-in-{server}")
    assert page.problems == []
