"""Making a sweep: a grid of one axis whose values have an order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from numbers import Real
from typing import Any

from rewind_nb._bound import Bound
from rewind_nb._budget import Budget
from rewind_nb._model import CacheMode, Reuse
from rewind_nb._run import At, Run
from rewind_nb.errors import ConfigError
from rewind_nb.experiments._axes import RECORDED, axes_of
from rewind_nb.experiments._grids import GridJob
from rewind_nb.experiments._jobs import Prepared, prepared
from rewind_nb.experiments._recorded import recorded_value
from rewind_nb.experiments._sweep import Sweep
from rewind_nb.experiments._verbs import Verbs, arguments, sorted_out, twin_of

DEFAULTS = {"samples": 1, "outcome": None, "check": None, "reuse": "unchanged", "cache": None}


class SweepJob(GridJob):
    """A sweep that is asked for, and checked."""

    @classmethod
    def of(
        cls, rw: Bound, run: Run, at: At, over: Mapping[str, Sequence[Any]], **more: Any
    ) -> GridJob:
        """Check what is asked.

        Raises:
            ConfigError: there are several axes, or an argument cannot work.
            OverrideError: no value can be consumed by the step.
        """
        axes = axes_of(over)
        if len(axes) != 1:
            names = ", ".join(repr(axis.name) for axis in axes)
            raise ConfigError(
                f"A sweep goes along one axis, and over= has {len(axes)}: {names}. Leave one, or "
                "use rw.grid for their product."
            )
        axis = axes[0]
        values = in_order(axis.values, recorded_value(run, run[at], axis))
        return super().of(rw, run, at, {axis.name: values}, **more)


def in_order(values: Sequence[Any], recorded: Any) -> list[Any]:
    """Numbers in ascending order; of anything else the order that it was given in.

    Example:
        >>> in_order([3, 0.5, ...], 2), in_order(["high", "low"], None)
        ([0.5, Ellipsis, 3], ['high', 'low'])
    """
    known = [recorded if value is RECORDED else value for value in values]
    ordered = all(isinstance(v, Real) and not isinstance(v, bool) for v in known)
    if not ordered or any(math.isnan(value) for value in known):
        return list(values)
    return [values[i] for i in sorted(range(len(known)), key=lambda i: known[i])]


class Sweeps(Verbs):
    """A Rewind that makes sweeps."""

    def sweep(
        self,
        run: Run | str,
        at: At,
        over: Mapping[str, Sequence[Any]],
        *,
        check: Any = None,
        outcome: Any = None,
        samples: int = 1,
        budget: Budget | None = None,
        max_workers: int | None = None,
        executor: Executor | None = None,
        reuse: Reuse = "unchanged",
        cache: CacheMode | None = None,
        halt_after: list[str] | None = None,
        halt_before: list[str] | None = None,
        max_steps: int | None = None,
        effects: Any = None,
        allow_code_change: bool = False,
        label: str | None = None,
        progress: bool | None = None,
        start: bool = True,
    ) -> Sweep:
        """Fork a run once for each of some ordered values, and say where the verdict flips.

        It makes one fork per value and sample, side by side, and says exactly one of: between
        which neighbouring values it flips, that it never does, that it does more than once.
        What lies between two neighbours is not known; ``rw.flip`` finds the exact value.

        A value's verdict is that of most of its samples, a tie being a fail. A run that
        failed or was refused has no verdict and counts as none. Samples that drew nothing of
        their own, as where the value is the recorded one, are one draw and counted once;
        ``reuse="none", cache="refresh"`` draws all of them.

        Args:
            run: the parent, which is the baseline.
            at: the step whose override it is.
            over: one axis and its values, as for `grid`: ``{"output.fare": [450, 1450]}``.
                Numbers are put into ascending order; other values keep theirs.
            check: what a run must pass: a `Check`, its text, or a function of the run. Without
                one it is the outcome that may flip.
            outcome: what to look at: a path into the final state, a list of them, or a function
                of the run. By default the whole final state.
            samples: runs per value.
            budget: the most it may spend (`Budget`).
            max_workers: how many run side by side; at most 32 by default.
            executor: any executor of `concurrent.futures` instead of threads.
            reuse: as for `Rewind.fork`.
            cache: likewise.
            halt_after: likewise.
            halt_before: likewise.
            max_steps: likewise.
            effects: likewise.
            allow_code_change: likewise.
            label: a name to show.
            progress: whether to show how far it is; by default where somebody can see it.
            start: with False nothing executes yet: ``rw.plan(sweep)`` says what it will come
                to, and ``rw.resume(sweep)`` starts it.

        Returns:
            The sweep.

        Raises:
            ConfigError: there is not one axis, or an argument cannot work.
            OverrideError: the step can consume none of the values.
            StepNotFoundError: there is no such step.
            KeyboardInterrupt: it was stopped; a note says how to go on.

        Example:
            >>> sweep = rw.sweep(run, "search", {"output.fare": [450.0, 1000.0, 1450.0]},
            ...                  check="@visits.book == 0")  # doctest: +SKIP
            >>> sweep.flips, sweep.df[["value", "verdict"]]  # doctest: +SKIP
        """
        return self._begin(self._sweep_job(**arguments(locals())))

    @twin_of(sweep)
    async def asweep(
        self, run: Run | str, at: At, over: Mapping[str, Sequence[Any]], **given: Any
    ) -> Any:
        """`sweep` for async applications; the same arguments."""
        return await self._abegin(self._sweep_job(run=run, at=at, over=over, **given))

    def _sweep_job(
        self, run: Run | str, at: At, over: Mapping[str, Sequence[Any]], **more: Any
    ) -> Prepared[Sweep]:
        parent = self._at_rest(run)
        ways, asked = sorted_out(more)
        job = SweepJob.of(self, parent, at, over, **(DEFAULTS | asked))
        return prepared(self, Sweep, job, parent, ways)
