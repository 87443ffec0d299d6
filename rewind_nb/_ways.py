"""How the recorded graph of an application differs from another one of it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Graph = Mapping[str, Any]
"""A graph as it is stored with a run: actions, transitions, entrypoint."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a graph differs from the recorded one.

    Attributes:
        ways: the actions whose transitions differ.
        said: the differences, a line each.
    """

    ways: frozenset[str]
    said: list[str]


def shape(before: Graph, after: Graph) -> Shape:
    """All differences of two graphs."""
    old, new = ({a["name"] for a in graph["actions"]} for graph in (before, after))
    said = [f"action {name!r} added" for name in sorted(new - old)]
    said += [f"action {name!r} removed" for name in sorted(old - new)]
    if before["entrypoint"] != after["entrypoint"]:
        said.append(f"new runs start at {after['entrypoint']!r}, not {before['entrypoint']!r}")
    edits = {name: [*edited_ways(before, after, name)] for name in sorted(old | new)}
    said += [words for lines in edits.values() for words in lines]
    return Shape(frozenset(name for name, lines in edits.items() if lines), said)


def edited_ways(before: Graph, after: Graph, action: str) -> Iterator[str]:
    """How the transitions from one action differ, a line each.

    Example:
        >>> way = {"from": "a", "to": "b", "condition": "n > 1"}
        >>> graphs = [{"transitions": [w]} for w in (way, {**way, "condition": "n > 2"})]
        >>> [*edited_ways(*graphs, "a")]
        ['transition a -> b if n > 1 removed', 'transition a -> b if n > 2 added']
    """
    was, now = (_ways(graph, action) for graph in (before, after))
    if was == now:
        return
    gone = [way for way in was if way not in now]
    come = [way for way in now if way not in was]
    for way in gone:
        same = way[0] in [other[0] for other in come]
        yield (
            f"the condition of transition {way[0]} changed"
            if same
            else f"transition {way[0]} removed"
        )
    yield from (f"transition {w[0]} added" for w in come if w[0] not in [g[0] for g in gone])
    if not gone and not come:
        yield f"the transitions from {action!r} are in another order"


def _ways(graph: Graph, action: str) -> list[tuple[str, str | None]]:
    """The transitions from an action: in words, and the code of the condition."""
    return [
        (f"{t['from']} -> {t['to']} if {t['condition']}", t.get("code"))
        for t in graph["transitions"]
        if t["from"] == action
    ]
