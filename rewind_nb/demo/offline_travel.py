"""What the offline model says to the trip planner: four answers, made from the prompt alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from rewind_nb.demo.offline_prompt import CannotAnswerError, Prompt

NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7}
MONTH = (
    r"\b(January|February|March|April|May|June|July|August|September|October|November|December)\b"
)


def _request(prompt: Prompt) -> dict[str, Any]:
    request, known = prompt.state["request"], prompt.state["interests"]
    liked = {word: re.search(rf"\b{word.rstrip('s')}", request, re.IGNORECASE) for word in known}
    found = sorted((match.start(), word) for word, match in liked.items() if match)
    return {
        "month": _named("a month", MONTH, request),
        "nights": _number("a number of nights", r"(\w+) nights?\b", request),
        "guests": _number("a number of guests", r"(\w+) (?:of us|guests?|people)\b", request),
        "budget": _number("a number of dollars", r"(\w+) dollars\b", request),
        "interests": [word for _, word in found] or known,
    }


def _plan(prompt: Prompt) -> dict[str, Any]:
    sights, nights = prompt.state["sights"], prompt.state["trip"]["nights"]
    begin = prompt.say("begin with", "start at", "go first to")
    then = prompt.say("then", "after that", "and later")
    free = prompt.say("a day without a plan", "a free day", "a day to wander about")
    days = []
    for day in range(nights):
        chosen = [f"{sight['name']} ({sight['area']})" for sight in sights[day::nights]]
        days.append(
            f"Day {day + 1}: {f'{begin} ' if chosen else ''}{f', {then} '.join(chosen) or free}."
        )
    return {"days": days}


def _welcome(prompt: Prompt) -> dict[str, Any]:
    offer = prompt.state["offer"]
    room = (
        prompt.say("Your room is in", "You stay at", "Home for the trip is")
        + f" the {offer['hotel'].removeprefix('The ')}, {offer['area']}, "
        + prompt.say("for", "at", "which costs")
        + f" ${offer['price']:.2f} a night"
        + prompt.say(".", ", a good find.", ", as drawn today.")
    )
    return {"welcome": room}


def _letter(prompt: Prompt) -> dict[str, Any]:
    state = prompt.state
    trip, outlook, booking = state["trip"], state["outlook"], state["booking"]
    wet = round(10 * outlook["wet_days"])
    parts = [
        prompt.say("Your days in Seattle are planned.", "Seattle awaits you.", "All is arranged.")
        + f" In {trip['month']} {wet} days in 10 are wet, and it gets {outlook['high_c']} degrees warm.",
        "\n".join(f"- {day}" for day in state["plan"]),
        state["welcome"]
        + prompt.say(" It is reserved", " We reserved it", " You will find it reserved")
        + f" for {trip['nights']} nights as {booking['code']}: ${booking['total']:.2f} in all.",
        prompt.say("Have a good trip!", "Enjoy it!", "Safe travels!"),
    ]
    return {"letter": "\n\n".join(parts)}


ANSWERS: dict[tuple[str, ...], Callable[[Prompt], dict[str, Any]]] = {
    ("month", "nights", "guests", "budget", "interests"): _request,
    ("days",): _plan,
    ("welcome",): _welcome,
    ("letter",): _letter,
}


def _named(what: str, pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.IGNORECASE)
    if found is None:
        raise CannotAnswerError(f"the request names no {what.removeprefix('a ')}.")
    return found[1]


def _number(what: str, pattern: str, text: str) -> int:
    word = _named(what, pattern, text).lower()
    if word.isdigit():
        return int(word)
    if word not in NUMBERS:
        raise CannotAnswerError(f"the request says {word!r} for {what}.")
    return NUMBERS[word]
