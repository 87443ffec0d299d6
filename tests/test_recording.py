"""What is recorded is what happened, also where an application bends Burr's rules."""

import asyncio
import dataclasses
import json
import logging

import apps
import pytest
from burr.core import Action, ApplicationBuilder, State, action, default, expr, when

from rewind_nb import Rewind, Secret, tool
from rewind_nb.errors import (
    CodeChangedError,
    NotEncodableError,
    NothingToResumeError,
    RunBusyError,
    SecretLeakError,
)


def one(fn, **state):
    """An application of two actions: *fn*, then one that reads everything."""

    @action(reads=[], writes=["seen"])
    def look(state: State) -> State:
        apps.ran("look")
        return state.update(seen=json.dumps(state.get_all(), default=repr))

    return (
        ApplicationBuilder()
        .with_actions(first=fn, look=look)
        .with_transitions(("first", "look"))
        .with_state(**state)
        .with_entrypoint("first")
        .build()
    )


# -- states -----------------------------------------------------------------------------


def test_a_sync_action_under_arun_is_recorded_with_the_state_after_it(store):
    rw = Rewind(apps.loop_app(), store=store)

    run = asyncio.run(rw.arun(inputs={"by": 1}))

    assert [s.writes.get("n") for s in run.steps] == [1, 2, 3, None]
    assert run.state["report"] == {"lines": 3, "odd": True}


def test_a_value_mutated_in_place_is_a_write_and_does_not_reach_back(store):
    @action(reads=["items"], writes=["n"])
    def mutate(state: State) -> State:
        state["items"].append(len(state["items"]))
        return state.update(n=len(state["items"]))

    app = (
        ApplicationBuilder()
        .with_actions(mutate)
        .with_transitions(("mutate", "mutate", expr("n < 3")))
        .with_state(items=[], n=0)
        .with_entrypoint("mutate")
        .build()
    )
    rw = Rewind(app, store=store)
    run = rw.run()

    assert [s.writes for s in run.steps] == [
        {"items": [0], "n": 1},
        {"items": [0, 1], "n": 2},
        {"items": [0, 1, 2], "n": 3},
    ]
    assert [s.reads["items"] for s in run.steps] == [[], [0], [0, 1]]
    fork = rw.fork(run, 1, output={"items": [7]})
    assert fork.state["items"] == [7, 1, 2]


def test_an_undeclared_write_is_recorded_and_comes_back_in_a_fork(store):
    @action(reads=[], writes=["a"])
    def first(state: State) -> State:
        return state.update(a=1, secret_extra={"b": [1]})

    rw = Rewind(one(first), store=store)
    run = rw.run()

    assert run[0].writes == {"a": 1, "secret_extra": {"b": [1]}}
    assert rw.fork(run, 1).state == run.state


def test_an_undeclared_read_is_observed(store):
    @action(reads=[], writes=["a"])
    def first(state):
        return state.update(a=state["hidden"] * 2)

    rw = Rewind(one(first, hidden=4), store=store)
    run = rw.run()

    assert run[0].reads == {"hidden": 4}
    assert rw.fork(run, 0, state={"hidden": 5}).state["a"] == 10


def test_the_absence_of_a_key_is_observed(store):
    @action(reads=[], writes=["a"])
    def first(state: State) -> State:
        return state.update(a=state.get("missing", "none"))

    rw = Rewind(one(first), store=store)
    run = rw.run()

    assert run[0].absent == ("missing",)
    assert rw.fork(run, 0, state={"missing": "there"}).state["a"] == "there"


def test_a_write_of_the_same_value_is_a_write(store):
    @action(reads=["a"], writes=["a"])
    def first(state: State) -> State:
        return state.update(a=state["a"])

    run = Rewind(one(first, a=3), store=store).run()

    assert run[0].writes == {"a": 3}


