"""Recorded runs as tests of pytest."""

import os
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import rewind_nb
from rewind_nb import Rewind, Store
from rewind_nb.demo import booking

pytest_plugins = ["pytester"]

CHECKOUT = Path(rewind_nb.__file__).resolve().parents[1]
NAME = "rewind_nb.pytest_plugin"
INSTALLED = any(point.value == NAME for point in entry_points(group="pytest11"))
CONFIRMED = ("--rewind-check", "output contains 'confirmed'")


@pytest.fixture
def folder(tmp_path):
    """A folder with a test, an application and a store of recorded runs."""
    rw = Rewind(booking.build(), store=tmp_path / "runs.db")
    for city, label in (("Lisbon", "cheap"), ("Oslo", "twice"), ("Oslo", "twice"), ("Tokyo", None)):
        rw.rebind(booking.build(city)).run(halt_after=["reply"], label=label)
    rw.store.close()
    (tmp_path / "test_mine.py").write_text("def test_mine():\n    pass\n")
    lines = [
        "from functools import partial",
        "from rewind_nb.demo.booking import build",
        "tight = partial(build, limit=500.0)",
    ]
    (tmp_path / "my_booking.py").write_text("\n".join(lines))
    return tmp_path


@pytest.fixture
def run_pytest(folder, pytester, monkeypatch):
    """Pytest in that folder; its exit code and what it says."""
    monkeypatch.chdir(folder)
    plugin = [] if INSTALLED else ["-p", NAME]

    def run(*arguments):
        given = [*plugin, "-p", "no:cacheprovider", "-v", "--rootdir", str(folder), str(folder)]
        done = pytester.runpytest_inprocess(*given, *arguments)
        return done.ret, f"{done.stdout}\n{done.stderr}"

    return run


def test_each_recorded_run_is_a_test_that_fails_with_the_diff_where_it_regressed(
    folder, run_pytest
):
    with Store(folder / "runs.db", read_only=True) as store:
        cheap, one, two, tokyo = (run.id for run in store.runs())

    code, said = run_pytest(
        "--rewind-store", "runs.db", "--rewind-app", "my_booking:tight", *CONFIRMED
    )

    assert code == 1
    assert "test_mine.py::test_mine PASSED" in said
    assert "runs.db::cheap PASSED" in said
    assert f"runs.db::{one} FAILED" in said  # by its id: the label is not its own
    assert f"runs.db::{two} FAILED" in said
    assert f"runs.db::{tokyo} XFAIL" in said
    assert "regressed: r_" in said
    assert "first divergence: step 2 'check_budget', approved" in said
    assert "Traceback" not in said
    assert cheap not in said


def test_they_can_be_told_from_other_tests_and_from_each_other(run_pytest):
    given = ("--rewind-store", "runs.db", "--rewind-app", "my_booking:build", *CONFIRMED)

    marked = run_pytest(*given, "-m", "rewind", "--strict-markers")
    named = run_pytest(*given, "-k", "cheap")

    assert marked[0] == named[0] == 0
    assert "3 passed, 1 deselected, 1 xfailed" in marked[1]
    assert "1 passed, 4 deselected" in named[1]


def test_the_other_options_are_those_of_the_command(folder, run_pytest):
    with Store(folder / "runs.db", read_only=True) as store:
        oslo = store.runs()[1].id
    given = ("--rewind-store", "runs.db", "--rewind-app", "my_booking:tight", *CONFIRMED)

    code, said = run_pytest(
        *given, "--rewind-start", "last", "--rewind-run", oslo, "--rewind-samples", "2"
    )

    assert code == 0
    assert "2 passed" in said  # that run, and the test in the file


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--rewind-store", "runs.db", *CONFIRMED], "needs --rewind-app"),
        (["--rewind-store", "runs.db", "--rewind-app", "my_booking:build"], "needs --rewind-check"),
        (
            ["--rewind-store", "no.db", "--rewind-app", "my_booking:build", *CONFIRMED],
            "There is no store at no.db",
        ),
        (["--rewind-store", "runs.db", "--rewind-app", "my_booking:x", *CONFIRMED], "has no 'x'"),
    ],
)
def test_what_it_cannot_understand_is_a_usage_error(run_pytest, given, said):
    code, told = run_pytest(*given)

    assert code == pytest.ExitCode.USAGE_ERROR
    assert said in told
    assert "INTERNALERROR" not in told


def test_without_a_store_it_adds_nothing_and_loads_nothing(folder):
    lines = [
        "import sys",
        "def test_nothing_is_loaded():",
        "    loaded = {n for n in sys.modules if n.startswith('rewind_nb.')}",
        f"    assert loaded <= {{{NAME!r}, 'rewind_nb.errors', 'rewind_nb._redact',",
        "                      'rewind_nb._forms', 'rewind_nb._visible'}",
        "    assert not {'burr', 'pandas', 'sqlalchemy', 'httpx'} & set(sys.modules)",
    ]
    (folder / "test_mine.py").write_text("\n".join(lines))

    plugin = [] if INSTALLED else ["-p", NAME]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("REWIND_", "PYTEST_"))}
    command = [sys.executable, "-m", "pytest", *plugin, "-W", "error"]

    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_pytest_finds_it_where_the_package_is_installed():
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]

    assert project["entry-points"]["pytest11"] == {"rewind": NAME}
