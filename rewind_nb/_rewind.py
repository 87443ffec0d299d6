"""`Rewind`: the only object that executes. A Burr application bound to a Store.

Each verb prepares an `Execution` (a session, a machine and the script that says what to do
next), then drives it, sync or async; the twins share everything but the driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from rewind_nb._arguments import check_names, check_own, check_settings, check_start
from rewind_nb._bound import check_mapping
from rewind_nb._budget import Budget
from rewind_nb._compare import Diff, compare
from rewind_nb._drive import Ended
from rewind_nb._execution import Execution, driven_by_user, new_run
from rewind_nb._forks import new_fork
from rewind_nb._model import REUSES, CacheMode, Reuse
from rewind_nb._plan import UNSET, single
from rewind_nb._proof import Proof
from rewind_nb._replay import Tally, new_replay, proof_of
from rewind_nb._reruns import Reruns
from rewind_nb._resume import resumed
from rewind_nb._run import At, Run
from rewind_nb._trajectory import Placed
from rewind_nb.errors import ConfigError
from rewind_nb.experiments._ablates import Ablates
from rewind_nb.experiments._bisects import Bisects
from rewind_nb.experiments._experiment import Experiment
from rewind_nb.experiments._flips import Flips
from rewind_nb.experiments._grids import Grids
from rewind_nb.experiments._regresses import Regresses
from rewind_nb.experiments._stabilities import Stabilities
from rewind_nb.experiments._sweeps import Sweeps
from rewind_nb.experiments._verbs import Retry, refuse_retry, twin_of

if TYPE_CHECKING:
    from burr.core import Application

    from rewind_nb.widgets import OverrideEditor, RunGraph

E = TypeVar("E", bound=Experiment)


class Rewind(Reruns, Grids, Sweeps, Flips, Bisects, Ablates, Regresses, Stabilities):
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
        http: which HTTP requests of a step are model calls, which are tools, which pass
            through uncaptured (`HttpPolicy`); by default each model provider's are known.

    Raises:
        ConfigError: *app* is not an application, or an argument cannot work.
        NotEncodableError: its state holds a value that cannot be stored exactly.

    Example:
        >>> rw = Rewind(app, store=":memory:")  # doctest: +SKIP
        >>> run = rw.run(halt_after=["publish"], inputs={"question": "..."})  # doctest: +SKIP
        >>> what = rw.fork(run, at="analyse", patch={"analysis.total": 5})  # doctest: +SKIP
    """

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
            inputs=check_mapping("inputs", inputs),
            halt_after=check_names("halt_after", halt_after) or [],
            halt_before=check_names("halt_before", halt_before) or [],
            state=check_mapping("state", state),
            label=label,
        )

    def watch(self, **layout: Any) -> RunGraph:
        """A widget that shows, live, what is executed from now on.

        Args:
            layout: traits of every ipywidgets widget.

        Example:
            >>> rw.watch()  # doctest: +SKIP
            >>> run = rw.run(halt_after=["publish"])  # doctest: +SKIP
        """
        from rewind_nb.widgets import RunGraph

        graph = RunGraph(**layout)
        graph.follow(self)
        return graph

    def editor(self, run: Run | str, at: At | None = None, **layout: Any) -> OverrideEditor:
        """A widget that shows what a step can be given instead, and forks there.

        Args:
            run: the parent of the forks.
            at: the step, as for `fork`; None to select it in the widget.
            layout: traits of every ipywidgets widget.

        Raises:
            StepNotFoundError: the run has no such step, or it is a Step of another run.

        Example:
            >>> editor = rw.editor(run, "compose")  # doctest: +SKIP
            >>> editor.on_fork(lambda fork: print(rw.diff(run, fork)))  # doctest: +SKIP
        """
        from rewind_nb.widgets import OverrideEditor

        parent = self._found(run)
        if at is not None:
            check_own(parent, at)
        selection = "" if at is None else parent[at].address
        return OverrideEditor(self, parent, selection=selection, **layout)

    def application(self, label: str | None = None) -> Application:
        """A recorded Burr application to drive yourself: iterate it, serve it, step it.

        Its ``uid`` is the run id. Each step is recorded when it executes; between steps the
        run is `halted` (or `complete`).
        """
        machine = driven_by_user(self._env(None), label)
        self._last_run = machine.session.run.id
        return machine.app

    @overload
    def resume(
        self,
        run: Run | str,
        inputs: Mapping[str, Any] | None = None,
        halt_after: list[str] | None = None,
        halt_before: list[str] | None = None,
    ) -> Run: ...

    @overload
    def resume(self, run: E, *, budget: Budget | None = None, retry: Retry = None) -> E: ...

    def resume(
        self,
        run: Any,
        inputs: Mapping[str, Any] | None = None,
        halt_after: list[str] | None = None,
        halt_before: list[str] | None = None,
        *,
        budget: Budget | None = None,
        retry: Retry = None,
    ) -> Any:
        """Go on with a run that halted, failed or was interrupted; no finished step runs again.

        An interrupted step plays back the answers it had; a failed one asks again. An
        experiment that was stopped makes the runs that are left, and none that ended again.

        Args:
            run: a run, its id, or an experiment.
            inputs: runtime inputs, as for `run`.
            halt_after: as for `run`.
            halt_before: likewise.
            budget: of an experiment: what it may spend from here on, instead of the
                budget that it had.
            retry: of an experiment, a complete one too: ``"errors"`` goes on with the runs that
                failed from the step that failed, as after a provider was not available.

        Raises:
            NothingToResumeError: it is complete; with *retry*, and no run of it failed.
            RunBusyError: it is still running.
            ConfigError: *retry* is something else, or given with a run.
        """
        if isinstance(run, Experiment):
            return self._on_with(run, budget, retry)
        refuse_retry(retry)
        return self._go(self._resumed(run, inputs, halt_after, halt_before), "aresume")

    @overload
    async def aresume(
        self,
        run: Run | str,
        inputs: Mapping[str, Any] | None = None,
        halt_after: list[str] | None = None,
        halt_before: list[str] | None = None,
    ) -> Run: ...

    @overload
    async def aresume(self, run: E, *, budget: Budget | None = None, retry: Retry = None) -> E: ...

    async def aresume(
        self,
        run: Any,
        inputs: Mapping[str, Any] | None = None,
        halt_after: list[str] | None = None,
        halt_before: list[str] | None = None,
        *,
        budget: Budget | None = None,
        retry: Retry = None,
    ) -> Any:
        """`resume` for async applications."""
        if isinstance(run, Experiment):
            return await self._aon_with(run, budget, retry)
        refuse_retry(retry)
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
            inputs=check_mapping("inputs", inputs),
            halt_after=check_names("halt_after", halt_after) or [],
            halt_before=check_names("halt_before", halt_before) or [],
        )

    # -- fork -------------------------------------------------------------------------------

    def fork(
        self,
        run: Run | str,
        at: At | None = None,
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
        action: Any = UNSET,
        call: int = 0,
        reuse: Reuse = "unchanged",
        cache: CacheMode | None = None,
        effects: Literal["live"] | Mapping[str, Any] | None = None,
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
            action: another callable, with the same reads and writes, to execute at the step;
                or, without *at*, a dict of them by action name, for all its visits.
            call: which call, from 0, in branch order.
            reuse: ``"unchanged"`` takes a step over from the parent where its code, its inputs
                and all it was seen to read are the same; ``"none"`` executes every step from
                *at* on, its calls played back where nothing about them changed.
            cache: instead of the Rewind's own mode.
            effects: for tools that act on the world (``@tool(effect=True)``) and are called
                otherwise than in the parent: ``"live"`` fires them, a dict of stubs by name
                gives a value, or a function to call instead; else they are refused.
            halt_after: instead of the parent's last halt conditions.
            halt_before: likewise.
            label: a name to show.
            sample: which draw of a changed call is wanted.
            max_steps: stop a fork that no longer ends (default 4 x the parent's + 100).
            allow_code_change: fork although action code changed since the recording.

        Returns:
            The fork.

        Raises:
            ConfigError: an argument cannot work.
            OverrideError: the step cannot consume the override, or there are two.
            OverrideNotConsumedError: it executed and did not use it.
            StepNotFoundError: the run has no such step, or it is a Step of another run.
            RunBusyError: the parent is still running.
            CodeChangedError: action code changed since the recording.
            StepLimitError: more than *max_steps* steps executed.
        """
        execution = self._new_fork(**_arguments(locals()))
        return self._go(execution, "afork")

    @twin_of(fork)
    async def afork(self, run: Run | str, at: At | None = None, **given: Any) -> Run:
        """`fork` for async applications; the same arguments."""
        return await self._ago(self._new_fork(run=run, at=at, **given))

    def _new_fork(
        self,
        run: Run | str,
        at: At | None = None,
        *,
        call: int = 0,
        reuse: Reuse = "unchanged",
        cache: CacheMode | None = None,
        **given: Any,
    ) -> Execution:
        settings = {k: given.pop(k) for k in _FORK_SETTINGS if k in given}
        if reuse not in REUSES:
            raise ConfigError(f"reuse={reuse!r} is not one of {', '.join(REUSES)}.")
        check_settings(call, settings)
        override = single(given, call)
        parent = self._found(run)
        if at is not None:
            check_own(parent, at)
        overrides = [] if override is None else [(*override, call)]
        return new_fork(self._env(cache), parent, at, overrides, reuse=reuse, **settings)

    # -- replay and diff --------------------------------------------------------------------

    def replay(
        self, run: Run | str, start: At | None = None, hooks: Literal["user"] | None = None
    ) -> Proof:
        """Execute a run again on its recorded calls only, and prove that nothing differs.

        No live call is possible: a request that was not recorded is refused, and so is
        every connection made in the context of a step.

        Args:
            run: any run that is not running; a fork is replayed from its root.
            start: the first step to replay, on its recorded state; the run's first if None.
            hooks: ``"user"`` to let the application's own Burr hooks fire, which a replay
                otherwise does not; what they do to the world is then done again.

        Returns:
            A `Proof`; ``proof.require()`` raises where it is not ok.
        """
        execution, tally, expected = self._new_replay(run, start, hooks)
        ended = self._drive(execution, "areplay")
        return self._proof(run, execution, ended, tally, expected)

    async def areplay(
        self, run: Run | str, start: At | None = None, hooks: Literal["user"] | None = None
    ) -> Proof:
        """`replay` for async applications."""
        execution, tally, expected = self._new_replay(run, start, hooks)
        execution.on_start = self._remember
        ended = await execution.ago()
        return self._proof(run, execution, ended, tally, expected)

    def _new_replay(
        self, run: Run | str, start: At | None, hooks: str | None
    ) -> tuple[Execution, Tally, list[Placed]]:
        recorded = self._found(run)
        check_start(recorded, start)
        return new_replay(self._env(None), recorded, start, hooks)

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
        return proof_of(self.store, execution.session, tally, expected, self._found(run))

    def diff(self, a: Run | str, b: Run | str) -> Diff:
        """Compare two runs, aligned by (action, visit), field by field.

        They may be parent and fork, siblings or strangers, failed ones included.
        """
        return compare(self._found(a), self._found(b))


_FORK_SETTINGS = (
    "halt_after", "halt_before", "label", "sample", "effects", "max_steps", "allow_code_change",
)  # fmt: skip


def _arguments(given: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments of a call, `self` and unset overrides apart."""
    return {k: v for k, v in given.items() if k != "self" and v is not UNSET}
