"""Keys that hide, failures that quote one, exceptions that say nothing, text that commands."""

from __future__ import annotations

import base64
import json
import re
import sqlite3

import fake_provider as fp
import httpx
import numpy as np
import pandas as pd
import pytest
import task_apps
import wire_server as ws
from burr.core import ApplicationBuilder, Condition, State, action
from burr.core.action import streaming_action
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from recorder import run_row

from rewind_nb import ChatModel, Rewind, Secret, Store, _redact, artifact, cli, tool
from rewind_nb._codec import decode
from rewind_nb._secrets import contains_secret, redact, redact_bytes, register_secret
from rewind_nb._store import Batch
from rewind_nb.errors import NotEncodableError, RewindError, SecretLeakError, StepFailure

KEY = "sk-CANARY-5e1f7a/+9c2b"
HOSTILE = "\x1b[2J\x1b]0;title\x07\r\u202egnp.exe\u2066\u200b\x00\x7f\x9b"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    """One registered key, of which the tests of other modules hear nothing."""
    monkeypatch.setattr(_redact, "_registry", _redact._Registry())
    return Secret(KEY)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "store" / "runs.db"


def app_of(function, reads=(), writes=("x",), **state):
    made = action(reads=list(reads), writes=list(writes))(function)
    builder = ApplicationBuilder().with_actions(act=made).with_state(**state)
    return builder.with_entrypoint("act").build()


def holding(value, **state):
    return app_of(lambda state: state.update(x=value), **state)


