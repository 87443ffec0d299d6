"""The model client against a real server that does everything a server can do wrong."""

from __future__ import annotations

import asyncio
import contextvars
import email.utils
import gc
import json
import logging
import math
import pickle
import socket
import threading
import time
import traceback
from types import SimpleNamespace

import httpx
import pytest
from fake_provider import (
    Answer,
    FakeProvider,
    bad_gzip,
    chat_completion,
    closes,
    completion,
    drip,
    echo,
    echo_key,
    garbage,
    gzip_bomb,
    hang,
    no_json_mode,
    redirect,
    reply,
    reset,
    status,
    truncated,
    with_metadata_object,
    zipped,
)

from rewind_nb._model import Usage
from rewind_nb._secrets import Secret, contains_secret
from rewind_nb.capture import _attempts
from rewind_nb.capture import chat as chat_module
from rewind_nb.capture.chat import ChatModel, ChatReply
from rewind_nb.capture.deadline import DEADLINE, AsyncDeadlineTransport, DeadlineTransport
from rewind_nb.errors import (
    ConfigError,
    NotEncodableError,
    ProviderError,
    ProviderMalformedError,
    ProviderStatusError,
    ProviderTimeoutError,
    ProviderUnreachableError,
    StepFailure,
)

CANARY = "sk-CANARY-0123456789-abcdefghij"
ESCAPED = "".join(f"\\u{ord(c):04x}" for c in CANARY)  # as JSON may write it


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("REWIND_BASE_URL", "REWIND_API_KEY", "REWIND_MODEL", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def naps(monkeypatch):
    """The pauses that the client takes, none of them waited for."""
    taken = []

    async def nap(seconds):
        taken.append(seconds)

    monkeypatch.setattr(chat_module, "time", SimpleNamespace(sleep=taken.append))
    monkeypatch.setattr(chat_module, "asyncio", SimpleNamespace(sleep=nap))
    return taken


def ask(mode, model, /, *args, **options):
    """Ask in one of the two modes."""
    if mode == "sync":
        return model.chat(*args, **options)

    async def once():
        return await model.achat(*args, **options)

    return asyncio.run(once())


def toy(provider, **options):
    return ChatModel(provider.base_url, "toy", CANARY, **({"deadline": 20.0} | options))


@pytest.fixture(params=["sync", "async"])
def mode(request):
    return request.param


# -- what is sent --------------------------------------------------------------------------


def test_a_text_prompt_is_sent_as_one_user_message(mode):
    with FakeProvider() as provider:
        reply = ask(mode, toy(provider), "Answer in JSON")
        [seen] = provider.requests
    assert (seen.method, seen.path) == ("POST", "/v1/chat/completions")
    assert seen.json == {
        "model": "toy",
        "messages": [{"role": "user", "content": "Answer in JSON"}],
        "temperature": 0.0,
        "response_format": {"type": "json_object"},
    }
    assert seen.headers["authorization"] == f"Bearer {CANARY}"
    assert reply == ChatReply(
        text='{"ok": true}',
        model="toy",
        answered_by="toy-2024",
        usage=Usage(11, 5, 16),
        finish_reason="stop",
        raw=json.dumps(chat_completion()),
        step="model",
    )


def test_messages_and_parameters_are_sent_as_given_and_none_leaves_one_out(mode):
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": "u \ud800 é"}]
    with FakeProvider() as provider:
        model = toy(provider, params={"seed": 7, "top_p": 0.5})
        reply = ask(mode, model, messages, json=False, model="other", top_p=None, max_tokens=9)
        [seen] = provider.requests
    assert seen.json == {
        "model": "other",
        "messages": messages,
        "temperature": 0.0,
        "seed": 7,
        "max_tokens": 9,
    }
    assert reply.model == "other"


def test_temperature_zero_is_one_request_however_it_is_written_and_none_sends_none():
    with FakeProvider() as provider:
        toy(provider).chat("x")
        toy(provider, temperature=0).chat("x")
        toy(provider, temperature=1).chat("x", temperature=0)
        toy(provider, temperature=None).chat("x")
        bodies = [seen.body for seen in provider.requests]
    assert bodies[0] == bodies[1] == bodies[2]
    assert "temperature" not in json.loads(bodies[3])


def test_a_tool_result_is_appended_to_the_last_user_message_and_told_to_the_capture_layer(mode):
    told = []

    def answer(request):
        told.append({k: v for k, v in request.extensions["rewind_nb"].items() if k != "call"})
        return httpx.Response(200, json=chat_completion())

    model = ChatModel("http://toy.invalid", "toy", transport=httpx.MockTransport(answer))
    messages = [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]
    ask(mode, model, messages, tool_result={"b": [1, 2.5], "a": "é"}, step="critique")
    ask(mode, model, messages, step="critique")
    assert told == [
        {"step": "critique", "tool_result": '{"b":[1,2.5],"a":"é"}'},
        {"step": "critique"},
    ]
    assert messages[0] == {"role": "user", "content": "u"}
    with FakeProvider() as provider:
        toy(provider).chat(messages, tool_result={"b": [1, 2.5], "a": "é"})
        toy(provider).chat(
            [{"role": "user", "content": [{"type": "text", "text": "u"}]}], tool_result=0
        )
        first, second = provider.requests
    text = '\n\nTool result:\n{"b":[1,2.5],"a":"é"}'
    assert first.json["messages"][0]["content"] == "u" + text
    assert second.json["messages"][0]["content"] == [
        {"type": "text", "text": "u"},
        {"type": "text", "text": "\n\nTool result:\n0"},
    ]


@pytest.mark.parametrize(
    ("prompt", "options", "error", "words"),
    [
        ([], {}, ConfigError, "empty"),
        (7, {}, ConfigError, "not int"),
        (["hi"], {}, ConfigError, "list of messages"),
        ([{"role": "system", "content": "s"}], {"tool_result": 1}, ConfigError, "user message"),
        ("x", {"stream": True}, ConfigError, "stream="),
        ("x", {"messages": []}, ConfigError, "messages="),
        ("x", {"temperature": "hot"}, ConfigError, "temperature="),
        ("x", {"model": 5}, ConfigError, "model="),
        ("x", {"tool_result": math.nan}, NotEncodableError, "tool_result"),
        ("x", {"tool_result": {"a": {1, 2}}}, NotEncodableError, "tool_result"),
        ("x", {"seed": Secret(CANARY)}, NotEncodableError, "the request"),
    ],
)
def test_what_cannot_be_sent_is_refused_before_any_byte_leaves(prompt, options, error, words, mode):
    with FakeProvider() as provider:
        with pytest.raises(error, match=words) as caught:
            ask(mode, toy(provider), prompt, **options)
        assert provider.count == 0
    assert_clean(caught.value)


# -- settings ------------------------------------------------------------------------------


def test_settings_come_from_arguments_or_the_environment(monkeypatch):
    monkeypatch.setenv("REWIND_BASE_URL", "https://env.test/v1/")
    monkeypatch.setenv("REWIND_MODEL", "env-model")
    monkeypatch.setenv("REWIND_API_KEY", CANARY)
    assert ChatModel().settings == {
        "base_url": "https://env.test/v1",
        "model": "env-model",
        "temperature": 0.0,
        "has_key": True,
    }
    given = ChatModel("http://arg.test", "arg-model", temperature=0.5)
    assert repr(given) == (
        "ChatModel(base_url='http://arg.test', model='arg-model', temperature=0.5, has_key=True)"
    )


@pytest.mark.parametrize("name", ["REWIND_BASE_URL", "REWIND_MODEL"])
def test_a_missing_setting_names_its_variable(monkeypatch, name):
    for other in {"REWIND_BASE_URL", "REWIND_MODEL"} - {name}:
        monkeypatch.setenv(other, "http://toy.test")
    with pytest.raises(ConfigError, match=name):
        ChatModel()


def test_without_a_key_no_authorization_is_sent(monkeypatch, mode):
    monkeypatch.setenv("REWIND_API_KEY", "")
    with FakeProvider() as provider:
        model = ChatModel(provider.base_url, "toy")
        ask(mode, model, "x")
        [seen] = provider.requests
    assert "authorization" not in seen.headers
    assert model.settings["has_key"] is False


@pytest.mark.parametrize("bad", [f"{CANARY}\n", f"{CANARY} ", f"{CANARY}\0", f"”{CANARY}”", ""])
def test_a_pasted_key_is_refused_without_being_quoted(monkeypatch, bad):
    with pytest.raises(ConfigError, match="api_key") as caught:
        ChatModel("http://toy.test", "toy", bad)
    assert_clean(caught.value)
    if bad.strip("\0") == bad and bad:
        monkeypatch.setenv("REWIND_API_KEY", bad)
        with pytest.raises(ConfigError, match="REWIND_API_KEY") as caught:
            ChatModel("http://toy.test", "toy")
        assert_clean(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        f"https://me:{CANARY}@api.test/v1",
        f"https://api.test/v1?api_key={CANARY}",
        "ftp://api.test",
        "api.test/v1",
        "https://",
        "http://[::1/v1",
        "https://api.test:port/v1",
    ],
)
def test_a_base_url_that_cannot_work_or_holds_a_key_is_refused(url):
    with pytest.raises(ConfigError, match="base_url") as caught:
        ChatModel(url, "toy")
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"deadline": 0},
        {"deadline": math.inf},
        {"max_retries": -1},
        {"retry_after_cap": -1},
        {"max_bytes": 0},
        {"temperature": math.nan},
    ],
)
def test_a_limit_that_cannot_work_is_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        ChatModel("http://toy.test", "toy", **options)


