"""The providers' own SDKs in an application: recorded, replayed, forked, and their overrides.

The clients are made once, outside of any step, as people make them: at the top of a module.
"""

import asyncio
import base64
import dataclasses
import itertools
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pydantic
import pytest
import wire_server as ws
from burr.core import ApplicationBuilder, State, action, default, when
from example_server import DATED, USED, ModelServer, Wish, spoken, told, understood
from sdks import KEYS, SDKS

from rewind_nb import Rewind, Store
from rewind_nb.errors import OverrideError

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
]

SYSTEM = ("system", "You cook fruit.")


def mind(asked):
    """Says what is sweet, writes recipes, and finds titles for them."""
    if asked.prompt.startswith("As JSON"):
        return '{"taste": "sweet"}'
    if "sweet or sour" in asked.prompt:
        odd = "lemon" in asked.prompt or asked.model == "sharp" or asked.temperature == 0.9
        return "sour" if odd else "sweet"
    if "weigh?" in asked.prompt:
        who, what = asked.last
        fruit = asked.prompt.removeprefix("What does a ").removesuffix(" weigh?")
        return f"It weighs {what}." if who == "result" else Wish("weigh", {"what": fruit})
    if asked.prompt.startswith("Title"):
        said = [text for who, text in asked.turns if who == "model"][-1]
        return f"On {said}"
    return f"{asked.prompt.lower()} by {asked.model}"


class Kitchen:
    """A model server, and a client of each SDK: of both kinds, made when first asked for."""

    def __init__(self, server):
        self.server = server
        self.loop = asyncio.Runner()
        self._clients = {}

    def client(self, sdk, is_async):
        if (sdk.name, is_async) not in self._clients:
            made = sdk.make(self.server.url, KEYS[sdk.name], is_async, 2)
            self._clients[sdk.name, is_async] = made
        return self._clients[sdk.name, is_async]

    def close(self):
        for (name, is_async), client in self._clients.items():
            if is_async:
                self.loop.run(SDKS[name].aclose(client))
            else:
                SDKS[name].close(client)
        self.loop.close()


@pytest.fixture(scope="module")
def kitchen():
    with ModelServer(mind) as server:
        made = Kitchen(server)
        yield made
        made.close()


def sync_app(ask):
    """Asks whether a plum is sweet, and makes the dish that goes with it."""

    @action(reads=["fruit"], writes=["kind"])
    def choose(state: State) -> State:
        return state.update(kind=ask([SYSTEM, ("user", f"Is a {state['fruit']} sweet or sour?")]))

    @action(reads=["fruit"], writes=["recipe", "title"])
    def cook(state: State, dish: str) -> State:
        wanted = ("user", f"{state['fruit']} {dish}")
        recipe = ask([SYSTEM, wanted])
        title = ask([wanted, ("model", recipe), ("user", "Title?")])
        return state.update(recipe=recipe, title=title)

    return built(choose, cook)


def async_app(ask):
    """The same with coroutines."""

    @action(reads=["fruit"], writes=["kind"])
    async def choose(state: State) -> State:
        asked = [SYSTEM, ("user", f"Is a {state['fruit']} sweet or sour?")]
        return state.update(kind=await ask(asked))

    @action(reads=["fruit"], writes=["recipe", "title"])
    async def cook(state: State, dish: str) -> State:
        wanted = ("user", f"{state['fruit']} {dish}")
        recipe = await ask([SYSTEM, wanted])
        title = await ask([wanted, ("model", recipe), ("user", "Title?")])
        return state.update(recipe=recipe, title=title)

    return built(choose, cook)


@action(reads=["title", "recipe"], writes=["menu"])
def serve(state: State) -> State:
    return state.update(menu=f"{state['title']}: {state['recipe']}")


def built(choose, cook):
    return (
        ApplicationBuilder()
        .with_actions(
            choose=choose,
            bake=cook.bind(dish="cake"),
            pickle=cook.bind(dish="chutney"),
            serve=serve,
        )
        .with_transitions(
            ("choose", "bake", when(kind="sweet")),
            ("choose", "pickle", default),
            (["bake", "pickle"], "serve"),
        )
        .with_entrypoint("choose")
        .with_state(fruit="plum")
        .build()
    )


