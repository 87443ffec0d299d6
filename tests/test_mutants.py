"""Each file of `mutants/` breaks one law on purpose; the law's test must notice.

Run with ``pytest -m mutants``. A mutant is a small edit of the package: where it no longer
applies, the source has moved on and the mutant must follow it.
"""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MUTANTS = sorted((ROOT / "tests" / "mutants").glob("*.toml"))


@pytest.mark.mutants
@pytest.mark.parametrize("path", MUTANTS, ids=[p.stem for p in MUTANTS])
def test_a_broken_law_is_noticed(path, tmp_path):
    mutant = tomllib.loads(path.read_text())
    for name in ("rewind_nb", "tests", "data"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("mutants"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for edit in mutant["edit"]:
        apply(tmp_path / edit["file"], edit["find"].strip("\n"), edit["replace"].strip("\n"))
    broken = run(mutant["test"], tmp_path)

    assert broken.returncode == 1, f"{broken.stdout}\nnot noticed: {mutant['law']}"
    assert "1 failed" in broken.stdout
    assert "SyntaxError" not in broken.stdout


def apply(file, find, replace):
    source = file.read_text()
    assert source.count(find) == 1, f"{file.name} holds this {source.count(find)} times:\n{find}"
    file.write_text(source.replace(find, replace))


def run(test, folder):
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "", test],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_there_is_a_mutant_for_each_law_with_a_test():
    laws = (ROOT / "tests" / "test_laws.py").read_text()
    numbers = {line[13:15] for line in laws.splitlines() if line.startswith("def test_law_")}
    assert {p.stem[4:6] for p in MUTANTS} == numbers
