"""`Stability`: one run executed many times, and which of its steps come out differently."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal

from rewind_nb import _codec
from rewind_nb._describe import displayed, plural
from rewind_nb._model import OVER
from rewind_nb._run import Run
from rewind_nb._steps import Step
from rewind_nb._wilson import wilson
from rewind_nb.errors import StepNotFoundError, did_you_mean
from rewind_nb.experiments._entropy import FieldsOf, encoded, moving
from rewind_nb.experiments._experiment import Experiment
from rewind_nb.experiments._facts import failure
from rewind_nb.experiments._noise import Fields, Noise, compared
from rewind_nb.experiments._spread import NAMED, Draw, Place, Share, Spread, row, varies_by

if TYPE_CHECKING:
    import pandas as pd


class Stability(Experiment):
    """One run executed many times from a step on, every answer asked anew.

    ``stability.df`` has one row per step: how often it did the same; ``stability.fields`` says
    which fields move; ``stability.noise`` whether another run differs by more than that.
    """

    KIND: ClassVar[str] = "stability"
    ROWS: ClassVar[str] = "Steps"

    @property
    def k(self) -> int:
        """How many executions were asked for."""
        return int(self.asked["k"])

    @cached_property
    def draws(self) -> tuple[Draw, ...]:
        """The executions of the run."""
        return tuple(self._draw(key_of("own", n)) for n in range(self.k))

    @cached_property
    def ended(self) -> tuple[Draw, ...]:
        """Those of them that came to an end, be it a failure: all shares are of these."""
        return tuple(draw for draw in self.draws if draw.ended)

    def _draw(self, key: str) -> Draw:
        run = self._made.get(key)
        if run is None:
            return Draw(key, None, {}, (), (), self.found.get("refused", {}).get(key))
        steps = {_place(step): step for step in _from(run, self.asked["seq"])}
        path = tuple((s.action, s.visit) for s in steps.values() if not s.path)
        calls = (call for step in steps.values() for call in step.calls)
        named = {call.system_fingerprint for call in calls} - {None}
        return Draw(key, run, steps, path, tuple(sorted(map(str, named))), failure(run))

    @cached_property
    def _made(self) -> dict[str, Run]:
        return {run._row.cell or "": run for run in self.runs}  # noqa: SLF001

    # -- the steps --------------------------------------------------------------------------

    @cached_property
    def steps(self) -> tuple[Spread, ...]:
        """Every step that the recorded run took, then those that only executions did."""
        recorded = self._recorded
        places = dict.fromkeys([*recorded, *(p for draw in self.ended for p in draw.steps)])
        fields = FieldsOf(self.store)
        return tuple(self._spread(place, recorded.get(place), fields) for place in places)

    @cached_property
    def _recorded(self) -> dict[Place, Step]:
        assert self.run is not None  # noqa: S101  (it is about one run)
        return {_place(step): step for step in _from(self.run, self.asked["seq"])}

    def _spread(self, place: Place, recorded: Step | None, fields: FieldsOf) -> Spread:
        steps = [draw.steps[place] for draw in self.ended if place in draw.steps]
        share = Share.of(steps)
        like = 0 if recorded is None else sum(step.hash == recorded.hash for step in steps)
        return Spread(
            *place,
            seq=None if recorded is None else recorded.seq,
            share=share,
            recorded=like,
            failed=sum(step.status == "failed" for step in steps),
            varies=varies_by(steps) if share.distinct > 1 else None,
            moving=moving(steps, fields) if share.distinct > 1 else (),
            steady=share.distinct == 1 and len(steps) == len(self.ended),
        )

    def __getitem__(self, place: str | tuple[str, int]) -> Spread:
        """The step at ``"search"`` (its last visit), ``("search", 2)`` or an address.

        Raises:
            StepNotFoundError: no execution took such a step, nor the recorded run.
        """
        if isinstance(place, tuple):
            found = [s for s in self.steps if (s.action, s.visit) == place and not s.path]
        else:
            found = [s for s in self.steps if s.address == place]
            own = [s for s in self.steps if s.action == place and not s.path]
            found = found or sorted(own, key=lambda spread: spread.visit)[-1:]
        if not found:
            near = did_you_mean(str(place), [spread.address for spread in self.steps])
            raise StepNotFoundError(f"{self.id} has no step {place!r}. {near}", at=place)
        return found[0]

    def __iter__(self) -> Iterator[Spread]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def stable(self) -> bool:
        """Whether all executions came to an end, and every step did the same in each."""
        return len(self.ended) == self.k and all(spread.steady for spread in self.steps)

    @property
    def first_unstable(self) -> Spread | None:
        """The first step that some execution did differently, or did not take."""
        return next((spread for spread in self.steps if not spread.steady), None)

    @property
    def other_paths(self) -> tuple[Draw, ...]:
        """The executions that ended without failing, and not by the recorded steps."""
        taken = tuple((s.action, s.visit) for s in self._recorded.values() if not s.path)
        return tuple(d for d in self.ended if d.error is None and d.path != taken)

    @property
    def failed(self) -> tuple[Draw, ...]:
        """The executions that failed."""
        return tuple(draw for draw in self.ended if draw.error is not None)

    @cached_property
    def groups(self) -> dict[tuple[str, ...], tuple[Draw, ...]]:
        """The executions by the deployments that answered; empty where no answer says which."""
        found: dict[tuple[str, ...], tuple[Draw, ...]] = {}
        for draw in self.ended:
            found[draw.deployments] = (*found.get(draw.deployments, ()), draw)
        return found if any(found) else {}

    def shares_by_deployment(self, spread: Spread) -> dict[tuple[str, ...], Share]:
        """How often a step did the same within each group of executions."""
        place = (spread.path, spread.action, spread.visit)
        steps = {
            named: [draw.steps[place] for draw in draws if place in draw.steps]
            for named, draws in self.groups.items()
        }
        return {named: Share.of(found) for named, found in steps.items()}

    # -- beside another run -----------------------------------------------------------------

    @cached_property
    def noise(self) -> Noise | None:
        """Whether the runs of ``against=`` differ by more than this one does from itself."""
        against = self.asked["against"]
        if against is None:
            return None
        if against["again"]:
            others = [self._made.get(key_of("against", n)) for n in range(self.k)]
            found = [run for run in others if run is not None and run.status in OVER]
        else:
            found = [self.store.run(run_id) for run_id in against["runs"]]
        fields = FieldsOf(self.store)
        own = [draw.run for draw in self.ended if draw.run is not None]
        return compared(
            [self._fields(run, fields) for run in own], [self._fields(run, fields) for run in found]
        )

    def _fields(self, run: Run, fields: FieldsOf) -> Fields:
        """What is compared of a run: the leaves of its outcome, or of its final state."""
        ends = {"@status": failure(run) or run.status}
        if not self.asked["outcome"]["columns"]:
            for key, digest in run.final_manifest.items():
                ends |= fields(key, digest)
            return ends
        for name, value in self.found.get("seen", {}).get(run.id, {}).items():
            node = _codec.parse(_codec.encode(value))
            ends |= {f"{name}: {path}": leaf for path, leaf in encoded("value", node)}
        return ends

    # -- the check --------------------------------------------------------------------------

    @property
    def verdicts(self) -> dict[str, str]:
        """What the check said of each execution, by its key; empty without a check."""
        return dict(self.found.get("verdicts", {}))

    @property
    def passes(self) -> int:
        """How many executions pass the check."""
        return sum(said == "pass" for said in self.verdicts.values())

    # -- showing ----------------------------------------------------------------------------

    @property
    def df(self) -> pd.DataFrame:
        """One row per step; columns in `_suite_frames.SPREAD_COLUMNS`."""
        from rewind_nb import _suite_frames

        return _suite_frames.spreads_df(self)

    @property
    def fields(self) -> pd.DataFrame:
        """One row per field that moves; columns in `_suite_frames.MOVING_COLUMNS`."""
        from rewind_nb import _suite_frames

        return _suite_frames.moving_df(self)

    @property
    def deployments(self) -> pd.DataFrame:
        """One row per step and deployment; columns in `_suite_frames.DEPLOYMENT_COLUMNS`."""
        from rewind_nb import _suite_frames

        return _suite_frames.deployments_df(self)

    def table(self) -> tuple[list[str], list[list[str]]]:
        """A row per step."""
        head = [
            "step",
            "reached",
            "outputs",
            "the same",
            "interval",
            "as recorded",
            "varies",
            "fields that move",
        ]
        return head, [row(spread) for spread in self.steps]

    def question(self) -> str:
        """Such as ``20 executions of r_1 from 0 'plan' on``."""
        asked = f"{plural(self.k, 'execution')} of {self._row.run_id} from {self.asked['step']} on"
        against = self.asked["against"]
        if against is None:
            return asked
        again = f", executed {plural(self.k, 'time')} too" if against["again"] else ""
        return f"{asked}, against {', '.join(against['runs'])}{again}"

    def answer(self) -> str:
        """Which step varies first, which vary at all, and how another run compares."""
        if not self.ended:
            return ""
        return displayed("; ".join([self._steps_in_words(), *self._ends_in_words()]))

    def _steps_in_words(self) -> str:
        n = len(self.ended)
        first = self.first_unstable
        if first is None:
            low = wilson(n, n)[0]
            return f"every step did the same in all {n} (a share of at least {low:.2f})"
        share = first.share
        head = (
            f"{first.label} is the first that varies: {share.count} of {share.reached} the same "
            f"({share.low:.2f} to {share.high:.2f})"
        )
        missed = n - share.reached
        told = [f"{head}, and {missed} did not take it" if missed else head]
        unsteady = [spread for spread in self.steps if not spread.steady]
        told.append(f"{len(unsteady)} of {plural(len(self.steps), 'step')} vary")
        itself = [s.address for s in unsteady if s.varies == "itself"]
        if itself:
            more = f" and {len(itself) - NAMED} more" if len(itself) > NAMED else ""
            told.append(f"on the same inputs: {', '.join(itself[:NAMED])}{more}")
        if len(self.groups) > 1 and all(self._steady_within(g) for g in self.groups.values()):
            told.append("within each system_fingerprint every step did the same")
        return "; ".join(told)

    def _steady_within(self, draws: Sequence[Draw]) -> bool:
        hashes = [{p: s.hash for p, s in draw.steps.items()} for draw in draws]
        return all(one == hashes[0] for one in hashes)

    def _ends_in_words(self) -> Iterator[str]:
        if other := len(self.other_paths):
            yield f"{other} took another path than the recorded run"
        if failed := len(self.failed):
            yield f"{failed} failed"
        if refused := sum(draw.run is None and draw.error is not None for draw in self.draws):
            yield f"{refused} refused"
        if self.asked["check"] is not None and self.verdicts:
            judged = sum(said in ("pass", "fail") for said in self.verdicts.values())
            low, high = wilson(self.passes, judged)
            yield f"{self.passes} of {judged} judged pass ({low:.2f} to {high:.2f})"
        if self.noise is not None:
            yield self.noise.words


def key_of(which: Literal["own", "against"], n: int) -> str:
    """What an execution is called in the experiment."""
    return f"{which}/{n}"


def _place(step: Step) -> Place:
    return step.path, step.action, step.visit


def _from(run: Run, seq: int) -> Iterator[Step]:
    """The steps of a run from a position on that did something, those of tasks too."""
    for step in run.walk():
        if step.top.seq >= seq and step.hash is not None:
            yield step
