"""Clock, chance and entropy inside a step: recorded, played back, and nobody else's business."""

# ruff: noqa: DTZ002, DTZ003, DTZ005, DTZ011, DTZ012, NPY002
import asyncio
import contextvars
import datetime as dt
import functools
import hashlib
import json
import logging
import os
import pickle
import queue
import random
import secrets
import ssl
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import types
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from random import choice as choice_bound_before
from time import time as time_bound_before

import httpx
import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pydantic
import pytest
import time_machine
from burr.core import ApplicationBuilder, State, action, expr
from hypothesis import given, settings
from killed import killed

import rewind_nb
from rewind_nb import Rewind, Secret, Store, tool
from rewind_nb._owner import ACTIVE
from rewind_nb.capture import ambient
from rewind_nb.capture._context import sending
from rewind_nb.capture._tape import Read, Tapes, notes_of
from rewind_nb.capture.ambient import _who
from rewind_nb.capture.http import CapturedTransport

HERE = "test_ambient"  # the package this module is, as a caller


def app_of(read):
    """One step that writes what *read* returns."""

    @action(reads=[], writes=["seen"])
    def look(state: State) -> State:
        return state.update(seen=read())

    return ApplicationBuilder().with_actions(look).with_entrypoint("look").build()


def chain_of(*reads):
    """A step for each of *reads*, one after the other."""
    steps = {}
    for n, read in enumerate(reads):

        def make(key, read=read):
            @action(reads=[], writes=[key])
            def look(state: State) -> State:
                return state.update(**{key: read()})

            return look

        steps[f"s{n}"] = make(f"s{n}")
    names = list(steps)
    return (
        ApplicationBuilder()
        .with_actions(**steps)
        .with_transitions(*zip(names, names[1:], strict=False))
        .with_entrypoint(names[0])
        .build()
    )


def recorded(store, read):
    rw = Rewind(app_of(read), store=store)
    return rw, rw.run()


def package(name, source):
    """A module of another package, as if it were installed."""
    module = types.ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), vars(module))
    return module


def tapes(step):
    """(function, caller) -> how many values."""
    found = [c for c in step.calls if "caller" in c.request]
    return {(c.name, c.request["caller"]): len(c.response) for c in found}


class Stamped(pydantic.BaseModel):
    at: datetime = pydantic.Field(default_factory=datetime.now)
    id: uuid.UUID = pydantic.Field(default_factory=uuid.uuid4)


READS = {
    "time.time": time.time,
    "time.time_ns": time.time_ns,
    "a time bound before": lambda: time_bound_before(),
    "datetime.now": datetime.now,
    "datetime.now(tz)": lambda: datetime.now(dt.UTC),
    "datetime.utcnow": lambda: datetime.utcnow(),
    "datetime.today": lambda: datetime.today(),
    "date.today with a time": lambda: (dt.date.today(), time.time_ns()),
    "time.strftime": lambda: (time.strftime("%H:%M:%S"), time.time_ns()),
    "time.localtime": lambda: (list(time.localtime()), time.time_ns()),
    "time.gmtime": lambda: (list(time.gmtime()), time.time_ns()),
    "time.ctime": lambda: (time.ctime(), time.time_ns()),
    "time.asctime": lambda: (time.asctime(), time.time_ns()),
    "time.clock_gettime": lambda: time.clock_gettime(time.CLOCK_REALTIME),
    "pandas.Timestamp.now": lambda: pd.Timestamp.now(),
    "a pydantic default": lambda: Stamped().model_dump(),
    "random.random": lambda: random.random(),
    "random.choice": lambda: random.choice(range(10**9)),
    "a choice bound before": lambda: choice_bound_before(range(10**9)),
    "random.shuffle": lambda: random.sample(range(10**6), 20),
    "random.gauss": lambda: [random.gauss(3, 2) for _ in range(3)],
    "random.normalvariate": lambda: random.normalvariate(0, 1),
    "random.choices": lambda: random.choices(range(10**9), k=5),
    "random.randbytes": lambda: random.randbytes(12),
    "statistics.NormalDist": lambda: statistics.NormalDist().samples(3),
    "uuid.uuid4": uuid.uuid4,
    "uuid.uuid1": lambda: uuid.uuid1(),
    "os.urandom": lambda: os.urandom(9),
    "secrets.token_hex": lambda: secrets.token_hex(8),
    "secrets.randbelow": lambda: secrets.randbelow(10**12),
    "random.SystemRandom": lambda: random.SystemRandom().random(),
    "numpy.random.default_rng": lambda: float(np.random.default_rng().random()),
}


# -- recorded and played back ------------------------------------------------------------------


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_a_read_is_played_back_equal_in_a_replay_and_in_a_fork_and_made_anew_in_a_run(store, read):
    rw, run = recorded(store, read)

    assert rw.replay(run).require()
    assert rw.fork(run, 0, reuse="none").state == run.state
    assert rw.fork(rw.fork(run, 0), 0, reuse="none").state == run.state
    assert rw.run().state != run.state
    assert store.verify().ok


