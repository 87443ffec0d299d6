"""The arguments of the verbs, checked before anything executes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rewind_nb._address import is_address, is_same
from rewind_nb._describe import short
from rewind_nb._run import At, Run, Step
from rewind_nb.errors import ConfigError, StepNotFoundError

MOST = 2**63 - 1  # that a store can hold


def check_names(name: str, given: Any) -> list[str] | None:
    """Action names (or ``@tag:name``) as a list; None for None.

    Raises:
        ConfigError: it is something else.

    Example:
        >>> check_names("halt_after", ("publish",))
        ['publish']
    """
    if given is None:
        return None
    if isinstance(given, str):
        raise ConfigError(f"{name}= takes a list of action names; write [{given!r}].")
    names: list[Any] = list(given) if isinstance(given, Iterable) else [None]
    if not all(isinstance(action, str) for action in names):
        raise ConfigError(f"{name}= takes a list of action names; it got {short(given)}.")
    return names


def check_number(name: str, given: Any, what: str, *, least: int) -> None:
    """Refuse what is no whole number of at least *least*, or more than a store can hold.

    Raises:
        ConfigError: it is none.

    Example:
        >>> check_number("max_steps", "5", "how many steps may execute", least=1)
        Traceback (most recent call last):
            ...
        rewind_nb.errors.ConfigError: max_steps='5' does not say how many steps may execute. Give ...
    """
    if type(given) is int and least <= given <= MOST:
        return
    meant = f" Write {name}={given}." if isinstance(given, str) and given.isdecimal() else ""
    size = " of 64 bits" if type(given) is int and given > MOST else ""
    raise ConfigError(
        f"{name}={short(given)} does not say {what}. Give it an int{size} from {least} on.{meant}"
    )


def check_flag(name: str, given: Any) -> None:
    """Refuse what is neither True nor False.

    Raises:
        ConfigError: it is neither.
    """
    if type(given) is not bool:
        raise ConfigError(f"{name}={short(given)} is neither True nor False. Pass one of them.")


def check_settings(call: int, settings: dict[str, Any]) -> None:
    """Refuse settings of a fork that cannot be; names that halt it become lists.

    Raises:
        ConfigError: one cannot.
    """
    if type(call) is not int:
        check_number("call", call, "which call is meant", least=0)
    check_number("sample", settings.get("sample", 0), "which draw is wanted", least=0)
    if settings.get("max_steps") is not None:
        check_number("max_steps", settings["max_steps"], "how many steps may execute", least=1)
    check_flag("allow_code_change", settings.get("allow_code_change", False))
    for name in ("halt_after", "halt_before"):
        settings[name] = check_names(name, settings.get(name))


def check_start(run: Run, start: Any) -> None:
    """Refuse a first step that is no address, or one of another run.

    Raises:
        ConfigError: it is no address.
        StepNotFoundError: it is another run's.
    """
    if start is None:
        return
    if not is_address(start):
        raise ConfigError(
            f"start={short(start)} is no step. Pass 'action', ('action', visit), a position from 0 "
            "or a Step of the run."
        )
    check_own(run, start)


def check_own(run: Run, at: At) -> None:
    """Refuse a `Step` of another run; one that this run shares with it is its own.

    Raises:
        StepNotFoundError: it is another run's.
    """
    if not isinstance(at, Step) or is_same(at, run[at]):
        return
    raise StepNotFoundError(
        f"The Step given, {at.address!r}, is one of run {at.run_id}, and run {run.id} does not "
        f"share it: its own step there is another. Pass that one, the run {at.run_id}, or an "
        "address such as 'action' or ('action', visit).",
        run_id=run.id,
        step_run_id=at.run_id,
    )
