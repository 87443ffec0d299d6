"""Bisect: the last step from which a re-run recovers, found with few probes, each stored."""

import asyncio
import json
import math
from collections import Counter

import pytest
from burr.core import ApplicationBuilder, State, action, expr
from fake_provider import FakeProvider, completion
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rewind_nb import Bisect, Budget, ChatModel, Check, Rewind, Store
from rewind_nb._probe_frames import PROBE_COLUMNS
from rewind_nb.demo import booking
from rewind_nb.errors import CodeChangedError, ConfigError, ExperimentError, NothingToResumeError
from rewind_nb.experiments._bisects import Search

CONFIRMED = "output contains 'confirmed'"
DRY = {"book_flight": lambda city, fare: "dry run"}


def agent(store, **given):
    """The booking agent, and the model that decides for it."""
    model = booking.BookingModel(**given)
    return Rewind(booking.build(model=booking.booking_model(model)), store=store), model


# -- a line of steps, each of which the world may spoil --------------------------------------


class World:
    """What the steps meet: hidden from the record, as a model's mood is."""

    def __init__(self):
        self.spoilt = set()  # steps that go wrong
        self.broken = {}  # steps that raise, and what
        self.ran = Counter()


WORLD = World()


@pytest.fixture(autouse=True)
def _a_new_world():
    WORLD.__init__()


@action(reads=["n", "good"], writes=["n", "good"])
def work(state: State) -> State:
    n = state["n"]
    WORLD.ran[n] += 1
    if n in WORLD.broken:
        raise WORLD.broken[n]
    return state.update(n=n + 1, good=state["good"] and n not in WORLD.spoilt)


@action(reads=["n", "good"], writes=["n", "good"])
async def awork(state: State) -> State:
    await asyncio.sleep(0)
    WORLD.ran[state["n"]] += 1
    good = state["good"] and state["n"] not in WORLD.spoilt
    return state.update(n=state["n"] + 1, good=good)


def line(steps, good=True, does=work):
    return (
        ApplicationBuilder()
        .with_actions(work=does)
        .with_transitions(("work", "work", expr(f"n < {steps}")))
        .with_state(n=0, good=good)
        .with_entrypoint("work")
        .build()
    )


def recorded(rw, spoilt):
    """A run in which some steps went wrong; what comes after it goes right."""
    WORLD.spoilt = set(spoilt)
    run = rw.run()
    WORLD.spoilt = set()
    WORLD.ran.clear()
    return run


# -- what it finds ---------------------------------------------------------------------------


def test_bisect_names_the_decision_from_which_no_later_re_run_recovers(store):
    rw, model = agent(store, mistakes=1)
    run = rw.run()
    assert run.state["output"] == "Not booked."

    found = rw.bisect(run, CONFIRMED, effects=DRY)

    assert (found.outcome, found.culprit.action, found.culprit.seq) == ("found", "decide", 1)
    assert found.fails.action == "check_budget"
    assert "from step 1 'decide' recovers, from step 2 'check_budget' it does not" in found.answer()
    assert "probed 2 of 5 candidates" in found.answer()
    assert "assumed, not shown" in found.answer()
    assert model.calls == 2
    assert rw.plan(found).forks == 0


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_the_culprit_is_the_last_step_that_went_wrong_at_the_cost_of_a_logarithm(data):
    steps = data.draw(st.integers(1, 12))
    spoilt = data.draw(st.sets(st.integers(0, steps - 1)))
    begun = data.draw(st.booleans()) if spoilt else False
    WORLD.__init__()
    with Store(":memory:") as store:
        rw = Rewind(line(steps, good=begun), store=store)
        run = recorded(rw, spoilt)

        found = rw.bisect(run, "good == true")

        # re-running from a step mends it and all later ones; what is good before stays good
        mendable = [k for k in range(steps) if begun and not any(n < k for n in spoilt)]
        expected = max(mendable, default=None)
        assert (None if found.culprit is None else found.culprit.seq) == expected
        assert found.outcome == ("none" if expected is None else "found")
        assert len(found.runs) <= math.ceil(math.log2(steps + 1))
        executed = [steps - seq for seq in found.probed]
        assert sum(WORLD.ran.values()) == sum(executed)
        assert list(found.df.executed) == executed


