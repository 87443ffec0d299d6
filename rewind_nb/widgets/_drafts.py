"""What was typed into the fields of a step, as overrides that are checked before a fork is made.

Python holds no draft: a view sends what was typed, and is told what is wrong with it, what it
changes word by word, and what a fork with it is likely to execute.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rewind_nb import _codec
from rewind_nb._combine import Given, plan_overrides
from rewind_nb._diff import MISSING
from rewind_nb._plan import Planned, Target
from rewind_nb._redact import contains_secret, redact
from rewind_nb.errors import ConfigError, NotEncodableError, OverrideError
from rewind_nb.widgets._editable import BY_KEY, Field, text_of
from rewind_nb.widgets._pieces import Pieces, pieces

__all__ = ["Draft", "Drafts"]

BY_NAME = ("params", "tool_args")  # replaced field by field


@dataclass(frozen=True)
class Draft:
    """What was typed into one field.

    Attributes:
        value: what it says, `MISSING` where it says nothing.
        problem: why it does not, "" where it does.
    """

    field: Field
    text: str

    @property
    def value(self) -> Any:
        return self._read[0]

    @property
    def problem(self) -> str:
        return self._read[1]

    @cached_property
    def changes(self) -> bool:
        """Whether it says anything else than was recorded."""
        if self.value is MISSING or self.field.encoded is None:
            return self.value is not MISSING
        recorded = self.field.recorded
        if self.field.kind in BY_NAME and isinstance(self.value, Mapping):
            return bool(_difference(recorded, self.value))
        try:
            return _codec.encode(self.value) != self.field.encoded
        except NotEncodableError:
            return True

    @cached_property
    def _read(self) -> tuple[Any, str]:
        if contains_secret(self.text):
            return MISSING, "It holds a registered secret, which is never stored. Take it out."
        if self.field.locked:
            return MISSING, self.field.locked
        if self.field.form == "text":
            return _lines_like(self.text, self.field.text), ""
        if not self.text.strip() and self.field.encoded is None:
            return MISSING, ""
        return _parsed(self.text)

    def pieces(self) -> Pieces:
        """What it changes, word by word; the way JSON is laid out does not count."""
        text = self.value if self.field.form == "text" else text_of(self.value)
        return pieces(None if self.field.encoded is None else self.field.text, text)


def _lines_like(text: str, recorded: str) -> str:
    """The text with the ends of lines of the recorded one, which no text area keeps."""
    if "\r\n" in recorded and "\n" not in recorded.replace("\r\n", ""):
        return text.replace("\r\n", "\n").replace("\n", "\r\n")
    return text


def _parsed(text: str) -> tuple[Any, str]:
    try:
        return json.loads(text, object_pairs_hook=_object), ""
    except json.JSONDecodeError as error:
        return MISSING, f"No JSON: line {error.lineno}, column {error.colno}: {error.msg}."
    except (ValueError, RecursionError) as error:
        told = str(error) if isinstance(error, ValueError) else "nested too deep"
        return MISSING, f"No JSON: {redact(told)}."


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found


class Drafts:
    """What was typed into several fields of one step.

    Args:
        target: the step.
        drafts: only those that change something, or cannot be read, count.
    """

    def __init__(self, target: Target, drafts: Sequence[Draft]) -> None:
        self.target = target
        self.drafts = [draft for draft in drafts if draft.problem or draft.changes]

    @cached_property
    def problems(self) -> dict[str, str]:
        """What is wrong, by field; under "" what is wrong with a value of several fields."""
        found = {draft.field.id: draft.problem for draft in self.drafts if draft.problem}
        for given, drafts in self._groups:
            try:
                plan_overrides(self.target, [given])
            except (OverrideError, NotEncodableError, ConfigError) as error:
                found[_blamed(error, drafts)] = str(error)
        return found

    @cached_property
    def given(self) -> list[Given]:
        """The overrides: kind, value, call."""
        return [given for given, _ in self._groups]

    @cached_property
    def refused(self) -> str:
        """Why no fork can be made of all this, "" where one can."""
        if "" in self.problems:
            return self.problems[""]
        if self.problems:
            return "Correct what is marked first."
        if len(self.given) > 1:
            named = [
                f"{kind}=" + (f" of call {call}" if call else "") for kind, _, call in self.given
            ]
            return (
                f"A fork changes exactly one thing, and this edits {' and '.join(named)}. Reset all "
                "but one; or fork once for each, the second fork from the first one."
            )
        return "" if self.given else "Nothing is changed yet."

    @cached_property
    def planned(self) -> Planned | None:
        """The one override, checked; None where there is none to make a fork of."""
        return None if self.refused else plan_overrides(self.target, self.given)

    @cached_property
    def _groups(self) -> list[tuple[Given, list[Draft]]]:
        """Each override with the drafts that it is made of."""
        together: dict[tuple[str, ...], list[Draft]] = {}
        for draft in self.drafts:
            if not draft.problem:
                kind = draft.field.kind
                key = (kind,) if kind in BY_KEY else (kind, draft.field.id)
                together.setdefault(key, []).append(draft)
        return [(_given(drafts), drafts) for drafts in together.values()]

    def told(self) -> dict[str, Any]:
        """What a view is told of each field."""
        return {
            draft.field.id: {
                "problem": self.problems.get(draft.field.id, ""),
                "pieces": [] if draft.problem else self._pieces(draft),
            }
            for draft in self.drafts
        }

    def _pieces(self, draft: Draft) -> Pieces:
        if draft.field.kind != "patch":
            return draft.pieces()
        try:
            planned = plan_overrides(self.target, [_given([draft])])
        except (OverrideError, NotEncodableError, ConfigError):
            return []
        recorded = {k: self.target.store.content(h).data for k, h in self.target.row.writes}
        now = {k: _codec.encode(v) for k, v in (planned.writes or {}).items()}
        changed = [key for key in planned.keys if recorded.get(key) != now.get(key)]
        sides = (
            {k: _codec.parse(side[k]) for k in changed if k in side} for side in (recorded, now)
        )
        return pieces(*map(text_of, sides))


def _blamed(error: Exception, drafts: Sequence[Draft]) -> str:
    """The field that an error is about, "" where it is about all of them together."""
    if drafts[0].field.kind not in BY_KEY:
        return drafts[0].field.id
    key = getattr(error, "key", None)
    return next((draft.field.id for draft in drafts if draft.field.key == key), "")


def _given(drafts: Sequence[Draft]) -> Given:
    field = drafts[0].field
    if field.kind in BY_KEY:
        return field.kind, {draft.field.key: draft.value for draft in drafts}, 0
    value = drafts[0].value
    if field.kind in BY_NAME and isinstance(value, Mapping) and isinstance(field.recorded, Mapping):
        value = _difference(field.recorded, value)
    return field.kind, value, field.call


def _difference(recorded: Mapping[str, Any], value: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that are new or other, and None for those that are gone."""
    gone = {name: None for name in recorded if name not in value}
    return gone | {
        name: given
        for name, given in value.items()
        if name not in recorded or _codec.encode(given) != _codec.encode(recorded[name])
    }