@pytest.mark.parametrize("cache", ["refresh", "off"])
def test_a_fork_that_plays_nothing_back_reads_the_world_anew_and_records_it(store, cache):
    rw, run = recorded(store, lambda: (uuid.uuid4(), time.time_ns(), random.random()))

    fork = rw.fork(run, 0, cache=cache, reuse="none")

    assert not set(fork.state["seen"]) & set(run.state["seen"])
    assert rw.replay(fork).ok


def test_one_tape_is_one_call_that_names_function_and_caller_and_holds_the_values_in_order(store):
    _, run = recorded(store, lambda: [time.time_ns() for _ in range(100_000)])

    (call,) = run[0].calls

    assert (call.kind, call.name, call.source) == ("clock", "time.time_ns", "live")
    assert call.request == {"function": "time.time_ns", "caller": HERE}
    assert call.response == run.state["seen"]
    assert run[0].source == "live"


@pytest.mark.parametrize(
    ("read", "kind", "name"),
    [
        (lambda: random.shuffle([1, 2, 3, 4]), "random", "random.shuffle"),
        (lambda: random.SystemRandom().random(), "random", "random.SystemRandom.random"),
        (lambda: secrets.token_hex(4), "random", "secrets.token_hex"),
        (lambda: os.urandom(4).hex(), "random", "os.urandom"),
        (lambda: uuid.uuid4().hex, "uuid", "uuid.uuid4"),
        (lambda: datetime.now(tz=dt.UTC).year, "clock", "datetime.now"),
        (lambda: (now := datetime.now, now().year)[1], "clock", "datetime.now"),
        (lambda: time_bound_before() > 0, "clock", "time.time"),
        (lambda: list(map(datetime.fromtimestamp, [time.time()]))[0].year, "clock", "time.time"),
        (lambda: [f() for f in (time.time,)][0] > 0, "clock", "time.time"),
        (lambda: time.strftime("%Y", time.localtime()), "clock", "time.localtime"),
        (lambda: (lambda clock=time.time: clock())() > 0, "clock", "time.time"),
        (lambda: len(time.ctime()), "clock", "time.ctime"),
        (lambda: len(time.ctime(None)), "clock", "time.ctime"),
        (lambda: len(time.asctime()), "clock", "time.asctime"),
        (lambda: {"f": time.time}["f"]() > 0, "clock", "time.*"),
        (lambda: sum(map(len, [*map(time.strftime, ["%Y"])])), "clock", "time.*"),
    ],
)
def test_a_tape_has_the_name_of_the_function_that_the_caller_called(store, read, kind, name):
    _, run = recorded(store, read)

    assert {(c.kind, c.name) for c in run[0].calls} == {(kind, name)}


@pytest.mark.parametrize("read", [lambda: time.ctime(), lambda: time.asctime()])
def test_the_time_in_words_is_that_of_the_recording(store, read):
    with time_machine.travel(dt.datetime(1999, 12, 31, 12, tzinfo=dt.UTC), tick=False):
        rw, run = recorded(store, read)

    assert run.state["seen"] == time.ctime(dt.datetime(1999, 12, 31, 12, tzinfo=dt.UTC).timestamp())
    assert rw.replay(run).require()
    assert read() == time.strftime("%a %b %e %H:%M:%S %Y")  # outside of a step it is the real one


def test_a_time_in_words_of_a_given_time_is_no_read_of_the_clock(store):
    given = time.gmtime(0)
    _, run = recorded(store, lambda: (time.ctime(0), time.asctime(given)))

    assert not run[0].calls
    assert run.state["seen"][1] == "Thu Jan  1 00:00:00 1970"
    with pytest.raises(TypeError):
        time.asctime(None)


def test_a_played_back_step_is_not_live_and_its_tapes_say_where_they_come_from(store):
    rw, run = recorded(store, uuid.uuid4)

    fork = rw.fork(run, 0, reuse="none")

    assert fork[0].source == "cache"
    assert fork[0].calls[0].replayed_from == f"{run.id}/0.0/0"
    assert rw.fork(fork, 0, reuse="none")[0].calls[0].replayed_from == f"{run.id}/0.0/0"


READS = {
    "clock": lambda: time.time(),
    "chance": lambda: random.random(),
    "entropy": lambda: uuid.uuid4(),
}


@pytest.mark.parametrize("kind", READS)
def test_a_step_that_read_anew_is_live_whatever_else_was_played_back(store, kind):
    @tool
    def find() -> int:
        return 7

    rw, run = recorded(store, lambda: (find(), READS[kind]() != 0))

    again, fork = rw.run(), rw.fork(run, 0, reuse="none")

    assert [c.source for c in again[0].calls] == ["tool-cache", "live"]
    assert again[0].source == "live"
    assert [c.source for c in fork[0].calls] == ["tool-cache", "cache"]
    assert fork[0].source == "tool-cache"


@pytest.mark.parametrize("tools", [0, 1])
def test_a_read_past_the_recorded_end_makes_its_tape_and_the_step_live(store, tools):
    wanted = types.SimpleNamespace(n=1)

    @tool
    def find() -> int:
        return 7

    rw, run = recorded(
        store,
        lambda: [find() for _ in range(tools)] + [random.random() for _ in range(wanted.n)],
    )
    wanted.n = 2

    fork = rw.fork(run, 0, reuse="none")
    wanted.n = 1
    fewer = rw.fork(fork, 0, reuse="none")

    assert fork[0].calls[-1].source == fork[0].source == "live"
    assert fork[0].calls[-1].replayed_from == f"{run.id}/0.0/{tools}"
    assert fewer[0].source == ("tool-cache" if tools else "cache")


