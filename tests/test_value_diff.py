"""What changed between two encoded values."""

from __future__ import annotations

import json
import random
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rewind_nb._diff import MISSING, Delta, diff_nodes, strict_equal
from rewind_nb._items import item_rows
from rewind_nb._path import parse

NAN = {"$": "float", "v": "nan"}
LEAVES = st.sampled_from(
    [
        None,
        True,
        False,
        0,
        1,
        0.0,
        -0.0,
        1.0,
        "",
        "a",
        "a b c",
        2**70,
        NAN,
        {"$": "bytes", "v": "AA=="},
    ]
)
KEYS = st.sampled_from(["a", "b", "c", "v", "x y", "1"])


def text_of(node):
    """The definition of equality: the JSON text of the node."""
    return json.dumps(node)


def tagged(tag, content):
    return {"$": tag, "v": content}


def members(items):
    return [json.loads(text) for text in sorted({text_of(item) for item in items})]


def pairs_of(pairs):
    """Pairs of a dict node, which the codec writes only where some key is no plain text."""
    return [[json.loads(text), value] for text, value in {**dict(pairs), "1": 0}.items()]


def containers(children):
    fields = st.dictionaries(st.sampled_from(["f", "g"]), children, max_size=2)
    key_texts = st.sampled_from(["1", '"1"', "null", '{"$":"tuple","v":[1]}'])
    model = st.fixed_dictionaries(
        {
            "$": st.just("pydantic"),
            "c": st.sampled_from(["m:A", "m:B"]),
            "v": fields,
            "set": st.sampled_from([[], ["f"], ["f", "g"]]),
            "extra": st.none() | st.dictionaries(KEYS, children, max_size=2),
            "private": st.none() | st.dictionaries(st.just("_p"), children),
        }
    )
    return st.one_of(
        st.lists(children, max_size=5),
        st.dictionaries(KEYS, children, max_size=4),
        st.lists(children, max_size=3).map(lambda items: tagged("tuple", items)),
        st.lists(children, max_size=3).map(lambda items: tagged("set", members(items))),
        st.lists(st.tuples(key_texts, children), max_size=3).map(
            lambda pairs: tagged("dict", pairs_of(pairs))
        ),
        st.builds(
            lambda c, v: {"$": "dataclass", "c": c, "v": v}, st.sampled_from(["m:A", "m:B"]), fields
        ),
        model,
    )


NODES = st.recursive(LEAVES, containers, max_leaves=12)
PLAIN_LEAVES = st.sampled_from([None, True, 0, 1, 1.0, -0.0, 0.0, "a", "b c"])
PLAIN = st.recursive(
    PLAIN_LEAVES,
    lambda nodes: st.lists(nodes, max_size=6) | st.dictionaries(KEYS, nodes, max_size=4),
    max_leaves=25,
)


def near_plain(pairs):
    """Two containers with much in common, from pairs of children and who has them."""
    children = st.tuples(pairs, st.sampled_from(["both", "both", "both", "before", "after"]))
    lists = st.lists(children, max_size=8).map(lambda items: split(dict(enumerate(items))))
    dicts = st.dictionaries(KEYS, children, max_size=5).map(split)
    return lists.map(lambda two: tuple(list(side.values()) for side in two)) | dicts


def near(pairs):
    plain = near_plain(pairs)
    return plain | plain.map(
        lambda two: tuple(tagged("tuple", side) for side in two) if type(two[0]) is list else two
    )


def split(children):
    return (
        {key: pair[0] for key, (pair, who) in children.items() if who != "after"},
        {key: pair[1] for key, (pair, who) in children.items() if who != "before"},
    )


SAME = NODES.map(lambda node: (node, json.loads(text_of(node))))
NEAR = st.recursive(SAME | SAME | st.tuples(LEAVES, LEAVES), near, max_leaves=25)
PLAIN_SAME = PLAIN.map(lambda node: (node, json.loads(text_of(node))))
PLAIN_NEAR = st.recursive(
    PLAIN_SAME | PLAIN_SAME | st.tuples(PLAIN_LEAVES, PLAIN_LEAVES), near_plain, max_leaves=25
)


def changes(before, after, path=""):
    return [(d.path, d.kind, d.before, d.after) for d in diff_nodes(before, after, path)]


