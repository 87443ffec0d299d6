"""The code fingerprint: what changes it, what does not, and what it must not touch."""

from __future__ import annotations

import functools
import importlib
import json
import os
import subprocess
import sys
import types
import warnings
from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewind_nb._code import explain, fingerprint
from rewind_nb._code._source import code_facts
from rewind_nb._code._value import constant
from rewind_nb.errors import NotEncodableError

MODULES = ("actions", "helpers", "deeper", "vendor", "pkg", "pkg.tool")


def forget():
    for name in MODULES:
        sys.modules.pop(name, None)
    importlib.invalidate_caches()


class Lab:
    """Writes modules into a fresh folder each time and imports them anew."""

    def __init__(self, folder):
        self.folder, self.made = folder, []

    def load(self, text, where="", **others):
        root = self.folder / f"v{len(self.made)}"
        (root / where).mkdir(parents=True)
        for name, body in {"actions": text, **others}.items():
            home = root / where if name == "vendor" else root
            (home / f"{name}.py").parent.mkdir(exist_ok=True)
            (home / f"{name}.py").write_text(dedent(body))
        self.made += [str(root), str(root / where)]
        forget()
        sys.path[:0] = self.made[-2:]
        try:
            return importlib.import_module("actions")
        finally:
            del sys.path[:2]

    def __call__(self, text, target="act", where="", bound=None, encode=None, **others):
        module = self.load(text, where, **others)
        sys.path[:0] = self.made[-2:]  # for modules imported inside functions
        try:
            return fingerprint(getattr(module, target), bound=bound, encode=encode)
        finally:
            del sys.path[:2]


@pytest.fixture
def lab(tmp_path):
    yield Lab(tmp_path)
    forget()


def said(before, after):
    return explain(before.parts, after.parts, before.containers, after.containers)


def plain(value):
    try:
        return json.dumps(value).encode()
    except (TypeError, ValueError) as error:
        raise NotEncodableError(str(error)) from None


BASE = """
    import helpers
    RATE = 3
    def act(state, scale=2, *, unit="kg"):
        '''What it does.'''
        return helpers.clean(state) * scale * RATE
"""
HELPERS = """
    import deeper
    def clean(x):
        return deeper.strip(x)
"""
DEEPER = """
    def strip(x):
        return x + 1
    def unused(x):
        return x
"""

# -- the body --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        BASE.replace("return", "# a comment\n        return"),
        BASE.replace("import helpers", "import helpers\n\n\n"),
        BASE.replace("scale * RATE", "(scale) \\\n            * RATE"),
        BASE.replace("What it does.", "What it does, in other words."),
        BASE.replace("'''What it does.'''", ""),
        BASE.replace('"kg"', "'kg'"),
        BASE + "    def another(): return 1\n",
    ],
    ids=["comment", "lines", "layout", "docstring", "no-docstring", "quotes", "unrelated"],
)
def test_comments_layout_and_unrelated_code_do_not_count(lab, text):
    parts = {"helpers": HELPERS, "deeper": DEEPER}
    assert lab(text, **parts).digest == lab(BASE, **parts).digest


@pytest.mark.parametrize(
    ("text", "helpers", "deeper", "what"),
    [
        (BASE.replace("scale * RATE", "scale + RATE"), HELPERS, DEEPER, "its text changed"),
        (
            BASE.replace("scale=2", "scale=4"),
            HELPERS,
            DEEPER,
            "default scale changed 2 -> 4; its text changed",
        ),
        (BASE.replace('"kg"', '"lb"'), HELPERS, DEEPER, "default unit changed; its text changed"),
        (BASE.replace("RATE = 3", "RATE = 4"), HELPERS, DEEPER, "global RATE changed 3 -> 4"),
        (BASE.replace("RATE = 3", "RATE = 3.0"), HELPERS, DEEPER, "global RATE changed 3 -> 3.0"),
        (BASE.replace("RATE = 3", "RATE = True"), HELPERS, DEEPER, "global RATE changed 3 -> True"),
        (BASE, HELPERS.replace("(x)\n", "(x) or None\n"), DEEPER, "function helpers.clean changed"),
        (BASE, HELPERS, DEEPER.replace("x + 1", "x + 2"), "function deeper.strip changed"),
    ],
    ids=["body", "default", "keyword", "constant", "type", "bool", "helper", "two-deep"],
)
def test_a_change_of_what_the_code_does_counts_and_is_named(lab, text, helpers, deeper, what):
    before = lab(BASE, helpers=HELPERS, deeper=DEEPER)
    after = lab(text, helpers=helpers, deeper=deeper)
    assert after.digest != before.digest
    assert said(before, after) == what