def test_wipe_keep_is_stored_as_its_rule_and_deletes_what_only_a_fork_has(store):
    @action(reads=[], writes=["a"])
    def first(state: State) -> State:
        return state.update(a=1)

    @action(reads=["a"], writes=["b"])
    def clean(state: State) -> State:
        return state.wipe(keep=["a"]).update(b=2)

    app = (
        ApplicationBuilder()
        .with_actions(first, clean)
        .with_transitions(("first", "clean"))
        .with_state(old=1)
        .with_entrypoint("first")
        .build()
    )
    rw = Rewind(app, store=store)
    run = rw.run()

    assert run["clean"].deleted == {"keep": ["a"]}
    assert run.state == {"a": 1, "b": 2}
    with_more = rw.run(state={"another": 5})
    assert with_more.state == {"a": 1, "b": 2}
    assert with_more["clean"].hash == run["clean"].hash


def test_wipe_delete_is_stored_as_its_rule(store):
    @action(reads=[], writes=[])
    def first(state: State) -> State:
        return state.wipe(delete=["x"])

    run = Rewind(one(first, x=1, y=2), store=store).run()

    assert run[0].deleted == {"delete": ["x"]}
    assert run.state_at("look") == {"y": 2}


def test_a_freshly_built_state_deletes_every_other_key(store):
    @action(reads=[], writes=["b"])
    def first(state: State) -> State:
        return State({"b": 1})

    run = Rewind(one(first, x=1, y=2), store=store).run()

    assert run[0].deleted == {"keep": []}
    assert run.state_at("look") == {"b": 1}


def test_two_keys_holding_one_list_part_at_the_step_boundary(store):
    @action(reads=[], writes=["a", "b"])
    def first(state: State) -> State:
        shared = [1]
        return state.update(a=shared, b=shared)

    @action(reads=["a"], writes=[])
    def second(state: State) -> State:
        state["a"].append(2)
        return state

    app = (
        ApplicationBuilder()
        .with_actions(first, second)
        .with_transitions(("first", "second"))
        .with_entrypoint("first")
        .build()
    )
    rw = Rewind(app, store=store)
    run = rw.run()

    assert run.state == {"a": [1, 2], "b": [1]}
    assert run["second"].writes == {"a": [1, 2]}
    assert rw.fork(run, 1).state == run.state
    assert rw.replay(run).ok


def test_a_closure_that_keeps_a_written_list_cannot_change_history(store):
    kept = []

    @action(reads=[], writes=["a"])
    def first(state: State) -> State:
        kept.append(mine := [1])
        return state.update(a=mine)

    @action(reads=["a"], writes=["n"])
    def second(state: State) -> State:
        kept[-1].append("from outside")
        return state.update(n=len(state["a"]))

    app = (
        ApplicationBuilder()
        .with_actions(first, second)
        .with_transitions(("first", "second"))
        .with_entrypoint("first")
        .build()
    )
    rw = Rewind(app, store=store)
    run = rw.run()

    assert run.state == {"a": [1], "n": 1}


def test_key_order_is_part_of_the_state_and_is_what_burr_makes_it(store):
    @action(reads=[], writes=["z", "a"])
    def first(state: State) -> State:
        return state.wipe(delete=["m"]).update(z=1, a=2, m=3)

    app = one(first, q=0, m=0)
    bare = list(app.run(halt_after=["first"])[2].get_all())
    rw = Rewind(one(first, q=0, m=0), store=store)
    run = rw.run(halt_after=["first"])

    assert list(run.state) == [k for k in bare if not k.startswith("__")]


def test_a_state_dumped_into_a_prompt_is_the_same_in_a_fork(store):
    @action(reads=[], writes=["a"])
    def first(state: State) -> State:
        return state.update(a=1)

    rw = Rewind(one(first, b=2), store=store)
    run = rw.run()

    for at in (0, 1):
        fork = rw.fork(run, at)
        assert fork.state["seen"] == run.state["seen"] == '{"b": 2, "a": 1}'


def test_burr_keys_are_hidden_from_an_action(store):
    names = []

    @action(reads=[], writes=[])
    def first(state: State) -> State:
        names.extend([*state.keys(), len(state), *(k for k in state)])
        return state

    Rewind(one(first, b=2), store=store).run()

    assert names == ["b", 1, "b"]


