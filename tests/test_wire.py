"""The wire formats: what requests ask, what answers say, and what overrides make of both."""

import ast
import copy
import json
import math
from pathlib import Path

import pytest
import wire_cases as cases
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_cases import FORMATS, STREAM_URLS, URLS, wire

import rewind_nb.capture.wire
from rewind_nb._model import Usage
from rewind_nb.capture.wire import WIRES, named, wire_for
from rewind_nb.capture.wire._sse import DONE, encode, events, payloads
from rewind_nb.errors import OverrideError

SEVERAL = settings(max_examples=40, deadline=None)
TEXTS = st.text().filter(lambda text: text.strip())
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


# -- which format ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://api.openai.com/v1/chat/completions", "openai-chat"),
        ("https://api.groq.com/openai/v1/chat/completions", "openai-chat"),
        ("https://api.mistral.ai/v1/chat/completions#stream", "openai-chat"),
        ("http://localhost:11434/v1/chat/completions", "openai-chat"),
        ("https://x.azure.com/openai/deployments/d/chat/completions?api-version=1", "openai-chat"),
        ("https://api.openai.com/v1/responses", "openai-responses"),
        ("https://x.azure.com/openai/responses?api-version=1", "openai-responses"),
        ("https://api.openai.com/v1/responses/resp_1/cancel", None),
        ("https://api.anthropic.com/v1/messages?beta=true", "anthropic-messages"),
        ("https://api.anthropic.com/v1/messages/count_tokens", None),
        ("https://api.openai.com/v1/threads/thread_1/messages", None),
        ("https://g.com/v1beta/models/gemini-2:generateContent", "google-generate-content"),
        ("https://g.com/v1/tunedModels/t:streamGenerateContent?alt=sse", "google-generate-content"),
        (
            "https://v.com/v1/projects/p/locations/l/publishers/google/models/m:generateContent",
            "google-generate-content",
        ),
        ("https://g.com/v1beta/models/gemini-2:countTokens", None),
        ("https://g.com/v1beta/models/gemini-2:generateContents", None),
        ("https://g.com/v1beta/models/gemini-2:batchGenerateContent", None),
        ("https://example.com/?next=/v1/chat/completions", None),
    ],
)
def test_a_format_is_chosen_by_the_path_of_a_post(url, name):
    assert wire_for("POST", url) is (named(name) if name else None)
    assert wire_for("GET", url) is None


def test_every_format_has_a_name_of_its_own():
    assert [w.name for w in WIRES] == FORMATS
    assert [named(name).name for name in FORMATS] == FORMATS
    assert named("smoke-signals") is None


# -- requests --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "model", "temperature", "seed"),
    [
        ("openai-chat", "gpt-toy", 0.2, 7),
        ("openai-responses", "gpt-toy", 1.0, None),
        ("anthropic-messages", "claude-toy", 0.5, None),
        ("google-generate-content", "gemini-toy", 0.2, 3),
    ],
)
def test_a_request_says_what_it_asks(name, model, temperature, seed):
    body, url = cases.request(name), URLS[name]

    assert wire(name).model(url, body) == model
    assert wire(name).temperature(url, body) == temperature
    assert wire(name).seed(url, body) == seed
    assert not wire(name).wants_stream(url, body)
    assert wire(name).media_type(url, body) == "application/json"


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("body", [None, "text", [], {}, {"model": 3, "temperature": True}])
def test_a_body_that_is_no_request_asks_nothing(name, body):
    w = wire(name)

    assert w.model("https://example.com", body) is None
    assert w.temperature(URLS[name], body) is None
    assert w.seed(URLS[name], body) is None
    assert not w.wants_stream(URLS[name], body)
    with pytest.raises(OverrideError, match="prompt="):
        w.part("prompt", URLS[name], body)


@pytest.mark.parametrize("name", FORMATS)
def test_a_stream_is_asked_for_in_the_body_or_in_googles_url(name):
    body = cases.request(name) | {"stream": True}

    assert wire(name).wants_stream(STREAM_URLS[name], body)
    assert wire(name).media_type(STREAM_URLS[name], body) == "text/event-stream"


def test_google_streams_an_array_where_no_events_are_asked_for():
    url = STREAM_URLS["google-generate-content"].removesuffix("?alt=sse")

    assert wire("google-generate-content").wants_stream(url, {})
    assert wire("google-generate-content").media_type(url, {}) == "application/json"


def test_mistrals_seed_is_read_under_its_own_name():
    assert wire("openai-chat").seed("", {"random_seed": 4}) == 4


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        ("openai-chat", "And this one? Be brief."),
        ("openai-responses", "And this one?"),
        ("anthropic-messages", "What does this weigh?"),  # behind it: a result of a tool
        ("google-generate-content", "What does this weigh?"),
    ],
)
def test_the_prompt_is_the_text_of_the_last_message_that_a_user_wrote(name, prompt):
    assert wire(name).part("prompt", URLS[name], cases.request(name)) == prompt


def test_a_single_content_of_google_is_the_users_without_saying_so():
    body = {"contents": [{"parts": [{"text": "hi"}]}]}

    assert wire("google-generate-content").part("prompt", "", body) == "hi"


@pytest.mark.parametrize("name", FORMATS)
def test_a_request_without_a_user_has_no_prompt_to_replace(name):
    body = {wire(name).messages_field: [{"role": "assistant", "content": "x", "parts": []}]}

    for call in (wire(name).part, wire(name).check):
        arguments = ("prompt", "x", URLS[name], body)
        with pytest.raises(OverrideError, match="this request has none. Use messages="):
            call(*(arguments if call == wire(name).check else ("prompt", URLS[name], body)))


def test_the_short_input_of_responses_is_one_message_of_the_user():
    w, url, body = wire("openai-responses"), URLS["openai-responses"], {"input": "hi"}

    assert w.part("messages", url, body) == [{"role": "user", "content": "hi"}]
    assert w.changed("prompt", "ho", url, body) == (url, {"input": "ho"})
    same = w.changed("messages", [{"role": "user", "content": "hi"}], url, body)
    assert same == (url, body)


# -- overrides of requests -------------------------------------------------------------

