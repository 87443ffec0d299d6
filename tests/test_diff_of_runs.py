"""The diff of two runs: aligned by meaning, every difference shown, every cause named."""

import apps
import pytest
from burr.core import ApplicationBuilder, State, action, expr

from rewind_nb import Rewind, Store, artifact
from rewind_nb._chains import Link
from rewind_nb._compare import compare
from rewind_nb._path import MISSING
from rewind_nb.errors import NotFoundError, OverrideError


@pytest.fixture
def loop(store):
    rw = Rewind(apps.loop_app(), store=store)
    return rw, rw.run(inputs={"by": 1})


def test_a_run_is_identical_to_itself_and_to_its_unchanged_fork(loop):
    rw, run = loop
    fork = rw.fork(run, 1, reuse="none")

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


# -- causes ----------------------------------------------------------------------------


def chain_app(*actions, **state):
    """The actions one after the other."""
    names = [a.__name__ for a in actions]
    return (
        ApplicationBuilder()
        .with_actions(*actions)
        .with_transitions(*zip(names, names[1:], strict=False))
        .with_state(**state)
        .with_entrypoint(names[0])
        .build()
    )


def step(name, function, reads=(), writes=()):
    """An action that updates the state with what *function* makes of it."""

    @action(reads=list(reads), writes=list(writes))
    def act(state: State) -> State:
        return state.update(**function(state))

    act.__name__ = name
    return act


def causes(diff):
    return {(c.action, c.path): c.cause for c in diff.changes}


def links(diff, path):
    return [[(link.action, link.path) for link in chain] for chain in diff.why(path)]


@pytest.fixture
def line(store):
    s1 = step("s1", lambda s: {"y": s["x"] + 1}, ["x"], ["y"])
    s2 = step("s2", lambda s: {"z": s["y"] * 2}, ["y"], ["z"])
    s3 = step("s3", lambda s: {"q": s["z"] - 3}, ["z"], ["q"])
    rw = Rewind(chain_app(s1, s2, s3, x=1), store=store)
    return rw, rw.run()


def test_an_override_is_the_cause_wherever_it_was_made(line):
    rw, run = line
    first = rw.fork(run, "s1", output={"y": 50})
    second = rw.fork(run, "s2", output={"z": 70})
    of_fork = rw.fork(first, "s3", output={"q": 9})

    assert causes(rw.diff(run, of_fork)) == {
        ("s1", "y"): "override",
        ("s2", "z"): "read 'y' (step 0 's1')",
        ("s3", "q"): "override",
    }
    assert causes(rw.diff(first, run)) == {
        ("s1", "y"): "override",
        ("s2", "z"): "read 'y' (step 0 's1')",
        ("s3", "q"): "read 'z' (step 1 's2')",
    }
    assert causes(rw.diff(first, second)) == {
        ("s1", "y"): "override",
        ("s2", "z"): "override",
        ("s3", "q"): "read 'z' (step 1 's2')",
    }


def test_a_state_override_shows_from_either_side_and_starts_the_chains(store):
    s1 = step("s1", lambda s: {"y": s["x"] + 1}, ["x"], ["y"])
    s2 = step("s2", lambda s: {"z": s["x"] + s["y"]}, ["x", "y"], ["z"])
    s3 = step("s3", lambda s: {"q": s["x"] * 2}, ["x"], ["q"])
    rw = Rewind(chain_app(s1, s2, s3, x=1), store=store)
    run = rw.run()
    fork = rw.fork(run, "s2", state={"x": 7})

    there, back = rw.diff(run, fork), rw.diff(fork, run)
    assert causes(there) == causes(back)
    assert causes(there) == {
        ("s2", "x"): "override",
        ("s2", "z"): "override",
        ("s3", "q"): "read 'x' (step 1 's2')",
    }
    entering = [[c for c in diff.changes if c.path == "x"] for diff in (there, back)]
    assert [(c.before, c.after) for (c,) in entering] == [(1, 7), (7, 1)]
    assert links(there, "q") == [[("s2", "x"), ("s3", "q")]]


