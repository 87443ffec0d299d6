"""HTTP inside a step: any client, sync and async, streaming or not, is recorded and played back."""

import asyncio
import contextlib
import gzip
import inspect
import io
import itertools
import json
import sqlite3
import subprocess
import sys
import threading
import time
import zlib
from types import SimpleNamespace

import apps
import httpx
import httpx2
import pytest
import requests
import wire_server as ws
from burr.core import ApplicationBuilder, State, action

from rewind_nb import Rewind, Store
from rewind_nb.capture import http as capture_http
from rewind_nb.capture._context import current_step
from rewind_nb.capture._http_answer import HttpAnswer
from rewind_nb.capture._http_open import sort
from rewind_nb.capture._http_request import HttpRequest
from rewind_nb.capture._inflate import DamagedBodyError, Unpacker
from rewind_nb.capture.http import AsyncCapturedTransport, CapturedTransport
from rewind_nb.capture.policy import TELEMETRY, HttpPolicy
from rewind_nb.errors import CacheMissError, ConfigError

QUESTION = {"b": 1.0, "a": ["plum", None]}


def app_of(step):
    """An application of one step, which writes down what *step* returns."""
    if inspect.iscoroutinefunction(step):

        @action(reads=[], writes=["said"])
        async def ask(state: State) -> State:
            return state.update(said=await step())

    else:

        @action(reads=[], writes=["said"])
        def ask(state: State) -> State:
            return state.update(said=step())

    return ApplicationBuilder().with_actions(ask).with_entrypoint("ask").with_state(n=0).build()


def recorded(step, store, **settings):
    rw = Rewind(app_of(step), store=store, **settings)
    return rw, rw.run(halt_after=["ask"])


def calls(run):
    """The requests of its only step."""
    return [c for c in run.steps[0].calls if c.kind in ("model", "http", "tool")]


def check_replay(rw, run, server):
    """Replay it with no request and no difference, and return what the replay recorded."""
    before = server.count
    proof = rw.replay(run)
    proof.require()
    assert server.count == before
    assert rw.store.verify().ok
    assert run.steps[0]._repr_html_()
    assert [c.status for c in calls(proof.run)] == [c.status for c in calls(run)]
    return proof.run


# -- clients ---------------------------------------------------------------------------


def whole_httpx(library, url, **options):
    def step():
        with library.Client(**options) as client:
            answer = client.post(url, json=QUESTION)
            return [answer.status_code, answer.json(), sorted(answer.headers)]

    return step


def whole_async(library, url, **options):
    async def step():
        async with library.AsyncClient(**options) as client:
            answer = await client.post(url, json=QUESTION)
            return [answer.status_code, answer.json(), sorted(answer.headers)]

    return step


def whole_requests(library, url):
    def step():
        with library.Session() as session:
            answer = session.post(url, json=QUESTION)
            return [answer.status_code, answer.json(), sorted(answer.headers)]

    return step


WHOLE = {
    "httpx": lambda url: whole_httpx(httpx, url),
    "httpx async": lambda url: whole_async(httpx, url),
    "httpx2": lambda url: whole_httpx(httpx2, url),
    "httpx2 async": lambda url: whole_async(httpx2, url),
    "requests": lambda url: whole_requests(requests, url),
}


def stream_httpx(library, url, take=None, got=lambda _: None):
    def step():
        chunks = []
        with library.Client() as client, client.stream("POST", url, json=QUESTION) as answer:
            for chunk in answer.iter_bytes():
                chunks.append(chunk)
                got(chunk)
                if len(chunks) == take:
                    break
        return chunks

    return step


def stream_async(library, url, take=None, got=lambda _: None):
    async def step():
        chunks = []
        async with library.AsyncClient() as client:
            async with client.stream("POST", url, json=QUESTION) as answer:
                async for chunk in answer.aiter_bytes():
                    chunks.append(chunk)
                    got(chunk)
                    if len(chunks) == take:
                        break
        return chunks

    return step


def stream_requests(library, url, take=None, got=lambda _: None):
    def step():
        chunks = []
        with library.post(url, json=QUESTION, stream=True) as answer:
            for chunk in answer.iter_content(chunk_size=None):
                chunks.append(chunk)
                got(chunk)
                if len(chunks) == take:
                    break
        return chunks

    return step


STREAM = {
    "httpx": lambda *a, **k: stream_httpx(httpx, *a, **k),
    "httpx async": lambda *a, **k: stream_async(httpx, *a, **k),
    "httpx2": lambda *a, **k: stream_httpx(httpx2, *a, **k),
    "httpx2 async": lambda *a, **k: stream_async(httpx2, *a, **k),
    "requests": lambda *a, **k: stream_requests(requests, *a, **k),
}

any_client = pytest.mark.parametrize("client", WHOLE)
any_stream = pytest.mark.parametrize("client", STREAM)


# -- whole answers ---------------------------------------------------------------------


@any_client
def test_a_request_of_any_client_is_recorded_and_replayed_without_one(client, store):
    with ws.WireServer(ws.json_reply({"n": 1}, x_limit="9")) as server:
        rw, run = recorded(WHOLE[client](f"{server.url}/search?q=1"), store)
        check_replay(rw, run, server)

        (call,) = calls(run)
        assert server.count == 1
        assert (call.kind, call.status, call.source) == ("http", "complete", "live")
        assert call.request["url"] == "http://127.0.0.1/search?q=1"
        assert call.request["body"] == {"a": ["plum", None], "b": 1}
        assert call.response["body"] == '{"n": 1}'
        assert call.response["headers"]["x-limit"] == "9"
        assert "x-limit" in run.state["said"][2]


@any_client
def test_an_unchanged_fork_of_any_client_asks_nothing(client, store):
    with ws.WireServer() as server:
        rw, run = recorded(WHOLE[client](f"{server.url}/search"), store)
        fork = rw.fork(run, "ask", reuse="none")

        assert server.count == 1
        assert fork.state["said"] == run.state["said"]
        assert [c.source for c in calls(fork)] == ["cache"]


