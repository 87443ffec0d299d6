"""Reading many versions of a value, each by way of the one before it."""

import json
import random
import sqlite3

import pytest
from burr.core import ApplicationBuilder, State, action, expr
from hypothesis import given, settings
from hypothesis import strategies as st
from recorder import Recorder

from rewind_nb import Rewind, Store, _codec, _items
from rewind_nb._codec._reread import Pool, Tree, parse_like
from rewind_nb._compare import compare
from rewind_nb._diff import diff_nodes
from rewind_nb._store._nodes import Nodes
from rewind_nb.errors import StoreCorruptError

LONG = "long enough to be read again, part by part. " * 8
TEXT = st.sampled_from(["", "a", '"', "]},", "\\", "é\u2028", "12", LONG])
LEAVES = st.none() | st.booleans() | st.integers(-20, 20) | st.sampled_from([0.5, 1e300]) | TEXT
NODES = st.recursive(
    LEAVES,
    lambda nodes: st.lists(nodes, max_size=5) | st.dictionaries(TEXT, nodes, max_size=4),
    max_leaves=16,
)


def written(node):
    return json.dumps(node, ensure_ascii=False, separators=(",", ":"))


def edited(node, chance, leaf):
    """Another version of a node: something in it put in, taken out or exchanged."""
    kind = chance.randrange(4)
    if type(node) is list and node and kind:
        k = chance.randrange(len(node))
        new = [[], [leaf, node[k]], [edited(node[k], chance, leaf)]][kind - 1]
        return [*node[:k], *new, *node[k + 1 :]]
    if type(node) is list:
        return [*node, leaf]
    if type(node) is dict and node and kind:
        key = chance.choice([*node])
        inner = {k: v for k, v in node.items() if k != key or kind > 1}
        return inner | ({key: edited(node[key], chance, leaf)} if kind > 1 else {})
    if type(node) is dict:
        return {**node, f"k{chance.randrange(9)}": leaf}
    return leaf


# -- parsing ------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.lists(NODES, max_size=6) | st.dictionaries(TEXT, NODES), LEAVES, st.integers(0, 2**32))
def test_a_version_parsed_by_way_of_another_is_what_it_is(node, leaf, seed):
    chance, pool = random.Random(seed), Pool()
    tree = Tree(written(node), node)
    for _ in range(8):
        node = edited(node, chance, leaf)
        tree = parse_like(written(node), tree, pool) or Tree(written(node), node)
        assert written(tree.node) == written(node)


@settings(deadline=None)
@given(NODES, NODES, st.integers(0, 2**32))
def test_values_that_have_nothing_in_common_are_parsed_as_they_are(node, other, seed):
    tree = parse_like(written(other), Tree(written(node), node), Pool())
    assert tree is None or written(tree.node) == written(other)


@settings(deadline=None)
@given(st.lists(NODES, min_size=1, max_size=4), st.integers(0, 2**32), st.sampled_from(' ,]}["1:'))
def test_text_that_is_no_encoding_is_never_taken_for_one(node, seed, sign):
    chance, text = random.Random(seed), written(node)
    at = chance.randrange(len(text))
    broken = text[:at] + sign + text[at + chance.randrange(2) :]
    tree = parse_like(broken, Tree(text, node), Pool())
    assert tree is None or written(tree.node) == written(json.loads(broken))


@pytest.mark.parametrize(
    "text", ["", "[", "[1", "[1,]", "[1 ,2]", "[1,2]]", '{"a":1,"a":2}', "{1:2}"]
)
def test_what_is_not_canonical_is_left_to_be_parsed_as_a_whole(text):
    like = Tree('{"a":1}', {"a": 1}) if text[:1] == "{" else Tree("[1]", [1])
    assert parse_like(text, like, Pool()) is None


def test_what_stands_in_both_versions_is_one_object():
    chat = [{"role": "user", "text": f"message {k}"} for k in range(40)]
    before = {"turn": 7, "chat": chat, "last": [LONG, {"deep": chat[:5]}]}
    after = {"turn": 8, "chat": [*chat, {"role": "user", "text": "new"}], "last": before["last"]}
    final = {**after, "turn": 9, "chat": [*after["chat"], {"role": "user", "text": "newer"}]}
    pool = Pool()
    old = parse_like(written(after), Tree(written(before), before), pool)
    new = parse_like(written(final), old, pool).node

    assert new == final
    assert new["last"] is old.node["last"]
    assert [new["chat"][k] is old.node["chat"][k] for k in range(41)] == [True] * 41