# -- laws ---------------------------------------------------------------------


@given(NODES)
def test_a_value_does_not_differ_from_itself(node):
    assert diff_nodes(node, node) == []
    assert diff_nodes(node, json.loads(text_of(node))) == []


@given(st.tuples(NODES, NODES) | NEAR)
@example(({"a": 1, "b": 2}, {"b": 2, "a": 1}))
@example(([0.0], [-0.0]))
@example(([True, 1], [1, True]))
def test_there_is_a_change_exactly_where_values_are_not_strictly_equal(two):
    before, after = two
    assert strict_equal(before, after) == (text_of(before) == text_of(after))
    assert (diff_nodes(before, after) == []) == strict_equal(before, after)


@given(NEAR)
def test_every_change_has_a_path_that_reads_back(two):
    before, after = two
    for delta in diff_nodes(before, after, "state"):
        assert parse(delta.path)[0] == "state"


@settings(max_examples=150)
@given(st.tuples(NODES, NODES) | NEAR)
@example(([10, 20, 30], [5, 10, 15]))
@example(([["x"], {"a": [1, 2], "b": 0}], [{"a": [3, 2], "b": 0}]))
def test_each_side_of_a_change_reads_at_its_path_in_the_value_of_that_side(two):
    before, after = two
    for delta in diff_nodes(before, after):
        sides = [(before, delta.before, delta.path if delta.was_at is None else delta.was_at)]
        sides += [(after, delta.after, delta.path)]
        for whole, part, path in sides:
            if part is not MISSING:
                assert text_of(part) in map(text_of, read(whole, parse(path), delta.kind))
        if MISSING in (delta.before, delta.after):
            assert delta.was_at is None


def read(node, parts, kind):
    """What a value has at a path, knowing nothing of how the path was found.

    A set has members there, and a model may have a field and an extra of one name.
    """
    if parts:
        for_key = [child for key, child in children(node) if key == parts[0]]
        return [found for child in for_key for found in read(child, parts[1:], kind)]
    if kind == "order":
        node = node["v"] if node.get("$") in ("dataclass", "pydantic") else node
        keys = [key for key, _ in node["v"]] if "$" in node else list(node)
        return [keys, [json.dumps(key, separators=(",", ":")) for key in keys]]
    in_set = type(node) is dict and node.get("$") == "set"
    return [node, *node["v"]] if in_set else [node, *(node if type(node) is list else [])]


def children(node):
    if type(node) is list:
        return list(enumerate(node))
    if type(node) is not dict or node.get("$") not in (
        None,
        "dict",
        "tuple",
        "dataclass",
        "pydantic",
    ):
        return []
    if "$" not in node:
        named = list(node.items())
        return named + [(json.dumps(key), value) for key, value in named]
    if node["$"] == "pydantic":
        more = [("model_fields_set", node["set"]), ("model_extra", node["extra"])]
        more.append(("__pydantic_private__", node["private"]))
        parts = [node["v"], node["extra"], node["private"]]
        return [pair for part in parts if part is not None for pair in children(part)] + more
    if node["$"] == "dict":
        spelt = [(json.dumps(k, separators=(",", ":")), value) for k, value in node["v"]]
        return spelt + [(key, value) for key, value in node["v"] if type(key) is str]
    return children(node["v"])


def test_an_item_that_moved_is_told_with_its_place_on_either_side():
    found = [(d.path, d.was_at, d.before, d.after) for d in diff_nodes([10, 20, 30], [5, 10, 15])]
    assert found == [
        ("[0]", None, MISSING, 5),
        ("[2]", "[1]", 20, 15),
        ("[2]", None, 30, MISSING),
    ]
    before, after = {"rows": [1, {"a": [1, 2], "b": 0}]}, {"rows": [{"a": [3], "b": 0}]}
    found = [(d.path, d.was_at, d.before, d.after) for d in diff_nodes(before, after)]
    assert found == [
        ("rows[0]", None, 1, MISSING),
        ("rows[0].a[0]", "rows[1].a[0]", 1, 3),
        ("rows[1].a[1]", None, 2, MISSING),
    ]


