"""Static HTML: self-contained, without script, and with everything in it escaped."""

import contextlib
import re
from html.parser import HTMLParser
from types import SimpleNamespace

import apps
import fake_provider as fp
import pytest
from burr.core import ApplicationBuilder, action
from burr.core.graph import GraphBuilder
from burr.core.parallelism import RunnableGraph, SubGraphTask, TaskBasedParallelAction
from hypothesis import given
from hypothesis import strategies as st
from toy_runs import RECORDERS

from rewind_nb import ChatModel, Rewind, Secret, Store, artifact, now, random, tool
from rewind_nb._diff import MISSING
from rewind_nb._divergence import Divergence
from rewind_nb._html import diff_html, proof_html, run_html, step_html, store_html
from rewind_nb._html._diff_page import prose
from rewind_nb._html._graph import graph
from rewind_nb._html._markup import Html, row, table, tag, text
from rewind_nb._html._parts import SIGNS, source_chip, spent, status_chip
from rewind_nb._html._style import CSS
from rewind_nb._html._value import shown
from rewind_nb._model import Usage

any_text = st.text(st.characters(exclude_categories=()), max_size=80)
XSS = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><svg/onload=alert(3)>"
    "</style></title><a href=//evil.example>\x1b[31m\u202e\u2066\x00\u65e5"
)
KNOWN_TAGS = set(
    "style div span b i table thead tbody tr th td details summary pre kbd del ins "
    "svg g title rect path text tspan".split()
)
KNOWN_ATTRIBUTES = set(
    "class scope colspan open x y width height rx d role aria-label viewbox text-anchor".split()
)


class Page(HTMLParser):
    """The elements and the text of a page; unbalanced markup is an error."""

    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.texts = [], [], [], []
        self.parents = []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, name, attributes):
        self.parents.append((name, [dict(a).get("class", "") for _, a in self.open]))
        self.open.append((name, attributes))
        self.tags.append(name)
        self.attributes += [(name, *pair) for pair in attributes]

    def handle_endtag(self, name):
        assert self.open.pop()[0] == name

    def handle_data(self, data):
        if not self.open or self.open[-1][0] != "style":
            self.texts.append(data)

    @property
    def text(self):
        return "".join(self.texts)


def assert_safe(html):
    page = Page(html)
    assert set(page.tags) <= KNOWN_TAGS
    assert {name for _, name, _ in page.attributes} <= KNOWN_ATTRIBUTES
    assert not re.search(r"url\(|@import|expression\(|javascript:", html)
    assert html.encode("utf-8")
    return page


def hostile_app():
    @tool
    def look(words: str) -> str:
        return words + XSS

    @action(reads=[XSS], writes=["x", "long", XSS])
    def first(state):
        found = look(state[XSS])
        artifact("page & 'more'.md", b"x")
        return state.update(x=[found, {XSS: XSS}], long=XSS * 9_000, **{XSS: XSS})

    @action(reads=["x"], writes=["y"])
    def second(state, given: str):
        raise ValueError(XSS)

    return (
        ApplicationBuilder()
        .with_actions(**{XSS: first, "second": second})
        .with_transitions((XSS, "second"))
        .with_state(**{XSS: XSS})
        .with_entrypoint(XSS)
        .build()
    )


@pytest.fixture
def hostile(store):
    """(Rewind, failed run, its fork) with everything in them hostile."""
    rw = Rewind(hostile_app(), store=store)
    with pytest.raises(ValueError):
        rw.run(halt_after=["second"], inputs={"given": XSS}, label=XSS)
    run = rw.last_run
    with pytest.raises(ValueError):
        rw.fork(run, at=0, output={"x": XSS, "long": XSS * 8_000}, label=XSS)
    return rw, run, rw.last_run


def hostile_tasks_app():
    """Tasks whose keys, actions, chunks and errors are hostile, in an action that is."""

    @action(reads=["word"], writes=[XSS])
    def inner(state):
        if state["word"] == "bad":
            raise ValueError(XSS)
        return state.update(**{XSS: state["word"]})

    class Each(TaskBasedParallelAction):
        def tasks(self, state, context, inputs):
            for n, word in enumerate(state["words"]):
                graph = (
                    GraphBuilder()
                    .with_actions(**{XSS: inner, "last": inner})
                    .with_transitions((XSS, "last"))
                    .build()
                )
                yield SubGraphTask(
                    graph=RunnableGraph(graph, XSS, ["last"]),
                    inputs={},
                    state=state.update(word=word),
                    application_id=f"{context.app_id}:{n} {XSS}",
                )

        def reduce(self, state, states):
            return state.update(out=[s[XSS] for s in states])

        @property
        def reads(self):
            return ["words"]

        @property
        def writes(self):
            return ["out"]

    return (
        ApplicationBuilder()
        .with_actions(**{XSS: Each()})
        .with_state(words=["a", "b", XSS])
        .with_entrypoint(XSS)
        .build()
    )


