"""Where runs and forks stop, what inputs their steps get, and how they go on."""

import random
from types import SimpleNamespace

import apps
import pytest
from burr.core import ApplicationBuilder, State, action, default, expr, when

from rewind_nb import Rewind
from rewind_nb.errors import ConfigError, RunBusyError, StepLimitError

HALTS = ("halt_after", "halt_before")


def names(run):
    return [s.action for s in run.steps]


def test_a_run_stops_after_and_before_what_it_is_told(store):
    rw = Rewind(apps.human_app(), store=store)

    before = rw.run(halt_before=["hear"], inputs={"topic": "x"})
    after = rw.run(halt_after=["ask"], inputs={"topic": "x"})

    assert names(before) == names(after) == ["ask"]
    assert before.status == "halted"
    assert before.next_action == "hear"


def test_the_first_action_executes_even_if_it_is_to_be_halted_before(store):
    rw = Rewind(apps.human_app(), store=store)
    run = rw.run(halt_before=["ask", "hear"], inputs={"topic": "x"})

    assert names(run) == ["ask"]


def test_a_tag_names_its_actions(store):
    @action(reads=[], writes=["a"], tags=["stop-here"])
    def one(state: State) -> State:
        return state.update(a=1)

    @action(reads=[], writes=["b"])
    def two(state: State) -> State:
        return state.update(b=1)

    app = (
        ApplicationBuilder()
        .with_actions(one, two)
        .with_transitions(("one", "two"))
        .with_entrypoint("one")
        .build()
    )
    assert names(Rewind(app, store=store).run(halt_after=["@tag:stop-here"])) == ["one"]


def test_an_unknown_halt_condition_is_refused_with_near_misses(store):
    rw = Rewind(apps.human_app(), store=store)

    with pytest.raises(ConfigError, match="Did you mean 'hear'"):
        rw.run(halt_after=["heer"])
    with pytest.raises(ConfigError, match=r"\['hear'\]"):
        rw.run(halt_after="hear")
    assert store.runs() == []


def test_a_run_that_halts_for_a_human_and_is_resumed_is_one_run(store):
    rw = Rewind(apps.human_app(), store=store)
    run = apps.run_human_app(rw)

    assert len(store.runs()) == 1
    assert names(run) == ["ask", "hear", "weigh", "ask", "hear", "weigh", "close"]
    assert [s.inputs for s in run.steps if s.action == "hear"] == [
        {"reply": "no"},
        {"reply": " by bus "},
    ]
    assert run.state["minutes"] == "What about buses? by bus"


def test_resuming_a_question_without_its_answer_halts_again_and_takes_no_old_answer(store):
    rw = Rewind(apps.human_app(), store=store)
    run = rw.run(halt_before=["hear"], inputs={"topic": "trains"})
    run = rw.resume(run, inputs={"reply": "no", "topic": "buses"}, halt_before=["hear"])

    again = rw.resume(run)
    assert (again.status, again.next_action, len(again)) == ("halted", "hear", len(run))
    assert "'reply'" in again.note


def test_a_fork_passes_its_parents_earlier_halts_with_the_recorded_inputs(store):
    rw = Rewind(apps.human_app(), store=store)
    run = apps.run_human_app(rw)

    fork = rw.fork(run, 0, inputs={"topic": "boats"})

    assert names(fork) == names(run)
    assert fork["hear", 1].inputs == {"reply": "no"}
    assert fork["ask", 2].inputs == {"topic": "buses"}
    assert fork["ask", 1].inputs == {"topic": "boats"}
    assert fork.status == "complete"
    assert rw.replay(fork).ok


def test_a_fork_stops_at_its_parents_last_halt_conditions(store):
    rw = Rewind(apps.human_app(), store=store)
    run = rw.run(halt_before=["hear"], inputs={"topic": "trains"})
    run = rw.resume(run, inputs={"reply": "no", "topic": "buses"}, halt_before=["hear"])

    fork = rw.fork(run, ("hear", 1), inputs={"reply": "not yet"}, halt_after=["weigh"])
    same = rw.fork(run, ("hear", 1))

    assert names(fork) == ["ask", "hear", "weigh"]
    assert names(same) == names(run)
    assert same.status == "halted"
    assert same.next_action == "hear"


def test_a_fork_that_needs_an_input_the_recording_lacks_halts_there_and_can_go_on(store):
    rw = Rewind(apps.human_app(), store=store)
    run = rw.run(halt_before=["hear"], inputs={"topic": "trains"})
    run = rw.resume(run, inputs={"reply": "by bus"}, halt_after=["close"])
    assert run.status == "complete"

    fork = rw.fork(run, "hear", inputs={"reply": "no"})

    assert names(fork) == ["ask", "hear", "weigh"]
    assert fork.status == "halted"
    assert fork.next_action == "ask"
    assert "topic" in repr(fork)
    done = rw.resume(fork, inputs={"topic": "boats", "reply": "by boat"}, halt_after=["close"])
    assert done.id == fork.id
    assert done.state["minutes"] == "What about boats? by boat"
    assert rw.replay(done).ok
    assert store.verify().ok


