"""What `diff.why`, `diff.cause` and `explain()` say of where a difference came from."""

import time

import pytest
from burr.core import ApplicationBuilder, State, action, default, expr, when
from burr.core.parallelism import RunnableGraph
from test_tasks_shown import each_of, line_of, step
from why_oracle import assert_why

from rewind_nb import Rewind
from rewind_nb.errors import NotFoundError


def graph_of(actions, transitions, **state):
    """An application of actions by name, the first of them its entrypoint."""
    return (
        ApplicationBuilder()
        .with_actions(**actions)
        .with_transitions(*transitions)
        .with_state(**state)
        .with_entrypoint(next(iter(actions)))
        .build()
    )


def chains(diff, path):
    return [" -> ".join(map(str, chain)) for chain in diff.why(path)]


def both_ways(rw, run, fork):
    return rw.diff(run, fork), rw.diff(fork, run)


def because(run, at):
    return run.explanation.of(run[at])


# -- a step that only one run took ----------------------------------------------------------------


def test_a_list_that_a_step_of_one_run_added_to_has_the_chains_of_what_it_added_to(store):
    src = step(lambda s: {"x": 1, "flag": 3}, [], ["x", "flag"])
    first = step(lambda s: {"acc": [s["x"]]}, ["x"], ["acc"])
    extra = step(lambda s: {"acc": [*s["acc"], "extra"]}, ["acc"], ["acc"])
    reader = step(lambda s: {"out": str(s["acc"])}, ["acc"], ["out"])
    app = graph_of(
        {"src": src, "first": first, "extra": extra, "reader": reader},
        [
            ("src", "first"), ("first", "extra", when(flag=3)), ("first", "reader"),
            ("extra", "reader"),
        ],
    )  # fmt: skip
    rw = Rewind(app, store=store)
    run = rw.run()
    fork = rw.fork(run, "src", output={"x": 2, "flag": 1})

    for diff in both_ways(rw, run, fork):
        for path, end in (("acc", ""), ("out", " -> reader out")):
            assert chains(diff, path) == [
                f"src x -> first acc{end}",
                f"src flag -> extra acc{end}",
                f"src x -> first acc -> extra acc{end}",
            ]
        assert chains(diff, "acc[0]")[0] == "src x -> first acc[0]"
        assert_why(diff, "src:1")
    (cause,) = {c.cause for c in rw.diff(run, fork).changes if c.path == "out"}
    assert cause == "read 'acc' (step 1 'first', removed step 2 'extra')"


def test_a_step_that_took_the_place_of_another_one_is_told_and_not_that_one_too(store):
    src = step(lambda s: {"go": True}, [], ["go"])
    left, right = (step(lambda s, way=way: {"plan": way}, [], ["plan"]) for way in ("in", "out"))
    end = step(lambda s: {"text": s["plan"]}, ["plan"], ["text"])
    app = graph_of(
        {"src": src, "left": left, "right": right, "end": end},
        [("src", "left", when(go=True)), ("src", "right"), ("left", "end"), ("right", "end")],
    )
    rw = Rewind(app, store=store)
    run = rw.run()
    diff = rw.diff(run, rw.fork(run, "src", output={"go": False}))

    assert chains(diff, "text") == ["src go -> right plan -> end text"]


def test_a_loop_that_went_on_is_told_once_for_that_and_once_for_what_it_counted(store):
    count = step(lambda s: {"n": s["n"] + 2}, ["n"], ["n"])
    end = step(lambda s: {"out": s["n"]}, ["n"], ["out"])
    ways = [("count", "count", expr("n < 3")), ("count", "end", default)]
    rw = Rewind(graph_of({"count": count, "end": end}, ways, n=0), store=store)
    run = rw.run()
    diff = rw.diff(run, rw.fork(run, ("count", 1), output={"n": -3}))

    assert chains(diff, "n") == [
        "count n -> count:2 n",
        "count n -> count:2 n -> count:4 n",
        "count n -> count:2 n -> count:3 n -> count:4 n",
    ]


@pytest.mark.parametrize("rule", [{"delete": ["secret"]}, {"keep": ["go"]}])
def test_a_key_that_a_step_of_one_run_deleted_has_a_chain_both_ways(store, rule):
    @action(reads=[], writes=[])
    def forget(state: State) -> State:
        return state.wipe(**rule)

    src = step(lambda s: {"go": False}, [], ["go"])
    reader = step(lambda s: {"out": s.get("secret", "gone")}, ["secret"], ["out"])
    app = graph_of(
        {"src": src, "forget": forget, "reader": reader},
        [("src", "forget", when(go=True)), ("src", "reader"), ("forget", "reader")],
        secret="s3",
    )
    rw = Rewind(app, store=store)
    run = rw.run()

    for diff in both_ways(rw, run, rw.fork(run, "src", output={"go": True})):
        assert chains(diff, "secret") == ["src go -> forget secret"]
        assert diff.why("secret", at="forget:1") == diff.why("secret")
        with pytest.raises(NotFoundError):
            diff.why("secret", at="src:1")
        assert_why(diff, "src:1")


