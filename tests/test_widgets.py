"""What holds for every widget: its bundle, its static HTML, its repr, its end."""

import gc
import json
import re
import shutil
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import apps
import ipywidgets
import pytest
from burr.core import ApplicationBuilder, State, action

import rewind_nb
from rewind_nb import Rewind, Store
from rewind_nb._notebook import in_kernel
from rewind_nb.widgets import RunGraph
from rewind_nb.widgets._coalescer import COALESCER, Coalescer
from rewind_nb.widgets._run_graph import run_drawn

WIDGETS = Path(rewind_nb.__file__).parent / "widgets"
HOSTILE = "<img src=x onerror=alert(1)></script>\u2028"


@pytest.fixture
def run(store):
    return Rewind(apps.loop_app(3), store=store).run(inputs={"by": 1})


@pytest.fixture
def fork(store):
    rw = Rewind(apps.branch_app(450), store=store)
    return rw.fork(rw.run(), "judge", state={"fare": 1450})


# -- bundles --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "file", sorted((WIDGETS / "static").glob("*.[jc]s*")), ids=lambda f: f.name
)
def test_a_bundle_is_small_and_refers_to_nothing_outside(file):
    text = file.read_text("utf-8")

    assert 0 < len(text.encode()) <= 60 * 1024
    assert not re.findall(r"https?://(?!www\.w3\.org)", text)


def test_no_source_makes_markup_out_of_text():
    sources = [*(WIDGETS / "js" / "src").rglob("*.js*")]

    assert len(sources) > 5
    for source in sources:
        assert not re.search(r"inner" "HTML|insertAdjacent|document.write|eval", source.read_text())


