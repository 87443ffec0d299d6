"""Which process executes a run, so that a run whose process is gone is not called running."""

from __future__ import annotations

import os
import socket
from functools import lru_cache
from pathlib import Path
from typing import Any

ACTIVE: set[str] = set()  # runs that this process is executing


def this_process() -> dict[str, Any]:
    """What identifies this process, for as long as the machine is up."""
    return dict(_identity(os.getpid()))


def is_live(owner: dict[str, Any], run_id: str) -> bool:
    """Whether the process that started the run is still executing it.

    A process on another machine cannot be looked at; it is taken to be alive.
    """
    if owner.get("host") != socket.gethostname():
        return True
    if owner == this_process():
        return run_id in ACTIVE
    return owner == _identity_now(owner.get("pid", -1))


@lru_cache(maxsize=8)
def _identity(pid: int) -> tuple[tuple[str, Any], ...]:
    return tuple((_identity_now(pid) or {}).items())


def _identity_now(pid: int) -> dict[str, Any] | None:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # it exists and is another user's
    return {
        "host": socket.gethostname(),
        "pid": pid,
        "boot": _read("/proc/sys/kernel/random/boot_id"),
        "born": _born(pid),
    }


def _born(pid: int) -> str | None:
    """When the process started, in clock ticks since boot; None where /proc is not there."""
    stat = _read(f"/proc/{pid}/stat")
    return None if stat is None else stat.rpartition(")")[2].split()[19]


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
