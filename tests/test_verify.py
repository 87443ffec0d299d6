"""Each check of `rewind verify` holds on the example, and fails on the thing it is there for."""

import ast
import dataclasses
import inspect
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from fake_provider import Answer, FakeProvider, garbage
from hypothesis import given
from hypothesis import strategies as st
from recorder import seal

from rewind_nb import Rewind, Store, demo
from rewind_nb.capture.chat import ChatModel
from rewind_nb.demo import recompute as recomputing
from rewind_nb.demo import verify as verifying
from rewind_nb.demo.offline import OfflineModel
from rewind_nb.demo.recompute import compare_analysis, compare_page, recompute
from rewind_nb.demo.verify import CHECKS, Edit, Verdict, footprint, gather, judge, verify_task

SETTINGS = ("REWIND_BASE_URL", "REWIND_MODEL", "REWIND_API_KEY")
LIVE = {name: os.environ[name] for name in SETTINGS if os.environ.get(name)}
TASKS = [task.id for task in demo.tasks()]


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def filed(tmp_path):
    with Store(tmp_path / "runs.db") as opened:
        yield opened


@pytest.fixture
def evidence(filed):
    return gather("penguins", filed)


def wire(model):
    """The offline model as a behaviour of a real HTTP server."""

    def behave(seen):
        url = f"http://127.0.0.1{seen.path}"
        response = model.handle_request(httpx.Request(seen.method, url, content=seen.body))
        return Answer(response.content, response.status_code, {"content-type": "application/json"})

    return behave


# -- they hold ---------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_every_check_holds_on_every_task(task, filed):
    found = list(verify_task(task, filed))
    assert [str(f) for f in found if not f.ok] == []
    assert len(found) == len(CHECKS) == 11


def test_every_check_holds_with_a_jittering_model_over_real_http(filed):
    offline = OfflineModel(jitter=1.0, seed=7)
    with FakeProvider(then=wire(offline)) as provider:
        model = ChatModel(provider.base_url, "toy")
        found = [*verify_task("weather", filed, model), *verify_task("weather", filed, model)]
    assert [str(f) for f in found if not f.ok] == []
    assert offline.calls == provider.count == 2 * (4 + 3)


def test_the_parent_is_asked_anew_whatever_the_store_holds(filed):
    offline = OfflineModel()
    model = demo.offline_model(offline)
    first, again = (gather("penguins", filed, model) for _ in range(2))
    assert again.run.usage == first.run.usage
    assert again.run.usage.total_tokens > 0


def test_every_function_that_gives_a_verdict_is_among_the_checks():
    functions = [f for _, f in inspect.getmembers(verifying, inspect.isfunction)]
    assert {f for f in functions if f.__annotations__.get("return") == "Verdict"} == set(CHECKS)


def test_a_finding_prints_its_verdict_its_sentence_and_its_figures(evidence):
    tokens = judge(verifying.the_replay_spent_no_token, evidence)
    paid = evidence.run.usage.total_tokens
    expected = (
        f"ok    the replay spent no token: 0 tokens, the parent's {paid}, answered by offline-1"
    )
    assert str(tokens) == expected


# -- and each of them can fail -----------------------------------------------------------

BREAKS = []


def breaks(*checks):
    """Marks a change to the evidence after which these checks fail."""

    def mark(change):
        BREAKS.append((change, checks))
        return change

    return mark


def replaced(evidence, **fields):
    return dataclasses.replace(evidence, **fields)


def proven(evidence, **fields):
    return replaced(evidence, proof=dataclasses.replace(evidence.proof, **fields))


def rewind(evidence, **settings):
    return Rewind(demo.build("penguins"), store=evidence.run.store, **settings)


def page(run):
    return run.artifacts[-1].path


@breaks("every_step_has_a_hashed_output")
def a_run_of_six_steps(e):
    return replaced(e, run=rewind(e).run(halt_after=["compose"]))


