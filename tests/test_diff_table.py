"""The table of a diff, without a browser: what is drawn, what it answers, what it holds back."""

import gc
import json
import time
import weakref

import ipywidgets
import pytest
from burr.core import ApplicationBuilder, State, action

from rewind_nb import Rewind, artifact
from rewind_nb._contrast import contrast
from rewind_nb._describe import displayed
from rewind_nb._secrets import register_secret
from rewind_nb._words import shared_ends
from rewind_nb.widgets import DiffTable, RunGraph
from rewind_nb.widgets._files import MAX_IMAGE
from rewind_nb.widgets._pieces import COMPARED, kind_of, pieces, value_pieces

XSS = "<img src=x onerror=alert(1)></script>\u202e\u2028\x1b[31m"
PNG = b"\x89PNG\r\n\x1a\n"
LONG = 20_000_000  # characters


def city_app():
    @action(reads=["city"], writes=["facts"])
    def search(state: State) -> State:
        return state.update(facts={"city": state["city"], "people": 134_794, "rows": [1, 2, 3]})

    @action(reads=["facts"], writes=["report"])
    def write(state: State) -> State:
        people = state["facts"]["people"]
        return state.update(report=f"The old city of Bern has {people} people in all, they say.")

    @action(reads=["facts", "report"], writes=["done"])
    def publish(state: State) -> State:
        artifact("report.md", state["report"])
        artifact("plot.png", PNG + state["report"].encode())
        artifact("data.bin", b"\0" + state["report"].encode())
        artifact("same.txt", "the same")
        return state.update(done=state["facts"]["people"])

    return (
        ApplicationBuilder()
        .with_actions(search, write, publish)
        .with_transitions(("search", "write"), ("write", "publish"))
        .with_state(city="Bern")
        .with_entrypoint("search")
        .build()
    )


def value_app(value):
    """One step, whose output a fork replaces."""

    @action(reads=[], writes=["value"])
    def make(state: State) -> State:
        return state.update(value=value)

    return ApplicationBuilder().with_actions(make).with_entrypoint("make").build()


def diff_of(store, before, after):
    rw = Rewind(value_app(before), store=store)
    run = rw.run(halt_after=["make"])
    return rw.diff(run, rw.fork(run, "make", output={"value": after}))


@pytest.fixture
def diff(store):
    rw = Rewind(city_app(), store=store)
    run = rw.run()
    return rw.diff(run, rw.fork(run, "search", patch={"facts.people": 140_000}))


@pytest.fixture
def table(diff):
    made = diff.view()
    yield made
    made.close()


def ask(table, kind, **args):
    return table.answer({"ask": kind, "args": args})


def row_of(table, path):
    return [row[1] for row in table._drawn["rows"]].index(path)


def joined(found, *kinds):
    return "".join(text for kind, text in found if kind in kinds)


# -- what is drawn ------------------------------------------------------------------------


def test_a_row_stands_for_each_change_with_its_values_kind_and_cause(table, diff):
    drawn = table._drawn
    assert len(drawn["rows"]) == len(diff.changes) > 4
    for row, change in zip(drawn["rows"], diff.changes, strict=True):
        step, path, more, before, after, kind, cause = row
        assert drawn["steps"][step] == (change.address, change.label)
        assert (path + more, drawn["causes"][cause]) == (change.where, change.cause)
        assert drawn["kinds"][kind][0] == change.kind
        if "artifacts" not in path:
            assert (before, after) == contrast(change.before, change.after, 120)


def test_a_step_that_one_run_took_has_no_value_on_the_other_side(store):
    before = Rewind(city_app(), store=store).run(halt_after=["write"])
    rw = Rewind(city_app(), store=store)
    table = rw.diff(before, rw.run()).view()
    row = next(r for r in table._drawn["rows"] if r[1] == "@step")
    assert row[3] is None
    assert table._drawn["kinds"][row[5]] == ("only after", "+", "good")


def test_identical_runs_are_said_to_be_identical(store):
    rw = Rewind(city_app(), store=store)
    run = rw.run()
    table = rw.diff(run, rw.fork(run, "write")).view()
    assert table._drawn["told"] == "identical: 3 steps, 0 changes"
    assert repr(table) == "<DiffTable, identical: 3 steps, 0 changes>"
    assert table._drawn["rows"] == []


def test_ten_thousand_changes_are_sent_in_less_than_three_megabytes(store):
    old = {f"key {i}": "before " * 20 + str(i) for i in range(10_000)}
    diff = diff_of(store, old, {key: f"after {value}" for key, value in old.items()})
    assert len(diff.changes) == 10_000
    start = time.process_time()
    table = diff.view()
    assert time.process_time() - start < 5
    assert len(table._drawn["rows"]) == 10_000
    assert len(json.dumps(table._drawn)) < 3_000_000


