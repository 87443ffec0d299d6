"""Scripts and drivers: what to execute next, and executing it.

A script is a generator. It yields the inputs of the next step and is sent what the action
raised, if anything; it returns how the run ended. Whatever is decided is decided there,
once for sync and async runs; the two drivers only step the machine.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from rewind_nb._burr import Machine
from rewind_nb._model import RunStatus
from rewind_nb.errors import StepLimitError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a script ended."""

    status: RunStatus
    next_action: str | None
    note: str | None = None
    error: BaseException | None = None  # what an action raised, to be raised unchanged


Script = Generator[Mapping[str, Any], BaseException | None, Ended]


class Way(Protocol):
    """Where to stop, and what inputs a step gets."""

    def stops(self, did: tuple[str, int], following: str) -> bool:
        """Whether to stop between the step (action, visit) and the next action."""

    def inputs(self, action: str, visit: int) -> Mapping[str, Any]:
        """The inputs of the step at (action, visit)."""


Applier = Callable[[Machine, str, int], bool]


def forward(
    machine: Machine,
    way: Way,
    *,
    applies: Applier = lambda _machine, _action, _visit: False,
    max_steps: int | None = None,
    stop_for_inputs: bool = False,
    over: bool = False,
) -> Script:
    """Execute until a halt condition holds or no action is left.

    Args:
        applies: puts in the output of a step instead of executing it, and says so.
        over: nothing is left to execute; only the end is to be written down.
        stop_for_inputs: halt where an input is needed that there is not, instead of
            letting Burr raise.
    """
    session, executed = machine.session, 0
    if over:
        return Ended("complete", None)
    while (action := machine.next_action) is not None:
        visit = session.visits[action] + 1
        if not applies(machine, action, visit):
            inputs = way.inputs(action, visit)
            missing = sorted(machine.spec.inputs_of(action)[0] - set(inputs))
            if missing and stop_for_inputs:
                return Ended("halted", action, _needs(session.run.id, action, missing))
            if max_steps is not None and executed >= max_steps:
                raise StepLimitError(
                    f"The fork {session.run.id} executed {executed} steps and did not end: "
                    f"visit {visit} of {action!r} would be next. If that is right, pass a larger "
                    "max_steps=.",
                    run_id=session.run.id,
                )
            error = yield inputs
            if error is not None:
                return stopped_by(error, action)
            executed += 1
        following = machine.next_action
        if following is not None and way.stops((action, visit), following):
            return Ended("halted", following)
    return Ended("complete", None)


def _needs(run_id: str, action: str, missing: list[str]) -> str:
    given = ", ".join(f"{name!r}: ..." for name in missing)
    return (
        f"{action!r} needs inputs the recording lacks; "
        f"go on with rw.resume({run_id!r}, inputs={{{given}}})"
    )


def stopped_by(error: BaseException, action: str | None) -> Ended:
    """How a run ends that an exception stopped: an interrupt is not a failure."""
    status: RunStatus = "failed" if isinstance(error, Exception) else "interrupted"
    return Ended(status, action, error=error)


def drive(script: Script, machine: Machine) -> Ended:
    """Step the machine as the script says; it is told what an action raised."""
    try:
        inputs = next(script)
        while True:
            error: BaseException | None = None
            try:
                machine.step(inputs)
            except BaseException as raised:  # noqa: BLE001  (the script decides)
                error = raised
            inputs = script.send(error)
    except StopIteration as stop:
        ended: Ended = stop.value
        return ended


async def adrive(script: Script, machine: Machine) -> Ended:
    """The same for an async machine."""
    try:
        inputs = next(script)
        while True:
            error: BaseException | None = None
            try:
                await machine.astep(inputs)
            except BaseException as raised:  # noqa: BLE001  (the script decides)
                error = raised
            inputs = script.send(error)
    except StopIteration as stop:
        ended: Ended = stop.value
        return ended


def wait_for(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine from sync code, also inside a running event loop.

    There it runs in a thread with a loop of its own, in a copy of the caller's context. An
    interrupt cancels it and waits until it has written down where it stopped.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    box: dict[str, Any] = {}

    async def main() -> None:
        box["loop"], box["task"] = asyncio.get_running_loop(), asyncio.current_task()
        box["result"] = await make()

    def work() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001  (raised again in the caller's thread)
            box["error"] = error

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(work,), name="rewind-loop")
    thread.start()
    try:
        thread.join()
    except KeyboardInterrupt:
        box["loop"].call_soon_threadsafe(box["task"].cancel)
        thread.join()
        raise
    if (error := box.get("error")) is not None:
        raise error
    result: T = box["result"]
    return result
