"""How the diff of two long runs, and the frame of a run's fields, grow with the runs.

A chat of n turns, each of which appends one message, and two forks of it at its start::

    early   one early message says something else, so each later step differs in one field
    tail    every later message says something else, so step k differs in k fields

Prints seconds of the processor, what one change or row costs, and how much more twice the
steps cost: about 2 is in proportion to the steps, about 4 to their square. `tail` and
`fields` are lists of that size, so what one change or row costs is what should stay level::

    python tests/benchmarks/diff_of_long_runs.py 250 500 1000
"""

import sys
import time

from burr.core import Application, ApplicationBuilder, State, action, expr

from rewind_nb import Rewind, Store

EARLY = 3  # the step that the forks start at


def chat_app(turns: int) -> Application:
    """An application whose state is a chat that grows by a message a step."""

    @action(reads=["turn", "tone", "chat"], writes=["turn", "chat"])
    def talk(state: State) -> State:
        words = f"message {state['turn']}, {state['tone']}: {'and so on ' * 8}"
        return state.update(turn=state["turn"] + 1).append(chat={"role": "user", "content": words})

    return (
        ApplicationBuilder()
        .with_actions(talk)
        .with_transitions(("talk", "talk", expr(f"turn < {turns}")))
        .with_state(turn=0, tone="dry", chat=[])
        .with_entrypoint("talk")
        .build()
    )


def timed(measured):
    """(seconds, how many there are) of what a function returns."""
    start = time.process_time()
    found = measured()
    return time.process_time() - start, len(found)


def measure(turns: int) -> dict[str, tuple[float, int]]:
    """Seconds and amount of each list, for runs of so many steps."""
    with Store(":memory:") as store:
        rw = Rewind(chat_app(turns), store=store)
        run = rw.run()
        early = rw.fork(run, EARLY, patch={"chat[1].content": "something else"})
        tail = rw.fork(run, EARLY, state={"tone": "warm"})
        return {
            "early": timed(lambda: rw.diff(run, early).changes),
            "tail": timed(lambda: rw.diff(run, tail).changes),
            "fields": timed(run.fields_df),
        }


def main(sizes: list[int]) -> None:
    """Print a line for each list and size."""
    print(f"{'list':8} {'steps':>6} {'length':>10} {'seconds':>9} {'us each':>9} {'x before':>9}")
    before: dict[str, float] = {}
    for turns in sizes:
        for name, (seconds, length) in measure(turns).items():
            ratio = f"{seconds / before[name]:9.1f}" if name in before else f"{'-':>9}"
            each = seconds / length * 1e6
            print(f"{name:8} {turns:6} {length:10,} {seconds:9.2f} {each:9.1f} {ratio}", flush=True)
            before[name] = seconds


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]] or [500, 1000, 2000])
