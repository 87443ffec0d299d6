"""The timeline of a store, without a browser: its tree, the states, two compared, what is live."""

import gc
import json
import threading
import time
import weakref

import apps
import ipywidgets
import pytest
from burr.core import ApplicationBuilder, State, action, expr

from rewind_nb import Rewind, Store
from rewind_nb._secrets import register_secret
from rewind_nb.errors import ConfigError, RunNotFoundError
from rewind_nb.widgets import DiffTable, Timeline
from rewind_nb.widgets import _listing as listing
from rewind_nb.widgets._coalescer import COALESCER

XSS = "<img src=x onerror=alert(1)></script>\u202e\u2028\x1b[31m"
LONG = 20_000_000  # characters


def notes_app(notes, *, fails_at=99, gate=None):
    """Writes a note each step, changes the count, deletes the draft; fails at a step."""

    @action(reads=["n", "kept"], writes=["n", "note", "kept"])
    def write(state: State) -> State:
        if gate is not None:
            gate(state["n"])
        if state["n"] == fails_at:
            raise ValueError(f"no note {fails_at}: {XSS}")
        wiped = state.wipe(delete=["draft"]) if state["n"] else state
        return wiped.update(n=state["n"] + 1, note=notes[state["n"]], kept=state["kept"])

    return (
        ApplicationBuilder()
        .with_actions(write)
        .with_transitions(("write", "write", expr(f"n < {len(notes)}")))
        .with_state(n=0, kept="always", draft="a first one", city="Bern")
        .with_entrypoint("write")
        .build()
    )


def value_app(value):
    @action(reads=[], writes=["value"])
    def make(state: State) -> State:
        return state.update(value=value)

    return ApplicationBuilder().with_actions(make).with_entrypoint("make").build()


@pytest.fixture
def branch(store):
    """A run, two forks of it, a fork of one of these, and a replay."""
    rw = Rewind(apps.branch_app(450), store=store)
    run = rw.run(label="trip")
    cheap = rw.fork(run, "judge", state={"fare": 90})
    dear = rw.fork(run, "judge", state={"fare": 1450})
    inner = rw.fork(dear, "summarise", state={"verdict": "fine"})
    return rw, run, cheap, dear, inner


@pytest.fixture
def view(store):
    made = []

    def opened(**given):
        made.append(Timeline(store, **given))
        return made[-1]

    yield opened
    for one in made:
        one.close()


def asked(timeline, kind, **arguments):
    """What Python answers; an error fails the test."""
    told = timeline.answer({"ask": kind, "args": arguments})
    assert "error" not in told, told
    return json.loads(json.dumps(told["answer"]))  # it goes over a wire


def tree(timeline):
    return [(row["level"], row["id"]) for row in timeline._drawn["runs"]]


def marks(state):
    return {field["key"]: field["change"] for field in state["keys"]}


def timers():
    return [t for t in threading.enumerate() if t.name == "rewind-timeline"]


def settled(condition, seconds=8):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
        COALESCER.settle()
    return condition()


# -- the tree -----------------------------------------------------------------------------------


def test_runs_stand_as_a_tree_of_forks_the_newest_first(view, branch, store):
    _, run, cheap, dear, inner = branch
    other = Rewind(apps.loop_app(2), store=store).run(inputs={"by": 1})
    timeline = view()
    assert tree(timeline) == [
        (1, other.id), (1, run.id), (2, dear.id), (3, inner.id), (2, cheap.id),
    ]  # fmt: skip
    assert timeline.run_id == other.id


def test_each_fork_says_its_override_in_words(view, branch):
    _, run, cheap, *_ = branch
    rows = {row["id"]: row for row in view()._drawn["runs"]}
    assert rows[cheap.id]["words"] == cheap.override_words == "state fare = 90"
    assert (rows[run.id]["words"], rows[run.id]["label"]) == ("", "trip")
    [facts] = asked(view(), "facts", runs=[cheap.id]).values()
    assert facts["at"] == cheap.at_step
    assert facts["steps"] == len(cheap)
    assert facts["tokens"] == cheap.usage.total_tokens
    assert facts["cost"] == str(cheap.cost)