def test_what_is_drawn_is_plain_json(table):
    assert json.loads(json.dumps(table._drawn))["told"] == table._drawn["told"]


def test_the_repr_is_short_and_the_same_for_equal_diffs(diff):
    one, other = diff.view(), diff.view()
    assert repr(one) == repr(other) == f"<DiffTable, {len(diff.changes)} changes in 3 steps>"
    assert repr(DiffTable()) == "<DiffTable, no diff yet>"


# -- what it answers ----------------------------------------------------------------------


def test_an_opened_row_tells_both_values_word_by_word(table):
    found = ask(table, "row", row=row_of(table, "report"))["answer"]
    assert found["prose"]
    assert found["kinds"] == ["str, 56 characters", "str, 56 characters"]
    assert ["removed", "134794"] in found["pieces"]
    assert ["added", "140000"] in found["pieces"]


@pytest.mark.parametrize("path", ["report", "done"])
def test_why_leads_link_by_link_from_the_override_to_the_field(table, diff, path):
    found = ask(table, "why", row=row_of(table, path))["answer"]
    chains = [[(link[0], link[2]) for link in chain] for chain in found["chains"]]
    assert chains == [[(link.address, link.path) for link in chain] for chain in diff.why(path)]
    assert chains[0][0][0] == table._drawn["overrides"][0][2] == "search:1"
    assert found["more"] == 0


def test_every_change_says_why(table):
    for row in range(len(table._drawn["rows"])):
        assert "answer" in ask(table, "why", row=row)
        assert "answer" in ask(table, "row", row=row)


def test_a_row_that_is_not_there_is_an_error_in_words(table):
    count = len(table._drawn["rows"])
    words = f"There is no change 99: the diff has {count}."
    assert ask(table, "row", row=-1)["error"].startswith("There is no change -1")
    assert ask(table, "row", row=99) == ask(table, "why", row=99) == {"error": words}
    assert ask(table, "file", file=-1)["error"] == "There is no artifact -1: the diff has 4."
    assert "is not asked 'rows'" in ask(table, "rows")["error"]


def test_files_stand_side_by_side(table):
    names = [name for name, *_ in table._drawn["files"]]
    text = ask(table, "file", file=names.index("report.md"))["answer"]
    assert ["removed", "134794"] in text["pieces"]
    assert [side["size"] for side in text["sides"]] == ["56 bytes", "56 bytes"]
    image = ask(table, "file", file=names.index("plot.png"))["answer"]
    assert image["pieces"] == []
    assert all(side["image"].startswith("data:image/png;base64,") for side in image["sides"])
    other = ask(table, "file", file=names.index("data.bin"))["answer"]
    assert other["pieces"] == []
    assert {side["image"] for side in other["sides"]} == {""}
    assert all(side["why"].startswith("not shown") for side in other["sides"])
    assert len({side["sha256"] for side in other["sides"]}) == 2


def test_a_row_of_a_file_opens_the_file(table):
    found = ask(table, "row", row=row_of(table, '@artifacts["report.md"]'))["answer"]
    assert ["added", "140000"] in found["file"]["pieces"]


def test_a_large_image_is_told_and_not_sent(store):
    @action(reads=["n"], writes=["done"])
    def draw(state: State) -> State:
        artifact("a.png", PNG + bytes([state["n"]]) * MAX_IMAGE)
        return state.update(done=state["n"])

    app = ApplicationBuilder().with_actions(draw).with_state(n=1).with_entrypoint("draw").build()
    rw = Rewind(app, store=store)
    run = rw.run(halt_after=["draw"])
    table = rw.diff(run, rw.fork(run, "draw", state={"n": 2})).view()
    found = ask(table, "file", file=0)
    assert len(json.dumps(found)) < 1_000
    assert "more than 256 KiB" in found["answer"]["sides"][0]["why"]


# -- large and hostile values -------------------------------------------------------------


def test_a_value_of_20_mb_is_a_preview_that_says_how_much_is_left_out():
    start = time.process_time()
    found = value_pieces("x" * LONG, "y" * LONG)
    assert time.process_time() - start < 2
    assert len(json.dumps(found)) < 20_000
    left_out = [text for kind, text in found if kind == "cut"]
    assert left_out == [" … 19,996,000 more characters "] * 2
    assert kind_of("x" * LONG) == "str, 20,000,000 characters"


def test_what_is_sent_of_a_large_value_is_bounded(store):
    table = diff_of(store, {"a": "x" * 500_000}, {"a": ["y" * 500_000]}).view()
    assert len(json.dumps([table._drawn, ask(table, "row", row=0)])) < 20_000


def test_the_inside_of_a_long_text_that_stayed_the_same_is_left_out(store):
    found = pieces(
        "start " * 9_000 + "old" + " end" * 9_000, "start " * 9_000 + "new" + " end" * 9_000
    )
    assert joined(found, "removed") == "old"
    assert joined(found, "added") == "new"
    assert [text for kind, text in found if kind == "cut"] == [
        " … 53,840 characters the same … ", " … 35,840 characters the same … "
    ]  # fmt: skip


