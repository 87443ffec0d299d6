"""Trajectories of forks of forks equal those of a model that copies every step."""

import contextlib
import dataclasses
import sqlite3

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from recorder import Recorder, new_id, recorded, run_row, seal, step_row

from rewind_nb import Store
from rewind_nb._store import Batch
from rewind_nb._store._chain import chain_at, tail_end
from rewind_nb._store._schema import chain_hash, root_hash
from rewind_nb._trajectory import Trajectory, after_step, segments, survives
from rewind_nb.errors import StoreCorruptError

KEYS = ["a", "b", "c", "d"]


class Model:
    """A run that holds a copy of every step of its trajectory."""

    def __init__(self, run):
        self.run = run
        self.rows = []  # (row, is it the run's own)
        self.entering = []  # the state entering each, by keys and values
        self.final = {}
        self.chain = ""

    def __len__(self):
        return len(self.rows)

    @property
    def ended_well(self):
        return not self.rows or self.rows[-1][0].status == "complete"


class Forest:
    """Runs in a store, each beside its model."""

    def __init__(self, store, draw):
        self.store, self.draw = store, draw
        self.models = []
        self.values = Batch()
        self.hashes = {n: self.values.value(n) for n in range(30)}
        self.values.value("graph")
        store.submit(self.values).result()

    def manifest(self, state):
        return tuple((k, self.hashes[v]) for k, v in state.items())

    def write(self, batch):
        self.store.submit(batch).result()

    def root(self):
        state = self.draw(st.dictionaries(st.sampled_from(KEYS), st.integers(0, 29)))
        model = Model(run_row(new_id(), state=self.manifest(state)))
        model.final = state
        self.begin(model)

    def fork(self):
        parent = self.draw(st.sampled_from(self.models))
        most = len(parent) - (not parent.ended_well)
        at = self.draw(st.integers(0, most))
        state = parent.final if at == len(parent) else parent.entering[at]
        model = Model(
            run_row(
                new_id(), kind="fork", parent=parent.run.id, at=at, parent_len=len(parent),
                state=self.manifest(state),
            )
        )  # fmt: skip
        model.rows = [(row, False) for row, _ in parent.rows[:at]]
        model.entering = parent.entering[:at]
        model.final = state
        self.begin(model)
        ran = parent.ended_well and model.ended_well and len(parent) > parent.run.at
        if ran and self.draw(st.booleans()):
            self.converge(model, parent)

    def begin(self, model):
        self.models.append(model)
        batch = Batch()
        batch.add(model.run)
        self.write(batch)
        model.chain = self.store.read(chain_at, model.run.parent, model.run.at)
        for _ in range(self.draw(st.integers(0, 5))):
            self.step(model)
        self.end(model)

    def converge(self, model, parent):
        """Refer to the parent's last steps."""
        tail = self.draw(st.integers(0, len(parent)))
        model.run = dataclasses.replace(model.run, tail=tail)
        model.rows += [(row, False) for row, _ in parent.rows[tail : model.run.parent_len]]
        if tail < len(parent):
            model.entering += parent.entering[tail:]
            model.final = parent.final
        self.end(model)

    def go_on(self):
        """A parent that is resumed changes none of its forks."""
        model = self.draw(st.sampled_from(self.models))
        if model.run.tail is None:
            for _ in range(self.draw(st.integers(1, 3))):
                self.step(model)
            self.end(model)

    def step(self, model):
        again = not model.ended_well
        seq = len(model) - again
        entering = dict(model.final)
        edited = self.draw(st.integers(0, 5)) == 0
        if edited:
            entering = self.draw(st.dictionaries(st.sampled_from(KEYS), st.integers(0, 29)))
        writes = self.draw(st.dictionaries(st.sampled_from(KEYS), st.integers(0, 29)))
        deleted = self.draw(
            st.none()
            | st.fixed_dictionaries({"keep": st.lists(st.sampled_from(KEYS))})
            | st.fixed_dictionaries({"delete": st.lists(st.sampled_from(KEYS))})
        )
        status = self.draw(st.sampled_from(["complete"] * 5 + ["failed"]))
        action = self.draw(st.sampled_from(["go", "look"]))
        row = step_row(
            model.run.id, seq, action=action, status=status,
            attempt=model.rows[-1][0].attempt + 1 if again else 0,
            visit=sum(r.action == action for r, _ in model.rows[:seq]) + 1,
            writes=self.manifest(writes), deleted=deleted,
            state=self.manifest(entering) if edited or seq == model.run.at or again else None,
        )  # fmt: skip
        row = dataclasses.replace(row, chain=chain_hash(model.chain, row))
        batch = Batch()
        batch.replace(row)
        self.write(batch)
        model.rows[seq:] = [(row, True)]
        model.entering[seq:] = [entering]
        if status == "complete":
            model.chain = row.chain
            model.final = left(entering, deleted) | writes if deleted else entering | writes
        else:
            model.final = entering

    def end(self, model):
        status = "complete" if model.ended_well else "failed"
        run = dataclasses.replace(model.run, status=status, ended_at=1.0)
        end = self.store.read(tail_end, run)
        model.run = dataclasses.replace(run, root=root_hash(run, model.chain, end))
        batch = Batch()
        batch.tip(model.run)
        self.write(batch)


