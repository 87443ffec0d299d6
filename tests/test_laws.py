"""The laws of the design, each a test with the law as its name.

`tests/mutants/` breaks each law once, on purpose, and `pytest -m mutants` proves that its
test notices.
"""

import asyncio
import datetime as dt
import hashlib
import json
import math
import socket
from pathlib import Path

import apps
import fake_provider as fp
import pytest
from burr.core import ApplicationBuilder, State, action

from rewind_nb import ChatModel, Rewind, Secret, Store, artifact, tool
from rewind_nb.errors import (
    CacheMissError,
    NotEncodableError,
    OverrideError,
    ReplayDivergedError,
    RewindError,
    RunNotFoundError,
    StepFailure,
    StepNotFoundError,
)


def build(*functions, **state):
    """The functions in a line."""
    names = [f"s{i}" for i in range(len(functions))]
    named = dict(zip(names, functions, strict=True))
    pairs = list(zip(names, names[1:], strict=False))
    return (
        ApplicationBuilder()
        .with_actions(**named)
        .with_transitions(*pairs)
        .with_state(**state)
        .with_entrypoint(names[0])
        .build()
    )


def draws(seen):
    """A provider that never says the same twice."""
    draws.n += 1
    return fp.reply(fp.chat_completion(json.dumps({"n": draws.n, "saw": seen.prompt})))


draws.n = 0


def test_law_01_the_recording_is_taken_around_the_action_itself_never_from_burrs_hooks(store):
    """Under arun, Burr 0.43 hands its hooks the state before a sync action."""
    from burr.lifecycle import PostRunStepHookAsync

    seen = []

    class Watch(PostRunStepHookAsync):
        async def post_run_step(self, *, state, **future_kwargs):
            seen.append(state["n"])

    @action(reads=["n"], writes=["n"])
    def add(state: State) -> State:
        return state.update(n=state["n"] + 1)

    app = (
        ApplicationBuilder()
        .with_actions(add)
        .with_state(n=0)
        .with_entrypoint("add")
        .with_hooks(Watch())
        .build()
    )

    run = asyncio.run(Rewind(app, store=store).arun())

    assert seen == [0], "Burr no longer lies here: look at the law again"
    assert run[0].writes == {"n": 1}
    assert run.state == {"n": 1}


def test_law_02_state_is_semantic_only(store):
    """No run id, path, cost or override in what an action sees, writes or hashes to."""

    @action(reads=[], writes=["prompt"])
    def dump(state: State) -> State:
        return state.update(prompt=json.dumps(state.get_all(), sort_keys=True))

    @action(reads=[], writes=["all"])
    def look(state: State) -> State:
        artifact("a.txt", state["prompt"])
        return state.update(all=sorted(state))

    rw = Rewind(build(dump, look, topic="tea"), store=store)
    run = rw.run()
    fork = rw.fork(run, 0, state={"topic": "tea "})
    again = rw.run(cache="refresh")

    assert run.state["all"] == ["prompt", "topic"]
    assert json.loads(run.state["prompt"]) == {"topic": "tea"}
    assert [s.hash for s in again.steps] == [s.hash for s in run.steps]
    assert set(fork.state) == set(run.state)
    for key in (run.id, fork.id, "__PRIOR_STEP", "__SEQUENCE_ID"):
        assert key not in json.dumps(fork.state)


def test_law_03_a_value_is_snapshotted_at_the_step_boundary(store):
    kept = []

    @action(reads=[], writes=["items"])
    def make(state: State) -> State:
        kept.append([1])
        return state.update(items=kept[-1])

    @action(reads=["items"], writes=["n"])
    def spoil(state: State) -> State:
        kept[-1].append("later")
        return state.update(n=len(state["items"]))

    run = Rewind(build(make, spoil), store=store).run()
    kept[-1].append("later still")

    assert run["s0"].writes == {"items": [1]}
    assert run.state == {"items": [1], "n": 1}


def test_law_04_every_recorded_value_comes_back_exactly(store):
    value = {
        "b": math.nan,
        "a": (1, 1.0, True, None, b"\x00\xff"),
        3: dt.datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=dt.UTC),
        "s": {"\ud800", "x"},
    }

    @action(reads=["given"], writes=["given", "kinds"])
    def pass_on(state: State) -> State:
        kinds = [type(v).__name__ for v in state["given"].values()]
        return state.update(given=state["given"], kinds=kinds)

    run = Rewind(build(pass_on, given=value), store=store).run()
    back = run.state["given"]

    assert list(back) == ["b", "a", 3, "s"]
    assert math.isnan(back["b"])
    assert [type(v) for v in back["a"]] == [int, float, bool, type(None), bytes]
    assert back["a"] == value["a"]
    assert back[3] == value[3]
    assert back[3].fold == 1
    assert back["s"] == value["s"]
    assert run.state["kinds"] == ["float", "tuple", "datetime", "set"]


