"""What the trials of an experiment are likely to come to, each checked as if it were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rewind_nb._bound import Bound
from rewind_nb._forks import check_fork
from rewind_nb._model import CacheMode, RunRow
from rewind_nb._recording import Recording
from rewind_nb._run import Run
from rewind_nb.errors import RewindError
from rewind_nb.experiments._estimate import NOTHING, Estimate, Expected, expected
from rewind_nb.experiments._trials import Trial

MAKES_OTHERS = ("halt_after", "halt_before", "allow_code_change")  # though nothing changed


def planned(
    rw: Bound,
    run: Run,
    cache: CacheMode | None,
    trials: Sequence[Trial],
    prior: Mapping[str, RunRow],
) -> Estimate:
    """What is left of trials that fork one run; one that would be refused comes to nothing.

    Args:
        prior: the runs of them that there are already, by key.
    """
    env, recording, total = rw._env(cache), Recording.of(run), NOTHING  # noqa: SLF001
    samples: dict[int, Expected | None] = {}  # those of one cell share their overrides
    for trial in trials:
        if (same := id(trial.given)) not in samples:
            given = dict(trial.settings)
            allowed = given.get("allow_code_change", False)
            plain = not any(given.get(name) for name in MAKES_OTHERS)
            try:
                fork = check_fork(
                    env, run, trial.at, trial.given, recording=recording, reuse=trial.reuse,
                    allow_code_change=allowed,
                )  # fmt: skip
            except RewindError:
                samples[same] = None
            else:
                samples[same] = expected(fork, plain=plain)
        one = samples[same]
        total += NOTHING if one is None else one.left(run.store, prior.get(trial.key))
    return total