def everything_in(file):
    """All that was written, with the escapes of JSON and base64 undone."""
    if not file.exists():
        return ""
    raw = b"".join(part.read_bytes() for part in file.parent.iterdir())
    with sqlite3.connect(file) as opened:
        tables = [n for (n,) in opened.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        rows = [row for table in tables for row in opened.execute(f"SELECT * FROM {table}")]  # noqa: S608
    values = [raw, *(value for row in rows for value in row)]
    texts = [v.decode("latin-1") if isinstance(v, bytes) else str(v) for v in values]
    plain = [re.sub(r"\\+u([0-9a-fA-F]{4})", lambda m: chr(int(m[1], 16)), t) for t in texts]
    packed = [p for t in texts for p in re.findall(r"(?:[A-Za-z0-9+/]{4}){4,}", t)]
    unpacked = [base64.b64decode(p).decode("latin-1") for p in packed]
    return "\n".join([*texts, *plain, *unpacked]).replace("\0", "").replace("\\", "")


# -- a failure is written down, whatever it quotes ------------------------------------------


class Quoting(Exception):
    """A user's exception."""


def in_a_step(error):
    def act(state: State) -> State:
        raise error

    return app_of(act)


def in_an_async_step(error):
    async def act(state: State) -> State:
        raise error

    return app_of(act)


def in_a_stream(error):
    @streaming_action(reads=[], writes=["x"])
    def act(state: State):
        yield {"x": "said"}, None
        raise error

    return ApplicationBuilder().with_actions(act=act).with_entrypoint("act").build()


def in_a_condition(error):
    def ask(state):
        raise error

    @action(reads=[], writes=["x"])
    def act(state: State) -> State:
        return state.update(x=1)

    builder = ApplicationBuilder().with_actions(act=act, after=act)
    way = ("act", "after", Condition(["x"], ask, name="asks"))
    return builder.with_transitions(way).with_entrypoint("act").build()


def in_a_tool(error):
    @tool
    def use(n: int) -> int:
        raise error

    return app_of(lambda state: state.update(x=use(1)))


def in_a_task(error):
    class Each(task_apps.EachWord):
        def action(self, state, inputs):
            def search(state: State) -> State:
                raise error

            return action(reads=["word"], writes=["found"])(search)

    builder = ApplicationBuilder().with_actions(each=Each()).with_state(words=["plum"])
    return builder.with_entrypoint("each").build()


PLACES = [in_a_step, in_an_async_step, in_a_stream, in_a_condition, in_a_tool, in_a_task]


@pytest.mark.parametrize("place", PLACES)
def test_an_exception_that_quotes_a_key_passes_and_is_written_down_without_it(place, file):
    error = Quoting(f"the server refused {KEY}")
    with Store(file) as store:
        rw = Rewind(place(error), store=store)
        with pytest.raises(Quoting) as caught:
            rw.run()
        run = rw.last_run

        assert caught.value is error
        assert error.args == (f"the server refused {KEY}",)
        assert run.status == "failed"
        said = [run.note or "", *(s.error.message for s in run.walk() if s.error)]
        assert any("the server refused ***" in words for words in said)
        assert KEY not in repr(run) + repr([step.to_dict() for step in run.steps])
        store.verify()
    assert KEY not in everything_in(file)


@pytest.mark.parametrize("place", [in_a_step, in_an_async_step, in_a_tool, in_a_task])
def test_a_failure_that_quotes_a_key_is_replayed(place, store):
    rw = Rewind(place(Quoting(KEY)), store=store)
    with pytest.raises(Quoting):
        rw.run()

    assert rw.replay(rw.last_run).require().live_calls == 0


def test_a_failure_in_an_application_that_the_user_drives_is_written_down(file):
    error = Quoting(KEY)
    with Store(file) as store:
        rw = Rewind(in_a_step(error), store=store)
        with pytest.raises(Quoting) as caught:
            rw.application().step()

        assert caught.value is error
        assert rw.last_run.refresh().status == "failed"
    assert KEY not in everything_in(file)


def test_an_exception_whose_class_is_named_after_a_key_is_written_down_without_it(file):
    named = type(f"E {KEY}", (Exception,), {})
    with Store(file) as store:
        rw = Rewind(in_a_condition(named("no")), store=store)
        with pytest.raises(named):
            rw.run()

        assert (rw.last_run.status, rw.last_run.note) == ("failed", "E ***: no")
    assert KEY not in everything_in(file)


def test_what_a_failed_step_gathered_under_the_name_of_a_key_does_not_hide_its_failure(file):
    def act(state: State) -> State:
        return state.update(x=state[KEY])

    with Store(file) as store:
        rw = Rewind(app_of(act), store=store)
        with pytest.raises(KeyError):
            rw.run()

        assert rw.last_run.status == "failed"
        assert rw.last_run[0].error.type == "KeyError"
        assert rw.last_run[0].absent == ("***",)
    assert KEY not in everything_in(file)


def test_what_a_failed_step_drew_and_made_a_key_of_does_not_hide_its_failure(file):
    import secrets
    import time

    made = []

    def act(state: State) -> State:
        while not (drawn := secrets.token_urlsafe(12)).isalnum():  # as its tape spells it
            pass
        time.time()
        made.append(Secret(drawn))
        raise Quoting("no")

    with Store(file) as store:
        rw = Rewind(app_of(act), store=store)
        with pytest.raises(Quoting):
            rw.run()

        assert rw.last_run[0].error.message == "no"
        assert [call.name for call in rw.last_run[0].calls] == ["time.time"]
    assert made[0].reveal() not in everything_in(file)


def test_a_chunk_with_a_key_is_refused_before_it_goes_out(file):
    @streaming_action(reads=[], writes=["x"])
    def act(state: State):
        yield {"x": "fine"}, None
        yield {"x": KEY}, None
        yield {"x": "end"}, state.update(x="end")

    app = ApplicationBuilder().with_actions(act=act).with_entrypoint("act").build()
    with Store(file) as store:
        rw = Rewind(app, store=store)
        with pytest.raises(SecretLeakError, match=r"^@stream\[1\]"):
            rw.run()

        assert rw.last_run.status == "failed"
        assert rw.last_run[0].status == "failed"
        assert rw.last_run[0].stream == ({"x": "fine"},)
    assert KEY not in everything_in(file)


def test_a_call_that_is_named_after_a_key_is_refused_before_it_is_made(file):
    made = []

    @tool(name=f"ask with {KEY}")
    def ask() -> int:
        made.append(1)
        raise Quoting("no")

    with Store(file) as store:
        rw = Rewind(app_of(lambda state: state.update(x=ask())), store=store)
        with pytest.raises(SecretLeakError):
            rw.run()

        assert not made
        assert rw.last_run.status == "failed"
    assert KEY not in everything_in(file)


def test_a_key_in_the_url_of_a_model_that_cannot_be_reached_does_not_hide_the_failure(file):
    key = Secret("sk-in-the-path-0123456789").reveal()
    with ws.WireServer() as server:
        url = f"{server.url}/v1beta/models/{key}:generateContent"
    with Store(file) as store:
        rw = Rewind(app_of(lambda state: httpx.post(url, json={})), store=store)
        with pytest.raises(httpx.ConnectError):
            rw.run()

        assert rw.last_run.status == "failed"
        assert rw.last_run[0].calls[0].model == "***"
    assert key not in everything_in(file)


# -- exceptions that cannot say what they are -----------------------------------------------


class NoStr(Exception):
    def __str__(self):
        raise RuntimeError("no str")


class NoRepr(Exception):
    def __repr__(self):
        raise RuntimeError("no repr")

    __str__ = __repr__


class NoText(Exception):
    def __str__(self):
        return 5  # noqa: PLE0307


class NoArgs(Exception):
    @property
    def args(self):
        raise RuntimeError("no args")


class NoArgsNoStr(NoArgs, NoStr):
    pass


class NoRaw(Exception):
    @property
    def raw(self):
        raise RuntimeError("no raw")


class NoNotes(Exception):
    __notes__ = 3


class Unshowable:
    def __repr__(self):
        raise RuntimeError("no repr of this")


SILENT = {
    "str": (NoStr("a", 1), "<NoStr('a', 1): its str raised RuntimeError>"),
    "repr": (NoRepr("a"), "<NoRepr('a'): its str raised RuntimeError>"),
    "not text": (NoText(), "<NoText(): its str raised TypeError>"),
    "args": (NoArgs("a"), "a"),
    "args and str": (NoArgsNoStr("a"), "<NoArgsNoStr('a'): its str raised RuntimeError>"),
    "raw": (NoRaw("a"), "a"),
    "notes": (NoNotes("a"), "a"),
    "an argument": (
        NoStr(Unshowable()),
        "<NoStr(<Unshowable: its repr raised RuntimeError>): its str raised RuntimeError>",
    ),
    "a key": (NoStr(KEY), "<NoStr('***'): its str raised RuntimeError>"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("error", "message"), SILENT.values(), ids=SILENT)
def test_an_exception_that_raises_when_it_is_asked_passes_and_is_written_down(
    place, error, message, file
):
    error.__dict__.pop("__notes__", None)
    with Store(file) as store:
        rw = Rewind(place(error), store=store)
        with pytest.raises(type(error)) as caught:
            rw.run()
        run = rw.last_run

        assert caught.value is error
        assert run.status == "failed"
        assert any(note.startswith("rewind_nb: run ") for note in error.__notes__)
        if place is in_a_condition:
            assert run.note == f"{type(error).__name__}: {message}"
        else:
            assert run[0].error.message == message
    assert KEY not in everything_in(file)


@pytest.mark.parametrize("place", [in_a_step, in_a_tool, in_a_task])
@pytest.mark.parametrize(("error", "_"), SILENT.values(), ids=SILENT)
def test_the_failure_of_an_exception_that_says_nothing_is_replayed(place, error, _, store):
    rw = Rewind(place(error), store=store)
    with pytest.raises(type(error)):
        rw.run()

    assert rw.replay(rw.last_run).require().live_calls == 0


@pytest.mark.parametrize("name", ["run_started", "step_started", "step_ended"])
def test_a_hook_that_raises_what_says_nothing_fails_nothing(name, store):
    def hook(event):
        if event.name == name:
            raise NoStr("a", KEY)

    run = Rewind(holding(1), store=store, hooks=[hook]).run()

    assert run.status == "complete"
    assert run.note == (
        f"a hook raised NoStr on {name}: <NoStr('a', '***'): its str raised RuntimeError>"
    )


def test_the_command_line_says_what_can_be_said():
    error = NoStr("a")
    error.__notes__ = [3, "rewind_nb: run r_1 stopped"]

    assert cli.paragraph(error) == (
        "NoStr: <NoStr('a'): its str raised RuntimeError>. Run r_1 stopped."
    )


# -- where a key can hide in a value --------------------------------------------------------


def escaped(text, every=1):
    r"""As JSON may write it: ``\u0073k``."""
    return "".join(f"\\u{ord(c):04x}" if i % every == 0 else c for i, c in enumerate(text))


def hidden(text):
    """One value per way of hiding a text in it."""
    return {
        "text": f"the key is {text}",
        "beside a lone surrogate": f"\ud800{text}\udfff",
        "bytes": b"\x00\xff" + text.encode(),
        "bytearray": bytearray(text.encode()),
        "bytes of UTF-16": text.encode("utf-16"),
        "bytes of UTF-32": text.encode("utf-32-be"),
        "bytes of JSON": f'{{"key": "{escaped(text)}"}}'.encode(),
        "array of S": np.array([b"a", text.encode()]),
        "array of U": np.array([["a"], [text]]),
        "array of U, swapped": np.array(["a", text]).astype(">U40"),
        "array of U in two halves": np.array([text[:11], text[11:]]),
        "array of characters": np.array(list(text)),
        "array of uint8": np.frombuffer(text.encode(), "u1"),
        "array of int8": np.frombuffer(text.encode(), "i1"),
        "array of objects": np.array([None, [text]], object),
        "array of objects, bytes": np.array([None, text.encode()], object),
        "numpy scalar": np.str_(text),
        "numpy scalar of bytes": np.bytes_(text.encode()),
        "table": pd.DataFrame({"a": [1, 2], "b": ["x", text]}),
        "index": pd.Series([1], index=[text]),
        "categories": pd.Series(["x", text], dtype="category"),
        "JSON": json.dumps({"key": text}),
        "escaped JSON": f'{{"key": "{escaped(text)}"}}',
        "partly escaped JSON": f'{{"key": "{escaped(text, 3)}"}}',
        "JSON in JSON in JSON": json.dumps(json.dumps(f'{{"key": "{escaped(text)}"}}')),
        "slashes escaped": json.dumps({"key": text}).replace("/", "\\/"),
        "a Basic header": "Basic " + base64.b64encode(f"me:{text}".encode()).decode(),
        "a set": {"a", text},
        "a key of a dict": {text: 1},
        "an escaped key of a dict": {escaped(text): 1},
        "a key of a dict with other keys": {1: 2, f"\ud800{text}": 3},
    }


HIDDEN = hidden(KEY)
HARMLESS = hidden("nothing/+ that is secret")


@pytest.mark.parametrize("how", HIDDEN)
def test_a_value_in_which_a_key_hides_is_refused_with_its_path(how, file):
    with Store(file) as store:
        rw = Rewind(app_of(lambda state: state.update(x=[0, {"in": HIDDEN[how]}])), store=store)
        with pytest.raises(SecretLeakError) as caught:
            rw.run()

        assert caught.value.path.startswith("x[1].in")
        assert str(caught.value).startswith(f"{caught.value.path}: it holds a registered API key")
        assert not contains_secret(str(caught.value))
        assert rw.last_run.status == rw.last_run[0].status == "failed"
    assert KEY not in everything_in(file)


@pytest.mark.parametrize("how", HARMLESS)
def test_a_value_of_the_same_form_without_a_key_is_stored(how, store):
    run = Rewind(holding(HARMLESS[how]), store=store).run()

    assert run.status == "complete"


def test_arrays_of_numbers_are_not_taken_for_text(store):
    numbers = np.frombuffer(np.array(KEY).tobytes(), "<u4")  # its code points, which is no text

    assert Rewind(holding(numbers), store=store).run().status == "complete"


WAYS_IN = {
    "x": lambda rw: rw.run(state={"x": {"deep": [KEY]}}),
    "@inputs.given": lambda rw: rw.run(inputs={"given": {"deep": [KEY]}}),
}


@pytest.mark.parametrize("root", WAYS_IN)
def test_state_and_inputs_are_refused_before_anything_executes(root, file):
    def act(state: State, given: object = None) -> State:
        raise AssertionError

    with Store(file) as store:
        rw = Rewind(app_of(act), store=store)
        with pytest.raises(SecretLeakError, match=re.escape(f"{root}.deep[0]: it holds")):
            WAYS_IN[root](rw)
    assert KEY not in everything_in(file)


@pytest.mark.parametrize(
    ("given", "returned", "path"),
    [
        (bytearray(KEY.encode()), None, "@calls[0].request.args.what"),
        (None, {"deep": np.array([KEY])}, "@calls[0].response.deep"),
    ],
)
def test_the_arguments_and_the_result_of_a_tool_are_refused_with_their_path(
    given, returned, path, file
):
    @tool
    def use(what: object) -> object:
        return returned

    with Store(file) as store:
        rw = Rewind(app_of(lambda state: state.update(x=use(given) and 1)), store=store)
        with pytest.raises(SecretLeakError) as caught:
            rw.run()

        assert caught.value.path == path
    assert KEY not in everything_in(file)


def test_the_path_of_a_key_that_is_a_key_of_the_state_does_not_quote_it(store):
    batch = Batch()
    with pytest.raises(SecretLeakError) as caught:
        batch.value({"a": {KEY: 1}}, "x")

    assert caught.value.path == 'x.a["***"]'
    assert KEY not in repr(caught.value)


@pytest.mark.parametrize(
    "name", [KEY, f"\ud800{KEY}", f"\ud800{KEY[:2]}\\u002dCANARY-5e1f7a/+9c2b"]
)
def test_an_action_that_is_named_after_a_key_is_refused(name, file):
    act = action(reads=[], writes=["x"])(lambda state: state.update(x=1))
    app = ApplicationBuilder().with_actions(**{name: act}).with_entrypoint(name).build()
    with Store(file) as store, pytest.raises(SecretLeakError):
        Rewind(app, store=store).run()
    assert "CANARY" not in everything_in(file)


@pytest.mark.parametrize("label", [KEY, f"\ud800{KEY}", escaped(KEY), f"\0{KEY}"])
def test_a_row_in_which_a_key_hides_is_refused(label):
    with pytest.raises(SecretLeakError, match="A name to be stored"):
        Batch().add(run_row("r_1", label=label))
    Batch().add(run_row("r_1", label=label.replace("sk", "").replace(escaped("sk"), "")))


@pytest.mark.parametrize("width", ["utf-8", "utf-16", "utf-32-be"])
def test_an_artifact_in_which_a_key_hides_is_not_written(width, tmp_path):
    def act(state: State) -> State:
        artifact("page.json", f'{{"key": "{escaped(KEY)}"}}'.encode(width))
        return state.update(x=1)

    with Store(":memory:") as store, pytest.raises(SecretLeakError):
        Rewind(app_of(act), store=store).run()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


# -- however it is written ------------------------------------------------------------------

chars = st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="*")
keys = st.text(chars, min_size=8, max_size=40).filter(lambda k: len(k.replace("\\", "")) >= 8)


@st.composite
def spellings(draw):
    """(key, the documents around it): JSON in JSON, any character written as an escape."""
    key = draw(keys)
    document = draw(st.text(max_size=8)) + key + draw(st.text(max_size=8))
    for _ in range(draw(st.integers(1, 3))):
        plain = json.dumps(document, ensure_ascii=draw(st.booleans()))
        units = re.findall(r"\\u[0-9a-f]{4}|\\.|[^\\]", plain[1:-1])
        odd = draw(st.sets(st.integers(0, max(0, len(units) - 1))))
        upper = draw(st.booleans())
        document = (
            '"'
            + "".join(_escape(unit, upper) if i in odd else unit for i, unit in enumerate(units))
            + '"'
        )
    return key, document


_QUOTED = '"%s"'


def _escape(unit, upper):
    if len(unit) > 2:
        return unit
    code = f"{ord(json.loads(json.dumps(unit) if len(unit) == 1 else _QUOTED % unit)):04x}"
    return f"\\u{code.upper() if upper else code}" if len(code) == 4 else unit


def read_through(document):
    """The text in JSON in JSON ..., and the one in each of them."""
    while isinstance(document, str):
        yield document
        try:
            document = json.loads(document)
        except ValueError:
            return


@given(spellings())
def test_a_key_is_found_and_masked_however_json_writes_it(spelling):
    key, document = spelling
    _redact._registry = _redact._Registry()
    register_secret(key)

    assert any(key in text for text in read_through(document))
    assert contains_secret(document)
    assert contains_secret(document.encode("utf-8", "surrogatepass"))
    clean = redact(document)
    assert not contains_secret(clean)
    assert not any(key in text for text in read_through(clean))


@given(keys, st.sampled_from(["utf-8", "utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"]))
def test_a_key_is_found_and_masked_in_text_of_any_width(key, width):
    _redact._registry = _redact._Registry()
    register_secret(key)
    data = f"before {key} after".encode(width)

    assert contains_secret(data)
    assert key not in redact_bytes(data).decode(width, "replace")


@given(st.recursive(st.text(max_size=12), lambda inner: st.lists(inner, max_size=3)))
def test_json_without_a_key_comes_back_as_it_was(value):
    document = json.dumps(json.dumps(value))

    assert not contains_secret(document)
    assert redact(document) is document


def test_a_run_of_backslashes_costs_no_time():
    text = "\\" * 100_000 + "x"

    assert redact(text + escaped(KEY)) == text + "***"


# -- what a provider echoes -----------------------------------------------------------------


def as_json(value, spelled):
    """The JSON of a value in which the key stands as *spelled*."""
    return json.dumps(value).replace("THE-KEY", spelled).encode()


SPELLED = {
    "escapes": escaped(KEY),
    "upper case": escaped(KEY).upper().replace("\\U", "\\u"),
    "some escapes": escaped(KEY, 2),
    "escaped slashes": KEY.replace("/", "\\/"),
    "JSON in it": json.dumps(f'{{"key": "{escaped(KEY)}"}}')[1:-1],
}


@pytest.mark.parametrize("spelled", SPELLED.values(), ids=SPELLED)
def test_a_reply_that_spells_the_key_is_recorded_and_handed_on_without_it(spelled, file):
    body = as_json(fp.chat_completion("your key is THE-KEY, is it?"), spelled)
    reply = fp.Answer(body, headers={"content-type": "application/json"})
    with fp.FakeProvider(then=reply) as provider, Store(file) as store:
        chat = ChatModel(provider.base_url, "toy", api_key=KEY)
        rw = Rewind(app_of(lambda state: state.update(x=chat.chat("q").text)), store=store)
        run = rw.run()

        call = run[0].calls[0]
        assert re.fullmatch(r"your key is .*\*\*\*.*, is it\?", call.text)
        assert call.text == run.state["x"]
        assert json.loads(call.response["body"])["id"] == "chatcmpl-1"
        assert not contains_secret(repr(run[0].to_dict()))
        assert rw.replay(run).ok
    assert KEY not in everything_in(file)


@pytest.mark.parametrize("spelled", SPELLED.values(), ids=SPELLED)
def test_an_error_that_spells_the_key_is_recorded_without_it(spelled, file):
    body = as_json({"error": {"message": "Incorrect API key: THE-KEY"}}, spelled)
    reply = fp.Answer(body, 401, {"content-type": "application/json", "x-echo": spelled})
    with fp.FakeProvider(then=reply) as provider, Store(file) as store:
        chat = ChatModel(provider.base_url, "toy", api_key=KEY)
        rw = Rewind(app_of(lambda state: state.update(x=chat.chat("q").text)), store=store)
        with pytest.raises(StepFailure) as caught:
            rw.run()

        assert not contains_secret(repr((caught.value, vars(caught.value))))
        assert not contains_secret(repr(rw.last_run[0].to_dict()))
        assert rw.last_run.status == "failed"
        assert rw.replay(rw.last_run).ok
    assert KEY not in everything_in(file)


@pytest.mark.parametrize("spelled", SPELLED.values(), ids=SPELLED)
def test_a_stream_that_spells_the_key_is_recorded_without_it(spelled, file):
    events = [event.replace("THE-KEY", spelled) for event in ws.openai_events("it", "THE-KEY")]
    with ws.WireServer(then=ws.streamed(*events)) as server, Store(file) as store:

        def act(state: State) -> State:
            headers = {"authorization": f"Bearer {KEY}"}
            asked = {"model": "toy", "stream": True, "messages": []}
            url = f"{server.url}/v1/chat/completions"
            with httpx.stream("POST", url, headers=headers, json=asked) as answer:
                return state.update(x=len(list(answer.iter_lines())))

        run = Rewind(app_of(act), store=store).run()

        assert "***" in run[0].calls[0].text
        assert not contains_secret(repr(run[0].to_dict()))
    assert KEY not in everything_in(file)


def test_the_text_of_a_stream_that_spells_the_key_chunk_by_chunk_does_not_show_it(store):
    events = ws.openai_events("it is ", KEY[:7], KEY[7:12], KEY[12:])
    with ws.WireServer(then=ws.streamed(*events)) as server:

        def act(state: State) -> State:
            asked = {"model": "toy", "stream": True, "messages": []}
            with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=asked) as answer:
                return state.update(x=len(list(answer.iter_lines())))

        run = Rewind(app_of(act), store=store).run()

    assert run[0].calls[0].text == "it is ***"


