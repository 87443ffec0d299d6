"""Hooks see everything, change nothing, and never fail a run."""

import contextlib

import apps
import pytest

from rewind_nb import Event, Rewind


def record(store, **given):
    seen = []
    rw = Rewind(apps.async_app(), store=store, hooks=[seen.append], **given)
    return rw, seen


def test_a_hook_is_told_of_every_run_step_and_call_in_order(store):
    rw, seen = record(store)
    run = rw.run()

    names = [e.name for e in seen]
    assert names[0] == "run_started"
    assert names[-1] == "run_ended"
    assert names.count("step_started") == names.count("step_ended") == len(run)
    assert names.count("call_started") == names.count("call_ended") == 3
    first = seen[1:5]
    assert [e.name for e in first] == ["step_started", "call_started", "call_ended", "step_ended"]
    assert {e.run_id for e in seen} == {run.id}
    assert first[3].hash == run[0].hash
    assert first[3].source == "live"
    assert first[3].latency_s >= 0
    assert seen[-1].status == "complete"
    assert all(isinstance(e, Event) for e in seen)


def test_a_hook_sees_played_back_work_alike(store):
    rw, seen = record(store)
    run = rw.run()
    seen.clear()

    rw.fork(run, 0, reuse="none")

    assert [e.source for e in seen if e.name == "call_ended"] == ["tool-cache"] * 3
    assert {e.kind for e in seen if e.name.startswith("run")} == {"fork"}


def test_a_context_manager_that_a_hook_returns_surrounds_the_step(store):
    inside = []
    during = {}

    @contextlib.contextmanager
    def span(event):
        inside.append((event.name, event.action))
        yield
        inside.pop()

    def hook(event):
        if event.name == "step_started":
            return span(event)
        during[event.name] = list(inside)
        return None

    rw = Rewind(apps.async_app(), store=store, hooks=[hook])
    rw.run()

    assert during["call_started"] == [("step_started", "fetch")]
    assert during["step_ended"] == []
    assert inside == []


def test_a_hook_that_raises_is_noted_on_the_run_and_fails_nothing(store):
    def broken(event):
        if event.name == "step_ended":
            raise ZeroDivisionError("in the hook")

    run = Rewind(apps.loop_app(), store=store, hooks=[broken]).run(inputs={"by": 1})

    assert run.status == "complete"
    assert "ZeroDivisionError" in run.note
    assert "in the hook" in repr(run)


def test_on_adds_a_hook_until_it_is_taken_away(store):
    rw = Rewind(apps.loop_app(), store=store)
    seen = []
    stop = rw.on(seen.append)
    rw.run(inputs={"by": 1})
    count = len(seen)
    assert count
    stop()
    stop()
    rw.run(inputs={"by": 1})

    assert len(seen) == count


def test_an_event_is_frozen_and_holds_no_value_of_the_run(store):
    seen = []
    rw = Rewind(apps.loop_app(), store=store, hooks=[seen.append])
    rw.run(inputs={"by": 1}, state={"marker": "CANARY-VALUE"})

    with pytest.raises(AttributeError):
        seen[0].name = "x"
    assert "CANARY" not in repr(seen)
