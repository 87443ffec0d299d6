"""The path of a run as an inline SVG: a box per action, a line per transition taken.

The boxes of a fork show by their frames what it did about each step. Nothing is referred to
by id or URL: arrow heads are drawn as triangles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rewind_nb._html._boxes import Box, Line, drawing
from rewind_nb._html._markup import Child, Html, join, note, tag
from rewind_nb._html._parts import count

if TYPE_CHECKING:
    from rewind_nb._run import Run

__all__ = ["graph"]

MAX_BOXES = 100


def graph(run: Run) -> Html:
    """The graph of a run's executed steps."""
    drawn = drawing(run, MAX_BOXES)
    if not drawn.boxes:
        return Html("")
    parts = [*map(_edge, drawn.lines), *map(_card, drawn.boxes)]
    svg = tag(
        "svg",
        *parts,
        width=drawn.width,
        height=drawn.height,
        viewBox=f"0 0 {drawn.width} {drawn.height}",
        role="img",
        aria_label=f"graph of {count(len(drawn.boxes), 'action')}",
    )
    return join(
        tag("div", svg, class_="rw-scroll"),
        note(f"… {count(drawn.left_out, 'more action')} not drawn") if drawn.left_out else None,
    )


def _card(box: Box) -> Html:
    x, y = box.x, box.y
    frame_class = f"rw-card rw-card-{box.look}" + (f" rw-how-{box.how}" if box.how else "")
    frame = {"x": x, "y": y, "width": box.width, "height": box.height, "rx": 5}
    bar = tag("rect", x=x, y=y + 6, width=4, height=box.height - 12, rx=2, class_="rw-bar")
    return tag(
        "g",
        tag("title", box.told),
        _behind(box) if box.stacked else None,
        tag("rect", **frame, class_=frame_class),
        bar if box.steps else None,
        tag("text", box.name, x=x + 12, y=y + 19),
        tag("text", *_second_line(box), x=x + 12, y=y + 36, class_="rw-small"),
        tag("text", "▼ fork", x=x, y=y - 5, class_="rw-small") if box.forked else None,
        class_=f"rw-{'bad' if box.look == 'failed' else box.look}",
    )


def _behind(box: Box) -> Html:
    """The edge of a second card behind one whose steps have tasks."""
    x, y, right, bottom = box.x, box.y, box.x + box.width, box.y + box.height
    line = f"M{x + 6} {bottom + 3}H{right - 2}Q{right + 3} {bottom + 3} {right + 3} {bottom - 2}V{y + 6}"
    return tag("path", d=line, class_="rw-behind")


def _second_line(box: Box) -> list[Child]:
    """A sign per visit, and the words behind."""
    signs = [tag("tspan", sign, class_=f"rw-sign rw-{colour}") for sign, colour in box.signs]
    if len(signs) == 1:
        return [signs[0], f" {box.words}"]
    return [*(join(sign, " ") for sign in signs), box.words]


def _edge(line: Line) -> Html:
    times = None
    if line.label is not None and line.taken > 1:
        x, y = line.label
        words = f"\u00d7{line.taken}"
        times = tag("text", words, x=x, y=y, class_="rw-small", text_anchor="middle")
    return tag(
        "g",
        tag("title", line.told),
        tag("path", d=line.path, class_="rw-edge" + ("" if line.taken else " rw-edge-next")),
        tag("path", d=line.tip, class_="rw-tip"),
        times,
    )
