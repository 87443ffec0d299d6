"""How stable a run is step by step, and whether another one differs by more than that."""

import asyncio
import itertools
import json
import math
import threading

import pytest
from burr.core import ApplicationBuilder, State, action, default, expr
from fake_provider import FakeProvider, chat_completion, reply
from hypothesis import given
from hypothesis import strategies as st

from rewind_nb import ChatModel, Rewind, Store
from rewind_nb._suite_frames import DEPLOYMENT_COLUMNS, MOVING_COLUMNS, SPREAD_COLUMNS
from rewind_nb.demo import booking, build
from rewind_nb.errors import CodeChangedError, ConfigError, ExperimentError, StepNotFoundError
from rewind_nb.experiments._entropy import entropy
from rewind_nb.experiments._noise import compared

# -- an application with one step that jitters ------------------------------------------------


@action(reads=["topic"], writes=["facts"])
def gather(state: State, model: ChatModel) -> State:
    return state.update(facts=model.chat(f"facts about {state['topic']}").text)


@action(reads=["topic"], writes=["draft"])
def draft(state: State, model: ChatModel) -> State:
    text = model.chat(f"draft on {state['topic']}").text
    return state.update(draft={"title": state["topic"], "body": {"text": text, "lines": 3}})


@action(reads=["facts"], writes=["count"])
def count(state: State) -> State:
    return state.update(count=len(state["facts"]))


@action(reads=["facts", "draft"], writes=["report"])
def join(state: State) -> State:
    return state.update(report=f"{state['facts']}: {state['draft']['body']['text']}")


@action(reads=["report"], writes=["checked"])
def check(state: State) -> State:
    return state.update(checked=bool(state["report"]))


@action(reads=["count", "checked"], writes=["output"])
def done(state: State) -> State:
    return state.update(output=f"{state['count']} facts, {state['checked']}")


@action(reads=["draft"], writes=["output"])
def give_up(state: State) -> State:
    if state["draft"]["body"]["text"] == "draft 4":
        raise ValueError("nothing to say")
    return state.update(output="gave up")


def app(model, *, patience=None):
    """`draft` jitters; `count` does not depend on it, `join` does, `check` only in theory."""
    ways = [("join", "check")]
    if patience is not None:
        ways = [
            ("join", "give_up", expr(f"report.endswith({patience!r})")),
            ("join", "check", default),
        ]
    return (
        ApplicationBuilder()
        .with_actions(
            count, join, check, done, give_up,
            gather=gather.bind(model=model), draft=draft.bind(model=model),
        )
        .with_transitions(("gather", "draft"), ("draft", "count"), ("count", "join"), *ways, ("check", "done"))
        .with_state(topic="owls")
        .with_entrypoint("gather")
        .build()
    )  # fmt: skip


class Jittering:
    """Answers drafts with another text each time, modulo *every*; all else always alike."""

    def __init__(self, every=None, deployments=()):
        self.lock, self.drafts = threading.Lock(), itertools.count()
        self.every, self.deployments = every, deployments

    def __call__(self, seen):
        if not seen.prompt.startswith("draft"):
            return reply(chat_completion(f"answer to {len(seen.prompt)}"))
        with self.lock:
            n = next(self.drafts)
        named = {}
        if self.deployments:
            named = {"system_fingerprint": self.deployments[n % len(self.deployments)]}
        text = f"draft {n if self.every is None else n % self.every}"
        if seen.json.get("seed") == 7:  # planted: whoever asks so is told something else
            text = "another draft"
        return reply(chat_completion(text, **named))


@pytest.fixture
def drafting():
    """A Rewind of the application and its recorded run, for a way to jitter."""
    opened = []

    def start(every=None, deployments=(), store=":memory:", **settings):
        provider = FakeProvider(then=Jittering(every, deployments))
        opened.append(provider.__enter__())
        model = ChatModel(provider.base_url, "toy", max_retries=0)
        rw = Rewind(app(model, **settings), store=store)
        return rw, rw.run(halt_after=["done", "give_up"])

    yield start
    for provider in opened:
        provider.__exit__(None, None, None)


# -- which steps -------------------------------------------------------------------------------


def test_without_jitter_every_step_has_a_share_of_one():
    rw = Rewind(build("penguins"), store=":memory:")
    run = rw.run(halt_after=["publish"])

    stability = rw.stability(run, k=20)

    assert list(stability.df.share) == [1.0] * len(run)
    assert list(stability.df.as_recorded) == [20] * len(run)
    assert stability.stable
    assert stability.first_unstable is None
    assert stability.fields.empty
    assert "every step did the same in all 20 (a share of at least 0.84)" in repr(stability)


