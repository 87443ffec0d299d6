"""A streamed answer: recorded while it is handed on, played back in the same chunks.

Sync and async iterators differ in how they wait, and in nothing else. The mark of a request
on the wire is set around each wait and not around the iteration: between two chunks the
reader's own code runs in the same context.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import accumulate

from rewind_nb.capture._context import StepContext, sending
from rewind_nb.capture._http_answer import HttpAnswer
from rewind_nb.capture._http_call import HttpCall, StreamBrokenOffError
from rewind_nb.capture._inflate import DamagedBodyError, Unpacker
from rewind_nb.capture._wait import acommitted, committed

_open: weakref.WeakSet[Recording] = weakref.WeakSet()


@dataclass(slots=True, eq=False, weakref_slot=True)
class Recording:
    """What was handed on of one stream, until it ended in one way or the other."""

    call: HttpCall
    head: HttpAnswer
    chunks: list[bytes] = field(default_factory=list)
    over: bool = False

    def __post_init__(self) -> None:
        _open.add(self)

    def add(self, chunk: bytes) -> bytes:
        """Remember a chunk that is handed on."""
        self.chunks.append(chunk)
        return chunk

    def finished(self) -> Future[None] | None:
        """The server ended it."""
        return self._end(lambda: self.call.streamed(self._answer()))

    def broken(self, error: BaseException) -> Future[None] | None:
        """Something was raised while the reader waited for the next chunk."""
        return self._end(lambda: self.call.failed(error, partial=self._answer()))

    def closed(self) -> Future[None] | None:
        """The reader has enough, which may be all there is: SDKs stop at the last event."""
        if not self.over and self.call.is_whole(self._answer()):
            return self.finished()
        return self.broken(StreamBrokenOffError("the reader closed the stream before its end"))

    def _answer(self) -> HttpAnswer:
        cuts = tuple(accumulate(map(len, self.chunks)))
        return replace(self.head, body=b"".join(self.chunks), cuts=cuts)

    def _end(self, how: Callable[[], Future[None]]) -> Future[None] | None:
        if self.over:
            return None
        self.over = True
        return how()


def close_streams(ctx: StepContext) -> None:
    """End the streams that a step left open: nobody may read them any more."""
    for recording in [r for r in _open if r.call.call.ctx is ctx]:
        recording.closed()


@dataclass(slots=True)
class Live:
    """A live stream, whichever way it is read.

    Attributes:
        unpacker: decodes what arrives.
        damaged: makes the client's own exception of one of ours.
    """

    recording: Recording
    unpacker: Unpacker
    damaged: Callable[[DamagedBodyError], Exception]
    ready: deque[bytes] = field(default_factory=deque)

    def arrived(self, raw: bytes | None) -> bool:
        """Take what arrived, None for the end; whether there is more to wait for.

        Raises:
            RunStoppedError: the run was stopped meanwhile.
            Exception: the body is damaged; an exception of the client's.
        """
        self.recording.call.call.ctx.check_stopped()
        try:
            if raw is None:
                self.unpacker.end()
                return False
            self.ready.extend(self.unpacker.feed(raw))
        except DamagedBodyError as error:
            raise self.damaged(error) from error
        return not self.ready

    def next(self) -> bytes:
        """The next chunk that is ready."""
        return self.recording.add(self.ready.popleft())


class LiveStream:
    """The chunks of a live answer.

    Args:
        raw: what arrives.
        close: closes the connection.
    """

    def __init__(self, live: Live, raw: Iterator[bytes], close: Callable[[], None]) -> None:
        self._live = live
        self._raw = raw
        self._close = close

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        live = self._live
        if not live.ready and not live.recording.over:
            try:
                with sending():
                    while live.arrived(next(self._raw, None)):
                        pass
            except BaseException as error:
                committed(live.recording.broken(error))
                raise
        if not live.ready:
            committed(live.recording.finished())
            raise StopIteration
        return live.next()

    def close(self) -> None:
        """Close it, wherever the reader is."""
        self._live.ready.clear()
        ended = self._live.recording.closed()
        with sending():
            self._close()
        committed(ended)


class AsyncLiveStream:
    """The same for async readers."""

    def __init__(
        self, live: Live, raw: AsyncGenerator[bytes, None], close: Callable[[], Awaitable[None]]
    ) -> None:
        self._live = live
        self._raw = raw
        self._close = close

    def __aiter__(self) -> AsyncLiveStream:
        return self

    async def __anext__(self) -> bytes:
        live = self._live
        if not live.ready and not live.recording.over:
            try:
                with sending():
                    while live.arrived(await anext(self._raw, None)):
                        pass
            except BaseException as error:
                ended = live.recording.broken(error)
                if not isinstance(error, GeneratorExit):  # which forbids to wait
                    await acommitted(ended)
                raise
        if not live.ready:
            await acommitted(live.recording.finished())
            raise StopAsyncIteration
        return live.next()

    async def aclose(self) -> None:
        """Close it, wherever the reader is."""
        self._live.ready.clear()
        ended = self._live.recording.closed()
        with sending():
            await self._close()
            with contextlib.suppress(RuntimeError):  # another task, or the loop, is at it
                await self._raw.aclose()
        await acommitted(ended)


class PlayedStream:
    """The chunks of a recorded answer, for readers of both kinds; then what was raised."""

    def __init__(self, call: HttpCall, answer: HttpAnswer) -> None:
        self._call = call
        self._error = answer.error
        self._chunks = iter(answer.chunks)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        chunk = self._next()
        if chunk is None:
            raise StopIteration
        return chunk

    def __aiter__(self) -> PlayedStream:
        return self

    async def __anext__(self) -> bytes:
        chunk = next(self._chunks, None)
        if chunk is None and self._call.was_cancelled:
            await self._call.cancelled_again()
        if chunk is None:
            chunk = self._next()
        if chunk is None:
            raise StopAsyncIteration
        return chunk

    def _next(self) -> bytes | None:
        chunk = next(self._chunks, None)
        if chunk is None and isinstance(self._error, StreamBrokenOffError):
            raise self._call.read_on()
        if chunk is None and self._error is not None:
            raise self._error
        return chunk

    def close(self) -> None:
        """There is nothing to close."""

    async def aclose(self) -> None:
        """There is nothing to close."""
