"""An application for sweeps and flips: what it does with a value depends on a rule of the test."""

import _thread
import threading
import time

from burr.core import ApplicationBuilder, State, action, default, expr

from rewind_nb import tool

WEIGHED = []  # what the tool was asked, however often


class Stop:
    """Interrupts once: the main thread, when so many events came for which it is armed; else the
    tool, when it was asked so often."""

    def __init__(self):
        self.after = self.event = None
        self.lock = threading.Lock()

    def __call__(self, event):
        if (event.name, event.action) == self.event and self.due():
            _thread.interrupt_main()

    def due(self):
        with self.lock:
            if self.after is None:
                return False
            self.after -= 1
            if self.after >= 0:
                return False
            self.after = None
            return True


STOP = Stop()


@tool(cache=False)
def weigh(value):
    """Always executes, so that what is made twice is seen twice."""
    if STOP.event is None and STOP.due():
        raise KeyboardInterrupt
    WEIGHED.append(value)
    time.sleep(0.01)  # so that an interrupt comes while others wait
    return value


@action(reads=["given"], writes=["value"])
def take(state: State) -> State:
    return state.update(value=state["given"])


@action(reads=["value"], writes=["ok"])
def judge(state: State, rule) -> State:
    return state.update(ok=rule(weigh(state["value"])))


@action(reads=["value"], writes=["said"])
def accept(state: State) -> State:
    return state.update(said=f"accepted {state['value']}")


@action(reads=[], writes=["said"])
def reject(state: State) -> State:
    return state.update(said="rejected")


@action(reads=["value"], writes=["ok"])
async def ajudge(state: State, rule) -> State:
    return state.update(ok=rule(weigh(state["value"])))


def app(rule, value, judge=judge):
    """An application that accepts a value by a rule."""
    return (
        ApplicationBuilder()
        .with_actions(take, accept, reject, judge=judge.bind(rule=rule))
        .with_transitions(
            ("take", "judge"), ("judge", "accept", expr("ok")), ("judge", "reject", default)
        )
        .with_state(given=value)
        .with_entrypoint("take")
        .build()
    )


def reset():
    """Forget what the last test did."""
    WEIGHED.clear()
    STOP.after = STOP.event = None
