"""Two runs are called identical exactly where a diff of them lists nothing, and differ in nothing."""

import os
from dataclasses import dataclass, replace

import apps
import fake_provider as fp
import hypothesis
import pytest
from burr.core import ApplicationBuilder, Condition, State, action, default
from burr.core.action import streaming_action
from hypothesis import strategies as st
from isolation_oracle import Oracle, TooLong
from pipelines import application, made, pipelines
from test_diff_of_runs import chain_app, step

from rewind_nb import ChatModel, Rewind, Store, _codec, artifact, tool
from rewind_nb._compare import compare
from rewind_nb._path import MISSING
from rewind_nb.errors import ConfigError, NotFoundError, RewindError, StepFailure, StepLimitError

EXAMPLES = int(os.environ.get("IDENTICAL_EXAMPLES", "60"))
FAST = hypothesis.settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)


def seen(run):
    """All that a user can see of what a run was given, did and came to; key order included."""
    files = [(made.name, made.sha256) for made in run.artifacts]
    ended = (run.status, run.next_action, list(run.state.items()))
    return _codec.encode([[*map(seen_of, run.walk())], sorted(files), ended, entering(run)])


def seen_of(step):
    error = step.error and (step.error.type, step.error.message, step.error.raw)
    did = [list(step.writes.items()), step.deleted, step.result, error, step.status, step.stream]
    return [step.address, sorted(step.inputs.items()), did]


def entering(run):
    return [list(run.state_at(step).items()) for step in run.steps]


def assert_told(a, b):
    """A diff lists something exactly where there is something to see."""
    for one, other in ((a, b), (b, a)):
        diff = compare(one, other)
        same = seen(one) == seen(other)
        assert diff.identical == same, diff.changes or "nothing is listed"
        assert (diff.divergence is None) == same
        assert (len(diff.df) == 0) == same
        assert ("identical" in repr(diff)) == same
        for change in diff.changes:
            assert diff.why(change.path)
            assert str(diff)
            assert repr(change)


# -- over runs that differ in one thing ---------------------------------------------------


@dataclass(frozen=True)
class Script:
    """What a run is given and does."""

    state: tuple = ()
    by: int = 1
    chunks: tuple | None = ()
    writes: tuple = (("a", 1), ("b", 1))
    result: tuple = ()
    delete: tuple = ()
    file: str | None = None
    fails: tuple | None = None
    way: str = "second"
    halt: str | None = None
    set_between: tuple = ()


CHOICES = {
    "state": [(), (("k", 1),), (("k", 2),), (("k", 1), ("j", 1)), (("j", 1), ("k", 1))],
    "by": [1, 2],
    "chunks": [(), (1,), (1, 2), (2, 1), (1.0,), None],
    "writes": [(("a", 1), ("b", 1)), (("b", 1), ("a", 1)), (("a", 2), ("b", 1)), ()],
    "result": [(), (("a", 1),), (("z", 1), ("y", 1)), (("y", 1), ("z", 1))],
    "delete": [(), ("k",), ("nothing",)],
    "file": [None, "one", "two"],
    "fails": [None, ("no", "raw one"), ("no", "raw two"), ("other", None)],
    "way": ["second", "third", "raises", "none"],
    "halt": [None, "first", "second"],
    "set_between": [(), (("k", 1),), (("a", 1),), (("a", 3),)],
}
SCRIPTS = st.builds(Script, **{name: st.sampled_from([c[0], *c]) for name, c in CHOICES.items()})
EDITS = st.sampled_from([(name, value) for name, values in CHOICES.items() for value in values])


def scripted(script, store):
    """A run of that script."""

    def carry_out(state):
        if script.file:
            artifact("page.md", script.file)
        if script.fails:
            raise StepFailure("first", script.fails[0], raw=script.fails[1])
        after = state.update(**dict(script.writes)).wipe(delete=list(script.delete))
        return dict(script.result), after

    @streaming_action(reads=[], writes=[])
    def streamed(state: State, by: int):
        for chunk in script.chunks or ():
            yield {"n": chunk}, None
        yield carry_out(state)

    @action(reads=[], writes=[])
    def plain(state: State, by: int) -> tuple[dict, State]:
        return carry_out(state)

    @action(reads=["k"], writes=["done"])
    def second(state: State) -> State:
        return state.update(done=True)

    def decide(state: State) -> bool:
        if script.way == "raises":
            raise ValueError("no way")
        return script.way == "second"

    to_third = [("first", "third", default)] if script.way in ("second", "third") else []
    app = (
        ApplicationBuilder()
        .with_actions(first=plain if script.chunks is None else streamed, second=second)
        .with_actions(third=second)
        .with_transitions(("first", "second", Condition([], decide)), *to_third)
        .with_state(**dict(script.state))
        .with_entrypoint("first")
        .build()
    )
    rw = Rewind(app, store=store)
    try:
        rw.run(inputs={"by": script.by}, halt_after=[script.halt] if script.halt else None)
        if script.set_between and script.halt == "first":
            return between(rw, script)
    except (StepFailure, ValueError):
        pass
    return rw.last_run


