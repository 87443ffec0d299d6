"""Many processes and threads on one store: nothing is lost, nothing is refused."""

import contextlib
import fcntl
import os
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from recorder import Recorder, create, everything, new_id, recorded, run_row

from rewind_nb import Store
from rewind_nb._store import Batch, _engine, _file, _read
from rewind_nb.errors import StoreError

TESTS = Path(__file__).parent


HEAD = f"""
import os, sys, threading, time
sys.path[:0] = [{str(TESTS.parent)!r}, {str(TESTS)!r}]
from recorder import Recorder, new_id, recorded, run_row
from rewind_nb._store import Batch, Store, _engine, _read
path, *arguments = sys.argv[1:]
"""


@pytest.fixture
def start():
    """Start a process that runs a script with the store and the recorder at hand."""
    started = []

    def start(script, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", HEAD + textwrap.dedent(script), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        with process:
            pass


def finish(process):
    out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    return out.split()


WAYS = {
    "taking turns at a lock file": (False, True),
    "as with a SQLite that needs none": (True, True),
    "as where there is none": (False, False),
}


@pytest.fixture(params=WAYS.values(), ids=WAYS.keys())
def turns(request, monkeypatch):
    """Each way to keep writers apart, here and in the processes started with what it returns."""
    fixed, can_lock = request.param
    monkeypatch.setattr(_engine, "wal_reset_fixed", lambda: fixed)
    monkeypatch.setattr(_file, "CAN_LOCK", can_lock)
    return f"_engine.wal_reset_fixed = lambda: {fixed}\n_engine._file.CAN_LOCK = {can_lock}\n"


WRITE = """
    failures = []
    def work(store):
        try:
            for _ in range(3):
                sys.stdout.write(recorded(store).run.id + chr(10))
        except Exception as error:
            failures.append(repr(error))
    sys.stdin.readline()
    with Store(path) as store:
        threads = [threading.Thread(target=work, args=(store,)) for _ in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
    sys.exit("; ".join(failures) or 0)
"""


@pytest.mark.thorough
def test_eight_processes_of_four_threads_create_a_store_and_write_to_it_at_once(
    tmp_path, turns, start
):
    path = tmp_path / "runs.db"
    writers = [start(turns + textwrap.dedent(WRITE), path) for _ in range(8)]
    for process in writers:  # all at the same moment, the file is not there yet
        process.stdin.write("go\n")
        process.stdin.flush()
    ids = [run_id for process in writers for run_id in finish(process)]

    assert len(set(ids)) == 8 * 4 * 3
    with Store(path) as store:
        assert {run.id for run in store.runs()} == set(ids)
        assert all(len(run) == 5 and run.status == "complete" for run in store.runs())
        assert store.verify().ok
    leftovers = {p.name for p in tmp_path.iterdir()} - {"runs.db.lock", "artifacts"}
    assert leftovers == {"runs.db"}


def test_readers_see_whole_steps_and_never_wait_while_others_write(tmp_path, start):
    path = tmp_path / "runs.db"
    create(path)
    writers = [start(WRITE, path) for _ in range(2)]
    for process in writers:
        process.stdin.write("go\n")
        process.stdin.flush()
    seen = 0
    with Store(path, read_only=True) as store:
        while any(process.poll() is None for process in writers):
            for run in store.runs()[-3:]:
                whole = everything(store, run.id)
                assert [row.seq for row, *_ in whole["steps"]] == list(range(len(whole["steps"])))
                assert run.status == "running" or len(run) == 5
                seen += 1
    for process in writers:
        finish(process)
    assert seen > 0


def test_verify_is_not_confused_by_what_is_written_meanwhile(tmp_path, start):
    path = tmp_path / "runs.db"
    create(path)
    writer = start(WRITE, path)
    writer.stdin.write("go\n")
    writer.stdin.flush()
    with Store(path, read_only=True) as store:
        reports = []
        while writer.poll() is None:
            reports.append(store.verify())
    finish(writer)
    assert reports
    assert all(report.ok for report in reports), [r.problems for r in reports if not r]


def in_threads(count, work):
    with ThreadPoolExecutor(count) as pool:
        return [done.result() for done in [pool.submit(work, n) for n in range(count)]]


@pytest.mark.parametrize("where", ["memory", "file"])
def test_threads_share_a_store(where, tmp_path):
    with Store(":memory:" if where == "memory" else tmp_path / "runs.db") as store:

        def work(n):
            run = Recorder(store, state={"n": n})
            for step in range(10):
                run.step(n=n * 100 + step)
                assert store.run(run.run.id).state == {"n": n * 100 + step}
            run.end()
            return run

        runs = in_threads(16, work)
        for run in runs:
            assert store.run(run.run.id).state == run.state
        assert store.verify().ok
        assert len(store.runs()) == 16


def test_two_stores_of_one_process_share_a_file(tmp_path):
    path = tmp_path / "runs.db"
    with Store(path) as one, Store(path) as other:
        runs = in_threads(8, lambda n: recorded((one, other)[n % 2]))
        for run in runs:
            assert one.run(run.run.id).state == other.run(run.run.id).state == run.state
        assert other.verify().ok


def test_what_waits_is_committed_in_the_order_it_came(tmp_path):
    """Every prefix that another process can see is one that was there."""
    path = tmp_path / "runs.db"
    create(path)
    with Store(path) as store, Store(path, read_only=True) as reader:
        ids = []
        for n in range(300):
            ids.append(new_id())
            batch = Batch()
            batch.add(run_row(ids[-1]))
            store.submit(batch, wake=n % 7 == 0)
            if n % 20 == 0:
                seen = reader.read(_read.run_ids)
                assert seen == ids[: len(seen)]
        store.flush()
        assert reader.read(_read.run_ids) == ids


def test_an_acknowledged_batch_is_seen_by_every_other_process_at_once(tmp_path, start):
    path = tmp_path / "runs.db"
    with Store(path) as store:
        other = start(
            """
            store = Store(path)
            for line in sys.stdin:
                print(store.run(line.strip()).id, flush=True)
            """,
            path,
        )
        for _ in range(50):
            batch = Batch()
            row = run_row(new_id())
            batch.add(row)
            store.submit(batch).result()
            other.stdin.write(row.id + "\n")
            other.stdin.flush()
            assert other.stdout.readline().strip() == row.id
        finish(other)


# -- waiting for each other -------------------------------------------------------------------


@pytest.mark.skipif(not _engine.takes_turns(), reason="this SQLite needs no lock file")
def test_a_lock_that_is_never_given_back_is_an_error_that_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(_file, "WAIT_S", 0.05)
    path = tmp_path / "runs.db"
    with Store(path) as store:
        recorded(store)
        with open(f"{path}.lock") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with pytest.raises(StoreError, match="is held by another process for more than"):
                store.submit(Batch()).result()
            assert len(store.runs()) == 1  # readers do not wait
        assert len(recorded(store).states) == 5


def test_a_transaction_that_never_ends_elsewhere_is_an_error_that_says_so(tmp_path, monkeypatch):
    import sqlite3

    monkeypatch.setattr(_file, "WAIT_S", 0.05)
    path = tmp_path / "runs.db"
    create(path)
    with Store(path) as store:
        holder = sqlite3.connect(path, isolation_level=None)
        with contextlib.closing(holder):
            holder.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match="is held by another process: database is locked"):
                store.submit(Batch()).result()
        assert len(recorded(store).states) == 5