KINDS = {
    "prompt": st.text(),
    "model": st.text(min_size=1).filter(lambda name: "/" not in name),
    "temperature": st.floats(0, 2) | st.integers(0, 2),
    "messages": st.lists(st.dictionaries(st.text(), ANY_JSON, max_size=2), max_size=3),
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", KINDS)
@SEVERAL
@given(data=st.data())
def test_an_override_is_what_the_changed_request_holds_and_the_recorded_one_stays(name, kind, data):
    value = data.draw(KINDS[kind])
    w, url, body = wire(name), URLS[name], cases.request(name)

    changed_url, changed = w.changed(kind, value, url, body)

    assert w.part(kind, changed_url, changed) == value
    assert body == cases.request(name)
    if isinstance(value, list):
        value.append({"later": 1})  # nor is the value shared
        assert w.part(kind, changed_url, changed) == value[:-1]
    for other in {"prompt", "model", "temperature", "messages"} - {kind, *TOUCHES.get(kind, ())}:
        assert w.part(other, changed_url, changed) == w.part(other, url, body)
    back = w.changed(kind, w.part(kind, url, body), changed_url, changed)
    assert back == (url, body) or kind == "prompt"  # texts around an image are one text now


TOUCHES = {"prompt": ["messages"], "messages": ["prompt"]}


@pytest.mark.parametrize("name", FORMATS)
@SEVERAL
@given(value=st.text())
def test_a_prompt_replaces_the_texts_of_its_message_and_nothing_else(name, value):
    w, url, body = wire(name), URLS[name], cases.request(name)

    _, changed = w.changed("prompt", value, url, body)

    def others(request):
        parts = [m.get("parts", m.get("content")) for m in w.part("messages", url, request)]
        return [[p for p in ps if not w.is_text(p)] if isinstance(ps, list) else ps for ps in parts]

    assert others(changed) == others(body)
    field = w.messages_field
    assert {**changed, field: None} == {**body, field: None}


def test_what_was_set_on_a_text_part_stays_with_the_new_text():
    w, url = wire("anthropic-messages"), URLS["anthropic-messages"]

    _, changed = w.changed("prompt", "Which?", url, cases.request("anthropic-messages"))

    text, image = changed["messages"][0]["content"]
    assert text == {"type": "text", "text": "Which?", "cache_control": {"type": "ephemeral"}}
    assert image["type"] == "image"


@pytest.mark.parametrize("name", FORMATS)
def test_a_message_without_text_gets_one(name):
    w, url = wire(name), URLS[name]
    image = {"type": "image", "inlineData": {}}
    message = {"role": "user", w.shape.field: [image]}

    _, changed = w.changed("prompt", "What is this?", url, {w.messages_field: [message]})

    assert w.part("prompt", url, changed) == "What is this?"
    assert changed[w.messages_field][0][w.shape.field][1] == image


@pytest.mark.parametrize("name", FORMATS)
@SEVERAL
@given(data=st.data())
def test_a_part_that_equals_the_recorded_one_changes_nothing(name, data):
    w, url, body = wire(name), URLS[name], cases.request(name)
    kind = data.draw(st.sampled_from(sorted(KINDS)))

    assert w.changed(kind, w.part(kind, url, body), url, body) == (url, body)


def test_true_is_not_one_where_a_part_is_compared():
    body = {"messages": [{"role": "user", "content": 1}]}

    _, changed = wire("openai-chat").changed(
        "messages", [{"role": "user", "content": True}], "", body
    )

    assert changed["messages"][0]["content"] is True


@pytest.mark.parametrize("name", FORMATS)
def test_zero_is_the_same_temperature_however_it_is_written(name):
    w, url = wire(name), URLS[name]
    _, cold = w.changed("temperature", 0, url, cases.request(name))

    _, again = w.changed("temperature", 0.0, url, cold)

    assert json.dumps(again) == json.dumps(cold)


@pytest.mark.parametrize("name", FORMATS)
@SEVERAL
@given(params=st.dictionaries(st.text(), ANY_JSON, max_size=4))
def test_params_are_merged_into_the_body_and_none_removes(name, params):
    w, url, body = wire(name), URLS[name], cases.request(name)

    changed_url, changed = w.changed("params", params, url, body)

    expected = {k: v for k, v in (body | params).items() if k not in params or v is not None}
    assert (changed_url, changed) == (url, expected)
    assert body == cases.request(name)
    assert w.part("params", url, body) == body


@pytest.mark.parametrize(
    ("url", "changed"),
    [
        (
            "https://g.com/v1beta/models/old:streamGenerateContent?alt=sse&models/old:x=1#f",
            "https://g.com/v1beta/models/new:streamGenerateContent?alt=sse&models/old:x=1#f",
        ),
        (
            "https://v.com/v1/projects/models/publishers/g/models/old:generateContent",
            "https://v.com/v1/projects/models/publishers/g/models/new:generateContent",
        ),
    ],
)
def test_the_model_of_google_is_replaced_in_the_url_alone(url, changed):
    w, body = wire("google-generate-content"), {"contents": []}

    assert w.changed("model", "new", url, body) == (changed, body)
    assert w.model(changed, body) == "new"


def test_the_model_of_azure_is_the_deployment_in_the_path():
    w, url = wire("openai-chat"), "https://x.com/openai/deployments/my%20one/chat/completions?v=1"
    body = {"model": "gpt-toy", "messages": []}

    assert w.model(url, body) == "my one"
    new_url, new = w.changed("model", "a/b", url, body)
    assert new_url == "https://x.com/openai/deployments/a%2Fb/chat/completions?v=1"
    assert new == {"model": "a/b", "messages": []}
    assert w.changed("model", "a", url, {"messages": []})[1] == {"messages": []}


@pytest.mark.parametrize("field", ["generationConfig", "generation_config"])
def test_the_temperature_of_google_goes_where_its_settings_are(field):
    w, url = wire("google-generate-content"), URLS["google-generate-content"]

    _, changed = w.changed("temperature", 1, url, {field: {"seed": 3}})
    assert changed == {field: {"seed": 3, "temperature": 1}}
    _, changed = w.changed("temperature", 1, url, {"contents": []})
    assert changed == {"contents": [], "generationConfig": {"temperature": 1}}


# -- what is refused -------------------------------------------------------------------

ANSWER_FIELDS = ("choices", "output", "content", "candidates")
REFUSED = [
    ("prompt", 3, "prompt= takes the text of the last user message, a str; it got 3 (int)."),
    ("prompt", "\ud800", "prompt= cannot be sent as JSON: it holds a lone surrogate, which is no"),
    ("model", "", "model= takes the name of a model, a str; it got '' (str)."),
    ("model", " \n", "it got ' \\n' (str)."),
    ("model", None, "it got None (NoneType)."),
    ("temperature", "hot", "temperature= takes a finite number, 0 or more; it got 'hot' (str)."),
    ("temperature", True, "it got True (bool)."),
    ("temperature", -1, "it got -1 (int)."),
    ("temperature", math.nan, "it got nan (float)."),
    ("temperature", math.inf, "it got inf (float)."),
    ("params", [1], "params= takes a dict of request fields by name, at least one (None removes"),
    ("params", {}, "it got {} (dict)."),
    ("params", {1: 2}, "it got {1: 2} (dict)."),
    ("params", {"x": b"y"}, "params= cannot be sent as JSON: Object of type bytes is not JSON"),
    ("params", {"x": [math.nan]}, "params= cannot be sent as JSON: it holds NaN or an infinity."),
    ("params", {"stream": True}, "params= cannot ask for a stream: the caller reads a whole ans"),
    ("params", {"stream": True}, "Leave 'stream' out."),
    ("messages", [], "messages= takes a list of messages with at least one; it got [] (list)."),
    ("messages", "hi", "it got 'hi' (str)."),
    ("messages", ({"role": "user"},), "it got ({'role': 'user'},) (tuple)."),
    ("messages", ["hi"], "messages[0] is of type str: a message is a dict with 'role' and '"),
    ("response", 3, "response= takes the text of the answer (a str; for JSON, json.dumps(...)) or"),
    ("response", {"no": "answer"}, "'; it got {'no': 'answer'} (dict)."),
    ("response", dict.fromkeys(ANSWER_FIELDS, 1), "response= has 1 (int) as its '"),
    ("response", dict.fromkeys(ANSWER_FIELDS, [1]), "Give it a list of dicts, as the provider"),
    ("response", dict.fromkeys(ANSWER_FIELDS, [math.inf]), "it holds NaN or an infinity."),
    ("response", "\ud800", "response= cannot be sent as JSON: it holds a lone surrogate"),
]


def refusal(name, kind, value, **fields):
    """The error of a check of an override, for a request with these fields besides its own."""
    with pytest.raises(OverrideError) as caught:
        wire(name).check(kind, value, URLS[name], cases.request(name) | fields)
    assert caught.value.override == kind
    return str(caught.value)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(("kind", "value", "said"), REFUSED)
def test_an_override_is_checked_before_anything_is_sent(name, kind, value, said):
    assert said in refusal(name, kind, value)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("prompt", "x"),
        ("model", "other"),
        ("temperature", 0),
        ("params", {"max_tokens": 5, "stop": None, "stream": False}),
        ("response", "text"),
    ],
)
def test_an_override_that_a_provider_takes_passes(name, kind, value):
    wire(name).check(kind, value, URLS[name], cases.request(name))


