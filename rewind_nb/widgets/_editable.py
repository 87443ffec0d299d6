"""What a step of a run can consume, field by field, as text that can be edited.

A field is one value that an override may replace: a key that the step wrote or read, an input,
a part of a call. Text is edited as text, all else as JSON. What text cannot say exactly is
shown and not edited: a value that JSON has no word for, one of many megabytes, a secret.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rewind_nb import _codec
from rewind_nb._describe import displayed, plural
from rewind_nb._diff import MISSING
from rewind_nb._model import CallRow
from rewind_nb._plan import Target, readable
from rewind_nb._secrets import redact
from rewind_nb._visible import visible_lines
from rewind_nb.capture import _overrides
from rewind_nb.errors import OverrideError

__all__ = ["BY_KEY", "Field", "fields_of", "text_of"]

LONGEST = 200_000  # characters that are edited as text
PREVIEW = 2_000  # characters shown of what is longer
MOST_CALLS = 40  # of a step, whose parts are listed
NAMED = 80  # characters of a name, and of JSON that stays on one line
PEEK = 160  # characters shown of a field that is folded

BY_KEY = ("output", "state", "inputs")
"""Kinds of override that replace several keys as one."""

ELSEWHERE = ("model", "temperature", "messages", "contents", "input")  # of a request: own fields
LINES = ("model", "temperature")  # edited in one line
TITLES = {
    "output": "What it writes",
    "patch": "What it writes",
    "state": "State it reads",
    "inputs": "Inputs",
}


@dataclass(frozen=True)
class Field:
    """One value that an override of a step may replace.

    Attributes:
        id: names it within its step.
        kind: of the override.
        name: what it is called.
        key: which key of the override's dict it is, "" where it is all of the override.
        call: which call it is of.
        group: the heading it stands under.
        encoded: the recorded value's encoding; None where there is none.
        form: ``text`` or ``json``.
        hint: what to type.
    """

    id: str
    kind: str
    name: str
    group: str
    key: str = ""
    call: int = 0
    encoded: bytes | None = None
    form: str = "json"
    hint: str = ""

    @cached_property
    def recorded(self) -> Any:
        """The recorded value, `MISSING` where there is none."""
        return MISSING if self.encoded is None else _codec.decode(self.encoded, strict=False)

    @cached_property
    def text(self) -> str:
        """The recorded value as it is edited, "" where there is none or it is locked."""
        if self.encoded is None or self.locked:
            return ""
        return self.recorded if self.form == "text" else text_of(self.recorded)

    @cached_property
    def locked(self) -> str:
        """Why it is not edited as text, "" where it is."""
        data = self.encoded
        if data is None:
            return ""
        if len(data) > LONGEST:
            return f"{_size(len(data))} are too long to be edited here."
        words = data.decode()
        if redact(words) != words:
            return "It holds a registered secret, which is shown nowhere."
        tagged = _tagged("", _codec.parse(data)) if b'"$"' in data else None
        if tagged is not None:
            where, what = tagged
            place = f"at {where}" if where else "here"
            return f"JSON has no word for the {what} {place}."
        return ""

    @cached_property
    def shown(self) -> str:
        """The recorded value as it is shown, cut where it is long."""
        if self.encoded is None:
            return ""
        if not self.locked:
            return visible_lines(redact(self.text))
        start = self.encoded[: 4 * PREVIEW].decode(errors="ignore")
        whole = len(self.encoded) <= len(start.encode())
        if whole:
            start = text_of(_codec.parse(self.encoded))
        # Half a key is not recognised: what is left out at the end may begin in what is kept.
        clean = visible_lines(redact(start))
        return clean if len(clean) <= PREVIEW else f"{clean[:PREVIEW]}…"

    def drawn(self) -> dict[str, Any]:
        """As a view lists it."""
        preview = self.shown[: 2 * PEEK] if self.encoded is not None else self.hint
        return {
            "id": self.id,
            "kind": self.kind,
            "name": displayed(self.name)[:NAMED],
            "group": self.group,
            "absent": self.encoded is None,
            "form": self.form,
            "line": self.kind in LINES,
            "locked": self.locked,
            "hint": self.hint,
            "preview": " ".join(preview.split())[:PEEK],
        }


def text_of(value: Any) -> str:
    """JSON to be read and edited: on one line where it is short.

    Example:
        >>> text_of({"total": 5})
        '{"total": 5}'
    """
    line = json.dumps(value, ensure_ascii=False)
    return line if len(line) <= NAMED else json.dumps(value, ensure_ascii=False, indent=2)


def fields_of(target: Target) -> list[Field]:
    """The fields of a step, its calls first."""
    written = list(_written(target))
    if target.row.source == "override":  # it executes nothing that could consume others
        return written
    calls = [*_calls(target, "model"), *_calls(target, "tool")]
    return [*calls, *_read(target), *_inputs(target), *written]


# -- state and inputs ------------------------------------------------------------------------


def _written(target: Target) -> Iterator[Field]:
    row, group = target.row, TITLES["output"]
    finished = row.status == "complete"
    written = dict(row.writes) if finished else dict.fromkeys(target.declared.get("writes", ()))
    yield from _values(target, "output", written, group)
    if finished and written:
        hint = 'JSON: {"report.total": 5}, or a list of RFC 6902 operations'
        yield Field("patch", "patch", "a part of it, as a patch", group, hint=hint)


def _read(target: Target) -> Iterator[Field]:
    yield from _values(target, "state", readable(target.row), TITLES["state"])


def _inputs(target: Target) -> Iterator[Field]:
    declared = target.declared
    given = dict(target.row.inputs)
    names = (*declared.get("inputs", ()), *declared.get("optional_inputs", ()))
    taken = {n: given.get(n) for n in names if not n.startswith("__")}  # which Burr gives itself
    yield from _values(target, "inputs", taken, TITLES["inputs"])


def _values(
    target: Target, kind: str, values: Mapping[str, str | None], group: str
) -> Iterator[Field]:
    for number, (key, digest) in enumerate(values.items()):
        data = None if digest is None else target.store.content(digest).data
        yield Field(
            id=f"{kind}.{key}" if displayed(key) == key else f"{kind}#{number}",
            kind=kind,
            name=key,
            group=group,
            key=key,
            encoded=data,
            form="text" if data is not None and data.startswith(b'"') else "json",
            hint="" if data is not None else 'no value was recorded; JSON, such as 5 or "text"',
        )


# -- calls -----------------------------------------------------------------------------------

_PARTS = {
    "model": {
        "prompt": "text", "messages": "json", "model": "text", "temperature": "json",
        "params": "json", "response": "text",
    },
    "tool": {"tool_args": "json", "tool_result": "json"},
}  # fmt: skip
_NAMES = {"params": "other parameters", "tool_args": "arguments", "tool_result": "result"}
_ANSWERS = ("response", "tool_result")


def _calls(target: Target, family: str) -> Iterator[Field]:
    rows = target.calls().logical(family)
    for number, row in enumerate(rows[:MOST_CALLS]):
        what = row.model if family == "model" else row.name
        group = displayed(f"{family.capitalize()} call {number}: {what}")[:NAMED]
        for kind, form in _PARTS[family].items():
            if row.source == "override" and kind not in _ANSWERS:
                continue  # its answer was supplied: nothing is asked
            yield from _part(target, row, kind, form, number, group)
    if len(rows) > MOST_CALLS:
        rest = plural(len(rows) - MOST_CALLS, f"more {family} call")
        yield Field(f"{family}s", "", rest, f"{rest}: give call= in code", hint="")


def _part(
    target: Target, row: CallRow, kind: str, form: str, number: int, group: str
) -> Iterator[Field]:
    try:
        value = _overrides.recorded_value(target.store, row, kind)
    except OverrideError:  # this request has none
        return
    if kind == "params" and isinstance(value, Mapping):
        value = {k: v for k, v in value.items() if k not in ELSEWHERE}
    if kind == "tool_result" and isinstance(value, str):
        form = "text"
    absent = value is None and kind != "tool_result"
    yield Field(
        id=f"{kind}.{number}",
        kind=kind,
        name=_NAMES.get(kind, kind),
        group=group,
        call=number,
        encoded=None if absent else _codec.encode(value),
        form=form,
        hint="none was recorded" if absent else "",
    )
    body = _overrides.answer_of(target.store, row)[0] if kind == "response" else None
    if body is not None:
        yield Field(
            f"body.{number}", kind, "response, its whole body", group, call=number,
            encoded=_codec.encode(body),
        )  # fmt: skip


def _tagged(path: str, node: Any) -> tuple[str, str] | None:
    """The first part of an encoding that is no plain JSON: where it is, and what."""
    if isinstance(node, dict):
        if "$" in node:
            return path, str(node["$"])
        parts = [(f"{path}.{key}" if path else key, part) for key, part in node.items()]
    elif isinstance(node, list):
        parts = [(f"{path}[{n}]", part) for n, part in enumerate(node)]
    else:
        return None
    return next(filter(None, (_tagged(*part) for part in parts)), None)


def _size(amount: int) -> str:
    return f"{amount / 1e6:,.1f} MB" if amount >= 1e5 else f"{amount:,} bytes"