def test_a_query_of_the_base_url_stays_on_the_request():
    with FakeProvider() as provider:
        ChatModel(f"{provider.base_url}?api-version=2", "toy").chat("x")
        assert provider.requests[0].path == "/v1/chat/completions?api-version=2"


# -- what comes back -----------------------------------------------------------------------


def test_unknown_fields_of_a_gateway_are_ignored(mode):
    with FakeProvider(with_metadata_object()) as provider:
        assert ask(mode, toy(provider), "x").json() == {"ok": True}


def test_usage_and_the_answering_model_are_unknown_where_the_provider_says_nothing(mode):
    answer = {"choices": [{"message": {"content": "hi"}}], "usage": {"prompt_tokens": "many"}}
    with FakeProvider(reply(answer)) as provider:
        got = ask(mode, toy(provider), "x")
    assert (got.answered_by, got.usage, got.finish_reason) == (None, Usage(), None)


def test_cached_and_reasoning_tokens_are_read():
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 4,
        "prompt_tokens_details": {"cached_tokens": 8},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    with FakeProvider(completion(usage=usage)) as provider:
        assert toy(provider).chat("x").usage == Usage(9, 4, 13, 8, 3)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Sure! Here is the JSON", "not valid JSON"),
        ('```json\n{"a": 1}\n```', "not valid JSON"),
        ('{"a": 1} I hope this helps', "not valid JSON"),
        ('{"a": 1}{"b": 2}', "not valid JSON"),
        ('{"a": 1', "not valid JSON"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": -Infinity}', "-Infinity is not JSON"),
        ('{"a": 1e999}', "no float"),
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "'c' occurs twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "not valid JSON"),
        ("\ufeff{}", "not valid JSON"),
    ],
)
def test_text_that_is_not_exactly_json_is_a_step_failure_with_the_raw_text(text, reason):
    with FakeProvider(completion(text)) as provider:
        got = toy(provider).chat("x", step="plan")
    with pytest.raises(StepFailure, match=reason) as caught:
        got.json()
    assert caught.value.step == "plan"
    assert caught.value.raw == text
    assert str(caught.value).startswith("plan: ")