def test_a_key_that_one_side_looked_for_among_all_keys_was_read_there(store):
    look = step("look", lambda s: {"seen": s.get("e")}, ["e"], ["seen"])
    count = step("count", lambda s: {"n": len(list(s.keys()))}, [], ["n"])
    rw = Rewind(chain_app(look, count, x=1), store=store)
    run = rw.run()
    fork = rw.fork(run, "look", state={"e": None})

    for diff in (rw.diff(run, fork), rw.diff(fork, run)):
        assert causes(diff)["count", "n"] == "read 'e' (step 0 'look')"
        assert links(diff, "n") == [[("look", "e"), ("count", "n")]]


def test_the_writer_named_is_the_last_one_that_did_different_things(store):
    i0 = step("i0", lambda _: {"x": 1, "m": 1}, [], ["x", "m"])
    i1 = step("i1", lambda s: {"x": 5} if s["m"] == 1 else {}, ["m"], ["x"])
    i2 = step("i2", lambda s: {"o": s["x"]}, ["x"], ["o"])
    i3 = step("i3", lambda s: {"x": 8}, [], ["x"])
    i4 = step("i4", lambda s: {"p": s["o"] + s["x"]}, ["o", "x"], ["p"])
    rw = Rewind(chain_app(i0, i1, i2, i3, i4), store=store)
    run = rw.run()
    diff = rw.diff(run, rw.fork(run, "i0", patch={"m": 2}))

    assert causes(diff) == {
        ("i0", "m"): "override",
        ("i1", "x"): "read 'm' (step 0 'i0')",
        ("i2", "o"): "read 'x' (step 1 'i1')",
        ("i4", "p"): "read 'o' (step 2 'i2')",
    }
    assert links(diff, "o") == [[("i0", "m"), ("i1", "x"), ("i2", "o")]]


@pytest.mark.parametrize("wipe", [{"delete": ["x"]}, {"keep": ["m"]}])
def test_a_deletion_on_one_side_is_a_cause(store, wipe):
    @action(reads=["m"], writes=[])
    def drop(state: State) -> State:
        return state.wipe(**wipe) if state["m"] == 2 else state

    i0 = step("i0", lambda _: {"x": 1, "m": 1}, [], ["x", "m"])
    i2 = step("i2", lambda s: {"o": s.get("x")}, ["x"], ["o"])
    rw = Rewind(chain_app(i0, drop, i2), store=store)
    run = rw.run()
    diff = rw.diff(run, rw.fork(run, "i0", patch={"m": 2}))

    assert causes(diff)["i2", "o"] == "read 'x' (step 1 'drop')"
    assert links(diff, "o") == [[("i0", "m"), ("drop", "x"), ("i2", "o")]]


def test_a_step_that_only_one_side_has_is_a_cause_and_its_absence_can_be_asked_for(loop):
    rw, run = loop
    fork = rw.fork(run, ("count", 2), output={"n": 10})
    diff = rw.diff(run, fork)

    report = next(c for c in diff.changes if c.action == "report")
    assert "'n' (step 1 'count', removed step 2 'count')" in report.cause
    assert "'log' (removed step 2 'count')" in report.cause
    for other in (diff, rw.diff(fork, run)):
        led = Link(1, "count", "n", visit=2)  # what the loop's condition read
        assert other.why("@step") == [(led, Link(2, "count", "@step", visit=3))]
    back = next(c for c in rw.diff(fork, run).changes if c.action == "report")
    assert "'n' (step 1 'count', step 2 'count')" in back.cause


def scaled(factor, store):
    first = step("first", lambda s: {"x": s["w"]}, ["w"], ["x"])
    second = step("second", lambda s: {"y": s["x"] * factor}, ["x"], ["y"])
    return Rewind(chain_app(first, second, w=1), store=store)


