"""The wire formats against the providers' own SDKs, over a real connection.

What an override gives is what the SDK parses, and what we read in an answer or a stream is
what the SDK reads in it.
"""

import json

import fake_provider as fp
import pytest
import wire_cases as cases
from wire_cases import FORMATS, wire

from rewind_nb.capture.wire import wire_for

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::pydantic.warnings.PydanticDeprecatedSince20"),
]

CHAT, RESPONSES, ANTHROPIC, GOOGLE = FORMATS
ASK = [{"role": "user", "content": "hi"}]


class Seen:
    """What an SDK made of an answer."""

    def __init__(self, text, finish, usage, calls=()):
        self.text, self.finish, self.usage, self.calls = text or "", finish, usage, list(calls)


def ours(reading):
    """A reading as `Seen` holds it: what the SDKs of the OpenAI family call things."""
    return {
        "text": reading.text,
        "finish": reading.finish_reason,
        "calls": [(call.name, call.arguments) for call in reading.tool_calls],
    }


def theirs(seen):
    return {"text": seen.text, "finish": seen.finish, "calls": seen.calls}


# -- the SDKs --------------------------------------------------------------------------
#
# Each function asks once and returns what the SDK says: whole, or streamed.


def chat_seen(client):
    return lambda: _chat(client.chat.completions.create(model="m", messages=ASK))


def _chat(completion):
    choice = completion.choices[0]
    calls = [
        (c.function.name, json.loads(c.function.arguments)) for c in choice.message.tool_calls or []
    ]
    usage = completion.usage and (
        completion.usage.prompt_tokens,
        completion.usage.completion_tokens,
    )
    return Seen(choice.message.content, choice.finish_reason, usage, calls)


def chat_streamed(client, **options):
    def ask():
        text, finish, usage, calls = "", None, None, {}
        with client.chat.completions.create(
            model="m", messages=ASK, stream=True, **options
        ) as chunks:
            for chunk in chunks:
                groq = getattr(getattr(chunk, "x_groq", None), "usage", None)
                usage = chunk.usage or groq or usage
                for choice in chunk.choices:
                    text += choice.delta.content or ""
                    finish = choice.finish_reason or finish
                    for call in choice.delta.tool_calls or []:
                        name, source = calls.get(call.index, ("", ""))
                        name = call.function.name or name
                        calls[call.index] = (name, source + (call.function.arguments or ""))
        counted = usage and (usage.prompt_tokens, usage.completion_tokens)
        return Seen(text, finish, counted, [(n, json.loads(a)) for n, a in calls.values()])

    return ask


@pytest.fixture
def openai_client():
    openai = pytest.importorskip("openai")
    with fp.FakeProvider() as provider:
        with openai.OpenAI(api_key="k", base_url=provider.base_url, max_retries=0) as client:
            client.provider = provider
            yield client


@pytest.fixture
def groq_client():
    groq = pytest.importorskip("groq")
    with fp.FakeProvider() as provider:
        with groq.Groq(api_key="k", base_url=provider.base_url, max_retries=0) as client:
            client.provider = provider
            yield client


@pytest.fixture
def mistral_client():
    mistralai = pytest.importorskip("mistralai.client")
    with fp.FakeProvider() as provider:
        server = provider.base_url.removesuffix("/v1")
        with mistralai.Mistral(api_key="k", server_url=server) as client:
            client.provider = provider
            yield client


@pytest.fixture
def anthropic_client():
    anthropic = pytest.importorskip("anthropic")
    with fp.FakeProvider() as provider:
        server = provider.base_url.removesuffix("/v1")
        with anthropic.Anthropic(api_key="k", base_url=server, max_retries=0) as client:
            client.provider = provider
            yield client


@pytest.fixture
def google_client():
    genai = pytest.importorskip("google.genai")
    with fp.FakeProvider() as provider:
        options = genai.types.HttpOptions(base_url=provider.base_url.removesuffix("/v1"))
        with genai.Client(api_key="google-key-1", http_options=options) as client:
            client.provider = provider
            yield client


def responses_seen(client):
    return lambda: _response(client.responses.create(model="m", input="hi"))


def responses_streamed(client):
    def ask():
        with client.responses.stream(model="m", input="hi") as events:
            return _response(events.get_final_response())

    return ask


def _response(response):
    calls = [
        (item.name, json.loads(item.arguments))
        for item in response.output
        if item.type == "function_call"
    ]
    usage = (response.usage.input_tokens, response.usage.output_tokens)
    return Seen(response.output_text, response.status, usage, calls)


def anthropic_seen(client):
    return lambda: _message(client.messages.create(model="m", max_tokens=9, messages=ASK))


def anthropic_streamed(client):
    def ask():
        with client.messages.stream(model="m", max_tokens=9, messages=ASK) as events:
            return _message(events.get_final_message())

    return ask