@given(st.tuples(PLAIN, PLAIN) | PLAIN_NEAR)
def test_the_changes_turn_the_value_before_into_the_value_after(two):
    before, after = two
    rebuilt = applied(before, (), (), diff_nodes(before, after))
    assert json.dumps(rebuilt, sort_keys=True) == json.dumps(after, sort_keys=True)


def applied(node, was, now, deltas):
    """Apply changes to a plain node that stands at *was* before and at *now* after."""
    whole = [d for d in deltas if d.kind in ("changed", "type") and parse(d.path) == now]
    if whole:
        return whole[0].after
    if not isinstance(node, dict | list):
        return node
    direct = {kind: {} for kind in ("removed", "added")}
    for delta in deltas:
        outer = was if delta.kind == "removed" else now
        if delta.kind in direct and parse(delta.path)[:-1] == outer and parse(delta.path):
            direct[delta.kind][parse(delta.path)[-1]] = delta.after
    items = node.items() if isinstance(node, dict) else enumerate(node)
    kept = [(key, item) for key, item in items if key not in direct["removed"]]
    if isinstance(node, dict):
        inner = {k: applied(item, (*was, k), (*now, k), deltas) for k, item in kept}
        return inner | direct["added"]
    rebuilt = [None] * (len(kept) + len(direct["added"]))
    free = [n for n in range(len(rebuilt)) if n not in direct["added"]]
    for n, item in direct["added"].items():
        rebuilt[n] = item
    for n, (key, item) in zip(free, kept, strict=True):
        rebuilt[n] = applied(item, (*was, key), (*now, n), deltas)
    return rebuilt


def shuffled(node, chance):
    """A version of a node that shares most of its parts."""
    if type(node) is not list or not node:
        return [node, chance.random()]
    k = chance.randrange(len(node))
    return [*node[:k], shuffled(node[k], chance), *node[k + chance.randrange(2) :]]


@settings(deadline=None)
@given(st.lists(PLAIN, min_size=1, max_size=6), st.integers(0, 2**32))
def test_a_pair_that_was_seen_before_has_the_changes_of_one_that_was_not(node, seed):
    chance, known = random.Random(seed), {}
    versions = [node]
    for _ in range(3):
        versions.append([*shuffled(versions[-1], chance), {"k": versions[-1]}])
    for before in versions:
        for after in versions:
            for path in ("", "log", 'a["b.c"]'):
                assert diff_nodes(before, after, path, known) == diff_nodes(before, after, path)


def test_a_pair_that_was_seen_before_is_told_at_the_path_where_it_stands():
    old, new = {"text": "a b", "n": [1]}, {"text": "a c", "n": [1, 2]}
    known = {}
    assert [d.path for d in diff_nodes(old, new, "", known)] == ["text", "n[1]"]
    for path in ("x", "y[3]", "x"):
        assert [d.path for d in diff_nodes([0, old], [0, new], path, known)] == [
            f"{path}[1].text",
            f"{path}[1].n[1]",
        ]


@given(st.tuples(NODES, NODES) | NEAR)
def test_sharing_parts_does_not_change_what_is_equal(two):
    before, after = two
    rows = [[before, k] for k in range(40)]
    other = [*rows[:20], [after, 20], *rows[21:]]
    assert strict_equal(rows, other) == strict_equal(json.loads(text_of(rows)), other)
    assert strict_equal({"a": rows, "b": 1}, {"a": rows, "b": 1})
    assert not strict_equal({"a": rows, "b": rows}, {"b": rows, "a": rows})
    assert diff_nodes(rows, other) == diff_nodes(json.loads(text_of(rows)), other)


# -- leaves -------------------------------------------------------------------


def test_a_changed_leaf_is_one_change_at_its_path():
    before = {"report": {"groups": {"A": {"total": 5, "n": 1}}}}
    after = {"report": {"groups": {"A": {"total": 6, "n": 1}}}}
    assert changes(before, after) == [("report.groups.A.total", "changed", 5, 6)]


