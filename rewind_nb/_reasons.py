"""Why a step of a fork executed or did not, in the few words that are stored with it.

They are written while the fork runs, so they cost next to nothing and compare nothing.
`_explain` makes them exact: which field, and which step changed it.
"""

from __future__ import annotations

from collections.abc import Iterable

OVERRIDE = "override"
SUPPLIED = "the override supplied its output"
ASKED_AGAIN = "asked again"
UNCHANGED = "nothing it read changed"
BEFORE = "before the fork point"
EQUAL = "the override equals what was recorded"
NO_EDIT = "no code changed"
FINISHED = "finished before the run stopped"
ALWAYS = "always_run"
NO_REUSE = "reuse='none'"
ORDER = "read every field, whose order changed"

_PARENT = "the parent's step "
_READ, _CHANGED = "read ", ", which changed"
_CODE = "code of "
_GIVEN = " given otherwise"
_ALONE = "the parent has no visit "
_INSIDE = " inside it"
_CONVERGED = "converged at seq "


def quoted(names: Iterable[str]) -> str:
    """Names in a row, as reasons have them.

    Example:
        >>> quoted(["city", "fare"])
        '`city`, `fare`'
    """
    return ", ".join(f"`{name}`" for name in names)


def inside(why: str) -> str:
    """The step executes for one inside it, which does for that reason."""
    return f"{why}{_INSIDE}"


def is_inside(reason: str) -> bool:
    """Whether it executed for a step inside it."""
    return reason.endswith(_INSIDE)


def ended(status: str) -> str:
    """The parent's step did not complete."""
    return f"{_PARENT}{'failed' if status == 'failed' else 'was interrupted'}"


def is_ended(reason: str) -> bool:
    """Whether it executed because the parent's did not complete."""
    return reason.startswith(_PARENT)


def changed_reads(keys: Iterable[str]) -> str:
    """It reads keys that hold something else, or are gone, or are new."""
    return f"{_READ}{quoted(keys)}{_CHANGED}"


def is_changed_reads(reason: str) -> bool:
    """Whether it executed for what it reads, the order of all keys aside."""
    return reason.startswith(_READ) and reason != ORDER


def changed_code(action: str) -> str:
    """Its code is not what the parent's step executed."""
    return f"{_CODE}{action!r} changed"


def is_changed_code(reason: str) -> bool:
    """Whether it executed for its code."""
    return reason.startswith(_CODE)


def changed_inputs(names: Iterable[str]) -> str:
    """It is given other runtime inputs."""
    return f"{quoted(names)}{_GIVEN}"


def is_changed_inputs(reason: str) -> bool:
    """Whether it executed for its inputs."""
    return reason.endswith(_GIVEN)


def alone(action: str, visit: int) -> str:
    """The parent took another way."""
    return f"{_ALONE}{visit} of {action!r} here"


def is_alone(reason: str) -> bool:
    """Whether the parent has no such step."""
    return reason.startswith(_ALONE)


def converged(seq: int | None) -> str:
    """From *seq* on the fork is its parent."""
    return f"{_CONVERGED}{seq}"


def is_converged(reason: str | None) -> bool:
    """Whether it is the parent's because the fork stands where that once stood."""
    return reason is not None and reason.startswith(_CONVERGED)
