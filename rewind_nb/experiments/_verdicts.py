"""What a run is judged by: the outcome that is looked at, and the check it must pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rewind_nb import _codec, _path
from rewind_nb._check import Check, Verdict
from rewind_nb._describe import error_line, short
from rewind_nb._run import Run
from rewind_nb.errors import CheckSyntaxError, ConfigError

MISSING = _path.MISSING
RESERVED = (  # names of the other columns of the frames that have outcomes
    "cell", "baseline", "sample", "outcome_changed", "verdict", "reason", "divergence", "executed",
    "reused", "live_calls", "played_calls", "tokens", "usd", "status", "error", "run_id", "label",
    "value", "samples", "judged", "passes", "fails", "errors", "repeats", "pass_rate", "low",
    "high", "tied", "run_ids",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is looked at of each run: fields of its final state, or what a callable makes of it.

    Attributes:
        columns: their names.
        paths: None for a callable.
    """

    columns: tuple[str, ...]
    paths: tuple[str, ...] | None = ()
    function: Callable[[Run], Any] | None = None

    def beside(self, taken: Iterable[str]) -> Outcome:
        """The same with columns that do not have the name of another one."""
        taken = set(taken)
        prefix = "outcome" if self.paths is None else "state"
        names = (f"{prefix}.{name}" if name in taken else name for name in self.columns)
        return replace(self, columns=tuple(names))

    @classmethod
    def of(cls, given: Any) -> Outcome:
        """From a path, a list of paths, a callable, or None for nothing.

        Raises:
            ConfigError: it is something else, or no path.
        """
        if given is None:
            return cls(())
        if isinstance(given, str):
            given = [given]
        if callable(given):
            return cls((getattr(given, "__name__", "outcome"),), None, given).beside(RESERVED)
        if not isinstance(given, list | tuple) or not all(isinstance(p, str) for p in given):
            raise ConfigError(
                "outcome= takes a path into the state such as 'report.verdict', a list of them, "
                f"or a function of the run; it got {short(given)}."
            )
        for path in given:
            _path.parse(path)
        paths = tuple(dict.fromkeys(given))
        return cls(paths, paths).beside(RESERVED)

    def to_dict(self) -> dict[str, Any]:
        """As it is stored."""
        paths = None if self.paths is None else list(self.paths)
        return {"columns": list(self.columns), "paths": paths}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> Outcome:
        """From what is stored; a callable does not come back."""
        paths = stored["paths"]
        return cls(tuple(stored["columns"]), None if paths is None else tuple(paths))

    @property
    def lost(self) -> bool:
        """Whether it was a callable, and is gone."""
        return self.paths is None and self.function is None

    def seen(self, run: Run) -> dict[str, Any]:
        """What it is for one run: values by column, `MISSING` where there is none."""
        if self.function is not None:
            value = self.function(run)
            _codec.encode(value, path="outcome()")
            return {self.columns[0]: value}
        if not self.paths:
            return {}
        state = run.state
        return {
            column: _path.get(state, path)
            for column, path in zip(self.columns, self.paths, strict=True)
        }


@dataclass(frozen=True, slots=True)
class Judged:
    """What one run came to.

    Attributes:
        outcome: values by column; `MISSING` where there is none.
        digest: of them, to compare with another run's; of the final state where none is looked at.
        error: what the outcome's callable raised.
    """

    outcome: Mapping[str, Any]
    digest: str | None
    verdict: Verdict | None = None
    error: str | None = None


def judge(run: Run, outcome: Outcome, check: Check | None) -> Judged:
    """Look at one run."""
    error, seen, digest = None, {}, None
    try:
        seen = outcome.seen(run)
        digest = digest_of(seen) if outcome.columns else run.state_hash
    except Exception as raised:  # noqa: BLE001  (a user's function may raise anything)
        error = f"outcome: {error_line(raised)}"
    return Judged(seen, digest, None if check is None else check(run), error)


def reads_back(check: Check | None) -> bool:
    """Whether its text is all of it: a callable in it does not come back from a store."""
    try:
        return check is None or bool(Check(check.text))
    except CheckSyntaxError:
        return False


def digest_of(seen: Mapping[str, Any]) -> str:
    """A hash over outcome values."""
    there = [[k, v is not MISSING, None if v is MISSING else v] for k, v in seen.items()]
    return _codec.digest(_codec.encode(there))
