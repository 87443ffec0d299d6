"""What is shown says what is so: values that differ look different, and notes and errors name it."""

import html
import sys
import threading
import time

import codec_values
import fake_provider as fp
import httpx
import numpy as np
import pandas as pd
import pytest
import requests
from burr.core import ApplicationBuilder, State, action
from hypothesis import given
from hypothesis import strategies as st

from rewind_nb import ChatModel, Rewind, Secret, register, tool
from rewind_nb import _codec as codec
from rewind_nb._answering import condensed, is_other_model
from rewind_nb._burr._app import AppSpec
from rewind_nb._contrast import contrast
from rewind_nb._diff import MISSING, diff_nodes
from rewind_nb._html import diff_html
from rewind_nb._text import diff_text
from rewind_nb.errors import CodeChangedError


def line_of(*functions, **state):
    names = [function.__name__ for function in functions]
    return (
        ApplicationBuilder()
        .with_actions(*functions)
        .with_transitions(*zip(names, names[1:], strict=False))
        .with_state(**state)
        .with_entrypoint(names[0])
        .build()
    )


# -- values that differ ------------------------------------------------------------------


class Picture:
    """A value whose repr says little."""

    def __init__(self, size, pixels):
        self.size, self.pixels = size, pixels

    def __repr__(self):
        return f"<Picture {self.size}>"


register(Picture, lambda p: [p.size, p.pixels], lambda held: Picture(*held))

NULS = "\\x00" * 5
ROWS = pd.DataFrame({"species": ["Adelie", "Gentoo"] * 150, "mass": np.arange(300.0)})


def with_cell(frame, row, column, value):
    changed = frame.copy()
    changed.loc[row, column] = value
    return changed


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        (
            ROWS,
            with_cell(ROWS, 17, "mass", 5.5),
            ("DataFrame 300 x 2: mass[17] = 17.0", "DataFrame 300 x 2: mass[17] = 5.5"),
        ),
        (
            ROWS,
            with_cell(with_cell(ROWS, 3, "mass", -1.0), 9, "species", "Chinstrap"),
            (
                "DataFrame 300 x 2: species[9] = 'Gentoo' (2 cells differ)",
                "DataFrame 300 x 2: species[9] = 'Chinstrap' (2 cells differ)",
            ),
        ),
        (
            ROWS,
            ROWS.iloc[:299],
            ("DataFrame 300 x 2: has row 299", "DataFrame 299 x 2: no row 299"),
        ),
        (
            ROWS,
            ROWS.astype({"mass": "float32"}),
            ("DataFrame 300 x 2: mass is float64", "DataFrame 300 x 2: mass is float32"),
        ),
        (
            ROWS,
            ROWS.rename(columns={"mass": "weight"}),
            (
                "DataFrame 300 x 2: has column 'mass'; no column 'weight'",
                "DataFrame 300 x 2: no column 'mass'; has column 'weight'",
            ),
        ),
        (
            ROWS,
            ROWS[["mass", "species"]],
            ("DataFrame 300 x 2: column 0 is 'species'", "DataFrame 300 x 2: column 0 is 'mass'"),
        ),
        (
            ROWS.mass,
            with_cell(ROWS, 299, "mass", np.nan).mass,
            ("Series 300 float64: [299] = 299.0", "Series 300 float64: [299] = nan"),
        ),
        (
            np.array([np.nan, 0.0, -0.0] * 99),
            np.array([np.nan, -0.0, -0.0] + [np.nan, 0.0, -0.0] * 98),
            ("ndarray 297 float64: [1] = 0.0", "ndarray 297 float64: [1] = -0.0"),
        ),
        (
            np.zeros((30, 40)),
            np.eye(30, 40),
            (
                "ndarray 30 x 40 float64: [0, 0] = 0.0 (30 cells differ)",
                "ndarray 30 x 40 float64: [0, 0] = 1.0 (30 cells differ)",
            ),
        ),
        (
            np.zeros(3000),
            np.zeros((30, 100)),
            ("ndarray 3000 float64", "ndarray 30 x 100 float64"),
        ),
        (
            b"\0" * 400 + b"a",
            b"\0" * 400 + b"bc",
            (f"...b'{NULS}a'", f"...b'{NULS}bc'"),
        ),
        ("x" * 300 + "a", "x" * 300 + "bc", (f"...'{'x' * 20}a'", f"...'{'x' * 20}bc'")),
        (
            Picture(9, [[0] * 50, [1] * 50]),
            Picture(9, [[0] * 50, [1] * 49 + [2]]),
            ("<Picture 9>, its [1][1][49]: 1", "<Picture 9>, its [1][1][49]: 2"),
        ),
    ],
    ids=[
        "cell", "cells", "rows", "dtype", "columns", "order", "series", "nan", "array", "shape", "bytes",
        "text", "own",
    ],
)  # fmt: skip
def test_a_value_of_any_size_shows_what_differs_on_both_sides(store, before, after, shown):
    @action(reads=[], writes=["value"])
    def make(state: State, new: bool) -> State:
        return state.update(value=after if new else before)

    rw = Rewind(line_of(make), store=store)
    run = rw.run(inputs={"new": False})
    diff = rw.diff(run, rw.fork(run, "make", inputs={"new": True}))
    (change,) = [c for c in diff.changes if c.path == "value"]
    lines, page = diff_text(diff).splitlines(), diff_html(diff)
    at = lines.index("    value")

    assert lines[at + 1 : at + 3] == [f"      - {shown[0]}", f"      + {shown[1]}"]
    assert all(html.escape(line) in page for line in shown)
    old, new = contrast(change.before, change.after)
    assert old != new
    assert f"value: {old} -> {new} [" in repr(change)


