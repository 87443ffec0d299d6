"""Streaming actions: each chunk is recorded as it goes out, the step when the stream ends.

A stream that its consumer breaks off, or that raises after some chunks, is a step that was
interrupted or failed. (Burr lets some of these pass as completed, with what there was.)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterator
from typing import Any

from burr.core.action import Action, SingleStepStreamingAction
from burr.core.state import State

from rewind_nb._burr._actions import Recorded, unmangled
from rewind_nb._burr._driver import Driver
from rewind_nb._burr._state import is_private
from rewind_nb._open_step import OpenStep

Item = tuple[Any, State | None]  # a chunk, or with a state the result
END: Any = object()


class RecordedStream(Recorded, SingleStepStreamingAction):
    """A streaming action, one-step or two-step, whose every execution is a step."""

    def __init__(self, inner: Action, driver: Driver) -> None:
        SingleStepStreamingAction.__init__(self)
        self._wrap(inner, driver)

    def stream_run_and_update(self, state: State, **kwargs: Any) -> Any:
        """The chunks, each with None, and at the end the result with the new state."""
        if (other := self._other()) is not None:
            return RecordedStream(other, self._driver).stream_run_and_update(state, **kwargs)
        stream = self._astream if self.is_async() else self._stream
        self._driver.streaming = stream(state, kwargs)
        return self._driver.streaming

    def _stream(self, state: State, kwargs: dict[str, Any]) -> Generator[Item, None, None]:
        if not self._driver.records():
            yield from self._items(state, kwargs)
            return
        if (put := self._put(kwargs)) is not None:
            yield with_private(self._applied(put, state.typing_system), state)
            return
        step, seen, given = self._open(state, kwargs)
        try:
            final = yield from self._recorded(step, self._items(seen, given))
            done, outcome = self._complete(step, *final)
            done.result()
        except BaseException as error:
            self._failed(step, error)
            raise
        yield with_private(outcome, state)

    def _recorded(self, step: OpenStep, items: Iterator[Item]) -> Generator[Item, None, Item]:
        """Pass the chunks on; the result. The step is current only while its own code runs."""
        final: Item | None = None
        try:
            while True:
                with step.activate():
                    item = next(items, END)
                if item is END:
                    return self._final(final)
                if item[1] is None:
                    step.stream(item[0])
                    yield item
                else:
                    final = item
        finally:
            with step.activate():
                items.close()  # type: ignore[attr-defined]  # a generator: what it holds is let go

    def _items(self, state: State, given: dict[str, Any]) -> Iterator[Item]:
        """What the action yields, in one form for all kinds."""
        if self.inner.single_step:
            run = self.inner.stream_run_and_update
            for item in run(state, **unmangled(run, given)):
                yield self._item(item)
            return
        run, result = self.inner.stream_run, None
        for item in run(state.subset(*self.reads), **unmangled(run, given)):
            if result is not None:
                yield result, None
            result = item
        yield self._reduced(result, state)

    # -- the same, async ------------------------------------------------------------------

    async def _astream(self, state: State, kwargs: dict[str, Any]) -> AsyncGenerator[Item, None]:
        if not self._driver.records():
            async for item in self._aitems(state, kwargs):
                yield item
            return
        if (put := self._put(kwargs)) is not None:
            yield with_private(self._applied(put, state.typing_system), state)
            return
        step, seen, given = self._open(state, kwargs)
        items = self._aitems(seen, given)
        final: Item | None = None
        try:
            while True:
                with step.activate():
                    item = await anext(items, END)
                if item is END:
                    break
                if item[1] is None:
                    step.stream(item[0])
                    yield item
                else:
                    final = item
            done, outcome = self._complete(step, *self._final(final))
            await asyncio.wrap_future(done)
        except BaseException as error:
            with step.activate():
                await items.aclose()
            self._failed(step, error)
            raise
        yield with_private(outcome, state)

    async def _aitems(self, state: State, given: dict[str, Any]) -> AsyncGenerator[Item, None]:
        if self.inner.single_step:
            run = self.inner.stream_run_and_update
            async for item in run(state, **unmangled(run, given)):
                yield self._item(item)
            return
        run, result = self.inner.stream_run, None
        async for item in run(state.subset(*self.reads), **unmangled(run, given)):
            if result is not None:
                yield result, None
            result = item
        yield self._reduced(result, state)

    # -- both -----------------------------------------------------------------------------

    def _item(self, item: Any) -> Item:
        """A chunk may come bare, with None, or (the last) with the new state."""
        if isinstance(item, dict):
            return item, None
        if not isinstance(item, tuple) or len(item) != 2:
            raise ValueError(
                f"Action {self._name} must yield a tuple of (result, state_update). For all "
                "non-final results (intermediate), the state update must be None"
            )
        return item

    def _final(self, final: Item | None) -> tuple[Any, State]:
        if final is None:
            raise ValueError(
                f"Action {self._name} did not return a state update. For streaming actions, the "
                "last yield statement must be a tuple of (result, state_update). For example, "
                "yield dict(foo='bar'), state.update(foo='bar')"
            )
        result, state = self._checked(final)
        return result, state


def with_private(outcome: tuple[Any, State], before: State) -> tuple[Any, State]:
    """The outcome with Burr's own keys, which it takes over from before a step but not a stream."""
    result, after = outcome
    held = before._state  # noqa: SLF001
    private = {key: held[key] for key in held if is_private(key)}
    return result, after.update(**private)
