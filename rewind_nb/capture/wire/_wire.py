"""What a wire format can do, and what it reads out of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rewind_nb._model import Usage

__all__ = ["Reading", "ToolCall", "Wire"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool that the model asked the caller to execute.

    Attributes:
        id: what its result must name; None where the format has none.
        name: the tool.
        arguments: as a dict, or the text itself where the model gave no JSON object.
    """

    id: str | None
    name: str
    arguments: Any


@dataclass(frozen=True, slots=True)
class Reading:
    """A complete, well-formed answer of a model, whatever format it came in.

    Texts are the provider's own: nothing in them is redacted.

    Attributes:
        text: what it said, ``""`` where it only called tools, or finished without a word.
            Reasoning is not part of it.
        tool_calls: the tools it asked for, in order; what a provider executes itself is none.
        finish_reason: why it stopped, in the format's own word; None if the provider did
            not say.
        model: the model that answered by the provider's word, None if it did not say.
        usage: token counts, None where the provider gave none.
        id: the provider's id of the answer.
        system_fingerprint: of the deployment that answered, where the format has one.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    model: str | None = None
    usage: Usage = field(default_factory=Usage)
    id: str | None = None
    system_fingerprint: str | None = None


class Wire(Protocol):
    """One wire format. Every method is pure; no argument is ever changed.

    `url` is the request's URL and `body` its parsed JSON. Override kinds are ``prompt``,
    ``messages``, ``model``, ``temperature``, ``params`` and, for `check` alone, ``response``.
    """

    @property
    def name(self) -> str:
        """As it is recorded, such as ``openai-chat``."""

    def matches(self, method: str, url: str) -> bool:
        """Whether such a request speaks this format, by method and path alone."""

    # -- requests ----------------------------------------------------------------------

    def model(self, url: str, body: Any) -> str | None:
        """The model that is asked."""

    def temperature(self, url: str, body: Any) -> float | None:
        """The temperature asked for, None for the provider's default."""

    def seed(self, url: str, body: Any) -> int | None:
        """The seed asked for, None where there is none."""

    def wants_stream(self, url: str, body: Any) -> bool:
        """Whether the caller reads the answer as a stream."""

    def media_type(self, url: str, body: Any) -> str:
        """The content type of the answer to this request."""

    def part(self, kind: str, url: str, body: Any) -> Any:
        """What an override of *kind* replaces: for ``params`` the body, for ``prompt`` the
        text of the last user message.

        Raises:
            OverrideError: the request has no such part.
        """

    def check(self, kind: str, value: Any, url: str, body: Any) -> None:
        """Refuse an override that this request cannot carry or its provider would refuse.

        Raises:
            OverrideError: the message says what is wrong and what it takes instead.
        """

    def changed(self, kind: str, value: Any, url: str, body: Any) -> tuple[str, Any]:
        """A copy of the request with a checked override in it.

        A value that equals `part` changes nothing at all.

        Raises:
            OverrideError: the request has no such part.
        """

    # -- answers -----------------------------------------------------------------------

    def whole(self, text: str) -> Any | None:
        """The answer's body: parsed if the text is JSON, joined if it is a stream.

        None where the text is neither; and where a stream is cut off or reports an error. A
        caller that knows that the connection broke knows more than the text can say.
        """

    def read(self, body: Any) -> Reading | None:
        """What an answer's body says; None where it is not a complete, usable answer."""

    def read_stream(self, text: str) -> Reading | None:
        """What the whole text of a streamed answer says; None as for `whole` and `read`."""

    def usage(self, body: Any) -> Usage:
        """The token counts of an answer's body, also of one that is of no use."""

    def answer(
        self, recorded: Any, value: str | Mapping[str, Any], url: str, body: Any
    ) -> dict[str, Any]:
        """The body of a ``response=`` override.

        Args:
            recorded: the recorded answer's body; None where there was none.
            value: the text of the answer, or a whole body.
            url: of the request that is answered.
            body: of the request that is answered.

        Returns:
            The whole body that was given; or the recorded one with its text replaced, as a
            model gives a finished text: without calls of tools, and without what pointed
            into the old text.
        """

    def stream_answer(
        self, recorded: str | None, value: str | Mapping[str, Any], url: str, body: Any
    ) -> str:
        """The same as the text of a stream, which the format's SDK parses into that answer."""