def test_append_extend_and_increment_read_their_key_and_deletion_does_not(store):
    @action(reads=[], writes=["l", "n"])
    def first(state: State) -> State:
        return state.append(l=1).extend(l=[2]).increment(n=3).wipe(delete=["gone"])

    run = Rewind(one(first, l=[0], n=1, gone=1, other=2), store=store).run()

    assert run[0].reads == {"l": [0], "n": 1}
    assert run[0].writes == {"l": [0, 1, 2], "n": 4}


def test_iterating_reads_every_key(store):
    @action(reads=[], writes=["n"])
    def first(state: State) -> State:
        return state.update(n=len(state))

    run = Rewind(one(first, a=1, b=2), store=store).run()

    assert run[0].reads == {"a": 1, "b": 2}
    assert run[0].row.reads_all


# -- failures ---------------------------------------------------------------------------


class Broken(Exception):
    pass


def failing_app():
    @action(reads=["n"], writes=["n"])
    def risky(state: State, armed: bool = False) -> State:
        apps.ran("risky")
        if state["n"] == 1 and armed:
            raise Broken("the second visit fails")
        return state.update(n=state["n"] + 1)

    return (
        ApplicationBuilder()
        .with_actions(risky)
        .with_transitions(("risky", "risky", expr("n < 3")))
        .with_state(n=0)
        .with_entrypoint("risky")
        .build()
    )


def test_an_exception_passes_through_unchanged_with_a_note_naming_run_and_step(store):
    rw = Rewind(failing_app(), store=store)

    with pytest.raises(Broken, match="the second visit fails") as caught:
        rw.run(inputs={"armed": True})

    run = rw.last_run
    assert any(run.id in note and "'risky'" in note for note in caught.value.__notes__)
    assert run.status == "failed"
    assert run[-1].error.message == "the second visit fails"
    assert run[-1].error.type.endswith("Broken")
    assert "Broken" in run[-1].error.traceback


def test_a_failed_run_replays_to_the_same_failure(store):
    rw = Rewind(failing_app(), store=store)
    with pytest.raises(Broken):
        rw.run(inputs={"armed": True})

    proof = rw.replay(rw.last_run)

    assert proof.ok, proof
    assert proof.steps == 2
    assert proof.run.status == "failed"


def test_a_failed_run_can_be_forked_at_its_failed_step(store):
    rw = Rewind(failing_app(), store=store)
    with pytest.raises(Broken):
        rw.run(inputs={"armed": True})

    fork = rw.fork(rw.last_run, 1, inputs={"armed": False}, max_steps=9)

    assert fork.status == "complete"
    assert fork.state["n"] == 3


def test_a_failed_run_is_resumed_without_running_a_finished_step_again(store):
    rw = Rewind(failing_app(), store=store)
    with pytest.raises(Broken):
        rw.run(inputs={"armed": True})
    apps.CALLS.clear()

    run = rw.resume(rw.last_run, inputs={"armed": False})

    assert run.status == "complete"
    assert apps.CALLS["risky"] == 2
    assert [s.attempt for s in run.steps] == [0, 1, 0]
    assert [s.status for s in run.history()] == ["complete", "failed", "complete", "complete"]
    assert store.verify().ok


def test_an_interrupt_inside_a_step_is_not_a_completed_step(store):
    @action(reads=[], writes=["a"])
    def first(state: State, stop: bool = False) -> State:
        apps.ran("first")
        if stop:
            raise KeyboardInterrupt
        return state.update(a=1)

    rw = Rewind(one(first), store=store)
    with pytest.raises(KeyboardInterrupt):
        rw.run(inputs={"stop": True})
    run = rw.last_run

    assert run.status == "interrupted"
    assert run[0].status == "interrupted"
    assert run.state == {}
    done = rw.resume(run, inputs={"stop": False})
    assert done.status == "complete"
    assert done.state["a"] == 1
    assert apps.CALLS["first"] == 2