@any_client
def test_a_request_outside_a_step_is_not_touched(client, store):
    with ws.WireServer(ws.packed(ws.json_reply({"n": 1}))) as server:
        recorded(lambda: 1, store)
        step = WHOLE[client](f"{server.url}/search")
        status, body, headers = asyncio.run(step()) if inspect.iscoroutinefunction(step) else step()

        assert (status, body) == (200, {"n": 1})
        assert "content-encoding" in [name.lower() for name in headers]


@any_stream
@pytest.mark.parametrize("bare", [False, True], ids=["chunked", "until it closes"])
def test_a_stream_is_handed_on_as_it_arrives_and_replayed_in_the_same_chunks(bare, client, store):
    gate = threading.Semaphore(1)
    events = ["data: 1\n\n", "data: 2\n\nda", "ta: \u00fc\n\n"]
    with ws.WireServer(ws.streamed(*events, gate=gate, bare=bare)) as server:
        step = STREAM[client](f"{server.url}/feed", got=lambda _: gate.release())
        rw, run = recorded(step, store)
        check_replay(rw, run, server)

        assert run.state["said"] == [e.encode() for e in events]
        (call,) = calls(run)
        assert call.response["body"] == "".join(events)
        assert call.status == "complete"


@any_stream
def test_a_compressed_stream_is_handed_on_decoded(client, store):
    with ws.WireServer(ws.packed(ws.streamed("data: 1\n\n", "data: 2\n\n"))) as server:
        rw, run = recorded(STREAM[client](f"{server.url}/feed"), store)
        check_replay(rw, run, server)

        assert b"".join(run.state["said"]) == b"data: 1\n\ndata: 2\n\n"


@any_stream
def test_a_stream_that_its_reader_breaks_off_is_failed_and_breaks_off_again(client, store):
    with ws.WireServer(then=ws.streamed("data: 1\n\n", "data: 2\n\n", "data: 3\n\n")) as server:
        rw, run = recorded(STREAM[client](f"{server.url}/feed", take=2), store)
        check_replay(rw, run, server)

        (call,) = calls(run)
        assert run.state["said"] == [b"data: 1\n\n", b"data: 2\n\n"]
        assert call.status == "failed"
        assert call.response["body"] == "data: 1\n\ndata: 2\n\n"
        rw.fork(run, "ask", reuse="none")
        assert server.count == 2  # it is played back to nobody else


@any_stream
def test_a_stream_that_the_network_cuts_fails_again_at_the_same_place(client, store):
    with ws.WireServer(ws.streamed("data: 1\n\n", "data: 2\n\n", cut=True)) as server:
        read = []
        step = STREAM[client](f"{server.url}/feed", got=read.append)
        with pytest.raises(Exception) as raised:
            recorded(step, store)
        rw = Rewind(app_of(step), store=store)
        run = store.runs()[0]
        check_replay(rw, run, server)

        assert read == [b"data: 1\n\n", b"data: 2\n\n"] * 2
        (call,) = calls(run)
        assert call.status == "failed"
        assert call.response["body"] == "data: 1\n\ndata: 2\n\n"
        assert type(raised.value).__name__ in call.error.type or client == "requests"


@any_client
@pytest.mark.parametrize("clients", [WHOLE, STREAM], ids=["whole", "stream"])
def test_an_answer_is_durable_before_its_caller_has_all_of_it(clients, client, tmp_path):
    path = tmp_path / "runs.db"
    with Store(path) as made:  # the file is there from the first run on
        Rewind(apps.branch_app(), store=made).run()
    other = sqlite3.connect(path, check_same_thread=False, isolation_level=None)

    def keep_from_committing(seen):
        other.execute("begin immediate")
        threading.Timer(0.5, other.execute, ["rollback"]).start()
        return ws.streamed("data: 1\n\n") if clients is STREAM else ws.json_reply({})

    def stored():
        return [row[0] for row in other.execute("select status from calls where kind = 'http'")]

    with ws.WireServer(keep_from_committing) as server, Store(path) as store:
        ask = clients[client](server.url)
        if inspect.iscoroutinefunction(ask):

            async def step():
                await ask()
                return stored()

        else:

            def step():
                ask()
                return stored()

        _, run = recorded(step, store)
        other.close()

        assert run.state["said"] == ["complete"]


@any_client
@pytest.mark.parametrize(
    "damaged",
    [
        ws.packed(ws.json_reply({"n": list(range(100))}), keep=40),
        ws.Reply(200, {"content-type": "application/json"}, b'{"n": 1}', length=900),
        ws.Reply(200, {"content-encoding": "gzip"}, b"this is not gzip"),
        ws.Reply(200, {}, chunks=[b'{"n":'], cut=True),
    ],
    ids=["gzip cut off", "length", "no gzip", "cut off"],
)
def test_a_damaged_answer_fails_and_is_played_back_to_nobody_else(client, damaged, store):
    with ws.WireServer(damaged, then=ws.json_reply({"n": 2})) as server:
        step = WHOLE[client](f"{server.url}/search")
        with pytest.raises(Exception) as raised:
            recorded(step, store)
        rw, run = Rewind(app_of(step), store=store), store.runs()[0]
        check_replay(rw, run, server)

        assert calls(run)[0].status == "failed"
        assert type(raised.value).__module__.partition(".")[0] == client.split()[0]
        assert rw.fork(run, "ask", reuse="none").state["said"][1] == {"n": 2}


@any_client
def test_every_hop_of_a_redirect_is_a_call(client, store):
    with ws.WireServer() as server:
        server.play(ws.redirect(f"{server.url}/there", 307), ws.redirect("/at/last", 308))
        follow = {} if client == "requests" else {"follow_redirects": True}
        library = httpx2 if "httpx2" in client else httpx
        url = f"{server.url}/here"
        step = WHOLE[client](url)
        if follow:
            step = (whole_async if "async" in client else whole_httpx)(library, url, **follow)
        rw, run = recorded(step, store)
        check_replay(rw, run, server)

        paths = [c.request["url"].removeprefix("http://127.0.0.1") for c in calls(run)]
        assert paths == ["/here", "/there", "/at/last"]
        assert rw.fork(run, "ask", reuse="none").state["said"] == run.state["said"]
        assert server.count == 3


