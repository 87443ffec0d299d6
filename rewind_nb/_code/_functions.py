"""What a function says, and what the names in it stand for.

A function of other people's counts by its name; where it wraps something (a decorator's
closure, ``__wrapped__``), what it wraps and what it was configured with count too.
"""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rewind_nb._code._imports import imported_modules, module_text
from rewind_nb._code._names import Chain, Import, stored_cells, stored_globals
from rewind_nb._code._source import code_facts
from rewind_nb._code._value import (
    attributes,
    class_dict,
    constant,
    is_own_function,
    is_own_module,
    module_dict,
    qualified_name,
)
from rewind_nb._code._walk import Found, Graph, Place, Token

__all__ = ["Imported", "functions_in", "read_function", "read_imported", "read_name"]

# What a module knows about itself; it differs between a notebook and an import.
_MODULE_FACTS = {"__name__", "__file__", "__doc__", "__package__", "__spec__", "__loader__"}


def read_function(graph: Graph, function: types.FunctionType) -> Token:
    """The tokens of a function."""
    wrapped = function.__dict__.get("__wrapped__")
    tokens = ["function", _defaults(graph, function), graph.value(Place("", listed=False), wrapped)]
    if not is_own_function(function) and id(function) not in graph.found.roots:
        return [*tokens, qualified_name(function), _closure(graph, function)]
    facts = code_facts(function.__code__)
    tokens += [facts.body, _closure(graph, function, facts.references.cells)]
    tokens += _names(graph, function, facts.references.names)
    tokens += [
        _import(graph, function, statement) for statement in sorted(facts.references.imports)
    ]
    graph.found.followed.add(qualified_name(function))
    graph.found.part(_label(graph, function), facts.body)
    return tokens


def _label(graph: Graph, function: types.FunctionType) -> str:
    """How a change of its text is told."""
    if id(function) in graph.found.roots:
        return "its text"
    module = function.__globals__.get("__name__")
    return f"helper {graph.found.name(module, function.__code__.co_qualname)}"


def _place(
    graph: Graph, function: types.FunctionType, kind: str, name: str, *, rebound: bool = False
) -> Place:
    """A default or a cell; qualified unless it is the target's own."""
    if id(function) not in graph.found.roots:
        name = f"{function.__code__.co_qualname}.{name}"
        name = graph.found.name(function.__globals__.get("__name__"), name)
    return Place(f"{kind} {name}", rebound=rebound, listed=is_own_function(function))


def _defaults(graph: Graph, function: types.FunctionType) -> Token:
    code = function.__code__
    values = function.__defaults__ or ()
    positional = code.co_varnames[: code.co_argcount][code.co_argcount - len(values) :]
    named = [
        *zip(positional, values, strict=False),
        *sorted((function.__kwdefaults__ or {}).items()),
    ]
    return [
        [name, graph.value(_place(graph, function, "default", name), value)]
        for name, value in named
    ]


def _closure(
    graph: Graph, function: types.FunctionType, chains: set[Chain] | frozenset[Chain] = frozenset()
) -> Token:
    cells = dict(_cells(function))
    rebound = set(stored_cells(function.__code__))
    for value in cells.values():  # a sibling may rebind what this one reads
        if type(value) is types.FunctionType:
            rebound |= stored_cells(value.__code__)
    loaded = {chain[0] for chain in chains}
    bare = {(name,) for name in function.__code__.co_freevars if name not in loaded}
    tokens: list[Token] = []
    for chain in sorted({*chains, *bare}):
        place = _place(graph, function, "closure", chain[0], rebound=chain[0] in rebound)
        known = chain[0] in cells
        held = _along(graph, place, cells[chain[0]], chain[1:]) if known else "empty"
        tokens.append([chain, held])
    return tokens


