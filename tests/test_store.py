"""The store: where it is found, what it refuses, that what goes in comes back."""

import contextlib
import dataclasses
import gc
import json
import os
import re
import socket
import sqlite3
import subprocess
import sys
from concurrent.futures import Future
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorder import (
    Recorder,
    artifact_row,
    call_row,
    create,
    digest,
    everything,
    new_id,
    recorded,
    run_row,
    seal,
    step_row,
)

from rewind_nb import Store
from rewind_nb._model import ErrorInfo, ExperimentRow, RunRow, StepRow, Usage
from rewind_nb._store import Batch, _build, _delta, _experiments, _migrate, _read
from rewind_nb._store import _schema as schema
from rewind_nb.errors import (
    AmbiguousIdError,
    RunBusyError,
    RunNotFoundError,
    SecretLeakError,
    StoreClosedError,
    StoreCorruptError,
    StoreError,
    StoreFormatError,
    StoreNotFoundError,
    StoreReadOnlyError,
    StoreVersionError,
)


def contents_of(folder):
    """What is in a folder, names and bytes."""
    return {p.name: p.read_bytes() if p.is_file() else None for p in folder.iterdir()}


def change(path, *statements):
    """Change a store behind its back."""
    connection = sqlite3.connect(path)
    with connection:
        for sql in statements:
            assert connection.execute(sql).rowcount != 0, sql
    connection.close()


@pytest.fixture
def path(tmp_path):
    """Where a store can be, in a folder of its own."""
    (tmp_path / "stores").mkdir()
    return tmp_path / "stores" / "runs.db"


@pytest.fixture
def filled(path):
    """A closed store with one run; (path, recorder)."""
    with Store(path) as store:
        return path, recorded(store)


# -- where it is --------------------------------------------------------------------------


def test_a_store_is_found_upward_from_the_working_directory(tmp_path, monkeypatch):
    deep = tmp_path / "project" / "notebooks" / "deep"
    deep.mkdir(parents=True)
    create(tmp_path / "project" / ".rewind" / "runs.db")
    monkeypatch.chdir(deep)

    with Store() as store:
        assert store.path == tmp_path / "project" / ".rewind" / "runs.db"