def test_runs_of_experiments_are_left_out_until_they_are_asked_for(view, branch):
    rw, run, *_ = branch
    before = len(view()._drawn["runs"])
    rw.grid(run, "judge", {"state.fare": [1, 2, 1500]}, outcome="summary", progress=False)
    timeline = view()
    assert (len(timeline._drawn["runs"]), timeline._drawn["others"]) == (before, 3)
    timeline.experiments = True
    assert (len(timeline._drawn["runs"]), timeline._drawn["others"]) == (before + 3, 0)
    assert sum(bool(row["experiment"]) for row in timeline._drawn["runs"]) == 3


def test_of_very_many_runs_the_newest_are_listed_and_the_rest_is_counted(view, branch, monkeypatch):
    _, run, _, dear, inner = branch
    monkeypatch.setattr(listing, "LISTED", 2)
    timeline = view()
    assert tree(timeline) == [(1, dear.id), (2, inner.id)]
    assert timeline._drawn["left_out"] == 2
    assert timeline._drawn["runs"][0]["from"] == run.id  # whose fork it is though that is not there
    assert timeline._drawn["told"] == "4 runs"


def test_a_store_that_is_not_there_yet_is_empty_and_none_is_made(tmp_path):
    path = tmp_path / "none.db"
    timeline = Store(path).view()
    assert (timeline._drawn["runs"], timeline._drawn["there"]) == ([], False)
    assert repr(timeline) == "<Timeline of 0 runs>"
    assert timeline.run is timeline.diff is None
    assert not path.exists()


def test_a_run_is_found_by_the_start_of_its_id_and_an_unknown_one_is_an_error(view, branch):
    _, run, cheap, *_ = branch
    timeline = view(run_id=cheap.id[:8], compared=f"{run.id[:8]} {cheap.id[:8]}")
    assert (timeline.run_id, timeline.compared) == (cheap.id, f"{run.id} {cheap.id}")
    with pytest.raises(RunNotFoundError):
        view(run_id="r_zz")
    timeline.run_id = "r_zz"
    assert "r_zz" in timeline.answer({"ask": "run", "args": {"run": "r_zz"}})["error"]
    assert "r_zz" in asked(timeline, "facts", runs=["r_zz"])["r_zz"]["error"]


# -- the steps ----------------------------------------------------------------------------------


def test_the_state_at_each_step_is_that_of_state_at_with_its_changes_marked(view, store):
    run = Rewind(notes_app(["one", "two"]), store=store).run()
    timeline = view()
    assert [s["label"] for s in asked(timeline, "run", run=run.id)["steps"]] == [
        step.label for step in run.steps
    ]
    first = asked(timeline, "state", run=run.id, address="write:1")
    assert marks(first) == {
        "n": "changed", "note": "added", "kept": "written, equal", "draft": "", "city": "",
    }  # fmt: skip
    second = asked(timeline, "state", run=run.id, address="write:2")
    assert marks(second)["draft"] == "removed"
    fields = {field["key"]: field for field in second["keys"]}
    for key, value in run.state_at(("write", 2), after=True).items():
        assert fields[key]["after"] == repr(value)
    assert (fields["n"]["before"], fields["n"]["after"]) == ("1", "2")
    assert (fields["draft"]["before"], fields["draft"]["after"]) == ("'a first one'", None)
    assert all(field["sign"] for field in second["keys"] if field["change"])


def test_a_failed_run_shows_its_error_and_the_state_that_entered(view, store):
    rw = Rewind(notes_app(["one", "two"], fails_at=1), store=store)
    with pytest.raises(ValueError, match="no note"):
        rw.run()
    timeline = view()
    told = asked(timeline, "run", run=rw.last_run.id)
    assert (told["status"], told["steps"][-1]["words"]) == ("failed", "failed")
    state = asked(timeline, "state", run=rw.last_run.id, address="write:2")
    assert state["error"].startswith("ValueError: no note 1")
    assert not state["left"]
    assert set(marks(state).values()) == {""}
    assert {f["key"]: f["after"] for f in state["keys"]}["n"] == repr(
        rw.last_run.state_at(("write", 2))["n"]
    )