def test_cancelling_an_async_run_leaves_it_interrupted_and_resumable(store):
    started = []

    @action(reads=[], writes=["a"])
    async def first(state: State) -> State:
        started.append(1)
        await asyncio.sleep(60 if len(started) == 1 else 0)
        return state.update(a=1)

    rw = Rewind(one(first), store=store)

    async def main():
        task = asyncio.create_task(rw.arun())
        while not started:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await rw.aresume(rw.last_run)

    run = asyncio.run(main())
    assert run.status == "complete"
    assert [s.status for s in run.history()][0] == "interrupted"


def test_a_condition_that_fails_fails_the_run(store):
    @action(reads=[], writes=["a"])
    def first(state: State) -> State:
        return state.update(a=1)

    app = (
        ApplicationBuilder()
        .with_actions(first, apps.report)
        .with_transitions(("first", "report", when(nowhere=1)))
        .with_entrypoint("first")
        .build()
    )
    rw = Rewind(app, store=store)

    with pytest.raises(ValueError, match="nowhere"):
        rw.run()

    assert rw.last_run.status == "failed"
    assert "nowhere" in rw.last_run.note


def test_a_condition_is_evaluated_once_between_two_steps(store):
    asked = []

    @action(reads=[], writes=["n"])
    def first(state: State) -> State:
        return state.update(n=(state.get("n") or 0) + 1)

    from burr.core import Condition

    sometimes = Condition.lmda(lambda s: asked.append(s["n"]) or s["n"] < 3, ["n"])
    app = (
        ApplicationBuilder()
        .with_actions(first)
        .with_transitions(("first", "first", sometimes))
        .with_entrypoint("first")
        .build()
    )
    Rewind(app, store=store).run()

    assert asked == [1, 2, 3]


def test_missing_inputs_are_burrs_own_error(store):
    rw = Rewind(apps.human_app(), store=store)

    with pytest.raises(ValueError, match="topic"):
        rw.run()

    assert rw.last_run.status == "failed"


def test_a_value_that_cannot_be_stored_is_refused_with_its_path(store):
    @action(reads=[], writes=["a"])
    def first(state: State) -> State:
        return state.update(a={"items": [1, object()]})

    rw = Rewind(one(first), store=store)

    with pytest.raises(NotEncodableError, match=r"a\.items\[1\]"):
        rw.run()

    assert rw.last_run.status == "failed"


def test_an_input_that_cannot_be_stored_is_refused_with_its_path(store):
    rw = Rewind(apps.loop_app(), store=store)

    with pytest.raises(NotEncodableError, match=r"@inputs\.by"):
        rw.run(inputs={"by": object()})


def test_a_secret_in_the_state_is_refused_without_being_quoted(store):
    key = "sk-canary-0123456789"
    secret = Secret(key)

    @action(reads=[], writes=["a"])
    def leak(state: State) -> State:
        return state.update(a=f"the key is {key}")

    @action(reads=[], writes=["a"])
    def hold(state: State) -> State:
        return state.update(a=secret)

    for fn, error in ((leak, SecretLeakError), (hold, NotEncodableError)):
        rw = Rewind(one(fn), store=store)
        with pytest.raises(error) as caught:
            rw.run()
        assert key not in str(caught.value)
        assert key not in str(rw.last_run[0].to_dict())


def test_burrs_error_banner_with_the_state_in_it_is_not_logged(store, caplog):
    rw = Rewind(failing_app(), store=store)

    with caplog.at_level(logging.DEBUG), pytest.raises(Broken):
        rw.run(inputs={"armed": True})

    assert "State (at time of action)" not in caplog.text


# -- driving it oneself -------------------------------------------------------------------


def test_an_application_driven_by_the_user_is_recorded_step_by_step(store):
    rw = Rewind(apps.loop_app(), store=store)
    app = rw.application(label="mine")

    app.step(inputs={"by": 1})
    assert rw.last_run.id == app.uid
    assert rw.last_run.status == "halted"
    for _ in app.iterate(halt_after=["report"], inputs={"by": 1}):
        pass

    run = rw.last_run
    assert run.status == "complete"
    assert run.label == "mine"
    assert app.state["report"] == run.state["report"] == {"lines": 3, "odd": True}
    assert rw.replay(run).ok
    assert rw.fork(run, 1).state == run.state


