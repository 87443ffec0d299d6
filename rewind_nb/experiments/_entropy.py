"""Which fields of what steps wrote move from run to run, and how much."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rewind_nb._codec._reread import Pool
from rewind_nb._leaves import leaves
from rewind_nb._path import join
from rewind_nb._steps import Step
from rewind_nb._store import Store
from rewind_nb._store._nodes import Nodes

MISSING = ""  # the encoding of nothing: no encoding of a value is empty


@dataclass(frozen=True, slots=True)
class Moving:
    """A field that has several values over some runs.

    Attributes:
        path: of a leaf of what the step wrote; ``@error`` where it failed otherwise, ``@result``
            where only what the action returned differs.
        distinct: how many values it has, being missing among them.
        share: that of the most frequent one.
        entropy: of their distribution, from 0 (always one value) to 1 (another in every run):
            Shannon's, divided by the logarithm of the number of runs.
    """

    path: str
    distinct: int
    share: float
    entropy: float


class FieldsOf:
    """The leaves of stored values, each value read once."""

    def __init__(self, store: Store) -> None:
        self._nodes = Nodes(store, Pool())
        self._known: dict[tuple[str, str], dict[str, str]] = {}

    def __call__(self, key: str, digest: str) -> dict[str, str]:
        """The leaves of one value: by path, each as its encoding."""
        if (key, digest) not in self._known:
            self._known[key, digest] = dict(encoded(key, self._nodes.node(digest)))
        return self._known[key, digest]


def encoded(key: str, node: object) -> list[tuple[str, str]]:
    """The leaves of a node, each with its encoding.

    Example:
        >>> encoded("fare", {"usd": 450.0, "left": None})
        [('fare.usd', '450.0'), ('fare.left', 'null')]
    """
    found = leaves(join("", key), node, {})
    return [(path, json.dumps(leaf, ensure_ascii=False)) for path, leaf in found]


def moving(steps: Sequence[Step], fields: FieldsOf) -> tuple[Moving, ...]:
    """The fields of one step that have several values over some runs, in their order."""
    written = [dict(step.row.writes) for step in steps]
    keys = dict.fromkeys(key for one in written for key in one)
    changing = [key for key in keys if len({one.get(key) for one in written}) > 1]
    found = []
    for key in changing:
        each = [fields(key, one[key]) if key in one else {} for one in written]
        paths = dict.fromkeys(path for one in each for path in one)
        found += [_moving(path, [one.get(path, MISSING) for one in each]) for path in paths]
    errors = [f"{s.error.type}: {s.error.message}" if s.error else MISSING for s in steps]
    found.append(_moving("@error", errors))
    found = [one for one in found if one.distinct > 1]
    if not found:
        found = [_moving("@result", [step.row.result or MISSING for step in steps])]
    return tuple(one for one in found if one.distinct > 1)


def _moving(path: str, values: Sequence[str]) -> Moving:
    counts = Counter(values)
    return Moving(path, len(counts), max(counts.values()) / len(values), entropy(counts.values()))


def entropy(counts: Iterable[int]) -> float:
    """Shannon's entropy of a distribution, divided by the most that so many draws can have.

    Example:
        >>> entropy([4]), entropy([1, 1, 1, 1]), round(entropy([2, 2]), 3)
        (0.0, 1.0, 0.5)
    """
    listed = list(counts)
    total = sum(listed)
    if total < 2:
        return 0.0
    bits = -sum(count / total * math.log2(count / total) for count in listed)
    return max(0.0, bits / math.log2(total))
