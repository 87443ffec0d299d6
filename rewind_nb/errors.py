"""Every error that rewind_nb raises, in one tree.

Each message states a fact, the reason, and the next action; where a name was
mistyped it lists the near misses. The facts are attributes as well, so that a
program need not parse the prose::

    RewindError
    ├── NotFoundError (LookupError)        no such run, step or experiment
    │   ├── RunNotFoundError
    │   ├── StepNotFoundError
    │   └── ExperimentNotFoundError
    ├── AmbiguousIdError (LookupError)     an id prefix that matches several runs
    ├── OverrideError (ValueError)         an override that the step cannot consume
    │   └── OverrideNotConsumedError       accepted, executed, and never consumed
    ├── NotEncodableError (TypeError)      a value that cannot be stored exactly
    ├── UnknownTypeError (TypeError)       a stored value whose class is not there
    ├── SecretLeakError (ValueError)       a registered secret inside a value to store
    ├── RunStateError                      the run's status forbids the operation
    │   ├── RunBusyError                   still running under a live owner
    │   └── NothingToResumeError           the run is complete
    ├── CodeChangedError                   action code differs from the recording
    ├── ReplayError
    │   ├── CacheMissError (LookupError)   a replay asked for an unrecorded call
    │   │   └── ReplayConnectionError (ConnectionError)   or tried to connect anywhere
    │   └── ReplayDivergedError            a replay that was not identical
    ├── EffectError                        a tool that acts on the world was not fired
    │   ├── EffectRefusedError             by a fork that may not
    │   └── EffectUnknownError             again, where it may have taken effect already
    ├── StepLimitError                     a fork that did not end
    ├── CheckSyntaxError (ValueError)      a check that cannot be read
    ├── ExperimentError (ValueError)       an experiment that cannot answer what it is asked
    ├── StepFailure                        a step whose model output is unusable
    │   └── ProviderError
    │       ├── ProviderUnreachableError   no answer: connection refused, reset, DNS
    │       ├── ProviderTimeoutError       the wall-clock deadline of a call passed
    │       ├── ProviderStatusError        an HTTP error status
    │       └── ProviderMalformedError     an answer that is not a chat completion
    ├── StoreError
    │   ├── StoreNotFoundError (LookupError)   no file where there should be one
    │   ├── StoreMovedError                deleted, moved or replaced while it was open
    │   ├── StoreClosedError               used after close()
    │   ├── StoreFormatError               not a rewind_nb store, or damaged header
    │   ├── StoreVersionError              written by a newer rewind_nb
    │   ├── StoreReadOnlyError             the file or folder cannot be written
    │   ├── StoreFullError                 no space left
    │   └── StoreCorruptError              a row does not match its hash
    └── ConfigError (ValueError)           a setting or argument that cannot work

`RunStoppedError` is no error of the tree and no `Exception`: it ends what still works for a
run that was stopped, and user code is not to swallow it.

An exception raised by an action is never wrapped: it passes through unchanged,
with a note naming the run and the step.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from rewind_nb._redact import redact
from rewind_nb._visible import visible_lines

__all__ = [
    "AmbiguousIdError",
    "CacheMissError",
    "CheckSyntaxError",
    "CodeChangedError",
    "ConfigError",
    "EffectError",
    "EffectRefusedError",
    "EffectUnknownError",
    "ExperimentError",
    "ExperimentNotFoundError",
    "NotEncodableError",
    "NotFoundError",
    "NothingToResumeError",
    "OverrideError",
    "OverrideNotConsumedError",
    "ProviderError",
    "ProviderMalformedError",
    "ProviderStatusError",
    "ProviderTimeoutError",
    "ProviderUnreachableError",
    "ReplayConnectionError",
    "ReplayDivergedError",
    "ReplayError",
    "RewindError",
    "RunBusyError",
    "RunNotFoundError",
    "RunStateError",
    "SecretLeakError",
    "StepFailure",
    "StepLimitError",
    "StepNotFoundError",
    "StoreClosedError",
    "StoreCorruptError",
    "StoreError",
    "StoreFormatError",
    "StoreFullError",
    "StoreMovedError",
    "StoreNotFoundError",
    "StoreReadOnlyError",
    "StoreVersionError",
    "UnknownTypeError",
]


class RewindError(Exception):
    """The base of every error of this package.

    Keyword arguments become attributes: the facts behind the message. No registered secret is
    in either, whatever an error quotes: a key may have been passed where a name belongs.

    Example:
        >>> try:
        ...     raise RunNotFoundError("no run 'r_9'. ...", run_id="r_9")
        ... except RewindError as error:
        ...     error.run_id
        'r_9'
    """

    def __init__(self, message: str, /, **facts: Any) -> None:
        super().__init__(visible_lines(redact(message)))
        self.facts = {name: _scrubbed(value) for name, value in facts.items()}
        for name, value in self.facts.items():
            setattr(self, name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), str(self), self.facts))


def _scrubbed(fact: Any) -> Any:
    """A fact without secrets; what is no plain data has a repr that shows none."""
    if isinstance(fact, str):
        return redact(fact)
    if type(fact) in (list, tuple):
        return type(fact)(map(_scrubbed, fact))
    if type(fact) is dict:
        return {_scrubbed(key): _scrubbed(value) for key, value in fact.items()}
    return fact


def _rebuild(cls: type[RewindError], message: str, facts: dict[str, Any]) -> RewindError:
    """Unpickle an error (keyword facts do not survive the default protocol)."""
    error = cls.__new__(cls)
    RewindError.__init__(error, message, **facts)
    return error


class NotFoundError(RewindError, LookupError):
    """Something that was asked for by name or id does not exist."""


class RunNotFoundError(NotFoundError):
    """No run has this id; the message lists the nearest ids."""


class StepNotFoundError(NotFoundError):
    """The run has no such step; the message lists the nearest names."""


class ExperimentNotFoundError(NotFoundError):
    """No experiment has this id; the message lists the nearest ids."""


class AmbiguousIdError(RewindError, LookupError):
    """An id prefix matches several runs; the message lists them."""


class OverrideError(RewindError, ValueError):
    """The step cannot consume this override; the message says what it could.

    Raised before anything executes.
    """


class OverrideNotConsumedError(OverrideError):
    """The fork executed and nothing consumed its override; the run is `failed`."""


class NotEncodableError(RewindError, TypeError):
    """A value that cannot be stored and restored exactly.

    Attributes:
        path: where it is, such as ``messages[3].image``.
        type_name: its type, such as ``PIL.Image.Image``.
    """


class UnknownTypeError(RewindError, TypeError):
    """A stored value's class is not imported here; the message names it."""


