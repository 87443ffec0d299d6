"""A fork executes what depends on the change, and nothing else."""

import asyncio
import itertools
import json
import os
import random
from collections import Counter

import apps
import fake_provider as fp
import hypothesis
import pytest
import task_apps
from burr.core import ApplicationBuilder, State, action
from burr.core.parallelism import MapStates
from hypothesis import strategies as st
from isolation_oracle import SUPPLIED, Oracle, TooLong, converges_at, must_execute
from pipelines import application, changes, made, pipelines
from why_oracle import assert_why

from rewind_nb import ChatModel, Rewind

EXAMPLES = int(os.environ.get("ISOLATION_EXAMPLES", "2000" if "CI" in os.environ else "300"))
EXPLAINED = 100  # of each seed; what a diff says of a fork takes longer than the fork
SEEDS = range(max(1, EXAMPLES // 500))  # one test each, so that several workers share them
LONGEST = 12  # steps of a parent; a fork may have four times as many
NOT_EXECUTED = ("inherited", "reused", "override")


# -- the property ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fork_ends_as_if_all_of_it_executed_and_executes_only_what_it_must(store, seed):
    seen = Counter()
    examples(store, seed, EXAMPLES // len(SEEDS), seen)

    assert seen["examples"] >= EXAMPLES // len(SEEDS)
    share = {what: count / seen["examples"] for what, count in seen.items()}
    assert share["reused a step"] >= 0.3
    assert share["executed two"] >= 0.3
    assert share["changed the path"] >= 0.1
    assert share["converged"] >= 0.1
    if seen["examples"] >= 500:  # of fewer, one kind may be missing by chance
        assert min(share[kind] for kind in ("state", "output", "patch", "inputs", "none")) > 0


def test_a_recording_of_writes_as_differences_in_content_is_noticed(store, monkeypatch):
    """The control: a same-value write that is dropped is missed where the fork has another."""
    from rewind_nb._cells import Cell
    from rewind_nb._open_step import OpenStep

    complete = OpenStep.complete

    def differences_only(step, result, writes, deleted, route):
        was = {key: cell.hash for key, cell in step.cells.items()}
        changed = {k: v for k, v in writes.items() if Cell.of(v, k).hash != was.get(k)}
        return complete(step, result, changed, deleted, route)

    monkeypatch.setattr(OpenStep, "complete", differences_only)
    with pytest.raises(AssertionError):
        examples(store, 0, 300, Counter(), hypothesis.Phase.generate)


def examples(store, seed, number, seen, *phases):
    """Check so many pipelines, each with a change, and some with a change of the fork."""

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=number,
        database=None,
        phases=phases or (hypothesis.Phase.generate, hypothesis.Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    @hypothesis.given(pipelines(), changes, st.one_of(st.none(), st.none(), st.none(), changes))
    def each(pipeline, change, second):
        check(store, pipeline, [change] if second is None else [change, second], seen)

    each()


def check(store, pipeline, several, seen):
    """What the package makes of one pipeline, and of a fork of each fork."""
    parent = or_reject(Oracle(pipeline, LONGEST).run)
    rw = Rewind(application(pipeline), store=store)
    run = rw.run(**pipeline.run_arguments())
    assert_is(run, parent)
    assert [set(dict(step.row.reads)) for step in run.steps] == [d.saw() for d in parent.steps]
    oracle = Oracle(pipeline, 4 * LONGEST)
    for number, change in enumerate(several):
        at = place(oracle, parent, change)
        given = [
            parent.find(where) for where, (kind, _) in parent.overrides.items() if kind in SUPPLIED
        ]
        if any(did is not None and parent.steps.index(did) >= at for did in given):
            return  # what a supplied output comes to on another state, the oracle does not know
        run, parent = check_fork(rw, run, oracle, parent, at, change, Counter() if number else seen)


def check_fork(rw, run, oracle, parent, at, change, seen):
    """One fork: it is what the oracle says, and executed what it says."""
    override, recorded = overriding(run, oracle, parent, at, change)
    wanted = or_reject(lambda: oracle.fork(parent, at, override))
    fork = rw.fork(run, at, **dict([override] if override else []))

    assert_is(fork, wanted)
    for step, did in zip(fork.steps[at + 1 :], wanted.steps[at + 1 :], strict=True):
        assert repr(fork.state_at(step)) == repr(did.before), step
    executed = {step.seq for step in fork.steps if step.source not in NOT_EXECUTED}
    if override is not None and repr([*override[1].values()]) == repr([recorded]):
        assert (executed, wanted.names) == (set(), parent.names)
        assert repr(wanted.state) == repr(parent.state)
    else:
        assert executed == must_execute(parent, wanted, at, override)
        assert fork.converged_at == converges_at(parent, wanted, at, override)
    if seen["examples"] < EXPLAINED:
        for diff in (rw.diff(run, fork), rw.diff(fork, run)):
            assert_why(diff, run[at].address)
    seen["examples"] += 1
    seen[override[0] if override else "none"] += 1
    seen["reused a step"] += any(step.source == "reused" for step in fork.steps)
    seen["executed two"] += len(executed) > 1
    seen["changed the path"] += wanted.names != parent.names
    seen["converged"] += override is not None and fork.converged_at is not None
    return fork, wanted


def assert_is(run, path):
    """A run took a path and ended in its state."""
    assert [(step.action, step.visit) for step in run.steps] == [did.place for did in path.steps]
    assert (run.status, repr(run.state)) == (path.status, repr(path.state))


def or_reject(execute):
    try:
        return execute()
    except TooLong:
        hypothesis.reject()


# -- what a change means on a given run


def touched(oracle, parent):
    """Of each step: the keys it saw, those it changed, those that the way on depended on."""
    return [
        (did.saw(), differing(did.before, did.after), oracle.asked(did)) for did in parent.steps
    ]


def dependents(steps, at, key):
    """About how much depends on what a step leaves under a key."""
    tainted, found = {key}, bool(steps[at][2] & {key})
    for saw, changed, asked in steps[at + 1 :]:
        depends = bool(saw & tainted)
        tainted = tainted | changed if depends else tainted - changed
        found += depends + bool(asked & tainted)
    return found


def place(oracle, parent, change):
    """The step to change: more often than not one that others depend on."""
    steps = touched(oracle, parent)

    def weight(at):
        return max((dependents(steps, at, key) for key in steps[at][1]), default=0)

    return sorted(range(len(steps)), key=weight, reverse=True)[change.at % len(steps)]


def differing(before, after):
    """The keys whose values are not the same in two states."""
    return {k for k in {**before, **after} if repr(before.get(k)) != repr(after.get(k))}


def overriding(run, oracle, parent, at, change):
    """What to override there (None for nothing), and what was recorded instead of it."""
    did, recorded = parent.steps[at], run[at].writes
    steps = touched(oracle, parent)

    def by_weight(keys):
        return sorted(keys, key=lambda key: (-dependents(steps, at, key), key))

    left = {key for key in oracle.asked(did) if key in did.after and key not in recorded}
    options = {}
    if readable := by_weight(did.saw() | left):
        absent = [key for key in readable if key not in did.before]
        readable = absent if absent and change.value % 2 else readable
        key = readable[change.pick % len(readable)]
        options["state"] = (key, did.before.get(key, "absent"), key)
    if written := by_weight(recorded):
        key = written[change.pick % len(written)]
        there = recorded[key]
        options["output"] = options["patch"] = (key, there, key)
        if key[0] == "d":
            part = "nl"[change.value % 2]
            options["patch"] = (f"{key}.{part}", there[part], part)
        elif key[0] == "l" and there:
            index = change.value % len(there)
            options["patch"] = (f"{key}[{index}]", there[index], "n")
    if did.inputs:
        options["inputs"] = ("by", did.inputs["by"], "n")
    if change.kind == "none" or not options:
        return None, None
    kind = change.kind if change.kind in options else next(iter(options))
    name, there, like = options[kind]
    return (kind, {name: another(there, like, change)}), there


def another(recorded, key, change):
    """A value of a key's kind; not the recorded one, unless that is wanted."""
    values = [made(key, n) for n in range(change.value, change.value + 5)]
    return next(v for v in values if change.same or repr(v) != repr(recorded))


# -- one by one -----------------------------------------------------------------------------------


def line(*functions, **state):
    """The actions one after the other, under their own names."""
    names = [getattr(one, "__name__", type(one).__name__).lower() for one in functions]
    return (
        ApplicationBuilder()
        .with_actions(**dict(zip(names, functions, strict=True)))
        .with_transitions(*itertools.pairwise(names))
        .with_state(**state)
        .with_entrypoint(names[0])
        .build()
    )


def sources(run):
    return {f"{step.action}:{step.visit}": step.source for step in run.steps}


def executed(run):
    return [step.action for step in run.steps if step.source not in NOT_EXECUTED]


@action(reads=["city"], writes=["plan"])
def plan(state: State) -> State:
    apps.ran("plan")
    return state.update(plan=f"see {state['city']}")


@action(reads=["plan", "number", "slogan"], writes=["letter"])
def letter(state: State) -> State:
    apps.ran("letter")
    return state.update(letter=f"{state['plan']}, {state['number']}, {state['slogan']}")


@action(reads=[], writes=["number"])
def draw(state: State) -> State:
    apps.ran("draw")
    return state.update(number=random.random())


def test_an_independent_draw_and_an_independent_answer_stay_what_they_were(store):
    answers = itertools.count()

    def another_answer(_seen):
        return fp.reply(fp.chat_completion(json.dumps(next(answers))))

    with fp.FakeProvider(then=another_answer) as provider:
        chat = ChatModel(provider.base_url, "toy")

        @action(reads=[], writes=["slogan"])
        def ask(state: State) -> State:
            return state.update(slogan=chat.chat("a slogan").json())

        rw = Rewind(line(plan, draw, ask, letter, city="Bern"), store=store)
        run = rw.run()
        changed = {"plan": "stay"}
        fork = rw.fork(run, "plan", output=changed)

        assert provider.count == 1
        assert executed(fork) == ["letter"]
        assert sum(step.live_calls for step in fork.steps if step.run_id == fork.id) == 0
        kept = {key: run.state[key] for key in ("number", "slogan")}
        assert fork.state == {
            "city": "Bern", "plan": "stay", **kept, "letter": f"stay, {kept['number']}, 0",
        }  # fmt: skip

        again = rw.fork(run, "plan", output=changed, reuse="none", cache="refresh")
        assert provider.count == 2
        assert executed(again) == ["draw", "ask", "letter"]
        assert again.state["number"] != kept["number"]
        assert again.state["slogan"] == 1


def test_an_unchanged_fork_writes_as_little_whatever_the_length(store):
    written = {}
    for steps in (10, 300):
        rw = Rewind(apps.loop_app(limit=steps - 1), store=store)
        run = rw.run(inputs={"by": 1})
        apps.CALLS.clear()
        for at in (0, steps // 2, steps - 1):
            before = rows(store)
            fork = rw.fork(run, at)
            written[steps, at] = rows(store) - before
            assert not apps.CALLS
            assert (len(fork), fork.converged_at, fork.state) == (steps, at, run.state)
    assert set(map(str, written.values())) == {str(Counter(runs=1))}


def rows(store):
    """How many rows each table holds."""

    def count(connection):
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        ).fetchall()
        counted = (connection.execute(f"SELECT '{t}', count(*) FROM {t}") for (t,) in tables)
        return Counter(dict(found.fetchone() for found in counted))

    store.flush()
    return store.read(count)


def test_a_step_that_failed_is_executed_and_those_before_it_are_not(store):
    @action(reads=["plan"], writes=["booked"])
    def book(state: State) -> State:
        apps.ran("book")
        if state["plan"].endswith("Atlantis"):
            raise LookupError("no such city")
        return state.update(booked=True, slogan="on our way")

    rw = Rewind(line(plan, draw, book, letter, city="Atlantis"), store=store)
    with pytest.raises(LookupError):
        rw.run()
    failed = rw.last_run

    apps.CALLS.clear()
    with pytest.raises(LookupError):
        rw.fork(failed, "plan")
    again = rw.last_run
    assert apps.CALLS == {"book": 1}
    assert sources(again) == {"plan:1": "reused", "draw:1": "reused", "book:1": "live"}
    assert again.status == "failed"

    apps.CALLS.clear()
    mended = rw.fork(failed, "plan", output={"plan": "see Bern"})
    assert apps.CALLS == {"book": 1, "letter": 1}
    assert mended.state["number"] == failed[1].writes["number"]
    assert mended.state["letter"].startswith("see Bern, ")


def test_a_fork_of_a_fork_takes_over_what_its_parent_took_over(store):
    @action(reads=["number"], writes=["slogan"])
    def boast(state: State) -> State:
        apps.ran("boast")
        return state.update(slogan=f"lucky {state['number'] > 0.5}")

    rw = Rewind(line(plan, draw, boast, letter, city="Bern"), store=store)
    run = rw.run()
    fork = rw.fork(run, "plan", output={"plan": "stay"})
    apps.CALLS.clear()

    same = rw.fork(fork, 0)
    assert not apps.CALLS
    assert (same.state, same.converged_at) == (fork.state, 0)

    other = rw.fork(fork, "draw", output={"number": 2})
    assert apps.CALLS == {"boast": 1, "letter": 1}
    assert other.state["letter"] == "stay, 2, lucky True"

    third = rw.fork(other, "plan", output={"plan": "go"})
    assert sources(third) == {
        "plan:1": "override", "draw:1": "override", "boast:1": "reused", "letter:1": "live",
    }  # fmt: skip
    assert third.state["letter"] == "go, 2, lucky True"
    assert all(rw.replay(one).ok for one in (fork, same, other, third))
    assert store.verify().ok


def test_a_fork_that_converged_and_halted_goes_on_by_itself(store):
    @action(reads=["plan"], writes=["plan"])
    def forget(state: State) -> State:
        apps.ran("forget")
        return state.update(plan=f"{len(state['plan']) > 3}", slogan="none")

    rw = Rewind(line(plan, forget, draw, letter, city="Bern"), store=store)
    run = rw.run(halt_after=["draw"])
    apps.CALLS.clear()
    fork = rw.fork(run, "plan", output={"plan": "see Rome"})

    assert apps.CALLS == {"forget": 1}
    assert (fork.status, fork.next_action, fork.converged_at) == ("halted", "letter", 2)

    done = rw.resume(fork)
    assert (done.status, len(done), len(store.run(run.id))) == ("complete", 4, 3)
    assert apps.CALLS == {"forget": 1, "letter": 1}
    assert sources(done)["draw:1"] == "reused"
    for given in ({}, {"output": run["plan"].writes}):  # nothing at all was executed in these
        same = rw.resume(rw.fork(run, "plan", **given))
        assert (same.status, same.state) == ("complete", done.state)
        assert rw.replay(same).ok
    assert rw.resume(run).state == done.state
    assert rw.replay(done).ok
    assert store.verify().ok


def test_an_action_that_is_always_to_run_does(store):
    @action(reads=[], writes=["slogan"])
    def shout(state: State) -> State:
        apps.ran("shout")
        return state.update(slogan="hey")

    rw = Rewind(line(plan, shout, draw, letter, city="Bern"), store=store, always_run=["shout"])
    run = rw.run()
    apps.CALLS.clear()

    fork = rw.fork(run, "plan")
    assert apps.CALLS == {"shout": 1}
    assert sources(fork)["shout:1"] == "live"
    assert (fork.state, fork.converged_at) == (run.state, 2)

    rw.fork(run, "draw")
    assert apps.CALLS == {"shout": 1}


def test_an_async_application_is_reused_as_well(store):
    @action(reads=["city"], writes=["plan"])
    async def aplan(state: State) -> State:
        apps.ran("aplan")
        return state.update(plan=(await apps.lookup(state["city"]))["degrees"])

    @action(reads=[], writes=["slogan"])
    async def aslogan(state: State) -> State:
        apps.ran("aslogan")
        return state.update(slogan=(await apps.lookup("everywhere"))["unique"])

    rw = Rewind(line(aplan, aslogan, draw, letter, city="Bern"), store=store)
    run = rw.run()
    apps.CALLS.clear()

    inside = asyncio.run(rw.afork(run, "aplan", state={"city": "Rio"}))
    assert apps.CALLS == {"aplan": 1, "lookup": 1, "letter": 1}
    outside = rw.fork(run, "aplan", output={"plan": 9})
    assert apps.CALLS == {"aplan": 1, "lookup": 1, "letter": 2}
    assert inside.state == {**outside.state, "city": "Rio"}
    assert inside.state["slogan"] == run.state["slogan"]


def test_of_a_parallel_action_each_task_is_decided_by_its_own_reads(store):
    rw = Rewind(task_apps.map_app(words=["alpha", "be", "gamma"], rounds=1), store=store)
    run = rw.run()
    apps.CALLS.clear()

    fork = rw.fork(run, "each", state={"words": ["alpha", "delta", "gamma"]})
    assert apps.CALLS == {"search": 1, "look_up": 1, "grade": 1, "reduce": 1, "report": 1}
    found = [[step.source for step in steps] for steps in fork["each"].tasks.values()]
    assert found == [["reused", "reused"], ["live", "live"], ["reused", "reused"]]
    assert fork.state["grades"] == [6, 6, 6]

    apps.CALLS.clear()
    bonus = rw.fork(run, "each", state={"bonus": 5})
    assert apps.CALLS == {"grade": 2, "reduce": 1, "report": 1}
    assert bonus.state["grades"] == [10, 0, 10]

    apps.CALLS.clear()
    unread = rw.fork(run, "report", state={"grades": [1]})
    assert apps.CALLS == {"report": 1}
    assert unread["each"].source == "inherited"


class Sizes(MapStates):
    """Its tasks look at all of their state, in which they have another `city`."""

    def action(self, state, inputs):
        @action(reads=[], writes=["size"])
        def measure(state: State) -> State:
            return state.update(size=len(state.get_all()))

        return measure

    def states(self, state, context, inputs):
        for word in state["words"]:
            yield state.update(city=word)

    def reduce(self, state, states):
        apps.ran("sizes")
        return state.update(number=sum(s["size"] for s in states))

    reads = property(lambda self: ["words"])
    writes = property(lambda self: ["number"])


def test_a_step_whose_tasks_look_at_everything_is_reused_where_nothing_changed(store):
    app = line(plan, Sizes(), draw, city="Bern", words=["a", "b"])
    rw = Rewind(app, store=store, always_run=["draw"])  # so that the fork does not converge first
    run = rw.run()
    apps.CALLS.clear()

    assert executed(rw.fork(run, 0)) == ["draw"]
    rw.fork(run, 0, output={"plan": "stay"})
    assert apps.CALLS == {"draw": 2, "sizes": 1}


# -- what an action can do to a state that the recording must not lose


def test_new_keys_come_in_the_order_they_were_written(store):
    """Also in a fork that lacks one which the parent had before."""

    @action(reads=["city"], writes=[])
    def tidy(state: State) -> State:
        return state.update(number=1) if state["city"] == "Bern" else state.wipe(delete=["slogan"])

    @action(reads=[], writes=["plan", "slogan"])
    def note(state: State) -> State:
        return state.update(plan=1, slogan=2)

    app = line(tidy, note, city="Bern", slogan="none", number=0)
    rw = Rewind(app, store=store)
    run = rw.run()
    fork = rw.fork(run, "tidy", state={"city": "Rome"})

    assert list(run.state) == ["city", "slogan", "number", "plan"]
    assert sources(fork) == {"tidy:1": "live", "note:1": "reused"}
    assert list(fork.state) == ["city", "number", "plan", "slogan"]


def test_a_subset_of_the_state_tells_what_it_lacks_and_keeps_what_it_names(store):
    @action(reads=["city"], writes=[])
    def arrive(state: State) -> State:
        return state.update(slogan="hello") if state["city"] != "Bern" else state

    @action(reads=[], writes=["number"])
    def count(state: State) -> State:
        return state.update(number=len(state.subset("city", "slogan")))

    @action(reads=[], writes=[])
    def leave(state: State) -> State:
        return state.subset("slogan", "number")

    rw = Rewind(line(arrive, count, leave, city="Bern"), store=store)
    run = rw.run()
    fork = rw.fork(run, "arrive", state={"city": "Rome"})

    assert run.state == {"number": 1}
    assert run["count"].absent == ("slogan",)
    assert sources(fork) == {"arrive:1": "live", "count:1": "live", "leave:1": "reused"}
    assert fork.state == {"slogan": "hello", "number": 2}


def test_looking_at_a_key_that_the_action_itself_deleted_reads_nothing(store):
    @action(reads=[], writes=["number"])
    def clear(state: State) -> State:
        state = state.wipe(keep=["number"])
        return state.update(number=int("city" in state), plan=state.get("slogan", "none"))

    run = Rewind(line(clear, city="Bern", slogan="none", number=3), store=store).run()

    assert (run[0].reads, run[0].absent) == ({}, ())
    assert run.state == {"number": 0, "plan": "none"}