# -- forked processes -------------------------------------------------------------------------


def in_child(work):
    """What *work* returns, a str, in a forked child that then ends like a script."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(write, work().encode())
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    with open(read) as said:
        answer = said.read()
    assert os.waitpid(child, 0)[1] == 0
    return answer


def message(action):
    try:
        action()
    except StoreError as error:
        return str(error)
    return "no error"


def test_a_forked_process_is_told_to_open_the_store_anew(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        run = recorded(store).run.id
        for action in (
            lambda: store.submit(Batch()),
            lambda: store.submit(Batch(), wake=False),
            lambda: store.run(run),
            lambda: store.verify(),
            lambda: store.runs(),
        ):
            said = in_child(lambda action=action: message(action))
            assert said.startswith("This Store was opened before the process was forked. Open a")
        assert in_child(lambda: message(store.close)) == "no error"

        def anew():
            with Store(tmp_path / "runs.db") as mine:
                return recorded(mine).run.id

        assert store.run(in_child(anew)).status == "complete"
        assert store.verify().ok


def test_forked_processes_that_end_disturb_nothing(tmp_path, start):
    """Scripts that end as scripts do: destructors and exit handlers run in the children."""
    script = """
        store = Store(path)
        stop = False
        def write():
            while not stop:
                recorded(store)
        threads = [threading.Thread(target=write) for _ in range(2)]
        [t.start() for t in threads]
        children = []
        for n in range(30):
            child = os.fork()
            if child == 0:
                sys.exit(0)
            children.append(child)
            time.sleep(0.005)
        stop = True
        [t.join() for t in threads]
        assert all(os.waitpid(child, 0)[1] == 0 for child in children)
        store.close()
        print(len(Store(path).runs()))
    """
    path = tmp_path / "runs.db"
    (count,) = finish(start(script, path))

    with Store(path) as store:
        assert len(store.runs()) == int(count) > 0
        assert store.verify().ok


def test_a_forked_process_that_stays_does_not_hold_the_lock(tmp_path):
    """The lock of a transaction that was under way when the process forked."""
    path = tmp_path / "runs.db"
    children = []
    with Store(path) as store:
        stop = threading.Event()

        def write():
            while not stop.is_set():
                recorded(store)

        thread = threading.Thread(target=write)
        thread.start()
        for _ in range(20):
            child = os.fork()
            if child == 0:
                threading.Event().wait()
            children.append(child)
        stop.set()
        thread.join()
        assert recorded(store).run.id
        for child in children:
            os.kill(child, 9)
            os.waitpid(child, 0)
        assert store.verify().ok
