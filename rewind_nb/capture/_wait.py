"""Waiting until what was paid for is durable, from sync and from async code."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

_WRITER = "rewind-writer"  # the thread that commits; it may collect garbage as any other


def committed(paid: Future[None] | None) -> None:
    """Wait for a commit, except in the thread that would have to make it.

    Raises:
        StoreError: it could not be made.
    """
    if paid is not None and threading.current_thread().name != _WRITER:
        paid.result()


async def acommitted(paid: Future[None] | None) -> None:
    """`committed` for asyncio."""
    if paid is not None:
        await asyncio.wrap_future(paid)
