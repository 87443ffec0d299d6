"""What a step comes to: its hash, its source, its cost, the state after it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rewind_nb import _codec
from rewind_nb._cells import Cell, Cells, manifest_of
from rewind_nb._model import ArtifactRow, Override, Source, StepRow, Usage
from rewind_nb._store._read import StepKey
from rewind_nb._trajectory import after_step
from rewind_nb.capture._context import CallOverride

Made = tuple[str, str]  # a call: its kind and source
TaskTip = tuple[int, str]  # a task's trajectory: its steps, and the hash over them
DeletionRule = dict[str, list[str]] | None


@dataclass(frozen=True, slots=True)
class Route:
    """The way on from a step: the transition taken, and what its conditions read.

    `failed_by` what a condition raised: which way the run goes is not known.
    """

    to: str | None = None
    condition: str | None = None
    reads: tuple[tuple[str, str | None], ...] = ()
    failed_by: BaseException | None = None

    def to_dict(self) -> dict[str, Any]:
        """As it is stored with the step."""
        stored = {"to": self.to, "condition": self.condition, "reads": self.reads}
        return stored if self.failed_by is None else {**stored, "failed": True}


@dataclass(frozen=True, slots=True)
class Applied:
    """An override as a step gets it; *own* is false where a parent had it already."""

    override: Override
    own: bool


RouteOf = Callable[[str, Cells], Route]


def step_key(row: StepRow | ArtifactRow) -> StepKey:
    """What addresses an attempt in the store."""
    return (row.run_id, row.path, row.seq, row.attempt)


def differing_reads(row: StepRow, cells: Cells) -> list[str]:
    """What a recorded step was seen to read, absent keys included, that is not what there is."""
    there = {key: cell.hash for key, cell in cells.items()}
    differing = [key for key, digest in row.reads if there.get(key) != digest]
    if row.reads_all:
        known = {key for key, _ in row.reads}
        differing += [key for key in there if key not in known]
    return differing


def reads_hold(row: StepRow, cells: Cells) -> bool:
    """Whether all of that is what there is."""
    return not differing_reads(row, cells)


def step_hash(row: StepRow) -> str:
    """What a step did: its writes, deletion rule, result and error, and where it stands.

    No reads, inputs, calls, source, code, run id or time.
    """
    error = None if row.error is None else [row.error.type, row.error.message]
    did = [row.path, row.action, row.visit, row.writes, row.deleted, row.result, error]
    return _codec.digest(_codec.encode(did))


def step_source(made: Sequence[Made], artifacts: Sequence[ArtifactRow]) -> Source:
    """`live` if any call was live or there was none; else where its answers came from."""
    made = [one for one in made if one[1] not in ("override", "refused")]  # nothing was asked
    if any(source == "live" for _, source in made):
        return "live"
    if not made:
        unchanged = artifacts and all(a.source == "render-cache" for a in artifacts)
        return "render-cache" if unchanged else "live"
    return "tool-cache" if all(kind == "tool" for kind, _ in made) else "cache"


def cells_after(before: Cells, deleted: DeletionRule, written: Cells) -> dict[str, Cell]:
    cells = {**before, **written}
    manifest = after_step(manifest_of(before), deleted, manifest_of(written))
    return {key: cells[key] for key, _ in manifest}


def sum_usage(usages: Sequence[Usage | None]) -> Usage | None:
    """The total; None as soon as one part is unknown."""
    total: Usage | None = None
    for usage in usages:
        if usage is None or usage.total_tokens is None:
            return None
        total = usage if total is None else total + usage
    return Usage(0, 0) if total is None else total


def call_overrides(applied: Sequence[Applied]) -> tuple[CallOverride, ...]:
    """The overrides of calls, each at the position of the recorded call it addresses."""
    return tuple(
        CallOverride(a.override, a.override.branch, a.override.ordinal, a.own)
        for a in applied
        if a.override.ordinal is not None
    )


def encoded_overrides(overrides: Sequence[Override]) -> tuple[str, bytes]:
    """Overrides as they are stored: the hash and the encoding."""
    data = _codec.encode([asdict(o) for o in overrides], path="override")
    return _codec.digest(data), data