# -- what a person sees ---------------------------------------------------------------------


class Shouting:
    def __repr__(self):
        return f"<shouting {HOSTILE}>"


@pytest.fixture
def hostile(store):
    """(Rewind, failed run, its fork) of an application in which everything is hostile."""

    @action(reads=[HOSTILE], writes=[HOSTILE, "seen"])
    def first(state: State) -> State:
        return state.update(**{HOSTILE: pd.Series([HOSTILE]), "seen": state[HOSTILE]})

    def second(state: State) -> State:
        raise type("Loud\x1b[2J\u202e", (Exception,), {})(HOSTILE)

    actions = {f"first{HOSTILE}": first, "second": action(reads=[], writes=["y"])(second)}
    builder = ApplicationBuilder().with_actions(**actions).with_state(**{HOSTILE: "start"})
    builder = builder.with_transitions((f"first{HOSTILE}", "second"))
    app = builder.with_entrypoint(f"first{HOSTILE}").build()

    def hook(event):
        raise ValueError(HOSTILE)

    rw = Rewind(app, store=store, hooks=[hook])
    with pytest.raises(Exception, match="gnp"):
        rw.run(label=HOSTILE)
    run = rw.last_run
    with pytest.raises(Exception, match="gnp"):
        rw.fork(run, at=0, output={"seen": HOSTILE, HOSTILE: pd.Series([f"{HOSTILE}!"])})
    return rw, run, rw.last_run


