"""`Artifact`: a file that a step made."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from rewind_nb._describe import plural
from rewind_nb._model import ArtifactRow, Source
from rewind_nb._store import Store, _read


class Artifact:
    """A file a step made. Its identity is its bytes."""

    def __init__(self, store: Store, row: ArtifactRow, reused_by: str | None = None) -> None:
        """*reused_by*: the run that took the step over."""
        self._store = store
        self._row = row
        self.name = row.name
        self.sha256 = row.sha256
        self.size = row.size
        self.source: Source = "render-cache" if reused_by else row.source
        self._reused_by = reused_by

    @property
    def bytes(self) -> bytes:
        """Its content, from the store."""
        found = self._store.read(_read.blob, self.sha256)
        return b"" if found is None else found

    @property
    def path(self) -> Path:
        """Where the step wrote it; the file may have been moved since."""
        return file_in(self._row, self._reused_by) if self._reused_by else Path(self._row.file)

    def __repr__(self) -> str:
        return f"Artifact({self.name!r}, sha256={self.sha256[:12]}, {plural(self.size, 'byte')}, {self.source})"


def file_in(row: ArtifactRow, run_id: str) -> Path:
    """Where a run has an artifact whose step it took over: beside the run that made it.

    ``artifacts/r_1/plots/a.svg`` of one run is ``artifacts/r_2/plots/a.svg`` of the other.
    """
    folder = Path(row.file).parents[len(PurePosixPath(row.name).parts)]
    return folder / run_id / row.name
