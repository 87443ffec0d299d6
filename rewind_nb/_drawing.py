"""From layers and rows to pixels: where the boxes of a graph are, and the paths of its lines.

The static SVG and the widget draw the same coordinates.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

from rewind_nb._layout import Point, Route

__all__ = ["GAP", "HEIGHT", "LEFT", "PITCH", "Scale", "line"]

GAP, HEIGHT, PITCH = 26, 46, 64  # pixels: between layers, of a box, from row to row
LEFT = 1
CORNER = 6

Pixels = tuple[float, float]


class Scale(NamedTuple):
    """How large a layer and a row are drawn.

    Attributes:
        width: of a box.
        above: from the top of the drawing to the centres of the first row.
    """

    width: float
    above: float

    def at(self, point: Point) -> Pixels:
        """The centre of a box in pixels."""
        x = LEFT + self.width / 2 + point.x * (self.width + GAP)
        y = self.above + point.y * PITCH
        return round(x, 1), round(y, 1)


def line(route: Route[Any], scale: Scale) -> tuple[str, str]:
    """The path of an edge and that of its arrow head, as SVG takes them.

    Example:
        >>> from rewind_nb._layout import layered
        >>> [route] = layered("ab", [("a", "b")]).routes
        >>> line(route, Scale(100, 30))
        ('M101.0 30.0L101.0 30.0C114.0 30.0 114.0 30.0 127.0 30.0', 'M127.0 30.0l-7 -3.5v7z')
    """
    points = [scale.at(point) for point in route.points]
    return _lane(points, scale) if route.lane else _curve(points, scale)


def _curve(points: list[Pixels], scale: Scale) -> tuple[str, str]:
    """Curves from the right of a box to the left of the next, straight past places between."""
    half = scale.width / 2
    path = f"M{points[0][0] + half} {points[0][1]}"
    for (x0, y0), (x1, y1) in pairwise(points):
        start, end = x0 + half, x1 - half
        middle = round((start + end) / 2, 1)
        path += f"L{start} {y0}C{middle} {y0} {middle} {y1} {end} {y1}"
    x, y = points[-1][0] - half, points[-1][1]
    return path, f"M{x} {y}l-7 -3.5v7z"


def _lane(points: list[Pixels], scale: Scale) -> tuple[str, str]:
    """Right angles with round corners, from the edge of a box to the edge of another."""
    first = _at_edge(points[0], points[1], scale)
    last = _at_edge(points[-1], points[-2], scale)
    way = [first, *points[1:-1], last]
    path = f"M{first[0]} {first[1]}"
    for before, corner, after in zip(way, way[1:], way[2:], strict=False):
        path += f"L{_towards(corner, before)}Q{corner[0]} {corner[1]} {_towards(corner, after)}"
    path += f"L{last[0]} {last[1]}"
    across = points[-1][0] != points[-2][0]
    if across:
        return path, f"M{last[0]} {last[1]}l-7 -3.5v7z"
    rise = 7 if points[-2][1] > points[-1][1] else -7
    return path, f"M{last[0]} {last[1]}l-3.5 {rise}h7z"


def _at_edge(centre: Pixels, following: Pixels, scale: Scale) -> Pixels:
    """Where a line from the centre of a box leaves it."""
    (x, y), (to_x, to_y) = centre, following
    if x != to_x:
        return (round(x + (scale.width / 2 if to_x > x else -scale.width / 2), 1), y)
    return (x, y + (HEIGHT / 2 if to_y > y else -HEIGHT / 2))


def _towards(corner: Pixels, other: Pixels) -> str:
    """The point CORNER pixels from a corner, or half of what there is."""
    away = [o - c for c, o in zip(corner, other, strict=True)]
    length = abs(away[0]) + abs(away[1])
    part = min(CORNER, length / 2) / length if length else 0
    return " ".join(f"{round(c + part * a, 1)}" for c, a in zip(corner, away, strict=True))
