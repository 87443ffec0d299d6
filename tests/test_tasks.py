"""Tasks inside steps: parallel actions, and applications that an action builds."""

import contextlib
import itertools
import shutil
import signal
import sqlite3
import threading

import apps
import pytest
import task_apps
from burr.core import ApplicationBuilder, State, action
from burr.core.parallelism import MapStates, RunnableGraph

from rewind_nb import Rewind, Store
from rewind_nb.errors import OverrideError, StepNotFoundError

APPS = {
    "sub-graphs in a loop": task_apps.map_app,
    "several actions, and tasks of one's own": task_apps.views_app,
    "async": task_apps.async_map_app,
    "an application built by an action": task_apps.recursive_app,
}


@pytest.fixture(params=APPS)
def rw(request, store):
    return Rewind(APPS[request.param](), store=store)


@pytest.fixture
def loop(store):
    return Rewind(task_apps.map_app(), store=store)


def addresses(run):
    return [step.address for step in run.walk()]


# -- recording -----------------------------------------------------------------------------------


def test_the_application_ends_as_it_does_without_recording(rw):
    app = rw._app
    names = [a.name for a in app.graph.actions]
    run = rw.run()
    apps.CALLS.clear()
    if rw._spec.is_async:
        import asyncio

        *_, state = asyncio.run(app.arun(halt_after=names[-1:]))
    else:
        *_, state = app.run(halt_after=names[-1:])

    bare = {k: v for k, v in state.get_all().items() if not k.startswith("__")}
    assert {k: v for k, v in run.state.items() if k != "found"} == {
        k: v for k, v in bare.items() if k != "found"
    }


def test_each_task_is_a_trajectory_under_its_step_and_key(loop):
    run = loop.run()

    assert list(run["each", 1].tasks) == ["0", "1", "2", "3", "4"]
    assert [s.action for s in run["each", 1].tasks["1"]] == ["search", "skip"]
    assert run["each", 2].tasks["4"][1].address == "each:2[4]/grade:1"
    assert len(run) == 4


def test_tasks_are_named_by_their_action_or_by_the_id_they_were_given(store):
    run = Rewind(task_apps.views_app(), store=store).run()

    assert list(run["views"].tasks) == ["optimist", "pessimist"]
    assert list(run["cities"].tasks) == ["Bern", "Oslo", "a/b"]
    assert run["cities"].tasks["a/b"][0].address == 'cities:1["a/b"]/search:1'


def test_a_map_in_a_loop_is_right_in_every_round(loop):
    run = loop.run()

    assert run.state_at("shorten")["grades"] == [6, 0, 6, 6, 6]
    assert run.state["grades"] == [5, 0, 5, 5, 5]


def test_what_a_task_reads_of_the_state_passed_on_its_step_has_read(loop):
    run = loop.run()

    assert run["each", 1].reads == {
        "words": ["alpha", "be", "alpha", "alpha", "gamma"],
        "bonus": 1,
        "rounds": 0,
    }
    assert run["each", 1].tasks["0"][0].reads == {"word": "alpha"}


def test_a_value_changed_in_place_before_it_is_passed_on_reaches_the_tasks(store):
    class Grown(task_apps.EachWord):
        def states(self, state, context, inputs):
            state["words"].append("delta")
            yield from super().states(state, context, inputs)

    app = (
        ApplicationBuilder()
        .with_actions(each=Grown())
        .with_state(words=["alpha"], rounds=0)
        .with_entrypoint("each")
        .build()
    )
    rw = Rewind(app, store=store)
    run = rw.run()

    assert len(run["each"].tasks) == 2
    assert run.state["words"] == ["alpha", "delta"]
    assert run["each"].tasks["0"][0].row.state
    assert rw.replay(run).ok


