"""Streaming actions, of every kind: recorded chunk by chunk, replayed, forked, broken off."""

import asyncio
import itertools

import apps
import pydantic
import pytest
from burr.core import (
    ApplicationBuilder,
    State,
    action,
    expr,
)
from burr.core.action import AsyncStreamingAction, StreamingAction, streaming_action
from burr.integrations.pydantic import PydanticTypingSystem

from rewind_nb import Rewind, now, tool


@tool
def next_word(sentence: str, n: int) -> str:
    apps.ran("next_word")
    words = sentence.split()
    return words[n] if n < len(words) else ""


def words_of(state):
    for n in itertools.count():
        word = next_word(state["sentence"], n)
        if not word:
            return
        yield word


@streaming_action(reads=["sentence"], writes=["said"])
def say(state: State, loud: bool = False):
    """One step: chunks with None, the result with the new state."""
    apps.ran("say")
    said = []
    for word in words_of(state):
        said.append(word.upper() if loud else word)
        yield {"word": said[-1]}, None
    yield {"word": ""}, state.update(said=" ".join(said))


@streaming_action(reads=["sentence"], writes=["said"])
async def asay(state: State):
    apps.ran("say")
    said = []
    for word in words_of(state):
        await asyncio.sleep(0)
        said.append(word)
        yield {"word": word}, None
    yield {"word": ""}, state.update(said=" ".join(said))


class Say(StreamingAction):
    """Two steps: the last chunk is the result, then the state is updated."""

    @property
    def reads(self):
        return ["sentence"]

    @property
    def writes(self):
        return ["said"]

    def stream_run(self, state: State, **_):
        apps.ran("say")
        said = []
        for word in words_of(state):
            said.append(word)
            yield {"word": word}
        yield {"said": " ".join(said)}

    def update(self, result, state: State) -> State:
        return state.update(**result)

    @property
    def inputs(self):
        return []


class AsyncSay(AsyncStreamingAction):
    @property
    def reads(self):
        return ["sentence"]

    @property
    def writes(self):
        return ["said"]

    @property
    def inputs(self):
        return []

    async def stream_run(self, state: State, **_):
        apps.ran("say")
        said = []
        for word in words_of(state):
            await asyncio.sleep(0)
            said.append(word)
            yield {"word": word}
        yield {"said": " ".join(said)}

    def update(self, result, state: State) -> State:
        return state.update(**result)


class Talk(pydantic.BaseModel):
    sentence: str = ""
    said: str | None = None
    length: int | None = None


class Chunk(pydantic.BaseModel):
    word: str


@streaming_action.pydantic(
    reads=["sentence"], writes=["said"], state_input_type=Talk, state_output_type=Talk,
    stream_type=Chunk,
)  # fmt: skip
def typed_say(state: Talk):
    apps.ran("say")
    said = []
    for word in words_of({"sentence": state.sentence}):
        said.append(word)
        yield Chunk(word=word), None
    state.said = " ".join(said)
    yield Chunk(word=""), state


@action(reads=["said"], writes=["length"])
def measure(state: State) -> State:
    apps.ran("measure")
    return state.update(length=len(state["said"]))


def app_of(say, *, typed=False):
    builder = (
        ApplicationBuilder()
        .with_actions(say=say, measure=measure)
        .with_transitions(("say", "measure", expr("len(said) > 3")))
        .with_entrypoint("say")
    )
    if typed:
        typing = PydanticTypingSystem(Talk)
        return builder.with_typing(typing).with_state(Talk(sentence="to be or not")).build()
    return builder.with_state(sentence="to be or not").build()


KINDS = {
    "one step": lambda: app_of(say),
    "two steps": lambda: app_of(Say()),
    "one step, async": lambda: app_of(asay),
    "two steps, async": lambda: app_of(AsyncSay()),
    "typed": lambda: app_of(typed_say, typed=True),
}


@pytest.fixture(params=KINDS)
def rw(request, store):
    return Rewind(KINDS[request.param](), store=store)


def streamed(rw, label=None, *, stop_after=None):
    """Drive a recorded application to the end of `say`, as a web server would; the chunks."""
    app = rw.application(label)
    if rw._spec.is_async:
        return asyncio.run(_astreamed(app, stop_after)), app

    _, container = app.stream_result(halt_after=["say"])
    return list(itertools.islice(container, stop_after)), app


async def _astreamed(app, stop_after):
    _, container = await app.astream_result(halt_after=["say"])
    chunks = []
    iterator = container.__aiter__()
    async for chunk in iterator:
        chunks.append(chunk)
        if len(chunks) == stop_after:
            break
    await iterator.aclose()
    return chunks


def words(chunks):
    return [c.word if isinstance(c, Chunk) else c["word"] for c in chunks]


# -- recorded and played back ----------------------------------------------------------------------


def test_a_stream_goes_out_as_it_does_without_recording(rw):
    chunks, app = streamed(rw)

    assert words(chunks) == ["to", "be", "or", "not"]
    assert app.state["said"] == "to be or not"
    step = rw.last_run["say"]
    assert words(step.stream) == ["to", "be", "or", "not"]
    assert (step.status, step.writes) == ("complete", {"said": "to be or not"})


