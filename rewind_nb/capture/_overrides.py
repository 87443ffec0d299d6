"""Overrides of one call: what they replace, and whether they can.

Everything here is checked against the recorded call before a fork executes (`check`). The
formats of model providers are in `wire`; what an override makes of a request when the call
is made is in `_http_override` and `tools`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rewind_nb import _codec
from rewind_nb._describe import short
from rewind_nb._model import CallRow, Override
from rewind_nb._store import Reads
from rewind_nb.capture._context import (
    MODEL_OVERRIDES,
    TOOL_OVERRIDES,
    CallOverride,
    StepContext,
    _branch,
)
from rewind_nb.capture._http_tool import arguments_of
from rewind_nb.capture.wire import WIRES, Reading, Wire, wire_for
from rewind_nb.errors import OverrideError, did_you_mean


def for_call(ctx: StepContext, family: str, ordinal: int) -> list[CallOverride]:
    """The overrides meant for the call of *family* at this position of the running branch."""
    branch = _branch.get()
    return [given for given in ctx.overrides if given.targets(family, branch, ordinal)]


def inside(ctx: StepContext, ordinal: int) -> bool:
    """Whether an override is meant for a call made inside this tool call.

    Of one that the parent had, the recorded answer of the tool knows already.
    """
    within = f"{_branch.get()}/{ordinal}/"
    return any(given.own and f"{given.branch}/".startswith(within) for given in ctx.overrides)


# -- what was recorded -----------------------------------------------------------------


def recorded_value(store: Reads, row: CallRow, kind: str) -> Any:
    """What an override of *kind* replaces, as a callback gets it."""
    if kind == "response":
        return answer_text(store, row)
    if kind == "tool_result":
        return _tool_result(store, row)
    if kind == "tool_args":
        return _arguments(store, row)
    wire, url, body = _asked(store, row)
    return wire.part(kind, url, body)


def changes_nothing(store: Reads, row: CallRow, kind: str, value: Any) -> bool:
    """Whether the call with a checked override asks, or is answered, as it was recorded."""
    if kind == "response":
        recorded = answer_text(store, row) if isinstance(value, str) else _answer_body(store, row)
        return recorded is not None and _same(recorded, value)
    if kind == "tool_result":
        return _same(_tool_result(store, row), value)
    if kind == "tool_args":
        recorded = _arguments(store, row)
        return all(_same(recorded[name], given) for name, given in value.items())
    wire, url, body = _asked(store, row)
    return _same([url, body], list(wire.changed(kind, value, url, body)))


def _same(a: Any, b: Any) -> bool:
    return bool(_codec.encode(a) == _codec.encode(b))


def _asked(store: Reads, row: CallRow) -> tuple[Wire, str, Any]:
    """The format of a recorded model request, its URL and its JSON."""
    request = store.value(row.request)
    wire = wire_for(request["method"], request["url"]) or WIRES[0]
    body = request["body"]
    return wire, request["url"], body if isinstance(body, dict) else {}


def asked_messages(store: Reads, row: CallRow) -> list[Any] | None:
    """The messages of a recorded model request, None where it has no list of them."""
    wire, url, body = _asked(store, row)
    try:
        found = wire.part("messages", url, body)
    except OverrideError:
        return None
    return found if isinstance(found, list) else None


def answer_text(store: Reads, row: CallRow) -> str | None:
    """The text of a recorded model answer, None where it had none."""
    reading = answer_of(store, row)[1]
    return None if reading is None else reading.text


def answer_of(store: Reads, row: CallRow) -> tuple[Any, Reading | None]:
    """The body of a recorded model answer and what it says, None where it is of no use."""
    body = _answer_body(store, row)
    return body, _asked(store, row)[0].read(body)


def _answer_body(store: Reads, row: CallRow) -> Any:
    return _asked(store, row)[0].whole(_body_text(store, row))


def _body_text(store: Reads, row: CallRow) -> str:
    answer = {} if row.response is None else store.value(row.response)
    body = answer.get("body")
    return body if isinstance(body, str) else ""


def _tool_result(store: Reads, row: CallRow) -> Any:
    """What a tool returned; of one behind HTTP its JSON, or its text."""
    found = None if row.response is None else store.value(row.response)
    if not _is_http(store.value(row.request)) or not isinstance(found, Mapping):
        return found
    try:
        return json.loads(found["body"])
    except (ValueError, KeyError, TypeError):
        return found.get("body")


def _arguments(store: Reads, row: CallRow) -> Mapping[str, Any]:
    request = store.value(row.request)
    arguments: Mapping[str, Any] = arguments_of(request) if _is_http(request) else request["args"]
    return arguments


def _is_http(request: Mapping[str, Any]) -> bool:
    """Whether a recorded tool call is a request to a host, not a call of a function."""
    return "method" in request and "url" in request


# -- checks, before anything executes --------------------------------------------------


def addressed(rows: list[CallRow], kind: str, call: int, step: str) -> CallRow:
    """The recorded call that ``call=`` means.

    Raises:
        OverrideError: there is no such call.
    """
    family = "tool" if kind in TOOL_OVERRIDES else "model"
    if not rows:
        raise OverrideError(
            f"{kind}= needs a {family} call, and step {step} made none. "
            "To change what the step wrote, use output= or patch=.",
            override=kind,
        )
    if not 0 <= call < len(rows):
        raise OverrideError(
            f"call={call} of step {step}: it made {len(rows)} {family} call(s), "
            f"numbered 0 to {len(rows) - 1}.",
            override=kind,
            call=call,
        )
    return rows[call]


def check(store: Reads, rows: list[CallRow], override: Override, step: str) -> CallRow:
    """The recorded call an override addresses.

    Raises:
        OverrideError: there is no such call, or the value cannot take the place of what
            was recorded.
    """
    row = addressed(rows, override.kind, override.call, step)
    if row.source == "override" and override.kind not in ("response", "tool_result"):
        raise OverrideError(
            f"The answer of call {override.call} of step {step} was itself supplied by an "
            f"override, so {override.kind}= would change nothing. Use "
            f"{'tool_result' if row.kind == 'tool' else 'response'}=, or fork the run it was "
            "forked from.",
            override=override.kind,
        )
    if override.kind in MODEL_OVERRIDES:
        wire, url, body = _asked(store, row)
        wire.check(override.kind, override.value, url, body)
    elif override.kind == "tool_args":
        _check_args(override, store, row)
    return row


def _check_args(override: Override, store: Reads, row: CallRow) -> None:
    if store.value(row.request).get("keyed"):
        raise OverrideError(
            f"The tool {row.name!r} is identified by its key=, so its arguments are not "
            "recorded and cannot be overridden. Use tool_result=.",
            override="tool_args",
        )
    if not isinstance(override.value, Mapping) or not override.value:
        got = f"{short(override.value, 40)} ({type(override.value).__name__})"
        raise OverrideError(
            f"tool_args= takes a dict of the arguments to replace, at least one; it got {got}.",
            override="tool_args",
        )
    recorded = _arguments(store, row)
    for name in override.value:
        if name not in recorded:
            raise OverrideError(
                f"The tool {row.name!r} has no argument {name!r}. "
                f"{did_you_mean(str(name), recorded)}",
                override="tool_args",
                key=name,
            )
