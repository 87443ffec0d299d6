"""What a store must not let pass: damage, older layouts, odd numbers, wrong addresses.

The rows of a store are damaged one by one, in every way that leaves its file readable; each
must be noticed by whoever reads it, and by `Store.verify`.
"""

import contextlib
import enum
import json
import sqlite3
from dataclasses import make_dataclass
from pathlib import Path

import apps
import httpx
import pytest
import task_apps
from burr.core import ApplicationBuilder, State, action
from click.testing import CliRunner
from fake_provider import Answer, FakeProvider, chat_completion, completion
from recorder import recorded

from rewind_nb import ChatModel, Rewind, Store, artifact, cli, tool
from rewind_nb._address import is_same
from rewind_nb._codec import decode, encode, know
from rewind_nb._store import Batch, _migrate, _read, _schema_1
from rewind_nb._store import _schema as schema
from rewind_nb._store._ledger import triggers
from rewind_nb.errors import (
    ConfigError,
    NotEncodableError,
    ProviderMalformedError,
    RunNotFoundError,
    StepNotFoundError,
    StoreCorruptError,
    StoreFormatError,
    StoreMovedError,
    StoreNotFoundError,
    StoreVersionError,
)

OLD_STORE = Path(__file__).parent / "data" / "store_schema_1.sql"
TEXT = [
    (table.name, column.name)
    for table in schema.metadata.sorted_tables
    for column in table.columns
    if str(column.type) == "TEXT" and not column.nullable
    if table.name not in ("experiments", "responses")  # nothing here writes any
]


@tool
def price(item: str) -> float:
    return len(item) * 1.5


@action(reads=[], writes=["item"])
def choose(state: State, item: str) -> State:
    return state.update(item=item, history=["a line of it"] * 99)


@action(reads=["item", "history"], writes=["total", "history"])
def pay(state: State) -> State:
    total = price(state["item"])
    artifact("bill.txt", f"{state['item']}: {total}")
    if state["item"] == "nothing":
        raise ValueError("there is nothing to pay for")
    return state.update(total=total, history=[*state["history"], "paid"])


def shop():
    return (
        ApplicationBuilder()
        .with_actions(choose, pay)
        .with_transitions(("choose", "pay"), ("pay", "choose"))
        .with_entrypoint("choose")
        .build()
    )


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The bytes of a store with a run, its fork, one that failed twice, and one with tasks."""
    path = tmp_path_factory.mktemp("sound") / "runs.db"
    with pytest.MonkeyPatch.context() as patch, Store(path) as store:
        patch.setenv("REWIND_ARTIFACT_DIR", str(path.with_name("artifacts")))
        rw = Rewind(shop(), store=store)
        run = rw.run(halt_after=["pay"], inputs={"item": "kettle"}, label="run")
        rw.fork(run, "choose", inputs={"item": "pot"}, label="fork")
        with pytest.raises(ValueError):
            rw.run(halt_after=["pay"], inputs={"item": "nothing"}, label="failed")
        with pytest.raises(ValueError):
            rw.resume(rw.last_run)
        Rewind(task_apps.map_app(("alpha", "be"), rounds=1), store=store).run(label="tasks")
        assert store.verify().ok
    return path.read_bytes()


@pytest.fixture
def path(sound, tmp_path):
    """A copy of it."""
    copy = tmp_path / "copy.db"
    copy.write_bytes(sound)
    return copy


def change(path, sql, *values):
    """Change a store behind its back; how many rows that were."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(sql, values).rowcount


def rows(path, sql):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def labelled(store, label):
    return next(run for run in store.runs() if run.label == label)


def noticed(call, *said):
    """Whether a call is refused for damage, with these words and with what to do."""
    with pytest.raises(StoreCorruptError) as caught:
        call()
    message = str(caught.value)
    assert all(word in message for word in said), message
    assert "Restore" in message
    return True


# -- rows that are missing ----------------------------------------------------------------------


OF_STEPS = [
    lambda run: run.usage,
    lambda run: run.history(),
    lambda run: run.steps,
    lambda run: list(run.walk()),
]


def test_usage_history_and_steps_miss_each_step_that_is_taken_away(sound, tmp_path):
    """Those of tasks, and of attempts that failed, too: the usage would be lower, and silently."""
    path = tmp_path / "runs.db"
    path.write_bytes(sound)
    every = rows(path, "SELECT run_id, path, seq, attempt FROM steps")
    assert len({key[1] for key in every}) > 2
    assert any(key[3] for key in every)
    for run_id, *place in every:
        path.write_bytes(sound)
        where = "run_id = ? AND path = ? AND seq = ? AND attempt = ?"
        assert change(path, f"DELETE FROM steps WHERE {where}", run_id, *place) == 1
        with Store(path, read_only=True) as store:
            for read in OF_STEPS:
                with pytest.raises(StoreCorruptError, match=f"{run_id}.*Restore"):
                    read(store.run(run_id))
            assert any(run_id in problem for problem in store.verify().problems)


