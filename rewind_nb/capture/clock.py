"""`now`, `random` and `uuid4`: recorded inside a step, played back in its forks and replays."""

from __future__ import annotations

import datetime as dt
import random as _random
import uuid
from collections.abc import Callable
from typing import Any, Literal, TypeVar

from rewind_nb.capture._context import current_step
from rewind_nb.capture._exchange import Answer, Request, complete, identify, open_call

T = TypeVar("T")


def now() -> dt.datetime:
    """The current time, UTC.

    Example:
        >>> now().tzinfo
        datetime.timezone.utc
    """
    return _value("clock", "now", lambda: dt.datetime.now(dt.UTC))


def random() -> float:
    """A random float in [0, 1).

    Example:
        >>> 0 <= random() < 1
        True
    """
    return _value("random", "random", _random.random)


def uuid4() -> uuid.UUID:
    """A random UUID.

    Example:
        >>> uuid4().version
        4
    """
    return _value("uuid", "uuid4", uuid.uuid4)


def _value(kind: Literal["clock", "random", "uuid"], name: str, produce: Callable[[], T]) -> T:
    ctx = current_step()
    if ctx is None:
        return produce()
    body: dict[str, Any] = {"function": name}
    asked = identify(ctx, Request(kind, name, body, body))
    ordinal = ctx.position(kind, asked.identity[1], object())
    call = open_call(ctx, asked, ordinal)
    value: T = call.answer if call.played else produce()
    complete(call, Answer(value, playable=True))
    return value
