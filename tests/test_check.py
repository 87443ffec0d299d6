"""Checks: a small language that is parsed, never evaluated, with pass, fail and error apart."""

import enum
import math
from dataclasses import dataclass, field
from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from toy_runs import RECORDERS

from rewind_nb import Check, Secret, Verdict
from rewind_nb._check._parse import parse
from rewind_nb._check._tree import And, Compare, Not, Or, both, either, write
from rewind_nb._model import ErrorInfo, Usage
from rewind_nb._path import Root
from rewind_nb.errors import CheckSyntaxError, ConfigError, RewindError


def step(action="write", status="complete", error=None, result=None, **writes):
    return SimpleNamespace(action=action, status=status, error=error, result=result, writes=writes)


@dataclass
class FakeRun:
    """What a check reads of a run, without a store."""

    state: dict = field(default_factory=dict)
    status: str = "complete"
    steps: tuple = ()
    usage: object = None
    actions: tuple = ("search", "book", "write")

    @property
    def graph_description(self):
        return {"actions": [{"name": name} for name in self.actions]}


def says(expression, run=None, **state):
    return Check(expression)(run or FakeRun(state)).outcome


@dataclass
class Report:
    total: float
    tags: list


class Colour(enum.StrEnum):
    RED = "red"


# -- what passes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "outcome"),
    [
        ("report.total > 100", "fail"),
        ("report.total >= 98", "pass"),
        ("report.total < 98.5", "pass"),
        ("report.total <= 97", "fail"),
        ("report.total == 98", "pass"),
        ("report.total == 98.0", "pass"),
        ("report.total != 98", "fail"),
        ("output contains 'confirmed'", "pass"),
        ("output not contains 'cancelled'", "pass"),
        (r"output matches '^\w+ is confirmed: \d{3}$'", "pass"),
        ("output not matches 'confirmed'", "fail"),
        ("report.tags contains 'b'", "pass"),
        ("report.tags contains 'B'", "fail"),
        ("report contains 'total'", "pass"),
        ("report.tags == ['a', 'b']", "pass"),
        ("report.tags[1] in ['a', 'b']", "pass"),
        ("report.tags[1] not in ['a', 'b']", "fail"),
        ("report.tags in []", "fail"),
        ('report["a.b"] == null', "pass"),
        ("report.total == null", "fail"),
        ("report.total != null", "pass"),
        ('report["a.b"] in [1, null]', "pass"),
        ("ok == true", "pass"),
        ("ok == False", "fail"),
        ("report.other is missing", "pass"),
        ("report.total is missing", "fail"),
        ("report.tags[2] exists", "fail"),
        ('report["a.b"] exists', "pass"),
        ("nothing is missing", "pass"),
        ("output contains 'x' or report.total > 1 and not ok == false", "pass"),
        ("(output contains 'x' or report.total > 1) and ok == false", "fail"),
        ("not not ok == true", "pass"),
        ("name < 'c'", "pass"),
        ("name >= 'c'", "fail"),
    ],
)
def test_an_expression_says_what_it_reads_like(expression, outcome):
    state = {
        "output": "Order is confirmed: 123",
        "report": {"total": 98, "tags": ["a", "b"], "a.b": None},
        "ok": True,
        "name": "bee",
    }

    assert Check(expression)(FakeRun(state)).outcome == outcome


def test_a_field_may_be_inside_any_value_that_a_diff_looks_into():
    state = {"report": Report(5.0, ["x"]), "pair": (1, 2), "counts": {1: "one", "a": 2}}

    assert says("report.total == 5", **state) == "pass"
    assert says("report.tags[0] == 'x'", **state) == "pass"
    assert says("pair == [1, 2]", **state) == "pass"
    assert says('counts["1"] == "one"', **state) == "pass"


def test_values_of_numpy_and_kin_are_the_numbers_they_stand_for():
    state = {"n": np.int64(3), "x": np.float32(0.5), "yes": np.bool_(True), "d": Decimal("2.50")}

    assert says("n == 3 and x <= 0.5 and yes == true and d == 2.5", **state) == "pass"
    assert says("colour == 'red'", colour=Colour.RED) == "pass"