class SecretLeakError(RewindError, ValueError):
    """A registered secret was about to be stored as data. The secret is not quoted.

    Attributes:
        path: where it is, such as ``messages[3].content``; "" where a name holds it.
    """


class RunStateError(RewindError):
    """The status of the run forbids what was asked."""


class RunBusyError(RunStateError):
    """The run is still running under a live process."""


class NothingToResumeError(RunStateError):
    """The run is complete: no action is left to execute."""


class CodeChangedError(RewindError):
    """Actions changed their code since the recording; the message names them and what changed.

    Attributes:
        actions: their names.
        changes: for each, which of its functions, classes and globals changed, in words; ""
            where the recording does not say.
    """


class ReplayError(RewindError):
    """A replay could not reproduce its recording."""


class CacheMissError(ReplayError, LookupError):
    """A replay met a call that was not recorded; no byte left the machine.

    Attributes:
        nearest: the most similar recorded request of the step, or None.
        asked: the request that was made.
        differing: paths of the fields that differ from it.
    """


class ReplayConnectionError(CacheMissError, ConnectionError):
    """A step of a replay tried to open a connection that is not captured.

    Also a ConnectionError, so that libraries clean up as they do when refused.
    """


class ReplayDivergedError(ReplayError):
    """`Proof.require()` on a replay that was not identical.

    Attributes:
        proof: the `Proof`.
    """


