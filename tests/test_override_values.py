"""What an override may hold: each value that cannot stand where it would is refused, with the
reason, before anything executes and before any byte is sent."""

import functools
import json
import math
import re

import fake_provider as fp
import pytest
from burr.core import ApplicationBuilder, State, action

from rewind_nb import ChatModel, Rewind, tool
from rewind_nb.capture._compose import compose, temperature_of
from rewind_nb.errors import ConfigError, NotEncodableError, OverrideError

ran = []


@tool
def weigh(item: str) -> dict:
    ran.append("weigh")
    return {"item": item, "grams": 120}


def shop(provider):
    model = ChatModel(provider.base_url, "toy")

    @action(reads=["item"], writes=["order", "reply"])
    def talk(state: State, shipping: str) -> State:
        ran.append("talk")
        found = weigh(state["item"])
        reply = model.chat(f"{json.dumps(found)} by {shipping}")
        return state.update(order={"price": 49.0, **found}, reply=reply.json())

    return (
        ApplicationBuilder()
        .with_actions(talk)
        .with_state(item="kettle")
        .with_entrypoint("talk")
        .build()
    )


@pytest.fixture(scope="module")
def shopped():
    """(Rewind, run, provider): one step with a tool call and a model call."""
    with fp.FakeProvider() as provider:
        rw = Rewind(shop(provider), store=":memory:")
        yield rw, rw.run(inputs={"shipping": "air"}), provider
        rw.store.close()


def refused(shopped, error, **override):
    """The error that a fork with this override raises; nothing executed."""
    rw, run, provider = shopped
    before = (len(ran), provider.count, len(rw.store.runs()))
    with pytest.raises(error) as caught:
        rw.fork(run, "talk", **override)
    assert (len(ran), provider.count, len(rw.store.runs())) == before
    return str(caught.value)


# -- values ------------------------------------------------------------------------------

WRONG = [
    ("temperature", -1, "takes a finite number, 0 or more; it got -1 (int)."),
    ("temperature", -0.1, "it got -0.1 (float)."),
    ("temperature", True, "it got True (bool)."),
    ("temperature", math.nan, "it got nan (float)."),
    ("temperature", math.inf, "it got inf (float)."),
    ("temperature", "0.5", "it got '0.5' (str)."),
    ("temperature", None, "it got None (NoneType)."),
    ("prompt", 3, "takes the text of the last user message, a str; it got 3 (int)."),
    ("prompt", True, "it got True (bool)."),
    ("prompt", b"x", "it got b'x' (bytes)."),
    ("prompt", None, "it got None (NoneType)."),
    ("prompt", "\ud800", "lone surrogate"),
    ("model", "", "takes the name of a model, a str; it got '' (str)."),
    ("model", " ", "it got ' ' (str)."),
    ("model", True, "it got True (bool)."),
    ("model", 5, "it got 5 (int)."),
    ("params", [1], "takes a dict of request fields by name, at least one"),
    ("params", {}, "it got {} (dict)."),
    ("params", {1: 2}, "it got {1: 2} (dict)."),
    ("params", {"temperature": -1}, "'temperature' in params= takes a finite number, 0 or more;"),
    ("params", {"temperature": True}, "it got True (bool)."),
    ("params", {"model": ""}, "'model' in params= takes the name of a model, a str; it got ''"),
    ("params", {"model": None}, "cannot remove 'model'"),
    ("params", {"messages": None}, "cannot remove 'messages'"),
    ("params", {"messages": [{"role": "x", "content": ""}]}, "messages[0] has the role 'x'"),
    ("params", {"messages": "x"}, "params= takes a list of messages"),
    ("params", {"stream": True}, "cannot ask for a stream"),
    ("params", {"top_p": math.nan}, "cannot be sent as JSON: it holds NaN or an infinity."),
    ("params", {"stop": {"a"}}, "cannot be sent as JSON: Object of type set"),
    ("response", {"no": "choices"}, "a whole body with 'choices'; it got {'no': 'choices'} (dict)"),
    ("response", 5, "it got 5 (int)."),
    ("response", {"choices": [math.inf]}, "it holds NaN or an infinity."),
    ("tool_args", {}, "takes a dict of the arguments to replace, at least one; it got {} (dict)."),
    ("tool_args", "pot", "it got 'pot' (str)."),
    ("tool_args", {"itme": "pot"}, "has no argument 'itme'. Did you mean 'item'?"),
    ("patch", {}, "patch is empty: it names nothing to change."),
    ("patch", [], "patch is empty: it names nothing to change."),
    ("patch", 5, "patch is of type int"),
    ("patch", True, "patch is of type bool"),
    ("patch", {5: 1}, "patch addresses 5, of type int: a path is a str."),
    ("patch", {True: 1}, "patch addresses True, of type bool: a path is a str."),
    ("patch", {"": 1}, "patch addresses the root"),
    ("patch", {"order.prise": 1}, "order has no key 'prise'"),
    ("patch", ["order"], "patch[0] is of type str: an operation is a dict."),
]