def test_true_is_not_one_and_one_is_one_point_zero():
    assert says("x == 1", x=True) == "error"
    assert says("x == true", x=1) == "error"
    assert says("x in [1, 2]", x=True) == "error"
    assert says("x contains 1", x=[True]) == "fail"
    assert says("x == 1.0", x=1) == "pass"


# -- errors are kept apart -----------------------------------------------------------------


def test_a_field_that_is_missing_is_an_error_that_names_its_like():
    verdict = Check("report.totl > 100")(FakeRun({"report": {"total": 98}}))

    assert verdict.outcome == "error"
    assert verdict.reason == (
        "report.totl is missing (report has no 'totl'). Did you mean 'total'?"
    )
    first = Check("reprt.total > 100")(FakeRun({"report": {"total": 98}}))
    assert first.reason == "reprt.total is missing. Did you mean 'report'?"


@pytest.mark.parametrize(
    ("expression", "value", "reason"),
    [
        ("x > 100", "98", "x is '98', a text, and cannot be compared with 100, a number"),
        ("x == '98'", 98, "x is 98, a number, and cannot be compared with '98', a text"),
        ("x < 'b'", None, "x is None, null, and cannot be compared with 'b', a text"),
        ("x in ['a']", 3, "x is 3, a number, and cannot be compared with 'a', a text"),
        ("x contains 1", "1", "x is '1', a text, and cannot be compared with 1, a number"),
        ("x contains 'a'", 5, "x is 5, a number, which contains nothing"),
        ("x matches 'a'", ["a"], "x is ['a'], a list, and only a text matches"),
        ("x == 'a'", b"a", "x is b'a', of type bytes, and cannot be compared with 'a', a text"),
    ],
)
def test_what_cannot_be_compared_is_an_error_with_both_sides(expression, value, reason):
    assert Check(expression)(FakeRun({"x": value})) == Verdict("error", reason)


def test_nan_is_neither_more_nor_less():
    nan = math.nan

    assert [says(f"x {op} 1", x=nan) for op in ("<", "<=", ">", ">=", "==")] == ["fail"] * 5
    assert says("x != 1", x=nan) == "pass"


KLEENE = {"p": "a == 1", "f": "a == 2", "e": "b == 1"}


@pytest.mark.parametrize(
    ("joined", "outcome"),
    [
        ("p and p", "pass"), ("p and f", "fail"), ("f and e", "fail"), ("e and f", "fail"),
        ("p and e", "error"), ("e and e", "error"), ("p or e", "pass"), ("e or p", "pass"),
        ("f or e", "error"), ("f or f", "fail"), ("not p", "fail"), ("not f", "pass"),
        ("not e", "error"), ("e and p and f", "fail"), ("f or e or p", "pass"),
    ],
)  # fmt: skip
def test_and_or_and_not_take_an_error_for_unknown(joined, outcome):
    expression = " ".join(KLEENE.get(word, word) for word in joined.split())

    assert says(expression, a=1) == outcome


def test_a_verdict_is_true_only_where_it_passed():
    passed, failed, error = (Check(e)(FakeRun({"a": 1})) for e in KLEENE.values())

    assert (bool(passed), bool(failed), bool(error)) == (True, False, False)
    assert (passed.passed, failed.passed, error.passed) == (True, False, False)
    assert repr(failed) == "<Verdict fail: a is 1, not 2>"
    assert (passed.value, error.value) == (1, None)


def test_a_reason_shows_no_secret_and_nothing_that_a_terminal_obeys():
    Secret("hunter2hunter2")

    verdict = Check("x contains 'y'")(FakeRun({"x": "hunter2hunter2\x1b[31m"}))

    assert "hunter2" not in verdict.reason
    assert "\x1b" not in verdict.reason