class EffectError(RewindError):
    """A tool that acts on the world was not fired.

    Attributes:
        tool: its name.
    """


class EffectRefusedError(EffectError):
    """A fork came to an effect that its parent did not have with these arguments.

    Attributes:
        differing: the arguments that are not the recorded ones.
    """


class EffectUnknownError(EffectError):
    """An interrupted attempt started the effect, and left no result: it may have happened."""


class StepLimitError(RewindError):
    """A fork executed more than ``max_steps`` steps and was stopped."""


class CheckSyntaxError(RewindError, ValueError):
    """The expression of a check cannot be read; the message points at where.

    Attributes:
        expression: the whole of it.
        position: the 0-based character where reading stopped.
        expected: what could stand there.
    """


class ExperimentError(RewindError, ValueError):
    """An experiment cannot answer what it is asked; the message says which one can."""


class StepFailure(RewindError):
    """A step cannot use what it was given; the raw output is attached.

    Args:
        step: the action that failed.
        message: the fact, in one sentence.
        raw: the output that could not be used, unchanged.

    Example:
        >>> raise StepFailure("plan", "the model returned no JSON", raw="Sure! ...")
        Traceback (most recent call last):
            ...
        rewind_nb.errors.StepFailure: plan: the model returned no JSON
    """

    def __init__(self, step: str, message: str, raw: str | None = None, **facts: Any) -> None:
        super().__init__(f"{step}: {message}", step=step, message=message, raw=raw, **facts)


class ProviderError(StepFailure):
    """The model provider did not give a usable answer."""


class ProviderUnreachableError(ProviderError):
    """No answer at all: connection refused or reset, name not found (attribute `url`)."""


class ProviderTimeoutError(ProviderError):
    """The call's wall-clock deadline passed."""


class ProviderStatusError(ProviderError):
    """The provider answered with an HTTP error status (attribute `status_code`)."""


class ProviderMalformedError(ProviderError):
    """The provider's answer is not a well-formed chat completion."""


class StoreError(RewindError):
    """The store cannot be used as asked."""


class StoreNotFoundError(StoreError, LookupError):
    """A store that is to be read is not there; only what is recorded creates one."""


class StoreMovedError(StoreError):
    """The store's file was deleted, moved or replaced while it was open.

    What was committed is in the file that was there, wherever that is now.
    """


class StoreClosedError(StoreError):
    """The store was closed. One in memory is gone; a file can still be read."""


class StoreFormatError(StoreError):
    """The file is not a rewind_nb store."""


class StoreVersionError(StoreError):
    """The store was written by a newer rewind_nb (attributes `found`, `supported`)."""


class StoreReadOnlyError(StoreError):
    """The store's file or folder cannot be written."""


class StoreFullError(StoreError):
    """There is no space left for the store; what was committed is kept."""


class StoreCorruptError(StoreError):
    """A stored row does not match its hash."""


class RunStoppedError(BaseException):
    """The run was stopped; what a worker of it still does is dropped."""


class ConfigError(RewindError, ValueError):
    """A setting or an argument that cannot work."""


def did_you_mean(name: str, known: Iterable[str], *, limit: int = 5) -> str:
    """One clause that lists near misses, or everything where the list is short.

    Example:
        >>> did_you_mean("critic", ["plan", "critique", "compose"])
        "Did you mean 'critique'?"
        >>> did_you_mean("zzz", ["plan", "compose"])
        "Known: 'plan', 'compose'."
    """
    names = list(dict.fromkeys(known))
    near = difflib.get_close_matches(name, names, n=limit, cutoff=0.6)
    if near:
        return f"Did you mean {' or '.join(repr(n) for n in near)}?"
    if not names:
        return "There is none."
    shown = ", ".join(repr(n) for n in names[:12])
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return f"Known: {shown}{more}."
