"""Which process executes a run, so that a run whose process is gone is not called running."""

from __future__ import annotations

import ctypes
import os
import socket
import sys
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any

ACTIVE: set[str] = set()  # runs that this process is executing
_claiming = threading.Lock()


def claim(run_id: str) -> bool:
    """Take a run for one execution in this process; False if another one has it."""
    with _claiming:
        if run_id in ACTIVE:
            return False
        ACTIVE.add(run_id)
        return True


def this_process() -> dict[str, Any]:
    """What identifies this process, for as long as the machine is up."""
    return dict(_identity(os.getpid()))


def is_live(owner: dict[str, Any], run_id: str) -> bool:
    """Whether the process that started the run is still executing it.

    A process on another machine cannot be looked at; it is taken to be alive.

    Example:
        >>> is_live(this_process(), "r_of_another_day")
        False
        >>> is_live({"host": "another machine", "pid": 1}, "r_1")
        True
    """
    if owner.get("host") != socket.gethostname():
        return True
    if owner == this_process():
        return run_id in ACTIVE
    return owner == _identity_now(owner.get("pid", 0))


@lru_cache(maxsize=8)
def _identity(pid: int) -> tuple[tuple[str, Any], ...]:
    return tuple((_identity_now(pid) or {}).items())


def _identity_now(pid: int) -> dict[str, Any] | None:
    """What identifies the process that has this number now; None where there is none."""
    state, born = _stat(pid)
    if not _exists(pid) or state in ("Z", "X"):  # ended, and its parent has not looked yet
        return None
    return {
        "host": socket.gethostname(),
        "pid": pid,
        "boot": _read("/proc/sys/kernel/random/boot_id"),
        "born": born,
    }


def _exists(pid: int) -> bool:
    if pid <= 0:
        return False
    if sys.platform == "win32":  # where os.kill would end the process
        handle = ctypes.windll.kernel32.OpenProcess(0x1000, False, pid)
        if handle:
            ctypes.windll.kernel32.CloseHandle(handle)
        return bool(handle)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is another user's
    return True


def _stat(pid: int) -> tuple[str | None, str | None]:
    """A process's state, and when it started in clock ticks since boot, where /proc says so."""
    stat = _read(f"/proc/{pid}/stat")
    if stat is None:
        return None, None
    fields = stat.rpartition(")")[2].split()
    return fields[0], fields[19]


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
