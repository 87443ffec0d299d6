"""The example pipeline: eight plain Burr actions that turn a table into a page.

plan -> research -> analyse -> critique -> revise -> compose -> verify -> publish

`plan`, `critique`, `revise` and `compose` ask a model, and show it the whole
state as JSON. The others compute. Nothing in this file knows that it may be
recorded, forked or replayed.
"""

from __future__ import annotations

from typing import Any

from burr.core import State, action

from rewind_nb.capture.artifacts import artifact
from rewind_nb.capture.chat import ChatModel
from rewind_nb.demo.asking import ask
from rewind_nb.demo.tools import check_numbers, group_statistics, load_rows

TRANSITIONS = [
    ("plan", "research"),
    ("research", "analyse"),
    ("analyse", "critique"),
    ("critique", "revise"),
    ("revise", "compose"),
    ("compose", "verify"),
    ("verify", "publish"),
]

PLAN = """Plan how to answer the question with the task's table.
Use the task's group column, measures and ratio, unless the question asks for another group column.
Count, mean and total will be computed of the first measure, the ratio of two totals."""

CRITIQUE = """Review the analysis before anyone writes about it.
Judge whether the groups are of comparable size and whether count, mean and total agree.
Name the group with the largest total, and the statistic that the text should put first."""

REVISE = """Turn the critique into the claims that the text will make, most important first.
Each claim is one sentence. Write group names and numbers exactly as the analysis has them, name
the group beside its numbers, and state no number that the analysis does not have."""

COMPOSE = """Write the answer to the question as Markdown, from the claims and the analysis.
Give each claim its own line, then one table with the columns group, count, mean, total and ratio:
a row per group and a last row called all. Name the group in every line that states its numbers.
State no number that the analysis does not have, and number no headings or lists."""

# What a model must answer, by example: the same keys, and text where there is text.
PLAN_SHAPE = {
    "table": "the table",
    "group_by": "a group column",
    "measures": ["a measure column"],
    "ratio": {"numerator": "a measure column", "denominator": "a measure column"},
    "why": "one sentence",
}
CRITIQUE_SHAPE = {
    "verdict": "sound, uneven or doubtful",
    "issues": ["a sentence for each problem, or none"],
    "largest": "the group with the largest total",
    "emphasis": "count, mean, total or ratio",
    "comment": "one sentence",
}
REVISE_SHAPE = {"claims": ["a sentence"]}
COMPOSE_SHAPE = {"markdown": "the text"}


@action(reads=["question", "task"], writes=["plan"])
def plan(state: State[Any], model: ChatModel) -> State[Any]:
    return state.update(plan=ask(model, "plan", PLAN, PLAN_SHAPE, state.get_all()))


@action(reads=["plan"], writes=["research"])
def research(state: State[Any]) -> State[Any]:
    chosen = state["plan"]
    columns = list(dict.fromkeys([*chosen["measures"], *chosen["ratio"].values()]))
    return state.update(research=load_rows(chosen["table"], chosen["group_by"], columns))


@action(reads=["plan", "research"], writes=["analysis"])
def analyse(state: State[Any]) -> State[Any]:
    chosen, values = state["plan"], state["research"]["values"]
    analysis = group_statistics(values, chosen["measures"][0], chosen["ratio"])
    return state.update(analysis=analysis)


@action(reads=["question", "task", "plan", "research", "analysis"], writes=["critique"])
def critique(state: State[Any], model: ChatModel) -> State[Any]:
    return state.update(critique=ask(model, "critique", CRITIQUE, CRITIQUE_SHAPE, state.get_all()))


@action(reads=["question", "task", "plan", "analysis", "critique"], writes=["claims"])
def revise(state: State[Any], model: ChatModel) -> State[Any]:
    revised = ask(model, "revise", REVISE, REVISE_SHAPE, state.get_all())
    return state.update(claims=revised["claims"])


@action(reads=["question", "task", "plan", "analysis", "critique", "claims"], writes=["text"])
def compose(state: State[Any], model: ChatModel) -> State[Any]:
    composed = ask(model, "compose", COMPOSE, COMPOSE_SHAPE, state.get_all())
    return state.update(text=composed["markdown"])


@action(reads=["text", "analysis"], writes=["verification"])
def verify(state: State[Any]) -> State[Any]:
    checked = check_numbers(state["text"], state["analysis"])
    return state.update(verification={"numbers": len(checked), "checked": checked})


@action(reads=["task", "text"], writes=["published"])
def publish(state: State[Any]) -> State[Any]:
    task, text = state["task"], state["text"]
    page = f"# {task['title']}\n\n{text.strip()}\n\nSource: {task['source']}.\n"
    written = artifact(f"{task['id']}.md", page)
    return state.update(published={"artifact": written.name, "sha256": written.sha256})