@breaks("every_step_has_a_hashed_output")
def a_step_whose_values_are_not_those_that_were_hashed(e):
    step, other = e.run.steps[3], e.run.steps[0]  # the steps are read once
    (key, _), *rest = step.row.writes
    writes = ((key, other.row.writes[0][1]), *rest)
    step.row = dataclasses.replace(step.row, writes=writes)
    return e


@breaks("every_step_has_a_hashed_output")
def a_step_whose_hash_is_not_that_of_its_row(e):
    e.run.steps[3].hash = "0" * 64
    return e


@breaks("every_step_has_a_hashed_output")
def a_step_without_an_output(e):
    step = e.run.steps[3]
    step.__dict__["writes"] = {}
    step.row = dataclasses.replace(step.row, writes=())
    return e


@breaks(
    "the_artifact_is_a_real_file",
    "the_replay_wrote_a_byte_identical_artifact",
    "the_published_numbers_are_recomputed_by_pandas",
)
def a_parent_whose_file_is_gone(e):
    page(e.run).unlink()
    return e


@breaks(
    "the_artifact_is_a_real_file",
    "the_replay_wrote_a_byte_identical_artifact",
    "the_published_numbers_are_recomputed_by_pandas",
)
def a_parent_whose_file_is_empty(e):
    page(e.run).write_bytes(b"")
    return e


@breaks("the_artifact_is_a_real_file", "the_replay_wrote_a_byte_identical_artifact")
def a_parent_whose_file_has_one_more_byte(e):
    page(e.run).write_bytes(page(e.run).read_bytes() + b"\n")
    return e


@breaks("the_artifact_is_a_real_file")
def a_state_that_names_another_hash(e):
    run = rewind(e).fork(e.run, at="publish", output={"published": {"sha256": "0" * 64}})
    run.__dict__["artifacts"] = e.run.artifacts
    return replaced(e, run=run)


@breaks("the_artifact_is_a_real_file", "the_fork_wrote_another_artifact")
def a_run_without_artifacts(e):
    return replaced(e, run=rewind(e).run(halt_after=["verify"]))


@breaks("the_fork_starts_at_node_3")
def a_fork_at_the_first_node(e):
    return replaced(e, fork=rewind(e).fork(e.run, at="plan", state={"question": "By island?"}))


@breaks("the_fork_starts_at_node_3")
def a_fork_at_the_fourth_node(e):
    return replaced(e, fork=rewind(e).fork(e.run, at="critique", temperature=0.7))


@breaks("the_fork_starts_at_node_3", "the_fork_wrote_another_artifact")
def a_fork_that_changes_nothing(e):
    return replaced(e, fork=rewind(e).fork(e.run, at="analyse"))


@breaks("the_fork_starts_at_node_3")
def a_fork_of_another_run(e):
    other = rewind(e).run(halt_after=["publish"])
    return replaced(e, fork=rewind(e).fork(other, at="analyse", patch={e.edit.path: 1.0}))


@breaks("the_fork_starts_at_node_3")
def a_fork_that_stops_after_two_changed_steps(e):
    patch = {e.edit.path: e.edit.after}
    return replaced(
        e, fork=rewind(e).fork(e.run, at="analyse", patch=patch, halt_after=["critique"])
    )


@breaks("the_diff_names_node_3_and_the_exact_field")
def a_diff_without_a_difference(e):
    return replaced(e, diff=rewind(e).diff(e.run, e.run))


@breaks("the_diff_names_node_3_and_the_exact_field")
def a_diff_that_names_a_neighbouring_field(e):
    patch = {e.edit.path.replace("total", "mean"): e.edit.after}
    fork = rewind(e).fork(e.run, at="analyse", patch=patch)
    return replaced(e, diff=rewind(e).diff(e.run, fork))


@breaks("the_diff_names_node_3_and_the_exact_field")
def a_diff_that_names_another_value(e):
    return replaced(e, edit=e.edit._replace(after=e.edit.after + 0.001))


@breaks("the_diff_names_node_3_and_the_exact_field")
def a_diff_that_starts_at_an_earlier_node(e):
    fork = rewind(e).fork(e.run, at="plan", patch={"plan.why": "Because."})
    return replaced(e, diff=rewind(e).diff(e.run, fork), edit=Edit("plan.why", 0, 0))


