"""The chains of what was observed to be read and written, from an override to a field.

Every chain leads from earlier pairs to later ones, so the shortest to each pair follow from the
shortest to those before it, and no chain is walked twice.

A step that only one side took is there because the sides parted, and does what it does with
what it read. Where that came from another such step, the parting is not told once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from rewind_nb._changes import STEP, Pair
from rewind_nb._describe import displayed
from rewind_nb._label import address, label
from rewind_nb._origins import Origins
from rewind_nb._readings import Origin

MAX_CHAINS = 64


class Link(NamedTuple):
    """One link of a cause: a step and the field it passed on.

    Attributes:
        path: such as ``report.total``; ``@tasks`` where a step made other tasks,
            ``@transitions`` where the way on from it was edited.
        lane: the task the step is in, such as ``map:1[0]/``; "" for a step of the run itself.

    Example:
        >>> print(Link(4, "search", "found", visit=2), Link(0, "grade", "mark", "each:1[0]/"))
        search:2 found each:1[0]/grade:1 mark
    """

    seq: int
    action: str
    path: str
    lane: str = ""
    visit: int = 1

    @property
    def address(self) -> str:
        """Where the step stands: ``search:2``, or inside a task ``map:1[0]/query:1``."""
        return address(self.lane, self.action, self.visit)

    def __str__(self) -> str:
        who = self.action if self.visit == 1 else f"{self.action}:{self.visit}"
        return displayed(f"{self.address if self.lane else who} {self.path}")

    @property
    def label(self) -> str:
        """The step in words."""
        return label(self.seq, self.action, self.visit, self.lane)


class _Chain(NamedTuple):
    """A chain of links from its last one back, so that chains share their beginnings."""

    length: int
    last: Link
    rest: _Chain | None

    def links(self) -> tuple[Link, ...]:
        found: list[Link] = []
        chain: _Chain | None = self
        while chain is not None:
            found.append(chain.last)
            chain = chain.rest
        return tuple(reversed(found))


class Chains:
    """The shortest chains to each pair, at most `MAX_CHAINS`.

    Args:
        pairs: the aligned steps, each behind what it rests on.
        origins: of what differs in them.
        begins: whether something else than what it rests on makes a pair differ.
    """

    def __init__(
        self, pairs: Sequence[Pair], origins: Origins, begins: Callable[[int], bool]
    ) -> None:
        self.pairs = pairs
        self.origins = origins
        self._begins = begins
        self._to: list[list[_Chain | None]] = []  # by position, as far as they are known
        self._by_way: dict[int, list[_Chain]] = {}  # where only one side took it
        self._by_reads: dict[int, list[_Chain]] = {}  # likewise

    def to(self, n: int, path: str) -> list[tuple[Link, ...]]:
        """Those that end at a field of a pair; at a step that only one side took, why it did."""
        self._until(n)
        chains: Sequence[_Chain | None] = self._to[n]
        if path == STEP:
            chains = self._by_way[n] or [None]
        return self._ended(chains, n, path)

    def on(self, n: int, path: str) -> list[tuple[Link, ...]]:
        """Those that end at the way on from a pair, through what its conditions read."""
        self._until(n)
        parting = self.origins.parted_at(n)
        found = [] if parting is None else self._from(self.origins.leading(parting))
        return self._ended(found[:MAX_CHAINS] or [None], n, path)

    def through(self, origins: Iterable[Origin], path: str) -> list[tuple[Link, ...]]:
        """Those that end at a field of any of some pairs, the shortest first."""
        found: list[tuple[Link, ...]] = []
        for origin in origins:
            begun = self._ended([None], origin.pair, path)
            found += begun if origin.begins else self.to(origin.pair, path)
        return sorted(dict.fromkeys(found), key=len)[:MAX_CHAINS]

    def _until(self, n: int) -> None:
        for m in range(len(self._to), n + 1):
            ways, reads = self.origins.way_to(m), self.origins.of(m)
            way, read = self._from(ways), self._from(reads, m)
            if None in self.pairs[m]:
                self._by_way[m], self._by_reads[m] = way[:MAX_CHAINS], read[:MAX_CHAINS]
                read = self._from((origin for origin in reads if origin not in ways), m)
            found = sorted([*way, *read], key=_length)
            starts = [None] if not found or self._begins(m) else []
            self._to.append([*starts, *found][:MAX_CHAINS])

    def _from(self, origins: Iterable[Origin], n: int | None = None) -> list[_Chain]:
        """The chains that lead on from some origins, to a pair, the shortest first."""
        found = [
            _Chain(1 + (chain.length if chain else 0), self._link(origin), chain)
            for origin in origins
            for chain in self._before(origin, n)
        ]
        return sorted(found, key=_length)

    def _before(self, origin: Origin, n: int | None) -> Sequence[_Chain | None]:
        if origin.begins:
            return [None]
        if n is not None and self.origins.readings.together(origin.pair, n):
            return self._by_reads[origin.pair]
        return self._to[origin.pair]

    def _ended(self, chains: Sequence[_Chain | None], n: int, path: str) -> list[tuple[Link, ...]]:
        """Chains as links, to a field of a pair; None for one that starts there."""
        end = self._link(Origin(path, n))
        ended = [(*(chain.links() if chain else ()), end) for chain in chains]
        return list(dict.fromkeys(ended))  # a step may pass on what it entered with, and changed

    def _link(self, origin: Origin) -> Link:
        step = self.pairs[origin.pair].shown
        return Link(step.seq, step.action, origin.path, step.path, step.visit)


def _length(chain: _Chain) -> int:
    return chain.length
