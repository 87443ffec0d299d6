"""Laws of the example pipeline: real computation, an honest offline model, checked numbers."""

import asyncio
import copy
import csv
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pandas as pd
import pytest
from burr.core import ApplicationBuilder, State
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rewind_nb import demo
from rewind_nb.capture.chat import ChatModel
from rewind_nb.demo import offline, pipeline, tables
from rewind_nb.demo.offline import BASE_URL, OfflineModel, count_tokens
from rewind_nb.demo.offline_answers import WORDINGS, answer
from rewind_nb.demo.tools import check_numbers, group_statistics, load_rows
from rewind_nb.errors import ConfigError, StepFailure

TASKS = ["penguins", "weather"]
STEPS = ["plan", "research", "analyse", "critique", "revise", "compose", "verify", "publish"]
NUMERAL = re.compile(r"(?<!\w)\d[\d,]*(?:\.\d+)?")


@pytest.fixture(autouse=True)
def offline_and_apart(monkeypatch, tmp_path):
    for name in ("REWIND_BASE_URL", "REWIND_MODEL", "REWIND_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REWIND_ARTIFACT_DIR", str(tmp_path / "artifacts"))


def finish(task="penguins", *, at="plan", state=None, **options):
    """Run the application from one action on and return the state it ends with."""
    app = demo.build(task, **options)
    if state is not None:
        builder = ApplicationBuilder().with_graph(app.graph).with_entrypoint(at)
        app = builder.with_state(State(state)).build()
    *_, final = app.run(halt_after=demo.HALT_AFTER, inputs=demo.INPUTS)
    return own(final)


def own(state):
    return {key: value for key, value in state.get_all().items() if not key.startswith("__")}


def before(final, action):
    """The state that entered an action, from the final one."""
    writes = ["plan", "research", "analysis", "critique", "claims", "text", "verification"]
    later = [*writes, "published"][STEPS.index(action) :]
    return {key: copy.deepcopy(value) for key, value in final.items() if key not in later}


def post(transport, body):
    with httpx.Client(transport=transport, base_url=BASE_URL) as client:
        return client.post("/chat/completions", json=body)


def request(prompt, model="offline-1", temperature=0.0, **more):
    messages = [{"role": "user", "content": prompt}]
    return {"model": model, "messages": messages, "temperature": temperature, **more}


def content(response):
    return response.json()["choices"][0]["message"]["content"]


def prompts_of(task):
    """The four prompts of a run, as they went over the wire."""
    seen = []

    class Listening(OfflineModel):
        def handle_request(self, request):
            seen.append(json.loads(request.read())["messages"][-1]["content"])
            return super().handle_request(request)

    finish(task, model=demo.offline_model(Listening()))
    return dict(zip(["plan", "critique", "revise", "compose"], seen, strict=True))


@pytest.fixture(scope="module")
def finals():
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("REWIND_BASE_URL", raising=False)
        patch.setenv("REWIND_ARTIFACT_DIR", "/dev/null/never-written")
        patch.setattr(pipeline, "artifact", Recorded)
        return {task: finish(task) for task in TASKS}


class Recorded:
    """Stands for an artifact where a test does not look at files."""

    def __init__(self, name, data):
        self.name, self.sha256 = name, str(hash(data))


# -- the pipeline under bare Burr --------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_the_bare_burr_application_runs_its_eight_steps_in_order(task):
    app = demo.build(task)
    ran = [step.name for step, _, _ in app.iterate(halt_after=demo.HALT_AFTER)]
    assert ran == STEPS


@pytest.mark.parametrize("task", TASKS)
def test_the_page_is_published_as_a_file_with_the_text(task, tmp_path):
    final = finish(task)
    [page] = tmp_path.rglob(f"{task}.md")
    assert final["text"].strip() in page.read_text(encoding="utf-8")
    assert final["published"]["artifact"] == f"{task}.md"


def test_the_application_runs_the_same_under_async_burr():
    async def run():
        *_, final = await demo.build("penguins").arun(halt_after=demo.HALT_AFTER)
        return own(final)

    assert asyncio.run(run()) == finish("penguins")


def test_two_runs_end_in_the_same_state(finals):
    assert {k: v for k, v in finish("weather").items() if k != "published"} == {
        k: v for k, v in finals["weather"].items() if k != "published"
    }


@pytest.mark.parametrize("task", TASKS)
def test_no_path_and_no_clock_enters_the_state(task, tmp_path):
    written = json.dumps(finish(task))
    assert str(tmp_path) not in written
    assert not re.search(r"20[2-9]\d-\d\d-\d\d", written)