@pytest.mark.parametrize(
    "change",
    [
        lambda items: items[1:],
        lambda items: items[5:],
        lambda items: [["new"], *items],
        lambda items: [*items[:20], ["new"], *items[21:]],
        lambda items: [*items[:20], ["new"], *items[20:]],
        lambda items: [*items[:9], *items[12:30], ["new"]],
    ],
)
def test_wherever_a_list_was_changed_the_rest_of_it_is_not_parsed_again(change, monkeypatch):
    items = [[f"item {k}"] for k in range(40)]
    old, pool = Tree(written(items), items), Pool()
    old.parts(pool)
    parsed = count_calls(monkeypatch, Pool, "parse")
    new = change(items)
    tree = parse_like(written(new), old, pool)

    assert tree.node == new
    assert len(parsed) == sum(item == ["new"] for item in new)


@pytest.mark.parametrize(
    ("before", "after"),
    [("[1,2]", "[1,23]"), ("[1,23]", "[1,2]"), ("[1,23]", "[1,2,3]"), ("[true]", "[]")],
)
def test_a_number_that_starts_like_another_is_read_as_itself(before, after):
    tree = parse_like(after, Tree(before, json.loads(before)), Pool())
    assert tree.node == json.loads(after)


def test_what_was_parsed_before_is_one_object_wherever_it_stands_again():
    pool = Pool()
    one, two = (
        parse_like('[1,["later"]]', Tree(text, node), pool).node
        for text, node in (("[1]", [1]), ("[1,[]]", [1, []]))
    )
    assert one[1] is two[1]


# -- reading ------------------------------------------------------------------------------


def count_calls(monkeypatch, owner, name):
    """A list that grows by one with each call of a method."""
    calls, real = [], getattr(owner, name)

    def counted(self, *args, **kwargs):
        calls.append(args)
        return real(self, *args, **kwargs)

    monkeypatch.setattr(owner, name, counted)
    return calls


def history(store, steps, say=lambda n: f"message {n}"):
    recorder = Recorder(store, state={"log": []})
    for n in range(steps):
        log = [*recorder.state["log"], {"role": "user", "text": f"{say(n)}, {'again ' * 9}"}]
        recorder.step(log=log, wait=False)
    recorder.end()
    return store.run(recorder.run.id)


def versions(run, key="log"):
    return [dict(step.row.writes)[key] for step in run.steps]


def test_every_version_of_a_history_is_read_as_it_is_stored(store):
    digests = versions(history(store, 30))
    random.Random(1).shuffle(digests)
    nodes = Nodes(store, Pool())

    for digest in [*digests, *digests[:3]]:
        assert nodes.node(digest) == _codec.parse(store.content(digest).data)


def test_a_history_is_put_together_once_and_each_of_its_messages_parsed_once(store, monkeypatch):
    run = history(store, 80)
    whole = count_calls(monkeypatch, Store, "content")
    parsed = count_calls(monkeypatch, Pool, "parse")
    nodes = Nodes(store, Pool())
    last = [nodes.node(digest) for digest in versions(run)][-1]

    assert len(last) == 80
    assert len(whole) < 12  # those too short to be stored as edits, and the first that is not
    assert len(parsed) < 100


def test_a_version_that_was_edited_early_is_read_from_the_one_before_it_too(store, monkeypatch):
    recorder = Recorder(store, state={"log": [f"message {k}, {'again ' * 9}" for k in range(40)]})
    for n in range(30, 0, -1):
        log = recorder.state["log"]
        recorder.step(log=[*log[:n], f"edit {n}", *log[n + 1 :], "new"], wait=False)
    recorder.end()
    whole = count_calls(monkeypatch, Store, "content")
    nodes = Nodes(store, Pool())
    last = [nodes.node(digest) for digest in versions(store.run(recorder.run.id))][-1]

    assert last == recorder.state["log"]
    assert len(whole) == 1


@pytest.mark.parametrize("body", [b"", b"\xff" * 9, None])
def test_a_version_whose_edits_are_damaged_is_refused(tmp_path, body):
    with Store(tmp_path / "runs.db") as store:
        digests = versions(history(store, 20))
    *_, other, last = map(bytes.fromhex, digests)
    with sqlite3.connect(tmp_path / "runs.db") as raw:
        row = "SELECT body FROM contents WHERE hash = ?"
        body = raw.execute(row, (other,)).fetchone()[0] if body is None else body
        raw.execute("UPDATE contents SET body = ? WHERE hash = ?", (body, last))
    raw.close()

    with Store(tmp_path / "runs.db") as store:
        nodes = Nodes(store, Pool())
        assert [len(nodes.node(digest)) for digest in digests[:-1]] == [*range(1, 20)]
        with pytest.raises(StoreCorruptError, match="damaged: its bytes do not match its hash"):
            nodes.node(digests[-1])


