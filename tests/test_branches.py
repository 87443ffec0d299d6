"""Branches inside a step: numbered as they are made, so that nothing depends on who is first."""

import asyncio
import contextvars
import itertools
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

import anyio
import anyio.to_thread
import apps
import fake_provider as fp
import pytest
from burr.core import ApplicationBuilder, State, action

from rewind_nb import ChatModel, Rewind, tool
from rewind_nb.capture._context import branch_order, current_step, sending

ASKED = ["same", "same", "same", "other", "another"]
CLEANUPS = []
_number = itertools.count()


def pause():
    """Up to some milliseconds, never the same; no clock or random number that is recorded."""
    time.sleep(hash(("pause", next(_number))) % 7 / 2000)


async def apause():
    await asyncio.sleep(hash(("pause", next(_number))) % 7 / 2000)


def jitter(seen):
    """A provider that takes its time and never answers the same twice."""
    pause()
    return fp.completion(json.dumps({"q": seen.prompt, "n": next(_number)}))


@pytest.fixture(autouse=True)
def _cleaned_up():
    yield
    while CLEANUPS:
        CLEANUPS.pop()()


@pytest.fixture
def provider():
    with fp.FakeProvider(then=jitter) as running:
        yield running


@tool
def look_up(what: str) -> str:
    pause()
    return f"{what} {next(_number)}"


@tool
async def alook_up(what: str) -> str:
    await apause()
    return f"{what} {next(_number)}"


def app_of(function, **state):
    return (
        ApplicationBuilder()
        .with_actions(function)
        .with_state(**state)
        .with_entrypoint(function.__name__)
        .build()
    )


def branches(run, step=0):
    return [call._row.branch for call in run[step].calls]


def identities(run):
    """Which calls there were, whoever was first."""
    return frozenset((c._row.kind, c._row.branch, c.fingerprint, c._row.n) for c in run[0].calls)


# -- five calls side by side, three of them identical ---------------------------------------


def gathering(ask, aask):
    @action(reads=[], writes=["r"])
    async def go(state: State) -> State:
        return state.update(r=await asyncio.gather(*map(aask, ASKED)))

    return go


def grouping(ask, aask):
    @action(reads=[], writes=["r"])
    async def go(state: State) -> State:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(aask(what)) for what in ASKED]
        return state.update(r=[task.result() for task in tasks])

    return go


def completing(ask, aask):
    @action(reads=[], writes=["r"])
    async def go(state: State) -> State:
        async def numbered(i, what):
            return i, await aask(what)

        done = asyncio.as_completed([numbered(i, what) for i, what in enumerate(ASKED)])
        return state.update(r=sorted([await one for one in done]))

    return go


def any_io(ask, aask):
    @action(reads=[], writes=["r"])
    async def go(state: State) -> State:
        found = [None] * len(ASKED)

        async def fill(i, what):
            found[i] = await anyio.to_thread.run_sync(ask, what) if i % 2 else await aask(what)

        async with anyio.create_task_group() as group:
            for i, what in enumerate(ASKED):
                group.start_soon(fill, i, what)
        return state.update(r=found)

    return go


def pooling(ask, aask):
    @action(reads=[], writes=["r"])
    def go(state: State) -> State:
        with ThreadPoolExecutor(3) as pool:
            return state.update(r=list(pool.map(ask, ASKED)))

    return go


def to_threads(ask, aask):
    @action(reads=[], writes=["r"])
    async def go(state: State) -> State:
        work = [asyncio.to_thread(ask, what) for what in ASKED[:3]]
        loop = asyncio.get_running_loop()
        work += [loop.run_in_executor(None, ask, what) for what in ASKED[3:]]
        return state.update(r=await asyncio.gather(*work))

    return go


