"""Calls inside a step: recorded once, played back by identity, never for another by failure."""

import json
import time
from types import SimpleNamespace

import apps
import fake_provider as fp
import httpx
import pytest
from burr.core import ApplicationBuilder, State, action, expr

from rewind_nb import ChatModel, Rewind, Secret, now, random, tool, uuid4
from rewind_nb.errors import (
    CacheMissError,
    NotEncodableError,
    OverrideError,
    OverrideNotConsumedError,
    ProviderMalformedError,
    ProviderUnreachableError,
    StepFailure,
)


def answer(seen):
    """A provider that branches on the prompt, and jitters."""
    answer.count += 1
    said = {"echo": seen.prompt[-40:], "n": answer.count, "model": seen.json["model"]}
    return fp.reply(fp.chat_completion(json.dumps(said), model=seen.json["model"]))


answer.count = 0


@pytest.fixture
def provider():
    answer.count = 0
    with fp.FakeProvider(then=answer) as running:
        yield running


def chat_app(provider, questions=2, **model):
    chat = ChatModel(provider.base_url, "toy", **model)

    @action(reads=["topic"], writes=["said"])
    def talk(state: State) -> State:
        apps.ran("talk")
        said = [
            chat.chat(f"{json.dumps(state.get_all())} question {i}", step="talk").json()
            for i in range(questions)
        ]
        return state.update(said=said)

    @action(reads=["said"], writes=["text"])
    def write(state: State) -> State:
        apps.ran("write")
        reply = chat.chat("write up " + json.dumps(state["said"]), step="write")
        return state.update(text=reply.json()["echo"])

    return (
        ApplicationBuilder()
        .with_actions(talk, write)
        .with_transitions(("talk", "write"))
        .with_state(topic="tea")
        .with_entrypoint("talk")
        .build()
    )


def test_a_model_call_is_recorded_with_its_request_answer_and_usage(provider, store):
    run = Rewind(chat_app(provider), store=store).run()

    calls = run["talk"].calls
    assert [c.kind for c in calls] == ["model", "model"]
    assert [c.source for c in calls] == ["live", "live"]
    assert calls[1].messages[-1]["content"].endswith("question 1")
    assert json.loads(calls[1].text)["n"] == 2
    assert calls[0].usage.total_tokens > 0
    assert run["talk"].usage.total_tokens == sum(c.usage.total_tokens for c in calls)
    assert run.usage.total_tokens > 0
    assert run["talk"].source == "live"


def test_an_unchanged_fork_asks_nothing_and_costs_nothing(provider, store):
    rw = Rewind(chat_app(provider), store=store)
    run = rw.run()
    asked = provider.count

    for at in (0, 1):
        fork = rw.fork(run, at, reuse="none")
        assert provider.count == asked
        assert fork.state == run.state
        assert fork.usage.total_tokens == 0
        assert fork.steps[-1].source == "cache"


def test_a_second_run_plays_back_and_says_so(provider, store):
    rw = Rewind(chat_app(provider), store=store)
    first = rw.run()
    asked = provider.count

    second = rw.run()

    assert provider.count == asked
    assert second.state == first.state
    assert 'cache="refresh"' in repr(second)
    assert second["talk"].calls[0].replayed_from.startswith(first.id)
    assert 'cache="refresh"' not in repr(first)


def test_refresh_asks_anew_and_off_offers_nothing(provider, store):
    rw = Rewind(chat_app(provider), store=store)
    rw.run(cache="off")
    first = rw.run()
    assert provider.count == 6
    second = rw.run(cache="refresh")
    assert provider.count == 9
    assert second.state != first.state
    assert rw.run().state == second.state  # the newest answer is the one played back


def test_three_samples_of_one_prompt_play_back_as_three_answers_in_their_order(provider, store):
    chat = ChatModel(provider.base_url, "toy")

    @action(reads=[], writes=["drafts"])
    def sample(state: State) -> State:
        return state.update(drafts=[chat.chat("draft!").json()["n"] for _ in range(3)])

    app = ApplicationBuilder().with_actions(sample).with_entrypoint("sample").build()
    rw = Rewind(app, store=store)
    run = rw.run()
    assert run.state["drafts"] == [1, 2, 3]
    assert [c.sample for c in run[0].calls] == [0, 1, 2]
    assert rw.fork(run, 0).state["drafts"] == [1, 2, 3]
    assert rw.run().state["drafts"] == [1, 2, 3]
    assert rw.replay(run).ok
    assert provider.count == 3


