"""What changed in prose, word by word.

Nothing is lost: the kept and removed pieces together are the text before, the kept and
added pieces the text after, whitespace included. Numbers such as ``1,034.25`` are one
word. A text of more than `MAX_TOKENS` words is compared by lines, one of more lines
than that is shown as replaced, so the time is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby, zip_longest
from operator import itemgetter
from typing import Literal

from rewind_nb._align import Gap, between, common_subsequence

__all__ = ["shared_ends", "shared_start", "word_diff"]

Change = Literal["same", "removed", "added"]

MAX_TOKENS = 50_000
LONGEST = 200  # characters of what is taken for one word
WORDS = re.compile(r"\w+(?:[.,'\u2019-]\w+)*|\s+|[^\w\s]")
LINES = re.compile(r"[^\n]*\n|[^\n]+")


def word_diff(before: str, after: str) -> list[tuple[Change, str]]:
    """Split two texts into pieces that are the same, removed or added.

    Args:
        before: a text of any length.
        after: a text of any length.

    Returns:
        Pieces in reading order, none empty, no two neighbours alike; what was removed
        stands before what replaced it.

    Example:
        >>> word_diff("A total of 12 units.", "A total of 15 units!")
        ... # doctest: +NORMALIZE_WHITESPACE
        [('same', 'A total of '), ('removed', '12'), ('added', '15'),
         ('same', ' units'), ('removed', '.'), ('added', '!')]
    """
    for tokens in (WORDS, LINES):
        old, new = tokens.findall(before), tokens.findall(after)
        if max(len(old), len(new)) <= MAX_TOKENS:
            return _pieces(old, new)
    return _pieces([before], [after])


def _pieces(old: list[str], new: list[str]) -> list[tuple[Change, str]]:
    tagged = groupby(_tagged(old, new), key=itemgetter(0))
    return [(change, "".join(text for _, text in tokens)) for change, tokens in tagged]


def _tagged(old: list[str], new: list[str]) -> Iterator[tuple[Change, str]]:
    pairs = _without_lonely_spaces(common_subsequence(old, new), old, new)
    for gap, pair in zip_longest(between(pairs, Gap(0, len(old), 0, len(new))), pairs):
        yield from (("removed", token) for token in old[gap.b0 : gap.b1])
        yield from (("added", token) for token in new[gap.a0 : gap.a1])
        if pair:
            yield "same", old[pair[0]]


def _without_lonely_spaces(
    pairs: list[tuple[int, int]], old: list[str], new: list[str]
) -> list[tuple[int, int]]:
    """Drop a kept space between two changed words: a replaced phrase reads as one."""
    kept = {(-1, -1), *pairs, (len(old), len(new))}
    return [
        (i, j)
        for i, j in pairs
        if not old[i].isspace() or (i - 1, j - 1) in kept or (i + 1, j + 1) in kept
    ]


def shared_start(before: str | bytes, after: str | bytes) -> int:
    """How many leading characters are the same; halved, for texts of many megabytes."""
    low, high = 0, min(len(before), len(after))
    while low < high:
        middle = (low + high + 1) // 2
        same = before[low:middle] == after[low:middle]
        low, high = (middle, high) if same else (low, middle - 1)
    return low


def shared_ends(before: str, after: str) -> tuple[int, int]:
    """How many characters two texts begin and end with alike, up to the bound of a word.

    Example:
        >>> shared_ends("about 12 units", "about 13 units")
        (6, 6)
    """
    start = _words_alike(before, after)
    return start, _words_alike(before[start:][::-1], after[start:][::-1])


def _words_alike(before: str, after: str) -> int:
    same = shared_start(before, after)
    if same == len(before) == len(after):
        return same
    earliest = max(0, same - LONGEST)
    return next((n for n in range(same, earliest, -1) if before[n - 1].isspace()), earliest)