def test_a_helper_or_class_that_is_new_or_gone_is_named_with_what_refers_to_it(lab):
    before = lab(BASE, helpers=HELPERS, deeper=DEEPER)
    after = lab(BASE, helpers="def clean(x): return x", deeper=DEEPER)
    assert said(before, after) == "function helpers.clean changed; function deeper.strip is gone"
    assert said(after, before) == "function helpers.clean changed; function deeper.strip is new"


def test_what_a_class_or_an_object_of_another_type_changed_is_named(lab):
    text = """
        class Limits:
            most = 5
            def holds(self, x): return x < self.most
        class Other: pass
        limits = Limits()
        def act(x): return Limits().holds(x), limits
    """
    before = lab(text)
    assert said(before, lab(text.replace("5", "6"))) == "class Limits.most changed 5 -> 6"
    assert said(before, lab(text.replace("<", ">"))) == "function Limits.holds changed"
    assert said(before, lab(text.replace("class Limits", "class Limits(dict)"))) == (
        "class Limits changed"
    )
    assert said(before, lab(text.replace("limits = Limits", "limits = object"))) == (
        "global limits changed"
    )


def test_only_numbers_are_kept_of_what_constants_say(lab):
    text = """
        KEY, COUNT, LONG, NONE = "sk-not-registered", 3, 123456789, None
        def act(x): return KEY, COUNT, LONG, NONE
    """
    kept = lab(text).parts
    assert {name: text for name, text in kept.items() if not text.startswith("#")} == {
        "global COUNT": "3",
        "global NONE": "None",
    }


def test_a_function_that_nobody_calls_does_not_count(lab):
    other = DEEPER.replace("return x\n", "return -x\n")
    before = lab(BASE, helpers=HELPERS, deeper=DEEPER)
    assert lab(BASE, helpers=HELPERS, deeper=other).digest == before.digest
    assert before.followed == ("actions.act", "deeper.strip", "helpers.clean")


def test_the_change_is_explained_by_the_name_of_what_changed(lab):
    before = lab(BASE, helpers=HELPERS, deeper=DEEPER)
    after = lab(BASE, helpers=HELPERS, deeper=DEEPER.replace("+ 1", "+ 2"))
    assert said(before, after) == "function deeper.strip changed"
    assert said(before, before) == ""


def test_decorators_and_annotations_count_although_the_code_object_lacks_them(lab):
    text = """
        def mark(word): return lambda f: f
        class Query: limit = 1
        @mark("a")
        def act(state: Query): return state
    """
    before = lab(text)
    assert lab(text.replace('"a"', '"b"')).digest != before.digest
    assert lab(text.replace("limit = 1", "limit = 2")).digest != before.digest
    assert lab(text.replace("state: Query", "state: 'Query'")).digest != before.digest


def test_a_decorated_function_counts_with_its_wrapper(lab):
    text = """
        import functools
        def twice(f):
            @functools.wraps(f)
            def wrapper(x): return f(f(x))
            return wrapper
        @twice
        def act(x): return x + 1
        @functools.lru_cache
        def cached(x): return x + 1
    """
    assert lab(text).digest != lab(text.replace("f(f(x))", "f(x)")).digest
    assert lab(text).digest != lab(text.replace("act(x): return x + 1", "act(x): return x")).digest
    changed = text.replace("cached(x): return x + 1", "cached(x): return x")
    assert lab(text, "cached").digest != lab(changed, "cached").digest


def test_code_without_source_counts_by_its_code_object():
    def made(text):
        scope = {}
        exec(text, scope)
        return fingerprint(scope["f"])

    one = made("def f(x):\n    'doc'\n    def g(): return x + 1\n    return g")
    assert made("\n\ndef f(x):\n    def g(): return x + 1  # why\n    return g") == one
    assert made("def f(x):\n    def g(): return x + 2\n    return g").digest != one.digest


def test_lambdas_on_one_line_are_told_apart():
    one, two, same = (lambda x: x + 1), (lambda x: x + 2), (lambda x: x + 1)
    assert fingerprint(one).digest != fingerprint(two).digest
    assert fingerprint(one).digest == fingerprint(same).digest


