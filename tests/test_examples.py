"""The example applications that ship inside apache-burr, as they are: recorded, replayed, forked.

Their model is a local server that speaks OpenAI's format; the web search of the researcher is
answered by the same server. What they keep for themselves goes to a temporary home.
"""

import asyncio
import base64
import gc
import hashlib
import importlib
import importlib.metadata
import json
import socket
import sys
from urllib.parse import urlsplit

import pytest
import urllib3
import wire_server as ws
from example_server import USED, ModelServer

from rewind_nb import HttpPolicy, Rewind

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # the examples close nothing
]

OPENAI_KEY = "sk-proj-example0key7Qm2Xz81LtB4"
TAVILY_KEY = "tvly-dev-example0key5Rn3Wp60"
EXAMPLES = "burr.examples"


def forget():
    """So that the next import is one as in a new process."""
    for name in [name for name in sys.modules if name.startswith(f"{EXAMPLES}.")]:
        del sys.modules[name]


def load(name):
    return importlib.import_module(f"{EXAMPLES}.{name}")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """A home, a working directory and an environment of their own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    monkeypatch.setenv("TAVILY_API_KEY", TAVILY_KEY)
    forget()
    yield tmp_path
    forget()
    gc.collect()  # while what they left open may be warned about


@pytest.fixture
def model(monkeypatch):
    """A server whose mind each test sets; the SDK finds it by its own setting."""
    with ModelServer(lambda asked: "What?") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        yield server


@pytest.fixture
def loop():
    with asyncio.Runner() as runner:
        yield runner


def proved(do, server, run):
    """Replay a run: nothing may be sent, and nothing may differ.

    *do* calls a verb of the Rewind: of the one that recorded, or of one made later.
    """
    sent, ended = server.count, [step for step in run.steps if step.status != "interrupted"]
    proof = do("replay", run)
    assert proof.ok, proof
    assert (proof.live_calls, proof.tokens, proof.identical) == (0, 0, len(ended))
    assert not proof.code_changed
    again = [(step.hash, step.stream) for step in proof.run.steps]
    assert again == [(step.hash, step.stream) for step in ended]
    assert server.count == sent


def nothing_new(do, server, run):
    """The same, and fork it at every step without a change."""
    proved(do, server, run)
    sent, hashes = server.count, [step.hash for step in run.steps]
    for step in run.steps:
        fork = do("fork", run, step.seq, reuse="none")
        assert [step.hash for step in fork.steps] == hashes
        assert (fork.state, fork.status) == (run.state, run.status)
        assert [s.stream for s in fork.steps] == [s.stream for s in run.steps]
    assert server.count == sent


def verbs(rw, loop=None):
    """How to call a verb: its twin on *loop* where the application is async."""

    def do(name, *args, **kwargs):
        if loop is None:
            return getattr(rw, name)(*args, **kwargs)
        return loop.run(getattr(rw, f"a{name}")(*args, **kwargs))

    return do


def texts(run):
    return [c.text for step in run.steps for c in step.calls if c.kind == "model"]


# -- as they ship -------------------------------------------------------------------------------


def test_the_examples_are_the_ones_that_ship():
    files = importlib.metadata.files("apache-burr") or []
    modules = [f for f in files if f.match("burr/examples/*/*.py") and f.hash is not None]

    assert len({file.parent for file in modules}) == 5
    for file in modules:
        digest = hashlib.new(file.hash.mode, file.read_binary()).digest()
        assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == file.hash.value, file


# -- hello-world-counter ------------------------------------------------------------------------


def test_the_counter_is_recorded_and_forked_at_every_step(model, store, home):
    module = load("hello-world-counter.application")
    rw = Rewind(module.application(app_id="c", storage_dir=str(home)), store=store)
    run = rw.run(halt_after=["result"])

    assert [s.action for s in run.steps] == ["counter"] * 10 + ["result"]
    nothing_new(verbs(rw), model, run)
    fork = rw.fork(run, ("counter", 4), output={"counter": 8})
    assert [s.action for s in fork.steps] == ["counter"] * 6 + ["result"]
    assert rw.diff(run, fork).divergence.after == 8
    proved(verbs(rw), model, fork)
    assert model.count == 0


def test_the_class_based_counter_is_recorded_and_forked_at_every_step(model, store, home, capsys):
    module = load("hello-world-counter.application_classbased")
    rw = Rewind(module.application(app_id="c", storage_dir=str(home)), store=store)
    run = rw.run(halt_after=["result"], inputs={"increment_by": 3})

    assert run.state["counter"] == 12
    assert capsys.readouterr().out.split() == [run.id] * 4  # the id in its context
    nothing_new(verbs(rw), model, run)
    fork = rw.fork(run, ("counter", 2), inputs={"increment_by": 50})
    assert fork.state["counter"] == 53
    proved(verbs(rw), model, fork)


# -- email-assistant ----------------------------------------------------------------------------

EMAIL = "Let's schedule a meeting. When?"
HALTS = {
    "halt_before": ["clarify_instructions", "process_feedback"],
    "halt_after": ["final_result"],
}  # as its server halts


def secretary(asked):
    if "clarifying questions" in asked.prompt:
        clear = "briefly" in asked.prompt
        return "" if clear else "Which day?\nWhich hour?"
    tone = "Hi" if "warmer" in asked.prompt else "Dear colleague"
    return f"{tone}, {'Monday at noon' if 'Monday' in asked.prompt else 'any day'}."


def correspond(rw):
    """A user who answers the questions, wants another draft, and takes that."""
    said = {"email_to_respond": EMAIL, "response_instructions": "Say yes."}
    run = rw.run(inputs=said, **HALTS)
    assert run.next_action == "clarify_instructions"
    assert run.state["clarification_questions"] == ["Which day?", "Which hour?"]
    run = rw.resume(run, inputs={"clarification_inputs": ["Monday", "noon"]}, **HALTS)
    for feedback in ("Be warmer.", ""):
        assert run.next_action == "process_feedback"
        run = rw.resume(run, inputs={"feedback": feedback}, **HALTS)
    return run


def test_the_email_assistant_is_recorded_through_all_its_halts(model, store):
    model.mind = secretary
    rw = Rewind(load("email-assistant.application").application(app_id="e"), store=store)
    run = correspond(rw)

    assert [s.action for s in run.steps] == [
        "process_input", "determine_clarifications", "clarify_instructions", "formulate_draft",
        "process_feedback", "formulate_draft", "process_feedback", "final_result",
    ]  # fmt: skip
    assert (run.status, run.state["final_draft"]) == ("complete", "Hi, Monday at noon.")
    assert run.state["draft_history"] == ["Dear colleague, Monday at noon.", "Hi, Monday at noon."]
    assert (model.count, run.usage) == (3, USED + USED + USED)
    nothing_new(verbs(rw), model, run)

    forget()
    later = Rewind(load("email-assistant.application").application(app_id="f"), store=store)
    proved(verbs(later), model, run)


def test_the_email_assistant_forks_where_its_user_said_something_else(model, store):
    model.mind = secretary
    rw = Rewind(load("email-assistant.application").application(app_id="e"), store=store)
    run = correspond(rw)

    friday = rw.fork(run, "clarify_instructions", inputs={"clarification_inputs": ["Friday", "1"]})
    assert friday.state["final_draft"] == "Hi, any day."
    assert model.count == 5
    proved(verbs(rw), model, friday)

    # asked nothing, it goes another way, and needs no answers
    clear = rw.fork(run, "process_input", inputs={"response_instructions": "Say yes, briefly."})
    assert model.count == 8
    assert [s.action for s in clear.steps][:4] == [
        "process_input", "determine_clarifications", "formulate_draft", "process_feedback",
    ]  # fmt: skip
    assert clear.state["clarification_questions"] == []
    assert texts(clear)[0] == ""
    proved(verbs(rw), model, clear)

    silent = rw.fork(run, "determine_clarifications", response="")
    assert [s.action for s in silent.steps] == [s.action for s in clear.steps]
    proved(verbs(rw), model, silent)


# -- multi-modal-chatbot ------------------------------------------------------------------------


def artist(asked):
    """The chatbot asks which of its modes a prompt is for, then for the answer."""
    if "following modes" in asked.prompt:
        wanted = asked.prompt.partition("prompted this: ")[2]
        modes = {"draw": "generate_image", "code": "generate_code", "sing": "compose_music"}
        return modes.get(wanted.partition(" ")[0].lower(), "Answer_Question")
    return f"About {asked.prompt.partition(': ')[2] or asked.prompt}"


def draw(seen):
    """Answers of the images' endpoint; which is no model call, as it says nothing."""
    assert seen.path == "/v1/images/generations"
    url = f"http://127.0.0.1/{seen.json['prompt'].replace(' ', '-')}.png"
    return ws.json_reply({"created": 1767225600, "data": [{"url": url}]})