@pytest.mark.parametrize("address", ["search:1", "judge:1", "summarise:1"])
def test_the_code_of_a_step_forks_and_reproduces_there_as_it_stands(view, branch, address):
    rw, run, *_ = branch
    timeline = view(run_id=run.id)
    steps = [step["address"] for step in asked(timeline, "run", run=run.id)["steps"]]
    code = asked(timeline, "state", run=run.id, address=steps[int(address == "judge:1")])["code"]
    fork = eval(code["fork"], {"rw": rw})  # noqa: S307
    assert rw.diff(run, fork).identical  # the value in it is the recorded one
    assert fork.overrides or not code["changes"]
    assert eval(code["reproduce"], {"rw": rw}).ok  # noqa: S307


def test_a_step_that_is_not_there_is_an_error_with_near_misses(view, branch):
    _, run, *_ = branch
    error = view().answer({"ask": "state", "args": {"run": run.id, "address": "jugde:1"}})["error"]
    assert "no step 'jugde:1'" in error
    assert "judge:1" in error


def test_a_state_of_20_mb_is_a_preview_that_says_how_large_it_is(view, store):
    run = Rewind(value_app({"a": "x" * LONG}), store=store).run(halt_after=["make"])
    timeline = view()
    state = asked(timeline, "state", run=run.id, address="make:1")
    [field] = state["keys"]
    assert (field["kind"], field["more"]) == ("dict, 1 item", True)
    value = asked(timeline, "value", run=run.id, address="make:1", name="value")
    assert len(json.dumps([state, value])) < 30_000
    assert value["pieces"][-1][0] == "cut"


def test_what_is_hidden_in_a_text_is_seen_and_no_secret_is_sent(view, store):
    rw = Rewind(value_app({XSS: XSS, "key": "sk-timeline-secret!"}), store=store)
    run = rw.run(halt_after=["make"], label=XSS)
    fork = rw.fork(run, "make", output={"value": XSS})
    register_secret("sk-timeline-secret!")  # which was not known when it was recorded
    timeline = view(compared=f"{run.id} {fork.id}")
    timeline.settle()
    sent = [timeline.state(), timeline.html(), repr(timeline)]
    sent += [timeline.answer({"ask": k, "args": args}) for k, args in timeline.questions()]
    text = json.dumps(sent[0], ensure_ascii=False) + json.dumps(sent[3:], ensure_ascii=False)
    assert text.count("<img") > 4  # as text; a page writes it so
    assert not any(sign in text for sign in "\u202e\u2028\x1b")
    assert "sk-timeline-secret!" not in repr(sent)
    assert "<img" not in timeline.html()


# -- two of them --------------------------------------------------------------------------------


def test_two_runs_are_compared_by_their_first_divergence_and_number_of_changes(view, branch):
    rw, run, cheap, dear, _ = branch
    timeline = view()
    timeline.settle()
    told = asked(timeline, "compare", a=run.id, b=dear.id)
    diff = rw.diff(run, dear)
    assert told["changes"] == len(diff.changes) > 0
    assert told["first"]["path"] == diff.divergence.path
    assert told["first"]["address"] == diff.divergence.address
    assert told["cause"] == diff.cause
    same = asked(timeline, "compare", a=cheap.id, b=cheap.id)
    assert (same["identical"], same["first"]) == (True, None)
    assert eval(told["code"], {"rw": rw}).changes == diff.changes  # noqa: S307


def test_a_comparison_that_takes_long_is_told_when_it_is_there(view, branch, monkeypatch):
    _, run, _, dear, _ = branch
    go = threading.Event()
    timeline = view()
    monkeypatch.setattr(
        "rewind_nb.widgets._timeline.comparison_drawn",
        lambda diff: go.wait(10) and {"runs": [diff.a.id, diff.b.id]},
    )
    timeline._patience = 0
    assert asked(timeline, "compare", a=run.id, b=dear.id) == {"working": True}
    assert timeline._ready == 0
    go.set()
    assert settled(lambda: timeline._ready == 1)
    assert asked(timeline, "compare", a=run.id, b=dear.id)["runs"] == [run.id, dear.id]