def test_an_application_kept_beyond_its_step_still_runs(store):
    kept = {}

    @action(reads=["n"], writes=["n"])
    def inner(state: State) -> State:
        return state.update(n=state["n"] + 1)

    @action(reads=[], writes=["n"])
    def act(state: State) -> State:
        if "app" not in kept:
            kept["app"] = (
                ApplicationBuilder()
                .with_actions(inner)
                .with_transitions(("inner", "inner"))
                .with_state(n=0)
                .with_entrypoint("inner")
                .build()
            )
        *_, state_after = kept["app"].run(halt_after=["inner"])
        return state.update(n=state_after["n"])

    app = (
        ApplicationBuilder()
        .with_actions(first=act, second=act)
        .with_transitions(("first", "second"))
        .with_entrypoint("first")
        .build()
    )
    run = Rewind(app, store=store).run()
    *_, outside = kept["app"].run(halt_after=["inner"])

    assert (run.state["n"], outside["n"]) == (2, 3)
    assert len(run["first"].tasks["app-0"]) == 1


# -- replay and fork -------------------------------------------------------------------------------


def test_every_step_of_every_task_is_proved(rw):
    run = rw.run()
    apps.CALLS.clear()
    proof = rw.replay(run).require()

    assert proof.steps == proof.executed == len(addresses(run)) > len(run)
    assert apps.CALLS["look_up"] + apps.CALLS["lookup"] == 0


def test_an_unchanged_fork_at_every_step_of_every_task_is_that_run(rw):
    run = rw.run()
    before = [step.hash for step in run.walk()]
    rows = [step.row.row_hash for step in run.walk()]
    for step in run.walk():
        fork = rw.fork(run, step)
        assert [s.hash for s in fork.walk()] == before
        assert addresses(fork) == addresses(run)
        assert sum(s.live_calls for s in fork.history(inside=True)) == 0
        assert rw.replay(fork).ok
    assert [step.row.row_hash for step in rw.store.run(run.id).walk()] == rows
    assert rw.store.verify().ok


def test_a_fork_inside_a_task_shares_the_steps_before_it(loop):
    run = loop.run()
    step = run["each", 2].tasks["3"][1]
    apps.CALLS.clear()
    fork = loop.fork(run, step, output={"grade": 100}, reuse="none")

    assert fork.state["grades"] == [5, 0, 5, 100, 5]
    assert fork.state["report"] == "115 points"
    shared, replaced = fork["each", 2].tasks["3"]
    assert (shared.source, replaced.source) == ("inherited", "override")
    assert (apps.CALLS["search"], apps.CALLS["look_up"]) == (4, 0)
    assert "each:2[3]/grade:1" in repr(fork)
    assert loop.replay(fork).ok


@pytest.mark.parametrize(
    ("index", "given", "points"),
    [
        (0, {"tool_result": {"word": "alphabetical", "n": 1}}, 28),
        (1, {"patch": {"grade": 50}}, 65),
        (1, {"state": {"bonus": 31}}, 50),
        (0, {"output": {"found": {"word": "x", "n": 1}}}, 15),
        (1, {"output": lambda was: {"grade": was["grade"] * 2}}, 25),
    ],
)
def test_every_override_works_inside_a_task(loop, index, given, points):
    run = loop.run()
    fork = loop.fork(run, run["each", 2].tasks["3"][index], **given)
    again = loop.fork(fork, "report")

    assert fork.state["report"] == f"{points} points"
    assert again.state == fork.state
    assert loop.replay(fork).ok
    assert loop.replay(again).ok


def test_an_override_inside_a_task_that_nothing_consumes_is_refused(loop):
    run = loop.run()
    with pytest.raises(OverrideError, match=r"in each:2\[3\]/ does not read .*'nope'"):
        loop.fork(run, run["each", 2].tasks["3"][1], state={"nope": 1})


def test_a_step_of_a_task_of_another_run_is_found_by_its_address(loop):
    run, other = loop.run(), loop.run()
    step = run["each", 2].tasks["3"][1]

    assert other[step].run_id == other.id
    assert other[step].address == step.address
    short = loop.run(state={"words": ["alpha"]})
    with pytest.raises(StepNotFoundError, match=r"each:2\[3\]/grade:1"):
        short[step]


