"""Cases a hostile review found. Each is a kind of fault, kept as a test."""

import asyncio
import itertools
import json
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from types import SimpleNamespace

import apps
import fake_provider as fp
import httpx
import pytest
from burr.core import ApplicationBuilder, Condition, State, action, default, expr, when

from rewind_nb import ChatModel, Rewind, Secret, Store, artifact, tool
from rewind_nb.errors import (
    CodeChangedError,
    ConfigError,
    OverrideError,
    RunBusyError,
    SecretLeakError,
)


def app_of(*functions, transitions=(), **state):
    names = [f"s{i}" for i in range(len(functions))]
    pairs = transitions or list(zip(names, names[1:], strict=False))
    return (
        ApplicationBuilder()
        .with_actions(**dict(zip(names, functions, strict=True)))
        .with_transitions(*pairs)
        .with_state(**state)
        .with_entrypoint("s0")
        .build()
    )


def model(say):
    """A chat model that answers in process: say(body) -> the JSON of the answer."""

    def answer(request):
        body = json.loads(request.content)
        return httpx.Response(200, json=fp.chat_completion(json.dumps(say(body))))

    return ChatModel("http://toy.invalid/v1", "m", transport=httpx.MockTransport(answer))


def last(body):
    return {"q": body["messages"][-1]["content"]}


# -- proofs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["kept alive", "old pool", "executor", "name look-up"])
def test_a_replay_lets_nothing_out_however_it_is_sent(store, how):
    import socket

    with fp.FakeProvider(then=fp.reply({"a": 1})) as site, ThreadPoolExecutor(1) as pool:
        client = HTTPConnection("127.0.0.1", site.port)  # not captured
        pool.submit(int).result()  # its thread is older than the replay

        def ask():
            client.request("POST", "/", b"{}")
            return json.loads(client.getresponse().read())["a"]

        @action(reads=[], writes=["r"])
        def direct(state: State) -> State:
            if how == "name look-up":
                return state.update(r=len(socket.getaddrinfo("localhost", 80)) > 0)
            return state.update(r=pool.submit(ask).result() if how == "old pool" else ask())

        @action(reads=[], writes=["r"])
        async def handed(state: State) -> State:
            loop = asyncio.get_running_loop()
            return state.update(r=await loop.run_in_executor(pool, ask))

        rw = Rewind(app_of(handed if how == "executor" else direct), store=store)
        run = rw.run()
        asked = site.count
        proof = rw.replay(run)

        assert site.count == asked
        assert not proof.ok
        assert proof.divergence.path == "@connection"
        client.close()


def test_a_proof_notices_other_artifact_bytes(store):
    count = itertools.count()

    @action(reads=[], writes=["a"])
    def publish(state: State) -> State:
        artifact("r.txt", f"hello {next(count)}")
        return state.update(a=1)

    rw = Rewind(app_of(publish), store=store)
    proof = rw.replay(rw.run())

    assert not proof.ok
    assert proof.divergence.path == '@artifacts["r.txt"]'


def test_a_proof_notices_that_the_way_on_after_the_last_step_changed(store):
    gate = SimpleNamespace(open=False)

    @action(reads=[], writes=["v"])
    def first(state: State) -> State:
        return state.update(v=1)

    condition = Condition(["v"], lambda s: gate.open, name="gate")
    app = app_of(first, first, transitions=[("s0", "s1", condition)])
    rw = Rewind(app, store=store)
    run = rw.run()
    gate.open = True
    proof = rw.replay(run)

    assert not proof.ok
    assert (proof.divergence.path, proof.divergence.after) == ("@next", "s1")


def test_a_proof_notices_a_recorded_call_that_was_not_made(store):
    chat = model(last)
    twice = SimpleNamespace(on=True)

    @action(reads=[], writes=["v"])
    def ask(state: State) -> State:
        chat.chat("a")
        if twice.on:
            chat.chat("b")
        return state.update(v=1)

    rw = Rewind(app_of(ask), store=store)
    run = rw.run()
    twice.on = False
    proof = rw.replay(run)

    assert not proof.ok
    assert proof.divergence.path == "@calls[1]"
    assert "not made" in proof.divergence.why


# -- code ---------------------------------------------------------------------------------------


def test_an_edited_helper_is_noticed_by_the_same_rewind(store, monkeypatch):
    import sys

    module = sys.modules[__name__]

    @action(reads=[], writes=["w"])
    def use(state: State) -> State:
        return state.update(w=_helper(2))

    rw = Rewind(app_of(use), store=store)
    run = rw.run()
    monkeypatch.setattr(module, "_helper", lambda x: x + 100)

    with pytest.raises(CodeChangedError, match="s0"):
        rw.fork(run, 0)
    assert rw.run()[0].row.code != run[0].row.code
    assert rw.replay(run).code_changed == ("s0",)


