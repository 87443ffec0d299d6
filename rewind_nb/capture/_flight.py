"""What several runs ask at the same moment is asked once, and answers all of them.

Before a call goes out it boards. Where no other run has the same call under way (the same
kind, place, fingerprint, number among identical requests and epoch) it leads, and its budget
is asked; else it waits for that one to land. A flight that brought no answer for others is
flown again by one of those who waited. One that did is remembered until its step has ended,
for only then does the store offer its answer.

A stream is handed on while it arrives, so nobody waits for one. Nor does anybody wait for
ever: a leader may need what a follower holds (the last thread of a pool), so after `PATIENCE`
the call goes out by itself.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future, wait
from weakref import WeakKeyDictionary

from rewind_nb._model import CallRow
from rewind_nb._store import Store
from rewind_nb.capture._exchange import Flight, OpenCall, play_from, reserve
from rewind_nb.errors import RunStoppedError

PATIENCE = 60.0  # seconds
LOOK = 0.01  # seconds between two looks at what is under way
NOTICE = 0.1  # seconds after which a stop is noticed at the latest


class Flights:
    """The calls that are under way, of all runs that record into one store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._going: dict[Flight, Future[CallRow | None]] = {}

    def board(self, flight: Flight) -> Future[CallRow | None] | None:
        """The same call of another run, to be waited for; None where this one leads."""
        with self._lock:
            other = self._going.get(flight)
            if other is None:
                self._going[flight] = Future()
            return other

    def land(self, flight: Flight, row: CallRow | None) -> None:
        """It is over: what others may have of it, if anything."""
        with self._lock:
            going = self._going[flight] if row is not None else self._going.pop(flight)
        going.set_result(row)

    def forget(self, flight: Flight) -> None:
        """The step of a flight that landed has ended."""
        with self._lock:
            self._going.pop(flight, None)


_of_store: WeakKeyDictionary[Store, Flights] = WeakKeyDictionary()
_making = threading.Lock()


def _flights(store: Store) -> Flights:
    with _making:
        return _of_store.setdefault(store, Flights())


def boarded(call: OpenCall) -> None:
    """Wait until the call may go out, or has its answer from another run.

    Raises:
        RunStoppedError: the run is stopped, or its experiment's budget is spent. What the
            step asked before, and what is paid for with it, has been answered by then.
    """
    ctx, until = call.ctx, time.monotonic() + PATIENCE
    try:
        while (other := _board(call)) is not None:
            while not other.done() and time.monotonic() < until:
                ctx.check_stopped()
                wait([other], NOTICE)
            _take(call, other)
    except RunStoppedError:
        while ctx.flying and time.monotonic() < until and not ctx.stop.is_set():
            time.sleep(LOOK)
        raise


async def aboarded(call: OpenCall) -> None:
    """`boarded` for async code."""
    ctx, until = call.ctx, time.monotonic() + PATIENCE
    try:
        while (other := _board(call)) is not None:
            waited = asyncio.wrap_future(other)
            while not other.done() and time.monotonic() < until:
                ctx.check_stopped()
                await asyncio.wait([waited], timeout=NOTICE)
            _take(call, other)
    except RunStoppedError:
        while ctx.flying and not ctx.stop.is_set() and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(LOOK)
        raise


def _board(call: OpenCall) -> Future[CallRow | None] | None:
    if call.played:
        return None
    if call.flight is None:
        _depart(call)
        return None
    flights = _flights(call.ctx.store)
    other = flights.board(call.flight)
    if other is None:
        flight, ctx = call.flight, call.ctx

        def land(row: CallRow | None) -> None:
            flights.land(flight, row)
            if row is not None:
                ctx.when_ended.append(lambda: flights.forget(flight))

        call.land = land
        try:
            _depart(call)
        except BaseException:
            call.land(None)
            raise
    return other


def _depart(call: OpenCall) -> None:
    reserve(call)
    with call.ctx.lock:
        call.flies, call.ctx.flying = True, call.ctx.flying + 1


def _take(call: OpenCall, other: Future[CallRow | None]) -> None:
    if not other.done():
        call.flight = None  # it goes out by itself
    elif (row := other.result()) is not None:
        play_from(call, row)