@any_client
def test_an_error_status_is_replayed_and_never_offered_to_another_run(client, store):
    with ws.WireServer(ws.status(404), then=ws.json_reply({"n": 2})) as server:
        rw, run = recorded(WHOLE[client](f"{server.url}/search"), store)
        check_replay(rw, run, server)

        assert run.state["said"][0] == 404
        assert rw.run(halt_after=["ask"]).state["said"][0] == 200
        assert server.count == 2


def test_an_answer_that_says_json_and_is_none_is_offered_to_nobody(store):
    garbage = ws.Reply(200, {"content-type": "application/json"}, b"<html>")
    with ws.WireServer(garbage, then=ws.json_reply({"n": 2})) as server:
        rw, run = recorded(get(server.url), store)
        check_replay(rw, run, server)

        assert run.state["said"] == ["<html>"]
        assert rw.run(halt_after=["ask"]).state["said"] == ['{"n": 2}']


def get(url, times=1, library=httpx, **options):
    def step():
        with library.Client(**options) as client:
            return [client.get(url).text for _ in range(times)]

    return step


def test_identical_requests_of_a_step_stay_distinct(store):
    replies = [ws.json_reply({"n": n}) for n in range(3)]
    with ws.WireServer(*replies) as server:
        rw, run = recorded(get(server.url, times=3), store)
        check_replay(rw, run, server)

        assert run.state["said"] == ['{"n": 0}', '{"n": 1}', '{"n": 2}']
        assert [c.sample for c in calls(run)] == [0, 1, 2]
        assert rw.fork(run, "ask", reuse="none").state["said"] == run.state["said"]


def test_two_identical_streams_read_in_turn_are_two_calls(store):
    def step():
        with httpx.Client() as client:
            with client.stream("GET", server.url) as a, client.stream("GET", server.url) as b:
                pairs = zip(a.iter_bytes(), b.iter_bytes(), strict=True)
                return [chunk for pair in pairs for chunk in pair]

    answers = [ws.streamed(f"data: {n}\n\n", f"data: {n}{n}\n\n") for n in (1, 2)]
    with ws.WireServer(*answers) as server:
        rw, run = recorded(step, store)
        check_replay(rw, run, server)

        assert [c.sample for c in calls(run)] == [0, 1]
        assert rw.fork(run, "ask", reuse="none").state["said"] == run.state["said"]


def test_a_request_after_a_stream_that_was_broken_off_is_another_call(store):
    def step():
        with httpx.Client() as client:
            with client.stream("GET", server.url) as answer:
                first = next(answer.iter_bytes())
            return [first, client.get(server.url).content]

    with ws.WireServer(then=ws.streamed("data: 1\n\n", "data: 2\n\n")) as server:
        rw, run = recorded(step, store)
        check_replay(rw, run, server)

        assert [(c.status, c.sample) for c in calls(run)] == [("failed", 0), ("complete", 1)]
        fork = rw.fork(run, "ask", reuse="none")
        assert [c.source for c in calls(fork)] == ["live", "cache"]


def test_head_keeps_the_headers_it_asked_for(store):
    def step():
        return [
            library.request("HEAD", server.url).headers["content-length"]
            for library in (httpx, httpx2, requests)
        ]

    with ws.WireServer(then=ws.Reply(200, {}, b"12345")) as server:
        rw, run = recorded(step, store)
        check_replay(rw, run, server)

        assert run.state["said"] == ["5", "5", "5"]


def test_a_body_is_read_raw_and_its_time_taken_live_and_played_back(store):
    """What needs a body that is still to come, as it is on the network."""

    def step():
        said = []
        for library in (httpx, httpx2):
            with library.Client() as client:
                assert client.get(server.url).elapsed.total_seconds() >= 0
                with client.stream("GET", server.url) as answer:
                    said.append(b"".join(answer.iter_raw()))
        with requests.get(server.url, stream=True) as answer:
            said.append(answer.raw.read(4))
            said.append(answer.raw.read())
        said.append(list(requests.get(server.url, stream=True).iter_lines()))
        return said

    with ws.WireServer(then=ws.Reply(200, {"content-type": "text/plain"}, b"one\ntwo")) as server:
        rw, run = recorded(step, store)
        check_replay(rw, run, server)

        lines = [b"one", b"two"]
        assert run.state["said"] == [b"one\ntwo", b"one\ntwo", b"one\n", b"two", lines]


def test_a_stream_left_open_is_ended_by_its_step(store):
    def step():
        with httpx.Client() as client:
            answer = client.send(client.build_request("GET", server.url), stream=True)
            capture_http.close_streams(current_step())
            return answer.status_code

    with ws.WireServer(ws.streamed("data: 1\n\n")) as server:
        rw, run = recorded(step, store)
        check_replay(rw, run, server)

        assert [c.status for c in calls(run)] == ["failed"]


def test_a_replay_that_reads_on_in_a_stream_that_was_broken_off_misses(store):
    take = [1]

    def step():
        with httpx.Client() as client, client.stream("GET", server.url) as answer:
            return list(itertools.islice(answer.iter_bytes(), take[0]))

    with ws.WireServer(ws.streamed("data: 1\n\n", "data: 2\n\n", "data: 3\n\n")) as server:
        rw, run = recorded(step, store)
        take[0] = 3
        proof = rw.replay(run)

        assert not proof.ok
        assert "closed this stream before its end" in str(proof.divergence)
        assert server.count == 1


@pytest.mark.parametrize("when", ["before its answer", "in the middle of it"])
def test_a_request_that_timed_out_times_out_again_in_a_replay(when, store):
    async def step():
        async with httpx.AsyncClient() as client:
            try:
                async with asyncio.timeout(0.3):
                    async with client.stream("GET", server.url) as answer:
                        return [chunk async for chunk in answer.aiter_bytes()]
            except TimeoutError:
                return (await client.get(f"{server.url}/fallback")).text

    never = threading.Semaphore(1 if when == "in the middle of it" else 0)

    def hang(seen):
        if when == "before its answer":
            never.acquire(timeout=20)
        return ws.streamed("data: 1\n\n", "data: 2\n\n", gate=never)

    with ws.WireServer(hang) as server:
        rw, run = recorded(step, store)
        check_replay(rw, run, server)
        never.release(3)

        assert run.state["said"] == '{"ok": true}'
        assert [c.status for c in calls(run)] == ["failed", "complete"]