def test_a_value_whose_methods_raise_is_an_error():
    class Odd(dict):
        def get(self, *args):
            raise RuntimeError("no")

    verdict = Check("x == 1")(SimpleNamespace(state=Odd(), steps=()))

    assert verdict.outcome == "error"
    assert "x raised RuntimeError: no" in verdict.reason


# -- what is beside the state ----------------------------------------------------------------


def test_output_is_the_state_key_else_the_last_completed_step():
    last = (step(text="draft"), step(text="Order confirmed"), step(status="failed"))

    assert says("output == 'Order confirmed'", FakeRun({"text": "?"}, steps=last)) == "pass"
    assert says("output == 'mine'", FakeRun({"output": "mine"}, steps=last)) == "pass"
    several = FakeRun(steps=(step(total=5, tags=("a",), order=Report(1.5, [])),))
    assert (
        Check("output exists")(several).outcome
        == says("output contains '\"total\": 5'", several)
        == "pass"
    )
    expected = '{"total": 5, "tags": ["a"], "order": {"total": 1.5, "tags": []}}'
    assert says(f"output == '{expected}'", several) == "pass"
    assert says("output contains 'x'", FakeRun(steps=(step(status="failed"),))) == "error"
    result = FakeRun(steps=(step(result={"text": "from the result"}),))
    assert says("output contains 'result'", result) == "pass"


def test_roots_are_beside_the_state():
    failed = step("book", "failed", ErrorInfo("shop.SoldOut", "no rooms"))
    run = FakeRun({"status": 5}, "failed", (step("search"), failed), Usage(10, 2))

    assert says("@status == 'failed' and status == 5", run) == "pass"
    assert says("@error matches '^shop.SoldOut: no'", run) == "pass"
    assert says("@action == 'book'", run) == "pass"
    assert says("@usage.total_tokens <= 12", run) == "pass"
    assert says("@visits.search == 1 and @visits.write == 0", run) == "pass"
    assert says("@error == null", FakeRun(steps=(step(),))) == "pass"
    assert says("@action == null", FakeRun()) == "pass"


def test_an_unknown_count_and_an_unknown_action_are_errors():
    run = FakeRun(steps=(step("search"),), usage=Usage(10))

    assert says("@usage.total_tokens < 5", run) == "error"
    assert says("@usage.total_tokens < 5", FakeRun()) == "error"
    verdict = Check("@visits.serch == 0")(run)
    assert verdict.outcome == "error"
    assert "Did you mean 'search'?" in verdict.reason


def test_a_state_key_that_looks_like_a_root_or_a_word_is_written_in_brackets():
    state = {"@status": 1, "not": 2, "exists": 3}

    assert says('["@status"] == 1 and ["not"] == 2 and exists == 3', **state) == "pass"
    assert Check('["not"] == 2').text == '["not"] == 2'


@pytest.mark.parametrize("name", list(RECORDERS))
def test_a_check_reads_a_recorded_run(store, name):
    _, run = RECORDERS[name](store)
    action = run.steps[0].action

    assert Check("@status in ['complete', 'halted', 'failed']")(run).passed
    assert Check(f"@visits.{action} >= 1")(run).passed
    assert Check("@action exists and output exists")(run).passed
    assert not Check("no_such_field == 1")(run)


# -- callables -----------------------------------------------------------------------------


def test_a_callable_gets_the_run_and_answers_yes_or_no():
    run = FakeRun({"n": 3})

    def odd(given):
        assert given is run
        return given.state["n"] % 2 == 1

    assert Check(odd)(run) == Verdict("pass", "odd returned True")
    assert Check(lambda r: np.bool_(False))(run).outcome == "fail"
    assert (Check(odd).text, repr(Check(odd))) == ("odd()", 'Check("odd()")')


