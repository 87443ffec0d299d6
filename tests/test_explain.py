"""Why each step and each live call of a fork happened, what depends on what, and what an override did."""

import os
import re

import apps
import fake_provider as fp
import hypothesis
import networkx as nx
import pytest
import task_apps
from burr.core import ApplicationBuilder, State, action, default, expr
from burr.core.graph import GraphBuilder
from burr.core.parallelism import RunnableGraph
from hypothesis import strategies as st
from isolation_oracle import Oracle, TooLong
from pipelines import application, made, pipelines
from test_tasks_shown import each_of, line_of, step, words_of
from toy_runs import RECORDERS

from rewind_nb import ChatModel, Rewind, Store, now, tool
from rewind_nb._frames import EXPLAIN_COLUMNS
from rewind_nb._html import run_html, step_html
from rewind_nb._run import Run
from rewind_nb._text import run_text
from rewind_nb.errors import OverrideNotConsumedError, StepLimitError

EXAMPLES = int(os.environ.get("EXPLAIN_EXAMPLES", "80"))


def because(run, at):
    """Why a step executed or did not, exactly."""
    return run.explanation.of(run[at])


def reasons(run):
    """The reason and the exact reason of every step, by its address."""
    frame = run.explain()
    places = [f"{row.task}{row.action}:{row.visit}" for row in frame.itertuples()]
    return dict(zip(places, zip(frame.reason, frame.because, strict=True), strict=True))


def report_app():
    """Two steps write parts of one field, a third reads all of it."""
    analyse = step(lambda s: {"doc": {"n": s["n"], "total": s["n"] * 2}}, ["n"], ["doc"])
    note = step(lambda s: {"doc": {**s["doc"], "note": s["tone"]}}, ["doc", "tone"], ["doc"])
    other = step(lambda s: {"other": s["tone"]}, ["tone"], ["other"])
    publish = step(lambda s: {"page": str(s["doc"])}, ["doc"], ["page"])
    named = [("analyse", analyse), ("note", note), ("other", other), ("publish", publish)]
    return line_of(*named, n=1, tone="dry")


@pytest.fixture
def report(store):
    rw = Rewind(report_app(), store=store)
    return rw, rw.run()


# -- why a step executed: what it read --------------------------------------------------------


def test_a_step_says_which_field_of_what_it_read_changed_and_which_step_changed_it(report):
    rw, run = report
    fork = rw.fork(run, "analyse", patch={"doc.total": 5})

    assert because(fork, "note") == "read `doc`, in which `total` was changed by step 0 'analyse'"


def test_a_field_is_credited_to_who_changed_it_and_not_to_who_wrote_its_key_again(report):
    rw, run = report
    fork = rw.fork(run, "analyse", patch={"doc.total": 5})

    assert dict(fork["note"].row.writes)["doc"] != dict(run["note"].row.writes)["doc"]
    assert (
        because(fork, "publish") == "read `doc`, in which `total` was changed by step 0 'analyse'"
    )


def test_a_field_is_credited_to_who_gave_the_fork_its_value_whatever_the_parent_did_meanwhile(
    store,
):
    analyse = step(lambda s: {"doc": {"total": s["n"]}}, ["n"], ["doc"])
    raise_it = step(lambda s: {"doc": {"total": max(3, s["doc"]["total"])}}, ["doc"], ["doc"])
    publish = step(lambda s: {"page": str(s["doc"])}, ["doc"], ["page"])
    named = [("analyse", analyse), ("raise_it", raise_it), ("publish", publish)]
    rw = Rewind(line_of(*named, n=1), store=store)
    fork = rw.fork(rw.run(), "analyse", patch={"doc.total": 5})

    assert (
        because(fork, "publish") == "read `doc`, in which `total` was changed by step 0 'analyse'"
    )


def test_each_of_several_fields_is_credited_to_its_own_step(report):
    rw, run = report
    first = rw.fork(run, "analyse", patch={"doc.total": 5})
    both = rw.fork(first, "note", output={"doc": {"n": 7, "total": 5, "note": "wet", "more": 1}})
    whole = rw.diff(run, both)

    assert because(both, "publish") == (
        "read `doc`, in which `n`, `note` were changed and `more` was added by step 1 'note'"
    )
    assert {c.path for c in whole.changes} >= {"doc.total", "doc.note"}


def test_changes_of_two_steps_are_told_one_after_the_other(store):
    one = step(lambda s: {"doc": {"a": s["x"]}}, ["x"], ["doc"])
    two = step(lambda s: {"doc": {**s["doc"], "b": s["x"]}}, ["x", "doc"], ["doc"])
    read = step(lambda s: {"page": str(s["doc"])}, ["doc"], ["page"])
    begin = step(lambda s: {"x": s["n"]}, ["n"], ["x"])
    rw = Rewind(line_of(("begin", begin), ("one", one), ("two", two), ("read", read), n=1), store)
    fork = rw.fork(rw.run(), "begin", output={"x": 2})

    assert because(fork, "read") == (
        "read `doc`, in which `a` was changed by step 1 'one', `b` was changed by step 2 'two'"
    )
    assert because(fork, "two") == (
        "read `doc`, in which `a` was changed by step 1 'one'; "
        "`x`, which was changed by step 0 'begin'"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (2.0, "`x`, which was given another type"),
        (3, "`x`, which was changed"),
        ({"a": 1, "b": 2}, "`x`, which was given another type"),
    ],
)
def test_what_became_of_a_whole_value_is_said(store, given, said):
    write = step(lambda s: {"x": 2}, [], ["x"])
    read = step(lambda s: {"y": repr(s["x"])}, ["x"], ["y"])
    rw = Rewind(line_of(("write", write), ("read", read)), store=store)
    fork = rw.fork(rw.run(), "write", output={"x": given})

    assert because(fork, "read") == f"read {said} by step 0 'write'"


