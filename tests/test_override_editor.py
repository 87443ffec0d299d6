"""The editor of overrides: what a step can consume, checked as it is typed, and forks of it."""

import asyncio
import gc
import json
import threading
import time
import warnings
import weakref

import apps
import ipywidgets
import pytest
import task_apps
import traitlets
from burr.core import ApplicationBuilder, State, action

from rewind_nb import Rewind, Secret
from rewind_nb.demo import travel
from rewind_nb.errors import StepNotFoundError
from rewind_nb.widgets import OverrideEditor
from rewind_nb.widgets._at_step import AtStep
from rewind_nb.widgets._coalescer import COALESCER
from rewind_nb.widgets._drafts import Draft


@pytest.fixture
def trip(store):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rw = Rewind(travel.build(), store=store)
        yield rw, rw.run()


@pytest.fixture
def branch(store):
    rw = Rewind(apps.branch_app(), store=store)
    return rw, rw.run(halt_after=["summarise"])


def asked(editor, kind, **arguments):
    """What Python answers; an error fails the test."""
    told = editor.answer({"ask": kind, "args": arguments})
    assert "error" not in told, told
    return json.loads(json.dumps(told["answer"]))  # it goes over a wire


def checked(editor, *edits):
    return asked(editor, "check", address=editor.selection, edits=edits)


def forked(editor, *edits):
    """Press Fork and wait."""
    asked(editor, "fork", address=editor.selection, edits=edits)
    assert editor.wait(20)
    COALESCER.settle()
    return editor.fork


def ids(editor):
    return [field["id"] for field in asked(editor, "step", address=editor.selection)["fields"]]


# -- what can be edited --------------------------------------------------------------------------


def test_a_step_shows_only_what_it_can_consume(branch, trip):
    rw, run = branch
    assert ids(rw.editor(run, "judge")) == ["state.fare", "output.verdict", "patch"]
    assert ids(rw.editor(run, "summarise")) == [
        "state.booking", "state.verdict", "output.summary", "patch",
    ]  # fmt: skip

    rw, run = trip
    found = ids(rw.editor(run, "compose"))
    asks = [
        f"{kind}.0"
        for kind in ("prompt", "messages", "model", "temperature", "params", "response", "body")
    ]
    assert found[:7] == asks
    assert "inputs" not in " ".join(found)


def test_a_step_whose_output_was_supplied_shows_its_output_only(branch):
    rw, run = branch
    fork = rw.fork(run, "judge", output={"verdict": "dear"})
    assert ids(rw.editor(fork, "judge")) == ["output.verdict", "patch"]


def test_a_tool_call_shows_its_arguments_and_its_result(store):
    rw = Rewind(apps.async_app(), store=store)
    run = rw.run(halt_after=["choose"])
    editor = rw.editor(run, ("fetch", 1))
    assert ids(editor)[:2] == ["tool_args.0", "tool_result.0"]
    text = asked(editor, "recorded", address="fetch:1", field="tool_args.0")["text"]
    assert json.loads(text) == {"city": "Bern", "attempt": 0}

    fork = forked(editor, ["tool_args.0", text.replace("Bern", "Rome")])

    assert [(o.kind, o.value) for o in fork.overrides] == [("tool_args", {"city": "Rome"})]


def test_what_was_recorded_typed_again_changes_nothing(recorded):
    rw, run = recorded
    for step in run.walk():
        at = AtStep(rw, run, step)
        drafts = [Draft(field, field.text) for field in at.fields.values() if field.encoded]
        assert [d.field.id for d in drafts if not d.field.locked and (d.problem or d.changes)] == []


def test_the_ends_of_lines_of_a_text_are_kept_though_a_text_area_has_but_one(store):
    @action(reads=["text"], writes=["length"])
    def measure(state: State) -> State:
        return state.update(length=len(state["text"]))

    rw = Rewind(one_step(measure, text="one\r\ntwo\r\n"), store=store)
    editor = rw.editor(rw.run(), "measure")
    assert checked(editor, ["state.text", "one\ntwo\n"])["refused"] == "Nothing is changed yet."
    assert forked(editor, ["state.text", "one\nfour\n"]).state["text"] == "one\r\nfour\r\n"