def test_past_the_recorded_end_a_fork_reads_live(store):
    wanted = types.SimpleNamespace(n=2)
    rw, run = recorded(store, lambda: [time.time_ns() for _ in range(wanted.n)])
    wanted.n = 4

    seen = rw.fork(run, 0, reuse="none").state["seen"]

    assert seen[:2] == run.state["seen"]
    assert seen[3] > seen[2] > seen[1]


# -- a change shifts nothing else --------------------------------------------------------------


def many():
    return [random.random(), time.time_ns(), random.randint(0, 10**9), uuid.uuid4()]


def test_a_changed_step_two_does_not_shift_the_values_of_step_five(store):
    wanted = types.SimpleNamespace(extra=0)

    def changing():
        return [*many(), *[x for _ in range(wanted.extra) for x in many()]]

    rw = Rewind(chain_of(many, many, changing, many, many, many), store=store)
    run = rw.run()
    wanted.extra = 3

    fork = rw.fork(run, 2, reuse="none")

    assert len(fork.state["s2"]) == 16
    assert [fork.state[f"s{n}"] for n in (0, 1, 3, 4, 5)] == [
        run.state[f"s{n}"] for n in (0, 1, 3, 4, 5)
    ]
    assert fork.state["s2"][:4] == run.state["s2"]


def test_a_read_of_one_function_more_shifts_no_other_function(store):
    wanted = types.SimpleNamespace(more=False)

    def read():
        if wanted.more:
            more = time.time(), random.choice("abc"), random.random(), uuid.uuid4()
            assert more
        return datetime.now(), random.randint(0, 10**9), random.uniform(0, 1), secrets.token_hex(3)

    rw, run = recorded(store, read)
    wanted.more = True

    assert rw.fork(run, 0, reuse="none").state == run.state


def test_a_draw_from_a_longer_list_shifts_no_draw_from_another(store):
    wanted = types.SimpleNamespace(among=100)

    def read():
        return random.choice(range(wanted.among)), random.choice(range(10**6))

    rw, run = recorded(store, read)
    wanted.among = 10_000

    assert rw.fork(run, 0, reuse="none").state["seen"][1] == run.state["seen"][1]


def test_what_another_package_reads_never_shifts_what_the_user_reads(store):
    library = package(
        "alpha.inner",
        "import time, random, uuid\ndef use(n):\n"
        "    return [(time.time_ns(), random.random(), uuid.uuid4()) for _ in range(n)]\n",
    )
    wanted = types.SimpleNamespace(n=1)

    def read():
        used = library.use(wanted.n)
        return time.time_ns(), random.random(), uuid.uuid4(), used[0]

    rw, run = recorded(store, read)
    assert tapes(run[0])["time.time_ns", "alpha"] == 1
    wanted.n = 5

    assert rw.fork(run, 0, reuse="none").state == run.state


def test_a_log_line_and_its_formatter_read_the_real_clock(store, tmp_path):
    class Stamping(logging.Formatter):
        def formatTime(self, record, datefmt=None):
            return f"{datetime.now()} {time.time()} {random.random()}"

    log = logging.getLogger("a log of its own")
    log.propagate = False
    for form in (logging.Formatter("%(asctime)s"), Stamping("%(asctime)s")):
        handler = logging.FileHandler(tmp_path / "log")
        handler.setFormatter(form)
        log.addHandler(handler)
    wanted = types.SimpleNamespace(lines=1)

    def read():
        for _ in range(wanted.lines):
            log.warning("here")
        return time.time(), datetime.now(), random.random()

    rw, run = recorded(store, read)
    for handler in log.handlers:
        handler.close()

    assert (tmp_path / "log").stat().st_size > 0
    assert tapes(run[0]) == {(f, HERE): 1 for f in ("time.time", "datetime.now", "random.random")}
    wanted.lines = 4
    assert rw.fork(run, 0, reuse="none").state == run.state
    assert rw.replay(run).ok
    for handler in log.handlers:
        handler.close()


