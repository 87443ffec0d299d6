"""The providers' own SDKs, each said in the same few words: how to make a client, ask, and read.

A conversation is a list of (who, what) as in `example_server.Asked`: "system", "user", "model",
and for tools "wish" and "result".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import anthropic
import groq
import openai
from example_server import Wish
from google import genai
from mistralai.client import Mistral
from mistralai.client.utils import BackoffStrategy, RetryConfig

Turns = Sequence[tuple[str, str]]
KEYS = {  # no two alike, and none like another provider's
    "openai": "sk-proj-canary0openai4A7fQ2mXz81",
    "responses": "sk-proj-canary0responses9Kd3Wp",
    "anthropic": "sk-ant-api03-canary0anthropic-Vb5_tR",
    "groq": "gsk_canary0groq6Yh2LsEw0Qj8",
    "google": "AIzaSyCanary0google-3nBv_7Xc",
    "mistral": "Canary0mistral8Jk1Zq5PoW9e",
}
WEIGH = {"type": "object", "properties": {"what": {"type": "string"}}, "required": ["what"]}


@dataclass(frozen=True)
class Sdk:
    """One SDK.

    Attributes:
        make: a client, of a URL, a key, whether it is async, and how often it retries.
        send: of client, whether async, whether streaming, and the arguments of `request`.
        messages: a conversation as the ``messages=`` of an override: as it goes over the wire.
        text: of a whole answer; `piece` of a chunk.
        wish: what tool a whole answer asks for, None for none.
        wrong: the class of its errors.
    """

    name: str
    make: Callable[[str, str, bool, int], Any]
    request: Callable[..., dict[str, Any]]
    send: Callable[[Any, bool, bool, dict[str, Any]], Any]
    messages: Callable[[Turns], list[Any]]
    text: Callable[[Any], str]
    piece: Callable[[Any], str]
    wish: Callable[[Any], Wish | None]
    wrong: type[Exception]
    close: Callable[[Any], Any]
    aclose: Callable[[Any], Any]


# -- OpenAI chat completions; Groq and Mistral speak it too ------------------------------------


def chat_messages(turns: Turns) -> list[Any]:
    roles = {"model": "assistant"}
    return [_chat_message(roles.get(who, who), what) for who, what in turns]


def _chat_message(who: str, what: str) -> dict[str, Any]:
    if who == "wish":
        name, arguments = json.loads(what)
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"id": "call_1", "type": "function", "function": function}
        return {"role": "assistant", "content": "", "tool_calls": [call]}
    if who == "result":
        return {"role": "tool", "tool_call_id": "call_1", "content": what}
    return {"role": who, "content": what}


def chat_request(turns: Turns, temperature: float, tool: str | None = None) -> dict[str, Any]:
    asked = {"model": "toy", "messages": chat_messages(turns), "temperature": temperature}
    if tool is not None:
        asked["tools"] = [{"type": "function", "function": {"name": tool, "parameters": WEIGH}}]
    return asked


def chat_wish(answer: Any) -> Wish | None:
    calls = answer.choices[0].message.tool_calls
    if not calls:
        return None
    given = calls[0].function.arguments
    return Wish(calls[0].function.name, json.loads(given) if isinstance(given, str) else given)


def chat_piece(chunk: Any) -> str:
    return (chunk.choices[0].delta.content or "") if chunk.choices else ""


def send_openai(client: Any, is_async: bool, streams: bool, asked: dict[str, Any]) -> Any:
    if streams:
        asked = {**asked, "stream": True, "stream_options": {"include_usage": True}}
    return client.chat.completions.create(**asked)


def send_groq(client: Any, is_async: bool, streams: bool, asked: dict[str, Any]) -> Any:
    return client.chat.completions.create(**asked, stream=streams)


def make_openai(url: str, key: str, is_async: bool, retries: int = 0) -> Any:
    cls = openai.AsyncOpenAI if is_async else openai.OpenAI
    return cls(base_url=f"{url}/v1", api_key=key, max_retries=retries)


def make_groq(url: str, key: str, is_async: bool, retries: int = 0) -> Any:
    cls = groq.AsyncGroq if is_async else groq.Groq
    return cls(base_url=url, api_key=key, max_retries=retries)


OPENAI = Sdk(
    name="openai",
    make=make_openai,
    request=chat_request,
    send=send_openai,
    messages=chat_messages,
    text=lambda answer: answer.choices[0].message.content,
    piece=chat_piece,
    wish=chat_wish,
    wrong=openai.APIStatusError,
    close=lambda client: client.close(),
    aclose=lambda client: client.close(),
)
GROQ = Sdk(
    name="groq",
    make=make_groq,
    request=chat_request,
    send=send_groq,
    messages=chat_messages,
    text=OPENAI.text,
    piece=chat_piece,
    wish=chat_wish,
    wrong=groq.APIStatusError,
    close=OPENAI.close,
    aclose=OPENAI.aclose,
)


def make_mistral(url: str, key: str, is_async: bool, retries: int = 0) -> Any:
    waits = RetryConfig("backoff", BackoffStrategy(1, 2, 1.0, 2000), False) if retries else None
    return Mistral(server_url=url, api_key=key, retry_config=waits)


def send_mistral(client: Any, is_async: bool, streams: bool, asked: dict[str, Any]) -> Any:
    name = ("stream" if streams else "complete") + ("_async" if is_async else "")
    return getattr(client.chat, name)(**asked)


def _mistral_error() -> type[Exception]:
    from mistralai.client.errors import MistralError

    return MistralError


MISTRAL = Sdk(
    name="mistral",
    make=make_mistral,
    request=chat_request,
    send=send_mistral,
    messages=chat_messages,
    text=OPENAI.text,
    piece=lambda event: chat_piece(event.data),
    wish=chat_wish,
    wrong=_mistral_error(),
    close=lambda client: client.__exit__(None, None, None),
    aclose=lambda client: client.__aexit__(None, None, None),
)


# -- OpenAI responses --------------------------------------------------------------------------


def responses_messages(turns: Turns) -> list[Any]:
    return [_item(who, what) for who, what in turns]


def _item(who: str, what: str) -> dict[str, Any]:
    if who == "wish":
        name, arguments = json.loads(what)
        call = {"type": "function_call", "call_id": "call_1", "name": name}
        return {**call, "arguments": json.dumps(arguments)}
    if who == "result":
        return {"type": "function_call_output", "call_id": "call_1", "output": what}
    return {"role": {"model": "assistant"}.get(who, who), "content": what}


def responses_request(turns: Turns, temperature: float, tool: str | None = None) -> dict[str, Any]:
    asked = {"model": "toy", "input": responses_messages(turns), "temperature": temperature}
    if tool is not None:
        asked["tools"] = [{"type": "function", "name": tool, "parameters": WEIGH, "strict": False}]
    return asked


def responses_wish(answer: Any) -> Wish | None:
    calls = [item for item in answer.output if item.type == "function_call"]
    return Wish(calls[0].name, json.loads(calls[0].arguments)) if calls else None


RESPONSES = Sdk(
    name="responses",
    make=make_openai,
    request=responses_request,
    send=lambda client, _, streams, asked: client.responses.create(**asked, stream=streams),
    messages=responses_messages,
    text=lambda answer: answer.output_text,
    piece=lambda event: event.delta if event.type == "response.output_text.delta" else "",
    wish=responses_wish,
    wrong=openai.APIStatusError,
    close=OPENAI.close,
    aclose=OPENAI.aclose,
)


# -- Anthropic ---------------------------------------------------------------------------------


def make_anthropic(url: str, key: str, is_async: bool, retries: int = 0) -> Any:
    cls = anthropic.AsyncAnthropic if is_async else anthropic.Anthropic
    return cls(base_url=url, api_key=key, max_retries=retries)


def anthropic_messages(turns: Turns) -> list[Any]:
    return [_blocks(who, what) for who, what in turns if who != "system"]


def _blocks(who: str, what: str) -> dict[str, Any]:
    if who == "wish":
        name, arguments = json.loads(what)
        block = {"type": "tool_use", "id": "toolu_1", "name": name, "input": arguments}
        return {"role": "assistant", "content": [block]}
    if who == "result":
        block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": what}
        return {"role": "user", "content": [block]}
    return {"role": {"model": "assistant"}.get(who, who), "content": what}


def anthropic_request(turns: Turns, temperature: float, tool: str | None = None) -> dict[str, Any]:
    asked = {"model": "toy", "max_tokens": 99, "messages": anthropic_messages(turns)}
    asked["extra_body"] = {"temperature": temperature}  # older SDKs have an argument for it
    if system := "".join(what for who, what in turns if who == "system"):
        asked["system"] = system
    if tool is not None:
        asked["tools"] = [{"name": tool, "input_schema": WEIGH}]
    return asked


def anthropic_piece(event: Any) -> str:
    is_text = event.type == "content_block_delta" and event.delta.type == "text_delta"
    return event.delta.text if is_text else ""


def anthropic_wish(answer: Any) -> Wish | None:
    uses = [block for block in answer.content if block.type == "tool_use"]
    return Wish(uses[0].name, uses[0].input) if uses else None


ANTHROPIC = Sdk(
    name="anthropic",
    make=make_anthropic,
    request=anthropic_request,
    send=lambda client, _, streams, asked: client.messages.create(**asked, stream=streams),
    messages=anthropic_messages,
    text=lambda answer: "".join(b.text for b in answer.content if b.type == "text"),
    piece=anthropic_piece,
    wish=anthropic_wish,
    wrong=anthropic.APIStatusError,
    close=OPENAI.close,
    aclose=OPENAI.aclose,
)


# -- Google ------------------------------------------------------------------------------------


def make_google(url: str, key: str, is_async: bool, retries: int = 0) -> Any:
    waits = genai.types.HttpRetryOptions(
        attempts=retries + 1, initial_delay=0.001, max_delay=0.002, jitter=0
    )
    options = genai.types.HttpOptions(base_url=url, retry_options=waits if retries else None)
    return genai.Client(api_key=key, http_options=options)


def google_messages(turns: Turns) -> list[Any]:
    return [_content(who, what) for who, what in turns if who != "system"]


def _content(who: str, what: str) -> dict[str, Any]:
    if who == "wish":
        name, arguments = json.loads(what)
        return {"role": "model", "parts": [{"functionCall": {"name": name, "args": arguments}}]}
    if who == "result":
        response = {"name": "weigh", "response": {"result": what}}
        return {"role": "user", "parts": [{"functionResponse": response}]}
    return {"role": who, "parts": [{"text": what}]}


def google_request(turns: Turns, temperature: float, tool: str | None = None) -> dict[str, Any]:
    system = "".join(what for who, what in turns if who == "system")
    tools = None
    if tool is not None:
        declared = {"name": tool, "parameters_json_schema": WEIGH}
        tools = [genai.types.Tool(function_declarations=[declared])]
    config = genai.types.GenerateContentConfig(
        temperature=temperature, system_instruction=system or None, tools=tools
    )
    return {"model": "toy", "contents": google_messages(turns), "config": config}


def send_google(client: Any, is_async: bool, streams: bool, asked: dict[str, Any]) -> Any:
    models = client.aio.models if is_async else client.models
    return (models.generate_content_stream if streams else models.generate_content)(**asked)


def google_wish(answer: Any) -> Wish | None:
    calls = answer.function_calls
    return Wish(calls[0].name, calls[0].args) if calls else None


GOOGLE = Sdk(
    name="google",
    make=make_google,
    request=google_request,
    send=send_google,
    messages=google_messages,
    text=lambda answer: answer.text or "",
    piece=lambda chunk: chunk.text or "",
    wish=google_wish,
    wrong=genai.errors.APIError,
    close=lambda client: client.close(),
    aclose=lambda client: client.aio.aclose(),
)

SDKS = {sdk.name: sdk for sdk in (OPENAI, RESPONSES, ANTHROPIC, GROQ, GOOGLE, MISTRAL)}
