"""Modules that a function imports when it runs.

Such a module may not be loaded yet, and must count the same before and after it is. So
it is found and read without importing it, and counts by its whole text, as do those of
the user's modules that it imports in turn.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import ModuleSpec, PathFinder

from rewind_nb._code._names import Import
from rewind_nb._code._source import compiled, source_digest
from rewind_nb._code._value import is_own_file

__all__ = ["ModuleText", "imported_modules", "module_text"]


@dataclass(frozen=True, slots=True)
class ModuleText:
    """One of the user's modules, read from its file.

    Attributes:
        body: the digest of the text without comments and layout.
        modules: full names of the modules that it imports anywhere.
    """

    body: str
    modules: tuple[str, ...]


def imported_modules(statement: Import, package: str) -> Iterator[str]:
    """The full names that an import statement may load.

    Example:
        >>> list(imported_modules(("tools", 1, ("clean",)), "shop"))
        ['shop.tools', 'shop.tools.clean']
    """
    name, level, names = statement
    if level:
        above = package.split(".")
        base = ".".join(above[: len(above) - level + 1])
        name = f"{base}.{name}".strip(".")
    yield name
    yield from (f"{name}.{part}" for part in names if part != "*")


def module_text(name: str) -> ModuleText | None:
    """The text of one of the user's modules; None where it has none or is not theirs."""
    spec = _find(name)
    if spec is None or not spec.has_location or not spec.origin or not is_own_file(spec.origin):
        return None
    linecache.checkcache(spec.origin)
    text = "".join(linecache.getlines(spec.origin))
    package = name if spec.submodule_search_locations else name.rpartition(".")[0]
    return _read(text, package)


def _find(name: str) -> ModuleSpec | None:
    """Find a module without importing its parents, as `importlib.util` would."""
    spec, path = None, None
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        spec = PathFinder.find_spec(".".join(parts[:end]), path)
        if spec is None:
            return None
        path = list(spec.submodule_search_locations or ())
    return spec


@lru_cache(maxsize=64)
def _read(text: str, package: str) -> ModuleText | None:
    tree = compiled(text, ast.PyCF_ONLY_AST)
    body = None if tree is None else source_digest(tree)
    if body is None:  # an extension module, or generated text that nests too deep
        return None
    statements = {s for node in ast.walk(tree) for s in _statements(node)}
    names = {name for s in statements for name in imported_modules(s, package)}
    return ModuleText(body, tuple(sorted(names)))


def _statements(node: ast.AST) -> Iterator[Import]:
    if isinstance(node, ast.Import):
        yield from ((alias.name, 0, ()) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield node.module or "", node.level, tuple(alias.name for alias in node.names)