def test_another_order_inside_a_value_is_said_to_be_one(store):
    write = step(lambda s: {"x": {"a": {"b": 1, "c": 2}, "z": [1, 2]}}, [], ["x"])
    read = step(lambda s: {"y": str(s["x"])}, ["x"], ["y"])
    rw = Rewind(line_of(("write", write), ("read", read)), store=store)
    run = rw.run()
    inner = rw.fork(run, "write", output={"x": {"a": {"c": 2, "b": 1}, "z": [1, 2]}})
    outer = rw.fork(run, "write", output={"x": {"z": [1, 2], "a": {"b": 1, "c": 2}}})

    both = rw.fork(run, "write", output={"x": {"z": [1, 2], "a": {"b": 1, "c": 3}}})

    said = "put in another order by step 0 'write'"
    assert because(both, "read") == (
        f"read `x`, which was {said} and in which `a.c` was changed by step 0 'write'"
    )
    assert because(inner, "read") == f"read `x`, in which `a` was {said}"
    assert because(outer, "read") == f"read `x`, which was {said}"


def test_a_key_that_was_absent_and_one_that_is_gone_are_told_with_who_did_it(store):
    @action(reads=["first"], writes=[])
    def choose(state: State) -> State:
        return state.update(x=1).wipe(delete=["y"]) if state["first"] else state.update(y=2)

    @action(reads=["x", "y"], writes=["seen"])
    def look(state: State) -> State:
        return state.update(seen=[state.get("x"), state.get("y")])

    rw = Rewind(line_of(("choose", choose), ("look", look), first=False, y=0), store=store)
    fork = rw.fork(rw.run(), "choose", state={"first": True})

    assert because(fork, "look") == (
        "read `x`, which was added by step 0 'choose'; `y`, which was removed by step 0 'choose'"
    )


def test_what_only_a_step_of_the_parent_wrote_is_credited_to_leaving_it_out(store):
    rw, run = RECORDERS["branch"](store)
    fork = rw.fork(run, "judge", output={"verdict": "dear"})

    assert because(fork, "summarise") == (
        "read `booking`, which was removed by leaving out step 1 'book'; "
        "`verdict`, which was changed by step 0 'judge'"
    )


def test_a_step_on_another_way_says_what_the_conditions_read(store):
    rw, run = RECORDERS["branch"](store)
    fork = rw.fork(run, "judge", output={"verdict": "dear"})

    assert fork["refuse"].reason == "the parent has no visit 1 of 'refuse' here"
    assert because(fork, "refuse") == (
        "the parent has no visit 1 of 'refuse' here: the conditions after step 0 'judge' read "
        "`verdict`, which was changed by step 0 'judge'"
    )


def test_the_first_step_after_an_override_of_the_state_is_told_of_that_override(store):
    """What the overridden step passed on without writing it was changed as that was entered."""
    look = step(lambda s: {"a": s["city"]}, ["city"], ["a"])
    again = step(lambda s: {"b": s["city"]}, ["city"], ["b"])
    rw = Rewind(line_of(("look", look), ("again", again), city="Bern"), store=store)
    fork = rw.fork(rw.run(), "look", state={"city": "Oslo"})

    assert because(fork, "look") == "override: state city = 'Oslo'"
    assert because(fork, "again") == (
        "read `city`, which was changed by the override of step 0 'look'"
    )


def test_a_key_that_is_new_to_a_step_which_reads_all_of_them_is_named(store):
    @action(reads=["more"], writes=[])
    def write(state: State) -> State:
        return state.update(x=1, y=2) if state["more"] else state.update(x=1)

    every = step(lambda s: {"seen": len(s.get_all())}, [], ["seen"])
    rw = Rewind(line_of(("write", write), ("every", every), more=False), store=store)
    fork = rw.fork(rw.run(), "write", state={"more": True})

    assert because(fork, "every") == (
        "read `more`, which was changed by the override of step 0 'write'; "
        "`y`, which was added by step 0 'write'"
    )


def test_another_order_of_all_keys_is_told_with_who_made_it(store):
    @action(reads=["x", "y", "late"], writes=["x", "y"])
    def write(state: State) -> State:
        first, second = ("y", "x") if state["late"] else ("x", "y")
        return state.update(**{first: 1}).update(**{second: 1}).wipe(delete=["late"])

    every = step(lambda s: {"seen": list(s.get_all())}, [], ["seen"])
    rw = Rewind(line_of(("write", write), ("every", every), late=False), store=store)
    fork = rw.fork(rw.run(), "write", state={"late": True})

    assert fork["every"].reason == "read every field, whose order changed"
    assert because(fork, "every") == "read every field, whose order was changed by step 0 'write'"


def test_of_many_fields_and_many_steps_some_are_named_and_the_rest_is_counted(store):
    wide = step(lambda s: {"doc": {f"f{i}": s["n"] for i in range(10)}}, ["n"], ["doc"])
    read = step(lambda s: {"page": str(s["doc"])}, ["doc"], ["page"])
    begin = step(lambda s: {"n": 1}, [], ["n"])
    rw = Rewind(line_of(("begin", begin), ("wide", wide), ("read", read)), store=store)
    fork = rw.fork(rw.run(), "begin", output={"n": 2})
    loop, run = RECORDERS["loop"](Store(":memory:"))
    long = Rewind(apps.loop_app(9), store=loop.store)
    run = long.run(halt_after=["report"], inputs={"by": 1})
    longer = long.fork(run, 0, state={"n": -20})

    assert because(fork, "read") == (
        "read `doc`, in which `f0`, `f1`, `f2`, `f3`, `f4`, `f5` and 4 more were changed "
        "by step 1 'wide'"
    )
    said = because(longer, ("count", 9))
    assert said.startswith(
        "read `n`, which was changed by step 7 'count' (visit 8); `log`, in which"
    )
    assert said.count("step") == 6
    assert said.endswith("others by 4 more steps")