def test_a_state_the_user_puts_in_between_two_steps_is_recorded(store):
    rw = Rewind(apps.loop_app(limit=100), store=store)
    app = rw.application()
    app.step(inputs={"by": 1})
    app.update_state(app.state.update(n=50, injected=[1]))
    app.step(inputs={"by": 1})

    run = rw.last_run
    assert run[1].reads["n"] == 50
    assert run.state["n"] == 51
    assert run.state_at(1)["injected"] == [1]


def test_a_halted_application_forks_up_to_where_it_stood(store):
    rw = Rewind(apps.loop_app(limit=10), store=store)
    app = rw.application()
    for _ in range(3):
        app.step(inputs={"by": 1})

    fork = rw.fork(rw.last_run, 1, output={"n": 5, "log": []})

    assert len(fork) == 3
    assert fork.status == "halted"


def test_the_users_burr_hooks_fire_for_executed_steps_only(store):
    from burr.lifecycle import PostRunStepHook

    seen = []

    class Watch(PostRunStepHook):
        def post_run_step(self, *, action, **future_kwargs):
            seen.append(action.name)

    app = (
        ApplicationBuilder()
        .with_actions(apps.count, apps.report)
        .with_transitions(("count", "count", expr("n < 2")), ("count", "report", default))
        .with_state(n=0, log=[])
        .with_entrypoint("count")
        .with_hooks(Watch())
        .build()
    )
    rw = Rewind(app, store=store)
    run = rw.run()
    assert seen == ["count", "count", "report"]
    seen.clear()
    rw.fork(run, 1, reuse="none")
    assert seen == ["count", "report"]
    seen.clear()
    rw.replay(run)
    assert seen == []


def test_the_application_given_never_advances(store):
    app = apps.loop_app()
    rw = Rewind(app, store=store)

    first = rw.run(inputs={"by": 1})
    second = rw.run(inputs={"by": 1})

    assert app.state.get("__PRIOR_STEP") is None
    assert app.state["n"] == 0
    assert [s.hash for s in first.steps] == [s.hash for s in second.steps]


def test_a_complete_run_cannot_be_resumed(store):
    rw = Rewind(apps.loop_app(), store=store)
    run = rw.run(inputs={"by": 1})

    with pytest.raises(NothingToResumeError, match="fork"):
        rw.resume(run)


def test_one_application_runs_one_step_at_a_time(store):
    holder = {}

    @action(reads=[], writes=["a"])
    def first(state: State) -> State:
        holder["app"].step()
        return state.update(a=1)

    rw = Rewind(one(first), store=store)
    holder["app"] = rw.application()

    with pytest.raises(RunBusyError, match="already"):
        holder["app"].step()


# -- event loops ----------------------------------------------------------------------------


def test_the_sync_verbs_work_inside_a_running_event_loop(store):
    rw = Rewind(apps.async_app(), store=store)

    async def cell():
        run = rw.run()
        fork = rw.fork(run, 1)
        return run, fork, rw.replay(run)

    run, fork, proof = asyncio.run(cell())
    assert fork.state == run.state
    assert proof.ok


def test_an_object_of_another_loop_gets_a_note_naming_the_async_twin(store):
    holder = {}

    @action(reads=[], writes=["a"])
    async def first(state: State) -> State:
        await holder["event"].wait()
        return state.update(a=1)

    rw = Rewind(one(first), store=store)

    async def cell():
        holder["event"] = asyncio.Event()
        waiter = asyncio.ensure_future(holder["event"].wait())
        await asyncio.sleep(0)  # binds it to this loop
        try:
            with pytest.raises(RuntimeError) as caught:
                rw.run()
        finally:
            waiter.cancel()
        return caught.value

    error = asyncio.run(cell())
    assert any("await rw.arun" in note for note in error.__notes__)


