"""Where the boxes and lines of a directed graph go: layers from left to right.

The classic steps, each a function below: an edge that would close a cycle is a *back
edge*; without those, a node's layer is its longest way from a start; nodes within a
layer are ordered by where their neighbours are (barycentre sweeps), then moved apart
from straight lines no further than they must.

A line never runs under a box. An edge over a few layers is bent around what lies between
(through a place kept free in each layer). A back edge returns in a lane below everything,
a long forward edge takes one above. All that return to one box share a lane, as do all
long ones out of one box; lanes that would overlap are apart, the shorter nearer::

            ┌──────────── -1 ──────────┐
          [plan] → [search] → [check] → [answer]
                      └──── 1 ───┘

The unit is one layer across and one row down: whoever draws multiplies. The result
depends on the order of the arguments and nothing else.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

__all__ = ["Layout", "Point", "Route", "layered"]

Node = TypeVar("Node", bound=Hashable)
Pair = tuple[int, int]

MAX_SPAN = 6  # layers; an edge over more of them takes a lane
ORDER_SWEEPS = 8
ROW_SWEEPS = 6
LANE_START = 0.66  # rows from the centre of the outermost box to the first lane
LANE_STEP = 0.3  # rows from one lane to the next
SIDE = 0.1  # layers; a lane leaves a box right of its centre and enters left of it


class Point(NamedTuple):
    """A place: *x* in layers from the left, *y* in rows from the top."""

    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Route(Generic[Node]):
    """How one edge runs.

    Attributes:
        back: whether it closes a cycle.
        lane: 0 inside the layers, 1, 2, ... below them, -1, -2, ... above.
        points: from the centre of its source to the centre of its target. In a lane,
            where the line has right angles, the first and last may be moved sideways.
    """

    source: Node
    target: Node
    back: bool
    lane: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Layout(Generic[Node]):
    """Positions of nodes and routes of edges.

    Attributes:
        positions: the centre of each node.
        routes: each distinct edge, in the order given.
        layers: how many there are.
        top: the least *y* of any node or lane.
        bottom: the greatest.
    """

    positions: dict[Node, Point]
    routes: tuple[Route[Node], ...]
    layers: int
    top: float
    bottom: float


def layered(nodes: Iterable[Node], edges: Iterable[tuple[Node, Node]]) -> Layout[Node]:
    """Lay out a directed graph; any, also with cycles, loops and several parts.

    Args:
        nodes: in the order in which they are to be preferred as starts.
        edges: (source, target) pairs; ends that *nodes* lacks are added behind, an edge
            given twice is one.

    Example:
        >>> layout = layered("abc", [("a", "b"), ("b", "c"), ("c", "b")])
        >>> layout.positions["c"], [route.lane for route in layout.routes]
        (Point(x=2, y=0.0), [0, 0, 1])
    """
    distinct = list(dict.fromkeys(edges))
    names = list(dict.fromkeys([*nodes, *(end for edge in distinct for end in edge)]))
    number = {name: i for i, name in enumerate(names)}
    pairs = [(number[a], number[b]) for a, b in distinct]
    back = dict.fromkeys(_back_edges(len(names), pairs))
    forward = [pair for pair in pairs if pair not in back]
    layer = _layers(len(names), forward)
    outer = dict.fromkeys((a, b) for a, b in forward if layer[b] - layer[a] > MAX_SPAN)
    bends, layer_of = _bends(layer, [pair for pair in forward if pair not in outer])
    links = _Links(len(layer_of), [link for bend in bends.values() for link in pairwise(bend)])
    grid = _ordered(layer_of, links)
    points = [Point(*at) for at in zip(layer_of, _rows(grid, links), strict=True)]
    lanes = _lanes(layer, [*back], hub=1)
    lanes |= {pair: -lane for pair, lane in _lanes(layer, [*outer], hub=0).items()}
    frame = _Frame(points, len(names))
    lines = {pair: tuple(points[i] for i in bend) for pair, bend in bends.items()}
    lines |= {pair: frame.in_lane(pair, lane) for pair, lane in lanes.items()}
    return Layout(
        positions={name: points[i] for name, i in number.items()},
        routes=tuple(
            Route(*edge, back=pair in back, lane=lanes.get(pair, 0), points=lines[pair])
            for edge, pair in zip(distinct, pairs, strict=True)
        ),
        layers=max(layer, default=-1) + 1,
        top=min([0.0, *(p.y for line in lines.values() for p in line)]),
        bottom=max([frame.last, *(p.y for line in lines.values() for p in line)]),
    )


def _back_edges(count: int, pairs: list[Pair]) -> list[Pair]:
    """The edges that lead back to a node on the way from the start to here (depth first)."""
    after = _Links(count, pairs).after
    fresh, on_way, done = 0, 1, 2
    state = [fresh] * count
    back: list[Pair] = []
    for start in range(count):
        way: list[tuple[int, Iterator[int]]] = []
        if state[start] == fresh:
            state[start] = on_way
            way.append((start, iter(after[start])))
        while way:
            node, ahead = way[-1]
            following = next(ahead, None)
            if following is None:
                state[node] = done
                way.pop()
            elif state[following] == on_way:
                back.append((node, following))
            elif state[following] == fresh:
                state[following] = on_way
                way.append((following, iter(after[following])))
    return back


def _layers(count: int, forward: list[Pair]) -> list[int]:
    """The longest way from a start to each node, in edges."""
    links = _Links(count, forward)
    waiting = [len(before) for before in links.before]
    layer = [0] * count
    ready = [i for i in range(count) if waiting[i] == 0]
    for node in ready:  # grows as it goes
        for following in links.after[node]:
            layer[following] = max(layer[following], layer[node] + 1)
            waiting[following] -= 1
            if waiting[following] == 0:
                ready.append(following)
    return layer


def _bends(layer: list[int], inner: list[Pair]) -> tuple[dict[Pair, list[int]], list[int]]:
    """A place in every layer that an edge crosses, numbered behind the nodes.

    Returns each edge's numbers, ends included, and the layers of all numbers.
    """
    layer_of = list(layer)
    bends = {}
    for a, b in inner:
        crossed = range(layer[a] + 1, layer[b])
        first = len(layer_of)
        layer_of.extend(crossed)
        bends[a, b] = [a, *range(first, first + len(crossed)), b]
    return bends, layer_of


class _Links:
    """The neighbours of each number."""

    def __init__(self, count: int, links: Iterable[Pair]) -> None:
        self.before: list[list[int]] = [[] for _ in range(count)]
        self.after: list[list[int]] = [[] for _ in range(count)]
        for a, b in links:
            self.after[a].append(b)
            self.before[b].append(a)


def _ordered(layer_of: list[int], links: _Links) -> list[list[int]]:
    """Each layer's numbers from top to bottom, so that few lines cross."""
    grid: list[list[int]] = [[] for _ in range(max(layer_of, default=-1) + 1)]
    for i, layer in enumerate(layer_of):
        grid[layer].append(i)
    place = [0.0] * len(layer_of)
    for column in grid:
        _number(column, place)
    for sweep in range(ORDER_SWEEPS):
        near = links.after if sweep % 2 else links.before
        for column in reversed(grid) if sweep % 2 else grid:
            if len(column) > 1:
                middle = {i: _mean(near[i], place, place[i]) for i in column}
                column.sort(key=middle.__getitem__)
                _number(column, place)
    return grid