@pytest.mark.parametrize("name", FORMATS)
def test_recorded_messages_and_a_recorded_answer_pass(name):
    body = cases.request(name)
    field = wire(name).messages_field

    wire(name).check("messages", wire(name).part("messages", URLS[name], body), URLS[name], body)
    wire(name).check("params", {field: body[field]}, URLS[name], body)
    wire(name).check("response", cases.answer(name), URLS[name], body)


@pytest.mark.parametrize("name", FORMATS)
def test_params_cannot_remove_what_every_request_has(name):
    for field in wire(name).required:
        said = refusal(name, "params", {field: None})
        assert said == f"params= cannot remove {field!r}: every request has it."


@pytest.mark.parametrize("name", FORMATS)
def test_messages_in_params_are_named_as_the_request_names_them(name):
    field = wire(name).messages_field

    assert refusal(name, "params", {field: [{"role": "bot"}]}).startswith(
        f"{field}[0] has the role"
    )
    said = refusal(name, "params", {field: []})
    assert said.startswith(f"{field!r} in params= takes a list of messages with at least one; it")


@pytest.mark.parametrize(
    ("name", "params", "said"),
    [
        (name, params, said)
        for name in ("openai-chat", "openai-responses", "anthropic-messages")
        for params, said in [
            ({"temperature": "hot"}, "'temperature' in params= takes a finite number, 0 or more;"),
            ({"temperature": math.nan}, "it got nan (float)."),
            ({"model": " "}, "'model' in params= takes the name of a model, a str; it got ' '"),
        ]
    ]
    + [
        (
            "google-generate-content",
            {"generationConfig": {"temperature": -1}},
            "'temperature' in params= takes a finite number, 0 or more; it got -1 (int).",
        ),
        (
            "google-generate-content",
            {"temperature": 0.5},
            "params= cannot replace 'temperature': here it is inside 'generationConfig'. Use",
        ),
    ],
)
def test_a_field_in_params_is_held_to_what_an_override_of_its_own_is(name, params, said):
    assert said in refusal(name, "params", params)


def test_params_cannot_turn_off_a_stream_that_the_caller_reads():
    body = cases.request("openai-chat") | {"stream": True}

    wire("openai-chat").check("params", {"stream": True}, "", body)
    for off in (False, None):
        with pytest.raises(OverrideError, match="cannot turn the stream off"):
            wire("openai-chat").check("params", {"stream": off}, "", body)


def test_params_cannot_name_a_model_that_the_url_names():
    azure = "https://x.com/openai/deployments/d/chat/completions"
    for name, url in (("openai-chat", azure), ("google-generate-content", None)):
        with pytest.raises(OverrideError, match=r"part of the URL\. Use model="):
            wire(name).check("params", {"model": "x"}, url or URLS[name], cases.request(name))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("models/gemini-2", "it got 'models/gemini-2' (str). Use 'gemini-2'."),
        ("/", "model= takes the last part of a Google model's name; it got '/' (str)."),
    ],
)
def test_the_model_of_google_is_the_last_part_of_its_name(model, said):
    assert refusal("google-generate-content", "model", model).endswith(said)


def test_a_body_that_is_no_object_takes_no_override():
    with pytest.raises(OverrideError, match="model= has nothing to replace. Use response="):
        wire("openai-chat").check("model", "x", "", b"binary")


# -- roles and content of messages -----------------------------------------------------

CHAT, RESPONSES, ANTHROPIC, GOOGLE = FORMATS
USER = {"role": "user", "content": "Weigh it."}
SAID = {"role": "assistant", "content": "120 g"}


def message(name, role, content="x"):
    """A message of this role in the format."""
    return {
        "role": role,
        wire(name).shape.field: [{"text": content}] if name == GOOGLE else content,
    }


@pytest.mark.parametrize("name", FORMATS)
def test_a_message_of_every_role_of_the_format_passes(name):
    roles = [role for role in wire(name).shape.roles if role != "tool"]
    messages = [message(name, role) for role in roles]

    wire(name).check("messages", messages, URLS[name], cases.request(name))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("role", "said"),
    [
        ("usr", "messages[1] has the role 'usr', which this format does not have. The roles are "),
        ("usr", "Did you mean 'user'?"),
        ("User", "messages[1] has the role 'User'"),
        (["user"], "messages[1] has the role ['user']"),
        ("x" * 99, "x..., which this format does not have."),
    ],
)
def test_a_role_that_the_format_does_not_have_is_refused_with_those_it_has(name, role, said):
    messages = [message(name, "user"), message(name, role)]

    text = refusal(name, "messages", messages)
    assert said in text
    assert ", ".join(map(repr, wire(name).shape.roles)) in text


@pytest.mark.parametrize(
    ("name", "role", "said"),
    [
        (CHAT, "model", "What the model said has the role 'assistant'."),
        (RESPONSES, "tool", "an item of the type 'function_call_output'."),
        (ANTHROPIC, "tool", "of the type 'tool_result' in a message of the role 'user'."),
        (ANTHROPIC, "developer", "goes into the request's 'system'."),
        (GOOGLE, "assistant", "What the model said has the role 'model'."),
        (GOOGLE, "system", "goes into the request's 'systemInstruction'."),
    ],
)
def test_a_role_of_another_format_is_refused_with_where_its_text_goes_here(name, role, said):
    assert said in refusal(name, "messages", [message(name, role)])


@pytest.mark.parametrize("name", [CHAT, RESPONSES, ANTHROPIC])
def test_a_message_without_a_role_is_refused_with_those_there_are(name):
    said = refusal(name, "messages", [USER, {"content": "x"}])

    assert said.startswith("messages[1] has no 'role'. The roles are ")
    assert said.endswith("'function_call_output'.") == (name == RESPONSES)
    unsaid = refusal(name, "messages", [USER, {"role": None, "content": "x"}])
    assert unsaid.startswith("messages[1] has the role None, which this format does not have.")


