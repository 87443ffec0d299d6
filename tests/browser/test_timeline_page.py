"""The timeline in a browser: the tree by keys, the slider, two compared, a fork made in it."""

import contextlib

import apps
import pytest
from live_page import LivePage
from playwright.sync_api import expect
from test_timeline import XSS, notes_app

from rewind_nb import Rewind, Store
from rewind_nb.widgets import Timeline
from rewind_nb.widgets._coalescer import COALESCER

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def store():
    with Store(":memory:") as opened:
        yield opened


@pytest.fixture(scope="module")
def runs(store):
    """A run, two forks of it, a fork of one of these; and one that failed."""
    failing = Rewind(notes_app(["one", XSS, "three"], fails_at=2), store=store)
    with contextlib.suppress(ValueError):
        failing.run(label=XSS)
    rw = Rewind(apps.branch_app(450), store=store)
    run = rw.run(label="trip")
    cheap = rw.fork(run, "judge", state={"fare": 90})
    dear = rw.fork(run, "judge", state={"fare": 1450})
    return rw, run, cheap, dear, rw.fork(dear, "summarise", state={"verdict": "fine"})


@pytest.fixture
def saved(page, store, runs, tmp_path):
    """The store as a page without Python."""
    page.goto(store.to_html(tmp_path / "store.html").as_uri())
    expect(page.get_by_role("tree")).to_be_visible()
    yield page
    assert page.problems == []


@pytest.fixture
def live(page, runs):
    """The timeline with its Python and a Rewind."""
    rw, run, *_ = runs
    timeline = Timeline(rw.store, rw=rw, run_id=run.id)
    yield LivePage(page, timeline)
    timeline.close()
    assert page.problems == []


def row(page, run):
    return page.locator(f'[role=treeitem][data-run="{run.id}"]')


def shown(page):
    return page.get_by_role("treeitem").evaluate_all("(rows) => rows.map((row) => row.dataset.run)")


def told(page):
    return page.get_by_role("region", name="the selected run")


def test_the_arrow_keys_move_fold_and_unfold_and_enter_selects(saved, runs):
    page, (_, run, cheap, dear, inner) = saved, runs
    tree = page.get_by_role("tree")
    everything = [run.id, dear.id, inner.id, cheap.id]
    assert shown(page)[:4] == everything
    expect(row(page, inner)).to_have_attribute("aria-level", "3")
    expect(row(page, cheap)).to_have_attribute("aria-setsize", "2")
    tree.focus()
    tree.press("Home")
    tree.press("ArrowDown")
    active = page.locator(".rw-active")
    expect(active).to_have_attribute("data-run", dear.id)
    assert tree.get_attribute("aria-activedescendant") == active.get_attribute("id")
    tree.press("ArrowLeft")
    expect(row(page, dear)).to_have_attribute("aria-expanded", "false")
    assert shown(page)[:3] == [run.id, dear.id, cheap.id]
    tree.press("ArrowRight")
    tree.press("ArrowRight")
    expect(active).to_have_attribute("data-run", inner.id)
    tree.press("Enter")
    expect(row(page, inner)).to_have_attribute("aria-selected", "true")
    expect(told(page)).to_contain_text(inner.id)
    tree.press("ArrowLeft")
    expect(active).to_have_attribute("data-run", dear.id)


def test_runs_are_found_by_a_text_with_the_way_to_them(saved, runs):
    page, (_, run, _, dear, inner) = saved, runs
    page.get_by_role("searchbox").fill("VERDICT = 'fine'")
    expect(page.get_by_role("treeitem")).to_have_count(3)
    assert shown(page) == [run.id, dear.id, inner.id]
    expect(page.locator(".rw-count")).to_have_text("1 of 5 runs")
    page.get_by_role("searchbox").fill("")
    page.get_by_role("button", name="failed").click()
    expect(page.get_by_role("treeitem")).to_have_count(1)


def test_the_slider_shows_the_state_at_each_step_with_what_the_step_changed(saved, runs):
    page, (_, run, *_) = saved, runs
    row(page, run).click()
    slider = page.get_by_role("slider", name="step of the run")
    slider.focus()
    slider.press("Home")
    assert run.steps[0].label in slider.get_attribute("aria-valuetext")
    state = page.locator(".rw-state-of")
    touched = [f"{key}" for key in run.steps[0].writes]
    expect(state.locator(".rw-touched")).to_have_count(len(touched))
    expect(state.locator(".rw-touched").first).to_contain_text("+ added")
    slider.press("ArrowRight")
    expect(page.locator(".rw-slider-head")).to_contain_text(run.steps[1].label)
    page.get_by_role("button", name="the step after").click()
    expect(page.locator(".rw-slider-head")).to_contain_text("3 of 3")
    expect(told(page)).to_contain_text(f"rw.replay('{run.id}', ('{run.steps[2].action}', 1))")


