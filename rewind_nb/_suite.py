"""Recorded runs as a suite, as a command line names one: an application, a store, a check.

What `rewind regress` and the pytest plugin have in common.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from rewind_nb._describe import plural
from rewind_nb.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from rewind_nb._check import Check
    from rewind_nb._rewind import Rewind
    from rewind_nb._run import Run
    from rewind_nb.experiments import Regress


@dataclass(slots=True)
class Suite:
    """Recorded runs, and what they are executed again by.

    Attributes:
        runs: ids; all recorded runs where there is none.
    """

    rw: Rewind
    check: Check
    start: Any
    runs: Sequence[str]
    samples: int
    effects: Any
    label: str | None = field(default=None)

    @classmethod
    def of(
        cls,
        *,
        app: str,
        check: str,
        store: str | None = None,
        start: str = "first",
        runs: Sequence[str] = (),
        samples: int = 1,
        stubs: Sequence[str] = (),
        live_effects: bool = False,
        label: str | None = None,
    ) -> Suite:
        """From what a command line says.

        Raises:
            ConfigError: a part of it cannot be understood.
            CheckSyntaxError: the check cannot be read.
        """
        from rewind_nb._check import Check
        from rewind_nb._rewind import Rewind

        if samples < 1:
            raise ConfigError(f"samples {samples}: a whole number from 1 on.")
        effects = effects_of(stubs, live=live_effects)
        checked, at = Check(check), start_of(start)
        rw = Rewind(application(app), store=store)
        if not rw.store.exists:
            raise ConfigError(
                f"There is no store at {rw.store.path}. Check the path, or record a run there first."
            )
        return cls(rw, checked, at, runs, samples, effects, label)

    def recorded(self) -> list[Run]:
        """The runs of it.

        Raises:
            ConfigError: there is none.
            RunNotFoundError: there is no such run.
        """
        from rewind_nb.experiments._regresses import suite_of

        return suite_of(self.rw, self.runs or None)[0]

    def regress(self, *runs: str, progress: bool | None = None) -> Regress:
        """Execute all of it again, or these runs."""
        return self.rw.regress(
            [*runs] or [*self.runs] or None,
            check=self.check,
            start=self.start,
            samples=self.samples,
            effects=self.effects,
            label=self.label,
            progress=progress,
        )

    def advice(self, found: Regress) -> str:
        """What is wrong, and how to look at it."""
        counts = {result: len(found.by(result)) for result in ("regressed", "error", "not run")}
        told = [f"{plural(count, 'run')}: {result}" for result, count in counts.items() if count]
        fork = next((case for case in found.regressed if case.fork is not None), None)
        path = self.rw.store.path
        if fork is None or fork.fork is None or path is None:
            return f"{', '.join(told)}."
        return (
            f"{', '.join(told)}. What differs: "
            f"`rewind diff {fork.run.id} {fork.fork.id} --store {path}`."
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.rw.store.close()


def application(name: str) -> Any:
    """The application at ``module:attribute``: one that is built, or a function that builds one.

    The current folder is looked in first, as ``python -m`` does.

    Raises:
        ConfigError: there is none; the message says what there is.
        Exception: whatever importing the module raises.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise ConfigError(
            f"{name!r} names no application. Write module:attribute, such as booking:build for "
            "the function `build` in booking.py."
        )
    if (here := os.getcwd()) not in sys.path:  # noqa: PTH109  (sys.path holds texts)
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there, and needs one that is not
        raise ConfigError(
            f"There is no module {error.name!r}, looked for in {here} and where Python is "
            "installed. Run this in the folder that holds it, or add that to PYTHONPATH."
        ) from error
    for part in attribute.split("."):
        if not hasattr(found, part):
            known = [known for known in vars(found) if not known.startswith("_")]
            raise ConfigError(f"{module_name} has no {part!r}. {did_you_mean(part, known)}")
        found = getattr(found, part)
    return found


def start_of(text: str) -> Any:
    """Where to start, of a command line: ``search:2`` is the second visit.

    Example:
        >>> start_of("first"), start_of("search"), start_of("search:2"), start_of("3")
        ('first', 'search', ('search', 2), 3)
    """
    action, _, visit = text.rpartition(":")
    if action and visit.isdecimal():
        return action, int(visit)
    return int(text) if text.isdecimal() else text


def effects_of(stubs: Sequence[str], *, live: bool) -> Any:
    """What becomes of tools with effects, of a command line.

    Raises:
        ConfigError: a stub is no ``TOOL=JSON``, or effects are both live and stubbed.

    Example:
        >>> effects_of(["book_flight=null", 'pay={"paid": true}'], live=False)
        {'book_flight': None, 'pay': {'paid': True}}
    """
    if live and stubs:
        raise ConfigError("Effects are fired or answered by stubs, not both. Leave one out.")
    found = {}
    for stub in stubs:
        tool, equals, text = stub.partition("=")
        try:
            found[tool] = json.loads(text)
        except ValueError:
            equals = ""
        if not tool or not equals:
            raise ConfigError(
                f"The stub {stub!r} is no TOOL=JSON. Write book_flight='\"LIS-1\"' for a text, or "
                "book_flight=null."
            )
    return "live" if live else found or None