@pytest.mark.parametrize(
    ("name", "wrong", "said"),
    [
        *(
            (name, wrong, said)
            for name in (CHAT, RESPONSES, ANTHROPIC)
            for wrong, said in [
                ({"role": "user"}, "messages[0] (user) has no 'content'. Give it a text or a list"),
                ({"role": "user", "content": 5}, "messages[0] (user) has 5 (int) as its 'content'."),
                ({"role": "assistant", "content": {"a": 1}}, "has {'a': 1} (dict) as its 'content'."),
                ({"role": "user", "content": [{}, None]}, "messages[0].content[1] is None (NoneType)"),
            ]
        ),
        (CHAT, {"role": "user", "content": [3]}, "3 (int): a part of a message is a text or a dict."),
        (ANTHROPIC, {"role": "user", "content": ["x"]}, "'x' (str): a part of a message is a dict."),
        (ANTHROPIC, {"role": "assistant"}, "messages[0] (assistant) has no 'content'."),
        (GOOGLE, {"role": "user"}, "has no 'parts'. Give it a list of parts, such as [{'text': ..."),
        (GOOGLE, {"parts": "text"}, "messages[0] has 'text' (str) as its 'parts'."),
        (GOOGLE, {"role": "user", "parts": ["x"]}, "messages[0].parts[0] is 'x' (str): a part of"),
    ],
)  # fmt: skip
def test_content_that_is_none_is_refused_with_what_it_may_be(name, wrong, said):
    assert said in refusal(name, "messages", [wrong])


def test_what_calls_tools_needs_no_content_in_a_chat():
    silent = [{"role": "assistant", "tool_calls": None}, {"role": "function", "content": None}]
    bare = {"role": "user", "content": [{"type": "image"}, "x"]}

    wire(CHAT).check("messages", [*silent, bare], URLS[CHAT], cases.request(CHAT))


FIELDS = ["role", "content", "parts", "type", "call_id", "tool_calls", "tool_call_id", "id"]
FIELDS += ["tool_use_id", "functionCall", "functionResponse", "name", "async"]
WORDS = ["user", "assistant", "tool", "model", "tool_use", "tool_result", "function_call", "a"]
LIKE_MESSAGES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=100, deadline=None)
@given(messages=LIKE_MESSAGES | st.lists(LIKE_MESSAGES, min_size=1, max_size=4) | ANY_JSON)
def test_messages_are_taken_or_refused_by_place_whatever_they_are(name, messages):
    for kind, value in [("messages", messages), ("params", {wire(name).messages_field: messages})]:
        refused = error_of(name, kind, value)
        if refused is not None:
            assert refused.override == kind
            assert str(refused).startswith(getattr(refused, "place", (f"{kind}=", "'")))


def error_of(name, kind, value):
    """Why a check refuses an override, None where it does not."""
    try:
        wire(name).check(kind, value, URLS[name], cases.request(name))
    except OverrideError as error:
        return error
    return None


# -- calls of tools and their results --------------------------------------------------


def calls(*ids):
    return {"role": "assistant", "content": None, "tool_calls": [{"id": i} for i in ids]}


def result(call_id):
    return {"role": "tool", "tool_call_id": call_id, "content": "120"}


def item(kind, id_, **more):
    return {"type": kind, "call_id": id_, **more}


def blocks(role, *inner):
    return {"role": role, "content": list(inner)}


def use(id_):
    return {"type": "tool_use", "id": id_, "name": "weigh", "input": {}}


def used(id_):
    return {"type": "tool_result", "tool_use_id": id_, "content": "120"}


def uses(*ids):
    return blocks("assistant", *map(use, ids))


def results(*ids, role="user"):
    """Results of these calls, and a text behind them."""
    return blocks(role, *map(used, ids), SAY)


def parts(role, *inner):
    return {"role": role, "parts": list(inner)}


def call(name, id_=None):
    return {"functionCall": {"name": name, "args": {}} | ({"id": id_} if id_ else {})}


def called(name, id_=None):
    return {"functionResponse": {"name": name, "response": {}} | ({"id": id_} if id_ else {})}


SAY = {"type": "text", "text": "and?"}
LATER = {"async": True}
G_USER = parts("user", {"text": "x"})

PAIRED = [
    (CHAT, [USER, calls("a"), result("a"), SAID]),
    (CHAT, [USER, calls("a", "b"), result("b"), result("a"), USER]),
    (CHAT, [calls("a"), result("a"), calls("a"), result("a"), SAID]),
    (CHAT, [{**SAID, "tool_calls": None}, {**SAID, "tool_calls": []}]),
    (CHAT, [calls("a"), result("a"), {"role": "assistant", "content": [use("b")]}, results("b")]),
    (RESPONSES, [item("function_call", "a"), USER, item("function_call_output", "a")]),
    (RESPONSES, [item("custom_tool_call", "a"), item("custom_tool_call_output", "a")]),
    (RESPONSES, [item("function_call", "a", **LATER), USER]),
    (RESPONSES, [item("function_call", "a", **LATER), USER, item("function_call_output", "a")]),
    (RESPONSES, [{"type": "item_reference", "id": "fc"}, item("function_call_output", "a")]),
    (RESPONSES, [{"type": "item_reference", "id": "x"}, item("function_call", "a"), item("function_call_output", "a")]),
    (RESPONSES, [item("web_search_call", "a"), USER]),
    (ANTHROPIC, [USER, blocks("assistant", SAY, use("a"), use("b")), results("b", "a"), SAID]),
    (ANTHROPIC, [uses("a"), blocks("user", used("a")), USER]),
    (ANTHROPIC, [uses("a", "b"), blocks("user", used("a")), results("b"), SAID]),
    (ANTHROPIC, [uses("a"), uses("b"), results("a", "b")]),
    (ANTHROPIC, [blocks("assistant", {"type": "server_tool_use", "id": "s"}), USER]),
    (GOOGLE, [G_USER, parts("model", call("f"), call("g")), parts("user", called("g"), called("f"))]),
    (GOOGLE, [parts("model", call("f", "1"), call("f", "2")), parts("function", called("f", "2"), called("f", "1"))]),
    (GOOGLE, [parts("model", call("f")), parts("model", call("g")), parts("user", called("f"), called("g"))]),
    (GOOGLE, [parts("model", call("f", "1")), parts("user", called("f"))]),
    (GOOGLE, [parts("model", call("f")), {"parts": [called("f")]}]),
    (GOOGLE, [{"parts": [{"text": "a single content needs no role"}]}]),
    (GOOGLE, [parts("model", {"function_call": {"name": "f"}}), parts("user", {"function_response": {"name": "f"}})]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "messages"), PAIRED)
def test_messages_whose_tool_results_pair_with_the_calls_pass(name, messages):
    wire(name).check("messages", messages, URLS[name], cases.request(name))


