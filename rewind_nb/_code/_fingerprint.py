"""The fingerprint of one callable, as a value that can be stored and compared."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rewind_nb._code._classes import read_class, read_instance, read_wrapper
from rewind_nb._code._functions import Imported, read_function, read_imported
from rewind_nb._code._value import attributes, class_dict, digest
from rewind_nb._code._walk import Encode, Found, Graph, Place, Token, is_wrapper

__all__ = ["CodeFingerprint", "fingerprint"]


@dataclass(frozen=True, slots=True)
class CodeFingerprint:
    """What the code of one callable is, as far as it can be followed.

    Attributes:
        digest: SHA-256 (hex) of code, defaults, bound parameters and constants.
        hidden_state: what counts by its type only, such as ``global client:
            openai.OpenAI``; sorted.
        followed: full names of the functions, classes and modules that took part; sorted.
        containers: the place of each value that may change while the code runs (a
            mutable container, a name that code rebinds, an attribute of ``self``) and
            the digest of its content now. Not part of `digest`; see `digest_with`.
        parts: what each function, class and constant says itself, by its name such as
            ``helper fmt`` or ``global LIMIT``: short numbers as they are, all else as
            ``#`` and a digest. For `explain`.
    """

    digest: str
    hidden_state: tuple[str, ...]
    followed: tuple[str, ...]
    containers: Mapping[str, str]
    parts: Mapping[str, str] = field(default_factory=dict, repr=False)

    def holds(self, kept: Mapping[str, str]) -> bool:
        """Whether containers hold what they held before.

        Args:
            kept: their content digests by name, "" for one that changed and so tells nothing.
        """
        return all(self.containers.get(name) == held for name, held in kept.items() if held)

    def digest_with(self, stable: Collection[str]) -> str:
        """The digest of the code and of these containers' content.

        Args:
            stable: names in `containers` whose content is known not to change, such as
                those that were equal at the start and at the end of a run. A name that
                this fingerprint lacks counts as absent.

        Returns:
            SHA-256 (hex); `digest` itself where no name is given.

        Example:
            >>> limits = {"total": 5}
            >>> one = fingerprint(lambda x: x < limits["total"])
            >>> limits["total"] = 6
            >>> two = fingerprint(lambda x: x < limits["total"])
            >>> one.containers == two.containers
            False
        """
        if not stable:
            return self.digest
        return digest([self.digest, [[n, self.containers.get(n)] for n in sorted(set(stable))]])


def fingerprint(
    target: Callable[..., Any] | type | object,
    *,
    bound: Mapping[str, Any] | None = None,
    encode: Encode | None = None,
) -> CodeFingerprint:
    """Compute the code fingerprint of a function, class, bound method or other callable.

    Nothing of the user's is executed. It does not depend on file paths, line numbers,
    addresses, the hash seed or the order of imports.

    Args:
        target: what will be called; read whoever wrote it.
        bound: parameters bound to it by name.
        encode: exact encoding of a value to bytes, raising `NotEncodableError`; what it
            accepts counts by content. Without it, lists, dicts and sets of constants do.

    Returns:
        The fingerprint. Where no source can be found the code object stands in for it,
        and the digest is stable within one minor version of Python only.

    Example:
        >>> fingerprint(len).followed
        ()
        >>> first = fingerprint(lambda x: x + 1)
        >>> second = fingerprint(lambda x: x + 2)
        >>> first.digest == second.digest
        False
    """
    found = Found(encode, _module_of(target), frozenset(map(id, _roots(target))))
    graph = Graph(found, _read)
    known = graph.code(Place("target"), target)
    tokens: list[Token] = [graph.unit(target) if known is None else known]
    for name, value in sorted((bound or {}).items()):
        tokens.append([name, graph.value(Place(f"bound {name}"), value)])
    code = graph.close(tokens)
    for place, value in found.pending:  # grows while it is read
        inner = Graph(found, _read)
        found.contents[place.label] = inner.close(inner.content(place, value))
    return CodeFingerprint(
        digest=code,
        hidden_state=tuple(sorted(found.hidden)),
        followed=tuple(sorted(found.followed)),
        containers=dict(sorted(found.contents.items())),
        parts={label: _one(sorted(said)) for label, said in sorted(found.parts.items())},
    )


def _one(said: list[str]) -> str:
    return said[0] if len(said) == 1 else f"#{digest(said)[:12]}"


def _roots(target: Any) -> Iterator[Any]:
    """The objects that are the target itself: what it binds and wraps included."""
    while True:
        yield target
        held = attributes(target)
        if type(target) is types.MethodType:
            yield held["__self__"]
            target = held["__func__"]
        elif issubclass(type(target), functools.partial):
            target = held["func"]
        else:
            return


def _module_of(target: Any) -> str | None:
    """The module whose names are written without it."""
    *_, last = _roots(target)
    if type(last) is types.FunctionType:
        return last.__globals__.get("__name__")
    return class_dict(last if issubclass(type(last), type) else type(last)).get("__module__")


def _read(graph: Graph, unit: Any) -> Token:
    if type(unit) is types.FunctionType:
        return read_function(graph, unit)
    if issubclass(type(unit), type):
        return read_class(graph, unit)
    if type(unit) is Imported:
        return read_imported(graph, unit)
    return read_wrapper(graph, unit) if is_wrapper(unit) else read_instance(graph, unit)