def between(rw, script):
    """A run whose user changes the state by hand before its second step."""
    app = rw.application()
    app.step(inputs={"by": script.by})
    app.update_state(app.state.update(**dict(script.set_between)))
    app.step()
    return rw.store.run(app.uid)


@FAST
@hypothesis.given(SCRIPTS, st.lists(EDITS, max_size=2))
@hypothesis.example(Script(chunks=(1, 2)), [("chunks", (2, 1))])
@hypothesis.example(Script(), [("writes", (("b", 1), ("a", 1)))])
@hypothesis.example(Script(halt="first"), [("way", "third")])
@hypothesis.example(Script(halt="first", set_between=(("a", 1),)), [("set_between", (("k", 1),))])
@hypothesis.example(Script(way="none"), [("way", "raises")])
@hypothesis.example(Script(fails=("no", "raw one")), [("fails", ("no", "raw two"))])
@hypothesis.example(Script(state=(("k", 1), ("j", 1))), [("state", (("j", 1), ("k", 1)))])
def test_a_diff_lists_something_exactly_where_two_runs_differ(script, edits):
    with Store(":memory:") as store:
        assert_told(scripted(script, store), scripted(replace(script, **dict(edits)), store))


@FAST
@hypothesis.given(
    pipelines(), st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=2, max_size=2)
)
def test_a_diff_lists_something_exactly_where_forks_of_generated_pipelines_differ(pipeline, picks):
    try:  # some of them never end
        hypothesis.assume(Oracle(pipeline, 12).run().names)
    except TooLong:
        hypothesis.reject()
    with Store(":memory:") as store:
        rw = Rewind(application(pipeline), store=store)
        run = rw.run(**pipeline.run_arguments())
        forks = [run, *(fork_of(rw, run, *pick) for pick in picks)]
        forks = [fork for fork in forks if fork is not None]
        for one, other in zip(forks, forks[1:], strict=False):
            assert_told(one, other)


def fork_of(rw, run, at, pick, value):
    """A fork with an override of what a step wrote or read."""
    at %= len(run)
    kind, values = ("output", run[at].writes) if pick % 2 else ("state", run[at].reads)
    key = sorted(values)[pick % len(values)] if values else None
    change = {kind: {key: made(key, value)}} if values else {}
    try:
        return rw.fork(run, at, max_steps=40, **change)
    except StepLimitError:
        return None


# -- what is listed, one by one -------------------------------------------------------------


def pair_of(store, script, **changes):
    return compare(scripted(script, store), scripted(replace(script, **changes), store))


def told(diff):
    return [(c.path, c.before, c.after, c.kind) for c in diff.changes]


def test_runs_whose_chunks_alone_differ_are_not_identical_and_each_chunk_is_told(store):
    diff = pair_of(store, Script(chunks=("a", "b", "c")), chunks=("a", "x", "c"))

    assert not diff.identical
    assert told(diff) == [("@stream[1]", {"n": "b"}, {"n": "x"}, "changed")]
    assert diff.divergence.path == "@stream[1]"
    assert [[link.path for link in chain] for chain in diff.why("@stream")] == [["@stream"]]
    assert "@stream[1]" in str(diff)
    diff = pair_of(store, Script(chunks=("b", "c")), chunks=("a", "b", "c"))
    assert told(diff) == [("@stream[0]", MISSING, {"n": "a"}, "added")]
    diff = pair_of(store, Script(chunks=("b",)), chunks=None)
    assert told(diff) == [("@stream", [{"n": "b"}], MISSING, "removed")]


@pytest.mark.parametrize(
    ("script", "changes", "change"),
    [
        (Script(), {"by": 2}, ("@inputs.by", 1, 2, "changed")),
        (
            Script(),
            {"writes": (("b", 1), ("a", 1))},
            ("@writes", ["a", "b"], ["b", "a"], "order"),
        ),
        (
            Script(state=(("k", 1), ("j", 1))),
            {"state": (("j", 1), ("k", 1))},
            ("@state", ["k", "j"], ["j", "k"], "order"),
        ),
        (
            Script(fails=("no", "one")),
            {"fails": ("no", "two")},
            ("@error.raw", "one", "two", "changed"),
        ),
        (Script(halt="first"), {"way": "third"}, ("@next", "second", "third", "changed")),
        (Script(way="none"), {"way": "raises"}, ("@outcome", "complete", "failed", "changed")),
        (Script(), {"delete": ("nothing",)}, ("@deleted", MISSING, ["nothing"], "added")),
    ],
)
def test_what_no_hash_of_a_value_tells_is_listed_all_the_same(store, script, changes, change):
    diff = pair_of(store, script, **changes)

    (path, before, after, kind) = change
    found = next(c for c in diff.changes if c.path == path)
    if path == "@deleted":
        after = {"delete": after}
    assert (found.before, found.after, found.kind) == (before, after, kind)
    assert not diff.identical
    assert diff.why(path)