def test_a_store_is_created_in_the_working_directory_where_there_is_none(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with Store() as store:
        assert store.path == tmp_path / ".rewind" / "runs.db"
        recorded(store)
        assert store.path.is_file()


def test_the_environment_names_the_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("REWIND_STORE", "~/mine.db")

    with Store() as store:
        assert store.path == tmp_path / "mine.db"
        recorded(store)
    monkeypatch.setenv("REWIND_STORE", ":memory:")
    with Store() as store:
        assert repr(store) == "Store(':memory:')"
    assert {p.name for p in tmp_path.iterdir()} <= {"mine.db", "mine.db.lock"}


def test_a_store_stays_where_it_was_opened_when_the_working_directory_changes(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with Store("here.db") as store:
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        run = recorded(store)
        assert store.run(run.run.id).state == run.state
        assert list(Path.cwd().iterdir()) == []
    with Store(tmp_path / "here.db") as store:
        assert len(store.runs()) == 1


@pytest.mark.parametrize(
    "name",
    [
        "a b.db",
        "50%.db",
        "what?.db",
        "#1.db",
        "é\u0301 \U0001f642.db",
        "c:d&mode=ro.db",
        "\udcff.db",
    ],
)
def test_any_file_name_is_just_a_name(path, name):
    odd = path.with_name(name)
    with Store(odd) as store:
        run = recorded(store)
    with Store(odd) as store:
        assert store.run(run.run.id).state == run.state

    assert {p.name for p in path.parent.iterdir()} <= {name, f"{name}.lock"}


def test_a_link_and_what_it_points_to_are_one_store(path):
    link = path.with_name("link.db")
    link.symlink_to(path)  # to what is not there yet
    with Store(link) as one, Store(path) as other:
        run = recorded(one)
        assert other.run(run.run.id).state == run.state
        assert recorded(other).run.id in {r.id for r in one.runs()}
    assert link.is_symlink()
    assert not link.with_name("link.db.lock").exists()


# -- what it refuses ----------------------------------------------------------------------


def a_folder(path):
    path.mkdir()


def a_pipe(path):
    os.mkfifo(path)


def a_socket(path):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as made:
        made.bind(os.path.relpath(path))


def a_link_in_a_circle(path):
    path.symlink_to(path.with_name("other.db"))
    path.with_name("other.db").symlink_to(path)


def an_empty_file(path):
    path.touch()


def a_short_text(path):
    path.write_text("hi")


def a_long_text(path):
    path.write_text("not a database " * 1000)


def a_database_of_another_program(path):
    connection = sqlite3.connect(path)
    connection.executescript("CREATE TABLE cookies (name); INSERT INTO cookies VALUES ('x')")
    connection.close()


def an_empty_database(path):
    connection = sqlite3.connect(path)
    connection.execute("VACUUM")
    connection.close()


def a_database_of_another_program_in_wal_mode(path):
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA journal_mode=WAL; CREATE TABLE cookies (name)")
    connection.close()


def a_store_cut_to(size):
    def cut(path):
        with Store(path) as store:
            recorded(store)
        whole = path.read_bytes()
        path.unlink()
        keep = size if isinstance(size, int) else int(len(whole) * size)
        path.write_bytes(whole[:keep])
        path.with_name("runs.db.lock").unlink(missing_ok=True)

    cut.__name__ = f"a_store_cut_to_{size}"
    return cut


def a_store_of_schema(version):
    def number(path):
        create(path)
        path.with_name("runs.db.lock").unlink(missing_ok=True)
        change(path, f"PRAGMA user_version={version}")

    number.__name__ = f"a_store_of_schema_{version}"
    return number


REFUSED = [
    (a_folder, StoreFormatError, "is a folder. Name a file in it"),
    (a_pipe, StoreFormatError, "is a pipe, so it cannot hold a store. Choose another path."),
    (a_socket, StoreFormatError, "is a socket"),
    (a_link_in_a_circle, StoreFormatError, "a symbolic link that leads in a circle"),
    (an_empty_file, StoreFormatError, "is empty: not a store of rewind_nb. Delete it, or"),
    (a_short_text, StoreFormatError, "is not an SQLite file"),
    (a_long_text, StoreFormatError, "is not an SQLite file"),
    (a_database_of_another_program, StoreFormatError, "of another program"),
    (an_empty_database, StoreFormatError, "of another program"),
    (a_database_of_another_program_in_wal_mode, StoreFormatError, "of another program"),
    (a_store_cut_to(50), StoreCorruptError, "is damaged"),
    (a_store_cut_to(100), StoreCorruptError, "is damaged"),
    (a_store_cut_to(4096), StoreCorruptError, "is damaged"),
    (a_store_cut_to(0.5), StoreCorruptError, "is damaged: .*Restore it from a copy"),
    (a_store_of_schema(99), StoreVersionError, "newer rewind_nb .schema 99.*pip install -U"),
    (a_store_of_schema(0), StoreFormatError, "no schema 0"),
    (a_store_of_schema(-7), StoreFormatError, "no schema -7"),
]


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize(
    ("make", "error", "said"), REFUSED, ids=[make.__name__ for make, *_ in REFUSED]
)
def test_what_is_no_store_is_refused_and_stays_as_it_was(
    make, error, said, read_only, path, monkeypatch
):
    monkeypatch.chdir(path.parent)
    make(path)
    before = contents_of(path.parent) if make not in (a_pipe, a_socket) else None

    for _ in range(2):  # the second meets what the first left
        with pytest.raises(error, match=said) as caught:
            Store(path, read_only=read_only)

    assert type(caught.value) is error
    assert str(path) in str(caught.value)
    if before is not None:
        after = contents_of(path.parent)
        leftovers = {"runs.db-wal", "runs.db-shm"} if read_only else set()
        assert {n: d for n, d in after.items() if n not in leftovers} == before


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("file.txt/runs.db", "cannot be"),
        ("n" * 300, "cannot be the path of a store: File name too long"),
        ("nul\0.db", "cannot be the path of a store: embedded null"),
    ],
)
def test_what_cannot_be_a_path_is_refused(name, said, tmp_path):
    (tmp_path / "file.txt").write_text("text")

    with pytest.raises(StoreError, match=said):
        Store(tmp_path / name)
    assert [p.name for p in tmp_path.iterdir() if p.name != "artifacts"] == ["file.txt"]


def test_a_device_is_refused():
    with pytest.raises(StoreFormatError, match="is a device"):
        Store("/dev/null")