@pytest.mark.parametrize("task", TASKS)
def test_the_state_stays_small_enough_for_a_prompt(finals, task):
    assert len(json.dumps(finals[task])) < 50_000


@pytest.mark.parametrize("task", TASKS)
def test_every_model_prompt_embeds_the_whole_state_as_json(finals, task):
    for step, prompt in prompts_of(task).items():
        embedded = json.loads(prompt.split("The state, as JSON:\n")[1])
        state = {key: value for key, value in embedded.items() if not key.startswith("__")}
        assert state == before(finals[task], step)
        assert "JSON" in prompt.split("The state")[0]


def test_each_node_that_asks_a_model_asks_once():
    transport = OfflineModel()
    finish("penguins", model=demo.offline_model(transport))
    assert transport.calls == 4


# -- the numbers -------------------------------------------------------------------


@pytest.mark.parametrize("task", demo.tasks(), ids=lambda task: task.id)
def test_the_published_numbers_are_those_of_pandas(finals, task):
    frame = pd.read_csv(demo.data_folder() / f"{task.table}.csv")
    measure = task.measures[0]
    over, under = task.ratio["numerator"], task.ratio["denominator"]
    frame = frame.dropna(subset=[task.group_by, *task.measures])
    rows = dict(iter(frame.groupby(task.group_by))) | {"all": frame}
    cells = [line.strip("| ").split(" | ") for line in finals[task.id]["text"].splitlines()]
    stated = {name: numbers for name, *numbers in cells if len(numbers) == 4 and name in rows}
    assert stated.keys() == rows.keys()
    for name, group in rows.items():
        total = group[measure].sum()
        expected = [len(group), total / len(group), total, group[over].sum() / group[under].sum()]
        numbers = [float(number.replace(",", "")) for number in stated[name]]
        assert numbers == pytest.approx(expected, abs=0.0005)


def test_rows_that_lack_a_measure_are_left_out_and_counted():
    rows = load_rows("penguins", "species", ["body_mass_g"])
    assert (rows["kept"], rows["dropped"]) == (342, 2)
    assert sum(len(group["body_mass_g"]) for group in rows["values"].values()) == 342


@given(
    st.lists(st.sampled_from([1e16, -1e16, 1.0, 0.3]), min_size=3, max_size=30),
    st.permutations(range(30)),
)
def test_a_total_does_not_depend_on_the_order_of_the_rows(numbers, order):
    ratio = {"numerator": "x", "denominator": "x"}
    shuffled = [numbers[i] for i in order if i < len(numbers)]
    one, two = (group_statistics({"A": {"x": n}}, "x", ratio) for n in (numbers, shuffled))
    assert one == two


def test_a_ratio_to_nothing_is_unknown_and_not_a_number():
    values = {"dry": {"rain": [0.0, 0.0], "wet": [0, 0]}}
    analysis = group_statistics(values, "rain", {"numerator": "rain", "denominator": "wet"})
    assert analysis["groups"]["dry"] == {"count": 2, "mean": 0.0, "total": 0.0, "ratio": None}


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("penguin", "species", ["body_mass_g"]), "Did you mean 'penguins'?"),
        (("../data/penguins", "species", ["body_mass_g"]), "Did you mean 'penguins'?"),
        (("penguins", "specie", ["body_mass_g"]), "Did you mean 'species'?"),
        (("penguins", "species", ["body_mass"]), "Did you mean 'body_mass_g'"),
        (("penguins", "species", ["island"]), "Choose a measure column."),
    ],
)
def test_a_plan_that_the_table_cannot_serve_fails_research(arguments, hint):
    with pytest.raises(StepFailure, match=r"^research: ") as caught:
        load_rows(*arguments)
    assert hint in str(caught.value)
    assert caught.value.step == "research"


# -- verify ------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_every_number_of_the_text_is_checked(finals, task):
    text, checked = finals[task]["text"], finals[task]["verification"]["checked"]
    assert [entry["stated"] for entry in checked] == NUMERAL.findall(text)
    assert finals[task]["verification"]["numbers"] == len(checked) > 20