def test_an_answer_cut_at_the_token_limit_says_so_when_it_is_not_json():
    with pytest.raises(StepFailure, match="max_tokens"):
        ChatReply('{"a": ', "toy", finish_reason="length").json()


MALFORMED = {
    "html": (garbage(), "not valid JSON"),
    "empty body": (garbage(b""), "it is empty"),
    "truncated json": (garbage(completion().body[:-5]), "not valid JSON"),
    "bad utf-8": (garbage(b'{"choices": "\xff"}'), "not UTF-8"),
    "nan": (garbage(b'{"a": NaN}'), "NaN"),
    "duplicate keys": (garbage(b'{"choices": [], "choices": []}'), "occurs twice"),
    "deep nesting": (garbage(b"[" * 100_000), "nested too deeply"),
    "server-sent events": (garbage(b'data: {"choices": []}\n\n'), "not valid JSON"),
    "array": (reply([1]), "a JSON array"),
    "null": (reply(None), "a JSON null"),
    "no choices": (reply({"id": 1}), "no choices"),
    "empty choices": (reply({"choices": []}), "no choices"),
    "choices is text": (reply({"choices": "x"}), "no choices"),
    "choice is text": (reply({"choices": ["x"]}), "no message"),
    "error with 200": (reply({"error": {"message": "quota"}}), "it says 'quota'"),
    "no message": (reply({"choices": [{"text": "hi"}]}), "no message"),
    "null content": (completion(None), "message is empty"),
    "empty content": (completion(""), "message is empty"),
    "blank content": (completion(" \n"), "message is empty"),
    "content parts": (completion([{"type": "text"}]), "a JSON array, not text"),
    "number": (completion(7), "a JSON number, not text"),
    "refusal": (
        reply({"choices": [{"message": {"content": None, "refusal": "I cannot"}}]}),
        "refused: 'I cannot'",
    ),
    "tool calls": (
        reply({"choices": [{"message": {"content": None, "tool_calls": [{"id": "1"}]}}]}),
        "calls tools",
    ),
    "bad gzip": (bad_gzip(), "cannot be decoded"),
    "gzip bomb": (gzip_bomb(), "larger than 1048576 bytes"),
    "too large": (garbage(bytes(2 << 20)), "larger than 1048576 bytes"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_an_answer_that_is_no_completion_with_text_is_malformed(case, mode):
    answer, words = MALFORMED[case]
    with FakeProvider(then=answer) as provider:
        model = toy(provider, max_bytes=1 << 20)
        with pytest.raises(ProviderMalformedError, match=words) as caught:
            ask(mode, model, "x", step="plan")
        assert provider.count == 1
    decoded = case not in ("bad gzip", "gzip bomb", "too large")
    assert (caught.value.raw is not None) is decoded
    if decoded and case != "bad utf-8":
        assert caught.value.raw == answer.body.decode()
    assert_clean(caught.value)


def test_a_compressed_answer_is_read(mode):
    with FakeProvider(zipped(completion("hi"))) as provider:
        assert ask(mode, toy(provider), "x").text == "hi"
        assert provider.requests[0].headers["accept-encoding"] == "gzip, deflate"


# -- statuses and retries ------------------------------------------------------------------


def test_a_server_without_json_mode_is_asked_once_more_without_it(mode):
    with FakeProvider(then=no_json_mode) as provider:
        model = toy(provider, max_retries=0)
        assert ask(mode, model, "x").json() == {"ok": True}
        with_format, without = [seen.json for seen in provider.requests]
        assert with_format.pop("response_format") == {"type": "json_object"}
        assert without == with_format
        ask(mode, model, "x")  # nothing is remembered: a replay would ask the same
        assert "response_format" in provider.requests[2].json


def test_json_mode_is_dropped_once_and_only_where_it_was_ours(mode):
    refusal = status(400, "response_format is not supported")
    with FakeProvider(then=refusal) as provider:
        with pytest.raises(ProviderStatusError):
            ask(mode, toy(provider), "x")
        assert provider.count == 2
        with pytest.raises(ProviderStatusError):
            ask(mode, toy(provider), "x", response_format={"type": "json_schema"})
        assert provider.count == 3


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 422])
def test_a_client_error_is_not_tried_again(code, mode, naps):
    with FakeProvider(then=status(code, "nope")) as provider:
        with pytest.raises(ProviderStatusError, match=f"HTTP {code} .it says 'nope'") as caught:
            ask(mode, toy(provider), "x")
        assert provider.count == 1
    assert caught.value.status_code == code
    assert json.loads(caught.value.raw)["error"]["message"] == "nope"
    assert naps == []