def test_a_run_that_was_read_before_a_step_was_taken_away_does_not_hide_it(path):
    with Store(path, read_only=True) as store:
        run = labelled(store, "failed")
        assert len(run.steps) == 2
        change(path, "DELETE FROM steps WHERE run_id = ? AND attempt = 1", run.id)
        assert noticed(lambda: run.usage, run.id, "2 of the 3 steps")
        assert noticed(run.history, run.id)


def test_the_step_that_is_missing_is_named(path):
    with Store(path, read_only=True) as store:
        run, tasks = labelled(store, "run"), labelled(store, "tasks")
    change(path, "DELETE FROM steps WHERE run_id = ? AND seq = 0", run.id)
    inside = "DELETE FROM steps WHERE run_id = ? AND path = 'each:1[0]/' AND seq = 0"
    assert change(path, inside, tasks.id) == 1
    with Store(path, read_only=True) as store:
        assert noticed(lambda: store.run(run.id).history(), "step 0 is missing")
        assert noticed(lambda: store.run(tasks.id).history(), "step 0 of its task each:1[0]/")


def test_a_missing_call_of_a_step_that_failed_is_noticed(path):
    with Store(path, read_only=True) as store:
        failed = labelled(store, "failed")
        assert [len(step.calls) for step in failed.history()] == [0, 1, 1]
        change(path, "DELETE FROM calls WHERE run_id = ? AND attempt = 0", failed.id)
        first, second = failed.history()[1:]
        assert noticed(lambda: first.calls, failed.id, "1 of the 2 calls")
        assert noticed(lambda: second.calls, failed.id)
        assert noticed(failed.calls_df, failed.id)
        assert any("calls" in problem for problem in store.verify().problems)


def test_a_missing_run_is_noticed_by_the_list_of_runs_and_by_who_asks_for_it(path):
    with Store(path) as store:
        gone = labelled(store, "tasks").id
        with pytest.raises(RunNotFoundError):
            store.run("r_never")
    change(path, "DELETE FROM runs WHERE id = ?", gone)
    with Store(path) as store:
        assert noticed(store.runs, "3 of the 4 runs")
        assert noticed(lambda: store.run(gone), "3 of the 4 runs")
        other = store.read(lambda c: c.execute("SELECT id FROM runs").fetchone())[0]
        assert store.run(other).steps


# -- values of another type ---------------------------------------------------------------------


@pytest.mark.parametrize(("table", "column"), TEXT, ids=[".".join(c) for c in TEXT])
def test_text_that_was_made_bytes_is_noticed_by_verify(table, column, path):
    """Its row would hash as before, and no query for the text finds it."""
    row = f"(SELECT rowid FROM {table} WHERE {column} IS NOT NULL LIMIT 1)"
    where = f"rowid = {row}" if table != "ledger" else f"{column} <> ''"
    assert change(path, f"UPDATE {table} SET {column} = CAST({column} AS BLOB) WHERE {where}")

    with Store(path, read_only=True) as store:
        report = store.verify()
    assert not report.ok
    assert not any("Error" in problem for problem in report.problems), report.problems


TO_BYTES = {
    "runs.id": lambda store, run: store.run(run),
    "runs.label": lambda store, run: store.run(run),
    "steps.run_id": lambda store, run: store.run(run).steps,
    "steps.path": lambda store, run: store.run(run).history(),
    "steps.action": lambda store, run: store.run(run)["pay"],
    "steps.chain": lambda store, run: store.run(run).steps,
    "calls.run_id": lambda store, run: store.run(run)["pay"].calls,
    "calls.path": lambda store, run: store.run(run)["pay"].calls,
    "calls.branch": lambda store, run: store.run(run)["pay"].calls,
    "artifacts.run_id": lambda store, run: store.run(run).artifacts,
    "artifacts.path": lambda store, run: store.run(run).artifacts,
    "artifacts.name": lambda store, run: store.run(run).artifacts,
    "blobs.sha256": lambda store, run: [a.bytes for a in store.run(run).artifacts],
    "ledger.run_id": lambda store, run: store.run(run).usage,
    "ledger.name": lambda store, run: store.run(run).usage,
}


@pytest.mark.parametrize("place", TO_BYTES)
@pytest.mark.parametrize("label", ["run", "failed"])
def test_text_that_was_made_bytes_is_noticed_by_who_reads_it(place, label, path):
    with Store(path, read_only=True) as store:
        run = labelled(store, label).id
    table, column = place.split(".")
    change(path, f"UPDATE {table} SET {column} = CAST({column} AS BLOB)")
    with Store(path, read_only=True) as store:
        assert noticed(lambda: TO_BYTES[place](store, run))
    if place == "runs.id":
        with Store(path, read_only=True) as store:
            assert noticed(store.runs)


