"""The noise floor: whether runs differ from others by more than they differ from each other.

Pure. Two runs are as far apart as the number of fields in which they differ. The runs of A are
compared with each other (A/A) and with those of B (A/B). Were B no other than A, then it would
be chance which of all runs are called B; so the same is asked of other choices of as many, and
p is the share of choices that are as far apart as what was seen (an exact permutation test; by
9,999 draws where there are more choices than that: B. Phipson and G. K. Smyth, Permutation
P-values should never be zero, Statistical Applications in Genetics and Molecular Biology 9,
2010, article 39). With one run of B that is the rank of its distance among those of A's own.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rewind_nb._describe import plural

CERTAIN = 0.05  # p at or under which the difference is called larger
DRAWS = 9_999
EXACTLY = 10_000  # choices that are all looked at

Fields = Mapping[str, str]  # path of a leaf -> its value's encoding


@dataclass(frozen=True, slots=True)
class Noise:
    """How far runs are from others, beside how far they are from each other.

    Attributes:
        own: how many runs A has.
        others: how many B has.
        fields: how many fields were looked at.
        within: the mean share of them in which two runs of A differ; None with fewer than two.
        between: in which a run of A and one of B differ; None where one has none.
        p: the share of choices that are as far apart; None where nothing can be compared.
        least: the smallest that `p` could be with so many runs.
        moved: the fields whose values are other ones in B than in any run of A.
    """

    own: int
    others: int
    fields: int
    within: float | None
    between: float | None
    p: float | None
    least: float
    moved: tuple[str, ...]

    @property
    def verdict(self) -> Literal["larger", "within", "unknown"]:
        """``larger``, ``within``, or ``unknown`` where so few runs could show nothing."""
        if self.p is None or self.least > CERTAIN:
            return "unknown"
        return "larger" if self.p <= CERTAIN else "within"

    @property
    def words(self) -> str:
        """It in words, with the numbers."""
        if self.p is None or self.within is None or self.between is None:
            return "too few runs came to an end to compare them"
        seen = (
            f"in {_share(self.between)} of {plural(self.fields, 'field')} it differs from that on average, "
            f"and in {_share(self.within)} from itself"
        )
        if self.verdict == "unknown":
            return f"too few runs to tell (p is {_p(self.least)} at least): {seen}"
        p = f"p = {_p(self.p)}" if self.p > self.least else f"p = {_p(self.p)}, the least possible"
        if self.verdict == "larger":
            return f"the difference is larger than the run's own variation ({p}): {seen}"
        return f"the difference is within the run's own variation ({p}): {seen}"

    def __repr__(self) -> str:
        return f"<Noise {self.own} against {plural(self.others, 'run')}: {self.words}>"


def compared(own: Sequence[Fields], others: Sequence[Fields]) -> Noise:
    """Compare the runs of A with each other and with those of B.

    Example:
        >>> same, other = {"total": "5"}, {"total": "7"}
        >>> compared([same] * 20, [other]).verdict, compared([same] * 20, [same]).verdict
        ('larger', 'within')
        >>> compared([same] * 5, [other]).words
        'too few runs to tell (p is 0.17 at least): in 100% of 1 field it differs from that on average, and in 0% from itself'
    """
    runs = [*own, *others]
    paths = list(dict.fromkeys(path for run in runs for path in run))
    m, n = len(own), len(others)
    known = [{run.get(path) for run in own} for path in paths]
    moved = tuple(
        path
        for path, values in zip(paths, known, strict=True)
        if others and own and not any(run.get(path) in values for run in others)
    )
    choices = math.comb(m + n, n)
    exact = choices <= EXACTLY
    least = 1 / choices if exact else 1 / (DRAWS + 1)
    if m < 2 or n < 1 or not paths:
        return Noise(m, n, len(paths), None, None, None, least, moved)
    varying = [path for path in paths if len({run.get(path) for run in runs}) > 1]
    apart = [[sum(a.get(p) != b.get(p) for p in varying) for b in runs] for a in runs]
    totals = [sum(row) for row in apart]

    def excess(chosen: Sequence[int]) -> int:
        """A/B minus A/A, over a common denominator, where these runs are called A."""
        inside = sum(apart[i][j] for i, j in itertools.combinations(chosen, 2))
        across = sum(totals[i] for i in chosen) - 2 * inside
        return across * (m - 1) - 2 * inside * n

    seen = excess(range(m))
    others_seen = [excess(chosen) >= seen for chosen in _choices(m, n, exact=exact)]
    extra = 0 if exact else 1  # the choice that was made, which is among all but not the drawn
    p = (sum(others_seen) + extra) / (len(others_seen) + extra)
    inside = sum(apart[i][j] for i, j in itertools.combinations(range(m), 2))
    across = sum(apart[i][j] for i in range(m) for j in range(m, m + n))
    size = len(paths)
    within = inside / (m * (m - 1) / 2) / size
    return Noise(m, n, size, within, across / (m * n) / size, p, least, moved)


def _choices(m: int, n: int, *, exact: bool) -> Iterable[Sequence[int]]:
    """Which runs are called A: each way there is, or a fixed number of ways drawn at random."""
    if exact:
        yield from itertools.combinations(range(m + n), m)
        return
    drawn = random.Random(0)
    for _ in range(DRAWS):
        yield drawn.sample(range(m + n), m)


def _share(value: float) -> str:
    return f"{value:.0%}" if value in (0, 1) or value >= 0.01 else f"{value:.1%}"


def _p(value: float) -> str:
    return f"{value:.2g}"
