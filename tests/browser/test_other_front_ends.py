"""The same widget in Notebook 7 and in marimo: one smoke test each."""

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.thorough, pytest.mark.xdist_group("jupyter")]

APP = """
import marimo
app = marimo.App()

@app.cell
def _():
    import marimo as mo
    from rewind_nb import Rewind
    from rewind_nb.demo import travel
    rw = Rewind(travel.build(), store=":memory:")
    graph = mo.ui.anywidget(rw.run().view())
    graph
    return graph, mo

@app.cell
def _(graph, mo):
    mo.md(f"Python has {graph.value['selection'] or 'nothing'}")
    return

if __name__ == "__main__":
    app.run()
"""


def test_notebook_7_shows_a_run_and_its_steps_are_selected(page, lab):
    lab.write(
        "classic",
        "from rewind_nb import Rewind\nfrom rewind_nb.demo import travel\n"
        "run = Rewind(travel.build(), store=':memory:').run()\nrun",
    )
    page.goto(f"{lab.url}/notebooks/classic.ipynb")
    cell = page.locator(".jp-CodeCell").first
    page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').wait_for(timeout=60_000)
    for _ in range(10):  # the first may come before the page is ready to execute
        cell.locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")
        try:
            expect(cell.locator(".jp-InputPrompt")).not_to_have_text("[ ]:", timeout=2_000)
        except AssertionError:
            continue
        break
    shown = page.get_by_role("button", name="look_up_days")
    shown.wait_for()
    of_the_front_end = list(page.problems)
    shown.click()

    expect(page.locator(".rw-detail")).to_contain_text("look_up_days:1")
    expect(page.locator(".rw-detail")).to_contain_text("wrote")  # which Python answered
    expect(page.locator(".rw-snapshot")).to_be_hidden()
    assert page.problems == of_the_front_end


def test_marimo_shows_a_run_and_a_selection_is_reactive(page, tmp_path):
    file = tmp_path / "app.py"
    file.write_text(APP)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [
            sys.executable, "-m", "marimo", "run", str(file), "--headless", "--no-token",
            "--host", "127.0.0.1", "--port", str(port),
        ],
        cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _wait(f"http://127.0.0.1:{port}/health")
        page.goto(f"http://127.0.0.1:{port}")
        page.get_by_role("button", name="look_up_days").click(timeout=30_000)

        expect(page.locator(".rw-detail")).to_contain_text("wrote")
        expect(page.get_by_text("Python has look_up_days:1")).to_be_visible()
    finally:
        server.terminate()
        server.wait(10)


def _wait(url):
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise TimeoutError(url)