def asking(sdk, client, is_async, streams):
    """A function that asks through an SDK and returns the text."""

    def ask(turns):
        answer = sdk.send(client, is_async, streams, sdk.request(turns, 0.3))
        return "".join(map(sdk.piece, answer)) if streams else sdk.text(answer)

    async def aask(turns):
        answer = await sdk.send(client, is_async, streams, sdk.request(turns, 0.3))
        if not streams:
            return sdk.text(answer)
        return "".join([sdk.piece(chunk) async for chunk in answer])

    return aask if is_async else ask


def models(step):
    return [call for call in step.calls if call.kind == "model"]


class Bench:
    """An application bound to a store, driven in the way that suits it; counts requests."""

    def __init__(self, kitchen, sdk, is_async, store, app):
        self.server, self.sdk, self.is_async = kitchen.server, sdk, is_async
        self.rw = Rewind(app, store=store)
        self._loop = kitchen.loop
        self._before = kitchen.server.count

    def _do(self, name, *args, **kwargs):
        if self.is_async:
            return self._loop.run(getattr(self.rw, f"a{name}")(*args, **kwargs))
        return getattr(self.rw, name)(*args, **kwargs)

    def run(self, **kwargs):
        return self._do("run", **kwargs)

    def fork(self, run, at, **kwargs):
        return self._do("fork", run, at, reuse="none", **kwargs)

    def replay(self, run):
        return self._do("replay", run)

    def requests(self):
        """How many arrived since this was asked last."""
        before, self._before = self._before, self.server.count
        return self._before - before

    def proved(self, run):
        """Replay it: nothing may be sent, nothing may differ."""
        self.requests()
        proof = self.replay(run)
        assert proof.ok, proof
        assert (self.requests(), proof.live_calls, proof.tokens) == (0, 0, 0)
        assert [s.hash for s in proof.run.steps] == [s.hash for s in run.steps]
        return proof


@pytest.fixture
def bench(request, kitchen, store):
    name, kind, streams = request.param
    sdk, is_async = SDKS[name], kind == "async"
    ask = asking(sdk, kitchen.client(sdk, is_async), is_async, streams == "streamed")
    return Bench(kitchen, sdk, is_async, store, (async_app if is_async else sync_app)(ask))


MODES = [(k, s) for k in ("sync", "async") for s in ("whole", "streamed")]
WAYS = [(name, *mode) for name in SDKS for mode in MODES]
every_way = pytest.mark.parametrize("bench", WAYS, indirect=True, ids=" ".join)
QUICK = [("sync", "whole"), ("async", "streamed")]  # each half of a mode, with every SDK


def slower(way):
    """The marks of a way: that all of them are recorded and replayed is a law of its own."""
    return () if way[1:] in QUICK else (pytest.mark.thorough,)


each_half = pytest.mark.parametrize(
    "bench",
    [pytest.param(way, marks=slower(way), id=" ".join(way)) for way in WAYS],
    indirect=True,
)


@every_way
def test_a_run_through_an_sdk_is_recorded_and_replayed_without_a_request(bench):
    run = bench.run()

    assert bench.requests() == 3
    assert [s.action for s in run.steps] == ["choose", "bake", "serve"]
    assert run.state["menu"] == "On plum cake by toy: plum cake by toy"
    calls = [call for step in run.steps for call in models(step)]
    assert [told(call.usage) for call in calls] == [USED] * 3
    assert {(call.model, call.answered_by, call.source) for call in calls} == {
        ("toy", "toy" + DATED, "live")
    }
    assert told(run.usage) == USED + USED + USED
    assert [s.uncaptured for s in run.steps] == [()] * 3
    bench.proved(run)


@pytest.mark.parametrize("bench", [w for w in WAYS if w[1] == "sync"], indirect=True, ids=" ".join)
def test_the_text_of_a_call_is_the_one_that_the_sdk_gave(bench):
    run = bench.run()

    calls = [call for step in run.steps for call in models(step)]
    assert [call.text for call in calls] == ["sweet", "plum cake by toy", "On plum cake by toy"]
    supplied = bench.fork(run, "choose", response="sour")
    assert [call.text for call in models(supplied["choose"])] == ["sour"]


