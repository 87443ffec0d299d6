"""Several overrides of one step, as a cell of a grid has them: one of each kind, in order.

Each is checked as if it were alone, but for a ``patch=`` after an ``output=``, which patches
that. What cannot be consumed beside another is refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rewind_nb import _patch
from rewind_nb._model import Override
from rewind_nb._plan import Planned, Target, plan_override
from rewind_nb.errors import OverrideError

Given = tuple[str, Any, int]  # kind, value, call

SUPPLIES_OUTPUT = ("output", "patch")
SUPPLIES_ANSWER = {"response": "model", "tool_result": "tool"}


def plan_overrides(target: Target, given: Sequence[Given]) -> Planned:
    """Check the overrides of one step, in their order; there is one at least.

    Raises:
        OverrideError: the step cannot consume one of them, or not beside the others.
        NotEncodableError: a value cannot be stored.
    """
    planned = plan_override(target, *given[0])
    for kind, value, call in given[1:]:
        target = replace(target, writes=planned.writes)
        planned = beside(planned, plan_override(target, kind, value, call))
    return planned


def beside(earlier: Planned, planned: Planned) -> Planned:
    """Both as one.

    Raises:
        OverrideError: one of them leaves nothing that could consume the other.
    """
    overrides = earlier.overrides + planned.overrides
    kinds = [override.kind for override in overrides]
    putting = [kind for kind in kinds if kind in SUPPLIES_OUTPUT]
    if putting and len(putting) < len(kinds):
        others = ", ".join(f"{kind}=" for kind in kinds if kind not in SUPPLIES_OUTPUT)
        raise OverrideError(
            f"{putting[0]}= supplies what the step writes, so it executes nothing that could "
            f"consume {others}. Leave one of them out.",
            overrides=tuple(kinds),
        )
    for first, second in itertools.combinations(overrides, 2):
        if what := _replaces_the_same(first, second):
            raise OverrideError(
                f"{first.kind}= and {second.kind}= both replace {what}, and only one of them "
                "could be what the step gets. Leave one of them out.",
                overrides=tuple(kinds),
            )
    for answer in overrides:
        if answer.kind not in SUPPLIES_ANSWER:
            continue
        at = (answer.branch, answer.ordinal)
        same = [o.kind for o in overrides if o is not answer and (o.branch, o.ordinal) == at]
        if same and any(SUPPLIES_ANSWER[answer.kind] == _family(kind) for kind in same):
            raise OverrideError(
                f"{answer.kind}= supplies the answer of call {answer.call}, so nothing is asked "
                f"that could consume {same[0]}=. Leave one of them out.",
                overrides=tuple(kinds),
            )
    return Planned(
        overrides=overrides,
        unchanged=earlier.unchanged and planned.unchanged,
        writes=planned.writes,
        keys=tuple(dict.fromkeys(earlier.keys + planned.keys)),
    )


def _replaces_the_same(first: Override, second: Override) -> str | None:
    """What two overrides of one step both replace as a whole, if anything."""
    fields = _fields(first) & _fields(second)
    if not fields or (first.branch, first.ordinal) != (second.branch, second.ordinal):
        return None
    return ", ".join(map(repr, sorted(fields)))


def _fields(override: Override) -> set[str]:
    kind, value = override.kind, override.value
    if kind in ("prompt", "messages"):
        return {"messages"}
    if kind in ("params", "output"):
        return set(map(str, value))
    if kind == "patch":
        return set(_patch.replaced_whole(value))
    return {kind}


def _family(kind: str) -> str:
    return "tool" if kind.startswith("tool_") else "model"
