"""Tasks inside steps where runs are compared and shown: diffs, causes, frames, text, HTML."""

import dataclasses
import html
import re

import fake_provider as fp
import pytest
import task_apps
import test_tasks
from burr.core import ApplicationBuilder, State, action, default, expr
from burr.core.action import streaming_action
from burr.core.graph import GraphBuilder
from burr.core.parallelism import MapStates, RunnableGraph

from rewind_nb import ChatModel, Rewind, artifact
from rewind_nb._diff import MISSING
from rewind_nb._html import diff_html, proof_html, run_html, step_html
from rewind_nb._text import diff_text, run_text
from rewind_nb.errors import NotFoundError


def words_of(page):
    """What a page says: each element's text, one space between two."""
    inner = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", inner)).split())


def changed(diff):
    return [(c.address, c.path) for c in diff.changes]


def causes(diff):
    return {(c.address, c.path): c.cause for c in diff.changes}


def chains(diff, path):
    return [[(link.address, link.path) for link in chain] for chain in diff.why(path)]


def each_of(key, part, *, reads=None, writes=("out",), graph=None, result="n"):
    """A parallel action: a task for each item of *key*, given to it as *part*."""

    class Each(MapStates):
        def action(self, state, inputs):
            return graph

        def states(self, state, context, inputs):
            for item in state[key]:
                yield state.update(**{part: item})

        def reduce(self, state, states):
            return state.update(**{writes[0]: [s[result] for s in states]})

        @property
        def reads(self):
            return list(reads or [key])

        @property
        def writes(self):
            return list(writes)

    return Each()


def line_of(*actions, **state):
    """An application of actions one after the other."""
    names = [name for name, _ in actions]
    return (
        ApplicationBuilder()
        .with_actions(**dict(actions))
        .with_transitions(*zip(names, names[1:], strict=False))
        .with_state(**state)
        .with_entrypoint(names[0])
        .build()
    )


def step(function, reads=(), writes=()):
    """An action that updates the state with what *function* makes of it."""

    @action(reads=list(reads), writes=list(writes))
    def act(state: State) -> State:
        return state.update(**function(state))

    return act


@pytest.fixture
def loop(store):
    rw = Rewind(task_apps.map_app(), store=store)
    return rw, rw.run()


@pytest.fixture
def inside(loop):
    """A run, and its fork with another output of a step of a task."""
    rw, run = loop
    fork = rw.fork(run, run["each", 2].tasks["3"][1], output={"grade": 100})
    return rw, run, fork


# -- pairs -------------------------------------------------------------------------------------


def test_every_step_is_paired_and_those_of_tasks_come_before_the_step_they_are_inside_of(inside):
    rw, run, fork = inside
    diff = rw.diff(run, fork)
    shown = [pair.shown.address for pair in diff.pairs]

    assert sorted(shown) == sorted(s.address for s in run.walk())
    assert shown[:3] == ["each:1[0]/search:1", "each:1[0]/grade:1", "each:1[1]/search:1"]
    assert shown[10:12] == ["each:1", "shorten:1"]
    assert shown[-4:] == ["each:2[4]/search:1", "each:2[4]/grade:1", "each:2", "report:1"]


def test_tasks_of_tasks_come_before_the_step_of_the_task_they_are_inside_of(store):
    rw = Rewind(deep_app(), store=store)
    run = rw.run()
    shown = [pair.shown.address for pair in rw.diff(run, run).pairs]

    assert shown[:4] == [
        "cities:1[0]/visit:1[app-0]/ask:1",
        "cities:1[0]/visit:1[app-0]/check:1",
        "cities:1[0]/visit:1",
        "cities:1[1]/visit:1[app-0]/ask:1",
    ]
    assert shown[-1] == "cities:1"


def test_runs_that_differ_only_inside_a_task_are_not_identical(loop):
    rw, run = loop
    step = run["each", 2].tasks["3"][0]
    fork = rw.fork(run, step, output={"found": {"word": "four", "n": -1}})
    diff = rw.diff(run, fork)

    assert run.state == fork.state
    assert not diff.identical
    assert changed(diff) == [
        ("each:2[3]/search:1", "found.word"),
        ("each:2[3]/search:1", "found.n"),
    ]
    assert diff.changed_steps == 1


def test_a_run_with_tasks_is_identical_to_its_unchanged_fork_at_any_step(loop):
    rw, run = loop
    for at in (run["each", 2], run["each", 2].tasks["3"][1]):
        assert rw.diff(run, rw.fork(run, at)).identical


# -- naming ------------------------------------------------------------------------------------


def test_a_change_inside_a_task_is_named_by_its_full_address(inside):
    rw, run, fork = inside
    diff = rw.diff(run, fork)

    assert diff.divergence.address == diff.changes[0].address == "each:2[3]/grade:1"
    assert (diff.divergence.lane, diff.overrides[0].lane) == ("each:2[3]/", "each:2[3]/")
    assert repr(diff).endswith("first: step each:2[3]/grade:1 grade: 5 -> 100 (override)>")
    assert repr(diff.changes[0]) == "<Change each:2[3]/grade:1 grade: 5 -> 100 [override]>"
    assert "first divergence: step each:2[3]/grade:1, grade\n" in diff_text(diff)
    assert "  step each:2[3]/grade:1: override\n    grade\n" in diff_text(diff)
    page = words_of(diff_html(diff))
    assert "First difference : step each:2[3]/grade:1 grade 5 → 100 cause: override" in page
    assert "override replace grade = 100 at each:2[3]/grade:1" in page
    assert diff.df.task.tolist() == ["each:2[3]/", "", ""]


def test_an_override_inside_a_task_is_named_by_its_address_where_sides_are_told(inside):
    rw, run, fork = inside
    other = rw.fork(run, run["each", 2].tasks["0"][1], output={"grade": 7})

    assert [line for line in diff_text(rw.diff(fork, other)).splitlines() if "override " in line][
        :2
    ] == [
        "override after, step each:2[0]/grade:1: replace grade = 7",
        "override before, step each:2[3]/grade:1: replace grade = 100",
    ]


