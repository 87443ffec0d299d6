"""An interrupt ends a run at once, and what it had is kept."""

import asyncio
import contextlib
import signal
import sys
import threading
import time

import apps
import pytest
from burr.core import ApplicationBuilder, State, action

from rewind_nb import Rewind, _loops
from rewind_nb._drive import Ended

PATIENCE = 10  # seconds until a test that an interrupt does not end ends by itself


class Interrupted:
    """Sends the main thread a SIGINT once `here` is set; wakes a loop that does not see it."""

    def __init__(self):
        assert threading.current_thread() is threading.main_thread()
        self.here = threading.Event()
        self.over = threading.Event()
        self.loop = None
        self.overlooked = False

    def __enter__(self):
        self._thread = threading.Thread(target=self._send)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.here.set()
        self.over.set()
        self._thread.join()

    def _send(self):
        self.here.wait()
        if self.over.is_set():
            return
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        self.overlooked = not self.over.wait(PATIENCE)
        if self.overlooked and self.loop is not None:
            self.loop.call_soon_threadsafe(lambda: None)


@action(reads=[], writes=["first"])
async def first(state: State) -> State:
    return state.update(first=1)


def app_of(second):
    return (
        ApplicationBuilder()
        .with_actions(first=first, second=second)
        .with_transitions(("first", "second"))
        .with_entrypoint("first")
        .build()
    )


def waiting(interrupted):
    """An app whose second step waits, for an answer that does not come."""

    @action(reads=[], writes=["second"])
    async def second(state: State) -> State:
        interrupted.loop = asyncio.get_running_loop()
        interrupted.here.set()
        await asyncio.Event().wait()
        return state

    return app_of(second)


def stopped_at(run):
    return run.status, [(step.action, step.status) for step in run.steps]


KEPT = ("interrupted", [("first", "complete"), ("second", "interrupted")])


def as_a_notebook_does(task):
    """A handler of SIGINT that only leaves a callback, without waking the loop."""
    loop = asyncio.get_running_loop()
    before = signal.signal(signal.SIGINT, lambda *_: loop.call_soon(task.cancel))
    return lambda: signal.signal(signal.SIGINT, before)


def test_an_await_that_waits_for_nothing_else_is_interrupted_in_a_notebook(store):
    with Interrupted() as interrupted:
        rw = Rewind(waiting(interrupted), store=store)

        async def cell():
            task = asyncio.ensure_future(rw.arun())
            restore = as_a_notebook_does(task)
            try:
                await task
            finally:
                restore()

        with pytest.raises(asyncio.CancelledError):
            asyncio.run(cell())

    assert not interrupted.overlooked
    assert stopped_at(rw.last_run) == KEPT


def test_the_heartbeat_ends_with_the_run(store):
    @action(reads=[], writes=["second"])
    async def second(state: State) -> State:
        return state.update(second=2)

    async def cell():
        await Rewind(app_of(second), store=store).arun()
        timers = [h for h in asyncio.get_running_loop()._scheduled if not h.cancelled()]
        return timers, asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(cell()) == ([], set())


@pytest.mark.parametrize("loop", ["no loop", "running loop"])
def test_the_sync_form_raises_a_keyboard_interrupt_that_names_run_and_step(loop, store):
    with Interrupted() as interrupted:
        rw = Rewind(waiting(interrupted), store=store)

        async def cell():
            # asyncio.run() has put a handler of its own in place; a notebook has none
            signal.signal(signal.SIGINT, signal.default_int_handler)
            rw.run()

        with pytest.raises(KeyboardInterrupt) as raised:
            if loop == "no loop":
                rw.run()
            else:
                asyncio.run(cell())

    assert not interrupted.overlooked
    assert stopped_at(rw.last_run) == KEPT
    assert f"run {rw.last_run.id} stopped at step 1 'second'" in str(raised.value.__notes__)


