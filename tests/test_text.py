"""Runs, diffs and trees as terminal text."""

import re
from types import SimpleNamespace

import pytest
from burr.core import ApplicationBuilder, action
from hypothesis import given
from hypothesis import strategies as st
from toy_runs import RECORDERS

from rewind_nb import Rewind, Secret, Store
from rewind_nb._diff import MISSING
from rewind_nb._text import (
    brief,
    clip,
    columns,
    diff_text,
    forest,
    run_text,
    tree_text,
    visible,
)
from rewind_nb._words import shared_start

any_text = st.text(st.characters(exclude_categories=()), max_size=80)
HOSTILE = "\x1b[2J\x1b]0;title\x07\r\n\u202egnp.exe\u2066\u200b\x00\udcff \u65e5\u672c" * 20
LABEL = HOSTILE.replace("\udcff", "")


def hostile_app():
    @action(reads=[HOSTILE], writes=["x", HOSTILE])
    def first(state):
        return state.update(x=state[HOSTILE] * 2, **{HOSTILE: HOSTILE})

    @action(reads=["x"], writes=["y"])
    def second(state):
        raise ValueError(HOSTILE)

    return (
        ApplicationBuilder()
        .with_actions(**{"\x1b[31mfirst\u202e": first, "second": second})
        .with_transitions(("\x1b[31mfirst\u202e", "second"))
        .with_state(**{HOSTILE: "start"})
        .with_entrypoint("\x1b[31mfirst\u202e")
        .build()
    )


@pytest.fixture
def hostile(store):
    """(Rewind, failed run, its fork) with everything in them hostile."""
    rw = Rewind(hostile_app(), store=store)
    with pytest.raises(ValueError):
        rw.run(halt_after=["second"], label=LABEL)
    run = rw.last_run
    with pytest.raises(ValueError):
        rw.fork(run, at=0, output={"x": HOSTILE}, label=LABEL)
    return rw, run, rw.last_run


def without_ids_and_times(text):
    return re.sub(r"r_[0-9a-f]{12}|\d+\.\d{3} s", "#", text)


# -- what may be shown --------------------------------------------------------------------


@given(any_text)
def test_visible_text_holds_nothing_that_cannot_be_seen(text):
    assert visible(text).isprintable()
    assert visible(visible(text)) == visible(text)


@given(st.text(st.characters(categories=["L", "N", "P", "S"]), max_size=40))
def test_text_that_can_be_seen_stays_as_it_is(text):
    assert visible(text) == text


@given(any_text, st.integers(3, 90))
def test_clipped_text_fits_and_says_that_it_was_cut(text, width):
    shown = clip(visible(text), width)

    assert columns(shown) <= width
    assert shown == visible(text) or shown.endswith("...")


@given(st.text(alphabet="ab", max_size=30), st.text(alphabet="ab", max_size=30))
def test_the_shared_start_is_the_longest_there_is(before, after):
    n = shared_start(before, after)

    assert before[:n] == after[:n]
    assert before[n : n + 1] != after[n : n + 1] or n == min(len(before), len(after))


def test_a_value_whose_repr_raises_is_named_by_its_type():
    class Broken:
        def __repr__(self):
            raise RuntimeError("no")

    assert brief(Broken()) == "<Broken: its repr raised RuntimeError>"


def test_a_value_is_redacted_before_it_is_cut():
    key = Secret("sk-1234567890-abcdefghij").reveal()

    for value in (key, [key], {"a": key}, "x" * 45 + key):
        for width in (12, 20, 60):
            assert "sk-1" not in brief(value, width)


def test_a_missing_value_is_named_so():
    assert brief(MISSING) == "(missing)"


@pytest.mark.parametrize(
    "value", ["x" * 9_000, list(range(9_000)), dict.fromkeys(range(9_000)), b"x" * 9_000]
)
def test_a_long_value_is_cut(value):
    assert len(brief(value)) == 60
    assert brief(value).endswith("...")


# -- every text -----------------------------------------------------------------------------


def test_no_line_is_wider_than_a_hundred_columns_or_commands_the_terminal(hostile):
    rw, run, fork = hostile
    texts = [
        run_text(run),
        run_text(fork),
        diff_text(rw.diff(run, fork)),
        tree_text(rw.store.runs()),
    ]

    for text in texts:
        for line in text.split("\n"):
            assert columns(line) <= 100
            assert line.isprintable()


def test_no_line_about_a_task_is_wider_or_commands_the_terminal(store):
    import task_apps

    words = [HOSTILE.replace("\udcff", f" {n}") for n in range(3)]
    app = task_apps.views_app()
    rw = Rewind(app, store=store)
    run = rw.run(state={"cities": [*words, "Bern"], "text": HOSTILE})
    fork = rw.fork(run, "cities", state={"cities": [*words[:2], "Rome"]})
    diff = rw.diff(run, fork)

    for text in (run_text(run), run_text(fork), diff_text(diff), repr(diff)):
        for line in text.split("\n"):
            assert line.isprintable()
            assert columns(line) <= 100 or text == repr(diff)
    assert all(repr(change).isprintable() for change in diff.changes)


