"""Overrides of one call: what they do to a request, an answer or a tool's arguments.

Everything here is checked against the recorded call before a fork executes (`check`), and
applied when the call is made.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Mapping
from typing import Any

from rewind_nb._describe import short
from rewind_nb._model import CallRow, Override
from rewind_nb._store import Store
from rewind_nb.capture._context import (
    MODEL_OVERRIDES,
    TOOL_OVERRIDES,
    CallOverride,
    StepContext,
    _branch,
)
from rewind_nb.capture._messages import check_messages
from rewind_nb.errors import OverrideError, did_you_mean


def for_call(ctx: StepContext, family: str, ordinal: int) -> list[CallOverride]:
    """The overrides meant for the call of *family* at this position of the running branch."""
    branch = _branch.get()
    return [given for given in ctx.overrides if given.targets(family, branch, ordinal)]


def inside(ctx: StepContext, ordinal: int) -> bool:
    """Whether an override is meant for a call made inside this tool call."""
    within = f"{_branch.get()}/{ordinal}"
    return any(f"{given.branch}/".startswith(f"{within}/") for given in ctx.overrides)


# -- model requests ------------------------------------------------------------------


def request_body(body: dict[str, Any], override: Override) -> dict[str, Any]:
    """A copy of a model request's JSON body with the override in it."""
    changed = copy.deepcopy(body)
    kind, value = override.kind, override.value
    if kind == "prompt":
        _last_user(changed["messages"])["content"] = value
    elif kind in ("messages", "model", "temperature"):
        changed[kind] = copy.deepcopy(value)
    elif kind == "params":
        for name, setting in value.items():
            if setting is None:
                changed.pop(name, None)
            else:
                changed[name] = copy.deepcopy(setting)
    return changed


def recorded_part(body: Mapping[str, Any], kind: str) -> Any:
    """What an override of *kind* would replace in a recorded request body."""
    if kind == "prompt":
        return _last_user(body["messages"])["content"]
    return body.get(kind)


def _last_user(messages: Any) -> dict[str, Any]:
    for message in reversed(messages if isinstance(messages, list) else []):
        if isinstance(message, dict) and message.get("role") == "user":
            return message
    raise OverrideError(
        "prompt= replaces the text of the last user message, and this request has none. "
        "Use messages= to replace the whole list."
    )


def response(ctx: StepContext, given: CallOverride) -> Any:
    """The answer that a `response=` override gives, in the shape of the recorded one."""
    rows = [] if ctx.recorded is None else ctx.recorded.logical("model")
    position = (given.branch, given.ordinal)
    row = next((r for r in rows if (r.branch, r.ordinal) == position), None)
    return answer_for(ctx.store, row, given.override.value)


def answer_for(store: Store, row: CallRow | None, value: Any) -> dict[str, Any]:
    """The recorded HTTP answer of *row* with its text, or its whole body, replaced."""
    body = _recorded_json(store.value(row.response)) if row and row.response else None
    if isinstance(value, str):
        if body is None or not body.get("choices"):
            body = {"object": "chat.completion", "choices": [{"index": 0}]}
        choice = body["choices"][0]
        choice["message"] = {**choice.get("message", {"role": "assistant"}), "content": value}
        choice.setdefault("finish_reason", "stop")
    else:
        body = value
    return {
        "status": 200,
        "headers": {"content-type": "application/json"},
        "body": json.dumps(body, ensure_ascii=False),
    }


def answer_text(store: Store, row: CallRow) -> str | None:
    """The text of a recorded model answer, None where it had none."""
    body = _recorded_json(store.value(row.response)) if row.response else None
    try:
        text = body["choices"][0]["message"]["content"] if body else None
    except (KeyError, IndexError, TypeError):
        return None
    return text if isinstance(text, str) else None


def _recorded_json(recorded: Any) -> dict[str, Any] | None:
    try:
        parsed = json.loads(recorded["body"])
    except (ValueError, KeyError, TypeError):
        return None
    return parsed if isinstance(parsed, dict) else None


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


