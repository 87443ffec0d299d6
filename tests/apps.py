"""Toy applications, written as Burr's documentation writes them. All branch on their data.

`CALLS` counts how often each action's function ran.
"""

from collections import Counter

from burr.core import Action, ApplicationBuilder, State, action, default, expr, when

from rewind_nb import tool

CALLS: Counter = Counter()


def ran(name):
    CALLS[name] += 1


# -- a loop --------------------------------------------------------------------------


@action(reads=["n", "log"], writes=["n", "log"])
def count(state: State, by: int = 1) -> State:
    ran("count")
    return state.update(n=state["n"] + by).append(log=f"n was {state['n']}")


@action(reads=["log", "n"], writes=["report"])
def report(state: State) -> tuple[dict, State]:
    ran("report")
    words = {"lines": len(state["log"]), "odd": state["n"] % 2 == 1}
    return {"report": words}, state.update(report=words)


def loop_app(limit=3):
    return (
        ApplicationBuilder()
        .with_actions(count, report)
        .with_transitions(("count", "count", expr(f"n < {limit}")), ("count", "report", default))
        .with_state(n=0, log=[], untouched={"a": (1, 2.0, None)})
        .with_entrypoint("count")
        .build()
    )


# -- branches ------------------------------------------------------------------------


@action(reads=["fare"], writes=["verdict"])
def judge(state: State) -> State:
    ran("judge")
    return state.update(verdict="cheap" if state["fare"] < 500 else "dear")


@action(reads=["fare"], writes=["booking"])
def book(state: State) -> State:
    ran("book")
    return state.update(booking={"paid": state["fare"], "seat": f"{state['fare'] % 30}A"})


@action(reads=["fare"], writes=["refusal"])
def refuse(state: State) -> State:
    ran("refuse")
    return state.update(refusal=f"{state['fare']} is over the limit")


@action(reads=["verdict"], writes=["summary"])
def summarise(state: State) -> State:
    ran("summarise")
    ending = state.get("booking") or state.get("refusal")
    return state.update(summary=f"{state['verdict']}: {ending}")


def branch_app(fare=450):
    return (
        ApplicationBuilder()
        .with_actions(judge, book, refuse, summarise)
        .with_transitions(
            ("judge", "book", when(verdict="cheap")),
            ("judge", "refuse", default),
            (["book", "refuse"], "summarise"),
        )
        .with_state(fare=fare)
        .with_entrypoint("judge")
        .build()
    )


# -- async ---------------------------------------------------------------------------


@tool
async def lookup(city: str, attempt: int = 0) -> dict:
    ran("lookup")
    return {"city": city, "degrees": len(city) * 3 - attempt, "unique": CALLS["lookup"]}


@action(reads=["cities"], writes=["weather", "cities"])
async def fetch(state: State) -> State:
    ran("fetch")
    first, *rest = state["cities"]
    found = await lookup(first)
    weather = {**(state.get("weather") or {}), first: found}
    return state.update(weather=weather, cities=rest)


@action(reads=["weather"], writes=["warmest"])
def choose(state: State) -> State:
    """A sync action in an async app."""
    ran("choose")
    weather = state["weather"]
    return state.update(warmest=max(weather, key=lambda c: (weather[c]["degrees"], c)))


def async_app(cities=("Bern", "Marrakesh", "Oslo")):
    return (
        ApplicationBuilder()
        .with_actions(fetch, choose)
        .with_transitions(("fetch", "fetch", expr("len(cities) > 0")), ("fetch", "choose"))
        .with_state(cities=list(cities), weather=None)
        .with_entrypoint("fetch")
        .build()
    )


# -- a human in the loop ---------------------------------------------------------------


@action(reads=[], writes=["question"])
def ask(state: State, topic: str) -> State:
    ran("ask")
    return state.update(question=f"What about {topic}?", turns=(state.get("turns") or 0) + 1)


@action(reads=["question"], writes=["answer"])
def hear(state: State, reply: str) -> State:
    ran("hear")
    return state.update(answer=reply.strip())


@action(reads=["answer", "turns"], writes=["done"])
def weigh(state: State) -> State:
    ran("weigh")
    return state.update(done=len(state["answer"]) > 3 or state["turns"] >= 3)


@action(reads=["question", "answer"], writes=["minutes"])
def close(state: State) -> State:
    ran("close")
    return state.update(minutes=f"{state['question']} {state['answer']}")


def human_app():
    return (
        ApplicationBuilder()
        .with_actions(ask, hear, weigh, close)
        .with_transitions(
            ("ask", "hear"),
            ("hear", "weigh"),
            ("weigh", "close", when(done=True)),
            ("weigh", "ask", default),
        )
        .with_entrypoint("ask")
        .with_state(turns=0)
        .build()
    )


def run_human_app(rw):
    """Two turns: the first answer is too short."""
    run = rw.run(halt_before=["hear"], inputs={"topic": "trains"})
    run = rw.resume(run, inputs={"reply": "no", "topic": "buses"}, halt_before=["hear"])
    return rw.resume(run, inputs={"reply": " by bus "}, halt_after=["close"])


# -- classes -------------------------------------------------------------------------


class Draft(Action):
    """Two steps: run, then update."""

    def __init__(self, style="plain"):
        super().__init__()
        self.style = style

    @property
    def reads(self):
        return ["topic", "drafts"]

    def run(self, state: State, tone: str, __context=None) -> dict:
        ran("draft")
        number = len(state["drafts"]) + 1
        return {"draft": f"{self.style} {tone} draft {number} on {state['topic']}"}

    @property
    def writes(self):
        return ["drafts"]

    @property
    def inputs(self):
        return ["tone"], ["__context"]

    def update(self, result: dict, state: State) -> State:
        return state.append(drafts=result["draft"])


class Pick(Action):
    @property
    def reads(self):
        return ["drafts"]

    def run(self, state: State) -> dict:
        ran("pick")
        return {"best": max(state["drafts"], key=len)}

    @property
    def writes(self):
        return ["best"]

    def update(self, result: dict, state: State) -> State:
        return state.update(**result)


def class_app():
    return (
        ApplicationBuilder()
        .with_actions(draft=Draft("bold"), pick=Pick())
        .with_transitions(("draft", "draft", expr("len(drafts) < 3")), ("draft", "pick"))
        .with_state(topic="rivers", drafts=[])
        .with_entrypoint("draft")
        .build()
    )
