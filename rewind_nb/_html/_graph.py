"""The path of a run as an inline SVG: a box per action, a line per transition taken.

A run that loops visits an action again, so its steps are drawn in one box with a sign per
visit, and the transition back is a line in a lane below. Boxes stand in layers from left to
right (`_layout`). The boxes of a fork show by their frames what it did about each step.
Nothing is referred to by id or URL: arrow heads are drawn as triangles.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from rewind_nb._html._markup import Child, Html, join, note, tag
from rewind_nb._html._parts import count, seconds, signed, spent
from rewind_nb._layout import Layout, Point, Route, layered
from rewind_nb._text import HOW, clip, columns, how, visible

if TYPE_CHECKING:
    from rewind_nb._run import Run, Step

__all__ = ["graph"]

MAX_BOXES = 100
MAX_SIGNS = 9
MAX_TOLD = 12
MAX_NAME = 20  # columns
MAX_WHY = 400  # characters of a reason in a tooltip
GAP, HEIGHT, PITCH = 26, 46, 64  # pixels
LEFT, MARGIN = 1, 6
CORNER = 6
BEHIND = 4  # that the card behind another stands out


class _Box(NamedTuple):
    """An action on the path, with its steps; none for the one that would be next."""

    action: str
    steps: tuple[Step, ...]


class _Scale(NamedTuple):
    """From layers and rows to pixels."""

    width: float  # of a box
    above: float  # from the top of the drawing to the centres of the first row

    def at(self, point: Point) -> tuple[float, float]:
        x = LEFT + self.width / 2 + point.x * (self.width + GAP)
        y = self.above + point.y * PITCH
        return round(x, 1), round(y, 1)


def graph(run: Run) -> Html:
    """The graph of a run's executed steps."""
    boxes, taken = _path(run)
    shown = dict(list(boxes.items())[:MAX_BOXES])
    edges = [edge for edge in taken if edge[0] in shown and edge[1] in shown]
    if not shown:
        return Html("")
    layout = layered(shown, edges)
    fork = run.origin.at if run.origin and run.kind == "fork" else None
    above = MARGIN + max(HEIGHT / 2 + (0 if fork is None else 14), 14 - layout.top * PITCH)
    scale = _Scale(max(map(_needed, shown.values())), above)
    lines = [
        _edge(route, taken[route.source, route.target], shown, scale) for route in layout.routes
    ]
    cards = [
        _card(run, box, scale.at(layout.positions[name]), scale, fork)
        for name, box in shown.items()
    ]
    left_out = len(boxes) - len(shown)
    return join(
        tag("div", _svg(layout, scale, [*lines, *cards]), class_="rw-scroll"),
        note(f"… {left_out} more actions not drawn") if left_out else None,
    )


def _svg(layout: Layout[str], scale: _Scale, parts: list[Html]) -> Html:
    boxes = layout.layers * (scale.width + GAP) - GAP
    lines = (scale.at(point)[0] for route in layout.routes for point in route.points)
    width = max([LEFT + boxes, *lines]) + LEFT + BEHIND
    last = max(place.y for place in layout.positions.values()) * PITCH + HEIGHT / 2
    height = scale.above + max(last, layout.bottom * PITCH) + MARGIN
    box = (round(width), round(height))
    label = f"graph of {len(layout.positions)} actions"
    return tag(
        "svg",
        *parts,
        width=box[0],
        height=box[1],
        viewBox=f"0 0 {box[0]} {box[1]}",
        role="img",
        aria_label=label,
    )


def _path(run: Run) -> tuple[dict[str, _Box], dict[tuple[str, str], list[str]]]:
    """The boxes in order of first visit, and the conditions of each transition taken."""
    visits: dict[str, list[Step]] = {}
    for step in run.steps:
        visits.setdefault(step.action, []).append(step)
    taken: dict[tuple[str, str], list[str]] = {}
    for step, following in pairwise(run.steps):
        condition = str((step.transition or {}).get("condition") or "default")
        taken.setdefault((step.action, following.action), []).append(condition)
    boxes = {action: _Box(action, tuple(steps)) for action, steps in visits.items()}
    if run.next_action is not None and run.steps and run.steps[-1].status == "complete":
        boxes.setdefault(run.next_action, _Box(run.next_action, ()))
        taken.setdefault((run.steps[-1].action, run.next_action), [])
    return boxes, taken


# -- boxes ----------------------------------------------------------------------------


def _card(
    run: Run, box: _Box, centre: tuple[float, float], scale: _Scale, fork: int | None
) -> Html:
    x, y = round(centre[0] - scale.width / 2, 1), round(centre[1] - HEIGHT / 2, 1)
    forks = run.kind == "fork"
    told = _most(box) if forks and box.steps else box.steps[-1] if box.steps else None
    look = "next" if told is None else "failed" if box.steps[-1].status == "failed" else told.source
    frame_class = f"rw-card rw-card-{look}"
    if forks and told is not None and look != "failed":
        frame_class += f" rw-how-{how(told)}"
    frame = {"x": x, "y": y, "width": scale.width, "height": HEIGHT, "rx": 5}
    bar = tag("rect", x=x, y=y + 6, width=4, height=HEIGHT - 12, rx=2, class_="rw-bar")
    forked = fork is not None and any(step.seq == fork for step in box.steps)
    return tag(
        "g",
        tag("title", _tooltip(run, box)),
        _behind(box, x, y, scale),
        tag("rect", **frame, class_=frame_class),
        bar if box.steps else None,
        tag("text", clip(visible(box.action), MAX_NAME), x=x + 12, y=y + 19),
        tag("text", *_second_line(box), x=x + 12, y=y + 36, class_="rw-small"),
        tag("text", "▼ fork", x=x, y=y - 5, class_="rw-small") if forked else None,
        class_=f"rw-{'bad' if look == 'failed' else look}",
    )