def test_changed_code_is_a_cause_of_its_own(store):
    run = scaled(2, store).run()
    rw = scaled(3, store)
    alone = rw.fork(run, "second", allow_code_change=True)
    both = rw.fork(run, "first", output={"x": 5}, allow_code_change=True)

    recoded = "its code changed (closure scaled.<locals>.<lambda>.factor changed 2 -> 3)"
    assert causes(rw.diff(run, alone)) == {("second", "y"): recoded}
    diff = rw.diff(run, both)
    assert causes(diff) == {
        ("first", "x"): "override",
        ("second", "y"): f"read 'x' (step 0 'first'); {recoded}",
    }
    assert links(diff, "y") == [[("second", "y")], [("first", "x"), ("second", "y")]]


def test_other_inputs_are_a_cause(loop):
    rw, run = loop
    diff = rw.diff(run, rw.run(inputs={"by": 2}))

    first, second = [c.cause for c in diff.changes if c.path == "n" and c.visit < 3]
    assert first == "given other inputs: 'by'"
    assert second.endswith("(step 0 'count'); given other inputs: 'by'")


def spin_app(limit, turn):
    again = step("spin", turn, ["i"], ["i"])
    return (
        ApplicationBuilder()
        .with_actions(again, step("end", lambda s: {"done": s["a"]}, ["a"], ["done"]))
        .with_transitions(("spin", "spin", expr(f"i < {limit}")), ("spin", "end"))
        .with_state(i=0, a=1, b=1)
        .with_entrypoint("spin")
        .build()
    )


@pytest.mark.thorough
def test_a_chain_of_a_thousand_steps_is_followed_to_its_start(store):
    rw = Rewind(spin_app(1_100, lambda s: {"i": s["i"] + 1, "a": s["a"] + 1}), store=store)
    run = rw.run()
    (chain,) = rw.diff(run, rw.fork(run, ("spin", 1), patch={"a": 50})).why("done")

    assert len(chain) == 1_101
    assert [link.seq for link in chain] == list(range(1_101))


def test_why_keeps_the_shortest_of_exponentially_many_chains(store):
    def turn(state):
        a, b = state["a"], state["b"]
        return {"i": state["i"] + 1, "a": a + b, "b": a - b}

    rw = Rewind(spin_app(60, turn), store=store)
    run = rw.run()
    fork = rw.fork(rw.fork(run, 0, patch={"a": 50, "b": 7}), ("spin", 58), state={"a": 9})
    chains = rw.diff(run, fork).why("done")

    lengths = [len(chain) for chain in chains]
    assert len(set(chains)) == len(chains) == 64
    assert lengths == sorted(lengths)
    assert lengths[:5] == [4, 4, 4, 4, 61]
    assert all(chain[0].seq in (0, 57) and chain[-1] == Link(60, "end", "done") for chain in chains)


# -- which overrides set the runs apart ------------------------------------------------


def given_overrides(diff):
    return [(g.side, g.action, g.visit, g.words) for g in diff.overrides]


def test_the_override_of_a_fork_sets_it_apart_from_its_parent_whichever_comes_first(loop):
    rw, run = loop
    fork = rw.fork(run, ("count", 2), output={"n": 10})
    there, back = rw.diff(run, fork), rw.diff(fork, run)

    assert given_overrides(there) == [("after", "count", 2, "replace n = 10")]
    assert there.cause == "replace n = 10"
    assert given_overrides(back) == [("before", "count", 2, "replace n = 10")]
    assert back.cause == "replace n = 10 (before)"


def test_siblings_are_set_apart_by_the_overrides_of_both(line):
    rw, run = line
    first = rw.fork(run, "s1", output={"y": 50})
    second = rw.fork(run, "s2", output={"z": 70})

    assert given_overrides(rw.diff(first, second)) == [
        ("before", "s1", 1, "replace y = 50"),
        ("after", "s2", 1, "replace z = 70"),
    ]
    assert rw.diff(first, second).cause == "replace y = 50 (before); replace z = 70 (after)"


def test_what_both_sides_were_given_does_not_set_them_apart(line):
    rw, run = line
    first = rw.fork(run, "s1", output={"y": 50})
    twin = rw.fork(run, "s1", output={"y": 50})
    inner = rw.fork(first, "s3", output={"q": 9})
    other = rw.fork(first, "s3", output={"q": 8})

    assert rw.diff(first, twin).cause is None
    assert rw.diff(first, inner).cause == "replace q = 9"
    assert rw.diff(other, inner).cause == "replace q = 8 (before); replace q = 9 (after)"


