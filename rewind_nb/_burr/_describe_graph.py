"""A graph as plain data, stored with what executed it, so that it draws without its code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from burr.core.action import Action
from burr.core.graph import Graph

from rewind_nb._burr._codes import condition_code
from rewind_nb._code import CodeFingerprint


def describe_graph(
    graph: Graph, entrypoint: str, code: Mapping[str, CodeFingerprint] | None = None
) -> dict[str, Any]:
    """Its actions, with what they declare, and its transitions in order.

    Args:
        code: of the actions, to say later which part of it changed; with it that of the
            conditions is noted too.
    """
    return {
        "entrypoint": entrypoint,
        "actions": [
            _describe_action(action) | _describe_code((code or {}).get(action.name))
            for action in graph.actions
        ],
        "transitions": [
            {
                "from": t.from_.name,
                "to": t.to.name,
                "condition": t.condition.name,
                "reads": sorted(set(t.condition.reads)),
                **({} if code is None else {"code": condition_code(t.condition)}),
            }
            for t in graph.transitions
        ],
    }


def _describe_action(action: Action) -> dict[str, Any]:
    required, optional = action.optional_and_required_inputs
    bound = sorted(getattr(action, "_bound_params", ()))
    return {
        "name": action.name,
        "reads": list(action.reads),
        "writes": list(action.writes),
        "inputs": sorted(n for n in required if not n.startswith("__")),
        "optional_inputs": sorted(n for n in optional if not n.startswith("__")),
        "tags": list(action.tags),
        "is_async": action.is_async(),
        "kind": type(action).__name__,
        **({"bound": bound} if bound else {}),
    }


def _describe_code(code: CodeFingerprint | None) -> dict[str, Any]:
    return {} if code is None else {"code": {"digest": code.digest, "parts": dict(code.parts)}}