def test_an_override_inside_a_task_that_changed_nothing_is_named_there(loop):
    rw, run = loop
    fork = rw.fork(run, run["each", 2].tasks["3"][1], output={"grade": 5})
    (given,) = rw.diff(run, fork).overrides

    assert rw.diff(run, fork).identical
    assert given.address == "each:2[3]/grade:1"


def test_a_difference_a_replay_finds_in_a_task_is_named_by_its_address(store):
    draws = iter(range(100))

    @action(reads=["word"], writes=["n"])
    def draw(state: State) -> State:
        return state.update(n=next(draws))

    app = line_of(
        ("each", each_of("words", "word", graph=RunnableGraph.create(draw))), words=["a", "b"]
    )
    rw = Rewind(app, store=store)
    proof = rw.replay(rw.run())

    assert not proof.ok
    assert "first difference: step each:1[0]/draw:1 n: " in repr(proof)
    assert "step each:1[0]/draw:1 n" in words_of(proof_html(proof))


# -- tasks that only one run has ------------------------------------------------------------------


@pytest.fixture
def longer(loop):
    """A run, and its fork with two more tasks."""
    rw, run = loop
    words = [*run["shorten"].writes["words"], "new", "newer"]
    return rw, run, rw.fork(run, "shorten", output={"words": words})


def test_a_task_that_only_one_run_has_is_added_or_removed(longer):
    rw, run, fork = longer
    there, back = rw.diff(run, fork), rw.diff(fork, run)

    for diff, kind in ((there, "added"), (back, "removed")):
        lost = [c for c in diff.changes if c.lane.startswith(("each:2[5]", "each:2[6]"))]
        assert [(c.address, c.kind) for c in lost] == [
            ("each:2[5]/search:1", kind),
            ("each:2[5]/grade:1", kind),
            ("each:2[6]/search:1", kind),
            ("each:2[6]/grade:1", kind),
        ]
        assert {c.cause for c in lost} == {f"no such task in {run.id}"}
        assert diff.df.kind[diff.df.task == "each:2[5]/"].tolist() == [kind, kind]
        own = [c.cause for c in diff.changes if c.address == "each:2"]
        assert set(own) == {f"read 'words' (step 1 'shorten'); 2 of its tasks were {kind}"}


def test_an_added_task_is_told_in_one_piece_in_text_and_html(longer):
    rw, run, fork = longer
    lines = diff_text(rw.diff(run, fork)).splitlines()
    words = f"task each:2[5]/ (2 steps), only in {fork.id}: no such task in {run.id}"

    assert lines.count(f"  {words}") == 1
    assert not any("each:2[5]/search" in line for line in lines)
    (row,) = [line for line in lines if "[5]/" in line and "2 steps, live" in line]
    assert row.startswith("  +   [5]/")
    page = words_of(diff_html(rw.diff(run, fork)))
    assert f"task each:2[5]/ , 2 steps cause: no such task in {run.id} + only after" in page
    assert "[5]/ - 2 steps + only after" in page


def test_an_added_task_that_is_the_first_difference_is_told_in_the_repr(store):
    names = ["Bern"]

    class Each(MapStates):
        def action(self, state, inputs):
            return RunnableGraph.create(step(lambda s: {"n": len(s["city"])}, ["city"], ["n"]))

        def states(self, state, context, inputs):
            for city in names:  # not in the state: nothing that was read differs
                yield state.update(city=city)

        def reduce(self, state, states):
            return state.update(out=max(s["n"] for s in states))

        @property
        def reads(self):
            return []

        @property
        def writes(self):
            return ["out"]

    rw = Rewind(line_of(("each", Each())), store=store)
    run = rw.run()
    names.append("Oslo")
    more = rw.run()

    assert repr(rw.diff(run, more)).endswith(
        f"first: step each:1[1]/act:1 only in {more.id} (no such task in {run.id})>"
    )
    assert repr(rw.diff(more, run)).endswith(
        f"first: step each:1[1]/act:1 only in {more.id} (no such task in {run.id})>"
    )


def each_number_app(numbers):
    double = step(lambda s: {"n": s["k"] * 2}, ["k"], ["n"])
    return line_of(
        ("each", each_of("ks", "k", graph=RunnableGraph.create(double))), ks=list(numbers)
    )


def test_a_single_task_that_was_added_is_named_by_its_key(store):
    short = Rewind(each_number_app([1]), store=store).run()
    longer = Rewind(each_number_app([1, 2]), store=store).run()
    rw = Rewind(each_number_app([1]), store=store)

    assert causes(rw.diff(short, longer))["each:1", "out[1]"] == (
        "read 'ks'; its task 1 was added (each:1[1]/)"
    )


def test_tasks_that_an_output_stood_for_are_not_told_as_removed(loop):
    rw, run = loop
    fork = rw.fork(run, ("each", 2), output={"grades": [1], "rounds": 2})
    diff = rw.diff(run, fork)

    assert {c.address for c in diff.changes} == {"each:2", "report:1"}
    assert diff.divergence.address == "each:2"
    assert causes(diff)["each:2", "grades[0]"] == "override"
    assert sum(None in pair for pair in diff.pairs) == 10
    words = "5 tasks not run: an override supplied the output"
    assert f"  -   {words}" in diff_text(diff).splitlines()
    assert words in words_of(diff_html(diff))


def test_a_step_of_a_task_that_the_other_task_failed_before_says_so(store):
    def fail(state):
        if state["k"] < 0:
            raise ValueError("less than nothing")
        return {"n": state["k"]}

    graph = (
        GraphBuilder()
        .with_actions(
            check=step(fail, ["k"], ["n"]), last=step(lambda s: {"n": s["n"] * 2}, ["n"], ["n"])
        )
        .with_transitions(("check", "last"))
        .build()
    )
    each = each_of("ks", "k", graph=RunnableGraph(graph, "check", ["last"]))
    rw = Rewind(line_of(("each", each), ks=[1, 2]), store=store)
    run = rw.run()
    with pytest.raises(ValueError):
        rw.fork(run, "each", state={"ks": [1, -2]})
    failed = rw.last_run
    diff = rw.diff(run, failed)

    assert causes(diff)["each:1[1]/last:1", "@step"] == f"run {failed.id} failed before it"
    assert causes(diff)["each:1", "@error"] == ("override; its task 1 changed (each:1[1]/check:1)")
    assert [("each:1", "ks"), ("each:1[1]/check:1", "@error"), ("each:1[1]/last:1", "@step")] in (
        chains(diff, "@step")
    )