def pages(rw, run, fork):
    yield run_html(run)
    yield run_html(fork)
    yield from (step_html(step) for step in (*run.steps, *fork.steps))
    yield diff_html(rw.diff(run, fork))
    yield proof_html(rw.replay(run))
    yield store_html(rw.store)


# -- nothing gets out of its place ---------------------------------------------------------


def test_no_page_holds_a_script_a_link_or_an_outside_resource(recorded):
    rw, run = recorded
    fork = rw.fork(run, at=0)

    for html in pages(rw, run, fork):
        assert_safe(html)
        assert "<script" not in html.lower()
        assert "http" not in html


def test_hostile_text_stays_text_on_every_page(hostile):
    for html in pages(*hostile):
        assert_safe(html)
        assert "<script" not in html.lower()
        assert "\x1b" not in html
        assert "\u202e" not in html


def test_hostile_text_is_shown_and_not_dropped(hostile):
    _, run, _ = hostile

    for html in (run_html(run), step_html(run[0]), step_html(run["second"])):
        assert "<script>alert(1)</script><img src=x onerror=alert(2)>" in Page(html).text


@pytest.mark.parametrize("words", [["a", "b", XSS, "new"], ["a"], [*"abcdefghijklm"], ["bad", "b"]])
def test_hostile_tasks_stay_text_on_every_page(store, words):
    rw = Rewind(hostile_tasks_app(), store=store)
    run = rw.run()
    with contextlib.suppress(ValueError):
        rw.fork(run, at=0, state={"words": words})
    fork = rw.last_run
    inside = rw.fork(run, run[0].tasks[f"1 {XSS}"][1], output={XSS: 1})
    diffs = [rw.diff(run, fork), rw.diff(fork, run), rw.diff(inside, run)]
    for diff in diffs:
        assert repr(diff).isprintable()
        assert all(repr(change).isprintable() for change in diff.changes)

    for html in (
        *pages(rw, run, fork), *pages(rw, run, inside), *map(diff_html, diffs),
        *(step_html(step) for step in inside.walk()),
    ):  # fmt: skip
        assert_safe(html)
        assert "<script" not in html.lower()
        assert "\x1b" not in html
        assert "\u202e" not in html
        for name, parents in Page(html).parents:
            if name in ("table", "svg"):
                assert "rw-scroll" in parents


@given(any_text)
def test_any_text_comes_out_as_it_went_in_or_visibly_escaped(words):
    page = Page(text(words, 10_000))
    seen = "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in words)

    assert page.text == seen
    assert set(page.tags) <= {"kbd"}


@given(any_text, any_text)
def test_an_element_holds_its_text_and_attributes_as_data(words, attribute):
    page = Page(tag("span", words, class_=attribute))

    assert page.tags[0] == "span"
    assert set(page.tags[1:]) <= {"kbd"}
    assert [name for _, name, _ in page.attributes] == ["class"]


@given(any_text)
def test_any_value_can_be_shown(words):
    for value in (words, [words], {words: words}, (words, {1}), words.encode("utf-8", "replace")):
        assert_safe(shown(value))


def test_a_value_whose_repr_raises_can_be_shown():
    class Broken:
        def __repr__(self):
            raise RuntimeError("no")

    assert "its repr raised RuntimeError" in shown(Broken())


def test_a_secret_that_was_registered_later_is_not_shown(store):
    @action(reads=[], writes=["x"])
    def write(state):
        return state.update(x="the key is sk-later-9876543210")

    app = ApplicationBuilder().with_actions(write).with_entrypoint("write").build()
    rw = Rewind(app, store=store)
    run = rw.run(halt_after=["write"], label="sk-later-9876543210")
    fork = rw.fork(run, at="write", output={"x": "the key is none"})
    Secret("sk-later-9876543210")

    assert not any("9876543210" in html for html in pages(rw, run, fork))


