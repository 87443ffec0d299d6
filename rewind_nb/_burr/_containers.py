"""Streams that end when their consumer lets go of them.

Burr tells its hooks that a stream is over when its consumer leaves the loop, and keeps the
generator in the container; the step would stay open for as long as somebody holds that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any, Protocol

from burr.core import Application
from burr.core.action import AsyncStreamingResultContainer, StreamingResultContainer


class Streams(Protocol):
    """What drives an application whose streams are recorded."""

    streaming: Any  # the generator of the stream that is going out


class ClosingContainer(StreamingResultContainer):
    """A container whose stream is closed when its iteration ends, however it ends."""

    streams: Streams

    def __iter__(self) -> Iterator[Any]:
        chunks = super().__iter__()

        def each() -> Iterator[Any]:
            try:
                yield from chunks
            finally:
                if self.streams.streaming is not None:
                    self.streams.streaming.close()

        return each()


class AsyncClosingContainer(AsyncStreamingResultContainer):
    """The same for async streams."""

    streams: Streams

    def __aiter__(self) -> AsyncIterator[Any]:
        chunks = super().__aiter__()

        async def each() -> AsyncIterator[Any]:
            try:
                async for chunk in chunks:
                    yield chunk
            finally:
                await chunks.aclose()
                if self.streams.streaming is not None:
                    await self.streams.streaming.aclose()

        return each()


def close_with_consumer(app: Application, streams: Streams) -> None:
    """Have *app* hand out containers that close their stream."""
    stream, astream = app.stream_result, app.astream_result

    def stream_result(*args: Any, **kwargs: Any) -> Any:
        streams.streaming = None
        action, container = stream(*args, **kwargs)
        return action, _closing(container, ClosingContainer, streams)

    async def astream_result(*args: Any, **kwargs: Any) -> Any:
        streams.streaming = None
        action, container = await astream(*args, **kwargs)
        return action, _closing(container, AsyncClosingContainer, streams)

    app.stream_result, app.astream_result = stream_result, astream_result


def _closing(container: Any, kind: type, streams: Streams) -> Any:
    container.__class__ = kind
    container.streams = streams
    return container