def test_a_fork_of_a_fork_is_set_apart_from_its_root_by_all_it_was_given(line):
    rw, run = line
    inner = rw.fork(rw.fork(run, "s1", output={"y": 50}), "s3", output={"q": 9})

    assert rw.diff(run, inner).cause == "replace y = 50; replace q = 9"
    assert rw.diff(run, inner).overrides[0].seq == 0


def test_of_two_overrides_of_one_step_the_one_that_only_one_side_has_is_named(loop):
    rw, run = loop
    first = rw.fork(run, 1, inputs={"by": 5})
    second = rw.fork(first, 1, state={"log": ["replaced"]})

    assert rw.diff(first, second).cause == "state log = ['replaced']"
    assert rw.diff(run, second).cause == "input by = 5; state log = ['replaced']"


def test_an_override_that_changed_nothing_is_named_and_strangers_have_none(line):
    rw, run = line
    same = rw.fork(run, "s1", output={"y": 2})
    diff = rw.diff(run, same)

    assert diff.identical
    assert given_overrides(diff) == [("after", "s1", 1, "replace y = 2")]
    assert rw.diff(same, rw.fork(same, "s2", output={"z": 1})).cause == "replace z = 1"
    assert rw.diff(run, rw.run()).cause is None


def test_the_override_of_a_step_that_only_one_side_took_is_named(loop):
    rw, run = loop
    longer = rw.fork(run, ("count", 3), inputs={"by": 0})
    shorter = rw.fork(run, ("count", 2), output={"n": 10})

    assert ("before", "count", 3, "input by = 0") in given_overrides(rw.diff(longer, shorter))


# -- what differs because the runs took other ways ---------------------------------------

PARTED = "the runs took different paths after step 0 'judge', whose conditions read 'verdict'"


def test_the_chain_to_what_another_branch_did_leads_through_its_condition(store):
    rw = Rewind(apps.branch_app(), store=store)
    run = rw.run()
    fork = rw.fork(run, "judge", state={"fare": 900})

    for diff in (rw.diff(run, fork), rw.diff(fork, run)):
        for path, by in (("booking", "book"), ("booking.paid", "book"), ("refusal", "refuse")):
            assert links(diff, path) == [
                [("judge", "verdict"), (by, path)],
                [("judge", "fare"), (by, path)],
            ]
        assert [("judge", "verdict"), ("book", "booking"), ("summarise", "summary")] in links(
            diff, "summary"
        )
        (taken,) = diff.why("@step", at="book:1")
        assert [(link.action, link.path) for link in taken] == [
            ("judge", "verdict"),
            ("book", "@step"),
        ]
        assert {c.cause for c in diff.changes if c.path == "@step"} == {PARTED}
        with pytest.raises(NotFoundError):
            diff.why("booking.hotel")
        with pytest.raises(NotFoundError):
            diff.why("booking", at="refuse:1")


def test_a_condition_on_what_an_earlier_step_wrote_leads_back_to_that_step(store):
    i0 = step("i0", lambda _: {"x": 1}, [], ["x"])
    i1 = step("i1", lambda _: {"m": 1}, [], ["m"])
    left = step("left", lambda _: {"way": "same"}, [], ["way"])
    right = step("right", lambda _: {"way": "same"}, [], ["way"])
    app = (
        ApplicationBuilder()
        .with_actions(i0=i0, i1=i1, left=left, right=right)
        .with_transitions(("i0", "i1"), ("i1", "left", expr("x == 1")), ("i1", "right"))
        .with_entrypoint("i0")
        .build()
    )
    rw = Rewind(app, store=store)
    run = rw.run()
    diff = rw.diff(run, rw.fork(run, "i0", output={"x": 2}))

    assert links(diff, "way") == [[("i0", "x"), ("right", "way")]]
    assert {c.cause for c in diff.changes if c.path == "@step"} == {
        "the runs took different paths after step 1 'i1', whose conditions read 'x' (step 0 'i0')"
    }