def test_text_is_the_same_for_equal_runs_but_for_ids_and_times():
    texts = []
    for _ in range(2):
        with Store(":memory:") as store:
            rw, run = RECORDERS["loop"](store)
            fork = rw.fork(run, at=1, output={"n": 9})
            text = [run_text(fork), diff_text(rw.diff(run, fork)), tree_text(store.runs())]
            texts.append(without_ids_and_times("\n".join(text)))

    assert texts[0] == texts[1]


def test_a_secret_that_was_registered_later_is_not_shown(store):
    @action(reads=[], writes=["x"])
    def write(state):
        return state.update(x="key sk-late-9876543210")

    app = ApplicationBuilder().with_actions(write).with_entrypoint("write").build()
    rw = Rewind(app, store=store)
    run = rw.run(halt_after=["write"], label="sk-late-9876543210")
    fork = rw.fork(run, at="write", output={"x": "other"})
    Secret("sk-late-9876543210")

    for text in (run_text(run), diff_text(rw.diff(run, fork)), tree_text([run])):
        assert "9876543210" not in text


# -- a run ----------------------------------------------------------------------------------


def test_a_run_shows_each_step_with_action_visit_source_calls_and_hash(recorded):
    _, run = recorded
    lines = run_text(run).splitlines()

    for step in run.steps:
        (line,) = [line for line in lines if step.hash[:12] in line and f" {step.seq} " in line]
        cells = line.split()
        assert cells[1:5] == [str(step.seq), step.action, str(step.visit), step.source]
        assert cells[5] == f"{step.live_calls}/{step.played_calls}"
        assert f"{step.duration_s:.3f} s" in line


def test_a_fork_shows_its_origin_its_start_and_what_it_did_not_pay_for(store):
    rw, run = RECORDERS["loop"](store)
    fork = rw.fork(run, at=1, output={"n": 9})
    lines = run_text(fork).splitlines()

    assert lines[1].strip() == f"fork of {run.id} at 1 'count': replace n = 9"
    marks = [line[2] for line in lines[3:] if line[2] != " "]
    assert marks == [".", ">", *["*"] * (len(fork) - 2)]
    assert lines[3].split()[5:7] == ["-", "-"]


def test_a_failed_run_shows_the_error_below_its_step(store):
    @action(reads=[], writes=["x"])
    def fail(state):
        raise LookupError("no such thing")

    app = ApplicationBuilder().with_actions(fail).with_entrypoint("fail").build()
    rw = Rewind(app, store=store)
    with pytest.raises(LookupError):
        rw.run(halt_after=["fail"])
    lines = run_text(rw.last_run).splitlines()

    assert lines[2].startswith("  x   0 fail")
    assert lines[3].strip() == "LookupError: no such thing"


def test_a_halted_run_shows_what_comes_next(store):
    import apps

    run = Rewind(apps.human_app(), store=store).run(halt_before=["hear"], inputs={"topic": "x"})

    assert "next: hear" in run_text(run)


# -- a tree ---------------------------------------------------------------------------------


def test_each_fork_stands_under_its_parent_with_step_and_override_in_one_line(store):
    rw, run = RECORDERS["loop"](store)
    fork = rw.fork(run, at=1, output={"n": 9})
    inner = rw.fork(fork, at="report")
    replay = rw.replay(run).run
    lines = tree_text(store.runs()).splitlines()

    assert [line.split(run.id[:2])[0] for line in lines] == ["", "├─ ", "│  └─ ", "└─ "]
    assert lines[0].startswith(run.id)
    assert lines[1].endswith(f"{fork.id} fork of {run.id} at 1 'count': replace n = 9")
    assert lines[2].endswith(f"{inner.id} fork of {fork.id} at 2 'report': unchanged")
    assert f"{replay.id} replay of {run.id}" in lines[3]


def test_a_long_override_keeps_its_start_and_its_value(store):
    rw, run = RECORDERS["loop"](store)
    rw.fork(run, at="report", output={"report": {f"a long name {i}": i for i in range(9)}})
    rw.fork(run, at="count", state={"log": ["x" * 90]})
    lines = tree_text(store.runs()).splitlines()

    assert all(f"fork of {run.id} at" in line and "..." in line for line in lines[1:])
    assert all(columns(line) <= 100 for line in lines)


def test_a_fork_whose_parent_is_not_listed_stands_at_the_root(store):
    rw, run = RECORDERS["loop"](store)
    fork = rw.fork(run, at=1)

    assert tree_text([fork]).startswith(fork.id)
    assert run.id in tree_text([fork])


