"""Laws of the trip planner: two paths that join late, and forks that execute one of them."""

import json
import re

import pytest
from burr.core import State, action

from rewind_nb import Rewind
from rewind_nb._text._shown import columns
from rewind_nb.demo import HALT_AFTER, isolation, offline_model, travel, travel_tools
from rewind_nb.demo.asking import misfit
from rewind_nb.demo.offline import OfflineModel
from rewind_nb.demo.travel_tools import BOOKINGS, days_of, find_rooms, find_sights, interests
from rewind_nb.errors import (
    ConfigError,
    EffectRefusedError,
    OverrideError,
    ProviderError,
    StepFailure,
)

ROOM = ["draw_offer", "describe_room", "reserve"]
OUTDOORS = ["read_request", "look_up_days", "weigh_weather", "plan_outdoors", *ROOM]
STEPS = [*OUTDOORS, "compose", "publish"]
WET = {"outlook.wet_days": 0.58}


@pytest.fixture(autouse=True)
def offline_and_apart(monkeypatch, tmp_path):
    for name in ("REWIND_BASE_URL", "REWIND_MODEL", "REWIND_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REWIND_ARTIFACT_DIR", str(tmp_path / "artifacts"))
    BOOKINGS.clear()


@pytest.fixture
def asked():
    """A model that words every answer anew, as a provider's does, and counts its requests."""
    return OfflineModel(jitter=True)


@pytest.fixture
def rw(store, asked):
    return Rewind(travel.build(model=offline_model(asked)), store=store)


@pytest.fixture
def run(rw):
    return rw.run()


def executed(run):
    apart = ("inherited", "reused", "override")
    return [step.action for step in run if step.source not in apart]


def reused(run):
    return [step.action for step in run if step.source == "reused"]


# -- the application under bare Burr ---------------------------------------------------


def finish(request=travel.REQUEST, **options):
    app = travel.build(request, **options)
    ran = [(step.name, state) for step, _, state in app.iterate(halt_after=HALT_AFTER)]
    return [name for name, _ in ran], ran[-1][1]


def test_the_bare_application_runs_its_nine_steps_in_order(tmp_path):
    ran, final = finish()
    [page] = tmp_path.rglob("trip.md")
    assert ran == STEPS
    assert final["letter"] in page.read_text(encoding="utf-8")
    assert "days" not in final


def test_a_wet_month_is_planned_indoors():
    ran, final = finish(travel.REQUEST.replace("October", "December"))
    assert ran[3] == "plan_indoors"
    assert final["outlook"] == {"days": 124, "wet_days": 0.58, "high_c": 8}
    assert WET == {"outlook.wet_days": final["outlook"]["wet_days"]}


def test_the_letter_has_the_numbers_that_were_computed():
    _, final = finish()
    letter, offer, booking = final["letter"], final["offer"], final["booking"]
    for part in (f"${offer['price']:.2f}", f"${booking['total']:.2f}", booking["code"], "16 degr"):
        assert part in letter
    assert booking["total"] == round(3 * offer["price"], 2)
    assert BOOKINGS[0]["hotel"] == offer["hotel"]


def test_jitter_rewords_and_never_touches_a_fact(rw):
    answers = {}
    for _ in range(20):
        run = rw.run(cache="refresh")
        for name in ("read_request", "plan_outdoors"):
            facts = re.findall(r"[A-Z]\w+|\d+", json.dumps(run[name].writes))
            answers.setdefault(name, []).append((facts, run[name].calls[-1].text))
    for found in answers.values():
        assert all(facts == found[0][0] for facts, _ in found)
    assert len({text for _, text in answers["plan_outdoors"]}) > 5


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        ("Three nights for two people, 90 dollars.", "names no month"),
        ("Some nights in May for two people, 90 dollars.", "says 'some' for a number of nights"),
    ],
)
def test_a_request_that_the_offline_model_cannot_read_is_refused_with_the_reason(request_, reason):
    with pytest.raises(ProviderError, match=reason):
        finish(request_)


# -- a change on one path --------------------------------------------------------------


def test_a_fork_executes_the_path_of_the_change_and_takes_the_other_over(rw, run, asked):
    before = asked.calls
    fork = rw.fork(run, "weigh_weather", patch=WET)

    assert executed(fork) == ["plan_indoors", "compose", "publish"]
    assert reused(fork) == ROOM
    assert {fork[name].reason for name in ROOM} == {"nothing it read changed"}
    assert asked.calls - before == 2
    assert len(BOOKINGS) == 1
    assert rw.replay(fork).require()


def test_the_random_step_and_the_model_call_of_the_other_path_do_not_change(rw, run):
    fork = rw.fork(run, "weigh_weather", patch=WET)

    for name in ROOM:
        assert fork[name].hash == run[name].hash
    assert fork.state["letter"] != run.state["letter"]
    for key in ("offer", "welcome", "booking"):
        assert fork.state[key] == run.state[key]


