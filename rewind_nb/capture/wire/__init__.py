"""The wire formats of model providers: what a request asks and what an answer says.

Pure: nothing here sends, waits or stores, and no SDK is imported. A format is chosen by the
path of a request; which hosts are providers is not decided here.

Example:
    >>> wire = wire_for("POST", "https://api.example.com/v1/chat/completions")
    >>> url, body = "", {"model": "small", "messages": [{"role": "user", "content": "hi"}]}
    >>> wire.name, wire.part("prompt", url, body)
    ('openai-chat', 'hi')
    >>> wire.read(wire.answer(None, "hello", url, body)).text
    'hello'
"""

from __future__ import annotations

from rewind_nb.capture.wire._wire import Reading, ToolCall, Wire
from rewind_nb.capture.wire.anthropic_messages import AnthropicMessages
from rewind_nb.capture.wire.google_generate import GoogleGenerateContent
from rewind_nb.capture.wire.openai_chat import OpenAIChat
from rewind_nb.capture.wire.openai_responses import OpenAIResponses

__all__ = ["WIRES", "Reading", "ToolCall", "Wire", "named", "wire_for"]

WIRES: tuple[Wire, ...] = (
    OpenAIChat(),
    OpenAIResponses(),
    AnthropicMessages(),
    GoogleGenerateContent(),
)


def wire_for(method: str, url: str) -> Wire | None:
    """The format that a request speaks, None where it speaks none of them.

    Example:
        >>> wire_for("GET", "https://api.example.com/v1/models") is None
        True
    """
    return next((wire for wire in WIRES if wire.matches(method, url)), None)


def named(name: str) -> Wire | None:
    """The format of this name, None where there is none.

    Example:
        >>> named("anthropic-messages").name
        'anthropic-messages'
    """
    return next((wire for wire in WIRES if wire.name == name), None)