def test_where_no_re_run_recovers_it_says_so_and_blames_no_step(store):
    rw = Rewind(line(4, good=False), store=store)

    found = rw.bisect(rw.run(), "good == true")

    assert (found.outcome, found.culprit, found.probed) == ("none", None, (2, 1, 0))
    assert "no re-run recovers, not even from step 0 'work'" in found.answer()
    assert "in the inputs, the state it began with or the code" in found.answer()


def test_a_last_step_that_alone_went_wrong_is_found(store):
    rw = Rewind(line(4), store=store)

    found = rw.bisect(recorded(rw, {3}), "good == true")

    assert (found.culprit.seq, found.fails) == (3, None)
    assert "after it nothing is left to re-run" in found.answer()


def test_every_probe_is_a_stored_fork_that_executes_all_from_its_step_on_anew(store):
    rw, model = agent(store, mistakes=1)
    run = rw.run()
    found = rw.bisect(run, CONFIRMED, effects=DRY)

    assert found.asked["mode"] == {"reuse": "none", "cache": "refresh"}
    for probe, (seq, _) in zip(found.runs, [(2, 0), (1, 0)], strict=True):
        assert (probe.parent_id, probe.origin.at, probe.overrides) == (run.id, seq, ())
        assert (probe.origin.reuse, probe.origin.cache) == ("none", "refresh")
        assert all(step.source == "live" for step in probe.steps[seq:])
        assert all(step.source == "inherited" for step in probe.steps[:seq])
    assert [probe.id for probe in store.runs()] == [run.id]  # left out of what is listed
    assert store.verify().ok


def test_a_fork_that_fails_can_be_bisected_with_its_override_given_again(store):
    rw, _ = agent(store, mistakes=1)
    dear = rw.fork(rw.run(), "search", output={"fare": 900.0}, effects=DRY)
    assert dear.state["output"] != "Not booked."  # its decision was asked anew
    fork = rw.fork(dear, "decide", response='{"decision": "wait", "reason": "no"}')

    found = rw.bisect(fork, CONFIRMED, effects=DRY)

    # the override that made it wait is made again by every re-run that comes past it
    assert found.outcome == "none"


# -- what it costs ---------------------------------------------------------------------------


def test_the_plan_is_the_most_that_the_probes_come_to(store):
    rw = Rewind(line(9, good=False), store=store)
    found = rw.bisect(rw.run(), "good == true", samples=2, start=False)
    plan = rw.plan(found)
    assert (found.runs, found.outcome, found.answer()) == ((), "not finished", "")

    found = rw.resume(found)

    assert (plan.forks, plan.steps) == (len(found.runs), int(found.df.executed.sum()))
    assert rw.plan(found).forks == 0
    with pytest.raises(NothingToResumeError):
        rw.resume(found)


@pytest.mark.parametrize("low", range(-1, 20))
def test_a_search_between_two_sides_tries_a_step_between_them_and_ends(low):
    search, tried = Search(-1, 20), []
    while (middle := search.middle) is not None:
        assert search.low < middle < search.high
        tried.append(middle)
        if middle <= low:
            search.low = middle
        else:
            search.high = middle

    assert (search.low, search.high) == (low, low + 1)
    assert len(tried) <= 5


def test_the_plan_of_what_was_stopped_leaves_out_what_was_made(store):
    rw, model = agent(store, mistakes=1)
    run = rw.run()
    found = rw.bisect(run, CONFIRMED, effects=DRY, samples=3, budget=Budget(calls=1))
    made = sum(probe.status == "complete" for probe in found.runs)

    assert rw.plan(found).forks == 3 * 3 - made


