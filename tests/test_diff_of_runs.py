"""The diff of two runs: aligned by meaning, every difference shown, every cause named."""

import apps
import pytest
from burr.core import ApplicationBuilder, State, action

from rewind_nb import Rewind
from rewind_nb.errors import NotFoundError, OverrideError


@pytest.fixture
def loop(store):
    rw = Rewind(apps.loop_app(), store=store)
    return rw, rw.run(inputs={"by": 1})


def test_a_run_is_identical_to_itself_and_to_its_unchanged_fork(loop):
    rw, run = loop
    fork = rw.fork(run, 1)

    for other in (run, fork):
        diff = rw.diff(run, other)
        assert diff.identical
        assert diff.changes == ()
        assert diff.divergence is None
    assert rw.diff(run, fork).ancestor.id == run.id
    assert rw.diff(run, fork).shared_steps == 1


def test_a_loop_that_runs_once_less_shifts_nothing(loop):
    rw, run = loop
    fork = rw.fork(run, ("count", 2), output={"n": 10})
    diff = rw.diff(run, fork)

    pairs = [(p.before and p.before.seq, p.after and p.after.seq) for p in diff.pairs]
    assert pairs == [(0, 0), (1, 1), (2, None), (3, 2)]
    removed = [c for c in diff.changes if c.path == "@step"]
    assert [(c.action, c.visit, c.kind) for c in removed] == [("count", 3, "removed")]


def test_a_state_override_shows_even_where_no_write_changed(store):
    rw = Rewind(apps.branch_app(), store=store)
    run = rw.run()
    fork = rw.fork(run, "judge", state={"fare": 460}, halt_after=["judge"])
    short = rw.fork(run, "judge", halt_after=["judge"])
    diff = rw.diff(short, fork)

    assert not diff.identical
    assert diff.divergence.path == "fare"
    assert (diff.divergence.before, diff.divergence.after) == (450, 460)
    assert [(c.path, c.cause) for c in diff.changes] == [("fare", "override")]


def test_strangers_with_another_initial_state_differ_there_first(store):
    cheap = Rewind(apps.branch_app(450), store=store)
    dear = Rewind(apps.branch_app(900), store=store)
    diff = cheap.diff(cheap.run(), dear.run())

    assert diff.ancestor is None
    assert diff.shared_steps == 0
    assert diff.divergence.path == "fare"
    assert diff.divergence.why == "another initial state"
    assert {"@step"} < {c.path for c in diff.changes}
    assert set(diff.outcome.changed) == {"fare", "verdict", "booking", "refusal", "summary"}


def test_siblings_share_their_parents_steps(loop):
    rw, run = loop
    one = rw.fork(run, 2, output={"n": 50})
    two = rw.fork(run, 2, output={"n": 60})
    diff = rw.diff(one, two)

    assert diff.ancestor.id == run.id
    assert diff.shared_steps == 2
    assert diff.divergence.path == "n"


def test_a_failed_run_is_compared_by_its_error(store):
    @action(reads=["n"], writes=["m"])
    def divide(state: State) -> State:
        return state.update(m=10 / state["n"])

    app = (
        ApplicationBuilder().with_actions(divide).with_state(n=0).with_entrypoint("divide").build()
    )
    rw = Rewind(app, store=store)
    with pytest.raises(ZeroDivisionError):
        rw.run()
    failed = rw.last_run
    fixed = rw.fork(failed, 0, state={"n": 5})
    diff = rw.diff(failed, fixed)

    assert {"n", "m", "@error"} <= {c.path for c in diff.changes}
    error = next(c for c in diff.changes if c.path == "@error")
    assert "ZeroDivisionError" in error.before
    assert error.kind == "removed"
    assert (diff.outcome.before, diff.outcome.after) == ("failed", "complete")


def test_why_names_every_chain_and_refuses_a_field_that_did_not_change(store):
    @action(reads=["x"], writes=["a"])
    def left(state: State) -> State:
        return state.update(a=state["x"] + 1)

    @action(reads=["x"], writes=["b"])
    def right(state: State) -> State:
        return state.update(b=state["x"] * 2)

    @action(reads=["a", "b"], writes=["c"])
    def join(state: State) -> State:
        return state.update(c=[state["a"], state["b"]])

    @action(reads=[], writes=["x"])
    def start(state: State) -> State:
        return state.update(x=1)

    app = (
        ApplicationBuilder()
        .with_actions(start, left, right, join)
        .with_transitions(("start", "left"), ("left", "right"), ("right", "join"))
        .with_entrypoint("start")
        .build()
    )
    rw = Rewind(app, store=store)
    run = rw.run()
    fork = rw.fork(run, "start", output={"x": 5})
    diff = rw.diff(run, fork)

    chains = [[(link.action, link.path) for link in chain] for chain in diff.why("c")]
    assert chains == [
        [("start", "x"), ("left", "a"), ("join", "c")],
        [("start", "x"), ("right", "b"), ("join", "c")],
    ]
    assert diff.why("c[0]")
    with pytest.raises(NotFoundError, match=r"Known: 'x', 'a'"):
        diff.why("cc")


def test_a_step_that_an_override_supplied_takes_no_other_kind_of_override(loop):
    rw, run = loop
    fork = rw.fork(run, 1, output={"n": 10})

    with pytest.raises(OverrideError, match="supplied by an override"):
        rw.fork(fork, 1, inputs={"by": 5})
    again = rw.fork(fork, 1, output={"n": 11})

    assert again[1].writes["n"] == 11
    assert rw.replay(again).ok


def test_two_overrides_of_one_step_in_a_fork_and_its_fork_both_hold(loop):
    rw, run = loop
    first = rw.fork(run, 1, inputs={"by": 5})
    second = rw.fork(first, 1, state={"log": ["replaced"]})

    assert second[1].inputs == {"by": 5}
    assert second[1].writes["log"][0] == "replaced"
    assert rw.replay(second).ok
    assert rw.fork(second, 0).state == second.state
