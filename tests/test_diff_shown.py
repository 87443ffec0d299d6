"""How a diff reads: as text, as HTML and as a repr, for every pair of runs one may compare."""

import html
import re

import apps
import pytest
from burr.core import ApplicationBuilder, State, action
from test_diff_of_runs import two_overrides

from rewind_nb import Rewind, artifact
from rewind_nb._html import diff_html
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