def test_law_04_what_cannot_be_encoded_is_refused_with_its_path(store):
    @action(reads=[], writes=["messages"])
    def bad(state: State) -> State:
        return state.update(messages=[{"text": "a"}, {"image": object()}])

    with pytest.raises(NotEncodableError) as caught:
        Rewind(build(bad), store=store).run()

    assert "messages[1].image: object" in str(caught.value)
    assert "0x" not in str(caught.value)


def test_law_05_an_override_is_consumed_or_it_is_an_error(store):
    rw = Rewind(apps.branch_app(), store=store)
    run = rw.run()
    apps.CALLS.clear()
    before = len(store.runs())

    with pytest.raises(OverrideError, match="'fare', 'booking'|fare"):
        rw.fork(run, "summarise", state={"fare": 1})
    with pytest.raises(OverrideError, match="exactly one"):
        rw.fork(run, "judge", state={"fare": 1}, output={"verdict": "dear"})
    with pytest.raises(OverrideError, match="Did you mean 'verdict'"):
        rw.fork(run, "judge", output={"verdikt": "dear"})

    assert not apps.CALLS
    assert len(store.runs()) == before


def test_law_06_a_fork_never_changes_its_parent(tmp_path):
    path = tmp_path / "runs.db"
    with Store(path) as store:
        rw = Rewind(apps.loop_app(), store=store)
        run = rw.run(inputs={"by": 1})
        before = rows_of(store, run.id)
        for at in range(len(run)):
            rw.fork(run, at, output={k: v for k, v in run[at].writes.items() if k != "log"})
            rw.fork(run, at)
        assert rows_of(store, run.id) == before
        assert store.verify().ok


def rows_of(store, run_id):
    """Everything the store holds of a run, byte for byte."""

    def read(connection):
        found = {}
        for table, column in (("runs", "id"), ("steps", "run_id"), ("calls", "run_id")):
            query = f"SELECT * FROM {table} WHERE {column} = ? ORDER BY 1, 2, 3, 4"
            found[table] = connection.execute(query, (run_id,)).fetchall()
        return found

    store.flush()
    found = store.read(read)
    assert found["runs"]
    assert found["steps"]
    return hashlib.sha256(repr(found).encode()).hexdigest()


def test_law_07_a_step_whose_inputs_and_code_did_not_change_is_not_executed(store):
    """Downstream of the override: its recorded writes are applied."""
    executed, ending = [], "."

    @action(reads=[], writes=["fare", "seat"])
    def offer(state: State) -> State:
        executed.append("offer")
        return state.update(fare=450, seat="12A")

    @action(reads=["fare"], writes=["verdict"])
    def judge(state: State) -> State:
        executed.append("judge")
        return state.update(verdict="cheap" if state["fare"] < 500 else "dear")

    @action(reads=["seat"], writes=["row"])
    def find(state: State) -> State:
        executed.append("find")
        return state.update(row=int(state["seat"][:-1]))

    @action(reads=["verdict", "row"], writes=["line"])
    def write(state: State) -> State:
        executed.append("write")
        return state.update(line=f"{state['verdict']}, row {state['row']}{ending}")

    rw = Rewind(build(offer, judge, find, write), store=store)
    run = rw.run()
    executed.clear()
    line = "cheap, row 12."

    cheaper = rw.fork(run, "s0", output={"fare": 300})
    assert executed == ["judge"]  # and comes to what it came to before
    assert cheaper.state == {
        "fare": 300,
        "seat": "12A",
        "verdict": "cheap",
        "row": 12,
        "line": line,
    }
    dear = rw.fork(run, "s0", output={"fare": 900})
    assert executed == ["judge", "judge", "write"]
    assert dear.state == {**cheaper.state, "fare": 900, "verdict": "dear", "line": "dear, row 12."}
    seated = rw.fork(run, "s0", output={"seat": "3C"})
    assert executed[3:] == ["find", "write"]
    assert seated.state["line"] == "cheap, row 3."

    ending = "!"
    edited = rw.fork(run, "s0", output={"fare": 300}, allow_code_change=True)
    assert executed[5:] == ["judge", "write"]
    assert edited.state["line"] == "cheap, row 12!"


def test_law_08_identical_calls_repeated_in_one_run_stay_distinct(store):
    with fp.FakeProvider(then=draws) as provider:
        chat = ChatModel(provider.base_url, "toy")

        @action(reads=[], writes=["drafts"])
        def sample(state: State) -> State:
            return state.update(drafts=[chat.chat("same").json()["n"] for _ in range(3)])

        rw = Rewind(build(sample), store=store)
        run = rw.run()

        assert len(set(run.state["drafts"])) == 3
        assert rw.fork(run, 0).state["drafts"] == run.state["drafts"]
        assert rw.run().state["drafts"] == run.state["drafts"]
        assert rw.replay(run).ok
        assert provider.count == 3