def test_an_edited_helper_of_a_tool_is_not_answered_by_the_old_tool(store, monkeypatch):
    import sys

    @tool
    def convert(x: int) -> int:
        return _helper(x)

    @action(reads=[], writes=["r"])
    def use(state: State) -> State:
        return state.update(r=convert(5))

    rw = Rewind(app_of(use), store=store)
    assert rw.run().state == {"r": 6}
    monkeypatch.setattr(sys.modules[__name__], "_helper", lambda x: x + 100)

    assert rw.run().state == {"r": 105}


def _helper(x):
    return x + 1


# -- halts --------------------------------------------------------------------------------------


def test_an_unchanged_fork_of_a_run_resumed_to_the_same_halt_is_the_whole_run(store):
    @action(reads=["n"], writes=["n"])
    def turn(state: State) -> State:
        return state.increment(n=1)

    app = app_of(turn, transitions=[("s0", "s0")], n=0)
    rw = Rewind(app, store=store)
    run = rw.run(halt_after=["s0"])
    for _ in range(3):
        run = rw.resume(run, halt_after=["s0"])

    for at in range(4):
        fork = rw.fork(run, at)
        assert len(fork) == 4, at
        assert rw.diff(run, fork).identical
    assert len(rw.fork(run, 0, halt_after=["s0"])) == 1


# -- positions of calls -------------------------------------------------------------------------


def async_model(say):
    class Transport(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request):
            body = json.loads(await request.aread())
            await asyncio.sleep(0.01)
            return httpx.Response(200, json=fp.chat_completion(json.dumps(say(body))))

    return ChatModel("http://toy.invalid/v1", "m", async_transport=Transport())


def test_an_override_of_one_of_several_calls_in_flight_changes_that_one(store):
    chat = async_model(last)

    @action(reads=[], writes=["r"])
    async def gather(state: State) -> State:
        replies = await asyncio.gather(*(chat.achat(p) for p in "ABC"))
        return state.update(r=[reply.json()["q"] for reply in replies])

    rw = Rewind(app_of(gather), store=store)
    run = rw.run()

    assert rw.fork(run, 0, prompt="X").state["r"] == ["X", "B", "C"]
    assert rw.fork(run, 0, prompt="X", call=1).state["r"] == ["A", "X", "C"]
    with pytest.raises(OverrideError, match="3 model call"):
        rw.fork(run, 0, prompt="X", call=3)


def test_identical_calls_in_flight_stay_distinct(store):
    count = itertools.count()
    chat = async_model(lambda _: {"q": next(count)})

    @action(reads=[], writes=["r"])
    async def gather(state: State) -> State:
        replies = await asyncio.gather(*(chat.achat("same") for _ in range(3)))
        return state.update(r=[reply.json()["q"] for reply in replies])

    rw = Rewind(app_of(gather), store=store)
    run = rw.run()

    assert sorted(run.state["r"]) == [0, 1, 2]
    assert rw.fork(run, 0).state == run.state
    assert rw.replay(run).ok


def test_an_override_of_one_of_several_identical_calls_leaves_the_others_their_answers(store):
    count = itertools.count()
    chat = model(lambda _: {"q": next(count)})

    @action(reads=[], writes=["a"])
    def sample(state: State) -> State:
        return state.update(a=[chat.chat("p").json()["q"] for _ in range(3)])

    rw = Rewind(app_of(sample), store=store)
    run = rw.run()
    fork = rw.fork(run, 0, prompt="z", call=1)

    assert run.state["a"] == [0, 1, 2]
    assert fork.state["a"] == [0, 3, 2]
    assert rw.replay(fork).ok


def test_a_garbage_answer_that_is_swallowed_does_not_merge_with_the_next_call(store):
    with fp.FakeProvider(fp.garbage(), then=fp.completion('{"q": 1}')) as provider:
        chat = ChatModel(provider.base_url, "m", max_retries=0)

        @action(reads=[], writes=["r"])
        def careful(state: State) -> State:
            try:
                chat.chat("first")
            except Exception:
                pass
            return state.update(r=chat.chat("second").json()["q"])

        rw = Rewind(app_of(careful), store=store)
        run = rw.run()
        fork = rw.fork(run, 0, prompt="changed", call=1)

        assert provider.requests[-1].prompt == "changed"
        assert rw.replay(run).ok
        assert rw.replay(fork).ok


def test_a_call_inside_a_tool_can_be_overridden(store):
    chat = model(last)

    @tool
    def research(topic: str) -> str:
        return chat.chat(f"about {topic}").json()["q"]

    @action(reads=[], writes=["r"])
    def work(state: State) -> State:
        found = [research(str(i)) for i in range(12)]
        return state.update(r=found, own=chat.chat("outside").json()["q"])

    rw = Rewind(app_of(work), store=store)
    run = rw.run()

    outside = rw.fork(run, 0, prompt="X", call=0)
    inside = rw.fork(run, 0, prompt="Y", call=3)

    assert outside.state["own"] == "X"
    assert outside.state["r"] == run.state["r"]
    assert inside.state["r"][2] == "Y"
    assert inside.state["r"][:2] + inside.state["r"][3:] == run.state["r"][:2] + run.state["r"][3:]
    assert rw.replay(inside).ok


