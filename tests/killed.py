"""An application whose process is killed in the middle of a step, and what is left of it."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import rewind_nb


def killed(name, source, folder, monkeypatch):
    """Run a script until it kills itself: its module, its store's file, and its log.

    Args:
        source: takes the store's file, the log, and ``kill``; `app(log)` is its application.
    """
    (folder / f"{name}.py").write_text(source)
    log, path = folder / "log", folder / "runs.db"
    script = [sys.executable, str(folder / f"{name}.py"), str(path), str(log), "kill"]
    env = {**os.environ, "PYTHONPATH": str(Path(rewind_nb.__file__).parents[1])}
    assert subprocess.run(script, env=env, check=False).returncode == -9
    monkeypatch.syspath_prepend(folder)
    return importlib.import_module(name), path, log
