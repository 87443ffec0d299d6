"""Overrides whose value is code: ``action=``, and the edited application of `rerun_from`."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rewind_nb._burr import Declared
from rewind_nb._combine import beside
from rewind_nb._execution import Env
from rewind_nb._instead import Instead, Other
from rewind_nb._model import Override
from rewind_nb._plan import Planned
from rewind_nb._recording import Recording
from rewind_nb._run import At, Run
from rewind_nb._supplied import target_of
from rewind_nb._ways import shape
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

    def beside(self, planned: Planned) -> Coded:
        """The same with other overrides of the step at which it starts."""
        return replace(self, planned=beside(self.planned, planned))


def plan_action(env: Env, parent: Run, at: At | None, given: Any, recording: Recording) -> Coded:
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
    place = (step.path, step.action, step.visit)
    instead = Instead(here={place: given})
    if step.path:  # its graph is built only where it executes, and then asked again
        top = recording.trajectory.at(step.top.seq)
        assert top is not None  # noqa: S101  (parent[at] found it)
        described = target_of(env, parent, recording, top, step.row).declared
        other = Instead(here=instead.here).at(*place, Declared(described))
        assert other is not None  # noqa: S101  (it was given for this step)
    else:
        other = _other(env, instead, step.action, step.visit)
    value = {step.action: _told(given, other)}
    return Coded(
        at, Planned((Override("action", value),), step.row.code == other.code.digest), instead
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
                f"{did_you_mean(str(name), names)} For a step inside a task pass the Step as `at`, "
                "and its callable alone.",
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
    planned = Planned((Override("action", value),), same)
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
    edits = shape(parent.graph_description, env.spec.describe())
    edited: dict[str, None] = {}
    first = None
    for placed in recording.rows(0):
        row = placed.row
        changed = not recording.same_code(row, env.code_of(parent, row))
        if changed and row.source != "override":
            edited[row.action] = None
        if first is None and (row.action in edited or row.action in edits.ways):
            first = placed.seq
    value = {"actions": list(edited), "graph": edits.said}
    same = first is None
    note = EDITED if same else "; ".join(edits.said) or None
    start = len(parent) - 1 if first is None else first
    return Coded(start, Planned((Override("code", value),), same), note=note)
