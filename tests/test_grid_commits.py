"""What a grid writes at once, and what it goes on from before it is written."""

import json
import sqlite3

import pytest
from burr.core import ApplicationBuilder, State, action
from grids import app, chat, provider
from recorder import run_row, step_row

from rewind_nb import ChatModel, Rewind, Store
from rewind_nb._store import Batch, _build
from rewind_nb._store._contents import Recent
from rewind_nb._store._statements import execute, gathered
from rewind_nb.experiments._trials import Trial, Trials

TABLES = ("runs", "steps", "contents", "blobs", "ledger")


@pytest.fixture
def server():
    with provider() as running:
        yield running


def opened():
    """A database with the tables of a store."""
    made = sqlite3.connect(":memory:", isolation_level=None)
    _build.create_tables(made)
    return made


def rows_in(raw):
    return {name: raw.execute(f"SELECT * FROM {name}").fetchall() for name in TABLES}


def batches(runs, size):
    """What as many runs write side by side: they start, open a step, end it."""
    rows = [run_row(f"r_{n}") for n in range(runs)]
    for row in rows:
        batch = Batch()
        batch.add(row)
        yield batch
    for status in ("open", "complete"):
        for n, row in enumerate(rows):
            batch = Batch()
            batch.value({"step": n, "status": status, "of": "x" * size})
            batch.blob(b"%d" % n)
            batch.replace(step_row(row.id, 0, status=status), after="")
            yield batch


@pytest.mark.parametrize("size", [10, 2000])  # the large ones as what is new in them
@pytest.mark.parametrize("runs", [1, 2, 3, 7, 64, 100])
def test_batches_that_go_in_together_write_what_they_write_one_by_one(runs, size):
    recent = Recent()
    statements = [batch.statements(recent) for batch in batches(runs, size)]
    together, alone = opened(), opened()
    execute(together, gathered(statements))
    for one in statements:
        execute(alone, one)
    assert rows_in(together) == rows_in(alone)
    assert len(rows_in(alone)["steps"]) == runs


class Counting:
    """A connection that counts how often SQLite is called."""

    def __init__(self, raw):
        self.raw, self.calls = raw, 0

    def execute(self, sql, values):
        self.calls += 1
        return self.raw.execute(sql, values)

    def executemany(self, sql, rows):
        self.calls += len(rows)
        return self.raw.executemany(sql, rows)


def test_many_batches_take_few_calls_of_sqlite():
    recent = Recent()
    statements = [batch.statements(recent) for batch in batches(50, 10)]
    together, alone = Counting(opened()), Counting(opened())
    execute(together, gathered(statements))
    for one in statements:
        execute(alone, one)
    assert alone.calls == 350
    assert together.calls < 50


def test_all_that_came_before_it_is_in_the_file_when_a_grid_has_paid_for_a_call(tmp_path, server):
    path = tmp_path / "runs.db"
    seen = []

    @action(reads=[], writes=["x"])
    def begin(state: State) -> State:
        return state.update(x="begin")

    def asking(name):
        @action(reads=["x"], writes=["x"])
        def ask(state: State, model: ChatModel) -> State:
            model.chat(json.dumps({"price": len(state["x"]), "of": f"{name} {state['x']}"}))
            with sqlite3.connect(path) as other:
                found = other.execute(
                    "SELECT run_id, action, status FROM steps WHERE run_id IN"
                    " (SELECT id FROM runs WHERE experiment IS NOT NULL)"
                    " AND action = 'one' AND status = 'complete'"
                ).fetchall()
            seen.append((name, len(found)))
            return state.update(x=f"{state['x']}.")

        return ask

    built = (
        ApplicationBuilder()
        .with_actions(
            begin,
            one=asking("one").bind(model=chat(server)),
            two=asking("two").bind(model=chat(server)),
        )
        .with_transitions(("begin", "one"), ("one", "two"))
        .with_entrypoint("begin")
        .build()
    )
    rw = Rewind(built, store=path)
    run = rw.run()
    seen.clear()
    rw.grid(run, "begin", {"output.x": ["a", "bb", "ccc"]}, max_workers=1)

    assert [count for name, count in seen if name == "two"] == [1, 2, 3]


def test_what_is_known_of_a_run_that_just_ended_is_what_the_store_has(server, store):
    rw = Rewind(app(chat(server)), store=store)
    run = rw.run()
    trials = Trials(rw, "e_00000000")
    values = (
        [("state", {"units": 3}, 0)],
        [("state", {"units": 10}, 0)],
        [],
        [("output", {"price": -1}, 0)],
    )
    for n, given in enumerate(values):
        tried = trials.make(Trial(f"k{n}", run.id, "quote", tuple(given)))
        known, read = tried.run(store), Store.run(store, tried.run_id)
        assert known.state == read.state
        assert list(known.state) == list(read.state)
        assert (known.state_hash, known.status, known.note) == (
            read.state_hash,
            read.status,
            read.note,
        )
