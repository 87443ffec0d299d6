"""What is drawn of a run's graph: boxes and lines in pixels, and the words in them.

A run that loops visits an action again, so its steps are in one box with a sign per visit, and
the transition back is a line in a lane below. The static SVG and the widget draw the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from rewind_nb._drawing import GAP, HEIGHT, LEFT, PITCH, Scale, line
from rewind_nb._html._parts import count, seconds, signed, spent
from rewind_nb._layout import Layout, Route, layered
from rewind_nb._text import HOW, clip, columns, how, visible

if TYPE_CHECKING:
    from rewind_nb._run import Run, Step

__all__ = ["RUNNING", "Box", "Drawing", "Line", "drawing", "facts_of", "is_running"]

MAX_SIGNS = 9
MAX_TOLD = 12
MAX_NAME = 20  # columns
MAX_WHY = 400  # characters of a reason in a tooltip
MARGIN = 6
BEHIND = 4  # that the card behind another stands out
RUNNING = ("◔", "warn")


@dataclass(frozen=True, slots=True)
class Box:
    """An action on the path with its steps; none for the one that would be next.

    Attributes:
        x: left; `y`: top; in pixels, as `width` and `height`.
        signs: the sign and colour of each visit, the first few.
        words: behind the signs.
        look: ``failed``, ``next`` or the source that tells most.
        how: what a fork did about it, None where that is not told.
        forked: whether the fork starts at one of its steps.
        stacked: whether tasks ran inside.
        told: everything, for a tooltip.
    """

    action: str
    name: str
    steps: tuple[Step, ...]
    x: float
    y: float
    width: float
    height: float
    signs: tuple[tuple[str, str], ...]
    words: str
    look: str
    how: str | None
    forked: bool
    stacked: bool
    told: str


@dataclass(frozen=True, slots=True)
class Line:
    """A transition between two actions.

    Attributes:
        path: of the line and `tip` of its arrow head, as SVG takes them.
        taken: how often; 0 for one that would be next.
        back: whether it leads back to an action on the way.
        lane: 0 inside the layers, else below or above them.
        label: where the number of times stands; None inside the layers.
        told: both ends and the conditions.
    """

    source: str
    target: str
    path: str
    tip: str
    taken: int
    back: bool
    lane: int
    label: tuple[float, float] | None
    told: str


@dataclass(frozen=True, slots=True)
class Drawing:
    """A graph in pixels; `left_out` actions are not drawn."""

    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[Line, ...]
    left_out: int


def drawing(run: Run, most: int | None = None) -> Drawing:
    """What is drawn of a run.

    Args:
        most: how many actions at most.
    """
    visits, taken = _path(run)
    shown = dict(list(visits.items())[:most])
    edges = [edge for edge in taken if edge[0] in shown and edge[1] in shown]
    layout = layered(shown, edges)
    fork = run.origin.at if run.origin and run.kind == "fork" else None
    above = MARGIN + max(HEIGHT / 2 + (0 if fork is None else 14), 14 - layout.top * PITCH)
    widest = max((_needed(name, steps) for name, steps in shown.items()), default=0)
    scale = Scale(widest, above)
    lines = [
        _line(route, taken[route.source, route.target], shown, scale) for route in layout.routes
    ]
    boxes = [_box(run, name, steps, layout, scale, fork) for name, steps in shown.items()]
    return Drawing(*_size(layout, scale), tuple(boxes), tuple(lines), len(visits) - len(shown))


def _path(run: Run) -> tuple[dict[str, tuple[Step, ...]], dict[tuple[str, str], list[str]]]:
    """The steps of each action in order of first visit, the conditions of each transition."""
    visits: dict[str, list[Step]] = {}
    for step in run.steps:
        visits.setdefault(step.action, []).append(step)
    taken: dict[tuple[str, str], list[str]] = {}
    for step, following in pairwise(run.steps):
        condition = str((step.transition or {}).get("condition") or "default")
        taken.setdefault((step.action, following.action), []).append(condition)
    if run.next_action is not None and run.steps and run.steps[-1].status == "complete":
        visits.setdefault(run.next_action, [])
        taken.setdefault((run.steps[-1].action, run.next_action), [])
    return {action: tuple(steps) for action, steps in visits.items()}, taken


def _size(layout: Layout[str], scale: Scale) -> tuple[int, int]:
    across = max(0, layout.layers * (scale.width + GAP) - GAP)  # a run that has just begun has none
    lines = (scale.at(point)[0] for route in layout.routes for point in route.points)
    last = max((place.y for place in layout.positions.values()), default=0) * PITCH + HEIGHT / 2
    width = max([LEFT + across, *lines]) + LEFT + BEHIND
    return round(width), round(scale.above + max(last, layout.bottom * PITCH) + MARGIN)


def _needed(action: str, steps: tuple[Step, ...]) -> float:
    """The width that both lines of a box need."""
    name = columns(clip(visible(action), MAX_NAME))
    signs = min(max(len(steps), 1), MAX_SIGNS) * 14
    return round(max(26 + 7.9 * name, 20 + signs + 6.3 * columns(_words(steps))))


# -- boxes ----------------------------------------------------------------------------


def _box(
    run: Run,
    action: str,
    steps: tuple[Step, ...],
    layout: Layout[str],
    scale: Scale,
    fork: int | None,
) -> Box:
    x, y = scale.at(layout.positions[action])
    forks = run.kind == "fork"
    # The visit that a fork had most to do with.
    told = min(steps, key=lambda step: HOW.index(how(step))) if forks and steps else None
    last = steps[-1] if steps else None
    failed = last is not None and last.status == "failed"
    look = "next" if last is None else "failed" if failed else (told or last).source
    return Box(
        action=action,
        name=clip(visible(action), MAX_NAME),
        steps=steps,
        x=round(x - scale.width / 2, 1),
        y=round(y - HEIGHT / 2, 1),
        width=scale.width,
        height=HEIGHT,
        signs=tuple(
            RUNNING if is_running(run, step) else signed(step) for step in steps[:MAX_SIGNS]
        ),
        words="running" if last is not None and is_running(run, last) else _words(steps),
        look=look,
        how=None if told is None or failed else how(told),
        forked=fork is not None and any(step.seq == fork for step in steps),
        stacked=any(step.tasks for step in steps),
        told=_told(run, action, steps),
    )


def _words(steps: tuple[Step, ...]) -> str:
    """The outcome of the only visit, with the number of its tasks; else how many visits."""
    if not steps:
        return "next"
    if len(steps) > 1:
        return f"\u00d7{len(steps)}"
    [step] = steps
    tasks = f", {count(len(step.tasks), 'task')}" if step.tasks else ""
    did = how(step) if step.source == "reused" else step.source
    return f"{did if step.status == 'complete' else step.status}{tasks}"


def _told(run: Run, action: str, steps: tuple[Step, ...]) -> str:
    more = len(steps) - MAX_TOLD
    said = [action[:200]]
    for step in steps[:MAX_TOLD]:
        said.append(facts_of(step))
        if because := run.explanation.of(step):
            said.append(f"    {because[:MAX_WHY]}")
    return "\n".join([*said, *([f"… {count(more, 'more visit')}"] if more > 0 else [])])


def is_running(run: Run, step: Step) -> bool:
    """Whether a step is being executed right now."""
    return step.row.status == "open" and run.status == "running"


def facts_of(step: Step) -> str:
    """A step in one line."""
    return (
        f"step {step.seq}, visit {step.visit}: {step.source}, {step.status}, "
        f"{seconds(step.duration_s)}, {spent(step.total_usage)}, hash {(step.hash or '-')[:12]}"
        + (f", {count(len(step.tasks), 'task')}" if step.tasks else "")
    )


# -- lines ----------------------------------------------------------------------------


def _line(
    route: Route[str], conditions: list[str], visits: Mapping[str, tuple[Step, ...]], scale: Scale
) -> Line:
    drawn, tip = line(route, scale)
    told = f"{route.source[:200]} → {route.target[:200]}"
    for condition, times in Counter(conditions).items():
        told += f"\n{condition[:200]}" + (f", taken {times} times" if times > 1 else "")
    label = None
    if route.lane:
        (x0, y), (x1, _) = map(scale.at, route.points[-3:-1])
        label = ((x0 + x1) / 2, y - 3)
    taken = len(conditions) if visits[route.target] else 0
    return Line(route.source, route.target, drawn, tip, taken, route.back, route.lane, label, told)