def _message(message):
    text = "".join(block.text for block in message.content if block.type == "text")
    calls = [(block.name, block.input) for block in message.content if block.type == "tool_use"]
    usage = message.usage
    asked = usage.input_tokens
    asked += (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
    return Seen(text, message.stop_reason, (asked, usage.output_tokens), calls)


def google_seen(client):
    return lambda: _content([client.models.generate_content(model="gemini-toy", contents="hi")])


def google_streamed(client):
    return lambda: _content(
        list(client.models.generate_content_stream(model="gemini-toy", contents="hi"))
    )


def _content(responses):
    text = "".join(r.text or "" for r in responses)
    calls = [(call.name, call.args) for r in responses for call in r.function_calls or []]
    usage = responses[-1].usage_metadata
    asked = usage.prompt_token_count + (usage.tool_use_prompt_token_count or 0)
    said = (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
    finish = responses[-1].candidates[0].finish_reason.value
    return Seen(text, finish, (asked, said), calls)


def mistral_seen(client):
    def ask():
        completion = client.chat.complete(model="m", messages=ASK)
        content = completion.choices[0].message.content
        usage = (completion.usage.prompt_tokens, completion.usage.completion_tokens)
        return Seen(content, completion.choices[0].finish_reason, usage)

    return ask


def mistral_streamed(client):
    def ask():
        text, finish, usage = "", None, None
        with client.chat.stream(model="m", messages=ASK) as events:
            for event in events:
                usage = event.data.usage or usage
                for choice in event.data.choices:
                    content = choice.delta.content
                    text += content if isinstance(content, str) else ""
                    finish = choice.finish_reason or finish
        counted = usage and (usage.prompt_tokens, usage.completion_tokens)
        return Seen(text, finish, counted)

    return ask


WHOLE = {
    "openai": (CHAT, "openai_client", chat_seen),
    "groq": (CHAT, "groq_client", chat_seen),
    "mistral": (CHAT, "mistral_client", mistral_seen),
    "responses": (RESPONSES, "openai_client", responses_seen),
    "anthropic": (ANTHROPIC, "anthropic_client", anthropic_seen),
    "google": (GOOGLE, "google_client", google_seen),
}
STREAMED = {
    "openai": (CHAT, "openai_client", chat_streamed),
    "groq": (CHAT, "groq_client", chat_streamed),
    "mistral": (CHAT, "mistral_client", mistral_streamed),
    "responses": (RESPONSES, "openai_client", responses_streamed),
    "anthropic": (ANTHROPIC, "anthropic_client", anthropic_streamed),
    "google": (GOOGLE, "google_client", google_streamed),
}


def url_of(seen):
    return f"http://127.0.0.1{seen.path}"


def answers(provider, name, make):
    """Let the provider answer the next request with what *make* makes of (url, body)."""

    def behave(seen):
        w = wire_for(seen.method, url_of(seen))
        assert w is wire(name)
        text = make(w, url_of(seen), seen.json)
        return fp.Answer(
            text.encode(), headers={"content-type": w.media_type(url_of(seen), seen.json)}
        )

    provider.play(behave)


@pytest.mark.parametrize("sdk", WHOLE)
@pytest.mark.parametrize("recorded", [False, True])
def test_the_sdk_parses_an_overridden_answer(sdk, recorded, request):
    name, fixture, make_ask = WHOLE[sdk]
    client = request.getfixturevalue(fixture)
    body = cases.answer(name) if recorded else None
    text = "New: \u2028 50 g – ça va."
    answers(client.provider, name, lambda w, u, b: json.dumps(w.answer(body, text, u, b)))

    seen = make_ask(client)()

    assert seen.text == text
    assert seen.calls == []
    assert seen.finish == wire(name).read(wire(name).answer(None, "x", "", {})).finish_reason
    usage = cases.ANSWERS[name].usage
    assert seen.usage == ((usage.input_tokens, usage.output_tokens) if recorded else (0, 0))


@pytest.mark.parametrize("sdk", STREAMED)
@pytest.mark.parametrize("recorded", [False, True])
def test_the_sdk_parses_an_overridden_stream(sdk, recorded, request):
    name, fixture, make_ask = STREAMED[sdk]
    client = request.getfixturevalue(fixture)
    stream = cases.stream(name) if recorded else None
    text = "New: \u2028 50 g – ça va."
    answers(client.provider, name, lambda w, u, b: w.stream_answer(stream, text, u, b))

    seen = make_ask(client)()

    assert seen.text == text
    assert seen.calls == []
    assert seen.finish == wire(name).read(wire(name).answer(None, "x", "", {})).finish_reason
    usage = cases.STREAMS[name].usage
    assert seen.usage == ((usage.input_tokens, usage.output_tokens) if recorded else (0, 0))


@pytest.mark.parametrize("sdk", STREAMED)
def test_the_sdk_parses_a_bare_body_as_a_stream(sdk, request):
    name, fixture, make_ask = STREAMED[sdk]
    client = request.getfixturevalue(fixture)
    answers(client.provider, name, lambda w, u, b: w.stream_answer(None, cases.BARE[name], u, b))

    seen = make_ask(client)()

    assert (seen.text, seen.calls) == ("x", [])
    assert seen.finish in ("stop", "completed", "end_turn", "STOP")


@pytest.mark.parametrize("sdk", [sdk for sdk in WHOLE if sdk != "mistral"])
def test_an_answer_is_read_as_the_sdk_reads_it(sdk, request):
    name, fixture, make_ask = WHOLE[sdk]
    client, reading = request.getfixturevalue(fixture), cases.ANSWERS[name]
    answers(client.provider, name, lambda *_: json.dumps(cases.answer(name)))

    seen = make_ask(client)()

    assert theirs(seen) == ours(reading)
    assert seen.usage == (reading.usage.input_tokens, reading.usage.output_tokens)


@pytest.mark.parametrize(
    ("sdk", "stream"),
    [
        ("openai", "openai-chat"),
        ("openai", "openai-chat-tools"),
        ("groq", "openai-chat-groq"),
        ("groq", "openai-chat-tools"),
        ("mistral", "openai-chat-mistral"),
        ("responses", "openai-responses"),
        ("anthropic", "anthropic-messages"),
        ("google", "google-generate-content"),
    ],
)
@pytest.mark.parametrize("rendered", [False, True])
def test_a_stream_is_read_as_the_sdk_reads_it(sdk, stream, rendered, request):
    """As recorded, and made again from the body it amounts to."""
    name, fixture, make_ask = STREAMED[sdk]
    client, reading = request.getfixturevalue(fixture), cases.STREAMS[stream]
    text = cases.stream(stream)

    def make(w, url, body):
        return w.stream_answer(None, w.whole(text), url, body) if rendered else text

    answers(client.provider, name, make)

    seen = make_ask(client)()

    assert theirs(seen) == ours(reading)
    counted = (reading.usage.input_tokens, reading.usage.output_tokens)
    assert seen.usage == (None if counted == (None, None) else counted)


def test_the_usage_of_an_overridden_stream_comes_where_the_caller_asked_for_it(openai_client):
    answers(openai_client.provider, CHAT, lambda w, u, b: w.stream_answer(None, "x", u, b))

    with openai_client.chat.completions.create(
        model="m", messages=ASK, stream=True, stream_options={"include_usage": True}
    ) as chunks:
        *said, last = chunks

    assert all(chunk.choices and chunk.usage is None for chunk in said)
    assert last.choices == []
    assert last.usage.total_tokens == 0


def test_the_helper_of_openai_builds_the_overridden_completion_from_its_chunks(openai_client):
    body = cases.answer(CHAT)
    answers(openai_client.provider, CHAT, lambda w, u, b: w.stream_answer(None, body, u, b))

    with openai_client.chat.completions.stream(model="m", messages=ASK) as events:
        completion = events.get_final_completion()

    assert theirs(_chat(completion)) == ours(cases.ANSWERS[CHAT])
    assert completion.system_fingerprint == "fp_toy1"


def test_the_pieces_of_an_overridden_response_add_up_to_it(openai_client):
    body = cases.answer(RESPONSES)
    answers(openai_client.provider, RESPONSES, lambda w, u, b: w.stream_answer(None, body, u, b))

    with openai_client.responses.stream(model="m", input="hi") as stream:
        events = list(stream)

    texts = [e for e in events if e.type == "response.output_text.delta"]
    sources = [e for e in events if e.type == "response.function_call_arguments.delta"]
    assert "".join(e.delta for e in texts) == texts[-1].snapshot == "Let me weigh it."
    assert "".join(e.delta for e in sources) == sources[-1].snapshot == '{"what":"pear"}'
    assert [e.sequence_number for e in events] == list(range(len(events)))


def test_a_stream_of_anthropic_ends_with_the_whole_message(anthropic_client):
    body = cases.answer(ANTHROPIC)
    answers(anthropic_client.provider, ANTHROPIC, lambda w, u, b: w.stream_answer(None, body, u, b))

    with anthropic_client.messages.stream(model="m", max_tokens=9, messages=ASK) as events:
        message = events.get_final_message()

    assert message.to_dict()["content"][0] == body["content"][0]  # the thought, signed
    assert theirs(_message(message)) == ours(cases.ANSWERS[ANTHROPIC])


@pytest.mark.parametrize("sdk", WHOLE)
def test_a_request_of_the_sdk_is_understood_and_changed(sdk, request):
    name, fixture, make_ask = WHOLE[sdk]
    client = request.getfixturevalue(fixture)
    answers(client.provider, name, lambda w, u, b: json.dumps(w.answer(None, "x", u, b)))

    make_ask(client)()

    (seen,) = client.provider.requests
    w, url, body = wire(name), url_of(seen), seen.json
    assert w.model(url, body) == ("gemini-toy" if sdk == "google" else "m")
    assert w.part("prompt", url, body) == "hi"
    w.check("messages", w.part("messages", url, body), url, body)
    assert not w.wants_stream(url, body)
    url, body = w.changed("model", "other", *w.changed("prompt", "ho", url, body))
    assert (w.model(url, body), w.part("prompt", url, body)) == ("other", "ho")