def test_law_09_a_run_is_never_served_its_own_entries_while_it_records(store):
    with fp.FakeProvider(then=draws) as provider:
        chat = ChatModel(provider.base_url, "toy")

        @action(reads=["n"], writes=["n", "said"])
        def sample(state: State, fail: bool = False) -> State:
            said = chat.chat("same").json()["n"]
            if fail:
                raise RuntimeError("after the answer")
            return state.update(n=state["n"] + 1, said=said)

        rw = Rewind(build(sample, n=0), store=store)
        with pytest.raises(RuntimeError):
            rw.run(inputs={"fail": True})
        first = rw.last_run[0].calls[0].response
        run = rw.resume(rw.last_run, inputs={"fail": False})

        assert provider.count == 2
        assert run[0].calls[0].response != first


def test_law_09_a_live_miss_during_a_replay_is_an_error_before_any_byte_leaves(store):
    word = ["same"]
    with fp.FakeProvider(then=draws) as provider:
        chat = ChatModel(provider.base_url, "toy")

        @action(reads=[], writes=["said"])
        def ask(state: State) -> State:
            try:
                said = chat.chat(word[0]).json()["n"]
            except CacheMissError:
                said = 1  # an application that swallows it proves nothing
            return state.update(said=said)

        draws.n = 0
        rw = Rewind(build(ask), store=store)
        run = rw.run()
        word[0] = "other"
        proof = rw.replay(run)

        assert provider.count == 1
        assert not proof.ok
        assert "was not recorded" in proof.divergence.why


def test_law_10_only_complete_well_formed_responses_are_played_back_to_other_runs(store):
    bad = [
        fp.reply({"choices": []}),
        fp.reply(fp.chat_completion("")),
        fp.status(404),
        fp.truncated(),
        fp.garbage(),
    ]
    for behaviour in bad:
        with fp.FakeProvider(behaviour, then=draws) as provider:
            chat = ChatModel(provider.base_url, "toy", max_retries=0)

            @action(reads=[], writes=["said"])
            def ask(state: State, chat=chat) -> State:
                return state.update(said=chat.chat("q").json()["n"])

            rw = Rewind(build(ask.bind(chat=chat)), store=Store(":memory:"))
            with pytest.raises(StepFailure):
                rw.run()
            failed = rw.last_run
            run = rw.run()

            assert run.status == "complete", behaviour
            assert provider.count == 2, behaviour
        assert rw.replay(failed).ok, behaviour


def test_law_11_a_step_that_failed_fails_loudly(store):
    @action(reads=[], writes=["a"])
    def unusable(state: State) -> State:
        raise StepFailure("unusable", "no verdict in the answer", raw="Sure! Here is...")

    rw = Rewind(build(unusable), store=store)

    with pytest.raises(StepFailure) as caught:
        rw.run()

    assert type(caught.value) is StepFailure
    assert caught.value.raw == "Sure! Here is..."
    assert any(rw.last_run.id in note and "'s0'" in note for note in caught.value.__notes__)
    assert rw.last_run.status == "failed"
    assert rw.last_run[0].error.raw == "Sure! Here is..."


def test_law_12_a_missing_run_step_or_row_raises(store):
    rw = Rewind(apps.loop_app(), store=store)
    run = rw.run(inputs={"by": 1})

    with pytest.raises(RunNotFoundError, match="r_"):
        rw.fork("r_nothere", 0)
    with pytest.raises(StepNotFoundError, match="Did you mean 'count'"):
        rw.fork(run, "cuont")
    with pytest.raises(StepNotFoundError, match="3 time"):
        rw.fork(run, ("count", 4))
    with pytest.raises(StepNotFoundError, match="numbered 0 to 3"):
        rw.replay(run, start=9)
    with pytest.raises(RewindError):
        Store("/nowhere/at/all.db", read_only=True)
    assert len(store.runs()) == 1


def test_law_13_secrets_never_reach_a_row_file_log_exception_or_repr(tmp_path, caplog, capfd):
    key = "sk-CANARY-0f1e2d3c4b5a6978"
    caplog.set_level(0)
    with fp.FakeProvider(fp.echo_key, then=draws) as provider, Store(tmp_path / "r.db") as store:
        chat = ChatModel(provider.base_url, "toy", api_key=Secret(key))

        @tool
        def look(where: str) -> str:
            return where

        @action(reads=[], writes=["said"])
        def ask(state: State) -> State:
            look("here")
            return state.update(said=chat.chat("q").text)

        rw = Rewind(build(ask), store=store)
        with pytest.raises(StepFailure) as caught:
            rw.run()
        run = rw.run()
        shown = [repr(rw), repr(run), repr(chat), repr(run[0].to_dict()), run._repr_html_()]
        error: BaseException | None = caught.value
        while error is not None:
            shown += [repr(error), str(getattr(error, "__notes__", "")), repr(vars(error))]
            error = error.__cause__ or error.__context__
        store.verify()
    shown.append(caplog.text)
    shown.extend(capfd.readouterr())
    for file in tmp_path.rglob("*"):
        if file.is_file():
            shown.append(file.read_bytes().decode("latin-1"))
    import base64

    for form in (key, base64.b64encode(key.encode()).decode(), key[::-1]):
        assert all(form not in text for text in shown)