@pytest.mark.parametrize("task", TASKS)
def test_any_one_wrong_number_fails_verify(finals, task):
    text, analysis = finals[task]["text"], finals[task]["analysis"]
    for numeral in NUMERAL.finditer(text):
        digit = "7" if text[numeral.start()] != "7" else "6"
        wrong = text[: numeral.start()] + digit + text[numeral.start() + 1 :]
        with pytest.raises(StepFailure, match="verify") as caught:
            check_numbers(wrong, analysis)
        assert caught.value.raw == wrong
        assert caught.value.stated == digit + numeral[0][1:]


def test_a_right_number_in_the_wrong_place_fails_verify(finals):
    analysis = finals["penguins"]["analysis"]
    table = "| species | count | mean | total | ratio |\n|---|---|---|---|---|\n"
    right = "| Adelie | 151 | 3,700.66 | 558,800 | 19.48 |"
    assert len(check_numbers(table + right, analysis)) == 4
    for wrong in (
        "| Gentoo | 151 | 3,700.66 | 558,800 | 19.48 |",
        "| Adelie | 151 | 558,800 | 3,700.66 | 19.48 |",
        "| all | 151 | 3,700.66 | 558,800 | 19.48 |",
    ):
        with pytest.raises(StepFailure):
            check_numbers(table + wrong, analysis)
    check_numbers("The Adelie total is 558,800 g.", analysis)
    for prose in ("The Gentoo total is 558,800 g.", "The total is 558,800 g."):
        with pytest.raises(StepFailure):
            check_numbers(prose, analysis)


@pytest.mark.parametrize(
    "stated", ["3,700.662", "3700.66", "3,701", "**3,700.7**", "(3700.66g)", "3,700.66."]
)
def test_a_number_may_be_rounded_and_dressed(finals, stated):
    assert check_numbers(f"Adelie: mean {stated}", finals["penguins"]["analysis"])


@pytest.mark.parametrize(
    "stated",
    [
        "3,700",
        "3 700.66",
        "3.700,66",
        "-3,700.662",
        "\u22123,700.662",
        "3,700.67",
        "37,00.662",
        "1e3",
    ],
)
def test_a_number_that_reads_as_another_one_fails(finals, stated):
    with pytest.raises(StepFailure):
        check_numbers(f"Adelie: mean {stated}", finals["penguins"]["analysis"])


def test_a_text_without_numbers_fails_verify(finals):
    with pytest.raises(StepFailure, match="states no number"):
        check_numbers("Adelie is light. The data are CC0.", finals["penguins"]["analysis"])


def test_a_group_called_by_a_number_is_a_name(finals):
    state = finals["weather"] | {"question": "How does each year compare?"}
    final = finish("weather", at="plan", state=before(state, "plan"))
    assert list(final["analysis"]["groups"]) == ["2012", "2013", "2014", "2015"]
    assert final["verification"]["numbers"] > 20
    with pytest.raises(StepFailure):
        check_numbers("In 2012 and 2016 it rained.", final["analysis"])


# -- what a change does ------------------------------------------------------------


def test_a_changed_total_is_carried_to_a_different_page(finals):
    state = before(finals["penguins"], "critique")
    state["analysis"]["groups"]["Adelie"]["total"] = 700000.5
    final = finish(at="critique", state=state)
    assert final["critique"] != finals["penguins"]["critique"]
    assert final["critique"]["largest"] == "Adelie"
    assert final["critique"]["verdict"] == "doubtful"
    assert "700,000.5" in final["text"]
    assert "558,800" not in final["text"]
    assert final["published"]["sha256"] != finish()["published"]["sha256"]


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_one_changed_statistic_changes_the_text_and_still_verifies(finals, data):
    state = before(finals["weather"], "critique")
    group = data.draw(st.sampled_from(sorted(state["analysis"]["groups"])))
    statistic = data.draw(st.sampled_from(["count", "mean", "total", "ratio"]))
    old = state["analysis"]["groups"][group][statistic]
    whole = st.integers(1, 10**6)
    new = data.draw(
        whole if statistic == "count" else st.floats(0.001, 1e6).map(lambda n: round(n, 3))
    )
    state["analysis"]["groups"][group][statistic] = new
    for step in ("critique", "revise", "compose"):
        state = own(apply(step, state))
    changed = state["text"] != finals["weather"]["text"]
    assert changed == (new != old)
    assert check_numbers(state["text"], state["analysis"])


def apply(step, state):
    app = demo.build("weather")
    bare = ApplicationBuilder().with_graph(app.graph).with_entrypoint(step)
    *_, after = bare.with_state(State(state)).build().run(halt_after=[step])
    return after