def test_a_value_that_json_has_no_word_for_is_shown_and_not_edited(store):
    @action(reads=["pair"], writes=["first"])
    def take(state: State) -> State:
        return state.update(first=state["pair"]["both"][0])

    rw = Rewind(one_step(take, pair={"both": (1, 2)}), store=store)
    editor = rw.editor(rw.run(), "take")
    field = asked(editor, "step", address="take:1")["fields"][0]
    assert field["locked"] == "JSON has no word for the tuple at both."
    told = asked(editor, "recorded", address="take:1", field="state.pair")
    assert (told["text"], "(1, 2)" in told["shown"] or "tuple" in told["shown"]) == ("", True)
    assert told["code"] == f"rw.fork('{editor.run_id}', at=('take', 1), state={{\"pair\": ...}})"
    assert (
        checked(editor, ["state.pair", "{}"])["fields"]["state.pair"]["problem"] == field["locked"]
    )


def test_a_field_of_20_mb_is_a_preview_that_says_how_to_edit_it_in_code(store):
    @action(reads=["text"], writes=["length"])
    def measure(state: State) -> State:
        return state.update(length=len(state["text"]))

    rw = Rewind(one_step(measure, text="<b>word " * 2_500_000), store=store)
    editor = rw.editor(rw.run(), "measure")
    began = time.perf_counter()
    field = asked(editor, "step", address="measure:1")["fields"][0]
    told = asked(editor, "recorded", address="measure:1", field="state.text")
    assert time.perf_counter() - began < 2
    assert field["locked"] == "20.0 MB are too long to be edited here."
    assert told["text"] == ""
    assert 1_000 < len(told["shown"]) < 3_000
    assert 'state={"text": ...}' in told["code"]


# -- what is told of what is typed ---------------------------------------------------------------


def test_invalid_json_is_told_with_line_and_column_and_changes_nothing_in_python(trip):
    rw, run = trip
    editor = rw.editor(run, "compose")
    before = editor.state()
    told = checked(editor, ["params.0", '{"seed": 1,\n "top_p"}'])
    assert told["fields"]["params.0"] == {
        "problem": "No JSON: line 2, column 9: Expecting ':' delimiter.", "pieces": [],
    }  # fmt: skip
    assert told["refused"] == "Correct what is marked first."
    refused = editor.answer(
        {"ask": "fork", "args": {"address": "compose:1", "edits": [["params.0", "{"]]}}
    )
    assert "marked" in refused["error"]
    assert editor.state() == before
    assert editor.fork is None


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("-1", "temperature= takes a finite number, 0 or more; it got -1 (int)."),
        ('"hot"', "temperature= takes a finite number, 0 or more; it got 'hot' (str)."),
        ("", "No JSON: line 1, column 1: Expecting value."),
        ("NaN", "temperature= takes a finite number, 0 or more; it got nan (float)."),
        ("0.7", ""),
    ],
)
def test_a_temperature_is_checked_as_it_is_typed(trip, text, problem):
    rw, run = trip
    told = checked(rw.editor(run, "compose"), ["temperature.0", text])
    assert told["fields"]["temperature.0"]["problem"] == problem


def test_a_key_that_stands_twice_in_an_object_is_no_value(trip):
    rw, run = trip
    told = checked(rw.editor(run, "compose"), ["params.0", '{"seed": 1, "seed": 2}'])
    assert (
        told["fields"]["params.0"]["problem"]
        == "No JSON: the key 'seed' stands twice in one object."
    )


