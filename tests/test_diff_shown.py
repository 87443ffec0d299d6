"""How a diff reads: as text, as HTML and as a repr, for every pair of runs one may compare."""

import html
import re
import socket

import apps
import pytest
from burr.core import ApplicationBuilder, State, action
from hypothesis import example, given
from hypothesis import strategies as st
from test_diff_of_runs import two_overrides

from rewind_nb import Rewind, artifact, tool
from rewind_nb._contrast import contrast
from rewind_nb._describe import columns
from rewind_nb._html import diff_html
from rewind_nb._path import MISSING
from rewind_nb._text import diff_text


def report_app():
    @action(reads=["city"], writes=["facts"])
    def search(state: State) -> State:
        return state.update(facts={"city": state["city"], "people": 134_794})

    @action(reads=["facts"], writes=["report"])
    def write(state: State) -> State:
        if state["facts"]["people"] < 0:
            raise ValueError("less than nobody")
        return state.update(report=f"{state['facts']['people']} people")

    @action(reads=["report"], writes=["done"])
    def publish(state: State) -> State:
        artifact("report.md", state["report"])
        if "134794" not in state["report"]:
            artifact("warning.md", "unusual")
        return state.update(done=True)

    return (
        ApplicationBuilder()
        .with_actions(search, write, publish)
        .with_transitions(("search", "write"), ("write", "publish"))
        .with_state(city="Bern")
        .with_entrypoint("search")
        .build()
    )


@pytest.fixture
def runs(store):
    """Runs by name: a parent, its forks, one of these failed, and two strangers."""
    rw = Rewind(report_app(), store=store)
    run = rw.run()
    named = {
        "parent": run,
        "one": rw.fork(run, "search", patch={"facts.people": 140_000}),
        "two": rw.fork(run, "write", output={"report": "134794 at least"}),
        "same": rw.fork(run, "search"),
        "twin": rw.run(),
        "stranger": Rewind(apps.branch_app(450), store=store).run(),
    }
    with pytest.raises(ValueError):
        rw.fork(run, "search", patch={"facts.people": -1})
    return named | {
        "failed": rw.last_run,
        "inner": rw.fork(named["one"], "write", output={"report": "x"}),
    }


@pytest.fixture
def shown(runs):
    """The text and the words of the HTML of the diff of two named runs."""

    def both(before, after):
        diff = Rewind(report_app(), store=runs["parent"].store).diff(runs[before], runs[after])
        return diff_text(diff).splitlines(), words(diff_html(diff)), repr(diff)

    return both


def words(page):
    """What a page says: each element's text, one space between two."""
    inner = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", inner)).split())


def test_a_file_that_only_one_run_made_is_called_added_or_removed(runs, shown):
    made = {a.name: a.sha256 for a in runs["one"].artifacts}
    text, page, _ = shown("parent", "one")
    assert f"  + warning.md: added, {made['warning.md'][:12]}" in text
    assert f"warning.md (missing) {made['warning.md'][:16]} + added" in page
    assert any(line.startswith("  ~ report.md: ") for line in text)

    text, page, _ = shown("one", "parent")
    assert f"  - warning.md: removed, {made['warning.md'][:12]}" in text
    assert f"warning.md {made['warning.md'][:16]} (missing) - removed" in page


def test_a_file_among_the_changes_is_shown_by_the_start_of_its_hash(runs, shown):
    digest = {a.name: a.sha256 for a in runs["one"].artifacts}["warning.md"]
    text, page, _ = shown("parent", "one")
    at = text.index('    @artifacts["warning.md"] (added)')

    assert text[at + 1] == f"      + sha256 {digest[:12]}"
    assert f'@artifacts["warning.md"] (missing) sha256 {digest[:16]} + added' in page


def test_the_override_of_a_fork_needs_no_side(shown):
    text, page, _ = shown("parent", "one")

    assert text[2] == "override: replace facts.people = 140000"
    assert "✎ override replace facts.people = 140000 at 0 'search'" in page


