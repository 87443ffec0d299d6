"""Frames of runs, steps, calls, fields and changes, and a run as a graph."""

from dataclasses import dataclass

import networkx as nx
import pandas as pd
import pytest
import task_apps
from burr.core import ApplicationBuilder, State, action
from hypothesis import given
from hypothesis import strategies as st
from toy_runs import RECORDERS

from rewind_nb import Rewind, _codec, _frames, _path
from rewind_nb._compare import compare
from rewind_nb._diff import MISSING
from rewind_nb._frames import (
    CALL_COLUMNS,
    CHANGE_COLUMNS,
    FIELD_COLUMNS,
    RUN_COLUMNS,
    STEP_COLUMNS,
)
from rewind_nb._leaves import leaves

FRAMES = {
    "runs": (_frames.runs_df, RUN_COLUMNS),
    "steps": (_frames.steps_df, STEP_COLUMNS),
    "calls": (_frames.calls_df, CALL_COLUMNS),
    "fields": (_frames.fields_df, FIELD_COLUMNS),
}


@dataclass
class Order:
    item: str
    prices: tuple


def dtypes(frame):
    return dict(frame.dtypes.items())


def app_writing(**fields):
    @action(reads=[], writes=list(fields))
    def write(state):
        return state.update(**fields)

    return ApplicationBuilder().with_actions(write).with_entrypoint("write").build()


def recorded_fields(store, **fields):
    return Rewind(app_writing(**fields), store=store).run(halt_after=["write"])


def failed_run(store):
    @action(reads=[], writes=["x"])
    def fail(state):
        raise LookupError("no such thing")

    app = ApplicationBuilder().with_actions(fail).with_entrypoint("fail").build()
    rw = Rewind(app, store=store)
    with pytest.raises(LookupError):
        rw.run(halt_after=["fail"])
    return rw.last_run


# -- columns and dtypes -----------------------------------------------------------------


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_of_nothing_has_all_columns_in_order_and_their_dtypes(name):
    make, columns = FRAMES[name]

    assert list(make([]).columns) == list(columns)
    assert dtypes(make([])) == columns


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_has_its_dtypes_whatever_is_in_it(recorded, name):
    make, columns = FRAMES[name]
    _, run = recorded

    assert list(make([run]).columns) == list(columns)
    assert dtypes(make([run])) == columns


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_has_its_dtypes_with_tasks_in_it(store, name):
    make, columns = FRAMES[name]
    rw = Rewind(task_apps.map_app(), store=store)
    run = rw.run()
    fork = rw.fork(run, run["each"].tasks["1"][1], output={"grade": 1})

    assert dtypes(make([run, fork])) == columns
    assert dtypes(rw.diff(run, fork).df) == CHANGE_COLUMNS
    if "task" in columns:
        assert set(make([run]).task) >= {"each:1[0]/", "each:2[4]/"}
        assert list(columns)[list(columns).index("visit") + 1] == "task"


def test_a_frame_of_changes_has_its_dtypes_with_and_without_changes(store):
    rw, run = RECORDERS["branch"](store)
    fork = rw.fork(run, at="judge", output={"verdict": "dear"})

    for other in (run, fork):
        frame = rw.diff(run, other).df
        assert list(frame.columns) == list(CHANGE_COLUMNS)
        assert dtypes(frame) == CHANGE_COLUMNS


def test_dtypes_are_what_they_are_documented_to_be():
    documented = {
        "seq": "int64",
        "action": "string",
        "duration_s": "float64",
        "started_at": "datetime64[us, UTC]",
        "input_tokens": "Int64",
        "usd": "Float64",
        "live_calls": "int64",
    }

    assert {name: str(STEP_COLUMNS[name]) for name in documented} == documented
    assert (str(RUN_COLUMNS["at"]), str(CALL_COLUMNS["total_tokens"])) == ("Int64", "Int64")
    assert (str(FIELD_COLUMNS["value"]), str(CHANGE_COLUMNS["before"])) == ("object", "object")


def test_the_columns_that_others_rely_on_are_there():
    promised = (
        "run_id seq action visit source started_at duration_s input_tokens output_tokens "
        "live_calls played_calls hash error_type"
    )

    assert set(promised.split()) <= set(STEP_COLUMNS)


def test_a_column_of_unknowns_keeps_its_dtype(store):
    run = failed_run(store)
    for step in run.steps:
        step.usage = step.hash = step.duration_s = None
    row = run.steps_df()

    assert dtypes(row) == STEP_COLUMNS
    assert row.input_tokens.isna().all()
    assert row.hash.isna().all()


def test_text_that_utf8_cannot_hold_is_held(store):
    @action(reads=[], writes=["x"])
    def write(state):
        return state.update(x="\udc80 alone")

    app = ApplicationBuilder().with_actions(write).with_entrypoint("write").build()
    run = Rewind(app, store=store).run(halt_after=["write"])

    assert run.fields_df()["value"].tolist() == ["\udc80 alone"]