def test_a_run_is_not_served_its_own_entries_while_it_records(provider, store):
    chat = ChatModel(provider.base_url, "toy")

    @action(reads=[], writes=["drafts", "n"])
    def sample(state: State) -> State:
        n = (state.get("n") or 0) + 1
        drafts = [*(state.get("drafts") or []), chat.chat("draft!").json()["n"]]
        return state.update(n=n, drafts=drafts)

    app = (
        ApplicationBuilder()
        .with_actions(sample)
        .with_transitions(("sample", "sample", expr("n < 3")))
        .with_entrypoint("sample")
        .build()
    )
    run = Rewind(app, store=store).run()

    assert run.state["drafts"] == [1, 2, 3]


def test_a_replay_makes_no_request_even_with_the_provider_gone(store):
    with fp.FakeProvider(then=answer) as provider:
        rw = Rewind(chat_app(provider), store=store)
        run = rw.run()

    proof = rw.replay(run)

    assert proof.ok, proof
    assert proof.recorded_calls == 3
    assert proof.recorded_tokens == run.usage.total_tokens > 0
    assert rw.replay(run, start="write").steps == 1
    assert rw.replay(run, start="write").ok


# -- overrides -------------------------------------------------------------------------------


def test_the_prompt_of_the_second_call_is_overridden_and_the_first_is_played_back(provider, store):
    rw = Rewind(chat_app(provider), store=store)
    run = rw.run()
    provider.requests.clear()

    fork = rw.fork(run, "talk", prompt="something else", call=1)

    assert [r.prompt for r in provider.requests][0] == "something else"
    assert [c.source for c in fork["talk"].calls] == ["cache", "live"]
    assert fork.state["said"][0] == run.state["said"][0]
    assert fork.state["said"][1]["echo"] == "something else"
    assert rw.replay(fork).ok
    assert "prompt of call 1 = 'something else'" in repr(fork)


@pytest.mark.parametrize(
    "override",
    [
        {"model": "other"},
        {"temperature": 0.7},
        {"params": {"max_tokens": 5, "response_format": None}},
        {"messages": [{"role": "user", "content": "only this"}]},
        {"prompt": lambda recorded: recorded.upper()},
    ],
)
def test_each_request_override_reaches_the_provider_and_replays(provider, store, override):
    rw = Rewind(chat_app(provider, questions=1), store=store)
    run = rw.run()
    provider.requests.clear()

    fork = rw.fork(run, "talk", **override)

    body = provider.requests[0].json
    ((kind, value),) = override.items()
    if kind == "params":
        assert body["max_tokens"] == 5
        assert "response_format" not in body
    elif kind == "prompt":
        assert (
            body["messages"][-1]["content"] == run["talk"].calls[0].messages[-1]["content"].upper()
        )
        assert fork.overrides[0].callback
        assert "(callback)" in repr(fork)
        assert fork.overrides[0].value == body["messages"][-1]["content"]
    else:
        assert body[kind] == value
    assert rw.replay(fork).ok
    assert rw.fork(fork, 0).state == fork.state  # the parent's override is kept


def test_a_response_override_is_the_answer_and_asks_nothing(provider, store):
    rw = Rewind(chat_app(provider, questions=1), store=store)
    run = rw.run()
    asked = provider.count

    fork = rw.fork(run, "talk", response='{"echo": "mine", "n": 0}', halt_after=["talk"])

    assert provider.count == asked
    assert fork.state["said"] == [{"echo": "mine", "n": 0}]
    assert fork["talk"].calls[0].source == "override"
    assert rw.replay(fork).ok


def test_an_answer_of_another_model_than_asked_is_visible(store):
    def other(seen):
        return fp.reply(fp.chat_completion('{"echo": "x"}', model="surprise-1"))

    with fp.FakeProvider(then=other) as provider:
        rw = Rewind(chat_app(provider, questions=1), store=store)
        run = rw.run()
        fork = rw.fork(run, "talk", model="bigger")

    call = fork["talk"].calls[0]
    assert (call.model, call.answered_by) == ("bigger", "surprise-1")
    assert any("bigger" in line for line in rw.diff(run, fork).mismatched_models)
    assert "answered by surprise-1" in repr(call)
    assert "surprise-1" in repr(fork)


