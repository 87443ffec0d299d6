"""`Instead`: for which steps of a fork other code executes.

Code cannot be stored. So a Rewind remembers what its forks were given, for their own forks,
replays and resumes; the store has the hash and the source of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rewind_nb._burr import as_action, code_of
from rewind_nb._code import CodeFingerprint

Place = tuple[str, str, int]  # path, action, visit


class Other(NamedTuple):
    """What executes, and the fingerprint of it."""

    action: Any
    code: CodeFingerprint


@dataclass(frozen=True)
class Instead:
    """What to execute instead of an action: wherever it occurs in the run, or at one step."""

    everywhere: Mapping[str, Any] = field(default_factory=dict)
    here: Mapping[Place, Any] = field(default_factory=dict)
    _made: dict[tuple[int, str], Other] = field(default_factory=dict)

    def over(self, earlier: Instead | None) -> Instead:
        """This on top of what the parent had."""
        if earlier is None:
            return self
        kept = {p: a for p, a in earlier.here.items() if p[0] or p[1] not in self.everywhere}
        return Instead({**earlier.everywhere, **self.everywhere}, {**kept, **self.here})

    def covers(self, path: str, name: str, visit: int) -> bool:
        """Whether other code executes at a step."""
        return (path, name, visit) in self.here or (not path and name in self.everywhere)

    def at(self, path: str, name: str, visit: int, original: Any) -> Other | None:
        """What a step executes instead of the action *original*; None for that itself.

        Raises:
            OverrideError: what was given cannot take its place.
        """
        if not self.covers(path, name, visit):
            return None
        place = (path, name, visit)
        given = self.here[place] if place in self.here else self.everywhere[name]
        key = (id(given), name)
        if key not in self._made:
            made = as_action(given, original)
            self._made[key] = Other(made, code_of(made))
        return self._made[key]