@pytest.mark.thorough
def test_tasks_that_end_in_any_order_are_recorded_and_replayed_alike(store, monkeypatch):
    monkeypatch.setattr(task_apps, "DELAY", 0.004)  # before and inside the calls, at random
    rw = Rewind(task_apps.map_app(threads=5), store=store, cache="refresh")
    first, orders = None, set()
    for _ in range(20):
        apps.CALLS.clear()
        run = rw.run()
        found = [step.address for step in run.walk()]
        first = first or found
        assert found == first
        tasks = run["each", 1].tasks.values()
        samples = [steps[0].calls[0].response["n"] for steps in tasks]
        assert len(set(samples)) == 5  # though three of the five ask the same
        orders.add(tuple(sorted(range(5), key=samples.__getitem__)))
        for _ in range(5):
            apps.CALLS.clear()
            assert rw.replay(run).identical == len(first)
            assert apps.CALLS["look_up"] == 0
    assert len(orders) > 1  # they did end in several orders


# -- failure ---------------------------------------------------------------------------------------


class Flaky(MapStates):
    """Fails in its third task as long as `broken` is true."""

    broken = True

    def action(self, state, inputs):
        return RunnableGraph.create(fragile)

    def states(self, state, context, inputs):
        for word in state["words"]:
            yield state.update(word=word)

    def reduce(self, state, states):
        return state.update(lengths=[s["length"] for s in states])

    @property
    def reads(self):
        return ["words"]

    @property
    def writes(self):
        return ["lengths"]


@action(reads=["word"], writes=["length"])
def fragile(state: State) -> State:
    apps.ran(f"fragile {state['word']}")
    found = task_apps.look_up(state["word"])
    if Flaky.broken and state["word"] == "c":
        raise OSError("the third one is broken")
    return state.update(length=len(found["word"]))


def flaky_app():
    return (
        ApplicationBuilder()
        .with_actions(each=Flaky())
        .with_state(words=["a", "bb", "c", "dddd"])
        .with_entrypoint("each")
        .build()
    )


@pytest.fixture
def failed(store, monkeypatch):
    monkeypatch.setattr(Flaky, "broken", True)
    rw = Rewind(flaky_app(), store=store)
    with pytest.raises(OSError, match="third") as caught:
        rw.run()
    assert "each:1[2]/" in " ".join(caught.value.__notes__)
    return rw


def test_a_task_that_failed_fails_its_step_and_replays_to_the_same_failure(failed):
    run = failed.last_run

    assert run.status == "failed"
    assert [steps[0].status for steps in run["each"].tasks.values()] == [
        "complete", "complete", "failed", "complete",
    ]  # fmt: skip
    proof = failed.replay(run).require()
    assert proof.steps == 5
    assert failed.store.verify().ok


@pytest.mark.parametrize("flushed", [False, True])
def test_no_finished_task_runs_again_when_a_failed_step_is_resumed(failed, monkeypatch, flushed):
    monkeypatch.setattr(Flaky, "broken", False)
    apps.CALLS.clear()
    if flushed:  # the new attempt is in the store before its tasks ask what the old one had done
        failed.on(lambda event: failed.store.flush() if event.name == "step_started" else None)
    done = failed.resume(failed.last_run)

    assert done.state["lengths"] == [1, 2, 1, 4]
    assert apps.CALLS == {"fragile c": 1, "look_up": 1}
    reasons = [steps[0].reason for steps in done["each"].tasks.values()]
    assert reasons.count("finished before the run stopped") == 3
    assert failed.replay(done).ok
    assert failed.store.verify().ok


def test_a_failed_task_can_be_given_its_output(failed):
    run = failed.last_run
    fork = failed.fork(run, run["each"].tasks["2"][0], output={"length": 7})

    assert (fork.status, fork.state["lengths"]) == ("complete", [1, 2, 7, 4])
    assert failed.replay(fork).ok


# -- stopping --------------------------------------------------------------------------------------


class Slow(Flaky):
    """Its first task ends at once; the others take until they are let go, or look something up."""

    def action(self, state, inputs):
        return RunnableGraph.create(slow)


