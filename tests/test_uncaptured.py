"""What leaves a step beside its recorded calls: noted in a run, refused in a replay."""

import asyncio
import contextvars
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from multiprocessing.pool import ThreadPool
from urllib.request import urlopen

import fake_provider as fp
import pytest
from burr.core import ApplicationBuilder, State, action

from rewind_nb import ChatModel, Rewind
from rewind_nb.capture._context import current_step, sending


@pytest.fixture
def site():
    with fp.FakeProvider(then=fp.completion("hello")) as running:
        yield running


def port(site):
    return site.port


def get(url):
    with urlopen(url, data=b"{}") as response:
        return response.status


def noted(store, function):
    """What a step that calls *function* is said to have let out, and the replay's proof."""
    said = []

    @action(reads=[], writes=["r"])
    def go(state: State) -> State:
        try:
            result = function()
        finally:
            said.append(current_step().uncaptured)
        return state.update(r=result)

    @action(reads=[], writes=["r"])
    async def ago(state: State) -> State:
        try:
            result = await function()
        finally:
            said.append(current_step().uncaptured)
        return state.update(r=result)

    chosen = ago if asyncio.iscoroutinefunction(function) else go
    app = ApplicationBuilder().with_actions(go=chosen).with_entrypoint("go").build()
    rw = Rewind(app, store=store)
    run = rw.run()
    return said[0], rw.replay(run)


def test_an_uncaptured_request_is_noted_in_a_run_and_refused_in_a_replay(site, store):
    said, proof = noted(store, lambda: get(site.base_url))

    assert said == [f"127.0.0.1:{port(site)}"]
    assert site.count == 1
    assert not proof.ok
    assert proof.divergence.path == "@connection"


def test_a_replay_does_not_even_open_a_connection(store):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()

        _, proof = noted(store, lambda: socket.create_connection(address).close())

        listener.setblocking(False)
        listener.accept()[0].close()  # the recorded run's
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert proof.divergence.path == "@connection"


def test_a_host_is_noted_by_the_name_it_was_looked_up_by(site, store):
    url = site.base_url.replace("127.0.0.1", "localhost")

    said, _ = noted(store, lambda: get(url))

    assert said == [f"localhost:{port(site)}"]


def test_each_destination_is_noted_once(site, store):
    with fp.FakeProvider() as other:
        urls = [site.base_url, other.base_url, site.base_url]
        said, _ = noted(store, lambda: [get(url) for url in urls])

        assert said == sorted([f"127.0.0.1:{port(site)}", f"127.0.0.1:{port(other)}"])


def test_a_send_on_a_connection_that_was_open_already_is_noted(site, store):
    client = HTTPConnection("127.0.0.1", port(site))
    client.request("POST", "/", b"{}")
    client.getresponse().read()

    def again():
        client.request("POST", "/", b"{}")
        return client.getresponse().read().decode()

    said, proof = noted(store, again)
    client.close()

    assert said == [f"127.0.0.1:{port(site)}"]
    assert proof.divergence.path == "@connection"
    assert site.count == 2


@pytest.mark.parametrize("method", ["sendto", "sendmsg"])
def test_a_datagram_is_noted(method, store):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        address = receiver.getsockname()

        def tell():
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                if method == "sendto":
                    return sender.sendto(b"x", address)
                return sender.sendmsg([b"x"], [], 0, address)

        said, proof = noted(store, tell)

    assert said == [f"127.0.0.1:{address[1]}"]
    assert proof.divergence.path == "@connection"


