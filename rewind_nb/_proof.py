"""`Proof`: what a replay found, a value one can assert on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rewind_nb import _codec, _path
from rewind_nb._burr import Machine
from rewind_nb._compare import error_text
from rewind_nb._describe import plural
from rewind_nb._diff import MISSING, diff_nodes
from rewind_nb._divergence import Divergence
from rewind_nb._drive import Ended, Script, stopped_by
from rewind_nb._model import StepRow
from rewind_nb._outcome import step_key
from rewind_nb._run import Run, read_overrides
from rewind_nb._session import Session
from rewind_nb._store import Store, _read
from rewind_nb._trajectory import Placed
from rewind_nb.errors import CacheMissError, ReplayConnectionError, ReplayDivergedError


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a replay: was every step identical, with no live call and no token?

    Attributes:
        steps: how many recorded steps there were to reproduce.
        identical: how many were reproduced with the same hash.
        executed: how many executed the action's code.
        applied: how many put in the recorded output of an override.
        live_calls: calls that reached a provider or a tool; 0 in a proof that is ok.
        tokens: tokens spent; 0 in a proof that is ok.
        recorded_calls: calls the recording holds, all of them played back.
        recorded_tokens: what the recorded run and its ancestors paid; None if unknown.
        code_changed: actions whose code differs from the recording. Alone it fails nothing.
        divergence: the first difference, None if there is none.
        run: the replay itself, stored with kind ``replay``.
        original: the run it replayed.

    Example:
        >>> proof = rw.replay(run)  # doctest: +SKIP
        >>> assert proof.ok and proof.tokens == 0  # doctest: +SKIP
    """

    steps: int
    identical: int
    executed: int
    applied: int
    live_calls: int
    tokens: int | None
    recorded_calls: int
    recorded_tokens: int | None
    code_changed: tuple[str, ...]
    divergence: Divergence | None
    run: Run
    original: Run

    @property
    def ok(self) -> bool:
        """All identical, 0 live calls, 0 tokens."""
        return (
            self.divergence is None
            and self.identical == self.steps
            and self.live_calls == 0
            and self.tokens == 0
        )

    def __bool__(self) -> bool:
        return self.ok

    def require(self) -> Proof:
        """The proof itself if it is ok.

        Raises:
            ReplayDivergedError: it is not; the message names the first difference.
        """
        if self.ok:
            return self
        what = str(self.divergence) if self.divergence else f"{self.live_calls} live calls"
        raise ReplayDivergedError(
            f"The replay of run {self.original.id} is not identical: {what}", proof=self
        )

    def __repr__(self) -> str:
        verdict = "ok" if self.ok else "NOT identical"
        text = (
            f"<Proof {verdict}: {self.identical}/{self.steps} steps identical, "
            f"{plural(self.live_calls, 'live call')}, {self.tokens} tokens"
        )
        if self.recorded_tokens:
            text += (
                f" (recorded: {plural(self.recorded_calls, 'call')}, {self.recorded_tokens} tokens)"
            )
        if self.applied:
            text += f", {self.applied} applied from an override"
        if self.code_changed:
            text += f", code changed since: {', '.join(self.code_changed)}"
        return f"{text}; first difference: {self.divergence}>" if self.divergence else f"{text}>"

    def _repr_html_(self) -> str:
        from rewind_nb import _html

        return _html.proof_html(self)


@dataclass(slots=True)
class Tally:
    """What a replay has counted so far."""

    steps: int = 0
    identical: int = 0
    executed: int = 0
    applied: int = 0
    divergence: Divergence | None = None


InputsOf = Callable[[StepRow], Mapping[str, Any]]


