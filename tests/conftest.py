"""Fixtures: a store in memory, and the toy applications recorded once each."""

import gc
import os
import signal
import sys
from pathlib import Path

import hypothesis
import pytest

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # as a shell starts what is in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
hypothesis.settings.register_profile("no deadline", deadline=None)  # machines differ in speed
hypothesis.settings.load_profile("no deadline")
sys.path.insert(0, str(Path(__file__).parent))

import apps  # noqa: E402
from toy_runs import RECORDERS  # noqa: E402

from rewind_nb import Store  # noqa: E402

# Files whose tests together take longer than all the others: `-m long` runs them, and so does CI.
LONG = {
    "test_ablate.py", "test_ambient.py", "test_any_app.py", "test_bisect.py", "test_regress.py",
    "test_tasks.py", "test_chat.py", "test_check.py", "test_cli.py",
    "test_codec.py", "test_codec_arrays.py", "test_codec_classes.py", "test_demo_pipeline.py",
    "test_diff_identical.py", "test_examples.py", "test_explain.py", "test_flip.py",
    "test_http_capture.py", "test_interrupts.py", "test_isolation.py", "test_pytest_plugin.py",
    "test_review.py", "test_review_secrets.py", "test_review_store.py", "test_sdks.py",
    "test_secrets.py", "test_stability.py", "test_store.py", "test_store_concurrency.py",
    "test_store_faults.py", "test_store_vanished.py", "test_value_diff.py", "test_why.py",
    "test_grid.py", "test_wire_sdks.py", "test_context_reads.py", "test_diff_table.py",
}  # fmt: skip


def pytest_ignore_collect(collection_path, config):
    """Files of which -m takes nothing: to import and rewrite them takes longer than to collect."""
    if collection_path.suffix != ".py" or _named(collection_path, config.args):
        return None  # the file that was asked for is collected, if only to say "deselected"
    wanted = config.option.markexpr
    if wanted == "long":
        if collection_path.name in LONG or collection_path.name == "conftest.py":
            return None
        return True if b"mark.long" not in collection_path.read_bytes() else None
    if {"not long", "not live", "not mutants", "not thorough"} <= set(wanted.split(" and ")):
        return True if collection_path.name in LONG else None
    return None


def _named(path, arguments):
    return any(Path(each.split("::")[0]).name == path.name for each in arguments)


@pytest.hookimpl(tryfirst=True)  # before pytest takes out what -m does not name
def pytest_collection_modifyitems(items):
    for item in items:
        apart = any(map(item.get_closest_marker, ("live", "thorough", "mutants")))
        if item.path.name in LONG and not apart:
            item.add_marker(pytest.mark.long)


def pytest_collection_finish():
    """What is there before the first test stays: no garbage collection need walk through it."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    gc.unfreeze()  # or what is left at exit is torn down in another order than in a program


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch, tmp_path):
    """No test reads the user's settings or writes beside the checkout."""
    for name in [n for n in os.environ if n.startswith("REWIND_") and n != "REWIND_BASE_URL"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("REWIND_ARTIFACT_DIR", str(tmp_path / "artifacts"))
    apps.CALLS.clear()


@pytest.fixture
def store():
    with Store(":memory:") as opened:
        yield opened


@pytest.fixture(params=RECORDERS)
def recorded(request, store):
    """(Rewind, Run) for each kind of application."""
    rw, run = RECORDERS[request.param](store)
    apps.CALLS.clear()
    return rw, run
