"""Paths: one spelling, read back to exactly what was written."""

from __future__ import annotations

import copy
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rewind_nb._path import MISSING, Root, bracket, get, join, parse, render
from rewind_nb.errors import ConfigError

KEYS = st.text() | st.sampled_from(
    ["", ".", "[0]", '"', "\\", "a b", "@result", "0", "-", "é", "$"]
)
PARTS = st.lists(KEYS | st.integers(0, 10**6), max_size=6)


@given(PARTS)
@example(["\n", "\x00", "😀", "e\u0301", "\ue000"])
def test_every_path_reads_back_to_its_parts(parts):
    assert parse(render(parts)) == tuple(parts)


@given(PARTS, PARTS)
def test_different_parts_are_written_differently(left, right):
    assert (render(left) == render(right)) == (left == right)


@given(st.text())
def test_a_text_is_a_path_or_a_config_error_with_a_position(text):
    refused = None
    try:
        assert parse(render(parse(text))) == parse(text)
    except ConfigError as error:
        refused = error
    assert refused is None or (refused.path == text and 0 <= refused.position < len(text))


@pytest.mark.parametrize(
    ("parts", "path"),
    [
        ((), ""),
        (("report", "groups", "A", "total"), "report.groups.A.total"),
        (("items", 3, "name"), "items[3].name"),
        (("report", "a.b"), 'report["a.b"]'),
        (("", "x"), '[""].x'),
        (("gpt-4", "2024-01-01", "0"), "gpt-4.2024-01-01.0"),
        ((0, 1), "[0][1]"),
        (("größe",), "größe"),
        (("a\tb",), '["a\\tb"]'),
        (("zero\u200bwidth",), '["zero\\u200bwidth"]'),
    ],
)
def test_paths_are_written_one_way(parts, path):
    assert render(parts) == path
    assert parse(path) == parts


def test_an_index_and_a_key_of_digits_differ():
    assert join("items", 3) != join("items", "3")
    assert [type(part) for part in parse("items[3].3")] == [str, int, str]


@pytest.mark.parametrize("path", ["@result", "@inputs.question", "@calls[0].request"])
def test_a_root_beside_the_state_reads_back(path):
    parts = parse(path)
    assert isinstance(parts[0], Root)
    assert render(parts) == path


def test_a_state_key_named_like_a_root_stays_a_key():
    assert join("", "@result") == '["@result"]'
    assert not isinstance(parse('["@result"]')[0], Root)


def test_a_root_extends_like_any_path():
    assert join("@result", "report") == "@result.report"


def test_brackets_can_be_asked_for():
    assert bracket("counts", "1") == 'counts["1"]'
    assert parse(bracket("counts", "1")) == ("counts", "1")


@pytest.mark.parametrize(
    ("path", "position"),
    [
        (".a", 0),
        ("a.", 1),
        ("a..b", 1),
        ("a[x]", 1),
        ("a[-1]", 1),
        ("a[03]", 1),
        ("a[0]b", 4),
        ("a b", 1),
        ('a["b]', 1),
        ('a["\\x"]', 1),
        ("a.@result", 1),
        ("a@result", 1),
        ("@a@b", 2),
        ("a[0", 1),
    ],
)
def test_what_is_no_path_is_refused_with_its_position(path, position):
    with pytest.raises(ConfigError, match=f"character {position} ") as caught:
        parse(path)
    assert caught.value.position == position


def test_a_negative_index_is_refused():
    with pytest.raises(ConfigError, match="count from 0"):
        join("items", -1)


def test_get_walks_dicts_lists_and_tuples():
    value = {"a.b": [{"x": None}, (1, 2)]}
    assert get(value, '["a.b"][0].x') is None
    assert get(value, '["a.b"][1][1]') == 2
    assert get(value, ["a.b", 1, 0]) == 1
    assert get(value, "") is value


@pytest.mark.parametrize("path", ["b", "a[2]", "a.0", "[0]", "a[0].x", "n.x"])
def test_get_of_what_is_not_there_is_missing(path):
    assert get({"a": [1, 2], "n": None}, path) is MISSING


def test_get_does_not_count_from_the_end():
    assert get([1, 2], [-1]) is MISSING


def test_missing_is_one_falsy_value_that_survives_copy_and_pickle():
    assert not MISSING
    assert MISSING is not None
    assert repr(MISSING) == str(MISSING) == "<missing>"
    assert copy.deepcopy(MISSING) is copy.copy(MISSING) is MISSING
    assert pickle.loads(pickle.dumps(MISSING)) is MISSING