@pytest.mark.parametrize(
    ("bounds", "answer", "outcome"),
    [
        ({"at_least": 0.8}, 0.8, "pass"),
        ({"at_least": 0.8}, 0.79, "fail"),
        ({"at_most": 3}, 3, "pass"),
        ({"at_most": 3}, np.int64(4), "fail"),
        ({"at_least": 1, "at_most": 3}, Decimal(2), "pass"),
        ({"at_least": 1, "at_most": 3}, 0, "fail"),
        ({"at_least": 1}, True, "error"),
        ({"at_least": 1}, math.nan, "error"),
        ({"at_least": 1}, "2", "error"),
        ({"at_least": 1}, None, "error"),
        ({}, 5, "error"),
        ({}, None, "error"),
        ({}, "yes", "error"),
        ({}, [], "error"),
    ],
)
def test_a_number_needs_a_threshold_and_a_threshold_a_number(bounds, answer, outcome):
    verdict = Check(lambda run: answer, **bounds)(FakeRun())

    assert verdict.outcome == outcome
    assert (
        verdict.value is (answer if outcome != "error" and bounds else None) or outcome != "error"
    )


def test_what_a_callable_raises_is_an_error_and_an_interrupt_passes_through():
    def broken(run):
        raise KeyError("total")

    def stopped(run):
        raise KeyboardInterrupt

    assert Check(broken)(FakeRun()) == Verdict("error", "broken raised KeyError: 'total'")
    with pytest.raises(KeyboardInterrupt):
        Check(stopped)(FakeRun())


def test_a_check_is_not_awaited():
    async def later(run):
        return True

    with pytest.raises(ConfigError, match="not awaited"):
        Check(later)
    assert Check(lambda run: later(run))(FakeRun()).outcome == "error"  # and no warning


@pytest.mark.parametrize(
    ("given", "bounds", "message"),
    [
        (None, {}, "not None"),
        (5, {}, "not 5"),
        ("a == 1", {"at_least": 1}, "at_least= are for callables"),
        (len, {"at_least": "1"}, "at_least='1' is no number"),
        (len, {"at_most": math.nan}, "at_most=nan"),
        (len, {"at_most": True}, "at_most=True"),
    ],
)
def test_what_is_no_check_is_refused(given, bounds, message):
    with pytest.raises(ConfigError, match=message):
        Check(given, **bounds)


# -- joining, names, equality --------------------------------------------------------------


def test_checks_are_joined_by_operators():
    first, second = Check("a == 1"), Check(lambda run: True, name="always")
    run = FakeRun({"a": 2})

    assert (first & second).text == "a == 1 and <lambda>()"
    assert (first | second)(run).passed
    assert not (first & second)(run)
    assert (~first)(run).passed
    assert (~~first) == first
    assert (~(first | second)).text == "not (a == 1 or <lambda>())"
    with pytest.raises(ConfigError, match="Check.of"):
        first & "b == 2"


def test_a_check_is_of_a_check_an_expression_or_a_callable():
    check = Check("a  ==1", name="one")

    assert Check.of(check) is check
    assert Check.of("a == 1").text == check.text == "a == 1"
    assert Check.of(len).text == "len()"
    assert (check.name, Check.of("a == 1").name) == ("one", "a == 1")
    assert repr(check) == "Check(\"a == 1\", name='one')"


def test_checks_are_equal_by_what_they_ask():
    assert Check("a==1") == Check("(a == 1)")
    assert len({Check("a == 1"), Check("a == 1.0"), Check("a == true"), Check("a==1")}) == 3
    assert Check(len) == Check(len) != Check(len, at_least=1)
    assert Check(lambda run: 1) != Check(lambda run: 1)