def test_the_async_verbs_agree_with_the_sync_ones(store):
    rw = Rewind(apps.async_app(), store=store)
    run = rw.run()

    async def main():
        again = await rw.arun(cache="refresh")
        fork = await rw.afork(run, 1)
        return again, fork, await rw.areplay(run)

    again, fork, proof = asyncio.run(main())
    assert again.status == "complete"
    assert [s.hash for s in fork.steps] == [s.hash for s in run.steps]
    assert proof.ok


# -- code -------------------------------------------------------------------------------------

PROMPTS = {"greeting": "hello"}
LOG = []


def settings_app(style):
    class Speak(Action):
        def __init__(self, style):
            super().__init__()
            self.style = style
            self.spoken = 0

        reads = property(lambda self: [])
        writes = property(lambda self: ["said"])

        def run(self, state: State) -> dict:
            self.spoken += 1
            LOG.append(self.spoken)
            return {"said": f"{PROMPTS['greeting']} {self.style}"}

        def update(self, result: dict, state: State) -> State:
            return state.update(**result)

    return ApplicationBuilder().with_actions(speak=Speak(style)).with_entrypoint("speak").build()


def test_a_container_that_keeps_still_is_code_and_one_that_changes_is_not(store, monkeypatch):
    rw = Rewind(settings_app("loud"), store=store)
    run = rw.run()
    assert rw.fork(run, 0).state == run.state  # LOG and self.spoken changed meanwhile
    assert rw.replay(run).code_changed == ()

    monkeypatch.setitem(PROMPTS, "greeting", "goodbye")
    rw = Rewind(settings_app("loud"), store=store)
    with pytest.raises(CodeChangedError, match="'speak'"):
        rw.fork(run, 0)
    assert rw.replay(run).code_changed == ("speak",)
    monkeypatch.undo()

    rw = Rewind(settings_app("soft"), store=store)
    with pytest.raises(CodeChangedError, match="allow_code_change"):
        rw.fork(run, 0)
    assert rw.fork(run, 0, allow_code_change=True).state == {"said": "hello soft"}


@pytest.mark.parametrize("driven", ["run", "application"])
def test_a_step_that_could_not_open_ends_the_run_and_shows_no_state(store, caplog, driven):
    @action(reads=[], writes=["n"])
    def take(state: State, given: object) -> State:
        return state.update(n=1)

    app = (
        ApplicationBuilder()
        .with_actions(take)
        .with_state(quiet="keep this to yourself")
        .with_entrypoint("take")
        .build()
    )
    rw, key = Rewind(app, store=store), "sk-not-to-be-stored-4711"
    secret = Secret(key)
    with pytest.raises(SecretLeakError) as caught:
        if driven == "run":
            rw.run(inputs={"given": f"use {secret.reveal()}"})
        else:
            rw.application().step(inputs={"given": f"use {key}"})
    assert "keep this" not in caplog.text
    assert key not in caplog.text
    if driven == "application":
        assert "before step 0 'take'" in caught.value.__notes__[0]
        assert rw.last_run.status == "failed"
        assert rw.last_run.next_action == "take"


@dataclasses.dataclass(frozen=True)
class Sealed(Exception):
    code: int


@pytest.mark.parametrize("asynchronous", [False, True], ids=["sync", "async"])
def test_an_exception_that_cannot_be_changed_passes_through_unchanged(store, asynchronous):
    error = Sealed(4711)

    @tool
    def check(value):
        raise error

    @action(reads=[], writes=["n"])
    def work(state: State) -> State:
        return state.update(n=check(1))

    @action(reads=[], writes=["n"])
    async def awork(state: State) -> State:
        return state.update(n=check(1))

    app = ApplicationBuilder().with_actions(work=awork if asynchronous else work)
    rw = Rewind(app.with_entrypoint("work").build(), store=store)
    with pytest.raises(Sealed) as caught:
        rw.run()
    assert caught.value is error
    assert rw.last_run.status == "failed"
    assert rw.last_run["work"].error.type.endswith("Sealed")
    assert rw.replay(rw.last_run).ok
