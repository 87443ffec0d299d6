"""Overrides whose value is code: ``action=``, and the edited application of `rerun_from`."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rewind_nb._execution import Env
from rewind_nb._instead import Instead, Other
from rewind_nb._model import Override
from rewind_nb._plan import Planned
from rewind_nb._recording import Recording
from rewind_nb._run import At, Run
from rewind_nb.errors import OverrideError, did_you_mean

EDITED = "no code changed: nothing to execute"


@dataclass(frozen=True, slots=True)
class Coded:
    """A checked override by code.

    Attributes:
        at: the first step it is for.
        instead: what executes instead of the application's own actions.
        everywhere: the actions it is for at every visit.
        note: what else there is to say of it.
    """

    at: At
    planned: Planned
    instead: Instead | None = None
    everywhere: frozenset[str] = frozenset()
    note: str | None = None


def plan_action(env: Env, parent: Run, at: At | None, given: Any) -> Coded:
    """Check ``action=``: a callable for the step *at*, or a dict of them for all visits.

    Raises:
        OverrideError: there is no such step, or the callable cannot take its place.
    """
    if isinstance(given, Mapping):
        return _everywhere(env, parent, at, given)
    if at is None:
        raise OverrideError(
            "action= with a callable replaces one step, so fork() needs to know which: pass `at`. "
            "For every visit of an action pass action={name: callable}.",
            override="action",
        )
    step = parent[at]
    if step.path:
        raise OverrideError(
            f"action= is for steps of the run itself, and {step.address} is inside a task. "
            "Replace the action that makes the tasks, or use output= or patch= for the step.",
            override="action",
        )
    instead = Instead(here={("", step.action, step.visit): given})
    other = _other(env, instead, step.action, step.visit)
    value = {step.action: _told(given, other)}
    return Coded(
        at, Planned(Override("action", value), step.row.code == other.code.digest), instead
    )


def _everywhere(env: Env, parent: Run, at: At | None, given: Mapping[str, Any]) -> Coded:
    if at is not None or not given:
        raise OverrideError(
            "action= with a dict {name: callable} replaces every visit of those actions, from the "
            "first on. Leave `at` out; for one step pass its callable alone.",
            override="action",
        )
    names = env.spec.action_names
    for name in given:
        if name not in names:
            raise OverrideError(
                f"action= names {name!r}, which is no action of the application. "
                f"{did_you_mean(str(name), names)}",
                override="action",
            )
    instead = Instead(everywhere=dict(given))
    others = {name: _other(env, instead, name, 1) for name in given}
    visited = [step for step in parent.steps if step.action in given]
    if not visited:
        raise OverrideError(
            f"Run {parent.id} executed none of {', '.join(map(repr, given))}, so nothing would "
            f"consume action=. It executed: {', '.join(dict.fromkeys(s.action for s in parent))}.",
            override="action",
        )
    value = {name: _told(given[name], other) for name, other in others.items()}
    same = all(step.row.code == others[step.action].code.digest for step in visited)
    planned = Planned(Override("action", value), same)
    return Coded(visited[0].seq, planned, instead, frozenset(given))


def _other(env: Env, instead: Instead, action: str, visit: int) -> Other:
    other = instead.at("", action, visit, env.spec.graph.get_action(action))
    assert other is not None  # noqa: S101  (it was given for this step)
    return other


def _told(given: Any, other: Other) -> dict[str, Any]:
    """What is stored of code: its name, its hash, and its source where there is one."""
    try:
        source = textwrap.dedent(inspect.getsource(given))
    except (OSError, TypeError):
        source = None
    name = getattr(given, "__qualname__", type(given).__name__)
    return {"name": name, "code": other.code.digest, "source": source}


# -- the code of the application as it is now ---------------------------------------------


def plan_rerun(env: Env, parent: Run, recording: Recording) -> Coded:
    """The fork whose override is what was edited since *parent* was recorded.

    It starts at the first step whose code changed, or after which the way on did.
    """
    shape = _shape(parent.graph_description, env.spec.describe())
    edited: dict[str, None] = {}
    first = None
    for placed in recording.rows(0):
        row = placed.row
        changed = not recording.same_code(row, env.code_of(parent, row))
        if changed and row.source != "override":
            edited[row.action] = None
        if first is None and (row.action in edited or row.action in shape.ways):
            first = placed.seq
    value = {"actions": list(edited), "graph": shape.said}
    same = first is None
    note = "; ".join(shape.said) or None
    start = len(parent) - 1 if first is None else first
    return Coded(start, Planned(Override("code", value), same), note=EDITED if same else note)


@dataclass(frozen=True, slots=True)
class _Shape:
    """How a graph differs from the recorded one.

    Attributes:
        ways: the actions whose transitions differ.
        said: the differences, a line each.
    """

    ways: frozenset[str]
    said: list[str]


def _shape(before: Mapping[str, Any], after: Mapping[str, Any]) -> _Shape:
    old, new = ({a["name"] for a in d["actions"]} for d in (before, after))
    said = [f"action {name!r} added" for name in sorted(new - old)]
    said += [f"action {name!r} removed" for name in sorted(old - new)]
    if before["entrypoint"] != after["entrypoint"]:
        said.append(f"new runs start at {after['entrypoint']!r}, not {before['entrypoint']!r}")
    ways = set()
    for name in sorted(old | new):
        was, now = (_ways(d, name) for d in (before, after))
        if was == now:
            continue
        ways.add(name)
        gone = [w for w in was if w not in now]
        come = [w for w in now if w not in was]
        said += [f"transition {w[0]} removed" for w in gone]
        said += [f"transition {w[0]} added" for w in come]
        if not gone and not come:
            said.append(f"the transitions from {name!r} are in another order")
    return _Shape(frozenset(ways), said)


def _ways(described: Mapping[str, Any], action: str) -> list[tuple[str, str | None]]:
    """The transitions from an action: in words, and the code of the condition."""
    return [
        (f"{t['from']} -> {t['to']} if {t['condition']}", t.get("code"))
        for t in described["transitions"]
        if t["from"] == action
    ]
