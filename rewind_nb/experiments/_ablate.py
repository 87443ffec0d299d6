"""`Ablate`: which of its facts a run needs to pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from rewind_nb._cost import Cost
from rewind_nb._describe import displayed, plural
from rewind_nb.experiments._facts import FactsOf
from rewind_nb.experiments._probes import Probe, Probing

if TYPE_CHECKING:
    import pandas as pd

NEEDED, NOT_NEEDED = "possibly load-bearing", "not load-bearing"
UNCLEAR, UNTRIED, UNFINISHED = "unclear", "not tried", "not finished"
NOT_RUN = "not run"
HEADINGS = ["fact", "recorded", "tried", "verdicts", "conclusion", "why", "tokens"]


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact of the run, and what came of it being another one.

    Attributes:
        address: such as ``search:1 tool 0 find_fare.fare`` or ``state.city``.
        kind: ``tool``, ``model``, ``state`` or ``inputs``.
        recorded: its value, in words.
        tried: what took its place, in words.
        probes: for each of these its forks, one per sample; None where not made yet.
        conclusion: ``not load-bearing``: every fork passes; ``possibly load-bearing``: one
            fails; ``unclear``: none fails, and one raised, was refused or allows no verdict;
            ``not tried`` and ``not finished``.
        reason: of the conclusion, where there is one to give.
        tokens: that its forks paid for; None where a provider did not say.
    """

    address: str
    kind: str
    recorded: str
    tried: tuple[str, ...]
    probes: tuple[tuple[Probe | None, ...], ...]
    conclusion: str
    reason: str
    tokens: int | None
    cost: Cost

    @property
    def verdicts(self) -> tuple[str, ...]:
        """For each of what was tried the verdict; the worst of its samples."""
        return tuple(_worst(samples) for samples in self.probes)

    @property
    def made(self) -> tuple[Probe, ...]:
        """Its forks, and what was refused, in order."""
        return tuple(probe for samples in self.probes for probe in samples if probe is not None)

    def __repr__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return displayed(f"<Fact {self.address} = {self.recorded}; {self.conclusion}{why}>")


