"""Work that leaves the running flow for a task, thread or work item of its own."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from rewind_nb.capture._errors import add_note
from rewind_nb.capture._place import (
    Flow,
    _branch,
    current_step,
    flowing,
    is_guarded,
    is_sending,
)

if TYPE_CHECKING:
    from rewind_nb.capture._context import StepContext

# Code that makes tasks and threads on behalf of its caller.
_PLUMBING = {"anyio", "asgiref", "burr", "nest_asyncio", *sys.stdlib_module_names}
_OURS = "rewind_nb."
_WRAPPERS = (__name__, "rewind_nb.capture._branches")  # around what the caller called
_EDGES = ("asyncio.events", "asyncio.runners")  # who called these is not the step's concern


@dataclass(frozen=True, slots=True)
class Leaving:
    """Where the work belongs.

    Attributes:
        context: a copy of the maker's, on the new branch.
        package: the installed package that makes it for itself, "" if it is the user's.
    """

    flow: Flow
    context: contextvars.Context
    package: str

    def run(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Do it, in another thread."""
        with flowing(self.flow):
            return self.context.run(work, *args, **kwargs)

    def remember(self, made: Any, work: Any, /, *args: Any) -> None:
        """So that an interrupt can stop what was made, and that it can be named."""
        step = self.flow.step
        if step is not None and self.flow.branch is not None and not self.package:
            with step.lock:
                step.started[made] = _name(work, args)


def leave(*, numbered: bool = True) -> Leaving | None:
    """Begin a flow, on a branch of its own if a step makes it.

    None where no step and no replay is executing: nothing is to be done.
    """
    step, guarded = current_step(), is_guarded()
    if step is None and not guarded:
        return None
    context, branch, package = contextvars.copy_context(), None, ""
    if step is not None and numbered and not is_sending():
        package = _package(sys._getframe(1))  # noqa: SLF001
        branch = step.new_branch(_branch.get(), package)
        context.run(_branch.set, branch)
    return Leaving(Flow(step, branch, guarded), context, package)


def _package(frame: FrameType | None) -> str:
    """The installed package that makes something for itself, "" for code of the user."""
    while frame is not None:
        module = frame.f_globals.get("__name__") or ""
        top = module.partition(".")[0]
        if module in _EDGES or (module.startswith(_OURS) and module not in _WRAPPERS):
            return ""
        if top not in _PLUMBING and module not in _WRAPPERS:
            return top if _is_installed(frame.f_code.co_filename) else ""
        frame = frame.f_back
    return ""


@functools.lru_cache(maxsize=4096)
def _is_installed(file: str) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts)


def _name(work: Any, args: tuple[Any, ...]) -> str:
    """What is done, where it was handed on to run in a context as well (`asyncio.to_thread`)."""
    while True:
        if isinstance(work, functools.partial):
            work, args = work.func, (*work.args, *args)
        elif isinstance(getattr(work, "__self__", None), contextvars.Context) and args:
            work, *rest = args
            args = tuple(rest)
        else:
            break
    if isinstance(work, threading.Thread):
        return f"thread {work.name!r}"
    return str(getattr(work, "__qualname__", type(work).__name__))


def survivors(step: StepContext) -> list[str]:
    """The names of what the step started and what still works; not what was told to stop."""
    with step.lock:
        started = list(step.started.items())
    return sorted({work for made, work in started if _works(made)})


def _works(made: Any) -> bool:
    if isinstance(made, threading.Thread):
        return made.is_alive()
    return not (made.done() or (hasattr(made, "cancelling") and made.cancelling()))


def stop(step: StepContext, error: BaseException) -> None:
    """Tell what the step started to stop, and name on the interrupt what does not."""
    with step.lock:
        started = list(step.started.items())
    left = sorted(work for made, work in started if not _stopped(made))
    if left:
        add_note(
            error,
            f"Still running, and its results are dropped: {', '.join(left)} "
            f"(started in step {step.seq} {step.action!r})",
        )


def _stopped(made: Any) -> bool:
    if isinstance(made, threading.Thread):
        return not made.is_alive()
    if made.done():
        return True
    if isinstance(made, Future):
        return made.cancel()
    if not made.cancelling():
        with contextlib.suppress(RuntimeError):  # its loop is closed
            made.get_loop().call_soon_threadsafe(made.cancel)
    return True
