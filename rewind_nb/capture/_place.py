"""Who is executing: the step, the branch inside it, the call around it.

Context variables say so, and are copied into every task and thread that a step starts. They
do not say all: a context copied in one place may be entered in another (`asyncio.to_thread`
does it, and many libraries). So each task and thread also remembers the branch it was given
(its `Flow`), and the branch variable is believed only where it lies inside that.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rewind_nb._scope import scope

if TYPE_CHECKING:
    from rewind_nb.capture._context import StepContext

FLOW = "_rewind_flow"  # on tasks, and on the threads of pools

_current: ContextVar[StepContext | None] = ContextVar("rewind_step", default=None)
_name: ContextVar[str] = ContextVar("rewind_branch", default="")
_parent_call: ContextVar[int | None] = ContextVar("rewind_parent_call", default=None)
_sending: ContextVar[bool] = ContextVar("rewind_sending", default=False)
_guarded: ContextVar[bool] = ContextVar("rewind_guarded", default=False)


@dataclass(frozen=True, slots=True)
class Flow:
    """What a task, a thread or a work item of a step belongs to.

    Attributes:
        step: None where only a replay between two steps started it.
        branch: None where it has none of its own.
        guarded: whether a replay started it.
    """

    step: StepContext | None
    branch: str | None
    guarded: bool


class _Thread(threading.local):
    flow: Flow | None = None  # of the work that this thread is doing


_thread = _Thread()


@scope
def flowing(flow: Flow | None) -> Generator[None, None, None]:
    """Do the work of *flow* in this thread."""
    before, _thread.flow = _thread.flow, flow
    try:
        yield
    finally:
        _thread.flow = before


def thread_flow() -> Flow | None:
    """The flow whose work this thread is doing, None for a thread of nobody."""
    return _thread.flow


def _running_flow() -> Flow | None:
    loop = asyncio._get_running_loop()  # noqa: SLF001  (the public one raises)
    if loop is None:
        return _thread.flow
    return getattr(asyncio.current_task(loop), FLOW, None)


class _Branch:
    """The branch of the running code, used like a context variable."""

    def get(self) -> str:
        """Its name: "" in the step's own flow, else what `StepContext.new_branch` gave."""
        name, flow = _name.get(), _running_flow()
        if flow is None or flow.branch is None or flow.step is not _current.get():
            return name
        inside = (name + "~").startswith((f"{flow.branch}~", f"{flow.branch}/"))
        return name if inside else flow.branch

    def set(self, name: str) -> Token[str]:
        """Change it; the token is for `reset`."""
        return _name.set(name)

    def reset(self, token: Token[str]) -> None:
        """Change it back."""
        _name.reset(token)


_branch = _Branch()


def current_branch() -> str:
    """The branch of the running step that this code is in."""
    return _branch.get()


def current_step() -> StepContext | None:
    """The step that is executing in this context, if any; not one that has ended."""
    step = _current.get()
    return None if step is None or step.closed else step


def left_step() -> StepContext | None:
    """The step that this context was copied from, where it has ended meanwhile."""
    step = _current.get()
    return step if step is not None and step.closed else None


def is_outside() -> bool:
    """Whether neither a step nor a replay has to do with what executes here; kept cheap."""
    return _current.get() is None and not _guarded.get() and _thread.flow is None


def is_guarded() -> bool:
    """Whether a replay is executing here, or started what executes here."""
    flow = _thread.flow
    return _guarded.get() or (flow is not None and flow.guarded)


@scope
def sending() -> Generator[None, None, None]:
    """While a captured request is on the wire: what the client does meanwhile is not the user's.

    Its tasks get no branch number, its connections are not reported, the clocks it reads
    and the random numbers it draws are not recorded: a played-back call has none of them.
    """
    with setting({_sending: True}):
        yield


def is_sending() -> bool:
    """Whether a captured request is on the wire in this context."""
    return _sending.get()


@scope
def setting(values: Mapping[Any, Any]) -> Generator[None, None, None]:
    """Give variables another value for a while."""
    tokens = [(variable, variable.set(value)) for variable, value in values.items()]
    try:
        yield
    finally:
        for variable, token in tokens:
            variable.reset(token)