def test_the_bundles_are_what_their_sources_give():
    node, js = shutil.which("node"), WIDGETS / "js"
    if node is None or not (js / "node_modules").exists():
        pytest.skip("no node, or no `npm install` in rewind_nb/widgets/js; .ci/run checks it")
    done = subprocess.run(
        [node, "build.mjs", "--check"], cwd=js, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr


def test_importing_the_package_imports_no_widget():
    code = "import sys, rewind_nb; rewind_nb.Rewind; print('anywidget' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


# -- what a run graph draws -----------------------------------------------------------------


def test_a_graph_draws_what_the_static_page_draws(run):
    drawn = run.view()._drawn
    html = run._repr_html_()

    assert [box["action"] for box in drawn["graph"]["boxes"]] == ["count", "report"]
    for line in drawn["graph"]["lines"]:
        assert f'd="{line["path"]}"' in html
    for box in drawn["graph"]["boxes"]:
        assert f'x="{box["x"]}" y="{box["y"]}"' in html


def test_a_run_that_has_just_begun_is_drawn_without_a_step(store):
    rw, drawn = Rewind(apps.loop_app(1), store=store), []
    rw.on(lambda event: drawn.append(run_drawn(store.run(event.run_id))))
    rw.run(inputs={"by": 1})

    assert drawn[0]["steps"] == drawn[0]["graph"]["boxes"] == []
    assert drawn[0]["graph"]["width"] >= 0
    assert len(drawn[-1]["graph"]["boxes"]) == 2


def test_a_fork_tells_apart_what_it_did_about_each_step(fork):
    steps = fork.view()._drawn["steps"]

    assert [(step["action"], step["how"]) for step in steps] == [
        (step.action, {"override": "override"}.get(step.source, "executed" if step.source == "live" else step.source))
        for step in fork.steps
    ]  # fmt: skip
    assert len({(step["sign"], step["how"]) for step in steps}) == len({s["how"] for s in steps})


def test_a_selected_step_is_told_with_its_exact_reason(fork):
    graph = fork.view()
    told = graph.answer({"ask": "step", "args": {"address": fork.steps[-1].address}})["answer"]

    assert told["because"] == fork.explanation.of(fork.steps[-1])
    assert told["writes"] == list(fork.steps[-1].writes)


def test_what_a_graph_is_asked_wrongly_is_an_error_with_near_misses(run):
    graph = run.view()

    error = graph.answer({"ask": "step", "args": {"address": "reprot:1"}})["error"]
    assert "no step 'reprot:1'" in error
    assert "report:1" in error
    assert "not asked 'x'" in graph.answer({"ask": "x"})["error"]
    assert "TypeError" in graph.answer({"ask": "step", "args": {"nothing": 1}})["error"]


def test_setting_the_run_id_shows_another_run_of_the_store(store):
    rw = Rewind(apps.loop_app(2), store=store)
    first, second = rw.run(inputs={"by": 1}), rw.run(inputs={"by": 2})
    graph = first.view(selection="count:2")

    graph.run_id = second.id

    assert graph.run.id == second.id
    assert graph._drawn["run"]["id"] == second.id
    assert graph.selection == ""  # it has no second visit


def test_a_dropdown_drives_the_selection(run):
    graph = run.view()
    dropdown = ipywidgets.Dropdown(options=[step.address for step in run.steps])
    ipywidgets.link((dropdown, "value"), (graph, "selection"))

    dropdown.value = "report:1"
    assert graph.selection == "report:1"
    graph.selection = "count:2"
    assert dropdown.value == "count:2"
    assert isinstance(graph, ipywidgets.DOMWidget)


def test_a_watched_rewind_shows_each_run_to_its_last_step(store):
    rw = Rewind(apps.loop_app(20), store=store)
    graph = rw.watch()
    assert repr(graph) == "<RunGraph, no run yet>"

    run = rw.run(inputs={"by": 1})
    assert COALESCER.settle()
    assert graph.run_id == run.id
    assert [step["status"] for step in graph._drawn["steps"]] == ["complete"] * 21
    assert graph._drawn["run"]["status"] == "complete"

    other = rw.run(inputs={"by": 3})
    assert COALESCER.settle()
    assert graph.run_id == other.id
    graph.close()
    rw.run(inputs={"by": 5})
    assert COALESCER.settle()
    assert graph.run.id == other.id


def test_a_running_step_is_shown_running(store):
    seen, go = [], threading.Event()

    @action(reads=[], writes=["x"])
    def slow(state: State) -> State:
        assert COALESCER.settle()
        seen.append(graph._drawn)
        go.set()
        return state.update(x=1)

    app = ApplicationBuilder().with_actions(slow=slow).with_entrypoint("slow").build()
    rw = Rewind(app, store=store)
    graph = rw.watch()
    rw.run()

    assert go.is_set()
    assert [(step["status"], step["sign"]) for step in seen[0]["steps"]] == [("running", "◔")]
    assert seen[0]["graph"]["boxes"][0]["words"] == "running"


# -- everywhere -----------------------------------------------------------------------------


def test_hostile_text_stays_text(tmp_path):
    @action(reads=[], writes=["x"])
    def odd(state: State) -> State:
        raise ValueError(HOSTILE)

    app = ApplicationBuilder().with_actions(**{HOSTILE: odd}).with_entrypoint(HOSTILE).build()
    with Store(":memory:") as store:
        rw = Rewind(app, store=store)
        with pytest.raises(ValueError, match="img"):
            rw.run(inputs={})
        graph = rw.last_run.view()
        page = rw.last_run.to_html(tmp_path / "page.html").read_text("utf-8")
        assert "<img" not in graph.html()

    assert "<img" not in page
    assert page.count("</script>") == 2  # its own
    assert "\u2028" not in page
    [saved] = re.findall(
        r'<script id="saved" type="application/json">(.*?)</script>', page, re.DOTALL
    )
    assert HOSTILE[:28] in json.dumps(json.loads(saved)["state"])


def test_a_bundle_has_the_view_static_html_and_a_short_deterministic_text(run, fork):
    for graph in (run.view(), fork.view(), RunGraph()):
        data, _ = graph._repr_mimebundle_()

        assert "application/vnd.jupyter.widget-view+json" in data
        assert data["text/html"] == graph.html()
        assert "<script" not in data["text/html"]
        assert len(data["text/plain"]) < 200
        assert not re.search(r"0x|r_[0-9a-f]{6}|\d\d:\d\d", data["text/plain"])


def test_a_value_outside_of_a_kernel_is_static(run):
    assert not in_kernel()
    assert run._repr_mimebundle_() == (
        {"text/plain": repr(run), "text/html": run._repr_html_()},
        {},
    )


def test_a_hundred_widgets_leave_nothing_behind(store):
    rw = Rewind(apps.loop_app(2), store=store)
    run = rw.run(inputs={"by": 1})
    alive = weakref.WeakSet()
    for i in range(100):
        graph = rw.watch() if i % 2 else run.view()
        alive.add(graph)
        graph.refresh()
        graph.close()
    del graph
    assert COALESCER.settle()
    gc.collect()

    assert len(alive) == 0
    assert rw._hooks == []


def test_nine_thousand_updates_send_few_and_the_last():
    coalescer, sent = Coalescer(interval=0.02), []
    began = time.monotonic()
    for number in range(9_000):
        coalescer.want("graph", lambda number=number: sent.append(number))
        coalescer.want("table", lambda number=number: sent.append(-number))
    assert coalescer.settle()

    rounds = (time.monotonic() - began) / 0.02 + 2
    assert {8_999, -8_999} <= set(sent[-2:])
    assert len(sent) <= 2 * rounds


def test_a_widget_that_fails_to_update_says_so_and_the_others_go_on(run, monkeypatch):
    broken, whole = run.view(), run.view()
    monkeypatch.setattr(broken, "_update", lambda: 1 / 0)
    updated = threading.Event()
    monkeypatch.setattr(whole, "_update", updated.set)
    broken.refresh()
    whole.refresh()
    assert COALESCER.settle()

    assert broken.problem == "ZeroDivisionError: division by zero"
    assert updated.is_set()