def test_a_stale_number_in_a_claim_fails_verify(finals):
    state = before(finals["penguins"], "compose")
    state["analysis"]["groups"]["Gentoo"]["total"] = 1.0
    with pytest.raises(StepFailure, match="'624,350'"):
        finish(at="compose", state=state)


def test_a_question_about_another_group_column_regroups_the_table():
    state = demo.find_task("penguins").to_state() | {"question": "Which islands have the heaviest?"}
    final = finish(state=state)
    assert set(final["analysis"]["groups"]) == {"Torgersen", "Biscoe", "Dream"}
    assert "| Biscoe | " in final["text"]


# -- the offline model -------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_the_offline_answer_depends_on_the_prompt_alone(task, monkeypatch, tmp_path):
    prompts = prompts_of(task)
    first = [post(OfflineModel(), request(prompt)).content for prompt in prompts.values()]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tables, "_PACKAGE", tmp_path / "no" / "data" / "here")
    again = OfflineModel()
    backwards = [post(again, request(prompt)).content for prompt in reversed(prompts.values())]
    assert backwards[::-1] == first


def test_an_async_client_gets_the_same_answer():
    prompt = prompts_of("penguins")["compose"]

    async def ask():
        async with httpx.AsyncClient(transport=OfflineModel(), base_url=BASE_URL) as client:
            return await client.post("/chat/completions", json=request(prompt))

    assert asyncio.run(ask()).content == post(OfflineModel(), request(prompt)).content


def test_the_chat_client_of_the_example_asks_async_as_well():
    prompt = prompts_of("penguins")["revise"]
    model = demo.offline_model()
    reply = asyncio.run(model.achat(prompt, step="revise"))
    assert reply.json() == model.chat(prompt, step="revise").json()
    assert reply.answered_by == "offline-1"


@pytest.mark.parametrize("task", TASKS)
def test_jitter_rewords_and_never_touches_a_fact(finals, task, monkeypatch):
    monkeypatch.setattr(pipeline, "artifact", Recorded)
    plain, texts = finals[task], set()
    for seed in range(50):
        final = finish(task, jitter=True, seed=seed)
        assert final["analysis"] == plain["analysis"]
        assert NUMERAL.findall(final["text"]) == NUMERAL.findall(plain["text"])
        texts.add(final["text"])
    assert len(texts) > 20
    assert plain["text"] not in texts


def test_with_jitter_a_repeated_request_is_worded_differently():
    transport = OfflineModel(jitter=True, seed=3)
    for prompt in prompts_of("penguins").values():
        answers = [content(post(transport, request(prompt))) for _ in range(30)]
        assert all(one != two for one, two in zip(answers, answers[1:], strict=False))


def test_a_seed_fixes_the_order_of_the_wordings():
    prompt = prompts_of("weather")["revise"]
    one, two, other = (OfflineModel(jitter=0.5, seed=seed) for seed in (7, 7, 8))
    series = [[content(post(t, request(prompt))) for _ in range(20)] for t in (one, two, other)]
    assert series[0] == series[1] != series[2]


def test_without_jitter_the_same_prompt_gets_the_same_answer():
    transport = OfflineModel()
    prompt = prompts_of("penguins")["critique"]
    assert len({post(transport, request(prompt)).content for _ in range(5)}) == 1


@pytest.mark.parametrize("step", ["plan", "critique", "revise", "compose"])
def test_no_two_wordings_read_the_same(step):
    prompt = prompts_of("penguins")[step]
    answers = [json.dumps(answer(prompt, wording)) for wording in range(WORDINGS)]
    assert len(set(answers)) == WORDINGS
    assert len({tuple(re.findall(r"\d+", text)) for text in answers}) == 1


@pytest.mark.parametrize(
    "change", [{"model": "offline-2"}, {"temperature": 0.5}, {"temperature": 1.0}]
)
def test_another_model_or_temperature_words_it_differently(change):
    for prompt in prompts_of("penguins").values():
        plain = post(OfflineModel(), request(prompt))
        other, again = (post(OfflineModel(), request(prompt, **change)) for _ in range(2))
        assert content(other) != content(plain)
        assert content(other) == content(again)
        assert re.findall(r"\d+", content(other)) == re.findall(r"\d+", content(plain))


def test_the_answer_names_the_offline_model_whatever_was_asked_for():
    prompt = prompts_of("penguins")["plan"]
    for asked, answered in [("offline-2", "offline-2"), ("big-provider-5", "offline-1")]:
        reply = post(OfflineModel(), request(prompt, model=asked)).json()
        assert reply["model"] == answered
        assert reply["id"].startswith("offline-")


