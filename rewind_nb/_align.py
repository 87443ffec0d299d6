"""Which items of two sequences belong together.

Everything here is about order: a pairing never crosses itself, so both sides stay
readable from top to bottom. `common_subsequence` finds equal items and costs about
linear time on the inputs that occur (equal, mostly equal, rewritten, repetitive):

1. an equal start and end are cut off;
2. a few edits are found exactly (Myers 1986), whatever repeats;
3. otherwise items that occur once on both sides are anchors (patience diff), and the
   gaps between them are handled the same way;
4. a gap that has neither is called replaced as a whole.

`difflib.SequenceMatcher` is not used: it is quadratic where items repeat, and the
heuristic that saves it drops the very items that repeat.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import pairwise, zip_longest
from typing import NamedTuple, TypeVar

__all__ = ["Gap", "align", "best_pairs", "between", "common_subsequence", "facing", "gaps"]

K = TypeVar("K", bound=Hashable)
Pair = tuple[int, int]

MIN_EDITS, MAX_EDITS = 64, 256
EDIT_BUDGET = 4_000_000  # compared items, the worst case of one exact search
MAX_ANCHOR_ROUNDS = 12  # sequences made to split badly must not cost quadratic time


class Gap(NamedTuple):
    """A run ``before[b0:b1]`` that faces a run ``after[a0:a1]``."""

    b0: int
    b1: int
    a0: int
    a1: int

    @property
    def sizes(self) -> tuple[int, int]:
        """How many items face how many."""
        return self.b1 - self.b0, self.a1 - self.a0

    def absolute(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Pairs counted from the start of this gap, as pairs of the whole sequences."""
        return [(self.b0 + i, self.a0 + j) for i, j in pairs]


def align(before: Sequence[K], after: Sequence[K]) -> list[tuple[int | None, int | None]]:
    """Pair the steps of two trajectories by key, each step exactly once.

    Rows follow the common order. Between two rows of it, what only the first side has
    comes first, then the second side in its order; a key that moved is paired where
    the second side has it.

    Args:
        before: keys of the first side, each occurring once.
        after: keys of the second side, each occurring once.

    Returns:
        Rows of (index before, index after), None where a side has no such key.

    Example:
        >>> align(["plan", "search", "write"], ["plan", "write", "review"])
        [(0, 0), (1, None), (2, 1), (None, 2)]
    """
    where = {key: i for i, key in enumerate(before)}
    partners = [where.get(key) for key in after]
    common = longest_increasing([(i, j) for j, i in enumerate(partners) if i is not None])
    paired = {i for i in partners if i is not None}
    rows: list[tuple[int | None, int | None]] = []
    runs = between(common, Gap(0, len(before), 0, len(after)))
    for gap, anchor in zip_longest(runs, common):
        rows += [(i, None) for i in range(gap.b0, gap.b1) if i not in paired]
        rows += [(partners[j], j) for j in range(gap.a0, gap.a1)]
        rows += [anchor] if anchor else []
    return rows


def common_subsequence(before: Sequence[Hashable], after: Sequence[Hashable]) -> list[Pair]:
    """Index pairs of equal items, increasing on both sides; the most where edits are few.

    A search for few edits comes before the anchors: one unique item that moved must not
    tear apart the repetitive rest.

    Example:
        >>> common_subsequence("abcd", "xbcy")
        [(1, 1), (2, 2)]
    """
    pairs: list[Pair] = []
    todo = [(Gap(0, len(before), 0, len(after)), 0)]
    while todo:
        gap, rounds = todo.pop()
        gap = _trim(before, after, gap, pairs)
        if 0 in gap.sizes:
            continue
        few = _few_edits(before, after, gap)
        if few is not None:
            pairs += few
        elif rounds < MAX_ANCHOR_ROUNDS and (anchors := _unique_anchors(before, after, gap)):
            pairs += anchors
            todo += [(inner, rounds + 1) for inner in gaps(anchors, gap)]
    return sorted(pairs)


def gaps(pairs: Sequence[Pair], whole: Gap) -> Iterator[Gap]:
    """The runs that an increasing pairing leaves over, in order.

    Example:
        >>> list(gaps([(1, 1)], Gap(0, 2, 0, 4)))
        [Gap(b0=0, b1=1, a0=0, a1=1), Gap(b0=2, b1=2, a0=2, a1=4)]
    """
    return (gap for gap in between(pairs, whole) if gap.sizes != (0, 0))


def facing(pairs: Sequence[Pair], whole: Gap) -> Iterator[Gap]:
    """Rows of at most one item a side: pairs face each other, the rest by position.

    Example:
        >>> [row.sizes for row in facing([(0, 1)], Gap(0, 2, 0, 4))]
        [(0, 1), (1, 1), (1, 1), (0, 1)]
    """
    b, a = whole.b0, whole.a0
    for i, j in (*pairs, (whole.b1, whole.a1)):
        for k in range(max(i - b, j - a)):
            yield Gap(min(b + k, i), min(b + k + 1, i), min(a + k, j), min(a + k + 1, j))
        if i < whole.b1:  # a pair, not the end
            yield Gap(i, i + 1, j, j + 1)
        b, a = i + 1, j + 1


