"""What the code of recorded steps was, name by name, as far as their runs say so."""

from __future__ import annotations

from collections.abc import Mapping

from rewind_nb import _code
from rewind_nb._model import StepRow
from rewind_nb._store import Store

Parts = Mapping[str, str]


def code_parts(store: Store, row: StepRow) -> Parts | None:
    """What the code that a step executed consisted of; None where that is not known.

    A run describes the code it began with. A step that executed other code, since the run
    was resumed or since another one executed it, has another digest.
    """
    runs = (row.run_id, *(row.origin or ())[:1])
    for run_id in dict.fromkeys(runs):
        actions = store.value(store.row(run_id).graph)["actions"]
        for action in actions:
            code = action.get("code") if action["name"] == row.action else None
            if code is not None and code["digest"] == row.code:
                parts: Parts = code["parts"]
                return parts
    return None


def code_changes(before: tuple[Store, StepRow], after: tuple[Store, StepRow]) -> str:
    """How the code of two executed steps differs, in words; "" where that is not known."""
    ours, theirs = code_parts(*before), code_parts(*after)
    if ours is None or theirs is None:
        return ""
    return _code.explain(ours, theirs, kept_contents(*before), kept_contents(*after))


def kept_contents(store: Store, row: StepRow) -> Parts:
    """The content of the lists and dicts that the code of a step refers to, as digests.

    Those apart that something changed during the run: they are no part of the code.
    """
    kept = (store.row(row.run_id).containers or {}).get(row.action, {})
    return {} if row.path else {name: digest for name, digest in kept.items() if digest}


def other_contents(before: tuple[Store, StepRow], after: tuple[Store, StepRow]) -> list[str]:
    """Which of them held something else, in words, where both steps referred to them."""
    ours, theirs = kept_contents(*before), kept_contents(*after)
    return [
        f"the content of {name} differs"
        for name, content in ours.items()
        if theirs.get(name, content) != content
    ]