# -- an edited application ------------------------------------------------------------------------


def conditional(condition):
    s1 = step(lambda s: {"a": 3}, [], ["a"])
    s2 = step(lambda s: {"r": 5}, [], ["r"])
    s3 = step(lambda s: {"out": s["r"]}, ["r"], ["out"])
    ways = [("s1", "s2", expr(condition)), ("s1", "s3"), ("s2", "s3")]
    return graph_of({"s1": s1, "s2": s2, "s3": s3}, ways, r=0)


@pytest.mark.parametrize("edit", [("a > 0", "a > 100"), ("a > 100", "a > 0")])
def test_an_edited_condition_is_named_wherever_the_difference_is(store, edit):
    rw = Rewind(conditional(edit[0]), store=store)
    run = rw.run()
    fork = rw.rebind(conditional(edit[1])).rerun_from(run)
    said = "; ".join(
        f"transition s1 -> s2 if {condition} {what}"
        for condition, what in zip(edit, ("removed", "added"), strict=True)
    )

    for diff, side in zip(both_ways(rw, run, fork), ("after", "before"), strict=True):
        assert [(one.side, one.words) for one in diff.overrides] == [(side, said)]
        assert said in diff.cause
        assert "override" in str(diff).splitlines()[2]
        assert "through an edit: transition s1 -> s2 if " in diff.divergence.why
        assert chains(diff, "out") == ["s1 @transitions -> s2 r -> s3 out"]
    assert because(fork, "s1") == f"nothing it read changed; the way on was edited: {said}"
    if edit[1] == "a > 0":
        assert because(fork, "s2").endswith(f" here: the way on was edited: {said}")
    assert repr(fork).count(said) == 1


def test_no_edit_is_said_to_be_none_and_once(store):
    rw = Rewind(conditional("a > 0"), store=store)
    run = rw.run()
    again = rw.rebind(conditional("a > 0")).rerun_from(run)

    assert again["s3"].reason == "no code changed"
    assert "the override equals" not in repr(again)
    assert repr(again).count("no code changed") == 1
    assert "changed nothing" not in repr(again)


def test_a_list_around_the_code_that_changed_is_a_cause_beside_the_override(store):
    limits = [1]

    @action(reads=["x"], writes=["y"])
    def use(state: State) -> State:
        return state.update(y=state["x"] + len(limits))

    rw = Rewind(line_of(("use", use), x=1), store=store)
    run = rw.run()
    limits.append(2)
    fork = rw.fork(run, "use", state={"x": 5}, allow_code_change=True)

    (cause,) = {c.cause for c in rw.diff(run, fork).changes if c.path == "y"}
    assert cause.startswith("override; the content of ")
    assert "limits" in cause


# -- why a step of a fork executed ----------------------------------------------------------------


def test_the_step_with_the_override_says_so_whatever_is_reused(store):
    w = step(lambda s: {"w": s["q"]}, ["q"], ["w"])
    v = step(lambda s: {"v": s["w"]}, ["w"], ["v"])
    rw = Rewind(line_of(("w", w), ("v", v), q="q"), store=store)
    run = rw.run()

    fork = rw.fork(run, "w", state={"q": "z"}, reuse="none")
    assert (fork["w"].reason, fork["v"].reason) == ("override", "reuse='none'")
    assert because(fork, "w") == "override: state q = 'z'"
    assert rw.fork(run, "w", reuse="none")["w"].reason == "reuse='none'"


def test_a_fork_that_asks_everything_again_is_not_called_unchanged(store):
    w = step(lambda s: {"w": s["q"]}, ["q"], ["w"])
    rw = Rewind(line_of(("w", w), q="q"), store=store)
    run = rw.run()

    assert rw.fork(run, "w", cache="refresh").override_words == "asked anew"
    assert rw.fork(run, "w").override_words == "unchanged"


def dividing():
    a = step(lambda s: {"a": 0}, [], ["a"])
    c = step(lambda s: {"c": 1 / s["a"]}, ["a"], ["c"])
    d = step(lambda s: {"d": s["c"]}, ["c"], ["d"])
    return line_of(("a", a), ("c", c), ("d", d))


def test_a_step_that_failed_in_the_parent_says_what_it_reads_now_and_the_next_that_it_failed(store):
    rw = Rewind(dividing(), store=store)
    with pytest.raises(ZeroDivisionError):
        rw.run()
    fork = rw.fork(rw.last_run, "a", output={"a": 2})

    assert because(fork, "c") == (
        "the parent's step failed; read `a`, which was changed by step 0 'a'"
    )
    assert because(fork, "d") == "the parent has no visit 1 of 'd' here: it failed at step 1 'c'"


def graded():
    src = step(lambda s: {"words": ["a", "b"]}, [], ["words"])
    grade = step(lambda s: {"n": len(s["word"])}, ["word"], ["n"])
    each = each_of("words", "word", graph=RunnableGraph.create(grade))
    return line_of(("src", src), ("each", each))


