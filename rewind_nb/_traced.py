"""Which step of a fork made a field of the state differ from what it was in the parent.

The values of a key are compared each time that either side changed it. Where a field differed
already and the fork has the same there as before, who made it differ is known; else it was
the step after which it does::

    step            0 plan     1 analyse        2 note            3 compose
    parent's `doc`  {a: 1}     {a: 2}           {a: 2, n: "x"}
    fork's `doc`    {a: 1}     {a: 5}           {a: 5, n: "y"}    reads `doc`
                               a: 1 analyse     a: 1 analyse, n: 2 note

A task starts with a state that its step passed on, so that the difference is older, or made.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from rewind_nb._both import Both
from rewind_nb._changes import Pair
from rewind_nb._codec._reread import Pool
from rewind_nb._diff import MISSING, Delta, Known, Missing, Node, diff_nodes, strict_equal
from rewind_nb._held import START, Held, Moment
from rewind_nb._items import only_added
from rewind_nb._pairs import Nesting
from rewind_nb._path import join
from rewind_nb._run import Run
from rewind_nb._store._nodes import Nodes

MOST = 64  # differences of a key that are followed


class Spot(NamedTuple):
    """As a pair is entered, or left; before the first one it is `START`, left."""

    n: int
    leaving: bool = False


BEGINNING = Spot(START, leaving=True)


class Changer(NamedTuple):
    """Who made something differ.

    Attributes:
        spot: as that step was left; as it was entered, where an override of the state did it.
        made: whether it made the task in which that differs from the beginning.
    """

    spot: Spot
    made: bool = False


Fields = list[tuple[Delta, Changer | None]]
"""Differences, each with who made it; None where it was so from the beginning."""


class Traced(NamedTuple):
    """What differs in a key at a spot.

    Attributes:
        fields: the first differences, in document order.
        more: whether there are others behind them.
    """

    fields: Fields
    more: bool = False


class _Both(NamedTuple):
    """What the two sides hold at a key from a spot on, as hashes."""

    spot: Spot
    before: str | None
    after: str | None


class Traces:
    """Who made the two sides of aligned steps differ.

    Args:
        runs: both, of one store.
        pairs: their steps, aligned.
    """

    def __init__(self, runs: tuple[Run, Run], pairs: Sequence[Pair]) -> None:
        self.runs = runs
        self.pairs = pairs
        self.nesting = Nesting(pairs)
        self.both = Both(runs, pairs, self.nesting)
        self._nodes = Nodes(runs[0].store, Pool())
        self._known: Known = {}
        self._histories: dict[tuple[str, str], _History] = {}

    def differences(self, path: str, key: str, spot: Spot) -> Traced:
        """The fields of a key that differ at a spot of a trajectory."""
        if (path, key) not in self._histories:
            self._histories[path, key] = _History(self._history(path, key))
        return self._histories[path, key].at(spot)

    def reordered(self, path: str, spot: Spot) -> Changer | None:
        """Who made the order of the keys differ at a spot of a trajectory."""
        found = None
        for here in self._spots(path):
            if here > spot:
                break
            before, after = (side.keys_at(moment) for side, moment in self._moments(path, here))
            found = None if before == after else found or Changer(here)
        if found is None or found.spot != BEGINNING:
            return found
        owner = self._owner(path)
        return None if owner is None else Changer(Spot(owner), made=True)

    # -- one key along a trajectory ---------------------------------------------------------

    def _history(
        self, path: str, key: str, most: int | None = MOST
    ) -> Iterator[tuple[Spot, Traced]]:
        """The differences from each spot on at which either side changed the key.

        Args:
            most: how many of them are followed. A history that lost a thousand lines differs
                in all of them at each step from there on.
        """
        traced, was = Traced([]), None
        for both in self._versions(path, key):
            last, was = was, self._both_nodes(both)
            if traced.more and last and only_added(last, was):
                yield both.spot, traced  # the first of them are the same
                continue
            deltas = self._deltas(key, both, was, most)
            more = most is not None and len(deltas) > most
            deltas = deltas[:most]
            if both.spot == BEGINNING:
                traced = Traced(self._from_outside(path, key, both, deltas), more)
            else:
                fields, known = _carried(deltas, traced.fields, Changer(both.spot))
                if traced.more and not known:  # it may have been among those not followed
                    exact = self._history(path, key, None)
                    yield from ((spot, found) for spot, found in exact if spot >= both.spot)
                    return
                traced = Traced(fields, more)
            yield both.spot, traced

    def _from_outside(self, path: str, key: str, both: _Both, deltas: list[Delta]) -> Fields:
        """The differences that a trajectory begins with: passed on to it, or made with it."""
        n = self._owner(path)
        if n is None:
            return [(delta, None) for delta in deltas]
        outer = self.pairs[n].shown.path
        if None not in self.pairs[n] and self._at(outer, key, Spot(n)) == both[1:]:
            return self.differences(outer, key, Spot(n)).fields
        return [(delta, Changer(Spot(n), made=True)) for delta in deltas]

    def _versions(self, path: str, key: str) -> Iterator[_Both]:
        """What both sides hold, each time that it is something else."""
        last = None
        for spot in self._spots(path):
            now = self._at(path, key, spot)
            if now != last:
                yield _Both(spot, *now)
            last = now

    def _both_nodes(self, both: _Both) -> tuple[Node | Missing, Node | Missing]:
        before, after = (
            MISSING if digest is None else self._nodes.node(digest) for digest in both[1:]
        )
        return before, after

    def _deltas(
        self, key: str, both: _Both, nodes: tuple[Node | Missing, Node | Missing], most: int | None
    ) -> list[Delta]:
        """The first differences, one more than *most*."""
        if both.before == both.after:
            return []
        top, (before, after) = join("", key), nodes
        if before is MISSING or after is MISSING:
            return [Delta(top, before, after, "added" if before is MISSING else "removed")]
        return diff_nodes(before, after, top, self._known, None if most is None else most + 1)

    # -- the two sides of a spot ------------------------------------------------------------

    def _at(self, path: str, key: str, spot: Spot) -> tuple[str | None, str | None]:
        """What each side holds at a key."""
        before, after = (side.at(key, moment) for side, moment in self._moments(path, spot))
        return before, after

    def _owner(self, path: str) -> int | None:
        """The pair that a task is in."""
        return self.nesting.owner[self.nesting.lanes[path][0]]

    def _spots(self, path: str) -> Iterator[Spot]:
        yield BEGINNING
        for n in self.nesting.lanes[path]:
            yield Spot(n)
            yield Spot(n, leaving=True)

    def _moments(self, path: str, spot: Spot) -> Iterator[tuple[Held, Moment]]:
        """A spot as each side counts its steps; a side that has no step there is where it was."""
        for side, moment in zip(self.both.held[path], self._counted[path][spot.n], strict=True):
            yield side, moment if moment.leaving else Moment(moment.seq, spot.leaving)

    @cached_property
    def _counted(self) -> dict[str, dict[int, list[Moment]]]:
        """By trajectory and pair: each side's step there, or its last one, left."""
        counted: dict[str, dict[int, list[Moment]]] = {}
        for path, lane in self.nesting.lanes.items():
            here = [Moment(*BEGINNING)] * 2
            counted[path] = {START: here}
            for n in lane:
                here = [
                    Moment(was.seq, leaving=True) if step is None else Moment(step.seq)
                    for was, step in zip(here, self.pairs[n], strict=True)
                ]
                counted[path][n] = here
        return counted