def test_jitter_in_one_step_is_found_in_it_and_its_dependants_and_nowhere_else(drafting):
    rw, run = drafting()

    stability = rw.stability(run, k=8)

    unsteady = {spread.action for spread in stability.steps if not spread.steady}
    assert unsteady == {"draft", "join"}
    assert stability.first_unstable.action == "draft"
    assert stability["draft"].varies == "itself"
    assert stability["join"].varies == "unknown"  # no two drafts were the same
    assert stability["join"].share.distinct == 8
    assert {s.share.share for s in stability.steps if s.steady} == {1.0}


def test_a_dependant_that_does_the_same_on_the_same_inputs_varies_with_them_only(drafting):
    rw, run = drafting(every=2)

    stability = rw.stability(run, k=8)

    assert (stability["draft"].varies, stability["join"].varies) == ("itself", "inputs")
    assert (stability["join"].share.count, stability["join"].share.distinct) == (4, 2)
    assert stability["join"].recorded == 4
    assert "on the same inputs: draft:1" in repr(stability)


def test_only_the_fields_that_move_are_listed_with_their_entropy(drafting):
    rw, run = drafting(every=2)

    fields = rw.stability(run, k=8).fields

    assert list(zip(fields.action, fields.path, strict=True)) == [
        ("draft", "draft.body.text"),
        ("join", "report"),
    ]
    assert list(fields.entropy) == pytest.approx([1 / 3, 1 / 3])  # 1 bit of log2(8)
    assert list(fields.distinct) == [2, 2]


def test_executions_that_take_another_path_or_fail_are_counted_as_such(drafting):
    rw, run = drafting(every=5, patience=("draft 3", "draft 4"))

    stability = rw.stability(run, k=10)

    assert (len(stability.other_paths), len(stability.failed)) == (2, 2)
    assert stability["check"].share.reached == 6
    assert not stability["check"].steady
    assert stability["give_up"].seq is None
    assert (stability["give_up"].failed, stability["give_up"].share.distinct) == (2, 2)
    assert "2 took another path than the recorded run; 2 failed" in repr(stability)


def test_an_execution_starts_where_it_is_told_to(drafting):
    rw, run = drafting()

    stability = rw.stability(run, k=3, at="count")

    assert stability.stable
    assert [spread.action for spread in stability] == ["count", "join", "check", "done"]
    assert stability.draws[0].run.steps[1].source == "inherited"


def test_answers_are_grouped_by_the_deployment_that_gave_them(drafting):
    rw, run = drafting(every=2, deployments=("fp_a", "fp_b"))

    stability = rw.stability(run, k=8)

    grouped = stability.deployments
    assert dict(grouped.dtypes) == DEPLOYMENT_COLUMNS
    drafts = grouped[grouped.action == "draft"]
    assert sorted(drafts.system_fingerprint) == ["fp_a", "fp_b"]
    assert list(drafts.share) == [1.0, 1.0]
    assert list(drafts.reached) == [4, 4]
    assert "within each system_fingerprint every step did the same" in repr(stability)


def test_where_no_answer_names_a_deployment_there_are_no_groups(drafting):
    rw, run = drafting()

    assert rw.stability(run, k=2).deployments.empty


def test_a_step_is_found_by_name_visit_and_address(drafting):
    rw, run = drafting()
    stability = rw.stability(run, k=2)

    for place in ("draft", ("draft", 1), "draft:1"):
        assert stability[place].action == "draft"
    with pytest.raises(StepNotFoundError, match="Did you mean 'draft:1'"):
        stability["drafts"]


def test_the_share_that_passes_a_check_is_told(drafting):
    rw, run = drafting(every=4)

    stability = rw.stability(run, k=8, check="report contains 'draft 1'")

    assert stability.passes == 2
    assert "2 of 8 judged pass (0.07 to 0.59)" in repr(stability)


# -- beside another run ------------------------------------------------------------------------


@pytest.mark.parametrize("every", [1, 3, None])
def test_a_fork_without_an_override_is_within_the_runs_own_variation(drafting, every):
    rw, run = drafting(every)
    same = rw.fork(run, "draft", reuse="none", cache="refresh")

    again, as_it_is = (rw.stability(run, k=20, against=b).noise for b in (same, [same]))

    assert (again.verdict, as_it_is.verdict) == ("within", "within")
    assert (again.others, as_it_is.others) == (20, 1)


