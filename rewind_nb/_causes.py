"""Why aligned steps differ, in words and as chains back to the override.

A step differs because it was given another override, read something else, got other
inputs, is other code, was answered otherwise, or because its tasks came to something else.
What it read and what its tasks came to differs because of earlier steps (`_origins`); and
so on, back to the override.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import NamedTuple

from rewind_nb import _codec
from rewind_nb._answers import ANEW, other_answers
from rewind_nb._apart import changed_inputs, entering, overridden, recoded, way
from rewind_nb._chains import Chains
from rewind_nb._changes import Pair, Side
from rewind_nb._coded import code_changes, other_contents
from rewind_nb._describe import describe_override
from rewind_nb._label import address, label, shown
from rewind_nb._origins import Origins, Parting
from rewind_nb._pairs import Nesting
from rewind_nb._readings import TASKS, Origin, Read
from rewind_nb._run import Run, Step, read_overrides

SUPPLIED = frozenset({"override", "reused"})  # sources of a step that executed nothing
MAX_MADE = 3  # fields named that a value was made from


class Given(NamedTuple):
    """An override that one of two runs was given at a step, and the other was not.

    Attributes:
        side: the run that was given it, ``before`` or ``after``.
        words: what it replaces, such as ``replace report.total = 1200``.
        lane: the task the step is in, such as ``map:1[0]/``; "" for a step of the run itself.
    """

    side: Side
    seq: int
    action: str
    visit: int
    words: str
    lane: str = ""

    @classmethod
    def at(cls, side: Side, step: Step, words: str) -> Given:
        """What a step was given."""
        return cls(side, step.seq, step.action, step.visit, words, step.path)

    @property
    def address(self) -> str:
        """Where the step stands: ``search:2``, or inside a task ``map:1[0]/query:1``."""
        return address(self.lane, self.action, self.visit)

    @property
    def label(self) -> str:
        """The step in words."""
        return label(self.seq, self.action, self.visit, self.lane)


class Causes:
    """Why aligned steps differ; a pair is addressed by its position in *pairs*."""

    def __init__(self, pairs: Sequence[Pair], nesting: Nesting, runs: tuple[Run, Run]) -> None:
        self.pairs = pairs
        self.origins = Origins(pairs, nesting, runs)
        self.chains = Chains(pairs, self.origins, self._has_its_own_cause)
        self._answered: dict[int, list[str]] = {}
        self._other_contents: dict[tuple[str, ...], list[str]] = {}

    def words(self, n: int) -> str:
        """Why the two steps of a pair differ."""
        pair, own = self.pairs[n], self.entering(n)
        causes = ["override"] if overridden(pair) else []
        if reads := [read for read in self.origins.readings.of(n) if read.key not in own]:
            causes.append(f"read {', '.join(map(self._read_words, reads))}")
        causes += self._task_words(n)
        if not overridden(pair) and (names := changed_inputs(pair)):
            causes.append(f"given other inputs: {', '.join(map(repr, names))}")
        if recoded(pair):
            causes.append(f"its code changed{_what_changed(pair)}")
        else:
            causes += self._contents(pair)
        causes += self._answers(n)
        if not causes and pair.shown.live_calls:
            causes.append(ANEW)
        return "; ".join(causes) or "not from its reads: hidden state, clock or chance"

    def parting_words(self, n: int) -> str:
        """Why only one side took a step, where the other went another way."""
        return self._parted(self.origins.parting(n))

    def end_words(self, n: int) -> str:
        """Why the runs ended differently after a pair that both took."""
        before, after = self.pairs[n]
        assert before is not None and after is not None  # noqa: PT018, S101
        failed = [bool((step.transition or {}).get("failed")) for step in (before, after)]
        if failed[0] != failed[1]:
            return "the condition of a transition raised"
        if way(before) != way(after):
            return self._parted(self.origins.parted_at(n))
        return "stopped there, by nothing that a step did"

    def _parted(self, parting: Parting | None) -> str:
        words = "the runs took different paths"
        if parting is None:
            return words
        words += f" after {_step(self.pairs[parting.pair].shown)}"
        own = [Origin(read.key, parting.pair) for read in parting.reads]
        reads = (
            repr(read.key) if read.origins == (origin,) else self._read_words(read)
            for read, origin in zip(parting.reads, own, strict=True)
        )
        said = [f"whose conditions read {', '.join(reads)}"] if own else []
        said += [f"through an edit: {'; '.join(parting.edits)}"] if parting.edits else []
        return ", ".join([words, *said])

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
                    yield Given.at(side, step, words)

    def entering(self, n: int) -> list[str]:
        """The state keys that an override of one side, or another one of each, set there."""
        return entering(self.pairs[n])

    def _has_its_own_cause(self, n: int) -> bool:
        """Whether something else than its reads makes the sides differ."""
        pair = self.pairs[n]
        own = overridden(pair) or recoded(pair) or changed_inputs(pair) or self._contents(pair)
        return bool(own or self._answers(n))

    def _answers(self, n: int) -> list[str]:
        if n not in self._answered:
            self._answered[n] = other_answers(self.pairs[n])
        return self._answered[n]

    def _contents(self, pair: Pair) -> list[str]:
        """The lists and dicts around its code that held something else, where both executed."""
        before, after = pair
        if before is None or after is None or before.row.run_id == after.row.run_id:
            return []
        if SUPPLIED & {before.row.source, after.row.source}:
            return []
        which = (before.row.run_id, after.row.run_id, before.path, before.action)
        if which not in self._other_contents:
            rows = (before.store, before.row), (after.store, after.row)
            self._other_contents[which] = other_contents(*rows)
        return self._other_contents[which]

    # -- words --------------------------------------------------------------------------------

    def _read_words(self, read: Read) -> str:
        if not read.origins:
            return repr(read.key)
        if not read.made:
            return f"{read.key!r} ({', '.join(dict.fromkeys(map(self._who, read.origins)))})"
        fields = [self._made_words(origin) for origin in read.origins[:MAX_MADE]]
        more = len(read.origins) - MAX_MADE
        if more > 0:
            fields.append(f"{more} more")
        return f"{read.key!r} (made from {'; '.join(fields)})"

    def _made_words(self, origin: Origin) -> str:
        if not origin.begins or not origin.path.startswith("@"):
            return f"{origin.path!r}, {self._who(origin)}"
        pair = self.pairs[origin.pair]
        step = _step(pair.shown)
        if origin.path != TASKS:
            return f"other inputs of {step}"
        if recoded(pair):
            return f"changed code of {step}"
        if overridden(pair):
            return f"an override of {step}"
        return f"{'new' if pair.shown.live_calls else 'other'} answers of {step}"

    def _who(self, origin: Origin) -> str:
        """The step that passed something on."""
        step = _step(self.pairs[origin.pair].shown)
        if origin.begins and origin.pair in self.origins.nesting.tasks:
            return f"override of {step}"
        return step if self.pairs[origin.pair].after else f"removed {step}"

    def _task_words(self, n: int) -> Iterator[str]:
        """How the tasks of a step differ: the only one by name, several by their number."""
        tasks = self.origins.tasks(n)
        for kind in ("changed", "added", "removed"):
            found = [task for task in tasks if task.kind == kind]
            was = "" if kind == "changed" else "was " if len(found) == 1 else "were "
            if len(found) > 1:
                yield f"{len(found)} of its tasks {was}{kind}"
            elif found:
                lane, last = found[0].lane, self.pairs[found[0].origins[0].pair].shown
                key = lane.removeprefix(f"{self.pairs[n].shown.address}[").removesuffix("]/")
                where = last.address if kind == "changed" else lane
                yield f"its task {shown(key)} {was}{kind} ({shown(where)})"


def _step(step: Step) -> str:
    """A step without its visit, as causes name it; inside a task by its address."""
    return step.label if step.path else label(step.seq, step.action, 1)


def _overrides(step: Step | None) -> dict[bytes, str]:
    """What a step was given, in words, by its encoding."""
    if step is None or step.override is None:
        return {}
    given = read_overrides(step.store, step.override)
    return {_codec.encode(astuple(override)): describe_override(override) for override in given}


def _what_changed(pair: Pair) -> str:
    """Which functions and globals of its code, where that is known."""
    before, after = pair
    if before is None or after is None:
        return ""
    words = code_changes((before.store, before.row), (after.store, after.row))
    return words and f" ({words})"