def test_paths_start_where_the_values_stand():
    assert changes({"x": 1}, {"x": 2}, "@result") == [("@result.x", "changed", 1, 2)]
    assert changes(1, 2) == [("", "changed", 1, 2)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (5, 5.0),
        (1, True),
        (0, False),
        (None, "x"),
        ("5", 5),
        ([], {}),
        ([1], tagged("tuple", [1])),
        (tagged("set", [1]), tagged("frozenset", [1])),
        ({"f": 1}, {"$": "dataclass", "c": "m:A", "v": {"f": 1}}),
        ({"$": "dataclass", "c": "m:A", "v": {}}, {"$": "dataclass", "c": "m:B", "v": {}}),
        ({"$": "enum", "c": "m:A", "v": "x"}, {"$": "enum", "c": "m:B", "v": "x"}),
        (tagged("date", "2024-01-01"), "2024-01-01"),
    ],
)
def test_another_type_is_a_type_change_even_where_python_calls_it_equal(before, after):
    [delta] = diff_nodes({"n": [before, 7]}, {"n": [after, 7]})
    assert (delta.path, delta.kind) == ("n[0]", "type")
    assert (delta.before, delta.after) == (before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (0.0, -0.0),
        (NAN, 1.0),
        (tagged("int", "ff"), 1),
        (tagged("bytes", "AA=="), tagged("bytes", "AQ==")),
        ({"$": "enum", "c": "m:A", "v": "x"}, {"$": "enum", "c": "m:A", "v": "y"}),
        ({"$": "ndarray", "v": [1, 2]}, {"$": "ndarray", "v": [1, 3]}),
        ({"$": "custom", "c": "m:A", "v": {"x": 1}}, {"$": "custom", "c": "m:A", "v": {"x": 2}}),
    ],
)
def test_another_value_of_one_type_is_one_changed_leaf(before, after):
    assert [d.kind for d in diff_nodes({"n": before}, {"n": after})] == ["changed"]
    assert [d.path for d in diff_nodes({"n": before}, {"n": after})] == ["n"]


def test_nan_equals_nan():
    assert diff_nodes([NAN], [dict(NAN)]) == []


def test_a_missing_key_differs_from_none():
    assert changes({"a": None}, {}) == [("a", "removed", None, MISSING)]
    assert changes({}, {"a": None}) == [("a", "added", MISSING, None)]


def test_an_empty_container_that_gets_content_gets_an_addition():
    assert changes({"x": []}, {"x": [1]}) == [("x[0]", "added", MISSING, 1)]
    assert changes({"x": {"a": [1, 2]}}, {"x": {}}) == [("x.a", "removed", [1, 2], MISSING)]
    assert changes({}, []) == [("", "type", {}, [])]


# -- dicts --------------------------------------------------------------------


def test_another_key_order_is_one_change_at_the_dict():
    before, after = {"r": {"a": 1, "b": 2}}, {"r": {"b": 2, "a": 1}}
    assert changes(before, after) == [("r", "order", ["a", "b"], ["b", "a"])]


def test_another_order_and_another_value_are_two_changes():
    assert changes({"a": 1, "b": 2}, {"b": 3, "a": 1}) == [
        ("b", "changed", 2, 3),
        ("", "order", ["a", "b"], ["b", "a"]),
    ]


def test_a_new_key_between_others_is_no_change_of_order():
    assert changes({"a": 1, "c": 3}, {"a": 1, "b": 2, "c": 3}) == [("b", "added", MISSING, 2)]


def test_an_added_subtree_is_one_change():
    assert changes({}, {"a": {"b": [1, 2, 3]}}) == [("a", "added", MISSING, {"b": [1, 2, 3]})]


def test_keys_that_are_no_text_are_written_as_their_json():
    before = {"n": tagged("dict", [[1, "a"], ["1", "b"], [None, "c"]])}
    after = {"n": tagged("dict", [[1, "x"], ["1", "y"], [None, "z"]])}
    paths = [d.path for d in diff_nodes(before, after)]
    assert paths == ['n["1"]', 'n["\\"1\\""]', 'n["null"]']


def test_a_dict_that_gets_a_key_that_is_no_text_keeps_its_other_keys():
    assert changes({"a": 1}, tagged("dict", [["a", 1], [2, "new"]])) == [
        ('["2"]', "added", MISSING, "new")
    ]