@pytest.fixture
def flaky():
    """A server that fails every second time."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.path)
            self.send_response(500 if len(seen) % 2 else 200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *given):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_cookies_and_retries_of_the_http_stack_shift_nothing(store, flaky):
    wanted = types.SimpleNamespace(cookies=1)

    def read():
        before = time.time(), uuid.uuid4()
        with httpx.Client(transport=CapturedTransport(httpx.HTTPTransport())) as client:
            while (answer := client.get(flaky)).status_code == 500:
                pass
            for n in range(wanted.cookies):
                headers = {"set-cookie": f"k{n}=v; Max-Age=60"}
                client.cookies.extract_cookies(
                    httpx.Response(200, headers=headers, request=answer.request)
                )
            assert len(client.cookies) == wanted.cookies
        return before, time.time(), random.random()

    rw, run = recorded(store, read)

    assert {caller for _, caller in tapes(run[0])} == {HERE}
    assert tapes(run[0])["time.time", HERE] == 2
    wanted.cookies = 3
    assert rw.replay(run).require()
    assert rw.fork(run, 0, reuse="none").state == run.state


@pytest.mark.parametrize(
    "name",
    [
        "logging.handlers", "httpx._client", "httpx2", "urllib3.util.retry", "http.cookiejar",
        "asyncio.base_events", "sqlalchemy.pool", "sqlite3", "cryptography.fernet", "botocore.auth",
        "google.auth.jwt", "rewind_nb.capture.chat", "opentelemetry.sdk.trace", "tempfile",
        "burr.core.application",
    ],
)  # fmt: skip
def test_what_the_machinery_reads_is_real_and_not_recorded(store, name):
    source = "import time, os, random\ndef use(): return time.time_ns(), random.random()"
    machinery = package(name, source)

    rw, run = recorded(store, machinery.use)

    assert run[0].calls == ()
    assert rw.fork(run, 0, reuse="none").state != run.state


@pytest.mark.parametrize(
    "name", ["google.genai", "rewind_nb.demo.pipeline", "burr.examples.chat", "httpxx", "logging2"]
)
def test_a_name_that_only_begins_like_the_machinerys_is_a_callers(store, name):
    user = package(name, "import time\ndef use(): return time.time_ns()")

    _, run = recorded(store, user.use)

    assert tapes(run[0]) == {("time.time_ns", name.split(".")[0]): 1}


def test_what_is_read_while_a_captured_request_is_on_the_wire_is_not_the_users(store):
    def read():
        with sending():
            assert time.time() > 1e9
            assert 0 <= random.random() < 1
            assert uuid.uuid4().version == 4
        return random.randbytes(4)

    _, run = recorded(store, read)

    assert tapes(run[0]) == {("random.randbytes", HERE): 1}


def test_a_script_is_the_same_caller_as_when_it_is_imported():
    spec = types.SimpleNamespace(name="pkg.app")

    assert _who._caller("__main__", {"__file__": "/x/app.py"}) == _who._caller("app", {}) == "app"
    assert _who._caller("__main__", {"__spec__": spec}) == "pkg"
    assert _who._caller("__main__", {}) == "__main__"  # a notebook


# -- runs, threads and branches side by side ---------------------------------------------------


def test_two_runs_in_two_threads_never_mix():
    barrier = threading.Barrier(2)

    def read():
        barrier.wait()
        return [(time.time_ns(), random.random(), os.urandom(4)) for _ in range(300)]

    def one(_):
        with Store(":memory:") as store:
            rw, run = recorded(store, read)
            (ns, draws, entropy) = run[0].calls
            assert list(zip(ns.response, draws.response, entropy.response, strict=True)) == [
                tuple(row) for row in run.state["seen"]
            ]
            barrier.wait()
            return rw.replay(run).require().ok

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(one, range(2)))


def test_two_runs_in_two_tasks_never_mix():
    async def read():
        seen = []
        for _ in range(50):
            seen.append((time.time_ns(), random.random()))
            await asyncio.sleep(0)
        return seen

    @action(reads=[], writes=["seen"])
    async def look(state: State) -> State:
        return state.update(seen=await read())

    async def one(store):
        app = ApplicationBuilder().with_actions(look).with_entrypoint("look").build()
        rw = Rewind(app, store=store)
        run = await rw.arun()
        assert {len(c.response) for c in run[0].calls} == {50}
        assert (await rw.areplay(run)).require()
        return run.state["seen"]

    async def both():
        with Store(":memory:") as a, Store(":memory:") as b:
            return await asyncio.gather(one(a), one(b))

    first, second = asyncio.run(both())
    assert not {r for _, r in first} & {r for _, r in second}


def test_branches_under_gather_keep_their_own_whatever_order_they_read_in(store):
    async def read(n):
        await asyncio.sleep(delays.random() / 100)
        first = time.time_ns(), random.random(), uuid.uuid4()
        await asyncio.sleep(delays.random() / 100)
        return [*first, time.time_ns(), random.choice(range(10**9))]

    @action(reads=[], writes=["seen"])
    async def look(state: State) -> State:
        return state.update(seen=await asyncio.gather(*map(read, range(5))))

    async def main():
        app = ApplicationBuilder().with_actions(look).with_entrypoint("look").build()
        rw = Rewind(app, store=store)
        run = await rw.arun()
        for _ in range(5):
            assert (await rw.areplay(run)).require()
        fork = await rw.afork(run, 0)
        assert fork.state == run.state
        assert {c.request["caller"] for c in run[0].calls} == {HERE}
        assert len({tuple(s) for s in run.state["seen"]}) == 5

    delays = random.Random(4)
    asyncio.run(main())


def test_a_thread_without_the_steps_context_reads_the_real_clock(store):
    wanted, given = queue.SimpleQueue(), queue.SimpleQueue()

    def serve():
        while wanted.get():
            given.put((time.time_ns(), random.random()))

    thread = threading.Thread(target=serve)  # before any step
    thread.start()

    def read():
        wanted.put(True)
        return given.get()

    rw, run = recorded(store, read)
    fork = rw.fork(run, 0, reuse="none")
    wanted.put(False)
    thread.join()

    assert run[0].calls == ()
    assert fork.state["seen"][0] > run.state["seen"][0]


def test_threads_that_a_step_starts_keep_their_own_whatever_order_they_read_in(store):
    delays = random.Random(5)

    def one(n):
        seen = []
        for _ in range(3):
            time.sleep(delays.random() / 200)
            seen.append((time.time_ns(), random.random(), uuid.uuid4()))
        return seen

    def read():
        with ThreadPoolExecutor(3) as pool:
            return list(pool.map(one, range(5)))

    rw, run = recorded(store, read)

    for _ in range(3):
        assert rw.replay(run).require()
    assert rw.fork(run, 0, reuse="none").state == run.state


def test_what_reads_after_its_step_has_ended_reads_the_real_clock(store):
    late = []

    def read():
        one = types.SimpleNamespace(go=threading.Event(), at=None)
        context = contextvars.copy_context()

        def wait():
            one.go.wait(10)
            one.at = time.time_ns()

        one.thread = threading.Thread(target=context.run, args=(wait,))
        one.thread.start()
        late.append(one)
        return time.time_ns()

    rw, run = recorded(store, read)
    fork = rw.fork(run, 0, reuse="none")
    for one in late:
        one.go.set()
        one.thread.join()
        assert one.at > run.state["seen"]

    assert [s.calls[0].response for s in (run[0], fork[0])] == [[run.state["seen"]]] * 2


# -- everything else keeps working -------------------------------------------------------------


def test_outside_of_a_step_the_world_is_real(store):
    rw, run = recorded(store, many)
    rw.replay(run)
    before = time.clock_gettime(time.CLOCK_MONOTONIC), time_machine.escape_hatch.time.time_ns()

    assert time.time_ns() - before[1] < 60e9
    assert abs(datetime.now().timestamp() - time.time()) < 60
    assert dt.date.today() == dt.date.fromtimestamp(time.time())
    assert time.localtime()[:3] == datetime.now().timetuple()[:3]
    assert time.gmtime(0)[:3] == (1970, 1, 1)
    assert time.strftime("%Y", time.gmtime(0)) == "1970"
    assert time.monotonic() >= before[0]
    assert random.random() != run.state["seen"][0]
    assert uuid.uuid4() != run.state["seen"][3]


def test_datetimes_stay_datetimes(store):
    class Own(datetime):
        pass

    def read():
        now, own = datetime.now(), Own.now()
        assert isinstance(now, datetime)
        assert type(now) is datetime
        assert type(own) is Own
        assert type(datetime.today()) is datetime
        assert type(dt.date.today()) is dt.date
        assert pickle.loads(pickle.dumps(now)) == now
        assert datetime is dt.datetime
        assert pydantic.TypeAdapter(datetime).validate_python(now) == now
        with pytest.raises(TypeError):
            datetime.now(zone=None)
        return now

    rw, run = recorded(store, read)

    assert rw.replay(run).require()


def test_uuids_that_are_played_back_are_uuids_of_their_version(store):
    rw, run = recorded(store, lambda: [uuid.uuid4(), uuid.uuid1()])

    assert [u.version for u in rw.fork(run, 0, reuse="none").state["seen"]] == [4, 1]


def test_hashes_tls_temporary_files_and_numpy_work_inside_a_step(store):
    def read():
        context = ssl.create_default_context()
        with tempfile.NamedTemporaryFile() as file:
            name = file.name
        assert name
        assert context.verify_mode == ssl.CERT_REQUIRED
        assert asyncio.run(asyncio.sleep(0, "slept")) == "slept"
        return hashlib.sha256(b"x").hexdigest(), float(np.random.default_rng(3).random())

    rw, run = recorded(store, read)

    assert run[0].calls == ()
    assert rw.replay(run).require()


def test_what_an_import_reads_is_not_recorded_since_it_happens_once(store, monkeypatch, tmp_path):
    (tmp_path / "stamped.py").write_text("import random, time\nAT = time.time(), random.random()\n")
    monkeypatch.syspath_prepend(tmp_path)

    def read():
        import stamped

        assert stamped.AT[0] > 1e9
        return time.time_ns()

    rw, run = recorded(store, read)

    assert tapes(run[0]) == {("time.time_ns", HERE): 1}
    proof = rw.replay(run)
    assert proof.require().run._row.note is None


def test_the_explicit_functions_stay_one_call_each(store):
    def read():
        return rewind_nb.now(), rewind_nb.random(), rewind_nb.uuid4()

    rw, run = recorded(store, read)

    assert [(c.name, c.request) for c in run[0].calls] == [
        (name, {"function": name}) for name in ("now", "random", "uuid4")
    ]
    assert rw.fork(run, 0, reuse="none").state == run.state


def test_a_generator_of_the_users_own_and_numpys_global_one_are_not_captured(store):
    own = random.Random()

    rw, run = recorded(store, lambda: (own.random(), float(np.random.random())))

    assert run[0].calls == ()
    divergence = rw.replay(run).divergence
    assert divergence.path == "seen[0]"


def test_a_generator_that_the_step_seeds_gives_what_it_always_gives(store):
    rw, run = recorded(store, lambda: random.Random(5).random())

    assert run.state["seen"] == random.Random(5).random()
    assert rw.replay(run).require()


# -- the global generator ----------------------------------------------------------------------


def draws():
    return [random.random(), random.choice("abcdef"), random.gauss(0, 1), random.gauss(0, 1)]


def test_a_seed_keeps_its_effect(store):
    def seeded():
        random.seed(42)
        return draws()

    rw, run = recorded(store, seeded)
    random.seed(42)

    assert run.state["seen"] == draws()
    assert rw.replay(run).require()
    assert rw.fork(run, 0, reuse="none").state == run.state


def test_a_seed_set_outside_of_the_run_keeps_its_effect(store):
    random.seed(7)
    _, run = recorded(store, draws)
    random.seed(7)

    assert run.state["seen"] == draws()


def test_draws_past_the_recorded_end_go_on_in_the_seeded_sequence(store):
    wanted = types.SimpleNamespace(n=2)

    def seeded():
        random.seed(42)
        return [random.random() for _ in range(wanted.n)]

    rw, run = recorded(store, seeded)
    wanted.n = 5
    fork = rw.fork(run, 0, reuse="none")
    random.seed(42)

    assert fork.state["seen"] == [random.random() for _ in range(5)]


@pytest.mark.parametrize("set_state", [False, True])
def test_another_seed_draws_other_numbers_and_the_same_one_again_the_same(store, set_state):
    states = {n: random.Random(n).getstate() for n in (1, 2)}

    @action(reads=["seed"], writes=["seen", "id"])
    def look(state: State) -> State:
        n = state["seed"]
        random.setstate(states[n]) if set_state else random.seed(n)
        return state.update(seen=draws(), id=uuid.uuid4())

    app = ApplicationBuilder().with_actions(look).with_entrypoint("look").with_state(seed=1)
    rw = Rewind(app.build(), store=store)
    run = rw.run()

    other = rw.fork(run, 0, state={"seed": 2}, reuse="none")

    random.seed(2)
    assert other.state["seen"] == draws()
    assert other.state["id"] == run.state["id"]
    assert rw.fork(other, 0, state={"seed": 1}, reuse="none").state["seen"] == run.state["seen"]
    assert rw.replay(other).require()


def test_a_branch_has_the_seed_of_the_one_it_was_started_from(store):
    known = Tapes()
    known.seeds = {"": "a", "~1": "b", "~1/2": None}

    assert [known.seed_in(b) for b in ("", "~0", "~1", "~10", "~1~3", "~1/2", "~1/2~0")] == [
        "a", "a", "b", "a", "b", None, None,
    ]  # fmt: skip
    assert Tapes().seed_in("~1") is None


def test_a_changed_mean_moves_the_same_gaussian_draw(store):
    @action(reads=["mu"], writes=["seen"])
    def look(state: State) -> State:
        return state.update(seen=[random.gauss(state["mu"], 2.0) for _ in range(3)])

    app = ApplicationBuilder().with_actions(look).with_entrypoint("look").with_state(mu=0.0)
    rw = Rewind(app.build(), store=store)
    run = rw.run()

    fork = rw.fork(run, 0, state={"mu": 100.0}, reuse="none")

    assert fork.state["seen"] == [100.0 + (x - 0.0) for x in run.state["seen"]]


def test_a_gaussian_left_over_from_an_earlier_step_is_played_back(store):
    rw = Rewind(chain_of(lambda: random.gauss(0, 1), lambda: random.gauss(0, 1)), store=store)
    run = rw.run()

    assert rw.replay(run, start="s1").require()
    assert rw.fork(run, "s1", reuse="none").state == run.state


# -- replays: what was read otherwise ----------------------------------------------------------


def test_a_surplus_or_missing_read_is_noted_and_fails_nothing_while_the_step_is_the_same(store):
    wanted = types.SimpleNamespace(clock=1, draws=3, id=True)

    def read():
        assert [time.time() for _ in range(wanted.clock)]
        assert [random.random() for _ in range(wanted.draws)]
        return bool(wanted.id and uuid.uuid4()) or True

    rw, run = recorded(store, read)
    assert rw.replay(run).run._row.note is None
    wanted.clock, wanted.draws, wanted.id = 3, 1, False

    proof = rw.replay(run)

    assert proof.require().live_calls == 0
    notes = proof.run._row.note.split("; ")
    assert notes_of(notes, "look:1") == [
        f"read time.time in {HERE} 2 times more often than recorded",
        f"read random.random in {HERE} 2 times less often than recorded",
        f"read uuid.uuid4 in {HERE} 1 time less often than recorded",
    ]
    assert notes_of(notes, "look:2") == []


def test_a_step_that_cannot_be_stored_notes_nothing_that_it_did_read(store):
    key = Secret("sk-0123456789abcdef")
    rw, run = recorded(store, time.time)
    leaking = Rewind(app_of(lambda: time.time() and key.reveal()), store=store)

    proof = leaking.replay(run)

    assert proof.divergence.path == "@error"
    assert proof.run._row.note is None


def test_a_tape_of_a_step_that_is_over_is_not_opened():
    tapes = Tapes()
    step = types.SimpleNamespace(lock=threading.Lock(), calls=[], strict=False, recorded=None)
    read = Read("clock", "time.time", HERE, "")
    key = ("", read.function, read.caller, None, None)
    assert tapes.open(step, key, read) is not None
    tapes.clear()

    tapes.close(step)

    assert tapes.open(step, key, read) is None


def test_a_read_that_was_not_recorded_is_live_in_a_replay_and_the_hash_decides(store):
    wanted = types.SimpleNamespace(more=False)
    rw, run = recorded(store, lambda: [time.time_ns(), wanted.more and secrets.token_hex(4)])
    wanted.more = True

    proof = rw.replay(run)

    assert not proof.ok
    assert proof.divergence.path == "seen[1]"
    assert proof.live_calls == 0
    (note,) = notes_of([proof.run._row.note], "look:1")
    assert note == f"read secrets.token_hex in {HERE} 1 time more often than recorded"


def test_what_a_played_back_tool_would_have_read_is_not_missed(store):
    @tool
    def stamp() -> float:
        return time.time_ns()

    rw, run = recorded(store, lambda: (stamp(), time.time_ns()))
    read_in = [c for c in run[0].calls if c.kind == "clock"]
    assert [c.response for c in read_in] == [[ns] for ns in reversed(run.state["seen"])]
    (made,) = [c for c in run[0].calls if c.kind == "tool"]
    assert [c.parent for c in read_in] == [None, made.index]

    proof = rw.replay(run)

    assert proof.require()
    assert proof.run._row.note is None


def test_a_step_that_failed_keeps_its_tapes_and_fails_equally_in_a_replay(store):
    def read():
        raise ValueError(f"{time.time_ns()} {uuid.uuid4()}")

    rw = Rewind(app_of(read), store=store)
    with pytest.raises(ValueError, match=r"\d+ ") as caught:
        rw.run()
    run = rw.last_run

    assert rw.replay(run).require()
    assert tapes(run[0]) == {("time.time_ns", HERE): 1, ("uuid.uuid4", HERE): 1}
    for ask_again in (lambda: rw.fork(run, 0, reuse="none"), lambda: rw.resume(run)):
        with pytest.raises(ValueError, match=r"\d+ ") as again:
            ask_again()
        assert str(again.value) != str(caught.value)


def test_an_interrupted_step_plays_back_what_it_had_read_when_it_is_resumed(store):
    stop = types.SimpleNamespace(armed=True, seen=None)

    def read():
        first = [time.time_ns(), random.random(), uuid.uuid4()]
        if stop.armed:
            stop.seen = first
            raise KeyboardInterrupt
        return [*first, time.time_ns()]

    rw = Rewind(app_of(read), store=store)
    with pytest.raises(KeyboardInterrupt):
        rw.run()
    stop.armed = False

    run = rw.resume(rw.last_run)

    assert run.state["seen"][:3] == stop.seen
    assert run.state["seen"][3] > run.state["seen"][0]
    assert rw.replay(run).require()
    assert store.verify().ok


KILLED = """
import os, sys, time, uuid
from burr.core import ApplicationBuilder, State, action
from rewind_nb import Rewind, tool