CHATS = {
    "Who was Aaron Burr?": ("answer_question", "text", "About Who was Aaron Burr?", 2),
    "Code a sort": ("generate_code", "code", "About Code a sort", 2),
    "Draw a duel": ("generate_image", "image", "http://127.0.0.1/Draw-a-duel.png", 2),
    "Sing it": ("prompt_for_more", "text", "None of the response modes I support", 1),
    "Something unsafe": (None, "error", "I'm sorry, I can't respond to that.", 0),
}


@pytest.mark.parametrize("prompt", CHATS)
def test_the_chatbot_answers_in_every_mode(prompt, model, store, home):
    model.mind, model.other = artist, draw
    module = load("multi-modal-chatbot.application")
    rw = Rewind(module.application(app_id="m", storage_dir=str(home)), store=store)
    run = rw.run(halt_after=["response"], inputs={"prompt": prompt})

    action, kind, content, requests = CHATS[prompt]
    assert action is None or run.steps[-2].action == action
    said = run.state["chat_history"][-1]
    assert said["content"].startswith(content)
    assert (said["role"], said["type"]) == ("assistant", kind)
    assert model.count == requests
    nothing_new(verbs(rw), model, run)


def test_the_chatbot_goes_on_with_its_history_and_forks_within_it(model, store, home):
    model.mind, model.other = artist, draw
    module = load("multi-modal-chatbot.application")
    rw = Rewind(module.application(app_id="m", storage_dir=str(home)), store=store)
    run = rw.run(halt_after=["response"], inputs={"prompt": "Who was Aaron Burr?"})
    run = rw.resume(run, inputs={"prompt": "Code a sort"}, halt_after=["response"])

    assert len(run) == 12
    assert [item["role"] for item in run.state["chat_history"]] == ["user", "assistant"] * 2
    assert len(model.asked[-1].turns) == 3  # the history goes along
    nothing_new(verbs(rw), model, run)

    count = model.count
    fork = rw.fork(run, ("decide_mode", 1), response="generate_image")
    assert [s.action for s in fork.steps][4] == "generate_image"
    assert fork.state["chat_history"][1]["type"] == "image"
    assert model.count == count + 2  # the picture, and what has it in its history
    assert len(fork) == len(run)
    proved(verbs(rw), model, fork)