def test_a_step_on_another_way_through_a_task_is_told_by_what_led_there(loop):
    rw, run = loop
    fork = rw.fork(run, "shorten", patch={"words[0]": "x"})
    diff = rw.diff(run, fork)
    parted = (
        "the runs took different paths after step each:2[0]/search:1, whose conditions read 'found'"
    )

    assert {(c.address, c.kind, c.cause) for c in diff.changes if c.path == "@step"} == {
        ("each:2[0]/grade:1", "removed", parted),
        ("each:2[0]/skip:1", "added", parted),
    }
    assert [
        ("shorten:1", "words"),
        ("each:2[0]/search:1", "found"),
        ("each:2[0]/skip:1", "grade"),
        ("each:2", "grades"),
    ] in chains(diff, "grades")


# -- causes ------------------------------------------------------------------------------------


def test_an_override_inside_a_task_is_followed_to_the_steps_that_depend_on_it(inside):
    rw, run, fork = inside
    diff = rw.diff(run, fork)

    assert causes(diff) == {
        ("each:2[3]/grade:1", "grade"): "override",
        ("each:2", "grades[3]"): "its task 3 changed (each:2[3]/grade:1)",
        ("report:1", "report"): "read 'grades' (step 2 'each')",
    }
    assert chains(diff, "report") == [
        [("each:2[3]/grade:1", "grade"), ("each:2", "grades"), ("report:1", "report")]
    ]
    assert chains(rw.diff(fork, run), "report") == chains(diff, "report")


def test_an_override_of_the_run_is_followed_into_a_task_and_out_again(loop):
    rw, run = loop
    fork = rw.fork(run, "shorten", patch={"words[3]": "alphabet"})
    diff = rw.diff(run, fork)

    assert causes(diff)["each:2[3]/search:1", "found.word"] == (
        "read 'word' (made from 'words', step 1 'shorten')"
    )
    assert causes(diff)["each:2[3]/grade:1", "grade"] == "read 'found' (step each:2[3]/search:1)"
    assert causes(diff)["each:2", "grades[3]"] == (
        "read 'words' (step 1 'shorten'); its task 3 changed (each:2[3]/grade:1)"
    )
    assert chains(diff, "report") == [
        [("shorten:1", "words"), ("each:2", "grades"), ("report:1", "report")],
        [
            ("shorten:1", "words"),
            ("each:2[3]/search:1", "found"),
            ("each:2[3]/grade:1", "grade"),
            ("each:2", "grades"),
            ("report:1", "report"),
        ],
    ]


def test_an_override_of_the_state_entering_a_step_comes_before_its_tasks(loop):
    rw, run = loop
    fork = rw.fork(run, ("each", 2), state={"words": ["alph", "b", "alph", "alph", "delta"]})
    diff = rw.diff(run, fork)

    assert changed(diff)[0] == ("each:2", "words[4]")
    assert causes(diff)["each:2[4]/search:1", "found.word"] == (
        "read 'word' (made from 'words', override of step 2 'each')"
    )
    assert causes(diff)["each:2", "grades[4]"] == (
        "override; its task 4 changed (each:2[4]/grade:1)"
    )
    assert chains(diff, "words[4]") == [[("each:2", "words[4]")]]
    assert [
        ("each:2", "words"),
        ("each:2[4]/search:1", "found"),
        ("each:2[4]/grade:1", "grade"),
        ("each:2", "grades"),
    ] in chains(diff, "grades")


def passing_app():
    """A key that an action writes and the tasks read as it was passed on."""
    add = step(lambda s: {"n": s["k"] + s["bonus"]}, ["k", "bonus"], ["n"])
    return line_of(
        ("set", step(lambda s: {"bonus": s["seed"]}, ["seed"], ["bonus"])),
        ("each", each_of("ks", "k", graph=RunnableGraph.create(add))),
        seed=1,
        ks=[1, 2],
    )


def test_a_key_that_was_passed_on_came_from_who_wrote_it_outside(store):
    rw = Rewind(passing_app(), store=store)
    run = rw.run()
    diff = rw.diff(run, rw.fork(run, "set", output={"bonus": 5}))

    assert causes(diff)["each:1[0]/act:1", "n"] == "read 'bonus' (step 0 'set')"
    assert causes(diff)["each:1", "out[0]"] == (
        "read 'bonus' (step 0 'set'); 2 of its tasks changed"
    )
    given = rw.fork(run, "each", state={"bonus": 5})
    assert causes(rw.diff(run, given))["each:1[0]/act:1", "n"] == (
        "read 'bonus' (override of step 1 'each')"
    )


def test_other_inputs_and_code_of_the_step_around_a_task_are_told_as_its_cause(store):
    class Scaled(MapStates):
        factor = 1

        def action(self, state, inputs):
            return RunnableGraph.create(step(lambda s: {"n": s["k"]}, ["k"], ["n"]))

        def states(self, state, context, inputs):
            for k in (1, 2):
                yield state.update(k=k * inputs["by"])

        def reduce(self, state, states):
            return state.update(out=[s["n"] for s in states])

        @property
        def inputs(self):
            return ["by", "__context"]

        @property
        def reads(self):
            return []

        @property
        def writes(self):
            return ["out"]

    class Rescaled(Scaled):
        def states(self, state, context, inputs):
            for k in (1, 2):
                yield state.update(k=k * inputs["by"] + 10)

    rw = Rewind(line_of(("each", Scaled())), store=store)
    run, other = rw.run(inputs={"by": 1}), rw.run(inputs={"by": 3})
    recoded = Rewind(line_of(("each", Rescaled())), store=store).run(inputs={"by": 1})

    diff = rw.diff(run, other)
    assert causes(diff)["each:1[0]/act:1", "n"] == (
        "read 'k' (made from other inputs of step 0 'each')"
    )
    assert [("each:1", "@inputs.by"), ("each:1[0]/act:1", "n"), ("each:1", "out")] in (
        chains(diff, "out")
    )
    assert causes(rw.diff(run, recoded))["each:1[0]/act:1", "n"] == (
        "read 'k' (made from changed code of step 0 'each')"
    )


