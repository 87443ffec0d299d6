"""The cells of a grid: which overrides each has, which of them ask for the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rewind_nb._combine import Given
from rewind_nb.experiments._axes import Axis, choices, overrides, same_as

BASELINE = "baseline"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a cell is: for each axis the position of its value, and which sample it is.

    Attributes:
        choice: None for the baseline, which is the parent.
        twin: the key of the first cell that asks for the same; its own where that is itself.
    """

    choice: tuple[int, ...] | None
    sample: int = 0
    twin: str = ""

    @property
    def key(self) -> str:
        """Its name in the grid, such as ``0,2/1``."""
        return BASELINE if self.choice is None else key_of(self.choice, self.sample)

    def values(self, axes: Sequence[Axis]) -> dict[str, Any]:
        """Its value on each axis."""
        if self.choice is None:
            return {}
        return {a.name: a.values[i] for a, i in zip(axes, self.choice, strict=True)}


def key_of(choice: Sequence[int], sample: int) -> str:
    """The name of a cell.

    Example:
        >>> key_of((0, 2), 1)
        '0,2/1'
    """
    return f"{','.join(map(str, choice))}/{sample}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run that a grid wants, for all cells that ask for the same."""

    key: str
    given: tuple[Given, ...]
    sample: int


def places(axes: Sequence[Axis], samples: int) -> Iterator[Place | Wanted]:
    """The baseline and every cell; before the first cell of those that ask the same, the run.

    Raises:
        ConfigError: two axes replace the same.
        NotEncodableError: a value cannot be stored.
    """
    yield Place(None, 0, BASELINE)
    first: dict[tuple[str, int], str] = {}
    for choice in choices(axes):
        given = overrides(axes, choice)
        same = same_as(given)
        for sample in range(samples):
            key = key_of(choice, sample)
            if (same, sample) not in first:
                first[same, sample] = key
                yield Wanted(key, given, sample)
            yield Place(choice, sample, first[same, sample])