@pytest.mark.parametrize("every", [1, 3, None])
def test_a_planted_difference_is_larger_than_the_runs_own_variation(drafting, every):
    rw, run = drafting(every)
    fork = rw.fork(run, "gather", patch={"facts": "owls see at night"})

    again, as_it_is = (rw.stability(run, k=20, against=b).noise for b in (fork, [fork]))

    assert (again.verdict, as_it_is.verdict) == ("larger", "larger")
    assert {"facts", "count", "output"} <= set(again.moved)
    assert as_it_is.p == pytest.approx(1 / 21)


def test_a_change_of_what_jitters_anyway_is_within_and_so_is_what_it_leaves_alone(drafting):
    rw, run = drafting()
    fork = rw.fork(run, "draft", params={"seed": 7})

    whole = rw.stability(run, k=20, against=[fork])
    beside = rw.stability(run, k=20, against=[fork], outcome="output")

    assert whole.noise.verdict == "within"
    assert beside.noise.verdict == "within"
    assert beside.noise.fields == 2  # it, and how the run ended


def test_an_outcome_is_compared_instead_of_the_state(drafting):
    rw, run = drafting()
    fork = rw.fork(run, "gather", patch={"facts": "owls see at night"})

    seen = [
        rw.stability(run, k=20, against=[fork], outcome=outcome).noise.verdict
        for outcome in ("count", ["count", "output"], lambda run: run.state["count"], "topic")
    ]

    assert seen == ["larger", "larger", "larger", "within"]


def test_a_fork_that_fails_where_the_run_does_not_is_larger(drafting):
    rw, run = drafting(every=1, patience=("draft 4",))
    with pytest.raises(ValueError, match="nothing to say"):
        rw.fork(run, "draft", patch={"draft.body.text": "draft 4"})
    fork = rw.last_run

    noise = rw.stability(run, k=20, against=[fork], outcome="topic").noise

    assert fork.status == "failed"
    assert (noise.verdict, noise.moved) == ("larger", ("@status",))


def test_with_too_few_runs_nothing_is_claimed(drafting):
    rw, run = drafting(every=1)
    fork = rw.fork(run, "gather", patch={"facts": "owls see at night"})

    noise = rw.stability(run, k=5, against=[fork]).noise

    assert noise.verdict == "unknown"
    assert "too few runs to tell (p is 0.17 at least)" in noise.words


def test_both_are_executed_from_where_the_fork_starts(drafting):
    rw, run = drafting(every=1)
    fork = rw.fork(run, "join", patch={"report": ""})

    stability = rw.stability(run, k=2, against=fork)

    assert stability.asked["step"] == "3 'join'"
    assert {made.origin.at for made in stability.runs} == {3}
    theirs = [made for made in stability.runs if made.origin.parent == fork.id]
    assert [made.state["report"] for made in theirs] == ["", ""]


# -- the arithmetic ------------------------------------------------------------------------------


def brute_force(own, others):
    """p by the definition, with fractions of nothing: every choice, the means in the open."""
    runs = [*own, *others]
    paths = {path for run in runs for path in run}

    def apart(a, b):
        return sum(a.get(path) != b.get(path) for path in paths)

    def excess(chosen):
        rest = [i for i in range(len(runs)) if i not in chosen]
        inside = [apart(runs[i], runs[j]) for i, j in itertools.combinations(chosen, 2)]
        across = [apart(runs[i], runs[j]) for i in chosen for j in rest]
        return sum(across) / len(across) - sum(inside) / len(inside)

    seen = excess(range(len(own)))
    every = [excess(c) for c in itertools.combinations(range(len(runs)), len(own))]
    return sum(other >= seen - 1e-9 for other in every) / len(every)


DRAWN = st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz"), max_size=3)


@given(st.lists(DRAWN, min_size=2, max_size=4), st.lists(DRAWN, min_size=1, max_size=3))
def test_p_is_the_share_of_choices_that_are_as_far_apart(own, others):
    noise = compared(own, others)

    if noise.fields:
        assert noise.p == pytest.approx(brute_force(own, others))
        assert noise.least == 1 / math.comb(len(own) + len(others), len(others))
    else:
        assert noise.p is None


