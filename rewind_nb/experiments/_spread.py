"""One execution of a run, and one step over many executions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rewind_nb._describe import displayed
from rewind_nb._label import address, label
from rewind_nb._model import OVER
from rewind_nb._run import Run
from rewind_nb._steps import Step
from rewind_nb._wilson import wilson
from rewind_nb.experiments._entropy import Moving

Place = tuple[str, str, int]  # the task it is in, the action, the visit
Varies = Literal["itself", "inputs", "unknown"]
NAMED = 5  # of anything, in one line


@dataclass(frozen=True, slots=True)
class Draw:
    """One of the executions.

    Attributes:
        key: its name in the experiment, such as ``own/3``.
        run: None where it was refused, or not made yet.
        steps: those from where it started, by place; of tasks too.
        path: the steps of the run itself, as (action, visit).
        deployments: every `system_fingerprint` that its answers named, sorted.
        error: what stopped it, in words.
    """

    key: str
    run: Run | None
    steps: Mapping[Place, Step]
    path: tuple[tuple[str, int], ...]
    deployments: tuple[str, ...]
    error: str | None

    @property
    def ended(self) -> bool:
        """Whether it counts: it came to an end, be it a failure."""
        return self.run is not None and self.run.status in OVER


@dataclass(frozen=True, slots=True)
class Share:
    """How often several executions of a step did the same.

    Attributes:
        reached: executions that took the step.
        distinct: outputs it had, by `Step.hash`: writes, deletions, result and error.
        modal: the hash of the most frequent one, the first of several.
        count: how often it occurred.
        low: of the Wilson 95 % interval of its share.
        high: likewise.
    """

    reached: int
    distinct: int
    modal: str | None
    count: int
    low: float
    high: float

    @classmethod
    def of(cls, steps: Sequence[Step]) -> Share:
        """Of the executions of one step."""
        counts = Counter(step.hash for step in steps)
        modal, count = counts.most_common(1)[0] if counts else (None, 0)
        return cls(len(steps), len(counts), modal, count, *wilson(count, len(steps)))

    @property
    def share(self) -> float:
        """The share of the most frequent output."""
        return self.count / self.reached if self.reached else 0.0


@dataclass(frozen=True, slots=True)
class Spread:
    """One step over all executions.

    Attributes:
        seq: its position in the recorded run; None where that did not take it.
        share: how often it did the same.
        recorded: how many executions did what the recorded run did.
        failed: how many failed at it.
        varies: None where it always did the same; ``itself`` where it did different things on
            the same inputs; ``inputs`` where executions with the same inputs always agreed;
            ``unknown`` where no two had the same.
        moving: the fields that have several values.
        steady: whether every execution took it and did the same.
    """

    path: str
    action: str
    visit: int
    seq: int | None
    share: Share
    recorded: int
    failed: int
    varies: Varies | None
    moving: tuple[Moving, ...]
    steady: bool

    @property
    def address(self) -> str:
        """Where it stands, such as ``search:2``."""
        return address(self.path, self.action, self.visit)

    @property
    def label(self) -> str:
        """What to call it in words."""
        if self.seq is None:
            return f"step {self.address}"
        return label(self.seq, self.action, self.visit, self.path)

    def __repr__(self) -> str:
        share = f"{self.share.count} of {self.share.reached} the same"
        moved = ", ".join(field.path for field in self.moving[:NAMED])
        return displayed(f"<Spread {self.label}: {share}{f'; {moved} move' if moved else ''}>")


def varies_by(steps: Sequence[Step]) -> Varies:
    """Whether a step does different things on the same inputs."""
    given: dict[Any, list[str | None]] = {}
    for step in steps:
        given.setdefault((step.row.inputs, step.row.reads), []).append(step.hash)
    if any(len(set(hashes)) > 1 for hashes in given.values()):
        return "itself"
    return "inputs" if any(len(hashes) > 1 for hashes in given.values()) else "unknown"


def row(spread: Spread) -> list[str]:
    """A step as a row of the table of a stability."""
    share = spread.share
    same = f"{share.count} of {share.reached}"
    moved = ", ".join(f"{field.path} ({field.entropy:.2f})" for field in spread.moving[:NAMED])
    more = len(spread.moving) - NAMED
    return [
        spread.address, str(share.reached), str(share.distinct), same,
        f"{share.low:.2f} to {share.high:.2f}", str(spread.recorded), spread.varies or "",
        displayed(moved) + (f" and {more} more" if more > 0 else ""),
    ]  # fmt: skip