def _cells(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # not assigned yet
            continue


# -- global names ----------------------------------------------------------------------


def _names(graph: Graph, function: types.FunctionType, chains: set[Chain]) -> list[Token]:
    scope = function.__globals__
    rebound = stored_globals(function.__code__)
    return [[chain, read_name(graph, scope, chain, rebound)] for chain in sorted(chains)]


def read_name(
    graph: Graph, scope: Mapping[str, Any], chain: Chain, rebound: frozenset[str] = frozenset()
) -> Token:
    """What a chain of names stands for in a module."""
    root = chain[0]
    if root in _MODULE_FACTS:
        return "module"
    if root not in scope:
        return "builtin" if root in vars(builtins) else "missing"
    label = f"global {graph.found.name(scope.get('__name__'), root)}"
    rebound |= _rebound_in(graph.found, scope)
    return _along(graph, Place(label, rebound=root in rebound), scope[root], chain[1:])


def _along(graph: Graph, place: Place, value: Any, rest: Chain) -> Token:
    """Follow attributes as long as they are those of the user's modules."""
    while rest and issubclass(type(value), types.ModuleType) and not place.rebound:
        members = module_dict(value)
        module, name = str(members.get("__name__")), rest[0]
        if not is_own_module(module):
            return _foreign_member(graph, module, value, rest)
        if name not in members:
            return "missing"
        label = f"global {graph.found.name(module, name)}"
        place = Place(label, rebound=name in _rebound_in(graph.found, members))
        value, rest = members[name], rest[1:]
    return graph.value(place, value)


def _foreign_member(graph: Graph, module: str, value: Any, rest: Chain) -> Token:
    """Other people's code counts by name; their objects are hidden state: `os.environ`."""
    name = module
    for part in rest:
        if not issubclass(type(value), types.ModuleType) or part not in module_dict(value):
            break
        value, name = module_dict(value)[part], f"{name}.{part}"
    known = constant(value) is not None or issubclass(type(value), types.ModuleType)
    if not known and not callable(value):
        graph.found.hide(Place(f"global {name}"), value)
    return [module, *rest]


def _rebound_in(found: Found, scope: Mapping[str, Any]) -> frozenset[str]:
    """The globals of a module that any function of that module rebinds."""
    if id(scope) not in found.rebound:
        inside = [f for v in list(scope.values()) for f in functions_in(v, scope.get("__name__"))]
        stored = (stored_globals(f.__code__) for f in inside if f.__globals__ is scope)
        found.rebound[id(scope)] = frozenset().union(*stored)
    return found.rebound[id(scope)]


def functions_in(value: Any, module: Any = None) -> Iterator[types.FunctionType]:
    """A function with what it wraps, or the methods of a class of that module."""
    if type(value) is types.FunctionType:
        yield value
        yield from functions_in(value.__dict__.get("__wrapped__"))
    elif type(value) in (classmethod, staticmethod, property):
        for inner in attributes(value).values():
            yield from functions_in(inner)
    elif module and issubclass(type(value), type) and class_dict(value).get("__module__") == module:
        for member in list(class_dict(value).values()):
            yield from functions_in(member)


# -- imports inside a function ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Imported:
    """A module that a function imports when it runs."""

    name: str


def _import(graph: Graph, function: types.FunctionType, statement: Import) -> Token:
    scope = function.__globals__
    package = scope.get("__package__") or str(scope.get("__name__")).rpartition(".")[0]
    return [_imported(graph, name) for name in imported_modules(statement, package)]


def _imported(graph: Graph, name: str) -> Token:
    standard = name.partition(".")[0] in sys.stdlib_module_names
    if standard or module_text(name) is None:
        return name
    return graph.unit(Imported(name), ("import", name))


def read_imported(graph: Graph, unit: Imported) -> Token:
    """The tokens of a module that is imported inside a function."""
    text = module_text(unit.name)
    if text is None:  # removed meanwhile
        return unit.name
    tokens = ["module", text.body, *(_imported(graph, name) for name in text.modules)]
    graph.found.followed.add(unit.name)
    graph.found.part(f"module {unit.name}", text.body)
    return tokens
