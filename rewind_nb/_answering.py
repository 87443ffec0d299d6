"""Whether the model that answered is the one that was asked, and what to note where it is not."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["condensed", "is_other_model", "is_snapshot", "other_model_note"]

_MONTH, _DAY = "(0[1-9]|1[0-2])", "(0[1-9]|[12][0-9]|3[01])"
_DATES = (
    f"20[0-9]{{2}}(-?{_MONTH}-?{_DAY}|-{_MONTH})",  # 2024-08-06, 20250101, 2025-01
    f"2[0-9]{_MONTH}",  # 2411
    f"{_MONTH}-?{_DAY}",  # 0613, 05-20
    "0[0-9]{2}",  # 002, a number in place of a date
)
_SNAPSHOT = re.compile(rf"[-@](latest|{'|'.join(_DATES)})")
_NOTE = re.compile(r"(?P<what>asked .+, answered by .+?)( \((?P<calls>[0-9]+) calls\))?")


def is_other_model(asked: str | None, answered: str | None) -> bool:
    """Whether another model answered than was asked; false where one of them is unknown.

    A dated snapshot is the model that was asked by its plain name, or as its latest.

    Example:
        >>> is_other_model("gpt-4o", "gpt-4o-2024-08-06"), is_other_model("gpt-4o", "gpt-4o-mini")
        (False, True)
        >>> is_other_model("claude-x-latest", "claude-x-20250101")
        False
        >>> is_other_model("gpt-4o-2024-05-13", "gpt-4o-2024-08-06")
        True
    """
    if not asked or not answered:
        return False
    if ("/" in asked) != ("/" in answered):  # who serves it, or `models/`
        asked, answered = asked.rpartition("/")[2], answered.rpartition("/")[2]
    return asked != answered and not is_snapshot(asked.removesuffix("-latest"), answered)


def is_snapshot(name: str, model: str) -> bool:
    """Whether *model* is *name* itself, or one of its dated snapshots.

    Example:
        >>> is_snapshot("gpt-4o", "gpt-4o-2024-08-06"), is_snapshot("gpt-4o", "gpt-4o-mini")
        (True, False)
    """
    rest = model.removeprefix(name)
    return model.startswith(name) and (not rest or _SNAPSHOT.fullmatch(rest) is not None)


def other_model_note(asked: str | None, answered: str | None) -> str:
    """What to note of a call that another model answered."""
    return f"asked {asked}, answered by {answered}"


def condensed(notes: Iterable[str | None]) -> list[str]:
    """The notes of a run, each once; those on one pair of models as one with their number.

    Args:
        notes: what the run noted before, joined by "; ", and what came since.

    Example:
        >>> condensed(["a; asked x, answered by y", "asked x, answered by y", "a", None])
        ['a', 'asked x, answered by y (2 calls)']
    """
    said: list[str] = []
    calls: dict[str, int] = {}
    for note in filter(None, notes):
        rest = []
        for part in note.split("; "):
            found = _NOTE.fullmatch(part)
            if found is None:
                rest.append(part)
            else:
                calls[found["what"]] = calls.get(found["what"], 0) + int(found["calls"] or 1)
        other = "; ".join(rest)
        if other and f"; {other}; " not in f"; {'; '.join(said)}; ":
            said.append(other)
    said += [what if count == 1 else f"{what} ({count} calls)" for what, count in calls.items()]
    return said
