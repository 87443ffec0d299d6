"""The loop that the sync verbs run an async application in."""

import asyncio
import gc
import threading

import apps
import httpx
import pytest
from burr.core import ApplicationBuilder, State, action, expr
from fake_provider import FakeProvider

from rewind_nb import Rewind


@pytest.mark.parametrize("in_notebook", [False, True], ids=["script", "running loop"])
def test_a_client_of_an_async_application_lasts_from_one_sync_verb_to_the_next(store, in_notebook):
    with FakeProvider() as provider:
        client = httpx.AsyncClient(base_url=provider.base_url)  # keeps its connection alive

        @action(reads=["n"], writes=["n", "said"])
        async def ask(state: State) -> State:
            body = {"model": "toy", "messages": [{"role": "user", "content": f"n={state['n']}"}]}
            answer = await client.post("chat/completions", json=body)
            return state.update(n=state["n"] + 1, said=answer.json()["choices"][0])

        @action(reads=[], writes=["over"])
        async def hang_up(state: State) -> State:
            await client.aclose()
            return state.update(over=True)

        app = (
            ApplicationBuilder()
            .with_actions(ask, hang_up)
            .with_transitions(("ask", "ask", expr("n < 2")), ("ask", "hang_up"))
            .with_state(n=0)
            .with_entrypoint("ask")
            .build()
        )
        rw = Rewind(app, store=store)

        def verbs():
            run = rw.run(halt_before=["hang_up"])
            fork = rw.fork(run, 0, state={"n": -1}, cache="refresh")
            rw.resume(fork)
            return run, fork

        async def cell():
            return verbs()

        run, fork = asyncio.run(cell()) if in_notebook else verbs()
        assert (len(run), len(fork)) == (2, 4)
        assert provider.count == 5


def test_what_an_action_left_running_ends_with_its_run(store):
    left = []

    @action(reads=[], writes=["n"])
    async def start(state: State) -> State:
        left.append(asyncio.ensure_future(asyncio.sleep(60)))
        await asyncio.sleep(0)
        return state.update(n=1)

    app = ApplicationBuilder().with_actions(start).with_entrypoint("start").build()
    rw = Rewind(app, store=store)
    rw.run()
    assert left[0].cancelled()


def test_the_loop_of_a_thread_ends_with_the_thread(store):
    rw = Rewind(apps.async_app(), store=store)

    async def cell():
        rw.run()

    before = set(threading.enumerate())
    one = threading.Thread(target=lambda: asyncio.run(cell()))
    one.start()
    one.join()
    gc.collect()
    for worker in set(threading.enumerate()) - before:
        if worker.name == "rewind-loop":
            worker.join(5)
            assert not worker.is_alive()
