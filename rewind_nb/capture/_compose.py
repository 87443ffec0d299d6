"""The body of a chat request, made from what the caller said. Pure.

Equal requests must have equal bodies, since a recording is looked up by them:
parameters that are None are left out, a temperature is always a float, a tool
result is compact JSON in the caller's key order. What has no JSON form is
refused, never turned into a string.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from rewind_nb.errors import ConfigError, NotEncodableError

__all__ = ["compose", "temperature_of", "to_json"]

RESERVED = ("messages", "stream")
_MESSAGE = "{'role': 'user', 'content': '...'}"


def compose(
    model: str,
    prompt: str | Sequence[Mapping[str, Any]],
    *,
    tool_result: str | None,
    params: Mapping[str, Any],
) -> dict[str, Any]:
    r"""The request body: model, messages, and the parameters that are not None.

    Args:
        model: the model to ask, unless the parameters name another.
        prompt: text for one user message, or the messages.
        tool_result: JSON text to append to the last user message.
        params: everything else of the body.

    Raises:
        ConfigError: no messages, no user message for the tool result, or a reserved parameter.

    Example:
        >>> compose("m", "Hi", tool_result="[1]", params={"seed": None})
        {'model': 'm', 'messages': [{'role': 'user', 'content': 'Hi\n\nTool result:\n[1]'}]}
    """
    for name in RESERVED:
        if name in params:
            raise ConfigError(
                f"{name}= cannot be set here: chat() sends its prompt as the messages "
                "and reads one whole answer."
            )
    messages = _messages(prompt)
    if tool_result is not None:
        _append(messages, f"\n\nTool result:\n{tool_result}")
    fields = {name: value for name, value in params.items() if value is not None}
    named = fields.get("model", model)
    if not isinstance(named, str) or not named.strip():
        raise ConfigError(f"model={named!r} is not the name of a model. Pass a str.")
    return {"model": model, "messages": messages, **fields}


def _messages(prompt: str | Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    if not isinstance(prompt, Sequence) or isinstance(prompt, bytes):
        raise ConfigError(
            f"the prompt must be a str or a list of messages such as {_MESSAGE}, not "
            f"{type(prompt).__name__}."
        )
    if not prompt:
        raise ConfigError("the list of messages is empty. Pass at least one message.")
    return [_message(message, index) for index, message in enumerate(prompt)]


def _message(message: Any, index: int) -> dict[str, Any]:
    if isinstance(message, Mapping):
        return dict(message)
    raise ConfigError(
        f"item {index} of the list of messages is of type {type(message).__name__}. A message is "
        f"a dict such as {_MESSAGE}."
    )


def _append(messages: list[dict[str, Any]], text: str) -> None:
    last = next((m for m in reversed(messages) if m.get("role") == "user"), None)
    if last is None:
        raise ConfigError("tool_result= needs a user message to be appended to. Add one.")
    content = last.get("content")
    if isinstance(content, list):
        last["content"] = [*content, {"type": "text", "text": text}]
    else:
        last["content"] = f"{content or ''}{text}"


def to_json(value: Any, what: str, *, ascii_only: bool = False) -> str:
    """Compact JSON; `what` names the value in the error.

    Raises:
        NotEncodableError: the value has no JSON form.
    """
    try:
        return json.dumps(value, ensure_ascii=ascii_only, allow_nan=False, separators=(",", ":"))
    except TypeError as error:
        reason = str(error)
    except (ValueError, RecursionError):
        reason = "it holds NaN, an infinity, a cycle, or is nested too deeply"
    raise NotEncodableError(
        f"{what} cannot be sent as JSON: {reason}. Convert it to str, int, float, bool, "
        "None, list and dict first.",
        path=what,
        type_name=type(value).__name__,
    )


def temperature_of(value: float | None) -> float | None:
    """A temperature in its one form: 0 and 0.0 are the same request."""
    if value is None:
        return None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not 0 <= value < math.inf:
        raise ConfigError(
            f"temperature={value!r} is not a finite number of 0 or more. Use 0.0 to 2.0, or None."
        )
    return float(value)
