"""What outlives its step or its run is named on the run."""

import asyncio
import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import wire_server as ws
from burr.core import ApplicationBuilder, State, action

from rewind_nb import Rewind
from rewind_nb.errors import RunStoppedError


def line_of(*steps):
    names = [step.__name__ for step in steps]
    return (
        ApplicationBuilder()
        .with_actions(**{s.__name__: action(reads=[], writes=[s.__name__])(s) for s in steps})
        .with_transitions(*zip(names, names[1:], strict=False))
        .with_entrypoint(names[0])
        .build()
    )


@pytest.fixture
def go():
    """An event that whatever outlives its step waits for."""
    event = threading.Event()
    yield event
    event.set()


def waiting(go):
    def deliver():
        go.wait(10)

    return deliver


@pytest.mark.parametrize("way", ["thread", "pool"])
def test_a_thread_that_outlives_its_run_is_named(store, go, way):
    pool = ThreadPoolExecutor(1)

    def starts(state: State) -> State:
        if way == "thread":
            threading.Thread(target=waiting(go)).start()
        else:
            pool.submit(waiting(go))
        return state.update(starts=1)

    run = Rewind(line_of(starts), store=store).run()
    go.set()
    pool.shutdown()

    assert run.status == "complete"
    assert "deliver" in run.note
    assert "started in step 'starts', still worked when the run ended" in run.note
    assert run.note.count("deliver") == 1
    assert store.verify().ok


def test_a_task_of_the_loop_that_outlives_its_run_is_named(store, go):
    kept = []

    async def deliver():
        await asyncio.to_thread(go.wait, 10)

    async def starts(state: State) -> State:
        kept.append(asyncio.create_task(deliver()))
        await asyncio.sleep(0)
        return state.update(starts=1)

    async def cell():
        run = await Rewind(line_of(starts), store=store).arun()
        go.set()
        await asyncio.gather(*kept)
        return run

    run = asyncio.run(cell())
    assert "deliver, started in step 'starts', still worked" in run.note


def test_a_request_that_outlives_its_run_is_named_by_what_makes_it(store, go):
    with ws.WireServer(lambda seen: (go.wait(5), ws.json_reply({}))[1]) as server:

        def ask():
            httpx.get(server.url)

        def starts(state: State) -> State:
            threading.Thread(target=ask).start()
            while not server.count:
                go.wait(0.01)
            return state.update(starts=1)

        run = Rewind(line_of(starts), store=store).run()
        go.set()
    assert "(ask)', started in step 'starts', still worked" in run.note
    assert not run["starts"].calls


def test_what_ended_before_its_run_did_is_not_named(store):
    made = []

    def starts(state: State) -> State:
        made.append(threading.Thread(target=lambda: None))
        made[0].start()
        return state.update(starts=1)

    def joins(state: State) -> State:
        made[0].join()
        return state.update(joins=1)

    run = Rewind(line_of(starts, joins), store=store).run()
    assert run.note is None


@action(reads=["n"], writes=["m"])
def two(state: State) -> State:
    return state.update(m=2)


@pytest.mark.parametrize("moment", ["in a step", "between two steps"])
def test_the_end_of_a_task_whose_step_has_ended_is_noted(store, moment):
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()

    @action(reads=[], writes=["n"])
    def first(state: State) -> State:
        if moment == "in a step":
            begun.set()
            go.wait(10)
        return state.update(n=1)

    def inner():
        app = (
            ApplicationBuilder()
            .with_actions(first=first, two=two)
            .with_transitions(("first", "two"))
            .with_entrypoint("first")
            .build()
        )
        with contextlib.suppress(RunStoppedError):  # what tells it to stop
            app.step()
            begun.set()
            go.wait(10)
            app.step()
        ended.set()

    def starts(state: State) -> State:
        threading.Thread(target=inner).start()
        assert begun.wait(10)
        return state.update(starts=1)

    def waits(state: State) -> State:
        go.set()
        assert ended.wait(10)
        return state.update(waits=1)

    run = Rewind(line_of(starts, waits), store=store).run()
    what = "the end of" if moment == "in a step" else "another step in"
    assert f"{what} starts:1[" in run.note
    assert "came when its step 'starts' had ended: not recorded" in run.note
    assert store.verify().ok
