"""A key that was passed where a name belongs is in no error, nor in what stands behind one."""

import json
import pickle
import traceback

import pytest
from burr.core import ApplicationBuilder, State, action
from click.testing import CliRunner

from rewind_nb import Rewind, Secret, Store, cli, tool
from rewind_nb.errors import RewindError, RunNotFoundError

KEY = 'sk-NAME-4711/+a=&"quoted"\'\\end'
SPELLED = (KEY, repr(KEY)[1:-1], json.dumps(KEY)[1:-1], KEY[:20])


@tool
def find(word):
    return word


@tool(effect=True)
def send(word):
    return word


@action(reads=["a"], writes=["b"])
def make(state: State, word: str = "x") -> State:
    return state.update(b=[find(state["a"]), send(word)])


@action(reads=["b"], writes=["c"])
def close(state: State) -> State:
    return state.update(c=len(state["b"]))


@pytest.fixture
def rw(tmp_path):
    Secret(KEY)
    app = (
        ApplicationBuilder()
        .with_actions(make, close)
        .with_transitions(("make", "close"))
        .with_state(a="x")
        .with_entrypoint("make")
        .build()
    )
    with Store(tmp_path / "runs.db") as store:
        yield Rewind(app, store=store)


RUN = {
    "halt_after": [KEY],
    "halt_after bare": KEY,
    "halt_after tag": [f"@tag:{KEY}"],
    "halt_before": [KEY],
    "inputs": KEY,
    "inputs of": {KEY: 1},
    "inputs that are keys": {"word": KEY},
    "state": KEY,
    "state of": {KEY: 1},
    "cache": KEY,
    "label": KEY,
}
FORK = {
    "at": KEY,
    "at visit": (KEY, 1),
    "at nothing": (KEY, KEY),
    "at list": [KEY],
    "output": {KEY: 1},
    "output bare": KEY,
    "output value": {"b": KEY},
    "patch": {KEY: 1},
    "patch path": {f"b.{KEY}": 1},
    "patch operation": [{"op": KEY, "path": "/b"}],
    "patch pointer": [{"op": "replace", "path": f"/b/{KEY}", "value": 1}],
    "patch bare": KEY,
    "state": {KEY: 1},
    "state bare": KEY,
    "inputs": {KEY: 1},
    "prompt": KEY,
    "messages": [{"role": KEY, "content": "x"}],
    "model": KEY,
    "temperature": KEY,
    "params": {KEY: 1},
    "response": KEY,
    "tool_args": {KEY: 1},
    "tool_args bare": KEY,
    "tool_result": {KEY: KEY},
    "action": {KEY: make},
    "action bare": KEY,
    "call": KEY,
    "reuse": KEY,
    "cache": KEY,
    "effects": KEY,
    "effects of": {KEY: 1},
    "halt_after": [KEY],
    "halt_before": KEY,
    "label": KEY,
    "sample": KEY,
    "max_steps": KEY,
    "allow_code_change": KEY,
}
OTHERS = {
    "store.run": lambda rw, run: rw.store.run(KEY),
    "store.row": lambda rw, run: rw.store.row(KEY),
    "fork": lambda rw, run: rw.fork(KEY, 0),
    "resume": lambda rw, run: rw.resume(KEY),
    "replay": lambda rw, run: rw.replay(KEY),
    "replay start": lambda rw, run: rw.replay(run, start=KEY),
    "replay hooks": lambda rw, run: rw.replay(run, hooks=KEY),
    "diff": lambda rw, run: rw.diff(run, KEY),
    "diff why": lambda rw, run: rw.diff(run, run).why(KEY),
    "rerun_from": lambda rw, run: rw.rerun_from(KEY),
    "step": lambda rw, run: run[KEY],
    "visit": lambda rw, run: run[KEY, 1],
    "state_at": lambda rw, run: run.state_at(KEY),
    "keyword": lambda rw, run: __import__("asyncio").run(rw.afork(run, 0, **{KEY: 1})),
    "two": lambda rw, run: rw.fork(run, 0, output={KEY: 1}, patch={KEY: 1}),
    "app": lambda rw, run: Rewind(KEY, store=":memory:"),
    "always_run": lambda rw, run: Rewind(rw._app, store=":memory:", always_run=[KEY]),
    "always_run bare": lambda rw, run: Rewind(rw._app, store=":memory:", always_run=KEY),
    "hooks": lambda rw, run: Rewind(rw._app, store=":memory:", hooks=KEY),
    "cache of all": lambda rw, run: Rewind(rw._app, store=":memory:", cache=KEY),
    "store": lambda rw, run: Store(f"/nowhere/{KEY[:4]}/{KEY}", read_only=True).runs(),
}


def check(raise_it):
    """What it raises, and all that a traceback, a repr, a log or a pickle would show of it."""
    try:
        raise_it()
    except Exception as error:
        shown = [*traceback.format_exception(error), repr(error), repr(vars(error))]
        if isinstance(error, RewindError):
            shown.append(repr(vars(pickle.loads(pickle.dumps(error)))))
        for text in shown:
            for form in SPELLED:
                assert form not in text, text.replace(form, "<KEY>")
        return error
    return None


@pytest.mark.parametrize("named", RUN)
def test_no_argument_of_a_run_is_quoted_with_a_key_in_it(rw, named):
    check(lambda: rw.run(**{named.split()[0]: RUN[named]}))


@pytest.mark.parametrize("named", FORK)
def test_no_argument_of_a_fork_is_quoted_with_a_key_in_it(rw, named):
    run = rw.run()
    given = {"at": 0, named.split()[0]: FORK[named]}
    assert check(lambda: rw.fork(run, **given)) is not None


@pytest.mark.parametrize("named", OTHERS)
def test_no_name_is_quoted_with_a_key_in_it(rw, named):
    run = rw.run()
    assert named in ("hooks", "diff why") or check(lambda: OTHERS[named](rw, run)) is not None


def test_the_facts_of_an_error_hold_no_key(rw):
    rw.run()
    error = check(lambda: rw.store.run(KEY))
    assert isinstance(error, RunNotFoundError)
    assert error.run_id == "***"
    nested = RewindError("x", names=(KEY, [KEY]), by={KEY: {"n": (KEY, 1)}}, n=3)
    assert (nested.names, nested.by, nested.n) == (("***", ["***"]), {"***": {"n": ("***", 1)}}, 3)


@pytest.mark.parametrize("command", ["show", "diff"])
def test_no_command_prints_a_key_that_it_was_given_as_a_name(rw, command):
    run = rw.run()
    names = [KEY] if command == "show" else [KEY, run.id]
    store = ["--store", str(rw.store.path)]
    told = CliRunner().invoke(cli.main, [command, *names, *store])
    assert told.exit_code != 0
    assert not any(form in told.output for form in SPELLED)
