"""The tasks of a parallel action, each a trajectory of its own inside the step.

Burr runs them on an executor (or gathers them) and reduces their states. So does this, in
the same order; besides, each task is addressed by a key that is the same in every run:

- of a `MapStates` or `MapActionsAndStates`, its number: ``0``, ``1``, ...
- of a `MapActions`, the name of its action.
- of a `TaskBasedParallelAction`, the application id it was given, in which the id of the
  parent application does not vary from run to run.

Persisters, trackers and initializers are not passed down: the store takes their place, and
an initializer would answer a second visit with the states of the first.
"""

from __future__ import annotations

import asyncio
import contextvars
import copy
import re
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, wait
from typing import TYPE_CHECKING, Any

from burr.common import async_utils
from burr.core.action import Action
from burr.core.state import State

from rewind_nb._burr._context import seen_by
from rewind_nb._burr._state import TracingState
from rewind_nb._model import CONTEXT
from rewind_nb._open_step import OpenStep
from rewind_nb.errors import ConfigError

if TYPE_CHECKING:
    from burr.core.parallelism import SubGraphTask

NOTICE = 0.1  # seconds after which an interrupt is noticed at the latest
GRACE = 2.0  # seconds that tasks get to stop in
HASH = re.compile(r"[0-9a-f]{32,}")

Given = dict[str, Any]


def has_tasks(action: Action) -> bool:
    """Whether Burr would run its tasks; one with a way of its own runs as it is."""
    kinds = sys.modules.get("burr.core.parallelism")  # which needs pydantic; else nobody's is
    if kinds is None:
        return False
    base = kinds.TaskBasedParallelAction
    return isinstance(action, base) and type(action).run_and_update is base.run_and_update


def run(action: Any, step: OpenStep, state: TracingState, given: Given) -> tuple[Given, State]:
    """Run the tasks on the application's executor, and reduce their states in task order."""
    context, seen = given[CONTEXT], _stable(step, given)
    tasks = _recorded(action, step, action.tasks(state, seen[CONTEXT], seen))
    states = _on_executor(context.parallel_executor_factory, tasks, context, step)
    return {}, action.reduce(state, iter(states))


async def arun(
    action: Any, step: OpenStep, state: TracingState, given: Given
) -> tuple[Given, State]:
    """Run the tasks side by side in the running loop."""
    context, seen = given[CONTEXT], _stable(step, given)
    made = await async_utils.arealize(action.tasks(state, seen[CONTEXT], seen))
    tasks = list(_recorded(action, step, made))
    states = await _gathered(tasks, context)

    async def each() -> AsyncIterator[State]:
        for found in states:
            yield found

    return {}, await action.reduce(state, each())


def _stable(step: OpenStep, given: Given) -> Given:
    """The context with an id that is the same in every run, for ids made from it."""
    return {**given, CONTEXT: seen_by(step, given[CONTEXT], app_id=step.ctx.place)}


def _recorded(
    action: Any, step: OpenStep, tasks: Iterator[SubGraphTask] | list[SubGraphTask]
) -> Iterator[SubGraphTask]:
    from burr.core.parallelism import RunnableGraph

    from rewind_nb._burr._wrap import InnerDriver  # which wraps actions like this one

    for number, task in enumerate(tasks):
        key = _key(action, task, number, step.ctx.place)
        inner = task.graph
        driver = InnerDriver(step, key, task.state, inner.graph, inner.entrypoint)
        recorded = copy.copy(task)
        recorded.graph = RunnableGraph(driver.graph, inner.entrypoint, inner.halt_after)
        recorded.state = driver.state(task.state)
        recorded.tracker = recorded.state_persister = recorded.state_initializer = None
        yield recorded


def _key(action: Any, task: SubGraphTask, number: int, place: str) -> str:
    from burr.core.parallelism import MapActions, MapActionsAndStates

    if isinstance(action, MapActionsAndStates) and type(action).tasks is MapActionsAndStates.tasks:
        return task.graph.entrypoint if isinstance(action, MapActions) else str(number)
    given = str(task.application_id).removeprefix(place).strip(":/-_ ")
    return given[:12] if HASH.fullmatch(given) else given or str(number)


def _on_executor(
    factory: Callable[[], Any], tasks: Iterator[SubGraphTask], context: Any, step: OpenStep
) -> list[State]:
    """Every task's state; the first failure in task order is raised when all have ended."""
    executor = factory()
    if isinstance(executor, ProcessPoolExecutor):
        raise ConfigError(
            "The application runs its parallel tasks in other processes, where they cannot be "
            "recorded. Give with_parallel_executor() one that makes threads, such as "
            "concurrent.futures.ThreadPoolExecutor."
        )
    executor = executor.__enter__()  # left only when the tasks have ended: leaving waits for them
    futures: list[Future[State]] = []
    try:
        for task in tasks:
            within = contextvars.copy_context()
            futures.append(executor.submit(within.run, task.run, context))
        while wait(futures, NOTICE).not_done:
            pass  # a signal that comes just before a wait is seen only after it
    except BaseException:
        _stop(executor, step)
        raise
    executor.__exit__(None, None, None)
    return [future.result() for future in futures]


def _stop(executor: Any, step: OpenStep) -> None:
    """Tell the workers to stop, wait a little, and name those that do not."""
    session = step.session
    session.stop.set()
    executor.shutdown(wait=False, cancel_futures=True)
    deadline = time.monotonic() + GRACE
    while (working := step.working()) and time.monotonic() < deadline:
        time.sleep(0.01)
    if working:
        session.notes.append(
            f"task {', '.join(working)} of {step.row.action!r} did not stop within {GRACE:g} s; "
            "what it still does is not recorded"
        )


async def _gathered(tasks: list[SubGraphTask], context: Any) -> list[State]:
    running = [asyncio.ensure_future(task.arun(context)) for task in tasks]
    try:
        if running:
            await asyncio.wait(running)
    except BaseException:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        raise
    return [task.result() for task in running]