def test_no_repr_commands_the_terminal(hostile):
    rw, run, fork = hostile
    diff = rw.diff(run, fork)
    proof = rw.replay(run)
    shown = [
        *(rw, run, fork, diff, proof, *run.steps, *fork.steps),
        *(diff.divergence, *diff.changes, *fork.overrides, fork.origin, rw.store.verify()),
    ]

    for value in shown:
        assert repr(value).isprintable(), type(value)
        assert str(value).replace("\n", "").isprintable(), type(value)


def test_no_call_commands_the_terminal(store):
    name = f"toy{HOSTILE}"
    with fp.FakeProvider(then=fp.completion("hi", model=f"{name}!")) as provider:
        chat = ChatModel(provider.base_url, name)
        run = Rewind(app_of(lambda state: state.update(x=chat.chat("q").text)), store=store).run()

    assert repr(run[0].calls[0]).isprintable()
    assert "answered by toy" in repr(run[0].calls[0])


def test_no_error_and_no_note_commands_the_terminal(store):
    def act(state: State) -> State:
        return state.update(**{f"x{HOSTILE}": Shouting()})

    act = action(reads=[], writes=[f"x{HOSTILE}"])(act)
    builder = ApplicationBuilder().with_actions(**{f"act{HOSTILE}": act})
    rw = Rewind(builder.with_entrypoint(f"act{HOSTILE}").build(), store=store)
    with pytest.raises(NotEncodableError) as caught:
        rw.run()

    assert str(caught.value).isprintable()
    assert all(note.isprintable() for note in caught.value.__notes__)
    assert str(RewindError(f"a\n{HOSTILE}")).replace("\n", "").isprintable()
    assert str(RewindError("two\nlines")) == "two\nlines"