# -- overrides ----------------------------------------------------------------------------------


def test_a_state_override_that_the_step_overwrites_before_anybody_reads_it_is_refused(store):
    @action(reads=[], writes=["n"])
    def write(state: State) -> State:
        return state.update(n=10)

    @action(reads=["n"], writes=["o"])
    def use(state: State) -> State:
        return state.update(o=state["n"])

    app = app_of(write, use, transitions=[("s0", "s1", expr("n > 5")), ("s0", "s0", default)], n=0)
    rw = Rewind(app, store=store)
    run = rw.run()

    for n in (1, 10):
        with pytest.raises(OverrideError, match="does not read"):
            rw.fork(run, 0, state={"n": n})


def test_an_override_of_a_call_whose_answer_is_an_override_is_refused(store):
    chat = model(last)

    @tool
    def double(x: int) -> int:
        return x * 2

    @action(reads=[], writes=["r"])
    def ask(state: State) -> State:
        return state.update(r=chat.chat("hi").json()["q"], d=double(4))

    rw = Rewind(app_of(ask), store=store)
    run = rw.run()
    forced = rw.fork(run, 0, response='{"q": "FORCED"}')
    given = rw.fork(run, 0, tool_result=77)

    with pytest.raises(OverrideError, match="itself supplied by an override"):
        rw.fork(forced, 0, prompt="other")
    with pytest.raises(OverrideError, match="itself supplied by an override"):
        rw.fork(given, 0, tool_args={"x": 100})
    assert rw.fork(forced, 0, response='{"q": "again"}').state["r"] == "again"


def test_a_callback_that_mutates_what_it_is_given_changes_nothing_else(store):
    @action(reads=[], writes=["x", "y"])
    def make(state: State) -> State:
        return state.update(x=[1], y=1)

    rw = Rewind(app_of(make), store=store)
    run = rw.run()

    def spoil(recorded):
        recorded["x"].append(99)
        return {"y": 2}

    assert rw.fork(run, 0, output=spoil).state == {"x": [1], "y": 2}
    assert rw.fork(run, 0, patch=spoil).state == {"x": [1], "y": 2}


def test_an_output_override_leaves_the_other_keys_of_the_result(store):
    @action(reads=[], writes=["x", "y"])
    def make(state: State) -> tuple[dict, State]:
        return {"x": "raw", "y": 1}, state.update(x="cooked", y=1)

    rw = Rewind(app_of(make), store=store)
    run = rw.run()

    for override in ({"output": {"y": 2}}, {"patch": {"y": 2}}):
        assert rw.fork(run, 0, **override)[0].result == {"x": "raw", "y": 2}


@pytest.mark.parametrize(
    "override",
    [
        {"params": {"stop": {1, 2}}},
        {"params": {"model": None}},
        {"params": {"stream": True}},
        {"params": {"messages": []}},
        {"prompt": "\ud800"},
        {"temperature": float("inf")},
        {"messages": [{"role": "user", "content": b"x"}]},
        {"response": {"choices": [{"at": object}]}},
    ],
)
def test_what_no_request_could_carry_is_refused_before_anything_executes(store, override):
    chat = model(last)

    @action(reads=[], writes=["r"])
    def ask(state: State) -> State:
        apps.ran("ask")
        return state.update(r=chat.chat("hi").text)

    rw = Rewind(app_of(ask), store=store)
    run = rw.run()
    apps.CALLS.clear()

    with pytest.raises((OverrideError, TypeError)):
        rw.fork(run, 0, **override)
    for sample in (-1, "x"):
        with pytest.raises(ConfigError, match="sample="):
            rw.fork(run, 0, sample=sample)
    assert not apps.CALLS
    assert len(store.runs()) == 1


def test_an_equal_override_still_does_what_else_was_asked(store):
    chat = model(last)
    count = itertools.count()
    fresh = model(lambda _: {"q": next(count)})

    @action(reads=[], writes=["r"])
    def ask(state: State) -> State:
        return state.update(r=chat.chat("hi").text, n=fresh.chat("n").json()["q"])

    rw = Rewind(app_of(ask, ask), store=store)
    run = rw.run()

    short = rw.fork(run, 0, model="m", halt_after=["s0"])
    anew = rw.fork(run, 0, model="m", cache="refresh")

    assert len(short) == 1
    assert anew.state_at("s1")["n"] != run.state_at("s1")["n"]


def test_cache_key_that_hides_an_override_is_said(store):
    chat = model(last)

    @action(reads=[], writes=["r"])
    def ask(state: State) -> State:
        return state.update(r=chat.chat("hi").text)

    rw = Rewind(app_of(ask), store=store, cache_key=lambda request: {"all": "one"})
    run = rw.run()
    fork = rw.fork(run, 0, prompt="new")

    assert "cache_key= hides" in fork.note


# -- tools --------------------------------------------------------------------------------------


