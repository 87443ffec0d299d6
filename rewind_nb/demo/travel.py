"""The second example: a trip planned in nine steps, on two paths that join late.

read_request -> look_up_days -> weigh_weather -> plan_outdoors, or plan_indoors
             -> draw_offer -> describe_room -> reserve -> compose -> publish

What to do follows from the weather; where to sleep is drawn. Neither path reads what the
other wrote until `compose` brings them together. Nothing in this file knows that it may be
recorded, forked or replayed.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable
from typing import Any

from burr.core import Application, ApplicationBuilder, State, action, default, expr

from rewind_nb.capture.artifacts import artifact
from rewind_nb.capture.chat import ChatModel
from rewind_nb.demo import chosen_model
from rewind_nb.demo.asking import ask
from rewind_nb.demo.travel_tools import (
    days_of,
    find_rooms,
    find_sights,
    interests,
    reserve_room,
)
from rewind_nb.errors import ConfigError, did_you_mean

REQUEST = (
    "Two of us would like three nights in Seattle in October. We love music, art and a good view, "
    "and can pay up to 190 dollars a night."
)

WET = 1.0  # millimetres: a day with less counts as dry

READ = """Read what the travellers ask for.
Choose their interests among those that are listed, in the order in which they name them."""

PLAN = """Plan a day for each night of the trip from the sights, which suit the weather.
Use every sight once, and name no other. Each day is one sentence that begins with its number."""

DESCRIBE = """Tell the travellers where they will sleep, in one sentence.
Name the hotel, the area and the price a night as the offer has them."""

COMPOSE = """Write to the travellers, in Markdown, what awaits them: the weather, a line for each day
of the plan, the room as the welcome describes it, and the code and total of the booking.
Write names and numbers exactly as the state has them."""

# What a model must answer, by example: the same keys, text for text and a number for a number.
READ_SHAPE = {
    "month": "its English name",
    "nights": 2,
    "guests": 1,
    "budget": 100,
    "interests": ["one of the interests"],
}
PLAN_SHAPE = {"days": ["a sentence for each day"]}
DESCRIBE_SHAPE = {"welcome": "one sentence"}
COMPOSE_SHAPE = {"letter": "the text"}


# -- the plan ------------------------------------------------------------------------------


@action(reads=["request"], writes=["trip"])
def read_request(state: State[Any], model: ChatModel) -> State[Any]:
    known = {"request": state["request"], "interests": interests()}
    return state.update(trip=ask(model, "read_request", READ, READ_SHAPE, known))


@action(reads=["trip"], writes=["days"])
def look_up_days(state: State[Any]) -> State[Any]:
    return state.update(days=days_of(state["trip"]["month"]))


@action(reads=["days"], writes=["outlook"])
def weigh_weather(state: State[Any]) -> State[Any]:
    """What the days come to; the days themselves are of no use to any later step."""
    days = state["days"]
    wet = sum(day["rain_mm"] >= WET for day in days) / len(days)
    high = sum(day["high_c"] for day in days) / len(days)
    outlook = {"days": len(days), "wet_days": round(wet, 2), "high_c": round(high)}
    return state.update(outlook=outlook).wipe(delete=["days"])


@action(reads=["trip"], writes=["plan"])
def plan_outdoors(state: State[Any], model: ChatModel) -> State[Any]:
    sights = find_sights(state["trip"]["interests"], indoors=False)
    known = {"trip": state["trip"], "sights": sights}
    return state.update(plan=ask(model, "plan_outdoors", PLAN, PLAN_SHAPE, known)["days"])


@action(reads=["trip"], writes=["plan"])
def plan_indoors(state: State[Any], model: ChatModel) -> State[Any]:
    sights = find_sights(state["trip"]["interests"], indoors=True)
    known = {"trip": state["trip"], "sights": sights}
    return state.update(plan=ask(model, "plan_indoors", PLAN, PLAN_SHAPE, known)["days"])


# -- the room ------------------------------------------------------------------------------


@action(reads=["trip"], writes=["offer"])
def draw_offer(state: State[Any]) -> State[Any]:
    """One of the rooms that fit, so that no hotel is always the first; prices move every day."""
    trip = state["trip"]
    room = random.choice(find_rooms(trip["guests"], trip["budget"]))
    price = round(room.pop("rate") * random.uniform(0.8, 1.0), 2)
    return state.update(offer={**room, "price": price})


@action(reads=["offer"], writes=["welcome"])
def describe_room(state: State[Any], model: ChatModel) -> State[Any]:
    known = {"offer": state["offer"]}
    described = ask(model, "describe_room", DESCRIBE, DESCRIBE_SHAPE, known)
    return state.update(welcome=described["welcome"])


@action(reads=["trip", "offer"], writes=["booking"])
def reserve(state: State[Any]) -> State[Any]:
    trip, offer = state["trip"], state["offer"]
    booking = reserve_room(offer["hotel"], trip["guests"], trip["nights"], offer["price"])
    return state.update(booking=booking)


# -- both ----------------------------------------------------------------------------------


@action(reads=["trip", "outlook", "plan", "welcome", "booking"], writes=["letter"])
def compose(state: State[Any], model: ChatModel) -> State[Any]:
    known = {key: state[key] for key in ("trip", "outlook", "plan", "welcome", "booking")}
    return state.update(letter=ask(model, "compose", COMPOSE, COMPOSE_SHAPE, known)["letter"])


@action(reads=["trip", "letter"], writes=["published"])
def publish(state: State[Any]) -> State[Any]:
    page = f"# Seattle in {state['trip']['month']}\n\n{state['letter'].strip()}\n"
    written = artifact("trip.md", page)
    return state.update(published={"artifact": written.name, "sha256": written.sha256})


ACTIONS = (
    read_request, look_up_days, weigh_weather, plan_outdoors, plan_indoors,
    draw_offer, describe_room, reserve, compose, publish,
)  # fmt: skip

TRANSITIONS = [
    ("read_request", "look_up_days"),
    ("look_up_days", "weigh_weather"),
    ("weigh_weather", "plan_indoors", expr("outlook['wet_days'] > 0.5")),
    ("weigh_weather", "plan_outdoors", default),
    (["plan_outdoors", "plan_indoors"], "draw_offer"),
    ("draw_offer", "describe_room"),
    ("describe_room", "reserve"),
    ("reserve", "compose"),
    ("compose", "publish"),
]


def build(
    request: str = REQUEST,
    *,
    model: ChatModel | None = None,
    jitter: float | bool = 0.0,
    seed: int = 0,
    **edited: Callable[..., Any],
) -> Application[Any]:
    """Build the trip planner, ready to run to its end.

    Args:
        request: what the travellers ask for.
        model: who answers; `default_model()` if None.
        jitter: how much the offline model rewords from call to call, 0.0 to 1.0.
        seed: of the jitter.
        edited: an action to take the place of the one of that name.

    Raises:
        ConfigError: no action of that name, or a jitter for a model that is not the offline one.

    Example:
        >>> app = build()
        >>> app.entrypoint, len(app.graph.actions)
        ('read_request', 10)
    """
    actions = {function.__name__: function for function in ACTIONS}
    for name in edited:
        if name not in actions:
            raise ConfigError(
                f"no action {name!r} in the trip planner. {did_you_mean(name, actions)}",
                action=name,
            )
    asked = chosen_model(model, jitter=jitter, seed=seed)
    bound = {name: _bound(function, asked) for name, function in {**actions, **edited}.items()}
    return (
        ApplicationBuilder()
        .with_actions(**bound)
        .with_transitions(*TRANSITIONS)
        .with_state(State({"request": request}))
        .with_entrypoint("read_request")
        .build()
    )


def _bound(function: Any, model: ChatModel) -> Any:
    """An action with the model bound to it, if it takes one."""
    return (
        function.bind(model=model)
        if "model" in inspect.signature(function).parameters
        else function
    )
