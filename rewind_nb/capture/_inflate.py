"""Undoing what HTTP did to a body on its way: compression, checked to the end.

HTTP clients take a compressed body that was cut off for a whole one, as long as the
framing around it is whole. Here the end of the compressed data must have been seen.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

PIECE = 1 << 20  # bytes decoded at once: a small body may grow a thousandfold
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32  # found out by the header
_GZIP = b"\x1f\x8b"
ENCODINGS = ("gzip", "x-gzip", "deflate")


class DamagedBodyError(ValueError):
    """A body that is not what its headers say."""


class Inflater:
    """Decodes one gzip or deflate body as it arrives.

    Example:
        >>> import gzip
        >>> packed = gzip.compress(b"hello")
        >>> inflater = Inflater()
        >>> inflater.feed(packed[:9]) + inflater.feed(packed[9:])
        [b'hello']
        >>> inflater.end()
    """

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._head: bytes | None = b""  # until there is enough to tell what it is

    def feed(self, data: bytes) -> list[bytes]:
        """What these bytes decode to.

        Raises:
            DamagedBodyError: they are not compressed data.
        """
        pieces: list[bytes] = []
        data = self._begin(data)
        while data:
            if self._stream.eof and not self._next_member(data):
                break
            pieces.append(self._some(data))
            while len(pieces[-1]) == PIECE and not self._stream.eof:  # more than there was room
                pieces.append(self._some(self._stream.unconsumed_tail))
            data = self._stream.unused_data
        return [piece for piece in pieces if piece]

    def _begin(self, data: bytes) -> bytes:
        """The data once there is enough of it to tell how it is compressed."""
        if self._head is None:
            return data
        data = self._head + data
        self._head = data if len(data) < 2 else None
        if self._head is not None:
            return b""
        try:
            zlib.decompressobj(_GZIP_OR_ZLIB).decompress(data[:2])
        except zlib.error:
            if not self._stream.eof:
                self._stream = zlib.decompressobj(-zlib.MAX_WBITS)  # deflate without a header
        return data

    def _next_member(self, data: bytes) -> bool:
        """Whether another member follows, as in joined gzip files; all else is padding."""
        if data == _GZIP[:1]:
            self._head = data
        if not data.startswith(_GZIP):
            return False
        self._stream = zlib.decompressobj(_GZIP_OR_ZLIB)
        return True

    def _some(self, data: bytes) -> bytes:
        try:
            return self._stream.decompress(data, PIECE)
        except zlib.error as error:
            raise DamagedBodyError(f"the compressed body is damaged: {error}") from None

    def end(self) -> None:
        """There is no more.

        Raises:
            DamagedBodyError: but there should be.
        """
        if self._head != b"" and not self._stream.eof:
            raise DamagedBodyError("the compressed body was cut off")


class Unpacker:
    """The body of one answer as it arrives, held against what its headers promise.

    Args:
        headers: of the answer, names in lower case.
        has_body: False where there is none whatever they say (HEAD, 204, 304).
    """

    def __init__(self, headers: Mapping[str, str], *, has_body: bool = True) -> None:
        encoding = headers.get("content-encoding", "").strip().lower()
        self.ours = encoding in (*ENCODINGS, "", "identity")  # else the client's to decode
        self._inflater = Inflater() if encoding in ENCODINGS else None
        self._left: int | None = None
        length = headers.get("content-length", "")
        if self.ours and has_body and length.isdigit() and "transfer-encoding" not in headers:
            self._left = int(length)

    def feed(self, data: bytes) -> list[bytes]:
        """What arrived, decoded, in pieces that are not empty.

        Raises:
            DamagedBodyError: it cannot be decoded.
        """
        if self._left is not None:
            self._left -= len(data)
        if self._inflater is None:
            return [data] if data else []
        return self._inflater.feed(data)

    def end(self) -> None:
        """There is no more.

        Raises:
            DamagedBodyError: but there should be.
        """
        if self._left is not None and self._left > 0:
            raise DamagedBodyError(
                f"the body was cut off: {self._left} bytes of its content-length are missing"
            )
        if self._inflater is not None:
            self._inflater.end()


def inflated(data: bytes, encoding: str) -> bytes:
    """A whole body decoded, or as it is where it cannot be.

    Example:
        >>> import gzip
        >>> inflated(gzip.compress(b"{}"), "gzip")
        b'{}'
        >>> inflated(b"plain", "gzip")
        b'plain'
    """
    if encoding.strip().lower() not in ENCODINGS:
        return data
    inflater = Inflater()
    try:
        pieces: Iterable[bytes] = inflater.feed(data)
        inflater.end()
    except DamagedBodyError:
        return data
    return b"".join(pieces)
