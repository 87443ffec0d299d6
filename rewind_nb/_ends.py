"""How two runs ended: their status, their files and their final state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from rewind_nb._delta import became, order_changed
from rewind_nb._run import Run


def artifact_changes(a: Run, b: Run) -> tuple[ArtifactChange, ...]:
    """Every file either run made, by name, with its hash before and after."""
    before = {made.name: made.sha256 for made in a.artifacts}
    after = {made.name: made.sha256 for made in b.artifacts}
    names = dict.fromkeys([*before, *after])
    return tuple(ArtifactChange(n, before.get(n), after.get(n)) for n in names)


def outcome(a: Run, b: Run) -> Outcome:
    """How each run ended, and which fields of the final state differ."""
    before, after = a.final_manifest, b.final_manifest
    changed = tuple(k for k in dict.fromkeys([*before, *after]) if before.get(k) != after.get(k))
    return Outcome(a.status, b.status, changed, order_changed(before, after))


class ArtifactChange(NamedTuple):
    """A file by its hash in each run; None where a run has none of that name."""

    name: str
    before: str | None
    after: str | None

    @property
    def same(self) -> bool:
        """Whether the bytes are the same."""
        return self.before == self.after

    @property
    def kind(self) -> Literal["same", "changed", "added", "removed"]:
        """What became of it: ``same``, ``changed``, ``added`` or ``removed``."""
        return "same" if self.same else became(self.before, self.after)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the two runs ended."""

    before: str
    after: str
    changed: tuple[str, ...]  # top-level fields of the final state that differ
    reordered: bool = False  # whether those that both have stand in another order
