"""Where the differences between aligned steps came from.

A step differs because it was given another override, read something else, got other
inputs, is other code or was answered otherwise. What it read differs because of the last
pair before it that did different things to that key; and so on, pair by pair, back to the
override. A pair is addressed by its position, and what came first has a lower one, so no
chain of causes can go round in a circle.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import astuple
from functools import cached_property
from typing import NamedTuple

from rewind_nb import _codec
from rewind_nb._changes import Pair, Side
from rewind_nb._describe import describe_override
from rewind_nb._run import Step, read_overrides
from rewind_nb._trajectory import survives

MAX_CHAINS = 64


class Link(NamedTuple):
    """One link of a cause: a step and the field it passed on."""

    seq: int
    action: str
    path: str


class Given(NamedTuple):
    """An override that one of two runs was given at a step, and the other was not.

    Attributes:
        side: the run that was given it, ``before`` or ``after``.
        words: what it replaces, such as ``replace report.total = 1200``.
    """

    side: Side
    seq: int
    action: str
    visit: int
    words: str


class _Chain(NamedTuple):
    """A chain of links from its last one back, so that chains share their beginnings."""

    length: int
    last: Link
    rest: _Chain | None

    def links(self) -> tuple[Link, ...]:
        found: list[Link] = []
        chain: _Chain | None = self
        while chain is not None:
            found.append(chain.last)
            chain = chain.rest
        return tuple(reversed(found))


class Causes:
    """Why aligned steps differ; a pair is addressed by its position in *pairs*."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.pairs = pairs

    def words(self, n: int) -> str:
        """Why the two steps of a pair differ."""
        pair = self.pairs[n]
        causes = []
        if _overridden(pair):
            causes.append("override")
        elif reads := self._changed_reads(n):
            causes.append(f"read {', '.join(self._read_words(k, w) for k, w in reads)}")
        if not _overridden(pair) and (names := _changed_inputs(pair)):
            causes.append(f"given other inputs: {', '.join(map(repr, names))}")
        if _recoded(pair):
            causes.append("its code changed")
        if not causes and pair.shown.live_calls:
            causes.append("asked anew: another answer")
        return "; ".join(causes) or "not from its reads: hidden state, clock or chance"

    def given(self) -> Iterator[Given]:
        """The overrides that only one side was given, in execution order."""
        for pair in self.pairs:
            if pair.before and pair.after and pair.before.override == pair.after.override:
                continue
            ours, theirs = (_overrides(step) for step in pair)
            sides: tuple[tuple[Side, Step | None, dict[bytes, str], dict[bytes, str]], ...] = (
                ("before", pair.before, ours, theirs),
                ("after", pair.after, theirs, ours),
            )
            for side, step, own, others in sides:
                for words in (own[key] for key in own if key not in others):
                    assert step is not None  # noqa: S101  (it has an override)
                    yield Given(side, step.seq, step.action, step.visit, words)

    def entering(self, n: int) -> list[str]:
        """The state keys that an override of one side, or another one of each, set there."""
        pair = self.pairs[n]
        if not _overridden(pair):
            return []
        given = [o for s in pair if s and s.override for o in read_overrides(s.store, s.override)]
        return [*dict.fromkeys(key for o in given if o.kind == "state" for key in o.value)]

    def chains(self, n: int, path: str) -> list[tuple[Link, ...]]:
        """The shortest chains that end at a field of a pair, at most `MAX_CHAINS`.

        Every chain leads from earlier pairs to later ones, so the shortest to each pair
        follow from the shortest to those before it, and no chain is walked twice.
        """
        shortest: dict[int, list[_Chain | None]] = {}
        for m in self._upstream(n):
            found = [
                _Chain(1 + (chain.length if chain else 0), self._link(writer, key), chain)
                for key, writer in self._origins(m)
                for chain in shortest[writer]
            ]
            found.sort(key=lambda chain: chain.length)
            starts = [None] if not found or _has_its_own_cause(self.pairs[m]) else []
            shortest[m] = [*starts, *found][:MAX_CHAINS]
        end = self._link(n, path)
        return [(*(chain.links() if chain else ()), end) for chain in shortest[n]]

    def _upstream(self, n: int) -> list[int]:
        """A pair and every one its differences came from, in order."""
        seen, waiting = {n}, [n]
        while waiting:
            new = {w for _, w in self._origins(waiting.pop())} - seen
            seen |= new
            waiting += new
        return sorted(seen)

    def _origins(self, n: int) -> list[tuple[str, int]]:
        """The changed reads that an earlier pair accounts for, with that pair."""
        own = self.entering(n)
        return [(k, w) for k, w in self._changed_reads(n) if w is not None and k not in own]

    def _changed_reads(self, n: int) -> list[tuple[str, int | None]]:
        """The keys that both sides looked at and found to differ, and who made them differ."""
        before, after = self.pairs[n]
        if before is None or after is None or self.pairs[n].shared:
            return []
        old, new = dict(before.row.reads), dict(after.row.reads)
        return [
            (key, self._writer(n, key))
            for key in dict.fromkeys([*new, *old])
            if old.get(key) != new.get(key)
            and (key in old or before.row.reads_all)
            and (key in new or after.row.reads_all)
        ]

    def _writer(self, n: int, key: str) -> int | None:
        """The last pair before this one that did different things to a key."""
        positions = self._parted.get(key, [])
        found = bisect_left(positions, n)
        return positions[found - 1] if found else None

    @cached_property
    def _parted(self) -> dict[str, list[int]]:
        """By key: the pairs whose two sides did different things to it, in order."""
        read = {key for pair in self.pairs for s in pair if s for key, _ in s.row.reads}
        found: dict[str, list[int]] = {}
        for n, pair in enumerate(self.pairs):
            if pair.shared:
                continue
            writes = [dict(s.row.writes) if s else {} for s in pair]
            rules = [s.row.deleted if s else None for s in pair]
            entering = self.entering(n)
            touched = {*writes[0], *writes[1], *entering, *(read if any(rules) else ())}
            for key in touched:
                ours, theirs = (
                    w.get(key, survives(key, rule)) for w, rule in zip(writes, rules, strict=True)
                )
                if ours != theirs or (key in entering and ours is True):
                    found.setdefault(key, []).append(n)
        return found

    def _link(self, n: int, path: str) -> Link:
        step = self.pairs[n].shown
        return Link(step.seq, step.action, path)

    def _read_words(self, key: str, writer: int | None) -> str:
        if writer is None:
            return repr(key)
        step = self.pairs[writer].shown
        removed = "" if self.pairs[writer].after else "removed "
        return f"{key!r} ({removed}step {step.seq} {step.action!r})"


def _overrides(step: Step | None) -> dict[bytes, str]:
    """What a step was given, in words, by its encoding."""
    if step is None or step.override is None:
        return {}
    given = read_overrides(step.store, step.override)
    return {_codec.encode(astuple(override)): describe_override(override) for override in given}


def _overridden(pair: Pair) -> bool:
    """Whether the two sides were given different overrides, or only one was given any."""
    before, after = pair
    return before is not None and after is not None and before.override != after.override


def _has_its_own_cause(pair: Pair) -> bool:
    """Whether something else than its reads makes the sides differ."""
    return _overridden(pair) or _recoded(pair) or bool(_changed_inputs(pair))


def _recoded(pair: Pair) -> bool:
    """Whether both sides executed, each other code."""
    before, after = pair
    if before is None or after is None or "override" in (before.row.source, after.row.source):
        return False
    return before.row.code != after.row.code


def _changed_inputs(pair: Pair) -> list[str]:
    """The inputs that both sides were given otherwise."""
    if pair.before is None or pair.after is None:
        return []
    old, new = dict(pair.before.row.inputs), dict(pair.after.row.inputs)
    return [k for k in dict.fromkeys([*old, *new]) if old.get(k) != new.get(k)]