@each_half
def test_an_unchanged_fork_at_every_step_asks_nothing_and_is_identical(bench):
    run = bench.run()
    bench.requests()

    for step in run.steps:
        fork = bench.fork(run, step.seq)

        assert bench.requests() == 0
        assert [s.hash for s in fork.steps] == [s.hash for s in run.steps]
        assert fork.state == run.state
        assert bench.rw.diff(run, fork).identical


def check_sour(bench, run, fork, asked):
    """The fork took the other way; *asked* requests were sent, the first one changed."""
    sent = bench.server.asked[-asked:]
    assert bench.requests() == asked
    assert [s.action for s in fork.steps] == ["choose", "pickle", "serve"]
    assert fork.state["kind"] == "sour"
    assert fork.state["menu"] == "On plum chutney by toy: plum chutney by toy"
    assert bench.rw.diff(run, fork).divergence.action == "choose"
    bench.proved(fork)
    return sent[0]


OVERRIDES = {
    "prompt": lambda recorded: recorded.replace("plum", "lemon"),
    "model": "sharp",
    "temperature": 0.9,
    "params": lambda recorded: (
        recorded | {"generationConfig": {"temperature": 0.9}}
        if "contents" in recorded
        else {"temperature": 0.9}
    ),
}


@pytest.mark.parametrize(
    ("bench", "kind"),
    # each way of asking with half of them, each of them with every SDK
    [
        pytest.param(way, k, marks=slower(way))
        for way in WAYS
        for n, k in enumerate(OVERRIDES)
        if n // 2 == MODES.index(way[1:]) % 2
    ],
    indirect=["bench"],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_a_changed_request_reaches_the_server_and_takes_effect(bench, kind):
    run = bench.run()
    bench.requests()

    fork = bench.fork(run, "choose", **{kind: OVERRIDES[kind]})

    asked = check_sour(bench, run, fork, 3)
    recorded = bench.server.asked[-6]
    seen = (asked.turns[0], asked.prompt, asked.model, asked.temperature)
    expected = {
        "prompt": (SYSTEM, "Is a lemon sweet or sour?", "toy", 0.3),
        "model": (SYSTEM, "Is a plum sweet or sour?", "sharp", 0.3),
        "temperature": (SYSTEM, "Is a plum sweet or sour?", "toy", 0.9),
        "params": (SYSTEM, "Is a plum sweet or sour?", "toy", 0.9),
    }
    assert seen == expected[kind]
    assert asked.streams == recorded.streams
    assert [call.answered_by for call in models(fork["choose"])] == [asked.model + DATED]


@each_half
def test_a_response_is_given_to_the_sdk_in_its_own_form(bench):
    run = bench.run()
    bench.requests()

    fork = bench.fork(run, "choose", response="sour")

    check_sour(bench, run, fork, 2)
    assert [call.source for call in models(fork["choose"])] == ["override"]


@each_half
def test_the_messages_of_the_second_call_are_replaced(bench):
    run = bench.run()
    bench.requests()
    turns = [("user", "plum cake"), ("model", "flour"), ("user", "Title? Be brief.")]

    fork = bench.fork(run, "bake", call=1, messages=bench.sdk.messages(turns))

    assert bench.requests() == 1
    assert bench.server.asked[-1].turns == tuple(turns)
    assert (fork.state["title"], fork.state["recipe"]) == ("On flour", "plum cake by toy")
    assert [call.source for call in models(fork["bake"])] == ["cache", "live"]
    bench.proved(fork)


# -- what SDKs do on their own ------------------------------------------------------------------

both_kinds = pytest.mark.parametrize(
    ("sdk", "is_async"),
    [(sdk, is_async) for sdk in SDKS.values() for is_async in (False, True)],
    ids=lambda value: getattr(value, "name", "async" if value else "sync"),
)


def one_step(ask, is_async):
    """An application that asks once and keeps what *ask* returns."""
    if is_async:

        @action(reads=["fruit"], writes=["said"])
        async def only(state: State) -> State:
            return state.update(said=await ask(state["fruit"]))

    else:

        @action(reads=["fruit"], writes=["said"])
        def only(state: State) -> State:
            return state.update(said=ask(state["fruit"]))

    builder = ApplicationBuilder().with_actions(only).with_entrypoint("only")
    return builder.with_state(fruit="plum").build()


def weighing(sdk, client, is_async):
    """A turn with a tool: the model asks for it, the application answers, the model says."""

    def scales(what):
        return f"{len(what)} g"

    def first(fruit):
        return [SYSTEM, ("user", f"What does a {fruit} weigh?")]

    def second(fruit, wish):
        said = [("wish", json.dumps([wish.tool, wish.arguments]))]
        return [*first(fruit), *said, ("result", scales(**wish.arguments))]

    def ask(fruit):
        asked = sdk.send(client, False, False, sdk.request(first(fruit), 0.3, "weigh"))
        turns = second(fruit, sdk.wish(asked))
        return sdk.text(sdk.send(client, False, False, sdk.request(turns, 0.3, "weigh")))

    async def aask(fruit):
        asked = await sdk.send(client, True, False, sdk.request(first(fruit), 0.3, "weigh"))
        turns = second(fruit, sdk.wish(asked))
        return sdk.text(await sdk.send(client, True, False, sdk.request(turns, 0.3, "weigh")))

    return aask if is_async else ask


@both_kinds
def test_a_turn_with_a_tool_is_replayed_and_forked(sdk, is_async, kitchen, store):
    ask = weighing(sdk, kitchen.client(sdk, is_async), is_async)
    bench = Bench(kitchen, sdk, is_async, store, one_step(ask, is_async))
    run = bench.run()

    assert bench.requests() == 2
    assert run.state["said"] == "It weighs 4 g."
    assert [who for who, _ in bench.server.asked[-1].turns][-2:] == ["wish", "result"]
    assert [told(call.usage) for call in models(run["only"])] == [USED] * 2
    bench.proved(run)

    other = bench.fork(run, "only", prompt="What does a walnut weigh?")
    assert bench.requests() == 2
    assert other.state["said"] == "It weighs 6 g."
    bench.proved(other)
    supplied = bench.fork(run, "only", call=1, response="Nothing at all.")
    assert (bench.requests(), supplied.state["said"]) == (0, "Nothing at all.")
    bench.proved(supplied)


@both_kinds
def test_a_tool_result_without_its_call_is_refused_before_sending(sdk, is_async, kitchen, store):
    ask = weighing(sdk, kitchen.client(sdk, is_async), is_async)
    bench = Bench(kitchen, sdk, is_async, store, one_step(ask, is_async))
    run = bench.run()
    bench.requests()
    turns = [("user", "What does a plum weigh?"), ("result", "4 g")]

    with pytest.raises(OverrideError, match=r"messages\[1\]|input\[1\]|contents\[1\]"):
        bench.fork(run, "only", call=1, messages=sdk.messages(turns))

    assert bench.requests() == 0
    paired = [turns[0], ("wish", json.dumps(["weigh", {"what": "plum"}])), ("result", "9 g")]
    fork = bench.fork(run, "only", call=1, messages=sdk.messages(paired))
    assert fork.state["said"] == "It weighs 9 g."


@both_kinds
def test_a_request_that_the_sdk_made_again_is_one_call(sdk, is_async, kitchen, store):
    ask = asking(sdk, kitchen.client(sdk, is_async), is_async, False)
    bench = Bench(kitchen, sdk, is_async, store, one_step(question(ask), is_async))
    bench.server.play(refusal(429, retry_after_ms="1"))
    run = bench.run()

    assert bench.requests() == 2
    assert run.state["said"] == "sweet"
    assert [(c.response["status"], c.sample) for c in models(run["only"])] == [(429, 0), (200, 0)]
    assert told(run.usage) == USED
    bench.proved(run)
    fork = bench.fork(run, "only")
    assert (bench.requests(), fork.state["said"]) == (0, "sweet")
    other = bench.fork(run, "only", model="sharp")
    assert (bench.requests(), other.state["said"]) == (1, "sour")


@both_kinds
def test_an_error_of_the_sdk_is_the_failure_of_the_run_and_of_its_replay(sdk, is_async, store):
    status = 401 if is_async else 400
    with ModelServer(lambda asked: refusal(status)) as server:
        kitchen = Kitchen(server)
        ask = asking(sdk, kitchen.client(sdk, is_async), is_async, False)
        bench = Bench(kitchen, sdk, is_async, store, one_step(question(ask), is_async))
        with pytest.raises(sdk.wrong) as raised:
            bench.run()
    run = bench.rw.last_run

    assert bench.requests() == 1
    assert run.status == "failed"
    assert run["only"].error.type.endswith(type(raised.value).__name__)
    assert str(status) in run["only"].error.message
    assert (models(run["only"])[0].response["status"], run.usage.total_tokens) == (status, 0)
    proof = bench.proved(run)  # the server is off
    again, first = proof.run["only"].error, run["only"].error
    assert (again.type, again.message, again.raw) == (first.type, first.message, first.raw)
    kitchen.close()


@pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
def test_a_stream_that_the_network_cuts_is_the_failure_of_the_run_and_of_its_replay(
    sdk, kitchen, store
):
    def cut(seen):
        reply = spoken(understood(seen), "one two three four")
        return dataclasses.replace(reply, chunks=reply.chunks[:3], cut=True)

    ask = asking(sdk, kitchen.client(sdk, False), False, True)
    bench = Bench(kitchen, sdk, False, store, one_step(question(ask), False))
    bench.server.play(cut)
    with pytest.raises(Exception) as raised:
        bench.run()
    run = bench.rw.last_run

    assert bench.requests() == 1
    assert run["only"].error.type.endswith(type(raised.value).__name__)
    assert (run.usage, models(run["only"])[0].status) == (None, "failed")
    again = bench.proved(run).run["only"].error
    assert (again.type, again.message) == (run["only"].error.type, run["only"].error.message)
    assert bench.fork(run, "only").state["said"] == "sweet"
    assert bench.requests() == 1


@both_kinds
def test_a_stream_that_the_application_leaves_is_never_whole_and_ends_there_again(
    sdk, is_async, kitchen, store
):
    client = kitchen.client(sdk, is_async)

    def ask(fruit):
        chunks = []
        for chunk in sdk.send(client, False, True, sdk.request([("user", f"{fruit} pie")], 0.3)):
            chunks.append(sdk.piece(chunk))
            if len(chunks) == 2:
                break
        return chunks

    async def aask(fruit):
        chunks = []
        asked = sdk.request([("user", f"{fruit} pie")], 0.3)
        async for chunk in await sdk.send(client, True, True, asked):
            chunks.append(sdk.piece(chunk))
            if len(chunks) == 2:
                break
        return chunks

    app = one_step(aask if is_async else ask, is_async)
    bench = Bench(kitchen, sdk, is_async, store, app)
    run = bench.run()

    assert len(run.state["said"]) == 2
    (call,) = models(run["only"])
    assert (call.status, call.source) == ("failed", "live")
    assert run.usage is None  # nobody said what it cost
    bench.proved(run)
    again = bench.run()  # nobody else is given half an answer
    assert bench.requests() == 1
    assert again.state == run.state


@pytest.mark.parametrize("streams", ["whole", "streamed"])
@pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
def test_an_answer_without_a_word_is_an_answer(sdk, streams, kitchen, store):
    """Asked for one ("return an empty string if ..."), a model gives it, and is paid for it."""
    ask = asking(sdk, kitchen.client(sdk, False), False, streams == "streamed")
    bench = Bench(kitchen, sdk, False, store, one_step(question(ask), False))
    bench.server.play(lambda seen: spoken(understood(seen), ""))
    run = bench.run()

    assert bench.requests() == 1
    assert (run.state["said"], told(run.usage)) == ("", USED)
    bench.proved(run)
    assert bench.fork(run, "only").state["said"] == ""
    assert bench.requests() == 0
    other = bench.fork(run, "only", model="sharp")
    assert (bench.requests(), other.state["said"]) == (1, "sour")
    silent = bench.fork(other, "only", response="")
    assert (bench.requests(), silent.state["said"]) == (0, "")
    bench.proved(silent)


# -- other ways to ask --------------------------------------------------------------------------

ASK = [{"role": "user", "content": "Is a plum sweet or sour?"}]


class Taste(pydantic.BaseModel):
    taste: str


def chat_stream(client):
    with client.chat.completions.stream(model="toy", messages=ASK) as events:
        deltas = [event.delta for event in events if event.type == "content.delta"]
        said = list(filter(None, deltas))
    return [*said, events.get_final_completion().choices[0].message.content]


async def achat_stream(client):
    async with client.chat.completions.stream(model="toy", messages=ASK) as events:
        deltas = [event.delta async for event in events if event.type == "content.delta"]
        said = list(filter(None, deltas))
    return [*said, (await events.get_final_completion()).choices[0].message.content]


def chat_parse(client):
    asked = [{"role": "user", "content": "As JSON: is a plum sweet or sour?"}]
    answer = client.chat.completions.parse(model="toy", messages=asked, response_format=Taste)
    return answer.choices[0].message.parsed.taste


def chat_raw(client):
    answer = client.chat.completions.with_raw_response.create(model="toy", messages=ASK)
    return [answer.http_response.status_code, answer.parse().choices[0].message.content]


def chat_lines(client):
    asking = client.chat.completions.with_streaming_response
    with asking.create(model="toy", messages=ASK, stream=True) as answer:
        return list(answer.iter_lines())


def responses_stream(client):
    with client.responses.stream(model="toy", input="Is a plum sweet or sour?") as events:
        said = [e.delta for e in events if e.type == "response.output_text.delta"]
    return [*said, events.get_final_response().output_text]


async def aresponses_stream(client):
    async with client.responses.stream(model="toy", input="Is a plum sweet or sour?") as events:
        said = [e.delta async for e in events if e.type == "response.output_text.delta"]
    return [*said, (await events.get_final_response()).output_text]


def messages_stream(client):
    with client.messages.stream(model="toy", max_tokens=9, messages=ASK) as events:
        return [*events.text_stream, events.get_final_message().usage.output_tokens]


async def amessages_stream(client):
    async with client.messages.stream(model="toy", max_tokens=9, messages=ASK) as events:
        said = [text async for text in events.text_stream]
        return [*said, (await events.get_final_message()).usage.output_tokens]


HELPERS = [
    (chat_stream, "openai", ["sweet", "sweet"]),
    (achat_stream, "openai", ["sweet", "sweet"]),
    (chat_parse, "openai", "sweet"),
    (chat_raw, "openai", [200, "sweet"]),
    (chat_lines, "openai", None),
    (responses_stream, "responses", ["sweet", "sweet"]),
    (aresponses_stream, "responses", ["sweet", "sweet"]),
    (messages_stream, "anthropic", ["sweet", 30]),
    (amessages_stream, "anthropic", ["sweet", 30]),
]


@pytest.mark.parametrize(
    ("helper", "name", "said"), HELPERS, ids=lambda v: getattr(v, "__name__", "")
)
def test_the_helpers_of_an_sdk_are_recorded_like_its_plain_calls(
    helper, name, said, kitchen, store
):
    is_async, sdk = asyncio.iscoroutinefunction(helper), SDKS[name]
    client = kitchen.client(sdk, is_async)
    app = one_step(lambda fruit: helper(client), is_async)
    bench = Bench(kitchen, sdk, is_async, store, app)
    run = bench.run()

    assert bench.requests() == 1
    assert said is None or run.state["said"] == said
    (call,) = models(run["only"])
    assert (call.status, call.answered_by) == ("complete", "toy" + DATED)
    bench.proved(run)
    assert bench.fork(run, "only").state == run.state
    sour = '{"taste": "sour"}' if helper is chat_parse else "sour"
    fork = bench.fork(run, "only", response=sour)
    assert bench.requests() == 0
    assert "sour" in str(fork.state["said"])
    assert "sweet" not in str(fork.state["said"])


def test_identical_requests_side_by_side_keep_their_own_answers(kitchen, store):
    """A gather on an async client, threads on a sync one; a replay asks in another order."""
    openai, anthropic = SDKS["openai"], SDKS["anthropic"]
    aask = asking(openai, kitchen.client(openai, True), True, True)
    ask = asking(anthropic, kitchen.client(anthropic, False), False, False)
    fruits = ["plum", "fig", "plum", "pear", "plum"]
    late = SimpleNamespace(by=[0.0, 0.01, 0.02, 0.03, 0.04])  # seconds
    number, together = itertools.count(), threading.Barrier(5)

    async def bake(n):
        await asyncio.sleep(late.by[n])
        return await aask([("user", f"{fruits[n]} count")])

    def roll(n):
        time.sleep(late.by[n])
        return ask([("user", f"{fruits[n]} count")])

    @action(reads=[], writes=["pies"])
    async def pies(state: State) -> State:
        return state.update(pies=await asyncio.gather(*map(bake, range(5))))

    @action(reads=[], writes=["tarts"])
    def tarts(state: State) -> State:
        with ThreadPoolExecutor(5) as pool:
            return state.update(tarts=list(pool.map(roll, range(5))))

    def count(seen):
        asked = understood(seen)
        together.wait(timeout=20)
        return spoken(asked, f"{asked.prompt} {next(number)}")

    app = (
        ApplicationBuilder()
        .with_actions(pies, tarts)
        .with_transitions(("pies", "tarts"))
        .with_entrypoint("pies")
        .build()
    )
    kitchen.server.play(*[count] * 10)
    bench = Bench(kitchen, openai, True, store, app)
    run = bench.run()

    assert bench.requests() == 10
    said = [*run.state["pies"], *run.state["tarts"]]
    assert sorted(int(text.rpartition(" ")[2]) for text in said) == list(range(10))
    for pauses in ([0.04, 0.03, 0.02, 0.01, 0.0], [0.02, 0.0, 0.04, 0.01, 0.03]):
        late.by = pauses
        bench.proved(run)
        assert bench.fork(run, "pies").state == run.state
        assert bench.requests() == 0


# -- keys ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("sdk", SDKS.values(), ids=SDKS)
def test_the_key_of_an_sdk_is_found_nowhere(sdk, kitchen, tmp_path, caplog, capfd):
    """Not in the store and not in what is shown, also where the provider sends it back."""
    key = KEYS[sdk.name]

    def echo(asked):
        body = {"error": {"message": f"Bad key {key}: {asked.seen.headers}", "code": 401}}
        return ws.json_reply({"type": "error", **body}, 401, x_sent=key)

    kitchen.server.play(lambda seen: spoken(understood(seen), f"Your key is {key}."))
    ask = asking(sdk, kitchen.client(sdk, False), False, False)
    with Store(tmp_path / "runs.db") as store:
        bench = Bench(kitchen, sdk, False, store, sync_app(ask))
        run = bench.run()
        said = [run, bench.fork(run, "choose", model="sharp"), bench.proved(run)]
        said += [bench.rw.diff(run, said[1]), *run.steps]
        kitchen.server.play(lambda seen: echo(understood(seen)))
        with pytest.raises(sdk.wrong) as raised:
            bench.run(cache="refresh")
        failed = bench.rw.last_run
        said += [failed, bench.proved(failed), failed.steps[0]]

        shown = [repr(value) + value._repr_html_() for value in said]
        shown += [str(step.to_dict()) for step in [*run.steps, *failed.steps]]
        shown += [str(raised.value.__notes__), caplog.text, *capfd.readouterr()]
        for frame in (store.calls_df(), store.steps_df(), store.runs_df()):
            shown.append(frame.to_string())
        assert key not in "".join(shown)
        assert key[:12] not in "".join(shown)
        assert "***" in failed.steps[0].error.message
    stored = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert key.encode() not in stored
    assert base64.b64encode(key.encode()) not in stored


def question(ask):
    def asked(fruit):
        return ask([("user", f"Is a {fruit} sweet or sour?")])

    return asked


def refusal(code, **headers):
    """An error as providers send it, each of whose SDKs finds its own fields in it."""
    error = {"code": code, "message": f"no: {code}", "status": "NO", "type": "invalid"}
    return ws.json_reply({"type": "error", "error": error}, code, **headers)