@pytest.mark.parametrize(
    ("before", "after", "given"),
    [
        ("one", "parent", [("before", "0 'search'", "facts.people = 140000")]),
        (
            "one",
            "two",
            [
                ("before", "0 'search'", "facts.people = 140000"),
                ("after", "1 'write'", "report = '134794 at least'"),
            ],
        ),
    ],
)
def test_overrides_of_both_sides_are_named_with_side_and_step(shown, before, after, given):
    text, page, _ = shown(before, after)

    assert text[2 : 2 + len(given)] == [
        f"override {side}, step {step}: replace {what}" for side, step, what in given
    ]
    assert (
        " ".join(f"✎ override {side} replace {what} at {step}" for side, step, what in given)
        in page
    )


def test_both_overrides_of_a_fork_of_a_fork_are_shown(shown):
    text, page, _ = shown("parent", "inner")

    assert text[2:4] == [
        "override after, step 0 'search': replace facts.people = 140000",
        "override after, step 1 'write': replace report = 'x'",
    ]
    assert "✎ override replace report = 'x' at 1 'write'" in page


def test_where_the_ancestor_stands_is_told(runs, shown):
    parent = runs["parent"].id

    assert f"ancestor {parent} (before)" in shown("parent", "one")[1]
    assert f"ancestor {parent} (after)" in shown("one", "parent")[1]
    assert f"ancestor {parent} · 0 steps shared" in shown("one", "two")[1]


def test_strangers_are_said_to_have_no_ancestor_and_their_steps_to_be_of_one_run(runs, shown):
    text, page, line = shown("parent", "stranger")
    ours, theirs = runs["parent"].id, runs["stranger"].id

    assert text[1] == "ancestor: none, recorded independently"
    assert f"first divergence: step 0 'search', only in {ours}" in text
    assert f"  step 0 'judge', only in {theirs}: the runs took different paths" in text
    assert "no common ancestor: recorded independently" in page
    assert f"First difference : step 0 search only in {ours}" in page
    assert "2 publish cause: the runs took different paths - only before" in page
    assert line.endswith(f"first: step 0 'search' only in {ours} (the runs took different paths)>")
    assert not any("@step" in said for said in (*text, page, line))


def test_a_failed_run_is_the_reason_for_the_steps_it_did_not_come_to(runs, shown):
    text, page, _ = shown("parent", "failed")
    parent, failed = runs["parent"].id, runs["failed"].id

    assert f"  step 2 'publish', only in {parent}: run {failed} failed before it" in text
    assert f"2 publish cause: run {failed} failed before it - only before" in page
    assert text[text.index("    @error (added)") + 1] == "      + 'ValueError: less than nobody'"
    assert "    report (none after: the step failed)" in text
    assert "report '134794 people' (missing) ✕ the step failed" in page
    assert not any("@result" in said for said in (*text, page))
    assert "    report (none before: the step failed)" in shown("failed", "parent")[0]


@pytest.mark.parametrize(("before", "after"), [("parent", "same"), ("parent", "twin")])
def test_identical_runs_are_called_identical_at_once(runs, shown, before, after):
    text, page, line = shown(before, after)
    ids = runs[before].id, runs[after].id

    assert text[0] == f"diff {ids[0]} -> {ids[1]}: identical, 3 steps"
    assert page.startswith(f"Diff {ids[0]} → {ids[1]} = identical, 3 steps")
    assert line == f"<Diff {ids[0]} = {ids[1]}: identical, 3 steps>"


def test_a_repr_counts_the_changes_and_tells_the_first_with_its_cause(runs, shown):
    line = shown("parent", "one")[2]

    assert line == (
        f"<Diff {runs['parent'].id} -> {runs['one'].id}: 4 changes in 3 steps, 0 steps shared; "
        "first: step 0 'search' facts.people: 134794 -> 140000 (override)>"
    )


def test_the_chains_from_several_overrides_are_shown_with_the_cause(store):
    diff = two_overrides(store)
    text = diff_text(diff).splitlines()
    at = text.index("  step 2 's3': read 'z' (step 1 's2')")

    assert text[at + 1] == "      chains: z (s2); y (s1) -> z (s2)"
    assert "  step 1 's2': override; read 'y' (step 0 's1')" in text
    assert "chains: z (s2) ; y (s1) → z (s2)" in words(diff_html(diff))
    assert sum("chains:" in line for line in text) == 1  # elsewhere the cause says it all