@pytest.mark.parametrize(
    ("kind", "value", "said"), WRONG, ids=[f"{kind}={value!r}"[:40] for kind, value, _ in WRONG]
)
def test_a_value_that_cannot_stand_there_is_refused_with_the_reason(kind, value, said, shopped):
    assert said in refused(shopped, OverrideError, **{kind: value})


@pytest.mark.parametrize(
    ("kind", "value", "said"), WRONG, ids=[f"{kind}={value!r}"[:40] for kind, value, _ in WRONG]
)
def test_what_a_callback_returns_is_held_to_the_same(kind, value, said, shopped):
    assert said in refused(shopped, OverrideError, **{kind: lambda recorded: value})


@pytest.mark.parametrize("value", [0.25, 1, 2])
def test_a_temperature_of_zero_or_more_is_sent_as_it_is(value, shopped):
    rw, run, provider = shopped
    rw.fork(run, "talk", temperature=value, cache="refresh")

    assert provider.requests[-1].json["temperature"] == value


@pytest.mark.parametrize("wrong", [-1, -0.5, True, math.nan, math.inf, -math.inf, "0.5"])
def test_a_client_takes_the_same_temperatures(wrong):
    assert temperature_of(0) == 0.0
    assert temperature_of(None) is None
    said = re.escape(f"temperature={wrong!r} is not a finite number of 0 or more.")
    with pytest.raises(ConfigError, match=said):
        temperature_of(wrong)


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ([{"role": "user", "content": "x"}, "hi"], "item 1 of the list of messages is of type str"),
        ([None], "item 0 of the list of messages is of type NoneType"),
        (b"hi", "must be a str or a list of messages .*, not bytes"),
        ({"role": "user"}, "must be a str or a list of messages .*, not dict"),
        ([], "the list of messages is empty"),
    ],
)
def test_a_prompt_that_is_none_says_what_is_wrong_with_it(prompt, said):
    with pytest.raises(ConfigError, match=said):
        compose("m", prompt, tool_result=None, params={})


@pytest.mark.parametrize("name", ["", "  ", 5, True])
def test_a_model_without_a_name_is_refused_by_the_client(name):
    with pytest.raises(ConfigError, match=f"model={name!r} is not the name of a model"):
        compose("m", "x", tool_result=None, params={"model": name})


# -- functions inside a value ------------------------------------------------------------

COMPUTED = "pass the function as the whole of it, and it is given what was recorded: output=lambda"


@pytest.mark.parametrize(
    ("override", "place"),
    [
        ({"output": {"order": lambda r: r}}, "order"),
        ({"output": {"order": {"price": round}}}, "order.price"),
        ({"patch": {"order.price": lambda r: r}}, "order.price"),
        ({"patch": [{"op": "replace", "path": "/order/price", "value": len}]}, "value"),
        ({"state": {"item": "pot".upper}}, "item"),
        ({"inputs": {"shipping": functools.partial(str, 1)}}, "shipping"),
        ({"params": {"seed": lambda r: r}}, "seed"),
        ({"messages": [{"role": "user", "content": lambda r: r}]}, "content"),
        ({"tool_args": {"item": lambda r: r}}, "item"),
        ({"tool_result": {"grams": lambda r: r}}, "grams"),
    ],
    ids=lambda part: part if isinstance(part, str) else next(iter(part)),
)
def test_a_function_inside_an_override_says_to_pass_it_as_the_whole(override, place, shopped):
    said = refused(shopped, NotEncodableError, **override)

    assert place in said.partition(" cannot be stored")[0]
    assert COMPUTED in said
    assert "register" not in said


def test_a_function_as_the_whole_of_it_is_given_what_was_recorded(shopped):
    rw, run, _ = shopped
    fork = rw.fork(
        run, "talk", output=lambda r: {"order": {**r["order"], "price": r["order"]["price"] + 1}}
    )

    assert fork.state["order"] == {**run.state["order"], "price": 50.0}


def test_a_list_of_messages_that_a_provider_would_refuse_is_refused(shopped):
    """The rest of them is in `test_wire`, for every format."""
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "a"}]}
    said = refused(shopped, OverrideError, messages=[call, {"role": "user", "content": "?"}])

    assert "messages[0]" in said
    assert "'a'" in said