UNPAIRED = [
    # a result without its call
    (CHAT, [USER, result("a")], "messages[1] is the result of tool call 'a', which no message before it made."),
    (CHAT, [USER, result("a")], "No tool call waits for a result there."),
    (CHAT, [calls("call_1"), result("call1")], "before it made. Did you mean 'call_1'?"),
    (CHAT, [calls("a", "b"), result("c")], "before it made. Those that wait for one: 'a', 'b'."),
    (CHAT, [result("a"), calls("a")], "messages[0] is the result of tool call 'a', which no message"),
    (CHAT, [calls("a"), result("a"), result("a")], "messages[2] is the result of tool call 'a', which messages[1] answered already. Take one of the two away."),
    (RESPONSES, [item("function_call_output", "a")], "messages[0] is the result of tool call 'a', which no message"),
    (RESPONSES, [item("function_call_output", "a"), item("function_call", "a")], "messages[0] is the result"),
    (RESPONSES, [item("function_call", "fc_1"), item("function_call_output", "fc1")], "Did you mean 'fc_1'?"),
    (RESPONSES, [item("function_call", "a"), *[item("function_call_output", "a")] * 2], "messages[2] is the result of tool call 'a', which messages[1] answered already."),
    (ANTHROPIC, [USER, results("a")], "messages[1].content[0] is the result of tool call 'a', which no message before it"),
    (ANTHROPIC, [uses("toolu_1"), results("toolu1")], "Did you mean 'toolu_1'?"),
    (ANTHROPIC, [uses("a"), results("a", "a")], "messages[1].content[1] is the result of tool call 'a', which messages[1].content[0] answered already."),
    (ANTHROPIC, [uses("a"), results("a"), SAID, results("a")], "messages[3].content[0] is the result of tool call 'a', which messages[1].content[0] answered already."),
    (GOOGLE, [parts("user", called("f"))], "messages[0].parts[0] is the result of tool call 'f', which no message"),
    (GOOGLE, [parts("model", call("weigh")), parts("user", called("wegh"))], "Did you mean 'weigh'?"),
    (GOOGLE, [parts("model", call("f", "1")), parts("user", called("f", "2"))], "tool call '2', which no message before it made. Those that wait for one: '1'."),
    (GOOGLE, [parts("model", call("f")), parts("user", called("f"), called("f"))], "messages[1].parts[1] is the result of tool call 'f', which messages[1].parts[0] answered"),
    # a call without its result
    (CHAT, [USER, calls("a"), USER], "messages[1].tool_calls[0] is tool call 'a', and there is no result of it before messages[2]. Providers refuse such a list: add the message of the role 'tool' with its result, or take the call away."),
    (CHAT, [calls("a")], "before the end of the list."),
    (CHAT, [calls("a"), USER, result("a")], "there is no result of it before messages[1]."),
    (CHAT, [calls("a", "b"), result("a")], "messages[0].tool_calls[1] is tool call 'b', and there is no result of it before the end of the list."),
    (CHAT, [calls("a", "b"), result("a"), USER], "messages[0].tool_calls[1] is tool call 'b', and there is no result of it before messages[2]."),
    (CHAT, [calls("a"), calls("b"), result("a"), result("b")], "messages[0].tool_calls[0] is tool call 'a', and there is no result of it before messages[1]."),
    (RESPONSES, [item("function_call", "a"), USER], "messages[0] is tool call 'a', and there is no result of it before the end of the list. Providers refuse such a list: add the item of its output, with the same 'call_id', or"),
    (ANTHROPIC, [uses("a"), USER], "messages[0].content[0] is tool call 'a', and there is no result of it before messages[1]. Providers refuse such a list: add its 'tool_result' to the message after it, or"),
    (ANTHROPIC, [uses("a")], "before the end of the list."),
    (ANTHROPIC, [uses("a", "b"), results("b"), SAID], "messages[0].content[0] is tool call 'a', and there is no result of it before messages[2]."),
    (ANTHROPIC, [uses("a"), {"role": "system", "content": "x"}, results("a")], "before messages[1]."),
    (GOOGLE, [parts("model", call("f")), G_USER], "messages[0].parts[0] is tool call 'f', and there is no result of it before messages[1]. Providers refuse such a list: add its 'functionResponse' to the message after it, or"),
    (GOOGLE, [parts("model", call("f"))], "before the end of the list."),
    (GOOGLE, [parts("model", call("f"), call("f")), parts("user", called("f"))], "messages[0].parts[1] is tool call 'f'"),
    # an order that no provider takes
    (ANTHROPIC, [uses("a"), blocks("user", SAY, used("a"))], "messages[1].content[1] is the result of tool call 'a', behind other content (messages[1].content[0]). Tool results come first"),
    (ANTHROPIC, [uses("a"), USER, results("a")], "messages[2].content[0] is the result of tool call 'a', behind other content (messages[1])."),
    (ANTHROPIC, [uses("a", "b"), results("a"), results("b")], "messages[2].content[0] is the result of tool call 'b', behind other content (messages[1].content[1])."),
    # ids
    (CHAT, [calls("a", "a"), result("a")], "messages[0].tool_calls[1] has the id 'a' of messages[0].tool_calls[0] again. Give it its own."),
    (RESPONSES, [item("function_call", "a"), item("function_call", "a")], "messages[1] has the id 'a' of messages[0] again."),
    (ANTHROPIC, [uses("a", "a"), results("a")], "messages[0].content[1] has the id 'a' of messages[0].content[0] again."),
    (CHAT, [calls(None)], "messages[0].tool_calls[0] is a tool call without 'id', by which call and result find each other. Give both the same text."),
    (CHAT, [calls("")], "tool call without 'id' (it has '' (str)), by which"),
    (CHAT, [calls(5)], "tool call without 'id' (it has 5 (int)), by which"),
    (CHAT, [{**calls(), "tool_calls": ["a"]}], "messages[0].tool_calls[0] is a tool call without 'id'"),
    (CHAT, [{**calls(), "tool_calls": {"id": "a"}}], "messages[0] has {'id': 'a'} (dict) as its 'tool_calls'. Give it a list of tool calls."),
    (CHAT, [{"role": "tool", "content": "x"}], "messages[0] is the result of a tool call without 'tool_call_id'"),
    (RESPONSES, [item("function_call", None)], "messages[0] is a tool call without 'call_id'"),
    (RESPONSES, [item("function_call_output", None)], "messages[0] is the result of a tool call without 'call_id'"),
    (ANTHROPIC, [uses(None)], "messages[0].content[0] is a tool call without 'id'"),
    (ANTHROPIC, [uses("a"), results(None)], "messages[1].content[0] is the result of a tool call without 'tool_use_id'"),
    (GOOGLE, [parts("model", call(None))], "messages[0].parts[0] is a tool call without 'name'"),
    (GOOGLE, [parts("model", {"functionCall": {}})], "messages[0].parts[0] is a tool call without 'name'"),
    (GOOGLE, [parts("model", call("f", "1")), parts("user", called(None, "1"))], "messages[1].parts[0] is the result of a tool call without 'name'"),
    # in a message of another role
    (CHAT, [{**USER, "tool_calls": [{"id": "a"}]}], "messages[0].tool_calls[0] is a tool call in a message of the role 'user'. It belongs in a message of the role 'assistant'."),
    (ANTHROPIC, [{**uses("a"), "role": "user"}], "messages[0].content[0] is a tool call in a message of the role 'user'"),
    (ANTHROPIC, [uses("a"), results("a", role="assistant")], "messages[1].content[0] is the result of a tool call in a message of the role 'assistant'. It belongs in a message of the role 'user'."),
    (ANTHROPIC, [uses("a"), results("a", role="system")], "in a message of the role 'system'."),
    (GOOGLE, [parts("user", call("f"))], "messages[0].parts[0] is a tool call in a message of the role 'user'. It belongs in a message of the role 'model'."),
    (GOOGLE, [parts("model", call("f"), called("f"))], "messages[0].parts[1] is the result of a tool call in a message of the role 'model'. It belongs in a message of the role 'user'."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "messages", "said"), UNPAIRED)
def test_messages_whose_tool_results_do_not_pair_are_refused_by_place(name, messages, said):
    assert said in refusal(name, "messages", messages)


@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
def test_a_result_may_answer_a_call_that_the_provider_keeps(field):
    w, url = wire(RESPONSES), URLS[RESPONSES]
    kept = [item("function_call_output", "call_of_before")]

    w.check("messages", kept, url, {"model": "x", "input": "x", field: "id"})
    assert "no result" in refusal(
        RESPONSES, "messages", [item("function_call", "a")], **{field: "id"}
    )


