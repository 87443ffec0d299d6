"""The README, `.env.example` and the docstrings say what is so: everything in them is executed."""

import contextlib
import dataclasses
import doctest
import importlib
import inspect
import io
import os
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import click
import pytest

import rewind_nb
from rewind_nb import _price, errors
from rewind_nb.cli import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Fence(NamedTuple):
    """A fenced block: its language, its text and the line of its first line."""

    language: str
    text: str
    line: int


def sections(markdown):
    """The fences of each second-level section, in order."""
    found, title, fence, start, lines = {}, "", None, 0, []
    for number, line in enumerate(markdown.splitlines(), 1):
        if fence is None and line.startswith("## "):
            title = line.removeprefix("## ")
        elif line.startswith("```") and fence is None:
            fence, start, lines = line.removeprefix("```"), number + 1, []
        elif line == "```":
            found.setdefault(title, []).append(Fence(fence, "\n".join(lines) + "\n", start))
            fence = None
        elif fence is not None:
            lines.append(line)
    assert fence is None, f"the block opened before line {start} is not closed"
    return found


SECTIONS = sections(README)
EXECUTED = [
    title for title, fences in SECTIONS.items() if any(f.language == "python" for f in fences)
]
FORKS = re.findall(r"^\| `\w+=` \| `(rw\.fork\(.*?\))` \| ", README, re.MULTILINE)
# What the reader has in mind when a section begins.
BEFORE = {"Any application": "Your own application", "Forks": "Your own application"}


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch, tmp_path):
    """A folder of its own, and no settings."""
    monkeypatch.setattr(_price, "_added", ())  # what one example registers is not for others
    for name in [n for n in os.environ if n.startswith("REWIND_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# -- the README's code -----------------------------------------------------------------


def execute(title, folder):
    """Execute a section's Python blocks in one namespace.

    Returns:
        The namespace, and (what the README says, what was printed) of each block that has an output.
    """
    namespace, outputs = {}, []
    if title in BEFORE:
        namespace, _ = execute(BEFORE[title], folder)
    fences = SECTIONS[title]
    for fence, after in zip(fences, [*fences[1:], None], strict=True):
        if fence.language != "python":
            continue
        file = folder / f"readme_{fence.line}.py"
        file.write_text(fence.text, encoding="utf-8")  # so that inspect finds the source
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            exec(compile(fence.text, file, "exec"), namespace)
        if after is not None and after.language == "text":
            outputs.append((after.text, said.getvalue()))
    return namespace, outputs


def without_ids(text):
    """The text with each run id replaced by the order of its first appearance."""
    seen = {}
    return re.sub(r"r_[0-9a-f]{12}", lambda m: f"r_{seen.setdefault(m[0], len(seen))}", text)


@pytest.mark.parametrize("title", EXECUTED)
def test_the_python_of_a_section_runs_and_prints_what_the_readme_says(title, tmp_path):
    _, outputs = execute(title, tmp_path)

    for expected, printed in outputs:
        want, got = without_ids(expected), without_ids(printed)
        same = doctest.OutputChecker().check_output(want, got, FLAGS)
        assert same, f"{title} prints:\n{printed}\nand the README says:\n{expected}"


def test_the_first_example_is_twenty_lines(tmp_path):
    (example,) = [f for f in SECTIONS["Twenty lines"] if f.language == "python"]

    assert len(example.text.splitlines()) <= 20


def test_there_is_an_example_of_every_override_and_each_runs(tmp_path):
    namespace, _ = execute("Your own application", tmp_path)

    forks = [eval(example, namespace) for example in FORKS]

    from rewind_nb._plan import KINDS

    assert [f.overrides[0].kind for f in forks] == list(KINDS)
    assert {f.status for f in forks} == {"complete"}


def test_a_readme_output_that_is_wrong_is_noticed(tmp_path):
    _, [(expected, printed)] = execute("Your own application", tmp_path)

    wrong = expected.replace("49.0", "48.0")

    assert not doctest.OutputChecker().check_output(wrong, printed, FLAGS)


# -- the README's commands -------------------------------------------------------------


def rewind_commands(text):
    """(command, options) of each `rewind ...` in code."""
    code = [f.text for fences in sections(text).values() for f in fences if f.language == "console"]
    code += re.findall(r"`(rewind [^`]*)`", text)
    for line in "\n".join(code).splitlines():
        found = re.search(r"(?:^|\s)rewind ([a-z]+)([^\n]*)", line)
        if found:
            yield found[1], re.findall(r"--[a-z]+", found[2])


NAMED = [
    (file, command, options)
    for file in ("README.md", ".env.example")
    for command, options in rewind_commands((ROOT / file).read_text(encoding="utf-8"))
]


def test_every_rewind_command_that_is_named_exists():
    assert {command for _, command, _ in NAMED} >= {"demo", "verify", "runs", "show", "diff"}
    for file, command, options in NAMED:
        assert command in main.commands, f"{file} names `rewind {command}`"
        known = [name for p in main.commands[command].params for name in p.opts]
        assert set(options) <= set(known), f"{file}: rewind {command} {options}"


def test_every_rewind_command_is_named():
    assert set(main.commands) <= {command for _, command, _ in NAMED}
    assert all(isinstance(c, click.Command) and c.help for c in main.commands.values())


def test_the_looking_commands_take_a_store():
    for name in ("runs", "show", "diff", "doctor"):
        assert "--store" in [opt for p in main.commands[name].params for opt in p.opts]


def test_ci_runs_the_install_and_the_test_command_of_the_readme():
    script = ROOT / ".ci" / "run"
    if not script.exists():
        pytest.skip("there is no .ci/run in this copy")
    commands = [f.text for f in SECTIONS["Install"] if f.language == "console"]
    install = next(line for text in commands for line in text.splitlines() if "pip install" in line)
    tests = next(line for text in commands for line in text.splitlines() if "pytest" in line)

    said = script.read_text(encoding="utf-8")

    assert install.partition("pip install")[2].strip().strip("'") in said
    assert tests.partition("python ")[2] in said


def test_every_extra_that_the_readme_installs_exists():
    known = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.findall(r"pip install -e '\.\[(\w+)\]'", README)

    assert set(named) == set(known["optional-dependencies"])
    assert any(need.startswith("jupyterlab") for need in known["optional-dependencies"]["notebook"])
    assert "jupyter lab notebooks/01_quickstart.ipynb" in README


# -- the README's tables ---------------------------------------------------------------


API = README.partition("## The API at a glance")[2].partition("\n## ")[0]


def test_every_public_name_is_in_the_api_table():
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]*)`", API))))

    assert set(rewind_nb.__all__) - named == {"RewindError", "StepFailure"}  # under "Errors"


def test_every_method_and_argument_in_the_api_table_exists():
    rewind = rewind_nb.Rewind
    for name, arguments in re.findall(r"`rw\.(\w+)(?:\(([^)`]*)\))?`", API):
        found = getattr(rewind, name, None) or name in ("store", "last_run")
        assert found, name
        known = set(inspect.signature(found).parameters) if arguments else set()
        assert set(re.findall(r"(\w+)=", arguments)) <= known, name


def members(row):
    """The names in one row of the table, after its first cell."""
    (line,) = [line for line in API.splitlines() if line.startswith(f"| `{row}")]
    cells = line.split(" | ", 1)[1].partition("; a `Change`")[0]
    return re.findall(r"(?<![\[\"\w])([a-z_0-9]+)(?:\([^)]*\))?`", cells)


@pytest.mark.parametrize("row", ["Run", "Step", "Call", "Artifact", "Proof", "Diff", "Store"])
def test_every_member_in_the_api_table_exists(row, tmp_path):
    namespace, _ = execute("Twenty lines", tmp_path)
    run, fork = namespace["run"], namespace["fork"]
    values = {
        "Run": run,
        "Step": run[0],
        "Call": run[0].calls[0],
        "Artifact": fork.artifacts[0],
        "Proof": namespace["proof"],
        "Diff": namespace["diff"],
        "Store": run.store,
    }

    missing = [name for name in members(row) if not hasattr(values[row], name)]

    assert not missing
    assert len(members(row)) >= 5


def test_the_tables_of_the_store_are_the_ones_in_the_readme():
    from rewind_nb._store._schema import metadata

    model = README.partition("## The data model")[2].partition("\n## ")[0]
    first_cells = re.findall(r"^\| (`[^|]*) \|", model, re.MULTILINE)
    named = re.findall(r"`(\w+)`", " ".join(first_cells))

    assert sorted(named) == sorted(metadata.tables)


def test_every_source_is_in_the_readme():
    from typing import get_args

    from rewind_nb._model import CACHE_MODES, Source

    calls = README.partition("## Calls and cache modes")[2].partition("\n## ")[0]

    _, *named = re.findall(r"^\| `([a-z-]+)` \|", calls, re.MULTILINE)  # the head of the table
    assert named == list(get_args(Source))
    assert re.findall(r'^\| `"([a-z]+)"` \|', calls, re.MULTILINE) == list(CACHE_MODES)


def test_every_error_that_the_readme_names_exists():
    named = set(re.findall(r"`(\w+Error|StepFailure)`", README))

    assert named
    assert named <= {*errors.__all__}


def test_every_link_and_file_of_the_readme_is_there():
    anchors = {
        re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).replace(" ", "-")
        for line in README.splitlines()
        if line.startswith("#")
    }

    assert set(re.findall(r"\]\(#([^)]*)\)", README)) <= anchors
    for name in re.findall(r"`((?:rewind_nb|notebooks|tests|data)/[\w./]+)`", README):
        assert (ROOT / name).exists(), name


# -- settings ----------------------------------------------------------------------------


def test_the_example_settings_document_every_variable_of_the_code():
    code = [file.read_text(encoding="utf-8") for file in (ROOT / "rewind_nb").rglob("*.py")]
    used = set(re.findall(r"\bREWIND_[A-Z][A-Z_]*[A-Z]\b", "\n".join(code)))
    text = (ROOT / ".env.example").read_text(encoding="utf-8")

    for name in used:
        assert re.search(rf"(?m)^# .+\n#{name}=$", text), f"{name} is not explained"
    assert set(re.findall(r"(?m)^#(\w+)=", text)) == used
    assert used <= set(re.findall(r"\bREWIND_\w+", README))


# -- docstrings --------------------------------------------------------------------------


MODULES = ["rewind_nb", *(m.name for m in pkgutil.walk_packages(rewind_nb.__path__, "rewind_nb."))]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_docstrings_are_right(name):
    module = importlib.import_module(name)

    assert module.__doc__
    assert doctest.testmod(module, optionflags=FLAGS | doctest.IGNORE_EXCEPTION_DETAIL).failed == 0


def parts(value):
    """The Google sections of a docstring: their titles, each with its text."""
    doc = inspect.getdoc(value) or ""
    pieces = re.split(r"(?m)^(Args|Returns|Raises|Yields|Attributes|Example):\n", doc)
    return pieces[0], dict(zip(pieces[1::2], pieces[2::2], strict=True))


def parameters(value):
    """The names a caller may pass, those of a class being its constructor's."""
    found = inspect.signature(value).parameters.values()
    return [p.name for p in found if p.name not in ("self", "facts", "function")]


# Values that the library hands out: nobody constructs them, so their parts are documented.
HANDED_OUT = {
    *("Artifact", "Call", "Change", "Diff", "Divergence", "Event", "Origin", "Proof", "Run"),
    *("Step", "Unresolved", "RewindError", "ChatReply", "VerifyReport", "WrittenArtifact"),
    *("Cost", "Verdict", "Experiment", "Grid", "Sweep", "Flip", "Bisect", "Ablate", "Regress"),
    "Stability",
}
MADE = sorted(set(rewind_nb.__all__) - HANDED_OUT)


@pytest.mark.parametrize("name", rewind_nb.__all__)
def test_a_public_name_says_in_a_sentence_what_it_is(name):
    summary, _ = parts(getattr(rewind_nb, name))

    assert summary.strip()
    assert re.match(r"[A-Z`].*?[.?](\s|$)", summary, re.DOTALL)


@pytest.mark.parametrize("name", [n for n in MADE if n not in ("Usage", "Override", "prices")])
def test_what_a_caller_may_pass_is_documented_and_shown(name):
    value = getattr(rewind_nb, name)
    _, found = parts(value)

    documented = set(re.findall(r"(?m)^    \**`?(\w+)`?:", found.get("Args", "")))

    assert documented >= (set(parameters(value)) - {"state"}), name
    assert ">>>" in found.get("Example", ""), name


METHODS = [
    (cls, name)
    for cls in ("Rewind", "Run", "Step", "Call", "Artifact", "Proof", "Diff", "Store", "ChatModel")
    for base in getattr(rewind_nb, cls).__mro__
    if base.__module__.startswith("rewind_nb")
    for name, value in vars(base).items()
    if not name.startswith("_") and (callable(value) or hasattr(value, "__get__"))
    if name not in getattr(getattr(rewind_nb, cls), "__dataclass_fields__", {})
]


@pytest.mark.parametrize(("cls", "name"), METHODS)
def test_a_public_method_says_what_it_does(cls, name):
    assert (getattr(getattr(rewind_nb, cls), name).__doc__ or "").strip()


def test_the_fields_of_a_proof_are_documented():
    _, found = parts(rewind_nb.Proof)

    for field in dataclasses.fields(rewind_nb.Proof):
        assert re.search(rf"(?m)^    {field.name}:", found["Attributes"]), field.name


# -- public names --------------------------------------------------------------------------


def test_all_is_sorted_and_complete():
    namespace = vars(rewind_nb)
    modules = {
        m.name.removeprefix("rewind_nb.").partition(".")[0]
        for m in pkgutil.iter_modules(rewind_nb.__path__)
    }
    own = {
        name
        for name, value in namespace.items()
        if not name.startswith("_") and getattr(value, "__module__", "").startswith("rewind_nb")
    }

    assert rewind_nb.__all__ == sorted(rewind_nb.__all__)
    assert len(set(rewind_nb.__all__)) == len(rewind_nb.__all__)
    assert own - modules - set(rewind_nb.__all__) == set()
    assert set(rewind_nb._LAZY) <= set(rewind_nb.__all__)
    for name in rewind_nb.__all__:
        assert getattr(rewind_nb, name) is not None
        assert name in dir(rewind_nb)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'Rewinder'"):
        rewind_nb.Rewinder  # noqa: B018


# -- the tree of errors --------------------------------------------------------------------


def drawn_tree():
    """{class: (parent, other bases)} as `errors.__doc__` draws it."""
    found, path = {}, []
    for line in errors.__doc__.splitlines():
        match = re.match(
            r"    ((?:│   |    )*)(?:├── |└── )?(\w+)(?: \((\w+)\))?(?:\s{2,}.*)?$", line
        )
        if not match or not hasattr(errors, match[2]):
            continue
        depth = 0 if "──" not in line else len(match[1]) // 4 + 1
        path[depth:] = [match[2]]
        found[match[2]] = (path[depth - 1] if depth else None, match[3])
    return found


def test_the_tree_of_errors_is_the_one_that_is_drawn():
    classes = {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.RewindError)
    }
    actual = {}
    for name, value in classes.items():
        ours = [b.__name__ for b in value.__bases__ if issubclass(b, errors.RewindError)]
        other = [b.__name__ for b in value.__bases__ if not issubclass(b, errors.RewindError)]
        actual[name] = (ours[0] if ours else None, other[0] if ours and other else None)

    assert drawn_tree() == actual
    assert sorted(classes) == sorted(set(errors.__all__))


# -- types ---------------------------------------------------------------------------------


def mypy(*arguments):
    """What mypy says of a file, with the options of `mypy` itself, whose cache it takes up."""
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "pyproject.toml", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
def test_the_public_functions_keep_their_typed_signatures():
    checked = mypy("tests/typing_api.py")
    told = checked.stdout.splitlines()

    assert checked.returncode < 2, checked.stdout + checked.stderr  # 2: it could not look
    assert [line for line in told if line.startswith("tests/")] == []  # elsewhere: `mypy` itself


def test_a_signature_that_lost_its_types_is_noticed(tmp_path):
    text = (ROOT / "tests" / "typing_api.py").read_text(encoding="utf-8")
    untyped = "tool: Any = None\n\n# -- @tool keeps"
    assert text.count("# -- @tool keeps") == 1
    changed = tmp_path / "untyped.py"
    changed.write_text(
        text.replace("    tool,\n", "").replace("# -- @tool keeps", untyped), encoding="utf-8"
    )

    checked = mypy(str(changed))

    assert 'Unused "type: ignore" comment' in checked.stdout