# -- deep-researcher ----------------------------------------------------------------------------


def researcher(asked):
    (_, system), *_ = asked.turns
    if "targeted web search query" in system:
        return json.dumps({"query": "data science jobs", "aspect": "jobs", "rationale": "asked"})
    if "knowledge gap" in system:
        gap = "more" if "salaries" in asked.prompt else "salaries"
        return json.dumps({"knowledge_gap": "pay", "follow_up_query": f"{gap} of data scientists"})
    known = "Existing Summary" in asked.prompt
    found = asked.prompt.rpartition("Most relevant content from source: ")[2].partition("\n")[0]
    return f"<think>hm</think>{'And' if known else 'First'}: {found}"


def search(seen):
    """The search API of Tavily, from a fixture."""
    asked = seen.json
    assert (seen.path, seen.headers["host"]) == ("/search", "api.tavily.com")
    assert (asked["max_results"], asked["include_raw_content"]) == (1, True)
    slug = asked["query"].replace(" ", "-")
    found = {
        "title": asked["query"].title(),
        "url": f"https://example.org/{slug}",
        "content": f"all about {asked['query']}",
        "raw_content": f"A page on {asked['query']}. " * 300,
        "score": 0.9,
    }
    return ws.json_reply({"query": asked["query"], "results": [found], "response_time": 0.5})


@pytest.fixture
def web(model, monkeypatch):
    """Let every HTTPS connection of `requests` end at the server, without TLS."""
    address = urlsplit(model.url).hostname, urlsplit(model.url).port

    class Here(urllib3.connection.HTTPSConnection):
        is_verified = True

        def connect(self):
            self.sock = socket.create_connection(address)

    monkeypatch.setattr(urllib3.connectionpool.HTTPSConnectionPool, "ConnectionCls", Here)
    model.mind, model.other = researcher, search
    return model


def research(store, **settings):
    module = load("deep-researcher.application")
    rw = Rewind(module.application(app_id="d"), store=store, **settings)
    given = {"research_topic": "getting a job in datascience"}
    return rw, rw.run(halt_after=["finalize_summary"], inputs=given)


SEARCHED = """\
## Summary

And: all about salaries of data scientists

 ### Sources:
* Data Science Jobs : https://example.org/data-science-jobs
* Salaries Of Data Scientists : https://example.org/salaries-of-data-scientists"""


def test_the_researcher_is_recorded_with_its_searches(web, store):
    rw, run = research(store)

    around = ["web_research", "summarize_sources", "reflect_on_summary"]
    assert [s.action for s in run.steps] == ["generate_query", *around * 2, "finalize_summary"]
    assert run.state["running_summary"] == SEARCHED
    assert web.count == 7
    (found,) = run["web_research", 2].calls
    assert (found.kind, found.status) == ("http", "complete")
    assert found.request["url"] == "https://api.tavily.com/search"
    assert run.usage.total_tokens == 5 * USED.total_tokens
    assert [s.uncaptured for s in run.steps] == [()] * len(run)
    nothing_new(verbs(rw), web, run)

    forget()
    later = Rewind(load("deep-researcher.application").application(app_id="n"), store=store)
    proved(verbs(later), web, run)