def test_a_file_edited_after_its_import_does_not_lend_its_text(lab, tmp_path):
    module = lab.load("def act(x): return x + 1")
    before = fingerprint(module.act)
    path = Path(module.__file__)
    path.write_text("# moved\n\ndef act(x): return x + 2\n")
    fresh = types.FunctionType(module.act.__code__.replace(co_name="act"), vars(module))
    assert fingerprint(module.act) == before
    edited = lab("# moved\n\ndef act(x): return x + 2\n")
    assert fingerprint(fresh).digest != edited.digest


def test_a_file_whose_lines_moved_after_its_import_still_lends_its_text(lab):
    module = lab.load("def act(x): return x + 1")
    Path(module.__file__).write_text("# a comment\n\ndef act(x): return x + 1\n")
    assert fingerprint(module.act).digest == lab("def act(x): return x + 1").digest


def test_a_text_that_python_warns_about_is_read_without_another_warning(lab):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = lab.load("def act(x): return x, '\\d'  # one")
        other = lab.load("def act(x):\n    return (x, '\\d')")
    assert code_facts(module.act.__code__).body[0] == "source"
    assert fingerprint(module.act).digest == fingerprint(other.act).digest


def test_a_reloaded_file_counts_with_its_new_text(lab):
    module = lab.load("def mark(w): return lambda f: f\n@mark('a')\ndef act(x): return x\n")
    before = fingerprint(module.act)
    text = "def mark(w): return lambda f: f\n@mark('b')\ndef act(x): return x\n"
    exec(compile(text, module.__file__, "exec"), vars(module))
    Path(module.__file__).write_text(text)
    assert fingerprint(module.act).digest != before.digest


# -- closures, defaults, bound parameters ----------------------------------------------


def test_a_closure_constant_counts(lab):
    text = """
        def make(factor, names):
            def inner(x): return x * factor if x in names else helper(x)
            return inner
        def helper(x): return x
        act = make({}, ("a", None))
    """
    assert lab(text.format(2)).digest == lab(text.format(2)).digest
    assert lab(text.format(2)).digest != lab(text.format(3)).digest
    assert lab(text.format(2)).digest != lab(text.format(2).replace("None", "'b'")).digest


def test_bound_parameters_and_partial_arguments_count(lab):
    text = """
        import functools
        def base(state, prompt, n=1): return prompt
        act = functools.partial(base, prompt={})
    """
    assert lab(text.format("'a'")).digest != lab(text.format("'b'")).digest
    one, two = (lab(text, "base", bound={"prompt": p}).digest for p in ("a", "b"))
    assert len({one, two, lab(text, "base").digest}) == 3


def test_a_bound_client_is_hidden_state_by_its_type(lab):
    text = "import threading\ndef act(state, client): return client"
    found = lab(text, bound={"client": threading_event()})
    assert found.hidden_state == ("bound client: threading.Event",)
    assert lab(text, bound={"client": threading_event()}) == found


def threading_event():
    import threading

    return threading.Event()


# -- classes ---------------------------------------------------------------------------