@pytest.mark.parametrize("words", ["a b ", "ab ba", "x", "\n", "ä. "])
def test_the_longest_texts_that_are_compared_by_words_are_so_at_once(words):
    old = (words * COMPARED)[: COMPARED - 2]
    start = time.process_time()
    pieces(f"1{old}2", f"2{old[::-1]}1")
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "a"), ("a b", "a b"), ("one two three", "one 2 three"), ("a" * 9_000, "b" * 9_000),
        ("a\nb\n", "a\nc\n"), ("aab", "ab"), ("x " * 20, "x " * 21),
    ],
)  # fmt: skip
def test_the_pieces_of_two_short_texts_are_both_texts(before, after):
    found = pieces(before, after)
    assert joined(found, "same", "removed") == before
    assert joined(found, "same", "added") == after
    start, end = shared_ends(before, after)
    assert before[:start] == after[:start]
    assert before[len(before) - end :] == after[len(after) - end :]
    assert start + end <= min(len(before), len(after))


def test_the_start_of_an_endless_word_is_not_looked_for():
    assert shared_ends("x" * 1_000 + "a", "x" * 1_000 + "b") == (800, 0)


def test_a_large_list_is_laid_out_as_far_as_it_fits_and_its_size_is_told():
    found = value_pieces(list(range(1_000_000)), [0])
    assert len(json.dumps(found)) < 40_000
    assert found[-1] == ["cut", " … cut here; the whole is list, 1,000,000 items"]


def test_what_is_hidden_in_a_text_is_seen(store):
    table = diff_of(store, {"a": XSS, XSS: 1}, {"a": f"{XSS}!\u202e", XSS: 2}).view()
    sent = [table._drawn, ask(table, "row", row=0), ask(table, "why", row=1)]
    texts = [*_texts(sent)]
    assert sum("<img" in text for text in texts) > 4  # as text; a page writes it so
    assert any(displayed(XSS) in text for text in texts)
    assert all(text.isprintable() for text in texts)


def _texts(value):
    """Every text in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _texts([*value.items()])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def test_no_secret_is_in_what_is_sent(store):
    diff = diff_of(store, {"a": "x sk-diff-table-secret y", "b": 1}, {"a": "other words", "b": 2})
    register_secret("sk-diff-table-secret")  # which was not known when it was recorded
    table = diff.view()
    sent = [table.state(), table.html(), *(ask(table, k, **args) for k, args in table.questions())]
    assert "sk-diff-table-secret" not in repr(sent)


# -- in a notebook ------------------------------------------------------------------------


def test_a_graph_follows_the_step_that_is_selected_in_the_table(diff):
    table, graph = diff.view(), RunGraph(diff.b)
    ipywidgets.link((table, "selection"), (graph, "selection"))
    table.selection = "write:1"
    assert graph.selection == "write:1"
    box = ipywidgets.VBox([table, graph])
    assert box.children == (table, graph)


def test_another_diff_takes_the_place_of_one(table, diff):
    table.selection, table.path = "search:1", "facts.people"
    table.diff = Rewind(city_app(), store=diff.a.store).diff(diff.a, diff.a)
    assert table.selection == table.path == ""
    assert table._drawn["identical"]
    assert ask(table, "row", row=0)["error"] == "There is no change 0: the diff has 0."


def test_a_diff_in_a_cell_is_its_table_and_static_html_elsewhere(diff, monkeypatch):
    data, _ = diff._repr_mimebundle_()
    assert data == {"text/plain": repr(diff), "text/html": diff._repr_html_()}
    monkeypatch.setattr("rewind_nb._notebook.in_kernel", lambda: True)
    data, _ = diff._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/plain"] == repr(diff)
    assert data["text/html"] == diff._repr_html_()


def test_no_table_is_left_after_it_was_closed(diff):
    made = [diff.view() for _ in range(20)]
    refs = [weakref.ref(one) for one in made]
    for one in made:
        one.close()
    del made, one
    gc.collect()
    assert not any(ref() for ref in refs)


def test_a_saved_page_holds_the_answers_to_what_it_may_ask(diff, tmp_path):
    path = diff.to_html(tmp_path / "diff.html")
    assert diff.to_html(tmp_path / "same.html").read_text() == path.read_text()
    text = path.read_text()
    saved = json.loads(text.partition('type="application/json">')[2].partition("</script>")[0])
    assert saved["answers"]['["why",{"row":0}]']["answer"]["chains"]
    assert saved["answers"]['["file",{"file":3}]']["answer"]["pieces"]
    assert len(saved["answers"]) == 2 * len(diff.changes) + 4