@given(codec_values.anything, codec_values.anything)
def test_two_values_that_differ_never_look_alike(a, b):
    for delta in diff_nodes(*(codec.parse(codec.encode(value)) for value in (a, b))):
        if delta.before is MISSING or delta.after is MISSING or delta.kind == "order":
            continue
        lines = contrast(codec.decode_node(delta.before), codec.decode_node(delta.after))
        assert lines[0] != lines[1]
        assert max(map(len, lines)) <= 60


@given(
    st.one_of(
        *(st.tuples(kind, kind, kind, kind) for kind in (codec_values.any_text, st.binary())),
    )
)
def test_two_texts_of_one_beginning_show_where_they_part(parts):
    shared, old, new, more = parts
    before, after = shared * 40 + old + more * 9, shared * 40 + new + more * 9
    if before != after:
        lines = contrast(before, after)
        assert lines[0] != lines[1]
        assert max(map(len, lines)) <= 60


@given(st.lists(st.floats(), min_size=1, max_size=9), st.data())
def test_of_arrays_and_frames_the_first_cell_that_differs_is_shown(items, data):
    n = data.draw(st.integers(0, len(items) - 1))
    other = [*items[:n], data.draw(st.floats()), *items[n + 1 :]]
    for kind in (np.array, pd.Series, lambda values: pd.DataFrame({"a": values})):
        before, after = kind(items), kind(other)
        if codec.encode(before) != codec.encode(after):
            lines = contrast(before, after, 88)
            assert lines[0] != lines[1]
            assert repr(other[n]) in lines[1] or kind is np.array


def test_a_secret_is_no_part_of_what_differs(store):
    key = "sk-canary-0123456789abcdef"
    Secret(key)
    for before, after in ((f"{key}a" * 9, f"{key}b" * 9), (key.encode() + b"a", key.encode())):
        assert not any(key[4:12] in line for line in contrast(before, after, 40))


# -- models ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "answered", "other"),
    [
        ("gpt-4o", "gpt-4o", False),
        ("gpt-4o", "gpt-4o-2024-08-06", False),
        ("claude-x-latest", "claude-x-20250101", False),
        ("claude-x-latest", "claude-x", False),
        ("claude-x", "claude-x@20250101", False),
        ("gpt-4", "gpt-4-0613", False),
        ("mistral-large-latest", "mistral-large-2411", False),
        ("gemini-2.0-flash", "models/gemini-2.0-flash-001", False),
        ("openai/gpt-4o", "gpt-4o-2024-08-06", False),
        ("gemini-2.5-pro-preview", "gemini-2.5-pro-preview-05-06", False),
        ("gpt-4o", "gpt-4o-mini", True),
        ("gpt-4o", "gpt-4o-mini-2024-07-18", True),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-08-06", True),
        ("gpt-4o-2024-08-06", "gpt-4o", True),
        ("gpt-4", "gpt-41", True),
        ("gpt-4", "gpt-4-32k", True),
        ("a/toy", "b/toy", True),
        ("claude-x-latest", "claude-y-20250101", True),
        ("gpt-4o", None, False),
        (None, "gpt-4o", False),
    ],
)
def test_a_dated_snapshot_is_the_model_that_was_asked(asked, answered, other):
    assert is_other_model(asked, answered) is other


