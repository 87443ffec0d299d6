"""The store: where runs live. One SQLite file by default, `:memory:` for tests.

This package is the only home of SQLAlchemy. `Store` is public; what it does beneath its
public methods is split by concern, each module knowing only those above it::

    _errors        what SQLite and the system say, as errors that say what to do
    _file          finding, judging and making the file; taking turns at it
    _schema        tables; how a record becomes a row and comes back; hashes
    _ledger        how many rows were written, so that a missing one is missed
    _transaction   all or nothing
    _build         a new store, made whole
    _migrate       older stores; _schema_1 is what the first of them were
    _engine        `Database`: connections, forked processes, the WAL-reset bug
    _statements    what a batch asks of SQLite, many batches at once
    _writer        the one thread that commits, and what it promises
    _delta         what is new in a value
    _contents      content-addressed values
    _nodes         values parsed, those that resemble each other sharing what is alike
    _batch         `Batch`: what is committed together
    _query         a select that is compiled once
    _read          queries
    _chain         the hash over a trajectory
    _verify        everything derived again; its parts _verify_runs and _verify_values
    _shown         `StoreViews`: a store in a notebook
    _store         `Store`
    _recall        `Recall`: a store of which everything is read once
"""

from rewind_nb._store._batch import Batch
from rewind_nb._store._contents import Content
from rewind_nb._store._recall import Reads, Recall
from rewind_nb._store._store import Store
from rewind_nb._store._verify import VerifyReport

__all__ = ["Batch", "Content", "Reads", "Recall", "Store", "VerifyReport"]