@pytest.mark.parametrize("code", [429, 500, 502, 503, 529])
def test_overload_is_tried_again_a_bounded_number_of_times(code, mode, naps):
    with FakeProvider(then=status(code)) as provider:
        with pytest.raises(ProviderStatusError, match=f"HTTP {code} after 4 attempts"):
            ask(mode, toy(provider, max_retries=3), "x")
        assert provider.count == 4
        assert len({seen.body for seen in provider.requests}) == 1
    assert naps == [0.5, 1.0, 2.0]


def test_an_answer_after_a_retry_counts(mode, naps):
    with FakeProvider(status(503), status(429)) as provider:
        assert ask(mode, toy(provider), "x").json() == {"ok": True}
        assert provider.count == 3


@pytest.mark.parametrize(
    ("header", "pause"),
    [("3", 3.0), ("1.5", 1.5), ("0", 0.0), ("99999999", 7.0), ("1e400", 7.0), ("-5", 0.0)]
    + [("soon", 0.5), ("nan", 0.5), ("", 0.5), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)]
    + [("Wed, 21 Oct 2099 07:28:00 GMT", 7.0), ("Wed, 21 Oct 2099 07:28:00", 7.0)],
)
def test_retry_after_is_honoured_up_to_its_cap(header, pause, mode, naps):
    with FakeProvider(status(429, retry_after=header)) as provider:
        ask(mode, toy(provider, retry_after_cap=7.0), "x")
    assert naps == [pause]


