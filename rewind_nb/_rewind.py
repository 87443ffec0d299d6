"""`Rewind`: the only object that executes. A Burr application bound to a Store.

Each verb prepares an `Execution` (a session, a machine and the script that says what to do
next), then drives it, sync or async; the twins share everything but the driver.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from rewind_nb import _codec
from rewind_nb._burr import read_app
from rewind_nb._compare import Diff, compare
from rewind_nb._drive import Ended, wait_for
from rewind_nb._execution import Env, Execution, driven_by_user, new_run
from rewind_nb._forks import new_fork
from rewind_nb._hooks import Hook
from rewind_nb._model import CACHE_MODES, CacheMode
from rewind_nb._plan import KINDS, UNSET, single
from rewind_nb._proof import Proof, Tally, proof_of
from rewind_nb._replay import new_replay
from rewind_nb._resume import resumed
from rewind_nb._run import At, Run
from rewind_nb._store import Store
from rewind_nb._trajectory import Placed
from rewind_nb.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from burr.core import Application

P = ParamSpec("P")
SHOWN = 8  # actions in a repr


def _twin_of(
    _sync: Callable[Concatenate[Rewind, P], Run],
) -> Callable[[Callable[..., Any]], Callable[Concatenate[Rewind, P], Coroutine[Any, Any, Run]]]:
    """Give an async method the signature of its sync twin."""

    def typed(method: Callable[..., Any]) -> Any:
        method.__signature__ = inspect.signature(_sync)  # type: ignore[attr-defined]
        return method

    return typed


class Rewind:
    """Records, forks and replays a Burr application; the application is not changed.

    Args:
        app: a built Burr application, or a function without arguments that builds one
            (needed where actions keep data on ``self`` and forks run in parallel).
        store: a `Store`, a path, or None to find one like git does.
        cache: ``auto`` plays back what is recorded and asks for the rest, ``refresh`` asks
            anew and records, ``replay`` refuses what is not recorded, ``off`` neither
            plays back nor offers.
        hooks: callables that are told of every run, step and call (`Event`).
        cache_key: takes the canonical request of a call and returns what identifies it, to
            drop or normalise volatile fields. What it dropped stays stored.
        always_run: actions that are never reused in a fork.
        types: dataclasses, pydantic models and enums that stored values may be restored to.

    Raises:
        ConfigError: *app* is not an application, or an argument cannot work.
        NotEncodableError: its state holds a value that cannot be stored exactly.

    Example:
        >>> rw = Rewind(app, store=":memory:")  # doctest: +SKIP
        >>> run = rw.run(halt_after=["publish"], inputs={"question": "..."})  # doctest: +SKIP
        >>> what = rw.fork(run, at="analyse", patch={"analysis.total": 5})  # doctest: +SKIP
    """

    def __init__(
        self,
        app: Any,
        store: Store | str | os.PathLike[str] | None = None,
        cache: CacheMode = "auto",
        hooks: Sequence[Hook] = (),
        cache_key: Callable[[dict[str, Any]], Any] | None = None,
        always_run: Sequence[str] = (),
        types: Iterable[type] = (),
    ) -> None:
        _codec.know(*types)
        self._app = app
        self._spec = read_app(app)
        self.store = store if isinstance(store, Store) else Store(store)
        self.cache = check_cache(cache)
        self.cache_key = cache_key
        self.always_run = tuple(always_run)
        for name in self.always_run:
            if name not in self._spec.action_names:
                raise ConfigError(
                    f"always_run names {name!r}, which is no action of the application. "
                    f"{did_you_mean(name, self._spec.action_names)}"
                )
        self._hooks: list[Hook] = list(hooks)
        self._last_run: str | None = None

    # -- record -----------------------------------------------------------------------------

    def run(
        self,
        halt_after: list[str] | None = None,
        halt_before: list[str] | None = None,
        inputs: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        cache: CacheMode | None = None,
        label: str | None = None,
    ) -> Run:
        """Run the application from its own state and record every step.

        Args:
            halt_after: actions (or ``@tag:name``) to stop after, as in Burr.
            halt_before: actions to stop before; the first action always executes.
            inputs: runtime inputs, given to every action that declares them.
            state: state fields to start with instead of the application's.
            cache: instead of the Rewind's own mode.
            label: a name to show.

        Returns:
            The run: complete where no action was left, else halted.

        Raises:
            NotEncodableError: a value of the state, inputs or result cannot be stored.
            Exception: whatever an action raises, unchanged; the run is `failed` and is
                `Rewind.last_run`.
        """
        return self._go(self._new_run(halt_after, halt_before, inputs, state, cache, label), "arun")

    async def arun(
        self,
        halt_after: list[str] | None = None,
        halt_before: list[str] | None = None,
        inputs: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        cache: CacheMode | None = None,
        label: str | None = None,
    ) -> Run:
        """`run` for async applications, awaited in the caller's loop."""
        return await self._ago(self._new_run(halt_after, halt_before, inputs, state, cache, label))

    def _new_run(
        self,
        halt_after: list[str] | None,
        halt_before: list[str] | None,
        inputs: Mapping[str, Any] | None,
        state: Mapping[str, Any] | None,
        cache: CacheMode | None,
        label: str | None,
    ) -> Execution:
        return new_run(
            self._env(cache),
            inputs=dict(inputs or {}),
            halt_after=halt_after or [],
            halt_before=halt_before or [],
            state=state or {},
            label=label,
        )

    def application(self, label: str | None = None) -> Application:
        """A recorded Burr application to drive yourself: iterate it, serve it, step it.

        Its ``uid`` is the run id. Each step is recorded when it executes; between steps the
        run is `halted` (or `complete`).
        """
        machine = driven_by_user(self._env(None), label)
        self._last_run = machine.session.run.id
        return machine.app

    def resume(
        self,
        run: Run | str,
        inputs: Mapping[str, Any] | None = None,
        halt_after: list[str] | None = None,
        halt_before: list[str] | None = None,
    ) -> Run:
        """Go on with a run that halted, failed or was interrupted; no finished step runs again.

        An interrupted step plays back the answers it had; a failed one asks again.

        Raises:
            NothingToResumeError: the run is complete.
            RunBusyError: it is still running.
        """
        return self._go(self._resumed(run, inputs, halt_after, halt_before), "aresume")

    async def aresume(
        self,
        run: Run | str,
        inputs: Mapping[str, Any] | None = None,
        halt_after: list[str] | None = None,
        halt_before: list[str] | None = None,
    ) -> Run:
        """`resume` for async applications."""
        return await self._ago(self._resumed(run, inputs, halt_after, halt_before))

    def _resumed(
        self,
        run: Run | str,
        inputs: Mapping[str, Any] | None,
        halt_after: list[str] | None,
        halt_before: list[str] | None,
    ) -> Execution:
        return resumed(
            self._env(None),
            self._found(run),
            inputs=dict(inputs or {}),
            halt_after=halt_after or [],
            halt_before=halt_before or [],
        )

    # -- fork -------------------------------------------------------------------------------

    def fork(
        self,
        run: Run | str,
        at: At,
        *,
        output: Any = UNSET,
        patch: Any = UNSET,
        state: Any = UNSET,
        inputs: Any = UNSET,
        prompt: Any = UNSET,
        messages: Any = UNSET,
        model: Any = UNSET,
        temperature: Any = UNSET,
        params: Any = UNSET,
        response: Any = UNSET,
        tool_args: Any = UNSET,
        tool_result: Any = UNSET,
        call: int = 0,
        reuse: str = "none",
        cache: CacheMode | None = None,
        halt_after: list[str] | None = None,
        halt_before: list[str] | None = None,
        label: str | None = None,
        sample: int = 0,
        max_steps: int | None = None,
        allow_code_change: bool = False,
    ) -> Run:
        """A new run that shares the steps before *at*, with at most one thing changed.

        Exactly one override, or none for the unchanged fork. Each may be a callable that is
        given the recorded value.

        Args:
            run: the parent; it never changes.
            at: the first step affected: ``"action"`` (its last visit), ``("action", visit)``,
                a seq, or a Step.
            output: dict of state writes that replace the step's; it is not executed.
            patch: RFC 6902 on the step's recorded writes, or ``{"report.total": 5}``.
            state: dict of state fields as they enter the step, which must read them.
            inputs: dict of the step's runtime inputs.
            prompt: text of the last user message of model call number *call*.
            messages: the message list of that call.
            model: the model asked in that call.
            temperature: of that call.
            params: dict merged into that call's request body; None removes a field.
            response: the answer to that call: its text, or a whole response body.
            tool_args: dict of arguments of tool call number *call*.
            tool_result: the result of that tool call.
            call: which call, from 0, in branch order.
            reuse: ``"none"``: every step from *at* on executes, its calls played back where
                nothing about them changed.
            cache: instead of the Rewind's own mode.
            halt_after: instead of the parent's last halt conditions.
            halt_before: likewise.
            label: a name to show.
            sample: which draw of a changed call is wanted.
            max_steps: stop a fork that no longer ends (default 4 x the parent's + 100).
            allow_code_change: fork although action code changed since the recording.

        Returns:
            The fork.

        Raises:
            OverrideError: the step cannot consume the override, or there are two.
            OverrideNotConsumedError: it executed and did not use it.
            StepNotFoundError: the run has no such step.
            RunBusyError: the parent is still running.
            CodeChangedError: action code changed since the recording.
            StepLimitError: more than *max_steps* steps executed.
        """
        execution = self._new_fork(**_arguments(locals()))
        return self._go(execution, "afork")

    @_twin_of(fork)
    async def afork(self, run: Run | str, at: At, **given: Any) -> Run:
        """`fork` for async applications; the same arguments."""
        return await self._ago(self._new_fork(run=run, at=at, **given))

    def _new_fork(
        self,
        run: Run | str,
        at: At,
        *,
        call: int = 0,
        reuse: str = "none",
        cache: CacheMode | None = None,
        **given: Any,
    ) -> Execution:
        settings = {k: given.pop(k) for k in _FORK_SETTINGS if k in given}
        for name in given:
            if name not in KINDS:
                raise TypeError(
                    f"fork() got an unexpected keyword argument {name!r}. "
                    f"{did_you_mean(name, [*KINDS, *_FORK_SETTINGS])}"
                )
        if reuse != "none":
            raise ConfigError(
                f"reuse={reuse!r}: this version re-executes every step from `at` on "
                '(reuse="none"), with unchanged calls played back.'
            )
        override = single(given, call)
        return new_fork(
            self._env(cache), self._found(run), at, override, call=call, reuse=reuse, **settings
        )

    # -- replay and diff --------------------------------------------------------------------

    def replay(self, run: Run | str, start: At | None = None) -> Proof:
        """Execute a run again on its recorded calls only, and prove that nothing differs.

        No live call is possible: a request that was not recorded is refused, and so is
        every connection made in the context of a step.

        Args:
            run: any run that is not running; a fork is replayed from its root.
            start: the first step to replay, on its recorded state; the run's first if None.

        Returns:
            A `Proof`; ``proof.require()`` raises where it is not ok.
        """
        execution, tally, expected = new_replay(self._env(None), self._found(run), start)
        ended = self._drive(execution, "areplay")
        return self._proof(run, execution, ended, tally, expected)

    async def areplay(self, run: Run | str, start: At | None = None) -> Proof:
        """`replay` for async applications."""
        execution, tally, expected = new_replay(self._env(None), self._found(run), start)
        self._last_run = execution.session.run.id
        ended = await execution.ago()
        return self._proof(run, execution, ended, tally, expected)

    def _proof(
        self,
        run: Run | str,
        execution: Execution,
        ended: Ended,
        tally: Tally,
        expected: list[Placed],
    ) -> Proof:
        if ended.error is not None:
            raise ended.error
        code = execution.machine.spec.code
        return proof_of(self.store, code, execution.session, tally, expected, self._found(run))

    def diff(self, a: Run | str, b: Run | str) -> Diff:
        """Compare two runs, aligned by (action, visit), field by field.

        They may be parent and fork, siblings or strangers, failed ones included.
        """
        return compare(self._found(a), self._found(b))

    # -- the rest ---------------------------------------------------------------------------

    @property
    def last_run(self) -> Run | None:
        """The run that started last, also after it raised."""
        return None if self._last_run is None else self.store.run(self._last_run)

    def on(self, hook: Hook) -> Callable[[], None]:
        """Add a hook; the function returned takes it away again."""
        self._hooks.append(hook)

        def unsubscribe() -> None:
            if hook in self._hooks:
                self._hooks.remove(hook)

        return unsubscribe

    def _env(self, cache: CacheMode | None) -> Env:
        if callable(self._app):  # built anew: actions may keep data on `self`
            self._spec = read_app(self._app)
        else:  # a helper may have been edited in the notebook meanwhile
            self._spec = self._spec.with_current_code()
        mode = self.cache if cache is None else check_cache(cache)
        return Env(self._spec, self.store, tuple(self._hooks), mode, self.cache_key)

    def _found(self, run: Run | str) -> Run:
        if isinstance(run, Run):
            if run.store is not self.store:
                return self.store.run(run.id)
            return run.refresh()
        return self.store.run(run)

    def _drive(self, execution: Execution, twin: str) -> Ended:
        self._last_run = execution.session.run.id
        if not execution.machine.spec.is_async:
            return execution.go()
        ended = wait_for(execution.ago)
        if isinstance(ended.error, RuntimeError) and "loop" in str(ended.error):
            ended.error.add_note(
                "The application ran in an event loop of its own, and uses an object of another "
                f"one. Use `await rw.{twin}(...)` to run it in the caller's loop."
            )
        return ended

    def _go(self, execution: Execution, twin: str) -> Run:
        return self._ended(execution, self._drive(execution, twin))

    async def _ago(self, execution: Execution) -> Run:
        self._last_run = execution.session.run.id
        return self._ended(execution, await execution.ago())

    def _ended(self, execution: Execution, ended: Ended) -> Run:
        if ended.error is not None:
            raise ended.error
        return self.store.run(execution.session.run.id)

    def __repr__(self) -> str:
        names = self._spec.action_names
        shown = ", ".join(names if len(names) <= SHOWN else [*names[: SHOWN - 1], "..."])
        return f"<Rewind of {len(names)} actions ({shown}), {self.store!r}>"


_FORK_SETTINGS = ("halt_after", "halt_before", "label", "sample", "max_steps", "allow_code_change")


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of a call, `self` and unset overrides apart."""
    return {k: v for k, v in given.items() if k != "self" and v is not UNSET}


def check_cache(mode: str) -> CacheMode:
    """The mode, if it is one.

    Raises:
        ConfigError: it is none.
    """
    if mode not in CACHE_MODES:
        raise ConfigError(
            f"cache={mode!r} is not a cache mode. Use one of {', '.join(CACHE_MODES)}."
        )
    return mode
