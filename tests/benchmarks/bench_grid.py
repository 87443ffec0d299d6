"""What a grid costs beside its calls: 100 forks of four calls that take 200 ms each.

Each fork gets another text at the first step, so the four steps after it all ask the model. The
same without `rewind_nb` is Burr in a `ThreadPoolExecutor` or in tasks, with the same client::

    python tests/benchmarks/bench_grid.py            a store in memory
    python tests/benchmarks/bench_grid.py runs.db    a store in a file

Prints seconds (the best of several rounds): what the calls alone take, bare Burr, the grid, the
ratio of these two; and milliseconds of CPU per fork, which is what the threads of one process
have to do one after the other.
"""

import asyncio
import math
import ssl
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count

import httpx
from burr.core import Application, ApplicationBuilder, State, action
from slow_server import slow_server

from rewind_nb import Rewind

FORKS, STEPS, PAUSE = 100, 4, 0.2
WIDTHS = (16, 100)
ROUNDS = 3
TLS = ssl.create_default_context()  # which takes longer to make than a fork
Result = tuple[float, float]  # seconds, and those of CPU

_named = count()


def texts() -> list[str]:
    """One for each fork, never used before."""
    return [f"text {next(_named)}" for _ in range(FORKS)]


def asked(step: int, state: State) -> dict:
    """What a step asks the model."""
    return {"model": "m", "messages": [{"role": "user", "content": f"{step}: {state['x']}"}]}


def chain(first: object, steps: list, start: str | None) -> Application:
    """A first step that writes x, and those that ask; without the first where x is given."""
    names = [f"ask{n}" for n in range(STEPS)]
    builder = (
        ApplicationBuilder()
        .with_actions(begin=first, **dict(zip(names, steps, strict=True)))
        .with_transitions(("begin", names[0]), *zip(names, names[1:], strict=False))
    )
    if start is not None:
        return builder.with_entrypoint(names[0]).with_state(x=start).build()
    return builder.with_entrypoint("begin").build()


def measured(work: Callable[[], object]) -> Result:
    """What some work takes."""
    began, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - used


# -- threads ------------------------------------------------------------------------------


def sync_app(url: str) -> Callable[[str | None], Application]:
    """Builds an application whose steps ask with one client a thread."""
    local = threading.local()

    def step(number: int) -> object:
        @action(reads=["x"], writes=["x"])
        def ask(state: State) -> State:
            if not hasattr(local, "client"):
                local.client = httpx.Client(verify=TLS, timeout=30)
            reply = local.client.post(url, json=asked(number, state)).json()
            return state.update(x=reply["choices"][0]["message"]["content"])

        return ask

    @action(reads=[], writes=["x"])
    def begin(state: State) -> State:
        return state.update(x="begin")

    steps = [step(number) for number in range(STEPS)]
    return lambda start: chain(begin, steps, start)


def in_threads(build: Callable[[str | None], Application], width: int) -> None:
    """All of it with Burr alone."""
    last = [f"ask{STEPS - 1}"]
    with ThreadPoolExecutor(width) as pool:
        list(pool.map(lambda text: build(text).run(halt_after=last), texts()))


def sync_rounds(url: str, store: str, width: int) -> list[tuple[Result, Result]]:
    """Bare Burr and the grid, one after the other, several times."""
    build = sync_app(url)
    rw = Rewind(build(None), store=store)
    run = rw.run()

    def grid() -> None:
        rw.grid(run, "begin", {"output.x": texts()}, max_workers=width)

    return [(measured(lambda: in_threads(build, width)), measured(grid)) for _ in range(ROUNDS)]


# -- tasks --------------------------------------------------------------------------------


def async_app(url: str, client: httpx.AsyncClient) -> Callable[[str | None], Application]:
    """Builds an application whose steps ask with one client for all."""

    def step(number: int) -> object:
        @action(reads=["x"], writes=["x"])
        async def ask(state: State) -> State:
            reply = (await client.post(url, json=asked(number, state))).json()
            return state.update(x=reply["choices"][0]["message"]["content"])

        return ask

    @action(reads=[], writes=["x"])
    async def begin(state: State) -> State:
        return state.update(x="begin")

    steps = [step(number) for number in range(STEPS)]
    return lambda start: chain(begin, steps, start)


async def in_tasks(build: Callable[[str | None], Application], width: int) -> None:
    """All of it with Burr alone."""
    gate, last = asyncio.Semaphore(width), [f"ask{STEPS - 1}"]

    async def one(text: str) -> None:
        async with gate:
            await build(text).arun(halt_after=last)

    await asyncio.gather(*map(one, texts()))


async def async_rounds(url: str, store: str, width: int) -> list[tuple[Result, Result]]:
    """Bare Burr and the grid, one after the other, several times."""
    limits = httpx.Limits(max_connections=width, max_keepalive_connections=width)
    async with httpx.AsyncClient(verify=TLS, timeout=30, limits=limits) as client:
        build = async_app(url, client)
        rw = Rewind(build(None), store=store)
        run = await rw.arun()

        async def timed(work: object) -> Result:
            began, used = time.perf_counter(), time.process_time()
            await work
            return time.perf_counter() - began, time.process_time() - used

        rounds = []
        for _ in range(ROUNDS):
            bare = await timed(in_tasks(build, width))
            over = {"output.x": texts()}
            rounds.append((bare, await timed(rw.agrid(run, "begin", over, max_workers=width))))
        return rounds


# -- both ---------------------------------------------------------------------------------


def report(kind: str, width: int, rounds: list[tuple[Result, Result]]) -> None:
    """One line: the best of the rounds."""
    ideal = math.ceil(FORKS / width) * STEPS * PAUSE
    bare, grid = (
        tuple(map(min, zip(*column, strict=True))) for column in zip(*rounds, strict=True)
    )
    cpu = "".join(f"{used / FORKS * 1000:10.1f}" for _, used in (bare, grid))
    seconds = f"{ideal:8.2f}{bare[0]:8.2f}{grid[0]:8.2f}{grid[0] / bare[0]:8.2f}"
    print(f"{kind:8}{width:6}{seconds}{cpu}", flush=True)


def main() -> None:
    """Measure all."""
    store = sys.argv[1] if len(sys.argv) > 1 else ":memory:"
    head = ("ideal", "bare", "grid", "ratio")
    print(f"{'':8}{'width':>6}" + "".join(f"{h:>8}" for h in head) + "  bare cpu  grid cpu")
    with slow_server(PAUSE) as url:
        for width in WIDTHS:
            report("threads", width, sync_rounds(url, store, width))
        for width in WIDTHS:
            report("tasks", width, asyncio.run(async_rounds(url, store, width)))


if __name__ == "__main__":
    main()
