"""How the examples ask a model: one prompt, one JSON object of a given shape as the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rewind_nb.capture.chat import ChatModel
from rewind_nb.errors import StepFailure


def ask(
    model: ChatModel,
    step: str,
    instruction: str,
    shape: Mapping[str, Any],
    state: Mapping[str, Any],
) -> dict[str, Any]:
    """Ask a model about a state, or a part of one; an answer of another shape fails the step.

    Args:
        step: that asks, as a failure names it.
        shape: the answer by example: the same keys, text where there is text, a whole number
            where there is one; what a list holds is like its first item.

    Raises:
        StepFailure: the answer is none of that shape; ``raw`` has its text.

    Example:
        >>> from rewind_nb.demo import offline_model
        >>> facts = {"offer": {"hotel": "Pine Street Inn", "area": "Capitol Hill", "price": 99.5}}
        >>> ask(offline_model(), "describe_room", "Describe it.", {"welcome": "text"}, facts)
        {'welcome': 'Your room is in the Pine Street Inn, Capitol Hill, for $99.50 a night.'}
    """
    prompt = (
        f"{instruction}\n\nAnswer with one JSON object of this shape:\n{json.dumps(shape)}"
        f"\n\nThe state, as JSON:\n{json.dumps(state)}"
    )
    reply = model.chat(prompt, step=step)
    answer = reply.json()
    wrong = misfit(answer, shape, "answer")
    if wrong:
        message = f"the model's {wrong}. Run the step again, or ask another model."
        raise StepFailure(step, message, raw=reply.text)
    return {key: answer[key] for key in shape}


def misfit(value: Any, shape: Any, name: str) -> str | None:
    """Say where a value is not of the shape, or None where it is.

    Example:
        >>> misfit({"claims": ["yes", 2]}, {"claims": ["a sentence"]}, "answer")
        'answer.claims[1] is 2, not text'
    """
    if isinstance(shape, str):
        return None if isinstance(value, str) and value else f"{name} is {value!r:.80}, not text"
    if isinstance(shape, int):
        return None if type(value) is int else f"{name} is {value!r:.80}, not a whole number"
    if not isinstance(value, type(shape)):
        return f"{name} is {value!r:.80}, not a {type(shape).__name__}"
    if isinstance(shape, list):
        if not value and not shape[0].endswith("or none"):
            return f"{name} is empty"
        parts = [(item, shape[0], f"{name}[{i}]") for i, item in enumerate(value)]
    else:
        parts = [(value.get(key), shape[key], f"{name}.{key}") for key in shape]
    return next(filter(None, (misfit(*part) for part in parts)), None)
