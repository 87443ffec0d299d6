"""`Proof`: what a replay found, a value one can assert on."""

from __future__ import annotations

from dataclasses import dataclass

from rewind_nb._describe import displayed, plural
from rewind_nb._divergence import Divergence
from rewind_nb._run import Run
from rewind_nb.errors import ReplayDivergedError

LOST = "this Rewind does not have the action= given for"


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a replay: was every step identical, with no live call and no token?

    Attributes:
        steps: how many recorded steps there were to reproduce, those of tasks included.
        identical: how many were reproduced with the same hash.
        executed: how many executed the action's code.
        applied: how many put in the recorded output of an override.
        live_calls: calls that reached a provider or a tool; 0 in a proof that is ok.
        tokens: tokens spent; 0 in a proof that is ok.
        recorded_calls: calls the recording holds, all of them played back.
        recorded_tokens: what the recorded run and its ancestors paid; None if unknown.
        code_changed: actions whose code differs from the recording. Alone it fails nothing.
        code_lost: those of them that executed an ``action=`` which this Rewind does not have.
        uncaptured: what the steps started or sent all the same, such as a child process.
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
    uncaptured: tuple[str, ...]
    divergence: Divergence | None
    run: Run
    original: Run
    code_lost: tuple[str, ...] = ()

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
        what = str(self.divergence) if self.divergence else plural(self.live_calls, "live call")
        raise ReplayDivergedError(
            f"The replay of run {self.original.id} is not identical: {what}{self._lost('. ')}",
            proof=self,
        )

    def __repr__(self) -> str:
        verdict = "ok" if self.ok else "NOT identical"
        tokens = "tokens unknown" if self.tokens is None else plural(self.tokens, "token")
        text = (
            f"<Proof {verdict}: {self.identical}/{self.steps} steps identical, "
            f"{plural(self.live_calls, 'live call')}, {tokens}"
        )
        if self.recorded_tokens:
            paid = plural(self.recorded_tokens, "token")
            text += f" (recorded: {plural(self.recorded_calls, 'call')}, {paid})"
        if self.applied:
            text += f", {self.applied} applied from an override"
        edited = [name for name in self.code_changed if name not in self.code_lost]
        if edited:
            text += f", code changed since: {', '.join(edited)}"
        text += self._lost(", ")
        if self.uncaptured:
            text += f", not captured: {', '.join(self.uncaptured)}"
        first = f"; first difference: {self.divergence}" if self.divergence else ""
        return displayed(f"{text}{first}>")

    def _repr_html_(self) -> str:
        from rewind_nb import _html

        return _html.proof_html(self)

    def _lost(self, before: str) -> str:
        """Whose code it could not execute, for that is not at hand, and what to do."""
        if not self.code_lost:
            return ""
        names = ", ".join(map(repr, self.code_lost))
        return f"{before}{LOST} {names}: replay it with the Rewind that was given it"
