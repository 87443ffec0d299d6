"""Chance inside a step: the global generator of `random`, and the system's entropy.

Three primitives are recorded, and what `random`, `secrets` and `uuid` make of them follows:
draws of the global generator, its pairs of Gaussian numbers (it keeps the second one for the
next call, across steps), and `os.urandom`. The real source is asked every time, also where a
recorded value is given out, so that a generator which the step seeded itself stands where it
would stand without us.
"""

from __future__ import annotations

import functools
import os
import random
import sys
import uuid
from collections.abc import Callable
from typing import Any

from rewind_nb import _codec
from rewind_nb.capture._context import _branch, current_step
from rewind_nb.capture.ambient._reads import reading_step, tape_of

_generator: Any = random._inst  # noqa: SLF001
_replaced: list[tuple[Any, str, Any, Any]] = []  # where, name, the real function, ours


def install_random() -> None:
    """Put our functions in the place of the real ones.

    A test that put one of its own there keeps it; once it is taken away again, the next call
    of this puts ours back.
    """
    if not _replaced:
        _replace_in_generator()
        for module, name in ((random, "_urandom"), (os, "urandom")):
            real = getattr(module, name)
            _replaced.append((module, name, real, _urandom(real)))
        _replaced.append((uuid, "uuid1", uuid.uuid1, _uuid1(uuid.uuid1)))
    for module, name, real, ours in _replaced:
        if getattr(module, name) == real:
            setattr(module, name, ours)


def _replace_in_generator() -> None:
    """In the instance, since the methods that draw on others look them up there."""
    made: dict[str, Callable[[Any], Any]] = {
        "random": _random,
        "getrandbits": _getrandbits,
        "gauss": _gauss,
        "seed": _seeding,
        "setstate": _seeding,
    }
    for name, make in made.items():
        real = getattr(_generator, name)
        ours = functools.wraps(real)(make(real))
        setattr(_generator, name, ours)
        _replaced.append((random, name, real, ours))


# -- the global generator ---------------------------------------------------------------


def _random(real: Callable[[], float]) -> Callable[[], float]:
    def recorded() -> float:
        value = real()
        step = reading_step()
        if step is None:
            return value
        tape = tape_of(step, "random", sys._getframe(1), "random.random", None, True)  # noqa: SLF001
        return value if tape is None else tape.take(value)

    return recorded


def _getrandbits(real: Callable[[int], int]) -> Callable[[int], int]:
    def recorded(k: int, /) -> int:
        value = real(k)
        step = reading_step()
        if step is None:
            return value
        frame = sys._getframe(1)  # noqa: SLF001
        tape = tape_of(step, "random", frame, "random.getrandbits", k, True)
        return value if tape is None else tape.take(value)

    return recorded


class _Plain:
    """The global generator as `Random.gauss` sees it, without what is recorded."""

    def __init__(self, draw: Callable[[], float]) -> None:
        self.random = draw

    @property
    def gauss_next(self) -> float | None:
        """The second number of the last pair."""
        return _generator.gauss_next  # type: ignore[no-any-return]

    @gauss_next.setter
    def gauss_next(self, value: float | None) -> None:
        _generator.gauss_next = value


def _gauss(real: Any) -> Callable[[float, float], float]:
    method = real.__func__
    plain = _Plain(functools.partial(random.Random.random, _generator))

    def recorded(mu: float = 0.0, sigma: float = 1.0) -> float:
        z: float = method(plain, 0.0, 1.0)
        step = reading_step()
        if step is not None:
            tape = tape_of(step, "random", sys._getframe(1), "random.gauss", None, True)  # noqa: SLF001
            z = z if tape is None else tape.take(z)
        return mu + z * sigma

    return recorded


def _seeding(real: Callable[..., None]) -> Callable[..., None]:
    """A step that seeds the generator otherwise than it was recorded draws other numbers."""

    def seeding(*args: Any, **kwargs: Any) -> None:
        real(*args, **kwargs)
        step = current_step()
        if step is not None:
            given = [v for v in (*args, *kwargs.values()) if v is not None]
            digest = _codec.digest(repr((args, kwargs)).encode()) if given else None
            step.tapes.seeds[_branch.get()] = digest

    return seeding


# -- entropy ----------------------------------------------------------------------------


def _urandom(real: Callable[[int], bytes]) -> Callable[[int], bytes]:
    @functools.wraps(real)
    def recorded(size: int, /) -> bytes:
        value = real(size)
        step = reading_step()
        if step is None:
            return value
        tape = tape_of(step, "random", sys._getframe(1), "os.urandom", size)  # noqa: SLF001
        return value if tape is None else tape.take(value)

    return recorded


def _uuid1(real: Callable[..., uuid.UUID]) -> Callable[..., uuid.UUID]:
    """`uuid1` keeps the last timestamp and never gives an earlier one, so it is recorded whole."""

    @functools.wraps(real)
    def recorded(node: int | None = None, clock_seq: int | None = None) -> uuid.UUID:
        value = real(node, clock_seq)
        step = reading_step()
        if step is None:
            return value
        tape = tape_of(step, "uuid", sys._getframe(1), "uuid.uuid1")  # noqa: SLF001
        return value if tape is None else uuid.UUID(int=tape.take(value.int))

    return recorded