def test_a_run_that_halted_where_the_ways_had_met_again_took_no_other_way(store):
    i0 = step("i0", lambda _: {"x": 1}, [], ["x"])
    left = step("left", lambda _: {"y": 1}, [], ["y"])
    right = step("right", lambda _: {"y": 2}, [], ["y"])
    meet = step("meet", lambda _: {"m": 1}, [], ["m"])
    last = step("last", lambda _: {"z": 1}, [], ["z"])
    app = (
        ApplicationBuilder()
        .with_actions(i0=i0, left=left, right=right, meet=meet, last=last)
        .with_transitions(
            ("i0", "left", expr("x == 1")), ("i0", "right"), (["left", "right"], "meet"),
            ("meet", "last"),
        )
        .with_entrypoint("i0")
        .build()
    )  # fmt: skip
    rw = Rewind(app, store=store)
    run = rw.run()
    halted = rw.fork(run, "i0", output={"x": 2}, halt_after=["meet"])

    for diff, second in ((rw.diff(run, halted), "right"), (rw.diff(halted, run), "left")):
        assert links(diff, "y") == [[("i0", "x"), (second, "y")]]
        assert links(diff, "z") == [[("last", "z")]]


def test_a_failure_is_why_what_comes_after_it_is_not_there(store):
    rw, run = frail(5, store)
    with pytest.raises(ValueError):
        rw.fork(run, "make", output={"x": -1})

    assert links(rw.diff(run, rw.last_run), "z") == [
        [("make", "x"), ("check", "@error"), ("last", "z")]
    ]


def two_overrides(store):
    """A run, and a fork of a fork of it: one override at `s1`, one at `s2`, which read `s1`'s."""

    @action(reads=["y"], writes=["z"])
    def s2(state: State, by: int) -> State:
        return state.update(z=state["y"] * by)

    s1 = step("s1", lambda _: {"y": 1}, [], ["y"])
    s3 = step("s3", lambda s: {"q": s["z"] - 3}, ["z"], ["q"])
    rw = Rewind(chain_app(s1, s2, s3), store=store)
    run = rw.run(inputs={"by": 1})
    return rw.diff(run, rw.fork(rw.fork(run, "s1", output={"y": 50}), "s2", inputs={"by": 3}))


def test_what_was_overridden_and_read_something_changed_has_both_causes(store):
    diff = two_overrides(store)

    assert causes(diff)["s2", "z"] == "override; read 'y' (step 0 's1')"
    assert links(diff, "z") == [[("s2", "z")], [("s1", "y"), ("s2", "z")]]
    assert links(diff, "q") == [
        [("s2", "z"), ("s3", "q")],
        [("s1", "y"), ("s2", "z"), ("s3", "q")],
    ]


# -- steps and writes that only one side has -------------------------------------------


def frail(limit, store):
    """A line of steps that fails or not at its second."""
    make = step("make", lambda _: {"x": limit}, [], ["x"])

    @action(reads=["x"], writes=["y"])
    def check(state: State) -> State:
        if state["x"] < 0:
            raise ValueError("less than nothing")
        return state.update(y=state["x"])

    last = step("last", lambda s: {"z": 1}, [], ["z"])
    rw = Rewind(chain_app(make, check, last), store=store)
    return rw, rw.run()


def test_a_step_that_a_failed_run_did_not_come_to_says_so(store):
    rw, run = frail(5, store)
    with pytest.raises(ValueError):
        rw.fork(run, "make", output={"x": -1})
    failed = rw.last_run

    for diff, kind in ((rw.diff(run, failed), "removed"), (rw.diff(failed, run), "added")):
        (lost,) = [c for c in diff.changes if c.path == "@step"]
        assert (lost.action, lost.kind) == ("last", kind)
        assert lost.cause == f"run {failed.id} failed before it"