def test_a_fork_may_be_resumed_by_another_rewind_of_the_same_application(store):
    run = Rewind(apps.human_app(), store=store).run(halt_before=["hear"], inputs={"topic": "x"})

    again = Rewind(apps.human_app(), store=store).resume(run.id[:8], inputs={"reply": "a train"})

    assert again.status == "complete"


def test_a_fork_that_no_longer_ends_is_stopped(store):
    rw = Rewind(apps.loop_app(), store=store)
    run = rw.run(inputs={"by": 1})

    with pytest.raises(StepLimitError, match="max_steps"):
        rw.fork(run, 0, output={"n": -100}, max_steps=7)

    assert rw.last_run.status == "failed"
    assert len(rw.last_run) == 8  # the override's own step executes nothing


def test_a_run_that_is_running_is_not_forked_replayed_or_resumed(store):
    rw = Rewind(apps.loop_app(), store=store)
    refused = []

    def watch(event):
        if event.name == "step_ended" and not refused:
            for verb in (lambda r: rw.fork(r, 0), rw.replay, rw.resume):
                try:
                    verb(rw.store.run(event.run_id))
                except RunBusyError as error:
                    refused.append(str(error))

    rw.on(watch)
    run = rw.run(inputs={"by": 1})

    assert len(refused) == 3
    assert "still running" in refused[0]
    assert run.status == "complete"
    assert rw.fork(run, 0).status == "complete"


def test_states_to_start_with_replace_the_applications(store):
    rw = Rewind(apps.loop_app(), store=store)
    run = rw.run(state={"n": 2, "extra": (1,)}, inputs={"by": 1})

    assert names(run) == ["count", "report"]
    assert run.state_at(0)["extra"] == (1,)
    assert rw.replay(run).ok


def test_a_builder_is_called_for_each_run(store):
    built = []

    def make():
        built.append(1)
        return apps.loop_app()

    rw = Rewind(make, store=store)
    first = len(built)
    run = rw.run(inputs={"by": 1})
    rw.fork(run, 1)

    assert len(built) == first + 2


def test_what_is_no_application_is_refused_with_what_to_pass(store):
    with pytest.raises(ConfigError, match="built Burr application"):
        Rewind(3, store=store)
    with pytest.raises(ConfigError, match="returned int"):
        Rewind(lambda: 3, store=store)
    with pytest.raises(ConfigError, match="cache mode"):
        Rewind(apps.loop_app(), store=store, cache="maybe")
    with pytest.raises(ConfigError, match="Did you mean 'count'"):
        Rewind(apps.loop_app(), store=store, always_run=["cuont"])
    rw = Rewind(apps.loop_app(), store=store)
    run = rw.run(inputs={"by": 1})
    with pytest.raises(ConfigError, match="reuse="):
        rw.fork(run, 0, reuse="maybe")


def test_a_run_of_another_application_is_refused_by_name(store):
    from rewind_nb.errors import StepNotFoundError

    run = Rewind(apps.loop_app(), store=store).run(inputs={"by": 1})
    other = Rewind(apps.branch_app(), store=store)

    for verb in (lambda: other.fork(run, 0), lambda: other.replay(run)):
        with pytest.raises(StepNotFoundError, match="does not have"):
            verb()


def test_an_application_that_was_advanced_already_goes_on_from_there(store):
    app = apps.loop_app()
    app.step(inputs={"by": 1})
    rw = Rewind(app, store=store)

    run = rw.run(inputs={"by": 1})

    assert [s.writes.get("n") for s in run.steps] == [2, 3, None]
    assert rw.replay(run).ok
    assert rw.fork(run, 0).state == run.state


def test_a_patch_goes_into_what_was_recorded(store):
    @action(reads=[], writes=["report"])
    def make(state: State) -> tuple[dict, State]:
        apps.ran("make")
        groups = {"A": {"total": 3}, "B": {"total": 4}}
        return {"report": groups, "other": 1}, state.update(report=groups)

    @action(reads=["report"], writes=["sum"])
    def add(state: State) -> State:
        return state.update(sum=sum(g["total"] for g in state["report"].values()))

    app = (
        ApplicationBuilder()
        .with_actions(make, add)
        .with_transitions(("make", "add", when(sum=0)), ("make", "add", default))
        .with_state(sum=1)
        .with_entrypoint("make")
        .build()
    )
    rw = Rewind(app, store=store)
    run = rw.run()
    apps.CALLS.clear()

    short = rw.fork(run, "make", patch={"report.A.total": 10})
    long = rw.fork(run, "make", patch=[{"op": "replace", "path": "/report/A/total", "value": 10}])
    called = rw.fork(run, "make", patch=lambda out: {"report.A.total": out["report"]["B"]["total"]})

    assert short.state == long.state
    assert short.state["sum"] == 14
    assert called.state["sum"] == 8
    assert not apps.CALLS
    assert short["make"].result == {"report": {"A": {"total": 10}, "B": {"total": 4}}, "other": 1}
    assert short.override_words == long.override_words == "replace report.A.total = 10"
    assert called.override_words.endswith("(callback)")
    diff = rw.diff(run, short)
    assert diff.divergence.path == "report.A.total"
    assert [c.path for c in diff.changes] == ["report.A.total", "sum"]
    assert diff.changes[1].cause == "read 'report' (step 0 'make')"
    assert [link.action for link in diff.why("sum")[0]] == ["make", "add"]