def _number(column: list[int], place: list[float], first: float = 0.0) -> None:
    for position, i in enumerate(column):
        place[i] = first + position


def _mean(near: list[int], place: list[float], otherwise: float) -> float:
    return sum(place[i] for i in near) / len(near) if near else otherwise


def _rows(grid: list[list[int]], links: _Links) -> list[float]:
    """Rows that keep the order, at least one apart, with lines as straight as that allows."""
    row = [0.0] * sum(map(len, grid))
    for column in grid:
        _number(column, row, first=(1 - len(column)) / 2)
    both = [a + b for a, b in zip(links.before, links.after, strict=True)]
    for sweep in range(ROW_SWEEPS):
        near = (links.before, links.after, both)[sweep % 3]
        for column in reversed(grid) if sweep % 2 else grid:
            wanted = [_mean(near[i], row, row[i]) for i in column]
            for i, found in zip(column, spread(wanted), strict=True):
                row[i] = found
    least = min(row, default=0.0)
    return [round(r - least, 3) for r in row]


def spread(wanted: list[float]) -> list[float]:
    """The nearest places (least squares) in the same order and at least one apart.

    Example:
        >>> spread([2.0, 2.0, 7.0])
        [1.5, 2.5, 7.0]
    """
    blocks: list[tuple[float, int]] = []  # (mean of wanted - position, size)
    for position, value in enumerate(wanted):
        mean, size = value - position, 1
        while blocks and blocks[-1][0] > mean:
            earlier, count = blocks.pop()
            mean = (mean * size + earlier * count) / (size + count)
            size += count
        blocks.append((mean, size))
    level = (mean for mean, size in blocks for _ in range(size))
    return [mean + position for position, mean in enumerate(level)]


def _lanes(layer: list[int], pairs: list[Pair], hub: int) -> dict[Pair, int]:
    """A lane from 1 for each edge, the same for all that share the end *hub* (0 or 1)."""
    spans: dict[int, tuple[int, int]] = {}
    for pair in pairs:
        touched = [layer[i] for i in pair]
        first, last = spans.get(pair[hub], (touched[0], touched[0]))
        spans[pair[hub]] = (min(first, *touched), max(last, *touched))
    lane: dict[int, int] = {}
    starts: list[int] = []  # of each lane: where the leftmost of those in it starts
    for node in sorted(spans, key=lambda i: (-spans[i][0], spans[i][1])):
        first, last = spans[node]
        free = next((n for n, start in enumerate(starts) if start > last), len(starts))
        starts[free : free + 1] = [first]
        lane[node] = free + 1
    return {pair: lane[pair[hub]] for pair in pairs}


class _Frame:
    """The outline of all boxes, around which the lanes run."""

    def __init__(self, points: list[Point], boxes: int) -> None:
        self.points = points
        self.ends: dict[float, tuple[float, float]] = {}  # layer -> first, last row of a box
        for x, y in points[:boxes]:
            first, last = self.ends.get(x, (y, y))
            self.ends[x] = (min(first, y), max(last, y))
        self.last = max((point.y for point in points), default=0.0)

    def level(self, lane: int) -> float:
        away = LANE_START + LANE_STEP * (abs(lane) - 1)
        return round(self.last + away if lane > 0 else -away, 3)

    def in_lane(self, pair: Pair, lane: int) -> tuple[Point, ...]:
        """From a box to its lane, along it, and to the other box."""
        source, target = (self.points[i] for i in pair)
        level = self.level(lane)
        way_out = self._beside(source, lane, SIDE, 0.5)
        way_in = self._beside(target, lane, -SIDE, -0.5)
        turns = (Point(way_out[-1].x, level), Point(way_in[-1].x, level))
        return (*way_out, *turns, *reversed(way_in))

    def _beside(self, box: Point, lane: int, side: float, gap: float) -> tuple[Point, ...]:
        """Straight down or up where the box is the outermost, else through the gap beside."""
        if box.y == self.ends[box.x][lane > 0]:
            return (Point(box.x + side, box.y),)
        return (box, Point(box.x + gap, box.y))