def test_a_model_that_nobody_knows_is_fine_and_what_a_fork_executes_is_estimated(trip):
    rw, run = trip
    told = checked(rw.editor(run, "compose"), ["model.0", "of-tomorrow"])
    assert told["fields"]["model.0"] == {
        "problem": "", "pieces": [["removed", "offline-1"], ["added", "of-tomorrow"]],
    }  # fmt: skip
    assert told["refused"] == ""
    tokens = run["compose"].usage.total_tokens
    assert told["estimate"] == (
        f"at most 2 steps (compose, publish), 1 model call, about {tokens} tokens, unpriced (offline-1)"
    )


def test_what_changes_does_not_depend_on_how_json_is_laid_out(trip):
    rw, run = trip
    editor = rw.editor(run, "weigh_weather")
    value = run["weigh_weather"].writes["outlook"]
    laid_out = json.dumps({**value, "wet_days": 0.9}, indent=8)
    pieces = checked(editor, ["output.outlook", laid_out])["fields"]["output.outlook"]["pieces"]
    changed = [["removed", "0.4"], ["added", "0.9"]]
    assert [p for p in pieces if p[0] in ("removed", "added")] == changed
    patched = checked(editor, ["patch", '{"outlook.wet_days": 0.9}'])["fields"]["patch"]["pieces"]
    assert [p for p in patched if p[0] in ("removed", "added")] == changed


def test_several_keys_of_one_override_are_one_thing_and_two_overrides_are_refused(branch):
    rw, run = branch
    editor = rw.editor(run, "summarise")
    both = (["state.verdict", "odd"], ["state.booking", "null"])
    assert checked(editor, *both)["refused"] == ""
    told = checked(editor, *both, ["output.summary", "none"])
    assert told["refused"].startswith(
        "A fork changes exactly one thing, and this edits state= and output=."
    )
    assert forked(editor, *both).state["summary"] == "odd: None"


def test_a_value_equal_to_the_recorded_one_is_no_edit(branch):
    rw, run = branch
    assert (
        checked(rw.editor(run, "judge"), ["state.fare", " 450 "])["refused"]
        == "Nothing is changed yet."
    )


# -- forks ---------------------------------------------------------------------------------------


def test_a_fork_is_that_of_the_same_override_in_code(trip):
    rw, run = trip
    editor, told = rw.editor(run, "weigh_weather"), []
    editor.on_fork(told.append)
    fork = forked(editor, ["patch", '{"outlook.wet_days": 0.58}'])

    same = rw.fork(run, "weigh_weather", patch={"outlook.wet_days": 0.58})
    assert rw.diff(fork, same).identical
    assert fork.override_words == same.override_words
    assert (editor.result, [f.id for f in told]) == (fork.id, [fork.id])
    assert editor._told["state"] == "done"
    assert editor._told["words"].startswith(f"Fork {fork.id} is complete: 9 steps")


@pytest.mark.parametrize(
    ("field", "typed", "value"),
    [
        ("prompt.0", "Be kind.", "Be kind."),
        (
            "messages.0",
            '[{"role": "user", "content": "Hello"}]',
            [{"role": "user", "content": "Hello"}],
        ),
        ("temperature.0", "0.5", 0.5),
        ("params.0", '{"seed": 7}', {"response_format": None, "seed": 7}),
        ("response.0", '{"letter": "Come."}', '{"letter": "Come."}'),
        ("output.letter", "Come.", {"letter": "Come."}),
        ("state.welcome", "A tent.", {"welcome": "A tent."}),
    ],
)
def test_each_field_makes_its_own_override(trip, field, typed, value):
    rw, run = trip
    editor = rw.editor(run, "compose")
    given = editor._step_at("compose:1").drafts([[field, typed]]).given
    assert given == [(field.partition(".")[0], value, 0)]
    assert checked(editor, [field, typed])["refused"] == ""


