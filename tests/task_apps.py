"""Toy applications with tasks inside their steps, written as Burr's documentation writes them.

All branch on their data. `apps.CALLS` counts how often each function ran.
"""

import itertools
import time
from concurrent.futures import ThreadPoolExecutor

import apps
from burr.core import ApplicationBuilder, ApplicationContext, State, action, default, expr
from burr.core.graph import GraphBuilder
from burr.core.parallelism import (
    MapActions,
    MapStates,
    RunnableGraph,
    SubGraphTask,
    TaskBasedParallelAction,
)

from rewind_nb import tool

DELAY = 0.0  # seconds at most that a tool takes, and its action before that
SERIAL = itertools.count(1)


def dawdle():
    """A delay that no recording plays back."""
    if DELAY:
        time.sleep(time.perf_counter_ns() // 1000 % 97 / 97 * DELAY)


@tool
def look_up(word: str) -> dict:
    apps.ran("look_up")
    dawdle()
    return {"word": word, "n": next(SERIAL)}


@action(reads=["word"], writes=["found"])
def search(state: State) -> State:
    apps.ran("search")
    dawdle()
    return state.update(found=look_up(state["word"]))


@action(reads=["found"], writes=["grade"])
def grade(state: State) -> State:
    apps.ran("grade")
    return state.update(grade=len(state["found"]["word"]) + state.get("bonus", 0))


@action(reads=["found"], writes=["grade"])
def skip(state: State) -> State:
    apps.ran("skip")
    return state.update(grade=0)


def search_graph():
    return (
        GraphBuilder()
        .with_actions(search, grade, skip)
        .with_transitions(
            ("search", "skip", expr("len(found['word']) < 3")), ("search", "grade", default)
        )
        .build()
    )


class EachWord(MapStates):
    """A sub-graph for each word."""

    def action(self, state: State, inputs: dict) -> RunnableGraph:
        return RunnableGraph(search_graph(), "search", ["grade", "skip"])

    def states(self, state: State, context: ApplicationContext, inputs: dict):
        for word in state["words"]:
            yield state.update(word=word)

    def reduce(self, state: State, states) -> State:
        apps.ran("reduce")
        grades = [s["grade"] for s in states]
        return state.update(grades=grades, rounds=state["rounds"] + 1)

    @property
    def reads(self) -> list[str]:
        return ["words", "rounds"]

    @property
    def writes(self) -> list[str]:
        return ["grades", "rounds"]


@action(reads=["words", "grades"], writes=["words"])
def shorten(state: State) -> State:
    apps.ran("shorten")
    return state.update(words=[w[:-1] for w in state["words"]])


@action(reads=["grades"], writes=["report"])
def report(state: State) -> State:
    apps.ran("report")
    return state.update(report=f"{sum(state['grades'])} points")


def map_app(words=("alpha", "be", "alpha", "alpha", "gamma"), rounds=2, threads=None):
    builder = (
        ApplicationBuilder()
        .with_actions(each=EachWord(), shorten=shorten, report=report)
        .with_transitions(
            ("each", "report", expr(f"rounds >= {rounds}")),
            ("each", "shorten", default),
            ("shorten", "each"),
        )
        .with_state(words=list(words), rounds=0, bonus=1)
        .with_entrypoint("each")
    )
    if threads:
        builder = builder.with_parallel_executor(lambda: ThreadPoolExecutor(threads))
    return builder.build()


# -- several actions on one state, and tasks of one's own ----------------------------------------


@action(reads=["text"], writes=["view"])
def optimist(state: State) -> State:
    apps.ran("optimist")
    return state.update(view=f"{state['text']}, good")


@action(reads=["text"], writes=["view"])
def pessimist(state: State) -> State:
    apps.ran("pessimist")
    return state.update(view=f"{state['text']}, bad")


class Views(MapActions):
    def actions(self, state: State, context: ApplicationContext, inputs: dict):
        yield optimist
        yield pessimist

    def reduce(self, state: State, states) -> State:
        return state.update(views=[s["view"] for s in states])

    @property
    def reads(self) -> list[str]:
        return ["text"]

    @property
    def writes(self) -> list[str]:
        return ["views"]


class Cities(TaskBasedParallelAction):
    """A task for each city, named by the application id that it gives it."""

    def tasks(self, state: State, context: ApplicationContext, inputs: dict):
        for city in state["cities"]:
            yield SubGraphTask(
                graph=RunnableGraph.create(search),
                inputs={},
                state=state.update(word=city),
                application_id=f"{context.app_id}:{city}",
            )

    def reduce(self, state: State, states) -> State:
        return state.update(found={s["word"]: s["found"]["n"] for s in states})

    @property
    def reads(self) -> list[str]:
        return ["cities"]

    @property
    def writes(self) -> list[str]:
        return ["found"]


def views_app():
    return (
        ApplicationBuilder()
        .with_actions(views=Views(), cities=Cities())
        .with_transitions(("views", "cities"))
        .with_state(text="it", cities=["Bern", "Oslo", "a/b"])
        .with_entrypoint("views")
        .build()
    )


# -- async -----------------------------------------------------------------------------------------


@action(reads=["word"], writes=["found"])
async def asearch(state: State) -> State:
    apps.ran("asearch")
    found = await apps.lookup(state["word"])
    return state.update(found=found["degrees"])


class AsyncEach(MapStates):
    def is_async(self) -> bool:
        return True

    def action(self, state: State, inputs: dict):
        return asearch

    async def states(self, state: State, context: ApplicationContext, inputs: dict):
        for word in state["words"]:
            yield state.update(word=word)

    async def reduce(self, state: State, states) -> State:
        return state.update(grades=[s["found"] async for s in states])

    @property
    def reads(self) -> list[str]:
        return ["words"]

    @property
    def writes(self) -> list[str]:
        return ["grades"]


def async_map_app():
    return (
        ApplicationBuilder()
        .with_actions(each=AsyncEach(), report=report)
        .with_transitions(("each", "report"))
        .with_state(words=["x", "y", "x", "x", "z"])
        .with_entrypoint("each")
        .build()
    )


# -- an application built and run by an action -------------------------------------------------------


@action(reads=["words"], writes=["total"])
def recurse(state: State, __context: ApplicationContext) -> State:
    apps.ran("recurse")
    total = 0
    for word in state["words"]:
        inner = (
            ApplicationBuilder()
            .with_graph(search_graph())
            .with_state(word=word, bonus=10)
            .with_entrypoint("search")
            .with_spawning_parent(__context.app_id, __context.sequence_id)
            .build()
        )
        *_, done = inner.run(halt_after=["grade", "skip"])
        total += done["grade"]
    return state.update(total=total)


def recursive_app():
    return (
        ApplicationBuilder()
        .with_actions(recurse)
        .with_state(words=["alpha", "be", "alpha"])
        .with_entrypoint("recurse")
        .build()
    )