@pytest.mark.parametrize("digest", ["", "no hash", "00" * 32])
def test_a_value_that_is_not_there_is_missing(store, digest):
    with pytest.raises(StoreCorruptError, match="missing"):
        Nodes(store, Pool()).node(digest)


def test_values_that_are_forgotten_are_read_again(store, monkeypatch):
    monkeypatch.setattr("rewind_nb._store._nodes.KEPT", 3_000)
    digests = versions(history(store, 40))
    nodes = Nodes(store, Pool())

    for digest in [*digests, *digests]:
        assert nodes.node(digest) == _codec.parse(store.content(digest).data)
    assert len(nodes._known) < 5


# -- the diff of two long runs ------------------------------------------------------------


def chat_app(turns):
    @action(reads=["i", "tone", "chat"], writes=["i", "chat"])
    def turn(state: State) -> State:
        text = f"message {state['i']}, {state['tone']} {'again ' * 9}"
        return state.update(i=state["i"] + 1).append(chat={"role": "user", "text": text})

    return (
        ApplicationBuilder()
        .with_actions(turn)
        .with_transitions(("turn", "turn", expr(f"i < {turns}")))
        .with_state(i=0, tone="dry", chat=[])
        .with_entrypoint("turn")
        .build()
    )


@pytest.fixture
def long_runs(store):
    """(run, fork with another early message, fork with another tone from there on)."""
    rw = Rewind(chat_app(60), store=store)
    run = rw.run()
    early = rw.fork(run, ("turn", 3), patch={"chat[1].text": "other words"})
    return run, early, rw.fork(run, ("turn", 3), state={"tone": "warm"})


def test_the_changes_of_long_runs_are_those_of_each_pair_of_values_alone(long_runs):
    run, *forks = long_runs
    for a, b in [(run, forks[0]), (run, forks[1]), (forks[1], forks[0])]:
        expected, told = [], set()
        for before, after in compare(a, b).pairs:
            old, new = (
                _codec.parse(s.store.content(dict(s.row.writes)["chat"]).data)
                for s in (before, after)
            )
            deltas = list(diff_nodes(old, new, "chat"))
            if len(deltas) > 32:  # told once as a whole, and from then on what is added
                deltas = [delta for delta in deltas if delta.path not in told]
                told |= {delta.path for delta in deltas}
            expected += [(after.seq, *delta) for delta in deltas]
        found = [
            (c.seq, c.path, c.before, c.after, c.kind, c.was_at) for c in compare(a, b).changes
        ]
        assert [change for change in found if change[1].startswith("chat")] == expected
        assert len(expected) >= 58


def test_one_early_difference_costs_each_later_step_one_change_and_no_second_look_at_the_rest(
    long_runs, monkeypatch
):
    run, early, _ = long_runs
    compared, plain = [], _items.node_bytes
    monkeypatch.setattr(_items, "node_bytes", lambda node: compared.append(1) or plain(node))
    diff = compare(run, early)

    assert [c.path for c in diff.changes] == ["chat[1].text"] * 58
    assert len(compared) < 4 * len(diff.changes)


def test_values_of_two_changes_are_values_and_never_one_object(store):
    @action(reads=["n", "by"], writes=["n", "log"])
    def add(state: State) -> State:
        n = state["n"] + 1
        return state.update(n=n, log=[{"tags": {k}, "n": [k]} for k in range(n * state["by"])])

    app = (
        ApplicationBuilder()
        .with_actions(add)
        .with_transitions(("add", "add", expr("n < 4")))
        .with_state(n=0, by=1)
        .with_entrypoint("add")
        .build()
    )
    rw = Rewind(app, store=store)
    run = rw.run()
    diff = compare(run, rw.fork(run, 0, state={"by": 2}))
    added = [c.after for c in diff.changes if c.path.startswith("log")]

    assert [item["tags"] for item in added[-4:]] == [{4}, {5}, {6}, {7}]
    parts = [part for item in added for part in (item, *item.values())]
    assert len({id(part) for part in parts}) == len(parts) == 3 * (1 + 2 + 3 + 4)