@pytest.mark.parametrize("kind", ["identity", "gzip", "deflate"])
def test_a_body_is_held_against_what_its_headers_promise(kind):
    pack = {"gzip": gzip.compress, "deflate": zlib.compress}.get(kind, bytes)
    packed = pack(b"12345")
    headers = {"content-encoding": kind, "content-length": str(len(packed))}
    for size in (1, 3, len(packed)):
        whole, short = Unpacker(headers), Unpacker(headers)
        pieces = [packed[at : at + size] for at in range(0, len(packed), size)]
        assert b"".join(b"".join(whole.feed(piece)) for piece in pieces) == b"12345"
        whole.end()
        short.feed(packed[:-1])
        with pytest.raises(DamagedBodyError, match="cut off"):
            short.end()


# -- retries ---------------------------------------------------------------------------


def openai_client(server, **options):
    import openai

    return openai.OpenAI(api_key="sk-test-key-0123456789", base_url=f"{server.url}/v1", **options)


def ask_openai(server, **options):
    def step():
        with openai_client(server, **options) as client:
            answer = client.chat.completions.create(
                model="toy", messages=[{"role": "user", "content": "which fruit?"}]
            )
            return answer.choices[0].message.content

    return step


@pytest.fixture
def naps(monkeypatch):
    """How long somebody wanted to sleep, in seconds; nobody does."""
    asked = []
    monkeypatch.setattr(time, "sleep", asked.append)
    return asked


@pytest.mark.parametrize("pause", [{}, {"retry_after": "90"}, {"retry_after_ms": "700"}])
def test_retries_of_an_sdk_are_attempts_at_one_call_and_a_replay_does_not_sleep(pause, naps, store):
    answers = [ws.status(429, **pause), ws.status(503), ws.json_reply(ws.openai_chat())]
    with ws.WireServer(*answers, then=ws.json_reply(ws.openai_chat("walnut"))) as server:
        rw, run = recorded(ask_openai(server), store)
        assert sum(naps) > 1
        naps.clear()
        check_replay(rw, run, server)

        assert sum(naps) < 0.01
        assert [c.response["status"] for c in calls(run)] == [429, 503, 200]
        assert [c.sample for c in calls(run)] == [0, 0, 0]
        fork = rw.fork(run, "ask", prompt="which nut?")
        assert server.count == 4  # the override was for all attempts at the one call
        assert server.requests[-1].json["messages"][0]["content"] == "which nut?"
        assert fork.state["said"] == "walnut"


def test_a_pause_that_an_sdk_refuses_to_make_is_refused_again(naps, store):
    with ws.WireServer(ws.status(429, retry_after="9000")) as server:
        step = ask_openai(server)
        with pytest.raises(Exception, match="429"):
            recorded(step, store)
        check_replay(Rewind(app_of(step), store=store), store.runs()[0], server)

        assert server.count == 1


def test_a_call_after_an_answered_one_is_another_call_also_when_it_was_retried(store):
    def step():
        with httpx.Client() as client:
            answers = [client.get(server.url) for _ in range(5)]
            return [answer.status_code for answer in answers]

    ok, no = ws.json_reply({}), ws.status(500)
    with ws.WireServer(ok, no, ok, no, ok) as server:
        rw, run = recorded(step, store)
        check_replay(rw, run, server)

        assert [c.sample for c in calls(run)] == [0, 1, 1, 2, 2]
        assert rw.fork(run, "ask", reuse="none").state["said"] == [200] * 5
        assert server.count == 7  # the fork was spared the failures, and asked two more times


# -- what is said where a replay cannot go on --------------------------------------------


def ask_with(sdk, server):
    """One question through an SDK, which must not be recorded as it is asked."""
    turn = iter(range(9))

    def question():
        return f"question {next(turn)}"

    def openai():
        with openai_client(server) as client:
            client.chat.completions.create(
                model="toy", messages=[{"role": "user", "content": question()}]
            )

    def groq():
        import groq

        with groq.Groq(api_key="gsk_test_0123456789", base_url=server.url) as client:
            client.chat.completions.create(
                model="toy", messages=[{"role": "user", "content": question()}]
            )

    def anthropic():
        import anthropic

        with anthropic.Anthropic(api_key="sk-ant-0123456789", base_url=server.url) as client:
            client.messages.create(
                model="toy", max_tokens=9, messages=[{"role": "user", "content": question()}]
            )

    def google():
        from google import genai

        options = genai.types.HttpOptions(base_url=server.url)
        client = genai.Client(api_key="AIza-test-0123456789", http_options=options)
        client.models.generate_content(model="toy", contents=question())

    def mistral():
        from mistralai.client import Mistral

        with Mistral(api_key="mistral-test-0123456789", server_url=server.url) as client:
            client.chat.complete(model="toy", messages=[{"role": "user", "content": question()}])

    return locals()[sdk]


SDKS = ["openai", "groq", "anthropic", "google", "mistral"]


def by_path(seen):
    """Every provider at once."""
    if "messages" in seen.path and "chat" not in seen.path:
        return ws.json_reply(ws.anthropic_message())
    if "generateContent" in seen.path:
        return ws.json_reply(ws.google_answer())
    return ws.json_reply(ws.openai_chat())


@pytest.mark.parametrize("sdk", SDKS)
def test_a_miss_reaches_the_user_through_an_sdk_without_long_pauses(sdk, naps, store):
    with ws.WireServer(then=by_path) as server:
        ask = ask_with(sdk, server)
        rw, run = recorded(ask, store)
        assert server.count == 1
        naps.clear()
        proof = rw.replay(run)

        assert not proof.ok
        assert "was not recorded" in str(proof.divergence)
        with pytest.raises(Exception) as raised:
            rw.fork(run, "ask", reuse="none", cache="replay")
        chain, error = [], raised.value
        while error is not None:
            chain.append(type(error))
            error = error.__cause__
        assert CacheMissError in chain
        assert chain[0] is CacheMissError or sdk in ("groq", "anthropic")
        assert sum(naps) < 4  # two replays of two retries at most
        assert server.count == 1


