"""A fork executes what depends on the change, and nothing else."""

import os
from collections import Counter

import hypothesis
import pytest
from hypothesis import strategies as st
from isolation_oracle import SUPPLIED, Oracle, TooLong, converges_at, must_execute
from pipelines import application, changes, made, pipelines

from rewind_nb import Rewind

EXAMPLES = int(os.environ.get("ISOLATION_EXAMPLES", "2000" if "CI" in os.environ else "300"))
SEEDS = range(4)  # one test each, so that several workers share them
LONGEST = 12  # steps of a parent; a fork may have four times as many
NOT_EXECUTED = ("inherited", "reused", "override")
CHANGED_NOTHING = "the override equals what was recorded: nothing to execute"


# -- the property ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_a_fork_ends_as_if_all_of_it_executed_and_executes_only_what_it_must(store, seed):
    seen = Counter()
    examples(store, seed, EXAMPLES // len(SEEDS), seen)

    assert seen["examples"] >= EXAMPLES // len(SEEDS)
    share = {what: count / seen["examples"] for what, count in seen.items()}
    assert share["reused a step"] >= 0.3
    assert share["executed two"] >= 0.3
    assert share["changed the path"] >= 0.1
    assert share["converged"] >= 0.1
    assert min(share[kind] for kind in ("state", "output", "patch", "inputs", "none")) > 0


def test_a_recording_of_writes_as_differences_in_content_is_noticed(store, monkeypatch):
    """The control: a same-value write that is dropped is missed where the fork has another."""
    from rewind_nb._cells import Cell
    from rewind_nb._open_step import OpenStep

    complete = OpenStep.complete

    def differences_only(step, result, writes, deleted, route):
        was = {key: cell.hash for key, cell in step.cells.items()}
        changed = {k: v for k, v in writes.items() if Cell.of(v, k).hash != was.get(k)}
        return complete(step, result, changed, deleted, route)

    monkeypatch.setattr(OpenStep, "complete", differences_only)
    with pytest.raises(AssertionError):
        examples(store, 0, 300, Counter(), hypothesis.Phase.generate)


def examples(store, seed, number, seen, *phases):
    """Check so many pipelines, each with a change, and some with a change of the fork."""

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=number,
        database=None,
        phases=phases or (hypothesis.Phase.generate, hypothesis.Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    @hypothesis.given(pipelines(), changes, st.one_of(st.none(), st.none(), st.none(), changes))
    def each(pipeline, change, second):
        check(store, pipeline, [change] if second is None else [change, second], seen)

    each()


def check(store, pipeline, several, seen):
    """What the package makes of one pipeline, and of a fork of each fork."""
    parent = or_reject(Oracle(pipeline, LONGEST).run)
    rw = Rewind(application(pipeline), store=store)
    run = rw.run(**pipeline.run_arguments())
    assert_is(run, parent)
    assert [set(dict(step.row.reads)) for step in run.steps] == [d.saw() for d in parent.steps]
    oracle = Oracle(pipeline, 4 * LONGEST)
    for number, change in enumerate(several):
        at = place(oracle, parent, change)
        given = [
            parent.find(where) for where, (kind, _) in parent.overrides.items() if kind in SUPPLIED
        ]
        if any(did is not None and parent.steps.index(did) >= at for did in given):
            return  # what a supplied output comes to on another state, the oracle does not know
        run, parent = check_fork(rw, run, oracle, parent, at, change, Counter() if number else seen)


def check_fork(rw, run, oracle, parent, at, change, seen):
    """One fork: it is what the oracle says, and executed what it says."""
    override = overriding(run, oracle, parent, at, change)
    wanted = or_reject(lambda: oracle.fork(parent, at, override))
    fork = rw.fork(run, at, **dict([override] if override else []))

    assert_is(fork, wanted)
    for step, did in zip(fork.steps[at + 1 :], wanted.steps[at + 1 :], strict=True):
        assert repr(fork.state_at(step)) == repr(did.before), step
    executed = {step.seq for step in fork.steps if step.source not in NOT_EXECUTED}
    if fork.note == CHANGED_NOTHING:
        assert (executed, wanted.names) == (set(), parent.names)
        assert repr(wanted.state) == repr(parent.state)
    else:
        assert executed == must_execute(parent, wanted, at, override)
        assert fork.converged_at == converges_at(parent, wanted, at, override)
    seen["examples"] += 1
    seen[override[0] if override else "none"] += 1
    seen["reused a step"] += any(step.source == "reused" for step in fork.steps)
    seen["executed two"] += len(executed) > 1
    seen["changed the path"] += wanted.names != parent.names
    seen["converged"] += override is not None and fork.converged_at is not None
    return fork, wanted


def assert_is(run, path):
    """A run took a path and ended in its state."""
    assert [(step.action, step.visit) for step in run.steps] == [did.place for did in path.steps]
    assert (run.status, repr(run.state)) == (path.status, repr(path.state))


def or_reject(execute):
    try:
        return execute()
    except TooLong:
        hypothesis.reject()


# -- what a change means on a given run


def touched(oracle, parent):
    """Of each step: the keys it saw, those it changed, those that the way on depended on."""
    return [
        (did.saw(), differing(did.before, did.after), oracle.asked(did)) for did in parent.steps
    ]


def dependents(steps, at, key):
    """About how much depends on what a step leaves under a key."""
    tainted, found = {key}, bool(steps[at][2] & {key})
    for saw, changed, asked in steps[at + 1 :]:
        depends = bool(saw & tainted)
        tainted = tainted | changed if depends else tainted - changed
        found += depends + bool(asked & tainted)
    return found


def place(oracle, parent, change):
    """The step to change: more often than not one that others depend on."""
    steps = touched(oracle, parent)

    def weight(at):
        return max((dependents(steps, at, key) for key in steps[at][1]), default=0)

    return sorted(range(len(steps)), key=weight, reverse=True)[change.at % len(steps)]


def differing(before, after):
    """The keys whose values are not the same in two states."""
    return {k for k in {**before, **after} if repr(before.get(k)) != repr(after.get(k))}


def overriding(run, oracle, parent, at, change):
    """What to override there, as `fork` and the oracle take it; None for nothing."""
    did, recorded = parent.steps[at], run[at].writes
    steps = touched(oracle, parent)

    def by_weight(keys):
        return sorted(keys, key=lambda key: (-dependents(steps, at, key), key))

    left = {key for key in oracle.asked(did) if key in did.after and key not in recorded}
    options = {}
    if readable := by_weight(did.saw() | left):
        absent = [key for key in readable if key not in did.before]
        readable = absent if absent and change.value % 2 else readable
        key = readable[change.pick % len(readable)]
        options["state"] = {key: another(did.before.get(key, "absent"), key, change)}
    if written := by_weight(recorded):
        key = written[change.pick % len(written)]
        there = recorded[key]
        options["output"] = {key: another(there, key, change)}
        options["patch"] = {key: another(there, key, change)}
        if key[0] == "d":
            part = "nl"[change.value % 2]
            options["patch"] = {f"{key}.{part}": another(there[part], part, change)}
        elif key[0] == "l" and there:
            index = change.value % len(there)
            options["patch"] = {f"{key}[{index}]": another(there[index], "n", change)}
    if did.inputs:
        options["inputs"] = {"by": another(did.inputs["by"], "n", change)}
    if change.kind == "none" or not options:
        return None
    kind = change.kind if change.kind in options else next(iter(options))
    return kind, options[kind]


def another(recorded, key, change):
    """A value of a key's kind; not the recorded one, unless that is wanted."""
    values = [made(key, n) for n in range(change.value, change.value + 5)]
    return next(v for v in values if change.same or repr(v) != repr(recorded))
