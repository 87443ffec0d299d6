"""What an installation consists of, and the file of a store, as `rewind doctor` says it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sqlite3
from typing import TYPE_CHECKING

from rewind_nb import __version__

if TYPE_CHECKING:
    from rewind_nb import Store


def versions() -> dict[str, str]:
    """What this installation consists of."""
    from rewind_nb._store._engine import wal_reset_fixed

    burr = importlib.metadata.version("apache-burr")
    guarded = "has the WAL-reset bug, so writers take turns at a lock file beside the store"
    return {
        "rewind": f"{__version__}, Python {platform.python_version()}, apache-burr {burr}",
        "SQLite": f"{sqlite3.sqlite_version}, {'sound' if wal_reset_fixed() else guarded}",
    }


def file_facts(store: Store) -> dict[str, str]:
    """Where the store is, how large, and whether it can be written."""
    path = store.path
    if path is None:
        return {"store": "in memory"}
    wal = path.with_name(f"{path.name}-wal")
    more = f" and {wal.stat().st_size:,} in {wal.name}" if wal.exists() else ""
    writable = all(os.access(place, os.W_OK) for place in (path, path.parent))
    can = "writable" if writable else "read-only"
    return {"store": f"{path}, {path.stat().st_size:,} bytes{more}, {can}"}
