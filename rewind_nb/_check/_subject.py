"""A run as a check sees it: its final state, its output, and what is beside the state."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

from rewind_nb import _path
from rewind_nb._describe import displayed, short
from rewind_nb._path import MISSING, Part, Root
from rewind_nb.errors import did_you_mean

__all__ = ["Checked", "Subject"]


class Checked(Protocol):
    """What a check reads of a run; a `Run` has it."""

    @property
    def state(self) -> Mapping[str, Any]: ...
    @property
    def status(self) -> str: ...
    @property
    def steps(self) -> Sequence[Any]: ...
    @property
    def usage(self) -> Any: ...
    @property
    def graph_description(self) -> Mapping[str, Any]: ...


class Subject:
    """A run as checks see it, each part read when a check first asks for it."""

    def __init__(self, run: Checked) -> None:
        self.run = run

    def walk(self, path: Sequence[Part]) -> tuple[Any, str]:
        """The value at a path, or `MISSING` and why there is none."""
        value, known = self.part(path[0]), self.names()
        for n, part in enumerate(path):
            if n:
                children = _children(value)
                value, known = children.get(part, MISSING), [str(k) for k in children]
            if value is MISSING:
                whole = _path.render(path)
                where = f"{_path.render(path[:n])} has no" if n else "there is no"
                near = did_you_mean(str(part), known)
                named = f" ({where} {part!r})" if n else ""
                return MISSING, displayed(f"{whole} is missing{named}. {near}")
        return value, ""

    def part(self, name: Part) -> Any:
        """The value at the first part of a path: a root, the output, a state field."""
        if isinstance(name, Root):
            return self._roots[name]()
        if name == "output" and "output" not in self.state:
            return self.output
        return self.state.get(name, MISSING) if isinstance(name, str) else MISSING

    def names(self) -> list[str]:
        """What a path may begin with."""
        return [*self.state, "output", *self._roots]

    @cached_property
    def state(self) -> Mapping[str, Any]:
        return self.run.state

    @cached_property
    def output(self) -> Any:
        """The text that the last completed step wrote, or all it wrote as JSON."""
        for step in reversed(self.run.steps):
            if step.status == "complete":
                writes = step.writes or step.result
                texts = list(writes.values()) if isinstance(writes, dict) else []
                if len(texts) == 1 and isinstance(texts[0], str):
                    return texts[0]
                return json.dumps(_jsonable(writes), ensure_ascii=False)
        return MISSING

    @cached_property
    def visits(self) -> dict[str, int]:
        """How often each action of the application occurred; those that never did with 0."""
        described = self.run.graph_description.get("actions", ())
        counts = {action["name"]: 0 for action in described}
        for step in self.run.steps:
            counts[step.action] = counts.get(step.action, 0) + 1
        return counts

    @cached_property
    def _roots(self) -> dict[str, Callable[[], Any]]:
        return {
            "@status": lambda: self.run.status,
            "@error": self._error,
            "@action": lambda: self.run.steps[-1].action if self.run.steps else None,
            "@usage": lambda: self.run.usage and self.run.usage.to_dict(),
            "@visits": lambda: self.visits,
        }

    def _error(self) -> str | None:
        error = self.run.steps[-1].error if self.run.steps else None
        return None if error is None else f"{error.type}: {error.message}"


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k if isinstance(k, str) else short(k): _jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_jsonable(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    fields = _fields(value)
    return short(value, 1_000) if fields is None else _jsonable(fields)


def _fields(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass, a pydantic model or an object whose class is not loaded."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    declared = getattr(type(value), "model_fields", None)
    if isinstance(declared, dict):
        return {name: getattr(value, name) for name in declared}
    fields = getattr(value, "fields", None) if hasattr(value, "class_name") else None
    return fields if isinstance(fields, dict) else None


def _children(value: Any) -> Mapping[Any, Any]:
    """The parts of a value, by what a path calls them."""
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            return value
        return {k if isinstance(k, str) else _key_text(k): v for k, v in value.items()}
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    return _fields(value) or {}


def _key_text(key: Any) -> str:
    """How a path names a key that is no text: 1 as ``["1"]``."""
    return json.dumps(key) if key is None or isinstance(key, int | float) else short(key)
