"""The files of two runs side by side: text with what changed in it, images as they look."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from rewind_nb._artifact import Artifact
from rewind_nb._describe import plural
from rewind_nb._run import Run
from rewind_nb._secrets import redact_bytes
from rewind_nb.widgets._pieces import pieces

__all__ = ["made", "side_by_side"]

MAX_IMAGE = 256 * 1024  # bytes of an image that is shown
MAX_READ = 32 * 1024 * 1024  # bytes of a file that is looked into

NOT_SHOWN = "not shown: no text, and no image either; Artifact.bytes has it"
TOO_LARGE = f"not shown: an image of more than {MAX_IMAGE // 1024} KiB; Artifact.bytes has it"

_IMAGES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
    (b"<svg", "image/svg+xml"),
    (b"<?xml", "image/svg+xml"),
)


def made(run: Run, name: str, sha256: str | None) -> Artifact | None:
    """A file that a run made, by its name and bytes."""
    return next((a for a in run.artifacts if (a.name, a.sha256) == (name, sha256)), None)


def side_by_side(before: Artifact | None, after: Artifact | None) -> dict[str, Any]:
    """Two files as they are drawn; None for one that is not there."""
    both = [None if one is None else _read(one) for one in (before, after)]
    images = [None if data is None else _image(data) for data in both]
    texts = [None if data is None else _text(data) for data in both]
    there = [i for i, one in enumerate((before, after)) if one is not None]
    as_text = bool(there) and all(texts[i] is not None and images[i] is None for i in there)
    told = [_told(*of, as_text) for of in zip((before, after), images, strict=True)]
    return {"sides": told, "pieces": pieces(*texts) if as_text else []}


def _told(one: Artifact | None, image: str | None, as_text: bool) -> dict[str, str] | None:
    if one is None:
        return None
    size = plural(one.size, "byte", ",")
    why = "" if image or as_text else NOT_SHOWN if image is None else TOO_LARGE
    return {"size": size, "sha256": one.sha256, "image": image or "", "why": why}


def _read(one: Artifact) -> bytes | None:
    return redact_bytes(one.bytes) if one.size <= MAX_READ else None


def _text(data: bytes) -> str | None:
    """The text of a file; None where it is none."""
    try:
        return None if b"\0" in data else data.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _image(data: bytes) -> str | None:
    """An image as a URL that holds it, "" for one that is too large; None for another file.

    A browser executes nothing of an SVG that is shown as an image.
    """
    for start, kind in _IMAGES:
        if not data.startswith(start):
            continue
        if kind == "image/webp" and data[8:12] != b"WEBP":
            continue
        if start == b"<?xml" and b"<svg" not in data[:1_000]:
            continue
        fits = len(data) <= MAX_IMAGE
        return f"data:{kind};base64,{b64encode(data).decode()}" if fits else ""
    return None