def test_a_step_behind_a_halt_says_so_and_one_on_another_path_does_not(store):
    rw, run = frail(5, store)
    halted = rw.fork(run, "make", halt_after=["make"])
    causes_of = {c.action: c.cause for c in rw.diff(run, halted).changes}

    assert causes_of == dict.fromkeys(("check", "last"), f"run {halted.id} halted before it")
    apart = Rewind(apps.branch_app(450), store=store).run()
    assert {c.cause for c in rw.diff(run, apart).changes} == {"the runs took different paths"}


def test_where_a_halted_run_took_another_path_that_is_the_reason(store):
    rw = Rewind(apps.branch_app(), store=store)
    run = rw.run()
    halted = rw.fork(run, "judge", output={"verdict": "dear"}, halt_after=["refuse"])
    only = {c.action: c.cause for c in rw.diff(run, halted).changes if c.path == "@step"}

    assert only == dict.fromkeys(("book", "summarise", "refuse"), PARTED)


def test_a_write_that_only_one_side_made_was_added_or_removed(store):
    i0 = step("i0", lambda _: {"x": 1}, [], ["x"])
    i1 = step("i1", lambda s: {"y": 5} if s["x"] == 1 else {}, ["x"], [])
    rw = Rewind(chain_app(i0, i1), store=store)
    run = rw.run()
    other = rw.fork(run, "i0", output={"x": 2})
    kinds = {c.path: (c.kind, c.before, c.after) for c in rw.diff(run, other).changes}
    back = {c.path: c.kind for c in rw.diff(other, run).changes}

    assert kinds["y"] == ("removed", 5, MISSING)
    assert back["y"] == "added"


def test_what_a_failed_step_did_not_come_to_is_missing_because_it_failed(store):
    @action(reads=["x"], writes=["y"])
    def check(state: State) -> tuple[dict, State]:
        if state["x"] < 0:
            raise ValueError("less than nothing")
        artifact("y.txt", "y")
        return {"z": 1}, state.update(y=state["x"])

    rw = Rewind(chain_app(step("make", lambda _: {"x": 5}, [], ["x"]), check), store=store)
    run = rw.run()
    with pytest.raises(ValueError):
        rw.fork(run, "make", output={"x": -1})

    for diff, side in ((rw.diff(run, rw.last_run), "before"), (rw.diff(rw.last_run, run), "after")):
        error, *lacking = [c for c in diff.changes if c.action == "check"]
        assert error.path == "@error"
        assert {c.path: (c.kind, getattr(c, side)) for c in lacking} == {
            "y": ("failed", 5),
            "@result": ("failed", {"z": 1}),
            '@artifacts["y.txt"]': ("failed", run.artifacts[0].sha256),
        }