def test_keys_of_the_same_name_in_other_tasks_and_outside_are_not_mixed_up(store):
    """Every trajectory has a key `n`, and only that of task 1 differs."""
    graph = (
        GraphBuilder()
        .with_actions(
            make=step(lambda s: {"n": s["k"]}, ["k"], ["n"]),
            use=step(lambda s: {"n": s["n"] + 1}, ["n"], ["n"]),
        )
        .with_transitions(("make", "use"))
        .build()
    )
    app = line_of(
        ("before", step(lambda s: {"n": 7}, [], ["n"])),
        ("each", each_of("ks", "k", graph=RunnableGraph(graph, "make", ["use"]))),
        ("after", step(lambda s: {"m": s["n"]}, ["n"], ["m"])),
        ("sum", step(lambda s: {"total": sum(s["out"])}, ["out"], ["total"])),
        ks=[1, 1, 1],
    )
    rw = Rewind(app, store=store)
    run = rw.run()
    diff = rw.diff(run, rw.fork(run, run["each"].tasks["1"][0], output={"n": 50}))

    assert causes(diff) == {
        ("each:1[1]/make:1", "n"): "override",
        ("each:1[1]/use:1", "n"): "read 'n' (step each:1[1]/make:1)",
        ("each:1", "out[1]"): "its task 1 changed (each:1[1]/use:1)",
        ("sum:1", "total"): "read 'out' (step 1 'each')",
    }
    assert chains(diff, "total") == [
        [
            ("each:1[1]/make:1", "n"),
            ("each:1[1]/use:1", "n"),
            ("each:1", "out"),
            ("sum:1", "total"),
        ]
    ]


def test_a_key_of_the_run_is_not_taken_for_one_that_a_task_wrote(store):
    """The tasks read `n` as it was passed on and write it; so `after` reads the run's own."""
    use = step(lambda s: {"n": s["n"] + s["k"]}, ["n", "k"], ["n"])
    app = line_of(
        ("before", step(lambda s: {"n": 7}, [], ["n"])),
        ("each", each_of("ks", "k", graph=RunnableGraph.create(use))),
        ("after", step(lambda s: {"m": s["n"]}, ["n"], ["m"])),
        ks=[1, 2],
    )
    rw = Rewind(app, store=store)
    run = rw.run()
    diff = rw.diff(run, rw.fork(run, "before", output={"n": 50}))

    assert causes(diff) == {
        ("before:1", "n"): "override",
        ("each:1[0]/act:1", "n"): "read 'n' (step 0 'before')",
        ("each:1[1]/act:1", "n"): "read 'n' (step 0 'before')",
        ("each:1", "out[0]"): "read 'n' (step 0 'before'); 2 of its tasks changed",
        ("each:1", "out[1]"): "read 'n' (step 0 'before'); 2 of its tasks changed",
        ("after:1", "m"): "read 'n' (step 0 'before')",
    }


def visiting(asked):
    """An action that builds an application and runs it."""
    checked = step(lambda s: {"facts": f"{s['facts']}!"}, ["facts"], ["facts"])

    @action(reads=["city", "year"], writes=["n"])
    def visit(state: State) -> State:
        inner = (
            ApplicationBuilder()
            .with_actions(ask=asked, check=checked)
            .with_transitions(("ask", "check"))
            .with_state(city=state["city"], year=state["year"])
            .with_entrypoint("ask")
            .build()
        )
        *_, done = inner.run(halt_after=["check"])
        return state.update(n=done["facts"])

    return visit


def deep_app():
    """Tasks in which an action builds an application."""
    ask = step(lambda s: {"facts": f"{s['city']} {s['year']}"}, ["city", "year"], ["facts"])
    graph = RunnableGraph.create(visiting(ask))
    return line_of(
        ("cities", each_of("cities", "city", graph=graph)), cities=["Bern", "Oslo"], year=1900
    )


def test_causes_go_through_tasks_of_tasks(store):
    rw = Rewind(deep_app(), store=store)
    run = rw.run()
    step_inside = run["cities"].tasks["1"][0].tasks["app-0"][0]
    out = rw.diff(run, rw.fork(run, step_inside, output={"facts": "other"}))
    into = rw.diff(run, rw.fork(run, "cities", state={"cities": ["Bern", "Rome"]}))

    way = [
        ("cities:1[1]/visit:1[app-0]/ask:1", "facts"),
        ("cities:1[1]/visit:1[app-0]/check:1", "facts"),
        ("cities:1[1]/visit:1", "n"),
    ]
    assert chains(out, "out") == [[*way, ("cities:1", "out")]]
    assert causes(out)["cities:1[1]/visit:1", "n"] == (
        "its task app-0 changed (cities:1[1]/visit:1[app-0]/check:1)"
    )
    assert [("cities:1", "cities"), *way, ("cities:1", "out")] in chains(into, "out")
    assert causes(into)["cities:1[1]/visit:1[app-0]/ask:1", "facts"] == (
        "read 'city' (made from 'cities', override of step 0 'cities')"
    )


def test_a_finished_step_that_was_put_in_again_is_compared_by_what_it_read(store, monkeypatch):
    monkeypatch.setattr(test_tasks.Flaky, "broken", True)
    rw = Rewind(test_tasks.flaky_app(), store=store)
    with pytest.raises(OSError):
        rw.run(state={"words": ["a", "bb", "c"]})
    failed = rw.last_run
    monkeypatch.setattr(test_tasks.Flaky, "broken", False)
    other = rw.run(state={"words": ["a", "four", "c"]})
    done = rw.resume(failed)

    assert done["each"].tasks["1"][0].reads == {"word": "bb"}
    assert causes(rw.diff(other, done))["each:1[1]/fragile:1", "length"] == "read 'word'"


