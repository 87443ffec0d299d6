"""`artifact`: a file that a step makes, identified by its bytes.

The file is written to ``$REWIND_ARTIFACT_DIR/<run id>/<name>`` (default ``artifacts``), so
that two runs never write to one place. Its hash is of its bytes; its path is recorded
beside it and is part of nothing.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from rewind_nb._artifact import file_in
from rewind_nb._describe import error_line, plural
from rewind_nb._model import ArtifactRow, Source
from rewind_nb._secrets import contains_secret
from rewind_nb._store import Store, _read
from rewind_nb.capture._context import StepContext, current_step
from rewind_nb.errors import ConfigError, SecretLeakError

_FORBIDDEN = set('<>:"|?*\\') | {chr(c) for c in range(32)}


class WrittenArtifact:
    """What `artifact` returns: the name, the hash of the bytes, and where they are.

    Attributes:
        name: as given.
        sha256: of the bytes.
        size: bytes.
        path: the file; it differs between runs, so keep it out of the state.
    """

    def __init__(self, name: str, sha256: str, size: int, path: Path) -> None:
        self.name = name
        self.sha256 = sha256
        self.size = size
        self.path = path

    def __repr__(self) -> str:
        return f"WrittenArtifact({self.name!r}, sha256={self.sha256[:12]}, {plural(self.size, 'byte')})"


def artifact(name: str, data: bytes | str) -> WrittenArtifact:
    """Write a file that belongs to the running step.

    Args:
        name: relative, such as ``"report.md"`` or ``"plots/a.svg"``.
        data: its content; text is written as UTF-8.

    Returns:
        Name, SHA-256, size in bytes and path. The path differs between runs: keep it out
        of the state.

    Raises:
        ConfigError: the name is empty, absolute, or leaves the folder; the step wrote an
            artifact of this name already; or the content is neither text nor bytes.

    Example:
        >>> artifact("../escape.md", "x")
        Traceback (most recent call last):
            ...
        rewind_nb.errors.ConfigError: The artifact name '../escape.md' ...
    """
    relative = _checked(name)
    content = _content(name, data)
    if contains_secret(name) or contains_secret(content):
        raise SecretLeakError(
            "An artifact's name or content holds a registered API key. Leave the key out of it.",
            path="",
        )
    ctx = current_step()
    try:
        file = _written(ctx.run_id if ctx else "unrecorded", relative, content)
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise ConfigError(
            f"The artifact {name!r} cannot be written: another one of this run is a file where it "
            "needs a folder, or the other way round. Give one of them another name.",
            name=name,
        ) from error
    if ctx is None:
        import hashlib

        return WrittenArtifact(name, hashlib.sha256(content).hexdigest(), len(content), file)
    return _record(ctx, str(relative), content, file)


def write_again(store: Store, row: ArtifactRow, run_id: str) -> str | None:
    """Write an artifact for a run that took its step over; what went wrong, if it did.

    It lies beside the one of the run that made it (`file_in`).
    """
    file = file_in(row, run_id)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(store.read(_read.blob, row.sha256))
    except OSError as error:
        return f"the artifact {row.name!r} could not be written again: {error_line(error)}"
    return None


def _written(run_id: str, relative: PurePosixPath, content: bytes) -> Path:
    file = Path(os.environ.get("REWIND_ARTIFACT_DIR") or "artifacts") / run_id / relative
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    return file


def _checked(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    bad = (
        not path.parts
        or path.is_absolute()
        or ".." in path.parts
        or any(c in _FORBIDDEN for c in name)
        or len(name) > 200
    )
    if bad:
        raise ConfigError(
            f"The artifact name {name!r} must be a short relative path without '..'. "
            "The folder is chosen by REWIND_ARTIFACT_DIR.",
            name=name,
        )
    return path


def _content(name: str, data: object) -> bytes:
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise ConfigError(
        f"The artifact {name!r} is to hold {type(data).__name__}. Pass text (a str) or bytes; for "
        "JSON, json.dumps(...).",
        name=name,
    )


def _record(ctx: StepContext, name: str, content: bytes, file: Path) -> WrittenArtifact:
    with ctx.lock:
        if any(a.name == name for a in ctx.artifacts):
            raise ConfigError(
                f"Step {ctx.action!r} wrote two artifacts named {name!r}. Give each its own name.",
                name=name,
            )
        sha256 = ctx.batch.blob(content)
        row = ArtifactRow(
            run_id=ctx.run_id,
            path=ctx.path,
            seq=ctx.seq,
            attempt=ctx.attempt,
            name=name,
            sha256=sha256,
            size=len(content),
            source=_source(ctx, name, sha256),
            file=str(file),
        )
        ctx.artifacts.append(row)
        ctx.batch.add(row)
    return WrittenArtifact(name, sha256, len(content), file)


def _source(ctx: StepContext, name: str, sha256: str) -> Source:
    """`render-cache` where the recorded step made the very same bytes."""
    if ctx.recorded_key is None:
        return "live"
    rows = ctx.store.read(_read.artifact_rows, ctx.recorded_key)
    same = any(r.name == name and r.sha256 == sha256 for r in rows)
    return "render-cache" if same else "live"
