"""The names that a piece of code refers to, and those it rebinds.

Read from the code that runs, so that scoping is the compiler's own: a chain such as
``("helpers", "clean")`` starts at a global name or at a closure name. A `name_chains`
of an AST is for what is not in the code object: decorators, annotations.
"""

from __future__ import annotations

import ast
import dis
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType

__all__ = [
    "Chain",
    "Import",
    "References",
    "name_chains",
    "references",
    "stored_attributes",
    "stored_cells",
    "stored_globals",
    "with_nested",
]

Chain = tuple[str, ...]
Import = tuple[str, int, tuple[str, ...]]  # name, level, from-list

_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_CELL = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}


@dataclass(slots=True)
class References:
    """What `references` read.

    Attributes:
        names: chains that start at a global (or builtin) name.
        cells: chains that start at a closure name of the outermost code.
        imports: import statements inside the code.
    """

    names: set[Chain] = field(default_factory=set)
    cells: set[Chain] = field(default_factory=set)
    imports: set[Import] = field(default_factory=set)


def references(outermost: CodeType) -> References:
    """The references of a code object and of the code nested in it."""
    found = References()
    for code in with_nested(outermost):
        _read(_steps(code), found)
    found.cells = {chain for chain in found.cells if chain[0] in outermost.co_freevars}
    return found


def with_nested(code: CodeType) -> Iterator[CodeType]:
    """A code object and, depth first, the code among its constants."""
    yield code
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from with_nested(value)


def _steps(code: CodeType) -> list[dis.Instruction]:
    return [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]


def _read(steps: list[dis.Instruction], found: References) -> None:
    # A class body loads its own names like global ones.
    local = {step.argval for step in steps if step.opname == "STORE_NAME"} | {"__name__"}
    for at, step in enumerate(steps):
        if step.opname == "IMPORT_NAME":
            level, names = steps[at - 2].argval, steps[at - 1].argval
            found.imports.add((step.argval, level, tuple(names or ())))
        elif step.opname in _CELL:
            found.cells.add(_chain(steps, at))
        elif step.opname in _GLOBAL and step.argval not in local:
            found.names.add(_chain(steps, at))


def _chain(steps: list[dis.Instruction], at: int) -> Chain:
    names = [steps[at].argval]
    for step in steps[at + 1 :]:
        if step.opname not in {"LOAD_ATTR", "LOAD_METHOD"}:
            break
        names.append(step.argval)
    return tuple(names)


# -- what code rebinds -----------------------------------------------------------------


@lru_cache(maxsize=8192)
def stored_globals(code: CodeType) -> frozenset[str]:
    """The global names that code rebinds (``global x``)."""
    return frozenset(name for _, name in _stores(code, "STORE_GLOBAL", "DELETE_GLOBAL"))


@lru_cache(maxsize=8192)
def stored_cells(code: CodeType) -> frozenset[str]:
    """The closure names of this code that it rebinds (``nonlocal x``)."""
    stores = _stores(code, "STORE_DEREF", "DELETE_DEREF")
    rebound = {name for inner, name in stores if name in inner.co_freevars}
    return frozenset(rebound & set(code.co_freevars))


@lru_cache(maxsize=8192)
def stored_attributes(code: CodeType) -> frozenset[str]:
    """The names of attributes that code assigns, on whatever object."""
    return frozenset(name for _, name in _stores(code, "STORE_ATTR", "DELETE_ATTR"))


def _stores(outermost: CodeType, *operations: str) -> Iterator[tuple[CodeType, str]]:
    wanted = {dis.opmap[name] for name in operations}
    for code in with_nested(outermost):
        # Most code has none: looking at its bytes costs far less than decoding them.
        if wanted & set(code.co_code[::2]):
            steps = dis.get_instructions(code)
            yield from ((code, step.argval) for step in steps if step.opname in operations)


# -- names in text ---------------------------------------------------------------------


def name_chains(tree: ast.AST) -> Iterator[Chain]:
    """Every name in an expression, with the attributes that follow it.

    Example:
        >>> sorted(name_chains(ast.parse("list[shop.Item]")))
        [('list',), ('shop', 'Item')]
    """
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        names: list[str] = []
        root: ast.AST = node
        while isinstance(root, ast.Attribute):
            names.append(root.attr)
            root = root.value
        if isinstance(root, ast.Name) and id(node) not in inner:
            yield (root.id, *reversed(names))
