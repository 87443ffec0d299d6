"""The editor of overrides in a browser: typed, checked, forked, and nothing typed is lost."""

import threading
import warnings

import pytest
from burr.core import ApplicationBuilder, State, action
from live_page import LivePage

from rewind_nb import Rewind
from rewind_nb.demo import travel
from rewind_nb.widgets._coalescer import COALESCER

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def trip():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rw = Rewind(travel.build(), store=":memory:")
        yield rw, rw.run()


@pytest.fixture
def live(page, trip):
    rw, run = trip
    editor = rw.editor(run, "compose")
    yield LivePage(page, editor)
    editor.close()
    assert page.problems == []


def opened(page, field):
    """A field with its panel open: where text is typed."""
    row = page.locator(f'[data-field="{field}"]')
    row.get_by_role("button").first.click()
    return row, row.locator("textarea, input")


def finish(live):
    """Wait for what executes, and let the page know."""
    while not live.view.wait(0):
        live.page.wait_for_timeout(10)  # in which its questions are answered
    COALESCER.settle()
    live.sync()


def test_typing_shows_what_changes_and_what_a_fork_would_execute_after_a_pause(live):
    page = live.page
    row, text = opened(page, "prompt.0")
    fork = page.get_by_role("button", name="Fork here")
    assert fork.is_disabled()
    assert "Nothing is changed yet." in page.locator(".rw-actions").inner_text()

    text.press("Control+Home")
    text.press_sequentially("Please: ", delay=5)

    row.locator("ins", has_text="Please").wait_for()
    page.get_by_text("estimated at most 2 steps (compose, publish), 1 model call").wait_for()
    assert live.asked.count("check") < 4  # not one for each of its 8 letters
    assert row.get_by_text("edited").is_visible()
    assert fork.is_enabled()


def test_a_fork_is_made_with_a_press_and_what_was_typed_stays(live):
    page = live.page
    _, text = opened(page, "state.welcome")
    text.fill("A tent <b>by</b> the lake.")
    page.get_by_role("button", name="Fork here").click()
    finish(live)

    status = page.get_by_role("status").filter(has_text=live.view.result)
    assert "done" in status.inner_text()
    assert status.get_attribute("aria-live") == "polite"
    assert live.view.fork["compose"].reads["welcome"] == "A tent <b>by</b> the lake."
    assert text.input_value() == "A tent <b>by</b> the lake."
    page.get_by_role("button", name="Edit the fork").click()
    page.get_by_role("button", name="Back to its parent").click()
    assert page.locator('[data-field="state.welcome"] textarea').input_value().startswith("A tent")


def test_what_was_typed_outlives_other_steps_and_new_traits(live):
    page = live.page
    _, text = opened(page, "temperature.0")
    text.fill("0.25")
    live.view.selection = "publish:1"
    live.sync()
    page.locator('[data-field="output.published"]').wait_for()
    page.get_by_role("combobox", name="step").select_option("compose:1")
    live.view._told = {"state": "running", "words": "Forking …", "problem": ""}
    live.view._drawn = {**live.view._drawn}
    live.sync()
    typed = page.locator('[data-field="temperature.0"] input')
    assert typed.input_value() == "0.25"
    typed.focus()
    typed.press_sequentially("5")
    live.view._told = {"state": "running", "words": "Forking: step 7 …", "problem": ""}
    live.sync()
    assert typed.input_value() == "0.255"
    assert typed.evaluate("(e) => e === document.activeElement")
    assert live.view.selection == "compose:1"


def test_invalid_input_is_told_beside_it_and_linked_to_it(live):
    page = live.page
    row, text = opened(page, "params.0")
    text.fill('{"seed": 1,\n "top_p"}')
    row.get_by_text("line 2, column 9").wait_for()
    described = page.locator(f'[id="{text.get_attribute("aria-describedby")}"]')
    assert "No JSON: line 2, column 9" in described.inner_text()
    assert text.get_attribute("aria-invalid") == "true"
    assert page.get_by_role("button", name="Fork here").is_disabled()

    row.get_by_role("button", name="Reset other parameters").click()
    page.get_by_text("Nothing is changed yet.").wait_for()
    assert text.get_attribute("aria-invalid") == "false"
    assert text.input_value() == '{"response_format": {"type": "json_object"}}'