class _History:
    """The differences of a key from spot to spot, found no further than they are asked for."""

    def __init__(self, coming: Iterator[tuple[Spot, Traced]]) -> None:
        self._coming = coming
        self._spots: list[Spot] = []
        self._found: list[Traced] = []
        self._all = False

    def at(self, spot: Spot) -> Traced:
        while not self._all and (not self._spots or self._spots[-1] <= spot):
            following = next(self._coming, None)
            if following is None:
                self._all = True
            else:
                self._spots.append(following[0])
                self._found.append(following[1])
        return self._found[bisect_right(self._spots, spot) - 1]


def _carried(deltas: list[Delta], earlier: Fields, here: Changer) -> tuple[Fields, bool]:
    """Each difference with who made it: as before where it was there already, else *here*.

    It was where the field held the same in the fork, and not in the parent, whatever that had.

    Returns:
        Them, and whether the last one was there already: those in front of it stand in front
        of the last that is known from before, so that they were not there.
    """
    known: dict[tuple[str, bool], Fields] = {}
    for old, changer in earlier:
        known.setdefault((old.path, old.kind == "order"), []).append((old, changer))
    fields: Fields = []
    carried = True
    for delta in deltas:
        made = (
            changer
            for old, changer in known.get((delta.path, delta.kind == "order"), ())
            if _same(old.after, delta.after)
            and (delta.after is not MISSING or _same(old.before, delta.before))
        )
        found = next(made, here)
        carried = found is not here
        fields.append((delta, found))
    return fields, carried


def _same(before: Node | Missing, after: Node | Missing) -> bool:
    return before is after or strict_equal(before, after)