def test_overrides_of_calls_are_checked_before_anything_executes(provider, store):
    rw = Rewind(chat_app(provider, questions=1), store=store)
    run = rw.run()
    apps.CALLS.clear()
    runs = len(store.runs())

    refused = [
        {"prompt": 3},
        {"prompt": "x", "call": 1},
        {"model": ""},
        {"temperature": "hot"},
        {"params": [1]},
        {"messages": []},
        {"messages": [{"content": "no role"}]},
        {"messages": [{"role": "tool", "tool_call_id": "nope", "content": ""}]},
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}]},
        {"response": {"no": "choices"}},
        {"tool_args": {"a": 1}},
        {"tool_result": 1},
        {"prompt": "x", "model": "y"},
        {"state": {"said": []}},
        {"patch": [{"op": "replace", "path": "/nothing", "value": 1}]},
        {"inputs": {"x": 1}},
    ]
    for override in refused:
        with pytest.raises(OverrideError):
            rw.fork(run, "talk", **override)
    with pytest.raises(NotEncodableError):
        rw.fork(run, "talk", output={"said": object()})

    assert not apps.CALLS
    assert len(store.runs()) == runs


def test_a_state_override_names_the_first_later_step_that_reads_the_key(provider, store):
    rw = Rewind(apps.branch_app(), store=store)
    run = rw.run()

    with pytest.raises(OverrideError, match="2 'summarise'"):
        rw.fork(run, "judge", state={"booking": {}})


def test_an_override_that_equals_the_recording_executes_nothing_and_says_so(provider, store):
    rw = Rewind(chat_app(provider, questions=1), store=store)
    run = rw.run()
    apps.CALLS.clear()
    call = run["talk"].calls[0]

    for override in (
        {"output": {"said": run.state["said"]}},
        {"patch": {"said[0].n": 1}},
        {"state": {"topic": "tea"}},
        {"prompt": call.messages[-1]["content"]},
        {"model": "toy"},
        {"temperature": 0},
        {"params": {"max_tokens": None}},
        {"response": call.text},
        {"response": json.loads(call.response["body"])},
    ):
        fork = rw.fork(run, "talk", **override)
        assert not apps.CALLS, override
        assert "nothing to execute" in repr(fork)
        assert rw.diff(run, fork).identical
        assert [s.source for s in fork.steps] == ["reused", "reused"]
        assert fork.status == "complete"
        assert rw.replay(fork).ok
        apps.CALLS.clear()


def test_an_override_nothing_consumed_fails_the_fork_and_says_what_was_spent(provider, store):
    chat = ChatModel(provider.base_url, "toy")

    @action(reads=["ask"], writes=["said"])
    def maybe(state: State, calls: int) -> State:
        return state.update(said=[chat.chat(f"q{i}").json()["n"] for i in range(calls)])

    app = ApplicationBuilder().with_actions(maybe).with_entrypoint("maybe").build()
    rw = Rewind(app, store=store)
    run = rw.run(inputs={"calls": 2})
    fewer = rw.fork(run, 0, inputs={"calls": 1})
    assert len(fewer.state["said"]) == 1

    calls = {"n": 2}

    @action(reads=[], writes=["said"])
    def moody(state: State) -> State:
        return state.update(said=[chat.chat(f"m{i}").json()["n"] for i in range(calls["n"])])

    rw = Rewind(
        ApplicationBuilder().with_actions(moody).with_entrypoint("moody").build(), store=store
    )
    run = rw.run()
    calls["n"] = 1
    with pytest.raises(OverrideNotConsumedError) as caught:
        rw.fork(run, 0, prompt="x", call=1, allow_code_change=True)
    assert "Spent before this was known: 0 live calls, tokens: 0." in caught.value.__notes__
    assert rw.last_run.status == "failed"
    assert rw.replay(rw.last_run).ok


# -- failures of the provider ------------------------------------------------------------------


def test_garbage_fails_the_run_with_the_raw_output_and_is_cached_for_nobody(store):
    garbage = fp.reply(fp.chat_completion("not json at all"))
    with fp.FakeProvider(garbage, then=answer) as provider:
        rw = Rewind(chat_app(provider, questions=1), store=store)
        with pytest.raises(StepFailure, match="JSON"):
            rw.run()
        failed = rw.last_run
        assert failed.status == "failed"
        assert failed[-1].error.raw == "not json at all"
        assert rw.run().status == "complete"  # asked again: nothing was cached
        assert provider.count == 3
    proof = rw.replay(failed)
    assert proof.ok, proof
    assert proof.run[-1].error.raw == "not json at all"


