"""The gate in front of the store: no value in which a registered secret hides goes in.

An encoding is searched as the bytes that it is. What it holds as base64 is searched again
unpacked, for the text in it may be of any width or hold JSON; arrays of numbers are no text.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64
from collections.abc import Iterable

from rewind_nb import _codec
from rewind_nb._leaves import leaves
from rewind_nb._secrets import contains_secret, redact
from rewind_nb.errors import SecretLeakError

__all__ = ["refuse_names", "refuse_secrets"]

_ADVICE = (
    "Keep the key in a Secret and pass it to the client, not through state, inputs, results "
    "or labels."
)
_PACKED = re.compile(
    rb'\{"\$":(?:"bytes"|"bytearray"|"str"'
    rb'|"numpy\.ndarray","dtype":"[^"](?:[SU]\d+|[iu]1)","shape":\[[\d,]*\])'
    rb',"v":"([^"]*)"'
)


def refuse_secrets(data: bytes, path: str) -> None:
    """Refuse an encoding that holds a registered secret.

    Args:
        path: what errors call the value.

    Raises:
        SecretLeakError: it does; the message and `path` say where.
    """
    if _hides(data):
        place = redact(_place(data, path))
        raise SecretLeakError(
            f"{place}: it holds a registered API key, which is never stored. {_ADVICE}", path=place
        )


def refuse_names(texts: Iterable[object]) -> None:
    """Refuse a row with a registered secret in any of its texts.

    Raises:
        SecretLeakError: one holds it.
    """
    told = [text for text in texts if type(text) is str]
    raw = [text for text in texts if type(text) is bytes]  # of lone surrogates
    if contains_secret("\n".join(told)) or (raw and contains_secret(b"\n".join(raw))):
        raise SecretLeakError(
            "A name to be stored (of a key, an action, a model, a label) holds a registered API "
            f"key. {_ADVICE}",
            path="",
        )


def _hides(data: bytes) -> bool:
    if contains_secret(data):
        return True
    return any(contains_secret(a2b_base64(packed[1])) for packed in _PACKED.finditer(data))


def _place(data: bytes, path: str) -> str:
    """The first leaf that holds it, as a key or as a value."""
    for place, leaf in leaves(path, _codec.parse(data), {}):
        whole = json.dumps(leaf, ensure_ascii=False, separators=(",", ":"))
        if contains_secret(place.removeprefix(path)) or _hides(whole.encode()):
            return place
    return path