def test_a_retry_after_date_is_a_pause_until_then(naps):
    soon = email.utils.formatdate(time.time() + 1000, usegmt=True)
    with FakeProvider(status(503, retry_after=soon)) as provider:
        toy(provider, retry_after_cap=2000, deadline=5000).chat("x")
    assert 900 < naps[0] <= 1000


def test_no_pause_is_taken_for_an_answer_that_was_played_back(mode, naps):
    answers = iter([503, 200])

    def answer(request):
        played = {"rewind_nb.played": True}
        return httpx.Response(next(answers), json=chat_completion(), extensions=played)

    ask(mode, ChatModel("http://toy.invalid", "m", transport=httpx.MockTransport(answer)), "x")
    assert naps == [0.0]


def test_a_pause_longer_than_the_deadline_is_not_begun(mode, naps):
    with FakeProvider(then=status(503, retry_after="15")) as provider:
        with pytest.raises(ProviderStatusError, match=r"HTTP 503.*asks to wait 15 s") as caught:
            ask(mode, toy(provider, deadline=10.0), "x")
        assert provider.count == 1
    assert (naps, caught.value.status_code, bool(caught.value.raw)) == ([], 503, True)


def test_a_redirect_is_not_followed_and_the_key_stays_here(mode):
    with FakeProvider() as other, FakeProvider(then=redirect(other.base_url)) as provider:
        with pytest.raises(ProviderStatusError, match="HTTP 302. Redirects are not") as caught:
            ask(mode, toy(provider), "x")
        assert (provider.count, other.count) == (1, 0)
    assert_clean(caught.value)


