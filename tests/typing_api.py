"""How the public names are typed. Read by mypy, never executed.

Every line that is marked with an ignore must be an error: mypy reports an ignore that it does
not need.
"""

from collections.abc import Awaitable
from typing import Any, assert_type

import networkx as nx
import pandas as pd

from rewind_nb import (
    ChatModel,
    Check,
    Cost,
    Diff,
    Event,
    Proof,
    Rewind,
    Run,
    Secret,
    Step,
    Store,
    Usage,
    Verdict,
    artifact,
    now,
    prices,
    random,
    tool,
)
from rewind_nb.errors import OverrideError, RewindError, StepFailure

Consumed = list[tuple[str | None, str | None]]

# -- @tool keeps the signature of a function ---------------------------------------------------


@tool
def convert(amount: float, rate: float = 1.0) -> float:
    return amount * rate


assert_type(convert(2.0), float)
assert_type(convert(2.0, rate=1.5), float)
convert("two")  # type: ignore[arg-type]
convert()  # type: ignore[call-arg]
convert(2.0, speed=1.0)  # type: ignore[call-arg]


@tool(key=lambda client, query: query, cache=False, name="search")
def search(client: object, query: str) -> list[str]:
    return [query]


assert_type(search(object(), "a"), list[str])
search(object(), 1)  # type: ignore[arg-type]


@tool
def variadic(*numbers: int, **settings: str) -> int:
    return len(numbers) + len(settings)


assert_type(variadic(1, 2, unit="m"), int)
variadic("1")  # type: ignore[arg-type]
variadic(1, unit=1)  # type: ignore[arg-type]

tool(cache="no")(convert)  # type: ignore[call-overload]
tool(3)  # type: ignore[call-overload]


# -- of an async function ------------------------------------------------------------------------


@tool
async def fetch(city: str) -> dict[str, float]:
    return {city: 1.0}


async def use() -> None:
    assert_type(await fetch("Bern"), dict[str, float])
    await fetch(3)  # type: ignore[arg-type]


waiting: Awaitable[dict[str, float]] = fetch("Bern")


# -- of methods --------------------------------------------------------------------------------


class Shop:
    @tool
    def price(self, number: int) -> float:
        return number * 1.5

    @tool(cache=False)
    async def order(self, number: int, *, express: bool = False) -> str:
        return f"{number} {express}"

    @classmethod
    @tool
    def opened(cls, city: str) -> str:
        return city

    @staticmethod
    @tool
    def vat(price: float) -> float:
        return price * 0.08


assert_type(Shop().price(7), float)
Shop().price("7")  # type: ignore[arg-type]
Shop().price(7, 8)  # type: ignore[call-arg]
assert_type(Shop.opened("Bern"), str)
assert_type(Shop.vat(1.0), float)


async def orders() -> None:
    assert_type(await Shop().order(7, express=True), str)
    await Shop().order(7, True)  # type: ignore[call-arg]


# -- the verbs and what they return ----------------------------------------------------------------


def verbs(app: Any) -> None:
    rw = Rewind(app, store=":memory:", cache="refresh", hooks=[print])
    run = rw.run(halt_after=["publish"], inputs={"question": "why?"})
    assert_type(run, Run)
    assert_type(rw.fork(run, ("search", 2), patch={"a.b": 1}), Run)
    assert_type(rw.replay(run, start=run["plan"]), Proof)
    assert_type(rw.diff(run, run.id), Diff)
    assert_type(run["plan"], Step)
    assert_type(run["search", 2], Step)
    assert_type(run[-1], Step)
    assert_type(run.usage, Usage | None)
    assert_type(run.explain(), pd.DataFrame)
    assert_type(run.dependencies(), nx.DiGraph[int | str])
    assert_type([(one.step, one.first_change) for one in run.consumed], Consumed)
    assert_type(run["plan"].calls[0].reason, str | None)
    assert_type(rw.replay(run).require(), Proof)
    assert_type(rw.store, Store)
    assert_type(rw.last_run, Run | None)
    rw.run(halt_after="publish")  # type: ignore[arg-type]
    rw.run(cache="sometimes")  # type: ignore[arg-type]
    rw.fork(run, 2.5)  # type: ignore[arg-type]
    rw.fork(run, "plan", promt="x")  # type: ignore[call-arg]


async def twins(rw: Rewind, run: Run) -> None:
    assert_type(await rw.arun(), Run)
    assert_type(await rw.afork(run, "plan"), Run)
    assert_type(await rw.aresume(run), Run)
    assert_type(await rw.areplay(run), Proof)


def watch(event: Event) -> None:
    assert_type(event.action, str | None)
    event.action = "other"  # type: ignore[misc]


def rest(model: ChatModel, key: Secret) -> None:
    assert_type(model.chat("hi").text, str)
    model.chat(3)  # type: ignore[arg-type]
    ChatModel("https://provider.invalid/v1", "small", api_key=key)
    assert_type(artifact("a.md", "text").sha256, str)
    assert_type(random(), float)
    assert_type(now().year, int)
    assert_type(Store(":memory:").runs(), list[Run])
    assert issubclass(OverrideError, RewindError)
    raise StepFailure("plan", "no JSON", raw="Sure!")


# -- checks and cost ---------------------------------------------------------------------------


def judge(run: Run) -> None:
    assert_type(Check("a == 1")(run), Verdict)
    assert_type(Check(lambda given: len(given), at_least=1) & ~Check.of("a == 1"), Check)
    assert_type(run.cost + run.steps[0].cost + run.steps[0].calls[0].cost, Cost)
    assert_type(run.cost.usd, float | None)
    prices.register("acme-", **prices.FREE)
    prices.register("acme-")  # type: ignore[call-arg]
    Check(5)  # type: ignore[arg-type]
