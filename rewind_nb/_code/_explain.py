"""What changed between two fingerprints of one callable, in words."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["explain"]

MAX_SAID = 4
_HELPER = "helper "  # as fingerprints name a function that the code calls
_FOLLOWED = ("class ", _HELPER, "module ")
Parts = Mapping[str, str]


def explain(
    before: Parts, after: Parts, contents: Parts | None = None, now: Parts | None = None
) -> str:
    """Say in one line what differs between two pieces of code.

    Args:
        before: the `CodeFingerprint.parts` of the one.
        after: of the other.
        contents: its `CodeFingerprint.containers`, those that count.
        now: of the other.

    Returns:
        What is known to differ; "" where that is nothing.

    Example:
        >>> explain({"its text": "#1", "global LIMIT": "3"}, {"its text": "#1", "global LIMIT": "4"})
        'global LIMIT changed 3 -> 4'
    """
    shared = [name for name in before if name in after]
    said = [_changed(name, before[name], after[name]) for name in shared]
    only = [(name, "is new") for name in after if name not in before]
    only += [(name, "is gone") for name in before if name not in after]
    said += [f"{name} {what}" for name, what in only if name.startswith(_FOLLOWED)]
    told = [words for words in said if words]
    if not told:
        told = [f"{name} {what}" for name, what in only]
    told += [
        f"the content of {name} differs"
        for name, content in (contents or {}).items()
        if (now or {}).get(name) != content
    ]
    told = [f"function {w.removeprefix(_HELPER)}" if w.startswith(_HELPER) else w for w in told]
    if len(told) > MAX_SAID:
        told = [*told[:MAX_SAID], f"{len(told) - MAX_SAID} more"]
    return "; ".join(told)


def _changed(name: str, old: str, new: str) -> str:
    if old == new:
        return ""
    known = not old.startswith("#") and not new.startswith("#")
    return f"{name} changed {old} -> {new}" if known else f"{name} changed"
