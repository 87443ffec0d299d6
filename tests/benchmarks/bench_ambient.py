"""What a read of the clock, of chance or of entropy costs: plain, outside of a step, recorded, played.

``python tests/benchmarks/bench_ambient.py`` prints nanoseconds per read, the best of many short
rounds, and what a step costs that reads the clock 100,000 times.
"""

import datetime as dt
import os
import random
import time
import uuid

from burr.core import ApplicationBuilder, State, action

from rewind_nb import Rewind, Store
from rewind_nb.capture import ambient

READS = {
    "time.time": time.time,
    "datetime.now": dt.datetime.now,
    "random.random": lambda: random.random(),
    "random.choice": lambda: random.choice("abcdef"),
    "os.urandom": lambda: os.urandom(16),
    "uuid.uuid4": uuid.uuid4,
}
LOOP = 100_000


def cost(read, reads=1000, rounds=40):
    """Nanoseconds per read, the best round."""
    best = float("inf")
    for _ in range(rounds):
        began = time.perf_counter()
        for _ in range(reads):
            read()
        best = min(best, (time.perf_counter() - began) / reads * 1e9)
    return round(best)


def costs():
    return {name: cost(read) for name, read in READS.items()}


def app_of(do):
    @action(reads=[], writes=["done"])
    def look(state: State) -> State:
        do()
        return state.update(done=True)

    return ApplicationBuilder().with_actions(look).with_entrypoint("look").build()


def main():
    plain = costs()
    ambient.install()
    columns = [plain, costs()]
    with Store(":memory:") as store:
        rw = Rewind(app_of(lambda: columns.append(costs())), store=store)
        rw.replay(rw.run())
    print(f"{'ns per read':16}{'plain':>9}{'outside':>9}{'recorded':>9}{'played':>9}")
    for name in READS:
        print(f"{name:16}" + "".join(f"{column[name]:9}" for column in columns))

    def loop():
        for _ in range(LOOP):
            time.time()

    with Store(":memory:") as store:
        rw = Rewind(app_of(loop), store=store)
        began = time.perf_counter()
        run = rw.run()
        recorded = time.perf_counter()
        assert rw.replay(run).ok
        played = time.perf_counter()
    print(f"a step of {LOOP:,} reads: recorded in {recorded - began:.2f} s, "
          f"played back in {played - recorded:.2f} s")  # fmt: skip


if __name__ == "__main__":
    main()