def test_why_can_be_asked_of_a_step_where_several_changed_a_field(store):
    rw = Rewind(each_number_app([1, 2, 3]), store=store)
    run = rw.run()
    diff = rw.diff(run, rw.fork(run, "each", state={"ks": [7, 8, 9]}))

    for n in range(3):
        (chain,) = diff.why("n", at=f"each:1[{n}]/act:1")
        assert [(link.address, link.path) for link in chain] == [
            ("each:1", "ks"),
            (f"each:1[{n}]/act:1", "n"),
        ]
    assert diff.why("n") == diff.why("n", at="each:1[2]/act:1")
    assert diff.why("out[0]", at="each:1") == diff.why("out[0]")
    with pytest.raises(NotFoundError, match=r"a step 'each:1\[9\]/act:1'.*'each:1\[0\]/act:1'"):
        diff.why("n", at="each:1[9]/act:1")


# -- files and models -----------------------------------------------------------------------------


def writing_app():
    @action(reads=["k"], writes=["n"])
    def write(state: State) -> State:
        artifact(f"page {state['k']}.md", f"k is {state['k']}")
        return state.update(n=state["k"])

    graph = (
        GraphBuilder()
        .with_actions(write=write, last=step(lambda s: {"n": s["n"]}, ["n"], ["n"]))
        .with_transitions(("write", "last"))
        .build()
    )
    return line_of(
        ("each", each_of("ks", "k", graph=RunnableGraph(graph, "write", ["last"]))), ks=[1, 2]
    )


def test_a_file_of_a_step_before_the_fork_in_a_task_is_still_the_forks(store):
    rw = Rewind(writing_app(), store=store)
    run = rw.run()
    fork = rw.fork(run, run["each"].tasks["1"][1], output={"n": 50})

    assert {a.name: a.sha256 for a in fork.artifacts} == {a.name: a.sha256 for a in run.artifacts}
    assert len(fork.artifacts) == 2
    assert not [c for c in rw.diff(run, fork).changes if c.path.startswith("@artifacts")]


def test_calls_in_tasks_that_another_model_answered_are_told_together(store):
    with fp.FakeProvider(then=fp.completion("hello", model="other")) as site:
        model = ChatModel(site.base_url, "toy")
        ask = step(lambda s: {"n": model.chat(f"on {s['k']}").text}, ["k"], ["n"])
        app = line_of(("each", each_of("ks", "k", graph=RunnableGraph.create(ask))), ks=[1, 2, 3])
        rw = Rewind(app, store=store)
        run, other = rw.run(), rw.run()
        one = Rewind(
            line_of(("each", each_of("ks", "k", graph=RunnableGraph.create(ask))), ks=[1]),
            store=store,
        ).run()

    assert rw.diff(run, other).mismatched_models == (
        "asked toy, answered by other: 3 calls in tasks of step 0 'each'",
    )
    assert rw.diff(run, one).mismatched_models == (
        "asked toy, answered by other: step each:1[0]/act:1",
    )


# -- the state entering a step of a task --------------------------------------------------------


def saw(state):
    return {k: v for k, v in state.items() if k != "saw"}


def seeing_app():
    """Tasks that loop, whose steps write down the whole state that they saw."""
    look = step(
        lambda s: {"saw": saw(s.get_all()), "k": s["k"] + 1, f"k{s['k']}": True},
        ["k"],
        ["saw", "k"],
    )

    @action(reads=["k"], writes=["saw", "k"])
    def drop(state: State) -> State:
        seen = saw(state.get_all())
        if Broken.now and state["k"] == 13:
            raise ValueError("broken")
        return state.wipe(delete=["junk"]).update(saw=seen, k=state["k"] + 1)

    graph = (
        GraphBuilder()
        .with_actions(look=look, drop=drop)
        .with_transitions(("look", "look", expr("k % 10 < 3")), ("look", "drop", default))
        .build()
    )
    each = each_of("ks", "k", graph=RunnableGraph(graph, "look", ["drop"]), result="k")
    return line_of(
        ("set", step(lambda s: {"junk": 1}, [], ["junk"])),
        ("each", each),
        ks=[0, 10, 21],
        extra="x",
    )


class Broken:
    now = False


def entered(run):
    """For each step of its tasks: the state entering it, and what it saw."""
    return [
        (saw(run.state_at(s)), s.writes["saw"])
        for s in run.walk()
        if s.path and s.status == "complete"
    ]


def test_the_state_entering_a_step_of_a_task_is_what_it_saw(store):
    rw = Rewind(seeing_app(), store=store)
    run = rw.run()
    at = run["each"].tasks["1"][2]
    forks = [
        rw.fork(run, at, state={"extra": "y"}),
        rw.fork(run, "set", output={"junk": 2}),
        rw.fork(run, run["each"].tasks["2"][0]),
    ]

    for each in (run, *forks, *(rw.fork(fork, "each") for fork in forks)):
        assert len(entered(each)) == 11
        for entering, seen in entered(each):
            assert entering == seen
            assert list(entering) == list(seen)
    after = run.state_at(run["each"].tasks["0"][-1], after=True)
    assert "junk" not in after
    assert after["k"] == 4


def test_the_state_entering_a_step_is_that_of_its_own_attempt(store, monkeypatch):
    monkeypatch.setattr(Broken, "now", True)
    rw = Rewind(seeing_app(), store=store)
    with pytest.raises(ValueError, match="broken"):
        rw.run()
    failed = rw.last_run
    assert saw(failed.state_at(failed["each"].tasks["1"][-1]))["k"] == 13
    monkeypatch.setattr(Broken, "now", False)
    done = rw.resume(failed)

    assert len(entered(done)) == 11
    for run in (done, rw.fork(done, "each"), rw.fork(done, done["each"].tasks["1"][-1])):
        for entering, seen in entered(run):
            assert entering == seen


