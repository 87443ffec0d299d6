"""`Trial`: a run that an experiment wants; `Tried`: how it ended. Plain data, both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rewind_nb._combine import Given
from rewind_nb._execution import Env, Execution
from rewind_nb._forks import new_fork
from rewind_nb._model import Manifest, Reuse, RunRow
from rewind_nb._recording import Recording
from rewind_nb._resume import resumed
from rewind_nb._run import At, Run
from rewind_nb._store import Store


@dataclass(frozen=True, slots=True)
class Trial:
    """A run that an experiment wants; plain data, so that it can go to another process.

    Attributes:
        key: what the run is called in the experiment.
        run_id: the run to fork, or with *resumes* the one to go on with.
        settings: further arguments of the fork.
    """

    key: str
    run_id: str
    at: At | None = None
    given: tuple[Given, ...] = ()
    sample: int = 0
    reuse: Reuse = "unchanged"
    settings: tuple[tuple[str, Any], ...] = ()
    resumes: bool = False

    def ready(self, env: Env, recording: Recording) -> Execution:
        """The execution of it."""
        if self.resumes:
            effects = dict(self.settings).get("effects")
            return resumed(
                env, recording.run, inputs={}, halt_after=[], halt_before=[], effects=effects
            )
        return new_fork(
            env,
            recording.run,
            self.at,
            self.given,
            recording=recording,
            cell=self.key,
            sample=self.sample,
            reuse=self.reuse,
            **dict(self.settings),
        )


@dataclass(frozen=True, slots=True)
class Tried:
    """How a trial ended.

    Attributes:
        run_id: None where it was refused before a run was made.
        error: what stopped it; None where it came to its end.
        stopped: by the user or the budget, and not by itself: it can be gone on with.
        row: the run as it ended, and *state* what it ended with, where they are known.
    """

    trial: Trial
    run_id: str | None
    error: BaseException | None = None
    stopped: bool = False
    row: RunRow | None = None
    state: Manifest | None = None

    def run(self, store: Store) -> Run:
        """The run it made.

        Raises:
            RunNotFoundError: it made none.
        """
        if self.row is None:
            return store.run(self.run_id or "")
        run = Run(store, self.row)
        if self.state is not None:
            run.final_manifest = dict(self.state)
        return run