def test_a_diff_table_follows_what_is_compared(view, branch):
    _, run, cheap, dear, _ = branch
    timeline, table = view(), DiffTable()
    timeline.observe(lambda _: setattr(table, "diff", timeline.diff), "compared")
    timeline.compared = f"{run.id} {dear.id}"
    assert (table.diff.a.id, table.diff.b.id) == (run.id, dear.id)
    timeline.compared = f"{cheap.id} {dear.id}"
    assert table.diff.a.id == cheap.id


# -- live ---------------------------------------------------------------------------------------


def test_refresh_shows_new_runs_and_a_rewind_shows_them_at_once(view, branch):
    rw, run, *_ = branch
    still, live = view(), view(rw=rw)
    fork = rw.fork(run, "judge", state={"fare": 700})
    assert settled(lambda: fork.id in dict(map(reversed, tree(live))))
    assert fork.id not in dict(map(reversed, tree(still)))
    assert asked(still, "renew")
    assert fork.id in dict(map(reversed, tree(still)))


def test_a_run_that_goes_on_is_followed_and_no_thread_is_left(view, store):
    go, there = threading.Event(), threading.Event()

    def gate(n):
        if n == 1:
            there.set()
            assert go.wait(20)

    rw = Rewind(notes_app(["a", "b", "c"], gate=gate), store=store)
    running = threading.Thread(target=rw.run)
    running.start()
    assert there.wait(20)
    timeline, closed = view(), view()
    [row] = timeline._drawn["runs"]
    assert row["status"] == "running"
    assert timeline._facts[row["id"]]["steps"] == 2
    assert len(timers()) == 2
    closed.close()
    assert settled(lambda: len(timers()) <= 1)
    go.set()
    running.join()
    assert settled(lambda: timeline._drawn["runs"][0]["status"] != "running")
    assert settled(lambda: not timers())
    assert timeline._facts[row["id"]]["steps"] == 3


def test_a_run_that_is_resumed_is_shown_as_it_is_by_then(view, store):
    rw = Rewind(notes_app(["one", "two"]), store=store)
    timeline = view(rw=rw)
    run = rw.run(halt_after=["write"])
    assert settled(lambda: [r["status"] for r in timeline._drawn["runs"]] == ["halted"])
    assert timeline.run_id == run.id  # the first run that came
    assert rw.resume(run, halt_after=[]).status == "complete"
    assert settled(lambda: [r["status"] for r in timeline._drawn["runs"]] == ["complete"])


def test_the_runs_that_an_experiment_makes_meanwhile_stay_left_out(view, branch):
    rw, run, *_ = branch
    timeline = view(rw=rw)
    rw.grid(run, "judge", {"state.fare": [1, 2, 1500]}, outcome="summary", progress=False)
    assert settled(lambda: timeline._drawn["others"] == 3)
    assert len(timeline._drawn["runs"]) == 4


# -- the actions --------------------------------------------------------------------------------


def test_a_step_is_edited_and_forked_where_a_rewind_is_at_hand(view, branch):
    rw, run, *_ = branch
    timeline = view(rw=rw, run_id=run.id)
    assert timeline._acts
    asked(timeline, "edit", run=run.id, address="judge:1")
    assert timeline._editing["_drawn"]["run"]["id"] == run.id
    fork = {"address": "judge:1", "edits": [["state.fare", "77"]]}
    assert asked(timeline, "editor", ask="fork", args=fork) == {"answer": True}
    assert settled(lambda: timeline._editing["result"] != "", 20)
    made = timeline._editing["result"]
    assert store_words(rw, made) == "state fare = 77"
    assert settled(lambda: made in dict(map(reversed, tree(timeline))))
    timeline.run_id = made
    assert timeline._editing["_drawn"]["run"]["id"] == made
    bad = asked(timeline, "editor", ask="fork", args={"address": "judge:1", "edits": []})
    assert "error" in bad