# -- connections and deadlines -------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_a_dead_endpoint_fails_at_once_with_the_transport_error_attached(mode, naps):
    port = free_port()
    model = ChatModel(f"http://127.0.0.1:{port}/v1?api-version=2", "toy", CANARY)
    with pytest.raises(ProviderUnreachableError, match="no connection") as caught:
        ask(mode, model, "x")
    url = f"http://127.0.0.1:{port}/v1/chat/completions"
    assert caught.value.cause.startswith("httpx.ConnectError")
    assert "at http://127.0.0.1:*/v1/chat/completions could" in str(caught.value)
    assert str(port) not in str(caught.value)  # with which a replay would fail otherwise
    assert caught.value.url == url
    assert any(f"(tried {url})" in note for note in caught.value.__notes__)
    assert naps == []
    assert_clean(caught.value)


@pytest.mark.parametrize("fault", [reset(), reset(keep=10), closes(), truncated()])
def test_a_broken_connection_is_unreachable_and_not_tried_again(fault, mode):
    with FakeProvider(then=fault) as provider:
        with pytest.raises(ProviderUnreachableError, match="broke before") as caught:
            ask(mode, toy(provider), "x")
        assert provider.count == 1
    assert_clean(caught.value)


@pytest.mark.parametrize(
    "fault",
    [
        hang(),
        hang(keep=10),
        drip(every=0.02, body=completion().body),  # would be a good answer after six seconds
        Answer(b"{", length=9, every=0.1),
    ],
)
def test_the_deadline_ends_a_call_however_slowly_the_server_answers(fault, mode):
    with FakeProvider(then=fault) as provider:
        with pytest.raises(ProviderTimeoutError, match=r"within 1\.5 s") as caught:
            ask(mode, toy(provider, deadline=1.5), "x")
        assert provider.count == 1
    assert_clean(caught.value)


def test_messages_of_failures_are_the_same_on_every_run(mode):
    for fault in (closes(), reset(), hang(), garbage(), status(500), bad_gzip()):
        said = set()
        for _ in range(2):
            with FakeProvider(then=fault) as provider:
                with pytest.raises(ProviderError) as caught:
                    limit = 1.0 if fault == hang() else 20.0
                    ask(mode, toy(provider, deadline=limit, max_retries=0), "x")
                said.add((type(caught.value), str(caught.value)))
        assert len(said) == 1


def test_a_failure_is_pickled_with_its_facts(mode):
    with FakeProvider(then=status(418)) as provider:
        with pytest.raises(ProviderStatusError) as caught:
            ask(mode, toy(provider), "x")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.status_code, again.raw) == (
        str(caught.value),
        418,
        caught.value.raw,
    )


# -- law 13: the key -----------------------------------------------------------------------


def assert_clean(error):
    """No canary in anything that hangs on an exception, however it is looked at."""
    seen, todo = set(), [error]
    while todo:
        current = todo.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        todo += [current.__cause__, current.__context__]
        shown = [repr(current), repr(current.args), repr(vars(current))]
        for name in ("request", "response"):
            message = getattr(current, f"_{name}", None)
            shown.append(repr(message and message.headers.raw))
        assert CANARY not in "".join(shown)
    assert CANARY not in "".join(traceback.format_exception(error))
    verbose = traceback.TracebackException.from_exception(error, capture_locals=True)
    ours = [f for f in verbose.stack if "rewind_nb" in f.filename or "httpx" in f.filename]
    assert CANARY not in repr([f.locals for f in ours])