# -- SDKs ------------------------------------------------------------------------------


@pytest.mark.parametrize("sdk", SDKS)
def test_a_model_call_through_an_sdk_is_read(sdk, store):
    with ws.WireServer(then=by_path) as server:
        rw, run = recorded(ask_with(sdk, server), store)

        (call,) = calls(run)
        assert (call.kind, call.status, call.model) == ("model", "complete", "toy")
        assert call.usage.to_dict() == {"input_tokens": 11, "output_tokens": 5, "total_tokens": 16}
        assert run.usage.total_tokens == 16
        assert call.answered_by in ("toy-2024", "claude-toy", "gemini-toy")
        stored = json.dumps([call.request, call.response])
        assert "0123456789" not in stored


def stream_openai(server):
    def step():
        with openai_client(server) as client:
            answer = client.chat.completions.create(
                model="toy", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            return [chunk.choices[0].delta.content for chunk in answer if chunk.choices]

    return step


def stream_openai_async(server):
    async def step():
        import openai

        async with openai.AsyncOpenAI(api_key="sk-a-0123456789", base_url=server.url) as client:
            answer = await client.chat.completions.create(
                model="toy", messages=[{"role": "user", "content": "hi"}], stream=True
            )
            return [c.choices[0].delta.content async for c in answer if c.choices]

    return step


def stream_anthropic(server):
    def step():
        import anthropic

        with anthropic.Anthropic(api_key="sk-ant-0123456789", base_url=server.url) as client:
            with client.messages.stream(
                model="toy", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
            ) as answer:
                return [*answer.text_stream, None]

    return step


def stream_anthropic_async(server):
    async def step():
        import anthropic

        async with anthropic.AsyncAnthropic(
            api_key="sk-ant-0123456789", base_url=server.url
        ) as client:
            async with client.messages.stream(
                model="toy", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
            ) as answer:
                return [*[text async for text in answer.text_stream], None]

    return step


STREAMING = [
    (stream_openai, ws.openai_events("pl", "um")),
    (stream_openai_async, ws.openai_events("pl", "um")),
    (stream_anthropic, ws.anthropic_events("pl", "um")),
    (stream_anthropic_async, ws.anthropic_events("pl", "um")),
]


@pytest.mark.parametrize(("ask", "events"), STREAMING)
def test_a_stream_through_an_sdk_is_complete_where_the_sdk_stops_reading(ask, events, store):
    """SDKs close the connection at the last event, before the stream has ended."""
    with ws.WireServer(ws.streamed(*events)) as server:
        rw, run = recorded(ask(server), store)
        check_replay(rw, run, server)

        assert run.state["said"] == ["pl", "um", None]
        (call,) = calls(run)
        assert (call.kind, call.status) == ("model", "complete")
        assert call.usage.to_dict() == {"input_tokens": 11, "output_tokens": 5, "total_tokens": 16}
        assert rw.fork(run, "ask", reuse="none").state["said"] == run.state["said"]
        assert server.count == 1


@pytest.mark.parametrize(("ask", "events"), STREAMING)
def test_a_stream_that_ends_without_its_last_event_is_played_back_to_nobody_else(
    ask, events, store
):
    with ws.WireServer(ws.streamed(*events[:-2]), then=ws.streamed(*events)) as server:
        step = ask(server)
        with contextlib.suppress(Exception):
            recorded(step, store)
        rw = Rewind(app_of(step), store=store)
        check_replay(rw, store.runs()[0], server)

        assert rw.run(halt_after=["ask"]).state["said"] == ["pl", "um", None]
        assert server.count == 2


def test_a_response_override_of_a_stream_is_streamed(store):
    with ws.WireServer(ws.streamed(*ws.openai_events("pl", "um"))) as server:
        rw, run = recorded(stream_openai(server), store)
        fork = rw.fork(run, "ask", response="a whole quince")
        check_replay(rw, fork, server)

        assert "".join(w or "" for w in fork.state["said"]) == "a whole quince"
        assert server.count == 1


def test_a_key_that_a_stream_echoes_is_not_stored_and_the_stream_is_cut_at_events(store):
    events = ["data: your key is sk-test-key", "-0123456789, {}\n\nda", "ta: 2\n\n"]

    def step():
        headers = {"x-api-key": "sk-test-key-0123456789"}
        with httpx.Client(headers=headers) as client:
            with client.stream("GET", server.url) as answer:
                return len(list(answer.iter_bytes())) > 1

    with ws.WireServer(ws.streamed(*events)) as server:
        rw, run = recorded(step, store)
        check_replay(rw, run, server)

        (call,) = calls(run)
        assert call.response["body"] == "data: your key is ***, {}\n\ndata: 2\n\n"
        assert call.response["cuts"] == [27, 36]


# -- what a request is -------------------------------------------------------------------


def asks(store, *steps):
    """Run each in a run of its own, and return how many of them were answered live."""
    return sum(recorded(step, store)[1].steps[0].live_calls for step in steps)


def posting(server, **given):
    def step():
        with httpx.Client() as client:
            return client.post(f"{server.url}/v1/things", **given).json()

    return step


SAME = {
    "key order": ({"json": {"a": 1, "b": [0.0]}}, {"json": {"b": [0], "a": 1}}),
    "user agent and trace": (
        {"headers": {"user-agent": "one", "traceparent": "00-1", "x-stainless-retry-count": "0"}},
        {"headers": {"user-agent": "two", "traceparent": "00-2", "x-stainless-retry-count": "1"}},
    ),
    "idempotency key": (
        {"headers": {"idempotency-key": "1"}},
        {"headers": {"idempotency-key": "2"}},
    ),
    "credentials": (
        {"headers": {"authorization": "Bearer sk-one-0123456789"}, "params": {"api_key": "one"}},
        {"headers": {"authorization": "Bearer sk-two-0123456789"}, "params": {"api_key": "two"}},
    ),
    "key in the query": (
        {"params": {"key": "AIzaSyD-0123456789"}},
        {"params": {"key": "AIzaSyD-9876543210"}},
    ),
    "password of a form": (
        {"data": {"grant_type": "password", "password": "hunter2hunter2"}},
        {"data": {"grant_type": "password", "password": "hunter3hunter3"}},
    ),
    "boundary": (
        {"files": {"f": ("a.txt", b"plum")}, "data": {"n": "1"}},
        {"files": {"f": ("a.txt", b"plum")}, "data": {"n": "1"}},
    ),
    "compression": (
        {"content": gzip.compress(b'{"a": 1}', 1), "headers": {"content-encoding": "gzip"}},
        {"content": gzip.compress(b'{"a": 1}', 9), "headers": {"content-encoding": "gzip"}},
    ),
    "timeout": ({"timeout": 5}, {"timeout": 6}),
}

OTHER = {
    "body": ({"json": {"a": 1}}, {"json": {"a": 2}}),
    "order of a list": ({"json": [1, 2]}, {"json": [2, 1]}),
    "true and 1": ({"json": {"a": True}}, {"json": {"a": 1}}),
    "query": ({"params": {"q": "1"}}, {"params": {"q": "2"}}),
    "accept": ({"headers": {"accept": "text/csv"}}, {"headers": {"accept": "text/plain"}}),
    "beta": ({"headers": {"openai-beta": "a"}}, {"headers": {"openai-beta": "b"}}),
    "range": ({"headers": {"range": "bytes=0-1"}}, {"headers": {"range": "bytes=2-3"}}),
    "form": ({"data": {"a": "1"}}, {"data": {"a": "2"}}),
    "upload": (
        {"files": {"f": ("a.txt", b"plum")}},
        {"files": {"f": ("a.txt", b"pear")}},
    ),
    "bytes": ({"content": b"\xff1"}, {"content": b"\xff2"}),
    "text and a JSON text": ({"content": b"plum"}, {"content": b'"plum"'}),
    "a key twice": ({"content": b'{"a":1,"a":2}'}, {"content": b'{"a":2}'}),
    "a key that is a word": ({"params": {"key": "population"}}, {"params": {"key": "area"}}),
    "compression": (
        {"content": gzip.compress(b'{"a": 1}'), "headers": {"content-encoding": "gzip"}},
        {"content": gzip.compress(b'{"a": 2}'), "headers": {"content-encoding": "gzip"}},
    ),
}


@pytest.mark.parametrize("what", SAME)
def test_what_changes_no_answer_is_no_part_of_a_request(what, store):
    with ws.WireServer() as server:
        assert asks(store, *(posting(server, **given) for given in SAME[what])) == 1


@pytest.mark.parametrize("what", OTHER)
def test_what_changes_an_answer_is_part_of_a_request(what, store):
    with ws.WireServer() as server:
        assert asks(store, *(posting(server, **given) for given in OTHER[what])) == 2


def test_a_request_is_the_same_whichever_client_makes_it(store):
    """Where the clients send the same headers."""

    def through(library):
        def step():
            headers = {"accept": "application/json"}
            return library.post(f"{server.url}/v1/things", json=QUESTION, headers=headers).json()

        return step

    with ws.WireServer() as server:
        assert asks(store, *map(through, (httpx, httpx2, requests))) == 1


@pytest.mark.parametrize("body", ["text", b"bytes", iter([b"a ", b"generator"]), io.BytesIO(b"f")])
def test_a_body_of_requests_is_sent_and_recorded_whatever_it_is_given_as(body, store):
    def step():
        return requests.post(server.url, data=body, headers={"content-type": "text/plain"}).json()

    with ws.WireServer() as server:
        _, run = recorded(step, store)

        sent = server.requests[0].body
        assert sent
        assert calls(run)[0].request["body"] == sent


# -- secrets -----------------------------------------------------------------------------


def everything_in(path):
    return b"".join(file.read_bytes() for file in path.parent.iterdir())


SECRETS = {
    "authorization": lambda s: {"headers": {"authorization": f"Bearer {s}"}},
    "x-api-key": lambda s: {"headers": {"x-api-key": s}},
    "x-goog-api-key": lambda s: {"headers": {"x-goog-api-key": s}},
    "api-key": lambda s: {"headers": {"api-key": s}},
    "cookie": lambda s: {"headers": {"cookie": f"lang=en; session={s}"}},
    "query": lambda s: {"params": {"key": s}},
    "form": lambda s: {"data": {"client_secret": s}},
}


@pytest.mark.parametrize("where", SECRETS)
def test_a_credential_reaches_no_row_also_where_it_is_echoed(where, tmp_path):
    canary = f"canary-{where}-0123456789abcdef"
    echo = lambda seen: ws.json_reply({"you": canary, "sent": seen.path}, x_echo=canary)  # noqa: E731
    with ws.WireServer(then=echo) as server, Store(tmp_path / "runs.db") as store:
        _, run = recorded(posting(server, **SECRETS[where](canary)), store)

        assert canary.encode() not in everything_in(tmp_path / "runs.db")
        assert calls(run)[0].response["headers"]["x-echo"] == "***"


def test_a_request_in_a_traceback_shows_no_credential():
    request = HttpRequest("GET", "https://a.test/?key=sk-1", {"authorization": "Bearer sk-2"})

    assert repr(request) == "<HttpRequest GET https://a.test/?key=***>"
    assert "sk-3" not in repr(HttpAnswer(200, [("set-cookie", "sk-3")], b"sk-3"))


def test_a_login_is_replayed_without_its_token_and_asked_again_by_a_fork(tmp_path):
    token = "ya29.token-0123456789abcdef"

    def step():
        with httpx.Client() as client:
            given = client.post(f"{server.url}/token", data={"grant_type": "refresh"}).json()
            headers = {"authorization": f"Bearer {given['access_token']}"}
            return client.get(f"{server.url}/data", headers=headers).json()

    def serve(seen):
        if seen.path == "/token":
            return ws.json_reply({"access_token": token, "expires_in": 3600})
        return ws.json_reply({"ok": seen.headers["authorization"] == f"Bearer {token}"})

    with ws.WireServer(then=serve) as server, Store(tmp_path / "runs.db") as store:
        rw, run = recorded(step, store)
        check_replay(rw, run, server)
        rw.fork(run, "ask", reuse="none")

        assert run.state["said"] == {"ok": True}
        assert [seen.path for seen in server.requests] == ["/token", "/data", "/token"]
        assert token.encode() not in everything_in(tmp_path / "runs.db")


@pytest.mark.parametrize("library", [httpx, httpx2, requests])
def test_cookies_work_while_recording_and_are_not_stored(library, tmp_path):
    session = "session-0123456789abcdef"

    def step():
        make = library.Session if library is requests else library.Client
        with make() as client:
            client.get(f"{server.url}/login")
            return client.get(f"{server.url}/data").json()

    def serve(seen):
        if seen.path == "/login":
            return ws.json_reply({}, set_cookie=f"sid={session}; Path=/")
        return ws.json_reply({"known": f"sid={session}" in seen.headers.get("cookie", "")})

    with ws.WireServer(then=serve) as server, Store(tmp_path / "runs.db") as store:
        rw, run = recorded(step, store)
        check_replay(rw, run, server)

        assert run.state["said"] == {"known": True}
        assert "set-cookie" not in calls(run)[0].response["headers"]
        assert session.encode() not in everything_in(tmp_path / "runs.db")


def test_a_signed_redirect_is_followed_and_stored_without_its_signature(store):
    def step():
        with httpx.Client(follow_redirects=True) as client:
            return client.get(f"{server.url}/file").json()

    with ws.WireServer(ws.redirect("/blob?x-amz-signature=abc123def456ghi7")) as server:
        rw, run = recorded(step, store)
        check_replay(rw, run, server)

        assert server.requests[1].path == "/blob?x-amz-signature=abc123def456ghi7"
        assert "abc123def456ghi7" not in str([c.to_dict() for c in calls(run)])


# -- the policy --------------------------------------------------------------------------


def searching(server, library=httpx, how="query"):
    given = {
        "query": {"params": {"q": "plum", "n": "2", "api_key": "sk-search-0123456789"}},
        "json": {"json": {"q": "plum", "n": 2}},
        "form": {"data": {"q": "plum", "n": "2"}},
    }[how]

    def step():
        method = "GET" if how == "query" else "POST"
        return library.request(method, f"{server.url}/search", **given).json()

    return step


TOOLS = HttpPolicy(tools=["127.0.0.1/search"])
any_library = pytest.mark.parametrize("library", [httpx, httpx2, requests])


@any_library
@pytest.mark.parametrize("how", ["query", "json", "form"])
def test_a_tool_behind_http_is_overridden_like_a_tool(how, library, store):
    found = lambda seen: ws.json_reply({"path": seen.path, "body": seen.body.decode()})  # noqa: E731
    with ws.WireServer(then=found) as server:
        rw, run = recorded(searching(server, library, how), store, http=TOOLS)
        check_replay(rw, run, server)

        (call,) = calls(run)
        method = "GET" if how == "query" else "POST"
        assert (call.kind, call.name) == ("tool", f"{method} 127.0.0.1/search")
        assert {k: str(v) for k, v in call.request["args"].items()} == {"q": "plum", "n": "2"}
        asked = rw.fork(run, "ask", tool_args={"q": "pe&r"})
        check_replay(rw, asked, server)
        sent = server.requests[-1]
        said = sent.path + sent.body.decode()
        assert "plum" not in said
        assert "pe&r" in said or "pe%26r" in said
        assert "n=2" in said or '"n": 2' in said
        if how == "query":
            assert "api_key=sk-search-0123456789" in said

        before = server.count
        assert rw.fork(run, "ask", tool_result={"n": 3}).state["said"] == {"n": 3}
        assert rw.fork(run, "ask", tool_result='{"n": 4}').state["said"] == {"n": 4}
        unchanged = rw.fork(run, "ask", reuse="none")
        assert [c.source for c in calls(unchanged)] == ["tool-cache"]
        assert server.count == before


def test_a_recorded_answer_of_a_tool_can_be_edited_by_a_callback(store):
    def less(answer):
        return {name: not value for name, value in answer.items()}

    with ws.WireServer() as server:
        rw, run = recorded(searching(server), store, http=TOOLS)

        assert rw.fork(run, "ask", tool_result=less).state["said"] == {"ok": False}


def test_a_tool_override_does_not_touch_other_requests(store):
    def step():
        return [httpx.get(f"{server.url}/{path}").json() for path in ("other", "search")]

    with ws.WireServer() as server:
        rw, run = recorded(step, store, http=TOOLS)
        fork = rw.fork(run, "ask", tool_result={"n": 3})

        assert fork.state["said"] == [{"ok": True}, {"n": 3}]


@any_client
def test_what_passes_through_is_neither_recorded_nor_sent_by_a_replay(client, store):
    policy = HttpPolicy(passthrough=["127.0.0.1/telemetry"])
    with ws.WireServer(then=ws.Reply(200, {}, b"1")) as server:
        tell = WHOLE[client](f"{server.url}/telemetry")
        if inspect.iscoroutinefunction(tell):

            async def step():
                with contextlib.suppress(ValueError):
                    await tell()

        else:

            def step():
                with contextlib.suppress(ValueError):
                    tell()

        rw, run = recorded(step, store, http=policy)
        assert server.count == 1
        assert calls(run) == []
        check_replay(rw, run, server)
        rw.fork(run, "ask", reuse="none")
        assert server.count == 2


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("https://api.openai.com/v1/chat/completions", "model"),
        ("http://localhost:8000/v1/chat/completions", "model"),
        ("https://api.anthropic.com/v1/messages", "model"),
        ("https://generativelanguage.googleapis.com/v1beta/models/g:generateContent", "model"),
        ("https://api.openai.com/v1/models", "http"),
        ("https://example.com/", "http"),
        ("https://cloud.langfuse.com/api/public/ingestion", None),
        ("https://cloud.langfuse.com/api/public/v2/prompts/greeting", "http"),
        ("https://api.smith.langchain.com/runs/multipart", None),
        ("https://api.smith.langchain.com/commits/-/greeting", "http"),
        ("https://us.i.posthog.com/batch/", None),
        ("https://o1.ingest.sentry.io/api/1/envelope/", None),
        ("http://collector:4318/v1/traces", None),
    ],
)
def test_what_a_request_is_without_a_setting(url, kind):
    found = sort(SimpleNamespace(policy=HttpPolicy()), "POST", url)

    assert (found and found.kind) == kind