@breaks("the_replay_played_every_call_back")
def a_replay_that_asked_a_model(e):
    return proven(e, run=rewind(e).run(halt_after=["publish"], cache="refresh"))


@breaks("the_replay_played_every_call_back")
def a_replay_that_left_the_first_steps_out(e):
    return proven(e, run=rewind(e).replay(e.run, start="critique").run)


@breaks("the_replay_played_every_call_back")
def a_proof_that_counts_a_live_call(e):
    return proven(e, live_calls=1)


@breaks("the_replay_played_every_call_back", "the_replay_spent_no_token")
def a_parent_without_calls(e):
    fork = rewind(e).fork(e.run, at="publish")
    return replaced(e, run=fork, proof=dataclasses.replace(e.proof, run=fork))


@breaks("the_replay_spent_no_token", "the_replay_has_identical_hashes")
def a_replay_that_spent_a_token(e):
    return proven(e, tokens=1)


@breaks("the_replay_spent_no_token", "the_replay_has_identical_hashes")
def a_replay_whose_tokens_are_unknown(e):
    return proven(e, tokens=None)


@breaks("the_replay_spent_no_token")
def a_parent_that_paid_nothing(e):
    return replaced(e, run=rewind(e, cache="auto").run(halt_after=["publish"]))


@breaks("the_replay_has_identical_hashes", "the_replay_wrote_a_byte_identical_artifact")
def a_replay_of_the_fork(e):
    return replaced(e, proof=rewind(e).replay(e.fork))


@breaks("the_replay_has_identical_hashes")
def a_proof_of_another_run(e):
    other = rewind(e).run(halt_after=["publish"])
    return replaced(e, proof=rewind(e).replay(other))


@breaks("the_replay_has_identical_hashes")
def a_replay_that_stopped_early(e):
    return proven(e, run=rewind(e).run(halt_after=["verify"]))


@breaks("the_replay_has_identical_hashes")
def a_proof_that_is_not_ok(e):
    return proven(e, identical=7)


@breaks("the_replay_wrote_a_byte_identical_artifact")
def a_replay_whose_file_differs_in_one_byte(e):
    file = page(e.proof.run)
    file.write_bytes(file.read_bytes().replace(b"Gentoo", b"gentoo", 1))
    return e


@breaks("the_replay_wrote_a_byte_identical_artifact")
def a_replay_that_wrote_no_file_of_its_own(e):
    return proven(e, run=e.run)


@breaks("the_fork_wrote_another_artifact")
def a_fork_whose_file_is_the_parents(e):
    page(e.fork).write_bytes(page(e.run).read_bytes())
    return e


@breaks("the_parent_is_unchanged")
def a_parent_with_a_row_rewritten_and_sealed_again(e):
    sealed = seal(e.run["plan"].row, duration_s=99.0)
    return changed_on_disk(
        e,
        f"UPDATE steps SET duration_s = 99.0, row_hash = '{sealed.row_hash}' "
        "WHERE run_id = ? AND seq = 0",
    )


@breaks("the_parent_is_unchanged")
def a_parent_with_a_row_changed_behind_the_store(e):
    return changed_on_disk(e, "UPDATE steps SET duration_s = 99 WHERE run_id = ?")


@breaks("the_parent_is_unchanged")
def a_parent_with_a_call_changed_behind_the_store(e):
    return changed_on_disk(e, "UPDATE calls SET answered_by = 'a friend' WHERE run_id = ?")


@breaks("the_parent_is_unchanged")
def a_parent_whose_tip_moved(e):
    return changed_on_disk(e, "UPDATE runs SET note = 'was here' WHERE id = ?")


@breaks("the_parent_is_unchanged")
def a_parent_with_a_step_taken_away(e):
    return changed_on_disk(e, "DELETE FROM steps WHERE seq = 7 AND run_id = ?")


@breaks("the_parent_is_unchanged")
def a_parent_with_other_artifact_bytes_in_the_store(e):
    return changed_on_disk(
        e,
        "UPDATE blobs SET body = X'00' WHERE sha256 IN"
        " (SELECT sha256 FROM artifacts WHERE run_id = ?)",
    )