@tool
def ask(at, tag, log):
    with open(log, "a") as made:
        made.write(f"{at} {tag}\\n")
    return at

@action(reads=["log"], writes=["seen"])
def look(state: State) -> State:
    seen = [ask(time.time_ns(), str(uuid.uuid4()), state["log"]) for _ in range(3)]
    if sys.argv[3:] == ["kill"]:
        os.kill(os.getpid(), 9)
    return state.update(seen=seen)

def app(log):
    builder = ApplicationBuilder().with_actions(look).with_entrypoint("look")
    return builder.with_state(log=log).build()

if __name__ == "__main__":
    Rewind(app(sys.argv[2]), store=sys.argv[1]).run()
"""


def test_a_killed_process_loses_no_read_that_an_answered_call_depends_on(tmp_path, monkeypatch):
    killed_app, path, log = killed("killed_app", KILLED, tmp_path, monkeypatch)
    with Store(path) as store:
        rw = Rewind(killed_app.app(str(log)), store=store)
        (unfinished,) = store.runs()
        run = rw.resume(unfinished)

        made = log.read_text().splitlines()
        assert len(made) == 3
        assert [int(line.split()[0]) for line in made] == run.state["seen"]
        assert rw.replay(run).require()
        assert store.verify().ok
    assert not ACTIVE


# -- installation ------------------------------------------------------------------------------


def test_importing_the_package_changes_nothing():
    script = (
        "import random, os, uuid, time, sys\n"
        "before = random.random, os.urandom, uuid.uuid1, random._urandom, dict(vars(random._inst))\n"
        "import rewind_nb, rewind_nb.capture.clock, rewind_nb.capture.ambient\n"
        "after = random.random, os.urandom, uuid.uuid1, random._urandom, dict(vars(random._inst))\n"
        "sys.exit(before != after or 'time_machine' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_installing_is_done_once_by_whoever_comes_first():
    ambient.install()
    before = random.random, os.urandom, uuid.uuid1, time_machine.traveller_stack
    threads = [threading.Thread(target=ambient.install) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (random.random, os.urandom, uuid.uuid1, time_machine.traveller_stack) == before
    assert len(time_machine.traveller_stack) == 1


def test_a_function_that_a_test_put_in_place_stays_until_it_is_taken_away(store, monkeypatch):
    ambient.install()
    ours = random.random
    with monkeypatch.context() as patched:
        patched.setattr(random, "random", lambda: 0.5)
        _, run = recorded(store, lambda: random.random())
        assert run.state["seen"] == 0.5
    assert random.random is ours

    random.random = random._inst.random.__wrapped__  # as a patch from before us leaves it
    rw, run = recorded(store, lambda: random.random())

    assert rw.replay(run).require()


def test_a_traveller_is_seen_outside_of_a_step_and_recorded_inside(store):
    rw, before = recorded(store, lambda: [time.time(), datetime.now(dt.UTC), uuid.uuid1()])
    with time_machine.travel(100, tick=False):
        assert time.time() == 100
        with time_machine.travel(200, tick=False):
            assert time.time() == 200
            run = rw.run()
        assert time.time() == 100
        assert time_machine.escape_hatch.is_travelling()
    assert not time_machine.escape_hatch.is_travelling()

    assert run.state["seen"][:2] == [200.0, datetime.fromtimestamp(200, dt.UTC)]
    assert time.time() > 1e9
    assert rw.replay(run).require()
    with time_machine.travel(300):
        assert rw.replay(run).require()
        assert rw.replay(before).require()
        assert rw.fork(run, 0, reuse="none").state == run.state


def test_the_first_rewind_may_come_while_a_test_travels():
    script = """
