"""What breaks around a store: processes killed, disks full, files gone, bits flipped.

Each harness has a control: the same harness on a store that is broken on purpose must
notice, or it would prove nothing.
"""

import contextlib
import dataclasses
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import crash_app
import pytest
from click.testing import CliRunner
from recorder import Recorder, create, everything, recorded, run_row

from rewind_nb import Rewind, Store, _owner, cli
from rewind_nb._store import Batch, _contents, _read, _verify
from rewind_nb._store import _schema as schema
from rewind_nb.errors import (
    RewindError,
    StoreFullError,
    StoreMovedError,
    StoreReadOnlyError,
)

TESTS = Path(__file__).parent


# -- kill -9 ----------------------------------------------------------------------------------


class Victim:
    """Starts processes of `crash_app` and kills them."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, str(TESTS / "crash_app.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.said = []
        self.until("ready")

    def tell(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()

    def until(self, *words):
        """Read what is said up to a line that starts with one of *words*; what follows it."""
        while line := self.process.stdout.readline():
            word, _, rest = line.strip().partition(" ")
            self.said.append(line.strip())
            if word in words:
                return rest
        raise AssertionError("the process that runs the application is gone")

    def killed(self, chance, **command):
        """Run a verb, and kill its process at some point of it; what it said until then."""
        self.said = []
        self.tell(**command)
        child = int(self.until("child"))
        if chance.random() < 0.85:  # else maybe before anything is there
            self.until("run", "refused")
            for _ in range(chance.randrange(2 * crash_app.STEPS)):
                if self.said[-1].startswith(("ended", "refused")):
                    break
                self.until("began", "answered", "ended", "refused")
        time.sleep(chance.uniform(0, 0.004))
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        self.tell(verb="wait")
        self.until("waited")
        return Said(self.said)

    def close(self):
        with self.process:
            self.process.stdin.close()


class Said:
    """What a process acknowledged before it was killed."""

    def __init__(self, lines):
        self.run = next((s.split()[1] for s in lines if s.startswith("run ")), None)
        self.refused = next((s for s in lines if s.startswith("refused ")), None)
        self.ended = "ended" in lines
        began = [int(line.split()[1]) for line in lines if line.startswith("began ")]
        self.committed = max(began, default=0)  # steps that are
        self.answered = {int(s.split()[1]) for s in lines if s.startswith("answered ")}


@pytest.fixture(scope="module")
def victim():
    process = Victim()
    yield process
    process.close()


def text(n):
    return crash_app.look_up.__wrapped__(n, os.devnull)["text"]


def problems_after(path, said, forked):
    """What is wrong in a store after a process was killed, which nothing may be."""
    found = []
    with Store(path) as store:
        found += store.verify().problems
        try:
            run = store.run(said.run)
            steps = [s for s in run.steps if s.status == "complete"]
            state = run.state
            everything(store, run.id)
        except RewindError as error:
            return [*found, repr(error)]
        before = 2 if forked else 0
        if len(steps) < max(said.committed, before):
            found.append(f"{said.committed} steps were acknowledged, {len(steps)} are there")
        if run.status == "complete" and len(steps) != crash_app.STEPS + 1:
            found.append(f"a run of {len(steps)} steps says that it is complete")
        if said.ended and run.status != "complete":
            found.append(f"a run that ended is {run.status}")
        if not said.ended and run.status not in ("interrupted", "complete"):
            found.append(f"a run whose process is gone is {run.status}")
        if state["n"] != min(len(steps), crash_app.STEPS):
            found.append(f"after {len(steps)} steps n is {state['n']}")
    return found


def resumed_problems(path, said, log, forked):
    """What is wrong with a run that was resumed after it was killed, which nothing may be."""
    before = log.read_text().split() if log.exists() else []
    with Store(path) as store:
        run = store.run(said.run)
        if run.status != "complete":
            run = Rewind(crash_app.build(), store=store).resume(run)
        again = log.read_text().split()[len(before) :]
        chat = [text(n) for n in range(crash_app.STEPS)]
        expected = ["other", *chat[3:]] if forked else chat
        found = list(store.verify().problems)
        if run.state["chat"] != expected or run.status != "complete":
            found.append(f"{run.status} with {len(run.state['chat'])} lines")
        twice = said.answered & {int(n) for n in again}
        if twice:
            found.append(f"tool calls {twice} were paid for twice")
        return found


def kill(victim, folder, times, *, unsafe=False):
    """Kill a process *times* times while it records, forks or resumes; (problems, outcomes)."""
    chance = random.Random(times)
    found, outcomes = [], {"interrupted": 0, "ended": 0, "none": 0}
    for n in range(times):
        if n % 10 == 0:
            path, done = folder / f"{n}.db", None
        verb = "fork" if done and chance.random() < 0.4 else "run"
        log = folder / f"{n}.log" if verb == "run" else done[1]
        command = {"path": str(path), "log": str(log), "unsafe": unsafe}
        if verb == "fork":
            command["run"] = done[0]
        said = victim.killed(chance, verb=verb, **command)
        log.touch()
        if not is_there(path, said.run):  # killed before anything was acknowledged
            outcomes["none"] += 1
            found += [f"{said.run} is gone"] if said.committed or said.ended else []
            continue
        outcomes["ended" if said.ended else "interrupted"] += 1
        found += problems_after(path, said, verb == "fork")
        if nothing_left(path, said.run):
            continue
        if not said.ended and chance.random() < 0.5:  # killed again while it goes on
            more = victim.killed(chance, **command | {"verb": "resume", "run": said.run})
            if more.run is None:  # it was complete when it was killed, or did not begin
                right = more.refused is None or "NothingToResume" in more.refused
                found += [] if right else [more.refused]
            else:
                more.answered |= said.answered
                more.committed = max(more.committed, said.committed)
                said = more
                found += problems_after(path, said, verb == "fork")
        if not unsafe and not nothing_left(path, said.run):
            found += resumed_problems(path, said, log, verb == "fork")
            done = done or (said.run, log)
    return found, outcomes


def is_there(path, run_id):
    """Whether the run is in the store; the store itself is whole, or not there."""
    if not path.exists():
        return False
    with Store(path) as store:
        return run_id in store.read(_read.run_ids)


def nothing_left(path, run_id):
    """Whether a run was killed between its last step and its end."""
    with Store(path) as store:
        run = store.run(run_id)
        return run.status == "interrupted" and len(run) == crash_app.STEPS + 1


@pytest.mark.thorough
def test_a_process_killed_anywhere_loses_nothing_it_acknowledged_and_can_be_resumed(
    victim, tmp_path
):
    found, outcomes = kill(victim, tmp_path, 45)

    assert not found
    assert outcomes["interrupted"] >= 15, outcomes


@pytest.mark.thorough
def test_control_the_harness_notices_a_store_without_transactions(victim, tmp_path):
    found = []
    for times in range(20, 26):  # a busy machine may not come to the gap in time
        folder = tmp_path / f"{times}"
        folder.mkdir()
        found += kill(victim, folder, times, unsafe=True)[0]
        if any("is missing" in problem for problem in found):
            return
    pytest.fail(f"unnoticed: {found}")


def test_a_run_killed_between_its_last_step_and_its_end_is_resumed_without_executing_anything(
    tmp_path,
):
    with Store(tmp_path / "runs.db") as store:
        rw = Rewind(crash_app.build(tmp_path / "log"), store=store)
        run = rw.run()
        steps = len(run)
        batch = Batch()
        gone = run._row.owner | {"pid": 2**22 + 1}
        tip = {"status": "running", "root": None, "ended_at": None, "owner": gone}
        batch.tip(dataclasses.replace(run._row, **tip))
        store.submit(batch).result()
        assert store.run(run.id).status == "interrupted"

        again = rw.resume(run.id)
        assert (again.status, len(again)) == ("complete", steps)


# -- every system call --------------------------------------------------------------------------

RECORD = f"""
import os, sys
sys.path[:0] = [{str(TESTS.parent)!r}, {str(TESTS)!r}]
from recorder import Batch, Recorder
from rewind_nb import Store
from rewind_nb.errors import StoreError
say = lambda *words: os.write(1, (" ".join(map(str, words)) + chr(10)).encode())
try:
    with Store(sys.argv[1]) as store:
        for _ in range(2):
            run = Recorder(store, state={{"n": 0, "log": []}})
            say("run", run.run.id)
            for n in range(5):
                run.step(n=n, log=[*run.state["log"], "x" * 900])
                say("committed", run.run.id, n)
            run.end()
            say("ended", run.run.id)