def test_the_notes_of_a_run_name_a_pair_of_models_once_with_its_calls():
    once = "asked a, answered by b"

    assert condensed([once, "x; y", once, "asked a, answered by c", "y"]) == [
        "x; y",
        f"{once} (2 calls)",
        "asked a, answered by c",
    ]
    assert condensed([f"x; {once} (12 calls)", None, "", once, "x"]) == ["x", f"{once} (13 calls)"]
    assert condensed([]) == []


def asking(site, count):
    model = ChatModel(site.base_url, "toy")

    @action(reads=[], writes=["first"])
    def one(state: State) -> State:
        return state.update(first=[model.chat(f"one {i}").text for i in range(count)])

    @action(reads=[], writes=["second"])
    def two(state: State) -> State:
        return state.update(second=model.chat("two").text)

    return line_of(one, two)


def test_calls_that_another_model_answered_are_one_note_with_their_number(store):
    with fp.FakeProvider(then=fp.completion("hi", model="surprise")) as site:
        rw = Rewind(asking(site, 3), store=store)
        run = rw.run()
        fork = rw.fork(run, "one", params={"model": "bigger"}, cache="refresh")
        alone = rw.fork(run, "two", model="bigger")

    assert alone.note == "asked bigger, answered by surprise"
    assert fork.note == (
        "asked bigger, answered by surprise; asked toy, answered by surprise (2 calls)"
    )
    assert rw.diff(run, fork).mismatched_models == (
        "asked bigger, answered by surprise: step 0 'one'",
        "asked toy, answered by surprise: 2 calls in step 0 'one', step 1 'two'",
    )


def test_a_snapshot_of_the_model_that_was_asked_is_no_note(store):
    with fp.FakeProvider(then=fp.completion("hi", model="bigger-2024-08-06")) as site:
        rw = Rewind(asking(site, 1), store=store)
        run = rw.run()
        fork = rw.fork(run, "two", model="bigger")
        diff = rw.diff(run, fork)

    assert fork.note is None
    assert diff.mismatched_models == ()
    assert "answered by" not in repr(fork["two"].calls[0])


# -- calls -------------------------------------------------------------------------------


def test_a_call_says_in_its_repr_what_was_called(store):
    @tool
    def look_up(word: str) -> str:
        return word

    @action(reads=[], writes=["at"])
    def act(state: State) -> State:
        look_up("Bern")
        return state.update(at=time.time())

    tool_call, clock = Rewind(line_of(act), store=store).run()["act"].calls

    assert tool_call.name.endswith("look_up")
    assert repr(tool_call) == f"<Call 0 tool {tool_call.name}, complete, live>"
    assert clock.name in repr(clock)


# -- code --------------------------------------------------------------------------------

LIMIT, PROMPT = 3, "Be brief."
TABLE = {"a": 1}


def helper(x):
    return x + 1


def coded_app():
    @action(reads=[], writes=["x"])
    def compose(state: State) -> State:
        return state.update(x=[helper(LIMIT), PROMPT, TABLE["a"]])

    @action(reads=[], writes=["y"])
    def other(state: State) -> State:
        return state.update(y=1)

    return line_of(compose, other)


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("helper", lambda x: x + 2, "function helper is gone"),
        ("LIMIT", 4, "global LIMIT changed 3 -> 4"),
        ("PROMPT", "Be long.", "global PROMPT changed"),
        ("TABLE", {"a": 2}, "the content of global TABLE differs"),
    ],
)
def test_a_refusal_for_changed_code_says_what_changed(store, monkeypatch, name, value, what):
    rw = Rewind(coded_app(), store=store)
    run = rw.run()
    monkeypatch.setattr(sys.modules[__name__], name, value)

    with pytest.raises(CodeChangedError) as caught:
        rw.fork(run, "compose")
    assert caught.value.actions == ("compose",)
    assert what in caught.value.changes["compose"]
    assert f"In 'compose': {caught.value.changes['compose']}. Record a new run" in str(caught.value)
    fork = rw.fork(run, "compose", allow_code_change=True)
    if name != "TABLE":
        assert what in rw.diff(run, fork).changes[0].cause


