"""Scripts and drivers: what to execute next, and executing it.

A script is a generator. It yields the inputs of the next step and is sent what the action
raised, if anything; it returns how the run ended. Whatever is decided is decided there,
once for sync and async runs; the two drivers only step the machine.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rewind_nb._burr import Machine
from rewind_nb._describe import plural
from rewind_nb._model import Override, RunStatus
from rewind_nb._scope import scope
from rewind_nb.errors import RunStoppedError, StepLimitError

BEAT = 0.1  # seconds between two looks at what a signal handler asked for
LACKS_INPUTS = "needs inputs the recording lacks"  # in the note of a run that stopped so


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

    def update(self, did: tuple[str, int]) -> Override | None:
        """What a user did to the state after the step (action, visit), to be done again."""


def forward(
    machine: Machine,
    way: Way,
    *,
    max_steps: int | None = None,
    stop_for_inputs: bool = False,
    over: bool = False,
    between: bool = False,
    converged: Callable[[str, int], Ended | None] | None = None,
) -> Script:
    """Execute until a halt condition holds or no action is left.

    Args:
        between: the run may have been stopped where it was to halt.
        over: nothing is left to execute; only the end is to be written down.
        stop_for_inputs: halt where an input is needed that there is not, instead of
            letting Burr raise.
        converged: how the run ends if after the step (action, visit) the rest is known.
    """
    run_id, executed = machine.session.run.id, 0
    if over:
        return Ended("complete", None)
    prior = machine.track.prior
    following = machine.next_action if between and prior is not None else None
    if following and prior and way.stops((prior, machine.track.visits[prior]), following):
        return Ended("halted", following)
    action = machine.next_action
    while action is not None:
        visit = machine.track.visits[action] + 1
        inputs = way.inputs(action, visit)
        if not machine.put_in(action, inputs):
            missing = sorted(machine.spec.inputs_of(action)[0] - set(inputs))
            if missing and stop_for_inputs:
                return Ended("halted", action, _needs(run_id, action, missing))
            if max_steps is not None and executed >= max_steps:
                raise StepLimitError(
                    f"The fork {run_id} executed {plural(executed, 'step')} and did not end: "
                    f"visit {visit} of {action!r} would be next. If that is right, pass a larger "
                    "max_steps=.",
                    run_id=run_id,
                )
            error = yield inputs
            if error is not None:  # it may have come after the step had ended
                finished = machine.track.visits[action] >= visit
                return stopped_by(error, None if finished else action)
            executed += 1
        if (update := way.update((action, visit))) is not None:
            machine.update(update)
        following = machine.next_action
        if following is not None and way.stops((action, visit), following):
            return Ended("halted", following)
        if converged is not None and (ended := converged(action, visit)) is not None:
            return ended
        action = following
    return Ended("complete", None)


def _needs(run_id: str, action: str, missing: list[str]) -> str:
    given = ", ".join(f"{name!r}: ..." for name in missing)
    return f"{action!r} {LACKS_INPUTS}; go on with rw.resume({run_id!r}, inputs={{{given}}})"


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
            _check_stopped(machine)
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
        with heartbeat():
            inputs = next(script)
            while True:
                error: BaseException | None = None
                _check_stopped(machine)
                try:
                    await machine.astep(inputs)
                except BaseException as raised:  # noqa: BLE001  (the script decides)
                    error = raised
                inputs = script.send(error)
    except StopIteration as stop:
        ended: Ended = stop.value
        return ended


def _check_stopped(machine: Machine) -> None:
    """Execute no further step of a run that is to stop."""
    if machine.session.stop.is_set():
        raise RunStoppedError(f"Run {machine.session.run.id} was stopped.")


@scope
def heartbeat() -> Generator[None, None, None]:
    """Wake the running loop ten times a second.

    A notebook turns an interrupt into a callback of its loop, and a loop that waits for
    nothing but the network would see it when the network answers.
    """
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def beat() -> None:
        nonlocal timer
        timer = loop.call_later(BEAT, beat, context=contextvars.Context())

    beat()
    try:
        yield
    finally:
        timer.cancel()
