"""The checks of the formats: an override that a request cannot carry is refused.

`Checking` does what is the same in all of them; a format says where it differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rewind_nb.capture.wire._checks import check_kind, check_sendable, got
from rewind_nb.capture.wire._messages import Given
from rewind_nb.capture.wire._request import Requests
from rewind_nb.errors import OverrideError

__all__ = ["Checking"]


class Checking(Requests):
    """What the checks of all formats have in common; see `Wire.check`."""

    answer_field: str  # the list that holds what the model said
    required: tuple[str, ...] = ("model", "messages")

    def check(self, kind: str, value: Any, url: str, body: Any) -> None:
        if kind == "response":
            self._check_response(value)
            return
        request = self._object(kind, body)
        check_kind(kind, value)
        if kind == "prompt":
            self._last_user(request)
        elif kind == "messages":
            self.check_messages(Given(value, self.shape), request)
        elif kind == "model":
            self.check_model(value)
        elif kind == "params":
            self._check_params(value, url, request)
        check_sendable(kind, value)

    # -- params ------------------------------------------------------------------------

    def _check_params(self, params: Mapping[str, Any], url: str, body: dict[str, Any]) -> None:
        for name, where in self.elsewhere(url).items():
            if name in params:
                raise OverrideError(
                    f"params= cannot replace {name!r}: here it is {where}. Use {name}=.",
                    override="params",
                )
        for name in self.required:
            if name in params and params[name] is None:
                raise OverrideError(
                    f"params= cannot remove {name!r}: every request has it.", override="params"
                )
        temperature = self.settings(dict(params)).get("temperature")
        for name, value in (("model", params.get("model")), ("temperature", temperature)):
            if value is not None:
                check_kind(name, value, name)
        if params.get(self.messages_field) is not None:
            self.check_messages_field(params[self.messages_field], body)
        self._check_stream(params, streams=self.wants_stream(url, body))

    @staticmethod
    def _check_stream(params: Mapping[str, Any], *, streams: bool) -> None:
        if "stream" not in params or bool(params["stream"]) == streams:
            return
        why = "turn the stream off: the caller reads a stream"
        if not streams:
            why = "ask for a stream: the caller reads a whole answer"
        raise OverrideError(f"params= cannot {why}. Leave 'stream' out.", override="params")

    # -- answers -----------------------------------------------------------------------

    def _check_response(self, value: Any) -> None:
        field = self.answer_field
        if not isinstance(value, str) and not (isinstance(value, Mapping) and field in value):
            raise OverrideError(
                "response= takes the text of the answer (a str; for JSON, json.dumps(...)) or a "
                f"whole body with {field!r}; it got {got(value)}.",
                override="response",
            )
        check_sendable("response", value)
        if not isinstance(value, str) and not self.is_answer(value):
            raise OverrideError(
                f"response= has {got(value[field])} as its {field!r}. Give it a list of dicts, as "
                "the provider does.",
                override="response",
            )

    def is_answer(self, body: Any) -> bool:
        """Whether a body holds what a model said."""
        said = body.get(self.answer_field) if isinstance(body, Mapping) else None
        return isinstance(said, list) and all(isinstance(item, Mapping) for item in said)

    # -- what each format says for itself ----------------------------------------------

    def elsewhere(self, url: str) -> Mapping[str, str]:
        """Where a request holds what others hold in a field of this name; most differ in none."""
        del url
        return {}

    def check_model(self, model: str) -> None:
        """Refuse a name that the format cannot ask for; most take any."""

    def check_messages_field(self, messages: Any, body: dict[str, Any]) -> None:
        """Refuse a value of the request's own field of messages."""
        check_kind("messages", messages, self.messages_field)
        self.check_messages(Given(messages, self.shape, "params", self.messages_field), body)

    def check_messages(self, given: Given, body: dict[str, Any]) -> None:
        """Refuse messages that the provider would refuse in this request."""
        raise NotImplementedError
