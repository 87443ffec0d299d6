"""The `rewind` command: what it prints, how it fails, and what it leaves behind."""

import hashlib
import importlib.metadata
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import httpx
import pytest
from click.testing import CliRunner
from fake_provider import Answer, FakeProvider, completion, echo_key, garbage
from recorder import create

import rewind_nb
from rewind_nb import Rewind, Store, _about, cli, demo
from rewind_nb.demo import story
from rewind_nb.demo import verify as verifying
from rewind_nb.demo.offline import OfflineModel
from rewind_nb.demo.verify import Verdict
from rewind_nb.errors import ProviderUnreachableError, StepFailure

CHECKOUT = Path(rewind_nb.__file__).resolve().parents[1]
KEY = "sk-test-0123456789abcdef"


@pytest.fixture(autouse=True)
def apart(monkeypatch, tmp_path):
    """An empty current folder and an empty folder for temporary ones."""
    for name in [name for name in os.environ if name.startswith("REWIND_")]:
        monkeypatch.delenv(name)
    for name in ("here", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path / "here")


@pytest.fixture
def temporary(tmp_path):
    return tmp_path / "temporary"


@pytest.fixture
def rewind():
    return lambda *arguments: CliRunner().invoke(cli.main, [str(a) for a in arguments])


def start(tmp_path, *arguments, site=None, **settings):
    """The command in a process of its own, in an empty folder."""
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path / "temporary"), **settings}
    if site is not None:
        env["PYTHONPATH"] = str(site)
    return subprocess.Popen(
        [sys.executable, "-m", "rewind_nb.cli", *map(str, arguments)],
        cwd=tmp_path / "here",
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def provider(*script, offline=None):
    """A real server that answers the example's prompts, after what the script says."""
    model = offline or OfflineModel()

    def answer(seen):
        request = httpx.Request(seen.method, f"http://127.0.0.1{seen.path}", content=seen.body)
        response = model.handle_request(request)
        return Answer(response.content, response.status_code, {"content-type": "application/json"})

    return FakeProvider(*script, then=answer)


def settings(server, model="toy"):
    return {"REWIND_BASE_URL": server.base_url, "REWIND_MODEL": model, "REWIND_API_KEY": KEY}


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def recorded(store):
    with Store(store, read_only=True) as opened:
        return [run.id for run in opened.runs()]


# -- demo --------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [task.id for task in demo.tasks()])
def test_the_demo_shows_the_graph_the_diff_and_the_proof(task, rewind):
    done = rewind("demo", "--task", task)
    assert done.exit_code == 0, done.output
    graph, fork, diff, proof = re.split(r"\n\n?\d\. \w+", done.output)[1:]
    assert "analyse" in diff
    assert "analysis.groups." in diff
    assert "replace analysis.groups." in fork
    assert re.search(r"r_\w+", graph)
    assert "Proof ok: 8/8 steps identical, 0 live calls, 0 tokens" in proof


def test_the_demo_names_the_offline_model_as_offline(rewind):
    out = rewind("demo").output
    assert "Model: offline-1, offline (no network, no key)." in out
    assert "Model calls: 4 live, 0 played back; answered by offline-1." in out


def test_the_demo_names_the_provider_asked_and_the_model_that_answered(rewind, monkeypatch):
    with provider() as server:
        for name, value in settings(server).items():
            monkeypatch.setenv(name, value)
        out = rewind("demo").output
    assert f"Model: toy, of the provider at {server.base_url}." in out
    assert "answered by offline-1" in out
    assert KEY not in out


def test_the_demo_writes_into_a_temporary_folder_that_it_leaves_and_names(rewind, temporary):
    out = rewind("demo").output
    [folder] = temporary.iterdir()
    assert files(Path.cwd()) == []
    assert f"rewind runs --store {folder / 'runs.db'}" in out
    assert len(recorded(folder / "runs.db")) == 3
    assert len(list((folder / "artifacts").rglob("penguins.md"))) == 3
    assert "REWIND_ARTIFACT_DIR" not in os.environ


def test_the_demo_uses_the_store_and_folder_that_the_user_set(rewind, monkeypatch, temporary):
    monkeypatch.setenv("REWIND_STORE", "mine/runs.db")
    monkeypatch.setenv("REWIND_ARTIFACT_DIR", "pages")
    assert rewind("demo").exit_code == 0
    assert len(recorded("mine/runs.db")) == 3
    assert len(list(Path("pages").rglob("*.md"))) == 3
    assert rewind("demo", "--store", "other.db").exit_code == 0
    assert len(recorded("other.db")) == len(recorded("mine/runs.db")) == 3
    assert files(temporary) == []
    assert os.environ["REWIND_ARTIFACT_DIR"] == "pages"


def test_a_second_demo_on_a_store_plays_back_and_refresh_asks_anew(rewind):
    assert "4 live, 0 played back" in rewind("demo", "--store", "a.db").output
    assert "0 live, 4 played back" in rewind("demo", "--store", "a.db").output
    out = rewind("demo", "--store", "a.db", "--refresh").output
    assert re.findall(r"\d live, \d played back", out) == [
        "4 live, 0 played back",
        "3 live, 0 played back",
    ]


def test_a_demo_whose_replay_differs_does_not_exit_0(rewind, monkeypatch):
    monkeypatch.setattr("rewind_nb._proof.Proof.ok", False)
    done = rewind("demo")
    assert done.exit_code == 1
    assert "The replay is not identical" in done.stderr


def test_the_demo_of_isolation_says_of_each_step_whether_it_executed_and_why(rewind, temporary):
    done = rewind("demo", "--isolation")
    assert done.exit_code == 0, done.output
    [folder] = temporary.iterdir()
    for line in (
        r"3 plan_indoors +executed +2 +\d+",
        r"5 describe_room +reused +- +-  nothing it read changed",
        r"5 describe_room +reused +- +-  the same +executed +1 +\d+  changed",
        r"8 publish +converged +- +-  converged at seq 3",
    ):
        assert re.search(line, done.output)
    assert "offline-1, offline (no network, no key)" in done.output
    assert "04_isolation.ipynb in Jupyter" in done.output
    assert len(recorded(folder / "runs.db")) == 5
    assert len(list((folder / "artifacts").rglob("trip.md"))) == 5


def test_the_demo_of_isolation_asks_a_provider_where_one_is_set(rewind, monkeypatch):
    with provider() as server:
        for name, value in settings(server).items():
            monkeypatch.setenv(name, value)
        done = rewind("demo", "--isolation")
    assert done.exit_code == 0, done.output
    assert server.count == 4 + 2 + 3
    assert KEY not in done.output


def test_the_demo_of_isolation_has_one_task(rewind, temporary):
    done = rewind("demo", "--isolation", "--task", "weather")
    assert done.exit_code == 2
    assert "--task is of the first example" in done.stderr
    assert files(temporary) == []


def site(tmp_path):
    """The package laid out as the wheel lays it out (pyproject's force-include)."""
    layout = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    wheel = layout["tool"]["hatch"]["build"]["targets"]["wheel"]
    root = tmp_path / "site"
    for package in wheel["packages"]:
        caches = shutil.ignore_patterns("__pycache__", "data")
        shutil.copytree(CHECKOUT / package, root / package, ignore=caches)
    for source, target in wheel["force-include"].items():
        shutil.copytree(CHECKOUT / source, root / target)
    return root


def test_the_demo_works_from_an_installed_package_in_an_empty_folder(tmp_path):
    code, out, err = finish(start(tmp_path, "demo", site=site(tmp_path)))
    assert (code, err) == (0, "")
    assert files(tmp_path / "here") == []
    assert "the notebooks are in the source checkout" in out
    snippet = re.search(r"Store\('(.+)'\)\.run\('(\w+)'\)", out)
    with Store(snippet[1], read_only=True) as opened:
        assert opened.run(snippet[2]).kind == "record"


def test_the_demo_in_a_checkout_names_the_notebook_to_open_next(tmp_path):
    root = site(tmp_path)
    notebook = root / "notebooks" / "01_quickstart.ipynb"
    notebook.parent.mkdir()
    notebook.write_text("{}")
    code, out, _ = finish(start(tmp_path, "demo", site=root))
    assert code == 0
    assert f"open {notebook} in Jupyter" in out


# -- a provider that is switched off -----------------------------------------------------


def test_with_everything_cached_and_the_endpoint_dead_the_demo_still_completes(tmp_path):
    with provider() as server:
        first = finish(start(tmp_path, "demo", "--store", "a.db", **settings(server)))
        asked = server.count
    again = finish(start(tmp_path, "demo", "--store", "a.db", **settings(server)))
    assert (first[0], again[0]) == (0, 0), first[2] + again[2]
    assert asked == 4 + 3
    assert "Model calls: 0 live, 4 played back; answered by offline-1." in again[1]
    assert "Model calls: 0 live, 3 played back; answered by offline-1." in again[1]
    assert "Proof ok" in again[1]


def test_with_the_endpoint_dead_a_forced_miss_fails_at_once_with_the_transport_error(tmp_path):
    with provider() as server:
        finish(start(tmp_path, "demo", "--store", "a.db", **settings(server)))
    store = tmp_path / "here" / "a.db"
    before = recorded(store)
    dead = start(tmp_path, "demo", "--store", "a.db", "--refresh", **settings(server))
    code, out, err = finish(dead)
    [failed] = set(recorded(store)) - set(before)
    assert code == 1
    assert "Proof" not in out
    for part in ("no connection to the provider", "ConnectError", failed, f"rewind show {failed}"):
        assert part in err
    assert "Traceback" not in err
    assert len(err.strip().splitlines()) == 1
    with Store(store, read_only=True) as opened:
        run = opened.run(failed)
        assert (run.status, len(run), len(run["plan"].calls)) == ("failed", 1, 1)
        assert run["plan"].error.type.endswith("ProviderUnreachableError")


def test_the_transport_error_is_attached_to_the_exception(monkeypatch, tmp_path):
    with provider() as server:
        for name, value in settings(server).items():
            monkeypatch.setenv(name, value)
        rw = Rewind(demo.build("penguins"), store=tmp_path / "a.db")
        run = rw.run(halt_after=demo.HALT_AFTER)
    assert rw.run(halt_after=demo.HALT_AFTER).state_hash == run.state_hash
    with pytest.raises(ProviderUnreachableError) as caught:
        rw.run(halt_after=demo.HALT_AFTER, cache="refresh")
    assert caught.value.cause.startswith("httpx.ConnectError")
    assert rw.replay(rw.last_run).ok
    rw.store.close()


@pytest.mark.parametrize(
    ("answer", "step"),
    [
        (garbage(), "plan"),
        (garbage(b'{"choices": ["', "application/json"), "plan"),
        (completion("Sure! Here is the plan."), "plan"),
        (completion('{"table": "penguins"}'), "plan"),
        (completion(""), "plan"),
    ],
    ids=["html", "cut JSON", "prose", "another shape", "nothing"],
)
def test_a_run_that_failed_on_garbage_replays_to_the_same_failure_with_the_server_off(
    answer, step, monkeypatch, tmp_path
):
    with provider(answer) as server:
        for name, value in settings(server).items():
            monkeypatch.setenv(name, value)
        with Store(tmp_path / "a.db") as store:
            rw = Rewind(demo.build("penguins"), store=store)
            with pytest.raises(StepFailure) as caught:
                rw.run(halt_after=demo.HALT_AFTER)
            failed = rw.last_run.id
    with Store(tmp_path / "a.db") as store:
        run = store.run(failed)
        proof = Rewind(demo.build("penguins"), store=store).replay(run)
        assert proof.ok
        assert (run.status, proof.run.status) == ("failed", "failed")
        again, before = proof.run[step].error, run[step].error
        assert (again.type, again.message, again.raw) == (before.type, before.message, before.raw)
        assert before.message == str(caught.value)
        assert before.raw == caught.value.raw
        assert (proof.live_calls, proof.tokens) == (0, 0)


def test_garbage_in_a_later_step_fails_the_demo_and_is_served_to_nobody(tmp_path):
    with provider() as server:
        server.play(server._then, server._then, garbage())
        code, _, err = finish(start(tmp_path, "demo", "--store", "a.db", **settings(server)))
        assert code == 1
        assert "revise: " in err
        assert "step 4 'revise'" in err
        code, out, err = finish(start(tmp_path, "demo", "--store", "a.db", **settings(server)))
    assert code == 0, err
    assert "Model calls: 2 live, 2 played back" in out


# -- failures ----------------------------------------------------------------------------


def test_a_failure_shows_its_traceback_only_with_debug(rewind, monkeypatch):
    monkeypatch.setenv("REWIND_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("REWIND_MODEL", "toy")
    plain, debug = rewind("demo"), rewind("demo", "--debug")
    assert (plain.exit_code, debug.exit_code) == (1, 1)
    assert "Traceback" not in plain.output
    said = "Error: plan: no connection to the provider at http://127.0.0.1:*/v1/chat/completions "
    assert plain.stderr.startswith(f"{said}could be made.")
    assert "(tried http://127.0.0.1:9/v1/chat/completions)" in plain.stderr
    assert "Traceback" in debug.stderr
    assert "ProviderUnreachableError" in debug.stderr


def test_a_key_that_the_provider_echoes_is_in_no_output(tmp_path):
    with FakeProvider(then=echo_key) as server:
        for more in ([], ["--debug"]):
            code, out, err = finish(start(tmp_path, "demo", *more, **settings(server)))
            assert code == 1
            assert "401" in err
            assert KEY not in out + err
            assert KEY[:10] not in out + err


def test_an_unknown_task_is_answered_with_the_near_misses_and_leaves_nothing(rewind, temporary):
    for command in ("demo", "verify"):
        done = rewind(command, "--task", "pengins")
        assert done.exit_code == 1
        assert done.stderr == "Error: no task 'pengins'. Did you mean 'penguins'?\n"
    assert files(temporary) == []


def test_a_store_that_is_not_ours_is_refused_and_leaves_nothing(rewind, temporary):
    Path("notes.db").write_text("my notes, which are longer than a header of SQLite " * 3)
    before = Path("notes.db").read_bytes()
    for command in ("demo", "runs", "doctor"):
        done = rewind(command, "--store", "notes.db")
        assert done.exit_code == 1
        assert "is not an SQLite file" in done.stderr
    assert Path("notes.db").read_bytes() == before
    assert files(temporary) == []


def test_an_error_of_the_users_own_is_named_by_its_type():
    error = KeyError("total")
    error.add_note("rewind_nb: run r_1 stopped at step 2 'analyse' (visit 1)")
    assert cli.paragraph(error) == (
        "KeyError: 'total'. Run r_1 stopped at step 2 'analyse' (visit 1)."
    )


def test_a_message_of_many_lines_becomes_one_paragraph():
    assert cli.paragraph(StepFailure("plan", "it said:\n\n  no\n")) == "plan: it said: no."


def test_an_error_cannot_give_orders_to_the_terminal():
    said = cli.paragraph(StepFailure("plan", "the answer was \x1b[2J\u202e"))
    assert said == r"plan: the answer was \x1b[2J\u202e."


def test_a_finding_is_one_line_whatever_a_model_said(rewind, monkeypatch):
    with provider(completion("[\n\x1b[2J")) as server:
        for name, value in settings(server).items():
            monkeypatch.setenv(name, value)
        out = rewind("verify", "--task", "penguins").output
    assert "\x1b" not in out
    assert re.search(r"\nFAIL  .+ stopped at step 0 'plan' .+\n\n0 of 1 check hold", out)


# -- verify ------------------------------------------------------------------------------


def test_verify_prints_every_check_of_every_task_and_exits_0(rewind):
    done = rewind("verify")
    assert done.exit_code == 0, done.output
    lines = [line for line in done.output.splitlines() if line.startswith(("ok ", "FAIL "))]
    sentences = [check.__name__.replace("_", " ") for check in verifying.CHECKS]
    assert [re.match(r"ok    (.+?):", line)[1] for line in lines] == sentences * 2
    *_, summary = done.output.strip().splitlines()
    assert summary.startswith("22 of 22 checks hold, 2 tasks, asked offline-1, offline")


def test_verify_takes_the_tasks_that_it_is_given(rewind):
    out = rewind("verify", "--task", "weather").output
    assert "11 of 11 checks hold, 1 task" in out
    assert "penguins" not in out


def test_verify_leaves_nothing(rewind, temporary):
    assert rewind("verify", "--task", "penguins").exit_code == 0
    assert files(temporary) == []
    assert files(Path.cwd()) == []


def test_verify_deletes_nothing_that_it_did_not_create(rewind, monkeypatch):
    Path("pages").mkdir()
    Path("pages/mine.md").write_text("mine")
    monkeypatch.setenv("REWIND_ARTIFACT_DIR", "pages")
    monkeypatch.setenv("REWIND_STORE", "runs.db")
    assert rewind("verify", "--task", "penguins").exit_code == 0
    assert Path("pages/mine.md").read_text() == "mine"
    assert len(recorded("runs.db")) == 3
    assert len(list(Path("pages").rglob("penguins.md"))) == 3


def test_verify_exits_1_where_one_check_fails_and_keeps_the_runs(rewind, monkeypatch, temporary):
    def the_moon_is_made_of_cheese(evidence):
        return Verdict(False, "0 of 1 moons")

    checks = (*verifying.CHECKS, the_moon_is_made_of_cheese)
    monkeypatch.setattr(verifying, "CHECKS", checks)
    done = rewind("verify", "--task", "penguins")
    assert done.exit_code == 1
    assert "FAIL  the moon is made of cheese: 0 of 1 moons\n" in done.output
    assert "11 of 12 checks hold" in done.output
    [store] = temporary.rglob("runs.db")
    assert f"1 failed. The runs are kept: `rewind runs --store {store}`." in done.stderr
    assert len(recorded(store)) == 3


def test_verify_goes_on_after_a_task_that_failed(rewind, monkeypatch):
    with provider(garbage()) as server:
        for name, value in settings(server).items():
            monkeypatch.setenv(name, value)
        done = rewind("verify")
    assert done.exit_code == 1
    assert "FAIL  the pipeline runs, forks and replays: plan: " in done.output
    assert "11 of 12 checks hold, 2 tasks" in done.output


def test_verify_holds_against_a_provider_that_never_answers_twice_alike(tmp_path):
    with provider(offline=OfflineModel(jitter=1.0)) as server:
        code, out, err = finish(start(tmp_path, "verify", **settings(server)))
    assert code == 0, out + err
    assert "22 of 22 checks hold, 2 tasks, asked toy, of the provider at http://127.0.0.1" in out
    assert "answered by offline-1" in out


def test_two_verifications_in_one_folder_do_not_disturb_each_other(tmp_path, temporary):
    both = [start(tmp_path, "verify") for _ in range(2)]
    for code, out, err in map(finish, both):
        assert code == 0, out + err
        assert "22 of 22 checks hold" in out
    assert files(tmp_path / "here") == []
    assert files(temporary) == []


def test_two_verifications_in_one_store_do_not_disturb_each_other(tmp_path):
    shared = {"REWIND_STORE": "runs.db", "REWIND_ARTIFACT_DIR": "pages"}
    both = [start(tmp_path, "verify", "--task", "penguins", **shared) for _ in range(2)]
    for code, out, err in map(finish, both):
        assert code == 0, out + err
    assert len(recorded(tmp_path / "here" / "runs.db")) == 6
    assert {
        name.split("/")[0].removesuffix("-shm").removesuffix("-wal")
        for name in files(tmp_path / "here")
    } <= {"runs.db", "runs.db.lock", "pages"}


# -- looking into a store ----------------------------------------------------------------


@pytest.fixture
def store(rewind):
    """A store with a run, its fork and its replay."""
    assert rewind("demo", "--store", "a.db").exit_code == 0
    return Path("a.db")


def test_runs_lists_every_run_and_the_override_of_a_fork(rewind, store):
    done = rewind("runs", "--store", store)
    assert done.exit_code == 0
    ids = recorded(store)
    assert [run for run in ids if run in done.output] == ids
    assert "analysis.groups.Gentoo.total = 530697.5" in done.output


def test_runs_finds_the_store_as_the_library_does(rewind, store, monkeypatch):
    monkeypatch.setenv("REWIND_STORE", str(store))
    assert recorded(store)[0] in rewind("runs").output


def test_runs_of_an_empty_store_says_so(rewind):
    create("empty.db")
    assert rewind("runs", "--store", "empty.db").output == "No run yet in empty.db.\n"


def test_show_takes_the_start_of_an_id(rewind, store):
    run = recorded(store)[0]
    whole, start = rewind("show", run, "--store", store), rewind("show", run[:8], "--store", store)
    assert whole.exit_code == 0
    assert whole.output == start.output
    assert run in whole.output


def test_diff_compares_two_runs(rewind, store):
    run, fork, replay = recorded(store)
    done = rewind("diff", run, fork, "--store", store)
    assert done.exit_code == 0
    assert "analysis.groups.Gentoo.total" in done.output
    assert "analysis.groups" not in rewind("diff", run, replay, "--store", store).output


@pytest.mark.parametrize(
    "arguments",
    [["runs"], ["show", "r_1"], ["diff", "r_1", "r_2"], ["doctor"]],
    ids=["runs", "show", "diff", "doctor"],
)
def test_a_store_that_is_not_there_is_not_created(rewind, arguments):
    done = rewind(*arguments, "--store", "none.db")
    assert done.exit_code == 1
    said = "There is no store at none.db, and reading creates none. Check the path."
    assert done.stderr == f"Error: {said}\n"
    assert files(Path.cwd()) == []


def test_an_unknown_and_an_ambiguous_run_are_refused_with_the_ids_there_are(rewind, store):
    unknown, ambiguous = (rewind("show", run, "--store", store) for run in ("r_zzz", "r_"))
    assert (unknown.exit_code, ambiguous.exit_code) == (1, 1)
    for run in recorded(store):
        assert run in unknown.stderr
        assert run in ambiguous.stderr


def test_looking_changes_nothing_in_the_store(rewind, store):
    before = hashlib.sha256(store.read_bytes()).hexdigest()
    run, fork, _ = recorded(store)
    for arguments in (["runs"], ["show", run], ["diff", run, fork], ["doctor"]):
        assert rewind(*arguments, "--store", store).exit_code == 0
    assert hashlib.sha256(store.read_bytes()).hexdigest() == before


def test_doctor_says_what_it_checked_and_exits_0(rewind, store):
    done = rewind("doctor", "--store", store)
    assert done.exit_code == 0
    for part in ("a.db", sqlite3.sqlite_version, "3 runs", "2 blobs", rewind_nb.__version__):
        assert part in done.output
    assert f"{store.stat().st_size:,} bytes" in done.output


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("UPDATE steps SET duration_s = 9 WHERE seq = 3", "step does not match its hash"),
        ("UPDATE blobs SET body = X'00'", "artifact bytes"),
        ("UPDATE contents SET body = X'00' WHERE rowid = 1", "hash"),
        ("DELETE FROM steps WHERE seq = 4", "lacks its step 4"),
        ("DELETE FROM runs WHERE kind = 'record'", "is missing"),
    ],
    ids=["a row", "an artifact", "a value", "a step gone", "a run gone"],
)
def test_doctor_exits_1_and_names_what_is_damaged(sql, problem, rewind, store):
    connection = sqlite3.connect(store)
    with connection:
        assert connection.execute(sql).rowcount > 0
    connection.close()
    done = rewind("doctor", "--store", store)
    assert done.exit_code == 1
    failures = [line for line in done.output.splitlines() if line.startswith("FAIL")]
    assert any(problem in line for line in failures), done.output
    assert f"{len(failures)} problem(s) in the store" in done.stderr