def test_two_things_are_refused_in_words(live):
    page = live.page
    opened(page, "temperature.0")[1].fill("0.9")
    opened(page, "model.0")[1].fill("of-tomorrow")
    page.get_by_text("A fork changes exactly one thing").wait_for()
    assert page.get_by_role("button", name="Fork here").is_disabled()


def test_what_executes_is_stopped_with_a_press(page):
    gate, started = threading.Event(), threading.Event()
    rw = Rewind(waiting_app(gate, started), store=":memory:")
    gate.set()
    run = rw.run()
    gate.clear()
    started.clear()
    live = LivePage(page, rw.editor(run, "begin"))
    opened(page, "output.n")[1].fill("5")
    page.get_by_role("button", name="Fork here").click()
    assert started.wait(10)
    COALESCER.settle()
    live.sync()
    assert page.get_by_role("button", name="Fork here").is_disabled()
    page.get_by_role("button", name="Stop").click()
    page.wait_for_timeout(20)
    gate.set()
    finish(live)

    page.get_by_text("goes on with rw.resume(").wait_for()
    assert page.get_by_role("button", name="Fork here").is_enabled()
    assert page.locator('[data-field="output.n"] textarea').input_value() == "5"
    live.view.close()
    assert page.problems == []


def test_the_keys_of_the_notebook_are_kept_from_who_types(live):
    page = live.page
    page.evaluate(
        "window.heard = []; document.addEventListener('keydown', (e) => heard.push(e.key))"
    )
    _, text = opened(page, "prompt.0")
    text.press("d")
    page.get_by_role("button", name="Reproduce from here").press("d")
    text.press("Escape")
    text.press("Control+s")
    assert page.evaluate("heard.filter((key) => key !== 'Control')") == ["Escape", "s"]


def test_a_saved_page_is_read_only_and_says_so(page, trip, tmp_path):
    rw, run = trip
    editor = rw.editor(run, "compose")
    page.goto(editor.to_html(tmp_path / "saved.html").as_uri())
    page.get_by_text("This is a saved page: it is read-only.").wait_for()
    _, text = opened(page, "prompt.0")
    assert text.get_attribute("readonly") is not None
    assert text.input_value().startswith("Write to the travellers")
    assert page.get_by_role("button", name="Fork here").is_disabled()
    assert page.get_by_role("button", name="Reproduce from here").is_disabled()
    page.get_by_role("combobox", name="step").select_option("publish:1")
    page.locator('[data-field="output.published"]').wait_for()
    editor.close()
    assert page.problems == []


@pytest.mark.parametrize("width", [600, 1000])
def test_it_is_no_wider_than_its_room(live, width):
    live.page.set_viewport_size({"width": width, "height": 700})
    opened(live.page, "messages.0")[1].wait_for()
    opened(live.page, "body.0")[1].wait_for()
    assert live.page.evaluate("document.documentElement.scrollWidth") <= width


def waiting_app(gate, started):
    @action(reads=[], writes=["n"])
    def begin(state: State) -> State:
        return state.update(n=1)

    @action(reads=["n"], writes=["n"])
    def wait(state: State) -> State:
        started.set()
        gate.wait(10)
        return state.update(n=state["n"] + 1)

    @action(reads=["n"], writes=["end"])
    def end(state: State) -> State:
        return state.update(end=state["n"])

    return (
        ApplicationBuilder().with_actions(begin, wait, end)
        .with_transitions(("begin", "wait"), ("wait", "end"))
        .with_entrypoint("begin").build()
    )  # fmt: skip