def test_a_label_that_is_no_text_is_refused(store):
    rw = Rewind(apps.loop_app(), store=store)

    for label in ("\udcff", 3):
        with pytest.raises(ConfigError, match="label="):
            rw.run(label=label)
    assert rw.run(label="naïve 🚆", inputs={"by": 1}).label == "naïve 🚆"


def test_a_fork_that_was_interrupted_goes_on_through_its_parents_earlier_halts(store):
    stop = SimpleNamespace(armed=False)

    @action(reads=["question"], writes=["answer"])
    def hear(state: State, reply: str) -> State:
        if stop.armed:
            stop.armed = False
            raise KeyboardInterrupt
        return state.update(answer=reply)

    app = (
        ApplicationBuilder()
        .with_actions(apps.ask, hear, apps.weigh, apps.close)
        .with_transitions(
            ("ask", "hear"),
            ("hear", "weigh"),
            ("weigh", "close", when(done=True)),
            ("weigh", "ask", default),
        )
        .with_entrypoint("ask")
        .with_state(turns=0)
        .build()
    )
    rw = Rewind(app, store=store)
    run = apps.run_human_app(rw)
    stop.armed = True
    with pytest.raises(KeyboardInterrupt):
        rw.fork(run, 0, reuse="none")

    fork = rw.resume(rw.last_run)

    assert names(fork) == names(run)
    assert fork.state == run.state
    assert rw.replay(fork).ok


@action(reads=[], writes=["kind"])
def take(state: State, kind: str) -> State:
    return state.update(kind=kind)


@action(reads=["kind"], writes=["said"])
def answer(state: State) -> State:
    return state.append(said=state["kind"])


def test_a_fork_whose_turn_ends_in_another_action_goes_on_to_the_turns_after_it(store):
    app = (
        ApplicationBuilder()
        .with_actions(take=take, prose=answer, poem=answer)
        .with_transitions(
            ("take", "poem", when(kind="poem")), ("take", "prose", default),
            (["prose", "poem"], "take"),
        )
        .with_state(said=[])
        .with_entrypoint("take")
        .build()
    )  # fmt: skip
    rw, ends = Rewind(app, store=store), ["prose", "poem"]
    run = rw.run(halt_after=ends, inputs={"kind": "prose"})
    run = rw.resume(run, inputs={"kind": "poem"}, halt_after=ends)
    run = rw.resume(run, inputs={"kind": "prose"}, halt_after=ends)
    fork = rw.fork(run, ("take", 1), inputs={"kind": "poem"})

    assert names(run) == ["take", "prose", "take", "poem", "take", "prose"]
    assert names(fork) == ["take", "poem", "take", "poem", "take", "prose"]
    assert (fork.status, fork.state["said"]) == ("halted", ["poem", "poem", "prose"])
    assert rw.replay(fork).ok


def ring_app(names, rounds):
    """Actions one after the other, round and round."""

    def step(_name):
        @action(reads=["n"], writes=["n"])
        def one(state: State) -> State:
            return state.update(n=state["n"] + 1)

        return one

    return (
        ApplicationBuilder()
        .with_actions(**{name: step(name) for name in [*names, "stop"]})
        .with_transitions(
            (names[-1], "stop", expr(f"n >= {rounds * len(names)}")),
            *zip(names, [*names[1:], names[0]], strict=True),
        )
        .with_state(n=0)
        .with_entrypoint(names[0])
        .build()
    )


@pytest.mark.parametrize("seed", range(12))
def test_an_unchanged_fork_of_any_sequence_of_calls_is_the_whole_run(store, seed):
    draw = random.Random(seed)
    names_ = ["ask", "answer", "rate"]
    rw = Rewind(ring_app(names_, 3), store=store)

    def halts():
        return {which: draw.sample(names_, draw.randint(0, 1)) for which in HALTS}

    run = rw.run(**halts())
    for _ in range(draw.randint(0, 4)):
        if run.status == "halted":
            run = rw.resume(run, **halts())
    for parent in (run, rw.fork(run, draw.randrange(len(run)), reuse="none", **halts())):
        for at in range(len(parent)):
            fork = rw.fork(parent, at, reuse="none")
            assert names(fork) == names(parent)
            assert (fork.status, fork.next_action) == (parent.status, parent.next_action)


def test_an_earlier_halt_of_the_other_kind_does_not_stop_a_fork(store):
    rw = Rewind(ring_app(["ask", "answer"], 2), store=store)
    run = rw.run(halt_after=["answer"])
    run = rw.resume(run, halt_before=["answer"])

    assert names(rw.fork(run, 0, reuse="none")) == names(run) == ["ask", "answer", "ask"]
