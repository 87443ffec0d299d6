"""`Recorder`: writes runs into a store as an executing run does, without an application.

It keeps what it wrote, so that a test can compare what comes back.
"""

import dataclasses
import hashlib
import itertools
import os

from rewind_nb import Store, _codec, _owner
from rewind_nb._model import ArtifactRow, CallRow, RunRow, StepRow
from rewind_nb._store import Batch
from rewind_nb._store._chain import chain_at, tail_end
from rewind_nb._store._schema import chain_hash, root_hash, sealed
from rewind_nb._trajectory import after_step

_number = itertools.count()


def new_id():
    return f"r_{os.getpid():x}{next(_number):06x}"


def digest(value):
    return _codec.digest(_codec.encode(value))


def seal(row, **changes):
    """A row as it is stored."""
    return sealed(row, **changes)[0]


def run_row(run_id, **changes):
    row = RunRow(
        id=run_id, kind="record", label=None, parent=None, at=0, parent_len=0, overrides=None,
        mode={"cache": "auto"}, state=(), prior=None, graph=digest("graph"), experiment=None,
        cell=None, epoch=0, created_at=1.0e9, owner=_owner.this_process(),
    )  # fmt: skip
    return seal(row, **changes)


def step_row(run_id, seq, **changes):
    row = StepRow(
        run_id=run_id, path="", seq=seq, attempt=0, action="go", visit=seq + 1,
        status="complete", source="live", started_at=1.0e9,
    )  # fmt: skip
    return seal(row, **changes)


def call_row(step, idx, **changes):
    row = CallRow(
        run_id=step.run_id, path=step.path, seq=step.seq, attempt=step.attempt, idx=idx,
        kind="model", name="chat", branch="", ordinal=idx, fingerprint=f"print {idx}", n=0,
        epoch=0, request=digest("request"), key=digest("request"), status="complete",
        source="live", started_at=1.0e9, response=digest("response"), playable=True,
    )  # fmt: skip
    return seal(row, **changes)


def artifact_row(step, name, data):
    return seal(
        ArtifactRow(
            run_id=step.run_id, path=step.path, seq=step.seq, attempt=step.attempt, name=name,
            sha256=hashlib.sha256(data).hexdigest(), size=len(data), source="live",
            file=f"artifacts/{name}",
        )
    )  # fmt: skip


class Recorder:
    """One run while it is written."""

    def __init__(self, store, run_id=None, *, state=None, **changes):
        self.store = store
        self.cells = {}  # key -> Content
        self.states = []  # entering each own step, as values
        self.state = dict(state or {})
        batch = Batch()
        batch.value("graph")
        for key, value in self.state.items():
            self.cells[key] = batch.content(_codec.encode(value))
        manifest = tuple((k, c.hash) for k, c in self.cells.items())
        self.run = run_row(run_id or new_id(), state=manifest, **changes)
        batch.add(self.run)
        store.submit(batch, wake=False)
        self.seq, self.chain = self.run.at, store.read(chain_at, self.run.parent, self.run.at)

    def step(self, *, calls=0, artifact=None, wait=True, status="complete", **writes):
        """Open a step, and end it."""
        manifest = tuple((k, c.hash) for k, c in self.cells.items())
        first = self.seq == self.run.at or self.seq % 64 == 0
        row = step_row(
            self.run.id, self.seq, status="open", state=manifest if first else None,
            reads=manifest, calls=calls, live_calls=calls,
        )  # fmt: skip
        opened = Batch()
        opened.replace(row)
        self.store.submit(opened, wake=False)
        batch = Batch()
        for key, value in writes.items():
            self.cells[key] = batch.content(_codec.encode(value), self.cells.get(key))
        for idx in range(calls):
            batch.value("request")
            batch.value("response")
            call = call_row(row, idx)
            batch.add(call)
            batch.playable(call, f"go:{row.visit}")
        if artifact is not None:
            batch.blob(artifact)
            batch.add(artifact_row(row, "report.md", artifact))
        written = tuple((k, self.cells[k].hash) for k in writes)
        row = seal(row, status=status, writes=written)
        row = dataclasses.replace(row, chain=chain_hash(self.chain, row))
        batch.replace(row)
        if status == "complete":
            self.states.append(dict(self.state))
            self.state |= writes
            self.seq, self.chain = self.seq + 1, row.chain
        done = self.store.submit(batch)
        return done.result() if wait else done

    def end(self, status="complete", **changes):
        """Write the tip and the root."""
        run = dataclasses.replace(self.run, status=status, ended_at=2.0e9, **changes)
        end = self.store.read(tail_end, run)
        self.run = dataclasses.replace(run, root=root_hash(run, self.chain, end))
        batch = Batch()
        batch.tip(self.run)
        self.store.submit(batch, durable=True).result()
        return self.run


def create(path):
    """Make an empty store, as the first run recorded in it does."""
    with Store(path) as store:
        store.submit(Batch()).result()


def recorded(store, steps=4, **given):
    """A finished run of some steps, with calls and an artifact."""
    recorder = Recorder(store, state={"n": 0, "log": []}, **given)
    for n in range(steps):
        recorder.step(n=n, log=[*recorder.state["log"], f"line {n}"], calls=n % 2)
    recorder.step(done=True, artifact=b"# report\n" * 40)
    recorder.end()
    return recorder


def everything(store, run_id):
    """All that can be read of a run, as plain values."""
    run = store.run(run_id)
    return {
        "run": dataclasses.replace(run._row, row_hash=""),
        "steps": [(s.row, s.writes, s.reads, s.inputs, s.result) for s in run.steps],
        "states": [run.state_at(s.seq) for s in run.steps],
        "final": run.state,
        "calls": [(c.request, c.response, c.status) for s in run.steps for c in s.calls],
        "artifacts": [(a.name, a.bytes, str(a.path)) for a in run.artifacts],
        "graph": run.graph_description,
    }


__all__ = [
    "Recorder", "after_step", "artifact_row", "call_row", "create", "digest", "everything",
    "new_id", "recorded", "run_row", "step_row",
]  # fmt: skip
