"""A list of chat messages, checked as a provider would check it. Pure.

Two shapes of tool calls are known, and may be mixed::

    OpenAI     {"role": "assistant", "tool_calls": [{"id": "a", ...}]}
               {"role": "tool", "tool_call_id": "a", "content": ...}
    Anthropic  {"role": "assistant", "content": [{"type": "tool_use", "id": "a", ...}]}
               {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", ...}]}

In both, the messages after one that calls tools hold their results, each once, before
anything else is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rewind_nb.errors import OverrideError, did_you_mean

__all__ = ["ROLES", "check_messages"]

ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_MAY_BE_EMPTY = ("assistant", "function")  # roles of messages that need no content


class _Mark(NamedTuple):
    """A tool call, or the result of one, and where it stands."""

    place: str
    id: str


def check_messages(messages: Any, kind: str = "messages") -> None:
    """Refuse a message list that a provider would refuse.

    Args:
        messages: what is to be sent.
        kind: the override that they come from.

    Raises:
        OverrideError: it is no list of messages with roles, or a tool result does not pair
            with a tool call before it, or a tool call with a result after it.

    Example:
        >>> check_messages([{"role": "user", "content": "Hi"}])
        >>> check_messages([{"role": "usr", "content": "Hi"}])
        Traceback (most recent call last):
            ...
        rewind_nb.errors.OverrideError: messages[0] has the role 'usr', ...
    """
    if not isinstance(messages, list) or not messages:
        got = "an empty one" if isinstance(messages, list) else f"a value of type {_type(messages)}"
        raise _wrong(f"{kind}= takes a list of messages with at least one; it got {got}.", kind)
    waiting: dict[str, str] = {}  # calls without a result: id -> where
    answered: dict[str, str] = {}
    for index, message in enumerate(messages):
        place = f"messages[{index}]"
        role = _role(message, place, kind)
        results = list(_results(message, role, place, kind))
        if not results:
            _refuse_waiting(waiting, place, kind)
        for result in results:
            _pair(result, waiting, answered, kind)
        for call in _calls(message, role, place, kind):
            if call.id in waiting:
                raise _wrong(f"{call.place} has the id {call.id!r} again. Give it its own.", kind)
            waiting[call.id] = call.place
    _refuse_waiting(waiting, "the end of the list", kind)


def _role(message: Any, place: str, kind: str) -> str:
    """The role of a message that has one, and content where it needs some."""
    if not isinstance(message, Mapping):
        raise _wrong(
            f"{place} is of type {_type(message)}: a message is a dict with 'role' and 'content'.",
            kind,
        )
    if "role" not in message:
        raise _wrong(f"{place} has no 'role'. {_KNOWN}", kind)
    role = message["role"]
    if role not in ROLES:
        near = did_you_mean(str(role), ROLES)
        hint = f" {near}" if near.startswith("Did") else ""
        raise _wrong(f"{place} has the role {role!r}, which is none. {_KNOWN}{hint}", kind)
    content = message.get("content")
    if content is None and role not in _MAY_BE_EMPTY:
        raise _wrong(f"{place} ({role}) has no 'content'. Give it a text or a list of parts.", kind)
    if not isinstance(content, str | list | None):
        raise _wrong(
            f"{place} has content of type {_type(content)}. Give it a text or a list of parts.",
            kind,
        )
    return str(role)


_KNOWN = f"The roles are {', '.join(map(repr, ROLES))}."


# -- tool calls and their results ---------------------------------------------------------


def _calls(message: Mapping[str, Any], role: str, place: str, kind: str) -> Iterator[_Mark]:
    """The tool calls that a message makes."""
    made = message.get("tool_calls") or []
    if not isinstance(made, list):
        raise _wrong(f"{place} has tool_calls that are no list.", kind)
    found = [(f"{place}.tool_calls[{n}]", call) for n, call in enumerate(made)]
    found += _blocks(message, "tool_use", place)
    if found and role != "assistant":
        raise _wrong(
            f"{found[0][0]} is a tool call in a message of the role {role!r}. Only the assistant "
            "calls tools.",
            kind,
        )
    for where, call in found:
        yield _mark(call, "id", where, "a tool call", kind)


def _results(message: Mapping[str, Any], role: str, place: str, kind: str) -> Iterator[_Mark]:
    """The results of tool calls that a message holds."""
    if role == "tool":
        yield _mark(message, "tool_call_id", place, "the result of a tool call", kind)
    for where, block in _blocks(message, "tool_result", place):
        if role != "user":
            raise _wrong(
                f"{where} is a tool result in a message of the role {role!r}. It belongs in a "
                "message of the role 'user'.",
                kind,
            )
        yield _mark(block, "tool_use_id", where, "the result of a tool call", kind)


def _blocks(message: Mapping[str, Any], wanted: str, place: str) -> list[tuple[str, Any]]:
    """The content parts of one type, with their places."""
    content = message.get("content")
    return [
        (f"{place}.content[{n}]", part)
        for n, part in enumerate(content if isinstance(content, list) else [])
        if isinstance(part, Mapping) and part.get("type") == wanted
    ]


def _mark(found: Any, name: str, place: str, what: str, kind: str) -> _Mark:
    call_id = found.get(name) if isinstance(found, Mapping) else None
    if not isinstance(call_id, str) or not call_id:
        raise _wrong(
            f"{place} is {what} without {name!r}, by which call and result find each other.", kind
        )
    return _Mark(place, call_id)


def _pair(result: _Mark, waiting: dict[str, str], answered: dict[str, str], kind: str) -> None:
    """Take the call that a result is of from those that wait."""
    if result.id in waiting:
        del waiting[result.id]
        answered[result.id] = result.place
        return
    why = (
        f"{answered[result.id]} answered already. Take one of the two away."
        if result.id in answered
        else f"no message before it made. {_waiting_words(result.id, waiting)}"
    )
    raise _wrong(f"{result.place} is the result of tool call {result.id!r}, which {why}", kind)


def _waiting_words(call_id: str, waiting: dict[str, str]) -> str:
    if not waiting:
        return "No tool call waits for a result there."
    return did_you_mean(call_id, waiting)


def _refuse_waiting(waiting: dict[str, str], place: str, kind: str) -> None:
    for call_id, made in waiting.items():
        raise _wrong(
            f"{made} is tool call {call_id!r}, and there is no result of it before {place}. "
            "Providers refuse such a list: add the message with its result, or take the call "
            "away.",
            kind,
        )


def _wrong(words: str, kind: str) -> OverrideError:
    return OverrideError(words, override=kind)


def _type(value: Any) -> str:
    return type(value).__name__