def check(store: Store, rows: list[CallRow], override: Override, step: str) -> CallRow:
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
        _check_model(override, _request_json(store, row))
    elif override.kind == "tool_args":
        request = store.value(row.request)
        if request.get("keyed"):
            raise OverrideError(
                f"The tool {row.name!r} is identified by its key=, so its arguments are not "
                "recorded and cannot be overridden. Use tool_result=.",
                override="tool_args",
            )
        _check_args(override, request["args"], row.name)
    return row


def _request_json(store: Store, row: CallRow) -> dict[str, Any]:
    body = store.value(row.request)["body"]
    return body if isinstance(body, dict) else {}


def _check_model(override: Override, recorded: dict[str, Any]) -> None:
    kind, value = override.kind, override.value
    if kind == "messages":
        check_messages(value)
    else:
        _check_value(kind, value)
    if kind == "prompt":
        _last_user(recorded.get("messages"))
    elif kind == "params":
        _check_params(value)
    _check_sendable(kind, value)


def _check_value(kind: str, value: Any, name: str | None = None) -> None:
    """Refuse a value that cannot stand where an override of *kind* would put it."""
    wanted, fits = _WANTED[kind]
    if not fits(value):
        raise OverrideError(
            f"{name or f'{kind}='} takes {wanted}; it got {_got(value)}.", override=kind
        )


def _got(value: Any) -> str:
    """A value as an error quotes it, with its type: a wrong one may look right."""
    return f"{short(value, 40)} ({type(value).__name__})"


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_temperature(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value < math.inf


def _is_answer(value: Any) -> bool:
    whole = isinstance(value, Mapping) and isinstance(value.get("choices"), list)
    return isinstance(value, str) or whole


_WANTED: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "prompt": ("the text of the last user message, a str", _is_text),
    "model": ("the name of a model, a str", lambda v: isinstance(v, str) and bool(v.strip())),
    "temperature": ("a finite number, 0 or more", _is_temperature),
    "params": (
        "a dict of request fields by name, at least one (None removes a field)",
        lambda v: isinstance(v, Mapping) and bool(v) and all(isinstance(k, str) for k in v),
    ),
    "response": (
        "the text of the answer (a str; for JSON, json.dumps(...)) or a whole body with 'choices'",
        _is_answer,
    ),
}


def _check_params(params: Mapping[str, Any]) -> None:
    for name in ("model", "messages"):
        if name in params and params[name] is None:
            raise OverrideError(
                f"params= cannot remove {name!r}: every request has it.", override="params"
            )
    for name in ("model", "temperature"):
        if params.get(name) is not None:
            _check_value(name, params[name], f"{name!r} in params=")
    if params.get("messages") is not None:
        check_messages(params["messages"], "params")
    if params.get("stream"):
        raise OverrideError(
            "params= cannot ask for a stream: the caller reads a whole answer. Leave 'stream' out.",
            override="params",
        )


def _check_sendable(kind: str, value: Any) -> None:
    """Refuse what no request or answer could carry."""
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        reason = "it holds a lone surrogate, which is no character"
    except ValueError:
        reason = "it holds NaN or an infinity"
    except TypeError as error:
        reason = str(error)
    else:
        return
    raise OverrideError(
        f"{kind}= cannot be sent as JSON: {reason}. Use text, finite numbers, booleans, None, "
        "lists and dicts.",
        override=kind,
    )


def _check_args(override: Override, recorded: Mapping[str, Any], tool: str) -> None:
    if not isinstance(override.value, Mapping) or not override.value:
        raise OverrideError(
            "tool_args= takes a dict of the arguments to replace, at least one; it got "
            f"{_got(override.value)}.",
            override="tool_args",
        )
    for name in override.value:
        if name not in recorded:
            raise OverrideError(
                f"The tool {tool!r} has no argument {name!r}. {did_you_mean(str(name), recorded)}",
                override="tool_args",
                key=name,
            )