def left(state, rule):
    """What a deletion rule leaves, said plainly; a key that is written keeps its place."""
    if "keep" in rule:
        return {k: v for k, v in state.items() if k in rule["keep"]}
    return {k: v for k, v in state.items() if k not in rule["delete"]}


@pytest.mark.thorough
@given(st.data())
@settings(
    max_examples=40,
    phases=[Phase.generate],
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_a_trajectory_is_what_copying_every_step_would_give(data):
    with Store(":memory:") as store:
        forest = Forest(store, data.draw)
        forest.root()
        for grow in data.draw(st.lists(st.sampled_from(["root", "fork", "fork", "go_on"]))):
            getattr(forest, grow)()

        for model in forest.models:
            compare(store, model, data.draw)
        report = store.verify()
        assert report.ok, report.problems


def compare(store, model, draw):
    trajectory = Trajectory(store, store.row(model.run.id))
    length = len(model)

    assert len(trajectory) == length
    placed = trajectory.rows()
    assert [p.row for p in placed] == [row for row, _ in model.rows]
    assert [p.seq for p in placed] == list(range(length))
    assert [p.segment.own for p in placed] == [own for _, own in model.rows]
    assert [p.segment.inherited for p in placed] == [n < model.run.at for n in range(length)]
    for n in range(length):
        assert trajectory.at(n) == placed[n]
        assert dict(trajectory.state_entering(n)) == dict(hashed(store, model.entering[n]))
        row = placed[n].row
        first = next(p for p in placed if same_visit(p.row, row))
        assert trajectory.visit(row.action, row.visit) == first
    assert trajectory.at(length) is None
    assert trajectory.visit("go", 99) is None
    assert dict(trajectory.state_entering(length)) == dict(hashed(store, model.final))
    lo, hi = draw(st.integers(0, length)), draw(st.integers(0, length))
    assert trajectory.rows(lo, hi) == placed[lo:hi]
    cut = segments(store, trajectory.run, hi)
    assert [(s.run_id, n) for s in cut for n in range(s.lo, s.hi)] == [
        (row.run_id, row.seq) for row, _ in model.rows[:hi]
    ]
    cut_rows = Trajectory(store, trajectory.run, hi).rows()
    assert [p.row for p in cut_rows] == [row for row, _ in model.rows[:hi]]


def same_visit(a, b):
    return (a.action, a.visit) == (b.action, b.visit)


def hashed(store, state):
    batch = Batch()
    return tuple((k, batch.value(v)) for k, v in state.items())


# -- order ------------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from(KEYS), unique=True),
    st.lists(st.sampled_from(KEYS), unique=True),
    st.none()
    | st.fixed_dictionaries({"keep": st.lists(st.sampled_from(KEYS))})
    | st.fixed_dictionaries({"delete": st.lists(st.sampled_from(KEYS))}),
)
def test_keys_keep_their_place_and_new_ones_follow_in_the_order_written(before, writes, deleted):
    after = after_step(
        tuple((k, "old") for k in before), deleted, tuple((k, "new") for k in writes)
    )

    stay = [k for k in before if k in writes or survives(k, deleted)]
    assert [k for k, _ in after] == stay + [k for k in writes if k not in before]
    assert all(value == ("new" if k in writes else "old") for k, value in after)