import sys, time, uuid, datetime as dt
import time_machine
from burr.core import ApplicationBuilder, State, action
from rewind_nb import Rewind

@action(reads=[], writes=["seen"])
def look(state: State) -> State:
    return state.update(seen=[time.time(), dt.date.today()])

app = ApplicationBuilder().with_actions(look).with_entrypoint("look").build()
real = uuid._generate_time_safe
with time_machine.travel(dt.datetime(2001, 2, 3, tzinfo=dt.UTC), tick=False):
    rw = Rewind(app, store=":memory:")
    assert time.time() == 981158400, time.time()
    run = rw.run()
assert time.time() > 1.7e9 and not time_machine.escape_hatch.is_travelling()
assert uuid._generate_time_safe is real
assert run.state["seen"] == [981158400.0, dt.date(2001, 2, 3)], run.state
assert rw.replay(run).ok and rw.run().state["seen"][0] > 1.7e9
"""

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


# -- any sequence of reads ---------------------------------------------------------------------

SOURCE = """
import os, random, secrets, time, uuid
from datetime import datetime
def read(name):
    return {
        "clock": lambda: time.time_ns(),
        "now": lambda: datetime.now(),
        "random": random.random,
        "choice": lambda: random.choice(range(1000)),
        "gauss": lambda: random.gauss(0, 1),
        "uuid4": uuid.uuid4,
        "token": lambda: secrets.token_hex(3),
    }[name]()