def replaying(
    machine: Machine, expected: list[Placed], inputs_of: InputsOf, tally: Tally, end: Ended
) -> Script:
    """Execute every recorded step on its recorded calls, and stop at the first difference.

    Args:
        end: how the recorded run ended, which is how an identical replay ends.
    """
    session = machine.session
    artifacts = _recorded_artifacts(session.store, expected)
    due = [p for p in expected if p.row.status in ("complete", "failed")]
    tally.steps = len(due)
    for placed in due:
        row = placed.row
        if machine.next_action != row.action:
            tally.divergence = _other_way(machine, placed)
            return Ended(
                "complete" if machine.next_action is None else "halted", machine.next_action
            )
        if row.source == "override":
            session.apply(
                row.action,
                row,
                lambda a, c: machine.route(a, c)[0],
                overrides=read_overrides(session.store, row.override) if row.override else (),
            )
            machine.jump()
            tally.applied += 1
        else:
            error = yield inputs_of(row)
            tally.executed += 1
            if error is not None and not isinstance(error, Exception):
                return stopped_by(error, row.action)
        tally.divergence = _difference(placed, session, artifacts)
        if tally.divergence is not None:
            last = session.last
            failed = last is not None and last.status == "failed"
            return Ended(
                "failed" if failed else "halted", machine.next_action if not failed else row.action
            )
        tally.identical += 1
    if due and due[-1].row.status == "complete":
        recorded = (due[-1].row.transition or {}).get("to")
        if _next_action(machine) != recorded:
            tally.divergence = replace(
                _other_way(machine, due[-1]), before=recorded, after=machine.next_action
            )
            return Ended("halted" if machine.next_action else "complete", machine.next_action)
    return end


def _next_action(machine: Machine) -> str | None:
    try:
        return machine.next_action
    except Exception:  # noqa: BLE001  (a condition that failed when it was recorded, too)
        return None


Artifacts = Mapping[Any, Mapping[str, str]]


def _recorded_artifacts(store: Store, expected: list[Placed]) -> Artifacts:
    """The artifacts of the recorded steps: step key -> name -> sha256."""
    found: dict[Any, dict[str, str]] = {}
    for run_id in {p.row.run_id for p in expected}:
        for row in store.read(_read.artifacts_of, run_id):
            found.setdefault(step_key(row), {})[row.name] = row.sha256
    return found


def _other_way(machine: Machine, placed: Placed) -> Divergence:
    row = placed.row
    return Divergence(
        seq=placed.seq,
        action=row.action,
        visit=row.visit,
        path="@next",
        before=row.action,
        after=machine.next_action,
        why="The transitions led to another action: a condition depends on more than the state.",
    )


def _difference(placed: Placed, session: Session, artifacts: Artifacts) -> Divergence | None:
    row, store, now, misses = placed.row, session.store, session.last, session.misses
    if now is None:
        return _diverged(placed, "", None, None, "The step did not execute.")
    if misses:
        return _missed(placed, misses[0])
    if now.hash == row.hash:
        return _unmade(placed, session) or _other_artifacts(placed, session, artifacts)
    if (now.error is None) != (row.error is None) or now.error != row.error:
        before, after = error_text(row), error_text(now)
        if before != after:
            return _diverged(placed, "@error", before, after, "The step ended differently.")
    for path, before, after in _changed_values(store, row, now):
        return _diverged(placed, path, before, after, "The step computed another value.")
    return _diverged(
        placed,
        "@deleted",
        row.deleted,
        now.deleted,
        "The step deleted other keys, or wrote them in another order.",
    )


def _unmade(placed: Placed, session: Session) -> Divergence | None:
    if not session.unmade:
        return None
    call = session.unmade[0]
    why = f"The recorded {call.kind} call {call.name!r} was not made."
    return _diverged(placed, f"@calls[{call.idx}]", call.name, None, why)


def _other_artifacts(placed: Placed, session: Session, artifacts: Artifacts) -> Divergence | None:
    row = placed.row
    before = {} if row.source == "override" else artifacts.get(step_key(row), {})
    after = {} if row.source == "override" else session.artifacts
    for name in dict.fromkeys([*before, *after]):
        if before.get(name) != after.get(name):
            path = f"@artifacts[{json.dumps(name)}]"
            why = "The step wrote other bytes."
            return _diverged(placed, path, before.get(name), after.get(name), why)
    return None


