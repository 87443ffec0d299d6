"""Where boxes and lines of a graph go."""

from itertools import pairwise

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewind_nb._layout import MAX_SPAN, Layout, layered, spread

nodes = st.integers(0, 12)
edge_lists = st.lists(st.tuples(nodes, nodes), max_size=30)
acyclic = edge_lists.map(lambda edges: [(a, b) for a, b in edges if a < b])


def routes(layout: Layout):
    return {(route.source, route.target): route for route in layout.routes}


@given(edge_lists)
def test_every_node_has_a_place_and_every_edge_one_route(edges):
    layout = layered(range(5), edges)

    assert set(layout.positions) == {*range(5), *(end for edge in edges for end in edge)}
    assert list(routes(layout)) == list(dict.fromkeys(edges))


@given(edge_lists)
def test_two_boxes_of_a_layer_are_at_least_a_row_apart(edges):
    by_layer = {}
    for place in layered([], edges).positions.values():
        by_layer.setdefault(place.x, []).append(place.y)

    for rows in by_layer.values():
        assert all(b - a > 0.99 for a, b in pairwise(sorted(rows)))


@given(edge_lists)
def test_an_edge_leads_right_unless_it_is_a_back_edge(edges):
    layout = layered([], edges)

    for (source, target), route in routes(layout).items():
        leads_right = layout.positions[source].x < layout.positions[target].x
        assert leads_right != route.back


@given(edge_lists)
def test_without_the_back_edges_there_is_no_cycle(edges):
    kept = [edge for edge, route in routes(layered([], edges)).items() if not route.back]

    assert nx.is_directed_acyclic_graph(nx.DiGraph(kept))


@given(acyclic)
def test_a_graph_without_a_cycle_has_no_back_edge(edges):
    assert not any(route.back for route in layered([], edges).routes)


@given(edge_lists)
def test_the_layout_depends_on_the_arguments_only(edges):
    assert layered(range(3), edges) == layered(range(3), iter(edges))
    named = layered([f"n{i}" for i in range(3)], [(f"n{a}", f"n{b}") for a, b in edges])
    assert list(named.positions.values()) == list(layered(range(3), edges).positions.values())


@given(edge_lists)
def test_no_line_runs_under_a_box(edges):
    layout = layered([], edges)
    for edge, route in routes(layout).items():
        if route.lane == 0:
            assert all(_free(layout, point, edge) for point in route.points[1:-1])
        else:
            for start, end in pairwise(route.points):
                assert _clear(layout, start, end, edge)


def _free(layout, point, edge):
    boxes = (place for name, place in layout.positions.items() if name not in edge)
    return all(place.x != point.x or abs(place.y - point.y) > 0.99 for place in boxes)


def _clear(layout, start, end, edge):
    """No box of another node meets a line with right angles; a box is 0.7 by 0.7."""
    left, right = sorted((start.x, end.x))
    high, low = sorted((start.y, end.y))
    return not any(
        left - 0.35 < place.x < right + 0.35 and high - 0.35 < place.y < low + 0.35
        for name, place in layout.positions.items()
        if name not in edge
    )


@given(edge_lists)
def test_a_line_starts_and_ends_at_its_boxes(edges):
    layout = layered([], edges)
    for (source, target), route in routes(layout).items():
        for name, point in ((source, route.points[0]), (target, route.points[-1])):
            assert abs(layout.positions[name].x - point.x) < 0.2
            assert layout.positions[name].y == point.y


@given(edge_lists)
def test_back_edges_return_below_everything_and_long_ones_pass_above(edges):
    layout = layered([], edges)
    rows = [place.y for place in layout.positions.values()]
    for route in layout.routes:
        heights = [point.y for point in route.points]
        if route.back:
            assert route.lane > 0
            assert max(heights) > max(rows) + 0.5
        assert (route.lane < 0) == (min(heights) < -0.5)
        assert layout.top <= min(heights) <= max(heights) <= layout.bottom