def threading_(ask, aask):
    @action(reads=[], writes=["r"])
    def go(state: State) -> State:
        found = [None] * len(ASKED)

        def fill(i):
            found[i] = ask(ASKED[i])

        threads = [threading.Thread(target=fill, args=(i,)) for i in range(len(ASKED))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return state.update(r=found)

    return go


def nesting(ask, aask):
    """Tasks that start pools whose work runs loops of its own."""

    @action(reads=[], writes=["r"])
    async def go(state: State) -> State:
        def in_a_loop(asked):
            async def both():
                return await asyncio.gather(*map(aask, asked))

            return asyncio.run(both())

        async def one(asked):
            await apause()
            with ThreadPoolExecutor(2) as pool:
                halves = [pool.submit(in_a_loop, asked[i::2]) for i in (0, 1)]
                return [await asyncio.wrap_future(half) for half in halves]

        return state.update(r=await asyncio.gather(one(ASKED[:3]), one(ASKED[1:4])))

    return go


def own_contexts(ask, aask):
    """As some libraries do: contexts copied before, entered in the pool by whoever is next."""

    @action(reads=[], writes=["r"])
    def go(state: State) -> State:
        contexts = [contextvars.copy_context() for _ in ASKED]
        with ThreadPoolExecutor(3) as pool:
            return state.update(r=list(pool.map(lambda w: contexts.pop().run(ask, w), ASKED)))

    return go


class ForeignLoop(asyncio.SelectorEventLoop):
    """Makes its tasks itself, as uvloop does."""

    def create_task(self, coro, *, name=None, context=None):
        factory = self.get_task_factory() or (
            lambda loop, c, **kw: asyncio.Task(c, loop=loop, **kw)
        )
        return factory(self, coro, **({} if context is None else {"context": context}))


def own_contexts_and_loops(ask, aask):
    """The same, with a loop inside."""

    def in_a_loop(what):
        if what == "same":
            with asyncio.Runner(loop_factory=ForeignLoop) as runner:
                return runner.run(aask(what))
        loop = asyncio.new_event_loop()
        try:
            tasks = [loop.create_task(aask(what)) for _ in range(2)]
            return [loop.run_until_complete(task) for task in tasks]
        finally:
            loop.close()

    @action(reads=[], writes=["r"])
    def go(state: State) -> State:
        contexts = [contextvars.copy_context() for _ in ASKED]
        with ThreadPoolExecutor(3) as pool:
            found = pool.map(lambda w: contexts.pop().run(in_a_loop, w), ASKED)
            return state.update(r=list(found))

    return go


def one_context(ask, aask):
    """Tasks that share a context, one after the other, as those do that make up a stream."""

    @action(reads=[], writes=["r"])
    async def go(state: State) -> State:
        async def one():
            shared = contextvars.copy_context()
            return [await asyncio.create_task(aask(what), context=shared) for what in ASKED]

        return state.update(r=await asyncio.gather(one(), one()))

    return go


def handing_over(ask, aask):
    """To a loop that runs in another thread, one of the step's or an older one."""
    older = asyncio.new_event_loop()
    thread = threading.Thread(target=older.run_forever)
    thread.start()
    CLEANUPS.extend([older.close, thread.join, lambda: older.call_soon_threadsafe(older.stop)])

    @action(reads=[], writes=["r"])
    def go(state: State) -> State:
        async def both(what):
            return await asyncio.gather(aask(what), aask(what))

        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever)
        thread.start()
        work = [asyncio.run_coroutine_threadsafe(both(w), loop) for w in ASKED]
        work += [asyncio.run_coroutine_threadsafe(both(w), older) for w in ASKED]
        found = [one.result() for one in work]
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        return state.update(r=found)

    return go


OFTEN = [gathering, grouping, pooling, to_threads, threading_, nesting]
LOOPS = [nesting, own_contexts_and_loops, handing_over]  # each with a loop of its own
SELDOM = [completing, any_io, own_contexts, own_contexts_and_loops, one_context, handing_over]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "recordings"), [*((k, 20) for k in OFTEN), *((k, 6) for k in SELDOM)]
)
def test_what_runs_side_by_side_replays_identically_whoever_finishes_first(
    kind, recordings, provider, store
):
    chat = ChatModel(provider.base_url, "toy")

    def ask(what):
        pause()
        return [chat.chat(what).text, look_up(what)]

    async def aask(what):
        await apause()
        text = None if kind in LOOPS else (await chat.achat(what)).text
        return [text, await alook_up(what)]

    app = app_of(kind(ask, aask))
    rw = Rewind(app, store=store)
    seen = set()

    async def record_and_replay():
        for _ in range(recordings):
            run = await rw.arun(cache="refresh") if rw._spec.is_async else rw.run(cache="refresh")
            seen.add(identities(run))
            asked = provider.count
            for _ in range(5):
                proof = await rw.areplay(run) if rw._spec.is_async else rw.replay(run)
                assert proof.require().live_calls == 0
            assert provider.count == asked
        return run

    run = asyncio.run(record_and_replay())

    assert len(seen) == 1
    assert len({call._row.branch for call in run[0].calls}) >= len(ASKED)
    chat.close()


