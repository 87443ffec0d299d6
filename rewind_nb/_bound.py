"""`Bound`: an application bound to a store, and how its runs are found and driven."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rewind_nb import _codec
from rewind_nb._burr import read_app
from rewind_nb._describe import displayed, plural, short
from rewind_nb._drive import Ended
from rewind_nb._execution import Env, Execution
from rewind_nb._hooks import Hook
from rewind_nb._instead import Instead
from rewind_nb._loops import wait_for
from rewind_nb._model import CACHE_MODES, CacheMode
from rewind_nb._run import Run
from rewind_nb._store import Store
from rewind_nb.capture import ambient
from rewind_nb.capture.http import install as capture_http
from rewind_nb.capture.policy import DEFAULT, HttpPolicy
from rewind_nb.errors import ConfigError, did_you_mean

SHOWN = 8  # actions in a repr


class Bound:
    """What every verb of a Rewind stands on."""

    def __init__(
        self,
        app: Any,
        store: Store | str | os.PathLike[str] | None = None,
        cache: CacheMode = "auto",
        hooks: Sequence[Hook] = (),
        cache_key: Callable[[dict[str, Any]], Any] | None = None,
        always_run: Sequence[str] = (),
        types: Iterable[type] = (),
        http: HttpPolicy | None = None,
    ) -> None:
        _check_iterable("hooks", hooks, "callables")
        _check_iterable("types", types, "classes")
        _check_iterable("always_run", always_run, "action names")
        _codec.know(*types)
        ambient.install()
        capture_http()
        self.store = store if isinstance(store, Store) else Store(store)
        self.store.awaited = True
        self.cache = check_cache(cache)
        self.cache_key = cache_key
        self.http = DEFAULT if http is None else http
        self.always_run = tuple(always_run)
        self._bind(app)
        self._hooks: list[Hook] = list(hooks)
        self._last_run: str | None = None
        self._instead: dict[str, Instead] = {}  # what its forks execute instead
        self._jobs: dict[str, Any] = {}  # by experiment: what it asks, its callables included

    def __reduce__(self) -> tuple[Any, ...]:
        """As another process gets it: built anew there, on the same file.

        Raises:
            ConfigError: it has an application instead of a function that builds one, or a
                store in memory.
        """
        if not self.builds_anew or self.store.path is None:
            what = "an application" if not self.builds_anew else "a store in memory"
            raise ConfigError(
                f"A Rewind of {what} cannot go to another process. Give Rewind a function of a "
                "module that builds the application, and a store in a file."
            )
        given = {
            "app": self._app, "store": self.store.path.absolute(), "cache": self.cache,
            "hooks": tuple(self._hooks), "cache_key": self.cache_key,
            "always_run": self.always_run, "http": self.http,
        }  # fmt: skip
        return (_rebuilt, (type(self), given))

    def _bind(self, app: Any) -> None:
        spec = read_app(app)
        for name in self.always_run:
            if name not in spec.action_names:
                raise ConfigError(
                    f"always_run names {name!r}, which is no action of the application. "
                    f"{did_you_mean(name, spec.action_names)}"
                )
        self._app = app
        # One that is built anew for each verb is not held: nor are classes that it defines.
        self._spec = None if callable(app) else spec
        self._actions = spec.action_names

    @property
    def builds_anew(self) -> bool:
        """Whether each run gets an application of its own."""
        return self._spec is None

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
        if self._spec is None:  # built anew: actions may keep data on `self`
            spec = read_app(self._app)
        else:  # a helper may have been edited in the notebook meanwhile
            spec = self._spec = self._spec.with_current_code()
        mode = self.cache if cache is None else check_cache(cache)
        always = frozenset(self.always_run)
        hooks = tuple(self._hooks)
        return Env(spec, self.store, hooks, mode, self.cache_key, self.http, always, self._instead)

    def _found(self, run: Run | str) -> Run:
        if isinstance(run, Run):
            if run.store is not self.store:
                return self.store.run(run.id)
            return run.refresh()
        return self.store.run(run)

    def _drive(self, execution: Execution, twin: str) -> Ended:
        execution.on_start = self._remember
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
        execution.on_start = self._remember
        return self._ended(execution, await execution.ago())

    def _remember(self, run_id: str) -> None:
        self._last_run = run_id

    def _ended(self, execution: Execution, ended: Ended) -> Run:
        if ended.error is not None:
            raise ended.error
        return self.store.run(execution.session.run.id)

    def __repr__(self) -> str:
        names = self._actions
        shown = ", ".join(names if len(names) <= SHOWN else [*names[: SHOWN - 1], "..."])
        return displayed(f"<Rewind of {plural(len(names), 'action')} ({shown}), {self.store!r}>")


def _rebuilt(cls: type[Bound], given: dict[str, Any]) -> Bound:
    return cls(**given)


def _check_iterable(name: str, given: Any, what: str) -> None:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(f"{name}= takes a list of {what}; it got {short(given)}. Write [...].")


def check_mapping(name: str, given: Any) -> dict[str, Any]:
    """A dict by name, empty for None.

    Raises:
        ConfigError: it is something else.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise ConfigError(f"{name}= takes a dict by name; it got {short(given)}.")
    return dict(given)


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