def _most(box: _Box) -> Step:
    """The visit of an action that a fork had most to do with."""
    return min(box.steps, key=lambda step: HOW.index(how(step)))


def _behind(box: _Box, x: float, y: float, scale: _Scale) -> Html | None:
    """The edge of a second card behind one whose steps have tasks."""
    if not any(step.tasks for step in box.steps):
        return None
    right, bottom = x + scale.width, y + HEIGHT
    line = f"M{x + 6} {bottom + 3}H{right - 2}Q{right + 3} {bottom + 3} {right + 3} {bottom - 2}V{y + 6}"
    return tag("path", d=line, class_="rw-behind")


def _needed(box: _Box) -> float:
    """The width that both lines of a box need."""
    name = columns(clip(visible(box.action), MAX_NAME))
    signs = min(len(box.steps), MAX_SIGNS) * 14
    words = len(_told_once(box.steps[0])) if len(box.steps) == 1 else len(str(len(box.steps))) + 1
    return round(max(26 + 7.9 * name, 20 + signs + 6.3 * words))


def _second_line(box: _Box) -> list[Child]:
    """The source of the only visit in words, else a sign per visit."""
    if not box.steps:
        return ["next"]
    if len(box.steps) == 1:
        return [_sign(box.steps[0]), f" {_told_once(box.steps[0])}"]
    signs = [join(_sign(step), " ") for step in box.steps[:MAX_SIGNS]]
    return [*signs, f"\u00d7{len(box.steps)}"]


def _told_once(step: Step) -> str:
    """The outcome of the only visit, with the number of its tasks."""
    tasks = f", {count(len(step.tasks), 'task')}" if step.tasks else ""
    did = how(step) if step.source == "reused" else step.source
    return f"{did if step.status == 'complete' else step.status}{tasks}"


def _sign(step: Step) -> Html:
    sign, colour = signed(step)
    return tag("tspan", sign, class_=f"rw-sign rw-{colour}")


def _tooltip(run: Run, box: _Box) -> str:
    more = len(box.steps) - MAX_TOLD
    last = [f"… {more} more visits"] if more > 0 else []
    told = (line for step in box.steps[:MAX_TOLD] for line in _told(run, step))
    return "\n".join([box.action[:200], *told, *last])


def _told(run: Run, step: Step) -> list[str]:
    because = run.explanation.of(step)
    return [_facts(step), *([f"    {because[:MAX_WHY]}"] if because else [])]


def _facts(step: Step) -> str:
    return (
        f"step {step.seq}, visit {step.visit}: {step.source}, {step.status}, "
        f"{seconds(step.duration_s)}, {spent(step.total_usage)}, hash {(step.hash or '-')[:12]}"
        + (f", {count(len(step.tasks), 'task')}" if step.tasks else "")
    )


# -- lines ----------------------------------------------------------------------------


def _edge(route: Route[str], conditions: list[str], boxes: dict[str, _Box], scale: _Scale) -> Html:
    points = [scale.at(point) for point in route.points]
    drawn, tip = _lane(points, scale) if route.lane else _curve(points, scale)
    words = f"{route.source[:200]} → {route.target[:200]}"
    for condition, times in Counter(conditions).items():
        words += f"\n{condition[:200]}" + (f", taken {times} times" if times > 1 else "")
    unseen = " rw-edge-next" if not boxes[route.target].steps or not conditions else ""
    return tag(
        "g",
        tag("title", words),
        tag("path", d=drawn, class_=f"rw-edge{unseen}"),
        tag("path", d=tip, class_="rw-tip"),
        _times(points, len(conditions)) if route.lane and len(conditions) > 1 else None,
    )


def _times(points: list[tuple[float, float]], times: int) -> Html:
    (x0, y), (x1, _) = points[-3], points[-2]
    words = f"\u00d7{times}"
    return tag("text", words, x=(x0 + x1) / 2, y=y - 3, class_="rw-small", text_anchor="middle")


Pixels = tuple[float, float]


def _curve(points: list[Pixels], scale: _Scale) -> tuple[str, str]:
    """Curves from the right of a box to the left of the next, straight past places between."""
    half = scale.width / 2
    path = f"M{points[0][0] + half} {points[0][1]}"
    for (x0, y0), (x1, y1) in pairwise(points):
        start, end = x0 + half, x1 - half
        middle = round((start + end) / 2, 1)
        path += f"L{start} {y0}C{middle} {y0} {middle} {y1} {end} {y1}"
    x, y = points[-1][0] - half, points[-1][1]
    return path, f"M{x} {y}l-7 -3.5v7z"


def _lane(points: list[Pixels], scale: _Scale) -> tuple[str, str]:
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


def _at_edge(centre: Pixels, following: Pixels, scale: _Scale) -> Pixels:
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
