"""The two actions of a step: a fork there, and a replay from there on, told while they go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rewind_nb._combine import Given
from rewind_nb._describe import error_line
from rewind_nb._execution import Execution
from rewind_nb._model import Event
from rewind_nb._proof import Proof
from rewind_nb._run import Run, Step
from rewind_nb._secrets import redact
from rewind_nb._text import visible
from rewind_nb.errors import RewindError
from rewind_nb.widgets._run_graph import run_facts
from rewind_nb.widgets._work import Work

if TYPE_CHECKING:
    from rewind_nb._rewind import Rewind

__all__ = ["Forking"]

WORDS = 4_000  # characters of an error


class Forking:
    """Makes the forks and replays that a widget is asked for, one at a time.

    Args:
        rw: which makes them.
        changed: is called when there is something new to tell.
        ended: is called with each fork that ended.

    Attributes:
        told: `state` (``running``, ``stopping``, ``done``, ``failed``, ``stopped``), `words` and
            `problem`; empty before the first.
        fork: the last fork that ended.
        proof: what the last replay proved.
    """

    def __init__(
        self, rw: Rewind, changed: Callable[[], None], ended: Callable[[Run], None]
    ) -> None:
        self._rw = rw
        self._changed = changed
        self._ended = ended
        self._work = Work()
        self.wait = self._work.wait
        self.told: dict[str, str] = {}
        self.fork: Run | None = None
        self.proof: Proof | None = None

    def close(self) -> None:
        """Stop what executes, and tell no more."""
        self._work.close()

    def stop(self) -> bool:
        """Ask what executes to stop; False where nothing does."""
        self._work.stop()
        if self._work.going:
            self._tell(state="stopping", words="Stopping …")
        return self._work.going

    # -- the actions --------------------------------------------------------------------------

    def begin_fork(self, run: Run, step: Step, given: Given) -> None:
        """Fork *run* at a step, with one override.

        Raises:
            ConfigError: something executes already.
        """
        kind, value, call = given

        def job() -> None:
            made: list[Execution] = []
            error = self._try(lambda: self._forked(made, words, run, step, kind, value, call))
            fork = self._run_of(made)
            if fork is not None:
                self.fork = fork
            self._end(error, "" if fork is None else _fork_words(fork), fork)
            if fork is not None:
                self._follow(fork)

        words = f"Forking at {visible(step.label)}"
        self._work.start(job)
        self._tell(state="running", words=f"{words} …", problem="")

    def _forked(
        self, made: list[Execution], words: str, run: Run, step: Step, kind: str, value: Any,
        call: int,
    ) -> None:  # fmt: skip
        rw = self._rw
        unsubscribe = rw.on(lambda event: self._hear(event, made, words))
        try:
            made.append(rw._new_fork(run, step, call=call, **{kind: value}))  # noqa: SLF001
            rw._go(self._work.hold(made[0]), "afork")  # noqa: SLF001
        finally:
            unsubscribe()

    def begin_replay(self, run: Run, step: Step) -> None:
        """Play *run* back from a step on; no call is possible.

        Raises:
            ConfigError: something executes already.
        """

        def job() -> None:
            self.proof = None
            error = self._try(lambda: self._replayed(words, run, step.top))
            proof = self.proof
            self._end(error, "" if proof is None else repr(proof).strip("<>"), None)

        words = f"Reproducing from {visible(step.top.label)}"
        self._work.start(job)
        self._tell(state="running", words=f"{words} …", problem="")

    def _replayed(self, words: str, run: Run, start: Step) -> None:
        rw, made = self._rw, list[Execution]()
        unsubscribe = rw.on(lambda event: self._hear(event, made, words))
        try:
            execution, tally, expected = rw._new_replay(run, start, None)  # noqa: SLF001
            made.append(execution)
            ended = rw._drive(self._work.hold(execution), "areplay")  # noqa: SLF001
            self.proof = rw._proof(run, execution, ended, tally, expected)  # noqa: SLF001
        finally:
            unsubscribe()

    # -- what is told ---------------------------------------------------------------------------

    def _tell(self, **told: str) -> None:
        self.told = {**self.told, **told}
        self._changed()

    def _hear(self, event: Event, made: list[Execution], words: str) -> None:
        mine = bool(made) and event.run_id == made[0].session.run.id
        if mine and event.name == "step_started" and not event.path and not self._work.stopping:
            self._tell(words=visible(f"{words}: step {event.seq} {event.action!r} …")[:WORDS])

    @staticmethod
    def _try(act: Callable[[], None]) -> BaseException | None:
        try:
            act()
        except BaseException as error:  # noqa: BLE001  (it is shown in the widget)
            return error
        return None

    def _run_of(self, made: list[Execution]) -> Run | None:
        session = made[0].session if made else None
        return self._rw.store.run(session.run.id) if session and session.started else None

    def _end(self, error: BaseException | None, words: str, run: Run | None) -> None:
        if self._work.stopped_by(error):
            how = "" if run is None else f" {visible(run.id)} goes on with rw.resume({run.id!r})."
            self._tell(state="stopped", words=f"Stopped.{how}", problem="")
        elif error is None:
            bad = self.proof is not None and not self.proof.ok and run is None
            self._tell(state="failed" if bad else "done", words=words, problem="")
        else:
            self._tell(state="failed", words=words, problem=_problem(error, run))

    def _follow(self, fork: Run) -> None:
        error = self._try(lambda: self._ended(fork))
        if error is not None:
            self._tell(problem=f"A callback of on_fork raised {error_line(error)}"[:WORDS])


def _fork_words(fork: Run) -> str:
    note = f" ({visible(redact(fork.note))})" if fork.note else ""
    return f"Fork {fork.id} is {fork.status}: {run_facts(fork)}{note}"[:WORDS]


def _problem(error: BaseException, run: Run | None) -> str:
    """What stopped it, with the step where that happened."""
    told = redact(str(error)) if isinstance(error, RewindError) else error_line(error)
    steps = () if run is None else tuple(run.walk())
    failed = [step for step in steps if step.error is not None]
    where = f"{visible(failed[-1].label)}: " if failed else ""
    return f"{where[:1].upper()}{where[1:]}{visible(told)}"[:WORDS]