def test_a_step_of_a_new_task_says_why_the_task_is_new(store):
    rw = Rewind(graded(), store=store)
    run = rw.run()
    fork = rw.fork(run, "src", output={"words": ["a", "b", "c"]})
    (new,) = (s for s in fork["each"].inside() if s.reason and s.reason.startswith("the parent"))

    assert fork.explanation.of(new).endswith(
        " here: step 1 'each' made the task anew (read `words`, in which `[2]` was added by "
        "step 0 'src')"
    )


# -- as it is printed -----------------------------------------------------------------------------


def test_a_field_that_an_override_set_is_told_apart_from_the_one_that_its_step_wrote(store):
    turn = step(lambda s: {"round": s["round"] + 1}, ["round"], ["round"])
    rw = Rewind(line_of(("turn", turn), round=2), store=store)
    run = rw.run()
    diff = rw.diff(run, rw.fork(run, "turn", state={"round": 0}))

    assert [(c.where, c.before, c.after) for c in diff.changes] == [
        ("round as it enters", 2, 0), ("round", 3, 1),
    ]  # fmt: skip
    assert "round as it enters" in str(diff)


def test_the_chains_of_two_tasks_print_apart(store):
    rw = Rewind(graded(), store=store)
    run = rw.run()
    diff = rw.diff(run, rw.fork(run, "src", output={"words": ["aa", "bb"]}))

    assert chains(diff, "out") == [
        "src words -> each out",
        "src words -> each:1[0]/act:1 n -> each out",
        "src words -> each:1[1]/act:1 n -> each out",
    ]


# -- a history that grows -------------------------------------------------------------------------


def logging(rounds):
    count = step(lambda s: {"n": s["n"] + 1}, ["n"], ["n"])
    log = step(lambda s: {"hist": [*s["hist"], f"line {s['n']}"]}, ["n", "hist"], ["hist"])
    end = step(lambda s: {"out": len(s["hist"])}, ["hist"], ["out"])
    ways = [
        ("count", "log"), ("log", "count", expr(f"n < {rounds}")), ("log", "end", default),
    ]  # fmt: skip
    return graph_of({"count": count, "log": log, "end": end}, ways, n=0, hist=[])


def test_a_list_that_lost_many_items_is_told_once_and_then_what_is_added_to_it(store):
    rw = Rewind(logging(90), store=store)
    run = rw.run()
    fork = rw.fork(run, ("log", 80), state={"hist": ["x"]})
    diff = rw.diff(run, fork)

    told = [change for change in diff.changes if change.path.startswith("hist")]
    assert {(change.address, change.entering) for change in told} == {("log:80", True)}
    assert len(told) == 79
    assert {f"log:{visit}" for visit in range(80, 91)} <= {
        diff.pairs[n].shown.address for n in diff.changed_pairs
    }
    assert because(fork, "end").endswith(
        "and more were removed by the override of step 159 'log' (visit 80)"
    )


def test_a_list_that_lost_few_items_is_told_at_each_step_that_wrote_it(store):
    rw = Rewind(logging(6), store=store)
    run = rw.run()
    diff = rw.diff(run, rw.fork(run, ("log", 3), state={"hist": ["x"]}))

    wrote = {change.address for change in diff.changes if change.path == "hist[1]"}
    assert wrote == {f"log:{visit}" for visit in range(3, 7)}


def test_a_difference_behind_those_that_are_followed_is_still_credited_to_who_made_it(store):
    """The first of two hundred differing items become equal again, and later ones stay."""
    src = step(lambda s: {"big": [[i, 0] for i in range(200)]}, [], ["big"])
    mend = step(lambda s: {"big": [[i, 0] for i in range(150)] + s["big"][150:]}, ["big"], ["big"])
    read = step(lambda s: {"out": str(s["big"])}, ["big"], ["out"])
    rw = Rewind(line_of(("src", src), ("mend", mend), ("read", read)), store=store)
    run = rw.run()
    fork = rw.fork(run, "src", output={"big": [[i, 1] for i in range(200)]})

    assert because(fork, "read") == (
        "read `big`, in which `[150][1]`, `[151][1]`, `[152][1]`, `[153][1]`, `[154][1]`, "
        "`[155][1]` and 44 more were changed by step 0 'src'"
    )


@pytest.mark.thorough
def test_explaining_and_comparing_a_replaced_history_takes_time_by_its_length_alone(store):
    took = {}
    for rounds in (200, 800):
        rw = Rewind(logging(rounds), store=store)
        run = rw.run()
        fork = rw.fork(run, ("log", rounds // 2), state={"hist": ["x"]})
        began = time.process_time()
        assert len(rw.diff(run, fork).changes) < 3 * rounds
        fork.explain()
        took[rounds] = time.process_time() - began
    assert took[800] < 10 * took[200]  # 16 where each step costs by what came before it