def test_an_answer_that_is_no_completion_replays_to_the_same_failure(store):
    with fp.FakeProvider(fp.reply({"hello": 1}), then=answer) as provider:
        rw = Rewind(chat_app(provider, questions=1), store=store)
        with pytest.raises(ProviderMalformedError):
            rw.run()
    failed = rw.last_run

    assert rw.replay(failed).ok
    assert not failed[-1].calls[0]._row.playable


def test_a_dead_endpoint_fails_at_once_and_replays_to_the_same_failure(store):
    with fp.FakeProvider(then=answer) as provider:
        app = chat_app(provider, questions=1)
    rw = Rewind(app, store=store)

    with pytest.raises(ProviderUnreachableError):
        rw.run()

    assert rw.replay(rw.last_run).ok


def test_a_retried_call_is_one_call_for_a_fork_and_all_attempts_for_a_replay(store):
    with fp.FakeProvider(fp.status(429, retry_after="0"), then=answer) as provider:
        rw = Rewind(chat_app(provider, questions=1), store=store)
        run = rw.run()
        assert provider.count == 3
        assert [c.response["status"] for c in run["talk"].calls] == [429, 200]
        fork = rw.fork(run, "talk")
        assert provider.count == 3
        assert fork.state == run.state
        assert rw.replay(run).ok
        changed = rw.fork(run, "talk", prompt="new")
        assert provider.count == 5
        assert changed.status == "complete"
    assert run.usage.total_tokens > 0


def test_a_server_without_json_mode_is_asked_without_it_and_a_fork_stays_free(store):
    with fp.FakeProvider(fp.no_json_mode, then=answer) as provider:
        rw = Rewind(chat_app(provider, questions=1), store=store)
        run = rw.run()
        asked = provider.count
        assert rw.fork(run, "talk").state == run.state
        assert provider.count == asked
        assert rw.replay(run).ok


def test_a_miss_in_a_replay_names_the_nearest_recorded_request(provider, store):
    suffix = {"text": ""}
    chat = ChatModel(provider.base_url, "toy")

    @action(reads=[], writes=["said"])
    def talk(state: State) -> State:
        chat.chat("far away from it", max_tokens=3, temperature=0.9)
        return state.update(said=chat.chat("near it" + suffix["text"]).json())

    app = ApplicationBuilder().with_actions(talk).with_entrypoint("talk").build()
    rw = Rewind(app, store=store)
    run = rw.run()
    asked = provider.count
    suffix["text"] = "!"

    proof = rw.replay(run)

    assert not proof.ok
    assert proof.divergence.action == "talk"
    assert "call 1" in proof.divergence.why
    assert "body.messages[0].content" in proof.divergence.why
    assert proof.divergence.path == "@calls[1].request.body.messages[0].content"
    assert provider.count == asked
    with pytest.raises(Exception, match="not identical"):
        proof.require()


def test_replay_mode_refuses_before_a_byte_leaves(provider, store):
    rw = Rewind(chat_app(provider), store=store, cache="replay")

    with pytest.raises(CacheMissError, match="not recorded"):
        rw.run()

    assert provider.count == 0


@pytest.fixture
def site():
    with fp.FakeProvider(then=fp.reply({"page": 1})) as running:
        yield running


def get(site):
    """A request that nothing captures."""
    from urllib.request import urlopen

    with urlopen(site.base_url, data=b"{}") as response:
        return response.status


def test_an_uncaptured_connection_is_refused_in_a_replay(site, store):
    @action(reads=[], writes=["body"])
    def fetch(state: State) -> State:
        return state.update(body=get(site))

    app = ApplicationBuilder().with_actions(fetch).with_entrypoint("fetch").build()
    rw = Rewind(app, store=store)
    run = rw.run()
    asked = site.count

    proof = rw.replay(run)

    assert not proof.ok
    assert proof.divergence.path == "@connection"
    assert "was not captured" in proof.divergence.why
    assert site.count == asked
    assert get(site) == 200  # nobody else is hindered


def test_an_uncaptured_connection_in_a_thread_of_the_step_is_refused_too(site, store):
    import threading

    @action(reads=[], writes=["body"])
    def fetch(state: State) -> State:
        box = []

        def work():
            try:
                box.append(get(site))
            except Exception as error:
                box.append(type(error).__name__)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return state.update(body=box)

    app = ApplicationBuilder().with_actions(fetch).with_entrypoint("fetch").build()
    rw = Rewind(app, store=store)
    run = rw.run()
    assert run.state["body"] == [200]

    proof = rw.replay(run)

    assert not proof.ok
    assert proof.divergence.path == "@connection"
    assert proof.run.state.get("body") == ["URLError"]


