"""One HTTP request of a step as a call: opened, answered or failed, judged, recorded.

The clients' adapters carry out what is decided here, and decide nothing themselves.
"""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from rewind_nb._model import Usage
from rewind_nb._secrets import redact
from rewind_nb.capture._errors import type_name
from rewind_nb.capture._exchange import NOTHING, Answer, OpenCall, complete, fail
from rewind_nb.capture._http_answer import (
    STREAMED,
    HttpAnswer,
    handed_on,
    holds_credentials,
    hurried,
    record,
    restore,
)
from rewind_nb.capture._http_request import HttpRequest
from rewind_nb.capture.policy import HttpKind
from rewind_nb.capture.wire import Wire
from rewind_nb.errors import CacheMissError

FREE = Usage(0, 0, 0, 0, 0)  # nothing was sent, or an error status came back: not billed
PATIENCE = 60.0  # seconds; a recorded timeout takes as long again in a replay
_CANCELLED = type_name(asyncio.CancelledError)


class StreamBrokenOffError(Exception):
    """The reader of a stream closed it before its end."""


@dataclass(frozen=True, slots=True)
class Sort:
    """What a request is: the kind of its call, and the format it speaks."""

    kind: HttpKind
    wire: Wire | None = None


@dataclass(slots=True)
class HttpCall:
    """A request between its opening and its answer.

    Attributes:
        request: as it is to be sent, with what an override changed.
        wants_stream: whether the caller reads the answer while it arrives.
        retried_as: the fingerprint under which a failed attempt is taken up again.
    """

    call: OpenCall
    request: HttpRequest
    sort: Sort
    wants_stream: bool
    retried_as: str | None

    # -- played back ---------------------------------------------------------------------

    @property
    def played(self) -> bool:
        """Whether it has its answer already, and must not be sent."""
        return self.call.played

    def playback(self) -> HttpAnswer:
        """The recorded answer; what is raised at its end is its `error`.

        Raises:
            Exception: the recorded failure of a call that got no answer.
        """
        call, error = self.call, self.call.error
        if error is not None and call.answer is NOTHING:
            self._failed(error, None, NOTHING)
            raise error
        answer = restore(call.answer, error)
        if error is not None:
            self._failed(error, call.row.usage, call.answer)
            return answer
        self._complete(self._judged(answer))
        return hurried(answer) if call.row.source != "override" else answer

    @property
    def was_cancelled(self) -> bool:
        """Whether the recorded step waited for the answer no longer (`asyncio.timeout`)."""
        error = self.call.error
        return error is not None and type_name(type(error)) == _CANCELLED

    @property
    def has_part(self) -> bool:
        """Whether some answer is recorded, if only part of one."""
        return self.call.answer is not NOTHING

    async def cancelled_again(self) -> None:
        """Wait to be cancelled like the recorded request.

        Raises:
            CacheMissError: nobody does it.
        """
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError as error:
            if not self.has_part:  # which is recorded already
                self._failed(error, None, NOTHING)
            raise
        raise self.read_on("waited no longer for an answer")

    def read_on(self, how: str = "closed this stream before its end") -> CacheMissError:
        """What to raise where a replay wants more of an answer than there is."""
        call = self.call
        miss = CacheMissError(
            f"{call.row.name!r}: the recorded step {how}, and a replay can read no further than "
            "that. To let it, fork the run instead.",
            step=call.ctx.action,
            call=call.row.idx,
            nearest=None,
            asked=None,
            differing=(),
        )
        call.ctx.misses.append(miss)
        return miss

    # -- live ----------------------------------------------------------------------------

    def streams(self, head: HttpAnswer) -> bool:
        """Whether an answer that begins so is handed on while it arrives."""
        if not head.ok or self.request.method == "HEAD":
            return False
        return self.wants_stream or head.media_type in STREAMED

    def answered(self, answer: HttpAnswer) -> tuple[HttpAnswer, Future[None]]:
        """Record a whole answer: what the caller gets, once the future is done."""
        secret = holds_credentials(answer)
        stored = self.call.answer = record(answer)
        judged = self._judged(answer)
        if secret:  # stored without the token, it is of use to a replay only
            judged.playable = False
        handed = handed_on(answer, stored)
        return replace(handed, body=answer.body) if secret else handed, self._complete(judged)

    def streamed(self, answer: HttpAnswer) -> Future[None]:
        """Record a stream that was read to its end."""
        self.call.answer = record(answer)
        return self._complete(self._judged(answer))

    def failed(
        self, error: BaseException, *, usage: Usage | None = None, partial: HttpAnswer | None = None
    ) -> Future[None]:
        """Record that there was no answer, or only the part that is given."""
        return self._failed(error, usage, NOTHING if partial is None else record(partial))

    def is_whole(self, answer: HttpAnswer) -> bool:
        """Whether a stream says all it has to say, although nobody read to its end."""
        reading = self.sort.wire and self.sort.wire.read_stream(_text(answer))
        return reading is not None

    # -- both ----------------------------------------------------------------------------

    def _judged(self, answer: HttpAnswer) -> Answer:
        """What an answer means: whether others may have it, its usage, its model."""
        stored = self.call.answer
        if not answer.ok:
            # A server that cannot do JSON mode says so once; the client then asks without
            # it. That refusal is a definite answer to that request, and played back like one.
            model = self.sort.kind == "model"
            refused = model and answer.status == 400 and b"response_format" in answer.body
            return Answer(stored, playable=refused, counts=False, usage=FREE if model else None)
        wire = self.sort.wire
        if wire is None:
            return Answer(stored, playable=_well_formed(answer))
        text = _text(answer)
        reading = wire.read_stream(text)
        if reading is None:
            spent = wire.whole(text)
            usage = None if spent is None else wire.usage(spent)
            return Answer(stored, playable=False, counts=False, usage=usage)
        named = reading.model and redact(reading.model)
        return Answer(stored, playable=True, answered_by=named, usage=reading.usage)

    def _complete(self, judged: Answer) -> Future[None]:
        done = complete(self.call, judged)
        if not judged.counts:
            self._retry_is_this_call()
        return done

    def _failed(self, error: BaseException, usage: Usage | None, partial: Any) -> Future[None]:
        done = fail(self.call, error, usage=usage, partial=partial)
        if isinstance(error, StreamBrokenOffError):  # it had what it wanted
            self.call.ctx.settle(self.call.row, self.call.attempt_at)
        else:
            self._retry_is_this_call()
        return done

    def _retry_is_this_call(self) -> None:
        """Have the next identical request of this branch count as a further attempt."""
        ctx, row = self.call.ctx, self.call.row
        if self.retried_as is not None:
            with ctx.lock:
                ordinal = ctx.unanswered.pop((row.kind, row.branch, self.call.attempt_at), None)
                if ordinal is not None:
                    ctx.unanswered[row.kind, row.branch, self.retried_as] = ordinal


def _text(answer: HttpAnswer) -> str:
    return answer.body.decode("utf-8", "replace")


def _well_formed(answer: HttpAnswer) -> bool:
    """Whether the body is what its content type says, as far as that is JSON."""
    if answer.media_type != "application/json" or not answer.body or answer.cuts is not None:
        return True
    try:
        json.loads(answer.body)
    except (ValueError, RecursionError):
        return False
    return True
