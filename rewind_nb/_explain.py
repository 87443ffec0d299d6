"""Why each step of a fork executed or did not, exactly: which field, changed by which step.

The step's row has the reason in few words (`_reasons`). What they leave open is looked up in
the parent and the fork as they are stored, when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple
from functools import cached_property
from itertools import islice

from rewind_nb import _codec, _reasons
from rewind_nb._apart import edited_after, looked_at, way
from rewind_nb._coded import code_changes
from rewind_nb._contrast import contrast
from rewind_nb._describe import describe_override, displayed, plural
from rewind_nb._diff import MISSING, Delta
from rewind_nb._held import START, Moment
from rewind_nb._model import Override
from rewind_nb._pairs import paired
from rewind_nb._path import join
from rewind_nb._run import Run, Step, read_overrides
from rewind_nb._traced import Changer, Spot, Traced, Traces

__all__ = ["Explanation"]

MAX_FIELDS = 6  # named of one key that one step changed
MAX_CHANGERS = 4  # named of one key
WHOLE = "which was "
_EDITED = "the way on was edited: "

_BECAME = {
    "changed": "changed",
    "added": "added",
    "removed": "removed",
    "type": "given another type",
    "order": "put in another order",
}


class Explanation:
    """Why the steps of one run executed or did not; a run that is no fork has no reasons.

    Nothing is read before it is needed. All of the parent is where a step's reason is what it
    read, or another way.

    Args:
        run: the fork.

    Example:
        >>> Explanation(fork).of(fork["compose"])  # doctest: +SKIP
        "read `analysis`, in which `total` was changed by step 3 'analyse'"
    """

    def __init__(self, run: Run) -> None:
        self.run = run

    def of(self, step: Step) -> str | None:
        """Why a step of the run, or of a task inside it, executed or did not.

        None where there is nothing to say: a run that was recorded executes every step.
        """
        reason = step.reason
        if reason is None or self.run.kind != "fork" or step.run_id != self.run.id:
            return reason
        return displayed(self._exact(step, reason) + self._rerouted(step))

    def _exact(self, step: Step, reason: str) -> str:
        if reason in (_reasons.OVERRIDE, _reasons.SUPPLIED):
            return self._overridden(step)
        if _reasons.is_inside(reason) or reason == _reasons.ASKED_AGAIN:
            return f"{reason}: {self._asked(reason)}"
        if reason == _reasons.ORDER:
            return self._order(step)
        if _reasons.is_changed_reads(reason):
            return self._reads(step) or reason
        if _reasons.is_ended(reason):
            reads = self._reads(step)
            return f"{reason}; {reads}" if reads else reason
        if _reasons.is_alone(reason):
            return f"{reason}{self._way(self._position[step.address])}"
        before = self._counterpart(step)
        if before is not None and _reasons.is_changed_inputs(reason):
            return _given(before, step) or reason
        if before is not None and _reasons.is_changed_code(reason):
            words = code_changes((before.store, before.row), (step.store, step.row))
            return f"{reason}: {words}" if words else reason
        return reason

    # -- overrides --------------------------------------------------------------------------

    def _overridden(self, step: Step) -> str:
        given = () if step.override is None else read_overrides(step.store, step.override)
        mine = {_encoded(override) for override in self.run.overrides}
        own = [override for override in given if _encoded(override) in mine]
        words = "; ".join(map(describe_override, own or given))
        return f"{_reasons.OVERRIDE}{'' if own else ' of the parent'}: {words}"

    def _asked(self, reason: str) -> str:
        if reason.startswith(_reasons.ASKED_AGAIN) or not self.run.overrides:
            origin = self.run.origin
            return f"cache={'auto' if origin is None else origin.cache!r}"
        first = self.run.forked_step
        return self.run.override_words + ("" if first is None else f" at {first.address}")

    # -- what it read -----------------------------------------------------------------------

    def _reads(self, step: Step) -> str | None:
        before = self._counterpart(step)
        if before is None:
            return None
        there = self._traces.both.held[step.path][1]
        moment = Moment(step.seq)
        recorded = dict(before.row.reads)
        differing = [key for key, digest in recorded.items() if there.at(key, moment) != digest]
        if before.row.reads_all:
            differing += [key for key in there.keys_at(moment) if key not in recorded]
        spot = Spot(self._position[step.address])
        said = [self._key(step.path, key, spot) for key in differing]
        return f"read {'; '.join(said)}" if said else None

    def _way(self, n: int) -> str:
        """What made the fork take a step that its parent did not."""
        m = self._traces.both.last_of_both(n)
        if m is None:
            return self._new_task(n)
        said = [*self._leaving(m)]
        return f": {'; '.join(said)}" if said else ""

    def _leaving(self, m: int) -> Iterator[str]:
        """Why the ways on from a step of both differ."""
        before, after = self._traces.pairs[m]
        assert before is not None and after is not None  # noqa: PT018, S101
        if before.status != "complete" and after.status == "complete":
            yield f"it {'failed' if before.status == 'failed' else 'was interrupted'} at {before.label}"
            return
        ours, theirs = looked_at(before), looked_at(after)
        keys = [key for key in theirs if key in ours and ours[key] != theirs[key]]
        read = [self._key(after.path, key, Spot(m, leaving=True)) for key in keys]
        edits = edited_after(self._traces.pairs[m])
        parent = self._traces.runs[0]
        if read:
            yield f"the conditions after {after.label} read {'; '.join(read)}"
        if edits:
            yield f"{_EDITED}{'; '.join(edits)}"
        if not (read or edits or after.path) and parent.status == "halted":
            yield f"it halted after {before.label}"

    def _new_task(self, n: int) -> str:
        """Why the step around a task made it, and the parent's did not."""
        owner = self._traces.nesting.owner[n]
        outer = None if owner is None else self._traces.pairs[owner].after
        if owner is None or outer is None:
            return ""
        if self._traces.pairs[owner].before is None:
            return self._way(owner)
        return f": {outer.label} made the task anew ({self._exact(outer, outer.reason or '')})"

    def _rerouted(self, step: Step) -> str:
        """How the way on from a step was edited, where the fork took another one for that."""
        if not any(o.kind == "code" and o.value["graph"] for o in self.run.overrides):
            return ""
        pair = self._traces.pairs[self._position[step.address]]
        if pair.before is None or way(pair.before) == way(step):
            return ""
        edits = edited_after(pair)
        return f"; {_EDITED}{'; '.join(edits)}" if edits else ""

    def _order(self, step: Step) -> str:
        who = self._who(self._traces.reordered(step.path, Spot(self._position[step.address])))
        return f"read every field, whose order was changed{who}" if who else _reasons.ORDER

    def _key(self, path: str, key: str, spot: Spot) -> str:
        """What became of a key, field by field, and by whom."""
        whole: list[str] = []
        parts: list[str] = []
        traced = self._traces.differences(path, key, spot)
        grouped = _grouped(traced)
        for changer, kinds in islice(grouped.items(), MAX_CHANGERS):
            fields = [
                _fields(join("", key), kind, deltas, traced.more) for kind, deltas in kinds.items()
            ]
            who = self._who(changer)
            whole += [f"{words}{who}" for words in fields if words.startswith(WHOLE)]
            inner = [words for words in fields if not words.startswith(WHOLE)]
            parts += [f"{' and '.join(inner)}{who}"] if inner else []
        if (more := len(grouped) - MAX_CHANGERS) > 0:
            count = "more steps" if traced.more else plural(more, "more step")
            parts.append(f"others by {count}")
        said = [*whole, *([f"in which {', '.join(parts)}"] if parts else [])]
        return f"`{key}`, {' and '.join(said) or 'which changed'}"

    def _who(self, changer: Changer | None) -> str:
        """The step that did it: `` by step 3 'analyse'``."""
        if changer is None or changer.spot.n == START:
            return ""
        pair = self._traces.pairs[changer.spot.n]
        step = pair.shown.label
        if changer.made:
            return f" by {step}, which made the task"
        if not changer.spot.leaving:
            return f" by the override of {step}"
        return f" by {step}" if pair.after else f" by leaving out {step}"

    # -- both runs, side by side ------------------------------------------------------------

    @cached_property
    def _traces(self) -> Traces:
        """The steps of the parent, as far as it had come, beside those of the fork."""
        parent, length = self.run.parent, self.run._row.parent_len  # noqa: SLF001
        assert parent is not None  # noqa: S101  (it is a fork)
        pairs = tuple(paired(parent.steps[:length], self.run.steps))
        return Traces((parent, self.run), pairs)

    @cached_property
    def _position(self) -> dict[str, int]:
        pairs = self._traces.pairs
        return {pair.after.address: n for n, pair in enumerate(pairs) if pair.after}

    def _counterpart(self, step: Step) -> Step | None:
        """The parent's step at the same place."""
        return self._traces.pairs[self._position[step.address]].before


