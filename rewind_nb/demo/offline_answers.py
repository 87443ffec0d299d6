"""What the offline model says, as a function of the prompt and a wording.

A prompt names the answer that it wants by the keys of the first JSON object in
it, and brings the state as the longest other one. Of the words around them two are
understood: "focus on the mean" (or count, total, ratio) and "be brief".
A wording is a number; its three base-3 digits choose the phrases of an answer,
so that two wordings never read the same, and no digit touches a fact.

Here are the answers of the tables' example; those of the trip are in `offline_travel`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from rewind_nb.demo.offline_prompt import WORDINGS, CannotAnswerError, Prompt, split
from rewind_nb.demo.offline_travel import ANSWERS as TRAVEL_ANSWERS

__all__ = ["WORDINGS", "CannotAnswerError", "answer"]

Statistics = dict[str, Any]


def answer(prompt: str, wording: int = 0) -> dict[str, Any]:
    """Answer one prompt of an example.

    Raises:
        CannotAnswerError: the prompt asks for no known answer, or brings no state.
    """
    objects, words = split(prompt)
    wanted = next((kind for o, _ in objects for kind in ANSWERS if set(kind) == set(o)), None)
    if wanted is None:
        known = "; ".join(", ".join(kind) for kind in ANSWERS)
        raise CannotAnswerError(f"the prompt shows no JSON object with the keys {known}.")
    others = [found for found in objects if set(found[0]) != set(wanted)]
    state, _ = max(others or objects, key=lambda found: found[1])
    try:
        return ANSWERS[wanted](Prompt(state, words, wording))
    except KeyError as missing:
        raise CannotAnswerError(f"the state in the prompt has no {missing}.") from None


# -- the four answers --------------------------------------------------------------


def _plan(prompt: Prompt) -> dict[str, Any]:
    task, question = prompt.state["task"], prompt.state["question"]
    asked = {c: re.search(rf"\b{c}", question, re.IGNORECASE) for c in task["group_columns"]}
    found = [(match.start(), column) for column, match in asked.items() if match]
    group_by = min(found)[1] if found else task["group_by"]
    why = (
        prompt.say("Grouping", "Splitting the rows", "Comparing the rows")
        + f" by {group_by} "
        + prompt.say("answers the question", "is what the question asks for", "fits the question")
        + prompt.say(" directly.", " best.", " with the least work.")
    )
    return {key: task[key] for key in ("table", "measures", "ratio")} | {
        "group_by": group_by,
        "why": why,
    }


def _critique(prompt: Prompt) -> dict[str, Any]:
    groups = _groups(prompt)
    largest, leader = _ranked(groups, "total")[0], _ranked(groups, "mean")[0]
    big, small = _ranked(groups, "count")[0], _ranked(groups, "count")[-1]
    uneven = groups[big]["count"] > 1.5 * groups[small]["count"]
    odd = [name for name, group in groups.items() if _disagrees(group)]
    issues = [f"The total of {name} is not its count times its mean." for name in odd]
    if uneven:
        issues.append(f"{small} has far fewer rows than {big}, so compare their means.")
    if largest != leader:
        issues.append(f"{largest} leads in total, but {leader} leads in mean.")
    comment = (
        prompt.say("Lead with", "Start from", "Put first")
        + f" {largest}, which has the "
        + prompt.say("largest", "highest", "greatest")
        + " total"
        + prompt.say(".", " of all groups.", ", before the other groups.")
    )
    focus = re.search(r"focus on (?:the )?(count|mean|total|ratio)", prompt.words, re.IGNORECASE)
    return {
        "verdict": "doubtful" if odd else "uneven" if uneven else "sound",
        "issues": issues,
        "largest": largest,
        "emphasis": focus[1].lower() if focus else "mean" if uneven else "total",
        "comment": comment,
    }


def _revise(prompt: Prompt) -> dict[str, Any]:
    groups, plan, critique = _groups(prompt), prompt.state["plan"], prompt.state["critique"]
    measure, ratio = plan["measures"][0], plan["ratio"]
    largest, emphasis = critique["largest"], critique["emphasis"]
    order = _ranked(groups, emphasis)
    by_ratio = _ranked(groups, "ratio")
    high, low = by_ratio[0], by_ratio[-1]
    claims = [
        f"{largest} "
        + prompt.say("has the largest total of", "leads in the total of", "is first in total")
        + f" {measure}: {_show(groups[largest]['total'])}.",
        prompt.say("By", "Ranked by", "In order of")
        + f" {emphasis} the groups are "
        + ", ".join(f"{name} ({_show(groups[name][emphasis])})" for name in order)
        + ".",
        f"The ratio of {ratio['numerator']} to {ratio['denominator']} "
        + prompt.say("is highest for", "is greatest for", "peaks in")
        + f" {high} ({_show(groups[high]['ratio'])}) and lowest for {low}"
        + f" ({_show(groups[low]['ratio'])}).",
    ]
    return {"claims": claims + [f"Caution: {issue}" for issue in critique["issues"]]}


def _compose(prompt: Prompt) -> dict[str, Any]:
    state = prompt.state
    rows = {**_groups(prompt), "all": state["analysis"]["overall"]}
    columns = ("count", "mean", "total", "ratio")
    parts = [
        prompt.say("What the table shows:", "The answer in short:", "In a few lines:"),
        "\n".join(f"- {claim}" for claim in state["claims"]),
        prompt.say("The numbers per group:", "Group by group:", "All of the numbers:"),
        "| group | count | mean | total | ratio |\n|---|---:|---:|---:|---:|\n"
        + "\n".join(
            f"| {name} | {' | '.join(_show(row[c]) for c in columns)} |"
            for name, row in rows.items()
        ),
        prompt.say("Good to know:", "Notes:", "About the table:")
        + " "
        + " ".join(state["task"]["facts"]),
    ]
    brief = re.search(r"\bbrief", prompt.words, re.IGNORECASE)
    return {"markdown": "\n\n".join(parts[1:4] if brief else parts)}


ANSWERS: dict[tuple[str, ...], Callable[[Prompt], dict[str, Any]]] = {
    ("table", "group_by", "measures", "ratio", "why"): _plan,
    ("verdict", "issues", "largest", "emphasis", "comment"): _critique,
    ("claims",): _revise,
    ("markdown",): _compose,
    **TRAVEL_ANSWERS,
}


# -- small parts -------------------------------------------------------------------


def _groups(prompt: Prompt) -> dict[str, Statistics]:
    groups: dict[str, Statistics] = prompt.state["analysis"]["groups"]
    return groups


def _ranked(groups: dict[str, Statistics], statistic: str) -> list[str]:
    """Group names from the highest statistic to the lowest; an unknown one comes last."""
    known = {name: group[statistic] for name, group in groups.items()}
    return sorted(known, key=lambda name: (known[name] is not None, known[name]), reverse=True)


def _disagrees(group: Statistics) -> bool:
    expected = group["count"] * group["mean"]
    return bool(abs(expected - group["total"]) > 0.01 * abs(expected))


def _show(number: float | None) -> str:
    return "unknown" if number is None else f"{number:,.3f}".rstrip("0").rstrip(".")
