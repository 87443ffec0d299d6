"""A request is captured at the client, whatever transport the client sends it through."""

import asyncio
import itertools

import httpx
import httpx2
import pytest
import wire_server as ws
from burr.core import ApplicationBuilder, State, action

from rewind_nb import CapturedTransport, Rewind, now
from rewind_nb.errors import CacheMissError

LIBRARIES = pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
ASKED = []


@pytest.fixture(autouse=True)
def nobody_asked():
    ASKED.clear()


def answering(library):
    def answer(request):
        ASKED.append(request.url.path)
        return library.Response(200, json={"n": len(ASKED)}, headers={"x-mock": "yes"})

    return answer


def app_of(step):
    if asyncio.iscoroutinefunction(step):

        @action(reads=[], writes=["said"])
        async def ask(state: State) -> State:
            return state.update(said=await step())

    else:

        @action(reads=[], writes=["said"])
        def ask(state: State) -> State:
            return state.update(said=step())

    return ApplicationBuilder().with_actions(ask).with_entrypoint("ask").build()


def recorded(step, store):
    """The run, which a replay gave again without any request."""
    rw = Rewind(app_of(step), store=store)
    run = rw.run()
    asked = list(ASKED)
    assert rw.replay(run).require()
    assert asked == ASKED
    return rw, run, [c for c in run["ask"].calls if c.kind in ("model", "http", "tool")]


@LIBRARIES
@pytest.mark.parametrize("kind", ["transport", "mount"])
def test_a_client_with_a_transport_of_its_own_is_captured(library, kind, store):
    given = {"transport": library.MockTransport(answering(library))}
    if kind == "mount":
        given = {"mounts": {"all://": given["transport"]}}

    def step():
        with library.Client(**given) as client:
            answer = client.post("http://mock.invalid/a", json={"q": 1})
            return [answer.json(), answer.headers["x-mock"], answer.elapsed.total_seconds() >= 0]

    _, run, calls = recorded(step, store)
    assert [(c.kind, c.source, c.request["body"]) for c in calls] == [("http", "live", {"q": 1})]
    assert run.state["said"] == [{"n": 1}, "yes", True]


@LIBRARIES
def test_an_async_client_with_a_transport_of_its_own_is_captured(library, store):
    async def step():
        mock = library.MockTransport(answering(library))
        async with library.AsyncClient(transport=mock) as client:
            one, two = await asyncio.gather(
                client.get("http://mock.invalid/1"), client.get("http://mock.invalid/2")
            )
            return [one.json(), two.json()]

    _, run, calls = recorded(step, store)
    assert (len(calls), len(ASKED), len(run.state["said"])) == (2, 2, 2)


@LIBRARIES
def test_an_application_in_this_process_is_captured_as_one_call(library, store):
    async def served(scope, receive, send):
        ASKED.append(scope["path"])
        now()  # of the server, not of the step
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"hello"})

    async def step():
        transport = library.ASGITransport(app=served)
        async with library.AsyncClient(transport=transport) as client:
            return (await client.get("http://app.invalid/")).text

    _, run, calls = recorded(step, store)
    assert (run.state["said"], [c.kind for c in calls]) == ("hello", ["http"])


@LIBRARIES
def test_a_retry_around_a_transport_is_one_call_with_the_answer_that_the_client_got(library, store):
    failing = iter([503, 200])

    def flaky(request):
        ASKED.append(request.url.path)
        return library.Response(next(failing), text="at last")

    class Retrying(library.BaseTransport):
        inner = library.MockTransport(flaky)

        def handle_request(self, request):
            while (answer := self.inner.handle_request(request)).status_code == 503:
                pass
            return answer

    def step():
        with library.Client(transport=Retrying()) as client:
            return client.get("http://mock.invalid/").text

    _, _, calls = recorded(step, store)
    assert ([c.kind for c in calls], len(ASKED)) == (["http"], 2)


@LIBRARIES
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_request_is_recorded_once_however_many_captured_transports_it_passes(
    library, wrapped, store
):
    def step():
        inner = library.HTTPTransport()
        transport = CapturedTransport(CapturedTransport(inner)) if wrapped else inner
        with library.Client(transport=transport) as client:
            return client.get(server.url).status_code

    with ws.WireServer() as server:
        _, run, calls = recorded(step, store)
        assert (len(calls), server.count, run["ask"].uncaptured) == (1, 1, ())


@LIBRARIES
def test_what_a_transport_raises_is_raised_again(library, store):
    def refuse(request):
        ASKED.append(request.url.path)
        raise library.ConnectError("nobody there")

    def step():
        with library.Client(transport=library.MockTransport(refuse)) as client:
            try:
                client.get("http://mock.invalid/")
            except library.ConnectError as error:
                return str(error)

    _, run, calls = recorded(step, store)
    assert run.state["said"] == "nobody there"
    assert [c.status for c in calls] == ["failed"]


@LIBRARIES
def test_a_replay_gives_no_transport_a_request_that_was_not_recorded(library, store):
    numbers = itertools.count(1)
    client = library.Client(transport=library.MockTransport(answering(library)))
    rw = Rewind(app_of(lambda: client.get(f"http://m.invalid/{next(numbers)}").json()), store=store)
    proof = rw.replay(rw.run())
    assert not proof.ok
    assert ASKED == ["/1"]
    assert client.get("http://m.invalid/outside").json() == {"n": 2}
    with pytest.raises(CacheMissError):
        rw.run(cache="replay")


@LIBRARIES
def test_a_streamed_answer_of_a_transport_of_ones_own_is_captured(library, store):
    class Slowly(library.SyncByteStream):
        def __iter__(self):
            yield from (b"one ", b"two")

    def pieces(request):
        ASKED.append(request.url.path)
        return library.Response(200, stream=Slowly())

    def step():
        client = library.Client(transport=library.MockTransport(pieces))
        with client.stream("GET", "http://mock.invalid/") as answer:
            return b"".join(answer.iter_bytes()).decode()

    _, run, calls = recorded(step, store)
    assert (run.state["said"], len(calls)) == ("one two", 1)
