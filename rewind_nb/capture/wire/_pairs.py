"""Calls of tools in a list of messages, each paired with its one result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from rewind_nb.capture.wire._messages import Given, Message
from rewind_nb.errors import did_you_mean

__all__ = ["CALL", "RESULT", "Mark", "Pairs", "check_turns", "turns"]

CALL = "a tool call"  # as the errors call them
RESULT = "the result of a tool call"


class Mark(NamedTuple):
    """A call of a tool, or a result: its place, and the id or else the tool that it names."""

    place: str
    id: str | None
    name: str | None = None

    def __str__(self) -> str:
        return str(self.id if self.id is not None else self.name)


class Pairs:
    """Pairs the calls in a list with their results, in the order of the list."""

    def __init__(self, given: Given) -> None:
        self._given = given
        self._waiting: list[Mark] = []  # calls without a result
        self._answered: list[tuple[Mark, str]] = []  # calls, and the places of their results

    def waiting(self, mark: Mark) -> Mark | None:
        """The call of the same id, if it has no result yet."""
        return next((call for call in self._waiting if _same_id(call, mark)), None)

    def call(self, call: Mark) -> None:
        """Take a call.

        Raises:
            OverrideError: its id is that of a call that waits already.
        """
        if first := self.waiting(call):
            raise self._given.wrong(
                call.place, f"has the id {call.id!r} of {first.place} again. Give it its own."
            )
        self._waiting.append(call)

    def result(self, result: Mark) -> None:
        """Take a result.

        Raises:
            OverrideError: no call waits for it; it names those that do.
        """
        for fits in (_same_id, _same_name):
            for call in self._waiting:
                if fits(call, result):
                    self._waiting.remove(call)
                    self._answered.append((call, result.place))
                    return
        raise self._given.wrong(
            result.place,
            f"is the result of tool call {str(result)!r}, which {self._why_not(result)}",
        )

    def _why_not(self, result: Mark) -> str:
        for call, place in reversed(self._answered):
            if _same_id(call, result) or _same_name(call, result):
                return f"{place} answered already. Take one of the two away."
        if not self._waiting:
            return "no message before it made. No tool call waits for a result there."
        near = did_you_mean(str(result), map(str, self._waiting))
        those = near.replace("Known:", "Those that wait for one:", 1)
        return f"no message before it made. {those}"

    def close(self, place: str) -> None:
        """Refuse calls that have no result before *place*.

        Raises:
            OverrideError: it names the first one.
        """
        if not self._waiting:
            return
        call = self._waiting[0]
        raise self._given.wrong(
            call.place,
            f"is tool call {str(call)!r}, and there is no result of it before {place}. Providers "
            f"refuse such a list: add {self._given.shape.result}, or take the call away.",
        )


def _same_id(call: Mark, result: Mark) -> bool:
    return result.id is not None and result.id == call.id


def _same_name(call: Mark, result: Mark) -> bool:
    one_has_none = result.id is None or call.id is None
    return one_has_none and result.name is not None and result.name == call.name


# -- formats in which the results follow at once -----------------------------------------

Turn = list[tuple[str, Message]]  # messages with their places
Marks = Callable[[Given, str, Message], Iterable[Mark]]


def turns(given: Given) -> Iterator[Turn]:
    """Neighbouring messages of one role together, as some providers read them.

    Example:
        >>> from rewind_nb.capture.wire._messages import Shape
        >>> shape = Shape(roles=("user", "model"), result="the result")
        >>> said = Given([{"role": role} for role in ("user", "model", "model")], shape)
        >>> [[place for place, _ in turn] for turn in turns(said)]
        [['messages[0]'], ['messages[1]', 'messages[2]']]
    """
    for _, turn in groupby(given, key=lambda said: str(said[1].get("role"))):
        yield list(turn)


def check_turns(given: Given, each: Iterable[Turn], calls: Marks, results: Marks) -> None:
    """Refuse a call whose result is not in the turns right after it, and a result of no such call.

    Args:
        given: messages with roles and content, as `Given.check` makes sure.
        each: the same as turns; one that makes calls holds no results.
        calls: those that a message makes.
        results: those that a message holds.

    Raises:
        OverrideError: it names the first call without a result, or result without a call.
    """
    pairs = Pairs(given)
    for turn in each:
        found = [mark for said in turn for mark in results(given, *said)]
        if not found:
            pairs.close(turn[0][0])
        for result in found:
            pairs.result(result)
        for said in turn:
            for call in calls(given, *said):
                pairs.call(call)
    pairs.close(given.place(len(given.messages)))
