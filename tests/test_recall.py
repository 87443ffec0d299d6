"""Forks of one run share what they read of it."""

import sqlite3
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import apps
import pytest

from rewind_nb import Rewind, Store
from rewind_nb._forks import new_fork
from rewind_nb._recording import Recording
from rewind_nb._store import Batch, Recall, _recall
from rewind_nb.errors import StoreCorruptError

STEPS = 40


@pytest.fixture
def rw(store):
    return Rewind(apps.loop_app(), store=store)


def counted(monkeypatch):
    """The names of the queries that are made of any store from now on."""
    asked, read = Counter(), Store.read

    def counting(self, query, *args, **kwargs):
        asked[query.__name__] += 1
        return read(self, query, *args, **kwargs)

    monkeypatch.setattr(Store, "read", counting)
    return asked


def test_the_second_fork_reads_nothing_of_the_parent_that_the_first_one_read(rw, monkeypatch):
    run = rw.run(inputs={"by": 1})
    asked = counted(monkeypatch)
    recording, given = Recording.of(rw.store.run(run.id)), [("output", {"n": 1, "log": [9]}, 0)]
    for n in range(2):
        asked.clear()
        fork = new_fork(rw._env(None), recording.run, 0, given, recording=recording)
        assert fork.go().error is None
        assert bool(asked) is (n == 0), asked
    assert [s.source for s in rw.store.run(fork.session.run.id)][0] == "override"


def test_a_row_is_held_against_its_hash_when_it_is_read_from_the_file(tmp_path):
    path = tmp_path / "runs.db"
    with Store(path) as store:
        run = Rewind(apps.loop_app(), store=store).run(inputs={"by": 1})
        recording = Recording.of(store.run(run.id))
        before = recording.trajectory.at(1), recording.cells_entering(2)["n"].fresh()
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE steps SET duration_s = 99 WHERE seq = 1")
            connection.execute("UPDATE contents SET body = x'39' WHERE length(body) = 1")

        assert (recording.trajectory.at(1), recording.cells_entering(2)["n"].fresh()) == before
        with pytest.raises(StoreCorruptError):
            Recording.of(store.run(run.id)).trajectory.at(1)
        with pytest.raises(StoreCorruptError):
            store.content(dict(before[0].row.writes)["n"])


def test_a_recalled_value_is_decoded_afresh_for_each_who_asks(store):
    batch = Batch()
    digest = batch.value([1, {"a": 2}])
    store.submit(batch).result()
    recall = Recall(store)
    first = recall.value(digest)
    first[1]["a"] = 3
    assert recall.value(digest) == [1, {"a": 2}]


def test_values_are_remembered_as_far_as_there_is_room(store, monkeypatch):
    monkeypatch.setattr(_recall, "VALUES", 1000)
    batch = Batch()
    digests = [batch.value(letter * 300) for letter in "abcde"]
    store.submit(batch).result()
    recall, asked = Recall(store), counted(monkeypatch)
    for _ in range(2):
        assert [recall.value(digest)[0] for digest in digests] == list("abcde")
    assert asked == {"read_content": 5 + 2}


def test_threads_that_share_a_recording_get_what_they_asked_for(rw):
    run = rw.run(inputs={"by": 1})
    length = len(run)
    expected = {n: (run.steps[n:], Counter(s.action for s in run.steps[:n])) for n in range(length)}
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(STEPS):
            recording = Recording.of(rw.store.run(run.id))

            def ask(n, recording=recording):
                seqs = [placed.seq for placed in recording.rows(n)]
                return n, seqs, recording.visits_before(n)

            with ThreadPoolExecutor(8) as pool:
                found = list(pool.map(ask, [*range(length)] * 8))
            for n, seqs, visits in found:
                steps, counts = expected[n]
                assert (seqs, visits) == ([step.seq for step in steps], counts)
    finally:
        sys.setswitchinterval(before)
