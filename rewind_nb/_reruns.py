"""Going on with an edited application: `rebind`, and the fork whose override is the edit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

from rewind_nb._bound import Bound
from rewind_nb._forks import new_rerun
from rewind_nb._run import Run
from rewind_nb.experiments._verbs import twin_of


class Reruns(Bound):
    """A Rewind whose application may be edited."""

    def rebind(self, app: Any) -> Self:
        """Go on with an edited application, on the same store.

        This Rewind itself changes: what it does from here on, it does with *app*. To keep both,
        make a second one: ``Rewind(app, store=rw.store)``.

        Args:
            app: a Burr application, or a function without arguments that builds one.

        Returns:
            This Rewind, so that ``rw.rebind(app).rerun_from(run)`` reads as one sentence.

        Raises:
            ConfigError: it is none, or lacks an action of ``always_run``.
        """
        self._bind(app)
        return self

    def rerun_from(
        self,
        run: Run | str,
        *,
        effects: Literal["live"] | Mapping[str, Any] | None = None,
        label: str | None = None,
        max_steps: int | None = None,
    ) -> Run:
        """The fork of a run whose override is the code of the application as it is now.

        It executes the steps whose code changed and what depends on them, and takes all others
        over; with no edit it executes nothing. A graph of another shape is noted on it.

        Args:
            run: the parent.
            effects: as for `fork`.
            label: a name to show.
            max_steps: stop it where it no longer ends (default 4 x the parent's + 100).

        Raises:
            RunBusyError: the parent is still running.
            StepNotFoundError: the application does not have the action it would start with.
        """
        execution = new_rerun(
            self._env(None), self._found(run), effects=effects, label=label, max_steps=max_steps
        )
        return self._go(execution, "arerun_from")

    @twin_of(rerun_from)
    async def arerun_from(self, run: Run | str, **given: Any) -> Run:
        """`rerun_from` for async applications; the same arguments."""
        settings = {"effects": None, "label": None, "max_steps": None, **given}
        return await self._ago(new_rerun(self._env(None), self._found(run), **settings))