def test_a_step_that_does_not_stop_is_named_on_the_interrupt(store, monkeypatch):
    monkeypatch.setattr(_loops, "GRACE", 0.2)
    with Interrupted() as interrupted:

        @action(reads=[], writes=["second"])
        async def second(state: State) -> State:
            interrupted.here.set()
            interrupted.over.wait(PATIENCE)  # no await: it cannot be cancelled
            return state.update(second=2)

        rw = Rewind(app_of(second), store=store)

        async def cell():
            signal.signal(signal.SIGINT, signal.default_int_handler)
            rw.run()

        with pytest.raises(KeyboardInterrupt) as raised:
            asyncio.run(cell())

        worker = next(t for t in threading.enumerate() if t.name == "rewind-loop")
        [note] = raised.value.__notes__
        assert "Still running: thread 'rewind-loop', in " in note
        assert "second (test_interrupts.py:" in note
    worker.join()


def test_an_interrupted_step_leaves_no_task_and_names_the_threads_that_go_on(store):
    release = threading.Event()
    made = []

    async def forgotten():
        made.append(asyncio.current_task())
        await asyncio.sleep(PATIENCE)

    def stubborn():
        release.wait(PATIENCE)

    with Interrupted() as interrupted, contextlib.ExitStack() as later:
        later.callback(release.set)

        def begin():
            thread = threading.Thread(target=stubborn, name="stubborn-thread")
            later.callback(thread.join)
            thread.start()
            asyncio.get_running_loop().run_in_executor(None, stubborn)
            interrupted.keep = asyncio.create_task(forgotten())

        @action(reads=[], writes=["second"])
        async def second(state: State) -> State:
            begin()
            await asyncio.sleep(0)
            interrupted.here.set()
            await asyncio.sleep(PATIENCE)
            return state

        rw = Rewind(app_of(second), store=store)

        async def cell():
            task = asyncio.ensure_future(rw.arun())
            restore = as_a_notebook_does(task)
            try:
                await task
            except asyncio.CancelledError as error:
                return error.__notes__, [one for one in made if not one.cancelling()]
            finally:
                restore()
                release.set()

        notes, alive = asyncio.run(cell())

    assert alive == []
    assert "Still running, and its results are dropped: " in notes[0]
    assert "stubborn" in notes[0]
    assert "(started in step 1 'second')" in notes[0]


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_a_run_interrupted_anywhere_is_whole_and_goes_on(store, asynchronous, monkeypatch):
    # Python drops an interrupt that comes in a finalizer, and says so there
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    rw = Rewind(apps.async_app() if asynchronous else apps.loop_app(9), store=store)
    inputs = {} if asynchronous else {"by": 1}
    began = time.perf_counter()
    whole = rw.run(inputs=inputs)
    length = time.perf_counter() - began
    main, seen = threading.main_thread().ident, set()
    for n in range(60):
        send = threading.Timer(length * n / 60, signal.pthread_kill, (main, signal.SIGINT))
        try:
            send.start()
            rw.run(inputs=inputs)
            send.join()
            time.sleep(0.01)
        except KeyboardInterrupt:
            send.join()
        except BaseException:
            send.cancel()  # it would end the test runner
            raise
        run = rw.last_run
        seen.add((run.status, len(run)))
        if run.status != "complete":
            assert run.status == "interrupted"
            run = rw.resume(run)
        assert run.state == whole.state
        assert [s.hash for s in run.steps] == [s.hash for s in whole.steps]
    assert len(seen) > 3
    assert store.verify().ok


@pytest.mark.parametrize("times", [1, 2, 3])
def test_several_interrupts_at_once_are_one_and_the_next_run_goes(store, times):
    interrupts = [times]

    @action(reads=[], writes=["second"])
    async def second(state: State) -> State:
        if interrupts:
            for _ in range(interrupts.pop()):
                asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
            await asyncio.Event().wait()
        return state.update(second=2)

    rw = Rewind(app_of(second), store=store)
    with pytest.raises(KeyboardInterrupt):
        rw.run()
    assert stopped_at(rw.last_run) == KEPT
    assert dict(rw.run().state) == {"first": 1, "second": 2}


def test_an_interrupt_between_the_end_and_the_loops_stop_does_not_stop_the_next_run():
    async def ending(*, interrupted):
        if interrupted:
            asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        else:
            await asyncio.sleep(0)
        return Ended("complete", None)

    with pytest.raises(KeyboardInterrupt):
        _loops.wait_for(lambda: ending(interrupted=True))
    assert _loops.wait_for(lambda: ending(interrupted=False)) == Ended("complete", None)