# -- the language --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "position", "message"),
    [
        ("", 0, "Found the end at character 0, expected a field"),
        ("output", 6, "expected an operator"),
        ("output contain 'x'", 7, "Found 'contain'.*Did you mean 'contains'"),
        ("report.total = 5", 13, "Did you mean '=='?"),
        ("a is 5", 2, "Did you mean '=='?"),
        ("a == 1 && b == 2", 7, "Did you mean 'and'?"),
        ("a == 1 an b == 2", 7, "Did you mean 'and'?"),
        ("verdict == even", 11, "For the text write 'even'"),
        ("a == 'x", 5, "the ' that ends this text"),
        ("a in 'x'", 5, "a list after 'in'"),
        ("a > true", 4, "a number or a text after >"),
        ("a > [1]", 4, "a number or a text"),
        ("a matches 5", 10, "a regular expression in quotes"),
        ("a matches '('", 10, r"missing \), unterminated subpattern"),
        ("(a == 1", 7, r"Found the end.*'\)'"),
        ("a == 1)", 6, "'and', 'or' or the end"),
        ("a == 1 b == 2", 7, "'and', 'or' or the end"),
        ("a == [1 2]", 8, "',' or ']'"),
        ("@stauts == 'failed'", 0, "Did you mean '@status'?"),
        ("'x' in output", 0, "expected a field"),
        ("a == 1.2.3", 5, "a value"),
        ("a == 1e999", 5, "fewer digits"),
        ("a == " + "9" * 5000, 5, "fewer digits"),
        ("a == \n\x1b", 6, "Found"),
        ('["\\x"] == 1', 0, "a path"),
    ],
)
def test_what_cannot_be_read_points_at_where_and_says_what_could_stand_there(
    expression, position, message
):
    with pytest.raises(CheckSyntaxError, match=message) as caught:
        Check(expression)

    assert (caught.value.position, caught.value.expression) == (position, expression)
    assert isinstance(caught.value, RewindError)
    assert "\x1b" not in str(caught.value)


def test_the_caret_is_under_the_position():
    with pytest.raises(CheckSyntaxError) as caught:
        Check("a == 1\tor b = 2")

    shown, caret, *_ = str(caught.value).splitlines()
    assert shown[caret.index("^")] == "="


def test_nesting_has_an_end():
    for expression in (
        "(" * 5000 + "a == 1" + ")" * 5000,
        "not " * 5000 + "a == 1",
        "a == " + "[" * 5000,
    ):
        with pytest.raises(CheckSyntaxError, match="inside each other"):
            Check(expression)
    long = " and ".join(["a == 1"] * 5000)
    assert says(long, a=1) == "pass"


TEXTS = st.text() | st.sampled_from(["'", '"', "\\", "\\'", "\\\\", "\\d+", "a\nb", "'\"\\", "😀"])
LITERALS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)  # fmt: skip
ORDERED = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
PATHS = st.tuples(
    TEXTS | st.sampled_from(["not", "and", "in", "@status", "a"])
    | st.sampled_from(["@status", "@visits", "@usage"]).map(Root),
    st.lists(TEXTS | st.integers(0, 99), max_size=3),
).map(lambda parts: (parts[0], *parts[1]))  # fmt: skip
COMPARED = (
    st.builds(Compare, PATHS, st.sampled_from(["exists", "is missing"]))
    | st.builds(Compare, PATHS, st.sampled_from(["==", "!=", "contains", "not contains"]), LITERALS)
    | st.builds(Compare, PATHS, st.sampled_from(["<", "<=", ">", ">="]), ORDERED)
    | st.builds(Compare, PATHS, st.sampled_from(["in", "not in"]), st.lists(LITERALS).map(tuple))
    | st.builds(Compare, PATHS, st.sampled_from(["matches", "not matches"]), st.just(r"^a\b'\\"))
)
TREES = st.recursive(
    COMPARED,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(both, st.lists(inner, min_size=2, max_size=3))
        | st.builds(either, st.lists(inner, min_size=2, max_size=3))
    ),
    max_leaves=8,
)


@given(TREES)
def test_every_tree_reads_back_to_itself(tree):
    again = parse(write(tree))

    assert repr(again) == repr(tree)  # repr tells 1 from True and from 1.0
    assert write(again) == write(tree)


