"""Alignment: what belongs together in two sequences, and in two texts."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewind_nb._align import (
    Gap,
    align,
    best_pairs,
    common_subsequence,
    facing,
    gaps,
    longest_increasing,
)
from rewind_nb._words import MAX_TOKENS, word_diff

STEPS = st.lists(st.integers(0, 12), unique=True)
ITEMS = st.lists(st.integers(0, 4), max_size=14)
PROSE = st.text(alphabet="ab.,\n é7'") | st.text()


# -- steps --------------------------------------------------------------------


@given(STEPS, STEPS)
def test_every_step_of_both_sides_has_exactly_one_row(before, after):
    rows = align(before, after)
    assert sorted(i for i, _ in rows if i is not None) == list(range(len(before)))
    assert sorted(j for _, j in rows if j is not None) == list(range(len(after)))


@given(STEPS, STEPS)
def test_two_steps_share_a_row_exactly_where_their_keys_are_equal(before, after):
    together = {before[i] for i, j in align(before, after) if None not in (i, j)}
    assert together == set(before) & set(after)
    assert all(before[i] == after[j] for i, j in align(before, after) if None not in (i, j))


@given(STEPS, STEPS)
def test_the_second_side_is_always_in_execution_order(before, after):
    assert [j for _, j in align(before, after) if j is not None] == list(range(len(after)))


@given(STEPS, STEPS.map(set))
def test_both_sides_are_in_execution_order_where_nothing_moved(before, dropped):
    after = [key for key in before if key not in dropped]
    assert [i for i, _ in align(before, after)] == list(range(len(before)))


def test_a_loop_that_ran_longer_adds_rows_in_place():
    before = [("search", 1), ("judge", 1), ("write", 1)]
    after = [("search", 1), ("judge", 1), ("search", 2), ("judge", 2), ("write", 1)]
    assert align(before, after) == [(0, 0), (1, 1), (None, 2), (None, 3), (2, 4)]


def test_a_step_that_moved_is_paired_once():
    assert align(["a", "b", "c"], ["c", "a", "b"]) == [(2, 0), (0, 1), (1, 2)]


def test_steps_only_one_side_has_stand_first_side_first():
    assert align(["a", "x", "z"], ["a", "y", "z"]) == [(0, 0), (1, None), (None, 1), (2, 2)]


def test_ten_thousand_steps_align_whatever_their_order():
    keys = list(range(10_000))
    shuffled = random.Random(1).sample(keys, len(keys))
    assert align(keys, keys) == [(k, k) for k in keys]
    assert len(align(keys, keys[::-1])) == len(align(keys, shuffled)) == len(keys)


# -- common subsequence -------------------------------------------------------


def lcs_length(before, after):
    row = [0] * (len(after) + 1)
    for item in before:
        previous = row
        row = [0]
        for j, other in enumerate(after):
            row.append(previous[j] + 1 if item == other else max(row[j], previous[j + 1]))
    return row[-1]


def assert_common(pairs, before, after):
    assert all(before[i] == after[j] for i, j in pairs)
    assert all(i < i2 and j < j2 for (i, j), (i2, j2) in zip(pairs, pairs[1:], strict=False))


@given(ITEMS, ITEMS)
def test_common_items_of_short_sequences_are_the_most_there_can_be(before, after):
    pairs = common_subsequence(before, after)
    assert_common(pairs, before, after)
    assert len(pairs) == lcs_length(before, after)


@settings(deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([3, 50, 10_000]))
def test_common_items_of_long_sequences_are_equal_and_in_order(seed, alphabet):
    chance = random.Random(seed)
    before = [chance.randrange(alphabet) for _ in range(400)]
    after = [chance.randrange(alphabet) if chance.random() < 0.7 else item for item in before]
    assert_common(common_subsequence(before, after), before, after)


def test_a_few_insertions_are_found_where_everything_repeats():
    before = [k % 7 for k in range(5_000)]
    after = list(before)
    for k in range(20):
        after.insert(k * 240 + 3, 9)
    assert len(common_subsequence(before, after)) == len(before)


def test_one_item_that_moved_does_not_tear_the_rest_apart():
    rest = [0] * 1_000
    assert len(common_subsequence(["x", *rest], [*rest, "x"])) == 1_000


def test_many_edits_are_found_by_what_is_unique():
    before = list(range(3_000))
    after = [-k if k % 3 == 0 else k for k in before]
    after.insert(1_500, "new")
    assert len(common_subsequence(before, after)) == 2_001  # 0 is its own negative


def test_sequences_without_anything_in_common_have_no_pairs():
    assert common_subsequence(range(2_000), range(2_000, 5_000)) == []


class Counted:
    """An item that counts how often it is compared."""

    compared = 0

    def __init__(self, key):
        self.key = key

    def __hash__(self):
        return hash(self.key)

    def __eq__(self, other):
        Counted.compared += 1
        return self.key == other.key


@pytest.mark.parametrize(("size", "shared"), [(100, 0), (1_000, 0), (1_000, 10)])
def test_runs_with_little_in_common_are_not_searched_for_a_short_script(size, shared):
    before = [Counted(k) for k in range(size)]
    after = [Counted(k if k < shared else -k - 1) for k in reversed(range(size))]
    Counted.compared = 0
    pairs = common_subsequence(before, after)

    assert len(pairs) == min(shared, 1)
    assert Counted.compared < 20 * size


@given(st.lists(st.integers(0, 30), unique=True))
def test_the_longest_increasing_run_is_the_longest(order):
    pairs = [(first, second) for second, first in enumerate(order)]
    run = longest_increasing(pairs)
    assert run == sorted(run)
    assert len(run) == lcs_length(order, sorted(order))


@given(ITEMS, ITEMS)
def test_pairs_and_gaps_together_are_the_whole(before, after):
    pairs = common_subsequence(before, after)
    found = list(gaps(pairs, Gap(0, len(before), 0, len(after))))
    assert sum(gap.sizes[0] for gap in found) == len(before) - len(pairs)
    assert sum(gap.sizes[1] for gap in found) == len(after) - len(pairs)


@given(ITEMS, ITEMS)
def test_facing_rows_hold_every_item_once_and_in_order(before, after):
    rows = list(facing(common_subsequence(before, after), Gap(0, len(before), 0, len(after))))
    assert [row.b0 for row in rows if row.sizes[0]] == list(range(len(before)))
    assert [row.a0 for row in rows if row.sizes[1]] == list(range(len(after)))
    assert all(max(row.sizes) == 1 for row in rows)


def test_one_good_pair_wins_over_two_poor_ones():
    table = [[0.0, 0.4, 0.0], [0.6, 0.0, 0.4]]
    assert best_pairs(2, 3, lambda i, j: table[i][j]) == [(1, 0)]


def test_items_that_are_not_alike_stay_unpaired():
    assert best_pairs(2, 2, lambda _i, _j: 0.0) == []


# -- prose --------------------------------------------------------------------


def sides(pieces):
    before = "".join(text for change, text in pieces if change != "added")
    after = "".join(text for change, text in pieces if change != "removed")
    return before, after


@given(PROSE, PROSE)
def test_a_word_diff_holds_both_texts_whole(before, after):
    assert sides(word_diff(before, after)) == (before, after)


@given(PROSE, PROSE)
def test_the_pieces_of_a_word_diff_are_never_empty_and_alternate(before, after):
    pieces = word_diff(before, after)
    assert all(text for _, text in pieces)
    assert all(left[0] != right[0] for left, right in zip(pieces, pieces[1:], strict=False))


@given(PROSE)
def test_an_unchanged_text_is_one_same_piece(text):
    assert word_diff(text, text) == ([("same", text)] if text else [])


def test_a_changed_number_is_one_word():
    assert word_diff("total 1,034.25 EUR", "total 1,034.50 EUR") == [
        ("same", "total "),
        ("removed", "1,034.25"),
        ("added", "1,034.50"),
        ("same", " EUR"),
    ]


def test_a_rewritten_phrase_is_one_removal_and_one_addition():
    assert word_diff("we buy it now", "we do not sell now") == [
        ("same", "we "),
        ("removed", "buy it"),
        ("added", "do not sell"),
        ("same", " now"),
    ]


def test_long_prose_keeps_the_words_that_stayed():
    words = [f"word{k}" for k in range(20_000)]
    changed = [f"new{k}" if k % 100 == 50 else word for k, word in enumerate(words)]
    pieces = word_diff(" ".join(words), " ".join(changed))
    assert [change for change, _ in pieces].count("removed") == 200
    assert sides(pieces) == (" ".join(words), " ".join(changed))


@pytest.mark.parametrize("line", ["a b c d\n", "a"])
def test_a_text_of_too_many_words_is_compared_by_lines_and_stays_whole(line):
    before = line * MAX_TOKENS
    after = f"x {before}y"
    assert sides(word_diff(before, after)) == (before, after)


def test_a_text_of_too_many_words_shows_the_line_that_changed():
    before = [f"line {k} of many words here\n" for k in range(MAX_TOKENS // 5)]
    after = [*before[:7], "changed\n", *before[8:]]
    assert word_diff("".join(before), "".join(after))[1:3] == [
        ("removed", before[7]),
        ("added", "changed\n"),
    ]


def test_a_text_of_too_many_lines_is_one_replaced_block():
    before, after = "a\n" * (MAX_TOKENS + 1), "a\n" * (MAX_TOKENS + 2)
    assert word_diff(before, after) == [("removed", before), ("added", after)]


def test_a_repetitive_text_of_a_hundred_kilobytes_stays_whole():
    before, after = "a " * 25_000, "b a a " * 12_500
    assert sides(word_diff(before, after)) == (before, after)