def test_the_state_entering_a_step_of_an_earlier_attempt_is_what_that_one_saw(store, monkeypatch):
    items = [1, 13]

    @action(reads=["k"], writes=["saw", "k"])
    def look(state: State) -> State:
        seen = saw(state.get_all())
        if Broken.now and state["k"] == 13:
            raise ValueError("broken")
        return state.update(saw=seen, k=state["k"] + 1)

    class Each(MapStates):
        def action(self, state, inputs):
            graph = (
                GraphBuilder()
                .with_actions(look=look, again=look)
                .with_transitions(("look", "again"))
                .build()
            )
            return RunnableGraph(graph, "look", ["again"])

        def states(self, state, context, inputs):
            for k in items:  # not in the state, so that the next attempt gives the task another
                yield state.update(k=k)

        def reduce(self, state, states):
            return state.update(out=[s["k"] for s in states])

        @property
        def reads(self):
            return []

        @property
        def writes(self):
            return ["out"]

    monkeypatch.setattr(Broken, "now", True)
    rw = Rewind(line_of(("each", Each())), store=store)
    with pytest.raises(ValueError, match="broken"):
        rw.run()
    monkeypatch.setattr(Broken, "now", False)
    items[0] = 2
    done = rw.resume(rw.last_run)
    finished = [s for s in done.history(inside=True) if s.path and s.status == "complete"]

    assert [s.writes["saw"]["k"] for s in finished] == [1, 2, 2, 3, 13, 14]
    for each in finished:
        entering = {k: store.value(h) for k, h in done.entering_manifest(each)}
        assert saw(entering) == each.writes["saw"]


# -- frames ---------------------------------------------------------------------------------------


def test_the_rows_of_a_task_follow_their_step_and_say_where_they_are(loop):
    rw, run = loop
    frame = run.steps_df()

    assert list(zip(frame.task, frame.action, frame.visit, frame.seq, strict=True)) == [
        (s.path, s.action, s.visit, s.seq) for s in run.walk()
    ]
    assert len(frame) == len(run) + 20
    assert frame.task.tolist()[:3] == ["", "each:1[0]/", "each:1[0]/"]
    place = list(frame.columns)
    assert place[place.index("visit") + 1] == "task"
    assert len(frame[frame.task == ""]) == len(run)


def test_calls_and_fields_of_tasks_are_listed_behind_their_step(loop):
    rw, run = loop
    calls, fields = run.calls_df(), run.fields_df()

    assert calls.task.tolist() == [s.path for s in run.walk() for _ in s.calls]
    assert len(calls) == 10
    assert "each:1[1]/" in set(fields.task)
    assert fields[(fields.task == "each:1[1]/") & (fields.path == "grade")]["value"].tolist() == [0]


def test_the_calls_of_a_step_before_the_fork_in_a_task_are_listed_under_the_fork(inside):
    rw, run, fork = inside

    assert fork.calls_df().fingerprint.tolist() == run.calls_df().fingerprint.tolist()
    frame = fork.steps_df().set_index(["task", "action"])
    assert frame.loc[("each:2[3]/", "search"), "executed_by"] == run.id
    assert frame.loc[("each:2[3]/", "grade"), "executed_by"] == fork.id


def asking_app(site):
    model = ChatModel(site.base_url, "toy", retry_after_cap=0.0)
    ask = step(lambda s: {"n": model.chat(f"on {s['k']}").text}, ["k"], ["n"])

    @action(reads=["n", "k"], writes=["n"])
    def check(state: State) -> State:
        if Broken.now and state["k"] == 2:
            raise ValueError("broken")
        return state.update(n=f"{state['n']}!")

    graph = (
        GraphBuilder().with_actions(ask=ask, check=check).with_transitions(("ask", "check")).build()
    )
    return line_of(
        ("first", step(lambda s: {"ks": [1, 2, 3]}, [], ["ks"])),
        ("each", each_of("ks", "k", graph=RunnableGraph(graph, "ask", ["check"]))),
    )


def test_the_row_of_a_run_counts_each_call_in_its_tasks_once(store, monkeypatch):
    with fp.FakeProvider(then=fp.completion("hello")) as site:
        rw = Rewind(asking_app(site), store=store, cache="refresh")
        run = rw.run()
        inner = rw.fork(
            run, run["each"].tasks["1"][1], output={"n": "other"}, cache="auto", reuse="none"
        )
        monkeypatch.setattr(Broken, "now", True)
        with pytest.raises(ValueError):
            rw.run()
        monkeypatch.setattr(Broken, "now", False)
        done = rw.resume(rw.last_run)
        asked = site.count
    rows = store.runs_df().set_index("id")
    tokens = run.calls_df().total_tokens.sum()

    assert rows.loc[run.id, ["steps", "live_calls", "played_calls", "tokens"]].tolist() == [
        2, 3, 0, tokens,
    ]  # fmt: skip
    assert rows.loc[inner.id, ["live_calls", "played_calls", "tokens"]].tolist() == [0, 2, 0]
    assert asked == 6
    assert rows.loc[done.id, "tokens"] == tokens
    assert (run["each"].total_calls, run["each"].live_calls) == ((3, 0), 0)
    assert run["each"].total_usage.total_tokens == tokens
    assert run["each"].usage.total_tokens == 0
    own = run.steps_df()
    assert own.live_calls.sum() == 3
    assert own[own.task == ""].live_calls.sum() == 0


def test_what_a_put_in_step_with_tasks_had_cost_is_not_charged_again(store):
    """A step of a task that has tasks itself is shared by a fork behind it."""
    with fp.FakeProvider(then=fp.completion("hello")) as site:
        model = ChatModel(site.base_url, "toy")
        ask = step(lambda s: {"facts": model.chat(s["city"]).text}, ["city"], ["facts"])
        graph = (
            GraphBuilder()
            .with_actions(visit=visiting(ask), last=step(lambda s: {"n": 1}, ["n"], ["n"]))
            .with_transitions(("visit", "last"))
            .build()
        )
        app = line_of(
            ("cities", each_of("cities", "city", graph=RunnableGraph(graph, "visit", ["last"]))),
            cities=["Bern", "Oslo"],
            year=1900,
        )
        rw = Rewind(app, store=store)
        run = rw.run()
        fork = rw.fork(run, run["cities"].tasks["1"][1], output={"n": 2}, reuse="none")

    shared = fork["cities"].tasks["1"][0]
    assert (shared.source, shared.tasks["app-0"][0].source) == ("inherited", "inherited")
    assert shared.tasks["app-0"][0].live_calls == 1
    assert run.usage.total_tokens > 0
    assert fork.usage.total_tokens == 0
    assert fork["cities"].total_calls == (0, 1)
    row = store.runs_df().set_index("id").loc[fork.id]
    assert (row.live_calls, row.played_calls, row.tokens) == (0, 1, 0)