def test_a_named_model_of_no_known_format_is_a_model_call(store):
    def step():
        return httpx.post(f"{server.url}/ask", json={"model": "own", "question": "?"}).json()

    with ws.WireServer(ws.json_reply({"say": "plum"})) as server:
        rw, run = recorded(step, store, http=HttpPolicy(models=["127.0.0.1/ask"]))
        check_replay(rw, run, server)

        (call,) = calls(run)
        assert (call.kind, call.model, call.usage) == ("model", "own", None)
        rw.fork(run, "ask", reuse="none")
        assert server.count == 1


def test_patterns_name_hosts_ports_and_paths():
    policy = HttpPolicy(tools=["api.test", "localhost:81/*", "*.test/v?/find"])

    assert policy.named("https://API.test/any/path?q=1") == "tool"
    assert policy.named("http://localhost:81/x") == "tool"
    assert policy.named("http://localhost:82/x") is None
    assert policy.named("https://eu.test/v2/find") == "tool"
    assert policy.named("https://eu.test/v2/find/more") is None
    assert policy.passthrough == TELEMETRY


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"tools": "api.test"}, "Pass a list"),
        ({"models": ["https://api.test/x"]}, "Use 'api.test/x'"),
        ({"passthrough": [None]}, "A pattern is a str"),
    ],
)
def test_what_is_no_pattern_is_refused(given, words):
    with pytest.raises(ConfigError, match=words):
        HttpPolicy(**given)