CLASSES = """
    from dataclasses import dataclass, field
    from enum import Enum
    class Mode(Enum):
        FAST = 1
    class Root:
        def describe(self): return "root"
    @dataclass
    class Conf(Root):
        '''A prompt.'''
        size: int = 3
        tags: list = field(default_factory=lambda: ["a"])
        limit = 10
        def run(self): return self.describe()
        @property
        def half(self): return self.size / 2
        @staticmethod
        def double(x): return x * 2
    def act(state):
        return Conf(state).run(), Mode.FAST
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.describe()", "self.describe() + 'x'"),
        ('"root"', '"base"'),
        ("self.size / 2", "self.size / 3"),
        ("x * 2", "x * 3"),
        ("size: int = 3", "size: int = 4"),
        ("size: int = 3", "size: float = 3"),
        ("limit = 10", "limit = 11"),
        ('["a"]', '["b"]'),
        ("A prompt.", "Another prompt."),
        ("FAST = 1", "FAST = 2"),
        ("@dataclass\n", "@dataclass(frozen=True)\n"),
    ],
)
def test_a_change_of_a_class_that_the_code_uses_counts(lab, old, new):
    assert lab(CLASSES.replace(old, new)).digest != lab(CLASSES).digest


def test_a_changed_pydantic_field_counts_without_any_method(lab):
    text = """
        from __future__ import annotations
        from typing import Annotated
        import annotated_types
        from pydantic import BaseModel, Field
        class Item(BaseModel):
            price: float = Field(default=1.0, gt=0, description="net")
        class Report(BaseModel):
            items: list[Item]
            size: Annotated[int, annotated_types.Ge(1)] = 1
        def act(state): return Report
    """
    before = lab(text)
    assert before.followed == ("actions.Item", "actions.Report", "actions.act")
    assert before.hidden_state == ()
    for old, new in [("gt=0", "gt=1"), ("net", "gross"), ("Ge(1)", "Ge(2)"), ("1.0", "2.0")]:
        assert lab(text.replace(old, new)).digest != before.digest, old
    assert lab(text) == before


def test_annotations_of_a_class_count_and_are_followed(lab):
    text = """
        class Item:
            size = 1
        class Report:
            first: "Item"
            total: int
        def act(state): return Report
    """
    before = lab(text)
    assert "actions.Item" in before.followed
    assert lab(text.replace("size = 1", "size = 2")).digest != before.digest
    assert lab(text.replace("total: int", "total: float")).digest != before.digest


def test_a_class_constant_is_one_although_instances_set_their_own(lab):
    text = """
        class Tool:
            limit = 3
            calls = 0
            def __init__(self, limit=None): self.limit = limit or self.limit
            def run(self): Tool.calls += 1
        def act(x): return Tool().run()
    """
    before = lab(text)
    assert list(before.containers) == ["class Tool.calls"]
    assert lab(text.replace("limit = 3", "limit = 4")).digest != before.digest
    assert lab(text.replace("calls = 0", "calls = 4")).digest == before.digest


def test_a_class_made_inside_a_function_is_followed(lab):
    text = """
        def make():
            class Local:
                def run(self): return 1
            def inner(x): return Local().run()
            return inner
        act = make()
    """
    assert lab(text).followed == ("actions.make.<locals>.Local",) + (
        "actions.make.<locals>.Local.run",
        "actions.make.<locals>.inner",
    )
    assert lab(text).digest != lab(text.replace("return 1", "return 2")).digest


def test_a_method_that_was_patched_counts_as_what_it_is_now(lab):
    text = """
        class Tool:
            def run(self): return 1
        def act(x): return Tool().run()
    """
    module = lab.load(text)
    before = fingerprint(module.act)
    module.Tool.run = lambda self: 2
    assert fingerprint(module.act).digest != before.digest


def test_a_class_a_method_and_a_callable_instance_are_targets_too(lab):
    text = """
        class Step:
            def __init__(self, prompt, client): self.prompt, self.client = prompt, client
            def __call__(self, state): return state, self.prompt
            def run(self, state): return self(state)
        def act(x): return x
        instance = Step("a", Step("b", None))
        method = instance.run
    """
    changed = text.replace("state, self.prompt", "self.prompt")
    for target in ("Step", "instance", "method"):
        assert lab(text, target).digest != lab(changed, target).digest, target
        assert "actions.Step" in lab(text, target).followed
    found = lab(text, "method")
    assert found.hidden_state == ("self.client: actions.Step",)
    other = lab(text.replace('Step("a"', 'Step("c"'), "method")
    assert other.digest == found.digest  # an attribute may change at any time ...
    assert other.digest_with(["self.prompt"]) != found.digest_with(["self.prompt"])  # ... or not


# -- what may change while the code runs -----------------------------------------------


def test_a_mutable_container_is_listed_with_its_content(lab):
    text = """
        LIMITS = {"total": 5}
        def act(x): return x < LIMITS["total"]
    """
    before, after = lab(text), lab(text.replace("5", "6"))
    assert list(before.containers) == ["global LIMITS"]
    assert before.hidden_state == ()
    assert before.digest == after.digest
    assert before.containers != after.containers
    assert before.digest_with(["global LIMITS"]) != after.digest_with(["global LIMITS"])
    assert before.digest_with([]) == after.digest_with([]) == before.digest
    assert said(before, after) == "the content of global LIMITS differs"


def test_what_the_given_encoding_accepts_counts_by_content(lab):
    text = """
        class Table:
            rows = 0
        TABLE = Table()
        def act(x): return TABLE
    """

    def encode(value):
        if type(value).__name__ == "Table":
            return str(vars(value)).encode()
        return plain(value)

    module = lab.load(text)
    assert fingerprint(module.act).hidden_state == ("global TABLE: actions.Table",)
    before = fingerprint(module.act, encode=encode)
    module.TABLE.rows = 3
    after = fingerprint(module.act, encode=encode)
    assert before.hidden_state == ()
    assert before.containers != after.containers


def test_a_container_of_functions_is_followed(lab):
    text = """
        def search(x): return x
        TOOLS = {"search": search}
        def act(x): return TOOLS[x]
    """
    before = lab(text, encode=plain)
    after = lab(text.replace("return x\n        TOOLS", "return -x\n        TOOLS"), encode=plain)
    assert "actions.search" in before.followed
    assert set(before.containers) == {"global TOOLS"}
    assert before.containers["global TOOLS"] != after.containers["global TOOLS"]


def test_a_tuple_of_functions_and_enum_members_is_a_constant(lab):
    text = """
        from enum import Enum
        class Mode(Enum):
            A = 1
        def search(x): return x
        ORDER = (search, len, Mode.A)
        def act(x): return ORDER
    """
    assert lab(text).containers == {}
    assert lab(text).digest != lab(text.replace("return x\n", "return -x\n")).digest
    assert lab(text).digest != lab(text.replace("A = 1", "A = 2")).digest
    assert lab(text).digest != lab(text.replace("(search, len", "(len, search")).digest


def test_a_container_with_something_opaque_is_hidden_state(lab):
    text = "import threading\nCACHE = {1: threading.Event()}\ndef act(x): return CACHE"
    assert lab(text, encode=plain).hidden_state == ("global CACHE: dict",)


def test_a_container_that_holds_itself_ends(lab):
    text = "LOOP = [1]\nLOOP.extend([LOOP, LOOP])\ndef act(x): return LOOP"
    assert lab(text, encode=plain).containers == lab(text, encode=plain).containers


def test_an_instance_is_hidden_state_and_its_class_is_followed(lab):
    text = """
        class Client:
            def __init__(self): self.calls = 0
            def ask(self): return 1
        client = Client()
        def act(x): return client.ask()
    """
    module = lab.load(text)
    before = fingerprint(module.act)
    assert before.hidden_state == ("global client: actions.Client",)
    module.client.calls = 9
    assert fingerprint(module.act) == before
    assert lab(text.replace("return 1", "return 2")).digest != before.digest


def test_the_environment_is_hidden_state_and_a_module_of_functions_is_not(lab):
    text = """
        import os, json, logging, math
        log = logging.getLogger("x")
        def act(x):
            log.info(math.pi)
            return json.dumps(os.environ.get("X")), os.path.join("a", "b"), print, len(x)
    """
    assert lab(text).hidden_state == ("global os.environ: os._Environ",)


@pytest.mark.parametrize(
    "text",
    [
        """
        client = None
        def get():
            global client
            client = client or object()
            return client
        def act(x): return get()
        """,
        """
        client = None
        def act(x): return client
        def elsewhere():
            global client
            client = object()
        get = elsewhere
        """,
        """
        client = None
        class Setup:
            @classmethod
            def run(cls):
                global client
                client = object()
        def act(x): return client
        get = Setup.run
        """,
    ],
    ids=["lazy", "another function", "a method"],
)
def test_a_global_that_code_rebinds_is_no_constant(lab, text):
    module = lab.load(text)
    before = fingerprint(module.act)
    module.get()
    after = fingerprint(module.act)
    assert before.digest == after.digest
    assert before.containers["global client"] != after.containers["global client"]
    assert after.hidden_state == ("global client: object",)


def test_a_closure_counter_is_no_constant():
    def make():
        n = 0

        def bump():
            nonlocal n
            n += 1

        def act():
            bump()
            return n

        return act, bump

    act, bump = make()
    before = [fingerprint(f) for f in (act, bump)]
    act()
    after = [fingerprint(f) for f in (act, bump)]
    assert [f.digest for f in before] == [f.digest for f in after]
    assert before[0].containers["closure n"] != after[0].containers["closure n"]


# -- whose code is followed ------------------------------------------------------------

VENDOR = """
    def clean(x): return x
    def retry(times):
        def decorate(f):
            def wrapper(x): return [f(x) for _ in range(times)]
            return wrapper
        return decorate
    class Tool:
        def __init__(self, f): self.f = f