def test_a_graph_has_the_steps_of_the_run_itself_with_the_number_of_their_tasks(loop):
    _, run = loop

    assert dict(run.graph().nodes(data="tasks")) == {0: 5, 1: 0, 2: 5, 3: 0}


def test_reading_more_tasks_takes_no_more_queries(store, monkeypatch):
    counted = []
    read = type(store).read
    monkeypatch.setattr(type(store), "read", lambda *a, **k: counted.append(1) or read(*a, **k))

    def queries(function):
        counted.clear()
        function()
        return len(counted)

    def measured(count):
        rw = Rewind(deep_app(), store=store)
        run = rw.run(state={"cities": list(range(count))})
        fork = rw.fork(run, "cities", state={"cities": ["other", *range(1, count)]})
        again, other = store.run(run.id), store.run(fork.id)
        return [
            queries(lambda: list(store.run(run.id).walk())),
            queries(lambda: store.run(run.id).steps_df()),
            queries(lambda: store.run(run.id).calls_df()),
            queries(lambda: store.run(run.id).artifacts),
            queries(lambda: store.run(run.id).usage),
            queries(lambda: rw.diff(again, other).pairs),
            queries(lambda: run_text(store.run(run.id))),
        ]

    assert measured(2) == measured(9)


# -- text and pages -------------------------------------------------------------------------------


def test_the_text_of_a_run_shows_each_task_with_its_way_and_what_it_cost(loop):
    _, run = loop
    lines = run_text(run).splitlines()
    (line,) = [line for line in lines[:6] if "[1] " in line]

    assert line[2] == "*"
    assert line.split()[:6] == ["*", "[1]", "search", "->", "skip", "live"]
    assert line.split()[6] == "1/0"
    assert lines[2].split()[1:6] == ["0", "each", "1", "live", "5/0"]
    assert lines[-1].strip().startswith("4 steps and 20 in tasks, 10 live calls, 0 played back")


def test_columns_of_tasks_stand_below_those_of_steps(loop):
    _, run = loop
    head, first, task = run_text(run).splitlines()[1:4]

    assert head.index("source") == first.index("live") == task.index("live")
    assert first.index("5/0") == task.index("1/0")
    ends = [re.search(r"\d\.\d{3} s", line).end() for line in (first, task)]
    assert ends[0] == ends[1]


def test_the_text_marks_the_task_that_a_fork_starts_in_and_what_it_shares(inside):
    _, _, fork = inside
    lines = [line for line in run_text(fork).splitlines() if "inherited, override" in line]

    assert [line[2] for line in lines] == [">"]
    assert (
        "      1 step in its tasks inherited: before the fork point" in run_text(fork).splitlines()
    )