def test_a_failed_attempt_that_no_query_finds_any_more_is_noticed(path):
    """Its run has its root, which only covers what was completed, and as many rows as before."""
    with Store(path, read_only=True) as store:
        run = labelled(store, "failed").id
    where = f"run_id = '{run}' AND attempt = 1"
    assert change(path, f"UPDATE steps SET path = CAST(path AS BLOB) WHERE {where}") == 1
    with Store(path, read_only=True) as store:
        assert noticed(lambda: store.run(run).steps, "2 of the 3 steps")
        assert noticed(lambda: store.run(run).usage, "2 of the 3 steps")


NUMBERS = ["steps.seq", "steps.attempt", "steps.visit", "calls.seq", "calls.idx", "artifacts.seq"]


@pytest.mark.parametrize("place", NUMBERS)
@pytest.mark.parametrize("value", ["X'31'", "'x'", "99", "1e99"])
def test_a_number_that_was_changed_is_noticed_by_verify_and_by_who_reads_it(place, value, path):
    table, column = place.split(".")
    with Store(path, read_only=True) as store:
        run = labelled(store, "failed").id
    last = f"(SELECT max(rowid) FROM {table} WHERE run_id = '{run}')"
    assert change(path, f"UPDATE {table} SET {column} = {value} WHERE rowid = {last}") == 1

    with Store(path, read_only=True) as store:
        assert noticed(lambda: _everything(store.run(run)))
        assert not store.verify().ok


def _everything(run):
    steps = run.history(inside=True)
    return [step.calls for step in steps], run.usage, run.artifacts, run.state, run["pay"]


CONTENT = {
    "a body that is text": "UPDATE contents SET body = CAST(body AS TEXT)",
    "a body that is a number": "UPDATE contents SET body = 7",
    "a body that is a large number": "UPDATE contents SET body = 1 << 62",
    "a hash that is text": "UPDATE contents SET hash = hex(hash)",
    "a base of another value": "UPDATE contents SET base = 1 WHERE base > 1",
    "artifact bytes that are text": "UPDATE blobs SET body = CAST(body AS TEXT)",
    "artifact bytes that are a number": "UPDATE blobs SET body = 7",
}


@pytest.mark.parametrize("sql", CONTENT.values(), ids=CONTENT.keys())
def test_a_value_of_another_type_is_damage_and_never_another_error(sql, path):
    with Store(path, read_only=True) as store:
        run = labelled(store, "run").id
    assert change(path, sql)
    with Store(path, read_only=True) as store:
        assert noticed(lambda: _values(store.run(run)))
        problems = store.verify().problems
    assert any("stored value" in p or "artifact bytes" in p for p in problems), problems
    assert not any("Error" in problem for problem in problems), problems


def _values(run):
    return run.state, [step.writes for step in run.steps], [made.bytes for made in run.artifacts]


def test_how_deep_a_value_lies_is_not_believed_when_it_is_read_and_is_checked(path):
    with Store(path, read_only=True) as store:
        before = labelled(store, "run").state
    assert change(path, "UPDATE contents SET depth = 7 - depth WHERE base IS NOT NULL")
    with Store(path, read_only=True) as store:
        assert labelled(store, "run").state == before
        assert not store.verify().ok


def test_an_answer_that_is_offered_in_the_wrong_table_is_named(path):
    names = "place, fingerprint, n, epoch, run_id, path, seq, attempt, idx"
    change(path, f"INSERT INTO responses ({names}) SELECT {names} FROM tool_results LIMIT 1")

    with Store(path, read_only=True) as store:
        problems = store.verify().problems
    assert any("offers call 0" in problem for problem in problems), problems


def test_visits_that_do_not_follow_each_other_are_not_counted(tmp_path):
    """A fork counts those of a long run without reading its rows as a whole."""
    path = tmp_path / "runs.db"
    with Store(path) as store:
        run = Rewind(apps.loop_app(), store=store).run(halt_after=["report"], inputs={"by": 1})
        again = next(step for step in run.steps if step.visit == 2)
        counts = store.read(_read.visit_counts, run.id, 0, len(run))
        assert counts == {step.action: run[step.action].visit for step in run.steps}
        for visit in ("1", "3", "'x'", "2.5", "X'32'"):
            where = f"run_id = '{run.id}' AND seq = {again.seq}"
            assert change(path, f"UPDATE steps SET visit = {visit} WHERE {where}") == 1
            count = lambda: store.read(_read.visit_counts, run.id, 0, len(run.steps))  # noqa: E731
            assert noticed(count, run.id, "out of its order")


# -- older layouts ------------------------------------------------------------------------------