def test_a_function_whose_first_argument_is_called_cls_is_identified_by_it(store):
    @tool
    def count(cls):
        return f"n of {cls}"

    @action(reads=[], writes=["r"])
    def use(state: State, what: str) -> State:
        return state.update(r=count(what))

    rw = Rewind(app_of(use), store=store)
    rw.run(inputs={"what": "dogs"})

    assert rw.run(inputs={"what": "cats"}).state["r"] == "n of cats"


def test_a_method_of_another_object_is_another_call(store):
    class Client:
        def __init__(self, root, extra=None):
            self.root = root
            self.extra = extra

        @tool
        def get(self, path):
            apps.ran("get")
            return self.root + path

    holder = SimpleNamespace(client=Client("dev/"))

    @action(reads=[], writes=["r"])
    def use(state: State) -> State:
        return state.update(r=holder.client.get("x"))

    rw = Rewind(app_of(use), store=store)
    rw.run()
    assert rw.run().state["r"] == "dev/x"
    assert apps.CALLS["get"] == 1
    holder.client = Client("prod/")
    assert rw.run().state["r"] == "prod/x"
    holder.client = Client("lock/", threading.Lock())  # cannot be told apart: asked each time
    run = rw.run()
    rw.run()
    assert apps.CALLS["get"] == 4
    assert rw.fork(run, 0).state["r"] == "lock/x"
    assert apps.CALLS["get"] == 4


def test_a_tool_that_changes_an_argument_in_place_is_refused(store):
    @tool
    def fill(items):
        items.append(len(items))
        return len(items)

    @action(reads=["l"], writes=["l", "c"])
    def use(state: State) -> State:
        items = state["l"]
        return state.update(c=fill(items), l=items)

    rw = Rewind(app_of(use, l=[]), store=store)

    with pytest.raises(ConfigError, match="in place"):
        rw.run()


def test_arguments_of_a_tool_with_a_key_are_not_overridden_blindly(store):
    @tool(key=lambda q, at: q)
    def search(q, at):
        return q * 2

    @action(reads=[], writes=["r"])
    def use(state: State) -> State:
        return state.update(r=search("a", 1))

    rw = Rewind(app_of(use), store=store)
    run = rw.run()

    with pytest.raises(OverrideError, match="tool_result="):
        rw.fork(run, 0, tool_args={"key": "b"})
    assert rw.fork(run, 0, tool_result="z").state["r"] == "z"


# -- resuming, usage, updates ---------------------------------------------------------------------


def test_a_resumed_run_keeps_its_cache_mode(store):
    count = itertools.count()
    chat = model(lambda _: {"q": next(count)})

    @action(reads=[], writes=["r"])
    def ask(state: State) -> State:
        return state.update(r=chat.chat("hi").json()["q"])

    rw = Rewind(app_of(ask, ask), store=store)
    rw.run()
    run = rw.resume(rw.run(cache="refresh", halt_after=["s0"]))

    assert [s.source for s in run.steps] == ["live", "live"]


def test_a_failed_attempt_that_was_paid_for_counts(store):
    chat = model(last)
    broken = SimpleNamespace(on=True)

    @action(reads=[], writes=["r"])
    def ask(state: State) -> State:
        reply = chat.chat("hi")
        if broken.on:
            raise RuntimeError
        return state.update(r=reply.text)

    rw = Rewind(app_of(ask), store=store)
    with pytest.raises(RuntimeError):
        rw.run()
    once = rw.last_run.usage.total_tokens
    broken.on = False
    run = rw.resume(rw.last_run)

    assert run.usage.total_tokens == 2 * once


def test_a_state_put_in_between_two_steps_is_put_in_again(store):
    @action(reads=["x"], writes=["y"])
    def use(state: State) -> State:
        return state.update(y=state["x"] + 1)

    rw = Rewind(app_of(use, use, x=1, gone=1), store=store)
    app = rw.application()
    app.step()
    app.update_state(app.state.update(x=100).wipe(delete=["gone"]))
    app.step()
    run = store.run(app.uid)

    assert run.state == {"x": 100, "y": 101}
    assert rw.replay(run).ok
    assert rw.fork(run, 0).state == run.state
    assert rw.diff(run, rw.fork(run, 0)).identical


