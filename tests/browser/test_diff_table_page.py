"""The page of a diff in a browser: rows open, are found, lead to their step; text stays text."""

from contextlib import closing

import pytest
from burr.core import ApplicationBuilder, State, action, expr
from playwright.sync_api import expect
from test_diff_table import XSS, city_app, value_app

from rewind_nb import Rewind, Store

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def store():
    with Store(":memory:") as opened:
        yield opened


@pytest.fixture(scope="module")
def city(store):
    rw = Rewind(city_app(), store=store)
    run = rw.run()
    return rw.diff(
        run, rw.fork(run, "search", patch={"facts.people": 140_000, "facts.rows": [1, 2, 3, 4]})
    )


@pytest.fixture(scope="module")
def many(store):
    """A diff of 10,000 changes in ten steps."""

    @action(reads=["n", "turn"], writes=["turn", "table"])
    def fill(state: State) -> State:
        table = {f"k{i}": f"cell {i} of {state['n']}" for i in range(1_000)}
        return state.update(turn=state["turn"] + 1, table={f"t{state['turn']}": table})

    app = (
        ApplicationBuilder()
        .with_actions(fill)
        .with_transitions(("fill", "fill", expr("turn < 10")))
        .with_state(n=1, turn=0)
        .with_entrypoint("fill")
        .build()
    )
    rw = Rewind(app, store=store)
    run = rw.run()
    return rw.diff(run, rw.fork(run, 0, state={"n": 2}))


@pytest.fixture
def show(page, tmp_path):
    """Opens a diff as a page; what is selected at first may be given."""

    def opened(diff, **selected):
        with closing(diff.view(**selected)) as table:
            path = table.to_html(tmp_path / "diff.html")
        page.goto(path.as_uri())
        expect(page.locator(".rw-widget")).to_be_visible()
        return page

    return opened


def rows(page):
    return page.locator(".rw-change")


def test_a_row_opens_with_its_words_compared_and_the_chain_that_led_to_it(show, city):
    page = show(city)
    rows(page).filter(has_text="report").first.click()
    told = page.locator(".rw-told")
    expect(told.locator("del")).to_have_text("134794")
    expect(told.locator("ins")).to_have_text("140000")
    told.get_by_role("button", name="why?").click()
    chain = page.locator(".rw-chains")
    expect(chain).to_contain_text("replace facts.people = 140000")
    chain.get_by_role("button", name="search").click()
    expect(page.locator(".rw-at")).to_have_count(2)
    expect(page.locator(".rw-at").first).to_contain_text("facts.people")
    expect(told).to_be_visible()
    expect(page.locator(".rw-active")).to_contain_text("report")  # one does not lose one's place
    assert page.problems == []


def test_the_arrow_keys_move_and_enter_opens(show, city):
    page = show(city)
    grid = page.get_by_role("grid")
    grid.focus()
    grid.press("ArrowDown")
    grid.press("ArrowDown")
    active = page.locator(".rw-active")
    expect(active).to_contain_text("report")
    assert grid.get_attribute("aria-activedescendant") == active.get_attribute("id")
    grid.press("Enter")
    expect(active).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".rw-told ins")).to_have_text("140000")
    expect(page.locator(".rw-group-row [aria-pressed=true]")).to_have_text("step 1 'write'")
    grid.press("Enter")
    expect(page.locator(".rw-told")).to_have_count(0)
    grid.press("End")
    expect(active).to_contain_text("@artifacts")
    grid.press("Home")
    expect(active).to_contain_text("facts.people")
    assert page.problems == []


def test_changes_of_a_kind_are_shown_alone(show, city):
    page = show(city)
    added = page.get_by_role("button", name="added")
    added.click()
    expect(page.locator(".rw-count")).to_have_text("1 of 7 changes")
    expect(rows(page)).to_contain_text("facts.rows[3]")
    added.click()
    expect(page.locator(".rw-count")).to_have_text("7 of 7 changes")
    page.get_by_role("button", name="Group by step").click()
    expect(page.locator(".rw-group-row")).to_have_count(0)
    expect(rows(page)).to_have_count(7)
    assert page.problems == []