# -- the transports and the patch ----------------------------------------------------------


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_an_explicit_transport_records_a_request_once_also_where_the_inner_is_patched(
    library, store
):
    def step():
        transport = CapturedTransport(library.HTTPTransport())
        return whole_httpx(library, server.url, transport=transport)()

    async def astep():
        transport = AsyncCapturedTransport(library.AsyncHTTPTransport())
        return await whole_async(library, server.url, transport=transport)()

    for wanted in (step, astep):
        with ws.WireServer() as server:
            rw, run = recorded(wanted, store, cache="refresh")
            check_replay(rw, run, server)

            assert len(calls(run)) == server.count == 1


def test_an_explicit_transport_streams_and_works_without_the_patch(store, monkeypatch):
    capture_http.install()
    for library in (httpx, httpx2):
        original = library.HTTPTransport.handle_request.__wrapped__
        monkeypatch.setattr(library.HTTPTransport, "handle_request", original)

    def step():
        said = []
        for library in (httpx, httpx2):
            transport = CapturedTransport(library.HTTPTransport())
            with library.Client(transport=transport) as client:
                with client.stream("GET", server.url) as answer:
                    said += list(answer.iter_bytes())
        return said

    with ws.WireServer(then=ws.streamed("data: 1\n\n")) as server:
        monkeypatch.setattr("rewind_nb._bound.capture_http", lambda: None)
        rw, run = recorded(step, store)
        check_replay(rw, run, server)

        assert len(calls(run)) == 2


