"""Patches of recorded writes: what they may address, and what they say when they may not."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import jsonpatch
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rewind_nb._patch import apply_patch, describe, patched_keys
from rewind_nb._path import get, render
from rewind_nb.errors import OverrideError

pydantic = pytest.importorskip("pydantic")


@dataclass
class Point:
    x: int


class Model(pydantic.BaseModel):
    total: int


def recorded() -> dict[str, Any]:
    return {
        "report": {
            "total": 4,
            "groups": {"A": [1, 2, 3]},
            "a.b": 1,
            "m~n/o": 2,
            "~1": 3,
            "0": "zero",
        },
        "items": [{"name": "a"}, {"name": "b"}],
        "flag": True,
        "point": (1, {"x": 2}),
        "data": Point(1),
        "model": Model(total=1),
        "counts": {1: "one"},
        "members": {"a"},
    }


def op(name, path, **members):
    return [{"op": name, "path": path, **members}]


# -- the six operations -------------------------------------------------------


@pytest.mark.parametrize(
    ("patch", "path", "expected"),
    [
        (op("replace", "/report/total", value=5), "report.total", 5),
        (op("replace", "/report/total", value=None), "report.total", None),
        (op("replace", "/report/m~0n~1o", value=5), 'report["m~n/o"]', 5),
        (op("replace", "/report/~01", value=5), 'report["~1"]', 5),
        (op("replace", "/items/1/name", value="z"), "items[1].name", "z"),
        (op("replace", "/report/0", value="z"), 'report["0"]', "z"),
        (op("replace", "/point", value=[1]), "point", [1]),
        (op("add", "/report/new", value=[1]), "report.new", [1]),
        (op("add", "/report/total", value=7), "report.total", 7),
        (op("add", "/items/0", value="first"), "items[0]", "first"),
        (op("add", "/items/2", value="last"), "items[2]", "last"),
        (op("add", "/items/-", value="last"), "items[2]", "last"),
        (op("add", "/report/-", value="key"), "report.-", "key"),
        (op("remove", "/report/groups/A/1"), "report.groups.A", [1, 3]),
        (op("move", "/report/first", **{"from": "/items/0"}), "report.first", {"name": "a"}),
        (op("copy", "/report/first", **{"from": "/items/0"}), "report.first", {"name": "a"}),
        (op("copy", "/flag", **{"from": "/report/total"}), "flag", 4),
        (op("test", "/report/total", value=4), "report.total", 4),
        ({"report.total": 5}, "report.total", 5),
        ({'report["a.b"]': 5}, 'report["a.b"]', 5),
        ({"items[1].name": "z"}, "items[1].name", "z"),
        ({"report": 5}, "report", 5),
    ],
)
def test_a_patch_changes_what_it_addresses(patch, path, expected):
    patched = apply_patch(recorded(), patch)
    assert get(patched, path) == expected
    assert type(get(patched, path)) is type(expected)


def test_a_removed_key_is_gone_and_its_neighbours_are_not():
    patched = apply_patch(recorded(), op("remove", "/report/total"))
    assert list(patched["report"]) == ["groups", "a.b", "m~n/o", "~1", "0"]


def test_a_replaced_key_keeps_its_place():
    patched = apply_patch(recorded(), {"report.total": 5, "items": []})
    assert list(patched) == list(recorded())
    assert list(patched["report"]) == list(recorded()["report"])


def test_operations_see_what_earlier_ones_did():
    patch = [
        *op("add", "/report/new", value={"n": []}),
        *op("add", "/report/new/n/-", value=1),
        *op("test", "/report/new/n/0", value=1),
        *op("move", "/items/1", **{"from": "/items/0"}),
        *op("remove", "/items/0/name"),
    ]
    patched = apply_patch(recorded(), patch)
    assert patched["report"]["new"] == {"n": [1]}
    assert patched["items"] == [{}, {"name": "a"}]


def test_moving_a_value_onto_itself_changes_nothing():
    move = op("move", "/report/total", **{"from": "/report/total"})
    assert list(apply_patch(recorded(), move)["report"]) == list(recorded()["report"])


def test_the_target_of_a_move_is_a_place_in_what_the_removal_leaves():
    writes = {"items": [{"n": 0}, {"n": 1}, (2,)]}
    move = op("move", "/items/1/x", **{"from": "/items/0"})
    with pytest.raises(OverrideError, match=r"items\[1\] is a tuple"):
        apply_patch(writes, move)
    with pytest.raises(OverrideError, match="index from 0 to 2"):
        apply_patch(writes, op("move", "/items/3", **{"from": "/items/0"}))


PLAIN = st.recursive(
    st.integers(0, 3) | st.text(max_size=2),
    lambda nodes: (
        st.lists(nodes, max_size=3) | st.dictionaries(st.text(max_size=2), nodes, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.dictionaries(st.sampled_from("abc"), PLAIN), st.dictionaries(st.sampled_from("abc"), PLAIN)
)
def test_the_patches_that_jsonpatch_makes_lead_to_the_same_value(before, after):
    after = {key: after.get(key, before[key]) for key in before}
    patch = jsonpatch.make_patch(before, after).patch
    assume(patch)
    top_level = [
        o for o in patch if o["path"].count("/") == 1 or o.get("from", "//").count("/") == 1
    ]
    assume(not any(o["op"] in ("move", "remove") for o in top_level))
    assert apply_patch(before, patch) == after


@given(st.lists(st.text() | st.integers(0, 3), min_size=1, max_size=5), st.integers())
def test_every_location_can_be_replaced_by_its_path(parts, value):
    writes: Any = 0
    for part in reversed(["root", *parts]):
        writes = {part: writes, "other": 1} if isinstance(part, str) else [*range(part), writes]
    patched = apply_patch(writes, {render(["root", *parts]): value})
    assert get(patched, ["root", *parts]) == value


# -- nothing is shared --------------------------------------------------------


def test_the_writes_and_the_patch_are_left_as_they_were():
    writes, value = recorded(), {"inner": []}
    patch = [
        *op("replace", "/report/total", value=value),
        *op("replace", "/flag", value=value),
        *op("add", "/flag/inner/-", value=1),
    ]
    given_patch = copy.deepcopy(patch)
    patched = apply_patch(writes, patch)
    assert writes == recorded()
    assert patch == given_patch
    assert patched["report"]["total"] == {"inner": []}
    patched["items"].append(1)
    patched["report"]["total"]["inner"].append(1)
    assert writes == recorded()
    assert value == {"inner": []}


def test_an_edit_does_not_show_under_another_key_that_holds_the_same_object():
    shared = {"n": [1]}
    patched = apply_patch({"a": shared, "b": shared}, {"a.n[0]": 2})
    assert patched == {"a": {"n": [2]}, "b": {"n": [1]}}


def test_copies_are_independent():
    patch = [*op("copy", "/report/c", **{"from": "/items"}), *op("remove", "/report/c/0/name")]
    assert apply_patch(recorded(), patch)["items"] == recorded()["items"]


# -- what is not there --------------------------------------------------------


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (op("replace", "/report/totl", value=1), "report has no key 'totl'.*Did you mean 'total'"),
        ({"report.totl": 1}, "report has no key 'totl'.*Did you mean 'total'"),
        (op("replace", "/reprot/total", value=1), "did not write 'reprot'.*Did you mean 'report'"),
        ({"reprot": 1}, "did not write 'reprot'.*Did you mean 'report'"),
        (op("add", "/fresh", value=1), "did not write 'fresh'.*Known: 'report', 'items'"),
        (op("copy", "/fresh", **{"from": "/flag"}), "did not write 'fresh'"),
        (op("add", "/report/x/y", value=1), "report has no key 'x'"),
        (op("replace", "/items/2", value=1), "list of 2 .*index from 0 to 1"),
        (op("add", "/items/3", value=1), "list of 2 .*index from 0 to 2"),
        (op("replace", "/items/-", value=1), "'-' is no index"),
        (op("remove", "/items/-"), "'-' is no index"),
        (op("copy", "/flag", **{"from": "/items/-"}), "'-' is no index"),
        (op("replace", "/items/-1", value=1), "'-1' is no index"),
        (op("replace", "/items/01", value=1), "'01' is no index"),
        (op("replace", "/items/\u0661", value=1), "is no index"),
        (op("replace", "/items/name", value=1), "'name' is no index"),
        (op("add", "/items/-/name", value=1), "'-' is no index"),
        ({'items["0"]': 1}, "'0' is no index"),
        ({"report[0]": 1}, "report has no key 0"),
        (op("test", "/report/totl", value=1), "Did you mean 'total'"),
        (op("move", "/flag", **{"from": "/report/totl"}), "Did you mean 'total'"),
    ],
)
def test_a_location_that_does_not_exist_is_refused_and_names_what_does(patch, message):
    with pytest.raises(OverrideError, match=message):
        apply_patch(recorded(), patch)


def test_the_facts_of_a_refusal_are_attributes():
    with pytest.raises(OverrideError) as caught:
        apply_patch(recorded(), {"items[0].nam": 1})
    assert caught.value.location == "items[0].nam"
    assert caught.value.known == ["name"]


@pytest.mark.parametrize(
    ("patch", "named"),
    [
        ({"point[0]": 1}, "point is a tuple"),
        ({"point[1].x": 1}, "point is a tuple"),
        ({"data.x": 1}, "data is a test_patch.Point"),
        ({"model.total": 1}, "model is a test_patch.Model"),
        ({'counts["1"]': 1}, "counts is a dict with keys that are no str"),
        ({"members.a": 1}, "members is a set"),
        ({"flag.x": 1}, "flag is a bool"),
        (op("add", "/point/-", value=1), "point is a tuple"),
        (op("add", "/model/extra", value=1), "model is a test_patch.Model"),
        (op("test", "/data/x", value=1), "data is a test_patch.Point"),
        (op("copy", "/flag", **{"from": "/data/x"}), "data is a test_patch.Point"),
        (op("move", "/point/0", **{"from": "/report/total"}), "point is a tuple"),
    ],
)
def test_a_patch_leads_through_str_keyed_dicts_and_lists_only(patch, named):
    with pytest.raises(OverrideError, match=f"{named}.*output="):
        apply_patch(recorded(), patch)


@pytest.mark.parametrize(
    "patch", [op("remove", "/report"), op("move", "/items/0", **{"from": "/report"})]
)
def test_a_written_key_cannot_be_unwritten(patch):
    with pytest.raises(OverrideError, match="cannot be unwritten"):
        apply_patch(recorded(), patch)


@pytest.mark.parametrize(
    "patch",
    [
        op("replace", "", value={}),
        op("add", "", value={}),
        op("copy", "", **{"from": "/report"}),
        op("copy", "/report", **{"from": ""}),
        {"": {}},
    ],
)
def test_the_writes_cannot_be_replaced_as_a_whole(patch):
    with pytest.raises(OverrideError, match="addresses the root"):
        apply_patch(recorded(), patch)


def test_a_value_cannot_be_moved_into_itself():
    with pytest.raises(OverrideError, match="inside what is moved"):
        apply_patch(recorded(), op("move", "/items/0/x", **{"from": "/items/0"}))


# -- test ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/flag", 1), ("/report/total", 5), ("/items/0", {"name": "b"}), ("/report/groups/A", [1, 2])],
)
def test_a_failing_test_operation_is_refused(path, expected):
    with pytest.raises(OverrideError, match="test failed"):
        apply_patch(recorded(), op("test", path, value=expected))


def test_a_test_operation_tells_booleans_from_numbers_inside_too():
    writes = {"a": {"x": [True]}}
    assert apply_patch(writes, op("test", "/a", value={"x": [True]})) == writes
    with pytest.raises(OverrideError, match="test failed"):
        apply_patch(writes, op("test", "/a", value={"x": [1]}))


def test_a_test_operation_takes_numbers_by_value():
    assert apply_patch({"a": 1}, op("test", "/a", value=1.0)) == {"a": 1}


def test_a_test_of_an_array_fails_instead_of_raising_something_else():
    numpy = pytest.importorskip("numpy")
    with pytest.raises(OverrideError, match="test failed"):
        apply_patch({"a": numpy.arange(3)}, op("test", "/a", value=[0, 1, 2]))


# -- malformed ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ('[{"op": "remove", "path": "/a"}]', "patch is of type str"),
        (None, "patch is of type NoneType"),
        ([], "patch is empty: it names nothing to change"),
        ({}, "patch is empty: it names nothing to change"),
        ([1], r"patch\[0\] is of type int"),
        ([{"path": "/report"}], "has op None"),
        ([{"op": "replac", "path": "/report", "value": 1}], "Did you mean 'replace'"),
        ([{"op": ["add"], "path": "/report", "value": 1}], "no such operation"),
        ([{"op": "replace", "value": 1}], "has no 'path'"),
        ([{"op": "replace", "path": "/report"}], "has no 'value'"),
        ([{"op": "test", "path": "/report"}], "has no 'value'"),
        ([{"op": "move", "path": "/report"}], "has no 'from'"),
        ([{"op": "remove", "path": "report"}], "no JSON Pointer"),
        ([{"op": "remove", "path": "/report~2"}], "no JSON Pointer"),
        ([{"op": "remove", "path": "/report~"}], "no JSON Pointer"),
        ([{"op": "remove", "path": 3}], "no JSON Pointer"),
        ([{"op": "copy", "path": "/report", "from": "items"}], "no JSON Pointer"),
        ({"report..total": 1}, "is not a path"),
        ({3: 1}, "patch addresses 3, of type int: a path is a str"),
    ],
)
def test_a_malformed_patch_is_refused_by_every_function(patch, message):
    for function in (lambda p: apply_patch(recorded(), p), patched_keys, describe):
        with pytest.raises(OverrideError, match=message):
            function(patch)


# -- what a patch says of itself ----------------------------------------------


def test_patched_keys_are_the_written_keys_that_change():
    patch = [
        *op("test", "/flag", value=True),
        *op("copy", "/report/c", **{"from": "/items"}),
        *op("move", "/report/d", **{"from": "/data/x"}),
        *op("remove", "/report/total"),
    ]
    assert patched_keys(patch) == ["report", "data"]
    assert patched_keys({"items[0].name": 1, '["a.b"].c': 2}) == ["items", "a.b"]


@pytest.mark.parametrize(
    ("patch", "line"),
    [
        ({"report.total": 1200}, "replace report.total = 1200"),
        ({"a": 1, "b": "x"}, "replace a = 1; replace b = 'x'"),
        (op("add", "/items/3", value={"n": 1}), "add items[3] = {'n': 1}"),
        (op("add", "/items/-", value=1), "add items[-] = 1"),
        (op("remove", "/items/0/a.b"), 'remove items[0]["a.b"]'),
        (op("move", "/a/b", **{"from": "/c/d"}), "move c.d to a.b"),
        (op("copy", "/a/b", **{"from": "/c/0"}), "copy c[0] to a.b"),
        (op("test", "/a", value=None), "test a = None"),
    ],
)
def test_a_patch_is_described_in_one_line(patch, line):
    assert describe(patch) == line


def test_the_writes_tell_an_index_from_a_key_of_digits():
    patch = [*op("replace", "/report/0", value=1), *op("replace", "/items/0", value=1)]
    assert describe(patch, recorded()) == "replace report.0 = 1; replace items[0] = 1"


def test_described_values_are_short_and_the_same_in_every_process():
    class Thing:
        pass

    long = describe({"a": "x" * 500 + "\n"})
    assert len(long) < 80
    assert describe({"a": Thing()}) == describe({"a": Thing()})
    assert describe({"a": {"c", "b", "a"}}) == "replace a = {'a', 'b', 'c'}"
    assert "\n" not in describe({"a": "one\ntwo", "b": [[["deep"]] * 9] * 9})
