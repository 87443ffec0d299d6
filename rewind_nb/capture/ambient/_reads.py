"""From a read to its tape."""

from __future__ import annotations

from types import FrameType

from rewind_nb._model import CallKind
from rewind_nb.capture._context import (
    StepContext,
    _branch,
    _current,
    _parent_call,
    _sending,
)
from rewind_nb.capture._tape import Key, Read, Tape
from rewind_nb.capture.ambient._who import who


def reading_step() -> StepContext | None:
    """The step whose reads are recorded in this context, if any."""
    step = _current.get()
    return None if step is None or step.closed or _sending.get() else step


def tape_of(
    step: StepContext,
    kind: CallKind,
    frame: FrameType,
    function: str | None,
    size: int | None = None,
    seeded: bool = False,
) -> Tape | None:
    """The tape that a read belongs to; None where it is not to be recorded.

    Args:
        frame: the one that reads.
        function: what it called, None where that is to be read off the frame.
        size: bits or bytes asked for.
        seeded: whether it draws from the generator that `random.seed` seeds.
    """
    reader = who(frame, function)
    if reader is None:
        return None
    tapes, branch = step.tapes, _branch.get()
    seed = tapes.seed_in(branch) if seeded and tapes.seeds else None
    key: Key = (branch, *reader, size, seed)
    tape = tapes.get(key)
    if tape is not None:
        return tape
    called, caller = reader
    kind = "uuid" if called.startswith("uuid.") else kind
    read = Read(kind, called, caller, branch, size, seed, _parent_call.get())
    return tapes.open(step, key, read)
