"""Making a sweep: a grid of one axis whose values have an order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Real
from typing import Any

from rewind_nb._bound import Bound
from rewind_nb._budget import Budget
from rewind_nb._model import CacheMode, Reuse
from rewind_nb._run import At, Run
from rewind_nb.errors import ConfigError
from rewind_nb.experiments._axes import RECORDED, Axis, axes_of
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
            ConfigError: there are several axes, one has NaN, or an argument cannot work.
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
        values = in_order(axis, recorded_value(run, run[at], axis))
        return super().of(rw, run, at, {axis.name: values}, **more)


def in_order(axis: Axis, recorded: Any) -> list[Any]:
    """Its numbers in ascending order; of anything else the order that it was given in.

    Numbers of any type are ordered by what they amount to; equal ones stay as given.

    Raises:
        ConfigError: one of its numbers is none.

    Example:
        >>> from decimal import Decimal
        >>> from rewind_nb.experiments._axes import axis_of
        >>> in_order(axis_of("output.fare", [3, Decimal("0.5"), ...]), 2)
        [Decimal('0.5'), Ellipsis, 3]
        >>> in_order(axis_of("prompt", ["high", "low"]), None)
        ['high', 'low']
    """
    known = [recorded if value is RECORDED else value for value in axis.values]
    if not all(map(_is_number, known)):
        return list(axis.values)
    for position, value in enumerate(known):
        if _is_nan(value):
            which = "what was recorded (...), " if axis.values[position] is RECORDED else ""
            raise ConfigError(
                f"The axis {axis.name!r} has {which}{value!r} at position {position}, which is "
                "neither below nor above another number, so a sweep cannot put it in order. Leave "
                "it out, or try it with rw.fork or rw.grid."
            )
    return [axis.values[i] for i in sorted(range(len(known)), key=lambda i: _amount(known[i]))]


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | Decimal) and not isinstance(value, bool)


def _is_nan(value: Any) -> bool:
    if isinstance(value, Decimal):
        return value.is_nan()  # a signaling one cannot even be compared
    return bool(value != value)  # noqa: PLR0124  (whatever its type)


def _amount(value: Any) -> tuple[int, Fraction | int]:
    """What numbers of any type are ordered by: exact, for not all of them compare with all."""
    if isinstance(value, Integral):  # those of numpy have no ratio
        return 0, int(value)
    if value in (math.inf, -math.inf):
        return (1 if value > 0 else -1), 0
    return 0, Fraction(*value.as_integer_ratio())


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
                Numbers of any type are put into ascending order, NaN is refused; where some
                values are no numbers, all keep the order given.
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
            ConfigError: there is not one axis, a number is NaN, or an argument cannot work.
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
