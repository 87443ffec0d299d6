"""A run in JupyterLab: it is drawn, selected, watched, and comes back."""

import json

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.thorough, pytest.mark.xdist_group("jupyter")]

MAKE = """
import warnings; warnings.filterwarnings("ignore")
from rewind_nb import Rewind
from rewind_nb.demo import travel
rw = Rewind(travel.build(), store=":memory:")
run = rw.run()
fork = rw.fork(run, "weigh_weather", patch={"outlook.wet_days": 0.58})
"""
SHOW = """
seen = []
graph = fork.view()
graph.observe(lambda change: seen.append(change.new), "selection")
graph
"""


# test_end_to_end_in_lab.py selects and watches on the main thread in the quick tests.
@pytest.fixture(params=["subshells", pytest.param("main thread", marks=pytest.mark.thorough)])
def server(request):
    return request.getfixturevalue("lab" if request.param == "subshells" else "plain_lab")


def box(page, action):
    return page.get_by_role("button", name=action)


def test_a_step_is_selected_by_click_or_key_and_python_hears_it_once(page, server):
    notebook = server.open(page, "select", MAKE, SHOW, "print(graph.selection, seen)")
    notebook.run(0)
    notebook.run(1)
    box(page, "plan_indoors").click()
    expect(page.locator(".rw-detail")).to_contain_text("wet_days")
    assert notebook.value(2) == "plan_indoors:1 ['plan_indoors:1']"

    box(page, "compose").press("Enter")
    expect(page.locator(".rw-detail")).to_contain_text("compose:1")
    box(page, "publish").press("Space")
    expect(page.locator(".rw-detail")).to_contain_text("publish:1")
    assert notebook.value(2).startswith("publish:1 ['plan_indoors:1', 'compose:1', 'publish:1']")
    assert page.problems == []


def test_the_notebooks_commands_are_not_for_who_types_in_a_widget(page, lab):
    notebook = lab.open(page, "keys", MAKE, SHOW, "1 + 1")
    notebook.run(0)
    notebook.run(1)
    before = notebook.cells()
    for focused in (box(page, "plan_indoors"), page.get_by_role("button", name="Steps")):
        focused.focus()
        for key in ("d", "d", "x", "a", "b", "m", "ArrowDown", "ArrowUp"):
            page.keyboard.press(key)
    assert notebook.cells() == before

    page.keyboard.press("Control+s")
    expect(page.locator(".jp-mod-dirty")).to_have_count(0)
    box(page, "publish").focus()
    page.keyboard.press("Tab")
    assert not page.evaluate("document.activeElement.closest('svg')")


@pytest.mark.thorough
def test_two_views_of_one_model_are_in_step_and_one_outlives_the_other(page, lab):
    notebook = lab.open(page, "twice", MAKE, SHOW, "graph", "graph.close()")
    notebook.run(0)
    notebook.run(1)
    notebook.run(2)
    boxes = page.locator('[data-action="compose"]')
    expect(boxes).to_have_count(2)
    boxes.first.click()
    for i in (0, 1):
        expect(boxes.nth(i)).to_have_attribute("aria-pressed", "true")
    page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.content.widgets[1].model.clearExecution()"
    )
    expect(boxes).to_have_count(1)
    box(page, "publish").click()
    expect(page.locator(".rw-detail")).to_contain_text("publish:1")
    assert page.problems == []


def test_a_run_is_watched_while_it_goes_on_and_ends_as_the_store_has_it(page, server):
    make = (
        "import time\nfrom burr.core import ApplicationBuilder, State, action\n"
        "from rewind_nb import Rewind\n"
        "@action(reads=[], writes=['n'])\ndef count(state):\n"
        "    time.sleep(0.25)\n    return state.update(n=state.get('n', 0) + 1)\n"
        "from burr.core import expr, default\n"
        "@action(reads=['n'], writes=['done'])\ndef report(state):\n    return state.update(done=True)\n"
        "app = (ApplicationBuilder().with_actions(count=count, report=report)"
        ".with_transitions(('count', 'count', expr('n < 8')), ('count', 'report', default))"
        ".with_entrypoint('count').build())\nrw = Rewind(app, store=':memory:')\nrw.watch()"
    )
    notebook = server.open(page, "watch", make, "run = rw.run()", "print(len(run), run.status)")
    notebook.run(0)
    expect(page.locator(".rw-widget")).to_contain_text("No run yet")
    notebook.run(1, wait=False)
    expect(page.locator(".rw-head").first).to_contain_text("running")
    expect(box(page, "count")).to_contain_text("running")
    expect(page.locator(".rw-head").first).to_contain_text("complete")
    expect(page.locator(".rw-legend")).to_have_text("●9 live")
    assert notebook.value(2) == "9 complete"
    assert page.problems == []


def test_a_restarted_kernel_is_told_in_five_seconds(page, lab):
    notebook = lab.open(page, "restart", MAKE, SHOW)
    notebook.run(0)
    notebook.run(1)
    box(page, "compose").click()
    page.evaluate(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
    )
    expect(page.locator(".rw-state")).to_contain_text("Run the cell again", timeout=5_000)


def test_a_notebook_that_comes_back_without_its_kernel_shows_the_static_page(page, lab, browser):
    notebook = lab.open(page, "back", MAKE, "fork")
    notebook.run(0)
    notebook.run(1)
    expect(page.locator(".rw-widget")).to_have_count(1)
    expect(page.locator(".rw-snapshot")).to_be_hidden()
    notebook.command("docmanager:save")
    expect(page.locator(".jp-mod-dirty")).to_have_count(0)
    notebook.command("kernelmenu:shutdown")
    saved = json.loads((lab.notebooks / "back.ipynb").read_text())
    assert "widgets" not in saved["metadata"]

    page.reload()
    page.locator(".rw-snapshot").wait_for()
    expect(page.locator(".rw-snapshot")).to_contain_text("replace outlook.wet_days = 0.58")


@pytest.mark.thorough
def test_it_is_readable_in_light_and_dark(page, lab, picture):
    notebook = lab.open(page, "themes", MAKE, SHOW)
    notebook.run(0)
    notebook.run(1)
    box(page, "plan_indoors").click()
    for theme in ("Light", "Dark"):
        notebook.theme(theme)
        picture(f"run_graph_{theme.lower()}")
        assert contrast(page, ".rw-node text") > 4.5
        assert contrast(page, ".rw-detail .rw-dim") > 4.5
    notebook.theme("Light")


def contrast(page, selector):
    """The contrast of a text with what is behind it, as WCAG 2 defines it."""
    return page.evaluate(_CONTRAST, selector)


_CONTRAST = """(selector) => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const part = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const element = document.querySelector(selector);
  let opacity = 1, behind = null;
  for (let at = element; at; at = at.parentElement) {
    const style = getComputedStyle(at);
    opacity *= Number(style.opacity);
    const colour = numbers(style.backgroundColor);
    if (!behind && (colour[3] ?? 1) === 1) behind = colour;
  }
  const style = getComputedStyle(element);
  const ink = numbers(element.closest("svg") ? style.fill : style.color);
  const seen = ink.slice(0, 3).map((v, i) => v * opacity + behind[i] * (1 - opacity));
  const [a, b] = [light(seen), light(behind)].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}"""