def test_traffic_of_an_event_loop_is_noted(site, store):
    async def ask():
        reader, writer = await asyncio.open_connection("localhost", port(site))
        writer.write(b"POST / HTTP/1.0\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        status = await reader.readline()
        writer.close()
        return status.decode()

    said, proof = noted(store, ask)

    assert said == [f"localhost:{port(site)}"]
    assert proof.divergence.path == "@connection"


@pytest.mark.parametrize("where", ["thread", "pool", "old context", "initializer", "ThreadPool"])
def test_traffic_of_a_thread_of_the_step_is_the_step_s(where, site, store):
    old = contextvars.copy_context()

    def elsewhere():
        box = []

        def work():
            try:
                box.append(get(site.base_url))
            except OSError as error:
                box.append(type(error).__name__)

        if where == "thread":
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        elif where == "ThreadPool":
            with ThreadPool(1) as pool:
                pool.apply(work)
        else:
            initializer = work if where == "initializer" else None
            with ThreadPoolExecutor(1, initializer=initializer) as pool:
                task = {"pool": work, "initializer": int}.get(where) or (lambda: old.run(work))
                pool.submit(task).result()
        return box

    said, proof = noted(store, elsewhere)

    assert said == [f"127.0.0.1:{port(site)}"]
    assert site.count == 1
    assert proof.divergence.path == "@connection"
    assert proof.run.state["r"] == ["URLError"]


def test_a_pool_whose_worker_a_replay_started_is_free_afterwards(site, store):
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        pools = [second, first]

        _, proof = noted(store, lambda: pools.pop().submit(int).result())

        assert proof.ok
        assert second.submit(get, site.base_url).result() == 200


def test_what_a_captured_request_sends_is_not_noted(site, store):
    chat = ChatModel(site.base_url, "toy")

    def ask():
        with sending():
            get(site.base_url)
        return chat.chat("hi", json=False).text

    def only_model():
        return chat.chat("hi", json=False).text

    said, _ = noted(store, ask)
    assert said == []

    said, proof = noted(store, only_model)
    assert said == []
    assert proof.ok
    chat.close()


def test_sockets_between_processes_of_this_machine_do_not_count(store):
    def talk():
        a, b = socket.socketpair()
        with a, b:
            a.sendall(b"x")
            return b.recv(1).decode()

    said, proof = noted(store, talk)

    assert said == []
    assert proof.ok


def test_traffic_elsewhere_in_the_process_is_nobody_s(site, store):
    inside, outside = threading.Event(), threading.Event()

    def other():
        inside.wait()
        get(site.base_url)
        outside.set()

    thread = threading.Thread(target=other)
    thread.start()

    def nothing():
        inside.set()
        outside.wait()
        return 1

    said, proof = noted(store, nothing)
    thread.join()

    assert said == []
    assert proof.ok
    assert site.count == 1


@pytest.mark.parametrize("how", ["run", "shell", "system", "asyncio", "secret", "process"])
def test_a_child_process_is_noted_without_its_arguments_and_not_refused(how, store, monkeypatch):
    import multiprocessing
    import os

    def start():
        if how == "run":
            return subprocess.run(["/bin/true", "--password=hunter2"], check=True).returncode
        if how == "shell":
            return subprocess.check_call("true hunter2", shell=True)
        if how == "secret":
            return subprocess.check_call("PASSWORD=hunter2 true", shell=True)
        if how == "process":
            process = multiprocessing.get_context("spawn").Process(target=int)
            process.start()
            process.join()
            return process.exitcode
        return os.system("true hunter2")

    async def astart():
        process = await asyncio.create_subprocess_exec("true", "hunter2")
        return await process.wait()

    said, proof = noted(store, astart if how == "asyncio" else start)

    name = {"secret": "sh", "process": "multiprocessing"}.get(how, "true")
    assert said[-1] == f"subprocess: {name}"
    assert proof.ok


def test_what_the_standard_library_asks_about_the_machine_is_not_noted(store, monkeypatch):
    import platform

    started = []
    monkeypatch.setattr(platform, "_uname_cache", None)
    monkeypatch.setattr(subprocess, "check_output", lambda *a, **k: started.append(a) or "")
    assert isinstance(platform.uname().processor, str)
    assert started  # it asks a program, on this system
    monkeypatch.undo()
    monkeypatch.setattr(platform, "_uname_cache", None)

    said, _ = noted(store, lambda: isinstance(platform.uname().processor, str))

    assert said == []


def test_before_the_first_replay_no_audit_hook_slows_the_process():
    """An audit hook sees every `id()`, and cannot be removed."""
    script = (
        "import sys\n"
        "added = []\n"
        "add, sys.addaudithook = sys.addaudithook, added.append\n"
        "from burr.core import ApplicationBuilder, State, action\n"
        "from rewind_nb import Rewind, Store\n"
        "@action(reads=[], writes=['r'])\n"
        "def go(state: State) -> State:\n"
        "    return state.update(r=1)\n"
        "app = ApplicationBuilder().with_actions(go).with_entrypoint('go').build()\n"
        "with Store(':memory:') as store:\n"
        "    rw = Rewind(app, store=store)\n"
        "    run = rw.run()\n"
        "    assert not added, added\n"
        "    rw.replay(run)\n"
        "    rw.replay(run)\n"
        "    assert len(added) == 1, added\n"
    )

    subprocess.run([sys.executable, "-c", script], check=True)