def test_changes_are_found_by_a_text_and_counted(show, many):
    page = show(many)
    told = page.locator(".rw-count")
    total = f"{len(many.changes):,}"
    expect(told).to_have_text(f"{total} of {total} changes")
    page.get_by_role("searchbox").fill("CELL 77 of")
    expect(told).to_have_text(f"10 of {total} changes")
    expect(rows(page)).to_have_count(10)
    page.get_by_role("searchbox").fill("nowhere")
    expect(told).to_have_text(f"0 of {total} changes")
    page.get_by_role("button", name="Show all").click()
    expect(told).to_have_text(f"{total} of {total} changes")
    assert page.problems == []


def test_of_ten_thousand_changes_only_those_in_view_are_in_the_page(show, many):
    page = show(many)
    grid = page.get_by_role("grid")
    count = int(grid.get_attribute("aria-rowcount"))
    assert count == len(many.changes) + 10 + 1  # a heading for each step, and that of the columns
    assert page.locator("[role=row]").count() < 60
    grid.focus()
    grid.press("End")
    last = page.locator(f"[aria-rowindex='{count}']")
    expect(last).to_be_in_viewport()
    assert page.locator("[role=row]").count() < 60
    grid.press("Enter")
    grid.press("Home")
    expect(page.locator("[aria-rowindex='3']")).to_be_in_viewport()
    assert page.problems == []


def test_a_field_that_is_selected_at_first_is_open_and_in_view(show, many):
    page = show(many, selection="fill:7", path="table.t6.k500")
    opened = page.locator("[aria-expanded=true][role=row]")
    expect(opened).to_contain_text("table.t6.k500")
    expect(opened).to_be_in_viewport()
    assert page.problems == []


def test_files_stand_side_by_side(show, city):
    page = show(city)
    page.get_by_role("button", name="report.md").click()
    sides = page.locator(".rw-files figure")
    expect(sides.nth(0).locator("del")).to_have_text("134794")
    expect(sides.nth(1).locator("ins")).to_have_text("140000")
    expect(sides.nth(0).locator("ins")).to_have_count(0)
    assert page.problems == []


def test_identical_runs_are_plainly_so(show, city):
    page = show(Rewind(city_app(), store=city.a.store).diff(city.a, city.a))
    expect(page.locator(".rw-head")).to_contain_text("identical: 3 steps, 0 changes")
    expect(page.get_by_role("grid")).to_have_count(0)
    assert page.problems == []


def test_hostile_text_stays_text(show, store):
    rw = Rewind(value_app({"a": XSS, XSS: 1}), store=store)
    run = rw.run(halt_after=["make"])
    fork = rw.fork(run, "make", output={"value": {"a": f"{XSS}{XSS}", XSS: XSS}})
    page = show(rw.diff(run, fork))
    for n in range(rows(page).count()):
        rows(page).nth(n).click()
    expect(page.locator(".rw-told")).to_have_count(2)
    expect(page.locator(".rw-told").first).to_contain_text("<img src=x onerror=alert(1)>")
    assert page.locator("img, .rw-widget script").count() == 0
    assert page.problems == []


def test_a_narrow_page_does_not_scroll_sideways(show, city, page):
    page.set_viewport_size({"width": 600, "height": 800})
    show(city)
    rows(page).first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= 600
    grid = page.get_by_role("grid")
    assert grid.evaluate("(grid) => grid.scrollWidth <= grid.clientWidth")


def test_what_opens_below_the_last_row_is_in_view(show, many):
    page = show(many)
    page.get_by_role("grid").focus()
    page.get_by_role("grid").press("End")
    page.get_by_role("grid").press("Enter")
    expect(page.locator(".rw-told button", has_text="why?")).to_be_in_viewport(ratio=1)
    page.locator(".rw-told button", has_text="why?").click()
    expect(page.locator(".rw-told .rw-cut").last).to_be_in_viewport(ratio=1)
    expect(page.locator(".rw-active")).to_be_in_viewport(ratio=1)
    assert page.problems == []