def test_a_failed_run_shows_where_and_hostile_text_stays_text(saved):
    page = saved
    page.get_by_role("treeitem", name="failed").click()
    expect(told(page)).to_contain_text("ValueError: no note 2: <img src=x")
    expect(told(page)).to_contain_text("State that entered this step, which left none")
    page.get_by_role("button", name="the step before").click()
    expect(page.locator("[data-field=note]")).to_contain_text("<img src=x onerror")
    assert page.locator("img, .rw-widget script").count() == 0


def test_a_fork_is_compared_with_its_parent_in_a_saved_page(saved, runs):
    page, (rw, run, _, dear, _) = saved, runs
    row(page, dear).click()
    page.get_by_role("button", name="Selected with its parent").click()
    pair = page.get_by_role("region", name="compare two runs")
    diff = rw.diff(run, dear)
    expect(pair).to_contain_text(f"{len(diff.changes)} changes")
    expect(pair).to_contain_text(diff.divergence.path)
    pair.get_by_role("button", name=diff.divergence.label).click()
    expect(page.locator(".rw-slider-head")).to_contain_text(diff.divergence.label)


def test_any_two_runs_are_compared_and_others_hear_of_it(live, runs):
    page, (_, _, cheap, dear, _) = live.page, runs
    row(page, cheap).click()
    page.get_by_role("button", name="Selected as A").click()
    row(page, dear).click()
    page.get_by_role("button", name="Selected as B").click()
    expect(page.get_by_role("region", name="compare two runs")).to_contain_text("first divergence")
    assert live.view.compared == f"{cheap.id} {dear.id}"
    assert (live.view.diff.a.id, live.view.run_id) == (cheap.id, dear.id)
    expect(row(page, cheap).locator(".rw-side")).to_have_text("A")
    page.get_by_role("button", name="Clear").click()
    assert live.view.compared == ""


def test_a_step_is_edited_forked_and_the_fork_is_in_the_tree(live):
    page = live.page
    page.get_by_role("slider", name="step of the run").press("Home")
    page.get_by_role("button", name="the step after").click()
    page.get_by_role("button", name="Edit, fork or reproduce here").click()
    live.sync()
    editor = page.locator(".rw-editor")
    field = editor.locator('[data-field="state.fare"]')
    field.get_by_role("button").first.click()
    field.locator("textarea, input").fill("778")
    fork = editor.get_by_role("button", name="Fork here")
    expect(fork).to_be_enabled()
    fork.click()
    while not live.view._editing["result"]:
        page.wait_for_timeout(20)
    COALESCER.settle()
    live.sync()
    made = live.view._editing["result"]
    expect(page.locator(f'[data-run="{made}"]')).to_contain_text("state fare = 778")
    editor.get_by_role("button", name="Edit the fork").click()
    live.sync()
    expect(told(page).locator(".rw-head").first).to_contain_text(made)
    assert live.view.run_id == made


def test_a_narrow_page_does_not_scroll_sideways(saved, runs):
    saved.set_viewport_size({"width": 600, "height": 900})
    row(saved, runs[3]).click()
    saved.get_by_role("button", name="Selected with its parent").click()
    assert saved.evaluate("document.documentElement.scrollWidth") <= 600


def test_of_two_thousand_runs_only_those_in_view_are_in_the_page(live, runs):
    page, [first, *_] = live.page, live.view._drawn["runs"]
    many = [{**first, "id": f"r_{n}", "level": 1 + n % 3} for n in range(2_000)]
    page.evaluate("(told) => window.put(told)", {"_drawn": {**live.view._drawn, "runs": many}})
    tree = page.get_by_role("tree")
    tree.press("End")
    expect(page.locator('[data-run="r_1999"]')).to_be_in_viewport()
    assert page.get_by_role("treeitem").count() < 60
    page.get_by_role("searchbox").fill("r_1500")
    expect(page.get_by_role("treeitem")).to_have_count(1)