def test_a_recording_that_does_not_say_what_its_code_was_is_refused_all_the_same(
    store, monkeypatch
):
    described = AppSpec.describe

    def as_before(spec):
        whole = described(spec)
        for one in whole["actions"]:
            del one["code"]
        return whole

    with monkeypatch.context() as earlier:
        earlier.setattr(AppSpec, "describe", as_before)
        run = Rewind(coded_app(), store=store).run()
    rw = Rewind(coded_app(), store=store)
    assert rw.fork(run, "compose").state == run.state
    monkeypatch.setattr(sys.modules[__name__], "LIMIT", 4)

    with pytest.raises(CodeChangedError, match="told apart. Record a new run") as caught:
        rw.fork(run, "compose")
    assert caught.value.changes == {"compose": ""}


# -- what comes late ---------------------------------------------------------------------


@pytest.mark.parametrize("client", [httpx, requests])
@pytest.mark.parametrize("when", ["asks", "is answered"])
def test_a_request_that_outlives_its_step_is_noted_on_the_run(store, client, when):
    go, done = threading.Event(), threading.Event()

    def slow(seen):
        go.wait(5)
        return fp.reply({"a": 1})

    with fp.FakeProvider(then=slow) as site:
        url = f"{site.base_url}/late?token=canary"

        def work():
            if when == "asks":
                go.wait(5)
            client.get(url)
            done.set()

        @action(reads=[], writes=["x"])
        def starts(state: State) -> State:
            threading.Thread(target=work).start()
            while when == "is answered" and not site.count:
                time.sleep(0.01)
            return state.update(x=1)

        @action(reads=[], writes=["y"])
        def waits(state: State) -> State:
            go.set()
            assert done.wait(5)
            return state.update(y=1)

        run = Rewind(line_of(starts, waits), store=store).run()

    assert [len(step.calls) for step in run.steps] == [0, 0]
    assert "came when its step 'starts' had ended: not recorded" in run.note
    assert "127.0.0.1" in run.note
    assert "canary" not in run.note


def test_a_request_of_no_step_is_nobodys_to_note(store):
    with fp.FakeProvider(then=fp.reply({"a": 1})) as site:
        go = threading.Event()
        thread = threading.Thread(target=lambda: (go.wait(5), httpx.get(site.base_url)))
        thread.start()  # before any step

        @action(reads=[], writes=["x"])
        def act(state: State) -> State:
            go.set()
            thread.join()
            return state.update(x=1)

        run = Rewind(line_of(act), store=store).run()

    assert run.note is None


def test_an_application_that_the_user_steps_has_each_note_once(store):
    threads = []

    def leave(url):
        threads.append(threading.Thread(target=lambda: (time.sleep(0.2), httpx.get(url))))
        threads[-1].start()

    with fp.FakeProvider(then=fp.reply({"a": 1})) as site:

        @action(reads=[], writes=["x"])
        def one(state: State) -> State:
            leave(site.base_url)
            return state.update(x=1)

        @action(reads=[], writes=["x"])
        def two(state: State) -> State:
            threads[0].join()
            leave(site.base_url)
            return state.update(x=2)

        @action(reads=[], writes=["x"])
        def three(state: State) -> State:
            threads[1].join()
            return state.update(x=3)

        rw = Rewind(line_of(one, two, three), store=store)
        app = rw.application()
        for _ in range(3):
            app.step()

    to = f"a request to 127.0.0.1:{site.port} came when its step"
    assert store.run(app.uid).note == (
        f"{to} 'one' had ended: not recorded; {to} 'two' had ended: not recorded"
    )