# -- every page is bounded -------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("piece", "size"),
    [
        ("<'&\">", 20_000_000),
        ("\u202e", 1_000_000),
        ("a\u202e", 1_000_000),
        ("\u65e5\n", 1_000_000),
    ],
)
def test_a_page_of_a_huge_state_stays_small_and_says_what_it_left_out(store, piece, size):
    huge = piece * (size // len(piece))

    @action(reads=["q"], writes=["text", "rows"])
    def make(state):
        return state.update(text=huge, rows=[{"n": i, "x": piece} for i in range(9_000)])

    @action(reads=["text", "rows"], writes=["more"])
    def use(state):
        return state.update(more=state["text"] + "!")

    app = (
        ApplicationBuilder()
        .with_actions(make, use)
        .with_transitions(("make", "use"))
        .with_state(q=1)
        .with_entrypoint("make")
        .build()
    )
    rw = Rewind(app, store=store)
    run = rw.run(halt_after=["use"])
    fork = rw.fork(run, at="make", output={"text": huge[:-9] + "other"})

    for html in (step_html(run[0]), step_html(run[1]), diff_html(rw.diff(run, fork))):
        assert len(html.encode()) < 200_000
        assert "more character" in html or "the same" in html
        assert_safe(html)


def test_a_page_of_a_long_run_stays_small_and_says_what_it_left_out(store):
    run = Rewind(apps.loop_app(limit=700), store=store).run(halt_after=["report"])
    html = run_html(run)

    assert len(html.encode()) < 200_000
    assert "run.steps_df() has all 701" in html
    assert Page(html).tags.count("tr") > 50


def test_a_table_reads_its_rows_no_further_than_it_shows_them():
    read = []

    def rows():
        for i in range(1_000):
            read.append(i)
            yield row("x" * 100)

    html = table(["a"], rows(), "… more", budget=2_000)

    assert html.count("<tr>") - 1 == len(read) - 1 < 20
    assert html.endswith('<div class="rw-cut">… more</div>')


def test_a_text_that_is_cut_says_how_much_is_missing():
    assert text("x" * 1_500, 100).endswith("… 1,400 more characters</span>")
    assert "more" not in text("x" * 100, 100)


def test_a_huge_value_is_laid_out_no_further_than_it_is_shown(monkeypatch):
    from rewind_nb._html import _value

    laid_out = []
    real = _value.brief
    monkeypatch.setattr(_value, "brief", lambda *given: laid_out.append(1) or real(*given))
    html = shown(list(range(100_000)))

    assert len(laid_out) < 1_000
    assert "cut here" in html


def test_a_deep_value_can_be_shown():
    deep = 1
    for _ in range(150):
        deep = [deep]

    assert len(shown(deep)) < 10_000


# -- it can be read ----------------------------------------------------------------------------


@pytest.mark.parametrize("source", SIGNS)
def test_a_source_is_shown_by_a_sign_and_its_name_and_not_by_colour_alone(source):
    chip = source_chip(source)

    assert Page(chip).texts == [SIGNS[source].replace("\ufe0e", "\ufe0e"), source]
    assert f".rw .rw-{source}{{--rw-c" in CSS
    assert len(set(SIGNS.values())) == len(SIGNS)


def test_every_status_has_a_sign():
    signs = [
        Page(status_chip(s)).texts[0]
        for s in ("complete", "halted", "failed", "interrupted", "running")
    ]

    assert "?" not in signs
    assert len(set(signs)) == 5


def test_every_rule_of_the_style_sheet_stays_inside_its_own_elements():
    rules = re.sub(r"@media [^{]*\{(.*?\})\}", r"\1", CSS)
    selectors = [s for rule in re.findall(r"([^{}]+)\{", rules) for s in rule.split(",")]

    assert len(selectors) > 40
    assert all(re.search(r"(^|\s)\.rw(\s|$)", s) for s in selectors)


def test_light_and_dark_define_the_same_variables():
    blocks = re.findall(r"\{([^{}]*--rw-fg:[^{}]*)\}", CSS)
    names = [set(re.findall(r"--rw-[\w-]+(?=:)", block)) for block in blocks]

    assert len(names) == 3
    assert names[0] == names[1] == names[2]
    assert {f"--rw-{s}" for s in SIGNS} <= names[0]


def test_wide_content_scrolls_inside_its_own_box(hostile):
    for html in pages(*hostile):
        for name, parents in Page(html).parents:
            if name in ("table", "svg"):
                assert "rw-scroll" in parents


def test_a_page_is_the_same_each_time(hostile):
    assert list(pages_of_values(*hostile)) == list(pages_of_values(*hostile))


def pages_of_values(rw, run, fork):
    yield from (run_html(run.refresh()), run_html(fork.refresh()), step_html(run[0]))
    yield from (diff_html(rw.diff(run, fork)), store_html(rw.store))


def test_pages_of_equal_runs_are_the_same_but_for_ids_and_times():
    made = []
    for _ in range(2):
        with Store(":memory:") as store:
            apps.CALLS.clear()
            rw, run = RECORDERS["async"](store)
            fork = rw.fork(run, at=1, output={"cities": []})
            html = "\n".join(pages(rw, run, fork))
            made.append(
                re.sub(r"r_[0-9a-f]{12}|\d+\.\d{3} s|\d+-\d\d-\d\d \d\d:\d\d:\d\d", "#", html)
            )

    assert made[0] == made[1]


# -- a run -------------------------------------------------------------------------------------


def test_a_run_shows_each_step_with_source_calls_time_and_hash(recorded):
    _, run = recorded
    page = Page(run_html(run))

    for step in run.steps:
        assert step.action in page.text
        assert step.source in page.text
        assert step.hash[:10] in page.text
        assert f"{step.duration_s:.3f} s" in page.text


def test_a_fork_says_in_one_line_its_parent_step_and_override(store):
    rw, run = RECORDERS["branch"](store)
    fork = rw.fork(run, at="judge", output={"verdict": "dear"})

    line = f"fork of {run.id} at 0 'judge': replace verdict = 'dear'"
    assert line in Page(run_html(fork)).text
    assert line in Page(store_html(store)).text
    assert "override" in Page(run_html(fork)).text


def test_a_failed_run_shows_its_error(hostile):
    _, run, _ = hostile
    page = Page(run_html(run))

    assert "✕ ValueError" in page.text
    assert "✕failed" in page.text or "✕ failed" in page.text


def test_the_graph_has_a_box_per_action_and_a_line_per_transition(store):
    _, run = RECORDERS["loop"](store)
    drawn = graph(run)
    page = Page(drawn)

    assert drawn.count('class="rw-card') == 2
    assert drawn.count('class="rw-edge') == 2
    assert f"×{len(run) - 1}" in page.text
    assert "count → count" in page.text


def test_the_graph_tells_the_visits_and_conditions_in_tooltips(store):
    _, run = RECORDERS["branch"](store)
    words = Page(graph(run)).text

    assert "judge → book\nverdict=cheap" in words
    assert f"step 0, visit 1: live, complete, {run[0].duration_s:.3f} s, 0 tokens" in words


def test_the_graph_marks_where_a_fork_starts(store):
    rw, run = RECORDERS["branch"](store)

    assert "▼ fork" in graph(rw.fork(run, at="book"))
    assert "▼ fork" not in graph(run)


def test_the_graph_of_a_halted_run_shows_what_comes_next(store):
    run = Rewind(apps.human_app(), store=store).run(halt_before=["hear"], inputs={"topic": "x"})
    drawn = graph(run)

    assert "rw-card-next" in drawn
    assert "next: hear" in Page(run_html(run)).text


def test_the_graph_of_a_run_without_steps_is_empty(store):
    run = SimpleNamespace(steps=(), next_action=None, origin=None, kind="record")

    assert graph(run) == Html("")


def test_a_run_sums_up_its_calls_by_what_was_asked(store):
    _, run = RECORDERS["async"](store)
    rows = re.findall(r"<tr>.*?</tr>", run_html(run))
    (asked,) = [Page(r).texts for r in rows if "lookup" in r]

    assert asked[:4] == ["tool", "lookup", "3", "0"]


@pytest.mark.parametrize(
    ("usage", "words"),
    [
        (Usage(1_000, 234), "1,234 tokens"),
        (Usage(5, None), "tokens unknown"),
        (None, "tokens unknown"),
    ],
)
def test_unknown_tokens_are_said_to_be_unknown(usage, words):
    assert spent(usage) == words


# -- a step ------------------------------------------------------------------------------------


def test_a_step_shows_what_it_read_wrote_and_asked(store):
    _, run = RECORDERS["async"](store)
    page = Page(step_html(run["fetch", 2]))

    for word in ("Read", "Wrote", "Calls", "cities", "weather", "lookup", "Marrakesh", "live"):
        assert word in page.text


def calling_app(provider):
    """A step with calls of every kind: its four answers of the model, in the order made."""
    model = ChatModel(provider.base_url, "toy", retry_after_cap=0.0)

    @tool(name="look")
    def look(nth: int):
        now()
        return model.chat("inside a tool").json()

    @action(reads=[], writes=["answers", "luck"])
    def ask(state):
        answers = [model.chat("first").json(), look(1), model.chat("second").json(), look(2)]
        return state.update(answers=answers, luck=random())

    return ApplicationBuilder().with_actions(ask).with_entrypoint("ask").build()


def summaries(html):
    return [Page(found).text for found in re.findall(r"<summary><b>.*?</summary>", html)]


def test_a_call_is_shown_by_the_number_that_an_override_takes(store):
    with fp.FakeProvider() as provider:
        rw = Rewind(calling_app(provider), store=store)
        run = rw.run()
        names = [w.split(" toy ")[0] for w in summaries(step_html(run["ask"])) if " toy " in w]
        numbers = [int(name.removeprefix("model call ")) for name in names]
        forks = [rw.fork(run, "ask", response='{"mine": 1}', call=n) for n in numbers]

    assert numbers == [0, 2, 1, 3]  # a step's own come before those of its tools
    for position, fork in enumerate(forks):
        assert [a == {"mine": 1} for a in fork.state["answers"]].index(True) == position


def test_tool_calls_are_numbered_apart_and_other_kinds_not_at_all(store):
    with fp.FakeProvider() as provider:
        rw = Rewind(calling_app(provider), store=store)
        run = rw.run()
        shown = summaries(step_html(run["ask"]))
        fork = rw.fork(run, "ask", tool_result={"mine": 1}, call=1)

    assert [w.split(" ●")[0] for w in shown if " look " in w] == [
        "tool call 0 look",
        "tool call 1 look",
    ]
    assert fork.state["answers"][3] == {"mine": 1}
    assert [w.split(" ●")[0] for w in shown if "call" not in w] == [
        "clock now",
        "clock now",
        "random random",
    ]


def test_attempts_at_one_call_share_its_number(store):
    with fp.FakeProvider(fp.status(500)) as provider:
        run = Rewind(calling_app(provider), store=store).run()

    shown = [words.split(" toy ")[0] for words in summaries(step_html(run["ask"]))]
    assert shown[:2] == ["model call 0", "model call 0, attempt 2"]
    assert "model call 1" in shown


def test_a_call_inside_a_tool_stands_below_it_and_further_in(store):
    with fp.FakeProvider() as provider:
        run = Rewind(calling_app(provider), store=store).run()
    html = step_html(run["ask"])

    order = [words.split(" ●")[0] for words in summaries(html)]
    assert order[1:4] == ["tool call 0 look", "clock now", "model call 2 toy"]
    inside = re.findall(r'<div class="rw-in"><details><summary><b>([^<]*)</b>', html)
    assert inside == ["clock", "model call 2", "clock", "model call 3"]


def test_a_step_says_what_it_was_given_instead(store):
    rw, run = RECORDERS["branch"](store)
    fork = rw.fork(run, at="judge", output={"verdict": "dear"})

    assert "override replace verdict = 'dear'" in Page(step_html(fork["judge"])).text
    assert "replace verdict" not in Page(step_html(fork["refuse"])).text


def test_a_failed_step_shows_error_and_traceback(hostile):
    _, run, _ = hostile
    page = Page(step_html(run["second"]))

    assert "✕ ValueError: <script>alert(1)</script>" in page.text
    assert "Traceback (most recent call last)" in page.text


def test_a_heading_of_numbers_stands_where_the_numbers_do(recorded):
    _, run = recorded
    html = run_html(run)

    for name in ("step", "tokens", "time"):
        assert f'<th scope="col"><div class="rw-n">{name}</div></th>' in html


def test_a_step_with_raw_output_shows_it(store):
    from rewind_nb import StepFailure

    @action(reads=[], writes=["x"])
    def parse(state):
        raise StepFailure("parse", "the model returned no JSON", raw="Sure! <b>Here</b>")

    app = ApplicationBuilder().with_actions(parse).with_entrypoint("parse").build()
    rw = Rewind(app, store=store)
    with pytest.raises(StepFailure):
        rw.run(halt_after=["parse"])

    assert "Sure! <b>Here</b>" in Page(step_html(rw.last_run["parse"])).text


# -- a diff ------------------------------------------------------------------------------------


def test_a_diff_shows_where_the_runs_part_and_why(store):
    rw, run = RECORDERS["branch"](store)
    fork = rw.fork(run, at="judge", output={"verdict": "dear"})
    words = Page(diff_html(rw.diff(run, fork))).text

    assert f"ancestor {run.id}" in words
    assert "replace verdict = 'dear'" in words
    assert "First difference: step 0 judge verdict'cheap' → 'dear'cause: override" in words
    assert "only before" in words
    assert "only after" in words
    assert "the final state differs in verdict, booking" in words


def test_a_missing_value_is_shown_as_missing(store):
    assert shown(MISSING) == '<span class="rw-dim">(missing)</span>'
    assert Page(shown(None)).text == "None"


def test_a_diff_of_equal_runs_says_identical_and_has_no_changes(store):
    rw, run = RECORDERS["loop"](store)
    html = diff_html(rw.diff(run, rw.fork(run, at=1)))

    assert "identical, 4 steps" in html
    assert "Changes" not in html


def test_a_change_of_prose_is_shown_word_by_word(store):
    rw, run = RECORDERS["branch"](store)
    one = rw.fork(run, at="judge", output={"verdict": "The fare of the day is cheap enough."})
    two = rw.fork(run, at="judge", output={"verdict": "The fare of the day is dear enough."})
    html = diff_html(rw.diff(one, two))

    assert "<del>cheap</del><ins>dear</ins>" in html


words = st.lists(st.sampled_from(["a", "bb", "of", "the", "12", ",", "<b>", "\n"]), max_size=25)


@given(words.map(" ".join), words.map(" ".join))
def test_struck_out_and_underlined_prose_holds_both_texts(before, after):
    html = prose(before, after)
    old = re.sub(r"<ins>.*?</ins>", "", html, flags=re.DOTALL)
    new = re.sub(r"<del>.*?</del>", "", html, flags=re.DOTALL)

    assert Page(old).text == before
    assert Page(new).text == after


def test_long_prose_shows_the_change_and_the_ends_of_what_stayed():
    same = "the same words again and again. " * 30_000
    html = prose(f"{same}one end {same}", f"{same}two ends {same}")

    assert "<del>one end</del><ins>two ends</ins>" in html
    assert "characters the same" in html
    assert len(html) < 2_000


# -- a proof and a store -------------------------------------------------------------------------


def test_a_proof_shows_its_verdict_and_what_it_rests_on(store):
    rw, run = RECORDERS["async"](store)
    words = Page(proof_html(rw.replay(run))).text

    assert f"{len(run)} of {len(run)} steps identical, 0 live calls, 0 tokens" in words
    assert f"replay of {run.id}" in words
    assert "the recording: 3 calls" in words
    assert "NOT" not in words


def test_a_proof_that_failed_shows_the_first_difference(store):
    first = Divergence(2, "plan", 1, "report.total", 5, MISSING, "The step computed another value.")
    proof = SimpleNamespace(
        ok=False,
        original=SimpleNamespace(id="r_1"),
        run=SimpleNamespace(id="r_2"),
        steps=3,
        identical=2,
        executed=3,
        applied=0,
        live_calls=1,
        tokens=None,
        recorded_calls=2,
        recorded_tokens=None,
        code_changed=("plan",),
        code_lost=(),
        divergence=first,
    )
    words = Page(proof_html(proof)).text

    assert "NOT identical" in words
    assert "2 of 3 steps identical, 1 live call, tokens unknown" in words
    assert "First difference: step 2 plan report.total5 → (missing)" in words
    assert "Code changed since the recording: plan" in words


def test_a_store_shows_its_runs_as_a_tree_with_status_and_override(store):
    rw, run = RECORDERS["loop"](store)
    fork = rw.fork(run, at=1, output={"n": 9}, label="what if")
    words = Page(store_html(store)).text

    assert f"└─ {fork.id}" in words
    assert "what if" in words
    assert "replace n = 9" in words
    assert words.count("complete") == 2


def test_a_store_of_nothing_says_so(store):
    assert "no runs yet" in store_html(store)


def test_a_store_of_many_runs_shows_the_newest(store, monkeypatch):
    from rewind_nb._html import _store_page

    monkeypatch.setattr(_store_page, "MAX_RUNS", 3)
    rw, run = RECORDERS["branch"](store)
    forks = [rw.fork(run, at=0) for _ in range(4)]
    html = store_html(store)

    assert "the newest 3; store.runs_df() has all" in html
    assert [f.id in html for f in forks] == [False, True, True, True]
