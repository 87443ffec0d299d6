"""`@tool`: a function whose calls inside a step are recorded and played back.

A tool call is identified by the tool's name, its canonical arguments and the version of
its code, so that an edited tool is never answered by its old self. Calls it makes are its
children: played back, a tool makes none.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar, overload

from rewind_nb import _codec
from rewind_nb._code import fingerprint
from rewind_nb.capture import _effects, _overrides
from rewind_nb.capture._context import (
    StepContext,
    current_step,
    left_step,
    tool_scope,
)
from rewind_nb.capture._exchange import (
    DONE,
    NOTHING,
    Answer,
    Asked,
    OpenCall,
    Request,
    complete,
    fail,
    identify,
    open_call,
)
from rewind_nb.capture._flight import aboarded, boarded
from rewind_nb.capture._methods import attributes_of, object_of
from rewind_nb.errors import CacheMissError, ConfigError, NotEncodableError

P = ParamSpec("P")
R = TypeVar("R")


@overload
def tool(function: Callable[P, R], /) -> Callable[P, R]: ...
@overload
def tool(
    *,
    key: Callable[..., Any] | None = None,
    cache: bool = True,
    effect: bool = False,
    name: str | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    key: Callable[..., Any] | None = None,
    cache: bool = True,
    effect: bool = False,
    name: str | None = None,
) -> Any:
    """Mark a function or method, sync or async, as a tool.

    Outside a running step it is the function itself.

    Args:
        key: takes the call's arguments and returns what identifies the call, where the
            arguments are volatile (a timestamp) or cannot be stored (an open client).
        cache: False keeps results of other runs from being played back; a fork still
            plays back its parent's.
        effect: it acts on the world: sends, books, pays. It is written down before it fires.
            A fork plays it back where its arguments are the recorded ones, in every cache
            mode, and refuses it otherwise (see `effects=` of `Rewind.fork`).
        name: shown and fingerprinted instead of the function's qualified name.

    Returns:
        A function of the same signature. Its results are the caller's own copies.

    Raises:
        NotEncodableError: on a call inside a step whose arguments or result cannot be
            stored exactly.
        EffectRefusedError: on a call with an effect that a fork may not have.
        EffectUnknownError: on a call with an effect that an interrupted attempt started.

    Example:
        >>> @tool
        ... def convert(amount: float, rate: float) -> float:
        ...     return amount * rate
        >>> convert(2.0, 1.5)
        3.0
    """
    if function is None:
        return functools.partial(_decorate, key=key, cache=cache, effect=effect, name=name)
    return _decorate(function, key=key, cache=cache, effect=effect, name=name)


def _decorate(
    function: Callable[..., Any],
    *,
    key: Callable[..., Any] | None,
    cache: bool,
    effect: bool,
    name: str | None,
) -> Any:
    shared = cache and not effect  # what another run had done is not done in this one
    described = _Tool(function, key, shared, effect, name or function.__qualname__)
    _effects.declare(described.name, effect=effect)
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def wrapped_async(*args: Any, **kwargs: Any) -> Any:
            ctx = current_step()
            if ctx is None:
                described.refuse_in_replay()
                return await function(*args, **kwargs)
            call, asked, bound = described.open(ctx, args, kwargs)
            await aboarded(call)
            if not call.played:
                try:
                    await asyncio.wrap_future(described.admit(call, asked, bound))
                    if not call.played:
                        with tool_scope(call.row):
                            answer = await function(*bound.args, **bound.kwargs)
                        described.refuse_mutation(asked, bound)
                        call.answer = answer
                    elif inspect.isawaitable(call.answer):  # of an async stub
                        call.answer = await call.answer
                except BaseException as error:
                    await asyncio.wrap_future(fail(call, error))
                    raise
            await asyncio.wrap_future(described.settle(call))
            return described.result(call)

        return wrapped_async

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        ctx = current_step()
        if ctx is None:
            described.refuse_in_replay()
            return function(*args, **kwargs)
        call, asked, bound = described.open(ctx, args, kwargs)
        boarded(call)
        if not call.played:
            try:
                described.admit(call, asked, bound).result()
                if not call.played:
                    with tool_scope(call.row):
                        answer = function(*bound.args, **bound.kwargs)
                    described.refuse_mutation(asked, bound)
                    call.answer = answer
            except BaseException as error:
                fail(call, error).result()
                raise
        described.settle(call).result()
        return described.result(call)

    return wrapped


class _Tool:
    """One decorated function: how its calls are described and settled."""

    def __init__(
        self,
        function: Callable[..., Any],
        key: Callable[..., Any] | None,
        cache: bool,
        effect: bool,
        name: str,
    ) -> None:
        self.function = function
        self.key = key
        self.cache = cache
        self.effect = effect
        self.name = name
        self.signature = inspect.signature(function)

    def refuse_in_replay(self) -> None:
        """Refuse a call that comes after its replayed step has ended: it would be made live.

        Raises:
            CacheMissError: this is such a call.
        """
        step = left_step()
        if step is not None and step.strict:
            raise CacheMissError(
                f"The tool {self.name!r} was called by a task or thread of the replayed step "
                f"{step.action!r} when the step had ended. Such calls are not recorded, so it "
                "could not be played back. Wait in the step for what it starts.",
                call=0,
                nearest=None,
                differing=(),
            )

    def open(
        self, ctx: StepContext, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[OpenCall, Asked, inspect.BoundArguments]:
        """Open the call; an override may change its arguments or be its answer."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        asked = self._asked(ctx, bound)
        attempt_at = object()  # each call of a tool is a call of its own
        ordinal = ctx.position("tool", asked.identity[1], attempt_at)
        answer: Any = NOTHING
        for given in _overrides.for_call(ctx, "tool", ordinal):
            given.consumed = True
            if given.override.kind == "tool_args":
                ctx.sample(asked.identity, ordinal)
                bound.arguments.update(given.override.value)
                asked = self._asked(ctx, bound)
            else:
                answer = given.override.value
        executes = not ctx.strict and _overrides.inside(ctx, ordinal)
        call = open_call(
            ctx, asked, ordinal, attempt_at=attempt_at, override=answer, executes=executes
        )
        return call, asked, bound

    def _asked(self, ctx: StepContext, bound: inspect.BoundArguments) -> Asked:
        code = fingerprint(self.function, encode=_codec.encode)
        body, scope = self._body(bound, code.digest), self._scope(bound, dict(code.containers))
        shared = self.cache and scope is not None
        try:
            request = Request(
                "tool", self.name, body, body, shared=shared, effect=self.effect, scope=scope or ""
            )
            return identify(ctx, request)
        except NotEncodableError as error:
            error.add_note(
                f"The arguments of the tool {self.name!r} identify its calls. For one that "
                "cannot be stored, pass @tool(key=...) that leaves it out."
            )
            raise

    def _body(self, bound: inspect.BoundArguments, code: str) -> dict[str, Any]:
        """What identifies a call."""
        named = self._named(bound)
        body: dict[str, Any] = {"tool": self.name, "args": named}
        if self.key is not None:
            body = {"tool": self.name, "args": {"key": self.key(**named)}, "keyed": True}
        return {**body, "code": code}

    def _named(self, bound: inspect.BoundArguments) -> dict[str, Any]:
        """The arguments by name, without the object of a method."""
        owner = object_of(self.function, bound)
        return {k: v for k, v in bound.arguments.items() if k != owner}

    def _scope(self, bound: inspect.BoundArguments, held: dict[str, str]) -> str | None:
        """What has to be the same in another run that plays the call back.

        The lists and dicts that the code refers to, and the object of a method; where that
        cannot be stored, None: only forks and replays of this run play the call back. They take
        any, for a tool may change what it refers to, and that is not undone.
        """
        owner = object_of(self.function, bound)
        if owner is None or self.key is not None:
            return _codec.digest(_codec.encode(held)) if held else ""
        attributes = attributes_of(bound.arguments[owner])
        return attributes and _codec.digest(_codec.encode([held, attributes]))

    def admit(self, call: OpenCall, asked: Asked, bound: inspect.BoundArguments) -> Future[None]:
        """Done when it may execute; what acts on the world is refused, or given a stub, here."""
        if not self.effect:
            return DONE
        return _effects.admit(call, asked.request, bound.args, bound.kwargs)

    def settle(self, call: OpenCall) -> Future[None]:
        """Record the answer, or raise the recorded failure."""
        if call.error is not None:
            fail(call, call.error)
            raise call.error
        return complete(call, Answer(call.answer, playable=True))

    def refuse_mutation(self, asked: Asked, bound: inspect.BoundArguments) -> None:
        """Refuse a tool that changed an argument in place.

        Raises:
            ConfigError: playing such a call back could not do the same.
        """
        if self.key is not None:
            return
        if _codec.encode(self._named(bound)) != _codec.encode(
            _codec.decode(asked.body, strict=False)["args"]
        ):
            raise ConfigError(
                f"The tool {self.name!r} changed one of its arguments in place. A call that is "
                "played back could not, so its callers would see something else. Return the "
                "new value instead, or pass @tool(key=...)."
            )

    def result(self, call: OpenCall) -> Any:
        """The caller's own copy, the same whether live or played back."""
        if _codec.is_atomic(call.answer):
            return call.answer
        return _codec.decode(_codec.encode(call.answer))