# -- runs and steps -----------------------------------------------------------------------


def test_a_step_frame_has_a_row_per_step_that_says_what_the_step_says(recorded):
    _, run = recorded
    frame = run.steps_df()

    assert len(frame) == len(run.steps)
    for row, step in zip(frame.itertuples(), run.steps, strict=True):
        assert (row.seq, row.action, row.visit) == (step.seq, step.action, step.visit)
        assert (row.source, row.status, row.hash) == (step.source, step.status, step.hash)
        assert row.duration_s == step.duration_s
        assert row.started_at.timestamp() == pytest.approx(step.started_at, abs=1e-5)
        assert (row.live_calls, row.played_calls) == (step.live_calls, step.played_calls)


def test_an_inherited_step_has_a_row_in_each_run_and_one_executor(store):
    rw, run = RECORDERS["loop"](store)
    fork = rw.fork(run, at=2, reuse="none")
    frame = store.steps_df()
    first = frame[frame.seq == 0]

    assert first.run_id.tolist() == [run.id, fork.id]
    assert first.executed_by.tolist() == [run.id, run.id]
    assert first.source.tolist() == ["live", "inherited"]
    own = frame[frame.executed_by == frame.run_id]
    assert len(own[own.run_id == fork.id]) == len(fork) - 2


def test_moments_are_in_utc(store):
    _, run = RECORDERS["loop"](store)
    started = run.steps_df().started_at[0]

    assert str(started.tzinfo) == "UTC"
    assert abs((pd.Timestamp.now(tz="UTC") - started).total_seconds()) < 3_600


def test_a_failed_step_names_its_error_and_a_complete_one_none(store):
    run = failed_run(store)

    assert run.steps_df().error_type.tolist() == ["LookupError"]
    assert run.steps_df().status.tolist() == ["failed"]
    _, fine = RECORDERS["loop"](store)
    assert fine.steps_df().error_type.isna().all()


def test_a_run_frame_says_where_each_run_came_from_and_what_it_replaced(store):
    rw, run = RECORDERS["branch"](store)
    fork = rw.fork(run, at="judge", output={"verdict": "dear"}, label="what if")
    same = rw.fork(run, at="judge")
    frame = store.runs_df().set_index("id")

    assert frame.loc[run.id, ["parent", "at", "override"]].isna().all()
    assert frame.loc[fork.id, "parent"] == run.id
    assert frame.loc[fork.id, "at"] == 0
    assert frame.loc[fork.id, "override"] == "replace verdict = 'dear'"
    assert frame.loc[fork.id, "label"] == "what if"
    assert frame.loc[same.id, "override"] == "unchanged"
    assert frame.kind.tolist() == ["record", "fork", "fork"]


def test_a_run_frame_counts_own_steps_and_own_calls_only(store):
    rw, run = RECORDERS["async"](store)
    fork = rw.fork(run, at="choose", reuse="none")
    row = store.runs_df().set_index("id").loc[fork.id]

    assert (row.steps, row.own_steps) == (len(run), 1)
    assert (row.live_calls, row.played_calls, row.tokens) == (0, 0, 0)
    assert store.runs_df().set_index("id").loc[run.id, "live_calls"] == 3


# -- calls --------------------------------------------------------------------------------


def test_a_call_frame_has_a_row_per_call_that_says_what_the_call_says(store):
    _, run = RECORDERS["async"](store)
    calls = [(step, call) for step in run.steps for call in step.calls]
    frame = run.calls_df()

    assert len(frame) == len(calls) == 3
    for row, (step, call) in zip(frame.to_dict("records"), calls, strict=True):
        assert (row["seq"], row["action"], row["visit"]) == (step.seq, step.action, step.visit)
        assert (row["index"], row["kind"], row["name"]) == (call.index, call.kind, call.name)
        assert (row["source"], row["status"]) == (call.source, call.status)
        assert (row["fingerprint"], row["sample"]) == (call.fingerprint, call.sample)
        assert row["latency_s"] == call.latency_s


def test_calls_of_inherited_steps_are_listed_under_the_fork_too(store):
    rw, run = RECORDERS["async"](store)
    fork = rw.fork(run, at="choose")

    assert fork.calls_df().run_id.unique().tolist() == [fork.id]
    assert fork.calls_df().fingerprint.tolist() == run.calls_df().fingerprint.tolist()


# -- fields -------------------------------------------------------------------------------

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=5), children, max_size=4)
    ),
    max_leaves=20,
).map(lambda value: {"top": value})


@given(plain)
def test_every_leaf_is_at_its_path(value):
    node = _codec.parse(_codec.encode(value["top"]))
    found = [(path, _codec.decode_node(leaf)) for path, leaf in leaves("top", node, {})]

    assert len({path for path, _ in found}) == len(found) >= 1
    for path, leaf in found:
        if '["$"]' not in path and "[true]" not in path:
            assert _same(_path.get(value, path), leaf)
        assert leaf in ({}, []) or not isinstance(leaf, dict | list)


