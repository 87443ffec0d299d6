"""A row that is taken away is noticed, whatever table it was in and whoever refers to it."""

import dataclasses
import sqlite3

import pytest
from burr.core import ApplicationBuilder, State, action

from rewind_nb import Rewind, Store, artifact, random, tool
from rewind_nb._store import Batch
from rewind_nb._store import _schema as schema
from rewind_nb.demo import build
from rewind_nb.errors import RunBusyError, StoreCorruptError

TABLES = sorted(schema.metadata.tables)


@tool
def price(item: str) -> float:
    return len(item) * 1.5


@action(reads=[], writes=["item"])
def choose(state: State, item: str) -> State:
    return state.update(item=item, luck=random())


@action(reads=[], writes=["x"])
def stumble(state: State) -> State:
    raise RuntimeError("no call, no artifact")


@action(reads=["item"], writes=["total"])
def pay(state: State) -> State:
    total = price(state["item"])
    artifact("bill.txt", f"{state['item']}: {total}")
    artifact("copy.txt", f"{state['item']}: {total} (copy)")
    if state["item"] == "nothing":
        raise ValueError("there is nothing to pay for")
    return state.update(total=total)


def shop():
    return (
        ApplicationBuilder()
        .with_actions(choose, pay)
        .with_transitions(("choose", "pay"))
        .with_entrypoint("choose")
        .build()
    )


def stumbling():
    return ApplicationBuilder().with_actions(stumble).with_entrypoint("stumble").build()


def fill(path):
    """Runs of every kind and status: complete, forked, replayed, failed, resumed, halted."""
    with Store(path) as store:
        rw = Rewind(shop(), store=store)
        run = rw.run(inputs={"item": "kettle"})
        fork = rw.fork(run, "choose", inputs={"item": "pot"})
        rw.fork(run, "pay")
        rw.fork(fork, "pay", output={"total": 1.0})
        rw.replay(run)
        with pytest.raises(ValueError):
            rw.run(inputs={"item": "nothing"})
        with pytest.raises(ValueError):
            rw.resume(rw.last_run)
        rw.application(label="never driven")  # it has no step
        half = rw.run(halt_after=["choose"], inputs={"item": "spoon"})
        rw.resume(half)
        with pytest.raises(RuntimeError):
            Rewind(stumbling(), store=store).run()
        Rewind(build("penguins"), store=store).run(halt_after=["critique"])
        rw.grid(run, "pay", {"output.total": [2.0]})
        assert store.verify().ok


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "runs.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("REWIND_ARTIFACT_DIR", str(path.with_name("artifacts")))
        fill(path)
    return path


def keys(connection, table):
    """What tells the rows of a table apart."""
    columns = [c.name for c in schema.metadata.tables[table].columns]
    names = [c.name for c in schema.metadata.tables[table].primary_key] or columns[:1]
    where = " AND ".join(f"{name} IS ?" for name in names)
    return where, connection.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall()


def restored_to(path, content):
    path.write_bytes(content)
    for beside in ("-wal", "-shm"):
        path.with_name(f"{path.name}{beside}").unlink(missing_ok=True)


@pytest.mark.parametrize("table", TABLES)
def test_each_row_of_a_table_is_missed_when_it_is_taken_away(table, filled, tmp_path):
    path, content = tmp_path / "runs.db", filled.read_bytes()
    restored_to(path, content)
    with sqlite3.connect(path) as connection:
        where, rows = keys(connection, table)
    connection.close()
    unnoticed = []
    for row in rows:
        restored_to(path, content)
        with sqlite3.connect(path) as connection:
            assert connection.execute(f"DELETE FROM {table} WHERE {where}", row).rowcount == 1
        connection.close()
        with Store(path) as store:
            if store.verify().ok:
                unnoticed.append(row)

    assert rows
    assert not unnoticed


def taken_away(path, sql):
    with sqlite3.connect(path) as connection:
        assert connection.execute(sql).rowcount == 1
    connection.close()


@pytest.fixture
def copied(filled, tmp_path):
    path = tmp_path / "runs.db"
    path.write_bytes(filled.read_bytes())
    return path


def test_verify_says_which_table_of_which_run_lacks_a_row(copied):
    with Store(copied) as store:
        run = store.runs()[0].id
    taken_away(copied, f"DELETE FROM artifacts WHERE run_id = '{run}' AND name = 'copy.txt'")

    with Store(copied) as store:
        assert store.verify().problems == (
            f"Table artifacts holds 1 row(s) of run {run}, and 2 were written.",
        )


def test_a_row_that_was_not_counted_is_noticed(copied):
    with Store(copied) as store:
        row = dataclasses.replace(store.experiments()[0]._row, id="e_second")
    with sqlite3.connect(copied) as connection:
        connection.execute("DROP TRIGGER experiments_written")
        _, columns = schema.sealed(row)
        marks = ", ".join("?" * len(columns))
        connection.execute(f"INSERT INTO experiments VALUES ({marks})", columns)
    connection.close()

    with Store(copied) as store:
        assert store.verify().problems == ("Table experiments holds 2 row(s), and 1 were written.",)


def test_a_missing_artifact_is_noticed_when_the_artifacts_are_read(copied):
    with Store(copied) as store:
        run = store.runs()[0].id
    taken_away(copied, f"DELETE FROM artifacts WHERE run_id = '{run}' AND name = 'copy.txt'")

    with Store(copied) as store:
        with pytest.raises(StoreCorruptError, match=f"Run {run} has 1 of the 2 artifacts"):
            _ = store.run(run).artifacts
        assert len(store.run(run).steps) == 2  # the rest is there


def test_a_missing_failed_step_is_noticed_when_the_run_is_read(copied):
    with Store(copied) as store:
        (run,) = [r.id for r in store.runs() if r.status == "failed" and r[0].action == "stumble"]
    taken_away(copied, f"DELETE FROM steps WHERE run_id = '{run}'")

    with Store(copied) as store:
        with pytest.raises(StoreCorruptError, match=f"Run {run} has 0 of the 1 steps"):
            _ = store.run(run).steps


def test_rows_are_counted_once_whatever_is_written_again(store):
    """An open row that ends, a value that is there already, a batch that fails."""
    rw = Rewind(shop(), store=store)
    for _ in range(3):
        rw.run(inputs={"item": "kettle"})
    wrong = Batch()
    wrong.value("comes with it")
    wrong.replace(store.runs()[0][0].row)  # that step ended
    with pytest.raises(RunBusyError):
        store.submit(wrong).result()

    assert store.verify().ok, store.verify().problems