def test_a_store_to_read_must_be_there_and_is_not_created(path):
    said = r"There is no store at .*runs.db, and reading creates none. Check the path."
    with pytest.raises(StoreNotFoundError, match=said) as caught:
        Store(path, read_only=True)
    assert isinstance(caught.value, StoreError)
    assert isinstance(caught.value, LookupError)
    assert caught.value.path == str(path)
    assert list(path.parent.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_named(path):
    path.write_text("in the way")

    with pytest.raises(StoreError) as caught:
        Store(path / "deeper" / "runs.db")
    assert str(path) in str(caught.value)


def test_a_new_store_is_there_whole_or_not_at_all(path, monkeypatch):
    original = _build.create_tables

    def breaks(into):
        original(into)
        raise KeyboardInterrupt

    monkeypatch.setattr(_build, "create_tables", breaks)
    with pytest.raises(KeyboardInterrupt):
        create(path)
    assert list(path.parent.iterdir()) == []


def test_a_store_is_created_also_where_there_are_no_hard_links(path, monkeypatch):
    def refuse(self, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with Store(path) as store:
        run = recorded(store)
        assert store.run(run.run.id).state == run.state
    assert {p.name for p in path.parent.iterdir()} <= {"runs.db", "runs.db.lock"}


# -- reading only ---------------------------------------------------------------------------


def test_a_store_opened_to_read_shows_everything_and_changes_nothing(filled):
    path, run = filled
    before = path.read_bytes()

    with Store(path, read_only=True) as store:
        assert store.run(run.run.id).state == run.state
        assert store.verify().ok
        batch = Batch()
        batch.value("new")
        with pytest.raises(StoreReadOnlyError, match="opened with read_only=True"):
            store.submit(batch)
    assert path.read_bytes() == before


def test_a_store_opened_to_read_sees_what_others_write(path):
    create(path)
    with Store(path) as writing, Store(path, read_only=True) as reading:
        for _ in range(3):
            run = recorded(writing)
            assert reading.run(run.run.id).state == run.state


# -- rows come back -------------------------------------------------------------------------

ODD = "lone \ud800, NUL \0, \u2028 '\"; DROP TABLE runs; --\N{COMBINING ACUTE ACCENT}"
FULL = {
    "run": run_row(
        "r_full", label=ODD, parent=None, at=0, parent_len=7, overrides=digest(1),
        mode={ODD: [1, 2.5, None]}, state=(("k", digest(1)), (ODD, digest(2))), prior=ODD,
        experiment=ODD, cell=ODD, epoch=2**63 - 1, created_at=5, owner={"pid": 1},
        status="failed", tail=3, halts=({"inputs": [["a", digest(3)]]},), next_action=ODD,
        note=ODD, ended_at=7, root=digest(4), containers={"a": {"b": ODD}},
    ),
    "step": step_row(
        "r_full", 3, path=ODD, action=ODD, reason=ODD, inputs=(("i", digest(1)),),
        reads=(("r", digest(1)), ("absent", None)), reads_all=True, writes=((ODD, digest(2)),),
        deleted={"keep": ["a", ODD]}, result=digest(3), hash=digest(4), code=digest(5),
        error=ErrorInfo("builtins.ValueError", ODD, raw=ODD, traceback=None),
        hidden_state=("a", ODD), transition={"to": None, "condition": ODD, "reads": []},
        state=(), duration_s=0, usage=Usage(1, None, None, 3), override=digest(6), chain="c",
    ),
    "call": call_row(
        step_row("r_full", 3), 2, name=ODD, branch=ODD, parent=1, response=None, playable=False,
        error=ErrorInfo("E", "m"), replayed_from=ODD, model=ODD, answered_by=ODD, latency_s=1,
        usage=Usage(0, 0),
    ),
    "artifact": artifact_row(step_row("r_full", 3), ODD, b"\0\xff"),
    "experiment": seal(ExperimentRow(
        "e_full", ODD, ODD, ODD, digest(1), 5, {"pid": 1}, status="failed", note=ODD, ended_at=7,
        result=digest(2),
    )),
}  # fmt: skip
HOST = step_row("r_full", 3, calls=1)  # whose call and artifact they are


@pytest.mark.parametrize("kind", FULL)
@pytest.mark.parametrize("where", ["memory", "file"])
def test_a_row_comes_back_exactly(kind, where, path):
    row = FULL[kind]
    with Store(":memory:" if where == "memory" else path) as store:
        batch = Batch()
        batch.add(row)
        batch.add(HOST)
        store.submit(batch).result()
        key = ("r_full", getattr(row, "path", ""), 3, 0)
        found = {
            "run": lambda: store.read(_read.run_row, "r_full"),
            "step": lambda: store.read(_read.step_rows, "r_full", 3, 4, path=row.path)[0],
            "call": lambda: store.read(_read.call_rows, key)[0],
            "artifact": lambda: store.read(_read.artifact_rows, key)[0],
            "experiment": lambda: store.read(_experiments.experiment_row, "e_full"),
        }[kind]()

    assert found == row
    assert repr(found) == repr(row).replace("created_at=5,", "created_at=5.0,").replace(
        "ended_at=7,", "ended_at=7.0,"
    ).replace("duration_s=0,", "duration_s=0.0,").replace("latency_s=1,", "latency_s=1.0,")


COLUMNS = [
    (table.name, column.name)
    for table in schema.TABLES.values()
    for column in table.columns
    if not column.primary_key and (table.name, column.name) != ("steps", "chain")
]


@pytest.mark.parametrize(("table", "column"), COLUMNS, ids=[".".join(c) for c in COLUMNS])
def test_a_change_of_any_column_is_noticed_when_the_row_is_read(table, column, path):
    with Store(path) as store:
        batch = Batch()
        for row in (*FULL.values(), HOST):
            batch.add(row)
        store.submit(batch).result()
        readers = {
            "runs": lambda: store.runs(experiments=True),
            "steps": lambda: store.read(_read.step_rows, "r_full", 0, 9, path=ODD),
            "calls": lambda: store.read(_read.call_rows, ("r_full", "", 3, 0)),
            "artifacts": lambda: store.read(_read.artifact_rows, ("r_full", "", 3, 0)),
            "experiments": lambda: store.read(_experiments.experiment_rows),
        }
        assert readers[table]()  # it is fine before
        change(path, f"UPDATE {table} SET {column} = 'x'")

        with pytest.raises(StoreCorruptError, match="does not match its hash"):
            readers[table]()
        assert not store.verify().ok


def test_a_secret_is_refused_before_it_is_stored(store):
    from rewind_nb import Secret

    Secret("sk-test-canary-0123456789")
    with pytest.raises(SecretLeakError):
        Batch().value({"key": "sk-test-canary-0123456789"})


# -- history stays ----------------------------------------------------------------------------


def test_a_step_that_ended_cannot_be_written_again(store):
    run = recorded(store)
    before = store.read(_read.step_rows, run.run.id, 0, 9)
    batch = Batch()
    batch.value("comes with it")
    batch.replace(before[1], duration_s=99.0)

    with pytest.raises(RunBusyError, match="taken up by another process"):
        store.submit(batch).result()
    assert store.read(_read.step_rows, run.run.id, 0, 9) == before
    with pytest.raises(StoreCorruptError):  # all of a batch, or none
        store.value(digest("comes with it"))


def test_a_run_can_be_claimed_by_one_process_only(path):
    with Store(path) as here, Store(path) as there:
        run = recorded(here).run
        mine, theirs = (dataclasses.replace(run, status="running", note=n) for n in "ab")
        first, second = Batch(), Batch()
        first.claim(mine, run)
        second.claim(theirs, there.row(run.id))
        here.submit(first).result()

        with pytest.raises(RunBusyError, match=run.id):
            there.submit(second).result()
        assert here.row(run.id).note == there.row(run.id).note == "a"


def test_the_tip_of_a_run_that_is_not_there_is_not_silently_lost(store):
    batch = Batch()
    batch.tip(run_row("r_gone"))

    with pytest.raises(RunBusyError):
        store.submit(batch).result()


# -- finding runs -----------------------------------------------------------------------------

HOSTILE = [
    "r_%", "r__", "r_*", "' OR '1'='1", "r_'; DROP TABLE runs; --", '"', "r_\0x", "\ud800",
    "r_[a-z]", "R_A", "r_a\\", "é", "\U0010ffff",
]  # fmt: skip


def test_an_id_is_never_a_pattern_nor_sql(store):
    ids = ["r_abc", "r_abd", "r_b", *HOSTILE]
    batch = Batch()
    for run_id in ids:
        batch.add(run_row(run_id))
    store.submit(batch).result()

    for run_id in ids:
        assert store.run(run_id).id == run_id
    for prefix in ["r_ab%", "r_ab_", "%", "_", "' OR 1=1 --", "r_abc\0", "R_ABC", "*"]:
        with pytest.raises(RunNotFoundError):
            store.run(prefix)
    assert len(store.runs()) == len(ids)


def test_the_start_of_an_id_finds_its_run_or_lists_the_candidates(store):
    batch = Batch()
    for run_id in ("r_abc1", "r_abc2", "r_abc", "r_x"):
        batch.add(run_row(run_id))
    store.submit(batch).result()

    assert store.run("r_x").id == "r_x"
    assert store.run("r_abc").id == "r_abc"  # an id in full is never ambiguous
    with pytest.raises(AmbiguousIdError, match="matches 3 runs: r_abc1, r_abc2, r_abc. Give") as c:
        store.run("r_ab")
    assert c.value.matches == ["r_abc1", "r_abc2", "r_abc"]
    with pytest.raises(RunNotFoundError, match="Did you mean 'r_abc2'"):
        store.run("r_abc22")
    for nothing in (None, 3, b"r_x", ["r_x"]):
        with pytest.raises(RunNotFoundError, match="found by its id or the start of it, a str"):
            store.run(nothing)


def test_runs_are_listed_in_the_order_they_were_written_whatever_the_clock_said(store):
    ids = []
    for n, clock in enumerate([5.0e9, 1.0e9, 3.0e9, 3.0e9, 0.0]):
        ids.append(f"r_{9 - n}")
        batch = Batch()
        batch.add(run_row(ids[-1], created_at=clock))
        store.submit(batch).result()

    assert [run.id for run in store.runs()] == ids
    assert store.read(_read.run_ids) == ids


# -- values -----------------------------------------------------------------------------------


def grow(store, versions):
    """Store values, each said to be like the one before; their contents."""
    before, made = None, []
    for data in versions:
        batch = Batch()
        before = batch.content(data, before)
        store.submit(batch, wake=False)
        made.append(before)
    store.flush()
    return made


def messages(count):
    """*count* messages of 1 KB that share nothing."""
    return [os.urandom(512).hex()[:1000] for _ in range(count)]


def encoded(value):
    return json.dumps(value, separators=(",", ":")).encode()


SHAPES = {
    "a list": lambda chat, n: chat,
    "a list in a dict": lambda chat, n: {"chat": chat, "open": True},
    "a list after a counter": lambda chat, n: {"turn": n, "chat": chat},
    "a list between counters": lambda chat, n: {"turn": n, "chat": chat, "left": 1000 - n},
    "a list deep inside": lambda chat, n: {"n": n, "a": [{"b": {"chat": chat, "at": n}}], "z": 1},
}


@pytest.mark.thorough
@pytest.mark.parametrize("shape", SHAPES)
def test_a_history_that_grows_costs_its_new_part_a_step(shape, path):
    chat = messages(800)
    versions = [encoded(SHAPES[shape](chat[: n + 1], n)) for n in range(800)]
    with Store(path) as store:
        made = grow(store, versions)
        for n in (0, 1, 63, 64, 65, 399, 798, 799):
            assert store.content(made[n].hash).data == versions[n]
        assert store.verify().ok

    unique = sum(map(len, chat))
    assert path.stat().st_size <= 2 * unique
    assert sum(map(len, versions)) > 300 * unique  # what it would cost without


def test_a_window_over_a_history_costs_its_new_part_a_step(path):
    chat = messages(400)
    versions = [encoded(chat[max(0, n - 50) : n + 1]) for n in range(400)]
    with Store(path) as store:
        made = grow(store, versions)
        assert [store.content(c.hash).data for c in made] == versions

    assert path.stat().st_size <= 2 * sum(map(len, chat))


@pytest.mark.thorough
def test_what_repeats_a_history_costs_its_new_part_also_where_nobody_says_what_it_is_like(path):
    """Requests to a model and results of actions: each holds the whole history again."""
    chat = messages(400)
    with Store(path) as store:
        for n in range(400):
            batch = Batch()
            batch.content(encoded({"body": {"messages": chat[: n + 1], "model": "m"}}))
            batch.content(encoded({"result": chat[: n + 1]}))
            store.submit(batch, wake=False)
        store.flush()
        assert store.verify().ok

    assert path.stat().st_size <= 2 * 2 * sum(map(len, chat))


def test_reading_a_value_that_changed_often_costs_no_more_than_its_size_allows(store):
    versions = [b"x" * 2000 + b"%d" % n for n in range(1000)]
    made = grow(store, versions)

    chain = "SELECT max(depth) FROM contents"
    [deepest] = store.read(lambda c: c.execute(chain).fetchone())
    assert 10 < deepest <= 64 + 2004 // 64
    assert [store.content(c.hash).data for c in made] == versions


def test_a_value_is_stored_whole_where_what_it_is_like_is_not_in_this_store(store):
    with Store(":memory:") as other:
        [base] = grow(other, [b"a" * 4000])
    batch = Batch()
    like = batch.content(b"a" * 4000 + b"b", base)
    store.submit(batch).result()

    assert store.content(like.hash).data == b"a" * 4000 + b"b"
    assert store.verify().ok


@st.composite
def edited(draw):
    """Two byte strings of which one was edited into the other, in a few places."""
    chance = draw(st.randoms(use_true_random=False))
    alphabet = draw(st.sampled_from([b"ab", b'{"role":"user"},', bytes(range(256))]))

    def some(most):
        return bytes(chance.choices(alphabet, k=chance.randrange(most)))

    old = some(3000)
    new = bytearray(old)
    for _ in range(draw(st.integers(0, 6))):
        at = chance.randrange(len(new) + 1)
        new[at : at + chance.randrange(80)] = some(80)
    return old, bytes(new)


@pytest.mark.thorough
@given(edited())
@settings(max_examples=150, deadline=None)
def test_the_edits_between_two_values_turn_the_one_into_the_other(pair):
    old, new = pair
    edits = _delta.find_edits(old, new)

    if edits is not None:
        assert _delta.apply(bytearray(old), _delta.pack(edits)) == new
        assert all(a.stop <= b.start for a, b in zip(edits, edits[1:], strict=False))
    packed = _delta.delta(old, new)
    assert packed is None or len(packed) * 2 <= len(new)


@given(st.lists(edited(), min_size=1, max_size=4))
@settings(max_examples=60, deadline=None)
def test_any_values_come_back_exactly_and_verify(pairs):
    with Store(":memory:") as store:
        versions = [data for pair in pairs for data in pair]
        made = grow(store, versions)

        assert [store.content(c.hash).data for c in made] == versions
        assert store.verify().ok


def test_a_value_that_waits_to_be_committed_can_be_read(path):
    with Store(path) as store:
        for n in range(50):
            batch = Batch()
            hashed = batch.value(["waits", n])
            store.submit(batch, wake=False)
            assert store.value(hashed) == ["waits", n]


def test_a_run_that_waits_to_be_committed_is_found(path):
    with Store(path) as store:
        for _ in range(50):
            batch = Batch()
            row = run_row(new_id())
            batch.add(row)
            store.submit(batch, wake=False)
            assert store.run(row.id).id == row.id


def test_a_missing_value_is_an_error_and_never_a_default(store):
    with pytest.raises(StoreCorruptError, match="is missing"):
        store.value(digest("never stored"))


def test_missing_or_damaged_artifact_bytes_are_an_error(path):
    with Store(path) as store:
        run = recorded(store)
        [artifact] = store.run(run.run.id).artifacts
        assert artifact.bytes == b"# report\n" * 40
        change(path, "UPDATE blobs SET body = X'00'")
        with pytest.raises(StoreCorruptError, match="do not match their hash"):
            _ = artifact.bytes
        change(path, "DELETE FROM blobs")
        with pytest.raises(StoreCorruptError, match="are missing"):
            _ = artifact.bytes


def test_an_answer_that_is_listed_for_another_request_is_never_played_back(path):
    with Store(path) as store:
        run = recorded(store)
        identity = ("go:2", "print 0", 0, 0)
        assert store.read(_read.playable_call, "model", identity, not_of="r_x") is not None
        assert store.read(_read.playable_call, "model", identity, not_of=run.run.id) is None
        change(path, "UPDATE responses SET fingerprint = 'other' WHERE place = 'go:2'")
        with pytest.raises(StoreCorruptError, match="as the answer to another request"):
            store.read(_read.playable_call, "model", ("go:2", "other", 0, 0), not_of="r_x")


# -- verify -----------------------------------------------------------------------------------

DAMAGE = [
    ("a run's header", "UPDATE runs SET label = 'x'", "stored run does not match"),
    ("a run's tip", "UPDATE runs SET next_action = 'x'", "stored run does not match"),
    ("a status", "UPDATE runs SET status = 'halted'", "stored run does not match"),
    ("a step", "UPDATE steps SET action = 'x' WHERE seq = 1", "stored step does not match"),
    ("a call", "UPDATE calls SET answered_by = 'x'", "stored call does not match"),
    ("an artifact", "UPDATE artifacts SET file = 'x'", "stored artifact does not match"),
    ("a value", "UPDATE contents SET body = X'00' WHERE id = 2", "bytes do not match"),
    ("a base", "UPDATE contents SET base = 99 WHERE id = 3", "bytes do not match"),
    ("a base in a circle", "UPDATE contents SET base = id", "bytes do not match"),
    ("bytes of an artifact", "UPDATE blobs SET body = X'00'", "artifact bytes .* do not match"),
    ("a missing value", "DELETE FROM contents WHERE id = 2", "refers to this: .* is missing"),
    ("missing bytes", "DELETE FROM blobs", "Artifact 'report.md' .* are missing"),
    ("a chain", "UPDATE steps SET chain = 'x' WHERE seq = 1", "breaks its chain of hashes at"),
    ("a missing step", "DELETE FROM steps WHERE seq = 1", "lacks its step 1"),
    ("a missing first step", "DELETE FROM steps WHERE seq = 0", "lacks its step 0"),
    ("a missing last step", "DELETE FROM steps WHERE seq = 4", "root hash does not match"),
    ("no steps", "DELETE FROM steps", "root hash does not match"),
    ("a missing call", "DELETE FROM calls WHERE seq = 1", "holds 0 of them"),
    ("a missing run", "DELETE FROM runs WHERE kind = 'record'", "is itself missing"),
    ("a missing parent", "DELETE FROM runs WHERE kind = 'record'", "is a fork of .*is missing"),
    ("an answer", "UPDATE responses SET seq = 99", "as an answer that it is not"),
    ("an answer's place", "UPDATE responses SET place = 'x'", "as an answer that it is not"),
    ("an answer's sample", "UPDATE responses SET n = 1", "as an answer that it is not"),
    ("an index", "PRAGMA writable_schema=1", "SQLite"),
]


@pytest.mark.parametrize(("sql", "said"), [d[1:] for d in DAMAGE], ids=[d[0] for d in DAMAGE])
def test_verify_names_each_kind_of_damage(sql, said, path):
    with Store(path) as store:
        run = recorded(store)
        fork = Recorder(store, parent=run.run.id, at=2, parent_len=5, kind="fork", state={"n": 1})
        fork.step(n=7)
        fork.end()
        assert store.verify().ok
    if sql.startswith("PRAGMA"):  # an index that lost its rows
        connection = sqlite3.connect(path)
        connection.execute(sql)
        page = "SELECT rootpage FROM sqlite_master WHERE name = 'runs'"
        root = connection.execute(page).fetchone()[0]
        wrong = f"UPDATE sqlite_master SET rootpage = {root} WHERE name = 'steps_visit'"
        connection.execute(wrong)
        connection.commit()
        connection.close()
    else:
        change(path, sql)

    with Store(path) as store:
        report = store.verify()
    assert not report.ok
    assert not report
    assert any(re.search(said, problem) for problem in report.problems), report.problems


def test_verify_says_what_it_checked(filled):
    path, _ = filled
    with Store(path) as store:
        assert repr(store.verify()) == (
            "VerifyReport(ok; checked 9 rows, 13 values, 1 blobs, 1 runs)"
        )


def test_a_run_that_says_it_ended_and_did_not_is_named(store):
    run = Recorder(store, state={"n": 0})
    run.step(n=1)
    opened = Batch()
    opened.replace(step_row(run.run.id, 1, status="open"))
    store.submit(opened).result()
    assert store.verify().ok  # it is still running
    run.end()
    assert any("its step 1 is not complete" in p for p in store.verify().problems)


def test_a_run_that_ended_without_a_root_is_named(store):
    run = Recorder(store, state={"n": 0})
    run.step(n=1)
    batch = Batch()
    batch.tip(dataclasses.replace(run.run, status="complete", ended_at=1.0))
    store.submit(batch).result()

    assert any("is complete and has no root hash" in p for p in store.verify().problems)


def test_failed_and_repeated_attempts_verify(store):
    run = Recorder(store, state={"n": 0})
    run.step(n=1)
    run.step(n=2, status="failed", calls=1)
    run.end("failed")
    assert store.verify().ok, store.verify().problems
    again = step_row(run.run.id, 1, attempt=1, writes=())
    again = dataclasses.replace(again, chain=schema.chain_hash(run.chain, again))
    batch = Batch()
    batch.replace(again)
    run.chain = again.chain
    store.submit(batch).result()
    run.end()

    assert store.verify().ok, store.verify().problems
    assert len(store.run(run.run.id).history()) == 3


def test_a_missing_step_is_noticed_when_the_run_is_read(path):
    with Store(path) as store:
        run = recorded(store)
        change(path, "DELETE FROM steps WHERE seq = 2")
        with pytest.raises(
            StoreCorruptError, match="has 4 of the 5 steps that were written: step 2 is missing"
        ):
            _ = store.run(run.run.id).steps
        change(path, "DELETE FROM steps WHERE seq > 2")
        with pytest.raises(StoreCorruptError, match="root hash does not match"):
            _ = store.run(run.run.id).steps


def test_a_run_that_was_read_before_it_went_on_is_not_taken_for_damaged(store):
    run = Recorder(store, state={"n": 0})
    run.step(n=1)
    run.end("halted")
    before = store.run(run.run.id)  # nothing of its steps is read yet
    run.step(n=2)
    run.end()

    assert [step.writes["n"] for step in before.steps] == [1, 2]


def test_a_missing_call_is_noticed_when_the_step_is_read(path):
    with Store(path) as store:
        run = recorded(store)
        change(path, "DELETE FROM calls WHERE seq = 1")
        with pytest.raises(StoreCorruptError, match="made 1 call"):
            _ = store.run(run.run.id)[1].calls


# -- versions ---------------------------------------------------------------------------------

NEXT = schema.SCHEMA_VERSION + 1


@pytest.fixture
def next_version(monkeypatch):
    """This package, one schema later."""
    ran = []

    def add_column(raw):
        ran.append(1)
        raw.execute("ALTER TABLE experiments ADD COLUMN colour TEXT")
        raw.execute("UPDATE experiments SET colour = 'red'")

    monkeypatch.setattr(_migrate, "SCHEMA_VERSION", NEXT)
    monkeypatch.setitem(_migrate.MIGRATIONS, schema.SCHEMA_VERSION, add_column)
    return ran


def columns(path):
    connection = sqlite3.connect(path)
    found = [row[1] for row in connection.execute("PRAGMA table_info(experiments)")]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    connection.close()
    return found, version


def test_an_older_store_is_brought_up_to_date_once_and_keeps_what_it_holds(filled, next_version):
    path, run = filled
    for _ in range(2):
        with Store(path) as store:
            assert store.run(run.run.id).state == run.state
            assert store.verify().ok

    assert columns(path) == ([*columns(path)[0][:-1], "colour"], NEXT)
    assert next_version == [1]


def test_a_migration_that_fails_leaves_the_store_as_it_was(filled, next_version, monkeypatch):
    path, run = filled
    before = columns(path)

    def fails(raw):
        raw.execute("ALTER TABLE experiments ADD COLUMN colour TEXT")
        raise RuntimeError("half way")

    monkeypatch.setitem(_migrate.MIGRATIONS, schema.SCHEMA_VERSION, fails)
    with pytest.raises(RuntimeError, match="half way"):
        Store(path)
    monkeypatch.undo()

    assert columns(path) == before
    with Store(path) as store:
        assert store.run(run.run.id).state == run.state


def test_an_older_store_opened_to_read_says_how_to_bring_it_up_to_date(filled, next_version):
    path, _ = filled
    with pytest.raises(
        StoreVersionError, match=f"older rewind_nb .schema {NEXT - 1}.*Open it once"
    ):
        Store(path, read_only=True)
    assert columns(path)[1] == NEXT - 1


def test_a_migrated_store_is_refused_by_the_version_before(filled, next_version, monkeypatch):
    path, _ = filled
    Store(path).close()
    monkeypatch.undo()

    with pytest.raises(StoreVersionError) as caught:
        Store(path)
    assert (caught.value.found, caught.value.supported) == (NEXT, NEXT - 1)


# -- closing ----------------------------------------------------------------------------------


def test_closing_commits_what_nobody_waited_for(path):
    store = Store(path)
    batch = Batch()
    hashed = batch.value("waits")
    store.submit(batch, wake=False)
    store.close()

    with Store(path) as store:
        assert store.value(hashed) == "waits"


def test_a_closed_store_takes_nothing_more_and_a_file_can_still_be_read(path):
    store = Store(path)
    run = recorded(store)
    store.close()
    store.close()

    with pytest.raises(StoreClosedError, match=r"runs.db was closed.* Open it again") as caught:
        store.submit(Batch())
    assert caught.value.path == str(path)
    assert store.run(run.run.id).state == run.state
    assert not path.with_name("runs.db-wal").exists()  # no connection stays behind


def test_a_closed_store_in_memory_is_gone_and_says_so():
    store = Store(":memory:")
    run = recorded(store)
    store.close()

    with pytest.raises(StoreClosedError, match="was in memory is gone. Use Store.path. with"):
        store.run(run.run.id)
    with pytest.raises(StoreClosedError):
        store.submit(Batch())


def test_a_store_that_is_forgotten_commits_what_waits(path):
    store = Store(path)
    batch = Batch()
    hashed = batch.value("waits")
    store.submit(batch, wake=False)
    del store, batch
    gc.collect()

    with Store(path) as store:
        assert store.value(hashed) == "waits"


def test_the_interpreter_commits_what_waits_when_it_ends(path):
    script = f"""if True:
        import sys
        from rewind_nb import Store
        from rewind_nb._store import Batch
        store = Store({str(path)!r})
        batch = Batch()
        print(batch.value("waits"))
        store.submit(batch, wake=False)
        sys.exit(3)
    """
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (3, "")
    with Store(path) as store:
        assert store.value(done.stdout.strip()) == "waits"


# -- failures ---------------------------------------------------------------------------------


def too_big():
    """A batch that can never be right."""
    batch = Batch()
    batch.add(run_row(new_id(), epoch=2**70))
    return batch


def test_a_failure_that_nobody_looked_at_is_raised_by_the_next_call(store):
    store.submit(too_big(), wake=False)
    with pytest.raises(StoreError, match="too large"):
        store.flush()
    store.flush()  # once


def test_a_failure_that_nobody_looked_at_is_raised_by_closing(path):
    store = Store(path)
    store.submit(too_big(), wake=False)

    with pytest.raises(StoreError, match="too large"):
        store.close()


def test_a_failure_that_was_looked_at_is_not_raised_again(store):
    with pytest.raises(StoreError, match="too large"):
        store.submit(too_big()).result()
    assert store.submit(too_big()).exception() is not None

    assert recorded(store).run.id
    store.close()


def test_a_bad_batch_does_not_take_the_others_with_it(path):
    with Store(path) as store:
        kept, bad = [], []
        with _held_turn(store):
            for n in range(20):
                batch = Batch()
                kept.append((batch.value(n), n, store.submit(batch)))
                if n % 7 == 3:
                    bad.append(store.submit(too_big()))
        for hashed, n, commit in kept:
            commit.result()
            assert store.value(hashed) == n
        assert [type(commit.exception()) for commit in bad] == [StoreError] * 3


@contextlib.contextmanager
def _held_turn(store):
    """Nobody can write meanwhile, so that what is submitted becomes one group."""
    store.submit(Batch()).result()
    holder = sqlite3.connect(store.path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        holder.execute("COMMIT")
        holder.close()


def test_a_caller_that_is_cancelled_leaves_the_writer_at_work(path):
    import asyncio

    async def main(store):
        batch = Batch()
        hashed = batch.value("cancelled")
        with _held_turn(store):
            waiting = asyncio.wrap_future(store.submit(batch))
            waiting.cancel()
            await asyncio.sleep(0)
        return hashed

    with Store(path) as store:
        hashed = asyncio.run(main(store))
        store.flush()
        assert store.value(hashed) == "cancelled"


def test_the_rows_are_flat_and_their_hash_covers_every_field():
    for row in FULL.values():
        for field in dataclasses.fields(row):
            fixed = isinstance(row, RunRow) and field.name in schema.RUN_TIP
            unhashed = fixed or field.name in ("row_hash", "chain")
            other = dataclasses.replace(row, **{field.name: _other(getattr(row, field.name))})
            assert (seal(other).row_hash == seal(row).row_hash) is unhashed, field.name
            if fixed:
                assert schema.tip_values(other)[-1] != schema.tip_values(row)[-1]


def _other(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value - 1
    if isinstance(value, tuple):
        return (*value, ("zz", "1"))
    if isinstance(value, dict):
        return {**value, "zz": "1"}
    if isinstance(value, Usage):
        return value + Usage(1, 1)
    if isinstance(value, ErrorInfo):
        return dataclasses.replace(value, message="other")
    return f"{value}x"


def test_steps_of_one_run_are_written_in_one_order(store):
    assert [f.name for f in dataclasses.fields(StepRow)][:4] == list(schema.STEP_KEY)
    run = recorded(store)
    assert [s.seq for s in store.run(run.run.id).steps] == [0, 1, 2, 3, 4]
    assert everything(store, run.run.id)["final"] == run.state


def test_the_thread_that_commits_does_not_wait_for_itself():
    """It may be the one that collects a stream which nobody closed, and ends its step."""
    with Store(":memory:") as store:
        waited: Future[object] = Future()

        def collects(_: object) -> None:
            try:
                waited.set_result(store.submit(Batch()).result())
            except BaseException as error:
                waited.set_exception(error)

        store.submit(Batch()).add_done_callback(collects)
        assert waited.result(timeout=20) is None