"""


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages"])
def test_code_in_site_packages_counts_by_name_only(lab, folder):
    text = "import vendor\ndef act(x): return vendor.clean(x)"
    changed = VENDOR.replace("clean(x): return x", "clean(x): return -x")
    before = lab(text, where=f"lib/{folder}", vendor=VENDOR)
    assert lab(text, where=f"lib/{folder}", vendor=changed) == before
    assert before.followed == ("actions.act",)
    assert lab(text, where="own", vendor=VENDOR).followed == ("actions.act", "vendor.clean")


def test_what_other_peoples_wrappers_hold_is_followed(lab):
    text = """
        import vendor
        def search(x): return x
        retried = vendor.retry(3)(search)
        tool = vendor.Tool(search)
        def act(x): return retried(x)
        def use(x): return tool
    """
    changed = text.replace("return x\n", "return -x\n", 1)
    where = {"where": "site-packages", "vendor": VENDOR}
    for target in ("act", "use"):
        assert lab(text, target, **where).digest != lab(changed, target, **where).digest
    assert lab(text, **where).digest != lab(text.replace("(3)", "(4)"), **where).digest
    marked = (
        text
        + "    vendor.clean.__wrapped__ = search\n        clean = vendor.clean\n        def see(x): return clean\n"
    )
    assert "actions.search" in lab(marked, **where, target="see").followed
    assert lab(text, "use", **where).hidden_state == ("global tool: vendor.Tool",)


def test_a_module_imported_inside_the_function_counts_before_and_after_it_is_loaded(lab):
    text = """
        def act(x):
            from helpers import clean
            return clean(x)
    """
    before = lab(text, helpers=HELPERS, deeper=DEEPER)
    assert "helpers" not in sys.modules
    assert before.followed == ("actions.act", "deeper", "helpers")
    module = lab.load(text + "    import helpers\n", helpers=HELPERS, deeper=DEEPER)
    sys.path[:0] = lab.made[-2:]
    assert fingerprint(module.act).digest == before.digest
    del sys.path[:2]
    after = lab(text, helpers=HELPERS, deeper=DEEPER.replace("+ 1", "+ 2"))
    assert said(before, after) == "module deeper changed"
    assert after.digest != before.digest


def test_a_module_of_a_package_imported_inside_the_function_counts(lab):
    text = """
        def act(x):
            from pkg import tool
            return tool.run(x)
    """
    before = lab(text, **{"pkg/tool": "def run(x): return 1"})
    assert before.followed == ("actions.act", "pkg.tool")
    assert lab(text, **{"pkg/tool": "def run(x): return 2"}).digest != before.digest


def test_functions_that_call_each_other_end(lab):
    text = """
        def act(x): return other(x)
        def other(x): return act(x) if x else Node
        class Node:
            child = None
            def visit(self): return other(self), Node
        Node.child = Node
    """
    before = lab(text)
    assert before.followed == ("actions.Node", "actions.Node.visit", "actions.act", "actions.other")
    assert lab(text.replace("if x else", "if not x else")).digest != before.digest


def test_a_chain_of_a_thousand_helpers_is_followed_to_its_end(lab):
    text = "def act(x): return f0(x)\n"
    text += "".join(f"def f{n}(x): return f{n + 1}(x)\n" for n in range(1000))
    last = "def f1000(x): return {}\n"
    assert lab(text + last.format(1)).digest != lab(text + last.format(2)).digest


def test_a_function_with_very_many_names_is_followed(lab):
    names = "".join(f"    x.a{n}\n" for n in range(300))
    text = "import helpers\ndef act(x):\n" + names + "    return helpers.clean(x)\n"
    found = lab(text, helpers=HELPERS, deeper=DEEPER)
    assert found.followed == ("actions.act", "deeper.strip", "helpers.clean")
    assert found.hidden_state == ()


def test_no_code_of_the_users_is_executed(lab):
    text = """
        import types
        class Lazy(types.ModuleType):
            def __getattribute__(self, name): raise SystemError(name)
        lazy = Lazy("lazy")
        class Meta(type):
            def __getattribute__(cls, name): raise SystemError(name)
        class Touchy:
            def __getattribute__(self, name): raise SystemError(name)
            @property
            def __class__(self): raise SystemError
            def __eq__(self, other): raise SystemError
            def __hash__(self): raise SystemError
            def __bool__(self): raise SystemError
            def __repr__(self): raise SystemError
            def __call__(self): raise SystemError
        class Odd(metaclass=Meta): pass
        touchy = Touchy()
        def __getattr__(name): raise SystemError(name)
        import actions
        def act(x): return touchy, Odd, actions.missing, [touchy.a.b], lazy.x
    """
    found = lab(text)
    assert found.hidden_state == ("global touchy: actions.Touchy",)
    assert lab(text, bound={"touchy": lab.load(text).touchy})
    assert lab(text, "touchy").followed[0] == "actions.Touchy"


@pytest.mark.parametrize(
    "target",
    [len, str.upper, "".join, [].append, dict.fromkeys, (1).__add__, print, type, object, None, 5]
    + [functools.partial(print, 1), functools.lru_cache(len), list[int], int | None, sys, range],
    ids=lambda target: type(target).__name__,
)
def test_anything_has_a_fingerprint(target):
    assert fingerprint(target).digest == fingerprint(target).digest


# -- what it must not depend on --------------------------------------------------------

SCRIPT = """
    import sys
    sys.path.insert(0, sys.argv[1])
    if len(sys.argv) > 2: import helpers
    import actions
    from rewind_nb._code import fingerprint
    f = fingerprint(actions.act)
    print(f.digest, f.hidden_state, f.containers, f.parts)