def test_p_is_rarely_small_where_both_are_the_same():
    """Under no difference p is at most 0.05 in no more than about one case of twenty."""
    import random

    drawn = random.Random(3)

    def runs(n):
        return [{"a": str(drawn.randrange(4)), "b": str(drawn.randrange(2))} for _ in range(n)]

    larger = sum(compared(runs(6), runs(6)).verdict == "larger" for _ in range(200))

    assert larger <= 20  # 10 are expected


def test_draws_at_random_agree_with_all_choices():
    own = [{"a": str(n % 3), "b": "x"} for n in range(12)]
    far = [{"a": str(n % 3), "b": "y"} for n in range(12)]

    assert compared(own, far).p == pytest.approx(1e-4)
    assert compared(own, own).p > 0.3


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8))
def test_entropy_is_between_never_and_always(counts):
    found = entropy(counts)

    assert 0.0 <= found <= 1.0
    assert (found == 0.0) == (len(counts) == 1)
    assert entropy([1] * max(2, sum(counts))) == pytest.approx(1.0)


# -- asking, stopping, reading again -------------------------------------------------------------


def test_what_cannot_be_asked_is_refused_before_anything_executes(drafting):
    rw, run = drafting()
    for k in (1, 0, True, 2.0, None):
        with pytest.raises(ConfigError, match="k="):
            rw.stability(run, k=k)
    with pytest.raises(ConfigError, match="against= has no run"):
        rw.stability(run, against=[])
    with pytest.raises(StepNotFoundError, match="Did you mean 'draft'"):
        rw.stability(run, at="drfat")
    tight = Rewind(booking.build(limit=1.0), store=Store(":memory:"))
    loose = Rewind(booking.build(), store=tight.store).run(halt_after=["reply"])
    with pytest.raises(CodeChangedError):
        tight.stability(loose)
    assert tight.store.experiments() == rw.store.experiments() == []


def test_it_costs_what_it_said_and_k_of_everything(drafting):
    rw, run = drafting()
    fork = rw.fork(run, "draft", params={"seed": 7})

    asked = rw.stability(run, k=3, against=fork, start=False)
    plan = rw.plan(asked)
    made = rw.resume(asked)

    assert (plan.forks, plan.model_calls) == (6, 6)
    live = [c for r in made.runs for s in r.steps[1:] for c in s.calls if c.kind == "model"]
    assert [call.source for call in live] == ["live"] * 6


def test_a_stability_that_was_stopped_goes_on_and_makes_nothing_again(drafting):
    from rewind_nb._budget import Budget

    rw, run = drafting()

    stopped = rw.stability(run, k=5, budget=Budget(calls=4), max_workers=1)
    ended = len(stopped.ended)
    went_on = rw.resume(stopped, budget=Budget(calls=100))

    assert (stopped.status, ended, stopped.stable) == ("interrupted", 2, False)
    assert (went_on.status, len(went_on.ended), len(went_on.runs)) == ("complete", 5, 5)


def test_it_reads_the_same_from_its_file(drafting, tmp_path):
    rw, run = drafting(store=tmp_path / "runs.db")
    fork = rw.fork(run, "draft", params={"seed": 7})
    stability = rw.stability(run, k=4, against=fork, outcome=lambda run: run.state["count"])
    lost = rw.stability(run, k=4, outcome=lambda run: 1, start=False)
    rw.store.close()

    again = Store(tmp_path / "runs.db", read_only=True).experiment(stability.id)

    assert repr(again) == repr(stability)
    assert again.df.equals(stability.df)
    assert again.noise == stability.noise
    assert again._repr_html_() == stability._repr_html_()
    assert json.dumps(again.asked["mode"]) == '{"reuse": "none", "cache": "refresh"}'
    other = Rewind(app(ChatModel("http://offline.invalid", "toy")), store=tmp_path / "runs.db")
    with pytest.raises(ExperimentError, match="does not give functions back"):
        other.resume(other.store.experiment(lost.id))


def test_the_frames_have_their_columns_also_where_nothing_is_known(drafting):
    rw, run = drafting()

    for stability in (rw.stability(run, k=2), rw.stability(run, k=2, start=False)):
        assert dict(stability.df.dtypes) == SPREAD_COLUMNS
        assert dict(stability.fields.dtypes) == MOVING_COLUMNS


def test_the_async_twin_does_the_same(drafting):
    rw, run = drafting()

    stability = asyncio.run(rw.astability(run, k=3))

    assert stability.first_unstable.action == "draft"
