"""Schema versions: what turns an older store into one of this version.

`MIGRATIONS[n]` turns schema n into schema n + 1. All that are needed run in one
transaction, so that a store is either as it was or up to date. There is no way down.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from rewind_nb._store._schema import SCHEMA_VERSION
from rewind_nb._store._schema_1 import to_schema_2
from rewind_nb._store._schema_2 import to_schema_3
from rewind_nb._store._transaction import transaction
from rewind_nb.errors import StoreFormatError, StoreVersionError

MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {
    1: to_schema_2,
    2: to_schema_3,
}


def version_of(raw: sqlite3.Connection) -> int:
    """The schema version in the file's header."""
    return int(raw.execute("PRAGMA user_version").fetchone()[0])


def check_version(raw: sqlite3.Connection, path: Path, *, read_only: bool) -> bool:
    """Whether the store must be migrated before it is used.

    Raises:
        StoreVersionError: it is newer, or older and opened to read.
        StoreFormatError: there never was such a version.
    """
    found = version_of(raw)
    if found > SCHEMA_VERSION:
        raise StoreVersionError(
            f"{path} was written by a newer rewind_nb (schema {found}, this one reads up to "
            f"{SCHEMA_VERSION}). Upgrade with: pip install -U rewind-nb",
            found=found,
            supported=SCHEMA_VERSION,
        )
    if found < 1:
        raise StoreFormatError(
            f"The header of {path} is damaged: there is no schema {found}. Restore it from a copy.",
            path=str(path),
        )
    if found < SCHEMA_VERSION and read_only:
        raise StoreVersionError(
            f"{path} was written by an older rewind_nb (schema {found}, this one writes "
            f"{SCHEMA_VERSION}), and read_only=True forbids to bring it up to date. Open it once "
            "with Store(path), or open a copy.",
            found=found,
            supported=SCHEMA_VERSION,
        )
    return found < SCHEMA_VERSION


def migrate(raw: sqlite3.Connection) -> None:
    """Bring the store up to this version, wholly or not at all."""
    with transaction(raw):
        for version in range(version_of(raw), SCHEMA_VERSION):  # another process may be first
            MIGRATIONS[version](raw)
        raw.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