def test_a_run_records_the_chunks_that_nobody_listened_to(rw):
    run = rw.run()

    assert words(run["say"].stream) == ["to", "be", "or", "not"]
    assert run.state["length"] == 12
    assert run["measure"].stream is None


def test_a_replay_streams_the_same_chunks(rw):
    streamed(rw)
    run = rw.last_run
    apps.CALLS.clear()
    proof = rw.replay(run).require()

    assert (apps.CALLS["say"], apps.CALLS["next_word"]) == (1, 0)
    assert proof.run["say"].row.stream == run["say"].row.stream


def test_a_fork_of_a_stream_executes_it_again(rw):
    run = rw.run()
    for step in run:
        fork = rw.fork(run, step)
        assert [s.hash for s in fork] == [s.hash for s in run]
        assert [s.row.stream for s in fork] == [s.row.stream for s in run]
        assert sum(s.live_calls for s in fork.history()) == 0
    changed = rw.fork(run, "say", tool_result="OR", call=2)
    assert changed.state["said"] == "to be OR not"
    assert rw.replay(changed).ok


def test_a_stream_whose_chunks_differ_fails_the_replay(store):
    @streaming_action(reads=[], writes=["done"])
    def tick(state: State):
        yield {"at": str(apps.CALLS["tick"])}, None
        yield {}, state.update(done=True)

    app = ApplicationBuilder().with_actions(tick).with_entrypoint("tick").build()
    rw = Rewind(app, store=store)
    run = rw.run()
    apps.CALLS["tick"] += 1
    proof = rw.replay(run)

    assert not proof.ok
    assert proof.divergence.path == "@stream[0]"
    assert (proof.divergence.before, proof.divergence.after) == ({"at": "0"}, {"at": "1"})


# -- broken off, and raised ------------------------------------------------------------------------


def test_a_stream_that_is_broken_off_is_never_complete(rw):
    streamed(rw, stop_after=2)
    run = rw.last_run

    assert run.status == "interrupted"
    assert run["say"].status == "interrupted"
    assert words(run["say"].stream) == ["to", "be"]
    assert run["say"].writes == {}
    assert rw.store.verify().ok


def test_a_stream_that_was_broken_off_is_resumed_without_asking_again(rw):
    streamed(rw, stop_after=3)
    apps.CALLS.clear()
    done = rw.resume(rw.last_run)

    assert done.state["said"] == "to be or not"
    assert apps.CALLS["next_word"] <= 3  # what was asked before is played back
    assert words(done["say"].stream) == ["to", "be", "or", "not"]
    assert rw.replay(done).ok


@pytest.mark.parametrize("two_steps", [False, True])
def test_a_stream_that_raises_fails_even_after_its_last_chunk(store, two_steps):
    class Bad(Say):
        def stream_run(self, state, **_):
            yield {"word": "to"}
            yield {"said": "to"}
            raise OSError("the line went dead")

    @streaming_action(reads=["sentence"], writes=["said"])
    def bad(state: State):
        yield {"word": "to"}, None
        yield {}, state.update(said="to")
        raise OSError("the line went dead")

    rw = Rewind(app_of(Bad() if two_steps else bad), store=store)
    app = rw.application()
    with pytest.raises(OSError, match="went dead"):
        list(app.stream_result(halt_after=["say"])[1])
    run = rw.last_run

    assert (run.status, run["say"].status, run["say"].writes) == ("failed", "failed", {})
    assert rw.replay(run).ok
    assert rw.fork(run, "say", output={"said": "to be"}).state["length"] == 5


def test_a_chunk_that_cannot_be_stored_is_refused_with_its_path(store):
    from rewind_nb.errors import NotEncodableError

    @streaming_action(reads=[], writes=["done"])
    def leak(state: State):
        yield {"ok": 1}, None
        yield {"socket": object()}, None
        yield {}, state.update(done=True)

    app = ApplicationBuilder().with_actions(leak).with_entrypoint("leak").build()
    rw = Rewind(app, store=store)
    with pytest.raises(NotEncodableError, match=r"@stream\[1\]\.socket"):
        rw.run()
    assert rw.last_run.status == "failed"


def test_calls_of_the_consumer_between_two_chunks_are_not_the_steps(store):
    rw = Rewind(app_of(say), store=store)
    app = rw.application()
    _, container = app.stream_result(halt_after=["say"])
    for _chunk in container:
        now()
        next_word("x", 0)
    run = rw.last_run

    assert [c.kind for c in run["say"].calls] == ["tool"] * 5
    assert rw.replay(run).ok


def test_a_second_step_is_refused_while_a_stream_is_open(store):
    from rewind_nb.errors import RunBusyError

    rw = Rewind(app_of(say), store=store)
    app = rw.application()
    _, container = app.stream_result(halt_after=["say"])
    chunks = iter(container)
    next(chunks)
    with pytest.raises(RunBusyError, match="read its stream to the end"):
        app.step()
    list(chunks)

    assert rw.last_run.state["said"] == "to be or not"