# -- answers ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", cases.ANSWERS)
def test_an_answer_is_read(name):
    body = cases.answer(name)

    assert wire(name).read(body) == cases.ANSWERS[name]
    assert wire(name).read(wire(name).whole(json.dumps(body))) == cases.ANSWERS[name]
    assert wire(name).usage(body) == cases.ANSWERS[name].usage


NOTHING_SAID = {
    CHAT: [
        {"choices": []},
        {"choices": [{"message": {"role": "assistant", "content": " \n"}}]},
        {"choices": [{"message": {"content": "half"}, "finish_reason": "error"}]},
        {"choices": [{"message": {"content": "x"}}], "error": {"message": "overloaded"}},
    ],
    RESPONSES: [
        {"output": [], "status": "completed"},
        {"output": [{"type": "reasoning", "summary": []}], "status": "completed"},
        cases.answer(RESPONSES) | {"status": "failed", "error": {"code": "server_error"}},
        cases.answer(RESPONSES) | {"status": "in_progress"},
    ],
    ANTHROPIC: [
        {"content": []},
        {"content": [{"type": "thinking", "thinking": "hm"}]},
        {"type": "error", "error": {"type": "overloaded_error"}},
    ],
    GOOGLE: [
        {"candidates": []},
        {"promptFeedback": {"blockReason": "SAFETY"}},
        {"candidates": [{"content": {"parts": [{"text": "hm", "thought": True}]}}]},
        {"error": {"code": 500}},
    ],
}


@pytest.mark.parametrize(
    ("name", "body"),
    [(name, body) for name, bodies in NOTHING_SAID.items() for body in bodies]
    + [(name, body) for name in FORMATS for body in (None, [], "x", {}, {"error": {"message": "no"}})],
)  # fmt: skip
def test_an_answer_that_says_nothing_of_use_is_none(name, body):
    assert wire(name).read(body) is None


@pytest.mark.parametrize("name", FORMATS)
@SEVERAL
@given(body=ANY_JSON)
def test_any_json_at_all_is_read_or_refused_without_an_exception(name, body):
    w = wire(name)
    framed = {"choices": body, "output": body, "content": body, "candidates": body, "usage": body}

    for candidate in (body, framed, {k: [v] for k, v in framed.items()}):
        assert w.read(candidate) is None or w.read(candidate).text is not None
        assert isinstance(w.usage(candidate), Usage)
        w.read_stream(encode(candidate))
        w.read_stream(json.dumps(candidate))


@pytest.mark.parametrize(
    ("name", "counts", "usage"),
    [
        (CHAT, {}, Usage()),
        (CHAT, {"usage": None}, Usage()),
        (CHAT, {"usage": {"prompt_tokens": 3}}, Usage(3)),
        (CHAT, {"usage": {"prompt_tokens": -3, "completion_tokens": True}}, Usage()),
        # xAI counts reasoning beside the completion
        (CHAT, {"usage": {"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135,
                          "completion_tokens_details": {"reasoning_tokens": 94}}},
         Usage(32, 103, 135, None, 94)),
        # OpenAI counts it in
        (CHAT, {"usage": {"prompt_tokens": 32, "completion_tokens": 103, "total_tokens": 135,
                          "completion_tokens_details": {"reasoning_tokens": 94}}},
         Usage(32, 103, 135, None, 94)),
        # DeepSeek's name for cached
        (CHAT, {"usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10,
                          "prompt_cache_hit_tokens": 4}}, Usage(9, 1, 10, 4)),
        (RESPONSES, {"usage": {"input_tokens": 3, "output_tokens": 1}}, Usage(3, 1, 4)),
        (ANTHROPIC, {"usage": {"input_tokens": 3, "output_tokens": 1}}, Usage(3, 1, 4)),
        (ANTHROPIC, {"usage": {"cache_read_input_tokens": 3, "output_tokens": 1}},
         Usage(None, 1, None, 3)),
        (CHAT, {"usage": {"prompt_tokens": 9, "completion_tokens": 1,
                          "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3}}},
         Usage(9, 1, 10, 4, None, 3)),
        (ANTHROPIC, {"usage": {"input_tokens": 1, "cache_creation_input_tokens": 7,
                               "cache_read_input_tokens": 2, "output_tokens": 1}},
         Usage(10, 1, 11, 2, None, 7)),
        # what is kept for an hour has another price, so one number would not tell what it costs
        (ANTHROPIC, {"usage": {"input_tokens": 1, "cache_creation_input_tokens": 7,
                               "cache_creation": {"ephemeral_1h_input_tokens": 3},
                               "cache_read_input_tokens": 2, "output_tokens": 1}},
         Usage(10, 1, 11, 2)),
        # Google leaves out what is zero
        (GOOGLE, {"usageMetadata": {"promptTokenCount": 8, "totalTokenCount": 8}}, Usage(8, 0, 8)),
        (GOOGLE, {"usageMetadata": {"promptTokenCount": 8, "thoughtsTokenCount": 2,
                                    "totalTokenCount": 10}}, Usage(8, 2, 10, None, 2)),
        (GOOGLE, {"usageMetadata": {"promptTokenCount": 8}}, Usage(8)),
    ],
)  # fmt: skip
def test_tokens_are_counted_once_and_what_is_unknown_stays_unknown(name, counts, usage):
    assert wire(name).usage(counts) == usage


def test_a_response_that_was_cut_off_says_why():
    body = cases.answer(RESPONSES)
    body |= {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}

    assert wire(RESPONSES).read(body).finish_reason == "max_output_tokens"


def test_a_tool_that_the_provider_executes_is_no_call_for_the_caller():
    searched = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    body = {"content": [searched, {"type": "text", "text": "found"}]}
    asked = {"type": "web_search_call", "id": "ws", "status": "completed"}

    assert wire(ANTHROPIC).read(body).tool_calls == ()
    assert wire(ANTHROPIC).read({"content": [searched]}) is None
    body = cases.answer(RESPONSES) | {"output": [asked, cases.answer(RESPONSES)["output"][1]]}
    assert wire(RESPONSES).read(body).tool_calls == ()


def test_arguments_that_are_no_json_object_stay_text():
    function = {"name": "weigh", "arguments": '{"what": '}
    message = {"content": None, "tool_calls": [{"id": "a", "function": function}]}

    (call,) = wire(CHAT).read({"choices": [{"message": message}]}).tool_calls

    assert call.arguments == '{"what": '


# -- streams ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", cases.STREAMS)
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_a_stream_is_read_as_the_answer_it_amounts_to(name, line_end):
    text = cases.stream(name)

    assert wire(name).read_stream(text.replace("\n", line_end)) == cases.STREAMS[name]
    assert wire(name).read_stream("\ufeff" + text) == cases.STREAMS[name]


@pytest.mark.parametrize("name", cases.STREAMS)
def test_a_stream_cut_at_any_byte_before_its_end_is_no_answer(name):
    whole, w = cases.stream(name).encode(), wire(name)

    readings = [w.read_stream(whole[:cut].decode(errors="replace")) for cut in range(len(whole))]

    end = len(whole.rstrip())  # nothing is said behind it
    assert readings[:end] == [None] * end
    assert readings[end:] == [cases.STREAMS[name]] * (len(whole) - end)


ERRORS = {
    CHAT: 'data: {"error": {"message": "overloaded"}}\n\n',
    RESPONSES: 'event: error\ndata: {"type": "error", "code": "x", "message": "no"}\n\n',
    ANTHROPIC: 'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error"}}\n\n',
    GOOGLE: 'data: {"error": {"code": 503}}\n\n',
}


@pytest.mark.parametrize("name", [n for n in cases.STREAMS if "array" not in n])
def test_a_stream_that_reports_an_error_is_no_answer(name):
    events_ = cases.stream(name).split("\n\n")

    for place in range(len(events_) - 2):
        text = "\n\n".join([*events_[:place], ERRORS[wire(name).name].strip(), *events_[place:]])
        assert wire(name).read_stream(text) is None


def test_an_error_in_an_array_is_no_answer():
    chunks = json.loads(cases.stream("google-generate-content-array"))

    assert wire(GOOGLE).whole(json.dumps([*chunks, {"error": {"code": 503}}])) is None
    assert wire(GOOGLE).read_stream(json.dumps([*chunks, 3])) is None
    assert wire(GOOGLE).read_stream("[]") is None


def test_groqs_error_in_a_chunk_is_no_answer():
    text = cases.stream("openai-chat-groq").replace('"seed":7', '"error":"lost"')

    assert wire(CHAT).read_stream(text) is None


@pytest.mark.parametrize("name", FORMATS)
def test_a_response_that_failed_in_the_stream_is_no_answer(name):
    text = cases.stream(name).replace('"response.completed"', '"response.failed"')
    text = text.replace('"finish_reason":"stop"', '"finish_reason":"error"')
    text = text.replace('"message_stop"', '"ping"').replace('"finishReason"', '"x"')

    assert wire(name).read_stream(text) is None


def test_the_thoughts_of_an_anthropic_stream_keep_their_signature():
    thought = {"type": "thinking", "thinking": "Figs are light.", "signature": "c2lnbmF0dXJl"}

    assert wire(ANTHROPIC).whole(cases.stream(ANTHROPIC))["content"][0] == thought


def test_a_stream_without_the_usage_has_none():
    text = "".join(e for e in cases.stream(CHAT).splitlines(True) if '"choices":[]' not in e)

    assert wire(CHAT).read_stream(text).usage == Usage()


def test_output_tokens_of_an_anthropic_stream_are_those_of_its_end():
    text = cases.stream(ANTHROPIC).replace(
        '"usage":{"output_tokens":48,"output_tokens_details":{"thinking_tokens":9}}', '"usage":{}'
    )

    assert wire(ANTHROPIC).read_stream(text).usage == Usage(225, None, None, 200, None, 0)


def test_a_response_whose_last_event_has_no_output_is_made_of_its_items():
    lines = cases.stream(RESPONSES).splitlines()
    last = json.loads(lines[-2].removeprefix("data: "))
    del last["response"]["output"]
    text = "\n".join([*lines[:-2], f"data: {json.dumps(last)}", "", ""])

    assert wire(RESPONSES).read_stream(text) == cases.STREAMS[RESPONSES]


def chunk(delta, finish=None, **more):
    return encode({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]} | more)