class Ablate(Probing):
    """Forks of a run that passes, each with another value for one of the facts it was given.

    That a fact is not load-bearing holds for the values tried and one fact at a time: of two
    that say the same, neither may show. That one is possibly load-bearing says that another
    value of it made the run fail, and no more.
    """

    KIND: ClassVar[str] = "ablate"

    @property
    def how(self) -> str:
        """``perturb``, ``remove``, or the name of the function that said what to try."""
        return str(self.asked["how"])

    @property
    def samples(self) -> int:
        """How many forks each value gets."""
        return int(self.asked["samples"])

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """Every fact that was looked at, in the order of the run."""
        assert self.run is not None  # noqa: S101  (it is about one run)
        look = FactsOf(self.run)
        return tuple(self._fact(n, told, look) for n, told in enumerate(self.asked["facts"]))

    def _fact(self, n: int, told: dict[str, Any], look: FactsOf) -> Fact:
        probes = tuple(
            tuple(self.probes.get(key_of(n, m, sample)) for sample in range(self.samples))
            for m in range(len(told["tried"]))
        )
        spent = [look(p.run) for each in probes for p in each if p is not None and p.run]
        tokens = [facts.tokens for facts in spent]
        conclusion, reason = concluded(told["tried"], probes)
        return Fact(
            address=told["address"],
            kind=told["kind"],
            recorded=told["recorded"],
            tried=tuple(told["tried"]),
            probes=probes,
            conclusion=conclusion,
            reason=told["why_not"] or reason,
            tokens=None if None in tokens else sum(t for t in tokens if t is not None),
            cost=sum((facts.cost for facts in spent), Cost()),
        )

    def _addresses(self, conclusion: str) -> tuple[str, ...]:
        return tuple(fact.address for fact in self.facts if fact.conclusion == conclusion)

    @property
    def load_bearing(self) -> tuple[str, ...]:
        """The facts of which another value made the run fail: possibly load-bearing."""
        return self._addresses(NEEDED)

    @property
    def not_load_bearing(self) -> tuple[str, ...]:
        """The facts for which the run passes with every value that was tried."""
        return self._addresses(NOT_NEEDED)

    @property
    def unclear(self) -> tuple[str, ...]:
        """The facts of which nothing can be said: no fork fails, and not all of them pass."""
        return self._addresses(UNCLEAR)

    @property
    def df(self) -> pd.DataFrame:
        """One row per fact, in the order of the run; columns in `_probe_frames.FACT_COLUMNS`."""
        from rewind_nb import _probe_frames

        return _probe_frames.ablate_df(self)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """One row per fact, as text."""
        rows = []
        for fact in self.facts:
            tokens = "unknown" if fact.tokens is None else str(fact.tokens)
            tried, verdicts = ", ".join(fact.tried), ", ".join(fact.verdicts)
            texts = [fact.address, fact.recorded, tried, verdicts, fact.conclusion, fact.reason]
            rows.append([*map(displayed, texts), tokens])
        return HEADINGS, rows

    def question(self) -> str:
        """Such as ``which of 9 facts, each perturbed, r_1 needs to pass output contains 'ok'``."""
        many = f", {self.samples} samples" if self.samples > 1 else ""
        facts = plural(len(self.asked["facts"]), "fact")
        other = {"perturb": "perturbed", "remove": "removed"}.get(
            self.how, f"replaced by what {self.how} gives"
        )
        check = self.asked["check"]
        return f"which of {facts}, each {other}, {self._row.run_id} needs to pass {check}{many}"

    def answer(self) -> str:
        """The facts by conclusion; those that matter by name."""
        if not self.probes:
            return ""
        said = [
            self._told(NEEDED, named=True),
            self._told(NOT_NEEDED, " with the values tried, one fact at a time"),
            self._told(UNCLEAR, named=True),
            self._told(UNTRIED),
            self._told(UNFINISHED),
        ]
        return "; ".join(filter(None, said))

    def _told(self, conclusion: str, more: str = "", *, named: bool = False) -> str:
        found = self._addresses(conclusion)
        if not found:
            return "none is possibly load-bearing" if conclusion == NEEDED else ""
        names = f" ({', '.join(found)})" if named else ""
        return f"{len(found)} {conclusion}{more}{names}"


def key_of(fact: int, value: int, sample: int) -> str:
    """The name of a probe, such as ``0.2/1``.

    Example:
        >>> key_of(0, 2, 1)
        '0.2/1'
    """
    return f"{fact}.{value}/{sample}"


def concluded(tried: Sequence[str], probes: Sequence[Sequence[Probe | None]]) -> tuple[str, str]:
    """What follows of a fact, and why; a single fork that fails is enough, of passes it takes all."""
    made = list(_pairs(tried, probes))
    failing = next(((w, p) for w, p in made if p is not None and p.verdict == "fail"), None)
    if failing is not None:
        return NEEDED, f"{failing[0]} instead: {failing[1].reason}"
    if not made:
        return UNTRIED, "nothing of its type to try"
    if any(probe is None for _, probe in made):
        return UNFINISHED, ""
    unclear = next(((w, p) for w, p in made if p is not None and not p.clear), None)
    if unclear is not None:
        return UNCLEAR, f"{unclear[0]} instead: {unclear[1].reason}"
    return NOT_NEEDED, ""


def _pairs(
    tried: Sequence[str], probes: Sequence[Sequence[Probe | None]]
) -> Iterator[tuple[str, Probe | None]]:
    for words, samples in zip(tried, probes, strict=True):
        yield from ((words, probe) for probe in samples)


def _worst(samples: Sequence[Probe | None]) -> str:
    """The verdict that counts: a failure before what is not known, before a pass."""
    said = [NOT_RUN if p is None else p.verdict or p.status for p in samples]
    return next((one for one in said if one == "fail"), None) or next(
        (one for one in said if one != "pass"), "pass"
    )