# -- damage and cost --------------------------------------------------------------------------


def deep(store, depth):
    """A fork of a fork of a fork..., each with one step of its own; the last one's row."""
    batch, parent, chain = Batch(), None, ""
    for n in range(depth):
        run = run_row(new_id(), parent=parent, at=n, parent_len=n)
        row = step_row(run.id, n, state=())
        parent, chain = run.id, chain_hash(chain, row)
        batch.add(run)
        batch.add(dataclasses.replace(row, chain=chain))
    store.submit(batch).result()
    return run


def test_a_fork_of_a_fork_of_a_fork_may_be_deeper_than_the_stack(store):
    run = deep(store, 1500)
    trajectory = Trajectory(store, store.row(run.id))

    assert len(trajectory) == 1500
    assert len({p.row.run_id for p in trajectory.rows()}) == 1500
    assert store.read(chain_at, run.id, 1) == trajectory.rows()[0].row.chain


@pytest.mark.parametrize("depth", [2, 20])
def test_opening_a_trajectory_takes_as_many_queries_however_deep_it_is(depth, store, monkeypatch):
    run = deep(store, depth)
    row = store.row(run.id)
    queries = []
    read = store.read
    monkeypatch.setattr(store, "read", lambda *a, **k: queries.append(a[0]) or read(*a, **k))
    Trajectory(store, row)

    assert len(queries) == 3


def test_state_late_in_a_long_run_is_read_from_the_last_checkpoint(store):
    run = Recorder(store, state={"n": 0})
    for n in range(200):
        run.step(n=n)
    run.end()
    trajectory = Trajectory(store, store.row(run.run.id))
    read, taken = store.read, []
    store.read = lambda *a, **k: taken.append(found := read(*a, **k)) or found

    assert store.value(dict(trajectory.state_entering(150))["n"]) == 149
    rows = [len(found) for found in taken if isinstance(found, list)]
    assert max(rows) <= 64


def test_a_fork_whose_parent_lost_steps_is_damaged_and_not_short(tmp_path):
    with Store(tmp_path / "runs.db") as store:
        run = recorded(store)
        fork = Recorder(store, parent=run.run.id, at=3, parent_len=5, kind="fork", state={"n": 2})
        fork.step(n=7)
        for lost in ("seq = 4", "seq > 0", f"run_id = '{run.run.id}'"):
            with contextlib.closing(sqlite3.connect(tmp_path / "runs.db")) as connection:
                connection.execute(f"DELETE FROM steps WHERE run_id = '{run.run.id}' AND {lost}")
                connection.commit()
            with pytest.raises(StoreCorruptError, match="of the 5 steps it had when it was forked"):
                Trajectory(store, store.row(fork.run.id))


def test_a_fork_whose_parent_is_gone_is_damaged_and_not_short(store):
    run = Recorder(store, parent="r_gone", at=0, parent_len=3, kind="fork")
    row = dataclasses.replace(run.run, at=2)

    with pytest.raises(StoreCorruptError, match="Run r_gone is missing"):
        segments(store, row)
    assert seal(row).parent == "r_gone"
