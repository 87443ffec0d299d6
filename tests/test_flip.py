"""Flips: the smallest change of one field that changes a verdict, and how sure that is."""

import asyncio
import contextlib
import enum
import math

import pytest
from burr.core import ApplicationBuilder, State, action
from hypothesis import assume, given
from hypothesis import strategies as st
from test_sweep import DRY, Jitter, asking
from thresholds import STOP, WEIGHED, ajudge, app, reset

import rewind_nb
from rewind_nb import Budget, Rewind, Store
from rewind_nb.demo import booking
from rewind_nb.errors import ConfigError, ExperimentError, OverrideError
from rewind_nb.experiments._search import Numbers, default_tolerance, roundest


@pytest.fixture(autouse=True)
def _anew():
    reset()


def flipped(rule, value, store, at="take", field="output.value", check="ok == true", **more):
    rw = Rewind(app(rule, value), store=store)
    return rw.flip(rw.run(), at, field, check, **more)


def outcome(flip):
    return flip.value, flip.bracket, flip.change


# -- the exact value ------------------------------------------------------------------------


def test_the_flip_of_the_fare_is_the_first_that_the_agent_refuses(store):
    rw = Rewind(booking.build(), store=store)
    flip = rw.flip(rw.run(), "search", "output.fare", "@visits.book == 0", effects=DRY)
    kept, first = flip.bracket

    assert kept == 1000.0
    assert 1000.0 < first <= 1000.0 + 450 * 1e-6
    assert (flip.recorded, flip.value, flip.change) == (450.0, first, first - 450.0)
    assert (flip.verdict_before, flip.verdict_after) == ("fail", "pass")
    assert "book" not in [step.action for step in flip.fork.steps]
    assert flip.fork.state["fare"] == first
    assert not flip.diff().identical
    assert (
        "1,000 still fails; the smallest change of 33 probed, not proved smallest" in flip.answer()
    )


def test_with_whole_numbers_the_flip_is_exactly_the_first_that_is_refused(store, monkeypatch):
    monkeypatch.setitem(booking.FARES, "Lisbon", 450)
    rw = Rewind(booking.build(), store=store)
    flip = rw.flip(rw.run(), "search", "output.fare", "@visits.book == 0", effects=DRY)

    assert outcome(flip) == (1001, (1000, 1001), 551)
    assert all(type(probe.value) is int for probe in flip.probes)


def test_without_a_stub_what_would_book_has_no_verdict_and_is_no_flip(store):
    rw = Rewind(booking.build(), store=store)
    flip = rw.flip(rw.run(), "search", "output.fare", "@visits.book == 0")

    assert 1000.0 < flip.value <= 1000.0 + 450 * 1e-6
    assert flip.bracket[0] == 450.0
    assert "no verdict at 457.03125, " in flip.answer()
    assert "EffectRefusedError" in flip.answer()


thresholds = st.integers(-(10**6), 10**6)


