"""The first example told in a terminal: record, fork, diff, replay, and where it all is.

`tell` says its lines through a function it is given, as they come, for a real provider
takes its time. `workspace` decides where the runs and pages go.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from burr.core import Application

from rewind_nb._proof import Proof
from rewind_nb._rewind import Rewind
from rewind_nb._run import Run
from rewind_nb._secrets import safe_url
from rewind_nb._text import diff_text, run_text
from rewind_nb.capture.chat import ChatModel
from rewind_nb.demo import HALT_AFTER, INPUTS, build, default_model, find_task
from rewind_nb.demo.offline import BASE_URL
from rewind_nb.demo.verify import NODE, edit_of

ARTIFACT_DIR = "REWIND_ARTIFACT_DIR"
NOTEBOOK = Path("notebooks") / "01_quickstart.ipynb"


@dataclass(frozen=True, slots=True)
class Story:
    """An example, and how it is told.

    Attributes:
        title: what it is about, in a line.
        tell: runs it on a Rewind of `app`, says what came of it and returns a proof.
        notebook: which shows the same, in a checkout.
    """

    title: str
    model: ChatModel
    app: Application[Any]
    tell: Callable[[Rewind, Callable[[str], object]], Proof]
    notebook: Path


def table_story(task: str) -> Story:
    """The first example, on one of its tasks.

    Raises:
        ConfigError: there is no such task.
    """
    chosen, model = find_task(task), default_model()
    title = f"{chosen.title}: {chosen.question}"
    return Story(title, model, build(task, model=model), tell, NOTEBOOK)


@dataclass(frozen=True, slots=True)
class Workspace:
    """Where a command writes.

    Attributes:
        store: the store's file.
        artifacts: the folder of the pages.
        made: the temporary folder made for this command; None where none was needed.
    """

    store: Path
    artifacts: Path
    made: Path | None

    def remove(self) -> None:
        """Remove what was made for this command, and nothing else."""
        if self.made is not None and self.made.exists():
            shutil.rmtree(self.made)


@contextlib.contextmanager
def workspace(name: str, store: str | None = None) -> Iterator[Workspace]:
    """The user's own store and artifact folder; a new temporary folder for what they left open.

    Args:
        name: of the command, for the temporary folder's name.
        store: a path, before the variable ``REWIND_STORE``.

    Example:
        >>> with workspace("docs") as place:
        ...     place.store.name, place.store.exists()
        ('runs.db', False)
        >>> place.remove()
    """
    store = store or os.environ.get("REWIND_STORE")
    artifacts = os.environ.get(ARTIFACT_DIR)
    made = None if store and artifacts else Path(tempfile.mkdtemp(prefix=f"rewind-{name}-"))
    place = Workspace(
        Path(store or f"{made}/runs.db"), Path(artifacts or f"{made}/artifacts"), made
    )
    os.environ[ARTIFACT_DIR] = str(place.artifacts)  # where `artifact` looks
    try:
        yield place
    finally:
        os.environ.pop(ARTIFACT_DIR)
        if artifacts is not None:
            os.environ[ARTIFACT_DIR] = artifacts
        if made is not None and not any(made.iterdir()):  # it failed before it began
            made.rmdir()


def tell(rw: Rewind, say: Callable[[str], object]) -> Proof:
    """Run the example, fork it with one field changed, and replay it; say what came of it.

    Args:
        rw: of an application that `build` made.
        say: is given one block of text at a time.

    Example:
        >>> proof = tell(Rewind(build("weather"), store=":memory:"), print)  # doctest: +SKIP
    """
    say("\n1. Record")
    run = rw.run(halt_after=HALT_AFTER, inputs=INPUTS)
    say(f"{run_text(run)}\n{answers(run)}")

    say("\n2. Fork: change one field of one step, and run what follows")
    edit = edit_of(run)
    fork = rw.fork(run, at=NODE, patch={edit.path: edit.after})
    say(f"{run_text(fork)}\n{answers(fork)}")

    say(f"\n3. Diff: what the change did\n{diff_text(rw.diff(run, fork))}")

    proof = rw.replay(run)
    say(f"\n4. Replay: the unchanged run once more, without a model\n{proof!r}")
    return proof


def where_to_go(place: Workspace, proof: Proof, notebook: Path) -> str:
    """Where the runs and pages are, and what to open next."""
    lines = [
        "",
        f"Runs:   rewind runs --store {place.store}",
        f"Pages:  {place.artifacts}",
    ]
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / notebook).exists():
        name = notebook if checkout == Path.cwd() else checkout / notebook
        return "\n".join([*lines, f"Next:   open {name} in Jupyter."])
    return "\n".join(
        [
            *lines,
            "Next:   the notebooks are in the source checkout; in one of your own, begin with",
            "            from rewind_nb import Store",
            f"            Store({str(place.store.absolute())!r}).run({proof.original.id!r})",
        ]
    )


def who(model: ChatModel) -> str:
    """Which model is asked: the offline one, or a provider's.

    Example:
        >>> from rewind_nb.demo import offline_model
        >>> who(offline_model())
        'offline-1, offline (no network, no key)'
    """
    settings = model.settings
    if settings["base_url"] == BASE_URL:
        return f"{settings['model']}, offline (no network, no key)"
    return f"{settings['model']}, of the provider at {safe_url(settings['base_url'])}"


def answers(run: Run) -> str:
    """Who answered in a run's own steps, and how often live."""
    own = [step for step in run if step.source not in ("inherited", "reused")]
    calls = [call for step in own for call in step.calls if call.kind == "model"]
    by = ", ".join(sorted({str(call.answered_by) for call in calls}))
    live = sum(call.source == "live" for call in calls)
    return f"Model calls: {live} live, {len(calls) - live} played back; answered by {by}."