def changed_on_disk(e, sql):
    connection = sqlite3.connect(e.run.store.path)
    with connection:
        assert connection.execute(sql, [e.run.id]).rowcount > 0
    connection.close()
    return e


@breaks("the_published_numbers_are_recomputed_by_pandas")
def a_page_with_one_wrong_number_in_its_text(e):
    return published(e, "Gentoo (5,076.016)", "Gentoo (5,076.017)")


@breaks("the_published_numbers_are_recomputed_by_pandas")
def a_page_with_one_wrong_cell(e):
    return published(e, "| Adelie | 151 |", "| Adelie | 152 |")


@breaks("the_published_numbers_are_recomputed_by_pandas")
def a_page_with_two_right_numbers_in_each_others_cells(e):
    changed = published(e, "| Adelie | 151 |", "| Adelie | 123 |")
    return published(changed, "| Gentoo | 123 |", "| Gentoo | 151 |")


@breaks("the_published_numbers_are_recomputed_by_pandas")
def a_page_that_is_not_text(e):
    page(e.run).write_bytes(b"\xff\xfe\x00")
    return e


@breaks("the_published_numbers_are_recomputed_by_pandas")
def the_page_of_a_fork_with_a_changed_number(e):
    return replaced(e, run=e.fork)


@breaks("the_published_numbers_are_recomputed_by_pandas")
def an_analysis_that_no_longer_is_that_of_the_table(e):
    run = rewind(e).fork(
        e.run, at="analyse", patch={"analysis.overall.mean": 1.0}, halt_after=["analyse"]
    )
    run.__dict__["artifacts"] = e.run.artifacts
    return replaced(e, run=run)


def published(e, old, new):
    text = page(e.run).read_text()
    assert old in text
    page(e.run).write_text(text.replace(old, new))
    return e


@pytest.mark.parametrize(("change", "checks"), BREAKS, ids=[c.__name__ for c, _ in BREAKS])
def test_a_check_fails_on(change, checks, evidence):
    functions = [getattr(verifying, name) for name in checks]
    assert all(judge(function, evidence).ok for function in functions)
    broken = change(evidence)
    for name, function in zip(checks, functions, strict=True):
        found = judge(function, broken)
        assert not found.ok, found
        assert str(found).startswith(f"FAIL  {name.replace('_', ' ')}: ")


def test_no_check_goes_unbroken():
    assert {name for _, checks in BREAKS for name in checks} == {c.__name__ for c in CHECKS}


def test_a_pipeline_that_fails_is_one_failed_finding_that_says_why(filed):
    with FakeProvider(garbage()) as provider:
        [found] = verify_task("penguins", filed, ChatModel(provider.base_url, "toy"))
    assert not found.ok
    assert "plan: " in found.figures
    assert filed.runs()[0].id in found.figures


def test_a_bug_in_a_check_is_not_taken_for_a_verdict(evidence):
    def the_check_has_a_bug(e) -> Verdict:
        return e.no_such_attribute

    with pytest.raises(AttributeError):
        judge(the_check_has_a_bug, evidence)


def test_the_footprint_of_a_run_survives_forks_replays_and_a_resume_of_its_fork(evidence):
    rw = rewind(evidence)
    fork = rw.fork(evidence.run, at="plan", halt_after=["plan"])
    rw.resume(fork, halt_after=["publish"])
    rw.replay(fork)
    assert footprint(evidence.run) == evidence.before


# -- the recomputation -------------------------------------------------------------------