@given(edge_lists)
def test_lanes_of_different_targets_do_not_overlap(edges):
    layout = layered([], edges)
    back = [route for route in layout.routes if route.back]
    for one in back:
        for other in back:
            same = one.target == other.target
            if same:
                assert one.lane == other.lane
            elif one.lane == other.lane:
                spans = [
                    sorted(layout.positions[n].x for n in (r.source, r.target))
                    for r in (one, other)
                ]
                assert spans[0][1] < spans[1][0] or spans[1][1] < spans[0][0]


def test_a_loop_inside_another_is_nearer_to_the_boxes():
    layout = layered("abcd", [*pairwise("abcd"), ("c", "b"), ("d", "a")])

    assert routes(layout)["c", "b"].lane == 1
    assert routes(layout)["d", "a"].lane == 2


def test_a_chain_is_a_straight_line():
    layout = layered(range(50), pairwise(range(50)))

    assert {place.y for place in layout.positions.values()} == {0.0}
    assert [place.x for place in layout.positions.values()] == list(range(50))


def test_branches_stand_evenly_around_what_they_leave_and_join():
    layout = layered("abcd", [("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")])
    rows = {name: place.y for name, place in layout.positions.items()}

    assert rows["a"] == rows["d"] == (rows["b"] + rows["c"]) / 2


def test_crossing_branches_are_untangled():
    layout = layered("abxy", [("a", "y"), ("b", "x")])
    rows = {name: place.y for name, place in layout.positions.items()}

    assert (rows["a"] < rows["b"]) == (rows["y"] < rows["x"])


def test_a_supervisor_and_its_workers_share_one_lane_back():
    workers = [f"worker {i}" for i in range(8)]
    edges = [edge for worker in workers for edge in (("boss", worker), (worker, "boss"))]
    layout = layered(["boss"], edges)

    assert {route.lane for route in layout.routes if route.back} == {1}
    assert layout.layers == 2


def test_an_edge_over_many_layers_takes_a_lane_instead_of_a_place_in_each():
    far = 1_000
    layout = layered(range(far + 1), [*pairwise(range(far + 1)), (0, far)])
    route = routes(layout)[0, far]

    assert route.lane == -1
    assert len(route.points) <= MAX_SPAN


def test_a_loop_of_one_node_is_a_back_edge():
    (route,) = layered("a", [("a", "a")]).routes

    assert route.back
    assert route.lane == 1


def test_nothing_is_laid_out_as_nothing():
    assert layered([], []) == Layout({}, (), 0, 0.0, 0.0)


def test_ends_that_were_not_named_are_added_behind():
    assert list(layered(["a"], [("b", "a")]).positions) == ["a", "b"]


def test_two_thousand_nodes_with_a_hub_are_laid_out():
    edges = [
        *pairwise(range(2_000)),
        *((0, i) for i in range(2_000)),
        *((i, 0) for i in range(2_000)),
    ]
    layout = layered(range(2_000), edges)

    assert len(layout.positions) == 2_000
    assert layout.layers == 2_000


@given(st.lists(st.floats(-50, 50), max_size=30))
def test_spread_keeps_the_order_and_a_distance_of_one(wanted):
    places = spread(wanted)

    assert len(places) == len(wanted)
    assert all(b - a >= 1 - 1e-9 for a, b in pairwise(places))


@given(st.lists(st.floats(0, 5), min_size=1, max_size=20))
def test_spread_moves_nothing_that_is_apart_already(gaps):
    wanted = [sum(gaps[:i]) + 1.01 * i for i in range(len(gaps))]

    assert spread(wanted) == pytest.approx(wanted)


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6), st.integers(0, 5), st.floats(-2, 2))
def test_spread_is_nearer_than_any_other_way_to_keep_apart(wanted, moved, by):
    places = spread(wanted)
    other = [p + (by if i == moved else 0) for i, p in enumerate(places)]
    if all(b - a >= 1 for a, b in pairwise(other)):
        assert _distance(places, wanted) <= _distance(other, wanted) + 1e-9


def _distance(places, wanted):
    return sum((p - w) ** 2 for p, w in zip(places, wanted, strict=True))