def test_branches_sort_by_number_and_a_package_s_own_after_the_user_s():
    names = ["~10", "~2/0", "~lib.3", "", "~2", "/1", "~2~1"]

    assert sorted(names, key=branch_order) == ["", "/1", "~2", "~2/0", "~2~1", "~10", "~lib.3"]


# -- what uses up no number -----------------------------------------------------------------


@pytest.mark.parametrize("live", [True, False])
def test_what_a_captured_request_does_on_the_wire_uses_up_no_number(live, store):
    """A request that is played back does none of it."""

    @action(reads=[], writes=["r"])
    async def go(state: State) -> State:
        with sending():
            if live:
                thread = threading.Thread(target=int)
                thread.start()
                thread.join()
                await asyncio.to_thread(int)
                await asyncio.create_task(asyncio.sleep(0))
        return state.update(r=await asyncio.create_task(alook_up("x")))

    run = Rewind(app_of(go), store=store).run()

    assert branches(run) == ["~0"]


def test_threads_that_the_standard_library_starts_for_itself_use_up_no_number(store):
    @action(reads=[], writes=["r"])
    def go(state: State) -> State:
        with ThreadPool(2) as pool:
            pool.map(look_up, ASKED)  # not covered, and so not recorded
        with ThreadPoolExecutor(2) as pool:
            return state.update(r=pool.submit(look_up, "x").result())

    run = Rewind(app_of(go), store=store).run()

    assert branches(run) == ["~0"]


