"""What leaves the machine beside the recorded calls: refused in a replay, else noted.

A replay makes no live call. Connections, datagrams, name look-ups and sends on a connection
that is open already (a kept-alive client) are refused in the context of a replay, in threads
it started, and in work it handed to a thread pool; nobody else's.

In any other run such traffic of a step goes out, and `Traffic` notes where to, unless a
captured request is on the wire. A child process is noted in a replay too, and refused in
none: what it does is not seen from here.

Seen are Python's own sockets and processes. Sockets between processes of this machine
(`AF_UNIX`, which event loops use to wake themselves) do not count. Extensions that bring a
network stack of their own (gRPC, libcurl, uvloop) are not seen.

Outside a step the cost is a look at three variables per send. The audit hook, which also sees
sockets that are no `socket.socket`, slows every call of `id()` and cannot be removed: it is
added at the first replay, not before.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing.process
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Generator
from typing import TYPE_CHECKING, Any

from rewind_nb._scope import scope
from rewind_nb.capture._place import (
    _current,
    _guarded,
    current_step,
    is_guarded,
    is_outside,
    is_sending,
    thread_flow,
)
from rewind_nb.errors import ReplayConnectionError

if TYPE_CHECKING:
    from rewind_nb.capture._context import StepContext

_lock = threading.Lock()
_installed: set[str] = set()
_INTERNET = (socket.AF_INET, socket.AF_INET6)
_AUDITED = {
    "socket.connect": 1,  # event -> which argument says where to
    "socket.sendto": 1,
    "socket.sendmsg": 1,
    "socket.getaddrinfo": 0,
    "socket.gethostbyname": 0,
}
_CONNECTS: tuple[tuple[Any, str], ...] = (
    (socket.socket, "connect"),
    (socket.socket, "connect_ex"),
)
_SENDS: tuple[tuple[Any, str], ...] = (
    (socket.socket, "send"),
    (socket.socket, "sendall"),
    (socket.socket, "sendto"),
    (socket.socket, "sendmsg"),
    (socket.socket, "sendfile"),
    (ssl.SSLSocket, "write"),
    (ssl.SSLSocket, "send"),
    (ssl.SSLSocket, "sendall"),
)
_STARTS: tuple[tuple[Any, str], ...] = (
    (subprocess.Popen, "__init__"),
    (multiprocessing.process.BaseProcess, "start"),
    (os, "system"),
    (os, "posix_spawn"),
    (os, "posix_spawnp"),
)
# The standard library asks these programs about the machine, in the middle of anything.
_ABOUT_THE_MACHINE = ("platform", "uuid", "ctypes.util")

Address = tuple[Any, ...]


class Traffic:
    """What went out of one step and was not recorded."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._hosts: dict[str, set[str]] = {}  # names looked up to connect to a port
        self._peers: dict[Address, set[str]] = {}  # what an address was connected to as

    @property
    def seen(self) -> list[str]:
        """``host:port`` and ``subprocess: name``, each once, sorted."""
        return sorted(self._seen)

    def look_up(self, host: Any, port: Any) -> None:
        """A name was looked up, in order to connect to it."""
        if host and port:
            host = host.decode(errors="replace") if isinstance(host, bytes) else str(host)
            self._hosts.setdefault(str(port), set()).add(host)

    def connect(self, address: Address) -> None:
        """A connection was opened: to the names looked up for that port, if any."""
        hosts = self._hosts.get(str(address[1]), {address[0]})
        self._peers[address[:2]] = {_written(host, address[1]) for host in hosts}
        self._seen |= self._peers[address[:2]]

    def send(self, address: Address) -> None:
        """Bytes went to an address."""
        self._seen |= self._peers.get(address[:2]) or {_written(*address[:2])}

    def start(self, name: str) -> None:
        """A program was started."""
        self._seen.add(f"subprocess: {name}")


def _written(host: str, port: Any) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


# -- installing ---------------------------------------------------------------------------


def watch() -> None:
    """Note the traffic of steps from now on."""
    if "watch" in _installed:
        return
    with _lock:
        if "watch" in _installed:
            return
        for owner, name in _CONNECTS:
            setattr(owner, name, _connecting(getattr(owner, name)))
        for owner, name in _SENDS:
            setattr(owner, name, _sending(getattr(owner, name)))
        for owner, name in _STARTS:
            if hasattr(owner, name):
                setattr(owner, name, _starting(getattr(owner, name)))
        socket.getaddrinfo = _looking_up(socket.getaddrinfo)
        _installed.add("watch")