def test_a_budget_stops_it_and_no_probe_is_made_twice(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        rw, model = agent(store, mistakes=1)
        run = rw.run()
        begun = rw.bisect(run, CONFIRMED, samples=3, effects=DRY, budget=Budget(calls=1))
        assert (begun.status, begun.outcome) == ("interrupted", "not finished")
        assert "not finished" in begun.answer()
        assert model.calls == 2
        before = {probe.id for probe in begun.runs}

        ended = rw.resume(begun, budget=Budget(calls=9))

        assert (ended.status, ended.culprit.action) == ("complete", "decide")
        assert model.calls == 1 + 3  # of the run, and of three samples
        assert before <= {probe.id for probe in ended.runs}
        assert len(ended.runs) == 2 * 3


def test_stopped_half_way_it_goes_on_in_another_process_where_it_was(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        rw = Rewind(line(8), store=store)
        run = recorded(rw, {2})
        WORLD.broken[5] = KeyboardInterrupt()  # the user stops while step 5 executes
        begun = rw.bisect(run, "good == true", start=False)
        rw.resume(begun)
        ran = WORLD.ran.copy()
        assert rw.store.experiment(begun.id).status == "interrupted"
    WORLD.broken.clear()

    with Store(tmp_path / "runs.db") as store:
        ended = Rewind(line(8), store=store).resume(store.experiment(begun.id))

        assert ended.culprit.seq == 2
        whole = Counter(n for seq in ended.probed for n in range(seq, 8))
        assert WORLD.ran == whole + Counter([5])  # the step that was stopped, once more
        assert ran[4] == 1


def test_one_asked_with_a_function_goes_on_only_where_it_was_asked(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        rw = Rewind(line(4), store=store)
        found = rw.bisect(recorded(rw, {1}), lambda run: run.state["good"], start=False)
        assert rw.resume(found).culprit.seq == 1

        other = rw.bisect(found.run, lambda run: run.state["good"], start=False)
        with pytest.raises(ExperimentError, match="does not give functions back"):
            Rewind(line(4), store=store).resume(other)


# -- what is neither -------------------------------------------------------------------------


def test_samples_that_disagree_are_not_clean_and_no_step_is_named(store):
    said = [completion(json.dumps({"decision": word})) for word in "wait book wait book".split()]
    with FakeProvider(*said) as provider:
        model = ChatModel(provider.base_url, "toy", max_retries=0)
        rw = Rewind(booking.build(model=model), store=store)
        found = rw.bisect(rw.run(), CONFIRMED, samples=3, max_workers=1, effects=DRY)

    assert (found.outcome, found.culprit) == ("not clean", None)
    assert "of 3 re-runs from step 1 'decide' 2 recover and 1 do not" in found.answer()


def test_samples_that_agree_are_told_as_all_of_them(store):
    rw = Rewind(line(4), store=store)

    found = rw.bisect(recorded(rw, {1}), "good == true", samples=3)

    assert found.culprit.seq == 1
    assert "all 3 re-runs from step 1 'work' (visit 2) recover" in found.answer()
    assert sorted(found.df["sample"].unique()) == [0, 1, 2]


def test_a_re_run_that_raises_neither_passes_nor_fails(store):
    rw = Rewind(line(4), store=store)
    run = recorded(rw, {1})
    WORLD.broken[3] = TimeoutError("no answer")

    found = rw.bisect(run, "good == true")

    assert (found.outcome, found.culprit) == ("unclear", None)
    assert "neither passes nor fails (TimeoutError: no answer)" in found.answer()
    assert found.df.verdict.isna().all()


def test_a_re_run_that_allows_no_verdict_neither_passes_nor_fails(store):
    rw = Rewind(line(4), store=store)
    run = recorded(rw, {1})

    found = rw.bisect(run, lambda run: False if run.kind == "record" else 1 / 0)

    assert (found.outcome, found.culprit) == ("unclear", None)
    assert "ZeroDivisionError" in found.answer()
    assert list(found.df.verdict) == ["error"]


@action(reads=[], writes=["ready"])
def prepare(state: State) -> State:
    return state.update(ready=0 not in WORLD.spoilt)


@action(reads=[], writes=["end"])
def wait(state: State) -> State:
    return state.update(end="waited")


@action(reads=[], writes=["end"])
def act(state: State, how: str) -> State:
    return state.update(end=f"acted {how}")


def test_a_re_run_that_stops_for_an_input_neither_passes_nor_fails(store):
    app = (
        ApplicationBuilder()
        .with_actions(prepare, wait, act)
        .with_transitions(("prepare", "act", expr("ready")), ("prepare", "wait"))
        .with_entrypoint("prepare")
        .build()
    )
    rw = Rewind(app, store=store)

    found = rw.bisect(recorded(rw, {0}), "ready == true")

    assert (found.outcome, list(found.df.status)) == ("unclear", ["complete", "halted"])
    assert "needs inputs the recording lacks" in found.answer()


def test_an_effect_that_a_re_run_may_not_have_is_told_with_what_to_do(store):
    rw, _ = agent(store, mistakes=1)

    found = rw.bisect(rw.run(), CONFIRMED)

    assert found.outcome == "unclear"
    assert "EffectRefusedError" in found.answer()
    assert "effects=" in found.answer()


def test_a_run_that_failed_is_bisected_by_how_it_failed(store):
    rw = Rewind(line(6), store=store)
    WORLD.spoilt, WORLD.broken = {2}, {5: KeyError("gone")}
    with pytest.raises(KeyError):
        rw.run()
    WORLD.spoilt = set()
    run = rw.last_run

    same = rw.bisect(run, "@status == 'complete'")
    WORLD.broken = {5: OSError("disk")}
    other = rw.bisect(run, "@status == 'complete'")
    WORLD.broken = {}
    mended = rw.bisect(run, "@status == 'complete'")

    assert (same.outcome, other.outcome) == ("none", "unclear")
    assert mended.culprit.seq == 5


# -- what it refuses -------------------------------------------------------------------------


def test_a_run_that_passes_is_refused_and_ablate_is_named(store):
    rw, _ = agent(store)

    with pytest.raises(ExperimentError, match=r"passes output .* rw\.ablate\(run, check\)"):
        rw.bisect(rw.run(), CONFIRMED)
    assert store.experiments_df().empty


def test_a_run_that_allows_no_verdict_is_refused_with_the_reason(store):
    rw, _ = agent(store, mistakes=1)

    with pytest.raises(ExperimentError, match="no verdict on run .*: total is missing"):
        rw.bisect(rw.run(), Check("total > 3"))


def test_what_cannot_work_is_refused_before_anything_executes(store):
    rw = Rewind(line(4), store=store)
    run = recorded(rw, {1})

    with pytest.raises(ConfigError, match="samples=0"):
        rw.bisect(run, "good == true", samples=0)
    with pytest.raises(ConfigError, match="effects= has a stub for 'nope'"):
        rw.bisect(run, "good == true", effects={"nope": 1})
    with pytest.raises(CodeChangedError):
        Rewind(line(4, does=awork), store=store).bisect(run, "good == true")
    assert not WORLD.ran
    assert store.experiments_df().empty


# -- a value ---------------------------------------------------------------------------------


def test_a_bisect_reopens_as_it_was(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        rw = Rewind(line(6), store=store)
        run = recorded(rw, {3})
        found = rw.bisect(run, "good == true", label="why")
        kept = (repr(found), found.answer(), found.df, found.table(), found._repr_html_())

    with Store(tmp_path / "runs.db") as store:
        again = store.experiment(found.id)

        assert isinstance(again, Bisect)
        assert (repr(again), again.answer()) == kept[:2]
        assert again.df.equals(kept[2])
        assert (again.table(), again._repr_html_()) == kept[3:]
        assert dict(again.df.dtypes) == PROBE_COLUMNS
        assert again.culprit.seq == 3


def test_the_async_twin_finds_the_same(store):
    async def found():
        rw = Rewind(line(7, does=awork), store=store)
        WORLD.spoilt = {4}
        run = await rw.arun()
        WORLD.spoilt = set()
        return await rw.abisect(run, "good == true", samples=2)

    bisect = asyncio.run(found())

    assert (bisect.culprit.seq, bisect.samples) == (4, 2)


def test_a_probe_stands_at_the_step_it_re_runs_from(store):
    rw = Rewind(line(6), store=store)
    found = rw.bisect(recorded(rw, {3}), "good == true")

    assert list(zip(found.df.seq, found.df.visit, strict=True)) == [(3, 4), (5, 6), (4, 5)]
    assert list(found.df.verdict) == ["pass", "fail", "fail"]
    assert list(found.df.run_id) == [probe.id for probe in found.runs]
