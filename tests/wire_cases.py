"""Requests, answers and streams of every wire format, and what they say."""

from __future__ import annotations

import json
from pathlib import Path

from rewind_nb._model import Usage
from rewind_nb.capture.wire import Reading, ToolCall, named

DATA = Path(__file__).parent / "data" / "wire"

URLS = {
    "openai-chat": "https://api.example.com/v1/chat/completions",
    "openai-responses": "https://api.example.com/v1/responses",
    "anthropic-messages": "https://api.example.com/v1/messages",
    "google-generate-content": "https://api.example.com/v1beta/models/gemini-toy:generateContent",
}
STREAM_URLS = URLS | {
    "google-generate-content": URLS["google-generate-content"].replace(
        ":generateContent", ":streamGenerateContent?alt=sse"
    )
}
FORMATS = list(URLS)


def request(name):
    return json.loads((DATA / f"{name}.request.json").read_text(encoding="utf-8"))


def answer(name):
    return json.loads((DATA / f"{name}.answer.json").read_text(encoding="utf-8"))


def stream(name):
    return (DATA / f"{name}.stream.txt").read_text(encoding="utf-8")


def wire(name):
    """The format of a fixture: its name may have more behind it."""
    return named(next(known for known in FORMATS if name.startswith(known)))


BARE = {  # the least that is a whole body
    "openai-chat": {"choices": [{"message": {"content": "x"}}]},
    "openai-responses": {
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "x"}]}]
    },
    "anthropic-messages": {"content": [{"type": "text", "text": "x"}]},
    "google-generate-content": {"candidates": [{"content": {"parts": [{"text": "x"}]}}]},
}

FIG = "A fig: 50 g – ça va."

ANSWERS = {
    "openai-chat": Reading(
        text="Let me weigh both.",
        tool_calls=(
            ToolCall("call_2", "weigh", {"what": "pear"}),
            ToolCall("call_3", "weigh", {"what": "fig"}),
        ),
        finish_reason="tool_calls",
        model="gpt-toy-2026-01-01",
        usage=Usage(1200, 90, 1290, 1024, 64),
        id="chatcmpl-A1",
        system_fingerprint="fp_toy1",
    ),
    "openai-responses": Reading(
        text="Let me weigh it.",
        tool_calls=(ToolCall("call_2", "weigh", {"what": "pear"}),),
        finish_reason="completed",
        model="gpt-toy-2026-01-01",
        usage=Usage(310, 75, 385, 256, 40, 0),
        id="resp_A1",
    ),
    "anthropic-messages": Reading(
        text="Let me weigh it.",
        tool_calls=(ToolCall("toolu_2", "weigh", {"what": "pear"}),),
        finish_reason="tool_use",
        model="claude-toy-20260101",
        usage=Usage(1112, 60, 1172, 1000, 21, 100),
        id="msg_A1",
    ),
    "google-generate-content": Reading(
        text="Let me weigh it.",
        tool_calls=(ToolCall(None, "weigh", {"what": "pear"}),),
        finish_reason="STOP",
        model="gemini-toy-001",
        usage=Usage(530, 70, 600, 400, 50),
        id="g-A1",
    ),
}

STREAMS = {
    "openai-chat": Reading(
        text=FIG,
        finish_reason="stop",
        model="gpt-toy-2026-01-01",
        usage=Usage(30, 12, 42, 0, 0),
        id="chatcmpl-A2",
        system_fingerprint="fp_toy1",
    ),
    "openai-chat-tools": Reading(
        text="",
        tool_calls=(
            ToolCall("call_4", "weigh", {"what": "kiwi"}),
            ToolCall("call_5", "count", {"of": ["kiwi", "fig"]}),
        ),
        finish_reason="tool_calls",
        model="gpt-toy-2026-01-01",
        id="chatcmpl-A3",
        system_fingerprint="fp_toy1",
    ),
    "openai-chat-groq": Reading(
        text="Seven grams.",
        finish_reason="stop",
        model="llama-toy",
        usage=Usage(21, 9, 30),
        id="chatcmpl-G1",
        system_fingerprint="fp_groq",
    ),
    "openai-chat-mistral": Reading(
        text="Five grams.",
        finish_reason="stop",
        model="magistral-toy",
        usage=Usage(14, 26, 40),
        id="m1",
    ),
    "openai-responses": Reading(
        text=FIG,
        tool_calls=(ToolCall("call_3", "count", {"of": ["fig"]}),),
        finish_reason="completed",
        model="gpt-toy-2026-01-01",
        usage=Usage(31, 22, 53, 0, 0, 0),
        id="resp_A2",
    ),
    "anthropic-messages": Reading(
        text=FIG,
        tool_calls=(ToolCall("toolu_3", "count", {"of": ["fig"]}),),
        finish_reason="tool_use",
        model="claude-toy-20260101",
        usage=Usage(225, 48, 273, 200, 9, 0),
        id="msg_A2",
    ),
    "google-generate-content": Reading(
        text=FIG,
        tool_calls=(ToolCall(None, "count", {"of": ["fig"]}),),
        finish_reason="STOP",
        model="gemini-toy-001",
        usage=Usage(33, 26, 59, None, 7),
        id="g-A2",
    ),
    "google-generate-content-array": Reading(
        text=FIG,
        finish_reason="STOP",
        model="gemini-toy-001",
        usage=Usage(33, 11, 44),
        id="g-A3",
    ),
}