Kinds = dict[str, list[Delta]]


def _grouped(traced: Traced) -> dict[Changer | None, Kinds]:
    """Differences by who made them, and what they are."""
    groups: dict[Changer | None, Kinds] = {}
    for delta, changer in traced.fields:
        groups.setdefault(changer, {}).setdefault(delta.kind, []).append(delta)
    return groups


def _fields(top: str, kind: str, deltas: list[Delta], uncounted: bool) -> str:
    """The fields of a key that became something, as ``which was changed`` for all of it.

    Args:
        uncounted: whether there may be others.
    """
    fields = [delta.path[len(top) :].removeprefix(".") for delta in deltas]
    if fields == [""]:
        return f"{WHOLE}{_BECAME[kind]}"
    more = len(fields) - MAX_FIELDS
    count = "" if uncounted else f"{more} "
    named = _reasons.quoted(fields[:MAX_FIELDS]) + (f" and {count}more" if more > 0 else "")
    return f"{named} {'was' if len(fields) == 1 else 'were'} {_BECAME[kind]}"


def _given(before: Step, after: Step) -> str:
    """The inputs that are others, with both values."""
    old, new = before.inputs, after.inputs
    hashes = dict(before.row.inputs), dict(after.row.inputs)
    said = []
    for name in dict.fromkeys([*old, *new]):
        if hashes[0].get(name) != hashes[1].get(name):
            values = contrast(old.get(name, MISSING), new.get(name, MISSING))
            said.append(f"`{name}` given otherwise: {' -> '.join(values)}")
    return "; ".join(said)


def _encoded(override: Override) -> bytes:
    data: bytes = _codec.encode(astuple(override))
    return data