# -- values side by side --------------------------------------------------------------------


PARTS = st.sampled_from(["word ", "\u6f22\u5b57", "\x1b", "a", "'"])
TEXTS = st.tuples(PARTS, st.integers(0, 90)).map(lambda made: made[0] * made[1])
WHOLES = st.one_of(
    TEXTS,
    st.integers(0, 300).map(lambda n: list(range(n))),
    st.integers(0, 300).map(lambda n: {f"k{i}": i for i in range(n)}),
    st.lists(TEXTS, max_size=4),
)


@st.composite
def different(draw):
    """Two values that differ in one place, anywhere."""
    whole = draw(WHOLES)
    if not whole:
        return whole, [whole]
    at, new = draw(st.integers(0, len(whole) - 1)), draw(st.sampled_from(["x", "\u6f22x", ""]))
    if isinstance(whole, dict):
        return whole, {k: new if n == at else v for n, (k, v) in enumerate(whole.items())}
    part = new if isinstance(whole, str) else [new + "#"]
    return whole, whole[:at] + part + whole[at + 1 :]


@given(different(), st.sampled_from([60, 88]))
@example(("\u6f22" * 50 + "a", "\u6f22" * 50 + "b"), 60)
@example((["\u6f22" * 50, 1], ["\u6f22" * 50, 2]), 60)
def test_different_values_never_read_alike_and_fit_their_line(two, width):
    lines = contrast(*two, width)
    assert (lines[0] == lines[1]) == (two[0] == two[1])
    assert max(map(columns, lines)) <= width


def changed_to(store, before, after):
    """The text of the diff of a run that wrote one value, and its fork that was given another."""

    @action(reads=[], writes=["x"])
    def make(state: State) -> State:
        return state.update(x=before)

    rw = Rewind(
        ApplicationBuilder().with_actions(make).with_entrypoint("make").build(), store=store
    )
    run = rw.run()
    return rw.diff(run, rw.fork(run, "make", output={"x": after}))


def test_a_text_of_wide_characters_shows_where_it_differs(store):
    shown = str(changed_to(store, "\u6f22" * 70 + "a", "\u6f22" * 70 + "b"))

    old, new = [line.strip()[2:] for line in shown.splitlines() if "\u6f22" in line][-2:]
    assert (old[-2:], new[-2:]) == ("a'", "b'")


def test_where_an_item_moved_its_place_before_is_shown_too(store):
    diff = changed_to(store, [10, 20, 30], [5, 10, 15])

    told = [(c.path, c.was_at) for c in diff.changes]
    assert told == [("x[0]", None), ("x[2]", "x[1]"), ("x[2]", None)]
    assert list(diff.df.was_at.fillna("")) == ["", "x[1]", ""]
    assert "    x[2] (before at x[1])" in diff_text(diff).splitlines()
    assert "x[2] (before at x[1])" in words(diff_html(diff))
    assert "x[2] (before at x[1]): 20 -> 15" in repr(diff.changes[1])


def test_what_a_replay_does_that_was_not_recorded_is_missing_in_the_recording(store):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        more = []

        @tool
        def look(word: str) -> str:
            return word

        @action(reads=[], writes=["x"])
        def reach(state: State) -> State:
            if "connect" in more:
                socket.create_connection(("127.0.0.1", port)).close()
            if "call" in more:
                look("two")
            if "none" not in more:
                look("one")
            return state.update(x=1)

        app = ApplicationBuilder().with_actions(reach).with_entrypoint("reach").build()
        rw = Rewind(app, store=store)
        run = rw.run()
        found = {}
        for what in ("connect", "call", "none"):
            more[:] = [what]
            found[what] = rw.replay(run).divergence

    connect, call, none = found.values()
    assert (connect.path, connect.before) == ("@connection", MISSING)
    assert "127.0.0.1" in connect.after
    assert f"@connection: <missing> -> {connect.after!r}" in str(connect)
    assert (call.path, call.before, call.after) == ("@calls[0].request.args.word", "one", "two")
    assert (none.path, none.before[-4:], none.after) == ("@calls[0]", "look", MISSING)
    assert all("None" not in str(one) for one in found.values())