def store_words(rw, run_id):
    return rw.store.run(run_id).override_words


def test_a_store_alone_makes_no_forks_and_another_store_is_refused(view, branch):
    rw, run, *_ = branch
    timeline = view()
    told = timeline.answer({"ask": "edit", "args": {"run": run.id, "address": "judge:1"}})
    assert "Give Timeline(store, rw=rw)" in told["error"]
    assert not timeline._acts
    with Store(":memory:") as other, pytest.raises(ConfigError, match="another|records into"):
        Timeline(other, rw=rw)


# -- in a notebook ------------------------------------------------------------------------------


def test_a_dropdown_drives_the_run(view, branch):
    _, run, cheap, *_ = branch
    timeline = view()
    dropdown = ipywidgets.Dropdown(options=[run.id, cheap.id])
    ipywidgets.link((dropdown, "value"), (timeline, "run_id"))
    dropdown.value = cheap.id
    assert timeline.run.id == cheap.id


def test_a_store_in_a_cell_is_its_timeline_and_static_html_elsewhere(branch, store, monkeypatch):
    data, _ = store._repr_mimebundle_()
    assert data == {"text/plain": repr(store), "text/html": store._repr_html_()}
    monkeypatch.setattr("rewind_nb._notebook.in_kernel", lambda: True)
    data, _ = store._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/html"] == store._repr_html_()
    _, run, cheap, *_ = branch
    given = {"run_id": cheap.id, "selection": "judge:1", "compared": f"{run.id} {cheap.id}"}
    timeline = store.view(**given)
    assert repr(timeline) == "<Timeline of 4 runs>"
    assert {name: getattr(timeline, name) for name in given} == given


def test_no_timeline_is_left_after_it_was_closed(branch, store):
    rw, run, *_ = branch
    made = [Timeline(store, rw=rw) for _ in range(10)]
    made[0].answer({"ask": "edit", "args": {"run": run.id, "address": "judge:1"}})
    refs = [weakref.ref(one) for one in made]
    for one in made:
        one.refresh()
        one.close()
    del made, one
    assert COALESCER.settle()
    gc.collect()
    assert not any(ref() for ref in refs)
    assert rw._hooks == []


def test_a_saved_page_holds_the_answers_to_what_it_may_ask(branch, store, tmp_path):
    _, run, _, dear, _ = branch
    path = store.to_html(tmp_path / "store.html")
    assert store.to_html(tmp_path / "same.html").read_text() == path.read_text()
    text = path.read_text()
    saved = json.loads(text.partition('type="application/json">')[2].partition("</script>")[0])
    key = json.dumps(["compare", {"a": run.id, "b": dear.id}], separators=(",", ":"))
    assert saved["answers"][key]["answer"]["first"]["path"]
    assert len(saved["state"]["_facts"]) == 4
    assert not any("error" in answer for answer in saved["answers"].values())


@pytest.mark.parametrize(
    "value",
    [10**5_000, float("nan"), "a\u202eb", "x" * 90, {}, {1: 2}, None],
    ids=["huge", "nan", "hidden", "long", "empty", "keys", "none"],
)
def test_what_no_code_can_say_is_left_out_of_the_code_of_a_step(view, store, value):
    rw = Rewind(value_app({"inner": value}), store=store)
    run = rw.run(halt_after=["make"])
    code = asked(view(), "state", run=run.id, address="make:1")["code"]
    assert (code["fork"], code["changes"]) == (f"rw.fork({run.id!r}, ('make', 1))", "")


def test_a_field_that_was_deleted_opens_as_what_it_was(view, store):
    run = Rewind(notes_app(["one", "two"]), store=store).run()
    value = asked(view(), "value", run=run.id, address="write:2", name="draft")
    assert value == {"pieces": [["removed", "a first one"]], "prose": True, "same": False}