def test_one_run_is_resumed_by_one_thread_only(store):
    barrier = threading.Barrier(4)

    @action(reads=[], writes=["r"])
    def slow(state: State) -> State:
        apps.ran("slow")
        return state.update(r=1)

    rw = Rewind(app_of(slow, slow), store=store)
    run = rw.run(halt_after=["s0"])
    refused = []

    def go():
        barrier.wait()
        try:
            rw.resume(run)
        except Exception as error:
            refused.append(error)

    threads = [threading.Thread(target=go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert apps.CALLS["slow"] == 2
    assert len(refused) == 3
    assert any(isinstance(e, RunBusyError) for e in refused) or all(
        "complete" in str(e) for e in refused
    )
    assert store.verify().ok


def test_what_a_step_shows_is_the_callers_own_copy(store):
    @action(reads=["x"], writes=["x"])
    def make(state: State) -> State:
        return state.append(x=1)

    run = Rewind(app_of(make, x=[]), store=store).run()
    step = run[0]
    for shown in (step.writes, step.reads, step.to_dict()["writes"]):
        shown["x"].append("mine")

    assert step.writes == {"x": [1]}
    assert step.reads == {"x": []}


# -- secrets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["key", "bytes", "label", "artifact name", "artifact", "error"])
def test_a_registered_key_does_not_reach_the_store_by_a_side_door(tmp_path, where):
    from rewind_nb import Store

    key = "sk-canary-9f8e7d6c5b4a"
    Secret(key)
    error = type(f"E{key.replace('-', '_')}", (Exception,), {})

    @action(reads=[], writes=[])
    def leak(state: State) -> State:
        if where == "key":
            return state.update(**{key: 1})
        if where == "bytes":
            return state.update(a=b"\x00\x01" + key.encode())
        if where == "artifact name":
            artifact(f"{key}.txt", "x")
        if where == "artifact":
            artifact("x.txt", f"the key is {key}")
        if where == "error":
            raise error(key)
        return state

    with Store(tmp_path / "runs.db") as store:
        rw = Rewind(app_of(leak), store=store)
        with pytest.raises((SecretLeakError, error)):
            rw.run(label=key if where == "label" else None)
    for file in tmp_path.rglob("*"):
        assert key not in file.name
        if file.is_file():
            content = file.read_bytes()
            assert key.encode() not in content, file


def test_control_characters_of_a_model_name_are_made_visible(store):
    chat = ChatModel(
        "http://toy.invalid/v1",
        "m\x1b[31m\u202e",
        transport=httpx.MockTransport(
            lambda r: httpx.Response(200, json=fp.chat_completion("hi", model="x\x1b"))
        ),
    )

    @action(reads=[], writes=["r"])
    def ask(state: State) -> State:
        return state.update(r=chat.chat("hi").text)

    run = Rewind(app_of(ask), store=store).run()

    assert repr(run[0].calls[0]).isprintable()


def test_a_tool_in_a_thread_of_a_replayed_step_is_played_back(store):
    @tool
    def act() -> int:
        apps.ran("act")
        return 1

    @action(reads=[], writes=["r"])
    def use(state: State) -> State:
        box = []
        thread = threading.Thread(target=lambda: box.append(act()))
        thread.start()
        thread.join()
        return state.update(r=box)

    rw = Rewind(app_of(use), store=store)
    run = rw.run()

    assert rw.replay(run).require().run.state["r"] == [1]
    assert apps.CALLS["act"] == 1


def test_an_application_driven_by_the_user_is_recorded_in_a_file_store_too(tmp_path):
    from rewind_nb import Store

    with Store(tmp_path / "runs.db") as store:
        rw = Rewind(apps.loop_app(limit=40), store=store)
        app = rw.application()
        for _ in range(41):
            app.step(inputs={"by": 1})
        run = store.run(app.uid)

        assert run.status == "complete"
        assert len(run) == 41
        assert rw.replay(run).ok
        assert store.verify().ok


def test_a_state_override_stays_beside_an_output_override_of_the_same_step(store):
    @action(reads=[], writes=["a"])
    def one(state: State) -> State:
        return state.update(a=1)

    @action(reads=["a"], writes=["b"])
    def two(state: State) -> State:
        return state.update(b=state["a"] + 1)

    @action(reads=["a", "b"], writes=["c"])
    def three(state: State) -> State:
        return state.update(c=(state["a"], state["b"]))

    rw = Rewind(app_of(one, two, three), store=store)
    run = rw.run()
    first = rw.fork(run, "s1", state={"a": 10})
    second = rw.fork(first, "s1", output={"b": 99})

    assert second.state["c"] == (10, 99)
    assert rw.replay(second).ok
    for at in range(3):
        assert rw.fork(second, at).state == second.state


def test_a_run_held_across_a_resume_shows_the_run_as_it_is_now(store):
    rw = Rewind(apps.human_app(), store=store)
    run = rw.run(halt_before=["hear"], inputs={"topic": "x"})
    done = rw.resume(run, inputs={"reply": "by train"})

    assert [s.action for s in run.steps] == [s.action for s in done.steps]
    assert run.state == done.state


def test_call_is_a_number_and_belongs_to_overrides_of_calls(store):
    rw = Rewind(apps.loop_app(), store=store)
    run = rw.run(inputs={"by": 1})

    with pytest.raises(ConfigError, match="does not say which call is meant"):
        rw.fork(run, 0, prompt="x", call="1")
    with pytest.raises(OverrideError, match="whole step"):
        rw.fork(run, 0, output={"n": 5}, call=1)


def test_a_miss_names_the_request_that_is_most_like_it_and_shows_both(store):
    chat = model(last)
    day = SimpleNamespace(name="monday")

    @action(reads=[], writes=["r"])
    def ask(state: State) -> State:
        chat.chat("the quick brown fox")
        return state.update(r=chat.chat(f"weather on {day.name} in Paris").text)

    rw = Rewind(app_of(ask), store=store)
    run = rw.run()
    day.name = "tuesday"
    found = rw.replay(run).divergence

    assert "nearest recorded request is call 1" in found.why
    assert found.before == "weather on monday in Paris"
    assert found.after == "weather on tuesday in Paris"


def test_the_state_leaving_a_step_is_that_steps_also_before_an_overridden_one(store):
    @action(reads=[], writes=["a"])
    def one(state: State) -> State:
        return state.update(a=1)

    @action(reads=["a"], writes=["b"])
    def two(state: State) -> State:
        return state.update(b=state["a"])

    rw = Rewind(app_of(one, two), store=store)
    fork = rw.fork(rw.run(), "s1", state={"a": 10})

    assert fork.state_at("s0", after=True) == {"a": 1}
    assert fork.state_at("s1") == {"a": 10}


# -- what a run knows of where it stands ----------------------------------------------------------


def test_a_run_whose_condition_failed_asks_it_again_when_resumed(store):
    way, ran = {"open": False}, []

    @action(reads=[], writes=["a"])
    def first(state: State) -> State:
        ran.append("first")
        return state.update(a=1)

    @action(reads=["a"], writes=["b"])
    def second(state: State) -> State:
        ran.append("second")
        return state.update(b=state["a"] + 1)

    def decide(state: State) -> bool:
        if not way["open"]:
            raise RuntimeError("the oracle is closed")
        return state["a"] == 1

    rw = Rewind(
        app_of(first, second, transitions=[("s0", "s1", Condition(["a"], decide))]), store=store
    )
    with pytest.raises(RuntimeError, match="oracle"):
        rw.run()
    failed = rw.last_run
    assert (failed.status, failed.next_action, len(failed)) == ("failed", None, 1)
    assert "oracle is closed" in failed.note
    way["open"] = True
    done = rw.resume(failed)
    assert (done.status, done.state["b"], ran) == ("complete", 2, ["first", "second"])


def test_a_container_that_changed_during_a_run_is_hidden_state(store):
    log, table = [], {"rate": 2}

    @action(reads=[], writes=["a"])
    def act(state: State) -> State:
        log.append(1)
        return state.update(a=len(log) * table["rate"])

    run = Rewind(app_of(act), store=store).run()
    assert [line for line in run[0].hidden_state if "log" in line]
    assert not [line for line in run[0].hidden_state if "table" in line]


def test_an_application_that_was_never_driven_is_halted_before_its_first_step(store):
    rw = Rewind(apps.loop_app(), store=store)
    app = rw.application()
    run = store.run(app.uid)
    assert (run.status, run.next_action, len(run)) == ("halted", "count", 0)
    assert rw.resume(run).status == "complete"


@pytest.mark.parametrize("kind", ["output", "state", "inputs"])
def test_an_override_that_is_no_dict_says_what_it_got(store, kind):
    rw = Rewind(apps.loop_app(), store=store)
    run = rw.run()
    with pytest.raises(OverrideError, match=rf"{kind}= takes a dict .*; it got \[1\] \(list\)"):
        rw.fork(run, "count", **{kind: [1]})
    with pytest.raises(OverrideError, match=rf"{kind}= takes a dict .*; it got an empty one"):
        rw.fork(run, "count", **{kind: {}})


# -- a second review ---------------------------------------------------------------------------------


@action(reads=[], writes=["a"])
def start_here(state: State, who: str) -> State:
    return state.update(a=who)


@action(reads=["a"], writes=["b"])
def go_on(state: State, who: str) -> State:
    return state.update(b=f"{state['a']} and {who}")


@action(reads=[], writes=["c"])
def danger(state: State) -> State:
    apps.ran("danger")
    return state.update(c=1)


KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import test_review as t
from rewind_nb import Rewind

when = (sys.argv[3], sys.argv[4] or None)
kill = lambda e: (e.name, e.action) == when and os.kill(os.getpid(), signal.SIGKILL)
rw = Rewind(t.app_of(t.start_here, t.go_on, t.danger), store=sys.argv[2], hooks=[kill])
rw.run(halt_before=["s2"], inputs={"who": "anna"})
"""


@pytest.mark.thorough
@pytest.mark.parametrize("when", [("step_started", "s1"), ("step_ended", "s1"), ("run_ended", "")])
def test_a_run_that_was_killed_between_two_steps_goes_on_under_its_own_conditions(tmp_path, when):
    here, path = Path(__file__).parent, tmp_path / "runs.db"
    killed = [sys.executable, "-c", KILLED, str(here), str(path), *when]
    assert subprocess.run(killed, check=False).returncode == -signal.SIGKILL
    with Store(path) as store:
        rw = Rewind(app_of(start_here, go_on, danger), store=store)
        (run,) = store.runs()
        if run.status == "interrupted":
            run = rw.resume(run)

        assert (run.status, run.next_action, apps.CALLS["danger"]) == ("halted", "s2", 0)
        assert run.state == {"a": "anna", "b": "anna and anna"}
        assert rw.resume(run).status == "complete"
        assert apps.CALLS["danger"] == 1


def test_a_condition_that_failed_once_does_not_lift_the_halt_behind_it(store):
    way = {"open": False}

    def decide(state: State) -> bool:
        if not way["open"]:
            raise RuntimeError("the oracle is closed")
        return True

    transitions = [("s0", "s1"), ("s1", "s2", Condition([], decide))]
    rw = Rewind(app_of(start_here, go_on, danger, transitions=transitions), store=store)
    with pytest.raises(RuntimeError) as caught:
        rw.run(halt_before=["s2"], inputs={"who": "anna"})
    assert "stopped after step 1 's1'" in " ".join(caught.value.__notes__)
    way["open"] = True

    assert rw.resume(rw.last_run).status == "halted"
    assert apps.CALLS["danger"] == 0


def test_a_container_that_changed_before_a_halt_is_hidden_state_after_it_too(store):
    log = []

    @action(reads=[], writes=["a"])
    def noted(state: State) -> State:
        log.append("one")
        return state.update(a=1)

    @action(reads=["a"], writes=["c"])
    def human(state: State, ok: bool) -> State:
        return state.update(c=ok)

    rw = Rewind(app_of(noted, human), store=store)
    run = rw.resume(rw.run(halt_before=["s1"]), inputs={"ok": True})

    assert any("log" in line for line in run["s0"].hidden_state)
    for _ in range(2):
        assert rw.fork(run, "s0").state == run.state
    assert rw.replay(run).code_changed == ()


@pytest.mark.parametrize("data", [5, [65, 66], {"a": 1}, None])
def test_an_artifact_is_text_or_bytes(data):
    with pytest.raises(ConfigError, match=r"n\.bin.*Pass text"):
        artifact("n.bin", data)


def test_two_artifacts_that_cannot_both_be_files_are_refused(store):
    @action(reads=[], writes=["a"])
    def write(state: State) -> State:
        artifact("a", "x")
        artifact("a/b", "y")
        return state.update(a=1)

    with pytest.raises(ConfigError, match="'a/b' cannot be written"):
        Rewind(app_of(write), store=store).run()


def test_a_call_that_was_given_its_answer_is_neither_live_nor_played_back(store):
    @tool
    def look(x: int) -> int:
        return x

    @action(reads=[], writes=["a"])
    def act(state: State) -> State:
        return state.update(a=look(1))

    rw = Rewind(app_of(act), store=store)
    fork = rw.fork(rw.run(), "s0", tool_result=5)

    assert (fork[0].live_calls, fork[0].played_calls, fork[0].source) == (0, 0, "live")
    assert fork[0].calls[0].source == "override"


def test_a_resumed_run_that_lacks_an_input_halts_and_says_so(store):
    rw = Rewind(app_of(start_here, go_on), store=store)
    run = rw.run(halt_after=["s0"], inputs={"who": "anna"})
    again = rw.resume(run)

    assert (again.status, again.next_action) == ("halted", "s1")
    assert "'who'" in again.note
    assert rw.resume(again, inputs={"who": "bert"}).state["b"] == "anna and bert"


def test_a_run_that_lacks_an_input_says_so_on_one_line(store):
    rw = Rewind(app_of(start_here), store=store)
    with pytest.raises(ValueError, match="missing required inputs"):
        rw.run()

    assert "\n" not in repr(rw.last_run)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"hooks": print}, "hooks= takes a list of callables"),
        ({"types": dict}, "types= takes a list of classes"),
        ({"always_run": "s0"}, "always_run= takes a list of action names"),
    ],
)
def test_an_argument_that_is_no_list_is_refused(store, given, said):
    with pytest.raises(ConfigError, match=said):
        Rewind(apps.loop_app(), store=store, **given)


def test_inputs_and_state_that_are_no_dicts_are_refused(store):
    rw = Rewind(apps.loop_app(), store=store)
    for given in ({"inputs": [1]}, {"state": 5}):
        with pytest.raises(ConfigError, match=f"{next(iter(given))}= takes a dict by name"):
            rw.run(**given)


def test_what_a_user_put_in_before_a_step_that_failed_is_there_when_it_is_resumed(store):
    broken = {"yes": True}

    @action(reads=[], writes=["a"])
    def first(state: State) -> State:
        return state.update(a=1)

    @action(reads=["k"], writes=["b"])
    def second(state: State) -> State:
        if broken["yes"]:
            raise OSError("not yet")
        return state.update(b=state["k"])

    rw = Rewind(app_of(first, second, budget=9), store=store)
    app = rw.application()
    app.step()
    app.update_state(app.state.update(k=5))
    with pytest.raises(OSError, match="not yet"):
        app.step()
    broken["yes"] = False

    assert rw.resume(rw.last_run).state == {"budget": 9, "a": 1, "k": 5, "b": 5}


class Mood:
    def __init__(self, raising):
        self.raising = raising

    def __call__(self, state):
        if self.raising is not None:
            raise self.raising
        return state["v"] > 0


def moody_app(mood):
    @action(reads=[], writes=["v"])
    def first(state: State) -> State:
        return state.update(v=1)

    return app_of(first, first, transitions=[("s0", "s1", Condition(["v"], mood, name="mood"))])


@pytest.mark.parametrize(
    "now", [None, KeyError("other"), ValueError("other")], ids=["holds", "other type", "other text"]
)
def test_a_replay_of_a_failed_condition_notices_that_it_does_something_else(store, now):
    mood = Mood(ValueError("no mood"))
    rw = Rewind(moody_app(mood), store=store)
    with pytest.raises(ValueError, match="no mood"):
        rw.run()
    run = rw.last_run
    assert rw.replay(run).ok

    mood.raising = now
    proof = rw.replay(run)
    assert not proof.ok
    assert proof.divergence.path == "@next"
    assert "ValueError: no mood" in proof.divergence.before


def test_a_condition_that_raises_only_in_the_replay_is_a_divergence(store):
    mood = Mood(None)
    rw = Rewind(moody_app(mood), store=store)
    run = rw.run()
    mood.raising = ValueError("no mood")
    proof = rw.replay(run)
    assert not proof.ok
    assert (proof.divergence.path, proof.divergence.after) == ("@next", "ValueError: no mood")


# -- what a user does between two steps of an application -----------------------------------------


def detour_app():
    @action(reads=["n"], writes=["n"])
    def count(state: State) -> State:
        return state.update(n=state["n"] + 1)

    @action(reads=["n"], writes=["said"])
    def tell(state: State) -> State:
        return state.update(said=" ".join(state.keys()) + f" {state['n']}")

    return (
        ApplicationBuilder()
        .with_actions(count=count, left=tell, right=tell)
        .with_transitions(("count", "left", when(way="left")), ("count", "right"))
        .with_state(way="right", n=0, a=1, b=2)
        .with_entrypoint("count")
        .build()
    )


@pytest.mark.parametrize("reuse", ["none"])
def test_what_a_user_put_in_between_two_steps_is_done_again_before_the_way_on(store, reuse):
    rw = Rewind(detour_app(), store=store)
    app = rw.application()
    app.step()
    moved = app.state.wipe(delete=["a"]).update(way="left", c=3, a=1)
    app.update_state(moved)
    app.step()
    run = store.run(app.uid)
    assert [s.action for s in run.steps] == ["count", "left"]
    assert list(run.state) == ["way", "n", "b", "c", "a", "said"]

    assert rw.replay(run).require()
    assert rw.replay(run, 1).require()
    for at in (0, 1):
        fork = rw.fork(run, at, reuse=reuse)
        assert [s.hash for s in fork.steps] == [s.hash for s in run.steps]
        again = rw.fork(fork, 0, reuse=reuse)
        assert [s.hash for s in again.steps] == [s.hash for s in run.steps]
    other = rw.fork(run, 0, state={"n": 5}, reuse=reuse)
    assert other.state["said"] == "way n b c a 6"
    put = rw.fork(run, 1, output={"said": "mine"}, reuse=reuse)
    assert list(put.state) == list(run.state)
    assert rw.replay(put).require()


# -- who asks first is chance ---------------------------------------------------------------------


def test_workers_that_share_a_queue_are_replayed_whoever_takes_what(store):
    with fp.FakeProvider() as provider:
        chat = ChatModel(provider.base_url, "toy")

        @action(reads=[], writes=["said"])
        def work(state: State) -> State:
            left, said = list(range(6)), []

            def worker():
                while left:
                    item = left.pop()
                    time.sleep(random.random() / 100)
                    said.append((item, chat.chat(f"item {item}").text))

            with ThreadPoolExecutor(3) as pool:
                for _ in range(3):
                    pool.submit(worker)
            return state.update(said=sorted(said))

        rw = Rewind(app_of(work), store=store)
        run = rw.run()
        for _ in range(5):
            assert rw.replay(run).require()
            assert rw.fork(run, 0, reuse="none").state == run.state
        assert provider.count == 6


def test_a_tool_whose_tables_changed_is_not_answered_by_another_run(store):
    prices = {"tea": 2}

    @tool
    def price(what):
        apps.ran("price")
        return prices[what]

    @action(reads=[], writes=["p"])
    def look(state: State) -> State:
        return state.update(p=price("tea"))

    rw = Rewind(app_of(look), store=store)
    run = rw.run()
    rw.run()
    assert apps.CALLS["price"] == 1
    prices["tea"] = 5
    assert rw.run().state["p"] == 5
    assert rw.fork(run, 0, reuse="none", allow_code_change=True).state["p"] == 2


def test_a_call_of_a_step_that_was_taken_over_can_be_overridden(store):
    chat = model(last)

    @action(reads=[], writes=["x"])
    def first(state: State) -> State:
        return state.update(x=1)

    @action(reads=[], writes=["said"])
    def ask(state: State) -> State:
        return state.update(said=chat.chat("hello").text)

    rw = Rewind(app_of(first, ask), store=store)
    fork = rw.fork(rw.run(), "s0", output={"x": 2})
    assert fork["s1"].source == "reused"
    again = rw.fork(fork, "s1", response="bye")
    assert (again.state["said"], again.state["x"]) == ("bye", 2)
