"""From the body of a chat completion to a `ChatReply`, or to a typed refusal. Pure.

Nothing is repaired: no code fence is stripped, no trailing text dropped, no
value guessed. What the provider adds beyond the format is ignored. Messages are
the same words on every run, since a replay compares them; parser messages,
which change with the Python version, are not quoted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rewind_nb._model import Usage
from rewind_nb._secrets import redact, redact_bytes
from rewind_nb.capture.wire._json import count, member, strict_json
from rewind_nb.errors import ProviderMalformedError, StepFailure

__all__ = ["ChatReply", "body_text", "provider_says", "read_completion", "read_usage"]


@dataclass(frozen=True, slots=True)
class ChatReply:
    """What the model answered.

    Attributes:
        text: the content of the message, never empty.
        model: the model that was asked.
        answered_by: the model that answered by the provider's word, None if it did not say.
        usage: token counts, None where the provider gave none.
        finish_reason: ``stop``, ``length``, ...; None if the provider did not say.
        raw: the whole response body.
        step: the step that asked, for error messages.

    Example:
        >>> ChatReply('{"ok": true}', "small-model").json()
        {'ok': True}
    """

    text: str
    model: str
    answered_by: str | None = None
    usage: Usage = field(default_factory=Usage)
    finish_reason: str | None = None
    raw: str = ""
    step: str = "model"

    def json(self) -> Any:
        """The text as JSON, all of it and nothing else.

        Raises:
            StepFailure: it is not JSON, holds NaN or a key twice, or text around the JSON.
        """
        try:
            return strict_json(self.text)
        except ValueError as error:
            raise StepFailure(self.step, self._unusable(str(error)), raw=self.text) from None

    def _unusable(self, reason: str) -> str:
        cut = self.finish_reason == "length"
        why = " It was cut off at the token limit: allow more max_tokens." if cut else ""
        return (
            f"the model's text cannot be read as JSON: {reason}. It begins {_shorten(self.text)}."
            f"{why} The whole text is in .raw."
        )


def read_completion(body: bytes, *, model: str, step: str) -> ChatReply:
    """Read the body of a successful `/chat/completions` answer.

    Raises:
        ProviderMalformedError: it is not a chat completion with text in it.
    """
    body = redact_bytes(body)  # verbose tracebacks print the locals of this frame
    answer, reason = _parse(body)
    if reason:
        raise ProviderMalformedError(
            step,
            f"the provider's answer is not a usable chat completion: {reason}. "
            "The answer is in .raw.",
            raw=body_text(body),
        )
    choice = answer["choices"][0]
    return ChatReply(
        text=redact(choice["message"]["content"]),  # again: JSON escapes can hide a key
        model=model,
        answered_by=text_or_none(answer.get("model")),
        usage=read_usage(answer),
        finish_reason=text_or_none(choice.get("finish_reason")),
        raw=body_text(body),
        step=step,
    )


def _parse(body: bytes) -> tuple[Any, str | None]:
    """The parsed answer, or why it is not usable."""
    try:
        answer = strict_json(body.decode("utf-8"))
    except UnicodeDecodeError:
        return None, "it is not UTF-8"
    except ValueError as error:
        return None, str(error)
    reason = _no_text(answer)
    return (None, reason) if reason else (answer, None)


def _no_text(answer: Any) -> str | None:
    """Why the parsed answer holds no text, or None where it does."""
    if not isinstance(answer, dict):
        return f"it is a JSON {_json_type(answer)}, not an object"
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        return f"it has no choices{provider_says(answer)}"
    message = choices[0].get("message") if isinstance(choices[0], dict) else None
    if not isinstance(message, dict):
        return "its first choice has no message"
    return _no_content(message)


def _no_content(message: dict[str, Any]) -> str | None:
    content = message.get("content")
    if isinstance(content, str) and content.strip():
        return None
    if message.get("tool_calls"):
        return "it calls tools instead of giving text; chat() is for text, leave tools= out"
    if text_or_none(message.get("refusal")):
        return f"the model refused: {_shorten(message['refusal'])}"
    if content is None or isinstance(content, str):
        return "its message is empty"
    return f"its content is a JSON {_json_type(content)}, not text"


def provider_says(answer: Any) -> str:
    """The provider's own error message as a clause, from the shapes that are in use.

    Example:
        >>> provider_says({"error": {"message": "quota exceeded", "code": 42}})
        " (it says 'quota exceeded')"
        >>> provider_says({"metadata": {}})
        ''
    """
    said = answer
    for name in ("error", "message"):
        said = said.get(name, said) if isinstance(said, dict) else said
    return f" (it says {_shorten(said)})" if isinstance(said, str) and said.strip() else ""


def read_usage(answer: Any) -> Usage:
    """Token counts of an answer; what is absent or not a count stays unknown.

    Example:
        >>> read_usage({"usage": {"prompt_tokens": 12, "completion_tokens": 3}})
        Usage(input_tokens=12, output_tokens=3, total_tokens=15)
        >>> read_usage({"usage": None})
        Usage()
    """
    usage = member(answer, "usage")
    return Usage(
        input_tokens=count(usage, "prompt_tokens", "input_tokens"),
        output_tokens=count(usage, "completion_tokens", "output_tokens"),
        total_tokens=count(usage, "total_tokens"),
        cached_tokens=count(member(usage, "prompt_tokens_details"), "cached_tokens"),
        reasoning_tokens=count(member(usage, "completion_tokens_details"), "reasoning_tokens"),
    )


def text_or_none(value: Any) -> str | None:
    return redact(value) if isinstance(value, str) and value else None


def _json_type(value: Any) -> str:
    names = {list: "array", dict: "object", str: "string", bool: "boolean", type(None): "null"}
    return names.get(type(value), "number")


def body_text(body: bytes) -> str:
    """A body for people and for `.raw`: undecodable bytes escaped, secrets replaced."""
    return redact(body.decode("utf-8", "backslashreplace"))


def _shorten(text: str, limit: int = 120) -> str:
    """A quotation on one line. Redacted before it is cut: half a key is not recognised."""
    clean = redact(text)
    return repr(clean if len(clean) <= limit else f"{clean[:limit]}...")