@scope
def no_connections() -> Generator[None, None, None]:
    """Refuse what would leave the machine from this context."""
    watch()
    with _lock:
        if "audit" not in _installed:
            sys.addaudithook(_audit)
            _installed.add("audit")
    token = _guarded.set(True)
    try:
        yield
    finally:
        _guarded.reset(token)


def _audit(event: str, args: tuple[Any, ...], audited: Collection[str] = _AUDITED) -> None:
    # A hook stays for ever: at exit the names of a module are gone, and what it holds is not.
    if event in audited and is_guarded() and not _is_local(args[0]):
        _refuse(f"reach {args[_AUDITED[event]]!r}")


def _connecting(connect: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(connect)
    def watched(sock: socket.socket, address: Any, /) -> Any:
        step = _noted()
        if step is not None and sock.family in _INTERNET and sock.type != socket.SOCK_DGRAM:
            step.traffic.connect(address)
        return connect(sock, address)

    return watched


def _sending(send: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(send)
    def watched(sock: socket.socket, *args: Any, **kwargs: Any) -> Any:
        if is_outside():
            return send(sock, *args, **kwargs)
        if is_guarded():
            if not _is_local(sock):
                _refuse("send on a connection that was open already")
        elif (step := _noted()) is not None and sock.family in _INTERNET:
            with contextlib.suppress(OSError):  # not connected: the send itself will say so
                step.traffic.send(_receiver(send.__name__, args) or sock.getpeername())
        return send(sock, *args, **kwargs)

    return watched


def _receiver(method: str, args: tuple[Any, ...]) -> Address | None:
    """The address that a call names itself."""
    if method == "sendto":
        return args[-1]  # type: ignore[no-any-return]
    return args[3] if method == "sendmsg" and len(args) > 3 else None


def _looking_up(look_up: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(look_up)
    def watched(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        if (step := _noted()) is not None:
            step.traffic.look_up(host, port)
        return look_up(host, port, *args, **kwargs)

    return watched


def _starting(start: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(start)
    def watched(*args: Any, **kwargs: Any) -> Any:
        step = _step()
        if step is not None and not is_sending() and not _about_the_machine():
            step.traffic.start(_program(*args, **kwargs))
        return start(*args, **kwargs)

    return watched


def _about_the_machine() -> bool:
    """Whether the standard library asks, for itself, what this machine is."""
    frame = sys._getframe(2)  # noqa: SLF001  (who called what is watched)
    while frame.f_back is not None and frame.f_globals.get("__name__") == "subprocess":
        frame = frame.f_back
    return frame.f_globals.get("__name__") in _ABOUT_THE_MACHINE


def _program(first: Any, *rest: Any, **given: Any) -> str:
    """The name of a program, without its arguments: they may hold a secret."""
    if isinstance(first, multiprocessing.process.BaseProcess):
        return "multiprocessing"
    if isinstance(first, subprocess.Popen):
        first = given["args"] if "args" in given else rest[0]
    if isinstance(first, list | tuple):
        first = first[0] if first else ""
    words = os.fsdecode(first).split()
    name = os.path.basename(words[0]) if words else ""  # noqa: PTH119
    return name if name and "=" not in name else "sh"


# -- deciding -----------------------------------------------------------------------------


def _step() -> StepContext | None:
    """The step that executes here, also where a thread of it runs in a context of old."""
    step, flow = current_step(), thread_flow()
    if step is None and flow is not None and flow.step is not None and not flow.step.closed:
        return flow.step
    return step


def _noted() -> StepContext | None:
    """The step whose traffic this is, if it is to be noted."""
    step = _step()
    return None if step is None or is_sending() or is_guarded() else step


def _is_local(sock: object) -> bool:
    return isinstance(sock, socket.socket) and sock.family not in _INTERNET


def _refuse(what: str) -> None:
    refused = ReplayConnectionError(
        f"A replay tried to {what}. A replay makes no live call; this request was not "
        "captured, so it could not be played back. Make it through a ChatModel or inside a "
        "@tool, or fork the run instead of replaying it.",
        asked=what,
    )
    flow = thread_flow()
    step = _current.get() or (None if flow is None else flow.step)
    if step is not None:
        step.misses.append(refused)
    raise refused