def written_before_rows_were_counted(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(OLD_STORE.read_text())


def written_before_steps_knew_their_tasks(path):
    written_before_rows_were_counted(path)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(_schema_1.LEDGER)
        for name, run_id in _schema_1.COUNTED.items():
            whose = f"SELECT {run_id}, '{name}', count(*) FROM {name} GROUP BY 1"
            connection.execute(f"INSERT INTO ledger {whose}")
        for trigger in triggers():
            connection.execute(trigger)


LAYOUTS = [written_before_rows_were_counted, written_before_steps_knew_their_tasks]
OLD = {  # label or kind, status, steps, attempts, total of the state
    "r_34794e957421": ("the first", "complete", 2, 2, 9.0),
    "r_8270ce49d58a": (None, "complete", 2, 2, 4.5),
    "r_4ad02548ed7a": (None, "complete", 2, 1, 1.0),
    "r_d9d02ecdfa18": (None, "complete", 2, 2, 9.0),
    "r_f414221906a6": (None, "failed", 2, 3, None),
    "r_b0dad2a1a823": (None, "complete", 2, 2, 7.5),
    "r_e3c921459db7": (None, "halted", 1, 1, None),
    "r_561bef4e154f": ("the stopped", "interrupted", 2, 2, None),
}


@pytest.fixture(params=LAYOUTS, ids=[make.__name__ for make in LAYOUTS])
def old(request, tmp_path):
    path = tmp_path / "old.db"
    request.param(path)
    return path


def version(path):
    return rows(path, "PRAGMA user_version")[0][0]


def described(store):
    return {
        run.id: (run.label, run.status, len(run), len(run.history()), run.state.get("total"))
        for run in store.runs()
    }


def test_a_store_of_schema_1_is_brought_up_to_date_whole(old):
    with Store(old) as store:
        report = store.verify()
        assert report.ok, report.problems
        assert described(store) == OLD
        first, failed = store.run("r_34"), store.run("r_f4")
        assert (first.usage.total_tokens, failed.usage.total_tokens) == (52, 52)
        assert [len(step.calls) for step in failed.history()] == [1, 1, 1]
        assert first.artifacts[0].bytes == b"kettle: 9.0"
        assert failed.history()[1].error.message == "there is nothing to pay for"
    assert version(old) == schema.SCHEMA_VERSION
    with Store(old, read_only=True) as store:
        assert described(store) == OLD


def test_what_is_recorded_in_a_migrated_store_is_counted(old):
    with Store(old) as store:
        recorded(store)
        fork = Rewind(shop(), store=store).fork(
            "r_34", "pay", output={"total": 2.0}, allow_code_change=True, halt_after=["pay"]
        )
        assert (fork.parent_id, fork.state["total"]) == ("r_34794e957421", 2.0)
        assert store.verify().ok, store.verify().problems
    change(old, "DELETE FROM calls WHERE run_id = 'r_f414221906a6' AND attempt = 1")
    with Store(old) as store:
        assert noticed(lambda: store.run("r_f4").history()[2].calls)
        assert not store.verify().ok


def test_a_migrated_store_has_the_tables_of_a_new_one(old, tmp_path):
    def tables(path):
        names = [t.name for t in schema.metadata.sorted_tables]
        columns = {n: sorted(r[1:4] for r in rows(path, f"PRAGMA table_info({n})")) for n in names}
        made = rows(path, "SELECT type, name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
        return columns, sorted(made)

    Store(old).close()
    with Store(tmp_path / "new.db") as store:
        store.submit(Batch()).result()
    assert tables(old) == tables(tmp_path / "new.db")


DAMAGED_BEFORE = [
    "DELETE FROM steps WHERE run_id = 'r_4ad02548ed7a'",
    "UPDATE steps SET action = 'x' WHERE run_id = 'r_34794e957421' AND seq = 0",
    "UPDATE steps SET chain = 'x' WHERE run_id = 'r_34794e957421' AND seq = 1",
    "UPDATE steps SET run_id = CAST(run_id AS BLOB) WHERE run_id = 'r_34794e957421' AND seq = 1",
    "UPDATE steps SET usage = X'FF' WHERE run_id = 'r_34794e957421' AND seq = 1",
    "DELETE FROM steps WHERE run_id = 'r_34794e957421' AND seq = 0",
    "DELETE FROM steps WHERE run_id = 'r_34794e957421' AND seq = 1",
    "DELETE FROM calls WHERE run_id = 'r_34794e957421'",
    "UPDATE runs SET root = 'x' WHERE id = 'r_34794e957421'",
    "UPDATE runs SET label = 'x' WHERE id = 'r_34794e957421'",
    "UPDATE runs SET at = 'x' WHERE id = 'r_34794e957421'",
    "UPDATE runs SET halts = 'x' WHERE id = 'r_34794e957421'",
]


@pytest.mark.parametrize("sql", DAMAGED_BEFORE)
def test_what_was_damaged_before_a_migration_is_damaged_after_it(sql, old):
    assert change(old, sql)
    with Store(old) as store:
        problems = store.verify().problems
        run = sql.rpartition("'r_")[2][:12]
        assert any(f"r_{run}" in problem for problem in problems), problems
        if "action" in sql:
            assert any("stored step does not match" in problem for problem in problems), problems
        assert not any("Error" in problem for problem in problems), problems
        untouched = store.run("r_b0")  # which shares nothing with it
        assert (untouched.state["total"], len(untouched.steps)) == (7.5, 2)


def test_an_older_store_opened_to_read_is_not_called_damaged(old):
    before = old.read_bytes()
    with pytest.raises(StoreVersionError, match="older rewind_nb .schema 1.*Open it once"):
        Store(old, read_only=True)
    assert old.read_bytes() == before


def test_a_migration_that_breaks_off_leaves_the_store_as_it_was(old, monkeypatch):
    def breaks(raw):
        _schema_1.to_schema_2(raw)
        raise KeyboardInterrupt

    before = rows(old, "SELECT * FROM steps"), rows(old, "SELECT * FROM sqlite_master")
    monkeypatch.setitem(_migrate.MIGRATIONS, 1, breaks)
    with pytest.raises(KeyboardInterrupt):
        Store(old)
    monkeypatch.undo()
    assert (rows(old, "SELECT * FROM steps"), rows(old, "SELECT * FROM sqlite_master")) == before
    assert version(old) == 1
    with Store(old) as store:
        assert described(store) == OLD


def test_a_store_of_the_last_layout_of_schema_1_only_gets_its_number(path):
    change(path, "PRAGMA user_version=1")
    before = rows(path, "SELECT * FROM steps")
    with Store(path) as store:
        assert store.verify().ok
    assert rows(path, "SELECT * FROM steps") == before
    assert version(path) == schema.SCHEMA_VERSION


def test_tables_that_no_version_made_are_refused_and_stay(old):
    change(old, "ALTER TABLE steps RENAME COLUMN visit TO times")
    with pytest.raises(StoreFormatError, match="none that any version of rewind_nb can bring") as c:
        Store(old)
    assert str(old) in str(c.value)
    assert version(old) == 1


# -- a store that is not there ----------------------------------------------------------------------


READERS = {
    "runs": lambda store: store.runs(),
    "run": lambda store: store.run("r_1"),
    "frames": lambda store: (store.runs_df(),),
    "tree": lambda store: store.tree(),
    "verify": lambda store: store.verify(),
    "value": lambda store: store.value("00"),
}


@pytest.mark.parametrize("reader", READERS)
def test_to_look_at_a_store_that_is_not_there_says_so_and_creates_nothing(reader, tmp_path):
    with Store(tmp_path / "typo.db") as store:
        with pytest.raises(StoreNotFoundError, match=r"no store at .*typo\.db.*Check the path"):
            READERS[reader](store)
        store.flush()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [["runs"], ["show", "r_1"], ["diff", "r_1", "r_2"], ["doctor"]])
def test_no_command_that_looks_creates_a_store(command, tmp_path):
    done = CliRunner().invoke(cli.main, [*command, "--store", str(tmp_path / "typo.db")])

    assert done.exit_code == 1
    assert "There is no store at" in done.output
    assert "Traceback" not in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_store_shows_itself_before_anything_was_recorded_in_it(tmp_path):
    rw = Rewind(shop(), store=tmp_path / "new.db")

    assert "no runs yet" in rw.store._repr_html_()
    assert rw.last_run is None
    assert repr(rw)
    assert not rw.store.exists
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_a_rewind_is_to_fill_is_empty_before_its_first_run(tmp_path):
    rw = Rewind(shop(), store=tmp_path / "new.db")

    assert rw.store.runs() == rw.store.experiments() == []
    for frame in (rw.store.runs_df(), rw.store.steps_df(), rw.store.calls_df()):
        assert frame.empty
    assert not rw.store.tree()
    with pytest.raises(StoreNotFoundError):
        rw.store.run("r_1")
    assert list(tmp_path.iterdir()) == []
    rw.run(halt_after=["pay"], inputs={"item": "cup"})
    assert len(rw.store.runs()) == 1
    (tmp_path / "new.db").unlink()
    with pytest.raises(StoreMovedError):
        rw.store.runs()


def test_the_first_run_creates_the_store_with_its_folder(tmp_path):
    path = tmp_path / "deep" / "er" / "new.db"
    rw = Rewind(shop(), store=path)
    assert not path.parent.exists()
    with Store(path) as other:
        run = rw.run(halt_after=["pay"], inputs={"item": "cup"})
        assert path.is_file()
        assert rw.store.exists
        assert other.run(run.id).state["total"] == 4.5  # and who waited for it sees it
    rw.store.close()


def test_a_run_that_is_refused_before_it_starts_creates_no_store(tmp_path):
    rw = Rewind(shop(), store=tmp_path / "new.db")
    with pytest.raises(ConfigError):
        rw.run(halt_after=["nowhere"])
    with pytest.raises(ConfigError):
        rw.run(label=5)
    with pytest.raises(StoreNotFoundError):
        rw.fork("r_1", "pay")
    assert list(tmp_path.iterdir()) == []


# -- odd numbers and deep answers -------------------------------------------------------------------

HUGE = 10**99  # of a hundred digits


def asking(ask):
    @action(reads=[], writes=["said"])
    def go(state: State) -> State:
        return state.update(said=ask())

    return ApplicationBuilder().with_actions(go).with_entrypoint("go").build()


def posted(provider, **more):
    body = {"model": "toy", "messages": [{"role": "user", "content": "hi"}], **more}
    return lambda: httpx.post(f"{provider.base_url}/chat/completions", json=body).status_code


def counted(n):
    return completion(usage={"prompt_tokens": n, "completion_tokens": 1, "total_tokens": n + 1})


def deep(levels, **fields):
    body = json.dumps(chat_completion(deep="@", **fields)).replace('"@"', nested(levels))
    return Answer(body.encode(), headers={"content-type": "application/json"})


def nested(levels):
    return "[" * levels + "]" * levels


@pytest.mark.parametrize("client", ["httpx", "ChatModel"])
def test_a_count_of_a_hundred_digits_is_recorded_as_it_is(client, store):
    with FakeProvider(then=counted(HUGE)) as provider:
        chat = ChatModel(provider.base_url, "toy")
        ask = posted(provider) if client == "httpx" else lambda: chat.chat("hi").text
        rw = Rewind(asking(ask), store=store)
        run = rw.run()
        assert run.usage.input_tokens == HUGE
        assert store.run(run.id)["go"].calls[0].usage.total_tokens == HUGE + 1
        assert run.steps_df()["input_tokens"].tolist() == [HUGE]
        assert run.calls_df()["total_tokens"].tolist() == [HUGE + 1]
        assert store.runs_df()["tokens"].tolist() == [HUGE + 1]
        assert str(HUGE + 1) in repr(run.usage)
        assert run._repr_html_()
        assert run["go"]._repr_html_()
        assert rw.replay(run).ok
        assert store.verify().ok


def test_a_count_that_python_may_not_print_is_unknown_and_its_answer_is_recorded(store):
    digits = "9" * 4300
    body = json.dumps(chat_completion(usage={"prompt_tokens": "@", "completion_tokens": 1}))
    answer = Answer(
        body.replace('"@"', digits).encode(), headers={"content-type": "application/json"}
    )
    with FakeProvider(then=answer) as provider:
        run = Rewind(asking(posted(provider)), store=store).run()
    assert run.usage is None
    assert digits in run["go"].calls[0].response["body"]


@pytest.mark.parametrize("levels", [250, 900, 3000, 100_000])
def test_an_answer_however_deep_is_recorded_and_played_back(levels, store):
    with FakeProvider(then=deep(levels)) as provider:
        rw = Rewind(asking(posted(provider)), store=store)
        run = rw.run()
        assert run.state["said"] == 200
        assert nested(levels) in run["go"].calls[0].response["body"]
        assert rw.replay(run).ok
        asked = provider.count
        fork = rw.fork(run, "go", response="another")
        assert fork["go"].calls[0].text == "another"
        assert provider.count == asked
        assert run["go"]._repr_html_()
        assert store.verify().ok


@pytest.mark.parametrize("levels", [3000, 100_000])
def test_a_chat_answer_that_is_too_deep_fails_its_step_with_the_answer_attached(levels, store):
    with FakeProvider(then=deep(levels)) as provider:
        chat = ChatModel(provider.base_url, "toy")
        rw = Rewind(asking(lambda: chat.chat("hi").text), store=store)
        with pytest.raises(ProviderMalformedError, match="nested too deeply") as caught:
            rw.run()
    assert nested(levels) in caught.value.raw
    assert rw.last_run.status == "failed"
    assert nested(levels) in rw.last_run["go"].calls[0].response["body"]


@pytest.mark.parametrize("levels", [150, 250, 600, 900, 3000])
def test_a_request_however_deep_is_recorded_and_played_back(levels, store):
    body = '{"model": "toy", "messages": [{"role": "user", "content": "hi"}], "x": @}'

    def ask():
        url, content = f"{provider.base_url}/chat/completions", body.replace("@", nested(levels))
        return httpx.post(url, content=content, headers={"content-type": "application/json"}).text

    with FakeProvider() as provider:
        rw = Rewind(asking(ask), store=store)
        run = rw.run()
        proof = rw.replay(run)
    assert proof.ok
    kept = run["go"].calls[0].request["body"]
    assert (nested(levels).encode() in kept) if isinstance(kept, bytes) else kept["x"]


@pytest.mark.parametrize("levels", [250, 900, 3000])
@pytest.mark.parametrize("where", ["state", "result of a tool", "argument of a tool"])
def test_a_value_that_is_too_deep_is_refused_with_its_path(where, levels, store):
    tree = []
    for _ in range(levels):
        tree = [tree]

    @tool
    def same(given):
        return tree if where.startswith("result") else given

    def ask():
        return tree if where == "state" else len(same(tree if "argument" in where else 1))

    rw = Rewind(asking(ask), store=store)
    with pytest.raises(NotEncodableError, match="nested deeper than 200 levels") as caught:
        rw.run()
    assert caught.value.path.startswith("said" if where == "state" else "@calls[0].")
    assert rw.last_run.status == "failed"
    assert store.verify().ok


# -- classes of one name ----------------------------------------------------------------------------


def made(kind):
    """A class that a function defines: another one each time, and all of one name."""
    if kind == "functional enum":
        return enum.Enum("Shade", "DARK LIGHT", module="somewhere")
    if kind == "dataclass":
        return make_dataclass("Shade", ["n"], namespace={"__module__": "somewhere"})
    if kind == "flag":

        class Shade(enum.Flag):
            DARK = 1
            LIGHT = 2

        return Shade

    class Shade(enum.Enum):
        DARK = 1
        LIGHT = 2

    return Shade


def one_of(kind, cls):
    if kind == "dataclass":
        return cls(1)
    return cls.DARK | cls.LIGHT if kind == "flag" else cls.DARK


@pytest.mark.parametrize("kind", ["enum", "functional enum", "flag", "dataclass"])
def test_a_value_never_comes_back_as_one_of_another_class_of_that_name(kind):
    first, second = made(kind), made(kind)
    data = encode(one_of(kind, first))

    with pytest.raises(NotEncodableError, match="another class of that name is in use") as caught:
        encode({"shades": [1, one_of(kind, second)]}, path="state")
    assert caught.value.path == "state.shades[1]"
    assert "Define the class once" in str(caught.value)
    with pytest.raises(ConfigError, match="another class of that name is in use"):
        know(second)
    assert type(decode(data)) is first
    assert encode(one_of(kind, first)) == data


@pytest.mark.parametrize("kind", ["enum", "functional enum", "flag", "dataclass"])
def test_the_name_of_a_class_that_is_gone_stands_for_the_next(kind):
    data = encode(one_of(kind, made(kind)))
    again = made(kind)
    assert encode(one_of(kind, again)) == data
    assert type(decode(data)) is again


def shades(builds):
    Shade = made("enum")
    builds.append(Shade) if builds is not None else None

    @action(reads=[], writes=["shade"])
    def pick(state: State) -> State:
        return state.update(shade=Shade.DARK)

    @action(reads=["shade"], writes=["same"])
    def look(state: State) -> State:
        return state.update(same=state["shade"] is Shade.DARK)

    builder = ApplicationBuilder().with_actions(pick, look).with_transitions(("pick", "look"))
    return builder.with_entrypoint("pick").with_state(before=Shade.LIGHT).build()


def test_an_application_that_is_built_anew_may_define_its_classes_anew(store):
    rw = Rewind(lambda: shades(None), store=store)
    run = rw.run()
    fork = rw.fork(run, "look")
    assert (run.state["same"], fork.state["same"]) == (True, True)
    assert rw.replay(run).ok


def test_two_applications_in_use_do_not_share_the_classes_of_one_name(store):
    kept = []
    first = Rewind(shades(kept), store=store)
    assert first.run().state["same"]
    with pytest.raises(NotEncodableError, match="^before: .*another class of that name"):
        Rewind(shades(kept), store=store)
    assert first.run().state["same"]


# -- arguments and addresses ------------------------------------------------------------------------


@pytest.fixture
def shopped(store):
    rw = Rewind(shop(), store=store)
    return rw, rw.run(halt_after=["pay"], inputs={"item": "kettle"})


WRONG = {
    "max_steps='5'": (lambda rw, run: rw.fork(run, "pay", max_steps="5"), "Write max_steps=5"),
    "max_steps=0": (lambda rw, run: rw.fork(run, "pay", max_steps=0), "int from 1 on"),
    "max_steps=True": (lambda rw, run: rw.fork(run, "pay", max_steps=True), "int from 1 on"),
    "max_steps=2.5": (lambda rw, run: rw.fork(run, "pay", max_steps=2.5), "int from 1 on"),
    "call='0'": (lambda rw, run: rw.fork(run, "pay", call="0"), "which call is meant"),
    "call=None": (lambda rw, run: rw.fork(run, "pay", call=None), "which call is meant"),
    "sample='1'": (lambda rw, run: rw.fork(run, "pay", sample="1"), "which draw is wanted"),
    "sample=-1": (lambda rw, run: rw.fork(run, "pay", sample=-1), "which draw is wanted"),
    "sample=2**64": (lambda rw, run: rw.fork(run, "pay", sample=2**64), "int of 64 bits"),
    "label=5": (lambda rw, run: rw.fork(run, "pay", label=5), "label=5 is no text"),
    "run label=5": (lambda rw, run: rw.run(label=5), "label=5 is no text"),
    "application label": (lambda rw, run: rw.application(label=b"x"), "label=b'x' is no text"),
    "start=1.5": (lambda rw, run: rw.replay(run, start=1.5), "start=1.5 is no step"),
    "start=True": (lambda rw, run: rw.replay(run, start=True), "start=True is no step"),
    "start tuple": (lambda rw, run: rw.replay(run, start=("pay", "1")), "is no step"),
    "halt_after": (lambda rw, run: rw.run(halt_after="pay"), r"write \['pay'\]"),
    "halt_before": (
        lambda rw, run: rw.fork(run, "pay", halt_before=5),
        "halt_before= takes a list",
    ),
    "halt names": (lambda rw, run: rw.resume(run, halt_after=[1]), "halt_after= takes a list"),
    "inputs": (lambda rw, run: rw.resume(run, inputs=[1]), "inputs= takes a dict"),
    "allow": (lambda rw, run: rw.fork(run, "pay", allow_code_change="no"), "neither True nor"),
}


@pytest.mark.parametrize(("call", "said"), WRONG.values(), ids=WRONG.keys())
def test_an_argument_of_the_wrong_type_is_refused_before_anything_executes(call, said, shopped):
    rw, run = shopped
    rows_before = [r.id for r in rw.store.runs()], run.history()[-1].row

    with pytest.raises(ConfigError, match=said):
        call(rw, run)
    assert ([r.id for r in rw.store.runs()], rw.store.run(run.id).history()[-1].row) == rows_before


def test_a_limit_that_is_one_is_taken(shopped):
    rw, run = shopped
    assert rw.fork(run, "pay", max_steps=1, sample=1).status == "halted"


def test_a_fork_at_a_step_of_another_run_names_both(shopped):
    rw, run = shopped
    other = rw.run(halt_after=["pay"], inputs={"item": "pot"})
    fork = rw.fork(run, "pay", output={"total": 1.0})

    for wrong, at in ((run, other["pay"]), (fork, run["pay"]), (run, fork["pay"])):
        for verb in (lambda w=wrong, a=at: rw.fork(w, a), lambda w=wrong, a=at: rw.replay(w, a)):
            with pytest.raises(StepNotFoundError) as caught:
                verb()
            assert wrong.id in str(caught.value)
            assert at.run_id in str(caught.value)
    with Store(":memory:") as elsewhere:
        stranger = Rewind(shop(), store=elsewhere).run(halt_after=["pay"], inputs={"item": "cup"})
        with pytest.raises(StepNotFoundError, match=stranger.id):
            rw.fork(run, stranger["pay"])


def test_a_step_that_a_fork_shares_with_its_parent_is_its_own(shopped):
    rw, run = shopped
    fork = rw.fork(run, "pay", output={"total": 1.0})
    shared = rw.fork(fork, run["choose"])
    assert shared.parent_id == fork.id
    assert rw.fork(run, fork["choose"]).parent_id == run.id
    assert rw.replay(fork, start=run["choose"]).ok


def test_an_earlier_attempt_at_a_step_is_an_address_of_it(store):
    rw = Rewind(shop(), store=store)
    for _ in range(2):
        with pytest.raises(ValueError):
            rw.resume(rw.last_run) if rw.last_run else rw.run(inputs={"item": "nothing"})
    run = rw.last_run
    first = run.history()[1]
    assert first.attempt == 0
    assert is_same(first, run[first])
    fork = rw.fork(run, first, state={"item": "cup"}, halt_after=["pay"])
    assert fork.state["total"] == 4.5


def test_a_visit_that_is_no_number_of_one_is_no_address(shopped):
    _, run = shopped
    for at in (("pay", "1"), ("pay", True), ("pay", 1.0), ("pay", None), (1, 1), True, 1.0, None):
        with pytest.raises(StepNotFoundError, match="is addressed as"):
            run[at]
    for visit in (0, -1, 2, 10**30):
        with pytest.raises(StepNotFoundError, match="there is no visit"):
            run["pay", visit]
    for seq in (2, -3, 10**30, -(10**30)):
        with pytest.raises(StepNotFoundError, match=f"no step {seq}"):
            run[seq]
