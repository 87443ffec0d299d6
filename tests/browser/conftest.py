"""A real browser and a real JupyterLab, on this machine only.

The browser is Debian's Chromium (``apt-get install chromium``), or the one that
``REWIND_CHROMIUM`` names. Without one these tests are skipped; in CI they fail.
"""

import os
import shutil
from pathlib import Path

import pytest
from jupyter import Lab

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
PICTURES = Path(__file__).parent.parent.parent / "artifacts" / "pictures"
HERE = ("127.0.0.1", "localhost")
NOISE = ("favicon", "Failed to load resource")  # which no page of ours asks for


def chromium():
    """The path of the browser; skips or fails where there is none."""
    named = os.environ.get("REWIND_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
    if found is None:
        why = "no Chromium: apt-get install chromium, or set REWIND_CHROMIUM"
        (pytest.fail if "CI" in os.environ else pytest.skip)(why)
    return found


@pytest.fixture(scope="module")  # while it is there, its event loop is this thread's
def browser():
    path = chromium()
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=20_000)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def context(browser):
    opened = browser.new_context(
        viewport={"width": 1000, "height": 900}, reduced_motion="reduce", color_scheme="light"
    )
    opened.set_default_timeout(60_000)  # a kernel's first cell imports a lot
    opened.left_the_machine = []

    def guard(route):
        if route.request.url.split("/")[2].split(":")[0] in HERE:
            route.continue_()
        else:
            opened.left_the_machine.append(route.request.url)
            route.abort()

    opened.route("http*://**/*", guard)
    yield opened
    opened.close()
    assert opened.left_the_machine == []


@pytest.fixture
def page(context, request):
    """A page; what went wrong in it is in `page.problems`. What a test fails at is pictured."""
    opened = context.new_page()
    opened.problems = []
    opened.on("pageerror", lambda error: opened.problems.append(str(error)))
    opened.on("console", lambda message: _note(opened, message))
    yield opened
    if getattr(request.node, "failed", False):
        PICTURES.mkdir(parents=True, exist_ok=True)
        opened.screenshot(path=PICTURES / f"failed_{request.node.name}.png".replace("/", "_"))


@pytest.fixture
def picture(page):
    """Keeps a picture of the page under a name."""

    def keep(name):
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=PICTURES / f"{name}.png")

    return keep


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    item.failed = getattr(item, "failed", False) or report.failed
    return report


def _note(page, message):
    if message.type == "error" and not any(noise in message.text for noise in NOISE):
        page.problems.append(message.text)


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """A JupyterLab server whose widgets answer on subshells, as it comes."""
    chromium()  # no server where there is no browser
    with Lab(tmp_path_factory.mktemp("lab")) as server:
        yield server


@pytest.fixture(scope="session")
def plain_lab(tmp_path_factory):
    """One whose widgets answer on the kernel's main thread."""
    chromium()
    with Lab(tmp_path_factory.mktemp("plain-lab"), subshells=False) as server:
        yield server