def test_a_tree_of_nothing_says_so():
    assert tree_text([]) == "no runs"


def test_a_chain_of_two_thousand_forks_is_drawn():
    origins = [None, *(SimpleNamespace(parent=f"r{i}") for i in range(1_999))]
    runs = [SimpleNamespace(id=f"r{i}", origin=origin) for i, origin in enumerate(origins)]
    drawn = list(forest(runs))

    assert [run.id for _, run in drawn] == [run.id for run in runs]
    assert drawn[2][0] == "   └─ "


# -- a diff ---------------------------------------------------------------------------------


@pytest.fixture
def changed(store):
    """(run, fork, text of their diff)."""
    rw, run = RECORDERS["branch"](store)
    fork = rw.fork(run, at="judge", output={"verdict": "dear"})
    return run, fork, diff_text(rw.diff(run, fork))


def test_a_diff_prints_ancestor_override_and_shared_prefix(changed):
    run, fork, text = changed
    lines = text.splitlines()

    assert lines[:4] == [
        f"diff {run.id} -> {fork.id}",
        f"ancestor: {run.id}",
        "override: replace verdict = 'dear'",
        "shared prefix: 0 steps",
    ]


def test_a_diff_prints_each_aligned_step_with_its_sources(changed):
    _, _, text = changed
    steps = re.search(r"steps:.*?\n(.*?)first divergence", text, re.DOTALL)[1].splitlines()

    assert [line.split() for line in steps] == [
        ["~", "'judge'", "0", "live", "0", "override"],
        ["-", "'book'", "1", "live", "-"],
        ["+", "'refuse'", "-", "1", "live"],
        ["~", "'summarise'", "2", "live", "2", "live"],
    ]


def test_a_diff_prints_the_first_divergence_with_field_and_values(changed):
    _, _, text = changed

    assert (
        "first divergence: step 0 'judge', verdict\n  cause: override\n  - 'cheap'\n  + 'dear'\n"
    ) in text


def test_a_diff_prints_how_both_runs_ended(changed):
    _, _, text = changed

    assert "outcome: complete -> complete; the final state differs in verdict, booking" in text


def test_a_diff_prints_artifacts_with_their_hash_before_and_after(store):
    from rewind_nb import artifact

    @action(reads=["name"], writes=[])
    def publish(state):
        artifact("page.md", state["name"].encode())
        return state

    @action(reads=[], writes=["name"])
    def name(state):
        return state.update(name="a")

    app = (
        ApplicationBuilder()
        .with_actions(name, publish)
        .with_transitions(("name", "publish"))
        .with_entrypoint("name")
        .build()
    )
    rw = Rewind(app, store=store)
    run = rw.run(halt_after=["publish"])
    fork = rw.fork(run, at="name", output={"name": "b"})
    before, after = run.artifacts[0].sha256[:12], fork.artifacts[0].sha256[:12]

    assert f"artifacts:\n  ~ page.md: {before} -> {after}" in diff_text(rw.diff(run, fork))


def test_a_diff_of_equal_runs_says_that_nothing_differs(store):
    rw, run = RECORDERS["loop"](store)
    text = diff_text(rw.diff(run, rw.fork(run, at=1)))

    assert "first divergence: none" in text
    assert "changes: 0" in text
    assert "the final state is equal" in text


def test_long_texts_are_shown_from_shortly_before_they_differ(store):
    rw, run = RECORDERS["branch"](store)
    same = "the same words again and again. " * 400
    one = rw.fork(run, at="judge", output={"verdict": f"{same}one end"})
    two = rw.fork(run, at="judge", output={"verdict": f"{same}two ends"})
    text = diff_text(rw.diff(one, two))

    assert "- ...'ds again and again. one end'" in text
    assert "+ ...'ds again and again. two ends'" in text


def test_a_long_shared_prefix_is_counted_and_not_listed(store):
    import apps

    rw = Rewind(apps.loop_app(limit=40), store=store)
    run = rw.run(halt_after=["report"])
    text = diff_text(rw.diff(run, rw.fork(run, at="report", output={"report": 1})))

    assert "  = the first 28 of 40 shared steps, not listed" in text
    assert len(text.splitlines()) < 35


def test_many_changes_are_counted_and_the_rest_is_named(store):
    rw, run = RECORDERS["branch"](store)
    few = rw.fork(run, at="judge", output={"verdict": {f"k{i}": i for i in range(90)}})
    many = rw.fork(run, at="judge", output={"verdict": {f"k{i}": -i - 1 for i in range(90)}})
    diff = rw.diff(few, many)
    lines = diff_text(diff).splitlines()

    assert f"  {len(diff.changes) - 40} more; diff.changes has them all" in lines
    assert sum("verdict.k" in line and not line.startswith("first") for line in lines) == 40
