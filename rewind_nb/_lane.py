"""Which trajectory a step is in: the run's own, or that of one task inside a step.

A path reads from the outside in. ``map:2[1]/`` is the task ``1`` of the second visit of
`map`; its steps are at ``map:2[1]/query:1`` and so on, however deep::

    run         plan:1   map:1              report:1
    map:1[0]/            query:1  grade:1
    map:1[1]/            query:1  grade:1
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_PLAIN = re.compile(r"[\w.#~-]+")


@dataclass(frozen=True, slots=True)
class Lane:
    """A trajectory inside a run.

    Attributes:
        path: where it is, "" for the run's own.
        root: the top-level step that it is inside of, as (action, visit).

    Example:
        >>> lane = Lane().task("map", 2, "EU")
        >>> lane.place("query", 1), lane.root
        ('map:2[EU]/query:1', ('map', 2))
    """

    path: str = ""
    root: tuple[str, int] | None = None

    def place(self, action: str, visit: int) -> str:
        """Where a step of it stands, the same in every run of the application."""
        return f"{self.path}{action}:{visit}"

    def task(self, action: str, visit: int, key: str) -> Lane:
        """The lane of one task of one of its steps."""
        return Lane(task_path(self.place(action, visit), key), self.root or (action, visit))


def task_path(place: str, key: str) -> str:
    """The path of a task of the step at *place*.

    Example:
        >>> task_path("map:1", "EU")
        'map:1[EU]/'
    """
    return f"{place}[{written_key(key)}]/"


def written_key(key: str) -> str:
    """A task key as it is written in a path.

    Example:
        >>> written_key("0"), written_key("a/b")
        ('0', '"a/b"')
    """
    return key if _PLAIN.fullmatch(key) else json.dumps(key)


def lanes_of(place: str, paths: list[str]) -> dict[str, str]:
    """The lanes directly inside the step at *place*: task key -> path, in their order.

    Example:
        >>> lanes_of("map:1", ["map:1[0]/", "map:1[0]/sub:1[x]/", "map:10[0]/"])
        {'0': 'map:1[0]/'}
    """
    found = {}
    for path in paths:
        rest = path.removeprefix(f"{place}[") if path.startswith(f"{place}[") else None
        key = None if rest is None else _leading_key(rest)
        if key is not None:
            found[key] = path
    return dict(sorted(found.items(), key=lambda item: key_order(item[0])))


def _leading_key(rest: str) -> str | None:
    """The key of a path's rest that is one lane deep, ``0]/`` or ``"a/b"]/``."""
    if not rest.endswith("]/"):
        return None
    written = rest.removesuffix("]/")
    if _PLAIN.fullmatch(written):
        return written
    try:
        key = json.loads(written)
    except ValueError:
        return None
    return key if isinstance(key, str) else None


def key_order(key: str) -> list[tuple[int, int, str]]:
    """Keys in the order people expect: ``2`` before ``10``."""
    parts = re.findall(r"\d+|\D+", key)
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in parts]
