"""Branches inside a step, numbered as they are made and never as they arrive.

A new asyncio task, a work item handed to a `ThreadPoolExecutor` and a started
`threading.Thread` each get a branch of their own: ``~0``, ``~1`` in the step's own flow,
``~1~0`` for the first that the second of them makes. Their context is copied along, the
user's variables included. So calls made there are recorded, and find their answers again,
whatever order the threads and tasks finish in.

No number is used up by what is not the user's and may happen once per process or only on
the wire: what a client does while a captured request is on its way, threads that the
standard library or `anyio` start for themselves, the workers of a pool. What an installed
package makes for itself is counted apart (``~openai.0``).

Numbering needs an order, so it has limits: tasks made in a bare callback (`call_soon`,
`add_done_callback`) are numbered in the order the callbacks run, and tasks that a program
makes in the order of a set in that order. Not covered are process pools,
`multiprocessing.pool.ThreadPool` and threads of the raw `_thread` module: calls made there
are not recorded. A replay refuses what those of a `ThreadPool` send.

Everything is installed at the first step, and for code outside steps costs a look at a
context variable per task, thread or work item.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from rewind_nb.capture._leaving import leave
from rewind_nb.capture._place import FLOW, Flow, current_step, flowing

_lock = threading.Lock()
_installed: list[bool] = []
_NUMBERING = "_rewind_numbering"  # on a task factory of ours
_OWN = ("rewind_nb.capture.", "rewind_nb._store.")


# -- tasks --------------------------------------------------------------------------------


def install_on(loop: asyncio.AbstractEventLoop) -> None:
    """Number the tasks that steps make on this loop; done once per loop."""
    try:
        factory = loop.get_task_factory()
        if not getattr(factory, _NUMBERING, False):
            loop.set_task_factory(_numbering(factory))
    except NotImplementedError:  # a loop without factories: its tasks share a branch
        return


def _numbering(inner: Any) -> Any:
    """A task factory around another one, or around none."""
    eager = _constructor(inner)
    if eager is None:

        def factory(loop: asyncio.AbstractEventLoop, coro: Any, **given: Any) -> Any:
            return _task(inner or _plain_task, coro, (loop, coro), given)

    else:  # `anyio` looks inside a factory of this kind: it stays one

        def construct(coro: Any, **given: Any) -> Any:
            return _task(eager, coro, (coro,), given)

        factory = asyncio.create_eager_task_factory(construct)  # type: ignore[attr-defined]
    setattr(factory, _NUMBERING, True)
    return factory


def _constructor(factory: Any) -> Any:
    """What an eager task factory of asyncio makes its tasks with (Python 3.12 on)."""
    known = getattr(asyncio, "eager_task_factory", None)
    if known is None or getattr(factory, "__code__", None) is not known.__code__:
        return None
    return factory.__closure__[0].cell_contents


def _plain_task(loop: asyncio.AbstractEventLoop, coro: Any, **given: Any) -> Any:
    return asyncio.Task(coro, loop=loop, **given)


def _task(make: Callable[..., Any], coro: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    left = None if current_step() is None else leave()
    if left is None or left.flow.branch is None:
        return make(*args, **given)
    if given.get("context") is None:
        task = left.context.run(make, *args, **given)
    else:  # the caller's own context: the task is to be seen in it
        task = make(*args, **given)
    setattr(task, FLOW, left.flow)
    left.remember(task, coro)
    return task


def _installing(method: Callable[..., Any]) -> Callable[..., Any]:
    """For loops that a step makes or enters itself; `asyncio.run` may make one of any kind."""

    @functools.wraps(method)
    def installed(owner: Any, *args: Any, **kwargs: Any) -> Any:
        if current_step() is not None:
            install_on(owner.get_loop() if isinstance(owner, asyncio.Runner) else owner)
        return method(owner, *args, **kwargs)

    return installed


def _in_order(as_completed: Callable[..., Any]) -> Callable[..., Any]:
    """`asyncio.as_completed` makes its tasks in the order of a set: make them before."""

    @functools.wraps(as_completed)
    def ordered(fs: Any, **kwargs: Any) -> Any:
        one = asyncio.isfuture(fs) or asyncio.iscoroutine(fs)  # a mistake, for it to name
        loop = asyncio._get_running_loop()  # noqa: SLF001  (as well, where there is none)
        if current_step() is not None and loop is not None and not one:
            fs = [asyncio.ensure_future(f) for f in dict.fromkeys(fs)]
        return as_completed(fs, **kwargs)

    return ordered


def _handing_over(run: Callable[..., Any]) -> Callable[..., Any]:
    """`asyncio.run_coroutine_threadsafe` makes its task when the other loop comes to it."""

    @functools.wraps(run)
    def handed(coro: Any, loop: asyncio.AbstractEventLoop) -> Any:
        left = None if current_step() is None else leave()
        if left is None:
            return run(coro, loop)
        install_on(loop)
        future = left.context.run(run, coro, loop)
        left.remember(future, coro)
        return future

    return handed


# -- threads ------------------------------------------------------------------------------


class _Worker(threading.local):
    flow: Flow | None = None  # whose work item is starting a worker of a pool


_worker = _Worker()


def _submitting(submit: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(submit)
    def submitted(pool: ThreadPoolExecutor, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        left = leave()
        if left is None:
            return submit(pool, fn, *args, **kwargs)
        _watch_initializer(pool)
        _worker.flow = left.flow
        try:
            future = submit(pool, left.run, fn, *args, **kwargs)
        finally:
            _worker.flow = None
        maker = sys._getframe(1).f_globals.get("__name__") or ""  # noqa: SLF001
        if not maker.startswith("rewind_nb._burr."):  # whose tasks are waited for, and named
            left.remember(future, fn, *args)
        return future

    return submitted


def _watch_initializer(pool: Any) -> None:
    """A pool's initializer runs in no step; what it sends is the step's that needed a worker."""
    initializer = getattr(pool, "_initializer", None)
    if initializer is not None and not hasattr(initializer, FLOW):

        @functools.wraps(initializer)
        def initialize(*args: Any) -> None:
            with flowing(getattr(threading.current_thread(), FLOW, None)):
                initializer(*args)

        setattr(initialize, FLOW, True)
        pool._initializer = initialize  # noqa: SLF001


def _starting(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    @functools.wraps(start)
    def started(thread: threading.Thread) -> None:
        flow = _worker.flow
        maker = sys._getframe(1).f_globals.get("__name__") or ""  # noqa: SLF001
        if flow is not None:  # the pool's and not the step's
            setattr(thread, FLOW, Flow(flow.step, None, flow.guarded))
        elif not maker.startswith(_OWN) and not type(thread).__module__.startswith("anyio."):
            # those bring the context of each piece of work along
            _redirect(thread, numbered=maker.partition(".")[0] not in sys.stdlib_module_names)
        start(thread)

    return started


def _redirect(thread: threading.Thread, *, numbered: bool) -> None:
    """Let a thread that is about to start run on a branch of its own.

    Args:
        numbered: false for one that the standard library starts for itself. It gets no
            context either: what it will work for is not known.
    """
    left = leave(numbered=numbered)
    if left is None:
        return
    run, own = thread.run, thread.__dict__.get("run")

    def begin() -> None:
        thread.__dict__.pop("run", None)
        if own is not None:
            thread.__dict__["run"] = own
        if numbered:
            left.run(run)
        else:
            with flowing(left.flow):
                run()

    thread.__dict__["run"] = begin
    left.remember(thread, thread)


# -- installing ---------------------------------------------------------------------------


def follow() -> None:
    """Number what steps make from now on, on the running loop too."""
    if not _installed:
        with _lock:
            if not _installed:
                _install()
    loop = asyncio._get_running_loop()  # noqa: SLF001
    if loop is not None:
        install_on(loop)


def _install() -> None:
    patches: list[tuple[Any, str, Callable[[Any], Any]]] = [
        (ThreadPoolExecutor, "submit", _submitting),
        (threading.Thread, "start", _starting),
        (asyncio.BaseEventLoop, "create_task", _installing),
        (asyncio.Runner, "run", _installing),
        (asyncio.tasks, "as_completed", _in_order),
        (asyncio.tasks, "run_coroutine_threadsafe", _handing_over),
    ]
    for owner, name, patched in patches:
        setattr(owner, name, patched(getattr(owner, name)))
    asyncio.as_completed = asyncio.tasks.as_completed
    asyncio.run_coroutine_threadsafe = asyncio.tasks.run_coroutine_threadsafe
    _installed.append(True)
