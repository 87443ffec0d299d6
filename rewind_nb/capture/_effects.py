"""Tools that act on the world: written down before they fire, and never fired again by accident.

A recording fires them. A fork plays back what its parent fired with the same arguments and
refuses the rest, unless it was given ``effects="live"`` or a stub. A step that is resumed plays
back what it fired before, also where it failed afterwards; where a call has no result, nobody
knows whether it happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from rewind_nb._describe import short
from rewind_nb._model import CallRow
from rewind_nb.capture._context import RecordedCalls, StepContext, is_stop
from rewind_nb.capture._exchange import DONE, OpenCall, Request
from rewind_nb.capture._miss import cache_miss
from rewind_nb.errors import ConfigError, EffectRefusedError, EffectUnknownError, did_you_mean

_declared: dict[str, bool] = {}  # the tools of this process: whether one of the name has an effect


def declare(name: str, *, effect: bool) -> None:
    """Remember a tool, so that a stub for another one is refused."""
    _declared[name] = effect or _declared.get(name, False)


def check_effects(effects: Any, recorded: Callable[[], Iterable[str]]) -> Any:
    """The ``effects=`` of a fork, if it is one.

    Args:
        recorded: the names of the tools that the parent called. They are asked for only where a
            stub is for none that was declared: an action may declare its tools as it executes.

    Raises:
        ConfigError: it is none, or a stub is for no tool with an effect.
    """
    if effects is None or (isinstance(effects, str) and effects == "live"):
        return effects
    if not isinstance(effects, Mapping) or not all(isinstance(name, str) for name in effects):
        raise ConfigError(
            f'effects={short(effects)} is neither "live" nor a dict of stubs by the name of the '
            "tool, each a value to return or a function to call instead."
        )
    acting = [name for name, effect in _declared.items() if effect]
    for name in effects:
        if name not in _declared and name not in (called := sorted(set(recorded()))):
            known = [*acting, *(other for other in called if other not in _declared)]
            raise ConfigError(
                f"effects= has a stub for {name!r}, which is the name of no tool with an effect "
                f"(@tool(effect=True)). {did_you_mean(name, known)}"
            )
        if not _declared.get(name, True):
            raise ConfigError(
                f"effects= has a stub for {name!r}, a tool that is not declared with "
                "@tool(effect=True), so a fork calls it or plays it back, and would not use the "
                f"stub. Give its result with tool_result=. {did_you_mean(name, acting)}"
            )
    return dict(effects)


def admit(
    call: OpenCall, request: Request, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Future[None]:
    """Let a call of a tool with an effect fire, or answer it with a stub.

    Args:
        args: what the tool, or its stub, is called with.

    Returns:
        A future that is done when the call is durable as `started`; only then it may fire.

    Raises:
        EffectUnknownError: an attempt before this one started it and got no result.
        EffectRefusedError: a fork that may not fire it.
    """
    ctx, row = call.ctx, call.row
    own = ctx.recorded_key is not None and ctx.recorded_key[0] == ctx.run_id
    acts = ctx.run_kind != "fork" or ctx.effects == "live"
    stubs = {} if acts else ctx.effects or {}
    refuses = not acts and row.name not in stubs
    error = _left_unknown(ctx, row) if own or refuses else None
    if error is not None or refuses:
        call.row = replace(row, source="refused")
        raise error or _refused(call, request, list(stubs))
    if not acts:
        stub = stubs[row.name]
        call.row = replace(row, source="override")
        call.answer = stub(*args, **kwargs) if callable(stub) else stub
        return DONE
    with ctx.lock:
        call.announced = True
        ctx.announced.add(row.idx)
        ctx.tapes.flush(ctx)
        ctx.batch.replace(row)
        batch, ctx.batch = ctx.batch, type(ctx.batch)()
    return ctx.store.submit(batch, durable=True)


def _left_unknown(ctx: StepContext, row: CallRow) -> EffectUnknownError | None:
    """What to raise where an earlier attempt started a call and left no result."""
    for earlier in ctx.recorded.rows if ctx.recorded else ():
        same = (earlier.kind, earlier.branch, earlier.fingerprint, earlier.n)
        if same == (row.kind, row.branch, row.fingerprint, row.n) and _unknown(earlier):
            return EffectUnknownError(
                f"The tool {row.name!r} was started by an earlier attempt at step {ctx.action!r} "
                "and left no result, so nobody knows whether it took effect. Look at what it acts "
                f"on, then give its result: rw.fork({earlier.run_id!r}, {earlier.seq}, "
                f"tool_result=..., call={_number(ctx.recorded, earlier)}).",
                tool=row.name,
            )
    return None


def _number(recorded: RecordedCalls | None, row: CallRow) -> int:
    """The number of a tool call in its step, as ``call=`` takes it."""
    rows = [] if recorded is None else recorded.logical("tool")
    return next((n for n, other in enumerate(rows) if other.idx == row.idx), 0)


def _unknown(row: CallRow) -> bool:
    """Whether a call started and was stopped before it had a result."""
    return row.status == "started" or (row.error is not None and is_stop(row.error.type))


def _refused(call: OpenCall, request: Request, stubs: list[str]) -> EffectRefusedError:
    row = call.row
    fields: tuple[str, ...] = vars(cache_miss(call.ctx, row, request.body))["differing"]
    differing = [path.removeprefix("args.") for path in fields]
    alike = differing and "tool" not in differing
    how = (
        f"its arguments are not the recorded ones ({', '.join(differing)} differ)"
        if alike
        else "the parent made no such call here"
    )
    near = f" {did_you_mean(row.name, stubs)}" if stubs else ""
    return EffectRefusedError(
        f"The tool {row.name!r} acts on the world, and {how}: a fork does not fire it by itself. "
        f'Pass effects="live" to fire it, or effects={{{row.name!r}: stub}} to answer it with a '
        f"value or a function.{near}",
        tool=row.name,
        differing=tuple(differing) if alike else (),
    )
