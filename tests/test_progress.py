"""Progress: how far an experiment is, and how long it still takes once that means something."""

from __future__ import annotations

import pytest

from rewind_nb.experiments import _progress
from rewind_nb.experiments._progress import Progress


@pytest.fixture
def clock(monkeypatch):
    """Seconds that pass when the test says so."""
    now = [100.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: now[0])
    return now


def after(clock, line, ended, seconds):
    for _ in range(ended):
        clock[0] += seconds
        line.step()
    return line.line.rpartition("█")[2].rpartition("░")[2].strip()


def test_no_time_is_told_before_as_many_runs_ended_as_are_made_side_by_side(clock):
    line = Progress("grid", False)
    line.begin(40, 0, 8)

    assert after(clock, line, 7, 1.0) == "7 of 40 runs"
    assert after(clock, line, 1, 1.0) == "8 of 40 runs, about 32 s left"


def test_no_time_is_told_of_the_first_few_runs_alone(clock):
    line = Progress("grid", False)
    line.begin(10, 0, 1)

    assert after(clock, line, 2, 30.0) == "2 of 10 runs"
    assert after(clock, line, 1, 30.0) == "3 of 10 runs, about 210 s left"
    assert after(clock, line, 7, 30.0) == "10 of 10 runs"


def test_runs_that_were_made_before_took_no_time_here(clock):
    line = Progress("grid", False)
    line.begin(100, 90, 1)

    assert after(clock, line, 2, 1.0) == "92 of 100 runs"
    assert after(clock, line, 3, 1.0) == "95 of 100 runs, about 5 s left"


def test_of_a_search_that_wanted_more_once_no_time_is_told(clock):
    line = Progress("flip", False)
    line.begin(4, 0, 1)
    after(clock, line, 4, 1.0)
    line.begin(6, 0, 1)

    assert after(clock, line, 4, 1.0) == "8 of 10 runs"


def test_one_run_is_not_runs(clock):
    line = Progress("grid", False)
    line.begin(1, 0, 1)

    assert line.line.endswith("0 of 1 run")