# -- keys ---------------------------------------------------------------------------------------


def test_a_key_is_in_no_row_of_the_store(provider, tmp_path):
    key = "sk-canary-abcdef0123456789"
    from rewind_nb import Store

    path = tmp_path / "runs.db"
    with Store(path) as store:
        rw = Rewind(chat_app(provider, api_key=Secret(key)), store=store)
        run = rw.run()
        assert provider.requests[0].headers["authorization"] == f"Bearer {key}"
        assert key not in str([c.to_dict() for s in run.steps for c in s.calls])
    for file in tmp_path.iterdir():
        assert key.encode() not in file.read_bytes(), file


def test_a_provider_that_echoes_the_key_does_not_get_it_into_a_row(tmp_path):
    key = "sk-canary-abcdef0123456789"
    from rewind_nb import Store

    path = tmp_path / "runs.db"
    with fp.FakeProvider(then=fp.echo_key) as provider, Store(path) as store:
        rw = Rewind(chat_app(provider, api_key=Secret(key)), store=store)
        with pytest.raises(StepFailure) as caught:
            rw.run()
        assert key not in repr(caught.value) + str(caught.value.__notes__)
        assert rw.replay(rw.last_run).ok
    for file in tmp_path.iterdir():
        assert key.encode() not in file.read_bytes(), file


def test_the_port_of_a_loopback_host_is_not_part_of_a_request(store):
    with fp.FakeProvider(then=answer) as first:
        run = Rewind(chat_app(first), store=store).run()
    with fp.FakeProvider(then=answer) as second:
        again = Rewind(chat_app(second), store=store).run()
        assert second.count == 0
    assert again.state == run.state


def test_temperature_0_and_0_0_are_one_and_model_prompt_and_tool_result_are_not(provider, store):
    chat = ChatModel(provider.base_url, "toy")
    asked = []

    def fingerprint(**given):
        @action(reads=[], writes=["x"])
        def ask(state: State) -> State:
            asked.append(1)
            return state.update(x=chat.chat(given.pop("prompt", "p"), **given).text)

        app = ApplicationBuilder().with_actions(ask).with_entrypoint("ask").build()
        run = Rewind(app, store=store).run(cache="refresh")
        return run[0].calls[0].fingerprint

    assert fingerprint(temperature=0) == fingerprint(temperature=0.0) == fingerprint()
    different = [
        fingerprint(),
        fingerprint(temperature=0.1),
        fingerprint(prompt="q"),
        fingerprint(tool_result="p"),
        fingerprint(tool_result=""),
        fingerprint(max_tokens=1),
        fingerprint(json=False),
        fingerprint(seed=1),
    ]
    assert len(set(different)) == len(different)


def test_cache_key_drops_volatile_fields_and_what_it_dropped_is_stored(provider, store):
    stamp = {"n": 0}
    chat = ChatModel(provider.base_url, "toy")

    @action(reads=[], writes=["n"])
    def ask(state: State) -> State:
        stamp["n"] += 1
        return state.update(n=chat.chat("hello", user=f"trace-{stamp['n']}").json()["n"])

    def key(request):
        request["body"].pop("user", None)
        return request

    app = ApplicationBuilder().with_actions(ask).with_entrypoint("ask").build()
    rw = Rewind(app, store=store, cache_key=key)
    run = rw.run()
    assert rw.fork(run, 0).state == run.state
    assert rw.run().state == run.state
    assert provider.count == 1
    assert run[0].calls[0].request["body"]["user"] == "trace-1"
    assert Rewind(app, store=store).run().state != run.state


# -- tools --------------------------------------------------------------------------------------


def tool_app(cache=True, fail=False):
    @tool(cache=cache)
    def weigh(what: str, *, twice: bool = False) -> dict:
        apps.ran("weigh_tool")
        if fail:
            raise LookupError(f"no scale for {what}")
        return {"what": what, "grams": (len(what), twice), "nth": apps.CALLS["weigh_tool"]}

    @action(reads=["what"], writes=["found"])
    def measure(state: State) -> State:
        apps.ran("measure")
        first = weigh(state["what"])
        second = weigh(state["what"], twice=True)
        first["mutated"] = True
        return state.update(found=[first, second])

    return (
        ApplicationBuilder()
        .with_actions(measure)
        .with_state(what="plum")
        .with_entrypoint("measure")
        .build()
    )


