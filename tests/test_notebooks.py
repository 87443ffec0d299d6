"""Every notebook executes in a fresh kernel and gives, ids and clocks apart, the outputs it holds.

To execute them anew and keep what they print: ``python tests/test_notebooks.py``
"""

import base64
import configparser
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SANITIZER = ROOT / "notebooks" / ".nbval.cfg"
each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.name)


def nbval(path, home):
    """Strict nbval on one notebook, without any setting of ours or the user's."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("REWIND_", "PYTEST_"))}
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-sanitize-with", SANITIZER]
    command += ["-p", "no:cacheprovider", "-c", ROOT / "pyproject.toml", "-q", path]
    return subprocess.run(
        list(map(str, command)),
        cwd=home,
        env={**clean, "IPYTHONDIR": str(home / "ipython"), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def code_cells(path):
    return [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]


def outputs(path):
    """Everything a notebook shows, as text."""
    return json.dumps([cell.outputs for cell in code_cells(path)], ensure_ascii=False)


def pictures(path):
    """The PNGs that a notebook shows, as they stand in it."""
    data = [output.get("data", {}) for cell in code_cells(path) for output in cell.outputs]
    return [shown["image/png"] for shown in data if "image/png" in shown]


# -- what they print ---------------------------------------------------------------------


@each_notebook
def test_a_notebook_gives_the_outputs_that_it_holds(path, tmp_path):
    before = sorted(path.parent.iterdir())

    checked = nbval(path, tmp_path)

    assert checked.returncode == 0, checked.stdout[-20_000:] + checked.stderr
    assert f"{len(code_cells(path))} passed" in checked.stdout
    assert sorted(path.parent.iterdir()) == before


def test_an_output_that_changed_is_noticed(tmp_path):
    notebook = nbformat.read(NOTEBOOKS[0], as_version=4)
    cells = [c for c in notebook.cells if "7,390 tokens" in json.dumps(c.get("outputs", []))]
    for output in cells[0].outputs:
        output.data["text/html"] = output.data["text/html"].replace("7,390 tokens", "7,391 tokens")
    changed = tmp_path / "changed.ipynb"
    nbformat.write(notebook, changed)

    checked = nbval(changed, tmp_path)

    assert "1 failed" in checked.stdout


def test_the_sanitizer_lets_nothing_pass_but_ids_and_clocks():
    config = configparser.ConfigParser()
    config.read(SANITIZER)

    def sanitized(text):
        for rule in config.values():
            if "regex" in rule:
                text = re.sub(rule["regex"], rule["replace"], text)
        return text

    rules = {"run ids", "experiment ids", "durations, in seconds", "moments"}
    assert set(config) == {"DEFAULT", *rules}
    assert sanitized("r_0123456789ab 0.012 s 2026-11-30 21:43:46 UTC") == "RUN DURATION MOMENT"
    assert sanitized("Grid e_01234567;") == "Grid EXPERIMENT;"
    for kept in (
        "265d034503a7f8cb",
        "the_deadbeef",
        "8 steps",
        "7,390 tokens",
        "5076.016",
        "3,733.088 g",
        "0 live",
    ):
        assert sanitized(kept) == kept


# -- what they hold ----------------------------------------------------------------------


@each_notebook
def test_a_notebook_is_short_and_was_executed_from_top_to_bottom(path):
    cells = code_cells(path)

    assert len(cells) <= 15
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert {o.output_type for c in cells for o in c.outputs} <= {"execute_result", "stream"}
    assert {o.name for c in cells for o in c.outputs if o.output_type == "stream"} <= {"stdout"}


@each_notebook
def test_a_notebook_holds_no_trace_of_the_machine(path):
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)

    assert set(notebook["metadata"]) == {"kernelspec", "language_info"}
    assert all(cell["metadata"] == {} for cell in notebook["cells"])
    for picture in pictures(path):
        text = text.replace(json.dumps(picture), "")  # base64, in which any three letters occur
        text += base64.b64decode(picture).decode("latin-1").partition("IDAT")[0]
    for trace in ("/home/", "/root/", "/tmp/", "/Users/", "C:\\\\", "site-packages"):
        assert trace not in text
    assert not re.search(r"\b0x[0-9a-f]", text)  # an address; "800x280" is a size


@each_notebook
def test_a_notebook_can_be_read_without_a_kernel_or_a_script(path):
    shown = outputs(path)

    assert "<svg" in shown
    for alive in ("<script", "javascript:", "http:", "https:", "widget-view", " onclick"):
        assert alive not in shown
    nbformat.validate(nbformat.read(path, as_version=4))


@each_notebook
def test_a_notebook_says_which_model_answers(path):
    assert "offline" in json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"][2]


# -- executing them anew -------------------------------------------------------------------


def refresh(path):
    """Execute a notebook in a fresh kernel and keep its outputs, and nothing of this machine."""
    from jupyter_client.manager import start_new_kernel

    notebook = nbformat.read(path, as_version=4)
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(path.parent))
    try:
        cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for count, cell in enumerate(cells, 1):
            cell.outputs, cell.execution_count = executed(client, cell.source), count
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    for cell in notebook.cells:
        cell.metadata.clear()
    nbformat.write(notebook, path)


def executed(client, source):
    """The outputs of a cell; what it prints in several pieces is one output."""
    found = []

    def keep(message):
        if message["msg_type"] in ("execute_result", "display_data", "stream", "error"):
            output = nbformat.v4.output_from_msg(message)
            # A view needs its kernel, and stands before the HTML where there is none.
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
            if found and output.output_type == found[-1].output_type == "stream":
                found[-1].text += output.text
            else:
                found.append(output)

    reply = client.execute_interactive(source, output_hook=keep, timeout=120)
    if reply["content"]["status"] != "ok":
        raise SystemExit("\n".join(reply["content"]["traceback"]))
    return found


if __name__ == "__main__":
    for name in [n for n in os.environ if n.startswith("REWIND_")]:
        del os.environ[name]
    for notebook in NOTEBOOKS:
        refresh(notebook)
        print(f"executed {notebook.relative_to(ROOT)}")