STARTED = threading.Semaphore(0)
LET_GO = threading.Event()


@action(reads=["word"], writes=["length"])
def slow(state: State) -> State:
    apps.ran(f"slow {state['word']}")
    if state["word"] == "deaf":
        STARTED.release()
        LET_GO.wait(60)
    if state["word"] == "busy":
        STARTED.release()
        for n in itertools.count():
            task_apps.look_up(f"busy {n}")
    return state.update(length=len(state["word"]))


def interrupted(store, words, monkeypatch):
    monkeypatch.setattr("rewind_nb._burr._parallel.GRACE", 0.3)
    LET_GO.clear()
    while STARTED.acquire(blocking=False):
        pass
    app = (
        ApplicationBuilder()
        .with_actions(each=Slow())
        .with_state(words=words)
        .with_entrypoint("each")
        .build()
    )
    rw = Rewind(app, store=store)

    over = threading.Event()

    def press_stop():
        for _ in words[1:]:
            STARTED.acquire()
        while True:  # again where Python lost it: in a callback of the collector, for instance
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            if over.wait(5):
                return

    threading.Thread(target=press_stop).start()
    with pytest.raises(KeyboardInterrupt):
        try:
            rw.run()
        finally:
            over.set()
    return rw


def test_stop_ends_the_tasks_at_their_next_call(store, monkeypatch):
    rw = interrupted(store, ["a", "busy", "busy"], monkeypatch)
    run = rw.last_run

    assert run.status == "interrupted"
    assert run["each"].status == "interrupted"
    assert [s[0].status for s in run["each"].tasks.values()] == [
        "complete", "interrupted", "interrupted",
    ]  # fmt: skip
    assert run.note is None
    assert not [t for t in threading.enumerate() if "ThreadPoolExecutor" in t.name]
    assert store.verify().ok


def test_a_task_that_does_not_stop_is_named_and_what_it_brings_is_dropped(store, monkeypatch):
    rw = interrupted(store, ["a", "deaf"], monkeypatch)
    run = rw.last_run
    assert run.note.startswith("task 1 of 'each' did not stop")

    LET_GO.set()
    for thread in threading.enumerate():
        if "ThreadPoolExecutor" in thread.name:
            thread.join()
    assert store.run(run.id)["each"].tasks["1"][0].status == "interrupted"
    assert store.verify().ok

    apps.CALLS.clear()
    done = rw.resume(run)
    assert done.state["lengths"] == [1, 4]
    assert apps.CALLS == {"slow deaf": 1}
    assert rw.replay(done).ok


# -- what a store says of them -----------------------------------------------------------------------


def test_every_step_of_a_task_is_missed_when_it_is_gone(tmp_path):
    path = tmp_path / "runs.db"
    with Store(path) as store:
        run = Rewind(task_apps.map_app(), store=store).run()
        keys = [s.key for s in run.walk() if s.path]
    for run_id, lane, seq, attempt in keys:
        copy = tmp_path / "copy.db"
        shutil.copy(path, copy)
        with contextlib.closing(sqlite3.connect(copy)) as db:
            db.execute(
                "DELETE FROM steps WHERE run_id = ? AND path = ? AND seq = ? AND attempt = ?",
                (run_id, lane, seq, attempt),
            )
            db.commit()
        with Store(copy) as store:
            report = store.verify()
        assert not report.ok
        copy.unlink()


def test_what_is_left_open_by_a_crash_is_no_damage(store, monkeypatch):
    rw = interrupted(store, ["a", "deaf"], monkeypatch)
    LET_GO.set()
    assert [s.status for s in rw.last_run.history(inside=True)] == [
        "interrupted", "complete", "interrupted",
    ]  # fmt: skip
    assert store.verify().ok


def test_a_parallel_step_that_is_asked_again_asks_in_its_tasks_too(loop):
    run = loop.run()
    apps.CALLS.clear()
    fork = loop.fork(run, ("each", 2), cache="refresh")
    assert apps.CALLS["look_up"] > 0
    assert {s.source for s in fork["each", 2].inside()} != {"reused"}