@pytest.mark.parametrize("fixed", [True, False])
def test_doctor_says_whether_sqlite_has_the_wal_reset_bug(fixed, monkeypatch):
    monkeypatch.setattr("rewind_nb._store._engine.wal_reset_fixed", lambda: fixed)
    assert ("WAL-reset bug" in _about.versions()["SQLite"]) is not fixed


# -- the command itself ------------------------------------------------------------------


def test_every_command_has_an_example_and_debug_in_its_help(rewind):
    for name, command in cli.main.commands.items():
        out = rewind(name, "--help").output
        assert f"Example: rewind {name}" in out, name
        assert "--debug" in out
        assert all(p.help for p in command.params if isinstance(p, click.Option)), name
    assert set(cli.main.commands) == {
        *("demo", "verify", "runs", "show", "diff", "doctor", "regress"),
    }


def test_the_version_is_that_of_the_package(rewind):
    assert rewind("--version").output == f"rewind, version {rewind_nb.__version__}\n"


def test_the_entry_point_is_this_command():
    [entry] = importlib.metadata.entry_points(group="console_scripts", name="rewind")
    assert entry.load() is cli.main


def test_help_loads_none_of_the_heavy_libraries():
    heavy = ("burr", "pandas", "sqlalchemy", "networkx", "anywidget")
    script = (
        "import sys; from rewind_nb.cli import main\n"
        "main(['--help'], standalone_mode=False)\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "[]", done.stdout + done.stderr


def test_a_reader_that_stops_early_is_no_failure_to_report(tmp_path):
    process = start(tmp_path, "demo", "--store", "a.db")
    process.stdout.close()
    process.wait(timeout=120)
    assert process.stderr.read() == ""
    process.stderr.close()


def test_a_workspace_is_removed_only_where_it_was_made(tmp_path, temporary):
    with story.workspace("test", "mine.db") as place:
        assert (place.store, place.made.parent) == (Path("mine.db"), temporary)
        place.store.write_text("mine")
        place.artifacts.mkdir()
    place.remove()
    assert Path("mine.db").read_text() == "mine"
    assert files(temporary) == []