@SEVERAL
@given(pieces=st.lists(st.text(), min_size=1).filter(lambda p: "".join(p).strip()))
def test_the_pieces_of_a_text_are_joined_wherever_they_were_cut(pieces):
    text = "".join(chunk({"content": piece}) for piece in pieces)

    read = wire(CHAT).read_stream(text + chunk({}, "stop") + encode(DONE))

    assert read.text == "".join(pieces)


@SEVERAL
@given(data=st.data())
def test_the_pieces_of_two_tool_calls_are_joined_however_they_interleave(data):
    sources = [json.dumps({"of": data.draw(st.text())}) for _ in range(2)]
    deltas = []
    for index, source in enumerate(sources):
        cut = data.draw(st.integers(0, len(source)))
        first = {"index": index, "id": f"c{index}", "function": {"name": "f", "arguments": ""}}
        rest = [
            {"index": index, "function": {"arguments": s}} for s in (source[:cut], source[cut:])
        ]
        deltas.append([first, *rest])
    order = data.draw(st.permutations([0, 0, 0, 1, 1, 1]))
    text = "".join(chunk({"tool_calls": [deltas[index].pop(0)]}) for index in order)

    read = wire(CHAT).read_stream(text + chunk({}, "tool_calls") + encode(DONE))

    assert {c.id: c.arguments for c in read.tool_calls} == {
        f"c{index}": json.loads(source) for index, source in enumerate(sources)
    }


def test_a_stream_is_not_complete_without_an_end_of_each_choice():
    text = chunk({"content": "x"}) + chunk({}, "stop")
    second = {"choices": [{"index": 1, "delta": {"content": "y"}}]}

    assert wire(CHAT).read_stream(chunk({"content": "x"}) + encode(DONE)) is None
    assert wire(CHAT).read_stream(text + encode(second) + encode(DONE)) is None
    assert wire(CHAT).read_stream(text + encode(DONE)).text == "x"


def test_what_a_chunk_leaves_empty_is_what_another_one_said():
    empty = encode({"id": "", "model": "", "choices": [], "prompt_filter_results": []})
    text = empty + chunk({"content": "x"}, "stop", id="c", model="m", usage={"prompt_tokens": 3})
    last = encode({"id": "", "model": "", "choices": [], "usage": None})

    read = wire(CHAT).read_stream(text + last + encode(DONE))

    assert (read.id, read.model, read.usage) == ("c", "m", Usage(3))


def test_calls_with_one_index_are_told_apart_by_their_ids():
    calls = [{"index": 0, "id": i, "function": {"name": i, "arguments": "{}"}} for i in "ab"]
    text = "".join(chunk({"tool_calls": [call]}) for call in calls)

    read = wire(CHAT).read_stream(text + chunk({}, "tool_calls") + encode(DONE))

    assert [c.name for c in read.tool_calls] == ["a", "b"]


def test_a_name_or_id_that_is_repeated_in_every_piece_is_taken_once():
    calls = [{"index": 0, "id": "a", "function": {"name": "f", "arguments": s}} for s in ("{", "}")]
    text = "".join(chunk({"tool_calls": [call]}) for call in calls)

    read = wire(CHAT).read_stream(text + chunk({}, "tool_calls") + encode(DONE))

    assert [(c.id, c.name, c.arguments) for c in read.tool_calls] == [("a", "f", {})]


# -- overrides of answers --------------------------------------------------------------

RECORDED = ["nothing", "an error", "an answer", "garbage"]


def recorded(name, what):
    """A recorded answer, and the text of the same as a stream."""
    if what == "an answer":
        return cases.answer(name), cases.stream(name)
    if what == "an error":
        return {"error": {"message": "overloaded"}}, ERRORS[name]
    return (None, None) if what == "nothing" else ([1], "<html>")


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("what", RECORDED)
@SEVERAL
@given(text=TEXTS)
def test_an_answer_with_another_text_reads_as_that_text(name, what, text):
    body, stream = recorded(name, what)
    before = copy.deepcopy(body)
    w, request = wire(name), cases.request(name)

    whole = w.read(w.answer(body, text, URLS[name], request))
    streamed = w.read_stream(w.stream_answer(stream, text, STREAM_URLS[name], request))

    assert body == before
    assert w.stream_answer(stream, text, STREAM_URLS[name], request).isascii()
    for read in (whole, streamed):
        assert (read.text, read.tool_calls) == (text, ())
        assert read.finish_reason in ("stop", "completed", "end_turn", "STOP")
    if what == "an answer":
        assert whole.usage == cases.ANSWERS[name].usage
        assert (whole.id, whole.model) == (cases.ANSWERS[name].id, cases.ANSWERS[name].model)
        assert streamed.usage == cases.STREAMS[name].usage
        assert (streamed.id, streamed.model) == (cases.STREAMS[name].id, cases.STREAMS[name].model)
    else:
        assert whole.model == streamed.model == w.model(URLS[name], request)
        assert whole.usage.total_tokens == streamed.usage.total_tokens == 0


