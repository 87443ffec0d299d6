"""Recorded runs as tests: one per run, which fails where the run regressed.

    pytest --rewind-store runs.db --rewind-app booking:build --rewind-check "output contains 'x'"

Each test executes its run again by the code of now and judges both by the check, as
`Rewind.regress` does; ``-m rewind`` leaves all other tests out, ``-k`` and ``-n`` work as for
any test. Without ``--rewind-store`` nothing of the library is loaded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from rewind_nb._suite import Suite
    from rewind_nb.experiments import Case

    OPENED: pytest.StashKey[Suite]

OPENED = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, as `rewind regress` has them."""
    group = parser.getgroup("rewind", "recorded runs as tests (rewind_nb)")
    add = group.addoption
    add("--rewind-store", metavar="PATH", help="The store whose recorded runs are tests.")
    add("--rewind-app", metavar="MODULE:ATTRIBUTE", help="The application of now.")
    add("--rewind-check", metavar="TEXT", help="What a run must pass.")
    add(
        "--rewind-start",
        metavar="STEP",
        default="first",
        help="first, last, an action or its n-th visit as action:n. Default: first.",
    )
    add("--rewind-samples", metavar="N", type=int, default=1, help="Re-executions of each run.")
    add("--rewind-run", metavar="ID", action="append", default=[], help="Which run; else all.")
    add(
        "--rewind-stub",
        metavar="TOOL=JSON",
        action="append",
        default=[],
        help="What a tool with an effect returns instead of firing.",
    )
    add("--rewind-live-effects", action="store_true", help="Fire tools with effects.")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker that all of these tests have."""
    config.addinivalue_line("markers", "rewind: a recorded run, executed again (rewind_nb)")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(session: pytest.Session, items: list[pytest.Item]) -> None:
    """Add a test for each recorded run, before any are deselected."""
    store = session.config.getoption("rewind_store")
    if store is None:
        return
    parent = RecordedRuns.from_parent(session, name=store, nodeid=store)
    items.extend(parent.collect())


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close the store."""
    suite = config.stash.get(OPENED, None)
    if suite is not None:
        suite.rw.store.close()


class RecordedRuns(pytest.Collector):
    """A store, whose recorded runs are tests."""

    def collect(self) -> Iterator[RecordedRun]:
        """A test for each, called by its label, or by its id where that is not its own.

        Raises:
            pytest.UsageError: an option cannot be understood, or there is no run.
        """
        from rewind_nb.errors import RewindError

        try:
            suite = self._suite()
            runs = suite.recorded()
        except RewindError as error:
            raise pytest.UsageError(f"--rewind-store: {error}") from error
        self.config.stash[OPENED] = suite
        labels = Counter(run.label for run in runs)
        for run in runs:
            name = run.label if run.label and labels[run.label] == 1 else run.id
            yield RecordedRun.from_parent(self, name=name, run_id=run.id)

    def _suite(self) -> Suite:
        from rewind_nb._suite import Suite

        option = self.config.getoption
        for needed in ("app", "check"):
            if option(f"rewind_{needed}") is None:
                raise pytest.UsageError(f"--rewind-store needs --rewind-{needed} beside it.")
        return Suite.of(
            app=option("rewind_app"),
            check=option("rewind_check"),
            store=option("rewind_store"),
            start=option("rewind_start"),
            runs=option("rewind_run"),
            samples=option("rewind_samples"),
            stubs=option("rewind_stub"),
            live_effects=option("rewind_live_effects"),
            label="pytest",
        )


class RecordedRun(pytest.Item):
    """A recorded run as a test: it fails where the run regressed, or cannot be judged.

    One that failed its check when it was recorded, and still does, is an expected failure.
    """

    def __init__(self, *, run_id: str, **given: Any) -> None:
        super().__init__(**given)
        self.run_id = run_id
        self.add_marker("rewind")

    def runtest(self) -> None:
        """Execute it again.

        Raises:
            RegressedError: it regressed, or cannot be judged.
        """
        found = self.config.stash[OPENED].regress(self.run_id, progress=False)
        (case,) = found.cases
        if case.result == "still failing":
            pytest.xfail(case.words)
        if not found.ok:
            raise RegressedError(case)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """What regressed and the diff, instead of a traceback of this plugin."""
        error = excinfo.value
        if isinstance(error, RegressedError):
            return str(error)
        from rewind_nb.errors import RewindError

        return (
            str(error) if isinstance(error, RewindError) else super().repr_failure(excinfo, style)
        )

    def reportinfo(self) -> tuple[Path, None, str]:
        """What it is called where it failed."""
        return self.path, None, f"recorded run {self.name}"


class RegressedError(Exception):
    """A recorded run regressed, or cannot be judged; it says how, with the diff."""

    def __init__(self, case: Case) -> None:
        super().__init__(case)
        self.case = case

    def __str__(self) -> str:
        diff = self.case.diff
        return self.case.words if diff is None else f"{self.case.words}\n\n{diff}"