def test_a_step_is_compared_with_the_parent_as_it_was_when_the_fork_was_made(store):
    """The parent went on meanwhile; its new steps are none that the fork left out."""
    rw = Rewind(apps.human_app(), store=store)
    run = rw.run(halt_before=["hear"], inputs={"topic": "trains"})
    fork = rw.fork(run, "ask", inputs={"topic": "boats"})
    fork = rw.resume(fork, inputs={"reply": "no", "topic": "boats"}, halt_before=["hear"])
    rw.resume(run, inputs={"reply": "by train", "topic": "trains"}, halt_after=["close"])
    fork = store.run(fork.id)

    assert because(fork, "hear") == "the parent has no visit 1 of 'hear' here"
    assert because(fork, ("ask", 2)) == "the parent has no visit 2 of 'ask' here"
    assert fork.consumed[0].first_change == "@inputs.topic"


# -- why a step executed or did not: other reasons ----------------------------------------------


def test_a_recorded_run_has_no_reasons(recorded):
    _, run = recorded
    frame = run.explain()

    assert frame.reason.isna().all()
    assert frame.because.isna().all()
    assert frame.source.tolist() == [step.source for step in run.walk()]


def test_the_frame_of_reasons_has_its_columns_and_a_row_for_each_step_of_tasks_too(store):
    rw = Rewind(task_apps.map_app(), store=store)
    run = rw.run()
    fork = rw.fork(run, "shorten", output={"words": ["alpha"]})

    for one in (run, fork):
        frame = one.explain()
        assert dict(frame.dtypes.items()) == EXPLAIN_COLUMNS
        assert len(frame) == sum(1 for _ in one.walk())
        assert frame.task.tolist() == [step.path for step in one.walk()]


def test_every_step_of_a_fork_has_a_reason(store):
    for name in RECORDERS:
        rw, run = RECORDERS[name](store)
        for reuse in ("unchanged", "none"):
            fork = rw.fork(run, 1, reuse=reuse)
            assert fork.explain().because.notna().all(), (name, reuse)


def test_reasons_that_are_no_comparison_are_told_as_they_are(report):
    rw, run = report
    fork = rw.fork(run, "note", patch={"doc.note": "wet"})
    same = rw.fork(run, "note", patch={"doc.note": "dry"})
    none = rw.fork(run, "note", reuse="none")
    fresh = rw.fork(run, "note", cache="refresh")

    assert reasons(fork) == {
        "analyse:1": ("before the fork point",) * 2,
        "note:1": ("the override supplied its output", "override: replace doc.note = 'wet'"),
        "other:1": ("nothing it read changed",) * 2,
        "publish:1": (
            "read `doc`, which changed",
            "read `doc`, in which `note` was changed by step 1 'note'",
        ),
    }
    assert because(same, "publish") == "the override equals what was recorded"
    assert because(none, "publish") == "reuse='none'"
    assert because(fresh, "note") == "asked again: cache='refresh'"
    assert because(fresh, "publish") == "converged at seq 2"
    assert because(rw.fork(run, "note"), "publish") == "converged at seq 1"


def test_a_reused_step_and_a_converged_one_say_so(store):
    calm = step(lambda s: {"sign": s["n"] > 0}, ["n"], ["sign"])
    tell = step(lambda s: {"page": s["sign"]}, ["sign"], ["page"])
    draw = step(lambda s: {"n": 1}, [], ["n"])
    rw = Rewind(line_of(("draw", draw), ("calm", calm), ("tell", tell)), store=store)
    run = rw.run()
    reused = rw.fork(run, "draw", output={"n": 2})
    run2 = Rewind(line_of(("draw", draw), ("calm", calm), ("n", draw), ("tell", tell)), store=store)
    converged = run2.fork(run2.run(), "draw", output={"n": 2})

    assert because(reused, "tell") == "nothing it read changed"
    assert because(converged, "tell") == "converged at seq 3"


def test_changed_code_says_what_changed_in_it(store):
    def with_limit(limit):
        def cut(state):
            return state.update(page=state["text"][:limit])

        return line_of(("cut", action(reads=["text"], writes=["page"])(cut)), text="abcdef")

    run = Rewind(with_limit(3), store=store).run()
    fork = Rewind(with_limit(4), store=store).rerun_from(run)

    assert because(fork, "cut").startswith("code of 'cut' changed: ")
    assert "limit" in because(fork, "cut")
    assert because(fork, "cut").endswith("3 -> 4")


def test_a_list_of_the_code_with_another_content_is_named(store):
    def with_words(words):
        def cut(state):
            return state.update(page=words[0] + state["text"])

        return line_of(("cut", action(reads=["text"], writes=["page"])(cut)), text="abcdef")

    run = Rewind(with_words(["a"]), store=store).run()
    fork = Rewind(with_words(["b"]), store=store).rerun_from(run)

    assert re.fullmatch(
        "code of 'cut' changed: the content of .*words differs", because(fork, "cut")
    )


def test_other_inputs_are_told_with_both_values(store):
    @action(reads=[], writes=["x"])
    def ask(state: State, word: str) -> State:
        return state.update(x=word)

    @action(reads=[], writes=["y"])
    def ask_again(state: State, word: str) -> State:
        return state.update(y=word)

    rw = Rewind(line_of(("ask", ask), ("ask_again", ask_again)), store=store)
    run = rw.run(halt_after=["ask"], inputs={"word": "tea"})
    fork = rw.fork(run, "ask", output={"x": "x"})
    run = rw.resume(run, inputs={"word": "tea"})
    fork = rw.resume(fork, inputs={"word": "milk"})
    again = rw.fork(run, "ask", output={"x": "x"}, halt_after=["ask"])
    again = rw.resume(again, inputs={"word": "milk"})

    assert because(fork, "ask_again").startswith("the parent has no visit 1")
    assert again["ask_again"].reason == "`word` given otherwise"
    assert because(again, "ask_again") == "`word` given otherwise: 'tea' -> 'milk'"


def test_an_override_of_the_parent_that_is_put_in_again_is_said_to_be_the_parents(report):
    rw, run = report
    parent = rw.fork(run, "note", output={"doc": {"n": 0}})
    fork = rw.fork(parent, "analyse", patch={"doc.total": 5})

    assert because(fork, "note") == "override of the parent: replace doc = {'n': 0}"
    assert because(fork, "analyse") == "override: replace doc.total = 5"


