"""Messages that are refused before anything is sent: what they look like, and where they stand.

Every error begins with the place of what is wrong, such as ``messages[2].content[0]``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rewind_nb._describe import short
from rewind_nb.capture.wire._checks import got
from rewind_nb.errors import OverrideError, did_you_mean

__all__ = ["Given", "Message", "Shape"]

Message = Mapping[str, Any]


class Shape(NamedTuple):
    """What a message of a format looks like.

    Attributes:
        roles: those there are.
        result: what holds the result of a call of a tool, for the error where it is missing.
        field: where the content of a message is.
        takes: what the content may be, for the error.
        types: the same as types; a list holds parts.
        parts: the types of a part.
        silent: the roles of messages that need no content.
        needs_role: whether a message without a role is refused.
        note: what else a message may be, for the error where its role is missing.
        instead: where to put what has a role in another format, by that role.
    """

    roles: tuple[str, ...]
    result: str
    field: str = "content"
    takes: str = "a text or a list of parts"
    types: tuple[type, ...] = (str, list)
    parts: tuple[type, ...] = (Mapping,)
    silent: tuple[str, ...] = ()
    needs_role: bool = True
    note: str = ""
    instead: Mapping[str, str] = {}


class Given:
    """The messages of an override, to be checked.

    Args:
        messages: what is to be sent, at least one.
        shape: what they are to look like.
        kind: the override that holds them.
        name: what the list is called, as its place in the errors.

    Example:
        >>> shape = Shape(roles=("user", "model"), result="the result")
        >>> Given([{"role": "usr", "content": "hi"}], shape).check()
        Traceback (most recent call last):
            ...
        rewind_nb.errors.OverrideError: messages[0] has the role 'usr', which this format ...
    """

    def __init__(
        self,
        messages: Sequence[Any],
        shape: Shape,
        kind: str = "messages",
        name: str = "messages",
    ) -> None:
        self.messages = messages
        self.shape = shape
        self._kind = kind
        self._name = name

    def __iter__(self) -> Iterator[tuple[str, Message]]:
        """The messages with their places.

        Raises:
            OverrideError: one is no dict.
        """
        for index, message in enumerate(self.messages):
            place = self.place(index)
            if not isinstance(message, Mapping):
                raise self.wrong(
                    place,
                    f"is of type {_type(message)}: a message is a dict with 'role' and "
                    f"{self.shape.field!r}.",
                )
            yield place, message

    def place(self, index: int) -> str:
        """What the errors call the message at *index*, or the end of the list."""
        return f"{self._name}[{index}]" if index < len(self.messages) else "the end of the list"

    def parts(self, place: str, message: Message) -> list[tuple[str, Any]]:
        """The parts of a message with their places; a text is one, at the place of its message."""
        content = message.get(self.shape.field)
        if not isinstance(content, list):
            return [(place, content)]
        return [(f"{place}.{self.shape.field}[{n}]", part) for n, part in enumerate(content)]

    def wrong(self, place: str, words: str) -> OverrideError:
        """The error about what stands at *place*."""
        return OverrideError(f"{place} {words}", override=self._kind, place=place)

    # -- one message -------------------------------------------------------------------

    def check(self) -> None:
        """Refuse messages without a role of the format, or without content.

        Raises:
            OverrideError: it says which roles there are, or what the content may be.
        """
        for place, message in self:
            self.check_message(place, message)

    def check_message(self, place: str, message: Message) -> None:
        """The same for one of them."""
        self._check_role(place, message)
        self._check_content(place, message)

    def _check_role(self, place: str, message: Message) -> None:
        role, shape = message.get("role"), self.shape
        if role is None and not shape.needs_role:
            return
        known = f"The roles are {', '.join(map(repr, shape.roles))}.{shape.note}"
        if "role" not in message:
            raise self.wrong(place, f"has no 'role'. {known}")
        if role not in shape.roles:
            hint = shape.instead.get(role, "") if isinstance(role, str) else ""
            words = f"has the role {short(role, 40)}, which this format does not have. {known}"
            raise self.wrong(place, f"{words} {hint or _near(role, shape.roles)}".rstrip())

    def _check_content(self, place: str, message: Message) -> None:
        shape, content = self.shape, message.get(self.shape.field)
        who = f"({message['role']}) " if message.get("role") else ""
        if content is None:
            if message.get("role") not in shape.silent:
                raise self.wrong(place, f"{who}has no {shape.field!r}. Give it {shape.takes}.")
        elif not isinstance(content, shape.types):
            raise self.wrong(
                place, f"{who}has {got(content)} as its {shape.field!r}. Give it {shape.takes}."
            )
        else:
            self._check_parts(place, message)

    def _check_parts(self, place: str, message: Message) -> None:
        if isinstance(message[self.shape.field], str):
            return
        for where, part in self.parts(place, message):
            if not isinstance(part, self.shape.parts):
                either = "a text or a dict" if str in self.shape.parts else "a dict"
                raise self.wrong(where, f"is {got(part)}: a part of a message is {either}.")

    # -- calls of tools and their results ----------------------------------------------

    def name_of(self, place: str, what: str, found: Any, field: str) -> str:
        """The text by which a call and its result find each other.

        Raises:
            OverrideError: there is none.
        """
        value = found.get(field) if isinstance(found, Mapping) else None
        if isinstance(value, str) and value:
            return value
        has = "" if value is None else f" (it has {got(value)})"
        raise self.wrong(
            place,
            f"is {what} without {field!r}{has}, by which call and result find each other. "
            "Give both the same text.",
        )

    def check_speaker(self, place: str, what: str, message: Message, roles: Sequence[Any]) -> None:
        """Refuse what stands in a message of the wrong role.

        Raises:
            OverrideError: it names the role that it belongs to.
        """
        role = message.get("role")
        if role not in roles:
            raise self.wrong(
                place,
                f"is {what} in a message of the role {role!r}. It belongs in a message of the "
                f"role {roles[0]!r}.",
            )


def _near(role: Any, roles: Sequence[str]) -> str:
    """The near misses of a role as a question, "" where there are none: all are listed already."""
    clause = did_you_mean(str(role), roles)
    return clause if clause.startswith("Did") else ""


def _type(value: Any) -> str:
    return type(value).__name__