def test_a_tool_call_is_recorded_and_played_back_with_its_types(store):
    rw = Rewind(tool_app(), store=store)
    run = rw.run()

    assert run[0].calls[0].request["args"] == {"what": "plum", "twice": False}
    assert run[0].calls[1].response == {"what": "plum", "grams": (4, True), "nth": 2}
    fork = rw.fork(run, 0, reuse="none")
    assert apps.CALLS == {"measure": 2, "weigh_tool": 2}
    assert fork.state == run.state
    assert fork[0].source == "tool-cache"
    assert rw.run().state == run.state
    assert apps.CALLS["weigh_tool"] == 2


def test_cache_false_keeps_a_tool_from_answering_other_runs_but_not_forks(store):
    rw = Rewind(tool_app(cache=False), store=store)
    run = rw.run()
    rw.fork(run, 0)
    assert apps.CALLS["weigh_tool"] == 2
    rw.run()
    assert apps.CALLS["weigh_tool"] == 4


def test_tool_args_and_tool_result_are_overridden(store):
    rw = Rewind(tool_app(), store=store)
    run = rw.run()

    args = rw.fork(run, 0, tool_args={"what": "melon"}, call=1)
    assert args.state["found"][1]["grams"] == (5, True)
    assert args.state["found"][0] == run.state["found"][0]
    result = rw.fork(run, 0, tool_result={"grams": (9, False)}, call=0)
    assert result.state["found"][0] == {"grams": (9, False), "mutated": True}
    assert result[0].calls[0].source == "override"
    for fork in (args, result):
        assert rw.replay(fork).ok
    with pytest.raises(OverrideError, match="what"):
        rw.fork(run, 0, tool_args={"wat": 1})


def test_an_edited_tool_is_not_answered_by_its_old_self(store):
    before = Rewind(tool_app(), store=store).run()

    @tool(name="tool_app.<locals>.weigh")
    def weigh(what: str, *, twice: bool = False) -> dict:
        return {"new": True}

    @action(reads=["what"], writes=["found"])
    def measure(state: State) -> State:
        return state.update(found=[weigh(state["what"]), weigh(state["what"], twice=True)])

    app = (
        ApplicationBuilder()
        .with_actions(measure)
        .with_state(what="plum")
        .with_entrypoint("measure")
        .build()
    )
    after = Rewind(app, store=store).run()

    assert before[0].calls[0].name == after[0].calls[0].name
    assert after.state["found"][0] == {"new": True}


def test_a_tool_that_raised_replays_to_the_same_exception_class(store):
    rw = Rewind(tool_app(fail=True), store=store)
    with pytest.raises(LookupError, match="no scale for plum"):
        rw.run()
    apps.CALLS.clear()

    proof = rw.replay(rw.last_run)

    assert proof.ok, proof
    assert apps.CALLS == {"measure": 1}
    with pytest.raises(LookupError):
        rw.run()
    assert apps.CALLS["weigh_tool"] == 1  # a failure is cached for nobody


def test_calls_inside_a_tool_are_its_children_and_are_not_made_when_it_is_played_back(
    provider, store
):
    chat = ChatModel(provider.base_url, "toy")

    @tool
    def research(topic: str) -> str:
        return chat.chat(f"about {topic}").text

    @action(reads=[], writes=["a"])
    def work(state: State) -> State:
        return state.update(a=research("tea"), b=chat.chat("outside").text)

    app = ApplicationBuilder().with_actions(work).with_entrypoint("work").build()
    rw = Rewind(app, store=store)
    run = rw.run()

    tool_call = next(c for c in run[0].calls if c.kind == "tool")
    child = next(
        c for c in run[0].calls if c.kind == "model" and "about" in c.messages[-1]["content"]
    )
    assert child.parent == tool_call.index
    fork = rw.fork(run, 0, reuse="none")
    assert len(fork[0].calls) == 2
    assert provider.count == 2
    assert fork.state == run.state


def test_tool_key_leaves_out_what_cannot_be_stored_or_changes_each_time(store):
    @tool(key=lambda client, query, at: query)
    def search(client, query, at):
        apps.ran("search")
        return f"{query} at {at > 0}"

    @action(reads=[], writes=["a"])
    def work(state: State) -> State:
        return state.update(a=search(object(), "tea", time.time()))

    app = ApplicationBuilder().with_actions(work).with_entrypoint("work").build()
    rw = Rewind(app, store=store)
    run = rw.run()
    assert rw.fork(run, 0).state == run.state
    assert rw.run().state == run.state
    assert apps.CALLS["search"] == 1


