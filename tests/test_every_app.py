"""The same laws for a loop, branches, async, a human in the loop, and class-based actions."""

from collections import Counter

import apps
import pytest

from rewind_nb import Rewind
from rewind_nb.errors import OverrideError


def hashes(run):
    return [step.hash for step in run.steps]


def row_hashes(run):
    return [(s.row.row_hash, s.row.chain) for s in run.steps]


def test_a_run_is_complete_and_says_so(recorded):
    _, run = recorded

    assert run.status in ("complete", "halted")
    assert all(step.status == "complete" and step.hash for step in run.steps)


def test_an_unchanged_replay_is_identical_with_no_live_call(recorded):
    rw, run = recorded

    proof = rw.replay(run)

    assert proof.ok, proof
    assert (proof.live_calls, proof.tokens) == (0, 0)
    assert proof.identical == proof.steps == len(run)


def test_a_fork_at_every_step_without_override_has_the_same_hashes(recorded):
    rw, run = recorded

    for step in run.steps:
        fork = rw.fork(run, step.seq, reuse="none")

        assert hashes(fork) == hashes(run), step
        assert fork.status == run.status
        assert fork.state == run.state
        assert sum(s.live_calls for s in fork.steps if s.run_id == fork.id) == 0
        assert rw.diff(run, fork).identical


def test_in_an_unchanged_fork_each_downstream_function_runs_once(recorded):
    rw, run = recorded

    for step in run.steps:
        apps.CALLS.clear()
        rw.fork(run, step.seq, reuse="none")

        expected = Counter(s.action for s in run.steps[step.seq :])
        assert {k: v for k, v in apps.CALLS.items() if k != "lookup"} == expected
        assert apps.CALLS["lookup"] == 0


def test_a_fork_at_every_step_with_an_override_leaves_the_parent_as_it_was(recorded):
    rw, run = recorded
    before = row_hashes(run), run._row.row_hash, run._row.root

    for step in run.steps:
        changed = {key: _other(value) for key, value in list(step.writes.items())[:1]}
        fork = rw.fork(run, step.seq, output=changed, max_steps=20)

        assert fork.steps[step.seq].source == "override"
        assert fork.steps[step.seq].writes == {**step.writes, **changed}
        again = run.refresh()
        assert (row_hashes(again), again._row.row_hash, again._row.root) == before


def test_a_replay_of_every_fork_is_identical(recorded):
    rw, run = recorded

    for step in run.steps:
        changed = {key: _other(value) for key, value in list(step.writes.items())[:1]}
        fork = rw.fork(run, step.seq, output=changed, max_steps=20)

        proof = rw.replay(fork)

        assert proof.ok, proof
        assert proof.applied == 1


def test_a_fork_of_a_fork_before_at_and_after_its_fork_point(recorded):
    rw, run = recorded
    middle = len(run) // 2
    step = run[middle]
    changed = {key: _other(value) for key, value in list(step.writes.items())[:1]}
    fork = rw.fork(run, middle, output=changed, max_steps=20)

    for seq in range(len(fork)):
        again = rw.fork(fork, seq)

        assert hashes(again) == hashes(fork), seq
        assert rw.diff(fork, again).identical
        assert rw.replay(again).ok


def test_two_runs_in_one_file_store_survive_reopening(recorded, tmp_path):
    rw, _ = recorded
    from rewind_nb import Store

    path = tmp_path / "runs.db"
    with Store(path) as first:
        again = Rewind(rw._app, store=first)
        inputs = {"by": 1, "tone": "warm", "topic": "x", "reply": "y"}
        run = again.run(inputs=inputs)
        state = run.state
    with Store(path, read_only=True) as second:
        found = second.run(run.id)
        assert found.state == state
        assert hashes(found) == hashes(run)
        assert second.verify().ok


def _other(value):
    """Another value of the same type, which the apps' data branches can live with."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "!"
    if isinstance(value, list):
        return [*value, "extra"]
    if isinstance(value, dict):
        return {**value, "extra": {"degrees": 99}}
    raise AssertionError(value)


def test_the_helper_of_these_tests_changes_what_it_is_given():
    for value in (True, 3, "a", [1], {"k": 1}):
        assert _other(value) != value


def test_an_override_of_a_key_the_step_did_not_write_is_refused(recorded):
    rw, run = recorded

    with pytest.raises(OverrideError, match="wrote"):
        rw.fork(run, 0, output={"no such key": 1})