def test_a_value_whose_class_is_not_loaded_does_not_command_the_terminal():
    node = {"$": "dataclass", "c": f"shop:Order{HOSTILE}", "v": {"a": f"{HOSTILE} {KEY}"}}
    shown = repr(decode(json.dumps(node).encode(), strict=False))

    assert shown.isprintable()
    assert KEY not in shown


def test_no_traceback_on_the_command_line_commands_the_terminal():
    def fail():
        raise ValueError(f"{HOSTILE} {KEY}")

    result = CliRunner().invoke(cli.Command("fail", callback=fail), ["--debug"])

    assert "Traceback" in result.output
    assert KEY not in result.output
    assert all(line.isprintable() for line in result.output.split("\n"))
    assert len(result.output.split("\n")) > 3


# -- keys that are known by the name they are given under ---------------------------------------


HEADERED = {"extra": [{"headers": {"Authorization": "Bearer tok-4711-unregistered"}}]}
GIVEN = {  # an axis, and a value of it
    "params.api_key": "tok-4711-unregistered",
    "params": {"api_key": "tok-4711-unregistered"},
    "params.token": "tok-4711-unregistered",
    "params.x-api-key": "tok-4711-unregistered",
    "params.extra_headers": {"authorization": "Bearer tok-4711-unregistered"},
    "params.nested": HEADERED,
    "state.config": HEADERED,
    "state.api_key": "tok-4711-unregistered",
    "output.x": {"X_API_KEY": "tok-4711-unregistered"},
    "patch": [{"op": "add", "path": "/x/api_key", "value": "tok-4711-unregistered"}],
    "patch.x.api_key": "tok-4711-unregistered",
    "inputs.config": {"client_secret": b"tok-4711-unregistered"},
    "tool_args": {"access_token": "tok-4711-unregistered"},
}