FAULTS = {
    "unauthorised echo": echo_key,
    "status": status(500, f"key {CANARY} failed"),
    "garbage echo": garbage(f"<html>{CANARY}</html>".encode()),
    "no choices echo": reply({"error": f"bad key {CANARY}"}),
    "escaped echo": garbage(b'{"error": "' + ESCAPED.encode() + b'"}'),
    "half masked echo": status(401, f"Incorrect API key: {CANARY[:8]}********{CANARY[-4:]}"),
    "redirect": redirect(f"https://elsewhere.invalid/?token={CANARY}"),
    "reset": reset(),
    "closed": closes(),
    "truncated": truncated(),
    "hang": hang(),
    "bad gzip": bad_gzip(),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_key_never_reaches_an_exception_or_a_log_line(case, mode, caplog):
    caplog.set_level(logging.DEBUG)
    with FakeProvider(then=FAULTS[case]) as provider:
        limit = 1.0 if case == "hang" else 20.0  # only this one is to run into it
        model = toy(provider, deadline=limit, max_retries=0)
        with pytest.raises(ProviderError) as caught:
            ask(mode, model, "x")
        assert provider.requests[0].headers["authorization"].endswith(CANARY)
    assert_clean(caught.value)
    raw = caught.value.raw or ""
    assert not contains_secret(raw)
    assert CANARY[:8] not in raw
    assert CANARY[-4:] not in str(caught.value) + raw.replace("it", "")
    if case != "redirect":  # httpcore logs the response headers of a hostile provider
        assert CANARY not in caplog.text
    assert CANARY not in repr((model, vars(model), vars(model._clients), vars(model._auth)))


@pytest.mark.parametrize("as_sent", [CANARY, ESCAPED])
def test_an_echoed_key_does_not_come_back_in_a_reply(mode, as_sent):
    echoed = completion("your key is KEY", model="m-KEY").body.replace(b"KEY", as_sent.encode())
    with FakeProvider(garbage(echoed)) as provider:
        got = ask(mode, toy(provider), "x")
    assert (got.text, got.answered_by) == ("your key is ***", "m-***")
    assert not contains_secret(repr(got))


def test_the_key_is_in_a_request_only_while_it_is_sent(mode):
    requests = []

    def answer(request):
        requests.append((request, request.headers.get("authorization")))
        return httpx.Response(200, json=chat_completion())

    transport = httpx.MockTransport(answer)
    ask(mode, ChatModel("http://toy.invalid", "m", CANARY, transport=transport), "x")
    [(request, while_sent)] = requests
    assert while_sent == f"Bearer {CANARY}"
    assert "authorization" not in request.headers


def test_a_model_cannot_be_pickled_with_its_key():
    with pytest.raises(TypeError):
        pickle.dumps(ChatModel("http://toy.test", "toy", CANARY))


# -- clients -------------------------------------------------------------------------------


def test_one_model_serves_many_threads_over_kept_connections():
    with FakeProvider(then=echo) as provider:
        model = toy(provider)
        answers = {}

        def work(n):
            for i in range(5):
                answers[n, i] = model.chat(f"{n}-{i}", json=False).text

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {(n, i): f"{n}-{i}" for n in range(8) for i in range(5)}


def test_one_model_serves_several_event_loops_and_leaves_no_connection_open():
    with FakeProvider(then=echo) as provider:
        model = toy(provider)

        async def several(tag):
            asked = [model.achat(f"{tag}-{i}", json=False) for i in range(4)]
            return [answer.text for answer in await asyncio.gather(*asked)]

        for tag in "abc":
            assert asyncio.run(several(tag)) == [f"{tag}-{i}" for i in range(4)]
        assert len(model._clients._async) == 1  # loops that ended are forgotten
        model = None
        gc.collect()  # an unclosed socket would warn, and a warning is an error here


def test_a_closed_model_opens_again_on_use(mode):
    with FakeProvider() as provider:
        model = toy(provider)

        async def twice():
            await model.achat("x")
            await model.aclose()
            return await model.achat("x")

        if mode == "async":
            asyncio.run(twice())
        else:
            model.chat("x")
            model.close()
            model.chat("x")
        assert provider.count == 2


def test_answers_set_no_cookie_for_later_requests(mode):
    cookie = reply(chat_completion(), set_cookie="session=1; Path=/")
    with FakeProvider(then=cookie) as provider:
        model = toy(provider)
        ask(mode, model, "x")
        ask(mode, model, "x")
        assert "cookie" not in provider.requests[1].headers


def test_a_transport_of_one_kind_never_falls_back_to_the_network():
    with FakeProvider() as provider:
        sync = toy(provider, transport=httpx.HTTPTransport())
        with pytest.raises(ConfigError, match="async_transport="):
            ask("async", sync, "x")
        both = toy(provider, async_transport=httpx.AsyncHTTPTransport())
        with pytest.raises(ConfigError, match=" transport="):
            both.chat("x")
        assert provider.count == 0
        assert ask("async", both, "x").json() == sync.chat("x").json() == {"ok": True}


def test_the_environments_proxy_is_used_but_not_for_loopback(monkeypatch):
    with FakeProvider() as proxy, FakeProvider() as provider:
        monkeypatch.setenv("http_proxy", proxy.base_url.removesuffix("/v1"))
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        ChatModel("http://provider.invalid/v1", "toy").chat("x")
        assert proxy.requests[0].path == "http://provider.invalid/v1/chat/completions"
        ChatModel(provider.base_url, "toy").chat("x")
        assert (proxy.count, provider.count) == (1, 1)


# -- the deadline transports ---------------------------------------------------------------


def exchange(mode, transport_of, request):
    """One request through a deadline transport around an httpx transport."""
    if mode == "sync":
        transport = DeadlineTransport(transport_of(), 5.0, 1 << 20)
        return transport.handle_request(request)

    async def once():
        transport = AsyncDeadlineTransport(transport_of(), 5.0, 1 << 20)
        return await transport.handle_async_request(request)

    return asyncio.run(once())


def mock(handler):
    return lambda: httpx.MockTransport(handler)


def test_a_request_whose_time_is_up_is_not_sent(mode):
    sent = []
    request = httpx.Request("GET", "http://toy.invalid", extensions={DEADLINE: -math.inf})
    with pytest.raises(httpx.ReadTimeout):
        exchange(mode, mock(sent.append), request)
    assert sent == []


def test_the_body_comes_back_decoded_with_no_word_on_how_it_was_packed(mode):
    packed = zipped(completion("hi"))

    def handler(request):
        return httpx.Response(200, headers=packed.headers | {"x-id": "7"}, content=packed.body)

    response = exchange(mode, mock(handler), httpx.Request("GET", "http://toy.invalid"))
    assert response.headers["x-id"] == "7"
    assert "content-encoding" not in response.headers
    assert response.read() == completion("hi").body


def test_the_thread_of_a_deadline_runs_in_the_context_of_its_step():
    step = contextvars.ContextVar("step", default=None)
    step.set("plan")

    def handler(request):
        return httpx.Response(200, text=f"{step.get()} {threading.current_thread().daemon}")

    response = exchange("sync", mock(handler), httpx.Request("GET", "http://toy.invalid"))
    assert response.read() == b"plan True"


@pytest.mark.parametrize("error", [KeyError("own"), TimeoutError("own"), SystemExit(3)])
def test_an_exception_of_the_inner_transport_reaches_the_caller(error):
    def handler(request):
        raise error

    with pytest.raises(type(error)) as caught:
        exchange("sync", mock(handler), httpx.Request("GET", "http://toy.invalid"))
    assert caught.value is error


def test_the_deadline_covers_a_call_and_not_each_of_its_requests(mode):
    ends = []

    def answer(request):
        ends.append(request.extensions[DEADLINE])
        return httpx.Response(503 if len(ends) < 3 else 200, json=chat_completion())

    model = ChatModel(
        "http://toy.invalid", "m", retry_after_cap=0, transport=httpx.MockTransport(answer)
    )
    ask(mode, model, "x")
    assert len(ends) == 3
    assert len(set(ends)) == 1
    assert ends[0] - _attempts.monotonic() <= 120.0