def best_pairs(before: int, after: int, similarity: Callable[[int, int], float]) -> list[Pair]:
    """The increasing pairing with the largest sum of squared similarities.

    Squared, so that one good pair wins over two poor ones. Costs ``before * after``
    calls of `similarity`; items with similarity 0 stay unpaired.

    Example:
        >>> best_pairs(1, 2, lambda i, j: 0.9 if j == 1 else 0.1)
        [(0, 1)]
    """
    best = [[0.0] * (after + 1) for _ in range(before + 1)]
    for i in reversed(range(before)):
        for j in reversed(range(after)):
            together = similarity(i, j) ** 2 + best[i + 1][j + 1]
            best[i][j] = max(together, best[i + 1][j], best[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < before and j < after:
        if best[i][j] == best[i + 1][j]:
            i += 1
        elif best[i][j] == best[i][j + 1]:
            j += 1
        else:
            pairs.append((i, j))
            i, j = i + 1, j + 1
    return pairs


def longest_increasing(pairs: Sequence[Pair]) -> list[Pair]:
    """The longest run of pairs, ascending in the second index, whose first index ascends too."""
    tails: list[int] = []  # tails[n]: smallest end of an increasing run of n + 1 pairs
    ends: list[int] = []  # the pair that has this end
    previous: list[int] = []
    for position, (first, _) in enumerate(pairs):
        n = bisect_left(tails, first)
        previous.append(ends[n - 1] if n else -1)
        tails[n : n + 1] = [first]
        ends[n : n + 1] = [position]
    run: list[Pair] = []
    position = ends[-1] if ends else -1
    while position >= 0:
        run.append(pairs[position])
        position = previous[position]
    return run[::-1]


def between(pairs: Sequence[Pair], gap: Gap) -> Iterator[Gap]:
    """The runs before, between and after these pairs, empty ones included."""
    corners = [(gap.b0 - 1, gap.a0 - 1), *pairs, (gap.b1, gap.a1)]
    for (b, a), (b2, a2) in pairwise(corners):
        yield Gap(b + 1, b2, a + 1, a2)


def _trim(
    before: Sequence[Hashable], after: Sequence[Hashable], gap: Gap, pairs: list[Pair]
) -> Gap:
    """Cut an equal start and end off, noting their pairs."""
    b0, b1, a0, a1 = gap
    while b0 < b1 and a0 < a1 and before[b0] == after[a0]:
        pairs.append((b0, a0))
        b0, a0 = b0 + 1, a0 + 1
    while b0 < b1 and a0 < a1 and before[b1 - 1] == after[a1 - 1]:
        b1, a1 = b1 - 1, a1 - 1
        pairs.append((b1, a1))
    return Gap(b0, b1, a0, a1)


def _unique_anchors(before: Sequence[Hashable], after: Sequence[Hashable], gap: Gap) -> list[Pair]:
    """Items that occur once in each run, as far as they keep their order."""
    counts = Counter(before[gap.b0 : gap.b1])
    where = {before[i]: i for i in range(gap.b0, gap.b1) if counts[before[i]] == 1}
    counts = Counter(after[gap.a0 : gap.a1])
    once = (j for j in range(gap.a0, gap.a1) if counts[after[j]] == 1)
    return longest_increasing([(where[after[j]], j) for j in once if after[j] in where])


def _few_edits(
    before: Sequence[Hashable], after: Sequence[Hashable], gap: Gap
) -> list[Pair] | None:
    """The pairs that the shortest edit script keeps, or None where the script is long.

    Myers' greedy search. A diagonal is ``i - j``; ``reach[diagonal]`` is the furthest i
    on it for the edits spent so far. Each round's start is kept for the way back. The search
    for a script that is too long costs the most, so it is not begun where the items alone,
    whatever their order, say that it will be.
    """
    n, m = gap.sizes
    limit = min(n + m, MAX_EDITS, max(MIN_EDITS, EDIT_BUDGET // (n + m)))
    in_both = _in_both(before, after, gap)
    if not in_both:
        return []
    if n + m - 2 * in_both > limit:
        return None
    reach = {1: 0}
    rounds: list[dict[int, int]] = []
    for edits in range(limit + 1):
        rounds.append(dict(reach))
        for diagonal in range(-edits, edits + 1, 2):
            i = _start(reach, diagonal, edits)
            while i < n and i - diagonal < m and before[gap.b0 + i] == after[gap.a0 + i - diagonal]:
                i += 1
            reach[diagonal] = i
        if reach.get(n - m, 0) >= n:
            return gap.absolute(_walk_back(rounds, n, m))
    return None


def _in_both(before: Sequence[Hashable], after: Sequence[Hashable], gap: Gap) -> int:
    """How many items the runs could share at most: each as often as both have it."""
    left = Counter(before[gap.b0 : gap.b1])
    found = 0
    for item in after[gap.a0 : gap.a1]:
        if left.get(item):
            left[item] -= 1
            found += 1
    return found


def _start(reach: dict[int, int], diagonal: int, edits: int) -> int:
    """Where this round's edit lands on the diagonal."""
    if _inserts(reach, diagonal, edits):
        return reach[diagonal + 1]
    return reach[diagonal - 1] + 1


def _inserts(reach: dict[int, int], diagonal: int, edits: int) -> bool:
    """Whether the edit is an insertion; a removal is taken where both got equally far."""
    if diagonal in (-edits, edits):
        return diagonal == -edits
    return reach[diagonal - 1] < reach[diagonal + 1]


def _walk_back(rounds: list[dict[int, int]], i: int, j: int) -> list[Pair]:
    pairs: list[Pair] = []
    for edits in reversed(range(len(rounds))):
        reach, diagonal = rounds[edits], i - j
        start = _start(reach, diagonal, edits)
        pairs += [(k, k - diagonal) for k in range(start, i)]
        inserted = _inserts(reach, diagonal, edits)
        i, j = (start, start - diagonal - 1) if inserted else (start - 1, start - diagonal)
    return pairs
