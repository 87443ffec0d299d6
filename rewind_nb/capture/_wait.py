"""Waiting until what was paid for is durable, from sync and from async code."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future


def committed(paid: Future[None] | None) -> None:
    """Wait for a commit, if there is one.

    Raises:
        StoreError: it could not be made.
    """
    if paid is not None:
        paid.result()


async def acommitted(paid: Future[None] | None) -> None:
    """`committed` for asyncio."""
    if paid is not None:
        await asyncio.wrap_future(paid)
