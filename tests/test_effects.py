"""A tool that acts on the world fires once, and never again by accident."""

import asyncio
from types import SimpleNamespace

import pytest
from burr.core import ApplicationBuilder, State, action
from killed import killed

from rewind_nb import Rewind, Store, tool
from rewind_nb.capture import _effects
from rewind_nb.errors import ConfigError, EffectRefusedError, EffectUnknownError

SENT = []


@tool(effect=True)
def send(to, text):
    SENT.append((to, text))
    return {"id": len(SENT)}


@tool(effect=True)
async def asend(to, text):
    SENT.append((to, text))
    return {"id": len(SENT)}


@action(reads=["who", "tone"], writes=["text"])
def write(state: State) -> State:
    return state.update(text=f"{state['tone']}, {state['who']}!")


@action(reads=["who", "text", "loud"], writes=["receipt"])
def deliver(state: State) -> State:
    loud = state["loud"]
    receipt = send(state["who"], state["text"])
    return state.update(receipt=receipt["id"], shown="!" if loud else ".")


@action(reads=["who", "text", "loud"], writes=["receipt"])
async def adeliver(state: State) -> State:
    loud = state["loud"]
    receipt = await asend(state["who"], state["text"])
    return state.update(receipt=receipt["id"], shown="!" if loud else ".")


@pytest.fixture(params=[deliver, adeliver], ids=["sync", "async"])
def rw(request, store):
    SENT.clear()
    return Rewind(mail_app(request.param), store=store)


def mail_app(last):
    return (
        ApplicationBuilder()
        .with_actions(write=write, deliver=last)
        .with_transitions(("write", "deliver"))
        .with_state(who="ada", tone="Hello", loud=False)
        .with_entrypoint("write")
        .build()
    )


@pytest.mark.parametrize("mode", ["auto", "refresh", "off"])
def test_a_fork_plays_an_effect_back_where_its_arguments_are_the_recorded_ones(rw, mode):
    run = rw.run()
    fork = rw.fork(run, "deliver", state={"loud": True}, cache=mode)

    assert SENT == [("ada", "Hello, ada!")]
    assert (fork.state["receipt"], fork.state["shown"]) == (1, "!")
    assert fork["deliver"].calls[0].source == "tool-cache"
    assert rw.replay(fork).require()


def test_a_fork_refuses_an_effect_with_other_arguments_and_names_them(rw):
    run = rw.run()
    with pytest.raises(EffectRefusedError, match=r"\(text differ\)") as caught:
        rw.fork(run, "write", state={"tone": "Ahoy"})

    assert SENT == [("ada", "Hello, ada!")]
    assert caught.value.differing == ("text",)
    assert rw.last_run.status == "failed"
    assert rw.replay(rw.last_run).ok


def test_a_refused_effect_is_no_live_call(rw):
    run = rw.run()
    with pytest.raises(EffectRefusedError):
        rw.fork(run, "write", state={"tone": "Ahoy"})
    fork = rw.last_run
    proof = rw.replay(fork).require()

    for failed in (fork, proof.run):
        (call,) = failed["deliver"].calls
        assert (call.source, call.status) == ("refused", "failed")
        assert failed["deliver"].total_calls == (0, 0)
        assert failed["deliver"].source == "live"  # it executed, and no call was made
        page = failed["deliver"]._repr_html_()
        assert "0 live calls" in page
        assert "refused</span>" in page
    assert fork["deliver"].calls[0].reason == "differs from the parent's call here in: args.text"
    assert proof.recorded_calls == 0
    (row,) = rw.store.runs_df().query("id == @fork.id").to_dict("records")
    assert (row["live_calls"], row["played_calls"]) == (0, 0)
    assert "0 live calls" in fork._repr_html_()


def test_a_step_whose_answers_were_played_back_is_not_live_for_an_effect_refused_in_it(store):
    SENT.clear()

    @tool
    def look_up(who):
        return who.title()

    @action(reads=["who", "text"], writes=["receipt"])
    def both(state: State) -> State:
        return state.update(receipt=send(look_up(state["who"]), state["text"])["id"])

    rw = Rewind(mail_app(both), store=store)
    run = rw.run()
    with pytest.raises(EffectRefusedError):
        rw.fork(run, "write", state={"tone": "Ahoy"})

    failed = rw.last_run["deliver"]
    assert [c.source for c in failed.calls] == ["tool-cache", "refused"]
    assert failed.source == "tool-cache"