def test_the_recomputation_imports_nothing_of_the_package():
    tree = ast.parse(Path(recomputing.__file__).read_text())
    modules = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            modules.append("." * node.level + (node.module or ""))
    assert modules
    assert not [name for name in modules if name.startswith((".", "rewind_nb"))]


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A table that can be worked out by hand; the plan for it."""
    rows = ["year,mass,length", "2008,2,1", "2007,4,1", "2007,NA,1", "2008,6,3", ",9,9", "2007,8,"]
    file = tmp_path / "toy.csv"
    file.write_text("\n".join(rows) + "\n")
    monkeypatch.setattr(recomputing, "_table", lambda _: file)
    ratio = {"numerator": "mass", "denominator": "length"}
    return {"table": "toy", "group_by": "year", "measures": ["mass"], "ratio": ratio}


def test_groups_keep_the_order_of_the_table_and_rows_that_lack_a_number_are_left_out(toy):
    numbers = recompute(toy)
    assert list(numbers) == ["2008", "2007", "all"]
    assert numbers["2008"] == {"count": 2, "mean": 4.0, "total": 8.0, "ratio": 2.0}
    assert numbers["2007"] == {"count": 1, "mean": 4.0, "total": 4.0, "ratio": 4.0}
    assert numbers["all"] == {"count": 3, "mean": 4.0, "total": 12.0, "ratio": 2.4}


def test_a_ratio_to_nothing_is_unknown(toy):
    toy["ratio"]["denominator"] = "nothing"
    file = recomputing._table("toy")
    lines = file.read_text().splitlines()
    file.write_text("\n".join([lines[0] + ",nothing", *(line + ",0" for line in lines[1:])]))
    assert {n["ratio"] for n in recompute(toy).values()} == {None}


def test_a_year_in_prose_is_the_group_and_not_a_number(toy):
    numbers = recompute(toy)
    assert compare_page("In 2007 the mean was 4, in 2008 the total was 8.", numbers).wrong == ()
    assert compare_page("In 2007 the ratio was 2.0.", numbers).wrong
    assert compare_page("In 2009 the ratio was 4.", numbers).wrong


@pytest.mark.parametrize("lacking", ["group", "statistic"])
def test_an_analysis_that_lacks_something_is_wrong(toy, lacking):
    numbers = recompute(toy)
    analysis = {
        "groups": {n: dict(numbers[n]) for n in ("2007", "2008")},
        "overall": numbers["all"],
    }
    assert compare_analysis(analysis, numbers).ok
    if lacking == "group":
        del analysis["groups"]["2007"]
    else:
        del analysis["groups"]["2007"]["ratio"]
    assert not compare_analysis(analysis, numbers).ok


def test_an_analysis_of_a_group_that_the_table_lacks_is_wrong(toy):
    numbers = recompute(toy)
    groups = {name: numbers[name] for name in ("2007", "2008")} | {"2009": numbers["2007"]}
    assert not compare_analysis({"groups": groups, "overall": numbers["all"]}, numbers).ok


def test_a_page_without_numbers_is_not_a_right_page(toy):
    assert not compare_page("The later year is heavier.", recompute(toy)).ok


values = st.floats(min_value=-1e6, max_value=1e6).map(lambda v: round(v, 6))


@given(value=values, decimals=st.integers(0, 6))
def test_a_number_is_right_however_far_it_is_rounded_and_wrong_beyond(value, decimals):
    numbers = {"A": {"mean": value}, "all": {"mean": 2e9}}
    unit = 10.0**-decimals
    assert compare_page(f"A has {value:,.{decimals}f}.", numbers).wrong == ()
    far = value + 2 * max(unit, 0.001) * (1 if value >= 0 else -1)
    assert len(compare_page(f"A has {far:,.{decimals}f}.", numbers).wrong) == 1


# -- against a provider ------------------------------------------------------------------


@pytest.mark.live
@pytest.mark.skipif(
    "REWIND_BASE_URL" not in LIVE,
    reason="set REWIND_BASE_URL, REWIND_MODEL and REWIND_API_KEY to verify against a provider",
)
def test_verify_holds_against_the_provider_at_rewind_base_url(tmp_path):
    env = {name: value for name, value in os.environ.items() if not name.startswith("REWIND_")}
    done = subprocess.run(
        [sys.executable, "-m", "rewind_nb.cli", "verify"],
        cwd=tmp_path,
        env={**env, **LIVE},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert LIVE["REWIND_BASE_URL"].split("//")[-1].split("/")[0] in done.stdout
