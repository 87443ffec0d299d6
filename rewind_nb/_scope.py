"""Context managers that leave alone the exceptions of the blocks they are around.

What `contextlib` makes of a generator sets the traceback of an exception that passes. One
that cannot be set, such as a frozen dataclass, then becomes another exception.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Scope(AbstractContextManager[T], Generic[T]):
    """What a generator does around a block: what comes before its ``yield``, and its `finally`."""

    def __init__(self, steps: Generator[T, None, None]) -> None:
        self._steps = steps

    def __enter__(self) -> T:
        return next(self._steps)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._steps.close()


def scope(function: Callable[P, Generator[T, None, None]]) -> Callable[P, Scope[T]]:
    """A context manager from a generator that yields once, within ``try`` and ``finally``.

    Example:
        >>> log = []
        >>> @scope
        ... def noted():
        ...     log.append("in")
        ...     try:
        ...         yield
        ...     finally:
        ...         log.append("out")
        >>> with noted():
        ...     log.append("block")
        >>> log
        ['in', 'block', 'out']
    """

    @functools.wraps(function)
    def made(*args: P.args, **kwargs: P.kwargs) -> Scope[T]:
        return Scope(function(*args, **kwargs))

    return made