def test_an_sdk_on_httpx2_takes_the_explicit_transport(store):
    def step():
        import anthropic

        inner = anthropic.DefaultHttpxClient(transport=CapturedTransport(httpx2.HTTPTransport()))
        with anthropic.Anthropic(
            api_key="sk-ant-0123456789", base_url=server.url, http_client=inner
        ) as client:
            answer = client.messages.create(
                model="toy", max_tokens=9, messages=[{"role": "user", "content": "hi"}]
            )
            return answer.content[0].text

    with ws.WireServer(then=by_path) as server:
        rw, run = recorded(step, store)
        check_replay(rw, run, server)

        assert run.state["said"] == "plum"
        assert [c.kind for c in calls(run)] == ["model"]


def test_the_patch_is_put_on_once_from_any_thread():
    threads = [threading.Thread(target=capture_http.install) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    for owner, name in [
        (httpx.HTTPTransport, "handle_request"),
        (httpx2.AsyncHTTPTransport, "handle_async_request"),
        (requests.adapters.HTTPAdapter, "send"),
    ]:
        assert not hasattr(getattr(owner, name).__wrapped__, "__wrapped__")


@pytest.mark.thorough
def test_an_sdk_that_is_imported_in_the_middle_of_a_step_is_captured():
    script = """
import sys
sys.path.insert(0, "tests")
import wire_server as ws
from burr.core import ApplicationBuilder, action
from rewind_nb import Rewind

@action(reads=[], writes=["said"])
def ask(state):
    import mistralai.client, openai, requests
    with openai.OpenAI(api_key="sk-0123456789", base_url=server.url) as client:
        said = client.chat.completions.create(model="m", messages=[]).choices[0].message.content
    return state.update(said=[said, requests.get(server.url).status_code])

with ws.WireServer(then=ws.json_reply(ws.openai_chat())) as server:
    app = ApplicationBuilder().with_actions(ask).with_entrypoint("ask").build()
    rw = Rewind(app, store=":memory:")
    assert "openai" not in sys.modules
    run = rw.run(halt_after=["ask"])
    assert server.count == 2, server.count
    rw.replay(run).require()
    assert server.count == 2, server.count
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


def test_importing_the_package_loads_no_http_client():
    script = "import sys, rewind_nb; sys.exit(bool({'httpx2', 'requests'} & set(sys.modules)))"

    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