def _same(a, b):
    return type(a) is type(b) and a == b


@given(st.lists(plain, min_size=1, max_size=3))
def test_leaves_of_a_part_that_was_seen_before_are_the_same_at_each_path(values):
    nodes = [_codec.parse(_codec.encode(value["top"])) for value in values]
    versions = [nodes[:n] for n in range(len(nodes) + 1)] + [{"a.b": nodes}, {"a": 1, "b": 2}]
    known = {}

    for path in ("", "top", "", 'x["y"]', "top"):
        for version in versions:
            assert list(leaves(path, version, known)) == list(leaves(path, version, {}))


def test_a_value_without_parts_is_a_value_of_its_own_in_each_row(store):
    frame = recorded_fields(store, a=[set(), []], b=[set(), []]).fields_df()

    assert len({id(value) for value in frame["value"]}) == len(frame) == 4


def test_fields_are_leaves_in_order_and_empty_containers_are_leaves(store):
    run = recorded_fields(store, report={"total": 5, "tags": [], "rows": [{"n": 1.5}, None]})
    frame = run.fields_df()

    assert frame.path.tolist() == [
        "report.total",
        "report.tags",
        "report.rows[0].n",
        "report.rows[1]",
    ]
    assert frame["value"].tolist() == [5, [], 1.5, None]
    assert frame.type.tolist() == ["int", "list", "float", "NoneType"]


def test_fields_of_tuples_dataclasses_and_odd_keys_have_the_paths_of_a_diff(store):
    before = recorded_fields(store, order=Order("tea", (1, 2)), odd={"a.b": 1, ("x", 1): 2})
    after = recorded_fields(store, order=Order("tea", (1, 3)), odd={"a.b": 5, ("x", 1): 6})
    paths = before.fields_df().path.tolist()

    assert paths[:3] == ["order.item", "order.prices[0]", "order.prices[1]"]
    changed = [change.path for change in compare(before, after).changes]
    assert changed
    assert set(changed) <= set(paths)


def test_a_value_in_a_cell_is_the_value_itself(store):
    both = {"a": {1, 2}, "b": b"\x00", "c": float("nan"), "d": 10**30}
    frame = recorded_fields(store, **both).fields_df()

    assert [type(value) for value in frame["value"]] == [set, bytes, float, int]
    assert frame["value"][0] == {1, 2}


def test_a_change_frame_holds_what_the_diff_holds(store):
    rw, run = RECORDERS["branch"](store)
    diff = rw.diff(run, rw.fork(run, at="judge", output={"verdict": "dear"}))
    frame = diff.df

    assert frame.path.tolist() == [change.path for change in diff.changes]
    assert frame.before.tolist() == [change.before for change in diff.changes]
    assert any(value is MISSING for value in [*frame.before, *frame.after])


# -- the graph ----------------------------------------------------------------------------


def test_a_graph_has_a_node_per_step_and_an_edge_per_transition_taken(recorded):
    _, run = recorded
    graph = run.graph()

    assert isinstance(graph, nx.MultiDiGraph)
    assert list(graph) == [step.seq for step in run.steps]
    assert list(graph.edges()) == [(i, i + 1) for i in range(len(run) - 1)]


def test_a_node_carries_the_telemetry_of_its_step(store):
    _, run = RECORDERS["async"](store)
    node = run.graph().nodes[0]
    step = run[0]

    assert (node["action"], node["visit"], node["source"]) == ("fetch", 1, "live")
    assert (node["status"], node["hash"]) == ("complete", step.hash)
    assert node["duration_s"] == step.duration_s
    assert (node["live_calls"], node["played_calls"], node["total_tokens"]) == (1, 0, 0)
    assert node["error_type"] is None


def test_an_edge_carries_the_condition_that_was_taken(store):
    _, run = RECORDERS["branch"](store)

    assert [c for _, _, c in run.graph().edges(data="condition")] == ["verdict=cheap", "default"]


def test_the_graph_of_a_fork_reaches_from_its_root_to_its_tip(store):
    rw, run = RECORDERS["loop"](store)
    fork = rw.fork(run, at=2)
    sources = dict(fork.graph().nodes(data="source"))

    assert [sources[seq] for seq in (0, 1)] == ["inherited", "inherited"]
    assert nx.has_path(fork.graph(), 0, len(fork) - 1)


def test_a_dict_with_the_marker_key_has_ordinary_paths(store):
    @action(reads=[], writes=["top"])
    def make(state: State) -> State:
        return state.update(top={"$": None, "a": 1})

    app = ApplicationBuilder().with_actions(make).with_entrypoint("make").build()
    run = Rewind(app, store=store).run()

    assert list(run.fields_df()["path"]) == ['top["$"]', "top.a"]