def test_usage_counts_the_words_and_marks_of_prompt_and_answer():
    assert count_tokens('{"a": [1.5, true]}') == len('{ " a " : [ 1 . 5 , true ] }'.split())
    prompt = prompts_of("penguins")["revise"]
    response = post(OfflineModel(), request(prompt))
    asked, given_ = count_tokens(prompt), count_tokens(content(response))
    assert response.json()["usage"] == {
        "prompt_tokens": asked,
        "completion_tokens": given_,
        "total_tokens": asked + given_,
    }
    longer = post(OfflineModel(), request(prompt + " word word")).json()["usage"]
    assert longer["prompt_tokens"] == asked + 2


def test_the_instructions_of_a_prompt_are_followed():
    prompts = prompts_of("weather")
    ratio = json.loads(
        content(post(OfflineModel(), request("Focus on the ratio. " + prompts["critique"])))
    )
    assert ratio["emphasis"] == "ratio"
    brief, plain = (
        json.loads(content(post(OfflineModel(), request(words + prompts["compose"]))))["markdown"]
        for words in ("Be brief. ", "")
    )
    assert len(brief) < len(plain)


STATELESS = f"{pipeline.REVISE}\n{json.dumps(pipeline.REVISE_SHAPE)}"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (request("Tell me a joke."), "no JSON object with the keys"),
        (request(STATELESS), "the state in the prompt has no 'analysis'"),
        (request(STATELESS, stream=True), "does not stream"),
        ({"model": "offline-1"}, "KeyError: 'messages'"),
        ({"model": 5, "messages": []}, "AttributeError"),
        ([1, 2], "AttributeError"),
        (request("Tell me", temperature="warm"), "ValueError"),
    ],
)
def test_what_the_offline_model_cannot_answer_is_a_400_with_the_reason(body, reason):
    transport = OfflineModel()
    response = post(transport, body)
    assert response.status_code == 400
    assert reason in response.json()["error"]["message"]
    assert "offline model" in response.json()["error"]["message"]
    assert "response_format" not in response.text
    assert transport.calls == 1


def test_a_number_turned_into_text_is_a_400_and_no_guess(finals):
    state = before(finals["penguins"], "critique")
    state["analysis"]["groups"]["Adelie"]["total"] = "many"
    prompt = json.dumps(pipeline.CRITIQUE_SHAPE) + json.dumps(state)
    assert post(OfflineModel(), request(prompt)).status_code == 400


def test_only_chat_completions_exist():
    with httpx.Client(transport=OfflineModel(), base_url=BASE_URL) as client:
        assert client.get("/models").status_code == 404


@pytest.mark.parametrize("jitter", [-0.1, 1.5])
def test_a_jitter_that_is_no_share_is_refused(jitter):
    with pytest.raises(ConfigError, match="not a share"):
        OfflineModel(jitter=jitter)


# -- a model that answers something else -------------------------------------------


def answering(text):
    reply = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "offline-1",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=reply))
    return ChatModel(BASE_URL, "offline-1", transport=transport, async_transport=transport)


PLAN = {
    "table": "penguins",
    "group_by": "species",
    "measures": ["body_mass_g"],
    "ratio": {"numerator": "body_mass_g", "denominator": "flipper_length_mm"},
    "why": "because",
}


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"table": None}, "answer.table is None, not text"),
        ({"group_by": ""}, "answer.group_by is '', not text"),
        ({"measures": []}, "answer.measures is empty"),
        ({"measures": "body_mass_g"}, "answer.measures is 'body_mass_g', not a list"),
        ({"ratio": {"numerator": "body_mass_g"}}, "answer.ratio.denominator is None, not text"),
    ],
)
def test_an_answer_of_another_shape_fails_the_step_with_the_raw_text(change, fact):
    raw = json.dumps(PLAN | change)
    with pytest.raises(StepFailure) as caught:
        finish(model=answering(raw))
    assert str(caught.value).startswith(f"plan: the model's {fact}")
    assert caught.value.raw == raw


def test_an_answer_that_is_no_json_fails_the_step():
    with pytest.raises(StepFailure) as caught:
        finish(model=answering("Sure! Here is the plan."))
    assert caught.value.step == "plan"


def test_what_a_model_adds_unasked_does_not_enter_the_state():
    app = demo.build(model=answering(json.dumps(PLAN | {"mood": "good"})))
    *_, state = app.run(halt_after=["plan"])
    assert state["plan"] == PLAN