def test_law_14_an_artifacts_identity_is_its_bytes(store, tmp_path, monkeypatch):
    @action(reads=["text"], writes=["made"])
    def publish(state: State) -> State:
        made = artifact("page.md", state["text"])
        return state.update(made={"name": made.name, "sha256": made.sha256})

    rw = Rewind(build(publish, text="hello"), store=store)
    run = rw.run()
    monkeypatch.setenv("REWIND_ARTIFACT_DIR", str(tmp_path / "elsewhere"))
    fork = rw.fork(run, 0)
    changed = rw.fork(run, 0, state={"text": "bye"})

    one, same, other = (r.artifacts[0] for r in (run, fork, changed))
    assert one.sha256 == hashlib.sha256(b"hello").hexdigest() == run.state["made"]["sha256"]
    assert one.bytes == b"hello" == Path(one.path).read_bytes()
    assert same.sha256 == one.sha256
    assert same.path != one.path
    assert same.source == "render-cache"
    assert fork[0].hash == run[0].hash
    assert other.sha256 != one.sha256
    assert other.source == "live"
    assert rw.replay(fork).ok


def test_law_15_unknown_is_unknown(store):
    def no_usage(seen):
        body = fp.chat_completion('{"n": 1}')
        body.pop("usage", None)
        return fp.reply(body)

    with fp.FakeProvider(draws, no_usage) as provider:
        chat = ChatModel(provider.base_url, "toy")

        @action(reads=[], writes=["said"])
        def ask(state: State) -> State:
            return state.update(said=[chat.chat("a").text, chat.chat("b").text])

        run = Rewind(build(ask), store=store).run()

    assert run[0].calls[0].usage.total_tokens > 0
    assert run[0].usage is None
    assert run.usage is None
    frame = run.steps_df()
    assert frame["input_tokens"].isna().all()


def test_law_16_a_replays_result_is_a_value_one_can_assert_on(store):
    limit = [2]

    @action(reads=["n"], writes=["n"])
    def add(state: State) -> State:
        return state.update(n=state["n"] + limit[0])

    rw = Rewind(build(add, add, n=0), store=store)
    run = rw.run()
    good = rw.replay(run)
    limit[0] = 3
    bad = rw.replay(run)

    assert good.require() is good
    assert bool(good)
    assert (good.identical, good.executed, good.live_calls, good.tokens) == (2, 2, 0, 0)
    assert not bad
    assert bad.identical == 0
    assert (bad.divergence.seq, bad.divergence.path) == (0, "n")
    assert (bad.divergence.before, bad.divergence.after) == (2, 3)
    with pytest.raises(ReplayDivergedError) as caught:
        bad.require()
    assert caught.value.proof is bad
    assert (good.run.kind, run.kind, rw.fork(run, 0, allow_code_change=True).kind) == (
        "replay",
        "record",
        "fork",
    )


def test_law_17_no_live_object_crosses_a_step_boundary(store):
    seen = []

    @action(reads=["items"], writes=["twin", "items"])
    def share(state: State) -> State:
        seen.append(state["items"])
        return state.update(twin=state["items"])

    @action(reads=["items", "twin"], writes=["same"])
    def compare(state: State) -> State:
        seen.extend([state["items"], state["twin"]])
        return state.update(same=state["items"] is state["twin"])

    given = [1, [2]]
    rw = Rewind(build(share, compare, items=given), store=store)
    run = rw.run()
    fork = rw.fork(run, 1)

    assert run.state["same"] is False
    assert fork.state == run.state
    identities = [id(x) for x in (given, *seen)]
    assert len(set(identities)) == len(identities)
    run.state["items"].append("mine")
    assert run.state["items"] == [1, [2]]


def test_law_18_using_the_package_opens_no_connection_but_the_applications(store, monkeypatch):
    asked = []
    real = socket.socket.connect

    def connect(self, address):
        asked.append(address)
        return real(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    rw = Rewind(apps.loop_app(), store=store)
    run = rw.run(inputs={"by": 1})
    fork = rw.fork(run, 1)
    rw.replay(fork)
    str(rw.diff(run, fork))
    run._repr_html_()
    run.steps_df()

    assert asked == []