def test_a_tool_argument_that_cannot_be_stored_is_refused_with_its_path_and_a_way_out(store):
    @tool
    def search(client, query):
        return query

    @action(reads=[], writes=["a"])
    def work(state: State) -> State:
        return state.update(a=search({"inner": object()}, "tea"))

    app = ApplicationBuilder().with_actions(work).with_entrypoint("work").build()
    with pytest.raises(NotEncodableError, match=r"client\.inner") as caught:
        Rewind(app, store=store).run()
    assert any("key=" in note for note in caught.value.__notes__)


def test_a_method_is_a_tool_too_and_its_object_is_no_argument(store):
    class Desk:
        @tool
        def find(self, word: str) -> str:
            apps.ran("find")
            return word[::-1]

    desk = Desk()
    assert desk.find("abc") == "cba"

    @action(reads=[], writes=["a"])
    def work(state: State) -> State:
        return state.update(a=desk.find("tea"))

    app = ApplicationBuilder().with_actions(work).with_entrypoint("work").build()
    rw = Rewind(app, store=store)
    run = rw.run()
    assert run[0].calls[0].request["args"] == {"word": "tea"}
    assert rw.fork(run, 0).state["a"] == "aet"
    assert apps.CALLS["find"] == 2


def test_the_object_of_a_method_is_known_by_what_it_is_and_not_by_the_name_of_a_parameter(store):
    class Desk:
        @tool
        def find(this, word):  # noqa: N805
            return [word]

        @classmethod
        @tool
        def sort(kind, word):  # noqa: N804
            return [word, kind.__name__]

        @staticmethod
        @tool
        def both(self, word):
            return [self, word]

        @staticmethod
        @tool
        def name_of(self):
            return type(self).__name__

        __rewind_refuse__ = "a desk is no value"

    class Larger(Desk):
        pass

    @tool
    def outside(self, word):
        return [self, word]

    desk = Larger()
    seen = SimpleNamespace(first=1)

    @action(reads=[], writes=["a"])
    def work(state: State) -> State:
        found = [desk.find("x"), Larger.sort("x"), desk.both(seen.first, "x")]
        return state.update(a=[*found, outside(seen.first, "x")])

    app = ApplicationBuilder().with_actions(work).with_entrypoint("work").build()
    rw = Rewind(app, store=store)
    run = rw.run()
    asked = [call.request["args"] for call in run[0].calls]
    assert asked == [{"word": "x"}, {"word": "x"}, *[{"self": 1, "word": "x"}] * 2]
    assert rw.replay(run).require()
    seen.first = 2  # other arguments: another question
    assert rw.fork(run, 0, reuse="none").state["a"][2:] == [[2, "x"], [2, "x"]]

    static = ApplicationBuilder().with_entrypoint("ask")
    asking = action(reads=[], writes=["a"])(lambda state: state.update(a=Desk.name_of(desk)))
    with pytest.raises(NotEncodableError):  # an instance is an argument of a static method
        Rewind(static.with_actions(ask=asking).build(), store=store).run()


# -- clock, random, uuid ----------------------------------------------------------------------


def test_now_random_and_uuid4_are_played_back_in_forks_and_replays_and_not_in_new_runs(store):
    @action(reads=[], writes=["at", "r", "u"])
    def draw(state: State) -> State:
        return state.update(at=now(), r=[random(), random()], u=uuid4())

    app = ApplicationBuilder().with_actions(draw).with_entrypoint("draw").build()
    rw = Rewind(app, store=store)
    run = rw.run()

    assert rw.fork(run, 0).state == run.state
    assert rw.replay(run).ok
    assert rw.run().state["r"] != run.state["r"]
    assert rw.fork(run, 0, cache="refresh").state["u"] != run.state["u"]


def test_outside_a_step_nothing_is_captured(provider):
    assert ChatModel(provider.base_url, "toy").chat("hi").json()["n"] == 1
    assert 0 <= random() < 1
    assert httpx is not None


# -- overrides and interrupts --------------------------------------------------------------------


