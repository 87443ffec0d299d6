"""Runs as graphs: the way one took, which of its steps read what another wrote, which is whose fork."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from rewind_nb._dependencies import INITIAL, OUTSIDE, Node, dependencies, node_of
from rewind_nb._model import Usage
from rewind_nb._run import Run, Step

if TYPE_CHECKING:
    import networkx as nx


def run_graph(run: Run) -> nx.MultiDiGraph[int]:
    """The executed steps: a node per step keyed by seq, an edge per transition taken.

    Nodes carry action, visit, source, status, started_at (UTC), duration_s, input_tokens,
    output_tokens, total_tokens, live_calls, played_calls, hash, error_type and tasks, how
    many it has; edges `condition`.

    Example:
        >>> run_graph(run).nodes[0]["action"]  # doctest: +SKIP
        'plan'
    """
    import networkx as nx

    graph: nx.MultiDiGraph[int] = nx.MultiDiGraph(run_id=run.id)
    for step in run.steps:
        graph.add_node(step.seq, **_executed(step))
    for step, following in pairwise(run.steps):
        graph.add_edge(step.seq, following.seq, condition=(step.transition or {}).get("condition"))
    return graph


def _executed(step: Step) -> dict[str, Any]:
    names = ("action", "visit", "source", "status", "duration_s", "live_calls", "played_calls")
    usage = step.usage or Usage()
    return {
        **{name: getattr(step, name) for name in (*names, "hash")},
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.total_tokens,
        "started_at": datetime.fromtimestamp(step.started_at, UTC),
        "error_type": None if step.error is None else step.error.type,
        "tasks": len(step.tasks),
    }


def dependency_graph(run: Run) -> nx.DiGraph[Node]:
    """Which step read what another one wrote: `Run.dependencies`.

    Example:
        >>> dependency_graph(run).edges[1, 3]["keys"]  # doctest: +SKIP
        ['analysis']
    """
    import networkx as nx

    graph: nx.DiGraph[Node] = nx.DiGraph(run_id=run.id)
    graph.add_node(INITIAL, **_facts())
    for step in run.walk():
        graph.add_node(node_of(step), **_facts(step))
    for (source, target), edge in dependencies(run).items():
        if source == OUTSIDE:
            graph.add_node(OUTSIDE, **_facts())
        graph.add_edge(
            source,
            target,
            keys=sorted(edge.keys | edge.route_keys),
            route=bool(edge.route_keys),
            route_keys=sorted(edge.route_keys),
            made=edge.made,
        )
    return graph


def _facts(step: Step | None = None) -> dict[str, Any]:
    names = ("action", "visit", "source")
    return {
        **{name: None if step is None else getattr(step, name) for name in names},
        "task": "" if step is None else step.path,
    }


def fork_tree(runs: Iterable[Run]) -> nx.DiGraph[str]:
    """The runs as a forest: an edge from each parent to each of its forks and replays."""
    import networkx as nx

    tree: nx.DiGraph[str] = nx.DiGraph()
    known = list(runs)
    for run in known:
        facts = {"kind": run.kind, "status": run.status, "label": run.label}
        tree.add_node(run.id, **facts, steps=len(run), description=run.describe())
    for run in known:
        if run.origin is not None and run.origin.parent in tree:
            tree.add_edge(run.origin.parent, run.id, at=run.origin.at, override=run.override_words)
    return tree