def test_reproducing_makes_no_call_and_proves_it(trip):
    rw, run = trip
    editor = rw.editor(run, "compose")
    runs = len(rw.store.runs())
    asked(editor, "reproduce", address="compose:1")
    assert editor.wait(20)
    COALESCER.settle()
    assert (editor.proof.ok, editor.proof.live_calls, editor.proof.steps) == (True, 0, 2)
    assert editor._told["words"].startswith("Proof ok: 2/2 steps identical, 0 live calls")
    assert (editor.result, editor.fork) == ("", None)
    assert [r.kind for r in rw.store.runs()].count("fork") == 0
    assert len(rw.store.runs()) == runs + 1


def test_a_fork_that_fails_shows_its_error_with_its_step_and_leaves_the_editor_usable(store):
    rw = Rewind(dividing_app(), store=store)
    editor, told = rw.editor(rw.run(), "choose"), []
    editor.on_fork(lambda fork: told.append(fork.status))

    failed = forked(editor, ["output.n", "0"])

    assert (failed.status, editor.result) == ("failed", failed.id)
    assert editor._told["state"] == "failed"
    assert editor._told["problem"] == "Step 1 'divide': ZeroDivisionError: <img src=x> is 0"
    assert forked(editor, ["output.n", "5"]).state["share"] == 2.0
    assert (editor._told["state"], editor._told["problem"]) == ("done", "")
    assert told == ["failed", "complete"]


def test_a_callback_that_raises_is_told_and_loses_no_fork(branch):
    rw, run = branch
    editor = rw.editor(run, "judge")
    editor.on_fork(lambda _: {}["missing"])
    fork = forked(editor, ["state.fare", "600"])
    assert editor.result == fork.id
    assert editor._told["problem"] == "A callback of on_fork raised KeyError: 'missing'"


def test_a_failed_step_is_forked_by_giving_all_that_it_declares_to_write(store):
    rw = Rewind(dividing_app(n=0), store=store)
    with pytest.raises(ZeroDivisionError):
        rw.run()
    editor = rw.editor(rw.last_run, "divide")
    assert ids(editor) == ["state.n", "output.share", "output.rest"]
    told = checked(editor, ["output.share", "1.5"])
    assert "must give everything it declares to write. Missing: 'rest'" in told["refused"]
    fork = forked(editor, ["output.share", "1.5"], ["output.rest", "0"])
    assert (fork.status, fork.state["share"]) == ("complete", 1.5)


def test_a_step_inside_a_task_is_edited_and_forked_at(store):
    rw = Rewind(task_apps.map_app(), store=store)
    run = rw.run()
    inner = [step for step in run.walk() if step.path][-1]
    editor = rw.editor(run, inner)
    assert editor.selection == inner.address
    key, value = next(iter(inner.writes.items()))
    fork = forked(editor, [f"output.{key}", str(value + 1)])
    assert fork.forked_step.address == inner.address
    asked(editor, "reproduce", address=inner.address)
    assert editor.wait(20)
    assert (editor.proof.ok, editor.proof.run.origin.at) == (True, inner.top.seq)


# -- one at a time, stopped ----------------------------------------------------------------------


def test_a_sync_fork_that_is_stopped_ends_after_its_step_and_can_be_gone_on_with(store):
    gate, started = threading.Event(), threading.Event()
    rw = Rewind(waiting_app(gate, started), store=store)
    gate.set()
    run = rw.run()
    gate.clear()
    started.clear()
    editor = rw.editor(run, "begin")
    asked(editor, "fork", address="begin:1", edits=[["output.n", "5"]])
    assert started.wait(10)
    busy = editor.answer(
        {"ask": "fork", "args": {"address": "begin:1", "edits": [["output.n", "6"]]}}
    )
    assert busy["error"] == "Something executes already. Wait until it ends, or stop it."
    assert asked(editor, "stop") is True
    gate.set()
    assert editor.wait(10)
    COALESCER.settle()

    fork = editor.fork
    assert (fork.status, [s.action for s in fork]) == ("interrupted", ["begin", "wait"])
    assert editor._told["state"] == "stopped"
    assert editor._told["words"] == f"Stopped. {fork.id} goes on with rw.resume('{fork.id}')."
    assert rw.resume(fork).state["end"] == 6
    assert asked(editor, "stop") is False