@pytest.mark.parametrize("name", FORMATS)
def test_an_answer_with_its_own_text_is_the_recorded_one(name):
    body, w = cases.answer(name), wire(name)

    assert w.answer(body, w.read(body).text, URLS[name], cases.request(name)) == body


@pytest.mark.parametrize("name", FORMATS)
def test_a_whole_body_is_given_as_it_is_and_streams_as_what_it_says(name):
    w, request = wire(name), cases.request(name)
    body = cases.answer(name)

    assert w.answer(None, body, URLS[name], request) == body
    assert w.answer(None, body, URLS[name], request) is not body
    asks = request | {"stream": True, "stream_options": {"include_usage": True}}
    text = w.stream_answer(None, body, STREAM_URLS[name], asks)
    assert w.read_stream(text) == cases.ANSWERS[name]


@pytest.mark.parametrize("name", FORMATS)
def test_a_bare_body_makes_a_complete_stream(name):
    w, url, body = wire(name), STREAM_URLS[name], cases.BARE[name]
    w.check("response", body, url, cases.request(name))

    read = w.read_stream(w.stream_answer(None, body, url, cases.request(name)))

    assert read.text == "x"
    assert read.model == w.model(url, cases.request(name))


@pytest.mark.parametrize("name", cases.STREAMS)
def test_a_recorded_stream_with_its_own_text_says_the_same(name):
    reading, url = cases.STREAMS[name], STREAM_URLS[wire(name).name]

    text = wire(name).stream_answer(cases.stream(name), reading.text, url, {})

    assert wire(name).read_stream(text) == reading


def test_what_pointed_into_the_old_text_goes_with_it():
    w, body = wire(CHAT), cases.answer(CHAT)
    body["choices"][0] |= {"logprobs": {"content": [1]}}
    body["choices"][0]["message"] |= {"reasoning_content": "hm", "annotations": [{"type": "x"}]}

    (choice,) = w.answer(body, "new", "", {})["choices"]

    assert choice == {
        "index": 0,
        "message": {"role": "assistant", "content": "new", "reasoning_content": "hm"},
        "finish_reason": "stop",
    }


def test_thoughts_stay_where_they_were_before_the_new_text():
    assert [b["type"] for b in wire(ANTHROPIC).answer(cases.answer(ANTHROPIC), "new", "", {})["content"]] == ["thinking", "text"]  # fmt: skip
    (candidate,) = wire(GOOGLE).answer(cases.answer(GOOGLE), "new", "", {})["candidates"]
    assert [p.get("thought") for p in candidate["content"]["parts"]] == [True, None]
    mistral = wire(CHAT).whole(cases.stream("openai-chat-mistral"))
    (choice,) = wire(CHAT).answer(mistral, "new", "", {})["choices"]
    assert [p["type"] for p in choice["message"]["content"]] == ["thinking", "text"]
    output = wire(RESPONSES).answer(cases.answer(RESPONSES), "new", "", {})["output"]
    assert [i["type"] for i in output] == ["reasoning", "message"]


def test_the_usage_comes_in_a_chunk_of_its_own_only_where_it_is_asked_for():
    w, asks = wire(CHAT), {"stream_options": {"include_usage": True}}

    plain, _ = payloads(w.stream_answer(None, "x", "", {}))
    asked, _ = payloads(w.stream_answer(None, "x", "", asks))

    assert all(part["choices"] for part in plain)
    assert [bool(part["choices"]) for part in asked] == [True, True, False]


def test_google_answers_in_an_array_where_no_events_are_asked_for():
    w, url = wire(GOOGLE), STREAM_URLS[GOOGLE].removesuffix("?alt=sse")

    text = w.stream_answer(None, "x", url, {})

    assert [c["candidates"][0]["finishReason"] for c in json.loads(text)] == ["STOP"]
    assert w.read_stream(text).text == "x"


# -- server-sent events ----------------------------------------------------------------

LINES = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))


@SEVERAL
@given(
    sent=st.lists(st.tuples(LINES.filter(bool), st.lists(LINES, min_size=1))),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    bom=st.sampled_from(["", "\ufeff"]),
    noise=st.sampled_from(["", ": hello", "id: 3", "retry: 10", "unknown", "datax: 1"]),
)
def test_events_are_what_was_sent_whatever_ends_a_line(sent, end, bom, noise):
    text = bom
    for name, data in sent:
        lines = [noise or ":", f"event: {name}", *(f"data: {line}" for line in data), "", noise, ""]
        text += "".join(line + end for line in lines)

    assert list(events(text)) == [(name, "\n".join(data)) for name, data in sent]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("data: a\n\ndata:b\n\ndata:  c\n\n", ["a", "b", " c"]),
        ("data\n\n", [""]),
        ("data: a\u2028b\x85c\n\n", ["a\u2028b\x85c"]),
        ("event: lonely\n\ndata: x\n\n", ["x"]),
        ("data: not ended", ["not ended"]),
        ("", []),
    ],
)
def test_events_follow_the_standard(text, expected):
    assert [event.data for event in events(text)] == expected
    assert {event.name for event in events(text)} <= {"message"}


@SEVERAL
@given(payload=st.dictionaries(st.text(), ANY_JSON), name=st.none() | LINES.filter(bool))
def test_an_encoded_event_is_one_event_with_the_same_payload(payload, name):
    (event,) = events(encode(payload, name))

    assert json.loads(event.data) == payload
    assert event.name == (name or "message")


@pytest.mark.parametrize(
    "text",
    [
        'event: error\ndata: {"message": "no"}\n\n',
        'data: {"type": "error", "message": "no"}\n\n',
        'data: {"error": "no"}\n\n',
    ],
)
def test_an_error_is_known_by_the_event_or_by_what_it_says(text):
    with pytest.raises(ValueError, match="reports an error"):
        payloads(text)


def test_a_sign_of_life_is_no_payload():
    assert payloads('data: \n\ndata: {"error": null}\n\n') == ([{"error": None}], False)


@pytest.mark.parametrize("text", ["data: {\n\n", "data: [1]\n\n", 'data: {"a": NaN}\n\n'])
def test_a_payload_that_is_no_json_object_spoils_the_stream(text):
    with pytest.raises(ValueError, match="it is not|is not JSON"):
        payloads(text + encode({"choices": []}))
    for w in WIRES:
        assert w.read_stream(text + cases.stream(w.name)) is None


# -- pure ------------------------------------------------------------------------------


def test_the_formats_import_nothing_that_could_send():
    allowed = ("rewind_nb.errors", "rewind_nb._describe", "rewind_nb._model")
    allowed += ("rewind_nb.capture.wire",)
    pure = {"__future__", "collections.abc", "copy", "dataclasses", "itertools", "json", "math"}
    pure |= {"re", "typing", "urllib.parse"}

    for file in Path(rewind_nb.capture.wire.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module]
            for name in names:
                assert name.startswith(allowed) or name in pure, (file, name)
