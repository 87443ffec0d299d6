"""`ChatModel`: an OpenAI-compatible chat client that a replay can trust.

One plain POST per attempt, through `CapturedTransport(DeadlineTransport(inner))`:
inside a step the outer transport records or plays back, the inner one keeps the
clock. The client has no cache and no memory of its own: what it sends next
depends on the answers to this call alone, so that played-back answers lead to the
same requests. It does not even remember that a server refuses `response_format`.

The key is in a request only while that is being sent. An exception of `httpx`
holds the request and frames that hold its headers, so none is chained to ours:
errors are raised outside the `except` block, what `httpx` said is kept as a note
and as the attribute `cause`.

429 and 5xx are tried again, after the server's Retry-After or 0.5, 1, 2, ...
seconds, both capped. A connection that fails is not: it fails at once.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from rewind_nb._secrets import Secret, secret_problem
from rewind_nb.capture._attempts import Attempts, Limits
from rewind_nb.capture._clients import Bearer, Clients, endpoint
from rewind_nb.capture._completion import ChatReply
from rewind_nb.capture._compose import compose, temperature_of, to_json
from rewind_nb.capture._context import current_step
from rewind_nb.errors import ConfigError

__all__ = ["ChatModel", "ChatReply"]

Prompt = str | Sequence[Mapping[str, Any]]

JSON_OBJECT = {"type": "json_object"}


class ChatModel:
    """A chat model behind an OpenAI-compatible `/chat/completions`.

    Usable from many threads and event loops. Clients are made on first use and
    closed with the object, or by `close` and `aclose`.

    Args:
        base_url: where the API is, such as ``https://api.openai.com/v1``;
            else the environment variable ``REWIND_BASE_URL``.
        model: the model to ask; else ``REWIND_MODEL``.
        api_key: sent as a bearer token; else ``REWIND_API_KEY``, else none is sent.
        temperature: sent with every request; None sends none.
        max_retries: further attempts after 429 and 5xx.
        deadline: seconds of wall clock for one call, its retries included.
        retry_after_cap: the longest pause between two attempts, in seconds.
        max_bytes: the largest decoded answer, in bytes.
        transport: an `httpx` transport in place of the network.
        async_transport: the same for `achat`, where `transport` cannot do both.
        params: further fields of every request body.

    Raises:
        ConfigError: a setting is missing or cannot work. A key is never quoted.

    Example:
        >>> def answer(request):
        ...     message = {"role": "assistant", "content": '{"ok": true}'}
        ...     return httpx.Response(200, json={"choices": [{"message": message}]})
        >>> model = ChatModel("http://toy.invalid", "toy", transport=httpx.MockTransport(answer))
        >>> model.chat("Answer in JSON: is it ok?").json()
        {'ok': True}
    """

    # A verbose traceback shows the object whose settings were refused.
    _base_url: str = ""
    _model: str = ""
    _temperature: float | None = None
    _auth: Bearer | None = None

    def __init__(
        self,
        base_url: str | None = None,
        model: str | None = None,
        api_key: str | Secret | None = None,
        *,
        temperature: float | None = 0.0,
        max_retries: int = 2,
        deadline: float = 120.0,
        retry_after_cap: float = 20.0,
        max_bytes: int = 64 << 20,
        transport: httpx.BaseTransport | None = None,
        async_transport: httpx.AsyncBaseTransport | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> None:
        key = _key(api_key)
        del api_key  # verbose tracebacks print the locals of this frame
        if isinstance(key, ConfigError):
            raise key
        self._auth = None if key is None else Bearer(key)
        self._base_url = _setting("base_url", base_url).rstrip("/")
        self._url = endpoint(self._base_url)
        self._model = _setting("model", model)
        self._temperature = temperature_of(temperature)
        self._params = dict(params or {})
        self._limits = Limits(max_retries, deadline, retry_after_cap, max_bytes)
        given = tuple(t for t in (transport, async_transport) if t is not None)
        self._clients = Clients(self._url, deadline, max_bytes, given)

    @property
    def settings(self) -> dict[str, Any]:
        """What may be shown and stored; of the key, only whether there is one."""
        return {
            "base_url": self._base_url,
            "model": self._model,
            "temperature": self._temperature,
            "has_key": self._auth is not None,
        }

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"ChatModel({shown})"

    def chat(
        self,
        prompt: Prompt,
        *,
        tool_result: Any = None,
        json: bool = True,
        step: str | None = None,
        **params: Any,
    ) -> ChatReply:
        """Ask once and wait for the whole answer.

        Args:
            prompt: the text of one user message, or a list of messages.
            tool_result: a value to append to the last user message as JSON; the
                fingerprint of the call holds it as a part of its own.
            json: ask the server for a JSON object (`response_format`); where it
                answers 400 and names that field, it is asked once more without.
            step: the step to name in errors; the running one if None.
            **params: fields of this request's body, over those of the constructor;
                None leaves one out.

        Raises:
            ProviderError: no usable answer; its subclasses say why, `raw` is attached.
            ConfigError: the prompt or a parameter cannot be sent.
            NotEncodableError: a value has no JSON form.
        """
        attempts = self._attempts(prompt, tool_result, json, step, params)
        while True:
            outcome = attempts.judge(self._post(attempts))
            if isinstance(outcome, ChatReply):
                return outcome
            time.sleep(outcome)

    async def achat(
        self,
        prompt: Prompt,
        *,
        tool_result: Any = None,
        json: bool = True,
        step: str | None = None,
        **params: Any,
    ) -> ChatReply:
        """`chat` for asyncio."""
        attempts = self._attempts(prompt, tool_result, json, step, params)
        while True:
            outcome = attempts.judge(await self._apost(attempts))
            if isinstance(outcome, ChatReply):
                return outcome
            await asyncio.sleep(outcome)

    def _attempts(
        self,
        prompt: Prompt,
        tool_result: Any,
        json: bool,
        step: str | None,
        params: Mapping[str, Any],
    ) -> Attempts:
        given = {"temperature": self._temperature, **self._params, **params}
        given["temperature"] = temperature_of(given["temperature"])
        ours = json and "response_format" not in given
        wanted = {"response_format": JSON_OBJECT} if ours else {}
        text = None if tool_result is None else to_json(tool_result, "tool_result")
        body = compose(self._model, prompt, tool_result=text, params=wanted | given)
        step = step or _running_step()
        return Attempts(str(self._url), body, step, text, self._limits, may_drop_format=ours)

    def _post(self, attempts: Attempts) -> httpx.Response:
        client = self._clients.sync()
        try:
            return client.send(self._request(client, attempts), auth=self._auth)
        except httpx.HTTPError as error:
            failure = attempts.failure(error)
        raise failure

    async def _apost(self, attempts: Attempts) -> httpx.Response:
        client = await self._clients.asynchronous()
        try:
            return await client.send(self._request(client, attempts), auth=self._auth)
        except httpx.HTTPError as error:
            failure = attempts.failure(error)
        raise failure

    def _request(
        self, client: httpx.Client | httpx.AsyncClient, attempts: Attempts
    ) -> httpx.Request:
        content, extensions = attempts.content(), attempts.extensions()
        return client.build_request("POST", self._url, content=content, extensions=extensions)

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""
        self._clients.close()

    async def aclose(self) -> None:
        """Close the connections, those of the running event loop included."""
        await self._clients.aclose()


def _setting(name: str, value: str | None) -> str:
    variable = f"REWIND_{name.upper()}"
    value = value or os.environ.get(variable)
    if not value or not isinstance(value, str):
        raise ConfigError(f"there is no {name}. Pass {name}= or set {variable}.", variable=variable)
    return value


def _key(value: str | Secret | None) -> Secret | ConfigError | None:
    """The error is returned: raised here, its traceback would hold this frame's locals."""
    name = "REWIND_API_KEY" if value is None else "api_key"
    value = os.environ.get(name) or None if value is None else value
    if value is None or isinstance(value, Secret):
        return value
    problem = secret_problem(value)
    return ConfigError(f"{name}: {problem}") if problem else Secret(value)


def _running_step() -> str:
    running = current_step()
    return "model" if running is None else running.action