def test_runs_that_have_not_begun_differ_in_the_state_they_were_given(store):
    def opened(n):
        count = step("count", lambda s: {"n": s["n"]}, ["n"], ["n"])
        return store.run(Rewind(chain_app(count, n=n), store=store).application().uid)

    diff = compare(opened(1), opened(2))

    assert (opened(1).steps, diff.identical) == ((), False)
    assert told(diff) == [("n", 1, 2, "changed")]
    assert [[link.path for link in chain] for chain in diff.why("n")] == [["n"]]
    assert "another initial state" in str(diff)
    assert compare(opened(1), opened(1)).identical


def test_where_the_conditions_sent_a_halted_run_is_told_with_what_they_read(store):
    rw = Rewind(apps.branch_app(450), store=store)
    run = rw.run(halt_after=["judge"])
    diff = rw.diff(run, rw.fork(run, "judge", output={"verdict": "dear"}))

    assert [(c.path, c.before, c.after) for c in diff.changes] == [
        ("verdict", "cheap", "dear"),
        ("@next", "book", "refuse"),
    ]
    assert "whose conditions read 'verdict'" in diff.changes[1].cause
    assert [[link.path for link in chain] for chain in diff.why("@next")] == [["verdict", "@next"]]


# -- where an answer came from --------------------------------------------------------------


SERIAL = iter(range(1_000_000))


@tool
def draw() -> int:
    return next(SERIAL)


def test_an_answer_that_was_played_back_from_another_run_is_named_with_that_run(store):
    rw = Rewind(chain_app(step("ask", lambda _: {"n": draw()}, [], ["n"])), store=store)
    first, second = rw.run(), rw.run(cache="refresh")
    third = rw.run()
    assert third["ask"].calls[0].replayed_from.startswith(second.id)

    (change,) = rw.diff(first, third).changes
    assert change.cause == f"the answer of call 0 was played back from run {second.id}"
    assert change.cause in str(rw.diff(first, third))
    assert [c.cause for c in rw.diff(third, first).changes] == ["asked anew: another answer"]
    assert rw.diff(second, third).identical


def test_a_model_that_another_run_asked_is_named_beside_the_other_causes(store):
    with fp.FakeProvider(then=lambda _: fp.completion(str(next(SERIAL)))) as provider:
        chat = ChatModel(provider.base_url, "toy")

        def ask(state):
            return {"said": [chat.chat("one").text, chat.chat("two").text], "n": state["n"]}

        def app(n):
            return chain_app(step("ask", ask, ["n"], ["said", "n"]), n=n)

        first = Rewind(app(1), store=store).run()
        second = Rewind(app(1), store=store).run(cache="refresh")
        third = Rewind(app(2), store=store).run()

    causes = {c.cause for c in compare(first, third).changes if c.path != "n"}
    assert causes == {f"read 'n'; the answers of calls 0, 1 were played back from run {second.id}"}


def test_an_answer_that_a_fork_kept_of_its_parent_is_said_to_be_the_parents(store):
    ask = step("ask", lambda _: {"n": draw()}, [], ["n"])
    other = step("other", lambda s: {"m": s["n"]}, ["n"], ["m"])
    rw = Rewind(chain_app(ask, other), store=store)
    run = rw.run()
    fresh = rw.fork(run, "ask", cache="refresh")
    kept = rw.fork(run, "other", output={"m": -1})

    assert rw.diff(fresh, kept).changes[0].cause == (
        f"the answer of call 0 was taken over from run {run.id}"
    )


# -- asking for the cause of what did not change --------------------------------------------


def test_why_says_of_an_unchanged_path_that_it_is_the_same_and_of_another_that_there_is_none(store):
    make = step("make", lambda s: {"report": {"total": s["n"], "unit": "m"}}, ["n"], ["report"])
    copy = step("copy", lambda s: {"page": s["report"]["unit"]}, ["report"], ["page"])
    rw = Rewind(chain_app(make, copy, n=1, still=(1, 2)), store=store)
    run = rw.run()
    diff = rw.diff(run, rw.fork(run, "make", patch={"report.total": 5}))

    def said(path, at=None):
        with pytest.raises(NotFoundError) as error:
            diff.why(path, at=at)
        assert isinstance(error.value, RewindError)
        assert (error.value.path, error.value.at) == (path, at)
        return str(error.value)

    same = "is the same in both runs, so it has no cause. What changed: 'report.total'."
    for path in ("report.unit", "page", "still", "still[1]", "n", "@step"):
        assert said(path) == f"{path!r} {same}"
    assert said("report.totl") == (
        "Neither run has 'report.totl', so nothing changed there. Did you mean 'report.total'?"
    )
    assert said("").startswith("Neither run has '', so nothing changed there.")
    assert said("report.total", "copy:1") == (
        "Neither run has 'report.total' of copy:1, so nothing changed there. Nothing else did."
    )
    assert said("page", "copy:1").startswith("'page' of copy:1 is the same in both runs")
    assert said("page", "cpy:1") == "Neither run has a step 'cpy:1'. Did you mean 'copy:1'?"
    with pytest.raises(ConfigError, match="is not a path"):
        diff.why("report..total")
    assert [[link.path for link in chain] for chain in diff.why("report")] == [["report"]]
