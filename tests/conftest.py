"""Fixtures: a store in memory, and the toy applications recorded once each."""

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

from rewind_nb import Rewind, Store  # noqa: E402


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


RECORDERS = {
    "loop": lambda s: _record(apps.loop_app(), s, halt_after=["report"], inputs={"by": 1}),
    "branch": lambda s: _record(apps.branch_app(), s, halt_after=["summarise"]),
    "async": lambda s: _record(apps.async_app(), s, halt_after=["choose"]),
    "human": lambda s: _human(s),
    "class": lambda s: _record(apps.class_app(), s, halt_after=["pick"], inputs={"tone": "warm"}),
}


def _record(app, store, **given):
    rw = Rewind(app, store=store)
    return rw, rw.run(**given)


def _human(store):
    rw = Rewind(apps.human_app(), store=store)
    return rw, apps.run_human_app(rw)


@pytest.fixture(params=RECORDERS)
def recorded(request, store):
    """(Rewind, Run) for each kind of application."""
    rw, run = RECORDERS[request.param](store)
    apps.CALLS.clear()
    return rw, run
