"""The store: where runs live. One SQLite file by default, `:memory:` for tests.

This package is the only home of SQLAlchemy. `Store` is public; what it does beneath its
public methods is split by concern: `_engine` (connections, the writer thread), `_schema`
(tables, row hashes), `_contents` (content-addressed values), `_read` (rows and
trajectories), `_verify` (re-deriving every hash).
"""

from rewind_nb._store._contents import Content
from rewind_nb._store._store import Batch, Store
from rewind_nb._store._verify import VerifyReport

__all__ = ["Batch", "Content", "Store", "VerifyReport"]
