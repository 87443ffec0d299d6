"""`Artifact`: a file that a step made."""

from __future__ import annotations

from pathlib import Path

from rewind_nb._model import ArtifactRow, Source
from rewind_nb._store import Store, _read


class Artifact:
    """A file a step made. Its identity is its bytes."""

    def __init__(self, store: Store, row: ArtifactRow, step_source: Source) -> None:
        self._store = store
        self._row = row
        self.name = row.name
        self.sha256 = row.sha256
        self.size = row.size
        self.source: Source = "render-cache" if step_source == "reused" else row.source

    @property
    def bytes(self) -> bytes:
        """Its content, from the store."""
        found = self._store.read(_read.blob, self.sha256)
        return b"" if found is None else found

    @property
    def path(self) -> Path:
        """Where the step wrote it; the file may have been moved since."""
        return Path(self._row.file)

    def __repr__(self) -> str:
        return (
            f"Artifact({self.name!r}, sha256={self.sha256[:12]}, {self.size} bytes, {self.source})"
        )
