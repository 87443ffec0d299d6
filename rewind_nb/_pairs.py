"""The steps of two runs side by side, those of tasks included, each behind what it rests on.

Steps are aligned by (path, action, visit). A step ends after the tasks inside it, so it
stands behind them; tasks stand in their order, and so do the steps of a task::

    each:1[0]/search:1   each:1[0]/grade:1   each:1[1]/search:1   ...   each:1   report:1
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rewind_nb._align import align
from rewind_nb._changes import Pair
from rewind_nb._lane import key_order
from rewind_nb._run import Step


def paired(before: Sequence[Step], after: Sequence[Step]) -> Iterator[Pair]:
    """The steps of two trajectories and of the tasks inside them, each step exactly once."""
    keys = ([(step.action, step.visit) for step in side] for side in (before, after))
    for i, j in align(*keys):
        pair = Pair(None if i is None else before[i], None if j is None else after[j])
        ours, theirs = ({} if step is None else step.tasks for step in pair)
        for key in sorted({**ours, **theirs}, key=key_order):
            yield from paired(ours.get(key, ()), theirs.get(key, ()))
        yield pair


class Nesting:
    """Which pairs are inside which, by their positions.

    Attributes:
        owner: for each pair, the one that it is in a task of; None for those of the run itself.
        first: for each pair, the first one inside it; itself where there is none.
        lanes: the pairs of each trajectory, by its path, in order.
        tasks: for each pair that has any, the paths of its tasks, in order.
    """

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.owner: list[int | None] = [None] * len(pairs)
        self.first = list(range(len(pairs)))
        self.lanes: dict[str, list[int]] = {}
        self.tasks: dict[int, list[str]] = {}
        waiting: list[int] = []  # whose owner has not come yet
        for n, pair in enumerate(pairs):
            inside = f"{pair.shown.address}["
            while waiting and pairs[waiting[-1]].shown.path.startswith(inside):
                inner = waiting.pop()
                self.owner[inner], self.first[n] = n, self.first[inner]
            self.lanes.setdefault(pair.shown.path, []).append(n)
            if pair.shown.path:
                waiting.append(n)
        for path, lane in self.lanes.items():
            owner = self.owner[lane[0]]
            if owner is not None:
                self.tasks.setdefault(owner, []).append(path)

    def around(self, n: int) -> Iterator[int]:
        """A pair, the one it is inside of, and so on out to one of the run itself."""
        inner: int | None = n
        while inner is not None:
            yield inner
            inner = self.owner[inner]