def _missed(placed: Placed, miss: Exception) -> Divergence:
    if isinstance(miss, ReplayConnectionError):
        return _diverged(placed, "@connection", None, None, str(miss))
    differing = getattr(miss, "differing", ()) if isinstance(miss, CacheMissError) else ()
    index = getattr(miss, "call", 0)
    path = f"@calls[{index}].request" + (f".{differing[0]}" if differing else "")
    before, after = getattr(miss, "nearest", None), getattr(miss, "asked", None)
    if differing:
        before, after = (_path.get(v, differing[0]) for v in (before, after))
    return _diverged(placed, path, before, after, str(miss))


def _changed_values(store: Store, before: StepRow, after: StepRow) -> Any:
    old, new = dict(before.writes), dict(after.writes)
    pairs = [(key, old.get(key), new.get(key)) for key in dict.fromkeys([*old, *new])]
    for key, a, b in [*pairs, ("@result", before.result, after.result)]:
        if a != b:
            nodes = [_codec.parse(store.content(h).data) if h else MISSING for h in (a, b)]
            for delta in diff_nodes(nodes[0], nodes[1], key):
                shown = [
                    v if v is MISSING else _codec.decode_node(v)
                    for v in (delta.before, delta.after)
                ]
                yield delta.path, shown[0], shown[1]


def _diverged(placed: Placed, path: str, before: Any, after: Any, why: str) -> Divergence:
    row = placed.row
    return Divergence(placed.seq, row.action, row.visit, path, before, after, why)


def proof_of(
    store: Store,
    code: Mapping[str, Any],
    session: Any,
    tally: Tally,
    expected: list[Placed],
    original: Run,
) -> Proof:
    """The proof of a replay that has ended."""
    replayed = store.run(session.run.id)
    own = [s for s in replayed.steps if s.run_id == replayed.id]
    usage = replayed.usage
    executed = [p.row for p in expected]
    return Proof(
        steps=tally.steps,
        identical=tally.identical,
        executed=tally.executed,
        applied=tally.applied,
        live_calls=sum(s.live_calls for s in own),
        tokens=None if usage is None else usage.total_tokens,
        recorded_calls=sum(r.live_calls + r.played_calls for r in executed),
        recorded_tokens=_tokens(store, executed),
        code_changed=changed_code(store, code, expected),
        divergence=tally.divergence,
        run=replayed,
        original=original,
    )


def _tokens(store: Store, rows: list[StepRow]) -> int | None:
    """What the answers of these steps cost when they were asked for."""
    total = 0
    for row in rows:
        if row.live_calls + row.played_calls == 0:
            continue
        for call in store.read(_read.call_rows, (row.run_id, row.path, row.seq, row.attempt)):
            if call.kind == "model" and call.status == "complete" and call.source != "override":
                if call.usage is None or call.usage.total_tokens is None:
                    return None
                total += call.usage.total_tokens
    return total


def changed_code(store: Store, code: Mapping[str, Any], rows: list[Placed]) -> tuple[str, ...]:
    """The actions of these steps whose code is not what it was when they were recorded."""
    stable: dict[str, dict[str, dict[str, str]]] = {}
    changed: dict[str, None] = {}
    for row in (p.row for p in rows):
        if row.code is None or row.action not in code or row.action in changed:
            continue
        if row.run_id not in stable:
            stable[row.run_id] = store.row(row.run_id).containers or {}
        now = code[row.action]
        kept = stable[row.run_id].get(row.action, {})
        same = all(now.containers.get(k) == d for k, d in kept.items() if d)
        if now.digest != row.code or not same:
            changed[row.action] = None
    return tuple(changed)