def test_they_do_change_where_every_step_is_executed_and_asked_again(rw, run):
    stub = {"reserve_room": {"code": "none", "total": 0.0}}
    again = rw.fork(run, "weigh_weather", patch=WET, reuse="none", cache="refresh", effects=stub)

    assert executed(again) == ["plan_indoors", *ROOM, "compose", "publish"]
    assert drawn(again) != drawn(run)
    assert again["describe_room"].calls[0].text != run["describe_room"].calls[0].text
    assert again.state["offer"] != run.state["offer"]


def drawn(run):
    return [call.response for call in run["draw_offer"].calls if call.kind == "random"]


def test_a_change_that_comes_to_nothing_converges_and_writes_the_page_all_the_same(rw, run, asked):
    before = asked.calls
    fork = rw.fork(run, "look_up_days", patch={"days[0].high_c": 21.0})

    assert executed(fork) == ["weigh_weather"]
    assert fork.converged_at == 3
    assert fork.state == run.state
    assert asked.calls == before
    page_of(run, fork)


def test_a_reused_publish_gives_the_fork_its_page(store):
    rw = Rewind(travel.build(), store=store)  # a model that says the same of the same
    run = rw.run()
    fork = rw.fork(run, "weigh_weather", patch={"outlook.days": 125})

    assert executed(fork) == ["compose"]
    assert fork.converged_at is None
    assert fork["publish"].source == "reused"
    page_of(run, fork)


def page_of(run, fork):
    [ours], [theirs] = run.artifacts, fork.artifacts
    assert (theirs.source, theirs.sha256) == ("render-cache", ours.sha256)
    assert theirs.path != ours.path
    assert theirs.path.read_bytes() == ours.path.read_bytes()


# -- why -------------------------------------------------------------------------------

BY_WEATHER = {
    ("weigh_weather outlook", "compose letter"),
    ("weigh_weather outlook", "plan_indoors plan", "compose letter"),
}
BY_ROOM = {
    ("draw_offer offer", "describe_room welcome", "compose letter"),
    ("draw_offer offer", "reserve booking", "compose letter"),
}


def chains(diff, path):
    return {tuple(f"{link.action} {link.path}" for link in links) for links in diff.why(path)}


def dearer(rw, run):
    """A fork with the override on the path of the room."""
    price = {"offer.price": run.state["offer"]["price"] + 10}
    return rw.fork(run, "draw_offer", patch=price, effects="live")


def test_why_names_the_chains_of_the_path_with_the_override(rw, run):
    weather = rw.diff(run, rw.fork(run, "weigh_weather", patch=WET))
    room = rw.diff(run, dearer(rw, run))

    assert chains(weather, "letter") == BY_WEATHER
    assert chains(room, "letter") == BY_ROOM
    for diff, known in ((weather, BY_WEATHER), (room, BY_ROOM)):
        page = {(*links, "publish published.sha256") for links in known}
        assert chains(diff, "published.sha256") == page


def test_why_names_the_chains_of_both_paths_after_they_joined_and_of_one_before(rw, run):
    both = rw.diff(run, dearer(rw, rw.fork(run, "weigh_weather", patch=WET)))

    assert chains(both, "letter") == BY_WEATHER | BY_ROOM
    assert {links[0] for links in chains(both, "welcome")} == {"draw_offer offer"}
    assert {links[0] for links in chains(both, "booking.total")} == {"draw_offer offer"}
    assert {links[0] for links in chains(both, "outlook.wet_days")} == {
        "weigh_weather outlook.wet_days"
    }


# -- refused before anything executes ----------------------------------------------------


@pytest.mark.parametrize(
    ("at", "override", "said"),
    [
        ("weigh_weather", {"state": {"offer": {}}}, "does not read the state field 'offer'"),
        ("draw_offer", {"state": {"outlook": {}}}, "The first later step that reads it is 7"),
        ("draw_offer", {"output": {"ofer": {}}}, "Did you mean 'offer'"),
        ("draw_offer", {"prompt": "Hello"}, "model call"),
        ("describe_room", {"tool_result": 1}, "tool call"),
        ("reserve", {"inputs": {"guests": 3}}, "guests"),
        (None, {"action": {"plan_indoors": travel.plan_indoors}}, "nothing would consume"),
    ],
)
def test_an_override_that_nobody_reads_raises_and_nothing_was_spent(
    at, override, said, rw, run, asked
):
    before = asked.calls
    with pytest.raises(OverrideError, match=said):
        rw.fork(run, at, **override)

    assert asked.calls == before
    assert len(BOOKINGS) == 1
    assert [found.id for found in rw.store.runs()] == [run.id]


# -- the effect ------------------------------------------------------------------------


