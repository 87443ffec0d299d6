"""How a step is named in words, the same wherever one is."""

from __future__ import annotations

from rewind_nb._secrets import redact


def address(lane: str, action: str, visit: int) -> str:
    """Where a step stands, the same in every run of the application.

    Args:
        lane: the task it is in, such as ``each:2[3]/``; "" for the run's own steps.

    Example:
        >>> address("", "search", 2), address("each:2[3]/", "grade", 1)
        ('search:2', 'each:2[3]/grade:1')
    """
    return f"{lane}{action}:{visit}"


def label(seq: int, action: str, visit: int, lane: str = "") -> str:
    """A step by its number and name; inside a task by its address, for numbers repeat there.

    Example:
        >>> label(4, "search", 2)
        "step 4 'search' (visit 2)"
        >>> label(1, "grade", 1, "each:2[3]/")
        'step each:2[3]/grade:1'
    """
    if lane:
        return f"step {shown(address(lane, action, visit))}"
    return f"step {seq} {action!r}" + (f" (visit {visit})" if visit > 1 else "")


def shown(place: str) -> str:
    r"""An address as it may be printed: it holds names and keys that come from anywhere.

    Example:
        >>> print(shown("map:1[0]/a\x1b:1"))
        'map:1[0]/a\x1b:1'
    """
    clean = redact(place)
    return clean if clean.isprintable() else repr(clean)