@given(st.text() | st.lists(st.sampled_from(
    ["a", "not", "and", "or", "(", ")", "==", "'", '"', "[", "]", ",", "\\", "in", "is", "missing",
     "exists", "matches", "contains", "1", "-", ".", "@status", "@x", "\n", "null", "'('", "'x'"]
)).map(" ".join))  # fmt: skip
@example("a matches '[[a]'")  # of which Python only warns
def test_any_text_is_a_check_or_a_syntax_error_with_its_position(text):
    refused = check = None
    try:
        check = Check(text)
    except CheckSyntaxError as error:
        refused = error
    assert refused is None or (0 <= refused.position <= len(text) and refused.expected)
    assert check is None or Check(check.text) == check


SIMPLE = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0, math.nan])
SIMPLE |= st.sampled_from(["", "a", "ab", "b"])
VALUES = SIMPLE | st.lists(SIMPLE, max_size=3) | st.dictionaries(st.sampled_from("ab"), SIMPLE)
KNOWN = st.builds(
    Compare,
    st.sampled_from([("x",), ("y",), ("x", "a"), ("y", 0)]),
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    st.integers(-3, 3) | st.sampled_from(["a", "ab"]),
) | st.builds(
    Compare, st.sampled_from([("x",), ("y", "b")]), st.sampled_from(["exists", "is missing"])
)
LOGIC = st.recursive(
    KNOWN,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(And, st.lists(inner, min_size=1, max_size=3).map(tuple))
        | st.builds(Or, st.lists(inner, min_size=1, max_size=3).map(tuple))
    ),
    max_leaves=6,
)
NUMBER = (int, float)


def oracle(tree, state):
    """True, False, or None for an error: three-valued logic, written the plain way."""
    if isinstance(tree, Not):
        inner = oracle(tree.part, state)
        return None if inner is None else not inner
    if isinstance(tree, And | Or):
        decisive = isinstance(tree, Or)
        found = [oracle(part, state) for part in tree.parts]
        return decisive if decisive in found else None if None in found else not decisive
    value = state
    for part in tree.path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return {"exists": False, "is missing": True}.get(tree.operator)
        if isinstance(value, str) and part is not tree.path[-1]:
            return {"exists": False, "is missing": True}.get(tree.operator)
    if tree.operator in ("exists", "is missing"):
        return tree.operator == "exists"
    comparable = type(value) is type(tree.value) or (
        type(value) in NUMBER and type(tree.value) in NUMBER
    )
    if value is None and tree.operator in ("==", "!="):
        return tree.operator == "!="
    if not comparable:
        return None
    answers = {
        "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
    }  # fmt: skip
    return answers[tree.operator](value, tree.value)


@given(LOGIC, st.fixed_dictionaries({}, optional={"x": VALUES, "y": VALUES}))
def test_a_check_says_what_plain_python_says(tree, state):
    outcome = {True: "pass", False: "fail", None: "error"}[oracle(tree, state)]

    assert Check(write(tree))(FakeRun(state)).outcome == outcome


class Hostile:
    def __getattr__(self, name):
        raise RuntimeError(name)

    def __eq__(self, other):
        raise RuntimeError("eq")

    def __hash__(self):
        raise RuntimeError("hash")

    def __repr__(self):
        raise RuntimeError("repr")


ODD = [
    Hostile(), {1: 2, (1, 2): 3, None: 4}, np.arange(3), np.array(5), 10**5000, float("inf"), b"x",
    object, {1, 2}, range(3), Decimal("sNaN"), complex(1), ..., {"a": {"b": Hostile()}}, "\ud800",
]  # fmt: skip


@given(TREES, st.integers(0, len(ODD) - 1), st.integers(0, len(ODD) - 1))
def test_a_check_never_raises_whatever_the_state_holds(tree, one, other):
    first, second = ODD[one], ODD[other]
    run = FakeRun({"a": first, "not": second, "": first, "@status": second}, steps=(step(a=first),))

    verdict = Check(write(tree))(run)

    assert verdict.outcome in ("pass", "fail", "error")
    assert verdict.reason
    assert repr(verdict).isprintable()