def test_the_researcher_forks_where_the_web_said_something_else(web, store):
    rw, run = research(store, http=HttpPolicy(tools=["api.tavily.com/search"]))
    nothing_new(verbs(rw), web, run)
    found = {"title": "T", "url": "https://example.org/t", "content": "a lucky find"}

    count = web.count
    other = rw.fork(run, ("web_research", 1), tool_result={"results": [found]})
    assert [c.source for c in other["web_research", 1].calls] == ["override"]
    assert "* T : https://example.org/t" in other.state["running_summary"]
    assert web.count == count + 3  # both summaries, and what is asked about the first
    proved(verbs(rw), web, other)

    count = web.count
    asked = rw.fork(run, ("web_research", 2), tool_args={"query": "growth"})
    assert "all about growth" in asked.state["running_summary"]
    assert web.count == count + 3
    proved(verbs(rw), web, asked)

    mute = rw.fork(run, ("reflect_on_summary", 1), response='{"follow_up_query": ""}')
    assert "Tell me more about getting a job" in str(mute["web_research", 2].calls[0].request)
    proved(verbs(rw), web, mute)


# -- streaming-fastapi --------------------------------------------------------------------------


def poet(asked):
    if "following modes" in asked.prompt:
        wanted = asked.prompt.partition("prompted this: ")[2]
        return "generate_poem" if wanted.startswith("Rhyme") else "answer_question"
    return f"{asked.prompt.partition(': ')[0]} of {len(asked.turns)} turns"


async def streamed(app, module, prompt):
    """What its server sends on for a prompt."""
    _, container = await app.astream_result(
        halt_after=module.TERMINAL_ACTIONS, inputs={"prompt": prompt}
    )
    return [item["delta"] async for item in container]


def test_the_streaming_chatbot_streams_recorded_chunks(model, store, loop):
    model.mind = poet
    module = load("streaming-fastapi.application")
    rw = Rewind(module.application(app_id="s"), store=store)
    app, do = rw.application(), verbs(rw, loop)
    first = loop.run(streamed(app, module, "Who was Aaron Burr?"))
    second = loop.run(streamed(app, module, "Rhyme on him"))
    run = rw.last_run

    assert "".join(first) == "Please answer the following question of 1 turns"
    assert "".join(second) == "Please generate a poem based on the following prompt of 3 turns"
    assert len(second) > 5
    turns = [
        ["prompt", "check_safety", "decide_mode", m] for m in ("answer_question", "generate_poem")
    ]
    assert [s.action for s in run.steps] == sum(turns, [])
    assert [c["delta"] for c in run["generate_poem"].stream] == second
    assert (model.count, run.usage) == (4, USED + USED + USED + USED)
    nothing_new(do, model, run)

    fork = do("fork", run, ("decide_mode", 2), response="generate_code")
    assert model.count == 5
    assert [s.action for s in fork.steps] == [*[s.action for s in run.steps[:7]], "generate_code"]
    said = "".join(c["delta"] for c in fork["generate_code"].stream)
    assert fork.state["chat_history"][-1]["content"] == said
    assert (
        said
        == "Please respond with *only* code and no other text (at all) to the following of 3 turns"
    )
    proved(do, model, fork)


def test_a_reader_who_leaves_the_streaming_chatbot_is_no_answer(model, store, loop):
    model.mind = poet
    module = load("streaming-fastapi.application")
    rw = Rewind(module.application(app_id="s"), store=store)
    app, do = rw.application(), verbs(rw, loop)

    async def leave():
        given = {"prompt": "Who was Aaron Burr?"}
        _, container = await app.astream_result(halt_after=module.TERMINAL_ACTIONS, inputs=given)
        chunks = aiter(container)
        seen = [await anext(chunks), await anext(chunks)]
        await chunks.aclose()
        return seen

    seen = loop.run(leave())
    run = rw.last_run

    assert (run.status, run["answer_question"].status) == ("interrupted", "interrupted")
    assert list(run["answer_question"].stream) == seen
    proved(do, model, rw.store.run(run.id))
    whole = do("resume", run, halt_after=module.TERMINAL_ACTIONS)
    assert model.count == 3  # the answer once more, and nothing else
    assert whole.status == "halted"
    assert whole.state["response"]["content"].startswith("Please answer")
    proved(do, model, whole)


def test_the_streaming_chatbot_refuses_word_by_word(model, store, loop):
    module = load("streaming-fastapi.application")
    rw = Rewind(module.application(app_id="s"), store=store)
    app = rw.application()
    words = loop.run(streamed(app, module, "Something unsafe"))
    run = rw.last_run

    assert "".join(words) == "I am afraid I can't respond to that... "
    assert [c["delta"] for c in run["unsafe_response"].stream] == words
    nothing_new(verbs(rw, loop), model, run)
    assert model.count == 0