def test_an_action_that_is_always_to_run_says_so(store):
    rw = Rewind(report_app(), store=store, always_run=["other"])
    fork = rw.fork(rw.run(), "analyse", patch={"doc.total": 5})

    assert because(fork, "other") == "always_run"


def test_a_name_that_a_terminal_would_obey_is_shown_as_text(store):
    write = step(lambda s: {"x\x1b[31m": {"a\x07": 1}}, [], ["x\x1b[31m"])
    read = step(lambda s: {"y": str(s["x\x1b[31m"])}, ["x\x1b[31m"], ["y"])
    rw = Rewind(line_of(("write", write), ("read", read)), store=store)
    fork = rw.fork(rw.run(), "write", output={"x\x1b[31m": {"a\x07": 2}})

    assert because(fork, "read").isprintable()
    assert fork.dependencies().edges[0, 1]["keys"] == ["x\x1b[31m"]


def test_what_needs_no_comparison_reads_nothing_of_the_parent(store, monkeypatch):
    rw, run = RECORDERS["loop"](store)
    fork = rw.fork(run, 1)
    monkeypatch.setattr(Run, "parent", property(lambda _: pytest.fail("the parent was read")))

    assert fork.explain().because.tolist()[1:] == ["converged at seq 1"] * (len(run) - 1)


# -- tasks ------------------------------------------------------------------------------------------


@pytest.fixture
def each(store):
    rw = Rewind(task_apps.map_app(), store=store)
    return rw, rw.run()


def test_a_step_of_a_task_names_the_step_of_its_task_that_changed_what_it_read(each):
    rw, run = each
    searched = run["each", 1].tasks["3"][0]
    fork = rw.fork(run, searched, patch={"found.word": "longer word"})
    told = reasons(fork)

    assert told["each:1[3]/search:1"][1] == "override: replace found.word = 'longer word'"
    assert told["each:1[3]/grade:1"][1] == (
        "read `found`, in which `word` was changed by step each:1[3]/search:1"
    )
    assert told["each:1"] == (
        "override inside it",
        "override inside it: replace found.word = 'longer word' at each:1[3]/search:1",
    )
    assert told["each:1[0]/grade:1"][1] == "nothing it read changed"


def test_what_a_task_was_made_with_is_credited_to_the_step_that_made_it(each):
    rw, run = each
    fork = rw.fork(run, "shorten", output={"words": ["alpha", "be", "al", "alph", "gamma"]})
    told = reasons(fork)

    assert told["each:2[0]/search:1"][1] == (
        "read `word`, which was changed by step 2 'each' (visit 2), which made the task"
    )
    assert told["each:2[2]/skip:1"][1] == (
        "the parent has no visit 1 of 'skip' here: the conditions after step each:2[2]/search:1 "
        "read `found`, in which `word`, `n` were changed by step each:2[2]/search:1"
    )


def test_what_was_passed_on_to_a_task_is_credited_to_who_changed_it_before(store):
    part = step(lambda s: {"n": s["word"] + s["bonus"]}, ["word", "bonus"], ["n"])
    graph = RunnableGraph(GraphBuilder().with_actions(part=part).build(), "part", ["part"])
    raise_it = step(lambda s: {"bonus": 1}, [], ["bonus"])
    each = each_of("words", "word", graph=graph)
    rw = Rewind(line_of(("raise_it", raise_it), ("each", each), words=[1, 2], bonus=0), store=store)
    fork = rw.fork(rw.run(), "raise_it", output={"bonus": 10})
    told = reasons(fork)

    said = "read `bonus`, which was changed by step 0 'raise_it'"
    assert told["each:1"][1] == told["each:1[0]/part:1"][1] == told["each:1[1]/part:1"][1] == said


def test_an_override_of_the_state_inside_a_task_is_named_as_such(store):
    one = step(lambda s: {"a": s["word"]}, ["word"], ["a"])
    two = step(lambda s: {"n": s["word"] + s["a"]}, ["word", "a"], ["n"])
    graph = GraphBuilder().with_actions(one=one, two=two).with_transitions(("one", "two")).build()
    each = each_of("words", "word", graph=RunnableGraph(graph, "one", ["two"]))
    rw = Rewind(line_of(("each", each), words=[1, 2]), store=store)
    run = rw.run()
    fork = rw.fork(run, run["each"].tasks["1"][0], state={"word": 7})

    assert reasons(fork)["each:1[1]/two:1"][1] == (
        "read `word`, which was changed by the override of step each:1[1]/one:1; "
        "`a`, which was changed by step each:1[1]/one:1"
    )
    assert fork.consumed[0].step == "step each:1[1]/one:1"
    assert fork.consumed[0].first_change == "word"
    graph = fork.dependencies()
    assert graph.edges["override", "each:1[1]/one:1"]["keys"] == ["word"]
    assert "override" not in run.dependencies()


# -- over generated pipelines -----------------------------------------------------------------------


def a_change(run, at, pick, value):
    """An override of what a step wrote or read; None where it did neither."""
    wrote, read = run[at].writes, run[at].reads
    if wrote and pick % 2:
        key = sorted(wrote)[pick % len(wrote)]
        return {"output": {key: made(key, value)}}
    if read:
        key = sorted(read)[pick % len(read)]
        return {"state": {key: made(key, value)}}
    return None