def test_a_failed_task_is_marked_and_one_that_failed_unseen_shows_its_error(store, monkeypatch):
    monkeypatch.setattr(test_tasks.Flaky, "broken", True)
    rw = Rewind(test_tasks.flaky_app(), store=store)
    with pytest.raises(OSError):
        rw.run()
    lines = run_text(rw.last_run).splitlines()
    assert [line[2] for line in lines if "] fragile" in line] == ["*", "*", "x", "*"]
    assert sum("the third one is broken" in line for line in lines) == 1

    fail = step(lambda s: {"n": 1 // s["k"]}, ["k"], ["n"])

    @action(reads=["k"], writes=["n"])
    def bold(state: State) -> State:
        inner = (
            ApplicationBuilder()
            .with_actions(fail=fail)
            .with_state(k=state["k"])
            .with_entrypoint("fail")
            .build()
        )
        try:
            inner.run(halt_after=["fail"])
        except ZeroDivisionError:
            return state.update(n=0)
        return state.update(n=1)

    run = Rewind(line_of(("bold", bold), k=0), store=store).run()
    assert run.status == "complete"
    assert "ZeroDivisionError: integer division or modulo by zero" in run_text(run)
    assert "ZeroDivisionError" in words_of(run_html(run))
    assert "ZeroDivisionError" in words_of(step_html(run["bold"]))


def many(store, count=60):
    """A run of many tasks, one of the last of which failed."""
    check = step(lambda s: {"n": 1 // (s["k"] - count + 2)}, ["k"], ["n"])
    each = each_of("ks", "k", graph=RunnableGraph.create(check))
    rw = Rewind(line_of(("each", each), ks=list(range(count))), store=store)
    with pytest.raises(ZeroDivisionError):
        rw.run()
    return rw.last_run


def test_of_many_tasks_those_that_failed_are_shown_and_the_rest_is_counted(store):
    run = many(store)
    lines = run_text(run).splitlines()

    assert sum("] act" in line for line in lines) == 12
    assert [line for line in lines if line.startswith("  x     [58] act")]
    assert "        48 more tasks" in lines
    for page in (run_html(run), step_html(run["each"])):
        assert "20 more tasks" in words_of(page)
        assert re.search(r">58<", page)
        assert not re.search(r">57<", page)


def test_few_tasks_stand_open_and_many_are_folded(loop, store):
    _, run = loop
    few, several = run_html(run), run_html(many(store))

    assert "<details" not in few
    assert several.count("<details") == 1
    assert '<summary><span class="rw-keep"><b>60 tasks</b>' in several
    assert "59 ✓ complete 1 ✕ failed" in words_of(several)


def test_the_page_of_a_run_shows_the_tasks_inside_their_step(inside):
    _, _, fork = inside
    page = words_of(run_html(fork))

    assert "5 tasks ✓ complete" in page
    assert "3 ▼ fork ↑ search → ✎ grade inherited, override" in page
    assert "1 step in its tasks inherited: before the fork point" in page
    assert "20 more in tasks" in page
    assert "8 steps in its tasks reused: nothing it read changed" in page


def test_the_page_of_a_step_shows_each_task_with_its_steps(inside):
    _, _, fork = inside
    page = step_html(fork["each", 2])
    words = words_of(page)

    assert "3 ↑ search → ✎ grade inherited, override" in words
    assert "grade:1 ✎ override - - 0.000 s grade" in words
    assert page.count("<details open") == 1  # what was replaced
    assert "its tasks included" in words
    shared = words_of(step_html(fork["each", 2].tasks["3"][0]))
    assert shared.startswith("Step each:2[3]/search:1 ↑ inherited")
    assert "before the fork point" in shared
    assert "look_up" in shared  # the call of the step that really executed


def test_the_tokens_of_a_step_with_tasks_are_those_of_its_tasks(store):
    with fp.FakeProvider(then=fp.completion("hello")) as site:
        run = Rewind(asking_app(site), store=store).run()
    total = run.usage.total_tokens

    (line,) = [line for line in run_text(run).splitlines() if " each " in line]
    assert line.split()[4:7] == ["live", "3/0", str(total)]
    assert f"each ● live 3 live {total}" in words_of(run_html(run))
    assert f"3 live calls · {total} tokens · its tasks included" in words_of(step_html(run["each"]))


def test_tasks_of_tasks_stand_below_the_task_they_are_in(store):
    run = Rewind(deep_app(), store=store).run()
    lines = [line.split()[1:5] for line in run_text(run).splitlines() if "[" in line]

    assert lines[:2] == [["[0]", "visit", "live", "0/0"], ["visit:1[app-0]", "ask", "->", "check"]]
    for page in (run_html(run), step_html(run["cities"])):
        assert "visit:1[app-0] ● ask → ● check live" in words_of(page)


def test_chunks_and_what_went_unrecorded_are_shown_where_there_are_any(store):
    @streaming_action(reads=[], writes=["said"])
    def say(state: State):
        yield {"word": "one"}, None
        yield {"word": "two"}, None
        yield {"word": ""}, state.update(said="one two")

    run = Rewind(line_of(("say", say)), store=store).run()
    step_said = run["say"]
    assert step_said.stream
    for shown in (run_text(run), words_of(run_html(run))):
        assert f"streamed {len(step_said.stream)} chunks" in shown
    page = words_of(step_html(step_said))
    assert f"Streamed {len(step_said.stream)} chunks" in page
    assert "'two'" in page
    assert "chunk" not in words_of(step_html(Rewind(task_apps.views_app(), store=store).run()[0]))

    step_out = store.run(run.id)["say"]
    step_out.row = dataclasses.replace(step_out.row, uncaptured=("example.org:443",))
    assert "Went out and was not recorded: example.org:443" in words_of(step_html(step_out))


def test_what_a_task_let_out_is_shown_with_its_step(loop):
    _, run = loop
    inner = run.steps[0].tasks["1"][0]
    inner.row = dataclasses.replace(inner.row, uncaptured=("example.org:443",))

    assert "      [1]/search:1 went out and was not recorded: example.org:443" in (
        run_text(run).splitlines()
    )
    words = "Went out of each:1[1]/search:1 and was not recorded: example.org:443"
    assert words in words_of(run_html(run))


def test_the_text_of_a_diff_counts_equal_tasks_and_lists_the_steps_of_others(inside):
    rw, run, fork = inside
    lines = diff_text(rw.diff(run, fork)).splitlines()
    start = lines.index(next(line for line in lines if line.startswith("  ~ 'each' (visit 2)")))

    assert [line.split()[:2] for line in lines[start + 1 : start + 4]] == [
        ["=", "4"], ["=", "[3]/search:1"], ["~", "[3]/grade:1"],
    ]  # fmt: skip
    page = words_of(diff_html(rw.diff(run, fork)))
    assert "4 tasks the same [3]/search:1 0" in page


def test_the_differing_tasks_of_a_step_are_bounded_in_a_diff(store):
    rw = Rewind(each_number_app(range(90)), store=store)
    run = rw.run()
    diff = rw.diff(run, rw.fork(run, "each", state={"ks": list(range(100, 190))}))
    lines = diff_text(diff).splitlines()

    assert sum("/act:1 " in line for line in lines if line.startswith("  ~   [")) == 24
    assert "  ~   66 more tasks that differ" in lines
    page = diff_html(diff)
    assert "<summary>90 tasks that differ</summary>" in page
    assert len(page.encode()) < 200_000


def test_texts_and_pages_with_tasks_are_the_same_each_time(loop):
    rw, run = loop
    fork = rw.fork(run, run["each", 2].tasks["3"][1], output={"grade": 100})

    def all_of_it():
        ours, theirs = rw.store.run(run.id), rw.store.run(fork.id)
        diff = rw.diff(ours, theirs)
        return [
            run_text(ours), run_html(theirs), step_html(theirs["each"]), diff_text(diff),
            diff_html(diff), repr(diff),
        ]  # fmt: skip

    assert all_of_it() == all_of_it()


def test_a_step_of_a_run_itself_is_named_as_it_always_was(loop):
    rw, run = loop
    diff = rw.diff(run, rw.fork(run, "report", output={"report": "none"}))

    assert repr(diff).endswith("first: step 3 'report' report: '20 points' -> 'none' (override)>")
    assert repr(diff.changes[0]).startswith("<Change 'report' report: ")
    assert diff.why("report")[0][0].label == "step 3 'report'"
    assert run["each", 2].label == "step 2 'each' (visit 2)"
    assert (run["each", 2].address, diff.changes[0].address) == ("each:2", "report:1")


def test_a_missing_value_is_told_in_a_task_as_anywhere(loop):
    rw, run = loop
    fork = rw.fork(run, run["each", 2].tasks["3"][0], output={"found": {"word": "alph"}})
    (change,) = [c for c in rw.diff(run, fork).changes if c.path == "found.n"]

    assert (change.kind, change.after, change.lane) == ("removed", MISSING, "each:2[3]/")