@pytest.fixture
def asking(file):
    with fp.FakeProvider(then=lambda seen: fp.completion("yes")) as server:
        model = ChatModel(server.base_url, "toy", api_key=Secret("sk-own-0123456789"))

        @tool
        def look(access_token):
            return access_token

        def act(state, config="none"):
            state["config"], state["api_key"], look("none")
            return state.update(x={"api_key": model.chat("hello").text})

        rw = Rewind(app_of(act, ["config", "api_key"], config="none", api_key="none"), store=file)
        yield rw, rw.run(inputs={"config": "none"}), server, file
        rw.store.close()


@pytest.mark.parametrize("axis", GIVEN)
def test_a_key_that_an_override_gives_by_its_name_is_refused_and_never_stored(asking, axis):
    rw, run, server, file = asking
    kind, _, field = axis.partition(".")
    before, value = server.count, GIVEN[axis]
    over = {field: value} if field else value
    asked = [
        lambda: rw.grid(run, "act", {axis: [value]}),
        lambda: rw.grid(run, "act", {axis: [..., value]}, start=False),
        lambda: rw.sweep(run, "act", {axis: [value]}, check="x exists"),
        lambda: rw.flip(run, "act", axis, "x exists", candidates=[value]),
        lambda: rw.fork(run, "act", **{kind: over}),
    ]
    for ask in asked:
        with pytest.raises(SecretLeakError, match="gives a credential") as refused:
            ask()
        assert "unregistered" not in f"{refused.value!r} {refused.value.path}"
        assert "Keep the key in a Secret" in str(refused.value)

    assert redact("tok-4711-unregistered") == "***"
    assert server.count == before
    assert rw.store.experiments() == []
    rw.store.flush()
    assert "unregistered" not in everything_in(file)