def test_an_async_fork_that_is_stopped_is_cancelled_at_its_await(store):
    rw = Rewind(sleeping_app(), store=store)
    run = rw.run()
    editor = rw.editor(run, "begin")
    asked(editor, "fork", address="begin:1", edits=[["output.seconds", "60"]])
    until = time.monotonic() + 10
    while "'rest'" not in editor._forking.told["words"] and time.monotonic() < until:
        time.sleep(0.01)
    began = time.monotonic()
    asked(editor, "stop")
    assert editor.wait(5)
    assert time.monotonic() - began < 2
    assert (editor.fork.status, editor._forking.told["state"]) == ("interrupted", "stopped")
    assert forked(editor, ["output.seconds", "0.002"]).status == "complete"


def test_all_forks_of_an_editor_share_one_thread_and_one_loop(store):
    seen = []

    @action(reads=["n"], writes=["twice"])
    async def double(state: State) -> State:
        seen.append((threading.get_ident(), asyncio.get_running_loop()))
        return state.update(twice=state["n"] * 2)

    rw = Rewind(one_step(double, n=1), store=store)
    run = rw.run()
    seen.clear()
    editor = rw.editor(run, "double")
    assert [forked(editor, ["state.n", n]).state["twice"] for n in ("2", "3")] == [4, 6]
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert seen[0][0] != threading.get_ident()


# -- a widget among others -----------------------------------------------------------------------


def test_a_dropdown_drives_the_selection(branch):
    rw, run = branch
    editor, graph = rw.editor(run), run.view()
    dropdown = ipywidgets.Dropdown(options=["", *(step.address for step in run)])
    traitlets.link((dropdown, "value"), (editor, "selection"))
    traitlets.link((graph, "selection"), (editor, "selection"))

    dropdown.value = "book:1"

    assert (editor.selection, graph.selection) == ("book:1", "book:1")
    assert ids(editor) == ["state.fare", "output.booking", "patch"]
    graph.selection = "judge:1"
    assert (dropdown.value, ids(editor)[0]) == ("judge:1", "state.fare")
    assert isinstance(ipywidgets.VBox([dropdown, editor]).children[1], OverrideEditor)


def test_another_run_is_shown_where_its_id_is_set_and_a_step_that_it_lacks_is_let_go(branch):
    rw, run = branch
    fork = rw.fork(run, "judge", state={"fare": 600})
    editor = rw.editor(run, "book")
    editor.run_id = fork.id
    assert (editor.run.id, editor.selection) == (fork.id, "")
    assert [step["address"] for step in editor._drawn["steps"]] == [
        "judge:1",
        "refuse:1",
        "summarise:1",
    ]
    assert editor._drawn["run"]["parent"] == run.id
    told = editor.answer({"ask": "step", "args": {"address": "reffuse:1"}})
    assert told["error"] == "The run has no step 'reffuse:1'. Did you mean 'refuse:1'?"
    with pytest.raises(StepNotFoundError):
        rw.editor(run, "refuse")


def test_code_that_changed_since_is_said_before_anything_is_typed(store):
    def app(ten):
        @action(reads=["n"], writes=["m"])
        def add(state: State) -> State:
            return state.update(m=state["n"] + ten)

        return one_step(add, n=1)

    run = Rewind(app(10), store=store).run()
    rw = Rewind(app(11), store=store)
    told = asked(rw.editor(run, "add"), "step", address="add:1")
    assert told["refused"].startswith("The code of 'add' changed since")