def test_two_nan_keys_are_two_keys():
    before = tagged("dict", [[NAN, 1], [NAN, 2]])
    assert [d.kind for d in diff_nodes(before, tagged("dict", [[NAN, 3], [NAN, 2]]))] == ["changed"]
    assert diff_nodes(before, json.loads(text_of(before))) == []


# -- objects and sets ---------------------------------------------------------


def test_an_object_is_compared_field_by_field():
    before = {"$": "dataclass", "c": "m:Order", "v": {"id": 1, "lines": [{"n": 1}]}}
    after = {"$": "dataclass", "c": "m:Order", "v": {"id": 1, "lines": [{"n": 2}]}}
    assert changes(before, after, "order") == [("order.lines[0].n", "changed", 1, 2)]


def model(fields, names, extra=None, private=None):
    return {
        "$": "pydantic",
        "c": "m:A",
        "v": fields,
        "set": names,
        "extra": extra,
        "private": private,
    }


def test_a_model_is_compared_by_fields_extras_private_attributes_and_what_was_set():
    before = model({"f": 1}, ["f"], {"more": 1}, {"_p": 1})
    after = model({"f": 2}, ["f", "more"], {"more": 2}, {"_p": 2})
    assert changes(before, after, "m") == [
        ("m.f", "changed", 1, 2),
        ("m.more", "changed", 1, 2),
        ("m._p", "changed", 1, 2),
        ("m.model_fields_set", "added", MISSING, "more"),
    ]


def test_a_model_without_extras_differs_from_one_with_none_given():
    assert changes(model({}, []), model({}, [], extra={})) == [("model_extra", "changed", None, {})]


def test_the_fields_of_an_object_may_have_odd_names():
    before = model({}, [], extra=tagged("dict", [["$", 1], ["a", 1]]))
    after = model({}, [], extra=tagged("dict", [["$", 2], ["a", 1]]))
    assert [(d.kind, d.after) for d in diff_nodes(before, after)] == [("changed", 2)]


def test_a_set_has_members_and_no_positions():
    before, after = tagged("set", ["a", "b", "c"]), tagged("set", ["b", "c", "d"])
    assert changes({"tags": before}, {"tags": after}) == [
        ("tags", "removed", "a", MISSING),
        ("tags", "added", MISSING, "d"),
    ]


def test_members_of_a_set_are_compared_by_type():
    assert len(diff_nodes(tagged("set", [1]), tagged("set", [True]))) == 2


# -- lists --------------------------------------------------------------------


def row(k, **more):
    return {"id": f"r{k}", "total": k * 10, "note": "same"} | more


@given(st.integers(1, 30), st.data())
def test_one_insertion_into_a_list_of_dicts_is_one_change(size, data):
    before = [row(k) for k in range(size)]
    at = data.draw(st.integers(0, size))
    after = [*before[:at], row(99), *before[at:]]
    assert changes({"items": before}, {"items": after}) == [
        (f"items[{at}]", "added", MISSING, row(99))
    ]
    assert changes({"items": after}, {"items": before}) == [
        (f"items[{at}]", "removed", row(99), MISSING)
    ]


@given(st.integers(0, 2**32), st.sampled_from(["rows", "few values", "one value"]))
def test_twenty_insertions_are_at_most_forty_changes(seed, kind):
    chance = random.Random(seed)
    make = {"rows": row, "few values": lambda k: k % 5, "one value": lambda _k: 0}[kind]
    before = [make(k) for k in range(600)]
    after = list(before)
    for k in range(20):
        after.insert(chance.randrange(len(after)), make(k + 1_000))
    found = diff_nodes(before, after)
    assert len(found) <= 40
    assert {d.kind for d in found} == {"added"}


def test_an_edit_inside_an_item_is_a_change_of_its_leaf():
    before = [row(k) for k in range(5)]
    after = [*before[:2], row(2, total=-1), *before[3:]]
    assert changes(before, after) == [("[2].total", "changed", 20, -1)]


def test_an_edit_behind_an_insertion_stays_an_edit_and_counts_positions_after():
    before = [row(1), row(2), row(3)]
    after = [row(1), row(8), row(2, total=-1), row(3)]
    assert changes(before, after) == [
        ("[1]", "added", MISSING, row(8)),
        ("[2].total", "changed", 20, -1),
    ]