def test_what_a_package_starts_once_per_process_shifts_no_number(store, tmp_path, monkeypatch):
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "onceonly.py").write_text(
        "import threading\n"
        "begun = []\n"
        "def begin():\n"
        "    if not begun:\n"
        "        thread = threading.Thread(target=begun.append, args=(1,))\n"
        "        thread.start()\n"
        "        thread.join()\n"
        "def work(function):\n"
        "    thread = threading.Thread(target=function)\n"
        "    thread.start()\n"
        "    thread.join()\n"
    )
    monkeypatch.syspath_prepend(library)
    import onceonly

    @action(reads=[], writes=["r"])
    def go(state: State) -> State:
        onceonly.begin()
        threads = [threading.Thread(target=look_up, args=("same",)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        onceonly.work(lambda: look_up("same"))
        return state.update(r=1)

    rw = Rewind(app_of(go), store=store)
    run = rw.run()
    again = rw.run()

    assert sorted(branches(run)) == ["~0", "~1", "~2", "~onceonly.1"]
    assert sorted(branches(again)) == ["~0", "~1", "~2", "~onceonly.0"]


# -- whose work it is -----------------------------------------------------------------------

USERS = contextvars.ContextVar("users", default="unset")


def test_work_of_a_step_sees_the_user_s_context_variables(store):
    seen = []

    @action(reads=[], writes=["r"])
    def go(state: State) -> State:
        USERS.set("set")
        with ThreadPoolExecutor(1) as pool:
            seen.append(pool.submit(USERS.get).result())
        thread = threading.Thread(target=lambda: seen.append(USERS.get()))
        thread.start()
        thread.join()
        return state.update(r=1)

    Rewind(app_of(go), store=store).run()

    assert seen == ["set", "set"]


def test_work_handed_to_a_pool_from_outside_is_nobody_s(store):
    """Also where a step started the worker, while it runs and after it."""
    with ThreadPoolExecutor(1) as pool:
        outside, inside, seen = threading.Event(), threading.Event(), []

        def other():
            inside.wait()
            seen.append(pool.submit(lambda: (current_step(), USERS.get())).result())
            outside.set()

        @action(reads=[], writes=["r"])
        def go(state: State) -> State:
            USERS.set("the step's")
            step = pool.submit(current_step).result()
            inside.set()
            outside.wait()
            return state.update(r=step is current_step())

        thread = threading.Thread(target=other)
        thread.start()
        run = Rewind(app_of(go), store=store).run()
        thread.join()
        seen.append(pool.submit(lambda: (current_step(), USERS.get())).result())

    assert run.state["r"] is True
    assert seen == [(None, "unset"), (None, "unset")]


def test_a_pool_s_initializer_runs_in_no_step(store):
    seen = []
    with ThreadPoolExecutor(1, initializer=lambda: seen.append(current_step())) as pool:

        @action(reads=[], writes=["r"])
        def go(state: State) -> State:
            return state.update(r=pool.submit(current_step).result() is current_step())

        run = Rewind(app_of(go), store=store).run()

    assert run.state["r"] is True
    assert seen == [None]


def test_a_thread_that_outlives_its_step_calls_straight_through(store):
    go_on, told = threading.Event(), []

    @tool
    def act() -> int:
        apps.ran("act")
        return 1

    def late():
        go_on.wait()
        try:
            told.append(act())
        except Exception as error:
            told.append(type(error).__name__)

    @action(reads=[], writes=["r"])
    def go(state: State) -> State:
        thread = threading.Thread(target=late)
        CLEANUPS.append(thread.join)
        thread.start()
        return state.update(r=1)

    rw = Rewind(app_of(go), store=store)
    run = rw.run()
    go_on.set()
    CLEANUPS.pop()()

    assert told == [1]
    assert store.run(run.id)[0].calls == ()

    go_on.clear()
    assert rw.replay(run).ok
    go_on.set()
    CLEANUPS.pop()()

    assert told == [1, "CacheMissError"]
    assert apps.CALLS["act"] == 1


def test_a_thread_keeps_a_run_of_its_own(store):
    """The instance attribute that leads it into the step is gone when it runs."""
    seen = []

    class Worker(threading.Thread):
        def run(self):
            seen.append(("run" in self.__dict__, look_up("x")))

    @action(reads=[], writes=["r"])
    def go(state: State) -> State:
        own = Worker()
        handed = threading.Thread()
        handed.run = lambda: seen.append(("run" in handed.__dict__, look_up("x")))
        for thread in (own, handed):
            thread.start()
            thread.join()
        return state.update(r=1)

    run = Rewind(app_of(go), store=store).run()

    assert [had for had, _ in seen] == [False, True]
    assert branches(run) == ["~0", "~1"]


def test_a_task_factory_of_the_user_s_own_still_makes_the_tasks(store):
    made = []

    def factory(loop, coro):  # the old signature
        made.append(coro.__qualname__)
        return asyncio.Task(coro, loop=loop)

    @action(reads=[], writes=["r"])
    async def go(state: State) -> State:
        return state.update(r=await asyncio.gather(alook_up("same"), alook_up("same")))

    async def main():
        asyncio.get_running_loop().set_task_factory(factory)
        rw = Rewind(app_of(go), store=store)
        return (await rw.areplay(await rw.arun())).require()

    asyncio.run(main())

    assert made.count("alook_up") == 4


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
def test_eager_tasks_get_branches_and_anyio_still_knows_them(store):
    @action(reads=[], writes=["r"])
    async def go(state: State) -> State:
        found = []

        async def fill(what):
            found.append(await alook_up(what))

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(fill, "same")
        found += await asyncio.gather(*map(alook_up, ASKED))
        return state.update(r=sorted(found))

    async def main():
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)
        rw = Rewind(app_of(go), store=store)
        run = await rw.arun()
        for _ in range(5):
            (await rw.areplay(run)).require()
        return run

    assert len(set(branches(asyncio.run(main())))) == 8


# -- two runs at once -----------------------------------------------------------------------


def test_of_64_runs_at_once_each_has_its_own_calls(store):
    """Half of them in threads, half in tasks of one loop; the server sees 32 at a time."""
    together = threading.Barrier(32)

    def answer(seen):
        together.wait(timeout=60)
        return fp.completion(json.dumps(seen.prompt))

    with fp.FakeProvider(then=answer) as provider:
        chat = ChatModel(provider.base_url, "toy")

        @action(reads=["me"], writes=["r"])
        def sync(state: State) -> State:
            return state.update(r=[chat.chat(f"{state['me']} {i}").json() for i in range(2)])

        @action(reads=["me"], writes=["r"])
        async def aio(state: State) -> State:
            asked = [await chat.achat(f"{state['me']} {i}") for i in range(2)]
            return state.update(r=[reply.json() for reply in asked])

        async def tasks():
            mine = [Rewind(app_of(aio, me=f"task {n}"), store=store) for n in range(32)]
            return await asyncio.gather(*(rw.arun() for rw in mine))

        with ThreadPoolExecutor(33) as pool:
            aside = pool.submit(asyncio.run, tasks())
            mine = [Rewind(app_of(sync, me=f"thread {n}"), store=store) for n in range(32)]
            runs = [f.result() for f in [pool.submit(rw.run) for rw in mine]]
            runs += aside.result()

        chat.close()

    assert provider.count == 128
    for run in runs:
        asked = [f"{run.state['me']} {i}" for i in range(2)]
        assert run.state["r"] == asked
        assert [c.messages[-1]["content"] for c in run[0].calls] == asked