def test_a_refusal_is_no_answer_for_a_fork_that_may_fire_it(rw):
    run = rw.run()
    with pytest.raises(EffectRefusedError):
        rw.fork(run, "write", state={"tone": "Ahoy"})
    refused = rw.last_run
    name = run["deliver"].calls[0].name

    assert rw.fork(refused, "deliver", effects={name: {"id": 7}}).state["receipt"] == 7
    assert rw.fork(refused, "deliver", effects="live").state["receipt"] == 2
    assert SENT[1:] == [("ada", "Ahoy, ada!")]


def test_a_fork_fires_effects_where_it_is_told_to(rw):
    run = rw.run()
    fork = rw.fork(run, "write", state={"tone": "Ahoy"}, effects="live")

    assert SENT[1:] == [("ada", "Ahoy, ada!")]
    assert fork.state["receipt"] == 2
    assert len(rw.fork(fork, 0, reuse="none")) == 2
    assert len(SENT) == 2


def test_a_stub_answers_an_effect(rw):
    run = rw.run()
    name = run["deliver"].calls[0].name
    fork = rw.fork(
        run, "write", state={"tone": "Ahoy"}, effects={name: lambda to, text: {"id": len(text)}}
    )

    assert len(SENT) == 1
    assert fork.state["receipt"] == len("Ahoy, ada!")
    assert fork["deliver"].calls[0].source == "override"
    assert rw.replay(fork).require()
    assert (
        rw.fork(run, "write", state={"tone": "Oh"}, effects={name: {"id": 9}}).state["receipt"] == 9
    )


def test_a_new_run_fires_its_effects_whatever_another_run_had_done(rw):
    rw.run()
    rw.run()
    assert len(SENT) == 2


def test_what_is_neither_live_nor_stubs_is_refused(rw):
    run = rw.run()
    with pytest.raises(ConfigError, match="stubs by the name"):
        rw.fork(run, 0, effects="dry")


@tool
def look(at):
    return at


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sned", "no tool with an effect.*Did you mean 'send'"),
        ("look", "tool_result="),
        ("", "no tool with an effect"),
    ],
)
def test_a_stub_for_no_tool_with_an_effect_is_refused_before_anything_executes(rw, name, said):
    run = rw.run()
    for fork in (
        lambda stubs: rw.fork(run, "write", state={"tone": "Ahoy"}, effects=stubs),
        lambda stubs: rw.fork(run, 0, effects=stubs),
        lambda stubs: rw.rerun_from(run, effects=stubs),
        lambda stubs: asyncio.run(rw.afork(run, 0, effects=stubs)),
    ):
        with pytest.raises(ConfigError, match=said):
            fork({"send": 1, name: 1})
    assert SENT == [("ada", "Hello, ada!")]
    assert [r.id for r in rw.store.runs()] == [run.id]


def test_a_tool_that_only_the_recording_knows_can_have_a_stub(rw, monkeypatch):
    run = rw.run()
    monkeypatch.setattr(_effects, "_declared", {})  # another process, where none is imported yet
    (name,) = (call.name for call in run["deliver"].calls)
    fork = rw.fork(run, "write", state={"tone": "Oh"}, effects={name: {"id": 7}})
    assert fork.state["receipt"] == 7
    with pytest.raises(ConfigError, match=f"Did you mean '{name}'"):
        rw.fork(run, 0, effects={f"{name}d": 1})


def test_a_step_that_failed_after_an_effect_does_not_fire_it_again(store):
    SENT.clear()
    trouble = SimpleNamespace(on=True)

    @action(reads=["who"], writes=["receipt"])
    def deliver_and_log(state: State) -> State:
        receipt = send(state["who"], "x")
        if trouble.on:
            raise OSError("the log is full")
        return state.update(receipt=receipt["id"])

    app = (
        ApplicationBuilder()
        .with_actions(deliver_and_log)
        .with_state(who="ada")
        .with_entrypoint("deliver_and_log")
        .build()
    )
    rw = Rewind(app, store=store)
    for _ in range(2):
        with pytest.raises(OSError, match="full"):
            rw.run() if rw.last_run is None else rw.resume(rw.last_run)
    trouble.on = False
    run = rw.resume(rw.last_run)

    assert (run.state["receipt"], len(SENT)) == (1, 1)
    assert store.verify().ok


