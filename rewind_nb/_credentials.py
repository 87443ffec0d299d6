"""Credentials that are known by what they are called: no override gives one, for it is stored."""

from __future__ import annotations

import re
from typing import Any

from rewind_nb._secrets import MASK, SECRET_HEADERS, is_secret_parameter, register_secret
from rewind_nb.errors import SecretLeakError

GIVES_FIELDS = ("output", "patch", "state", "inputs", "params", "tool_args")

_AMBIGUOUS = ("auth", "key", "sig", "signature", "token")  # names of much else, too
_DATA = (*_AMBIGUOUS, "password", "secret")  # fields that an application may be about
_LAST = re.compile(r"""[^./\[\]"']+(?=["'\]]*$)""")  # segment of a path, however it is written


def refuse_credentials(kind: str, value: Any, said: str) -> None:
    """Refuse an override that gives a credential: what it gives is stored with the run.

    Args:
        said: which argument gives it.

    Raises:
        SecretLeakError: it does. The credential is not quoted.
    """
    if kind not in GIVES_FIELDS:
        return
    place = credential_at(value, sent=kind == "params")
    if place is not None:
        raise SecretLeakError(
            f"{said} gives a credential ({place}), and what an override gives is stored with the "
            "run, where no credential goes. Keep the key in a Secret and pass it to the client; to "
            "try another key, give action= with a client that has it.",
            path=place,
        )


def credential_at(value: Any, name: str = "", *, sent: bool = False) -> str | None:
    """Where a credential stands in what somebody gave, by what it is called; None for nowhere.

    Texts under such a name are registered, so that nothing shows them from now on.

    Args:
        value: JSON, or what stands under *name*; a JSON Patch counts by its paths.
        name: a name, or a path that ends with one.
        sent: whether it is sent as it is: where not, "password" may be what it is about.

    Example:
        >>> credential_at({"extra": [{"X-Api-Key": "sk-docs-example"}]}), credential_at({"key": "a"})
        ('extra[0].X-Api-Key', None)
    """
    if isinstance(value, dict):
        if "op" in value and isinstance(value.get("path"), str):
            value = {value["path"]: value.get("value")}
        for key, part in value.items():
            found = credential_at(part, str(key), sent=sent)
            if found is not None:
                return f"{name}.{found}" if name else found
    elif isinstance(value, list | tuple):
        inner = (dict, list, tuple)  # what stands in a list has no name of its own
        for position, part in ((n, p) for n, p in enumerate(value) if isinstance(p, inner)):
            if (found := credential_at(part, sent=sent)) is not None:
                return f"{name}[{position}].{found}"
    elif isinstance(value, str | bytes) and value and _is_name(name, sent=sent):
        text = value.decode(errors="replace") if isinstance(value, bytes) else value
        if text != MASK and _is_credential(_last(name), text):
            register_secret(text)
            return name
    return None


def _is_name(name: str, *, sent: bool) -> bool:
    last = _last(name).lower()
    known = last.replace("_", "-") in SECRET_HEADERS or is_secret_parameter(last)
    return known and (sent or last not in _DATA)


def _last(name: str) -> str:
    found = _LAST.search(name)
    return name if found is None else found[0]


def _is_credential(name: str, value: str) -> bool:
    """Whether what stands under the name of a credential is one; a few names are ambiguous."""
    if name.lower() not in _AMBIGUOUS:
        return True
    return len(value) >= 16 and any(c.isdigit() for c in value) and " " not in value