def test_a_registered_secret_is_in_no_trait_and_no_answer_and_cannot_be_typed(store):
    @action(reads=["note"], writes=["length"])
    def measure(state: State) -> State:
        return state.update(length=len(state["note"]))

    hidden = "sk-editor-0123456789abcdef"
    rw = Rewind(one_step(measure, note=f"use {hidden} here"), store=store)
    editor = rw.editor(rw.run(), "measure")
    Secret(hidden)  # only now is it known for one
    told = asked(editor, "step", address="measure:1")
    assert told["fields"][0]["locked"] == "It holds a registered secret, which is shown nowhere."
    told = [told, asked(editor, "recorded", address="measure:1", field="state.note")]
    told.append(checked(editor, ["output.length", json.dumps(hidden)]))
    assert "never stored" in told[2]["fields"]["output.length"]["problem"]
    assert hidden not in json.dumps([told, editor.state()])


def test_hostile_text_stays_text(store):
    hostile = "<img src=x onerror=alert(1)>\u202e\x1b[31m"

    @action(reads=["text"], writes=[hostile])
    def show(state: State) -> State:
        return state.update(**{hostile: state["text"]})

    rw = Rewind(one_step(show, text=hostile), store=store)
    editor = rw.editor(rw.run(), "show")
    told = asked(editor, "step", address="show:1")
    assert "\x1b" not in json.dumps(told, ensure_ascii=False)
    assert "\u202e" not in json.dumps(told, ensure_ascii=False)
    assert "<img" not in editor.html()
    shown = asked(editor, "recorded", address="show:1", field="state.text")["shown"]
    assert shown == "<img src=x onerror=alert(1)>\\u202e\\x1b[31m"


def test_its_repr_says_the_same_each_time_and_its_static_html_needs_no_kernel(branch):
    rw, run = branch
    editor = rw.editor(run, "judge")
    assert repr(editor) == "<OverrideEditor of 3 steps, judge:1>"
    assert repr(rw.editor(run)) == "<OverrideEditor of 3 steps, no step selected>"
    assert "verdict" in editor.html()
    assert "<script" not in editor.html()


def test_a_saved_page_holds_the_steps_and_their_fields(branch, tmp_path):
    rw, run = branch
    editor = rw.editor(run, "summarise")
    questions = editor.questions()
    assert questions[0] == ("step", {"address": "summarise:1"})
    assert ("recorded", {"address": "judge:1", "field": "state.fare"}) in questions
    assert "cheap" in editor.to_html(tmp_path / "page.html").read_text("utf-8")


def test_a_closed_editor_is_gone_and_so_is_its_thread(branch):
    rw, run = branch
    editor = rw.editor(run, "judge")
    forked(editor, ["state.fare", "600"])
    thread = editor._forking._work._thread
    gone = weakref.ref(editor)
    editor.close()
    del editor
    thread.join(5)
    gc.collect()
    assert not thread.is_alive()
    assert gone() is None
    assert rw._hooks == []


# -- applications --------------------------------------------------------------------------------


def one_step(act, **state):
    name = act.__name__
    return (
        ApplicationBuilder().with_actions(**{name: act}).with_state(**state)
        .with_transitions().with_entrypoint(name).build()
    )  # fmt: skip


@action(reads=["n"], writes=["n"])
def choose(state: State) -> State:
    return state.update(n=state["n"])


@action(reads=["n"], writes=["share", "rest"])
def divide(state: State) -> State:
    if state["n"] == 0:
        raise ZeroDivisionError("<img src=x> is 0")
    return state.update(share=10 / state["n"], rest=10 % state["n"])


def dividing_app(n=4):
    return (
        ApplicationBuilder().with_actions(choose, divide).with_transitions(("choose", "divide"))
        .with_state(n=n).with_entrypoint("choose").build()
    )  # fmt: skip


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


def sleeping_app():
    @action(reads=[], writes=["seconds"])
    async def begin(state: State) -> State:
        return state.update(seconds=0.001)

    @action(reads=["seconds"], writes=["rested"])
    async def rest(state: State) -> State:
        await asyncio.sleep(state["seconds"])
        return state.update(rested=True)

    return (
        ApplicationBuilder().with_actions(begin, rest).with_transitions(("begin", "rest"))
        .with_entrypoint("begin").build()
    )  # fmt: skip
