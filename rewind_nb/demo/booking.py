"""The third example: a booking agent that must not spend more than it may.

search -> decide -> check_budget -> book -> reply
                                 -> decline -> reply

`search` calls three tools, `decide` asks a model, `check_budget` is plain code, and `book`
acts on the world. Of all it learns only the fare and the model's decision matter to whether
it books. Nothing in this file knows that it may be recorded, forked or replayed.
"""

from __future__ import annotations

import json
import random
import threading
from typing import Any

import httpx
from burr.core import Application, ApplicationBuilder, State, action, default, expr

from rewind_nb.capture.chat import ChatModel
from rewind_nb.capture.tools import tool
from rewind_nb.errors import ConfigError, did_you_mean

LIMIT = 1000.0  # dollars a ticket may cost

FARES = {"Lisbon": 450.0, "Oslo": 620.0, "Tokyo": 1450.0}
HIGHS = {"Lisbon": 24, "Oslo": 11, "Tokyo": 19}
LOUNGES = {"Lisbon": "until 23:00", "Oslo": "closed", "Tokyo": "all night"}

DECIDE = """You decide for a traveller whether to book a flight now.
Book if the fare is reasonable for the trip, else wait. Answer in JSON with the keys
decision ("book" or "wait") and reason (one sentence). What is known:
"""


@tool
def find_fare(city: str) -> dict[str, Any]:
    """What the cheapest ticket costs today."""
    return {"city": city, "fare": FARES[city]}


@tool
def find_weather(city: str) -> dict[str, Any]:
    """How warm it is there."""
    return {"city": city, "high_c": HIGHS[city]}


@tool
def find_lounge(city: str) -> dict[str, Any]:
    """When the lounge is open."""
    return {"city": city, "open": LOUNGES[city]}


@tool(effect=True)
def book_flight(city: str, fare: float) -> str:
    """Book it; returns the number of the booking."""
    return f"{city[:3].upper()}-{round(fare):04d}"


@action(reads=["city"], writes=["fare", "weather", "lounge"])
def search(state: State[Any]) -> State[Any]:
    city = state["city"]
    return state.update(
        fare=find_fare(city)["fare"],
        weather=find_weather(city)["high_c"],
        lounge=find_lounge(city)["open"],
    )


@action(reads=["city", "fare", "weather", "lounge"], writes=["decision"])
def decide(state: State[Any], model: ChatModel) -> State[Any]:
    known = {key: state[key] for key in ("city", "fare", "weather", "lounge")}
    answer = model.chat(f"{DECIDE}{json.dumps(known)}").json()
    return state.update(decision=answer["decision"])


@action(reads=["decision", "fare"], writes=["approved"])
def check_budget(state: State[Any], limit: float) -> State[Any]:
    return state.update(approved=state["decision"] == "book" and state["fare"] <= limit)


@action(reads=["city", "fare"], writes=["booking"])
def book(state: State[Any]) -> State[Any]:
    return state.update(booking=book_flight(state["city"], state["fare"]))


@action(reads=[], writes=["booking"])
def decline(state: State[Any]) -> State[Any]:
    return state.update(booking=None)


@action(reads=["booking"], writes=["output"])
def reply(state: State[Any]) -> State[Any]:
    booking = state["booking"]
    text = "Not booked." if booking is None else f"Your flight is confirmed: {booking}."
    return state.update(output=text)


TRANSITIONS = (
    ("search", "decide"),
    ("decide", "check_budget"),
    ("check_budget", "book", expr("approved")),
    ("check_budget", "decline", default),
    ("book", "reply"),
    ("decline", "reply"),
)


def build(
    city: str = "Lisbon", *, limit: float = LIMIT, model: ChatModel | None = None
) -> Application[Any]:
    """Build the booking agent, ready to run.

    Args:
        city: where to; a ticket to Lisbon is cheap, one to Tokyo is not.
        limit: dollars a ticket may cost.
        model: who decides; a `BookingModel` if None.

    Raises:
        ConfigError: there is no flight to that city.

    Example:
        >>> _, _, state = build("Tokyo").run(halt_after=["reply"])
        >>> state["output"]
        'Not booked.'
    """
    if city not in FARES:
        raise ConfigError(f"No flight to {city!r}. {did_you_mean(city, FARES)}")
    return (
        ApplicationBuilder()
        .with_actions(
            search,
            book,
            decline,
            reply,
            decide=decide.bind(model=model or booking_model()),
            check_budget=check_budget.bind(limit=limit),
        )
        .with_transitions(*TRANSITIONS)
        .with_state(city=city)
        .with_entrypoint("search")
        .build()
    )


class BookingModel(httpx.BaseTransport):
    """Decides without a network, from the prompt alone: it books up to 1,000 dollars.

    Args:
        mistakes: so many of its first answers are to wait, whatever the fare.
        sway: dollars; each answer draws its own limit, at most so far from the 1,000.
        seed: of the sway.

    Attributes:
        calls: how many requests arrived.
    """

    def __init__(self, *, mistakes: int = 0, sway: float = 0.0, seed: int = 0) -> None:
        self.calls = 0
        self._mistakes = mistakes
        self._sway = sway
        self._random = random.Random(seed)
        self._lock = threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Answer one request."""
        asked = json.loads(request.read())
        prompt = asked["messages"][-1]["content"]
        known = json.loads(prompt[prompt.index("{") :])
        with self._lock:
            self.calls += 1
            mistaken = self.calls <= self._mistakes
            limit = LIMIT + self._random.uniform(-self._sway, self._sway)
        fair = known["fare"] <= limit and not mistaken
        reason = f"{known['fare']:g} dollars is {'fair' if fair else 'too much'}."
        text = json.dumps({"decision": "book" if fair else "wait", "reason": reason})
        usage = {"prompt_tokens": len(prompt) // 4, "completion_tokens": len(text) // 4}
        message = {"role": "assistant", "content": text}
        body = {"model": asked["model"], "choices": [{"message": message}], "usage": usage}
        return httpx.Response(200, json=body)


def booking_model(transport: httpx.BaseTransport | None = None) -> ChatModel:
    """A chat client whose requests a `BookingModel` answers."""
    return ChatModel(
        "http://offline.invalid/v1", "offline-booking", transport=transport or BookingModel()
    )