@tool(effect=True)
def pay(amount):
    SENT.append(amount)
    raise KeyboardInterrupt


@tool(effect=True)
async def apay(amount):
    SENT.append(amount)
    raise asyncio.CancelledError


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_an_effect_that_was_interrupted_is_not_fired_again(store, asynchronous):
    SENT.clear()

    @action(reads=[], writes=["paid"])
    def settle(state: State) -> State:
        return state.update(paid=pay(10))

    @action(reads=[], writes=["paid"])
    async def asettle(state: State) -> State:
        return state.update(paid=await apay(10))

    chosen = asettle if asynchronous else settle
    app = ApplicationBuilder().with_actions(settle=chosen).with_entrypoint("settle").build()
    rw = Rewind(app, store=store)
    with pytest.raises((KeyboardInterrupt, asyncio.CancelledError)):
        rw.run()
    run = rw.last_run
    with pytest.raises(EffectUnknownError, match="tool_result="):
        rw.resume(run)
    with pytest.raises(EffectUnknownError):
        rw.resume(run)
    assert SENT == [10]
    told = rw.fork(run, "settle", tool_result="receipt 1")
    assert told.state["paid"] == "receipt 1"
    assert SENT == [10]


KILLED = """
import os, sys
from burr.core import ApplicationBuilder, State, action
from rewind_nb import Rewind, tool

@tool(effect=True)
def pay(log):
    with open(log, "a") as paid:
        paid.write("paid\\n")
    if sys.argv[3:] == ["kill"]:
        os.kill(os.getpid(), 9)
    return "receipt"

@action(reads=["log"], writes=["paid"])
def settle(state: State) -> State:
    return state.update(paid=pay(state["log"]))

def app(log):
    builder = ApplicationBuilder().with_actions(settle).with_entrypoint("settle")
    return builder.with_state(log=log).build()

if __name__ == "__main__":
    Rewind(app(sys.argv[2]), store=sys.argv[1]).run()
"""


def test_an_effect_is_written_down_before_it_fires(tmp_path, monkeypatch):
    paying_app, path, log = killed("paying_app", KILLED, tmp_path, monkeypatch)
    with Store(path) as store:
        rw = Rewind(paying_app.app(str(log)), store=store)
        (unfinished,) = store.runs()
        assert [c.status for c in unfinished["settle"].calls] == ["started"]
        with pytest.raises(EffectUnknownError):
            rw.resume(unfinished)
        assert log.read_text() == "paid\n"
        assert store.verify().ok


def test_an_effect_that_raised_raises_again_in_an_unchanged_fork(store):
    SENT.clear()

    @tool(effect=True)
    def refuse(what):
        SENT.append(what)
        raise LookupError(f"no {what}")

    @action(reads=[], writes=["said"])
    def attempt(state: State) -> State:
        try:
            refuse("seat")
        except LookupError as error:
            return state.update(said=str(error))
        return state.update(said="fine")

    app = ApplicationBuilder().with_actions(attempt).with_entrypoint("attempt").build()
    rw = Rewind(app, store=store)
    run = rw.run()
    fork = rw.fork(run, 0, reuse="none")
    assert (fork.state["said"], SENT) == ("no seat", ["seat"])
    assert rw.replay(fork).require()


def test_a_fork_of_a_run_whose_effect_is_unknown_says_so(store):
    SENT.clear()

    @action(reads=[], writes=["paid"])
    def settle(state: State) -> State:
        return state.update(paid=pay(10))

    app = ApplicationBuilder().with_actions(settle).with_entrypoint("settle").build()
    rw = Rewind(app, store=store)
    with pytest.raises(KeyboardInterrupt):
        rw.run()
    with pytest.raises(EffectUnknownError, match=r"tool_result=..., call=0\)"):
        rw.fork(rw.last_run, 0)
    assert SENT == [10]