# -- choosing model and task -------------------------------------------------------


def test_the_default_model_is_the_offline_one_unless_a_provider_is_set(monkeypatch):
    assert demo.default_model().settings["model"] == "offline-1"
    monkeypatch.setenv("REWIND_BASE_URL", "http://127.0.0.1:9/v1")
    with pytest.raises(ConfigError, match="REWIND_MODEL"):
        demo.default_model()
    monkeypatch.setenv("REWIND_MODEL", "some-model")
    assert demo.default_model().settings["model"] == "some-model"
    with pytest.raises(ConfigError, match="jitter"):
        demo.build(jitter=True)


def test_jitter_beside_a_given_model_is_refused():
    with pytest.raises(ConfigError, match="jitter"):
        demo.build(model=demo.offline_model(), jitter=0.5)


def test_an_unknown_task_lists_the_near_misses():
    with pytest.raises(ConfigError, match="Did you mean 'penguins'"):
        demo.build("penguin")


# -- the data ----------------------------------------------------------------------


@pytest.mark.parametrize("task", demo.tasks(), ids=lambda task: task.id)
def test_a_task_names_real_columns_of_a_table_of_300_rows(task):
    with (demo.data_folder() / f"{task.table}.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 300
    assert {task.group_by} <= set(task.group_columns) <= set(rows[0])
    assert {*task.measures, *task.ratio.values()} <= set(task.measure_columns) <= set(rows[0])


@pytest.mark.parametrize("task", demo.tasks(), ids=lambda task: task.id)
def test_whatever_a_task_adds_to_the_page_has_no_number_to_check(task):
    assert not re.search(r"\d", " ".join([task.title, task.source, *task.facts]))


def test_the_derived_columns_of_the_weather_follow_from_the_others():
    frame = pd.read_csv(demo.data_folder() / "seattle_weather.csv", parse_dates=["date"])
    seasons = ["winter", "spring", "summer", "autumn"]
    assert (frame["date"].diff().dropna() == pd.Timedelta(days=1)).all()
    assert (frame["year"] == frame["date"].dt.year).all()
    assert list(frame["season"]) == [seasons[month % 12 // 3] for month in frame["date"].dt.month]
    assert (frame["wet_day"] == (frame["precipitation_mm"] >= 1.0).astype(int)).all()


def test_every_data_file_is_described():
    described = (demo.data_folder() / "README.md").read_text(encoding="utf-8")
    files = {path.name for path in demo.data_folder().iterdir()}
    tables_ = {"penguins.csv", "seattle_weather.csv"}
    assert files == {*tables_, "tasks.json", "travel.json", "README.md"}
    assert all(f"## `{name}`" in described for name in files - {"README.md"})


def test_data_inside_the_package_wins_over_data_beside_it(monkeypatch, tmp_path):
    package = tmp_path / "site" / "rewind_nb" / "demo"
    monkeypatch.setattr(tables, "_PACKAGE", package)
    with pytest.raises(ConfigError, match="Reinstall"):
        demo.data_folder()
    for folder in (tmp_path / "site" / "data", package / "data"):
        folder.mkdir(parents=True)
        (folder / "tasks.json").write_text("[]")
        assert demo.data_folder() == folder


def test_an_installed_copy_runs_in_an_empty_folder(tmp_path):
    source = Path(demo.__file__).resolve().parents[1]
    site, empty = tmp_path / "site", tmp_path / "empty"
    empty.mkdir()
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, site / "rewind_nb", ignore=ignore)
    target = site / "rewind_nb" / "demo" / "data"
    if not target.exists():
        shutil.copytree(demo.data_folder(), target)
    script = (
        "from rewind_nb import demo; import sys\n"
        "app = demo.build('weather'); app.run(halt_after=demo.HALT_AFTER)\n"
        "print(app.state['published']['artifact'], demo.__file__)\n"
    )
    env = {"PYTHONPATH": str(site), "REWIND_ARTIFACT_DIR": "out", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=empty, env=env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["weather.md", str(site / "rewind_nb" / "demo" / "__init__.py")]
    assert [path.name for path in (empty / "out").rglob("*.md")] == ["weather.md"]


def test_the_wire_error_body_of_the_offline_model_is_the_providers():
    error = offline._error(400, "no").json()["error"]
    assert error == {"message": "no", "type": "invalid_request_error", "code": "offline_model"}
