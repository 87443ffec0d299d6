"""The whole of it in a JupyterLab: watch a run, edit, fork, see why, and run a grid."""

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.thorough, pytest.mark.xdist_group("jupyter")]

MAKE = """
import time, ipywidgets
from rewind_nb import Rewind
from rewind_nb.demo import travel
from rewind_nb.widgets import DiffTable
pause = [0.25]
rw = Rewind(travel.build(), store=":memory:")
rw.on(lambda event: time.sleep(pause[0]) if event.name == "step_started" else None)
rw.watch()
"""
EDIT = """
editor, table, graph = rw.editor(run), DiffTable(), run.view()
ipywidgets.link((graph, "selection"), (editor, "selection"))
def show(fork):
    table.diff = rw.diff(run, fork)
editor.on_fork(show)
ipywidgets.VBox([graph, editor, table])
"""
GRID = """
pause[0] = 0.06
wet, high = [0.1, 0.3, 0.5, 0.58], [10, 20, 30]
grid = rw.grid(run, at="weigh_weather", max_workers=1, start=False,
               over={"patch.outlook.wet_days": wet, "patch.outlook.high_c": high})
view = grid.view()
view
"""
ASKED = """
grid = rw.store.experiment(grid.id)
runs = rw.store.runs(experiments=True)
print(grid.status, len(grid.df), len(runs) == len({r.id for r in runs}))
"""


@pytest.mark.parametrize("server", ["lab", "plain_lab"])
def test_a_run_is_watched_edited_forked_explained_and_varied(page, request, server, picture):
    page.set_viewport_size({"width": 1280, "height": 1400})
    notebook = request.getfixturevalue(server).open(
        page, "whole", MAKE, "run = rw.run()\nprint(run.status)", EDIT, GRID, ASKED
    )
    notebook.run(0)
    watched = page.locator(".jp-Cell").nth(0).locator(".rw-widget")
    expect(watched).to_contain_text("No run yet")

    # watch its steps turn
    notebook.run(1, wait=False)
    expect(watched).to_contain_text("1 running")
    expect(watched).to_contain_text("9 live")
    expect(watched).to_contain_text("complete")

    # select a step, edit one field, fork
    notebook.run(2)
    cell = page.locator(".jp-Cell").nth(2)
    cell.get_by_role("button", name="weigh_weather").click()
    field = cell.locator('[data-field="patch"]').first
    field.get_by_role("button").first.click()
    field.get_by_role("textbox").fill('{"outlook.wet_days": 0.58}')
    fork = cell.get_by_role("button", name="Fork here")
    expect(fork).to_be_enabled()
    fork.click()

    # see the diff, open the cause
    change = cell.get_by_role("row", name="outlook.wet_days").first
    change.click()
    expect(cell.locator(".rw-told")).to_contain_text("0.4")
    cell.get_by_role("button", name="why?").first.click()
    expect(cell.locator(".rw-chains")).to_contain_text("wet_days")
    picture(f"edited_{server}_light")

    # a grid of twelve cells, stopped and taken up again
    notebook.run(3)
    grid = page.locator(".jp-Cell").nth(3).locator(".rw-widget")
    expect(grid.locator("td [data-key]")).to_have_count(12)
    grid.get_by_role("button", name="Start").click()
    stop = grid.get_by_role("button", name="Stop")
    stop.wait_for()
    page.wait_for_timeout(600)
    stop.click()
    resume = grid.get_by_role("button", name="Resume")
    resume.wait_for()
    assert notebook.value(4).startswith("interrupted")
    picture(f"stopped_{server}_light")
    resume.click()
    expect(grid.locator(".rw-head").first).to_contain_text("complete", timeout=60_000)
    grid.locator("td [data-key]").nth(5).click()
    expect(grid.locator(".rw-detail")).to_contain_text("wet_days")
    assert notebook.value(4) == "complete 13 True"
    if server == "lab":
        notebook.theme("Dark")
        picture("whole_dark")
        notebook.theme("Light")
    picture(f"whole_{server}_light")
    assert page.problems == []