@hypothesis.seed(1)
@hypothesis.settings(
    max_examples=EXAMPLES, database=None, suppress_health_check=list(hypothesis.HealthCheck)
)
@hypothesis.given(pipelines(), st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_every_reason_names_what_is_so_in_generated_pipelines(pipeline, at, pick, value):
    try:  # some of them never end
        hypothesis.assume(Oracle(pipeline, 12).run().names)
    except TooLong:
        hypothesis.reject()
    with Store(":memory:") as store:
        rw = Rewind(application(pipeline), store=store)
        run = rw.run(**pipeline.run_arguments())
        change = a_change(run, at % len(run), pick, value)
        hypothesis.assume(change is not None)
        try:
            fork = rw.fork(run, at % len(run), max_steps=40, **change)
        except StepLimitError:
            hypothesis.reject()
        for one in fork.steps:
            if (one.reason or "").startswith("read `"):
                assert_true(run, fork, one, because(fork, one.seq))
        assert_depends_on_writers(run)
        assert_depends_on_writers(fork)


def assert_true(run, fork, reader, said):
    """Each key of a reason is named, and who changed it did, and nobody after."""
    keys = re.findall("`(.*?)`", reader.reason)
    parts = said.removeprefix("read ").split("; ")
    assert [re.match("`(.*?)`, ", part)[1] for part in parts] == keys
    for key, part in zip(keys, parts, strict=True):
        assert " by " in part
        entering = fork.state_at(reader)
        for seq in map(int, re.findall(r"by step (\d+)", part)):
            assert seq < reader.seq
            writer = fork[seq]
            assert key in writer.writes or writer.deleted
            if "which was" in part:
                there = fork.state_at(writer, after=True)
                assert repr(there.get(key, "none")) == repr(entering.get(key, "none"))
        for seq in map(int, re.findall(r"by leaving out step (\d+)", part)):
            assert key in run[seq].writes or run[seq].deleted


def assert_depends_on_writers(run):
    """Each value that was read came from the last step that wrote it, else from the beginning."""
    graph = run.dependencies()
    assert nx.is_directed_acyclic_graph(graph)
    put_in = {key for o in run.overrides if o.kind == "state" for key in o.value}
    for reader in run.steps:
        for key in reader.reads:
            writers = [one.seq for one in run.steps[: reader.seq] if key in one.writes]
            sources = {writers[-1] if writers else "initial state"}
            sources |= {"override"} if key in put_in else set()
            assert any(
                graph.has_edge(source, reader.seq)
                and key in graph.edges[source, reader.seq]["keys"]
                for source in sources
            )


# -- what depends on what ------------------------------------------------------------------------


def edges(run):
    return {(u, v): data["keys"] for u, v, data in run.dependencies().edges(data=True)}


def test_a_loop_depends_on_its_last_visit_and_goes_on_because_of_what_that_wrote(store):
    _, run = RECORDERS["loop"](store)
    graph = run.dependencies()

    assert edges(run) == {
        ("initial state", 0): ["log", "n"],
        (0, 1): ["log", "n"],
        (1, 2): ["log", "n"],
        (2, 3): ["log", "n"],
    }
    assert graph.edges[0, 1]["route"]
    assert graph.edges[0, 1]["route_keys"] == ["n"]
    assert not graph.edges["initial state", 0]["route"]
    assert graph.nodes[1] == {"action": "count", "visit": 2, "source": "live", "task": ""}
    assert graph.graph["run_id"] == run.id


def test_a_step_depends_through_the_conditions_on_what_sent_the_run_its_way(store):
    _, run = RECORDERS["branch"](store)
    graph = run.dependencies()

    assert edges(run) == {
        ("initial state", 0): ["fare"],
        ("initial state", 1): ["fare"],
        (0, 1): ["verdict"],
        (0, 2): ["verdict"],
        (1, 2): ["booking"],
    }
    assert [(u, v) for u, v, data in graph.edges(data=True) if data["route"]] == [(0, 1)]
    assert nx.ancestors(graph, 2) == {0, 1, "initial state"}


def test_who_deleted_a_key_is_what_a_step_depends_on_that_did_not_find_it(store):
    @action(reads=["x"], writes=[])
    def drop(state: State) -> State:
        return state.wipe(delete=["x"])

    @action(reads=["x", "never"], writes=["seen"])
    def look(state: State) -> State:
        return state.update(seen=[state.get("x"), state.get("never")])

    every = step(lambda s: {"all": len(s.get_all())}, [], ["all"])
    run = Rewind(
        line_of(("drop", drop), ("look", look), ("every", every), x=1, y=2), store=store
    ).run()

    assert edges(run) == {
        (0, 1): ["x"],
        (0, 2): ["x"],
        (1, 2): ["seen"],
        ("initial state", 2): ["y"],
    }


def test_steps_of_tasks_depend_on_each_other_and_their_step_on_them(each):
    _, run = each
    graph = run.dependencies()

    assert nx.is_directed_acyclic_graph(graph)
    assert set(graph) == {"initial state", *range(4), *(s.address for s in run.walk() if s.path)}
    found = graph.edges["each:1[0]/search:1", "each:1[0]/grade:1"]
    assert (found["keys"], found["route"]) == (["found"], True)
    assert graph.edges["each:1[0]/grade:1", 0]["keys"] == ["grade"]
    assert graph.edges["initial state", "each:1[0]/grade:1"]["keys"] == ["bonus"]
    made = graph.edges[1, "each:2[0]/search:1"]
    assert (made["keys"], made["made"]) == (["words"], True)
    assert not found["made"]
    assert graph.nodes["each:2[0]/search:1"]["task"] == "each:2[0]/"
    assert {"each:1[0]/search:1", 0, 1, "initial state"} <= nx.ancestors(graph, 3)


def test_a_fork_shows_where_each_step_came_from_and_what_was_put_in(store):
    rw, run = RECORDERS["branch"](store)
    fork = rw.fork(run, "judge", state={"fare": 900})
    graph = fork.dependencies()

    assert [graph.nodes[n]["source"] for n in range(3)] == ["live", "live", "live"]
    assert edges(fork)["override", 0] == edges(fork)["override", 1] == ["fare"]
    assert ("initial state", 0) not in graph.edges


# -- why a call was made live ------------------------------------------------------------------------


@pytest.fixture
def provider():
    with fp.FakeProvider(then=fp.echo) as running:
        yield running


def talking(provider, store, **settings):
    """A first step that asks twice, and a second one that asks with what came of it."""
    chat = ChatModel(provider.base_url, "toy")

    @action(reads=["topic", "warm"], writes=["said"])
    def talk(state: State) -> State:
        first = chat.chat(f"on {state['topic']}", temperature=0.5 if state["warm"] else 0.0)
        return state.update(said=[first.text, chat.chat("and more").text])

    @action(reads=["said"], writes=["text"])
    def write(state: State) -> State:
        asked = [chat.chat(f"line {words}").text for words in state["said"]]
        return state.update(text=asked)

    app = line_of(("talk", talk), ("write", write), topic="tea", warm=False)
    return Rewind(app, store=store, **settings)


def called(run):
    return [[call.reason for call in step.calls] for step in run.steps]


def test_no_call_of_a_recorded_run_has_a_reason(provider, store):
    run = talking(provider, store).run()

    assert called(run) == [[None, None], [None, None]]
    assert run.calls_df().reason.isna().all()


def test_a_live_call_of_a_fork_names_the_fields_that_differ_from_the_parents(provider, store):
    rw = talking(provider, store)
    run = rw.run()
    fork = rw.fork(run, "talk", state={"topic": "milk", "warm": True})

    said = "differs from the parent's call here in: "
    assert called(fork) == [
        [f"{said}messages[0].content, temperature", None],
        [f"{said}messages[0].content", None],
    ]
    assert fork.calls_df().reason.tolist()[::2] == [call[0] for call in called(fork)]
    assert fork["talk"].calls[0].to_dict()["reason"].endswith("temperature")
    assert "messages[0].content, temperature" in words_of(step_html(fork["talk"]))


def test_a_call_that_the_parent_did_not_make_says_so(provider, store):
    rw = talking(provider, store)
    run = rw.run()
    fork = rw.fork(run, "talk", output={"said": ["on tea", "and more", "and on"]})

    assert called(fork) == [[], [None, None, "the parent made no such call here"]]


def test_a_call_that_was_to_be_asked_anew_names_the_mode(provider, store):
    rw = talking(provider, store)
    run = rw.run()
    fork = rw.fork(run, "write", cache="refresh")

    assert called(fork) == [[None, None], ["cache='refresh'"] * 2]


def test_a_call_is_compared_with_the_one_of_the_run_that_executed_the_step(provider, store):
    """The parent reused it: what was asked there was asked by the run before."""
    chat = ChatModel(provider.base_url, "toy")
    begin = step(lambda s: {"x": 1}, [], ["x"])
    talk = step(lambda s: {"said": chat.chat(s["topic"]).text}, ["topic"], ["said"])
    rw = Rewind(line_of(("begin", begin), ("talk", talk), topic="tea"), store=store)
    parent = rw.fork(rw.run(), "begin", output={"x": 2})
    fork = rw.fork(parent, "talk", state={"topic": "milk"})

    assert store.run(parent.id).steps[1].row.origin
    assert called(fork)[1] == ["differs from the parent's call here in: messages[0].content"]


def test_a_call_is_compared_with_the_parent_as_it_was_when_the_fork_was_made(provider, store):
    rw = talking(provider, store)
    run = rw.run(halt_after=["talk"])
    fork = rw.fork(run, "talk", output={"said": ["milk"]})
    fork = rw.resume(fork)
    rw.resume(run)

    assert len(store.run(run.id)) == 2
    assert called(store.run(fork.id))[1] == ["the parent made no such call here"]


def test_a_tool_inside_a_tool_is_compared_with_the_one_inside(store):
    @tool
    def inner(word: str) -> str:
        return word.upper()

    @tool
    def outer(word: str) -> str:
        return inner(word)

    talk = step(lambda s: {"said": outer(s["word"])}, ["word"], ["said"])
    rw = Rewind(line_of(("talk", talk), word="tea"), store=store)
    fork = rw.fork(rw.run(), "talk", state={"word": "milk"})

    assert called(fork) == [["differs from the parent's call here in: args.word"] * 2]


def test_the_same_request_asked_more_often_is_said_to_be(store):
    apps.CALLS.clear()

    @tool
    def roll(side: int) -> int:
        apps.ran("roll")
        return apps.CALLS["roll"]

    @action(reads=["sides"], writes=["rolled"])
    def play(state: State) -> State:
        return state.update(rolled=[roll(side) for side in state["sides"]])

    rw = Rewind(line_of(("play", play), sides=[6, 4]), store=store)
    fork = rw.fork(rw.run(), "play", state={"sides": [4, 4, 5, 8]})

    assert called(fork) == [
        [
            None,
            "the parent made this very request 1 time, and no more",
            *["the parent made no such call here"] * 2,
        ]
    ]


def test_a_tool_names_its_arguments_and_one_with_an_override_inside_names_that(provider, store):
    chat = ChatModel(provider.base_url, "toy")

    @tool
    def ask(word: str) -> str:
        return chat.chat(f"what is {word}?").text

    @action(reads=["word"], writes=["said"])
    def talk(state: State) -> State:
        return state.update(said=ask(state["word"]))

    rw = Rewind(line_of(("talk", talk), word="tea"), store=store)
    run = rw.run()
    other = rw.fork(run, "talk", state={"word": "milk"})
    inside = rw.fork(run, "talk", prompt="what is soup?")

    said = "differs from the parent's call here in: "
    assert called(other) == [[f"{said}args.word", f"{said}messages[0].content"]]
    assert called(inside) == [["an override is for a call inside it", f"{said}messages[0].content"]]


def test_a_call_after_a_failed_one_says_that_there_was_no_answer(store):
    with fp.FakeProvider(fp.status(500), fp.echo, then=fp.echo) as provider:
        chat = ChatModel(provider.base_url, "toy", max_retries=0)

        @action(reads=[], writes=["said"])
        def talk(state: State) -> State:
            try:
                return state.update(said=chat.chat("tea").text)
            except Exception:
                return state.update(said="nothing")

        rw = Rewind(line_of(("talk", talk)), store=store)
        run = rw.run()
        fork = rw.fork(run, "talk", reuse="none")

    assert fork.state["said"] == "tea"
    assert called(fork) == [["the parent's call here got no answer that can be played back"]]


def test_a_step_that_failed_asks_again_and_says_why(store):
    with fp.FakeProvider(then=fp.echo) as provider:
        chat = ChatModel(provider.base_url, "toy")
        broken = [True]

        @action(reads=[], writes=["said"])
        def talk(state: State) -> State:
            said = chat.chat("tea").text
            if broken:
                raise LookupError("no cup")
            return state.update(said=said)

        rw = Rewind(line_of(("talk", talk)), store=store)
        with pytest.raises(LookupError):
            rw.run()
        broken.clear()
        fork = rw.fork(rw.last_run, "talk", allow_code_change=True)

    assert fork["talk"].reason == "the parent's step failed"
    assert called(fork) == [["the parent's step failed, so it asks again"]]


def test_a_clock_that_the_parent_did_not_read_says_so(store):
    @action(reads=["late"], writes=["at"])
    def look(state: State) -> State:
        return state.update(at=str(now()) if state["late"] else "now")

    rw = Rewind(line_of(("look", look), late=False), store=store)
    fork = rw.fork(rw.run(), "look", state={"late": True})

    assert called(fork) == [["the parent made no such call here"]]


def test_a_call_inside_a_task_is_compared_with_the_one_of_the_same_task(each):
    rw, run = each
    fork = rw.fork(run, run["each", 2].tasks["3"][0], state={"word": "hello"})
    frame = fork.calls_df()

    assert frame[frame.task == "each:2[3]/"].reason.tolist() == [
        "differs from the parent's call here in: args.word"
    ]
    assert frame[frame.task != "each:2[3]/"].reason.isna().all()


# -- what an override did ----------------------------------------------------------------------------


def test_each_override_names_who_consumed_it_and_the_first_field_it_changed(
    report, provider, store
):
    rw, run = report
    chat = talking(provider, store)
    talked = chat.run()
    _, loop = RECORDERS["loop"](store)
    looping = Rewind(apps.loop_app(), store=store)
    expected = [
        (rw.fork(run, "note", patch={"doc.note": "wet"}), "step 1 'note'", "doc.note"),
        (rw.fork(run, "note", output={"doc": {"n": 2}}), "step 1 'note'", "doc.n"),
        (rw.fork(run, "analyse", state={"n": 3}), "step 0 'analyse'", "n"),
        (
            looping.fork(loop, ("count", 2), inputs={"by": 5}),
            "step 1 'count' (visit 2)",
            "@inputs.by",
        ),
        (chat.fork(talked, "talk", prompt="on soup"), "step 0 'talk'", "said[0]"),
        (chat.fork(talked, "write", response="hm", call=1), "step 1 'write'", "text[1]"),
        (
            rw.fork(run, "publish", action=lambda state: state.update(page="x")),
            "step 3 'publish'",
            "page",
        ),
    ]

    for fork, who, first in expected:
        (one,) = fork.consumed
        assert (one.override, one.step, one.first_change) == (fork.overrides[0], who, first)
        assert one.outcome == f"first change `{first}`"
    assert run.consumed == ()
    assert rw.fork(run, "note").consumed == ()


def test_an_override_that_equals_what_was_recorded_is_said_to_change_nothing(report):
    rw, run = report
    fork = rw.fork(run, "note", patch={"doc.note": "dry"})
    (one,) = fork.consumed

    assert (one.step, one.first_change, one.outcome) == ("step 1 'note'", None, "changed nothing")
    assert repr(one) == "<Consumed replace doc.note = 'dry' by step 1 'note': changed nothing>"


def test_an_override_that_was_consumed_and_came_to_the_same_is_said_to_change_nothing(
    provider, store
):
    rw = talking(provider, store)  # it echoes the prompt, whatever the temperature
    fork = rw.fork(rw.run(), "talk", temperature=0.9)

    assert fork["talk"].live_calls == 1
    assert fork.consumed[0].outcome == "changed nothing"
    assert "changed nothing" in repr(fork)
    assert "changed nothing, by step 0 'talk'" in words_of(run_html(fork))


def test_an_override_whose_first_effect_is_another_way_says_so(store):
    """What conditions alone read changes no field of the step that it is given to."""
    go = step(lambda s: {"a": 1}, [], ["a"])
    left = step(lambda s: {"b": 1}, [], ["b"])
    app = (
        ApplicationBuilder()
        .with_actions(go=go, left=left, right=left)
        .with_transitions(("go", "left", expr("n < 3")), ("go", "right", default))
        .with_state(n=1)
        .with_entrypoint("go")
        .build()
    )
    rw = Rewind(app, store=store)
    fork = rw.fork(rw.run(), "go", state={"n": 5})

    assert fork.consumed[0].first_change == "n"
    assert because(fork, "right").endswith(
        "read `n`, which was changed by the override of step 0 'go'"
    )


def test_an_override_by_code_that_only_leads_another_way_says_so(store):
    go, left = step(lambda s: {"a": 1}, [], ["a"]), step(lambda s: {"b": 1}, [], ["b"])

    def build(target):
        return (
            ApplicationBuilder()
            .with_actions(go=go, left=left, right=left)
            .with_transitions(("go", target))
            .with_entrypoint("go")
            .build()
        )

    run = Rewind(build("left"), store=store).run()
    fork = Rewind(build("right"), store=store).rerun_from(run)

    assert fork.consumed[0].first_change == "@step"
    assert fork.consumed[0].outcome == "first change: another way"


def test_an_override_that_nothing_consumed_is_said_not_to_be(store):
    """It is for a second call, which the step makes only after a certain answer."""
    with fp.FakeProvider(fp.echo, fp.echo, then=fp.completion("no")) as provider:
        chat = ChatModel(provider.base_url, "toy")

        @action(reads=[], writes=["said"])
        def talk(state: State) -> State:
            said = [chat.chat("one").text]
            if said == ["one"]:
                said.append(chat.chat("two").text)
            return state.update(said=said)

        rw = Rewind(line_of(("talk", talk)), store=store)
        run = rw.run()
        with pytest.raises(OverrideNotConsumedError):
            rw.fork(run, "talk", prompt="three", call=1, cache="refresh")
    run = rw.last_run
    (one,) = run.consumed

    assert (one.step, one.outcome) == (None, "not consumed")
    assert "not consumed" in repr(run)
    assert "Spent before this was known: 1 live call, tokens: " in run["talk"].error.traceback
    assert "Spent before this was known: 1 live call" in run["talk"]._repr_html_()
    tokens = run.usage.total_tokens
    for shown in (run._repr_html_(), run["talk"]._repr_html_(), run_text(run)):
        assert "1 live call" in shown
        assert f"{tokens} tokens" in shown


def test_the_override_of_a_step_inside_a_task_is_told_with_its_address(each):
    rw, run = each
    fork = rw.fork(run, run["each", 1].tasks["3"][1], output={"grade": 100})

    assert fork.consumed[0].step == "step each:1[3]/grade:1"
    assert fork.consumed[0].first_change == "grade"


def test_a_fork_shows_what_its_override_did_where_that_is_not_in_its_words(report, provider, store):
    rw, run = report
    named = rw.fork(run, "note", patch={"doc.note": "wet"})
    whole = rw.fork(run, "note", output={"doc": {"n": 2}})

    assert repr(named).endswith("replace doc.note = 'wet'>")
    assert repr(whole).endswith("replace doc = {'n': 2}, first change `doc.n`>")
    assert "first change doc.n , by step 1 'note'" in words_of(run_html(whole))
    assert "first change" not in words_of(run_html(named))
    assert "    first change `doc.n`" in run_text(whole).splitlines()


# -- chains through steps that did not execute -----------------------------------------------------


def chains(diff, path):
    return [[f"{link.action} {link.path}" for link in chain] for chain in diff.why(path)]


def test_why_leads_through_steps_that_one_of_two_forks_reused(store):
    """What one fork reused the other executed: the chain is in both runs' reads."""
    first = step(lambda s: {"a": s["n"]}, ["n"], ["a"])
    second = step(lambda s: {"b": s["a"] > 1}, ["a"], ["b"])
    third = step(lambda s: {"c": f"{s['b']} {s['k']}"}, ["b", "k"], ["c"])
    other = step(lambda s: {"k": s["m"]}, ["m"], ["k"])
    app = line_of(
        ("first", first), ("other", other), ("second", second), ("third", third), n=1, m=1
    )
    rw = Rewind(app, store=store)
    run = rw.run()
    one = rw.fork(run, "first", output={"a": 2})
    two = rw.fork(run, "other", output={"k": 5})
    diff = rw.diff(one, two)

    assert (one["other"].source, two["second"].source) == ("reused", "reused")
    assert sorted(chains(diff, "c")) == [
        ["first a", "second b", "third c"],
        ["other k", "third c"],
    ]


def test_why_leads_through_steps_that_a_fork_took_from_its_parent_when_it_converged(store):
    one = step(lambda s: {"a": s["n"]}, ["n"], ["a"])
    sign = step(lambda s: {"s": s["a"] > 0}, ["a"], ["s"])
    drop = step(lambda s: {"a": 0}, [], ["a"])
    two = step(lambda s: {"b": s["s"]}, ["s"], ["b"])
    three = step(lambda s: {"c": s["b"]}, ["b"], ["c"])
    named = [("one", one), ("sign", sign), ("drop", drop), ("two", two), ("three", three)]
    rw = Rewind(line_of(*named, n=1), store=store)
    run = rw.run()
    same = rw.fork(run, "one", output={"a": 2})
    other = rw.fork(run, "one", output={"a": -2})

    assert same.converged_at == 3
    for before, after in ((same, other), (other, same)):
        assert chains(rw.diff(before, after), "c") == [["one a", "sign s", "two b", "three c"]]


def test_why_leads_through_a_step_whose_tasks_were_reused(each):
    rw, run = each
    one = rw.fork(run, run["each", 1].tasks["3"][1], output={"grade": 100})
    two = rw.fork(run, "shorten", output={"words": ["alpha", "be", "al"]})
    found = rw.diff(one, two).why("report")

    assert one["each", 2].source == "reused"
    assert {chain[0].address for chain in found} == {"shorten:1"}


# -- how it is shown ----------------------------------------------------------------------------------


def test_the_page_of_a_fork_says_why_and_what_it_did_about_each_step(store):
    rw = Rewind(report_app(), store=store)
    run = rw.run()
    fork = rw.fork(run, "note", patch={"doc.note": "wet"})
    page, words = run_html(fork), words_of(run_html(fork))

    assert "1 override" in words
    assert "1 executed" in words
    assert "1 reused" in words
    assert "1 inherited" in words
    assert "read doc , which changed" in words
    assert "read doc , in which note was changed by step 1 'note'" in words
    assert page.count("<title>") == len(fork) * 2 - 1
    assert "read `doc`, in which `note` was changed by step 1" in page
    for did in ("override", "executed", "reused", "inherited"):
        assert f'rw-how-{did}"' in page
    assert "why" in words_of(run_html(fork)).split()
    assert "rw-how-" not in re.sub("<style>.*?</style>", "", run_html(run), flags=re.DOTALL)


def test_the_page_tells_converged_steps_from_reused_ones(store):
    rw, run = RECORDERS["loop"](store)
    fork = rw.fork(run, 1)
    page = run_html(fork)

    assert "3 converged" in words_of(page)
    assert 'rw-how-converged"' in page
    assert "1 reused" not in words_of(page)
    assert "» converged" in words_of(page)


def test_the_terminal_says_once_what_is_so_of_several_steps_in_a_row(store):
    rw = Rewind(report_app(), store=store)
    run = rw.run()
    lines = run_text(rw.fork(run, "other", output={"other": 1})).splitlines()
    converged = run_text(rw.fork(run, "analyse")).splitlines()

    assert "      inherited: before the fork point (all 2)" in lines
    assert "      put in: the override supplied its output" in lines
    assert "      reused: nothing it read changed" in lines
    assert "      converged at seq 0 (all 4)" in converged
    assert all(len(line) <= 100 for line in [*lines, *converged])
    assert not any("executed" in line for line in run_text(run).splitlines())