except StoreError as error:
    say("error", type(error).__name__)
"""


def traced(path, *inject, script=RECORD):
    """Run *script* under strace; (lines it said, trace)."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    trace = path.with_suffix(".trace")
    done = subprocess.run(
        ["strace", "-f", "-qq", "-o", str(trace), *inject, sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "ptrace" in done.stderr or not trace.exists():
        pytest.skip("strace may not trace here")
    return done.stdout.splitlines(), trace.read_text()


WRITES = "pwrite64,write,ftruncate,unlink,link,fdatasync"


def write_calls(path):
    """How often each writing system call is made for the store's files."""
    _, trace = traced(path, "-e", f"trace={WRITES}", "-y")
    ours = [line for line in trace.splitlines() if path.name in line or ".new" in line]
    return {call: sum(f"{call}(" in line for line in ours) for call in WRITES.split(",")}


@pytest.mark.thorough
@pytest.mark.parametrize("fault", ["signal=KILL", "error=ENOSPC", "error=EIO"])
def test_a_fault_at_any_write_loses_nothing_that_was_acknowledged(fault, tmp_path):
    count = write_calls(tmp_path / "count.db")["pwrite64"]
    assert count > 30
    chance = random.Random(count)
    refused = 0
    for n in sorted(chance.sample(range(1, count + 1), 7)):
        path = tmp_path / f"{n}.db"
        said, _ = traced(path, "-e", f"inject=pwrite64:{fault}:when={n}", "-e", "trace=pwrite64")
        refused += "error" in " ".join(said) or fault == "signal=KILL"
        if not path.exists():
            assert not said or said[0].startswith("error")
            continue
        with Store(path) as store:
            assert store.verify().ok, (n, store.verify().problems)
            for line in said:
                word, run_id, *step = line.split()
                if word == "committed":
                    assert store.run(run_id)[int(step[0])].writes["n"] == int(step[0]), (n, line)
                if word == "ended":
                    assert len(store.run(run_id)) == 5
            for run in store.runs():
                assert run.status == "interrupted" or len(run) == 5
            assert recorded(store).run.id  # and it goes on without repair
    assert refused >= 2


PAY = """
with Store(sys.argv[1]) as store:
    batch = Batch()
    batch.value("first")
    store.submit(batch, durable=True).result()
    for durable in (False, True, False, True):
        batch = Batch()
        batch.value(["new", os.urandom(9)])
        say("began")
        store.submit(batch, durable=durable).result()
        say("committed")
"""


def test_what_was_paid_for_is_on_the_disk_before_the_caller_goes_on(tmp_path):
    script = RECORD.partition("try:")[0] + PAY
    path = tmp_path / "runs.db"
    said, trace = traced(path, "-e", "trace=write,fdatasync,fsync", "-y", script=script)

    assert said == ["began", "committed"] * 4
    parts = [p.split("write(1<")[0] for p in re.split(r'write\(1<[^>]*>, "began', trace)[1:]]
    synced = [len(re.findall(rf"f(?:data)?sync\(\d+<{re.escape(str(path))}-wal", p)) for p in parts]
    assert [n > 0 for n in synced] == [False, True, False, True]


# -- flipped bits -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The bytes of a store, and all that can be read from it."""
    path = tmp_path_factory.mktemp("sound") / "runs.db"
    with Store(path) as store:
        first = recorded(store)
        fork = Recorder(store, parent=first.run.id, at=2, parent_len=5, kind="fork", state={"n": 1})
        fork.step(n=7, calls=1)
        fork.end("halted", next_action="go", note="a note")
        recorded(store, steps=2, label="a label")
        ids = [run.id for run in store.runs()]
        truth = {run_id: everything(store, run_id) for run_id in ids}
    return path.read_bytes(), truth


def read_with_a_flip(data, truth, place, bit, folder):
    """How reading everything ends where one bit is flipped.

    ``same``, ``refused``, or what may never be. One thing is allowed, since no other row
    counts them: an artifact may be missing from its step, as long as `verify` says so.
    """
    flipped = bytearray(data)
    flipped[place] ^= 1 << bit
    path = folder / f"{place}.{bit}.db"  # a fresh name, for SQLite remembers files
    path.write_bytes(flipped)
    try:
        with Store(path, read_only=True) as store:
            outcomes = {reading(store, run_id, whole) for run_id, whole in truth.items()}
            if outcomes == {"same"}:
                return "same"
            wrong = outcomes - {"same", "refused", "lacks an artifact"}
            return wrong.pop() if wrong else "sound" if store.verify().ok else "refused"
    except RewindError:
        return "refused"
    finally:
        for file in folder.glob(f"{path.name}*"):
            file.unlink()


def reading(store, run_id, whole):
    try:
        found = everything(store, run_id)
    except RewindError:
        return "refused"
    except Exception as error:
        return f"crashed: {error!r}"
    if found == whole:
        return "same"
    fewer = set(found.pop("artifacts")) < set(whole["artifacts"])
    return "lacks an artifact" if fewer and found == without(whole, "artifacts") else "wrong"


def without(whole, key):
    return {k: v for k, v in whole.items() if k != key}


def flips(sound, folder, count):
    """How reading ends for each of *count* flipped bits, among the bytes that are in use."""
    data, truth = sound
    chance = random.Random(count)
    places = [n for n, byte in enumerate(data) if byte]
    return [
        read_with_a_flip(data, truth, chance.choice(places), chance.randrange(8), folder)
        for _ in range(count)
    ]


@pytest.mark.thorough
def test_a_flipped_bit_never_makes_a_wrong_value(sound, tmp_path):
    outcomes = flips(sound, tmp_path, 250)

    assert set(outcomes) == {"same", "refused"}, set(outcomes)
    assert outcomes.count("refused") > 50


@pytest.mark.thorough
def test_control_without_hashes_flipped_bits_make_wrong_values(sound, tmp_path, monkeypatch):
    from unittest.mock import ANY, Mock

    from rewind_nb import _trajectory
    from rewind_nb._store import _chain

    for module, name in [
        (schema, "_row_hash"), (schema, "_tip_hash"), (_trajectory, "chain_hash"),
        (_chain, "root_hash"),
    ]:  # fmt: skip
        monkeypatch.setattr(module, name, lambda *_: ANY)
    trusting = Mock(sha256=lambda _: Mock(hexdigest=lambda: ANY))
    monkeypatch.setattr(_contents, "hashlib", trusting)

    assert flips(sound, tmp_path, 100).count("wrong") > 10


# -- disks and folders ----------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path):
    """A disk of 1 MiB of its own; calling it mounts it anew with other options."""
    folder = tmp_path / "disk"
    folder.mkdir()

    def mount(*options):
        done = subprocess.run(
            ["mount", *options, str(folder)], capture_output=True, text=True, check=False
        )
        if done.returncode:
            pytest.skip(f"cannot mount here: {done.stderr.strip()}")
        return folder

    mount("-t", "tmpfs", "-o", "size=1m", "tmpfs")
    yield mount
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder, leave=0):
    """Fill a disk but for *leave* bytes; the file that does it."""
    free = shutil.disk_usage(folder).free
    filler = folder / "filler"
    filler.write_bytes(b"x" * max(0, free - leave))
    return filler


def test_a_full_disk_is_said_and_loses_nothing_and_recording_goes_on_once_there_is_room(disk):
    folder = disk("-o", "remount,rw")
    with Store(folder / "runs.db") as store:
        whole = recorded(store)
        filler = fill(folder, leave=200_000)
        run = Recorder(store, state={"n": 0})
        with pytest.raises(StoreFullError, match="Free some space and resume the run"):
            for _ in range(1000):
                run.step(n=os.urandom(2000).hex())
        kept = [s.writes["n"] for s in store.run(run.run.id).steps if s.status == "complete"]
        acknowledged = [state["n"] for state in run.states[1:]]
        assert len(acknowledged) > 1
        assert kept == acknowledged
        assert everything(store, whole.run.id)["final"] == whole.state
        assert store.read(_read.run_row, run.run.id).status == "running"
        filler.unlink()

        later = recorded(store)
        assert store.run(later.run.id).state == later.state
        assert store.verify().ok, store.verify().problems


def test_a_run_stopped_by_a_full_disk_is_resumed_in_the_same_process(disk):
    folder = disk("-o", "remount,rw")
    create(folder / "runs.db")
    with Store(folder / "runs.db") as store:
        rw = Rewind(crash_app.build(folder / "log"), store=store)
        filler = fill(folder, leave=45_000)
        with pytest.raises(StoreFullError):
            for _ in range(100):
                rw.run()
        filler.unlink()
        stopped = next((r for r in store.runs() if r.status != "complete"), None)
        if stopped is not None:  # else its first row did not find room
            again = rw.resume(stopped)
            assert again.state["chat"] == [text(n) for n in range(crash_app.STEPS)]
        assert rw.run().status == "complete"
        assert store.verify().ok, store.verify().problems


def test_a_store_that_finds_no_room_is_not_created_at_all(disk):
    folder = disk("-o", "remount,rw")
    filler = fill(folder, leave=20_000)

    with Store(folder / "runs.db") as store:
        with pytest.raises(StoreFullError, match="Free some space"):
            recorded(store)
        assert [p.name for p in folder.iterdir()] == ["filler"]
        filler.unlink()
        assert recorded(store).run.id


def test_a_store_on_a_full_disk_can_be_read_and_verified(disk):
    """Also where nothing of SQLite's own is beside it yet, for which there is no room."""
    folder = disk("-o", "remount,rw")
    with Store(folder / "runs.db") as store:
        run = recorded(store)
        filler = fill(folder)
        assert store.verify().ok
        filler.unlink()
    fill(folder)
    before = sorted(p.name for p in folder.iterdir())
    with Store(folder / "runs.db", read_only=True) as store:
        assert everything(store, run.run.id)["final"] == run.state
        assert store.verify().ok
    done = CliRunner().invoke(cli.main, ["doctor", "--store", str(folder / "runs.db")])
    assert (done.exit_code, "everything matches" in done.output) == (0, True), done.output
    assert sorted(p.name for p in folder.iterdir()) == before
    with pytest.raises(StoreFullError, match="Free some space"):
        Store(folder / "runs.db")


def test_verify_does_not_call_a_store_damaged_that_waits_for_room(disk):
    folder = disk("-o", "remount,rw")
    with Store(folder / "runs.db") as store:
        recorded(store)
        filler = fill(folder)
        batch = Batch()
        batch.value(os.urandom(60_000))
        store.submit(batch, wake=False)
        with pytest.raises(StoreFullError, match="Free some space"):
            store.verify()
        filler.unlink()
        assert store.verify().ok


@pytest.mark.parametrize("error", [StoreFullError, StoreReadOnlyError])
def test_what_the_disk_refuses_while_a_store_is_verified_is_no_finding(error):
    def checks():
        yield None
        with contextlib.closing(sqlite3.connect(":memory:")) as full:
            if error is StoreReadOnlyError:
                full.execute("PRAGMA query_only=ON")
            else:
                full.execute("PRAGMA max_page_count=1")
            full.execute("CREATE TABLE t (x)")

    problems = []
    with pytest.raises(error, match="runs.db"):
        _verify._count(problems, Path("runs.db"), checks())
    assert problems == []


def test_closing_says_what_found_no_room(disk):
    folder = disk("-o", "remount,rw")
    store = Store(folder / "runs.db")
    recorded(store)
    fill(folder)
    batch = Batch()
    batch.value(os.urandom(100_000))
    store.submit(batch, wake=False)

    with pytest.raises(StoreFullError):
        store.close()


def test_what_waited_for_room_is_committed_first_once_there_is_some(disk):
    """So that no row is ever there without what it refers to."""
    folder = disk("-o", "remount,rw")
    with Store(folder / "runs.db") as store:
        recorded(store)
        filler = fill(folder)
        waits, small = Batch(), Batch()
        hashed = waits.value(os.urandom(60_000))
        store.submit(waits, wake=False)
        small.value("small")
        with pytest.raises(StoreFullError):
            store.submit(small).result()
        filler.unlink()
        batch = Batch()
        batch.add(run_row("r_refers", state=(("k", hashed),)))
        batch.value("graph")
        store.submit(batch).result()
        assert len(store.value(hashed)) == 60_000
        assert store.verify().ok


def test_a_store_on_a_read_only_disk_can_be_read_and_says_that_it_cannot_be_written(disk):
    folder = disk("-o", "remount,rw")
    with Store(folder / "runs.db") as store:
        run = recorded(store)
    disk("-o", "remount,ro")
    before = sorted(p.name for p in folder.iterdir())

    with pytest.raises(StoreReadOnlyError, match="is read-only.*read_only=True"):
        Store(folder / "runs.db")
    with Store(folder / "runs.db", read_only=True) as store:
        assert everything(store, run.run.id)["final"] == run.state
        assert store.verify().ok
    with pytest.raises(
        StoreReadOnlyError, match="cannot be written: .*[Rr]ead-only|unable to open"
    ):
        recorded(Store(folder / "new.db"))
    assert sorted(p.name for p in folder.iterdir()) == before


def test_rows_that_are_not_merged_yet_are_never_left_out(disk, tmp_path):
    """A copy of a store in use, on a read-only disk: its newest rows are in the -wal file."""
    folder = disk("-o", "remount,rw")
    with Store(tmp_path / "runs.db") as store:
        recorded(store)
        for name in ("runs.db", "runs.db-wal"):
            shutil.copy(tmp_path / name, folder / name)
    disk("-o", "remount,ro")

    with pytest.raises(StoreReadOnlyError, match="Copy both files to a folder that you can write"):
        Store(folder / "runs.db", read_only=True)


def test_a_file_that_may_not_be_written_is_refused_before_anything_is_recorded(tmp_path):
    path = tmp_path / "runs.db"
    with Store(path) as store:
        run = recorded(store)
    with _immutable(path):
        with pytest.raises(StoreReadOnlyError, match="runs.db is read-only"):
            Store(path)
        with Store(path, read_only=True) as store:
            assert store.run(run.run.id).state == run.state


@contextlib.contextmanager
def _immutable(path):
    """A file that nobody may write, the administrator included."""
    path.chmod(0o400)
    if os.access(path, os.W_OK):
        done = subprocess.run(["chattr", "+i", str(path)], capture_output=True, check=False)
        if done.returncode or os.access(path, os.W_OK):
            pytest.skip("the administrator may write every file here")
    try:
        yield
    finally:
        if shutil.which("chattr"):
            subprocess.run(["chattr", "-i", str(path)], capture_output=True, check=False)
        path.chmod(0o600)


# -- files that go away -----------------------------------------------------------------------------


def deleted(path):
    for file in path.parent.glob("runs.db*"):
        file.unlink()


def moved(path):
    path.rename(path.with_name("elsewhere.db"))


def replaced_by_another_store(path):
    with Store(path.with_name("other.db")) as store:
        recorded(store)
    path.with_name("other.db").replace(path)


def replaced_by_its_copy(path):
    shutil.copy(path, path.with_name("copy.db"))
    path.with_name("copy.db").replace(path)


def replaced_by_a_folder(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "change",
    [deleted, moved, replaced_by_another_store, replaced_by_its_copy, replaced_by_a_folder],
)
def test_a_file_that_goes_away_under_an_open_store_is_noticed(change, tmp_path):
    path = tmp_path / "runs.db"
    store = Store(path)
    run = recorded(store).run.id
    change(path)
    said = "was (deleted or moved|replaced by another file) while it was open"

    with pytest.raises(StoreMovedError, match=said):
        store.submit(Batch()).result()
    with pytest.raises(StoreMovedError, match=said):
        store.submit(Batch(), wake=False)
    with pytest.raises(StoreMovedError, match=said):
        store.run(run)
    with pytest.raises(StoreMovedError, match=said):
        store.verify()
    before = {p.name for p in tmp_path.iterdir()}
    store.close()
    assert {p.name for p in tmp_path.iterdir()} <= before  # nothing is made in its place
    if change is deleted:
        assert not path.exists()


def test_a_file_that_is_put_back_can_be_used_again(tmp_path):
    path = tmp_path / "runs.db"
    with Store(path) as store:
        run = recorded(store)
        path.rename(tmp_path / "away.db")
        with pytest.raises(StoreMovedError):
            store.submit(Batch()).result()
        (tmp_path / "away.db").rename(path)
        assert store.run(run.run.id).state == run.state
        assert recorded(store).run.id
        assert store.verify().ok


def test_a_file_that_goes_away_before_a_lazy_commit_is_said_by_closing(tmp_path):
    path = tmp_path / "runs.db"
    store = Store(path)
    recorded(store)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        batch = Batch()
        batch.value("lost")
        store.submit(batch, wake=False)
        path.rename(tmp_path / "away.db")
        holder.execute("COMMIT")

    with pytest.raises(StoreMovedError, match="was deleted or moved"):
        store.close()


# -- which process executes a run --------------------------------------------------------------------


def test_a_process_is_known_by_more_than_its_number():
    me = _owner.this_process()

    assert me["pid"] == os.getpid()
    assert not _owner.is_live(me, "r_not_executing")
    _owner.ACTIVE.add("r_executing")
    try:
        assert _owner.is_live(me, "r_executing")
    finally:
        _owner.ACTIVE.discard("r_executing")
    parent = _owner._identity_now(os.getppid())
    assert _owner.is_live(parent, "r_any")
    assert not _owner.is_live(parent | {"born": "1"}, "r_any")
    assert not _owner.is_live(parent | {"boot": "another"}, "r_any")
    assert _owner.is_live(parent | {"host": "another"}, "r_any")
    for number in (0, -1, 2**22 + 1):
        assert not _owner.is_live(me | {"pid": number}, "r_any")


def test_a_process_that_ended_is_gone_also_before_its_parent_looked():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = _owner._identity_now(child.pid)
    assert _owner.is_live(owner, "r_any")
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # it ended, and stays to be asked

    assert not _owner.is_live(owner, "r_any")
    child.wait()
