"""An application for grids: a price that a model negotiates, on a path that depends on it."""

import json
import os
import threading
import time

from burr.core import ApplicationBuilder, State, action, default, expr
from fake_provider import FakeProvider, completion

from rewind_nb import ChatModel, tool


class Log:
    """What a tool was asked. No list: results of a tool that refers to one count for it only."""

    def __init__(self):
        self.lines = []

    def append(self, line):
        self.lines.append(line)

    def clear(self):
        self.lines.clear()


LOOKED_UP = Log()


@tool
def rate(country: str) -> float:
    """What a unit costs there."""
    LOOKED_UP.append(country)
    return {"CH": 3.0, "NO": 5.0}.get(country, 1.0)


@action(reads=["units", "country"], writes=["price"])
def quote(state: State) -> State:
    return state.update(price=state["units"] * rate(state["country"]))


@action(reads=["price"], writes=["offer"])
def negotiate(state: State, model: ChatModel) -> State:
    offered = model.chat(json.dumps({"price": state["price"]})).json()
    return state.update(offer=offered["offer"])


@action(reads=["offer"], writes=["deal"])
def accept(state: State) -> State:
    return state.update(deal=f"sold for {state['offer']:g}")


@action(reads=["offer"], writes=["deal"])
def haggle(state: State, model: ChatModel) -> State:
    offered = model.chat(json.dumps({"price": state["offer"], "again": True})).json()
    return state.update(deal=f"haggled to {offered['offer']:g}")


@action(reads=[], writes=["note"])
def sign(state: State, model: ChatModel) -> State:
    return state.update(note=model.chat("sign").text)


def app(model, units=10, country="CH"):
    bound = {"negotiate": negotiate, "haggle": haggle, "sign": sign}
    return (
        ApplicationBuilder()
        .with_actions(quote, accept, **{k: v.bind(model=model) for k, v in bound.items()})
        .with_transitions(
            ("quote", "negotiate"),
            ("negotiate", "accept", expr("offer <= 30")),
            ("negotiate", "haggle", default),
            ("accept", "sign"),
            ("haggle", "sign"),
        )
        .with_state(units=units, country=country)
        .with_entrypoint("quote")
        .build()
    )


def answered(price, again=False):
    """What the model offers for a price."""
    return price * (0.5 if again else 0.9)


def expected(units, country, *, price=None):
    """What the application comes to, by a function that shares no code with it."""
    price = units * {"CH": 3.0, "NO": 5.0}.get(country, 1.0) if price is None else price
    offer = answered(price)
    return f"sold for {offer:g}" if offer <= 30 else f"haggled to {answered(offer, True):g}"


def negotiating(seen):
    """The provider: it signs, or makes an offer for the price in its prompt."""
    if seen.prompt == "sign":
        return completion("signed")
    asked = json.loads(seen.prompt)
    return completion(json.dumps({"offer": answered(asked["price"], asked.get("again", False))}))


def slowly(behave, seconds=0.05):
    def answer(seen):
        time.sleep(seconds)
        return behave(seen)

    return answer


def jittering(behave=negotiating):
    """Each answer with a number of its own, as a model that never says the same twice."""
    lock, count = threading.Lock(), [0]

    def answer(seen):
        with lock:
            count[0] += 1
            number = count[0]
        if seen.prompt == "sign":
            return completion(f"signed {number}")
        return behave(seen)

    return answer


def provider(then=negotiating):
    return FakeProvider(then=then)


def chat(server):
    return ChatModel(server.base_url, "toy", max_retries=0)


def built():
    """The application of a process that only has an address."""
    return app(ChatModel(os.environ["GRID_PROVIDER"], "toy", max_retries=0))
