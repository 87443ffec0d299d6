"""A store whose file goes away while it is open says so where somebody listens, and once."""

import gc
import logging
import subprocess
import sys

import pytest
from burr.core import ApplicationBuilder, State, action

from rewind_nb import Rewind, Store
from rewind_nb._store import Batch
from rewind_nb.errors import StoreMovedError

PROGRAM = """
import os, sys
from burr.core import ApplicationBuilder, State, action
from rewind_nb import Rewind, Store
from rewind_nb.errors import StoreMovedError

path, way = sys.argv[1:]

def vanish():
    for end in ("", "-wal", "-shm"):
        if os.path.exists(path + end):
            os.unlink(path + end)

@action(reads=["n"], writes=["n"])
def count(state: State) -> State:
    if state["n"] == 2:
        vanish()
    return state.update(n=state["n"] + 1)

builder = ApplicationBuilder().with_actions(count=count).with_transitions(("count", "count"))
app = builder.with_state(n=0).with_entrypoint("count").build()
store = Store(path)
rw = Rewind(app, store=store)
driven = rw.application()
caught = 0
for _ in range(5):
    try:
        rw.run() if way == "run" else driven.step()
    except StoreMovedError:
        caught += 1
if way == "with":
    with store:
        pass
print("caught", caught > 0)
"""


@pytest.mark.parametrize("way", ["run", "step", "with"])
def test_a_process_that_was_told_ends_without_a_word(tmp_path, way):
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "runs.db"), way],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "caught True\n", "")


@action(reads=["n"], writes=["n"])
def count(state: State) -> State:
    return state.update(n=state["n"] + 1)


def counting():
    builder = ApplicationBuilder().with_actions(count=count).with_transitions(("count", "count"))
    return builder.with_state(n=0).with_entrypoint("count").build()


def opened(path):
    store = Store(path)
    Rewind(counting(), store=store).application()
    store.flush()
    return store


def test_what_nobody_was_told_is_one_line_when_a_store_is_forgotten(tmp_path, capsys):
    path = tmp_path / "runs.db"
    store = opened(path)
    store.submit(Batch(), wake=False)
    path.unlink()
    del store
    gc.collect()

    said = capsys.readouterr().err
    assert said.startswith(f"rewind_nb: The store {path} was deleted or moved while it was open")
    assert said.count("\n") == 1


def test_closing_a_store_raises_what_nobody_was_told_and_no_more_than_that(tmp_path):
    path = tmp_path / "runs.db"
    store = opened(path)
    store.submit(Batch(), wake=False)
    path.unlink()
    with pytest.raises(StoreMovedError):
        store.close()
    store.close()

    other = opened(tmp_path / "other.db")
    other.submit(Batch(), wake=False)
    (tmp_path / "other.db").unlink()
    with pytest.raises(StoreMovedError):
        other.submit(Batch())
    other.close()


def test_a_step_that_cannot_be_written_down_shows_no_state_in_the_log(tmp_path, caplog):
    path = tmp_path / "runs.db"

    @action(reads=["n"], writes=["n"])
    def fail(state: State) -> State:
        path.unlink()
        raise LookupError("gone")

    @action(reads=["n"], writes=["n"])
    def go_on(state: State) -> State:
        return state.update(n=2)

    app = (
        ApplicationBuilder()
        .with_actions(go_on, fail)
        .with_transitions(("go_on", "fail"), ("fail", "go_on"))
        .with_state(n=1, word="tell nobody")
        .with_entrypoint("go_on")
        .build()
    )
    store = Store(path)
    driven = Rewind(app, store=store).application()
    with caplog.at_level(logging.DEBUG):
        driven.step()
        for _ in range(2):
            with pytest.raises(StoreMovedError):
                driven.step()
    assert "tell nobody" not in caplog.text
    store.close()