def test_an_input_that_a_failed_step_was_not_given_is_not_missing_because_it_failed(store):
    @action(reads=[], writes=["y"])
    def check(state: State, by: int = 0) -> State:
        return state.update(y=1 // by)

    rw = Rewind(chain_app(check), store=store)
    with pytest.raises(ZeroDivisionError):
        rw.run()
    failed, run = rw.last_run, rw.run(inputs={"by": 1})

    assert [(c.path, c.kind) for c in rw.diff(failed, run).changes] == [
        ("@inputs.by", "added"),
        ("@error", "removed"),
        ("y", "failed"),
    ]


def test_a_result_that_only_repeats_the_writes_is_not_told_as_missing_too(store):
    rw, run = frail(5, store)
    with pytest.raises(ValueError):
        rw.fork(run, "make", output={"x": -1})

    assert [c.path for c in rw.diff(run, rw.last_run).changes] == ["x", "@error", "y", "@step"]


def test_runs_of_two_stores_are_compared_by_what_each_store_holds(store):
    _, run = frail(5, store)
    with Store(":memory:") as other:
        _, theirs = frail(7, other)
        changed = {c.path: (c.before, c.after) for c in compare(run, theirs).changes}

    assert changed == {"x": (5, 7), "y": (5, 7)}


# -- files and results -------------------------------------------------------------------


def test_a_file_of_other_bytes_is_a_change_of_the_step_that_made_it(store):
    @action(reads=["x"], writes=[])
    def publish(state: State) -> State:
        artifact("page.md", f"x is {state['x']}")
        artifact("still.md", "the same")
        if state["x"] > 3:
            artifact("large.md", "large")
        return state

    first = step("first", lambda _: {"x": 1}, [], ["x"])
    last = step("last", lambda _: {"x": 0}, [], ["x"])
    rw = Rewind(chain_app(first, publish, last), store=store)
    run = rw.run()
    fork = rw.fork(run, "first", output={"x": 5})
    diff = rw.diff(run, fork)

    files = {c.path: c for c in diff.changes if c.path.startswith("@artifacts")}
    made = {a.name: a.sha256 for a in fork.artifacts}
    assert list(files) == ['@artifacts["page.md"]', '@artifacts["large.md"]']
    page, large = files.values()
    assert (page.kind, page.action, page.cause) == (
        "changed",
        "publish",
        "read 'x' (step 0 'first')",
    )
    assert (page.before, page.after) == (run.artifacts[0].sha256, made["page.md"])
    assert (large.kind, large.before, large.after) == ("added", MISSING, made["large.md"])
    (gone,) = (c for c in rw.diff(fork, run).changes if c.path == '@artifacts["large.md"]')
    assert (gone.kind, gone.after) == ("removed", MISSING)
    assert links(diff, page.path) == [[("first", "x"), ("publish", page.path)]]


def test_a_file_that_only_one_run_made_was_added_or_removed(store):
    @action(reads=["x"], writes=[])
    def publish(state: State) -> State:
        for name in ["page.md", "still.md", "large.md"][: 2 + (state["x"] > 3)]:
            artifact(name, f"{name} {state['x'] if name == 'page.md' else ''}")
        return state

    rw = Rewind(chain_app(step("first", lambda _: {"x": 1}, [], ["x"]), publish), store=store)
    run = rw.run()
    fork = rw.fork(run, "first", output={"x": 5})
    kinds = {"page.md": "changed", "still.md": "same"}

    assert {a.name: a.kind for a in rw.diff(run, fork).artifacts} == kinds | {"large.md": "added"}
    assert {a.name: a.kind for a in rw.diff(fork, run).artifacts} == kinds | {"large.md": "removed"}


def test_runs_with_other_files_are_not_identical(store):
    drafts = iter(["one", "two"])

    def publish(state):
        artifact("page.md", next(drafts))
        return {"done": True}

    rw = Rewind(chain_app(step("publish", publish, [], ["done"])), store=store)
    run = rw.run()
    diff = rw.diff(run, rw.fork(run, 0, reuse="none"))

    assert all(pair.same for pair in diff.pairs)
    assert not diff.identical
    assert diff.divergence.path == '@artifacts["page.md"]'


def test_a_result_is_left_out_only_where_it_repeats_what_was_written(store):
    @action(reads=["n"], writes=["n", "two words", "raw"])
    def clip(state: State) -> tuple[dict, State]:
        n = state["n"]
        result = {"n": n, "two words": n, "raw": n, "only here": n}
        return result, state.update(**{"n": min(n, 5), "two words": n, "raw": n})

    rw = Rewind(chain_app(clip, n=7), store=store)
    run = rw.run()
    diff = rw.diff(run, rw.fork(run, 0, state={"n": 9}))

    changed = {c.path: (c.before, c.after) for c in diff.changes}
    assert changed == {
        "n": (7, 9),
        '["two words"]': (7, 9),
        "raw": (7, 9),
        "@result.n": (7, 9),
        '@result["only here"]': (7, 9),
    }


def test_a_state_key_that_looks_like_a_part_of_a_step_is_shown_as_a_key(store):
    odd = step("odd", lambda s: {"@result": s["n"]}, ["n"], ["@result"])
    rw = Rewind(chain_app(odd, n=7), store=store)
    run = rw.run()
    diff = rw.diff(run, rw.fork(run, 0, output={"@result": 9}))

    assert [c.path for c in diff.changes] == ['["@result"]']