def test_another_offer_is_not_booked_by_accident(rw, run):
    price = {"offer.price": run.state["offer"]["price"] + 10}
    with pytest.raises(EffectRefusedError, match=r"\(price differ\)"):
        rw.fork(run, "draw_offer", patch=price)
    assert len(BOOKINGS) == 1

    stub = rw.fork(run, "draw_offer", patch=price, effects={"reserve_room": run.state["booking"]})
    assert len(BOOKINGS) == 1
    assert reused(stub) == []
    assert rw.replay(stub).require()

    live = dearer(rw, run)
    assert [made["total"] for made in BOOKINGS] == [
        run.state["booking"]["total"],
        live.state["booking"]["total"],
    ]
    assert rw.replay(live).require()
    assert len(BOOKINGS) == 2


# -- an edited action --------------------------------------------------------------------


def test_rerun_from_executes_the_edited_action_and_its_dependants_and_says_so(rw, run, asked):
    before = asked.calls

    @action(reads=["days"], writes=["outlook"])
    def weigh_weather(state: State) -> State:
        days = state["days"]
        wet = sum(day["rain_mm"] >= 1 or day["high_c"] < 14 for day in days) / len(days)
        outlook = {"days": len(days), "wet_days": round(wet, 2), "high_c": 16}
        return state.update(outlook=outlook).wipe(delete=["days"])

    edited = travel.build(model=offline_model(asked), weigh_weather=weigh_weather)
    again = rw.rebind(edited).rerun_from(run)

    assert again.state["outlook"]["wet_days"] > 0.5
    assert executed(again) == ["weigh_weather", "plan_indoors", "compose", "publish"]
    assert reused(again) == ROOM
    assert again.overrides[0].value["actions"] == ["weigh_weather"]
    assert ": code of weigh_weather" in again.describe()
    assert again["weigh_weather"].reason.startswith("code of 'weigh_weather' changed")
    assert (asked.calls - before, len(BOOKINGS)) == (2, 1)
    assert rw.replay(again).require()


def test_a_callable_for_one_action_executes_that_and_its_dependants(rw, run):
    def terse(state, model):
        asked_for = model.settings["model"]
        return state.update(welcome=f"You sleep in {state['offer']['area']}, says {asked_for}.")

    declared = action(reads=["offer"], writes=["welcome"])(terse)
    for given in (terse, declared):  # either gets the model that is bound to the original
        fork = rw.fork(run, action={"describe_room": given})
        assert executed(fork) == ["describe_room", "compose", "publish"]
        assert reused(fork) == ["reserve"]
        assert "says offline-1" in fork.state["letter"]
        assert ": action describe_room = " in fork.describe()
        assert fork.describe().endswith("terse")


def test_an_action_that_there_is_none_of_is_refused_with_the_near_misses():
    with pytest.raises(ConfigError, match="Did you mean 'compose'"):
        travel.build(compoze=travel.compose)


# -- its tools and data ------------------------------------------------------------------


def test_what_the_data_cannot_serve_fails_the_step_that_asked_for_it():
    for call, step, hint in (
        (lambda: days_of("Octobre"), "look_up_days", "Did you mean 'October'"),
        (lambda: find_sights(["arts"], indoors=True), "read_request", "Did you mean 'art'"),
        (lambda: find_rooms(3, 50), "draw_offer", "Raise the budget"),
    ):
        with pytest.raises(StepFailure, match=hint) as caught:
            call()
        assert caught.value.step == step


def test_every_interest_has_sights_under_a_roof_and_in_the_open():
    for interest in interests():
        assert find_sights([interest], indoors=True)
        assert find_sights([interest], indoors=False)
    assert len(days_of("February")) == 28 * 4 + 1
    assert set(travel_tools.MONTHS) >= {"January", "December"}


def test_an_answer_without_a_whole_number_is_of_another_shape():
    for wrong in ("3", 3.0, True, None):
        assert misfit({"nights": wrong}, {"nights": 2}, "answer").endswith("not a whole number")
    assert misfit({"nights": 3}, {"nights": 2}, "answer") is None


# -- the story -------------------------------------------------------------------------


def test_the_story_says_what_each_fork_executed_and_fits_a_terminal(store):
    story, said = isolation.isolation_story(), []
    proof = story.tell(Rewind(story.app, store=store), said.append)
    text = "\n".join(said)

    assert proof.ok
    assert max(map(columns, text.splitlines())) <= 100
    assert re.search(r"4 draw_offer +reused +- +- +nothing it read changed", text)
    assert re.search(r"7 compose +executed +1 +\d+ +read `outlook`", text)
    assert re.search(r"8 publish +converged +- +- +converged at seq 3", text)
    assert re.search(r"4 draw_offer +reused +- +- +the same +executed +1 +- +changed", text)
    assert "weigh_weather outlook -> plan_indoors plan -> compose letter" in text
    assert len(BOOKINGS) == 1


def test_the_story_calls_nothing_a_change_that_is_none(store):
    rw = Rewind(isolation.isolation_story().app, store=store)
    run = rw.run()
    same = rw.fork(run, "weigh_weather")
    *steps, total = list(isolation.contrast_table(run, same, same))[2:]

    assert re.findall(r"\d changed", total) == ["0 changed"] * 2
    assert [line.count("the same") for line in steps] == [2] * 9