@given(thresholds, st.integers(-(10**5), 10**5), st.booleans())
def test_a_search_of_whole_numbers_finds_exactly_where_a_plain_function_changes(
    limit, start, above
):
    def rule(value):
        return value > limit if above else value < limit

    search = Numbers(start, None, None, 1)
    probed = explore(search, lambda value: rule(value) != rule(start))
    beyond = (
        (limit + 1 if start <= limit else limit)
        if above
        else (limit - 1 if start >= limit else limit)
    )
    assume(abs(beyond - start) < max(1, abs(start) // 64) * 2**20)

    assert rule(beyond) != rule(start)
    assert search.best.flips == beyond
    assert abs(search.best.keeps - beyond) == 1
    assert len(probed) == len(set(probed)) <= search.most


@given(
    st.floats(-1e6, 1e6),
    st.floats(-1e4, 1e4),
    st.sampled_from([None, 1e-3, 1e-9, 0.0]),
    st.booleans(),
)
def test_a_search_of_floats_comes_as_near_as_its_tolerance(limit, start, tolerance, with_limit):
    def rule(value):
        return value >= limit if with_limit else value > limit

    tolerance = default_tolerance(start) if tolerance is None else tolerance
    search = Numbers(start, None, None, tolerance)
    explore(search, lambda value: rule(value) != rule(start), most=2000)
    best = search.best
    assume(best is not None)

    assert rule(best.flips) != rule(start)
    assert rule(best.keeps) == rule(start)
    assert abs(best.flips - best.keeps) <= max(tolerance, math.ulp(start), math.ulp(best.flips))
    assert min(best.flips, best.keeps) <= limit <= max(best.flips, best.keeps)


@given(st.integers(1, 5000), st.integers(1, 5000), st.integers(-100, 100))
def test_the_nearer_of_a_flip_above_and_one_below_is_found_exactly(above, below, start):
    search = Numbers(start, None, None, 1)
    explore(search, lambda value: not start - below < value < start + above)

    assert abs(search.best.flips - start) == min(above, below)
    assert search.best.flips > start or below < above


@given(st.integers(-200, 200), st.sets(st.integers(-400, 400)), st.sets(st.integers(-400, 400)))
def test_what_a_search_finds_flips_and_is_the_nearest_of_what_it_probed(start, flips, unknown):
    """Whatever the verdicts are: not monotone, and some of them unknown."""

    def answer(value):
        return None if value in unknown else value in flips and value != start

    search = Numbers(start, None, (-400, 400), 1)
    probed = explore(search, answer)
    flipping = [value for value in probed if answer(value)]

    assert len(probed) == len(set(probed))
    assert start not in probed
    assert all(-400 <= value <= 400 for value in probed)
    assert (search.best is None) == (not flipping)
    if search.best is not None:
        near = abs(search.best.flips - start)
        assert answer(search.best.flips)
        assert near == min(abs(value - start) for value in flipping)
        side = 1 if search.best.flips > start else -1
        between = range(search.best.keeps + side, search.best.flips, side)
        assert set(between) <= unknown or any(answer(v) is None for v in between)


@given(
    st.one_of(st.integers(-5000, 5000), st.floats(-5000, 5000)),
    st.integers(1, 5000),
    st.integers(1, 5000),
    st.sets(st.integers(-9000, 9000)),
)
def test_once_a_flip_is_known_nothing_farther_is_probed_and_little_on_the_other_side(
    start, above, below, unknown
):
    def answer(value):
        return None if value in unknown else not start - below < value < start + above

    search, nearest, beyond = Numbers(start, None, None, default_tolerance(start)), None, []
    while wanted := search.wanted():
        for value in wanted:
            assert nearest is None or abs(value - start) <= nearest * (1 + 1e-9)
            if nearest is not None and (value > start) != (above < below):
                beyond.append(value)
            search.told(value, answer(value))
        flips = [abs(v - start) for v in wanted if answer(v)]
        nearest = min([*flips, *([] if nearest is None else [nearest])], default=None)

    if not unknown and 2 * min(above, below) < max(above, below):
        assert len(beyond) <= 15  # the halvings of the farther side, had it come first, or one


def test_a_side_that_flips_farther_away_costs_one_probe_and_not_its_halvings():
    search = Numbers(0, None, None, 1)
    probed = explore(search, lambda value: not -4000 < value < 2000)

    assert search.best.flips == 2000
    assert [v for v in probed if v < 0] == [-1, -4, -16, -64, -256, -1024, -4096, -1999]
    assert len(probed) == 7 + 8 + 11  # outward on each side, as near on the other, halvings


def explore(search, answer, most=500):
    probed = []
    while wanted := search.wanted():
        for value in wanted:
            probed.append(value)
            search.told(value, answer(value))
        assert len(probed) < most
    return probed


@given(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
def test_the_roundest_number_between_two_is_between_them(a, b):
    assume(abs(a - b) > 1e-12 * max(abs(a), abs(b)) > 0)

    assert min(a, b) < roundest(a, b) < max(a, b)


def test_a_number_with_fewer_digits_is_preferred_to_a_half(store):
    flip = flipped(lambda v: v >= 0.7, 0.2, store)

    assert flip.value == 0.7
    assert 0.7 - 2e-7 <= flip.bracket[0] < 0.7


# -- directions, bounds, zero ---------------------------------------------------------------------


def test_the_nearer_of_two_flips_is_found_whichever_side_it_is_on(store):
    assert outcome(flipped(lambda v: -90 < v < 110, 0, store)) == (-90, (-89, -90), -90)
    assert outcome(flipped(lambda v: -110 < v < 90, 0, store)) == (90, (89, 90), 90)
    assert outcome(flipped(lambda v: -90 < v < 90, 0, store)) == (90, (89, 90), 90)


def test_a_direction_keeps_to_its_side(store):
    def rule(value):
        return -90 < value < 110

    assert outcome(flipped(rule, 0, store, toward="up")) == (110, (109, 110), 110)
    down = flipped(rule, 0, store, toward="down")
    assert down.value == -90
    assert all(probe.value < 0 for probe in down.probes)


def test_bounds_are_kept_and_probed(store):
    at_it = flipped(lambda v: v < 500, 450, store, between=(400, 500))
    beyond = flipped(lambda v: v < 501, 450, store, between=(400, 500))
    wide = flipped(lambda v: v < 10**12, 450, store, between=(450, 10**13), max_probes=100)

    assert outcome(at_it) == (500, (499, 500), 50)
    assert (beyond.value, beyond.bracket, beyond.fork) == (None, None, None)
    said = "no change between 400 and 500 flips it, at the 6 values probed"
    assert beyond.answer() == said
    assert wide.value == 10**12
    with pytest.raises(ExperimentError, match="found no value: no change between 400 and 500"):
        beyond.diff()


def test_zero_is_searched_by_absolute_steps(store):
    flip = flipped(lambda v: v < 0.25, 0.0, store)

    assert flip.value == 0.25
    assert 0.25 - 1e-6 <= flip.bracket[0] < 0.25


def test_only_where_all_nearer_numbers_were_probed_is_it_proved_smallest(store):
    near = flipped(lambda v: v < 7, 5, store)
    far = flipped(lambda v: v < 70, 5, store)

    assert near.proved
    assert near.answer() == "fails at 7 (+2) where 5 passes, 6 still passes; no smaller change does"
    assert not far.proved
    assert far.answer().endswith("probed, not proved smallest")


def test_a_verdict_that_changes_more_than_once_is_not_said_to_be_smallest(store):
    flip = flipped(lambda v: v != 403 and v < 900, 400, store)

    assert flip.value == 900  # 403 was not seen
    assert "not proved smallest" in flip.answer()


def test_the_tolerance_is_how_near_it_comes(store):
    flip = flipped(lambda v: v < 900, 400, store, tolerance=50)
    kept, first = flip.bracket

    assert kept < 900 <= first
    assert first - kept <= 50


# -- no verdict is no flip ------------------------------------------------------------------------


def test_probes_that_fail_are_searched_around_and_named(store):
    def rule(value):
        if 990 <= value <= 1010:
            raise ValueError(f"cannot weigh {value}")
        return value < 1000

    flip = flipped(rule, 450, store)

    assert flip.bracket == (989, 1011)
    assert "no verdict at " in flip.answer()
    assert "ValueError: cannot weigh " in flip.answer()
    lost = flip.df[flip.df.verdict.isna()]
    assert len(lost)
    assert lost.flips.isna().all()
    assert (lost.judged == 0).all()


def test_where_no_probe_has_a_verdict_it_says_so(store):
    def rule(value):
        if value != 5:
            raise ValueError("no")
        return True

    flip = flipped(rule, 5, store, between=(0, 10))

    assert flip.value is None
    assert flip.answer().startswith("none of 6 probes has a verdict; no verdict at 6, 4, ")


# -- bools, enums, candidates ---------------------------------------------------------------------


def test_a_bool_is_negated(store):
    rw = Rewind(app(lambda v: True, 5), store=store)
    flip = rw.flip(rw.run(), "judge", "output.ok", "@visits.accept == 1")

    assert (flip.recorded, flip.value, flip.bracket) == (True, False, None)
    assert flip.answer() == "fails with False where True passes"
    assert flip.proved


class Size(enum.Enum):
    SMALL = 1
    MIDDLING = 2
    LARGE = 3


def test_the_other_members_of_an_enum_are_tried_in_their_order(store):
    rw = Rewind(app(lambda v: v is not Size.LARGE, Size.MIDDLING), store=store, types=[Size])
    flip = rw.flip(rw.run(), "take", "output.value", "ok == true")

    assert [probe.value for probe in flip.probes] == [Size.SMALL, Size.LARGE]
    assert flip.value is Size.LARGE


def test_of_candidates_the_first_in_order_that_flips_it_is_the_answer(store):
    words = ["fine", "dear", "cheap", "dire", "grim", "bad"]
    flip = flipped(lambda v: not v.startswith("d"), "good", store, candidates=words)

    assert flip.value == "dear"
    assert [probe.value for probe in flip.probes] == ["fine", "dear"]  # and none after it
    assert (
        flip.answer() == "fails with 'dear' where 'good' passes, the first of 6 candidates to do so"
    )
    beside = flipped(
        lambda v: not v.startswith("d"), "good", store, candidates=words, max_workers=4
    )
    assert (beside.value, len(beside.probes)) == ("dear", 4)
    none = flipped(lambda v: True, "good", store, candidates=words)
    assert none.answer() == "none of 6 candidates flips it"
    assert none.value is None


def test_every_candidate_is_tried_where_that_is_asked(store):
    words = ["fine", "dear", "good", "cheap", "dire", "grim", "bad"]
    flip = flipped(lambda v: not v.startswith("d"), "good", store, candidates=words, every=True)

    assert [probe.value for probe in flip.flipping] == ["dear", "dire"]
    assert [probe.value for probe in flip.probes] == [w for w in words if w != "good"]
    assert flip.answer() == "2 of 6 candidates flip it: fails with 'dear', 'dire'"
    few = flipped(
        lambda v: not v.startswith("d"), "good", store, candidates=words, every=True, max_probes=3
    )
    assert few.answer() == (
        "1 of 3 candidates flip it: fails with 'dear'; stopped after 3 probes, as many as "
        "max_probes allows"
    )


def test_a_candidate_that_is_given_twice_or_is_what_was_recorded_is_tried_once_or_never(store):
    flip = flipped(lambda v: True, "good", store, candidates=["bad", "good", ..., "bad", "dire"])

    assert [probe.value for probe in flip.probes] == ["bad", "dire"]


def test_numbers_can_be_candidates_too(store):
    flip = flipped(lambda v: v < 9, 5, store, candidates=[6, 5, 12, 9])

    assert flip.value == 12
    assert flip.bracket is None


def test_state_prompts_and_parameters_are_fields_as_in_a_grid(store):
    rw = Rewind(asking(Jitter(), 1), store=store)
    run = rw.run()
    state = rw.flip(run, "number", "state.given", "said == 'yes'", toward="down")
    prompt = rw.flip(run, "ask", "prompt", "said == 'yes'", candidates=["2", "0"])
    heat = rw.flip(run, "ask", "params.temperature", "said == 'yes'", max_probes=2)
    patch = rw.flip(run, "number", "patch.number", "said == 'yes'", toward="down")

    assert (state.value, patch.value, prompt.value) == (0, 0, "0")
    assert heat.recorded == 0.0
    assert [probe.value for probe in heat.probes] == [1 / 64, -1 / 64]


# -- samples --------------------------------------------------------------------------------------


def test_the_majority_of_samples_decides(store):
    rw = Rewind(asking(Jitter(), 9), store=store)
    flip = rw.flip(
        rw.run(),
        "number",
        "output.number",
        "said == 'yes'",
        samples=5,
        toward="down",
        between=(0, 9),
    )
    by_value = {probe.value: probe for probe in flip.probes}

    assert outcome(flip) == (2, (3, 2), -7)
    assert all(probe.passes == min(5, probe.value) for probe in flip.probes)
    assert all(len(probe.run_ids) == 5 for probe in flip.probes)
    assert by_value[2].verdict == "fail"


# -- asked, stopped, gone on with, reopened -------------------------------------------------


@pytest.mark.parametrize("seen", ["tool", "hook"])
@pytest.mark.parametrize("after", [0, 5, 14])
def test_a_flip_that_was_interrupted_makes_no_probe_twice_when_it_is_resumed(store, seen, after):
    rw = Rewind(app(lambda v: v < 1001, 450), store=store)
    run = rw.run()
    rw.on(STOP)
    WEIGHED.clear()
    STOP.event, STOP.after = ("step_started", "judge") if seen == "hook" else None, after
    with pytest.raises(KeyboardInterrupt) if seen == "hook" else contextlib.nullcontext():
        rw.flip(run, "take", "output.value", "ok == true")
    stopped = rw.last_experiment
    assert stopped.status == "interrupted"
    assert len(stopped.probes) < 25
    flip = rw.resume(stopped)

    assert outcome(flip) == (1001, (1000, 1001), 551)
    assert len(WEIGHED) == len(set(WEIGHED)) == len(flip.probes) == len(flip.runs)
    assert flip.status == "complete"


def test_a_search_ends_with_its_probes_and_says_so(store):
    short = flipped(lambda v: v < 1001, 450, store, max_probes=15)
    none = flipped(lambda v: v < 1001, 450, store, max_probes=5)

    assert len(short.probes) == 15
    assert short.bracket[0] <= 1000 < short.value
    assert short.answer().endswith("stopped after 15 probes, as many as max_probes allows")
    assert none.value is None
    assert none.answer().startswith(
        "no change between 422 and 562 flips it, at the 5 values probed;"
    )


def test_a_budget_stops_a_flip_and_another_goes_on(store):
    transport = Jitter()
    rw = Rewind(asking(transport, 9), store=store)
    run = rw.run()
    more = {"toward": "down", "between": (0, 9)}
    flip = rw.flip(run, "number", "output.number", "said == 'yes'", budget=Budget(calls=2), **more)

    assert flip.status == "interrupted"
    assert len(flip.probes) == 2
    assert "budget of 2 calls is spent" in flip.note
    assert flip.answer().endswith("stopped before it was over")
    assert rw.resume(flip, budget=Budget(calls=20)).value == 0
    assert all(count == 1 for count in transport.asked.values())


def test_a_stored_flip_reopens_and_goes_on(tmp_path):
    path = tmp_path / "runs.db"
    rw = Rewind(app(lambda v: v < 7, 5), store=path)
    planned = rw.flip(rw.run(), "take", "output.value", "ok == true", start=False)
    plan, before = rw.plan(planned), planned.answer()
    rw.store.close()
    again = Rewind(app(lambda v: v < 7, 5), store=path)
    done = again.resume(again.store.experiment(planned.id))
    assert done.value == 7
    again.store.close()
    with Store(path) as store:
        read = store.experiment(planned.id)

        assert before == ""
        assert plan.forks == 63  # at most
        assert repr(plan).startswith("<Estimate: 63 forks, at most 126 steps and 0 model calls")
        assert isinstance(read, rewind_nb.Flip)
        assert (read.answer(), repr(read)) == (done.answer(), repr(done))
        assert read.df.equals(done.df)
        assert read.df.value.tolist() == [5, 6, 4, 9, 1, 7]
        assert read.df.recorded.tolist() == [True] + [False] * 5
        assert read.question() == (
            f"which change of output.value at 0 'take' of {read.run.id} flips \"ok == true\""
        )
        head, rows = read.table()
        assert head == ["output.value", "change", "verdict", "reason", "forks"]
        assert rows[4][:3] == ["7", "+2", "fail"]
        assert "fails at 7" in read._repr_html_()


def test_a_flip_asked_with_a_function_says_that_it_cannot_be_taken_up_elsewhere(tmp_path):
    rw = Rewind(app(lambda v: True, 0), store=tmp_path / "runs.db")
    flip = rw.flip(rw.run(), "take", "output.value", lambda run: True, start=False)
    rw.store.close()
    again = Rewind(app(lambda v: True, 0), store=tmp_path / "runs.db")

    with pytest.raises(ExperimentError, match=r"^Flip e_\w+ was asked with a function"):
        again.resume(again.store.experiment(flip.id))


def test_an_async_application_flips_in_the_running_loop(store):
    rw = Rewind(app(lambda v: v < 7, 5, judge=ajudge), store=store)

    async def main():
        return await rw.aflip(await rw.arun(), "take", "output.value", "ok == true")

    assert asyncio.run(main()).value == 7


def test_a_flip_leaves_the_recorded_run_as_it_was(store):
    rw = Rewind(app(lambda v: v < 7, 5), store=store)
    run = rw.run()
    before = (run._row.row_hash, run._row.root, [step.row.row_hash for step in run.steps])
    rw.flip(run, "take", "output.value", "ok == true")
    run = store.run(run.id)

    assert before == (run._row.row_hash, run._row.root, [s.row.row_hash for s in run.steps])
    assert [found.id for found in store.runs()] == [run.id]


@pytest.mark.parametrize(
    ("field", "more", "error", "said"),
    [
        ("outptu.value", {}, ConfigError, "field= names 'outptu.value'.*'output'"),
        ("output.valeu", {"candidates": [1]}, OverrideError, "'valeu'.*'value'"),
        ("output.valeu", {}, ConfigError, "nothing is recorded.*Give candidates="),
        ("output.value", {"toward": "sideways"}, ConfigError, "'sideways' is not one of"),
        ("output.value", {"between": (9, 12)}, ConfigError, "does not hold the recorded value, 5"),
        ("output.value", {"between": (9, 1)}, ConfigError, "the least and the greatest"),
        ("output.value", {"between": (5, 9), "toward": "down"}, ConfigError, "Nothing is left"),
        ("output.value", {"tolerance": -1}, ConfigError, "tolerance=-1"),
        ("output.value", {"max_probes": 0}, ConfigError, "max_probes=0"),
        (
            "output.value",
            {"candidates": [1], "toward": "up"},
            ConfigError,
            "toward= is for a number",
        ),
        ("output.value", {"candidates": [5]}, ConfigError, "has the recorded value only"),
        ("output.value", {"check": "nowhere == 3"}, ExperimentError, "no verdict that could flip"),
    ],
)
def test_what_cannot_be_flipped_is_refused_before_anything_executes(
    store, field, more, error, said
):
    rw = Rewind(app(lambda v: True, 5), store=store)
    run = rw.run()
    WEIGHED.clear()

    with pytest.raises(error, match=said):
        rw.flip(run, "take", field, **({"check": "ok == true"} | more))
    assert WEIGHED == []
    assert store.experiments() == []


@action(reads=[], writes=["x"])
def broken(state: State) -> State:
    raise ValueError("broken")


def test_a_run_that_failed_has_no_verdict_to_flip(store):
    built = (
        ApplicationBuilder().with_actions(broken).with_entrypoint("broken").with_state(x=1).build()
    )
    rw = Rewind(built, store=store)
    with contextlib.suppress(ValueError):
        rw.run()

    with pytest.raises(ExperimentError, match=r"it failed \(ValueError: broken\)"):
        rw.flip(rw.last_run, "broken", "output.x", "x == 1", candidates=[2])