def test_a_cell_whose_function_gives_a_key_is_refused_and_the_key_never_stored(asking):
    rw, run, server, file = asking
    given = [lambda body: {"api_key": "tok-4711-unregistered"}, lambda body: {"seed": 1}]
    grid = rw.grid(run, "act", {"params": given})
    rw.store.flush()

    assert grid.df.status.tolist()[1:] == ["refused", "complete"]
    assert "SecretLeakError: params= gives a credential (api_key)" in grid.df.error[1]
    assert "unregistered" not in f"{grid!r} {grid._repr_html_()} {grid.df.to_json()}"
    assert "unregistered" not in everything_in(file)


@pytest.mark.parametrize(
    "params",
    [
        {"key": "population"}, {"max_tokens": 5}, {"stop": ["token"]}, {"seed": 7},
        {"logit_bias": {"token": "x"}}, {"api_key": None}, {"api_key": ""}, {"page_token": "b"},
    ],
)  # fmt: skip
def test_what_only_sounds_like_a_key_is_no_key(asking, params):
    rw, run, *_ = asking

    assert rw.fork(run, "act", params=params).status == "complete"


def test_a_field_of_the_state_that_may_be_what_an_application_is_about_is_no_key(asking):
    rw, run, *_ = asking
    fork = rw.fork(run, "act", state={"config": {"password": "hunter2hunter2", "token": "the"}})

    assert fork.status == "complete"
