"""The layers: a module imports only from modules above it, and a dependency has one home."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "rewind_nb"

# From the bottom up; a module may import from those before it. Packages stand as one.
LAYERS = [
    "_visible",
    "_notebook",
    "_forms",
    "_redact",
    "errors",
    "_model",
    "_secrets",
    "_credentials",
    "_path",
    "_leaves",
    "_align",
    "_items",
    "_delta",
    "_diff",
    "_words",
    "_patch_ops",
    "_patch",
    "_describe",
    "_check",
    "_answering",
    "_wilson",
    "_price",
    "_cost",
    "_budget",
    "prices",
    "_codec",
    "_tables",
    "_contrast",
    "_code",
    "_layout",
    "_drawing",
    "_label",
    "_ways",
    "_divergence",
    "_lane",
    "_hooks",
    "_owner",
    "_scope",
    "_signals",
    "_store",
    "_spent",
    "_trajectory",
    "_cells",
    "_counterpart",
    "_live",
    "_call",
    "_steps",
    "_artifact",
    "_reasons",
    "_head",
    "_address",
    "_views",
    "_run",
    "_held",
    "_changes",
    "_comparison",
    "_ends",
    "_answers",
    "_lookup",
    "_pairs",
    "_both",
    "_apart",
    "_coded",
    "_partings",
    "_readings",
    "_origins",
    "_chains",
    "_causes",
    "_fields",
    "_traced",
    "_explain",
    "_dependencies",
    "_consumed",
    "_lineage",
    "_diff_views",
    "_compare",
    "capture",
    "_outcome",
    "_edits",
    "_open_step",
    "_track",
    "_session",
    "_plan",
    "_combine",
    "_burr",
    "_instead",
    "_drive",
    "_loops",
    "_proof",
    "_recording",
    "_execution",
    "_matching",
    "_itinerary",
    "_refusals",
    "_reuse",
    "_converge",
    "_tail",
    "_supplied",
    "_recode",
    "_forks",
    "_resume",
    "_replay",
    "_arguments",
    "_bound",
    "experiments",
    "_reruns",
    "_rewind",
    "_graphs",
    "_frames",
    "_experiment_frames",
    "_suite_frames",
    "_probe_frames",
    "_text",
    "_html",
    "widgets",
    "demo",
    "_suite",
    "_about",
    "cli",
    "pytest_plugin",
]

# A dependency is imported in its home only.
HOMES = {
    "sqlalchemy": {"_store"},
    "burr": {"_burr", "demo"},
    "anywidget": {"widgets"},
    "ipywidgets": {"widgets"},
    "traitlets": {"widgets"},
    "pandas": {"_frames", "_experiment_frames", "_codec", "demo"},
    "numpy": {"_codec"},
    "pydantic": set(),
    "jsonpatch": {"_patch"},
    "jsonpointer": {"_patch"},
    "click": {"cli"},
    "time_machine": {"capture"},
    "httpx": {"capture", "demo"},
    "networkx": {"_layout", "_graphs", "_views", "_store"},
}


def modules():
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        yield parts[0], file


def imports(file, *, top_level):
    """(name, line) of what a file imports; inside functions and TYPE_CHECKING apart."""
    tree = ast.parse(file.read_text())
    nodes = _executed_at_import(tree) if top_level else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            yield module, node.lineno
            if module == "rewind_nb":
                yield from ((f"rewind_nb.{alias.name}", node.lineno) for alias in node.names)


def _executed_at_import(tree):
    stack = list(tree.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        stack.extend(ast.iter_child_nodes(node))


def test_a_module_imports_only_from_modules_above_it():
    wrong = []
    for home, file in modules():
        if home == "__init__":
            continue
        for name, line in imports(file, top_level=True):
            if name.startswith("rewind_nb.") and not name.endswith("__"):
                other = name.split(".")[1]
                if other != home and LAYERS.index(other) > LAYERS.index(home):
                    wrong.append(f"{file.name}:{line} imports {other}")
    assert not wrong


def test_every_module_has_its_place_in_the_layers():
    homes = {home for home, _ in modules()} - {"__init__"}

    assert homes == set(LAYERS)


def test_a_foreign_dependency_is_imported_in_its_home_only():
    wrong = []
    for home, file in modules():
        for name, line in imports(file, top_level=False):
            top = name.split(".")[0]
            if top in HOMES and home not in HOMES[top] and not _only_for_types(file, line):
                wrong.append(f"{file.relative_to(PACKAGE)}:{line} imports {top}")
    assert not wrong


def _only_for_types(file, line):
    tree = ast.parse(file.read_text())
    return any(
        isinstance(node, ast.If)
        and "TYPE_CHECKING" in ast.dump(node.test)
        and node.lineno <= line <= (node.end_lineno or 0)
        for node in ast.walk(tree)
    )


@pytest.mark.parametrize("name", ["burr.core", "pandas", "networkx", "anywidget", "sqlalchemy"])
def test_importing_the_package_does_not_load(name):
    script = f"import sys, rewind_nb; sys.exit({name!r} in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_no_module_pickles_evaluates_or_imports_by_name_out_of_data():
    """`marshal` only writes here, to compare; nothing ever reads what it wrote."""
    forbidden = {"pickle", "shelve", "yaml", "dill"}
    for _, file in modules():
        tree = ast.parse(file.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "__import__"), file
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [a.name for a in node.names] + [getattr(node, "module", "") or ""]
                assert not set(names) & forbidden, file
            if isinstance(node, ast.Attribute) and node.attr in ("load", "loads"):
                assert ast.unparse(node.value) in ("json", "tomllib"), file


def test_every_public_name_is_exported_once_and_in_order():
    import rewind_nb

    assert rewind_nb.__all__ == sorted(rewind_nb.__all__)
    assert len(set(rewind_nb.__all__)) == len(rewind_nb.__all__)
    for name in rewind_nb.__all__:
        assert getattr(rewind_nb, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Rewnd'"):
        _ = rewind_nb.Rewnd
    assert set(rewind_nb.__all__) <= set(dir(rewind_nb))


def test_modules_stay_small_enough_to_read():
    long = {f.name: n for _, f in modules() if (n := len(f.read_text().splitlines())) > 450}

    assert not long