"""
BROAD = """
    import helpers
    from enum import Enum
    Mode = Enum("Mode", "A B C D")
    MODES = frozenset(Mode)
    NAMES = frozenset({"a", "b", "c", "d"})
    TOOLS = {len, helpers.clean, print}
    class Thing:
        size: int = 3
        def run(self, x): return x in {"p", "q", "r"}
    thing = Thing()
    def act(x, key=lambda v: v): return helpers.clean(x), NAMES, MODES, TOOLS, thing, Thing().run(x)
"""


def test_folder_process_hash_seed_and_import_order_do_not_count(lab, tmp_path):
    (tmp_path / "script.py").write_text(dedent(SCRIPT))
    outputs = set()
    for seed, name, *more in [("1", "a"), ("2", "b/c"), ("3", "a", "first")]:
        folder = tmp_path / name
        folder.mkdir(parents=True, exist_ok=True)
        for module, text in {"actions": BROAD, "helpers": HELPERS, "deeper": DEEPER}.items():
            (folder / f"{module}.py").write_text(dedent(text))
        root = str(Path(__file__).parent.parent)
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root}
        command = [sys.executable, str(tmp_path / "script.py"), str(folder), *more]
        done = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert str(tmp_path) not in outputs.pop()


NOTEBOOK = """
    import json, os, sys
    os.environ["IPYTHONDIR"] = sys.argv[1]
    from IPython.core.interactiveshell import InteractiveShell
    from rewind_nb._code import fingerprint
    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False
    cell = (
        "from dataclasses import dataclass\\n"
        "@dataclass\\n"
        "class Conf:\\n    size: int = 3\\n"
        "def helper(x): return x + 1\\n"
        "def act(x):\\n    'doc'\\n    return helper(x), Conf\\n"
        "import asyncio\\n"
        "await asyncio.sleep(0)\\n"
    )
    versions = [cell, cell, "# why\\n" + cell, cell.replace("x + 1", "x + 2")]
    versions += [cell.replace("size: int = 3", "size: int = 4"), cell]
    prints = []
    for version in versions:
        shell.run_cell(version, store_history=True).raise_error()
        found = fingerprint(shell.user_ns["act"])
        prints.append([found.digest, found.followed])
    from rewind_nb._code._source import code_facts
    print(json.dumps([prints, code_facts(shell.user_ns["act"].__code__).body[0]]))
"""


def test_a_redefined_cell_counts_by_its_new_text(tmp_path):
    (tmp_path / "notebook.py").write_text(dedent(NOTEBOOK))
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    command = [sys.executable, str(tmp_path / "notebook.py"), str(tmp_path)]
    done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    prints, kind = json.loads(done.stdout.splitlines()[-1])
    first, again, commented, body, field, back = (p[0] for p in prints)
    assert kind == "source"
    assert prints[0][1] == ["__main__.Conf", "__main__.act", "__main__.helper"]
    assert first == again == commented == back
    assert len({first, body, field}) == 3


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=8,
)


def exact(value):
    if isinstance(value, tuple):
        return ("tuple", *map(exact, value))
    return type(value).__name__, repr(value)


@given(values, values)
def test_two_constants_have_one_text_exactly_when_they_are_the_same(one, two):
    assert (constant(one) == constant(two)) == (exact(one) == exact(two))