def test_an_edited_sentence_is_found_behind_a_new_one():
    before = ["revenue grew by ten percent", "x"]
    after = ["margins are thin", "revenue grew by nine percent", "x"]
    assert changes(before, after) == [
        ("[0]", "added", MISSING, after[0]),
        ("[1]", "changed", before[0], after[1]),
    ]


def test_rows_that_all_changed_are_still_told_apart_by_what_names_them():
    before = [{"name": f"g{k}", "total": k} for k in range(200)]
    after = [{"name": f"g{k}", "total": -k - 1} for k in range(200)]
    after.insert(3, {"name": "new", "total": 0})
    found = diff_nodes(before, after)
    assert [d.path for d in found if d.kind == "added"] == ["[3]"]
    assert [d.path for d in found if d.kind == "changed"][:4] == [
        "[0].total",
        "[1].total",
        "[2].total",
        "[4].total",
    ]
    assert len(found) == 201


def test_lists_that_all_changed_are_told_apart_by_their_first_element():
    before = [[f"g{k}", k] for k in range(60)]
    after = [["new", 0], *([f"g{k}", -k - 1] for k in range(60))]
    found = diff_nodes(before, after)
    assert (found[0].path, found[0].kind) == ("[0]", "added")
    assert [d.path for d in found[1:3]] == ["[1][1]", "[2][1]"]


def test_a_replaced_scalar_is_a_change_and_no_removal():
    assert changes([1, 2, 3], [1, 5, 3]) == [("[1]", "changed", 2, 5)]
    assert changes([1, 2], [8, 9]) == [("[0]", "changed", 1, 8), ("[1]", "changed", 2, 9)]


def test_a_replaced_run_that_grew_has_changes_and_an_addition():
    assert changes([0, 1, 9], [0, 2, 3, 9]) == [
        ("[1]", "changed", 1, 2),
        ("[2]", "added", MISSING, 3),
    ]


def test_an_item_that_left_and_one_that_came_are_two_changes_in_a_list_of_one_length():
    before = list(range(100))
    after = [*before[:3], *before[4:20], "new", *before[20:]]
    assert changes(before, after) == [
        ("[3]", "removed", 3, MISSING),
        ("[19]", "added", MISSING, "new"),
    ]


def test_a_shifted_list_of_one_length_is_a_removal_and_an_addition_though_some_positions_agree():
    assert changes([1, 1, 2, 2, 3, 3], [1, 2, 2, 3, 3, 4]) == [
        ("[1]", "removed", 1, MISSING),
        ("[5]", "added", MISSING, 4),
    ]


def test_one_percent_of_a_long_list_is_one_percent_of_changes():
    before = [row(k) for k in range(3_000)]
    after = [row(k, total=-1) if k % 100 == 7 else row(k) for k in range(3_000)]
    assert [d.path for d in diff_nodes(before, after)] == [
        f"[{k}].total" for k in range(7, 3_000, 100)
    ]


def test_equal_lists_have_no_rows():
    assert list(item_rows([1, 2, 3], [1, 2, 3])) == []


# -- depth --------------------------------------------------------------------


def nested(depth, leaf):
    node = leaf
    for k in range(depth):
        wraps = (
            [node],
            {"k": node},
            tagged("tuple", [node, k]),
            {"$": "dataclass", "c": "m:A", "v": {"f": node, "n": k}},
        )
        node = wraps[k % 4]
    return node


def test_a_difference_six_hundred_levels_down_is_found_without_deep_recursion():
    frame, used = sys._getframe(), 0
    while frame:
        frame, used = frame.f_back, used + 1
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(used + 60)
    try:
        [delta] = diff_nodes(nested(600, 1), nested(600, 2))
        assert strict_equal(nested(600, 1), nested(600, 1))
    finally:
        sys.setrecursionlimit(limit)
    assert (delta.kind, delta.before, delta.after) == ("changed", 1, 2)
    assert len(parse(delta.path)) == 600


def test_a_delta_is_a_plain_frozen_value():
    delta = Delta("a", 1, MISSING, "removed")
    told = "Delta(path='a', before=1, after=<missing>, kind='removed', was_at=None)"
    assert repr(delta) == told
    with pytest.raises(AttributeError):
        delta.path = "b"
