"""Why a call of a fork was made live, though its parent had made calls there, too.

It is compared with the parent's call at the same place: the same step, branch and kind, and
as many of them before it. Nothing is remembered for that while the fork runs.
"""

from __future__ import annotations

from rewind_nb import _codec
from rewind_nb._counterpart import Parent, Place
from rewind_nb._describe import displayed, plural
from rewind_nb._diff import diff_nodes
from rewind_nb._model import ASKED, PLAYING, CallRow
from rewind_nb._store import Store, _read
from rewind_nb._trajectory import executed

NONE_SUCH = "the parent made no such call here"
MAX_FIELDS = 6  # named


class Asking:
    """Tells why calls were made live; the parents that it looks at are read once.

    Args:
        store: of the calls.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._parents: dict[str, Parent] = {}
        self._calls: tuple[tuple[str, Place], list[CallRow] | None] | None = None

    def reason(self, place: Place, call: CallRow) -> str | None:
        """Why a call of the step at *place* was made live, or would have been.

        Returns:
            None for one that was played back, and in a run that is no fork.
        """
        if call.source not in ("live", "refused"):
            return None
        parent = self._parent(call.run_id)
        if parent.run.kind != "fork":
            return None
        mode = parent.run.mode.get("cache", "auto")
        if mode not in PLAYING:
            return f"cache={mode!r}"
        return self._compared(call, self._recorded(parent, place))

    def _parent(self, run_id: str) -> Parent:
        if run_id not in self._parents:
            self._parents[run_id] = Parent(self.store, self.store.row(run_id))
        return self._parents[run_id]

    def _recorded(self, parent: Parent, place: Place) -> list[CallRow] | None:
        """The calls of the parent's step there; None where that failed, and asks again."""
        if self._calls is None or self._calls[0] != (parent.run.id, place):
            self._calls = (parent.run.id, place), self._read(parent, place)
        return self._calls[1]

    def _read(self, parent: Parent, place: Place) -> list[CallRow] | None:
        placed = parent.at(place)
        if placed is None:
            return []
        row = executed(self.store, placed.row)
        if row.status == "failed":
            return None
        return self.store.read(_read.call_rows, (row.run_id, row.path, row.seq, row.attempt))

    def _compared(self, call: CallRow, recorded: list[CallRow] | None) -> str:
        if recorded is None:
            return "the parent's step failed, so it asks again"
        there = [r for r in recorded if (r.kind, r.branch) == (call.kind, call.branch)]
        if call.kind not in ASKED:
            return NONE_SUCH
        there.sort(key=lambda row: row.idx)
        theirs = [row for row in there if row.ordinal == call.ordinal]
        if not theirs:
            return NONE_SUCH
        if fields := self._differing(theirs[-1], call):
            more = len(fields) - MAX_FIELDS
            named = ", ".join(fields[:MAX_FIELDS]) + (f" and {more} more" if more > 0 else "")
            return displayed(f"differs from the parent's call here in: {named}")
        same = [row for row in there if row.fingerprint == call.fingerprint and row.playable]
        if not same:
            return "the parent's call here got no answer that can be played back"
        if call.n not in [row.n for row in same]:
            return f"the parent made this very request {plural(len(same), 'time')}, and no more"
        return "an override is for a call inside it"

    def _differing(self, theirs: CallRow, call: CallRow) -> list[str]:
        """The fields in which two requests differ; of a model's those of what it is sent."""
        for ours, other in ((call.key, theirs.key), (call.request, theirs.request)):
            if ours != other:
                node = _codec.parse(self.store.content(ours).data)
                paths = dict.fromkeys(differing_fields(self.store, other, node))
                prefix = "body." if call.kind == "model" else ""
                return [path.removeprefix(prefix) or "the whole of it" for path in paths]
        return []


def differing_fields(store: Store, recorded: str, node: _codec.Node) -> list[str]:
    """Paths at which a request (a parsed node) differs from a recorded one."""
    before = _codec.parse(store.content(recorded).data)
    return [delta.path for delta in diff_nodes(before, node)]
