"""What a fork costs that executes nothing, or one step, whatever the length of the run.

A loop of n steps that count, and round away what else they are given::

    unchanged   no override, at the start, in the middle and at the end, by position and by name
    converging  an override in the middle of what is rounded away: the step after it executes

Prints milliseconds per fork (the best of several), how much more ten times the steps cost,
and the rows that the store has more of afterwards, by table. With ``--profile`` also where
the time of the longest unchanged fork goes::

    python tests/benchmarks/bench_isolation.py 100 1000 10000
"""

import cProfile
import pstats
import sqlite3
import sys
import time
from collections import Counter

from burr.core import Application, ApplicationBuilder, State, action, expr

from rewind_nb import Rewind, Run, Store

ROUNDS = 7  # and one before them that is not counted


def counting_app(steps: int) -> Application:
    """An application of so many steps, the last of them ``end``, whose state stays small."""

    @action(reads=["n", "noise"], writes=["n", "noise"])
    def count(state: State) -> State:
        return state.update(n=state["n"] + 1, noise=state["noise"] // 1000)

    @action(reads=["n"], writes=["end"])
    def end(state: State) -> State:
        return state.update(end=state["n"])

    return (
        ApplicationBuilder()
        .with_actions(count, end)
        .with_transitions(("count", "count", expr(f"n < {steps - 1}")), ("count", "end"))
        .with_state(n=0, noise=0, question="how far?")
        .with_entrypoint("count")
        .build()
    )


def rows(store: Store) -> Counter[str]:
    """How many rows each table holds."""

    def count(connection: sqlite3.Connection) -> Counter[str]:
        tables = connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table'"
        ).fetchall()
        counted = (connection.execute(f"SELECT '{t}', count(*) FROM {t}") for (t,) in tables)
        return Counter(dict(found.fetchone() for found in counted))

    store.flush()
    return store.read(count)


def forks(rw: Rewind, run: Run) -> dict[str, dict]:
    """The arguments of each fork to measure."""
    middle = len(run) // 2
    return {
        "unchanged, start": {"at": 0},
        "unchanged, middle": {"at": middle},
        "unchanged, end": {"at": len(run) - 1},
        "unchanged, name": {"at": "end"},
        "converging": {"at": middle, "output": {"noise": 7}},
    }


def measure(store: Store, steps: int) -> dict[str, tuple[float, Counter[str]]]:
    """Milliseconds and rows of each fork of a run of so many steps."""
    rw = Rewind(counting_app(steps), store=store)
    run = rw.run()
    assert len(run) == steps
    found = {}
    for name, given in forks(rw, run).items():
        rw.fork(run.id, **given)
        before, best = rows(store), float("inf")
        for _ in range(ROUNDS):
            began = time.perf_counter()
            fork = rw.fork(run.id, **given)
            best = min(best, time.perf_counter() - began)
            assert len(fork) == steps
        written = rows(store) - before
        found[name] = best * 1000, Counter({t: n // ROUNDS for t, n in written.items()})
    return found


def profile(store: Store, steps: int) -> None:
    """Where the time of an unchanged fork goes."""
    rw = Rewind(counting_app(steps), store=store)
    run = rw.run()
    profiler = cProfile.Profile()
    profiler.enable()
    for _ in range(ROUNDS):
        rw.fork(run.id, 0)
    profiler.disable()
    pstats.Stats(profiler).sort_stats("tottime").print_stats(25)


def main(sizes: list[int], profiled: bool) -> None:
    """Print a line for each kind of fork and size."""
    print(f"{'fork':18} {'steps':>7} {'ms':>8} {'x before':>9}  rows")
    before: dict[str, float] = {}
    for steps in sizes:
        with Store(":memory:") as store:
            for name, (ms, written) in measure(store, steps).items():
                ratio = f"{ms / before[name]:9.1f}" if name in before else f"{'-':>9}"
                shown = ", ".join(f"{n} {table}" for table, n in sorted(written.items()) if n)
                print(f"{name:18} {steps:7,} {ms:8.2f} {ratio}  {shown}", flush=True)
                before[name] = ms
    if profiled:
        with Store(":memory:") as store:
            profile(store, sizes[-1])


if __name__ == "__main__":
    numbers = [int(size) for size in sys.argv[1:] if size != "--profile"]
    main(numbers or [100, 1000, 10_000], "--profile" in sys.argv)