def test_a_fork_interrupted_before_its_overridden_call_still_gets_it_when_resumed(provider, store):
    chat = ChatModel(provider.base_url, "toy")
    stop = SimpleNamespace(armed=False)

    @action(reads=[], writes=["said"])
    def talk(state: State) -> State:
        first = chat.chat("first").json()
        if stop.armed:
            stop.armed = False
            raise KeyboardInterrupt
        return state.update(said=[first, chat.chat("second").json()])

    rw = Rewind(
        ApplicationBuilder().with_actions(talk).with_entrypoint("talk").build(), store=store
    )
    run = rw.run()
    stop.armed = True
    with pytest.raises(KeyboardInterrupt):
        rw.fork(run, 0, prompt="other", call=1)
    interrupted = rw.last_run
    assert interrupted.status == "interrupted"

    fork = rw.resume(interrupted)

    assert fork.status == "complete"
    assert fork.state["said"][1]["echo"] == "other"
    assert fork.state["said"][0] == run.state["said"][0]
    assert rw.replay(fork).ok
    stop.armed = True
    with pytest.raises(KeyboardInterrupt):
        rw.fork(run, 0, response='{"mine": 1}', call=1)
    again = rw.resume(rw.last_run)
    assert again.state["said"][1] == {"mine": 1}
    assert rw.replay(again).ok


def stoppable(provider, store):
    """An application that asks twice, and may be stopped in between."""
    chat = ChatModel(provider.base_url, "toy")
    stop = SimpleNamespace(armed=True)

    @action(reads=[], writes=["said"])
    def talk(state: State) -> State:
        first = chat.chat("first").json()["n"]
        if stop.armed:
            raise KeyboardInterrupt
        return state.update(said=[first, chat.chat("second").json()["n"]])

    rw = Rewind(
        ApplicationBuilder().with_actions(talk).with_entrypoint("talk").build(), store=store
    )
    return rw, stop


def test_an_interrupted_step_plays_back_the_answers_it_had_when_resumed(provider, store):
    rw, stop = stoppable(provider, store)
    with pytest.raises(KeyboardInterrupt):
        rw.run()
    stop.armed = False
    run = rw.resume(rw.last_run)

    assert run.state["said"] == [1, 2]
    assert provider.count == 2
    assert [c.source for c in run[0].calls] == ["cache", "live"]


@pytest.mark.parametrize("mode", ["refresh", "off"])
def test_an_interrupted_step_plays_back_its_own_answers_in_every_mode(provider, store, mode):
    rw, stop = stoppable(provider, store)
    stop.armed = False
    rw.run(cache=mode)
    stop.armed = True
    with pytest.raises(KeyboardInterrupt):
        rw.run(cache=mode)
    stop.armed = False
    run = rw.resume(rw.last_run)

    assert run.state["said"] == [3, 4]
    assert [c.source for c in run[0].calls] == ["cache", "live"]


def test_an_unchanged_fork_of_a_fork_that_overrode_a_call_inside_a_tool_fires_nothing(
    provider, store
):
    chat, fired = ChatModel(provider.base_url, "toy"), []

    @tool
    def book(seat: int) -> int:
        fired.append(seat)
        return seat + chat.chat(f"seat {seat}").json()["n"]

    @action(reads=["seat"], writes=["paid"])
    def pay(state: State) -> State:
        return state.update(paid=book(state["seat"]))

    app = ApplicationBuilder().with_actions(pay).with_state(seat=3).with_entrypoint("pay").build()
    rw = Rewind(app, store=store)
    fork = rw.fork(rw.run(), 0, response='{"n": 70}')
    assert (fork.state["paid"], len(fired)) == (73, 2)

    again = rw.fork(fork, 0, reuse="none")
    assert (again.state["paid"], len(fired)) == (73, 2)
    assert rw.replay(again).ok
    other = rw.fork(fork, 0, state={"seat": 4})
    assert (other.state["paid"], len(fired)) == (74, 3)


def test_a_method_that_changes_its_object_is_played_back_all_the_same(store):
    class Desk:
        def __init__(self):
            self.asked = []

        @tool
        def ask(self, what):
            self.asked.append(what)
            return len(self.asked)

    desk = Desk()

    @action(reads=["what"], writes=["n", "m"])
    def look(state: State) -> State:
        return state.update(n=desk.ask(state["what"]), m=desk.ask("again"))

    app = (
        ApplicationBuilder()
        .with_actions(look)
        .with_state(what="tea")
        .with_entrypoint("look")
        .build()
    )
    rw = Rewind(app, store=store)
    run = rw.run()
    assert rw.replay(run).require()
    fork = rw.fork(run, 0, reuse="none")
    assert fork.state == run.state
    assert desk.asked == ["tea", "again"]
    assert rw.run().state["n"] == 3