"""
CALLERS = {name: package(name, SOURCE) for name in ("alpha", "beta")}
NAMES = ("clock", "now", "random", "choice", "gauss", "uuid4", "token")
SEQUENCES = st.lists(
    st.tuples(st.sampled_from(sorted(CALLERS)), st.sampled_from(NAMES)), max_size=12
)


@settings(max_examples=20, deadline=None)
@given(recorded_reads=SEQUENCES, other_reads=SEQUENCES)
def test_any_other_order_of_reads_plays_back_each_key_in_its_own_order(recorded_reads, other_reads):
    now = types.SimpleNamespace(reads=recorded_reads)

    def read():
        return [CALLERS[caller].read(name) for caller, name in now.reads]

    def per_key(reads, values):
        found = {}
        for key, value in zip(reads, values, strict=True):
            found.setdefault(key, []).append(value)
        return found

    with Store(":memory:") as store:
        rw, run = recorded(store, read)
        assert rw.replay(run).require()
        now.reads = other_reads
        before = per_key(recorded_reads, run.state["seen"])
        after = per_key(other_reads, rw.fork(run, 0, reuse="none").state["seen"])

    for key, values in after.items():
        if key[1] == "choice":  # one choice may take several draws
            continue
        same = min(len(values), len(before.get(key, [])))
        assert values[:same] == before.get(key, [])[:same]


def test_an_unchanged_loop_of_steps_replays_whatever_each_round_reads(store):
    @action(reads=["n"], writes=["n", "seen"])
    def look(state: State) -> State:
        return state.update(n=state["n"] + 1).append(seen=[*many(), *draws()])

    app = (
        ApplicationBuilder()
        .with_actions(look)
        .with_transitions(("look", "look", expr("n < 6")))
        .with_entrypoint("look")
        .with_state(n=0, seen=[])
        .build()
    )
    rw = Rewind(app, store=store)
    run = rw.run()

    assert rw.replay(run).require()
    for at in range(6):
        assert rw.fork(run, at, reuse="none").state == run.state
    assert json.dumps(functools.reduce(lambda a, b: a + len(b), run.state["seen"], 0)) == "48"
